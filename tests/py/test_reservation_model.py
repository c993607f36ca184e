"""Reservations, leases and locks against a model that compares every pair of addresses."""

from __future__ import annotations

import copy
import itertools
import json
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

# Modules, blocks and instances that cover each other, and names that only begin alike.
ADDRESSES = ["module.m", "module.m.t.a", "t", "t.a", "t.a[0]", "t.a[1]", "t.ab", "t.b"]
WRITTEN = ["module.m.t.a", "t.a", "t.a[0]", "t.a[1]", "t.ab", "t.b"]
RUNS = ["ann", "bob", "cid", "dan"]
LOCKS = ["L1", "L2"]

runs = st.sampled_from(RUNS)
locks = st.sampled_from(LOCKS)
addresses = st.sets(st.sampled_from(ADDRESSES), max_size=3)


def covers(upper: str, lower: str) -> bool:
    return lower == upper or lower.startswith((upper + ".", upper + "["))


def meet(one: str, other: str) -> bool:
    return covers(one, other) or covers(other, one)


class Refused(Exception):
    """The model refuses, with the error code it expects; nothing of the call stays."""


@dataclass
class Request:
    """A place in the queue, or what a run holds."""

    order: int
    writes: frozenset[str] = frozenset()
    reads: frozenset[str] = frozenset()
    granted: bool = False
    lapsed: bool = False
    attempts: int = 1

    def meets(self, other: Request) -> bool:
        return any(
            meet(mine, theirs)
            for mine in self.writes | self.reads
            for theirs in other.writes | other.reads
            if mine in self.writes or theirs in other.writes
        )


@dataclass
class Run:
    base: int
    status: str = "running"
    lapsed: bool = False
    fencing: int | None = None
    verified: bool = False
    commits: dict[int, tuple[str, int]] = field(default_factory=dict)


