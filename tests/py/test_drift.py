"""kl refresh and kl drift, with the real terraform and resources that really drift."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gen_state import BigState
from terraform_runs import BINARIES, CHECKOUT, KL, NO_TERRAFORM, Configuration, until
from test_http import STATES, lock_info

if not BINARIES:
    pytest.skip(NO_TERRAFORM, allow_module_level=True)

FILES = """
terraform {
  required_providers {
    file = { source = "hashicorp/file" }
  }
}

variable "first" {
  default = "one"
}

resource "file_text" "first" {
  path = "first.txt"
  text = var.first
}

resource "file_text" "many" {
  for_each = toset(["a", "b\\"[\\n"])
  path     = "${sha1(each.key)}.txt"
  text     = each.key
}

resource "null_resource" "still" {
  triggers = { first = file_text.first.id }
}

output "size" {
  value = file_text.first.size
}
"""

Kl = Callable[..., subprocess.CompletedProcess[str]]


BOTH = pytest.mark.parametrize("work", ["http", "database"], indirect=True)


@pytest.fixture
def work(
    request: pytest.FixtureRequest, configure: Any, kld: Any, database_url: str
) -> Configuration:
    """An applied configuration of files; kl asks its kld, or PostgreSQL directly."""
    made = configure()
    if getattr(request, "param", "http") == "database":
        made.env["KL_DATABASE_URL"] = database_url
    made.write("main.tf", FILES)
    made.backend(f"{kld.url}/v1/states/files")
    made.init()
    made.apply()
    return made


@pytest.fixture
def kl(work: Configuration) -> Kl:
    """kl in the folder of the configuration."""

    def run(*args: str, **variables: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*KL, *args],
            cwd=variables.pop("cwd", work.folder),
            env={**work.env, "PYTHONPATH": str(CHECKOUT), "KL_IAC_BIN": work.binary, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return run


def rows(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def listing(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def scratches(work: Configuration) -> list[Path]:
    return list(Path(work.env["HOME"]).glob(".cache/kilolock/scratch/*"))


LOCKS = "select count(*) from state_locks"
RUNS = "select status, base_version, version, drifted_count from refresh_runs order by id"
DRIFT = """
    select d.address, d.previous_attributes ->> 'text', d.current_attributes ->> 'text', v.source,
      u.status
    from current_resource_drift d
    join state_versions v on v.id = d.detected_in_version_id
    join refresh_runs u on u.id = d.refresh_run_id
    order by d.address"""


@BOTH
def test_what_drifted_is_found_recorded_and_put_right(
    work: Configuration, kl: Kl, psql: Any
) -> None:
    head = psql("select head_version, serial from states")
    (version,) = psql("select head_version from states")[0]
    # A new output is something that terraform would write, but no drift.
    work.write("more.tf", 'output "more" {\n  value = 1\n}\n')
    assert "Nothing drifted in files" in kl("refresh").stderr
    (work.folder / "more.tf").unlink()
    assert psql("select head_version, serial from states") == head
    assert psql(RUNS) == [("clean", version, None, 0)]

    work.write("first.txt", "twenty")
    (work.folder / (hashlib.sha1(b"a").hexdigest() + ".txt")).unlink()
    before = listing(work.folder)
    seen = rows(kl("refresh", "--dry-run", "--format", "json"))
    expected = [
        ("file_text.first", "update", "digest", "(sensitive)", "(sensitive)"),
        ("file_text.first", "update", "size", 3, 6),
        ("file_text.first", "update", "text", "one", "twenty"),
        ('file_text.many["a"]', "delete", None, None, None),
    ]
    assert [tuple(row.values()) for row in seen] == expected
    assert psql("select head_version, serial from states") == head
    assert len(psql(RUNS)) == 1
    assert rows(kl("drift", "--format", "json")) == []

    done = kl("refresh", "--format", "json")
    assert [tuple(row.values()) for row in rows(done)] == expected
    assert f"2 resources drifted; wrote version {version + 1} of files." in done.stderr
    assert listing(work.folder) == before
    assert psql(RUNS)[1:] == [("drifted", version, version + 1, 2)]
    assert psql(DRIFT) == [("file_text.first", "one", "twenty", "refresh", "drifted")]
    assert psql(LOCKS) == [(0,)]
    assert scratches(work) == []
    drifted = rows(kl("drift", "--format", "json"))
    assert [(r["address"], r["change"], r["attribute"], r["old"], r["new"]) for r in drifted] == (
        expected
    )
    assert {(row["state"], row["version"]) for row in drifted} == {("files", version + 1)}
    shown = kl("drift", "files").stdout.splitlines()
    assert " ".join(shown[0].split()) == "state address change attribute old new version since"
    assert "twenty" in shown[3] and "file_text.first" in shown[3]
    digests = [hashlib.sha256(text).hexdigest() for text in (b"one", b"twenty")]
    assert not any(digest in line for line in shown for digest in digests)

    assert "Nothing drifted" in kl("refresh").stderr
    assert psql("select head_version from states") == [(version + 1,)]
    assert len(psql(DRIFT)) == 1

    # Terraform goes on from what the refresh wrote, and its apply ends the drift.
    assert "1 added, 1 changed" in work.apply()
    assert (work.folder / "first.txt").read_text() == "one"
    assert psql(DRIFT) == [] == rows(kl("drift", "--format", "json"))
    assert "last looked" in kl("drift").stderr
    work.run("plan", "-input=false", "-detailed-exitcode")


def test_the_document_is_terraforms_own(work: Configuration, kl: Kl, kld: Any) -> None:
    work.write("first.txt", "other \u0000 \U0001f600 text")
    before = work.pull()
    assert kl("refresh").returncode == 0
    after = kld.request("GET", f"{STATES}/files")[2]
    assert (json.loads(after)["lineage"], json.loads(after)["serial"]) == (
        before["lineage"],
        before["serial"] + 1,
    )
    assert after.decode().rstrip() == work.run("state", "pull").rstrip()


def test_folders_states_and_variables(work: Configuration, kl: Kl, tmp_path: Path) -> None:
    work.write("first.txt", "two")
    work.write("set.tfvars", 'first = "two"')
    for place in ("work", str(work.folder), "./work"):
        assert len(rows(kl("refresh", place, "--dry-run", "--format", "json", cwd=tmp_path))) == 2
    found = kl("refresh", "files", "--dry-run", "--var-file", "set.tfvars", "--var", "first=two")
    assert "1 resource drifted in files" in found.stderr
    one = kl("refresh", "--dry-run", "--target", "null_resource.still", "--format", "json")
    assert {row["address"] for row in rows(one)} == {"file_text.first"}
    other = kl("refresh", "other")
    assert (other.returncode, "belongs to files" in other.stderr) == (2, True)
    nowhere = kl("refresh", cwd=tmp_path)
    assert nowhere.returncode == 2
    (tmp_path / "empty").mkdir()
    nowhere = kl("refresh", "./empty", KL_STATE_URL="http://127.0.0.1:9/v1/states/x", cwd=tmp_path)
    assert (nowhere.returncode, "not initialised" in nowhere.stderr) == (2, True)
    unknown = kl("drift", "nowhere")
    assert (unknown.returncode, "does not exist" in unknown.stderr) == (3, True)


@BOTH
def test_the_holder_of_the_lock_is_named(work: Configuration, kl: Kl, kld: Any, psql: Any) -> None:
    work.write("first.txt", "two")
    assert kld.request("LOCK", f"{STATES}/files", lock_info("id-1"))[0] == 200
    refused = kl("refresh")
    assert (refused.returncode, "ann@host-a" in refused.stderr) == (5, True), refused.stderr
    assert psql("select lock_id from state_locks") == [("id-1",)]
    assert psql(RUNS) == []
    assert "1 resource drifted" in kl("refresh", "--dry-run").stderr
    assert kld.request("UNLOCK", f"{STATES}/files", "id-1")[0] == 200
    assert kl("refresh").returncode == 0


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_refresh_leaves_no_lock_and_no_version(
    work: Configuration, kl: Kl, psql: Any, how: signal.Signals
) -> None:
    work.write("first.txt", "two")
    work.write("first.txt.hold", "")
    head = psql("select head_version, serial from states")
    command = work.start_kl("refresh")
    try:
        until((work.folder / "first.txt.held").exists, "the refresh to read the file")
        assert psql("select operation from state_locks") == [("refresh",)]
        assert kl("refresh").returncode == 5
        # As Ctrl-C does: the whole group of kl gets it.
        os.killpg(command._process.pid, how)
        (work.folder / "first.txt.hold").unlink()
        status, output = command.finish(60)
    finally:
        command.kill()
    assert status == 130, output
    assert psql(LOCKS) == [(0,)]
    assert psql("select status, message from refresh_runs") == [("failed", "it was interrupted")]
    assert psql("select head_version, serial from states") == head
    assert scratches(work) == []
    assert kl("refresh").returncode == 0


def test_a_refresh_that_fails_says_why_and_frees_the_state(
    work: Configuration, kl: Kl, psql: Any
) -> None:
    (work.folder / "first.txt").unlink()
    (work.folder / "first.txt").mkdir()
    failed = kl("refresh")
    assert failed.returncode == 1
    assert "first.txt" in failed.stderr and "ended with status 1" in failed.stderr
    assert psql(LOCKS) == [(0,)]
    assert [row[0] for row in psql(RUNS)] == ["failed"]


def test_a_lock_that_was_forced_open_meanwhile_stores_nothing(
    work: Configuration, kl: Kl, kld: Any, psql: Any
) -> None:
    work.write("first.txt", "two")
    work.write("first.txt.hold", "")
    command = work.start_kl("refresh")
    try:
        until((work.folder / "first.txt.held").exists, "the refresh to read the file")
        assert kld.request("UNLOCK", f"{STATES}/files")[0] == 200
        assert kld.request("LOCK", f"{STATES}/files", lock_info("id-1"))[0] == 200
        (work.folder / "first.txt.hold").unlink()
        status, output = command.finish(60)
    finally:
        command.kill()
    assert status == 4, output
    assert psql("select lock_id from state_locks") == [("id-1",)]
    assert [row[0] for row in psql(RUNS)] == ["failed"]
    assert psql("select count(*) from state_versions where source = 'refresh'") == [(0,)]


def test_a_write_during_a_dry_run_is_noticed(work: Configuration, kl: Kl) -> None:
    work.write("first.txt", "two")
    work.write("first.txt.hold", "")
    command = work.start_kl("refresh", "--dry-run")
    try:
        until((work.folder / "first.txt.held").exists, "the refresh to read the file")
        work.run("state", "rm", "null_resource.still")
        (work.folder / "first.txt.hold").unlink()
        status, output = command.finish(60)
    finally:
        command.kill()
    assert (status, "Run it again" in output) == (4, True), output


@pytest.mark.big
def test_the_cost_of_drift_does_not_grow_with_the_state(db: Any, psql: Any) -> None:
    state = BigState(50000)
    db.call("write_state", None, None, "herd", None, state.render(), None, None)
    state.serial += 1
    state.change("drift", tags=[77])
    db.call("write_state", None, None, "herd", None, state.render(), None, None, "refresh")
    for prepare in ("select 1", "analyze"):
        psql(prepare)
        for query in ("current_resource_drift where state_name = 'herd'", "current_drift"):
            ((plan,),) = psql(f"explain (analyze, buffers, format json) select * from {query}")
            top = plan[0]["Plan"]
            assert top["Actual Rows"] == 1
            # All live rows are 8,000 pages and more.
            assert top["Shared Hit Blocks"] + top["Shared Read Blocks"] < 100, plan
