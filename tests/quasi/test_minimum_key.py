"""Smallest keys and quasi-identifiers: the papers' examples, brute force, guarantees."""

from __future__ import annotations

import itertools
import math
import signal
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from brute import as_table, classes, column_sets, small_tables, together
from samples import sample_path
from sfumato.errors import ParameterError, UnfinishedError
from sfumato.quasi import hitting_sets, sampling
from sfumato.quasi.greedy import Goal
from sfumato.quasi.proof import Proof, proven_minimum

PEOPLE = pa.table(
    {
        "age": [20, 30, 40, 20, 40],
        "sex": ["F", "F", "F", "M", "M"],
        "state": ["CA", "CA", "TX", "NY", "CA"],
    }
)


def positions(names: tuple[str, ...]) -> list[int]:
    return [ord(name) - ord("a") for name in names]


def cheapest(width, costs, reached):
    return min(sum(costs[c] for c in s) for s in column_sets(width) if reached(s))


def test_the_example_of_motwani_and_xu():
    found = sf.minimum_key(PEOPLE, proven=True)
    assert found.columns in (("age", "sex"), ("age", "state"))
    assert found.proven_minimum
    assert found.lower_bound == 2
    assert found.is_key
    assert found.duplicate_rows == 0


@given(small_tables(), st.integers(0, 3))
@settings(max_examples=150)
def test_proven_key_equals_brute_force(drawn, seed):
    rows, width = drawn
    costs = [1 + (seed * (c + 1)) % 3 for c in range(width)]
    all_columns = range(width)
    found = sf.minimum_key(
        as_table(rows, width), proven=True, weights=dict(zip("abcde", costs, strict=False))
    )
    best = cheapest(width, costs, lambda s: classes(rows, s) == classes(rows, all_columns))
    assert found.weight == best == found.lower_bound
    assert classes(rows, positions(found.columns)) == classes(rows, all_columns)
    assert found.duplicate_rows == len(rows) - classes(rows, all_columns)


@given(small_tables(min_rows=2), st.sampled_from(["distinct", "separation"]), st.integers(1, 19))
@settings(max_examples=150)
def test_proven_beta_set_equals_brute_force(drawn, measure, twentieths):
    rows, width = drawn
    beta = twentieths / 20
    n, pairs = len(rows), len(rows) * (len(rows) - 1) // 2

    def reached(columns):
        if measure == "distinct":
            return 20 * classes(rows, columns) >= twentieths * n
        return 20 * (pairs - together(rows, columns)) >= twentieths * pairs

    found = sf.minimum_key(as_table(rows, width), measure=measure, beta=beta, proven=True)
    if not reached(range(width)):
        assert not found.proven_minimum
        assert "do not reach" in found.notes[0]
        return
    assert found.weight == cheapest(width, [1] * width, reached) == found.lower_bound
    assert reached(positions(found.columns))


@given(small_tables(max_rows=30, max_columns=6))
@settings(max_examples=100)
def test_greedy_reaches_the_goal_within_its_bound_and_without_redundancy(drawn):
    rows, width = drawn
    found = sf.minimum_key(as_table(rows, width))
    chosen = positions(found.columns)
    everything = classes(rows, range(width))
    assert classes(rows, chosen) == everything
    for column in chosen:
        assert classes(rows, [c for c in chosen if c != column]) < everything
    least = cheapest(width, [1] * width, lambda s: classes(rows, s) == everything)
    assert found.size <= (1 + 2 * math.log(max(2, len(rows)))) * max(1, least)


GREEDY_LOSES = pa.table(
    {
        "a": [1, 1, 1, 0, 0, 1],
        "b": [1, 1, 2, 0, 0, 0],
        "c": [0, 1, 3, 0, 3, 3],
        "d": [1, 1, 0, 0, 2, 1],
    }
)


def test_a_proof_goes_on_where_greedy_takes_one_column_too_many():
    assert sf.minimum_key(GREEDY_LOSES).size == 3
    found = sf.minimum_key(GREEDY_LOSES, proven=True)
    assert (found.columns, found.proven_minimum, found.lower_bound) == (("c", "d"), True, 2)


