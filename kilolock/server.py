"""``kld``: serve Terraform, and bring databases up to date."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import FrameType
from typing import Any
from urllib.parse import urlsplit

import click

from kilolock import __version__
from kilolock.config import ConfigError, Settings, check_auth, load, split_address

_MIB = 1024 * 1024
_DRAIN_S = 20
_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

log = logging.getLogger("kilolock.server")


class Refused(click.ClickException):
    """A reason not to go on, shown as one line."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.exit_code = status  # type: ignore[misc]


@click.group(context_settings=_CONTEXT)
def main() -> None:
    """Keep Terraform and OpenTofu states in PostgreSQL, as rows that SQL can ask about.

    Settings come from KL_* variables: KL_DATABASE_URL, KL_LISTEN_ADDR, KL_AUTH_MODE,
    KL_AUTH_TOKEN, KL_LOG_LEVEL, KL_LOG_FORMAT, KL_MAX_STATE_MB, KL_MAX_ARCHIVE_MB,
    KL_THREADS, KL_PGDATA.
    Without KL_DATABASE_URL (or DATABASE_URL) kld runs a PostgreSQL of its own.

    \b
    Example:
        kld serve
    """


@main.command()
@click.option("--listen", metavar="HOST:PORT", help="Where to listen; :8080 is every interface.")
def serve(listen: str | None) -> None:
    """Serve the states over HTTP until SIGTERM or Ctrl-C.

    An embedded database is migrated first; another one must have been, with kld migrate.

    \b
    Example:
        KL_DATABASE_URL=postgres://kl:kl@localhost:5432/kl kld serve --listen 127.0.0.1:8080
    """
    _serve(_settings(listen_addr=listen))


@main.command()
@click.option("--listen", metavar="HOST:PORT", help="Where to listen; :8080 is every interface.")
def dev(listen: str | None) -> None:
    """Serve on the embedded PostgreSQL with readable logs, whatever KL_DATABASE_URL says.

    \b
    Example:
        kld dev
    """
    _serve(replace(_settings(listen_addr=listen), database_url=None, log_format="text"))


@main.command()
@click.option("--sql", "show_sql", is_flag=True, help="Print the SQL for psql and change nothing.")
@click.option("--check", is_flag=True, help="Only tell, by the exit status, if it is up to date.")
def migrate(show_sql: bool, check: bool) -> None:
    """Bring the database up to this release; again is harmless, also from two hosts at once.

    \b
    Examples:
        KL_DATABASE_URL=postgres://kl:kl@localhost:5432/kl kld migrate
        kld migrate --sql > kilolock.sql
        kld migrate --check || echo "run kld migrate"
    """
    from kilolock import migrate as migrations

    settings = _settings()
    if show_sql and settings.database_url is None:
        click.echo(migrations.migrate_sql(None), nl=False)
        return
    with _database(settings) as url, _migrate_errors():
        if show_sql:
            click.echo(migrations.migrate_sql(url), nl=False)
        elif check:
            if not migrations.check(url):
                raise Refused(f"{_shown(url)} is not at release {__version__}; run kld migrate")
            click.echo(f"{_shown(url)} is at release {__version__}", err=True)
        elif migrations.migrate(url):
            click.echo(f"migrated {_shown(url)} to release {__version__}", err=True)
        else:
            click.echo(f"{_shown(url)} is at release {__version__} already", err=True)


@main.command()
def version() -> None:
    """Print the version of this kld.

    \b
    Example:
        kld version
    """
    click.echo(f"kld {__version__}")


def _settings(**flags: str | None) -> Settings:
    try:
        settings = load(os.environ)
        changes: dict[str, Any] = {k: v for k, v in flags.items() if v is not None}
        if "listen_addr" in changes:
            split_address(changes["listen_addr"])
        return replace(settings, **changes)
    except ConfigError as ex:
        raise Refused(str(ex), 2) from ex


def _set_up_logging(settings: Settings) -> None:
    handler = logging.StreamHandler(sys.stderr)
    if settings.log_format == "json":
        handler.setFormatter(_JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=settings.log_level.upper(), handlers=[handler], force=True)
    # waitress warns of every request that waits for a thread: that is what the queue is for.
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)


class _JsonFormatter(logging.Formatter):
    """One JSON object a line; the request log comes as one already."""

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        if record.name == "kilolock.requests":
            return message
        entry = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message,
        }
        if record.exc_info:
            entry["trace"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


@contextlib.contextmanager
def _database(settings: Settings) -> Iterator[str]:
    """The database URL; an embedded server runs as long as the context."""
    if settings.database_url is not None:
        yield settings.database_url
        return
    from kilolock.embedded import EmbeddedError, EmbeddedServer, ensure_database

    try:
        server = EmbeddedServer(settings.pgdata, max_connections=settings.threads + 50)
        server.start()
    except EmbeddedError as ex:
        raise Refused(str(ex)) from ex
    try:
        ensure_database(server)
        yield server.url
    finally:
        server.stop()


@contextlib.contextmanager
def _migrate_errors() -> Iterator[None]:
    import psycopg

    from kilolock.migrate import MigrateError

    try:
        yield
    except MigrateError as ex:
        raise Refused(str(ex)) from ex
    except psycopg.OperationalError as ex:
        reason = " ".join(str(ex).split())
        raise Refused(f"the database cannot be reached: {reason}", 8) from ex
    except psycopg.Error as ex:
        raise Refused(" ".join(str(ex).split())) from ex


def _shown(url: str) -> str:
    """A database URL without its password."""
    parts = urlsplit(url)
    if not parts.hostname:
        return "the database"
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"


class _Stopped(BaseException):
    """SIGTERM or SIGINT arrived: leave through every finally."""


def _stop(_number: int, _frame: FrameType | None) -> None:
    # A second signal while everything is being closed must not interrupt the closing.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise _Stopped


def _serve(settings: Settings) -> None:
    try:
        check_auth(settings)
    except ConfigError as ex:
        raise Refused(str(ex), 2) from ex
    _set_up_logging(settings)
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)
    with contextlib.suppress(_Stopped):
        listener = _listen(settings)
        with contextlib.closing(listener), _database(settings) as url:
            _require_schema(settings, url)
            _run(settings, url, listener)
    if settings.log_format == "text":
        click.echo("kld stopped", err=True)


