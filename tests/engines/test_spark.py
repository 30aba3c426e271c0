"""What is special about Spark: its types, its folders, and losing it."""

from __future__ import annotations

import gc
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.budget import Budget
from sfumato.engines.recoding import Cells, Recoding, Step
from sfumato.errors import BudgetError, ColumnError, EngineError, ParameterError
from sfumato.release.certificate import Certificate, certificate_path, check_place
from zoo import rows_of, zoo

pytest.importorskip("pyspark", reason="pyspark is not installed (extra `spark`)")

from pyspark.errors import PySparkException
from pyspark.sql.classic.dataframe import DataFrame

from sfumato.engines import spark as spark_engine
from sfumato.engines.spark import Spark, _Session
from sfumato.engines.sql_engine import SQLEngine

pytestmark = pytest.mark.spark


@pytest.fixture
def people(spark: Any) -> Iterator[SQLEngine]:
    frame = spark.createDataFrame([(20, "F"), (30, ""), (None, None)], "age int, sex string")
    engine = SQLEngine(Spark(frame, name="people"))
    yield engine
    engine.close()


def test_nested_and_doubled_columns_are_refused(spark: Any) -> None:
    nested = spark.sql("SELECT 1 AS age, array(1, 2) AS tags")
    with pytest.raises(ColumnError, match="`tags` holds nested"):
        SQLEngine(Spark(nested)).schema()
    with pytest.raises(ColumnError, match="`a` occurs more than once"):
        SQLEngine(Spark(spark.sql("SELECT 1 AS a, 2 AS a"))).schema()


def test_names_that_differ_in_case_only_are_written_where_spark_may(
    spark: Any, tmp_path: Path
) -> None:
    engine = SQLEngine(Spark(spark.sql("SELECT 1 AS age, 2 AS Age")))
    out = str(tmp_path / "out")
    with pytest.raises(ColumnError, match=r"`age` and `Age` .* set spark.sql.caseSensitive"):
        engine.stage(Recoding(), out)
    assert list(tmp_path.iterdir()) == []
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        engine.stage(Recoding(), out).commit()
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    assert pq.read_table(out).to_pydict() == {"age": [1], "Age": [2]}
    engine.close()


def test_types_of_sparks_own(spark: Any) -> None:
    frame = spark.sql(
        "SELECT interval '1-2' year to month AS months, "
        "interval '1 02:03:04' day to second AS span, "
        "'a' COLLATE UTF8_LCASE AS loose, CAST(1 AS tinyint) AS tiny, time '12:30:00' AS clock "
        "UNION ALL SELECT interval '1-2' year to month, interval '1 02:03:04' day to second, "
        "'A' COLLATE UTF8_LCASE, CAST(1 AS tinyint), time '12:30:00'"
    )
    engine = SQLEngine(Spark(frame))
    assert [column.kind for column in engine.schema()] == [
        "text", "duration", "text", "integer", "time",
    ]  # fmt: skip
    assert engine.class_sizes(["months", "span", "tiny", "clock"]).to_dict() == {2: 1}
    assert engine.class_sizes(["loose"]).to_dict() == {1: 2}
    engine.close()


