"""Reads what a plan file of terraform or tofu will change.

``terraform show -json`` tells the same and more, but loads every provider again and writes out the
whole state: seconds where the plan itself took seconds. The plan inside the file is a protocol
buffers message whose numbers are the same in Terraform and OpenTofu since 2021; a file that does
not look like that, an encrypted one for example, is read by ``show -json``.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

_FORMAT = 3
_ACTIONS = {
    0: ("no-op",),
    1: ("create",),
    2: ("read",),
    3: ("update",),
    5: ("delete",),
    6: ("delete", "create"),
    7: ("create", "delete"),
    8: ("forget",),
    9: ("create", "forget"),
}


class UnknownFormat(Exception):
    """The plan file is not of the format that is known here."""


@dataclass(frozen=True)
class Change:
    """What becomes of one object; actions are in the words of terraform's plan JSON."""

    address: str
    actions: tuple[str, ...]
    previous: str | None = None
    deposed: str | None = None
    importing: bool = False

    @property
    def mode(self) -> str:
        """Managed or data."""
        return mode_of(self.address)

    @property
    def writes(self) -> bool:
        """Whether an object in the state becomes another, or its address does."""
        return self.actions != ("no-op",) or self.previous is not None or self.importing

    @property
    def verb(self) -> str:
        """One word for people."""
        if len(self.actions) > 1:
            return "replace"
        if self.actions == ("no-op",):
            return "import" if self.importing else "move" if self.previous else "no-op"
        return self.actions[0]


@dataclass(frozen=True)
class Plan:
    """What a plan file holds."""

    changes: list[Change] = field(default_factory=list)
    drift: list[Change] = field(default_factory=list)
    outputs: dict[str, str] = field(default_factory=dict)
    """The outputs that change, and how."""
    variables: dict[str, Any] = field(default_factory=dict)
    version: str = ""


def read_plan(data: bytes, show: Callable[[], bytes]) -> Plan:
    """What a plan file holds; ``show`` gives its ``show -json``, where that is needed."""
    try:
        return decode(data)
    except UnknownFormat:
        return from_json(json.loads(show()))


def prior_state(data: bytes) -> bytes | None:
    """The state as the plan's refresh left it."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return archive.read("tfstate")
    except (zipfile.BadZipFile, KeyError):
        return None


def decode(data: bytes) -> Plan:
    """Read the plan inside a plan file."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            message = _message(archive.read("tfplan"))
        if message.get(1) != [_FORMAT]:
            raise UnknownFormat
        plan = Plan(
            changes=[_change(c) for c in message.get(3, ())],
            drift=_drifted(_change(c) for c in message.get(18, ())),
            version=_text(message, 14),
        )
        for raw in message.get(4, ()):
            output = _message(raw)
            action = _first(_message(_first(output, 2, b"")), 1, 0)
            if action:
                plan.outputs[_text(output, 1)] = _ACTIONS[action][0]
        for raw in message.get(2, ()):
            entry = _message(raw)
            value = _first(_message(_first(entry, 2, b"")), 1, b"")
            plan.variables[_text(entry, 1)] = _value(value)
        return plan
    except (
        zipfile.BadZipFile,
        KeyError,
        ValueError,
        TypeError,
        AttributeError,
        IndexError,
        struct.error,
    ) as ex:
        raise UnknownFormat(str(ex)) from None


def from_json(shown: dict[str, Any]) -> Plan:
    """The same from ``show -json``."""

    def change(entry: dict[str, Any]) -> Change:
        return Change(
            address=entry["address"],
            actions=tuple(entry["change"]["actions"]),
            previous=entry.get("previous_address"),
            deposed=entry.get("deposed"),
            importing=entry["change"].get("importing") is not None,
        )

    outputs = {
        name: output["actions"][0] for name, output in shown.get("output_changes", {}).items()
    }
    return Plan(
        changes=[change(c) for c in shown.get("resource_changes", ())],
        drift=_drifted(change(c) for c in shown.get("resource_drift", ())),
        outputs={name: action for name, action in outputs.items() if action != "no-op"},
        variables={n: v.get("value") for n, v in shown.get("variables", {}).items()},
        version=shown.get("terraform_version", ""),
    )


def mode_of(address: str) -> str:
    """Managed or data: the mode of the object that an address names."""
    return "data" if local_part(address).startswith("data.") else "managed"


def local_part(address: str) -> str:
    """An address without the module it is in."""
    return address[len(module_of(address)) :].lstrip(".")


def module_of(address: str) -> str:
    """The module instance that an address is in; empty at the root."""
    end = at = 0
    while address.startswith("module.", at):
        at += len("module.")
        while at < len(address) and address[at] not in ".[":
            at += 1
        if at < len(address) and address[at] == "[":
            at = key_end(address, at)
        end, at = at, at + 1
    return address[:end]


def parent_module(module: str) -> str:
    """The module instance that another one is in."""
    end = 0
    while True:
        at = module.index("module.", end) + len("module.")
        while at < len(module) and module[at] not in ".[":
            at += 1
        if at < len(module) and module[at] == "[":
            at = key_end(module, at)
        if at >= len(module):
            return module[: max(end - 1, 0)]
        end = at + 1


