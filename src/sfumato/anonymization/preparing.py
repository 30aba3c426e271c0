"""From a table and a request to the problem that a method solves.

Only distinct combinations and their counts leave the engine. Columns get their shapes: a hierarchy,
ranges, or sets of values; models become compiled rules.

For k-map the people of a population become entries of the problem, beside the rows to be released.
A group of rows and people shows what covers both, so at least its people match what is shown: a
group with k people keeps k-map, whatever the method. Which entries are people is told to the rules
as one more sensitive column, so that every method that obeys rules obeys this one (see
`sfumato.privacy.with_crowd`). Afterwards the people are taken out again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.anonymization.actions import Merged, date_columns, days_of, ranked, shifted
from sfumato.anonymization.persons import Persons
from sfumato.anonymization.persons import read as read_persons
from sfumato.anonymization.problem import (
    Problem,
    Shape,
    Solution,
    largest_sets,
)
from sfumato.anonymization.request import Request
from sfumato.budget import Budget, each
from sfumato.engines.memory import MemoryEngine
from sfumato.engines.protocol import Codes, column_of, smallest_dtype
from sfumato.errors import ColumnError, ParameterError, spell
from sfumato.hierarchy import Limit, Ranges, ValueSets, infer
from sfumato.hierarchy.tree import Array
from sfumato.kernels import group_sums
from sfumato.privacy import (
    SensitiveColumn,
    compile_rules,
    require_reachable,
    smaller_k,
    with_crowd,
    with_persons,
)
from sfumato.tables import Table
from sfumato.wording import noun

if TYPE_CHECKING:
    from sfumato.anonymization.parting import Whole

__all__ = [
    "in_common_codes",
    "prepare",
    "shape_of",
    "shapes_of",
    "with_people",
    "without_people",
]


def prepare(table: Table, request: Request, budget: Budget, whole: Whole | None = None) -> Problem:
    """The problem to solve; only distinct combinations with their counts leave the engine.

    With `whole` it is the problem of a part, in the codes, shapes and rules of the whole.
    """
    budget.progress("counting combinations")
    names = dict.fromkeys((*request.qi_columns, *request.sensitive))
    if request.target is not None:
        names[request.target] = None  # a target that is kept as it is still steers the cuts
    if whole is not None:
        return _part(table, tuple(names), whole, request, budget)
    persons = _persons(table, request, tuple(names), budget)
    if persons is None:
        original = entries = table.classes(tuple(names), budget=budget)
        merged = None
        if any(name in request.actions for name in names):
            merged = Merged.of(original, request.actions)
            entries = merged.entries
    else:
        original, merged, whose = persons
        entries = whose.entries
    crowd = None
    if request.population is not None:
        entries, crowd = in_common_codes(entries, _people(request, budget))
    if persons is None:
        columns = {
            name: SensitiveColumn.of(entries.column(name), entries.counts, entries.values_of(name))
            for name in request.sensitive
        }
        rules, number, counted = compile_rules(request.models, columns), entries.rows, "rows"
    else:
        columns, rules = whose.columns, whose.rules(request.models)
        number, counted = whose.number, "persons"
    if rules.k > number:
        raise ParameterError(
            f"k = {rules.k:,} is larger than the table, which has "
            f"{number:,} {noun(counted, number)}",
            where=table.name,
            remedy=smaller_k(number),
        )
    require_reachable(request.models, columns, number, counted=counted)
    if persons is None:
        held = _rows_of_values(entries, request.qi_columns)
    else:
        held = whose.holders(request.qi_columns)
    values = {name: entries.values_of(name) for name in request.qi_columns}
    shapes, reasons = shapes_of(request, values, held, max(rules.k, request.k_map or 0))
    return Problem(
        entries=entries,
        qi=request.qi_columns,
        sensitive=request.sensitive,
        shapes=shapes,
        rules=rules,
        weights=_weights(request),
        limits=_limits(request, shapes, held),
        options=_options(request, shapes),
        budget=budget,
        seed=request.seed,
        crowd=crowd,
        person=None if persons is None else request.person,
        histories=None if persons is None else whose.wide,
        apart=_lacking(entries, request) if request.missing == "own-class" else None,
        wildcards=request.missing == "wildcard",
        original=original,
        merged=merged,
        inferred=reasons,
        held=held,
    )


def _lacking(entries: Codes, request: Request) -> Array:
    """A number for what each entry lacks of the quasi-identifiers: 0 where nothing is missing."""
    lacks = np.zeros(entries.entries, dtype=np.int64)
    for name in request.qi_columns:
        null = np.asarray(entries.values_of(name).is_null())
        pattern = 2 * lacks + null[entries.column(name)]
        lacks = np.unique(np.append(pattern, 0), return_inverse=True)[1][:-1]
    return lacks


def _persons(
    table: Table, request: Request, names: tuple[str, ...], budget: Budget
) -> tuple[Codes, Merged | None, Persons] | None:
    """The entries and whose they are; None where rows are counted, since each is a person's."""
    if request.person is None:
        return None
    (person,) = table.require([request.person])
    kept = request.shift_dates or request.linkable
    if len(table.values(person).values[0]) == table.rows and not kept:
        return None
    wide = table.classes((*names, person), budget=budget)
    parts = request.linkable or _parts_rows(request)
    moved = None
    if request.shift_dates and request.key is not None:
        days = days_of(wide.values_of(person), request.key, request.shift_days)
        moved = shifted(wide, person, date_columns(table, request.dropped), days)
    note = table.engine.note if isinstance(table.engine, MemoryEngine) else None
    return read_persons(
        wide, person, request.sensitive, request.actions, parts=parts, moved=moved, note=note
    )


