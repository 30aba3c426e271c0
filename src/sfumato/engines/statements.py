"""The language in which databases are asked, and the longer questions.

A statement is SQL in which words in capitals stand for syntax nodes (`select`), so that nothing is
pasted into strings; `text` writes it in the dialect of its rows. Short ones stand where they are
asked (`SQLEngine`). Columns are addressed by position (``c0``, ``c1``, …), so reserved words,
quotes, dots and names that differ in case only cannot confuse any engine; the user's own names
appear only where a release is written, quoted.

Values compare as everywhere in Sfumato: null equals null, -0.0 is 0.0, NaN is one value, and text
is compared byte for byte whatever collation the database would use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Mapping as Map
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import sqlglot
import sqlglot.errors
from sqlglot import exp

from sfumato.engines.protocol import BLANKS, SPELLINGS, Column, Kind
from sfumato.errors import SourceError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from sfumato.engines.recoding import Parting


Node = exp.Expr
ORIGIN = "origin"
POSITION = "position"
PART = "part"
TUPLE = "tuple"


class Dialect:
    """How one database, by SQLGlot's name for it, writes what databases write differently."""

    counts_together = False
    """Whether the values of several columns are counted in one pass for less than one by one."""
    cuts_in_rows = False
    """Whether values of cuts are looked up once in rows, and do not stand beside every row."""

    joins_alike = False
    """Whether rows are joined by keys that may be null without comparing each with each."""

    octets = "LENGTH"
    """What tells how many bytes a cell has, or how many characters where bytes are not told."""

    def __init__(self, name: str) -> None:
        self.name = name

    def comparable(self, cell: Node, kind: Kind) -> Node:
        """A cell in the form in which equal values are equal; floats lose the sign of zero."""
        return exp.Case().when(cell.eq(0), exp.convert(0)).else_(cell) if kind == "float" else cell

    def relation(self, source: Node, names: Sequence[str]) -> Node:
        """A table or query under the alias `ORIGIN`, its columns renamed in their order."""
        aliased = source.copy()
        columns = [quoted(name) for name in names]
        aliased.set("alias", exp.TableAlias(this=quoted(ORIGIN), columns=columns))
        return aliased

    def same(self, left: Node, right: Node, kind: Kind) -> Node:
        """Equality of comparable cells in which null equals null."""
        return exp.NullSafeEQ(this=left, expression=right)

    def random(self, seed: int) -> Node:
        """A random number for each row; a session makes it repeatable where the text cannot."""
        return call("RANDOM")

    def class_hash(self, keys: Sequence[Node]) -> Node | None:
        """A number that equal keys share, not negative; None if there is none."""
        return None

    def key_hash(self, keys: Sequence[Node]) -> Node | None:
        """A number that equal keys share, and others hardly ever; None if there is none."""
        return self.class_hash(keys)

    def by_key(self, statement: exp.Select) -> exp.Select:
        """Hashes that are about to be grouped, nearly all of which differ."""
        return statement

    def length(self, cell: Node, kind: Kind) -> Node:
        """How long a text or a binary cell is."""
        return call(self.octets, exp.cast(cell, "text") if kind == "text" else cell)

    def once(self, statement: exp.Select) -> exp.Select:
        """A statement whose cells are computed once, however often another one names them."""
        return statement

    def rewritten(self, cell: Node, pattern: str, by: str) -> Node:
        """A text in which every match of a pattern is replaced; ``\\1`` is its first group."""
        return call("REGEXP_REPLACE", cell, pattern, by, "g")

    def hexadecimal(self, cell: Node) -> Node:
        """Bytes as hexadecimal digits."""
        return exp.Hex(this=cell)

    def row_hash(self, cells: Sequence[Node], columns: Sequence[Column]) -> Node:
        """What `hash_numbers` makes numbers of: the MD5 of cells as a text that no others have."""
        written = [_written(*pair, self) for pair in zip(cells, columns, strict=True)]
        return exp.MD5(this=_piped(written) if written else exp.convert(""))

    def hash_numbers(self, hashed: Node) -> list[Node]:
        """The numbers, all of the same size, that a hash consists of."""
        starts = [exp.convert(start) for start in (1, 9, 17, 25)]
        pieces = [exp.Substring(this=hashed, start=one, length=exp.convert(8)) for one in starts]
        return [self.hex_number(piece) for piece in pieces]

    def numbers_here(self, hashes: Iterable[npt.NDArray[np.uint64]]) -> list[npt.NDArray[np.int64]]:
        """The same, computed here from the hash of each cell alone, column by column."""
        raise NotImplementedError(f"{self.name} does not say how it hashes rows")

    def hex_number(self, digits: Node) -> Node:
        """Eight hexadecimal digits as a number."""
        raise NotImplementedError(f"{self.name} sums no row hashes")


