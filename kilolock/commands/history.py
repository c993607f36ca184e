"""``kl history`` and ``kl diff``: what a state was, and what changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import click

from kilolock.console import (
    ALL_ROWS,
    ask,
    connection_options,
    format_option,
    has_state,
    no_such_state,
    show,
    state_of,
)
from kilolock.discovery import Target
from kilolock.output import FORMATS, cell, printable, to_table

if TYPE_CHECKING:
    from kilolock.output import Answer

# Functions of the query surface find a state by its name in the same way.
_VERSIONS = """
    select h.version, h.serial, h.created_at as written, h.actor as who, h.source, h.resources,
           h.created, h.updated, h.deleted, h.size, h.tags
    from kilolock.version_history h
    where h.state_id = (
      select s.id from kilolock.states s where s.name = ($1)[1] order by s.environment_id limit 1)
    order by h.place desc, h.is_delete desc
    limit ($1)[2]::bigint offset ($1)[3]::bigint"""

_VERSIONS_TABLE = """
    select h.version, h.serial, date_trunc('second', h.created_at) as written, h.actor as who,
           h.source, h.resources, format('+%s ~%s -%s', h.created, h.updated, h.deleted) as changes,
           pg_size_pretty(h.size) as size, h.tags
    from kilolock.version_history h
    where h.state_id = (
      select s.id from kilolock.states s where s.name = ($1)[1] order by s.environment_id limit 1)
    order by h.place desc, h.is_delete desc
    limit ($1)[2]::bigint offset ($1)[3]::bigint"""

_LIFE = """
    select c.version, date_trunc('second', c.created_at) as written, c.actor as who, c.source,
           c.change, c.address, c.deposed_key,
           case c.field when 'attributes' then c.attribute else '(' || c.field || ')' end
             as attribute,
           kilolock.hide_digests(c.from_value, c.sensitive) as "from",
           kilolock.hide_digests(c.to_value, c.sensitive) as "to", c.sensitive
    from (
      select r.*, dense_rank() over (order by r.version desc) as n,
             row_number() over () as place
      from kilolock.resource_changes(($1)[1], ($1)[2]) r
    ) c
    where c.n > ($1)[4]::bigint and c.n <= ($1)[4]::bigint + ($1)[3]::bigint
    order by c.version desc, c.change = 'delete', c.place"""

_ENDS = """
    select f.version, f.serial, f.created_at, f.actor
    from (values (1, ($1)[2]), (2, ($1)[3])) r(n, ref)
    cross join lateral kilolock.find_version(($1)[1], r.ref) f
    order by r.n"""

_DIFF = """
    select d.kind, d.change, d.address, d.deposed_key, d.type, d.from_address,
           case d.field when 'attributes' then d.attribute when 'value' then d.attribute
             else '(' || d.field || ')' end as attribute,
           d.path,
           case when d.sensitive or jsonb_typeof(d.from_value) in ('object', 'array')
             then kilolock.hide_digests(d.from_value, d.sensitive) else d.from_value end as "from",
           case when d.sensitive or jsonb_typeof(d.to_value) in ('object', 'array')
             then kilolock.hide_digests(d.to_value, d.sensitive) else d.to_value end as "to",
           d.sensitive
    from kilolock.diff_attributes(($1)[1], ($1)[2], ($1)[3], ($1)[5]::boolean) d
    where ($1)[4] is null
      or d.from_address like any (array[($1)[4], ($1)[4] || '[%', ($1)[4] || '.%'])
      or case d.kind when 'output' then 'output.' || d.address else d.address end
        like any (array[($1)[4], ($1)[4] || '[%', ($1)[4] || '.%'])"""

_SUMMARY = """
    select d.change, d.type, count(*) as count
    from (
      select 1 as part, d.change, d.type, d.address, d.from_address
      from kilolock.diff_versions(($1)[1], ($1)[2], ($1)[3]) d
      union all
      select 2, case when f.name is null then 'create' when t.name is null then 'delete'
               else 'update' end, 'output', 'output.' || coalesce(f.name, t.name), null
      from kilolock.outputs_at(($1)[1], ($1)[2]) f
      full join kilolock.outputs_at(($1)[1], ($1)[3]) t on t.name = f.name
      where (f.name, f.value, f.type, f.sensitive)
        is distinct from (t.name, t.value, t.type, t.sensitive)
    ) d
    where ($1)[4] is null
      or d.address like any (array[($1)[4], ($1)[4] || '[%', ($1)[4] || '.%'])
      or d.from_address like any (array[($1)[4], ($1)[4] || '[%', ($1)[4] || '.%'])
    group by d.part, d.change, d.type
    order by d.part, d.type, d.change"""

# A write that changed everything in a large state makes a long answer.
_PATIENCE_S = 600
_WIDEST = 60


@click.command()
@click.argument("state", required=False)
@click.option("--address", metavar="ADDR", help="Show the life of this resource instead.")
@click.option(
    "--limit",
    type=click.IntRange(1, ALL_ROWS - 1),
    default=50,
    show_default=True,
    help="Show this many versions at most.",
)
@click.option(
    "--offset", type=click.IntRange(0), default=0, help="Leave out this many of the newest."
)
@format_option
@connection_options
def history(
    state: str | None, address: str | None, limit: int, offset: int, fmt: str, target: Target
) -> None:
    """List the versions of STATE, newest first, by default of this directory's.

    With --address, list what happened to one resource: each value that changed, when, and by
    whom. A resource is followed through moves. Of sensitive values only that they changed is shown.

    \b
    Examples:
        kl history prod --limit 10
        kl history --address 'aws_s3_bucket.logs["eu"]'
    """
    name = state_of(target, state)
    if address is not None:
        answer = ask(target, _LIFE, (name, address, str(limit), str(offset)))
        if fmt == "table":
            _show_changes(answer, ("version", "written", "who", "source"))
        else:
            show(answer, fmt)
        return
    sql = _VERSIONS_TABLE if fmt == "table" else _VERSIONS
    answer = ask(target, sql, (name, str(limit + 1), str(offset)), limit=limit)
    if not answer.rows and not has_state(target, name):
        raise no_such_state(name)
    show(answer, fmt)
    if answer.truncated:
        click.echo(f"There are more; go on with --offset {offset + limit}.", err=True)


@click.command()
@click.argument("state", required=False)
@click.option("--from", "from_", metavar="REF", default="@1", show_default=True, help="Before.")
@click.option("--to", metavar="REF", default="current", show_default=True, help="After.")
@click.option(
    "--address",
    metavar="GLOB",
    help="Only these, outputs as output.NAME; * is any text, ? any character.",
)
@click.option("--summary", is_flag=True, help="Only count what changed.")
@click.option(
    "--format",
    "fmt",
    type=click.Choice([*FORMATS, "unified"]),
    default="table",
    show_default=True,
    help="How to show the differences.",
)
@connection_options
def diff(
    state: str | None,
    from_: str,
    to: str,
    address: str | None,
    summary: bool,
    fmt: str,
    target: Target,
) -> None:
    """Show what differs between two versions of STATE, by default what the last write changed.

    REF is a version number, serial:N, @N (N back from the head), a tag, current or a time such as
    2026-11-30T10:00. Outputs are shown too. Of sensitive values only that they changed is shown.

    \b
    Examples:
        kl diff prod
        kl diff --from before-upgrade --address 'module.db.*' --format unified
        kl diff --from 2026-11-30T18:00 --summary
    """
    if summary and fmt == "unified":
        raise click.UsageError("--summary has no unified format.")
    name = state_of(target, state)
    found = ask(target, _ENDS, (name, from_, to)).rows
    ends = [[cell(value) or "" for value in row] for row in found]
    words = [f"version {v} (serial {s}, {at[:19]} by {who})" for v, s, at, who in ends]
    # What is found is what the numbers say, even if somebody writes meanwhile.
    asked = (name, ends[0][0], ends[1][0], _like(address))
    if summary:
        answer = ask(target, _SUMMARY, asked, _PATIENCE_S)
        show(answer, fmt)
    elif fmt == "unified":
        answer = ask(target, _DIFF, (*asked, "true"), _PATIENCE_S)
        for line in _unified(answer, name, words):
            colour = {"+": "green", "-": "red", "@": "cyan"}[line[0]]
            click.secho(printable(line), fg=colour)
    else:
        answer = ask(target, _DIFF, (*asked, "false"), _PATIENCE_S)
        if fmt == "table":
            _show_changes(answer)
        else:
            show(answer, fmt)
    if fmt == "table":
        click.echo(printable(f"{name}: {' to '.join(words)}"), err=True)
    if answer.truncated:
        click.echo(f"Only the first {len(answer.rows)} rows are shown; there are more.", err=True)


def _like(glob: str | None) -> str | None:
    """A glob as a pattern of LIKE; brackets are part of addresses.

    What it matches stands for its instances and what is in it, as an address does elsewhere.
    """
    if glob is None:
        return None
    meaning = {"*": "%", "?": "_", "%": r"\%", "_": r"\_", "\\": r"\\"}
    return "".join(meaning.get(c, c) for c in glob)


def _place(row: dict[str, str | None]) -> str:
    address = f"{'output.' if row.get('kind') == 'output' else ''}{row['address']}"
    return f"{address} (deposed {row['deposed_key']})" if row["deposed_key"] else address


def _records(answer: Answer) -> Iterator[dict[str, str | None]]:
    names = [column.name for column in answer.columns]
    for row in answer.rows:
        cells = {name: cell(value) for name, value in zip(names, row, strict=True)}
        for side in ("from", "to"):
            # A value stays JSON, but for a secret, which is none.
            raw = row[names.index(side)]
            secret = cells["sensitive"] == "true"
            cells[side] = None if raw == "null" else cells[side] if secret else raw
        yield cells


def _show_changes(answer: Answer, before: Sequence[str] = ()) -> None:
    """A line for each value that changed; what came or went as a whole shows no values."""
    lines = []
    for row in _records(answer):
        whole = row["change"] in ("create", "delete") and row.get("kind") != "output"
        values = ("", "") if whole else (_short(row["from"]), _short(row["to"]))
        lines.append(
            [*(row[b] for b in before), row["change"], _place(row), row["attribute"], *values]
        )
    headers = [*before, "change", "address", "attribute", "from", "to"]
    click.echo("\n".join(to_table(headers, lines)))


def _short(value: str | None) -> str:
    text = value or ""
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


def _unified(answer: Answer, state: str, ends: Sequence[str]) -> Iterator[str]:
    """Lines as of diff -u: what was with -, what is with +."""
    yield f"--- {state} {ends[0]}"
    yield f"+++ {state} {ends[1]}"
    whole = ("kind", "change", "address", "deposed_key", "from_address")
    for _, rows in groupby(_records(answer), key=lambda row: [row[name] for name in whole]):
        group = list(rows)
        yield f"@@ {group[0]['change']} {_place(group[0])} @@"
        for row in group:
            for sign, value in (("-", row["from"]), ("+", row["to"])):
                if value is not None:
                    yield f"{sign}{row['attribute'] or 'value'} = {value}"
