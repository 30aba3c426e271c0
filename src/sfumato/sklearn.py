"""Transformers for scikit-learn pipelines: anonymize features before anything learns from them.

Needs scikit-learn (extra ``models``). These transformers work on numbers in memory and write no
certificate; to release a table use `sfumato.anonymize`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from sfumato.errors import MissingExtraError

try:
    from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise MissingExtraError("models", "sfumato.sklearn") from None


Array = npt.NDArray[Any]


class MondrianAnonymizer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Replace every row by the mean of at least k rows like it.

    Fitting cuts the space of features by prioritized Mondrian; a row, seen before or not, becomes
    the mean of the training rows in its part. What a model learns from the transformed training
    rows is k-anonymous: every row occurs at least k times.

    Parameters
    ----------
    k
        Least number of training rows in a part.
    weights
        Importance of precision, one number a feature; features with more are cut first.
    gain
        How much cuts should tell about `y` (a class label), against 1 for the spread of a feature.
        With 0 the target is not looked at.

    Attributes
    ----------
    centers_
        What the rows of each part become.
    n_groups_
        Number of parts.

    Examples
    --------
    >>> anonymizer = MondrianAnonymizer(k=2)
    >>> anonymizer.fit_transform([[1.0], [3.0], [10.0], [14.0]]).ravel().tolist()
    [2.0, 2.0, 12.0, 12.0]
    >>> anonymizer.transform([[2.5], [40.0]]).ravel().tolist()
    [2.0, 12.0]
    """

    def __init__(
        self, k: int = 5, *, weights: Sequence[float] | None = None, gain: float = 0.0
    ) -> None:
        self.k = k
        self.weights = weights
        self.gain = gain

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the parts and their means."""
        rows = validate_data(self, X, dtype=np.float64)
        if len(rows) < self.k:
            raise ValueError(
                f"k = {self.k} needs at least as many rows, and there are n_samples = {len(rows)}"
            )
        groups = _mondrian(rows, self.k, self._weights(rows.shape[1]), self.gain, y)
        number = int(groups.max()) + 1
        sizes = np.bincount(groups, minlength=number).astype(float)
        self.centers_ = np.stack(
            [np.bincount(groups, weights=column, minlength=number) / sizes for column in rows.T],
            axis=1,
        )
        low = np.full((number, rows.shape[1]), np.inf)
        high = np.full((number, rows.shape[1]), -np.inf)
        np.minimum.at(low, groups, rows)
        np.maximum.at(high, groups, rows)
        self.n_groups_ = number
        self._cuts = _cut_tree(low, high)
        return self

    def transform(self, X: Any) -> Array:
        """The mean of the part each row lies in."""
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        return np.asarray(self.centers_[_descend(rows, *self._cuts)])

    def _weights(self, features: int) -> Array | None:
        if self.weights is None:
            return None
        given = np.asarray(self.weights, dtype=float)
        if given.shape != (features,) or not (np.isfinite(given) & (given >= 0)).all():
            raise ValueError(f"weights must be {features} numbers, zero or larger")
        return given


class Recoder(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Blur the columns of a data frame into groups, and later rows into the same groups.

    Fitting anonymizes the training rows with `sfumato.anonymize` and keeps the groups that came
    out; a row, seen before or not, then shows the labels of the narrowest group that holds it, and
    ``*`` where none does. Labels are text: encode them, or make numbers of ranges with
    `sfumato.midpoints`. Groups with round ends may overlap, so transformed rows can be fewer than k
    alike: what is to be published is released with `sfumato.anonymize`.

    Parameters
    ----------
    k
        Least number of training rows that a group is made for.
    columns
        The columns to blur; all by default.
    method
        How to find groups; ``full-domain`` gives the same labels to every row of a column.

    Attributes
    ----------
    recoding_
        The groups, a `sfumato.Recoding` that can be saved.

    Examples
    --------
    >>> import pandas as pd
    >>> train = pd.DataFrame({"age": [21, 22, 35, 36], "ill": [0, 1, 0, 1]})
    >>> recoder = Recoder(k=2, columns=["age"]).fit(train)
    >>> recoder.transform(pd.DataFrame({"age": [20, 35, 60], "ill": [1, 1, 0]}))
            age  ill
    0  [20, 23)    1
    1  [34, 37)    1
    2         *    0
    """

    def __init__(
        self, k: int = 5, *, columns: Sequence[str] | None = None, method: str = "mondrian"
    ) -> None:
        self.k = k
        self.columns = columns
        self.method = method

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the groups of the training rows."""
        from sfumato.anonymization.verb import anonymize

        names = list(X.columns)
        chosen = names if self.columns is None else list(self.columns)
        release = anonymize(X, qi=[str(c) for c in chosen], k=self.k, method=self.method)
        self.recoding_ = release.recoding
        self.feature_names_in_ = np.asarray(names, dtype=object)
        self.n_features_in_ = len(names)
        return self

    def transform(self, X: Any) -> Any:
        """The rows with the labels of their groups; other columns stay as they are."""
        check_is_fitted(self)
        return self.recoding_.apply(X)


class TopBottomCoder(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Cut every feature off at quantiles of the training rows, so that no extreme stands out.

    Parameters
    ----------
    bottom, top
        Shares of training rows at which the lowest and highest values are cut off.

    Attributes
    ----------
    bottom_, top_
        The limits of each feature.

    Examples
    --------
    >>> coder = TopBottomCoder(bottom=0, top=0.75).fit([[1.0], [2.0], [3.0], [4.0], [90.0]])
    >>> coder.transform([[0.0], [2.0], [90.0]]).ravel().tolist()
    [1.0, 2.0, 4.0]
    """

    def __init__(self, bottom: float = 0.01, top: float = 0.99) -> None:
        self.bottom = bottom
        self.top = top

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the limits."""
        rows = validate_data(self, X, dtype=np.float64)
        if not 0 <= self.bottom <= self.top <= 1:
            raise ValueError("bottom and top must be shares, bottom not above top")
        # limits are values that occur, not points between them
        self.bottom_ = np.quantile(rows, self.bottom, axis=0, method="higher")
        self.top_ = np.quantile(rows, self.top, axis=0, method="lower")
        self.top_ = np.maximum(self.top_, self.bottom_)
        return self

    def transform(self, X: Any) -> Array:
        """Values beyond the limits become the limits."""
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        return np.asarray(np.clip(rows, self.bottom_, self.top_))


def _mondrian(rows: Array, k: int, weights: Array | None, gain: float, y: Any) -> Array:
    """The part of each row."""
    import pyarrow as pa

    from sfumato.anonymization.methods.mondrian import solve
    from sfumato.anonymization.problem import Problem
    from sfumato.engines.protocol import Codes
    from sfumato.hierarchy import Ranges
    from sfumato.kernels import class_ids
    from sfumato.privacy import KAnonymity, compile_rules

    names = [f"x{at}" for at in range(rows.shape[1])]
    found = [np.unique(column, return_inverse=True) for column in rows.T]
    options: dict[str, Any] = {}
    if gain and y is not None:
        found.append(np.unique(np.asarray(y), return_inverse=True))
        options = {"target": "y", "cut_weights": {"gain": gain}}
    columns = [*names, *(["y"] if options else [])]
    codes = tuple(inverse.reshape(-1).astype(np.uint32) for _, inverse in found)
    sizes = tuple(len(values) for values, _ in found)
    into, number = class_ids(codes, sizes, entries=len(rows))
    member = np.zeros(number, dtype=np.int64)
    member[into] = np.arange(len(rows))
    values = tuple(pa.array(values) for values, _ in found)
    entries = Codes(
        tuple(columns),
        tuple(code[member] for code in codes),
        values,
        np.bincount(into, minlength=number).astype(np.int64),
        number,
    )
    named: Mapping[str, float] = {}
    if weights is not None:
        named = dict(zip(names, weights.tolist(), strict=True))
    problem = Problem(
        entries=entries,
        qi=tuple(names),
        sensitive=(),
        shapes={name: Ranges(entries.values_of(name), name) for name in names},
        rules=compile_rules([KAnonymity(k)]),
        weights=named,
        options=options,
    )
    return np.asarray(solve(problem).groups[into])


def _cut_tree(low: Array, high: Array) -> tuple[Array, Array, Array]:
    """Cuts that tell the boxes of all parts apart: axis (-1 for a leaf), threshold, children.

    Mondrian's parts come from cuts through whole regions, so some cut always leaves every box on
    one side; the most even one is taken. A leaf has the number of its part as first child.
    """
    axes, thresholds, children = [0], [0.0], [[0, 0]]
    unfinished = [(0, np.arange(len(low)))]
    while unfinished:
        node, boxes = unfinished.pop()
        if len(boxes) == 1:
            axes[node], children[node] = -1, [int(boxes[0]), 0]
            continue
        axis, threshold = _even_cut(low[boxes], high[boxes])
        axes[node], thresholds[node] = axis, threshold
        left = high[boxes, axis] <= threshold
        for side, part in enumerate((boxes[left], boxes[~left])):
            children[node][side] = len(axes)
            unfinished.append((len(axes), part))
            axes.append(0)
            thresholds.append(0.0)
            children.append([0, 0])
    return np.array(axes), np.array(thresholds), np.array(children)


def _even_cut(low: Array, high: Array) -> tuple[int, float]:
    best, axis, threshold = -1, 0, 0.0
    for at in range(low.shape[1]):
        order = np.argsort(low[:, at], kind="stable")
        begin, reached = low[order[1:], at], np.maximum.accumulate(high[order, at])[:-1]
        places = np.flatnonzero(reached < begin)
        if len(places) == 0:
            continue
        middle = places[np.argmin(np.abs(places + 1 - len(low) / 2))]
        evenness = int(min(middle + 1, len(low) - middle - 1))
        if evenness > best:
            between = reached[middle] + (begin[middle] - reached[middle]) / 2
            best, axis = evenness, at
            threshold = float(between if between < begin[middle] else reached[middle])
    return axis, threshold


def _descend(rows: Array, axes: Array, thresholds: Array, children: Array) -> Array:
    """The part of each row, all rows going down the tree at once."""
    node = np.zeros(len(rows), dtype=np.int64)
    moving = np.arange(len(rows))
    while len(moving := moving[axes[node[moving]] >= 0]):
        at = node[moving]
        right = rows[moving, axes[at]] > thresholds[at]
        node[moving] = children[at, right.astype(np.int64)]
    return np.asarray(children[node, 0])
