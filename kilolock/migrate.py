"""Brings a database up to this release: pending migrations, then every function and view.

All of it is one transaction, written as SQL first, so that what ``kld migrate`` runs is what
``kld migrate --sql`` prints. The migrations are yoyo's: this module keeps yoyo's books, so
``yoyo apply`` and ``kld migrate`` see what the other did.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg

from kilolock import __version__
from kilolock.resources import migrations_dir, sql_dir

# Shared by every kld that migrates this database; any constant does.
_ADVISORY_KEY = 7_061_994_206
_OLDEST = 150000

_YOYO_TABLES = """\
create table if not exists _yoyo_migration (
  migration_hash varchar(64),
  migration_id varchar(255),
  applied_at_utc timestamp,
  primary key (migration_hash)
);
create table if not exists _yoyo_log (
  id varchar(36),
  migration_hash varchar(64),
  migration_id varchar(255),
  operation varchar(10),
  username varchar(255),
  hostname varchar(255),
  comment varchar(255),
  created_at_utc timestamp,
  primary key (id)
);
create table if not exists _yoyo_version (
  version int not null primary key,
  installed_at_utc timestamp
);
create table if not exists yoyo_lock (
  locked int default 1,
  ctime timestamp,
  pid int not null,
  primary key (locked)
);
insert into _yoyo_version (version, installed_at_utc)
select v.version, now() at time zone 'utc'
from (values (1), (2)) v(version)
where not exists (select from _yoyo_version);
"""

_OPENING = """\
set local client_min_messages = warning;
set local check_function_bodies = off;
set local lock_timeout = '60s';
"""

# Views go first because a changed column list cannot be replaced, and all at once because they
# read each other. Not cascade: a view that somebody built on ours must not vanish silently.
_DROP_VIEWS = """\
do $$
declare
  v_views text;
begin
  select string_agg(c.oid::regclass::text, ', ') into v_views
  from pg_catalog.pg_class c
  where c.relkind = 'v' and c.relnamespace = to_regnamespace('kilolock');
  if v_views is not null then
    execute 'drop view ' || v_views;
  end if;
end;
$$;
"""

_INSTALLED = """\
create table if not exists kilolock.installed_sql (
  digest text not null,
  installed_at timestamptz not null default clock_timestamp(),
  release text not null,
  constraint installed_sql_pkey primary key (digest)
);
comment on table kilolock.installed_sql is
  'Which functions and views are installed: the newest row names the digest of their files.';
"""

# Bare names then work in psql and every other client. Only an owner may do it, and a database
# without it still serves.
_SEARCH_PATH = """\
do $$
begin
  execute format('alter database %I set search_path = "$user", public, kilolock',
    current_database());
  -- Compiling a query costs more than these queries take: 0.45 s of 0.8 s for a blast radius.
  execute format('alter database %I set jit = off', current_database());
exception when insufficient_privilege then
  raise warning 'not the owner of this database: its search_path stays as it is';
end;
$$;
"""


class MigrateError(RuntimeError):
    """The database cannot be brought up to this release; the message says what to do."""


@dataclass(frozen=True)
class Migration:
    """One file of the migrations folder."""

    id: str
    sql: str

    @property
    def hash(self) -> str:
        """What yoyo keys its books with."""
        return hashlib.sha256(self.id.encode()).hexdigest()


def read_migrations() -> list[Migration]:
    """The migrations of this release, oldest first."""
    files = sorted(migrations_dir().glob("[0-9][0-9][0-9][0-9]-*.sql"))
    return [Migration(f.stem, f.read_text("utf-8")) for f in files if ".rollback" not in f.name]


def replaced_files() -> list[Path]:
    """The functions and views, in the order in which they are installed."""
    root = sql_dir()
    return sorted((root / "functions").glob("*.sql")) + sorted((root / "views").glob("*.sql"))


def digest() -> str:
    """A name for everything that a fully migrated database of this release holds."""
    total = hashlib.sha256()
    for migration in read_migrations():
        total.update(f"{migration.id}\0".encode())
    for file in replaced_files():
        total.update(f"{file.name}\0{file.read_text('utf-8')}\0".encode())
    total.update((_INSTALLED + _SEARCH_PATH).encode())
    return total.hexdigest()


def replaced_sql() -> str:
    """SQL that replaces every function and view, and records that it did."""
    parts = [_DROP_VIEWS, _INSTALLED, "alter table kilolock.installed_sql owner to kilolock_owner;"]
    parts.append("set local role kilolock_owner;")
    for file in replaced_files():
        parts.append(f"-- {file.parent.name}/{file.name}\n{file.read_text('utf-8').strip()}")
        # A file may act as another role; the next one starts as the owner again.
        parts.append("set local role kilolock_owner;")
    parts.append("reset role;")
    parts.append(
        "insert into kilolock.installed_sql (digest, installed_at, release)\n"
        f"values ('{digest()}', clock_timestamp(), '{__version__}')\n"
        "on conflict (digest) do update set\n"
        "  installed_at = excluded.installed_at, release = excluded.release;"
    )
    return "\n\n".join(parts) + "\n"


def _steps(applied: set[str]) -> Iterator[str]:
    """The transaction's statements, between begin and commit."""
    yield _OPENING
    yield f"select pg_advisory_xact_lock({_ADVISORY_KEY});\n"
    yield _YOYO_TABLES
    # yoyo's own lock is a row; the one below is never seen by others unless they hold it too.
    yield "insert into yoyo_lock (locked, ctime, pid) values (1, now() at time zone 'utc', 0);\n"
    for migration in read_migrations():
        if migration.hash in applied:
            continue
        yield f"-- migration {migration.id}\n{migration.sql.strip()}\n"
        yield "reset role;\n"
        yield (
            "insert into _yoyo_migration (migration_hash, migration_id, applied_at_utc)\n"
            f"values ('{migration.hash}', '{migration.id}', "
            "clock_timestamp() at time zone 'utc');\n"
            "insert into _yoyo_log (id, migration_hash, migration_id, operation, username,\n"
            "  hostname, comment, created_at_utc)\n"
            f"values (gen_random_uuid()::text, '{migration.hash}', '{migration.id}', 'apply',\n"
            f"  current_user, 'kld', 'kilolock {__version__}', now() at time zone 'utc');\n"
        )
    yield replaced_sql()
    yield _SEARCH_PATH
    yield "delete from yoyo_lock where pid = 0;\n"


