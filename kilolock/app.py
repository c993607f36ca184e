"""The HTTP side: routes, statuses and headers around one function call a request."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import logging
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote, unquote_to_bytes

import falcon
import psycopg
from falcon.routing import BaseConverter

from kilolock import __version__
from kilolock.actions import ACTIONS
from kilolock.archive import ArchiveError, Packed, restore
from kilolock.errors import QueryError, Refusal, query_refusal, refusal
from kilolock.output import to_csv, to_wire

if TYPE_CHECKING:
    from kilolock.config import Settings
    from kilolock.db import Database

_KIB = 1024
_MIB = 1024 * _KIB
_LOCK_INFO_LIMIT = 64 * _KIB
_SQL_LIMIT = _MIB
_ROW_LIMIT = 10_000
_MOST_ROWS = 1_000_000
_MOST_SECONDS = 600
_OPEN_PATHS = {"/healthz", "/readyz", "/versionz", "/metrics"}
_METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "LOCK", "UNLOCK"]
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")

_log = logging.getLogger("kilolock.requests")
_faults = logging.getLogger("kilolock")


def create_app(db: Database, settings: Settings) -> Front:
    """The WSGI application over one database."""
    app = falcon.App(middleware=[Gate(settings)])
    app.router_options.converters["state"] = _AddressConverter
    app.set_error_serializer(_serialize)
    app.add_error_handler(Exception, _answer_fault)
    app.add_error_handler(psycopg.Error, _answer_refusal)
    app.add_error_handler(QueryError, _answer_query_refusal)
    app.add_error_handler(ArchiveError, _answer_archive_error)
    app.add_error_handler(ConnectionAbortedError, _answer_nobody)
    requests = Requests()
    app.add_route("/v1/states/{state:state}", State(db, settings.max_state_mb * _MIB))
    app.add_route("/v1/state-unlock/{state:state}", StateUnlock(db))
    app.add_route("/v1/state-versions/{state:state}", StateVersion(db))
    app.add_route("/v1/archives/{state:state}", Archive(db, settings.max_archive_mb * _MIB))
    app.add_route("/v1/query", Query(db))
    for path, function in ACTIONS.items():
        kind = Reading if function.startswith("read_") else Action
        app.add_route(f"/v1/{path}", kind(db, function, settings.max_state_mb * _MIB))
    app.add_route("/healthz", Health())
    app.add_route("/readyz", Ready(db))
    app.add_route("/versionz", Version())
    app.add_route("/metrics", Metrics(db, requests))
    return Front(app, requests, settings.log_format)


class Address(NamedTuple):
    """Which state a URL means; no workspace and no environment is the default environment."""

    workspace: str | None
    environment: str | None
    name: str

    def __str__(self) -> str:
        return "/".join(part for part in self if part is not None)


class State:
    """``/v1/states/…``, the address of Terraform's http backend."""

    def __init__(self, db: Database, limit: int) -> None:
        self._db = db
        self._limit = limit

    def on_get(self, req: falcon.Request, resp: falcon.Response, state: Address) -> None:
        """Send the state."""
        _send_document(req, resp, self._db, state)

    def on_head(self, req: falcon.Request, resp: falcon.Response, state: Address) -> None:
        """Say what a GET would send."""
        [(version, _, size, md5)] = self._db.rows("head_state", *state)
        _describe(req, resp, version, size, md5)

    def on_post(self, req: falcon.Request, resp: falcon.Response, state: Address) -> None:
        """Store a version."""
        done = self._db.call(
            "write_state",
            *state,
            _lock_id(req),
            _body(req, self._limit, "Raise KL_MAX_STATE_MB to take it."),
            req.get_header("Content-MD5"),
            _actor(req),
            req.get_header("Kilolock-Source") or "apply",
            req.get_header("Kilolock-Force"),
        )
        resp.text = done
        resp.content_type = falcon.MEDIA_JSON
        req.env["kilolock.version"] = json.loads(done or "{}").get("version")

    on_put = on_post

    def on_delete(self, req: falcon.Request, resp: falcon.Response, state: Address) -> None:
        """Delete the state; its history stays."""
        self._db.call("delete_state", *state, _lock_id(req), req.context.actor)

    def on_lock(self, req: falcon.Request, resp: falcon.Response, state: Address) -> None:
        """Take the lock."""
        body = _body(req, _LOCK_INFO_LIMIT)
        holder = self._db.call("request_lock", *state, body, req.context.actor)
        if holder is not None:
            resp.status = falcon.HTTP_423
            resp.content_type = falcon.MEDIA_JSON
            resp.text = holder

    def on_unlock(self, req: falcon.Request, resp: falcon.Response, state: Address) -> None:
        """Release the lock."""
        body = _body(req, _LOCK_INFO_LIMIT)
        self._db.call("release_lock", *state, _lock_id(req), body, req.context.actor)


