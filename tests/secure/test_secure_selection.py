"""The smallest, the largest, limits and zeros of shared numbers against Python."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato import secure
from sfumato.errors import ParameterError
from sfumato.secure import Ring
from two_parties import RINGS, agree, split


@st.composite
def groups(draw):
    ring = draw(st.sampled_from([*RINGS, Ring(4), Ring(3), Ring(2)]))
    group = draw(st.integers(1, 5))
    count = draw(st.integers(1, 4))
    low, high = -(ring.modulus // 2), ring.modulus - ring.modulus // 2 - 1
    number = st.one_of(st.sampled_from([low, high, 0, high - 1]), st.integers(low, high))
    numbers = draw(st.lists(number, min_size=group * count, max_size=group * count))
    return ring, group, numbers


@given(groups())
@settings(max_examples=25)
def test_smallest_and_largest_of_each_group(case):
    ring, group, numbers = case
    x = split(ring, numbers)

    def party(session):
        mine = x[session.role]
        return np.stack(
            [
                secure.argmin(session, mine, group=group, what="the smallest"),
                secure.argmax(session, mine, group=group, what="the largest"),
            ]
        )

    runs = [numbers[i : i + group] for i in range(0, len(numbers), group)]
    smallest = [run.index(min(run)) for run in runs]
    largest = [run.index(max(run)) for run in runs]
    assert agree(party).tolist() == [smallest, largest]


@pytest.mark.parametrize("modulus", [2, 3, 4, 5, 8, 9])
def test_limits_and_zeros_exhaustively(modulus):
    """Every pair of shares and every limit."""
    ring = Ring(modulus)
    pairs = list(itertools.product(range(modulus), repeat=2))
    mine = {"alice": [a for a, _ in pairs], "bob": [b for _, b in pairs]}
    values = [int(v) for v in ring.decode(ring.encode([a + b for a, b in pairs]))]
    low = -(modulus // 2)
    limits = range(low, low + modulus + 1)

    def party(session):
        x = secure.private(ring, mine[session.role])
        answers = [secure.below(session, x, limit, what="below") for limit in limits]
        return np.stack([*answers, secure.is_zero(session, x, what="zero")])

    expected = [[v < limit for v in values] for limit in limits] + [[v == 0 for v in values]]
    assert agree(party).tolist() == expected


def test_both_sides_state_what_they_learned():
    def party(session):
        x = secure.private(Ring.power_of_two(16), [1, 2])
        secure.argmin(session, x, what="the best attribute")
        secure.below(session, x, 5, what="whether few are left")
        return [what for _, what in session.report().learned]

    assert agree(party) == ["the best attribute", "whether few are left"]


def test_what_cannot_be_is_refused():
    x = secure.zeros(Ring(16), 5)
    with pytest.raises(ParameterError, match="groups of 2"):
        agree(lambda s: secure.argmin(s, x, group=2, what="x"))
    with pytest.raises(ParameterError, match="reach the limit"):
        agree(lambda s: secure.below(s, x, 9, what="x"))
