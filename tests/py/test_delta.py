"""The delta as a property: a head with parts put and removed, against an independent edit of it."""

from __future__ import annotations

import copy
import hashlib
import json
import random
import re
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
            (json.dumps(k), model.token(put.get(k, ""))) for k in ("module", "mode", "type", "name")
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


def go(document: dict[str, Any], indent: int = 2) -> bytes:
    """A document with its strings escaped as Go does."""
    made = json.dumps(document, indent=indent, ensure_ascii=False) + "\n"
    return re.sub("[<>&\u2028\u2029\ud800-\udfff]", lambda m: f"\\u{ord(m[0]):04x}", made).encode()


def large(dice: random.Random) -> dict[str, Any]:
    """A document in Terraform's order whose blocks reach over several chunks."""
    blocks = []
    modules = ["", "module.a", 'module.b["k.1"]', 'module.b["k.2"].module.c', 'module.é["<"]']
    counts = [1, 1, 1, 1, 2, 5, 90, 300] + [0] * (dice.randrange(8) == 0)
    names = [
        (m, mode, f"n{i:03}") for m in modules for mode in ("managed", "data") for i in range(40)
    ]
    for mod, mode, name in sorted(dice.sample(names, dice.choice([3, 10, 60, 150]))):
        count = dice.choice(counts) if len(blocks) < 12 else 1
        kind = (
            dice.choice(["count", "each"])
            if count > 1
            else dice.choice(["single", "count", "each"])
        )
        keys: list[Any] = [None] * min(count, 1)
        if kind == "count":
            keys = sorted(dice.sample(range(count * 3), count))
        elif kind == "each":
            keys = sorted(
                {
                    dice.choice(["", "a.", 'q"', "<é>"]) + str(dice.randrange(10**4))
                    for _ in range(count)
                }
            )
        instances = []
        for key in keys:
            for deposed in ["", *(["d1"] if dice.randrange(20) == 0 else [])]:
                instances.append(instance(dice, key, deposed))
        block = {"module": mod} if mod else {}
        block |= {"mode": mode, "type": "test", "name": name, "provider": PROVIDER}
        blocks.append(block | {"instances": instances})
    nested = {
        f"o{n}": {"value": {"k": {"n": n}}, "type": "string"}
        for n in range(dice.choice([0, 1, 90]))
    }
    checks = [
        {
            "object_kind": "resource",
            "config_addr": f"test.n{n}",
            "status": "pass",
            "objects": [{"object_addr": f"test.n{n}", "status": "pass"}],
        }
        for n in range(dice.choice([0, 2, 120]))
    ]
    made = {
        "version": 4,
        "terraform_version": "1.11.4",
        "serial": 7,
        "lineage": "a",
        "outputs": dict(sorted(nested.items())),
        "resources": sorted(blocks, key=lambda b: model.block_key(model.parse(json.dumps(b)))),
    }
    # Terraform before 1.2 wrote none.
    return made | ({"check_results": checks or None} if dice.randrange(5) else {})


def instance(dice: random.Random, key: Any, deposed: str = "") -> dict[str, Any]:
    made: dict[str, Any] = {} if key is None else {"index_key": key}
    if deposed:
        made["deposed"] = deposed
    made |= {"schema_version": 0, "attributes": {"id": str(dice.randrange(10**9))}}
    made["attributes"]["n"] = dice.choice(
        [
            1,
            {"index_key": 1, "deposed": "d1"},
            [{"a": "\0"}],
            "\ud800",
            None,
            '\n        }\n      ]\n    },\n    {\n      "mode": "managed",\n',
            '          "index_key": 1,',
        ]
    )
    return made | {"sensitive_attributes": [], "dependencies": ["test.n001"]}


