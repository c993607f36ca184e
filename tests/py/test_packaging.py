"""The wheel carries the SQL, and an installation from it finds it there."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import CHECKOUT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A wheel built without a network, from a copy: a build leaves folders behind."""
    source = tmp_path_factory.mktemp("source")
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    for name in listed:
        file = CHECKOUT / name
        if file.is_file() and not name.startswith(("tests/", "examples/")):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes(file.read_bytes())
    target = tmp_path_factory.mktemp("wheel")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index"]
        + ["--quiet", "--disable-pip-version-check", "-w", str(target), str(source)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = target.glob("kilolock-*.whl")
    yield built


def test_the_wheel_carries_every_sql_file(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for file in CHECKOUT.glob("sql/*/*.sql"):
        assert f"kilolock/_sql/{file.relative_to(CHECKOUT / 'sql')}" in names
    for file in CHECKOUT.glob("migrations/*.sql"):
        assert f"kilolock/_migrations/{file.name}" in names


def test_the_wheel_brings_the_programs_and_no_tests(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (points,) = [n for n in names if n.endswith("entry_points.txt")]
        text = archive.read(points).decode()
    assert "kl = kilolock.cli:main" in text
    assert "kld = kilolock.server:main" in text
    assert not [n for n in names if n.startswith(("tests/", "sql/", "migrations/"))]
    assert any(n.endswith("LICENSE") for n in names)


def test_the_installed_wheel_holds_what_the_checkout_holds(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    code = "from kilolock import migrate; print(migrate.__file__); print(migrate.digest())"
    shown = [
        subprocess.run(
            [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True
        ).stdout.split()
        for folder in (tmp_path, CHECKOUT)
    ]
    assert shown[0][0].startswith(str(tmp_path))
    assert shown[0][1] == shown[1][1]
