"""What an engine answers: classes as codes, and the histogram of their sizes.

Algorithms never see values, they see *codes*: one array a column, uint8/16/32 by the number of
distinct values. Codes are ranks: a smaller code is a smaller value (numbers by value, text byte by
byte, then NaN, then null), so the same table has the same codes whichever engine read it.

Rows that agree on a set of columns form a *class*. `ClassSizes` says how many classes there are of
each size; the measures of Motwani & Xu and the uniqueness of Lodha & Thomas follow from it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as t

from sfumato.engines.protocol import Column
from sfumato.errors import TooManyClassesError

__all__ = [
    "CELL_BYTES",
    "TEXT_COPIES",
    "ClassSizes",
    "Codes",
    "Pairing",
    "PersonSizes",
    "as_declared",
    "beginnings",
    "codes_of",
    "rows_identity",
    "smallest_dtype",
    "too_many_classes",
    "usual_dtype",
]

CodeArray = npt.NDArray[Any]

CELL_BYTES = 64
"""What a cell of a combination takes, at most, until the problem it is part of is solved.

It comes as text, with its parsed copy, and becomes a code.
"""
TEXT_COPIES = 5
"""How often a text that is different in every row is held at once while texts are numbered."""
_NO_BURDEN = 1 << 24
"""Codes in a table that may take twice the memory they need."""


@dataclass(frozen=True)
class Pairing:
    """How the values of a column and persons go together, on rows that have both.

    Attributes
    ----------
    values, persons, rows
        How many there are.
    of_values, of_persons
        Rows of each value that are of its most frequent person, in all; and of each person that
        have her most frequent value.
    """

    values: int
    persons: int
    rows: int
    of_values: int
    of_persons: int


@dataclass(frozen=True, eq=False)
class Codes:
    """Entries of a table as codes: rows, or distinct combinations with counts.

    Parameters
    ----------
    columns
        Column names.
    arrays
        One array of codes a column, all of the same length.
    values
        For each column its distinct values in order of their codes, as an Arrow array; a null, if
        any, is the last entry.
    counts
        How many rows each entry stands for; None when every entry is one row.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> codes = Codes(("sex",), (np.array([0, 1, 0], np.uint8),), (pa.array(["F", "M"]),))
    >>> codes.entries, codes.rows, codes.cardinalities
    (3, 3, (2,))
    """

    columns: tuple[str, ...]
    arrays: tuple[CodeArray, ...]
    values: tuple[pa.Array, ...]
    counts: npt.NDArray[np.int64] | None = None
    length: int | None = None
    """Number of entries; needed only when there are no columns."""

    @property
    def entries(self) -> int:
        """Number of entries (rows, or distinct combinations)."""
        return len(self.arrays[0]) if self.arrays else (self.length or 0)

    @property
    def rows(self) -> int:
        """Number of rows the entries stand for."""
        return self.entries if self.counts is None else int(self.counts.sum())

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """Number of distinct values of each column."""
        return tuple(len(values) for values in self.values)

    @property
    def row_counts(self) -> npt.NDArray[np.int64]:
        """How many rows each entry stands for, also where every entry is one row."""
        return np.ones(self.entries, np.int64) if self.counts is None else self.counts

    def numbered(self, columns: Sequence[str]) -> tuple[npt.NDArray[np.uint32], int]:
        """A number for what each entry has in some columns, and how many numbers there are."""
        from sfumato.kernels import class_ids

        chosen = self.select(columns)
        return class_ids(chosen.arrays, chosen.cardinalities, entries=self.entries)

    def select(self, columns: Sequence[str]) -> Codes:
        """The same entries with fewer columns, in the order given; nothing is copied."""
        at = [self.columns.index(name) for name in columns]
        return Codes(
            tuple(columns),
            tuple(self.arrays[i] for i in at),
            tuple(self.values[i] for i in at),
            self.counts,
            self.entries,
        )

    def take(self, entries: npt.NDArray[Any]) -> Codes:
        """Some entries, by index or boolean mask, with the same codes and values."""
        counts = None if self.counts is None else self.counts[entries]
        arrays = tuple(array[entries] for array in self.arrays)
        length = len(arrays[0]) if arrays else int(np.arange(self.entries)[entries].size)
        return Codes(self.columns, arrays, self.values, counts, length)

    def column(self, name: str) -> CodeArray:
        """The codes of one column."""
        return self.arrays[self.columns.index(name)]

    def values_of(self, name: str) -> pa.Array:
        """The distinct values of one column, in order of their codes."""
        return self.values[self.columns.index(name)]


def smallest_dtype(cardinality: int) -> np.dtype[Any]:
    """The narrowest unsigned integer that holds codes below `cardinality`.

    Examples
    --------
    >>> smallest_dtype(256), smallest_dtype(257)
    (dtype('uint8'), dtype('uint16'))
    """
    if cardinality <= 1 << 8:
        return np.dtype(np.uint8)
    return np.dtype(np.uint16) if cardinality <= 1 << 16 else np.dtype(np.uint32)


def usual_dtype(cardinality: int, size: int) -> np.dtype[Any]:
    """As `smallest_dtype`, but not below 16 bits for a table of codes that is no burden.

    Long loops take many seconds to compile for each width: what was compiled for a table with 300
    values in a column then serves one with 200 as well.

    Examples
    --------
    >>> usual_dtype(2, size=1000), usual_dtype(2, size=1 << 30)
    (dtype('uint16'), dtype('uint8'))
    """
    return smallest_dtype(max(cardinality, 257) if size <= _NO_BURDEN else cardinality)


@dataclass(frozen=True, eq=False)
class ClassSizes:
    """How many classes there are of each size.

    Parameters
    ----------
    sizes
        The sizes that occur, ascending.
    classes_of_size
        How many classes have that size.

    Examples
    --------
    >>> sizes = ClassSizes.of({1: 2, 3: 1})
    >>> sizes.rows, sizes.classes, sizes.unique_rows, sizes.k
    (5, 3, 2, 1)
    >>> sizes.distinct, sizes.separation
    (0.6, 0.7)
    """

    sizes: npt.NDArray[np.int64]
    classes_of_size: npt.NDArray[np.int64]

    @classmethod
    def of(cls, histogram: Mapping[int, int]) -> ClassSizes:
        """From a mapping of size to number of classes."""
        items = sorted((int(s), int(c)) for s, c in histogram.items() if c)
        return cls(
            np.array([s for s, _ in items], dtype=np.int64),
            np.array([c for _, c in items], dtype=np.int64),
        )

    @classmethod
    def of_counts(cls, counts: npt.NDArray[Any]) -> ClassSizes:
        """From the size of every class, in any order; zeros are ignored."""
        from sfumato.kernels.groups import histogram_of

        return cls(*histogram_of(counts))

    def to_dict(self) -> dict[int, int]:
        """The histogram as a plain mapping."""
        pairs = zip(self.sizes.tolist(), self.classes_of_size.tolist(), strict=True)
        return dict(pairs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClassSizes) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(s * c for s, c in self.to_dict().items())

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(self.classes_of_size.sum())

    @property
    def unique_rows(self) -> int:
        """Rows that are alone in their class."""
        return self.to_dict().get(1, 0)

    @property
    def k(self) -> int | None:
        """Size of the smallest class; None for a table without rows."""
        return int(self.sizes[0]) if len(self.sizes) else None

    @property
    def unseparated_pairs(self) -> int:
        """Pairs of rows in a common class, an exact integer of any size."""
        return sum(s * (s - 1) // 2 * c for s, c in self.to_dict().items())

    @property
    def distinct(self) -> float:
        """Distinct ratio: classes / rows (1 for no rows)."""
        return self.classes / self.rows if self.rows else 1.0

    @property
    def separation(self) -> float:
        """Separation ratio: the share of pairs of rows that differ (1 below two rows)."""
        return float(self.exact_separation)

    @property
    def exact_separation(self) -> Fraction:
        """The separation ratio without rounding."""
        n = self.rows
        if n < 2:
            return Fraction(1)
        pairs = n * (n - 1) // 2
        return Fraction(pairs - self.unseparated_pairs, pairs)

    @property
    def unique(self) -> float:
        """Share of rows that are alone in their class (1 for no rows)."""
        return self.unique_rows / self.rows if self.rows else 1.0

    def rows_below(self, k: int) -> int:
        """Rows in classes smaller than `k`."""
        small = self.sizes < k
        return int((self.sizes[small] * self.classes_of_size[small]).sum())


@dataclass(frozen=True, eq=False)
class PersonSizes:
    """Classes of a column set A, where several rows may be one person's.

    Parameters
    ----------
    rows, parted
        Class sizes of A, and of A together with the person, in rows.
    persons
        Class sizes of A in persons.
    alone
        Persons who have a combination that nobody else has.
    number
        Persons of the table.
    same
        Pairs of rows of one person.
    """

    rows: ClassSizes
    parted: ClassSizes
    persons: ClassSizes
    alone: int
    number: int
    same: int

    @classmethod
    def counted(cls, codes: Codes, who: CodeArray, number: int) -> PersonSizes:
        """Of entries and the person of each.

        Examples
        --------
        >>> import pyarrow as pa
        >>> sex = Codes(("sex",), (np.array([0, 0, 1, 1], np.uint8),), (pa.array(["F", "M"]),))
        >>> sizes = PersonSizes.counted(sex, np.array([0, 0, 0, 1], np.uint8), 2)
        >>> sizes.k, sizes.alone, sizes.unseparated_pairs, sizes.pairs_of_persons
        (1, 1, 1, 3)
        """
        from sfumato import kernels

        ids, count = kernels.class_ids(codes.arrays, codes.cardinalities, entries=codes.entries)
        both, parts = kernels.refine(ids, count, who, max(number, 1), ordered=False)
        first = np.asarray(kernels.representatives(both, parts), dtype=np.int64)
        held = np.bincount(ids[first], minlength=count)
        alone = np.unique(who[first][held[ids[first]] == 1])
        own = ClassSizes.of_counts(kernels.group_sums(who, max(number, 1), codes.counts))
        return cls(
            ClassSizes.of_counts(kernels.group_sums(ids, count, codes.counts)),
            ClassSizes.of_counts(kernels.group_sums(both, parts, codes.counts)),
            ClassSizes.of_counts(held),
            len(alone),
            number,
            own.unseparated_pairs,
        )

    @property
    def k(self) -> int | None:
        """Persons of the smallest class; None for a table without rows."""
        return self.persons.k

    @property
    def unseparated_pairs(self) -> int:
        """Pairs of rows of different persons in a common class."""
        return self.rows.unseparated_pairs - self.parted.unseparated_pairs

    @property
    def pairs_of_persons(self) -> int:
        """Pairs of rows of different persons."""
        rows = self.rows.rows
        return rows * (rows - 1) // 2 - self.same

    @property
    def distinct(self) -> float:
        """Classes over different (class, person); 1 where every class is one person's."""
        return self.rows.classes / self.parted.classes if self.parted.classes else 1.0

    @property
    def separation(self) -> float:
        """Share of the pairs of rows of different persons that differ (1 without such pairs)."""
        total = self.pairs_of_persons
        return float(Fraction(total - self.unseparated_pairs, total)) if total else 1.0

    @property
    def unique(self) -> float:
        """Share of persons who have a combination that nobody else has (1 for no rows)."""
        return self.alone / self.number if self.number else 1.0