class StateUnlock:
    """``/v1/state-unlock/…``, UNLOCK for ingresses that drop unusual methods."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def on_post(self, req: falcon.Request, resp: falcon.Response, state: Address) -> None:
        """Release the lock."""
        body = _body(req, _LOCK_INFO_LIMIT)
        self._db.call("release_lock", *state, _lock_id(req), body, req.context.actor)


class StateVersion:
    """``/v1/state-versions/…?version=REF``, a state as it was."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def on_get(self, req: falcon.Request, resp: falcon.Response, state: Address) -> None:
        """Send an older version."""
        ref = _query_value(req, "version")
        if not ref:
            raise falcon.HTTPBadRequest(
                title="version is missing",
                description="Ask with ?version=REF: N, @N, serial:N, a tag, a time or current.",
            )
        _send_document(req, resp, self._db, state, ref)


class Archive:
    """``/v1/archives/…``, a state with its whole history in one file."""

    def __init__(self, db: Database, limit: int) -> None:
        self._db = db
        self._limit = limit

    def on_get(self, req: falcon.Request, resp: falcon.Response, state: Address) -> None:
        """Send it."""
        rows = self._db.stream("export_archive", *state)
        resp.content_type = "application/vnd.kilolock.archive"
        resp.set_header("Cache-Control", "no-store")
        resp.stream = Packed((row[0] for row in rows), rows.close)

    def on_post(self, req: falcon.Request, resp: falcon.Response, state: Address) -> None:
        """Make a state of one. The server has put the body on its disk; it is read from there."""
        _check_body(req, self._limit, "Raise KL_MAX_ARCHIVE_MB to take it.")
        environ = req.env
        resp.text = restore(
            self._db, req.bounded_stream, state, _actor(req), lambda: _is_there(environ)
        )
        resp.content_type = falcon.MEDIA_JSON


class Query:
    """``/v1/query``: one SELECT, its rows as JSON or CSV."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Run the query. Whoever gets here may GET every state, so documents can be read too."""
        ask, environ = _read_query(req), req.env
        answer = self._db.query(
            ask.sql,
            ask.args,
            timeout_s=ask.timeout,
            limit=ask.limit,
            raw=True,
            is_wanted=lambda: _is_there(environ),
        )
        resp.set_header("Kilolock-Truncated", json.dumps(answer.truncated))
        if ask.csv:
            resp.content_type = "text/csv; charset=utf-8; header=present"
            resp.text = to_csv(answer)
        else:
            resp.content_type = falcon.MEDIA_JSON
            resp.text = to_wire(answer)


class Action:
    """``/v1/<path>`` of an action: a JSON object in, one function, JSON out."""

    def __init__(self, db: Database, function: str, limit: int) -> None:
        self._db = db
        self._function = function
        self._limit = limit

    def on_post(self, req: falcon.Request, resp: falcon.Response, **parts: str) -> None:
        """Do it."""
        try:
            body = _body(req, self._limit).decode("utf-8-sig")
            request = json.loads(body)
        except (ValueError, RecursionError):
            request = None
        if not isinstance(request, dict):
            raise falcon.HTTPBadRequest(
                title="the body is not a JSON object",
                description='Send an object such as {"state": "prod"}.',
            )
        if parts:
            body = json.dumps(request | _decoded(parts))
        self._do(req, resp, request.get("state"), body)

    def _do(self, req: falcon.Request, resp: falcon.Response, state: Any, request: str) -> None:
        req.env["kilolock.state"] = state
        resp.text = self._db.call(self._function, request, req.context.actor)
        resp.content_type = falcon.MEDIA_JSON


class Reading(Action):
    """An action that only tells something: GET does it too, with what stands in the path."""

    def on_get(self, req: falcon.Request, resp: falcon.Response, **parts: str) -> None:
        """Tell it."""
        self._do(req, resp, None, json.dumps(_decoded(parts)))