@dataclass
class Model:
    """What the database should hold, in the plainest form."""

    lock: str | None = None
    runs: dict[str, Run] = field(default_factory=dict)
    requests: dict[str, Request] = field(default_factory=dict)
    orders: int = 0
    grants: int = 0
    version: int = 0
    resources: dict[str, int] | None = None
    changes: list[tuple[int, str, str]] = field(default_factory=list)

    @property
    def head(self) -> int:
        return 0 if self.resources is None else self.version

    def end(self, name: str, status: str) -> None:
        self.runs[name].status = status
        self.requests.pop(name, None)

    def sweep(self, caller: str | None = None) -> None:
        for name, run in self.runs.items():
            request = self.requests.get(name)
            holds = request is not None and request.granted
            if run.status == "running" and run.lapsed and (name != caller or holds):
                self.end(name, "aborted")
        for name, request in list(self.requests.items()):
            if request.lapsed and not request.granted and name != caller:
                del self.requests[name]

    def find(self, name: str) -> Run:
        self.sweep(name)
        if name not in self.runs:
            raise Refused("KLN11")
        return self.runs[name]

    def running(self, name: str) -> Run:
        run = self.find(name)
        if run.status != "running":
            raise Refused("KLC11")
        run.lapsed = False
        return run

    def waiting(self) -> list[tuple[str, Request]]:
        found = [
            (n, r)
            for n, r in self.requests.items()
            if not r.granted and (n in RUNS or r.attempts > 1)
        ]
        return sorted(found, key=lambda item: item[1].order)

    def blocked(self, name: str, request: Request) -> bool:
        if self.lock is not None:
            return True
        for other, theirs in self.requests.items():
            if other == name or not (theirs.granted or theirs.order < request.order):
                continue
            if other in LOCKS and theirs.attempts > 1:
                return True
            if other in RUNS and request.meets(theirs):
                return True
        return False

    def acquire(
        self, name: str, writes: frozenset[str] | None, reads: frozenset[str]
    ) -> tuple[bool, bool]:
        """Whether it is granted, and whether the run holds something if not."""
        run = self.running(name)
        old = self.requests.get(name)
        if writes is None:
            if old is None:
                raise Refused("KLB06")
            writes, reads = old.writes, old.reads
        same = old is not None and (old.writes, old.reads) == (writes, reads)
        new = old if same and old is not None else Request(self.orders + 1, writes, reads)
        if old is not None and old.granted:
            if same:
                return True, True
            asked = Request(
                new.order,
                frozenset(w for w in writes if not any(covers(h, w) for h in old.writes)),
                frozenset(
                    r for r in reads if not any(covers(h, r) for h in old.writes | old.reads)
                ),
            )
            if (asked.writes or asked.reads) and self.blocked(name, asked):
                return False, True
        elif self.blocked(name, new):
            self.requests[name] = new
            self.orders = max(self.orders, new.order)
            new.lapsed = False
            return False, False
        new.granted, new.lapsed = True, False
        self.requests[name] = new
        self.orders = max(self.orders, new.order)
        self.grants += 1
        run.fencing = self.grants
        return True, True

    def changed(self, name: str, request: Request) -> set[str]:
        """What others changed since the base version, in reach of a request."""
        since = self.runs[name].base
        if since == self.head:
            return set()
        wanted = request.writes | request.reads
        return {
            address
            for version, address, writer in self.changes
            if version > since and writer != name and any(meet(address, w) for w in wanted)
        }

    def obstacle(self, lock_id: str | None = None, waiting: bool = False) -> str | None:
        held = [n for n, r in self.requests.items() if r.granted]
        if held:
            return min(held, key=lambda n: self.runs[n].fencing or 0)
        if not waiting:
            return None
        mine = self.requests.get(lock_id or "")
        before = [
            n for n, r in self.waiting() if n != lock_id and (not mine or r.order < mine.order)
        ]
        return before[0] if before else None

    def take_lock(self, lock_id: str) -> bool:
        if self.lock == lock_id:
            return True
        if self.lock is not None and not self.requests:
            raise Refused("KLL01")
        self.sweep()
        if self.lock is None and self.obstacle(lock_id, waiting=True) is None:
            self.lock = lock_id
            self.requests.pop(lock_id, None)
            return True
        if not self.requests:
            raise Refused("KLL01")
        if lock_id in self.requests:
            self.requests[lock_id].attempts += 1
            self.requests[lock_id].lapsed = False
        else:
            self.orders += 1
            self.requests[lock_id] = Request(self.orders)
        return False

    def check_lock(self, lock_id: str | None) -> None:
        if self.lock is None:
            if lock_id is not None:
                raise Refused("KLC01")
            if self.requests:
                self.sweep()
            if self.obstacle():
                raise Refused("KLL11")
        elif lock_id is None:
            raise Refused("KLL01")
        elif lock_id != self.lock:
            raise Refused("KLC01")

    def write(self, resources: dict[str, int] | None, writer: str = "") -> None:
        before, after = self.resources or {}, resources or {}
        version = self.version + 1
        for address in before | after:
            if before.get(address) != after.get(address):
                self.changes.append((version, address, writer))
        self.resources = resources
        if resources is not None:
            self.version = version


names = itertools.count(1)
values = itertools.count(1)


