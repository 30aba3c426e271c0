"""What is promised about a population: that rows match k people of it, counted or estimated.

k-map is checked as an attacker would check it: by joining what is released with the people. The
population stays where it is, and so do the trees: the certificate names them, and whoever verifies
it says where they are now. Nothing that a certificate names is opened.

Where there is no table of people, the share of rows that match at least k is judged from the sample
alone. Theorem 4 assumes equally likely cells. Real columns are skewed and depend on one another, so
it is measured: a row shares its cell with c-1 other rows of the sample, and if the cell holds N of
the universe's people these others are a Binomial(N-1, f) thinning of it, f the sampling fraction.
Two figures follow from the histogram of cell sizes:

- `estimate`: the mixture over N that explains the histogram best (nonparametric maximum
  likelihood), and the share of rows it puts at N >= k;
- `at_least`: a bound that no distribution of cells can break, but for sampling error. Numbers a_c
  are chosen with E[a_{c-1} | N] >= 1 for N < k and >= 0 otherwise; the mean of a over the rows is
  then never below the share of rows with N < k. A linear program finds the a that makes it small.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.budget import Budget
from sfumato.engines.encoding import codes_from_arrow, codes_of_table
from sfumato.engines.protocol import CELL_BYTES, ENOUGH_BYTES, ClassSizes, Codes, asks_sql
from sfumato.engines.spool import give_back
from sfumato.errors import ParameterError, did_you_mean, spell
from sfumato.files import names_same
from sfumato.hierarchy import Hierarchy
from sfumato.populations.attack import matching
from sfumato.populations.bounds import check_promise, distinct_allowed
from sfumato.privacy import KMap, ModelFinding
from sfumato.release.promise import Finding
from sfumato.results import Result
from sfumato.tables import Table
from sfumato.wording import counted

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

SOME_BATCHES = 4
"""Batches of people that are looked up at once where not all of them fit."""
STANDARD_ERRORS = 3.0
"""How far `at_least` stays below its mean; 3 leaves one chance in 740."""

LARGEST_PROGRAM = 40.0
"""Expected sample rows in a cell of k people up to which the likelihood and the linear program are
worth it; above, counts speak for themselves."""

FIGURES = ("estimate", "at_least")
"""Figures that can be promised."""
THRESHOLDS = 100
"""Simple bounds tried."""


@dataclass(frozen=True)
class PeopleShare(Result):
    """Share of rows whose cell holds at least k people of the universe.

    `exact` is True when the table is the universe: then both figures are simply counted.
    """

    k: int
    universe: float
    rows: int
    cells: int
    estimate: float
    at_least: float
    exact: bool


def people_share(sizes: ClassSizes, universe: float, k: int, *, seed: int = 0) -> PeopleShare:
    """Share of rows that match at least k people, from the cell sizes of a sample.

    Parameters
    ----------
    sizes
        Class sizes of the released quasi-identifiers.
    universe
        People in the population the rows were drawn from.
    k
        People a row should match.
    seed
        For the split of the cells into one half that chooses the bound and one that computes it.

    Examples
    --------
    A one-per-cent sample of 10 million people in 20,000 cells of about 500 people each:

    >>> cells = np.random.default_rng(1).multinomial(100_000, [1 / 20_000] * 20_000)
    >>> share = people_share(ClassSizes.of_counts(cells), universe=1e7, k=100)
    >>> share.estimate > 0.99, 0.95 < share.at_least <= 1
    (True, True)
    """
    check_promise(universe, k, 0.5)
    estimate, at_least = (share_figure(name, sizes, universe, k, seed=seed) for name in FIGURES)
    exact = sizes.rows / universe >= 1
    return PeopleShare(k, universe, sizes.rows, sizes.classes, estimate, at_least, exact)


def share_figure(name: str, sizes: ClassSizes, universe: float, k: int, *, seed: int = 0) -> float:
    """One of the figures of `people_share`: whoever searches by one need not wait for both."""
    rows = sizes.rows
    fraction = rows / universe
    safe = 1 - sizes.rows_below(k) / rows if rows else 1.0
    if fraction >= 1 or k == 1 or rows == 0:
        return safe
    classes = _by_count(sizes, _largest_count(k, fraction))
    below = _share_below(name, classes.tobytes(), rows, k, fraction, seed)
    return max(safe, min(1.0, 1 - below))  # k sample rows are k people already


@lru_cache(maxsize=256)
def _share_below(name: str, classes: bytes, rows: int, k: int, fraction: float, seed: int) -> float:
    """Share of rows with N < k, once: plans that differ little, and their release, are alike."""
    cells = np.frombuffer(classes, np.int64)
    if name == "estimate":
        return _likely_share_below(cells, rows, k, fraction)
    return _bound_below(cells, rows, k, fraction, seed)


def _largest_count(k: int, fraction: float) -> int:
    """Sample rows in a cell above which fewer than k people are out of the question."""
    mean = k * fraction
    return min(k, math.ceil(mean + 6 * math.sqrt(mean) + 10))


def _by_count(sizes: ClassSizes, largest: int) -> npt.NDArray[np.int64]:
    """Number of cells with 1, 2, …, `largest` rows."""
    few = sizes.sizes <= largest
    classes = np.zeros(largest, np.int64)
    classes[sizes.sizes[few] - 1] = sizes.classes_of_size[few]
    return classes


def _people_grid(k: int, fraction: float, largest: int) -> npt.NDArray[np.int64]:
    """Cell sizes N, closer together than the others' standard deviation can tell apart."""
    most = largest + 8 * math.sqrt(largest) + 10
    steps = np.arange(0.0, math.sqrt(most), 0.02) ** 2 / fraction
    edge = np.array([1, 2, k - 1, k, k + 1])
    return np.unique(np.concatenate([edge, np.ceil(steps)]).clip(1)).astype(np.int64)


