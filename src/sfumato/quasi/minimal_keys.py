"""All minimal keys and quasi-identifiers, by whichever search suits the table.

Keys are the minimal hitting sets of difference sets; β-sets are searched in the lattice, where a
sample first rules out what cannot reach β.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato import kernels
from sfumato.budget import Budget, within_budget
from sfumato.columns.profile import equivalents, expanded
from sfumato.engines.protocol import Codes
from sfumato.errors import ColumnError, ParameterError, did_you_mean, spell
from sfumato.quasi.greedy import Goal, histogram
from sfumato.quasi.hitting_sets import (
    SetFamily,
    Sets,
    differences_within_classes,
    hitting_sets,
    in_words,
)
from sfumato.quasi.key import KeyQuery, goal_of
from sfumato.quasi.lattice import (
    DEPTH_FIRST_COLUMNS,
    FEW_SETS,
    SET_BYTES,
    TOO_MANY,
    Minimal,
    Set,
    all_subsets,
    depth_first,
    in_order,
    levelwise,
    minimal_from_subsets,
    remedy_of,
)
from sfumato.quasi.persons import Histories, persons_of, require_separation
from sfumato.quasi.proof import Collisions, held_here
from sfumato.quasi.sampling import (
    all_combinations,
    pair_indices,
    prune_below,
    pulled,
)
from sfumato.results import Result
from sfumato.tables import Table, table
from sfumato.wording import counted

METHODS = (
    "auto",
    "depth-first",
    "levelwise",
    "pruned",
    "iterative",
    "hitting-set",
    "agree-sets",
)
PRUNING_ROWS = 2000
"""Rows or pairs of the sample that `pruned` looks at first."""
SAMPLES = (0.01, 0.1)
"""Shares of the rows that `iterative` looks at, one after the other, as in the paper's Figure 2."""


@dataclass(frozen=True)
class MinimalKeys(Result):
    """All minimal column sets that reach a goal.

    Attributes
    ----------
    keys
        The sets, small ones first. Of columns that say the same only the first is named, unless
        they were asked to be expanded.
    represents
        How many minimal sets `keys` stands for: each column may be replaced by one that says the
        same.
    equivalents
        For a column named in `keys`, the others that could stand in its place.
    complete
        Whether these represent all of them; `max_size` and a spent budget leave some out.
    method, delta
        How they were found; with sampled pruning a set may be missing with probability δ.
    duplicate_rows
        Rows that equal an earlier row; then a key means "tells apart as well as all columns".
    counted
        What is told apart, ``rows`` or ``persons``.
    equal_pairs
        Pairs of rows of different persons that equal each other, which do the same to a key.
    """

    keys: tuple[tuple[str, ...], ...]
    represents: int
    equivalents: Mapping[str, tuple[str, ...]]
    complete: bool
    method: str
    goal: Mapping[str, Any]
    max_size: int | None
    duplicate_rows: int | None
    delta: float | None
    stopped_by: str | None
    notes: tuple[str, ...] = ()
    counted: str = "rows"
    equal_pairs: int | None = None


