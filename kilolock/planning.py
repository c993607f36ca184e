"""Plans a change in a scratch workspace: what it writes and reads, and the spec that says so."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from kilolock import __version__
from kilolock.configuration import Configuration
from kilolock.console import ask, state_of, tell, who
from kilolock.discovery import SourceError, Target
from kilolock.errors import BAD_INPUT, CONFLICT, FAULT, NOT_FOUND
from kilolock.output import cell
from kilolock.planfile import Plan, module_of, prior_state, read_plan, without_keys
from kilolock.quotas import check_plan
from kilolock.scratch import Scratch, data_folder, find_program
from kilolock.statefile import StateFile, any_covers

SPEC_FORMAT = "kilolock-plan-spec"
SPEC_VERSION = 1

# More instances of one resource than this are reserved by the resource, not one by one.
_MANY = 200
_VERBS = ("create", "update", "replace", "delete", "import", "move", "forget", "read")
_LOCK = """
    select locked_by, lock_operation, locked_since, lock_id
    from kilolock.state_overview
    where name = ($1)[1] and environment = coalesce(($1)[2], 'env_default')
      and lock_id is not null"""


@dataclass(frozen=True)
class Request:
    """What to plan, and how."""

    directory: Path
    target: Target
    state: str
    files: tuple[Path, ...] = ()
    targets: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    variable_files: tuple[Path, ...] = ()
    pinned: dict[str, Any] = field(default_factory=dict)
    refresh: bool = True

    @property
    def configuration(self) -> Configuration:
        """What the folder declares."""
        program = Path(find_program(self.directory, os.environ)).name
        return Configuration(self.directory, data_folder(self.directory, os.environ), program)


@dataclass(frozen=True)
class Planned:
    """A plan, what it was made on, and what it needs."""

    request: Request
    space: Scratch
    plan: Plan
    base: StateFile
    base_version: int
    targets: list[str]
    writes: list[str]
    reads: list[str]
    sensitive: set[str]
    files: dict[str, str]
    quota: dict[str, Any]

    @property
    def path(self) -> Path:
        """The plan file."""
        return self.space.folder / "plan"

    @property
    def changes_nothing(self) -> bool:
        """Whether there is nothing to apply."""
        return not self.writes and not self.plan.outputs

    @property
    def deletions(self) -> list[str]:
        """What the plan destroys and puts nothing in the place of."""
        return sorted(
            c.address for c in self.plan.changes if c.actions == ("delete",) and c.deposed is None
        )

    @property
    def summary(self) -> dict[str, int]:
        """How many objects become what."""
        counts = Counter(c.verb for c in self.plan.changes if c.writes)
        return {verb: counts[verb] for verb in (*_VERBS, *sorted(counts)) if counts[verb]}

    @property
    def rest(self) -> str:
        """What changes where no object of the summary does."""
        return "outputs only" if self.plan.outputs else "data sources only"

    def actions(self) -> list[dict[str, Any]]:
        """What becomes of each object, in the words of terraform's plan JSON."""
        return [
            {
                "address": change.address,
                **({"previous_address": change.previous} if change.previous else {}),
                **({"deposed": change.deposed} if change.deposed else {}),
                **({"importing": True} if change.importing else {}),
                "actions": list(change.actions),
            }
            for change in sorted(self.plan.changes, key=lambda c: (c.address, c.deposed or ""))
            if change.writes
        ]

    def spec(self) -> dict[str, Any]:
        """The plan spec; README.md describes it."""
        request, target = self.request, self.request.target
        from datetime import UTC, datetime

        return {
            "format": SPEC_FORMAT,
            "format_version": SPEC_VERSION,
            "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "created_by": who(),
            "kl_version": __version__,
            "program": {"name": self.space.program, "version": self.plan.version},
            "state": {
                "workspace": target.workspace,
                "environment": target.environment,
                "name": request.state,
                "lineage": self.base.lineage,
                "serial": self.base.serial if self.base_version else None,
                "base_version": self.base_version,
            },
            "directory": str(self.space.directory),
            "scope": {
                "files": [_relative(file, request.directory) for file in request.files],
                "extra_targets": list(request.targets),
                "targets": self.targets,
            },
            "refresh": request.refresh,
            "variables": {n: v for n, v in self.plan.variables.items() if n not in self.sensitive},
            "sensitive_variables": sorted(self.sensitive & self.plan.variables.keys()),
            "files": self.files,
            "summary": self.summary,
            "actions": self.actions(),
            "outputs": [
                {"name": name, "action": action} for name, action in self.plan.outputs.items()
            ],
            "write_set": self.writes,
            "read_set": self.reads,
            "reservations": [
                *({"address": address, "mode": "write"} for address in self.writes),
                *({"address": address, "mode": "read"} for address in self.reads),
            ],
            "quota": self.quota,
        }