def _others(people: npt.NDArray[np.int64], fraction: float, largest: int) -> Floats:
    """P(c-1 = 0, 1, …, largest-1 other rows | N people), one line for each N.

    Binomial, each from the one before it, in logarithms: large cells may be sure to have more.
    """
    less = (people - 1)[:, None]
    steps = np.arange(1, largest)
    with np.errstate(divide="ignore"):
        ratios = np.log(np.maximum(less + 1 - steps, 0) * (fraction / (1 - fraction)) / steps)
    none = less * math.log1p(-fraction)
    return np.asarray(np.exp(np.cumsum(np.hstack([none, ratios]), axis=1)))


def _likely_share_below(
    classes: npt.NDArray[np.int64], rows: int, k: int, fraction: float
) -> float:
    """Share of rows with N < k under the likeliest mixture, by expectation-maximization."""
    largest = len(classes)
    seen = classes * np.arange(1, largest + 1) / rows
    if k * fraction > LARGEST_PROGRAM:  # so many rows a cell that counts scaled up are near enough
        return float(seen[1 + np.arange(largest) / fraction < k].sum())
    people = _people_grid(k, fraction, largest)[::2]
    chances = _others(people, fraction, largest)
    beyond = 1 - seen.sum()
    if beyond >= 1:
        return 0.0
    tail = np.maximum(0.0, 1 - chances.sum(axis=1))
    chances, seen = np.column_stack([chances, tail]), np.append(seen, beyond)
    # a cell large enough that its rows all lie beyond the counts looked at
    chances = np.vstack([chances, np.append(np.zeros(largest), 1.0)])
    below = np.append(people < k, False)
    share = np.full(len(chances), 1 / len(chances))
    for _ in range(2_000):
        mixture = share @ chances
        gain = chances @ np.divide(seen, mixture, out=np.zeros_like(seen), where=mixture > 0)
        share *= gain
        if gain.max() < 1 + 1e-5:  # the likelihood cannot rise by more than this (Lindsay)
            break
    return float(share[below].sum())


def _bound_below(
    classes: npt.NDArray[np.int64], rows: int, k: int, fraction: float, seed: int
) -> float:
    """Upper bound on the share of rows with N < k.

    Each half of the cells is judged by the numbers a that the other half chose, so that choosing
    does not flatter the result.
    """
    random = np.random.default_rng(seed)
    half = random.binomial(classes, 0.5)
    total = variance = 0.0
    candidates = _candidates(k, fraction, len(classes))
    for chosen_by, judged in ((half, classes - half), (classes - half, half)):
        a = candidates.best(chosen_by, rows / 2)
        per_cell = a * np.arange(1, len(classes) + 1)
        total += float((judged * per_cell).sum())
        variance += float((judged * per_cell**2).sum())
    return total / rows + STANDARD_ERRORS * math.sqrt(variance) / rows


