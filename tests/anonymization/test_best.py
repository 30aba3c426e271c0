"""The best-quality method: against the exhaustive optimum, under a budget, part by part."""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numba
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.anonymization.methods import annealing, best, iterated, lattice, moves, pricing
from sfumato.anonymization.methods.best import solve
from sfumato.anonymization.methods.iterated import Iteration
from sfumato.anonymization.methods.moves import Ground, Search
from sfumato.anonymization.methods.pricing import (
    END,
    _look_near,
    begin,
    group_loss,
    grow_all,
    nearest_entries,
    prices_of,
)
from sfumato.anonymization.preparing import prepare
from sfumato.anonymization.problem import allowed_blocks, positions_of
from sfumato.anonymization.request import Request
from sfumato.budget import Budget, Clock
from sfumato.errors import ParameterError
from sfumato.privacy.rules import groups_hold, holds, recounted
from tree_partitions import TREES, optimum, small_table

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks import iterated as yardstick  # noqa: E402


@pytest.mark.parametrize("out", [0, 2])
@pytest.mark.parametrize("tables", [4, pytest.param(12, marks=pytest.mark.slow)])
def test_small_tables_come_close_to_the_optimum(tables, out, monkeypatch):
    if out:
        monkeypatch.setattr(best, "RUNS", 2)
    random = np.random.default_rng(7)
    gaps, starts = [], []
    for _ in range(tables):
        k = int(random.integers(2, 4))
        table = small_table(random, int(random.integers(2 * k, 10)))
        asked = {"qi": list(TREES), "k": k, "method": "best", "hierarchies": TREES}
        release = sf.anonymize(table, suppression_limit=out / table.num_rows, **asked)
        least = optimum(table, k, out=out)
        assert release.suppressed_rows <= out
        assert release.utility["ncp"] >= least - 1e-12
        assert release.k >= k
        gaps.append(release.utility["ncp"] - least)
        starts.append(release.details["loss_before"] - least)
    assert np.mean(gaps) <= 0.5 * np.mean(starts)
    assert np.mean(gaps) < 0.01
    for loop in (annealing._anneal, lattice._descend):
        assert loop._settled in (None, loop._without_numba)  # which takes a tenth of the time


@given(seed=st.integers(0, 10**6), k=st.integers(2, 6))
@settings(max_examples=6)
def test_parts_and_seeds_change_no_promise(seed, k):
    random = np.random.default_rng(seed)
    table = small_table(random, 60).append_column("age", pa.array(random.integers(18, 60, 60)))
    asked = {"qi": ["job", "town", "age"], "k": k, "method": "best", "hierarchies": TREES}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(annealing, "PART", 20)
        release = sf.anonymize(table, seed=seed, **asked)
    assert release.k >= k
    assert release.utility["ncp"] == pytest.approx(release.details["loss_after"])
    assert release.details["loss_after"] <= release.details["loss_before"] + 1e-12


@given(seed=st.integers(0, 10**6), rows=st.integers(2, 80), wish=st.integers(1, 12))
@settings(max_examples=12)
def test_nearest_entries_lose_least_together(seed, rows, wish):
    random = np.random.default_rng(seed)
    table = small_table(random, rows).append_column("age", pa.array(random.integers(18, 60, rows)))
    asked = demand(2, "age")
    problem = prepare(opened := sf.table(table), asked.opened(opened), Budget())
    prices, positions = prices_of(problem, "certainty"), positions_of(problem)
    many = len(positions)
    cut = int(random.integers(0, many + 1))
    order, starts = random.permutation(many), np.array([0, cut, many])
    near, compiled = np.zeros((2, many, wish), dtype=np.int32)
    with pytest.MonkeyPatch.context() as patch:
        for loop, found in (("instead", near), ("translated", compiled)):
            patch.setattr(pricing, "_look_near", getattr(_look_near, loop))
            nearest_entries(positions, order, starts, prices, found, Budget())
    assert near.tolist() == compiled.tolist()

    memory = np.zeros((1, prices.head[-1, END]), dtype=np.int64)
    wide = positions.astype(np.int64)
    for district in np.split(order, [cut]):
        for entry in district:
            lost = {}
            for other in set(district) - {entry}:
                begin.plain(prices.head, prices.ints, memory, 0, wide, entry)
                grow_all.plain(prices.head, prices.ints, memory, 0, wide, other)
                lost[int(other)] = group_loss.plain(prices.head, prices.floats, memory, 0)
            found = [int(other) for other in near[entry] if other >= 0]
            assert len(found) == len(set(found)) == min(wish, len(lost))
            least = sorted(lost.values())[: len(found)]
            np.testing.assert_allclose([lost[other] for other in found], least, atol=1e-8)


def test_neighbours_are_looked_for_as_long_as_there_is_time(monkeypatch):
    problem, _ = iterated_problem(crowd(np.random.default_rng(3), 300), 3)
    positions, prices = positions_of(problem), prices_of(problem)
    many = len(positions)
    given = (positions, np.arange(many), np.array([0, many]), prices)
    whole, pieces, none = np.zeros((3, many, 5), dtype=np.int32)
    nearest_entries(*given, whole, Budget())
    monkeypatch.setattr(pricing, "CHUNK", 7)
    nearest_entries(*given, pieces, Budget(seconds=1e9))
    nearest_entries(*given, none, Budget(seconds=0))
    assert (whole >= 0).all()
    assert pieces.tolist() == whole.tolist()
    assert (none == -1).all()


@given(seed=st.integers(0, 10**6), rows=st.integers(6, 40))
@settings(max_examples=12)
def test_leftovers_join_the_group_that_they_hurt_least(seed, rows):
    random = np.random.default_rng(seed)
    table = small_table(random, rows).append_column("age", pa.array(random.integers(18, 60, rows)))
    asked = demand(1, "age")
    problem = prepare(opened := sf.table(table), asked.opened(opened), Budget())
    prices, positions = prices_of(problem), positions_of(problem).astype(np.int64)
    groups = random.integers(-3, 3, len(positions)).clip(-1)
    groups[0] = 0
    found = lattice.placed(problem, allowed_blocks(problem), groups)

    def lost(members):
        memory = np.zeros((1, prices.head[-1, END]), dtype=np.int64)
        begin.plain(prices.head, prices.ints, memory, 0, positions, members[0])
        for member in members[1:]:
            grow_all.plain(prices.head, prices.ints, memory, 0, positions, member)
        return problem.counts[members].sum() * group_loss.plain(
            prices.head, prices.floats, memory, 0
        )

    now = {g: list(np.flatnonzero(groups == g)) for g in np.unique(groups[groups >= 0])}
    for entry in np.flatnonzero(groups < 0):
        hurt = {g: lost([*members, entry]) - lost(members) for g, members in now.items()}
        assert hurt[found[entry]] <= min(hurt.values()) + 1e-9
        now[found[entry]].append(entry)


