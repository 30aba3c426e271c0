"""Columns that say the same in other words, such as `education` and `education-num`.

Two columns are twins if each decides the other: they have as many classes alone as together. Twins
give every answer twice, so only the first of them is used in the search.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sfumato.budget import Budget
from sfumato.quasi.looking import Look
from sfumato.quasi.roles import ColumnFacts

if TYPE_CHECKING:
    from sfumato.tables import Table

__all__ = ["find_twins"]


def find_twins(table: Table, look: Look, budget: Budget) -> tuple[tuple[str, ...], ...]:
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
    table: Table, look: Look, alike: Sequence[ColumnFacts], budget: Budget
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
    table: Table, look: Look, one: ColumnFacts, other: ColumnFacts, budget: Budget
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
