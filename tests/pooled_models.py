"""The same trees and nets from pooled rows in plain text, to compare with and to learn from.

Same rules, same order of columns, same treatment of equal scores as in the protocols. Beside the
result stands how close each decision was: where the gap exceeds the stated error of the protocol,
the protocol must decide alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError
from sfumato.secure.bayes import BayesNet, NetRules
from sfumato.secure.counting import Schema
from sfumato.secure.decision_tree import DecisionTree, Leaf, Precision, Split, TreeRules
from sfumato.secure.logarithm import FAST, Setting, _times_ln2

__all__ = ["PlainNet", "PlainTree", "plain_bayes_net", "plain_id3", "taylor_ln"]

Ln = Callable[[int], int]
Path = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class PlainTree:
    """A tree, and for each split (by its path) by how much the best gain leads, nats a row."""

    tree: DecisionTree
    gaps: Mapping[Path, float]


@dataclass(frozen=True)
class PlainNet:
    """A net, and for each step of each column's search by how much the best score leads, nats."""

    net: BayesNet
    gaps: Mapping[tuple[str, int], float]


def plain_id3(
    schema: Schema,
    codes: Any,
    *,
    target: str,
    max_depth: int | None = None,
    min_rows: int = 2,
    fine: bool = False,
    bits: int | None = None,
    ln: Ln | None = None,
) -> PlainTree:
    """ID3 on pooled rows.

    Parameters
    ----------
    bits
        The bound on rows, 2^bits, that the two parties take (it enters the tiny handicap by
        which the first of equal columns wins); by default that of the pooled rows.
    ln
        A logarithm in whole numbers to take instead, as in the paper's setting, where nothing is
        rounded and no handicap is needed: then every decision must be alike.

    Examples
    --------
    >>> schema = Schema.of({"smokes": ["no", "yes"], "ill": ["no", "yes"]})
    >>> grown = plain_id3(schema, np.array([[0, 0], [1, 1], [0, 0]]), target="ill")
    >>> grown.tree.to_dict()["tree"]["column"], round(grown.gaps[()], 3)
    ('smokes', inf)
    """
    rules = TreeRules(schema, target, max_depth, min_rows)
    cells = np.asarray(codes)
    answer = schema.position(target)
    classes = schema.sizes[answer]
    known = max(4, len(cells).bit_length() + 1 if bits is None else bits)
    handicap = 0.0 if ln else Precision(known, len(rules.attributes), fine).handicap_nats
    gaps: dict[Path, float] = {}

    def grow(
        rows: NDArray[np.int64], above: NDArray[np.int64], left: tuple[int, ...], path: Path
    ) -> Leaf | Split:
        own = np.bincount(cells[rows, answer], minlength=classes)
        if rules.ends(len(path)) or len(rows) < min_rows or np.count_nonzero(own) < 2:
            return Leaf(max(range(classes), key=lambda c: (own[c], above[c], -c)))
        sums = np.empty(len(left), object if ln else float)
        for at, column in enumerate(left):
            pair = cells[rows, column] * classes + cells[rows, answer]
            table = np.bincount(pair, minlength=schema.sizes[column] * classes)
            table = table.reshape(-1, classes)
            sums[at] = _x_log_x(table.sum(axis=1), ln) - _x_log_x(table, ln)
            if not ln:
                sums[at] += at * handicap * len(rows)
        best = int(sums.argmin())
        others = np.delete(sums, best)
        gaps[path] = float(others.min() - sums[best]) / len(rows) if len(others) else math.inf
        column = left[best]
        below = tuple(c for c in left if c != column)
        branches = (
            grow(rows[cells[rows, column] == v], own, below, (*path, (column, v)))
            for v in range(schema.sizes[column])
        )
        return Split(column, tuple(branches))

    counts = np.bincount(cells[:, answer], minlength=classes) if len(cells) else np.zeros(classes)
    root = grow(np.arange(len(cells)), counts.astype(np.int64), rules.attributes, ())
    return PlainTree(DecisionTree(schema, target, root), gaps)


