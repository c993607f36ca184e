"""Rules that rot when nobody looks: about every function, command and file."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from conftest import CHECKOUT

FUNCTIONS = """
    select p.proname, p.oid::regprocedure::text, obj_description(p.oid, 'pg_proc'),
      coalesce(p.proconfig, '{}'), p.prosecdef,
      (select array_agg(a.grantee::regrole::text)
       from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
       where a.grantee = 0 and a.privilege_type = 'EXECUTE') as public_may,
      o.rolcanlogin
    from pg_proc p join pg_roles o on o.oid = p.proowner
    where p.pronamespace = 'kilolock'::regnamespace order by 1, 2"""


def test_public_functions_are_documented_tested_and_pinned(psql: Any) -> None:
    wrong = []
    for name, signature, comment, config, _, _, _ in psql(FUNCTIONS):
        if name.startswith("_"):
            continue
        if not comment:
            wrong.append(f"{signature} has no comment")
        if not (CHECKOUT / "tests" / "sql" / f"{name}.sql").is_file():
            wrong.append(f"{signature} has no tests/sql/{name}.sql")
        if not any(setting.startswith("search_path=") for setting in config):
            wrong.append(f"{signature} does not pin its search_path")
    assert not wrong, "\n" + "\n".join(wrong)


def test_nothing_is_granted_to_public(psql: Any) -> None:
    assert [row[1] for row in psql(FUNCTIONS) if row[5] is not None] == []
    assert (
        psql("""
        select c.oid::regclass::text, a.privilege_type
        from pg_class c cross join aclexplode(c.relacl) a
        where c.relnamespace = 'kilolock'::regnamespace and a.grantee = 0""")
        == []
    )


def test_private_functions_never_raise_the_callers_rights(psql: Any) -> None:
    assert [row[1] for row in psql(FUNCTIONS) if row[0].startswith("_") and row[4]] == []


def test_no_object_belongs_to_a_role_that_can_log_in(psql: Any) -> None:
    assert [row[1] for row in psql(FUNCTIONS) if row[6]] == []
    assert (
        psql("""
        select c.oid::regclass::text from pg_class c join pg_roles r on r.oid = c.relowner
        where c.relnamespace = 'kilolock'::regnamespace and r.rolcanlogin""")
        == []
    )


def test_tables_and_views_are_documented(psql: Any) -> None:
    assert (
        psql("""
        select c.oid::regclass::text from pg_class c
        where c.relnamespace = 'kilolock'::regnamespace and c.relkind in ('r', 'v')
          and obj_description(c.oid, 'pg_class') is null""")
        == []
    )


def test_constraints_and_indexes_are_named_after_their_table(psql: Any) -> None:
    assert (
        psql("""
        select i.indexrelid::regclass::text from pg_index i
        join pg_class c on c.oid = i.indrelid join pg_class n on n.oid = i.indexrelid
        where c.relnamespace = 'kilolock'::regnamespace
          and not starts_with(n.relname, c.relname || '_')""")
        == []
    )


@pytest.mark.parametrize(
    "file", sorted((CHECKOUT / "sql" / "functions").glob("*.sql")), ids=lambda f: f.stem
)
def test_a_function_file_makes_the_function_of_its_name(file: Path) -> None:
    text = file.read_text()
    assert text.startswith("--"), "a header comment says what it serves"
    assert f"function kilolock.{file.stem}(" in text
    made = [x for x in text.splitlines() if x.startswith("create or replace function ")]
    assert {x.split("kilolock.")[1].split("(")[0] for x in made} == {file.stem}


def commands(group: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, group
    if isinstance(group, click.Group):
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            yield from commands(command, f"{path} {name}")


PROGRAMS = {"kl": "kilolock.cli", "kld": "kilolock.server"}
COMMANDS = [
    (path, command)
    for program, module in PROGRAMS.items()
    for path, command in commands(importlib.import_module(module).main, program)
]


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[path for path, _ in COMMANDS])
def test_every_command_has_help_with_an_example(path: str, command: click.Command) -> None:
    text = command.help or ""
    assert text.strip(), f"{path} has no help"
    if not isinstance(command, click.Group):
        assert "Example" in text, f"{path} shows no example"
        assert path.split()[0] in text.split("Example", 1)[1]
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{path} {parameter.opts} has no help"
    program, *names = path.split()
    main = importlib.import_module(PROGRAMS[program]).main
    for option in ("-h", "--help"):
        shown = CliRunner().invoke(main, [*names, option])
        assert shown.exit_code == 0, shown.output
        assert shown.output.startswith("Usage:")


def test_every_command_and_setting_stands_in_the_readme() -> None:
    readme = (CHECKOUT / "README.md").read_text()
    missing = [path for path, _ in COMMANDS if path not in readme]
    source = (CHECKOUT / "kilolock" / "config.py").read_text()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and str(node.value).startswith("KL_"):
            name = str(node.value)
            if name.replace("_", "").isalnum() and name.isupper() and name not in readme:
                missing.append(name)
    assert not missing, f"README.md does not mention {missing}"


def test_make_targets_stand_in_the_readme() -> None:
    readme = (CHECKOUT / "README.md").read_text()
    makefile = (CHECKOUT / "Makefile").read_text()
    targets = [x.split(":")[0] for x in makefile.splitlines() if ": " in x and " ## " in x]
    assert [t for t in targets if t != "clean" and f"make {t}" not in readme] == []


def test_only_the_agreed_folders_stand_at_the_top() -> None:
    import subprocess

    listed = subprocess.run(
        ["git", "ls-files"], cwd=CHECKOUT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    folders = {name.split("/")[0] for name in listed if "/" in name}
    assert folders <= {".ci", "kilolock", "sql", "migrations", "tests", "examples"}


def test_sql_in_python_is_run_by_few_modules() -> None:
    allowed = {"db.py", "migrate.py", "embedded.py"}
    users = {
        file.name
        for file in (CHECKOUT / "kilolock").glob("*.py")
        if ".execute(" in file.read_text()
    }
    assert users <= allowed
