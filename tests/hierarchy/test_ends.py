"""Round ends of ranges: what they are, that they cover, and that they are nobody's."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.hierarchy import Published, Ranges
from sfumato.hierarchy.ends import finer_ends, round_ends
from sfumato.hierarchy.ranges import MOST_MORE, published_ranges

EPOCH = dt.datetime(2020, 1, 1)
SECONDS = np.random.default_rng(3).uniform(0, 1, 3000)


def spread_over(days: float) -> list[dt.datetime]:
    return sorted({EPOCH + dt.timedelta(days=days * float(share)) for share in SECONDS})


@pytest.mark.parametrize(
    ("line", "step"),
    [
        (pa.array(range(17, 91)), "1"),
        (pa.array(range(0, 500_000, 100)), "2000"),
        (pa.array(np.sort(SECONDS)), "0.005"),
        (pa.array([Decimal("1.25") * at for at in range(400)]), "2"),
        (pa.array([day.date() for day in spread_over(300)]).unique(), "1 day"),
        (pa.array([day.date() for day in spread_over(9_000)]).unique(), "1 month"),
        (pa.array([day.date() for day in spread_over(90_000)]).unique(), "1 year"),
        (pa.array(spread_over(1)), "10 minutes"),
        (pa.array(spread_over(30)), "3 hours"),
        (pa.array(spread_over(3_000)), "1 day"),
        (pa.array(spread_over(30_000)), "1 month"),
        (pa.array([day.time() for day in spread_over(1)]), "10 minutes"),
        (pa.array([day - EPOCH for day in spread_over(1)]), "10 minutes"),
    ],
)
def test_the_step_fits_the_column(line: pa.Array, step: str) -> None:
    ends = round_ends(line, np.ones(len(line)), k=1)
    assert ends is not None
    assert ends.step == step


def test_midnight_is_the_end_of_a_day_and_not_written() -> None:
    moments = round_ends(pa.array(spread_over(3_000)), np.ones(3_000), k=5)
    assert moments is not None
    assert moments.texts[1].as_py() == "2020-01-01"
    clock = pa.array([moment.time() for moment in spread_over(1)])
    ranges = Ranges(clock, "t", held=np.ones(len(clock)), k=5)
    shown = ranges.published([0], [len(clock) - 1])
    assert shown.array().to_pylist() == ["[00:00:00, 24:00:00)"]
    assert [int(end[0]) for end in ranges.read(shown.array())] == [0, len(clock) - 1]


def test_extremes_do_not_make_the_grid_coarse() -> None:
    wages = np.unique(np.random.default_rng(0).integers(10_000, 90_000, 5_000))
    plain = round_ends(pa.array(wages), np.ones(len(wages)), k=5)
    with_one = np.append(wages, 10**12)
    rich = round_ends(pa.array(with_one), np.ones(len(with_one)), k=5)
    assert plain is not None
    assert rich is not None
    assert plain.step == rich.step == "500"
    assert len(rich.texts) < 1_000


def test_values_of_few_rows_are_no_ends() -> None:
    ages = Ranges(pa.array(range(20, 30)), "age", held=[9, 1, 9, 1, 9, 9, 9, 9, 2, 9], k=5)
    shown = ages.published([1, 3, 6], [2, 4, 8])
    assert shown.array().to_pylist() == ["[20, 24)", "[22, 25)", "[26, 29)"]
    assert shown.leaf_count[shown.codes].tolist() == [4, 3, 3]


def test_a_value_of_one_row_too_few_is_no_end() -> None:
    held = np.array([9, 9, 4, 5, 9, 9])
    grid = round_ends(pa.array(range(20, 26)), held, k=5)
    assert grid is not None
    assert grid.texts.to_pylist() == ["19", "20", "21", "23", "24", "25", "26"]


def test_where_nearly_every_value_is_rare_ends_lie_between_values() -> None:
    ages = Ranges(pa.array(range(20, 80)), "age", held=[3] * 60, k=5)
    assert ages.published([3], [9]).array().to_pylist() == ["[21.5, 29.5)"]
    days = pa.array([dt.date(2020, 1, 1) + dt.timedelta(days=at) for at in range(60)])
    dated = Ranges(days, "day", held=[3] * 60, k=5)
    (label,) = dated.published([3], [9]).array().to_pylist()
    assert label == "[2020-01-02 12:00:00, 2020-01-10 12:00:00)"
    assert [int(end[0]) for end in dated.read(pa.array([label]))] == [2, 9]


ODD = [float(at) for at in range(1_000) if at != 500]
MINUTES = [EPOCH + dt.timedelta(minutes=at) for at in range(1_000) if at != 500]


@pytest.mark.parametrize(
    "line",
    [
        sorted([*ODD, 0.1 + 0.2]),
        sorted([*ODD, 1_000.7]),
        sorted([*ODD, *(at + 0.1 + 0.2 for at in range(900))]),
        sorted([*MINUTES, MINUTES[499] + dt.timedelta(microseconds=1)]),
        [2**60 + at for at in range(1_000)],
    ],
)
def test_one_odd_value_does_not_put_ends_on_values(line: list[Any]) -> None:
    values = pa.array(line)
    ends = round_ends(values, np.ones(len(line)), k=5)
    assert ends is not None
    assert len(ends.texts) > 50
    assert not set(line) & set(ends.values.to_pylist())
    ranges = Ranges(values, "x", held=[1] * len(line), k=5)
    assert ranges.ends is not None
    whole = ranges.published([0, 5], [3, len(line) - 1])
    first, last = ranges.read(whole.array())
    assert first.tolist() == whole.low[whole.codes].tolist()
    assert last.tolist() == whole.high[whole.codes].tolist()


def test_a_range_that_may_not_be_widened_keeps_its_ends() -> None:
    wages = Ranges(pa.array([1_003, 1_009, 50_000, 90_000]), "wage", held=[1] * 4, k=1)
    assert wages.published([0], [1]).array().to_pylist() == ["[1000, 1100)"]
    wages.widest = 6
    assert wages.published([0, 0], [1, 2]).array().to_pylist() == ["[1000, 1100)", "[1003, 50001)"]


numbers = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=30, unique=True)
reals = st.lists(
    st.floats(-1e12, 1e12).map(lambda number: number + 0.0), min_size=2, max_size=30, unique=True
)


@given(st.one_of(numbers, reals), st.integers(1, 6), st.data())
def test_ranges_cover_what_they_stand_for(values: list[float], k: int, data: st.DataObject) -> None:
    held = data.draw(st.lists(st.integers(1, 9), min_size=len(values), max_size=len(values)))
    ranges = Ranges(pa.array(values), "x", held=held, k=k)
    low = data.draw(st.integers(0, len(values) - 1))
    high = data.draw(st.integers(low, len(values) - 1))
    shown = ranges.published([low], [high])
    assert shown.low[0] <= low
    assert shown.high[0] >= high
    (label,) = shown.array().to_pylist()
    if low == high or ranges.ends is None:
        return
    again = ranges.read(shown.array())
    assert (int(again[0][0]), int(again[1][0])) == (shown.low[0], shown.high[0])
    rare = {str(value) for value, rows in zip(values, held, strict=True) if rows < k}
    assert not rare & set(label[1:-1].split(", "))


def test_ends_beyond_what_floats_hold_are_read_exactly() -> None:
    ranges = Ranges(pa.array([0, -1, 2, 999, 18_014_398_509_481_435, 1]), "x")
    low, high = ranges.read(pa.array(["[-2, 18014398509481436)", "(-1, 18014398509481434]"]))
    assert list(zip(low.tolist(), high.tolist(), strict=True)) == [(0, 5), (1, 4)]


@given(st.lists(st.integers(0, 9), min_size=2, max_size=40), st.integers(2, 6), st.booleans())
def test_no_value_of_few_rows_lies_alone_between_two_ends(
    held: list[int], k: int, whole: bool
) -> None:
    line = pa.array(range(len(held))) if whole else pa.array([at / 4 for at in range(len(held))])
    unit = 1.0 if whole else 0.01
    steps = 0
    for ends in finer_ends(line, np.array(held), k):
        steps += 1
        assert (np.diff(ends.below) >= 0).all()
        assert (ends.below[0], ends.below[-1]) == (0, len(line))
        for begin, end, first, last in zip(
            ends.points, ends.points[1:], ends.below, ends.below[1:], strict=False
        ):
            alone = last - first == 1 and end - begin < 1.5 * unit
            assert not (alone and 0 < held[first] < k)
        rare = {float(v) for v, rows in zip(line.to_pylist(), held, strict=True) if 0 < rows < k}
        assert not rare & set(ends.points.tolist())
    assert steps


@pytest.mark.parametrize("seed", range(6))
def test_ends_are_so_fine_that_ranges_lose_little_by_them(seed: int) -> None:
    random = np.random.default_rng(seed)
    wages = np.round(random.lognormal(10, 1, 4_000), -1).astype(int)  # a few are very rich
    values, held = np.unique(wages, return_counts=True)
    cuts = np.append(np.flatnonzero(np.diff(np.cumsum(held) // 40)), len(values) - 1)
    low, high = np.append(0, cuts[:-1] + 1), cuts
    rows = np.array([held[a : b + 1].sum() for a, b in zip(low, high, strict=True)])
    exact = Ranges(pa.array(values), "wage").published(low, high)
    rounded = Ranges(pa.array(values), "wage", held=held, k=5)
    least = rows @ exact.loss[exact.codes]
    coarse = rounded.published(low, high)
    fine = published_ranges({"wage": (rounded, low, high)}, rows)["wage"]
    assert rows @ coarse.loss[coarse.codes] > (1 + MOST_MORE) * least
    assert rows @ fine.loss[fine.codes] <= (1 + MOST_MORE) * least
    rare = {str(value) for value, times in zip(values, held, strict=True) if times < 5}
    ends = {
        e for label in fine.labels.to_pylist() if label[0] == "[" for e in label[1:-1].split(", ")
    }
    assert not ends & rare


def together(line: Ranges, low: list[int], high: list[int], rows: list[int]) -> Published:
    return published_ranges({"x": (line, np.array(low), np.array(high))}, np.array(rows))["x"]


def test_columns_that_lose_much_pay_for_those_that_lose_little() -> None:
    wage = Ranges(pa.array(range(1000, 9000, 7)), "wage", held=[1] * 1143, k=5)
    sure = Ranges(pa.array(range(100)), "sure", held=[9] * 100, k=5)
    alone = together(wage, [3], [9], [7]).array().to_pylist()
    both = {
        "wage": (wage, np.array([3]), np.array([9])),
        "sure": (sure, np.array([0]), np.array([99])),
    }
    shown = published_ranges(both, np.array([7]))
    assert shown["wage"].array().to_pylist() != alone
    assert (
        shown["wage"].array().to_pylist()
        == published_ranges({"wage": both["wage"]}, np.array([7]), lost=7.0)["wage"]
        .array()
        .to_pylist()
    )


def test_where_no_round_ends_are_fine_enough_the_best_are_taken() -> None:
    held = [9, 9, 9, 2, 9, 9]  # 13 has to share its place, whatever that costs
    ages = Ranges(pa.array(range(10, 16)), "age", held=held, k=5)
    shown = together(ages, [0, 2, 4], [1, 3, 5], [18, 11, 18])
    assert shown.array().to_pylist() == ["[10, 12)", "[12, 14)", "[14, 16)"]
    alone = together(ages, [0, 3], [2, 5], [27, 20])
    assert alone.array().to_pylist() == ["[10, 14)", "[12, 16)"]
