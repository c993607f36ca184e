"""The connections, and the few ways to call the database. The only module that runs SQL."""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from typing import Any, NamedTuple

import psycopg
from psycopg import pq, sql

from kilolock.errors import QueryError
from kilolock.output import Answer, Column, json_parts

Argument = str | bytes | int | None

# libpq keeps a buffer as large as its largest message: such a connection is not kept.
_LARGE = 4 * 1024 * 1024
_RETRIED = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)
_TEXT_ARRAY = 1009
_MARKERS = [sql.SQL(m) for m in ("$1", "$2", "$3", "$4", "$5", "$6", "$7", "$8", "$9")]
_WAIT_S = 5.0
_LOOK_S = 1.0


class Meta(NamedTuple):
    """What is known of a document before its first byte."""

    version: int
    serial: int | None
    size: int
    md5: str


class Database:
    """A few connections to one PostgreSQL, opened on demand and shared by threads."""

    def __init__(self, url: str, *, min_size: int = 0, max_size: int = 16) -> None:
        self._url = url
        self._keep = max(min_size, max_size)
        self._idle: list[psycopg.Connection[Any]] = []
        self._free = threading.BoundedSemaphore(max_size)
        self._closed = False

    def call(self, function: str, *args: Argument) -> str | None:
        """Call a function in a transaction of its own, and return the text of its one value."""
        large = any(isinstance(a, bytes) and len(a) > _LARGE for a in args)
        with self._connection() as connection:
            try:
                return _execute(connection, function, args)
            except _RETRIED:
                # The function ran in one transaction and left nothing behind.
                return _execute(connection, function, args)
            finally:
                if large:
                    connection.close()

    def rows(self, function: str, *args: Argument) -> list[tuple[Any, ...]]:
        """Call a function that returns rows."""
        with self._connection() as connection:
            return connection.execute(_call_all(function, len(args)), args).fetchall()

    def document(self, function: str, *args: Argument) -> tuple[Meta, Document]:
        """Call a function that returns a document in pieces; they come as they are read."""
        document = Document(Stream(self, _call_all(function, len(args)), args))
        return document.meta, document

    def stream(self, function: str, *args: Argument) -> Stream:
        """Call a function that returns many values; they come as it makes them."""
        return Stream(self, _call_each(function, len(args)), args)

    @contextmanager
    def transaction(self) -> Iterator[Callable[..., str | None]]:
        """Several calls that are one transaction; ends with a commit unless something fails."""
        connection = self.take()
        try:
            connection.execute("begin")
            yield partial(_execute_each, connection)
            connection.execute("commit")
        finally:
            # What was open is rolled back, and large messages have left large buffers.
            connection.close()
            self.give_back(connection)

    def query(
        self,
        statement: str,
        args: Sequence[str | None] = (),
        *,
        timeout_s: float = 30,
        limit: int = 10_000,
        raw: bool | None = None,
        is_wanted: Callable[[], bool] | None = None,
    ) -> Answer:
        """Run one SELECT of a user; ``raw`` may see documents too (None: if this login may).

        It is stopped when ``is_wanted`` says that nobody waits for its answer any more.
        """
        if "\0" in statement or any(a is not None and "\0" in a for a in args):
            raise QueryError from psycopg.DataError(
                "SQL and its arguments cannot hold NUL characters"
            )
        with self._connection() as connection:
            try:
                with _watch(connection, is_wanted):
                    return _query(connection, statement, list(args), timeout_s, limit, raw)
            except psycopg.Error as ex:
                raise QueryError from ex
            finally:
                # SET and advisory locks of a user's SQL must not outlive it.
                if not connection.closed:
                    connection.execute("rollback")
                    connection.execute("select pg_advisory_unlock_all()")

    def close(self) -> None:
        """Close the connections that nobody uses; the others close when they are given back."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    @contextmanager
    def _connection(self) -> Iterator[psycopg.Connection[Any]]:
        connection = self.take()
        try:
            yield connection
        finally:
            self.give_back(connection)

    def take(self) -> psycopg.Connection[Any]:
        """A connection that was alive a moment ago."""
        if not self._free.acquire(timeout=_WAIT_S):
            raise psycopg.errors.TooManyConnections("all connections are busy")
        try:
            while self._idle:
                with suppress(IndexError):
                    connection = self._idle.pop()
                    if _is_quiet(connection):
                        return connection
                    connection.close()
            return _connect(self._url)
        except BaseException:
            self._free.release()
            raise

    def give_back(self, connection: psycopg.Connection[Any]) -> None:
        """Keep a connection for the next caller, unless something is left open in it."""
        try:
            idle = connection.pgconn.transaction_status == pq.TransactionStatus.IDLE
            if idle and not self._closed and len(self._idle) < self._keep:
                self._idle.append(connection)
            else:
                connection.close()
        finally:
            self._free.release()


class Stream:
    """Rows as they are made; it holds a connection until it was read or closed."""

    def __init__(self, db: Database, statement: sql.Composed, args: Sequence[Argument]) -> None:
        self._db = db
        self._connection: psycopg.Connection[Any] | None = db.take()
        try:
            self._rows = self._connection.cursor().stream(statement, args, binary=True)
            # An error shows before anything was answered.
            self.first = next(self._rows)
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        try:
            yield self.first
            yield from self._rows
        finally:
            self.close()

    def close(self) -> None:
        """Give the connection back; one that was not read to its end is closed."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._db.give_back(connection)


