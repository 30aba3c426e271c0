"""Counting records that lie between two parties: each holds whole rows, or some cells of all rows.

First the two agree on columns, their categories, and how rows are held (`Schema`, `agree`). Counts
of rows add up by themselves. Where cells are divided, a count is a scalar product of binary
vectors: how many records match Alice's pattern and Bob's at once. One transfer a record: Alice
offers pad and pad + her bit, Bob takes by his bit; the sums of the two sides' pads are shares of
the count. Bits of many of Alice's vectors ride on one transfer.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ColumnError, ParameterError, PeerError, did_you_mean
from sfumato.secure import _kernels
from sfumato.secure.arithmetic import cross_products
from sfumato.secure.logarithm import COUNTS
from sfumato.secure.oblivious_transfer import hashed
from sfumato.secure.polynomial import paillier_counts
from sfumato.secure.shares import Ring, Shares, private, zeros

if TYPE_CHECKING:
    from sfumato.secure.session import Session


_LARGEST_MESSAGE = 1 << 20
_MOST_VALUES, _MOST_COLUMNS = 1 << 12, 1 << 12


@dataclass(frozen=True)
class Schema:
    """Columns and their categories; public, and equal on both sides.

    Parameters
    ----------
    columns
        Names, in order.
    values
        For each column the categories; a cell is held as the position of its category.

    Examples
    --------
    >>> schema = Schema.of({"sex": ["f", "m"], "stage": ["I", "II", "III"]})
    >>> schema.sizes, schema.position("stage")
    ((2, 3), 1)
    """

    columns: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        if not self.columns or len(self.columns) != len(self.values):
            raise ParameterError("a schema has at least one column, each with its categories")
        for at, (name, categories) in enumerate(zip(self.columns, self.values, strict=True)):
            if name in self.columns[:at]:
                raise ColumnError(f"column `{name}` occurs twice in the schema")
            if not categories:
                raise ColumnError(f"column `{name}` has no categories")
            if len(set(categories)) != len(categories):
                raise ColumnError(f"a category of column `{name}` occurs twice")

    @classmethod
    def of(cls, categories: Mapping[str, Sequence[str]]) -> Self:
        """A schema from column names with their categories."""
        return cls(tuple(categories), tuple(tuple(v) for v in categories.values()))

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many categories each column has."""
        return tuple(len(categories) for categories in self.values)

    def position(self, column: str) -> int:
        """Where a column stands."""
        if column not in self.columns:
            raise ColumnError(
                f"there is no column `{column}`", remedy=did_you_mean(column, self.columns)
            )
        return self.columns.index(column)

    def digests(self) -> dict[str, str]:
        """A digest of each column's categories, and one of the order of the columns."""
        pairs = zip(self.columns, self.values, strict=True)
        digests = {f"column `{name}`": _digest(categories) for name, categories in pairs}
        return {**digests, "the order of the columns": _digest(self.columns)}


def agree(session: Session, facts: Mapping[str, Any], told: Any = None) -> Any:
    """Compare public facts with the other side's and return what else it tells.

    Parameters
    ----------
    facts
        What must be equal, by the name under which a difference is reported.
    told
        Whatever the other side should know besides (JSON).
    """
    theirs = session.exchange_json(
        "agreement", {"facts": facts, "told": told}, limit=_LARGEST_MESSAGE
    )
    there = theirs.get("facts") if isinstance(theirs, dict) else None
    if not isinstance(there, dict):
        session.refuse("sent nothing to agree on", "agreement")
    here = json.loads(json.dumps(facts))
    different = [name for name in here if name not in there or here[name] != there[name]]
    # names of the other side's own columns are its affair: only that there are some is said
    more = ["something that this side does not have"] if set(there) - set(here) else []
    if different or more:
        session.channel.stop("the two sides do not agree")
        raise PeerError(
            "the two sides differ in " + ", ".join([*different[:12], *more]),
            where="agreement",
            remedy="Agree on columns, categories and options, then start both again.",
        )
    return theirs.get("told")


