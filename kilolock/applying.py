"""Applies a plan while others apply theirs: reserves, runs terraform, commits what changed.

What a run needs to be finished by somebody else stands in the folder of its scratch workspace
before terraform changes anything::

    run.json       the run, its state, what it writes
    base.tfstate   the state that was last committed, or that it began with

If kl is killed, the next kl apply finds them and commits what is only there.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from kilolock.console import act_within, confirm, tell
from kilolock.discovery import SourceError, recorded_target
from kilolock.errors import AWAY, BAD_INPUT, CONFLICT, DONE, FAULT
from kilolock.interrupts import Interrupts
from kilolock.keeper import terraform_running
from kilolock.output import printable, unread
from kilolock.planning import (
    Planned,
    Request,
    check_actions,
    check_files,
    listed,
    make_plan,
    read_head,
)
from kilolock.quotas import judge
from kilolock.scratch import KEEP, Scratch, abandoned
from kilolock.statefile import StateFile, delta, merge
from kilolock.waiting import Waiting, wait_for_lock

_ENGINE = "state-engine"
_INTERRUPTED = 130
_REPLANS = 3
_DONE = {
    "create": "created",
    "update": "updated",
    "replace": "replaced",
    "delete": "deleted",
    "import": "imported",
    "move": "moved",
    "forget": "forgotten",
    "read": "read",
}
# How long to wait for a kld that is away when all that is left is to commit.
_PATIENCE_S = 300
_ASK_S = 15
# Where there is no backend block, terraform saves after each resource; that need not be a version.
_INTERIM_S = 10


@dataclass(frozen=True)
class Options:
    """How to apply."""

    protocol: str = _ENGINE
    spec: dict[str, Any] | None = None
    wait_timeout: float | None = None
    dry_run: bool = False
    yes: bool = False
    confirm_destroy: bool = False
    lease_s: int = 30


class Run:
    """One apply run: its lease, what it holds, and what it has committed."""

    def __init__(self, request: Request, lease_s: int, interrupts: Interrupts) -> None:
        self._request = request
        self._lease_s = lease_s
        self._interrupts = interrupts
        self._renewed = time.monotonic()
        self._commits = 0
        self.id = ""
        self.fencing = 0
        self.writes: list[str] = []
        self.lost: str | None = None
        self.version: int | None = None

    def begin(self, base_version: int, summary: dict[str, Any]) -> None:
        """Register the run."""
        begun = self._act(
            "apply-runs/begin",
            base_version=base_version,
            summary=summary,
            host=socket.gethostname(),
            path=str(self._request.directory),
            lease_seconds=self._lease_s,
        )
        self.id = begun["run"]

    def take(
        self, writes: list[str], reads: list[str], base_version: int, timeout_s: float | None
    ) -> dict[str, Any]:
        """Reserve addresses; waits, visibly, until nobody stands in the way."""
        waiting = Waiting(self._request.state, timeout_s)
        wanted: dict[str, Any] = {"write": writes, "read": reads, "base_version": base_version}
        answer = self._act("reservations/acquire", **wanted)
        while not answer["granted"]:
            if answer["holding"]:
                # More than what it holds cannot be waited for while it holds anything.
                self._act("reservations/release")
                answer = self._act("reservations/acquire", **wanted)
                continue
            waiting.go_on(answer["blockers"], answer["blockers_count"], answer["place"])
            try:
                answer = self._act("reservations/acquire", base_version=base_version)
            except SourceError as ex:
                if ex.exit_status != BAD_INPUT:
                    raise
                # Not asked for in time, as on a machine that slept: its place is lost.
                answer = self._act("reservations/acquire", **wanted)
        waiting.over()
        self.fencing = answer["fencing"]
        self.writes = writes
        granted: dict[str, Any] = answer
        return granted

    def tick(self) -> None:
        """Renew the lease when a third of it is over."""
        now = time.monotonic()
        if self.lost or now - self._renewed < self._lease_s / 3:
            return
        try:
            self._act("reservations/renew", timeout_s=_ASK_S)
        except SourceError as ex:
            if ex.exit_status != AWAY:
                self.lost = str(ex)
            elif time.monotonic() - self._renewed > self._lease_s:
                self.lost = f"its lease could not be renewed: {ex}"

    def commit(self, base: StateFile, result: StateFile) -> bool:
        """Write what changed between the two onto the head; whether that was anything."""
        changes = delta(base, result, self.writes)
        if changes:
            self.write(changes, result)
        return bool(changes)

    def write(self, changes: dict[str, Any], result: StateFile) -> None:
        """Commit a delta."""
        done = self._act(
            "state/commit",
            fencing=self.fencing,
            commit=self._commits + 1,
            delta=changes,
            terraform_version=result.terraform_version,
            lineage=result.lineage,
        )
        self._commits += 1
        self.version = done["version"]

    def finish(self, status: str, message: str | None = None) -> None:
        """End the run, and with it everything that it holds."""
        if not self.lost:
            self._act("apply-runs/finish", status=status, message=message)

    def abandon(self, reason: str) -> None:
        """Give everything back; what cannot be reached ends with its lease."""
        try:
            self._act("apply-runs/abort", message=reason, timeout_s=_ASK_S)
        except SourceError as ex:
            tell(f"Run {self.id} could not be ended ({ex}); its reservations end with its lease.")

    def _act(self, action: str, timeout_s: float = 600, **request: Any) -> Any:
        to = self._request
        with self._interrupts.held():
            if self.id:
                request["run"] = self.id
            answer = act_within(timeout_s, to.target, f"{_ENGINE}/{action}", to.state, **request)
            self._renewed = time.monotonic()
        return answer


def apply(request: Request, options: Options) -> int:
    """Plan, ask, reserve, apply, commit; the exit status."""
    with Interrupts() as interrupts:
        recover(request, options, interrupts)
        if options.spec:
            check_files(options.spec, request)
        version, document = read_head(request)
        protocol = options.protocol
        if protocol == _ENGINE and document and b'"encrypted_data"' in document[:65536]:
            tell("The state is encrypted: only terraform itself can lock and write it.")
            protocol = "terraform-http"
        if protocol != _ENGINE:
            return _apply_alone(request, options)
        planned = make_plan(request, sys.stdout, head=(version, document))
        keep = False
        try:
            if not _accept(planned, options):
                return DONE
            keep = True
            return _orchestrate(planned, options, interrupts)
        finally:
            if not keep:
                planned.space.close()


def _accept(planned: Planned, options: Options, tick: Callable[[], None] | None = None) -> bool:
    """Show a plan and have it confirmed; whether it is to be applied."""
    from kilolock.commands.plan import summary

    if options.spec:
        check_actions(options.spec, planned)
    try:
        click.echo("\n" + summary(planned))
    except BrokenPipeError:
        unread(sys.stdout)
    if planned.changes_nothing:
        return False
    judge(planned.quota)
    if options.dry_run:
        tell("Nothing was reserved or changed: this was a dry run.")
        return False
    gone = planned.deletions
    if options.yes and gone and not options.confirm_destroy:
        raise SourceError(
            f"the plan destroys {listed([printable(a) for a in gone])}, which --yes does not cover",
            BAD_INPUT,
            "Add --confirm-destroy, or leave --yes out and answer the question.",
        )
    what = f"and destroy {len(gone)} of them " if gone else ""
    confirm(f"Apply this {what}in {planned.request.state}?", options.yes, tick)
    return True


def _orchestrate(planned: Planned, options: Options, interrupts: Interrupts) -> int:
    """Apply an accepted plan under reservations. Closes its workspace."""
    run = Run(planned.request, options.lease_s, interrupts)
    space = planned.space
    try:
        run.begin(planned.base_version, planned.summary)
        tell(f"Run {run.id} on version {planned.base_version} of {planned.request.state}.")
        settled = _settle(planned, run, options)
        if settled is None:
            with interrupts.held():
                run.finish("committed", "nothing was left to change")
            return DONE
        return _Attempt(settled, run, options, interrupts).go()
    except BaseException as ex:
        if run.id:
            run.abandon(str(ex)[:500] or "interrupted")
        raise
    finally:
        space.close(keep=(space.folder / KEEP).exists())


def _settle(planned: Planned, run: Run, options: Options) -> Planned | None:
    """Reserve what a plan needs, and plan again if that has changed; None if nothing is left."""
    for attempt in range(_REPLANS + 1):
        grant = run.take(planned.writes, planned.reads, planned.base_version, options.wait_timeout)
        if not grant["changed_count"]:
            return planned
        version, document = read_head(planned.request)
        if version == planned.base_version == 0:
            # What was there once was deleted with its state: it is as if nothing had changed.
            run.take(planned.writes, planned.reads, grant["head_version"], options.wait_timeout)
            return planned
        if attempt == _REPLANS:
            break
        changed = listed([printable(a) for a in grant["changed"]])
        tell(
            f"Since version {planned.base_version}, on which this was planned, {changed} changed: "
            f"planning again on version {version}."
        )
        before = planned.actions()
        planned = make_plan(
            planned.request,
            sys.stdout,
            head=(version, document),
            space=planned.space,
            tick=run.tick,
        )
        if run.lost:
            raise SourceError(f"run {run.id} is over: {run.lost}", CONFLICT)
        if planned.changes_nothing:
            tell("Nothing is left to change.")
            return None
        if planned.actions() != before or planned.quota["verdict"] == "hard":
            tell("It is another plan now.")
            _accept(planned, options, run.tick)
        # What is reserved did not change while this was planned, unless the plan needs more.
    raise SourceError(
        f"{listed(grant['changed'])} changed again while this was planned, "
        f"{_REPLANS} times in a row",
        CONFLICT,
        "Try again.",
    )


class _Attempt:
    """terraform apply of a settled plan, committed as it goes."""

    def __init__(
        self, planned: Planned, run: Run, options: Options, interrupts: Interrupts
    ) -> None:
        self._planned = planned
        self._space = planned.space
        self._run = run
        self._options = options
        self._interrupts = interrupts
        self._base = planned.base
        self._seen = self._written()
        self._retry_at = time.monotonic() + _INTERIM_S

    def go(self) -> int:
        """Run it; the exit status."""
        space = self._space
        _remember(space.folder, self._planned, self._run)
        status = space.run("apply", *_apply_args(self._planned), show=sys.stdout, tick=self._tick)
        state = self._planned.request.state
        with self._interrupts.held():
            self._commit_at_last()
            # Another run, where the lease of the first was lost.
            run = self._run
            if status == 0:
                run.finish("committed")
                _forget(space.folder)
                wrote = f"version {run.version}" if run.version else "no new version"
                done = ", ".join(
                    f"{n} {_DONE.get(verb, verb)}" for verb, n in self._planned.summary.items()
                )
                tell(f"Run {run.id} committed {wrote} of {state}: {done or self._planned.rest}.")
                return DONE
            log = _keep_log(space)
            run.finish("failed", f"the log is on {socket.gethostname()} in {log}")
        made = f"what it made is version {run.version}" if run.version else "it made nothing"
        how = "was interrupted" if space.interrupts else f"ended with status {status}"
        tell(f"{space.program} apply {how}; {made} of {state}. Log: {log}")
        return _INTERRUPTED if space.interrupts else FAULT

    def _tick(self) -> None:
        self._run.tick()
        if self._run.lost:
            if self._space.stopping:
                return
            tell(f"Run {self._run.id} is over: {self._run.lost}. Stopping {self._space.program}.")
            self._space.interrupt()
            return
        written = self._written()
        if written != self._seen and time.monotonic() >= self._retry_at:
            try:
                self._commit()
                _save(self._space.folder / "base.tfstate", self._base.data)
                self._retry_at = time.monotonic() + _INTERIM_S
            except SourceError as ex:
                if ex.exit_status != AWAY:
                    self._run.lost = f"what it changes is refused: {ex}"
                self._retry_at = time.monotonic() + 5

    def _commit(self) -> None:
        written = self._written()
        result = StateFile.of(self._space.document(), self._base)
        self._run.commit(self._base, result)
        self._base, self._seen = result, written

    def _commit_at_last(self) -> None:
        """What terraform has made must get into the state; a kld that is away is waited for."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                if self._run.lost:
                    self._start_over()
                elif self._written() != self._seen:
                    self._commit()
                return
            except SourceError as ex:
                if ex.exit_status == CONFLICT and not self._run.lost:
                    self._run.lost = str(ex)
                elif ex.exit_status == AWAY and time.monotonic() < deadline:
                    tell(f"Cannot commit yet, trying again: {ex}")
                    time.sleep(2)
                else:
                    raise SourceError(
                        f"what {self._space.program} made is not committed: {ex}",
                        ex.exit_status,
                        f"It is kept in {self._space.folder}; the next kl apply of this state by "
                        "this user on this machine commits it.",
                    ) from None

    def _start_over(self) -> None:
        """Commit under a new run, unless others have written the same since the lease ended."""
        request, old = self._planned.request, self._run
        result = StateFile.of(self._space.document(), self._base)
        self._run = take_over(old, self._base, result, request, self._options, self._interrupts)
        self._base = result

    def _written(self) -> int:
        try:
            return self._space.state.stat().st_mtime_ns
        except FileNotFoundError:
            return 0


