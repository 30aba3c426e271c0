"""Files of other programs: read, released, and written back in their own format."""

from __future__ import annotations

import datetime as dt
import json
import pickle
import sqlite3
import sys
import zipfile

import duckdb
import openpyxl
import pandas as pd
import pyarrow as pa
import pyreadstat
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from cli_tools import sfumato
from sfumato.engines.foreign import FOREIGN
from sfumato.engines.writing import Writer
from sfumato.errors import MissingExtraError, ParameterError, SourceError

PEOPLE = pa.table(
    {
        "name": ["Ann", "Bo", None, "=1+1"],
        "age": pa.array([30, None, 50, 61]),
        "height": [1.5, 1.75, None, 2.0],
        "seen": [dt.date(2020, 1, 5), dt.date(2021, 2, 28), None, dt.date(1999, 12, 31)],
        "zip": ["02138", "10001", "00501", "90210"],
    }
)
WRITTEN = sorted(kind for kind, one in FOREIGN.items() if one.write is not None)


def write(rows, path):
    with Writer(rows.schema, str(path)) as writer:
        for batch in rows.to_batches():
            writer.write(batch)
        writer.finish()
        writer.release().rename(path)


def read(path, **options):
    opened = sf.table(path, **options)
    return pa.Table.from_batches(list(opened.batches()))


@pytest.mark.parametrize("kind", WRITTEN)
def test_what_is_written_is_read_again(kind, tmp_path):
    path = tmp_path / f"people.{FOREIGN[kind].endings[0]}"
    write(PEOPLE, path)
    back = read(path)
    expected = PEOPLE.to_pydict()
    if kind == "sqlite":  # which has no dates
        expected["seen"] = [day and day.isoformat() for day in expected["seen"]]
    assert back.to_pydict() == expected
    if kind != "sqlite":
        assert pa.types.is_date(back.schema.field("seen").type)


@pytest.mark.parametrize("kind", WRITTEN)
def test_a_release_keeps_the_format_and_verifies(kind, tmp_path):
    end = FOREIGN[kind].endings[0]
    source, target = tmp_path / f"people.{end}", tmp_path / f"release.{end}"
    rows = 60
    people = pa.table(
        {
            "age": [20 + i % 7 for i in range(rows)],
            "sex": ["F" if i % 2 else "M" for i in range(rows)],
            "seen": [dt.date(2020, 1, 1 + i % 3) for i in range(rows)],
            "ill": ["flu", "gout", "none"] * (rows // 3),
        }
    )
    write(people, source)
    release = sf.anonymize(source, qi=["age", "sex"], k=3, output=str(target))
    assert release.verified
    back = read(target)
    assert back.num_rows == rows
    assert sorted(back["ill"].to_pylist()) == sorted(people["ill"].to_pylist())
    assert sf.verify(target).holds
    with pytest.raises(ParameterError, match="it would be lost"):
        sf.anonymize(source, qi=["age"], k=3, output=str(source), force=True)


TEXTS = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cn", "Cs")), min_size=1, max_size=8
)


@pytest.mark.parametrize("kind", ["excel", "json", "json lines", "sqlite", "orc", "avro"])
@given(
    texts=st.lists(st.none() | TEXTS, min_size=2, max_size=6),
    numbers=st.lists(st.none() | st.integers(-(2**50), 2**50), min_size=2, max_size=6),
)
def test_cells_survive(kind, texts, numbers, tmp_path_factory):
    size = min(len(texts), len(numbers))
    texts, numbers = [*texts[:size], "x"], [*numbers[:size], 7]
    rows = pa.table(
        {
            "row": list(range(size + 1)),
            "text": pa.array(texts, pa.string()),
            "number": pa.array(numbers, pa.int64()),
        }
    )
    path = tmp_path_factory.mktemp("cells") / f"t.{FOREIGN[kind].endings[0]}"
    write(rows, path)
    back = read(path)
    assert back["number"].to_pylist() == numbers
    assert back["text"].to_pylist() == texts


