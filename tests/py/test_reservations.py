"""Reservations and apply runs over HTTP, beside Terraform's lock, and with many clients at once."""

from __future__ import annotations

import json
import random
import signal
import threading
import time
from collections import Counter
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from terraform_runs import BINARIES, Command, until
from test_cli import Kl, ask, kl  # noqa: F401
from test_http import STATES, document, error_of, lock_info
from test_races import at_once, wait_until_blocked

from kilolock.actions import ACTIONS
from kilolock.errors import refusal

ENGINE = "/v1/state-engine"


def post(kld: Any, action: str, **request: Any) -> tuple[int, Any]:
    status, _, body = kld.request("POST", f"{ENGINE}/{action}", json.dumps(request))
    return status, json.loads(body)


def act(kld: Any, action: str, **request: Any) -> Any:
    """The answer of an action that must succeed."""
    status, answer = post(kld, action, **request)
    assert status == 200, answer
    return answer


def begin(kld: Any, state: str, who: str = "ann", base_version: int = 0) -> str:
    run = act(kld, "apply-runs/begin", state=state, who=who, base_version=base_version)
    return str(run["run"])


def acquire(kld: Any, run: str, *write: str, read: tuple[str, ...] = ()) -> Any:
    return act(kld, "reservations/acquire", run=run, write=list(write), read=list(read))


def put(name: str, value: str = "x") -> dict[str, Any]:
    """A delta that puts one null_resource."""
    instance = {"schema_version": 0, "attributes": {"id": f"id-{name}", "v": value}}
    return {
        "put": [
            {
                "module": "",
                "mode": "managed",
                "type": "null_resource",
                "name": name,
                "provider": 'provider["registry.terraform.io/hashicorp/null"]',
                "instance": json.dumps(instance),
            }
        ]
    }


def commit(kld: Any, run: str, fencing: int, number: int, delta: Any) -> Any:
    request = {"run": run, "fencing": fencing, "commit": number, "delta": delta}
    return act(kld, "state/commit", state="s", **request)


def test_a_run_from_begin_to_finish(kld: Any) -> None:
    first = document(1, "a", "b")
    assert kld.request("POST", f"{STATES}/s", first)[0] == 200
    limits = json.loads(kld.request("GET", f"{ENGINE}/capabilities")[2])["limits"]
    assert act(kld, "capabilities")["limits"] == limits
    run = act(
        kld,
        "apply-runs/begin",
        state="s",
        base_version=1,
        who="ann@laptop",
        host="laptop",
        path="/tmp/x",
        summary={"add": 1},
        lease_seconds=60,
    )
    assert run["lease_seconds"] == 60
    granted = acquire(kld, run["run"], "null_resource.c", read=("null_resource.a",))
    assert (granted["granted"], granted["changed"], granted["outputs_changed"]) == (True, [], False)
    assert act(kld, "reservations/renew", run=run["run"])["fencing"] == granted["fencing"]
    request = {"run": run["run"], "fencing": granted["fencing"], "delta": put("c")}
    done = act(kld, "state/commit", state="s", commit=1, **request)
    assert (done["version"], done["serial"], done["created"]) == (2, 2, 1)
    after = kld.request("GET", f"{STATES}/s")[2]
    assert json.loads(after)["serial"] == 2
    assert [r["name"] for r in json.loads(after)["resources"]] == ["a", "b", "c"]
    assert act(kld, "state/commit", state="s", commit=1, **request) == done
    assert kld.request("GET", f"{STATES}/s")[2] == after
    shown = json.loads(kld.request("GET", f"{ENGINE}/apply-runs/{run['run']}/status")[2])
    assert (shown["status"], shown["holder"], shown["host"]) == ("running", "ann@laptop", "laptop")
    assert [c["version"] for c in shown["commits"]] == [2]
    assert act(kld, "apply-runs/status", run=run["run"]) == shown
    ended = act(kld, "apply-runs/finish", run=run["run"], status="committed")
    assert ended["committed_version"] == 2
    assert post(kld, "state/commit", state="s", commit=2, **request)[0] == 409
    assert kld.request("POST", f"{STATES}/s", document(3, "a"))[0] == 200