def pool_categories(
    session: Session,
    mine: Mapping[str, Sequence[str]],
    *,
    same_columns: bool,
    max_values: int = _MOST_VALUES,
) -> Schema:
    """Tell each other the categories that occur, and take all of them.

    Alice's columns come first, in her order; the categories of a column are sorted, also those that
    are told: in the order in which they occur the first of each column would tell the first row.

    Parameters
    ----------
    mine
        The categories of each of my columns.
    same_columns
        Whether both sides must have the same columns.
    max_values
        No column of the other side may have more categories.
    """
    here = {name: sorted(values, key=category_rank) for name, values in mine.items()}
    if same_columns:
        # first the names alone: categories of a column that only one side has are never told
        names = session.exchange_json("columns", list(here), limit=_LARGEST_MESSAGE)
        if not isinstance(names, list) or not all(map(_is_text, names)):
            session.refuse("did not name its columns", "columns")
        _require_same_columns(session, here, names)
    told = [[name, values] for name, values in here.items()]
    theirs = session.exchange_json("categories", told, limit=_LARGEST_MESSAGE)
    session.note_learned("both", "which categories occur in the other's columns")
    if not isinstance(theirs, list) or not all(_is_column(entry) for entry in theirs):
        session.refuse("did not tell its categories", "categories")
    there: dict[str, list[str]] = dict(theirs)
    if len(there) != len(theirs) or len(there) > _MOST_COLUMNS:
        session.refuse("told too many columns, or one of them twice", "categories")
    for values in there.values():
        if len(values) > max_values:
            session.channel.stop("it was told too many categories")
            raise PeerError(
                f"the other party has a column with {len(values):,} categories",
                where="categories",
                remedy="Leave that column out on both sides, or raise --max-values (max_values=).",
            )
    if same_columns:
        _require_same_columns(session, here, there)
    first, second = (here, there) if session.is_alice else (there, here)
    pooled = {}
    for name in dict.fromkeys([*first, *second]):
        pooled[name] = sorted({*first.get(name, ()), *second.get(name, ())}, key=category_rank)
    if not any(pooled.values()):
        raise ParameterError("neither side has any rows", remedy="At least one side needs some.")
    return Schema.of(pooled)


def _require_same_columns(session: Session, here: Iterable[str], there: Iterable[str]) -> None:
    mine, theirs = dict.fromkeys(here), dict.fromkeys(there)
    found = [f"it lacks `{name}`" for name in mine if name not in theirs]
    # names of the other side's own columns are its affair: only how many there are is said
    if more := len(theirs.keys() - mine.keys()):
        found.append(f"it has {more} that this side lacks")
    if found:
        session.channel.stop("the two sides have different columns")
        raise PeerError(
            f"the other party has different columns: {', '.join(found)}",
            where="columns",
            remedy="Name the common columns on both sides (-c, -x).",
        )


def _is_column(entry: Any) -> bool:
    return (
        isinstance(entry, list)
        and len(entry) == 2
        and isinstance(entry[1], list)
        and all(_is_text(value) for value in (entry[0], *entry[1]))
    )


def _is_text(value: Any) -> bool:
    """Text that can be written down: JSON allows halves of letters."""
    return isinstance(value, str) and not any("\ud800" <= c <= "\udfff" for c in value)


def category_rank(text: str) -> tuple[float, str]:
    """Numbers by size, then text by alphabet."""
    try:
        number = float(text)
    except ValueError:
        return math.inf, text
    return (number if math.isfinite(number) else math.inf), text


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


_LARGEST_TABLE = 1 << 16
_MOST_ROWS = 1 << 36
_VECTOR_BYTES, _MOST_VECTOR_BYTES = 1 << 26, 1 << 30
"""Vectors that wait to be counted in common messages."""
Part = NDArray[Any]
Asked = Sequence[tuple[Part, Sequence[int]]]


class Held(Protocol):
    """Records between two parties, as one of them holds them."""

    @property
    def schema(self) -> Schema:
        """The public columns and categories."""

    def agree(self, session: Session, facts: Mapping[str, Any]) -> int:
        """Check that both sides mean the same; returns b with fewer than 2^b records in all."""

    def everything(self) -> Part:
        """All records."""

    def narrow(self, part: Part, column: int, value: int) -> Part:
        """The records of a part that have a value, as far as this side can tell."""

    def counts(
        self, session: Session, asked: Asked, ring: Ring = COUNTS, backend: str = "ot"
    ) -> Shares:
        """Contingency tables of columns over parts, one after the other, last column fastest."""


