"""The polynomials for ln(1 + ε): the paper's figures, and bounds that hold on every ε."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.secure import polynomial


@pytest.mark.parametrize(("terms", "error"), [(3, 0.0112), (4, 0.0044), (5, 0.0018)])
def test_taylor_errors_are_those_of_section_7(terms, error):
    assert round(polynomial.taylor_error(terms), 4) == error


@pytest.mark.parametrize("terms", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("precision", [4, 10, 17])
def test_taylor_coefficients_are_exact_integers(terms, precision):
    scale = polynomial.taylor_scale(precision, terms)
    assert scale == 2 ** (precision * terms) * math.lcm(*range(2, terms + 1))
    coefficients = polynomial.taylor(precision, terms)
    for i in range(1, terms + 1):
        exact = Fraction(scale * (-1) ** (i - 1), i * 2 ** (precision * i))
        assert exact.denominator == 1
        assert coefficients[i] == exact


@pytest.mark.parametrize("terms", [3, 4, 5])
def test_taylor_bound_holds_for_every_epsilon(terms):
    precision = 10
    coefficients, scale = (
        polynomial.taylor(precision, terms),
        polynomial.taylor_scale(precision, terms),
    )
    for e in range(-256, 512):
        value = sum(c * e**i for i, c in enumerate(coefficients)) / scale
        assert abs(value - math.log1p(e / 1024)) <= polynomial.taylor_error(terms)


@pytest.mark.parametrize(("terms", "error"), [(4, 8e-5), (5, 1.05e-5)])
def test_minimax_is_as_good_as_stated(terms, error):
    """Without the cutting off of ε, that is at very high precision."""
    assert polynomial.minimax_error(40, terms, 40 * terms + 40) < error


@pytest.mark.parametrize(("precision", "terms", "scale"), [(16, 5, 83), (10, 3, 40), (12, 4, 60)])
def test_minimax_bound_holds_for_every_epsilon_and_every_cut(precision, terms, scale):
    coefficients = polynomial.minimax(precision, terms, scale)
    bound = polynomial.minimax_error(precision, terms, scale)
    one = 1 << precision
    every = np.arange(-one // 4, one // 2, max(1, one >> 12))
    worst = 0.0
    for e in every:
        value = sum(c * int(e) ** i for i, c in enumerate(coefficients)) / 2**scale
        for cut in (0, 0.5, 1 - 1e-9):
            worst = max(worst, abs(value - math.log1p((int(e) + cut) / one)))
    assert bound / 2 < worst <= bound + 1e-12


def test_impossible_polynomials_are_refused():
    with pytest.raises(ParameterError, match="1 terms"):
        polynomial.taylor(10, 1)
    with pytest.raises(ParameterError, match="2 bits"):
        polynomial.minimax(2, 5, 40)