class Health:
    """``/healthz``: the process runs."""

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Say so."""
        resp.media = {"status": "ok"}

    on_head = on_get


class Ready:
    """``/readyz``: the database takes writes."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Ask the database."""
        self._db.call("check_ready")
        resp.media = {"status": "ready"}

    on_head = on_get


class Version:
    """``/versionz``: which release this is."""

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Name it."""
        resp.media = {"version": __version__}

    on_head = on_get


class Metrics:
    """``/metrics`` in Prometheus text: what the database holds, and what this process answered."""

    def __init__(self, db: Database, requests: Requests) -> None:
        self._db = db
        self._requests = requests

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Write both; the process counts on while the database is away."""
        try:
            held = self._db.call("read_metrics") or ""
        except psycopg.Error:
            held = ""
        resp.content_type = "text/plain; version=0.0.4; charset=utf-8"
        resp.text = f"# TYPE kilolock_database_up gauge\nkilolock_database_up {int(bool(held))}\n"
        resp.text += (
            held
            + ("" if held.endswith("\n") or not held else "\n")
            + "".join(self._requests.render())
        )


class Gate:
    """What every request passes before a route: its method, then its credentials."""

    def __init__(self, settings: Settings) -> None:
        self._token = (
            settings.auth_token.encode()
            if settings.auth_mode == "static" and settings.auth_token
            else None
        )
        if settings.auth_mode != "open" and self._token is None:
            raise ValueError("KL_AUTH_MODE=static needs KL_AUTH_TOKEN")

    def process_request(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Refuse what no route can take."""
        req.context.actor = None
        if req.method not in (*_METHODS, "OPTIONS", "PATCH"):
            raise falcon.HTTPMethodNotAllowed(_METHODS)
        if req.path in _OPEN_PATHS:
            return
        user, secret = _credentials(req.env.get("HTTP_AUTHORIZATION", ""))
        if self._token is None:
            if "HTTP_ORIGIN" in req.env:
                raise falcon.HTTPForbidden(
                    title="requests of web pages are refused without authentication",
                    description="Set KL_AUTH_MODE=static, and send the token.",
                )
        elif secret is None or not hmac.compare_digest(secret, self._token):
            raise falcon.HTTPUnauthorized(
                title="the token is missing or wrong",
                description="Send it as the password of basic authentication (backend block, "
                "TF_HTTP_PASSWORD, KL_TOKEN) or as a bearer token.",
                challenges=['Basic realm="kilolock", charset="UTF-8"', "Bearer"],
            )
        req.context.actor = user

    def process_resource(
        self, req: falcon.Request, resp: falcon.Response, resource: object, params: dict[str, Any]
    ) -> None:
        """Note for the log and the counters where the request went."""
        req.env["kilolock.route"] = str(req.uri_template).replace("{state:state}", "{state}")
        req.env["kilolock.state"] = params.get("state")


class Requests:
    """Counters and durations of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._buckets: Counter[tuple[str, str, float]] = Counter()
        self._sums: dict[tuple[str, str], float] = {}

    def add(self, method: str, route: str, status: str, seconds: float) -> None:
        """Count one answer."""
        with self._lock:
            self._counts[method, route, status] += 1
            self._sums[method, route] = self._sums.get((method, route), 0.0) + seconds
            bucket = next((b for b in _BUCKETS if seconds <= b), float("inf"))
            self._buckets[method, route, bucket] += 1

    def render(self) -> Iterator[str]:
        """Lines of Prometheus text."""
        with self._lock:
            counts, buckets, sums = dict(self._counts), dict(self._buckets), dict(self._sums)
        name = "kilolock_http_requests_total"
        yield f"# HELP {name} Requests answered.\n# TYPE {name} counter\n"
        for (method, route, status), count in sorted(counts.items()):
            labels = f'method="{method}",route="{route}",status="{status}"'
            yield f"{name}{{{labels}}} {count}\n"
        name = "kilolock_http_request_duration_seconds"
        yield f"# HELP {name} Time until the last byte was handed over.\n# TYPE {name} histogram\n"
        for (method, route), total in sorted(sums.items()):
            labels, so_far = f'method="{method}",route="{route}"', 0
            for bound in (*_BUCKETS, float("inf")):
                so_far += buckets.get((method, route, bound), 0)
                le = "+Inf" if bound == float("inf") else bound
                yield f'{name}_bucket{{{labels},le="{le}"}} {so_far}\n'
            yield f"{name}_sum{{{labels}}} {total:.6f}\n{name}_count{{{labels}}} {so_far}\n"


class Front:
    """The outermost layer: makes the raw path the route, logs and counts each answer."""

    def __init__(
        self, app: Callable[..., Iterable[bytes]], requests: Requests, log_format: str
    ) -> None:
        self._app = app
        self._requests = requests
        self._log_format = log_format

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        """Answer one request."""
        started = time.perf_counter()
        environ["PATH_INFO"] = _raw_path(environ)
        seen: dict[str, str] = {}

        def note(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
            seen["status"] = status[:3]
            seen["bytes"] = next((v for k, v in headers if k.lower() == "content-length"), "0")
            return start_response(status, headers, *exc_info)

        def finish() -> None:
            self._finish(
                environ,
                seen.get("status", "500"),
                seen.get("bytes", "0"),
                time.perf_counter() - started,
            )

        return _Answer(self._app(environ, note), finish)

    def _finish(self, environ: dict[str, Any], status: str, length: str, seconds: float) -> None:
        method = environ["REQUEST_METHOD"]
        if method not in (*_METHODS, "OPTIONS", "PATCH"):
            method = "other"
        self._requests.add(method, environ.get("kilolock.route", "none"), status, seconds)
        state, version = environ.get("kilolock.state"), environ.get("kilolock.version")
        record: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "method": method,
            "path": environ["PATH_INFO"][:500],
            "state": None if state is None else str(state)[:500],
            "version": version,
            "status": int(status),
            "duration_ms": round(seconds * 1000, 1),
            "bytes": int(length),
        }
        if self._log_format == "json":
            _log.info(json.dumps(record, ensure_ascii=False))
        else:
            del record["time"]
            _log.info(" ".join(f"{k}={_word(v)}" for k, v in record.items() if v is not None))


class _Answer:
    def __init__(self, body: Iterable[bytes], finish: Callable[[], None]) -> None:
        self._body = body
        self._finish = finish

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._body)

    def close(self) -> None:
        try:
            getattr(self._body, "close", lambda: None)()
        finally:
            self._finish()


