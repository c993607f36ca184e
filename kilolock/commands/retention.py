"""``kl prune`` and ``kl purge``: remove versions of a state."""

from __future__ import annotations

import json

import click

from kilolock.console import (
    act,
    ask,
    confirm,
    connection_options,
    format_option,
    say,
    show,
    state_of,
)
from kilolock.discovery import Target
from kilolock.output import Answer, Column, cell, printable, size

_VERSION = """
    select f.version, f.serial, date_trunc('second', f.created_at), f.actor
    from kilolock.find_version(($1)[1], ($1)[2]) f"""

_COLUMNS = {
    "version": "bigint",
    "serial": "numeric",
    "created_at": "timestamptz",
    "actor": "text",
    "source": "text",
    "size": "bigint",
}


@click.command()
@click.argument("state", required=False)
@click.option("--keep", type=click.IntRange(1, 999_999_999), help="Keep so many of the newest.")
@click.option(
    "--keep-days",
    type=click.FloatRange(0, 36_500),
    help="Keep what was the head at some time in the last so many days.",
)
@click.option("--apply", is_flag=True, help="Remove them; without it they are only shown.")
@format_option
@connection_options
def prune(
    state: str | None,
    keep: int | None,
    keep_days: float | None,
    apply: bool,
    fmt: str,
    target: Target,
) -> None:
    """Show the old versions of STATE that could go, and remove them with --apply.

    The current version and tagged ones are always kept.

    \b
    Examples:
        kl prune prod --keep 100
        kl prune prod --keep-days 90 --apply
    """
    if (keep is None) == (keep_days is None):
        raise click.UsageError("say how much to keep, with --keep or with --keep-days.")
    name = state_of(target, state)
    wanted = {"keep": keep} if keep is not None else {"keep_days": f"{keep_days:f}"}
    done = act(target, "prune", name, apply=apply, **wanted)
    columns = [Column(*column) for column in _COLUMNS.items()]
    found = [
        [json.dumps(version[c.name], ensure_ascii=False) for c in columns]
        for version in done["versions"]
    ]
    show(Answer(columns, found, False), fmt)
    went = f"{_count(len(found), 'version')} and {_count(done['past_rows'], 'row')} of their past"
    bytes_ = size(done["bytes"])
    stay = _count(done["kept"], "version")
    click.echo(
        f"{went} are gone, {bytes_}; {stay} left. PostgreSQL uses the room again after a vacuum."
        if apply
        else f"{went} would go, {bytes_}; {stay} would be left. --apply removes them.",
        err=True,
    )


@click.command()
@click.argument("state", required=False)
@click.option("--version", "ref", metavar="REF", required=True, help="Which version.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@connection_options
def purge(state: str | None, ref: str, yes: bool, target: Target) -> None:
    """Remove one version of STATE that must not exist any more, such as one that holds a secret.

    Its document goes, and what only that version showed of the state's past. What other versions
    hold too stays with them. The current version cannot go: write another first. Backups
    and the database's log still hold what was removed.

    \b
    Example:
        kl purge prod --version 41
    """
    name = state_of(target, state)
    [[number, serial, written, who]] = ask(target, _VERSION, (name, ref)).rows
    described = f"version {number} (serial {serial}, {cell(written)} by {cell(who)})"
    confirm(printable(f'Remove {described} of state "{name}" for good?'), yes)
    done = act(target, "purge", name, version=number)
    say(
        f'{described} of state "{name}" is gone, {size(done["bytes"])};'
        f" {size(done['shared_bytes'])} of its document are also in other versions"
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