def read_head(request: Request) -> tuple[int, bytes | None]:
    """The version and the bytes of the head; version 0 where there is none."""
    try:
        found: tuple[int, bytes] = request.target.source().read(request.state)
        return found
    except SourceError as ex:
        if ex.exit_status != NOT_FOUND:
            raise
        return 0, None


def lock_holder(request: Request) -> dict[str, str | None] | None:
    """Who holds the Terraform lock of the state."""
    answer = ask(request.target, _LOCK, (request.state, request.target.environment))
    if not answer.rows:
        return None
    names = [column.name for column in answer.columns]
    return {n: cell(v) for n, v in zip(names, answer.rows[0], strict=True)}


def make_plan(
    request: Request,
    show: IO[str] | None,
    *,
    head: tuple[int, bytes | None] | None = None,
    space: Scratch | None = None,
    tick: Callable[[], None] | None = None,
) -> Planned:
    """Run terraform plan on the head of the state, in a scratch workspace.

    The caller closes the workspace, whose folder has the plan; after an error it is closed.
    """
    configuration = request.configuration
    files = _digests(configuration, request.directory)
    version, document = head or read_head(request)
    base = StateFile.of(document)
    declared, idle = configuration.targets(request.files, base.modules)
    targets = list(dict.fromkeys([*request.targets, *declared]))
    ours = space is None
    if idle and ours:
        names = listed([str(file) for file in idle])
        tell(f"Left out, since nothing in it can be planned by itself: {names}.")
    space = space or Scratch(request.directory, None, os.environ, "run")
    try:
        args = [f"-out={space.folder / 'plan'}", "-input=false"]
        if space.own_backend:
            args.append("-lock-timeout=60s")
        elif document is not None:
            space.put(document)
        args += [f"-target={address}" for address in targets]
        if targets:
            # A page of warnings that the plan is scoped, which it is meant to be.
            args.append("-compact-warnings")
        args += [] if request.refresh else ["-refresh=false"]
        if request.pinned:
            pinned = space.folder / "pinned.tfvars.json"
            pinned.write_text(json.dumps(request.pinned))
            args.append(f"-var-file={pinned}")
        args += [f"-var-file={os.path.abspath(file)}" for file in request.variable_files]
        args += [f"-var={variable}" for variable in request.variables]
        status = space.run("plan", *args, show=show, tick=tick)
        if space.interrupts:
            raise KeyboardInterrupt
        if status:
            raise SourceError(f"{space.program} plan ended with status {status}", FAULT)
        data = (space.folder / "plan").read_bytes()
        plan = read_plan(data, lambda: space.read("show", "-json", str(space.folder / "plan")))
        writes = _writes(plan, base, data)
        changed = [c.address for c in plan.changes if c.writes]
        changed += [c.previous for c in plan.changes if c.previous]
        return Planned(
            request=request,
            space=space,
            plan=plan,
            base=base,
            base_version=version,
            targets=targets,
            writes=writes,
            reads=_reads(configuration, base, changed, plan.outputs, writes),
            sensitive=configuration.sensitive_variables(),
            files=files,
            quota=check_plan(request.target, request.state, plan),
        )
    except BaseException:
        if ours:
            space.close()
        raise


def read_spec(path: Path) -> dict[str, Any]:
    """A plan spec from its file."""
    try:
        spec: dict[str, Any] = json.loads(
            sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
        )
        if spec["format"] != SPEC_FORMAT:
            raise KeyError
        version = spec["format_version"]
        if version == SPEC_VERSION:
            _check_shape(spec)
    except OSError as ex:
        raise SourceError(f"{path} cannot be read: {ex.strerror}", BAD_INPUT) from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise SourceError(
            f"{path} is no plan spec", BAD_INPUT, "Make one with kl plan -o SPEC."
        ) from None
    if version != SPEC_VERSION:
        raise SourceError(
            f"{path} is a plan spec of version {version}, this kl knows version {SPEC_VERSION}",
            BAD_INPUT,
        )
    return spec


def _check_shape(spec: dict[str, Any]) -> None:
    """A KeyError or a TypeError where kl apply would look for something else in vain."""
    state, scope = spec["state"], spec["scope"]
    checks = [
        (spec["directory"], str),
        (spec["refresh"], bool),
        (spec["variables"], dict),
        (spec["files"], dict),
        (state["name"], str),
        (state["workspace"], str | None),
        (state["environment"], str | None),
        (state["lineage"], str | None),
        *((name, str) for name in (*scope["files"], *scope["extra_targets"])),
    ]
    for action in spec["actions"]:
        checks += [(action["actions"], list)]
        checks += [(part, str | bool) for part in _action_key(action)]
    if not all(isinstance(value, kind) for value, kind in checks):
        raise TypeError


