"""``kl apply``: change some of a state while others change the rest of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click

from kilolock.commands.plan import scope_options
from kilolock.console import DefaultGroup, act, connection_options, directory_options, say
from kilolock.discovery import SourceError, Target
from kilolock.errors import BAD_INPUT

_PROTOCOLS = ("state-engine", "terraform-http")


@click.command("apply")
@scope_options
@click.option(
    "--plan-spec",
    "spec_file",
    type=click.Path(path_type=Path),
    metavar="SPEC",
    help="Do what this plan spec says, or nothing.",
)
@click.option(
    "--orchestrated",
    is_flag=True,
    help="Reserve resources, whatever KL_PROTOCOL says; this is the default.",
)
@click.option("--dry-run", is_flag=True, help="Plan, and stop before anything is reserved.")
@click.option("--yes", is_flag=True, help="Do not ask, unless something is destroyed.")
@click.option("--confirm-destroy", is_flag=True, help="With --yes: destroy without asking, too.")
@directory_options
def apply_(
    directory: Path,
    files: tuple[str, ...],
    targets: tuple[str, ...],
    variables: tuple[str, ...],
    variable_files: tuple[Path, ...],
    no_refresh: bool,
    state: str | None,
    wait_timeout: float | None,
    spec_file: Path | None,
    orchestrated: bool,
    dry_run: bool,
    yes: bool,
    confirm_destroy: bool,
    target_in: Callable[[Path], Target],
) -> int:
    """Apply DIR, or what some of its files declare, while others apply theirs.

    Plans, asks, reserves what the plan writes and reads, runs your terraform or tofu on a copy of
    the state, and commits what changed to the state as it is by then. Where another run holds the
    same resources it waits, and says for whom. kl apply abort RUN ends a run that hangs.

    \b
    Examples:
        kl apply -f slow_a.tf
        kl apply -f vpc.tf --var region=eu-west-1 --yes --wait-timeout 600
        kl apply --plan-spec vpc.plan.json --yes
    """
    from kilolock.applying import Options, apply
    from kilolock.planning import read_spec, request_of

    spec = None
    refresh = not no_refresh
    if spec_file:
        if files or targets:
            raise click.UsageError("the plan spec says what to apply: leave -f and --target out.")
        spec = read_spec(spec_file)
        files = tuple(spec["scope"]["files"])
        missing = [name for name in files if not (directory / name).is_file()]
        if missing:
            raise SourceError(
                f"the plan spec is for {missing[0]} in {spec['directory']}, which is not here",
                BAD_INPUT,
                "Run this there, or name that folder as DIR.",
            )
        targets = tuple(spec["scope"]["extra_targets"])
        refresh = refresh and spec["refresh"]
    target = target_in(directory)
    if spec:
        # Where it was made against another environment, its numbers mean nothing here.
        recorded = spec["state"]
        target = replace(
            target, workspace=recorded["workspace"], environment=recorded["environment"]
        )
        state = state or recorded["name"]
        if state != recorded["name"]:
            raise click.UsageError(f"the plan spec is for the state {recorded['name']}.")
    request = request_of(
        target,
        state,
        directory,
        files,
        targets=targets,
        variables=variables,
        variable_files=variable_files,
        pinned=spec["variables"] if spec else {},
        refresh=refresh,
    )
    options = Options(
        protocol=_PROTOCOLS[0] if orchestrated else _protocol(),
        spec=spec,
        wait_timeout=wait_timeout,
        dry_run=dry_run,
        yes=yes,
        confirm_destroy=confirm_destroy,
        lease_s=_lease(),
    )
    return apply(request, options)


@click.group(cls=DefaultGroup, default=apply_)
def apply() -> None:
    """Apply DIR, or what some of its files declare, while others apply theirs."""


@apply.command()
@click.argument("run")
@click.option("--message", metavar="TEXT", help="Say why.")
@connection_options
def abort(run: str, message: str | None, target: Target) -> None:
    """End apply RUN and free what it reserves; its commits are refused from now on.

    kl status shows the runs of a state. What a run has committed stays. Its terraform, if it still
    runs, is stopped by its kl.

    \b
    Example:
        kl apply abort run_5d41402abc4b2a76 --message "the laptop was lost"
    """
    done = act(target, "state-engine/apply-runs/abort", None, run=run, message=message)
    if done["aborted"]:
        say(f"Run {done['run']} is aborted; what it reserved is free.")
    else:
        say(f"Run {done['run']} was over already: {done['status']}.")


def _protocol() -> str:
    protocol = os.environ.get("KL_PROTOCOL") or _PROTOCOLS[0]
    if protocol not in _PROTOCOLS:
        raise SourceError(
            f"KL_PROTOCOL={protocol} is none", BAD_INPUT, f"Set it to {' or '.join(_PROTOCOLS)}."
        )
    return protocol


def _lease() -> int:
    text = os.environ.get("KL_LEASE_SECONDS") or "30"
    if not text.isdigit() or not 5 <= int(text) <= 600:
        raise SourceError(f"KL_LEASE_SECONDS={text} is no number from 5 to 600", BAD_INPUT)
    return int(text)
