"""``kl export`` and ``kl import``: states, and whole histories, out of Kilolock and in again."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from kilolock.console import connection_options, state_of, who
from kilolock.discovery import SourceError, Target
from kilolock.errors import BAD_INPUT
from kilolock.files import new_file, old_file
from kilolock.output import size

if TYPE_CHECKING:
    from kilolock.archive import Readable

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
@click.option("--archive", metavar="FILE", help="Write the whole history to FILE, or to -.")
@connection_options
def export(
    state: str | None, ref: str | None, output: str | None, archive: str | None, target: Target
) -> None:
    """Write a version of STATE byte for byte as it was stored, by default the current one.

    With --archive it is every version, with who wrote it and when, the tags and the events, in
    one compressed file for kl import. STATE is this directory's unless named. A FILE is there only
    once it is complete, and only its owner can read it: states hold secrets.

    \b
    Examples:
        kl export prod > prod.tfstate
        kl export prod --version @1 -o before.tfstate
        kl export --archive prod.klarchive prod
    """
    name = state_of(target, state)
    if archive is not None:
        if ref is not None or output is not None:
            raise click.UsageError(
                "--archive holds every version and takes no --version and no -o."
            )
        _export_archive(target, name, archive)
        return
    version, body = target.source().read(name, ref)
    with new_file(output or "-") as file:
        file.write(body)
    if output not in (None, "-"):
        click.echo(f"Wrote version {version} of {name} to {output} ({size(len(body))}).", err=True)


@click.command("import")
@click.argument("file", required=False)
@click.option("--name", metavar="NAME", help="The state to write; an archive brings its own name.")
@click.option(
    "--source",
    type=click.Choice(SOURCES),
    help="What the new version is said to come from; import unless told.",
)
@click.option(
    "--force", is_flag=True, help="Take another lineage, and a serial that is not higher."
)
@click.option("--archive", metavar="FILE", help="Make a state of an archive, with all its past.")
@connection_options
def import_(
    file: str | None,
    name: str | None,
    source: str | None,
    force: bool,
    archive: str | None,
    target: Target,
) -> None:
    """Store the state in FILE, or in - (standard input), as the next version of NAME.

    NAME is made if it is not there. Otherwise the file must have its lineage and a higher serial,
    or be what it has already; --force takes anything, but not past a lock that another holds.
    With --archive, all of an archive becomes a state that was not there before.

    \b
    Examples:
        kl import --name prod terraform.tfstate
        terraform state pull | kl import --name copy -
        kl import --name prod --force errored.tfstate
        kl import --archive prod.klarchive --name prod-copy
    """
    if archive is not None:
        if file is not None or source is not None or force:
            raise click.UsageError("--archive takes no other FILE, no --source and no --force.")
        _import_archive(target, archive, name)
        return
    if file is None:
        raise click.UsageError("name the FILE to import, or an archive with --archive.")
    if not name:
        raise click.UsageError("say with --name which state to write.")
    with old_file(file) as stream:
        body = stream.read()
    done = target.source().write(name, body, who(), source or "import", force)
    if not done["changed"]:
        said = f"{name} has this document already, as version {done['version']}."
    else:
        counts = ", ".join(f"{done[k]} {k}" for k in ("created", "updated", "moved", "deleted"))
        said = f"Wrote version {done['version']} of {name}, serial {done['serial']}: {counts}."
    click.echo(said, err=True)


def _export_archive(target: Target, name: str, archive: str) -> None:
    from kilolock.archive import ArchiveError, unpack

    if archive == "-" and os.isatty(1):
        raise click.UsageError("an archive is not for a terminal; name a file.")
    with new_file(archive) as file, target.source().read_archive(name) as pieces:
        copy = _Copy(pieces, file)
        versions = 0
        try:
            # Read again what goes into the file: a kld that stops half-way leaves no end.
            for record in unpack(copy):
                versions += record.kind == "V"
        except ArchiveError as ex:
            raise SourceError(f"the archive did not arrive whole: {ex}", 1) from None
    counted = f"{versions} version{'' if versions == 1 else 's'}"
    if archive != "-":
        click.echo(f"Wrote {counted} of {name} to {archive} ({size(copy.count)}).", err=True)


def _import_archive(target: Target, archive: str, name: str | None) -> None:
    from kilolock.archive import ArchiveError, read_header

    with old_file(archive) as file:
        try:
            header, seen = read_header(file)
        except ArchiveError as ex:
            raise SourceError(f"{archive}: {ex}", BAD_INPUT) from None
        info = os.fstat(file.fileno())
        length = info.st_size - file.tell() + len(seen) if stat.S_ISREG(info.st_mode) else None
        state = name or str(header.get("state") or "")
        if not state:
            raise click.UsageError("the archive names no state; give one with --name.")
        done = target.source().write_archive(state, _Again(seen, file), length, who())
    counts = ", ".join(
        f"{done[k]} {k if done[k] != 1 else k[:-1]}" for k in ("versions", "tags", "events")
    )
    click.echo(f"Made {done['state']} as it was at version {done['version']}: {counts}.", err=True)


class _Copy:
    """Pieces as a file to read, which writes down whatever was read."""

    def __init__(self, pieces: Any, file: BinaryIO) -> None:
        self._pieces: Iterator[bytes] = iter(pieces)
        self._file = file
        self._rest = memoryview(b"")
        self.count = 0

    def read(self, count: int, /) -> bytes:
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return b""
            self._file.write(piece)
            self.count += len(piece)
            self._rest = memoryview(piece)
        data, self._rest = self._rest[:count], self._rest[count:]
        return bytes(data)


class _Again:
    """A file of which something was read already."""

    def __init__(self, seen: bytes, file: Readable) -> None:
        self._seen = seen
        self._file = file

    def read(self, count: int, /) -> bytes:
        if not self._seen:
            return self._file.read(count)
        data, self._seen = self._seen[:count], self._seen[count:]
        return data