class HeldRows:
    """Whole records of one's own; the other party has others with the same columns.

    Parameters
    ----------
    schema
        The public columns and categories.
    codes
        Position of each cell's category, int[records, columns].

    Examples
    --------
    >>> from sfumato.secure import reveal, together
    >>> schema = Schema.of({"sex": ["f", "m"]})
    >>> def party(session):
    ...     rows = HeldRows(schema, [[0], [1]] if session.is_alice else [[1]])
    ...     rows.agree(session, {})
    ...     counts = rows.counts(session, [(rows.everything(), [0])])
    ...     return reveal(session, counts, what="the counts").tolist()
    >>> together(party, party)
    ([1, 2], [1, 2])
    """

    def __init__(self, schema: Schema, codes: Any) -> None:
        self.schema = schema
        self._codes = _checked(schema, codes, lowest=0)

    def agree(self, session: Session, facts: Mapping[str, Any]) -> int:
        """Compare facts; the other side learns the number of rows to within a factor of two."""
        own = len(self._codes).bit_length()
        told = agree(session, {**self.schema.digests(), "who holds what": "rows", **facts}, own)
        session.note_learned("both", "the other's number of rows, to within a factor of two")
        if type(told) is not int or not 0 <= told <= _MOST_ROWS.bit_length():
            session.refuse("did not tell its number of rows", "agreement")
        return max(own, told) + 1

    def everything(self) -> Part:
        """Positions of all own rows."""
        return np.arange(len(self._codes))

    def narrow(self, part: Part, column: int, value: int) -> Part:
        """Positions of the rows of a part that have a value."""
        narrowed: Part = part[self._codes[part, column] == value]
        return narrowed

    def counts(
        self, session: Session, asked: Asked, ring: Ring = COUNTS, backend: str = "ot"
    ) -> Shares:
        """Own counts, which are shares of the common ones: nothing is sent."""
        sizes = self.schema.sizes
        tables = []
        for part, columns in asked:
            shape = [sizes[c] for c in columns]
            cells = math.prod(shape)
            _check_table(cells)
            flat = np.ravel_multi_index([self._codes[part, c] for c in columns], shape)
            tables.append(np.bincount(flat, minlength=cells))
        return private(ring, np.concatenate(tables))


@dataclass(frozen=True)
class _Group:
    """Records whose cells have the same owners, as one task of counting."""

    table: int
    vectors: NDArray[np.bool_]
    theirs: int
    order: NDArray[np.int64]
    """Where the table's combinations stand among the counts."""


