"""The delta as a property: a head with parts put and removed, against an independent edit of it."""

from __future__ import annotations

import copy
import json
from typing import Any

import document as model
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_write_path import (
    AT,
    LIVE,
    MISCOUNTED,
    PROVIDER,
    documents,
    encode,
    expected,
    get,
    layout,
    module,
    number,
    odd_text,
    quote,
    rows_of,
    text,
    value,
    write,
)

OTHER = 'provider["registry.terraform.io/hashicorp/null"].other'
counter = iter(range(10**6))


@pytest.fixture(scope="module")
def connection(make_database: Any) -> Any:
    with psycopg.connect(make_database(), autocommit=True) as conn:
        yield conn


def write_delta(
    conn: psycopg.Connection[Any], name: str, delta: dict[str, Any], **payload: Any
) -> dict[str, Any]:
    row = conn.execute(
        "select kilolock._write_delta(s, %s, 'state-engine', 'tester', %s)"
        " from kilolock.states s where s.name = %s",
        (json.dumps(delta), json.dumps(payload), name),
    ).fetchone()
    assert row
    return dict(row[0])


@st.composite
def changes(draw: st.DrawFn) -> dict[str, Any]:
    """Parts of a delta; what they remove is chosen when the document is there."""
    puts = []
    for _ in range(draw(st.integers(0, 3))):
        key = draw(st.none() | st.integers(0, 4) | text)
        instance: dict[str, Any] = {} if key is None else {"index_key": key}
        if draw(st.integers(0, 5)) == 0:
            instance["deposed"] = "deadbeef"
        instance["schema_version"] = draw(st.integers(0, 3))
        instance["attributes"] = draw(st.dictionaries(odd_text, value, max_size=3))
        instance["n"] = draw(number)
        puts.append(
            {
                "module": draw(module | st.just('module.é["<&>\\n"]')),
                "mode": draw(st.sampled_from(["managed", "data"])),
                "type": draw(st.sampled_from(["test", "test", "aaa"])),
                "name": draw(st.sampled_from("abcd")),
                "provider": draw(st.sampled_from([PROVIDER, PROVIDER, OTHER])),
                "instance": encode(instance, **draw(layout)).decode(),
            }
        )
    outputs = {
        n: {"value": draw(value), "type": "string"} for n in draw(st.sets(st.sampled_from("vwx<")))
    }
    checks = [
        {"object_kind": "check", "config_addr": f"check.{n}", "status": "pass", "objects": None}
        for n in draw(st.sets(st.sampled_from("ab")))
    ]
    gone = draw(st.sets(st.sampled_from("ab")))
    return {
        "put": puts,
        "remove": draw(st.lists(st.integers(0, 20), max_size=3)),
        "outputs": {
            "put": {n: encode(o, **draw(layout)).decode() for n, o in outputs.items()},
            "remove": [n for n in draw(st.sets(st.sampled_from("xyz"))) if n not in outputs],
        },
        "check_results": {
            "put": [json.dumps(c) for c in checks],
            "remove": [
                {"object_kind": "check", "config_addr": f"check.{n}"}
                for n in gone
                if n not in [c["config_addr"][-1] for c in checks]
            ],
        },
    }