@within_budget
def minimal_keys(
    source: Any,
    *,
    columns: Sequence[str] | None = None,
    measure: str = "key",
    beta: float | None = None,
    max_size: int | None = None,
    method: str = "auto",
    expand: bool = False,
    delta: float = 0.01,
    samples: Sequence[float] | None = None,
    seed: int = 0,
    person: str | None = None,
    budget: Budget | None = None,
) -> MinimalKeys:
    """Find all minimal sets of columns that identify rows.

    Parameters
    ----------
    source
        Anything `sfumato.table` opens.
    columns
        Columns to choose from; None means all.
    measure, beta
        ``key``, or sets whose ``distinct`` or ``separation`` ratio is at least β.
    max_size
        Only sets of at most so many columns.
    method
        ``depth-first`` (stripped partitions), ``levelwise``, ``pruned`` (levelwise with a sample),
        ``iterative`` (with a series of samples), ``hitting-set`` (difference sets, keys only),
        ``agree-sets`` (one table for all subsets) or ``auto``.
    expand
        Name a set once for every choice among columns that say the same.
    delta
        Probability with which sampled pruning may lose a set.
    person
        Which rows belong to one person: persons are told apart, not rows; sets are then looked
        for level by level, whatever `method` says.
    samples
        Of ``iterative``: one sample a level, growing; shares of the rows up to 1, numbers of rows
        above. None means a hundredth and a tenth of the rows.

    Examples
    --------
    >>> import pyarrow as pa, sfumato as sf
    >>> people = pa.table({
    ...     "age": [20, 30, 40, 20, 40],
    ...     "sex": ["F", "F", "F", "M", "M"],
    ...     "state": ["CA", "CA", "TX", "NY", "CA"],
    ... })
    >>> sf.minimal_keys(people).keys
    (('age', 'sex'), ('age', 'state'))
    """
    if method not in METHODS:
        raise ParameterError(f"there is no method `{method}`", remedy=did_you_mean(method, METHODS))
    samples = _checked_samples(samples, method)
    question = KeyQuery(
        measure=measure, beta=None if beta == 1 else beta, max_size=max_size, delta=delta, seed=seed
    )
    if measure != "key" and beta is None:
        raise ParameterError(
            f"`{measure}` needs a ratio to reach", remedy=f"Give e.g. {spell('beta', 0.9)}."
        )
    budget = budget or Budget()
    opened = table(source, budget=budget)
    require_separation(measure, person)
    opened, person = persons_of(opened, person)
    if columns is not None:
        opened = opened.select(columns)
    if not opened.columns:
        raise ColumnError("no columns were named", where=opened.name, remedy="Name at least one.")
    budget.progress("reading the table")
    if person is not None:
        return _keys_of_persons(opened, person, question, budget)
    codes = held_here(opened, budget)
    if codes is None and question.beta is None and method in ("auto", "hitting-set"):
        return _keys_there(opened, question, budget)
    codes = codes or all_combinations(opened, budget)
    return _keys_here(opened, codes, question, method, samples, expand, budget)


def _keys_here(
    opened: Table,
    everything: Codes,
    question: KeyQuery,
    method: str,
    samples: Sequence[float],
    expand: bool,
    budget: Budget,
) -> MinimalKeys:
    """All minimal sets, found in combinations that were read; twins are searched for once."""
    twins = equivalents(everything)
    names = opened.columns
    hidden = {other for others in twins.values() for other in others}
    chosen = [at for at in range(len(names)) if at not in hidden]
    codes = everything.select([names[at] for at in chosen])
    search = _Search(codes, question, budget, samples)
    used = search.suited() if method == "auto" else method
    found = search.run(used).within(len(chosen), question.max_size)
    if search.duplicates:
        search.notes.insert(0, _no_key(search.duplicates, bool(found.sets)))
    sets = [tuple(chosen[c] for c in s) for s in found.sets]
    represents = sum(math.prod(1 + len(twins.get(c, ())) for c in s) for s in sets)
    if expand:
        sets = list(in_order(expanded(sets, twins)))
    found = replace(found, sets=tuple(sets))
    return replace(
        _answer(
            names,
            found,
            question,
            used,
            (
                *search.notes,
                *remedy_of(found.stopped_by, budget),
                *pulled(opened, everything),
            ),
        ),
        represents=represents,
        equivalents={
            names[c]: tuple(names[other] for other in others) for c, others in twins.items()
        },
        duplicate_rows=search.duplicates if question.beta is None else None,
        delta=question.delta if search.sampled and question.beta is not None else None,
    )


def _answer(
    names: Sequence[str], found: Minimal, question: KeyQuery, method: str, notes: Sequence[str]
) -> MinimalKeys:
    """What a search found, each set standing for itself."""
    return MinimalKeys(
        keys=tuple(tuple(names[c] for c in s) for s in found.sets),
        equivalents={},
        represents=len(found.sets),
        complete=found.complete,
        method=method,
        goal=question.goal,
        max_size=question.max_size,
        duplicate_rows=None,
        delta=None,
        stopped_by=found.stopped_by,
        notes=tuple(notes),
    )


