"""The user's own terraform or tofu, run in the user's own folder on a state that lies elsewhere.

Terraform runs in the folder itself, so that every path and module means what it means to the user.
What it would write there goes to a private folder instead: TF_DATA_DIR is in the scratch, its
providers and modules are links to what ``terraform init`` installed, and its record of the backend
names kilolock/keeper.py. Terraform takes the recorded backend as long as the hash of the backend
block is that of the last init, so nothing is initialised again and nothing is downloaded.

The folder of a scratch workspace holds::

    owner.lock         held with flock by the kl that made it
    terraform.pid      the terraform that runs in it, with when it started
    data/              TF_DATA_DIR
    terraform.tfstate  the state
    log                what terraform printed
    keep               not to be swept away, although its kl has ended
    run.json           what kilolock/applying.py has to finish; kept until it has
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from kilolock.children import die_with_parent
from kilolock.discovery import SourceError
from kilolock.errors import BAD_INPUT, FAULT
from kilolock.interrupts import ENDING, handling
from kilolock.keeper import started, terraform_running
from kilolock.output import unread

KEEP = "keep"
"""A file of this name says that what a killed kl left is still needed."""

_POLL_S = 0.05
# How long the log of an apply that failed is kept.
_KEEP_S = 14 * 86400
_KEEPER = str(Path(__file__).with_name("keeper.py"))
_HTTP_SETTINGS = (
    "address",
    "update_method",
    "lock_address",
    "unlock_address",
    "lock_method",
    "unlock_method",
    "username",
    "password",
    "skip_cert_verification",
    "retry_max",
    "retry_wait_max",
    "retry_wait_min",
    "client_ca_certificate_pem",
    "client_certificate_pem",
    "client_private_key_pem",
)
_PROGRAMS = ("terraform", "tofu")


class Scratch:
    """A folder of ours with a state in it, for the configuration of a folder of the user's.

    With ``own_backend`` the state is that of the user's backend, under its lock.
    """

    def __init__(
        self,
        directory: Path,
        document: bytes | None,
        environ: Mapping[str, str],
        kind: str,
        *,
        own_backend: bool = False,
    ) -> None:
        self.directory = _absolute(directory, environ)
        self._environ = environ
        if environ.get("TF_WORKSPACE", "default") not in ("", "default"):
            raise SourceError(
                "a state in Kilolock has no workspaces", BAD_INPUT, "Unset TF_WORKSPACE."
            )
        installed = data_folder(self.directory, environ)
        if not installed.is_dir():
            raise SourceError(
                f"{self.directory} is not initialised", BAD_INPUT, "Run terraform init there first."
            )
        self.binary = find_program(self.directory, environ)
        sweep(environ)
        self.folder = _new_folder(environ, kind)
        self._owner = hold(self.folder)
        self.state = self.folder / "terraform.tfstate"
        self.log = self.folder / "log"
        self.log.touch()
        self.interrupts = 0
        self.stopping = False
        self.own_backend = own_backend
        self._process: subprocess.Popen[bytes] | None = None
        self._keeper: subprocess.Popen[bytes] | None = None
        self._data = installed if own_backend else self.folder / "data"
        backend = None if own_backend else _link_data(installed, self._data)
        self._recorded = own_backend or bool(backend)
        if backend:
            self._keep(backend)
        if document is not None:
            self.put(document)

    def __enter__(self) -> Scratch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        ex: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self, *, keep: bool = False) -> None:
        """Remove the folder, unless it is to be kept, and let go of it."""
        if self._keeper:
            self._keeper.communicate()
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)
        self._owner.close()

    def put(self, document: bytes) -> None:
        """Make this the state."""
        self.state.write_bytes(document)

    def document(self) -> bytes | None:
        """The state as terraform last wrote it; None before there was one."""
        try:
            return self.state.read_bytes()
        except FileNotFoundError:
            return None

    def run(
        self,
        command: str,
        *args: str,
        show: IO[str] | None = None,
        tick: Callable[[], None] | None = None,
    ) -> int:
        """Run a command to its end and return its exit status.

        What it prints goes to the log, and from there to ``show``. ``tick`` is called many times a
        second meanwhile. Ctrl-C and SIGTERM reach terraform as one interrupt each, which ends it
        as gracefully as it can; so do an error of ``tick`` and the end of this process.
        """
        extra = ["-no-color"] if show is None or not show.isatty() else []
        with open(self.log, "ab") as out, open(self.log, "rb") as printed:
            printed.seek(0, os.SEEK_END)
            with self._passing_interrupts():
                process = self._start([command, *self._backend(command), *extra, *args], out, out)
                try:
                    while not self._over(process, printed, show):
                        if tick:
                            tick()
                except BaseException:
                    self.interrupt()
                    while not self._over(process, printed, show):
                        pass
                    raise
                finally:
                    self._ended()
        return process.returncode

    def _over(
        self, process: subprocess.Popen[bytes], printed: IO[bytes], show: IO[str] | None
    ) -> bool:
        """Wait a moment for the end of a command, and pass on what it printed."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_POLL_S)
        ended = process.returncode is not None
        _copy(printed, show)
        return ended

    def read(self, *args: str) -> bytes:
        """What a command prints; it must succeed."""
        with tempfile.TemporaryFile(dir=self.folder) as out, open(self.log, "ab") as err:
            with self._passing_interrupts():
                status = self._start(list(args), out, err).wait()
            self._ended()
            if self.interrupts:
                raise KeyboardInterrupt
            if status:
                raise SourceError(
                    f"{self.program} {args[0]} ended with status {status}",
                    FAULT,
                    f"See {self.log}.",
                )
            out.seek(0)
            return out.read()

    def interrupt(self) -> None:
        """Ask the terraform that runs to stop: it ends what it has begun and writes the state."""
        if self._process and self._process.returncode is None:
            self.stopping = True
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGINT)

    @property
    def program(self) -> str:
        """The program's name for people."""
        return Path(self.binary).name

    def _keep(self, record: dict[str, Any]) -> None:
        """Start what serves the state, and write the record of the backend that leads to it."""
        password = secrets.token_hex(16)
        with open(self.log, "ab") as err:
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", _KEEPER, str(self.folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=err,
                start_new_session=True,
            )
        assert self._keeper.stdin and self._keeper.stdout
        self._keeper.stdin.write(password.encode() + b"\n")
        self._keeper.stdin.flush()
        port = self._keeper.stdout.readline().strip().decode()
        if not port:
            raise SourceError("the scratch workspace's backend did not start", FAULT)
        address = f"http://127.0.0.1:{port}/"
        backend = record["backend"]
        # The names that this terraform knows, where it has recorded them.
        known = backend["config"] if backend["type"] == "http" else _HTTP_SETTINGS
        settings = dict.fromkeys(known) | {
            "address": address,
            "lock_address": address,
            "unlock_address": address,
            "update_method": "POST",
            "lock_method": "LOCK",
            "unlock_method": "UNLOCK",
            "username": "kl",
            "password": password,
            "skip_cert_verification": False,
        }
        backend |= {"type": "http", "config": settings}
        recorded = os.open(
            self.folder / "data" / "terraform.tfstate", os.O_WRONLY | os.O_CREAT, 0o600
        )
        with open(recorded, "w", encoding="utf-8") as file:
            json.dump(record, file)

    def _start(self, args: list[str], out: IO[bytes], err: IO[bytes]) -> subprocess.Popen[bytes]:
        env = {
            "TF_IN_AUTOMATION": "1",
            **self._environ,
            "TF_DATA_DIR": str(self._data),
            "TF_WORKSPACE": "default",
            "TF_INPUT": "0",
            "PWD": str(self.directory),
        }
        try:
            process = subprocess.Popen(
                [self.binary, *args],
                cwd=self.directory,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                # A group of its own: Ctrl-C must reach it once, through us.
                process_group=0,
                preexec_fn=die_with_parent(os.getpid(), signal.SIGINT),
            )
        except OSError as ex:
            raise SourceError(f"{self.binary} cannot be run: {ex.strerror}", FAULT) from None
        self._process = process
        began = started(process.pid) or ""
        (self.folder / "terraform.pid").write_text(f"{process.pid} {began}")
        return process

    def _ended(self) -> None:
        self._process = None
        (self.folder / "terraform.pid").unlink(missing_ok=True)

    def _backend(self, command: str) -> list[str]:
        """Where there is no backend block, nothing but options names the file."""
        if self._recorded or command not in ("plan", "apply"):
            return []
        return [f"-state={self.state}"]

    @contextlib.contextmanager
    def _passing_interrupts(self) -> Iterator[None]:
        def pass_on(*_: Any) -> None:
            self.interrupts += 1
            self.interrupt()

        with handling(pass_on, *ENDING):
            yield


