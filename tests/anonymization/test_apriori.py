"""Transactions by the algorithm AA of Terrovitis, Mamoulis & Kalnis (VLDB 2008), an oracle.

Items are recoded all alike, to nodes of a tree, until every set of at most m of them that some
transaction holds is held by k. For every size up to m, AA looks for sets that are held too rarely,
one after the other, and recodes their items by the nodes above them that make the set frequent and
lose least; or, read more plainly, climbs to the one parent by which least is lost, again and again.

The paper shows transactions as sets: two items below one node are shown once, and so they are where
repeats are (`repeats="once"`). Where all rows are kept, whoever knows two of them knows more, and
for that promise AA counts multisets.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.hierarchy import Hierarchy

Cut = dict[int, str]
Transactions = list[list[int]]


@dataclass(frozen=True)
class Items:
    """A tree of items, and what showing a node loses.

    `paths` has an item and the nodes above it for every item. The paper counts all leaves below a
    node, and Sfumato those that occur, without the one that is shown.
    """

    paths: list[list[str]]
    occur: frozenset[int]
    as_in_the_paper: bool

    @classmethod
    def of(cls, paths: list[list[str]], held: Transactions, paper: bool) -> Items:
        return cls(paths, frozenset(item for one in held for item in one), paper)

    def under(self, node: str) -> list[int]:
        return [item for item, path in enumerate(self.paths) if node in path]

    def lost(self, node: str) -> float:
        leaves = self.under(node)
        if self.as_in_the_paper:
            return len(leaves) / len(self.paths) if len(leaves) > 1 else 0.0
        there = sum(item in self.occur for item in leaves)
        return (there - 1) / max(len(self.occur) - 1, 1) if there else 0.0

    def total(self, shown: Cut, held: Transactions) -> float:
        """The mean loss of all items of all transactions."""
        lost = {node: self.lost(node) for node in {*shown.values()}}
        return float(np.mean([lost[shown[item]] for one in held for item in one]))


def binary(levels: int = 4) -> list[list[str]]:
    """Sixteen items in a tree of two children each."""
    return [
        [f"i{item}", *(f"n{level}.{item >> level}" for level in range(1, levels)), "*"]
        for item in range(1 << levels)
    ]


def random_paths(random: np.random.Generator) -> list[list[str]]:
    """Items in a random tree of two to four levels."""
    size, levels = int(random.integers(4, 14)), int(random.integers(2, 5))
    cells = np.arange(size)
    paths = [[f"i{item}"] for item in range(size)]
    for level in range(1, levels):
        cells = np.sort(random.integers(0, max(2, size >> level), int(cells.max()) + 1))[cells]
        cells = np.unique(cells, return_inverse=True)[1]
        for path, cell in zip(paths, cells.tolist(), strict=True):
            path.append(f"n{level}.{cell}")
    return [[*path, "*"] for path in paths]


def held_by(one: list[int], shown: Cut, size: int, twice: bool) -> set[tuple[str, ...]]:
    """What may be known of a transaction: so many of its nodes."""
    nodes = [shown[item] for item in one]
    return set(combinations(sorted(nodes if twice else {*nodes}), size))


def supports(held: Transactions, shown: Cut, size: int, twice: bool) -> Counter[tuple[str, ...]]:
    return Counter(some for one in held for some in held_by(one, shown, size, twice))


def climbed(items: Items, shown: Cut, nodes: tuple[str, ...]) -> Cut:
    """A cut with some nodes in the place of all below them."""
    return {
        item: max([shown[item], *(n for n in nodes if n in path)], key=path.index)
        for item, path in enumerate(items.paths)
    }


def apriori_anonymization(
    items: Items, held: Transactions, k: int, m: int, *, twice: bool, plainly: bool
) -> Cut:
    """The node that each item is shown as; `twice` counts multisets."""
    shown = {item: path[0] for item, path in enumerate(items.paths)}
    way = _one_parent if plainly else _enough
    for size in range(1, m + 1):
        while True:
            rare = [s for s, n in sorted(supports(held, shown, size, twice).items()) if n < k]
            if not rare:
                break
            shown = way(items, held, shown, rare[0], k, twice)
    return shown


def _one_parent(
    items: Items, held: Transactions, shown: Cut, rare: tuple[str, ...], k: int, twice: bool
) -> Cut:
    """The parent of a node of a rare set by which least is lost."""
    parents = {path[path.index(n) + 1] for n in {*rare} for path in items.paths if n in path[:-1]}
    cuts = [climbed(items, shown, (one,)) for one in sorted(parents)]
    return min(cuts, key=lambda cut: items.total(cut, held))


def _enough(
    items: Items, held: Transactions, shown: Cut, rare: tuple[str, ...], k: int, twice: bool
) -> Cut:
    """Of all nodes above those of a rare set, the ones that make it frequent and lose least."""
    above = [next(path[path.index(n) :] for path in items.paths if n in path) for n in rare]
    cuts = []
    for nodes in {*product(*above)}:
        cut = climbed(items, shown, nodes)
        now = [cut[next(i for i in items.under(n) if shown[i] == n)] for n in rare]
        some = tuple(sorted(now if twice else {*now}))
        if supports(held, cut, len(some), twice)[some] >= k:
            cuts.append((items.total(cut, held), sorted(cut.items())))
    return dict(min(cuts)[1]) if cuts else dict.fromkeys(shown, "*")


def transactions_of(seed: int, persons: int, items: int = 16, most: int = 5) -> Transactions:
    """Persons with up to so many of the items, some of which are popular."""
    random = np.random.default_rng(seed)
    popular = 1 / np.arange(1, items + 1) ** 0.7
    popular /= popular.sum()
    return [
        sorted(
            random.choice(items, random.integers(1, most + 1), replace=False, p=popular).tolist()
        )
        for _ in range(persons)
    ]


def released(
    paths: list[list[str]], held: Transactions, k: int, m: int, key: Path, repeats: str
) -> tuple[list[list[str]], list[list[str]]]:
    """For every transaction the node that each item is shown as ("" if it is left out), and all
    that is shown."""
    rows = [(at, item) for at, one in enumerate(held) for item in one]
    levels = zip(*({tuple(path): None for path in paths}), strict=True)
    table = pa.table(
        {
            "who": [f"p{at}" for at, _ in rows],
            "item": [paths[item][0] for _, item in rows],
            "row": [at / 2 for at in range(len(rows))],
        }
    )
    tree = Hierarchy.from_levels([pa.array(level) for level in levels])
    asked: dict[str, Any] = {"hierarchies": {"item": tree}, "infer_hierarchies": False}
    asked |= {"person": "who", "linkable": True, "key_file": key, "repeats": repeats}
    release = sf.anonymize(table, qi=["item"], k=k, m=m, **asked).to_arrow().to_pylist()
    shown: list[list[str]] = [[] for _ in held]
    for row in release:
        shown[rows[int(2 * row["row"])][0]].append(row["item"])
    if repeats == "once":
        assert all(len(one) == len({*one}) for one in shown)
    cells = [
        [next((node for node in paths[item] if node in mine), "") for item in one]
        for one, mine in zip(held, shown, strict=True)
    ]
    return cells, shown


def loss_of(items: Items, cells: list[list[str]]) -> float:
    return float(np.mean([items.lost(node) if node else 1.0 for one in cells for node in one]))


def test_items_shown_once_hide_what_two_events_tell() -> None:
    held = transactions_of(0, 300)
    items = Items.of(binary(), held, paper=True)
    shown = apriori_anonymization(items, held, 5, 2, twice=False, plainly=False)
    assert min(supports(held, shown, 2, twice=False).values()) >= 5
    assert min(supports(held, shown, 2, twice=True).values()) < 5


@pytest.mark.parametrize("repeats", ["keep", "once"])
@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))]
)
def test_no_more_is_lost_than_by_apriori_anonymization(
    m: int, seed: int, repeats: str, key: Path
) -> None:
    held = transactions_of(seed, 300)
    cells, _ = released(binary(), held, 5, m, key, repeats)
    for paper in (False, True):
        items = Items.of(binary(), held, paper)
        for plainly in (False, True):
            twice = repeats == "keep"
            by_oracle = apriori_anonymization(items, held, 5, m, twice=twice, plainly=plainly)
            assert loss_of(items, cells) <= items.total(by_oracle, held) + 1e-9


@pytest.mark.parametrize(
    "seeds",
    [range(15), pytest.param(range(15, 200), marks=pytest.mark.slow)],
    ids=["some", "many"],
)
def test_sets_of_random_trees_lose_no_more_than_by_apriori_anonymization(
    seeds: range, key: Path
) -> None:
    """And whoever knows any m items of somebody is left with k persons, counted here."""
    for seed in seeds:
        random = np.random.default_rng(seed)
        paths, k, m = random_paths(random), int(random.integers(2, 6)), int(random.integers(1, 4))
        held = transactions_of(seed, int(random.integers(10, 80)), len(paths), min(5, len(paths)))
        cells, shown = released(paths, held, k, m, key, "once")
        assert all(node for one in cells for node in one)  # nothing is lost but by looking alike
        for one in held:
            for some in (s for size in range(1, m + 1) for s in combinations(one, size)):
                fits = [
                    mine
                    for mine in shown
                    if all(any(node in mine for node in paths[item]) for item in some)
                ]
                assert len(fits) >= k
        items = Items.of(paths, held, paper=False)
        for plainly in (False, True):
            by_oracle = apriori_anonymization(items, held, k, m, twice=False, plainly=plainly)
            assert loss_of(items, cells) <= items.total(by_oracle, held) + 1e-9
