"""Kept means kept: what is not touched leaves as it came, in every format."""

from __future__ import annotations

import csv
import datetime as dt
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf

ROWS = 40


def ages() -> list[int]:
    return [20 + at // 4 for at in range(ROWS)]


def written(path: Path, columns: dict[str, list[str]], delimiter: str, encoding: str) -> Path:
    """A text file with an age and some columns of text."""
    with path.open("w", encoding=encoding, newline="") as file:
        lines = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        lines.writerow(["age", *columns])
        lines.writerows(zip(ages(), *columns.values(), strict=True))
    return path


def read(path: Path, delimiter: str, encoding: str) -> dict[str, list[str]]:
    with path.open(encoding=encoding, newline="") as file:
        head, *rows = csv.reader(file, delimiter=delimiter)
    return {name: [row[at] for row in rows] for at, name in enumerate(head)}


SPELLINGS: list[list[str]] = [
    ["TRUE", "FALSE"],
    ["True", "False", "NA"],
    ["yes", "no"],
    ["1", "2.50", "3"],
    ["1.50", "2.25", ""],
    ["1e+05", "120000", "0.0001"],
    ["007", "08", "9"],
    ["01.02.2020", "13.12.2021"],
    ["2020-02-29", "1999-01-01", "?"],
    ["2020-01-01T10:00:00Z", "2021-06-01T23:59:59Z"],
    ["2020-01-01 10:00:00.500", "2021-06-01 23:59:59.250"],
    ["48.227,00", "1.000,50"],
    ["N/A", "null", "None", ""],
    ["a;b", 'say "x"', "two\nlines", "tab\there", "bar|"],
    ["Müller", "Größe", "é"],
    [" padded ", "", "x"],
    ["-0.0", "1.5"],
    ["99999999999999999999", "1"],
]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.sampled_from(SPELLINGS).flatmap(
            lambda words: st.lists(st.sampled_from(words), min_size=ROWS, max_size=ROWS)
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([",", ";", "|", "\t"]),
    st.sampled_from(["utf-8", "cp1252"]),
    st.sampled_from(["memory", "duckdb"]),
)
def test_cells_of_text_files_stay_as_they_stand(
    tmp_path_factory: pytest.TempPathFactory,
    columns: list[list[str]],
    delimiter: str,
    encoding: str,
    engine: str,
) -> None:
    folder = tmp_path_factory.mktemp("kept")
    named = {f"c{at}": cells for at, cells in enumerate(columns)}
    source = written(folder / "in.csv", named, delimiter, encoding)
    table = sf.table(source, engine=engine, delimiter=delimiter, encoding=encoding)
    release = sf.anonymize(table, qi=["age"], k=5, output=folder / "out.csv")
    assert release.verified
    after = read(folder / "out.csv", delimiter, encoding)
    assert {name: after[name] for name in named} == named
    assert all(label.startswith("[") for label in after["age"])


def test_a_file_of_another_country_is_found_as_it_was(tmp_path: Path) -> None:
    source = written(tmp_path / "in.csv", {"Größe": ["1,80", "1,75"] * (ROWS // 2)}, ";", "latin-1")
    sf.anonymize(source, qi=["age"], k=5, output=tmp_path / "out.csv")
    assert sf.verify(tmp_path / "out.csv").holds
    assert (tmp_path / "out.csv").read_bytes().startswith("age;Größe\n".encode("latin-1"))
    sf.anonymize(source, qi=["age"], k=5, output=tmp_path / "out.tsv")
    assert (tmp_path / "out.tsv").read_bytes().startswith("age\tGröße\n".encode("latin-1"))


def test_tabs_stay_unless_the_ending_says_otherwise(tmp_path: Path) -> None:
    for ending, delimiter in (("csv", "\t"), ("tsv", ",")):
        cells = {"Ort": ["Köln", "Bonn"] * (ROWS // 2)}
        source = written(tmp_path / f"in.{ending}", cells, "\t", "utf-16")
        out = tmp_path / f"of_{ending}.csv"
        sf.anonymize(source, qi=["age"], k=5, output=out)
        assert out.read_bytes().startswith(f"age{delimiter}Ort\n".encode("utf-16"))
        assert sf.verify(out).holds


def test_labels_that_the_encoding_lacks_are_refused(tmp_path: Path) -> None:
    source = written(tmp_path / "in.csv", {"Ort": ["Köln", "Bonn"] * (ROWS // 2)}, ";", "latin-1")
    tree = sf.Hierarchy.from_levels([["Köln", "Bonn"], ["北", "北"]])
    with pytest.raises(sf.errors.ParameterError, match="cp1252, the encoding of the table"):
        sf.anonymize(
            source, qi=["Ort"], k=30, hierarchies={"Ort": tree}, output=tmp_path / "out.csv"
        )
    assert not (tmp_path / "out.csv").exists()


def test_words_that_only_the_user_calls_missing_become_empty(tmp_path: Path) -> None:
    source = written(tmp_path / "in.csv", {"x": ["1", "-9"] * (ROWS // 2)}, ",", "utf-8")
    table = sf.table(source, null_values=["-9"])
    sf.anonymize(table, qi=["age"], k=5, output=tmp_path / "out.csv")
    assert set(read(tmp_path / "out.csv", ",", "utf-8")["x"]) == {"1", ""}


def columns_of_every_type() -> dict[str, pa.Array]:
    moment = dt.datetime(2020, 1, 1, 10)
    return {
        "int8": pa.array([1, 2] * (ROWS // 2), pa.int8()),
        "float": pa.array([0.5, None] * (ROWS // 2), pa.float32()),
        "flag": pa.array([True, None] * (ROWS // 2)),
        "day": pa.array([dt.date(2020, 2, 29)] * ROWS),
        "when": pa.array([moment] * ROWS, pa.timestamp("ms", "Europe/Berlin")),
        "clock": pa.array([dt.time(1, 2, 3)] * ROWS, pa.time32("s")),
        "span": pa.array([dt.timedelta(days=1)] * ROWS, pa.duration("s")),
        "text": pa.array(["a", None] * (ROWS // 2), pa.large_string()),
        "bytes": pa.array([b"\xff"] * ROWS),
    }


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_types_of_files_stay(tmp_path: Path, ending: str) -> None:
    table = pa.table({"age": ages(), "SEX": [1, 2] * (ROWS // 2), **columns_of_every_type()})
    pq.write_table(table, tmp_path / "in.parquet")
    source = pq.read_table(tmp_path / "in.parquet")
    out = tmp_path / f"out.{ending}"
    sf.anonymize(source, qi=["age", "SEX"], k=5, output=out)
    after = sf.table(out).to_arrow()
    for name in ("SEX", *columns_of_every_type()):
        assert after.schema.field(name).type == source.schema.field(name).type, name
        assert after[name].combine_chunks().equals(source[name].combine_chunks()), name


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_whole_seconds_are_read_back_as_what_they_are(tmp_path: Path, engine: Any) -> None:
    """Parquet counts in milliseconds, and what is checked are the moments that it holds."""
    moments = [dt.datetime(2024, 1, 1, 12) + dt.timedelta(days=at // 4) for at in range(ROWS)]
    seconds = pa.array(moments, pa.timestamp("s"))
    hours = pa.array([dt.time(at % 4) for at in range(ROWS)], pa.time32("s"))
    source = sf.table(pa.table({"seen": seconds, "at": hours}), engine=engine)
    out = tmp_path / "out.parquet"
    asked = {"qi": [["seen"], ["at"]], "k": 4, "missing": "wildcard"}
    assert sf.anonymize(source, output=out, **asked).k == 4
    assert pq.read_table(out).column("seen").to_pylist() == moments
    assert pq.read_table(out).column("at").to_pylist() == hours.to_pylist()


def test_a_quasi_identifier_that_need_not_be_blurred_stays_a_number() -> None:
    table = pa.table({"SEX": [1, 2] * 10, "age": list(range(20))})
    release = sf.anonymize(table, qi=["SEX"], k=10)
    assert release.column_actions["SEX"] == "kept"
    assert release.to_arrow()["SEX"].equals(table["SEX"])
    rounded = sf.anonymize(table, qi=["SEX"], k=10, columns={"SEX": {"recode": {"1": 3}}})
    assert rounded.to_arrow()["SEX"].to_pylist() == [3, 2] * 10


def frame() -> pd.DataFrame:
    random = np.random.default_rng(0)
    stages = pd.Categorical(
        random.choice(["low", "high"], ROWS), categories=["low", "mid", "high"], ordered=True
    )
    return pd.DataFrame(
        {
            "age": ages(),
            "sex": random.integers(1, 3, ROWS),
            "stage": stages,
            "span": pd.to_timedelta(random.integers(0, 10**6, ROWS), unit="s"),
            "flag": pd.array(random.choice([True, False, None], ROWS), dtype="boolean"),
            "few": pd.array(random.choice([1, 2, None], ROWS), dtype="Int16"),
            "when": pd.date_range("2020", periods=ROWS, freq="h", tz="Europe/Berlin"),
            7: random.integers(0, 5, ROWS),
        },
        index=pd.MultiIndex.from_product([range(ROWS // 2), ["x", "y"]], names=["g", "h"]),
    )


def untouched(before: pd.DataFrame, after: pd.DataFrame) -> list[Any]:
    kept = [label for label in before.columns if label != "age"]
    return [label for label in kept if after[label].equals(before.loc[after.index, label])]


def test_a_pandas_frame_keeps_index_and_types() -> None:
    before = frame()
    after = sf.anonymize(before, qi=["age"], k=5).to_pandas()
    assert after.index.equals(before.index)
    assert untouched(before, after) == list(before.columns[1:])
    assert after["stage"].cat.ordered
    assert list(after.columns) == list(before.columns)


def test_also_where_rows_are_left_out() -> None:
    before = frame()
    before.iloc[[3, 11], 0] = 99
    limits = {"age": {"max_width": 8}}
    release = sf.anonymize(before, qi=["age"], k=5, boundaries=limits)
    after = release.to_pandas()
    assert 2 <= release.suppressed_rows == ROWS - len(after)
    left_out = before.index.difference(after.index)
    assert set(before.index[[3, 11]]) <= set(left_out)
    assert untouched(before, after) == list(before.columns[1:])
    means = sf.anonymize(before, qi=["age"], k=5, boundaries=limits, numbers_as="mean").to_pandas()
    assert means.index.equals(after.index)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_categories_of_rows_that_are_left_out_are_not_handed_on(kind: str) -> None:
    stages = ["secret", *["low", "high"] * (ROWS // 2)][:ROWS]
    every, age = ["high", "low", "mid", "secret"], [99, *[int(one) for one in ages()[1:]]]
    limits = {"age": {"max_width": 8}}
    if kind == "polars":
        columns = {"age": age, "stage": pl.Series(stages, dtype=pl.Enum(every))}
        after: Any = sf.anonymize(pl.DataFrame(columns), qi=["age"], k=5, boundaries=limits)
        assert after.to_polars().schema["stage"] == pl.Enum(every[:-1])
        return
    stage = pd.Categorical(stages, categories=every, ordered=True)
    index = pd.MultiIndex.from_arrays([range(ROWS), pd.CategoricalIndex(stages)])
    before = pd.DataFrame({"age": age, "stage": stage}, index=index)
    release = sf.anonymize(before, qi=["age"], k=5, boundaries=limits)
    after = release.to_pandas()
    assert release.suppressed_rows
    assert after["stage"].cat.categories.tolist() == every[:-1]  # nobody is in "mid" anyway
    assert b"secret" not in pickle.dumps(after)


def test_a_polars_frame_keeps_its_types() -> None:
    before = pl.DataFrame({"age": ages(), "stage": ["low", "high"] * (ROWS // 2)}).with_columns(
        pl.col("stage").cast(pl.Enum(["low", "mid", "high"]))
    )
    after = sf.anonymize(before, qi=["age"], k=5).to_polars()
    assert after.schema["stage"] == before.schema["stage"]
    assert after["stage"].equals(before["stage"])


def test_cells_stay_as_they_stand_where_rows_are_solved_in_parts(tmp_path: Path) -> None:
    flags = ["TRUE", "FALSE", "NA", "TRUE"] * (ROWS // 4)
    source = written(tmp_path / "in.csv", {"flag": flags}, ";", "latin-1")
    table = sf.table(source, engine="duckdb")
    out = tmp_path / "out.csv"
    release = sf.anonymize(table, qi=["age"], k=5, parts=2, numbers_as="mean", output=out)
    assert release.verified
    after = read(out, ";", "latin-1")
    assert after["flag"] == flags
    assert all(float(mean) for mean in after["age"])


@pytest.mark.crossed(4)
@pytest.mark.parametrize("engine", ["memory", "duckdb"])
@pytest.mark.parametrize(
    ("encoding", "after"),
    [("utf-8-sig", "utf-8-sig"), ("utf-16", "utf-16"), ("utf-16-le", "utf-16"), ("utf-32",) * 2],
)
def test_encoding_and_byte_order_mark_stay(
    tmp_path: Path, encoding: str, after: str, engine: Any
) -> None:
    rows = "".join(f"{20 + row % 3};Zoë {row}\n" for row in range(20_000))
    (tmp_path / "in.csv").write_bytes(f"age;name\n{rows}".encode(encoding))
    out = tmp_path / "out.csv"
    opened = sf.table(tmp_path / "in.csv", engine=engine)
    sf.anonymize(opened, k=2, qi=["age"], rows_are_people=True, output=out)
    assert out.read_bytes() == f"age;name\n{rows}".encode(after)
    assert sf.verify(out).holds
