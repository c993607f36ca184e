"""Quotas: what kl says before anything is built, and what no write gets past."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from test_cli import Kl, ask, failed, kl  # noqa: F401
from test_http import LINEAGE, STATES, document, lock_info
from test_races import at_once, wait_until_blocked

from kilolock.resources import migrations_dir

REPORT = list[dict[str, Any]]


def some(count: int, serial: int = 1, lineage: str = LINEAGE) -> bytes:
    """A state of that many managed resources."""
    return document(serial, *(f"r{n}" for n in range(count)), lineage=lineage)


def plan(*changes: tuple[str, ...], **more: Any) -> str:
    """A plan as terraform show -json prints it, with managed resources changed like this."""
    listed = [
        {"address": f"t.r{n}", "mode": "managed", "type": "t", "change": {"actions": actions}}
        for n, actions in enumerate(changes)
    ]
    return json.dumps(
        {"format_version": "1.2", "planned_values": {}, "resource_changes": listed, **more}
    )


def limits(kl: Kl, *args: str) -> None:  # noqa: F811
    """Set limits with kl."""
    done = kl("quota", "set", *args)
    assert done.returncode == 0, done.stderr


def test_limits_are_set_listed_and_removed(ask: Kl, kld: Any) -> None:  # noqa: F811
    assert len(ask("quota", "list").stdout.splitlines()) == 1
    assert kld.request("POST", f"{STATES}/prod", some(3))[0] == 200
    done = ask("quota", "set", "--state", "prod", "--resources-soft", "2", "--bytes-hard", "9999")
    assert done.stdout == 'state "prod": resources soft 2, bytes hard 9999\n'
    assert done.stderr == (
        'Warning: state "prod" holds 3 managed resources already, over soft limit of 2\n'
    )
    limits(ask, "--environment", "default", "--resources-hard", "10")
    limits(ask, "--workspace", "ws_default", "--resources-hard", "100")
    rows = json.loads(ask("quota", "list", "--format", "json").stdout)
    seen = [[r["scope"], r["measure"], r["remaining"], r["status"]] for r in rows]
    assert seen == [
        ["workspace", "resources", 97, "ok"],
        ["environment", "resources", 7, "ok"],
        ["state", "resources", None, "over soft limit"],
        ["state", "bytes", 9999 - len(some(3)), "ok"],
    ]
    none = ("--resources-soft", "none", "--bytes-hard", "none")
    assert ask("quota", "set", "--state", "prod", *none).stdout == 'state "prod": no limits\n'
    rows = json.loads(ask("quota", "list", "--format", "json").stdout)
    assert [r["scope"] for r in rows] == ["workspace", "environment"]


def test_remaining_is_of_the_state_and_what_it_counts_in(ask: Kl, kld: Any) -> None:  # noqa: F811
    assert kld.request("POST", f"{STATES}/prod", some(3))[0] == 200
    assert kld.request("POST", f"{STATES}/other", some(4))[0] == 200
    limits(ask, "--environment", "env_default", "--resources-hard", "10", "--bytes-soft", "5")
    done = ask("quota", "remaining", "prod", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    size = str(len(some(3)) + len(some(4)))
    assert [(r["scope"], r["name"], r["measure"], r["used"], r["remaining"]) for r in rows] == [
        ("state", "prod", "resources", "3", ""),
        ("environment", "env_default", "resources", "7", "3"),
        ("workspace", "ws_default", "resources", "7", ""),
        ("environment", "env_default", "bytes", size, ""),
    ]
    assert done.stderr == ""
    done = ask("quota", "remaining", "new")
    assert "env_default" in done.stdout
    assert done.stderr == 'State "new" is not there yet; it counts from its first write.\n'


def test_wrong_limits_are_refused(ask: Kl, kld: Any) -> None:  # noqa: F811
    assert kld.request("POST", f"{STATES}/prod", some(1))[0] == 200
    failed(ask("quota", "set", "--state", "prod"), 2)
    failed(ask("quota", "set", "--resources-hard", "5"), 2)
    for value in ("-1", "1.5", "many", "", "9" * 19, "٣"):
        failed(ask("quota", "set", "--state", "prod", f"--resources-hard={value}"), 2)
    both = ("--state", "prod", "--environment", "env_default")
    failed(ask("quota", "set", *both, "--resources-hard", "5"), 2)
    soft_above = ("--resources-hard", "5", "--resources-soft", "6")
    assert "soft" in failed(ask("quota", "set", "--state", "prod", *soft_above), 2)
    failed(ask("quota", "set", "--state", "nowhere", "--resources-hard", "5"), 3)
    failed(ask("quota", "set", "--environment", "nowhere", "--resources-hard", "5"), 3)
    failed(ask("quota", "set", "--workspace", "nowhere", "--resources-hard", "5"), 3)
    failed(ask("quota", "remaining"), 2)
    assert json.loads(ask("quota", "list", "--format", "json").stdout) == []


@pytest.mark.parametrize("path", ["quotas/set", "quotas/check"])
@pytest.mark.parametrize(
    "body", ["", "[]", "{", '"x"', "{}", '{"state": 1}', '{"state": "\\u0000"}']
)
def test_garbage_is_400(kld: Any, path: str, body: str) -> None:
    status, _, answer = kld.request("POST", f"/v1/{path}", body)
    assert status == 400, answer


def test_check_warns_beyond_a_soft_limit_and_fails_beyond_a_hard_one(ask: Kl, kld: Any) -> None:  # noqa: F811
    assert kld.request("POST", f"{STATES}/prod", some(3))[0] == 200
    limits(ask, "--state", "prod", "--resources-soft", "4", "--resources-hard", "5")
    check = ("quota", "check", "prod", "--tf-plan-json", "-")

    fits = ask(*check, stdin=plan(("create",)))
    assert (fits.returncode, fits.stderr) == (0, "")
    assert (
        re.split(" +", fits.stdout.splitlines()[1], maxsplit=3)[3]
        == "3     4          4           5           ok"
    )

    soft = ask(*check, stdin=plan(("create",), ("create",)))
    assert soft.returncode == 0
    assert soft.stderr == (
        'Warning: state "prod" would have 5 managed resources, over its soft limit of 4\n'
    )
    hard = ask(*check, "--format", "json", stdin=plan(*[("create",)] * 3))
    assert hard.returncode == 6
    [line] = hard.stderr.splitlines()
    assert line.startswith(
        'Error: state "prod" would have 6 managed resources, over its hard limit of 5 ('
    )
    report = json.loads(hard.stdout)
    assert (report["verdict"], report["added"], report["removed"]) == ("hard", 3, 0)
    assert [x["verdict"] for x in report["limits"]] == ["hard", "ok", "ok"]

    # What is in the state now counts, not what was there when the plan was made.
    assert kld.request("POST", f"{STATES}/prod", some(1, 2))[0] == 200
    assert ask(*check, stdin=plan(*[("create",)] * 3)).stderr == ""


def test_a_plan_counts_what_it_makes_of_the_state(ask: Kl, kld: Any) -> None:  # noqa: F811
    assert kld.request("POST", f"{STATES}/prod", some(5))[0] == 200
    gone = [{"address": "module.m.t.g", "change": {"actions": ["delete"]}}] * 2
    changes: list[dict[str, Any]] = [
        {"address": "t.a", "change": {"actions": ["create", "delete"]}},
        {"address": "t.b", "change": {"actions": ["no-op"], "importing": {"id": "x"}}},
        {"address": "t.c", "change": {"actions": ["forget"]}},
        {"address": "t.d", "deposed": "00aa11bb", "change": {"actions": ["delete"]}},
        {"address": "t.e", "change": {"actions": ["create"], "importing": None}},
        {"address": 'module.m["x"].data.t.f[0]', "change": {"actions": ["create"]}},
    ]
    (ask.directory / "p.json").write_text(plan(resource_changes=changes, resource_drift=gone))
    done = ask("quota", "check", "prod", "--tf-plan-json", "p.json", "--format", "json")
    report = json.loads(done.stdout)
    assert (report["added"], report["removed"]) == (2, 3)
    assert report["limits"][0]["projected"] == 4


@pytest.mark.parametrize(
    "text",
    [
        "",
        "PK\x03\x04",
        "[" * 100_000,
        "[]",
        "null",
        "{}",
        '{"format_version": 1, "planned_values": {}}',
        '{"format_version": "2.0", "planned_values": {}}',
        '{"format_version": "1.0", "terraform_version": "1.11.4", "values": {}}',
        plan(errored=True),
        plan(resource_changes=7),
        plan(resource_changes=[7]),
        plan(resource_changes=[{"mode": "managed"}]),
        plan(resource_changes=[{"mode": "managed", "change": {"actions": None}}]),
        plan(resource_changes=[{"address": 7, "change": {"actions": ["create"]}}]),
        plan(resource_changes=[{"address": "t.a", "change": {"actions": [{}]}}]),
        plan(resource_drift=[{"change": {"actions": ["delete"]}}]),
        document(1, "a").decode(),
    ],
)
def test_what_is_no_plan_is_bad_input(kl: Kl, database_url: str, text: str) -> None:  # noqa: F811
    kl.env["KL_DATABASE_URL"] = database_url
    (kl.directory / "p.json").write_text(text)
    failed(kl("quota", "check", "prod", "--tf-plan-json", "p.json"), 2)


def test_check_takes_one_plan_that_can_be_read(kl: Kl, database_url: str) -> None:  # noqa: F811
    kl.env["KL_DATABASE_URL"] = database_url
    failed(kl("quota", "check", "prod"), 2)
    failed(kl("quota", "check", "prod", "--tf-plan", "a", "--tf-plan-json", "b"), 2)
    failed(kl("quota", "check", "prod", "--tf-plan", "missing"), 2)
    failed(kl("quota", "check", "prod", "--tf-plan-json", "missing"), 2)
    failed(kl("quota", "check", "--tf-plan-json", "-", stdin=plan()), 2)
    (kl.directory / "p").write_text("x")
    tried = kl("quota", "check", "prod", "--tf-plan", "p", KL_IAC_BIN="/nowhere/terraform")
    assert "KL_IAC_BIN" in failed(tried, 2)
    assert kl("quota", "check", "prod", "--tf-plan-json", "-", stdin=plan()).returncode == 0


def test_a_refusal_over_http_names_the_limit_and_what_to_do(kld: Any, db: Any, psql: Any) -> None:
    assert kld.request("POST", f"{STATES}/prod", some(2))[0] == 200
    db.call("set_quota", '{"scope":"environment","limits":{"resources_hard":3}}', "ann")
    assert kld.request("LOCK", f"{STATES}/new", lock_info("mine"))[0] == 200
    status, _, body = kld.request("POST", f"{STATES}/new?ID=mine", some(2))
    error = json.loads(body)["error"]
    assert (status, error["code"]) == (422, "KLQ01")
    assert error["message"] == (
        'state "new": this write would bring environment "env_default" from 2 to 4'
        " managed resources, over its hard limit of 3"
    )
    assert "kl quota set --environment env_default --resources-hard" in error["hint"]
    assert psql("select count(*) from version_documents") == [(1,)]
    assert kld.request("POST", f"{STATES}/new?ID=mine", some(1))[0] == 200
    assert kld.request("UNLOCK", f"{STATES}/new", lock_info("mine"))[0] == 200


# Two writers at once


def begin_write(url: str, name: str, body: bytes) -> psycopg.Connection[Any]:
    """What a POST does, in a transaction that stays open."""
    connection = psycopg.connect(url)
    connection.execute(
        "select kilolock.write_state(null, null, %s, null, %s, null, null)", [name, body]
    )
    return connection


@pytest.mark.parametrize(("end", "status"), [("commit", 422), ("rollback", 200)])
def test_a_second_writer_waits_and_counts_the_first(
    kld: Any, database_url: str, db: Any, psql: Any, end: str, status: int
) -> None:
    db.call("set_quota", '{"scope":"environment","limits":{"resources_hard":10}}', "ann")
    with ThreadPoolExecutor(1) as pool:
        first = begin_write(database_url, "one", some(6))
        second = pool.submit(kld.request, "POST", f"{STATES}/two", some(6))
        wait_until_blocked(psql)
        getattr(first, end)()
        first.close()
        assert second.result(60)[0] == status
    assert psql("select sum(managed_count) from states") == [(6,)]


def test_who_adds_nothing_waits_for_nobody(kld: Any, database_url: str, db: Any) -> None:
    assert kld.request("POST", f"{STATES}/two", some(3))[0] == 200
    db.call("set_quota", '{"scope":"environment","limits":{"resources_hard":10}}', "ann")
    with begin_write(database_url, "one", some(6)) as first:
        assert kld.request("POST", f"{STATES}/two", some(2, 2))[0] == 200
        assert kld.request("LOCK", f"{STATES}/three", lock_info("x"))[0] == 200
        first.commit()


def test_a_limit_that_is_lowered_waits_for_the_write_that_it_would_have_refused(
    database_url: str, db: Any, psql: Any
) -> None:
    lowered = '{"scope":"environment","limits":{"resources_hard":1}}'
    db.call("set_quota", lowered.replace("1", "10"), "ann")
    with ThreadPoolExecutor(1) as pool:
        first = begin_write(database_url, "one", some(6))
        second = pool.submit(db.call, "set_quota", lowered, "bob")
        wait_until_blocked(psql)
        first.commit()
        first.close()
        assert json.loads(second.result(60))["warnings"] != []


def test_many_writers_fill_a_quota_to_the_brim_and_no_further(kld: Any, db: Any, psql: Any) -> None:
    db.call("set_quota", '{"scope":"environment","limits":{"resources_hard":40}}', "ann")
    db.call("set_quota", '{"scope":"workspace","limits":{"resources_hard":25}}', "ann")

    def write(n: int) -> int:
        status: int = kld.request("POST", f"{STATES}/s{n}", some(5))[0]
        return status

    assert Counter(at_once(16, write)) == {200: 5, 422: 11}
    assert psql("select sum(managed_count) from states") == [(25,)]


def test_a_migrated_database_counts_what_it_had(kld: Any, psql: Any) -> None:
    body = json.loads(some(3))
    body["resources"][0]["mode"] = "data"
    body["resources"][1]["instances"].append({"deposed": "00aa11bb", "attributes": {"id": "x"}})
    assert kld.request("POST", f"{STATES}/prod", json.dumps(body))[0] == 200
    assert kld.request("POST", f"{STATES}/gone", some(3))[0] == 200
    assert kld.request("DELETE", f"{STATES}/gone")[0] == 200
    counts = "select name, managed_count, head_size from states order by 1"
    kept = psql(counts)
    assert kept == [("gone", 0, 0), ("prod", 2, len(json.dumps(body)))]
    psql("alter table states drop column managed_count cascade, drop column head_size cascade")
    text = (migrations_dir() / "0007-quotas.sql").read_text()
    psql("begin;" + text.split("create table")[0] + "commit")
    assert psql(counts) == kept


# With the real terraform

GROWING = """
variable "size" {}