@dataclass(frozen=True, eq=False)
class _Candidates:
    """Valid choices of a, to be tried on one half of the cells."""

    fixed: Floats
    chances: Floats | None
    below: npt.NDArray[np.bool_]

    def best(self, classes: npt.NDArray[np.int64], rows: float) -> Floats:
        weight = np.arange(1, len(classes) + 1)
        seen = classes * weight / rows
        tried = [*self.fixed]
        if self.chances is not None:
            tried += [a for size in (2, 4, 8) if (a := self._program(seen, size)) is not None]

        def judged(a: Floats) -> float:
            error = math.sqrt(float((classes * (weight * a) ** 2).sum())) / rows
            return max(0.0, float(seen @ a)) + STANDARD_ERRORS / math.sqrt(2) * error

        return min(tried, key=judged)

    def _program(self, seen: Floats, size: float) -> Floats | None:
        from scipy.optimize import linprog

        assert self.chances is not None
        found = linprog(
            seen,
            A_ub=-self.chances,
            b_ub=-self.below.astype(float) - 1e-9,
            bounds=[(-size, size)] * len(seen),
            method="highs",
            options={"presolve": False},  # takes a third of the time, and finds nothing
        )
        return np.asarray(found.x) if found.status == 0 else None


def _candidates(k: int, fraction: float, largest: int) -> _Candidates:
    # the simplest valid a: fewer than t others, over the chance that k-1 people have so few
    thresholds = np.unique(np.linspace(1, largest, THRESHOLDS).astype(np.int64))
    few = np.cumsum(_others(np.array([k - 1]), fraction, largest)[0])[thresholds - 1]
    usable = few > 0.05
    steps = np.arange(largest)[None, :] < thresholds[usable][:, None]
    fixed = steps / few[usable][:, None]
    if k * fraction > LARGEST_PROGRAM:
        return _Candidates(fixed, None, np.empty(0, np.bool_))
    people = _people_grid(k, fraction, largest)
    return _Candidates(fixed, _others(people, fraction, largest), people < k)


@dataclass(frozen=True)
class MatchesPeople:
    """At least a share 1-β of the rows match at least k people of the universe, as measured."""

    universe: float
    """People in the population."""
    k: int
    """People that a row must match."""
    beta: float
    """The share of rows that may match fewer."""
    columns: tuple[str, ...]
    """Columns that others may know."""
    figure: str = "at_least"
    """Which figure must be large enough: `at_least`, a bound, or what is estimated."""
    kind: str = field(default="matches-people", init=False)

    def __post_init__(self) -> None:
        check_promise(self.universe, self.k, self.beta)
        if self.figure not in FIGURES:
            raise ParameterError(
                f"there is no figure `{self.figure}`", remedy=did_you_mean(self.figure, FIGURES)
            )

    def to_dict(self) -> dict[str, Any]:
        return {
            "universe": self.universe,
            "k": self.k,
            "beta": self.beta,
            "columns": list(self.columns),
            "figure": self.figure,
        }

    @classmethod
    def from_dict(cls, parameters: Mapping[str, Any]) -> Self:
        return cls(
            float(parameters["universe"]),
            int(parameters["k"]),
            float(parameters["beta"]),
            tuple(parameters["columns"]),
            str(parameters["figure"]),
        )

    def check(self, table: Table, budget: Budget | None = None) -> Finding:
        share = people_share(table.class_sizes(self.columns, budget), self.universe, self.k)
        measured = share.estimate if self.figure == "estimate" else share.at_least
        return Finding(
            check=self.kind,
            holds=measured >= 1 - self.beta,
            say=f"{measured:.1%} of the rows match at least {self.k:,} of {self.universe:,.0f} "
            f"people, {1 - self.beta:.1%} was promised",
            measured={"estimate": share.estimate, "at_least": share.at_least},
            remedy="Ask for a smaller k or a larger β.",
        )


@dataclass(frozen=True)
class FewValues:
    """The product of the columns' distinct values does not exceed what Theorem 4 allows."""

    distinct: float
    """The largest product that is allowed."""
    columns: tuple[str, ...]
    """Columns that others may know."""
    kind: str = field(default="few-values", init=False)

    def follows(self, asked: Mapping[str, Any]) -> bool:
        """Whether it is what Theorem 4 allows for the people, k and β that were asked."""
        universe, k, beta = (asked.get(name) for name in ("universe", "k", "beta"))
        try:
            return distinct_allowed(universe, k, beta) == self.distinct  # type: ignore[arg-type]
        except (ParameterError, TypeError):
            return False

    def to_dict(self) -> dict[str, Any]:
        return {"distinct": self.distinct, "columns": list(self.columns)}

    @classmethod
    def from_dict(cls, parameters: Mapping[str, Any]) -> Self:
        return cls(float(parameters["distinct"]), tuple(parameters["columns"]))

    def check(self, table: Table, budget: Budget | None = None) -> Finding:
        found = math.prod(table.class_sizes([name], budget).classes for name in self.columns)
        return Finding(
            check=self.kind,
            holds=found <= self.distinct,
            say=f"the columns have {found:,} combinations of values, at most "
            f"{self.distinct:,.0f} were promised",
            measured={"distinct": found},
            remedy="Ask for a smaller k or a larger β.",
        )


