"""All measures that need nothing but the release and its original."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.results import Result
from sfumato.utility.classes import (
    Similarity,
    average_class_size,
    discernibility,
    majority_penalty,
    similarity,
    weighted_discernibility,
)
from sfumato.utility.loss import (
    certainty_penalty,
    column_losses,
    general_loss,
    granularity,
    information_loss,
    non_uniform_entropy,
)
from sfumato.utility.queries import distribution_distances
from sfumato.utility.view import View

__all__ = ["Utility", "summarize"]


@dataclass(frozen=True)
class Utility(Result):
    """What a release cost.

    Attributes
    ----------
    certainty_penalty
        Normalized certainty penalty, 0 to 1; `columns` has it for each column.
    information_loss
        Sum of heights over the heights of the trees; `information_loss_share` is a cell's average.
    general_loss, granularity, non_uniform_entropy
        Further losses of precision (granularity is what is left).
    discernibility, weighted_discernibility, average_class_size
        Costs of large classes.
    distribution
        How far each column's distribution moved.
    similarity
        How alike rows were within classes and between them.
    majority_penalty
        Share of rows that differ from their class's majority in the target; None without one.
    """

    certainty_penalty: float
    columns: Mapping[str, float]
    information_loss: float
    information_loss_share: float
    general_loss: float
    granularity: float
    non_uniform_entropy: float
    discernibility: int
    weighted_discernibility: float
    average_class_size: float
    suppressed_rows: int
    suppressed_cells: int
    distribution: Mapping[str, float]
    similarity: Similarity
    majority_penalty: float | None = None


def summarize(
    view: View, *, weights: Mapping[str, float] | None = None, target: Any = None
) -> Utility:
    """Compute every measure of a release at once.

    Parameters
    ----------
    weights
        Importance of the columns, for weighted discernibility.
    target
        Code of a target column for every row, for the majority penalty.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> from sfumato.hierarchy import Ranges
    >>> age = Ranges(pa.array([20, 25, 60]), "age")
    >>> view = View({"age": np.arange(3)}, {"age": age.published([0, 0, 2], [1, 1, 2])})
    >>> cost = summarize(view)
    >>> cost.discernibility, round(cost.certainty_penalty, 4), cost.suppressed_rows
    (5, 0.0833, 0)
    """
    lost = information_loss(view)
    return Utility(
        certainty_penalty=certainty_penalty(view),
        columns=column_losses(view),
        information_loss=lost,
        information_loss_share=lost / max(view.rows * len(view.columns), 1),
        general_loss=general_loss(view),
        granularity=granularity(view),
        non_uniform_entropy=non_uniform_entropy(view),
        discernibility=discernibility(view),
        weighted_discernibility=weighted_discernibility(view, weights),
        average_class_size=average_class_size(view),
        suppressed_rows=view.suppressed_rows,
        suppressed_cells=view.suppressed_cells,
        distribution=distribution_distances(view),
        similarity=similarity(view),
        majority_penalty=None if target is None else majority_penalty(view, target),
    )