@pytest.mark.parametrize("kind", WRITTEN)
def test_files_do_not_tell_when_they_were_made(kind, tmp_path):
    """Nor is anything drawn: the same rows are the same bytes."""
    told = "19 Nov 2026 21:39 19NOV26:21:39:14"  # looks like a moment, and is a cell
    rows, made = pa.table({"said": [told, "b"], "n": [1, 2]}), []
    start = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
    for at in range(2):
        made.append(tmp_path / f"{at}.{FOREIGN[kind].endings[0]}")
        write(rows, made[-1])
    first, second = (path.read_bytes() for path in made)
    assert first == second
    assert told in read(made[0])["said"].to_pylist()
    if zipfile.is_zipfile(made[0]):
        with zipfile.ZipFile(made[0]) as archive:
            assert {one.date_time[0] for one in archive.infolist()} == {1980}
            first = b"".join(map(archive.read, archive.namelist()))
    for day in (start + dt.timedelta(days=past) for past in range(3)):
        for form in ("%Y-%m-%d", "%d %b %y", "%d %b %Y", "%d%b%y:"):
            said = day.strftime(form).encode().upper()
            assert said not in first.upper().replace(told.upper().encode(), b""), form


def test_sheets_are_chosen_behind_the_hash(tmp_path):
    book = openpyxl.Workbook()
    book.active.title = "2023"
    book.active.append(["age", "born", "note", None])
    book.active.append([30, dt.datetime(1990, 1, 2), "x", None])
    book.active.append([31.5, None, 7, "#N/A"])
    book.create_sheet("empty")
    path = tmp_path / "people.xlsx"
    book.save(path)
    assert read(path).to_pydict() == {
        "age": [30.0, 31.5], "born": [dt.date(1990, 1, 2), None], "note": ["x", "7"],
        "column_4": [None, None],
    }  # fmt: skip
    book = openpyxl.load_workbook(path)
    book.create_sheet("2024").append(["id"])
    book["2024"].append([5])
    book.save(path)
    with pytest.raises(SourceError, match=r"holds 2 sheets: `2023`, `2024`.*FILE#2023"):
        sf.table(path)
    assert read(f"{path}#2024").to_pydict() == {"id": [5]}
    with pytest.raises(SourceError, match=r"no sheet `2025`"):
        sf.table(f"{path}#2025")


def test_titles_stand_above_names_and_values_are_no_names(tmp_path):
    book = openpyxl.Workbook()
    for row in (["Created 2024-01-01"], [], ["name", "age"], ["Ann", 30], ["Bo", 31]):
        book.active.append(row)
    path = tmp_path / "people.xlsx"
    book.save(path)
    assert read(path).to_pydict() == {"name": ["Ann", "Bo"], "age": [30, 31]}
    book = openpyxl.Workbook()
    for row in ([30, dt.date(1990, 1, 2), "Ann"], [31, dt.date(1991, 1, 2), "Bo"]):
        book.active.append(row)
    book.save(path)
    with pytest.raises(SourceError, match="holds values, not names") as caught:
        sf.table(path)
    assert "Ann" not in str(caught.value)


def test_tables_of_a_database_are_chosen_behind_the_hash(tmp_path):
    path = tmp_path / "clinic.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE people (age INTEGER, name TEXT)")
        database.execute("INSERT INTO people VALUES (30, 'Ann'), (NULL, 'Bo')")
    assert read(path).to_pydict() == {"age": [30, None], "name": ["Ann", "Bo"]}
    with sqlite3.connect(path) as database:
        database.execute('CREATE TABLE "odd ""name" (x)')
        database.execute('INSERT INTO "odd ""name" VALUES (1), (\'n/a\')')
    with pytest.raises(SourceError, match="holds 2 tables"):
        sf.table(path)
    assert read(f'{path}#odd "name').to_pydict() == {"x": ["1", "n/a"]}
    database.close()


def test_value_labels_are_categories_where_every_code_has_one(tmp_path):
    frame = pd.DataFrame({"sex": [1.0, 2.0, 1.0], "income": [1000.0, -9.0, 2500.0], "n": [1, 2, 3]})
    labels = {"sex": {1: "male", 2: "female"}, "income": {-9: "refused"}}
    for end, writer in (("sav", pyreadstat.write_sav), ("dta", pyreadstat.write_dta)):
        path = tmp_path / f"survey.{end}"
        writer(frame, str(path), variable_value_labels=labels)
        back = read(path)
        assert back["sex"].to_pylist() == ["male", "female", "male"]
        assert back["income"].to_pylist() == [1000, -9, 2500]
        assert pa.types.is_integer(back.schema.field("n").type)