@pytest.mark.parametrize(("seed", "k"), [(9, 6), (325, 4)])
def test_a_class_passes_on_no_rows_that_it_needs(seed, k):
    """Combinations that many rows have move as a whole, and may leave too few behind."""
    random = np.random.default_rng(seed)
    many = random.integers(30, 120)
    random.integers(3, 7)
    columns = {
        name: np.minimum(random.geometric(p, many), 6) for name, p in (("a", 0.35), ("b", 0.4))
    }
    assert sf.anonymize(pa.table(columns), qi=["a", "b"], k=k, method="best", seed=seed).k >= k


def test_a_seed_repeats_a_release():
    table = small_table(np.random.default_rng(3), 200)
    asked = {"qi": ["job", "town"], "k": 7, "method": "best", "hierarchies": TREES, "seed": 5}
    first, second = (sf.anonymize(table, **asked) for _ in range(2))
    names = ["job", "town"]
    tables = [pa.Table.from_batches(list(r.table.batches(names))) for r in (first, second)]
    assert tables[0].equals(tables[1])


def test_large_groups_are_gathered_class_by_class():
    table = crowd(np.random.default_rng(9), 700)
    asked = {"qi": table.column_names[:3], "k": 40, "method": "best", "hierarchies": TREES}
    release = sf.anonymize(table, infer_hierarchies=False, exact_ends=True, **asked)
    assert release.k >= 40
    assert release.utility["ncp"] == pytest.approx(release.details["loss_after"])
    assert release.details["loss_after"] < 0.98 * release.details["loss_before"]


@pytest.mark.parametrize("asked", [{"l": 4}, {"t": 0.15}, {"person": "who"}])
def test_large_groups_keep_every_rule(asked):
    table = crowd(np.random.default_rng(4), 400)
    table = table.append_column("row", pa.array(np.arange(400) * 0.5))  # rows may be sorted
    owner = dict(zip(table["row"].to_pylist(), table["who"].to_pylist(), strict=True))
    sensitive = {} if "person" in asked else {"sensitive": ["illness"]}
    names = table.column_names[:3]
    demanded = {"qi": names, "k": 30, "method": "best", "hierarchies": TREES}
    release = sf.anonymize(table, infer_hierarchies=False, **demanded, **sensitive, **asked)
    assert release.details["loss_after"] < release.details["loss_before"]
    frame = pa.Table.from_batches(list(release.table.batches(release.table.columns))).to_pandas()
    whole = frame["illness"].value_counts(normalize=True)
    for _, rows in frame.groupby(names):
        shares = rows["illness"].value_counts(normalize=True)
        assert len(rows) >= 30
        assert len(shares) >= asked.get("l", 1)
        assert whole.sub(shares, fill_value=0.0).abs().sum() / 2 <= asked.get("t", 1.0) + 1e-9
        if "person" in asked:
            assert len({owner[row] for row in rows["row"]}) >= 30


@pytest.mark.parametrize(("k", "many"), [(20, 70), (30, 40), (30, 70)])
def test_rows_of_a_large_class_that_fails_another_rule_than_k_stay_where_they_are(k, many):
    problem, blocks = iterated_problem(crowd(np.random.default_rng(4), 400), k, t=0.1)
    search = Search(problem, blocks, np.zeros(len(blocks.order), np.int64))
    part = annealing._Part(search, blocks, 0, brief=False)
    now, _ = part._state(opened=False)
    template = len(now.classes)
    now.memories[template] = now.memories[0]
    moves.begin_step.plain(now)
    founded = moves.open_class.plain(part.world, now, template)
    illness = part.world.sensitive[part.entry, 0]
    for piece in np.argsort(illness, kind="stable")[:many]:
        moves.move.plain(part.world, now, piece, founded)
    counts = np.zeros(int(problem.rules.offsets[-1]), np.int64)
    repaired = annealing._repair.plain(part.world, now, part.rules, counts, np.inf)
    given_up = k > annealing.FEW and many > moves.LARGE
    assert repaired is not given_up
    assert now.count[moves.MOVES] == (many if given_up else 2 * many)


@pytest.mark.parametrize("asked", [{"l": 4}, {"t": 0.15}])
def test_tallies_are_what_counting_again_would_find(asked, monkeypatch):
    table = crowd(np.random.default_rng(11), 200)
    names = table.column_names[:3]
    asked = {"k": 8, "method": "best", "sensitive": ["illness"], **asked}
    demand = Request.of({"qi": names, "hierarchies": TREES, "identifiers": ["who"], **asked})
    opened = sf.table(table)
    problem = prepare(opened, demand.opened(opened), Budget())
    tallied = solve(problem)
    monkeypatch.setattr(annealing, "TALLIED", 0)
    counted = solve(problem)
    assert (tallied.groups == counted.groups).all()
    assert tallied.details["loss_after"] < tallied.details["loss_before"]


def test_more_rounds_lose_no_more_and_repeat():
    table = crowd(np.random.default_rng(11), 300)
    asked = {"qi": table.column_names[:3], "k": 8, "method": "best", "hierarchies": TREES}
    one, two, again = (sf.anonymize(table, rounds=r, **asked) for r in (1, 2, 2))
    assert [r.details["rounds"] for r in (one, two, again)] == [1, 2, 2]
    assert two.utility["ncp"] <= one.utility["ncp"]
    assert two.utility["ncp"] == again.utility["ncp"]
    assert sf.anonymize(table, rounds=0, **asked).details["rounds"] == 0
    for wrong in (-1, 0.5):
        with pytest.raises(ParameterError, match="rounds"):
            sf.anonymize(table, rounds=wrong, **asked)


def test_a_search_uses_the_time_it_is_given(monkeypatch):
    """The clock goes on by a second whenever it is asked."""
    table = crowd(np.random.default_rng(12), 200)
    asked = Request.of(
        {"qi": table.column_names[:3], "k": 5, "method": "best", "hierarchies": TREES}
    )
    ticks = itertools.count()
    monkeypatch.setattr(Clock, "now", classmethod(lambda cls: float(next(ticks))))
    budget = Budget(seconds=1_500)  # walks ask some hundred times
    found = solve(prepare(opened := sf.table(table), asked.opened(opened), budget))
    assert found.stopped_by == "time"
    assert found.details["rounds"] > 1
    assert "finished" not in found.details


