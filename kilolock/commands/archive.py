"""``kl archive``: what can be done with an archive without a database."""

from __future__ import annotations

import shutil
import tempfile
from typing import TYPE_CHECKING, BinaryIO

import click

from kilolock.console import Group, moment
from kilolock.discovery import SourceError
from kilolock.errors import BAD_INPUT
from kilolock.files import old_file
from kilolock.output import size

if TYPE_CHECKING:
    from kilolock.archive import Summary


@click.group(cls=Group)
def archive() -> None:
    """Look into archives that kl export --archive wrote.

    \b
    Example:
        kl archive verify prod.klarchive
    """


@archive.command("verify")
@click.argument("file")
def verify(file: str) -> None:
    """Check every byte of the archive FILE, or of - (standard input), and every document in it.

    Needs no database. The exit status is 2, and the message says where, if anything is not as it
    was written.

    \b
    Example:
        kl archive verify prod.klarchive
    """
    from kilolock.archive import ArchiveError, verify

    with old_file(file) as stream:
        try:
            summary = verify(_searchable(stream))
        except ArchiveError as ex:
            raise SourceError(f"{file}: {ex}", BAD_INPUT) from None
    click.echo("\n".join(_describe(summary)))


def _searchable(stream: BinaryIO) -> BinaryIO:
    if stream.seekable():
        return stream
    spool = tempfile.TemporaryFile()  # noqa: SIM115
    shutil.copyfileobj(stream, spool)
    spool.seek(0)
    return spool


def _describe(summary: Summary) -> list[str]:
    header, counts = summary.header, summary.counts
    versions = str(counts["versions"])
    if counts["pruned"]:
        versions += f", {counts['pruned']} of them pruned"
    lines = [
        ("State", header.get("state")),
        ("Lineage", header.get("lineage")),
        ("Serial", header.get("serial")),
        ("Exported", moment(header.get("exported_at"))),
        ("Versions", versions),
        ("Deletes", counts["deletes"]),
        ("Tags", counts["tags"]),
        ("Refreshes", counts["refreshes"]),
        ("Events", counts["events"]),
        ("Documents", size(summary.document_bytes)),
        ("Archive", f"{size(summary.size)}, every byte as it was written"),
    ]
    return [
        f"{label + ':':<11}{''.join(c for c in str(value) if c.isprintable())}"
        for label, value in lines
    ]
