"""kld behind Debian's PgBouncer in transaction mode: nothing may live in a session."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from conftest import Kld, scratch_folder
from gen_state import BigState

from kilolock.embedded import free_port

PGBOUNCER = shutil.which(
    "pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
)
CLIENTS = 32
# Fewer server connections than clients, so that transactions of one client change servers.
POOL_SIZE = 6

pytestmark = pytest.mark.skipif(PGBOUNCER is None, reason="pgbouncer is not installed")


@pytest.fixture
def pooled_url(database_url: str) -> Iterator[str]:
    """This test's database, through a PgBouncer of its own."""
    parts = urlsplit(database_url)
    database, port = parts.path.lstrip("/"), free_port()
    folder = scratch_folder("kilolock-pgbouncer-")
    config = folder / "pgbouncer.ini"
    password = unquote(parts.password or "").replace("'", "''")
    config.write_text(
        f"""[databases]
{database} = host={parts.hostname} port={parts.port or 5432} user={parts.username} \
password='{password}'
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {POOL_SIZE}
max_client_conn = 200
"""
    )
    user = unprivileged_user()
    if user is not None:
        os.chown(config, user.pw_uid, user.pw_gid)
    config.chmod(0o600)
    log = folder / "pgbouncer.log"
    with open(log, "wb") as output:
        process = subprocess.Popen(
            [str(PGBOUNCER), str(config)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            # PgBouncer refuses to run as root.
            user=user.pw_uid if user else None,
            group=user.pw_gid if user else None,
            extra_groups=[] if user else None,
        )
    try:
        wait_for_port(process, port, log)
        yield f"postgresql://{parts.username}@127.0.0.1:{port}/{database}"
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def unprivileged_user() -> pwd.struct_passwd | None:
    """Whom to run PgBouncer as where we are root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    pytest.skip("pgbouncer refuses root, and there is no user postgres or nobody")


def wait_for_port(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Return when PgBouncer listens."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.02)
    raise AssertionError(f"pgbouncer did not start:\n{log.read_text(errors='replace')}")


@pytest.fixture
def two_kld(start_kld: Callable[..., Kld], pooled_url: str) -> list[Kld]:
    """Two kld on one database, both through PgBouncer."""
    return [start_kld(KL_DATABASE_URL=pooled_url) for _ in range(2)]


class Engineer(threading.Thread):
    """Does what one terraform run does to a state, some times over."""

    def __init__(self, kld: Kld, number: int, name: str, runs: int) -> None:
        super().__init__(name=f"engineer-{number}")
        self.kld = kld
        self.path = f"/v1/states/{name}"
        self.lineage = name
        self.runs = runs
        self.seen: list[tuple[str, int]] = []
        self.written: list[int] = []
        self.failures: list[BaseException] = []

    def run(self) -> None:
        """All runs; what goes wrong is told afterwards."""
        try:
            for run in range(self.runs):
                self._apply(f"{self.name}-run-{run}")
        except BaseException as ex:
            self.failures.append(ex)

    def _apply(self, lock_id: str) -> None:
        info = json.dumps({"ID": lock_id, "Operation": "OperationTypeApply", "Who": self.name})
        deadline = time.monotonic() + 100
        while self._send("LOCK", self.path, info)[0] == 423:
            assert time.monotonic() < deadline, "the lock was never free"
            time.sleep(0.02)
        status, body = self._send("GET", self.path)
        assert status in (200, 404), body
        serial = json.loads(body)["serial"] + 1 if status == 200 else 1
        state = BigState(3, serial=serial, lineage=self.lineage)
        state.change(lock_id, tags=[0])
        status, body = self._send("POST", f"{self.path}?ID={lock_id}", state.render())
        assert status == 200, body
        self.written.append(serial)
        status, body = self._send("UNLOCK", self.path, info)
        assert status == 200, body

    def _send(self, method: str, path: str, body: bytes | str | None = None) -> tuple[int, bytes]:
        status, _, answer = self.kld.request(method, path, body)
        self.seen.append((method, status))
        assert status < 500, f"{method} {status} {answer[:300]!r}"
        return status, answer


def work(engineers: list[Engineer]) -> None:
    """Let all of them run at once, and fail with the first failure of any."""
    for engineer in engineers:
        engineer.start()
    for engineer in engineers:
        engineer.join(120)
    assert [e.failures[0] for e in engineers if e.failures] == []


def test_32_clients_on_one_new_state_lose_no_write(two_kld: list[Kld], psql: Any) -> None:
    engineers = [Engineer(two_kld[i % 2], i, "shared", runs=2) for i in range(CLIENTS)]
    work(engineers)
    written = sorted(serial for e in engineers for serial in e.written)
    assert written == list(range(1, 2 * CLIENTS + 1))
    versions = psql("select version, serial from kilolock.state_versions order by version")
    assert [(int(v), int(s)) for v, s in versions] == [(n, n) for n in written]
    assert psql("select lock_id from kilolock.state_locks") == []


def test_32_clients_on_32_states_do_not_meet(two_kld: list[Kld], psql: Any) -> None:
    engineers = [Engineer(two_kld[i % 2], i, f"own-{i}", runs=4) for i in range(CLIENTS)]
    work(engineers)
    assert {status for e in engineers for _, status in e.seen} == {200, 404}
    rows = psql("select name, serial from kilolock.states order by name")
    assert [(name, int(serial)) for name, serial in rows] == sorted(
        (f"own-{i}", 4) for i in range(CLIENTS)
    )
    assert psql("select lock_id from kilolock.state_locks") == []


def test_first_locks_of_one_name_have_one_winner(two_kld: list[Kld]) -> None:
    start, statuses = threading.Barrier(20), list[int]()

    def lock(number: int) -> None:
        start.wait(30)
        info = json.dumps({"ID": f"lock-{number}", "Who": f"client {number}"})
        statuses.append(two_kld[number % 2].request("LOCK", "/v1/states/raced", info)[0])

    threads = [threading.Thread(target=lock, args=[i]) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(statuses) == [200] + [423] * 19


def test_queries_leave_nothing_in_a_shared_session(two_kld: list[Kld]) -> None:
    for kld in two_kld * 10:
        sql = "select current_setting('search_path') as path, 1 as one"
        status, _, answer = kld.request("POST", "/v1/query", sql)
        assert status == 200, answer
        status, _, answer = kld.request("POST", "/v1/query", "delete from kilolock.states")
        assert 400 <= status < 500, answer