def _checked_samples(samples: Sequence[float] | None, method: str) -> Sequence[float]:
    if samples is None:
        return SAMPLES
    if method != "iterative":
        raise ParameterError(
            "only the method `iterative` takes samples",
            remedy=f"Add {spell('method', 'iterative')}, or leave the samples out.",
        )
    if not samples or any(not 0 < size < math.inf for size in samples):
        raise ParameterError(
            "the sizes of samples are positive numbers",
            remedy=f"For example {spell('samples', [0.01, 0.1])}.",
        )
    return samples


def _keys_there(opened: Table, question: KeyQuery, budget: Budget) -> MinimalKeys:
    """All minimal keys, found where the rows are; columns that say the same are all named."""
    asks = Collisions(opened, budget, question.seed)
    names = opened.columns
    family = SetFamily(len(names))
    family.add(asks.first())

    def asked(waiting: list[Set]) -> Iterable[tuple[Set, Sets]]:
        for columns in waiting:
            if budget.spent():
                return
            if family.hit_by(columns):  # what was learnt since may have ruled it out
                yield columns, asks.demands(columns)

    found = _minimal(family, asked, question.max_size, budget)
    found = found.within(len(names), question.max_size)
    duplicates = None
    if found.sets and found.complete:
        sizes = asks.class_sizes(found.sets[0])
        duplicates = sizes.rows - sizes.classes
    notes = [*remedy_of(found.stopped_by, budget), asks.told()]
    if duplicates:
        notes.insert(0, _no_key(duplicates, bool(found.sets)))
    told = _answer(names, found, question, "hitting-set", notes)
    return replace(told, duplicate_rows=duplicates)


def _no_key(duplicates: int, listed: bool) -> str:
    """Why sets that are listed are no keys, or why there are none to list."""
    why = counted(duplicates, "row", does="equal an earlier row")
    why += " in all columns that were looked at, so there is no key"
    return why + "; these sets tell rows apart as well as all of those columns do" * listed


def _keys_of_persons(opened: Table, person: str, question: KeyQuery, budget: Budget) -> MinimalKeys:
    """All minimal sets that tell persons apart, or as well as all columns do."""
    histories = Histories.of(opened, person, budget)
    allowed = histories.pairs_allowed(question.beta)
    names = opened.columns
    found = levelwise(
        len(names), lambda s: histories.unseparated(s) <= allowed, question.max_size, budget
    )
    alike = histories.everything.unseparated_pairs
    notes = []
    if alike and question.beta is None:
        notes.append(
            f"{alike:,} pairs of rows of different persons are equal in all columns that were "
            "looked at, so there is no key"
            + "; these sets tell persons apart as well as all of those columns do"
            * bool(found.sets)
        )
    notes += [*remedy_of(found.stopped_by, budget), *pulled(opened, histories.codes)]
    told = _answer(names, found, question, "levelwise", notes)
    return replace(told, counted="persons", equal_pairs=alike)


