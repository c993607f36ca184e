"""The real terraform (and tofu, where it is there) against a real kld."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from terraform_runs import BINARIES, EXAMPLES, KL, NO_TERRAFORM, Command, until

LOCKS = "SELECT lock_id, who, created FROM state_locks"

if not BINARIES:
    pytest.skip(NO_TERRAFORM, allow_module_level=True)

# One resource that is there at once and one that takes until the file "go" appears.
WAITING = """
resource "terraform_data" "quick" {
  input = "quick"
}

resource "terraform_data" "waiting" {
  depends_on = [terraform_data.quick]

  provisioner "local-exec" {
    command = "touch started; until [ -e go ]; do sleep 0.05; done"
  }
}
"""

# Terraform posts a snapshot when a resource is done and 20 s have passed: slow_a's end makes one,
# and this keeps the apply going after it.
AFTERWARDS = """
resource "time_sleep" "afterwards" {
  depends_on      = [time_sleep.slow_a]
  create_duration = "10s"
}
"""

PAIR = """
resource "terraform_data" "first" {
  input = "one"
}

resource "terraform_data" "second" {
  input = terraform_data.first.output
}

output "first" {
  value = terraform_data.first.output
}
"""

HOSTILE = r"""
locals {
  keys = [
    "", " ", "0", "a.b", "a b", "q\"q", "b\\s", "n\nl", "t\tb", "x][\"y", "$${x}", "%%{x}", "<&>",
    "é", "\u2028", "🜁",
  ]
}

resource "terraform_data" "escapes" {
  input = {
    nul       = "x\u0000y"
    decoded   = jsondecode("\"p\\u0000q\"")
    backslash = "\\u0000"
    newline   = "a\r\nb"
    markup    = "<script>&amp;</script>"
    quotes    = "it's \"quoted\""
  }
}

resource "terraform_data" "numbers" {
  input = {
    past_double = 9007199254740993
    unsigned    = 18446744073709551615
    huge        = 1e400
    tiny        = 1e-400
    zero        = -0
    long        = 123456789012345678901234567890.123456789
  }
}

resource "terraform_data" "keyed" {
  for_each = toset(local.keys)
  input    = each.key
}

resource "terraform_data" "follower" {
  count = 2
  input = terraform_data.keyed["a.b"].id
}

output "secret" {
  value     = terraform_data.escapes.id
  sensitive = true
}
"""


@pytest.fixture
def kl(database_url: str) -> Callable[..., list[dict[str, Any]]]:
    """``kl query`` with this SQL: its rows."""

    def query(sql: str) -> list[dict[str, Any]]:
        done = subprocess.run(
            [*KL, "query", sql, "--format", "json"],
            env={**os.environ, "KL_DATABASE_URL": database_url},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return query


def addresses(psql: Any, state: str) -> list[str]:
    """The addresses of a state's rows."""
    rows = psql("select address from current_resources where state_name = %s order by 1", state)
    return [address for (address,) in rows]


def test_the_example_lives_from_init_to_destroy(configure: Any, kld: Any, psql: Any) -> None:
    work = configure()
    work.example(kld.url)
    work.init()
    assert "210 to add" in work.run("plan", "-input=false", "-var=size=100")
    assert psql("select count(*) from state_locks") == [(0,)]
    assert "210 added" in work.apply("-var=size=100")

    assert len(addresses(psql, "big-state")) == 210
    assert psql("select count(*) from resource_dependencies") == [(415,)]
    status, _, body = kld.request("GET", "/v1/states/big-state")
    assert (status, json.loads(body)) == (200, work.pull())

    work.run("plan", "-input=false", "-var=size=100", "-detailed-exitcode")
    before = psql("select id, changed_serial from resources order by 1")
    assert "0 added, 0 changed, 0 destroyed" in work.apply("-var=size=100")
    assert psql("select id, changed_serial from resources order by 1") == before

    assert "1 added, 0 changed, 1 destroyed" in work.apply(
        "-var=size=100", "-var=slow_a_version=v2"
    )
    changed = psql(
        "select address from resources where changed_serial > %s",
        max(serial for _, serial in before),
    )
    assert changed == [("time_sleep.slow_a",)]

    assert "210 destroyed" in work.run("destroy", "-auto-approve", "-var=size=100")
    assert addresses(psql, "big-state") == []
    assert work.pull()["resources"] == []
    assert psql("select count(*) from state_locks") == [(0,)]


