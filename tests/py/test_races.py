"""Two clients at once: one wins, the other learns who, and nobody waits longer than need be."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from test_http import STATES, document, lock_info


def at_once(count: int, act: Callable[[int], Any]) -> list[Any]:
    """Run act(0) … act(count - 1) in threads that start together."""
    gate = threading.Barrier(count)

    def go(number: int) -> Any:
        gate.wait()
        return act(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(go, range(count)))


def wait_until_blocked(psql: Any, count: int = 1) -> None:
    """Return when that many sessions of this database wait for a lock."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        [(waiting,)] = psql(
            "select count(*) from pg_stat_activity"
            " where datname = current_database() and wait_event_type = 'Lock'"
        )
        if waiting >= count:
            return
    raise AssertionError("nobody waits")


def write(connection: psycopg.Connection[Any], body: bytes, lock_id: str | None = None) -> None:
    """What a POST does, in the connection's open transaction."""
    connection.execute(
        "select kilolock.write_state(null, null, 's', %s, %s, null, null, 'apply')", [lock_id, body]
    )


def test_twenty_first_locks_of_a_new_name_have_one_winner(kld: Any) -> None:
    for turn in range(3):
        path = f"{STATES}/new-{turn}"
        answers = at_once(
            20,
            lambda n, path=path: kld.request("LOCK", path, lock_info(f"id-{n}")),  # type: ignore[misc]
        )
        assert Counter(status for status, _, _ in answers) == {200: 1, 423: 19}
        winner = next(n for n, (status, _, _) in enumerate(answers) if status == 200)
        told = {json.loads(body)["ID"] for status, _, body in answers if status == 423}
        assert told == {f"id-{winner}"}


def test_thirty_two_clients_on_thirty_two_states_do_not_meet(kld: Any) -> None:
    def cycle(n: int) -> list[int]:
        path = f"{STATES}/apart-{n}"
        seen = [kld.request("LOCK", path, lock_info(f"id-{n}"))[0]]
        for serial in range(1, 4):
            body = document(serial, *(f"r{k}" for k in range(serial)))
            seen.append(kld.request("POST", f"{path}?ID=id-{n}", body)[0])
            seen.append(200 if kld.request("GET", path)[2] == body else 0)
        seen.append(kld.request("UNLOCK", path, lock_info(f"id-{n}"))[0])
        return seen

    assert {status for seen in at_once(32, cycle) for status in seen} == {200}


def test_thirty_two_clients_on_one_state_lose_no_acknowledged_write(kld: Any, psql: Any) -> None:
    def client(n: int) -> int:
        info, done = lock_info(f"id-{n}"), 0
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            status = kld.request("LOCK", f"{STATES}/s", info)[0]
            if status == 423:
                time.sleep(0.01)
                continue
            assert status == 200
            body = document(n + 1, f"r{n}")
            assert kld.request("POST", f"{STATES}/s?ID=id-{n}", body)[0] == 200
            assert kld.request("GET", f"{STATES}/s")[2] == body
            assert kld.request("UNLOCK", f"{STATES}/s", info)[0] == 200
            done += 1
            break
        return done

    assert at_once(32, client) == [1] * 32
    assert psql("select count(*), max(version) from kilolock.state_versions") == [(32, 32)]
    assert psql("select count(*) from kilolock.state_locks") == [(0,)]


def test_unlocked_posts_of_one_serial_have_one_winner(kld: Any) -> None:
    assert kld.request("POST", f"{STATES}/s", document(1, "a"))[0] == 200
    answers = at_once(8, lambda n: kld.request("POST", f"{STATES}/s", document(2, f"r{n}"))[0])
    assert Counter(answers) == {200: 1, 409: 7}


