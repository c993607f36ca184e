"""A plan held against the quotas of a state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from kilolock.console import act, tell
from kilolock.discovery import SourceError, Target
from kilolock.errors import DENIED
from kilolock.planfile import Plan


def check_plan(target: Target, state: str, plan: Plan) -> dict[str, Any]:
    """What the backend says to a plan, counted against the state as it is now."""
    answer: dict[str, Any] = act(target, "quotas/check", state, changes=count_changes(plan))
    return answer


def count_changes(plan: Plan) -> list[dict[str, Any]]:
    """How many objects a plan treats alike, as POST /v1/quotas/check takes it."""
    alike = Counter(
        (change.mode, change.actions, change.importing, change.deposed is not None, drift)
        for drift, changes in ((False, plan.changes), (True, plan.drift))
        for change in changes
    )
    fields = ("mode", "actions", "importing", "deposed", "drift")
    return [dict(zip(fields, kind, strict=True), count=n) for kind, n in alike.items()]


def judge(report: Mapping[str, Any]) -> None:
    """Warn of what is over a soft limit; end the command where something is over a hard one."""
    for line in report["limits"]:
        if line["verdict"] == "soft":
            tell(f"Warning: {line['message']}")
    over = [line["message"] for line in report["limits"] if line["verdict"] == "hard"]
    if over:
        raise SourceError(
            "; ".join(over),
            DENIED,
            "Nothing was changed. Destroy what is not needed, or raise the limit: kl quota set.",
        )
