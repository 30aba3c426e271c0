"""The verb `population`: which columns can identify people of a population, and how to blur them.

Every set is judged by how many values it can take (Lodha & Thomas, section 2) against how many
people there are; the share of unique rows in the table itself stands beside it, the measure that
earlier definitions used and that says little about a population.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sfumato.budget import Budget, within_budget
from sfumato.columns.persons import require_person
from sfumato.engines.protocol import ClassSizes, Codes
from sfumato.errors import ColumnError, ParameterError, SourceError, spell
from sfumato.hierarchy import Hierarchy, read_folder
from sfumato.kernels import size_histogram
from sfumato.populations.bounds import (
    check_promise,
    check_universe,
    distinct_needed,
    minimal_sets,
    possible_sets,
    product_of,
    uniqueness_bound,
)
from sfumato.populations.estimators import (
    CopulaUniqueness,
    PopulationUniqueness,
    fit_copula,
    population_uniqueness,
)
from sfumato.populations.plan import (
    Blurrer,
    Plan,
    PrivacyUtilityCurve,
    Repair,
    cell_sizes,
    check_weights,
    make_plan,
    privacy_utility_curve,
    release_of_plan,
)
from sfumato.populations.safe_harbor import direct_identifiers
from sfumato.release import Release, publish
from sfumato.release.certificate import check_place
from sfumato.results import Result
from sfumato.tables import Table, table
from sfumato.tables.open import refuse_too_wide

Distinct = Literal["product", "joint", "estimate"]

MOST_SETS = 200
"""Minimal column sets reported at most."""


@dataclass(frozen=True)
class Domain(Result):
    """How many values a column can take, and where that number comes from."""

    column: str
    distinct: int
    source: Literal["declared", "observed"]


@dataclass(frozen=True)
class ColumnSet(Result):
    """One column set against the population.

    `distinct` is D, by the way named in the report; `bound` is what the expected share of unique
    people does not exceed if they are drawn at random from D values (the paper's F2), None where
    the table is the universe and nothing needs to be expected; `unique` is the share of unique
    rows in the table itself (F1); `certain` is the share of the people who are unique whoever is
    not in the table; `k` is n/D, how many people there are for each value; `observed` and
    `estimated` are the joint distinct values seen in the table and estimated for the population
    (Chao).
    """

    columns: tuple[str, ...]
    distinct: float
    bound: float | None
    unique: float
    certain: float
    k: float
    observed: int
    estimated: float
    quasi_identifier: bool


class Judge:
    """Judges column sets of the entries."""

    def __init__(
        self,
        entries: Codes,
        domains: Mapping[str, int],
        people: float,
        counted_by: Distinct,
        alpha: float,
    ) -> None:
        self.entries = entries
        self.domains = domains
        self.people = people
        self.counted_by = counted_by
        self.alpha = alpha
        self.needed = distinct_needed(alpha, people)
        self._seen: dict[tuple[str, ...], ClassSizes] = {}

    def of(self, columns: tuple[str, ...]) -> ColumnSet:
        sizes = self._sizes(columns)
        values = self.distinct(columns)
        return ColumnSet(
            columns=columns,
            distinct=values,
            bound=None if self.counts else uniqueness_bound(values, self.people),
            unique=sizes.unique,
            certain=self.certain(columns),
            k=self.people / max(values, 1),
            observed=sizes.classes,
            estimated=self._estimate(columns),
            quasi_identifier=self.reached(columns) >= 1,
        )

    @property
    def counts(self) -> bool:
        """Whether the table is the universe, so that uniques are counted and nothing expected."""
        return self.people <= self.entries.rows

    def certain(self, columns: tuple[str, ...]) -> float:
        """Share of the people unique for certain: each person not here can spoil one unique."""
        unseen = self.people - self.entries.rows
        return max(0.0, self._sizes(columns).unique_rows - unseen) / self.people

    def reached(self, columns: tuple[str, ...]) -> float:
        """How far columns are on their way to α: by their values, or by what was counted."""
        counted = self.certain(columns) / self.alpha
        return counted if self.counts else max(counted, self.distinct(columns) / self.needed)

    def distinct(self, columns: tuple[str, ...]) -> float:
        if self.counted_by == "product":
            return product_of(self.domains, columns)
        joint = self._sizes(columns).classes
        return float(joint) if self.counted_by == "joint" else self._estimate(columns)

    def quasi_identifiers(self, max_size: int | None) -> tuple[list[tuple[str, ...]], bool]:
        """Minimal column sets that reach α, and whether they are all."""
        if self.certain(tuple(self.domains)) >= self.alpha:
            return self._by_count(max_size)
        if self.counts:
            return [], True  # all columns together make too few people unique
        if self.counted_by == "product":
            return possible_sets(self.domains, self.needed, max_size, MOST_SETS)
        return minimal_sets(self.domains, self.distinct, self.needed, max_size, MOST_SETS)

    def _by_count(self, max_size: int | None) -> tuple[list[tuple[str, ...]], bool]:
        """Minimal column sets that reach α also by what was counted.

        So many uniques need so many values, whatever was declared.
        """
        shown = zip(self.entries.columns, self.entries.cardinalities, strict=True)
        widest = {name: max(seen, self.domains[name]) for name, seen in shown}
        least = min(self.needed, self.alpha * self.people)
        return minimal_sets(
            widest, lambda columns: self.reached(columns) * least, least, max_size, MOST_SETS
        )

    def _sizes(self, columns: tuple[str, ...]) -> ClassSizes:
        if columns not in self._seen:
            self._seen[columns] = sizes_of(self.entries.select(columns))
        return self._seen[columns]

    def _estimate(self, columns: tuple[str, ...]) -> float:
        """Distinct values in the population after Chao (1984), never above the product.

        Singles and pairs of the sample tell how many values it has not seen: at least
        f1(f1-1)/2(f2+1). Dependence between columns is in these counts. Bounded from below by what
        its parts have, so that more columns never have fewer values.
        """
        sizes = self._sizes(columns)
        few = sizes.to_dict()
        singles, pairs = few.get(1, 0), few.get(2, 0)
        estimate = sizes.classes + singles * (singles - 1) / (2 * (pairs + 1))
        widest = max(self.domains[name] for name in columns)
        return float(min(max(estimate, widest), product_of(self.domains, columns)))


def sizes_of(entries: Codes) -> ClassSizes:
    """Class sizes of all columns of the entries."""
    found = size_histogram(
        entries.arrays, entries.cardinalities, entries.counts, entries=entries.entries
    )
    return ClassSizes(*found)


@dataclass(frozen=True, eq=False)
class Sample:
    """What is known of the people in a table.

    Attributes
    ----------
    entries, sizes
        Who is counted, by the columns judged, and the class sizes of these columns together.
    blurrers
        How each column can be blurred.
    domains
        How many values each column can take.
    """

    entries: Codes
    sizes: ClassSizes
    blurrers: Mapping[str, Blurrer]
    domains: tuple[Domain, ...]

    @property
    def rows(self) -> int:
        """How many are counted."""
        return self.sizes.rows

    @property
    def known(self) -> dict[str, int]:
        """How many values each column can take, by name."""
        return {domain.column: domain.distinct for domain in self.domains}

    def too_small(self) -> list[str]:
        """Domains below what the table shows, as of coarser columns (the paper's figure 3)."""
        return [
            f"column `{domain.column}` is declared to have {domain.distinct:,} values but the "
            f"table shows {self.blurrers[domain.column].domain:,}: f(D/n) is too small for it as "
            "it is"
            for domain in self.domains
            if domain.distinct < self.blurrers[domain.column].domain
        ]


def read_sample(
    opened: Table,
    chosen: tuple[str, ...],
    person: str | None,
    domains: Mapping[str, int] | None,
    hierarchies: str | Path | Mapping[str, Hierarchy] | None,
    pad_zip: bool,
    budget: Budget,
) -> Sample:
    """Count the rows of a table, or its people, by the columns chosen."""
    entries = _entries(opened, chosen, person, budget)
    sizes = sizes_of(entries)
    if not sizes.rows:
        raise SourceError(
            "the table has no rows, which say nothing about a population",
            where=opened.name,
            remedy="Give a table with rows.",
        )
    blurrers = _blurrers(entries, _trees(hierarchies, opened), pad_zip)
    return Sample(entries, sizes, blurrers, _declared(domains, blurrers))


def quasi_identifiers(
    opened: Table, qi: Sequence[str] | None, person: str | None, seed: int, budget: Budget
) -> tuple[tuple[str, ...], list[str]]:
    """The columns to judge, and a word about those left out."""
    if qi is not None:
        return opened.require(qi), []
    others = [name for name in opened.columns if name != person]
    named = direct_identifiers(opened, others, seed, budget)
    chosen = tuple(name for name in others if name not in named)
    if not chosen:
        raise ColumnError(
            "there are no columns to judge", where=opened.name, remedy="Name quasi-identifiers."
        )
    said = []
    if named:
        columns = ", ".join(f"`{name}`" for name in named)
        said.append(f"not judged, because they name people outright: {columns}")
    return chosen, said


def _entries(opened: Table, chosen: tuple[str, ...], person: str | None, budget: Budget) -> Codes:
    """What is counted: rows, or for a person column each person once with each of her values."""
    if person is None:
        return opened.codes(chosen, budget)
    (who,) = opened.require([person])
    pairs = opened.classes([*chosen, who], None, budget).select(chosen)
    return Codes(pairs.columns, pairs.arrays, pairs.values, None, pairs.entries)


def _trees(
    given: str | Path | Mapping[str, Hierarchy] | None, opened: Table
) -> Mapping[str, Hierarchy]:
    if given is None or isinstance(given, Mapping):
        return given or {}
    return read_folder(given, opened.columns)


def _blurrers(entries: Codes, trees: Mapping[str, Hierarchy], pad: bool) -> dict[str, Blurrer]:
    blurrers = {}
    for name, array, values in zip(entries.columns, entries.arrays, entries.values, strict=True):
        counts = np.bincount(array, weights=entries.counts, minlength=len(values))
        blurrers[name] = Blurrer(name, values, counts.astype(np.int64), trees.get(name), pad=pad)
    return blurrers


def _declared(
    domains: Mapping[str, int] | None, blurrers: Mapping[str, Blurrer]
) -> tuple[Domain, ...]:
    given = dict(domains or {})
    for name, size in given.items():
        if name not in blurrers:
            raise ParameterError(f"a domain is declared for `{name}`, which is not looked at")
        if size < 1:
            raise ParameterError(f"the domain of `{name}` must have at least one value")
    return tuple(
        Domain(name, int(given[name]), "declared")
        if name in given
        else Domain(name, blurrer.domain, "observed")
        for name, blurrer in blurrers.items()
    )


COPULA_ROWS = 200_000
"""Rows the copula is fitted to at most."""


@dataclass(frozen=True, eq=False)
class PopulationReport(Result):
    """What the table says about a population.

    `whole` is all given columns together; `sets` are the minimal column sets that can be expected
    to make a share `alpha` of the people unique, or do so by count (`complete` is False when there
    are more). `release` is there when the plan was written. `counted` says what `rows` and shares
    of the table are: rows, persons, or different rows of persons where they have several.
    """

    rows: int
    universe: float
    sampling_fraction: float
    alpha: float
    counted_by: Distinct
    domains: tuple[Domain, ...]
    whole: ColumnSet
    sets: tuple[ColumnSet, ...]
    complete: bool
    uniqueness: PopulationUniqueness
    copula: CopulaUniqueness | None
    plan: Plan
    curves: tuple[PrivacyUtilityCurve, ...]
    warnings: tuple[str, ...] = ()
    release: Release | None = field(default=None)
    counted: str = "rows"

    @property
    def unique(self) -> float:
        """Share of the people who are unique: counted, or estimated, or the bound if that is less.

        The bound is an expectation for people drawn at random from D values. Models of class sizes
        do not know D: they go on as if new values appeared for ever, and say too much of a small
        sample in which nearly every row is unique.
        """
        return {
            "counted": self.whole.certain,
            "bound": self.whole.bound,
            "estimate": self.uniqueness.estimate,
        }[self.unique_by] or 0.0

    @property
    def unique_by(self) -> Literal["counted", "bound", "estimate"]:
        """Where `unique` comes from: what was counted goes before what is expected."""
        bound, estimate = self.whole.bound, self.uniqueness.estimate
        if bound is None:
            return "counted"
        bounded = estimate is None or estimate > bound
        if self.whole.certain > (bound if bounded or estimate is None else estimate):
            return "counted"
        return "bound" if bounded else "estimate"


@within_budget
def population(
    source: Any,
    *,
    universe: float | str,
    qi: Sequence[str] | None = None,
    k: int = 100,
    beta: float = 0.1,
    alpha: float = 0.5,
    domains: Mapping[str, int] | None = None,
    distinct: Distinct = "product",
    max_size: int | None = None,
    weights: Mapping[str, float] | None = None,
    hierarchies: str | Path | Mapping[str, Hierarchy] | None = None,
    repair: Repair = "bound",
    person: str | None = None,
    keep: Sequence[str] = (),
    pad_zip: bool = False,
    bootstrap: int = 100,
    seed: int = 0,
    output: str | Path | None = None,
    format: str | None = None,
    force: bool = False,
    sign: str | Path | None = None,
    author: str | None = None,
    spreadsheet_safe: bool = False,
    sort: bool = False,
    budget: Budget | None = None,
) -> PopulationReport:
    """Judge a table as a sample of a population, and plan how far to blur it.

    Parameters
    ----------
    source
        Anything `sfumato.table` opens.
    universe
        People in the population, or ``"table"`` against an adversary who looks for one particular
        person: then the table itself is the universe.
    qi
        Columns others may know; where None all columns but those that name people outright.
    k, beta
        Each released row shall match at least k people with probability 1-β.
    alpha
        A column set that can be expected to make this share of the people unique, or does so by
        count, is a quasi-identifier.
    domains
        How many values columns can take; observed in the table where not declared.
    distinct
        How the values of a column set are counted: ``"product"`` of the domains (the paper's
        assumption, an upper bound), ``"joint"`` values seen together, or their ``"estimate"`` for
        the population.
    max_size
        Largest column set looked at.
    weights
        Importance of columns: they get distinct values in proportion.
    hierarchies
        Folder of generalization trees, or trees by column.
    repair
        How the plan is made to hold on the data; see `sfumato.populations.plan`.
    person
        Column that says which rows belong to one person: people are counted, not rows, and the
        column is left out.
    keep
        Columns that stay in the release although they look like names, numbers or free text; other
        columns that do are left out of it.
    output
        Write the planned release there, with its certificate.
    sign
        The key file that signs the certificate, as `sfumato keygen` made it.
    author
        Whom the certificate names as its author; nobody unless given.
    spreadsheet_safe
        Put an apostrophe before cells that a spreadsheet would run.
    sort
        Sort rows by the cells of the release, so that their order gives nothing away.

    Examples
    --------
    >>> import pyarrow as pa, sfumato as sf
    >>> people = pa.table({"sex": ["F", "M"] * 500, "age": [i % 50 for i in range(1000)]})
    >>> found = sf.population(people, universe=1e6, k=100, bootstrap=0)
    >>> found.whole.distinct, round(found.whole.bound, 6), found.plan.holds
    (100, 3.7e-05, True)
    """
    if max_size is not None and max_size < 1:
        raise ParameterError(
            "column sets have at least one column", remedy=f"E.g. {spell('max_size', 3)}."
        )
    given = None if universe == "table" else _number(universe)
    if given is not None:
        check_promise(given, k, beta)
    budget = budget or Budget()
    opened = table(source, budget=budget)
    opened.require(keep)
    if person is not None:
        require_person(opened, person, (*(qi or ()), *keep))
    check_place(
        opened,
        output,
        format=format,
        force=force,
        sign=sign,
        spreadsheet_safe=spreadsheet_safe,
        budget=budget,
    )
    if output is not None:
        refuse_too_wide(opened, budget, writing=True, lookups=4)  # each column by itself
    chosen, left_out = quasi_identifiers(opened, qi, person, seed, budget)
    check_weights(chosen, weights)
    sample = read_sample(opened, chosen, person, domains, hierarchies, pad_zip, budget)
    people = float(sample.rows) if given is None else given
    check_universe(people, sample.rows)
    check_promise(people, k, beta)
    judge = Judge(sample.entries, sample.known, people, distinct, alpha)
    budget.progress("column sets of the population", None)
    sets, complete = judge.quasi_identifiers(max_size)
    budget.progress("people unique in the population", None)
    uniqueness = population_uniqueness(sample.sizes, people, bootstrap=bootstrap, seed=seed)
    copula = _copula(sample.entries, people, seed)
    budget.progress("plan", None)
    plan = make_plan(
        sample.entries,
        sample.blurrers,
        people,
        k,
        beta,
        domains=sample.known,
        weights=weights,
        repair=repair,
        seed=seed,
        budget=budget,
    )
    report = PopulationReport(
        rows=sample.rows,
        universe=people,
        sampling_fraction=sample.rows / people,
        alpha=alpha,
        counted_by=distinct,
        domains=sample.domains,
        whole=judge.of(chosen),
        sets=tuple(judge.of(names) for names in sets),
        complete=complete,
        uniqueness=uniqueness,
        copula=copula,
        plan=plan,
        curves=_curves(sample.blurrers),
        warnings=(*left_out, *sample.too_small(), *_warnings(sample.blurrers, plan)),
        counted=_counted(opened, person, sample.rows, budget),
    )
    if output is None:
        return report
    others = [name for name in opened.columns if name not in (*chosen, *keep, person)]
    named = direct_identifiers(opened, others, seed, budget.unhurried())
    planned = release_of_plan(
        opened,
        plan,
        repair,
        weights=weights or {},
        foreseen=cell_sizes(sample.entries, plan.blurred),
        identifiers=named if person is None else {**named, person: "it says whose rows they are"},
        several=report.counted == "different rows of persons",
        warnings=report.warnings,
        seed=seed,
    )
    written = publish(
        planned,
        output,
        sort=sort,
        format=format,
        force=force,
        sign=sign,
        author=author,
        spreadsheet_safe=spreadsheet_safe,
        budget=budget,
    )
    return replace(report, release=written)


def _counted(opened: Table, person: str | None, rows: int, budget: Budget) -> str:
    """What is counted in the table."""
    if person is None:
        return "rows"
    several = opened.class_sizes([person], budget).classes < rows
    return "different rows of persons" if several else "persons"


def _number(universe: float | str) -> float:
    try:
        return float(universe)
    except ValueError as error:
        raise ParameterError(
            "the universe must be a number of people or `table`",
            remedy=f"Write e.g. {spell('universe', 300_000_000)}.",
        ) from error


def _copula(entries: Codes, people: float, seed: int) -> CopulaUniqueness | None:
    if entries.rows < 2:
        return None
    some = entries
    if entries.entries > COPULA_ROWS:
        random = np.random.default_rng(seed)
        some = entries.take(random.choice(entries.entries, COPULA_ROWS, replace=False))
    return fit_copula(some).uniqueness(people, seed=seed)


def _curves(blurrers: Mapping[str, Blurrer]) -> tuple[PrivacyUtilityCurve, ...]:
    """Privacy against utility of every column of numbers or dates that has some values."""
    curves = []
    for name, blurrer in blurrers.items():
        line = blurrer.line()
        if line is not None and len(line[0]) >= 10:
            curves.append(privacy_utility_curve(name, *line))
    return tuple(curves)


def _warnings(blurrers: Mapping[str, Blurrer], plan: Plan) -> tuple[str, ...]:
    said = [
        f"column `{name}` has a single value and tells nothing"
        for name, blurrer in blurrers.items()
        if blurrer.domain == 1
    ]
    for blurrer in blurrers.values():
        said += blurrer.odd_dates()
    said += [
        f"column `{column.column}` may keep one value only and is left out"
        for column in plan.columns
        if column.action == "suppressed"
    ]
    if not plan.holds:
        said.append(
            f"the theorem's plan does not hold on the data: at least "
            f"{plan.measured.at_least:.1%} of the rows are shown to match {plan.k:,} people"
        )
    expected = plan.k * plan.measured.rows / plan.universe
    if plan.repaired and expected < 1:
        said.append(
            f"the sample is small: {plan.k:,} people are {expected:.2g} rows of it, so columns are "
            "blurred further than a larger sample would ask for"
        )
    return tuple(said)
