"""The queries of the big-state guide, word by word, and those of examples/queries."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from gen_state import BigState

from kilolock.db import Database

QUERIES = Path(__file__).resolve().parents[2] / "examples" / "queries"
SIZES = (100, 1000, pytest.param(50000, marks=pytest.mark.big))

BY_TYPE = """SELECT type, count(*)::int AS instances
                  FROM resources r JOIN states s ON s.current_version_id = r.state_version_id
                  WHERE s.name='big-state'
                  GROUP BY type ORDER BY instances DESC"""
BY_MODULE = """SELECT COALESCE(NULLIF(module_path,''), '(root)') AS module,
                         count(*)::int AS resources
                  FROM resources r JOIN states s ON s.current_version_id = r.state_version_id
                  WHERE s.name='big-state'
                  GROUP BY module ORDER BY resources DESC"""
BLAST_RADIUS = """WITH RECURSIVE reach AS (
    SELECT r.id, r.address, 0 AS depth
    FROM   resources r JOIN states s ON s.current_version_id = r.state_version_id
    WHERE  s.name='big-state' AND r.address = 'module.primary_herd.random_id.leader'
    UNION
    SELECT r.id, r.address, reach.depth + 1
    FROM   reach
    JOIN   resource_dependencies rd ON rd.to_resource_id = reach.id
    JOIN   resources r ON r.id = rd.from_resource_id
  )
  SELECT count(*)::int AS reachable_resources FROM reach"""
STATE_SIZE = """SELECT
  pg_size_pretty(octet_length(sv.raw_state::text)::bigint) AS raw_state_size,
  pg_size_pretty(pg_total_relation_size('resources'))      AS resources_table,
  pg_size_pretty(pg_total_relation_size('resource_dependencies')) AS deps_table
  FROM states s JOIN state_versions sv ON sv.id = s.current_version_id
  WHERE s.name='big-state'"""
VERSIONS = (
    "SELECT serial, terraform_version, created_at FROM state_versions sv "
    "JOIN states s ON s.id=sv.state_id WHERE s.name='big-state' ORDER BY serial DESC LIMIT 5"
)
LOCKS = "SELECT lock_id, who, created FROM state_locks"

Rows = list[dict[str, Any]]


@pytest.fixture
def kl(database_url: str) -> Callable[..., Rows]:
    """``kl query`` on this test's database: its rows."""

    def query(*args: str) -> Rows:
        code = "from kilolock.cli import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", code, "query", *args, "--format", "json"],
            env={**os.environ, "KL_DATABASE_URL": database_url},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return query


@pytest.fixture
def post(db: Any) -> Callable[..., None]:
    """A function that writes a document as the state of this name."""

    def write(document: bytes | dict[str, Any], name: str = "big-state") -> None:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        db.call("write_state", None, None, name, None, body, None, "ann", "apply")

    return write


def document(*resources: dict[str, Any]) -> dict[str, Any]:
    """A state of these resources."""
    return {
        "version": 4,
        "terraform_version": "1.11.4",
        "serial": 1,
        "lineage": "b2f0",
        "outputs": {},
        "resources": list(resources),
        "check_results": None,
    }


def resource(address: str, *dependencies: str, **attributes: Any) -> dict[str, Any]:
    """A resource of one instance."""
    *data, type_, name = address.split(".")
    instance = {"schema_version": 0, "attributes": attributes, "sensitive_attributes": []}
    return {
        "mode": "data" if data else "managed",
        "type": type_,
        "name": name,
        "provider": 'provider["registry.terraform.io/hashicorp/aws"]',
        "instances": [{**instance, "dependencies": list(dependencies)}],
    }