class _Search:
    """One search with its goal; remembers what there is to say about it."""

    def __init__(
        self, codes: Codes, question: KeyQuery, budget: Budget, samples: Sequence[float]
    ) -> None:
        self.codes, self.question, self.budget = codes, question, budget
        self.samples = samples
        self.notes: list[str] = []
        self.sampled = False
        self.duplicates: int | None = None
        self.goal = self._goal()
        if question.beta is not None and all(
            self.goal.met(codes, (c,)) for c in range(len(codes.columns))
        ):
            self.notes.append(f"β = {question.beta:g} is so small that every column qualifies")

    def _goal(self) -> Goal:
        codes, question = self.codes, self.question
        if question.beta is not None:
            return goal_of(codes.rows, question)
        everything = histogram(codes, range(len(codes.columns)))
        self.duplicates = codes.rows - everything.classes
        return Goal(pairs=everything.unseparated_pairs)

    def suited(self) -> str:
        """The method that suits the size of the question."""
        width = len(self.codes.columns)
        if self.question.beta is None:
            return "hitting-set"
        if width <= DEPTH_FIRST_COLUMNS:
            return "depth-first"
        return "pruned"

    def run(self, method: str) -> Minimal:
        """Search by the method of that name."""
        codes, question, budget = self.codes, self.question, self.budget
        if method == "hitting-set":
            if question.beta is not None:
                raise ParameterError(
                    "difference sets find keys, not β-sets",
                    remedy="Use the method depth-first, levelwise or agree-sets.",
                )
            return _by_differences(codes, question.max_size, budget, question.seed)
        if method == "agree-sets":
            every = all_subsets(codes, budget)
            return minimal_from_subsets(every, self.goal, question.max_size)
        if method == "depth-first":
            return depth_first(codes, self.goal, question.max_size, budget)
        return self._levelwise(method)

    def _levelwise(self, method: str) -> Minimal:
        codes, question = self.codes, self.question
        random = np.random.default_rng(question.seed)
        pruner, border = None, None
        if method == "pruned":
            pruner = sample_pruner(codes, question, random)
        elif method == "iterative":
            border = sampled_border(codes, question, self.samples, random, self.budget)
        self.sampled = pruner is not None or border is not None
        if method != "levelwise" and not self.sampled and not self.budget.spent():
            self.notes.append("the sample is too small to rule anything out: went on without it")
        if border is not None:
            sizes = " and ".join(f"{rows:,}" for rows in border[1])
            self.notes.append(
                f"{len(border[0]):,} sets of samples of {sizes} rows are where the search began"
            )
        return levelwise(
            len(codes.columns),
            lambda s: self.goal.met(codes, s),
            question.max_size,
            self.budget,
            hopeless=pruner,
            border=((),) if border is None else border[0],
        )


def sample_pruner(
    codes: Codes, question: KeyQuery, random: np.random.Generator
) -> Callable[[Set], bool] | None:
    """A test on a sample that rules sets out; None when it is too small for that.

    The sample is of rows, or for separation of pairs.
    """
    rows = min(PRUNING_ROWS, codes.rows)
    if rows < 2:
        return None
    if question.beta is None or question.ratio == "distinct":
        goal_in = _goal_in_sample(codes, question, rows, question.delta)
        if goal_in is None:
            return None
        sample = _some_rows(codes, rows, random)
        goal = goal_in(sample)
        return lambda s: not goal.met(sample, s)
    width = len(codes.columns)
    threshold = prune_below(question.beta, rows, width, question.delta, question.max_size)
    if threshold <= 0:
        return None
    left, right = (_entries(codes, drawn) for drawn in pair_indices(codes.rows, rows, random))
    differ = np.stack([array[left] != array[right] for array in codes.arrays], axis=1)
    needed = threshold * len(differ)
    return lambda s: bool(np.count_nonzero(differ[:, list(s)].any(axis=1)) < needed)


def sampled_border(
    codes: Codes,
    question: KeyQuery,
    samples: Sequence[float],
    random: np.random.Generator,
    budget: Budget,
) -> tuple[tuple[Set, ...], tuple[int, ...]] | None:
    """Sets of which one is in every set that is sought, and the sizes of the samples that say so.

    The border of one sample, which are its minimal sets, is where the search of the next begins
    (section 3.1 of Motwani & Xu). Every sample spends its part of δ. None if no sample can prune.
    """
    border: tuple[Set, ...] = ((),)
    used: list[int] = []
    for size in samples:
        rows = min(codes.rows, int(size * codes.rows) if size <= 1 else int(size))
        goal_in = _goal_in_sample(codes, question, rows, question.delta / len(samples))
        if goal_in is None:
            continue
        sample = _some_rows(codes, rows, random)
        goal = goal_in(sample)
        found = levelwise(
            len(codes.columns),
            lambda s, sample=sample, goal=goal: goal.met(sample, s),  # type: ignore[misc]
            question.max_size,
            budget,
            border=border,
        )
        if found.stopped_by is not None:
            break
        border = found.sets
        used.append(rows)
    return (border, tuple(used)) if used else None