def large_delta(dice: random.Random, document: dict[str, Any]) -> dict[str, Any]:
    """Edits of what is there and of what is not, here and there or of a whole stretch."""
    there = [(n, b, i) for n, b in enumerate(document["resources"]) for i in b["instances"]]
    puts, removes = [], []
    start = dice.randrange(max(1, len(there)))
    stretch = range(start, start + dice.choice([0, 0, 5, 70, 200]))
    chosen = {n for n in stretch if n < len(there)}
    chosen |= set(dice.sample(range(len(there)), min(len(there), dice.choice([0, 1, 3]))))
    how = dice.choice(["put", "remove", "both"])
    for n in sorted(chosen):
        _, block, held = there[n]
        if how == "put" or how == "both" and dice.randrange(2):
            made = instance(dice, held.get("index_key"), held.get("deposed", ""))
            puts.append({**block, "instance": go(made, dice.choice([1, 2])).decode()})
        else:
            removes.append(n)
    for _ in range(dice.choice([0, 1, 3])):
        if document["resources"] and dice.randrange(3):
            block = dice.choice(document["resources"])
        else:
            block = {
                "mode": dice.choice(["managed", "data"]),
                "type": dice.choice(["aaa", "test", "zzz"]),
            }
            block |= {"name": f"m{dice.randrange(99)}", "provider": PROVIDER}
            block["module"] = dice.choice(["", "module.a", 'module.b["k.2"]', "module.z"])
        key = dice.choice([None, dice.randrange(400), f"a.{dice.randrange(10**4)}"])
        puts.append({**block, "instance": go(instance(dice, key)).decode()})
    if puts and dice.randrange(8) == 0:
        dice.choice(puts)["provider"] = OTHER
    outputs = {f"o{dice.randrange(99)}": '{"value":{"k":{}},"type":"string"}' for _ in range(2)}
    check = {"object_kind": "resource", "config_addr": f"test.n{dice.randrange(130)}"}
    return {
        "put": [{k: v for k, v in p.items() if k != "instances"} for p in puts],
        "remove": removes,
        "outputs": {"put": outputs, "remove": ["o1"]} if dice.randrange(4) == 0 else {},
        "check_results": {"remove": [check]} if dice.randrange(4) == 0 else {},
    }


CHUNKS = """
  select c.data
  from kilolock.states s
  join kilolock.version_documents d on d.id = s.current_version_id
  cross join unnest(d.chunk_ids) with ordinality i(id, n)
  join kilolock.document_chunks c on c.id = i.id
  where s.name = %s
  order by i.n"""
IDS = """
  select r.address, r.id
  from kilolock.resources r
  join kilolock.states s on s.current_version_id = r.state_version_id
  where s.name = %s and r.deposed_key is null"""


def moves(
    dice: random.Random, document: dict[str, Any], delta: dict[str, Any]
) -> list[dict[str, str]]:
    """What is removed and what is put and was not there, in pairs."""
    there = {a for a, _ in expected_rows(copy.deepcopy(document))}
    gone = [r["address"] for r in delta["remove"] if not r["deposed"]]
    new = []
    for put in delta["put"]:
        block = {**put, "instances": [json.loads(put["instance"]) | {"deposed": ""}]}
        [address] = {a for a, _ in expected({"resources": [block]})}
        if address not in there and not json.loads(put["instance"]).get("deposed"):
            new.append(address)
    pairs = zip(gone, new, strict=False)
    return [
        {"from": a, "to": b}
        for a, b in pairs
        if dice.randrange(2) and ("data." in a) == ("data." in b)
    ]


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32))
def test_a_delta_of_a_large_state_writes_what_a_post_would(connection: Any, seed: int) -> None:
    dice = random.Random(seed)
    name = f"large-{next(counter)}"
    versions = {}
    as_go = dice.randrange(4) > 0
    body = go(large(dice)) if as_go else encode(large(dice), indent=2) + b"\n"
    write(connection, name, body)
    serial = 7
    for _ in range(3):
        document = json.loads(body)
        delta = large_delta(dice, document)
        removed = settle(document, delta)
        ids = dict(connection.execute(IDS, (name,)).fetchall())
        moved = moves(dice, document, delta)
        delta["moved"] = moved
        serial += 1
        result = write_delta(connection, name, delta)
        body = model.edit(body.decode(), delta, removed, serial).encode()
        assert get(connection, name, None).decode() == body.decode()
        versions[result["version"]] = body
        assert rows_of(connection, LIVE, name) == expected_rows(json.loads(body))
        now = dict(connection.execute(IDS, (name,)).fetchall())
        assert [now[m["to"]] for m in moved] == [ids[m["from"]] for m in moved]
        assert result["moved"] >= len(moved)
        head = connection.execute(
            "select d.raw_size, d.raw_md5, d.resource_count, s.managed_count, s.head_size,"
            " d.rows_digest is null"
            " from kilolock.version_documents d"
            " join kilolock.states s on s.current_version_id = d.id where s.name = %s",
            (name,),
        ).fetchone()
        instances = [(b, i) for b in json.loads(body)["resources"] for i in b["instances"]]
        managed = [i for b, i in instances if b["mode"] == "managed" and not i.get("deposed")]
        md5 = hashlib.md5(body).hexdigest()
        assert head[:5] == (len(body), md5, len(instances), len(managed), len(body))
        # Terraform's layout, with an instance before and after in every block.
        full = as_go and instances and document["resources"]
        full = full and all(b["instances"] for b in document["resources"])
        full = full and all(p["provider"] == PROVIDER for p in delta["put"])
        assert head[5] or not full, "the quick way is taken"
        # Terraform's own write of the same is nothing new: neither a chunk nor a row.
        assert write(connection, name, body)[1]["changed"] is False
        later = body.replace(b'"serial": %d' % serial, b'"serial": %d' % (serial + 1), 1)
        serial += 1
        _, result = write(connection, name, later)
        assert [result[k] for k in ("created", "updated", "deleted", "moved")] == [0, 0, 0, 0]
        body = later
    for version, held in versions.items():
        assert get(connection, name, version) == held
        assert rows_of(connection, AT, name, version) == expected_rows(json.loads(held))


