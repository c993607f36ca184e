"""What kl prints, where it asks, and the exit status it leaves with."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click
import pytest
from test_http import STATES, document, lock_info

from kilolock import __version__
from kilolock.cli import main
from kilolock.interrupts import Interrupts

CHECKOUT = Path(__file__).resolve().parents[2]


class Kl:
    """Runs kl in a directory, with nothing of this machine's settings."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.env = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith(("KL_", "TF_")) and k != "DATABASE_URL"
        }
        self.env["PYTHONPATH"] = str(CHECKOUT)

    def __call__(self, *args: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-c", "from kilolock.cli import main; main(prog_name='kl')", *args],
            env=self.env | env,
            cwd=self.directory,
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )
        assert "Traceback" not in done.stderr
        return done


@pytest.fixture
def kl(tmp_path: Path) -> Kl:
    """kl in an empty directory."""
    return Kl(tmp_path)


@pytest.fixture(params=["database", "http"])
def ask(request: pytest.FixtureRequest, kl: Kl, kld: Any, database_url: str) -> Kl:
    """kl that asks PostgreSQL directly, then kl that asks a kld."""
    if request.param == "database":
        kl.env["KL_DATABASE_URL"] = database_url
    else:
        kl.env["KL_STATE_URL"] = kld.url
    return kl


def failed(done: subprocess.CompletedProcess[str], exit_status: int) -> str:
    """The one line that a refused command prints."""
    assert done.returncode == exit_status, done.stderr
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith("Error: ")
    return line


def test_the_same_rows_come_out_in_every_format(ask: Kl) -> None:
    sql = "select 12345678901234567890.10 as n, 'a' || chr(10) || 'é' as s, null as x, '007' as z"
    table = ask("query", sql)
    assert table.stdout.splitlines() == [
        "n                        s     x  z",
        "12345678901234567890.10  a\\né     007",
    ]
    rows = list(csv.reader(io.StringIO(ask("query", sql, "--format", "csv").stdout)))
    assert rows == [["n", "s", "x", "z"], ["12345678901234567890.10", "a\né", "", "007"]]
    text = ask("query", sql, "--format", "json").stdout
    assert "12345678901234567890.10" in text
    [row] = json.loads(text)
    assert (row["s"], row["x"], row["z"]) == ("a\né", None, "007")


def test_no_rows_still_have_a_header(ask: Kl) -> None:
    assert ask("query", "select name, serial from states").stdout == "name  serial\n"
    assert ask("query", "select name from states", "--format", "json").stdout == "[]\n"


def test_sql_comes_from_a_file_or_standard_input(ask: Kl) -> None:
    (ask.directory / "q.sql").write_text("select 41 + 1 as n;\n", "utf-8")
    assert ask("query", "-f", "q.sql").stdout == "n\n42\n"
    assert ask("query", "-f", "-", stdin="select 1 as n").stdout == "n\n1\n"
    done = ask("query", "select ($1)[1] as a, ($1)[2] as b", "--arg", "x'y", "--arg", "é")
    assert done.stdout.splitlines()[1] == "x'y  é"
    failed(ask("query", "-f", "missing.sql"), 2)
    failed(ask("query"), 2)
    failed(ask("query", "select 1", "-f", "q.sql"), 2)


def test_limit_says_that_there_is_more(ask: Kl) -> None:
    done = ask("query", "select generate_series(1, 5) as n", "--limit", "2")
    assert done.stdout == "n\n1\n2\n"
    assert "2 rows" in done.stderr


def test_refused_sql_is_one_line_and_bad_input(ask: Kl) -> None:
    assert '"nope" does not exist at character 8' in failed(ask("query", "select nope"), 2)
    failed(ask("query", "delete from states"), 2)
    failed(ask("query", "select 1; select 2"), 2)
    failed(ask("query", "select pg_read_file('/etc/passwd')"), 6)
    assert "--timeout" in failed(ask("query", "select pg_sleep(9)", "--timeout", "0.2"), 2)


def test_documents_are_readable_by_whoever_may_get_the_state(ask: Kl, kld: Any) -> None:
    assert kld.request("POST", f"{STATES}/s", document(1, "a"))[0] == 200
    done = ask("query", "select octet_length(raw_state::text) > 0 as has from state_versions")
    assert done.stdout == "has\ntrue\n"


def test_status_list_and_blast_radius(ask: Kl, kld: Any) -> None:
    failed(ask("status", "prod"), 3)
    assert kld.request("POST", f"{STATES}/prod", document(7, "a", "b"))[0] == 200
    assert "free" in ask("status", "prod").stdout
    assert kld.request("LOCK", f"{STATES}/prod", lock_info("id-1"))[0] == 200
    shown = ask("status", "prod").stdout
    for part in ("prod", "7", "ann@host-a", "terraform force-unlock id-1", "just now"):
        assert part in shown
    [row] = json.loads(ask("list", "--format", "json").stdout)
    assert (row["name"], row["serial"], row["resources"]) == ("prod", 7, 2)
    done = ask("blast-radius", "prod", "null_resource.a")
    assert done.returncode == 0
    failed(ask("blast-radius", "nowhere", "null_resource.a"), 3)