def taylor_ln(bits: int, terms: int) -> Ln:
    """σ · ln x by so many terms, in whole numbers, as the paper's parties compute it."""
    width = max(3, bits)
    scale = math.lcm(*range(1, terms + 1)) << (width * terms)

    def ln(x: int) -> int:
        if x == 0:
            return 0
        n = x.bit_length() - 1
        n += x >= 3 << (n - 1) if n else 0
        epsilon = Fraction(x, 1 << n) - 1
        series = sum(-((-epsilon) ** i) / i for i in range(1, terms + 1))
        return n * _times_ln2(scale) + int(series * scale)

    return ln


def _x_log_x(counts: NDArray[np.int64], ln: Ln | None = None) -> Any:
    if ln:
        return sum(int(count) * ln(int(count)) for count in counts.reshape(-1))
    positive = counts[counts > 0].astype(np.float64)
    return math.fsum(positive * np.log(positive))


def plain_bayes_net(
    schema: Schema,
    codes: Any,
    *,
    order: Sequence[str] | None = None,
    max_parents: int = 2,
    score: str = "burnside",
    bits: int | None = None,
    setting: Setting = FAST,
) -> PlainNet:
    """K2's search on pooled rows, with the same score as the protocol; `bits` as in `plain_id3`."""
    rules = NetRules.of(schema, order, max_parents, score)
    cells = np.asarray(codes)
    if cells.ndim != 2 or cells.shape[1] != len(schema.columns):
        raise ParameterError("records have one number for each column of the schema")
    known = len(cells).bit_length() + 1 if bits is None else bits
    handicap = rules.precision(known, setting).handicap_nats
    gaps: dict[tuple[str, int], float] = {}
    parents: dict[str, tuple[str, ...]] = {}
    for at, column in enumerate(rules.order):
        chosen: tuple[int, ...] = ()
        current = _score(rules, cells, column, chosen)
        while len(chosen) < max_parents:
            candidates = [c for c in rules.order[:at] if c not in chosen]
            scores = [current]
            scores += [_score(rules, cells, column, (*chosen, c)) for c in candidates]
            paid = np.array(scores) - handicap * np.arange(len(scores))
            best = int(paid.argmax())
            others = np.delete(paid, best)
            lead = float(paid[best] - others.max()) if len(others) else math.inf
            gaps[schema.columns[column], len(chosen)] = lead
            if best == 0:
                break
            chosen, current = (*chosen, candidates[best - 1]), scores[best]
        parents[schema.columns[column]] = tuple(schema.columns[c] for c in chosen)
    return PlainNet(rules.net(parents), gaps)


def _score(
    rules: NetRules, cells: NDArray[np.int64], column: int, parents: tuple[int, ...]
) -> float:
    """The score of a column with its parents, from the formula as it is written."""
    sizes = rules.schema.sizes
    shape = [sizes[c] for c in (*parents, column)]
    flat = np.ravel_multi_index([cells[:, c] for c in (*parents, column)], shape)
    table = np.bincount(flat, minlength=math.prod(shape)).reshape(-1, shape[-1])
    d, q = shape[-1], len(table)
    counts, totals = table.reshape(-1).astype(np.float64), table.sum(axis=1) + d - 1.0
    if rules.score == "burnside":
        return math.fsum([*_burnside(counts), *-_burnside(totals), q * _burnside(np.array(d - 1))])
    return math.fsum([*_stirling(counts), *-_stirling(totals), q * math.lgamma(d)])


def _burnside(n: NDArray[np.float64]) -> NDArray[np.float64]:
    """What remains of ln n! where linear terms cancel."""
    result: NDArray[np.float64] = (n + 0.5) * np.log(2 * n + 1)
    return result


def _stirling(n: NDArray[np.float64]) -> NDArray[np.float64]:
    """The logarithm of n!, nearly; ln 0 is taken as 0."""
    linear = 0.5 * math.log(2 * math.pi) - n
    result: NDArray[np.float64] = (n + 0.5) * np.log(np.maximum(n, 1.0)) + linear
    return result
