"""``kl plan`` with the real terraform: scopes, sets, specs."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from terraform_runs import BINARIES, NO_TERRAFORM, Command, Configuration, until

from kilolock import planfile
from kilolock.planfile import decode, from_json

if not BINARIES:
    pytest.skip(NO_TERRAFORM, allow_module_level=True)

FILES = {
    "base.tf": """
        variable "n" { default = 2 }
        variable "text" { default = "one" }
        variable "secret" {
          default   = "hidden"
          sensitive = true
        }
        provider "random" { alias = "west" }
        resource "terraform_data" "root" { input = var.text }
        output "text" { value = terraform_data.root.output }
    """,
    "counted.tf": """
        resource "terraform_data" "counted" {
          count = var.n
          input = "${terraform_data.root.output} ${count.index}"
        }
    """,
    "keyed.tf": """
        resource "terraform_data" "keyed" {
          for_each = toset([for i in range(var.n) : "k.${i}\\"]"])
          input    = each.key
        }
    """,
    "nested.tf": """
        module "outer" {
          source = "./outer"
          count  = 2
          n      = var.n
          text   = terraform_data.root.output
        }
    """,
    "outer/main.tf": """
        variable "n" {}
        variable "text" {}
        resource "terraform_data" "own" { input = "fixed" }
        module "inner" {
          source   = "./inner"
          for_each = toset([for i in range(var.n) : tostring(i)])
          text     = "${var.text} ${each.key}"
        }
    """,
    "outer/inner/main.tf": """
        variable "text" {}
        resource "terraform_data" "deep" { input = var.text }
    """,
    "moved.tf": """
        resource "terraform_data" "old" { input = "moves" }
    """,
    "removed.tf": """
        resource "terraform_data" "gone" { input = "goes" }
        resource "terraform_data" "forgotten" { input = "is forgotten" }
    """,
    "alias.tf": """
        resource "random_id" "west" {
          provider    = random.west
          byte_length = var.n
        }
    """,
    "read.tf": """
        data "terraform_remote_state" "other" {
          backend = "local"
          config  = { path = "${path.module}/other.json" }
        }
        resource "terraform_data" "reader" {
          input = "${data.terraform_remote_state.other.outputs.x} ${var.text}"
        }
    """,
    "more.tf.json": json.dumps(
        {"resource": {"terraform_data": {"json": {"input": "${terraform_data.root.id} ${var.n}"}}}}
    ),
}
LATER = {
    "moved.tf": """
        resource "terraform_data" "new" { input = "moves" }
        moved {
          from = terraform_data.old
          to   = terraform_data.new
        }
    """,
    "removed.tf": """
        removed {
          from = terraform_data.gone
          lifecycle { destroy = true }
        }
        removed {
          from = terraform_data.forgotten
          lifecycle { destroy = false }
        }
    """,
    "imported.tf": """
        import {
          to = terraform_data.imported
          id = "given"
        }
        resource "terraform_data" "imported" {}
    """,
}
DEEP = 'module.outer[{}].module.inner["{}"].terraform_data.deep'
# What terraform has to be told to plan the same by hand.
TARGETS = {
    "counted.tf": ["terraform_data.counted"],
    "keyed.tf": ["terraform_data.keyed"],
    "nested.tf": ["module.outer"],
    "outer/inner/main.tf": [DEEP.format(i, j) for i in range(2) for j in range(2)],
    "removed.tf": ["terraform_data.gone", "terraform_data.forgotten"],
    "alias.tf": ["random_id.west"],
    "read.tf": ["data.terraform_remote_state.other", "terraform_data.reader"],
    "more.tf.json": ["terraform_data.json"],
    "imported.tf": ["terraform_data.imported"],
    # The last: terraform wants a move that is pending among all targets.
    "moved.tf": ["terraform_data.old", "terraform_data.new"],
}
CHANGES = ["-var=n=3", "-var=text=two", "-var=secret=other"]
OURS = ["--var=n=3", "--var=text=two", "--var=secret=other"]
OTHER = {
    "version": 4,
    "terraform_version": "1.5.0",
    "serial": 1,
    "lineage": "other",
    "outputs": {"x": {"value": "read", "type": "string"}},
    "resources": [],
}


@pytest.fixture
def work(configure: Any, kld: Any) -> Configuration:
    """A configuration of every kind of block, applied."""
    folder: Configuration = configure()
    for name in ("outer", "outer/inner"):
        (folder.folder / name).mkdir()
    for name, text in FILES.items():
        folder.write(name, text)
    folder.write("other.json", json.dumps(OTHER))
    folder.backend(f"{kld.url}/v1/states/scoped")
    folder.init()
    folder.apply()
    return folder


def spec_of(work: Configuration, *args: str, status: int = 0) -> dict[str, Any]:
    """The plan spec that kl prints; what terraform says is not among it."""
    done = subprocess.run(
        work.kl_command("plan", "--format", "json", *args),
        cwd=work.folder,
        env=work.kl_env(),
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout)


def by_hand(work: Configuration, *args: str) -> list[dict[str, Any]]:
    """What terraform plans with these arguments, from its own JSON."""
    plan = str(work.folder.parent / "by-hand")
    work.run("plan", "-input=false", "-lock=false", f"-out={plan}", *args)
    with open(plan, "rb") as file:
        data = file.read()
    shown = json.loads(work.run("show", "-json", plan))
    # The quick reading of the file agrees with what terraform says is in it.
    quick, slow = decode(data), from_json(shown)
    assert sorted(quick.changes, key=repr) == sorted(slow.changes, key=repr)
    assert quick.drift == slow.drift
    assert (quick.outputs, quick.version) == (slow.outputs, slow.version)
    assert {n: str(v) for n, v in quick.variables.items()}.items() <= {
        n: str(v) for n, v in slow.variables.items()
    }.items()
    return sorted(
        (
            {
                "address": change["address"],
                **{k: change[k] for k in ("previous_address", "deposed") if k in change},
                **({"importing": True} if "importing" in change["change"] else {}),
                "actions": change["change"]["actions"],
            }
            for change in shown["resource_changes"]
        ),
        key=lambda c: c["address"],
    )


def writing(changes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        c
        for c in changes
        if c["actions"] != ["no-op"] or "previous_address" in c or "importing" in c
    ]


def test_scopes_agree_with_targets_given_by_hand(work: Configuration) -> None:
    specs = {}
    for file, targets in TARGETS.items():
        if file in LATER:
            work.write(file, LATER[file])
        spec = specs[file] = spec_of(work, "-f", file, *OURS)
        assert spec["scope"] == {
            "files": [file],
            "extra_targets": [],
            "targets": spec["scope"]["targets"],
        }
        assert sorted(spec["scope"]["targets"]) == sorted(targets)
        plain = by_hand(work, *CHANGES, *(f"-target={address}" for address in targets))
        assert spec["actions"] == writing(plain), file
        written = {c["address"] for c in writing(plain)}
        written |= {c["previous_address"] for c in plain if "previous_address" in c}
        assert set(spec["write_set"]) == written, file

    assert specs["counted.tf"]["write_set"] == [
        *(f"terraform_data.counted[{i}]" for i in range(3)),
        # It is read, and changed by the variable too.
        "terraform_data.root",
    ]
    assert specs["keyed.tf"]["write_set"] == ['terraform_data.keyed["k.2\\"]"]']
    deep = specs["outer/inner/main.tf"]
    assert deep["write_set"] == [*TARGETS["outer/inner/main.tf"], "terraform_data.root"]
    assert specs["moved.tf"]["write_set"] == ["terraform_data.new", "terraform_data.old"]
    assert specs["moved.tf"]["summary"] == {"move": 1}
    assert specs["removed.tf"]["summary"] == {"delete": 1, "forget": 1}
    assert specs["imported.tf"]["summary"] == {"import": 1}
    assert specs["alias.tf"]["summary"] == {"replace": 1}

    whole = spec_of(work, *OURS)
    assert whole["scope"] == {"files": [], "extra_targets": [], "targets": []}
    assert whole["actions"] == writing(by_hand(work, *CHANGES))
    several = spec_of(work, "-f", "moved.tf", "-f", "keyed.tf", "--target=random_id.west", *OURS)
    assert [c["actions"] for c in several["actions"]] == [
        ["delete", "create"],
        ["create"],
        ["no-op"],
    ]


def test_what_a_change_reads(work: Configuration) -> None:
    def sets(*args: str) -> tuple[list[str], list[str]]:
        spec = spec_of(work, "--no-refresh", *args)
        modes = [(r["address"], r["mode"]) for r in spec["reservations"]]
        assert modes == [
            *((a, "write") for a in spec["write_set"]),
            *((a, "read") for a in spec["read_set"]),
        ]
        return spec["write_set"], spec["read_set"]

    assert sets("-f", "counted.tf", "--var=n=3") == (
        ["terraform_data.counted[2]"],
        ["terraform_data.root"],
    )
    assert sets("-f", "keyed.tf", "--var=n=3") == (['terraform_data.keyed["k.2\\"]"]'], [])
    assert sets("-f", "nested.tf", "--var=n=3") == (
        [DEEP.format(0, 2), DEEP.format(1, 2)],
        ["terraform_data.root"],
    )
    # A state remembers what the configuration does not say any more.
    work.write("counted.tf", "")
    written, read = sets("--target=terraform_data.counted")
    assert (written, read) == (
        ["terraform_data.counted[0]", "terraform_data.counted[1]"],
        ["terraform_data.root"],
    )
    # One more instance must not wait for the change of another one.
    assert sets("-f", "read.tf", "--var=text=two") == (
        ["terraform_data.reader"],
        ["data.terraform_remote_state.other"],
    )
    # A new data source will be in the state; an output depends on what it shows.
    work.write("new.tf", FILES["read.tf"].replace('"other"', '"new"').replace("reader", "later"))
    written, _ = sets("-f", "new.tf")
    assert written == ["data.terraform_remote_state.new", "terraform_data.later"]
    work.write("out.tf", 'output "reader" { value = terraform_data.reader.output }')
    assert sets() == (
        [
            "data.terraform_remote_state.new",
            "terraform_data.counted[0]",
            "terraform_data.counted[1]",
            "terraform_data.later",
        ],
        ["data.terraform_remote_state.other", "terraform_data.reader", "terraform_data.root"],
    )


def test_a_spec_pins_variables_but_no_secrets(work: Configuration, kld: Any) -> None:
    work.write("more.auto.tfvars", 'text = "from a file"')
    printed = work.kl("plan", "-f", "keyed.tf", "--var=n=3", "--var=secret=s3cret", "-o", "p.json")
    assert "1 to create" in printed and "Plan spec: p.json" in printed
    path = work.folder / "p.json"
    spec = json.loads(path.read_text())
    assert path.stat().st_mode & 0o077 == 0
    assert "s3cret" not in path.read_text()
    assert {n: str(v) for n, v in spec["variables"].items()} == {"n": "3", "text": "from a file"}
    assert spec["sensitive_variables"] == ["secret"]
    assert (spec["format"], spec["format_version"]) == ("kilolock-plan-spec", 1)
    assert spec["state"]["name"] == "scoped" and spec["state"]["base_version"] == 1
    assert spec["state"]["lineage"] == work.pull()["lineage"]
    names = {"base.tf", "outer/inner/main.tf", "more.tf.json", "more.auto.tfvars"}
    assert names <= spec["files"].keys() and "p.json" not in spec["files"]
    assert spec["quota"]["verdict"] == "ok"


def test_nothing_to_change_and_what_cannot_be_planned(work: Configuration) -> None:
    assert "Nothing to change" in work.kl("plan")
    work.write("vars.tf", 'variable "more" { default = 1 }')
    assert "nothing that can be planned by itself" in work.kl("plan", "-f", "vars.tf", status=2)
    nowhere = work.kl("plan", "-f", "keyed.tf", "-o", "missing/spec.json", status=1)
    assert "missing/spec.json cannot be written: No such file" in nowhere
    assert "Left out" in work.kl("plan", "-f", "vars.tf", "-f", "keyed.tf")
    assert "there is no file" in work.kl("plan", "-f", "missing.tf", status=2)
    # A folder stands for its files; one without any must not mean everything.
    (work.folder / "empty").mkdir()
    assert "there is no file" in work.kl("plan", "-f", "empty", status=2)
    assert "  terraform_data.json\n" in work.kl("plan", "-f", ".", "--var=n=3")
    work.write("broken.tf", 'resource "terraform_data" "b" {}\nresource {{')
    assert "broken.tf" in work.kl("plan", "-f", "broken.tf", status=1)
    work.write("broken.tf", "")
    # Paths by where kl runs or by DIR.
    work.env["KL_STATE_URL"] = json.loads(
        (work.folder / ".terraform" / "terraform.tfstate").read_text()
    )["backend"]["config"]["address"]
    parent = Configuration(work.binary, work.folder.parent, work.env)
    for file in ("keyed.tf", f"{work.folder.name}/keyed.tf", str(work.folder / "keyed.tf")):
        assert "1 to create" in parent.kl("plan", work.folder.name, "-f", file, "--var=n=3")
    parent.write("keyed.tf", "")
    assert "1 to create" in parent.kl("plan", work.folder.name, "-f", "keyed.tf", "--var=n=3")


def test_a_hard_quota_refuses_the_plan(work: Configuration, kld: Any) -> None:
    count = sum(len(r["instances"]) for r in work.pull()["resources"] if r["mode"] == "managed")
    limit = {"scope": "state", "state": "scoped", "limits": {"resources_hard": count}}
    assert kld.request("POST", "/v1/quotas/set", json.dumps(limit))[0] == 200
    assert "over its hard limit" in work.kl("plan", "-f", "keyed.tf", "--var=n=3", status=6)
    assert "Nothing to change" in work.kl("plan", "-f", "keyed.tf")


def test_a_plan_waits_for_the_terraform_lock(
    work: Configuration, kld: Any, psql: Any, spawned: list[Command]
) -> None:
    holder = {"ID": "11111111-2222", "Who": "ann@box", "Operation": "OperationTypeApply"}
    assert kld.request("LOCK", "/v1/states/scoped", json.dumps(holder))[0] == 200
    refused = work.kl("plan", "-f", "keyed.tf", "--wait-timeout=0", status=5)
    assert "ann@box" in refused and "11111111-2222" in refused
    assert "Nothing to change" in work.kl("plan", "-f", "keyed.tf", "--no-lock")

    spawned.append(work.start_kl("plan", "-f", "keyed.tf"))
    until(lambda: "ann@box holds the Terraform lock" in spawned[0].output(), "the waiting block")
    assert kld.request("UNLOCK", "/v1/states/scoped", json.dumps(holder))[0] == 200
    status, output = spawned[0].finish()
    assert status == 0 and "Going on after" in output and "Nothing to change" in output


def test_addresses_are_taken_apart() -> None:
    address = 'module.a["x.y[\\"]"].module.b[0].data.t.n["q]"]'
    assert planfile.module_of(address) == 'module.a["x.y[\\"]"].module.b[0]'
    assert planfile.mode_of(address) == "data"
    assert planfile.without_keys(address) == "module.a.module.b.data.t.n"
    assert planfile.parent_module(planfile.module_of(address)) == 'module.a["x.y[\\"]"]'
    assert (
        planfile.parent_module('module.a["x.y[\\"]"]') == planfile.parent_module("module.a") == ""
    )
    assert planfile.module_of("a.b[0]") == "" and planfile.mode_of("module.data.a.b") == "managed"
