"""Whose the rows of each table are, and rows that were changed accordingly before anything else."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.anonymization.actions import (
    commonest_date,
    date_columns,
    days_of,
    known_to_all,
    moved,
    unmoved,
)
from sfumato.budget import Budget
from sfumato.columns.persons import (
    Persons,
    alike_persons,
    known_persons,
    listed,
    misspelled_persons,
    named_by,
    naming_columns,
    not_compared,
    numbers_of_persons,
    other_names,
    perhaps_persons,
    published_names,
    refused_names,
)
from sfumato.engines.protocol import KeepsText, Source, TextForm, asks_sql
from sfumato.errors import ColumnError, ParameterError, shown, spell
from sfumato.hierarchy.labels import as_text
from sfumato.relational.description import Dataset, Reference
from sfumato.relational.histories import of_two_persons
from sfumato.relational.plan import Plan
from sfumato.tables import Table, table
from sfumato.tables.columnar import ArrowSource

if TYPE_CHECKING:
    from sfumato.engines.sql_engine import SQLEngine

__all__ = ["free_name", "moved_dates", "of_somebody", "without_names"]

Owners = dict[str, list[str | None]]


def owners_of(made: Dataset, name: str, known: Owners) -> list[str | None]:
    """The person of each row, in the order of the rows; None where they belong to nobody."""
    assert made.person is not None
    if name not in known:
        mine = made.tables[name].table
        if name == made.person[0]:
            known[name] = [cell for (cell,) in _cells(mine, made.person[1])]
        else:
            known[name] = _through(made, made.steps[name])
    return known[name]


def _through(made: Dataset, one: Reference) -> list[str | None]:
    """The person of each row of a table that a reference leads to."""
    owner = _by_key(made, one.to, one.key)
    cells = _cells(made.tables[one.table].table, one.column)
    return [None if cell is None else owner.get(cell) for (cell,) in cells]


def _by_key(made: Dataset, name: str, key: str) -> dict[str | None, str | None]:
    """The person of each row by its key; both are read together, as rows may have no order."""
    assert made.person is not None
    mine = made.tables[name].table
    if name == made.person[0]:
        pairs = _cells(mine, key, made.person[1])
        return {cell: owner for cell, owner in pairs}  # noqa: C416 - to mypy they are no pairs
    step = made.steps[name]
    owner = _by_key(made, step.to, step.key)
    return {
        cell: None if link is None else owner.get(link)
        for cell, link in _cells(mine, key, step.column)
    }


def _cells(mine: Table, *columns: str) -> Iterator[tuple[str | None, ...]]:
    for batch in mine.batches(list(dict.fromkeys(columns))):
        texts = {name: as_text(batch.column(name)).to_pylist() for name in batch.schema.names}
        yield from zip(*(texts[name] for name in columns), strict=True)


def joined_owners(made: Dataset, name: str, owner: str) -> SQLEngine | None:
    """A table with the person of each row in a column `owner`, null for nobody.

    Rows stay where they are: they are joined there along the references to the person. None where
    these lead to another place.
    """
    opened = made.tables[name].table
    engine = opened.engine
    assert made.person is not None
    if not asks_sql(engine) or not engine.shares(engine):
        return None
    if name == made.person[0]:
        return engine.with_text(opened.columns, owner, made.person[1])
    return _joined(made, engine, opened.columns, made.steps[name], owner)


def _joined(
    made: Dataset, engine: SQLEngine, columns: Sequence[str], one: Reference, owner: str
) -> SQLEngine | None:
    """Some columns, and in one more the person of each row that a reference leads to."""
    there = joined_owners(made, one.to, owner)
    if there is None:
        return None
    with closing(there):
        if not engine.shares(there):
            return None
        return engine.beside(columns, owner, one.column, there, one.key, owner)


def require_one_person(made: Dataset, name: str, known: Owners) -> None:
    """Refuse rows that several references lead to different persons; keys of lists lead to none."""
    first = made.steps.get(name)
    leading = [one for one in made.references if one.table == name and one.to in made.paths]
    for one in leading:
        if one == first or first is None:
            continue  # a row of the table of persons is that person's
        joined = joined_owners(made, name, (mine := free_name(made)))
        if joined is None:
            owners = zip(owners_of(made, name, known), _through(made, one), strict=True)
            two = sum(None not in pair and pair[0] != pair[1] for pair in owners)
        else:
            with closing(joined):
                names = [column.name for column in joined.schema()]
                both = _joined(made, joined, names, one, f"{mine}'")
                if both is None:
                    continue
                with closing(both):
                    two = both.differing(mine, f"{mine}'")
        if two:
            raise of_two_persons(made, one, two)


def free_name(made: Dataset) -> str:
    """A name that no column has, for the person of each row."""
    assert made.person is not None
    owner = ".".join(made.person)
    taken = {column.name for one in made.tables.values() for column in one.table.engine.schema()}
    while owner in taken or f"{owner}'" in taken:
        owner += "'"
    return owner


def of_somebody(made: Dataset, name: str, owner: str | None, known: Owners) -> tuple[Table, int]:
    """A table without the rows of nobody, and how many those were.

    Parameters
    ----------
    owner
        A column to be added, with the person of each row.
    known
        As for `owners_of`.
    """
    mine = made.tables[name].table
    if name not in made.paths:
        return mine, 0
    require_one_person(made, name, known)
    column = owner or free_name(made)
    joined = joined_owners(made, name, column)
    if joined is not None:
        names = mine.columns if owner is None else (*mine.columns, owner)
        with closing(joined):
            kept = Table(joined.present(names, column))
        return kept, mine.rows - kept.rows
    if mine.engine.capabilities.remote:
        step = made.steps[name]
        raise ParameterError(
            f"rows of `{name}` stay where they are, and `{step.to}`, which they lead through, is "
            "elsewhere",
            where=shown(made.name),
            remedy=f"Copy `{step.to}` to where `{name}` is, or ask for whole histories "
            f"({spell('linkable', True)} {spell('m', 1)}).",
        )
    rows = mine.to_arrow()
    whose = pa.array(owners_of(made, name, known), pa.string())
    rows = rows if owner is None else rows.append_column(owner, whose)
    somebody = whose.is_valid()
    return with_rows(mine, rows.filter(somebody), np.asarray(somebody)), whose.null_count


class _Rows(ArrowSource):
    """Rows of a table that were changed; it is still that table to whoever asks which it was."""

    def __init__(self, rows: pa.Table, of: Source) -> None:
        super().__init__(rows, of.name)
        self._of = of

    def fingerprint(self) -> str:
        """That of the table."""
        return self._of.fingerprint()


class _TextRows(_Rows):
    """Some rows of a text file, whose cells stay as they stand there unless they were changed."""

    def __init__(
        self,
        rows: pa.Table,
        of: Source,
        text: KeepsText,
        kept: npt.NDArray[np.bool_],
        changed: Collection[str],
    ) -> None:
        super().__init__(rows, of)
        self._text = text
        self._kept, self._changed = kept, changed

    def text_form(self) -> TextForm:
        """How the file is written."""
        form = self._text.text_form()
        readers = {name: read for name, read in form.readers.items() if name not in self._changed}
        return replace(form, readers=readers)

    def texts(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The cells of these rows as they stand in the file."""
        done = 0
        for batch in self._text.texts(columns):
            yield batch.filter(pa.array(self._kept[done : done + batch.num_rows]))
            done += batch.num_rows


