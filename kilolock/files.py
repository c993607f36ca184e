"""Files of a user: read whole, written whole or not at all, readable by nobody else."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import BinaryIO, NoReturn

import click

from kilolock.interrupts import handling


@contextlib.contextmanager
def new_file(name: str) -> Iterator[BinaryIO]:
    """A file to write, or standard output for ``-``; it gets its name only when it is complete.

    States hold secrets, so it is its owner's alone, even where it takes an older file's place.
    """
    if name == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    # The file that a link points to is replaced, not the link.
    path = Path(os.path.realpath(name))
    if path.exists() and not path.is_file():
        with _words(name), open(path, "wb") as device:
            yield device
        return
    part = path.with_name(f".{path.name[:200]}.{secrets.token_hex(4)}.part")
    with _words(name), _ended_by_signals():
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
        except BaseException:
            with contextlib.suppress(OSError):
                part.unlink()
            raise


@contextlib.contextmanager
def old_file(name: str) -> Iterator[BinaryIO]:
    """A file to read, or standard input for ``-``."""
    if name == "-":
        yield sys.stdin.buffer
        return
    try:
        file = open(name, "rb")  # noqa: SIM115
    except OSError as ex:
        raise click.UsageError(f"{name} cannot be read: {ex.strerror}.") from None
    with file:
        yield file


@contextlib.contextmanager
def _words(name: str) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as ex:
        if ex.filename is None and ex.errno is None:
            raise
        raise OSError(f"{name} cannot be written: {ex.strerror}") from None


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    # Python leaves at once on SIGTERM and SIGHUP, as if nothing had to be cleared away.
    def leave(number: int, _frame: FrameType | None) -> NoReturn:
        sys.exit(128 + number)

    with handling(leave, signal.SIGTERM, signal.SIGHUP):
        yield