@dataclass(frozen=True, eq=False)
class MatchesPopulation:
    """Every row matches at least k people, for each of the quasi-identifier sets.

    Parameters
    ----------
    k
        People that a row must match.
    qi
        The sets of columns by which people are looked for.
    population
        What the table of people is called.
    fingerprint
        The keyed digest of that table; without one any table will do.
    hierarchies
        Trees whose nodes the release shows, by column.
    people
        The population itself, where it is at hand.
    trees
        Columns whose cells may be nodes of trees.
    """

    k: int
    qi: tuple[tuple[str, ...], ...]
    population: str
    fingerprint: str | None = None
    hierarchies: Mapping[str, Hierarchy] = field(default_factory=dict)
    people: Table | None = None
    trees: tuple[str, ...] = ()
    kind: str = field(default="k-map", init=False)

    def to_dict(self) -> dict[str, Any]:
        return {
            "k": self.k,
            "qi": [list(names) for names in self.qi],
            "population": self.population,
            "fingerprint": self.fingerprint,
            "trees": sorted({*self.trees, *self.hierarchies}),
        }

    @classmethod
    def from_dict(cls, parameters: Mapping[str, Any]) -> Self:
        return cls(
            int(parameters["k"]),
            tuple(tuple(names) for names in parameters["qi"]),
            str(parameters["population"]),
            parameters["fingerprint"],
            trees=tuple(map(str, parameters["trees"])),
        )

    def with_people(self, people: Table | None, hierarchies: Mapping[str, Hierarchy]) -> Self:
        """The same, with the tables and trees that it needs."""
        own = {name: tree for name, tree in hierarchies.items() if name in self.trees}
        return replace(self, people=people, hierarchies=own)

    def check(self, table: Table, budget: Budget | None = None) -> Finding:
        """Join the released rows with the people, set by set."""
        people = self.people
        missing = [name for name in self.trees if name not in self.hierarchies]
        if people is None or missing:
            return self._unchecked(missing)
        if names_same(self.fingerprint, people.fingerprint()) is False:
            return Finding(
                check=self.kind,
                holds=False,
                say=f"the population {people.name} is not the one that the release was made for: "
                "its digest differs",
                measured={"not_checked": [f"k-map = {self.k}, for people of another table now"]},
                remedy="Get that table again, or release for this one.",
            )
        found = [self._joined(table, people, names, budget) for names in self.qi]
        broken = [finding for finding in found if not finding.holds]
        return Finding(
            check=self.kind,
            holds=not broken,
            say="; ".join(_sentence(finding, people) for finding in broken or found),
            measured={"checks": found, "people": people.rows},
            remedy="Ask for a smaller k, or allow more blurring.",
        )

    def _unchecked(self, missing: list[str]) -> Finding:
        needed = [] if self.people is not None else [spell("population", "voters.parquet")]
        needed += [spell("hierarchies", "trees/")] if missing else []
        sets = "; ".join(", ".join(names) for names in self.qi)
        return Finding(
            check=self.kind,
            holds=False,
            say=f"k-map (k = {self.k:,} on {sets}) was not checked: a certificate opens nothing, "
            "so the tables and trees it needs must be named",
            remedy=f"Say where they are: {' '.join(needed)}.",
        )

    def _joined(
        self, released: Table, people: Table, names: tuple[str, ...], budget: Budget | None
    ) -> ModelFinding:
        released.require(names)
        people.require(names)
        outside = _People(people, names, budget)
        figures = []
        memory = (budget and budget.memory) or ENOUGH_BYTES
        # Who counts people here holds some of them, too, beside the classes.
        copies = 4 if outside.there else 16
        most = memory // (CELL_BYTES * (len(names) + 1) * copies)
        parts = -(-released.rows // most)
        if parts > 1 and asks_sql(released.engine):
            # All people are looked at for each part of the classes.
            parts = -(-released.class_sizes(names, budget).classes // most)

            def joined(classes: pa.Table) -> pa.Table:
                rows = codes_from_arrow(classes, classes.column_names[-1])
                figures.append(self._matched(rows, outside))
                return pa.table({"done": [1]})

            schema = pa.schema([("done", pa.int64())])
            released.engine.over_classes(names, names, parts, joined, schema, budget, here=True)
        else:
            rows = released.classes(names, budget=budget)
            figures += [self._matched(rows, outside)] if rows.entries else []
        fewest = min((smallest for smallest, _, _ in figures), default=None)
        return ModelFinding(
            model=KMap.name,
            qi=names,
            column=None,
            asked={"k": self.k},
            measured={"k": fewest},
            holds=fewest is None or fewest >= self.k,
            failing_classes=sum(classes for _, classes, _ in figures),
            failing_rows=sum(rows for _, _, rows in figures),
        )

    def _matched(self, rows: Codes, outside: _People) -> tuple[int, int, int]:
        """The fewest people that a class matches; classes that match too few, and their rows."""
        found, held = outside.matching(rows, self.hierarchies)
        few = found < self.k
        return int(found.min()), int(few.sum()), int(held[few].sum())


class _People:
    """The people of a population, at once where they fit, else some at a time.

    They are counted where they are if that is possible.
    """

    def __init__(self, people: Table, names: tuple[str, ...], budget: Budget | None) -> None:
        self.names = names
        self.people = people
        self.budget = budget
        self.values = {name: people.values(name).values[0] for name in names}
        memory = (budget and budget.memory) or ENOUGH_BYTES
        able, size = people.engine.capabilities, people.rows * CELL_BYTES * (len(names) + 1)
        self._fit = not able.replayable or able.coded or size <= memory // 4
        self.there = not self._fit and asks_sql(people.engine) and able.runs_work
        """Whether people are counted where they are."""
        self._parts = -(-size * 8 // memory)

    def matching(self, rows: Codes, trees: Mapping[str, Hierarchy]) -> tuple[Floats, Ints]:
        """How many people each combination of released cells matches, and the rows that show it."""
        engine = self.people.engine
        counting = _Counting(rows, self.names, self.values, trees)
        if not (self.there and asks_sql(engine)):
            return counting.among(self)
        found, held = counting.among(())
        told = engine.over_classes(
            self.names, self.names, self._parts, counting, _Counting.told, self.budget, summed=True
        )
        found[told.column(0).to_numpy()] = told.column(1).to_numpy()
        return found, held

    def __iter__(self) -> Iterator[Codes]:
        if self._fit:
            yield self.people.classes(self.names, budget=self.budget)
            return
        schema = pa.schema([(n, self.people.column(n).type) for n in self.names])
        held: list[pa.RecordBatch] = []
        for batch in self.people.batches(self.names):
            held.append(batch.cast(schema))
            if len(held) == SOME_BATCHES:
                yield codes_of_table(pa.Table.from_batches(held))
                held = []
                give_back()
        if held:
            yield codes_of_table(pa.Table.from_batches(held))


@dataclass(frozen=True, eq=False)
class _Counting:
    """Counts the people of a part who match released cells, wherever it is called."""

    rows: Codes
    names: tuple[str, ...]
    values: Mapping[str, pa.Array]
    trees: Mapping[str, Hierarchy]
    told: ClassVar[pa.Schema] = pa.schema([("class", pa.int64()), ("people", pa.int64())])

    def among(self, people: Iterable[Codes]) -> tuple[Floats, Ints]:
        return matching(self.rows, people, self.names, self.values, self.trees)

    def __call__(self, classes: pa.Table) -> pa.Table:
        found, _ = self.among([codes_from_arrow(classes, classes.column_names[-1])])
        some = np.flatnonzero(found)
        return pa.table([some, found[some].astype(np.int64)], schema=self.told)


def _sentence(finding: ModelFinding, people: Table) -> str:
    failing = (
        f" ({counted(finding.failing_rows, 'row', does='match')} fewer)"
        if finding.failing_rows
        else ""
    )
    fewest = finding.measured["k"]
    return (
        f"k-map on {', '.join(finding.qi)}: every row matches at least "
        f"{'none' if fewest is None else format(fewest, ',')} of {people.rows:,} people, "
        f"{finding.asked['k']:,} asked{failing}"
    )