class HeldCells:
    """Some cells of records that both parties know by position; the other has all others.

    Which cells are whose is known to both: each side sees its own gaps.

    Parameters
    ----------
    schema
        The public columns and categories.
    codes
        Position of each cell's category, int[records, columns]; -1 where the other has the cell.
    """

    def __init__(self, schema: Schema, codes: Any) -> None:
        self.schema = schema
        self._codes = _checked(schema, codes, lowest=-1)
        self._mine = self._codes >= 0

    def agree(self, session: Session, facts: Mapping[str, Any]) -> int:
        """Compare facts, among them that every cell has exactly one owner."""
        alices = self._mine if session.is_alice else ~self._mine
        owners = hashlib.sha256(np.packbits(alices).tobytes()).hexdigest()
        own = {"who holds what": "cells", "the number of rows": len(self._codes)}
        own["whose each cell is (one side has it, on the other it is empty)"] = owners
        agree(session, {**self.schema.digests(), **own, **facts})
        return max(1, len(self._codes).bit_length())

    def everything(self) -> Part:
        """A flag for each record."""
        return np.ones(len(self._codes), np.bool_)

    def narrow(self, part: Part, column: int, value: int) -> Part:
        """Records whose cell is the other's, or has the value."""
        cells = self._codes[:, column]
        narrowed: Part = part & ((cells < 0) | (cells == value))
        return narrowed

    def counts(
        self, session: Session, asked: Asked, ring: Ring = COUNTS, backend: str = "ot"
    ) -> Shares:
        """Shares of the tables: one or more transfers, or encryptions, a record and table."""
        tables: list[Shares] = []
        waiting: list[_Group] = []
        held = 0
        for at, (part, columns) in enumerate(asked):
            shape = [self.schema.sizes[c] for c in columns]
            _check_table(math.prod(shape))
            tables.append(zeros(ring, math.prod(shape)))
            groups = self._groups(session, part, columns, at)
            waiting += groups
            # of both sides, so that both go on at the same table
            held += sum(g.vectors.shape[1] * (len(g.vectors) + g.theirs) for g in groups)
            if held > _VECTOR_BYTES or at + 1 == len(asked):
                tasks = [(group.vectors, group.theirs) for group in waiting]
                if tasks:  # else there are no records at all
                    counted = many_cross_counts(session, tasks, ring=ring, backend=backend)
                    for group, counts in zip(waiting, counted, strict=True):
                        tables[group.table] = tables[group.table] + counts[group.order]
                waiting, held = [], 0
                session.progress("counting", (at + 1) / len(asked))
        return Shares.concatenate(tables)

    def _groups(
        self, session: Session, part: Part, columns: Sequence[int], table: int
    ) -> list[_Group]:
        """Records taken together by whose their cells are, which both know.

        Within such a group Alice has a vector for each combination in her columns, Bob in his.
        """
        shape = [self.schema.sizes[c] for c in columns]
        alices = self._mine if session.is_alice else ~self._mine
        group_of = alices[:, columns] @ (1 << np.arange(len(columns)))
        groups = []
        for signature in np.unique(group_of):
            records = np.flatnonzero(group_of == signature)
            # positions within `columns`
            hers = [i for i in range(len(columns)) if signature >> i & 1]
            his = [i for i in range(len(columns)) if not signature >> i & 1]
            own, other = (hers, his) if session.is_alice else (his, hers)
            vectors = self._vectors(part, records, [columns[i] for i in own])
            grid = np.arange(math.prod(shape)).reshape([shape[i] for i in (*hers, *his)])
            order = grid.transpose(np.argsort([*hers, *his])).reshape(-1)
            groups.append(_Group(table, vectors, math.prod(shape[i] for i in other), order))
        return groups

    def _vectors(
        self, part: Part, records: NDArray[np.int64], columns: Sequence[int]
    ) -> NDArray[np.bool_]:
        """For each combination of values of own columns, which records have it."""
        matching = part[records]
        shape = [self.schema.sizes[c] for c in columns]
        if math.prod(shape) * len(records) > _MOST_VECTOR_BYTES:
            raise ParameterError(
                f"{math.prod(shape):,} combinations in {len(records):,} rows are too many",
                remedy="Use fewer columns or categories, or fewer parents.",
            )
        vectors = np.zeros((math.prod(shape), len(records)), np.bool_)
        at = np.zeros(len(records), np.int64)
        for column, size in zip(columns, shape, strict=True):
            at = at * size + self._codes[records, column]
        vectors[at[matching], np.flatnonzero(matching)] = True
        return vectors


def _checked(schema: Schema, codes: Any, *, lowest: int) -> NDArray[np.int64]:
    cells = np.asarray(codes)
    if cells.size == 0:
        cells = np.zeros((0, len(schema.columns)), np.int64)
    if cells.ndim != 2 or cells.shape[1] != len(schema.columns) or cells.dtype.kind not in "iu":
        raise ParameterError(
            f"cells must be whole numbers: one row per record, {len(schema.columns)} columns"
        )
    if len(cells) >= _MOST_ROWS:
        raise ParameterError(f"at most {_MOST_ROWS:,} rows can be counted together")
    for at, (name, size) in enumerate(zip(schema.columns, schema.sizes, strict=True)):
        if len(cells) and not lowest <= cells[:, at].min() <= cells[:, at].max() < size:
            raise ParameterError(
                f"column `{name}` has cells outside its {size} categories",
                remedy="Add the missing categories to the schema, on both sides.",
            )
    return cells.astype(np.int64, copy=False)


def _check_table(cells: int) -> None:
    if cells > _LARGEST_TABLE:
        raise ParameterError(
            f"a table of {cells:,} combinations is too large",
            remedy="Use fewer columns or categories, or fewer parents.",
        )