def test_a_backend_that_terraform_recorded_is_found_from_below(kl: Kl, start_kld: Any) -> None:
    kld = start_kld(KL_AUTH_MODE="static", KL_AUTH_TOKEN="pä:ss")
    config: dict[str, Any] = {"address": f"{kld.url}/v1/states/prod", "retry_max": None}
    config |= {"username": "ann", "password": "pä:ss"}
    folder = kl.directory / ".terraform"
    folder.mkdir()
    recorded = {"version": 3, "backend": {"type": "http", "config": config}}
    (folder / "terraform.tfstate").write_text(json.dumps(recorded), "utf-8")
    kl.directory = kl.directory / "modules" / "x"
    kl.directory.mkdir(parents=True)
    assert kl("query", "select 1 as n").stdout == "n\n1\n"
    assert "prod" in failed(kl("status"), 3)
    config.pop("password")
    (folder / "terraform.tfstate").write_text(json.dumps(recorded), "utf-8")
    failed(kl("query", "select 1"), 7)
    assert kl("query", "select 1 as n", KL_TOKEN="pä:ss").stdout == "n\n1\n"
    assert kl("query", "select 1 as n", TF_HTTP_PASSWORD="pä:ss").stdout == "n\n1\n"


def test_a_password_goes_to_no_other_host(kl: Kl, start_kld: Any) -> None:
    kld = start_kld(KL_AUTH_MODE="static", KL_AUTH_TOKEN="t")
    folder = kl.directory / ".terraform"
    folder.mkdir()
    config = {"address": "http://other.example/v1/states/x", "username": "a", "password": "t"}
    recorded = {"backend": {"type": "http", "config": config}}
    (folder / "terraform.tfstate").write_text(json.dumps(recorded), "utf-8")
    failed(kl("query", "select 1", KL_STATE_URL=kld.url), 7)


def test_toml_comes_before_terraform_and_after_variables(
    kl: Kl, start_kld: Any, database_url: str
) -> None:
    kld = start_kld(KL_AUTH_MODE="static", KL_AUTH_TOKEN="t")
    (kl.directory / ".kl.toml").write_text(f'state_url = "{kld.url}"\ntoken = "t"\n', "utf-8")
    assert kl("query", "select 1 as n").stdout == "n\n1\n"
    failed(kl("query", "select 1", KL_STATE_URL="http://127.0.0.1:9"), 8)
    assert kl("query", "select 1 as n", "--database-url", database_url).returncode == 0
    (kl.directory / ".kl.toml").write_text("state_url = ", "utf-8")
    assert ".kl.toml" in failed(kl("query", "select 1"), 2)


def test_nobody_there_is_exit_8_and_a_foreign_server_a_clear_word(kl: Kl) -> None:
    assert "KL_STATE_URL" in failed(kl("list", KL_STATE_URL="http://127.0.0.1:9"), 8)
    failed(kl("list", KL_DATABASE_URL="postgresql://kl@127.0.0.1:9/kl"), 8)
    failed(kl("list", KL_STATE_URL="ftp://127.0.0.1"), 2)


def commands() -> list[list[str]]:
    """kl and each of its commands."""
    assert isinstance(main, click.Group)
    return [[], *([name] for name in main.list_commands(click.Context(main)))]


@pytest.mark.parametrize("command", commands(), ids=lambda c: c[0] if c else "kl")
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_has_an_example_and_needs_no_database(kl: Kl, command: list[str], flag: str) -> None:
    done = kl(*command, flag, KL_DATABASE_URL="postgresql://127.0.0.1:9/none")
    assert done.returncode == 0
    assert "Example" in done.stdout
    assert done.stderr == ""


def test_version_and_wrong_usage(kl: Kl) -> None:
    assert kl("version").stdout == f"kl {__version__}\n"
    assert kl("--version").stdout == f"kl {__version__}\n"
    failed(kl("nonsense"), 2)
    failed(kl("query", "select 1", "--format", "xml"), 2)


def test_a_reader_that_leaves_early_is_no_error(kl: Kl, database_url: str) -> None:
    shell = shutil.which("sh")
    assert shell is not None
    code = "from kilolock.cli import main; main(prog_name='kl')"
    sql = "select generate_series(1, 100000) as n"
    done = subprocess.run(
        [shell, "-c", '"$0" -c "$1" query "$2" | head -n 2', sys.executable, code, sql],
        env=kl.env | {"KL_DATABASE_URL": database_url},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("n\n1\n", "")


def test_a_query_imports_no_more_than_it_needs(kl: Kl, kld: Any) -> None:
    """What kl loads is what a start takes; kl asks a kld over HTTP without any of these."""
    code = (
        "import sys; from kilolock.cli import main\n"
        "try: main(['query', 'select 1'])\n"
        "except SystemExit: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=kl.env | {"KL_STATE_URL": kld.url},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stderr.split())
    assert "kilolock.discovery" in loaded
    assert not loaded & {"psycopg", "falcon", "waitress", "yoyo", "asyncio", "kilolock.scratch"}


def test_a_second_signal_does_not_cut_off_the_end_of_a_command() -> None:
    """Ctrl-C in a script may come with its SIGTERM; what is held is given back all the same."""
    given_back = []
    with Interrupts() as interrupts:
        with pytest.raises(KeyboardInterrupt):
            try:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(60)
            finally:
                os.kill(os.getpid(), signal.SIGTERM)
                with interrupts.held():
                    given_back.append("reservations")
                given_back.append("folder")
        assert given_back == ["reservations", "folder"]
        # Whoever insists gets through.
        with pytest.raises(KeyboardInterrupt), interrupts.held():
            for _ in range(3):
                os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)
