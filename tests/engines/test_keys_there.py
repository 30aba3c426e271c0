"""Keys found where the rows are: the same sets as from all combinations, and no rows travel."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import rich
from sqlglot import exp

import sfumato as sf
from sfumato.budget import Budget
from sfumato.cli.keys import view_violations
from sfumato.engines import numbering
from sfumato.engines.duckdb import _Session
from sfumato.engines.protocol import Engine
from sfumato.errors import BudgetError, EngineMemoryError
from sfumato.quasi import hitting_sets, lattice, minimal_keys, proof
from sfumato.tables import Table

Opener = Callable[[pa.Table], Engine]
CASES = [
    ("duckdb", False),
    ("duckdb", True),
    pytest.param("postgres", True, marks=pytest.mark.postgres),
    pytest.param("spark", True, marks=pytest.mark.spark),
]

KINDS = [
    "duckdb",
    pytest.param("postgres", marks=pytest.mark.postgres),
    pytest.param("spark", marks=pytest.mark.spark),
]


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every table is too large to be pulled over, and samples are too small to know all."""
    monkeypatch.setattr(proof, "ENOUGH_BYTES", 1)
    monkeypatch.setattr(proof, "SAMPLE_ROWS", 12)


def people(rows: int = 400, seed: int = 0, *, twice: bool = False) -> pa.Table:
    """A table with nulls, zeros of both signs, not-a-number and equal rows."""
    random = np.random.default_rng(seed)
    heights = random.choice([-0.0, 0.0, np.nan, 1.5, 2.5, 3.5], rows)
    table = pa.table(
        {
            "age": pa.array([None if a == 3 else int(a) for a in random.integers(0, 9, rows)]),
            "height": pa.array(heights),
            "smokes": pa.array([None if a == 2 else bool(a) for a in random.integers(0, 3, rows)]),
            "city": pa.array(random.choice(["a", "A", "", "ä", None], rows).tolist(), pa.string()),
            "day": pa.array(random.integers(0, 30, rows).astype("datetime64[D]")),
            "visit": pa.array(random.integers(0, 60, rows)),
        }
    )
    return pa.concat_tables([table, table.slice(0, 50)]) if twice else table


@pytest.mark.parametrize(("kind", "twice"), CASES, indirect=["kind"])
def test_keys_are_those_of_all_combinations(kind: str, opened: Opener, twice: bool) -> None:
    table = people(twice=twice)
    if kind == "spark":  # where a question takes longest
        table = table.drop_columns(["age", "smokes"])
    there = Table(opened(table))
    here = sf.table(table, engine="memory")
    asked = sf.minimal_keys(there)
    expected = sf.minimal_keys(here)
    assert asked.keys == expected.keys
    assert asked.complete
    assert asked.duplicate_rows == expected.duplicate_rows
    assert "were answered where the rows are" in asked.notes[-1]
    weights = {"visit": 3, "day": 2}
    proven = sf.minimum_key(there, proven=True, weights=weights)
    best = sf.minimum_key(here, proven=True, weights=weights)
    assert proven.weight == best.weight
    assert proven.proven_minimum
    assert proven.is_key == best.is_key
    assert proven.measures.classes == best.measures.classes  # type: ignore[union-attr]
    quick = sf.minimum_key(there)
    assert set(quick.columns) in [set(key) for key in expected.keys]


