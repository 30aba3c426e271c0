"""Fixed point numbers and masks that cancel."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import PeerError, UnfinishedError
from sfumato.joint.secure_sum import (
    LARGEST,
    PairKeys,
    add,
    mask_stream,
    pack,
    to_fixed,
    to_floats,
    unpack,
)

numbers = st.floats(-LARGEST, LARGEST, exclude_min=True, exclude_max=True)


@given(st.lists(numbers, min_size=1, max_size=20))
def test_numbers_survive_to_2_to_the_minus_64(values: list[float]) -> None:
    array = np.array(values)
    back = to_floats(to_fixed(array))
    for given_number, found in zip(array, back, strict=True):
        error = abs(Fraction(given_number) - Fraction(found))
        assert error <= Fraction(1, 2**64) + abs(Fraction(given_number)) / 2**52


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=20))
def test_sums_are_exact(pairs: list[tuple[float, float]]) -> None:
    a, b = (np.array(column) for column in zip(*pairs, strict=True))
    found = to_floats(add(to_fixed(a), to_fixed(b)))
    for x, y, z in zip(a, b, found, strict=True):
        exact = Fraction(x) + Fraction(y)
        assert abs(exact - Fraction(z)) <= Fraction(2, 2**64) + abs(exact) / 2**52


def test_the_wire_form() -> None:
    fixed = to_fixed(np.array([1.5, -2.25]))
    assert (
        pack(fixed).hex()
        == "00000000000000800100000000000000" + "00000000000000c0" + "fd" + "ff" * 7
    )
    np.testing.assert_array_equal(unpack(pack(fixed)), fixed)


@pytest.mark.parametrize("bad", [np.inf, np.nan, LARGEST])
def test_boundless_numbers_are_refused(bad: float) -> None:
    with pytest.raises(UnfinishedError, match="diverges"):
        to_fixed(np.array([bad]))


def parties(names: str) -> dict[str, PairKeys]:
    keys = {name: PairKeys() for name in names}
    publics = {name: key.public for name, key in keys.items()}
    for name, key in keys.items():
        key.agree(name, publics, b"context")
    return keys


def test_masks_cancel_in_the_sum_and_in_no_smaller_sum() -> None:
    keys = parties("abcd")
    values = {name: np.array([1.25 * k, -3.0]) for k, name in enumerate("abcd", start=1)}
    masked = {
        name: key.mask(to_fixed(values[name]), [n for n in "abcd" if n != name], 0, 7)
        for name, key in keys.items()
    }
    total = masked["a"]
    for name in "bcd":
        partial = to_floats(total)
        assert np.abs(partial).max() > 1e6  # still masked
        total = add(total, masked[name])
    np.testing.assert_array_equal(to_floats(total), [12.5, -12.0])


@pytest.mark.parametrize("bad", [bytes(32), b"short"])
def test_keys_that_are_no_keys_are_refused(bad: bytes) -> None:
    keys = PairKeys()
    with pytest.raises(PeerError, match="`b` is not valid"):
        keys.agree("a", {"a": keys.public, "b": bad}, b"")


def test_streams_differ_by_key_epoch_and_round() -> None:
    key = bytes(32)
    streams = [mask_stream(key, e, n, 4).tobytes() for e, n in ((0, 1), (0, 2), (1, 1))]
    streams.append(mask_stream(b"\1" * 32, 0, 1, 4).tobytes())
    assert len(set(streams)) == 4
    assert mask_stream(key, 0, 1, 4).tobytes() == streams[0]


def test_masked_numbers_look_uniform() -> None:
    keys = parties("abc")
    masked = keys["a"].mask(to_fixed(np.zeros(20_000)), ["b", "c"], 0, 1)
    for limb in range(2):
        shares = np.bincount((masked[:, limb] >> np.uint64(60)).astype(int), minlength=16) / 20_000
        assert np.abs(shares - 1 / 16).max() < 0.01
