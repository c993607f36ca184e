"""Signals that end a command, held back while a request must not be cut off."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType
from typing import Any

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def handling(handler: Callable[[int, FrameType | None], Any], *numbers: int) -> Iterator[None]:
    """Let a handler take these signals, but for those that are ignored, as under nohup."""
    before = {}
    for number in numbers:
        # Only the main thread may; elsewhere the caller minds signals.
        with suppress(ValueError):
            if signal.getsignal(number) != signal.SIG_IGN:
                before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


class Interrupts:
    """Ctrl-C, SIGTERM and SIGHUP as one KeyboardInterrupt, but not in the middle of a request.

    What comes after it is held back while the command gives back what it holds.
    """

    def __init__(self) -> None:
        self._held = 0
        self._pending = 0
        self._is_over = False
        self._handling = ExitStack()

    def __enter__(self) -> Interrupts:
        self._handling.enter_context(handling(self._take, *ENDING))
        return self

    def __exit__(self, *raised: object) -> None:
        self._handling.close()

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
