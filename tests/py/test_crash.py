"""Processes are killed in the middle of posts; what was acknowledged must be there afterwards."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import os
import random
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Kld, scratch_folder
from gen_state import BigState

LARGE_SIZE = int(os.environ.get("KL_TEST_LARGE_SIZE") or 5000)
ROUNDS = 4
WRITERS = 4
RECOVERY_S = 60
SEED = 20261130

pytestmark = [
    pytest.mark.skipif(
        sys.platform != "linux", reason="finds the processes to kill in /proc, which Linux has"
    ),
    pytest.mark.skipif(
        bool(os.environ.get("KL_TEST_DATABASE_URL")),
        reason="kills the embedded server, which KL_TEST_DATABASE_URL is not",
    ),
]


class Writer(threading.Thread):
    """Posts version after version of one state, each again until it is acknowledged."""

    def __init__(self, kld: Kld, name: str, size: int) -> None:
        super().__init__(name=name)
        self.path = f"/v1/states/{name}"
        self.kld = kld
        self.state = BigState(size, lineage=name)
        self.acknowledged: list[bytes] = []
        self.statuses: set[int] = set()
        self.failures: list[str] = []
        self.ended = threading.Event()

    def run(self) -> None:
        """Write until told to end; the last document is acknowledged too."""
        while not self.ended.is_set() or not self.acknowledged:
            self.state.serial += 1
            i = self.state.serial % self.state.size
            self.state.change(self.state.serial, tags=[i], labels=[i])
            if not self._post(self.state.render()):
                return

    def _post(self, body: bytes) -> bool:
        deadline = time.monotonic() + RECOVERY_S
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, http.client.HTTPException):
                status, _, answer = self.kld.request("POST", self.path, body)
                self.statuses.add(status)
                if status == 200:
                    self.acknowledged.append(body)
                    return True
                if status != 503:
                    self.failures.append(f"{status} {answer[:300]!r}")
                    return False
            time.sleep(0.02)
        self.failures.append(f"nothing was acknowledged for {RECOVERY_S} s")
        return False


@pytest.fixture
def own_kld(start_kld: Callable[..., Kld]) -> Iterator[Kld]:
    """A kld with an embedded server of its own."""
    folder = scratch_folder("kilolock-crash-")
    kld = start_kld(KL_DATABASE_URL=None, KL_PGDATA=str(folder / "pg"))
    try:
        yield kld
    finally:
        # Before the folder goes, so that the server does not see its files vanish.
        kld.stop()
        shutil.rmtree(folder, ignore_errors=True)


def kill_kld(kld: Kld) -> None:
    """End kld as the machine's power would, and start it as a supervisor would."""
    kld.stop(signal.SIGKILL)
    kld.restart()


def kill_postmaster(kld: Kld) -> None:
    """End PostgreSQL's main process; nobody starts it but kld."""
    os.kill(postmaster(kld), signal.SIGKILL)


def kill_backend(kld: Kld) -> None:
    """End one session's process, a working one where there is one."""
    deadline = time.monotonic() + RECOVERY_S
    while time.monotonic() < deadline:
        sessions = sessions_of(postmaster(kld))
        busy = [pid for pid, title in sessions if not title.endswith("idle")]
        for pid in busy[:1] or [pid for pid, _ in sessions[:1]]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                return
    raise AssertionError("there was no session to kill")


KILLS = [kill_kld, kill_postmaster, kill_backend]


def postmaster(kld: Kld) -> int:
    """The process id that the embedded server wrote down; waits while it is being restarted."""
    pid_file = Path(kld.env["KL_PGDATA"]) / "data" / "postmaster.pid"
    deadline = time.monotonic() + RECOVERY_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError, IndexError):
            lines = pid_file.read_text().splitlines()
            if lines[7].strip() == "ready" and Path(f"/proc/{lines[0]}").exists():
                return int(lines[0])
        time.sleep(0.01)
    raise AssertionError(f"the embedded server did not come back:\n{kld.output()}")