def settle(document: dict[str, Any], delta: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Make a delta fit the document: addresses for its numbers, nothing twice."""
    puts: dict[Any, Any] = {}
    for put in delta["put"]:
        instance = model.parse(put["instance"])
        header = model.Members(
            (json.dumps(k), model.token(put[k])) for k in ("module", "mode", "type", "name")
        )
        puts.setdefault((model.block_key(header), model.instance_key(instance)), put)
    delta["put"] = list(puts.values())
    there = []
    for block in document["resources"] or []:
        prefix = f"{block['module']}." if block.get("module") else ""
        data = "data." if block["mode"] == "data" else ""
        for instance in block["instances"] or []:
            key = instance.get("index_key")
            address = f"{prefix}{data}{block['type']}.{block['name']}"
            address += "" if key is None else quote(key)
            at = model.block_key(model.parse(json.dumps({**block, "instances": []})))
            which = model.instance_key(model.parse(json.dumps(instance)))
            if (at, which) not in puts:
                there.append((address, instance.get("deposed"), at, which))
    chosen = {n % len(there) for n in delta["remove"]} if there else set()
    delta["remove"] = [{"address": there[n][0], "deposed": there[n][1]} for n in chosen]
    return [(there[n][2], there[n][3]) for n in chosen]


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    documents(), layout, st.sampled_from(["\n", ""]), st.lists(changes(), min_size=1, max_size=3)
)
def test_a_delta_gives_what_an_independent_edit_gives(
    connection: Any, start: dict[str, Any], how: Any, ending: str, deltas: list[dict[str, Any]]
) -> None:
    name = f"delta-{next(counter)}"
    body = encode(start | {"serial": 7}, **how) + ending.encode()
    versions = {write(connection, name, body)[1]["version"]: body}
    serial = 7
    for drawn in deltas:
        delta = copy.deepcopy(drawn)
        removed = settle(json.loads(body), delta)
        serial += 1
        result = write_delta(connection, name, delta, note="x")
        assert result["serial"] == serial
        wanted = model.edit(body.decode(), delta, removed, serial)
        was_laid_out = (
            model.render(model.lay_out(model.parse(body.decode()))) + "\n" == body.decode()
        )
        body = get(connection, name, None)
        if was_laid_out:
            assert body.decode() == wanted
        else:
            assert model.lay_out(model.parse(body.decode())) == model.parse(wanted)
        versions[result["version"]] = body
        document = json.loads(body)
        assert rows_of(connection, LIVE, name) == expected_rows(document)
        assert connection.execute(MISCOUNTED).fetchall() == []
        assert write(connection, name, body)[1]["changed"] is False
    for version, held in versions.items():
        assert get(connection, name, version) == held
        assert rows_of(connection, AT, name, version) == expected_rows(json.loads(held))


def expected_rows(document: dict[str, Any]) -> Any:
    for block in document["resources"]:
        for instance in block["instances"]:
            instance.setdefault("attributes", None)
    return expected(document)


def refusal(conn: psycopg.Connection[Any], name: str, delta: Any) -> str:
    with pytest.raises(psycopg.Error) as caught:
        write_delta(conn, name, delta)
    return caught.value.sqlstate or ""


@pytest.mark.parametrize(
    "delta",
    [
        None,
        [],
        {"put": {}},
        {"put": [1]},
        {"put": [{"mode": "managed", "type": "t", "name": "n"}]},
        {"put": [{"mode": "other", "type": "t", "name": "n", "instance": '{"a":1}'}]},
        {"put": [{"mode": "managed", "type": "t", "name": 1, "instance": '{"a":1}'}]},
        {"put": [{"mode": "managed", "type": "t", "name": "n", "instance": "[]"}]},
        {"put": [{"mode": "managed", "type": "t", "name": "n", "instance": "{}"}]},
        {"put": [{"mode": "managed", "type": "t", "name": "n", "instance": '{"a":}'}]},
        {"put": [{"mode": "managed", "type": "t", "name": "n", "instance": '{"a":1} {}'}]},
        {"put": [{"mode": "managed", "type": "t", "name": "n", "instance": '{"a":1}'}] * 2},
        {"remove": ["test.a"]},
        {"remove": [{"address": "test.a", "deposed": 1}]},
        {
            "put": [{"mode": "managed", "type": "test", "name": "a", "instance": '{"a":1}'}],
            "remove": [{"address": "test.a"}],
        },
        {"outputs": {"put": {"a": {"value": 1}}}},
        {"outputs": {"put": {"a": "1"}}},
        {"outputs": {"remove": [1]}},
        {"check_results": {"put": ["1"]}},
        {"check_results": {"remove": ["x"]}},
    ],
)
def test_a_delta_that_cannot_be_read_is_refused(connection: Any, delta: Any) -> None:
    name = f"refused-{next(counter)}"
    body = encode(small(), indent=2)
    write(connection, name, body)
    assert refusal(connection, name, delta) == "KLB20"
    assert get(connection, name, None) == body


def test_what_is_not_there_cannot_be_removed(connection: Any) -> None:
    write(connection, "absent", encode(small(), indent=2))
    assert refusal(connection, "absent", {"remove": [{"address": "test.b"}]}) == "KLN04"
    deposed = {"remove": [{"address": "test.a", "deposed": "deadbeef"}]}
    assert refusal(connection, "absent", deposed) == "KLN04"


def test_an_encrypted_or_deleted_state_is_refused(connection: Any) -> None:
    write(connection, "tofu", b'{"serial":1,"lineage":"a","encrypted_data":"AA=="}')
    assert refusal(connection, "tofu", {}) == "KLC20"
    write(connection, "deleted", encode(small()))
    connection.execute("select kilolock.delete_state(null, null, 'deleted', null, null)")
    assert refusal(connection, "deleted", {}) == "KLN01"


def test_one_parts_change_leaves_every_other_byte(connection: Any) -> None:
    body = encode(small(), indent=2).decode() + "\n"
    body = body.replace('"x": 1', '"x": 1.50e400,\n            "y": "\\u0000\\ud800\\/"')
    write(connection, "exact", body.encode())
    output = {"outputs": {"put": {"o": '{"value":1e400,"type":"number"}'}}}
    assert write_delta(connection, "exact", output)["updated"] == 0
    wanted = body.replace('"serial": 1', '"serial": 2').replace(
        '"outputs": {}',
        '"outputs": {\n    "o": {\n      "value": 1e400,\n      "type": "number"\n    }\n  }',
    )
    assert get(connection, "exact", None).decode() == wanted


def small() -> dict[str, Any]:
    instance = {"schema_version": 0, "attributes": {"id": "a", "x": 1}}
    block = {"mode": "managed", "type": "test", "name": "a", "provider": PROVIDER}
    return {
        "version": 4,
        "terraform_version": "1.11.4",
        "serial": 1,
        "lineage": "a",
        "outputs": {},
        "resources": [block | {"instances": [instance]}],
        "check_results": None,
    }
