"""The commands about a state's past, each asking PostgreSQL directly and through a kld."""

from __future__ import annotations

import json
from typing import Any

import pytest
from test_cli import Kl, ask, failed, kl  # noqa: F401
from test_http import STATES, document


def rows(done: Any) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.fixture
def three(kld: Any) -> list[bytes]:
    """A state "prod" with three versions."""
    bodies = [document(1, "a"), document(2, "a", "b"), document(3, "b")]
    for body in bodies:
        assert kld.request("POST", f"{STATES}/prod", body)[0] == 200
    return bodies


def test_tags_are_set_listed_moved_and_unset(ask: Kl, three: list[bytes]) -> None:  # noqa: F811
    done = ask("tag", "set", "before upgrade", "prod", "--to", "@1")
    assert done.stdout == 'tag "before upgrade" of state "prod" is version 2, serial 2\n'
    assert ask("tag", "set", "now-ish", "prod").returncode == 0
    listed = rows(ask("tag", "list", "prod", "--format", "json"))
    assert [(r["state"], r["tag"], r["version"], r["resources"]) for r in listed] == [
        ("prod", "now-ish", 3, 1),
        ("prod", "before upgrade", 2, 2),
    ]
    assert "@" in listed[0]["set_by"]
    assert rows(ask("tag", "list", "--format", "json")) == listed
    assert "points to version 2, not 1" in failed(
        ask("tag", "set", "before upgrade", "prod", "--to", "1"), 4
    )
    done = ask("tag", "set", "before upgrade", "prod", "--to", "1", "--force")
    assert done.stdout.endswith("is version 1, serial 1; it was 2\n")
    assert ask("tag", "unset", "before upgrade", "prod").returncode == 0
    failed(ask("tag", "unset", "before upgrade", "prod"), 3)
    assert [r["tag"] for r in rows(ask("tag", "list", "prod", "--format", "json"))] == ["now-ish"]


def test_tags_that_cannot_be_are_refused(ask: Kl, three: list[bytes]) -> None:  # noqa: F811
    failed(ask("tag", "set", "12", "prod"), 2)
    failed(ask("tag", "set", "2026-11-30", "prod"), 2)
    failed(ask("tag", "set", "a\nb", "prod"), 2)
    failed(ask("tag", "set", "x"), 2)
    failed(ask("tag", "set", "x", "prod", "--to", "9"), 3)
    failed(ask("tag", "set", "x", "nowhere"), 3)
    failed(ask("tag", "list", "nowhere"), 3)


def test_actions_refuse_bodies_of_any_shape(kld: Any, three: list[bytes]) -> None:
    for action in ("tag/set", "tag/unset"):
        for body in (
            "",
            "[]",
            "null",
            "{",
            "{}",
            '{"state": 1, "tag": "x"}',
            '{"state": "prod"}',
            '{"state": "prod", "tag": ["x"]}',
            '{"state": "prod", "tag": "\\u0000"}',
            '{"state": "prod", "tag": "x", "version": {}, "force": 3}',
            '{"state": "prod", "tag": "' + "[" * 70000 + '"}',
            "\xff",
        ):
            status, _, answer = kld.request("POST", f"/v1/{action}", body.encode("latin-1"))
            assert status in (400, 404), (action, body[:40], answer)
    assert kld.request("POST", "/v1/tag/set", '{"state": "none", "tag": "x"}')[0] == 404
