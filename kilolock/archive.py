"""The file format of archives: records, packed and sealed one by one. See archive-format.md.

This module frames and checks; what records say is made and understood in SQL.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

if TYPE_CHECKING:
    from kilolock.db import Database

MAGIC = b"kilolock-archive 1\n"
_FORMAT = re.compile(rb"kilolock-archive ([1-9][0-9]{0,8})\n")
_FRAME = struct.Struct(">cII32s")
_SIZES = struct.Struct(">cII")
_KINDS = b"HCVDSOTREZ"
_END = b"Z"
_LEVEL = 6
# A PostgreSQL value ends at 1 GiB, so no record is longer.
_MOST = 1 << 30
_BLOCK = 1 << 20


class ArchiveError(Exception):
    """A file that is no archive, or no longer what it was; the message says where."""

    def __init__(self, message: str, offset: int, record: int, version: int | None = None) -> None:
        place = f"at byte {offset}"
        if record >= 0:
            place += f", in record {record}"
        if version is not None:
            place += f" behind version {version}"
        super().__init__(f"{message} ({place})")
        self.offset = offset
        self.record = record
        self.version = version


class Readable(Protocol):
    """What an archive is read from."""

    def read(self, count: int, /) -> bytes:
        """Up to that many bytes; none at the end."""


@dataclass(frozen=True)
class Record:
    """One record: its number, the byte of the file where it begins, and what it holds."""

    number: int
    offset: int
    kind: str
    data: bytes

    @property
    def json(self) -> Any:
        """The content of every kind but C."""
        return json.loads(self.data)


@dataclass
class Summary:
    """What an archive holds, as its records say."""

    header: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            ("versions", "pruned", "chunks", "deletes", "tags", "refreshes", "events"), 0
        )
    )
    document_bytes: int = 0
    size: int = 0

    def add(self, record: Record) -> None:
        """Count a record."""
        match record.kind:
            case "H":
                self.header = dict(record.json)
            case "C":
                self.counts["chunks"] += 1
            case "V":
                self.counts["versions"] += 1
                self.counts["pruned"] += record.json["pruned_at"] is not None
            case "D":
                self.counts["deletes"] += 1
            case "T":
                self.counts["tags"] += len(record.json)
            case "R":
                self.counts["refreshes"] += len(record.json)
            case "E":
                self.counts["events"] += len(record.json)


class Packed:
    """The bytes of an archive, made while they are read."""

    def __init__(self, records: Iterable[bytes], close: Callable[[], None]) -> None:
        self._records = records
        self.close = close

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from _pack(self._records)
        finally:
            self.close()


def unpack(file: Readable) -> Iterator[Record]:
    """The records of an archive; an ArchiveError where it is not as it was written."""
    return _Reader(file).records()


def verify(file: BinaryIO) -> Summary:
    """Read all of an archive, and go back in the file for every document of it."""
    reader = _Reader(file)
    summary = Summary()
    places: dict[int, int] = {}
    for record in reader.records():
        try:
            summary.add(record)
            if record.kind == "C":
                places[record.number] = record.offset
            elif record.kind == "V" and (chunks := record.json["chunks"]) is not None:
                here = file.tell()
                document = _document(file, chunks, places)
                file.seek(here)
                if document != (record.json["size"], record.json["md5"]):
                    raise reader.fault("does not hold this version's document", record)
                summary.document_bytes += document[0]
        except (ValueError, KeyError, TypeError, AttributeError, zlib.error, struct.error):
            raise reader.fault("is not readable", record) from None
    for name, count in summary.counts.items():
        if summary.header.get(name, count) != count:
            raise ArchiveError(f"the archive does not hold the {name} that its header counts", 0, 0)
    summary.size = file.tell()
    return summary


def read_header(file: Readable) -> tuple[dict[str, Any], bytes]:
    """The header of an archive, and the bytes that were read to see it."""
    seen = _Seen(file)
    for record in unpack(seen):
        header: dict[str, Any] = record.json
        return header, bytes(seen.data)
    raise AssertionError("unpack gives a header or raises")


def restore(
    db: Database,
    file: Readable,
    address: tuple[str | None, str | None, str],
    actor: str | None,
    is_wanted: Callable[[], bool] = lambda: True,
) -> str:
    """Import an archive in one transaction; what was made, as JSON."""
    archive_id = str(uuid.uuid4())
    with db.transaction() as call:
        for record in unpack(file):
            call("stage_archive_record", archive_id, record.number, record.kind, record.data)
        done = call("import_archive", *address, archive_id, actor)
        if not is_wanted():
            raise ConnectionAbortedError("the client went away while its archive was imported")
    return done or "null"


class _Reader:
    def __init__(self, file: Readable) -> None:
        self._file = file
        self._offset = 0
        self._number = -1
        self._version: int | None = None

    def fault(self, what: str, record: Record | None = None) -> ArchiveError:
        """That something is wrong where the reader is, or with a record."""
        offset = record.offset if record else self._offset
        number = record.number if record else self._number
        return ArchiveError(f"the archive {what}", offset, number, self._version)

    def records(self) -> Iterator[Record]:
        seal = hashlib.sha256(_read_magic(self._file)).digest()
        self._offset, self._number = len(MAGIC), 0
        while True:
            frame = _take(self._file, _FRAME.size)
            if len(frame) < _FRAME.size:
                raise self.fault("is cut short")
            kind, packed_size, size, given = _FRAME.unpack(frame)
            if kind not in _KINDS or size > _MOST or packed_size > size + size // 1000 + 64:
                raise self.fault("is damaged")
            packed = _take(self._file, packed_size)
            if len(packed) < packed_size:
                raise self.fault("is cut short or damaged")
            seal = _seal(seal, frame[: _SIZES.size], packed)
            data = _unzip(packed, size) if seal == given else None
            if data is None:
                raise self.fault("is damaged")
            if (kind == b"H") != (self._number == 0):
                raise self.fault("is not in order")
            record = Record(self._number, self._offset, kind.decode(), data)
            if kind == b"V":
                self._note_version(record)
            self._offset += _FRAME.size + packed_size
            if kind == _END:
                break
            yield record
            self._number += 1
        if data != _end(self._number):
            raise self.fault("is not complete")
        if self._file.read(1):
            self._number += 1
            raise self.fault("is followed by something else")

    def _note_version(self, record: Record) -> None:
        try:
            version = int(record.json["version"])
        except (ValueError, KeyError, TypeError, RecursionError):
            raise self.fault("is not readable") from None
        if self._version is not None and version <= self._version:
            raise self.fault("is not in order")
        self._version = version


def _pack(records: Iterable[bytes]) -> Iterator[bytes]:
    yield MAGIC
    seal = hashlib.sha256(MAGIC).digest()
    count = 0
    for record in records:
        seal, frame = _frame(seal, record[:1], memoryview(record)[1:])
        yield frame
        count += 1
    yield _frame(seal, _END, _end(count))[1]


def _end(count: int) -> bytes:
    return json.dumps({"records": count}).encode()


def _frame(seal: bytes, kind: bytes, data: bytes | memoryview) -> tuple[bytes, bytes]:
    packed = zlib.compress(data, _LEVEL)
    sizes = _SIZES.pack(kind, len(packed), len(data))
    seal = _seal(seal, sizes, packed)
    return seal, sizes + seal + packed


def _seal(before: bytes, sizes: bytes, packed: bytes) -> bytes:
    digest = hashlib.sha256(before)
    digest.update(sizes)
    digest.update(packed)
    return digest.digest()


def _unzip(packed: bytes, size: int) -> bytes | None:
    unzip = zlib.decompressobj()
    try:
        data = unzip.decompress(packed, size + 1)
    except zlib.error:
        return None
    return data if len(data) == size and unzip.eof and not unzip.unused_data else None


def _read_magic(file: Readable) -> bytes:
    start = _take(file, len(MAGIC))
    if start == MAGIC:
        return start
    if not start:
        raise ArchiveError("the file is empty", 0, -1)
    if MAGIC.startswith(start):
        raise ArchiveError("the archive is cut short", len(start), -1)
    found = _FORMAT.match(start + _take(file, 9))
    if found and found[1] != b"1":
        raise ArchiveError(
            f"the archive has format {int(found[1])}, and this release knows format 1 only: "
            "it was written by a newer release",
            0,
            -1,
        )
    if start.lstrip().startswith(b"{"):
        raise ArchiveError(
            "this is no archive; if it is a state, import it without --archive", 0, -1
        )
    raise ArchiveError("this is no Kilolock archive", 0, -1)


def _take(file: Readable, count: int) -> bytes:
    # Piece by piece, so that a length that cannot be true takes no memory.
    parts: list[bytes] = []
    while count > 0 and (part := file.read(min(count, _BLOCK))):
        parts.append(part)
        count -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _document(
    file: BinaryIO, stretches: list[list[int]], places: dict[int, int]
) -> tuple[int, str]:
    """Size and MD5 of a document that the file holds in these records."""
    digest, total = hashlib.md5(), 0
    for first, count in stretches:
        for number in range(first, first + count):
            file.seek(places[number])
            _, packed_size, size, _ = _FRAME.unpack(file.read(_FRAME.size))
            data = zlib.decompress(file.read(packed_size))
            digest.update(data)
            total += len(data)
    return total, digest.hexdigest()


class _Seen:
    def __init__(self, file: Readable) -> None:
        self._file = file
        self.data = bytearray()

    def read(self, count: int, /) -> bytes:
        data = self._file.read(count)
        self.data += data
        return data