def _goal_in_sample(
    codes: Codes, question: KeyQuery, rows: int, delta: float
) -> Callable[[Codes], Goal] | None:
    """What a set must reach in a sample of rows, else it is no use; None if that is nothing."""
    if rows < 2:
        return None
    if question.beta is None:
        return _as_all_columns
    # The ratio over all pairs of r rows is an average of averages over r/2 disjoint pairs, so
    # the bound for r/2 independent pairs holds for it (Hoeffding 1963, section 5).
    units = rows if question.ratio == "distinct" else rows // 2
    threshold = prune_below(question.beta, units, len(codes.columns), delta, question.max_size)
    if threshold <= 0:
        return None
    pairs = rows * (rows - 1) // 2
    if question.ratio == "distinct":
        return lambda _: Goal(classes=math.ceil(threshold * rows))
    return lambda _: Goal(pairs=pairs - math.ceil(threshold * pairs))


def _as_all_columns(sample: Codes) -> Goal:
    """To tell apart what all columns tell apart; a set that fails here fails in the table too."""
    return Goal(pairs=histogram(sample, range(len(sample.columns))).unseparated_pairs)


def _some_rows(codes: Codes, rows: int, random: np.random.Generator) -> Codes:
    """Uniform sample of rows without replacement, each an entry of its own."""
    drawn = np.sort(random.choice(codes.rows, rows, replace=False))
    return replace(codes.take(_entries(codes, drawn)), counts=None)


