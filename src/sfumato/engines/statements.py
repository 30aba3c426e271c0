"""Every statement Sfumato sends to a database, built from syntax nodes.

One function a question; each returns an expression that `text` writes in the dialect of its rows.
Nothing is pasted into strings. Columns are addressed by position (``c0``, ``c1``, …), so reserved
words, quotes, dots and names that differ in case only cannot confuse any engine; the user's own
names appear only where a release is written, quoted.

Values compare as everywhere in Sfumato: null equals null, -0.0 is 0.0, NaN is one value, and text
is compared byte for byte whatever collation the database would use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Mapping as Map
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlglot
import sqlglot.errors
from sqlglot import exp

from sfumato.engines.protocol import BLANKS, SPELLINGS, Column, Kind
from sfumato.errors import SourceError

if TYPE_CHECKING:
    from sfumato.engines.recoding import Parting

__all__ = [
    "ORIGIN", "PART", "POSITION", "TUPLE", "Dialect", "Mapping", "Node", "Rows", "about",
    "all_rows", "at_positions", "at_random", "beside", "bucket", "class_sizes", "classes",
    "classes_in_parts", "collisions", "count_rows", "counted", "different", "differing", "dropped",
    "entries",
    "field", "fingerprint", "in_parts", "matched", "named", "new_table", "no_rows",
    "nothing_of", "null_counts", "parsed_name", "parsed_query", "part_counts", "piece", "present",
    "quoted", "recoded", "renamed", "row_count", "row_number", "several_class_sizes",
    "sorted_by_part",
    "table", "table_of", "text", "with_text",
]  # fmt: skip

Node = exp.Expression


class Dialect:
    """How one database, by SQLGlot's name for it, writes what databases write differently."""

    def __init__(self, name: str) -> None:
        self.name = name

    def comparable(self, cell: Node, kind: Kind) -> Node:
        """A cell in the form in which equal values are equal; floats lose the sign of zero."""
        if kind != "float":
            return cell
        zero = exp.Literal.number(0)
        return exp.Case().when(exp.EQ(this=cell, expression=zero), zero.copy()).else_(cell.copy())

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
        return exp.Anonymous(this="RANDOM")

    def class_hash(self, keys: Sequence[Node]) -> Node | None:
        """A number that equal keys share, not negative; None if there is none."""
        return None

    def length(self, cell: Node) -> Node:
        """How many bytes a text has, or characters where bytes are not told."""
        return exp.Length(this=cell)

    counts_together = False
    """Whether the values of several columns are counted in one pass for less than one by one."""

    def once(self, statement: exp.Select) -> exp.Select:
        """A statement whose cells are computed once, however often another one names them."""
        return statement

    def rewritten(self, cell: Node, pattern: str, by: str) -> Node:
        """A text in which every match of a pattern is replaced; ``\\1`` is its first group."""
        words = [exp.Literal.string(word) for word in (pattern, by, "g")]
        return exp.Anonymous(this="REGEXP_REPLACE", expressions=[cell, *words])

    def hexadecimal(self, cell: Node) -> Node:
        """Bytes as hexadecimal digits."""
        return exp.Hex(this=cell)

    def row_hash(self, cells: Sequence[Node], columns: Sequence[Column]) -> Node:
        """What `hash_numbers` makes numbers of: the MD5 of cells as a text that no others have."""
        written = [_written(*pair, self) for pair in zip(cells, columns, strict=True)]
        return exp.MD5(this=_piped(written) if written else exp.Literal.string(""))

    def hash_numbers(self, hashed: Node) -> list[Node]:
        """The numbers, all of the same size, that a hash consists of."""
        return [self.hex_number(piece(hashed.copy(), start, 8)) for start in (1, 9, 17, 25)]

    def hex_number(self, digits: Node) -> Node:
        """Eight hexadecimal digits as a number."""
        raise NotImplementedError(f"{self.name} sums no row hashes")


def text(statement: Node, dialect: Dialect) -> str:
    """A statement as the engine reads it."""
    return statement.sql(dialect=dialect.name, comments=False, copy=False)  # writing changes none


def table(name: str, schema: str | None = None) -> exp.Table:
    """A table by name, quoted."""
    return exp.Table(this=quoted(name), db=quoted(schema) if schema is not None else None)


def quoted(name: str) -> exp.Identifier:
    """A name that no engine folds or takes for a reserved word."""
    return exp.to_identifier(name, quoted=True)


