"""``kl refresh`` and ``kl drift``: what changed outside Terraform."""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kilolock import errors
from kilolock.console import (
    act,
    ask,
    connection_options,
    directory_options,
    format_option,
    moment,
    no_such_state,
    show,
    state_of,
    tell,
)
from kilolock.discovery import SourceError, Target
from kilolock.interrupts import Interrupts
from kilolock.output import Answer, Column, cell, json_parts

if TYPE_CHECKING:
    from kilolock.scratch import Scratch

_LONGEST = 60
_AWAY_S = (1, 2, 4, 8, 15)

_DRIFT = """
    select d.state_name as state,
           d.address || coalesce(' (deposed ' || d.deposed_key || ')', '') as address, d.change,
           a.attribute,
           case when a.sensitive then '"(sensitive)"' else a.old_value end as old,
           case when a.sensitive then '"(sensitive)"' else a.new_value end as new,
           d.detected_in as version, date_trunc('second', d.detected_at) as since
    from kilolock.current_drift d
    left join lateral kilolock.changed_attributes(d.previous_attributes, d.current_attributes,
      d.previous_address, d.address, d.previous_status, d.current_status) a
      on d.change not in ('create', 'delete')
    where d.state_name = ($1)[1] or ($1)[1] is null
    order by d.state_name, d.address, d.deposed_key, a.attribute"""

_LAST_REFRESH = """
    select u.who, u.finished_at
    from kilolock.states s
    left join lateral (
      select u.who, u.finished_at
      from kilolock.refresh_runs u
      where u.state_id = s.id and u.status in ('clean', 'drifted')
      order by u.id desc
      limit 1
    ) u on true
    where s.name = ($1)[1] and s.current_version_id is not null"""


@click.command()
@click.argument("state", required=False)
@format_option
@connection_options
def drift(state: str | None, fmt: str, target: Target) -> None:
    """Show what drifted in STATE: which attributes, from what to what, and since when.

    STATE is by default this directory's, else all. It shows what refreshes found (kl refresh) and
    no apply has followed since; it asks no provider. Sensitive values are never shown.

    \b
    Example:
        kl drift prod
    """
    state = state or target.state
    answer = ask(target, _DRIFT, (state,))
    if not answer.rows:
        tell(_last_refresh(target, state) if state else "Nothing has drifted that a refresh found.")
    if answer.rows or fmt != "table":
        show(_shortened(answer) if fmt == "table" else answer, fmt)


@click.command()
@click.argument("place", metavar="[STATE|DIR]", required=False)
@click.option("--dry-run", is_flag=True, help="Only show what drifted; write and lock nothing.")
@click.option("--var", "variables", multiple=True, metavar="NAME=VALUE", help="For terraform.")
@click.option("--var-file", "files", multiple=True, metavar="FILE", help="For terraform.")
@click.option("--target", "aims", multiple=True, metavar="ADDRESS", help="Refresh only this.")
@click.option("-v", "--verbose", is_flag=True, help="Show what terraform prints.")
@format_option
@directory_options
def refresh(
    place: str | None,
    dry_run: bool,
    variables: tuple[str, ...],
    files: tuple[str, ...],
    aims: tuple[str, ...],
    verbose: bool,
    fmt: str,
    target_in: Callable[[Path], Target],
) -> None:
    """Find what changed outside Terraform, and record it in the state.

    Runs a refresh-only plan and apply of your terraform or tofu (KL_IAC_BIN) on a scratch copy of
    the state. What drifted becomes a version of source refresh; where nothing did, nothing is
    written. The state is locked meanwhile, as for an apply. DIR is where terraform init ran, by
    default here; STATE is that directory's.

    \b
    Examples:
        kl refresh
        kl refresh infra/prod --dry-run
        kl refresh prod --var-file prod.tfvars --format json
    """
    directory, name = _directory_and_state(place)
    target = target_in(directory)
    if name and target.state and name != target.state:
        raise click.UsageError(
            f"this directory belongs to {target.state}; run it where {name} is configured."
        )
    state = state_of(target, name)
    options = [
        *(f"-var={value}" for value in variables),
        *(f"-var-file={os.path.abspath(file)}" for file in files),
        *(f"-target={address}" for address in aims),
    ]
    with Interrupts() as interrupts:
        run = _preview if dry_run else _record
        answer = run(target, state, directory, options, verbose, interrupts)
    if answer.rows or fmt != "table":
        show(_shortened(answer) if fmt == "table" else answer, fmt)


def _record(
    target: Target,
    state: str,
    directory: Path,
    options: list[str],
    verbose: bool,
    interrupts: Interrupts,
) -> Answer:
    with _scratch(directory) as work:
        lock_id = str(uuid.uuid4())
        reason: str | None = "it was interrupted"
        try:
            with interrupts.held():
                begun = act(target, "refresh-runs/begin", state, lock_id=lock_id)
            document = _refreshed(work, target, state, begun["version"], options, verbose)
            sent = {} if document is None else {"document": document}
            with interrupts.held():
                done = _persist(target, "refresh-runs/finish", state, lock_id=lock_id, **sent)
            reason = None
        except SourceError as ex:
            reason = str(ex)
            raise
        finally:
            if reason is not None:
                with interrupts.held():
                    _give_up(target, state, lock_id, reason)
    if done["version"] is None:
        tell(f"Nothing drifted in {state}; nothing was written.")
    else:
        tell(f"{_count(done)} drifted; wrote version {done['version']} of {state}.")
    return _answer(done["changes"])


