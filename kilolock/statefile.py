"""Reads a state file in pieces of its own text, and tells what changed from one to another.

A piece is an instance, an output or a check result exactly as it stands in the file, so that
numbers and escapes survive. Terraform always lays its files out the same way, which makes cutting
cheap: lines at a known depth. A file laid out otherwise is laid out anew first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any

from kilolock.hcl import quote_key
from kilolock.planfile import module_of, parent_module, without_keys

_INDEX_KEY = b'\n          "index_key": '
_DEPOSED = b'\n          "deposed": '
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+', re.DOTALL)
_DECODER = json.JSONDecoder()
_LAID_OUT = re.compile(rb'\{\n  "version": \d+,\n')

Key = tuple[str, str | None]
"""The address of an object and its deposed key."""


@dataclass(frozen=True)
class Instance:
    """One object of the state: the header of its resource, and its text."""

    header: dict[str, Any]
    text: bytes


@dataclass(frozen=True)
class StateFile:
    """A state file cut into pieces."""

    data: bytes
    instances: dict[Key, Instance] = field(default_factory=dict)
    outputs: dict[str, bytes] = field(default_factory=dict)
    checks: dict[tuple[str, str], bytes] = field(default_factory=dict)
    _resources: dict[bytes, dict[Key, Instance]] = field(default_factory=dict)

    @classmethod
    def of(cls, data: bytes | None, like: StateFile | None = None) -> StateFile:
        """Cut a document; no document is an empty state.

        ``like`` is a file that this one comes from: what is the same in it is not cut again.
        """
        if data is None:
            return cls(b"")
        if not _LAID_OUT.match(data):
            data = lay_out(data)
        file = cls(data)
        file._cut(like._resources if like else {})
        return file

    @property
    def lineage(self) -> str | None:
        """The lineage, for comparing."""
        found: str | None = self._head("lineage")
        return found

    @property
    def serial(self) -> int:
        """The serial."""
        return int(self._head("serial") or 0)

    @property
    def terraform_version(self) -> str | None:
        """The program that wrote it."""
        found: str | None = self._head("terraform_version")
        return found

    def _head(self, name: str) -> Any:
        found = re.search(rb'^  "' + name.encode() + rb'": (.*?),?$', self.data, re.MULTILINE)
        return json.loads(found.group(1)) if found else None

    @cached_property
    def blocks(self) -> dict[str, set[str]]:
        """The addresses of the resources, without instance keys, by what the configuration calls
        them: a module that is called several times has several."""
        found: dict[str, set[str]] = {}
        for header in {id(i.header): i.header for i in self.instances.values()}.values():
            address = block_address(header)
            found.setdefault(without_keys(address), set()).add(address)
        return found

    @cached_property
    def modules(self) -> set[str]:
        """The module instances that anything is in."""
        found: set[str] = set()
        for addresses in self.blocks.values():
            for address in addresses:
                module = module_of(address)
                while module and module not in found:
                    found.add(module)
                    module = parent_module(module)
        return found

    def dependencies(self, address: str) -> list[str]:
        """What the objects at an address were recorded to depend on, without keys."""
        found: list[str] = []
        for key in self._keys.get(address, ()):
            found += json.loads(self.instances[key].text).get("dependencies") or ()
        return found

    @cached_property
    def _keys(self) -> dict[str, list[Key]]:
        found: dict[str, list[Key]] = {}
        for key in self.instances:
            found.setdefault(key[0], []).append(key)
        return found

    def _cut(self, known: dict[bytes, dict[Key, Instance]]) -> None:
        for resource in _elements(_section(self.data, b"resources", b"["), 4):
            found = known.get(resource)
            if found is None:
                found = _cut_resource(resource)
            self._resources[resource] = found
            self.instances.update(found)
        for member in _members(_section(self.data, b"outputs", b"{")):
            name, end = _DECODER.raw_decode(member)
            self.outputs[name] = member[end + 2 :].encode()
        for text in _elements(_section(self.data, b"check_results", b"["), 4):
            check = json.loads(text)
            self.checks[check["object_kind"], check["config_addr"]] = text


def _cut_resource(resource: bytes) -> dict[Key, Instance]:
    head, found, rest = resource.partition(b'\n      "instances": [')
    if not found or rest.startswith(b"]"):
        return {}
    header = json.loads(head.rstrip(b", \n") + b"}")
    address = block_address(header)
    instances = {}
    for text in _elements(rest[: rest.rindex(b"\n      ]") + 1], 8):
        name, key = address, _field(text, _INDEX_KEY)
        if key is not None:
            quoted = key.startswith(b'"')
            name = f"{address}[{quote_key(json.loads(key)) if quoted else key.decode()}]"
        deposed = _field(text, _DEPOSED)
        place = (name, None if deposed is None else json.loads(deposed))
        instances[place] = Instance(header, text)
    return instances


def block_address(header: dict[str, Any]) -> str:
    """The address of a resource in a state file."""
    module = f"{header['module']}." if header.get("module") else ""
    mode = "data." if header["mode"] == "data" else ""
    return f"{module}{mode}{header['type']}.{header['name']}"


def any_covers(uppers: Collection[str], address: str) -> bool:
    """Whether one of many addresses is another or contains it."""
    if address in uppers:
        return True
    return any(address[: match.start()] in uppers for match in re.finditer(r"[.\[]", address))


def delta(base: StateFile, result: StateFile, writes: Collection[str]) -> dict[str, Any]:
    """What turns the base into the result, in the form of state/commit; see merge."""
    return merge(base, base, result, writes)[0]


def merge(
    base: StateFile, head: StateFile, result: StateFile, writes: Collection[str]
) -> tuple[dict[str, Any], list[str]]:
    """What makes the same of the head as turns the base into the result, and where it does not fit.

    Of objects only those that are to be written: a refresh may have read others anew, which is not
    ours to record. A check that a scoped plan did not look at stays what it was. An output or a
    check that the head has otherwise than the base stays as the head has it.
    """
    put: list[dict[str, Any]] = []
    remove: list[dict[str, Any]] = []
    conflicts: list[str] = []
    for key in {**base.instances, **result.instances}:
        before, now = base.instances.get(key), result.instances.get(key)
        if before is now or not any_covers(writes, key[0]) or _alike(before, now):
            continue
        there = head.instances.get(key)
        if _alike(there, now):
            continue
        if not _alike(there, before):
            conflicts.append(key[0])
        elif now:
            put.append(
                {
                    "module": now.header.get("module", ""),
                    "mode": now.header["mode"],
                    "type": now.header["type"],
                    "name": now.header["name"],
                    "provider": now.header["provider"],
                    "instance": now.text.decode(),
                }
            )
        else:
            remove.append({"address": key[0], "deposed": key[1]})
    outputs, no_outputs = _merged(base.outputs, head.outputs, result.outputs)
    known = {
        key: text for key, text in result.checks.items() if json.loads(text)["status"] != "unknown"
    }
    unknown = {key: base.checks[key] for key in result.checks if key in base.checks}
    checks, no_checks = _merged(base.checks, head.checks, unknown | known)
    parts: dict[str, Any] = {
        "put": put,
        "remove": remove,
        "outputs": _filled(put={n: t.decode() for n, t in outputs.items()}, remove=no_outputs),
        "check_results": _filled(
            put=[text.decode() for text in checks.values()],
            remove=[{"object_kind": kind, "config_addr": address} for kind, address in no_checks],
        ),
    }
    return _filled(**parts), conflicts


def lay_out(data: bytes) -> bytes:
    """A JSON document in the layout of Terraform's files, every value as it was written."""
    out: list[bytes] = []
    depth = 0
    fresh = False
    for match in _TOKEN.finditer(data):
        token = match.group()
        if token in b"}]":
            depth -= 1
            out.append(token if fresh else b"\n" + b"  " * depth + token)
            fresh = False
            continue
        if fresh:
            out.append(b"\n" + b"  " * depth)
            fresh = False
        if token in b"{[":
            depth += 1
            fresh = True
            out.append(token)
        elif token == b",":
            out.append(b",\n" + b"  " * depth)
        elif token == b":":
            out.append(b": ")
        else:
            out.append(token)
    return b"".join(out) + b"\n"


