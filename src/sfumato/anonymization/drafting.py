"""From solutions to a draft: the recoding, what happened to each column, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sfumato.anonymization.actions import alone, described, pseudonym_step
from sfumato.anonymization.costs import risks, utility
from sfumato.anonymization.demand import Demand
from sfumato.anonymization.preparing import Prepared
from sfumato.anonymization.problem import Problem, Solution
from sfumato.anonymization.solving import Solved
from sfumato.engines.recoding import Cells, Recoding, Step
from sfumato.engines.results import ClassSizes, CodeArray, smallest_dtype
from sfumato.errors import ColumnError
from sfumato.populations.k_map import MatchesPopulation
from sfumato.privacy import KMap
from sfumato.release import Draft, Promise
from sfumato.release.anonymity import Anonymity
from sfumato.release.promise import WithoutColumns
from sfumato.tables import Table

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["STAR", "column_actions", "draft_of", "step_of"]

STAR = "*"
"""How a suppressed cell reads in a text column."""


def draft_of(table: Table, demand: Demand, parts: Sequence[Solved]) -> Draft:
    """The draft that carries solutions out and promises what was demanded."""
    steps = [step_of(part.prepared, part.solution, demand) for part in parts]
    written = {name for step in steps for name in step.cells}
    _require_new_names(written - set(demand.columns), table)
    steps += [
        alone(table, name, actions)
        for name, actions in demand.actions.items()
        if name not in written
    ]
    if demand.key is not None:
        steps += [pseudonym_step(table, name, demand.key) for name in demand.pseudonyms]
    hidden = [c.name for c in table.engine.schema() if c.name not in table.columns]
    drop = (*demand.identifiers, *hidden)
    promises = _promises(demand)
    if drop:
        promises.append(WithoutColumns(drop))
    return Draft(
        table=table,
        recoding=Recoding(tuple(steps), drop),
        method=demand.method,
        asked=demand.asked,
        promises=tuple(promises),
        qi=demand.qi,
        suppressed_rows=max(part.problem.rows - int(part.sizes.sum()) for part in parts),
        suppressed_cells=sum(_suppressed_cells(part) for part in parts),
        column_actions=_all_actions(table, demand, parts),
        lower_bound=parts[0].solution.lower_bound if len(parts) == 1 else None,
        utility=utility(parts, demand.workload),
        details=_details(parts),
        foreseen=_foreseen(parts[0]),
        seed=demand.seed,
        stopped_by=next((p.solution.stopped_by for p in parts if p.solution.stopped_by), None),
        warnings=tuple(dict.fromkeys(w for part in parts for w in part.solution.warnings)),
    )


def _require_new_names(added: set[str], table: Table) -> None:
    """Columns that mark stars must not take the place of columns that are there."""
    taken = sorted(added & set(table.columns))
    if taken:
        raise ColumnError(
            f"the release needs a column `{taken[0]}`, and the table already has one",
            where=table.name,
            remedy="Rename it, or make starred columns text (--suppressed-as text).",
        )


def _promises(demand: Demand) -> list[Promise]:
    """What must hold of the output: the models of each set, and k-map in the population."""
    promises: list[Promise] = []
    models = tuple(model for model in demand.models if not isinstance(model, KMap))
    if models:
        wildcards = bool(demand.options.get("wildcards"))
        promises.append(Anonymity(models, demand.qi, demand.sensitive, wildcards))
    if demand.population is not None:
        promises.append(
            MatchesPopulation(
                demand.k_map,
                demand.qi,
                demand.population.name,
                demand.population.fingerprint(),
                demand.hierarchies,
                demand.population,
            )
        )
    return promises


def _foreseen(part: Solved) -> ClassSizes:
    """Class sizes of the first set, from the groups."""
    sizes = part.sizes[part.sizes > 0]
    return ClassSizes.of_counts(
        sizes if len(part.sets) == 1 else part.view_of(part.sets[0]).class_sizes
    )


def _all_actions(table: Table, demand: Demand, parts: Sequence[Solved]) -> dict[str, str]:
    actions = dict.fromkeys(table.columns, "kept")
    for part in parts:
        actions |= column_actions(part)
    for name, given in demand.actions.items():
        first = described(given)
        then = actions[name]
        actions[name] = first if then == "kept" else f"{first}; {then}"
    actions |= dict.fromkeys(demand.pseudonyms, "replaced by pseudonyms")
    return {**actions, **dict.fromkeys(demand.identifiers, "dropped")}


def _details(parts: Sequence[Solved]) -> dict[str, Any]:
    """What methods tell beyond the common fields; under `parts` where there are several."""
    details: dict[str, Any] = {}
    if len(parts) == 1:
        details |= parts[0].solution.details
    elif any(part.solution.details for part in parts):
        details["parts"] = [{"qi": part.sets, **part.solution.details} for part in parts]
    inferred = {name: why for part in parts for name, why in part.prepared.inferred.items()}
    if inferred:
        details["inferred_hierarchies"] = inferred
    details["risk"] = risks(parts)
    return details


def step_of(prepared: Prepared, solution: Solution, demand: Demand) -> Step:
    """The recoding step that carries a solution out.

    Blurred columns become text. Starred columns keep their type, with null for a star (and a
    column ``<name>__suppressed`` where nulls occurred before), or become text on request.
    """
    problem, original = prepared.problem, prepared.original
    names = problem.qi
    if solution.entry is not None or len(original.columns) > len(names):
        names = original.columns  # equal quasi-identifiers may go to different groups
    groups, entry, rows, source = _pieces(prepared, solution)
    cells: dict[str, Cells] = {}
    for column in problem.qi:
        if column in solution.published:
            shown = solution.published[column]
            codes = np.append(np.maximum(shown.codes, 0), 0)  # -1, a row left out, takes the last
            codes = codes.astype(smallest_dtype(len(shown.labels)))
            cells[column] = Cells(codes[groups], shown.labels)
        elif column in solution.starred:
            starred = (groups >= 0) & solution.starred[column][groups]
            if starred.any():
                cells |= _starred(problem, column, source, starred, demand.stars_as_text)
    match = original if names == original.columns else original.select(names)
    if len(entry) != original.entries or rows is not None:
        match = match.take(entry)
    first = last = None
    if rows is not None:
        first, last = _ordinals(entry, rows)
    keep = None if bool((groups >= 0).all()) else groups >= 0
    return Step(match, cells, keep, first, last)


def _pieces(
    prepared: Prepared, solution: Solution
) -> tuple[
    npt.NDArray[np.int32],
    npt.NDArray[np.int64],
    npt.NDArray[np.int64] | None,
    npt.NDArray[np.int64],
]:
    """Group, original entry, rows (None: all) and entry of the problem, for each piece."""
    if prepared.merged is not None:
        groups, entry, rows, source = prepared.merged.expanded(
            solution.groups, solution.entry, solution.rows
        )
        whole = np.arange(prepared.original.entries)
        return groups, whole if entry is None else entry, rows, source
    whole = np.arange(prepared.original.entries)
    entry = whole if solution.entry is None else solution.entry
    return solution.groups, entry, solution.rows, entry


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
        marker = problem.options.get("marker") or STAR
        if pc.any(pc.equal(shown, marker)).as_py():
            raise ColumnError(
                f"column `{column}` already contains the text that marks suppressed cells",
                remedy="Choose another marker (--option marker=…).",
            )
        shown = pa.concat_arrays([shown.cast(pa.string()), pa.array([marker])])
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


def _suppressed_cells(part: Solved) -> int:
    """Starred cells among the rows that remain."""
    return sum(
        int(part.sizes[mask[: len(part.sizes)]].sum()) for mask in part.solution.starred.values()
    )


def column_actions(part: Solved) -> Mapping[str, str]:
    """What happened to each quasi-identifier, in a few words."""
    total = max(1, int(part.sizes.sum()))
    groups = len(part.sizes)
    actions = {}
    for column in part.problem.qi:
        if column in part.solution.published:
            shown = part.solution.published[column]
            touched = shown.leaf_count[shown.codes[:groups]] > 1
            verb = "blurred"
        elif column in part.solution.starred:
            touched = part.solution.starred[column][:groups]
            verb = "starred"
        else:
            actions[column] = "kept"
            continue
        share = int(part.sizes[touched].sum()) / total
        told = f"{share:.1%}" if share >= 0.001 else "fewer than 0.1%"
        actions[column] = f"{verb} in {told} of rows" if share else "kept"
    return actions