def test_refusals_have_the_status_of_their_kind(kld: Any) -> None:
    run = begin(kld, "s")
    assert kld.request("GET", f"{ENGINE}/apply-runs/run_none/status")[0] == 404
    assert kld.request("GET", f"{ENGINE}/apply-runs/%ff/status")[0] == 400
    assert kld.request("GET", f"{ENGINE}/reservations/acquire")[0] == 405
    assert post(kld, "reservations/acquire", run=run, write="a")[0] == 400
    assert post(kld, "reservations/acquire", run=run, write=["a\0b"])[0] == 400
    assert post(kld, "reservations/acquire", run=run, write=["\ud800"])[0] == 400
    assert post(kld, "reservations/renew", run="run_none")[0] == 404
    for body in (b"", b"[]", b"{", b"\xff\xfe{\x00}\x00", b'{"run":NaN}', b"[" * 100_000):
        for path in ("apply-runs/begin", "reservations/acquire", "state/commit"):
            assert kld.request("POST", f"{ENGINE}/{path}", body)[0] == 400
    assert act(kld, "apply-runs/abort", run=run)["aborted"] is True
    status, answer = post(kld, "reservations/renew", run=run)
    assert (status, answer["error"]["code"]) == (409, "KLC11")


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.sampled_from(["s", "RUN", "a", "committed", "1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["put", "remove", "address", "instance", "type", "x"]), inner
        )
    ),
    max_leaves=6,
)
FIELDS = [
    *("state", "run", "base_version", "lease_seconds", "summary", "host", "path", "who", "write"),
    *("read", "status", "message", "fencing", "commit", "delta", "workspace", "environment"),
    *("terraform_version", "lineage"),
]
requests = st.tuples(
    st.sampled_from(sorted(v for k, v in ACTIONS.items() if k.startswith("state-engine"))),
    st.dictionaries(st.sampled_from(FIELDS), anything, max_size=8),
)


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(requests)
def test_any_request_is_done_or_refused(
    connection: Any, request: tuple[str, dict[str, Any]]
) -> None:
    function, fields = request
    [run] = connection.execute(
        'select kilolock.begin_apply_run(\'{"state": "s", "base_version": 0}\', null) ->> \'run\''
    ).fetchone()
    body = json.dumps({"state": "s", "run": run, "commit": 1, "fencing": 0} | fields)
    body = body.replace('"RUN"', json.dumps(run))
    try:
        connection.execute(f"select kilolock.{function}(%s, null)", [body])
    except psycopg.Error as ex:
        assert refusal(ex).status < 500, ex
        assert ex.sqlstate.startswith("KL") or ex.sqlstate in ("22P02", "22P05"), ex


@pytest.fixture(scope="module")
def connection(make_database: Any) -> Any:
    with psycopg.connect(make_database(), autocommit=True) as conn:
        yield conn


# Terraform's lock


def test_a_lock_beside_reservations_is_423_with_the_run(kld: Any) -> None:
    run = begin(kld, "s", "ann@laptop")
    acquire(kld, run, "null_resource.a")
    status, _, body = kld.request("LOCK", f"{STATES}/s", lock_info("L"))
    told = json.loads(body)
    assert (status, told["ID"], told["Who"]) == (423, run, "ann@laptop")
    assert "null_resource.a" in told["Info"] and f"kl apply abort {run}" in told["Info"]
    assert kld.request("POST", f"{STATES}/s", document(1, "b"))[0] == 423
    assert kld.request("DELETE", f"{STATES}/s")[0] == 423
    assert kld.request("POST", f"{STATES}/s?ID={run}", document(1, "b"))[0] == 409
    assert kld.request("POST", f"{STATES}/s?ID=L", document(1, "b"))[0] == 409
    assert kld.request("GET", f"{STATES}/s")[0] == 404
    assert kld.request("UNLOCK", f"{STATES}/s", lock_info("L"))[0] == 200
    assert kld.request("UNLOCK", f"{STATES}/s", run)[0] == 200
    assert kld.request("LOCK", f"{STATES}/s", lock_info("L"))[0] == 200
    waits = acquire(kld, begin(kld, "s"), "null_resource.a")
    assert waits["granted"] is False
    assert [(b["kind"], b["holder"]) for b in waits["blockers"]] == [("lock", "ann@host-a")]


