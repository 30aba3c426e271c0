"""What is special about PostgreSQL: its types, its errors, its tables as destinations."""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import sfumato as sf
from servers import PostgresServer
from sfumato.anonymization import verb
from sfumato.anonymization.parting import Whole
from sfumato.budget import Budget
from sfumato.engines import database_types, sql_engine, sql_release
from sfumato.engines import postgres as postgres_engine
from sfumato.engines import statements as sql
from sfumato.engines.database_types import copied_batches, copied_text
from sfumato.engines.postgres import Postgres, Server
from sfumato.engines.protocol import column_of, whole_number
from sfumato.engines.recoding import Cells, Cut, Parting, Recoding, Step
from sfumato.engines.sql_engine import SQLEngine
from sfumato.errors import (
    BudgetError,
    ColumnError,
    EngineError,
    MissingExtraError,
    ParameterError,
    SourceError,
)
from sfumato.tables import Table

pytestmark = pytest.mark.postgres

Opener = Callable[..., SQLEngine]
Execute = Callable[[str], Any]


@pytest.fixture
def execute(postgres: PostgresServer, postgres_schema: str) -> Iterator[Execute]:
    """Runs statements of the test's own, in its schema."""
    with postgres.connect() as connection:
        connection.execute(f"SET search_path = {postgres_schema}, public")
        yield lambda statement: connection.execute(statement)


@pytest.fixture
def opened(postgres: PostgresServer, postgres_schema: str) -> Iterator[Opener]:
    """Opens a table of the test's schema, or a query."""
    engines = []

    def open_table(table: str | None = None, **options: Any) -> SQLEngine:
        name = None if table is None else f"{postgres_schema}.{table}"
        engines.append(SQLEngine(Postgres(postgres.url, table=name, **options)))
        return engines[-1]

    yield open_table
    for engine in engines:
        engine.close()


def test_a_view_and_a_query_are_tables_too(
    execute: Execute, opened: Opener, postgres_schema: str
) -> None:
    execute("CREATE TABLE people (age int, sex text)")
    execute("INSERT INTO people VALUES (20, 'F'), (30, 'F'), (30, NULL), (30, NULL)")
    execute("CREATE VIEW elders AS SELECT * FROM people WHERE age >= 30")
    view = opened("elders")
    assert view.class_sizes(["age", "sex"]).to_dict() == {1: 1, 2: 1}
    query = opened(
        query=f"WITH p AS (SELECT * FROM {postgres_schema}.people) "
        "SELECT age / 10 AS decade, sex FROM p ORDER BY age -- all of them"
    )
    assert [column.name for column in query.schema()] == ["decade", "sex"]
    assert query.row_count() == 4
    assert query.class_sizes(["decade"]).to_dict() == {1: 1, 3: 1}
    assert sum(batch.num_rows for batch in query.batches()) == 4


def test_names_as_people_write_them(execute: Execute, opened: Opener) -> None:
    execute("CREATE TABLE people (age int)")
    execute('CREATE TABLE "People.2020" (age int)')
    execute('INSERT INTO "People.2020" VALUES (1)')
    assert opened("PEOPLE").row_count() == 0
    assert opened('"People.2020"').row_count() == 1
    with pytest.raises(SourceError, match=r"Did you mean `.*people`"):
        opened("poeple").row_count()


def test_types_without_a_counterpart_travel_as_text(execute: Execute, opened: Opener) -> None:
    execute("CREATE TYPE mood AS ENUM ('sad', 'ok')")
    execute(
        "CREATE TABLE odd AS SELECT 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid AS id, "
        "'ok'::mood AS mood, interval '1 month 2 days' AS span, 'ab'::char(5) AS padded, "
        "'10.0.0.1'::inet AS address, '{\"a\": 1}'::jsonb AS note, '12:30:00.5'::time AS clock"
    )
    engine = opened("odd")
    kinds = {column.name: column.kind for column in engine.schema()}
    assert kinds.pop("clock") == "time"
    assert set(kinds.values()) == {"text"}
    (row,) = engine.sample(1).to_pylist()
    assert UUID(row["id"]).version == 4
    assert (row["mood"], row["span"], row["address"]) == ("ok", "P1M2D", "10.0.0.1/32")
    for name in kinds:
        assert engine.class_sizes([name]).to_dict() == {1: 1}
        # Rows and classes show the same text, else rows of a part would be none of the table's.
        assert engine.values(name).values[0].to_pylist() == [row[name]]


def test_rows_of_padded_texts_and_addresses_are_solved_in_parts(
    execute: Execute, opened: Opener
) -> None:
    execute(
        "CREATE TABLE hosts AS SELECT (i % 4)::text::char(5) AS padded, "
        "('10.0.0.' || i % 5)::inet AS address FROM generate_series(1, 100) AS i"
    )
    release = sf.anonymize(Table(opened("hosts")), qi=["padded", "address"], k=5, parts=3)
    assert (release.k, release.classes) == (5, 20)


