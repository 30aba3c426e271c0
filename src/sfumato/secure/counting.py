"""How often values occur together in rows that two parties hold between them.

Two ways of holding them. *Rows*: each side has whole records of its own, and its own counts are
its shares. *Cells*: both have the same records, and each cell belongs to one of them. A record
matches a conjunction if it matches Alice's cells and Bob's cells; so every count is a scalar
product of binary vectors (Yang & Wright), taken for whole contingency tables at a time.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError
from sfumato.secure.dot_product import many_cross_counts
from sfumato.secure.logarithm import COUNTS
from sfumato.secure.schema import Schema, agree
from sfumato.secure.shares import Ring, Shares, private, zeros

if TYPE_CHECKING:
    from sfumato.secure.session import Session

__all__ = ["Held", "HeldCells", "HeldRows", "Part"]

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
