"""Fixtures: a server, a migrated template, a fresh clone of it for each test, and a real kld."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql
from pytest_postgresql.janitor import DatabaseJanitor
from standins.mirror import make_mirror
from terraform_runs import BINARIES, Command, Configuration

from kilolock.db import Database
from kilolock.embedded import EmbeddedServer, ensure_database, free_port
from kilolock.migrate import migrate

# A shell's background job ignores Ctrl-C, and so would every program that the tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

CHECKOUT = Path(__file__).resolve().parents[2]
_numbers = itertools.count(1)


def scratch_folder(prefix: str = "kilolock-test-") -> Path:
    """A new folder in memory where there is room, which any user may enter."""
    root = Path("/dev/shm")
    roomy = root.is_dir() and os.access(root, os.W_OK) and shutil.disk_usage(root).free > 4 << 30
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=root if roomy else None))
    folder.chmod(0o755)
    return folder


def with_database(url: str, name: str) -> str:
    """The same server's URL with another database."""
    parts = urlsplit(url)
    return parts._replace(path=f"/{name}").geturl()


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    """A server to make databases on: KL_TEST_DATABASE_URL, or an embedded one of this session."""
    given = os.environ.get("KL_TEST_DATABASE_URL")
    if given:
        yield given
        return
    folder = scratch_folder()
    try:
        with EmbeddedServer(folder / "server", max_connections=200) as server:
            ensure_database(server)
            yield server.url
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def template(server_url: str) -> Iterator[tuple[str, DatabaseJanitor]]:
    """The name of a database that was migrated once, to be cloned."""
    parts = urlsplit(server_url)
    name = f"kl_template_{os.getpid()}"
    janitor = DatabaseJanitor(
        user=parts.username or "kl",
        host=parts.hostname or "127.0.0.1",
        port=parts.port or 5432,
        dbname=name,
        password=parts.password,
        template_dbname="template0",
        isolation_level=psycopg.IsolationLevel.READ_COMMITTED,
    )
    janitor.init()
    try:
        migrate(with_database(server_url, name))
        yield name, janitor
    finally:
        janitor.drop()


@pytest.fixture(scope="session")
def make_database(
    server_url: str, template: tuple[str, DatabaseJanitor]
) -> Iterator[Callable[..., str]]:
    """A function that gives the URL of a fresh database; with empty=True not even migrated."""
    made: list[str] = []
    admin = psycopg.connect(with_database(server_url, "postgres"), autocommit=True)

    def make(*, empty: bool = False) -> str:
        name = f"kl_test_{os.getpid()}_{next(_numbers)}"
        source = "template0" if empty else template[0]
        admin.execute(
            sql.SQL("create database {} template {}").format(
                sql.Identifier(name), sql.Identifier(source)
            )
        )
        if not empty:
            # A database's settings do not come with its clone.
            for setting in ('search_path = "$user", public, kilolock', "jit = off"):
                admin.execute(
                    sql.SQL("alter database {} set {}").format(
                        sql.Identifier(name),
                        sql.SQL(setting),  # type: ignore[arg-type]
                    )
                )
        made.append(name)
        return with_database(server_url, name)

    def drop(url: str) -> None:
        name = urlsplit(url).path.lstrip("/")
        made.remove(name)
        admin.execute(
            sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name))
        )

    make.drop = drop  # type: ignore[attr-defined]
    try:
        yield make
    finally:
        for name in list(made):
            with contextlib.suppress(psycopg.Error):
                drop(with_database(server_url, name))
        admin.close()


@pytest.fixture
def database_url(make_database: Any) -> Iterator[str]:
    """The URL of a migrated database of this test's own."""
    url = make_database()
    yield url
    make_database.drop(url)


@pytest.fixture
def empty_database_url(make_database: Any) -> Iterator[str]:
    """The URL of a database that nothing was installed in."""
    url = make_database(empty=True)
    yield url
    make_database.drop(url)


@pytest.fixture
def db(database_url: str) -> Iterator[Database]:
    """The calls that the application makes, on this test's database."""
    database = Database(database_url)
    yield database
    database.close()


@pytest.fixture
def psql(database_url: str) -> Iterator[Callable[..., list[tuple[Any, ...]]]]:
    """Run SQL as the owner of everything and return its rows."""
    with psycopg.connect(database_url, autocommit=True) as conn:

        def run(statement: str, *args: Any) -> list[tuple[Any, ...]]:
            cursor = conn.execute(statement, args or None)  # type: ignore[call-overload]
            return cursor.fetchall() if cursor.description else []

        yield run


