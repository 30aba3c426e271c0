"""The histogram of class sizes: the one figure almost everything is a function of.

Rows that agree on a set of columns form a *class*. `ClassSizes` says how many classes there are of
each size; the measures of Motwani & Xu and the uniqueness of Lodha & Thomas follow from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["ClassSizes"]


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
        sizes, classes = np.unique(counts[counts > 0], return_counts=True)
        return cls(sizes.astype(np.int64), classes.astype(np.int64))

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