@dataclass(frozen=True)
class Rows:
    """A relation whose columns are called c0, c1, … by position.

    Parameters
    ----------
    source
        A table, or a query in parentheses; its column names do not matter.
    columns
        The columns in the order of the source.
    dialect
        The language of the engine that holds it.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from sfumato.engines.statements import class_sizes, table, text
    >>> from sfumato.engines.protocol import column_of
    >>> people = Rows(table("people"), (column_of("age", pa.int64()),), Dialect("duckdb"))
    >>> text(class_sizes(people, ["age"]), people.dialect)  # doctest: +NORMALIZE_WHITESPACE
    'SELECT "size", COUNT(*) AS "classes" FROM
     (SELECT COUNT(*) AS "size" FROM "people" AS "origin"("c0") GROUP BY "origin"."c0") AS "sized"
     GROUP BY "size"'
    """

    source: Node
    columns: tuple[Column, ...]
    dialect: Dialect

    def relation(self) -> Node:
        """The source under one alias, with positional column names."""
        names = [f"c{at}" for at in range(len(self.columns))]
        return self.dialect.relation(self.source, names)

    def at(self, name: str) -> int:
        """Position of a column."""
        return next(at for at, column in enumerate(self.columns) if column.name == name)

    def kind(self, name: str) -> Kind:
        """Kind of a column's values."""
        return self.columns[self.at(name)].kind

    def stored(self, name: str) -> pa.DataType:
        """The type in which the database holds a column."""
        return self.columns[self.at(name)].type

    def cell(self, name: str) -> Node:
        """A column's cell as it is stored."""
        return field(f"c{self.at(name)}", ORIGIN)

    def key(self, name: str) -> Node:
        """A column's cell in the form in which equal values are equal in this dialect."""
        return self.dialect.comparable(self.cell(name), self.kind(name))

    def keys(self, names: Sequence[str]) -> list[Node]:
        """The comparable cells of some columns."""
        return [self.key(name) for name in names]

    def named_keys(self, names: Sequence[str]) -> list[Node]:
        """The same, under their positional names."""
        return [named(self.key(name), f"c{self.at(name)}") for name in names]

    def cells(self, names: Sequence[str]) -> list[Node]:
        """Some columns' cells as they are stored, under their positional names."""
        return [named(self.cell(name), f"c{self.at(name)}") for name in names]

    def own(self, names: Sequence[str]) -> list[Node]:
        """The same, under the names that users know."""
        return [named(self.cell(name), name) for name in names]

    def published(self, name: str) -> Node:
        """A kept cell; the sign of a zero would tell rows apart that are equal."""
        cell = self.cell(name)
        if self.kind(name) != "float":
            return cell
        return exp.Case().when(cell.eq(0), exp.Abs(this=cell)).else_(cell)

    def hash(self) -> Node:
        """What numbers that identify a row are made of (`Dialect.hash_numbers`)."""
        return self.dialect.row_hash(self.keys(self.names), self.columns)

    def nulls(self, name: str) -> Node:
        """How many cells of a column are null."""
        return count_rows() - exp.Count(this=self.cell(name))

    def numbered(self, names: Sequence[str]) -> exp.Select:
        """Some columns and the position of each row, for engines whose rows have an order.

        An empty window numbers rows in that order.
        """
        numbers = [*self.cells(names), named(row_number([], []), POSITION)]
        return select("SELECT CELLS FROM ORIGIN", self, CELLS=numbers)

    @property
    def names(self) -> tuple[str, ...]:
        """All column names."""
        return tuple(column.name for column in self.columns)


def text(statement: Node, dialect: Dialect) -> str:
    """A statement as the engine reads it."""
    return statement.sql(dialect=dialect.name, comments=False, copy=False)  # writing changes none


@lru_cache(maxsize=256)
def _parsed(template: str) -> Node:
    """A template with all names of tables and columns quoted."""
    found: Node = sqlglot.parse_one(template, read="postgres")
    for name in found.find_all(exp.Identifier):
        name.set("quoted", not isinstance(name.parent, exp.Copy))
    return found


def filled(template: str, **given: Node | Sequence[Node]) -> Node:
    """A statement whose words in capitals stand for nodes, or for several in a row.

    A query takes the place of a table that has an alias there.

    Examples
    --------
    >>> text(filled("DROP TABLE OLD", OLD=table("select")), Dialect("duckdb"))
    'DROP TABLE "select"'
    """
    statement = _parsed(template).copy()
    for node in [*statement.find_all(exp.Column, exp.Table)]:
        if node.name in given:
            what = given[node.name]
            if isinstance(what, exp.Select | exp.SetOperation) and node.alias:
                what = what.subquery(quoted(node.alias))
            node.replace(what)
    return statement


