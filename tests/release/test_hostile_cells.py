"""Cells and names that would run in a spreadsheet or on a terminal, and bombs."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from cli_tools import sfumato
from sfumato.engines.foreign import FOREIGN, write_foreign
from sfumato.errors import SourceError
from sfumato.web.pages import in_page_words

FORMULAS = ['=HYPERLINK("http://evil")', "+1+1", "-cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", "\r=1"]
HARMLESS = ["-5", "+3.5e-2", "a=b", "'=x", "", "*", "[-5, 3)", None]
ESCAPE = "\x1b]0;owned\x07\x1b[2J"
"""Sets the title of a terminal and clears it."""


def table() -> pa.Table:
    said = [*FORMULAS, *HARMLESS]
    return pa.table({"age": [30] * len(said), "said": said, "said again": said})


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
@pytest.mark.parametrize("ending", ["csv", "tsv.gz"])
def test_cells_that_spreadsheets_run_are_counted(tmp_path: Path, engine: str, ending: str) -> None:
    release = sf.anonymize(
        sf.table(table(), engine=engine), qi=["age"], k=2, output=tmp_path / f"out.{ending}"
    )
    assert release.formulas == 2 * len(FORMULAS)
    assert any(w.startswith("12 cells begin like formulas") for w in release.warnings)
    assert release.to_dict()["formulas"] == 12


def test_other_formats_and_tables_have_none(tmp_path: Path) -> None:
    assert sf.anonymize(table(), qi=["age"], k=2, output=tmp_path / "o.parquet").formulas is None
    plain = table().select(["age"])
    release = sf.anonymize(plain, qi=["age"], k=2, output=tmp_path / "o.csv")
    assert release.formulas == 0
    assert not release.warnings


def test_headings_count_too(tmp_path: Path) -> None:
    odd = pa.table({"age": [1, 1], "=1+1": ["a", "b"]})
    made = sf.anonymize(odd, qi=["age"], k=2, output=tmp_path / "o.csv")
    assert made.formulas == 1
    (told,) = [one for one in made.warnings if "formulas" in one]
    assert told == (
        "1 heading begins like formulas (= + - @), which spreadsheets run; rename such headings in "
        "the table first"
    )
    with in_page_words():
        both = pa.table({"age": [1, 1], "=1+1": ["=a", "b"]})
        made = sf.anonymize(both, qi=["age"], k=2, output=tmp_path / "both.csv")
    (told,) = [one for one in made.warnings if "formulas" in one]
    assert told.startswith("1 cell and 1 heading begin like formulas")
    assert "; `--spreadsheet-safe` on the command line makes text of such cells; " in told


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_on_request_they_become_text(tmp_path: Path, engine: str) -> None:
    out = tmp_path / "out.csv"
    release = sf.anonymize(
        sf.table(table(), engine=engine), qi=["age"], k=2, output=out, spreadsheet_safe=True
    )
    assert release.formulas == 0
    assert release.column_actions["said"] == "formulas made text"
    written = sf.table(out).to_arrow().column("said").to_pylist()
    assert written[: len(FORMULAS)] == [f"'{cell}" for cell in FORMULAS]
    assert written[len(FORMULAS) :] == ["-5", "+3.5e-2", "a=b", "''=x", "", "*", "[-5, 3)", None]
    assert sf.verify(out).holds


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("sort", [False, True])
def test_so_they_do_in_parts_and_sorted(tmp_path: Path, ending: str, sort: bool) -> None:
    said = [*FORMULAS, *HARMLESS] * 50
    ages, places = [at % 60 for at in range(len(said))], [f"={at % 3}" for at in range(len(said))]
    rows = {"age": ages, "place": places, "said": said, "plain": ["a"] * len(said)}
    source, out = tmp_path / "people.parquet", tmp_path / f"out.{ending}"
    pq.write_table(pa.table(rows), source)
    release = sf.anonymize(
        sf.table(source, engine="duckdb"), qi=["age", "place"], k=5, parts=3, sort=sort,
        output=out, spreadsheet_safe=True,
    )  # fmt: skip
    assert release.k >= 5
    assert (release.column_actions["said"], release.column_actions["plain"]) == (
        "formulas made text",
        "kept",
    )
    written = sf.table(out).to_arrow()
    cells = {*written.column("said").to_pylist(), *written.column("place").to_pylist()}
    assert not {cell for cell in cells if cell in FORMULAS or str(cell).startswith("=")}
    assert sorted(map(str, written.column("said").to_pylist())) == sorted(
        f"'{cell}" if cell in FORMULAS or cell == "'=x" else str(cell) for cell in said
    )
    assert sf.verify(out).holds


@pytest.mark.parametrize("verb", ["mask", "safe-harbor", "population"])
def test_every_verb_that_releases_makes_them_text(tmp_path: Path, verb: str) -> None:
    source, out = tmp_path / "people.parquet", tmp_path / "out.csv"
    pq.write_table(table().select(["age", "said"]), source)
    options = {
        "mask": ("--beta", "0.99"),
        "safe-harbor": ("--keep", "said"),
        "population": ("--universe", "1e6", "--qi", "age", "--keep", "said"),
    }[verb]
    done = sfumato(verb, source, *options, "-o", out, "--spreadsheet-safe", "--json")
    assert done.code == 0, done.err
    assert done.json["formulas"] == 0


def test_blurred_labels_become_text_too(tmp_path: Path) -> None:
    table = pa.table({"town": ["=a", "=a", "=b", "=b"]})
    release = sf.anonymize(
        table, qi=["town"], k=2, output=tmp_path / "o.csv", spreadsheet_safe=True
    )
    assert release.formulas == 0
    assert release.k == 2


def test_control_characters_are_written_out(tmp_path: Path) -> None:
    names = [f"age{ESCAPE}", "said\u202e", "csi\x9b31m"]
    hostile = pa.table({name: [f"{ESCAPE}{at}" for at in range(40)] for name in names})
    place = tmp_path / "people.parquet"
    pq.write_table(hostile, place)
    runs = [
        ("scan", place),
        ("measure", place),
        ("key", place),
        ("uniques", place, "--show-values"),
        ("mask", place, "--beta", "0.5"),
        ("measure", place, "-c", f"nothing{ESCAPE}"),
        ("verify", place, "-k", "2", "--qi", names[0]),
        ("scan", place, "--json"),
        ("measure", place, "-c", f"nothing{ESCAPE}", "--json"),
    ]
    for arguments in runs:
        done = sfumato(*arguments)
        told = done.out + done.err
        assert not set("\x1b\x07\x9b\u202e") & set(told), arguments[0]
    shown = sfumato("measure", place, "--json")
    assert json.loads(shown.out)["columns"] == names
    assert r"\x1b]0;owned" in sfumato("measure", place, "-c", names[0]).out


def test_endless_lines_and_rows_and_too_many_columns_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / "long.csv"
    long.write_text("a,b\n1," + "x" * (20 << 20) + "\n2,y\n")
    assert sf.table(long).rows == 2
    monkeypatch.setattr("sfumato.tables.text._LARGEST_BLOCK", 1 << 23)
    done = sfumato("measure", long, "-c", "a")
    assert (done.code, "a row is longer than 8 MB" in done.err) == (2, True)
    names = ",".join(f"column{at}" for at in range(200_000))
    (tmp_path / "wide.csv").write_text(f"{names}\n")
    done = sfumato("measure", tmp_path / "wide.csv")
    assert (done.code, "the first line is longer than 1 MB" in done.err) == (2, True)
    names = ",".join(f"c{at}" for at in range(20_000))
    (tmp_path / "wide.csv").write_text(f"{names}\n{names}\n")
    done = sfumato("measure", tmp_path / "wide.csv")
    assert (done.code, "20,000 columns, more than 10,000" in done.err) == (2, True)


def bomb_of(kind: str, folder: Path, size: int = 200 << 20) -> Path:
    """A small file that claims to be a large table."""
    place = folder / f"bomb.{kind}"
    if kind == "json":
        place.write_text("[" + "{}," * 10_000_000 + "{}]")
    elif kind == "jsonl":
        place.write_text('{"a":1}\n{"a":"b"}\n' * 2_000_000)
    elif kind == "orc":
        import pyarrow.orc

        rows = pa.table({f"c{at}": np.zeros(5_000_000, np.int64) for at in range(20)})
        pyarrow.orc.write_table(rows, str(place), compression="zstd")
    else:
        with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as book:
            book.writestr("xl/workbook.xml", "")
            book.writestr("xl/sharedStrings.xml", " " * size)
    return place


@pytest.mark.parametrize("kind", ["json", "jsonl", "orc", "xlsx"])
def test_files_that_would_take_all_memory_are_refused_before(tmp_path: Path, kind: str) -> None:
    """In a process that may have 700 MB more than it has at its start."""
    place = bomb_of(kind, tmp_path)
    program = (
        "import resource, sys, pyarrow, sfumato.cli as cli\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 700_000_000,) * 2)\n"
        "sys.argv = ['sfumato', 'measure', sys.argv[1]]\n"
        "cli.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, place], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "of memory" in done.stderr or "more memory than is available" in done.stderr
    assert "Export it as Parquet or CSV" in done.stderr


def test_workbooks_that_unpack_to_too_much_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfumato.engines.foreign._LARGEST_BOOK", 1 << 20)
    done = sfumato("measure", bomb_of("xlsx", tmp_path, 2 << 20))
    assert (done.code, "when it is unpacked" in done.err) == (2, True)


def test_what_a_sheet_says_of_its_size_is_not_believed(tmp_path: Path) -> None:
    import openpyxl

    made = openpyxl.Workbook()
    made.active.append(["a", "b"])
    made.active.append([1, 2])
    made.save(tmp_path / "small.xlsx")
    with (
        zipfile.ZipFile(tmp_path / "small.xlsx") as small,
        zipfile.ZipFile(tmp_path / "claims.xlsx", "w") as large,
    ):
        for name in small.namelist():
            claimed = small.read(name).replace(b'ref="A1:B2"', b'ref="A1:XFD1048576"')
            large.writestr(name, claimed)
    assert sf.table(tmp_path / "claims.xlsx").to_arrow().to_pydict() == {"a": [1], "b": [2]}


def test_wide_objects_and_long_cells_are_refused(tmp_path: Path) -> None:
    (tmp_path / "wide.json").write_text(json.dumps([{f"c{at}": 1 for at in range(200_000)}]))
    done = sfumato("measure", tmp_path / "wide.json")
    assert (done.code, "200,000 columns, more than 10,000" in done.err) == (2, True)
    long = pa.table({"a": [1, 2], "b": ["x" * (40 << 20), "y"]})
    pq.write_table(long, tmp_path / "long.parquet", compression="zstd", use_dictionary=False)
    done = sfumato("measure", tmp_path / "long.parquet", "-c", "a")
    assert (done.code, "cells of column `b` have 20 MB on average" in done.err) == (2, True)


def test_many_rows_in_few_bytes_are_counted_within_the_memory_given(tmp_path: Path) -> None:
    """Twenty million rows of two values in some kilobytes; a billion take longer, no more room."""
    cells = pa.DictionaryArray.from_arrays(np.zeros(1_000_000, np.int32), ["x"])
    rows = pa.table({"a": cells, "b": cells})
    with pq.ParquetWriter(tmp_path / "many.parquet", rows.schema, compression="zstd") as file:
        for _ in range(20):
            file.write_table(rows)
    assert (tmp_path / "many.parquet").stat().st_size < 200_000
    done = sfumato("measure", tmp_path / "many.parquet", "--memory", "256MB", "--json")
    assert done.json["k"] == 20_000_000


@pytest.mark.parametrize("kind", sorted(kind for kind, one in FOREIGN.items() if one.write))
def test_files_of_other_programs_keep_to_the_memory_that_is_given(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / f"people{FOREIGN[kind].endings[0]}"
    rows = pa.table({"age": list(range(900)), "city": [f"city {at}" for at in range(900)]})
    write_foreign(kind, rows, place, place.name)
    assert sf.table(place, memory="256MB").rows == 900
    monkeypatch.setattr("sfumato.budget.LEAST_MEMORY", 1)
    with pytest.raises(SourceError, match="may be used"):
        sf.table(place, memory="5kB")