@pytest.mark.parametrize(
    "kind", ["duckdb", pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)
def test_violations_and_masks_are_those_of_all_combinations(kind: str, opened: Opener) -> None:
    table = people(twice=True)
    there, here = Table(opened(table)), sf.table(table, engine="memory")
    asked, expected = sf.violations(there, k=3), sf.violations(here, k=3)
    assert asked.minimal == expected.minimal
    assert asked.identifying == expected.identifying
    assert asked.smallest == expected.smallest
    levels = max(map(len, asked.minimal))
    assert "were answered where the rows are" in asked.notes[0]
    assert int(asked.notes[0].split()[0]) <= 2 * levels + 8 * len(table.column_names)
    for measure in ("distinct", "separation"):
        masked = sf.mask(there, measure=measure, beta=0.9, proven=True)
        assert masked.published == sf.mask(here, measure=measure, beta=0.9, proven=True).published


@pytest.mark.parametrize("kind", KINDS, indirect=True)
def test_hashes_say_no_more_than_keys(
    kind: str, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys that share a hash are compared, and rows that equal each other are looked past."""
    monkeypatch.setattr(proof, "CLASSES", 4)
    monkeypatch.setattr(proof, "CLASS_ROWS", 80)
    table = people(twice=True).drop_columns(["height", "smokes"])
    there, here = Table(opened(table)), sf.table(table, engine="memory")
    expected = sf.minimal_keys(here).keys
    assert sf.minimal_keys(there).keys == expected
    assert sf.minimum_key(there, proven=True).lower_bound == min(map(len, expected))
    dialect = type(there.engine.connection.rows().dialect)  # type: ignore[attr-defined]
    hashed = dialect.key_hash
    monkeypatch.setattr(dialect, "key_hash", lambda self, keys: exp.paren(hashed(self, keys)) % 7)
    again = Table(opened(table))
    assert sf.minimal_keys(again).keys == expected
    for measure in ("distinct", "separation"):
        masks = [
            sf.mask(one, measure=measure, beta=0.9, proven=True, rows_are_people=True)
            for one in (again, here)
        ]
        assert masks[0].details["weight"] == masks[1].details["weight"]


def asking(rows: pa.Table) -> proof.Collisions:
    asks = proof.Collisions(sf.table(rows, engine="duckdb"), Budget(), 0)
    asks.sample(proof.SAMPLE_ROWS, 0)
    return asks


@pytest.mark.parametrize("room", [8, 60, 50_000])
@pytest.mark.parametrize("twice", [True, False])
def test_what_answers_say_of_other_sets_is_true(
    monkeypatch: pytest.MonkeyPatch, room: int, twice: bool
) -> None:
    monkeypatch.setattr(proof, "CLASS_ROWS", room)
    monkeypatch.setattr(proof, "ENOUGH_PAIRS", 2)
    rows = people(150, seed=room, twice=twice)
    here = sf.table(rows, engine="memory")
    names = rows.column_names
    asks, random = asking(rows), np.random.default_rng(room)
    every = here.class_sizes(names)
    sets = [s for size in range(7) for s in itertools.combinations(range(6), size)]
    good = 0
    for at in random.permutation(len(sets)):
        demands = asks.demands(sets[at])
        sizes = here.class_sizes([names[c] for c in sets[at]])
        assert (len(demands) == 0) == (sizes == every)
        assert not demands[:, list(sets[at])].any()
        assert demands.any(axis=1).all()
        good += sizes == every
        if sizes == every:
            assert asks.class_sizes(sets[at]) == every
    assert good > 1
    assert room < 50_000 or twice or asks.jobs < 30 < len(sets)


def test_all_rows_that_share_a_hash_are_known_to_be_all() -> None:
    pairs = sf.table(pa.table({"a": np.arange(10) // 2, "b": np.arange(10)}), engine="duckdb")
    for limit in range(2, 14):
        found, every = pairs.engine.rows_alike(["a"], ["b"], limit)  # type: ignore[attr-defined]
        assert (found.entries, every) == (min(limit, 10), limit > 10)


def test_rows_that_agree_are_found_in_whatever_part_they_are() -> None:
    for twice in range(8):
        codes = np.arange(100)
        codes[50 + twice] = twice
        asks = asking(pa.table({"code": codes, "nth": np.arange(100)}))
        both = [asks.demands(one) for one in [(0,), (1,)]]
        assert [np.unique(one, axis=0).tolist() for one in both] == [[[False, True]], []]
        assert asks.class_sizes([1]).to_dict() == {1: 100}


def test_sets_are_asked_about_in_any_order() -> None:
    rows = pa.table({"a": np.arange(100), "b": np.arange(100) % 50, "c": np.arange(100) % 25})
    for one in ((1, 2), (2, 1)):
        assert np.unique(asking(rows).demands(one), axis=0).tolist() == [[True, False, False]]


def test_one_answer_settles_many_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a part that agree on a set come before all that agree on it."""
    monkeypatch.setattr(proof, "SAMPLE_ROWS", 1_000)
    random = np.random.default_rng(6)
    values = (91, 2, 5, 7, 17, 50, 9, 15, 400, 120, 1_000, 5_000)
    rows = pa.table({f"c{at}": random.integers(0, many, 40_000) for at, many in enumerate(values)})
    there = sf.table(rows, engine="duckdb")
    asked = []
    for way in ("rows_of_a_part", "rows_alike", "collisions"):
        ask = getattr(type(there.engine), way)

        def noted(self: Any, *given: Any, ask: Any = ask, way: str = way) -> Any:
            asked.append(way)
            return ask(self, *given)

        monkeypatch.setattr(type(there.engine), way, noted)
    here = sf.table(rows, engine="memory")
    assert sf.minimum_key(there, proven=True).weight == sf.minimum_key(here, proven=True).weight
    assert set(asked) == {"rows_of_a_part", "rows_alike"}
    assert len(asked) < 15
    asked.clear()
    expected = sf.minimal_keys(here).keys
    assert sf.minimal_keys(there).keys == expected
    assert len(asked) < 50 < len(expected)


def test_a_key_is_known_before_one_is_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(6)
    rows = pa.table({f"c{at}": random.integers(0, 4 + at, 2_000) for at in range(40)})
    steps: list[tuple[Any, str]] = [
        (proof._Search, "feasible_candidate"),
        (proof, "minimum_hitting_set"),
    ]
    for where, step in steps:
        budget, work = Budget(seconds=600), getattr(where, step)

        def ended(*given: Any, budget: Budget = budget, work: Any = work) -> Any:
            budget.end()
            return work(*given)

        with monkeypatch.context() as patch:
            patch.setattr(where, step, ended)
            found = sf.minimum_key(sf.table(rows, engine="duckdb"), proven=True, budget=budget)
        assert (found.is_key, found.proven_minimum, found.stopped_by) == (True, False, "time")
        assert len(found.columns) < 8


def test_rows_to_come_are_fewer_of_many_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "SAMPLE_BYTES", 1 << 27)
    wide = pa.table({f"c{at}": np.arange(40_000) for at in range(90)})
    asks = proof.Collisions(sf.table(wide, engine="duckdb"), Budget(), 0)
    assert asks.sample(50_000, 0).entries == asks.fitting(50_000) < 8_000


@pytest.mark.spark
def test_a_null_is_part_of_the_hash_of_keys(spark: Any) -> None:
    frame = spark.createDataFrame([(None, 1), (1, None), (1, 1)], "a int, b int")
    there = sf.table(frame)
    found, every = there.engine.rows_alike(["a", "b"], ["a"], 9)  # type: ignore[attr-defined]
    assert (found.entries, every) == (0, True)


def test_what_a_mask_tells_of_columns_left_out_is_true(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(3)
    table = pa.table({f"c{at}": random.integers(0, 2 + at % 9, 3_000) for at in range(14)})
    monkeypatch.setattr(proof, "SAMPLE_ROWS", 300)
    monkeypatch.setattr("sfumato.quasi.mask.SAMPLE_ROWS", 300)
    there, here = sf.table(table, engine="duckdb"), sf.table(table, engine="memory")
    asked: list[int] = []
    ask = type(there.engine).several_class_sizes
    monkeypatch.setattr(
        type(there.engine),
        "several_class_sizes",
        lambda self, sets, *a, **b: (asked.append(len(sets)), ask(self, sets, *a, **b))[1],
    )
    for measure, beta in (("distinct", 0.5), ("separation", 0.95)):
        asked.clear()
        told = sf.mask(there, measure=measure, beta=beta, rows_are_people=True).details
        assert getattr(sf.measure(here, told["published"]), measure) <= beta
        for name, violating in told["why"].items():
            assert name in violating
            assert set(violating) <= {name, *told["published"]}
            assert getattr(sf.measure(here, violating), measure) > beta
        expected = sf.mask(here, measure=measure, beta=beta, rows_are_people=True).details
        assert len(told["published"]) >= len(expected["published"]) - 1
        assert len(asked) <= 12


@pytest.mark.parametrize("room", [True, False], ids=["room", "no room for several sets"])
def test_statements_and_rows_are_counted(monkeypatch: pytest.MonkeyPatch, room: bool) -> None:
    there = sf.table(people(), engine="duckdb")
    sent: list[Any] = []
    execute = type(there.engine.connection.session()).execute  # type: ignore[attr-defined]

    def counted(session: Any, statement: Any, columns: Any) -> pa.Table:
        if not room and statement.find(exp.Union):
            raise EngineMemoryError("out of memory")
        answer = execute(session, statement, columns)
        sent.append(answer.num_rows)
        return answer

    monkeypatch.setattr("sfumato.engines.duckdb._Session.execute", counted)
    here = sf.table(people(), engine="memory")
    told = sf.minimum_key(there, proven=True).notes[-1]
    assert told.startswith(f"{len(sent):,} statements")
    assert f"; {sum(sent):,} rows came back" in told
    assert sum(sent) < 12 + 1000 * len(sent)
    sent.clear()
    asked = sf.minimal_keys(there)
    assert asked.keys == sf.minimal_keys(here).keys
    assert asked.notes[-1].startswith(f"{len(sent):,} statements")
    assert sf.violations(there, k=3).minimal == sf.violations(here, k=3).minimal


def test_too_many_sets_name_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lattice, "FEW_SETS", 8)
    there = sf.table(people(), engine="duckdb")
    found = sf.violations(there, k=2)
    assert (found.stopped_by, found.complete) == ("too many sets", False)
    (remedy, _) = found.notes
    assert "small ones (max_size=2)" in remedy
    assert "as many as there is time for (budget=Budget(seconds=600))" in remedy
    assert sf.violations(there, k=2, budget=Budget(seconds=600)).complete
    assert sf.violations(there, k=2, max_size=1).stopped_by is None
    rich.print(view_violations(found))
    assert "there are too many sets" in capsys.readouterr().out
    bits = {f"c{at}": np.arange(64) >> at & 1 for at in range(6)}
    monkeypatch.setattr(minimal_keys, "MOST_SETS", 0)
    assert "max_size=2" in sf.minimal_keys(pa.table(bits)).notes[0]


def test_small_tables_are_pulled_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "ENOUGH_BYTES", 1 << 30)
    there = sf.table(people(), engine="duckdb")
    assert sf.minimum_key(there).steps


