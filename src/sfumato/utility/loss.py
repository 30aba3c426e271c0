"""How much less precise the cells became. All are 0 for the original and grow to 1."""

from __future__ import annotations

import numpy as np

from sfumato.hierarchy import Published
from sfumato.hierarchy.tree import Array
from sfumato.utility.view import View

__all__ = [
    "certainty_penalty",
    "column_losses",
    "general_loss",
    "granularity",
    "information_loss",
    "non_uniform_entropy",
]


def certainty_penalty(view: View) -> float:
    """Normalized certainty penalty (Xu et al. 2006): the mean over all cells.

    A category costs (leaves - 1) / (values - 1), leaves and values counted among those that occur
    in the table; a range costs its width over the column's; a dropped row costs 1 a cell.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> from sfumato.hierarchy import Ranges
    >>> age = Ranges(pa.array([20, 25, 60]), "age")
    >>> view = View({"age": np.arange(3)}, {"age": age.published([0, 0, 2], [1, 1, 2])})
    >>> round(certainty_penalty(view), 4)
    0.0833
    """
    return _mean(view, [_weighted(view, shown.loss, shown) for shown in view.published.values()])


def column_losses(view: View) -> dict[str, float]:
    """Normalized certainty penalty of each column alone."""
    return {
        name: _weighted(view, shown.loss, shown) / max(view.rows, 1)
        for name, shown in view.published.items()
    }


def information_loss(view: View) -> float:
    """Sum over all rows and columns of height(node)/height(tree); a dropped row costs 1 a column.

    Byun et al. 2006 and Miller, Campan & Truta 2008, where it is written per cluster; ranges cost
    their share of the column's width.
    """
    return sum(_weighted(view, shown.height_loss, shown) for shown in view.published.values())


def general_loss(view: View) -> float:
    """Iyengar's general loss metric: the penalty counted among all values of a hierarchy."""
    sums = [_weighted(view, shown.domain_loss, shown) for shown in view.published.values()]
    return _mean(view, sums)


def granularity(view: View) -> float:
    """Share of precision that is left, 1 minus the general loss; ARX shows it under this name."""
    return 1.0 - general_loss(view)


def non_uniform_entropy(view: View) -> float:
    """Bits lost about the original values, over the bits lost by suppressing everything.

    De Waal & Willenborg 1999, Gionis & Tassa 2009: a cell that shows b costs
    log2(rows whose value lies below b / rows with its own value). 0 where nothing can be lost.
    """
    lost = possible = 0.0
    for name, shown in view.published.items():
        codes = view.original[name]
        held = np.bincount(codes, weights=view.weight).astype(float)
        held = np.append(held, np.zeros(max(0, int(shown.order.max(initial=-1)) + 1 - len(held))))
        own = np.maximum(held[codes], 1.0)
        below = np.full(len(codes), float(view.rows))
        below[view.kept] = shown.weight(held)[shown.codes[view.kept]]
        lost += float((view.weight * np.log2(np.maximum(below, own) / own)).sum())
        possible += float((view.weight * np.log2(view.rows / own)).sum())
    return lost / possible if possible > 0 else 0.0


def _weighted(view: View, per_entry: Array, shown: Published) -> float:
    """Sum of a cost over all rows of a column; 1 for a dropped row."""
    kept = view.kept
    released = float((view.weight[kept] * per_entry[shown.codes[kept]]).sum())
    return released + view.suppressed_rows


def _mean(view: View, sums: list[float]) -> float:
    """Over all cells; 0 for a table without any."""
    return sum(sums) / max(view.rows * len(sums), 1)
