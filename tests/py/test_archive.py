"""A state's whole history leaves in one file and comes in again, or not at all."""
# ruff: noqa: F811  the fixtures of test_cli are imported here

from __future__ import annotations

import io
import json
import random
import re
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from conftest import Kld, scratch_folder
from gen_state import BigState
from test_cli import Kl, ask, failed, kl  # noqa: F401
from test_http import STATES, document
from test_transfer import CODE

from kilolock.archive import MAGIC, ArchiveError, Packed, restore, unpack, verify
from kilolock.db import Database
from kilolock.embedded import EmbeddedServer, ensure_database
from kilolock.migrate import migrate

ODD = [
    "",
    "\x00",
    "a\x00b",
    "\\u0000",
    '"',
    "\\",
    "${x}",
    "\u2028",
    "\n",
    "\ud800",
    "\udc00x",
    "💥",
    "é",
]


class History:
    """Random versions of a state, with deletes, moves and whatever else a document may hold."""

    def __init__(self, db: Database, name: str, seed: int) -> None:
        self.db = db
        self.name = name
        self.random = random.Random(seed)
        self.serial = 0
        self.resources: dict[tuple[str, Any], dict[str, Any]] = {}
        self.documents: list[bytes] = []

    def write(self, actor: str, source: str = "apply") -> None:
        """One more version."""
        for _ in range(self.random.randint(1, 3)):
            self._change()
        self.serial += self.random.randint(1, 3)
        body = self._render()
        self.db.call("write_state", None, None, self.name, None, body, None, actor, source)
        self.documents.append(body)

    def delete(self, actor: str) -> None:
        """Delete it; what comes next begins anew, with what was there or without."""
        self.db.call("delete_state", None, None, self.name, None, actor)
        self.serial = 0
        if self.random.random() < 0.5:
            self.resources.clear()

    def _change(self) -> None:
        pick, choice = self.random.random(), self.random.choice
        if pick < 0.5 or not self.resources:
            key = choice(
                [None, *range(4), *(s for s in ODD if "\ud800" not in s and "\x00" not in s)]
            )
            if isinstance(key, str) and any("\ud800" <= c <= "\udfff" for c in key):
                key = "surrogate"
            at = (choice("abcdef"), key)
            self.resources[at] = {"id": str(self.random.random()), choice(ODD): choice(ODD)}
        elif pick < 0.7:
            self.resources.pop(choice(list(self.resources)))
        elif pick < 0.8:
            at = choice(list(self.resources))
            self.resources[choice("ghi"), at[1]] = self.resources.pop(at)
        else:
            at = choice(list(self.resources))
            self.resources[at]["value"] = choice(
                [*ODD, 1e400, 2**70, None, [1, {"x": choice(ODD)}]]
            )

    def _render(self) -> bytes:
        blocks = []
        for block in sorted({name for name, _ in self.resources}):
            instances = []
            for (name, key), attributes in self.resources.items():
                if name != block:
                    continue
                index = {} if key is None else {"index_key": key}
                secret = [[{"type": "get_attr", "value": "value"}]] if name in "ab" else []
                current = {"schema_version": 0, "attributes": attributes}
                current |= {"sensitive_attributes": secret, "dependencies": ["test.a", "test.b"]}
                instances.append(index | current)
                if name == "c":
                    instances.append(index | {"deposed": "deadbeef"} | current)
            blocks.append(
                {"mode": "managed", "type": "test", "name": block, "provider": "p"}
                | {"instances": instances}
            )
        state = {"version": 4, "terraform_version": "1.11.4", "serial": self.serial}
        state |= {
            "lineage": "l",
            "outputs": {"o": {"value": self.random.choice(ODD), "type": "string"}},
        }
        text = json.dumps(
            state | {"resources": blocks, "check_results": None},
            indent=self.random.choice([2, 2, 2, None]),
        )
        # Terraform keeps what JSON can say and Python's numbers cannot.
        return text.replace("Infinity", "1e400").encode()