@pytest.mark.parametrize("name", ["mixed.json", "mixed.jsonl"])
def test_large_whole_numbers_beside_fractions_keep_their_digits(tmp_path, name):
    rows = [{"x": 1.5, "y": 2.5}, {"x": 2**53 + 1, "y": 2**60}, {"x": None, "y": 7}]
    text = json.dumps(rows) if name == "mixed.json" else "\n".join(map(json.dumps, rows))
    (tmp_path / name).write_text(text)
    with pytest.warns(UserWarning, match="column `x` has fractions and whole numbers beyond"):
        shown = read(tmp_path / name)
    assert shown["x"].to_pylist() == ["1.5", "9007199254740993", None]
    assert shown["y"].to_pylist() == [2.5, float(2**60), 7.0]  # floats that hold it exactly


def test_json_of_all_shapes(tmp_path):
    rows = [
        {"id": 1, "name": {"family": "Lee", "given": ["Ann"]}, "born": "1990-01-02"},
        {"id": "x", "name": {"family": "Ray", "given": []}, "born": None},
    ]
    expected = {
        "id": ["1", "x"], "name.family": ["Lee", "Ray"], "name.given": ['["Ann"]', "[]"],
        "born": [dt.date(1990, 1, 2), None],
    }  # fmt: skip
    shapes = {
        "list.json": json.dumps(rows, indent=1),
        "one.json": json.dumps(rows),
        "inside.json": json.dumps({"count": 2, "people": rows}),
        "lines.jsonl": "\n".join(map(json.dumps, rows)),
        "lines.txt": "\ufeff" + "\n\n".join(map(json.dumps, rows)) + "\n",
    }
    for name, text in shapes.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert read(tmp_path / name).to_pydict() == expected, name
    (tmp_path / "columns.json").write_text('{"age": [30, 31], "sex": ["f", null]}')
    assert read(tmp_path / "columns.json").to_pydict() == {"age": [30, 31], "sex": ["f", None]}
    for text in ("[[1, 2], [3, 4]]", '"Ann"'):
        (tmp_path / "other.json").write_text(text)
        with pytest.raises(SourceError, match="not a list of objects"):
            sf.table(tmp_path / "other.json")
    (tmp_path / "wide.json").write_text(json.dumps(rows), encoding="utf-16")
    assert read(tmp_path / "wide.json").to_pydict() == expected


def test_nobody_is_named_by_a_file_that_was_taken_for_text(tmp_path):
    lines = "\n".join(json.dumps({"name": f"Zoe{i}", "age": i}) for i in range(50))
    (tmp_path / "people.csv").write_text(lines)
    done = sfumato("scan", tmp_path / "people.csv", "--json")
    assert [column["name"] for column in done.json["columns"]] == ["name", "age"]
    (tmp_path / "people.jsonl").write_text(lines + '\n{"name": "Zoe51", "age"')
    done = sfumato("scan", tmp_path / "people.jsonl")
    assert done.code == 2
    assert "Zoe" not in done.err + done.out
    assert "line 51 is not a JSON object" in done.err.replace("\n", " ")


def bytes_of_duckdb(tmp_path):
    path = tmp_path / "inner.duckdb"
    with duckdb.connect(str(path)) as database:
        database.execute("CREATE TABLE t AS SELECT 1 AS x")
    return path.read_bytes()


def archive(tmp_path):
    path = tmp_path / "inner.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("people.csv", "a,b\n1,2\n")
    return path.read_bytes()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"<!DOCTYPE html><html><body>Ann</body></html>", "an HTML page"),
        (b"\n <table><tr><td>Ann</td></tr></table>", "an HTML page"),
        (b"<?xml version='1.0'?><people><p>Ann</p></people>", "an XML document"),
        (b"<people><p>Ann</p></people>", "an XML document"),
        (pickle.dumps(pd.DataFrame({"a": [1]})), "a Python pickle"),
        (pickle.dumps({"Ann": 1}), "a Python pickle"),
        (bytes_of_duckdb, "a DuckDB database"),
        (archive, "a ZIP archive"),
        (bytes(range(1, 200)) * 4, "binary data of an unknown kind"),
        (b"\xd0\xcf\x11\xe0" + bytes(600), "an old Excel workbook"),
        (b"PK\x03\x04 and then nothing", "Excel workbook is damaged"),
        (b"SQLite format 3\x00" + b"y" * 200, "SQLite database is damaged"),
        (b"Obj\x01 and then nothing", "Avro file is damaged"),
        (b"$FL2 and then nothing", "SPSS file is damaged"),
        (b"ORC and then nothing", "ORC file is damaged"),
        (b'{"a": 1, "b": ', "JSON document is damaged"),
        (b'[{"a": 1}, 2]', "not a list of objects"),
    ],
)
def test_other_bytes_are_called_what_they_are(content, says, tmp_path):
    path = tmp_path / "people.dat"
    path.write_bytes(content(tmp_path) if callable(content) else content)
    with pytest.raises(SourceError, match=says) as caught:
        sf.table(path).rows
    assert "Ann" not in str(caught.value)


