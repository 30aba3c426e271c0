"""Where a table is cut into parts, and what each part must know of the whole.

The parts are the leaves of a coarse tree of cuts, planned from a sample of rows.

Cuts are Mondrian's first levels. Rows are cut on the axis on which they are spread widest, into two
sides whose sizes are as the parts wanted on each; numbers at a value, the leaves of a tree between
the children of a node, and categories without a tree into the common ones and the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.anonymization.actions import new_values, ranked
from sfumato.anonymization.numbers_as import STANDING
from sfumato.anonymization.persons import persons_in_classes
from sfumato.anonymization.preparing import of_type, shapes_of
from sfumato.anonymization.problem import Shape, Solution
from sfumato.anonymization.releasing import in_words, risks, sizes_before, suppressed_cells
from sfumato.anonymization.request import Request
from sfumato.budget import Budget
from sfumato.engines.encoding import codes_among, codes_of_table
from sfumato.engines.protocol import (
    BATCH_ROWS,
    TEXT_COPIES,
    ClassSizes,
    Codes,
    Column,
    asks_sql,
    smallest_dtype,
)
from sfumato.engines.recoding import Cut, Dealt, Others, Parting
from sfumato.errors import ColumnError, EngineError, ParameterError, TooManyClassesError, spell
from sfumato.hierarchy import EncodedHierarchy, Ranges
from sfumato.hierarchy.tree import Array
from sfumato.privacy import Rules, SensitiveColumn, compile_rules, require_reachable
from sfumato.privacy.check import Risk, risk_of_classes
from sfumato.privacy.rules import holds
from sfumato.tables import Table

if TYPE_CHECKING:
    from sfumato.engines.sql_engine import SQLEngine


MOST_VALUES = 1 << 20
"""Values of a column that are held; of a column of numbers with more, only the ends are."""
_VALUE = 1 << 8
"""Bytes that a value takes beside those of the part at work; all have a quarter of a limit."""
MOST_ASKED = 10_000
"""Values whose persons are counted apart; where more are in question, those of all values are."""
MOST_MEMBERS = 256
"""Values that a cut lists at most."""
MOST_NUMBERS = 4_096
"""Different means, medians or middles of a column whose rows a part tells of at most."""


@dataclass(frozen=True, eq=False)
class Whole:
    """What a part must know of the table it is part of.

    Attributes
    ----------
    rows
        Rows of the table.
    values, counts
        For each quasi-identifier and sensitive column its distinct values in the order of codes,
        and the rows that hold them; of an open column, its ends.
    open
        Columns of numbers with too many values to be held: each part adds its own.
    changed
        Values before and after the actions on a column.
    shapes, inferred
        How columns may be blurred, and why inferred trees look as they do.
    rules
        What must hold, measured against the distribution of the whole table.
    held
        Like `counts`; where persons are counted, and rows do not tell that at least k hold a
        value, how many persons do.
    persons
        How many persons there are, where some have several rows.
    most
        Rows of a person, at most.
    people
        Those of a population who lie in the part, where k-map is asked.
    """

    rows: int
    values: Mapping[str, pa.Array]
    counts: Mapping[str, Array]
    open: frozenset[str]
    changed: Mapping[str, tuple[pa.Array, pa.Array]]
    shapes: Mapping[str, Shape]
    inferred: Mapping[str, str]
    rules: Rules
    held: Mapping[str, Array]
    persons: int | None = None
    most: int = 1
    people: Codes | None = None

    @classmethod
    def of(cls, table: Table, request: Request, budget: Budget) -> Whole:
        """Ask for the values of each column, one after the other."""
        values: dict[str, pa.Array] = {}
        counts: dict[str, Array] = {}
        changed: dict[str, tuple[pa.Array, pa.Array]] = {}
        left_open = set()
        target = () if request.target is None else (request.target,)
        names = dict.fromkeys((*request.qi_columns, *request.sensitive, *target, *request.actions))
        left = MOST_VALUES
        if budget.memory is not None and not table.engine.capabilities.coded:
            left = min(left, budget.memory // 4 // _VALUE)
        for name in sorted(names, key=lambda name: table.column(name).ordered):  # may be open
            budget.progress(f"counting the values of {name}")
            heavy = 1.0
            if budget.memory is not None and asks_sql(table.engine):
                letters = table.engine.value_bytes([name]).get(name, 0)
                heavy = max(heavy, TEXT_COPIES * letters / _VALUE)
            found = _values(table, name, request, int(left / heavy), budget.memory is not None)
            others = _values_of_people(request, name, int(left / heavy))
            if found is None or others is None:
                left_open.add(name)
                ends = _ends(table, name)
                if request.population is not None and name in request.qi_columns:
                    theirs = of_type(_ends(request.population, name), ends.type, name)
                    ends = joined(theirs, ends)
                values[name], counts[name] = ranked(ends)[0], np.zeros(0, np.int64)
                continue
            held, codes = found.values[0], found.arrays[0]
            if name in request.actions:
                made = new_values(held, request.actions[name], name)
                changed[name] = (held, made)
                held, renumbered = ranked(made)
                codes = renumbered[codes]
            if len(others):
                held, renumbered = ranked(joined(of_type(others, held.type, name), held))
                codes = renumbered[len(others) :][codes]
            if budget.memory is not None:
                left = max(1, left - int(heavy * len(held)))
            values[name] = held
            counts[name] = np.bincount(codes, found.row_counts, len(held)).astype(np.int64)
        rows = table.rows
        persons, most = _number_of_persons(table, request, budget)
        held = counts
        if persons is not None:
            held = _of_persons(table, request, values, counts, changed, most, budget)
        columns = {name: SensitiveColumn(held[name], values[name]) for name in request.sensitive}
        number, counted = (rows, "rows") if persons is None else (persons, "persons")
        require_reachable(request.models, columns, number, counted=counted)
        rules = compile_rules(request.models, columns)
        closed = {name: values[name] for name in request.qi_columns if name not in left_open}
        shapes, inferred = shapes_of(request, closed, held, max(rules.k, request.k_map or 0))
        return cls(
            rows=rows,
            values=values,
            counts=counts,
            open=frozenset(left_open),
            changed=changed,
            shapes=shapes,
            inferred=inferred,
            rules=rules,
            held=held,
            persons=persons,
            most=most,
        )

    def coded(self, entries: Codes) -> Codes:
        """Entries of a part in the codes of the whole."""
        arrays, values = [], []
        for name, array, own in zip(entries.columns, entries.arrays, entries.values, strict=True):
            if name not in self.values:  # persons are numbered by parts
                arrays.append(array)
                values.append(own)
                continue
            known = self.values[name]
            if name in self.open:
                known, _ = ranked(joined(known, own))
            code = codes_among(own, known)
            if len(code) and code.min() < 0:
                raise EngineError(
                    "rows changed while the release was being made",
                    remedy="Run it again on a table that does not change.",
                )
            arrays.append(code.astype(smallest_dtype(len(known)))[array])
            values.append(known)
        return Codes(entries.columns, tuple(arrays), tuple(values), entries.counts, entries.entries)


def _values(
    table: Table, name: str, request: Request, most: int, scarce: bool = False
) -> Codes | None:
    """A column's values with their counts; None of numbers of which there are too many.

    Of sensitive columns all are needed, and held unless memory is scarce.
    """
    needed = name not in request.qi_columns or name in request.actions
    try:
        return table.values(name, None if needed and not scarce else most)
    except TooManyClassesError:
        ordered = table.column(name).ordered and not needed
        if ordered and name not in request.trees and not request.infers_trees:
            return None
        raise ParameterError(
            f"column `{name}` has more than {most:,} distinct values, too many to be held "
            "while the table is solved in parts",
            where=table.name,
            remedy="Leave it out, make it coarser first, or allow more memory (e.g. "
            f"{spell('memory', '4GB')}).",
        ) from None


def _values_of_people(request: Request, name: str, most: int) -> pa.Array | None:
    """A quasi-identifier's values in the population, as actions change them; none without one."""
    if request.population is None or name not in request.qi_columns:
        return pa.array([])
    found = _values(request.population, name, request, most)
    if found is None or name not in request.actions:
        return None if found is None else found.values[0]
    return ranked(new_values(found.values[0], request.actions[name], name))[0]