def test_a_release_as_csv_reads_back_as_it_was(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql.pandas.types import from_arrow_schema

    table = zoo().drop_columns(["blob"])
    schema = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
    engine = SQLEngine(Spark(spark.createDataFrame(table, schema)))
    staged = engine.stage(Recoding(), str(tmp_path / "out.csv.gz"))
    back = pa.Table.from_batches(list(staged.engine().batches()))
    assert Counter(rows_of(back)) == Counter(rows_of(table))
    staged.discard()
    assert list(tmp_path.iterdir()) == []
    engine.close()


def test_one_column_of_nulls_as_csv(spark: Any, tmp_path: Path) -> None:
    engine = SQLEngine(Spark(spark.createDataFrame([(None,), ("",), ("a",)], "name string")))
    staged = engine.stage(Recoding(), str(tmp_path / "out.csv"))
    assert staged.engine().class_sizes(["name"]).to_dict() == {1: 3}
    staged.discard()
    engine.close()


def test_where_a_release_may_go(people: SQLEngine, spark: Any, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="does not exist"):
        people.stage(Recoding(), str(tmp_path / "no" / "out"))
    with pytest.raises(ParameterError, match="does not write arrow"):
        people.stage(Recoding(), str(tmp_path / "out.arrow"))
    with pytest.raises(ParameterError, match="does not write json"):  # before work starts
        check_place(sf.table(people.connection.frame), tmp_path / "out.json")
    path = tmp_path / "folder"
    people.stage(Recoding(), str(path)).commit()
    assert (path / "_SUCCESS").exists()
    assert pq.read_table(path).num_rows == 3
    again = SQLEngine(Spark(spark.read.parquet(str(path))))
    with pytest.raises(ParameterError, match="table being read"):
        again.stage(Recoding(), str(path))
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


def test_a_folder_without_its_marker_is_refused(people: SQLEngine, tmp_path: Path) -> None:
    staged = people.stage(Recoding(), str(tmp_path / "out"))
    (partial,) = tmp_path.iterdir()
    (partial / "_SUCCESS").unlink()
    with pytest.raises(EngineError, match="_SUCCESS"):
        staged.commit()
    staged.discard()
    assert list(tmp_path.iterdir()) == []


class Interrupted:
    """The file system of a release, in which somebody interrupts the n-th renaming, or kills Spark.

    What was asked of it is done before that, as where its answer was still on the way.
    """

    def __init__(self, files: Any, at: int, error: type[BaseException]) -> None:
        self._files, self._at, self._error, self._times = files, at, error, 0

    def __getattr__(self, name: str) -> Any:
        if self._error is OSError and self._times == self._at:
            raise OSError
        return getattr(self._files, name)

    def rename(self, *names: Any) -> Any:
        done = self._files.rename(*names)
        self._times += 1
        if self._times == self._at:
            raise self._error
        return done


@pytest.mark.parametrize(
    ("at", "error", "which"),
    [
        (1, KeyboardInterrupt, "earlier"),
        (2, KeyboardInterrupt, "later"),
        (2, OSError, "later"),
    ],
)
def test_a_folder_that_was_interrupted_while_it_got_its_name_has_its_certificate(
    at: int,
    error: type[BaseException],
    which: str,
    spark: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    output, asked = tmp_path / "out", {"qi": ["age"], "k": 2}
    frames = [spark.createDataFrame([(20,), (30,)] * n, "age int") for n in (2, 3)]
    sf.anonymize(frames[0], output=output, **asked)
    plan = sf.anonymize(frames[1], **asked)
    made = spark_engine._Target.__init__

    def begun(target: Any, *given: Any) -> None:
        made(target, *given)
        target._files = Interrupted(target._files, at, error)

    monkeypatch.setattr(spark_engine._Target, "__init__", begun)
    with pytest.raises((error, EngineError)):
        plan.write(output, force=True)
    assert pq.read_table(output).num_rows == {"earlier": 4, "later": 6}[which]
    assert sf.verify(output).holds
    left = {one.name for one in tmp_path.iterdir()} - {"out", "out.certificate.json"}
    assert all(".partial-" in name for name in left)
    assert not left or error is OSError


def test_a_failed_release_leaves_nothing(people: SQLEngine, tmp_path: Path) -> None:
    match = people.values("age").take(np.array([0]))
    step = Step(match, {"age": Cells(np.zeros(1, np.int64), pa.array(["*"]))})
    with pytest.raises(EngineError, match="match no entry"):
        people.stage(Recoding((step,)), str(tmp_path / "out"))
    with pytest.raises(BudgetError):
        people.stage(Recoding(), str(tmp_path / "out"), budget=Budget(seconds=0))
    assert list(tmp_path.iterdir()) == []


def test_rows_come_in_pieces_that_a_driver_can_hold(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfumato.engines.sql_engine._PIECE", 1_000)
    monkeypatch.setattr("sfumato.engines.spark._PACKED_BYTES", 400)
    frame = spark.range(0, 500, 1, 1).selectExpr("id", "CAST(id % 7 AS STRING) AS day")
    engine, pieces = SQLEngine(Spark(frame)), list[int]()
    stream = _Session.stream
    monkeypatch.setattr(
        _Session, "stream", lambda *asked: (pieces.append(asked[-1]), stream(*asked))[1]
    )
    assert engine.row_count() == 500
    assert engine.text_bytes(["day"]) == {"day": 1}
    batches = list(engine.batches())
    assert pieces == [9]  # of 17 bytes a row
    assert max(batch.num_rows for batch in batches) < 40
    cells = pa.Table.from_batches(batches).sort_by("id")
    assert cells["id"].to_pylist() == list(range(500))
    assert cells["day"].to_pylist() == [str(at % 7) for at in range(500)]


def test_few_long_texts_stand_beside_rows_that_are_cut(spark: Any) -> None:
    frame = spark.range(8).selectExpr("id", "repeat(CAST(id AS STRING), 2048) AS text")
    engine = SQLEngine(Spark(frame))
    assert engine.most_cuts(["id", "text"]) == 128
    assert engine.most_cuts(["id"]) is None


def test_a_spent_budget_stops_the_jobs(spark: Any) -> None:
    engine = SQLEngine(Spark(spark.range(10**11).selectExpr("id % 7 AS id")))
    engine.schema()
    with pytest.raises(BudgetError, match="counting classes was stopped"):
        engine.class_sizes(["id"], Budget(seconds=1))
    engine.close()


def test_errors_about_data_do_not_quote_it(spark: Any) -> None:
    frame = spark.sql("SELECT CAST(code AS int) AS code FROM VALUES ('top-secret') AS t(code)")
    engine = SQLEngine(Spark(frame, name="codes"))
    with pytest.raises(EngineError, match="codes: Spark could not answer") as caught:
        engine.values("code")
    assert "top-secret" not in str(caught.value)
    engine.close()


def test_views_are_temporary(people: SQLEngine, spark: Any) -> None:
    before = {row.tableName for row in spark.sql("SHOW TABLES").collect()}
    people.class_sizes(["age"])
    people.close()
    assert {row.tableName for row in spark.sql("SHOW TABLES").collect()} <= before


def test_a_verb_that_was_given_a_frame_leaves_no_view(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = spark.range(60).selectExpr("id % 3 AS a", "id % 4 AS b")
    before = {row.tableName for row in spark.sql("SHOW TABLES").collect()}
    sf.minimum_key(frame)
    sf.anonymize(frame, qi=["a"], k=2, rows_are_people=True, output=tmp_path / "made")

    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(_Session, "execute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sf.minimum_key(frame)
    gc.collect()
    assert {row.tableName for row in spark.sql("SHOW TABLES").collect()} <= before


@pytest.mark.parametrize("told", [PySparkException("cancelled"), UnboundLocalError("sockfile")])
def test_an_interruption_is_told_as_one(
    people: SQLEngine, monkeypatch: pytest.MonkeyPatch, told: Exception
) -> None:
    """Ctrl-C has Spark stop all jobs, and what is waited for then fails in ways of its own."""
    people.schema()

    def disguised(*_: Any, **__: Any) -> Any:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise told from None

    monkeypatch.setattr(DataFrame, "toArrow", disguised)
    with pytest.raises(KeyboardInterrupt):
        people.class_sizes(["age"])


def test_a_lost_session(people: SQLEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    people.schema()

    def refuse(*_: Any, **__: Any) -> Any:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(people.connection.spark, "sql", refuse)
    with pytest.raises(EngineError, match="connection to Spark was lost"):
        people.class_sizes(["age"])


def test_executors_without_pyarrow_are_named(people: SQLEngine) -> None:
    def lacking(_: Iterator[Any]) -> Iterator[Any]:  # what pyspark does first on such an executor
        raise ModuleNotFoundError("No module named 'pyarrow'")

    connection: Any = people.connection
    rows = connection.spark.range(1).mapInArrow(lacking, "id bigint")
    found = pytest.raises(EngineError, match="pyarrow is not installed on Spark's executors")
    with found as error, connection.guarded():
        rows.collect()
    assert "PYSPARK_PYTHON" in str(error.value.remedy)


def test_whoever_has_only_the_files_of_a_release_verifies_them(spark: Any, tmp_path: Path) -> None:
    """Sums of Spark's hashes cannot be made elsewhere, and say nothing against the table."""
    rows = [(age, sex) for age in range(20, 40) for sex in ("F", "M")]
    frame = spark.createDataFrame(rows, "age int, sex string")
    place = tmp_path / "released.parquet"
    sf.anonymize(frame, k=4, qi=["age", "sex"], output=place)
    told = sf.verify(place)
    assert told.holds, told.findings
    assert "the table is the one that was released" in [one.say for one in told.findings]

    certificate = certificate_path(place)
    record = json.loads(certificate.read_text())
    del record["output"]["files"], record["digest"]  # as of a folder that only Spark sees
    Certificate(record).write(certificate)
    (unknown,) = [one for one in sf.verify(place).findings if one.check == "fingerprint"]
    assert not unknown.broken
    assert "was not checked: the certificate has the fingerprint of rows in Spark" in unknown.say


def test_other_files_than_those_released_are_noticed(spark: Any, tmp_path: Path) -> None:
    frame = spark.createDataFrame([(age,) for age in range(40)], "age int")
    place = tmp_path / "released.parquet"
    sf.anonymize(frame, k=4, qi=["age"], output=place)
    (file, *_) = sorted(place.glob("*.parquet"))
    rows = pq.read_table(file)
    pq.write_table(pa.concat_tables([rows, rows]), file)
    (found,) = [one for one in sf.verify(place).findings if one.check == "fingerprint"]
    assert found.broken
