"""kl rollback: a state, or one resource, back to what it was."""

from __future__ import annotations

import json
import re
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_cli import Kl, ask, failed, kl  # noqa: F401
from test_http import STATES, document, lock_info
from test_write_path import documents, encode, layout


@pytest.fixture(scope="module")
def connection(make_database: Any) -> Any:
    with psycopg.connect(make_database(), autocommit=True) as conn:
        yield conn


serial_key = st.sampled_from(['"serial"', '"\\u0073erial"', '"ser\\u0069al"'])
space = st.sampled_from(["", " ", "\n", "\t ", " " * 1200])


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    documents(),
    layout,
    st.lists(
        st.tuples(serial_key, st.sampled_from(["0", "18446744073709551615", "null", "7"])),
        max_size=3,
    ),
    st.integers(0, 2**64 - 1),
    st.lists(space, min_size=4, max_size=4),
)
def test_only_the_documents_own_serials_are_replaced(
    connection: Any,
    drawn: dict[str, Any],
    how: dict[str, Any],
    serials: list[tuple[str, str]],
    serial: int,
    spaces: list[str],
) -> None:
    drawn["outputs"]["serial"] = {"value": {"serial": 1, "\\": '"serial": 2'}, "type": "string"}
    members = encode(drawn, **how).decode().strip()[1:-1].strip()
    before, after, inner, end = spaces
    for key, value in serials:
        member = f"{key}{inner}:{after}{value}"
        members = f"{members},{before}{member}" if value == "7" else f"{member},{before}{members}"
    text = f"{before}{{{after}{members}{inner}}}{end}"
    row = connection.execute("select kilolock._set_serial(%s, %s)", (text, serial)).fetchone()

    place = re.compile(r'(?:"serial"|"\\u0073erial"|"ser\\u0069al")\s*:\s*([0-9]+|null)')
    wanted, at = "", 0
    depth = {0: 0}
    for found in re.finditer(r'"(?:[^"\\]|\\.)*"|[{}\[\]]', text):
        depth[0] += {"{": 1, "[": 1, "}": -1, "]": -1}.get(found[0], 0)
        member = place.match(text, found.start())
        if depth[0] == 1 and member and text[: found.start()].rstrip()[-1] in "{,":
            wanted += text[at : member.start(1)] + str(serial)
            at = member.end(1)
    assert row[0] == wanted + text[at:]


def test_a_document_without_a_serial_gets_one(connection: Any) -> None:
    for text in ('{"version":4}', '{\n  "version": 4,\n  "outputs": {"serial": 1}\n}\n'):
        row = connection.execute("select kilolock._set_serial(%s, 5)", (text,)).fetchone()
        assert json.loads(row[0]) == json.loads(text) | {"serial": 5}
        assert row[0].replace(',"serial":5', "") == text


def versions(kld: Any, *bodies: bytes) -> None:
    for body in bodies:
        assert kld.request("POST", f"{STATES}/prod", body)[0] == 200


def test_rollback_shows_what_would_change_and_stops(ask: Kl, kld: Any) -> None:  # noqa: F811
    versions(kld, document(1, "a", "b"), document(2, "b", "c"))
    done = ask("rollback", "prod", "--to", "@1")
    assert done.returncode == 0
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["change", "address"],
        ["create", "null_resource.a"],
        ["delete", "null_resource.c"],
    ]
    assert "State prod is at version 2 (serial 2, apply by" in done.stderr
    assert "1 created, 1 deleted in the state." in done.stderr
    assert done.stderr.endswith("Nothing is changed yet; --apply does it.\n")
    assert kld.request("GET", f"{STATES}/prod")[2] == document(2, "b", "c")
    shown = json.loads(ask("rollback", "prod", "--to", "1", "--format", "json").stdout)
    assert shown[0] == {
        "change": "create",
        "address": "null_resource.a",
        "deposed": None,
        "from_address": None,
    }


def test_rollback_writes_the_old_bytes_with_a_new_serial(ask: Kl, kld: Any) -> None:  # noqa: F811
    versions(kld, document(1, "a"), document(2, "b"), document(3))
    done = ask("rollback", "--state", "prod", "--to", "1", "--apply", "--yes")
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith("State prod is at version 4 now, serial 4.\n")
    assert kld.request("GET", f"{STATES}/prod")[2] == document(4, "a")
    done = ask("rollback", "prod", "--to", "1", "--apply", "--yes")
    assert "nothing to change" in done.stderr
    assert kld.request("GET", f"{STATES}/prod")[2] == document(4, "a")
    assert kld.request("POST", f"{STATES}/prod", document(5, "n"))[0] == 200


def test_rollback_brings_a_deleted_state_back(ask: Kl, kld: Any) -> None:  # noqa: F811
    versions(kld, document(1, "a"))
    assert kld.request("DELETE", f"{STATES}/prod")[0] == 200
    assert "State prod is deleted." in ask("rollback", "prod", "--to", "@1").stderr
    assert ask("rollback", "prod", "--to", "@1", "--apply", "--yes").returncode == 0
    assert kld.request("GET", f"{STATES}/prod")[2] == document(2, "a")


def test_rollback_is_refused_with_the_right_status(ask: Kl, kld: Any) -> None:  # noqa: F811
    versions(kld, document(1, "a"), document(2))
    failed(ask("rollback", "nope", "--to", "1"), 3)
    failed(ask("rollback", "prod", "--to", "9"), 3)
    failed(ask("rollback", "prod"), 2)
    failed(ask("rollback", "prod", "--state", "prod", "--to", "1"), 2)
    assert "pass --yes" in ask("rollback", "prod", "--to", "1", "--apply").stderr
    assert kld.request("LOCK", f"{STATES}/prod", lock_info("x"))[0] == 200
    assert ask("rollback", "prod", "--to", "1").returncode == 0
    said = failed(ask("rollback", "prod", "--to", "1", "--apply", "--yes"), 5)
    assert 'state "prod" is locked by' in said and "force-unlock x" in said
    assert kld.request("GET", f"{STATES}/prod")[2] == document(2)


def test_a_head_that_moved_meanwhile_is_kept(kld: Any) -> None:
    versions(kld, document(1, "a"), document(2, "b"))
    request = {"state": "prod", "version": "1", "apply": True, "base": 1}
    status, _, body = kld.request("POST", "/v1/rollback", json.dumps(request))
    assert status == 409
    assert json.loads(body)["error"]["code"] == "KLC21"
    assert kld.request("GET", f"{STATES}/prod")[2] == document(2, "b")


def test_a_state_named_resource_can_go_back(ask: Kl, kld: Any) -> None:  # noqa: F811
    for serial in (1, 2):
        assert kld.request("POST", f"{STATES}/resource", document(serial, f"n{serial}"))[0] == 200
    done = ask("rollback", "--state", "resource", "--to", "1", "--apply", "--yes")
    assert done.returncode == 0, done.stderr
    assert kld.request("GET", f"{STATES}/resource")[2] == document(3, "n1")


def test_a_plain_apply_works_after_a_rollback(configure: Any, kld: Any) -> None:
    work = configure()
    work.backend(f"{kld.url}/v1/states/prod")
    work.write("main.tf", 'resource "terraform_data" "a" {\n  input = 1\n}\n')
    work.init()
    work.apply()
    work.write("main.tf", 'resource "terraform_data" "b" {\n  input = 2\n}\n')
    work.apply()
    work.kl("rollback", "--to", "1", "--apply", "--yes")
    assert work.run("state", "list").split() == ["terraform_data.a"]
    assert "1 added, 0 changed, 1 destroyed" in work.apply()
    assert "No changes" in work.run("plan", "-input=false")