def select(template: str, rows: Rows | None = None, **given: Node | Sequence[Node]) -> exp.Select:
    """The same for a question, about the rows of which it speaks as ``ORIGIN``."""
    if rows is not None:
        given["ORIGIN"] = rows.relation()
    found = filled(template, **given)
    assert isinstance(found, exp.Select)
    return found


def table(name: str, schema: str | None = None) -> exp.Table:
    """A table by name, quoted."""
    return exp.Table(this=quoted(name), db=quoted(schema) if schema is not None else None)


def quoted(name: str) -> exp.Identifier:
    """A name that no engine folds or takes for a reserved word."""
    return exp.to_identifier(name, quoted=True)


def field(name: str, relation: str | None = None) -> exp.Column:
    """A column of a relation."""
    return exp.Column(this=quoted(name), table=None if relation is None else quoted(relation))


def named(node: Node, name: str) -> Node:
    """An output column under a name."""
    return exp.Alias(this=node, alias=quoted(name))


def call(name: str, *arguments: Node | str | int) -> Node:
    """A function that SQLGlot need not know."""
    return exp.Anonymous(this=name, expressions=[exp.convert(one, copy=True) for one in arguments])


def count_rows() -> Node:
    """How many rows a group has."""
    return exp.Count(this=exp.Star())


def row_number(partition: Sequence[Node], order: Sequence[Node]) -> Node:
    """The number of a row, from 0, within its partition."""
    ordered = exp.Order(expressions=_ascending(order)) if order else None
    return exp.Window(this=exp.RowNumber(), partition_by=list(partition), order=ordered) - 1


def _ascending(keys: Iterable[Node]) -> list[Node]:
    """What to sort by: nothing comes last, wherever the database would put it."""
    return [exp.Ordered(this=key, nulls_first=False) for key in keys]


def parsed_query(query: str, dialect: Dialect, where: str) -> Node:
    """A user's own SELECT, in parentheses."""
    try:
        found = sqlglot.parse(query, read=dialect.name)
    except sqlglot.errors.SqlglotError:
        found = []
    if len(found) != 1 or not isinstance(found[0], exp.Query):
        raise SourceError(
            "this is not a single SELECT",
            where=where,
            remedy="Give one query without semicolons, or make a view and name it.",
        )
    return found[0].subquery()


def parsed_name(name: str, dialect: Dialect, where: str) -> tuple[str, ...]:
    """A table name as (schema, table) or (table,); quotes are needed only around dots.

    Examples
    --------
    >>> parsed_name('census."people.2020"', Dialect("postgres"), "")
    ('census', 'people.2020')
    """
    try:
        found = exp.to_table(name, dialect=dialect.name)
    except sqlglot.errors.SqlglotError:
        found = exp.Table(this=quoted(name))
    parts = tuple(part.name for part in found.parts)
    if len(parts) > 2:
        raise SourceError(
            f"`{name}` has too many parts", where=where, remedy="Write schema.table or table."
        )
    return parts


def beside(
    rows: Rows, names: Sequence[str], name: str, column: str, there: Rows, key: str, value: str
) -> Node:
    """Some columns, and one more: what another table shows beside the key that a cell is.

    Null where it is no key there. Keys are compared as text.
    """
    keys, values = (exp.cast(there.cell(one), "text") for one in (key, value))
    known = select(
        "SELECT K AS key, MIN(V) AS value FROM ORIGIN WHERE NOT CELL IS NULL GROUP BY K",
        there, K=keys, V=values, CELL=there.cell(key),
    )  # fmt: skip
    return select(
        "SELECT CELLS FROM ORIGIN LEFT JOIN KNOWN AS known ON CELL = K",
        rows,
        CELLS=[*rows.own(names), named(field("value", "known"), name)],
        KNOWN=known,
        CELL=rows.dialect.comparable(exp.cast(rows.cell(column), "text"), "text"),
        K=rows.dialect.comparable(field("key", "known"), "text"),
    )


