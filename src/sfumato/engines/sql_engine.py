"""The engine for rows that a database holds: questions become statements, answers come back.

What databases are asked is here; how a release is made of their rows, in `sql_release.py`. What
differs between them is behind a `Connection` (`connection.py`): how to reach the database, its
`Dialect`, its types, and where a release can go. To add a database, write a connection and put it
through the conformance suite.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sqlglot import exp

from sfumato.budget import Budget
from sfumato.engines import sql_release
from sfumato.engines import statements as sql
from sfumato.engines.connection import Connection, Session, interrupting, temporary_name
from sfumato.engines.encoding import as_arrow, codes_of_table, encode_batches
from sfumato.engines.numbering import coded_rows
from sfumato.engines.private_folder import PrivateFolder
from sfumato.engines.protocol import (
    BATCH_BYTES,
    BATCH_ROWS,
    CELL_BYTES,
    ENOUGH_BYTES,
    HELD_BYTES,
    TEXT_COPIES,
    ClassSizes,
    Codes,
    Column,
    Engine,
    KeepsText,
    Pairing,
    PersonSizes,
    Spelling,
    as_declared,
    asks_sql,
    codes_of,
    column_of,
    columns_named,
    names_in,
    rows_identity,
    too_many_classes,
    whole_number,
    wide_number,
)
from sfumato.engines.recoding import (
    Dealt,
    Others,
    Parted,
    Parting,
    Recoder,
    Recoding,
    Worked,
    tables_of_parts,
)
from sfumato.engines.spool import give_back
from sfumato.engines.staging import Staged
from sfumato.errors import EngineError, EngineMemoryError, TooManyClassesError, spell
from sfumato.files import file_fingerprint
from sfumato.kernels import group_sums, representatives, size_histogram
from sfumato.kernels.ranking import translate
from sfumato.wording import counted

_PARTS = (1, 8, 64, 512)
"""In how many parts classes are counted, one attempt after the other, as long as memory ends."""
_FEWEST = 2048
"""Rows of a batch at least, however long they are: DuckDB moves as many at a time."""
_DECIMAL = 16.0
"""Bytes of a decimal, which is numbered as texts are."""
_LONGEST, _LONGEST_SENT = 32, 16
"""A cell may be as long as this part of a limit; one that a database sends, as this."""
_FEW = 0.25
"""Share of rows up to which a sample is sorted without the others."""
_LOOKED_AT, _AT_ONCE, _MOST_TOGETHER = 2_000, 16, 100_000
"""Rows that tell which columns have few values, columns counted in one pass, and their values."""
_AS_ONE = 1024
"""Combinations, about, of columns that are counted as one."""
_HELD_KINDS = ("integer", "text", "boolean", "date")
"""What is the same as ever after it was held here and written as text."""
_PIECE = 1 << 26
"""Bytes of cells that a cluster's driver can be asked for at a time."""
_BESIDE = 1 << 18
"""Bytes of texts at which rows are cut, about, that a cluster copies with each row."""
_AS_TEXT = 24
"""Bytes of a number or date that passes by as text."""
_MOST_WORDS = 10_000
"""Spellings of words for nobody that are looked at."""
_MODULI = (4_294_967_291, 2_147_483_647)
"""Primes; sums of remainders of two billion rows fit 64 bits."""


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
        self.lengths_asked = 0
        self._lengths: dict[str, float] = {}
        self._longest: dict[str, int] = {}
        self._letters: dict[str, float] = {}
        self._long_values: dict[str, float] = {}
        self._values: dict[str, Codes] = {}
        self._widths: dict[str, float] = {}
        self._held: Codes | None = None

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

    def close(self) -> None:
        """Release connections and temporary files."""
        self.connection.close()
        if self.source is not None:
            self.source.close()

    # How a question is put

    @contextmanager
    def asking(
        self, doing: str, budget: Budget | None, *, apart: bool = False, writing: bool = False
    ) -> Iterator[Session]:
        """Statements to come, given up once the budget is spent."""
        session = self.connection.session(apart=apart, writing=writing)
        with interrupting(budget, session.cancel, doing, self.name), session:
            yield session

    def _ask(
        self,
        statement: sql.Node,
        columns: Sequence[Column],
        budget: Budget | None = None,
        doing: str = "asking the database",
    ) -> pa.Table:
        with self.asking(doing, budget) as session:
            return session.execute(statement, columns)

    def _figures(
        self, statement: exp.Query, *how: Any, of: Callable[[str], Column] = whole_number
    ) -> list[tuple[int, ...]]:
        """The answer to a statement that asks for numbers; 0 where there is none."""
        found = self._ask(statement, [of(name) for name in statement.named_selects], *how)
        cells = ([int(cell or 0) for cell in column.to_pylist()] for column in found.columns)
        return list(zip(*cells, strict=True))

    def _select(self, template: str, **given: sql.Node | Sequence[sql.Node]) -> exp.Select:
        """A question about the rows (see `statements.select`)."""
        return sql.select(template, self.connection.rows(), **given)

    # Questions

    def row_count(self) -> int:
        """Number of rows; counted where the source does not state it."""
        if self._row_count is None and self.source is not None:
            self._row_count = self.source.row_count()
        if self._row_count is None or not self.capabilities.stable:
            statement = self._select("SELECT COUNT(*) AS rows FROM ORIGIN")
            ((self._row_count,),) = self._figures(statement)
        return self._row_count

    def null_counts(self, columns: Sequence[str]) -> dict[str, int]:
        """How many cells of each column are null; what was counted before is not asked again."""
        nulls = {n: _nulls(self._values[n]) for n in columns if n in self._values}
        asked = [name for name in columns if name not in nulls]
        if asked:
            rows = self.connection.rows()
            counts = [sql.named(rows.nulls(name), f"n{at}") for at, name in enumerate(asked)]
            (found,) = self._figures(self._select("SELECT COUNTS FROM ORIGIN", COUNTS=counts))
            nulls.update(zip(asked, found, strict=True))
        return nulls

    def text_bytes(self, columns: Sequence[str]) -> dict[str, float]:
        """How long a cell of each column of text, bytes or decimals among some is on average."""
        kinds = {column.name: column.kind for column in self.schema()}
        decimals = {name: _DECIMAL for name in columns if kinds[name] == "decimal"}
        texts = [name for name in columns if kinds[name] in ("text", "binary")]
        asked = [name for name in texts if name not in self._lengths]
        if asked:
            rows = self.connection.rows()
            lengths = [rows.dialect.length(rows.cell(name), kinds[name]) for name in asked]
            sums = [of(this=one.copy()) for of in (exp.Sum, exp.Max) for one in lengths]
            told = [sql.named(exp.cast(s, "bigint"), f"n{at}") for at, s in enumerate(sums)]
            (found,) = self._figures(self._select("SELECT SUMS FROM ORIGIN", SUMS=told))
            self.lengths_asked += 1
            number, many = max(self.row_count(), 1), len(asked)
            self._lengths |= {n: size / number for n, size in zip(asked, found[:many], strict=True)}
            self._longest |= dict(zip(asked, found[many:], strict=True))
        return decimals | {name: self._lengths[name] for name in texts}

    def check_cells(self, columns: Sequence[str], memory: int | None) -> None:
        """Refuse a cell that could not be moved within the memory: it is held several times.

        Files know their limit. Lines of text files are refused as they are read. Bytes of a
        database count twice: they come, or are counted, as hexadecimal digits.
        """
        memory = memory if self.source is None else self.source.memory
        if memory is None or isinstance(self.source, KeepsText):
            return
        self.text_bytes(columns)
        sent = {c.name for c in self.schema() if self.source is None and c.kind == "text"}
        for name in (name for name in columns if name in self._longest):
            if self._longest[name] > memory // (_LONGEST_SENT if name in sent else _LONGEST):
                raise EngineMemoryError(
                    f"a cell of `{name}` is {self._longest[name] >> 20:,} MiB long, which takes "
                    f"more than the {memory >> 20:,} MiB allowed on its way",
                    where=self.name,
                    remedy=f"Leave the column out, or allow more memory (e.g. "
                    f"{spell('memory', '4GB')}).",
                )

    def value_bytes(self, columns: Sequence[str]) -> dict[str, float]:
        """The same of a value, if that is longer than a cell: rare texts may be the long ones.

        Where the database has no room to look, values count like cells.
        """
        found = self.text_bytes(columns)
        rows = self.connection.rows()
        for name in (n for n in found if n in self._lengths and n not in self._long_values):
            if self._longest[name] * TEXT_COPIES <= CELL_BYTES:  # whatever its values, they fit
                self._long_values[name] = self._longest[name]
                continue
            if name in self._letters:  # its values were counted before
                self._long_values[name] = max(self._letters[name], found[name])
                continue
            asked = sql.select(
                "SELECT CAST(SUM(LETTERS) AS BIGINT) AS letters, COUNT(*) AS number FROM KEYS AS d",
                LETTERS=rows.dialect.length(sql.field("c0"), rows.kind(name)),
                KEYS=sql.select("SELECT DISTINCT KEY AS c0 FROM ORIGIN", rows, KEY=rows.key(name)),
            )
            try:
                ((size, number),) = self._figures(asked)
                self._long_values[name] = max(size / max(number, 1), found[name])
            except EngineMemoryError:
                self._long_values[name] = found[name]
        return {name: self._long_values.get(name, size) for name, size in found.items()}

    def combination_bytes(self, columns: Sequence[str]) -> int:
        """What a combination takes, at most, until it is codes; long texts take more."""
        return _row_bytes(columns, self.value_bytes(columns))

    def fitting(self, rows: int, columns: Sequence[str], budget: Budget | None) -> int:
        """So many rows to look at, or fewer where they are long and memory is limited."""
        if budget is None or budget.memory is None:
            return rows
        row = _row_bytes(columns, self.text_bytes(columns))
        return min(rows, max(2, budget.memory // (4 * row)))

    def class_sizes(self, columns: Sequence[str], budget: Budget | None = None) -> ClassSizes:
        """Histogram of class sizes, by two group-bys.

        Groups of many columns can be too wide even for a database that spills. They are then
        counted here if their codes fit; else, where it can hash them, in parts, each reading all
        rows and keeping the classes with a certain remainder of their hash.
        """
        about = frozenset(columns)
        if about in self._sizes:
            return self._sizes[about]
        if len(columns) == 1 and columns[0] in self._values:
            return ClassSizes.of_counts(self._values[columns[0]].row_counts)
        rows, kinds = self.connection.rows(), {one.name: one.kind for one in self.schema()}
        lettered = len(columns) == 1 and kinds[columns[0]] in ("text", "binary")
        attempts = _PARTS if rows.dialect.class_hash(rows.keys(columns)) is not None else (1,)
        for parts in attempts:
            histogram: Counter[int] = Counter()
            letters = 0
            try:
                for part in range(parts):
                    statement = sql.class_sizes(rows, columns, part, parts, letters=lettered)
                    for size, classes, *long in self._figures(
                        statement, budget, "counting classes"
                    ):
                        histogram[size] += classes
                        letters += sum(filter(None, long))
                break
            except EngineMemoryError:
                if parts == attempts[-1]:
                    raise
                here = parts == 1 and len(columns) > 1 and self.source is not None
                if here and budget is not None:
                    codes = coded_rows(self, columns, budget)
                    if codes is not None:
                        own = size_histogram(codes.arrays, codes.cardinalities, entries=codes.rows)
                        histogram = Counter(ClassSizes(*own).to_dict())
                        break
        found = ClassSizes.of(histogram)
        if lettered:
            self._letters[columns[0]] = letters / max(found.classes, 1)
        if self.capabilities.stable:
            self._sizes[about] = found
        return found

    def several_class_sizes(
        self,
        sets: Sequence[Sequence[str]],
        budget: Budget | None = None,
        *,
        hashed: bool = False,
    ) -> list[ClassSizes]:
        """Histograms of the class sizes of several column sets, in one statement.

        With `hashed`, a few classes may count as one: those of which a hash is the same.
        """
        rows = self.connection.rows()
        sizes = [sql.class_sizes(rows, one, hashed=hashed) for one in sets]
        template = "SELECT NTH AS nth, size, classes FROM SIZES AS sizes"
        asked = [
            sql.select(template, NTH=exp.convert(at), SIZES=one) for at, one in enumerate(sizes)
        ]
        histograms: list[dict[int, int]] = [{} for _ in sets]
        for nth, size, classes in self._figures(sql.all_of(asked), budget, "counting classes"):
            histograms[nth][size] = classes
        return [ClassSizes.of(histogram) for histogram in histograms]

    def person_sizes(
        self, columns: Sequence[str], person: str, budget: Budget | None = None
    ) -> PersonSizes:
        """Class sizes of a column set in different persons, counted by the database."""
        statement = sql.person_sizes(self.connection.rows(), columns, person)
        found = self._figures(statement, budget, "counting persons")
        own = self.class_sizes([person], budget)
        return PersonSizes(
            self.class_sizes(columns, budget),
            self.class_sizes((*columns, person), budget),
            ClassSizes.of({size: classes for size, classes, _ in found}),
            sum(persons for size, _, persons in found if size == 1),
            own.classes,
            own.unseparated_pairs,
        )

    def classes(
        self, columns: Sequence[str], limit: int | None = None, budget: Budget | None = None
    ) -> Codes:
        """The classes with their counts, in ascending order of their codes.

        Without a limit there are as many at most as the memory of the budget holds.
        """
        memory = (budget and budget.memory) or (ENOUGH_BYTES if self.capabilities.remote else None)
        if limit is None and memory is not None:
            return self._classes_that_fit(columns, memory, budget or Budget())
        declared = columns_named(self.schema(), columns)
        # No column can have the name that stands for the counts beside its own.
        count = whole_number(max((*columns, ""), key=len) + "\0count")
        rows, template = self.connection.rows(), "SELECT KEYS, COUNT(*) AS count FROM ORIGIN"
        statement = sql.select(template, rows, KEYS=rows.named_keys(columns))
        statement = sql.by_class(statement, rows, columns)
        if limit is not None:  # one more shows that it broke
            statement = statement.limit(limit + 1)
        found = self._ask(statement, [*declared, count], budget, "listing classes")
        return codes_of(found, limit, self.name)

    def _classes_that_fit(self, columns: Sequence[str], memory: int, budget: Budget) -> Codes:
        """All classes, refused before more of them come than memory holds."""
        most = max(1, memory // self.combination_bytes(columns))
        try:
            far = self.capabilities.remote and self.row_count() > most
            if far and self.class_sizes(columns, budget).classes > most:  # before they set out
                raise too_many_classes(columns, most, self.name)
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
        rows = self.connection.rows()
        template = "SELECT DISTINCT KEY AS c0 FROM ORIGIN WHERE NOT CELL IS NULL"
        statement = sql.select(template, rows, KEY=rows.key(column), CELL=rows.cell(column))
        with self.connection.session(apart=True) as session:
            for batch in session.stream(statement, columns_named(self.schema(), [column])):
                yield batch.column(0)

    def ends(self, column: str) -> pa.Array:
        """The smallest and the largest value of a column, and null if it occurs."""
        rows, (declared,) = self.connection.rows(), columns_named(self.schema(), [column])
        low, high = (replace(declared, name=name) for name in ("low", "high"))
        template = "SELECT MIN(KEY), MAX(KEY), MISSING FROM ORIGIN"
        statement = sql.select(template, rows, KEY=rows.key(column), MISSING=rows.nulls(column))
        found = self._ask(statement, [low, high, whole_number("nulls")])
        nulls = pa.nulls(1 if found.column(2)[0].as_py() else 0, declared.type)
        both = (found.column(at).combine_chunks() for at in range(2))
        return pa.concat_arrays([*both, nulls])

    def differing(self, one: str, other: str) -> int:
        """How many rows differ in two columns, neither of them being null."""
        rows = self.connection.rows()
        template = "SELECT COUNT(*) AS rows FROM ORIGIN WHERE ONE <> OTHER"
        statement = sql.select(template, rows, ONE=rows.key(one), OTHER=rows.key(other))
        ((found,),) = self._figures(statement)
        return found

    def rows_of_words(self, column: str, words: Collection[str]) -> dict[str, int]:
        """Rows of the cells that are one of some words but for case and blanks."""
        declared = columns_named(self.schema(), [column])
        held = self.connection.rows()
        template = "SELECT KEY AS c0, COUNT(*) AS count FROM ORIGIN WHERE KNOWN GROUP BY KEY"
        known = sql.close(held, column).isin(*sorted(words))
        statement = sql.select(template, held, KEY=held.key(column), KNOWN=known)
        count = whole_number(f"{column}\0count")
        found = self._ask(statement.limit(_MOST_WORDS), [*declared, count])
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
                some = pa.table({"k0": values.cast(rows.stored(column)), "v0": numbers})
                session.upload(becomes, some.filter(pa.array(numbers >= 0)))
            words = sorted(spelling.words)
            statement = sql.pairing(rows, column, person, words, becomes)
            figures = [whole_number(name) for name in ("side", "groups", "most", "rows")]
            found = {row["side"]: row for row in session.execute(statement, figures).to_pylist()}
        nothing = dict.fromkeys(("groups", "most", "rows"), 0)
        values_, persons = (found.get(side, nothing) for side in (0, 1))
        return Pairing(
            values_["groups"], persons["groups"], persons["rows"], values_["most"], persons["most"]
        )

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
                cells = values.cast(rows.stored(column))
                # Beside a number no line of text is empty: null alone would be none.
                session.upload(wanted, pa.table({"k0": cells, "nth": np.arange(len(cells))}))
            statement = sql.holders(rows, column, person, wanted)
            found = session.execute(statement, [declared, whole_number(f"{column}\0count")])
        return codes_of(found, None, self.name)

    def collisions(
        self,
        by: Sequence[str],
        columns: Sequence[str],
        limit: int,
        budget: Budget | None = None,
    ) -> list[tuple[bool, ...]]:
        """In which columns the rows of a class of a column set differ, for some classes.

        None where all classes hold equal rows.
        """
        flags = [column_of(f"d{at}", pa.bool_()) for at in range(len(columns))]
        statement = sql.collisions(self.connection.rows(), by, columns, limit)
        found = self._ask(statement, flags, budget, "looking for rows")
        return list(zip(*(column.to_pylist() for column in found.columns), strict=True))

    def rows_of_a_part(
        self,
        by: Sequence[str],
        parts: int,
        columns: Sequence[str],
        limit: int,
        seed: int,
        budget: Budget | None = None,
    ) -> Codes:
        """Rows of one of some parts, in which rows that agree on some columns are together."""
        rows, declared = self.connection.rows(), columns_named(self.schema(), columns)
        statement = sql.rows_of_a_part(rows, by, parts, columns, seed).limit(limit)
        with self.asking("looking for equal rows", budget) as session:
            session.seed(seed)
            return codes_of_table(session.execute(statement, declared))

    def rows_alike(
        self, by: Sequence[str], columns: Sequence[str], limit: int, budget: Budget | None = None
    ) -> tuple[Codes, bool]:
        """Rows that share a hash of some columns, the rarest first; and whether these are all."""
        rows, declared = self.connection.rows(), columns_named(self.schema(), columns)
        statement = sql.rows_alike(rows, by, columns, limit)
        found = self._ask(statement, declared, budget, "looking for equal rows")
        return codes_of_table(found), found.num_rows < limit

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
        held = self.near((*parting.columns, *columns))
        if held is not None and person is None and others is None:
            part, own = as_arrow(np.arange(parting.parts)), held.select(columns)
            cells = Codes(
                (sql.PART, *(f"c{at}" for at in range(len(columns)))),
                (parting.of(held), *own.arrays),
                (part, *own.values),
            )
            ids, number = cells.numbered(cells.columns)
            counts = as_arrow(group_sums(ids, number))
            return cells.take(representatives(ids, number)).table().append_column("rows", counts)
        found = [whole_number(sql.PART), *columns_named(self.schema(), columns)]
        with self.cutting(parting, budget) as (session, thresholds):
            rows = self.others(others, session) if others else self.connection.rows()
            statement = sql.part_counts(rows, columns, parting, thresholds, person)
            return session.execute(statement, [*found, whole_number("\0rows")])

    def files_fingerprint(self) -> str | None:
        """What whoever has only the files of a database's release compares them with, if any."""
        files = self.connection.files()
        return file_fingerprint(*files) if files else None

    def fingerprint(self) -> str:
        """Identity of the source's content, else a sum of row hashes that the database computes.

        Numbers of a hash are summed apart so that no engine's integers overflow. Sums find
        mistakes, not forgers: whoever tries finds other rows with the same sum.
        """
        if self.source is not None:
            return self.source.fingerprint()
        if self._identity is not None:
            return self._identity
        rows = self.connection.rows()
        near = self.near(rows.names)
        found = None if near is None else self._sums_here(near, rows)
        if near is None or found is None:
            hashed = sql.select("SELECT HASHED AS hash FROM ORIGIN", rows, HASHED=rows.hash())
            numbers = rows.dialect.hash_numbers(sql.field("hash"))
            sums = [sql.named(exp.Sum(this=one), f"sum{at}") for at, one in enumerate(numbers)]
            template = "SELECT COUNT(*) AS rows, SUMS FROM HASHED AS hashed"
            statement = sql.select(template, SUMS=sums, HASHED=rows.dialect.once(hashed))
            ((count, *found),) = self._figures(statement, of=wide_number)
        else:
            count = near.entries
        identity = rows_identity(count, found, self.schema(), self.kind)
        self._identity = identity if self.capabilities.stable else None
        return identity

    def _sums_here(self, near: Codes, rows: sql.Rows) -> list[int] | None:
        """Sums of the hashes of rows held here; of each value the database tells its hash.

        None where the database puts those of a row together in another way than is known here.
        """
        dialect, most = rows.dialect, max(map(len, near.values))
        cells, hashed, keys = {"nth": pa.array(np.arange(most))}, [], []
        for at, (column, values) in enumerate(zip(rows.columns, near.values, strict=True)):
            cells[f"k{at}"] = pa.concat_arrays([values, pa.nulls(most - len(values), values.type)])
            keys.append(dialect.comparable(sql.field(f"k{at}"), column.kind))
            hashed.append(sql.named(dialect.row_hash([keys[-1]], [column]), f"hash{at}"))
        hashed.append(sql.named(dialect.row_hash(keys, rows.columns), "whole"))
        name = temporary_name()
        once = sql.select("SELECT nth, HASHED FROM VALUES_", HASHED=hashed, VALUES_=sql.table(name))
        told = dialect.hash_numbers(sql.field("whole"))
        statement = sql.select(
            "SELECT HASHES, TOLD FROM ONCE AS hashed ORDER BY nth",
            HASHES=[sql.field(f"hash{at}") for at in range(len(keys))],
            TOLD=[sql.named(number, f"told{at}") for at, number in enumerate(told)],
            ONCE=dialect.once(once),
        )
        with self.asking("hashing rows", None, writing=True) as session:
            session.upload(name, pa.table(cells))
            found = session.execute(statement, [*map(whole_number, statement.named_selects)])
        arrays = [column.to_numpy() for column in found.columns]
        tables = [one.view(np.uint64) for one in arrays[: len(keys)]]
        if not all(map(np.array_equal, dialect.numbers_here(tables), arrays[len(keys) :])):
            return None
        sums = [0] * len(told)
        for start in range(0, near.entries, BATCH_ROWS // 2):
            some = slice(start, start + BATCH_ROWS // 2)
            pairs = zip(tables, near.arrays, strict=True)
            numbers = dialect.numbers_here(translate(codes[some], own) for own, codes in pairs)
            sums = [old + _times(one, 1) for old, one in zip(sums, numbers, strict=True)]
        return sums

    def hash_sums(
        self, columns: Sequence[str], budget: Budget | None = None
    ) -> tuple[int, ...] | None:
        """The number of rows and sums of hashes of columns; None where there are no hashes.

        Tables of one kind of engine that have the same rows, as often, have the same sums, in any
        order. They find mistakes, not forgers.
        """
        rows = self.connection.rows()
        hashed = rows.dialect.class_hash(rows.keys(columns))
        if hashed is None:
            return None
        remainders = [exp.cast(hashed % modulus, "bigint") for modulus in _MODULI]
        sums = [sql.named(exp.Sum(this=one), f"sum{at}") for at, one in enumerate(remainders)]
        statement = self._select("SELECT COUNT(*) AS rows, SUMS FROM ORIGIN", SUMS=sums)
        (found,) = self._figures(statement, budget, "comparing rows")
        return found

    def sample(self, rows: int, columns: Sequence[str] | None = None, seed: int = 0) -> pa.Table:
        """Rows at seeded positions in their order, or the first in a seeded random order."""
        names, held = names_in(self.schema(), columns), self.connection.rows()
        near = self.near(names)
        if near is not None:
            return near.drawn(rows, seed).table()
        declared = columns_named(self.schema(), names)
        if not self.capabilities.ordered:
            for below in (self._nearly_all_below(rows), None):
                statement = sql.all_rows(held, names)
                if below is not None:  # by another number than what they are sorted by
                    statement = statement.where(held.dialect.random(~seed) < below)
                statement = statement.order_by(held.dialect.random(seed)).limit(rows)
                with self.connection.session() as session:
                    session.seed(seed)
                    found = session.execute(statement, declared)
                if below is None or found.num_rows == rows:
                    return found
        total = self.row_count()
        if rows >= total:
            chosen = np.arange(total)
        else:
            chosen = np.random.default_rng(seed).choice(total, rows, replace=False, shuffle=False)
        return self.rows_at(np.sort(chosen).astype(np.int64), names)

    def rows_at(self, chosen: npt.NDArray[np.int64], names: Sequence[str]) -> pa.Table:
        """Rows at ascending positions, where rows have an order."""
        held, declared = self.connection.rows(), columns_named(self.schema(), names)
        statement = sql.select(
            "SELECT CELLS FROM NUMBERED AS numbered "
            "WHERE position IN (SELECT position FROM wanted) ORDER BY position",
            CELLS=[sql.field(f"c{held.at(name)}") for name in names],
            NUMBERED=held.numbered(names),
        )
        try:
            with self.connection.session() as session:
                session.upload("wanted", pa.table({"position": chosen}))
                return session.execute(statement, declared)
        except EngineMemoryError:
            if self.source is None:
                raise
            return _rows_at(chosen, self.source.batches(names, _FEWEST), declared)

    def _nearly_all_below(self, rows: int) -> float | None:
        """A number below which a few more than so many of as many random numbers as rows lie.

        None where that is no small share of them, or the number of rows is not known.
        """
        total = self._row_count if self.capabilities.stable else None
        share = (rows + 8 * rows**0.5 + 8) / max(total or 0, 1)
        return share if share < _FEW else None

    def batches(
        self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """All rows; in their own order where they have one."""
        if self.source is not None:
            yield from self.source.batches(columns, rows)
            return
        names = names_in(self.schema(), columns)
        statement = sql.all_rows(self.connection.rows(), names)
        declared = columns_named(self.schema(), names)
        with self.connection.session(apart=True) as session:
            yield from session.stream(statement, declared, rows, self._pieces(names))

    def _pieces(self, columns: Sequence[str]) -> int:
        """In how many pieces a cluster should send rows, as far as it is known how many they are.

        Its driver holds one after the other.
        """
        if not self.capabilities.partitioned:
            return 1
        letters = sum(self._lengths.get(name, 0) for name in columns)
        return math.ceil((self._row_count or 0) * (8 * len(columns) + letters) / _PIECE)

    @contextmanager
    def one_moment(self) -> Iterator[None]:
        """Let all answers describe one moment, as far as that is not so anyway."""
        able = self.capabilities
        moment = None if able.stable else self.connection.one_moment()
        if moment is None:
            yield
            return
        with moment:
            self.capabilities = replace(able, stable=True)
            try:
                yield
            finally:
                self.capabilities = able
                self._row_count = self._identity = self._held = None
                self._sizes.clear()
                self._values.clear()

    def count_values(
        self,
        columns: Sequence[str],
        seed: int,
        budget: Budget | None = None,
        moved: Sequence[str] = (),
    ) -> None:
        """Count the values of all columns that seem to have few, before each is asked for.

        That takes one pass where several counts cost less in one than each by itself. Columns of
        rows that are `moved` here in any case are held, and counted here, if they fit.
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
        declared = columns_named(self.schema(), moved)
        known = {column.name for column in declared if column.kind in _HELD_KINDS}
        alike = known.issuperset(moved) and known.issubset(few)
        if moved and alike and self._fit(declared, budget):
            with self.asking("reading rows", budget) as session:
                stream = session.stream(sql.all_rows(rows, moved), declared)
                with closing(stream):
                    arrays, values, number = encode_batches(stream, declared)
            self._held = Codes(tuple(moved), arrays, values, None, number)
            for name, codes, own in zip(moved, arrays, values, strict=True):
                once = np.arange(len(own), dtype=codes.dtype)
                sums = group_sums(codes, len(own))
                self._values[name] = Codes((name,), (once,), (own,), sums)
            few = [name for name in few if name not in known]
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

    def near(self, columns: Sequence[str]) -> Codes | None:
        """Some columns of all rows, where they are held here."""
        held = self._held
        if held is None or not set(columns) <= set(held.columns):
            return None
        return held.select(tuple(dict.fromkeys(columns)))

    # Tables beside this one

    def reaches(self, destination: str) -> bool:
        """Whether a release there can appear at once with those of other tables."""
        return self.connection.reaches(destination)

    def shares(self, other: Engine) -> bool:
        """Whether rows can be joined with those of another table without leaving their place."""
        return asks_sql(other) and self.connection.shares(other.connection)

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
        rows = self.connection.rows()
        cells = [*rows.own(columns), sql.named(exp.cast(rows.cell(column), "text"), name)]
        return self._view(self._select("SELECT CELLS FROM ORIGIN", CELLS=cells))

    def present(self, columns: Sequence[str], column: str) -> SQLEngine:
        """Some columns of the rows in which a cell is not null."""
        rows = self.connection.rows()
        template = "SELECT CELLS FROM ORIGIN WHERE NOT CELL IS NULL"
        return self._view(self._select(template, CELLS=rows.own(columns), CELL=rows.cell(column)))

    def _view(self, statement: sql.Node) -> SQLEngine:
        return SQLEngine(self.connection.view(statement))

    # Classes in parts

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
                if summed:
                    key, number = (sql.field(name) for name in schema.names)
                    answer = sql.select(
                        "SELECT KEY, CAST(SUM(NUMBER) AS BIGINT) FROM ANSWER AS a GROUP BY KEY",
                        KEY=key, NUMBER=number, ANSWER=answer,
                    )  # fmt: skip
                return session.execute(answer, [column_of(f.name, f.type) for f in schema])
            answers, total, sums = [], 0, [0] * len(hashes)
            with self.dealt(session, statement, [*sent, *hashes], parts) as tables:
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
    def dealt(
        self,
        session: Session,
        statement: exp.Select,
        sent: Sequence[Column],
        parts: int,
        budget: Budget | None = None,
    ) -> Iterator[Iterator[tuple[int, pa.Table]]]:
        """What a statement gives, part by part.

        It is dealt to its parts here, on disk; what comes from elsewhere in memory if all of it
        fits, else it is sorted there.
        """
        here, near = self.source is not None, parts > 1 and self._fit(sent, budget)
        asked = statement if here or near or parts == 1 else sql.sorted_by_part(statement)
        rows = BATCH_ROWS
        if here:  # of long texts fewer come at a time, as several batches are on their way
            known = {column.name for column in self.schema()}
            long = sum(self.text_bytes([c.name for c in sent if c.name in known]).values())
            rows = min(BATCH_ROWS // 4, max(_FEWEST, int(BATCH_BYTES / 4 / max(long, 1))))
        stream = session.stream(asked, [whole_number(sql.PART), *sent], rows)
        with closing(stream):
            if not here:
                yield Dealt.out(stream).tables() if near else tables_of_parts(stream)
                return
            folder = PrivateFolder()
            try:
                dealt = Dealt.out(stream, folder.path / "dealt.arrow")
                give_back()
                yield dealt.tables()
            finally:
                folder.close()
                give_back()

    def _fit(self, columns: Sequence[Column], budget: Budget | None) -> bool:
        """Whether some columns of all rows can be held here beside the parts at work."""
        if self._row_count is None or not all(column.name in self._widths for column in columns):
            return False
        kinds = {column.name: column.kind for column in self.schema()}
        row = sum(
            self._widths[column.name] if column.kind == kinds[column.name] else _AS_TEXT
            for column in columns
        )
        most = HELD_BYTES if budget is None or budget.memory is None else budget.memory // 4
        return self._row_count * row <= most

    def most_cuts(self, columns: Sequence[str]) -> int | None:
        """How many values of columns may stand beside every row that is cut at them, if not any.

        A cluster copies them with each row.
        """
        most = self.connection.most_cuts()
        if not self.capabilities.runs_work:
            return most
        long = max(self.text_bytes(columns).values(), default=0)
        return most if long == 0 else int(_BESIDE / long)

    @contextmanager
    def cutting(self, parting: Parting, budget: Budget | None) -> Iterator[tuple[Session, str]]:
        """A session that knows the values at which rows are cut, and where they are."""
        rows = self.connection.rows()
        with self.asking("parting rows", budget, writing=True) as session:
            name = temporary_name()
            if parting.cuts:
                types = {column.name: column.type for column in rows.columns}
                in_rows = rows.dialect.cuts_in_rows
                session.upload(name, (parting.listed if in_rows else parting.thresholds)(types))
            yield session, name

    def others(self, others: Others, session: Session) -> sql.Rows:
        """Rows of another table as a session's statements name them; sent if it is elsewhere."""
        engine, columns = others
        if asks_sql(engine) and self.shares(engine):
            return engine.connection.rows()
        schema = pa.schema([(column.name, column.type) for column in columns])
        batches = [batch.cast(schema) for batch in engine.batches(schema.names)]
        name = temporary_name()
        session.upload(name, pa.Table.from_batches(batches, schema))
        return sql.Rows(sql.table(name), columns, self.connection.rows().dialect)

    # Releases

    def stage(
        self,
        recoding: Recoding | Parted,
        destination: str,
        *,
        format: str | None = None,
        budget: Budget | None = None,
    ) -> Staged:
        """Write a release: as a file row by row in order, or in the database by joins."""
        return sql_release.stage(self, recoding, destination, format=format, budget=budget)

    def try_parts(self, parted: Parted, budget: Budget | None = None) -> None:
        """Make a release part by part and keep nothing of it but the reports."""
        sql_release.try_parts(self, parted, budget)


def _rows_at(
    chosen: npt.NDArray[np.int64], batches: Iterator[pa.RecordBatch], declared: Sequence[Column]
) -> pa.Table:
    """Rows at ascending positions, of texts too long for a statement to move thousands of them."""
    found, start = [pa.schema([(one.name, one.type) for one in declared]).empty_table()], 0
    for batch in batches:
        own = slice(*np.searchsorted(chosen, (start, start + batch.num_rows)))
        if own.start < own.stop:
            some = pa.Table.from_batches([batch.take(pa.array(chosen[own] - start))])
            found.append(as_declared(some, declared))
        start += batch.num_rows
    return pa.concat_tables(found)


def _row_bytes(columns: Sequence[str], long: Mapping[str, float]) -> int:
    """What the cells of some columns take until they are codes."""
    cells = (max(CELL_BYTES, TEXT_COPIES * long.get(name, 0)) for name in columns)
    return CELL_BYTES + int(sum(cells))


def _nulls(values: Codes) -> int:
    """How many rows have no value, which is the last one of a column."""
    (codes,), (known,) = values.arrays, values.values
    return int(values.row_counts[codes == len(known) - 1].sum()) if known.null_count else 0


def _times(numbers: npt.NDArray[np.int64], counts: npt.NDArray[np.int64] | int) -> int:
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


@dataclass(frozen=True)
class Answer:
    """What is done with the classes of a part, as work that leaves out no row."""

    act: Callable[[pa.Table], pa.Table]

    def __call__(self, rows: pa.Table) -> Worked:
        return Worked(self.act(rows), None, b"")