class Reservations(RuleBasedStateMachine):
    """The same calls to both; what the database answers must be what the model expects."""

    connection: psycopg.Connection[Any]

    def __init__(self) -> None:
        super().__init__()
        self.state = f"model-{next(names)}"
        self.model = Model()
        self.ids: dict[str, str] = {}
        self.fencing: dict[int, int] = {}
        self.post({})
        for name in RUNS:
            self.begin(name)

    def call(self, statement: str, *args: Any) -> tuple[str | None, Any]:
        """The error code, or None and the answer."""
        try:
            row = self.connection.execute(statement, args).fetchone()
        except psycopg.Error as ex:
            return ex.sqlstate, None
        return None, row[0] if row else None

    def act(self, function: str, **request: Any) -> tuple[str | None, Any]:
        if request.get("run") in RUNS:
            request["run"] = self.ids.get(request["run"], "run_none")
        return self.call(f"select kilolock.{function}(%s::jsonb, null)", json.dumps(request))

    def expect(self, step: Any) -> tuple[str | None, Any]:
        """What the model says to a step; a refused one leaves nothing behind."""
        before = copy.deepcopy(self.model)
        try:
            return None, step()
        except Refused as ex:
            self.model = before
            return str(ex), None

    def same(self, step: Any, outcome: tuple[str | None, Any]) -> tuple[bool, Any, Any]:
        code, expected = self.expect(step)
        assert outcome[0] == code, (outcome, code)
        return code is None, expected, outcome[1]

    # Runs

    def begin(self, name: str) -> None:
        """Begin a run for somebody who has none that is alive."""
        run = self.model.runs.get(name)
        if run is not None and run.status == "running":
            return
        base = self.model.head
        code, answer = self.act("begin_apply_run", state=self.state, base_version=base, who=name)
        assert code is None
        self.model.sweep()
        self.model.runs[name] = Run(base)
        self.ids[name] = answer["run"]

    @rule(name=runs, address=st.sampled_from(ADDRESSES), only_read=st.booleans())
    def acquire_one(self, name: str, address: str, only_read: bool) -> None:
        self.begin(name)
        self.acquire(name, set() if only_read else {address}, {address} if only_read else set())

    # Most of what can go wrong takes two that want the same: let that happen often.
    @rule(names=st.permutations(RUNS), one=st.sampled_from(ADDRESSES), reads=st.integers(0, 3))
    def acquire_two(self, names: list[str], one: str, reads: int) -> None:
        other = next(a for a in [*ADDRESSES[2 * reads :], *ADDRESSES] if a != one and meet(a, one))
        self.acquire_one(names[0], one, reads % 2 == 1)
        self.acquire_one(names[1], other, reads > 1)

    @rule(
        name=runs,
        address=st.sampled_from(WRITTEN),
        other=st.sampled_from(WRITTEN) | st.none(),
        number=st.integers(1, 4),
        stale=st.booleans() | st.just(False),
    )
    def apply_one(
        self, name: str, address: str, other: str | None, number: int, stale: bool
    ) -> None:
        self.acquire_one(name, address, False)
        self.commit(name, other or address, number, stale)

    @rule(name=runs, writes=addresses, reads=addresses)
    def acquire(self, name: str, writes: set[str], reads: set[str]) -> None:
        """Over runs too: who is over must not acquire."""
        outcome = self.act("acquire_reservations", run=name, write=[*writes], read=[*reads])
        self.acquired(name, frozenset(writes), frozenset(reads), outcome)

    @rule(name=runs)
    def ask_again(self, name: str) -> None:
        outcome = self.act("acquire_reservations", run=name)
        self.acquired(name, None, frozenset(), outcome)

    def acquired(
        self, name: str, writes: frozenset[str] | None, reads: frozenset[str], outcome: Any
    ) -> None:
        before = copy.deepcopy(self.model)
        done, expected, answer = self.same(lambda: self.model.acquire(name, writes, reads), outcome)
        if not done:
            return
        granted, holding = expected
        assert answer["granted"] == granted
        request, run = self.model.requests[name], self.model.runs[name]
        if not granted:
            assert answer["holding"] == holding
            assert answer["blockers_count"] >= len(answer["blockers"]) > 0
            if not holding:
                ahead = [
                    n
                    for n, r in self.model.waiting()
                    if r.order < request.order and (n in LOCKS or request.meets(r))
                ]
                assert answer["place"] == len(ahead) + 1
            return
        old = before.requests.get(name)
        if old is None or not old.granted:
            # Fairness in its own words: nobody who came first and meets it still waits.
            assert not any(
                r.order < request.order and (n in LOCKS or request.meets(r))
                for n, r in self.model.waiting()
            )
        self.fencing[run.fencing or 0] = answer["fencing"]
        assert answer["fencing"] == max(self.fencing.values()) or run.fencing != self.model.grants
        changed = self.model.changed(name, request)
        assert set(answer["changed"]) == changed
        assert answer["changed_count"] == len(changed)
        run.verified = not changed

    @rule(name=runs)
    def renew(self, name: str) -> None:
        outcome = self.act("renew_reservations", run=name)
        self.same(lambda: self.model.running(name), outcome)

    @rule(name=runs)
    def release(self, name: str) -> None:
        def step() -> int:
            self.model.running(name)
            request = self.model.requests.pop(name, None)
            return len(request.writes) + len(request.reads) if request and request.granted else 0

        done, expected, answer = self.same(step, self.act("release_reservations", run=name))
        assert not done or answer["released"] == expected

    @rule(name=runs, status=st.sampled_from(["committed", "failed"]))
    def finish(self, name: str, status: str) -> None:
        def step() -> None:
            if self.model.find(name).status != status:
                self.model.running(name)
                self.model.end(name, status)

        self.same(step, self.act("finish_apply_run", run=name, status=status))

    @rule(name=runs)
    def abort(self, name: str) -> None:
        def step() -> None:
            if self.model.find(name).status == "running":
                self.model.end(name, "aborted")

        self.same(step, self.act("abort_apply_run", run=name))

    @rule(name=runs)
    def read_status(self, name: str) -> None:
        done, status, answer = self.same(
            lambda: self.model.find(name).status, self.act("read_apply_run", run=name)
        )
        assert not done or answer["status"] == status

    @rule(
        name=runs,
        address=st.sampled_from(WRITTEN),
        number=st.integers(1, 4),
        stale=st.booleans() | st.just(False),
    )
    def commit(self, name: str, address: str, number: int, stale: bool) -> None:
        run = self.model.runs.get(name)
        fencing = self.fencing.get((run.fencing if run else None) or 0, 0)
        if stale:
            fencing = max(fencing - 1, 0)
        value = next(values)
        delta = {"put": [put(address, value)]}
        request = {"run": name, "commit": number, "fencing": fencing, "delta": delta}
        outcome = self.act("commit_delta", terraform_version="1.11.4", lineage="l", **request)

        def step() -> int:
            run = self.model.find(name)
            if number in run.commits:
                raise Refused("KLC15")
            self.model.running(name)
            held = self.model.requests.get(name)
            if (
                held is None
                or not held.granted
                or stale
                and fencing != self.fencing[run.fencing or 0]
            ):
                raise Refused("KLC12")
            if not any(covers(w, address) for w in held.writes):
                raise Refused("KLC13")
            if not run.verified and self.model.changed(name, held):
                raise Refused("KLC14")
            run.verified = True
            self.model.write((self.model.resources or {}) | {address: value}, name)
            run.commits[number] = (json.dumps(delta), self.model.version)
            return self.model.version

        done, version, answer = self.same(step, outcome)
        assert not done or answer["version"] == version

    @rule(name=runs, number=st.integers(1, 4))
    def commit_again(self, name: str, number: int) -> None:
        run = self.model.runs.get(name)
        if run is None or number not in run.commits:
            return
        delta, version = run.commits[number]
        request = {"run": name, "commit": number, "fencing": 0, "delta": json.loads(delta)}
        self.model.sweep(name)
        code, answer = self.act("commit_delta", **request)
        assert (code, answer and answer["version"]) == (None, version)

    # Time

    @rule(name=runs)
    def lease_ends(self, name: str) -> None:
        if name in self.model.runs:
            self.model.runs[name].lapsed = True
            self.connection.execute(
                "update kilolock.apply_runs set expires_at = clock_timestamp() where id = %s",
                [self.ids[name]],
            )

    @rule(name=runs | locks)
    def place_lapses(self, name: str) -> None:
        if name in self.model.requests:
            self.model.requests[name].lapsed = True
            self.connection.execute(
                "update kilolock.reservation_requests set expires_at = clock_timestamp()"
                " where state_id = (select id from kilolock.states where name = %s)"
                " and (apply_run_id = %s or lock_id = %s)",
                [self.state, self.ids.get(name), name],
            )

    # Terraform

    @rule(lock_id=locks)
    def lock(self, lock_id: str) -> None:
        info = json.dumps({"ID": lock_id, "Who": lock_id}).encode()
        outcome = self.call(
            "select kilolock.request_lock(null, null, %s, %s, null)", self.state, info
        )
        done, taken, answer = self.same(lambda: self.model.take_lock(lock_id), outcome)
        if done:
            assert (answer is None) == taken
            if answer is not None:
                who = self.model.lock or self.model.obstacle(lock_id, waiting=True)
                assert json.loads(answer)["Who"] == who

    @rule(lock_id=locks | st.none())
    def unlock(self, lock_id: str | None) -> None:
        def step() -> None:
            if self.model.lock is not None:
                if lock_id not in (None, self.model.lock):
                    raise Refused("KLC02")
                self.model.lock = None
                return
            self.model.sweep()
            if lock_id is None:
                held = [n for n, r in self.model.requests.items() if r.granted]
                if len(held) > 1:
                    raise Refused("KLC16")
                for name in held:
                    self.model.end(name, "aborted")

        self.same(
            step,
            self.call(
                "select kilolock.release_lock(null, null, %s, %s, null, null)", self.state, lock_id
            ),
        )

    @rule(name=runs)
    def unlock_run(self, name: str) -> None:
        if name not in self.ids:
            return

        def step() -> None:
            if self.model.lock is not None:
                raise Refused("KLC02")
            self.model.sweep()
            if self.model.runs[name].status == "running":
                self.model.end(name, "aborted")

        self.same(
            step,
            self.call(
                "select kilolock.release_lock(null, null, %s, %s, null, null)",
                self.state,
                self.ids[name],
            ),
        )

    @rule(
        address=st.sampled_from(WRITTEN),
        remove=st.booleans(),
        lock_id=locks | st.none() | st.just("held"),
    )
    def write(self, address: str, remove: bool, lock_id: str | None) -> None:
        resources = dict(self.model.resources or {})
        if remove:
            resources.pop(address, None)
        else:
            resources[address] = next(values)
        self.post(resources, self.model.lock if lock_id == "held" else lock_id)

    def post(self, resources: dict[str, int], lock_id: str | None = None) -> None:
        def step() -> None:
            self.model.check_lock(lock_id)
            self.model.write(resources)

        body = document(self.model.version + 1, resources)
        self.same(
            step,
            self.call(
                "select kilolock.write_state(null, null, %s, %s, %s, null, null)",
                self.state,
                lock_id,
                body,
            ),
        )

    @rule(lock_id=locks | st.none())
    def delete(self, lock_id: str | None) -> None:
        def step() -> None:
            self.model.check_lock(lock_id)
            if self.model.resources is None:
                raise Refused("KLN01")
            self.model.write(None)

        self.same(
            step,
            self.call(
                "select kilolock.delete_state(null, null, %s, %s, null)", self.state, lock_id
            ),
        )

    # What always holds

    @invariant()
    def the_rows_are_the_model_s(self) -> None:
        held = self.connection.execute(
            "select address, mode, holder from kilolock.current_reservations where state_name = %s",
            [self.state],
        ).fetchall()
        assert sorted(held) == sorted(
            (address, mode, name)
            for name, r in self.model.requests.items()
            if r.granted and not self.model.runs[name].lapsed
            for mode, listed in (("write", r.writes), ("read", r.reads))
            for address in listed
        )
        queue = self.connection.execute(
            "select holder from kilolock.reservation_queue where state_name = %s order by place",
            [self.state],
        ).fetchall()
        assert [row[0] for row in queue] == [
            name
            for name, r in self.model.waiting()
            if not r.lapsed and (name in LOCKS or not self.model.runs[name].lapsed)
        ]

    @invariant()
    def nobody_holds_what_another_holds(self) -> None:
        held = self.connection.execute(
            "select address, mode, holder from kilolock.current_reservations where state_name = %s",
            [self.state],
        ).fetchall()
        for (a, a_mode, one), (b, b_mode, other) in itertools.combinations(held, 2):
            assert one == other or not meet(a, b) or (a_mode, b_mode) == ("read", "read")
        locked = self.connection.execute(
            "select count(*) from kilolock.state_locks l"
            " join kilolock.states s on s.id = l.state_id where s.name = %s",
            [self.state],
        ).fetchone()
        assert not (held and locked and locked[0])


