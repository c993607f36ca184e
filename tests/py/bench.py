"""``make bench``: the speed of kld on big and small states, held against floors and aims.

The yardstick J is the time that the same server takes to parse the same document into jsonb once:
``select octet_length(t::jsonb::text)`` from a table, taken again beside each row. Everything else
is measured from a client, over HTTP, against a real ``kld serve``.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import hashlib
import http.client
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
from bench_kl import measure_kl
from gen_state import BigState

from kilolock.embedded import EmbeddedServer, ensure_database, free_port
from kilolock.migrate import migrate

FULL_SIZE = 50_000
# Of the state that kl plan and kl apply work on.
KL_SIZE = 5_000
STATE = "big-state"
STORAGE_LIMIT_MB = 5.0
CYCLE_SECONDS = 5.0

BY_TYPE = """
    select type, count(*)::int as instances
    from resources r join states s on s.current_version_id = r.state_version_id
    where s.name = 'big-state' group by type order by instances desc"""
BY_MODULE = """
    select coalesce(nullif(module_path, ''), '(root)') as module, count(*)::int as resources
    from resources r join states s on s.current_version_id = r.state_version_id
    where s.name = 'big-state' group by module order by resources desc"""
BLAST_RADIUS = """
    with recursive reach as (
      select r.id, r.address, 0 as depth
      from resources r join states s on s.current_version_id = r.state_version_id
      where s.name = 'big-state' and r.address = 'module.primary_herd.random_id.leader'
      union
      select r.id, r.address, reach.depth + 1
      from reach
      join resource_dependencies rd on rd.to_resource_id = reach.id
      join resources r on r.id = rd.from_resource_id
    )
    select count(*)::int as reachable_resources from reach"""
BLAST_FUNCTION = """
    select count(*)::int as reachable_resources
    from blast_radius('big-state', 'module.primary_herd.random_id.leader')"""
HISTORY = """
    select h.version, h.created_at, h.actor, h.created, h.updated, h.deleted, h.size, h.tags
    from version_history h join states s on s.id = h.state_id
    where s.name = 'big-state' order by h.place desc limit 50"""
LIFE = "select * from resource_changes('big-state', 'module.primary_herd.random_id.tag[0]')"
DIFF = "select * from diff_attributes('big-state', '1', 'current')"


@dataclass(frozen=True)
class Row:
    """One line of the table; limits are in the row's own unit."""

    what: str
    value: float
    unit: str
    floor: float | None
    aim: float | None
    seconds: float | None = None

    @property
    def verdict(self) -> str:
        """Which of the limits it keeps."""
        if self.floor is None or self.aim is None:
            return ""
        return "aim" if self.value <= self.aim else "ok" if self.value <= self.floor else "OVER"


class Client:
    """One kept connection to kld."""

    def __init__(self, port: int) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=600)

    def timed(self, method: str, path: str, body: bytes | None = None) -> tuple[float, bytes]:
        """Send a request, insist on 200, and return the seconds and the answer."""
        headers = {"Content-Type": "application/json"}
        if body is not None:
            digest = hashlib.md5(body, usedforsecurity=False).digest()
            headers["Content-MD5"] = base64.b64encode(digest).decode()
        started = time.perf_counter()
        self._http.request(method, path, body, headers)
        answer = self._http.getresponse()
        content = answer.read()
        seconds = time.perf_counter() - started
        if answer.status != 200:
            raise RuntimeError(f"{method} {path}: {answer.status} {content[:300]!r}")
        return seconds, content

    def query(self, sql: str) -> tuple[float, Any]:
        """Run SQL through kld; the seconds and the decoded answer."""
        seconds, content = self.timed("POST", "/v1/query", json.dumps({"sql": sql}).encode())
        return seconds, json.loads(content)