@pytest.mark.parametrize("size", SIZES)
def test_the_guides_queries_as_they_stand(size: int, kl: Any, psql: Any, post: Any) -> None:
    state = BigState(size)
    post(state.render())
    state.serial = 2
    state.change("again", tags=[0])
    body = state.render()
    post(body)

    def both(query: str) -> list[tuple[Any, ...]]:
        """The rows of kl query, which must be those of psql; rows that tie come in any order."""
        answer = psql(query)
        rows = [tuple(row.values()) for row in kl(query)]
        assert sorted(rows, key=repr) == sorted(answer, key=repr)
        return answer

    counts = dict(both(BY_TYPE))
    assert counts == {
        "random_id": size + 4,
        "random_string": size + 1,
        "null_resource": 2,
        "time_sleep": 2,
        "random_pet": 1,
    }
    assert list(counts.values()) == sorted(counts.values(), reverse=True)
    assert both(BY_MODULE) == [
        ("module.primary_herd", 2 * size + 1),
        ("(root)", 6),
        ("module.shadow_herd", 3),
    ]
    # The leader, its herd, the other herd and the summary. UNION keeps what is reached over one
    # hop and over two: the summary and the other herd's members.
    (reachable,) = both(BLAST_RADIUS)[0]
    distinct = 1 + 2 * size + 3 + 1
    assert reachable == distinct + 3
    ((raw, table, edges),) = both(STATE_SIZE)
    assert raw == psql("select pg_size_pretty(%s::bigint)", len(body))[0][0]
    assert re.fullmatch(r"\d+ (bytes|kB|MB)", table)
    assert re.fullmatch(r"\d+ (bytes|kB|MB)", edges)
    assert both(LOCKS) == []
    assert psql("select count(*) from resource_dependencies") == [(4 * size + 15,)]


def test_the_guides_watch_query_as_it_stands_in_kl(kl: Any, psql: Any, post: Any) -> None:
    state = BigState(3)
    for serial in range(1, 8):
        state.serial = serial
        post(state.render())
    rows = kl(VERSIONS)
    assert [row["serial"] for row in rows] == [7, 6, 5, 4, 3]
    assert {row["terraform_version"] for row in rows} == {"1.11.4"}
    assert rows[0].keys() == {"serial", "terraform_version", "created_at"}
    # psql needs to be told whose serial: states has one too, that of its head.
    qualified = VERSIONS.replace("SELECT serial, terraform_version, created_at", "SELECT sv.serial")
    assert psql(qualified.replace("BY serial", "BY sv.serial")) == [(n,) for n in (7, 6, 5, 4, 3)]


def test_every_query_is_one_question_with_a_header_and_a_test() -> None:
    source = Path(__file__).read_text()
    files = sorted(QUERIES.iterdir())
    assert len(files) >= 11
    for file in files:
        text = file.read_text()
        assert file.suffix == ".sql"
        assert re.match(r"-- \S.*\?\n", text), file.name
        assert text.count(";\n") == 1 and text.endswith(";\n"), file.name
        assert f'"{file.name}"' in source, file.name


@pytest.fixture
def ask(kl: Any, psql: Any) -> Callable[[str], Rows]:
    """A function that runs a file of examples/queries, through ``kl query`` and psql alike."""

    def run(name: str) -> Rows:
        rows = kl("-f", str(QUERIES / name))
        assert len(psql((QUERIES / name).read_text())) == len(rows)
        return rows

    return run


def test_queries_about_one_state(ask: Any, post: Any) -> None:
    post(BigState(4).render())
    post(BigState(9).render(), "another")
    leader = "module.primary_herd.random_id.leader"
    shadow = {
        "module.shadow_herd.random_id.leader",
        "module.shadow_herd.random_id.tag[0]",
        "module.shadow_herd.random_string.label[0]",
    }
    herd = {f"module.primary_herd.random_id.tag[{i}]" for i in range(4)}
    herd |= {f"module.primary_herd.random_string.label[{i}]" for i in range(4)}

    assert {row["type"]: row["instances"] for row in ask("inventory_by_type.sql")} == {
        "random_id": 8,
        "random_string": 5,
        "null_resource": 2,
        "time_sleep": 2,
        "random_pet": 1,
    }
    assert {row["module"]: row["resources"] for row in ask("inventory_by_module.sql")} == {
        "module.primary_herd": 9,
        "(root)": 6,
        "module.shadow_herd": 3,
    }
    radius = ask("blast_radius.sql")
    assert {row["address"] for row in radius} == herd | shadow | {"null_resource.summary"}
    assert {row["depth"] for row in radius} == {1}
    assert [row["address"] for row in ask("dependencies_of.sql")] == [
        leader,
        "random_pet.deployment_name",
    ]
    assert {row["address"] for row in ask("dependents_of.sql")} == (
        herd
        | shadow
        | {leader, "null_resource.summary", "null_resource.deployment_marker"}
        | {"random_id.deployment_id"}
    )
    listed = ask("resources_in_state.sql")
    assert len(listed) == 18
    assert {row["changed_serial"] for row in listed} == {1}


