"""``kl state``: the resources of a state, listed, shown, moved and removed."""

from __future__ import annotations

import json
import re
from typing import Any

import click

from kilolock.commands.changes import Edit, edit_options, tell_list, version_line
from kilolock.console import (
    ask,
    connection_options,
    format_option,
    has_state,
    say,
    show,
    state_of,
    tell,
)
from kilolock.discovery import Target
from kilolock.output import Answer, cell

_LIST = """
    select f.address, f.deposed_key, f.mode, f.type, f.module_path, f.status, f.provider
    from kilolock.find_resources(($1)[1], ($1)[2:]) f"""

_SHOW = """
    select f.address, f.deposed_key, f.mode, f.type, r.name, f.status, f.provider, r.schema_version,
           r.changed_serial, r.changed_at, r.attributes
    from kilolock.find_resources(($1)[1], ($1)[2:]) with ordinality f
    join kilolock.resources r on r.id = f.resource_id
    order by f.ordinality"""

# Inside a JSON string its quotes would be escaped.
_DIGEST = re.compile(r'\{"sensitive": ?"sha256:[0-9a-f]{64}"\}')
_HIDDEN = "(sensitive value)"


class _Number(str):
    """A number as PostgreSQL wrote it."""


@click.group(no_args_is_help=True)
def state() -> None:
    """List, show, move and remove the resources of a state, without Terraform.

    \b
    Example:
        kl state mv prod --from aws_vpc.main --to module.network.aws_vpc.main
    """


@state.command("list")
@click.argument("words", metavar="[STATE] [ADDRESS]...", nargs=-1)
@format_option
@connection_options
def list_(words: tuple[str, ...], fmt: str, target: Target) -> None:
    """List the addresses of STATE, or those of some resources and modules in it.

    STATE is this directory's unless there is one of the first name given.

    \b
    Examples:
        kl state list prod
        kl state list prod module.app 'aws_vpc.main[0]' --format csv
    """
    named = words and not (target.state and not has_state(target, words[0]))
    name, addresses = (words[0], words[1:]) if named else (state_of(target, None), words)
    answer = ask(target, _LIST, (name, *addresses))
    if fmt != "table":
        show(answer, fmt)
        return
    for address in dict.fromkeys(str(cell(row[0])) for row in answer.rows):
        say(address)


@state.command("show")
@click.argument("words", metavar="[STATE] ADDRESS", nargs=-1, required=True)
@format_option
@connection_options
def show_(words: tuple[str, ...], fmt: str, target: Target) -> None:
    """Show the attributes of a resource; sensitive ones are hidden.

    STATE is this directory's unless named.

    \b
    Example:
        kl state show prod 'module.app.aws_vpc.main[0]'
    """
    if len(words) > 2:
        raise click.UsageError("give a state and an address.")
    name = state_of(target, words[0] if len(words) == 2 else None)
    found = ask(target, _SHOW, (name, words[-1]))
    hidden = json.dumps(_HIDDEN)
    rows = [[_DIGEST.sub(hidden, value) for value in row] for row in found.rows]
    if fmt != "table":
        show(Answer(found.columns, rows, found.truncated), fmt)
        return
    names = [column.name for column in found.columns]
    for n, row in enumerate(rows):
        if n:
            say("")
        _say_resource(dict(zip(names, row, strict=True)))


@state.command()
@click.argument("state_name", metavar="[STATE]", required=False)
@click.option("--from", "source", metavar="ADDR", required=True, help="The address it has.")
@click.option("--to", "destination", metavar="ADDR", required=True, help="The address it gets.")
@edit_options
def mv(state_name: str | None, source: str, destination: str, target: Target, edit: Edit) -> None:
    """Show what giving a resource another address takes, and with --apply do it.

    ADDR is an instance, a resource with all of its instances, or a module with all in it. What
    depends on it follows. STATE is this directory's unless named. Change the configuration
    likewise: then terraform plan shows no changes.

    \b
    Examples:
        kl state mv prod --from aws_vpc.main --to 'aws_vpc.main["eu"]'
        kl state mv prod --from module.old --to module.new --apply
    """
    name = state_of(target, state_name)
    edit.carry_out("state/mv", name, _explain, **{"from": source, "to": destination})


@state.command()
@click.argument("state_name", metavar="[STATE]", required=False)
@click.option(
    "--address", "addresses", metavar="ADDR", required=True, multiple=True, help="What to remove."
)
@edit_options
def rm(state_name: str | None, addresses: tuple[str, ...], target: Target, edit: Edit) -> None:
    """Show what would leave STATE with these addresses, and with --apply remove it.

    ADDR is an instance, a resource with all of its instances, or a module with all in it; the
    option may be given several times. The infrastructure stays, Terraform forgets it.
    kl rollback resource brings it back. STATE is this directory's unless named.

    \b
    Example:
        kl state rm prod --address aws_vpc.main --address module.old --apply
    """
    name = state_of(target, state_name)
    edit.carry_out("state/rm", name, _explain, addresses=list(addresses))


def _explain(done: dict[str, Any]) -> None:
    was = "was" if done["applied"] else "is"
    tell(f"State {done['state']} {was} at {version_line(done['from'])}.")
    tell_list("What depends on it follows:", done.get("followers", []))
    tell_list(
        "Live resources that depend on it:",
        [f"{d['address']} (on {d['depends_on']})" for d in done.get("dependents", [])],
    )


def _say_resource(row: dict[str, str]) -> None:
    notes = [f"deposed {cell(row['deposed_key'])}"] if row["deposed_key"] != "null" else []
    notes += ["tainted"] if cell(row["status"]) == "tainted" else []
    say(f"# {cell(row['address'])}:" + (f" ({', '.join(notes)})" if notes else ""))
    kind = "data" if cell(row["mode"]) == "data" else "resource"
    say(f'{kind} "{cell(row["type"])}" "{cell(row["name"])}" {{')
    attributes = json.loads(row["attributes"], parse_int=_Number, parse_float=_Number)
    if isinstance(attributes, dict):
        for line in _members(attributes, 1):
            say(line)
    elif attributes is not None:
        say(f"    {_HIDDEN}")
    say("}")


def _members(members: dict[str, Any], depth: int) -> list[str]:
    names = {key: _name(key) for key, value in members.items() if value is not None}
    width = max(map(len, names.values()), default=0)
    lines = []
    for key in sorted(names):
        first, *rest = _value(members[key], depth)
        lines += ["    " * depth + f"{names[key]:<{width}} = {first}", *rest]
    return lines


def _value(value: Any, depth: int) -> list[str]:
    """A value as HCL: its first line as it is, the others indented."""
    if isinstance(value, dict) and value:
        return ["{", *_members(value, depth + 1), "    " * depth + "}"]
    if isinstance(value, list) and value:
        lines = ["["]
        for item in value:
            first, *rest = _value(item, depth + 1)
            lines += ["    " * (depth + 1) + first, *rest]
            lines[-1] += ","
        return [*lines, "    " * depth + "]"]
    if value == _HIDDEN or isinstance(value, _Number):
        return [str(value)]
    return [json.dumps(value, ensure_ascii=False)]


def _name(key: str) -> str:
    return key if re.fullmatch(r"[^\W\d][\w-]*", key) else json.dumps(key, ensure_ascii=False)
