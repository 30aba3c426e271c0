"""Newton's method of which nobody sees more than the steps, and these no finer than needed.

Gradient and Hessian are secrets (`secret_sharing`); so is the solution of Newton's equations. Only
the step is opened, rounded: first to whole numbers, then finer, until its largest entry has five
binary digits. Newton's method forgives that. The error a rounded step leaves is corrected by the
next one, which is then as small as the rounding was, and is opened as much finer. In the end every
coefficient has been opened once, in slices of some bits each, to the agreed precision and not
beyond; the steps together tell little more than the last coefficients do.

The inverse is found by Newton and Schulz's iteration X ← X + X(I - MX), which needs products only.
It starts from the inverse at the place before. The Hessians of logistic regression and of Cox's
likelihood change by a factor between e^-d and e^d at most when coefficients of columns between 0
and 1 change by d in all, so that many steps are known to be enough.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, log2

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, ParameterError, UnfinishedError
from sfumato.joint.secret_sharing import Arithmetic, Secret

Floats = NDArray[np.float64]

HEAVIEST = 100.0
"""No institution's rows may weigh more, nor less than one over it: secrets have limited room."""
_DIGITS = 32
"""Units that the largest entry of a step must have when it is opened."""
_SLICE = 3
_DOUBLINGS = 44
"""Directions in which the Hessian is 2^44 times smaller than it can be count as flat."""
_MOST_STEPS = 40
_UNITS, _FINEST = 1 << 12, 60
_ENDLESS = 200.0
"""Coefficients beyond this grow for ever."""


@dataclass(frozen=True)
class NewtonAscent:
    """Where Newton's method ended, and every place on the way that was opened."""

    coefficients: Floats
    iterations: int
    path: tuple[Floats, ...]
    places: tuple[int, ...]
    """Binary places to which each step was opened."""
    inverse: Floats | None = None
    """The inverse of the matrix at the end, rounded, where it was asked for."""
    inverse_places: int = 0
    """Binary places to which it was opened."""


def newton_ascent(
    arithmetic: Arithmetic,
    size: int,
    derivatives: Callable[[Floats], tuple[Secret, Secret]],
    *,
    bound: float,
    precision: float,
    smooth: bool = True,
    inverse: bool = False,
) -> NewtonAscent:
    """Find where the gradient vanishes, and open that to `precision`.

    Parameters
    ----------
    derivatives
        Gradient, and minus the Hessian, at public coefficients, as secrets.
    bound
        No eigenvalue of the latter is larger.
    smooth
        Whether the Hessian changes little with a small step; if not, the end is made sure of by
        one step more.
    inverse
        Whether to open the inverse of minus the Hessian at the end, too.
    """
    check_precision(precision)
    finest = arithmetic.places(precision)
    w = np.zeros(size)
    path, opened = [w], list[int]()
    before: Floats | None = None
    start, least = arithmetic.public(np.eye(size) / bound), 2.0**-_DOUBLINGS
    for iteration in range(1, _MOST_STEPS + 1):
        gradient, matrix = derivatives(w)
        solver, rank = invert(arithmetic, matrix, start, least)
        solution = arithmetic.matmul(solver, gradient[:, None])[:, 0]
        if iteration == 1 and _flat(arithmetic, rank, size):
            raise InputError(
                "over all parties' rows some column is constant or follows from the others, or "
                "there is no event",
                remedy="Leave it out of the agreement, or set a penalty.",
            )
        step, places = leading_digits(arithmetic, "step", solution, finest)
        largest = float(np.abs(step).max())
        if before is not None and step @ before < 0 and largest > 0.5 * np.abs(before).max():
            # It turns round as far as it came: the step before went too far.
            w, before = w - 0.75 * before, before / 4
        else:
            w, before = w + step, step
        change = float(np.abs(w - path[-1]).sum())
        if smooth and np.exp(-2 * change) > 2.0**-_DOUBLINGS:
            shrunk = arithmetic.public(np.full((size, size), np.exp(-change)))
            start, least = arithmetic.multiply(solver, shrunk), float(np.exp(-2 * change))
        else:
            start, least = arithmetic.public(np.eye(size) / bound), 2.0**-_DOUBLINGS
        path.append(w)
        opened.append(places)
        if np.abs(w).max() > _ENDLESS:
            break
        left = 4 * float(np.abs(step).sum()) * largest
        if places == finest and (largest <= 4 * precision or (smooth and left <= precision)):
            found = NewtonAscent(w, iteration, tuple(path), tuple(opened))
            if not inverse:
                return found
            last, _ = invert(arithmetic, derivatives(w)[1], start, least)
            shown, places = _opened_matrix(arithmetic, last)
            return replace(found, inverse=shown, inverse_places=places)
    raise UnfinishedError(
        "the model has no finite maximum: some combination of columns orders the outcomes "
        "perfectly",
        remedy="Start again with a larger penalty.",
    )