def check_files(spec: dict[str, Any], request: Request) -> None:
    """Refuse a spec whose configuration is not the one that is there now."""
    files = _digests(request.configuration, request.directory)
    differing = sorted(
        name for name in files.keys() | spec["files"].keys()
        if files.get(name) != spec["files"].get(name)
    )  # fmt: skip
    if differing:
        raise stale(f"{listed(differing)} changed since it was made")


def check_actions(spec: dict[str, Any], planned: Planned) -> None:
    """Refuse a spec whose state or whose actions are not those that are planned now."""
    lineage = spec["state"]["lineage"]
    if lineage and planned.base.lineage != lineage:
        raise stale(f"the state has lineage {planned.base.lineage or 'none'} now, not {lineage}")
    before = {_action_key(a): a["actions"] for a in spec["actions"]}
    now = {_action_key(a): a["actions"] for a in planned.actions()}
    differing = sorted(
        {key[0] for key in before.keys() | now.keys() if before.get(key) != now.get(key)}
    )
    if differing:
        raise stale(f"something else would be done to {listed(differing)} now")


def stale(reason: str) -> SourceError:
    """Why a spec does not hold any more."""
    return SourceError(f"the plan spec is stale: {reason}", CONFLICT, "Make a new one: kl plan -o.")


def request_of(
    target: Target, state: str | None, directory: Path, files: Iterable[str], **extra: Any
) -> Request:
    """A request for the files that a command line names, by where it is run or by DIR."""
    request = Request(directory, target, state_of(target, state), **extra)
    found: list[Path] = []
    for name in files:
        # As terraform -chdir reads names; what is run from elsewhere may name them from there.
        path = next((p for p in (directory / name, Path(name)) if p.exists()), None)
        if path is None:
            raise SourceError(
                f"there is no file {name}",
                BAD_INPUT,
                "What a file declared that you removed is planned with --target ADDRESS.",
            )
        inside = request.configuration.files(path) if path.is_dir() else [path]
        if not inside:
            raise SourceError(f"there is no file of a configuration in {name}", BAD_INPUT)
        found += inside
    return replace(request, files=tuple(found))


def _digests(configuration: Configuration, directory: Path) -> dict[str, str]:
    """All files of a configuration, each with its content in short."""
    return {_relative(file, directory): _digest(file) for file in configuration.all_files()}


def _digest(file: Path) -> str:
    try:
        return "sha256:" + hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as ex:
        raise SourceError(f"{file} cannot be read: {ex.strerror}", BAD_INPUT) from None


def listed(names: list[str], most: int = 5) -> str:
    """A few names, and how many more there are."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def _writes(plan: Plan, base: StateFile, data: bytes) -> list[str]:
    found = set()
    for change in plan.changes:
        if change.writes:
            found.add(change.address)
            if change.previous:
                found.add(change.previous)
    # Data sources that were read for the first time are not among the changes, nor are those that
    # the configuration has no more.
    prior, mark = prior_state(data), b'"mode": "data"'
    if prior and (mark in prior or mark in base.data):
        now = StateFile.of(prior).instances
        for key in now.keys() ^ base.instances.keys():
            if (now.get(key) or base.instances[key]).header["mode"] == "data":
                found.add(key[0])
    blocks: dict[str, list[str]] = {}
    for address in found:
        blocks.setdefault(_block(address), []).append(address)
    reserved: set[str] = set()
    for block, addresses in blocks.items():
        reserved |= {block} if len(addresses) > _MANY else set(addresses)
    return sorted(reserved)


def _reads(
    configuration: Configuration,
    base: StateFile,
    changed: Iterable[str],
    outputs: Iterable[str],
    writes: list[str],
) -> list[str]:
    wanted = configuration.dependencies({without_keys(a) for a in changed}, outputs)
    for address in changed:
        wanted.update(base.dependencies(address))
    found: set[str] = set()
    for name in wanted:
        found |= base.blocks.get(name, {name})
    covering = set(writes)
    return sorted(address for address in found if not any_covers(covering, address))


def _block(address: str) -> str:
    """A resource's address without the key of the instance."""
    key = address.find("[", len(module_of(address)))
    return address if key < 0 else address[:key]


def _action_key(action: dict[str, Any]) -> tuple[str, ...]:
    return (
        action["address"],
        action.get("previous_address") or "",
        action.get("deposed") or "",
        str(action.get("importing") or ""),
    )


def _relative(file: Path, directory: Path) -> str:
    return os.path.relpath(file, directory)
