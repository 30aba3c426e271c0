"""Polynomials that stand for ln(1 + ε) on -1/4 <= ε < 1/2, with integer coefficients.

Two kinds: the paper's truncated Taylor series, exact in integers at the scale
σ = 2^(N k) · lcm(2, …, k) (§3, formula 3.7), and a near-minimax polynomial at a scale 2^F.
Both take e = ε · 2^N, an integer.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError

__all__ = ["minimax", "minimax_error", "taylor", "taylor_error", "taylor_scale"]

_LOW, _HIGH = -0.25, 0.5
_LARGEST_TERMS = 12


def taylor_scale(precision: int, terms: int) -> int:
    """σ = 2^(N k) · lcm(2, …, k): the correction of the paper's §3."""
    _check(precision, terms)
    return (1 << precision * terms) * math.lcm(*range(1, terms + 1))


def taylor(precision: int, terms: int) -> list[int]:
    """Coefficients of σ · Σ (-1)^(i-1) ε^i / i in e = ε · 2^N: all are integers.

    Examples
    --------
    >>> taylor(4, 2)  # σ = 2^8 · 2:  512 e/16 - 512 (e/16)^2 / 2
    [0, 32, -1]
    """
    scale = taylor_scale(precision, terms)
    return [0] + [(-1) ** (i - 1) * (scale >> precision * i) // i for i in range(1, terms + 1)]


def taylor_error(terms: int) -> float:
    """Largest |Taylor polynomial - ln(1 + ε)| on the interval: reached at its upper end.

    Examples
    --------
    >>> [round(taylor_error(k), 4) for k in (3, 4, 5)]  # §7 of the paper
    [0.0112, 0.0044, 0.0018]
    """
    ends = []
    for at in (_LOW, _HIGH):
        total = math.fsum(-((-at) ** i) / i for i in range(1, terms + 1))
        ends.append(abs(total - math.log1p(at)))
    return max(ends)


@lru_cache(maxsize=64)
def minimax(precision: int, terms: int, scale_bits: int) -> tuple[int, ...]:
    """Coefficients of a near-minimax polynomial, times 2^F, as integers.

    Chebyshev interpolation, then the coefficients are rounded from the highest down; after each
    the lower ones are fitted again to what is left, so that they take up most of its rounding
    error. Since e is cut off, not rounded, the polynomial aims at the middle, ε + 2^-(N+1).
    """
    _check(precision, terms)
    nodes = _chebyshev_nodes(16 * terms)
    target = np.log1p(nodes + 2.0 ** -(precision + 1))
    rounded = [0] * (terms + 1)
    for degree in range(terms, -1, -1):
        fitted = np.polynomial.Chebyshev.fit(nodes, target, degree, domain=[_LOW, _HIGH])
        top = fitted.convert(kind=np.polynomial.Polynomial).coef
        unit = 2.0 ** (scale_bits - precision * degree)
        rounded[degree] = round(float(top[degree]) * unit) if len(top) > degree else 0
        target = target - rounded[degree] / unit * nodes**degree
    return tuple(rounded)


@lru_cache(maxsize=64)
def minimax_error(precision: int, terms: int, scale_bits: int) -> float:
    """Largest error of `minimax`, with the cutting off of ε, over the whole interval."""
    coefficients = minimax(precision, terms, scale_bits)
    count = min(3 << (precision - 2), 1 << 17)
    e = np.linspace(_LOW, _HIGH - 2.0**-precision, count)
    scaled = [c * 2.0 ** (precision * i - scale_bits) for i, c in enumerate(coefficients)]
    value = np.polynomial.polynomial.polyval(e, scaled)
    exact, cut = np.log1p(e), np.log1p(e + 2.0**-precision)
    return float(max(np.abs(value - exact).max(), np.abs(value - cut).max()))


def _chebyshev_nodes(count: int) -> NDArray[np.float64]:
    angles = (2 * np.arange(count) + 1) * np.pi / (2 * count)
    return (_LOW + _HIGH) / 2 + (_HIGH - _LOW) / 2 * np.cos(angles)


def _check(precision: int, terms: int) -> None:
    if not 2 <= terms <= _LARGEST_TERMS:
        raise ParameterError(f"{terms} terms are not possible", remedy=f"2 to {_LARGEST_TERMS}.")
    if not 3 <= precision <= 64:
        raise ParameterError(f"{precision} bits of precision are not possible", remedy="3 to 64.")
