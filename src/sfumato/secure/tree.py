"""A decision tree over categories, as both parties learn it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError
from sfumato.results import Result
from sfumato.secure.schema import Schema

__all__ = ["DecisionTree", "Leaf", "Split"]


@dataclass(frozen=True)
class Leaf:
    """An end of the tree: the category of the target that is predicted."""

    label: int


@dataclass(frozen=True)
class Split:
    """An inner node: the column it asks for, and one branch for each of its categories."""

    column: int
    branches: tuple[Leaf | Split, ...]


@dataclass(frozen=True)
class DecisionTree(Result):
    """A tree that predicts one column from the others.

    Examples
    --------
    >>> schema = Schema.of({"sex": ["f", "m"], "ill": ["no", "yes"]})
    >>> tree = DecisionTree(schema, "ill", Split(0, (Leaf(0), Leaf(1))))
    >>> tree.predict(np.array([[1, 0], [0, 0]])).tolist(), tree.depth, tree.leaves
    ([1, 0], 1, 2)
    """

    schema: Schema = field(metadata={"private": True})
    target: str
    root: Leaf | Split = field(metadata={"private": True})
    tolerance: float = 0.0
    """Where gains (nats a row) differ by more, the tree is the one of the pooled rows."""

    @property
    def depth(self) -> int:
        """Questions on the longest way down."""
        return max(len(path) for path, _ in self.walk())

    @property
    def leaves(self) -> int:
        """Number of ends."""
        return sum(isinstance(node, Leaf) for _, node in self.walk())

    @property
    def splits(self) -> int:
        """Number of inner nodes."""
        return sum(isinstance(node, Split) for _, node in self.walk())

    def walk(self) -> Iterator[tuple[tuple[tuple[int, int], ...], Leaf | Split]]:
        """All nodes, each with its path: columns and categories from the root."""
        waiting: list[tuple[tuple[tuple[int, int], ...], Leaf | Split]] = [((), self.root)]
        while waiting:
            path, node = waiting.pop()
            yield path, node
            if isinstance(node, Split):
                below = enumerate(node.branches)
                waiting += [((*path, (node.column, v)), branch) for v, branch in below]

    def predict(self, codes: Any) -> NDArray[np.int64]:
        """The predicted category of each record, int[records, columns] as in the schema."""
        cells = np.asarray(codes)
        if cells.ndim != 2 or cells.shape[1] != len(self.schema.columns):
            raise ParameterError("records have one number for each column of the schema")
        found = np.empty(len(cells), np.int64)
        waiting: list[tuple[Leaf | Split, NDArray[np.int64]]] = [(self.root, np.arange(len(cells)))]
        while waiting:
            node, rows = waiting.pop()
            if isinstance(node, Leaf):
                found[rows] = node.label
                continue
            asked = cells[rows, node.column]
            waiting += [(branch, rows[asked == v]) for v, branch in enumerate(node.branches)]
        return found

    def simplified(self) -> DecisionTree:
        """The same predictions with as few questions: splits whose leaves all agree are leaves."""
        return replace(self, root=_simplified(self.root))

    def to_dict(self) -> dict[str, Any]:
        """Target, size and the nested tree, by names of columns and categories."""
        shape = {"depth": self.depth, "leaves": self.leaves, "splits": self.splits}
        return {**super().to_dict(), **shape, "tree": self._named(self.root)}

    def _named(self, node: Leaf | Split) -> dict[str, Any]:
        if isinstance(node, Leaf):
            return {"label": self.schema.values[self.schema.position(self.target)][node.label]}
        names = self.schema.values[node.column]
        branches = zip(names, node.branches, strict=True)
        return {
            "column": self.schema.columns[node.column],
            "branches": {name: self._named(branch) for name, branch in branches},
        }


def _simplified(node: Leaf | Split) -> Leaf | Split:
    if isinstance(node, Leaf):
        return node
    branches = tuple(_simplified(branch) for branch in node.branches)
    if isinstance(branches[0], Leaf) and len(set(branches)) == 1:
        return branches[0]
    return Split(node.column, branches)