class Document:
    """The pieces of a document, and what is known of it before the first."""

    def __init__(self, rows: Stream) -> None:
        self._rows = rows
        self.close = rows.close
        version, serial, size, md5, _ = rows.first
        self.meta = Meta(version, None if serial is None else int(serial), size, md5)

    def __iter__(self) -> Iterator[bytes]:
        return (row[4] for row in self._rows)


def _connect(url: str) -> psycopg.Connection[Any]:
    deadline = time.monotonic() + _WAIT_S
    while True:
        try:
            connection: psycopg.Connection[Any] = psycopg.connect(
                url,
                autocommit=True,
                # PgBouncer in transaction mode hands every transaction another server connection.
                prepare_threshold=None,
                connect_timeout=5,
                application_name="kilolock",
                client_encoding="UTF8",
            )
        except psycopg.OperationalError as ex:
            # A server that is starting, or recovering from a crash, is back in a moment.
            if (
                "starting up" not in str(ex)
                and "recovery mode" not in str(ex)
                or time.monotonic() > deadline
            ):
                raise
            time.sleep(0.1)
        else:
            # In non-blocking mode libpq moves the rest of its buffer after every partial send.
            connection.pgconn.nonblocking = 0
            return connection


def _is_quiet(connection: psycopg.Connection[Any]) -> bool:
    # An idle connection has nothing to read but the farewell of a server that is going away.
    if connection.closed:
        return False
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return not poll.poll(0)


@cache
def _call_one(function: str, count: int) -> bytes:
    markers = sql.SQL(", ").join(_MARKERS[:count])
    return (
        sql.SQL("select kilolock.{}({})").format(sql.Identifier(function), markers).as_bytes(None)
    )


@cache
def _call_all(function: str, count: int) -> sql.Composed:
    return sql.SQL("select * from kilolock.{}({})").format(
        sql.Identifier(function), sql.SQL(", ").join([sql.Placeholder()] * count)
    )


@cache
def _call_each(function: str, count: int) -> sql.Composed:
    # In a select list, because PostgreSQL works off a function in FROM before it gives a row.
    return sql.SQL("select kilolock.{}({})").format(
        sql.Identifier(function), sql.SQL(", ").join([sql.Placeholder()] * count)
    )


def _execute_each(
    connection: psycopg.Connection[Any], function: str, *args: Argument
) -> str | None:
    return _execute(connection, function, args)


def _execute(
    connection: psycopg.Connection[Any], function: str, args: Sequence[Argument]
) -> str | None:
    # Below psycopg's cursor, because that would copy a large body once more.
    values: list[bytes | None] = []
    for value in args:
        encoded = value if isinstance(value, bytes) or value is None else str(value).encode()
        if isinstance(value, str) and "\0" in value:
            raise psycopg.DataError("text cannot hold NUL characters")
        values.append(encoded)
    formats = [1 if isinstance(value, bytes) else 0 for value in args]
    result = connection.pgconn.exec_params(_call_one(function, len(args)), values, None, formats)
    if result.status == pq.ExecStatus.TUPLES_OK:
        value = result.get_value(0, 0)
        return None if value is None else value.decode()
    raise psycopg.errors.error_from_result(result, "utf-8")


