"""What README.md tells to type: every command runs, and every option it names is there."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import psycopg
import pytest
from conftest import CHECKOUT, Kld
from terraform_runs import BINARIES, NO_TERRAFORM, Configuration

from kilolock.console import DefaultGroup

PROGRAMS = {"kl": "kilolock.cli", "kld": "kilolock.server"}
README = (CHECKOUT / "README.md").read_text()

# What cannot be run here, and why. Whatever else stands in a block of commands is run.
NOT_RUN = {
    "make run": "serves until it is stopped; test_embedded.py starts, stops and starts it again",
    "make build": "installs into the checkout's environment; the test brings bin/kl and bin/kld",
    "make db-up build": "takes port 5432 of this machine; test_embedded.py starts that server",
    "bin/kld serve": "serves until it is stopped; the test's own kld is one",
    "make test": "is what runs this test",
    "make check": "runs this test again",
    "make lint": "needs nothing of this; CI runs it first",
    "make db-up": "takes port 5432 of this machine",
    "make bench": "takes minutes, and says nothing about whether it works",
    "grant kilolock_reader to alice": "roles belong to the whole server, not to a test's database",
    "grant kilolock_state_reader to bob": "roles belong to the whole server",
}


class Command(NamedTuple):
    """One command of the README: where it stands, what it is, and what it is said to print."""

    heading: str
    block: int
    line: int
    language: str
    text: str
    shown: list[str]

    @property
    def plain(self) -> str:
        """What it is without its comment, as NOT_RUN has it."""
        if self.language == "sql":
            return self.text.split(";")[0].strip()
        return re.sub(r"\s+#.*", "", self.text).strip()

    @property
    def runnable(self) -> str:
        """What it runs: of what repeats something for ever, that something."""
        words = shlex.split(self.text, comments=True)
        return words[-1] if words[:1] == ["watch"] else self.text


def commands() -> Iterator[Command]:
    """Every command in a fenced block; in blocks that show output, what follows a ``$``.

    A block of output alone is what the last command of the block right before it printed.
    """
    heading, language, block, begin = "", None, 0, 0
    pending: list[str] = []
    shown: list[str] = []
    for number, line in enumerate(README.splitlines(), 1):
        if line.startswith("```"):
            assert not pending, f"README.md:{begin}: a quote is open"
            language = line[3:].strip() if language is None else None
            block += language is not None
        elif language is None:
            heading = line.lstrip("# ") if line.startswith("## ") else heading
            shown = [] if line.strip() else shown
        elif language in ("sh", "sql") or line.startswith("$ ") or pending:
            begin = begin if pending else number
            pending.append(line.removeprefix("$ "))
            text = "\n".join(pending)
            if is_complete(text, language):
                pending, shown = [], []
                if text.strip():
                    yield Command(heading, block, begin, language, text, shown)
        elif language == "":
            shown.append(line)


def is_complete(text: str, language: str) -> bool:
    """Whether nothing of a command is missing."""
    if language == "sql":
        return ";" in text or not text.strip()
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return False
    return not text.endswith("\\")


COMMANDS = list(commands())


def test_what_is_not_run_stands_in_the_readme() -> None:
    assert set(NOT_RUN) - {c.plain for c in COMMANDS} == set()
    assert len(COMMANDS) > 30


class Reader:
    """Somebody who follows the README in a copy of the checkout, with one kld and another."""

    def __init__(self, work: Configuration, kld: Kld, other: Kld, url: str) -> None:
        self.copy = work.folder / "kilolock"
        self.big_state = self.copy / "examples" / "big-state"
        self.kld = kld
        self.url = url
        self.words = {
            "http://old:8080": kld.url,
            "http://new:8080": other.url,
            "http://localhost:8080": kld.url,
            "postgres://kl:kl@localhost:5432/kl?sslmode=disable": url,
        }
        self._check_out()
        self._install(work.binary)
        path = f"{self.copy / 'bin'}{os.pathsep}{work.env['PATH']}"
        self.env = work.env | {"PATH": path, "KL_IAC_BIN": work.binary}

    def _check_out(self) -> None:
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"],
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            check=True,
        )
        for name in listed.stdout.splitlines():
            source, target = CHECKOUT / name, self.copy / name
            if source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)
                if name.startswith("examples/") and target.suffix == ".tf":
                    target.write_text(self.said(target.read_text()))

    def _install(self, binary: str) -> None:
        folder = self.copy / "bin"
        folder.mkdir()
        programs = {"terraform": f"exec {shlex.quote(str(shutil.which(binary)))}"}
        for name, module in {"kl": "cli", "kld": "server"}.items():
            code = f"from kilolock.{module} import main; main(prog_name={name!r})"
            programs[name] = (
                f"PYTHONPATH={shlex.quote(str(self.copy))}"
                f" exec {shlex.quote(sys.executable)} -c {shlex.quote(code)}"
            )
        for name, call in programs.items():
            (folder / name).write_text(f'#!/bin/sh\n{call} "$@"\n')
            (folder / name).chmod(0o755)

    def said(self, text: str) -> str:
        """A text of the README with the addresses of this test."""
        for word, here in self.words.items():
            text = text.replace(word, here)
        return text

    def type(self, folder: Path, block: list[str]) -> list[tuple[int, str]]:
        """Type commands into one shell: how each ended, and what it printed."""
        script = "".join(
            f"printf '\\036'\n{self.said(text)}\nprintf '\\037%d\\036' $?\n" for text in block
        )
        # Where nothing was initialised kl would ask the kld on port 8080.
        here = {} if (folder / ".terraform").exists() else {"KL_STATE_URL": self.kld.url}
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=folder,
            env=self.env | here,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=900,
        )
        parts = [p for p in done.stdout.split("\036") if "\037" in p]
        assert len(parts) == len(block), done.stdout
        return [(int(status), said) for said, _, status in (p.partition("\037") for p in parts)]

    def query(self, statement: str) -> tuple[int, str]:
        """Run SQL as a reader does in psql."""
        with psycopg.connect(self.url, autocommit=True) as conn:
            conn.execute("set role kilolock_reader")
            try:
                conn.execute(statement)  # type: ignore[call-overload]
            except psycopg.Error as ex:
                return 1, str(ex)
        return 0, ""


def resource(type_: str, name: str, **attributes: Any) -> str:
    """A block of a state with one instance."""
    secret = [[{"type": "get_attr", "value": "password"}]] if "password" in attributes else []
    instance = {"schema_version": 0, "attributes": attributes, "sensitive_attributes": secret}
    block = {"mode": "managed", "type": type_, "name": name, "provider": "p"}
    return json.dumps(block | {"instances": [instance]})


WEB = """
{"version": 4, "terraform_version": "1.11.4", "serial": %d, "lineage": "web",
 "outputs": {"db_host": {"value": "db-%d.internal", "type": "string"}}, "resources": [%s]}"""


def make_web(reader: Reader) -> None:
    """The state of "Who deleted the bucket?": four versions by three people."""
    vpc = {"id": "vpc-0a41", "cidr_block": "10.0.0.0/16"}
    versions = [
        ("ann", "2026-11-24T09:12:40Z", "db.t3.medium", vpc | {"tags": {"Name": "main"}}, {}),
        ("bob", "2026-11-26T15:01:07Z", "db.t3.medium", vpc | {"tags": {"Name": "main"}}, {"n": 1}),
        ("cat", "2026-11-29T22:47:31Z", "db.r6g.large", vpc | {"tags": {"Name": "main"}}, None),
        ("ann", "2026-11-30T08:15:02Z", "db.r6g.large", vpc | {"tags": {"Env": "prod"}}, None),
    ]
    with psycopg.connect(reader.url, autocommit=True) as conn:
        for version, (actor, at, instance_class, network, bucket) in enumerate(versions, 1):
            resources = [resource("aws_vpc", "main", **network)]
            db = {"instance_class": instance_class, "password": f"secret {version // 3}"}
            resources.append(resource("aws_db_instance", "main", id="db-1", **db))
            if bucket is not None:
                resources.append(resource("aws_s3_bucket", "logs", id="logs", tags=bucket))
            body = WEB % (11 + version, version // 3 + 1, ",".join(resources))
            conn.execute(
                "select kilolock.write_state(null, null, 'web', null, %b, null, %s)",
                [body.encode(), actor],
            )
            conn.execute(
                """update kilolock.version_documents d set created_at = %s
                   from kilolock.states s where s.id = d.state_id and s.name = 'web'
                     and d.version = %s""",
                [at, version],
            )


def make_prod(reader: Reader) -> None:
    """The state of "Apply runs and reservations": one run holds what another waits for."""
    network, vpc = "module.net", ["aws_vpc.main"]
    wanted = {
        "ann@laptop": {"write": [network, "aws_eip.a[0]"], "read": vpc},
        "bob@ci": {"write": [f"{network}.aws_subnet.b"], "read": vpc},
    }
    with psycopg.connect(reader.url, autocommit=True) as conn:
        for who, addresses in wanted.items():
            request = {"state": "prod", "base_version": 0, "who": who, "lease_seconds": 600}
            begin = "select kilolock.begin_apply_run(%s, null) ->> 'run'"
            [run] = conn.execute(begin, [json.dumps(request)]).fetchone() or [None]
            request = {"run": run, **addresses}
            conn.execute("select kilolock.acquire_reservations(%s, null)", [json.dumps(request)])


def make_website(reader: Reader) -> Path:
    """The configuration of "What drifted since last night?", after somebody touched the files."""
    folder = reader.copy / "website"
    folder.mkdir()
    address = f'"{reader.kld.url}/v1/states/website"'
    (folder / "main.tf").write_text(
        "terraform {\n"
        '  required_providers {\n    file = { source = "hashicorp/file" }\n  }\n'
        f'  backend "http" {{\n    address = {address}\n    lock_address = {address}\n'
        f"    unlock_address = {address}\n  }}\n}}\n"
        'resource "file_text" "motd" {\n  path = "motd"\n  text = "maintenance on Sunday"\n}\n'
        'resource "file_text" "robots" {\n  path = "robots"\n  text = "none"\n}\n'
    )
    prepare(reader, folder, "terraform init", "terraform apply -auto-approve")
    (folder / "motd").write_text("maintenance on Monday")
    (folder / "robots").unlink()
    return folder


def prepare(reader: Reader, folder: Path, *lines: str) -> None:
    """Type what the README does not say."""
    for line, (status, said) in zip(lines, reader.type(folder, list(lines)), strict=True):
        assert status == 0, f"{line}\n{said}"


def place_of(heading: str, reader: Reader) -> Path:
    """Where one types what stands under a heading, with what it takes for granted."""
    match heading:
        case "" | "60 seconds to the first query" | "Development":
            return reader.copy
        case "Who deleted the bucket?":
            make_web(reader)
            prepare(reader, reader.big_state, "kl tag set before-upgrade web --to 2")
        case "Out of Kilolock and in again":
            more = [f"terraform apply -auto-approve -var=size={size}" for size in (101, 100)]
            prepare(reader, reader.big_state, *more)
            file = WEB % (1, 1, resource("null_resource", "a", id="1"))
            (reader.big_state / "terraform.tfstate").write_text(file)
        case "Apply runs and reservations":
            make_prod(reader)
        case "What drifted since last night?":
            return make_website(reader)
    return reader.big_state


def resembles(shown: list[str], printed: str) -> bool:
    """Whether the words of the first line shown are among those that were printed."""
    words = re.findall("[A-Za-z_]{3,}", next((line for line in shown if line.strip()), ""))
    return all(word in printed for word in words)


@pytest.mark.skipif(not BINARIES, reason=NO_TERRAFORM)
def test_the_commands_run_and_print_what_is_shown(
    configure: Any, kld: Kld, start_kld: Any, database_url: str, make_database: Any
) -> None:
    other = start_kld(KL_DATABASE_URL=make_database())
    reader = Reader(configure(), kld, other, database_url)
    problems = []
    places: dict[str, Path] = {}
    for _, group in itertools.groupby(COMMANDS, key=lambda c: c.block):
        block = [c for c in group if c.plain not in NOT_RUN]
        if not block:
            continue
        heading = block[0].heading
        if heading not in places:
            places[heading] = place_of(heading, reader)
        if block[0].language == "sql":
            ended = [reader.query(c.text) for c in block]
        else:
            ended = reader.type(places[heading], [c.runnable for c in block])
        for command, (status, printed) in zip(block, ended, strict=True):
            is_refused = any(line.startswith("Error: ") for line in command.shown)
            if (status != 0) != is_refused or not resembles(command.shown, printed):
                problems.append(
                    f"README.md:{command.line}: {command.text}\nstatus {status}\n{printed}"
                )
    assert not problems, "\n\n" + "\n\n".join(problems)


def named() -> Iterator[tuple[list[str], list[str]]]:
    """Commands named in running text or a row of a table, and the options named with them."""
    prose = re.sub(r"^```.*?^```", "", README, flags=re.M | re.S)
    for part in prose.split("\n\n"):
        is_table = part.lstrip().startswith("|")
        for row in part.splitlines() if is_table else [part.replace("\n", " ")]:
            codes = [c.replace("\\|", " ") for c in re.findall("`([^`]+)`", row)]
            calls = [c for c in codes if re.match(r"(kl|kld) [a-z]", c)]
            if row.startswith("| `kl"):
                yield calls, [o for c in codes for o in options_in(c)]
            else:
                yield from (([c], options_in(c)) for c in calls)


def options_in(code: str) -> list[str]:
    """The options in a piece of code."""
    return re.findall(r"(?<![\w-])--?[a-z][a-z-]*", code)


def options_of(command: click.Command) -> Iterator[str]:
    """The options of a command and of those below it."""
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield from (*parameter.opts, *parameter.secondary_opts)
    if isinstance(command, DefaultGroup):
        yield from options_of(command.default)
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from options_of(command.get_command(context, name) or command)


def test_named_commands_and_options_exist() -> None:
    wrong, seen = [], 0
    for calls, options in named():
        known = {"-h", "--help"}
        for call in calls:
            program, *words = call.split()
            command: click.Command = importlib.import_module(PROGRAMS[program]).main
            for word in words:
                if not isinstance(command, click.Group) or not re.match("[a-z]", word):
                    break
                found = command.get_command(click.Context(command), word)
                if found is None and isinstance(command, DefaultGroup):
                    # The name of a state, for the command that needs no name.
                    command = command.default
                    break
                if found is None:
                    wrong.append(call)
                    break
                command = found
            known |= set(options_of(command))
            seen += 1
        wrong += [f"{' and '.join(calls)}: {o}" for o in options if o not in known]
    assert not wrong, wrong
    assert seen > 20