def test_demands_end_where_memory_does(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(7)
    rows = pa.table({f"c{at}": random.integers(0, 6, 500) for at in range(30)})
    monkeypatch.setattr(hitting_sets, "_CELL_BYTES", 1 << 20)
    asks = proof.Collisions(sf.table(rows, engine="duckdb"), Budget(), 0)
    found, costs = {}, [1.0] * 30
    for prove in (False, True):
        found[prove] = proof.proven_there(asks, costs, prove=prove, budget=Budget(memory=256 << 20))
        assert sf.measure(rows.select(list(found[prove].columns))).separation == 1
    assert [one.stopped_by for one in found.values()] == [None, "memory"]
    assert len(found[True].columns) < 10
    assert not found[True].proven


@pytest.mark.parametrize("pulled", [False, True])
def test_when_time_is_over_the_best_set_that_is_known_is_told(
    monkeypatch: pytest.MonkeyPatch, pulled: bool
) -> None:
    """Whatever statement it ends in; what was found is then counted even so."""
    monkeypatch.setattr(proof, "ENOUGH_BYTES", 1 << 30 if pulled else 1)
    there = sf.table(people(), engine="duckdb")
    execute, told = _Session.execute, set()
    for last in (1, 2, 4, 7, 100):
        budget, answered = Budget(seconds=600), itertools.count(1)

        def ended(*given: Any, budget: Budget = budget, number: Any = answered, at: int = last):  # type: ignore[no-untyped-def]
            if next(number) == at:
                budget.end()
            return execute(*given)

        monkeypatch.setattr(_Session, "execute", ended)
        try:
            found = sf.minimum_key(there, proven=True, budget=budget)
        except BudgetError:
            assert pulled  # not even the rows were here
            continue
        assert found.is_key or (pulled and found.stopped_by)
        assert found.is_key == (found.measures.classes == people().num_rows)  # type: ignore[union-attr]
        told.add((found.stopped_by, found.proven_minimum))
    assert told >= {(None, True)}
    assert pulled or ("time", False) in told


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("postgres", marks=pytest.mark.postgres),
        pytest.param("spark", marks=pytest.mark.spark),
    ],
    indirect=True,
)
@pytest.mark.parametrize(("type_", "size"), [(pa.string(), 17), (pa.binary(), 9)])
def test_a_cell_that_could_not_be_sent_is_refused_early(
    kind: str, opened: Opener, type_: pa.DataType, size: int
) -> None:
    """Class sizes travel all the same."""
    notes = [*(f"note {at % 20}" for at in range(2_000)), "x" * (size << 20)]
    cells = pa.array(notes).cast(type_)
    there = Table(opened(pa.table({"age": np.arange(2_001) % 5, "note": cells})))
    budget = Budget(memory=256 << 20)
    told = f"a cell of `note` is {size} MiB long, which takes more than the 256 MiB allowed"
    asks: list[Callable[..., Any]] = [sf.scan, sf.minimum_key, sf.minimal_keys, sf.uniques]
    for ask in asks:
        with pytest.raises(EngineMemoryError, match=told) as caught:
            ask(there, budget=budget)
        assert "xxx" not in str(caught.value)
    with pytest.raises(EngineMemoryError, match=told):
        sf.minimum_key(there, eps=0.1, budget=budget)
    assert sf.violations(there, budget=budget).minimal == (("note",),)
    assert sf.measure(there, ["note"], budget=budget).classes == 21
    assert sf.minimum_key(there.select(["age"]), budget=budget).columns == ("age",)


