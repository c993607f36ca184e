"""``kl apply`` with the real terraform: several people, one state."""

from __future__ import annotations

import json
import os
import pty
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from terraform_runs import BINARIES, Command, Configuration, until
from test_plan import CHANGES, FILES, LATER, OTHER, OURS

from kilolock import scratch
from kilolock.discovery import SourceError
from kilolock.planning import read_spec

if not BINARIES:
    pytest.skip("neither terraform nor tofu is on PATH", allow_module_level=True)

HEAD = """
variable "a" { default = "1" }
variable "b" { default = "1" }
variable "count_a" { default = 1 }
resource "terraform_data" "base" { input = "base" }
output "base" { value = terraform_data.base.output }
"""
# Replaced for another value of its variable; waits for the file "go-NAME" where "slow-NAME" is.
ONE = """
resource "terraform_data" "{name}" {{
  count            = {count}
  input            = terraform_data.base.output
  triggers_replace = var.{name}

  provisioner "local-exec" {{
    command = <<-EOT
      echo ${{self.id}} >> made-{name}
      if [ -e slow-{name} ]; then
        touch started-{name}
        until [ -e go-{name} ]; do sleep 0.05; done
      fi
      if [ -e fail-{name} ]; then exit 1; fi
    EOT
  }}
}}
output "{name}" {{ value = terraform_data.{name}[*].id }}
"""
RUNS = "select status, committed_version, message from apply_runs order by started_at, id"
HELD = "select count(*) from reservation_requests"


@pytest.fixture
def make_work(configure: Any, kld: Any) -> Callable[..., Configuration]:
    """A function that makes a folder with two resources in two files, for one state."""

    def make(name: str = "work", state: str = "shared") -> Configuration:
        work: Configuration = configure(name, KL_LEASE_SECONDS="5")
        work.write("main.tf", HEAD)
        work.write("a.tf", ONE.format(name="a", count="var.count_a"))
        work.write("b.tf", ONE.format(name="b", count=1))
        work.backend(f"{kld.url}/v1/states/{state}")
        work.init()
        return work

    return make


@pytest.fixture
def work(make_work: Callable[..., Configuration]) -> Configuration:
    """Such a folder, applied."""
    folder = make_work()
    folder.apply()
    return folder