def key_end(address: str, at: int) -> int:
    """Where the instance key that begins at ``at`` ends."""
    quoted = address.startswith('["', at)
    at += 2 if quoted else 1
    while at < len(address):
        if quoted and address[at] == "\\":
            at += 2
            continue
        if quoted and address[at] == '"':
            quoted = False
        elif not quoted and address[at] == "]":
            return at + 1
        at += 1
    return at


def without_keys(address: str) -> str:
    """An address as the configuration has it: without any instance key."""
    parts, at = [], 0
    while at < len(address):
        start = address.find("[", at)
        if start < 0:
            parts.append(address[at:])
            break
        parts.append(address[at:start])
        at = key_end(address, start)
    return "".join(parts)


def _drifted(changes: Iterable[Change]) -> list[Change]:
    # An object that only moved stands there too, or does not.
    return [change for change in changes if change.actions != ("no-op",)]


def _change(raw: bytes) -> Change:
    message = _message(raw)
    change = _message(_first(message, 9, b""))
    number = _first(change, 1, 0)
    return Change(
        address=_text(message, 13),
        # An action that is not known yet does something.
        actions=_ACTIONS.get(number, (f"action-{number}",)),
        previous=_text(message, 14) or None,
        deposed=_text(message, 7) or None,
        importing=5 in change,
    )


def _message(data: bytes) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        value: Any
        if kind == 0:
            value, at = _varint(data, at)
        elif kind == 2:
            length, at = _varint(data, at)
            value, at = data[at : at + length], at + length
            if len(value) != length:
                raise UnknownFormat("a field is cut off")
        elif kind in (1, 5):
            width = 8 if kind == 1 else 4
            value, at = data[at : at + width], at + width
        else:
            raise UnknownFormat(f"wire type {kind}")
        found.setdefault(number, []).append(value)
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _first(message: dict[int, list[Any]], number: int, default: Any) -> Any:
    return message.get(number, (default,))[0]


def _text(message: dict[int, list[Any]], number: int) -> str:
    return str(_first(message, number, b"").decode())


def _value(data: bytes) -> Any:
    """A value in MessagePack together with its type, as terraform keeps those of variables."""
    stream = _unpack(data)
    kind, value = stream
    return _typed(value, json.loads(kind))


def _typed(value: Any, kind: Any) -> Any:
    if value is None:
        return None
    if kind == "number" and isinstance(value, str):
        # More digits than a double holds.
        return int(value) if value.lstrip("-").isdigit() else float(value)
    if kind == "dynamic":
        return _typed(value[1], json.loads(value[0]))
    if isinstance(kind, list):
        outer, inner = kind[0], kind[1]
        if outer in ("list", "set"):
            return [_typed(v, inner) for v in value]
        if outer == "map":
            return {k: _typed(v, inner) for k, v in value.items()}
        if outer == "tuple":
            return [_typed(v, k) for v, k in zip(value, inner, strict=True)]
        if outer == "object":
            return {k: _typed(v, inner[k]) for k, v in value.items()}
        raise UnknownFormat(f"type {outer}")
    return value


def _unpack(data: bytes) -> Any:
    stream = io.BytesIO(data)

    def number(form: str) -> Any:
        return struct.unpack(">" + form, stream.read(struct.calcsize(form)))[0]

    def text(length: int) -> str:
        return stream.read(length).decode()

    def items(length: int) -> Iterator[Any]:
        return (one() for _ in range(length))

    def mapping(length: int) -> dict[str, Any]:
        return {one(): one() for _ in range(length)}

    def one() -> Any:
        tag = number("B")
        if tag < 0x80:
            return tag
        if tag < 0x90:
            return mapping(tag & 0x0F)
        if tag < 0xA0:
            return list(items(tag & 0x0F))
        if tag < 0xC0:
            return text(tag & 0x1F)
        if tag >= 0xE0:
            return tag - 0x100
        if tag in (0xC0, 0xC2, 0xC3):
            return {0xC0: None, 0xC2: False, 0xC3: True}[tag]
        if tag in _NUMBERS:
            return number(_NUMBERS[tag])
        length = number(_LENGTHS[tag])
        if tag in (0xC4, 0xC5, 0xC6, 0xD9, 0xDA, 0xDB):
            return text(length)
        if tag in (0xDC, 0xDD):
            return list(items(length))
        return mapping(length)

    return one()


_NUMBERS = {
    0xCA: "f",
    0xCB: "d",
    0xCC: "B",
    0xCD: "H",
    0xCE: "I",
    0xCF: "Q",
    0xD0: "b",
    0xD1: "h",
    0xD2: "i",
    0xD3: "q",
}
_LENGTHS = {
    0xC4: "B",
    0xC5: "H",
    0xC6: "I",
    0xD9: "B",
    0xDA: "H",
    0xDB: "I",
    0xDC: "H",
    0xDD: "I",
    0xDE: "H",
    0xDF: "I",
}
