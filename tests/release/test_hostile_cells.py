"""Cells and names that would run in a spreadsheet or on a terminal, and bombs."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from cli_tools import sfumato

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
    assert any("12 cells or headings begin like formulas" in w for w in release.warnings)
    assert release.to_dict()["formulas"] == 12


def test_other_formats_and_tables_have_none(tmp_path: Path) -> None:
    assert sf.anonymize(table(), qi=["age"], k=2, output=tmp_path / "o.parquet").formulas is None
    plain = table().select(["age"])
    release = sf.anonymize(plain, qi=["age"], k=2, output=tmp_path / "o.csv")
    assert release.formulas == 0
    assert not release.warnings


def test_headings_count_too(tmp_path: Path) -> None:
    odd = pa.table({"age": [1, 1], "=1+1": ["a", "b"]})
    assert sf.anonymize(odd, qi=["age"], k=2, output=tmp_path / "o.csv").formulas == 1


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_on_request_they_become_text(tmp_path: Path, engine: str) -> None:
    out = tmp_path / "out.csv"
    release = sf.anonymize(
        sf.table(table(), engine=engine), qi=["age"], k=2, output=out, spreadsheet_safe=True
    )
    assert release.formulas == 0
    written = sf.table(out).to_arrow().column("said").to_pylist()
    assert written[: len(FORMULAS)] == [f"'{cell}" for cell in FORMULAS]
    assert written[len(FORMULAS) :] == ["-5", "+3.5e-2", "a=b", "''=x", "", "*", "[-5, 3)", None]
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