class Bench:
    """One run of everything, on one server."""

    def __init__(self, url: str, size: int, port: int, pid: int, posts: int) -> None:
        self.url = url
        self.size = size
        self.port = port
        self.pid = pid
        self.posts = posts
        self.client = Client(port)
        self.state = BigState(size)
        self.body = self.state.render()
        self.j = 0.0
        self.rows: list[Row] = []

    def run(self, cycle_seconds: float) -> None:
        """Measure every row, in the order of the table."""
        self._prepare_yardstick()
        self._big_posts()
        # Before much is rewritten, for that leaves free space which would hide the growth.
        self._storage()
        self._queries()
        self._rewrite()
        times = [self.client.query(BY_TYPE)[0] for _ in range(5)]
        self._in_ms("inventory by type, at once after that", times, None, None)
        self._get()
        self._memory()
        self._small_posts()
        for clients in (1, 16):
            self._cycles(clients, cycle_seconds)

    def collaboration(self, folder: Path) -> None:
        """What kl plan and kl apply take beside terraform, on a state of 10,010 resources."""
        url = f"http://127.0.0.1:{self.port}"
        size = min(self.size, KL_SIZE)
        for what, times, floor, aim in measure_kl(url, size, folder, self.client.timed):
            self._in_ms(what, times, floor, aim)

    def _in_j(self, what: str, times: list[float], floor: float, aim: float) -> None:
        # Measured again at each row: others may have begun or ended to use the machine.
        before, self.j = self.j, self._yardstick()
        seconds = statistics.median(times)
        self._add(Row(what, seconds / ((before + self.j) / 2), "J", floor, aim, seconds))

    def _in_ms(self, what: str, times: list[float], floor: float | None, aim: float | None) -> None:
        seconds = statistics.median(times)
        self._add(Row(what, seconds * 1000, "ms", floor, aim, seconds))

    def _add(self, row: Row) -> None:
        if self.size < FULL_SIZE:
            # The limits are for a large state: of a small one, kld itself is most of the memory.
            row = replace(row, floor=None, aim=None)
        self.rows.append(row)
        print(show(row), flush=True)

    def _prepare_yardstick(self) -> None:
        with psycopg.connect(self.url, autocommit=True) as conn:
            conn.execute("create table public.yardstick (t text)")
            conn.execute("insert into public.yardstick values (%s)", [self.body.decode()])
        self.j = self._yardstick()
        mb = len(self.body) / 1e6
        print(f"{self.state.instances:,} instances, {mb:.1f} MB, J = {self.j:.3f} s", flush=True)

    def _yardstick(self) -> float:
        times = []
        with psycopg.connect(self.url, autocommit=True) as conn:
            for _ in range(3):
                started = time.perf_counter()
                conn.execute("select octet_length(t::jsonb::text) from public.yardstick")
                times.append(time.perf_counter() - started)
        return statistics.median(times)

    def _post(self, **changes: Any) -> float:
        self.state.serial += 1
        if changes:
            self.state.change(self.state.serial, **changes)
        self.body = self.state.render()
        return self.client.timed("POST", f"/v1/states/{STATE}", self.body)[0]

    def _big_posts(self) -> None:
        path = f"/v1/states/{STATE}"
        self._in_j("first POST", [self.client.timed("POST", path, self.body)[0]], 7, 4)
        self._in_j("POST, only the serial changed", [self._post() for _ in range(3)], 2.5, 1.2)
        step = max(1, self.size // 10)
        ten = [list(range(k, self.size, step))[:10] for k in range(3)]
        times = [self._post(tags=some, labels=some) for some in ten]
        self._in_j("POST, 10 instances changed in each big block", times, 4.5, 2)

    def _rewrite(self) -> None:
        every = range(self.size)
        times = [self._post(tags=every, labels=every) for _ in range(2)]
        self._in_j("POST, every instance changed", times, 9, 6)

    def _get(self) -> None:
        times = []
        for _ in range(3):
            seconds, content = self.client.timed("GET", f"/v1/states/{STATE}")
            if content != self.body:
                raise RuntimeError("GET is not what was posted")
            times.append(seconds)
        self._in_j("GET", times, 0.8, 0.4)

    def _memory(self) -> None:
        try:
            status = Path(f"/proc/{self.pid}/status").read_text()
        except OSError:
            return
        [peak] = [int(x.split()[1]) * 1024 for x in status.splitlines() if x.startswith("VmHWM")]
        self._add(Row("peak memory of kld", peak / len(self.body), "x body", 4, 2))

    def _queries(self) -> None:
        self._in_ms(
            "inventory by type, before a vacuum", [self.client.query(BY_TYPE)[0]], None, None
        )
        self._await_vacuum()
        for what, sql, runs, floor, aim in (
            ("inventory by type", BY_TYPE, 9, 30, 10),
            ("inventory by module", BY_MODULE, 9, 60, 25),
            ("blast radius, the seed's query", BLAST_RADIUS, 5, 600, 250),
            ("blast radius, blast_radius()", BLAST_FUNCTION, 9, 80, 25),
            ("history of the state", HISTORY, 9, 300, 100),
            ("history of one resource", LIFE, 9, 300, 100),
            ("diff of the first version and the head", DIFF, 9, 300, 100),
        ):
            self.client.query(sql)
            self._in_ms(what, [self.client.query(sql)[0] for _ in range(runs)], floor, aim)

    def _await_vacuum(self) -> None:
        """Let autovacuum come by, as it does within a minute of a large write."""
        with psycopg.connect(self.url, autocommit=True) as conn:
            for _ in range(180):
                row = conn.execute(
                    "select relallvisible >= 0.9 * relpages from pg_class"
                    " where oid = 'kilolock.resources'::regclass"
                ).fetchone()
                if row is not None and row[0]:
                    return
                time.sleep(0.5)

    def _small_posts(self) -> None:
        state, times = BigState(99, lineage="small"), []
        for i in range(30):
            state.serial += 1
            state.change(i, tags=[i], labels=[i])
            times.append(self.client.timed("POST", "/v1/states/small", state.render())[0])
        self._in_ms("POST of 208 resources, second and later", times[1:], 15, 5)

    def _cycles(self, clients: int, seconds: float) -> None:
        deadline = time.perf_counter() + seconds
        counts, failures = [0] * clients, list[BaseException]()

        def work(number: int) -> None:
            try:
                counts[number] = _work(self.port, f"cycle-{clients}-{number}", deadline)
            except BaseException as ex:
                failures.append(ex)

        started = time.perf_counter()
        threads = [threading.Thread(target=work, args=[i]) for i in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        per_second = sum(counts) / (time.perf_counter() - started)
        who = "1 client" if clients == 1 else f"{clients} clients"
        what = f"LOCK, GET, POST, UNLOCK of 208 resources, {who}"
        self._add(Row(what, per_second, "cycles/s", None, None))

    def _storage(self) -> None:
        before = self._database_size()
        for i in range(self.posts):
            self._post(tags=[i * 7919 % self.size])
        grown = (self._database_size() - before) / 1e6
        what = f"storage of {self.posts} posts, one instance changed each"
        self._add(Row(what, grown, "MB", STORAGE_LIMIT_MB, STORAGE_LIMIT_MB))

    def _database_size(self) -> int:
        with psycopg.connect(self.url, autocommit=True) as conn:
            [size] = conn.execute("select pg_database_size(current_database())").fetchone() or [0]
        return int(size)


def _work(port: int, name: str, deadline: float) -> int:
    client, state, done = Client(port), BigState(99, lineage=name), 0
    address = f"/v1/states/{name}"
    client.timed("POST", address, state.render())
    while time.perf_counter() < deadline:
        lock_id = f"{name}-{done}"
        info = json.dumps({"ID": lock_id, "Operation": "bench", "Who": name}).encode()
        client.timed("LOCK", address, info)
        client.timed("GET", address)
        state.serial += 1
        state.change(done, tags=[done % 99])
        client.timed("POST", f"{address}?ID={lock_id}", state.render())
        client.timed("UNLOCK", address, info)
        done += 1
    return done


def show(row: Row) -> str:
    """A row as one line of text."""
    digits = 0 if row.unit == "ms" and row.value >= 100 else 1 if row.unit != "J" else 2
    seconds = f"{row.seconds:9.3f} s" if row.seconds is not None else " " * 11
    limits = "" if row.floor is None else f"{row.floor:>6g} /{row.aim:>4g}"
    value = f"{row.value:8.{digits}f} {row.unit:<8}"
    return f"{row.what:<52}{seconds} {value} {limits:<13} {row.verdict}".rstrip()


@contextlib.contextmanager
def serving(bindir: Path | None, folder: Path) -> Iterator[tuple[str, int, int]]:
    """A new server and a kld on it: the database's URL, kld's port and its process id."""
    with EmbeddedServer(folder / "server", bindir=bindir) as server:
        ensure_database(server)
        migrate(server.url)
        port = free_port()
        env = {k: v for k, v in os.environ.items() if not k.startswith("KL_")}
        env |= {"KL_DATABASE_URL": server.url, "KL_LISTEN_ADDR": f"127.0.0.1:{port}"}
        with open(folder / "kld.log", "wb") as log:
            kld = subprocess.Popen(
                [sys.executable, "-m", "kilolock.server", "serve"], env=env, stderr=log
            )
        try:
            _wait_until_ready(kld, port, folder / "kld.log")
            yield server.url, port, kld.pid
        finally:
            kld.terminate()
            kld.wait()


def _wait_until_ready(kld: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and kld.poll() is None:
        with contextlib.suppress(OSError, RuntimeError):
            Client(port).timed("GET", "/readyz")
            return
        time.sleep(0.05)
    raise SystemExit(f"kld did not start:\n{log.read_text()}")


def system_bindir() -> Path | None:
    """The programs of the machine's own PostgreSQL: 15 where it is there, else the oldest."""
    found = {
        p.parent.parent.name: p.parent for p in Path("/usr/lib/postgresql").glob("*/bin/postgres")
    }
    return found.get("15") or next((found[k] for k in sorted(found)), None)


def servers(choice: str) -> dict[str, Path | None]:
    """Which servers to measure, by the name to show."""
    chosen: dict[str, Path | None] = {}
    if choice in ("both", "embedded"):
        chosen["the embedded PostgreSQL"] = None
    if choice in ("both", "system"):
        bindir = system_bindir()
        if bindir is None:
            print("No PostgreSQL in /usr/lib/postgresql: only the embedded one is measured.")
        else:
            chosen[f"PostgreSQL {bindir.parent.name} of this machine"] = bindir
    return chosen


def measure(
    name: str, bindir: Path | None, size: int, posts: int, parent: Path | None
) -> list[Row]:
    """Run the bench on one server and print its table as it comes."""
    print(f"\n== {name}, {os.cpu_count()} cores, {platform.machine()}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="kilolock-bench-", dir=parent))
    folder.chmod(0o755)
    try:
        with serving(bindir, folder) as (url, port, pid):
            bench = Bench(url, size, port, pid, posts)
            bench.run(CYCLE_SECONDS if size == FULL_SIZE else CYCLE_SECONDS / 2)
            bench.collaboration(folder)
            return bench.rows
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    """Parse the command line, measure, and end with 1 where a floor was missed at full size."""
    parser = argparse.ArgumentParser(prog="bench.py", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--size", type=int, default=FULL_SIZE, help="half the instances")
    parser.add_argument("--quick", action="store_true", help="--size 2000: does it run at all?")
    parser.add_argument("--posts", type=int, default=50, help="posts of the row about storage")
    parser.add_argument("--server", choices=["both", "embedded", "system"], default="both")
    parser.add_argument("--folder", type=Path, help="where the database lies while it is measured")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    size = 2000 if options.quick else options.size
    print("Medians, with floor / aim; the limits are for states of 100,010 instances.")
    rows: list[Row] = []
    for name, bindir in servers(options.server).items():
        rows += measure(name, bindir, size, options.posts, options.folder)
    over = [row.what for row in rows if row.verdict == "OVER"]
    if over:
        print(f"\nOver the floor: {'; '.join(over)}")
    return 1 if over and size >= FULL_SIZE else 0


if __name__ == "__main__":
    sys.exit(main())