def test_state_commands(configure: Any, kld: Any, psql: Any) -> None:
    work = configure()
    work.write("main.tf", PAIR)
    work.backend(f"{kld.url}/v1/states/commands")
    work.init()
    work.apply()
    assert work.run("state", "list").split() == ["terraform_data.first", "terraform_data.second"]
    old = work.run("state", "pull")
    (row_id,) = psql("select id from resources where address = 'terraform_data.second'")

    work.run("state", "mv", "terraform_data.second", "terraform_data.third")
    assert addresses(psql, "commands") == ["terraform_data.first", "terraform_data.third"]
    assert psql("select id from resources where address = 'terraform_data.third'") == [row_id]

    work.run("state", "rm", "terraform_data.third")
    assert addresses(psql, "commands") == ["terraform_data.first"]

    work.write("old.tfstate", old)
    assert "serial" in work.run("state", "push", "old.tfstate", status=1)
    assert addresses(psql, "commands") == ["terraform_data.first"]
    work.run("state", "push", "-force", "old.tfstate")
    assert addresses(psql, "commands") == ["terraform_data.first", "terraform_data.second"]

    newer = json.loads(old)
    newer["serial"] += 100
    newer["resources"] = newer["resources"][:1]
    work.write("newer.tfstate", json.dumps(newer))
    work.run("state", "push", "newer.tfstate")
    assert addresses(psql, "commands") == ["terraform_data.first"]

    work.write("stranger.tfstate", json.dumps({**newer, "lineage": "another"}))
    assert "lineage" in work.run("state", "push", "stranger.tfstate", status=1)
    work.run("state", "push", "-force", "stranger.tfstate")
    assert work.pull()["lineage"] == "another"
    assert psql("select array_agg(version order by version) from state_versions") == [
        (list(range(1, psql("select max(version) from state_versions")[0][0] + 1)),)
    ]


def test_workspaces_are_refused(configure: Any, kld: Any, psql: Any) -> None:
    work = configure()
    work.write("main.tf", PAIR)
    work.backend(f"{kld.url}/v1/states/single")
    work.init()
    assert "workspaces not supported" in work.run("workspace", "new", "other", status=1)
    assert psql("select count(*) from states") == [(0,)]


def test_force_unlock_after_kill_9(
    configure: Any, kld: Any, kl: Any, psql: Any, spawned: list[Command]
) -> None:
    work = configure()
    work.write("main.tf", WAITING)
    work.backend(f"{kld.url}/v1/states/killed")
    work.init()
    spawned.append(work.start("apply", "-auto-approve", "-input=false"))
    until((work.folder / "started").exists, "the apply to be in the middle")
    spawned[0].kill_9()

    (lock,) = kl(LOCKS)
    assert lock["who"] and lock["created"]
    refusal = work.run("plan", "-input=false", status=1)
    assert lock["lock_id"] in refusal and lock["who"] in refusal

    work.run("force-unlock", "-force", lock["lock_id"])
    assert kl(LOCKS) == []
    assert psql("select kind from events order by id desc limit 1") == [("lock_force_release",)]
    work.write("go", "")
    work.apply()
    assert addresses(psql, "killed") == ["terraform_data.quick", "terraform_data.waiting"]


def test_second_apply_waits_for_the_first(
    configure: Any, kld: Any, psql: Any, spawned: list[Command]
) -> None:
    first, second = configure("first"), configure("second")
    for work in (first, second):
        work.write("main.tf", WAITING)
        work.backend(f"{kld.url}/v1/states/shared")
        work.init()
    second.write("go", "")
    spawned.append(first.start("apply", "-auto-approve", "-input=false"))
    until((first.folder / "started").exists, "the first apply to be in the middle")
    ((holder,),) = psql("select lock_id from state_locks")
    assert holder in second.apply(status=1)

    refusals = kld.output().count("423")
    spawned.append(second.start("apply", "-auto-approve", "-input=false", "-lock-timeout=60s"))
    until(lambda: kld.output().count("423") > refusals, "the second apply to be refused")
    assert psql("select lock_id from state_locks") == [(holder,)]
    first.write("go", "")
    (status, output), (later_status, later_output) = [command.finish() for command in spawned]
    assert (status, later_status) == (0, 0), output + later_output
    assert "2 added" in output
    assert "0 added" in later_output
    assert addresses(psql, "shared") == ["terraform_data.quick", "terraform_data.waiting"]
    assert psql("select count(*) from state_locks") == [(0,)]


def test_migration_from_local_and_back(configure: Any, kld: Any, psql: Any) -> None:
    work = configure()
    work.example(kld.url, slow=False)
    backend = (work.folder / "backend.tf").read_text()
    (work.folder / "backend.tf").unlink()
    work.init()
    assert "28 added" in work.apply("-var=size=10")
    local = json.loads((work.folder / "terraform.tfstate").read_text())

    work.write("backend.tf", backend)
    work.init("-migrate-state", "-force-copy")
    assert len(addresses(psql, "big-state")) == 28
    assert work.pull()["resources"] == local["resources"]
    work.run("plan", "-input=false", "-var=size=10", "-detailed-exitcode")
    work.apply("-var=size=12")
    assert len(addresses(psql, "big-state")) == 32

    (work.folder / "backend.tf").unlink()
    work.init("-migrate-state", "-force-copy")
    back = json.loads((work.folder / "terraform.tfstate").read_text())
    assert sum(len(resource["instances"]) for resource in back["resources"]) == 32
    work.run("plan", "-input=false", "-var=size=12", "-detailed-exitcode")
    versions = psql("select max(version) from state_versions")
    work.apply("-var=size=13")
    assert psql("select max(version) from state_versions") == versions