@pytest.mark.parametrize(
    ("seconds", "pace", "passes"),
    [
        (None, 0.0, annealing.PASSES),
        (100.0, 0.0, annealing.PASSES),
        (0.5, 0.0, 1),  # which shows the pace
        (100.0, 0.01, 2 * annealing.PASSES),
        (1.0, 0.09, 11),  # all that is left
        (1.0, 9.0, 1),
    ],
)
def test_a_search_that_may_not_be_finished_is_brief_first(monkeypatch, seconds, pace, passes):
    monkeypatch.setattr(Clock, "now", classmethod(lambda cls: 0.0))
    problem = SimpleNamespace(budget=Budget(seconds=seconds))
    search = SimpleNamespace(problem=problem, entry=np.zeros(1_000))
    assert best._passes(search, 1 if pace else 0, pace) == passes


@pytest.mark.parametrize(
    ("rows", "k", "why"),
    [
        (["nurse", "cook"] * 3, 3, "nothing is lost"),
        (["nurse", "cook"] * 2 + ["judge"], 3, "there are too few rows for two classes"),
        (["nurse"] * 3 + ["cook"] * 2 + ["judge"] * 4, 2, "nothing is lost"),
        (["nurse"] * 4 + ["cook"] + ["judge"] * 3, 2, "no recoding with these trees loses less"),
    ],
)
def test_a_search_ends_early_only_where_nothing_is_left(rows, k, why):
    trees = {"job": TREES["job"]}
    asked = Request.of({"qi": ["job"], "k": k, "method": "best", "hierarchies": trees})
    opened = sf.table(pa.table({"job": rows}))
    found = solve(prepare(opened, asked.opened(opened), Budget(seconds=20)))
    assert (found.details["finished"], found.stopped_by) == (why, None)


def test_no_proof_is_looked_for_as_long_as_rounds_gain(monkeypatch):
    problem, blocks = iterated_problem(crowd(np.random.default_rng(5), 60), 4, seconds=1e6)
    starts = best._starts(problem, blocks, "certainty")
    least = min(loss for loss, _ in starts.values()) * best._cells(problem)
    losses, proofs = iter([0.9 * least, 0.8 * least, 0.8 * least]), []
    monkeypatch.setattr(best, "_best_of", lambda begun, *_: (0, begun[0], next(losses)))
    monkeypatch.setattr(best, "_least_loss", lambda *_: proofs.append(1) or 0.8 * least)
    found = best._improved(problem, blocks, starts)
    assert found.details["finished"] == "no recoding with these trees loses less"
    assert (found.details["rounds"], len(proofs)) == (3, 1)


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
@pytest.mark.parametrize("rules", [{}, {"t": 0.4, "suppression_limit": 1.0}])
def test_under_a_time_limit_only_time_tells_what_the_order_of_rows_might(
    rules, engine, monkeypatch
):
    """Where a clock ticks alike, rows in another order get the same groups."""
    table, found = crowd(np.random.default_rng(5), 300), []
    orders = np.arange(300), np.random.default_rng(6).permutation(300), np.arange(300)[::-1]
    for order in orders:
        ticks = itertools.count()
        monkeypatch.setattr(Clock, "now", classmethod(lambda cls, ticks=ticks: 1e-4 * next(ticks)))
        problem, _ = iterated_problem(table.take(order), 4, engine=engine, **rules)
        problem = replace(problem, budget=Budget(seconds=0.1, threads=1))
        solution = solve(problem)
        assert solution.stopped_by == "time"
        found.append((solution.details["loss_after"], solution.groups.tolist()))
    assert found[0] == found[1] == found[2]


def test_what_is_compiled_for_several_columns_serves_one():
    starts, rows = np.arange(4) * 5, np.arange(15)
    found = [annealing._lookup(np.zeros((4, n), int), starts[: n + 1], rows) for n in (1, 2, 3)]
    assert len({numba.typeof(one) for one in found}) == 1


def test_where_no_column_matters_nothing_that_matters_is_lost():
    table = pa.table({"job": ["nurse", "cook", "judge", "cook", "nurse"]})
    asked = {"qi": ["job"], "k": 2, "method": "best", "weights": {"job": 0}}
    release = sf.anonymize(table, **asked)
    assert release.k >= 2
    assert release.details["finished"] == "nothing is lost of what matters"


def test_a_start_that_is_proven_optimal_is_not_searched_from():
    """Every row finds company in its job or in its town, and nobody finds it for less."""
    table = pa.table({"job": ["nurse", "cook"] * 2, "town": list("aabb")})
    asked = {"qi": ["job", "town"], "k": 2, "method": "best", "hierarchies": TREES}
    release = sf.anonymize(table, **asked)
    assert release.details["finished"] == "no recoding with these trees loses less"
    assert release.details["rounds"] == 0
    assert release.utility["ncp"] == pytest.approx(optimum(table, 2))


def test_where_classes_are_few_the_best_of_several_searches_is_kept(monkeypatch):
    table = crowd(np.random.default_rng(14), 300)
    asked = {"qi": table.column_names[:3], "k": 30, "method": "best", "hierarchies": TREES}
    several = sf.anonymize(table, **asked).utility["ncp"]
    monkeypatch.setattr(best, "RUNS", 1)
    assert several < sf.anonymize(table, **asked).utility["ncp"]


@pytest.mark.parametrize("rules", [{}, {"l": 2}, {"t": 0.4}])
def test_rows_without_company_are_left_out_where_that_is_allowed_and_loses_less(rules):
    table = pa.table(
        {
            "job": ["nurse"] * 4 + ["cook"] * 4 + ["judge"],
            "town": ["a"] * 4 + ["b"] * 4 + ["e"],
            "illness": ["flu", "gout"] * 4 + ["flu"],
        }
    )
    told = {"sensitive": ["illness"], **rules} if rules else {"identifiers": ["illness"]}
    asked = {"qi": ["job", "town"], "k": 4, "method": "best", "hierarchies": TREES, **told}
    everybody = sf.anonymize(table, **asked)
    too_few = sf.anonymize(table, suppression_limit=0.1, **asked)
    assert (everybody.suppressed_rows, too_few.suppressed_rows) == (0, 0)
    allowed = sf.anonymize(table, suppression_limit=0.12, **asked)
    assert (allowed.suppressed_rows, allowed.details["left_out"]) == (1, 1)
    assert allowed.k >= 4
    assert allowed.utility["ncp"] == pytest.approx(allowed.details["loss_after"])
    assert allowed.utility["ncp"] == pytest.approx(1 / 9)  # the others lose nothing
    assert everybody.utility["ncp"] == pytest.approx(too_few.utility["ncp"])
    assert everybody.utility["ncp"] > 1 / 9