def _merged(
    base: dict[Any, bytes], head: dict[Any, bytes], result: dict[Any, bytes]
) -> tuple[dict[Any, bytes], list[Any]]:
    put: dict[Any, bytes] = {}
    remove: list[Any] = []
    for key in {**base, **result}:
        before, now, there = base.get(key), result.get(key), head.get(key)
        if _same(before, now) or _same(there, now) or not _same(there, before):
            continue
        if now is None:
            remove.append(key)
        else:
            put[key] = now
    return put, remove


def _alike(one: Instance | None, other: Instance | None) -> bool:
    if one is None or other is None:
        return one is other
    if one.header.get("provider") != other.header.get("provider"):
        return False
    return _same(one.text, other.text)


def _same(one: bytes | None, other: bytes | None) -> bool:
    if one is None or other is None or one == other:
        return one == other
    return bool(json.loads(one, parse_float=Decimal) == json.loads(other, parse_float=Decimal))


def _field(text: bytes, start: bytes) -> bytes | None:
    """The JSON of a member of an instance that is no object, by what its line begins with."""
    at = text.find(start)
    if at < 0:
        return None
    at += len(start)
    return text[at : text.index(b"\n", at)].rstrip(b",")


def _filled(**parts: Any) -> dict[str, Any]:
    return {name: part for name, part in parts.items() if part}


def _section(data: bytes, name: bytes, opening: bytes) -> bytes:
    """What stands between the brackets of one of the document's members, from the first line."""
    start = data.find(b'\n  "' + name + b'": ' + opening + b"\n")
    if start < 0:
        return b""
    start += len(name) + 8
    end = data.find(b"\n  ]" if opening == b"[" else b"\n  }", start)
    return data[start : end + 1]


def _elements(section: bytes, indent: int) -> list[bytes]:
    """The objects of a list, whose lines begin at this depth."""
    space = b" " * indent
    if not section.startswith(b"\n" + space + b"{"):
        return []
    pieces = section[: section.rindex(b"}")].split(b"\n" + space + b"},\n" + space + b"{")
    pieces[0] = pieces[0][len(space) + 2 :]
    pieces[-1] = pieces[-1][: len(pieces[-1]) - len(space) - 1]
    return [b"{" + piece + b"\n" + space + b"}" for piece in pieces]


def _members(section: bytes) -> list[str]:
    """The members of an object at depth two: name, colon and value."""
    start = b'\n    "'
    if not section.startswith(start):
        return []
    pieces = section[len(start) :].rstrip().split(b"," + start)
    return ['"' + piece.decode() for piece in pieces]
