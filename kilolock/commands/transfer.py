"""``kl export`` and ``kl import``: states out of Kilolock and in again."""

from __future__ import annotations

import click

from kilolock.console import connection_options, state_of, who
from kilolock.discovery import Target
from kilolock.files import new_file, old_file
from kilolock.output import size

SOURCES = ("import", "apply", "refresh")


@click.command("export")
@click.argument("state", required=False)
@click.option(
    "--version",
    "ref",
    metavar="REF",
    help="A version number, serial:N, @N (N back), a tag, or a time such as 2026-11-30T10:00.",
)
@click.option("-o", "--output", metavar="FILE", help="Write to FILE instead of standard output.")
@connection_options
def export(state: str | None, ref: str | None, output: str | None, target: Target) -> None:
    """Write a version of STATE byte for byte as it was stored, by default the current one.

    STATE is this directory's unless named. A FILE is there only once it is complete, and only
    its owner can read it: states hold secrets.

    \b
    Examples:
        kl export prod > prod.tfstate
        kl export prod --version @1 -o before.tfstate
    """
    name = state_of(target, state)
    version, body = target.source().read(name, ref)
    with new_file(output or "-") as file:
        file.write(body)
    if output not in (None, "-"):
        click.echo(f"Wrote version {version} of {name} to {output} ({size(len(body))}).", err=True)


@click.command("import")
@click.argument("file")
@click.option("--name", metavar="NAME", required=True, help="The state to write.")
@click.option(
    "--source",
    type=click.Choice(SOURCES),
    default="import",
    show_default=True,
    help="What the new version is said to come from.",
)
@click.option(
    "--force", is_flag=True, help="Take another lineage, and a serial that is not higher."
)
@connection_options
def import_(file: str, name: str, source: str, force: bool, target: Target) -> None:
    """Store the state in FILE, or in - (standard input), as the next version of NAME.

    NAME is made if it is not there. Otherwise the file must have its lineage and a higher serial,
    or be what it has already; --force takes anything, but not past a lock that another holds.

    \b
    Examples:
        kl import --name prod terraform.tfstate
        terraform state pull | kl import --name copy -
        kl import --name prod --force errored.tfstate
    """
    with old_file(file) as stream:
        body = stream.read()
    done = target.source().write(name, body, who(), source, force)
    if not done["changed"]:
        said = f"{name} has this document already, as version {done['version']}."
    else:
        counts = ", ".join(f"{done[k]} {k}" for k in ("created", "updated", "moved", "deleted"))
        said = f"Wrote version {done['version']} of {name}, serial {done['serial']}: {counts}."
    click.echo(said, err=True)
