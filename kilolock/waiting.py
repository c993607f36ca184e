"""Waits for others, visibly."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

from kilolock.console import tell
from kilolock.discovery import SourceError
from kilolock.errors import LOCKED
from kilolock.output import printable
from kilolock.planning import Request, lock_holder

POLL_S = 1.0
SHOW_S = 5.0
_MOST = 5


def wait_for_lock(request: Request, timeout_s: float | None) -> None:
    """Return when nobody holds the Terraform lock of the state."""
    waiting = Waiting(request.state, timeout_s)
    while holder := lock_holder(request):
        waiting.go_on(
            [
                {
                    "kind": "lock",
                    "holder": holder["locked_by"],
                    "operation": holder["lock_operation"],
                    "since": holder["locked_since"],
                    "lock_id": holder["lock_id"],
                }
            ],
            1,
            None,
        )
    waiting.over()


class Waiting:
    """One wait: how long it lasts, and what was last said about it."""

    def __init__(
        self,
        state: str,
        timeout_s: float | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._state = state
        self._timeout_s = timeout_s
        self._clock = clock
        self._sleep = sleep
        self._began: float | None = None
        self._shown: float | None = None

    def go_on(self, blockers: list[dict[str, Any]], count: int, place: int | None) -> None:
        """Say what is in the way, every few seconds, and pause; an error after the time-out."""
        now = self._clock()
        if self._began is None:
            self._began = now
        waited = now - self._began
        if self._timeout_s is not None and waited >= self._timeout_s:
            raise SourceError(
                f'state "{self._state}": gave up after {waited:.0f} s; {describe(blockers[0])}'
                if blockers
                else f'state "{self._state}": gave up after {waited:.0f} s',
                LOCKED,
            )
        if self._shown is None or now - self._shown >= SHOW_S:
            self._shown = now
            turn = f", place {place} in the queue" if place else ""
            since = datetime.fromtimestamp(time.time() - waited)
            lines = [
                f'Waiting for state "{printable(self._state)}" since {since:%H:%M:%S} '
                f"({waited:.0f} s){turn}:"
            ]
            lines += [f"  {describe(blocker)}" for blocker in blockers[:_MOST]]
            if count > _MOST:
                lines.append(f"  … and {count - _MOST} more")
            for line in lines:
                tell(line)
        left = POLL_S if self._timeout_s is None else min(POLL_S, self._timeout_s - waited)
        self._sleep(max(left, 0.01))

    def over(self) -> None:
        """Say that it goes on, if there was anything to wait for."""
        if self._began is not None:
            tell(f"Going on after {self._clock() - self._began:.0f} s.")


def describe(blocker: dict[str, Any]) -> str:
    """Who stands in the way, with what, since when."""
    holder = printable(str(blocker.get("holder") or "somebody"))
    since = f" since {_time(blocker['since'])}" if blocker.get("since") else ""
    if blocker["kind"] == "lock":
        doing = f" ({blocker['operation']})" if blocker.get("operation") else ""
        return f"{holder} holds the Terraform lock{doing}{since}, ID {blocker.get('lock_id')}"
    run = f", run {blocker['run']}" if blocker.get("run") else ""
    if not blocker.get("address"):
        return f"{holder} waits for the Terraform lock{since}"
    doing = "holds" if blocker["kind"] == "reservation" else "waits for"
    how = "write" if blocker.get("mode") == "write" else "read"
    return f"{holder} {doing} {printable(blocker['address'])} to {how}{since}{run}"


def _time(text: str) -> str:
    try:
        return f"{datetime.fromisoformat(text).astimezone():%H:%M:%S}"
    except ValueError:
        return text
