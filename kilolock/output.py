"""Rows to an aligned table, CSV or JSON."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

FORMATS = ("table", "json", "csv")

# Only where a value ends is asked for: no number is made, since Python refuses very long ones.
_scan = json.JSONDecoder(strict=False, parse_int=str, parse_float=str).scan_once  # type: ignore[attr-defined]
_scan_string = json.decoder.scanstring  # type: ignore[attr-defined]
_SPACE = re.compile(r"[ \t\r\n]*")
_BRACKET = re.compile(r'[^"{}\[\]]*+(?:"(?:[^"\\]|\\.)*+"[^"{}\[\]]*+)*+([{}\[\]])', re.DOTALL)


class Column(NamedTuple):
    """A column of a query's answer."""

    name: str
    type: str


@dataclass(frozen=True)
class Answer:
    """A query's rows; a value is the JSON text that PostgreSQL made of it, so no digit is lost."""

    columns: list[Column]
    rows: list[list[str]]
    truncated: bool


def json_parts(text: str) -> list[str]:
    """The texts of the values of a JSON array or object, in order, every digit as it was."""
    parts = []
    keyed = text.startswith("{")
    at = _skip(text, 1)
    while text[at] not in "}]":
        if text[at] == ",":
            at = _skip(text, at + 1)
        if keyed:
            _, at = _scan_string(text, at + 1, False)
            at = _skip(text, _skip(text, at) + 1)
        end = _end_of_value(text, at)
        parts.append(text[at:end])
        at = _skip(text, end)
    return parts


def cell(raw: str) -> str | None:
    """What a person reads for a JSON value: a string without its quotes, None for null."""
    if raw == "null":
        return None
    if raw.startswith('"'):
        return str(json.loads(raw, strict=False))
    return raw


def to_csv(answer: Answer) -> str:
    """The answer as CSV with a header; null is an empty field."""
    import csv
    import io

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([column.name for column in answer.columns])
    writer.writerows([cell(value) for value in row] for row in answer.rows)
    return out.getvalue()


def to_json(answer: Answer) -> str:
    """The answer as a JSON array of objects, every value as PostgreSQL wrote it."""
    names = [json.dumps(column.name, ensure_ascii=False) for column in answer.columns]
    objects = (
        "{" + ", ".join(f"{name}: {value}" for name, value in zip(names, row, strict=True)) + "}"
        for row in answer.rows
    )
    return "[" + ",\n ".join(objects) + "]\n"


def to_wire(answer: Answer) -> str:
    """The answer as POST /v1/query sends it."""
    columns = json.dumps([column._asdict() for column in answer.columns], ensure_ascii=False)
    rows = ",\n".join("[" + ",".join(row) + "]" for row in answer.rows)
    return f'{{"columns":{columns},"rows":[{rows}],"truncated":{json.dumps(answer.truncated)}}}\n'


def from_wire(text: str) -> Answer:
    """What ``to_wire`` wrote."""
    columns, rows, truncated = json_parts(text)
    return Answer(
        [Column(**c) for c in json.loads(columns)],
        list(map(json_parts, json_parts(rows))),
        truncated == "true",
    )


def to_table(headers: Sequence[str], rows: Iterable[Sequence[str | None]]) -> Iterator[str]:
    """Lines of left-aligned columns, two spaces apart, no digit changed and no line broken."""
    import tabulate

    tabulate.PRESERVE_WHITESPACE = True
    tabulate.MIN_PADDING = 0
    table = tabulate.tabulate(
        [[printable(value or "") for value in row] for row in rows],
        headers=[printable(header) for header in headers],
        tablefmt="plain",
        disable_numparse=True,
    )
    return (line.rstrip() for line in table.split("\n"))


def render(answer: Answer, fmt: str) -> str:
    """The answer in one of FORMATS."""
    if fmt == "csv":
        return to_csv(answer)
    if fmt == "json":
        return to_json(answer)
    headers = [column.name for column in answer.columns]
    return "".join(
        line + "\n" for line in to_table(headers, ([cell(v) for v in row] for row in answer.rows))
    )


def unread(stream: Any) -> None:
    """Nobody reads a stream any more: let what follows go nowhere, without an error."""
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def size(octets: int) -> str:
    """A number of bytes for people."""
    amount: Any = octets
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1024 or unit == "GB":
            break
        amount /= 1024
    return f"{amount} B" if unit == "B" else f"{amount:.1f} {unit}"


def printable(text: str) -> str:
    """A text with what could move a cursor or break a line escaped."""
    # What a state holds must not move the cursor of whoever looks at it.
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _end_of_value(text: str, at: int) -> int:
    try:
        return int(_scan(text, at)[1])
    except RecursionError:
        # PostgreSQL nests deeper than Python's scanner does.
        depth = 0
        for bracket in _BRACKET.finditer(text, at):
            depth += 1 if bracket[1] in "{[" else -1
            if depth == 0:
                return bracket.end()
        raise


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
