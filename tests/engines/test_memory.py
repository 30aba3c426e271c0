"""What is the memory engine's own: codes kept and not copied, recodings, limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samples import sample_path
from sfumato import budget as limits
from sfumato.budget import Budget
from sfumato.engines.memory import MemoryEngine
from sfumato.engines.protocol import BATCH_ROWS, Codes
from sfumato.engines.recoding import Cells, Recoding, Step
from sfumato.errors import BudgetError, EngineError
from sfumato.tables import source
from sfumato.tables.columnar import ArrowSource, ParquetSource


class Counted(ArrowSource):
    """A source that remembers which columns were read, and may not know its rows."""

    def __init__(self, table: pa.Table, knows_rows: bool = True) -> None:
        super().__init__(table, "people")
        self.read: list[list[str]] = []
        self.knows_rows = knows_rows

    def row_count(self) -> int | None:  # type: ignore[override]
        return super().row_count() if self.knows_rows else None

    def batches(
        self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        self.read.append(list(columns or ()))
        return super().batches(columns, rows)


PEOPLE = pa.table(
    {
        "age": [30, 20, 30, None, 20, 20],
        "sex": ["F", "M", "F", "F", "M", None],
        "zip": ["a", "b", "c", "d", "e", "f"],
    }
)


def engine_of(table: pa.Table, **options: int) -> MemoryEngine:
    return MemoryEngine(ArrowSource(table, "people"), **options)


def test_columns_are_read_once_and_only_when_asked_for():
    source = Counted(PEOPLE)
    engine = MemoryEngine(source)
    assert engine.row_count() == 6
    assert engine.class_sizes([]).to_dict() == {6: 1}
    assert source.read == []
    engine.class_sizes(["age"])
    engine.classes(["age", "sex"])
    engine.codes(["sex", "age"])
    assert source.read == [["age"], ["sex"]]


def test_codes_are_not_copied():
    engine = engine_of(PEOPLE)
    first, second = engine.codes(["age"]), engine.codes(["sex", "age"])
    assert first.arrays[0] is second.arrays[1]
    assert first.counts is None


def test_rows_are_counted_where_the_source_does_not_know():
    assert MemoryEngine(Counted(PEOPLE, knows_rows=False)).row_count() == 6
    nothing = pa.table({"age": pa.array([], pa.int64())})
    assert MemoryEngine(Counted(nothing, knows_rows=False)).row_count() == 0


def test_histograms_are_remembered_whatever_the_order_of_columns():
    engine = engine_of(PEOPLE)
    assert engine.class_sizes(["age", "sex"]) is engine.class_sizes(["sex", "age"])


@given(st.lists(st.tuples(st.integers(0, 2), st.none() | st.sampled_from("ab")), max_size=30))
@settings(max_examples=40)
def test_classes_against_a_dictionary(rows):
    table = pa.table(
        {"n": pa.array([n for n, _ in rows], pa.int8()), "t": pa.array([t for _, t in rows])},
        schema=pa.schema([("n", pa.int8()), ("t", pa.string())]),
    )
    classes = engine_of(table).classes(["n", "t"])
    assert classes.counts is not None
    found = {
        tuple(v[c].as_py() for v, c in zip(classes.values, codes, strict=True)): count
        for *codes, count in zip(
            *(array.tolist() for array in classes.arrays), classes.counts.tolist(), strict=True
        )
    }
    assert found == Counter(rows)
    combinations = list(zip(*(array.tolist() for array in classes.arrays), strict=True))
    assert combinations == sorted(combinations)


def test_too_many_classes():
    with pytest.raises(EngineError, match="more than 5 classes"):
        engine_of(PEOPLE).classes(["zip"], limit=5)


def test_samples_are_rows_in_order_and_depend_on_the_seed_alone():
    table = pa.table({"n": np.arange(1000), "square": np.arange(1000) ** 2})
    one, two = engine_of(table).sample(50, seed=7), engine_of(table).sample(50, seed=7)
    assert one.equals(two)
    assert not one.equals(engine_of(table).sample(50, seed=8))
    numbers = one["n"].to_numpy()
    assert len(set(numbers.tolist())) == 50
    assert (np.diff(numbers) > 0).all()
    assert (one["square"].to_numpy() == numbers**2).all()
    assert engine_of(table).sample(5000).equals(table)


def test_every_row_is_as_likely_to_be_sampled():
    engine = engine_of(pa.table({"n": np.arange(20)}))
    hits = np.zeros(20)
    for seed in range(2000):
        hits[engine.sample(5, seed=seed)["n"].to_numpy()] += 1
    # 500 expected hits each, standard deviation 19: six of them either way.
    assert (abs(hits - 500) < 116).all()


def test_memory_and_time_limits():
    with pytest.raises(BudgetError, match="more memory"):
        engine_of(PEOPLE, memory=10).codes(["age", "sex"])
    with pytest.raises(BudgetError, match="time"):
        engine_of(PEOPLE).codes(["age"], Budget(seconds=0))


def ages(engine: MemoryEngine) -> Step:
    match = engine.classes(["age"])
    labels = pa.array(["[20, 30)", "[30, 40)", "*"])
    return Step(match, {"age": Cells(np.array([0, 1, 2], np.uint8), labels)})


def test_a_recoding_changes_cells_and_leaves_the_rest(tmp_path):
    engine = engine_of(PEOPLE)
    staged = engine.stage(Recoding((ages(engine),), drop=("sex",)), str(tmp_path / "out.parquet"))
    read = staged.engine()
    assert read.kind == "memory"
    assert pa.Table.from_batches(read.batches()).to_pydict() == {
        "age": ["[30, 40)", "[20, 30)", "[30, 40)", "*", "[20, 30)", "[20, 30)"],
        "zip": ["a", "b", "c", "d", "e", "f"],
    }
    staged.discard()
    assert list(tmp_path.iterdir()) == []


def test_suppressed_rows_and_new_columns(tmp_path):
    engine = engine_of(PEOPLE)
    match = engine.classes(["sex"])  # F, M, null
    step = Step(
        match,
        {"known": Cells(np.array([1, 1, 0], np.uint8), pa.array([False, True]))},
        keep=np.array([True, False, True]),
    )
    staged = engine.stage(Recoding((step,)), str(tmp_path / "out.csv"))
    rows = pa.Table.from_batches(staged.engine().batches()).to_pydict()
    assert rows["zip"] == ["a", "c", "d", "f"]
    assert rows["known"] == [True, True, True, False]


def test_ordinal_ranges_across_batches(tmp_path):
    # Rows with age 20 get labels in turn: the first 100,000, then the rest.
    rows = 300_000
    table = pa.table({"age": np.where(np.arange(rows) % 2, 20, 30), "n": np.arange(rows)})
    engine = engine_of(table)
    match = Codes(("age",), (np.array([1, 0, 0], np.uint8),), engine.codes(["age"]).values)
    step = Step(
        match,
        {"age": Cells(np.array([0, 1, 2], np.uint8), pa.array(["thirty", "early", "late"]))},
        first=np.array([0, 0, 100_000]),
        last=np.array([rows, 100_000, rows]),
    )
    staged = engine.stage(Recoding((step,)), str(tmp_path / "out.parquet"))
    out = pa.Table.from_batches(staged.engine().batches()).to_pydict()
    expected = ["thirty" if n % 2 == 0 else "early" if n < 200_000 else "late" for n in out["n"]]
    assert out["n"] == list(range(rows))
    assert out["age"] == expected


def test_matches_with_values_in_another_order_and_other_values(tmp_path):
    # A recoding made elsewhere: its own values, some unknown here, -0.0 for 0.0, and NaN.
    table = pa.table({"x": [0.0, float("nan"), None, 2.5]})
    values = pa.array([-0.0, 2.5, 9.0, float("nan"), None])
    match = Codes(("x",), (np.array([4, 3, 2, 1, 0], np.uint8),), (values,))
    labels = pa.array(["null", "nan", "nine", "two and a half", "zero"])
    step = Step(match, {"x": Cells(np.arange(5, dtype=np.uint8), labels)})
    staged = engine_of(table).stage(Recoding((step,)), str(tmp_path / "out.arrow"))
    out = pa.Table.from_batches(staged.engine().batches())
    assert out["x"].to_pylist() == ["zero", "nan", "null", "two and a half"]


def test_a_row_without_entry_is_an_error_and_nothing_is_left(tmp_path):
    engine = engine_of(PEOPLE)
    match = engine.classes(["age"]).take(np.array([0, 1]))
    step = Step(match, {"age": Cells(np.array([0, 0], np.uint8), pa.array(["x"]))})
    with pytest.raises(EngineError, match="match no entry"):
        engine.stage(Recoding((step,)), str(tmp_path / "out.csv"))
    assert list(tmp_path.iterdir()) == []


def test_writing_stops_when_time_is_up(tmp_path):
    engine = engine_of(PEOPLE)
    step = ages(engine)
    with pytest.raises(BudgetError, match="writing stopped"):
        engine.stage(Recoding((step,)), str(tmp_path / "out.csv"), budget=Budget(seconds=0))
    assert list(tmp_path.iterdir()) == []


def test_all_columns_dropped_but_a_new_one(tmp_path):
    engine = engine_of(PEOPLE)
    step = Step(
        engine.classes(["age"]), {"made": Cells(np.array([0, 1, 0], np.uint8), pa.array([7, 8]))}
    )
    recoding = Recoding((step,), drop=("age", "sex", "zip"))
    staged = engine.stage(recoding, str(tmp_path / "out.parquet"))
    assert pa.Table.from_batches(staged.engine().batches()).to_pydict() == {
        "made": [8, 7, 8, 7, 7, 7]
    }


def test_known_figures_of_adult():
    table = pq.read_table(sample_path("adult.parquet"))
    engine = engine_of(table)
    assert engine.class_sizes(["age", "hours-per-week"]).unique_rows == 986
    assert engine.class_sizes(["age", "race", "sex"]).unique_rows == 65
    every = engine.class_sizes(table.column_names)
    assert every.rows - every.classes == 24


def test_classes_counted_here_need_no_lookup(tmp_path: Path) -> None:
    """A step over the engine's own classes writes what the same step over a copy of them does."""
    table = pa.table({"sex": ["F", "M", "F", None], "age": [1, 2, 1, 2], "pay": [1, 2, 3, 4]})
    engine = MemoryEngine(ArrowSource(table, "people"))
    own = engine.classes(["sex", "age"])
    written = []
    for name, match in (("own", own), ("copy", own.take(np.arange(own.entries)))):
        cells = {"age": Cells(np.arange(own.entries), pa.array(["a", "b", "c"]))}
        keep = np.array([True, True, False])
        staged = engine.stage(Recoding((Step(match, cells, keep),)), str(tmp_path / f"{name}.csv"))
        staged.commit()
        written.append((tmp_path / f"{name}.csv").read_text())
    assert written[0] == written[1]
    assert written[0] == "sex,age,pay\nF,a,1\nM,b,2\nF,a,3\n"


def test_a_file_is_hashed_while_its_columns_are_read(tmp_path, monkeypatch):
    path = tmp_path / "people.parquet"
    pq.write_table(pa.table({"age": [20, 30] * 9, "sex": ["F", "M"] * 9}), path)
    monkeypatch.setattr(limits, "_WORTHWHILE", 1)
    hashed = []
    monkeypatch.setattr(source, "file_fingerprint", lambda *of: hashed.append(of) or "sha256:0")
    for threads, before in [(2, 1), (1, 0)]:
        engine = MemoryEngine(ParquetSource([path], "people"))
        engine.expect_fingerprint()
        engine.codes(["age", "sex"], Budget(threads=threads))
        assert len(hashed) == before  # one thread has nothing to do it beside of
        assert engine.fingerprint() == "sha256:0"
        assert hashed == [(path,)]
        hashed.clear()
