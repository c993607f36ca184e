"""Runs each file of tests/sql in its own database and reports every assertion by its label."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from psycopg import pq

FOLDER = Path(__file__).resolve().parents[1] / "sql"
FILES = sorted(f for f in FOLDER.glob("*.sql") if not f.name.startswith("_"))


def run_file(url: str, text: str) -> list[str]:
    """Send a file as one simple query and return the assertions' answers."""
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute((FOLDER / "_tap.sql").read_text())
        conn.pgconn.send_query(text.encode())
        answers: list[str] = []
        while (result := conn.pgconn.get_result()) is not None:
            if result.status == pq.ExecStatus.FATAL_ERROR:
                raise AssertionError(result.error_message.decode())
            if result.status == pq.ExecStatus.TUPLES_OK:
                for row in range(result.ntuples):
                    value = (result.get_value(row, 0) or b"").decode()
                    if value.startswith(("ok - ", "not ok - ")):
                        answers.append(value)
        return answers


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_function(file: Path, database_url: str) -> None:
    answers = run_file(database_url, file.read_text())
    print("\n".join(answers))
    assert answers, f"{file.name} asserts nothing"
    failed = [a for a in answers if a.startswith("not ok")]
    assert not failed, "\n" + "\n".join(failed)


def test_a_failing_assertion_is_reported_with_its_label(database_url: str) -> None:
    text = """
    begin;
    select tap.is(1, 1, 'one is one');
    select tap.is('a'::text, 'b', 'a is b');
    select tap.throws_ok('select 1/0', '22012', null, 'division by zero is refused');
    select tap.throws_ok('select 1', '22012', null, 'nothing is refused');
    select tap.results_eq('select 1, null::text', 'values (1, null::text)', 'rows with nulls');
    select tap.is_empty('select 1 where false', 'no rows');
    rollback;
    """
    assert run_file(database_url, text) == [
        "ok - one is one",
        "not ok - a is b\n# have a\n# want b",
        "ok - division by zero is refused",
        "not ok - nothing is refused\n# have no error\n# want 22012: any message",
        "ok - rows with nulls",
        "ok - no rows",
    ]