def test_text_is_compared_byte_by_byte_under_any_collation(
    execute: Execute, opened: Opener
) -> None:
    execute(
        "CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level1', deterministic = false)"
    )
    execute("CREATE TABLE names (name text COLLATE loose)")
    execute("INSERT INTO names VALUES ('a'), ('A'), ('á'), ('a')")
    engine = opened("names")
    assert engine.class_sizes(["name"]).to_dict() == {1: 2, 2: 1}
    assert engine.values("name").values[0].to_pylist() == ["A", "a", "á"]


def test_decimals_of_undeclared_size(execute: Execute, opened: Opener) -> None:
    execute("CREATE TABLE sums (amount numeric, endless numeric, odd numeric, nothing numeric)")
    execute("INSERT INTO sums VALUES (1.5, 1e70, 'NaN', NULL), (1.50, 0.1, 2, NULL)")
    execute("INSERT INTO sums VALUES (-12345.25, 1e-9, 2.0, NULL)")
    engine = opened("sums")
    types = {column.name: column.type for column in engine.schema()}
    assert types["amount"] == pa.decimal128(7, 2)
    assert types["endless"] == pa.string()
    assert types["odd"] == pa.string()
    assert engine.class_sizes(["amount"]).to_dict() == {1: 1, 2: 1}
    assert engine.class_sizes(["nothing"]).to_dict() == {3: 1}


def test_a_value_arrow_cannot_hold_is_named_by_its_column(execute: Execute, opened: Opener) -> None:
    execute("CREATE TABLE far (day date)")
    execute("INSERT INTO far VALUES ('infinity')")
    engine = opened("far")
    assert engine.class_sizes(["day"]).to_dict() == {1: 1}
    with pytest.raises(ColumnError, match="column `day`") as caught:
        engine.values("day")
    assert "infinity" not in str(caught.value).lower().replace("infinite", "")


def test_nested_and_doubled_columns_are_refused(execute: Execute, opened: Opener) -> None:
    execute("CREATE TABLE nested (age int, tags text[])")
    with pytest.raises(ColumnError, match="`tags` holds nested"):
        opened("nested").schema()
    with pytest.raises(ColumnError, match="`a` occurs more than once"):
        opened(query="SELECT 1 AS a, 2 AS a").schema()


@pytest.mark.parametrize("query", ["DELETE FROM people", "SELECT 1; SELECT 2", "", "SELECT FROM ("])
def test_only_one_select_is_a_query(opened: Opener, query: str) -> None:
    with pytest.raises(SourceError, match="not a single SELECT"):
        opened(query=query).schema()


def test_a_query_the_server_does_not_understand(opened: Opener) -> None:
    with pytest.raises(SourceError, match='column "nobody" does not exist'):
        opened(query="SELECT nobody FROM pg_class").schema()


def test_reading_cannot_write(opened: Opener, execute: Execute, postgres_schema: str) -> None:
    execute("CREATE SEQUENCE counter")
    engine = opened(query=f"SELECT nextval('{postgres_schema}.counter') AS n")
    with pytest.raises(EngineError, match="read-only"):
        engine.values("n")


def test_errors_about_data_do_not_quote_it(execute: Execute, opened: Opener) -> None:
    execute("CREATE TABLE secret (code text)")
    execute("INSERT INTO secret VALUES ('top-secret')")
    engine = opened("secret")
    name = engine.connection.rows().source.sql("postgres")
    broken = opened(query=f"SELECT code::int AS code FROM {name}")
    with pytest.raises(EngineError, match="SQLSTATE 22P02") as caught:
        broken.values("code")
    assert "top-secret" not in str(caught.value)


def test_no_server(tmp_path: Path) -> None:
    engine = SQLEngine(Postgres(f"postgresql://ann:s3cret@/db?host={tmp_path}", table="people"))
    with pytest.raises(EngineError, match="cannot connect") as caught:
        engine.row_count()
    assert "s3cret" not in str(caught.value)
    assert "s3cret" not in engine.name


def test_passwords_stay_out_of_every_text() -> None:
    server = Server("postgresql://ann:p%40ss@db/census?password=p2&sslpassword=p3&port=1")
    assert server.shown == "postgresql://ann@db/census"
    assert "p%40ss" not in repr(server)
    with pytest.raises(SourceError) as caught:
        Server("postgresql://ann:p%40ss@db:notaport/p@ss")
    assert "p%40ss" not in str(caught.value)


def test_neither_table_nor_query() -> None:
    with pytest.raises(ParameterError, match="either a table or a query"):
        SQLEngine(Postgres("postgresql://db/census"))
    with pytest.raises(ParameterError, match="either a table or a query"):
        SQLEngine(Postgres("postgresql://db/census", table="t", query="SELECT 1"))