def class_sizes(
    rows: Rows,
    names: Sequence[str],
    part: int = 0,
    parts: int = 1,
    *,
    hashed: bool = False,
    letters: bool = False,
) -> exp.Select:
    """Histogram of class sizes: a group-by over a group-by.

    With several `parts`, of the classes whose hash leaves the remainder `part`. With `hashed`, of
    what has a hash in common, where there are hashes: hardly ever that are classes together. With
    `letters`, how long the values are together of the only column.
    """
    sized = select("SELECT COUNT(*) AS size FROM ORIGIN", rows)
    key = rows.dialect.key_hash(rows.keys(names)) if hashed and len(names) > 1 else None
    if key is not None:
        each = select("SELECT HASHED AS h FROM ORIGIN", rows, HASHED=key)
        sized = select("SELECT COUNT(*) AS size FROM EACH AS hashed GROUP BY h", EACH=each)
        return select(
            "SELECT size, COUNT(*) AS classes FROM SIZED AS sized GROUP BY size", SIZED=sized
        )
    if parts > 1:
        sized = sized.where(bucket(rows, names, parts).eq(part))
    sized = by_class(sized, rows, names)
    if letters:
        (name,) = names
        return select(
            "SELECT size, COUNT(*) AS classes, CAST(SUM(LETTERS) AS BIGINT) AS letters "
            "FROM SIZED AS sized GROUP BY size",
            SIZED=sized.select(named(rows.key(name), "c0")),
            LETTERS=rows.dialect.length(field("c0"), rows.kind(name)),
        )
    return select("SELECT size, COUNT(*) AS classes FROM SIZED AS sized GROUP BY size", SIZED=sized)


def by_class(found: exp.Select, rows: Rows, names: Sequence[str]) -> exp.Select:
    """One output row a class; no columns make one class, unless there are no rows."""
    return found.group_by(*rows.keys(names)) if names else found.having(count_rows() > 0)


def values_together(
    rows: Rows, names: Sequence[str], sets: Sequence[Sequence[str]], limit: int
) -> Node:
    """The combinations of several sets of columns with their counts, in one pass: which columns are
    not told, a bit each, then the columns, then the count."""
    cells = [named(key, f"k{at}") for at, key in enumerate(rows.keys(names))]
    keys = {name: field(f"k{at}") for at, name in enumerate(names)}
    return select(
        "SELECT GROUPING(KEYS), KEYS, COUNT(*) FROM CELLS AS cells GROUP BY GROUPING SETS (SETS_)",
        KEYS=list(keys.values()),
        CELLS=select("SELECT CELLS FROM ORIGIN", rows, CELLS=cells),
        SETS_=[exp.Tuple(expressions=[keys[name] for name in one]) for one in sets],
    ).limit(limit)


def all_of(statements: Sequence[exp.Select]) -> exp.Query:
    """The rows of several statements, in one."""
    found: exp.Query = statements[0]
    for one in statements[1:]:
        found = exp.Union(this=found, expression=one, distinct=False)
    return found


def person_sizes(rows: Rows, names: Sequence[str], person: str) -> exp.Select:
    """How many classes hold so many different persons, and how many persons are in those alone.

    The last figure counts one person of each class, so that it is right for classes of one.
    """
    cells = [named(key, f"k{at}") for at, key in enumerate(rows.keys(names))]
    pairs = select("SELECT KEYS, WHO AS who FROM ORIGIN", rows, KEYS=cells, WHO=rows.key(person))
    pairs = by_class(pairs, rows, [*names, person])
    held = select("SELECT COUNT(*) AS size, MIN(who) AS who FROM PAIRS AS pairs", PAIRS=pairs)
    if names:
        held = held.group_by(*(field(f"k{at}") for at in range(len(names))))
    return select(
        "SELECT size, COUNT(*) AS classes, COUNT(DISTINCT who) AS persons "
        "FROM HELD AS held GROUP BY size",
        HELD=held,
    )


def close(rows: Rows, name: str) -> Node:
    """A text in small letters and without blanks."""
    return exp.Lower(this=rows.dialect.rewritten(exp.cast(rows.cell(name), "text"), BLANKS, ""))