def _preview(
    target: Target,
    state: str,
    directory: Path,
    options: list[str],
    verbose: bool,
    interrupts: Interrupts,
) -> Answer:
    with _scratch(directory) as work:
        version, _ = head = target.source().read(state)
        document = _refreshed(work, target, state, version, options, verbose, head)
    if document is None:
        done: Any = {"drifted": 0, "changes": "[]"}
    else:
        done = act(target, "refresh-runs/preview", state, version=version, document=document)
    what = f"{_count(done)} drifted" if done["drifted"] else "Nothing drifted"
    tell(f"{what} in {state} since version {version}; nothing was written.")
    return _answer(done["changes"])


def _refreshed(
    work: Scratch,
    target: Target,
    state: str,
    version: int,
    options: list[str],
    verbose: bool,
    head: tuple[int, bytes] | None = None,
) -> str | None:
    """The document after a refresh; None where terraform saw nothing to change."""
    found, document = head or target.source().read(state)
    if found != version:
        raise SourceError(f"{state} was written although it is locked", errors.CONFLICT)
    tell(f"Refreshing {state}, version {version}, with {work.program} ...")
    work.put(document)
    out = sys.stderr if verbose else None
    plan = str(work.folder / "refresh.tfplan")
    status = _run(
        work, out, "plan", "-refresh-only", "-detailed-exitcode", f"-out={plan}", *options
    )
    if status == 0:
        return None
    _run(work, out, "apply", plan)
    return (work.document() or b"").decode()


def _run(work: Scratch, out: Any, command: str, *args: str) -> int:
    status = work.run(command, "-input=false", *args, show=out)
    if work.interrupts:
        raise KeyboardInterrupt
    if status not in (0, 2) or (status == 2 and command != "plan"):
        if out is None:
            sys.stderr.write(work.log.read_text("utf-8", "replace")[-20_000:])
        raise SourceError(f"{work.program} {command} ended with status {status}", errors.FAULT)
    return status


def _scratch(directory: Path) -> Scratch:
    from kilolock.scratch import Scratch

    return Scratch(directory, None, os.environ, "refresh")


def _persist(target: Target, action: str, state: str, **request: Any) -> Any:
    """Do an action that may be repeated, again while nobody answers."""
    for pause in _AWAY_S:
        try:
            return act(target, action, state, **request)
        except SourceError as ex:
            if ex.exit_status != errors.AWAY:
                raise
        time.sleep(pause)
    return act(target, action, state, **request)


def _give_up(target: Target, state: str, lock_id: str, reason: str) -> None:
    """Release the lock of a refresh that came to nothing, if it has it."""
    try:
        act(target, "refresh-runs/finish", state, lock_id=lock_id, failed=reason)
    except SourceError as ex:
        if ex.exit_status != errors.NOT_FOUND:
            tell(
                f"The lock of {state} may be held still ({ex}); to free it:"
                f" terraform force-unlock {lock_id}"
            )


def _directory_and_state(place: str | None) -> tuple[Path, str | None]:
    """A folder is one that is written like a path, or that holds a configuration."""
    if place is None:
        return Path(), None
    folder = Path(place)
    written_like_one = place in (".", "..") or os.sep in place
    if folder.is_dir() and (
        written_like_one
        or (folder / ".terraform").exists()
        or any(folder.glob("*.tf"))
        or any(folder.glob("*.tf.json"))
    ):
        return folder, None
    return Path(), place


def _last_refresh(target: Target, state: str) -> str:
    answer = ask(target, _LAST_REFRESH, (state,))
    if not answer.rows:
        raise no_such_state(state)
    who, when = (cell(value) for value in answer.rows[0])
    looked = f"last looked {moment(when)}, by {who}" if when else "nobody has looked: kl refresh"
    return f"Nothing in {state} has drifted that a refresh found ({looked})."


def _count(done: dict[str, Any]) -> str:
    return f"{done['drifted']} resource{'' if done['drifted'] == 1 else 's'}"


def _answer(changes: str) -> Answer:
    """Rows as PostgreSQL wrote them, so that no digit is lost."""
    columns = [Column(name, "text") for name in ("address", "change", "attribute")]
    columns += [Column(name, "jsonb") for name in ("old", "new")]
    rows = []
    for change, address, deposed, attribute, old, new, sensitive in map(
        json_parts, json_parts(changes)
    ):
        if deposed != "null":
            address = f'{address[:-1]} (deposed {deposed[1:-1]})"'
        if sensitive == "true":
            old = new = '"(sensitive)"'
        rows.append([address, change, attribute, old, new])
    return Answer(columns, rows, truncated=False)


def _shortened(answer: Answer) -> Answer:
    """Values that people can read at a glance."""
    wide = [n for n, column in enumerate(answer.columns) if column.name in ("old", "new")]
    rows = []
    for row in answer.rows:
        row = list(row)
        for n in wide:
            text = cell(row[n]) or ""
            if len(text) > _LONGEST:
                import json

                row[n] = json.dumps(text[: _LONGEST - 1] + "…")
        rows.append(row)
    return Answer(answer.columns, rows, answer.truncated)