def make_history(db: Database, psql: Any, name: str, versions: int, seed: int = 1) -> History:
    """A state with that many versions, four deletes, tags, refreshes and a deleted end or not."""
    history = History(db, name, seed)
    for n in range(1, versions + 1):
        history.write(f"actor {n % 7}", ["apply", "import", "refresh"][n % 3] if n > 1 else "apply")
        if n % (versions // 4 or 1) == 0 and n < versions:
            history.delete("the deleter")
    psql(
        """insert into kilolock.tags (state_id, name, version, actor, created_at)
           select s.id, t.name, 1 + random() * (s.head_version - 1), 'ed', now() - interval '1 day'
           from kilolock.states s cross join unnest(%s::text[]) t(name) where s.name = %s""",
        ["good", "v1.0", "é 💥"],
        name,
    )
    return history


PAST = {
    "state": """
        select s.serial, s.lineage, s.terraform_version, s.head_version, s.resource_count,
          s.managed_count, s.head_size, s.created_at, s.updated_at, s.current_version_id is null
        from kilolock.states s where s.id = %(id)s""",
    "versions": """
        select d.version, d.serial, d.lineage, d.terraform_version, d.raw_size, d.raw_md5,
          d.resource_count, d.created_count, d.updated_count, d.deleted_count, d.encrypted,
          d.source, d.actor, d.created_at, d.pruned_at, d.id = s.current_version_id,
          (select string_agg(c.data, '' order by i.n)
           from unnest(d.chunk_ids) with ordinality i(id, n)
           join kilolock.document_chunks c on c.id = i.id)
        from kilolock.version_documents d join kilolock.states s on s.id = d.state_id
        where d.state_id = %(id)s order by d.version""",
    "history": """
        select h.address, h.deposed_key, h.mode, h.type, h.module_path, h.name, h.provider,
          h.status, h.attributes::text, h.from_version, h.until_version, h.change, h.source,
          h.actor, h.resource_id
        from kilolock.resource_history h where h.state_id = %(id)s
        order by h.address, h.deposed_key, h.from_version, h.until_version""",
    "resources": """
        select r.address, r.deposed_key, r.since_version, r.changed_at, r.created_serial,
          r.changed_serial, r.sensitive_paths::text, r.attributes::text, r.status, r.last_change,
          r.schema_version, r.id as resource_id
        from kilolock.resources r where r.state_id = %(id)s order by r.address, r.deposed_key""",
    "outputs": """
        select o.name, o.value::text, o.type::text, o.sensitive, o.changed_serial
        from kilolock.outputs o where o.state_id = %(id)s order by 1""",
    "past outputs": """
        select to_jsonb(o) - 'state_id' from kilolock.past_outputs o where o.state_id = %(id)s
        order by o.name, o.from_version""",
    "edges": """
        select f.address, t.address from kilolock.resource_dependencies d
        join kilolock.resources f on f.id = d.from_resource_id
        join kilolock.resources t on t.id = d.to_resource_id
        where f.state_id = %(id)s order by 1, 2, f.deposed_key, t.deposed_key""",
    "tags": """
        select t.name, t.version, t.actor, t.created_at from kilolock.tags t
        where t.state_id = %(id)s order by 1""",
    "refreshes": """
        select r.lock_id, r.who, r.status, r.base_version, r.version, r.drifted_count, r.message,
          r.started_at, r.finished_at
        from kilolock.refresh_runs r where r.state_id = %(id)s order by r.id""",
    "drift": """
        select d.address, d.change, d.detected_in, d.refresh_run_id is null
        from kilolock.current_drift d where d.state_id = %(id)s order by 1, 2""",
    "events": """
        select e.kind, e.actor, e.created_at, e.payload::text from kilolock.events e
        where e.state_id = %(id)s and e.kind <> 'archive_import' order by e.id""",
}


def past_of(url: str, name: str) -> dict[str, list[tuple[Any, ...]]]:
    """All that a database tells of a state, with ids and digests numbered as they appear."""
    with psycopg.connect(url) as conn:
        row = conn.execute(
            "select s.id from kilolock.states s where s.name = %s", [name]
        ).fetchone()
        assert row is not None
        numbers: dict[Any, str] = {}

        def plain(value: Any, column: str) -> Any:
            if column == "resource_id":
                return numbers.setdefault(value, f"resource {len(numbers)}")
            if isinstance(value, str):
                return re.sub(
                    "sha256:[0-9a-f]{64}",
                    lambda m: numbers.setdefault(m[0], f"digest {len(numbers)}"),
                    value,
                )
            return value

        past = {}
        for kind, query in PAST.items():
            cursor = conn.execute(query, {"id": row[0]})
            names = [c.name for c in cursor.description or []]
            past[kind] = [tuple(map(plain, r, names)) for r in cursor.fetchall()]
        return past


def archive_of(db: Database, name: str) -> bytes:
    """The archive of a state."""
    rows = db.stream("export_archive", None, None, name)
    return b"".join(Packed((row[0] for row in rows), rows.close))


def starts(archive: bytes) -> list[int]:
    """Where the records of an archive begin, the one that ends it included."""
    offsets = [r.offset for r in unpack(io.BytesIO(archive))]
    last = offsets[-1]
    return [0, *offsets, last + 41 + int.from_bytes(archive[last + 1 : last + 5], "big")]


def left_behind(psql: Any) -> dict[str, int]:
    """How many rows there are of what an import writes."""
    tables = ("states", "version_documents", "document_chunks", "resources", "past_resources")
    tables += ("events", "tags", "archive_records", "resource_blocks", "state_salts")
    return {t: psql(f"select count(*) from kilolock.{t}")[0][0] for t in tables}


@pytest.fixture
def small(db: Database, psql: Any) -> bytes:
    """The archive of a short history that has every kind of record."""
    make_history(db, psql, "small", 3)
    db.call(
        "write_state",
        None,
        None,
        "small",
        None,
        document(90, "z", lineage="l"),
        None,
        None,
        "refresh",
    )
    return archive_of(db, "small")


def test_two_hundred_versions_come_back_as_they_were(
    ask: Kl,
    db: Database,
    psql: Any,
    database_url: str,
    kld: Kld,
) -> None:
    history = make_history(db, psql, "prod", 200)
    done = ask("export", "--archive", "prod.klarchive", "prod")
    assert (done.returncode, done.stdout) == (0, "")
    assert "200 versions of prod" in done.stderr
    assert (ask.directory / "prod.klarchive").stat().st_mode & 0o777 == 0o600
    shown = ask("archive", "verify", "prod.klarchive").stdout
    assert re.search("Versions: +200\n", shown)
    assert re.search("Deletes: +3\n", shown)
    assert "3" in re.search("Tags: +(.*)\n", shown)[1]  # type: ignore[index]
    refreshes = psql("select count(*) from kilolock.refresh_runs where status <> 'running'")[0][0]
    assert re.search(f"Refreshes: +{refreshes}\n", shown)

    done = ask("import", "--archive", "prod.klarchive", "--name", "a copy/é")
    assert (done.returncode, done.stdout) == (0, "")
    assert "200 versions" in done.stderr
    before, after = past_of(database_url, "prod"), past_of(database_url, "a copy/é")
    assert len(before["versions"]) == 200
    assert {v[12] for v in before["versions"]} == {f"actor {n}" for n in range(7)}
    for kind in PAST:
        assert after[kind] == before[kind], kind
    for version, body in enumerate(history.documents, 1):
        path = f"/v1/state-versions/a%20copy%2F%C3%A9?version={version}"
        if version % 20 == 1:
            assert kld.request("GET", path)[2] == body
    assert [v[16].encode() for v in after["versions"]] == history.documents

    # Whoever imported it is in an event; the copy's own archive has one more, and nothing else.
    [(actor, payload)] = psql(
        "select actor, payload from kilolock.events where kind = 'archive_import'"
    )
    assert "@" in actor
    assert (payload["from"], payload["versions"]) == ("prod", 200)
    again = [r for r in unpack(io.BytesIO(archive_of(db, "a copy/é"))) if r.kind in "VD"]
    first = [r for r in unpack(io.BytesIO(archive_of(db, "prod"))) if r.kind in "VD"]
    assert [{**r.json, "chunks": 0} for r in again] == [{**r.json, "chunks": 0} for r in first]
    assert "already" in failed(ask("import", "--archive", "prod.klarchive", "--name", "prod"), 4)
    assert "already" in failed(ask("import", "--archive", "prod.klarchive"), 4)


def test_the_next_write_goes_on_from_an_imported_head(
    small: bytes, db: Database, psql: Any
) -> None:
    restore(db, io.BytesIO(small), (None, None, "copy"), "ann")
    for name in ("small", "copy"):
        done = db.call(
            "write_state",
            None,
            None,
            name,
            None,
            document(91, "y", lineage="l"),
            None,
            "x",
            "apply",
        )
        assert done is not None
        assert json.loads(done) | {"state": ""} == {
            "state": "", "version": 5, "serial": 91, "created": 1, "updated": 0, "deleted": 1,
            "moved": 0, "changed": True,
        }  # fmt: skip


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_pruned_versions_are_known_and_what_they_changed_too(
    seed: int, db: Database, psql: Any, database_url: str
) -> None:
    make_history(db, psql, "prod", 40, seed)
    request = {"state": "prod", "keep": "5", "apply": True}
    assert json.loads(db.call("prune_versions", json.dumps(request), "ann") or "")["applied"]
    request = {"state": "prod", "version": "38"}
    psql("delete from kilolock.tags where version = 38")
    db.call("purge_version", json.dumps(request), "ann")
    archive = archive_of(db, "prod")
    assert verify(io.BytesIO(archive)).counts["pruned"] > 30
    restore(db, io.BytesIO(archive), (None, None, "copy"), "ann")
    before, after = past_of(database_url, "prod"), past_of(database_url, "copy")
    for kind in PAST:
        if kind not in ("history", "drift"):
            assert after[kind] == before[kind], kind
    # What no version shows any more is kept for reports of drift only, and not in an archive.
    shown = {v[0] for v in before["versions"] if v[14] is None}
    for kind in ("history", "drift"):
        kept = [h for h in before[kind] if kind == "drift" or shows(h, shown)]
        assert [h[:14] for h in after[kind]] == [h[:14] for h in kept], kind


def shows(row: tuple[Any, ...], versions: set[int]) -> bool:
    """Whether one of these versions shows this row of resource_history, or what it says went."""
    begin, until = row[9], row[10]
    if row[11] == "delete":
        return True
    return any(begin <= v and (until is None or v < until) for v in versions)


def test_archives_share_what_versions_share(db: Database) -> None:
    state = BigState(10_000)
    sizes = []
    for n in range(1, 8):
        state.serial = n
        state.change(n, tags=[n])
        db.call("write_state", None, None, "big", None, state.render(), None, None, "apply")
        if n in (1, 7):
            sizes.append(len(archive_of(db, "big")))
    # Six more versions cost some chunks, whose borders a secret decides.
    assert sizes[1] < 1.5 * sizes[0]
    assert sizes[0] < len(zlib.compress(state.render(), 6)) * 1.2


def test_any_flipped_byte_is_refused_with_its_place(small: bytes) -> None:
    borders = starts(small)
    for at in range(len(small)):
        for flip in (0x01, 0x80, 0xFF):
            bad = bytearray(small)
            bad[at] ^= flip
            with pytest.raises(ArchiveError) as caught:
                verify(io.BytesIO(bad))
            begin = max(b for b in borders if b <= at)
            assert caught.value.offset == begin, (at, flip, str(caught.value))
            assert f"at byte {begin}" in str(caught.value)
            assert caught.value.record == borders.index(begin) - 1


def test_any_cut_and_any_addition_is_refused_with_its_place(small: bytes) -> None:
    borders = starts(small)
    for length in range(len(small)):
        with pytest.raises(ArchiveError) as caught:
            verify(io.BytesIO(small[:length]))
        if length >= len(MAGIC):
            assert caught.value.offset == max(b for b in borders if b <= length)
    for more in (b"\0", b"Z", small):
        with pytest.raises(ArchiveError, match="followed by something else") as caught:
            verify(io.BytesIO(small + more))
        assert caught.value.offset == len(small)


def test_records_that_change_places_are_refused(small: bytes) -> None:
    borders = [*starts(small), len(small)]
    pieces = [small[a:b] for a, b in zip(borders, borders[1:], strict=False)]
    for n in range(1, len(pieces) - 2):
        swapped = [*pieces[:n], pieces[n + 1], pieces[n], *pieces[n + 2 :]]
        missing = [*pieces[:n], *pieces[n + 1 :]]
        for wrong in (swapped, missing):
            with pytest.raises(ArchiveError) as caught:
                verify(io.BytesIO(b"".join(wrong)))
            assert caught.value.offset == borders[n]


def test_a_damaged_larger_archive_is_refused_and_imports_nothing(
    ask: Kl,
    db: Database,
    psql: Any,
) -> None:
    state = BigState(1000)
    for n in range(1, 4):
        state.serial = n
        state.change(n, tags=[n, 500 + n])
        db.call("write_state", None, None, "big", None, state.render(), None, None, "apply")
    good = archive_of(db, "big")
    borders = starts(good)
    before = left_behind(psql)
    random_ = random.Random(3)
    for at in [*random_.sample(range(len(good)), 10), len(good) - 1]:
        bad = bytearray(good)
        bad[at] ^= 1 << random_.randrange(8)
        (ask.directory / "bad").write_bytes(bad)
        begin = max(b for b in borders if b <= at)
        for command in (
            ["import", "--archive", "bad", "--name", "x"],
            ["archive", "verify", "bad"],
        ):
            assert f"at byte {begin}," in failed(ask(*command), 2)
    (ask.directory / "bad").write_bytes(good[:-1])
    failed(ask("import", "--archive", "bad", "--name", "x"), 2)
    assert left_behind(psql) == before


def test_files_that_are_no_archive_are_explained(ask: Kl, small: bytes) -> None:
    cases = {
        "state": (document(1, "a"), "import it without --archive"),
        "empty": (b"", "is empty"),
        "gzip": (b"\x1f\x8b" + bytes(50), "no Kilolock archive"),
        "newer": (b"kilolock-archive 2\n" + bytes(50), "format 2"),
        "far": (b"kilolock-archive 12345\n", "format 12345"),
        "cut": (MAGIC[:7], "cut short"),
    }
    for name, (data, word) in cases.items():
        (ask.directory / name).write_bytes(data)
        assert word in failed(ask("import", "--archive", name, "--name", "x"), 2)
        assert word in failed(ask("archive", "verify", name), 2)
    failed(ask("import", "--archive", "missing"), 2)
    failed(ask("import", "--archive", "."), 2)
    failed(ask("archive", "verify", "missing"), 2)
    failed(ask("export", "--archive", "x", "nowhere"), 3)
    failed(ask("export", "--archive", "x", "--version", "1", "small"), 2)
    failed(ask("import", "--archive", "x", "--force"), 2)
    failed(ask("import", "--name", "x"), 2)
    assert not (ask.directory / "x").exists()


def test_archives_go_through_pipes(ask: Kl, small: bytes, db: Database, database_url: str) -> None:
    pipe = (
        'set -o pipefail; kl() { "$0" -c "$1" "${@:2}"; };'
        ' "$0" -c "$1" export --archive - small | "$0" -c "$1" archive verify - &&'
        ' "$0" -c "$1" export --archive - small | "$0" -c "$1" import --archive - --name piped'
    )
    done = subprocess.run(
        ["bash", "-c", pipe, sys.executable, CODE],
        env=ask.env,
        cwd=ask.directory,
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    assert "every byte as it was written" in done.stdout
    assert past_of(database_url, "piped") == past_of(database_url, "small")


def test_archives_over_http(kld: Kld, start_kld: Any, small: bytes, psql: Any) -> None:
    status, headers, body = kld.request("GET", "/v1/archives/small")
    assert (status, headers["content-type"]) == (200, "application/vnd.kilolock.archive")
    assert [r.json for r in unpack(io.BytesIO(body)) if r.kind == "V"] == [
        r.json for r in unpack(io.BytesIO(small)) if r.kind == "V"
    ]
    assert kld.request("GET", "/v1/archives/nowhere")[0] == 404
    status, _, answer = kld.request("POST", "/v1/archives/small", small)
    assert (status, json.loads(answer)["error"]["code"]) == (409, "KLC09")
    status, _, answer = kld.request("POST", "/v1/archives/new", small[:-1])
    assert (status, json.loads(answer)["error"]["code"]) == (400, "KLB09")
    assert kld.request("POST", "/v1/archives/new", b"")[0] == 400
    assert kld.request("POST", "/v1/archives/ws_default/env_default/new", small)[0] == 200
    assert kld.request("GET", f"{STATES}/new")[2] == kld.request("GET", f"{STATES}/small")[2]
    limited = start_kld(KL_MAX_ARCHIVE_MB="1", KL_MAX_STATE_MB="1")
    status, _, answer = limited.request("POST", "/v1/archives/x", small + bytes(1024 * 1024))
    assert status == 413
    assert "KL_MAX_ARCHIVE_MB" in answer.decode()


def busy_sessions(psql: Any, what: str) -> list[int]:
    """Sessions of this database that run this function now."""
    return [
        pid
        for (pid,) in psql(
            """select pid from pg_stat_activity where datname = current_database()
               and state = 'active' and query like %s and pid <> pg_backend_pid()""",
            f'select kilolock."{what}"(%',
        )
    ]


def wait_until(condition: Callable[[], Any], timeout_s: float = 60) -> Any:
    """What a condition gives once it is true."""
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)
    return found


@pytest.fixture
def slow_archive(db: Database, kl: Kl) -> Iterator[Path]:
    """An archive that takes a while to import, of a state that is then gone."""
    state = BigState(2000)
    for n in range(1, 9):
        state.serial = n
        state.change(n, tags=range(n, 2000, 2), labels=range(n, 2000, 2))
        db.call("write_state", None, None, "slow", None, state.render(), None, None, "apply")
    path = kl.directory / "slow"
    path.write_bytes(archive_of(db, "slow"))
    yield path


@pytest.mark.parametrize("killed", ["kl on a database", "kl on a kld", "kld"])
def test_a_kill_during_an_import_leaves_nothing(
    killed: str,
    slow_archive: Path,
    kl: Kl,
    kld: Kld,
    psql: Any,
    database_url: str,
) -> None:
    before = left_behind(psql)
    env = {"KL_STATE_URL": kld.url}
    if killed == "kl on a database":
        env = {"KL_DATABASE_URL": database_url}
    process = subprocess.Popen(
        [sys.executable, "-c", CODE, "import", "--archive", "slow", "--name", "x"],
        env=kl.env | env,
        cwd=kl.directory,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        [session] = wait_until(lambda: busy_sessions(psql, "import_archive"))
        if killed == "kld":
            kld.stop(signal.SIGKILL)
        else:
            process.kill()
        wait_until(lambda: not busy_sessions(psql, "import_archive"))
        wait_until(
            lambda: (
                not psql(
                    "select 1 from pg_stat_activity where pid = %s and xact_start is not null",
                    session,
                )
            )
        )
    finally:
        process.kill()
        process.wait()
    assert left_behind(psql) == before
    if killed == "kld":
        kld.restart()
    done = kl("import", "--archive", "slow", "--name", "x", **env)
    assert done.returncode == 0, done.stderr
    before_, after = past_of(database_url, "slow"), past_of(database_url, "x")
    assert {k: after[k] == before_[k] for k in PAST} == dict.fromkeys(PAST, True)


def test_an_export_that_breaks_off_leaves_no_file(
    slow_archive: Path,
    kl: Kl,
    kld: Kld,
    psql: Any,
) -> None:
    psql("update kilolock.version_documents set chunk_ids = chunk_ids where version = 1")
    psql(
        """update kilolock.document_chunks set data = repeat('x', 50000000)
           where id = (select max(id) from kilolock.document_chunks)"""
    )
    process = subprocess.Popen(
        [sys.executable, "-c", CODE, "export", "--archive", "out", "slow"],
        env=kl.env | {"KL_STATE_URL": kld.url},
        cwd=kl.directory,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    wait_until(lambda: list(kl.directory.glob(".out.*")))
    kld.stop(signal.SIGKILL)
    _, said = process.communicate(timeout=60)
    assert process.returncode in (1, 8), said
    assert not list(kl.directory.glob("*out*"))


def test_a_server_of_another_version_takes_it(
    server_url: str, db: Database, psql: Any, database_url: str
) -> None:
    """What the embedded PostgreSQL exports, the machine's own imports, and the other way round."""
    [(running,)] = psql("show server_version_num")
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    bindir = next((f.parent for f in folders if not str(running).startswith(f.parts[4])), None)
    if int(running) < 180000:
        bindir = None
    elif bindir is None:
        pytest.skip("no other PostgreSQL in /usr/lib/postgresql")
    make_history(db, psql, "prod", 40, seed=5)
    archive = archive_of(db, "prod")
    folder = scratch_folder()
    with EmbeddedServer(folder / "server", bindir=bindir) as server:
        ensure_database(server)
        migrate(server.url)
        there = Database(server.url)
        try:
            restore(there, io.BytesIO(archive), (None, None, "prod"), "ann")
        finally:
            there.close()
        with psycopg.connect(server.url) as conn:
            assert conn.execute("show server_version_num").fetchone() != (running,)
        assert past_of(server.url, "prod") == past_of(database_url, "prod")


def peak_kb(pid: int | str) -> int:
    """The most memory that a process had so far."""
    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1])


MEASURED = """
import sys, pathlib
from kilolock.cli import main
try:
    main(prog_name="kl")
except SystemExit as ex:
    print(pathlib.Path("/proc/self/status").read_text())
    raise
"""


@pytest.mark.big
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, which Linux has")
def test_memory_does_not_follow_the_size_of_the_history(
    kl: Kl,
    kld: Kld,
    db: Database,
    psql: Any,
    tmp_path: Path,
    database_url: str,
) -> None:
    def peak(*args: str, **env: str) -> int:
        done = subprocess.run(
            [sys.executable, "-c", MEASURED, *args],
            env=kl.env | env,
            capture_output=True,
            encoding="utf-8",
            check=True,
        )
        return int(re.findall(r"VmHWM:\s+(\d+)", done.stdout)[0])

    peaks: dict[str, list[int]] = {}
    for name, size in (("little", 10), ("large", 20_000)):
        state = BigState(size)
        for n in range(1, 4):
            state.serial = n
            state.change(n, tags=[n])
            db.call("write_state", None, None, name, None, state.render(), None, None, "apply")
        file = str(tmp_path / name)
        ways = {"direct": {"KL_DATABASE_URL": database_url}, "kld": {"KL_STATE_URL": kld.url}}
        for way, env in ways.items():
            for args in (
                ["export", "--archive", file, name],
                ["archive", "verify", file],
                ["import", "--archive", file, "--name", f"{name} {way}"],
            ):
                peaks.setdefault(f"{args[0]} {way}", []).append(peak(*args, **env))
        peaks.setdefault("kld", []).append(peak_kb(kld.proc.pid))
    document_kb = len(BigState(20_000).render()) // 1024
    print(document_kb, peaks)
    for what, (little, large) in peaks.items():
        assert large < little + document_kb / 2, (what, little, large, document_kb)


def test_an_archive_of_the_first_release_can_still_be_imported(
    db: Database, psql: Any, database_url: str
) -> None:
    data = (Path(__file__).parent / "first.klarchive").read_bytes()
    summary = verify(io.BytesIO(data))
    assert summary.header["state"] == "first"
    restore(db, io.BytesIO(data), (None, None, "first"), "ann")
    past = past_of(database_url, "first")
    assert [v[0] for v in past["versions"]] == [1, 2, 3, 4, 5]
    assert [v[14] is not None for v in past["versions"]] == [False, True, False, True, False]
    assert [t[0] for t in past["tags"]] == ["good", "v1.0", "é 💥"]
    assert [e[0] for e in past["events"]].count("state_delete") == 2
    assert {r[2] for r in past["refreshes"]} == {"clean", "drifted"}
    deposed = {h[1] for h in past["history"]}
    assert deposed == {None, "deadbeef"}
