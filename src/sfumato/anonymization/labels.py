"""Labels of a release beside the values of its table: whoever reads one must know which it is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.anonymization.problem import Shape
from sfumato.anonymization.solving import Solved
from sfumato.hierarchy import Published, ValueSets
from sfumato.hierarchy.labels import as_text

__all__ = ["label_warnings"]


def label_warnings(parts: Sequence[Solved]) -> list[str]:
    """Sentences about columns whose values look like labels.

    Sets and stars of our own making step aside, which must be said; the labels of a tree are the
    user's, and stay.
    """
    told: dict[str, None] = {}
    for part in parts:
        for name, shown in part.solution.published.items():
            shape = part.problem.shapes[name]
            sentence = _unusual(name, shape, shown) or _ambiguous(name, shape, shown)
            if sentence is not None:
                told[sentence] = None
    return list(told)


def _unusual(name: str, shape: Shape, shown: Published) -> str | None:
    """A set or star that was released in another form than usual."""
    if not isinstance(shape, ValueSets):
        return None
    covers = shown.leaf_count[np.unique(shown.codes[shown.codes >= 0])]
    if shape.everything != "*" and (covers == shape.size).any() and shape.size > 1:
        return (
            f"values of column `{name}` are stars themselves: where any value may stand, the "
            f"release shows {shape.everything}"
        )
    if shape.braces > 1 and ((covers > 1) & (covers < shape.size)).any():
        return (
            f"values of column `{name}` are written like sets: sets of the release have "
            f"{shape.braces} braces on each side"
        )
    return None


def _ambiguous(name: str, shape: Shape, shown: Published) -> str | None:
    """Labels of a tree that are values too, and were released for more than that value."""
    used = np.unique(shown.codes[shown.codes >= 0])
    blurred = used[shown.leaf_count[used] > 1]
    labels = {shown.labels[int(at)].as_py() for at in blurred}
    values = set(as_text(shape.values).to_pylist())
    both = len((labels & values) - {None})
    if not both:
        return None
    return (
        f"{both:,} labels of column `{name}` stand for several values and are values too: readers "
        "cannot tell which is meant; rename them in the tree"
    )
