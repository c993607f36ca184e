"""Where the SQL of this installation lies: in the checkout, or inside the installed package."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def _directory(checkout_name: str, packaged_name: str) -> Path:
    packaged = _PACKAGE / packaged_name
    return packaged if packaged.is_dir() else _PACKAGE.parent / checkout_name


def sql_dir() -> Path:
    """The folder that holds ``schema``, ``functions`` and ``views``."""
    return _directory("sql", "_sql")


def migrations_dir() -> Path:
    """The folder that holds the numbered migrations."""
    return _directory("migrations", "_migrations")
