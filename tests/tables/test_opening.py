"""`sf.table`: every kind of source, and everything that is none."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.protocol import Capabilities, column_of
from sfumato.errors import ColumnError, EngineError, ParameterError, SourceError
from sfumato.tables import open as opening

PEOPLE = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "name": ["Ann", None, ""],
        "height": [1.5, None, 2.5],
    }
)
CSV = b'id,name,height\n1,Ann,1.5\n2,,\n3,"",2.5\n'


def ipc(table: pa.Table, opened) -> bytes:
    sink = pa.BufferOutputStream()
    with opened(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


class OnlyArrow:
    """Something that speaks Arrow's stream interface and nothing else."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def in_file(name, content):
    def make(folder: Path):
        path = folder / name
        path.write_bytes(content)
        return path

    return make


def parquet_bytes(table=PEOPLE) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


def folder_of_parquet(folder: Path):
    (folder / "many").mkdir()
    for i in range(3):
        pq.write_table(PEOPLE.slice(i, 1), folder / "many" / f"part-{i}.parquet")
    (folder / "many" / "_SUCCESS").write_bytes(b"")
    return folder / "many"


def ibis_table(folder: Path):
    ibis = pytest.importorskip("ibis")
    connection = ibis.polars.connect()
    connection.create_table("people", PEOPLE)
    return connection.table("people")


SOURCES = {
    "arrow table": lambda folder: PEOPLE,
    "arrow batch": lambda folder: PEOPLE.combine_chunks().to_batches()[0],
    "arrow reader": lambda folder: PEOPLE.to_reader(),
    "arrow dataset": lambda folder: pa.dataset.dataset(folder_of_parquet(folder)),
    "arrow stream interface": lambda folder: OnlyArrow(PEOPLE),
    "pandas": lambda folder: PEOPLE.to_pandas(),
    "polars": lambda folder: pl.from_arrow(PEOPLE),
    "polars lazy": lambda folder: pl.from_arrow(PEOPLE).lazy(),
    "duckdb relation": lambda folder: duckdb.connect().from_arrow(PEOPLE),
    "ibis": ibis_table,
    "csv": in_file("people.csv", CSV),
    "tsv": in_file("people.tsv", CSV.replace(b",", b"\t")),
    "parquet": in_file("people.parquet", parquet_bytes()),
    "parquet folder": folder_of_parquet,
    "parquet glob": lambda folder: str(folder_of_parquet(folder) / "*.parquet"),
    "arrow file": in_file("people.arrow", ipc(PEOPLE, pa.ipc.new_file)),
    "arrow stream": in_file("people.arrows", ipc(PEOPLE, pa.ipc.new_stream)),
    "packed parquet": in_file(
        "people.parquet.zst", pa.compress(parquet_bytes(), codec="zstd", asbytes=True)
    ),
    "query": lambda folder: (
        f"SELECT * FROM '{in_file('people.parquet', parquet_bytes())(folder)}' ORDER BY id"
    ),
}


@pytest.mark.parametrize("engine", ["auto", "memory", "duckdb"])
@pytest.mark.parametrize("source", SOURCES)
def test_every_source_gives_the_same_rows(source, engine, tmp_path):
    with sf.table(SOURCES[source](tmp_path), engine=engine) as people:
        assert people.columns == ("id", "name", "height")
        assert [column.kind for column in people.schema] == ["integer", "text", "float"]
        assert people.rows == 3
        # Twice: a source can be read more than once.
        for _ in range(2):
            batches = list(people.batches())
            assert [row for batch in batches for row in batch.to_pylist()] == PEOPLE.to_pylist()
        assert people.class_sizes(["name"]).to_dict() == {1: 3}


@pytest.mark.parametrize("source", SOURCES)
def test_fingerprints_are_stable(source, tmp_path):
    given = SOURCES[source](tmp_path)
    with sf.table(given, engine="memory") as people:
        first = people.fingerprint()
        assert first == people.fingerprint()
    assert first.startswith(("sha256:", "rows:"))


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_shows_the_columns_asked_for(source, tmp_path):
    with sf.table(SOURCES[source](tmp_path), columns=["name", "id"]) as people:
        assert people.columns == ("name", "id")
        assert next(iter(people.batches())).to_pylist()[0] == {"name": "Ann", "id": 1}


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_refuses_an_unknown_column(source, tmp_path):
    with pytest.raises(ColumnError, match=r"no column `heigth`.*Did you mean `height`"):
        sf.table(SOURCES[source](tmp_path), exclude=["heigth"])