def test_queries_about_all_states(ask: Any, post: Any) -> None:
    state = BigState(4)
    post(state.render())
    state.serial = 2
    state.change("again", tags=[0])
    post(state.render())
    post(BigState(9).render(), "another")

    states = {row["name"]: row for row in ask("states_overview.sql")}
    assert {name: row["resources"] for name, row in states.items()} == {
        "big-state": 18,
        "another": 28,
    }
    assert Decimal(str(states["big-state"]["serial"])) == 2
    assert states["another"]["locked_by"] is None
    writes = ask("recent_writes.sql")
    assert [(row["state"], row["version"]) for row in writes] == [
        ("another", 1),
        ("big-state", 2),
        ("big-state", 1),
    ]
    assert {(row["source"], row["actor"]) for row in writes} == {("apply", "ann")}
    sizes = {row["state"]: row for row in ask("state_size.sql")}
    assert {name: row["versions"] for name, row in sizes.items()} == {"big-state": 2, "another": 1}


def test_what_drifted(ask: Any, db: Any) -> None:
    state = BigState(4)
    db.call("write_state", None, None, "big-state", None, state.render(), None, "ann")
    state.serial = 2
    state.change("by somebody", labels=[3])
    db.call("write_state", None, None, "big-state", None, state.render(), None, "ann", "refresh")
    address = "module.primary_herd.random_string.label[3]"
    rows = ask("what_drifted.sql")
    assert [(row["address"], row["change"], row["attribute"]) for row in rows] == [
        (address, "update", "id"),
        (address, "update", "result"),
    ]
    assert all(row["old_value"] != row["new_value"] for row in rows)


def test_quotas(ask: Any, post: Any, psql: Any) -> None:
    post(BigState(4).render())
    for request in (
        '{"scope": "state", "state": "big-state", "limits": {"resources_hard": 36}}',
        '{"scope": "environment", "limits": {"resources_soft": 17, "bytes_soft": 100000000}}',
    ):
        psql("select kilolock.set_quota(%s, null)", request)
    rows = [
        (r["scope"], r["name"], r["measure"], r["percent"], r["status"]) for r in ask("quotas.sql")
    ]
    assert rows == [
        ("environment", "env_default", "resources", 106, "over soft limit"),
        ("state", "big-state", "resources", 50, "ok"),
        ("environment", "env_default", "bytes", 0, "ok"),
    ]


def test_orphaned_data_sources(ask: Any, post: Any) -> None:
    post(
        document(
            resource("data.aws_ami.used", id="ami-1"),
            resource("data.aws_ami.unused", id="ami-2"),
            resource("aws_instance.web", "data.aws_ami.used", id="i-1"),
            resource("aws_instance.lonely", id="i-2"),
        )
    )
    assert [row["address"] for row in ask("orphaned_data_sources.sql")] == ["data.aws_ami.unused"]


def test_unencrypted_s3_buckets(ask: Any, post: Any) -> None:
    nested = "server_side_encryption_configuration"
    separate = "aws_s3_bucket_server_side_encryption_configuration"
    post(
        document(
            resource("aws_s3_bucket.open", bucket="open", id="open", region="eu-west-1"),
            resource("aws_s3_bucket.empty", bucket="empty", id="empty", **{nested: []}),
            resource("aws_s3_bucket.old", bucket="old", id="old", **{nested: [{"rule": []}]}),
            resource("aws_s3_bucket.new", bucket="new", id="new", **{nested: []}),
            resource(f"{separate}.new", "aws_s3_bucket.new", bucket="new"),
            resource("aws_s3_bucket.far", bucket="far", id="far"),
        )
    )
    post(document(resource(f"{separate}.far", bucket="far")), "elsewhere")
    assert [row["bucket"] for row in ask("unencrypted_s3_buckets.sql")] == ["empty", "open"]


