"""``kl rollback``: a state, or one resource of it, back to what it was."""

from __future__ import annotations

from typing import Any

import click

from kilolock.commands.changes import Edit, edit_options, tell_list, version_line
from kilolock.console import DefaultGroup, state_of, tell
from kilolock.discovery import Target


def _named(target: Target, given: str | None, option: str | None) -> str:
    if given and option:
        raise click.UsageError("name the state once, as an argument or with --state.")
    return state_of(target, option or given)


_state_argument = click.argument("state", required=False)
_state_option = click.option(
    "--state", "named", metavar="STATE", help='The state, if it has a name such as "resource".'
)
_to_option = click.option(
    "--to", "ref", metavar="REF", required=True, help="The version to go back to."
)


@click.command("rollback")
@_state_argument
@_state_option
@_to_option
@edit_options
def whole(state: str | None, named: str | None, ref: str, target: Target, edit: Edit) -> None:
    """Show what STATE would be at an older version, and with --apply make it so.

    STATE is this directory's unless named. REF is a version number, serial:N, @N (N back from the
    head), a tag or a time. The old version is written again as the newest one, with a new serial,
    so that the next terraform apply starts from it. It brings a deleted state back too. No
    infrastructure is touched: terraform plan shows what it would take to follow.

    kl rollback resource brings back single resources.

    \b
    Examples:
        kl rollback prod --to @1
        kl rollback prod --to 2026-11-30T10:00 --apply
    """
    edit.carry_out("rollback", _named(target, state, named), _explain, version=ref)


@click.group(cls=DefaultGroup, default=whole)
def rollback() -> None:
    """Bring back a state, or one resource of it, as it was at an older version."""


@rollback.command()
@_state_argument
@_state_option
@click.option("--address", metavar="ADDR", required=True, help="A resource, or a module with all.")
@_to_option
@click.option("--strict", is_flag=True, help="Refuse if live resources depend on what would go.")
@edit_options
def resource(
    state: str | None,
    named: str | None,
    address: str,
    ref: str,
    strict: bool,
    target: Target,
    edit: Edit,
) -> None:
    """Show what a resource of STATE was at an older version, and with --apply bring it back.

    ADDR is an instance, a resource with all of its instances, or a module with all in it. What
    was not there at REF goes; the rest of the state stays as it is. No infrastructure is touched.

    \b
    Examples:
        kl rollback resource --address aws_vpc.main --to @1
        kl rollback resource prod --address 'module.app["a"]' --to before-upgrade --apply
    """
    name = _named(target, state, named)
    edit.carry_out("rollback/resource", name, _explain, version=ref, address=address, strict=strict)


def _explain(done: dict[str, Any]) -> None:
    before, after = done["from"], done["to"]
    was = "was" if done["applied"] else "is"
    tell(f"State {done['state']} {was} {'at ' + version_line(before) if before else 'deleted'}.")
    if done["changed"]:
        tell(f"Back to {version_line(after)}:")
        if done.get("other_lineage"):
            tell(f"That version has another lineage, {after['lineage']}, not {before['lineage']}.")
    tell_list(
        "Live resources that depend on it:",
        [f"{d['address']} (on {d['depends_on']})" for d in done.get("dependents", [])],
    )