def test_bounds_of_fractional_weights_are_not_rounded_up():
    table = pa.table(
        {
            "a": [1, 0, 0, 0, 1, 0, 0, 0, 1],
            "b": [2, 1, 1, 0, 2, 2, 2, 2, 0],
            "c": [0, 0, 1, 2, 2, 1, 2, 2, 2],
            "d": [0, 1, 1, 0, 0, 1, 0, 1, 1],
            "e": [1, 0, 2, 2, 1, 1, 0, 0, 1],
        }
    )
    weights = {"a": 0.3, "b": 0.5, "c": 0.4, "d": 0.6, "e": 0.6}
    assert sf.minimum_key(table, weights=weights).weight == pytest.approx(1.8)
    found = sf.minimum_key(table, weights=weights, proven=True)
    assert found.weight == pytest.approx(1.6)
    assert found.proven_minimum


def test_a_proof_does_not_end_one_column_short():
    """The first demands are met by two columns; only demands of a second round ask for three."""
    columns = {"a": "211010", "b": "112022", "c": "100020", "d": "020222", "e": "021211"}
    codes = sf.table(pa.table({name: list(cells) for name, cells in columns.items()})).codes()
    found = proven_minimum(codes, [1.0] * 5, Goal(pairs=0), range(5), all_separable=True)
    assert (found.columns, found.lower_bound, found.rounds) == ((0, 1, 2), 3, 2)
    assert found.proven


def test_a_proof_without_time_proves_nothing():
    codes = sf.table(PEOPLE).codes()
    asked = {"all_separable": True, "budget": sf.Budget(seconds=0)}
    found = proven_minimum(codes, [1.0] * 3, Goal(pairs=0), (0, 1), **asked)
    assert (found.columns, found.lower_bound, found.proven) == ((0, 1), 0, False)


def test_what_a_proof_did_not_reach_is_not_proven(monkeypatch):
    def stopped(codes, costs, goal, first, **_):
        return Proof(tuple(first), 2.0, 1.0, 1, 1, "time")

    monkeypatch.setattr("sfumato.quasi.key.proven_minimum", stopped)
    found = sf.minimum_key(PEOPLE, proven=True)
    assert (found.weight, found.lower_bound, found.proven_minimum) == (2, 1, False)


def test_steps_tell_how_many_pairs_are_left():
    found = sf.minimum_key(PEOPLE)
    assert [step["unseparated_pairs"] for step in found.steps] == [2, 0]


def test_a_spent_budget_gives_the_best_so_far():
    opened = sf.table(PEOPLE)
    opened.codes()
    found = sf.minimum_key(opened, proven=True, budget=sf.Budget(seconds=0))
    assert found.stopped_by == "time"
    assert not found.proven_minimum


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"eps": 0.0}, "ε"),
        ({"eps": 1.5}, "ε"),
        ({"eps": 0.1, "delta": 0}, "δ"),
        ({"beta": 0}, "β"),
        ({"beta": 1.1}, "β"),
        ({"eps": 0.1, "proven": True}, "proven"),
        ({"measure": "sepparation"}, "Did you mean `separation`"),
        ({"weights": {"age": -1}}, "weight of `age`"),
        ({"weights": {"agge": 1}}, "Did you mean `age`"),
        ({"sample": 10}, "ε"),
        ({"eps": 0.1, "measure": "distinct", "by": "pairs"}, "distinct"),
        ({"max_size": 0}, "max_size"),
    ],
)
def test_bad_parameters_are_refused(arguments, words):
    with pytest.raises(ParameterError, match=words):
        sf.minimum_key(PEOPLE, **arguments)


def test_a_sample_as_large_as_the_table_is_answered_exactly():
    found = sf.minimum_key(PEOPLE, eps=0.01)
    assert found.sample is None
    assert found.is_key
    assert "answered exactly" in found.notes[-1]


def big_table(seed: int = 0, rows: int = 5000, width: int = 8) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table({f"c{i}": random.integers(0, 3 + i, rows) for i in range(width)})


@pytest.mark.parametrize("by", ["rows", "pairs"])
def test_sampled_separation_keeps_its_promise(by):
    found = sf.minimum_key(big_table(), eps=0.01, by=by, columns=[f"c{i}" for i in range(6)])
    assert found.sample.unit == by or found.notes
    assert found.verified
    assert found.measures.separation >= 0.99