def pairing(
    rows: Rows, name: str, person: str, words: Iterable[str], becomes: str | None = None
) -> Node:
    """How values of a column and persons go together: two rows of figures, and no value.

    The first counts the values, the rows of the person whom each is met with most, and all rows;
    the second (``side`` is 1) likewise the persons. Missing cells are left out, as are words for
    nobody; how a text is spelled does not matter. `becomes` lists other values (``k0``, ``v0``).
    """
    dialect, text = rows.dialect, becomes is None and rows.kind(name) == "text"
    cell = rows.key(name) if becomes is None else field("v0", becomes)
    value = close(rows, name) if text else cell
    template = "SELECT VALUE_ AS v, WHO AS w FROM ORIGIN"
    found = dialect.once(select(template, rows, VALUE_=value, WHO=rows.key(person)))
    if becomes is not None:
        alike = dialect.same(rows.key(name), field("k0", becomes), rows.kind(name))
        found = found.join(table(becomes), on=alike)
    if text:
        spelled: Node = field("v")
        for pattern, by in SPELLINGS:
            spelled = dialect.rewritten(spelled, pattern, by)
        template = "SELECT SPELLED AS v, w FROM CLOSE_ AS close WHERE NOT NOBODY"
        nobody = field("v").isin(*words)
        found = dialect.once(select(template, SPELLED=spelled, CLOSE_=found, NOBODY=nobody))
    v, w = (dialect.class_hash([field(n)]) or field(n) for n in ("v", "w"))
    return select(
        """
        SELECT side, COUNT(*), CAST(SUM(most) AS BIGINT), CAST(SUM(held) AS BIGINT) FROM (
            SELECT GROUPING(v) AS side, MAX(n) AS most, SUM(n) AS held FROM (
                SELECT v, w, COUNT(*) AS n FROM (
                    SELECT V AS v, W AS w FROM FOUND AS spelled
                    WHERE NOT v IS NULL AND NOT w IS NULL
                ) AS plain GROUP BY v, w
            ) AS pairs GROUP BY GROUPING SETS ((v), (w))
        ) AS tops GROUP BY side
        """,
        V=v, W=w, FOUND=found,
    )  # fmt: skip


def bucket(rows: Rows, names: Sequence[str], parts: int) -> Node:
    """One of so many numbers, the same for rows that agree on some columns."""
    return _remainder(rows.dialect.class_hash(rows.keys(names)) if names else None, parts)


def _remainder(hashed: Node | None, parts: int) -> Node:
    return exp.convert(0) if parts < 2 or hashed is None else exp.cast(hashed % parts, "int")


def part_of(rows: Rows, parting: Parting, thresholds: str) -> Node:
    """The part of a row, given the relation that holds the values of all cuts."""

    def leads_to(at: int) -> Node:
        if at < 0:
            return exp.convert(-1 - at)
        cut = parting.cuts[at]
        key = rows.key(cut.column)
        goes: exp.Condition
        if rows.dialect.cuts_in_rows:
            held = filled(
                "SELECT VALUE_ FROM CUTS WHERE CUT = AT",
                VALUE_=field(f"v{columns.index(cut.column)}"),
                CUTS=table(thresholds), CUT=field("cut"), AT=exp.convert(at),
            )  # fmt: skip
            goes = key.isin(query=held) if cut.among else key < exp.Subquery(this=held)
        else:
            values = [field(f"t{at}_{nth}", thresholds) for nth in range(len(cut.values))]
            goes = key.isin(*values) if cut.among else key < values[0]
        if cut.among and cut.values.null_count:  # which nothing equals in SQL
            goes = exp.or_(key.copy().is_(exp.null()), goes)
        then, otherwise = leads_to(cut.yes), leads_to(cut.no)
        return exp.Case().when(goes, then, copy=False).else_(otherwise, copy=False)

    columns = parting.columns
    return exp.cast(leads_to(0) if parting.cuts else exp.convert(0), "int")


def _beside_cuts(found: exp.Select, rows: Rows, parting: Parting, thresholds: str) -> exp.Select:
    """Rows with the values of all cuts, unless these are looked up."""
    if not parting.cuts or rows.dialect.cuts_in_rows:
        return found
    return found.join(table(thresholds), join_type="cross")


def in_parts(
    rows: Rows,
    names: Sequence[str],
    parting: Parting,
    thresholds: str,
    *,
    numbered: bool = False,
    text: Sequence[str] = (),
) -> exp.Select:
    """All rows with the number of their part in front.

    With `numbered` the position of each row comes next; columns in `text` travel as text.
    """
    needed = [name for name in rows.names if name in names or name in parting.columns]
    cells: list[Node] = [field(POSITION, ORIGIN)] if numbered else []
    for name in names:
        cell = rows.published(name)
        cells.append(named(exp.cast(cell, "text") if name in text else cell, f"c{rows.at(name)}"))
    found = select(
        "SELECT PART AS part, CELLS FROM SOURCE AS origin",
        PART=part_of(rows, parting, thresholds),
        CELLS=cells,
        SOURCE=rows.numbered(needed) if numbered else rows.relation(),
    )
    return _beside_cuts(found, rows, parting, thresholds)


