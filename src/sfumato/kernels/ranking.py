"""Values as ranks: numbered as they first appear, sorted, translated.

This is the compiled half of encoding. Values arrive as int64 and leave as small numbers from 1;
0 is null. Narrow ranges go through a table with one cell a value, wide ones through a hash table of
whole values.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.budget import spans, together
from sfumato.kernels import compiling
from sfumato.kernels.classes import group_rows
from sfumato.kernels.compiling import always_compiled, compiled

_DIGIT_BITS = 8
_DIGITS = 1 << _DIGIT_BITS
_FEW = 1 << 14
"""Below this many keys a comparison sort is quicker."""

_BYTES = 7
"""Bytes of a text in one key; the eighth says how many of them there are."""


@always_compiled
def _count_digits(keys, start, stop, shift, many):  # type: ignore[no-untyped-def]
    """How many of the keys start … stop have each digit."""
    for i in range(start, stop):
        many[np.int64((keys[i] >> shift) & np.uint64(_DIGITS - 1))] += 1


@always_compiled
def _sort_by_digit(keys, order, start, stop, shift, places, sorted_keys, sorted_order):  # type: ignore[no-untyped-def]
    """One stable pass of a radix sort; numbers travel with their keys, at first their places."""
    first = len(order) == 0
    for i in range(start, stop):
        at = np.int64((keys[i] >> shift) & np.uint64(_DIGITS - 1))
        sorted_keys[places[at]] = keys[i]
        sorted_order[places[at]] = i if first else order[i]
        places[at] += 1


_RUN = 16
"""Values that are sorted by insertion before runs of them are merged."""


def _largest_first(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    return np.argsort(-values, kind="stable")


@compiled(instead=_largest_first)
def largest_first(values):  # type: ignore[no-untyped-def]
    """Places of numbers, from the largest number to the smallest; equal ones as they stand.

    For other loops: numba's own sort takes them a second to compile, each time anew.
    """
    n = len(values)
    order, merged = np.empty(n, np.int64), np.empty(n, np.int64)
    for start in range(0, n, _RUN):
        for i in range(start, min(start + _RUN, n)):
            at = i
            while at > start and values[order[at - 1]] < values[i]:
                order[at] = order[at - 1]
                at -= 1
            order[at] = i
    width = _RUN
    while width < n:
        for start in range(0, n, 2 * width):
            left, right = start, min(start + width, n)
            middle, end = right, min(start + 2 * width, n)
            for at in range(start, end):
                if right == end or (left < middle and values[order[left]] >= values[order[right]]):
                    merged[at] = order[left]
                    left += 1
                else:
                    merged[at] = order[right]
                    right += 1
        order, merged = merged, order
        width *= 2
    return order


@always_compiled
def _text_keys(data, offsets, texts, depth, keys):  # type: ignore[no-untyped-def]
    """Bytes depth … depth + 7 of each text as a number, and below them how many are left.

    Texts that end are told from texts that go on with zero bytes by what is left.
    """
    for i in range(len(texts)):
        start, end = offsets[texts[i]] + depth, offsets[texts[i] + 1]
        key = np.uint64(0)
        for at in range(start, start + _BYTES):
            key <<= np.uint64(8)
            if at < end:
                key |= np.uint64(data[at])
        keys[i] = key << np.uint64(8) | np.uint64(min(end - start, _BYTES + 1))


def sorted_order(
    keys: npt.NDArray[np.uint64], space: int, threads: int = 1, *, keep: bool = True
) -> npt.NDArray[np.uint32]:
    """Numbers of the keys in ascending order of the keys, all of them below `space`; stable.

    Unless the keys are to `keep` their order, they may lie anywhere afterwards.

    Examples
    --------
    >>> import numpy as np
    >>> sorted_order(np.array([7, 3, 7, 1], np.uint64), 8).tolist()
    [3, 1, 0, 2]
    """
    if len(keys) < _FEW:
        return np.argsort(keys, kind="stable").astype(np.uint32)
    given, order = keys, np.empty(0, np.uint32)
    sorted_keys, sorted_ = np.empty_like(keys), np.empty(len(keys), np.uint32)
    parts = spans(len(keys), threads)
    for bits in range(0, max(1, (space - 1).bit_length()), _DIGIT_BITS):
        shift = np.uint64(bits)
        many = np.zeros((len(parts), _DIGITS), np.int64)
        counting = zip(parts, many, strict=True)
        together(_count_digits, [(keys, *part, shift, row) for part, row in counting])
        # Digit by digit, and inside of a digit part by part: equal keys keep their order.
        places = (np.cumsum(many.T.ravel()).reshape(many.T.shape) - many.T).T
        together(
            _sort_by_digit,
            [
                (keys, order, *part, shift, np.ascontiguousarray(row), sorted_keys, sorted_)
                for part, row in zip(parts, places, strict=True)
            ],
        )
        spare = np.empty_like(keys) if keep and keys is given else keys
        keys, sorted_keys = sorted_keys, spare
        order, sorted_ = sorted_, order if len(order) else np.empty_like(sorted_)
    return order


def text_ranks(
    data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Rank of every text, compared byte by byte, and one text of each rank.

    Parameters
    ----------
    data, offsets
        Text i is ``data[offsets[i]:offsets[i + 1]]``; equal texts may repeat.

    Examples
    --------
    >>> import numpy as np
    >>> texts = np.frombuffer(b"bab", np.uint8)
    >>> ranks, one_of = text_ranks(texts, np.array([0, 1, 2, 3]))
    >>> ranks.tolist(), int(one_of[0])
    ([1, 0, 1], 1)
    """
    texts = len(offsets) - 1
    if compiling.by_numpy(texts):
        return _few_text_ranks(data.tobytes(), offsets)
    order = np.arange(texts, dtype=np.uint32)
    begins = np.zeros(texts, np.bool_)  # where, in ascending order, a text differs from the last
    begins[:1] = True
    places = np.arange(texts)  # those whose order among equals so far is not known
    run = np.zeros(texts, np.uint32)  # which texts have been equal so far
    depth = 0
    while len(places):
        keys = np.empty(len(places), np.uint64)
        _text_keys(data, offsets, order[places], depth, keys)
        by_key = sorted_order(keys, 1 << 64)
        by_run, _ = group_rows(run[by_key], int(run[-1]) + 1)
        sorted_ = by_key[by_run]
        order[places] = order[places][sorted_]
        keys = keys[sorted_]
        same = (keys[1:] == keys[:-1]) & (run[1:] == run[:-1])
        begins[places[1:]] |= ~same
        goes_on = (keys & np.uint64(0xFF)) > _BYTES
        open_ = goes_on & (np.append(same, False) | np.append(False, same))
        run = np.cumsum(~np.append(False, same))[open_].astype(np.uint32)
        run = np.unique(run, return_inverse=True)[1].astype(np.uint32)
        places = places[open_]
        depth += _BYTES
    ranks = np.empty(texts, np.uint32)
    ranks[order] = np.cumsum(begins) - 1
    return ranks, order[begins]