resource "terraform_data" "one" {
  count = var.size
}
"""

NULL = """
terraform {
  required_providers {
    null = {
      source  = "hashicorp/null"
      version = "~> 3.2"
    }
  }
}

"""

REPLACED = """
variable "turn" {}

resource "terraform_data" "kept" {
  count            = 3
  triggers_replace = var.turn

  lifecycle {
    create_before_destroy = true
  }
}
"""

# A life of a state: what a plan of each step makes of the count must be what its apply makes of it.
STEPS = [
    'resource "null_resource" "a" { count = 3 }\n',
    'resource "null_resource" "a" { count = 5 }\ndata "terraform_remote_state" "d" {\n'
    '  backend = "local"\n  config = { path = "other.tfstate" }\n}\n',
    'resource "null_resource" "b" { count = 5 }\nmoved {\n  from = null_resource.a\n'
    "  to = null_resource.b\n}\n",
    'resource "null_resource" "b" {\n  count = 4\n  triggers = { x = "1" }\n}\n',
    "removed {\n  from = null_resource.b\n  lifecycle {\n    destroy = false\n  }\n}\n"
    'resource "terraform_data" "c" { count = 2 }\n',
    'resource "terraform_data" "c" { count = 1 }\nresource "terraform_data" "i" {}\n'
    'import {\n  to = terraform_data.i\n  id = "known"\n}\n',
    "",
]


@pytest.fixture
def managed(psql: Any) -> Callable[[str], int]:
    """How many managed resources a state has."""

    def count(state: str) -> int:
        [(number,)] = psql("select managed_count from states where name = %s", state)
        return int(number)

    return count


def projected(work: Any, file: str = "plan.tfplan") -> int:
    """What kl quota check makes of a plan of this directory's state."""
    report = json.loads(work.kl("quota", "check", "--tf-plan", file, "--format", "json"))
    added: int = report["added"] - report["removed"]
    used = next((x["used"] for x in report["limits"] if x["scope"] == "state"), 0)
    return int(used) + added