class _AddressConverter(BaseConverter):
    CONSUME_MULTIPLE_SEGMENTS = True

    def convert(self, value: Iterable[str]) -> Address | None:
        parts = [_decode(segment, "name") for segment in value]
        if len(parts) == 1 and parts[0]:
            return Address(None, None, parts[0])
        if len(parts) == 3 and all(parts):
            return Address(parts[0], parts[1], parts[2])
        return None


@dataclass(frozen=True)
class _Ask:
    sql: str
    args: list[str | None]
    csv: bool
    timeout: float
    limit: int


def _read_query(req: falcon.Request) -> _Ask:
    body = _body(req, _SQL_LIMIT)
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise falcon.HTTPBadRequest(title="the query is not UTF-8") from None
    fields: Any = {"sql": text}
    if (req.content_type or "").split(";")[0].strip().lower() == "application/json":
        try:
            # An argument keeps its digits: a float would lose some.
            fields = json.loads(text, parse_float=Decimal)
        except (ValueError, RecursionError):
            fields = None
    if (
        not isinstance(fields, dict)
        or not isinstance(fields.get("sql"), str)
        or not fields["sql"].strip()
    ):
        raise falcon.HTTPBadRequest(
            title="the body holds no query",
            description='Send SQL as text/plain, or JSON such as {"sql": "select 1"}.',
        )
    if _SURROGATE.search(fields["sql"]):
        raise falcon.HTTPBadRequest(title="the query is not UTF-8")
    fmt = fields.get("format") or ("csv" if "text/csv" in req.accept else "json")
    if fmt not in ("json", "csv"):
        raise falcon.HTTPBadRequest(title="format is neither json nor csv")
    args = [] if fields.get("args") is None else fields["args"]
    if not isinstance(args, list) or any(isinstance(a, (dict, list)) for a in args):
        raise falcon.HTTPBadRequest(title="args is not a list of plain values")
    words = [
        a if a is None or isinstance(a, str) else json.dumps(a) if isinstance(a, bool) else str(a)
        for a in args
    ]
    if any(a is not None and _SURROGATE.search(a) for a in words):
        raise falcon.HTTPBadRequest(title="args is not UTF-8")
    timeout = _number(fields, "timeout", 30, _MOST_SECONDS)
    limit = int(_number(fields, "limit", _ROW_LIMIT, _MOST_ROWS))
    return _Ask(fields["sql"], words, fmt == "csv", timeout, limit)


