"""Signals that end a command, held back while a request must not be cut off."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any


class Interrupts:
    """Ctrl-C, SIGTERM and SIGHUP as one KeyboardInterrupt, but not in the middle of a request.

    What comes after it is held back while the command gives back what it holds.
    """

    _SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self._held = 0
        self._pending = 0
        self._is_over = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        for number in self._SIGNALS:
            if signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._take)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        ex: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let a request end first; whoever insists gets through."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
        if self._pending and not self._held and not self._is_over:
            self._raise()

    def _take(self, number: int, frame: FrameType | None) -> None:
        self._pending += 1
        if not (self._held or self._is_over) or self._pending > 2:
            self._raise()

    def _raise(self) -> None:
        self._pending = 0
        self._is_over = True
        raise KeyboardInterrupt
