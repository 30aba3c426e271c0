"""From a table and a request to solutions: prepare the problem, solve it set by set.

Sets of quasi-identifiers without a common column are anonymized one by one: each blurs only its own
columns, so neither pays for the other. Sets that share columns are solved so that the promise holds
for each of them (see `several_sets`; full-domain recoding judges every set itself). Only where that
is not possible they are solved as their union: whatever holds for the classes of a union holds for
the classes of each of its parts, since those are unions of classes and all models are monotone. The
result says how it was.

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
from sfumato.anonymization.linkable import require_countable, solve_linkable
from sfumato.anonymization.methods.earlier import keep_groups
from sfumato.anonymization.persons import Persons
from sfumato.anonymization.persons import read as read_persons
from sfumato.anonymization.problem import (
    KeptGroups,
    Problem,
    Shape,
    Solution,
    grouped,
    largest_sets,
)
from sfumato.anonymization.request import Request
from sfumato.anonymization.several_sets import shared_columns, solve_apart
from sfumato.anonymization.suppression import lifted, nothing_left, only, releasable
from sfumato.budget import Budget, each
from sfumato.engines.memory import MemoryEngine
from sfumato.engines.protocol import column_of
from sfumato.engines.results import Codes, smallest_dtype
from sfumato.errors import ColumnError, ParameterError, PromiseError, spell
from sfumato.hierarchy import Limit, Ranges, ValueSets, infer
from sfumato.hierarchy.tree import Array
from sfumato.kernels import group_sums
from sfumato.privacy import (
    SensitiveColumn,
    compares,
    compile_rules,
    require_reachable,
    smaller_k,
    with_crowd,
    with_persons,
)
from sfumato.tables import Table
from sfumato.wording import counted, noun

if TYPE_CHECKING:
    from sfumato.anonymization.parting import Whole

__all__ = [
    "components",
    "in_common_codes",
    "prepare",
    "released",
    "shape_of",
    "shapes_of",
    "solve",
    "stay_within",
    "with_people",
    "without_people",
]


Sets = tuple[tuple[str, ...], ...]
AGAIN = 20
"""How often a method may leave out more rows before its last answer is taken."""


def components(sets: Sets) -> list[Sets]:
    """Sets grouped so that those in different groups share no column.

    Examples
    --------
    >>> components((("age", "sex"), ("zip",), ("sex", "job")))
    [(('age', 'sex'), ('sex', 'job')), (('zip',),)]
    """
    groups: list[list[tuple[str, ...]]] = []
    for names in sets:
        touched = [g for g in groups if any(set(names) & set(other) for other in g)]
        joined = [other for g in touched for other in g] + [names]
        at = groups.index(touched[0]) if touched else len(groups)
        groups = [g for g in groups if g not in touched]
        groups.insert(at, joined)
    return [tuple(group) for group in groups]


def solve(
    table: Table, request: Request, budget: Budget, whole: Whole | None = None
) -> list[Solution]:
    """Solve an opened request, set by set where that is possible.

    A row is released only if no solution suppresses it. Where rows are suppressed for one set, the
    classes of another would lose rows, so then all sets are solved as one. With `whole` the table
    is one part of a larger one.
    """
    if request.linkable:
        return [_linked(table, request, budget)]
    parts = components(request.qi)
    solved = [_solved(table, request, sets, budget, whole) for sets in parts]
    if len(parts) > 1 and any((part.groups < 0).any() for part in solved):
        solved = [_solved(table, request, request.qi, budget, whole)]
    return solved


def _linked(table: Table, request: Request, budget: Budget) -> Solution:
    """Whole histories."""
    histories = table.class_sizes([request.person], budget)
    require_countable(histories, request.known_rows, values=bool(request.sensitive))
    problem = prepare(table, request, budget)
    budget.progress("blurring histories")
    once = request.repeats == "once"
    found = solve_linkable(problem, request.k, request.known_rows, once=once)
    return replace(found, solves=replace(problem, sets=request.qi))


def _solved(
    table: Table, request: Request, sets: Sets, budget: Budget, whole: Whole | None
) -> Solution:
    about = request.about(sets)
    problem = prepare(table, about, budget, whole)
    budget.progress(f"anonymizing {', '.join(about.qi_columns)}")
    solution = released(problem, about)
    stay_within(problem, solution, request.method)
    if request.missing == "own-class":
        _keep_missing_apart(problem, solution, request.method)
    return replace(solution, solves=replace(problem, sets=sets))


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
    if _ordered(values) and not codes:
        return Ranges(values, name, None if request.exact_ends else held, k), None
    return ValueSets(values, name), None


def _ordered(values: pa.Array) -> bool:
    return column_of("", values.type).ordered


def released(problem: Problem, request: Request) -> Solution:
    """The method's solution, held against the distribution of the rows that it releases."""
    rows = problem.entries.entries
    if problem.crowd is not None:
        problem = with_people(problem, request.k_map)
    kept = releasable(problem)
    for _ in range(AGAIN):
        if rows and not kept[:rows].any():
            if problem.part:
                return grouped(problem, np.full(rows, -1, dtype=np.int32))
            raise nothing_left(problem, request.models)
        solution = _of_sets(only(problem, kept), request)
        out = solution.groups < 0
        fixed = problem.part or not compares(problem.rules) or request.chosen.judges_sets
        # a method that says how many rows it left out by choice has compared with the others
        if fixed or not out.any() or solution.left_out is not None:
            break
        # t-closeness is measured on what is released: what was left out must not count
        kept[np.flatnonzero(kept)[solution.entry_of_piece[out]]] = False
    solution = lifted(solution, kept, problem)
    if solution.like is not None:  # also the rows that the method never saw
        shown = solution.like["rows_in_kept_groups"] + solution.like["rows_in_new_groups"]
        like: KeptGroups = {**solution.like, "rows_left_out": problem.rows - shown}
        solution = replace(solution, like=like)
    if problem.people is not None:
        solution = without_people(solution, rows)
    if rows and not problem.part and not (solution.groups >= 0).any():
        raise nothing_left(problem, request.models)
    return solution