def _number(fields: dict[str, Any], key: str, default: float, most: float) -> float:
    value = fields.get(key)
    if value is None:
        return default
    kinds = (int, float, Decimal)
    if isinstance(value, bool) or not isinstance(value, kinds) or not 0 < value <= most:
        raise falcon.HTTPBadRequest(title=f"{key} is not a number up to {most}")
    return float(value)


def _send_document(
    req: falcon.Request,
    resp: falcon.Response,
    db: Database,
    state: Address,
    ref: str | None = None,
) -> None:
    meta, document = db.document("read_state", *state, ref)
    _describe(req, resp, meta.version, meta.size, meta.md5)
    if resp.get_header("ETag") in [
        tag.strip() for tag in (req.get_header("If-None-Match") or "").split(",")
    ]:
        document.close()
        resp.status = falcon.HTTP_304
        return
    resp.stream = document


def _describe(
    req: falcon.Request, resp: falcon.Response, version: int, size: int, md5: str
) -> None:
    req.env["kilolock.version"] = version
    resp.content_type = falcon.MEDIA_JSON
    resp.content_length = size
    resp.set_header("Content-MD5", base64.b64encode(bytes.fromhex(md5)).decode())
    resp.set_header("ETag", f'"{md5}"')
    resp.set_header("Cache-Control", "no-store")
    resp.set_header("Kilolock-Version", str(version))


def _body(req: falcon.Request, limit: int, advice: str | None = None) -> bytes:
    length = _check_body(req, limit, advice)
    body: bytes = req.bounded_stream.read()
    if len(body) < length:
        raise falcon.HTTPBadRequest(title="the body was cut short")
    return body


def _check_body(req: falcon.Request, limit: int, advice: str | None) -> int:
    if "HTTP_TRANSFER_ENCODING" in req.env:
        # The server did not undo it: the body only looks empty, and an empty UNLOCK is force.
        raise falcon.HTTPBadRequest(title="Transfer-Encoding needs HTTP/1.1")
    if (req.get_header("Content-Encoding") or "identity").strip().lower() != "identity":
        raise falcon.HTTPUnsupportedMediaType(
            title="Content-Encoding is not supported", description="Send the body as it is."
        )
    length = req.content_length or 0
    if length > limit:
        raise falcon.HTTPContentTooLarge(
            title=f"the body has {length} bytes, more than the {limit} that are allowed",
            description=advice,
        )
    return length