BLOCK = """
    {
      "mode": "managed",
      "type": "test",
      "name": "b",
      "provider": "p",
      "instances": [
        {"index_key": 1, "attributes": {}}
      ]
    }"""
# What is not, or not quite, as Terraform writes it.
ODDITIES = {
    "an instance in a line": lambda t: re.sub(
        r"(?s)(\},)\n        \{\n( +\"index_key\": 3,.*?)\n        \}",
        lambda m: m[1] + "{" + re.sub(r"\n *", "", m[2]) + "}",
        t,
        count=1,
    ),
    "blanks between instances": lambda t: t.replace(
        "        },\n        {", "        } ,\n        {"
    ),
    "blanks between blocks": lambda t: t.replace("    },\n    {", "    }, \n    {"),
    "a block's lines in another order": lambda t: t.replace(
        '"mode": "managed",\n      "type": "test",', '"type": "test",\n      "mode": "managed",', 1
    ),
    "a member more": lambda t: t.replace('"name": "b",', '"name": "b",\n      "each": "list",'),
    "a name twice": lambda t: t.replace('"name": "b",', '"name": "z",\n      "name": "b",'),
    "a name escaped": lambda t: t.replace('"name": "b",', '"name": "\\u0062",'),
    "a key that comes last": lambda t: re.sub(
        r"(?s)\n          \"index_key\": 1,(.*?)\n        \}",
        r'\1,\n          "index_key": 1\n        }',
        t,
    ),
    "a block without instances": lambda t: re.sub(
        r'(?s)("name": "b",.*?"instances": )\[.*?\n      \]', r"\1[]", t
    ),
    "a block in an instance": lambda t: t.replace(
        '"x": 1', f'"x": 1, "y": [{BLOCK}\n  ],\n  "check_results": [{BLOCK}\n  ]'
    ),
    "a block in an output": lambda t: t.replace(
        '"outputs": {}', f'"outputs": {{"o": {{"value": [{BLOCK}\n  ], "type": "string"}}}}'
    ),
    "more between the resources and the check results": lambda t: t.replace(
        ',\n  "check_results"', f',\n  "more": [{BLOCK}\n  ],\n  "check_results"'
    ),
    "blocks in check results": lambda t: t.replace(
        '"check_results": null', f'"check_results": [{BLOCK}\n  ]'
    ),
    "no line break at the end": lambda t: t.rstrip(),
}