def test_columns_are_named_once_however_many_are_asked_for(monkeypatch):
    opened = sf.table(pa.table({"age": [1], "sex": ["F"]}))
    engine, told = opened.engine, []
    monkeypatch.setattr(engine, "schema", lambda: told.append(1) or type(engine).schema(engine))
    shown = opened.exclude(["sex"])
    told.clear()
    for _ in range(5):
        assert shown.require(["age"]) == shown.columns == ("age",)
        assert shown.column("age") == shown.schema[0]
    assert len(told) == 1


def test_a_table_passes_through():
    people = sf.table(PEOPLE)
    assert sf.table(people) is people
    assert sf.table(people, exclude=["id"]).columns == ("name", "height")


@pytest.mark.parametrize("content", [CSV, parquet_bytes(), ipc(PEOPLE, pa.ipc.new_stream)])
def test_standard_input(content, monkeypatch):
    piped = SimpleNamespace(buffer=io.BytesIO(content), isatty=lambda: False)
    monkeypatch.setattr(sys, "stdin", piped)
    people = sf.table("-")
    assert people.name == "standard input"
    assert people.rows == 3
    folder = people.engine.source._folder.path
    assert folder.exists()
    assert folder.stat().st_mode & 0o077 == 0
    people.close()
    assert not folder.exists()


def test_standard_input_that_is_a_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    with pytest.raises(SourceError, match="nothing is piped in"):
        sf.table("-")


def test_standard_input_that_is_empty(monkeypatch):
    piped = SimpleNamespace(buffer=io.BytesIO(b""), isatty=lambda: False)
    monkeypatch.setattr(sys, "stdin", piped)
    with pytest.raises(SourceError, match="standard input: the file is empty"):
        sf.table("-")


def test_named_pipe(tmp_path):
    import os

    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(CSV,))
    writer.start()
    people = sf.table(tmp_path / "pipe")
    writer.join()
    assert people.rows == 3
    people.close()


def test_pandas_means_null_by_nan_and_its_index_is_not_a_column():
    frame = pd.DataFrame({"x": [1.5, np.nan], 7: ["a", None]}, index=["p", "q"])
    people = sf.table(frame)
    assert people.columns == ("x", "7")
    assert [b.to_pydict() for b in people.batches()] == [{"x": [1.5, None], "7": ["a", None]}]


def test_pandas_types():
    frame = pd.DataFrame(
        {
            "category": pd.Categorical(["u", None]),
            "zoned": pd.to_datetime(["2020-01-01", None]).tz_localize("Europe/Berlin"),
            "nullable": pd.array([1, None], dtype="Int8"),
            "flag": [True, False],
        }
    )
    kinds = {column.name: str(column.type) for column in sf.table(frame).schema}
    assert kinds == {
        "category": "string",
        "zoned": "timestamp[ns, tz=Europe/Berlin]",
        "nullable": "int8",
        "flag": "bool",
    }


def test_pandas_column_of_mixed_types():
    with pytest.raises(ColumnError, match="`x` mixes values of different types") as caught:
        sf.table(pd.DataFrame({"x": [1, "secret"]}))
    assert "secret" not in str(caught.value)
    with pytest.raises(ColumnError, match="several levels"):
        sf.table(pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "b")])))
    with pytest.raises(ColumnError, match="`a` occurs 2 times"):
        sf.table(pd.DataFrame([[1, 2]], columns=["a", "a"]))


def test_polars_keeps_nan_and_null_apart_and_has_wide_integers():
    frame = pl.DataFrame({"x": [float("nan"), None], "n": pl.Series([2**100, 1], dtype=pl.Int128)})
    for given in (frame, frame.lazy()):
        people = sf.table(given)
        assert people.class_sizes(["x"]).to_dict() == {1: 2}
        assert next(people.batches(["n"])).to_pydict() == {"n": [2**100, 1]}
        people.close()


def test_polars_columns_may_be_called_like_patterns_and_parameters():
    frame = pl.DataFrame({"*": [1, 1], "^s.*$": [2, 3], "self": [4, 5]})
    release = sf.anonymize(frame, qi=["*", "self"], k=2, rows_are_people=True)
    assert release.to_polars()["*"].to_list() == [1, 1]
    assert sf.midpoints(release.to_polars())["self"].to_list() == [4.5, 4.5]
    assert sf.table(frame, memory="1GB").columns == ("*", "^s.*$", "self")


