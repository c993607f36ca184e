"""Finds the database or the kld that kl talks to, and talks to it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kilolock.actions import ACTIONS

if TYPE_CHECKING:
    from kilolock.archive import Readable
    from kilolock.db import Database
    from kilolock.output import Answer

DEFAULT_URL = "http://127.0.0.1:8080"
_STATES = "/v1/states"
_ARCHIVE_TYPE = "application/vnd.kilolock.archive"
_BLOCK = 1 << 18
# Nothing is heard of a kld while it replays a long history.
_LONG = 24 * 3600.0


class SourceError(Exception):
    """kl could not get an answer; carries the exit status, and maybe JSON for a machine."""

    def __init__(
        self, message: str, exit_status: int, hint: str | None = None, detail: str | None = None
    ) -> None:
        super().__init__(message)
        self.exit_status = exit_status
        self.hint = hint
        self.detail = detail


@dataclass(frozen=True)
class Target:
    """Where to ask, how to sign in, and the state that this directory belongs to."""

    database_url: str | None = None
    base_url: str | None = None
    state: str | None = None
    workspace: str | None = None
    environment: str | None = None
    user: str | None = None
    password: str | None = None
    verify_tls: bool = True

    def source(self) -> Any:
        """Something with ``query`` and ``act``: PostgreSQL itself, or a kld."""
        return DatabaseSource(self) if self.database_url else HttpSource(self)


def discover(
    environ: Mapping[str, str],
    directory: Path,
    *,
    database_url: str | None = None,
    state_url: str | None = None,
) -> Target:
    """Flags, then KL_* variables, .kl.toml, what terraform init recorded, and this machine."""
    backend = _backend(environ, directory)
    settings: dict[str, Any] = {}
    if not (state_url or database_url or environ.get("KL_STATE_URL")):
        settings = {} if environ.get("KL_DATABASE_URL") else _toml(directory)
    if database_url is None and state_url is None:
        database_url = environ.get("KL_DATABASE_URL") or (
            None if environ.get("KL_STATE_URL") else settings.get("database_url")
        )
    state_url = state_url or environ.get("KL_STATE_URL")
    if state_url:
        here = _http(state_url, environ, backend)
    elif settings.get("state_url"):
        here = _http(settings["state_url"], environ, backend | settings)
    elif backend.get("address"):
        here = _http(backend["address"], environ, backend)
    else:
        here = _http(DEFAULT_URL, environ, backend)
        database_url = database_url or environ.get("DATABASE_URL")
    return replace(here, database_url=database_url) if database_url else here


class DatabaseSource:
    """PostgreSQL, directly."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def query(self, sql: str, args: Sequence[str | None], timeout_s: float, limit: int) -> Answer:
        """Run SQL as the reader role."""
        with self._database() as db:
            return db.query(sql, args, timeout_s=timeout_s, limit=limit)

    def read(self, state: str, version: str | None = None) -> tuple[int, bytes]:
        """The number and the bytes of a version, by default of the head."""
        address = (self._target.workspace, self._target.environment, state)
        with self._database() as db:
            meta, document = db.document("read_state", *address, version)
            return meta.version, b"".join(document)

    def write(
        self, state: str, body: bytes, who: str, source: str = "apply", force: bool = False
    ) -> Any:
        """Store a document as the next version; what it changed."""
        address = (self._target.workspace, self._target.environment, state)
        with self._database() as db:
            done = db.call("write_state", *address, None, body, None, who, source, force)
            return json.loads(done or "null")

    @contextmanager
    def read_archive(self, state: str) -> Iterator[Iterable[bytes]]:
        """The archive of a state, in pieces."""
        from kilolock.archive import Packed

        address = (self._target.workspace, self._target.environment, state)
        with self._database() as db:
            rows = db.stream("export_archive", *address)
            yield Packed((row[0] for row in rows), rows.close)

    def write_archive(self, state: str, file: Readable, size: int | None, who: str) -> Any:
        """Make a state of an archive; what it holds."""
        from kilolock.archive import ArchiveError, restore

        address = (self._target.workspace, self._target.environment, state)
        with self._database() as db:
            try:
                return json.loads(restore(db, file, address, who))
            except ArchiveError as ex:
                raise SourceError(str(ex), 2, "Nothing was imported.") from None

    def act(self, action: str, request: Mapping[str, Any], timeout_s: float = 600) -> Any:
        """Do one of ACTIONS; a database has its own time-outs."""
        with self._database() as db:
            return json.loads(db.call(ACTIONS[action], json.dumps(request), None) or "null")

    @contextmanager
    def _database(self) -> Iterator[Database]:
        import psycopg

        from kilolock.db import Database
        from kilolock.errors import AWAY, QueryError, query_refusal, refusal

        db = Database(str(self._target.database_url), max_size=1)
        try:
            yield db
            return
        except QueryError as ex:
            problem = query_refusal(ex.__cause__)  # type: ignore[arg-type]
        except psycopg.Error as ex:
            problem = refusal(ex)
        finally:
            db.close()
        away = problem.exit_status == AWAY
        hint = "Check the database URL, or try again in a moment." if away else problem.hint
        raise SourceError(problem.message, problem.exit_status, hint, problem.detail)


