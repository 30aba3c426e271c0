"""What a hierarchy looks like, in a few figures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.hierarchy.hierarchy import Hierarchy
from sfumato.results import Result

__all__ = ["HierarchySummary", "describe"]


@dataclass(frozen=True)
class HierarchySummary(Result):
    """Size and shape of a hierarchy.

    Attributes
    ----------
    name
        Column or file.
    values
        Values at the leaves.
    labels
        Distinct labels on each level, leaves first.
    uniform
        Whether all values are equally deep.
    ambiguous
        Labels that stand for different nodes on different levels: marks must name the level.
    reason
        Why it was made this way, where it was inferred.
    file
        Where it was written, if it was.
    """

    name: str
    values: int
    height: int
    labels: tuple[int, ...]
    uniform: bool
    ambiguous: int
    reason: str | None = None
    file: str | None = None


def describe(
    hierarchy: Hierarchy, name: str, reason: str | None = None, file: str | None = None
) -> HierarchySummary:
    """Describe a hierarchy.

    Examples
    --------
    >>> h = Hierarchy.from_levels([["a", "b", "c"], ["x", "x", "c"], ["*"] * 3])
    >>> found = describe(h, "letters")
    >>> found.labels, found.height, found.ambiguous
    ((3, 2, 1), 2, 0)
    """
    tree = hierarchy.tree
    labels = tuple(len(np.unique(tree.ancestors[:, level])) for level in range(tree.height + 1))
    numbered = np.asarray(hierarchy.labels.dictionary_encode().indices)
    meaning = np.unique(np.stack([numbered, tree.first, tree.last], axis=1), axis=0)
    _, meanings = np.unique(meaning[:, 0], return_counts=True)
    return HierarchySummary(
        name=name,
        values=tree.size,
        height=tree.height,
        labels=labels,
        uniform=tree.uniform,
        ambiguous=int((meanings > 1).sum()),
        reason=reason,
        file=file,
    )