@given(seed=st.integers(0, 10**6), k=st.integers(2, 9))
@settings(max_examples=8)
def test_being_allowed_to_leave_rows_out_loses_no_more(seed, k):
    table = small_table(np.random.default_rng(seed), 30)
    asked = {"qi": ["job", "town"], "k": k, "method": "best", "hierarchies": TREES}
    everybody = sf.anonymize(table, **asked)
    allowed = sf.anonymize(table, suppression_limit=0.3, **asked)
    assert allowed.suppressed_rows <= 9
    assert allowed.k >= k
    assert allowed.utility["ncp"] <= everybody.utility["ncp"] + 1e-12
    assert allowed.utility["ncp"] == pytest.approx(allowed.details["loss_after"])


@pytest.mark.parametrize("part", [annealing.PART, 20])
@pytest.mark.parametrize("rules", [{}, {"t": 0.3}])
def test_as_many_rows_are_left_out_as_pay_and_may_be(rules, part, monkeypatch):
    """Two crowds lose nothing by themselves; everybody else is far from all others."""
    monkeypatch.setattr(annealing, "PART", part)
    monkeypatch.setattr(best, "RUNS", 1)
    far = [("nurse", "f"), ("cook", "e"), ("clerk", "a"), ("judge", "b"), ("clerk", "c")]
    rows = [("nurse", "a")] * 30 + [("judge", "f")] * 30 + far
    table = pa.table(dict(zip(("job", "town"), zip(*rows, strict=True), strict=True)))
    table = table.append_column("illness", pa.array((["flu", "gout"] * 33)[:65]))
    told = {"sensitive": ["illness"], **rules} if rules else {"identifiers": ["illness"]}
    asked = {"qi": ["job", "town"], "k": 25, "method": "best", "hierarchies": TREES, **told}
    for most in (0, 3, 5, 65):
        release = sf.anonymize(table, suppression_limit=most / 65, **asked)
        assert release.suppressed_rows <= min(most, 5)
        assert release.details.get("left_out", 0) == release.suppressed_rows
        assert release.utility["ncp"] == pytest.approx(release.details["loss_after"])
        assert {"lattice", "iterated", "coarse"} <= release.details["starts"].keys()  # k is large
    assert release.utility["ncp"] == pytest.approx(5 / 65)


@pytest.mark.parametrize(("seed", "kind"), [(2, "equal"), (7, "equal"), (11, "ordered")])
def test_what_is_left_out_does_not_count_in_what_classes_are_compared_with(seed, kind, monkeypatch):
    monkeypatch.setattr(best, "RUNS", 1)
    random = np.random.default_rng(seed)
    ages = np.minimum(random.geometric(0.12, 80), 30)
    table = small_table(random, 80).append_column("age", pa.array(ages))
    table = table.append_column("pay", pa.array(np.minimum(random.geometric(0.45, 80), 4)))
    asked = {"qi": [*TREES, "age"], "k": 8, "method": "best", "hierarchies": TREES, "seed": seed}
    told = {"sensitive": ["pay"], "t": 0.2, "t_distance": kind, "suppression_limit": 0.3}
    release = sf.anonymize(table, **asked, **told)  # measured again before it is handed out
    assert 0 < release.suppressed_rows == release.details["left_out"] <= 24
    assert release.findings[0].holds


def test_rows_may_be_left_out_where_sets_share_columns():
    """The stages of two sets keep all rows: what one left out would lack in the other."""
    random = np.random.default_rng(4)
    table = pa.table({name: random.integers(0, 5, 30) for name in ("age", "job", "town")})
    sets = [["age", "job"], ["job", "town"]]
    release = sf.anonymize(table, qi=sets, k=6, method="best", suppression_limit=0.3)
    made = release.to_arrow().to_pylist()
    for names in sets:
        sizes = Counter(tuple(row[name] for name in names) for row in made)
        assert min(sizes.values()) >= 6


def test_a_limit_of_rows_left_out_is_a_share_and_goes_with_no_bound():
    table = small_table(np.random.default_rng(6), 20)
    asked = {"qi": ["job", "town"], "k": 2, "method": "best", "hierarchies": TREES}
    with pytest.raises(ParameterError, match="share of the rows, from 0 to 1"):
        sf.anonymize(table, suppression_limit=20, **asked)
    with pytest.raises(ParameterError, match="does not cover rows that may be left out"):
        sf.anonymize(table, suppression_limit=0.2, bound="lp", **asked)


def test_of_a_large_lattice_levels_are_left_out_and_not_its_top(monkeypatch):
    table = crowd(np.random.default_rng(13), 600)
    asked = {"qi": table.column_names[:3], "k": 25, "method": "lattice", "hierarchies": TREES}
    whole = sf.anonymize(table, **asked).utility["ncp"]
    monkeypatch.setattr(lattice, "MOST_NODES", 18)
    assert sf.anonymize(table, **asked).utility["ncp"] <= 1.25 * whole
    monkeypatch.setattr(lattice, "MOST_NODES", 7)  # fewer than two levels a column make
    assert sf.anonymize(table, **asked).utility["ncp"] <= 1.6 * whole


def test_a_search_that_is_stopped_gives_the_best_so_far():
    table = small_table(np.random.default_rng(4), 150)
    budget = Budget()

    def stop(doing, share):
        if doing.startswith("improving"):
            budget.cancel()

    budget.on_progress = stop
    prepared = prepare(opened := sf.table(table), demand(7).opened(opened), budget)
    solution = solve(prepared)
    assert solution.stopped_by == "cancelled"
    assert solution.details["loss_after"] <= solution.details["loss_before"]
    rows = prepared.counts if solution.rows is None else solution.rows
    sizes = np.bincount(solution.groups, weights=rows)
    assert sizes.min() >= 7


def test_a_descent_out_of_time_visits_few_nodes(monkeypatch):
    table = small_table(np.random.default_rng(8), 300)
    monkeypatch.setattr(lattice, "WORK", 0)  # asks after every node
    told = []
    whole = lattice.solve(prepare(opened := sf.table(table), demand(7).opened(opened), Budget()))
    budget = Budget(on_progress=lambda doing, share: told.append(share))
    problem = prepare(opened := sf.table(table), demand(7).opened(opened), budget)
    budget.cancel()
    told.clear()
    hurried = lattice.solve(problem)
    assert hurried.stopped_by == "cancelled"
    assert whole.stopped_by is None
    assert told == [0.0]
    assert np.bincount(hurried.groups, weights=problem.counts).min() >= 7


