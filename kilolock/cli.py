"""``kl``, the engineer's commands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click

from kilolock import __version__
from kilolock.console import (
    ALL_ROWS,
    Group,
    ask,
    connection_options,
    format_option,
    moment,
    no_such_state,
    show,
)
from kilolock.discovery import Target
from kilolock.output import cell, printable, size, to_table

_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

# Commands of a module of their own, which only their use imports.
_LAZY: dict[str, str] = {
    "drift": "kilolock.commands.drift",
    "refresh": "kilolock.commands.drift",
    "archive": "kilolock.commands.archive",
    "export": "kilolock.commands.transfer",
    "import": "kilolock.commands.transfer",
    "apply": "kilolock.commands.apply",
    "plan": "kilolock.commands.plan",
    "rollback": "kilolock.commands.rollback",
    "diff": "kilolock.commands.history",
    "history": "kilolock.commands.history",
    "prune": "kilolock.commands.retention",
    "purge": "kilolock.commands.retention",
    "quota": "kilolock.commands.quota",
    "state": "kilolock.commands.state",
    "tag": "kilolock.commands.tags",
}

_LIST = """
    select name, environment, version, serial, resources, size,
           date_trunc('second', updated_at) as updated_at, locked_by
    from kilolock.state_overview
    order by environment, name"""

_STATUS = """
    select o.name, o.environment, o.version, o.serial, o.lineage, o.terraform_version, o.resources,
           o.size, o.updated_at, o.lock_id, o.lock_operation, o.locked_by, o.locked_since,
           o.versions, runs.runs, reservations.reservations, queue.queue
    from kilolock.state_overview o
    cross join lateral (
      select coalesce(jsonb_agg(to_jsonb(r) - '{state_name,state_id}'::text[]
               || jsonb_build_object('seconds_left',
                    round(extract(epoch from r.expires_at - clock_timestamp())))
               order by r.started_at), '[]') as runs
      from kilolock.run_overview r
      where r.state_id = o.state_id and r.status = 'running') runs
    cross join lateral (
      select coalesce(jsonb_agg(to_jsonb(v) - 'state_id' order by v.acquired_at, v.mode desc,
               v.address), '[]') as reservations
      from (select v.* from kilolock.resource_reservations v where v.state_id = o.state_id
            order by v.acquired_at, v.mode desc, v.address limit 100) v) reservations
    cross join lateral (
      select coalesce(jsonb_agg(to_jsonb(q) - '{state_name,state_id,writes,reads}'::text[]
               || jsonb_build_object('addresses', (q.writes || q.reads)[1:5],
                    'address_count', cardinality(q.writes || q.reads))
               order by q.place), '[]') as queue
      from kilolock.reservation_queue q
      where q.state_id = o.state_id) queue
    where o.name = ($1)[1] or ($1)[1] is null
    order by o.environment, o.name"""

_BLAST_RADIUS = """
    select b.address, b.type, b.depth
    from kilolock.blast_radius(($1)[1], ($1)[2], ($1)[3]::int) b
    order by b.depth, b.address"""


@click.group(cls=Group, lazy=_LAZY, context_settings=_CONTEXT, no_args_is_help=True)
@click.version_option(__version__, prog_name="kl", message="%(prog)s %(version)s")
def main() -> None:
    """Ask your infrastructure's state.

    kl asks the PostgreSQL of KL_DATABASE_URL directly. Without it, kl asks a kld: that of
    KL_STATE_URL (KL_TOKEN signs in), of a .kl.toml here or above, of the http backend that
    terraform init recorded here, or the one on http://127.0.0.1:8080.

    \b
    Example:
        kl query "select type, count(*) from resources group by type"
    """


@main.command()
@click.argument("sql", required=False)
@click.option(
    "-f", "--file", "file", type=click.Path(), help="Read the SQL from a file, or from - (stdin)."
)
@click.option(
    "--arg",
    "args",
    multiple=True,
    metavar="VALUE",
    help="Text for ($1)[1], then ($1)[2] and so on.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0, 600, min_open=True),
    default=30,
    show_default=True,
    help="Stop the query after this many seconds.",
)
@click.option("--limit", type=click.IntRange(1, ALL_ROWS), help="Show this many rows at most.")
@format_option
@connection_options
def query(
    sql: str | None,
    file: str | None,
    args: tuple[str, ...],
    timeout: float,
    limit: int | None,
    fmt: str,
    target: Target,
) -> None:
    """Run one SELECT over the states and show its rows. It can only read.

    \b
    Examples:
        kl query "select name, serial from states"
        kl query -f inventory.sql --format csv
        kl query "select address from resources where type = (\\$1)[1]" --arg aws_vpc
    """
    if (sql is None) == (file is None):
        raise click.UsageError("give the SQL as an argument, or a file with -f.")
    text = sql if sql is not None else _read(file or "-")
    if not text.strip():
        raise click.UsageError("the SQL is empty.")
    answer = ask(target, text, args, timeout, limit or ALL_ROWS)
    show(answer, fmt)
    if answer.truncated:
        click.echo(f"Only the first {len(answer.rows)} rows are shown; there are more.", err=True)


@main.command("list")
@format_option
@connection_options
def list_states(fmt: str, target: Target) -> None:
    """List the states: serial, resources, size in bytes, and who holds the lock.

    \b
    Example:
        kl list --format json
    """
    show(ask(target, _LIST), fmt)


@main.command()
@click.argument("state", required=False)
@format_option
@connection_options
def status(state: str | None, fmt: str, target: Target) -> None:
    """Show the version, size, lock and apply runs of STATE; by default this directory's, else all.

    Of the runs it shows what they reserve, and who waits for it, first come first.

    \b
    Example:
        kl status prod
    """
    state = state or target.state
    answer = ask(target, _STATUS, (state,))
    if state and not answer.rows:
        raise no_such_state(state)
    if fmt != "table":
        show(answer, fmt)
        return
    names = [column.name for column in answer.columns]
    blocks = [
        _describe({n: cell(v) for n, v in zip(names, row, strict=True)}) for row in answer.rows
    ]
    click.echo("\n\n".join(blocks) if blocks else "There are no states yet.")


@main.command("blast-radius")
@click.argument("state")
@click.argument("address")
@click.option("--depth", type=click.IntRange(1, 1_000_000), help="Stop after this many hops.")
@format_option
@connection_options
def blast_radius(
    state: str,
    address: str,
    depth: int | None,
    fmt: str,
    target: Target,
) -> None:
    """List what in STATE depends on ADDRESS, directly or not.

    \b
    Example:
        kl blast-radius prod aws_vpc.main --depth 3 --format csv
    """
    hops = None if depth is None else str(depth)
    show(ask(target, _BLAST_RADIUS, (state, address, hops)), fmt)


@main.command()
def version() -> None:
    """Show which release of kl this is.

    \b
    Example:
        kl version
    """
    click.echo(f"kl {__version__}")


def _read(file: str) -> str:
    from kilolock.files import old_file

    with old_file(file) as stream:
        data = stream.read()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise click.UsageError(f"{file} is not UTF-8.") from None


def _describe(row: dict[str, str | None]) -> str:
    lines = [
        ("State", row["name"]),
        ("Version", row["version"] or ("none yet" if row["versions"] == "0" else "deleted")),
        ("Serial", row["serial"]),
        ("Lineage", row["lineage"]),
        ("Terraform", row["terraform_version"]),
        ("Resources", row["resources"]),
        ("Size", size(int(row["size"])) if row["size"] else None),
        ("Updated", moment(row["updated_at"])),
    ]
    if row["environment"] not in (None, "env_default"):
        lines.insert(1, ("Environment", row["environment"]))
    if row["lock_id"] is None:
        lines.append(("Lock", "free"))
    else:
        doing = f" ({row['lock_operation']})" if row["lock_operation"] else ""
        holder = f"{row['locked_by'] or 'somebody'}{doing}"
        lines.append(("Lock", f"held by {holder} since {moment(row['locked_since'])}"))
        lines.append(("Lock ID", row["lock_id"]))
        lines.append(("To free it", f"terraform force-unlock {row['lock_id']}"))
    shown = [f"{label + ':':<13}{printable(value)}" for label, value in lines if value]
    for title, table in _describe_runs(row):
        shown += ["", title, *(f"  {line}" for line in table)]
    return "\n".join(shown)


def _describe_runs(row: dict[str, str | None]) -> Iterator[tuple[str, Iterator[str]]]:
    runs, held, queue = (json.loads(row[k] or "[]") for k in ("runs", "reservations", "queue"))
    lines: list[tuple[str | None, ...]] = []
    if runs:
        for r in runs:
            holds = f"{r['write_count']} to write, {r['read_count']} to read"
            if not r["acquired_at"]:
                holds = "nothing, it waits" if r["waiting_since"] else "nothing"
            lease, base = f"in {r['seconds_left']} s", str(r["base_version"])
            began = moment(r["started_at"])
            lines.append((r["apply_run_id"], r["holder"], began, base, holds, lease))
        head = ("run", "who", "began", "on version", "holds", "lease ends")
        yield "Apply runs", to_table(head, lines)
    if held:
        lines = [
            (v["address"], v["mode"], v["holder"], moment(v["acquired_at"]), v["apply_run_id"])
            for v in held
        ]
        more = sum(r["write_count"] + r["read_count"] for r in runs if r["acquired_at"]) - len(held)
        if more > 0:
            lines.append((f"and {more} more", "", "", "", ""))
        yield "Reservations", to_table(("address", "to", "who", "since", "run"), lines)
    if queue:
        lines = [
            (str(q["place"]), q["holder"], moment(q["waiting_since"]), _wish(q)) for q in queue
        ]
        yield "Queue", to_table(("place", "who", "since", "waits for"), lines)


def _wish(request: dict[str, Any]) -> str:
    if request["kind"] == "lock":
        return "the lock"
    more = request["address_count"] - len(request["addresses"])
    return ", ".join(request["addresses"]) + (f" and {more} more" if more else "")


if __name__ == "__main__":
    main()