def _parts_rows(request: Request) -> bool:
    """Whether rows of one combination may go to different groups."""
    parted = request.chosen.parts or bool(request.options.get("relaxed"))
    return parted or len(largest_sets(request.qi)) > 1


def _part(
    table: Table, names: tuple[str, ...], whole: Whole, request: Request, budget: Budget
) -> Problem:
    """The problem of a part; its rows were changed by actions before."""
    rules, person, wide = whole.rules, None, None
    if whole.persons is None:
        original = table.classes(names, budget=budget)
        entries = whole.coded(original)
        held = _rows_of_values(entries, [*whole.open])
    else:
        (person,) = table.require([request.person])
        wide = table.classes((*names, person), budget=budget)
        original, _, whose = read_persons(
            wide, person, request.sensitive, {}, parts=_parts_rows(request)
        )
        entries = whole.coded(whose.entries)
        rules = with_persons(rules, whose.runs, whose.persons, whose.pairs)
        held = replace(whose, entries=entries).holders([*whole.open])
    held = {**{name: whole.held[name] for name in request.qi_columns}, **held}
    k = whole.rules.k
    shapes = {
        name: whole.shapes.get(name)
        or shape_of(request, name, entries.values_of(name), held[name], k)[0]
        for name in request.qi_columns
    }
    return Problem(
        entries=entries,
        qi=request.qi_columns,
        sensitive=request.sensitive,
        shapes=shapes,
        rules=rules,
        weights=_weights(request),
        limits=_limits(request, shapes, {n: held[n] for n in held if n not in whole.open}),
        options=_options(request, shapes),
        budget=budget,
        seed=request.seed,
        person=person,
        histories=wide,
        original=original,
        held=held,
        part=True,
    )


def _limits(
    request: Request, shapes: Mapping[str, Shape], held: Mapping[str, Array]
) -> Mapping[str, Limit]:
    """How far columns may be blurred at most."""
    if request.boundaries is None:
        return {}
    # whoever verifies a release counts rows of the whole table: neither persons nor a part's rows
    rows = held if request.person is None else None
    limits: dict[str, Limit] = request.boundaries.limits(shapes, rows)
    for limit in limits.values():
        if isinstance(limit.shape, Ranges):
            limit.shape.widest = math.inf if limit.max_width is None else limit.max_width
            limit.shape.intervals = limit.interval
    return limits


def _people(request: Request, budget: Budget) -> Codes:
    """The population's combinations of quasi-identifiers, changed as those of the table are."""
    assert request.population is not None
    budget.progress("counting the population")
    people = request.population.classes(request.qi_columns, budget=budget)
    if people.rows < (request.k_map or 0):
        raise ParameterError(
            f"k-map with k = {request.k_map:,} cannot be reached: the population has "
            f"{people.rows:,} people",
            where=request.population.name,
            remedy=f"Ask for {spell('k_map', people.rows)} at most."
            if people.rows
            else "Give a table of people.",
        )
    actions = {name: a for name, a in request.actions.items() if name in request.qi_columns}
    return Merged.of(people, actions).entries if actions else people


def _weights(request: Request) -> Mapping[str, float]:
    """Weights given by the user; those of the workload where none was given."""
    if request.workload is None:
        return dict(request.weights)
    return {**request.workload.weights(request.qi_columns), **request.weights}


def _options(request: Request, shapes: Mapping[str, Shape]) -> Mapping[str, Any]:
    """The method's options, with the cuts of the workload for methods that make cuts."""
    if request.workload is None or "cuts" not in request.chosen.options:
        return request.options
    return {"cuts": request.workload.cuts(shapes), **request.options}


def _rows_of_values(entries: Codes, names: Sequence[str]) -> dict[str, npt.NDArray[np.int64]]:
    """How many rows hold each value of some columns."""

    def held(name: str) -> npt.NDArray[np.int64]:
        return group_sums(entries.column(name), len(entries.values_of(name)), entries.counts)

    cells = entries.entries * len(names)
    return dict(zip(names, each(held, names, cells), strict=True))


