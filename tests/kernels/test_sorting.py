"""Radix sorts against the sorts of Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.kernels.ranking import largest_first, sorted_order, text_ranks

pytestmark = pytest.mark.usefixtures("by")


@pytest.mark.parametrize("bits", [1, 11, 12, 40, 64])
@pytest.mark.parametrize("many", [0, 1, 100, 50_000])
def test_order_is_ascending_and_stable(bits, many):
    keys = np.random.default_rng(5).integers(0, 2**bits, many, np.uint64, endpoint=False)
    before = keys.copy()
    assert np.array_equal(sorted_order(keys, 1 << bits), np.argsort(keys, kind="stable"))
    assert np.array_equal(keys, before)


@pytest.mark.parametrize("many", [0, 1, 16, 17, 50, 129])
def test_the_largest_come_first_and_equal_ones_as_they_stand(many):
    values = np.random.default_rng(7).integers(-3, 4, many)
    expected = sorted(range(many), key=lambda at: -values[at])
    assert largest_first(values).tolist() == largest_first.plain(values).tolist() == expected


def ranks_of(texts):
    offsets = np.cumsum([0, *map(len, texts)])
    return text_ranks(np.frombuffer(b"".join(texts) or b"\0", np.uint8), offsets)


# Few letters, zero bytes and long common beginnings: where prefixes and padding could go wrong.
TEXTS = st.lists(
    st.tuples(
        st.sampled_from([b"", b"aaaaaaa", b"a" * 14, b"\x00" * 7, b"ab" * 20]),
        st.text("\x00ab\xff", max_size=9).map(lambda text: text.encode("latin-1")),
    ).map(b"".join),
    max_size=30,
)


@given(TEXTS)
def test_texts_are_ranked_byte_by_byte(texts):
    ranks, one_of = ranks_of(texts)
    distinct = sorted(set(texts))
    assert ranks.tolist() == [distinct.index(text) for text in texts]
    assert [texts[at] for at in one_of] == distinct


def test_many_texts():
    numbers = np.random.default_rng(6).integers(0, 40_000, 60_000)
    texts = [b"patient number %d" % number for number in numbers]
    ranks, one_of = ranks_of(texts)
    distinct = sorted(set(texts))
    place = {text: at for at, text in enumerate(distinct)}
    assert ranks.tolist() == [place[text] for text in texts]
    assert [texts[at] for at in one_of] == distinct
