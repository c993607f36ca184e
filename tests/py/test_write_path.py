"""The write path as a property: any documents, against an independent reading of them."""

from __future__ import annotations

import copy
import json
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

PROVIDER = 'provider["registry.terraform.io/hashicorp/null"]'

text = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=12)
odd_text = text | st.sampled_from(
    [
        "",
        "\x00",
        "a\x00b",
        "\\u0000",
        "\\\x00",
        '"',
        "\\",
        "${x}",
        "%{y}",
        "\u2028",
        "]",
        "\n",
        "\ud800",
        "\udc00x",
        "💥",
    ]
)
number = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
value = st.recursive(
    st.none() | st.booleans() | number | odd_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(odd_text, inner, max_size=3),
    max_leaves=8,
)
module = st.sampled_from(
    ["", "module.m", 'module.m["a"]', 'module.m["a.b[0]"].module.n', "module.m[0]"]
)
dependency = st.sampled_from(["test.a", "test.b", "module.m.test.a", "data.test.c", "gone.x"])


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """A version 4 document that Terraform would read."""
    blocks = []
    for mod, mode, name in draw(
        st.sets(
            st.tuples(module, st.sampled_from(["managed", "data"]), st.sampled_from("abc")),
            max_size=4,
        )
    ):
        kind = draw(st.sampled_from(["single", "count", "each"]))
        keys: list[Any]
        if kind == "single":
            keys = [None]
        elif kind == "count":
            keys = list(range(draw(st.integers(0, 3))))
        else:
            keys = sorted(draw(st.sets(text, max_size=3)))
        instances = []
        for key in keys:
            for deposed in ["", *draw(st.sampled_from([[], [], ["deadbeef"]]))]:
                instance: dict[str, Any] = {} if key is None else {"index_key": key}
                if deposed:
                    instance["deposed"] = deposed
                if draw(st.booleans()):
                    instance["status"] = "tainted"
                instance["schema_version"] = draw(st.integers(0, 3))
                instance["attributes"] = draw(st.dictionaries(odd_text, value, max_size=3)) | {
                    "id": draw(odd_text)
                }
                instance["sensitive_attributes"] = []
                if draw(st.booleans()):
                    instance["private"] = draw(st.sampled_from(["bnVsbA==", "eA=="]))
                if draw(st.booleans()):
                    instance["dependencies"] = draw(st.lists(dependency, max_size=3))
                instances.append(instance)
        block = {"module": mod} if mod else {}
        block |= {
            "mode": mode,
            "type": "test",
            "name": name,
            "provider": PROVIDER,
            "instances": instances,
        }
        blocks.append(block)
    return {
        "version": 4,
        "terraform_version": "1.11.4",
        "serial": 0,
        "lineage": "a",
        "outputs": {
            n: {"value": draw(value), "type": "string"}
            for n in draw(st.sets(st.sampled_from("xyz")))
        },
        "resources": blocks,
        "check_results": None,
    }


layout = st.sampled_from(
    [{"indent": 2}, {"indent": 2, "ensure_ascii": False}, {"separators": (",", ":")}, {"indent": 1}]
)
step = st.one_of(
    st.tuples(st.just("post"), documents(), layout),
    st.tuples(st.just("again"), st.none(), layout),
    st.tuples(st.just("edit"), st.integers(0, 20), layout),
    st.tuples(st.just("delete"), st.none(), layout),
)


def encode(document: dict[str, Any], **how: Any) -> bytes:
    try:
        return json.dumps(document, **how).encode()
    except UnicodeEncodeError:  # a lone surrogate has to be escaped
        return json.dumps(document, **how | {"ensure_ascii": True}).encode()


def shown(item: Any) -> Any:
    """What jsonb can hold of a value: U+FFFD for what it cannot."""
    if isinstance(item, str):
        return "".join("\ufffd" if c == "\x00" or "\ud800" <= c <= "\udfff" else c for c in item)
    if isinstance(item, list):
        return [shown(i) for i in item]
    if isinstance(item, dict):
        return {shown(k): shown(v) for k, v in item.items()}
    return item


def quote(key: Any) -> str:
    if not isinstance(key, str):
        return f"[{key}]"
    out = []
    for n, c in enumerate(shown(key)):
        following = key[n + 1 : n + 2]
        if c in '"\\':
            out.append("\\" + c)
        elif c in "\n\r\t":
            out.append({"\n": "\\n", "\r": "\\r", "\t": "\\t"}[c])
        elif c in "$%" and following == "{":
            out.append(c * 2)
        elif not c.isprintable():
            out.append(f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}")
        else:
            out.append(c)
    return '["' + "".join(out) + '"]'


def read(document: dict[str, Any]) -> dict[tuple[str, str], Any]:
    """The rows that a document ought to have, by address and deposed key."""
    rows = {}
    for block in document["resources"]:
        prefix = f"{block['module']}." if block.get("module") else ""
        base = (
            f"{prefix}{'data.' if block['mode'] == 'data' else ''}{block['type']}.{block['name']}"
        )
        for instance in block["instances"]:
            key = instance.get("index_key")
            address = base + ("" if key is None else quote(key))
            rows[address, instance.get("deposed", "")] = (
                shown(instance["attributes"]),
                instance.get("status", "ready"),
                instance["schema_version"],
            )
    return rows