def _connect(url: str) -> psycopg.Connection[tuple[object, ...]]:
    conn = psycopg.connect(url, autocommit=True, prepare_threshold=None)
    if conn.info.server_version < _OLDEST:
        version = conn.info.server_version // 10000
        conn.close()
        raise MigrateError(f"this server is PostgreSQL {version}; kilolock needs 15 or newer")
    return conn


def _applied(conn: psycopg.Connection[tuple[object, ...]]) -> set[str]:
    row = conn.execute("select to_regclass('_yoyo_migration') is not null").fetchone()
    if row is None or not row[0]:
        return set()
    return {str(r[0]) for r in conn.execute("select migration_hash from _yoyo_migration")}


def _is_current(conn: psycopg.Connection[tuple[object, ...]]) -> bool:
    row = conn.execute("select to_regclass('kilolock.installed_sql') is not null").fetchone()
    if row is None or not row[0]:
        return False
    newest = conn.execute(
        "select digest from kilolock.installed_sql order by installed_at desc limit 1"
    ).fetchone()
    return newest is not None and newest[0] == digest()


def _refuse_newer(applied: set[str], conn: psycopg.Connection[tuple[object, ...]]) -> None:
    """An older kld must not put its functions over the tables of a newer one."""
    unknown = applied - {m.hash for m in read_migrations()}
    if not unknown:
        return
    row = conn.execute(
        "select min(migration_id) from _yoyo_migration"
        " where migration_hash = any(%s) and migration_id ~ '^[0-9]{4}-'"
        " and to_regclass('kilolock.installed_sql') is not null",
        [list(unknown)],
    ).fetchone()
    if row is not None and row[0] is not None:
        raise MigrateError(
            f'the database holds migration "{row[0]}", which this release ({__version__}) does not '
            "know; it was migrated by a newer kilolock, upgrade this one"
        )


def check(url: str) -> bool:
    """Whether the database holds exactly what this release would install."""
    with _connect(url) as conn:
        return _is_current(conn)


def migrate_sql(url: str | None) -> str:
    """The script that ``migrate`` would run, for psql; without a database, all of it."""
    applied: set[str] = set()
    if url is not None:
        with _connect(url) as conn:
            applied = _applied(conn)
            _refuse_newer(applied, conn)
    head = f"-- kilolock {__version__}: run with psql -X -v ON_ERROR_STOP=1 -f FILE\n"
    body = "\n".join(_steps(applied))
    return f"{head}\\set ON_ERROR_STOP on\nbegin;\n{body}\ncommit;\n"


def migrate(url: str) -> bool:
    """Bring the database up to this release; False when there was nothing to do."""
    with _connect(url) as conn:
        try:
            if _is_current(conn):
                return False
            with conn.transaction():
                conn.execute("select pg_advisory_xact_lock(%s)", [_ADVISORY_KEY])
                # Another process may have done the work while this one waited for the lock.
                if _is_current(conn):
                    return False
                applied = _applied(conn)
                _refuse_newer(applied, conn)
                for step in _steps(applied):
                    # Without parameters a string may hold many statements; it is our own text.
                    conn.execute(step)
        except psycopg.errors.UniqueViolation as ex:
            if ex.diag.table_name != "yoyo_lock":
                raise
            raise MigrateError(
                "yoyo is applying migrations to this database, or was killed while it did;"
                " if it is gone, run: delete from yoyo_lock"
            ) from ex
        except psycopg.errors.DependentObjectsStillExist as ex:
            raise MigrateError(
                f"another object is built on a view of kilolock: {_one_line(ex)}; "
                "drop it, migrate, and create it again"
            ) from ex
        except psycopg.errors.LockNotAvailable as ex:
            raise MigrateError(
                f"the database was too busy to migrate: {_one_line(ex)}; try again"
            ) from ex
        except psycopg.errors.InsufficientPrivilege as ex:
            raise MigrateError(
                f"{_one_line(ex)}; migrate as the owner of the database with the right to create "
                "roles, or give the output of kld migrate --sql to a DBA"
            ) from ex
    return True


def _one_line(ex: psycopg.Error) -> str:
    text = ex.diag.message_primary or str(ex)
    detail = ex.diag.message_detail or ""
    return re.sub(r"\s+", " ", f"{text} ({detail})" if detail else text).strip()
