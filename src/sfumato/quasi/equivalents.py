"""Columns that decide each other: one of them stands for all in a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from sfumato import kernels
from sfumato.engines.codes import Codes
from sfumato.quasi.lattice import Set

__all__ = ["equivalents", "expanded"]

LOOKED_AT = 512
"""About how many rows are looked at before whole columns are compared."""


def equivalents(codes: Codes) -> Mapping[int, tuple[int, ...]]:
    """For each column that stands for others, those others; two classes of columns never meet.

    Columns decide each other if they make as many classes together as alone.
    """
    alike: dict[bytes, list[int]] = {}
    for column, cardinality in enumerate(codes.cardinalities):
        if cardinality > 1:
            alike.setdefault(_look(codes, column), []).append(column)
    groups: list[list[int]] = []
    for columns in alike.values():
        sizes: dict[bytes, list[list[int]]] = {}
        for column in columns if len(columns) > 1 else ():
            for group in (same := sizes.setdefault(_class_sizes(codes, column), [])):
                if _alike(codes, group[0], column):
                    group.append(column)
                    break
            else:
                same.append([column])
        groups += [group for same in sizes.values() for group in same if len(group) > 1]
    return {group[0]: tuple(group[1:]) for group in sorted(groups)}


def _look(codes: Codes, column: int) -> bytes:
    """Some rows of a column, values numbered as they appear: the same for columns alike."""
    some = codes.arrays[column][:: max(1, codes.entries // LOOKED_AT)]
    _, first, at = np.unique(some, return_index=True, return_inverse=True)
    numbered = np.argsort(np.argsort(first))[at]
    return bytes(numbered.astype(np.uint32)) + str(codes.cardinalities[column]).encode()


def _class_sizes(codes: Codes, column: int) -> bytes:
    """How often the values of a column occur, in ascending order: the same for columns alike."""
    return bytes(np.sort(kernels.group_sums(codes.arrays[column], codes.cardinalities[column])))


def _alike(codes: Codes, one: int, other: int) -> bool:
    _, together = kernels.class_ids(
        [codes.arrays[one], codes.arrays[other]],
        [codes.cardinalities[one], codes.cardinalities[other]],
        ordered=False,
    )
    return together == codes.cardinalities[one]


def expanded(sets: Sequence[Set], twins: Mapping[int, tuple[int, ...]]) -> list[Set]:
    """All sets that arise when columns are exchanged for those that say the same.

    Examples
    --------
    >>> expanded([(0, 1)], {1: (2,)})
    [(0, 1), (0, 2)]
    """
    return [
        tuple(sorted(choice))
        for columns in sets
        for choice in product(*((c, *twins.get(c, ())) for c in columns))
    ]