@pytest.mark.parametrize("how", ODDITIES)
def test_what_is_nearly_in_terraforms_layout_keeps_every_token(connection: Any, how: str) -> None:
    document = small()
    first = document["resources"][0]
    document["resources"] = [
        first
        | {"name": n, "instances": [{"index_key": k} | first["instances"][0] for k in (1, 2, 3)]}
        for n in "abc"
    ]
    plain = go(document).decode()
    text = ODDITIES[how](plain)
    assert text != plain
    name = f"odd-{next(counter)}"
    assert write(connection, name, text.encode())[0] is None
    put = {"mode": "managed", "type": "test", "provider": PROVIDER}
    made = {"schema_version": 0}
    for n, (keys, removed) in enumerate([([1], []), ([0, 2, 4], []), ([], [2]), ([1, 3], [])]):
        delta: dict[str, Any] = {
            "put": [
                put
                | {
                    "name": b,
                    "instance": json.dumps({"index_key": k, **made, "attributes": {"n": n}}),
                }
                for b in ("aa", "b", "c")
                for k in keys
            ],
            "remove": [{"address": f"test.{b}[{k}]"} for b in "ac" for k in removed],
        }
        keys_of = [
            (model.block_key(model.parse(json.dumps(first | {"name": b}))), (1, k, b"", b""))
            for b in "ac"
            for k in removed
        ]
        wanted = model.edit(text, delta, keys_of, n + 2)
        write_delta(connection, name, delta)
        text = get(connection, name, None).decode()
        assert model.lay_out(model.parse(text)) == model.parse(wanted)
        assert rows_of(connection, LIVE, name) == expected_rows(json.loads(text))
        assert write(connection, name, text.encode())[1]["changed"] is False


def test_every_edit_at_the_border_of_chunks_writes_what_a_post_would(connection: Any) -> None:
    document = small()
    held = {"schema_version": 0, "attributes": {"id": "a"}}
    document["resources"] = [
        {"mode": "managed", "type": "test", "name": f"n{b:03}", "provider": PROVIDER}
        | {"instances": [{"index_key": k} | held for k in (1, 3, 5)[: b % 4]]}
        for b in range(400)
        if b % 4
    ]
    name = "borders"
    body = go(document).decode()
    write(connection, name, body.encode())
    serial = 1
    tried = set()
    while True:
        entries = [(b, i) for b in json.loads(body)["resources"] for i in b["instances"]]
        at = 0
        for (chunk,) in connection.execute(CHUNKS, (name,)).fetchall():
            at += chunk.count("\n        }")
            if 0 < at < len(entries) and entries[at - 1][0]["name"] not in tried:
                break
        else:
            break
        (left, last), (right, after) = entries[at - 1 : at + 1]
        tried |= {left["name"]}

        def put(block: Any, key: int) -> dict[str, Any]:
            kept = {k: v for k, v in block.items() if k != "instances"}
            return kept | {"instance": json.dumps({"index_key": key} | held | {"attributes": {}})}

        for puts, removes in [
            ([put(left, last["index_key"])], []),
            ([put(left, last["index_key"] + 1)], []),
            ([put(right, after["index_key"] - 1)], []),
            ([put(left | {"name": left["name"] + "x"}, 1)], []),
            ([], [(left, last)]),
            ([put(right, 6)], [(right, after)]),
            ([], [(left, last), (right, after)]),
        ]:
            delta = {
                "put": puts,
                "remove": [{"address": f"test.{b['name']}[{i['index_key']}]"} for b, i in removes],
            }
            removed = [
                (model.block_key(model.parse(json.dumps(b))), (1, i["index_key"], b"", b""))
                for b, i in removes
            ]
            wanted = model.edit(body, delta, removed, serial + 1)
            with connection.transaction(force_rollback=True):
                write_delta(connection, name, delta)
                assert get(connection, name, None).decode() == wanted
                assert rows_of(connection, LIVE, name) == expected_rows(json.loads(wanted))
                assert write(connection, name, wanted.encode())[1]["changed"] is False
        # And on with another document, whose borders are others.
        delta = {"put": [put(left, 99)], "remove": []}
        serial += 1
        write_delta(connection, name, delta)
        body = model.edit(body, delta, [], serial)
        assert get(connection, name, None).decode() == body
    assert tried