@pytest.mark.parametrize(("rules", "tries"), [({}, 0), ({"l": 3}, 2)])
def test_where_values_count_the_search_begins_at_the_better_of_two_starts(
    monkeypatch, rules, tries
):
    monkeypatch.setattr(best, "WORTH", 100.0)  # of all starts
    tried, lost = [], []

    def improved(search, seed, passes):
        annealing.improve(search, seed, passes)
        tried.append(passes)
        lost.append(search.loss())

    monkeypatch.setattr(best, "improve", improved)
    table = crowd(np.random.default_rng(3), 400)
    told = {"sensitive": ["illness"], **rules} if rules else {}
    asked = {"qi": table.column_names[:3], "k": 6, "method": "best", "hierarchies": TREES, **told}
    found = solve(prepare(opened := sf.table(table), Request.of(asked).opened(opened), Budget()))
    assert tried.count(best.TRIED) == tries
    if tries:
        chosen = min(("mondrian", "lattice"), key=lambda name: lost[name == "lattice"])
        assert found.details["start"] == chosen
        assert found.details["loss_after"] * 3 * 400 <= min(lost) + 1e-9


@pytest.mark.parametrize(("out", "tries"), [(2, 2), (7, 0)])
def test_a_hurried_search_tries_everybody_where_most_of_the_loss_is_rows_left_out(
    out, tries, monkeypatch
):
    """The clock stands still, so that only the estimate of a round says that it must hurry."""
    monkeypatch.setattr(Clock, "now", classmethod(lambda cls: 0.0))
    table = crowd(np.random.default_rng(3), 400)
    problem, blocks = iterated_problem(table, 6, t=0.4, suppression_limit=1.0)
    problem = replace(problem, budget=Budget(seconds=0.1))
    ground, many = Ground.of(problem), problem.entries.entries
    own = best._cut(replace(problem, options={}), blocks)
    whole = Search(problem, blocks, own, ground, problem.rows)
    some = whole.begun_at(np.where(np.arange(many) % out, 0, -1))
    starts = {"mondrian": (0.9, whole), "lattice without outliers": (0.8, some)}
    tried = []

    def improved(search, seed, passes):
        tried.append((passes, search.problem.budget.seconds))
        annealing.improve(search, seed, passes)

    monkeypatch.setattr(best, "improve", improved)
    start, search, lost = best._chosen(problem, starts, [])
    assert [passes for passes, _ in tried] == [1] * tries
    assert start == ("mondrian" if tries else "lattice without outliers")
    if tries:  # no longer than the search is left with
        assert [seconds for _, seconds in tried] == pytest.approx([0.1 / 3, 0.1 / 2])
        assert lost == search.loss() / best._cells(problem) < whole.loss() / best._cells(problem)
        assert search.problem is problem


@pytest.mark.parametrize(("share", "first"), [(0.0, "iterated"), (best.SOON, "mondrian")])
def test_where_there_is_time_enough_mondrian_comes_before_an_iteration(share, first, monkeypatch):
    monkeypatch.setattr(best, "SOON", share)
    problem, blocks = iterated_problem(crowd(np.random.default_rng(3), 600), 6)
    names = [
        name for name, _ in best._groupings(problem, blocks, Ground.of(problem), "certainty", 0)
    ]
    assert names[0] == first
    assert names.count("mondrian") == 1


@pytest.mark.parametrize(("seconds", "rules"), [(0.0, {}), (math.inf, {}), (0.0, {"t": 0.2})])
def test_many_entries_are_iterated_where_that_need_not_hurry(seconds, rules, monkeypatch):
    monkeypatch.setattr(best, "SHARED", 1)
    monkeypatch.setattr(best, "SOON", 0.0)
    monkeypatch.setattr(best, "ITERATING", seconds)
    problem, blocks = iterated_problem(crowd(np.random.default_rng(3), 600), 6, **rules)
    ground = Ground.of(problem)
    names = [name for name, _ in best._groupings(problem, blocks, ground, "certainty", 0)]
    hurries = bool(seconds or rules)
    assert names[0] == ("mondrian" if hurries else "iterated")
    assert names.count("iterated") == (not hurries)


def test_a_descent_that_is_not_done_in_time_is_no_start_beside_another(monkeypatch):
    problem, blocks = iterated_problem(crowd(np.random.default_rng(3), 600), 6, seconds=None)
    monkeypatch.setattr(best, "SHARED", 1)
    monkeypatch.setattr(lattice, "WORK", 0)  # asks after every node

    def tell(doing, share):
        if doing.startswith("descending"):
            problem.budget.end()

    problem.budget.on_progress = tell
    names = [
        name for name, _ in best._groupings(problem, blocks, Ground.of(problem), "certainty", 0)
    ]
    assert names == ["mondrian"]


def test_where_every_column_has_a_tree_nothing_is_clustered():
    table = small_table(np.random.default_rng(5), 100)
    asked = {"qi": list(TREES), "k": 4, "method": "best", "hierarchies": TREES}
    found = solve(prepare(opened := sf.table(table), Request.of(asked).opened(opened), Budget()))
    assert set(found.details["starts"]) == {"lattice", "mondrian"}


def iterated_problem(table, k, seconds=1e9, engine="memory", **rules):
    """What an iteration is asked to group, and which entries may be grouped."""
    told = {"sensitive": ["illness"], "hierarchies": TREES, "method": "best", **rules}
    opened, asked = sf.table(table, engine=engine), {"qi": table.column_names[:3], "k": k, **told}
    problem = prepare(opened, Request.of(asked).opened(opened), Budget(seconds=seconds))
    return problem, allowed_blocks(problem)


@pytest.mark.parametrize("rules", [{}, {"l": 3}, {"t": 0.3}, {"l": 2, "l_kind": "entropy"}])
@pytest.mark.parametrize("seconds", [0.0, 1e9, math.inf])
def test_an_iteration_takes_classes_that_hold_and_leaves_who_has_no_company(rules, seconds):
    random = np.random.default_rng(23)
    problem, blocks = iterated_problem(crowd(random, 300), 6, rounds=0, **rules)
    iteration = Iteration(problem, blocks)
    ill, rows = problem.entries.column("illness"), problem.counts
    everybody = np.bincount(ill, rows) / rows.sum()
    monotone = "t" not in rules and "l_kind" not in rules
    for least, charges in [(1, np.ones(3)), (30, np.exp(random.normal(size=3)))]:
        groups = iteration.groups(least, seconds, charges)
        assert (groups >= 0).any()
        for group in range(groups.max() + 1):
            held = np.bincount(ill[groups == group], rows[groups == group], len(everybody))
            assert held.sum() >= 6
            assert holds(held.sum(), held, problem.rules)
        left = np.bincount(ill[groups < 0], rows[groups < 0], len(everybody))
        if monotone:  # all of them look alike at the top
            assert left.sum() < 6 or (left > 0).sum() < rules.get("l", 1)
    found = solve(problem)  # with a time limit it is one of the starts, placed
    assert found.details["starts"]["iterated"] <= 1.0
    assert (found.groups >= 0).all()


