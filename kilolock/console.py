"""What the commands of kl share: errors, options, and asking the database or a kld."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from importlib import import_module
from keyword import iskeyword
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from kilolock import errors
from kilolock.discovery import SourceError, Target, discover
from kilolock.output import FORMATS, printable, render, unread

if TYPE_CHECKING:
    from kilolock.output import Answer

ALL_ROWS = 1_000_000

_STATE = "select s.id from kilolock.states s where s.name = ($1)[1]"


class _Unread(Exception):
    """Whoever read the output has seen enough."""


class Group(click.Group):
    """Commands whose errors are one line and an exit status; some are loaded only when used."""

    def __init__(self, *args: Any, lazy: Mapping[str, str] | None = None, **extra: Any) -> None:
        super().__init__(*args, **extra)
        self._lazy = lazy or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command, loaded or not."""
        return sorted({*super().list_commands(ctx), *self._lazy})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command; its module is imported now if it was not yet."""
        if cmd_name in self._lazy:
            name = cmd_name.replace("-", "_") + ("_" if iskeyword(cmd_name) else "")
            self.add_command(getattr(import_module(self._lazy[cmd_name]), name))
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command whose output may be read in part only."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # Click would call that a failure.
            raise _Unread from None

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run a command and leave with its exit status."""
        extra["standalone_mode"] = False
        # A tenth of the start would go into looking for garbage that is not there.
        gc.disable()
        try:
            result = super().main(*args, **extra)
            _flush()
        except SourceError as ex:
            _leave(str(ex), ex.exit_status, ex.hint)
        except click.exceptions.Exit as ex:
            sys.exit(ex.exit_code)
        except click.exceptions.NoArgsIsHelpError as ex:
            click.echo(ex.format_message())
            sys.exit(errors.DONE)
        except click.ClickException as ex:
            context = getattr(ex, "ctx", None)
            hint = f"Try '{context.command_path} --help'." if context else None
            _leave(ex.format_message(), errors.BAD_INPUT, hint)
        except (click.Abort, KeyboardInterrupt):
            sys.exit(130)
        except _Unread:
            unread(sys.stdout)
            sys.exit(errors.DONE)
        except OSError as ex:
            _leave(str(ex), errors.FAULT)
        except Exception as ex:
            if os.environ.get("KL_LOG_LEVEL", "").lower() == "debug":
                raise
            _leave(f"{type(ex).__name__}: {ex}", errors.FAULT, "KL_LOG_LEVEL=debug shows where.")
        sys.exit(result if isinstance(result, int) else errors.DONE)


class DefaultGroup(click.Group):
    """Commands of which one needs no name: it is run where none of the others is named."""

    def __init__(self, *args: Any, default: click.Command, **extra: Any) -> None:
        super().__init__(*args, **extra)
        self.default = default

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """The context of the group where a command of it is named, else of the default one."""
        if args and args[0] in self.commands:
            return super().make_context(info_name, args, parent, **extra)
        return self.default.make_context(info_name, args, parent, **extra)


def connection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say where to ask; the command gets them as ``target``."""

    @wraps(command)
    def wrapper(*args: Any, target_in: Callable[[Path], Target], **extra: Any) -> Any:
        return command(*args, target=target_in(Path.cwd()), **extra)

    return directory_options(wrapper)


def directory_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same for a command that works in a folder: ``target_in(folder)`` is where to ask."""

    @click.option("--database-url", metavar="URL", help="Ask this PostgreSQL directly.")
    @click.option("--state-url", metavar="URL", help="Ask this kld, or the kld of this state.")
    @wraps(command)
    def wrapper(*args: Any, database_url: str | None, state_url: str | None, **extra: Any) -> Any:
        def target_in(directory: Path) -> Target:
            return discover(os.environ, directory, database_url=database_url, state_url=state_url)

        return command(*args, target_in=target_in, **extra)

    return wrapper


def format_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option that says how rows are shown."""
    return click.option(
        "--format",
        "fmt",
        type=click.Choice(FORMATS),
        default="table",
        show_default=True,
        help="How to show the rows.",
    )(command)


def state_of(target: Target, state: str | None) -> str:
    """The state that a command means: the one it names, else this directory's."""
    if state or target.state:
        return state or str(target.state)
    raise click.UsageError("name the state, or run this where terraform init recorded a backend.")


def ask(
    target: Target,
    sql: str,
    args: Sequence[str | None] = (),
    timeout: float = 60,
    limit: int = ALL_ROWS,
) -> Answer:
    """The rows of a SELECT of ours; args are its ($1)[1] and so on."""
    answer: Answer = target.source().query(sql, args, timeout, limit)
    return answer


def has_state(target: Target, state: str) -> bool:
    """Whether there is a state of this name."""
    return bool(ask(target, _STATE, (state,)).rows)


def no_such_state(state: str) -> SourceError:
    """The error of a command that looked for a state in vain."""
    return SourceError(
        f'state "{state}" does not exist',
        errors.NOT_FOUND,
        "kl list shows the states there are; kl history NAME what a deleted one was.",
    )


def act(target: Target, action: str, state: str | None, **request: Any) -> Any:
    """Do one of ACTIONS, on a state in the environment that the target belongs to."""
    return act_within(600, target, action, state, **request)


def act_within(
    timeout_s: float, target: Target, action: str, state: str | None, **request: Any
) -> Any:
    """The same, but give up on a kld that does not answer in time."""
    address = {"workspace": target.workspace, "environment": target.environment, "state": state}
    return target.source().act(action, {"who": who(), **address, **request}, timeout_s)


def who() -> str:
    """Who runs this, as Terraform writes it into a LockInfo."""
    import getpass
    import socket

    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def confirm(question: str, yes: bool, tick: Callable[[], None] | None = None) -> None:
    """Go on only if --yes or a person says so; nobody to ask means no.

    ``tick`` is called every second while the person thinks.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("nobody is there to confirm this; pass --yes.")
    if tick:
        import select

        click.echo(f"{question} [y/N]: ", nl=False, err=True)
        while not select.select([sys.stdin], [], [], 1)[0]:
            tick()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise click.Abort
        return
    click.confirm(question, abort=True, err=True)


def show(answer: Answer, fmt: str) -> None:
    """Write rows to standard output."""
    sys.stdout.buffer.write(render(answer, fmt).encode("utf-8", "backslashreplace"))


def say(text: str) -> None:
    """Write a line of plain words to standard output; names in it may hold any character."""
    click.echo(printable(text))


def tell(text: str) -> None:
    """Write a line of plain words to standard error; names in it may hold any character."""
    try:
        click.echo(printable(text), err=True)
    except BrokenPipeError:
        unread(sys.stderr)


def moment(text: str | None) -> str | None:
    """A time of the database for people, with how long ago that is."""
    if text is None:
        return None
    from datetime import UTC, datetime

    try:
        when = datetime.fromisoformat(text).astimezone()
    except ValueError:
        return text
    seconds = int((datetime.now(UTC) - when).total_seconds())
    for length, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= length:
            count = seconds // length
            return f"{when:%Y-%m-%d %H:%M:%S %Z} ({count} {unit}{'s' if count > 1 else ''} ago)"
    return f"{when:%Y-%m-%d %H:%M:%S %Z} (just now)"


def _flush() -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        unread(sys.stdout)


def _leave(message: str, exit_status: int, hint: str | None = None) -> NoReturn:
    line = " ".join(message.split())
    click.echo(f"Error: {line}" + (f" ({hint})" if hint else ""), err=True)
    sys.exit(exit_status)
