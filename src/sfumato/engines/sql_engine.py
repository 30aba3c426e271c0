"""The engine for rows that a database holds: questions become statements, answers come back.

Everything that databases share is here. What differs is behind a `Connection`: how to reach the
database, its `Dialect`, its types, and where a release can go. To add a database, write a
connection and put it through the conformance suite.
"""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Container, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.budget import Budget
from sfumato.engines import statements as sql
from sfumato.engines.encoding import codes_of_table
from sfumato.engines.protocol import (
    BATCH_ROWS,
    CELL_BYTES,
    TEXT_COPIES,
    Capabilities,
    ClassSizes,
    Codes,
    Column,
    Engine,
    KeepsText,
    Pairing,
    PersonSizes,
    Source,
    Spelling,
    Staged,
    TextForm,
    as_declared,
    asks_sql,
    codes_of,
    column_of,
    columns_named,
    names_in,
    rows_identity,
    whole_number,
    wide_number,
)
from sfumato.engines.recoding import (
    Combinations,
    Dealt,
    InOrder,
    Lookup,
    Others,
    Parted,
    Parting,
    Recoder,
    Recoding,
    Worked,
    copied,
    in_turn,
    mapping_table,
    output_schema,
    recoded_batch,
    tables_of_parts,
    unmatched,
)
from sfumato.engines.spool import PrivateFolder, give_back
from sfumato.engines.staging import Beside, Target, TargetStaged, kept_form, stage_batches
from sfumato.errors import (
    BudgetError,
    EngineError,
    EngineMemoryError,
    TooManyClassesError,
    spell,
)
from sfumato.kernels import group_sums
from sfumato.wording import counted

__all__ = ["Connection", "SQLEngine", "Session", "temporary_name"]

_PARTS = (1, 8, 64, 512)
"""In how many parts classes are counted, one attempt after the other, as long as memory ends."""
_BATCH_BYTES = 1 << 24
"""Bytes of text, about, in a batch of rows on its way to a file."""
_SECONDS_BETWEEN_LOOKS = 0.05
_FEW = 0.25
"""Share of rows up to which a sample is sorted without the others."""
_LOOKED_AT, _AT_ONCE, _MOST_TOGETHER = 2_000, 16, 100_000
"""Rows that tell which columns have few values, columns counted in one pass, and their values."""
_AS_ONE = 1024
"""Combinations, about, of columns that are counted as one."""
_HELD_BYTES = 1 << 28
"""Rows that are held here where nobody named a limit of memory; else a quarter of that."""
_AS_TEXT = 24
"""Bytes of a number or date that passes by as text."""
_MOST_WORDS = 10_000
"""Spellings of words for nobody that are looked at."""


class Session(AbstractContextManager["Session"], Protocol):
    """Some statements that belong together; what was uploaded goes when it ends."""

    def execute(self, statement: sql.Node, columns: Sequence[Column]) -> pa.Table:
        """The answer to a statement, under these names and in these types."""

    def stream(
        self, statement: sql.Node, columns: Sequence[Column], rows: int = BATCH_ROWS
    ) -> Generator[pa.RecordBatch]:
        """The answer to a statement, batch by batch."""

    def run(self, statement: sql.Node) -> None:
        """Run a statement that has no answer."""

    def upload(self, name: str, table: pa.Table) -> None:
        """Make a table that statements of this session can name."""

    def apply(
        self,
        statement: sql.Node,
        act: Callable[..., tuple[pa.Table, bytes]],
        schema: pa.Schema,
        reports: dict[int, bytes],
        beside: sql.Node | None = None,
    ) -> sql.Node | None:
        """Do something with each part where the rows are: a statement that asks for the outcome.

        The first column of the given statement numbers the parts; of rows that are given `beside`
        them, too, and `act` gets both tables of a part. Reports are there once the outcome was
        asked for. None where the database does not run what we do.
        """

    def seed(self, seed: int) -> None:
        """Make random numbers repeatable where the statement's text cannot."""

    def cancel(self) -> None:
        """Give up the current statement; called from another thread, at any time."""


class Connection(Protocol):
    """One table of one database: all that `SQLEngine` needs to know of it."""

    name: str
    """The table as the user named it."""
    kind: str
    """What to call the database."""
    capabilities: Capabilities
    source: Source | None
    """The rows themselves where this process reads them; None where the database has them."""

    def rows(self) -> sql.Rows:
        """The table as statements speak of it, in the types the database holds it in."""

    def session(self, *, apart: bool = False, writing: bool = False) -> Session:
        """Statements to come; `apart` from others that go on meanwhile; to `write` a release."""

    def target(self, destination: str, format: str | None, schema: pa.Schema) -> Target | None:
        """Where a release of these columns goes in the database; None if it is a file of ours.

        Refuses a place that cannot be written before any work is done.
        """

    def over(self, source: Source) -> Connection:
        """How a file that was written here is read back: by DuckDB, unless there is a reason."""

    def reaches(self, destination: str) -> bool:
        """Whether a release there can appear at once with those of other tables."""

    def close(self) -> None:
        """Release connections and temporary files."""


@runtime_checkable
class Joining(Protocol):
    """A connection to a place with other tables, with which a statement can join this one."""

    def shares(self, other: Connection) -> bool:
        """Whether a statement can speak of both tables."""

    def view(self, statement: sql.Node) -> Connection:
        """What a statement gives, as a table in the same place."""


@runtime_checkable
class Changing(Protocol):
    """A connection to a table that others may change between two statements."""

    def one_moment(self) -> AbstractContextManager[object]:
        """Let all that is read meanwhile describe one moment."""


@runtime_checkable
class Limited(Protocol):
    """A connection to a database that works within a limit of this process's memory."""

    def check_width(self, columns: int, *, writing: bool, lookups: int = 1) -> None:
        """Refuse rows of more columns than it could move, or look up and write."""