def as_declared(found: pa.Table, columns: Sequence[Column]) -> pa.Table:
    """An answer under the names and in the types that its columns are declared with.

    Engines have fewer types than Arrow (one size of text, microseconds); what comes back is cast.
    """
    if not columns:
        return found.select([])
    arrays = [_cast(found.column(at), column.type) for at, column in enumerate(columns)]
    return pa.table(arrays, names=[column.name for column in columns])


def codes_of(found: pa.Table, limit: int | None, where: str) -> Codes:
    """Classes that came back with their counts in the last column, as codes."""
    from sfumato.engines.encoding import codes_from_arrow

    if limit is not None and found.num_rows > limit:
        raise too_many_classes(found.column_names[:-1], limit, where)
    return codes_from_arrow(found, found.column_names[-1])


def too_many_classes(columns: Sequence[str], limit: int, where: str) -> TooManyClassesError:
    """What to say when a column set has more classes than were asked for."""
    named = ", ".join(f"`{name}`" for name in columns)
    return TooManyClassesError(
        f"the columns {named} have more than {limit:,} classes",
        where=where,
        remedy="Ask for fewer columns, coarser values or a higher limit.",
    )


def rows_identity(found: pa.Table, columns: Sequence[Column], engine: str) -> str:
    """Fingerprint from a row count and the sums of the four chunks of all row hashes.

    Row hashes are the engine's own, so the engine is part of the fingerprint.
    """
    rows, *sums = (int(column[0].as_py() or 0) for column in found.columns)
    total = sum(chunk << 32 * (3 - at) for at, chunk in enumerate(sums)) & ((1 << 128) - 1)
    whole = hashlib.sha256(f"{rows}\n{total:032x}\n".encode())
    for column in columns:
        whole.update(f"{len(column.name.encode())}:{column.name}:{column.kind}\n".encode())
    return f"{engine}-rows:{whole.hexdigest()}"


def _cast(array: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    if array.type == type_:
        return array
    if t.is_null(type_):
        return pa.chunked_array([pa.nulls(len(array))])
    return array.cast(type_)


def beginnings(arrays: Sequence[CodeArray], entries: int) -> npt.NDArray[np.bool_] | None:
    """Where another combination begins, if the entries are in ascending order; else None."""
    new, same = np.zeros(entries, dtype=bool), np.ones(max(entries - 1, 0), dtype=bool)
    new[:1] = True
    for array in arrays:
        if (same & (array[1:] < array[:-1])).any():
            return None
        same &= array[1:] == array[:-1]
    new[1:] = ~same
    return new
