"""Difference sets: the columns in which two rows that are left together differ."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sfumato import kernels
from sfumato.engines.codes import Codes

__all__ = ["differences_within", "differences_within_classes"]

WITNESS_ROWS = 20_000
"""Rows among which pairs are looked for at a time."""
ORDERS = 4
"""In how many random column orders neighbours are compared."""

Sets = npt.NDArray[np.bool_]


def differences_within(codes: Codes, columns: Sequence[int], random: np.random.Generator) -> Sets:
    """Difference sets of rows that a column set leaves together, small ones preferred."""
    chosen = codes.select([codes.columns[c] for c in columns])
    partition = (
        kernels.partition_of(chosen.arrays, chosen.cardinalities)
        if columns
        else kernels.whole(codes.entries)
    )
    return differences_within_classes(codes, partition, random)


def differences_within_classes(
    codes: Codes,
    partition: kernels.Partition,
    random: np.random.Generator,
    *,
    rows: int = WITNESS_ROWS,
    orders: int = ORDERS,
) -> Sets:
    """Difference sets of neighbours within random classes, as rows of booleans.

    Rows are sorted by all columns in random order: neighbours then agree on long prefixes, and
    their difference sets are small. Equal rows are passed over.
    """
    picked, class_of = _some_classes(partition, random, rows)
    if not len(picked):
        return np.zeros((0, len(codes.columns)), dtype=np.bool_)
    table = np.stack([array[picked] for array in codes.arrays], axis=1)
    found = []
    for _ in range(orders):
        order = random.permutation(table.shape[1])
        by = np.lexsort([*(table[:, c] for c in order[::-1]), class_of])
        together = class_of[by[1:]] == class_of[by[:-1]]
        found.append(_distinct(table[by[1:]][together] != table[by[:-1]][together]))
    demands = np.concatenate(found)
    return demands[demands.any(axis=1)]


def _distinct(sets: Sets) -> Sets:
    """Each set once."""
    packed = np.packbits(sets, axis=1)
    _, first = np.unique(packed.view(f"V{packed.shape[1]}"), return_index=True)
    return sets[first]


def _some_classes(
    partition: kernels.Partition, random: np.random.Generator, wanted: int
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """Rows of random classes, whole where they are small, with the number of their class."""
    # Every class holds two rows at least.
    order = random.choice(partition.classes, min(partition.classes, wanted // 2 + 1), replace=False)
    sizes = partition.starts[order + 1] - partition.starts[order]
    taken = np.minimum(sizes, max(2, wanted // 4))
    order = order[: int(np.searchsorted(np.cumsum(taken), wanted)) + 1]
    rows = []
    for at in order:
        members = partition.rows[partition.starts[at] : partition.starts[at + 1]]
        if len(members) > max(2, wanted // 4):
            members = members[np.sort(random.choice(len(members), max(2, wanted // 4), False))]
        rows.append(members)
    if not rows:
        return np.zeros(0, dtype=np.uint32), np.zeros(0, dtype=np.int64)
    class_of = np.repeat(np.arange(len(rows)), [len(members) for members in rows])
    return np.concatenate(rows), class_of
