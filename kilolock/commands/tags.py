"""``kl tag``: names for versions."""

from __future__ import annotations

import click

from kilolock.console import (
    act,
    ask,
    connection_options,
    format_option,
    has_state,
    no_such_state,
    say,
    show,
    state_of,
)
from kilolock.discovery import Target

_TAGS = """
    select t.state_name as state, t.tag, t.version, t.serial, t.resource_count as resources,
           date_trunc('second', t.written_at) as written, t.actor as set_by,
           date_trunc('second', t.created_at) as set_at
    from kilolock.current_tags t
    where t.state_name = ($1)[1] or ($1)[1] is null
    order by t.state_name, t.version desc, t.tag"""


@click.group(no_args_is_help=True)
def tag() -> None:
    """Give versions names that can be used wherever a version is asked for.

    A tagged version is kept when older versions are pruned.

    \b
    Example:
        kl tag set before-upgrade
        kl diff --from before-upgrade
    """


@tag.command("set")
@click.argument("name")
@click.argument("state", required=False)
@click.option(
    "--to", "ref", metavar="REF", default="current", show_default=True, help="Which version."
)
@click.option("--force", is_flag=True, help="Move the tag if it points to another version.")
@connection_options
def set_(name: str, state: str | None, ref: str, force: bool, target: Target) -> None:
    """Let tag NAME point to a version of STATE, by default of this directory's.

    REF is a version number, serial:N, @N (N back from the head), a tag, current or a time.

    \b
    Examples:
        kl tag set before-upgrade
        kl tag set last-week prod --to 2026-11-23T18:00
    """
    done = act(target, "tag/set", state_of(target, state), tag=name, version=ref, force=force)
    moved = f"; it was {done['moved_from']}" if done["moved_from"] else ""
    say(
        f'tag "{done["tag"]}" of state "{done["state"]}" is version {done["version"]},'
        f" serial {done['serial']}{moved}"
    )


@tag.command()
@click.argument("name")
@click.argument("state", required=False)
@connection_options
def unset(name: str, state: str | None, target: Target) -> None:
    """Remove tag NAME from STATE; the version stays until it is pruned.

    \b
    Example:
        kl tag unset before-upgrade
    """
    done = act(target, "tag/unset", state_of(target, state), tag=name)
    say(f'tag "{done["tag"]}" of state "{done["state"]}" is gone; it was version {done["version"]}')


@tag.command("list")
@click.argument("state", required=False)
@format_option
@connection_options
def list_(state: str | None, fmt: str, target: Target) -> None:
    """List the tags of STATE; by default of this directory's, else of all.

    \b
    Example:
        kl tag list prod --format json
    """
    state = state or target.state
    answer = ask(target, _TAGS, (state,))
    if state and not answer.rows and not has_state(target, state):
        raise no_such_state(state)
    show(answer, fmt)