def test_force_unlock_is_refused_while_several_runs_reserve(kld: Any) -> None:
    for name in ("a", "b"):
        acquire(kld, begin(kld, "s"), name)
    status, _, body = kld.request("UNLOCK", f"{STATES}/s", "")
    assert status == 409
    assert "kl apply abort" in error_of(body)["hint"]


def test_a_lock_and_an_acquire_at_once_have_one_winner(kld: Any) -> None:
    for turn in range(40):
        state = f"race-{turn}"
        run = begin(kld, state)

        def go(n: int, state: str = state, run: str = run) -> bool:
            if n:
                return bool(acquire(kld, run, "a")["granted"])
            return bool(kld.request("LOCK", f"{STATES}/{state}", lock_info("L"))[0] == 200)

        assert Counter(at_once(2, go)) == {True: 1, False: 1}


def test_a_lock_waits_for_an_acquire_that_is_not_over(kld: Any, database_url: str) -> None:
    run = begin(kld, "s")
    with psycopg.connect(database_url) as conn:
        request = json.dumps({"run": run, "write": ["a"]})
        conn.execute("select kilolock.acquire_reservations(%s, null)", [request])
        status, _, body = kld.request("LOCK", f"{STATES}/s", lock_info("L"))
        assert (status, json.loads(body)["ID"]) == (423, "write-in-progress")
        conn.commit()
    assert json.loads(kld.request("LOCK", f"{STATES}/s", lock_info("L"))[2])["ID"] == run


def test_an_acquire_that_waited_for_a_lock_does_not_pass_it(
    kld: Any, database_url: str, psql: Any
) -> None:
    run = begin(kld, "s")
    answers: list[Any] = []
    with psycopg.connect(database_url) as conn:
        conn.execute("select kilolock.request_lock(null, null, 's', %s, null)", [lock_info("L")])
        late = threading.Thread(target=lambda: answers.append(acquire(kld, run, "a")))
        late.start()
        wait_until_blocked(psql)
        conn.commit()
    late.join(30)
    assert [a["granted"] for a in answers] == [False]


def test_a_held_lock_is_seen_beside_a_long_write_and_a_waiting_run(
    kld: Any, database_url: str
) -> None:
    assert kld.request("LOCK", f"{STATES}/s", lock_info("holder"))[0] == 200
    assert acquire(kld, begin(kld, "s"), "a")["granted"] is False
    with psycopg.connect(database_url) as writer:
        writer.execute(
            "select kilolock.write_state(null, null, 's', 'holder', %s, null, null)", [document(1)]
        )
        status, _, body = kld.request("LOCK", f"{STATES}/s", lock_info("late"), timeout_s=30)
        assert (status, json.loads(body)["ID"]) == (423, "holder")
        writer.rollback()


needs_terraform = pytest.mark.skipif(not BINARIES, reason="neither terraform nor tofu is on PATH")


@needs_terraform
def test_terraform_waits_for_a_run_and_later_runs_for_terraform(
    configure: Any, kld: Any, psql: Any, spawned: list[Command]
) -> None:
    work = configure()
    work.write("main.tf", 'resource "terraform_data" "x" {\n  input = 1\n}\n')
    work.backend(f"{kld.url}/v1/states/s")
    work.init()
    run = begin(kld, "s", "bob@ci")
    acquire(kld, run, "terraform_data.y")
    # Terraform shows the ID of whoever is in the way, and nothing else of the LockInfo.
    assert f"ID={run}" in work.apply(status=1)

    spawned.append(work.start("apply", "-auto-approve", "-input=false", "-lock-timeout=90s"))
    until(
        lambda: psql("select 1 from reservation_queue where kind = 'lock'"),
        "terraform to have tried again",
    )
    later = begin(kld, "s", "cid")
    waits = acquire(kld, later, "terraform_data.z")
    assert [(b["kind"], b["run"]) for b in waits["blockers"]] == [("queue", None)]
    act(kld, "apply-runs/finish", run=run, status="committed")
    until(lambda: acquire(kld, later, "terraform_data.z")["granted"], "terraform to be done", 60)
    status, output = spawned[0].finish()
    assert status == 0, output
    assert psql("select address from current_resources") == [("terraform_data.x",)]