@pytest.mark.parametrize("exists", [True, False])
def test_a_lock_beside_a_long_unlocked_write_is_423_within_a_second(
    kld: Any, database_url: str, exists: bool
) -> None:
    if exists:
        assert kld.request("POST", f"{STATES}/s", document(1, "a"))[0] == 200
    with psycopg.connect(database_url) as writer:
        write(writer, document(2, "b"))
        started = time.monotonic()
        status, _, body = kld.request("LOCK", f"{STATES}/s", lock_info("late"))
        assert time.monotonic() - started < 1.0
        assert status == 423
        assert {"ID", "Operation", "Info", "Who", "Created"} <= set(json.loads(body))
        if exists:
            assert kld.request("GET", f"{STATES}/s")[2] == document(1, "a")
        writer.commit()
    assert kld.request("GET", f"{STATES}/s")[2] == document(2, "b")
    assert kld.request("LOCK", f"{STATES}/s", lock_info("late"))[0] == 200


def test_a_held_lock_is_seen_at_once_beside_its_holders_long_write(
    kld: Any, database_url: str
) -> None:
    assert kld.request("LOCK", f"{STATES}/s", lock_info("holder"))[0] == 200
    with psycopg.connect(database_url) as writer:
        write(writer, document(1, "a"), "holder")
        started = time.monotonic()
        status, _, body = kld.request("LOCK", f"{STATES}/s", lock_info("late"))
        assert time.monotonic() - started < 0.5
        assert (status, json.loads(body)["ID"]) == (423, "holder")
        writer.rollback()


def test_a_write_that_waited_does_not_land_behind_a_new_holder(
    kld: Any, database_url: str, psql: Any
) -> None:
    assert kld.request("POST", f"{STATES}/s", document(1, "a"))[0] == 200
    with ThreadPoolExecutor(1) as pool, psycopg.connect(database_url) as locker:
        locker.execute("select kilolock.acquire_lock(null, null, 's', %s, null)", [lock_info("me")])
        late = pool.submit(kld.request, "POST", f"{STATES}/s", document(2, "b"))
        wait_until_blocked(psql)
        locker.commit()
        status, _, body = late.result(30)
    assert (status, json.loads(body)["ID"]) == (423, "me")
    assert kld.request("GET", f"{STATES}/s")[2] == document(1, "a")


def test_a_write_whose_lock_was_forced_open_meanwhile_is_refused(
    kld: Any, database_url: str, psql: Any
) -> None:
    assert kld.request("LOCK", f"{STATES}/s", lock_info("old"))[0] == 200
    with ThreadPoolExecutor(1) as pool, psycopg.connect(database_url) as other:
        other.execute("select kilolock.release_lock(null, null, 's', null, '', null)")
        late = pool.submit(kld.request, "POST", f"{STATES}/s?ID=old", document(1, "a"))
        wait_until_blocked(psql)
        other.commit()
        status, _, _ = late.result(30)
    assert status == 409
    assert kld.request("GET", f"{STATES}/s")[0] == 404


def test_two_kld_on_one_database_are_one_backend(start_kld: Any) -> None:
    one, two = start_kld(), start_kld()
    assert one.request("LOCK", f"{STATES}/s", lock_info("a"))[0] == 200
    assert two.request("LOCK", f"{STATES}/s", lock_info("b"))[0] == 423
    assert two.request("POST", f"{STATES}/s?ID=a", document(1, "a"))[0] == 200
    assert one.request("GET", f"{STATES}/s")[2] == document(1, "a")
    assert two.request("UNLOCK", f"{STATES}/s", lock_info("a"))[0] == 200

    def lock(n: int) -> int:
        status: int = (one, two)[n % 2].request("LOCK", f"{STATES}/t", lock_info(f"id-{n}"))[0]
        return status

    assert Counter(at_once(20, lock)) == {200: 1, 423: 19}


def test_reads_go_on_while_every_other_client_writes(kld: Any) -> None:
    first = document(1, "a")
    assert kld.request("POST", f"{STATES}/s", first)[0] == 200

    def act(n: int) -> bool:
        if n % 2:
            status = kld.request("POST", f"{STATES}/s", document(n + 1, f"r{n}"))[0]
            return status in (200, 409)
        status, headers, body = kld.request("GET", f"{STATES}/s")
        return (
            status == 200 and headers["content-length"] == str(len(body)) and b'"version"' in body
        )

    assert all(at_once(16, act))