_BYTES = 1 << 22
"""Hash output worked on at a time."""


def scalar_product(session: Session, mine: Any, *, ring: Ring) -> Shares:
    """Shares of the number of positions where Alice's and Bob's bits are both one.

    Examples
    --------
    >>> from sfumato.secure import reveal, together
    >>> ring = Ring.power_of_two(32)
    >>> def party(session):
    ...     bits = [1, 1, 0, 1] if session.is_alice else [0, 1, 1, 1]
    ...     count = scalar_product(session, np.array(bits, bool), ring=ring)
    ...     return int(reveal(session, count, what="the count")[0])
    >>> together(party, party)
    (2, 2)
    """
    vector = _binary(mine)
    if vector.ndim != 1:
        raise ParameterError("a scalar product takes one vector from each side")
    return cross_counts(session, vector[None, :], theirs=1, ring=ring)


def cross_counts(session: Session, mine: Any, *, theirs: int, ring: Ring) -> Shares:
    """Scalar products of each of Alice's binary vectors with each of Bob's.

    With one-hot rows of a column on each side this is the contingency table of the two columns.

    Parameters
    ----------
    mine
        My vectors, bool[vectors, n].
    theirs
        How many vectors the other side has.
    ring
        Modulo what the counts are shared; 2^L with L above log2 n is smallest and fastest.

    Returns
    -------
    Shares
        Of Alice's number times Bob's number of counts; index ``a * bobs + b``.
    """
    return many_cross_counts(session, [(mine, theirs)], ring=ring)[0]


def many_cross_counts(
    session: Session, tasks: Sequence[tuple[Any, int]], *, ring: Ring, backend: str = "ot"
) -> list[Shares]:
    """`cross_counts` of many tasks, small ones in common messages.

    Parameters
    ----------
    tasks
        Pairs of my vectors and the number of the other side's, as in `cross_counts`.
    backend
        ``"ot"``, or ``"paillier"``: one encryption for each of Bob's bits, as the paper has it.
    """
    jobs = [_Job.of(session, mine, theirs, ring) for mine, theirs in tasks]
    shapes = [(job.vectors.shape[1], job.alices, job.bobs) for job in jobs]
    session.begin("cross counts", tasks=shapes, ring=ring, backend=backend)
    if backend == "paillier":
        sizes = [job.bobs if session.is_alice else job.alices for job in jobs]
        both = zip(jobs, sizes, strict=True)
        return [Shares(ring, paillier_counts(session, j.vectors, n, ring)) for j, n in both]
    if not ring.is_power_of_two or ring.bits > 64:
        return [_one_by_one(session, job, ring) for job in jobs]
    batches = _batches(jobs)
    with session.overlapping(sum(piece.length for batch in batches for piece in batch)):
        if session.is_alice:
            _offer_all(session, batches)
        else:
            _take_all(session, batches)
    mask = np.uint64(ring.modulus - 1)
    flat = (np.ascontiguousarray(job.counts.T).reshape(-1, 1) for job in jobs)
    return [Shares(ring, values & mask) for values in flat]