def test_without_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r"sfumato\[postgres\]"):
        SQLEngine(Postgres("postgresql://db/census", table="people")).row_count()


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_connection_lost_midway(execute: Execute, opened: Opener, snapshot: bool) -> None:
    execute("CREATE TABLE people (age int)")
    execute("INSERT INTO people SELECT generate_series(1, 100000)")
    engine = opened("people", snapshot=snapshot)
    batches = engine.batches(rows=10)
    next(batches)
    assert engine.row_count() == 100000
    execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sfumato'"
    )
    with pytest.raises(EngineError, match="connection to PostgreSQL was lost"):
        engine.class_sizes(["age"])
    with pytest.raises(EngineError, match="connection to PostgreSQL was lost"):
        list(batches)


def test_a_snapshot_stays_at_its_moment(execute: Execute, opened: Opener) -> None:
    execute("CREATE TABLE people (age int)")
    execute("INSERT INTO people VALUES (1), (2)")
    still, moving = opened("people", snapshot=True), opened("people")
    assert (still.row_count(), moving.row_count()) == (2, 2)
    execute("INSERT INTO people VALUES (3)")
    assert still.class_sizes(["age"]).rows == 2
    assert sum(batch.num_rows for batch in still.batches()) == 2
    assert moving.class_sizes(["age"]).rows == 3
    assert moving.row_count() == 3


def test_a_spent_budget_stops_the_server(execute: Execute, opened: Opener) -> None:
    engine = opened(query="SELECT a.n FROM generate_series(1, 100000) a(n), "
                          "generate_series(1, 100000) b(n)")  # fmt: skip
    engine.schema()
    with pytest.raises(BudgetError, match="counting classes was stopped"):
        engine.class_sizes(["n"], Budget(seconds=0.3))
    assert opened(query="SELECT 1 AS one").class_sizes(["one"]).to_dict() == {1: 1}
    running = execute(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'sfumato' "
        "AND state = 'active'"
    ).fetchone()
    assert running == (0,)


def test_a_release_can_be_a_file(execute: Execute, opened: Opener, tmp_path: Path) -> None:
    execute("CREATE TABLE people (age int, sex text)")
    execute("INSERT INTO people VALUES (20, 'F'), (30, ''), (NULL, NULL)")
    engine = opened("people")
    match = engine.values("age")
    step = Step(match, {"age": Cells(np.zeros(3, np.int64), pa.array(["*"]))})
    path = tmp_path / "out.csv"
    engine.stage(Recoding((step,)), str(path)).commit()
    assert sorted(path.read_text().splitlines()) == sorted(["age,sex", "*,F", '*,""', "*,"])
    assert list(tmp_path.iterdir()) == [path]


