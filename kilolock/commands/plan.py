"""``kl plan``: what a change of some files would do, without a lock and without a trace."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kilolock.console import directory_options
from kilolock.discovery import SourceError, Target
from kilolock.errors import FAULT
from kilolock.output import printable

if TYPE_CHECKING:
    from kilolock.planning import Planned


def scope_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say what to plan, for kl plan and kl apply."""
    for option in reversed(
        (
            click.argument(
                "directory",
                required=False,
                default=".",
                type=click.Path(exists=True, file_okay=False, path_type=Path),
                metavar="[DIR]",
            ),
            click.option(
                "-f",
                "--file",
                "files",
                multiple=True,
                metavar="FILE",
                help="Plan only what this file declares.",
            ),
            click.option(
                "--target", "targets", multiple=True, metavar="ADDRESS", help="Plan only this."
            ),
            click.option(
                "--var", "variables", multiple=True, metavar="NAME=VALUE", help="Set a variable."
            ),
            click.option(
                "--var-file",
                "variable_files",
                multiple=True,
                type=click.Path(exists=True, dir_okay=False, path_type=Path),
                help="Set variables from a file.",
            ),
            click.option("--no-refresh", is_flag=True, help="Do not ask the providers first."),
            click.option("--state", metavar="NAME", help="Another state than DIR's backend names."),
            click.option(
                "--wait-timeout",
                type=click.FloatRange(min=0),
                metavar="SECONDS",
                help="Give up waiting for others after this long.",
            ),
        )
    ):
        command = option(command)
    return command


@click.command()
@scope_options
@click.option("--no-lock", is_flag=True, help="Plan even while another holds the Terraform lock.")
@click.option(
    "-o",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="SPEC",
    help="Write the plan spec to this file.",
)
@click.option(
    "--format",
    "fmt",
    type=click.Choice(("text", "json")),
    default="text",
    show_default=True,
    help="Print a summary, or the plan spec.",
)
@directory_options
def plan(
    directory: Path,
    files: tuple[str, ...],
    targets: tuple[str, ...],
    variables: tuple[str, ...],
    variable_files: tuple[Path, ...],
    no_refresh: bool,
    state: str | None,
    wait_timeout: float | None,
    no_lock: bool,
    out: Path | None,
    fmt: str,
    target_in: Callable[[Path], Target],
) -> None:
    """Show what terraform apply would change, for all of DIR or only for some of its files.

    Runs your terraform or tofu on a copy of the state. With -o SPEC the plan is written down for
    kl apply --plan-spec: what it writes and reads, on which version, with which variables and
    files. Exit status 6 says that a quota would be exceeded.

    \b
    Examples:
        kl plan -f slow_a.tf
        kl plan network -f network/vpc.tf --var region=eu-west-1 -o vpc.plan.json
    """
    from kilolock.planning import make_plan, request_of
    from kilolock.quotas import judge
    from kilolock.waiting import wait_for_lock

    request = request_of(
        target_in(directory),
        state,
        directory,
        files,
        targets=targets,
        variables=variables,
        variable_files=variable_files,
        refresh=not no_refresh,
    )
    if not no_lock:
        wait_for_lock(request, wait_timeout)
    planned = make_plan(request, sys.stderr if fmt == "json" else sys.stdout)
    with planned.space:
        spec = json.dumps(planned.spec(), indent=2, ensure_ascii=False) + "\n"
        if out:
            write_private(out, spec)
        if fmt == "json":
            sys.stdout.write(spec)
        else:
            click.echo("\n" + summary(planned))
            if out:
                click.echo(f"\nPlan spec: {out}  (kl apply --plan-spec {out})")
    judge(planned.quota)


def summary(planned: Planned, most: int = 20) -> str:
    """What a plan does, and what it needs for that, for a person to read."""
    where = f"on version {planned.base_version}" if planned.base_version else "which is new"
    lines = [f"State {planned.request.state}, {where}."]
    if planned.changes_nothing:
        return lines[0] + " Nothing to change."
    counts = ", ".join(f"{count} to {verb}" for verb, count in planned.summary.items())
    lines[0] += f" Plan: {counts or planned.rest}."
    for mode, addresses in (("Writes", planned.writes), ("Reads", planned.reads)):
        if addresses:
            lines.append(f"{mode}:")
            lines += [f"  {printable(address)}" for address in addresses[:most]]
            if len(addresses) > most:
                lines.append(f"  … and {len(addresses) - most} more")
    return "\n".join(lines)


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    try:
        with open(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as ex:
        raise SourceError(f"{path} cannot be written: {ex.strerror}", FAULT) from None