def part_counts(
    rows: Rows,
    names: Sequence[str],
    parting: Parting,
    thresholds: str,
    person: str | None = None,
) -> Node:
    """How many rows each part has, or persons, for each combination of some columns."""
    part, keys = part_of(rows, parting, thresholds), rows.keys(names)
    cells = [named(part, PART), *rows.named_keys(names)]
    if person is not None:
        keys.append(rows.key(person))
    cells.append(named(count_rows(), "count") if person is None else named(keys[-1], "who"))
    found = select("SELECT CELLS FROM ORIGIN", rows, CELLS=cells)
    if parting.cuts or keys:
        found = found.group_by(part, *keys)
    found = _beside_cuts(found, rows, parting, thresholds)
    return found if person is None else _times(found, [PART, *(f"c{rows.at(n)}" for n in names)])


def holders(rows: Rows, name: str, person: str, wanted: str | None = None) -> Node:
    """How many persons hold each value of a column, or each that a relation lists as `k0`."""
    key, cells = rows.key(name), rows.named_keys([name])
    template = "SELECT KEY, WHO AS who FROM ORIGIN GROUP BY VALUE_, WHO"
    pairs = select(template, rows, KEY=cells, VALUE_=key, WHO=rows.key(person))
    if wanted is not None:
        alike = rows.dialect.same(key, field("k0", wanted), rows.kind(name))
        pairs = pairs.join(table(wanted), on=alike)
    return _times(pairs, [f"c{rows.at(name)}"])


def _times(pairs: exp.Select, by: Sequence[str]) -> Node:
    """How many different pairs there are for each combination of some of their columns."""
    template = "SELECT BY_, COUNT(*) AS count FROM PAIRS AS pairs GROUP BY BY_"
    return select(template, BY_=[field(name) for name in by], PAIRS=pairs)


def classes_in_parts(
    rows: Rows,
    names: Sequence[str],
    by: Sequence[str],
    parts: int,
    *,
    grouped: bool = True,
    hashed: bool = False,
) -> exp.Select:
    """The classes of some columns with their counts, those that agree on `by` in one part.

    Not `grouped`, every row comes as a class of one. Of all columns, they come on request with the
    numbers that the hash of each of their rows consists of.
    """
    count = count_rows() if grouped else exp.convert(1)
    alike = hashed and set(by) == set(names)  # then one hash says the part, too
    found = select(
        "SELECT PART AS part, KEYS, COUNT_ AS count FROM ORIGIN",
        rows,
        PART=bucket(rows, by, 1 if alike else parts),
        KEYS=rows.named_keys(names),
        COUNT_=count,
    )
    if grouped:
        found = found.group_by(*rows.keys(names))
    if not hashed:
        return found
    cells, dialect = [field(f"c{rows.at(name)}") for name in names], rows.dialect
    whole = [field(f"c{at}") for at in range(len(rows.columns))]
    once = select(
        "SELECT part, CELLS, count, HASHED AS hash FROM CLASSES AS classes",
        CELLS=cells,
        HASHED=dialect.row_hash(whole, rows.columns),
        CLASSES=found,
    )
    numbers = [named(n, f"hash{at}") for at, n in enumerate(dialect.hash_numbers(field("hash")))]
    return select(
        "SELECT PART AS part, CELLS, count, NUMBERS FROM ONCE AS hashed",
        PART=_remainder(dialect.class_hash([field("hash")]), parts) if alike else field(PART),
        CELLS=cells,
        NUMBERS=numbers,
        ONCE=dialect.once(once),
    )


def sorted_by_part(statement: exp.Select) -> Node:
    """The same, the rows of a part one after the other."""
    return statement.order_by(field(PART))


def nothing_of(
    rows: Rows | None, names: Sequence[str], types: Map[str, str], dialect: Dialect
) -> Node:
    """No rows of some columns, in the types the database has unless others are named."""

    def cell(name: str) -> Node:
        if rows is not None and name not in types:
            return rows.cell(name)
        return exp.cast(exp.null(), exp.DataType.build(types[name], dialect=dialect.name))

    cells = [named(cell(name), name) for name in names]
    source = "" if rows is None else " FROM ORIGIN"
    return select(f"SELECT CELLS{source} WHERE FALSE", rows, CELLS=cells)


def collisions(rows: Rows, chosen: Sequence[str], names: Sequence[str], limit: int) -> exp.Select:
    """Classes of a column set whose rows differ elsewhere, the smallest first.

    Of each class it comes, for each of `names`, whether its rows differ.
    """
    shown = [field(f"d{nth}") for nth in range(len(names))]
    flags = [
        named(exp.false() if n in chosen else _varies(rows, n), f"d{nth}")
        for nth, n in enumerate(names)
    ]
    template = "SELECT FLAGS, COUNT(*) AS size FROM ORIGIN HAVING COUNT(*) > 1"
    inside = select(template, rows, FLAGS=flags)
    if chosen and rows.dialect.joins_alike:
        inside = _of_several_rows(inside, rows, chosen)
    return select(
        "SELECT SHOWN FROM CLASSES AS classes WHERE DIFFER ORDER BY size",
        SHOWN=shown,
        CLASSES=inside.group_by(*rows.keys(chosen)) if chosen else inside,
        DIFFER=exp.or_(*shown),
    ).limit(limit)