def test_rare_types_travel_in_common_ones():
    table = pa.table(
        {
            "half": pa.array([1.5], pa.float16()),
            "wide": pa.array([1], pa.decimal256(50, 2)),
            "day": pa.array([86_400_000], pa.date64()),
            "view": pa.array(["x"], pa.string_view()),
            "runs": pa.RunEndEncodedArray.from_arrays([1], ["x"]),
            "uuid": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16], pa.binary(16))),
        }
    )
    types = [str(column.type) for column in sf.table(table).schema]
    assert types == [
        "float", "string", "date32[day]", "large_string", "string", "fixed_size_binary[16]",
    ]  # fmt: skip
    for engine in ("memory", "duckdb"):
        assert sf.table(table, engine=engine).class_sizes().to_dict() == {1: 1}


def test_nested_types_are_refused_by_name_unless_excluded():
    table = pa.table({"a": [1], "b": [[1]]})
    with pytest.raises(ColumnError, match="`b` holds nested"):
        sf.table(table)
    assert sf.table(table, exclude=["b"]).columns == ("a",)


def test_duplicate_empty_and_no_columns():
    two = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(ColumnError, match="`a` occurs 2 times"):
        sf.table(two)
    with pytest.raises(ColumnError, match="column 1 has no name"):
        sf.table(pa.table({"": [1]}))
    with pytest.raises(ColumnError, match="no columns"):
        sf.table(pa.table({}))
    with pytest.raises(ColumnError, match="no columns"):
        sf.table(PEOPLE, columns=[])
    with pytest.raises(ColumnError, match="`id` occurs 2 times"):
        sf.table(PEOPLE, columns=["id", "id"])
    with pytest.raises(ParameterError, match="both given"):
        sf.table(PEOPLE, columns=["id"], exclude=["name"])


def test_missing_file(tmp_path):
    (tmp_path / "people.csv").write_bytes(CSV)
    with pytest.raises(SourceError, match=r"no such file.*Did you mean `people\.csv`"):
        sf.table(tmp_path / "poeple.csv")
    with pytest.raises(SourceError, match=r"There is no folder .* either"):
        sf.table(tmp_path / "no" / "people.csv")
    with pytest.raises(SourceError, match="no file matches"):
        sf.table(str(tmp_path / "*.parquet"))
    with pytest.raises(SourceError):
        sf.table("x" * 5000)


def test_folders_and_patterns_without_a_table(tmp_path):
    with pytest.raises(SourceError, match="no Parquet files"):
        sf.table(tmp_path)
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_bytes(CSV)
    with pytest.raises(SourceError, match="2 files match, and only Parquet"):
        sf.table(str(tmp_path / "*.csv"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"PK\x03\x04....", "Excel workbook"),
        (b"SQLite format 3\x00", "SQLite database is damaged"),
        (b"PAR1 and then nothing", "Parquet file is damaged"),
        (parquet_bytes()[:200], "Parquet file is damaged"),
        (b"ARROW1\x00\x00 and then nothing", "Arrow file is damaged"),
        (ipc(PEOPLE, pa.ipc.new_file)[:300], "Arrow file is damaged"),
        (b"\xff\xff\xff\xff and then nothing", "Arrow file is damaged"),
        (b"", "the file is empty"),
    ],
)
def test_files_that_are_no_tables(tmp_path, content, words):
    (tmp_path / "x.dat").write_bytes(content)
    with pytest.raises(SourceError, match=words):
        sf.table(tmp_path / "x.dat").rows


def test_damage_in_the_middle_is_found_while_reading(tmp_path):
    content = bytearray(parquet_bytes(pa.table({"x": list(range(100_000))})))
    content[1000:1400] = bytes(400)
    (tmp_path / "x.parquet").write_bytes(bytes(content))
    with pytest.raises(SourceError, match="damaged"):
        sf.table(tmp_path / "x.parquet").class_sizes()