def recover(request: Request, options: Options, interrupts: Interrupts) -> None:
    """Commit what a kl that was killed left of this state on this machine."""
    for folder in abandoned(os.environ):
        try:
            record = json.loads((folder / "run.json").read_text("utf-8"))
        except (OSError, ValueError):
            continue
        if record["state"] == _place(request):
            if options.dry_run:
                tell(f"Run {record['run']} was cut off; kl apply will commit what it made.")
            else:
                _recover(folder, record, request, options, interrupts)


def _recover(
    folder: Path,
    record: dict[str, Any],
    request: Request,
    options: Options,
    interrupts: Interrupts,
) -> None:
    old = Run(request, options.lease_s, interrupts)
    old.id = record["run"]
    told = False
    while pid := terraform_running(str(folder)):
        if not told:
            tell(f"Run {old.id} was cut off, but its terraform still runs (process {pid}).")
            told = True
        old.tick()
        time.sleep(0.5)
    old.abandon("cut off; another kl apply takes over")
    base, result = (
        StateFile.of(_load(folder / name)) for name in ("base.tfstate", "terraform.tfstate")
    )
    old.writes = record["writes"]
    try:
        run = take_over(old, base, result, request, options, interrupts)
    except SourceError as ex:
        raise SourceError(
            f"run {old.id} was cut off, and what it had made is not committed: {ex}",
            ex.exit_status,
            f"Its state is {folder / 'terraform.tfstate'}. When it is of no use, remove {folder}.",
        ) from None
    with interrupts.held():
        if run is not old:
            run.finish("committed", f"what run {old.id} had made")
        shutil.rmtree(folder)
    wrote = f"is version {run.version} of {request.state}" if run.version else "was committed"
    tell(f"Run {old.id} was cut off; what it had made {wrote}.")