def rows_of_a_part(
    rows: Rows, by: Sequence[str], parts: int, names: Sequence[str], seed: int
) -> exp.Select:
    """Rows whose hash of some columns leaves no remainder, in random order."""
    found = select("SELECT CELLS FROM ORIGIN", rows, CELLS=rows.cells(names))
    found = found.where((exp.paren(_key_hash(rows, by)) % parts).eq(0))
    return found.order_by(rows.dialect.random(seed))


def rows_alike(rows: Rows, by: Sequence[str], names: Sequence[str], limit: int) -> exp.Select:
    """Rows that share a hash of some columns; where as many as the limit come, there may be more.

    Hashes that fewest rows share come first. Each has two rows, so that half as many are enough.
    """
    key = _key_hash(rows, by)
    several = select(
        "SELECT h, COUNT(*) AS size FROM EACH AS hashed GROUP BY h HAVING COUNT(*) > 1 "
        "ORDER BY size",
        EACH=rows.dialect.by_key(select("SELECT HASHED AS h FROM ORIGIN", rows, HASHED=key)),
    ).limit(-(-limit // 2))
    shared = select("SELECT h FROM SEVERAL AS several", SEVERAL=several)
    found = select("SELECT CELLS FROM ORIGIN", rows, CELLS=rows.cells(names))
    return found.where(exp.In(this=key, query=shared.subquery())).limit(limit)


def _key_hash(rows: Rows, names: Sequence[str]) -> Node:
    hashed = rows.dialect.key_hash(rows.keys(names))
    assert hashed is not None
    return hashed


def _of_several_rows(found: exp.Select, rows: Rows, names: Sequence[str]) -> exp.Select:
    """The same of rows whose class has others: these are found first, among few columns."""
    keys = [named(rows.key(name), f"k{nth}") for nth, name in enumerate(names)]
    several = select("SELECT KEYS FROM ORIGIN HAVING COUNT(*) > 1", rows, KEYS=keys)
    several = several.group_by(*rows.keys(names))
    same = [
        rows.dialect.same(rows.key(name), field(f"k{nth}", "several"), rows.kind(name))
        for nth, name in enumerate(names)
    ]
    return found.join(several.subquery(quoted("several")), on=exp.and_(*same))


def _varies(rows: Rows, name: str) -> Node:
    """Whether the cells of a class differ in a column; some being null is a difference, too."""
    cell, key = rows.cell(name), rows.key(name)
    if rows.kind(name) == "boolean":
        key = exp.cast(key, "int")
    elif rows.kind(name) == "binary":
        key = rows.dialect.hexadecimal(key)
    filled = exp.Count(this=cell)
    mixed = exp.and_(filled > 0, filled < count_rows())
    apart = exp.Min(this=key).neq(exp.Max(this=key))
    # Nothing is known of nulls alone, which are equal.
    return exp.Coalesce(this=exp.paren(exp.or_(apart, mixed)), expressions=[exp.false()])


def all_rows(rows: Rows, names: Sequence[str], sort: Sequence[str] = ()) -> exp.Select:
    """Some columns of all rows, sorted by some columns; in their own order without any."""
    found = select("SELECT CELLS FROM ORIGIN", rows, CELLS=rows.cells(names))
    return found.order_by(*_ascending(rows.keys(sort))) if sort else found


def _written(key: Node, column: Column, dialect: Dialect) -> Node:
    """A cell as text with its length, or a mark for null; no two rows concatenate alike."""
    plain = dialect.hexadecimal(key) if column.kind == "binary" else exp.cast(key, "text")
    length = exp.cast(exp.Length(this=plain), "text")
    told = _piped([length, exp.convert(":"), plain])
    return exp.Coalesce(this=told, expressions=[exp.convert("-")])


def _piped(parts: Sequence[Node]) -> Node:
    """Concatenation as a balanced tree: hundreds of columns must not nest hundreds deep."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return exp.DPipe(this=_piped(parts[:half]), expression=_piped(parts[half:]), safe=False)


@dataclass(frozen=True)
class Mapping:
    """An uploaded step of a recoding: keys ``k0``, …; ``first``, ``last``; ``keep``; ``v0``, …."""

    relation: str
    columns: tuple[str, ...]
    """Those that its keys are compared with."""
    cells: tuple[str, ...]
    """Those that its cells are written to."""
    ranged: bool
    """Whether entries speak of ordinal ranges."""


def matched(rows: Rows, mappings: Sequence[Mapping], ranged: Sequence[int] = ()) -> Node:
    """For each row, in order, the number of the tuple it matches in each mapping, or null.

    Then, for some of the mappings, its number among rows of equal keys, by the cells of all
    columns; rows that are equal in all of them are numbered in their order.
    """
    needed = [name for name in rows.names if any(name in m.columns for m in mappings)]
    origin = rows.numbered(rows.names if ranged else needed)
    position = field(POSITION, ORIGIN)
    if ranged:
        every = [*rows.keys(rows.names), position]
        ordinals = [
            named(row_number(rows.keys(mappings[at].columns), every), f"ordinal{at}")
            for at in ranged
        ]
        cells = [*rows.cells(needed), position, *ordinals]
        origin = select("SELECT CELLS FROM NUMBERED AS origin", CELLS=cells, NUMBERED=origin)
    tuples = [named(field(TUPLE, m.relation), f"t{at}") for at, m in enumerate(mappings)]
    tuples += [field(f"ordinal{at}", ORIGIN) for at in ranged]
    return _joined(tuples, origin, rows, mappings).order_by(position)


def entries(rows: Rows, mappings: Sequence[Mapping]) -> Node:
    """How many rows come out of the joins of a recoding, and how many met an entry of each step.

    All figures equal the row count exactly when every row matches one entry of every step.
    """
    met = [count_rows(), *(exp.Count(this=field("keep", m.relation)) for m in mappings)]
    figures = [named(one, f"met{at}") for at, one in enumerate(met)]
    return _joined(figures, _with_ordinals(rows, mappings, ()), rows, mappings)


def recoded(
    rows: Rows,
    mappings: Sequence[Mapping],
    drop: Sequence[str],
    sort: Map[str, Kind] | None = None,
) -> Node:
    """The rows of a release under their own names: one window and one join a step.

    Given its columns with their kinds, sorted by these.
    """
    written = {
        name: field(f"v{at}", mapping.relation)
        for mapping in mappings
        for at, name in enumerate(mapping.cells)
    }
    kept = [name for name in rows.names if name not in drop and name not in written]
    outputs = [name for name in dict.fromkeys([*rows.names, *written]) if name not in drop]
    cells = [named(written[n] if n in written else rows.published(n), n) for n in outputs]
    found = _joined(cells, _with_ordinals(rows, mappings, kept), rows, mappings)
    for mapping in mappings:
        found = found.where(field("keep", mapping.relation))
    if sort is None:
        return found
    shown = ((written[n] if n in written else rows.cell(n), kind) for n, kind in sort.items())
    return found.order_by(*_ascending(rows.dialect.comparable(*pair) for pair in shown))


def _with_ordinals(rows: Rows, mappings: Sequence[Mapping], kept: Sequence[str]) -> exp.Select:
    """The rows with their number among rows of equal keys, for each step that has ranges.

    The order is that of all columns: rows that tie are equal in every cell, so whichever comes
    first, the release is the same.
    """
    needed = [
        name for name in rows.names if name in kept or any(name in m.columns for m in mappings)
    ]
    ordinals = [
        named(row_number(rows.keys(mapping.columns), rows.keys(rows.names)), f"ordinal{at}")
        for at, mapping in enumerate(mappings)
        if mapping.ranged
    ]
    cells = [*rows.cells(needed), *ordinals] or [named(exp.convert(1), "one")]
    return select("SELECT CELLS FROM ORIGIN", rows, CELLS=cells)


def _joined(
    cells: Sequence[Node], origin: Node, rows: Rows, mappings: Sequence[Mapping]
) -> exp.Select:
    """Cells of rows to which every mapping is joined where its keys and ordinals fit."""
    found = select("SELECT CELLS FROM SOURCE AS origin", CELLS=cells, SOURCE=origin)
    for at, mapping in enumerate(mappings):
        conditions = [
            rows.dialect.same(rows.key(name), field(f"k{nth}", mapping.relation), rows.kind(name))
            for nth, name in enumerate(mapping.columns)
        ]
        if mapping.ranged:
            ordinal = field(f"ordinal{at}", ORIGIN)
            conditions += [
                ordinal >= field("first", mapping.relation),
                ordinal < field("last", mapping.relation),
            ]
        fits = exp.and_(*conditions) if conditions else exp.true()
        found = found.join(table(mapping.relation), on=fits, join_type="left")
    return found
