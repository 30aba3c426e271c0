"""Whose rows are whose: the tables of a dataset read as histories of persons.

Of each table only the distinct combinations of keys, references and quasi-identifiers leave its
engine. A row belongs to the person that its references lead to. What it shows of keys, and what
the rows show that it refers to, are its *tokens*: a release replaces them by pseudonyms, so that
equal ones can be seen to be equal. What depends on whose a row is comes first: columns that name
persons are refused, rows of nobody left out, and dates of a person moved together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

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
from sfumato.engines.protocol import Codes, KeepsText, Source, TextForm, asks_sql
from sfumato.errors import ColumnError, ParameterError, spell
from sfumato.hierarchy.labels import as_text
from sfumato.relational.description import LINK_BYTES, Dataset, Reference, require_room
from sfumato.relational.plan import Plan
from sfumato.tables import Table, table
from sfumato.tables.columnar import ArrowSource
from sfumato.wording import counted, shown

if TYPE_CHECKING:
    from sfumato.engines.sql_engine import SQLEngine


Array = npt.NDArray[Any]
NOBODY = -1


@dataclass(frozen=True, eq=False)
class Part:
    """One table of the histories.

    Attributes
    ----------
    qi, linked
        Its quasi-identifiers, and the columns that become pseudonyms.
    entries
        Distinct combinations of these columns, with counts.
    entry
        For each row its entry; rows of one entry stand together.
    person
        For each row the number of its person, or -1.
    shown
        For each row a number for each linked column, -1 where there is nothing.
    needs
        For each row the rows that it refers to: by which column, table and number.
    tokens
        For each row what can be seen of keys through it, its own and those of the rows it refers
        to: pairs of a place and a number. Those of the person are left out.
    """

    name: str
    table: Table
    qi: tuple[str, ...]
    linked: tuple[str, ...]
    entries: Codes
    entry: Array
    person: Array
    shown: Array
    needs: list[tuple[tuple[str, str, int], ...]] = field(repr=False)
    tokens: list[tuple[tuple[int, int], ...]] = field(default_factory=list, repr=False)

    @property
    def nobodys(self) -> int:
        """Rows that belong to nobody in the table of persons."""
        return int((self.person == NOBODY).sum())

    def cells(self) -> list[tuple[int, ...]]:
        """What each row shows of the quasi-identifiers, as codes."""
        columns = [self.entries.column(name)[self.entry].tolist() for name in self.qi]
        return list(zip(*columns, strict=True)) if columns else [()] * len(self.entry)


@dataclass(frozen=True, eq=False)
class Histories:
    """All tables that lead to the person, the person's own first."""

    persons: int
    parts: Mapping[str, Part]

    @property
    def own(self) -> Part:
        """The table with one row a person."""
        return next(iter(self.parts.values()))

    @property
    def events(self) -> list[Part]:
        """The other tables of which something may be known."""
        return [part for part in list(self.parts.values())[1:] if part.qi]

    @property
    def lengths(self) -> Array:
        """Rows of each person of which something may be known."""
        rows = [part.person[part.person != NOBODY] for part in self.events]
        return np.bincount(np.concatenate([*rows, np.empty(0, np.int64)]), minlength=self.persons)


def _tokens(codes: Array, values: Any, domain: str, known: dict[tuple[str, str], int]) -> Array:
    """One number for each text that is the same key: pseudonyms are equal likewise."""
    numbers = [
        NOBODY if one is None else known.setdefault((domain, one), len(known))
        for one in as_text(values).to_pylist()
    ]
    return np.array([*numbers, NOBODY], dtype=np.int64)[codes.astype(np.int64)]


def read_histories(
    made: Dataset,
    qi: Mapping[str, Sequence[str]],
    linked: Mapping[str, Sequence[str]],
    tables: Sequence[str],
    budget: Budget,
    room: int = LINK_BYTES,
) -> Histories:
    """Read the tables that lead to the person, and find out whose rows are whose.

    Parameters
    ----------
    qi, linked
        By table the quasi-identifiers, and the columns that become pseudonyms.
    tables
        Tables to be read; those that others lead through are read as well.
    room
        Bytes that each key of a row takes, in all that is done with histories.
    """
    assert made.person is not None
    root, key = made.person
    steps, tokens = made.steps, dict[tuple[str, str], int]()
    order = [root, *_with_ways(made, tables)]
    require_room([made.tables[name] for name in order], made.links(), budget, room)
    parts: dict[str, Part] = {}
    at_key: dict[tuple[str, str], dict[int, int]] = {}
    for at, name in enumerate(order):
        budget.progress(f"reading {name}", at / len(order))
        mine = made.tables[name].table
        refers = [r for r in made.references if r.table == name and r.to in order]
        keys = [made.tables[name].key, *(r.key for r in made.references if r.to == name)]
        known = (*(k for k in keys if k), *(r.column for r in refers), *linked.get(name, ()))
        links = tuple(dict.fromkeys((key, *known) if name == root else known))
        columns = (*qi.get(name, ()), *links)
        entries = mine.classes(tuple(dict.fromkeys(columns)), budget=budget)
        assert entries.counts is not None
        entry = np.repeat(np.arange(entries.entries), entries.counts)
        shown = {
            n: _tokens(entries.column(n), entries.values_of(n), made.domain(name, n), tokens)[entry]
            for n in links
        }
        if name == root:
            person = np.arange(len(entry))
        else:
            step = steps[name]
            person = _owners(shown[step.column], at_key[step.to, step.key], parts[step.to].person)
        for column in {r.key for r in made.references if r.to == name} | (
            {key} if name == root else set()
        ):
            rows = zip(shown[column].tolist(), range(len(entry)), strict=True)
            at_key[name, column] = {token: row for token, row in rows if token != NOBODY}
        parts[name] = Part(
            name,
            mine,
            tuple(qi.get(name, ())),
            links,
            entries,
            entry,
            person,
            np.stack([shown[n] for n in links], axis=1),
            [()] * len(entry),
        )
    for name in order[1:]:
        _refer(made, name, parts, at_key)
    places: dict[tuple[str, ...], int] = {}
    for name in order[1:]:
        _see(parts, name, places)
    return Histories(len(parts[root].entry), parts)


