"""All minimal keys and quasi-identifiers: every method against brute force and each other."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from brute import as_table, classes, column_sets, small_tables, together
from samples import sample_path
from sfumato.errors import ParameterError
from sfumato.quasi import hitting_sets
from sfumato.quasi import minimal_keys as searching
from sfumato.quasi.hitting_sets import SetFamily, in_words
from sfumato.quasi.lattice import all_subsets
from sfumato.quasi.minimal_keys import minimal_hitting_sets
from sfumato.quasi.sampling import prune_below

EXACT = ("depth-first", "levelwise", "pruned", "iterative", "hitting-set", "agree-sets", "auto")


def minimal(width, good):
    """Minimal good sets by looking at every set."""
    found: list[tuple[int, ...]] = []
    for columns in column_sets(width):
        if not any(set(small) <= set(columns) for small in found) and good(columns):
            found.append(columns)
    return set(found)


def as_positions(keys):
    return {tuple(sorted(ord(name) - ord("a") for name in key)) for key in keys}


def test_the_example_of_motwani_and_xu():
    people = pa.table(
        {
            "age": [20, 30, 40, 20, 40],
            "sex": ["F", "F", "F", "M", "M"],
            "state": ["CA", "CA", "TX", "NY", "CA"],
        }
    )
    assert sf.minimal_keys(people).keys == (("age", "sex"), ("age", "state"))


def test_the_example_of_yuan():
    rows = ["x1x6x", "xx27x", "x3x8x", "xx4x9", "5xxx0"]
    table = pa.table({name: [row[c] for row in rows] for c, name in enumerate("abcde")})
    keys = {frozenset(key) for key in sf.minimal_keys(table, expand=True).keys}
    assert keys == {frozenset(pair) for pair in ("ad", "bc", "be", "cd", "de")}


@pytest.mark.parametrize("method", EXACT)
@given(drawn=small_tables())
@settings(max_examples=60)
def test_minimal_keys_equal_brute_force(method, drawn):
    rows, width = drawn
    found = sf.minimal_keys(as_table(rows, width), method=method, expand=True)
    once = sf.minimal_keys(as_table(rows, width), method=method)
    assert once.represents == found.represents == len(found.keys)
    everything = classes(rows, range(width))
    assert as_positions(found.keys) == minimal(width, lambda s: classes(rows, s) == everything)
    assert found.complete
    assert found.duplicate_rows == len(rows) - everything


@pytest.mark.parametrize("method", ["depth-first", "levelwise", "agree-sets", "auto"])
@given(
    drawn=small_tables(min_rows=2),
    measure=st.sampled_from(["distinct", "separation"]),
    tenths=st.integers(1, 9),
)
@settings(max_examples=60)
def test_minimal_beta_sets_equal_brute_force(method, drawn, measure, tenths):
    rows, width = drawn
    pairs = len(rows) * (len(rows) - 1) // 2

    def good(columns):
        if measure == "distinct":
            return 10 * classes(rows, columns) >= tenths * len(rows)
        return 10 * (pairs - together(rows, columns)) >= tenths * pairs

    found = sf.minimal_keys(
        as_table(rows, width), measure=measure, beta=tenths / 10, method=method, expand=True
    )
    assert as_positions(found.keys) == minimal(width, good)


@pytest.mark.parametrize("measure", ["distinct", "separation"])
@pytest.mark.parametrize("method", [name for name in EXACT if name != "hitting-set"])
@pytest.mark.parametrize("rows", [[], [(1, 2)]])
def test_without_pairs_of_rows_no_column_is_needed(measure, method, rows):
    found = sf.minimal_keys(as_table(rows, 2), measure=measure, beta=0.5, method=method)
    assert found.keys == ((),)


@given(small_tables(), st.integers(1, 4))
@settings(max_examples=60)
def test_a_size_cap_leaves_out_larger_sets(drawn, cap):
    rows, width = drawn
    table = as_table(rows, width)
    whole = sf.minimal_keys(table, expand=True)
    for method in EXACT:
        capped = sf.minimal_keys(table, expand=True, max_size=cap, method=method)
        assert set(capped.keys) == {key for key in whole.keys if len(key) <= cap}, method


@given(small_tables(max_rows=20, max_columns=6))
@settings(max_examples=60)
def test_the_table_of_all_subsets_equals_counting_each(drawn):
    rows, width = drawn
    opened = sf.table(as_table(rows, width))
    for codes in (opened.codes(), opened.classes()):
        every = all_subsets(codes, sf.Budget())
        for mask, (pairs, count) in enumerate(every.tolist()):
            columns = [c for c in range(width) if mask >> c & 1]
            assert count == classes(rows, columns)
            assert pairs == together(rows, columns)


@given(st.lists(st.sets(st.integers(0, 6), min_size=1), max_size=12))
def test_minimal_hitting_sets_equal_brute_force(edges):
    matrix = np.zeros((len(edges), 7), dtype=bool)
    for row, edge in zip(matrix, edges, strict=True):
        row[list(edge)] = True
    found, stopped = minimal_hitting_sets(matrix)
    assert stopped is None
    assert len(found) == len(set(found))
    assert set(found) == minimal(7, lambda s: all(set(s) & edge for edge in edges))


@pytest.mark.parametrize("columns", [9, 70])
def test_sets_are_found_alike_as_python_and_compiled_without_numba(columns):
    random = np.random.default_rng(columns)
    edges = in_words(np.ascontiguousarray(random.random((100, columns)).T < 0.3))
    for most, size, steps in ((1 << 20, columns, 2_000), (3, columns, 2_000), (1 << 20, 4, 2_000)):
        given = (edges, edges.shape[1], most, size, steps)
        whole, found = hitting_sets.hitting_sets.translated(*given)
        expected = hitting_sets.hitting_sets.plain(*given)
        assert bool(whole) is expected[0]
        assert found.tolist() == expected[1].tolist()


def test_sets_of_many_columns_are_found_where_room_was_made_for_few():
    few = np.random.default_rng(3).random((12, 7)) < 0.4
    few = few[few.any(axis=1)]
    alone = np.eye(47, dtype=bool)[7:]
    both = np.concatenate([alone, np.pad(few, ((0, 0), (0, 40)))])
    wanted = [(*one, *range(7, 47)) for one in minimal_hitting_sets(few)[0]]
    assert minimal_hitting_sets(both) == (wanted, None)


def test_an_enumeration_that_time_ends_tells_some_keys(monkeypatch):
    random = np.random.default_rng(3)
    opened = sf.table(pa.table({f"c{i}": random.integers(0, 2 + i % 4, 500) for i in range(14)}))
    every = sf.minimal_keys(opened, method="hitting-set")
    assert every.complete
    patient = sf.minimal_keys(opened, method="hitting-set", budget=sf.Budget(seconds=600))
    assert (patient.keys, patient.stopped_by) == (every.keys, None)
    halves = itertools.count()  # half of the time that is left is over whenever somebody asks
    monkeypatch.setattr(sf.Budget, "remaining", property(lambda _: 2.0 ** -next(halves)))
    monkeypatch.setattr(searching, "FIRST_STEPS", 300)
    some = sf.minimal_keys(opened, method="hitting-set", budget=sf.Budget(seconds=600))
    assert (some.complete, some.stopped_by) == (False, "time")
    assert 0 < len(some.keys) < len(every.keys)
    assert {*some.keys} < {*every.keys}


@given(st.lists(st.sets(st.integers(0, 69), min_size=1, max_size=4), max_size=12), st.booleans())
@settings(max_examples=30)
def test_of_demands_those_stay_that_contain_no_other(demands, compiled):
    matrix = np.zeros((len(demands), 70), dtype=bool)
    for row, demand in zip(matrix, demands, strict=True):
        row[list(demand)] = True
    family = SetFamily(70)
    with pytest.MonkeyPatch.context() as patch:
        if compiled:
            patch.setattr(hitting_sets, "_FEW_PAIRS", 0)
        for part in (matrix[::2], matrix[1::2]):
            family.add(part)
    kept = [frozenset(np.flatnonzero(row).tolist()) for row in family.matrix]
    wanted = {frozenset(one) for one in demands if not any(other < one for other in demands)}
    assert (len(kept), {*kept}) == (len(wanted), wanted)


def test_columns_that_say_the_same_are_named_once():
    table = pa.table({"a": [1, 1, 2, 2], "b": ["x", "x", "y", "y"], "c": [1, 2, 1, 2]})
    found = sf.minimal_keys(table)
    assert found.keys == (("a", "c"),)
    assert found.equivalents == {"a": ("b",)}
    assert sf.minimal_keys(table, expand=True).keys == (("a", "c"), ("b", "c"))


def test_a_spent_budget_gives_a_partial_answer_that_says_so():
    opened = sf.table(pa.table({f"c{i}": np.arange(50) % (i + 2) for i in range(8)}))
    opened.codes()
    found = sf.minimal_keys(opened, method="levelwise", budget=sf.Budget(seconds=0))
    assert not found.complete
    assert found.stopped_by == "time"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"method": "hiting-set"}, "Did you mean `hitting-set`"),
        ({"measure": "distinct"}, "needs a ratio"),
        ({"measure": "distinct", "beta": 0.5, "method": "hitting-set"}, "not β-sets"),
        ({"measure": "distinct", "beta": 2}, "β"),
    ],
)
def test_bad_parameters_are_refused(arguments, words):
    with pytest.raises(ParameterError, match=words):
        sf.minimal_keys(pa.table({"a": [1, 2]}), **arguments)


@pytest.mark.parametrize("method", ["depth-first", "agree-sets"])
def test_more_columns_than_a_method_can_take(method):
    table = pa.table({f"c{i}": [0, i % 2, i % 3] for i in range(2, 80)})
    table = pa.table({f"c{i}": np.random.default_rng(i).integers(0, 3, 40) for i in range(70)})
    with pytest.raises(ParameterError, match="at most"):
        sf.minimal_keys(table, method=method)


def test_a_sample_too_small_to_prune_is_said():
    found = sf.minimal_keys(
        pa.table({"a": [1, 2, 3, 4], "b": [1, 1, 2, 2]}),
        measure="separation",
        beta=0.5,
        method="pruned",
    )
    assert "too small" in found.notes[-1]
    assert found.delta is None


def adult() -> pa.Table:
    table = pq.read_table(sample_path("adult.parquet")).drop(["fnlwgt"])
    return table.group_by(table.column_names).aggregate([])


def test_adult_facts():
    """Counts that brute force over all 16,384 column sets confirms."""
    table = sf.table(adult())
    assert len(sf.minimal_keys(table, expand=True).keys) == 2
    for measure, beta, expected in (
        ("separation", 0.999, 262),
        ("separation", 1 - 1e-5, 102),
        ("distinct", 0.9, 102),
    ):
        found = sf.minimal_keys(table, measure=measure, beta=beta, expand=True)
        assert len(found.keys) == expected
        assert found.complete


def test_sampled_pruning_agrees_on_adult():
    table = sf.table(adult()).exclude(["education-num", "capital-loss", "relationship"])
    exact = sf.minimal_keys(table, measure="separation", beta=0.999)
    for method in ("pruned", "iterative"):
        found = sf.minimal_keys(table, measure="separation", beta=0.999, method=method)
        assert found.keys == exact.keys


@pytest.mark.parametrize("measure", ["distinct", "separation"])
@pytest.mark.parametrize("method", ["pruned", "iterative"])
def test_a_set_whose_ratio_is_just_beta_is_not_pruned_by_any_sample(method, measure):
    """Half of the rows alike, all others alone: every second sample has a ratio below β."""
    telling = np.concatenate([np.zeros(1500, int), np.arange(1, 1501)])
    table = pa.table({"wide": np.arange(3000) % 2, "telling": telling, "one": [0] * 3000})
    beta = getattr(sf.measure(table, ["telling"]), measure) - 1e-4
    opened = sf.table(table)
    asked = {"measure": measure, "beta": beta, "method": method}
    if method == "iterative":
        asked["samples"] = [600, 1200]
    for seed in range(20):
        found = sf.minimal_keys(opened, **asked, seed=seed)
        assert ("telling",) in found.keys
        assert found.delta is not None


def test_samples_of_the_iterative_search_share_delta_and_half_their_rows_are_pairs(monkeypatch):
    asked = []

    def watched(beta, size, columns, delta, max_size=None):
        asked.append((size, delta))
        return prune_below(beta, size, columns, delta, max_size)

    monkeypatch.setattr(searching, "prune_below", watched)
    table = pa.table({"a": np.arange(2000) % 40, "b": np.arange(2000) // 50})
    for measure, sizes in (("separation", (200, 500)), ("distinct", (400, 1000))):
        asked.clear()
        ask = {"measure": measure, "beta": 0.5, "method": "iterative", "samples": [400, 1000]}
        sf.minimal_keys(table, **ask, delta=0.02)
        assert asked == [(size, 0.01) for size in sizes]


def test_the_border_of_one_sample_is_where_the_next_begins():
    from sfumato.quasi.lattice import levelwise

    keys = [{0, 1}, {1, 2, 3}]
    asked = []

    def good(columns):
        asked.append(columns)
        return any(key <= set(columns) for key in keys)

    border = ((0,), (1, 2))  # sizes differ, and (0, 1) is reached before (0, 1, 2)
    found = levelwise(4, good, None, sf.Budget(), border=border)
    assert found.sets == ((0, 1), (1, 2, 3))
    assert found.complete
    assert all(0 in columns or {1, 2} <= set(columns) for columns in asked)
    assert len(asked) == len(set(asked))
    assert not levelwise(4, good, 2, sf.Budget(), border=border).complete


@pytest.mark.parametrize("samples", [[10], [0.02, 0.2], [10, 100, 400], [1.0]])
def test_samples_change_where_the_search_begins_and_not_what_it_finds(samples):
    table = sf.table(adult()).exclude(["education-num", "capital-loss", "relationship", "race"])
    exact = sf.minimal_keys(table)
    found = sf.minimal_keys(table, method="iterative", samples=samples)
    assert found.keys == exact.keys
    assert any("where the search began" in note for note in found.notes)


@pytest.mark.parametrize("samples", [[], [0], [-5]])
def test_sizes_of_samples_are_checked(samples):
    with pytest.raises(ParameterError, match="positive"):
        sf.minimal_keys(adult(), method="iterative", samples=samples)
    with pytest.raises(ParameterError, match="iterative"):
        sf.minimal_keys(adult(), samples=[0.1])


def test_a_size_limit_that_leaves_out_all_columns_only_leaves_out_no_set() -> None:
    table = pa.table({"a": [0, 0, 1, 1], "b": [0, 1, 0, 1], "c": [0, 0, 0, 1]})
    found = sf.minimal_keys(table, max_size=2)
    assert found.keys == (("a", "b"),)
    assert found.complete
    assert not sf.minimal_keys(table, max_size=1).complete
    broken = sf.violations(table, k=2, max_size=2)
    assert broken.minimal
    assert broken.complete
