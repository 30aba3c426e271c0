"""Trees against walks from node to node."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.hierarchy import Tree
from sfumato.hierarchy.tree import climb, join_table, lowest_common_ancestors


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """Random ragged trees: parents have larger ids, every inner node has a child."""
    leaves = draw(st.integers(1, 12))
    parents: list[int] = []
    open_nodes = list(range(leaves))
    next_id = leaves
    parent = {}
    while len(open_nodes) > 1 or next_id == leaves:
        take = draw(st.integers(1, min(4, len(open_nodes))))
        chosen = draw(st.permutations(open_nodes))[:take]
        for node in chosen:
            parent[node] = next_id
        open_nodes = [node for node in open_nodes if node not in chosen] + [next_id]
        next_id += 1
        if next_id > leaves + 30:
            for node in open_nodes:
                parent[node] = next_id
            open_nodes = [next_id]
            next_id += 1
    parents = [parent.get(node, -1) for node in range(next_id)]
    return Tree.grow(parents, leaves)


def path(tree: Tree, node: int) -> list[int]:
    way = [node]
    while tree.parent[way[-1]] >= 0:
        way.append(int(tree.parent[way[-1]]))
    return way


def leaves_below(tree: Tree, node: int) -> set[int]:
    return {leaf for leaf in range(tree.size) if node in path(tree, leaf)}


@given(trees())
def test_every_array_agrees_with_walking(tree: Tree) -> None:
    for node in range(tree.nodes):
        below = leaves_below(tree, node)
        assert tree.depth[node] == len(path(tree, node)) - 1
        assert tree.level[node] == max(path(tree, leaf).index(node) for leaf in below)
        assert tree.leaf_count[node] == len(below)
        run = tree.order[tree.first[node] : tree.last[node] + 1]
        assert set(run.tolist()) == below
    assert tree.position[tree.order].tolist() == list(range(tree.size))
    assert tree.height == tree.level[tree.root]


@given(trees())
def test_levels_are_nested_groups(tree: Tree) -> None:
    for leaf in range(tree.size):
        for level in range(tree.height + 1):
            allowed = [node for node in path(tree, leaf) if tree.level[node] <= level]
            assert tree.ancestors[leaf, level] == allowed[-1]


@given(trees(), st.data())
def test_lowest_common_ancestor_of_a_set(tree: Tree, data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(0, tree.size - 1), min_size=1))
    common = [node for node in path(tree, chosen[0]) if leaves_below(tree, node) >= set(chosen)]
    positions = tree.position[chosen]
    low, high = positions.min(), positions.max()
    start = tree.order[low]
    assert climb(tree.parent, tree.first, tree.last, start, low, high) == common[0]
    table = join_table(tree.parent, tree.first, tree.last, tree.position)
    node = chosen[0]
    for leaf in chosen[1:]:
        node = table[node, leaf]
    assert node == common[0]


def test_an_empty_span_has_no_ancestor() -> None:
    tree = Tree.grow([2, 2, -1], size=2)
    found = lowest_common_ancestors(
        tree.parent, tree.first, tree.last, tree.order, np.array([1, 0]), np.array([0, 1])
    )
    assert found.tolist() == [-1, 2]


@given(trees(), st.data())
def test_pruning_keeps_levels_and_ancestors(tree: Tree, data: st.DataObject) -> None:
    leaves = data.draw(st.lists(st.integers(-1, tree.size - 1), min_size=1, unique=True))
    smaller, kept = tree.prune(np.array(leaves))
    assert smaller.height == tree.height
    old = [*leaves, *kept.tolist()]
    for new, leaf in enumerate(leaves):
        if leaf < 0:
            assert path(smaller, new) == [new, smaller.root]
        else:
            assert [old[node] for node in path(smaller, new)] == path(tree, leaf)
    assert smaller.level[len(leaves) :].tolist() == tree.level[kept].tolist()


def test_arrays_cannot_be_written() -> None:
    tree = Tree.grow([2, 2, -1], size=2)
    with pytest.raises(ValueError, match="read-only"):
        tree.parent[0] = 1


def test_parents_below_children_are_refused() -> None:
    with pytest.raises(ValueError, match="parents"):
        Tree.grow([1, 0, -1], size=1)
    with pytest.raises(ValueError, match="one root"):
        Tree.grow([-1, -1], size=2)