def take_over(
    old: Run,
    base: StateFile,
    result: StateFile,
    request: Request,
    options: Options,
    interrupts: Interrupts,
) -> Run:
    """Commit what a run that is over has made but not committed, under another run.

    What others have written since the run ended stays, and is an error if it is not the same.
    """
    if not delta(base, result, old.writes):
        return old
    run = Run(request, options.lease_s, interrupts)
    run.begin(read_head(request)[0], {"recovers": old.id})
    try:
        version, document = 0, None
        for _ in range(2):
            # The second time nobody can have changed what it holds since it was read.
            grant = run.take(old.writes, [], version, options.wait_timeout)
            version, document = read_head(request)
            version = version or grant["head_version"]
        changes, conflicts = merge(base, StateFile.of(document), result, old.writes)
        if conflicts:
            raise SourceError(
                f"{listed([printable(a) for a in conflicts])} was written by somebody else since",
                CONFLICT,
            )
        if changes:
            run.write(changes, result)
    except BaseException as ex:
        run.abandon(str(ex)[:500] or "interrupted")
        raise
    return run


def _apply_alone(request: Request, options: Options) -> int:
    """Apply under the Terraform lock: terraform's own backend locks, reads and writes."""
    from kilolock.scratch import find_program

    target = request.target
    recorded = recorded_target(os.environ, request.directory)
    if recorded is None:
        raise SourceError(
            f"without reservations terraform itself keeps the state, and no http backend is "
            f"recorded in {os.path.abspath(request.directory)}",
            BAD_INPUT,
            "Add a backend block and run terraform init, or let kl reserve: --orchestrated.",
        )
    same_server = target.database_url or recorded.base_url == target.base_url
    if recorded.state != request.state or not same_server:
        raise SourceError(
            f"without reservations kl apply works on {recorded.state} of {recorded.base_url}, "
            f"which terraform init recorded here, not on {request.state} of {target.base_url}",
            BAD_INPUT,
            "Leave --state, --state-url and KL_STATE_URL out, or let kl reserve: --orchestrated.",
        )
    find_program(request.directory, os.environ)
    with Scratch(request.directory, None, os.environ, "alone", own_backend=True) as space:
        before = None
        for again in (False, True):
            wait_for_lock(request, options.wait_timeout)
            planned = make_plan(request, sys.stdout, space=space)
            if before is None or planned.actions() != before:
                if not _accept(planned, options):
                    return DONE
                before = planned.actions()
            wait_for_lock(request, options.wait_timeout)
            at = space.log.stat().st_size
            status = space.run("apply", "-lock-timeout=60s", *_apply_args(planned), show=sys.stdout)
            with open(space.log, "rb") as log:
                log.seek(at)
                stale = b"Saved plan is stale" in log.read()
            if not stale or again:
                break
            tell("The state changed meanwhile: planning again.")
        if status:
            return _INTERRUPTED if space.interrupts else FAULT
        return DONE


