"""Both ways to a schema agree, and migrating again, at once or half-way is harmless."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from kilolock import migrate as migrations
from kilolock.resources import migrations_dir, sql_dir

# What a database holds, by name: no oids, no column numbers, nothing of yoyo's.
CATALOGUE = {
    "relations": """
        select c.relkind, c.relname, r.rolname, c.relpersistence, c.reloptions,
          coalesce(c.relacl::text, ''), obj_description(c.oid, 'pg_class')
        from pg_class c join pg_roles r on r.oid = c.relowner
        where c.relnamespace = 'kilolock'::regnamespace order by 1, 2""",
    "columns": """
        select c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
          a.attidentity, a.attgenerated, a.attstorage, a.attcompression, a.attoptions,
          row_number() over (partition by c.oid order by a.attnum),
          pg_get_expr(d.adbin, d.adrelid), coalesce(a.attacl::text, ''),
          col_description(c.oid, a.attnum)
        from pg_class c
        join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
        left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
        where c.relnamespace = 'kilolock'::regnamespace and c.relkind in ('r', 'v', 'p', 'm')
        order by 1, a.attnum""",
    "constraints": """
        select c.conrelid::regclass::text, c.conname, pg_get_constraintdef(c.oid)
        from pg_constraint c where c.connamespace = 'kilolock'::regnamespace order by 1, 2""",
    "indexes": """
        select tablename, indexname, indexdef from pg_indexes where schemaname = 'kilolock'
        order by 1, 2""",
    "functions": """
        select p.oid::regprocedure::text, pg_get_functiondef(p.oid), r.rolname,
          coalesce(p.proacl::text, ''), obj_description(p.oid, 'pg_proc')
        from pg_proc p join pg_roles r on r.oid = p.proowner
        where p.pronamespace = 'kilolock'::regnamespace and p.prokind <> 'a' order by 1""",
    "views": """
        select c.relname, pg_get_viewdef(c.oid) from pg_class c
        where c.relnamespace = 'kilolock'::regnamespace and c.relkind = 'v' order by 1""",
    "triggers": """
        select t.tgrelid::regclass::text, t.tgname, pg_get_triggerdef(t.oid) from pg_trigger t
        join pg_class c on c.oid = t.tgrelid
        where c.relnamespace = 'kilolock'::regnamespace and not t.tgisinternal order by 1, 2""",
    "types": """
        select t.typname, t.typtype from pg_type t
        where t.typnamespace = 'kilolock'::regnamespace order by 1""",
    "schema": """
        select n.nspname, r.rolname, coalesce(n.nspacl::text, '') from pg_namespace n
        join pg_roles r on r.oid = n.nspowner where n.nspname = 'kilolock'""",
}


def catalogue(url: str) -> dict[str, list[tuple[Any, ...]]]:
    with psycopg.connect(url) as conn:
        conn.execute("set search_path = pg_catalog")
        return {name: conn.execute(query).fetchall() for name, query in CATALOGUE.items()}


def install_from_files(url: str) -> None:
    with psycopg.connect(url) as conn:
        conn.execute("set local check_function_bodies = off")
        for file in sorted((sql_dir() / "schema").glob("*.sql")):
            conn.execute(file.read_text())
            conn.execute("reset role")
        conn.execute(migrations.replaced_sql())


def yoyo(url: str, command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "yoyo", command, "--batch", "--no-config-file", "-d"]
        + [url.replace("postgresql://", "postgresql+psycopg://"), str(migrations_dir())],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_fresh_install_equals_a_migrated_one(empty_database_url: str, database_url: str) -> None:
    install_from_files(empty_database_url)
    fresh, migrated = catalogue(empty_database_url), catalogue(database_url)
    for name in CATALOGUE:
        assert fresh[name] == migrated[name], name


def test_migrating_again_changes_nothing(database_url: str) -> None:
    before = catalogue(database_url)
    assert migrations.migrate(database_url) is False
    assert migrations.check(database_url)
    assert catalogue(database_url) == before


def test_a_changed_function_is_put_back(database_url: str, psql: Any) -> None:
    before = catalogue(database_url)
    psql("drop view kilolock.state_overview")
    psql("update kilolock.installed_sql set digest = 'older'")
    assert not migrations.check(database_url)
    assert migrations.migrate(database_url) is True
    assert catalogue(database_url) == before


def test_two_processes_migrate_at_once(empty_database_url: str) -> None:
    env = {**os.environ, "KL_DATABASE_URL": empty_database_url}
    command = [sys.executable, "-m", "kilolock.server", "migrate"]
    both = [subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    said = [process.communicate()[1] for process in both]
    assert [process.returncode for process in both] == [0, 0, 0], said
    assert sum("already" not in text for text in said) == 1, said
    assert migrations.check(empty_database_url)


def test_yoyo_sees_what_kld_applied(database_url: str) -> None:
    assert yoyo(database_url, "apply") == ""
    listed = [line.split() for line in yoyo(database_url, "list").splitlines()]
    ids = {m.id for m in migrations.read_migrations()}
    assert {x[1] for x in listed if len(x) > 1 and x[0] == "A"} == ids


def test_kld_finishes_what_yoyo_began(empty_database_url: str, database_url: str) -> None:
    yoyo(empty_database_url, "apply")
    assert not migrations.check(empty_database_url)
    assert migrations.migrate(empty_database_url)
    assert catalogue(empty_database_url) == catalogue(database_url)


@pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not installed")
def test_a_dba_can_run_the_printed_sql(
    empty_database_url: str, database_url: str, tmp_path: Path
) -> None:
    script = tmp_path / "kilolock.sql"
    script.write_text(migrations.migrate_sql(None))
    done = subprocess.run(
        ["psql", "-Xq", "-d", empty_database_url, "-f", str(script)], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert migrations.check(empty_database_url)
    assert catalogue(empty_database_url) == catalogue(database_url)
    assert "-- migration" not in migrations.migrate_sql(empty_database_url)


def test_a_failed_migration_leaves_nothing(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = [*migrations.read_migrations(), migrations.Migration("9999-broken", "select 1/0;")]
    monkeypatch.setattr(migrations, "read_migrations", lambda: broken)
    with pytest.raises(psycopg.errors.DivisionByZero):
        migrations.migrate(empty_database_url)
    with psycopg.connect(empty_database_url) as conn:
        left = conn.execute("select to_regclass('_yoyo_migration'), to_regnamespace('kilolock')")
        assert left.fetchone() == (None, None)


def test_an_older_release_refuses_a_newer_database(
    database_url: str, psql: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = migrations.Migration("9999-newer", "")
    psql(
        "insert into _yoyo_migration values (%s, %s, now())",
        newer.hash,
        newer.id,
    )
    psql("update kilolock.installed_sql set digest = 'newer'")
    with pytest.raises(migrations.MigrateError, match="9999-newer.*newer kilolock"):
        migrations.migrate(database_url)


def test_a_view_of_somebody_else_is_not_dropped(database_url: str, psql: Any) -> None:
    psql("create view public.mine as select name from kilolock.state_overview")
    psql("update kilolock.installed_sql set digest = 'older'")
    with pytest.raises(migrations.MigrateError, match=r"view (public\.)?mine"):
        migrations.migrate(database_url)
    assert psql("select count(*) from public.mine") == [(0,)]


def test_the_states_survive_a_migration(database_url: str, psql: Any) -> None:
    body = (
        b'{"version":4,"terraform_version":"1.9.0","serial":1,'
        b'"lineage":"a","outputs":{},"resources":[]}'
    )
    psql("select kilolock.write_state(null, null, 's', null, %s::bytea, null, null)", body)
    psql("update kilolock.installed_sql set digest = 'older'")
    assert migrations.migrate(database_url)
    assert psql("select name, serial::int from kilolock.states") == [("s", 1)]


def test_the_past_of_outputs_is_read_from_older_documents(database_url: str, psql: Any) -> None:
    def post(name: str, serial: int, outputs: dict[str, Any], **layout: Any) -> None:
        block = {"mode": "managed", "type": "t", "name": "a", "provider": "p", "instances": []}
        block["instances"] = [{"schema_version": 0, "attributes": {"id": str(serial)}}]  # type: ignore[assignment]
        body = {"version": 4, "terraform_version": "1.9.0", "serial": serial, "lineage": "a"}
        body |= {"outputs": outputs, "resources": [block]}
        text = json.dumps(body, **(layout or {"indent": 2})).encode()
        psql("select kilolock.write_state(null, null, %s, null, %s::bytea, null, null)", name, text)

    plain, secret = {"value": 1, "type": "number"}, {"value": "s", "type": "string"}
    secret["sensitive"] = True  # type: ignore[assignment]
    post("s", 1, {"a": plain, "b": secret})
    post("s", 2, {"a": plain, "b": secret | {"value": "\0\ud800"}, "c": {"value": None}})
    psql("select kilolock.delete_state(null, null, 's', null, null)")
    post("s", 3, {"a": plain, "b": secret}, separators=(",", ":"))
    post("s", 4, {"a": plain | {"value": {"resources": [1.5, "\n"]}}}, indent=1)
    post("s", 5, {"a": plain | {"value": {"resources": [1.5, "\n"]}}})
    post("gone", 1, {"a": plain})
    psql("select kilolock.delete_state(null, null, 'gone', null, null)")
    shown = [
        "select to_jsonb(o) from kilolock.outputs o order by state_id, name",
        "select to_jsonb(o) from kilolock.past_outputs o order by state_id, name, until_version",
    ]
    before = [psql(query) for query in shown]
    assert [len(rows) for rows in before] == [1, 7]

    psql(migrations._DROP_VIEWS)
    psql("drop table kilolock.past_outputs, kilolock.tags")
    psql("drop index kilolock.events_state_id_deleted_version_idx")
    psql("alter table kilolock.version_documents drop column pruned_at")
    psql("alter table kilolock.outputs drop column since_version")
    psql("update kilolock.outputs set value = '0'")
    psql("delete from _yoyo_migration where migration_id = '0004-time-travel'")
    psql("update kilolock.installed_sql set digest = 'older'")
    assert migrations.migrate(database_url)
    assert [psql(query) for query in shown] == before


def test_a_login_without_superuser_can_migrate(empty_database_url: str) -> None:
    name = "kl_test_plain_owner"
    with psycopg.connect(empty_database_url, autocommit=True) as conn:
        database = conn.info.dbname
        conn.execute("drop role if exists kl_test_plain_owner")
        conn.execute("create role kl_test_plain_owner login createrole password 'x'")
        conn.execute(
            sql.SQL("alter database {} owner to {}").format(*map(sql.Identifier, (database, name)))
        )
        for role in ("owner", "app", "reader", "state_reader"):
            conn.execute(f"grant kilolock_{role} to {name} with admin option")
        url = psycopg.conninfo.make_conninfo(empty_database_url, user=name, password="x")
        try:
            assert migrations.migrate(url)
            assert migrations.check(url)
        finally:
            conn.execute(f"reassign owned by {name} to current_user")
            conn.execute(f"drop owned by {name}")
            conn.execute(f"drop role {name}")