def test_the_quota_aware_workflow(configure: Any, kld: Any, managed: Any) -> None:
    work = configure()
    work.example(kld.url)
    work.init()
    work.apply("-var=size=2")
    before = managed("big-state")
    work.kl(
        "quota", "set", "--resources-soft", str(before + 4), "--resources-hard", str(before + 8)
    )
    shown = work.kl("quota", "remaining").splitlines()
    assert shown[1].split()[:4] == ["state", "big-state", "resources", str(before)]
    assert shown[1].split()[6] == "8"
    assert any(line.startswith("environment  env_default") for line in shown)

    for size, status, word in ((4, 0, ""), (6, 0, "Warning: "), (7, 6, "Error: ")):
        work.run("plan", "-input=false", "-out=plan.tfplan", f"-var=size={size}")
        said = work.kl("quota", "check", "--tf-plan", "plan.tfplan", status=status)
        assert word in said
        assert ("Warning" in said, "Error" in said) == (word == "Warning: ", word == "Error: ")
    work.kl("plan", "-f", "slow_a.tf", "-o", "slow-a.plan.json", "--var=slow_a_version=v2")
    spec = json.loads((work.folder / "slow-a.plan.json").read_text())
    assert spec["quota"]["verdict"] == "ok"
    assert managed("big-state") == before

    work.write("other.txt", "not a plan")
    assert "cannot show other.txt" in work.kl("quota", "check", "--tf-plan", "other.txt", status=2)
    work.write("local.tfstate", work.run("state", "pull"))
    assert "a state" in work.kl("quota", "check", "--tf-plan", "local.tfstate", status=2)