def plain(item: Any) -> Any:
    """Numbers as jsonb gives them back: by value."""
    if isinstance(item, bool) or item is None or isinstance(item, str):
        return item
    if isinstance(item, (int, float)):
        return float(item)
    if isinstance(item, list):
        return [plain(i) for i in item]
    return {k: plain(v) for k, v in item.items()}


def rows_of(
    connection: psycopg.Connection[Any], sql: str, *args: Any
) -> dict[tuple[str, str], Any]:
    return {(a, d or ""): (plain(v), s, n) for a, d, v, s, n in connection.execute(sql, args)}


def expected(document: dict[str, Any]) -> dict[tuple[str, str], Any]:
    return {k: (plain(v), s, n) for k, (v, s, n) in read(document).items()}


LIVE = """
  select r.address, r.deposed_key, r.attributes, r.status, r.schema_version
  from kilolock.resources r
  join kilolock.states s on s.current_version_id = r.state_version_id
  where s.name = %s"""
AT = """
  select r.address, r.deposed_key, r.attributes, r.status, r.schema_version
  from kilolock.resources_at(%s, %s) r"""
REPLAYED = """
  select h.address, h.deposed_key, h.attributes, h.status, 0
  from kilolock.resource_history h join kilolock.states s on s.id = h.state_id
  where s.name = %s and h.from_version <= %s
    and (h.until_version is null or h.until_version > %s)"""

MISCOUNTED = """
  select s.name, s.managed_count, s.head_size
  from kilolock.states s
  left join kilolock.version_documents d on d.id = s.current_version_id
  where (s.managed_count, s.head_size) is distinct from (
    (select count(*) from kilolock.resources r
     where r.state_id = s.id and r.mode = 'managed' and r.deposed_key is null),
    coalesce(d.raw_size, 0))"""


@pytest.fixture(scope="module")
def connection(make_database: Any) -> Any:
    with psycopg.connect(make_database(), autocommit=True) as conn:
        yield conn


def write(conn: psycopg.Connection[Any], name: str, body: bytes) -> dict[str, Any]:
    row = conn.execute(
        "select kilolock.write_state(null, null, %s, null, %b, null, null)", (name, body)
    ).fetchone()
    assert row
    return dict(json.loads(row[0]))


def get(conn: psycopg.Connection[Any], name: str, version: int | None) -> bytes:
    cursor = conn.cursor(binary=True)
    ref = None if version is None else str(version)
    cursor.execute("select chunk from kilolock.read_state(null, null, %s, %s)", (name, ref))
    return b"".join(bytes(r[0]) for r in cursor)


counter = iter(range(10**6))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(step, min_size=1, max_size=6))
def test_bytes_rows_and_history_agree_with_an_independent_reading(
    connection: Any, steps: list[Any]
) -> None:
    name = f"property-{next(counter)}"
    serial = 0
    current: dict[str, Any] | None = None
    stored: list[tuple[int, bytes, dict[str, Any]]] = []
    for kind, what, how in steps:
        if kind == "delete":
            if current is not None:
                connection.execute(
                    "select kilolock.delete_state(null, null, %s, null, null)", (name,)
                )
                assert rows_of(connection, LIVE, name) == {}
            current = None
            continue
        if kind == "post" or current is None:
            if kind != "post":
                continue
            document = what
        else:
            document = copy.deepcopy(current)
            if kind == "edit":
                instances = [i for b in document["resources"] for i in b["instances"]]
                if instances:
                    instances[what % len(instances)]["attributes"]["edited"] = what
        serial += 1
        document["serial"] = serial
        body = encode(document, **how)
        document = json.loads(body)
        before = connection.execute("select count(*) from kilolock.past_resources").fetchone()
        result = write(connection, name, body)
        if kind == "again":
            assert (result["created"], result["updated"], result["deleted"], result["moved"]) == (
                0,
                0,
                0,
                0,
            )
            assert (
                connection.execute("select count(*) from kilolock.past_resources").fetchone()
                == before
            )
        current = document
        stored.append((result["version"], body, document))
        assert get(connection, name, None) == body
        assert rows_of(connection, LIVE, name) == expected(document)
        assert connection.execute(MISCOUNTED).fetchall() == []
        assert write(connection, name, body)["changed"] is False
    assert [v for v, _, _ in stored] == list(range(1, len(stored) + 1))
    for version, body, document in stored:
        assert get(connection, name, version) == body
        assert rows_of(connection, AT, name, version) == expected(document)
        replayed = rows_of(connection, REPLAYED, name, version, version)
        assert {k: v[0] for k, v in replayed.items()} == {
            k: v[0] for k, v in expected(document).items()
        }
