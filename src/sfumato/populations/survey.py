"""Who is unique in the population this table was drawn from, and how far to blur it.

The verb `population`: which column sets can be quasi-identifiers of the population, how many people
are estimated to be unique, how many values each column may keep, and, written out, that release.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sfumato.budget import Budget
from sfumato.engines.results import Codes
from sfumato.errors import ParameterError
from sfumato.hierarchy import Hierarchy
from sfumato.populations.blur import Blurrer
from sfumato.populations.bound import check_universe
from sfumato.populations.column_sets import ColumnSet, Distinct, Domain, Judge
from sfumato.populations.copula import CopulaUniqueness, fit_copula
from sfumato.populations.curve import PrivacyUtilityCurve, privacy_utility_curve
from sfumato.populations.drafting import draft_plan
from sfumato.populations.harbor import direct_identifiers
from sfumato.populations.plan import check_promise, check_weights
from sfumato.populations.repair import Plan, Repair, cell_sizes, make_plan
from sfumato.populations.sample import quasi_identifiers, read_sample
from sfumato.populations.uniqueness import PopulationUniqueness, population_uniqueness
from sfumato.release import Release, publish
from sfumato.release.place import check_place
from sfumato.results import Result
from sfumato.tables import table

__all__ = ["PopulationReport", "population"]

COPULA_ROWS = 200_000
"""Rows the copula is fitted to at most."""


@dataclass(frozen=True, eq=False)
class PopulationReport(Result):
    """What the table says about a population.

    `whole` is all given columns together; `sets` are the minimal column sets that can make more
    than a share `alpha` of the people unique (`complete` is False when there are more). `release`
    is there when the plan was written.
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
    hierarchies: str | Mapping[str, Hierarchy] | None = None,
    repair: Repair = "bound",
    person: str | None = None,
    keep: Sequence[str] = (),
    pad_zip: bool = False,
    bootstrap: int = 100,
    seed: int = 0,
    output: str | None = None,
    format: str | None = None,
    force: bool = False,
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
        A column set that can make more than this share of the people unique is a quasi-identifier.
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
        How the plan is made to hold on the data; see `sfumato.populations.repair`.
    person
        Column that says which rows belong to one person: people are counted, not rows.
    keep
        Columns that stay in the release although they look like names, numbers or free text; other
        columns that do are left out of it.
    output
        Write the planned release there, with its certificate.

    Examples
    --------
    >>> import pyarrow as pa, sfumato as sf
    >>> people = pa.table({"sex": ["F", "M"] * 500, "age": [i % 50 for i in range(1000)]})
    >>> found = sf.population(people, universe=1e6, k=100, bootstrap=0)
    >>> found.whole.distinct, round(found.whole.bound, 6), found.plan.holds
    (100, 3.7e-05, True)
    """
    if max_size is not None and max_size < 1:
        raise ParameterError("column sets have at least one column", remedy="E.g. --max-size 3.")
    given = None if universe == "table" else _number(universe)
    if given is not None:
        check_promise(given, k, beta)
    budget = budget or Budget()
    opened = table(source, budget=budget)
    opened.require(keep)
    if output is not None:
        check_place(opened, output, format=format, force=force)
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
    )
    if output is None:
        return report
    others = [name for name in opened.columns if name not in (*chosen, *keep)]
    draft = draft_plan(
        opened,
        plan,
        repair,
        weights=weights or {},
        foreseen=cell_sizes(sample.entries, plan.blurred),
        identifiers=direct_identifiers(opened, others, seed, budget.unhurried()),
        warnings=report.warnings,
        seed=seed,
    )
    written = publish(draft, output, format=format, force=force, budget=budget)
    return replace(report, release=written)


def _number(universe: float | str) -> float:
    try:
        return float(universe)
    except ValueError as error:
        raise ParameterError(
            "the universe must be a number of people or `table`",
            remedy="Write e.g. --universe 3e8.",
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