def test_combinations_that_no_limit_holds_do_not_set_out(
    execute: Execute, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute("CREATE TABLE people AS SELECT n AS age, n % 7 AS ward FROM generate_series(1, 5000) n")
    monkeypatch.setattr("sfumato.engines.sql_engine.ENOUGH_BYTES", 1 << 17)
    people = opened("people")
    with pytest.raises(
        EngineError, match=r"distinct combinations of 2 columns, too many to be held"
    ):
        sf.risk(Table(people), ["age"], person="ward")
    assert people.classes(["ward"], budget=Budget()).entries == 7
    assert people.classes(["age", "ward"], budget=Budget(memory=1 << 28)).entries == 5_000


def test_cells_are_made_harmless_in_files_only(
    postgres: PostgresServer, execute: Execute, postgres_schema: str, tmp_path: Path
) -> None:
    execute(
        "CREATE TABLE people AS SELECT n % 7 AS age, '=1+1' AS said FROM generate_series(1, 70) n"
    )
    asked = {"qi": ["age"], "k": 2, "rows_are_people": True, "spreadsheet_safe": True}
    place = f"{postgres.url}#{postgres_schema}"
    with sf.table(f"{place}.people") as people:
        with pytest.raises(ParameterError, match="is for files, and this release stays where its"):
            sf.anonymize(people, output=f"{place}.released", **asked)
        release = sf.anonymize(people, output=tmp_path / "out.csv", **asked)
    assert (release.formulas, release.column_actions["said"]) == (0, "formulas made text")
    assert {*sf.table(tmp_path / "out.csv").to_arrow().column("said").to_pylist()} == {"'=1+1"}


def test_a_file_that_is_written_whole_is_refused_before_work_starts(
    postgres: PostgresServer, execute: Execute, postgres_schema: str, tmp_path: Path
) -> None:
    execute("CREATE TABLE people AS SELECT n % 7 AS age, 0 AS sex FROM generate_series(1, 2000) n")
    asked = {"qi": ["age"], "k": 2, "rows_are_people": True, "budget": Budget(memory=1 << 19)}
    place = f"{postgres.url}#{postgres_schema}"
    with sf.table(f"{place}.people") as people, chdir(tmp_path):
        with pytest.raises(EngineError, match=r"4,000 cells take about .* until .* is written and"):
            sf.anonymize(people, output="release.json", **asked)
        assert sf.anonymize(people, output=f"{place}.json", **asked).verified


def test_where_a_release_may_go(
    postgres: PostgresServer, execute: Execute, opened: Opener, postgres_schema: str
) -> None:
    execute("CREATE TABLE people (age int)")
    engine = opened("people")
    staged = engine.stage(Recoding(), f"{postgres.url}#{postgres_schema}.out")
    staged.commit()
    assert execute("SELECT count(*) FROM out").fetchone() == (0,)
    with pytest.raises(ParameterError, match="no table is named"):
        engine.stage(Recoding(), postgres.url)
    with pytest.raises(ParameterError, match="another database"):
        engine.stage(Recoding(), "postgresql://elsewhere/db#out")
    with pytest.raises(ParameterError, match="there is no schema `nowhere`"):
        engine.stage(Recoding(), "nowhere.out")
    with pytest.raises(ParameterError, match="table being read"):
        engine.stage(Recoding(), f"{postgres_schema}.people")
    cells = {"x" * 64: Cells(np.zeros(0, np.int64), pa.array([], pa.string()))}
    with pytest.raises(EngineError, match="63 bytes"):
        engine.stage(Recoding((Step(engine.values("age"), cells),)), f"{postgres_schema}.long")


@pytest.mark.parametrize(
    ("read", "target"),
    [("people", "young"), ("young", "people"), ("seen", "young"), ("seen", "people")],
)
def test_rows_that_are_read_are_not_replaced(
    execute: Execute, opened: Opener, postgres_schema: str, read: str, target: str
) -> None:
    execute("CREATE TABLE people (age int) PARTITION BY RANGE (age)")
    execute("CREATE TABLE young PARTITION OF people FOR VALUES FROM (0) TO (50)")
    execute("CREATE TABLE old PARTITION OF people FOR VALUES FROM (50) TO (100)")
    execute("INSERT INTO people SELECT i % 10 * 10 FROM generate_series(1, 100) AS i")
    execute("CREATE VIEW seen AS SELECT * FROM people WHERE age < 20")
    with pytest.raises(ParameterError, match="rows that are being read"):
        sf.anonymize(
            Table(opened(read)),
            qi=["age"],
            k=5,
            output=f"{postgres_schema}.{target}",
            force=True,
        )
    assert execute("SELECT count(*) FROM people").fetchone() == (100,)


def test_a_name_that_would_be_cut_off_is_refused(execute: Execute, opened: Opener) -> None:
    execute("CREATE TABLE people AS SELECT 1 AS age FROM generate_series(1, 9)")
    with pytest.raises(ParameterError, match="more than 63 bytes"):
        sf.anonymize(Table(opened("people")), qi=["age"], k=5, output="public." + "x" * 64)


def test_a_failed_release_leaves_no_table(
    execute: Execute, opened: Opener, postgres_schema: str
) -> None:
    execute("CREATE TABLE people (age int)")
    execute("INSERT INTO people VALUES (1), (2)")
    engine = opened("people")
    step = Step(engine.values("age").take(np.array([0])))
    with pytest.raises(EngineError, match="match no entry"):
        engine.stage(Recoding((step,)), f"{postgres_schema}.out")
    with pytest.raises(BudgetError):
        engine.stage(Recoding(), f"{postgres_schema}.out", budget=Budget(seconds=0))
    tables = execute(
        f"SELECT relname FROM pg_class WHERE relnamespace = '{postgres_schema}'::regnamespace"
    ).fetchall()
    assert tables == [("people",)]


def test_joins_can_be_hashed_although_null_equals_null(
    execute: Execute, opened: Opener, postgres_schema: str
) -> None:
    from sfumato.engines import statements as sql

    execute("CREATE TABLE people (age int, sex text)")
    execute("INSERT INTO people SELECT g % 1000, 'F' FROM generate_series(1, 20000) g")
    execute("CREATE TABLE step (k0 int, k1 text, keep boolean, v0 text)")
    execute("INSERT INTO step SELECT g, 'F', true, '*' FROM generate_series(0, 999) g")
    execute("ANALYZE")
    rows = opened("people").connection.rows()
    statement = sql.recoded(rows, [sql.Mapping("step", ("age", "sex"), ("age",), False)], ())
    plan = execute(f"EXPLAIN {sql.text(statement, rows.dialect)}").fetchall()
    assert any("Join" in line and ("Hash" in line or "Merge" in line) for (line,) in plan), plan
    assert not any("Nested Loop" in line for (line,) in plan)


def test_a_release_reads_one_moment_and_lets_go_of_it(
    execute: Execute,
    postgres: PostgresServer,
    postgres_schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    execute("CREATE TABLE people AS SELECT i / 5 AS age FROM generate_series(0, 99) AS i")
    counting = Whole.of

    def meanwhile(*asked: Any) -> Whole:
        found = counting(*asked)
        execute("INSERT INTO people VALUES (1000)")
        return found

    monkeypatch.setattr(Whole, "of", meanwhile)
    with sf.table(f"{postgres.url}#{postgres_schema}.people") as people:
        release = sf.anonymize(people, qi=["age"], k=5, parts=2)
        assert (release.rows, release.k) == (100, 5)
        assert people.rows == 101
        execute("SET lock_timeout = '5s'")
        execute("DROP TABLE people")


def test_values_counted_together_are_those_counted_one_by_one(
    execute: Execute, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute(
        "CREATE TABLE cells AS SELECT i AS id, nullif(i % 30, 9) AS age, i % 200 AS street, "
        "(ARRAY['-0', '0', '1.5', 'NaN', NULL])[1 + i % 5]::float8 AS number, "
        "(ARRAY['Rome', '', 'rome', NULL])[1 + i % 4] AS city FROM generate_series(1, 500) AS i"
    )
    engine = opened("cells", snapshot=True)
    names = ["age", "street", "number", "city"]
    apart = {name: (engine.values(name), engine.class_sizes([name])) for name in names}
    nulls = engine.null_counts(names)
    other = opened("cells", snapshot=True)
    other.count_values(["id", *names], 0)
    assert other.values("id").entries == 500  # too many to be counted with the others
    monkeypatch.delattr(SQLEngine, "_ask")
    assert other.null_counts(names) == nulls
    for name in names:
        values, sizes = apart[name]
        assert str(other.values(name).values[0]) == str(values.values[0])  # NaN is itself here
        assert other.values(name).row_counts.tolist() == values.row_counts.tolist()
        assert other.class_sizes([name]).to_dict() == sizes.to_dict()


def test_rows_are_not_sorted_to_be_counted(execute: Execute, opened: Opener) -> None:
    execute("CREATE TABLE numbers AS SELECT i % 7 AS i FROM generate_series(1, 50) AS i")
    database = opened("numbers", snapshot=True).connection
    assert isinstance(database, Postgres)
    rows, figures = database.rows(), [whole_number("size"), whole_number("classes")]
    with database.session() as session:
        for statement, columns, sorts in (
            (sql.class_sizes(rows, ["i"]), figures, "off"),
            (sql.select("SELECT COUNT(*) FROM ORIGIN", rows), figures[:1], "on"),
        ):
            session.execute(statement, columns)
            assert session.connection.execute("SHOW enable_sort").fetchone() == (sorts,)


def test_rows_that_share_a_hash_are_not_compared_one_by_one(
    execute: Execute, opened: Opener
) -> None:
    execute("CREATE TABLE numbers AS SELECT i / 2 AS i FROM generate_series(1, 20000) AS i")
    execute("ANALYZE numbers")
    database = opened("numbers", snapshot=True).connection
    assert isinstance(database, Postgres)
    statement = sql.rows_alike(database.rows(), ["i"], ["i"], 20_000)
    with database.session() as session:
        session.execute(statement, database.rows().columns)
        asked = f"EXPLAIN {sql.text(statement, database.rows().dialect)}"
        plan = session.connection.execute(asked).fetchall()
    assert any("Hash" in line and "Join" in line for (line,) in plan)


def test_a_sample_is_uniform_and_repeats_without_sorting_all_rows(
    execute: Execute, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute("CREATE TABLE numbers AS SELECT i FROM generate_series(1, 5000) AS i")
    engine = opened("numbers", snapshot=True)
    assert engine.row_count() == 5000
    few = engine.sample(100, seed=7)
    assert engine.sample(100, seed=7).equals(few)
    drawn = np.concatenate([engine.sample(100, seed=seed)[0].to_numpy() for seed in range(30)])
    tenths = np.bincount((drawn - 1) // 500, minlength=10)  # 300 each, give or take 17
    assert 230 < tenths.min() <= tenths.max() < 370
    monkeypatch.setattr(SQLEngine, "_nearly_all_below", lambda *_: None)
    many = engine.sample(100, seed=7)
    monkeypatch.setattr(SQLEngine, "_nearly_all_below", lambda *_: 0.001)  # too few by far
    assert engine.sample(100, seed=7).equals(many)


def test_a_release_of_one_column_keeps_its_nulls_apart(
    execute: Execute, postgres: PostgresServer, postgres_schema: str, tmp_path: Path
) -> None:
    words = "ARRAY['', 'NA', E'\\\\.', NULL, 'a \"b\"', E'two\\nlines']"
    execute(
        f"CREATE TABLE words AS SELECT ({words})[1 + i % 6] AS word FROM generate_series(1, 60) i"
    )
    place = f"{postgres.url}#{postgres_schema}.released"
    with chdir(tmp_path), sf.table(f"{postgres.url}#{postgres_schema}.words") as table:
        sf.anonymize(table, qi=["word"], k=5, parts=1, output=place)
    differ = (
        "SELECT word, count(*) FROM words GROUP BY 1 EXCEPT SELECT word, count(*) FROM released"
    )
    assert execute(f"{differ} GROUP BY 1").fetchall() == []


def test_whole_numbers_are_read_as_such_and_others_named_without_their_cells():
    rows = [b'1,"a\nb"\n', b',""\n', b"300,\n"]
    columns = [column_of("n", pa.int16()), column_of("t", pa.string())]
    first, second = copied_batches(iter(rows), columns, 2, "here")
    assert first.to_pydict() == {"n": [1, None], "t": ["a\nb", ""]}
    assert second.to_pydict() == {"n": [300], "t": [None]}
    narrow = [column_of("n", pa.int8()), columns[1]]
    with pytest.raises(ColumnError, match="column `n` holds a integer") as error:
        list(copied_batches(iter(rows), narrow, 3, "here"))
    assert "300" not in str(error.value)


def test_numbers_alone_travel_without_quotes():
    columns = [column_of("n", pa.int16()), column_of("x", pa.float64())]
    (read,) = copied_batches(iter([b"1\t-Infinity\n", b"\\N\t2.5\n"]), columns, 2, "here")
    assert read.to_pydict() == {"n": [1, None], "x": [float("-inf"), 2.5]}


def test_any_text_arrives_as_it_is(execute: Execute, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = ["\\", "\t", "\n", "\r", "N", ".", '"', ",", "", "é"]
    cells = [*map("".join, itertools.product(parts, repeat=3)), None]
    table = pa.table({"t": cells, "n": [None, *range(len(cells) - 1)]})
    monkeypatch.setattr(database_types, "_TEXT_BYTES", 3000)
    execute("CREATE TABLE texts (t text, n int)")
    with execute("SELECT 1").connection.cursor().copy("COPY texts FROM STDIN") as copy:
        for text in copied_text(table.slice(0, 7)), copied_text(table.slice(7)):
            for piece in text:
                copy.write(bytes(piece))
    assert sorted(execute("SELECT t, n FROM texts").fetchall(), key=str) == sorted(
        zip(*table.to_pydict().values(), strict=True), key=str
    )


@pytest.mark.parametrize("bytes_", [40, 1 << 24])
def test_rows_of_equal_labels_are_sent_one_after_the_other(
    execute: Execute, monkeypatch: pytest.MonkeyPatch, bytes_: int
) -> None:
    """Whatever labels are, also where some are null, or are too long to be sent in one piece."""
    monkeypatch.setattr(database_types, "_TEXT_BYTES", bytes_)
    texts = pa.array(["[1, 2)", "a\tb", None, "\\N", "", "x" * 50, "a\tb", "never"])
    random = np.random.default_rng(3)
    numbers = [random.integers(0, 7, 200).astype(np.int32) for _ in range(3)]
    missing = random.random(200) < 0.2
    labels = [
        pa.DictionaryArray.from_arrays(pa.array(own, mask=missing if at else None), texts)
        for at, own in enumerate(numbers)
    ]
    kept = pa.array([None, *(f"\n{n}" for n in range(199))])
    batch = pa.record_batch([labels[0], labels[1], kept, labels[2]], names=["a", "b", "k", "c"])
    for names in (["a", "b", "k", "c"], ["k", "a", "b"], ["a", "b"], ["c"]):
        some = batch.select(names)
        execute("DROP TABLE IF EXISTS sent")
        execute(f"CREATE TABLE sent (n serial, {', '.join(f'{name} text' for name in names)})")
        copying = f"COPY sent ({', '.join(names)}) FROM STDIN"
        with execute("SELECT 1").connection.cursor().copy(copying) as copy:
            for text in copied_text(some):
                copy.write(bytes(text))
        found = execute(f"SELECT {', '.join(names)} FROM sent ORDER BY n").fetchall()
        own = list(zip(*(column.to_pylist() for column in some.columns), strict=True))
        assert Counter(found) == Counter(own)
        labelled = [nth for nth, name in enumerate(names) if name != "k"]
        told, given = ([tuple(row[at] for at in labelled) for row in rows] for rows in (found, own))
        # labels follow each other as they first appear, and not as they stand in dictionaries
        assert [key for key, _ in itertools.groupby(told)] == [*dict.fromkeys(given)]


def test_no_more_is_put_before_a_slow_server_than_it_takes():
    class Slow:
        """A connection that takes a little at a time, and says what is on its way."""

        def __init__(self) -> None:
            self.pgconn, self.taken, self.kept, self.most = self, b"", b"", 0

        def cursor(self, *_: object) -> Slow:
            return self

        copy = __enter__ = cursor

        def __exit__(self, *_: object) -> None:
            pass

        def write(self, data: Any) -> None:
            self.kept += bytes(data)
            self.most = max(self.most, len(self.kept))

        def flush(self) -> int:
            self.taken, self.kept = self.taken + self.kept[:50_000], self.kept[50_000:]
            return int(bool(self.kept))

        def wait(self, waiting: Iterator[Any]) -> None:
            for _ in waiting:
                pass

    slow, texts = Slow(), [bytes(range(256)) * 3_000, b"end"]
    database_types.sent(slow, "COPY", texts)
    assert slow.taken == b"".join(texts)
    assert slow.most <= database_types._PIECE


def test_rows_that_fit_are_dealt_to_their_parts_here(
    execute: Execute,
    opened: Opener,
    postgres_schema: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same release whether they are, or the server sorts them."""
    monkeypatch.chdir(tmp_path)
    execute(
        "CREATE TABLE people AS SELECT 18 + n * 37 % 60 AS age, 10000 + n * 7919 % 800 "
        "AS zip, 1.50::numeric(6, 2) + n % 9 AS pay, date '2020-01-01' + n % 30 AS since "
        "FROM generate_series(1, 2000) AS n"
    )
    asked = {"qi": ["age", "zip"], "k": 5, "parts": 4}
    monkeypatch.setattr(verb, "WORTH_COUNTING", 100)
    sorted_there, found = [], {}
    sorting = sql.sorted_by_part
    monkeypatch.setattr(sql, "sorted_by_part", lambda s: sorted_there.append(s) or sorting(s))
    for name, bytes_ in (("near", 1 << 20), ("far", 1)):
        monkeypatch.setattr(sql_engine, "HELD_BYTES", bytes_)
        release = sf.anonymize(
            Table(opened("people")), output=f"{postgres_schema}.{name}", force=True, **asked
        )
        assert release.details["in_parts"]["parts"] == 4
        assert bool(sorted_there) == (name == "far")
        released = opened(name)
        found[name] = released.fingerprint(), [column.type for column in released.schema()]
    assert found["near"] == found["far"]


def test_rows_held_here_have_the_fingerprint_that_the_server_tells(
    execute: Execute, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute(
        "CREATE TABLE held AS SELECT (n % 7)::int2 AS i, (n % 11 - 5)::bigint << 33 AS j, "
        "(n % 19) * 100000000 - 1000000000 AS k, n % 2 = 0 AS b, date '2020-01-01' - n % 50 AS d, "
        "CASE n % 5 WHEN 0 THEN NULL ELSE 'tä' || n % 30 END AS t, (n % 3)::text::char(5) AS c, "
        "CASE n % 3 WHEN 0 THEN NULL ELSE n % 6 END AS m, NULL::int AS x "
        "FROM generate_series(1, 70000) AS n"
    )
    here, elsewhere = (opened("held", snapshot=True) for _ in range(2))
    for engine in (here, elsewhere):
        assert engine.row_count() == 70_000
        names = [column.name for column in engine.schema()]
        engine.count_values(names, 0, None, names)
    monkeypatch.setattr(here, "_figures", None)  # the server does not look at them again
    told = opened("held").fingerprint()
    assert here.fingerprint() == told
    rows = elsewhere.connection.rows()
    other = type(rows.dialect).numbers_here
    monkeypatch.setattr(type(rows.dialect), "numbers_here", lambda *given: other(*given)[::-1])
    assert elsewhere.fingerprint() == told  # it hashes rows in another way, and is asked itself


@pytest.mark.parametrize("parts", [1, 5])
def test_classes_of_all_columns_tell_the_fingerprint(
    execute: Execute, opened: Opener, parts: int
) -> None:
    execute(
        "CREATE TABLE cells AS SELECT n % 3 AS i, (n % 5 - 2)::bigint << 40 AS j, "
        "CASE n % 4 WHEN 0 THEN 'NaN' WHEN 1 THEN -0.0 WHEN 2 THEN 0.0 END::float8 AS f, "
        "CASE n % 2 WHEN 0 THEN 1.0 ELSE 1.00 END AS d, CASE n % 7 WHEN 0 THEN NULL ELSE 'é' END "
        "AS t, timestamp '2020-01-01' + make_interval(hours => n % 2) AS at, n % 2 = 0 AS b, "
        "decode('0' || n % 3, 'hex') AS x FROM generate_series(1, 500) AS n"
    )
    columns = [column.name for column in opened("cells").schema()]
    seen = []

    def act(classes: pa.Table) -> pa.Table:
        seen.append(classes.column_names)
        return pa.table({"rows": [pc.sum(classes.column(classes.num_columns - 1)).as_py()]})

    schema = pa.schema([("rows", pa.int64())])
    asked = (columns[::-1], 0, True), (columns, 3, True), (columns[1:], 0, False)
    for names, start, by_classes in asked:
        engine = opened("cells", snapshot=True)
        found = engine.over_classes(names, names[start:], parts, act, schema)
        assert sum(found.column(0).to_pylist()) == 500
        assert {tuple(one[:-1]) for one in seen} == {tuple(names)}
        assert (engine._identity is not None) == by_classes
        assert engine.fingerprint() == opened("cells").fingerprint()
        seen.clear()
    changing = opened("cells")
    changing.over_classes(columns, columns, parts, act, schema)
    assert changing._identity is None


def test_a_table_is_cut_at_more_values_than_a_table_has_columns(
    execute: Execute, opened: Opener
) -> None:
    execute(
        "CREATE TABLE people AS SELECT n AS age, 'n' || n % 900 AS name "
        "FROM generate_series(0, 3999) AS n"
    )
    cuts: list[Cut] = []

    def grow(low: int, high: int) -> int:
        if high - low == 1:
            return -1 - low
        at, middle = len(cuts), (low + high) // 2
        by = Cut("age", pa.array([2 * middle]), False, 0, 0)
        if high - low == 2 and low % 100 == 0:
            by = Cut("name", pa.array([f"n{one}" for one in range(0, 900, 2)]), True, 0, 0)
        cuts.append(by)
        cuts[at] = replace(by, yes=grow(low, middle), no=grow(middle, high))
        return at

    grow(0, 2000)
    parting = Parting(tuple(cuts), 2000)
    assert any(cut.among for cut in cuts)
    found = opened("people").part_counts(parting)
    counts = dict(zip(*(column.to_pylist() for column in found.columns), strict=True))
    entries = Table(opened("people")).classes(["age", "name"])
    here = np.bincount(parting.of(entries)).tolist()
    assert counts == {part: rows for part, rows in enumerate(here) if rows}


def test_of_long_rows_fewer_make_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = [column_of("text", pa.string()), column_of("age", pa.int64())]
    rows = [f"{'ab' * 500},{at}\n".encode() for at in range(5_000)]
    found = list(database_types.copied_batches(rows, columns, 5_000, "people"))
    assert [len(batch) for batch in found] == [5_000]
    monkeypatch.setattr(database_types, "_BATCH_BYTES", 1 << 20)
    found = list(database_types.copied_batches(rows, columns, 5_000, "people"))
    assert [len(batch) for batch in found] == [2_048, 2_048, 904]
    assert pa.Table.from_batches(found)["age"].to_pylist() == list(range(5_000))
    assert not list(database_types.copied_batches([], columns, 5_000, "people"))


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("force", [False, True])
def test_a_table_that_was_interrupted_after_it_got_its_name_has_its_certificate(
    opened: Opener,
    execute: Execute,
    postgres: PostgresServer,
    postgres_schema: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    force: bool,
    lost: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    execute("CREATE TABLE crowd AS SELECT n % 9 AS age FROM generate_series(1, 90) n")
    output = f"{postgres_schema}.released"
    if force:
        sf.anonymize(Table(opened("crowd")), qi=["age"], k=20, output=output)
    plan = sf.anonymize(Table(opened("crowd")), qi=["age"], k=5)
    publish = postgres_engine._Target.publish

    def gone(*_: Any, **__: Any) -> Any:
        raise EngineError("the connection was lost")

    def interrupted(target: Any, **how: Any) -> None:
        publish(target, **how)
        if lost:
            patched.setattr(Server, "transaction", gone)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(postgres_engine._Target, "publish", interrupted)
        with pytest.raises((KeyboardInterrupt, EngineError)):
            plan.write(output, force=force)
    assert [one.name for one in tmp_path.iterdir()] == [f"{output}.certificate.json"]
    with sf.table(f"{postgres.url}#{output}") as there:
        assert sf.verify(there, certificate=f"{output}.certificate.json").holds


@pytest.mark.parametrize("parts", [None, 4])
def test_an_interrupted_session_leaves_no_table(
    opened: Opener,
    execute: Execute,
    postgres_schema: str,
    monkeypatch: pytest.MonkeyPatch,
    parts: int | None,
) -> None:
    execute(
        "CREATE TABLE crowd AS SELECT n % 90 AS age, n % 7 AS town FROM generate_series(1, 900) n"
    )
    plan = sf.anonymize(Table(opened("crowd")), qi=["age", "town"], k=5, parts=parts)
    made = sql_release._made

    def interrupted(*given: Any) -> Any:
        found = made(*given)

        @contextmanager
        def rows() -> Iterator[Any]:
            with made(*given).rows() as both:
                yield both
            raise KeyboardInterrupt

        object.__setattr__(found, "rows", rows)
        return found

    monkeypatch.setattr(sql_release, "_made", interrupted)
    with pytest.raises(KeyboardInterrupt):
        plan.write(f"{postgres_schema}.released")
    there = execute(f"SELECT tablename FROM pg_tables WHERE schemaname = '{postgres_schema}'")
    assert [name for (name,) in there] == ["crowd"]
