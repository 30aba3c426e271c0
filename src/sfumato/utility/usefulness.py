"""What a release is still good for: counts of selections, statistics, models learnt from it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.errors import ColumnError, MissingExtraError, ParameterError, did_you_mean
from sfumato.hierarchy.labels import as_text
from sfumato.hierarchy.tree import Array
from sfumato.results import Result
from sfumato.utility.measures import View, distributions
from sfumato.wording import counted


@dataclass(frozen=True, eq=False)
class Query:
    """A selection: rows whose value lies in a set, for each of some columns.

    Parameters
    ----------
    conditions
        For each column, whether each of its original codes is selected.
    """

    conditions: Mapping[str, Array]


@dataclass(frozen=True)
class Answer(Result):
    """One query on the original and on the release.

    Attributes
    ----------
    rows
        Rows of the original that the query selects.
    estimate
        Expected number in the release, cells spread evenly over the values they cover.
    relative_error
        |estimate - rows| / rows, with at least one row below the line.
    precision, recall
        Of the released rows that may satisfy the query, the share that does; of the rows that do,
        the share that is released and may be found. None where there are none.
    """

    rows: int
    estimate: float
    relative_error: float
    precision: float | None
    recall: float | None


@dataclass(frozen=True)
class Workload(Result):
    """Answers to all queries, and their averages (over queries where they are defined)."""

    answers: tuple[Answer, ...]
    mean_relative_error: float
    median_relative_error: float
    precision: float | None
    recall: float | None


def answer_workload(view: View, queries: Sequence[Query]) -> Workload:
    """Ask every query of the original and of the release."""
    if not queries:
        raise ParameterError("there is no query to answer", remedy="Give at least one.")
    answers = tuple(_answer(view, query) for query in queries)
    errors = np.array([answer.relative_error for answer in answers])
    return Workload(
        answers,
        float(errors.mean()),
        float(np.median(errors)),
        _average([answer.precision for answer in answers]),
        _average([answer.recall for answer in answers]),
    )


def _answer(view: View, query: Query) -> Answer:
    true = np.ones(len(view.weight), dtype=bool)
    chance = view.kept.astype(float)
    for name, mask in query.conditions.items():
        if name not in view.published:
            raise ColumnError(
                f"`{name}` is not a quasi-identifier", remedy=did_you_mean(name, view.columns)
            )
        mask = np.asarray(mask, dtype=bool)
        shown = view.published[name]
        true &= mask[view.original[name]]
        chance[view.kept] *= shown.covered(mask)[shown.codes[view.kept]]
    rows = int(view.weight[true].sum())
    estimate = float((view.weight * chance).sum())
    possible = chance > 0
    found = int(view.weight[possible & true].sum())
    offered = int(view.weight[possible].sum())
    return Answer(
        rows,
        estimate,
        abs(estimate - rows) / max(rows, 1),
        found / offered if offered else None,
        found / rows if rows else None,
    )


@dataclass(frozen=True)
class Statistics(Result):
    """Mean, standard deviation and median of a column of numbers, before and after.

    A released cell counts in equal parts for the original values that it covers.
    """

    mean: float
    released_mean: float
    deviation: float
    released_deviation: float
    median: float
    released_median: float


def statistics(view: View, values: Mapping[str, pa.Array]) -> dict[str, Statistics]:
    """Summary statistics of the columns that hold numbers; `values` are those that codes stand for.

    Examples
    --------
    >>> from sfumato.hierarchy import Ranges
    >>> ages = pa.array([20, 30, 60])
    >>> shown = Ranges(ages, "age").published([0, 0, 2], [1, 1, 2])
    >>> found = statistics(View({"age": np.array([0, 0, 2])}, {"age": shown}), {"age": ages})["age"]
    >>> round(found.mean, 2), round(found.released_mean, 2), found.median, found.released_median
    (33.33, 36.67, 20.0, 30.0)
    """
    found = {}
    for name in view.columns:
        kind = values[name].type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            continue
        numbers = np.asarray(values[name].cast(pa.float64(), safe=False).fill_null(np.nan))
        known = np.isfinite(numbers)
        sides = [side[: len(numbers)][known] for side in distributions(view, name, None)]
        if all(side.sum() > 0 for side in sides):
            before, after = (_moments(numbers[known], side / side.sum()) for side in sides)
            pairs = zip(before, after, strict=True)
            found[name] = Statistics(*(number for pair in pairs for number in pair))
    return found


def _moments(numbers: Array, share: Array) -> tuple[float, float, float]:
    # By a power of two, which rounds nothing: squares of numbers near the largest have no end.
    exponent = math.frexp(float(np.abs(numbers).max()))[1]
    scaled = np.ldexp(numbers, -exponent)
    mean = float(np.clip(scaled @ share, scaled.min(), scaled.max()))
    spread = min(math.sqrt(float(((scaled - mean) ** 2) @ share)), float(np.abs(scaled).max()))
    mean, spread = math.ldexp(mean, exponent), math.ldexp(spread, exponent)
    order = np.argsort(numbers)
    middle = int(np.searchsorted(np.cumsum(share[order]), 0.5 - 1e-12))
    return mean, spread, float(numbers[order][middle])


@dataclass(frozen=True)
class Contingency(Result):
    """How two columns go together, before and after.

    `names` are the values of each column that are shown, the commonest first; what the others
    hold is counted under the last, ``others``. A released cell counts in equal parts for the
    values that it covers. `association` is Cramér's V of all values, 0 where one column says
    nothing of the other and 1 where it says all; None where a column has one value only.
    """

    columns: tuple[str, str]
    names: tuple[tuple[str, ...], tuple[str, ...]]
    before: tuple[tuple[float, ...], ...]
    after: tuple[tuple[float, ...], ...]
    association: float | None
    released_association: float | None


OTHERS = "others"
MOST_CELLS = 4_000_000
"""Of a table of two columns."""
MOST_NAMES = 8
LEAST_ROWS = 10
"""Rows that hold a value that is named."""


def contingency(view: View, pair: tuple[str, str], values: Mapping[str, pa.Array]) -> Contingency:
    """The table of two columns, before and after.

    Examples
    --------
    >>> from sfumato.hierarchy import Ranges
    >>> age, ill = pa.array([20, 30]), pa.array([0, 1])
    >>> codes = {"age": np.repeat([0, 1], 20), "ill": np.repeat([0, 1], 20)}
    >>> shown = {"age": Ranges(age, "age").published([0] * 40, [1] * 40),
    ...          "ill": Ranges(ill, "ill").published(codes["ill"], codes["ill"])}
    >>> found = contingency(View(codes, shown), ("age", "ill"), {"age": age, "ill": ill})
    >>> found.before[0], found.after[0], found.association, found.released_association
    ((20.0, 0.0, 0.0), (10.0, 10.0, 0.0), 1.0, 0.0)
    """
    one, other = pair
    codes = [np.asarray(view.original[name]).astype(np.int64) for name in pair]
    shape = (len(values[one]), len(values[other]))
    if shape[0] * shape[1] > MOST_CELLS:
        raise ParameterError(
            f"`{one}` and `{other}` have too many values for a table of both "
            f"({shape[0]:,} times {shape[1]:,})",
            remedy="Choose columns with fewer values.",
        )
    before = np.zeros(shape)
    np.add.at(before, (codes[0], codes[1]), view.weight)
    cells = [view.published[name] for name in pair]
    change = np.zeros((len(cells[0].order) + 1, len(cells[1].order) + 1))
    rows = view.weight[view.kept]
    at = [shown.codes[view.kept] for shown in cells]
    each = rows / (cells[0].leaf_count[at[0]] * cells[1].leaf_count[at[1]])
    ends = [(shown.low[own], shown.high[own] + 1) for shown, own in zip(cells, at, strict=True)]
    for first, sign in zip(ends[0], (1, -1), strict=True):
        for second, turn in zip(ends[1], (1, -1), strict=True):
            np.add.at(change, (first, second), sign * turn * each)
    spread = change.cumsum(axis=0).cumsum(axis=1)[:-1, :-1]
    after = np.zeros(shape)
    np.add.at(after, np.ix_(cells[0].order, cells[1].order), spread)
    kept = [_commonest(before.sum(axis=1 - axis)) for axis in (0, 1)]
    names = tuple(
        (*(text or "–" for text in as_text(values[n].take(pa.array(own))).to_pylist()), OTHERS)
        for n, own in zip(pair, kept, strict=True)
    )
    return Contingency(
        pair,
        (names[0], names[1]),
        _lumped(before, kept),
        _lumped(after, kept),
        _cramer(before),
        _cramer(after),
    )


def _commonest(rows: Array) -> Array:
    """Values that enough rows hold, the commonest first."""
    order = np.argsort(-rows, kind="stable")[:MOST_NAMES]
    return order[rows[order] >= LEAST_ROWS]


def _lumped(table: Array, kept: Sequence[Array]) -> tuple[tuple[float, ...], ...]:
    """The table of some rows and columns, with what is beside them summed at the end."""
    across = np.vstack([table[kept[0]], np.delete(table, kept[0], axis=0).sum(axis=0)])
    rest = np.delete(across, kept[1], axis=1).sum(axis=1, keepdims=True)
    whole = np.hstack([across[:, kept[1]], rest])
    return tuple(tuple(round(float(cell), 9) for cell in row) for row in whole)


def _cramer(table: Array) -> float | None:
    """Cramér's V: how much one column says about the other."""
    rows, columns, total = table.sum(axis=1), table.sum(axis=0), table.sum()
    least = min((rows > 1e-9).sum(), (columns > 1e-9).sum()) - 1
    if least < 1:
        return None
    expected = np.outer(rows, columns) / total
    there = expected > 0
    chi = float(((table[there] - expected[there]) ** 2 / expected[there]).sum())
    return float(np.sqrt(chi / total / least))