def piece(cell: Node, start: int, length: int) -> Node:
    """Some of the letters or bits of a cell; the first one has the number 1."""
    return exp.Substring(
        this=cell, start=exp.Literal.number(start), length=exp.Literal.number(length)
    )


def field(name: str, relation: str | None = None) -> exp.Column:
    """A column of a relation."""
    return exp.Column(this=quoted(name), table=None if relation is None else quoted(relation))


def named(node: Node, name: str) -> Node:
    """An output column under a name."""
    return exp.Alias(this=node, alias=quoted(name))


def count_rows() -> Node:
    """How many rows a group has."""
    return exp.Count(this=exp.Star())


def row_number(partition: Sequence[Node], order: Sequence[Node]) -> Node:
    """The number of a row, from 0, within its partition."""
    ordered = [exp.Ordered(this=node, nulls_first=False) for node in order]
    window = exp.Window(
        this=exp.RowNumber(),
        partition_by=list(partition),
        order=exp.Order(expressions=ordered) if ordered else None,
    )
    return exp.Sub(this=window, expression=exp.Literal.number(1))


ORIGIN = "origin"
POSITION = "position"


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

    def cell(self, name: str) -> Node:
        """A column's cell as it is stored."""
        return field(f"c{self.at(name)}", ORIGIN)

    def key(self, name: str) -> Node:
        """A column's cell in the form in which equal values are equal in this dialect."""
        return self.dialect.comparable(self.cell(name), self.kind(name))

    def keys(self, names: Sequence[str]) -> list[Node]:
        """The comparable cells of some columns."""
        return [self.key(name) for name in names]

    def cells(self, names: Sequence[str]) -> list[Node]:
        """Some columns' cells as they are stored, under their positional names."""
        return [named(self.cell(name), f"c{self.at(name)}") for name in names]

    def numbered(self, names: Sequence[str]) -> exp.Select:
        """Some columns and the position of each row, for engines whose rows have an order.

        An empty window numbers rows in that order.
        """
        position = named(row_number([], []), POSITION)
        return exp.select(*self.cells(names), position).from_(self.relation())

    @property
    def names(self) -> tuple[str, ...]:
        """All column names."""
        return tuple(column.name for column in self.columns)


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


def row_count(rows: Rows) -> Node:
    """Number of rows."""
    return exp.select(named(count_rows(), "rows")).from_(rows.relation())


def null_counts(rows: Rows, names: Sequence[str]) -> Node:
    """How many cells of each column are null, in one pass."""
    counts = [
        named(exp.Sub(this=count_rows(), expression=exp.Count(this=rows.cell(name))), f"n{at}")
        for at, name in enumerate(names)
    ]
    return exp.select(*counts).from_(rows.relation())


def text_bytes(rows: Rows, names: Sequence[str]) -> Node:
    """How long all cells of each text column are together, in one pass."""
    texts = (exp.cast(rows.cell(name), "text") for name in names)
    sums = [
        named(exp.cast(exp.Sum(this=rows.dialect.length(text)), "bigint"), f"n{at}")
        for at, text in enumerate(texts)
    ]
    return exp.select(*sums).from_(rows.relation())


def beside(
    rows: Rows, names: Sequence[str], name: str, column: str, there: Rows, key: str, value: str
) -> Node:
    """Some columns, and one more: what another table shows beside the key that a cell is.

    Null where it is no key there. Keys are compared as text.
    """
    keys, values = (exp.cast(there.cell(one), "text") for one in (key, value))
    known = (
        exp.select(named(keys, "key"), named(exp.Min(this=values), "value"))
        .from_(there.relation())
        .where(exp.Not(this=there.cell(key).is_(exp.null())))
        .group_by(keys.copy())
    )
    cell = rows.dialect.comparable(exp.cast(rows.cell(column), "text"), "text")
    same = exp.EQ(this=cell, expression=rows.dialect.comparable(field("key", "known"), "text"))
    return (
        exp.select(*(named(rows.cell(one), one) for one in names))
        .select(named(field("value", "known"), name))
        .from_(rows.relation())
        .join(known.subquery(quoted("known")), on=same, join_type="left")
    )


def with_text(rows: Rows, names: Sequence[str], name: str, column: str) -> Node:
    """Some columns, and one more: the cells of one of them as text."""
    cells = [named(rows.cell(one), one) for one in names]
    cells.append(named(exp.cast(rows.cell(column), "text"), name))
    return exp.select(*cells).from_(rows.relation())