def _apply_args(planned: Planned) -> list[str]:
    quiet = ["-compact-warnings"] if planned.targets else []
    return ["-input=false", *quiet, str(planned.path)]


def _place(request: Request) -> dict[str, Any]:
    """What tells a state of ours from others of the same name."""
    target = request.target
    server = target.base_url
    if target.database_url:
        from urllib.parse import urlsplit

        parts = urlsplit(target.database_url)
        server = f"{parts.hostname}:{parts.port}{parts.path}"
    return {
        "server": server,
        "workspace": target.workspace,
        "environment": target.environment,
        "name": request.state,
    }


def _remember(folder: Path, planned: Planned, run: Run) -> None:
    """Leave what another kl needs to finish this run."""
    if planned.base.data:
        _save(folder / "base.tfstate", planned.base.data)
    record = {"run": run.id, "state": _place(planned.request), "writes": run.writes}
    _save(folder / "run.json", json.dumps(record).encode())
    (folder / KEEP).touch()


def _forget(folder: Path) -> None:
    (folder / KEEP).unlink(missing_ok=True)
    (folder / "run.json").unlink(missing_ok=True)


def _keep_log(space: Scratch) -> Path:
    """Remove everything but the log: the rest is committed, and holds secrets."""
    _forget(space.folder)
    for entry in space.folder.iterdir():
        if entry.name in ("owner.lock", "log"):
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    (space.folder / KEEP).touch()
    return space.log


def _save(path: Path, data: bytes) -> None:
    new = path.with_name(path.name + ".new")
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)


def _load(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