def test_a_plan_foretells_what_its_apply_does(configure: Any, kld: Any, managed: Any) -> None:
    work = configure()
    work.backend(f"{kld.url}/v1/states/life")
    work.write("providers.tf", NULL)
    work.write("other.tfstate", document(1).decode())
    counts = []
    for text in STEPS:
        work.write("main.tf", text)
        work.init()
        work.run("plan", "-input=false", "-out=plan.tfplan")
        foretold = projected(work)
        work.run("apply", "-input=false", "plan.tfplan")
        assert managed("life") == foretold
        counts.append(foretold)
    assert counts == [3, 5, 5, 4, 2, 2, 0]


def test_what_is_gone_and_made_again_counts_once(configure: Any, kld: Any, managed: Any) -> None:
    work = configure()
    work.backend(f"{kld.url}/v1/states/life")
    work.write("main.tf", NULL + 'resource "null_resource" "a" { count = 3 }\n')
    work.init()
    work.apply()
    lost = work.pull()["resources"][0]["instances"][:2]
    work.env["STANDIN_GONE"] = ",".join(i["attributes"]["id"] for i in lost)
    work.kl("quota", "set", "--resources-hard", "3")
    work.run("plan", "-input=false", "-out=plan.tfplan")
    shown = json.loads(work.run("show", "-json", "plan.tfplan"))
    assert [x["change"]["actions"] for x in shown["resource_drift"]] == [["delete"]] * 2
    assert projected(work) == 3
    assert "Warning" not in work.kl("quota", "check", "--tf-plan", "plan.tfplan")
    work.run("plan", "-input=false", "-out=plan.tfplan", "-refresh-only")
    assert projected(work) == 1