def present(rows: Rows, names: Sequence[str], column: str) -> Node:
    """Some columns of the rows in which a cell is not null."""
    cells = [named(rows.cell(one), one) for one in names]
    some = exp.Not(this=rows.cell(column).is_(exp.null()))
    return exp.select(*cells).from_(rows.relation()).where(some)


def differing(rows: Rows, one: str, other: str) -> Node:
    """How many rows differ in two columns, neither of them being null."""
    differ = exp.NEQ(this=rows.key(one), expression=rows.key(other))
    return exp.select(named(count_rows(), "rows")).from_(rows.relation()).where(differ)


def ends(rows: Rows, name: str) -> Node:
    """The smallest and the largest value of a column, and how many cells are null."""
    nulls = exp.Sub(this=count_rows(), expression=exp.Count(this=rows.cell(name)))
    figures = (exp.Min(this=rows.key(name)), exp.Max(this=rows.key(name)), nulls)
    return exp.select(*figures).from_(rows.relation())


def class_sizes(rows: Rows, names: Sequence[str], part: int = 0, parts: int = 1) -> Node:
    """Histogram of class sizes: a group-by over a group-by.

    With several `parts`, of the classes whose hash leaves the remainder `part`.
    """
    sized = exp.select(named(count_rows(), "size")).from_(rows.relation())
    if parts > 1:
        remainder = bucket(rows, names, parts)
        sized = sized.where(exp.EQ(this=remainder, expression=exp.Literal.number(part)))
    return (
        exp.select(field("size"), named(count_rows(), "classes"))
        .from_(_by_class(sized, rows, names).subquery(quoted("sized")))
        .group_by(field("size"))
    )


def values_together(
    rows: Rows, names: Sequence[str], sets: Sequence[Sequence[str]], limit: int
) -> Node:
    """The combinations of several sets of columns with their counts, in one pass: which columns are
    not told, a bit each, then the columns, then the count."""
    cells = [named(key, f"k{at}") for at, key in enumerate(rows.keys(names))]
    keys = {name: field(f"k{at}") for at, name in enumerate(names)}
    chosen = [exp.Tuple(expressions=[keys[name].copy() for name in one]) for one in sets]
    told = exp.Anonymous(this="GROUPING", expressions=list(keys.values()))
    found = exp.select(told, *(key.copy() for key in keys.values()), count_rows())
    found = found.from_(exp.select(*cells).from_(rows.relation()).subquery(quoted("cells")))
    found.set("group", exp.Group(grouping_sets=[exp.GroupingSets(expressions=chosen)]))
    return found.limit(limit)


def several_class_sizes(rows: Rows, sets: Sequence[Sequence[str]]) -> Node:
    """Histograms of the class sizes of several column sets; the number of the set comes first."""
    asked = [
        exp.select(named(exp.Literal.number(at), "nth"), field("size"), field("classes")).from_(
            class_sizes(rows, names).subquery(quoted(f"set{at}"))  # type: ignore[attr-defined]
        )
        for at, names in enumerate(sets)
    ]
    return _all_of(asked)


def _all_of(statements: Sequence[exp.Select]) -> Node:
    """The rows of several statements, in one."""
    whole: Node = statements[0]
    for one in statements[1:]:
        whole = exp.Union(this=whole, expression=one, distinct=False)
    return whole


def person_sizes(rows: Rows, names: Sequence[str], person: str) -> Node:
    """How many classes hold so many different persons, and how many persons are in those alone.

    The last figure counts one person of each class, so that it is right for classes of one.
    """
    cells = [named(key, f"k{at}") for at, key in enumerate(rows.keys(names))]
    pairs = exp.select(*cells, named(rows.key(person), "who")).from_(rows.relation())
    pairs = _by_class(pairs, rows, [*names, person])
    held = exp.select(named(count_rows(), "size"), named(exp.Min(this=field("who")), "who"))
    held = held.from_(pairs.subquery(quoted("pairs")))
    if names:
        held = held.group_by(*(field(f"k{at}") for at in range(len(names))))
    people = exp.Count(this=exp.Distinct(expressions=[field("who")]))
    return (
        exp.select(field("size"), named(count_rows(), "classes"), named(people, "persons"))
        .from_(held.subquery(quoted("held")))
        .group_by(field("size"))
    )


def different(rows: Rows, name: str) -> Node:
    """The different values of a column, null left out."""
    found = exp.select(named(rows.key(name), "c0")).distinct().from_(rows.relation())
    return found.where(exp.Not(this=rows.cell(name).is_(exp.null())))


