"""Bad input to the verbs that find and mask: exit code 2, and what to do about it."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli_tools import sfumato

ROWS = "\n".join(f"{i},{i % 9},{i % 2},{i % 5}" for i in range(200))


@pytest.fixture
def people(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text(f"id,age,sex,area\n{ROWS}\n")
    return path


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("key --eps 0", "ε = 0 is out of range"),
        ("key --eps nan", "ε = nan is out of range"),
        ("key --eps 0.1 --delta 1", "δ = 1 is out of range"),
        ("key --beta 1.5", "β = 1.5 is out of range"),
        ("key --weights age=-1", "Give a number larger than zero"),
        ("key --weights agee=1", "Did you mean `age`?"),
        ("key --weights age=", "could not be read"),
        ("key --max-size 0", "Give 1 or more"),
        ("key --sample 10", "Give one, e.g. --eps 0.001"),
        ("key --eps 0.1 --proven", "cannot be a proven minimum"),
        ("key --eps 0.1 --by pairs --measure distinct", "Sample rows for `distinct`"),
        ("keys --measure separation", "Give e.g. --beta 0.9"),
        ("keys --method hitting-set --measure distinct --beta 0.5", "difference sets find keys"),
        ("violations -k 0", "Give 1 or more"),
        ("uniques --sampling-fraction 0", "out of range"),
        ("mask --beta 0", "β = 0 is out of range"),
        ("mask --beta 1", "β = 1 is out of range"),
        ("mask --beta 0.5 --sample 10", "Draw at least"),
        ("mask --beta 0.04 --publish id,age", "already exceed β together: `age`"),
        ("mask --beta 0.5 --publish age --drop age", "must be published and must be left out"),
        ("mask --beta 0.5 --sample 100 --proven", "Leave out --sample 100 or --proven"),
        ("mask --beta 0.001", "not even one column can be published"),
    ],
)
def test_bad_input(people, arguments, words):
    verb, *options = arguments.split()
    done = sfumato(verb, people, *options)
    assert done.code == 2, done.err
    assert words in " ".join((done.err + done.out).replace("│", " ").split())


def test_a_beta_so_small_that_every_column_qualifies(people):
    done = sfumato("keys", people, "--measure", "separation", "--beta", "0.01", "--json")
    assert "every column qualifies" in done.json["notes"][0]


def test_duplicates_are_counted_and_the_best_set_is_given(people):
    done = sfumato("key", people, "--exclude", "id", "--json").json
    assert done["is_key"] is False
    assert done["duplicate_rows"] == 200 - 90
    assert sorted(done["columns"]) == ["age", "area", "sex"]


def test_tables_of_no_and_one_row(tmp_path):
    for rows, name in ((0, "none.csv"), (1, "one.csv")):
        path = tmp_path / name
        path.write_text("a,b\n" + "1,2\n" * rows)
        assert sfumato("key", path, "--json").json["columns"] == []
        assert sfumato("keys", path, "--json").json["keys"] == [[]]
        assert sfumato("uniques", path).code == 0
        assert sfumato("violations", path).code == 0


def test_a_few_rows_of_many_are_neither_none_nor_all(tmp_path: Path) -> None:
    jobs = pa.array(["few"] * 3 + ["many"] * 99_997)
    out = tmp_path / "out.csv"
    pq.write_table(pa.table({"job": jobs}), tmp_path / "jobs.parquet")
    asked = ("-k", 3, "--qi", "job", "--rows-are-people", "-o", out)
    made = sfumato("anonymize", tmp_path / "jobs.parquet", *asked).out
    assert re.search(r"rows above 0.2 +<0\.01% +<0\.01%", made), made
    pq.write_table(pa.table({"n": [1, *range(1, 100_000)]}), tmp_path / "n.parquet")
    measured = sfumato("measure", tmp_path / "n.parquet", "-c", "n").out
    assert "pair of rows left together: separation >0.999999999" in " ".join(measured.split())
    single = sfumato("uniques", tmp_path / "n.parquet", "--sampling-fraction", 0.9).out
    assert "is right with probability >99.9%" in " ".join(single.split())
