"""Child processes that end with the process that started them."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int, how: signal.Signals) -> Callable[[], None] | None:
    """What a child runs before exec so that the kernel signals it when the forking thread ends."""
    if sys.platform != "linux":
        return None
    # PyDLL keeps the GIL: between fork and exec nothing may wait for another thread.
    libc = ctypes.PyDLL(None)

    def set_death_signal() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, int(how), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return set_death_signal