def _close(rows: Rows, name: str) -> Node:
    """A text in small letters and without blanks."""
    return exp.Lower(this=rows.dialect.rewritten(exp.cast(rows.cell(name), "text"), BLANKS, ""))


def rows_of_words(rows: Rows, name: str, words: Iterable[str], limit: int) -> Node:
    """Cells that are one of some words, but for case and blanks, with their rows."""
    found = exp.select(named(rows.key(name), "c0"), named(count_rows(), "count"))
    found = found.from_(rows.relation()).where(_close(rows, name).isin(*words))
    return found.group_by(rows.key(name)).limit(limit)


def pairing(
    rows: Rows, name: str, person: str, words: Iterable[str], becomes: str | None = None
) -> Node:
    """How values of a column and persons go together: two rows of figures, and no value.

    The first (``by`` is 0) counts the values, the rows of the person whom each is met with most,
    and all rows; the second likewise the persons. Missing cells are left out, as are words for
    nobody; how a text is spelled does not matter. `becomes` lists other values (``k0``, ``v0``).
    """
    text = becomes is None and rows.kind(name) == "text"
    cell = rows.key(name) if becomes is None else field("v0", becomes)
    cells = [named(_close(rows, name) if text else cell, "v"), named(rows.key(person), "w")]
    found = rows.dialect.once(exp.select(*cells).from_(rows.relation()))
    if becomes is not None:
        alike = rows.dialect.same(rows.key(name), field("k0", becomes), rows.kind(name))
        found = found.join(table(becomes), on=alike)
    if text:
        spelled: Node = field("v")
        for pattern, by in SPELLINGS:
            spelled = rows.dialect.rewritten(spelled, pattern, by)
        known = exp.Not(this=field("v").isin(*words))
        plain = exp.select(named(spelled, "v"), field("w")).from_(found.subquery(quoted("close")))
        found = rows.dialect.once(plain.where(known))
    keys = [named(rows.dialect.class_hash([field(n)]) or field(n), n) for n in ("v", "w")]
    there = [exp.Not(this=field(name).is_(exp.null())) for name in ("v", "w")]
    plain = exp.select(*keys).from_(found.subquery(quoted("spelled"))).where(*there)
    value, who = field("v"), field("w")
    pairs = (
        exp.select(value, who, named(count_rows(), "n"))
        .from_(plain.subquery(quoted("plain")))
        .group_by(value, who)
    )
    sets = exp.GroupingSets(expressions=[exp.paren(value.copy()), exp.paren(who.copy())])
    grouping = named(exp.Anonymous(this="GROUPING", expressions=[value.copy()]), "by")
    most, held = (named(fn(this=field("n")), fn.__name__) for fn in (exp.Max, exp.Sum))
    tops = exp.select(grouping, most, held).from_(pairs.subquery(quoted("pairs"))).group_by(sets)
    figures = [exp.cast(exp.Sum(this=field(of)), "bigint") for of in ("Max", "Sum")]
    return (
        exp.select(field("by"), count_rows(), *figures)
        .from_(tops.subquery(quoted("tops")))
        .group_by(field("by"))
    )


def classes(rows: Rows, names: Sequence[str], limit: int | None = None) -> Node:
    """The classes of a column set with their counts; one more than `limit` shows that it broke."""
    cells = [
        named(key, f"c{rows.at(name)}") for name, key in zip(names, rows.keys(names), strict=True)
    ]
    found = exp.select(*cells, named(count_rows(), "count")).from_(rows.relation())
    found = _by_class(found, rows, names)
    return found if limit is None else found.limit(limit + 1)


PART = "part"


def bucket(rows: Rows, names: Sequence[str], parts: int) -> Node:
    """One of so many numbers, the same for rows that agree on some columns."""
    hashed = rows.dialect.class_hash(rows.keys(names))
    if parts < 2 or not names or hashed is None:
        return exp.Literal.number(0)
    return exp.cast(
        exp.paren(exp.Mod(this=exp.paren(hashed), expression=exp.Literal.number(parts))), "int"
    )


def part_of(rows: Rows, parting: Parting, thresholds: str) -> Node:
    """The part of a row, given the relation that holds the values of all cuts."""

    def leads_to(at: int) -> Node:
        if at < 0:
            return exp.Literal.number(-1 - at)
        cut = parting.cuts[at]
        values = [field(f"t{at}_{nth}", thresholds) for nth in range(len(cut.values))]
        key = rows.key(cut.column)
        goes = key.isin(*values) if cut.among else exp.LT(this=key, expression=values[0])
        return exp.Case().when(goes, leads_to(cut.yes)).else_(leads_to(cut.no))

    return leads_to(0) if parting.cuts else exp.Literal.number(0)