def test_an_iteration_can_ask_for_more_closeness_than_is_asked():
    problem, blocks = iterated_problem(crowd(np.random.default_rng(23), 300), 6, t=0.4)
    ill, rows = problem.entries.column("illness"), problem.counts
    everybody = np.bincount(ill, rows) / rows.sum()
    farthest = []
    for strict in (1.0, 0.5):
        groups = Iteration(problem, blocks).groups(1, math.inf, np.ones(3), strict=strict)
        apart = []
        for group in range(groups.max() + 1):
            held = np.bincount(ill[groups == group], rows[groups == group], len(everybody))
            apart.append(np.abs(held / held.sum() - everybody).sum() / 2)
        farthest.append(max(apart))
    assert farthest[1] <= 0.2 + 1e-9 < farthest[0] <= 0.4 + 1e-9


def test_an_iteration_can_compare_with_other_rows_than_all():
    """Such as those that another one released: then most of its classes hold as they are."""
    problem, blocks = iterated_problem(crowd(np.random.default_rng(23), 300), 6, t=0.25)
    ill, rows = problem.entries.column("illness"), problem.counts
    shares = np.array([0.1, 0.2, 0.3, 0.4])
    rules = recounted(problem.rules, (1_000 * shares).astype(np.int64))
    groups = Iteration(problem, blocks).groups(1, math.inf, np.ones(3), rules=rules)
    assert (groups >= 0).any()
    for group in range(groups.max() + 1):
        held = np.bincount(ill[groups == group], rows[groups == group], len(shares))
        assert np.abs(held / held.sum() - shares).sum() / 2 <= 0.25 + 1e-9


def asked_of_iterations(monkeypatch, k=4, losses=None, beginning=math.inf, **rules):
    """What iterations are asked for where there is time enough, with what they are compared."""
    asked, plain = [], Iteration.groups

    def groups(iteration, least, seconds, charges, **more):
        asked.append(more | {"least": least, "charges": charges})
        return plain(iteration, least, math.inf, charges, **more)

    monkeypatch.setattr(Iteration, "groups", groups)
    monkeypatch.setattr(best, "_beginning", lambda problem, pieces: beginning)
    told = {"suppression_limit": 1.0, **rules}
    problem, blocks = iterated_problem(crowd(np.random.default_rng(5), 300), k, **told)
    ground, making = Ground.of(problem), []
    losses = losses or (1.0 / (1 + at) for at in itertools.count())  # each less than those before
    for _name, _groups, _taken, _last in best._iterated(problem, blocks, ground, 300, making):
        making.append((0.0, next(losses)))
    return problem, asked


def test_iterations_compare_with_all_rows_and_with_what_was_released_in_turn(monkeypatch):
    problem, asked = asked_of_iterations(monkeypatch, t=0.3)
    assert len(asked) == 1 + best.WAYS
    assert [one["monotone"] for one in asked[:2]] == [True, False]
    everybody = problem.rules.reference
    strict = [round(one["strict"], 2) for one in asked]
    assert strict == [1.0, 1.0, 0.95, 1.0, 0.9, 0.95, 0.85, 0.9, 0.8]
    again = [not np.allclose(one["rules"].reference, everybody) for one in asked]
    assert again == [False] * 3 + [True, False] * 3
    assert {one["least"] for one in asked} == {1}


def test_large_groups_are_iterated_by_other_charges_once_more_closeness_does_not_pay(monkeypatch):
    """Coarsely, from where it lost least, and until that does not pay either."""
    losses = iter([0.5, 0.4, 0.4, 0.4, 0.35, 0.3, 0.2, *[0.2] * 20])
    _, asked = asked_of_iterations(monkeypatch, k=25, losses=losses, beginning=0.0, t=0.3)
    assert [one["strict"] for one in asked] == [1.0, 1.0, 0.95] + [1.0] * 5
    assert [one["least"] for one in asked] == [1] * 4 + [3] * 4
    charged = np.array([one["charges"] for one in asked])
    assert (charged[:4] == 1).all()
    steps = np.log(charged[4:] / charged[[0, 4, 5, 5]])  # from which charges each was made
    assert (np.abs(steps) > 0).all()
    random = np.random.default_rng(0)
    assert np.allclose(steps, [best.VARIED * random.normal(size=3) for _ in range(4)])


@pytest.mark.parametrize(
    ("rules", "last"), [({"l": 2}, [False, True]), ({"t": 0.3}, [False] * 4 + [True] * 4)]
)
def test_iterations_after_which_everybody_is_placed(rules, last, monkeypatch):
    """The best of those that differ in their steps or in what they ask; each charged otherwise."""
    monkeypatch.setattr(best, "_beginning", lambda problem, pieces: 0.0)
    told = {"suppression_limit": 1.0, **rules}
    problem, blocks = iterated_problem(crowd(np.random.default_rng(5), 300), 25, **told)
    ground, making, found = Ground.of(problem), [], []
    for *_, one in best._iterated(problem, blocks, ground, 300, making):
        found.append(one)
        making.append((0.0, 0.5))
    assert found == last


def test_small_groups_are_not_iterated_by_other_charges(monkeypatch):
    losses = iter([0.5] * 20)
    _, asked = asked_of_iterations(monkeypatch, k=24, losses=losses, beginning=0.0, t=0.3)
    assert len(asked) == 4
    assert all((one["charges"] == 1).all() for one in asked)


def test_iterations_end_where_no_class_holds_but_that_of_all(monkeypatch):
    _, asked = asked_of_iterations(monkeypatch, t=0.0)
    assert len(asked) == 2


@pytest.mark.parametrize("slow", [0.0, 100.0])
def test_what_is_kept_for_the_end_is_what_the_end_takes(slow, monkeypatch):
    """And not what it takes to make the first start."""
    problem, blocks = iterated_problem(
        crowd(np.random.default_rng(5), 300), 4, t=0.3, suppression_limit=1.0
    )
    clock, solution, made = [0.0], Search.solution, best._made_to_hold

    def said(search, **facts):
        clock[0] += 2.0
        return solution(search, **facts)

    def held(search):
        clock[0] += slow
        return made(search)

    monkeypatch.setattr(Clock, "now", classmethod(lambda cls: clock[0]))
    monkeypatch.setattr(Search, "solution", said)
    monkeypatch.setattr(best, "_made_to_hold", held)
    monkeypatch.setattr(best, "PLACED", 0.0)
    budget = Budget(seconds=1e6)
    starts = best._starts(replace(problem, budget=budget), blocks, "certainty")
    assert starts
    assert budget.seconds == 1e6 - 2.0 * best.ENDING