def _listen(settings: Settings) -> socket.socket:
    """Bind before the database starts, so that a taken port is known at once."""
    host, port = settings.listen
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as ex:
        raise Refused(f"cannot listen on {settings.listen_addr}: {ex.strerror or ex}") from ex
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
    except OSError as ex:
        listener.close()
        if ex.errno == errno.EADDRINUSE:
            raise Refused(
                f"{settings.listen_addr} is in use by another program, maybe another kld; "
                "stop it, or choose another address with KL_LISTEN_ADDR"
            ) from ex
        raise Refused(f"cannot listen on {settings.listen_addr}: {ex.strerror or ex}") from ex
    return listener


def _require_schema(settings: Settings, url: str) -> None:
    from kilolock import migrate as migrations

    with _migrate_errors():
        if settings.database_url is None:
            migrations.migrate(url)
        elif not migrations.check(url):
            raise Refused(
                f"{_shown(url)} is not at release {__version__}: run kld migrate with the same"
                " KL_DATABASE_URL, then kld serve again"
            )


def _run(settings: Settings, url: str, listener: socket.socket) -> None:
    from waitress import create_server, parser
    from waitress.utilities import BadRequest

    from kilolock.app import create_app
    from kilolock.db import Database

    # A transfer encoding that waitress does not know is the client's mistake, not 501: Terraform
    # would send the request again.
    parser.ServerNotImplemented = BadRequest
    body_limit = (max(settings.max_state_mb, settings.max_archive_mb) + 1) * _MIB
    db = Database(url, max_size=settings.threads)
    try:
        app: Callable[..., Any] = create_app(db, settings)
        server = create_server(
            app,
            sockets=[listener],
            threads=settings.threads,
            ident=None,
            # The application refuses what is too large with a reason; this is the wall behind it.
            max_request_body_size=body_limit,
            # A slow reader of a large state must not hold a database connection.
            outbuf_high_watermark=(settings.max_state_mb + 1) * _MIB,
            channel_timeout=300,
            connection_limit=1000,
            backlog=1024,
            send_bytes=262144,
            recv_bytes=262144,
            asyncore_use_poll=True,
            clear_untrusted_proxy_headers=True,
        )
        _serve_until_stopped(server, lambda: _greet(settings, url, listener))
    finally:
        db.close()


def _serve_until_stopped(server: Any, greet: Callable[[], None]) -> None:
    """Run the server's loop; a signal closes the listener and lets running requests end."""
    stopping = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopping.set()
        # The loop goes back to its wait after a signal; this wakes it.
        server.pull_trigger()

    def turn(seconds: float) -> None:
        server.asyncore.loop(timeout=seconds, use_poll=True, map=server._map, count=1)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    greet()
    while not stopping.is_set():
        turn(1)
    server.del_channel(server._map)
    server.socket.close()
    deadline = time.monotonic() + _DRAIN_S
    while time.monotonic() < deadline and any(
        channel.requests or channel.total_outbufs_len for channel in server.active_channels.values()
    ):
        turn(0.05)
    server.task_dispatcher.shutdown(timeout=1)


def _greet(settings: Settings, url: str, listener: socket.socket) -> None:
    host, port = listener.getsockname()[:2]
    shown_host = {"0.0.0.0": "localhost", "::": "localhost"}.get(host, host)
    shown_host = f"[{shown_host}]" if ":" in shown_host else shown_host
    address = f"http://{shown_host}:{port}"
    if settings.log_format == "json":
        log.info("kld %s serves on %s from %s", __version__, address, _shown(url))
        return
    database = _shown(url)
    if settings.database_url is None:
        database = f"embedded PostgreSQL in {settings.pgdata}"
    guard = "open: whoever reaches the address may read and write"
    if settings.auth_mode == "static":
        guard = "static: KL_AUTH_TOKEN as bearer token or as password"
    click.echo(
        f"kld {__version__} is ready\n"
        f"  address   {address}\n"
        f"  database  {database}\n"
        f"  access    {guard}\n"
        f'  backend   address = "{address}/v1/states/NAME", lock_address and unlock_address alike\n'
        f"  query     KL_STATE_URL={address} kl query "
        '"select name, serial, resource_count from states"\n'
        "  stop      Ctrl-C",
        err=True,
    )


if __name__ == "__main__":
    main()