def in_parts(
    rows: Rows,
    names: Sequence[str],
    parting: Parting,
    thresholds: str,
    *,
    numbered: bool = False,
    text: Sequence[str] = (),
) -> Node:
    """All rows with the number of their part in front.

    With `numbered` the position of each row comes next; columns in `text` travel as text.
    """
    needed = [name for name in rows.names if name in names or name in parting.columns]
    part = named(exp.cast(part_of(rows, parting, thresholds), "int"), PART)
    cells: list[Node] = []
    for name in names:
        cell = _as_published(rows, name)
        cells.append(named(exp.cast(cell, "text") if name in text else cell, f"c{rows.at(name)}"))
    position: list[Node] = [field(POSITION, ORIGIN)] if numbered else []
    source = rows.numbered(needed).subquery(quoted(ORIGIN)) if numbered else rows.relation()
    found = exp.select(part, *position, *cells).from_(source)
    return found.join(table(thresholds), join_type="cross") if parting.cuts else found


def part_counts(
    rows: Rows,
    names: Sequence[str],
    parting: Parting,
    thresholds: str,
    person: str | None = None,
) -> Node:
    """How many rows each part has, or persons, for each combination of some columns."""
    part = exp.cast(part_of(rows, parting, thresholds), "int")
    keys = rows.keys(names)
    cells = [named(key, f"c{rows.at(name)}") for name, key in zip(names, keys, strict=True)]
    if person is not None:
        found = exp.select(named(part, PART), *cells, named(rows.key(person), "who"))
        found = found.group_by(part.copy(), *(key.copy() for key in keys), rows.key(person))
    else:
        found = exp.select(named(part, PART), *cells, named(count_rows(), "count"))
        found = found.group_by(part.copy(), *keys) if parting.cuts or keys else found
    found = found.from_(rows.relation())
    if parting.cuts:
        found = found.join(table(thresholds), join_type="cross")
    return found if person is None else _times(found, [PART, *(f"c{rows.at(n)}" for n in names)])


def holders(rows: Rows, name: str, person: str, wanted: str | None = None) -> Node:
    """How many persons hold each value of a column, or each that a relation lists as `k0`."""
    key, who = rows.key(name), rows.key(person)
    pairs = exp.select(named(key, f"c{rows.at(name)}"), named(who, "who")).from_(rows.relation())
    if wanted is not None:
        alike = rows.dialect.same(key.copy(), field("k0", wanted), rows.kind(name))
        pairs = pairs.join(table(wanted), on=alike)
    return _times(pairs.group_by(key.copy(), who.copy()), [f"c{rows.at(name)}"])


def _times(pairs: exp.Select, by: Sequence[str]) -> Node:
    """How many different pairs there are for each combination of some of their columns."""
    shown = [field(name) for name in by]
    found = exp.select(*shown, named(count_rows(), "count")).from_(pairs.subquery(quoted("pairs")))
    return found.group_by(*(cell.copy() for cell in shown))


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
    part = bucket(rows, by, parts)
    keys = rows.keys(names)
    cells = [named(key, f"c{rows.at(name)}") for name, key in zip(names, keys, strict=True)]
    count = count_rows() if grouped else exp.Literal.number(1)
    found = exp.select(named(part, PART), *cells, named(count, "count")).from_(rows.relation())
    if hashed:
        numbers = rows.dialect.hash_numbers(_row_hash(rows))
        found = found.select(*(named(one, f"hash{at}") for at, one in enumerate(numbers)))
    return found.group_by(*keys) if grouped else found


def sorted_by_part(statement: Node) -> Node:
    """The same, the rows of a part one after the other."""
    assert isinstance(statement, exp.Select)
    return statement.order_by(field(PART))


def counted(statement: Node) -> Node:
    """How many rows a statement gives."""
    assert isinstance(statement, exp.Select)
    return exp.select(named(count_rows(), "rows")).from_(statement.subquery(quoted("counted")))


def added_up(statement: Node, by: str, what: str) -> Node:
    """The sums of one column of what a statement gives, for each value of another."""
    assert isinstance(statement, exp.Select)
    total = named(exp.cast(exp.Sum(this=field(what)), "bigint"), what)
    added = exp.select(field(by), total).from_(statement.subquery(quoted("added")))
    return added.group_by(field(by))