def test_unreadable_file(tmp_path, monkeypatch):
    (tmp_path / "x.csv").write_bytes(CSV)

    def refuse(*arguments, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(SourceError, match="cannot be read: permission denied"):
        sf.table(tmp_path / "x.csv")


@pytest.mark.parametrize("source", [object(), {"a": [1]}, [1, 2], 7, None, np.ones(3)])
def test_things_that_are_no_tables(source):
    with pytest.raises(SourceError, match="is not a table"):
        sf.table(source)


def test_addresses():
    with pytest.raises(SourceError, match="https:// addresses cannot be opened"):
        sf.table("https://example.org/people.csv")
    with pytest.raises(SourceError, match="names a database but no table"):
        sf.table("postgresql://localhost/db")
    with pytest.raises(ParameterError, match="both a table and a query"):
        sf.table("postgresql://localhost/db#people", query="SELECT 1")
    with pytest.raises(ParameterError, match="goes with the address of a database"):
        sf.table(PEOPLE, query="SELECT 1")


@pytest.mark.parametrize(
    ("given", "query", "expected"),
    [
        ("postgresql://h/db#s.people", None, ("postgresql://h/db", {"table": "s.people"})),
        ("postgres://h/db#people", None, ("postgres://h/db", {"table": "people"})),
        ("postgresql://h/db#SELECT 1 # 2", None, ("postgresql://h/db", {"query": "SELECT 1 # 2"})),
        ("postgresql://h/db", "SELECT 1", ("postgresql://h/db", {"query": "SELECT 1"})),
    ],
)
def test_databases_answer_for_themselves(monkeypatch, given, query, expected):
    from sfumato.engines import postgres

    class Recorder:
        kind, name, capabilities, source = "postgres", "people", Capabilities(remote=True), None

        def __init__(self, url, **options):
            self.asked = (url, {name: value for name, value in options.items() if value})

        def rows(self):
            return SimpleNamespace(columns=(column_of("a", pa.int64()), column_of("b", pa.int64())))

    monkeypatch.setattr(postgres, "Postgres", Recorder)
    opened = sf.table(given, query=query, exclude=["a"])
    assert opened.engine.connection.asked == expected
    assert opened.columns == ("b",)


def test_spark_frames_answer_for_themselves(monkeypatch):
    from sfumato.engines import spark

    class Recorder:
        kind, name, capabilities, source = "spark", "people", Capabilities(remote=True), None

        def __init__(self, frame):
            self.frame = frame

    monkeypatch.setattr(spark, "Spark", Recorder)
    frame = type("DataFrame", (), {"__module__": "pyspark.sql.classic.dataframe"})()
    assert sf.table(frame).engine.connection.frame is frame
    pandas_on_spark = type(
        "DataFrame", (), {"__module__": "pyspark.pandas.frame", "to_spark": lambda self: frame}
    )()
    assert sf.table(pandas_on_spark).engine.connection.frame is frame


@pytest.mark.parametrize(
    ("query", "error", "words"),
    [
        ("SELECT nothing FROM range(3)", SourceError, "not understood"),
        ("SELECT FROM WHERE", SourceError, "not understood"),
        ("SELECT 1; SELECT 2", SourceError, "one SELECT"),
        ("sql:CREATE TABLE x AS SELECT 1 AS a", SourceError, "one SELECT"),
        ("SELECT * FROM 'nowhere.csv'", SourceError, "cannot be run"),
        ("SELECT 'secret'::INTEGER AS a", EngineError, "failed"),
    ],
)
def test_queries_that_fail(query, error, words):
    with pytest.raises(error, match=words) as caught:
        sf.table(query)
    assert "secret" not in str(caught.value)


def test_queries():
    assert sf.table("  select 1 AS a, 'x' AS b").columns == ("a", "b")
    assert sf.table("sql:(SELECT 1 AS a) UNION ALL (SELECT 2)").rows == 2
    assert sf.table("FROM range(5)").rows == 5


def test_a_file_named_like_a_query(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("select all.csv").write_bytes(CSV)
    assert sf.table("select all.csv").rows == 3


def test_engine_by_size(tmp_path, monkeypatch):
    pq.write_table(pa.table({"x": list(range(100_000))}), tmp_path / "x.parquet")
    assert sf.table(tmp_path / "x.parquet").engine.kind == "memory"
    assert sf.table(tmp_path / "x.parquet", memory="256MB").engine.kind == "memory"
    limits = sf.Budget(memory=100_000, threads=1)
    small = sf.table(tmp_path / "x.parquet", budget=limits)
    assert (small.engine.kind, small.engine.connection.memory, small.engine.connection.threads) == (
        "duckdb", 100_000, 1,
    )  # fmt: skip
    monkeypatch.setattr(opening, "available_memory", lambda: 1000)
    assert sf.table(tmp_path / "x.parquet").engine.kind == "duckdb"


def test_engines_and_limits_that_do_not_exist():
    with pytest.raises(ParameterError, match=r"no engine `duckbd`.*duckdb"):
        sf.table(PEOPLE, engine="duckbd")
    for little in (0, -5, 256 * 2**20 - 1, "1KB", "0.5MB", "255 MiB"):
        with pytest.raises(ParameterError, match=r"too small\. Give at least 256MB"):
            sf.table(PEOPLE, memory=little)
    with pytest.raises(ParameterError, match="not a memory size"):
        sf.table(PEOPLE, memory="much")


def test_available_memory_is_plausible():
    assert 1 << 20 < opening.available_memory() < 1 << 50


def test_opening_a_file_imports_no_library_it_does_not_need(tmp_path):
    (tmp_path / "people.csv").write_bytes(CSV)
    code = f"""
import sys, sfumato as sf
sf.table({str(tmp_path / "people.csv")!r}).schema
heavy = {{"polars", "pyspark", "ibis", "psycopg", "sklearn", "pyarrow.dataset"}}
print(sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "[]"


def test_a_time_zone_that_nobody_knows_is_utc(tmp_path):
    moments = pa.array([1, 2, None], pa.timestamp("us", "Mars/Olympus"))
    pq.write_table(pa.table({"moment": moments}), tmp_path / "mars.parquet")
    for source in (tmp_path / "mars.parquet", pa.table({"moment": moments})):
        for engine in ("memory", "duckdb"):
            with sf.table(source, engine=engine) as table:
                assert table.column("moment").type == pa.timestamp("us", "UTC")
                (batch,) = table.batches()
                assert batch.column(0).cast(pa.int64()).to_pylist() == [1, 2, None]
                assert table.class_sizes().to_dict() == {1: 3}


def test_a_link_that_leads_nowhere(tmp_path):
    link = tmp_path / "people.csv"
    link.symlink_to(tmp_path / "gone.csv")
    with pytest.raises(SourceError, match="link that leads nowhere"):
        sf.table(link)


def test_an_empty_name_is_not_this_folder():
    with pytest.raises(SourceError, match="empty"):
        sf.table("")


def test_a_relation_whose_connection_is_closed():
    connection = duckdb.connect()
    relation = connection.sql("SELECT 1 AS a")
    connection.close()
    with pytest.raises(EngineError, match="DuckDB relation"):
        sf.table(relation)


def test_keys_of_dictionaries_in_cells_are_not_quoted():
    with pytest.raises(ColumnError, match=r"`a` holds nested values \(struct\)"):
        sf.table(pd.DataFrame({"a": [{"Miller": 1}]}))


def test_columns_of_one_name_can_be_left_out_as_is_said(tmp_path):
    place = tmp_path / "twice.csv"
    place.write_text("a,a,b\n1,2,3\n")
    with pytest.raises(ColumnError, match=r"leave all of them out with exclude=\[\"a\"\]"):
        sf.table(place).rows
    assert sf.table(place, exclude=["a"]).columns == ("b",)


@pytest.mark.parametrize("given", [{"a"}, {"a": 1}.keys(), iter("a"), 3, b"a", [["a"]], [None]])
@pytest.mark.parametrize("verb", [sf.measure, sf.scan, sf.uniques, sf.minimal_keys, sf.violations])
def test_columns_that_are_no_list_of_names_are_refused(verb, given) -> None:
    with pytest.raises(ParameterError, match=r"must be a list of names|`columns` must be text"):
        verb(pa.table({"a": [1, 2, 2], "b": [1, 1, 2]}), columns=given)


@pytest.mark.parametrize("given", [pd.Index(["a"]), np.array(["a"]), pd.Series(["a"]), ("a",)])
def test_names_of_columns_may_come_from_a_frame(given) -> None:
    people = pa.table({"a": [1, 2, 2], "b": [1, 1, 2]})
    assert sf.measure(people, given).columns == ("a",)
    assert sf.attack(people, people, on=given).matches_one == 1


@pytest.mark.parametrize("verb", [sf.uniques, sf.minimal_keys])
def test_no_columns_are_too_few(verb) -> None:
    with pytest.raises(ColumnError, match="Name at least one"):
        verb(pa.table({"a": [1, 2, 2]}), columns=[])


def test_intervals_of_pandas_are_refused_with_a_way_out() -> None:
    frame = pd.DataFrame({"a": range(50)})
    frame["cut"] = pd.cut(frame["a"], 5)
    with pytest.raises(ColumnError, match=r"`cut` holds intervals.*astype\(str\)"):
        sf.table(frame)
    assert sf.table(frame.astype({"cut": str})).rows == 50