@pytest.mark.parametrize("whole", [True, False])
def test_a_start_holds_whatever_rows_its_groups_were_compared_with(whole, monkeypatch):
    problem, blocks = iterated_problem(
        crowd(np.random.default_rng(5), 300), 4, t=0.3, suppression_limit=1.0
    )
    groups = problem.entries.column("illness").astype(np.int64) // 2  # fail, if all are compared
    if not whole:
        groups[::7] = -1

    def given(*_):
        yield "iterated", groups.copy()

    monkeypatch.setattr(best, "_groupings", given)
    ((_, search),) = best._starts(problem, blocks, "certainty").values()
    assert search.left_out
    names = int(search.groups.max()) + 2
    values = search.sensitive[search.entry]
    good = groups_hold(search.groups, names, search.rows, values, best._compared(search))
    assert good[np.unique(search.groups[search.groups >= 0])].all()


@pytest.mark.parametrize(
    ("seconds", "pace", "steps"),
    [
        (None, 1.0, math.inf),
        (100.0, math.inf, annealing.ASKED[0]),  # before it is known
        (100.0, 1e-9, annealing.ASKED[1]),
        (100.0, 0.25, 100),
        (100.0, 50.0, annealing.ASKED[0]),
    ],
)
def test_a_search_asks_for_the_time_as_often_as_its_steps_take_long(
    seconds, pace, steps, monkeypatch
):
    monkeypatch.setattr(Clock, "now", classmethod(lambda cls: 0.0))
    found = annealing._until_asked(Budget(seconds=seconds), pace)
    assert found == steps if seconds else found > 1e12


def test_a_search_of_slow_steps_ends_soon_after_its_time_is_over(monkeypatch):
    table = crowd(np.random.default_rng(12), 400)
    problem, blocks = iterated_problem(table, 6)
    clock, anneal = [0.0], annealing._anneal

    def slowly(*given):
        clock[0] += len(given[5])  # a second a step
        return anneal(*given)

    search = Search(problem, blocks, np.zeros(len(positions_of(problem)), np.int64))
    monkeypatch.setattr(Clock, "now", classmethod(lambda cls: clock[0]))
    monkeypatch.setattr(annealing, "_anneal", slowly)
    search.problem = replace(problem, budget=Budget(seconds=60))
    annealing.improve(search, 0, 3)
    assert 60 <= clock[0] <= 60 + annealing.ASKED[0]


@pytest.mark.parametrize("seconds", [0.0, 1e9])
def test_a_start_that_leaves_rows_out_holds_however_little_time_there_is(seconds):
    problem, blocks = iterated_problem(
        crowd(np.random.default_rng(5), 300), 4, t=0.3, suppression_limit=1.0
    )
    problem = replace(problem, budget=Budget(seconds=seconds))
    groups = Iteration(problem, blocks).groups(1, math.inf, np.ones(3))
    ground = Ground.of(problem)
    search = Search(problem, blocks, groups, ground, problem.rows)
    # whoever has the commonest illness goes, so that it is too common in what is left
    ill = problem.entries.column("illness")[search.entry]
    search.groups[(ill == 0) & (np.arange(len(ill)) % 4 > 0)] = -1
    before = np.bincount(search.groups[search.groups >= 0], search.rows[search.groups >= 0])
    assert best._made_to_hold(search)
    kept = search.groups >= 0
    sizes = np.bincount(search.groups[kept], search.rows[kept], len(before))[: len(before)]
    values = search.sensitive[search.entry]
    good = groups_hold(search.groups, len(sizes) + 1, search.rows, values, best._compared(search))
    assert good[np.unique(search.groups[kept])].all()
    assert ((sizes < before) & (sizes > 0)).any() == (seconds > 0)  # else groups go whole
    assert (sizes < before).any()


def test_what_groups_show_is_told_anew_when_they_change():
    problem, blocks = iterated_problem(crowd(np.random.default_rng(6), 200), 4)
    search = Search(problem, blocks, np.arange(len(positions_of(problem))) % 2)
    told = search.solution(stopped_by="time")
    assert (told.stopped_by, search.solution().stopped_by) == ("time", None)
    assert search.solution().groups is told.groups
    search.groups[:] = 0
    assert (told.groups.max(), search.solution().groups.max()) == (1, 0)


@pytest.mark.parametrize("rules", [{}, {"l": 3}])
@pytest.mark.parametrize("least", [1, 20, 90])
@pytest.mark.parametrize("seed", range(4))
def test_steps_of_an_iteration_are_the_best_of_the_whole_lattice(rules, least, seed, monkeypatch):
    """As brute force finds them, which looks at all nodes for each."""
    problem, blocks = iterated_problem(crowd(np.random.default_rng(seed), 120), 4, **rules)
    iteration = Iteration(problem, blocks)
    expected = brute_iteration(problem, iteration.lattice, iteration.heights, least)
    assert (expected >= 0).any()
    several = len(np.unique(expected)) > 3
    assert several or least > 1
    for work, kept in ((iterated.WORK, iterated.KEPT), (1, 1)):  # asked after every look; no room
        monkeypatch.setattr(iterated, "WORK", work)
        monkeypatch.setattr(iterated, "KEPT", kept)
        groups = iteration.groups(least, math.inf, np.ones(3))
        assert ((groups < 0) == (expected < 0)).all()
        assert len({*zip(groups, expected, strict=True)}) == len(np.unique(expected))


def brute_iteration(problem, lattice, heights, least):
    """Groups made at the node that loses least of those at which enough rows find company."""
    rules, sensitive, rows = problem.rules, lattice.sensitive, lattice.weights
    groups, made, left = np.full(len(rows), -1), 0, np.arange(len(rows))
    while len(left):
        best = math.inf
        for node in itertools.product(*map(range, heights)):  # the first of those that lose alike
            at = lattice.starts[range(len(node)), node] + lattice.table[left]
            loss = float((rows[left] * lattice.prices[at].sum(axis=1)).sum())
            if loss > best - 1e-7:
                continue
            _, number = np.unique(lattice.marks[at].sum(axis=1), return_inverse=True)
            counts = np.zeros((number.max() + 1, rules.offsets[-1]), np.int64)
            for values in sensitive[left].T:
                np.add.at(counts, (number, values), rows[left])
            sizes = np.bincount(number, rows[left]).astype(np.int64)
            good = [holds(size, held, rules) for size, held in zip(sizes, counts, strict=True)]
            if sizes[good].sum() >= min(least, rows[left].sum()):
                best, taken = loss, np.where(np.array(good)[number], number, -1)
        if best == math.inf:
            break
        groups[left[taken >= 0]] = made + taken[taken >= 0]
        made, left = groups.max() + 1, left[taken < 0]
    return groups


