"""States leave byte for byte and come in again; archives bring their whole past along."""
# ruff: noqa: F811  the fixtures of test_cli are imported here

from __future__ import annotations

import json
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from test_cli import Kl, ask, failed, kl  # noqa: F401
from test_http import STATES, document, lock_info

CODE = "from kilolock.cli import main; main(prog_name='kl')"


def names(folder: Path) -> list[str]:
    """The files in a folder, but for the logs that tests keep there."""
    return sorted(p.name for p in folder.iterdir() if p.suffix != ".log")


def versions(psql: Any, name: str) -> list[tuple[Any, ...]]:
    return psql(
        """select v.version, v.serial::int, v.source, v.actor from kilolock.state_versions v
           join kilolock.states s on s.id = v.state_id where s.name = %s order by 1""",
        name,
    )


def test_an_export_is_what_was_posted(ask: Kl, kld: Any) -> None:
    first, second = document(1, "a"), document(2, "a", "é\u2028")
    for body in (first, second):
        assert kld.request("POST", f"{STATES}/prod", body)[0] == 200
    done = ask("export", "prod", "-o", "now.json")
    assert (done.returncode, done.stdout) == (0, "")
    assert "version 2 of prod" in done.stderr
    assert (ask.directory / "now.json").read_bytes() == second
    assert ask("export", "prod").stdout.encode() == second
    assert ask("export", "prod", "--version", "@1", "-o", "-").stdout.encode() == first
    failed(ask("export", "prod", "--version", "9"), 3)
    failed(ask("export", "nowhere", "-o", "none.json"), 3)
    failed(ask("export"), 2)
    assert names(ask.directory) == ["now.json"]


def test_a_written_file_is_its_owners_alone_and_replaces_whole(ask: Kl, kld: Any) -> None:
    assert kld.request("POST", f"{STATES}/prod", document(1, "a"))[0] == 200
    old = ask.directory / "real.json"
    old.write_text("before")
    old.chmod(0o644)
    (ask.directory / "link.json").symlink_to("real.json")
    assert ask("export", "prod", "-o", "link.json").returncode == 0
    assert (ask.directory / "link.json").is_symlink()
    assert old.read_bytes() == document(1, "a")
    assert stat.S_IMODE(old.stat().st_mode) == 0o600
    assert ask("export", "prod", "-o", "/dev/null").returncode == 0
    assert "directory" in failed(ask("export", "prod", "-o", "."), 1)
    assert "missing" in failed(ask("export", "prod", "-o", "missing/x.json"), 1)


