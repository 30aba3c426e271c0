"""Transactions by the algorithm AA of Terrovitis, Mamoulis & Kalnis (VLDB 2008), an oracle.

Items are recoded all alike, to nodes of a tree, until every set of at most m of them that some
transaction holds is held by k. For every size up to m, AA looks for sets that are held too rarely
and climbs to the node by which least is lost.

The paper shows transactions as sets: two items below one node are shown once. Histories show two
events as two, so whoever knows two of them knows more. For that promise AA counts multisets.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.hierarchy import Hierarchy

ITEMS, LEVELS = 16, 4


def ancestors(item: int) -> list[str]:
    """An item and the nodes above it, each with two children."""
    return [f"i{item}", *(f"n{level}.{item >> level}" for level in range(1, LEVELS)), "*"]


def leaves(node: str) -> int:
    return 1 if node[0] == "i" else ITEMS if node == "*" else 1 << int(node[1])


def lost(node: str) -> float:
    """NCP of an item that is shown as a node."""
    return 0.0 if leaves(node) == 1 else leaves(node) / ITEMS


def held(one: list[int], shown: dict[int, str], size: int, twice: bool) -> set[tuple[str, ...]]:
    """What may be known of a transaction: so many of its nodes."""
    nodes = [shown[item] for item in one]
    return set(combinations(sorted(nodes if twice else set(nodes)), size))


def apriori_anonymization(
    transactions: list[list[int]], k: int, m: int, *, twice: bool
) -> dict[int, str]:
    """The node that each item is shown as; `twice` counts multisets."""
    shown = {item: f"i{item}" for item in range(ITEMS)}

    def climb(node: str) -> None:
        for item in range(ITEMS):
            if node in ancestors(item):
                shown[item] = node

    for size in range(1, m + 1):
        while True:
            support: Counter[tuple[str, ...]] = Counter()
            for one in transactions:
                support.update(held(one, shown, size, twice))
            rare = next((some for some, number in sorted(support.items()) if number < k), None)
            if rare is None:
                break
            climb(_cheapest(rare, shown, transactions))
    return shown


def _cheapest(rare: tuple[str, ...], shown: dict[int, str], transactions: list[list[int]]) -> str:
    """The parent of a node of a rare set by which least is lost."""
    often = Counter(item for one in transactions for item in one)

    def price(parent: str) -> float:
        under = [item for item in range(ITEMS) if parent in ancestors(item)]
        return sum(often[item] * (lost(parent) - lost(shown[item])) for item in under)

    parents = set()
    for node in rare:
        item = next(item for item in range(ITEMS) if shown[item] == node)
        path = ancestors(item)
        if node != "*":
            parents.add(path[path.index(node) + 1])
    return min(sorted(parents), key=price)


def transactions_of(seed: int, persons: int) -> list[list[int]]:
    random = np.random.default_rng(seed)
    popular = 1 / np.arange(1, ITEMS + 1) ** 0.7
    popular /= popular.sum()
    return [
        sorted(random.choice(ITEMS, random.integers(1, 6), replace=False, p=popular).tolist())
        for _ in range(persons)
    ]


def test_items_shown_once_hide_what_two_events_tell() -> None:
    transactions = transactions_of(0, 300)
    shown = apriori_anonymization(transactions, 5, 2, twice=False)
    support: Counter[tuple[str, ...]] = Counter()
    for one in transactions:
        support.update(held(one, shown, 2, twice=True))
    assert min(support.values()) < 5


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_no_more_is_lost_than_by_apriori_anonymization(m: int, seed: int, key: Path) -> None:
    transactions = transactions_of(seed, 300)
    k = 5
    by_oracle = apriori_anonymization(transactions, k, m, twice=True)
    rows = [(f"p{at}", f"i{item}") for at, one in enumerate(transactions) for item in one]
    loss = float(np.mean([lost(by_oracle[int(item[1:])]) for _, item in rows]))
    levels = [[ancestors(item)[level] for item in range(ITEMS)] for level in range(LEVELS + 1)]
    tree = Hierarchy.from_levels([pa.array(level) for level in levels])
    release = sf.anonymize(
        pa.table({"who": [who for who, _ in rows], "item": [item for _, item in rows]}),
        qi=["item"],
        k=k,
        m=m,
        person="who",
        linkable=True,
        key_file=key,
        hierarchies={"item": tree},
        infer_hierarchies=False,
    )
    left = release.details["linkable"]["rows_left_out"]
    shown = [lost(node) for node in release.to_arrow()["item"].to_pylist()]
    ours = (sum(shown) + left) / len(rows)
    assert ours <= loss + 1e-9