def put(address: str, value: int) -> dict[str, str]:
    module, block, key = split(address)
    instance = {} if key is None else {"index_key": key}
    instance |= {"schema_version": 0, "attributes": {"id": address, "n": value}}
    return {
        "module": module,
        "mode": "managed",
        "type": "t",
        "name": block,
        "provider": 'provider["p"]',
        "instance": json.dumps(instance),
    }


def split(address: str) -> tuple[str, str, int | None]:
    module, _, rest = address.rpartition("t.")
    name, _, key = rest.partition("[")
    return module.rstrip("."), name, int(key[:-1]) if key else None


def document(serial: int, resources: dict[str, int]) -> bytes:
    blocks: dict[tuple[str, str], dict[str, Any]] = {}
    for address, value in sorted(resources.items()):
        module, name, _ = split(address)
        entry = put(address, value)
        instance = json.loads(entry.pop("instance"))
        block = blocks.setdefault((module, name), entry | {"instances": []})
        block["instances"].append(instance)
    return json.dumps(
        {
            "version": 4,
            "terraform_version": "1.11.4",
            "serial": serial,
            "lineage": "l",
            "outputs": {},
            "resources": [
                {k: v for k, v in block.items() if k != "module" or v} for block in blocks.values()
            ],
            "check_results": None,
        },
        indent=2,
    ).encode()


@pytest.fixture(scope="module")
def connection(make_database: Any) -> Any:
    with psycopg.connect(make_database(), autocommit=True) as conn:
        yield conn


def test_reservations_behave_like_their_model(connection: Any) -> None:
    Reservations.connection = connection
    run_state_machine_as_test(
        Reservations,
        settings=settings(
            max_examples=60,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