def _average(numbers: list[Any]) -> float | None:
    defined = [number for number in numbers if number is not None]
    return float(np.mean(defined)) if defined else None


@dataclass(frozen=True)
class Accuracy(Result):
    """Share of rows whose target is predicted right.

    Attributes
    ----------
    original, released
        Cross-validated accuracy on the original and the released columns.
    baseline
        Always guessing the commonest target of the original.
    folds
        Number of folds.
    """

    original: float
    released: float
    baseline: float
    folds: int


def accuracy(
    view: View, target: Any, *, folds: int = 10, seed: int = 0, model: Any = None
) -> Accuracy:
    """Learn a target from the quasi-identifiers, before and after.

    Released rows are learned from and predicted as they are published; a suppressed row can be
    neither. Needs scikit-learn (extra ``models``).

    Parameters
    ----------
    target
        Code of the target for every row.
    model
        A scikit-learn classifier that takes categories as integers; naive Bayes by default.
    """
    if view.counts is not None:
        raise ParameterError(
            "accuracy needs rows, not counted combinations", remedy="Give every row by itself."
        )
    target = np.asarray(target)
    original = [np.asarray(view.original[name]) for name in view.columns]
    released = [view.labels(name) for name in view.columns]
    _, times = np.unique(target, return_counts=True)
    return Accuracy(
        cross_validated(original, target, folds=folds, seed=seed, model=model),
        cross_validated(released, target[view.kept], folds=folds, seed=seed, model=model),
        float(times.max() / len(target)),
        folds,
    )


def cross_validated(
    features: Sequence[Array], target: Any, *, folds: int = 10, seed: int = 0, model: Any = None
) -> float:
    """Accuracy of a classifier on held-out rows, categories given as codes.

    Parameters
    ----------
    features
        One array of codes a column.
    target
        Code of the target for every row.
    """
    try:
        from sklearn.base import clone
        from sklearn.model_selection import KFold
        from sklearn.naive_bayes import CategoricalNB
    except ImportError:
        raise MissingExtraError("models", "classification accuracy") from None
    target = np.asarray(target)
    if not 2 <= folds <= len(target):
        raise ParameterError(
            f"{folds} folds are not possible with {counted(len(target), 'row')}",
            remedy="Give at least 2 folds and at most as many as rows.",
        )
    columns = [np.unique(column, return_inverse=True)[1] for column in features]
    table = np.stack(columns, axis=1)
    if model is None:
        model = CategoricalNB(min_categories=[int(column.max()) + 1 for column in columns])
    right = 0
    for train, test in KFold(folds, shuffle=True, random_state=seed).split(table):
        fitted = clone(model).fit(table[train], target[train])
        right += int((fitted.predict(table[test]) == target[test]).sum())
    return right / len(target)