def test_queries_about_the_past(ask: Any, post: Any) -> None:
    state = BigState(2)
    post(state.render())
    state.serial = 2
    state.change("again", tags=[0])
    body = state.render()
    post(
        body.replace(b'"prefix": "herd"', b'"prefix": "flock"').replace(b'"size": 2', b'"size": 3')
    )
    bucket = resource("aws_s3_bucket.logs", id="logs-bucket")
    post(document(bucket, resource("aws_vpc.main", id="vpc-1")), "infra")
    post(document(resource("aws_vpc.main", id="vpc-1")) | {"serial": 2}, "infra")

    [gone] = ask("who_deleted_what.sql")
    assert (gone["state"], gone["version"], gone["address"], gone["id"], gone["actor"]) == (
        "infra",
        2,
        "aws_s3_bucket.logs",
        "logs-bucket",
        "ann",
    )
    assert len(ask("resources_as_of.sql")) == 14
    assert [(r["name"], r["value"]) for r in ask("outputs_as_of.sql")] == [("primary_size", 2)]
    changes = ask("changes_since_yesterday.sql")
    assert [c["state"] for c in changes if c["change"] == "state_create"] == ["big-state", "infra"]
    assert len(changes) == 2 + 14 + 1
    last = ask("last_change.sql")
    leader = "module.primary_herd.random_id.leader"
    assert [
        (c["attribute"], c["from_value"], c["to_value"]) for c in last if c["address"] == leader
    ] == [("keepers.prefix", "herd", "flock")]
    assert {c["address"] for c in last} == {leader, "module.primary_herd.random_id.tag[0]"} | {
        "module.shadow_herd.random_id.leader"
    }
    life = ask("life_of_a_resource.sql")
    assert [(c["version"], c["change"], c["attribute"]) for c in life] == [
        (1, "create", ""),
        (2, "update", "keepers.prefix"),
    ]
    told = {row["attribute"]: row["version"] for row in ask("blame.sql")}
    assert told.pop("keepers.prefix") == 2
    assert set(told.values()) == {1}


def _names(kind: str, length: int) -> str:
    """A name that no compression makes shorter."""
    digits = "".join(hashlib.sha256(f"{kind}{n}".encode()).hexdigest() for n in range(length))
    return kind + digits[:length]


@pytest.mark.parametrize("length", [3000, 12000])
def test_names_longer_than_an_index_entry_are_found_like_others(
    db: Database, psql: Callable[..., Any], length: int
) -> None:
    """A btree entry holds 2,704 bytes; the inventory index gives way, and every row is there."""
    module, kind = "module." + _names("m", length), _names("t", length)
    blocks = [
        {"type": "lab", "name": "short"},
        {"type": kind, "name": "n"},
        {"module": module, "type": "lab", "name": "n"},
    ]
    state = {
        "version": 4,
        "terraform_version": "1.11.4",
        "serial": 1,
        "lineage": "l",
        "resources": [
            {"mode": "managed", "provider": "p", "instances": [{"attributes": {}}], **block}
            for block in blocks
        ],
    }
    before = BigState(20).render()
    db.call("write_state", None, None, "big-state", None, before, None, "ann", "apply")
    body = json.dumps(state, indent=2).encode()
    db.call("write_state", None, None, "long", None, body, None, "ann", "apply")
    found = psql("select type, module_path from current_resources where state_name = 'long'")
    assert sorted(found) == sorted([("lab", ""), (kind, ""), ("lab", module)])
    # What came before is counted as before, and the next write is one like any other.
    counts = {row["type"]: row["instances"] for row in _rows(db, BY_TYPE)}
    assert counts["random_string"] == 21
    body = json.dumps({**state, "serial": 2, "resources": state["resources"][:1]}).encode()
    db.call("write_state", None, None, "long", None, body, None, "ann", "apply")
    assert psql("select count(*) from current_resources where state_name = 'long'") == [(1,)]


def test_an_inventory_reads_the_index_alone(db: Database, psql: Callable[..., Any]) -> None:
    """Once a vacuum has seen the rows, no page of the table is read."""
    body = BigState(3000).render()
    db.call("write_state", None, None, "big-state", None, body, None, "ann", "apply")
    psql("vacuum analyze kilolock.resources")
    for query in (BY_TYPE, BY_MODULE):
        plan = json.dumps(psql(f"explain (analyze, format json) {query}")[0][0])
        assert '"Index Only Scan"' in plan
        assert '"Heap Fetches": 0' in plan or '"Heap Fetches": 0.0' in plan


def _rows(db: Database, query: str) -> Rows:
    answer = db.query(query)
    names = [column.name for column in answer.columns]
    return [
        {name: json.loads(value) for name, value in zip(names, row, strict=True)}
        for row in answer.rows
    ]
