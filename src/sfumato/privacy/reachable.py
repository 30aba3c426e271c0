"""What no amount of blurring can reach, the best that can be, and how many rows are in the way.

All models are monotone: the union of classes is never worse than the worst of them. So what the
largest class allowed does not satisfy, no release of its rows satisfies; without boundaries the
largest class is the whole table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.errors import ParameterError
from sfumato.hierarchy.tree import Array
from sfumato.privacy.histogram import ClassHistogram
from sfumato.privacy.models import (
    AlphaK,
    Closeness,
    DistinctDiversity,
    EntropyDiversity,
    KAnonymity,
    KMap,
    Model,
    RecursiveDiversity,
    Sensitivity,
)
from sfumato.privacy.rules import TOLERANCE, SensitiveColumn

__all__ = ["Reach", "reach", "require_reachable"]


@dataclass(frozen=True)
class Reach:
    """How far a model can be met by rows that may only share a class within their block.

    Attributes
    ----------
    asked
        The demand, e.g. ``distinct l-diversity of illness with l = 3``.
    best
        What may be asked at most, e.g. ``l <= 2``.
    reason
        What stands in the way in the best block, as counts of rows.
    blocked_rows, blocked_blocks
        Rows in blocks that do not satisfy the model even as one class, and how many blocks.
    """

    asked: str
    best: str
    reason: str
    blocked_rows: int
    blocked_blocks: int


def reach(
    model: Model,
    sizes: Array,
    histogram: ClassHistogram | None = None,
    column: SensitiveColumn | None = None,
    crowds: Array | None = None,
) -> Reach:
    """The best that a model can have in any block, and which rows do not get that far.

    Parameters
    ----------
    sizes
        Rows of each block.
    histogram, column
        The sensitive column in each block, and in the whole table, for models that have one.
    crowds
        People of a population in each block, for k-map.

    Examples
    --------
    >>> illness = SensitiveColumn(np.array([5, 3]))
    >>> blocks = ClassHistogram.of(np.array([0, 0, 1]), 2, np.array([0, 1, 0]), 2, [2, 3, 3])
    >>> found = reach(DistinctDiversity(2, "illness"), np.array([5, 3]), blocks, illness)
    >>> found.best, found.blocked_rows
    ('l <= 2', 3)
    """
    if isinstance(model, (KAnonymity, KMap)):
        counted, what = sizes, "rows at most can be alike"
        if isinstance(model, KMap):
            assert crowds is not None
            counted, what = crowds, "people at most can match a row"
        largest = int(counted.max(initial=0))
        return Reach(
            f"{model.name} with k = {model.k:,}",
            f"k <= {largest:,}",
            f"{largest:,} {what}",
            *_blocked(sizes, counted < model.k),
        )
    assert histogram is not None
    assert column is not None
    fails, best, reason = _measured(model, sizes, histogram, column)
    return Reach(
        f"{model.name} of `{model.column}` with {_asked(model)}",
        best,
        reason,
        *_blocked(sizes, fails),
    )


def require_reachable(
    models: Sequence[Model], sensitive: Mapping[str, SensitiveColumn], rows: int
) -> None:
    """Refuse demands that the whole table as one class does not satisfy.

    Parameters
    ----------
    models
        What is asked.
    sensitive
        The sensitive columns of the table.
    rows
        Rows of the table.

    Raises
    ------
    ParameterError
        Says what is asked, the best that can be reached, and which rows are in the way.

    Examples
    --------
    >>> illness = SensitiveColumn(np.array([5, 3]))
    >>> require_reachable([DistinctDiversity(3, "illness")], {"illness": illness}, 8)
    Traceback (most recent call last):
        ...
    sfumato.errors.ParameterError: distinct l-diversity of `illness` with l = 3 cannot be reached: \
