"""An independent reading and writing of state documents that keeps every token, for the tests."""

from __future__ import annotations

import json
import re
from typing import Any

_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[\[\]{}:,]|[^\s\[\]{}:,"]+)\s*')
TOP = ["version", "terraform_version", "serial", "lineage", "outputs", "resources", "check_results"]
BLOCK = ["module", "mode", "type", "name", "each", "provider"]


class Members(list[tuple[str, Any]]):
    """A JSON object: its keys as tokens, in order."""

    def get(self, key: str) -> Any:
        """The last value of a key, None where there is none."""
        return next((v for k, v in reversed(self) if plain(k) == key), None)

    def names(self) -> list[str]:
        """What the keys say."""
        return [plain(k) for k, _ in self]

    def put(self, key: str, value: Any) -> None:
        """Replace a member's value."""
        at = max(n for n, (k, _) in enumerate(self) if plain(k) == key)
        self[at] = (self[at][0], value)


def parse(text: str) -> Any:
    """A tree of Members, lists and scalar tokens."""
    tokens = _TOKEN.findall(text)
    at = 0

    def value() -> Any:
        nonlocal at
        token = tokens[at]
        at += 1
        if token == "{":
            members = Members()
            while tokens[at] != "}":
                key = tokens[at]
                at += 2
                members.append((key, value()))
                at += tokens[at] == ","
            at += 1
            return members
        if token == "[":
            items = []
            while tokens[at] != "]":
                items.append(value())
                at += tokens[at] == ","
            at += 1
            return items
        return token

    return value()


def render(tree: Any, depth: int = 0) -> str:
    """Terraform's layout of a tree."""
    inner, outer = "\n" + "  " * (depth + 1), "\n" + "  " * depth
    if isinstance(tree, Members):
        if not tree:
            return "{}"
        members = (f"{inner}{k}: {render(v, depth + 1)}" for k, v in tree)
        return "{" + ",".join(members) + outer + "}"
    if isinstance(tree, list):
        if not tree:
            return "[]"
        return "[" + ",".join(inner + render(v, depth + 1) for v in tree) + outer + "]"
    return str(tree)


def plain(token: Any) -> Any:
    """What a scalar token says; a missing one is None."""
    return None if token is None else json.loads(token)


def token(text: str) -> str:
    """A JSON string as Go writes it."""
    made = json.dumps(text, ensure_ascii=False)
    for char in "<>&\u2028\u2029":
        made = made.replace(char, f"\\u{ord(char):04x}")
    return made


def lay_out(tree: Members) -> Members:
    """The tree with Terraform's keys in Terraform's order, and its empty sections."""
    seen = Members((k, v) for n, (k, v) in enumerate(tree) if plain(k) not in tree.names()[n + 1 :])
    initial = {"serial": "0", "lineage": '""', "outputs": Members(), "resources": []}
    top = Members()
    for key in [*TOP, *(k for k in seen.names() if k not in TOP)]:
        value = seen.get(key)
        if key in initial and value in (None, "null"):
            value = initial[key]
        if value is not None:
            top.append((json.dumps(key), value))
    top.put("resources", [_lay_out_block(b) for b in top.get("resources")])
    return top


def _lay_out_block(block: Members) -> Members:
    keys = [k for k in block.names() if k not in BLOCK and k != "instances"]
    made = Members()
    for key in [*BLOCK, *keys, "instances"]:
        value = block.get(key)
        if key == "instances" and value in (None, "null"):
            value = []
        if value is not None and not (key == "module" and value in ('""', "null")):
            made.append((json.dumps(key), value))
    return made


def block_key(block: Members) -> tuple[bytes, ...]:
    """Where Terraform sorts a block."""
    return tuple((plain(block.get(k)) or "").encode() for k in ("module", "mode", "type", "name"))


def instance_key(instance: Members) -> tuple[Any, ...]:
    """Where Terraform sorts an instance; but for NUL, which PostgreSQL cannot hold."""
    key = plain(instance.get("index_key"))
    deposed = (plain(instance.get("deposed")) or "").encode("utf-8", "surrogatepass")
    if key is None:
        return (0, 0, b"", deposed)
    if isinstance(key, str):
        shown = key.replace("\0", "\ufffd")
        return (2, 0, shown.encode("utf-8", "surrogatepass"), deposed)
    return (1, key, b"", deposed)


def _insert(items: list[Any], item: Any, key: Any) -> None:
    at = next((n for n, other in enumerate(items) if key(other) > key(item)), len(items))
    items.insert(at, item)


def edit(text: str, delta: dict[str, Any], removed: list[tuple[Any, Any]], serial: int) -> str:
    """The document after a delta; removed says the keys of the block and the instance."""
    top = lay_out(parse(text))
    blocks = top.get("resources")
    touched: set[int] = set()
    for what, which in removed:
        for block in blocks:
            if block_key(block) == what:
                touched.add(id(block))
                left = [i for i in block.get("instances") if instance_key(i) != which]
                block.put("instances", left)
    for put in delta.get("put", []):
        instance = parse(put["instance"])
        header = Members()
        for key in BLOCK:
            if put.get(key):
                header.append((json.dumps(key), token(put[key])))
        header.append(('"instances"', []))
        same = [b for b in blocks if block_key(b) == block_key(header)]
        at = instance_key(instance)
        holder = next(
            (b for b in same if any(instance_key(i) == at for i in b.get("instances"))), None
        )
        block = holder or (same[-1] if same else None)
        if block is None:
            _insert(blocks, header, block_key)
            block = header
        touched.add(id(block))
        instances = list(block.get("instances"))
        if holder is not None:
            instances = [instance if instance_key(i) == at else i for i in instances]
        else:
            _insert(instances, instance, instance_key)
        block.put("instances", instances)
        if plain(block.get("provider")) != put["provider"]:
            block.put("provider", token(put["provider"]))
    kept = [b for b in blocks if b.get("instances") or id(b) not in touched]
    top.put("resources", kept)

    outputs = Members(top.get("outputs"))
    change = delta.get("outputs", {})
    outputs[:] = [(k, v) for k, v in outputs if plain(k) not in change.get("remove", [])]
    for name, value in change.get("put", {}).items():
        if name in outputs.names():
            outputs.put(name, parse(value))
        else:
            _insert(outputs, (token(name), parse(value)), lambda m: plain(m[0]).encode())
    top.put("outputs", outputs)

    change = delta.get("check_results", {})
    if change:
        held = top.get("check_results")
        checks = [] if held in (None, "null") else list(held)
        checks = [c for c in checks if _check(c) not in map(_check, change.get("remove", []))]
        for put in map(parse, change.get("put", [])):
            if _check(put) in map(_check, checks):
                checks = [put if _check(c) == _check(put) else c for c in checks]
            else:
                checks.append(put)
        if held is None:
            at = top.names().index("resources") + 1
            top.insert(at, ('"check_results"', "null"))
        top.put("check_results", checks or "null")
    top.put("serial", str(serial))
    return render(top) + "\n"


def _check(result: Any) -> tuple[str, str]:
    if isinstance(result, Members):
        return plain(result.get("object_kind")), plain(result.get("config_addr"))
    return result["object_kind"], result["config_addr"]