@needs_terraform
def test_terraform_force_unlock_ends_the_run_that_it_was_told(configure: Any, kld: Any) -> None:
    work = configure()
    work.write("main.tf", 'resource "terraform_data" "x" {\n  input = 1\n}\n')
    work.backend(f"{kld.url}/v1/states/s")
    work.init()
    run = begin(kld, "s")
    acquire(kld, run, "terraform_data.y")
    assert run in work.run("plan", "-input=false", status=1)
    work.run("force-unlock", "-force", run)
    assert act(kld, "apply-runs/status", run=run)["status"] == "aborted"
    work.apply()


# Many at once


def test_sixteen_on_one_address_are_served_in_order_of_arrival(kld: Any, psql: Any) -> None:
    assert kld.request("POST", f"{STATES}/s", document(1, "a"))[0] == 200
    runs = [begin(kld, "s", f"n{n}", 1) for n in range(16)]
    address = "null_resource.a"
    asked = [acquire(kld, run, address, read=(f"own.x{n}",)) for n, run in enumerate(runs)]
    assert [a["granted"] for a in asked] == [True] + [False] * 15
    assert [a["place"] for a in asked[1:]] == list(range(1, 16))

    def serve(n: int) -> int:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            answer = act(kld, "reservations/acquire", run=runs[n])
            if answer["granted"]:
                break
            time.sleep(random.uniform(0, 0.05))
        # What the one before wrote was not there when this one was planned.
        assert answer["changed"] == ([address] if n else [])
        request = {"run": runs[n], "fencing": answer["fencing"], "base_version": n + 1}
        act(kld, "state/commit", state="s", commit=1, delta=put("a", f"n{n}"), **request)
        act(kld, "apply-runs/finish", run=runs[n], status="committed")
        return int(answer["fencing"])

    fencings = at_once(16, serve)
    assert fencings == sorted(fencings)
    assert psql("select actor from kilolock.state_versions where version > 1 order by version") == [
        (f"n{n}",) for n in range(16)
    ]
    assert psql("select count(*) from kilolock.reservation_requests") == [(0,)]


def test_sixteen_on_disjoint_addresses_do_not_wait_and_lose_nothing(kld: Any, psql: Any) -> None:
    assert kld.request("POST", f"{STATES}/s", document(1, "common"))[0] == 200
    gate = threading.Barrier(16)

    def apply(n: int) -> int:
        run = begin(kld, "s", f"n{n}", 1)
        answer = acquire(kld, run, f"null_resource.r{n}", read=("null_resource.common",))
        assert answer["granted"]
        gate.wait(60)
        for number in (1, 2):
            commit(kld, run, answer["fencing"], number, put(f"r{n}", str(number)))
        act(kld, "apply-runs/finish", run=run, status="committed")
        return int(answer["fencing"])

    assert len(set(at_once(16, apply))) == 16
    assert psql("select max(version), count(*) from kilolock.state_versions") == [(33, 33)]
    found = psql("select name, attributes ->> 'v' from kilolock.resources order by 1")
    assert found == sorted([("common", None), *((f"r{n}", "2") for n in range(16))])
    body = json.loads(kld.request("GET", f"{STATES}/s")[2])
    assert body["serial"] == 33