def sessions_of(parent: int) -> list[tuple[int, str]]:
    """The client sessions among a postmaster's children, with their process titles."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                ppid = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                title = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                if ppid == parent and " kl kl 127.0.0.1" in title:
                    found.append((int(entry.name), title))
    return found


def query(kld: Kld, sql: str, *args: str) -> list[list[Any]]:
    """The rows of a query, through kld."""
    body = json.dumps({"sql": sql, "args": args, "limit": 100_000})
    status, _, answer = kld.request("POST", "/v1/query", body, {"Content-Type": "application/json"})
    assert status == 200, answer
    rows: list[list[Any]] = json.loads(answer)["rows"]
    return rows


def check_state(kld: Kld, writer: Writer) -> None:
    """Every acknowledged document is a version, byte for byte; the rows are the last one's."""
    assert writer.failures == []
    assert writer.statuses <= {200, 503}
    status, _, head = kld.request("GET", writer.path)
    assert status == 200
    assert head == writer.acknowledged[-1]

    versions = query(
        kld,
        "select v.version, v.raw_md5 from state_versions v join states s on s.id = v.state_id"
        " where s.name = ($1)[1] order by v.version",
        writer.name,
    )
    # A crash must not have stored one document twice, lost one, or left a gap.
    assert [int(version) for version, _ in versions] == list(range(1, len(versions) + 1))
    sent = [hashlib.md5(body, usedforsecurity=False).hexdigest() for body in writer.acknowledged]
    assert [md5 for _, md5 in versions] == sent
    for number in {1, len(sent) // 2 or 1, len(sent)}:
        path = writer.path.replace("/states/", "/state-versions/")
        status, _, body = kld.request("GET", f"{path}?version={number}")
        assert (status, body) == (200, writer.acknowledged[number - 1])

    expected = expected_values(head)
    rows = query(
        kld,
        "select r.address, r.attributes->>'id' from resources r join states s"
        " on s.current_version_id = r.state_version_id where s.name = ($1)[1]",
        writer.name,
    )
    assert len(rows) == writer.state.instances
    assert dict(rows) == expected


def expected_values(document: bytes) -> dict[str, str]:
    """The id of each instance by its address, read from the document alone."""
    found = {}
    for block in json.loads(document)["resources"]:
        module = block.get("module")
        address = f"{module}." if module else ""
        address += f"{block['type']}.{block['name']}"
        for instance in block["instances"]:
            key = instance.get("index_key")
            found[address if key is None else f"{address}[{key}]"] = instance["attributes"]["id"]
    return found


@pytest.mark.parametrize("kill", KILLS)
def test_acknowledged_writes_survive_kills(own_kld: Kld, kill: Callable[[Kld], None]) -> None:
    dice = random.Random(SEED)
    writers = [Writer(own_kld, f"small-{i}", size=20) for i in range(WRITERS)]
    for writer in writers:
        writer.start()
    try:
        for _ in range(ROUNDS):
            wait_for_progress(writers)
            time.sleep(dice.uniform(0, 0.3))
            kill(own_kld)
    finally:
        wait_for_progress(writers)
        for writer in writers:
            writer.ended.set()
        for writer in writers:
            writer.join(RECOVERY_S)
    for writer in writers:
        check_state(own_kld, writer)


def wait_for_progress(writers: list[Writer]) -> None:
    """Return when each writer has one more acknowledged version, or has failed."""
    before = [len(w.acknowledged) for w in writers]
    deadline = time.monotonic() + RECOVERY_S
    while time.monotonic() < deadline:
        if all(
            len(w.acknowledged) > n or not w.is_alive()
            for w, n in zip(writers, before, strict=True)
        ):
            return
        time.sleep(0.01)
    raise AssertionError("no progress after a kill")


@pytest.mark.big
@pytest.mark.parametrize("kill", KILLS)
def test_a_large_post_is_all_or_nothing(own_kld: Kld, kill: Callable[[Kld], None]) -> None:
    state = BigState(LARGE_SIZE, lineage="large")
    started = time.monotonic()
    first = state.render()
    assert own_kld.request("POST", "/v1/states/large", first)[0] == 200
    usual_s = time.monotonic() - started

    for part in (0.3, 0.7):
        state.serial += 1
        state.change(state.serial, tags=range(LARGE_SIZE), labels=range(LARGE_SIZE))
        second = state.render()
        acknowledged = threading.Event()

        def post(body: bytes = second, acknowledged: threading.Event = acknowledged) -> None:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if own_kld.request("POST", "/v1/states/large", body)[0] == 200:
                    acknowledged.set()

        poster = threading.Thread(target=post)
        poster.start()
        time.sleep(usual_s * part)
        kill(own_kld)
        poster.join(RECOVERY_S)
        wait_until_ready(own_kld)

        status, _, head = own_kld.request("GET", "/v1/states/large")
        assert status == 200
        # It may have been stored before the answer was lost, but then all of it.
        assert head == second or (head == first and not acknowledged.is_set())
        [[count]] = query(
            own_kld,
            "select count(*)::int from resources r join states s"
            " on s.current_version_id = r.state_version_id where s.name = 'large'",
        )
        assert int(count) == state.instances
        [[value]] = query(
            own_kld,
            "select attributes->>'id' from resources where address = ($1)[1]",
            "module.primary_herd.random_id.tag[0]",
        )
        assert value == expected_values(head)["module.primary_herd.random_id.tag[0]"]
        assert own_kld.request("POST", "/v1/states/large", second)[0] == 200
        first = second


def wait_until_ready(kld: Kld) -> None:
    """Return when kld says that its database answers again."""
    deadline = time.monotonic() + RECOVERY_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, http.client.HTTPException):
            if kld.request("GET", "/readyz")[0] == 200:
                return
        time.sleep(0.02)
    raise AssertionError(f"kld did not come back:\n{kld.output()}")
