"""What `scan`, `measure` and `demo-data` print, as JSON and for people."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

import sfumato as sf
from cli_tools import sfumato
from sfumato.cli._options import split_columns
from sfumato.columns import profile as looking
from sfumato.demo import people


@pytest.fixture(scope="module")
def hospital(tmp_path_factory):
    path = tmp_path_factory.mktemp("demo") / "people.parquet"
    pq.write_table(people(3000), path)
    return path


def test_measure_as_json_is_the_result(hospital):
    told = sfumato("measure", hospital, "-c", "zip,sex", "-c", "birth_date", "--json").json
    assert told == sf.measure(str(hospital), ["zip", "sex", "birth_date"]).answer()
    promised = "columns rows classes unique_rows distinct separation unique k"
    assert set(promised.split(" ")) <= set(told)


def test_measure_for_people(hospital):
    found = sf.measure(str(hospital), ["zip", "sex"])
    done = sfumato("measure", hospital, "-c", "zip,sex")
    assert done.code == 0
    assert done.err == ""
    assert f"{found.classes:,} " in done.out
    assert " ".join(done.out.split()).endswith("finds their row.")


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ("", "there is nobody to find"),
        ("1\n2\n", "Every row stands alone"),
        ("1\n1\n", "Nobody stands alone"),
        ("1\n1\n2\n", "1 row stands alone"),
    ],
)
def test_measure_ends_with_a_plain_statement(tmp_path, cells, words):
    path = tmp_path / "a.csv"
    path.write_text(f"a\n{cells}")
    assert words in sfumato("measure", path).out


def test_standard_input(hospital):
    text = "age,sex\n20,F\n30,F\n"
    assert sfumato("measure", "-", "-c", "age", "--json", stdin=text).json["classes"] == 2


def test_scan_as_json_is_the_result(hospital):
    told = sfumato("scan", hospital, "--json").json
    assert told == sf.scan(str(hospital)).answer()


def test_scan_for_people_fits_80_columns_and_ends_plainly(hospital):
    done = sfumato("scan", hospital, "-q")
    assert done.code == 0
    assert done.err == ""
    lines = [line.rstrip() for line in done.out.splitlines()]
    # commands stay in one line, so that they can be copied
    assert max(len(line) for line in lines if not line.startswith("     sfumato ")) <= 80
    words = " ".join(done.out.split())
    assert "Everybody, directly, by patient_id and ssn." in words
    assert "are the only one with their" in words
    assert "diagnosis = diagnosis_name" in words


def test_one_person_is_the_only_one(tmp_path):
    path = tmp_path / "one.csv"
    path.write_text("x\n1\n1\n2\n")
    words = " ".join(sfumato("scan", path).out.split())
    assert "1 of 3 people (33.3%) is the only one with their x" in words


def test_scan_never_prints_a_cell(hospital):
    done = sfumato("scan", hospital)
    table = pq.read_table(hospital)
    for name in ("name", "ssn", "email", "diagnosis_name", "doctor", "insurance"):
        cells = set(table.column(name).to_pylist()[:300]) - {None}
        assert not [cell for cell in cells if cell in done.out], name


def test_scan_excludes(hospital):
    told = sfumato("scan", hospital, "-x", "name,ssn", "--json").json
    names = {column["name"] for column in told["columns"]}
    assert {"name", "ssn"}.isdisjoint(names)


def test_scan_of_people_who_cannot_be_found(tmp_path):
    path = tmp_path / "same.csv"
    path.write_text("age,sex\n" + "20,F\n30,M\n" * 50)
    assert "Nobody is the only one of their kind" in " ".join(sfumato("scan", path).out.split())


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("when,x\n2020-01-01,1\n2020-01-02,1\n", "Everybody, directly, by when."),
        ("value\n0.25\n0.5\n0.75\n", "No column was recognised"),
        ("age,zip,sex\n34,02139,F\n", "No column was recognised that others may know"),
        ("ssn,age\n1,30\n2,30\n", "Everybody, directly, by ssn. No other column was"),
    ],
)
def test_scan_of_keys(tmp_path, table, words):
    path = tmp_path / "keys.csv"
    path.write_text(table)
    assert words in " ".join(sfumato("scan", path).out.split())


def test_scan_of_a_large_table_states_its_error(hospital, monkeypatch):
    monkeypatch.setattr(looking, "ROWS_AT_HAND", 1000)
    columns = ("-c", "sex,zip,language,insurance,department")
    words = " ".join(sfumato("scan", hospital, *columns).out.split())
    assert "Chosen on 1,000 sampled rows, counted on all rows. 99% sure: at most" in words
    told = sfumato("scan", hospital, *columns, "--json").json
    assert told["choice"]["sample"] == 1000
    best = told["combinations"][0]
    assert best["unique_rows"] == sf.measure(str(hospital), best["columns"]).unique_rows


def test_scan_of_a_wide_table_lists_what_fits(tmp_path):
    path = tmp_path / "wide.csv"
    rows = [",".join(str((i * j) % 5) for j in range(90)) for i in range(30)]
    path.write_text("\n".join([",".join(f"c{j}" for j in range(90)), *rows]) + "\n")
    done = sfumato("scan", path)
    assert done.code == 0
    assert "more" in done.out
    assert len(sfumato("scan", path, "--json").json["columns"]) == 90


def test_scan_of_strange_names(tmp_path):
    path = tmp_path / "strange.csv"
    path.write_text('"[bold]x","a,b","[/]"\n1,2,3\n2,2,3\n')
    done = sfumato("scan", path)
    assert done.code == 0
    assert "[bold]x" in done.out
    chosen = sfumato("measure", path, "-c", "a,b", "-c", "[/]", "--json").json
    assert chosen["columns"] == ["a,b", "[/]"]


@pytest.mark.parametrize("ending", ["csv", "tsv", "csv.gz", "parquet", "arrow"])
def test_demo_data_is_the_same_in_every_format(tmp_path, ending):
    path = tmp_path / f"people.{ending}"
    told = sfumato("demo-data", "-o", path, "--rows", "300", "--seed", "4", "--json").json
    assert told["rows"] == 300
    assert told["output"] == str(path)
    found = sf.measure(str(path), ["birth_date", "zip"])
    expected = sf.measure(people(300, seed=4), ["birth_date", "zip"])
    assert found == expected


def test_same_seed_same_bytes(tmp_path):
    for name in ("one.parquet", "two.parquet"):
        assert sfumato("demo-data", "-o", tmp_path / name, "--rows", "500").code == 0
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "two.parquet").read_bytes()


def test_columns_are_written_in_several_ways():
    assert split_columns(None) is None
    assert split_columns(["a, b", "c"]) == ["a", "b", "c"]
    assert split_columns(['"a,b"']) == ["a,b"]
