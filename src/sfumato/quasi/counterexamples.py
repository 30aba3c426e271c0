"""Keys of tables whose rows stay where they are, proven by counterexamples.

A column set is no key because some rows agree on it and differ elsewhere. The database is asked for
classes of the set that hold different rows, the smallest first, and answers for each class only in
which other columns its rows differ: no cell travels. Every key holds one of these columns, whether
the class has two rows (then they are exactly the difference set of a pair) or more (then they are
the union of several). So a set that fails teaches something that rules it out, and a set of which
no such class exists is as good as all columns. The rest is the search for hitting sets, done here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sfumato.budget import Budget
from sfumato.engines.results import CELL_BYTES, ClassSizes
from sfumato.quasi.greedy import without_redundant
from sfumato.quasi.hitting_sets import (
    SetFamily,
    differences_within_classes,
    greedy_hitting_set,
    minimum_hitting_set,
)
from sfumato.quasi.lattice import Minimal, Set, in_order
from sfumato.quasi.proof import Proof
from sfumato.quasi.sampling import PULLED_BYTES, sampled_rows
from sfumato.tables import Table

__all__ = ["Asked", "Collisions", "minimal_sets_there", "proven_there", "stay_there"]

Matrix = npt.NDArray[np.bool_]

PULLED_ROWS = 200_000
"""Rows of a remote table up to which its combinations are pulled over."""
SAMPLE_ROWS = 5_000
"""Rows from which the first difference sets come."""
CLASSES = 1_000
"""Classes that are asked for at a time."""
TOGETHER = 16
"""Column sets that one statement asks about."""


def stay_there(opened: Table, budget: Budget) -> bool:
    """Whether searches should ask where the rows are, and not pull their combinations."""
    able = opened.engine.capabilities
    if able.coded or not able.replayable:
        return False
    rows = opened.rows
    if able.remote and rows > PULLED_ROWS:
        return True
    memory = budget.memory or PULLED_BYTES
    return rows * CELL_BYTES * (len(opened.columns) + 1) > memory


class Asked:
    """Asks a database for class sizes, several column sets at once, and counts what that took.

    Attributes
    ----------
    jobs, collected
        Statements that were sent, besides the count of all rows, and rows that came back for them.
    """

    def __init__(self, opened: Table, budget: Budget) -> None:
        from sfumato.engines.sql_engine import SQLEngine

        assert isinstance(opened.engine, SQLEngine)
        self.opened, self.budget = opened, budget
        self.engine = opened.engine
        self.jobs = self.collected = 0
        self._known: dict[frozenset[int], ClassSizes] = {}

    def ahead(self, sets: Sequence[Sequence[int]]) -> None:
        """Ask for the class sizes of sets that will be needed."""
        unknown = [s for s in dict.fromkeys(map(frozenset, sets)) if s not in self._known]
        for start in range(0, len(unknown), TOGETHER):
            asked = unknown[start : start + TOGETHER]
            names = [[self.opened.columns[c] for c in sorted(columns)] for columns in asked]
            answers = self.engine.several_class_sizes(names, self.budget)
            self.jobs += 1
            self.collected += sum(len(sizes.sizes) for sizes in answers)
            self._known.update(zip(asked, answers, strict=True))

    def class_sizes(self, columns: Sequence[int]) -> ClassSizes:
        """Class sizes of a set."""
        self.ahead([columns])
        return self._known[frozenset(columns)]

    def told(self) -> str:
        """What it took, in a sentence."""
        return (
            f"{self.jobs:,} statements, besides the count of all rows, were answered where the "
            f"rows are; {self.collected:,} rows "
            "of counts came back"
        )


class Collisions(Asked):
    """Asks what column sets fail to tell apart."""

    def __init__(self, opened: Table, budget: Budget, seed: int) -> None:
        super().__init__(opened, budget)
        self.random = np.random.default_rng(seed)
        self.seed = seed

    def first(self) -> Matrix:
        """Difference sets of sampled rows: what these demand the whole table demands too."""
        from sfumato import kernels

        codes = sampled_rows(self.opened, SAMPLE_ROWS, self.seed)
        self.jobs += 1
        self.collected += codes.entries
        everything = kernels.whole(codes.entries)
        return differences_within_classes(codes, everything, self.random, rows=SAMPLE_ROWS)

    def of(self, sets: Sequence[Set]) -> list[Matrix]:
        """For each set the columns in which classes of it differ; none if it is as good as all."""
        names = self.opened.columns
        found = []
        for start in range(0, len(sets), TOGETHER):
            asked = [[names[c] for c in columns] for columns in sets[start : start + TOGETHER]]
            answers = self.engine.collisions(asked, names, CLASSES, self.budget)
            self.jobs += 1
            self.collected += sum(len(answer) for answer in answers)
            shape = (-1, len(names))
            found += [np.asarray(answer, dtype=np.bool_).reshape(shape) for answer in answers]
        return found

    def told(self) -> str:
        """What it took, in a sentence."""
        return (
            f"{self.jobs:,} statements, besides the count of all rows, were answered where the "
            f"rows are; {self.collected:,} rows "
            "came back: a sample, counts, and for classes of failing sets the columns in which "
            "they differ"
        )


def proven_there(asks: Collisions, costs: Sequence[float], *, prove: bool, budget: Budget) -> Proof:
    """The cheapest set that tells apart all rows which all columns tell apart.

    Without `prove` a small one: hitting sets are chosen greedily, and what is redundant is dropped.
    """
    family = SetFamily(len(costs))
    family.add(asks.first())
    lower, rounds = 0.0, 0
    whole_costs = all(float(cost).is_integer() for cost in costs)
    best = tuple(range(len(costs)))

    def cost(columns: Sequence[int]) -> float:
        return float(sum(costs[c] for c in columns))

    def met(columns: Sequence[int]) -> bool:
        (demands,) = asks.of([tuple(columns)])
        family.add(demands)
        return not len(demands)

    while not budget.spent():
        rounds += 1
        budget.progress(f"at least {lower:g}, {len(family)} difference sets known")
        if prove:
            hit = minimum_hitting_set(family, costs, budget)
            candidate = hit.columns
            bound = math.ceil(hit.lower_bound - 1e-6) if whole_costs else hit.lower_bound
            lower = max(lower, bound)
        else:
            candidate = greedy_hitting_set(family, costs)
        if met(candidate):
            best = candidate if prove else without_redundant(candidate, costs, met)
            break
    return Proof(
        tuple(sorted(best)),
        cost(best),
        min(lower, cost(best)),
        rounds,
        len(family),
        budget.stopped_by,
    )


def minimal_sets_there(asks: Collisions, max_size: int | None, budget: Budget) -> Minimal:
    """All minimal sets that tell apart all rows which all columns tell apart."""
    from sfumato.quasi.minimal_keys import minimal_hitting_sets

    width = len(asks.opened.columns)
    family = SetFamily(width)
    family.add(asks.first())
    proven: set[Set] = set()
    while True:
        sets, complete = minimal_hitting_sets(family.matrix, max_size)
        budget.progress(f"{len(proven)} proven of {len(sets)}", len(proven) / max(1, len(sets)))
        if not complete:
            return Minimal(in_order(proven), False, "too many sets")
        waiting = [columns for columns in sets if columns not in proven]
        if not waiting:
            whole = max_size is None or max_size >= width
            return Minimal(in_order(sets), whole)
        if budget.spent():
            return Minimal(in_order(proven), False, budget.stopped_by)
        for columns, demands in zip(waiting, asks.of(waiting[:TOGETHER]), strict=False):
            if len(demands):
                family.add(demands)
            else:
                proven.add(columns)
