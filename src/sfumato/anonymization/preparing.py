"""From a table and a request to the problem that a method solves.

Only distinct combinations and their counts leave the engine. Columns get their shapes: a hierarchy,
ranges, or sets of values; models become compiled rules.

For k-map the people of a population become entries of the problem, beside the rows to be released.
A group of rows and people shows what covers both, so at least its people match what is shown: a
group with k people keeps k-map, whatever the method. Which entries are people is told to the rules
as one more sensitive column, so that every method that obeys rules obeys this one (see
`sfumato.privacy.with_crowd`). Afterwards the people are taken out again.

Columns that name persons are refused before anything is solved (`refuse_named`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.anonymization.actions import Merged, date_columns, days_of, new_values, ranked, shifted
from sfumato.anonymization.persons import Persons
from sfumato.anonymization.persons import read as read_persons
from sfumato.anonymization.problem import Problem, Shape, Solution, largest_sets
from sfumato.anonymization.request import Request
from sfumato.budget import Budget, each
from sfumato.columns.content import FEW, meaning_of
from sfumato.columns.persons import (
    Changed,
    alike_persons,
    known_persons,
    named_by,
    naming_columns,
    not_compared,
    numbers_of_persons,
    other_names,
    perhaps_persons,
    published_names,
    refused_names,
    rows_of_words,
    shared_values,
)
from sfumato.columns.recognise import Recognised
from sfumato.engines.memory import MemoryEngine
from sfumato.engines.protocol import Codes, column_of, smallest_dtype
from sfumato.errors import ColumnError, ParameterError, spell
from sfumato.hierarchy import Limit, Ranges, ValueSets, infer
from sfumato.hierarchy.labels import as_text
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
from sfumato.tables import Table, table
from sfumato.wording import counted, noun

if TYPE_CHECKING:
    from sfumato.anonymization.parting import Whole


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
        asked = "k" if rules.k <= (request.k or 1) else "p"
        raise ParameterError(
            f"{asked} = {rules.k:,} is larger than the table, which has "
            f"{number:,} {noun(counted, number)}",
            where=table.name,
            remedy=smaller_k(number, asked),
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
    rules, person, wide, crowd = whole.rules, None, None, None
    rest = budget.unhurried()  # its time is for the search: parts are solved, however late they are
    if whole.persons is None:
        original = table.classes(names, budget=rest)
        entries = whole.coded(original)
        if whole.people is not None:
            entries, crowd = in_common_codes(entries, whole.people.select(request.qi_columns))
        held = _rows_of_values(entries, [*whole.open])
    else:
        (person,) = table.require([request.person])
        wide = table.classes((*names, person), budget=rest)
        original, _, whose = read_persons(
            wide, person, request.sensitive, {}, parts=_parts_rows(request)
        )
        entries = whole.coded(whose.entries)
        rules = with_persons(rules, whose.runs, whose.persons, whose.pairs)
        held = replace(whose, entries=entries).holders([*whole.open])
    held = {**{name: whole.held[name] for name in request.qi_columns}, **held}
    k = max(whole.rules.k, request.k_map or 0)
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
        crowd=crowd,
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
    """The population's combinations of quasi-identifiers."""
    assert request.population is not None
    budget.progress("counting the population")
    require_people(request)
    people: Codes = request.population.classes(request.qi_columns, budget=budget)
    return people.select(request.qi_columns)


def require_people(request: Request) -> None:
    """Refuse a population with fewer people than k-map asks for."""
    assert request.population is not None
    people = request.population
    if people.rows < (request.k_map or 0):
        raise ParameterError(
            f"k-map with k = {request.k_map:,} cannot be reached: the population has "
            f"{people.rows:,} people",
            where=people.name,
            remedy=f"Ask for {spell('k_map', people.rows)} at most."
            if people.rows
            else "Give a table of people.",
        )


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
        try:
            return Ranges(values, name, None if request.exact_ends else held, k), None
        except ColumnError:  # too far apart for ranges, which nobody makes where cells are starred
            if not request.chosen.stars:
                raise
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
        other = of_type(people.values_of(name), own.type, name)
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


def of_type(values: pa.Array, wanted: pa.DataType, name: str) -> pa.Array:
    """Values of a population in the type that they have in the table."""
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


def refuse_named(opened: Table, request: Request, budget: Budget | None = None) -> tuple[str, ...]:
    """Refuse to publish columns that name persons; what is to be said where that is overridden.

    Raises
    ------
    ColumnError
        If such a column is neither left out, nor replaced, nor named as the person.
    """
    gone = {*request.dropped, *request.replaced}
    gone |= {name for name in request.actions if _recoded(opened, request, name)}
    kept = [name for name in opened.columns if name not in gone]
    found = naming_columns(opened, kept, seed=request.seed, budget=budget)
    guilty = {name: role for name, role in found.items() if named_by(role)}
    if guilty and not request.rows_are_people:
        raise _naming(opened, guilty)
    told = _beside_person(opened, request, [name for name in kept if name not in guilty], budget)
    told += published_names(guilty)
    asked = {*request.qi_columns, *request.sensitive, *guilty}
    apart = [name for name in found if name not in asked]
    if apart:
        names = ", ".join(f"`{name}`" for name in apart)
        told.append(
            f"kept, though different in nearly every row: {names}; leave out what identifies "
            f"people ({spell('identifiers', apart)}), or replace it ({spell('pseudonyms', apart)})"
        )
    return (*told, *_shared(opened, request), *_uncounted(opened, request, budget))