@pytest.fixture(autouse=True)
def nothing_is_left(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """No scratch workspace stays behind, but for the log of an apply that failed."""
    yield
    left = list((tmp_path / "cache" / "kilolock" / "scratch").glob("*/*"))
    assert {p.name for p in left} <= {"log", "keep", "owner.lock"}


def ids(work: Configuration, name: str) -> list[str]:
    """The ids that a resource has in the state."""
    return [
        instance["attributes"]["id"]
        for block in work.pull()["resources"]
        if block["name"] == name
        for instance in block["instances"]
    ]


def made(work: Configuration, name: str) -> list[str]:
    """The ids that were made, in order."""
    path = work.folder / f"made-{name}"
    return path.read_text().split() if path.exists() else []


def settled(work: Configuration) -> None:
    """Terraform finds nothing to do."""
    work.run("plan", "-input=false", "-detailed-exitcode")


def test_only_what_changed_is_committed(work: Configuration, psql: Any) -> None:
    before = work.pull()
    listed = sorted(os.listdir(work.folder))
    printed = work.kl("apply", "-f", "a.tf", "--var=a=2", "--yes")
    assert "1 to replace" in printed and "committed version 2 of shared: 1 replaced" in printed
    after = work.pull()
    assert after["serial"] == before["serial"] + 1 and after["lineage"] == before["lineage"]
    assert psql("select version, source, serial from state_versions order by 1 desc limit 1") == [
        (2, "state-engine", after["serial"])
    ]
    assert ids(work, "a") == [made(work, "a")[1]] == after["outputs"]["a"]["value"]
    for name in ("base", "b"):
        assert after["outputs"][name] == before["outputs"][name]
    changed = [b["name"] for b in after["resources"] if b not in before["resources"]]
    assert changed == ["a"]
    work.run("plan", "-input=false", "-var=a=2", "-detailed-exitcode")
    assert sorted(os.listdir(work.folder)) == listed
    assert psql(RUNS) == [("committed", 2, None)]
    assert psql(HELD) == [(0,)]
    assert "Nothing to change" in work.kl("apply", "-f", "a.tf", "--var=a=2", "--yes")
    assert len(psql(RUNS)) == 1


def test_what_is_made_is_committed_while_terraform_still_runs(
    work: Configuration, psql: Any, spawned: list[Command]
) -> None:
    for name in ("a", "b"):
        work.write(f"slow-{name}", "")
    spawned.append(work.start_kl("apply", "--var=a=2", "--var=b=2", "--yes"))
    for name in ("a", "b"):
        until((work.folder / f"started-{name}").exists, f"the apply to be in the middle of {name}")
    old = ids(work, "b")
    # Terraform saves what ends when 20 s have passed, and no setting shortens that.
    time.sleep(21)
    work.write("go-a", "")
    until(lambda: psql("select version from state_versions where version = 2"), "a commit")
    assert spawned[0].running
    assert ids(work, "a") == [made(work, "a")[-1]]
    # This one exists too, and its provisioner has not ended yet.
    assert ids(work, "b") == [made(work, "b")[-1]] != old
    assert psql("select status, committed_version from apply_runs") == [("running", 2)]
    assert psql(HELD) == [(1,)]
    work.write("go-b", "")
    status, output = spawned[0].finish()
    assert status == 0 and "committed version 3 of shared: 2 replaced" in output, output
    assert ids(work, "b") == [made(work, "b")[-1]]
    work.run("plan", "-input=false", "-var=a=2", "-var=b=2", "-detailed-exitcode")


REFRESHED = """
resource "file_text" "apart" {
  path = abspath("apart.txt")
  text = "as planned"
  lifecycle { ignore_changes = [text] }
}
resource "file_text" "own" {
  path = abspath("own.txt")
  text = "${var.text} ${file_text.apart.id}"
}
variable "text" { default = "1" }
terraform {
  required_providers {
    file = { source = "hashicorp/file" }
  }
}
"""


@pytest.mark.parametrize("scope", [[], ["-f", "main.tf"]])
def test_what_terraform_refreshed_beside_the_plan_is_not_committed(
    configure: Any, kld: Any, scope: list[str]
) -> None:
    work = configure()
    work.write("main.tf", REFRESHED)
    work.backend(f"{kld.url}/v1/states/refreshed")
    work.init()
    work.apply()
    before = {r["name"]: r for r in work.pull()["resources"]}
    # Nothing is planned for this one; terraform sees it nevertheless, and would write it down.
    work.write("apart.txt", "changed by hand")
    assert "1 updated" in work.kl("apply", *scope, "--var=text=2", "--yes")
    after = {r["name"]: r for r in work.pull()["resources"]}
    assert after["apart"] == before["apart"]
    assert after["own"]["instances"][0]["attributes"]["text"].startswith("2 ")
    # It is there to be found: terraform itself records it.
    work.run("apply", "-refresh-only", "-auto-approve", "-input=false", "-var=text=2")
    refreshed = {r["name"]: r for r in work.pull()["resources"]}
    assert refreshed["apart"]["instances"][0]["attributes"]["text"] == "changed by hand"


def test_nobody_is_asked_twice_and_nothing_is_destroyed_by_accident(
    work: Configuration, psql: Any
) -> None:
    change = ("apply", "-f", "a.tf", "--var=a=2")
    assert "pass --yes" in work.kl(*change, status=2)
    assert "dry run" in work.kl(*change, "--dry-run")
    work.kl("apply", "-f", "a.tf", "--var=count_a=2", "--yes")
    fewer = ("apply", "-f", "a.tf", "--var=count_a=0", "--yes")
    refused = work.kl(*fewer, status=2)
    assert "destroys terraform_data.a[0], terraform_data.a[1]" in refused
    assert "--confirm-destroy" in refused
    assert len(psql(RUNS)) == 1 and len(ids(work, "a")) == 2

    for answer, status in (("n\n", 130), ("y\n", 0)):
        ours, theirs = pty.openpty()
        command = work.start_kl("apply", "-f", "a.tf", "--var=count_a=1", stdin=theirs)
        os.write(ours, answer.encode())
        ended, printed = command.finish()
        os.close(ours)
        os.close(theirs)
        assert ended == status, printed
        assert "destroy 1 of them" in printed
    assert len(ids(work, "a")) == 1
    work.kl(*fewer, "--confirm-destroy")
    assert ids(work, "a") == []
    assert {status for status, *_ in psql(RUNS)} == {"committed"}


def test_a_plan_spec_is_kept_to_the_letter(work: Configuration, psql: Any) -> None:
    work.kl("plan", "-f", "a.tf", "--var=a=2", "-o", "spec.json")
    # The variable comes with the spec; what else changes in the state does not matter.
    work.kl("apply", "-f", "b.tf", "--var=b=2", "--yes")
    assert "version 3" in work.kl("apply", "--plan-spec", "spec.json", "--yes")
    work.run("plan", "-input=false", "-var=a=2", "-var=b=2", "-detailed-exitcode")

    stale = work.kl("apply", "--plan-spec", "spec.json", "--yes", status=4)
    assert "stale: something else would be done to terraform_data.a[0] now" in stale
    work.kl("plan", "-f", "a.tf", "--var=a=3", "-o", "spec.json")
    work.write("b.tf", ONE.format(name="b", count=1) + "# another\n")
    assert "stale: b.tf changed" in work.kl("apply", "--plan-spec", "spec.json", "--yes", status=4)
    work.write("b.tf", ONE.format(name="b", count=1))
    both = work.kl("apply", "--plan-spec", "spec.json", "-f", "a.tf", status=2)
    assert "leave -f" in both
    assert "no plan spec" in work.kl("apply", "--plan-spec", "main.tf", "--yes", status=2)
    # A spec belongs to its folder, and one that was edited may be of any shape.
    parent = Configuration(
        work.binary, work.folder.parent, {**work.env, "KL_STATE_URL": "http://x"}
    )
    spec = f"{work.folder}/spec.json"
    assert f"in {work.folder}" in parent.kl("apply", "--plan-spec", spec, "--yes", status=2)
    whole = json.loads((work.folder / "spec.json").read_text())
    other = {**whole, "state": {**whole["state"], "lineage": "another"}}
    (work.folder / "edited.json").write_text(json.dumps(other))
    refused = work.kl("apply", "--plan-spec", "edited.json", "--yes", status=4)
    assert "stale: the state has lineage" in refused
    for name in ("state", "scope", "files", "actions", "variables", "refresh", "directory"):
        for value in (None, 5, [5]):
            (work.folder / "edited.json").write_text(json.dumps({**whole, name: value}))
            with pytest.raises(SourceError, match="is no plan spec"):
                read_spec(work.folder / "edited.json")
    assert psql("select max(version) from state_versions") == [(3,)]


def test_what_a_failing_terraform_made_is_committed(work: Configuration, psql: Any) -> None:
    work.write("fail-a", "")
    printed = work.kl("apply", "--var=a=2", "--var=b=2", "--yes", status=1)
    assert "what it made is version 2" in printed
    log = Path(re.search(r"Log: (\S+)", printed)[1])  # type: ignore[index]
    assert "local-exec" in log.read_text()
    (run,) = psql(RUNS)
    assert run[:2] == ("failed", 2) and str(log) in run[2]
    # The tainted one is in the state too, as terraform would have it.
    assert ids(work, "a") == [made(work, "a")[1]] and ids(work, "b") == [made(work, "b")[1]]
    tainted = [b["instances"][0].get("status") for b in work.pull()["resources"]]
    assert tainted.count("tainted") == 1
    (work.folder / "fail-a").unlink()
    work.kl("apply", "--var=a=2", "--var=b=2", "--yes")
    work.run("plan", "-input=false", "-var=a=2", "-var=b=2", "-detailed-exitcode")


def test_every_kind_of_block_is_applied(configure: Any, kld: Any, psql: Any) -> None:
    work = configure()
    for name in ("outer", "outer/inner"):
        (work.folder / name).mkdir()
    for name, text in FILES.items():
        work.write(name, text)
    work.write("other.json", json.dumps(OTHER))
    work.backend(f"{kld.url}/v1/states/scoped")
    work.init()
    # A state that is not there yet.
    assert "which is new" in work.kl("apply", "-f", "keyed.tf", "--yes")
    assert [b["name"] for b in work.pull()["resources"]] == ["keyed"]
    work.kl("apply", "--yes")
    settled(work)
    for name, text in LATER.items():
        work.write(name, text)
    files = ("moved.tf", "imported.tf", "nested.tf", "outer/inner/main.tf", "read.tf", "counted.tf")
    named = [part for file in files for part in ("-f", file)]
    work.kl("apply", *named, *OURS, "--yes")
    assert "destroys terraform_data.gone" in work.kl("apply", *OURS, "--yes", status=2)
    work.kl("apply", *OURS, "--yes", "--confirm-destroy")
    work.run("plan", "-input=false", *CHANGES, "-detailed-exitcode")
    names = {block["name"] for block in work.pull()["resources"]}
    assert names >= {"new", "imported", "reader", "deep", "west", "json"}
    assert not names & {"old", "gone", "forgotten"}
    assert psql("select count(*) from apply_runs where status <> 'committed'") == [(0,)]

    # A state that was deleted begins anew.
    assert kld.request("DELETE", "/v1/states/scoped")[0] == 200
    work.kl("apply", "-f", "keyed.tf", "--yes")
    assert [b["name"] for b in work.pull()["resources"]] == ["keyed"]


def test_data_sources_come_and_go(work: Configuration, psql: Any) -> None:
    data = (
        'data "terraform_remote_state" "x" {\n  backend = "local"\n  config = { path = "x" }\n}\n'
    )
    work.write("x", json.dumps({"version": 4, "serial": 1, "lineage": "x"}))
    work.write("data.tf", data)
    assert "data sources only" in work.kl("apply", "--yes")
    present = "select address from resources where mode = 'data'"
    assert psql(present) == [("data.terraform_remote_state.x",)]
    (work.folder / "data.tf").unlink()
    # Terraform makes no change of its plan out of that either.
    assert "data.terraform_remote_state.x" not in work.kl("plan", "-f", "a.tf")
    assert "committed version 3 of shared: data sources only" in work.kl("apply", "--yes")
    assert psql(present) == []
    assert "Nothing to change" in work.kl("apply", "--yes")


def test_others_change_the_rest_meanwhile(
    make_work: Any, work: Configuration, psql: Any, spawned: list[Command]
) -> None:
    other = make_work("other")
    work.write("slow-a", "")
    spawned.append(work.start_kl("apply", "-f", "a.tf", "--var=a=2", "--yes"))
    until((work.folder / "started-a").exists, "the apply to be in the middle")

    # Another resource: at once, and both are in the state.
    other.kl("apply", "-f", "b.tf", "--var=b=2", "--yes")
    assert spawned[0].running
    held = "select address, mode from resource_reservations order by 1"
    assert psql(held) == [
        # Its output depends on all instances.
        ("terraform_data.a", "read"),
        ("terraform_data.a[0]", "write"),
        ("terraform_data.base", "read"),
    ]

    # The same resource: waits, says for whom, and plans again on what has become of it.
    refused = other.kl("apply", "-f", "a.tf", "--var=a=3", "--yes", "--wait-timeout=0", status=5)
    assert "holds terraform_data.a[0] to write since" in refused, refused
    spawned.append(other.start_kl("apply", "-f", "a.tf", "--var=a=3", "--yes"))
    until(lambda: "Waiting for state" in spawned[1].output(), "the waiting block")
    block = spawned[1].output()
    (run, *_), *_ = psql("select id from apply_runs order by started_at limit 1")
    assert "holds terraform_data.a[0] to write since" in block and f"run {run}" in block
    # Plain terraform is told about the run.
    plain = work.run("apply", "-auto-approve", "-input=false", status=1)
    assert run in plain

    work.write("go-a", "")
    (status, first), (later, second) = [command.finish() for command in spawned]
    assert (status, later) == (0, 0), first + second
    assert "planning again on version 3" in second and "planning again" not in first
    assert "Going on after" in second
    assert ids(work, "a") == [made(other, "a")[0]]
    work.run("plan", "-input=false", "-var=a=3", "-var=b=2", "-detailed-exitcode")
    assert [run[:2] for run in psql(RUNS)][:2] == [("committed", 3), ("committed", 2)]


def test_what_depends_on_a_change_is_planned_again(
    make_work: Any, work: Configuration, psql: Any, spawned: list[Command]
) -> None:
    other = make_work("other")
    for folder in (work, other):
        folder.write("c.tf", 'resource "terraform_data" "c" { input = terraform_data.a[0].id }')
    other.apply("-target=terraform_data.c")
    work.write("slow-a", "")
    spawned.append(work.start_kl("apply", "-f", "a.tf", "--var=a=2", "--yes"))
    until((work.folder / "started-a").exists, "the apply to be in the middle")
    # Nothing of c is changed by that run, but what c reads is.
    other.write("c.tf", 'resource "terraform_data" "c" { input = "${terraform_data.a[0].id}!" }')
    spawned.append(other.start_kl("apply", "-f", "c.tf", "--var=a=2", "--yes"))
    until(lambda: "Waiting for state" in spawned[1].output(), "the waiting block")
    work.write("go-a", "")
    (status, first), (later, second) = [command.finish() for command in spawned]
    assert (status, later) == (0, 0), first + second
    assert "planning again" in second
    (new,) = ids(work, "a")
    assert new == made(work, "a")[-1]
    values = [b["instances"][0]["attributes"] for b in work.pull()["resources"] if b["name"] == "c"]
    assert values[0]["input"]["value"] == f"{new}!"


def test_kl_and_terraform_wait_for_each_other(
    make_work: Any, work: Configuration, psql: Any, spawned: list[Command]
) -> None:
    other = make_work("other")
    work.write("slow-a", "")
    spawned.append(work.start("apply", "-auto-approve", "-input=false", "-var=a=2"))
    until((work.folder / "started-a").exists, "terraform to be in the middle")
    spawned.append(other.start_kl("apply", "-f", "b.tf", "--var=b=2", "--yes"))
    until(lambda: "holds the Terraform lock" in spawned[1].output(), "kl to wait for the lock")
    work.write("go-a", "")
    (status, first), (later, second) = [command.finish() for command in spawned]
    assert (status, later) == (0, 0), first + second
    # What it changes was not touched by terraform, so nothing was planned again.
    assert "planning again" not in second

    for name in ("go-a", "started-a"):
        (work.folder / name).unlink()
    spawned[:] = [work.start_kl("apply", "-f", "a.tf", "--var=a=3", "--yes")]
    until((work.folder / "started-a").exists, "kl to be in the middle")
    spawned.append(other.start("apply", "-auto-approve", "-input=false", "-lock-timeout=120s"))
    until(lambda: psql("select count(*) from reservation_queue") == [(1,)], "terraform to wait")
    work.write("go-a", "")
    (status, first), (later, second) = [command.finish() for command in spawned]
    assert (status, later) == (0, 0), first + second
    settled(work)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_interrupting_releases_everything(
    make_work: Any, work: Configuration, psql: Any, spawned: list[Command], how: int
) -> None:
    other = make_work("other")
    work.write("slow-a", "")
    spawned.append(work.start_kl("apply", "-f", "a.tf", "--var=a=2", "--yes"))
    until((work.folder / "started-a").exists, "the apply to be in the middle")
    spawned.append(other.start_kl("apply", "-f", "a.tf", "--var=a=3", "--yes"))
    until(lambda: "Waiting for state" in spawned[1].output(), "the waiting block")

    spawned[1].interrupt(how)
    status, output = spawned[1].finish()
    assert status == 130, output
    assert psql("select count(*) from reservation_queue") == [(0,)]
    # Terraform ends as it does on Ctrl-C; what it had begun is in the state.
    spawned[0].interrupt(how)
    status, output = spawned[0].finish()
    assert status == 130 and "was interrupted; what it made is version" in output, output
    assert sorted(run[0] for run in psql(RUNS)) == ["aborted", "failed"]
    assert psql(HELD) == [(0,)]
    assert made(other, "a") == [] and ids(work, "a") == [made(work, "a")[-1]]


@pytest.mark.parametrize("until_line", ["Terraform used", "Waiting for state", "Creating..."])
def test_an_apply_goes_on_when_nobody_reads_what_it_prints(
    work: Configuration, kld: Any, psql: Any, until_line: str
) -> None:
    holder = json.dumps({"ID": "11111111-2222", "Who": "ann@box"})
    waits = until_line.startswith("Waiting")
    if waits:
        assert kld.request("LOCK", "/v1/states/shared", holder)[0] == 200
    command = subprocess.Popen(
        work.kl_command("apply", "-f", "a.tf", "--var=a=2", "--yes"),
        cwd=work.folder,
        env=work.kl_env(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert command.stdout
    while until_line.encode() not in command.stdout.readline():
        pass
    command.stdout.close()
    if waits:
        # It says so every 5 seconds.
        time.sleep(6)
        assert kld.request("UNLOCK", "/v1/states/shared", holder)[0] == 200
    assert command.wait(60) == 0
    assert psql(RUNS) == [("committed", 2, None)]
    assert ids(work, "a") == [made(work, "a")[1]]


def test_an_aborted_run_is_stopped_and_what_it_made_is_kept(
    work: Configuration, psql: Any, spawned: list[Command]
) -> None:
    work.write("slow-a", "")
    spawned.append(work.start_kl("apply", "-f", "a.tf", "--var=a=2", "--yes"))
    until((work.folder / "started-a").exists, "the apply to be in the middle")
    ((run,),) = psql("select id from apply_runs")
    assert "is aborted" in work.kl("apply", "abort", run, "--message=why not")
    assert psql(HELD) == [(0,)]
    status, output = spawned[0].finish()
    assert status == 1 and "Stopping" in output and "why not" in output, output
    assert ids(work, "a") == [made(work, "a")[-1]]
    assert "over already: aborted" in work.kl("apply", "abort", run)
    assert "no apply run" in work.kl("apply", "abort", "run_0000", status=3)


def test_what_a_killed_kl_left_is_committed_by_the_next(
    work: Configuration, psql: Any, spawned: list[Command]
) -> None:
    work.write("slow-a", "")
    spawned.append(work.start_kl("apply", "-f", "a.tf", "--var=a=2", "--yes"))
    until((work.folder / "started-a").exists, "the apply to be in the middle")
    spawned[0].kill_9()
    assert "will commit what it made" in work.kl("apply", "-f", "b.tf", "--yes", "--dry-run")
    printed = work.kl("apply", "-f", "b.tf", "--var=b=2", "--yes")
    assert "was cut off; what it had made is version 2" in printed
    assert ids(work, "a") == [made(work, "a")[-1]] and ids(work, "b") == [made(work, "b")[-1]]
    assert [run[:2] for run in psql(RUNS)] == [
        ("aborted", None),
        ("committed", 2),
        ("committed", 3),
    ]
    # Terraform had marked it as tainted: its provisioner was interrupted.
    work.write("go-a", "")
    work.apply("-var=a=2", "-var=b=2")
    work.run("plan", "-input=false", "-var=a=2", "-var=b=2", "-detailed-exitcode")


def test_what_others_wrote_over_is_not_written_back(
    make_work: Any, work: Configuration, psql: Any, spawned: list[Command], tmp_path: Path
) -> None:
    other = make_work("other")
    other.env["XDG_CACHE_HOME"] = str(tmp_path / "other-cache")
    work.write("slow-a", "")
    spawned.append(work.start_kl("apply", "-f", "a.tf", "--var=a=2", "--yes"))
    until((work.folder / "started-a").exists, "the apply to be in the middle")
    spawned[0].kill_9()
    # Somebody who knows nothing of that folder gets the resource when the lease is over.
    other.kl("apply", "-f", "a.tf", "--var=a=3", "--yes")
    refused = work.kl("apply", "-f", "b.tf", "--var=b=2", "--yes", status=4)
    assert "terraform_data.a[0] was written by somebody else" in refused
    (folder,) = (tmp_path / "cache" / "kilolock" / "scratch").iterdir()
    assert str(folder) in refused
    shutil.rmtree(folder)
    work.kl("apply", "-f", "b.tf", "--var=b=2", "--yes")
    assert ids(work, "a") == [made(other, "a")[-1]]


@pytest.mark.big
def test_kills_at_random_points(work: Configuration, psql: Any, spawned: list[Command]) -> None:
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chance = random.Random(seed)
    for turn in range(8):
        command = work.start_kl("apply", f"--var=a=r{turn}", f"--var=b=r{turn}", "--yes")
        spawned.append(command)
        time.sleep(chance.uniform(0.3, 3.5))
        command.kill_9()
    printed = work.kl("apply", "--var=a=last", "--var=b=last", "--yes")
    work.run("plan", "-input=false", "-var=a=last", "-var=b=last", "-detailed-exitcode")
    assert psql("select count(*) from apply_runs where status = 'running'") == [(0,)], printed
    assert psql(HELD) == [(0,)]
    for name in ("a", "b"):
        # What was made last is what the state has, and each id came into the state once.
        assert ids(work, name) == [made(work, name)[-1]]
        known = psql(
            "select attributes ->> 'id', count(*) from resource_history "
            "where name = %s and change in ('create', 'update') group by 1 having count(*) > 2",
            name,
        )
        assert known == []
    # What was cut off while it planned goes when its terraform has ended.
    until(lambda: scratch.sweep(work.env, -1) or not any(scratch.root(work.env).iterdir()), "end")
    twice = (
        "select 1 from apply_run_commits group by apply_run_id, delta_digest having count(*) > 1"
    )
    assert psql(twice) == []


def test_a_quota_stops_an_apply_before_it_starts(work: Configuration, kld: Any, psql: Any) -> None:
    limit = {"scope": "state", "state": "shared", "limits": {"resources_hard": 3}}
    assert kld.request("POST", "/v1/quotas/set", json.dumps(limit))[0] == 200
    printed = work.kl("apply", "--var=count_a=2", "--yes", status=6)
    assert "over its hard limit of 3" in printed
    assert psql("select count(*) from apply_runs") == [(0,)] and len(made(work, "a")) == 1
    work.kl("apply", "--var=a=2", "--yes")


def test_without_the_state_engine_terraform_locks_it_all(
    work: Configuration, kld: Any, psql: Any, spawned: list[Command]
) -> None:
    work.env["KL_PROTOCOL"] = "terraform-http"
    work.write("slow-a", "")
    spawned.append(work.start_kl("apply", "-f", "a.tf", "--var=a=2", "--yes"))
    until((work.folder / "started-a").exists, "the apply to be in the middle")
    assert psql("select count(*) from state_locks") == [(1,)]
    work.write("go-a", "")
    status, output = spawned[0].finish()
    assert status == 0, output
    assert psql("select count(*) from apply_runs") == [(0,)]
    assert psql("select source from state_versions order by version desc limit 1") == [("apply",)]
    work.run("plan", "-input=false", "-var=a=2", "-detailed-exitcode")
    work.kl("apply", "-f", "b.tf", "--var=b=2", "--yes", "--orchestrated")
    assert psql("select count(*) from apply_runs") == [(1,)]
    # Terraform itself writes then, and only where its backend block says.
    assert "not on other of" in work.kl("apply", "--yes", "--state=other", status=2)
    work.env["KL_STATE_URL"] = f"{kld.url}/v1/states/shared"
    (work.folder / "backend.tf").unlink()
    work.run("init", "-input=false", "-migrate-state", "-force-copy")
    kept = work.pull()
    assert "no http backend" in work.kl("apply", "--yes", "--var=a=3", status=2)
    assert work.pull() == kept
    assert psql("select count(*) from apply_runs") == [(1,)]
    work.env["KL_PROTOCOL"] = "other"
    assert "KL_PROTOCOL=other" in work.kl("apply", "--yes", status=2)


MANY = 16
PIECES = """
variable "values" {
  type    = map(string)
  default = {}
}
resource "terraform_data" "piece" {
  for_each         = toset([for i in range(16) : tostring(i)])
  triggers_replace = lookup(var.values, each.key, "0")
}
output "pieces" { value = { for k, p in terraform_data.piece : k => p.triggers_replace } }
resource "terraform_data" "single" { triggers_replace = lookup(var.values, "single", "0") }
"""


def test_sixteen_at_once_on_one_state(
    configure: Any, kld: Any, psql: Any, spawned: list[Command]
) -> None:
    work = configure(KL_LEASE_SECONDS="60")
    work.write("main.tf", PIECES.replace("output", "# output"))
    work.backend(f"{kld.url}/v1/states/many")
    work.init()
    work.apply()
    before = {b["name"]: b for b in work.pull()["resources"]}
    for i in range(MANY):
        change = f'--var=values={{"{i}"="changed {i}"}}'
        only = f'--target=terraform_data.piece["{i}"]'
        spawned.append(work.start_kl("apply", only, change, "--no-refresh", "--yes"))
    ended = [command.finish(300) for command in spawned]
    assert [status for status, _ in ended] == [0] * MANY, ended
    after = {b["name"]: b for b in work.pull()["resources"]}
    assert after["single"] == before["single"]
    values = {
        i["index_key"]: i["attributes"]["triggers_replace"]["value"]
        for i in after["piece"]["instances"]
    }
    # As if one had come after the other: each has its own change, and there is nothing else.
    assert values == {str(i): f"changed {i}" for i in range(MANY)}
    everything = ",".join(f'"{i}"="changed {i}"' for i in range(MANY))
    work.run("plan", "-input=false", f"-var=values={{{everything}}}", "-detailed-exitcode")
    runs = psql("select status, committed_version from apply_runs order by 2")
    assert runs == [("committed", version) for version in range(2, MANY + 2)]
    # Nobody waited for anybody.
    assert not any("Waiting" in output for _, output in ended)


def test_sixteen_at_once_on_one_resource(
    configure: Any, kld: Any, psql: Any, spawned: list[Command]
) -> None:
    work = configure(KL_LEASE_SECONDS="120")
    work.write("main.tf", PIECES)
    work.backend(f"{kld.url}/v1/states/many")
    work.init()
    work.apply()
    holder = json.dumps({"ID": "1-2-3", "Who": "ann@box"})
    assert kld.request("LOCK", "/v1/states/many", holder)[0] == 200
    for i in range(MANY):
        change = f'--var=values={{"single"="changed {i}"}}'
        only = "--target=terraform_data.single"
        spawned.append(work.start_kl("apply", only, change, "--no-refresh", "--yes"))
    queue = "select apply_run_id from reservation_queue where kind = 'run' order by place"
    arrived = until(lambda: len(found := psql(queue)) == MANY and found, "all to wait", 180)
    assert kld.request("UNLOCK", "/v1/states/many", holder)[0] == 200
    ended = [command.finish(600) for command in spawned]
    assert [status for status, _ in ended] == [0] * MANY, ended
    served = psql("select id from apply_runs where status = 'committed' order by committed_version")
    assert served == arrived
    last = [i for i, (_, output) in enumerate(ended) if served[-1][0] in output]
    (value,) = [
        b["instances"][0]["attributes"]["triggers_replace"]["value"]
        for b in work.pull()["resources"]
        if b["name"] == "single"
    ]
    assert f"changed {last[-1]}" == value