class SQLEngine:
    """A table that a database scans, groups and joins.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from sfumato.engines.duckdb import DuckDB
    >>> from sfumato.tables.columnar import ArrowSource
    >>> people = ArrowSource(pa.table({"age": [20, 30, 30]}), "people")
    >>> engine = SQLEngine(DuckDB(people))
    >>> engine.class_sizes(["age"]).to_dict(), engine.capabilities.ordered
    ({1: 1, 2: 1}, True)
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.name = connection.name
        self.kind = connection.kind
        self.capabilities = replace(connection.capabilities, sql=True)
        self.source = connection.source
        self._columns: tuple[Column, ...] | None = None
        self._row_count: int | None = None
        self._sizes: dict[frozenset[str], ClassSizes] = {}
        self._identity: str | None = None
        self._lengths: dict[str, float] = {}
        self._values: dict[str, Codes] = {}
        self._widths: dict[str, float] = {}

    @property
    def paths(self) -> Sequence[Path]:
        """Files being read, which a release must not replace."""
        return () if self.source is None else self.source.paths

    def schema(self) -> tuple[Column, ...]:
        """Columns and types."""
        if self._columns is None:
            source = self.source
            self._columns = self.connection.rows().columns if source is None else source.schema()
        return self._columns

    def row_count(self) -> int:
        """Number of rows; counted where the source does not state it."""
        if self._row_count is None and self.source is not None:
            self._row_count = self.source.row_count()
        if self._row_count is None or not self.capabilities.stable:
            found = self._ask(sql.row_count(self.connection.rows()), [whole_number("rows")])
            self._row_count = int(found.column(0)[0].as_py())
        return self._row_count

    def null_counts(self, columns: Sequence[str]) -> dict[str, int]:
        """How many cells of each column are null; what was counted before is not asked again."""
        nulls = {n: _nulls(self._values[n]) for n in columns if n in self._values}
        asked = [name for name in columns if name not in nulls]
        if asked:
            counts = [whole_number(f"n{at}") for at in range(len(asked))]
            found = self._ask(sql.null_counts(self.connection.rows(), asked), counts)
            nulls.update((n, int(cell[0].as_py())) for n, cell in zip(asked, found, strict=True))
        return nulls

    def text_bytes(self, columns: Sequence[str]) -> dict[str, float]:
        """How long a cell of each column of text among some is on average."""
        kinds = {column.name: column.kind for column in self.schema()}
        texts = [name for name in columns if kinds[name] == "text"]
        asked = [name for name in texts if name not in self._lengths]
        if asked:
            sums = [whole_number(f"n{at}") for at in range(len(asked))]
            found = self._ask(sql.text_bytes(self.connection.rows(), asked), sums)
            rows = max(self.row_count(), 1)
            lengths = (int(cell[0].as_py() or 0) / rows for cell in found.columns)
            self._lengths.update(zip(asked, lengths, strict=True))
        return {name: self._lengths[name] for name in texts}

    def combination_bytes(self, columns: Sequence[str]) -> int:
        """What a combination takes, at most, until it is codes; long texts take more."""
        long = self.text_bytes(columns)
        cells = (max(CELL_BYTES, TEXT_COPIES * long.get(name, 0)) for name in columns)
        return CELL_BYTES + int(sum(cells))

    def class_sizes(self, columns: Sequence[str], budget: Budget | None = None) -> ClassSizes:
        """Histogram of class sizes, by two group-bys.

        Groups of many columns can be too wide even for a database that spills; where it can hash
        them, they are then counted in parts, each reading all rows and keeping the classes with
        a certain remainder of their hash.
        """
        about = frozenset(columns)
        if about in self._sizes:
            return self._sizes[about]
        if len(columns) == 1 and columns[0] in self._values:
            return ClassSizes.of_counts(self._values[columns[0]].row_counts)
        rows = self.connection.rows()
        attempts = _PARTS if rows.dialect.class_hash(rows.keys(columns)) is not None else (1,)
        for parts in attempts:
            try:
                found = self._class_sizes(rows, columns, parts, budget)
                break
            except EngineMemoryError:
                if parts == attempts[-1]:
                    raise
        if self.capabilities.stable:
            self._sizes[about] = found
        return found

    def person_sizes(
        self, columns: Sequence[str], person: str, budget: Budget | None = None
    ) -> PersonSizes:
        """Class sizes of a column set in different persons, counted by the database."""
        figures = [whole_number(name) for name in ("size", "classes", "persons")]
        statement = sql.person_sizes(self.connection.rows(), columns, person)
        found = self._ask(statement, figures, budget, "counting persons").to_pylist()
        own = self.class_sizes([person], budget)
        return PersonSizes(
            self.class_sizes(columns, budget),
            self.class_sizes((*columns, person), budget),
            ClassSizes.of({row["size"]: row["classes"] for row in found}),
            sum(row["persons"] for row in found if row["size"] == 1),
            own.classes,
            own.unseparated_pairs,
        )

    def classes(
        self, columns: Sequence[str], limit: int | None = None, budget: Budget | None = None
    ) -> Codes:
        """The classes with their counts, in ascending order of their codes.

        Without a limit there are as many at most as the memory of the budget holds.
        """
        if limit is None and budget is not None and budget.memory is not None:
            return self._classes_that_fit(columns, budget.memory, budget)
        declared = columns_named(self.schema(), columns)
        # No column can have the name that stands for the counts beside its own.
        count = whole_number(max((*columns, ""), key=len) + "\0count")
        statement = sql.classes(self.connection.rows(), columns, limit)
        found = self._ask(statement, [*declared, count], budget, "listing classes")
        return codes_of(found, limit, self.name)

    def _classes_that_fit(self, columns: Sequence[str], memory: int, budget: Budget) -> Codes:
        """All classes, refused before more of them come than memory holds."""
        most = max(1, memory // self.combination_bytes(columns))
        try:
            return self.classes(columns, most, budget)
        except TooManyClassesError as error:
            raise EngineError(
                f"there are more than {most:,} distinct combinations of "
                f"{counted(len(columns), 'column')}, too many to be held in {memory >> 20:,} MiB",
                where=self.name,
                remedy="Choose fewer columns, or allow more memory (e.g. "
                f"{spell('memory', '4GB')}).",
            ) from error

    def codes(self, columns: Sequence[str], budget: Budget | None = None) -> Codes:
        """The classes: rows stay where they are."""
        return self.classes(columns, None, budget)

    def values(self, column: str, limit: int | None = None) -> Codes:
        """One column's values with their counts."""
        known = self._values.get(column)
        if known is not None and (limit is None or known.entries <= limit):
            return known
        return self.classes([column], limit)

    def different(self, column: str) -> Iterator[pa.Array]:
        """One column's values but null, some at a time."""
        declared = columns_named(self.schema(), [column])
        statement = sql.different(self.connection.rows(), column)
        with self.connection.session(apart=True) as session:
            for batch in session.stream(statement, declared):
                yield batch.column(0)

    def rows_of_words(self, column: str, words: Collection[str]) -> dict[str, int]:
        """Rows of the cells that are one of some words but for case and blanks."""
        declared = columns_named(self.schema(), [column])
        statement = sql.rows_of_words(self.connection.rows(), column, sorted(words), _MOST_WORDS)
        found = self._ask(statement, [*declared, whole_number(f"{column}\0count")])
        cells, rows = (column.to_pylist() for column in found.columns)
        return {
            cell: number
            for cell, number in zip(cells, rows, strict=True)
            if cell.strip().lower() in words
        }

    def pairing(
        self, column: str, person: str, spelling: Spelling, budget: Budget | None = None
    ) -> Pairing:
        """How values of a column, in one spelling, and persons go together: figures come back.

        Values that become others are listed, and go back with what they become.
        """
        rows, becomes = self.connection.rows(), None
        with self.asking("counting persons", budget, writing=True) as session:
            if spelling.changes:
                becomes = temporary_name()
                values = self.values(column).values[0]
                numbers = spelling.numbers(values)
                some = pa.table(
                    {"k0": values.cast(rows.columns[rows.at(column)].type), "v0": numbers}
                )
                session.upload(becomes, some.filter(pa.array(numbers >= 0)))
            words = sorted(spelling.words)
            statement = sql.pairing(rows, column, person, words, becomes)
            figures = [whole_number(name) for name in ("by", "groups", "most", "rows")]
            found = {row["by"]: row for row in session.execute(statement, figures).to_pylist()}
        nothing = dict.fromkeys(("groups", "most", "rows"), 0)
        values_, persons = (found.get(by, nothing) for by in (0, 1))
        return Pairing(
            values_["groups"], persons["groups"], persons["rows"], values_["most"], persons["most"]
        )

    def sample(self, rows: int, columns: Sequence[str] | None = None, seed: int = 0) -> pa.Table:
        """Rows at seeded positions in their order, or the first in a seeded random order."""
        names = names_in(self.schema(), columns)
        declared = columns_named(self.schema(), names)
        if not self.capabilities.ordered:
            for below in (self._nearly_all_below(rows), None):
                with self.connection.session() as session:
                    session.seed(seed)
                    statement = sql.at_random(self.connection.rows(), names, rows, seed, below)
                    found = session.execute(statement, declared)
                if below is None or found.num_rows == rows:
                    return found
        total = self.row_count()
        if rows >= total:
            chosen = np.arange(total)
        else:
            chosen = np.random.default_rng(seed).choice(total, rows, replace=False, shuffle=False)
        wanted = pa.table({sql.POSITION: np.sort(chosen).astype(np.int64)})
        statement = sql.at_positions(self.connection.rows(), names, "wanted")
        with self.connection.session() as session:
            session.upload("wanted", wanted)
            return session.execute(statement, declared)

    def _nearly_all_below(self, rows: int) -> float | None:
        """A number below which a few more than so many of as many random numbers as rows lie.

        None where that is no small share of them, or the number of rows is not known.
        """
        total = self._row_count if self.capabilities.stable else None
        share = (rows + 8 * rows**0.5 + 8) / max(total or 0, 1)
        return share if share < _FEW else None

    @contextmanager
    def one_moment(self) -> Iterator[None]:
        """Let all answers describe one moment, as far as that is not so anyway."""
        able = self.capabilities
        if able.stable or not isinstance(self.connection, Changing):
            yield
            return
        with self.connection.one_moment():
            self.capabilities = replace(able, stable=True)
            try:
                yield
            finally:
                self.capabilities = able
                self._row_count = self._identity = None
                self._sizes.clear()
                self._values.clear()

    def count_values(self, columns: Sequence[str], seed: int, budget: Budget | None = None) -> None:
        """Count the values of all columns that seem to have few, before each is asked for.

        That takes one pass where several counts cost less in one than each by itself.
        """
        rows = self.connection.rows()
        if not (rows.dialect.counts_together and self.capabilities.stable):
            return
        rows_looked_at = self.sample(_LOOKED_AT, columns, seed)
        for name, cells in zip(columns, rows_looked_at.columns, strict=True):
            self._widths[name] = cells.nbytes / max(rows_looked_at.num_rows, 1)
        sample = codes_of_table(rows_looked_at)
        few = [
            name
            for name, values in zip(sample.columns, sample.values, strict=True)
            if 2 * len(values) <= sample.rows and name not in self._values
        ]
        for start in range(0, len(few), _AT_ONCE):
            names = few[start : start + _AT_ONCE]
            declared = columns_named(self.schema(), names)
            figures = [whole_number("\0sets"), *declared, whole_number("\0count")]
            sets = _counted_as_one(sample.select(names))
            statement = sql.values_together(rows, names, sets, _MOST_TOGETHER + 1)
            found = self._ask(statement, figures, budget, "counting values")
            if found.num_rows > _MOST_TOGETHER:
                continue
            untold, count = found.column(0).to_numpy(), found.column(found.num_columns - 1)
            for at, column in enumerate(declared):
                # GROUPING says of each column, the last one in the lowest bit, that it is not told.
                own = pa.array(untold & (1 << len(names) - 1 - at) == 0)
                told = pa.table({column.name: found.column(at + 1), "\0count": count})
                held = codes_of(told.filter(own), None, self.name)
                number = len(held.values[0])
                once = np.arange(number, dtype=held.arrays[0].dtype)
                rows_of = group_sums(held.arrays[0], number, held.counts)
                self._values[column.name] = replace(held, arrays=(once,), counts=rows_of)

    def stage(
        self,
        recoding: Recoding | Parted,
        destination: str,
        *,
        format: str | None = None,
        budget: Budget | None = None,
    ) -> Staged:
        """Write a release: as a file row by row in order, or in the database by joins.

        One that is made part by part is written as parts are done, without any join.
        """
        schema = output_schema(self.schema(), recoding)
        if isinstance(recoding, Parted):
            return self._stage_parts(recoding, schema, destination, format, budget)
        if self.capabilities.ordered:
            form, as_text = self._form(recoding, schema, destination, format)
            batches = self._recoded_in_order(recoding, schema, budget, as_text=as_text)
            if recoding.sorted:
                text = recoding.written if as_text else schema.names
                sorting = recoding.sorting(schema.names)
                batches = self._sorted(batches, schema, text, sorting, budget)
            return self._as_file(batches, schema, destination, format, form)
        target = self.connection.target(destination, format, schema)
        with self._joined(recoding, budget) as (session, statement):
            if target is not None:
                return TargetStaged(target, destination, lambda: target.fill(session, statement))
            columns = [column_of(field.name, field.type) for field in schema]
            return self._as_file(session.stream(statement, columns), schema, destination, format)

    def _form(
        self, recoding: Recoding | Parted, schema: pa.Schema, destination: str, format: str | None
    ) -> tuple[TextForm | None, bool]:
        """How the source's text is repeated, if it is, and whether cells are copied as text."""
        form = copied(kept_form(self.source, destination, format), schema, recoding.written)
        return form, form is not None and bool(form.readers)

    def _as_file(
        self,
        batches: Iterator[pa.RecordBatch],
        schema: pa.Schema,
        destination: str,
        format: str | None = None,
        form: TextForm | None = None,
    ) -> Staged:
        """Rows in a file, which is read back in the way that this table is."""
        inputs, reopen = self.paths, self._reopened
        return stage_batches(
            batches, schema, destination, format, reopen=reopen, inputs=inputs, form=form
        )

    def fingerprint(self) -> str:
        """Identity of the source's content, else a sum of row hashes that the database computes."""
        if self.source is not None:
            return self.source.fingerprint()
        if self._identity is not None:
            return self._identity
        statement = sql.fingerprint(self.connection.rows())
        found = self._ask(statement, [wide_number(name) for name in statement.named_selects])
        rows, *sums = (int(column[0].as_py() or 0) for column in found.columns)
        identity = rows_identity(rows, sums, self.schema(), self.kind)
        self._identity = identity if self.capabilities.stable else None
        return identity

    def batches(
        self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """All rows; in their own order where they have one."""
        if self.source is not None:
            yield from self.source.batches(columns, rows)
            return
        names = names_in(self.schema(), columns)
        statement = sql.all_rows(self.connection.rows(), names)
        with self.connection.session(apart=True) as session:
            yield from session.stream(statement, columns_named(self.schema(), names), rows)

    def reaches(self, destination: str) -> bool:
        """Whether a release there can appear at once with those of other tables."""
        return self.connection.reaches(destination)

    def shares(self, other: Engine) -> bool:
        """Whether rows can be joined with those of another table without leaving their place."""
        mine = self.connection
        return (
            isinstance(other, SQLEngine)
            and isinstance(mine, Joining)
            and mine.shares(other.connection)
        )

    def beside(
        self, columns: Sequence[str], name: str, column: str, there: SQLEngine, key: str, value: str
    ) -> SQLEngine:
        """Some columns, and one more: what another table shows beside the key that a cell is.

        It is null where the cell is no key there. The other table must share the place.
        """
        rows, others = self.connection.rows(), there.connection.rows()
        return self._view(sql.beside(rows, columns, name, column, others, key, value))

    def with_text(self, columns: Sequence[str], name: str, column: str) -> SQLEngine:
        """Some columns, and one more: the cells of one of them as text."""
        return self._view(sql.with_text(self.connection.rows(), columns, name, column))

    def present(self, columns: Sequence[str], column: str) -> SQLEngine:
        """Some columns of the rows in which a cell is not null."""
        return self._view(sql.present(self.connection.rows(), columns, column))

    def differing(self, one: str, other: str) -> int:
        """How many rows differ in two columns, neither of them being null."""
        statement = sql.differing(self.connection.rows(), one, other)
        return int(self._ask(statement, [whole_number("rows")]).column(0)[0].as_py())

    def _view(self, statement: sql.Node) -> SQLEngine:
        assert isinstance(self.connection, Joining)
        return SQLEngine(self.connection.view(statement))

    def close(self) -> None:
        """Release connections and temporary files."""
        self.connection.close()
        if self.source is not None:
            self.source.close()

    def _ask(
        self,
        statement: sql.Node,
        columns: Sequence[Column],
        budget: Budget | None = None,
        doing: str = "asking the database",
    ) -> pa.Table:
        with self.asking(doing, budget) as session:
            return session.execute(statement, columns)

    @contextmanager
    def asking(
        self, doing: str, budget: Budget | None, *, apart: bool = False, writing: bool = False
    ) -> Iterator[Session]:
        """Statements to come, given up once the budget is spent."""
        session = self.connection.session(apart=apart, writing=writing)
        with interrupting(budget, session.cancel, doing, self.name), session:
            yield session

    def _class_sizes(
        self, rows: sql.Rows, columns: Sequence[str], parts: int, budget: Budget | None
    ) -> ClassSizes:
        histogram: Counter[int] = Counter()
        for part in range(parts):
            statement = sql.class_sizes(rows, columns, part, parts)
            figures = [whole_number("size"), whole_number("classes")]
            found = self._ask(statement, figures, budget, "counting classes")
            for size, classes in zip(*(c.to_pylist() for c in found.columns), strict=True):
                histogram[size] += classes
        return ClassSizes.of(histogram)

    @contextmanager
    def _joined(
        self, recoding: Recoding, budget: Budget | None
    ) -> Iterator[tuple[Session, sql.Node]]:
        """A session to which the recoding was uploaded, and the statement that applies it."""
        rows, total = self.connection.rows(), self.row_count()
        with self.asking("recoding", budget, writing=True) as session:
            mappings = []
            for step in recoding.steps:
                cells, ranged = tuple(step.cells), step.first is not None
                mapping = sql.Mapping(temporary_name(), step.match.columns, cells, ranged)
                session.upload(mapping.relation, mapping_table(step))
                mappings.append(mapping)
            if mappings:
                figures = [whole_number(f"met{at}") for at in range(len(mappings) + 1)]
                found = session.execute(sql.entries(rows, mappings), figures)
                if any(column[0].as_py() != total for column in found.columns):
                    raise unmatched(self.name)
            schema = output_schema(self.schema(), recoding)
            sorting = recoding.sorting(schema.names)
            kinds = {name: column_of(name, schema.field(name).type).kind for name in sorting}
            sort = kinds if recoding.sorted else None
            yield session, sql.recoded(rows, mappings, recoding.drop, sort)

    def _recoded_in_order(
        self, recoding: Recoding, schema: pa.Schema, budget: Budget | None, *, as_text: bool
    ) -> Generator[pa.RecordBatch]:
        """Every row is looked up in the database, and recoded here batch by batch."""
        lookups = [Lookup(step, self.name) for step in recoding.steps]
        # rows that leave their order must not be told by it which of them are left out
        by_cells = [at for at, lookup in enumerate(lookups) if lookup.ranged and recoding.sorted]
        total, done = self.row_count(), 0
        written = {name for step in recoding.steps for name in step.cells}
        read = [name for name in schema.names if name not in written]
        # A reading of no column might lose the number of rows.
        batches = self._cells(read or [*names_in(self.schema(), None)[:1]], as_text)
        with self._combinations(lookups, by_cells, budget) as met:
            for batch in batches:
                taken = met.take(batch.num_rows)
                ordinals = dict(zip(by_cells, taken[len(lookups) :], strict=True))
                entries = [
                    lookup.entries(taken[at], ordinals.get(at)) for at, lookup in enumerate(lookups)
                ]
                yield recoded_batch(batch, recoding, entries, schema)
                if self.source is not None and self.source.memory is not None:
                    give_back()
                done += batch.num_rows
                if budget is not None:
                    budget.progress("writing", done / total if total else None)
            met.finish()

    def _sorted(
        self,
        batches: Generator[pa.RecordBatch],
        schema: pa.Schema,
        typed: Container[str],
        sorting: Sequence[str],
        budget: Budget | None,
    ) -> Generator[pa.RecordBatch]:
        """Rows in the order of what they show: laid aside, and sorted by the database.

        Columns that are not `typed` come as text.
        """
        fields = [f if f.name in typed else pa.field(f.name, pa.string()) for f in schema]
        aside = self._laid_aside(batches, pa.schema(fields))
        try:
            yield from _in_sorted_order(aside, schema.names, sorting, budget)
        finally:
            aside.discard()

    def _laid_aside(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Beside:
        """Rows in a private file."""
        folder = PrivateFolder()
        try:
            place = str(folder.path / "rows.parquet")
            return Beside(self._as_file(batches, schema, place), folder)
        except BaseException:
            folder.close()
            raise

    @contextmanager
    def _combinations(
        self, lookups: Sequence[Lookup], by_cells: Sequence[int], budget: Budget | None
    ) -> Iterator[Combinations]:
        """The combination every row has in each step, row by row in order.

        After them, for some of the steps, the number of the row among those of its combination.
        """
        if not lookups:
            yield Combinations(iter(()), 0, self.name)
            return
        rows = self.connection.rows()
        with self.asking("recoding", budget, writing=True) as session:
            mappings = []
            for lookup in lookups:
                mapping = sql.Mapping(temporary_name(), lookup.step.match.columns, (), ranged=False)
                keys = [
                    lookup.tuples.column(name).cast(rows.columns[rows.at(name)].type)
                    for name in mapping.columns
                ]
                numbers = pa.array(np.arange(lookup.combinations, dtype=np.int64))
                names = [*(f"k{nth}" for nth in range(len(keys))), sql.TUPLE]
                session.upload(mapping.relation, pa.table([*keys, numbers], names=names))
                mappings.append(mapping)
            figures = [whole_number(f"t{at}") for at in range(len(mappings))]
            figures += [whole_number(f"ordinal{at}") for at in by_cells]
            numbered = session.stream(sql.matched(rows, mappings, by_cells), figures)
            with closing(numbered):
                yield Combinations(numbered, len(figures), self.name)

    def several_class_sizes(
        self, sets: Sequence[Sequence[str]], budget: Budget | None = None
    ) -> list[ClassSizes]:
        """Histograms of the class sizes of several column sets, in one statement."""
        statement = sql.several_class_sizes(self.connection.rows(), sets)
        figures = [whole_number(name) for name in ("nth", "size", "classes")]
        found = self._ask(statement, figures, budget, "counting classes")
        histograms: list[dict[int, int]] = [{} for _ in sets]
        for nth, size, classes in zip(*(c.to_pylist() for c in found.columns), strict=True):
            histograms[nth][size] = classes
        return [ClassSizes.of(histogram) for histogram in histograms]

    def collisions(
        self,
        sets: Sequence[Sequence[str]],
        columns: Sequence[str],
        limit: int,
        budget: Budget | None = None,
    ) -> list[list[list[bool]]]:
        """For each column set, in which columns the rows of a class differ, for some classes.

        A set of which all classes hold equal rows has none.
        """
        flags = [column_of(f"d{at}", pa.bool_()) for at in range(len(columns))]
        statement = sql.collisions(self.connection.rows(), sets, columns, limit)
        found = self._ask(statement, [whole_number("nth"), *flags], budget, "looking for rows")
        answers: list[list[list[bool]]] = [[] for _ in sets]
        for nth, *differ in zip(*(column.to_pylist() for column in found.columns), strict=True):
            answers[nth].append(differ)
        return answers

    def ends(self, column: str) -> pa.Array:
        """The smallest and the largest value of a column, and null if it occurs."""
        (declared,) = columns_named(self.schema(), [column])
        low, high = (replace(declared, name=name) for name in ("low", "high"))
        statement = sql.ends(self.connection.rows(), column)
        found = self._ask(statement, [low, high, whole_number("nulls")])
        nulls = pa.nulls(1 if found.column(2)[0].as_py() else 0, declared.type)
        both = (found.column(at).combine_chunks() for at in range(2))
        return pa.concat_arrays([*both, nulls])

    def part_counts(
        self,
        parting: Parting,
        columns: Sequence[str] = (),
        budget: Budget | None = None,
        person: str | None = None,
        others: Others | None = None,
    ) -> pa.Table:
        """Rows or persons of each part, for each combination of columns; the part comes first.

        Given others, those are counted that go to each part.
        """
        found = [whole_number(sql.PART), *columns_named(self.schema(), columns)]
        with self._cutting(parting, budget) as (session, thresholds):
            rows = self._others(others, session) if others else self.connection.rows()
            statement = sql.part_counts(rows, columns, parting, thresholds, person)
            return session.execute(statement, [*found, whole_number("\0rows")])

    def holders(
        self,
        column: str,
        person: str,
        values: pa.Array | None = None,
        budget: Budget | None = None,
    ) -> Codes:
        """How many persons hold each value of a column, or each of some values."""
        rows, (declared,) = self.connection.rows(), columns_named(self.schema(), [column])
        with self.asking("counting persons", budget, writing=True) as session:
            wanted = None
            if values is not None:
                wanted = temporary_name()
                cells = values.cast(rows.columns[rows.at(column)].type)
                # Beside a number no line of text is empty: null alone would be none.
                session.upload(wanted, pa.table({"k0": cells, "nth": np.arange(len(cells))}))
            statement = sql.holders(rows, column, person, wanted)
            found = session.execute(statement, [declared, whole_number(f"{column}\0count")])
        return codes_of(found, None, self.name)

    def hash_sums(
        self, columns: Sequence[str], budget: Budget | None = None
    ) -> tuple[int, ...] | None:
        """The number of rows and sums of hashes of columns; None where there are no hashes.

        Tables of one kind of engine that have the same rows, as often, have the same sums.
        """
        statement = sql.hash_sums(self.connection.rows(), columns)
        if statement is None:
            return None
        figures = [whole_number(name) for name in ("rows", "sum0", "sum1")]
        found = self._ask(statement, figures, budget, "comparing rows")
        return tuple(int(column[0].as_py() or 0) for column in found.columns)

    def over_classes(
        self,
        columns: Sequence[str],
        by: Sequence[str],
        parts: int,
        act: Callable[[pa.Table], pa.Table],
        schema: pa.Schema,
        budget: Budget | None = None,
        *,
        grouped: bool = True,
        here: bool = False,
        summed: bool = False,
    ) -> pa.Table:
        """Do something with the classes of some columns, part by part, and collect what it gives.

        Classes that agree on `by` are in one part. They come with their counts in the last column,
        to where the rows are if the database can run what is done, else here one part at a time.
        Where nearly every row is a class, they need not be `grouped`: then rows come as they are.
        With `here` they come here in any case. What is given is `summed`: its second column, for
        each value of the first.
        """
        rows = self.connection.rows()
        parts = parts if rows.dialect.class_hash(rows.keys(by)) is not None else 1
        hashed = grouped and set(columns) == set(rows.names) and self._sums_hashes
        statement = sql.classes_in_parts(rows, columns, by, parts, grouped=grouped, hashed=hashed)
        sent = (*columns_named(self.schema(), columns), whole_number("\0count"))
        hashes = [whole_number(name) for name in statement.named_selects[1 + len(sent) :]]
        with self.asking("counting classes", budget) as session:
            whole = Recoder(Answer(act), sent, tuple(c.name for c in sent), schema)
            answer = None if here else session.apply(statement, whole, schema, {})
            if answer is not None:
                found = [column_of(field.name, field.type) for field in schema]
                answer = sql.added_up(answer, *schema.names) if summed else answer
                return session.execute(answer, found)
            answers, total, sums = [], 0, [0] * len(hashes)
            with self._dealt(session, statement, [*sent, *hashes], parts) as tables:
                for _, classes in tables:
                    answers.append(act(as_declared(classes, sent)))
                    counts, *numbers = (c.to_numpy() for c in classes.columns[len(sent) - 1 :])
                    total += int(counts.sum())
                    sums = [
                        old + _times(one, counts) for old, one in zip(sums, numbers, strict=True)
                    ]
        if hashed:  # rows of a class have the same cells, and so the same hash
            self._identity = rows_identity(total, sums, self.schema(), self.kind)
        given = pa.concat_tables([schema.empty_table(), *answers])
        if not summed:
            return given
        by, what = schema.names
        return given.group_by(by).aggregate([(what, "sum")]).rename_columns([by, what])

    @property
    def _sums_hashes(self) -> bool:
        """Whether rows that cannot change are identified by sums of hashes, not yet known."""
        able = self.capabilities
        remote = self.source is None and able.stable and not able.runs_work
        return remote and self._identity is None

    @contextmanager
    def _dealt(
        self, session: Session, statement: sql.Node, sent: Sequence[Column], parts: int
    ) -> Iterator[Iterator[tuple[int, pa.Table]]]:
        """What a statement gives, part by part: sorted far away, or dealt to its parts on disk."""
        here = self.source is not None
        ordered = sql.sorted_by_part(statement) if parts > 1 and not here else statement
        rows = BATCH_ROWS // 4 if here else BATCH_ROWS
        stream = session.stream(ordered, [whole_number(sql.PART), *sent], rows)
        with closing(stream):
            if not here:
                yield tables_of_parts(stream)
                return
            folder = PrivateFolder()
            try:
                dealt = Dealt.out(stream, folder.path / "dealt.arrow")
                give_back()
                yield dealt.tables()
            finally:
                folder.close()
                give_back()

    def try_parts(self, parted: Parted, budget: Budget | None = None) -> None:
        """Make a release part by part and keep nothing of it but the reports."""
        schema = output_schema(self.schema(), parted)
        with self._in_parts(parted, schema, budget) as (session, statement, recoder, beside):
            answer = session.apply(statement, recoder, schema, parted.reports, beside)
            if answer is not None:
                session.run(sql.counted(answer))
                return
            for _ in self._worked(parted, session, statement, recoder, budget):
                pass

    def _stage_parts(
        self,
        parted: Parted,
        schema: pa.Schema,
        destination: str,
        format: str | None,
        budget: Budget | None,
    ) -> Staged:
        parted.reports.clear()
        if parted.person is not None:
            return self._stage_owned(parted, schema, destination, format, budget)
        if self.capabilities.ordered:
            form, as_text = self._form(parted, schema, destination, format)
            made = self._parts_in_order(parted, schema, budget, as_text=as_text)
            return self._as_file(made, schema, destination, format, form)
        target = self.connection.target(destination, format, schema)
        # What passes by to a table of the same database passes as text: nothing is lost on the way.
        passing = [] if target is None else [n for n in schema.names if n not in parted.written]
        with self._in_parts(parted, schema, budget, passing) as (session, rows, recoder, beside):
            if target is not None:
                answer = session.apply(rows, recoder, schema, parted.reports, beside)
                if answer is not None:
                    return TargetStaged(target, destination, lambda: target.fill(session, answer))
            tables = self._worked(parted, session, rows, recoder, budget)
            batches = (batch for table in tables for batch in table.to_batches())
            if target is None:
                return self._as_file(batches, schema, destination, format)
            return TargetStaged(
                target, destination, lambda: target.fill_rows(schema, parted.written, batches)
            )

    def _stage_owned(
        self,
        parted: Parted,
        schema: pa.Schema,
        destination: str,
        format: str | None,
        budget: Budget | None,
    ) -> Staged:
        """Rows are laid aside with their owners; the release shows them without, in their order.

        Whoever verifies the release counts persons in what was laid aside.
        """
        owned = replace(
            parted,
            drop=tuple(name for name in parted.drop if name != parted.person),
            person=None,
        )
        target = None
        if not self.capabilities.ordered:
            target = self.connection.target(destination, format, schema)
        aside, form = self._aside(owned, destination, format, budget, far=target is not None)
        try:
            sorting = parted.sorting(schema.names)
            staged: Staged
            if target is not None:
                staged = self._shown(aside, target, destination, schema, sorting, budget)
            else:
                rows = _in_sorted_order(aside, schema.names, sorting, budget)
                staged = self._as_file(rows, schema, destination, format, form)
        except BaseException:
            aside.discard()
            raise
        staged.beside = aside
        return staged

    def _aside(
        self,
        owned: Parted,
        destination: str,
        format: str | None,
        budget: Budget | None,
        *,
        far: bool,
    ) -> tuple[Beside, TextForm | None]:
        """The rows of a release with their owners: in the database, or in a private file."""
        schema = output_schema(self.schema(), owned)
        if far:
            return Beside(self._stage_parts(owned, schema, destination, format, budget)), None
        if not self.capabilities.ordered:
            with self._in_parts(owned, schema, budget) as (session, statement, recoder, _):
                made = self._worked(owned, session, statement, recoder, budget)
                batches = (batch for table in made for batch in table.to_batches())
                return self._laid_aside(batches, schema), None
        form, as_text = self._form(owned, schema, destination, format)
        rows = self._parts_in_order(owned, schema, budget, as_text=as_text)
        if as_text:
            texts = [
                f if f.name in owned.written else pa.field(f.name, pa.string()) for f in schema
            ]
            schema = pa.schema(texts)
        return self._laid_aside(rows, schema), form

    def _shown(
        self,
        aside: Beside,
        target: Target,
        destination: str,
        schema: pa.Schema,
        sorting: Sequence[str],
        budget: Budget | None,
    ) -> TargetStaged:
        """What was laid aside in the database, without the owners."""
        engine = aside.engine()
        assert isinstance(engine, SQLEngine)
        rows = engine.connection.rows()
        kinds = {name: column_of(name, schema.field(name).type).kind for name in sorting}
        drop = [name for name in rows.names if name not in schema.names]
        statement = sql.recoded(rows, (), drop, kinds or None)
        session = engine.connection.session(writing=True)
        with interrupting(budget, session.cancel, "sorting", self.name), session:
            return TargetStaged(target, destination, lambda: target.fill(session, statement))

    @contextmanager
    def _cutting(self, parting: Parting, budget: Budget | None) -> Iterator[tuple[Session, str]]:
        """A session that knows the values at which rows are cut, and where they are."""
        rows = self.connection.rows()
        with self.asking("parting rows", budget, writing=True) as session:
            name = temporary_name()
            if parting.cuts:
                types = {column.name: column.type for column in rows.columns}
                session.upload(name, parting.thresholds(types))
            yield session, name

    @contextmanager
    def _in_parts(
        self,
        parted: Parted,
        schema: pa.Schema,
        budget: Budget | None,
        passing: Sequence[str] = (),
    ) -> Iterator[tuple[Session, sql.Node, Recoder, sql.Node | None]]:
        """A session, the statement that gives rows part by part, and what is done with them.

        Then the statement that gives the others of each part, if any go there.
        """
        rows = self.connection.rows()
        names = [n for n in rows.names if n in parted.reads or n in schema.names]
        with self._cutting(parted.parting, budget) as (session, thresholds):
            far = self.capabilities.runs_work
            text = [] if far else [n for n in passing if n not in parted.reads]
            sent = tuple(
                column_of(column.name, pa.string()) if column.name in text else column
                for column in columns_named(self.schema(), names)
            )
            fields = [
                pa.field(f.name, pa.string()) if f.name in passing and not far else f
                for f in schema
            ]
            others, beside, along = parted.others, None, tuple[Column, ...]()
            if others is not None:
                theirs, along = self._others(others, session), others.columns
                their_names = [column.name for column in along]
                beside = sql.in_parts(theirs, their_names, parted.parting, thresholds)
            recoder = Recoder(parted.work, sent, parted.reads, pa.schema(fields), along)
            statement = sql.in_parts(rows, names, parted.parting, thresholds, text=text)
            yield session, statement, recoder, beside

    def _others(self, others: Others, session: Session) -> sql.Rows:
        """Rows of another table as a session's statements name them; sent if it is elsewhere."""
        engine, columns = others
        if asks_sql(engine) and self.shares(engine):
            return engine.connection.rows()
        schema = pa.schema([(column.name, column.type) for column in columns])
        batches = [batch.cast(schema) for batch in engine.batches(schema.names)]
        name = temporary_name()
        session.upload(name, pa.Table.from_batches(batches, schema))
        return sql.Rows(sql.table(name), columns, self.connection.rows().dialect)

    def _worked(
        self,
        parted: Parted,
        session: Session,
        statement: sql.Node,
        recoder: Recoder,
        budget: Budget | None,
    ) -> Iterator[pa.Table]:
        """The rows of each part after the work, which is done here.

        They are dealt to their parts here if all of them fit, else sorted where they are.
        """
        several = parted.parting.parts > 1
        near = several and self._fit(recoder.sent, budget)
        if several and not near:
            statement = sql.sorted_by_part(statement)
        streamed = session.stream(statement, [whole_number(sql.PART), *recoder.sent])
        with closing(streamed):
            parts = Dealt.out(streamed).tables() if near else tables_of_parts(streamed)
            yield from self._solved(parted, parts, recoder, budget)

    def _fit(self, columns: Sequence[Column], budget: Budget | None) -> bool:
        """Whether some columns of all rows can be held here beside the parts at work."""
        if self._row_count is None or not all(column.name in self._widths for column in columns):
            return False
        kinds = {column.name: column.kind for column in self.schema()}
        row = sum(
            self._widths[column.name] if column.kind == kinds[column.name] else _AS_TEXT
            for column in columns
        )
        most = _HELD_BYTES if budget is None or budget.memory is None else budget.memory // 4
        return self._row_count * row <= most

    def _solved(
        self,
        parted: Parted,
        parts: Iterator[tuple[int, pa.Table]],
        recoder: Recoder,
        budget: Budget | None,
    ) -> Iterator[pa.Table]:
        for part, (made, report) in in_turn(recoder, parts, parted.workers):
            parted.reports[part] = report
            if budget is not None:
                budget.progress("solving parts", len(parted.reports) / parted.parting.parts)
            yield made

    def _parts_in_order(
        self, parted: Parted, schema: pa.Schema, budget: Budget | None, *, as_text: bool
    ) -> Iterator[pa.RecordBatch]:
        """Parts are solved and laid aside one after the other, then read in the order of rows."""
        rows = self.connection.rows()
        names = [name for name in rows.names if name in parted.reads]
        place = max((*names, ""), key=len) + "\0position"
        sent = (whole_number(place), *columns_named(self.schema(), names))
        written = [field for field in schema if field.name in parted.written]
        given = pa.schema([pa.field(place, pa.int64()), *written])
        folder = PrivateFolder()
        try:
            aside = InOrder(folder.path, place)
            with self._cutting(parted.parting, budget) as (session, thresholds):
                statement = sql.in_parts(rows, names, parted.parting, thresholds, numbered=True)
                with closing(session.stream(statement, [whole_number(sql.PART), *sent])) as stream:
                    dealt = Dealt.out(stream, folder.path / "dealt.arrow")
            give_back()
            recoder = Recoder(parted.work, sent, parted.reads, given)
            for made in self._solved(parted, dealt.tables(), recoder, budget):
                aside.add(made)
                del made  # the next part is on its way
            give_back()
            read = [name for name in schema.names if name not in parted.written]
            # A reading of no column might lose the number of rows.
            rows_read = self._cells(read or [*names_in(self.schema(), None)[:1]], as_text)
            yield from self._beside(aside, rows_read, parted, schema, place, budget)
        finally:
            folder.close()

    def _cells(self, names: Sequence[str], as_text: bool) -> Iterator[pa.RecordBatch]:
        """Rows in order; on request as they stand in a text file."""
        if as_text and isinstance(self.source, KeepsText):
            return self.source.texts(names)
        long = sum(self.text_bytes(names).values())
        return self.batches(names, max(1, min(BATCH_ROWS // 2, int(_BATCH_BYTES / max(long, 1)))))

    def _beside(
        self,
        aside: InOrder,
        batches: Iterator[pa.RecordBatch],
        parted: Parted,
        schema: pa.Schema,
        place: str,
        budget: Budget | None,
    ) -> Iterator[pa.RecordBatch]:
        """Rows of the source in order, with the cells that were laid aside."""
        total, done = self.row_count(), 0
        for batch in batches:
            cells = aside.before(done + batch.num_rows)
            if cells is not None:
                at = cells.column(place).to_numpy() - done
                kept = batch.take(pa.array(at)) if cells.num_rows < batch.num_rows else batch
                arrays = [
                    (cells if name in parted.written else kept).column(name)
                    for name in schema.names
                ]
                yield pa.RecordBatch.from_arrays(arrays, names=schema.names)
            done += batch.num_rows
            if budget is not None:
                budget.progress("writing", done / total if total else None)

    def _reopened(self, source: Source) -> Engine:
        give_back()
        return SQLEngine(self.connection.over(source))


def _nulls(values: Codes) -> int:
    """How many rows have no value, which is the last one of a column."""
    (codes,), (known,) = values.arrays, values.values
    return int(values.row_counts[codes == len(known) - 1].sum()) if known.null_count else 0


def _times(numbers: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> int:
    """The sum of numbers of 64 bits, each of which counts several times."""
    high, low = (int((half * counts).sum()) for half in (numbers >> 32, numbers & (1 << 32) - 1))
    return (high << 32) + low


def _counted_as_one(sample: Codes) -> list[list[str]]:
    """Columns, those together that have few combinations: each row is then looked up less often.

    Where a value occurs once in the sample there may be many more.
    """
    sets: list[list[str]] = []
    combinations: list[int] = []
    sizes = [
        len(values) if np.bincount(codes, minlength=len(values)).min(initial=2) > 1 else _AS_ONE + 1
        for codes, values in zip(sample.arrays, sample.values, strict=True)
    ]
    for size, name in sorted(zip(sizes, sample.columns, strict=True), reverse=True):
        fits = (at for at, held in enumerate(combinations) if held * size <= _AS_ONE)
        at = next(fits, len(sets))
        if at == len(sets):
            sets.append([])
            combinations.append(1)
        sets[at].append(name)
        combinations[at] *= size
    return sets


def _in_sorted_order(
    aside: Beside, names: Sequence[str], sorting: Sequence[str], budget: Budget | None
) -> Generator[pa.RecordBatch]:
    """Some columns of rows that were laid aside in a file, sorted out of core."""
    engine = aside.engine()
    assert isinstance(engine, SQLEngine)
    with engine.asking("sorting", budget, apart=True, writing=True) as session:
        statement = sql.sorted_rows(engine.connection.rows(), names, sorting)
        shown = columns_named(engine.schema(), names)
        yield from session.stream(statement, shown, BATCH_ROWS // 4)  # several are on their way


@dataclass(frozen=True)
class Answer:
    """What is done with the classes of a part, as work that leaves out no row."""

    act: Callable[[pa.Table], pa.Table]

    def __call__(self, rows: pa.Table) -> Worked:
        return Worked(self.act(rows), None, b"")


@contextmanager
def interrupting(
    budget: Budget | None, interrupt: Callable[[], object], doing: str, where: str
) -> Iterator[None]:
    """Call `interrupt` from another thread once the budget is spent, and say so afterwards.

    Parameters
    ----------
    budget
        Limits of the work; None watches nothing.
    interrupt
        Makes the engine give up its current statement; must be safe from another thread.
    doing
        What the work is, for progress and for the error.
    where
        The table concerned.

    Examples
    --------
    >>> from sfumato.budget import Budget
    >>> with interrupting(Budget(seconds=60), lambda: None, "counting classes", "people"):
    ...     pass
    """
    if budget is None:
        yield
        return
    stopped = BudgetError(
        f"{doing} was stopped before it had an answer",
        where=where,
        remedy=f"Allow more time ({spell('time', '10m')}), or ask for fewer columns.",
    )
    if budget.spent():
        raise stopped
    budget.progress(doing)
    done, fired = threading.Event(), threading.Event()

    def look() -> None:
        while not done.wait(_SECONDS_BETWEEN_LOOKS):
            if budget.spent():
                fired.set()
                interrupt()
                return

    watcher = threading.Thread(target=look, name="sfumato-budget", daemon=True)
    watcher.start()
    try:
        yield
    except Exception as error:
        if fired.is_set():
            raise stopped from error
        raise
    finally:
        done.set()
        watcher.join()


def temporary_name() -> str:
    """A name for a table that nobody looks at yet."""
    return f"sfumato_partial_{uuid.uuid4().hex[:16]}"