def _with_ways(made: Dataset, tables: Sequence[str]) -> list[str]:
    """The tables and those on their ways to the person, each after what it leads through."""
    steps = made.steps
    wanted: set[str] = set()
    for name in tables:
        while name in steps and name not in wanted:
            wanted.add(name)
            name = steps[name].to
    return [name for name in steps if name in wanted]


def _owners(tokens: Array, rows: Mapping[int, int], persons: Array) -> Array:
    """The person of each row, by the row that it refers to."""
    at = np.array([rows.get(token, -1) for token in tokens.tolist()], dtype=np.int64)
    return np.where(at >= 0, np.append(persons, NOBODY)[at], NOBODY)


def _refer(
    made: Dataset,
    name: str,
    parts: Mapping[str, Part],
    at_key: Mapping[tuple[str, str], Mapping[int, int]],
) -> None:
    """Find the rows that the rows of a table refer to; refuse rows of two persons."""
    part, root = parts[name], next(iter(parts))
    needs: list[list[tuple[str, str, int]]] = [[] for _ in part.needs]
    for one in made.references:
        if one.table != name or one.to not in parts:
            continue
        rows, there = at_key[one.to, one.key], parts[one.to].person
        column = part.shown[:, part.linked.index(one.column)]
        two = 0
        for at, token in enumerate(column.tolist()):
            to = rows.get(token)
            if to is None:
                continue
            two += int(part.person[at] != NOBODY and there[to] not in (part.person[at], NOBODY))
            if one.to != root and (one.to, to) != (name, at):
                needs[at].append((one.column, one.to, to))
        if two:
            raise of_two_persons(made, one, two)
    part.needs[:] = [tuple(one) for one in needs]


def of_two_persons(made: Dataset, one: Reference, rows: int) -> ColumnError:
    """Why rows cannot be anybody's that lead to two persons."""
    both = (made.steps[one.table].column, one.column)
    several = " or ".join(spell("identifiers", [f"{one.table}.{name}"]) for name in both)
    false = " or ".join(f"references = {{ {name} = false }}" for name in both)
    return ColumnError(
        f"{counted(rows, 'row')} of `{one.table}` {'belongs' if rows == 1 else 'belong'} to two "
        f"persons: `{both[1]}` leads to another one than `{both[0]}`",
        where=made.tables[one.table].table.name,
        remedy="Mend these rows or leave them out. If one of the two columns is about somebody "
        f"else, leave that one out ({several}), or say so in a description ({false}).",
    )


def _see(parts: Mapping[str, Part], name: str, places: dict[tuple[str, ...], int]) -> None:
    """Write down what can be seen of keys through each row of a table.

    Each way from a row to a cell of a key has a number, its place.
    """
    part, persons = parts[name], next(iter(parts.values())).shown[:, 0]

    def through(table: str, row: int, way: tuple[str, ...], passed: frozenset[Any]) -> Any:
        there = parts[table]
        for column, token in zip(there.linked, there.shown[row].tolist(), strict=True):
            if token != NOBODY:
                yield places.setdefault((*way, table, column), len(places)), token
        for column, to, at in there.needs[row]:
            if (to, at) not in passed:
                yield from through(to, at, (*way, table, column), passed | {(to, at)})

    for at, owner in enumerate(part.person.tolist()):
        hers = int(persons[owner]) if owner != NOBODY else NOBODY
        seen = through(name, at, (), frozenset({(name, at)}))
        part.tokens.append(tuple((place, token) for place, token in seen if token != hers))


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
    for one in made.steps.values():
        if one.orphans:
            cells = known_persons(made.tables[one.table].table, one.column)
            keys = known_persons(made.tables[one.to].table, one.key)
            if cells is not None and keys is not None:
                column, key = f"{one.table}.{one.column}", f"{one.to}.{one.key}"
                said += misspelled_persons(cells, column, keys, key)
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
        "either way, the same in all tables; that is not a promise: whoever knows one date of a "
        "person knows how far all their dates moved"
    ]
    told += [one for one in shared if one is not None]
    if still:
        told.append(
            f"what looks like dates was not moved: {', '.join(f'`{n}`' for n in still)}; "
            f"leave it out ({spell('identifiers', still)})"
        )
    return replace(plan, made=replace(made, tables=tables), warnings=(*plan.warnings, *told))
