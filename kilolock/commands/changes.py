"""What the commands that edit a state show of an edit."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from kilolock.console import show, tell
from kilolock.output import Answer, Column

_COLUMNS = ("change", "address", "deposed", "from_address")
_SHOWN = 200


def show_changes(changes: Sequence[Mapping[str, Any]], fmt: str) -> None:
    """Rows for resources that would change, and how many of each kind; a table is kept short."""
    shown = changes if fmt != "table" else changes[:_SHOWN]
    columns = [c for c in _COLUMNS if fmt != "table" or any(row.get(c) for row in shown)]
    if columns or fmt != "table":
        rows = [[json.dumps(row.get(c)) for c in columns] for row in shown]
        show(Answer([Column(c, "text") for c in columns], rows, False), fmt)
    if len(shown) < len(changes):
        tell(f"… and {len(changes) - len(shown)} more; --format json shows all.")
    counts = Counter(row["change"] for row in changes)
    tell(
        ", ".join(f"{counts[kind]} {kind}d" for kind in ("create", "update", "move", "delete"))
        + " in the state."
    )