def _of_sets(problem: Problem, request: Request) -> Solution:
    """The solution for all sets of a request, each by itself where that is possible."""
    chosen = request.chosen
    sets = largest_sets(request.qi)
    if request.recoding is not None:
        stars = request.method == "cells"
        return keep_groups(problem, request.recoding, request.trees, chosen.solve, stars=stars)
    if len(sets) == 1:
        return chosen.solve(problem)
    apart = "within boundaries" if problem.limits else ""
    if problem.apart is not None:
        apart = "missing values in classes of their own"
    if chosen.judges_sets and not problem.limits:
        solution = chosen.solve(replace(problem, sets=sets))
        by, why = "levels that fit every set", None
    elif chosen.blurs and not apart and shared_columns(sets):
        return solve_apart(problem, sets, request.method)
    else:
        solution = chosen.solve(problem)
        by = "union"
        why = apart or f"method {request.method}"
    told = {"shared": list(shared_columns(sets)), "by": by}
    if why is not None:
        told["why"] = f"{why}: more is blurred than the sets ask for"
    return replace(solution, details={**solution.details, "several_sets": told})


def _keep_missing_apart(problem: Problem, solution: Solution, name: str) -> None:
    """Refuse groups in which some rows lack a quasi-identifier that others have."""
    assert problem.apart is not None
    entry = solution.entry_of_piece
    shown = solution.groups >= 0
    pairs = np.unique(np.stack([solution.groups[shown], problem.apart[entry[shown]]]), axis=1)
    if pairs.shape[1] > len(np.unique(pairs[0])):
        raise PromiseError(
            f"method `{name}` blurred missing values together with others",
            remedy=f"Choose a method that keeps them apart, e.g. {spell('method', 'mondrian')}.",
        )


def stay_within(problem: Problem, solution: Solution, name: str) -> None:
    """Refuse a solution that blurs cells beyond the boundaries, whatever method made it."""
    entry = solution.entry_of_piece
    rows = solution.rows_of_pieces(problem)
    for column, limit in problem.limits.items():
        codes = problem.entries.column(column)[entry]
        beyond = 0
        if column in solution.published:
            beyond = limit.violations(codes, solution.published[column].take(solution.groups), rows)
        elif column in solution.starred:
            starred = (solution.groups >= 0) & solution.starred[column][solution.groups]
            beyond = int(rows[starred & ~limit.may_be_starred(codes)].sum())
        if beyond:
            raise PromiseError(
                f"method `{name}` blurred {counted(beyond, 'cell')} of `{column}` "
                "beyond the boundaries",
                remedy=f"Choose a method that keeps them, e.g. {spell('method', 'mondrian')}.",
            )


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
