"""The past as a property: random histories, against an independent reading of every version."""

from __future__ import annotations

import copy
import json
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_write_path import AT, documents, encode, expected, get, layout, plain, rows_of, shown

counter = iter(range(10**6))

step = st.one_of(
    st.tuples(st.just("post"), documents()),
    st.tuples(st.just("edit"), st.integers(0, 20)),
    st.tuples(st.just("edit"), st.integers(0, 20)),
    st.tuples(st.just("rename"), st.integers(0, 20)),
    st.tuples(st.just("drop"), st.integers(0, 20)),
    st.tuples(st.just("output"), st.sampled_from("xyz")),
    st.tuples(st.just("again"), st.none()),
    st.tuples(st.just("delete"), st.none()),
    st.tuples(st.just("tag"), st.tuples(st.sampled_from(["t1", "t 2"]), st.integers(0, 9))),
    st.tuples(st.just("untag"), st.sampled_from(["t1", "t 2"])),
    st.tuples(st.just("prune"), st.integers(1, 4)),
    st.tuples(st.just("purge"), st.integers(0, 9)),
)

HISTORY = """
  select h::text
  from kilolock.resource_history h join kilolock.states s on s.id = h.state_id
  where s.name = %s and h.from_version <= %s and (h.until_version is null or h.until_version > %s)
  order by 1"""
OUTPUTS = "select o.name, o.value, o.sensitive from kilolock.outputs_at(%s, %s) o"
DIFF = """
  select d.from_address, d.address, d.deposed_key, d.change, d.to_attributes, d.to_status,
         d.to_schema_version
  from kilolock.diff_versions(%s, %s::bigint, %s) d"""
VALUES = """
  select d.kind, d.change, d.from_address, d.address, d.deposed_key, d.field, d.path, d.to_value,
         d.to_value is null as gone
  from kilolock.diff_attributes(%s, %s, %s) d"""
# What nothing shows any more: a chunk without a version, a stretch without a kept version in it.
LEFT_OVER = """
  with kept as (
    select d.state_id, d.version from kilolock.version_documents d where d.pruned_at is null
  )
  select 'chunk', c.id from kilolock.document_chunks c
  where not exists (
    select from kilolock.version_documents d
    where d.state_id = c.state_id and c.id = any (d.chunk_ids))
  union all
  select 'resource', p.resource_id from kilolock.past_resources p
  join kilolock.states s on s.id = p.state_id
  where s.name = %s and not exists (
    select from kept k where k.state_id = p.state_id
      and k.version >= p.from_version and k.version < p.until_version)
  union all
  select 'output', p.from_version from kilolock.past_outputs p
  join kilolock.states s on s.id = p.state_id
  where s.name = %s and not exists (
    select from kept k where k.state_id = p.state_id
      and k.version >= p.from_version and k.version < p.until_version)"""


@pytest.fixture(scope="module")
def connection(make_database: Any) -> Any:
    with psycopg.connect(make_database(), autocommit=True) as conn:
        yield conn


def replace_at(value: Any, path: list[Any], new: Any, gone: bool) -> Any:
    """A value with the place at a path set, added or taken away."""
    if not path:
        return None if gone else new
    at = path[0]
    if len(path) > 1:
        value[at] = replace_at(value[at], path[1:], new, gone)
    elif gone:
        del value[at]
    elif isinstance(value, list) and at == len(value):
        value.append(new)
    else:
        value[at] = new
    return value


