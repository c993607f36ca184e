"""The demos of examples/big-state, with the real terraform."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from terraform_runs import BINARIES, CHECKOUT, KL, NO_TERRAFORM, Command, Configuration, until

if not BINARIES:
    pytest.skip(NO_TERRAFORM, allow_module_level=True)

# Whatever else the demos may call.
TOOLS = "awk bash cat cp date dirname env mkdir mktemp rm sed tail tr wc sleep touch"
SUMMARY = "null_resource.summary"
DRIFTED = "select address from current_resource_drift"

Demo = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def work(configure: Any, kld: Any, tmp_path: Path) -> Configuration:
    """A copy of the example; terraform, kl and little else on PATH."""
    made = configure("example")
    made.example(kld.url)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in TOOLS.split():
        (programs / name).symlink_to(shutil.which(name) or name)
    # The stand-in providers are shell scripts.
    (programs / "sh").symlink_to("/bin/sh")
    (programs / made.binary).symlink_to(shutil.which(made.binary) or made.binary)
    words = " ".join(f"'{word}'" for word in KL)
    (programs / "kl").write_text(f'#!/bin/sh\nPYTHONPATH={CHECKOUT} exec {words} "$@"\n')
    (programs / "kl").chmod(0o755)
    (tmp_path / "tmp").mkdir()
    made.env.update(PATH=str(programs), TMPDIR=str(tmp_path / "tmp"))
    return made


@pytest.fixture
def demo(work: Configuration, tmp_path: Path) -> Demo:
    """Run a demo from somewhere else, and see that it leaves nothing behind."""

    def run(name: str, *args: str, **variables: str) -> subprocess.CompletedProcess[str]:
        before = sorted(work.folder.rglob("*"))
        done = subprocess.run(
            [work.folder / name, *args],
            cwd=tmp_path,
            env={**work.env, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert sorted(work.folder.rglob("*")) == before
        assert list((tmp_path / "tmp").iterdir()) == []
        return done

    return run


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode == 1, done.stdout + done.stderr
    for word in words:
        assert word in done.stderr
    assert "line " not in done.stderr, "bash complains"


def test_drift_is_made_asked_for_and_put_right(work: Configuration, demo: Demo, psql: Any) -> None:
    work.init()
    refused(demo("drift-demo.sh"), SUMMARY, "terraform apply")
    work.apply("-var=size=10")
    before = psql("select head_version from states")
    attributes = f"select attributes from resources where address = '{SUMMARY}'"
    was = psql(attributes)

    done = demo("drift-demo.sh")
    assert done.returncode == 0, done.stdout + done.stderr
    made, asked, put_right, now = done.stdout.split("\n== ")[-4:]
    assert "--source refresh" in made
    assert f"{SUMMARY}  10   somebody changed this" in asked
    assert "kl rollback resource" in put_right
    assert SUMMARY not in now.split("address")[1].split("Nothing")[0]
    assert psql(DRIFTED) == []
    assert psql(attributes) == was
    sources = psql(
        "select source from state_versions where version > %s order by version", *before[0]
    )
    assert sources == [("refresh",), ("rollback",)]
    work.run("plan", "-input=false", "-var=size=10", "-detailed-exitcode")

    done = demo("drift-demo.sh", KEEP_DRIFT="1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert psql(DRIFTED) == [(SUMMARY,)]
    refused(demo("drift-demo.sh"), "drifted already")
    assert "1 added, 0 changed, 1 destroyed" in work.apply("-var=size=10")
    assert psql(DRIFTED) == []


def test_ctrl_c_puts_the_drift_right(work: Configuration, psql: Any, tmp_path: Path) -> None:
    work.init()
    work.apply("-var=size=10")
    # A kl that waits where the drift is there and nothing is shown yet.
    slow = tmp_path / "slow-kl"
    slow.write_text(
        '#!/bin/sh\nif [ "$1" = drift ]; then touch "$HOME/waiting"; sleep 60; fi\nexec kl "$@"\n'
    )
    slow.chmod(0o755)
    command = Command([str(work.folder / "drift-demo.sh")], tmp_path, {**work.env, "KL": str(slow)})
    try:
        until((tmp_path / "waiting").exists, "the drift to be made", 120)
        assert psql(DRIFTED) == [(SUMMARY,)]
        os.killpg(command._process.pid, signal.SIGINT)
        status, output = command.finish()
    finally:
        command.kill()
    assert status == 130, output
    assert psql(DRIFTED) == []
    assert psql("select count(*) from state_locks") == [(0,)]
    assert list((tmp_path / "tmp").iterdir()) == []


def test_what_is_missing_is_named(work: Configuration, demo: Demo, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    refused(demo("drift-demo.sh"), "terraform init was not run", "terraform init")
    backend = (work.folder / "backend.tf").read_text()
    work.init()
    away = backend.replace(backend.split('"http://')[1].split("/")[0], "127.0.0.1:9")
    work.write("backend.tf", away)
    refused(demo("migration-demo.sh"), "no kld answers", "make -C")
    work.write("backend.tf", backend)
    refused(demo("drift-demo.sh", KL_STATE_URL="http://127.0.0.1:9"), "no kld answers", "make -C")
    refused(demo("migration-demo.sh", MIGRATION_SIZE="many"), "MIGRATION_SIZE")
    refused(demo("migration-demo.sh", KL_STATE_NAME="a/b"), "no state name")
    (programs / work.binary).unlink()
    for name in ("drift-demo.sh", "migration-demo.sh"):
        refused(demo(name), "neither terraform nor tofu is on PATH")
    (programs / "kl").unlink()
    refused(demo("drift-demo.sh"), "kl is neither", "make -C")


def test_migration_there_and_back(work: Configuration, demo: Demo, psql: Any) -> None:
    """From terraform init in the example to the two histories."""
    work.init()
    done = demo("migration-demo.sh")
    assert done.returncode == 0, done.stdout + done.stderr
    for said in (
        "local big-state fixture created successfully: 28 resources",
        "state migrated to KiloLock using the backend block from backend.tf",
        "big-state resources changed while KiloLock was active",
        "state migrated back to local and changed again with plain Terraform",
        "the original KiloLock-backed big-state has 3 versions",
        "the re-imported state starts with only one imported version",
    ):
        assert f"=> {said}" in done.stdout
    versions = """
        select s.name, array_agg(v.source order by v.version),
          array_agg(v.resource_count order by v.version)
        from state_versions v join states s on s.id = v.state_id group by 1 order by 1"""
    assert psql(versions) == [
        ("big-state", ["apply"] * 3, [28, 32, 34]),
        ("big-state-reimported", ["import"], [38]),
    ]
    assert psql("select count(*) from resources where type = 'time_sleep'") == [(0,)]
    assert psql("select count(*) from state_locks") == [(0,)]

    # What is there already is never overwritten.
    refused(demo("migration-demo.sh", KL_STATE_NAME="big-state"), "holds 34 resources already")
    again = demo("migration-demo.sh", KL_STATE_NAME="other", KL_REIMPORT_STATE_NAME="snapshot")
    assert again.returncode == 0, again.stdout + again.stderr
    third = demo("migration-demo.sh", MIGRATION_SIZE="1")
    assert third.returncode == 0, third.stdout + third.stderr
    assert "holds 34 resources already, so this demo takes big-state-2" in third.stderr
    names = [name for (name,) in psql("select name from states order by name")]
    assert names[:2] == ["big-state", "big-state-2" + names[1][len("big-state-2") :]]
    assert {"big-state-reimported", "other", "snapshot"} < set(names) and len(names) == 6
    assert psql(versions)[0] == ("big-state", ["apply"] * 3, [28, 32, 34])


def test_migration_without_kl_or_init(work: Configuration, demo: Demo, tmp_path: Path) -> None:
    (tmp_path / "bin" / "kl").unlink()
    done = demo("migration-demo.sh", KL_STATE_NAME="alone", MIGRATION_SIZE="1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kl is neither" in done.stderr
    assert "changed again with plain Terraform: 20 resources" in done.stdout


def test_ctrl_c_in_a_migration_leaves_no_lock(
    work: Configuration, psql: Any, tmp_path: Path
) -> None:
    work.init()
    binary = shutil.which(work.binary)
    slow = tmp_path / "slow-terraform"
    slow.write_text(
        "#!/bin/sh\n"
        'if [ "$1 $3" = "apply -var=size=12" ]; then touch "$HOME/waiting"; sleep 60; fi\n'
        f'exec {binary} "$@"\n'
    )
    slow.chmod(0o755)
    command = Command(
        [str(work.folder / "migration-demo.sh")],
        tmp_path,
        {**work.env, "TERRAFORM": str(slow)},
    )
    try:
        until((tmp_path / "waiting").exists, "the migration to be in the middle", 120)
        os.killpg(command._process.pid, signal.SIGINT)
        status, output = command.finish()
    finally:
        command.kill()
    assert status == 130, output
    assert "the state big-state stays in Kilolock" in output
    assert psql("select count(*) from state_locks") == [(0,)]
    assert list((tmp_path / "tmp").iterdir()) == []


RUNS = """
    select r.id, r.status, r.committed_version, r.started_at, r.finished_at
    from apply_runs r order by r.committed_version, r.started_at"""


def test_two_resources_are_replaced_at_once(work: Configuration, demo: Demo, psql: Any) -> None:
    work.init()
    refused(demo("parallel-demo.sh", "both"), "time_sleep.slow_a", "terraform apply")
    refused(demo("parallel-demo.sh"), "slow_a|slow_b|both")
    work.apply("-var=size=10")
    done = demo("parallel-demo.sh", "both", STANDIN_SLEEP_FACTOR="0.2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Waiting" not in done.stdout
    one, two = psql(RUNS)
    assert [run[1:3] for run in (one, two)] == [("committed", 2), ("committed", 3)]
    # Both ran at the same time: each began before the other ended.
    assert one[3] < two[4] and two[3] < one[4]
    changed = "select name from resources where changed_serial > 1 order by 1"
    assert psql(changed) == [("slow_a",), ("slow_b",)]
    single = demo("parallel-demo.sh", "slow_b")
    assert single.returncode == 0, single.stdout + single.stderr
    assert psql("select version from state_versions order by 1 desc limit 1") == [(4,)]


def test_the_second_waits_for_the_first(
    work: Configuration, demo: Demo, psql: Any, tmp_path: Path
) -> None:
    work.init()
    refused(demo("wait-demo.sh", "nobody"), "blocker|waiter|both")
    work.apply("-var=size=10")
    done = demo("wait-demo.sh", "both", STANDIN_SLEEP_FACTOR="0.2")
    assert done.returncode == 0, done.stdout + done.stderr
    blocker, waiter = psql(RUNS)
    assert [run[1:3] for run in (blocker, waiter)] == [("committed", 2), ("committed", 3)]
    said = [line.split("|", 1)[1] for line in done.stdout.splitlines() if line[:6] == "waiter"]
    waits = [line for line in said if "holds time_sleep.slow_a to write since" in line]
    assert waits and blocker[0] in waits[0]
    assert any("Going on after" in line for line in said)
    assert any("planning again on version 2" in line for line in said)
    version = "select attributes -> 'triggers' ->> 'version' from resources where name = 'slow_a'"
    assert psql(version)[0][0].endswith("-waiter")

    # Ctrl-C ends both, and nothing stays reserved.
    env = {**work.env, "STANDIN_SLEEP_FACTOR": "0.3"}
    command = Command([str(work.folder / "wait-demo.sh"), "both"], tmp_path, env)
    try:
        until(lambda: psql("select count(*) from reservation_queue") == [(1,)], "one to wait")
        os.killpg(command._process.pid, signal.SIGINT)
        status, output = command.finish()
    finally:
        command.kill()
    assert status == 130, output
    assert psql("select id from apply_runs where status = 'running'") == [], output
    assert psql("select * from reservation_requests") == [], output
    assert list((tmp_path / "tmp").iterdir()) == []