@dataclass(frozen=True)
class _Job:
    """One task: my vectors, how many each side has, and the sums so far."""

    vectors: NDArray[np.uint8]
    alices: int
    bobs: int
    width: int
    """Bytes of a correction: an element for each of Alice's vectors."""
    counts: NDArray[np.uint64]

    @classmethod
    def of(cls, session: Session, mine: Any, theirs: int, ring: Ring) -> _Job:
        vectors = _binary(mine)
        if vectors.ndim != 2 or not len(vectors) or theirs < 1:
            raise ParameterError("vectors must form a table, with at least one row on each side")
        alices, bobs = (len(vectors), theirs) if session.is_alice else (theirs, len(vectors))
        width = alices * ((ring.bits + 7) // 8)
        return cls(vectors, alices, bobs, width, np.zeros((bobs, alices), np.uint64))

    @property
    def words(self) -> int:
        """Words of hash output a transfer."""
        return 2 * ((self.width + 15) // 16)


@dataclass(frozen=True)
class _Piece:
    """Some records of a job, against one of Bob's vectors."""

    job: _Job
    bob: int
    records: slice

    @property
    def length(self) -> int:
        return int(self.records.stop - self.records.start)

    @property
    def bits(self) -> NDArray[np.uint8]:
        """Bob's bits."""
        bits: NDArray[np.uint8] = self.job.vectors[self.bob, self.records]
        return bits


def _batches(jobs: Sequence[_Job]) -> list[list[_Piece]]:
    """Pieces of all jobs, as many together as make some megabytes of hash output."""
    batches: list[list[_Piece]] = [[]]
    room = _BYTES
    for job in jobs:
        n, each = job.vectors.shape[1], 8 * job.words
        step = max(128, _BYTES // each // 128 * 128)
        for bob in range(job.bobs):
            for start in range(0, n, step):
                piece = _Piece(job, bob, slice(start, min(start + step, n)))
                if batches[-1] and piece.length * each > room:
                    batches.append([])
                    room = _BYTES
                batches[-1].append(piece)
                room -= piece.length * each
    return batches


def _with_keys(
    batch: Sequence[_Piece], keys: NDArray[np.uint64]
) -> Iterator[tuple[_Piece, NDArray[np.uint64]]]:
    start = 0
    for piece in batch:
        yield piece, keys[start : start + piece.length]
        start += piece.length


def _offer_all(session: Session, batches: Sequence[Sequence[_Piece]]) -> None:
    for batch in batches:
        keys = session.ot_sender.extend(sum(piece.length for piece in batch))
        messages = [_offer(session, *pair) for pair in _with_keys(batch, keys)]
        session.channel.send("cross counts: corrections", np.concatenate(messages))


def _take_all(session: Session, batches: Sequence[Sequence[_Piece]]) -> None:
    choices = (np.concatenate([piece.bits for piece in batch]) for batch in batches)
    asked = session.ot_receiver.ahead(choices)
    for batch, (_, keys) in zip(batches, asked, strict=True):
        size = sum(piece.length * piece.job.width for piece in batch)
        raw = session.channel.receive("cross counts: corrections", size)
        message, start = np.frombuffer(raw, np.uint8), 0
        for piece, own in _with_keys(batch, keys):
            end = start + piece.length * piece.job.width
            _take(session, piece, own, message[start:end])
            start = end


def _offer(session: Session, piece: _Piece, keys: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Alice's corrections; her pads are added to the counts."""
    job = piece.job
    rows = np.ascontiguousarray(job.vectors[:, piece.records].T)
    zero, one = (_narrow(p, job.width) for p in hashed(session, keys, job.words))
    message = np.empty((len(rows), job.width), np.uint8)
    _kernels.vector_send(zero, one, rows, message, job.counts[piece.bob])
    return message.reshape(-1)


def _take(
    session: Session, piece: _Piece, keys: NDArray[np.uint64], message: NDArray[np.uint8]
) -> None:
    """What Bob's bits choose is added to the counts."""
    job = piece.job
    (chosen,) = (_narrow(p, job.width) for p in hashed(session, keys, job.words))
    received = message.reshape(chosen.shape)
    _kernels.vector_receive(chosen, piece.bits, received, job.counts[piece.bob])


def _one_by_one(session: Session, job: _Job, ring: Ring) -> Shares:
    """The general way, for odd moduli and large rings: one product a record and pair."""
    pairs = []
    for a in range(job.alices):
        for b in range(job.bobs):
            mine = ring.encode(job.vectors[a if session.is_alice else b])
            pairs.append(ring.sum(cross_products(session, ring, mine, used=1), len(mine)))
    return Shares(ring, np.concatenate(pairs))


def _narrow(words: NDArray[np.uint64], size: int) -> NDArray[np.uint8]:
    return words.view(np.uint8)[:, :size]


def _binary(mine: Any) -> NDArray[np.uint8]:
    vectors = np.asarray(mine)
    if vectors.dtype != bool and not (
        vectors.dtype.kind in "iu" and ((vectors == 0) | (vectors == 1)).all()
    ):
        raise ParameterError("binary vectors may hold only true and false")
    if not vectors.size:
        raise ParameterError("these vectors have no elements")
    return vectors.astype(np.uint8)
