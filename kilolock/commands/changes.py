"""Edits of a state: shown first, then done where --apply says so."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

import click

from kilolock.console import act, confirm, connection_options, format_option, moment, show, tell
from kilolock.discovery import Target
from kilolock.output import Answer, Column

_COLUMNS = ("change", "address", "deposed", "from_address")
_SHOWN = 200


def edit_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a command that edits a state; it gets an ``edit`` to carry out."""

    @click.option("--apply", "apply_", is_flag=True, help="Do it; without this it is only shown.")
    @click.option("--yes", is_flag=True, help="Do not ask before it is done.")
    @format_option
    @connection_options
    @wraps(command)
    def wrapper(*args: Any, apply_: bool, yes: bool, fmt: str, target: Target, **extra: Any) -> Any:
        return command(*args, target=target, edit=Edit(target, apply_, yes, fmt), **extra)

    return wrapper


class Edit:
    """What --apply, --yes and --format say about an edit."""

    def __init__(self, target: Target, apply: bool, yes: bool, fmt: str) -> None:
        self._target = target
        self._apply = apply
        self._yes = yes
        self._fmt = fmt

    def carry_out(
        self,
        action: str,
        state: str,
        explain: Callable[[dict[str, Any]], None],
        **request: Any,
    ) -> None:
        """Show what an action would change; do it if it was said, on the head that was shown."""
        sure = self._apply and self._yes
        done = act(self._target, action, state, apply=sure, **request)
        explain(done)
        show_changes(done["changes"], self._fmt)
        if not done["changed"]:
            tell(f"State {state} has nothing to change.")
            return
        if not done["changes"]:
            tell("No resource and no output changes, only the rest of the document.")
        if not self._apply:
            tell("Nothing is changed yet; --apply does it.")
            return
        if not sure:
            confirm(f"Write this as version {done['version']} of state {state}?", self._yes)
            base = done["from"]["version"] if done["from"] else 0
            done = act(self._target, action, state, apply=True, base=base, **request)
        tell(f"State {state} is at version {done['version']} now, serial {done['serial']}.")


def show_changes(changes: Sequence[Mapping[str, Any]], fmt: str) -> None:
    """Rows for resources that would change, and how many of each kind; a table is kept short."""
    shown = changes if fmt != "table" else changes[:_SHOWN]
    columns = [c for c in _COLUMNS if fmt != "table" or any(row.get(c) for row in shown)]
    if columns:
        rows = [[json.dumps(row.get(c)) for c in columns] for row in shown]
        show(Answer([Column(c, "text") for c in columns], rows, False), fmt)
    if len(shown) < len(changes):
        tell(f"… and {len(changes) - len(shown)} more; --format json shows all.")
    if changes:
        counts = Counter(row["change"] for row in changes)
        kinds = [k for k in ("create", "update", "move", "delete") if counts[k]]
        tell(", ".join(f"{counts[k]} {k}d" for k in kinds) + " in the state.")


def tell_list(title: str, lines: Sequence[str], most: int = 20) -> None:
    """A list for people under a title; nothing where it is empty."""
    if lines:
        tell(title)
        for line in lines[:most]:
            tell(f"  {line}")
        if len(lines) > most:
            tell(f"  … and {len(lines) - most} more")


def version_line(version: Mapping[str, Any]) -> str:
    """A version for people: its number, serial, and who wrote it when."""
    return (
        f"version {version['version']} (serial {version['serial']}, {version['source']} by"
        f" {version['actor']}, {moment(version['created_at'])})"
    )
