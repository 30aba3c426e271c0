"""What the users of a release will ask of it: priorities and cut points from a log of queries.

Xiong & Rangachari (2008, section 4.2) count how often a column is shown (a *feature*) or selected
by, and cut the columns that matter most first. Beyond the paper, cuts are made where the
predicates of the log cut: a release that is asked for ``age >= 65`` should not hold [60, 70).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import ParameterError
from sfumato.files import read_text
from sfumato.hierarchy import Ranges

if TYPE_CHECKING:
    from sfumato.anonymization.problem import Shape
    from sfumato.utility import Query


Mask = npt.NDArray[np.bool_]
Node = Any
"""A node of SQLGlot's syntax tree."""


@dataclass(frozen=True)
class Predicate:
    """A column compared with constants: ``<``, ``<=``, ``>``, ``>=``, ``=``, ``<>`` or ``in``."""

    column: str
    operator: str
    constants: tuple[Any, ...]

    def mask(self, values: pa.Array) -> Mask | None:
        """Which values satisfy it; None where the constants are of another kind."""
        try:
            constants = pa.array(list(self.constants))
            if pa.types.is_integer(values.type) and pa.types.is_floating(constants.type):
                values = values.cast(pa.float64(), safe=False)  # age > 17.5
            constants = constants.cast(values.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
            return None
        if self.operator in ("=", "in"):
            found = pc.is_in(values, value_set=constants)
        elif self.operator == "<>":
            found = pc.and_(pc.invert(pc.is_in(values, value_set=constants)), pc.is_valid(values))
        else:
            compare = {"<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}[
                self.operator
            ]
            found = compare(values, constants[0])
        return np.asarray(found.fill_null(False))


@dataclass(frozen=True)
class Asked:
    """One query of the log.

    Attributes
    ----------
    features, selections
        Columns it shows, and columns it selects by.
    predicates
        Every comparison of a column with constants.
    conjunction
        Whether rows are selected by exactly these predicates, all together; else the query
        teaches priorities and cuts but cannot be replayed.
    """

    features: tuple[str, ...]
    selections: tuple[str, ...]
    predicates: tuple[Predicate, ...]
    conjunction: bool


@dataclass(frozen=True)
class QueryLog:
    """Queries that were understood, and the lines that were not.

    Examples
    --------
    >>> log = QueryLog.of(["SELECT age FROM t WHERE sex = 'F'", "age >= 65", "SELECT ("])
    >>> log.weights(["age", "sex", "zip"])
    {'age': 1.5, 'sex': 1.0, 'zip': 0.5}
    >>> [line for line, _ in log.skipped]
    [3]
    """

    queries: tuple[Asked, ...]
    skipped: tuple[tuple[int, str], ...]
    where: str | None = None

    @classmethod
    def read(cls, path: str | Path) -> QueryLog:
        """Read a file of SQL queries or predicates.

        Queries end with a semicolon, or, where the file has none, with their line. Empty lines and
        those that begin with ``--`` or ``#`` are passed over.
        """
        lines = read_text(path, "the query log").splitlines()
        return cls._of(_statements(lines), str(path))

    @classmethod
    def of(cls, given: str | Path | Sequence[str] | QueryLog) -> QueryLog:
        """A file of queries, or the queries themselves."""
        if isinstance(given, QueryLog):
            return given
        if isinstance(given, (str, Path)):
            return cls.read(given)
        return cls._of(enumerate(given, start=1), None)

    @classmethod
    def _of(cls, statements: Any, where: str | None) -> QueryLog:
        queries, skipped = [], []
        for line, text in statements:
            understood = _understood(text)
            if isinstance(understood, str):
                skipped.append((line, understood))
            else:
                queries.append(understood)
        if not queries:
            raise ParameterError(
                "the query log holds no query that could be understood",
                where=where,
                remedy="Give SQL queries or predicates such as age >= 65, one per line.",
            )
        return cls(tuple(queries), tuple(skipped), where)

    def weights(self, columns: Sequence[str]) -> dict[str, float]:
        """Priority of each column, 1 on average.

        Its share of all mentions, after adding one mention to every column: one that nobody asked
        about matters less, but is not worthless.
        """
        names = _matching(columns)
        mentions = dict.fromkeys(columns, 1)
        for query in self.queries:
            for name in {name.lower() for name in (*query.features, *query.selections)}:
                if name in names:
                    mentions[names[name]] += 1
        total = sum(mentions.values())
        return {name: len(columns) * count / total for name, count in mentions.items()}

    def cuts(self, shapes: Mapping[str, Shape]) -> dict[str, list[int]]:
        """Ranks right after which some predicate cuts a column that is blurred into ranges."""
        names = _matching(shapes)
        found: dict[str, set[int]] = {}
        for predicate in self._predicates():
            name = names.get(predicate.column.lower())
            shape = shapes[name] if name is not None else None
            if isinstance(shape, Ranges):
                found.setdefault(str(name), set()).update(_edges(predicate, shape))
        return {name: sorted(edges) for name, edges in found.items() if edges}

    def replayed(self, values: Mapping[str, pa.Array]) -> list[Query]:
        """The queries that select rows by quasi-identifiers alone, as selections of codes."""
        from sfumato.utility import Query

        names = _matching(values)
        queries = []
        for asked in self.queries:
            known = all(p.column.lower() in names for p in asked.predicates)
            if not (asked.conjunction and asked.predicates and known):
                continue
            conditions: dict[str, Mask] = {}
            for predicate in asked.predicates:
                name = names[predicate.column.lower()]
                mask = predicate.mask(values[name])
                if mask is None:
                    break
                conditions[name] = mask & conditions.get(name, np.ones(len(mask), dtype=bool))
            else:
                queries.append(Query(conditions))
        return queries

    def warnings(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Which lines were not understood, and what they ask that a table of these has not."""
        told = []
        if self.skipped:
            shown = "; ".join(f"line {line}: {reason}" for line, reason in self.skipped[:5])
            more = f"; and {len(self.skipped) - 5} more" if len(self.skipped) > 5 else ""
            noun = "query was" if len(self.skipped) == 1 else "queries were"
            told.append(f"{len(self.skipped)} {noun} skipped ({shown}{more})")
        if unknown := self._unknown(columns):
            shown = ", ".join(f"`{name}`" for name in unknown[:5])
            more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
            told.append(f"the query log asks about {shown}{more}, which the table does not have")
        return tuple(told)

    def _unknown(self, columns: Sequence[str]) -> list[str]:
        """Columns that queries name and the table does not have, in the order of the log."""
        known = _matching(columns)
        named = [n for query in self.queries for n in (*query.features, *query.selections)]
        return [name for name in dict.fromkeys(named) if name.lower() not in known]

    def _predicates(self) -> Iterator[Predicate]:
        for query in self.queries:
            yield from query.predicates


def _matching(columns: Any) -> dict[str, str]:
    """Columns by their name in lower case, as SQL compares names."""
    return {name.lower(): name for name in columns}


def _edges(predicate: Predicate, shape: Ranges) -> list[int]:
    """Ranks after which a predicate is no longer, or only then, satisfied."""
    mask = predicate.mask(shape.values)
    if mask is None:
        return []
    ranked = mask[shape.order[: len(shape.points)]]
    return np.flatnonzero(ranked[1:] != ranked[:-1]).tolist()


def _statements(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Statements with the line each begins in."""
    marked = any(line.rstrip().endswith(";") for line in lines)
    parts: list[str] = []
    begin = 0
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith(("--", "#")):
            continue
        begin = begin if parts else number
        parts.append(text)
        if not marked or text.endswith(";"):
            yield begin, " ".join(parts).rstrip("; ")
            parts = []
    if parts:
        yield begin, " ".join(parts)


def _understood(text: str) -> Asked | str:
    """The query a text asks, or why it was not understood."""
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        parsed = sqlglot.parse_one(text)
    except SqlglotError as error:
        errors = getattr(error, "errors", None) or [{}]
        column = errors[0].get("col")
        return "it does not parse" + (f" (character {column})" if column else "")
    except RecursionError:
        return "it is nested too deeply"
    if isinstance(parsed, exp.Query):
        return _query(parsed)
    if isinstance(parsed, (exp.Predicate, exp.Connector, exp.Not, exp.Paren)):
        return _asked((), [parsed])
    return "it is neither a query nor a predicate"


def _query(parsed: Node) -> Asked:
    from sqlglot import exp

    shown: list[str] = []
    conditions: list[Node] = []
    for select in parsed.find_all(exp.Select):
        for part in (*select.expressions, select.args.get("group"), select.args.get("order")):
            if part is not None:
                shown += [column.name for column in part.find_all(exp.Column)]
        clauses = [select.args.get(clause) for clause in ("where", "having")]
        conditions += [clause.this for clause in clauses if clause is not None]
        joins = [join.args.get("on") for join in select.args.get("joins") or ()]
        conditions += [on for on in joins if on is not None]
    alone = isinstance(parsed, exp.Select) and len(list(parsed.find_all(exp.Select))) == 1
    joined = bool(parsed.args.get("joins") or parsed.args.get("having"))
    return _asked(shown, conditions, alone and not joined)


def _asked(shown: Sequence[str], conditions: Sequence[Node], whole: bool = True) -> Asked:
    from sqlglot import exp

    selected: list[str] = []
    predicates: list[Predicate] = []
    for condition in conditions:
        selected += [column.name for column in condition.find_all(exp.Column)]
        for part in condition.walk():
            predicates += _predicates(part)
        plain = [_predicates(_bare(part)) for part in _conjuncts(condition)]
        whole = whole and all(plain)
    return Asked(
        tuple(dict.fromkeys(shown)), tuple(dict.fromkeys(selected)), tuple(predicates), whole
    )


def _bare(part: Node) -> Node:
    from sqlglot import exp

    while isinstance(part, exp.Paren):
        part = part.this
    return part


def _conjuncts(condition: Node) -> Iterator[Node]:
    from sqlglot import exp

    condition = _bare(condition)
    if isinstance(condition, exp.And):
        yield from _conjuncts(condition.left)
        yield from _conjuncts(condition.right)
    else:
        yield condition


def _predicates(part: Node) -> list[Predicate]:
    """Comparisons of a column with constants that a node itself is (``between`` is two)."""
    from sqlglot import exp

    operators = {
        exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.EQ: "=", exp.NEQ: "<>",
    }  # fmt: skip
    turned = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}
    if type(part) in operators:
        operator = operators[type(part)]
        left, right = part.left, part.right
        if isinstance(right, exp.Column):
            left, right, operator = right, left, turned[operator]
        return _compared(left, operator, [right])
    if isinstance(part, exp.Between):
        low, high = part.args["low"], part.args["high"]
        return _compared(part.this, ">=", [low]) + _compared(part.this, "<=", [high])
    if isinstance(part, exp.In) and part.expressions:
        return _compared(part.this, "in", part.expressions)
    return []


def _compared(column: Node, operator: str, constants: Sequence[Node]) -> list[Predicate]:
    from sqlglot import exp

    values = [_constant(constant) for constant in constants]
    if not isinstance(column, exp.Column) or None in values:
        return []
    return [Predicate(column.name, operator, tuple(values))]


def _constant(node: Node) -> Any:
    """A number, text or truth value; None for anything else."""
    from sqlglot import exp

    node = _bare(node)
    if isinstance(node, exp.Cast):  # DATE '2020-01-31'
        node = node.this
    if isinstance(node, exp.Neg):
        inner = _constant(node.this)
        return -inner if isinstance(inner, (int, float)) else None
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if not isinstance(node, exp.Literal):
        return None
    if node.is_string:
        return str(node.this)
    text = str(node.this)
    return int(text) if text.isdigit() else float(text)