def without_names(frame: Any, touched: Collection[str], seed: int = 0) -> Any:
    """A pandas frame, its index replaced by numbers of rows if it tells what a release must not.

    Parameters
    ----------
    touched
        Columns that a release leaves out or changes.
    """
    names = [str(name) for name in frame.index.names if name is not None]
    if not names:
        return frame
    labels = table(frame.index.to_frame(index=False).astype(str))
    found = naming_columns(labels, labels.columns, seed=seed)
    if {*names} & {*touched} or any(named_by(role) for role in found.values()):
        return frame.reset_index(drop=True)
    return frame


def _naming(opened: Table, guilty: Mapping[str, Recognised]) -> ColumnError:
    """Why a release stops, and what can be done about it."""
    names = list(guilty)
    numbers = [name for name in names if guilty[name].kind in _NUMBERS] or names
    person = min(numbers, key=lambda name: opened.class_sizes([name]).classes)
    others = [_replacing(names), f"or say whose rows they are ({spell('person', person)})"]
    why = {name: role.why for name, role in guilty.items()}
    return refused_names(why, opened.name, "identifiers", others)


def _replacing(names: Sequence[str]) -> str:
    return (
        f"replace {'it' if len(names) == 1 else 'them'} ({spell('pseudonyms', names)}, which needs "
        f"{spell('key_file', 'secret.key')})"
    )


def _beside_person(
    opened: Table, request: Request, kept: Sequence[str], budget: Budget | None
) -> list[str]:
    """Refuse columns that tell persons apart as the person's column does; what else to say of them.

    Quasi-identifiers are counted; of columns that actions change, what they become is looked at.
    """
    person = request.person
    if person is None:
        return []
    known = {person, *request.qi_columns}
    kept = [name for name in kept if name not in known]
    changed = _changing(request)
    whose = known_persons(opened, person)
    told: list[str] = []
    same: list[str] = []
    perhaps: list[str] = []
    if whose is None:
        told.append(not_compared(person))
    else:
        told += alike_persons(whose, person)
        same, perhaps = numbers_of_persons(opened, kept, whose, request.seed, changed)
    replaced = () if request.linkable else [n for n in request.replaced if n not in known]
    rest = [name for name in (*kept, *replaced) if name not in same]
    others = other_names(opened, rest, person, budget, changed)
    guilty = dict.fromkeys(same, f"its values are persons of `{person}`")
    guilty |= {n: f"its values are one-to-one with `{person}`" for n in others if n in kept}
    if guilty and not request.rows_are_people:
        names = list(guilty)
        raise refused_names(guilty, opened.name, "identifiers", [f"or {_replacing(names)}"])
    told += perhaps_persons([name for name in perhaps if name not in guilty], person)
    told += [
        f"`{name}` has one value per person: though it is replaced by pseudonyms, it tells which "
        f"rows belong together; leave it out ({spell('identifiers', [name])})"
        for name in others
        if name in replaced
    ]
    told += [
        f"`{person}` is `{word}` in {counted(rows, 'row')}, counted as one person's: leave out "
        "rows that are nobody's"
        for word, rows in rows_of_words(opened, person).items()
    ]
    return [*published_names(guilty), *told]


def _changing(request: Request) -> Changed:
    """What values of columns become by actions on them alone."""
    return {name: partial(_acted, name, actions) for name, actions in request.actions.items()}


def _acted(name: str, actions: Mapping[str, Any], values: pa.Array) -> pa.Array:
    there = set(as_text(values).to_pylist())  # a sample need not hold all that is recoded
    recode = {old: new for old, new in actions.get("recode", {}).items() if old in there}
    rest = {action: value for action, value in actions.items() if action != "recode"}
    return new_values(values, {**rest, **({"recode": recode} if recode else {})}, name)


def _recoded(opened: Table, request: Request, name: str) -> bool:
    """Whether at least half of the values of a column are recoded to others."""
    recode = request.actions[name].get("recode", {})
    real = sum(str(new) != old for old, new in recode.items())
    return bool(recode) and 2 * real >= opened.class_sizes([name]).classes


def _shared(opened: Table, request: Request) -> list[str]:
    """That equal values of two columns get equal pseudonyms; cells of remote tables stay there."""
    names = request.replaced
    meant = {name: request.meaning(name) for name in names}
    if len(names) < 2 or opened.engine.capabilities.remote:
        return []
    shared = shared_values(opened, names)
    return [
        f"{counted(number, 'value')} of `{one}` also stand in `{other}`, and "
        "have the same pseudonym there: if they do not mean the same, whoever knows one knows the "
        f"other; say what they are ({spell('columns', {other: {'pseudonym': other}})}), or leave "
        "one out"
        for one, other in combinations(names, 2)
        if meant[one] == meant[other] and (number := shared(one, other))
    ]


def _uncounted(opened: Table, request: Request, budget: Budget | None) -> list[str]:
    """Warnings about persons with several rows where rows are counted."""
    if request.rows_are_people or request.person is not None:
        return []
    said = []
    for name in (*request.dropped, *request.replaced):
        role = meaning_of(name)
        if role is None or role.role != "identifier" or role.kind not in _NUMBERS:
            continue
        sizes = opened.class_sizes([name], budget)
        if sizes.classes == sizes.rows:
            return []  # every row is a person, and other numbers are of something else
        if sizes.classes > FEW:
            said.append(
                f"`{name}` has {sizes.classes:,} values in {sizes.rows:,} rows: if they are "
                f"persons, rows were counted where persons should be ({spell('person', name)})"
            )
    return said


_NUMBERS = ("G", "H", "I", "R")
"""Kinds of numbers that are one person's: insured, patients, members, customers."""
