"""Compiled loops of this room; loaded on first use, compiled once and kept on disk."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels.compiling import compiled

__all__ = [
    "box_probabilities",
    "feed_reservoir",
]

Array = npt.NDArray[Any]


@compiled
def feed_reservoir(
    values: Array,
    kept: Array,
    seen: int,
    skip: int,
    w: float,
    random: np.random.Generator,
) -> tuple[int, int, float]:
    """Li's Algorithm L: keep a uniform sample while jumping over values that are not taken.

    `skip` is how many values are still to be passed over before the next one is taken.
    """
    size = len(kept)
    i = 0
    while seen < size and i < len(values):
        kept[seen] = values[i]
        seen += 1
        i += 1
        if seen == size:
            w = math.exp(math.log(1.0 - random.random()) / size)
            skip = _jump(w, random)
    while i < len(values):
        if skip >= len(values) - i:
            skip -= len(values) - i
            seen += len(values) - i
            break
        i += skip
        seen += skip + 1
        kept[random.integers(0, size)] = values[i]
        i += 1
        w *= math.exp(math.log(1.0 - random.random()) / size)
        skip = _jump(w, random)
    return seen, skip, w


@compiled
def _jump(w: float, random: np.random.Generator) -> int:
    jump = math.floor(math.log(1.0 - random.random()) / math.log1p(-w))
    return int(min(jump, 4.0e18))


@compiled
def _below(x: float) -> float:
    """Standard normal distribution function."""
    return 0.5 * math.erfc(-x * 0.7071067811865476)


@compiled
def _quantile(p: float) -> float:
    """Inverse of `_below`: a rational start (Abramowitz & Stegun 26.2.23), then Halley's steps."""
    tail = min(p, 1.0 - p)
    if tail < 1e-300:
        return -37.0 if p < 0.5 else 37.0
    t = math.sqrt(-2.0 * math.log(tail))
    x = t - (2.515517 + t * (0.802853 + t * 0.010328)) / (
        1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308))
    )
    if p < 0.5:
        x = -x
    for _ in range(2):
        error = (_below(x) - p) * 2.5066282746310002 * math.exp(0.5 * x * x)
        x -= error / (1.0 + 0.5 * x * error)
    return x


@compiled
def box_probabilities(low: Array, high: Array, factor: Array, points: Array) -> Array:
    """P(low < z < high) for z ~ N(0, factor·factorᵀ), one box a row of `low` and `high`.

    Genz's separation of variables: one dimension after the other is drawn inside its limits given
    the ones before, and the chances of doing so are multiplied; averaged over quasi-random points.
    """
    boxes, m = low.shape
    chances = np.empty(boxes)
    z = np.empty(m)
    for row in range(boxes):
        total = 0.0
        for i in range(points.shape[0]):
            chance = 1.0
            for d in range(m):
                shift = 0.0
                for j in range(d):
                    shift += factor[d, j] * z[j]
                a = _below((low[row, d] - shift) / factor[d, d])
                b = _below((high[row, d] - shift) / factor[d, d])
                chance *= max(b - a, 0.0)
                if chance == 0.0:
                    break
                if d + 1 < m:
                    z[d] = _quantile(a + points[i, d] * (b - a))
            total += chance
        chances[row] = total / points.shape[0]
    return chances
