"""Rows to an aligned table, CSV or JSON."""

from __future__ import annotations

import csv
import io
import json
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kilolock.db import Answer

FORMATS = ("table", "json", "csv")


def cell(raw: str) -> str | None:
    """What a person reads for a JSON value: a string without its quotes, None for null."""
    if raw == "null":
        return None
    if raw.startswith('"'):
        return str(json.loads(raw, strict=False))
    return raw


def to_csv(answer: Answer) -> str:
    """The answer as CSV with a header; null is an empty field."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([column.name for column in answer.columns])
    writer.writerows([cell(value) for value in row] for row in answer.rows)
    return out.getvalue()


def to_json(answer: Answer) -> str:
    """The answer as a JSON array of objects, every value as PostgreSQL wrote it."""
    names = [json.dumps(column.name, ensure_ascii=False) for column in answer.columns]
    objects = (
        "{" + ", ".join(f"{name}: {value}" for name, value in zip(names, row, strict=True)) + "}" for row in answer.rows
    )
    return "[" + ",\n ".join(objects) + "]\n"


def to_wire(answer: Answer) -> str:
    """The answer as POST /v1/query sends it."""
    columns = json.dumps([column._asdict() for column in answer.columns], ensure_ascii=False)
    rows = ",\n".join("[" + ",".join(row) + "]" for row in answer.rows)
    return f'{{"columns":{columns},"rows":[{rows}],"truncated":{json.dumps(answer.truncated)}}}\n'


def to_table(headers: Sequence[str], rows: Iterable[Sequence[str | None]]) -> Iterator[str]:
    """Lines of left-aligned columns, two spaces apart, no digit changed and no line broken."""
    lines = [[_printable(header) for header in headers]]
    lines += [[_printable(value or "") for value in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = (text + " " * (width - _width(text)) for text, width in zip(line, widths, strict=True))
        yield "  ".join(padded).rstrip()


def render(answer: Answer, fmt: str) -> str:
    """The answer in one of FORMATS."""
    if fmt == "csv":
        return to_csv(answer)
    if fmt == "json":
        return to_json(answer)
    headers = [column.name for column in answer.columns]
    return "".join(line + "\n" for line in to_table(headers, ([cell(v) for v in row] for row in answer.rows)))


def size(octets: int) -> str:
    """A number of bytes for people."""
    amount: Any = octets
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1024 or unit == "GB":
            break
        amount /= 1024
    return f"{amount} B" if unit == "B" else f"{amount:.1f} {unit}"


def _printable(text: str) -> str:
    # What a state holds must not move the cursor of whoever looks at it.
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text)