def test_an_iteration_that_has_no_time_takes_fewer_steps_and_loses_more():
    table = crowd(np.random.default_rng(3), 600)
    problem, blocks = iterated_problem(table, 6)
    iteration, losses = Iteration(problem, blocks), {}
    for seconds in (0.0, math.inf):
        groups = iteration.groups(1, seconds, np.ones(3))
        assert problem.counts[groups < 0].sum() < 6
        losses[seconds] = Search(problem, blocks, groups, most=600).loss()
    assert losses[math.inf] < losses[0.0]


@pytest.mark.parametrize("pace", [1e-9, 1e-3])
def test_an_iteration_asks_for_the_time_as_often_as_its_own_pace_demands(pace, monkeypatch):
    """A busy machine, or a slow one, is asked after fewer entries."""
    problem, blocks = iterated_problem(crowd(np.random.default_rng(3), 600), 6)
    clock, asked, iterate = [0.0], [], iterated._iterate

    def timed(lattice, way, rules, least, monotone, paths, work, groups):
        before = int(way.state[iterated.LOOKED])
        asked.append((clock[0], before, int(way.state[iterated.MANY]), work))
        ended = iterate(lattice, way, rules, least, monotone, paths, work, groups)
        clock[0] += pace * (int(way.state[iterated.LOOKED]) - before)
        return ended

    monkeypatch.setattr(Clock, "now", staticmethod(lambda: clock[0]))
    monkeypatch.setattr(iterated, "_iterate", timed)
    Iteration(problem, blocks).groups(1, 100.0, np.ones(3))
    assert asked[0][3] == iterated.FIRST_LOOKS * asked[0][2]
    for now, _, left, work in asked[1:]:
        rest = (100.0 - now) / pace / iterated.LOOKS
        assert work == pytest.approx(min(iterated.WORK, max(rest, 16 * left)), abs=1)


def test_an_iteration_ends_when_it_is_cancelled(monkeypatch):
    problem, blocks = iterated_problem(crowd(np.random.default_rng(3), 600), 6)
    monkeypatch.setattr(iterated, "WORK", 1)
    problem.budget.cancel()
    groups = Iteration(problem, blocks).groups(1, math.inf, np.ones(3))
    assert groups.max() <= 0  # one look at most, and who was released there


@pytest.mark.parametrize("rules", [{}, {"l": 3}, {"t": 0.3}])
def test_looking_ahead_passes_over_visits_that_take_nothing(monkeypatch, rules):
    random = np.random.default_rng(17)
    table = crowd(random, 400)
    told = {"sensitive": ["illness"], **rules} if rules else {}
    asked = {"qi": table.column_names[:3], "k": 6, "method": "lattice", "hierarchies": TREES}
    problem = prepare(
        opened := sf.table(table), Request.of({**asked, **told}).opened(opened), Budget()
    )
    visited, descend = [], lattice._descend

    def counted(*given):
        visited[-1] += len(given[2])
        return descend(*given)

    monkeypatch.setattr(lattice, "_descend", counted)
    found, look = [], lattice._look_ahead
    for from_on, way in ((1 << 60, None), (0, look.instead), (0, look.translated)):
        monkeypatch.setattr(lattice, "LOOKED_AHEAD", from_on)
        monkeypatch.setattr(lattice, "LEAST_LOOK", 1)
        monkeypatch.setattr(lattice, "_look_ahead", way)
        visited.append(0)
        found.append(lattice.solve(problem).groups)
    assert (found[0] == found[1]).all()
    assert (found[0] == found[2]).all()
    assert visited[2] == visited[1] < visited[0]


def crowd(random, rows):
    """Three quasi-identifiers of different kinds, an illness, and who it is."""
    return (
        small_table(random, rows)
        .append_column("age", pa.array(random.integers(18, 60, rows)))
        .append_column("illness", pa.array(random.choice(["flu", "gout", "cold", "mumps"], rows)))
        .append_column("who", pa.array(np.arange(rows) * 2 // 3))
    )


def demand(k, *more):
    asked = {"qi": ["job", "town", *more], "k": k, "method": "best", "hierarchies": TREES}
    return Request.of(asked)


def of_iteration(loss, finished=True, cpu=1.0, held=None):
    made = loss if held is None else held
    return {"loss": loss, "held": made, "left_out": 0, "cpu": cpu, "finished": finished}


@pytest.mark.parametrize(
    ("hundredths", "rows", "counted", "goal"),
    [
        (of_iteration(0.5), of_iteration(0.1, finished=False), 1, "yes"),
        (of_iteration(0.5), of_iteration(0.1), 1, "no"),
        (of_iteration(0.5), of_iteration(0.1, held=0.45), 1, "yes"),  # what was released failed
        (of_iteration(0.5, finished=False), of_iteration(0.5, finished=False), 0, "not counted"),
    ],
)
def test_an_iteration_that_did_not_end_is_nothing_to_beat(hundredths, rows, counted, goal):
    ours = {"loss": 0.4, "left_out": 0, "cpu": 0.2}
    answers = dict.fromkeys(yardstick.SIDES, ours) | {"hundredths": hundredths, "rows": rows}
    counts = yardstick._counts([answers])
    assert counts["cells"] == counted
    assert counts["reached in a quarter of ARX's time"] == (goal == "yes")
    row = yardstick._row(("table", "k", 2), answers)
    assert row.split(" | ")[-1].rstrip(" |") == goal
    assert row.count("made to hold") == (rows["held"] > rows["loss"])
    assert row.count("did not end") == (not hundredths["finished"]) + (not rows["finished"])


def test_an_iteration_that_did_not_end_is_measured_again_with_more_patience(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(yardstick, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(yardstick, "posed", lambda *cell: None)
    asked = []

    def iterated(problem, limit):
        if limit != yardstick.WARMING:
            asked.append(limit)
        return of_iteration(0.5, finished=limit >= 20, cpu=min(limit, 20.0))

    def best_answer(problem, limit):
        asked.append(limit)
        return {"loss": 0.4, "left_out": 0, "cpu": 0.2}

    sides = dict.fromkeys(("hundredths", "rows"), (iterated, ()))
    monkeypatch.setattr(yardstick, "SIDES", sides | {"quarter": (best_answer, ())})
    cell = ("table", "k", 2)
    found = []
    for patience in (10.0, 10.0, 30.0, 40.0):
        asked.clear()
        yardstick._measure("quarter", cell, {("quarter", "table", "k")}, None, patience)
        found.append(list(asked))
    assert found == [[10.0, 10.0, 2.5], [], [30.0, 30.0, 5.0], []]
    assert json.loads(yardstick.kept("quarter").read_text().splitlines()[-1])["limit"] == 5.0
