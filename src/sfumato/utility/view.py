"""A release beside the table it was made from, row by row: what every measure of utility reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.errors import ColumnError
from sfumato.hierarchy import Published
from sfumato.hierarchy.tree import Array

__all__ = ["View"]


@dataclass(frozen=True, eq=False)
class View:
    """Original codes and published cells of the quasi-identifiers, aligned.

    Parameters
    ----------
    original
        Codes of each column in the original table.
    published
        What each row shows in the release; a suppressed row shows nothing in any column.
    counts
        Rows that each entry stands for; 1 each by default.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from sfumato.hierarchy import Ranges
    >>> age = Ranges(pa.array([20, 25, 60]), "age")
    >>> shown = age.published([0, 0, 2, 0], [1, 1, 2, -1])
    >>> view = View({"age": np.array([0, 1, 2, 1])}, {"age": shown})
    >>> view.rows, view.suppressed_rows, view.class_sizes.tolist()
    (4, 1, [2, 1])
    """

    original: Mapping[str, Array]
    published: Mapping[str, Published]
    counts: Array | None = None

    def __post_init__(self) -> None:
        for name, shown in self.published.items():
            if name not in self.original or len(self.original[name]) != len(shown):
                raise ColumnError(
                    f"column `{name}` has not one original value for each released one",
                    remedy="Give original codes and cells of the same rows.",
                )

    @property
    def columns(self) -> tuple[str, ...]:
        """The quasi-identifiers."""
        return tuple(self.published)

    @cached_property
    def weight(self) -> Array:
        """Rows each entry stands for."""
        if self.counts is not None:
            return np.asarray(self.counts, dtype=np.int64)
        length = len(next(iter(self.published.values()))) if self.published else 0
        return np.ones(length, dtype=np.int64)

    @cached_property
    def kept(self) -> Array:
        """Whether each entry is in the release."""
        kept = np.ones(len(self.weight), dtype=bool)
        for shown in self.published.values():
            kept &= shown.codes >= 0
        return kept

    @property
    def rows(self) -> int:
        """Rows of the original table."""
        return int(self.weight.sum())

    @property
    def suppressed_rows(self) -> int:
        """Rows that are not in the release."""
        return int(self.weight[~self.kept].sum())

    @property
    def suppressed_cells(self) -> int:
        """Cells of released rows that tell nothing any more: ``*``, or all there is."""
        weight = self.weight[self.kept]
        return sum(
            int(weight[shown.loss[shown.codes[self.kept]] >= 1.0].sum())
            for shown in self.published.values()
        )

    def labels(self, column: str) -> Array:
        """A number for the text each released entry shows in a column; equal text, equal number."""
        shown = self.published[column]
        numbered = shown.labels.dictionary_encode(null_encoding="encode").indices
        return np.asarray(numbered)[shown.codes[self.kept]]

    @cached_property
    def classes(self) -> tuple[Array, int]:
        """The class of each released entry in the release, and the number of classes."""
        from sfumato.kernels import class_ids

        arrays = tuple(self.labels(name).astype(np.uint32) for name in self.columns)
        ids, number = class_ids(
            arrays,
            tuple(int(array.max(initial=0)) + 1 for array in arrays),
            entries=int(self.kept.sum()),
        )
        return ids.astype(np.int64), number

    @cached_property
    def class_sizes(self) -> Array:
        """Rows of each class of the release."""
        ids, number = self.classes
        return np.bincount(ids, weights=self.weight[self.kept], minlength=number).astype(np.int64)
