"""From a solution to a draft: the recoding, what happened to each column, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sfumato.anonymize.demand import Demand
from sfumato.anonymize.problem import Problem, Solution
from sfumato.engines.codes import CodeArray, smallest_dtype
from sfumato.engines.recoding import Cells, Recoding, Step
from sfumato.engines.sizes import ClassSizes
from sfumato.release import Draft, Promise
from sfumato.release.anonymity import Anonymity
from sfumato.release.promise import WithoutColumns
from sfumato.tables import Table

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["STAR", "column_actions", "costs", "draft_of", "foreseen_sizes", "step_of", "suppressed"]

STAR = "*"
"""How a suppressed cell reads in a text column."""


def draft_of(
    table: Table,
    demand: Demand,
    problem: Problem,
    solution: Solution,
    inferred: Mapping[str, str],
) -> Draft:
    """The draft that carries a solution out and promises what was demanded."""
    step = step_of(problem, solution, stars_as_text=demand.stars_as_text)
    rows, cells = suppressed(problem, solution)
    promises: list[Promise] = [Anonymity(demand.models, demand.quasi_identifiers, demand.sensitive)]
    if demand.identifiers:
        promises.append(WithoutColumns(demand.identifiers))
    kept = dict.fromkeys(table.columns, "kept")
    dropped = dict.fromkeys(demand.identifiers, "dropped")
    details = dict(solution.details)
    if inferred:
        details["inferred_hierarchies"] = dict(inferred)
    return Draft(
        table=table,
        recoding=Recoding((step,), demand.identifiers),
        method=demand.method,
        asked=demand.asked(),
        promises=tuple(promises),
        quasi_identifiers=demand.quasi_identifiers,
        suppressed_rows=rows,
        suppressed_cells=cells,
        column_actions={**kept, **column_actions(problem, solution), **dropped},
        lower_bound=solution.lower_bound,
        utility=costs(problem, solution),
        details=details,
        foreseen=foreseen_sizes(problem, solution),
        seed=demand.seed,
        stopped_by=solution.stopped_by,
        warnings=solution.warnings,
    )


def costs(problem: Problem, solution: Solution) -> Mapping[str, float]:
    """What the solution costs: losses of precision, from the mapping alone.

    The normalized certainty penalty is the mean over all quasi-identifier cells; a starred cell and
    every cell of a suppressed row count 1. Discernibility is Σ|class|², a suppressed row counting
    as much as the whole table.
    """
    rows = problem.counts if solution.rows is None else solution.rows
    kept = solution.groups >= 0
    groups, weight = solution.groups[kept], rows[kept].astype(np.float64)
    total = float(problem.rows)
    left_out = total - float(weight.sum())
    penalty = {}
    for column in problem.quasi_identifiers:
        lost = left_out
        if column in solution.published:
            shown = solution.published[column]
            lost += float((shown.loss[shown.codes[groups]] * weight).sum())
        elif column in solution.starred:
            lost += float(weight[solution.starred[column][groups]].sum())
        penalty[column] = lost / total if total else 0.0
    sizes = np.bincount(groups, weights=weight) if len(groups) else np.zeros(0)
    sizes = sizes[sizes > 0]
    return {
        "ncp": float(np.mean(list(penalty.values()))) if penalty else 0.0,
        **{f"ncp_{column}": value for column, value in penalty.items()},
        "discernibility": float((sizes**2).sum()) + left_out * total,
        "average_class_size": float(sizes.mean()) if len(sizes) else 0.0,
    }


def step_of(problem: Problem, solution: Solution, *, stars_as_text: bool = False) -> Step:
    """The recoding step that carries a solution out.

    Blurred columns become text. Starred columns keep their type, with null for a star (and a
    column ``<name>__suppressed`` where nulls occurred before), or become text on request.
    """
    names = problem.quasi_identifiers
    if solution.entry is not None or problem.sensitive:
        names = problem.entries.columns  # equal quasi-identifiers may go to different groups
    entry = _entries(problem, solution)
    groups = solution.groups
    cells: dict[str, Cells] = {}
    for column in problem.quasi_identifiers:
        if column in solution.published:
            shown = solution.published[column].take(groups)
            codes = np.where(shown.codes < 0, 0, shown.codes)
            cells[column] = Cells(codes.astype(smallest_dtype(len(shown.labels))), shown.labels)
        elif column in solution.starred:
            starred = (groups >= 0) & solution.starred[column][groups]
            if starred.any():
                cells |= _starred(problem, column, entry, starred, stars_as_text)
    match = problem.entries.select(names).take(entry)
    first = last = None
    if solution.rows is not None:
        first, last = _ordinals(entry, solution.rows)
    keep = None if bool((groups >= 0).all()) else groups >= 0
    return Step(match, cells, keep, first, last)


def _entries(problem: Problem, solution: Solution) -> npt.NDArray[np.int64]:
    return np.arange(problem.entries.entries) if solution.entry is None else solution.entry


def _ordinals(
    entry: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Half-open ordinal ranges of pieces that are sorted by entry."""
    ends = np.cumsum(rows)
    starts = ends - rows
    is_first = np.r_[True, entry[1:] != entry[:-1]]
    base = starts[is_first][np.cumsum(is_first) - 1]
    return starts - base, ends - base