def test_commits_repeated_over_kills_of_kld_are_written_once(kld: Any, psql: Any) -> None:
    assert kld.request("POST", f"{STATES}/s", document(1))[0] == 200
    run = begin(kld, "s", "ann", 1)
    fencing = acquire(kld, run, "null_resource")["fencing"]
    lost = 0
    for number in range(1, 7):
        killer = threading.Timer(random.uniform(0, 0.05), kld.stop, [signal.SIGKILL])
        killer.start()
        try:
            commit(kld, run, fencing, number, put(f"r{number}"))
        except (OSError, AssertionError):
            lost += 1
        except Exception as ex:
            assert "RemoteDisconnected" in type(ex).__name__ or "Incomplete" in type(ex).__name__
            lost += 1
        killer.join()
        kld.restart()
        assert commit(kld, run, fencing, number, put(f"r{number}"))["version"] == number + 1
    assert psql("select count(*) from kilolock.state_versions") == [(7,)]
    assert psql("select count(*) from kilolock.resources") == [(6,)]


def test_what_a_dead_client_held_is_free_when_its_lease_ends(kld: Any, psql: Any) -> None:
    dead, dead_waiter, alive = (begin(kld, "s", who) for who in ("dead", "waiter", "alive"))
    acquire(kld, dead, "a")
    assert acquire(kld, dead_waiter, "a.b")["place"] == 1
    assert acquire(kld, alive, "a")["place"] == 2
    psql("update kilolock.apply_runs set expires_at = clock_timestamp() where holder = 'dead'")
    assert acquire(kld, alive, "a")["granted"] is False
    psql(
        "update kilolock.reservation_requests set expires_at = clock_timestamp()"
        " where holder = 'waiter'"
    )
    assert acquire(kld, alive, "a")["granted"] is True
    assert psql(
        "select holder, status, message like 'its lease ended%' from run_overview"
        " order by started_at"
    ) == [
        ("dead", "aborted", True),
        ("waiter", "running", None),
        ("alive", "running", None),
    ]


def test_sets_of_thousands_meet_at_every_address(kld: Any) -> None:
    many = [f'module.herd["eu.{n % 7}"].random_id.tag[{n}]' for n in range(5000)]
    one, two = begin(kld, "s"), begin(kld, "s", "bob")
    assert acquire(kld, one, *many[:-1])["granted"]
    answer = acquire(kld, two, *many)
    assert (answer["blockers_count"], len(answer["blockers"])) == (4999, 20)
    assert all(b["address"] == b["wanted"] for b in answer["blockers"])
    assert acquire(kld, two, many[-1], "module.herd2")["granted"]


# kl status


def test_status_shows_runs_reservations_and_queue(ask: Kl, kld: Any) -> None:  # noqa: F811
    kld.request("LOCK", f"{STATES}/empty", lock_info("L"))
    listed = json.loads(ask("list", "--format", "json").stdout)
    assert [(s["name"], s["version"]) for s in listed] == [("empty", None)]
    assert "Version:     none yet" in ask("status", "empty").stdout
    assert kld.request("POST", f"{STATES}/empty?ID=L", document(1, "a"))[0] == 200
    assert kld.request("DELETE", f"{STATES}/empty?ID=L")[0] == 200
    assert "Version:     deleted" in ask("status", "empty").stdout

    one, two = begin(kld, "s", "ann@laptop"), begin(kld, "s", "bob\x1b[31m")
    acquire(kld, one, "module.a", "b", read=("c",))
    acquire(kld, two, *(f"module.a.x{n}" for n in range(9)))
    for _ in range(2):
        kld.request("LOCK", f"{STATES}/s", lock_info("M"))
    shown = ask("status", "s").stdout
    assert "\x1b" not in shown
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert any(x.startswith(f"{one} ann@laptop") and "2 to write, 1 to read" in x for x in lines)
    assert any(x.startswith(two) and "nothing, it waits" in x for x in lines)
    assert any(x.startswith("module.a write ann@laptop") for x in lines)
    assert any(x.startswith("c read ann@laptop") for x in lines)
    assert any(x.startswith("1 bob") and x.endswith("module.a.x4 and 4 more") for x in lines)
    assert any(x.startswith("2 ann@host-a") and x.endswith("the lock") for x in lines)
    [row] = json.loads(ask("status", "s", "--format", "json").stdout)
    assert [r["apply_run_id"] for r in row["runs"]] == [one, two]
    assert [v["address"] for v in row["reservations"]] == ["b", "module.a", "c"]
    assert [q["place"] for q in row["queue"]] == [1, 2]