def sweep(environ: Mapping[str, str], older_than_s: float = 60) -> None:
    """Remove what a kl that was killed left behind, unless it marked it to be kept."""
    for folder in abandoned(environ):
        with contextlib.suppress(OSError):
            # One that is this young may be about to be held.
            age = time.time() - folder.stat().st_mtime
            kept = (folder / KEEP).exists() and (age < _KEEP_S or (folder / "run.json").exists())
            if age > older_than_s and not kept and not terraform_running(str(folder)):
                shutil.rmtree(folder)


def abandoned(environ: Mapping[str, str]) -> Iterator[Path]:
    """The scratch workspaces whose kl has ended, each held while the caller looks at it."""
    with contextlib.suppress(OSError):
        for folder in sorted(root(environ).iterdir()):
            with contextlib.suppress(OSError), hold(folder):
                yield folder


def root(environ: Mapping[str, str]) -> Path:
    """The folder of all scratch workspaces of this user."""
    cache = environ.get("XDG_CACHE_HOME") or ""
    if not os.path.isabs(cache):
        home = Path(environ.get("HOME") or os.path.expanduser("~"))
        cache = str(home / ("Library/Caches" if sys.platform == "darwin" else ".cache"))
    return Path(cache) / "kilolock" / "scratch"


def hold(folder: Path) -> IO[bytes]:
    """Say that a scratch workspace is ours, until the file is closed; OSError if another does."""
    file = open(folder / "owner.lock", "ab")  # noqa: SIM115
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise
    return file