def _entries(codes: Codes, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The entry each row number falls into."""
    if codes.counts is None:
        return rows
    return np.searchsorted(np.cumsum(codes.counts), rows, side="right")


MOST_SETS, TOLD_SETS = 2_000_000, 1_000
"""Sets enumerated at most; more are of no use to anybody. And how many of too many are tried."""
ENUMERATING = 0.5
"""Share of the time left for an enumeration: what it finds is still to be tried."""
FIRST_STEPS = 1 << 14
"""Steps of the first enumeration, where time is limited."""
FAILURES = 64
"""Failing sets that are looked into before the difference sets learnt are put to use."""
FIRST_ROWS = 2_000
FIRST_ORDERS = 3
"""How many random rows are looked at to begin with, and in how many random column orders."""


def _by_differences(codes: Codes, max_size: int | None, budget: Budget, seed: int) -> Minimal:
    """All minimal sets that tell apart all rows which all columns tell apart."""
    if codes.entries < 2:
        return Minimal(((),))
    family = SetFamily(len(codes.columns))
    random = np.random.default_rng(seed)
    # What random rows demand the whole table demands, too.
    family.add(
        differences_within_classes(
            codes, kernels.whole(codes.entries), random, rows=FIRST_ROWS, orders=FIRST_ORDERS
        )
    )
    trial = _Trial(codes, random)

    def asked(waiting: list[Set]) -> Iterator[tuple[Set, Sets]]:
        failed = 0
        for columns in trial.in_search_order(waiting):
            if budget.spent() or failed >= FAILURES:
                return
            if family.hit_by(columns):  # what was learnt since may have ruled it out
                demands = trial.demands(columns)
                failed += len(demands) > 0
                yield columns, demands

    return _minimal(family, asked, max_size, budget)


def _minimal(
    family: SetFamily,
    asked: Callable[[list[Set]], Iterable[tuple[Set, Sets]]],
    max_size: int | None,
    budget: Budget,
) -> Minimal:
    """All minimal sets, of which the demands of a family are some.

    Parameters
    ----------
    family
        What is demanded so far; it learns.
    asked
        Told of sets that meet all of it, tells of some of them what else they must meet: nothing
        of a set that is sought.
    """
    proven: set[Set] = set()
    while True:
        sets, stopped = minimal_hitting_sets(family.matrix, max_size, budget)
        budget.progress(f"{len(proven)} proven of {len(sets)}", len(proven) / max(1, len(sets)))
        if stopped is not None:
            found = asked([columns for columns in sets if columns not in proven])
            proven |= {columns for columns, demands in found if not len(demands)}
            return Minimal(in_order(proven), False, budget.stopped_by or stopped)
        for columns, demands in asked([columns for columns in sets if columns not in proven]):
            if len(demands):
                family.add(demands)
            else:
                proven.add(columns)
        if proven.issuperset(sets):
            return Minimal(in_order(sets), max_size is None or max_size >= family.columns)
        if budget.spent():
            return Minimal(in_order(proven), False, budget.stopped_by)


def minimal_hitting_sets(
    edges: npt.NDArray[np.bool_], max_size: int | None = None, budget: Budget | None = None
) -> tuple[list[Set], str | None]:
    """All minimal sets of columns that hit every row of a boolean matrix; or why not all of them.

    Where they are too many, take more than a quarter of the memory, or longer than there is time,
    they are a few, the smallest that were found.

    Examples
    --------
    >>> minimal_hitting_sets(np.array([[True, True, False], [False, True, True]]))[0]
    [(1,), (0, 2)]
    """
    count, width = edges.shape
    if not count:
        return [()], None
    edges = edges[np.argsort(edges.sum(axis=1), kind="stable")]
    packed, budget = in_words(np.ascontiguousarray(edges.T)), budget or Budget()
    most, steps = MOST_SETS, 1 << 62
    if budget.memory is not None:
        most = min(most, max(FEW_SETS, budget.memory // 4 // (SET_BYTES + 5 * width)))
    if budget.seconds is not None:
        steps = FIRST_STEPS
    brief = budget.part(ENUMERATING)
    while True:
        before = brief.remaining
        complete, found = hitting_sets(
            packed, packed.shape[1], most, width if max_size is None else max_size, steps
        )
        # each attempt begins anew, and takes four times as long as the last
        if complete or len(found) == most or brief.remaining < 4 * (before - brief.remaining):
            break
        steps *= 4
    stopped = None
    if not complete:
        stopped = TOO_MANY if len(found) == most else "time"
        found = found[np.argsort(found.sum(axis=1), kind="stable")[:TOLD_SETS]]
    sets = [tuple(np.flatnonzero(row).tolist()) for row in found]
    return sorted(sets, key=lambda s: (len(s), s)), stopped


class _Trial:
    """Tries column sets on the table, sharing the partitions of common beginnings."""

    def __init__(self, codes: Codes, random: np.random.Generator) -> None:
        self.codes, self.random = codes, random
        # Columns with many values first: partitions then are small from the start.
        self.rank = {
            column: at
            for at, column in enumerate(
                sorted(range(len(codes.columns)), key=lambda c: -codes.cardinalities[c])
            )
        }
        self._path: list[int] = []
        self._partitions = [kernels.whole(codes.entries)]

    def in_search_order(self, sets: Iterable[Set]) -> list[Set]:
        """Sets ordered so that those with common beginnings follow each other."""
        return sorted(sets, key=lambda s: sorted(self.rank[c] for c in s))

    def demands(self, columns: Set) -> npt.NDArray[np.bool_]:
        """Difference sets of rows a set fails to tell apart; none for a key."""
        return differences_within_classes(
            self.codes, self._partition(columns), self.random, rows=2000, orders=2
        )

    def _partition(self, columns: Set) -> kernels.Partition:
        wanted = sorted(columns, key=lambda c: self.rank[c])
        common = 0
        while common < min(len(wanted), len(self._path)) and wanted[common] == self._path[common]:
            common += 1
        del self._path[common:], self._partitions[common + 1 :]
        for column in wanted[common:]:
            finer = kernels.split(
                self._partitions[-1], self.codes.arrays[column], self.codes.cardinalities[column]
            )
            self._path.append(column)
            self._partitions.append(finer)
        return self._partitions[-1]