class History:
    """A state in the database and what it ought to hold: the model is a dict of versions."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self.name = f"history-{next(counter)}"
        self.kept: dict[int, tuple[bytes, dict[str, Any]]] = {}
        self.gone: set[int] = set()
        self.tags: dict[str, int] = {}
        self.head: int | None = None
        self.last = 0

    def call(self, function: str, **request: Any) -> Any:
        text = json.dumps({"state": self.name, **request})
        row = self.connection.execute(f"select kilolock.{function}(%s, 'ann')", (text,)).fetchone()
        assert row
        return row[0]

    def post(self, document: dict[str, Any], how: dict[str, Any]) -> None:
        document = document | {"serial": self.last + 1}
        body = encode(document, **how)
        self.connection.execute(
            "select kilolock.write_state(null, null, %s, null, %b, null, %s)",
            (self.name, body, f"user {self.last + 1}"),
        )
        self.last += 1
        self.head = self.last
        self.kept[self.head] = (body, json.loads(body))

    def delete(self) -> None:
        self.connection.execute(
            "select kilolock.delete_state(null, null, %s, null, null)", (self.name,)
        )
        self.head = None

    def versions(self) -> list[int]:
        """What is kept, newest first."""
        return sorted(self.kept, reverse=True)

    def drop(self, versions: list[int]) -> None:
        for version in versions:
            del self.kept[version]
            self.gone.add(version)

    def prune(self, keep: int) -> None:
        safe = {self.head, *self.versions()[:keep], *self.tags.values()}
        going = [v for v in sorted(self.kept) if v not in safe]
        shown = self.call("prune_versions", keep=keep)
        assert [v["version"] for v in shown["versions"]] == going
        done = self.unchanged(
            lambda: self.call("prune_versions", keep=keep, apply=True), set(self.kept) - set(going)
        )
        assert (done["versions"], done["bytes"]) == (shown["versions"], shown["bytes"])
        self.drop(going)

    def purge(self, version: int) -> None:
        if version == self.head or version in self.tags.values():
            with pytest.raises(psycopg.Error) as caught:
                self.call("purge_version", version=version)
            assert caught.value.sqlstate == "KLC06"
            return
        self.unchanged(
            lambda: self.call("purge_version", version=version), set(self.kept) - {version}
        )
        self.drop([version])

    def unchanged(self, act: Any, versions: set[int]) -> Any:
        """Do something that must leave the history of these versions as it is."""

        def told() -> list[Any]:
            return [
                self.connection.execute(HISTORY, (self.name, v, v)).fetchall()
                for v in sorted(versions)
            ]

        before = told()
        done = act()
        assert told() == before
        return done

    def rows(self, version: int) -> dict[tuple[str, str], Any]:
        return rows_of(self.connection, AT, self.name, version)

    def outputs(self, version: int) -> dict[str, Any]:
        found = self.connection.execute(OUTPUTS, (self.name, version))
        return {name: (plain(value), sensitive) for name, value, sensitive in found}

    def check(self) -> None:
        """Everything that is kept is what it was, and nothing else is left."""
        for version, (body, document) in self.kept.items():
            assert get(self.connection, self.name, version) == body
            assert self.rows(version) == expected(document)
            assert self.outputs(version) == {
                name: (plain(shown(o["value"])), bool(o.get("sensitive")))
                for name, o in document["outputs"].items()
            }
        for version in self.gone:
            with pytest.raises(psycopg.Error) as caught:
                get(self.connection, self.name, version)
            assert caught.value.sqlstate == "KLN03"
        back = 0 if self.head is not None else 1
        for n, version in enumerate(self.versions()):
            found = self.connection.execute(
                "select f.version from kilolock.find_version(%s, %s) f",
                (self.name, f"@{n + back}"),
            ).fetchone()
            assert found == (version,)
        for tag, version in self.tags.items():
            assert get(self.connection, self.name, tag) == self.kept[version][0]  # type: ignore[arg-type]
        assert self.connection.execute(LEFT_OVER, (self.name, self.name)).fetchall() == []

    def check_differences(self, start: int, end: int) -> None:
        """What differs between two versions, applied to the first, gives the second."""
        want, rows = self.rows(end), self.rows(start)
        found = self.connection.execute(DIFF, (self.name, start, end)).fetchall()
        for before, _, deposed, _, *_ in found:
            if before is not None:
                del rows[before, deposed or ""]
        for _, after, deposed, change, attributes, status, schema in found:
            if change != "delete":
                assert (after, deposed or "") not in rows
                rows[after, deposed or ""] = (plain(attributes), status, schema)
        assert rows == want

        values = {k: v[0] for k, v in self.rows(start).items()}
        outputs = {k: v[0] for k, v in self.outputs(start).items()}
        made: dict[Any, Any] = {}
        differences = self.connection.execute(VALUES, (self.name, str(start), str(end))).fetchall()
        for kind, change, before, after, deposed, field, path, new, gone in sorted(
            # The last elements of an array go first.
            differences,
            key=lambda d: (d[8], [-p if d[8] and isinstance(p, int) else 0 for p in d[6] or []]),
        ):
            assert change in ("create", "update", "delete", "move")
            if kind == "resource" and change == "delete":
                # Removed below; another resource may have come to its address.
                continue
            if kind == "output":
                key, old = (kind, after), outputs.get(before)
            else:
                key, old = (kind, after, deposed or ""), values.get((before, deposed or ""))
            if key not in made:
                made[key] = copy.deepcopy(old)
            if field in ("attributes", "value"):
                made[key] = replace_at(made[key], path, plain(new), gone)
            if change == "delete":
                made[key] = KeyError
        for kind, _, before, _, deposed, *_ in differences:
            if kind == "resource" and before is not None:
                values.pop((before, deposed or ""), None)
        for key, value in made.items():
            into, place = (outputs, key[1]) if key[0] == "output" else (values, key[1:])
            if value is KeyError:
                into.pop(place, None)
            else:
                into[place] = value
        assert values == {k: v[0] for k, v in want.items()}
        assert outputs == {k: v[0] for k, v in self.outputs(end).items()}


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(documents(), st.lists(st.tuples(step, layout), min_size=2, max_size=12), st.randoms())
def test_the_past_stays_what_it_was(
    connection: Any, first: dict[str, Any], steps: list[Any], random: Any
) -> None:
    history = History(connection)
    history.post(first, {"indent": 2})
    current = first
    for (kind, what), how in steps:
        document = copy.deepcopy(current)
        blocks = document["resources"]
        if kind == "post":
            history.post(what, how)
            current = what
        elif kind == "delete" and history.head is not None:
            history.delete()
        elif kind == "tag" and history.kept:
            version = history.versions()[what[1] % len(history.kept)]
            history.call("set_tag", tag=what[0], version=version, force=True)
            history.tags[what[0]] = version
        elif kind == "untag" and what in history.tags:
            history.call("unset_tag", tag=what)
            del history.tags[what]
        elif kind == "prune":
            history.prune(what)
            history.check()
        elif kind == "purge" and history.kept:
            history.purge(history.versions()[what % len(history.kept)])
            history.check()
        elif kind in ("edit", "rename", "drop", "output", "again"):
            instances = [i for b in blocks for i in b["instances"]]
            if kind == "edit" and instances:
                attributes = instances[what % len(instances)]["attributes"]
                attributes["edited"] = {"list": list(range(what % 4)), "n": what, "k.1": None}
            elif kind == "rename" and blocks:
                blocks[what % len(blocks)]["name"] = f"renamed_{history.last}"
            elif kind == "drop" and instances:
                for block in blocks:
                    block["instances"] = [i for i in block["instances"] if i is not instances[0]]
            elif kind == "output":
                document["outputs"][what] = {"value": [history.last, {"a": 1}], "type": "string"}
            history.post(document, how)
            current = document
    history.check()
    versions = history.versions()
    for _ in range(3):
        if versions:
            history.check_differences(random.choice(versions), random.choice(versions))


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(documents(), documents(), st.booleans())
def test_a_difference_applied_to_one_document_gives_the_other(
    connection: Any, first: dict[str, Any], second: dict[str, Any], delete: bool
) -> None:
    history = History(connection)
    history.post(first, {"indent": 2})
    if delete:
        history.delete()
    history.post(second, {"indent": 2})
    history.check_differences(1, 2)
    history.check_differences(2, 1)
    same = connection.execute(DIFF, (history.name, 2, 2)).fetchall()
    assert same == []