def nothing_of(rows: Rows, names: Sequence[str], types: Map[str, str]) -> Node:
    """No rows of some columns, in the types the database has unless others are named."""
    cells = [
        exp.cast(exp.null(), exp.DataType.build(types[name], dialect=rows.dialect.name))
        if name in types
        else rows.cell(name)
        for name in names
    ]
    shown = [named(cell, name) for cell, name in zip(cells, names, strict=True)]
    return exp.select(*shown).from_(rows.relation()).where(exp.false())


def collisions(rows: Rows, sets: Sequence[Sequence[str]], names: Sequence[str], limit: int) -> Node:
    """For each of some column sets, classes whose rows differ elsewhere, the smallest first.

    Of each class come the number of its set and, for each of `names`, whether its rows differ.
    """
    asked: list[exp.Select] = []
    for at, chosen in enumerate(sets):
        flags = [
            named(exp.false() if n in chosen else _varies(rows, n), f"d{nth}")
            for nth, n in enumerate(names)
        ]
        inside = exp.select(*flags, named(count_rows(), "size")).from_(rows.relation())
        if chosen:
            inside = inside.group_by(*rows.keys(chosen))
        inside = inside.having(exp.GT(this=count_rows(), expression=exp.Literal.number(1)))
        shown = [field(f"d{nth}") for nth in range(len(names))]
        some = exp.select(named(exp.Literal.number(at), "nth"), *shown)
        some = some.from_(inside.subquery(quoted("classes"))).where(exp.or_(*shown))
        some = some.order_by(field("size")).limit(limit)
        asked.append(exp.select(exp.Star()).from_(some.subquery(quoted(f"set{at}"))))
    return _all_of(asked)


def _varies(rows: Rows, name: str) -> Node:
    """Whether the cells of a class differ in a column; some being null is a difference, too."""
    cell = rows.cell(name)
    key = rows.dialect.comparable(cell, rows.kind(name))
    if rows.kind(name) == "boolean":
        key = exp.cast(key, "int")
    elif rows.kind(name) == "binary":
        key = rows.dialect.hexadecimal(key)
    apart = exp.NEQ(this=exp.Min(this=key), expression=exp.Max(this=key.copy()))
    filled = exp.Count(this=cell.copy())
    mixed = exp.and_(
        exp.GT(this=filled, expression=exp.Literal.number(0)),
        exp.LT(this=filled.copy(), expression=count_rows()),
    )
    # Nothing is known of nulls alone, which are equal.
    return exp.Coalesce(this=exp.paren(exp.or_(apart, mixed)), expressions=[exp.false()])


def at_positions(rows: Rows, names: Sequence[str], wanted: str) -> Node:
    """The rows at the positions listed in the table `wanted`, in their order."""
    return (
        exp.select(*[field(f"c{rows.at(name)}") for name in names])
        .from_(rows.numbered(names).subquery(quoted("numbered")))
        .where(field(POSITION).isin(query=exp.select(field(POSITION)).from_(table(wanted))))
        .order_by(field(POSITION))
    )


def at_random(
    rows: Rows, names: Sequence[str], count: int, seed: int, below: float | None = None
) -> Node:
    """A uniform sample by random order, for engines whose rows have no order of their own.

    Only rows for which a random number lies `below` another one are sorted, if that is given.
    """
    found = exp.select(*rows.cells(names)).from_(rows.relation())
    if below is not None:
        drawn = rows.dialect.random(~seed)  # another than what they are sorted by
        found = found.where(exp.LT(this=drawn, expression=exp.Literal.number(below)))
    return found.order_by(rows.dialect.random(seed)).limit(count)


def all_rows(rows: Rows, names: Sequence[str]) -> Node:
    """Some columns of all rows."""
    return exp.select(*rows.cells(names)).from_(rows.relation())


def sorted_rows(rows: Rows, names: Sequence[str], sort: Sequence[str]) -> Node:
    """Some columns of all rows, sorted by some columns; in their own order without any."""
    found = exp.select(*rows.cells(names)).from_(rows.relation())
    return found.order_by(*_ascending(rows.keys(sort))) if sort else found


def _ascending(keys: Iterable[Node]) -> list[Node]:
    """What to sort by: nothing comes last, wherever the database would put it."""
    return [exp.Ordered(this=key, nulls_first=False) for key in keys]