def test_equal_rows_in_a_sample_fall_back_to_pairs():
    table = pa.table({"a": [0] * 4000 + [1] * 4000, "b": [0, 1] * 4000})
    found = sf.minimum_key(table, eps=0.1)
    assert found.sample.unit == "pairs"
    assert set(found.columns) == {"a", "b"}
    assert "equal rows" in found.notes[0]


def test_sampled_beta_set():
    found = sf.minimum_key(big_table(rows=50_000), eps=0.1, beta=0.9)
    assert found.measures.separation >= 0.81
    assert found.sample.unit == "pairs"


def test_sampled_distinct():
    random = np.random.default_rng(1)
    rows = 40_000
    table = pa.table({"id": np.arange(rows), "x": random.integers(0, 50, rows)})
    found = sf.minimum_key(table, eps=0.5, measure="distinct")
    assert found.sample.unit == "rows"
    assert found.sample.size < rows
    assert found.columns == ("id",)
    assert found.measures.distinct >= 0.5


def test_equal_rows_in_a_distinct_sample_are_said():
    table = pa.table({"a": [i % 50 for i in range(5000)]})
    found = sf.minimum_key(table, eps=0.5, measure="distinct", sample=500)
    assert found.verified is False
    assert any("no set is a key" in note for note in found.notes)


def test_sample_sizes_printed_in_the_literature():
    assert [sampling.pairs_for_separation(m, 0.001, 0.01) for m in (14, 41, 54)] == [
        14_303,
        33_008,
        42_015,
    ]
    assert [sampling.rows_for_separation(m, 0.001, 0.01) for m in (14, 41, 54)] == [537, 1142, 1429]


def test_sample_sizes_are_those_of_the_theorems():
    # the smallest r with r(r - 1) >= 2 · 40,000 · (1 - ε)/ε · ln(2^14 / 0.01), Theorem 7
    assert [sampling.rows_for_distinct(40_000, 14, eps, 0.01) for eps in (0.5, 0.1)] == [1071, 3211]
    # 8/(0.9 · ε²) · ln(2^14 / 0.01)
    assert [sampling.pairs_for_beta(14, 0.9, eps, 0.01) for eps in (0.5, 0.1)] == [509, 12_720]
    # all sets of at most two columns of 14: 1 + 14 + 91
    assert sampling.log_sets(14, 2) == pytest.approx(math.log(106))


@given(st.integers(1, 30), st.integers(1, 30))
def test_a_size_cap_never_needs_a_larger_sample(width, cap):
    assert sampling.rows_for_separation(width, 0.01, 0.01, cap) <= sampling.rows_for_separation(
        width, 0.01, 0.01
    )


def adult() -> pa.Table:
    """Adult as in Motwani & Xu: training rows without `fnlwgt`, each different row once."""
    table = pq.read_table(sample_path("adult.parquet")).drop(["fnlwgt"])
    return table.group_by(table.column_names).aggregate([])


def test_adult_has_a_minimum_key_of_thirteen_columns():
    table = adult()
    assert (table.num_rows, table.num_columns) == (29_096, 14)
    assert sf.minimum_key(table).size == 13
    proven = sf.minimum_key(table, proven=True)
    assert (proven.size, proven.proven_minimum) == (13, True)


def test_covtype_has_a_minimum_key_of_five_columns():
    table = sf.table(sample_path("covtype.parquet"))
    table = table.select(table.columns[:54])
    assert sf.minimum_key(table).size == 5
    proven = sf.minimum_key(table, proven=True)
    assert (proven.size, proven.proven_minimum) == (5, True)


def one_big_class(rows: int, share: float, random: np.random.Generator) -> pa.Table:
    """One class of a given share, all other rows alone: the worst case for samples of rows."""
    big = int(rows * share)
    values = np.concatenate([np.zeros(big, int), np.arange(1, rows - big + 1)])
    return pa.table({"x": values, "id": random.permutation(rows)})


