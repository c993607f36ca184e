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
            # In Terraform's order, but for NUL, which PostgreSQL cannot hold.
            keys = sorted(draw(st.sets(text, max_size=3)), key=lambda k: k.replace("\0", "\ufffd"))
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
lock_id = st.sampled_from(["a", "b"])
# Which lock ID a write carries: that of the lock, none, or one of its own.
claim = st.sampled_from(["right", "right", "right", "none", "a"])
back = st.booleans() | st.just(False)
step = st.one_of(
    st.tuples(st.just("post"), documents(), layout, claim, back),
    st.tuples(st.just("again"), st.none(), layout, claim, back),
    st.tuples(st.just("edit"), st.integers(0, 20), layout, claim, back),
    st.tuples(st.just("delete"), st.none(), layout, claim, back),
    st.tuples(st.just("lock"), lock_id, layout, claim, back),
    st.tuples(st.just("unlock"), lock_id | st.none(), layout, claim, back),
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

VERSIONS = """
  select count(*) from kilolock.state_versions v
  join kilolock.states s on s.id = v.state_id where s.name = %s"""

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


def call(
    conn: psycopg.Connection[Any], function: str, name: str, *args: Any
) -> tuple[str | None, Any]:
    """The code of the refusal, if it is one, and the answer."""
    markers = ", ".join(["%b" if isinstance(a, bytes) else "%s" for a in args])
    try:
        row = conn.execute(
            f"select kilolock.{function}(null, null, %s, {markers}, null)", (name, *args)
        ).fetchone()
    except psycopg.Error as ex:
        return ex.sqlstate, None
    return None, row[0] if row else None


def write(
    conn: psycopg.Connection[Any], name: str, body: bytes, lock_id: str | None = None
) -> tuple[str | None, dict[str, Any]]:
    code, answer = call(conn, "write_state", name, lock_id, body, None)
    return code, json.loads(answer or "{}")


def refused_for_lock(holder: str | None, lock_id: str | None) -> str | None:
    """What a write with this ID is refused with while holder has the lock."""
    if holder == lock_id:
        return None
    return "KLL01" if lock_id is None else "KLC01"


def get(conn: psycopg.Connection[Any], name: str, version: int | None) -> bytes:
    cursor = conn.cursor(binary=True)
    ref = None if version is None else str(version)
    cursor.execute("select chunk from kilolock.read_state(null, null, %s, %s)", (name, ref))
    return b"".join(bytes(r[0]) for r in cursor)


counter = iter(range(10**6))


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(step, min_size=1, max_size=8))
def test_bytes_rows_and_history_agree_with_an_independent_reading(
    connection: Any, steps: list[Any]
) -> None:
    name = f"property-{next(counter)}"
    serial = 0
    holder: str | None = None
    current: dict[str, Any] | None = None
    stored: list[tuple[int, bytes, dict[str, Any]]] = []

    def unchanged() -> None:
        """Whatever was refused left no trace."""
        if current is None:
            with pytest.raises(psycopg.Error):
                get(connection, name, None)
        else:
            assert get(connection, name, None) == stored[-1][1]
        assert rows_of(connection, LIVE, name) == (expected(current) if current else {})
        [versions] = connection.execute(VERSIONS, (name,)).fetchone()
        assert versions == len(stored)

    for kind, what, how, claimed, going_back in steps:
        lock_id = holder if claimed == "right" else None if claimed == "none" else claimed
        if kind == "lock":
            code, _ = call(connection, "acquire_lock", name, encode({"ID": what}))
            assert code == (None if holder in (None, what) else "KLL01")
            holder = holder or what
            continue
        if kind == "unlock":
            code, _ = call(connection, "release_lock", name, what, None)
            assert code == (None if holder is None or what in (None, holder) else "KLC02")
            holder = holder if code else None
            continue
        if kind == "delete":
            if stored or holder:
                code, _ = call(connection, "delete_state", name, lock_id)
                missing = "KLN01" if current is None else None
                assert code == (refused_for_lock(holder, lock_id) or missing)
                current = current if code else None
                unchanged()
            continue
        if kind == "post":
            document = what
        elif current is None:
            continue
        else:
            document = copy.deepcopy(current)
            if kind == "edit":
                instances = [i for b in document["resources"] for i in b["instances"]]
                if instances:
                    instances[what % len(instances)]["attributes"]["edited"] = what
        document["serial"] = max(serial - 1, 0) if going_back else serial + 1
        body = encode(document, **how)
        document = json.loads(body)
        before = connection.execute("select count(*) from kilolock.past_resources").fetchone()
        code, result = write(connection, name, body, lock_id)
        # Only the holder of a lock may go back to a lower serial.
        same = current is not None and body == stored[-1][1]
        behind = current is not None and going_back and holder is None and not same
        assert code == (refused_for_lock(holder, lock_id) or ("KLC03" if behind else None))
        if code or same:
            assert code or result["changed"] is False
            unchanged()
            continue
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
        current, serial = document, document["serial"]
        stored.append((result["version"], body, document))
        assert get(connection, name, None) == body
        assert rows_of(connection, LIVE, name) == expected(document)
        assert connection.execute(MISCOUNTED).fetchall() == []
        assert write(connection, name, body, holder)[1]["changed"] is False
    assert [v for v, _, _ in stored] == list(range(1, len(stored) + 1))
    for version, body, document in stored:
        assert get(connection, name, version) == body
        assert rows_of(connection, AT, name, version) == expected(document)
        replayed = rows_of(connection, REPLAYED, name, version, version)
        assert {k: v[0] for k, v in replayed.items()} == {
            k: v[0] for k, v in expected(document).items()
        }