def no_rows(source: Node) -> Node:
    """A statement that tells the columns of a relation and nothing else."""
    relation = source.copy()
    relation.set("alias", exp.TableAlias(this=quoted(ORIGIN)))
    return exp.select(exp.Star()).from_(relation).limit(0)


def _by_class(found: exp.Select, rows: Rows, names: Sequence[str]) -> exp.Select:
    """One output row a class; no columns make one class, unless there are no rows."""
    if names:
        return found.group_by(*rows.keys(names))
    return found.having(exp.GT(this=count_rows(), expression=exp.Literal.number(0)))


_MODULI = (4_294_967_291, 2_147_483_647)
"""Primes; sums of remainders of two billion rows fit 64 bits."""


def hash_sums(rows: Rows, names: Sequence[str]) -> Node | None:
    """Row count and sums of hashes of some columns; None where the engine has no hash.

    Whatever the order of rows, the sums are the same. They find mistakes, not forgers.
    """
    hashed = rows.dialect.class_hash(rows.keys(names))
    if hashed is None:
        return None
    sums = []
    for at, modulus in enumerate(_MODULI):
        remainder = exp.Mod(this=exp.paren(hashed.copy()), expression=exp.Literal.number(modulus))
        sums.append(named(exp.Sum(this=exp.cast(exp.paren(remainder), "bigint")), f"sum{at}"))
    return exp.select(named(count_rows(), "rows"), *sums).from_(rows.relation())


def fingerprint(rows: Rows) -> exp.Select:
    """Row count and the order-free sum of row hashes, in numbers of fewer bits.

    What is hashed are all cells; numbers are summed apart so that no engine's integers overflow.
    Sums find mistakes, not forgers: whoever tries finds other rows with the same sum.
    """
    hashed = rows.dialect.once(exp.select(named(_row_hash(rows), "hash")).from_(rows.relation()))
    sums = [
        named(exp.Sum(this=number), f"sum{at}")
        for at, number in enumerate(rows.dialect.hash_numbers(field("hash")))
    ]
    return exp.select(named(count_rows(), "rows"), *sums).from_(hashed.subquery(quoted("hashed")))


def _row_hash(rows: Rows) -> Node:
    return rows.dialect.row_hash(rows.keys(rows.names), rows.columns)


def _written(key: Node, column: Column, dialect: Dialect) -> Node:
    """A cell as text with its length, or a mark for null; no two rows concatenate alike."""
    binary = column.kind == "binary"
    plain = dialect.hexadecimal(key) if binary else exp.cast(key, "text")
    length = exp.cast(exp.Length(this=plain), "text")
    return exp.Coalesce(
        this=_piped([length, exp.Literal.string(":"), plain.copy()]),
        expressions=[exp.Literal.string("-")],
    )