def _starred(
    problem: Problem,
    column: str,
    entry: npt.NDArray[np.int64],
    starred: npt.NDArray[np.bool_],
    as_text: bool,
) -> dict[str, Cells]:
    """Cells of a column where some groups show a star and the others their own value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values = problem.entries.values_of(column)
    is_text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
    codes = problem.entries.column(column)[entry].astype(np.int64)
    if is_text or as_text:
        shown = values if is_text else pc.cast(values, pa.string())
        shown = pa.concat_arrays([shown.cast(pa.string()), pa.array([STAR])])
        return {column: _cells(np.where(starred, len(values), codes), shown)}
    if values.null_count:
        marks = _cells(starred.astype(np.int64), pa.array([False, True]))
        null_code = len(values) - 1
        return {
            column: _cells(np.where(starred, null_code, codes), values),
            f"{column}__suppressed": marks,
        }
    shown = pa.concat_arrays([values, pa.nulls(1, values.type)])
    return {column: _cells(np.where(starred, len(values), codes), shown)}


def _cells(codes: CodeArray, values: pa.Array) -> Cells:
    return Cells(codes.astype(smallest_dtype(len(values))), values)


def suppressed(problem: Problem, solution: Solution) -> tuple[int, int]:
    """Rows left out, and starred cells among the rows that remain."""
    rows = problem.counts if solution.rows is None else solution.rows
    kept = solution.groups >= 0
    cells = 0
    for mask in solution.starred.values():
        cells += int(rows[kept][mask[solution.groups[kept]]].sum())
    return int(rows[~kept].sum()), cells


def foreseen_sizes(problem: Problem, solution: Solution) -> ClassSizes:
    """Group sizes the solution implies; what is published is measured anew."""
    rows = problem.counts if solution.rows is None else solution.rows
    kept = solution.groups >= 0
    sizes = np.bincount(solution.groups[kept], weights=rows[kept]).astype(np.int64)
    return ClassSizes.of_counts(sizes)


def column_actions(problem: Problem, solution: Solution) -> Mapping[str, str]:
    """What happened to each quasi-identifier, in a few words."""
    rows = problem.counts if solution.rows is None else solution.rows
    kept = solution.groups >= 0
    total = max(1, int(rows[kept].sum()))
    actions = {}
    for column in problem.quasi_identifiers:
        if column in solution.published:
            shown = solution.published[column]
            touched = shown.leaf_count[shown.codes[solution.groups[kept]]] > 1
            verb = "blurred"
        elif column in solution.starred:
            touched = solution.starred[column][solution.groups[kept]]
            verb = "starred"
        else:
            actions[column] = "kept"
            continue
        share = int(rows[kept][touched].sum()) / total
        actions[column] = f"{verb} in {share:.1%} of rows" if share else "kept"
    return actions
