"""What a release costs, from the mapping alone: losses of precision, and risks before and after.

Everything is computed from groups and from the counts of original values, never from rows: a table
of ten million rows has a million groups at most, and a few hundred values a column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.anonymization.persons import group_persons
from sfumato.anonymization.problem import Solution, piece_view
from sfumato.anonymization.workload import QueryLog
from sfumato.risks import Risk, risk_of_classes, risk_of_persons
from sfumato.utility import (
    answer_workload,
    average_class_size,
    certainty_penalty,
    column_losses,
    discernibility,
    distribution_distances,
    granularity,
    information_loss,
    non_uniform_entropy,
    weighted_discernibility,
)

__all__ = ["risks", "utility"]

Array = npt.NDArray[Any]


def utility(parts: Sequence[Solution], workload: QueryLog | None = None) -> dict[str, Any]:
    """Every measure of the solutions to the parts of a demand.

    Shares are means over all quasi-identifier cells of all parts. Discernibility and the average
    class size are those of the first set, as `classes` of a release is.
    """
    told = [_measures(part) for part in parts]
    cells = np.array([len(part.problem.qi) for part in parts], dtype=float)
    whole: dict[str, Any] = {
        "ncp": _mean(told, "ncp", cells),
        "columns": {name: loss for measures in told for name, loss in measures["columns"].items()},
        "information_loss": sum(measures["information_loss"] for measures in told),
        "granularity": _mean(told, "granularity", cells),
        "non_uniform_entropy": _mean(told, "non_uniform_entropy", cells),
        "discernibility": told[0]["discernibility"],
        "weighted_discernibility": sum(measures["weighted_discernibility"] for measures in told),
        "average_class_size": told[0]["average_class_size"],
        "distribution": {
            name: moved for measures in told for name, moved in measures["distribution"].items()
        },
    }
    if workload is not None:
        whole["queries"] = _query_errors(parts, workload)
    return whole


def _mean(told: Sequence[Mapping[str, Any]], name: str, cells: Array) -> float:
    return float(np.average([measures[name] for measures in told], weights=cells))


def _measures(part: Solution) -> dict[str, Any]:
    from sfumato.kernels import group_sums

    problem, view, first = part.problem, part.view, part.view_of(part.problem.sets[0])
    held = {
        name: group_sums(
            problem.entries.column(name), len(problem.entries.values_of(name)), problem.counts
        )
        for name in problem.qi
    }
    weights = {name: problem.weight(name) for name in problem.qi}
    return {
        "ncp": certainty_penalty(view),
        "columns": column_losses(view),
        "information_loss": information_loss(view),
        "granularity": granularity(view),
        "non_uniform_entropy": non_uniform_entropy(view, held),
        "discernibility": discernibility(first),
        "weighted_discernibility": weighted_discernibility(view, weights),
        "average_class_size": average_class_size(first),
        "distribution": distribution_distances(view, held=held),
    }


def _query_errors(parts: Sequence[Solution], workload: QueryLog) -> dict[str, Any]:
    """How well the workload's selections are answered; each must lie within one part."""
    answered, errors, precision, recall = 0, [], [], []
    for part in parts:
        entries = part.problem.entries
        values = {name: entries.values_of(name) for name in part.problem.qi}
        queries = workload.replayed(values)
        if not queries:
            continue
        outcome = answer_workload(piece_view(part.problem, part), queries)
        answered += len(queries)
        errors += [answer.relative_error for answer in outcome.answers]
        precision += [a.precision for a in outcome.answers if a.precision is not None]
        recall += [a.recall for a in outcome.answers if a.recall is not None]
    return {
        "answered": answered,
        "mean_relative_error": float(np.mean(errors)) if errors else None,
        "median_relative_error": float(np.median(errors)) if errors else None,
        "precision": float(np.mean(precision)) if precision else None,
        "recall": float(np.mean(recall)) if recall else None,
    }


def risks(parts: Sequence[Solution]) -> tuple[Risk, ...]:
    """For each set of quasi-identifiers the risk before, with the risk after in it."""
    return tuple(
        replace(_risk_before(part, names), after=_risk_after(part, names))
        for part in parts
        for names in part.problem.sets
    )


def _risk_before(part: Solution, names: tuple[str, ...]) -> Risk:
    from sfumato.kernels import class_ids

    histories, person = part.problem.histories, part.problem.person
    if histories is not None and person is not None:
        chosen = histories.select(names)
        ids, _ = class_ids(chosen.arrays, chosen.cardinalities, entries=histories.entries)
        who = histories.column(person)
        return risk_of_persons(np.asarray(ids), who, qi=names, rows=histories.rows)
    entries = part.problem.source
    assert entries.counts is not None
    if set(names) == set(entries.columns):
        return risk_of_classes(entries.counts, qi=names)
    chosen = entries.select(names)
    ids, number = class_ids(chosen.arrays, chosen.cardinalities, entries=entries.entries)
    sizes = np.bincount(ids, weights=entries.counts, minlength=number)
    return risk_of_classes(sizes.astype(np.int64), qi=names)


def _risk_after(part: Solution, names: tuple[str, ...]) -> Risk:
    if part.problem.person is not None:
        pairs = group_persons(part.problem, part, names)
        return risk_of_persons(*pairs, qi=names, rows=int(part.sizes.sum()))
    return risk_of_classes(part.view_of(names).class_sizes, qi=names)