def with_rows(
    mine: Table, rows: pa.Table, kept: npt.NDArray[np.bool_], changed: Collection[str] = ()
) -> Table:
    """A table with other rows in its place.

    Parameters
    ----------
    rows, kept
        The rows, and which of the table's they are.
    changed
        Columns whose cells are not those of the table any more.
    """
    from sfumato.engines.memory import MemoryEngine  # it loads the kernels

    source: Source | None = getattr(mine.engine, "source", None)
    given = ArrowSource(rows, mine.name) if source is None else _Rows(rows, source)
    if source is not None and isinstance(source, KeepsText):
        given = _TextRows(rows, source, source, kept, changed)
    return Table(MemoryEngine(given))


def without_names(plan: Plan, budget: Budget) -> Plan:
    """The plan, if no column that it publishes names persons, with what is to be said of others.

    Raises
    ------
    ColumnError
        If such a column is published and nobody said that it may be.
    """
    guilty: dict[str, str] = {}
    apart: list[str] = []
    maybe: list[str] = []
    owners: Owners = {}
    person = ".".join(plan.person)
    persons = known_persons(plan.made.tables[plan.person[0]].table, plan.person[1])
    unseen = [not_compared(person)] if persons is None else []
    for name, one in plan.made.tables.items():  # also those that are copied as they are
        gone = {*plan.linked[name], *plan.dropped[name], *plan.known.get(name, ())}
        kept = [column for column in one.table.columns if column not in gone]
        found = naming_columns(one.table, kept, seed=plan.asked.seed, budget=budget)
        why = {column: role.why for column, role in found.items() if named_by(role)}
        if persons is not None:
            same, perhaps = numbers_of_persons(one.table, kept, persons, plan.asked.seed)
            for column in same:
                why.setdefault(column, f"its values are persons of `{person}`")
            maybe += [f"{name}.{column}" for column in perhaps]
        rest = [column for column in kept if column not in why]
        if name in plan.made.paths and rest:
            beside = _beside_owners(plan.made, name, rest, owners)
            if beside is None:
                unseen.append(f"whether columns of `{name}` number persons was not looked at")
            else:
                told = f"its values are one-to-one with `{person}`"
                why |= dict.fromkeys(other_names(beside[0], rest, beside[1], budget), told)
                if beside[0] is not one.table:
                    beside[0].close()
        guilty |= {f"{name}.{column}": reason for column, reason in why.items()}
        apart += [f"{name}.{column}" for column in found if column not in why]
    said = published_names(guilty) if plan.asked.rows_are_people else []
    if guilty and not plan.asked.rows_are_people:
        it = "it" if len(guilty) == 1 else "them"
        replacing = f"or replace {it} ({spell('pseudonyms', list(guilty))})"
        others = [replacing] if plan.asked.linkable else []
        raise refused_names(guilty, shown(plan.made.name), "identifiers", others)
    if apart:
        said.append(
            f"kept, though different in nearly every row: {listed(apart)}; leave out what "
            f"identifies people ({spell('identifiers', apart)})"
        )
    said += perhaps_persons([name for name in maybe if name not in guilty], person)
    said += [] if persons is None else _spellings(plan.made, persons, person)
    return replace(plan, warnings=(*said, *unseen, *plan.warnings))


