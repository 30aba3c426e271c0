"""Columns that say the same in other words, such as `education` and `education-num`.

Two columns are equivalent if each decides the other: they have as many classes alone as together.
They give every answer twice, so only the first of them is used in a search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from sfumato import kernels
from sfumato.budget import Budget
from sfumato.columns.profile import ColumnFacts, Profile
from sfumato.engines.results import Codes

if TYPE_CHECKING:
    from sfumato.tables import Table

__all__ = [
    "equivalents",
    "expanded",
    "find_twins",
]


def find_twins(table: Table, look: Profile, budget: Budget) -> tuple[tuple[str, ...], ...]:
    """Groups of columns that decide each other, each group in the order of the table.

    Columns with one value and keys are left out: all of them are trivially alike. Every group is
    exact: the sample only spares counting pairs that already differ there.
    """
    by_shape: dict[tuple[int, int], list[ColumnFacts]] = {}
    for facts in look.facts:
        if not facts.is_constant and not facts.is_key:
            by_shape.setdefault((facts.classes, facts.unique_rows), []).append(facts)
    groups = []
    for alike in by_shape.values():
        groups.extend(_groups(table, look, alike, budget))
    order = {name: at for at, name in enumerate(table.columns)}
    return tuple(sorted(groups, key=lambda group: order[group[0]]))


def _groups(
    table: Table, look: Profile, alike: Sequence[ColumnFacts], budget: Budget
) -> list[tuple[str, ...]]:
    """Being twins is an equivalence, so each column is compared with one member of each group."""
    groups: list[list[ColumnFacts]] = []
    for facts in alike:
        for group in groups:
            if _decide_each_other(table, look, group[0], facts, budget):
                group.append(facts)
                break
        else:
            groups.append([facts])
    return [tuple(facts.name for facts in group) for group in groups if len(group) > 1]


def _decide_each_other(
    table: Table, look: Profile, one: ColumnFacts, other: ColumnFacts, budget: Budget
) -> bool:
    from sfumato import kernels

    pair = (one.name, other.name)
    codes = look.sample.select(pair)
    seen = [_classes(codes.select([name]).arrays[0], len(codes.values_of(name))) for name in pair]
    _, together = kernels.class_ids(
        codes.arrays, codes.cardinalities, entries=codes.entries, ordered=False
    )
    if not seen[0] == seen[1] == together:
        return False
    return look.whole or table.class_sizes(pair, budget).classes == one.classes


def _classes(codes: object, cardinality: int) -> int:
    from sfumato import kernels

    return int((kernels.group_sums(codes, cardinality) > 0).sum())  # type: ignore[arg-type]


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


def expanded(
    sets: Sequence[tuple[int, ...]], twins: Mapping[int, tuple[int, ...]]
) -> list[tuple[int, ...]]:
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