class HttpSource:
    """A kld, through POST /v1/query."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def query(self, sql: str, args: Sequence[str | None], timeout_s: float, limit: int) -> Answer:
        """Run SQL as the reader role of that kld."""
        from kilolock.output import from_wire

        body = json.dumps(
            {"sql": sql, "args": list(args), "timeout": timeout_s, "limit": limit}
        ).encode()
        text = self._post("/v1/query", body, timeout_s + 15)
        try:
            return from_wire(text)
        except (ValueError, TypeError, IndexError, StopIteration):
            raise SourceError(f"{self._target.base_url} does not answer as a kld does", 1) from None

    def act(self, action: str, request: Mapping[str, Any], timeout_s: float = 600) -> Any:
        """Do one of ACTIONS."""
        body = json.dumps(request).encode()
        return json.loads(self._post(f"/v1/{action}", body, timeout_s) or "null")

    def read(self, state: str, version: str | None = None) -> tuple[int, bytes]:
        """The number and the bytes of a version, by default of the head."""
        from urllib.parse import quote

        path = self._path("states", state)
        if version is not None:
            path = self._path("state-versions", state) + f"?version={quote(version, safe='')}"
        headers, body = self._send(path, None, 600)
        return int(headers["Kilolock-Version"]), body

    def write(
        self, state: str, body: bytes, who: str, source: str = "apply", force: bool = False
    ) -> Any:
        """Store a document as the next version; what it changed."""
        import base64
        import hashlib
        from urllib.parse import quote

        headers = {
            "Kilolock-Source": source,
            "Kilolock-Who": quote(who),
            "Content-MD5": base64.b64encode(hashlib.md5(body).digest()).decode(),
        }
        if force:
            headers["Kilolock-Force"] = "true"
        return json.loads(self._send(self._path("states", state), body, 600, headers)[1])

    @contextmanager
    def read_archive(self, state: str) -> Iterator[Iterable[bytes]]:
        """The archive of a state, in pieces."""
        with self._open(self._path("archives", state), None, _LONG, {}) as reply:
            yield iter(lambda: reply.read(_BLOCK), b"")

    def write_archive(self, state: str, file: Readable, size: int | None, who: str) -> Any:
        """Make a state of an archive; what it holds."""
        from urllib.parse import quote

        headers = {"Content-Type": _ARCHIVE_TYPE, "Kilolock-Who": quote(who)}
        if size is not None:
            headers["Content-Length"] = str(size)
        blocks = iter(lambda: file.read(_BLOCK), b"")
        return json.loads(self._send(self._path("archives", state), blocks, _LONG, headers)[1])

    def _path(self, kind: str, state: str) -> str:
        from urllib.parse import quote

        parts = [p for p in (self._target.workspace, self._target.environment) if p]
        return f"/v1/{kind}/" + "/".join(quote(p, safe="") for p in (*parts, state))

    def _post(self, path: str, body: bytes, timeout_s: float) -> str:
        return self._send(path, body, timeout_s)[1].decode()

    def _send(
        self,
        path: str,
        body: bytes | Iterator[bytes] | None,
        timeout_s: float,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[Any, bytes]:
        with self._open(path, body, timeout_s, headers or {}) as response:
            return response.headers, response.read()

    @contextmanager
    def _open(
        self, path: str, body: Any, timeout_s: float, headers: Mapping[str, str]
    ) -> Iterator[_Reply]:
        import urllib.request

        url = (self._target.base_url or DEFAULT_URL) + path
        everything = {"Content-Type": "application/json", **self._authorization(), **headers}
        request = urllib.request.Request(url, body, everything)
        with _said_of(url):
            response = self._opener(url).open(request, timeout=timeout_s)
        with response:
            yield _Reply(response, url)

    def _authorization(self) -> dict[str, str]:
        import base64

        target = self._target
        if not target.password:
            return {}
        if not target.user:
            return {"Authorization": "Bearer " + target.password.encode().decode("latin-1")}
        pair = f"{target.user}:{target.password}".encode()
        return {"Authorization": "Basic " + base64.b64encode(pair).decode()}

    def _opener(self, url: str) -> Any:
        import urllib.request
        from urllib.parse import urlsplit

        class NoRedirect(urllib.request.HTTPRedirectHandler):
            def redirect_request(self, *_: Any) -> None:
                return None

        handlers: list[Any] = [NoRedirect()]
        host = urlsplit(url).hostname or ""
        if host in ("localhost", "::1") or host.startswith("127."):
            handlers.append(urllib.request.ProxyHandler({}))
        if url.startswith("https:") and not self._target.verify_tls:
            import ssl

            handlers.append(urllib.request.HTTPSHandler(context=ssl._create_unverified_context()))
        return urllib.request.build_opener(*handlers)


class _Reply:
    def __init__(self, response: Any, url: str) -> None:
        self.headers = response.headers
        self._response = response
        self._url = url

    def read(self, count: int | None = None) -> bytes:
        with _said_of(self._url):
            data: bytes = self._response.read(count)
            return data


@contextmanager
def _said_of(url: str) -> Iterator[None]:
    """What goes wrong on the way to a kld and back, in words."""
    import http.client
    import urllib.error

    try:
        yield
    except urllib.error.HTTPError as ex:
        said = ex.headers.get("Kilolock-Error")
        raise _refused(ex.code, ex.read(100_000), said, url) from None
    except urllib.error.URLError as ex:
        if isinstance(ex.reason, (BrokenPipeError, ConnectionResetError)):
            # It answered 413 and closed before everything was sent.
            raise SourceError(
                f"{url} closed the connection while the body was sent",
                2,
                "It may be larger than that kld takes; see KL_MAX_STATE_MB and KL_MAX_ARCHIVE_MB.",
            ) from None
        raise SourceError(
            f"no kld answers at {url}: {ex.reason}", 8, "Start kld, or set KL_STATE_URL."
        ) from None
    except (OSError, http.client.HTTPException, ValueError) as ex:
        raise SourceError(f"no answer from {url}: {ex}", 8) from None


def _refused(status: int, body: bytes, said: str | None, url: str) -> SourceError:
    """The words of a refusal; where the body is a LockInfo they stand in a header."""
    from kilolock.errors import exit_status

    try:
        problem = json.loads(said) if said else json.loads(body)["error"]
        return SourceError(str(problem["message"]), exit_status(status), problem.get("hint"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return SourceError(f"{url} answered {status}; is that a kld?", exit_status(status))


def _http(url: str, environ: Mapping[str, str], settings: Mapping[str, Any]) -> Target:
    from urllib.parse import unquote, urlsplit

    if not url.startswith(("http://", "https://")):
        raise SourceError(
            f"{url} is no http address", 2, "Set KL_STATE_URL to one such as http://localhost:8080."
        )
    parts = urlsplit(url)
    before, states, after = parts.path.partition(_STATES + "/")
    if not states:
        before = parts.path.rstrip("/").removesuffix(_STATES)
    # Credentials belong to the host they were written for.
    same_host = urlsplit(str(settings.get("address") or url)).netloc == parts.netloc
    stored = settings if same_host or settings.get("state_url") else {}
    host = parts.netloc.rpartition("@")[2]
    user, password = parts.username, parts.password
    names = [unquote(name) for name in after.strip("/").split("/")] if after else []
    return Target(
        base_url=f"{parts.scheme}://{host}{before.rstrip('/')}",
        state=names[-1] if len(names) in (1, 3) else None,
        workspace=names[0] if len(names) == 3 else None,
        environment=names[1] if len(names) == 3 else None,
        user=unquote(user) if user else stored.get("username"),
        password=environ.get("KL_TOKEN")
        or (unquote(password) if password else stored.get("token") or stored.get("password")),
        verify_tls=not stored.get("skip_cert_verification"),
    )


def recorded_target(environ: Mapping[str, str], directory: Path) -> Target | None:
    """Where the http backend that terraform init recorded in this very folder keeps its state."""
    file = Path(directory, environ.get("TF_DATA_DIR") or ".terraform") / "terraform.tfstate"
    try:
        backend = json.loads(file.read_text("utf-8")).get("backend") or {}
        if backend["type"] != "http":
            return None
        address = backend["config"].get("address") or environ.get("TF_HTTP_ADDRESS")
    except (OSError, ValueError, KeyError, AttributeError):
        return None
    return _http(address, {}, {}) if address else None


def _backend(environ: Mapping[str, str], directory: Path) -> dict[str, Any]:
    names = {
        "address": "TF_HTTP_ADDRESS",
        "username": "TF_HTTP_USERNAME",
        "password": "TF_HTTP_PASSWORD",
    }
    found: dict[str, Any] = {key: environ[name] for key, name in names.items() if environ.get(name)}
    data_dir = environ.get("TF_DATA_DIR")
    candidates = [Path(data_dir)] if data_dir else [d / ".terraform" for d in _upward(directory)]
    for folder in candidates:
        try:
            backend = (
                json.loads((folder / "terraform.tfstate").read_text("utf-8")).get("backend") or {}
            )
        except OSError:
            continue
        except (ValueError, AttributeError):
            break
        if backend.get("type") == "http":
            found |= {
                key: value
                for key, value in (backend.get("config") or {}).items()
                if value is not None
            }
        break
    return found


def _toml(directory: Path) -> dict[str, Any]:
    for folder in _upward(directory):
        path = folder / ".kl.toml"
        if path.is_file():
            import tomllib

            try:
                return tomllib.loads(path.read_text("utf-8"))
            except (OSError, ValueError) as ex:
                raise SourceError(f"{path} cannot be read: {ex}", 2) from None
    return {}


def _upward(directory: Path) -> Iterator[Path]:
    here = Path(os.path.abspath(directory))
    yield here
    yield from here.parents
