"""What a folder of Terraform configuration declares, where, and what depends on what."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from kilolock import hcl
from kilolock.discovery import SourceError
from kilolock.errors import BAD_INPUT
from kilolock.hcl import Block, Token
from kilolock.planfile import without_keys

_OBJECTS = {"resource": "", "data": "data.", "ephemeral": "ephemeral."}
# Blocks that say what becomes of an address, and where they say it.
_REFACTORINGS = {"moved": ("from", "to"), "removed": ("from",), "import": ("to",)}
# What nothing in the configuration is named like.
_NO_NAMES = ("each", "self", "path", "count", "terraform", "provider")

Node = tuple[str, ...]
"""Something that a reference can lead to: its kind, its module and its name."""


@dataclass
class Module:
    """The blocks of one module, which several calls may share."""

    folder: Path
    objects: dict[str, list[Block]] = field(default_factory=dict)
    calls: dict[str, list[Block]] = field(default_factory=dict)
    outputs: dict[str, list[Block]] = field(default_factory=dict)
    variables: dict[str, list[Block]] = field(default_factory=dict)
    providers: dict[str, list[Block]] = field(default_factory=dict)
    local_values: dict[str, list[Token]] = field(default_factory=dict)

    def add(self, block: Block) -> None:
        """Take in one more block."""
        name = ".".join(block.labels)
        if block.kind in _OBJECTS:
            self.objects.setdefault(_OBJECTS[block.kind] + name, []).append(block)
        elif block.kind == "locals":
            self.local_values.update(block.attributes)
        else:
            kinds = {
                "module": self.calls,
                "output": self.outputs,
                "variable": self.variables,
                "provider": self.providers,
            }
            if block.kind in kinds:
                kinds[block.kind].setdefault(name, []).append(block)


class Configuration:
    """The root module in a folder and the modules that terraform init installed for it."""

    def __init__(self, directory: Path, data_dir: Path, program: str) -> None:
        self.directory = directory
        self._data_dir = data_dir
        self._program = program
        self._modules: dict[Path, Module] = {}
        self._nodes: dict[Node, frozenset[Node]] = {}

    @cached_property
    def folders(self) -> dict[str, Path]:
        """The folder of each module by its path without keys: module.a.module.b; '' is the root."""
        found = {"": self.directory}
        try:
            listed = json.loads((self._data_dir / "modules" / "modules.json").read_text("utf-8"))
            entries = [(str(m["Key"]), str(m["Dir"])) for m in listed["Modules"]]
        except FileNotFoundError:
            return found
        except (OSError, ValueError, KeyError, TypeError):
            raise SourceError(
                f"{self._data_dir / 'modules' / 'modules.json'} cannot be read",
                BAD_INPUT,
                "Run terraform init.",
            ) from None
        for key, folder in entries:
            if key:
                path = ".".join(f"module.{name}" for name in key.split("."))
                found[path] = Path(os.path.normpath(self.directory / folder))
        return found

    def module(self, path: str) -> Module | None:
        """A module by its path without keys."""
        folder = self.folders.get(path)
        if folder is None:
            return None
        if folder not in self._modules:
            module = Module(folder)
            for file in self.files(folder):
                for block in read_file(file).blocks:
                    module.add(block)
            self._modules[folder] = module
        return self._modules[folder]

    def files(self, folder: Path) -> list[Path]:
        """The files of a module that this program reads."""
        try:
            names = sorted(entry.name for entry in os.scandir(folder) if entry.is_file())
        except OSError:
            return []
        kinds: tuple[str, ...] = (".tf", ".tf.json")
        if self._program == "tofu":
            replaced = {n.replace(".tofu", ".tf") for n in names if n.endswith(hcl.SUFFIXES[2:])}
            names = [n for n in names if n not in replaced]
            kinds = hcl.SUFFIXES
        return [folder / n for n in names if n.endswith(kinds) and _is_shown(n)]

    def all_files(self) -> list[Path]:
        """Every file of the configuration: those of local modules, values and the lock file too."""
        found = []
        for folder in dict.fromkeys(self.folders.values()):
            if self._data_dir not in folder.parents:
                found += self.files(folder)
        for entry in sorted(os.scandir(self.directory), key=lambda e: e.name):
            automatic = entry.name.endswith((".auto.tfvars", ".auto.tfvars.json"))
            if automatic or entry.name in ("terraform.tfvars", "terraform.tfvars.json"):
                found.append(Path(entry.path))
        lock = self.directory / ".terraform.lock.hcl"
        return [*found, *([lock] if lock.exists() else [])]

    def targets(
        self, files: Iterable[Path], modules: Iterable[str] = ()
    ) -> tuple[list[str], list[Path]]:
        """What files declare that terraform can plan by itself, as targets; files without any.

        ``modules`` are the module instances that there are: a target has to name their keys. Where
        a module with count or for_each has no instance yet, all of it is the target.
        """
        found: list[str] = []
        idle = []
        for file in files:
            targets = self._targets(file, modules)
            found += targets
            if not targets:
                idle.append(file)
        if idle and not found:
            names = ", ".join(str(file) for file in idle)
            raise SourceError(
                f"{names} declares nothing that can be planned by itself",
                BAD_INPUT,
                "Name a file with resource, data, module, moved, removed or import blocks.",
            )
        return list(dict.fromkeys(found)), idle

    def _targets(self, file: Path, modules: Iterable[str]) -> list[str]:
        paths = [p for p, folder in self.folders.items() if _same(folder, file.parent)]
        if not paths or not any(_same(file, known) for known in self.files(file.parent)):
            raise SourceError(
                f"{file} is no file of the configuration in {self.directory}",
                BAD_INPUT,
                "Name a .tf file of it, or one of a module that it calls; after a new module block "
                "run terraform init.",
            )
        source = read_file(file)
        declared = list(_declared(source.blocks))
        found: list[str] = []
        for path in paths:
            repeated = self._repeated(path)
            instances = [m for m in modules if without_keys(m) == path] if repeated else [path]
            if instances:
                found += [_join(i, name) for i in sorted(instances) for name in declared]
            elif declared:
                found.append(repeated)
        if not source.whole and not found:
            raise SourceError(
                f"{file} cannot be read as a configuration", BAD_INPUT, "Run terraform validate."
            )
        return found

    def _repeated(self, path: str) -> str:
        """The first module on a path that has count or for_each; '' if there is none."""
        steps = path.split(".")
        for end in range(2, len(steps) + 1, 2):
            upper = ".".join(steps[:end])
            for block in self._calls(*_split(upper)):
                if {"count", "for_each"} & block.attributes.keys():
                    return upper
        return ""

    def sensitive_variables(self) -> set[str]:
        """The variables whose values are not to be shown or kept."""
        root = self.module("")
        found = set()
        for name, blocks in (root.variables if root else {}).items():
            for block in blocks:
                for attribute in ("sensitive", "ephemeral"):
                    if block.attributes.get(attribute, _FALSE) != _FALSE:
                        found.add(name)
        return found

    def dependencies(self, addresses: Iterable[str], outputs: Iterable[str] = ()) -> set[str]:
        """The resources and data sources that others or outputs depend on, all without keys.

        More rather than less: every mention counts, whether or not its value matters.
        """
        start: list[Node] = [("output", "", name) for name in outputs]
        for address in addresses:
            path, name = _split(without_keys(address))
            start.append(("object", path, name))
        seen: set[Node] = set()
        waiting = [node for first in start for node in self._leads_to(first)]
        while waiting:
            node = waiting.pop()
            if node not in seen:
                seen.add(node)
                waiting += self._leads_to(node)
        return {_join(path, name) for kind, path, name in seen if kind == "object"}

    def _leads_to(self, node: Node) -> frozenset[Node]:
        if node not in self._nodes:
            self._nodes[node] = frozenset(self._find(node))
        return self._nodes[node]

    def _find(self, node: Node) -> Iterator[Node]:
        kind, path, name = node
        module = self.module(path)
        if module is None:
            return
        if kind == "object":
            blocks = module.objects.get(name, [])
            for block in blocks:
                yield from self._mentioned(path, block.tokens())
                yield ("provider", path, _provider(block))
            if path:
                yield ("call", path, "")
        elif kind == "local":
            yield from self._mentioned(path, module.local_values.get(name, []))
        elif kind == "output":
            for block in module.outputs.get(name, []):
                yield from self._mentioned(path, block.tokens())
        elif kind == "variable" and path:
            parent, call = _split(path)
            for block in self._calls(parent, call):
                yield from self._mentioned(parent, block.attributes.get(name, []))
        elif kind == "call":
            # What decides about the instances of a module decides about all that is in it.
            parent, call = _split(path)
            for block in self._calls(parent, call):
                for meta in ("count", "for_each", "depends_on", "providers"):
                    yield from self._mentioned(parent, block.attributes.get(meta, []))
            if parent:
                yield ("call", parent, "")
        elif kind == "module":
            for inner in self.folders:
                if inner == path or inner.startswith(path + "."):
                    for object_name in (self.module(inner) or module).objects:
                        yield ("object", inner, object_name)
        elif kind == "provider":
            for block in module.providers.get(name, []):
                yield from self._mentioned(path, block.tokens())
            if path:
                yield ("provider", _split(path)[0], name)

    def _calls(self, path: str, name: str) -> list[Block]:
        module = self.module(path)
        return module.calls.get(name.removeprefix("module."), []) if module else []

    def _mentioned(self, path: str, tokens: Iterable[Token]) -> Iterator[Node]:
        module = self.module(path)
        if module is None:
            return
        for parts in hcl.references(list(tokens)):
            first, rest = parts[0], parts[1:]
            if first in _NO_NAMES:
                continue
            if first == "var":
                yield ("variable", path, rest[0])
            elif first == "local":
                yield ("local", path, rest[0])
            elif first == "module":
                child = _join(path, f"module.{rest[0]}")
                inner = self.module(child)
                if inner and len(rest) > 1 and rest[1] in inner.outputs:
                    yield ("output", child, rest[1])
                else:
                    yield ("module", child, "")
            else:
                name = ".".join(parts[:3] if first in ("data", "ephemeral") else parts[:2])
                if first == "resource":
                    name = ".".join(parts[1:3])
                if name in module.objects:
                    yield ("object", path, name)
                # An alias, as in provider = aws.west, reads like a resource.
                elif first in module.providers:
                    yield ("provider", path, first)


def read_file(file: Path) -> hcl.Source:
    """The blocks of a file; none where it cannot be read."""
    try:
        text = file.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return hcl.Source([], False)
    return hcl.read(text, is_json=file.name.endswith(".json"))


_FALSE = [Token("ident", "false")]


def _declared(blocks: Iterable[Block]) -> Iterator[str]:
    for block in blocks:
        name = ".".join(block.labels)
        if block.kind in ("resource", "data"):
            yield _OBJECTS[block.kind] + name
        elif block.kind == "module":
            yield f"module.{name}"
        for attribute in _REFACTORINGS.get(block.kind, ()):
            if found := hcl.address(block.attributes.get(attribute, [])):
                yield found


def _provider(block: Block) -> str:
    """The local name of the provider that an object belongs to."""
    given = block.attributes.get("provider")
    if given and given[0].kind == "ident":
        return given[0].text
    return block.labels[0].partition("_")[0] if block.labels else ""


def _split(address: str) -> tuple[str, str]:
    """A module path and what is in it, of an address without keys."""
    parts = address.split(".")
    at = 0
    while at + 2 < len(parts) and parts[at] == "module":
        at += 2
    return ".".join(parts[:at]), ".".join(parts[at:])


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _is_shown(name: str) -> bool:
    # Terraform takes these for the leftovers of editors.
    return not (name.startswith((".", "#")) or name.endswith("~"))


def _same(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False