def _ends(table: Table, name: str) -> pa.Array:
    """The ends of a column, and null if it occurs."""
    if asks_sql(table.engine):
        return table.engine.ends(name)
    values, _ = ranked(table.values(name).values[0])
    last = len(values) - 1
    return values.take(indices(np.unique(np.maximum([0, last - values.null_count, last], 0))))


@dataclass(frozen=True, eq=False)
class DealtPopulation:
    """The people of a population, dealt to the parts of a table, on disk.

    Attributes
    ----------
    counts
        People of each part.
    """

    parting: Parting
    dealt: Dealt
    columns: tuple[Column, ...]
    counts: Array
    into: Array
    """For each part that people were dealt to, the part that it became."""

    @classmethod
    def of(cls, request: Request, table: Table, parting: Parting, path: Path) -> DealtPopulation:
        """Deal the people out; they are read once."""
        population = request.population
        assert population is not None
        columns = tuple(table.column(name) for name in request.qi_columns)
        counts = np.zeros(parting.parts, dtype=np.int64)

        def numbered() -> Iterator[pa.RecordBatch]:
            for batch in population.batches(request.qi_columns, BATCH_ROWS // 4):
                arrays = [of_type(_decoded(batch.column(c.name)), c.type, c.name) for c in columns]
                rows = pa.table(arrays, names=[c.name for c in columns])
                part = parting.of(codes_of_table(rows))
                counts[:] += np.bincount(part, minlength=parting.parts)
                yield from rows.add_column(0, "part", pa.array(part)).to_batches()

        dealt = Dealt.out(numbered(), path)
        return cls(parting, dealt, columns, counts, np.arange(parting.parts))

    def beside(self, rows: pa.Table) -> pa.Table:
        """The people who lie in the same part as some rows."""
        first = codes_of_table(rows.slice(0, 1).select(list(self.parting.columns)))
        at = self.into[int(self.parting.of(first)[0])]
        tables = [self.dealt.table(int(part)) for part in np.flatnonzero(self.into == at)]
        empty = pa.schema([(column.name, column.type) for column in self.columns]).empty_table()
        return pa.concat_tables([empty, *(t for t in tables if t is not None)])


def others_of(request: Request, table: Table) -> Others:
    """The people of a population, to be cut where the table is by the same statement.

    Raises
    ------
    ColumnError
        If a column is of another kind there: databases do not compare such values as we do.
    """
    population = request.population
    assert population is not None
    columns = tuple(population.column(name) for name in request.qi_columns)
    for theirs in columns:
        own = table.column(theirs.name)
        alike = own.kind == theirs.kind
        if alike and own.kind == "timestamp":
            alike = bool(own.type.tz) == bool(theirs.type.tz)
        if not alike:
            raise ColumnError(
                f"column `{own.name}` is {theirs.type} in the population and {own.type} in the "
                "table",
                where=population.name,
                remedy="Give both tables the same type.",
            )
    return Others(population.engine, columns)


def _decoded(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array


def _number_of_persons(table: Table, request: Request, budget: Budget) -> tuple[int | None, int]:
    """How many persons a database has, and the rows of one at most; None if each has one row."""
    if request.person is None or table.engine.capabilities.coded:
        return None, 1
    (person,) = table.require([request.person])
    sizes = table.class_sizes([person], budget)
    if sizes.classes == sizes.rows:
        return None, 1
    return sizes.classes, int(sizes.sizes.max())


def _of_persons(
    table: Table,
    request: Request,
    values: Mapping[str, pa.Array],
    rows: Mapping[str, Array],
    changed: Mapping[str, tuple[pa.Array, pa.Array]],
    most: int,
    budget: Budget,
) -> dict[str, Array]:
    """How many persons hold each value of a column, where rows do not tell that enough do.

    Persons of sensitive values are always counted: models compare with their distribution. Of
    quasi-identifiers it only matters which values fewer than k hold. Where actions make values
    equal, at least as many persons hold the new one as any of the old ones.
    """
    assert request.person is not None
    k = max([1, *(model.least_rows for model in request.models)])
    held = dict(rows)
    for name in (*request.qi_columns, *request.sensitive):
        few = rows[name] < k * most
        if not len(few) or (name not in request.sensitive and not few.any()):
            continue
        old, new = changed.get(name, (values[name], values[name]))
        wanted = None
        if name not in request.sensitive and few.sum() <= MOST_ASKED:
            wanted = old.filter(pa.array(few[codes_among(new, values[name])]))
        budget.progress(f"counting who holds values of {name}")
        found = database(table).holders(name, request.person, wanted, budget)
        own = found.values[0]
        own = own if name not in changed else new.take(indices(codes_among(own, old)))
        persons = np.zeros(len(values[name]), dtype=np.int64)
        np.maximum.at(persons, codes_among(own, values[name])[found.arrays[0]], found.row_counts)
        held[name] = persons if wanted is None else np.where(few, persons, rows[name])
    return held


def database(table: Table) -> SQLEngine:
    assert asks_sql(table.engine)
    return table.engine


@dataclass(frozen=True, eq=False)
class _Axis:
    """A column that rows can be cut by: where each sampled row lies, and what a cut there says."""

    name: str
    position: Array
    place: Array
    edges: Array
    """Positions at which a cut may be made."""
    values: pa.Array
    """The value at each position."""
    listed: bool
    """Whether positions are no order of values, so that a cut lists them."""
    priority: float


def plan_parts(
    sample: pa.Table,
    whole: Whole,
    request: Request,
    parts: int,
    least: int = 1,
    listed: int | None = None,
) -> Parting:
    """Cuts that make about so many parts of about the same size, from a sample of rows.

    Parameters
    ----------
    least
        Sampled rows that a part must have.
    listed
        Values that all cuts may list together.
    """
    most = MOST_MEMBERS if listed is None else min(MOST_MEMBERS, max(1, listed // parts))
    named = request.qi_columns
    axes = [axis for name in named if (axis := _axis(sample, whole, request, name, most))]
    cuts: list[Cut] = []
    number = 0

    def grow(rows: Array, wanted: int) -> int:
        nonlocal number
        found = _best_cut(axes, rows, wanted, least, most) if wanted > 1 else None
        if found is None:
            number += 1
            return -number
        axis, low, edge = found
        at = len(cuts)
        cuts.append(Cut(axis.name, axis.values.slice(0, 0), axis.listed, 0, 0))
        below = axis.position[rows] < edge
        share = max(1, min(wanted - 1, round(wanted * float(below.mean()))))
        inside = np.arange(low, edge) if axis.listed else np.array([edge])
        cuts[at] = Cut(
            axis.name,
            axis.values.take(indices(inside)),
            axis.listed,
            grow(rows[below], share),
            grow(rows[~below], wanted - share),
        )
        return at

    grow(np.arange(sample.num_rows), parts)
    return Parting(tuple(cuts), number)


def _axis(sample: pa.Table, whole: Whole, request: Request, name: str, most: int) -> _Axis | None:
    """A quasi-identifier as sampled rows lie on it; None where it cannot be cut.

    A cut lists so many values at most.
    """
    own = codes_of_table(sample.select([name]))
    values, codes = own.values[0], own.arrays[0].astype(np.int64)
    uncut = (pa.null(), pa.binary(), pa.large_binary())
    if len(values) < 2 or values.type in uncut or name in whole.changed:
        return None  # values that actions make equal stay together
    largest = max(request.weights.get(column, 1.0) for column in request.qi_columns)
    priority = request.weights.get(name, 1.0) / largest if request.weights and largest else 0.0
    shape = whole.shapes.get(name)
    if isinstance(shape, EncodedHierarchy):
        return _tree_axis(name, shape, codes_among(values, shape.values)[codes], priority)
    many = len(values) > 2 * most  # lists would cut off few of the rows
    if isinstance(shape, Ranges) or name in whole.open or many:
        line = np.arange(len(values)) / (len(values) - 1)
        if isinstance(shape, Ranges) and len(shape.points):  # none if no number is finite
            points = shape.points[np.minimum(shape.position, len(shape.points) - 1)]
            there = codes_among(values, shape.values)
            line = (points[there] - shape.points[0]) / (shape.width or 1.0)
        edges = np.arange(1, len(values) - (1 if values.null_count else 0))
        return _Axis(name, codes, line, edges, values, False, priority)
    common = np.argsort(-np.bincount(codes, minlength=len(values)), kind="stable")
    position = np.empty(len(values), np.int64)
    position[common] = np.arange(len(values))
    line = np.arange(len(values)) / (len(values) - 1)
    ordered = values.take(indices(common))
    edges = np.arange(1, min(len(values), most + 1))
    return _Axis(name, position[codes], line, edges, ordered, True, priority)


def _tree_axis(name: str, shape: EncodedHierarchy, codes: Array, priority: float) -> _Axis:
    """The leaves of a tree lie beside each other; cuts fall between the children of a node."""
    edges = np.unique(shape.first[(shape.first > 0)])
    at = np.argsort(shape.position, kind="stable")
    line = np.arange(shape.size) / max(shape.size - 1, 1)
    rising = bool((np.diff(at) > 0).all()) and not shape.values.null_count
    values = shape.values.take(indices(at))
    return _Axis(name, shape.position[codes].astype(np.int64), line, edges, values,
                 not rising, priority)  # fmt: skip


def _best_cut(
    axes: Sequence[_Axis], rows: Array, wanted: int, least: int, most: int
) -> tuple[_Axis, int, int] | None:
    """The axis with the largest spread that can be cut, where rows begin on it, and the cut."""
    scored = []
    for at, axis in enumerate(axes):
        low, high = int(axis.position[rows].min()), int(axis.position[rows].max())
        if low < high:
            spread = abs(float(axis.place[high] - axis.place[low]))
            scored.append((spread + axis.priority, -at, low, high))
    share = (wanted // 2) / wanted
    for _, at, low, high in sorted(scored, reverse=True):
        axis = axes[-at]
        edges = axis.edges[(axis.edges > low) & (axis.edges <= high)]
        if axis.listed:
            edges = edges[edges - low <= most]
        if not len(edges):
            continue
        below = np.searchsorted(np.sort(axis.position[rows]), edges)
        best = int(np.argmin(np.abs(below - share * len(rows))))
        if min(below[best], len(rows) - below[best]) >= max(least, 1):
            return axis, low, int(edges[best])
    return None


def merged_into(
    parting: Parting, counts: Array, rules: Rules, *, overlapping: bool = False
) -> Array:
    """For each part the part it becomes, once failing ones were merged with their neighbours.

    A branch of the tree stays cut where both of its sides satisfy the rules.

    Parameters
    ----------
    counts
        What each part holds, a row each: its rows or persons, and then what rules count; what a
        branch holds is the sum of its parts.
    overlapping
        Whether persons of one part may be in another, too: a branch holds at least what the
        largest of its parts does, and more is not known.
    """

    def satisfied(held: Array) -> bool:
        return bool(held[0] >= rules.k) and bool(holds(int(held[0]), held[1:], rules))

    fine = [satisfied(held) for held in counts]
    into = np.zeros(parting.parts, dtype=np.int64)
    number = 0

    def inside(at: int) -> list[int]:
        if at < 0:
            return [-1 - at]
        return [*inside(parting.cuts[at].yes), *inside(parting.cuts[at].no)]

    def good(at: int) -> bool:
        parts = inside(at)
        if len(parts) == 1:
            return fine[parts[0]]
        inside_all = counts[parts].max(axis=0) if overlapping else counts[parts].sum(axis=0)
        return satisfied(inside_all)

    def number_from(at: int) -> None:
        nonlocal number
        if at < 0 or not (good(parting.cuts[at].yes) and good(parting.cuts[at].no)):
            into[inside(at)] = number
            number += 1
            return
        number_from(parting.cuts[at].yes)
        number_from(parting.cuts[at].no)

    if parting.cuts:
        number_from(0)
    return into


def merged(parting: Parting, into: Array) -> Parting:
    """The same cuts, with parts that became one numbered alike."""

    def renamed(at: int) -> int:
        return at if at >= 0 else -1 - int(into[-1 - at])

    cuts = tuple(replace(cut, yes=renamed(cut.yes), no=renamed(cut.no)) for cut in parting.cuts)
    number = int(into.max()) + 1
    return Parting(cuts if number > 1 else (), number)


def joined(first: pa.Array, second: pa.Array) -> pa.Array:
    return pa.concat_arrays([first.cast(second.type), second])


def indices(numbers: Array) -> pa.Array:
    return pa.array(numbers.astype(np.int64))


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
    standing
        For each column of means, medians or middles the numbers shown, the ranks of the values
        that each stands for, and its rows: another part may show the same. None of too many.
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
    standing: Mapping[str, tuple[pa.Array, Array, Array, Array] | None] = field(
        default_factory=dict
    )

    @classmethod
    def of(
        cls,
        parts: Sequence[Solution],
        whole: Whole,
        touched: Sequence[Mapping[str, Counter[str]]],
        shows: Mapping[str, str],
    ) -> PartCosts:
        """From the solutions of one part, as they read, and what the whole table holds."""
        lost, bits, before, after, persons = {}, {}, {}, {}, {}
        standing: dict[str, tuple[pa.Array, Array, Array, Array] | None] = {}
        for part in parts:
            view = part.view
            for name, shown in view.published.items():
                weight, codes = view.weight[view.kept], shown.codes[view.kept]
                losses = (shown.loss, shown.height_loss, shown.domain_loss)
                lost[name] = np.array([(weight * one[codes]).sum() for one in losses])
                lost[name] += view.suppressed_rows
                if name not in whole.open:
                    inside = np.maximum(shown.weight(whole.counts[name])[codes], 1.0)
                    bits[name] = float((weight * np.log2(inside)).sum())
                    bits[name] += view.suppressed_rows * float(np.log2(max(whole.rows, 1)))
                if shows.get(name) in STANDING and name in part.published:
                    standing[name] = None
                    if len(shown.labels) <= MOST_NUMBERS and name not in whole.open:
                        rows = np.bincount(codes, weight, len(shown.labels))
                        standing[name] = shown.labels, shown.low, shown.high, rows
            for names in part.problem.sets:
                before[names] = ClassSizes.of_counts(sizes_before(part, names)).to_dict()
                after[names] = ClassSizes.of_counts(part.view_of(names).class_sizes).to_dict()
                if part.problem.person is not None:
                    people = persons_in_classes(part, names)[2]
                    persons[names] = ClassSizes.of_counts(people).to_dict()
        released = int(parts[0].sizes.sum())
        own = risks(parts) if persons else ()
        every = {name: rows for part in touched for name, rows in part.items()}
        cells = suppressed_cells(touched)
        return cls(released, cells, lost, bits, every, before, after, persons, own, standing)


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
    apart: tuple[str, ...]
    """Columns of numbers whose loss is that within parts, though several may show the same."""


def costs_of_parts(parts: Sequence[PartCosts], whole: Whole) -> WholeCosts:
    """Costs of a table from those of its parts.

    Classes that two parts make alike count twice, until what was written is counted; the
    distribution of columns is not known.
    """
    names, rows = list(parts[0].lost), whole.rows
    lost = {name: np.sum([part.lost[name] for part in parts], axis=0) for name in names}
    bits = {
        name: sum(part.bits[name] for part in parts) for name in names if name not in whole.open
    }
    apart = []
    for name in parts[0].standing if len(parts) > 1 else ():
        told = [one for part in parts if (one := part.standing[name]) is not None]
        if len(told) < len(parts):
            apart.append(name)
            continue
        more = _more_by_standing(told, whole, name)
        lost[name] += more[0]
        bits[name] += more[1]
    released = sum(part.released for part in parts)
    before, after, persons = (
        _added([getattr(p, of) for p in parts]) for of in ("before", "after", "persons")
    )
    first = ClassSizes.of(next(iter(after.values())))
    cells = max(rows * len(names), 1)
    sums = np.sum([lost[name] for name in names], axis=0)
    left = possible = 0.0
    for name in names:
        if name in whole.open:
            continue
        own = whole.counts[name][whole.counts[name] > 0]
        known = float((own * np.log2(own)).sum())
        left += bits[name] - known
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
        apart=tuple(apart),
    )


def _more_by_standing(
    told: Sequence[tuple[pa.Array, Array, Array, Array]], whole: Whole, name: str
) -> tuple[float, float]:
    """By how much more is lost than parts told, because a number stands for rows of several.

    The sum over rows, and the bits.
    """
    line, counts = Ranges(whole.values[name], name), whole.counts[name]
    shown = pa.concat_arrays([labels for labels, _, _, _ in told])
    low, high, rows = (np.concatenate([part[at] for part in told]) for at in (1, 2, 3))
    distinct = shown.dictionary_encode(null_encoding="encode")
    number, found = np.asarray(distinct.indices), []
    there = rows > 0
    codes = line.order[np.concatenate([low[there], high[there]])]
    for groups, cells in ((np.arange(len(shown)), shown), (number, distinct.dictionary)):
        stands = line.standing(codes, np.tile(groups[there], 2), cells)
        inside = np.log2(np.maximum(stands.weight(counts), 1.0))
        found.append([float((rows * of[groups]).sum()) for of in (stands.loss, inside)])
    (apart, apart_bits), (together, together_bits) = found
    return together - apart, together_bits - apart_bits


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
