"""The commands about a state's past, each asking PostgreSQL directly and through a kld."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
from typing import Any

import pytest
from conftest import CHECKOUT
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


def instance(**attributes: Any) -> dict[str, Any]:
    return {"schema_version": 0, "attributes": attributes, "sensitive_attributes": []}


def write(kld: Any, serial: int, who: str = "ann", name: str = "prod", **parts: Any) -> bytes:
    """POST a state with blocks {name: instances} and outputs, as Terraform would."""
    outputs = parts.pop("outputs", {})
    blocks = []
    for key, instances in parts.items():
        module, _, block = key.rpartition("__")
        named = {"module": f"module.{module}"} if module else {}
        named |= {"mode": "managed", "type": "test", "name": block, "provider": "p"}
        blocks.append(named | {"instances": instances})
    body = {"version": 4, "terraform_version": "1.11.4", "serial": serial, "lineage": "l"}
    text = json.dumps(body | {"outputs": outputs, "resources": blocks}, indent=2).encode()
    credentials = base64.b64encode(f"{who}:x".encode()).decode()
    status, _, answer = kld.request(
        "POST", f"{STATES}/{name}", text, {"Authorization": f"Basic {credentials}"}
    )
    assert status == 200, answer
    return text


@pytest.fixture
def life(kld: Any) -> list[bytes]:
    """A state "prod" that was changed, deleted, and made again."""
    secret = instance(id="s", user="u", password="one")
    path = [[{"type": "get_attr", "value": "password"}]]
    secret["sensitive_attributes"] = path
    changed = {**secret, "attributes": {**secret["attributes"], "password": "two"}}
    odd = 'a.b["x"]\n\u202e'
    output = {"vpc": {"value": "v-1", "type": "string"}}
    hidden = {"key": {"value": "one", "type": "string", "sensitive": True}}
    bodies = [
        write(
            kld, 1, outputs=output | hidden, a=[instance(id="a", tags={"Name": "x"})], s=[secret]
        ),
        write(
            kld,
            2,
            "bob",
            outputs={"vpc": {"value": "v-2", "type": "string"}} | hidden,
            a=[instance(id="a", tags={"Name": "y", "k.1": [1, None]})],
            s=[changed],
            net__each=[instance(id="e1") | {"index_key": odd}],
        ),
    ]
    assert kld.request("DELETE", f"{STATES}/prod")[0] == 200
    hidden["key"]["value"] = "two"
    bodies.append(write(kld, 3, "cat", outputs=hidden, s=[changed]))
    return bodies


def test_history_lists_versions_and_deletions(ask: Kl, life: list[bytes]) -> None:  # noqa: F811
    listed = rows(ask("history", "prod", "--format", "json"))
    assert [
        (r["version"], r["serial"], r["who"], r["source"], r["resources"], r["size"])
        for r in listed
    ] == [
        (3, 3, "cat", "apply", 1, len(life[2])),
        (None, None, "anonymous", "delete", 0, None),
        (2, 2, "bob", "apply", 3, len(life[1])),
        (1, 1, "ann", "apply", 2, len(life[0])),
    ]
    assert [(r["created"], r["updated"], r["deleted"]) for r in listed] == [
        (1, 0, 0),
        (0, 0, 3),
        (1, 2, 0),
        (2, 0, 0),
    ]
    assert ask("tag", "set", "v one", "prod", "--to", "1").returncode == 0
    lines = ask("history", "prod").stdout.splitlines()
    assert len(lines) == 5
    assert "+1 ~2 -0" in lines[3] and " bytes" in lines[3]
    assert lines[4].endswith("v one")
    done = ask("history", "prod", "--limit", "1", "--offset", "2", "--format", "csv")
    assert done.stdout.splitlines()[1].startswith("2,2,")
    assert "--offset 3" in done.stderr
    assert ask("history", "prod", "--offset", "9", "--format", "json").stdout == "[]\n"
    failed(ask("history", "nowhere"), 3)
    failed(ask("history"), 2)
    failed(ask("history", "prod", "--limit", "0"), 2)


def test_history_of_one_resource(ask: Kl, life: list[bytes]) -> None:  # noqa: F811
    told = rows(ask("history", "prod", "--address", "test.a", "--format", "json"))
    assert [(r["version"], r["who"], r["source"], r["change"], r["attribute"]) for r in told] == [
        (3, "anonymous", "delete", "delete", ""),
        (2, "bob", "apply", "update", "tags.Name"),
        (2, "bob", "apply", "update", 'tags["k.1"]'),
        (1, "ann", "apply", "create", ""),
    ]
    assert (told[1]["from"], told[1]["to"], told[2]["to"]) == ("x", "y", [1, None])
    text = ask("history", "prod", "--address", "test.a").stdout
    assert '"x"' in text and "[1, null]" in text
    done = ask("history", "prod", "--address", "test.s")
    assert "one" not in done.stdout and "two" not in done.stdout and "sha256" not in done.stdout
    assert done.stdout.count("(sensitive)") == 2
    older = ask("history", "prod", "--address", "test.a", "--offset", "1", "--limit", "1")
    assert "tags.Name" in older.stdout and "create" not in older.stdout
    failed(ask("history", "prod", "--address", "test.none"), 3)
    failed(ask("history", "nowhere", "--address", "test.a"), 3)


def test_diff_shows_values_and_hides_secrets(ask: Kl, life: list[bytes]) -> None:  # noqa: F811
    found = rows(ask("diff", "prod", "--from", "1", "--to", "serial:2", "--format", "json"))
    told = {(r["kind"], r["address"], r["attribute"]): (r["from"], r["to"]) for r in found}
    odd = [address for _, address, _ in told if address.startswith("module.net")]
    assert len(odd) == 1
    assert told == {
        ("resource", odd[0], ""): (None, {"id": "e1"}),
        ("resource", "test.a", "tags.Name"): ("x", "y"),
        ("resource", "test.a", 'tags["k.1"]'): (None, [1, None]),
        ("resource", "test.s", "password"): ("(sensitive)", "(sensitive)"),
        ("output", "vpc", ""): ("v-1", "v-2"),
    }
    text = ask("diff", "prod", "--from", "1", "--to", "2")
    assert "version 1" in text.stderr and "version 2" in text.stderr
    assert "output.vpc" in text.stdout and "\u202e" not in text.stdout
    assert len(text.stdout.splitlines()) == 6
    unified = ask("diff", "prod", "--from", "1", "--to", "2", "--format", "unified").stdout
    lines = unified.splitlines()
    assert lines[0].startswith("--- prod version 1 (serial 1")
    for line in (
        "@@ update test.a @@",
        '-tags.Name = "x"',
        '+tags.Name = "y"',
        "-password = (sensitive)",
        "+password = (sensitive)",
        '+id = "e1"',
        "@@ update output.vpc @@",
        '-value = "v-1"',
    ):
        assert line in lines
    for shown in (unified, text.stdout, json.dumps(found)):
        assert "sha256" not in shown and '"one"' not in shown and '"two"' not in shown


def test_diff_goes_either_way_and_counts(ask: Kl, life: list[bytes]) -> None:  # noqa: F811
    def summary(*more: str) -> list[tuple[str, str, int]]:
        done = ask("diff", "prod", "--summary", "--format", "json", *more)
        return [(r["change"], r["type"], r["count"]) for r in rows(done)]

    assert summary("--from", "1", "--to", "2") == [
        ("create", "test", 1),
        ("update", "test", 2),
        ("update", "output", 1),
    ]
    assert summary("--from", "2", "--to", "1") == [
        ("delete", "test", 1),
        ("update", "test", 2),
        ("update", "output", 1),
    ]
    # By default it is what the last write did; here it came after a deletion.
    assert summary() == [("delete", "test", 2), ("delete", "output", 1), ("update", "output", 1)]
    assert summary("--from", "1", "--to", "2", "--address", "test.*") == [("update", "test", 2)]
    assert summary("--from", "1", "--to", "2", "--address", "module.net.test.each[*]") == [
        ("create", "test", 1)
    ]
    # An address stands for its instances, and for what is in it.
    for address in ("module.net.test.each", "module.net", "module.n*.test"):
        more = ("--from", "1", "--to", "2", "--address", address)
        assert summary(*more) == [("create", "test", 1)]
        (found,) = rows(ask("diff", "prod", "--format", "json", *more))
        assert found["address"].startswith("module.net.test.each[")
    assert summary("--from", "1", "--to", "2", "--address", "module.ne") == []
    assert summary("--from", "1", "--to", "2", "--address", "test_a") == []
    assert summary("--from", "1", "--to", "2", "--address", "output.v?c") == [
        ("update", "output", 1)
    ]
    text = ask("diff", "prod", "--from", "1", "--to", "2", "--address", "output.*").stdout
    assert [line.split()[1] for line in text.splitlines()] == ["address", "output.vpc"]
    same = ask("diff", "prod", "--from", "current", "--to", "@0")
    assert same.stdout.splitlines() == ["change  address  attribute  from  to"]
    both = ask("diff", "prod", "--from", "3", "--to", "3", "--format", "unified").stdout
    assert len(both.splitlines()) == 2


def test_diff_refuses_what_is_not_there(ask: Kl, life: list[bytes], kld: Any) -> None:  # noqa: F811
    assert "no version 9" in failed(ask("diff", "prod", "--from", "9"), 3)
    assert '"yesteryear"' in failed(ask("diff", "prod", "--to", "yesteryear"), 3)
    failed(ask("diff", "nowhere"), 3)
    failed(ask("diff"), 2)
    failed(ask("diff", "prod", "--format", "xml"), 2)
    failed(ask("diff", "prod", "--summary", "--format", "unified"), 2)
    write(kld, 1, name="young")
    failed(ask("diff", "young"), 3)
    assert kld.request("DELETE", f"{STATES}/young")[0] == 200
    assert "@1 is the last" in failed(ask("diff", "young", "--from", "1"), 3)


def test_a_reader_that_has_seen_enough_is_no_failure(kl: Kl, kld: Any) -> None:  # noqa: F811
    write(kld, 1, **{f"r{n}": [instance(id="x" * 1000)] for n in range(300)})
    write(kld, 2)
    call = [sys.executable, "-c", "from kilolock.cli import main; main(prog_name='kl')", "diff"]
    for more in (["--format", "json"], ["--format", "unified"], []):
        command = subprocess.Popen(
            [*call, "prod", *more],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(CHECKOUT), "KL_STATE_URL": kld.url},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert command.stdout and command.stderr
        command.stdout.close()
        said = command.stderr.read().decode()
        assert command.wait(60) == 0 and "Error" not in said and "Broken" not in said, said


def test_prune_shows_then_removes(ask: Kl, three: list[bytes], kld: Any) -> None:  # noqa: F811
    assert ask("tag", "set", "first", "prod", "--to", "1").returncode == 0
    done = ask("prune", "prod", "--keep", "1", "--format", "json")
    assert [r["version"] for r in rows(done)] == [2]
    assert "would go" in done.stderr and "2 versions would be left" in done.stderr
    assert [r["version"] for r in rows(ask("history", "prod", "--format", "json"))] == [3, 2, 1]
    assert rows(ask("prune", "prod", "--keep-days", "1", "--format", "json")) == []
    assert ask("prune", "prod", "--keep-days", "0").stdout.splitlines()[1].startswith("2  ")
    done = ask("prune", "prod", "--keep", "1", "--apply")
    assert done.returncode == 0 and "1 version and" in done.stderr and "are gone" in done.stderr
    assert [r["version"] for r in rows(ask("history", "prod", "--format", "json"))] == [3, 1]
    assert kld.request("GET", "/v1/state-versions/prod?version=1")[2] == three[0]
    status, _, answer = kld.request("GET", "/v1/state-versions/prod?version=2")
    assert status == 404 and b"was pruned at" in answer
    assert "was pruned" in failed(ask("diff", "prod", "--from", "2"), 3)
    assert ask("diff", "prod").returncode == 0
    failed(ask("prune", "prod"), 2)
    failed(ask("prune", "prod", "--keep", "1", "--keep-days", "1"), 2)
    failed(ask("prune", "prod", "--keep", "0"), 2)
    failed(ask("prune", "prod", "--keep-days", "-1"), 2)
    failed(ask("prune", "nowhere", "--keep", "1"), 3)
    failed(ask("prune", "--keep", "1"), 2)


def test_purge_removes_one_version_if_it_may(ask: Kl, three: list[bytes], kld: Any) -> None:  # noqa: F811
    assert "head" in failed(ask("purge", "prod", "--version", "current", "--yes"), 4)
    assert ask("tag", "set", "bad", "prod", "--to", "2").returncode == 0
    assert "kl tag unset" in failed(ask("purge", "prod", "--version", "bad", "--yes"), 4)
    assert ask("tag", "unset", "bad", "prod").returncode == 0
    # Nobody is there to confirm it.
    assert "--yes" in failed(ask("purge", "prod", "--version", "@1"), 2)
    done = ask("purge", "prod", "--version", "@1", "--yes")
    assert done.returncode == 0 and "version 2 (serial 2" in done.stdout and "gone" in done.stdout
    assert kld.request("GET", "/v1/state-versions/prod?version=2")[0] == 404
    for version, body in ((1, three[0]), (3, three[2])):
        assert kld.request("GET", f"/v1/state-versions/prod?version={version}")[2] == body
    failed(ask("purge", "prod", "--version", "2", "--yes"), 3)
    failed(ask("purge", "prod", "--yes"), 2)
    failed(ask("purge", "nowhere", "--version", "1", "--yes"), 3)


def test_actions_refuse_bodies_of_any_shape(kld: Any, three: list[bytes]) -> None:
    for action in ("tag/set", "tag/unset", "prune", "purge"):
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
            '{"state": "prod", "tag": "x", "version": {}, "force": 3, "keep": [], "keep_days": {}}',
            '{"state": "prod", "version": "\\ud800", "keep": 1e400}',
            '{"state": "prod", "keep": 1, "apply": "yes"}',
            '{"state": "prod", "keep": -1, "version": -1}',
            '{"state": "prod", "tag": "' + "[" * 70000 + '"}',
            "\xff",
        ):
            status, _, answer = kld.request("POST", f"/v1/{action}", body.encode("latin-1"))
            assert status in (400, 404), (action, body[:40], answer)
    assert kld.request("POST", "/v1/tag/set", '{"state": "none", "tag": "x"}')[0] == 404


def test_versions_are_pruned_while_others_read_and_write(kld: Any) -> None:
    bodies: dict[int, bytes] = {}
    problems: list[Any] = []
    done = threading.Event()

    def until_done(act: Any) -> None:
        while not done.is_set():
            try:
                act()
            except Exception as ex:
                problems.append(ex)
                done.set()

    def prune() -> None:
        request = json.dumps({"state": "prod", "keep": 2, "apply": True})
        status, _, answer = kld.request("POST", "/v1/prune", request)
        if status not in (200, 404):
            problems.append((status, answer))

    def read() -> None:
        for ref in ("@1", "@2", "current", str(max(bodies, default=1))):
            path = f"/v1/state-versions/prod?version={ref}"
            status, headers, answer = kld.request("GET", path)
            version = int(headers.get("kilolock-version", 0))
            if status != 404 and (status != 200 or bodies.get(version, answer) != answer):
                problems.append((status, ref, version))

    others = [threading.Thread(target=until_done, args=(act,)) for act in (prune, read, read)]
    for thread in others:
        thread.start()
    try:
        for serial in range(1, 41):
            many = {f"n{i}": [instance(id=f"{i}-{serial * (i % 7 == 0)}")] for i in range(60)}
            bodies[serial] = write(kld, serial, **many)
    finally:
        done.set()
        for thread in others:
            thread.join()
    assert problems == []
    prune()
    assert kld.request("GET", f"{STATES}/prod")[2] == bodies[40]
    assert kld.request("GET", "/v1/state-versions/prod?version=@1")[2] == bodies[39]
    assert kld.request("GET", "/v1/state-versions/prod?version=38")[0] == 404
