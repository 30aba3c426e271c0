"""What a release is still good for: distributions, counts of selections, models learnt from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.errors import ColumnError, MissingExtraError, ParameterError, did_you_mean
from sfumato.hierarchy.tree import Array
from sfumato.results import Result
from sfumato.utility.view import View
from sfumato.wording import counted

__all__ = [
    "Accuracy",
    "Answer",
    "Query",
    "Workload",
    "accuracy",
    "answer_workload",
    "cross_validated",
    "distribution_distances",
    "random_queries",
]


def distribution_distances(
    view: View, ordered: Sequence[str] = (), held: Mapping[str, Array] | None = None
) -> dict[str, float]:
    """How far each column's distribution moved, from 0 to 1.

    The released one spreads every cell evenly over the values it covers. Distance: the share of
    rows that must move (total variation); for `ordered` columns, how far they move in ranks over
    the number of ranks (earth mover's distance). `held` are the rows of each original value by
    column, for a view of groups in place of rows.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> from sfumato.hierarchy import Ranges
    >>> age = Ranges(pa.array([20, 25, 60]), "age")
    >>> view = View({"age": np.array([0, 0, 1])}, {"age": age.published([0] * 3, [1] * 3)})
    >>> round(distribution_distances(view)["age"], 4)
    0.1667
    """
    distances = {}
    for name in view.columns:
        before, after = _distributions(view, name, None if held is None else held[name])
        gap = after - before
        if name in ordered:
            occurring = np.flatnonzero(before > 0)
            steps = max(len(occurring) - 1, 1)
            distances[name] = float(np.abs(np.cumsum(gap[occurring])).sum() / steps)
        else:
            distances[name] = float(np.abs(gap).sum() / 2)
    return distances


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


def random_queries(
    view: View, number: int, *, columns: int = 2, selectivity: float = 0.1, seed: int = 0
) -> list[Query]:
    """Random selections of neighbouring values, as is usual for comparing anonymizers.

    Parameters
    ----------
    number
        How many queries.
    columns
        Columns in each; fewer where the view has fewer.
    selectivity
        Share of rows a query would select if columns were independent and values equally common.
    """
    if number < 1 or columns < 1 or not 0 < selectivity <= 1:
        raise ParameterError(
            "queries need a number, columns and a selectivity in (0, 1]",
            remedy="Give e.g. 1000 queries of 2 columns and selectivity 0.05.",
        )
    generator = np.random.default_rng(seed)
    used = min(columns, len(view.columns))
    queries = []
    for _ in range(number):
        conditions = {}
        for name in generator.permutation(view.columns)[:used].tolist():
            size = int(view.published[name].order.max(initial=0)) + 1
            width = max(1, round(size * selectivity ** (1 / used)))
            start = int(generator.integers(0, size - width + 1))
            mask = np.zeros(size, dtype=bool)
            mask[start : start + width] = True
            conditions[name] = mask
        queries.append(Query(conditions))
    return queries


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


def _distributions(view: View, name: str, held: Array | None) -> tuple[Array, Array]:
    """Shares of a column's values before and after."""
    shown = view.published[name]
    before = held
    if before is None:
        codes = np.asarray(view.original[name])
        size = max(int(shown.order.max(initial=-1)), int(codes.max(initial=-1))) + 1
        before = np.bincount(codes, weights=view.weight, minlength=size)
    cells = np.bincount(
        shown.codes[view.kept], weights=view.weight[view.kept], minlength=len(shown.low)
    )
    change = np.zeros(len(shown.order) + 1)
    np.add.at(change, shown.low, cells / shown.leaf_count)
    np.add.at(change, shown.high + 1, -cells / shown.leaf_count)
    after = np.zeros(len(before))
    np.add.at(after, shown.order, np.cumsum(change)[:-1])
    return before / max(float(before.sum()), 1.0), after / max(float(cells.sum()), 1.0)


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
