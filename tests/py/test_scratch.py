"""kilolock/scratch.py: terraform in the user's folder, on a state that lies elsewhere."""

from __future__ import annotations

import base64
import http.client
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from terraform_runs import BINARIES, CHECKOUT, NO_TERRAFORM, Command, Configuration, until

from kilolock import scratch
from kilolock.discovery import SourceError
from kilolock.keeper import terraform_running
from kilolock.scratch import Scratch

if not BINARIES:
    pytest.skip(NO_TERRAFORM, allow_module_level=True)

# Whatever names a path: its value has to be the same from the scratch workspace.
PATHS = """
resource "terraform_data" "paths" {
  input = [path.cwd, path.root, path.module, abspath(path.module), abspath("file"), file("file")]
}

resource "terraform_data" "ran" {
  provisioner "local-exec" {
    command = "cat file ../shared/main.tf >/dev/null && pwd >> ran"
  }
}

resource "null_resource" "provided" {
}

module "local" {
  source = "./local"
}

module "shared" {
  source = "../shared"
}
"""

MODULE = """
resource "terraform_data" "paths" {
  input = [path.cwd, path.root, path.module, abspath(path.module)]
}
"""

# Ends when the file "go" appears, or when terraform is asked to stop.
SLOW = """
resource "terraform_data" "quick" {
}

resource "terraform_data" "slow" {
  depends_on = [terraform_data.quick]

  provisioner "local-exec" {
    command = "touch started; until [ -e go ]; do sleep 0.05; done"
  }
}

resource "terraform_data" "never" {
  depends_on = [terraform_data.slow]
}
"""

# Stands for a kl: applies in a scratch workspace and tells how that ended.
APPLY = """
import os, sys
from pathlib import Path
from kilolock.scratch import Scratch
work = Scratch(Path(), None, os.environ, "test")
print(work.folder, flush=True)
status = work.run("apply", "-auto-approve", show=sys.stdout)
print("status", status, "interrupts", work.interrupts)
work.close(keep=True)
"""


@pytest.fixture
def work(configure: Any, kld: Any) -> Configuration:
    """A folder whose backend is a kld."""
    folder: Configuration = configure()
    folder.backend(f"{kld.url}/v1/states/scratch")
    return folder


def open_scratch(work: Configuration, document: bytes | None = None) -> Scratch:
    env = {**work.env, "KL_IAC_BIN": work.binary}
    return Scratch(work.folder, document, env, "test")


def listing(folder: Path) -> dict[str, tuple[int, bytes | str]]:
    """Everything in a folder: when it was written, and what is in it."""
    found = {}
    for path in folder.rglob("*"):
        content = os.readlink(path) if path.is_symlink() else path.is_file() and path.read_bytes()
        found[str(path)] = (path.lstat().st_mtime_ns, content or "")
    return found


def addresses(document: bytes | None) -> list[str]:
    resources = json.loads(document or b"{}")["resources"]
    return sorted(f"{r.get('module', '')} {r['type']}.{r['name']}".strip() for r in resources)


@pytest.mark.parametrize("data_dir", [None, "elsewhere/tf"])
def test_paths_mean_what_they_mean_to_the_user(work: Configuration, data_dir: str | None) -> None:
    if data_dir:
        work.env["TF_DATA_DIR"] = data_dir
    for folder in ("../shared", "local"):
        (work.folder / folder).mkdir()
        work.write(f"{folder}/main.tf", MODULE)
    work.write("main.tf", PATHS)
    work.write("file", "text")
    work.init()
    before = listing(work.folder)

    shown = io.TextIOWrapper(io.BytesIO())
    with open_scratch(work) as space:
        assert space.folder.stat().st_mode & 0o777 == 0o700
        plan = str(space.folder / "plan")
        assert space.run("plan", f"-out={plan}", show=shown) == 0
        assert len(json.loads(space.read("show", "-json", plan))["resource_changes"]) == 5
        assert listing(work.folder) == before
        assert space.run("apply", plan, show=shown) == 0
        document = space.document()
    assert not space.folder.exists()
    assert b"5 added" in shown.buffer.getvalue()
    assert (work.folder / "ran").read_text() == f"{work.folder}\n"
    (work.folder / "ran").unlink()
    assert {k: v for k, v in listing(work.folder).items() if v != before.get(k)} == {}
    assert len(addresses(document)) == 5

    # Terraform without us finds nothing to change.
    work.write("pushed.tfstate", (document or b"").decode())
    work.run("state", "push", "pushed.tfstate")
    work.run("plan", "-detailed-exitcode", "-input=false")


def test_an_unpacked_mirror_and_a_folder_without_backend_block(configure: Any) -> None:
    work = configure()
    work.write("main.tf", 'resource "null_resource" "one" {}')
    work.init()
    # What an unpacked mirror leaves: the leaf of the provider's folder is a link.
    (binary,) = (work.folder / ".terraform" / "providers").glob("*/*/*/*/*")
    binary.rename(work.folder.parent / "unpacked")
    binary.symlink_to(work.folder.parent / "unpacked")
    with open_scratch(work) as space:
        plan = str(space.folder / "plan")
        assert space.run("plan", f"-out={plan}") == 0, space.log.read_text()
        assert space.run("apply", plan) == 0, space.log.read_text()
        document = space.document()
    assert addresses(document) == ["null_resource.one"]
    assert not (work.folder / "terraform.tfstate").exists()
    with open_scratch(work, document) as space:
        assert space.run("plan", "-detailed-exitcode") == 0, space.log.read_text()