def test_prodlike_backend_signs_in_and_unlocks_by_post(
    configure: Any, start_kld: Any, psql: Any
) -> None:
    kld = start_kld(KL_AUTH_MODE="static", KL_AUTH_TOKEN="kl_only-for-this-test")
    work = configure()
    work.write("main.tf", PAIR)
    text = (EXAMPLES / "local-backend" / "backend.tf.prodlike").read_text()
    text = text.replace("http://localhost:8080", kld.url)
    text = text.replace("ws_REPLACE_ME", "ws_default").replace("env_REPLACE_ME", "env_default")
    work.write("backend.tf", text.replace("kl_REPLACE_ME", "kl_a-wrong-one"))
    assert "requires auth" in work.run("init", "-input=false", status=1)
    assert psql("select count(*) from states") == [(0,)]

    work.write("backend.tf", text.replace("kl_REPLACE_ME", "kl_only-for-this-test"))
    work.init("-reconfigure")
    assert "2 added" in work.apply()
    assert addresses(psql, "big-state") == ["terraform_data.first", "terraform_data.second"]
    assert psql("select count(*) from state_locks") == [(0,)]
    assert psql(
        "select distinct kind from events where kind like 'lock%%release' or kind like '%%force%%'"
    ) == [("lock_release",)]
    assert re.search(r"POST.*/v1/state-unlock/ws_default/env_default/big-state", kld.output())
    assert "kl_only-for-this-test" not in kld.output()


def test_a_long_apply_is_seen_while_it_runs(
    configure: Any, kld: Any, kl: Any, psql: Any, spawned: list[Command]
) -> None:
    work = configure(STANDIN_SLEEP_FACTOR="0.75")
    work.example(kld.url)
    work.write("afterwards.tf", AFTERWARDS)
    work.init()
    spawned.append(work.start("apply", "-auto-approve", "-input=false", "-var=size=1000"))
    watch = (
        "SELECT sv.serial, sv.terraform_version, sv.created_at FROM state_versions sv "
        "JOIN states s ON s.id=sv.state_id WHERE s.name='big-state' ORDER BY sv.serial DESC LIMIT 5"
    )
    interim = until(lambda: psql(watch), "an interim snapshot")
    assert spawned[0].running, "the apply ended before it was seen"
    assert {str(serial) for serial, _, _ in interim} <= {str(row["serial"]) for row in kl(watch)}
    assert len(kl(LOCKS)) == 1
    status, output = spawned[0].finish()
    assert status == 0, output
    assert "2011 added" in output

    counts = [n for (n,) in psql("select resource_count from state_versions order by version")]
    assert len(counts) >= 2 and counts == sorted(counts) and counts[-1] == 2011
    assert len(addresses(psql, "big-state")) == 2011
    assert psql("select count(*) from resource_dependencies") == [(4016,)]
    leader = "module.primary_herd.random_id.leader"
    radius = "select count(*) from blast_radius('big-state', %s)"
    assert psql(radius, leader) == [(2004,)]
    assert kl(LOCKS) == []


def test_hostile_values(configure: Any, kld: Any, psql: Any) -> None:
    work = configure()
    work.write("main.tf", HOSTILE)
    work.backend(f"{kld.url}/v1/states/hostile%20%22%C3%A9%2F1")
    work.init()
    assert "20 added" in work.apply()
    work.run("plan", "-input=false", "-detailed-exitcode")
    name = 'hostile "é/1'
    listed = work.run("state", "list")
    rows = addresses(psql, name)
    assert len(rows) == 20
    plain = [row for row in rows if row.isascii() and row.isprintable()]
    assert all(row in listed.splitlines() for row in plain), (plain, listed)
    keyed = "from current_resources where name = 'keyed' and state_name = %s"
    keys = psql(f"select index_key #>> '{{}}' {keyed}", name)
    inputs = psql(f"select attributes #>> '{{input,value}}' {keyed}", name)
    assert len({key for (key,) in keys}) == 16
    assert sorted(keys) == sorted(inputs)
    value = "select attributes -> 'input' -> 'value' ->> %s from resources where name = %s"
    assert psql(value, "past_double", "numbers") == [("9007199254740993",)]
    assert psql(value, "unsigned", "numbers") == [("18446744073709551615",)]
    assert psql(value, "backslash", "escapes") == [("\\u0000",)]
    assert psql(value, "nul", "escapes") == [("x\ufffdy",)]
    assert psql("select count(*) from resource_dependencies") == [(32,)]
    assert "20 destroyed" in work.run("destroy", "-auto-approve")
    assert addresses(psql, name) == []