def equal_classes(rows: int, size: int, random: np.random.Generator) -> pa.Table:
    return pa.table({"x": np.arange(rows) // size, "id": random.permutation(rows)})


def test_a_distinct_sample_finds_pairs_of_equal_rows():
    """Two rows of every class: the worst case, a ratio of 0.5 where 0.6 is asked for."""
    random = np.random.default_rng(0)
    opened = sf.table(equal_classes(20_000, 2, random))
    asked = {"eps": 0.4, "delta": 0.1, "measure": "distinct", "weights": {"x": 1e-3}}
    found = [sf.minimum_key(opened, seed=seed, **asked) for seed in range(20)]
    assert all(key.columns == ("id",) for key in found)
    assert all(key.sample.promised == pytest.approx(0.6) for key in found)


@pytest.mark.parametrize("big", [0.745, 0.755])
def test_a_sampled_beta_set_is_not_one_whose_ratio_is_just_below(big):
    """One class of most rows: a ratio just below (1 - ε)·β = 0.45, for next to nothing."""
    opened = sf.table(one_big_class(400, big, np.random.default_rng(0)))
    assert 0.43 < sf.measure(opened, ["x"]).separation < 0.45
    asked = {"eps": 0.5, "delta": 0.3, "beta": 0.9, "weights": {"x": 1e-3}}
    found = [sf.minimum_key(opened, seed=seed, **asked) for seed in range(200)]
    assert {key.sample.size for key in found} == {93}
    assert all(key.verified for key in found)


def test_pairs_are_of_different_rows_and_of_all():
    left, right = sampling.pair_indices(3, 6000, np.random.default_rng(0))
    pairs = np.bincount(3 * left + right, minlength=9).reshape(3, 3)
    assert (pairs.diagonal() == 0).all()
    assert (pairs[~np.eye(3, dtype=bool)] > 900).all()


@pytest.mark.slow
@pytest.mark.parametrize("by", ["rows", "pairs"])
@pytest.mark.parametrize("shape", ["one big class", "equal classes", "mixed"])
def test_the_promise_fails_in_at_most_delta_of_a_thousand_seeds(by, shape, capsys):
    random = np.random.default_rng(0)
    eps, delta, rows = 0.01, 0.1, 20_000
    table = {
        "one big class": lambda: one_big_class(rows, 1.02 * math.sqrt(eps), random),
        "equal classes": lambda: equal_classes(rows, int(rows * eps * 1.1), random),
        "mixed": lambda: big_table(3, rows, 5),
    }[shape]()
    opened = sf.table(table)
    # The first column is nearly free, so that a bad set is taken whenever the sample allows it.
    weights = {opened.columns[0]: 1e-3}
    missed = sum(
        not sf.minimum_key(opened, eps=eps, delta=delta, by=by, seed=seed, weights=weights).verified
        for seed in range(1000)
    )
    with capsys.disabled():
        sys.stdout.write(f"\nseparation by {by}, {shape}: {missed} of 1,000 missed\n")
    assert missed <= delta * 1000


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["one big class", "pairs", "mixed"])
def test_the_distinct_promise_fails_in_at_most_delta_of_a_thousand_seeds(shape, capsys):
    random = np.random.default_rng(1)
    eps, delta, rows = 0.2, 0.1, 20_000
    table = {
        "one big class": lambda: one_big_class(rows, 1.02 * eps, random),
        "pairs": lambda: equal_classes(rows, 2, random),
        "mixed": lambda: big_table(3, rows, 5).append_column("id", pa.array(range(rows))),
    }[shape]()
    opened = sf.table(table)
    weights = {opened.columns[0]: 1e-3}
    asked = {"eps": eps, "delta": delta, "measure": "distinct", "weights": weights}
    # On tables without a key the promise is about no set: all columns must be distinct enough.
    assert sf.measure(opened).distinct >= 1 - eps
    missed = sum(not sf.minimum_key(opened, seed=seed, **asked).verified for seed in range(1000))
    with capsys.disabled():
        sys.stdout.write(f"\ndistinct, {shape}: {missed} of 1,000 missed\n")
    assert missed <= delta * 1000


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["one big class", "equal classes", "mixed"])
def test_the_beta_promise_fails_in_at_most_delta_of_a_thousand_seeds(shape, capsys):
    random = np.random.default_rng(2)
    eps, delta, beta, rows = 0.25, 0.1, 0.9, 20_000
    table = {
        "one big class": lambda: one_big_class(rows, math.sqrt(1 - (1 - eps) * beta), random),
        "equal classes": lambda: equal_classes(rows, int(rows * (1 - beta)), random),
        "mixed": lambda: big_table(3, rows, 5),
    }[shape]()
    opened = sf.table(table)
    weights = {opened.columns[0]: 1e-3}
    asked = {"eps": eps, "delta": delta, "beta": beta, "weights": weights}
    missed = sum(not sf.minimum_key(opened, seed=seed, **asked).verified for seed in range(1000))
    with capsys.disabled():
        sys.stdout.write(f"\nβ-separation, {shape}: {missed} of 1,000 missed\n")
    assert missed <= delta * 1000