def test_a_folder_that_was_never_initialised(configure: Any) -> None:
    work = configure()
    work.write("main.tf", PATHS)
    with pytest.raises(SourceError, match="not initialised") as caught:
        open_scratch(work)
    assert caught.value.hint == "Run terraform init there first."
    assert not list(work.folder.glob(".*"))


def test_a_changed_backend_block_wants_init_again(work: Configuration) -> None:
    work.write("main.tf", SLOW)
    work.init()
    work.backend("http://127.0.0.1:1/v1/states/other")
    with open_scratch(work) as space:
        assert space.run("plan") == 1
        assert " init" in space.log.read_text()


def test_workspaces_are_refused(work: Configuration) -> None:
    work.write("main.tf", SLOW)
    work.init()
    work.env["TF_WORKSPACE"] = "other"
    with pytest.raises(SourceError, match="no workspaces"):
        open_scratch(work)


def test_the_program_is_the_one_that_initialised(tmp_path: Path) -> None:
    for name in ("terraform", "tofu"):
        (tmp_path / name).touch(0o755)
    env = {"PATH": str(tmp_path)}
    assert scratch.find_program(tmp_path, env) == str(tmp_path / "terraform")
    (tmp_path / ".terraform" / "providers" / "registry.opentofu.org").mkdir(parents=True)
    assert scratch.find_program(tmp_path, env) == str(tmp_path / "tofu")
    wanted = {**env, "KL_IAC_BIN": "terraform"}
    assert scratch.find_program(tmp_path, wanted) == str(tmp_path / "terraform")
    with pytest.raises(SourceError, match="no program"):
        scratch.find_program(tmp_path, {**env, "KL_IAC_BIN": "terragrunt"})
    with pytest.raises(SourceError, match="on PATH"):
        scratch.find_program(tmp_path, {"PATH": str(tmp_path / "empty")})


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_terraform_stops_gracefully(
    work: Configuration, spawned: list[Command], how: signal.Signals
) -> None:
    work.write("main.tf", SLOW)
    work.init()
    env = {**work.env, "PYTHONPATH": str(CHECKOUT), "KL_IAC_BIN": work.binary}
    kl = subprocess.Popen(
        [sys.executable, "-c", APPLY], cwd=work.folder, env=env, stdout=subprocess.PIPE, text=True
    )
    assert kl.stdout
    folder = Path(kl.stdout.readline().strip())
    try:
        until((work.folder / "started").exists, "the apply to be in the middle")
        assert terraform_running(str(folder))
        kl.send_signal(how)
        # An interrupted local-exec is killed by terraform, which then writes what there is.
        output = kl.communicate(timeout=60)[0]
    finally:
        kl.kill()
        (work.folder / "go").touch()
    until(lambda: not terraform_running(str(folder)), "the end of terraform")
    log = (folder / "log").read_text()
    assert "Interrupt received" in log and "Two interrupts" not in log
    document = (folder / "terraform.tfstate").read_bytes()
    assert "terraform_data.quick" in addresses(document)
    assert "terraform_data.never" not in addresses(document)
    if how == signal.SIGKILL:
        assert list(scratch.abandoned(work.env)) == [folder]
    else:
        assert "status 1 interrupts 1" in output


def test_what_a_killed_kl_left_is_swept(work: Configuration, tmp_path: Path) -> None:
    work.write("main.tf", SLOW)
    work.init()
    left, kept, held = (open_scratch(work) for _ in range(3))
    for space in (left, kept):
        space.close(keep=True)
    (kept.folder / scratch.KEEP).touch()
    scratch.sweep(work.env, 3600)
    assert left.folder.exists(), "it may be about to be held"
    scratch.sweep(work.env, -1)
    assert not left.folder.exists()
    assert kept.folder.exists() and held.folder.exists()
    assert list(scratch.abandoned(work.env)) == [kept.folder]
    held.close()


def test_only_who_knows_the_password_gets_the_state(work: Configuration) -> None:
    work.write("main.tf", SLOW)
    work.init()
    with open_scratch(work, b'{"secret": 1}') as space:
        record = json.loads((space.folder / "data" / "terraform.tfstate").read_text())
        settings = record["backend"]["config"]
        assert (space.folder / "data" / "terraform.tfstate").stat().st_mode & 0o777 == 0o600
        for password, status in ((settings["password"], 200), ("guessed", 401)):
            token = base64.b64encode(f"kl:{password}".encode()).decode()
            port = int(settings["address"].rpartition(":")[2].strip("/"))
            conn = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            conn.request("GET", "/", headers={"Authorization": f"Basic {token}"})
            answer = conn.getresponse()
            assert (answer.status, b"secret" in answer.read()) == (status, status == 200)
            conn.close()
