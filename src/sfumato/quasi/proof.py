"""The minimum column set with a proof: implicit hitting sets.

Two rows that must be told apart demand one of the columns in which they differ. The minimum key is
therefore the minimum set that hits all these *difference sets*, of which there are far too many to
write down. So a few are kept; the cheapest set that hits them is found exactly; if it is good
enough for the table it is the minimum, because the table demands at least what the few demand;
otherwise rows it fails to tell apart supply new difference sets.

For β-sets the demand comes from column sets that fail: every answer needs a column outside any
failing set, and the larger the failing set, the stronger the demand.

Rows of a table that is too large to pull over stay where they are, and keys are proven by
counterexamples (`Collisions`). What a sample demands the table demands, so only sets that tell
sampled rows apart are asked about. A sample of all rows holds few that agree on a set: of a part in
which all rows of a value are together, more come. Where few rows of all agree on some columns of a
set, by a hash of their cells, all of these come. They demand all there is to demand of sets that
hold these columns: one answer rules out many, or says that they are as good as all columns.

Equal rows may be so many that no others come. Then the database is asked for classes of the set
that hold different rows, the smallest first, and tells of each in which columns its rows differ.
Every key holds one of these, whether the class has two rows or more. A set of which no such class
exists is as good as all columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato import kernels
from sfumato.budget import Budget
from sfumato.engines.numbering import coded_rows
from sfumato.engines.protocol import ENOUGH_BYTES, ClassSizes, Codes, asks_sql
from sfumato.errors import BudgetError, EngineMemoryError
from sfumato.quasi.greedy import Goal, greedy, histogram, without_redundant
from sfumato.quasi.hitting_sets import (
    Hitting,
    SetFamily,
    all_differences,
    differences_within,
    differences_within_classes,
    greedy_hitting_set,
    minimum_hitting_set,
)
from sfumato.quasi.lattice import Set
from sfumato.quasi.sampling import (
    all_combinations,
    combination_bytes,
    sampled_rows,
)
from sfumato.tables import Table

ORDERS = 4
"""In how many random column orders failing sets are enlarged in one round."""
FAILURES = 64
"""Failing sets that are learnt from before the cheapest ones are looked for again."""

Sets = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Proof:
    """The best set found, and how good any set can be at most.

    `lower_bound` is a cost that no column set reaching the goal undercuts; `demands` is the number
    of difference sets that prove it.
    """

    columns: tuple[int, ...]
    cost: float
    lower_bound: float
    rounds: int
    demands: int
    stopped_by: str | None = None

    @property
    def proven(self) -> bool:
        """Whether the set found is the minimum."""
        return self.cost <= self.lower_bound + 1e-9


def proven_minimum(
    codes: Codes,
    costs: Sequence[float],
    goal: Goal,
    first: Sequence[int],
    *,
    all_separable: bool,
    budget: Budget | None = None,
    seed: int = 0,
) -> Proof:
    """The cheapest column set that reaches a goal, with a proof that there is no cheaper one.

    Parameters
    ----------
    codes
        Rows or distinct combinations.
    costs
        Cost of every column, in whole numbers.
    goal
        What a set must reach; a set of all columns must reach it.
    first
        Some set that reaches it, to improve on.
    all_separable
        Whether the goal is to tell apart all rows that all columns tell apart (a key); then
        colliding pairs of rows are the witnesses, else failing column sets.
    """
    budget = budget or Budget()
    random = np.random.default_rng(seed)
    search = _Search(codes, costs, goal, all_separable, random)
    best = without_redundant(first, costs, search.met)
    best, lower, rounds = *search.alone(best, budget), 0
    while lower < search.cost(best) - 1e-9 and not (budget.spent() or search.family.full(budget)):
        rounds += 1
        candidate = search.feasible_candidate(budget)
        if candidate is not None and search.cost(candidate) < search.cost(best):
            best = candidate
        if search.family.full(budget):
            break
        hit = minimum_hitting_set(search.family, costs, budget)
        lower = max(lower, _bound(hit))
        budget.progress(f"at least {lower:g}, found {search.cost(best):g}")
        if lower >= search.cost(best) - 1e-9:
            break
        if good := search.passing((hit.columns, *hit.others), 1):
            if search.cost(good[0]) < search.cost(best):
                best = good[0]
            if hit.optimal:
                break
    stopped = budget.stopped_by
    if stopped is None and search.family.full(budget) and lower < search.cost(best) - 1e-9:
        stopped = "memory"
    return Proof(
        tuple(sorted(best)),
        search.cost(best),
        min(lower, search.cost(best)),
        rounds,
        len(search.family),
        stopped,
    )


def _bound(hit: Hitting) -> float:
    """What no set undercuts: costs are whole, so it is rounded up."""
    return math.ceil(hit.lower_bound - 1e-6)


class _Search:
    """The demands known so far, and how to find more."""

    def __init__(
        self,
        codes: Codes,
        costs: Sequence[float],
        goal: Goal,
        all_separable: bool,
        random: np.random.Generator,
    ) -> None:
        self.codes, self.costs, self.goal = codes, costs, goal
        self.all_separable = all_separable
        self.random = random
        self.family = SetFamily(len(codes.columns))

    def cost(self, columns: Sequence[int]) -> float:
        return float(sum(self.costs[c] for c in columns))

    def alone(self, best: tuple[int, ...], budget: Budget) -> tuple[tuple[int, ...], float]:
        """The best set or a cheaper column that does alone, and what no set undercuts then.

        Where none does, a set has two columns at least. That is all there is to prove of two
        columns, among which the demands of a table with very many are not to be counted.
        """
        for column in sorted(range(len(self.costs)), key=lambda c: self.costs[c]):
            if self.costs[column] >= self.cost(best):
                break
            if budget.spent():
                return best, 0.0
            if self.met((column,)):
                best = (column,)
        two = float(sum(sorted(self.costs)[:2]))
        return best, min(self.cost(best), two)

    def feasible_candidate(self, budget: Budget) -> tuple[int, ...] | None:
        """Learn from quick greedy hitting sets until one of them reaches the goal."""
        while not (budget.spent() or self.family.full(budget)):
            candidate = greedy_hitting_set(self.family, self.costs)
            if self.met(candidate):
                return without_redundant(candidate, self.costs, self.met)
            self.learn(candidate)
        return None

    def met(self, columns: Sequence[int]) -> bool:
        return self.goal.met(self.codes, columns)

    def passing(self, candidates: Iterable[Set], most: int) -> list[Set]:
        """Some sets that reach the goal; what is learnt of others is what they must meet, too."""
        good, failed = list[Set](), 0
        for columns in candidates:
            if len(good) == most or failed == FAILURES:
                break
            if not self.family.hit_by(columns):  # what was learnt since has ruled it out
                continue
            if self.met(columns):
                good.append(columns)
            elif not self.learn(columns):
                raise AssertionError("a set that fails must violate a new demand")
            else:
                failed += 1
        return good

    def learn(self, columns: Sequence[int]) -> int:
        """Add demands that a failing set does not meet; returns how many were new."""
        found = 0
        if self.all_separable:
            found = self.family.add(differences_within(self.codes, columns, self.random))
        return found or self.family.add(self._failing(columns))

    def _failing(self, columns: Sequence[int]) -> Sets:
        """What lies outside of failing sets that contain the given one and cannot be enlarged."""
        demands = np.ones((ORDERS, len(self.costs)), dtype=np.bool_)
        for demand in demands:
            failing = self._enlarge(columns)
            demand[list(failing)] = False
        return demands

    def _enlarge(self, columns: Sequence[int]) -> list[int]:
        codes, goal = self.codes, self.goal
        failing = list(columns)
        rest = [c for c in self.random.permutation(len(self.costs)).tolist() if c not in failing]
        groups, count = kernels.class_ids(
            [codes.arrays[c] for c in failing],
            [codes.cardinalities[c] for c in failing],
            entries=codes.entries,
            ordered=False,
        )
        for column in rest:
            pair = ([groups, codes.arrays[column]], [count, codes.cardinalities[column]])
            if not goal.reached(ClassSizes(*kernels.size_histogram(*pair, codes.counts))):
                failing.append(column)
                groups, count = kernels.class_ids(*pair, ordered=False)
        return failing


Matrix = npt.NDArray[np.bool_]
Answer = TypeVar("Answer")

PULLED_ROWS = 200_000
"""Rows of a remote table up to which its combinations are pulled over."""
SAMPLE_ROWS, FEW_ROWS, SAMPLE_BYTES = 50_000, 5_000, 1 << 29
"""Rows from which difference sets come at first, and where all minimal keys are sought; memory that
is enough for these."""
ENOUGH_PAIRS = 50
"""Pairs of sampled rows that must agree on a set to tell how many of all do."""
PART_CLASSES = 4
"""Classes, about, that a part holds at least."""
CLASSES, CLASS_ROWS = 1_000, 50_000
"""Classes that are compared for a set; rows that may agree on one, to come."""
ALIKE, TAUGHT = 4, 256
"""Sets that cost as little and are looked into before the cheapest are sought again; difference
sets that are learnt of one at a time, the smallest."""
TOGETHER = 16
"""Column sets that one statement asks about, at most."""
NARROW = 32
"""Columns up to which a database is asked about their sets, not for its rows."""


def stay_there(opened: Table, rows: int, budget: Budget) -> bool:
    """Whether searches should ask where the rows are, and not pull their combinations."""
    able = opened.engine.capabilities
    if able.coded or not able.replayable:
        return False
    if able.remote and rows > PULLED_ROWS:
        return True
    memory = budget.memory or ENOUGH_BYTES
    return rows * combination_bytes(opened, budget) > memory


def held_here(opened: Table, budget: Budget, *, apart: bool = False) -> Codes | None:
    """What searches look at: all combinations, or all rows as codes where only these fit.

    None where neither does, or where rows are many and stay in a cluster, or in a database that can
    be asked about few columns: then they should ask where the rows are. `apart`: see `coded_rows`.
    """
    able = opened.engine.capabilities
    rows = opened.rows if able.replayable and not able.coded else 0  # counted once
    if not stay_there(opened, rows, budget):
        return all_combinations(opened, budget, rows)
    if able.remote:
        stays = able.runs_work or len(opened.columns) <= NARROW
        if rows > PULLED_ROWS and stays:
            return None
        budget = budget.part(1.0)
        budget.memory = budget.memory or ENOUGH_BYTES
    return coded_rows(opened.engine, opened.columns, budget, rows, apart=apart)


class Asked:
    """Asks a database for class sizes, several column sets at once, and counts what that took.

    Attributes
    ----------
    jobs, collected
        Statements that were answered, besides the count of all rows, and rows that came back for
        them.
    together
        Column sets that one statement asks about: one where there was no room for several.
    hashed
        Whether classes whose keys have a hash in common may count as one.
    """

    def __init__(self, opened: Table, budget: Budget) -> None:
        assert asks_sql(opened.engine)
        self.opened, self.budget = opened, budget
        self.engine = opened.engine
        self.rows = opened.rows  # a server that is not asked for one moment counts each time
        self.jobs = self.collected = 0
        self.together = TOGETHER
        self.hashed = False
        self._known: dict[frozenset[int], ClassSizes] = {}

    def ahead(self, sets: Sequence[Sequence[int]]) -> None:
        """Ask for the class sizes of sets that will be needed."""
        unknown = [s for s in dict.fromkeys(map(frozenset, sets)) if s not in self._known]
        found = self._answers(
            unknown,
            lambda names: self.engine.several_class_sizes(names, self.budget, hashed=self.hashed),
        )
        for columns, sizes in zip(unknown, found, strict=True):
            self.collected += len(sizes.sizes)
            self._known[columns] = sizes

    def forget(self) -> None:
        """Count keys from now on, where hashes of them have misled."""
        self.hashed = False
        self._known.clear()

    def _answers(
        self, sets: Sequence[Iterable[int]], ask: Callable[[list[list[str]]], list[Answer]]
    ) -> Iterator[Answer]:
        """What statements say of column sets, some at a time."""
        names = [[self.opened.columns[c] for c in sorted(columns)] for columns in sets]
        while names:
            some = names[: self.together]
            try:
                found = ask(some)
            except EngineMemoryError:
                if len(some) == 1:
                    raise
                self.together = 1  # a database holds the classes of all sets at the same time
                continue
            self.jobs += 1
            yield from found
            del names[: len(some)]

    def class_sizes(self, columns: Sequence[int]) -> ClassSizes:
        """Class sizes of a set."""
        self.ahead([columns])
        return self._known[frozenset(columns)]

    def fitting(self, rows: int) -> int:
        """So many rows to come, or fewer of long or many cells."""
        able = self.budget.part(1.0)
        able.memory = min(SAMPLE_BYTES, self.budget.memory or SAMPLE_BYTES)
        return self.engine.fitting(rows, self.opened.columns, able)

    def sample(self, rows: int, seed: int) -> Codes:
        """Sampled rows, as many as fit: what they demand the whole table demands."""
        lengths = self.engine.lengths_asked
        codes = sampled_rows(self.opened, self.fitting(rows), seed, self.budget)
        self.jobs += 1 + self.engine.lengths_asked - lengths
        self.collected += codes.entries + self.engine.lengths_asked - lengths
        return codes

    @contextmanager
    def until_time_is_over(self) -> Iterator[None]:
        """Statements that may be given up when time is over: what is known by then is enough."""
        try:
            yield
        except BudgetError:
            if self.budget.stopped_by != "time":
                raise

    def told(self) -> str:
        """What it took, in a sentence."""
        return (
            f"{self.jobs:,} statements, besides the count of all rows, were answered where the "
            f"rows are; {self.collected:,} rows "
            "of counts came back"
        )


class Collisions(Asked):
    """Asks what column sets fail to tell apart, and remembers what answers say of other sets.

    Rows that agree on a set agree on each of its subsets. So of a small set, of which few rows
    agree, all of these are asked for: they say what every larger set leaves together.

    Attributes
    ----------
    samples
        Rows that came: what they demand the table demands.
    hashes
        Whether the database can hash cells.
    """

    def __init__(self, opened: Table, budget: Budget, seed: int) -> None:
        super().__init__(opened, budget)
        self.random = np.random.default_rng(seed)
        self.seed = seed
        self.samples: list[Codes] = []
        rows = self.engine.connection.rows()
        self.hashes = rows.dialect.key_hash(rows.keys(opened.columns)) is not None
        self._settled: dict[frozenset[int], tuple[Matrix, ClassSizes]] = {}
        self._crowded: set[frozenset[int]] = set()
        self._parted: list[frozenset[int]] = []
        self._pairs: dict[tuple[int, ...], float] = {}

    def sample(self, rows: int, seed: int) -> Codes:
        """Sampled rows, which are remembered."""
        codes = super().sample(rows, seed)
        self.samples.append(codes)
        return codes

    def first(self) -> Matrix:
        """Difference sets of neighbours in a sample."""
        codes = self.sample(min(FEW_ROWS, SAMPLE_ROWS), self.seed)
        everything = kernels.whole(codes.entries)
        return differences_within_classes(codes, everything, self.random, rows=FEW_ROWS)

    def demands(self, columns: Sequence[int]) -> Matrix:
        """In which columns rows differ that a set leaves together; none if it is as good as all.

        Where rows that came do not say it, those of a part of the table come, then all that agree
        on a subset. Where equal rows are too many for that, cells are compared where they are.
        """
        order = tuple(sorted(columns, key=lambda c: (self._likely((c,)), c)))
        while (known := self._known_demands(columns)) is None:
            if (base := self._worth_a_part(order)) is not None:
                self._draw_part(base)
            elif (base := self._worth_all(order)) is not None:
                self._draw_all(base)
            else:
                return self._compared(columns)
        return known

    def _known_demands(self, columns: Sequence[int]) -> Matrix | None:
        """The same where rows that came say it."""
        for base, (differ, sizes) in self._settled.items():
            if base.issubset(columns):
                left = differ[~differ[:, list(columns)].any(axis=1)]
                if not len(left):
                    self._known[frozenset(columns)] = sizes
                return left[np.argsort(left.sum(axis=1), kind="stable")[:TAUGHT]]
        for codes in self.samples:
            differ = differences_within(codes, columns, self.random)
            if len(differ):
                return differ
        return None

    def _likely(self, columns: tuple[int, ...]) -> float:
        """How many pairs of rows agree on columns, about.

        As many as in the sample; where few do there, as if the last column were independent.
        """
        if columns not in self._pairs:
            sample = self.samples[0]
            every, drawn = (n * (n - 1) / 2 for n in (self.rows, max(2, sample.rows)))
            before = self._likely(columns[:-1]) if columns else every
            found = 0
            if before * drawn >= ENOUGH_PAIRS * every:
                found = histogram(sample, columns).unseparated_pairs
            if len(columns) < 2 or found >= ENOUGH_PAIRS:
                self._pairs[columns] = found * every / drawn
            else:
                self._pairs[columns] = before * self._likely(columns[-1:]) / every
        return self._pairs[columns]

    def _worth_a_part(self, order: tuple[int, ...]) -> tuple[int, ...] | None:
        """Columns whose values say the part, where rows of one are likely to agree on a set."""
        parts = self.rows // self.fitting(SAMPLE_ROWS)
        known = any(base.issubset(order) for base in self._parted)
        if known or parts < 2 or not self.hashes or self._likely(order) < parts or self._full():
            return None
        enough = self.rows**2 / 2 / PART_CLASSES / parts
        beginnings = (order[:many] for many in range(1, len(order)))
        return next((base for base in beginnings if self._likely(base) < enough), None)

    def _worth_all(self, order: tuple[int, ...]) -> tuple[int, ...] | None:
        """The smallest beginning of a set on which few rows agree."""
        few = self.fitting(CLASS_ROWS) / 4
        beginnings = (order[:many] for many in range(1, len(order) + 1))
        return next(
            (
                base
                for base in beginnings
                if self.hashes
                and frozenset(base) not in self._crowded
                and (base == order or self._likely(base) < few)
            ),
            None,
        )

    def _draw_part(self, base: tuple[int, ...]) -> None:
        """Let rows of one part come, in which those that agree on columns are together."""
        self._parted.append(frozenset(base))
        most = self.fitting(SAMPLE_ROWS)
        self._keep(
            self.engine.rows_of_a_part(
                [self.opened.columns[c] for c in base],
                self.rows // most,
                self.opened.columns,
                most,
                self.seed,
                self.budget,
            )
        )

    def _draw_all(self, base: tuple[int, ...]) -> None:
        """Let rows come that share a hash of columns: all, where there is room for them."""
        most = self.fitting(CLASS_ROWS)
        codes, every = self.engine.rows_alike(
            [self.opened.columns[c] for c in base], self.opened.columns, most, self.budget
        )
        differ = all_differences(codes, base, 4 * most) if every else None
        if differ is None:
            self._crowded.add(frozenset(base))
            return self._keep(codes)
        self._count(codes.entries)
        sizes = histogram(codes, range(len(codes.columns))).to_dict()
        sizes[1] = sizes.get(1, 0) + self.rows - codes.entries
        self._settled[frozenset(base)] = differ, ClassSizes.of(sizes)

    def _keep(self, codes: Codes) -> None:
        """Remember rows without their values, as long as there is room."""
        self._count(codes.entries)
        if not self._full():
            nothing = tuple(pa.nulls(len(one)) for one in codes.values)
            self.samples.append(replace(codes, values=nothing))

    def _full(self) -> bool:
        held = sum(array.nbytes for codes in self.samples for array in codes.arrays)
        return 4 * held > (self.budget.memory or SAMPLE_BYTES)

    def _compared(self, columns: Sequence[int]) -> Matrix:
        """The same of classes, cells of which are compared where they are."""
        names = self.opened.columns
        chosen = [names[c] for c in sorted(columns)]
        differ = self.engine.collisions(chosen, names, CLASSES, self.budget)
        self._count(len(differ))
        return np.asarray(differ, dtype=np.bool_).reshape(-1, len(names))

    def _count(self, rows: int) -> None:
        self.jobs += 1
        self.collected += rows

    def told(self) -> str:
        """What it took, in a sentence."""
        return (
            f"{self.jobs:,} statements, besides the count of all rows, were answered where the "
            f"rows are; {self.collected:,} rows "
            "came back: sampled ones, some that share hashes, and counts"
        )


def proven_there(asks: Collisions, costs: Sequence[float], *, prove: bool, budget: Budget) -> Proof:
    """The cheapest set that tells apart all rows which all columns tell apart.

    What a sample demands is learnt here; where the rows are, only sets are asked about that tell
    apart all rows which came.

    Without `prove` a small one: what is chosen greedily from sampled rows, with columns that tell
    apart what it leaves together in the table, and without what is redundant. So it is where time,
    or memory for difference sets, ends before there is a proof. Only where time ends before such a
    set is known, all columns are the answer.
    """
    family = SetFamily(len(costs))
    lower, rounds = 0.0, 0
    best = tuple(range(len(costs)))

    def cost(columns: Sequence[int]) -> float:
        return float(sum(costs[c] for c in columns))

    def met(columns: Sequence[int]) -> bool:
        if not family.hit_by(columns):
            return False
        demands = asks.demands(columns)
        family.add(demands)
        return not len(demands)

    with asks.until_time_is_over():
        codes = asks.sample(SAMPLE_ROWS, asks.seed)
        goal = Goal(pairs=histogram(codes, range(len(costs))).unseparated_pairs)
        here = _Search(codes, costs, goal, True, asks.random)
        here.family = family
        best = _known_key(asks, here, budget) or best
        best = without_redundant(best, costs, met)
        if prove:
            here.feasible_candidate(budget)
        while prove and not (budget.spent() or family.full(budget)):
            rounds += 1
            budget.progress(f"at least {lower:g}, {len(family)} difference sets known")
            hit = minimum_hitting_set(family, costs, budget)
            lower = max(lower, _bound(hit))
            if lower >= cost(best) - 1e-9:
                break
            candidates = here.passing((hit.columns, *hit.others), ALIKE)
            good = next((one for one in candidates if met(one)), None)
            if good is not None:
                best = min(good, best, key=cost)
                break
    stopped = budget.stopped_by
    if stopped is None and prove and lower < cost(best) - 1e-9:
        stopped = "memory"
    return Proof(
        tuple(sorted(best)),
        cost(best),
        min(lower, cost(best)),
        rounds,
        len(family),
        stopped,
    )


def _known_key(asks: Collisions, here: _Search, budget: Budget) -> tuple[int, ...] | None:
    """A set that is as good as all columns, chosen greedily; None where time ends before.

    Columns are added that tell apart what a set leaves together where the rows are.
    """
    chosen = greedy(here.codes, here.costs, here.goal, budget=budget).columns
    while not budget.spent():
        demands = asks.demands(chosen)
        if not len(demands):
            return chosen
        here.family.add(demands)
        left = SetFamily(len(here.costs))
        left.add(demands)
        chosen = (*chosen, *greedy_hitting_set(left, here.costs))
    return None