def halves(rows: int = 4000) -> pa.Table:
    """Two columns with 1,144 combinations: a distinct ratio of 0.286."""
    person = [i % 1144 for i in range(rows)]
    return pa.table({"a": [p % 40 for p in person], "b": [p // 40 for p in person]})


@pytest.mark.parametrize(
    "asked",
    [
        {"measure": "distinct", "eps": 0.3},  # equal rows in the sample
        {"eps": 0.01, "max_size": 1, "columns": ["a"]},  # one column is not enough
        {"eps": 0.01, "by": "pairs", "max_size": 1, "columns": ["a"]},
        {"eps": 0.01, "beta": 0.999, "columns": ["a"]},  # not even all columns reach it
        {"eps": 0.3, "sample": 50},  # a size of one's own
    ],
)
def test_what_no_theorem_implies_is_not_promised(asked):
    found = sf.minimum_key(halves(), **asked)
    assert found.sample.promised is None
    assert any("nothing is promised" in n or "ratio is not promised" in n for n in found.notes)


def test_a_goal_that_all_rows_deny_is_not_met(tmp_path):
    from cli_tools import sfumato
    from sfumato.report.registry import page_of

    found = sf.minimum_key(halves(), measure="distinct", eps=0.3)
    assert found.goal == {"measure": "distinct", "at_least": 0.7, "met": False}
    assert "not 0.7" in page_of(found).verdict
    pq.write_table(halves(), tmp_path / "t.parquet")
    done = sfumato("key", tmp_path / "t.parquet", "--measure", "distinct", "--eps", 0.3)
    assert done.code == 1
    assert "with probability" not in done.out
    assert "0.286" in done.out
    unseen = sfumato(
        "key", tmp_path / "t.parquet", "--measure", "distinct", "--eps", 0.3, "--no-verify"
    )
    assert unseen.code == 0
    assert "with probability" not in unseen.out


def test_equal_pairs_leave_a_promise_about_what_columns_separate():
    # Half of all pairs are of equal rows: a set must still separate nearly all of the others.
    many = [0] * 700
    table = pa.table({"a": [*many, *(i % 17 for i in range(300))], "b": [*many, *range(300)]})
    found = sf.minimum_key(table, eps=0.01, by="pairs")
    assert found.sample.promised is None
    every = sf.measure(table).separation
    assert every - 0.01 <= found.measures.separation
    assert any("but 0.01 of all pairs" in note for note in found.notes)


def test_sets_are_compared_alike_by_numpy_and_by_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(5)
    sets, smaller = random.random((50, 12)) < 0.5, random.random((40, 12)) < 0.4
    expected = [any((one <= other).all() for one in smaller) for other in sets]
    assert 0 < sum(expected) < len(expected)
    for pairs in (0, 1 << 22):
        monkeypatch.setattr(hitting_sets, "_FEW_PAIRS", pairs)
        assert hitting_sets._contains_any(sets, smaller).tolist() == expected


def test_two_columns_are_proven_without_counting_demands() -> None:
    random = np.random.default_rng(6)
    columns = {f"c{at}": random.integers(0, 2_000, 2_000) for at in range(120)}
    found = sf.minimum_key(pa.table(columns), proven=True, budget=sf.Budget(memory=256 << 20))
    assert found.size == 2
    assert found.proven_minimum
    alone = sf.minimum_key(pa.table({**columns, "row": np.arange(2_000)}), proven=True)
    assert (alone.columns, alone.proven_minimum) == (("row",), True)
    dear = sf.minimum_key(
        pa.table({**columns, "row": np.arange(2_000)}), proven=True, weights={"row": 3}
    )
    assert (dear.size, dear.proven_minimum, dear.lower_bound) == (2, True, 2)


def test_demands_end_where_memory_does(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(7)
    rows = pa.table({f"c{at}": random.integers(0, 6, 1_000) for at in range(60)})
    monkeypatch.setattr(hitting_sets, "_CELL_BYTES", 1 << 20)
    found = sf.minimum_key(rows, proven=True, budget=sf.Budget(memory=256 << 20))
    assert found.is_key
    assert not found.proven_minimum
    assert (found.stopped_by, found.lower_bound) == ("memory", 2)


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """A solver that hears nothing; the processes that ran it."""
    started: list[subprocess.Popen[bytes]] = []

    class Noted(subprocess.Popen[bytes]):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Noted)
    monkeypatch.setattr(hitting_sets, "_STEPS", 0)
    monkeypatch.setattr(hitting_sets, "_SOLVES", "import time; time.sleep(60)")
    monkeypatch.setattr(hitting_sets, "_GRACE", 0.0)
    return started


def family_of_two() -> hitting_sets.SetFamily:
    family = hitting_sets.SetFamily(3)
    family.add(np.array([[True, True, False], [False, True, True]]))
    return family


@pytest.mark.parametrize("stop", ["cancel", "end"])
def test_a_solver_that_hears_nothing_is_ended(
    endless: list[subprocess.Popen[bytes]], stop: str
) -> None:
    """A program that ends while it runs would be crashed by it."""
    budget = sf.Budget()
    threading.Timer(0.2, getattr(budget, stop)).start()
    found = hitting_sets.minimum_hitting_set(family_of_two(), [1, 1, 1], budget)
    assert (found.columns, found.lower_bound, found.optimal) == ((1,), 0.0, False)
    assert [one.poll() is None for one in endless] == [False]
    assert budget.stopped_by is None, "the caller says so"
    assert "solver" not in " ".join(one.name for one in threading.enumerate())


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers on Windows")
def test_signals_are_heard_while_a_solver_works(endless: list[subprocess.Popen[bytes]]) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupted)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            hitting_sets.minimum_hitting_set(family_of_two(), [1, 1, 1])
        assert [one.poll() is None for one in endless] == [False]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_few_columns_are_looked_through_without_a_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    """And all sets that cost as little are told, whatever columns cost."""
    monkeypatch.setattr(hitting_sets, "_solved", lambda *_: 1 // 0)
    random = np.random.default_rng(3)
    for whole in (True, False) * 30:
        width = int(random.integers(2, 8))
        family = hitting_sets.SetFamily(width)
        family.add(random.random((12, width)) < random.uniform(0.2, 0.7))
        costs = np.ones(width) if whole else random.integers(1, 4, width).astype(float)
        hits = {
            columns: costs[list(columns)].sum()
            for size in range(width + 1)
            for columns in itertools.combinations(range(width), size)
            if family.hit_by(columns)
        }
        found = hitting_sets.minimum_hitting_set(family, costs.tolist())
        cheapest = {columns for columns, cost in hits.items() if cost == min(hits.values())}
        assert (found.cost, found.optimal) == (min(hits.values()), True)
        told = {found.columns, *found.others}
        assert told == cheapest or len(told) == 1  # the greedy one, which nothing undercuts
        assert told <= cheapest


def test_little_time_leaves_few_steps() -> None:
    random = np.random.default_rng(5)
    family = hitting_sets.SetFamily(40)
    family.add(random.random((20_000, 40)) < 0.8)
    assert hitting_sets._steps(family, sf.Budget()) == hitting_sets._STEPS
    few = [hitting_sets._steps(family, sf.Budget(seconds=one)) for one in (0, 0.1, 1)]
    assert few[0] == 0 < few[1] < few[2] < hitting_sets._STEPS


def test_a_solver_out_of_time_gets_twice_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    solving, limits = hitting_sets._solved, []

    def late(sets: Any, price: Any, seconds: float, budget: sf.Budget) -> Any:
        limits.append(seconds)
        return (1, None, 0.5) if len(limits) < 3 else solving(sets, price, seconds, budget)

    monkeypatch.setattr(hitting_sets, "_STEPS", 0)
    monkeypatch.setattr(hitting_sets, "_solved", late)
    found = hitting_sets.minimum_hitting_set(family_of_two(), [1, 1, 1])
    assert (found.columns, found.lower_bound, found.optimal) == ((1,), 1.0, True)
    assert limits == [60.0, 120.0, 240.0]
    monkeypatch.setattr(hitting_sets, "_SOLVES", "1 / 0")
    with pytest.raises(UnfinishedError, match=r"early .ZeroDivisionError: division"):
        hitting_sets.minimum_hitting_set(family_of_two(), [1, 1, 1])
