"""Saved plans of terraform or tofu, read as the JSON that ``show -json`` prints."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kilolock.discovery import SourceError
from kilolock.errors import BAD_INPUT

_MAJOR_VERSIONS = ("0", "1")


def show_plan(file: str, directory: Path, environ: Mapping[str, str]) -> bytes:
    """The JSON of a plan file, from the user's own terraform in the folder it was made in."""
    from kilolock.scratch import find_program

    path = Path(directory, file)
    if not path.is_file():
        raise SourceError(f"{file} is not a file", BAD_INPUT, "terraform plan -out=FILE makes one.")
    binary = find_program(directory, environ)
    program = Path(binary).name
    try:
        done = subprocess.run(
            [binary, "show", "-json", "-no-color", os.path.abspath(path)],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )
    except OSError as ex:
        raise SourceError(f"{binary} cannot be run: {ex.strerror}", BAD_INPUT) from None
    if done.returncode:
        raise SourceError(
            f"{program} cannot show {file}: {_complaint(done.stderr or done.stdout)}",
            BAD_INPUT,
            "Run this in the folder that the plan was made in.",
        )
    return done.stdout


def parse_plan(data: bytes, name: str) -> dict[str, Any]:
    """The plan in this JSON; name says in errors where it is from."""
    try:
        plan = json.loads(data)
    except (ValueError, RecursionError):
        raise _bad(name, "is not JSON") from None
    version = plan.get("format_version") if isinstance(plan, dict) else None
    if not isinstance(version, str):
        raise _bad(name, "is not a plan of terraform show -json")
    if version.split(".")[0] not in _MAJOR_VERSIONS:
        raise SourceError(
            f"{name} is a plan in format {version}, which this kl does not know", BAD_INPUT
        )
    if "planned_values" not in plan:
        raise _bad(name, "is a state, not a plan")
    if plan.get("errored"):
        raise SourceError(
            f"{name} is of a plan that failed", BAD_INPUT, "It cannot be applied; plan again."
        )
    return dict(plan)


def count_changes(plan: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """How many objects a plan treats alike, as POST /v1/quotas/check takes it.

    What refreshing found to be gone is among them: the state still counts it, and the plan may
    create it again.
    """
    alike: Counter[tuple[Any, ...]] = Counter()
    try:
        for part in ("resource_changes", "resource_drift"):
            for item in plan.get(part, ()):
                change = item["change"]
                alike[
                    str(item["mode"]),
                    tuple(str(action) for action in change["actions"]),
                    change.get("importing") is not None,
                    bool(item.get("deposed")),
                    part == "resource_drift",
                ] += 1
    except (TypeError, KeyError, AttributeError):
        raise _bad(name, "has changes that cannot be read") from None
    fields = ("mode", "actions", "importing", "deposed", "drift")
    return [dict(zip(fields, kind, strict=True), count=n) for kind, n in alike.items()]


def _bad(name: str, problem: str) -> SourceError:
    return SourceError(f"{name} {problem}", BAD_INPUT, "terraform show -json PLAN prints one.")


def _complaint(output: bytes) -> str:
    lines = output.decode("utf-8", "replace").splitlines()
    said = [line.strip(" │╷╵") for line in lines]
    said = [line for line in said if line]
    return next((line for line in said if line.startswith("Error:")), " ".join(said[:1])) or "?"