all 8 rows together hold 2 distinct values, the commonest in 5 rows. Ask for l <= 2.
    """
    whole = np.array([rows])
    for model in models:
        if isinstance(model, (KAnonymity, Sensitivity, AlphaK)) and model.k > rows:
            raise ParameterError(
                f"{model.name} with k = {model.k:,} cannot be reached: the table has {rows:,} rows",
                remedy=f"Ask for k <= {rows:,}." if rows else "There is nothing to release.",
            )
        if isinstance(model, (KAnonymity, KMap)) or rows == 0:
            continue
        column = sensitive[model.column]
        codes = np.arange(len(column.counts))
        one = ClassHistogram.of(np.zeros(len(codes)), 1, codes, len(codes), column.counts)
        found = reach(model, whole, one, column)
        if found.blocked_rows:
            raise ParameterError(
                f"{found.asked} cannot be reached: {found.reason}",
                remedy=f"Ask for {found.best}.",
            )


def _blocked(sizes: Array, fails: Array) -> tuple[int, int]:
    return int(sizes[fails].sum()), int(fails.sum())


def _asked(model: Model) -> str:
    assert not isinstance(model, (KAnonymity, KMap))
    if isinstance(model, (DistinctDiversity, EntropyDiversity)):
        return f"l = {model.l:g}"
    if isinstance(model, RecursiveDiversity):
        return f"c = {model.c:g} and l = {model.l}"
    if isinstance(model, Sensitivity):
        return f"p = {model.p} and k = {model.k:,}"
    if isinstance(model, AlphaK):
        return f"α = {model.alpha:g} and k = {model.k:,}"
    return f"t = {model.t:g}"


def _measured(
    model: Model, sizes: Array, histogram: ClassHistogram, column: SensitiveColumn
) -> tuple[Array, str, str]:
    """Which blocks fail, the best that any has, and why it has no better."""
    if isinstance(model, (DistinctDiversity, Sensitivity)):
        return _values(model, sizes, histogram)
    if isinstance(model, EntropyDiversity):
        entropy = histogram.entropy
        at = int(np.argmax(entropy))
        best = math.floor(float(np.exp(entropy[at])) * 1e4) / 1e4
        reason = f"the evenest class possible has {best:g}, since " + _commonest(histogram, at)
        return entropy < np.log(model.l) - TOLERANCE, f"l <= {best:g}", reason
    if isinstance(model, RecursiveDiversity):
        return _recursive(model, histogram)
    if isinstance(model, AlphaK):
        code = None
        if model.value is not None:
            code = column.code_of(model.value, model.column)
        share = histogram.largest_share(code)
        at = int(np.argmin(share))
        # rounded up, so that asking for it is enough
        least = math.ceil(float(share[at]) * 1e6) / 1e6
        reason = _commonest(histogram, at)
        if code is not None:
            reason = f"the limited value takes {share[at]:.6g} of the rows"
        fails = (share > model.alpha + TOLERANCE) | (sizes < model.k)
        return fails, f"α >= {least:g} and k <= {int(sizes.max()):,}", reason
    assert isinstance(model, Closeness)
    if model.distance == "hierarchical":
        distance = histogram.distance_tree(column.tree(model))
    else:
        ordered = model.distance == "ordered"
        distance = histogram.distance_ordered() if ordered else histogram.distance_equal()
    at = int(np.argmin(distance))
    least = math.ceil(float(distance[at]) * 1e6) / 1e6
    reason = (
        f"the nearest class possible is {distance[at]:.6g} away from the table, and "
        + _commonest(histogram, at)
    )
    return distance > model.t + TOLERANCE, f"t >= {least:g}", reason


def _values(
    model: DistinctDiversity | Sensitivity, sizes: Array, histogram: ClassHistogram
) -> tuple[Array, str, str]:
    at = int(np.argmax(histogram.distinct))
    most = int(histogram.distinct[at])
    entries = slice(histogram.start[at], histogram.start[at + 1])
    held = f"all {int(sizes[at]):,} rows together hold"
    if len(sizes) > 1:
        held = f"the {int(sizes[at]):,} rows of the richest class possible hold"
    reason = (
        f"{held} {most} distinct value{'' if most == 1 else 's'}, the commonest in "
        f"{int(histogram.count[entries].max(initial=0)):,} rows"
    )
    if isinstance(model, DistinctDiversity):
        return histogram.distinct < model.l, f"l <= {most}", reason
    fails = (histogram.distinct < model.p) | (sizes < model.k)
    return fails, f"p <= {most} and k <= {int(sizes.max()):,}", reason


def _recursive(model: RecursiveDiversity, histogram: ClassHistogram) -> tuple[Array, str, str]:
    ratio = histogram.recursive_ratio(model.l)
    at = int(np.argmin(ratio))
    counts = np.sort(histogram.count[histogram.start[at] : histogram.start[at + 1]])[::-1]
    rest = int(counts[model.l - 1 :].sum())
    best = f"c > {ratio[at]:.6g}" if rest else f"l <= {int(histogram.distinct.max())}"
    reason = (
        f"{_commonest(histogram, at)}, and {rest:,} the {_ordinal(model.l)} commonest or a rarer "
        "one"
    )
    return ~(ratio < model.c), best, reason


def _commonest(histogram: ClassHistogram, at: int) -> str:
    held = int(histogram.count[histogram.start[at] : histogram.start[at + 1]].max(initial=0))
    rows = int(histogram.sizes[at])
    return f"{held:,} of {rows:,} rows hold one value, a share of {held / max(rows, 1):.6g}"


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10)
    return f"{number}{ending or 'th'}"