@pytest.mark.parametrize(
    "head", ["<script>a=1</script>,b", "<b>;c", "<age>\ts", "<a b='1'>|c", "<table>,b"]
)
def test_a_column_may_be_called_like_a_tag(head, tmp_path):
    place = tmp_path / "people.csv"
    place.write_text(f"{head}\n" + f"1{head[-2]}2\n" * 3)
    opened = sf.table(place)
    assert len(opened.columns) == 2
    assert opened.columns[0] == head[:-2]
    assert opened.rows == 3


def test_whoever_names_a_delimiter_says_that_it_is_a_table(tmp_path):
    place = tmp_path / "people.csv"
    place.write_text("<age>^sex\n1^F\n2^M\n")
    with pytest.raises(SourceError, match="an XML document"):
        sf.table(place)
    assert sf.table(place, delimiter="^").columns == ("<age>", "sex")
    place.write_text("<a><b>,c</b></a>\n")
    with pytest.raises(SourceError, match="an XML document"):
        sf.table(place)


def test_names_promise_a_format(tmp_path):
    for end in ("xlsx", "sav", "json", "orc", "sqlite"):
        (tmp_path / f"people.{end}").write_text("a,b\n1,2\n")
        with pytest.raises(SourceError, match="the name says"):
            sf.table(tmp_path / f"people.{end}")
    (tmp_path / "people.csv").write_text("a,b\n1,2\n")
    with pytest.raises(SourceError, match="no parts"):
        sf.table(f"{tmp_path / 'people.csv'}#sheet")
    with pytest.raises(ParameterError, match="cannot tell the format"):
        sf.anonymize(PEOPLE, qi=["age"], k=1, output=str(tmp_path / "out.sas7bdat"))


def test_without_the_extra_the_error_names_it(tmp_path, monkeypatch):
    write(PEOPLE, tmp_path / "people.xlsx")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingExtraError, match=r"sfumato\[formats\]"):
        sf.table(tmp_path / "people.xlsx")
    with pytest.raises(MissingExtraError, match=r"sfumato\[formats\]"):
        write(PEOPLE, tmp_path / "other.xlsx")


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ({"x": [dt.date(1850, 1, 1)]}, "before March 1900"),
        ({"x": [2**60]}, "more than 15 digits"),
        ({"x": [b"\x00"]}, "binary values"),
        ({"x": ["\x01"]}, "characters that no workbook can hold"),
        ({"x": ["a", None]}, "rows without any value"),
    ],
)
def test_what_excel_cannot_hold_is_refused(rows, says, tmp_path):
    with pytest.raises(ParameterError, match=says):
        write(pa.table(rows), tmp_path / "out.xlsx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", ["dta", "sav", "xpt", "xlsx"])
@pytest.mark.parametrize("number", [2**53 + 1, -(2**63)])
def test_whole_numbers_that_would_be_rounded_are_refused(ending, number, tmp_path):
    with pytest.raises(ParameterError, match=r"beyond 2 to the 53|more than 15 digits"):
        write(pa.table({"x": [1, number]}), tmp_path / f"out.{ending}")
    assert list(tmp_path.iterdir()) == []


def test_whole_numbers_of_json_lines_keep_all_digits(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"n": 12345678901234567890, "f": 1e300}\n{"n": 7, "f": 0.5}\n')
    assert sf.table(path).to_arrow().to_pydict() == {
        "n": ["12345678901234567890", "7"], "f": [1e300, 0.5],
    }  # fmt: skip