def _piped(parts: Sequence[Node]) -> Node:
    """Concatenation as a balanced tree: hundreds of columns must not nest hundreds deep."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return exp.DPipe(this=_piped(parts[:half]), expression=_piped(parts[half:]), safe=False)


TUPLE = "tuple"


@dataclass(frozen=True)
class Mapping:
    """An uploaded step of a recoding: keys ``k0``, …; ``first``, ``last``; ``keep``; ``v0``, ….

    Parameters
    ----------
    relation
        Where it was uploaded.
    columns
        Names of the columns its keys are compared with.
    cells
        Names of the columns its cells are written to.
    ranged
        Whether entries speak of ordinal ranges.
    """

    relation: str
    columns: tuple[str, ...]
    cells: tuple[str, ...]
    ranged: bool


def matched(rows: Rows, mappings: Sequence[Mapping], ranged: Sequence[int] = ()) -> Node:
    """For each row, in order, the number of the tuple it matches in each mapping, or null.

    Then, for some of the mappings, its number among rows of equal keys, by the cells of all
    columns; rows that are equal in all of them are numbered in their order.
    """
    needed = [name for name in rows.names if any(name in m.columns for m in mappings)]
    origin = rows.numbered(rows.names if ranged else needed).subquery(quoted(ORIGIN))
    position = field(POSITION, ORIGIN)
    if ranged:
        every = [*rows.keys(rows.names), position]
        ordinals = [
            named(row_number(rows.keys(mappings[at].columns), every), f"ordinal{at}")
            for at in ranged
        ]
        numbered = exp.select(*rows.cells(needed), position, *ordinals).from_(origin)
        origin = numbered.subquery(quoted(ORIGIN))
    found = exp.select(
        *[named(field(TUPLE, m.relation), f"t{at}") for at, m in enumerate(mappings)],
        *[field(f"ordinal{at}", ORIGIN) for at in ranged],
    ).from_(origin)
    return _joined(found, rows, mappings).order_by(field(POSITION, ORIGIN))


def entries(rows: Rows, mappings: Sequence[Mapping]) -> Node:
    """How many rows come out of the joins of a recoding, and how many met an entry of each step.

    All figures equal the row count exactly when every row matches one entry of every step.
    """
    met = [
        named(exp.Count(this=field("keep", m.relation)), f"met{at}")
        for at, m in enumerate(mappings)
    ]
    found = exp.select(named(count_rows(), "rows"), *met).from_(_with_ordinals(rows, mappings, ()))
    return _joined(found, rows, mappings)


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
    outputs = [*rows.names, *(name for name in written if name not in rows.names)]
    outputs = [name for name in outputs if name not in drop]
    cells = [
        named(written[name] if name in written else _as_published(rows, name), name)
        for name in outputs
    ]
    found = exp.select(*cells).from_(_with_ordinals(rows, mappings, kept))
    found = _joined(found, rows, mappings)
    for mapping in mappings:
        found = found.where(field("keep", mapping.relation))
    if sort is None:
        return found
    shown = {name: written[name].copy() if name in written else rows.cell(name) for name in outputs}
    return found.order_by(*_ascending(rows.dialect.comparable(shown[n], sort[n]) for n in sort))


def _with_ordinals(rows: Rows, mappings: Sequence[Mapping], kept: Sequence[str]) -> Node:
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
    cells = [*rows.cells(needed), *ordinals] or [named(exp.Literal.number(1), "one")]
    return exp.select(*cells).from_(rows.relation()).subquery(quoted(ORIGIN))


def _joined(found: exp.Select, rows: Rows, mappings: Sequence[Mapping]) -> exp.Select:
    """The statement with every mapping joined to the rows where its keys and ordinals fit."""
    for at, mapping in enumerate(mappings):
        conditions = [
            rows.dialect.same(rows.key(name), field(f"k{nth}", mapping.relation), rows.kind(name))
            for nth, name in enumerate(mapping.columns)
        ]
        if mapping.ranged:
            ordinal = field(f"ordinal{at}", ORIGIN)
            conditions += [
                exp.GTE(this=ordinal, expression=field("first", mapping.relation)),
                exp.LT(this=ordinal.copy(), expression=field("last", mapping.relation)),
            ]
        found = found.join(
            table(mapping.relation),
            on=exp.and_(*conditions) if conditions else exp.true(),
            join_type="left",
        )
    return found


def _as_published(rows: Rows, name: str) -> Node:
    """A kept cell; the sign of a zero would tell rows apart that are equal."""
    cell = rows.cell(name)
    if rows.kind(name) != "float":
        return cell
    zero = exp.EQ(this=cell, expression=exp.Literal.number(0))
    return exp.Case().when(zero, exp.Abs(this=cell.copy())).else_(cell.copy())


def new_table(name: str, columns: Sequence[tuple[str, str]], dialect: Dialect) -> Node:
    """A temporary table of columns and their types, gone with its connection."""
    definitions = [
        exp.ColumnDef(this=quoted(column), kind=exp.DataType.build(type_, dialect=dialect.name))
        for column, type_ in columns
    ]
    return exp.Create(
        this=exp.Schema(this=table(name), expressions=definitions),
        kind="TABLE",
        properties=exp.Properties(expressions=[exp.TemporaryProperty()]),
    )


def table_of(name: exp.Table, statement: Node) -> Node:
    """A table filled with the rows of a statement."""
    return exp.Create(this=name.copy(), kind="TABLE", expression=statement)


def renamed(name: exp.Table, new: str) -> Node:
    """Another name for a table, in its schema."""
    return exp.Alter(this=name.copy(), kind="TABLE", actions=[exp.AlterRename(this=table(new))])


def dropped(name: exp.Table, *, exists: bool = False) -> Node:
    """No table of this name."""
    return about(name, "DROP TABLE IF EXISTS t" if exists else "DROP TABLE t")


def about(name: exp.Table, pattern: str) -> Node:
    """A statement about the table `t`, about another table; its nodes differ among SQLGlots."""
    statement = sqlglot.parse_one(pattern, read="postgres")
    assert isinstance(statement, exp.Expression)
    found = statement.find(exp.Table)
    assert found is not None
    found.replace(name.copy())
    return statement