def _flat(arithmetic: Arithmetic, rank: Secret, size: int) -> bool:
    """Whether a direction is flat; opened so finely that no rounding of a share decides it."""
    return bool(arithmetic.open("rank", rank, arithmetic.places(0.25))[0] < size - 0.5)


def _opened_matrix(arithmetic: Arithmetic, matrix: Secret) -> tuple[Floats, int]:
    """A symmetric matrix, its largest entry to some twelve binary digits."""
    upper = np.triu_indices(len(matrix))
    shown, places = leading_digits(arithmetic, "covariance", matrix[upper], _FINEST, _UNITS)
    return symmetric(shown, len(matrix)), places


def invert(
    arithmetic: Arithmetic, matrix: Secret, start: Secret, least: float
) -> tuple[Secret, Secret]:
    """The inverse of M, and how many directions of M are not flat.

    Parameters
    ----------
    start
        A matrix X for which the eigenvalues of MX lie between `least` and 1.

    Examples
    --------
    >>> from sfumato.joint.secret_sharing import LocalArithmetic
    >>> inverse, rank = invert(LocalArithmetic(), np.diag([2.0, 4.0]), np.eye(2) / 4, 0.5)
    >>> inverse.tolist(), rank.tolist()
    ([[0.5, 0.0], [0.0, 0.25]], [2.0])
    """
    size = len(matrix)
    unit = arithmetic.public(np.eye(size))
    inverse = start
    for _ in range(_squarings(least)):
        rest = unit - arithmetic.matmul(matrix, inverse)
        inverse = inverse + arithmetic.matmul(inverse, rest)
    product = arithmetic.matmul(matrix, inverse)
    return inverse, product[np.arange(size), np.arange(size)].sum(keepdims=True)


def _squarings(least: float) -> int:
    """How often an error of at most 1 - least must be squared to fall below 2^-64."""
    if least < 2.0**-40:
        return ceil(-log2(least)) + 6
    return ceil(log2(max(2.0, -64 / log2(max(1 - least, 2.0**-32)))))


def leading_digits(
    arithmetic: Arithmetic, step: str, secret: Secret, finest: int, digits: int = _DIGITS
) -> tuple[Floats, int]:
    """Open numbers, coarsely first, until the largest has so many units, or to the finest grid."""
    places = min(0, finest)
    while True:
        shown = arithmetic.open(step, secret, places)
        if places == finest or np.abs(shown).max() * 2.0**places >= digits:
            return shown, places
        places = min(places + _SLICE, finest)


def reciprocal(arithmetic: Arithmetic, secret: Secret, start: Secret, least: float) -> Secret:
    """1/a for secrets a, from a start y with 0 < least ≤ a·y ≤ 1."""
    two = arithmetic.public(np.full(secret.shape, 2.0))
    inverse = start
    for _ in range(_squarings(least)):  # the error 1 - a·y is squared by every step
        inverse = arithmetic.multiply(inverse, two - arithmetic.multiply(secret, inverse))
    return inverse


def symmetric(triangle: Secret, size: int) -> Secret:
    """The symmetric matrix of which this is the upper triangle, row by row."""
    full = np.empty((size, size), dtype=triangle.dtype)
    rows, columns = np.triu_indices(size)
    full[rows, columns] = triangle
    full[columns, rows] = triangle
    return full


def check_weight(weight: float) -> None:
    """Refuse a weight that secrets have no room for."""
    if not 1 / HEAVIEST <= weight <= HEAVIEST:
        raise ParameterError(
            f"the weight of an institution must lie between {1 / HEAVIEST:g} and {HEAVIEST:g}"
        )


def check_precision(precision: float) -> None:
    """Refuse a precision that is none, or finer than doubles keep on the way."""
    if not 1e-9 <= precision <= 1.0:
        raise ParameterError("the precision must lie between 1e-9 and 1")