def test_a_full_disk_leaves_the_old_file(ask: Kl, kld: Any) -> None:
    body = document(1, *(f"n{i}" for i in range(300)))
    assert kld.request("POST", f"{STATES}/prod", body)[0] == 200
    (ask.directory / "x.json").write_text("before")
    done = subprocess.run(
        [sys.executable, "-c", CODE, "export", "prod", "-o", "x.json"],
        env=ask.env,
        cwd=ask.directory,
        capture_output=True,
        encoding="utf-8",
        preexec_fn=lambda: (
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)),
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
        ),
    )
    assert "x.json cannot be written" in failed(done, 1)
    assert names(ask.directory) == ["x.json"]
    assert (ask.directory / "x.json").read_text() == "before"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_export_leaves_nothing(kl: Kl, number: int) -> None:
    code = (
        "import sys, time; from kilolock.files import new_file\n"
        "with new_file('x.json') as file:\n"
        "    file.write(b'half'); file.flush(); print('ready', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env=kl.env,
        cwd=kl.directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    assert len(list(kl.directory.iterdir())) == 1
    process.send_signal(number)
    assert process.wait(30) != 0
    process.stdout.close()
    assert list(kl.directory.iterdir()) == []


def test_an_import_is_a_version_with_its_source(ask: Kl, kld: Any, psql: Any) -> None:
    first, second = document(1, "a"), document(2, "a", "b")
    (ask.directory / "a.json").write_bytes(first)
    (ask.directory / "b.json").write_bytes(second)
    done = ask("import", "--name", "prod", "a.json")
    assert (done.returncode, done.stdout) == (0, "")
    assert "version 1 of prod, serial 1: 1 created" in done.stderr
    assert "already" in ask("import", "--name", "prod", "a.json").stderr
    assert ask("import", "--name", "prod", "--source", "refresh", "b.json").returncode == 0
    assert [v[:3] for v in versions(psql, "prod")] == [(1, 1, "import"), (2, 2, "refresh")]
    assert all("@" in v[3] for v in versions(psql, "prod"))
    assert kld.request("GET", f"{STATES}/prod")[2] == second
    assert ask("import", "--name", "copy", "-", stdin=first.decode()).returncode == 0
    assert kld.request("GET", f"{STATES}/copy")[2] == first
    failed(ask("import", "--name", "prod", "missing.json"), 2)
    failed(ask("import", "a.json"), 2)
    failed(ask("import", "--name", "prod", "--source", "rollback", "a.json"), 2)
    failed(ask("import", "--name", "bad", "-", stdin="{}"), 2)
    assert "--name" in failed(ask("import", "--name", "", "a.json"), 2)
    (ask.directory / "bom.json").write_bytes(b"\xef\xbb\xbf" + first)
    assert "byte order mark" in failed(ask("import", "--name", "bad", "bom.json"), 2)


def test_force_takes_another_lineage_but_no_lock(ask: Kl, kld: Any, psql: Any) -> None:
    other = document(1, "z", lineage="other")
    assert kld.request("POST", f"{STATES}/prod", document(5, "a"))[0] == 200
    for body in (document(5, "b"), document(4, "a"), other):
        (ask.directory / "x.json").write_bytes(body)
        assert "--force" in failed(ask("import", "--name", "prod", "x.json"), 4)
    assert kld.request("LOCK", f"{STATES}/prod", lock_info("id-1"))[0] == 200
    assert "ann@host-a" in failed(ask("import", "--name", "prod", "--force", "x.json"), 5)
    assert kld.request("UNLOCK", f"{STATES}/prod", b"id-1")[0] == 200
    assert ask("import", "--name", "prod", "--force", "x.json").returncode == 0
    assert kld.request("GET", f"{STATES}/prod")[2] == other
    [(payload,)] = psql(
        "select payload from kilolock.events where kind = 'state_write' order by id desc limit 1"
    )
    assert payload["forced_over_serial"] == 5
    assert payload["forced_over_lineage"] != "other"


def test_what_a_client_says_of_itself_is_checked(kld: Any, psql: Any) -> None:
    for headers in ({"Kilolock-Source": "rollback"}, {"Kilolock-Force": "perhaps"}):
        status, _, body = kld.request("POST", f"{STATES}/s", document(1, "a"), headers)
        assert (status, json.loads(body)["error"]["code"][:2]) in [(400, "KL"), (400, "22")]
    assert versions(psql, "s") == []
    headers = {"Kilolock-Who": "b%C3%B6b%0A%00@host"}
    assert kld.request("POST", f"{STATES}/s", document(1, "a"), headers)[0] == 200
    assert versions(psql, "s") == [(1, 1, "apply", "böb@host")]


def test_who_signed_in_counts_more_than_who_is_named(start_kld: Any, psql: Any) -> None:
    from test_http import basic

    kld = start_kld(KL_AUTH_MODE="static", KL_AUTH_TOKEN="t")
    headers = basic("ann", "t") | {"Kilolock-Who": "bob"}
    assert kld.request("POST", f"{STATES}/s", document(1, "a"), headers)[0] == 200
    assert versions(psql, "s") == [(1, 1, "apply", "ann")]


def test_a_body_that_is_too_large_is_explained(kl: Kl, start_kld: Any) -> None:
    kl.env["KL_STATE_URL"] = start_kld(KL_MAX_STATE_MB="1").url
    (kl.directory / "x.json").write_bytes(document(1, "a" * 20_000_000))
    assert "KL_MAX_STATE_MB" in failed(kl("import", "--name", "s", "x.json"), 2)