_HEADLESS_STATES = """\
with states as (
  select id, environment_id, name, current_version_id, head_version, updated_at from kilolock.states
)
({}
)"""


def _query(
    connection: psycopg.Connection[Any],
    statement: str,
    args: list[str | None],
    timeout_s: float,
    limit: int,
    raw: bool | None,
) -> Answer:
    _begin(connection, timeout_s)
    try:
        columns = _columns(connection, statement)
    except psycopg.errors.AmbiguousColumn as ambiguous:
        # states shows the serial and version of its head, so a bare "serial" beside state_versions
        # has two meanings. The version's own is meant: try without the other.
        statement = _HEADLESS_STATES.format(statement.rstrip().rstrip(";"))
        connection.execute("rollback")
        _begin(connection, timeout_s)
        try:
            columns = _columns(connection, statement)
        except psycopg.Error:
            raise ambiguous from None
    if raw is None:
        signature = "kilolock.run_state_query(text, text[], bigint)"
        raw = bool(_scalar(connection, "select has_function_privilege(%s, 'execute')", [signature]))
    function = "run_state_query" if raw else "run_query"
    found = connection.execute(
        sql.SQL("select kilolock.{}(%s, %s::text[], %s)").format(sql.Identifier(function)),
        [statement, args, limit + 1],
    ).fetchall()
    rows = [json_parts(row[0]) for row in found[:limit]]
    return Answer(columns, rows, len(found) > limit)


@contextmanager
def _watch(
    connection: psycopg.Connection[Any], is_wanted: Callable[[], bool] | None
) -> Iterator[None]:
    if is_wanted is None:
        yield
        return
    done, left = threading.Event(), threading.Event()

    def look() -> None:
        while not done.wait(_LOOK_S):
            if not is_wanted():
                left.set()
                with suppress(psycopg.Error):
                    connection.cancel_safe()
                return

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    except psycopg.errors.QueryCanceled as ex:
        if left.is_set():
            raise ConnectionAbortedError("the client went away while its query ran") from ex
        raise
    finally:
        done.set()
        watcher.join()
        if left.is_set():
            # The server may act on it late: the next statement is not to be stopped by it.
            connection.close()


def _begin(connection: psycopg.Connection[Any], timeout_s: float) -> None:
    connection.execute("begin read only")
    connection.execute(
        "select set_config('statement_timeout', %s, true),"
        " set_config('search_path', 'kilolock, public', true)",
        [str(max(1, int(timeout_s * 1000)))],
    )


def _columns(connection: psycopg.Connection[Any], statement: str) -> list[Column]:
    # Preparing runs nothing, refuses two statements, and tells the columns of an empty answer.
    pgconn = connection.pgconn
    prepared = pgconn.prepare(b"", statement.encode(), [_TEXT_ARRAY])
    if prepared.status != pq.ExecStatus.COMMAND_OK:
        raise psycopg.errors.error_from_result(prepared, "utf-8")
    described = pgconn.describe_prepared(b"")
    if described.status != pq.ExecStatus.COMMAND_OK:
        raise psycopg.errors.error_from_result(described, "utf-8")
    count = described.nfields
    if count == 0:
        raise psycopg.errors.FeatureNotSupported(
            "the statement returns no columns; a query can only read"
        )
    names = [(described.fname(n) or b"").decode() for n in range(count)]
    oids = [described.ftype(n) for n in range(count)]
    mods = [described.fmod(n) for n in range(count)]
    types = connection.execute(
        "select format_type(t.oid, t.mod)"
        " from unnest(%s::oid[], %s::int[]) with ordinality t(oid, mod, n) order by n",
        [oids, mods],
    ).fetchall()
    return [Column(name, row[0]) for name, row in zip(names, types, strict=True)]


def _scalar(connection: psycopg.Connection[Any], statement: str, args: Sequence[Any]) -> Any:
    row = connection.execute(statement, args).fetchone()
    return None if row is None else row[0]