def test_replacing_before_destroying_needs_no_room(configure: Any, kld: Any, managed: Any) -> None:
    work = configure()
    work.backend(f"{kld.url}/v1/states/full")
    work.write("main.tf", REPLACED)
    work.init()
    work.apply("-var=turn=1")
    work.kl("quota", "set", "--resources-hard", "3")
    assert "3 added, 0 changed, 3 destroyed" in work.apply("-var=turn=2")
    assert managed("full") == 3


def test_terraform_over_a_hard_limit_keeps_what_it_built(
    configure: Any, kld: Any, managed: Any, psql: Any
) -> None:
    work = configure()
    work.backend(f"{kld.url}/v1/states/app")
    work.write("main.tf", GROWING)
    work.init()
    work.apply("-var=size=3")
    work.kl("quota", "set", "--resources-hard", "4")

    assert "422" in work.apply("-var=size=6", status=1)
    assert managed("app") == 3
    assert psql("select count(*) from state_locks") == [(0,)]
    errored = Path(work.folder / "errored.tfstate")
    [block] = json.loads(errored.read_text())["resources"]
    assert len(block["instances"]) == 6

    assert "422" in work.run("state", "push", "errored.tfstate", status=1)
    work.kl("quota", "set", "--resources-hard", "6")
    work.run("state", "push", "errored.tfstate")
    assert managed("app") == 6
    work.run("plan", "-input=false", "-detailed-exitcode", "-var=size=6")

    # Above the limit there is a way down, but none up.
    work.kl("quota", "set", "--resources-hard", "2")
    work.apply("-var=size=5")
    work.apply("-var=size=7", status=1)
    work.run("destroy", "-auto-approve", "-var=size=5")
    assert managed("app") == 0