def _spellings(made: Dataset, persons: Persons, person: str) -> list[str]:
    """What is to be said of persons who are written in several ways."""
    said = alike_persons(persons, person)
    for one in made.references:
        if (one.to, one.key) == made.person and one.orphans:
            cells = known_persons(made.tables[one.table].table, one.column)
            if cells is not None:
                column = f"{one.table}.{one.column}"
                said += misspelled_persons(cells, column, persons, person)
    return said


def _beside_owners(
    made: Dataset, name: str, columns: Sequence[str], known: Owners
) -> tuple[Table, str] | None:
    """A table with the person of each row in a column, and its name.

    None where rows would have to leave the place they stay in.
    """
    mine = made.tables[name].table
    assert made.person is not None
    if name == made.person[0]:
        return mine, made.person[1]
    step = made.steps[name]
    if (step.to, step.key) == made.person:
        return mine, step.column
    owner = free_name(made)
    joined = joined_owners(made, name, owner)
    if joined is not None:
        return Table(joined), owner
    if mine.engine.capabilities.remote:
        return None
    rows = mine.select(columns).to_arrow()
    whose = pa.array(owners_of(made, name, known), pa.string())
    return table(rows.append_column(owner, whose)), owner


def moved_dates(plan: Plan, budget: Budget) -> Plan:
    """The plan over tables whose dates were moved, those of a person by one number of days."""
    asked, made = plan.asked, plan.made
    assert plan.key is not None
    if any(one.table.engine.capabilities.remote for one in made.tables.values()):
        raise ParameterError(
            "dates of tables of a database are moved table by table",
            remedy="Release the tables one by one, or a folder of their files.",
        )
    owners: Owners = {}
    tables, still = dict(made.tables), []
    shared: list[str | None] = []
    for name in plan.of_persons:
        budget.progress(f"moving dates of {name}")
        mine, gone = made.tables[name].table, (*plan.dropped[name], *plan.linked[name])
        still += [f"{name}.{column}" for column in unmoved(mine, gone, asked.seed)]
        dates = date_columns(mine, gone)
        if not dates:
            continue
        whose = pa.array(owners_of(made, name, owners), pa.string()).dictionary_encode()
        days = np.r_[days_of(whose.dictionary, plan.key, asked.shift_days), 0]
        who = whose.indices.fill_null(len(days) - 1).to_numpy().astype(np.int64)
        by_row, rows = days[who], mine.to_arrow()
        for column in dates:
            most = commonest_date(rows.column(column).combine_chunks(), who)
            shared.append(known_to_all(f"{name}.{column}", most, len(whose.dictionary)))
            cells = moved(rows.column(column).combine_chunks(), by_row, column)
            rows = rows.set_column(rows.column_names.index(column), column, cells)
        everything = np.ones(rows.num_rows, dtype=np.bool_)
        tables[name] = replace(tables[name], table=with_rows(mine, rows, everything, dates))
    if all(tables[name] is made.tables[name] for name in tables):
        raise ColumnError(
            "dates were to be moved, and no column that is released holds dates",
            remedy="Dates that are text must be read as dates first; or leave it out.",
        )
    told = [
        f"dates were moved by a secret number of days a person, {asked.shift_days:,} at most "
        "either way, the same in all tables; that is no promise: whoever knows one date of a "
        "person knows how far all of theirs were moved"
    ]
    told += [one for one in shared if one is not None]
    if still:
        told.append(
            f"what looks like dates was not moved: {', '.join(f'`{n}`' for n in still)}; "
            f"leave it out ({spell('identifiers', still)})"
        )
    return replace(plan, made=replace(made, tables=tables), warnings=(*plan.warnings, *told))