def test_values_are_judged_by_those_that_occur_once_in_a_sample() -> None:
    random = np.random.default_rng(2)
    for many in (3, 1_000, 50_000):
        column = random.integers(0, many, 60_000)
        sampled = np.unique(random.choice(column, 3_000, replace=False), return_counts=True)[1]
        assert len(np.unique(column)) <= numbering._values_of(sampled, 60_000) <= max(6 * many, 300)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("postgres", marks=pytest.mark.postgres),
        pytest.param("spark", marks=pytest.mark.spark),
    ],
    indirect=True,
)
def test_rows_come_once_where_their_codes_fit(
    kind: str, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In place of one question after the other about hundreds of sets of columns."""
    random = np.random.default_rng(4)
    wide = pa.table({f"c{at}": random.integers(0, 3 + at % 7, 300) for at in range(40)})
    wide = wide.append_column("city", pa.array(random.choice(["a", "A", None], 300).tolist()))
    there, here = Table(opened(wide)), sf.table(wide, engine="memory")
    scarce = {"budget": Budget(memory=600_000)}  # combinations take 806,400
    read, batches = [], there.engine.batches
    monkeypatch.setattr(
        there.engine, "batches", lambda *asked: (read.append(asked), batches(*asked))[1]
    )
    found = sf.minimum_key(there, **scarce)
    assert found.columns == sf.minimum_key(here).columns
    assert found.notes[-1].startswith("300 rows were pulled over")
    assert len(read) == 1
    assert sf.minimal_keys(there, max_size=2, **scarce).keys == (
        sf.minimal_keys(here, max_size=2).keys
    )
    assert sf.violations(there, k=2, max_size=2, **scarce).minimal == (
        sf.violations(here, k=2, max_size=2).minimal
    )
    monkeypatch.setattr(proof, "PULLED_ROWS", 299)
    for columns, come in ((41, kind == "postgres"), (32, False)):
        few = there.select(there.columns[:columns])
        assert (proof.held_here(few, Budget(memory=600_000)) is not None) == come
