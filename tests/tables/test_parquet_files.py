"""Parquet files that together make one table."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import ColumnError, SourceError

ENGINES = ["memory", "duckdb"]


def rows(source, engine) -> list[dict]:
    with sf.table(source, engine=engine) as opened:
        return [row for batch in opened.batches() for row in batch.to_pylist()]


@pytest.mark.parametrize("engine", ENGINES)
def test_folder_names_hold_columns(tmp_path, engine):
    for year, month in [("2020", "01"), ("2020", "2"), ("__HIVE_DEFAULT_PARTITION__", "a%20b")]:
        folder = tmp_path / f"year={year}" / f"month={month}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"n": [1, 2]}), folder / "part.parquet")
    assert rows(tmp_path, engine) == [
        {"n": n, "year": year, "month": month}
        for year, month in [("2020", "01"), ("2020", "2"), (None, "a b")]
        for n in (1, 2)
    ]
    with sf.table(tmp_path, engine=engine) as opened:
        assert opened.class_sizes(["year"]).to_dict() == {2: 1, 4: 1}
        assert opened.class_sizes(["month"]).to_dict() == {2: 3}


@pytest.mark.parametrize("engine", ENGINES)
def test_types_that_fit_together(tmp_path, engine):
    pq.write_table(pa.table({"a": pa.array([1], pa.int8()), "b": ["x"]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"b": ["y"], "a": pa.array([300], pa.int64())}), tmp_path / "2.parquet")
    assert rows(tmp_path, engine) == [{"a": 1, "b": "x"}, {"a": 300, "b": "y"}]


def test_files_that_do_not_fit_together(tmp_path):
    pq.write_table(pa.table({"a": [1], "b": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "2.parquet")
    with pytest.raises(ColumnError, match="column `b` is missing in some of the files"):
        sf.table(tmp_path)
    pq.write_table(pa.table({"a": ["x"], "b": [1]}), tmp_path / "2.parquet")
    with pytest.raises(ColumnError, match="disagree about the types"):
        sf.table(tmp_path)


@pytest.mark.parametrize("engine", ENGINES)
def test_quotes_and_reserved_words_in_names(tmp_path, engine):
    table = pa.table({'a"b': [1], "select": [2], "c.d": [3], "ü 'x'": [4]})
    pq.write_table(table, tmp_path / "x.parquet")
    with sf.table(tmp_path / "x.parquet", exclude=["c.d"], engine=engine) as opened:
        assert opened.columns == ('a"b', "select", "ü 'x'")
        assert opened.class_sizes().to_dict() == {1: 1}


@pytest.mark.parametrize("engine", ENGINES)
def test_no_rows(tmp_path, engine):
    pq.write_table(pa.table({"a": pa.array([], pa.int64())}), tmp_path / "x.parquet")
    with sf.table(tmp_path / "x.parquet", engine=engine) as opened:
        assert opened.rows == 0
        assert opened.class_sizes(["a"]).to_dict() == {}


def test_opening_reads_no_rows(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": list(range(100_000))}), path)
    content = bytearray(path.read_bytes())
    footer = int.from_bytes(content[-8:-4], "little") + 8
    content[4:-footer] = bytes(len(content) - footer - 4)
    path.write_bytes(bytes(content))
    opened = sf.table(path)
    assert opened.rows == 100_000
    assert opened.column("a").kind == "integer"


def test_fingerprint_of_several_files_depends_on_each(tmp_path):
    for i in range(2):
        pq.write_table(pa.table({"a": [i]}), tmp_path / f"{i}.parquet")
    before = sf.table(tmp_path).fingerprint()
    pq.write_table(pa.table({"a": [7]}), tmp_path / "1.parquet")
    assert sf.table(tmp_path).fingerprint() != before


@pytest.mark.parametrize("broken", ["1.parquet", "2.parquet"])
def test_the_one_file_of_a_folder_that_is_not_parquet_is_named(tmp_path, broken):
    for name in ("1.parquet", "2.parquet"):
        pq.write_table(pa.table({"a": [1]}), tmp_path / name)
    (tmp_path / broken).write_bytes(b"a\n1\n")
    with pytest.raises(SourceError, match=broken):
        sf.table(tmp_path)
