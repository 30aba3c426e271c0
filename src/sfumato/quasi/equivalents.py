"""Columns that decide each other: one of them stands for all in a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from sfumato import kernels
from sfumato.engines.codes import Codes
from sfumato.quasi.lattice import Set

__all__ = ["equivalents", "expanded"]


def equivalents(codes: Codes) -> Mapping[int, tuple[int, ...]]:
    """For each column that stands for others, those others; two classes of columns never meet.

    Columns decide each other if they make as many classes together as alone.
    """
    groups: list[list[int]] = []
    for column, cardinality in enumerate(codes.cardinalities):
        if cardinality < 2:
            continue
        for group in groups:
            if codes.cardinalities[group[0]] == cardinality and _alike(codes, group[0], column):
                group.append(column)
                break
        else:
            groups.append([column])
    return {group[0]: tuple(group[1:]) for group in groups if len(group) > 1}


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
