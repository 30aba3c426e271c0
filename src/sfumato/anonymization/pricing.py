"""What a group of rows costs: the loss of what it shows, column by column, for compiled loops.

Clustering asks millions of times "what would this group lose if that entry joined it?". The answer
needs little memory of a group: on a tree the node it shows, on a line its ends, for a set of values
which of them it holds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.anonymization.problem import Problem
from sfumato.anonymization.space import axes_of
from sfumato.errors import ParameterError, did_you_mean
from sfumato.hierarchy import EncodedHierarchy, ValueSets

__all__ = ["LOSSES", "Prices", "prices_of"]

Array = npt.NDArray[Any]
LINE, TREE, SET = 0, 1, 2
KIND, SLOT, END, PRICE, CAP, PARENT, FIRST, LAST, LEAF = range(9)
"""Columns of `Prices.head`."""

WORD = 63
"""Values remembered by one number of a set; the sign stays out of it."""

LOSSES = ("certainty", "height")
"""Share of the column's values that a cell covers, or its level in the tree over the height."""


class Prices(NamedTuple):
    """Prices of all columns, packed into three arrays so that compiled functions take them fast.

    Attributes
    ----------
    head
        One row a column: its kind; where a group's memory of it begins and ends (the node; or the
        two ends; or the number of values and the values as bits); where its prices lie in `floats`
        (of nodes, of places on the line, of one more value), and its highest price; where its
        tree lies in `ints` (parents, first and last positions of nodes, node of each position).
    ints, floats
        What `head` points into. Prices are losses in [0, 1] times the column's weight.
    """

    head: Array
    ints: Array
    floats: Array

    @property
    def slots(self) -> int:
        """Numbers that a group's memory takes."""
        return int(self.head[-1, END])


def prices_of(problem: Problem, loss: str = "certainty") -> Prices:
    """Prices of a problem's columns, in the order of its quasi-identifiers.

    Parameters
    ----------
    loss
        ``certainty`` counts the values that a cell covers (normalized certainty penalty),
        ``height`` the level of its node (information loss of Byun et al. 2006).
    """
    if loss not in LOSSES:
        raise ParameterError(f"there is no loss `{loss}`", remedy=did_you_mean(loss, LOSSES))
    axes = axes_of(problem)
    head = np.zeros((len(problem.qi), 9), dtype=np.int64)
    ints, floats = _Pool(np.int64), _Pool(np.float64)
    slot = 0
    for axis, name in enumerate(problem.qi):
        shape, weight = problem.shapes[name], problem.weight(name)
        row = head[axis]
        row[SLOT] = slot
        row[CAP] = floats.add(np.array([weight]))
        if isinstance(shape, EncodedHierarchy):
            row[KIND] = TREE
            price = shape.loss if loss == "certainty" else shape.relative_height
            row[PRICE] = floats.add(price * weight)
            row[PARENT] = ints.add(shape.parent)
            row[FIRST] = ints.add(shape.first)
            row[LAST] = ints.add(shape.last)
            row[LEAF] = ints.add(shape.order)
            slot += 1
        elif isinstance(shape, ValueSets):
            row[KIND] = SET
            row[PRICE] = floats.add(np.array([weight / max(shape.size - 1, 1)]))
            slot += 2 + shape.size // WORD
        else:
            row[KIND] = LINE
            places = axes.places[axes.offsets[axis] : axes.offsets[axis + 1]]
            row[PRICE] = floats.add(places * weight)
            slot += 2
        row[END] = slot
    return Prices(head, ints.joined(), floats.joined())


class _Pool:
    """Arrays laid one after the other."""

    def __init__(self, dtype: type) -> None:
        self.parts: list[Array] = [np.zeros(0, dtype)]
        self.dtype = dtype
        self.length = 0

    def add(self, part: Array) -> int:
        """Where the array begins."""
        self.parts.append(part.astype(self.dtype))
        self.length += len(part)
        return self.length - len(part)

    def joined(self) -> Array:
        return np.concatenate(self.parts)
