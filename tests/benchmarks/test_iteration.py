"""The yardstick of local recoding: its first optimum, and what repeating it gains."""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.anonymization.methods.annealing import rows_of_values
from sfumato.anonymization.preparing import prepare
from sfumato.anonymization.problem import sensitive_of
from sfumato.anonymization.request import Request
from sfumato.budget import Budget
from sfumato.privacy.rules import groups_hold, held, holds, recounted
from tree_partitions import TREES, small_table

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks.iteration import _Lattice, iterated, made_to_hold  # noqa: E402


@pytest.mark.parametrize("rules", [{}, {"l": 3, "sensitive": ["illness"]}])
def test_where_all_rows_are_released_at_once_it_is_full_domain_recoding(rules):
    random = np.random.default_rng(1)
    table = small_table(random, 60)
    table = table.append_column("illness", pa.array(random.choice(["flu", "gout", "cold"], 60)))
    asked = {"qi": list(TREES), "k": 4, "hierarchies": TREES, **rules}
    whole = sf.anonymize(table, method="full-domain", **asked)
    problem = posed(table, asked)
    found = iterated(problem, steps=1, factor=0.5)
    assert (found.iterations, found.left_out, found.finished) == (1, 0, True)
    assert found.loss == pytest.approx(whole.utility["ncp"])
    again = iterated(problem, steps=60, factor=0.5)
    assert again.iterations > 1
    assert again.loss < found.loss


def test_rows_that_find_no_company_lose_everything():
    table = pa.table({"job": ["nurse"] * 3 + ["judge"], "town": ["a"] * 4})
    problem = posed(table, {"qi": list(TREES), "k": 2, "hierarchies": TREES})
    found = iterated(problem, steps=100, factor=0.05)
    assert (found.left_out, found.loss) == (1, 0.25)


def test_what_is_released_is_made_to_hold_when_compared_with_itself():
    random = np.random.default_rng(0)
    columns = {name: random.integers(0, values, 60) for name, values in (("a", 12), ("b", 9))}
    illness = random.choice(["flu", "gout", "cold", "ache"], 60, p=[0.6, 0.2, 0.15, 0.05])
    asked = {"qi": list(columns), "k": 4, "t": 0.2, "sensitive": ["illness"]}
    problem = posed(pa.table({**columns, "illness": illness}), asked)
    found = iterated(problem, 60, 0.0)
    assert found.left_out > 0
    assert found.held > found.loss + 0.01  # as it is, it does not hold
    groups = np.arange(len(problem.counts)) // 7  # rows that have nothing in common
    groups[::5] = -1
    kept = made_to_hold(problem, groups)
    released = np.flatnonzero(kept >= 0)
    assert 0 < len(released) < (groups >= 0).sum()
    assert np.array_equal(kept[released], groups[released])
    values, counts = sensitive_of(problem)[released], problem.counts[released]
    rules = recounted(problem.rules, rows_of_values(values, counts, problem.rules))
    good = groups_hold(kept[released], kept.max() + 1, counts, values, rules)
    assert good[kept[released]].all()
    assert np.array_equal(made_to_hold(problem, kept), kept)


def test_nothing_more_is_left_out_where_nothing_is_compared():
    table = small_table(np.random.default_rng(0), 59)
    found = iterated(posed(table, {"qi": list(TREES), "k": 4, "hierarchies": TREES}), 60, 0.0)
    assert found.left_out > 0
    assert found.held == pytest.approx(found.loss)


@pytest.mark.parametrize(("rules", "factor"), [({}, 0.0), ({"l": 2}, 0.05), ({"t": 0.2}, 0.05)])
def test_both_searches_come_to_the_same(rules, factor):
    random = np.random.default_rng(12)
    columns = {name: random.integers(0, values, 40) for name, values in (("a", 8), ("b", 4))}
    table = pa.table({**columns, "illness": random.choice(["flu", "gout", "cold"], 40)})
    told = {"sensitive": ["illness"], **rules} if rules else {}
    problem = posed(table, {"qi": list(columns), "k": 3, **told})
    ways = [iterated(problem, 10, factor, search=way) for way in ("documented", "bounded")]
    assert ways[0].iterations > 2
    assert len({(way.iterations, way.left_out, round(way.loss, 9)) for way in ways}) == 1


@pytest.mark.parametrize("rules", [{}, {"l": 3}, {"t": 0.25}])
@pytest.mark.parametrize(("least", "suppressing"), [(1, 1.0), (20, 0.1), (30, 0.0), (60, 0.3)])
def test_no_node_that_releases_enough_loses_less(rules, least, suppressing):
    random = np.random.default_rng(2)
    table = small_table(random, 60)
    table = table.append_column("illness", pa.array(random.choice(["flu", "gout", "cold"], 60)))
    told = {"sensitive": ["illness"], **rules} if rules else {}
    problem = posed(table, {"qi": list(TREES), "k": 3, "hierarchies": TREES, **told})
    lattice = _Lattice(problem)
    left = np.arange(len(lattice.table))[random.random(len(lattice.table)) < 0.8]
    found = lattice.documented(left, least, suppressing)
    assert np.array_equal(found, lattice.bounded(left, least, suppressing))
    least = min(least, int(problem.counts[left].sum()))
    losses = {}
    for node in product(*map(range, lattice.heights)):
        rows, lost = 0, 0.0
        shown = [
            column[level][lattice.table[left, axis]]
            for axis, (column, level) in enumerate(zip(lattice.levels, node, strict=True))
        ]
        _, number = np.unique(np.stack(shown), axis=1, return_inverse=True)
        for members in (left[number.reshape(-1) == c] for c in range(number.max() + 1)):
            size = problem.counts[members].sum()
            told = held(members, problem.counts, lattice.sensitive, problem.rules)
            generalized = sum(
                problem.counts[members] @ lattice.losses[axis][node[axis]][at]
                for axis, at in enumerate(lattice.table[members].T)
            )
            lost += generalized
            if holds(size, told, problem.rules):
                rows += size
            else:
                lost += suppressing * (lattice.everything * size - generalized)
        if rows >= least:
            losses[node] = lost
    assert (found is None) == (not losses)
    if losses:
        assert losses[tuple(found)] == pytest.approx(min(losses.values()))


def posed(table, asked):
    opened = sf.table(table)
    return prepare(opened, Request.of({**asked, "method": "best"}).opened(opened), Budget())