def _few_text_ranks(
    data: bytes, offsets: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    texts = [data[start:end] for start, end in itertools.pairwise(offsets.tolist())]
    one_of = {text: at for at, text in enumerate(texts)}
    rank = {text: at for at, text in enumerate(sorted(one_of))}
    ranks = np.array([rank[text] for text in texts], np.uint32)
    return ranks, np.array([one_of[text] for text in rank], np.uint32)


def number_new(
    values: npt.NDArray[np.int64], valid: npt.NDArray[np.bool_], seen: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """Number any values; returns their numbers, and those seen before with the new ones.

    Examples
    --------
    >>> import numpy as np
    >>> numbers, seen = number_new(np.array([7, 5, 7]), np.empty(0, np.bool_), np.array([5]))
    >>> numbers.tolist(), seen.tolist()
    ([2, 1, 2], [5, 7])
    """
    given = values[valid] if len(valid) else values
    distinct, places = np.unique(given, return_inverse=True)
    seen = np.concatenate([seen, distinct[~np.isin(distinct, seen)]])
    order = np.argsort(seen)
    known = order[np.searchsorted(seen, distinct, sorter=order)].astype(np.uint32) + np.uint32(1)
    if not len(valid):
        return known[places], seen
    numbers = np.zeros(len(values), np.uint32)
    numbers[valid] = known[places]
    return numbers, seen


def number_indices(
    indices: npt.NDArray[np.int32],
    valid: npt.NDArray[np.bool_],
    occurs: npt.NDArray[np.bool_],
    numbers: npt.NDArray[Any],
) -> None:
    """Indices into a dictionary as numbers from 1, marking those that occur; 0 is null."""
    if compiling.by_numpy(len(indices)):
        numbers[:] = np.where(valid, indices + 1, 0) if len(valid) else indices + 1
        occurs[numbers] = True
    else:
        _number_indices(indices, valid, occurs, numbers)


def by_appearance(
    indices: npt.NDArray[np.int32], valid: npt.NDArray[np.bool_], size: int
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """Number indices below `size` from 1 as they appear (0 is null); the index of each number.

    Examples
    --------
    >>> import numpy as np
    >>> numbers, found = by_appearance(np.array([7, 5, 7], np.int32), np.empty(0, np.bool_), 9)
    >>> numbers.tolist(), found.tolist()
    ([1, 2, 1], [7, 5])
    """
    numbers = np.zeros(len(indices), np.uint32)
    if number_nearby.settled or not compiling.by_numpy(len(indices)):
        table, seen = np.zeros(size, np.uint32), np.empty(size, np.int64)
        _, many = number_nearby(indices, valid, 0, table, seen, 0, 0, numbers)
        return numbers, seen[:many]
    given = valid if len(valid) else slice(None)
    found, first, places = np.unique(indices[given], return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty(len(order), np.uint32)
    number[order] = np.arange(1, len(order) + 1, dtype=np.uint32)
    numbers[given] = number[places]
    return numbers, found[order].astype(np.int64)


def translate(
    numbers: npt.NDArray[Any], codes: npt.NDArray[Any], out: npt.NDArray[Any] | None = None
) -> npt.NDArray[Any]:
    """Codes of numbers, by a table: what numpy gives for ``codes[numbers]``, in less time.

    Examples
    --------
    >>> import numpy as np
    >>> translate(np.array([0, 2, -1]), np.array([7, 8, 9])).tolist()
    [7, 9, 9]
    """
    out = np.empty(len(numbers), codes.dtype) if out is None else out
    if compiling.by_numpy(len(numbers)):
        out[:] = codes[numbers]
    else:
        _translate(numbers, codes, out)
    return out


_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@always_compiled
def number_nearby(values, valid, base, table, seen, found, start, numbers):  # type: ignore[no-untyped-def]
    """Number values of base … base + len(table); stops at the first one outside.

    Returns where it stopped and how many different values have been found.
    """
    width = np.uint64(len(table))
    nulls = len(valid) > 0
    for i in range(start, len(values)):
        if nulls and not valid[i]:
            numbers[i] = 0
            continue
        cell = np.uint64(values[i]) - np.uint64(base)
        if cell >= width:
            return i, found
        number = table[cell]
        if number == 0:
            if found == len(seen):
                return i, found
            seen[found] = values[i]
            found += 1
            number = found
            table[cell] = number
        numbers[i] = number
    return len(values), found


@always_compiled
def number_hashed(values, valid, slots, seen, found, start, numbers):  # type: ignore[no-untyped-def]
    """Number any values; stops when the table is half full or `seen` is full."""
    mask = np.uint64(len(slots) - 1)
    nulls = len(valid) > 0
    for i in range(start, len(values)):
        if nulls and not valid[i]:
            numbers[i] = 0
            continue
        value = values[i]
        at = _home(value, mask)
        while slots[at] != 0 and seen[slots[at] - 1] != value:
            at = (at + np.uint64(1)) & mask
        if slots[at] == 0:
            if found == len(seen) or 2 * found >= len(slots):
                return i, found
            seen[found] = value
            found += 1
            slots[at] = found
        numbers[i] = slots[at]
    return len(values), found


@always_compiled
def _home(value, mask):  # type: ignore[no-untyped-def]
    key = np.uint64(value) * _SPREAD
    return (key ^ (key >> np.uint64(32))) & mask


@always_compiled
def grown(seen, found, size):  # type: ignore[no-untyped-def]
    """A larger hash table of the values seen so far."""
    slots = np.zeros(size, np.uint32)
    mask = np.uint64(size - 1)
    for number in range(found):
        at = _home(seen[number], mask)
        while slots[at] != 0:
            at = (at + np.uint64(1)) & mask
        slots[at] = number + 1
    return slots


@always_compiled
def _number_indices(indices, valid, occurs, numbers):  # type: ignore[no-untyped-def]
    nulls = len(valid) > 0
    for i in range(len(indices)):
        number = np.int64(0)
        if not nulls or valid[i]:
            number = np.int64(indices[i]) + 1
        numbers[i] = number
        occurs[number] = True


@always_compiled
def _translate(numbers, codes, out):  # type: ignore[no-untyped-def]
    for i in range(len(numbers)):
        out[i] = codes[np.int64(numbers[i])]