def _is_there(environ: dict[str, Any]) -> bool:
    """Whether the client still waits; waitress itself looks only between requests."""
    channel = getattr(environ.get("waitress.client_disconnected"), "__self__", None)
    sock = getattr(channel, "socket", None)
    if sock is None:
        return True
    try:
        return bool(sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except BlockingIOError:
        return True
    except OSError:
        return False


def _actor(req: falcon.Request) -> str | None:
    """Who signed in, else whom kl names; Terraform's name is in the lock."""
    named = unquote(req.get_header("Kilolock-Who") or "")
    return req.context.actor or _CONTROL.sub("", named)[:255] or None


def _lock_id(req: falcon.Request) -> str | None:
    return _query_value(req, "ID")


def _query_value(req: falcon.Request, key: str) -> str | None:
    # Terraform merges ID into the query of the address; other keys are somebody else's business.
    for pair in req.query_string.split("&"):
        name, _, value = pair.partition("=")
        if name == key:
            return _decode(value.replace("+", " "), key)
    return None


def _decode(text: str, what: str) -> str:
    if _BAD_ESCAPE.search(text):
        raise falcon.HTTPBadRequest(title=f"the {what} in the URL holds a stray %")
    try:
        decoded = unquote_to_bytes(text.encode("latin-1")).decode()
    except UnicodeError:
        raise falcon.HTTPBadRequest(title=f"the {what} in the URL is not UTF-8") from None
    if _CONTROL.search(decoded):
        raise falcon.HTTPBadRequest(title=f"the {what} in the URL holds control characters")
    return decoded


def _decoded(parts: dict[str, str]) -> dict[str, str]:
    return {key: _decode(value, key) for key, value in parts.items()}


def _credentials(header: str) -> tuple[str | None, bytes | None]:
    scheme, _, value = header.partition(" ")
    value = value.strip()
    if scheme.lower() == "bearer" and value:
        return None, value.encode("latin-1", "replace")
    if scheme.lower() != "basic":
        return None, None
    try:
        user, colon, password = base64.b64decode(value, validate=True).partition(b":")
        name = user.decode()
    except (binascii.Error, ValueError):
        return None, None
    if not colon or not name or _CONTROL.search(name) or len(name) > 255:
        return None, None
    return name, password


def _raw_path(environ: dict[str, Any]) -> str:
    # PATH_INFO is decoded, and a decoded %2F looks like the end of a name.
    raw = environ.get("REQUEST_URI")
    if raw is None:
        raw = quote(environ.get("PATH_INFO", "").encode("latin-1"))
    absolute = _ABSOLUTE.match(raw)
    if absolute:
        raw = raw[absolute.end() :]
    path = raw.split("?", 1)[0].split("#", 1)[0].strip("/")
    return "/" + quote(path.encode("latin-1"), safe="/%!$&'()*+,;=:@-._~[]\"<>\\^`{|}")


def _word(value: object) -> str:
    text = str(value)
    return (
        text if text.isprintable() and not re.search('[ "=]', text) and text else json.dumps(text)
    )


def _serialize(req: falcon.Request, resp: falcon.Response, ex: falcon.HTTPError) -> None:
    code = re.sub(r"[^a-z]+", "_", str(ex.status)[4:].lower()).strip("_")
    _send_error(resp, code, ex.title or str(ex.status)[4:].lower(), ex.description)


def _answer_refusal(
    req: falcon.Request, resp: falcon.Response, ex: psycopg.Error, params: dict[str, Any]
) -> None:
    _answer(req, resp, refusal(ex), ex)


def _answer_query_refusal(
    req: falcon.Request, resp: falcon.Response, ex: QueryError, params: dict[str, Any]
) -> None:
    cause = ex.__cause__
    assert isinstance(cause, psycopg.Error)
    _answer(req, resp, query_refusal(cause), cause)


def _answer_archive_error(
    req: falcon.Request, resp: falcon.Response, ex: ArchiveError, params: dict[str, Any]
) -> None:
    resp.status = falcon.HTTP_400
    _send_error(resp, "KLB09", str(ex), "Nothing was imported.")


def _answer_nobody(
    req: falcon.Request, resp: falcon.Response, ex: ConnectionAbortedError, params: dict[str, Any]
) -> None:
    # 499 is what others log of a client that did not wait for its answer.
    resp.status = "499 Client Closed Request"
    _send_error(resp, "client_left", str(ex), None)


def _answer_fault(
    req: falcon.Request, resp: falcon.Response, ex: Exception, params: dict[str, Any]
) -> None:
    _faults.error("%s %s failed", req.method, req.path, exc_info=ex)
    resp.status = falcon.HTTP_500
    _send_error(resp, "internal", "kld made a mistake; its log says more", None)


def _answer(
    req: falcon.Request, resp: falcon.Response, problem: Refusal, ex: psycopg.Error
) -> None:
    resp.status = falcon.code_to_http_status(problem.status)
    resp.content_length = None
    if problem.status >= 500:
        # Where it happened, but not the DETAIL or CONTEXT in full: they may quote the document.
        where = [
            line
            for line in (ex.diag.context or "").splitlines()
            if line.startswith("PL/pgSQL function")
        ]
        _faults.error(
            "%s %s: %s %s %s", req.method, req.path, problem.code, problem.message, "; ".join(where)
        )
    if problem.status == 503:
        resp.set_header("Retry-After", "1")
    if problem.status == 423 and problem.detail:
        # Terraform reads the holder from here, and nothing else may stand beside it.
        resp.content_type = falcon.MEDIA_JSON
        resp.text = problem.detail
        # A holder may call itself anything, at any length.
        said = json.dumps(_error(problem.code, problem.message[:1000], (problem.hint or "")[:1000]))
        resp.set_header("Kilolock-Error", said)
    else:
        _send_error(resp, problem.code, problem.message, problem.hint)


def _error(code: str, message: str, hint: str | None) -> dict[str, str | None]:
    return {"code": code, "message": message, "hint": hint}


def _send_error(resp: falcon.Response, code: str, message: str, hint: str | None) -> None:
    resp.content_type = falcon.MEDIA_JSON
    resp.text = json.dumps({"error": _error(code, message, hint)}, ensure_ascii=False)