class Kld:
    """A real ``kld serve`` process, and a small client for it."""

    def __init__(self, env: dict[str, str], log: Path) -> None:
        self.env = env
        self.log = log
        self.host, port = env["KL_LISTEN_ADDR"].rsplit(":", 1)
        self.port = int(port)
        self.url = f"http://{self.host}:{self.port}"
        self.proc: subprocess.Popen[bytes] = self._spawn()

    def _spawn(self) -> subprocess.Popen[bytes]:
        with open(self.log, "ab") as out:
            return subprocess.Popen(
                [sys.executable, "-m", "kilolock.server", "serve"],
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=CHECKOUT,
            )

    def wait_ready(self, timeout_s: float = 60) -> Kld:
        """Return when it answers, or fail with what it printed."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if self.proc.poll() is not None:
                break
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.request("GET", "/readyz")[0] == 200:
                    return self
            time.sleep(0.02)
        raise AssertionError(f"kld is not ready:\n{self.output()}")

    def output(self) -> str:
        """What it printed so far."""
        return self.log.read_text(errors="replace")

    def request(
        self,
        method: str,
        path: str,
        body: bytes | str | None = None,
        headers: dict[str, str] | None = None,
        timeout_s: float = 120,
    ) -> tuple[int, dict[str, str], bytes]:
        """Send one request; (status, headers with lower-case names, body)."""
        conn = http.client.HTTPConnection(self.host, self.port, timeout=timeout_s)
        try:
            data = body.encode() if isinstance(body, str) else body
            conn.request(method, path, data, headers or {})
            answer = conn.getresponse()
            content = answer.read()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, content
        finally:
            conn.close()

    def stop(self, how: int = signal.SIGTERM) -> int:
        """End the process and return its exit status."""
        if self.proc.poll() is None:
            self.proc.send_signal(how)
        try:
            return self.proc.wait(30)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()
            raise

    def restart(self) -> Kld:
        """Start it again, on the same port and database."""
        self.proc = self._spawn()
        return self.wait_ready()


@pytest.fixture
def start_kld(database_url: str, tmp_path: Path) -> Iterator[Callable[..., Kld]]:
    """A function that starts a kld on this test's database; variables as keyword arguments."""
    started: list[Kld] = []

    def start(wait: bool = True, **variables: str | None) -> Kld:
        env = {k: v for k, v in os.environ.items() if not k.startswith("KL_")}
        env.pop("DATABASE_URL", None)
        env.update(
            KL_DATABASE_URL=database_url,
            KL_LISTEN_ADDR=f"127.0.0.1:{free_port()}",
            PYTHONUNBUFFERED="1",
        )
        for name, value in variables.items():
            if value is None:
                env.pop(name, None)
            else:
                env[name] = value
        kld = Kld(env, tmp_path / f"kld-{len(started)}.log")
        started.append(kld)
        return kld.wait_ready() if wait else kld

    yield start
    for kld in started:
        if kld.proc.poll() is None:
            kld.proc.kill()
        kld.proc.wait()


@pytest.fixture
def kld(start_kld: Callable[..., Kld]) -> Kld:
    """A kld in open mode on this test's database."""
    return start_kld()


@pytest.fixture(scope="session")
def cli_config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The CLI configuration that points at stand-ins for the providers of the example."""
    return make_mirror(tmp_path_factory.mktemp("providers"))


@pytest.fixture(params=BINARIES)
def configure(
    request: pytest.FixtureRequest, tmp_path: Path, cli_config: Path
) -> Callable[..., Configuration]:
    """A function that makes an empty configuration; variables as keyword arguments."""

    def make(name: str = "work", **variables: str) -> Configuration:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("TF_", "KL_"))}
        env.update(
            HOME=str(tmp_path),
            XDG_CACHE_HOME=str(tmp_path / "cache"),
            TF_CLI_CONFIG_FILE=str(cli_config),
            TF_IN_AUTOMATION="1",
            CHECKPOINT_DISABLE="1",
            STANDIN_SLEEP_FACTOR="0.01",
        )
        return Configuration(request.param, tmp_path / name, {**env, **variables})

    return make


@pytest.fixture
def spawned() -> Iterator[list[Command]]:
    """Commands to kill at the end."""
    commands: list[Command] = []
    yield commands
    for command in commands:
        command.kill()
