"""``kl rollback``: a state, or one resource of it, back to what it was."""

from __future__ import annotations

from typing import Any

import click

from kilolock.commands.changes import show_changes
from kilolock.console import (
    DefaultGroup,
    act,
    confirm,
    connection_options,
    format_option,
    moment,
    state_of,
    tell,
)
from kilolock.discovery import Target


def _named(given: str | None, option: str | None) -> str | None:
    if given and option:
        raise click.UsageError("name the state once, as an argument or with --state.")
    return option or given


@click.command("rollback")
@click.argument("state", required=False)
@click.option("--state", "named", metavar="STATE", help="The state, if it is named like a command.")
@click.option("--to", "ref", metavar="REF", required=True, help="The version to go back to.")
@click.option("--apply", "apply_", is_flag=True, help="Do it; without this it is only shown.")
@click.option("--yes", is_flag=True, help="Do not ask before it is done.")
@format_option
@connection_options
def whole(
    state: str | None,
    named: str | None,
    ref: str,
    apply_: bool,
    yes: bool,
    fmt: str,
    target: Target,
) -> None:
    """Show what STATE would be at an older version, and with --apply make it so.

    STATE is this directory's unless named. REF is a version number, serial:N, @N (N back from the
    head), a tag or a time. The old version is written again as the newest one, with a new serial,
    so that the next terraform apply starts from it. It brings a deleted state back too. No
    infrastructure is touched: run terraform plan to see what it would take to follow.

    kl rollback resource brings back single resources.

    \b
    Examples:
        kl rollback prod --to @1
        kl rollback prod --to 2026-11-30T10:00 --apply
    """
    name = state_of(target, _named(state, named))
    sure = apply_ and yes
    done = act(target, "rollback", name, version=ref, apply=sure)
    _show(done, fmt)
    if not done["changed"]:
        tell(f"State {name} is what it was at version {done['to']['version']}: nothing to do.")
    elif not apply_:
        tell("Nothing is changed yet; --apply does it.")
    else:
        if not sure:
            old, new = done["to"]["version"], done["version"]
            confirm(f"Write version {old} again as version {new}?", yes)
            base = done["from"]["version"] if done["from"] else 0
            done = act(target, "rollback", name, version=ref, apply=True, base=base)
        tell(f"State {name} is at version {done['version']} now, serial {done['serial']}.")


@click.group(cls=DefaultGroup, default=whole)
def rollback() -> None:
    """Bring back a state, or one resource of it, as it was at an older version."""


def _show(done: dict[str, Any], fmt: str) -> None:
    before, after = done["from"], done["to"]
    verb = "was" if done["applied"] else "is"
    tell(
        f"State {done['state']} {verb} {'at version ' + _version(before) if before else 'deleted'}."
    )
    if done["changed"]:
        tell(f"Back to version {_version(after)}:")
        if done["other_lineage"]:
            tell(f"That version has another lineage, {after['lineage']}, not {before['lineage']}.")
    show_changes(done["changes"], fmt)


def _version(version: dict[str, Any]) -> str:
    return (
        f"{version['version']} (serial {version['serial']}, {version['source']} by"
        f" {version['actor']}, {moment(version['created_at'])})"
    )
