"""The one table from what went wrong to an HTTP status and an exit status."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psycopg

DONE, FAULT, BAD_INPUT, NOT_FOUND, CONFLICT, LOCKED, DENIED, SIGNED_OUT, AWAY = range(9)

# The letter of a KL code decides alone: B malformed, A unauthenticated, and so on.
_LETTERS = {"B": 400, "A": 401, "P": 403, "Q": 422, "N": 404, "C": 409, "L": 423}
_AWAY_CLASSES = ("08", "53", "57", "58")
_AWAY_CODES = ("25006", "40001", "40P01", "55P03")
_BAD_INPUT_CLASSES = ("22", "54")
_EXITS = {
    401: SIGNED_OUT,
    403: DENIED,
    404: NOT_FOUND,
    409: CONFLICT,
    422: DENIED,
    423: LOCKED,
    429: AWAY,
    502: AWAY,
    503: AWAY,
    504: AWAY,
}


class QueryError(Exception):
    """SQL typed by a user that PostgreSQL refused; its cause is the error as it came."""


@dataclass(frozen=True)
class Refusal:
    """An error in the words a client gets to see."""

    status: int
    code: str
    message: str
    hint: str | None = None
    detail: str | None = None

    @property
    def exit_status(self) -> int:
        """The exit status that a command ends with."""
        return exit_status(self.status)


def exit_status(http_status: int) -> int:
    """The exit status that says the same as an HTTP status."""
    if http_status in _EXITS:
        return _EXITS[http_status]
    return BAD_INPUT if 400 <= http_status < 500 else FAULT


def refusal(ex: psycopg.Error) -> Refusal:
    """What to answer when a function of ours raised."""
    code, message, hint, detail = _read(ex)
    if _is_away(ex):
        return _away(code, message)
    if code == "42501":
        hint = "kld's login must be a superuser or a member of kilolock_app."
        return Refusal(500, code, message, hint)
    if code in ("42883", "3F000"):
        return Refusal(
            503, code, "the database has no Kilolock schema of this release", "Run kld migrate."
        )
    return Refusal(_status(code, 500), code, message, hint, detail)


def query_refusal(ex: psycopg.Error) -> Refusal:
    """What to answer when PostgreSQL refused SQL that a user typed."""
    code, message, hint, detail = _read(ex)
    if code == "57014":
        return Refusal(
            400,
            code,
            "the query took too long and was stopped",
            "Ask for less, or give it more --timeout.",
        )
    if code == "25006":
        return Refusal(400, code, message, "A query can only read.")
    if _is_away(ex):
        return _away(code, message)
    if code == "42501":
        return Refusal(
            403,
            code,
            message,
            hint or "Queries run as a role that reads the query surface and nothing else.",
        )
    if code in ("3F000", "42883", "42P01") and "kilolock" in message:
        hint = "Is that the database of a kld, and did kld migrate run there?"
    if hint is None and detail is not None and not code.startswith("KL"):
        hint = detail
    return Refusal(_status(code, 400), code, message, hint, detail)


def _status(code: str, other: int) -> int:
    if code.startswith("KL"):
        return _LETTERS.get(code[2:3], other)
    return 400 if code[:2] in _BAD_INPUT_CLASSES else other


def _is_away(ex: psycopg.Error) -> bool:
    code = ex.sqlstate
    if code is None:
        # Without a SQLSTATE the connection failed, or the value never left the client.
        return type(ex).__name__ not in ("DataError", "ProgrammingError")
    return code[:2] in _AWAY_CLASSES or code in _AWAY_CODES


def _away(code: str, message: str) -> Refusal:
    return Refusal(
        503, code, f"the database cannot answer now: {message}", "Try again in a moment."
    )


def _read(ex: psycopg.Error) -> tuple[str, str, str | None, str | None]:
    first_line = (str(ex).strip() or type(ex).__name__).splitlines()[0]
    message = ex.diag.message_primary or first_line
    if ex.diag.statement_position:
        message = f"{message} at character {ex.diag.statement_position}"
    code = ex.sqlstate or ("08000" if _is_away(ex) else "22000")
    return code, message, ex.diag.message_hint, ex.diag.message_detail
