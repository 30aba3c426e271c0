"""A dataset: tables, their keys, what refers to them, and the person they are about.

It is described by a TOML file or a dict, or found in a folder or in a schema of PostgreSQL. A file
that somebody handed over is data: the tables it names lie beside it, never elsewhere.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from sfumato.budget import PROGRAM_MEMORY, Budget
from sfumato.errors import (
    ColumnError,
    EngineMemoryError,
    InputError,
    ParameterError,
    SourceError,
    did_you_mean,
    spell,
)
from sfumato.fields import checked, fitted
from sfumato.files import read_bytes, refuse_link
from sfumato.relational.discovery import (
    Reference as Reference,
)
from sfumato.relational.discovery import (
    Unfollowed,
    keys_and_references,
    keys_of_schema,
    likely_person,
    require_named,
)
from sfumato.tables import Table, table
from sfumato.tables.formats import is_postgres
from sfumato.tables.several import (
    DESCRIPTION,
    MOST_TABLES,
    TABLE_ENDINGS,
    names_several,
    schema_of,
    table_files,
)
from sfumato.wording import counted, shown

_LONGEST = 1 << 20
"""Bytes of a description that are read."""
_NAME = re.compile(r"\w[\w .()-]{0,98}")
"""Names of tables: they become names of files."""


@dataclass(frozen=True, eq=False)
class TableOf:
    """One table of a dataset.

    Attributes
    ----------
    key
        The column that names its rows; None where there is none.
    publish
        Whether a release shows it; None where nothing was said.
    file
        The name of its file, where it has one.
    """

    name: str
    table: Table = field(repr=False)
    key: str | None = None
    publish: bool | None = None
    file: str | None = None


@dataclass(frozen=True, eq=False)
class Dataset:
    """Tables about the same people; made by `dataset`.

    Attributes
    ----------
    name
        Where it was found.
    tables, references
        The tables by name, and what refers to what.
    person
        The table and the column that name the persons; None where nobody said it.
    unfollowed
        Declared keys that do not lead to rows here, as they have several columns.
    views, unread
        What else is in its schema: views, and tables that may not be read.

    Examples
    --------
    >>> import pyarrow as pa, sfumato as sf
    >>> house = sf.relational.dataset({
    ...     "person": "patients.id",
    ...     "tables": {
    ...         "patients": {"source": pa.table({"id": [1, 2], "sex": ["F", "M"]}), "key": "id"},
    ...         "visits": {
    ...             "source": pa.table({"patient": [1, 1, 2], "ward": ["A", "B", "A"]}),
    ...             "references": {"patient": "patients.id"},
    ...         },
    ...     },
    ... })
    >>> [one.say for one in house.references], house.paths["visits"]
    (['visits.patient → patients.id'], ('visits.patient → patients.id',))
    """

    name: str
    tables: Mapping[str, TableOf]
    references: tuple[Reference, ...] = ()
    person: tuple[str, str] | None = None
    unfollowed: tuple[Unfollowed, ...] = ()
    views: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()

    def links(self) -> set[tuple[str, str]]:
        """Tables and columns of keys and references."""
        keys = {(name, one.key) for name, one in self.tables.items() if one.key is not None}
        refers = {(one.table, one.column) for one in self.references}
        return keys | refers | {(one.to, one.key) for one in self.references}

    @property
    def steps(self) -> dict[str, Reference]:
        """For each table that leads to the person the first step of its shortest way there."""
        if self.person is None:
            return {}
        found: dict[str, Reference] = {}
        reached, waiting = {self.person[0]}, [self.person[0]]
        while waiting:
            to = waiting.pop(0)
            for one in self.references:
                if one.to == to and one.table not in reached:
                    found[one.table] = one
                    reached.add(one.table)
                    waiting.append(one.table)
        return found

    @property
    def paths(self) -> dict[str, tuple[str, ...]]:
        """For each table the way to the person; none of tables that lead nowhere."""
        steps, told = self.steps, {}
        for name in self.tables:
            way, at = [], name
            while at in steps:
                way.append(steps[at].say)
                at = steps[at].to
            if way or (self.person is not None and name == self.person[0]):
                told[name] = tuple(way)
        return told

    def domain(self, name: str, column: str) -> str:
        """The key that the cells of a column are, as ``table.column``; empty where they are none.

        Examples
        --------
        >>> import pyarrow as pa, sfumato as sf
        >>> house = sf.relational.dataset({"tables": {
        ...     "patients": {"source": pa.table({"id": [1, 2]})},
        ...     "visits": {"source": pa.table({"patient": [1, 2], "ward": ["A", "B"]})},
        ... }})
        >>> house.domain("visits", "patient"), house.domain("visits", "ward")
        ('patients.id', '')
        """
        to = {(r.table, r.column): (r.to, r.key) for r in self.references}
        at, passed = (name, column), set()
        while at in to and at not in passed:
            passed.add(at)
            at = to[at]
        keys = {(n, t.key) for n, t in self.tables.items()} | {
            (r.to, r.key) for r in self.references
        }
        return ".".join(at) if at in keys or at == self.person else ""

    def columns(self) -> list[str]:
        """All columns, each with its table before it."""
        return [f"{t.name}.{column}" for t in self.tables.values() for column in t.table.columns]

    @property
    def likely_person(self) -> tuple[str, str] | None:
        """The table and the column that probably name the persons."""
        keys = {name: one.key for name, one in self.tables.items() if one.key is not None}
        name = likely_person(keys, self.references)
        return None if name is None else (name, keys[name])

    def about(self, person: str | None) -> Dataset:
        """The same about another person, named as ``table.column``."""
        if person is None:
            return self
        return replace(self, person=split_name(person, self.tables, self.name))

    def without(self, names: Collection[str]) -> Dataset:
        """The same without some tables, and without references from and to them."""
        for name in names:
            if name not in self.tables and name not in self.unread:
                raise ParameterError(
                    f"there is no table `{name}`",
                    where=shown(self.name),
                    remedy=did_you_mean(name, (*self.tables, *self.unread)),
                )
        kept = {n: t for n, t in self.tables.items() if n not in names}
        return replace(
            self,
            tables=kept,
            references=tuple(r for r in self.references if r.table in kept and r.to in kept),
            unfollowed=tuple(one for one in self.unfollowed if one.table in kept),
        )

    def to_toml(self) -> str:
        """The description as a file that `dataset` reads, its tables beside it."""
        import tomli_w

        told: dict[str, Any] = {}
        if self.person is not None:
            told["person"] = ".".join(self.person)
        told["tables"] = {}
        for one in self.tables.values():
            mine: dict[str, Any] = {"source": one.file or one.name}
            if one.key is not None:
                mine["key"] = one.key
            if one.publish is not None:
                mine["publish"] = one.publish
            refers = {r.column: f"{r.to}.{r.key}" for r in self.references if r.table == one.name}
            if refers:
                mine["references"] = refers
            told["tables"][one.name] = mine
        return tomli_w.dumps(told)

    def close(self) -> None:
        """Close every table."""
        for one in self.tables.values():
            one.table.close()

    def __enter__(self) -> Dataset:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


Opener = Callable[[Any], Table]


def is_dataset(source: Any) -> bool:
    """Whether a source is a dataset, open or described, or names one (see `names_several`).

    Examples
    --------
    >>> is_dataset({"tables": {}}), is_dataset("people.csv"), is_dataset("postgresql:///db#ward.*")
    (True, False, True)
    """
    if isinstance(source, (Dataset, Mapping)):
        return True
    return isinstance(source, (str, os.PathLike)) and names_several(os.fspath(source))


@checked
def dataset(
    source: Any,
    *,
    person: str | None = None,
    opening: Opener = table,
    found: bool = True,
    exclude: Collection[str] = (),
    budget: Budget | None = None,
) -> Dataset:
    """Open a dataset.

    Parameters
    ----------
    source
        A TOML file or a mapping that describes it, a folder of tables, or a schema of PostgreSQL
        (``postgresql://host/database#schema.*``).
    person
        The column that names persons, as ``table.column``, in place of what is described.
    opening
        How tables are opened.
    found
        Whether keys and references that nobody declared are looked for.
    exclude
        Tables of a schema that need not be readable, as they are not published.
    budget
        Its memory holds for all tables: values of keys are looked at together.
    """
    if isinstance(source, Dataset):
        return source.about(person)
    if budget is not None and opening is table:
        opening = partial(table, budget=budget)
    if isinstance(source, Mapping):
        made = _described(source, "the dataset", opening, lambda given, _: given)
    else:
        text = fitted("`source`", source, str | os.PathLike[str])
        text = os.fspath(text)
        if is_postgres(text):
            return _schema(text, opening, exclude, budget).about(person)
        place = Path(text)
        is_folder = os.path.isdir(place)
        if is_folder and not (place / DESCRIPTION).is_file():
            made = _folder(place, opening)
        else:
            made = _file(place / DESCRIPTION if is_folder else place, opening)
    try:
        require_room(made.tables.values(), (), budget)
        return (_completed(made) if found else made).about(person)
    except BaseException:
        made.close()
        raise


def _folder(place: Path, opening: Opener) -> Dataset:
    """Every file of a folder that is a table."""
    files = table_files(place)
    if not files:
        raise SourceError(
            "no table lies in this folder",
            where=str(place),
            remedy="Name a folder of CSV or Parquet files, or a dataset.toml.",
        )
    tables: dict[str, TableOf] = {}
    for file in files[: MOST_TABLES + 1]:
        name = _stem(file.name)
        if name in tables:
            raise SourceError(
                f"two files are called `{name}`",
                where=str(place),
                remedy=f"Describe the tables in a {DESCRIPTION}, or keep one of them.",
            )
        tables[_named(name, str(file))] = TableOf(name, opening(str(file)), file=file.name)
    _require_few(tables, str(place))
    return Dataset(str(place), tables)


_ROW_BYTES, _CELL_BYTES = 250, 16
LINK_BYTES = 400
"""What a key, or a reference to one, takes of each row while histories are read, measured."""
RELEASED_LINK_BYTES = 900
"""What it takes while they are blurred, written and counted again."""


def require_room(
    tables: Iterable[TableOf],
    links: Iterable[tuple[str, str]],
    budget: Budget | None,
    each: int = LINK_BYTES,
) -> None:
    """Refuse tables that would not fit the memory together, before their rows come.

    Parameters
    ----------
    links
        Tables and columns of keys and references; `each` takes so many bytes of a row.
    """
    if budget is None or budget.memory is None:
        return
    tables = list(tables)
    linked = Counter(table for table, _ in set(links))
    needed = sum(
        one.table.rows
        * (_ROW_BYTES + _CELL_BYTES * len(one.table.columns) + each * linked[one.name])
        for one in tables
    )
    if budget.holds(needed):
        return
    rows = sum(one.table.rows for one in tables)
    raise EngineMemoryError(
        f"{counted(rows, 'row')} of {counted(len(tables), 'table')} take about "
        f"{needed + PROGRAM_MEMORY >> 20:,} MiB together, more than the "
        f"{budget.memory >> 20:,} MiB allowed",
        remedy=f"Allow more memory (e.g. {spell('memory', '16GB')}), or describe fewer tables in a "
        f"{DESCRIPTION}.",
    )


def _schema(
    address: str, opening: Opener, exclude: Collection[str], budget: Budget | None
) -> Dataset:
    """The tables of a schema of PostgreSQL."""
    schema, url = schema_of(address), address.partition("#")[0]
    if schema is None:
        raise SourceError(
            "the address names no schema",
            where=shown(address),
            remedy="A dataset is written postgresql://host/database#schema.*",
        )
    told = keys_of_schema(url, schema, exclude)
    keys, declared = told.keys, told.references
    tables = {_named(name, shown(address)): opening(f'{url}#"{schema}"."{name}"') for name in keys}
    require_room((TableOf(name, one) for name, one in tables.items()), (), budget)
    found = keys_and_references(tables, keys, declared)
    references = tuple(
        replace(one, how="database") if one.how == "declared" else one for one in found.references
    )
    made = {name: TableOf(name, one, found.keys[name]) for name, one in tables.items()}
    return Dataset(
        shown(address),
        made,
        references,
        unfollowed=told.unfollowed,
        views=told.views,
        unread=told.unread,
    )


def _stem(file: str) -> str:
    ending = max((end for end in TABLE_ENDINGS if file.lower().endswith(end)), key=len, default="")
    return file[: len(file) - len(ending)]


def _file(place: Path, opening: Opener) -> Dataset:
    """A description in TOML; its tables lie beside it."""
    where = str(place)
    if os.path.isfile(place) and place.stat().st_size > _LONGEST:
        raise SourceError(
            f"this file is larger than {_LONGEST >> 20} MB, so it is no description",
            where=where,
            remedy="Name the dataset.toml.",
        )
    try:
        told = tomllib.loads(read_bytes(place, "the dataset").decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError):
        raise SourceError(
            "this is not TOML",
            where=where,
            remedy='Write e.g. person = "patients.id" and [tables.patients] with a source; '
            "`sfumato scan FOLDER` shows one.",
        ) from None
    return _described(told, where, opening, lambda given, name: _beside(given, name, place))


def _beside(given: Any, name: str, description: Path) -> str:
    """The path of a table that a description names, if it lies beside the description."""
    where = f"{description} [tables.{name}]"
    if not isinstance(given, str) or not given or "\0" in given:
        raise SourceError(
            "`source` must be the name of a file", where=where, remedy='Write source = "file.csv".'
        )
    folder = description.parent
    place = folder / given
    outside = "://" in given or Path(given).is_absolute() or ".." in Path(given).parts
    if not outside:
        for part in (place, *place.parents):
            if part == folder:
                break
            refuse_link(part)
        outside = not place.resolve().is_relative_to(folder.resolve())
    if outside:
        raise SourceError(
            "a description names files that lie beside it, and nothing else",
            where=where,
            remedy="Put the file into the folder of the description, or describe the dataset in "
            "Python.",
        )
    parts = list(place.glob("*.parquet")) if place.is_dir() else []
    for part in parts:
        refuse_link(part)
    if not place.is_file() and not parts:
        raise SourceError(
            "there is no such file",
            where=str(place),
            remedy=did_you_mean(given, [one.name for one in table_files(folder)]),
        )
    return str(place)


_SETTINGS = ("source", "key", "references", "publish")


def _described(
    told: Mapping[str, Any], where: str, opening: Opener, place_of: Callable[[Any, str], Any]
) -> Dataset:
    """A dataset from its description."""
    _only(told, ("person", "tables"), where)
    given = told.get("tables")
    if not isinstance(given, Mapping) or not given:
        raise SourceError(
            "no tables are described",
            where=where,
            remedy='Write [tables.patients] and below it source = "patients.csv".',
        )
    _require_few(given, where)
    tables: dict[str, TableOf] = {}
    for name, mine in given.items():
        _named(str(name), where)
        at = f"{where} [tables.{name}]"
        if not isinstance(mine, Mapping) or "source" not in mine:
            raise SourceError(
                "the description does not say where the table is",
                where=at,
                remedy='Write source = "file.csv".',
            )
        _only(mine, _SETTINGS, at)
        publish = mine.get("publish")
        if publish is not None and not isinstance(publish, bool):
            raise SourceError(
                "`publish` is true or false", where=at, remedy="Write publish = true."
            )
        source = place_of(mine["source"], str(name))
        opened = opening(source)
        key = mine.get("key")
        if key is not None:
            (key,) = opened.require([_one(key, "key", '"id"', at)])
        file = os.path.basename(source) if isinstance(source, (str, os.PathLike)) else None
        file = None if file is None or "://" in str(source) else file
        tables[str(name)] = TableOf(str(name), opened, key, publish, file)
    references = tuple(_references(given, tables, where))
    person = told.get("person")
    if person is not None:
        person = split_name(_one(person, "person", '"patients.id"', where), tables, where)
    return Dataset(where, tables, references, person)


def _one(given: Any, what: str, example: str, where: str) -> str:
    """The name of one column."""
    if isinstance(given, str):
        return given
    raise SourceError(
        f"{what} must be the name of one column",
        where=where,
        remedy=f"Write e.g. {example}; a key of several columns needs a column that joins them.",
    )


def _references(
    given: Mapping[str, Any], tables: Mapping[str, TableOf], where: str
) -> Iterator[Reference]:
    for name, mine in given.items():
        at = f"{where} [tables.{name}]"
        refers = mine.get("references") or {}
        if not isinstance(refers, Mapping):
            raise SourceError(
                "references are columns and what they refer to",
                where=at,
                remedy='Write references = { patient = "patients.id" }.',
            )
        for column, to in refers.items():
            tables[str(name)].table.require([str(column)])
            if to is False:  # said to be none, though it may look like one
                yield Reference(str(name), str(column), "", "")
                continue
            to = _one(to, "what a column refers to", '"patients.id", or false', at)
            yield Reference(str(name), str(column), *split_name(to, tables, at))


def split_name(given: Any, tables: Mapping[str, TableOf], where: str | None) -> tuple[str, str]:
    """The table and the column that ``table.column`` names; both must be there.

    Examples
    --------
    >>> import pyarrow as pa
    >>> house = dataset({"tables": {"patients": {"source": pa.table({"birth.date": [1950]})}}})
    >>> split_name("patients.birth.date", house.tables, None)
    ('patients', 'birth.date')
    """
    text = str(given)
    every = [(n, c) for n, one in tables.items() for c in one.table.columns]
    named = [one for one in every if ".".join(one) == text]
    if len(named) > 1:
        raise ColumnError(
            f"`{text}` names {counted(len(named), 'column')} of the dataset",
            where=where,
            remedy=f"Call one of these tables otherwise: {', '.join(n for n, _ in named)}.",
        )
    if named:
        return named[0]
    same = [(n, c) for n, c in every if c.lower() == text.lower()]
    inside = [(n, c) for n, c in every if n == text.partition(".")[0]]
    known = [".".join(one) for one in same or inside or every]
    raise ColumnError(
        f"there is no column `{text}` in the dataset",
        where=where,
        remedy=f"Write table.column. {did_you_mean(text, known)}",
    )


def _only(told: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for name in told:
        if name not in known:
            raise SourceError(
                f"there is no setting `{name}`", where=where, remedy=did_you_mean(str(name), known)
            )


def _named(name: str, where: str) -> str:
    if not _NAME.fullmatch(name):
        raise SourceError(
            f"`{name[:40]}` cannot be the name of a table",
            where=where,
            remedy="Use letters, digits, spaces, points, hyphens and underscores.",
        )
    return name


def _require_few(tables: Mapping[str, Any], where: str) -> None:
    if len(tables) > MOST_TABLES:
        raise SourceError(
            f"a dataset has at most {MOST_TABLES} tables",
            where=where,
            remedy="Describe those that belong together.",
        )


def _completed(made: Dataset) -> Dataset:
    """The same with the keys and references that nobody declared, and with orphans counted."""
    declared = {(one.table, one.column): (one.to, one.key) for one in made.references}
    keys = {name: one.key for name, one in made.tables.items()}
    for name, own in keys.items():
        if own is not None:
            require_named(name, own, made.tables[name].table)
    for to, key in declared.values():
        if to and keys[to] is None:
            keys[to] = key
    if made.person is not None and keys[made.person[0]] is None:
        keys[made.person[0]] = made.person[1]
    found = keys_and_references({n: t.table for n, t in made.tables.items()}, keys, declared)
    tables = {n: replace(t, key=found.keys[n]) for n, t in made.tables.items()}
    return replace(made, tables=tables, references=found.references)


def require_person(made: Dataset) -> tuple[str, str]:
    """The table and column of persons; whoever releases must have said it."""
    if made.person is None:
        example = ".".join(made.likely_person or ("patients", "id"))
        option = spell("person", example)
        written = f'Write person = "{example}" in its {DESCRIPTION}, or give {option}.'
        raise ParameterError(
            "nobody said whom the dataset is about",
            where=shown(made.name),
            remedy=f"Give {option}." if is_postgres(str(made.name)) else written,
        )
    name, column = made.person
    mine = made.tables[name].table
    sizes, nobody = mine.class_sizes([column]), mine.engine.null_counts([column])[column]
    if sizes.classes != sizes.rows or nobody:
        told = (
            counted(nobody, "row", does="are nobody's")
            if nobody
            else f"it has {sizes.classes:,} values"
        )
        raise InputError(
            f"`{name}.{column}` does not name one person per row: {told} in {sizes.rows:,} rows",
            where=shown(made.name),
            remedy="Name the table with one row per person. One table with several rows per person "
            f"is not a dataset: release it with {spell('person', column)}.",
        )
    return name, column
