"""What a release costs, from the mapping alone: losses of precision, and risks before and after.

Everything is computed from groups and from the counts of original values, never from rows: a table
of ten million rows has a million groups at most, and a few hundred values a column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.anonymization.numbers_as import number_columns
from sfumato.anonymization.persons import numbered, persons_in_classes
from sfumato.anonymization.problem import Solution, largest_sets, piece_view
from sfumato.anonymization.workload import QueryLog
from sfumato.budget import each
from sfumato.engines.protocol import ClassSizes
from sfumato.hierarchy import Ranges
from sfumato.hierarchy.labels import as_text, same_texts
from sfumato.hierarchy.tree import Array
from sfumato.privacy.check import Risk, risk_of_classes, risk_of_persons
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
from sfumato.wording import percent

__all__ = [
    "PartCosts",
    "WholeCosts",
    "costs_of_parts",
    "in_words",
    "risks",
    "rounding",
    "suppressed_cells",
    "touched_rows",
    "utility",
]


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
        "weighted_discernibility_by_label": sum(
            measures["weighted_discernibility_by_label"] for measures in told
        ),
        "average_class_size": told[0]["average_class_size"],
        "distribution": {
            name: moved for measures in told for name, moved in measures["distribution"].items()
        },
    }
    if workload is not None:
        whole["queries"] = _query_errors(parts, workload)
    return whole


def rounding(parts: Sequence[Solution], shows: Mapping[str, str]) -> dict[str, Any] | None:
    """How much more is lost by ranges that end at round numbers than by those of exact ends.

    ``more`` is a share of what exact ends lose in all quasi-identifiers, ``columns`` the same for
    each column of ranges. None where that is not known (sets solved apart, groups of an earlier
    release), and where nothing is lost.
    """
    exact: dict[str, float] = {}
    rounded: dict[str, float] = {}
    for part in parts:
        if len(largest_sets(part.problem.sets)) > 1 or part.like is not None:
            return None
        cells = len(part.groups) * len(part.published)
        losses = each(partial(_rounded, part), part.published, cells)
        for name, (by_exact, by_round) in zip(part.published, losses, strict=True):
            exact[name] = by_exact
            shown = shows.get(name, "range") in ("range", "bounds")
            rounded[name] = by_round if shown else by_exact
    lost = sum(exact.values())
    more = {
        name: rounded[name] / exact[name] - 1 for name in exact if rounded[name] > exact[name] > 0
    }
    return {"more": sum(rounded.values()) / lost - 1, "columns": more} if lost else None


def _rounded(part: Solution, name: str) -> tuple[float, float]:
    """What is lost of a column by exact ends, and by those that are shown."""
    used = np.flatnonzero(part.sizes)
    rows, shown, shape = part.sizes[used], part.published[name], part.problem.shapes[name]
    lost = float(rows @ shown.loss[shown.codes[used]])
    if not isinstance(shape, Ranges) or shape.ends is None:
        return lost, lost
    codes = part.problem.entries.column(name)
    codes = codes if part.entry is None else codes[part.entry]
    low, high = shape.spans(codes, part.groups, len(part.sizes))
    return float(rows @ shape.loss(low[used], high[used])), lost


def _mean(told: Sequence[Mapping[str, Any]], name: str, cells: Array) -> float:
    return float(np.average([measures[name] for measures in told], weights=cells))


def _measures(part: Solution) -> dict[str, Any]:
    problem, view, first = part.problem, part.view, part.view_of(part.problem.sets[0])
    held = problem.rows_of_values
    weights = {name: problem.weight(name) for name in problem.qi}
    measures: dict[str, Callable[[], Any]] = {
        "ncp": lambda: certainty_penalty(view),
        "columns": lambda: column_losses(view),
        "information_loss": lambda: information_loss(view),
        "granularity": lambda: granularity(view),
        "non_uniform_entropy": lambda: non_uniform_entropy(view, held),
        "discernibility": lambda: discernibility(first),
        "weighted_discernibility_by_label": lambda: weighted_discernibility(view, weights),
        "average_class_size": lambda: average_class_size(first),
        "distribution": lambda: distribution_distances(view, held=held),
    }
    found = each(lambda name: measures[name](), measures, len(view.kept) * len(problem.qi))
    return dict(zip(measures, found, strict=True))


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


def risks(
    parts: Sequence[Solution], first: tuple[Array, Array, Array] | None = None
) -> tuple[Risk, ...]:
    """For each set of quasi-identifiers the risk before, with the risk after in it.

    `first` are the persons in the classes of the first set, where they were counted already.
    """
    found: list[Risk] = []
    for part in parts:
        for names in part.problem.sets:
            counted = None if found else first
            after = _risk_after(part, names, counted)
            found.append(replace(_risk_before(part, names), after=after))
    return tuple(found)


def _risk_before(part: Solution, names: tuple[str, ...]) -> Risk:
    histories, person = part.problem.histories, part.problem.person
    if histories is not None and person is not None:
        ids, _ = numbered(histories.select(names))
        # Combinations of these columns and the person are listed once, so that no pair comes twice.
        sizes = np.bincount(ids) if {*names, person} == {*histories.columns} else None
        who, rows = histories.column(person), histories.rows
        return risk_of_persons(ids, who, sizes=sizes, qi=names, rows=rows)
    classes = ClassSizes.of_counts(_sizes_before(part, names))
    return risk_of_classes(classes.sizes, times=classes.classes_of_size, qi=names)


def _sizes_before(part: Solution, names: tuple[str, ...]) -> Array:
    entries = part.problem.source
    if set(names) == set(entries.columns):
        return entries.row_counts
    ids, number = entries.numbered(names)
    return np.bincount(ids, weights=entries.row_counts, minlength=number).astype(np.int64)


def _risk_after(
    part: Solution, names: tuple[str, ...], counted: tuple[Array, Array, Array] | None
) -> Risk:
    if part.problem.person is not None:
        classes, who, sizes = counted or persons_in_classes(part, names)
        return risk_of_persons(classes, who, sizes=sizes, qi=names, rows=int(part.sizes.sum()))
    return risk_of_classes(part.view_of(names).class_sizes, qi=names)


def suppressed_cells(touched: Iterable[Mapping[str, Counter[str]]]) -> int:
    """Cells that show a star among the rows that remain, in all parts."""
    return sum(rows["starred"] for part in touched for rows in part.values())


def touched_rows(part: Solution, shows: Mapping[str, str]) -> dict[str, Counter[str]]:
    """By quasi-identifier the rows in which it was blurred, and those in which it was starred.

    A star is a star, whether a method leaves nothing of a cell or its tree or set ends there; but
    where a mean or median is shown in its place, it is none.
    """
    groups = len(part.sizes)

    def found(column: str) -> Counter[str]:
        starred = touched = np.zeros(groups, dtype=bool)
        if column in part.published:
            shown = part.published[column]
            values = as_text(part.problem.entries.values_of(column))
            first = values.take(pa.array(shown.order[shown.low]))
            # A range of one value does not read like that value.
            blurred = shown.blurred | ~np.asarray(same_texts(shown.labels, first))
            # More than one star where the column holds one itself.
            stars = np.asarray(
                pc.fill_null(pc.match_substring_regex(shown.labels, r"^\*+$"), False)
            )
            codes = shown.codes[:groups]
            touched, starred = blurred[codes], (stars & blurred)[codes]
            if (how := shows.get(column)) in ("mean", "median"):
                (told,) = number_columns(part, column, how).values()
                starred = touched & np.asarray(told.values.is_null())[told.codes[:groups]]
        elif column in part.starred:
            touched = starred = part.starred[column][:groups]
        rows = {"blurred": touched & ~starred, "starred": starred}
        return Counter({verb: int(part.sizes[where].sum()) for verb, where in rows.items()})

    names = part.problem.qi
    return dict(zip(names, each(found, names, groups * len(names)), strict=True))


def in_words(touched: Mapping[str, int], total: int) -> str:
    """What was done to a column, and in which share of the rows.

    Examples
    --------
    >>> in_words({"blurred": 5, "starred": 1}, 50), in_words({"starred": 0}, 50)
    ('blurred in 10% of rows, starred in 2%', 'kept')
    """
    shares = {verb: rows / max(total, 1) for verb, rows in touched.items() if rows}
    said = [f"{verb} in {percent(share)}" for verb, share in shares.items()]
    return ", ".join([f"{said[0]} of rows", *said[1:]]) if said else "kept"


@dataclass(frozen=True, eq=False)
class PartCosts:
    """What one part of a table cost, in sums that add up over parts.

    Attributes
    ----------
    released, suppressed_cells
        Rows of the part that are released, and cells starred in them.
    lost
        For each quasi-identifier three sums over all rows of the part: of the certainty penalty,
        of heights over the heights of trees, and of the loss among all values of a tree.
    bits
        For each of them the bits that cells leave open, summed over rows; open columns have none.
    touched
        By column the rows in which it was blurred, and those in which it was starred.
    before, after
        For each set of quasi-identifiers the sizes of its classes.
    persons
        For each set how many classes of the release hold so many persons, where persons count.
    risks
        Those of this part, where persons count: they do not add up.
    """

    released: int
    suppressed_cells: int
    lost: Mapping[str, Array]
    bits: Mapping[str, float]
    touched: Mapping[str, Counter[str]]
    before: Mapping[tuple[str, ...], Mapping[int, int]]
    after: Mapping[tuple[str, ...], Mapping[int, int]]
    persons: Mapping[tuple[str, ...], Mapping[int, int]]
    risks: tuple[Risk, ...] = ()

    @classmethod
    def of(
        cls,
        parts: Sequence[Solution],
        held: Mapping[str, Array],
        rows: int,
        unknown: Container[str],
        touched: Sequence[Mapping[str, Counter[str]]],
    ) -> PartCosts:
        """From the solutions of one part, as they read, and what the whole table holds."""
        lost, bits, before, after, persons = {}, {}, {}, {}, {}
        for part in parts:
            view = part.view
            for name, shown in view.published.items():
                weight, codes = view.weight[view.kept], shown.codes[view.kept]
                losses = (shown.loss, shown.height_loss, shown.domain_loss)
                lost[name] = np.array([(weight * one[codes]).sum() for one in losses])
                lost[name] += view.suppressed_rows
                if name not in unknown:
                    inside = np.maximum(shown.weight(held[name])[codes], 1.0)
                    bits[name] = float((weight * np.log2(inside)).sum())
                    bits[name] += view.suppressed_rows * float(np.log2(max(rows, 1)))
            for names in part.problem.sets:
                before[names] = ClassSizes.of_counts(_sizes_before(part, names)).to_dict()
                after[names] = ClassSizes.of_counts(part.view_of(names).class_sizes).to_dict()
                if part.problem.person is not None:
                    people = persons_in_classes(part, names)[2]
                    persons[names] = ClassSizes.of_counts(people).to_dict()
        released = int(parts[0].sizes.sum())
        own = risks(parts) if persons else ()
        every = {name: rows for part in touched for name, rows in part.items()}
        cells = suppressed_cells(touched)
        return cls(released, cells, lost, bits, every, before, after, persons, own)


@dataclass(frozen=True, eq=False)
class WholeCosts:
    """What all parts cost together."""

    released: int
    suppressed_cells: int
    k: int | None
    classes: int
    utility: dict[str, Any]
    actions: dict[str, str]
    risks: tuple[Risk, ...]


def costs_of_parts(
    parts: Sequence[PartCosts], held: Mapping[str, Array], rows: int, unknown: Container[str]
) -> WholeCosts:
    """Costs of a table from those of its parts.

    Classes that two parts make alike count twice, until what was written is counted; the
    distribution of columns is not known.
    """
    names = list(parts[0].lost)
    lost = {name: np.sum([part.lost[name] for part in parts], axis=0) for name in names}
    released = sum(part.released for part in parts)
    before, after, persons = (
        _added([getattr(p, of) for p in parts]) for of in ("before", "after", "persons")
    )
    first = ClassSizes.of(next(iter(after.values())))
    cells = max(rows * len(names), 1)
    sums = np.sum([lost[name] for name in names], axis=0)
    left = possible = 0.0
    for name in names:
        if name in unknown:
            continue
        own = held[name][held[name] > 0]
        known = float((own * np.log2(own)).sum())
        left += sum(part.bits[name] for part in parts) - known
        possible += rows * float(np.log2(max(rows, 1))) - known
    squares = sum(size * size * many for size, many in first.to_dict().items())
    return WholeCosts(
        released=released,
        suppressed_cells=sum(part.suppressed_cells for part in parts),
        k=min(
            (ClassSizes.of(sizes).k or rows for sizes in (persons or after).values()), default=None
        ),
        classes=first.classes,
        utility={
            "ncp": float(sums[0]) / cells,
            "columns": {name: float(lost[name][0]) / max(rows, 1) for name in names},
            "information_loss": float(sums[1]),
            "granularity": 1.0 - float(sums[2]) / cells,
            "non_uniform_entropy": max(0.0, left) / possible if possible > 0 else 0.0,
            "discernibility": squares + (rows - released) * rows,
            "average_class_size": released / first.classes if first.classes else 0.0,
        },
        actions={
            name: in_words(sum((part.touched[name] for part in parts), Counter()), released)
            for name in names
        },
        risks=_risks_of_parts(parts, before, after),
    )


def _risks_of_parts(
    parts: Sequence[PartCosts],
    before: Mapping[tuple[str, ...], Mapping[int, int]],
    after: Mapping[tuple[str, ...], Mapping[int, int]],
) -> tuple[Risk, ...]:
    """Risks before and after; none where persons have rows in several parts: their worst counts."""
    if any(part.persons for part in parts):
        return parts[0].risks if len(parts) == 1 else ()
    return tuple(replace(_risk_of(before[qi], qi), after=_risk_of(after[qi], qi)) for qi in before)


def _added(
    histograms: Sequence[Mapping[tuple[str, ...], Mapping[int, int]]],
) -> dict[tuple[str, ...], Counter[int]]:
    """Histograms of several parts as one, set by set."""
    whole: dict[tuple[str, ...], Counter[int]] = {}
    for part in histograms:
        for names, sizes in part.items():
            whole.setdefault(names, Counter()).update(sizes)
    return whole


def _risk_of(sizes: Mapping[int, int], qi: tuple[str, ...]) -> Risk:
    histogram = ClassSizes.of(sizes)
    return risk_of_classes(histogram.sizes, times=histogram.classes_of_size, qi=qi)