def shapes_of(
    request: Request, columns: Mapping[str, pa.Array], held: Mapping[str, Array], k: int
) -> tuple[dict[str, Shape], dict[str, str]]:
    """How columns of these values may be blurred, and why inferred trees look as they do."""
    shapes: dict[str, Shape] = {}
    reasons: dict[str, str] = {}
    for name, values in columns.items():
        shapes[name], why = shape_of(request, name, values, held[name], k)
        if why is not None:
            reasons[name] = why
    return shapes, reasons


def shape_of(
    request: Request, name: str, values: pa.Array, held: Array, k: int
) -> tuple[Shape, str | None]:
    """How a column may be blurred, given the rows of each value; why, where a tree is inferred."""
    codes = name in request.categorical
    if name in request.trees:
        return request.trees[name].bind(values, name), None
    bound = {} if request.boundaries is None else request.boundaries.columns.get(name, {})
    ranges = bool(bound) and "marks" not in bound and not request.chosen.needs_trees
    if request.infers_trees and not ranges:
        hierarchy, why = infer(name, values, held, categorical=codes, k=k)
        return hierarchy.bind(values, name), why
    if column_of("", values.type).ordered and not codes:
        return Ranges(values, name, None if request.exact_ends else held, k), None
    return ValueSets(values, name), None


WHO = "\0who"
"""The column that tells rows from people."""
ROW, PERSON, NOBODY = 0, 1, 2


def in_common_codes(entries: Codes, people: Codes) -> tuple[Codes, Codes]:
    """Entries and people with one numbering of the values of the people's columns.

    Raises
    ------
    ColumnError
        If a column has another type in the population, so that no value could be the same.
    """
    mine = dict(zip(entries.columns, zip(entries.arrays, entries.values, strict=True), strict=True))
    theirs = []
    values = []
    for name, codes in zip(people.columns, people.arrays, strict=True):
        own = mine[name][1]
        other = _of_type(people.values_of(name), own.type, name)
        distinct, numbers = ranked(pa.concat_arrays([own, other]))
        width = smallest_dtype(len(distinct))
        mine[name] = (numbers[: len(own)][mine[name][0]].astype(width), distinct)
        theirs.append(numbers[len(own) :][codes].astype(width))
        values.append(distinct)
    arrays = tuple(array for array, _ in mine.values())
    return (
        replace(entries, arrays=arrays, values=tuple(distinct for _, distinct in mine.values())),
        replace(people, arrays=tuple(theirs), values=tuple(values)),
    )


def _of_type(values: pa.Array, wanted: pa.DataType, name: str) -> pa.Array:
    try:
        return values.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ColumnError(
            f"column `{name}` is {values.type} in the population and {wanted} in the table",
            remedy="Give both tables the same type, e.g. by reading them from the same format.",
        ) from None


def with_people(problem: Problem, k: int) -> Problem:
    """The problem with the people of its population among its entries.

    Parameters
    ----------
    k
        How many people every group must match.
    """
    crowd = problem.crowd
    assert crowd is not None
    rules = with_crowd(problem.rules, k)
    nowhere = rules.mapped + NOBODY
    arrays = []
    for name, codes in zip(problem.entries.columns, problem.entries.arrays, strict=True):
        if name in problem.qi:
            arrays.append(np.concatenate([codes, crowd.column(name)]))
            continue
        # people have no sensitive value: they are counted where no rule looks
        none = nowhere - int(rules.offsets[problem.sensitive.index(name)])
        width = smallest_dtype(none + 1)
        arrays.append(np.concatenate([codes.astype(width), np.full(crowd.entries, none, width)]))
    people = np.r_[np.zeros(problem.entries.entries, bool), np.ones(crowd.entries, bool)]
    who = np.where(people, PERSON, ROW).astype(np.uint8)

    name = WHO
    while name in problem.entries.columns:
        name += "\0"
    entries = Codes(
        (*problem.entries.columns, name),
        (*arrays, who),
        (*problem.entries.values, pa.array(["row", "person", "nobody"])),
        np.concatenate([problem.counts, crowd.row_counts]),
        len(people),
    )
    return replace(
        problem,
        entries=entries,
        sensitive=(*problem.sensitive, name),
        rules=rules,
        crowd=None,
        people=people,
    )


def without_people(solution: Solution, rows: int) -> Solution:
    """The solution for the first so many entries, which are the rows to be released."""
    entry = solution.entry
    kept = solution.entry_of_piece < rows
    groups = solution.groups[kept]
    used, numbers = np.unique(groups[groups >= 0], return_inverse=True)
    closed = np.full(len(groups), -1, dtype=np.int32)
    closed[groups >= 0] = numbers
    return replace(
        solution,
        groups=closed,
        published={name: shown.take(used) for name, shown in solution.published.items()},
        entry=None if entry is None else entry[kept],
        rows=None if solution.rows is None else solution.rows[kept],
    )
