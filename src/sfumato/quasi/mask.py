"""Publish as many columns as possible without publishing a quasi-identifier.

After Motwani & Xu, section 5; what is beyond them: the proven optimum, pins, and why each column
was left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.budget import Budget
from sfumato.engines.recoding import Recoding
from sfumato.errors import ParameterError, did_you_mean
from sfumato.quasi.draws import differing_columns, sampled_rows
from sfumato.quasi.measure import measures_of
from sfumato.quasi.publishable import (
    DistinctCount,
    Identifying,
    PairShare,
    Published,
    SeparationCount,
    allowed,
    greedy_publishable,
    minimal_violation,
    proven_publishable,
)
from sfumato.quasi.pulling import all_combinations
from sfumato.quasi.samples import log_sets, prune_below, share
from sfumato.quasi.weights import column_weights
from sfumato.release import Draft, Release, publish, rehearse
from sfumato.release.place import check_place
from sfumato.release.promise import RatioAtMost, WithoutColumns
from sfumato.tables import Table, table

__all__ = ["mask", "mask_draft"]

MEASURES = ("distinct", "separation")
ONE_PASS = (
    "a stream passes only once: that the published columns keep β was not checked on all rows, and "
    "holds with probability 1-δ"
)
EXPLAINED = 40
"""Columns left out for which the reason is worked out; beyond that the first ones only."""


def mask(
    source: Any,
    *,
    measure: str = "distinct",
    beta: float,
    weights: Mapping[str, float] | None = None,
    must_publish: Sequence[str] = (),
    must_drop: Sequence[str] = (),
    sample: int | None = None,
    delta: float = 0.01,
    proven: bool = False,
    explain: bool = True,
    seed: int = 0,
    output: str | None = None,
    force: bool = False,
    budget: Budget | None = None,
) -> Release:
    """Publish the most columns whose ratio does not exceed β.

    Parameters
    ----------
    source
        Anything `sfumato.table` opens.
    measure
        ``distinct`` (β = 0.2: on average five rows alike) or ``separation``.
    beta
        The largest ratio a published column set may have.
    weights
        Worth of publishing a column; 1 unless given.
    must_publish, must_drop
        Columns that are published, or left out, in any case.
    sample
        Work on so many sampled rows (distinct) or pairs (separation); with probability 1-δ the
        published set obeys β.
    proven
        Find the heaviest set and prove it.
    explain
        Say for each column left out which quasi-identifier it would complete.
    output
        Write the release there; else it is only rehearsed.

    Examples
    --------
    >>> import pyarrow as pa, sfumato as sf
    >>> people = pa.table({
    ...     "age": [20, 30, 40, 20, 40],
    ...     "sex": ["F", "F", "F", "M", "M"],
    ...     "state": ["CA", "CA", "TX", "NY", "CA"],
    ... })
    >>> sf.mask(people, measure="distinct", beta=0.8).details["published"]
    ('sex', 'state')
    """
    budget = budget or Budget()
    opened = table(source, budget=budget)
    if opened.engine.kind == "stream":
        _check_stream(opened, sample, output)
    if output is not None:
        check_place(opened, output, force=force)
    draft = mask_draft(
        opened,
        Demand(measure, beta, sample, delta, proven, explain, seed),
        weights=weights,
        must_publish=must_publish,
        must_drop=must_drop,
        budget=budget,
    )
    if output is None:
        return rehearse(draft, budget=budget)
    return publish(draft, output, force=force, budget=budget)


@dataclass(frozen=True)
class Demand:
    """The parameters of masking, checked."""

    measure: str
    beta: float
    sample: int | None = None
    delta: float = 0.01
    proven: bool = False
    explain: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if self.measure not in MEASURES:
            raise ParameterError(
                f"there is no measure `{self.measure}` for masking",
                remedy=did_you_mean(self.measure, MEASURES),
            )
        share("β", self.beta)
        share("δ", self.delta)
        if self.sample is not None and self.sample < 1:
            raise ParameterError(f"a sample of {self.sample} is not possible", remedy="Give 1+.")
        if self.sample is not None and self.proven:
            raise ParameterError(
                "an optimum cannot be proven on a sample", remedy="Give --sample or --proven."
            )


def mask_draft(
    source: Any,
    demand: Demand,
    *,
    weights: Mapping[str, float] | None = None,
    must_publish: Sequence[str] = (),
    must_drop: Sequence[str] = (),
    budget: Budget | None = None,
) -> Draft:
    """Work out which columns to publish."""
    budget = budget or Budget()
    opened = table(source, budget=budget)
    worth = column_weights(opened, weights)
    names = opened.columns
    pinned = [names.index(name) for name in opened.require(must_publish)]
    banned = {names.index(name) for name in opened.require(must_drop)}
    if banned & set(pinned):
        both = ", ".join(f"`{names[c]}`" for c in sorted(banned & set(pinned)))
        raise ParameterError(
            f"{both} must be published and must be left out",
            where=opened.name,
            remedy="Ask for one of the two.",
        )
    choices = [c for c in range(len(names)) if c not in banned]
    how = _identifying(opened, demand, budget)
    if pinned and how.value(pinned) > how.limit:
        guilty = minimal_violation(how.value, how.limit, pinned, ())
        raise ParameterError(
            "the columns that must be published already exceed β together: "
            + ", ".join(f"`{names[c]}`" for c in guilty),
            where=opened.name,
            remedy="Let one of them be left out, or allow a larger β.",
        )
    found = greedy_publishable(how, worth, choices, pinned=pinned, budget=budget)
    proven = False
    if demand.proven and found.stopped_by is None:
        found = proven_publishable(
            how, worth, choices, found, pinned=pinned, budget=budget, seed=demand.seed
        )
        proven = found.stopped_by is None
    return _draft(opened, demand, how, found, worth, banned, proven, budget)


def _identifying(opened: Table, demand: Demand, budget: Budget) -> Identifying:
    """What is counted: exact figures, or those of a sample with its tightened limit."""
    if demand.sample is None:
        budget.progress("reading the table")
        codes = all_combinations(opened, budget)
        if demand.measure == "separation":
            return SeparationCount(codes, demand.beta)
        return DistinctCount(codes, allowed(demand.beta, codes.rows))
    width, size = len(opened.columns), demand.sample
    threshold = prune_below(demand.beta, size, width, demand.delta)
    if threshold <= 0:
        least = math.floor(2 * (log_sets(width) - math.log(demand.delta)) / demand.beta) + 1
        raise ParameterError(
            f"a sample of {size:,} says nothing about β = {demand.beta:g} with {width} columns",
            where=opened.name,
            remedy=f"Draw at least {least:,}; some ten times as many lose little.",
        )
    budget.progress(f"drawing {size:,} {'pairs' if demand.measure == 'separation' else 'rows'}")
    if demand.measure == "separation":
        differ = differing_columns(opened, size, demand.seed)
        return PairShare(differ, math.floor(threshold * len(differ)))
    codes = sampled_rows(opened, size, demand.seed)
    return DistinctCount(codes, math.floor(threshold * codes.entries))


def _draft(
    opened: Table,
    demand: Demand,
    how: Identifying,
    found: Published,
    worth: Sequence[float],
    banned: set[int],
    proven: bool,
    budget: Budget,
) -> Draft:
    names = opened.columns
    published = tuple(name for at, name in enumerate(names) if at in found.columns)
    if not published:
        raise ParameterError(
            f"not even one column can be published at β = {demand.beta:g}",
            where=opened.name,
            remedy="Allow a larger β, or blur columns first (sfumato anonymize).",
        )
    dropped = tuple(name for at, name in enumerate(names) if at not in found.columns)
    why = _reasons(opened, how, found, banned, dropped, budget) if demand.explain else {}
    streamed = opened.engine.kind == "stream"
    # the search may have taken all the time; what it found is measured and written all the same
    sizes = None if streamed else opened.class_sizes(published, budget.unhurried())
    details: dict[str, Any] = {
        "published": published,
        "dropped": dropped,
        "why": why,
        "measures": None if sizes is None else measures_of(published, sizes),
        "weight": float(sum(worth[c] for c in found.columns)),
        "proven_optimum": proven,
        "upper_bound": found.upper_bound,
        "sample": None if demand.sample is None else demand.sample,
    }
    return Draft(
        table=opened,
        recoding=Recoding(drop=dropped),
        method="mask",
        asked={
            "measure": demand.measure,
            "beta": demand.beta,
            **({} if demand.sample is None else {"sample": demand.sample, "delta": demand.delta}),
        },
        promises=(RatioAtMost(demand.measure, demand.beta, published), WithoutColumns(dropped)),
        quasi_identifiers=(published,),
        column_actions={name: "kept" if name in published else "dropped" for name in names},
        utility={"published_columns": len(published), "weight": details["weight"]},
        details=details,
        foreseen=sizes,
        seed=demand.seed,
        stopped_by=found.stopped_by,
        warnings=(ONE_PASS,) if streamed else (),
    )


def _check_stream(opened: Table, sample: int | None, output: str | None) -> None:
    """A stream can be masked by a sample, and its rows cannot be written afterwards."""
    if sample is None:
        raise ParameterError(
            "a stream passes only once, so only a sample of it can be looked at",
            where=opened.name,
            remedy="Give --sample, e.g. --sample 20000, or let the rows be kept (--no-stream).",
        )
    if output is not None:
        raise ParameterError(
            "a stream passes only once, and a release needs its rows a second time",
            where=opened.name,
            remedy="Leave out -o to learn what to publish, or let the rows be kept (--no-stream).",
        )


def _reasons(
    opened: Table,
    how: Identifying,
    found: Published,
    banned: set[int],
    dropped: Sequence[str],
    budget: Budget,
) -> Mapping[str, Any]:
    """For each column left out, a minimal quasi-identifier it would complete."""
    names = opened.columns
    reasons: dict[str, Any] = {}
    for name in dropped[:EXPLAINED]:
        column = names.index(name)
        if column in banned:
            reasons[name] = "left out on request"
        elif not budget.spent():
            guilty = minimal_violation(
                how.value, how.limit, (*found.columns, column), keep=(column,)
            )
            reasons[name] = tuple(names[c] for c in sorted(guilty))
    return reasons
