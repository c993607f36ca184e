"""The embedded server: starts as anybody, stops cleanly, comes back, and says what is wrong."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from conftest import CHECKOUT, scratch_folder

from kilolock.embedded import EmbeddedError, EmbeddedServer, ensure_database, free_port


@pytest.fixture
def folder() -> Iterator[Path]:
    parent = scratch_folder()
    yield parent / "pg"
    shutil.rmtree(parent, ignore_errors=True)


def value(url: str, query: str) -> object:
    with psycopg.connect(url) as conn:
        row = conn.execute(query).fetchone()
        assert row is not None
        return row[0]


def wait_for(condition: object, what: str, timeout_s: float = 20) -> None:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():  # type: ignore[operator]
            return
        time.sleep(0.02)
    raise AssertionError(f"never happened: {what}")


def answers(url: str) -> bool:
    try:
        return value(url, "select 1") == 1
    except psycopg.OperationalError:
        return False


def test_data_password_and_port_survive_a_restart(folder: Path) -> None:
    server = EmbeddedServer(folder)
    first = server.start()
    ensure_database(server)
    with psycopg.connect(first) as conn:
        conn.execute("create table kept as select 42 as n")
    server.stop()
    began = time.monotonic()
    with EmbeddedServer(folder) as again:
        assert again.url == first
        assert time.monotonic() - began < 3
        assert value(again.url, "select n from kept") == 42


def test_nobody_gets_in_without_the_password(folder: Path) -> None:
    with EmbeddedServer(folder) as server:
        wrong = f"postgresql://kl:guess@127.0.0.1:{server.port}/postgres"
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(wrong)
        assert stat.S_IMODE((folder / "password").stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_it_listens_on_the_loopback_interface_only(folder: Path) -> None:
    with EmbeddedServer(folder) as server:
        ensure_database(server)
        assert value(server.url, "show listen_addresses") == "127.0.0.1"
        assert value(server.url, "show unix_socket_directories") == ""


def test_acknowledged_writes_are_on_disk(folder: Path) -> None:
    with EmbeddedServer(folder) as server:
        ensure_database(server)
        for name in ("fsync", "full_page_writes", "synchronous_commit"):
            assert value(server.url, f"show {name}") == "on"


def test_a_second_server_on_the_folder_is_refused_with_the_holder(folder: Path) -> None:
    with (
        EmbeddedServer(folder) as server,
        pytest.raises(EmbeddedError, match=f"in use by another kld .process {os.getpid()}"),
    ):
        assert server.pid
        EmbeddedServer(folder).start()


def test_a_taken_port_is_named(folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(EmbeddedError, match=f"port {port} of 127.0.0.1 is taken"):
            EmbeddedServer(folder, port).start()


def test_the_data_of_another_postgresql_is_refused(folder: Path) -> None:
    with EmbeddedServer(folder):
        pass
    (folder / "data" / "PG_VERSION").write_text("14\n")
    with pytest.raises(EmbeddedError, match="made by PostgreSQL 14 and this release brings 18"):
        EmbeddedServer(folder).start()


def test_an_interrupted_first_start_is_begun_again(folder: Path) -> None:
    folder.mkdir()
    if os.geteuid() == 0:
        import pwd

        try:
            user = pwd.getpwnam("postgres")
        except KeyError:
            user = pwd.getpwnam("nobody")
        os.chown(folder, user.pw_uid, user.pw_gid)
    (folder / "data.new").mkdir()
    (folder / "data.new" / "PG_VERSION").write_text("18\n")
    with EmbeddedServer(folder) as server:
        ensure_database(server)
        assert answers(server.url)


def test_a_full_or_closed_disk_is_said_in_words(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(EmbeddedError, match="cannot use .*KL_PGDATA"):
        EmbeddedServer(file / "pg").start()


def test_a_killed_postmaster_is_started_again(folder: Path) -> None:
    with EmbeddedServer(folder) as server:
        ensure_database(server)
        with psycopg.connect(server.url, autocommit=True) as conn:
            conn.execute("create table kept as select 1 as n")
        killed = server.pid
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        wait_for(lambda: server.pid != killed and answers(server.url), "the server is back")
        assert value(server.url, "select n from kept") == 1


def test_a_killed_owner_takes_the_server_with_it(folder: Path) -> None:
    folder.parent.mkdir(exist_ok=True)
    port = free_port()
    owner = subprocess.Popen(
        [sys.executable, "-m", "kilolock.embedded", "run", str(folder), str(port)],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "KL_EMBEDDED_PASSWORD": "kl", "KL_PGBIN": ""},
    )
    assert owner.stdout is not None
    url = owner.stdout.readline().strip()
    assert url == f"postgresql://kl:kl@127.0.0.1:{port}/kl"
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("create table kept as select 7 as n")
    owner.kill()
    owner.wait()
    if sys.platform == "linux":
        wait_for(lambda: not answers(url), "the orphan ends")
    with EmbeddedServer(folder, password="kl") as server:
        assert value(server.url, "select n from kept") == 7


def test_background_server_for_make_db_up(folder: Path) -> None:
    port = str(free_port())
    env = {**os.environ, "KL_EMBEDDED_PASSWORD": "kl", "KL_PGBIN": ""}
    command = [sys.executable, "-m", "kilolock.embedded"]

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *arguments], cwd=CHECKOUT, env=env, capture_output=True, text=True
        )

    up = run("up", str(folder), port)
    try:
        assert up.returncode == 0, up.stderr
        assert answers(f"postgresql://kl:kl@127.0.0.1:{port}/kl")
        again = run("up", str(folder), port)
        assert again.returncode == 0
        assert "runs already" in again.stdout
    finally:
        down = run("down", str(folder))
    assert down.returncode == 0, down.stderr
    assert not answers(f"postgresql://kl:kl@127.0.0.1:{port}/kl")


def test_kld_starts_twice_stops_cleanly_and_keeps_the_data(folder: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    env = {k: v for k, v in os.environ.items() if not k.startswith("KL_") and k != "DATABASE_URL"}
    env.update(KL_PGDATA=str(folder), KL_LISTEN_ADDR=address, KL_LOG_LEVEL="warning")
    from urllib.error import HTTPError, URLError
    from urllib.request import Request, urlopen

    def ready() -> bool:
        try:
            return bool(urlopen(f"http://{address}/readyz", timeout=5).status == 200)
        except (URLError, HTTPError, OSError):
            return False

    document = (
        b'{"version":4,"terraform_version":"1.9.0","serial":1,'
        b'"lineage":"a","outputs":{},"resources":[]}'
    )
    for run, number in enumerate((signal.SIGTERM, signal.SIGINT)):
        began = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "kilolock.server", "serve"],
            env=env,
            cwd=CHECKOUT,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_for(ready, "kld is ready", 60)
        if run == 0:
            urlopen(Request(f"http://{address}/v1/states/s", document, method="POST"), timeout=20)
        else:
            assert time.monotonic() - began < 3
        assert urlopen(f"http://{address}/v1/states/s", timeout=20).read() == document
        busy = subprocess.run(
            [sys.executable, "-m", "kilolock.server", "serve"],
            env=env,
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
        )
        assert busy.returncode == 1
        assert busy.stderr.startswith(f"Error: {address} is in use")
        process.send_signal(number)
        said = process.communicate(timeout=30)[1]
        assert process.returncode == 0, said
        assert said.rstrip().endswith("kld stopped")
        assert not (folder / "data" / "postmaster.pid").exists()