def data_folder(directory: Path, environ: Mapping[str, str]) -> Path:
    """Where terraform init of that folder put providers, modules and the record of the backend."""
    return Path(directory, environ.get("TF_DATA_DIR") or ".terraform")


def find_program(directory: Path, environ: Mapping[str, str]) -> str:
    """KL_IAC_BIN, else terraform or tofu: where both are, what the folder was initialised with."""
    wanted = environ.get("KL_IAC_BIN")
    path = environ.get("PATH")
    if wanted:
        found = shutil.which(os.path.expanduser(wanted), path=path)
        if not found:
            raise SourceError(f"KL_IAC_BIN={wanted} is no program", BAD_INPUT)
        return os.path.abspath(found)
    names = _PROGRAMS
    if (data_folder(directory, environ) / "providers" / "registry.opentofu.org").is_dir():
        names = _PROGRAMS[::-1]
    for name in names:
        if found := shutil.which(name, path=path):
            return os.path.abspath(found)
    raise SourceError(
        "neither terraform nor tofu is on PATH", BAD_INPUT, "Install one, or set KL_IAC_BIN."
    )


def _absolute(directory: Path, environ: Mapping[str, str]) -> Path:
    """The folder as terraform would name it: by PWD, where the shell came through a link."""
    here = environ.get("PWD", "")
    if Path(directory) == Path() and os.path.isabs(here):
        with contextlib.suppress(OSError):
            if os.path.samefile(here, os.curdir):
                return Path(here)
    return Path(os.path.abspath(directory))


def _new_folder(environ: Mapping[str, str], kind: str) -> Path:
    place = root(environ)
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=place))
    except OSError:
        # A home that cannot be written, as in some containers.
        return Path(tempfile.mkdtemp(prefix=f"kilolock-{kind}-"))


def _link_data(installed: Path, data: Path) -> dict[str, Any] | None:
    """Fill TF_DATA_DIR but for the record of the backend; the user's record, if there is one."""
    data.mkdir(mode=0o700)
    record = None
    for entry in installed.iterdir():
        if entry.name == "terraform.tfstate":
            record = _read_record(entry)
        elif entry.name != "environment" and not entry.name.startswith(".terraform.tfstate"):
            (data / entry.name).symlink_to(entry.absolute())
    return record


def _read_record(file: Path) -> dict[str, Any] | None:
    try:
        record: dict[str, Any] = json.loads(file.read_text("utf-8"))
        if not record.get("backend"):
            return None
        if isinstance(record["backend"]["config"], dict) and record["backend"]["type"]:
            return record
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    raise SourceError(f"{file} cannot be read", BAD_INPUT, "Run terraform init -reconfigure.")


def _copy(printed: IO[bytes], show: IO[str] | None) -> None:
    data = printed.read()
    if data and show:
        try:
            show.buffer.write(data)  # type: ignore[attr-defined]
            show.flush()
        except BrokenPipeError:
            # Whoever has seen enough does not mean to end what is under way.
            unread(show)
