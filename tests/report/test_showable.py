"""What may be shown of a column, against counting by hand."""

from __future__ import annotations

import html
import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.report import charts
from sfumato.report.diagrams import lattice_svg, sets_svg
from sfumato.report.disclosure import RARE, common_values, name_of, numeric_bins, only_common
from sfumato.report.drawing import chart_data, draw
from sfumato.wording import percent

counts = st.dictionaries(st.text(min_size=1, max_size=3), st.integers(1, 40), max_size=30)


@given(before=counts, after=counts)
def test_only_common_values_are_shown(before: dict[str, int], after: dict[str, int]) -> None:
    shown, hidden = common_values(before, after)
    assert len(shown) + hidden == len(before)
    first, then = sum(before.values()), sum(after.values())
    for value, share, later in shown:
        assert before[value] >= RARE
        assert share == before[value] / first
        held = after.get(value, 0)
        assert later == (held / then if then else 0)
    assert [share for _, share, _ in shown] == sorted((b for _, b, _ in shown), reverse=True)


@given(
    numbers=st.lists(
        st.tuples(st.integers(-1000, 1000), st.integers(1, 60)),
        min_size=1,
        max_size=60,
        unique_by=lambda pair: pair[0],
    )
)
def test_bins_hold_every_row(numbers: list[tuple[int, int]]) -> None:
    values = np.array([float(v) for v, _ in numbers])
    rows = np.array([n for _, n in numbers])
    released = {str(v): n for v, n in numbers}
    bins = only_common(numeric_bins(values, rows, released))
    if not bins:
        return
    lows, highs = [low for low, *_ in bins], [high for _, high, *_ in bins]
    assert lows[1:] == highs[:-1]
    assert all(high - low >= 1 and low.is_integer() for low, high, *_ in bins)
    assert sum(before for _, _, before, _ in bins) == rows.sum()
    assert sum(after for *_, after in bins) == pytest.approx(rows.sum())
    for at, (low, high, before, after) in enumerate(bins):
        inside = (values >= low) & (values < high)
        if at == 0:
            inside |= values < low
        if at == len(bins) - 1:
            inside |= values >= high
        held = rows[inside].sum()
        assert after == pytest.approx(held)
        assert before == held
        assert held == 0 or held >= RARE


def test_whole_numbers_that_span_little_are_counted_one_by_one() -> None:
    children, rows = np.arange(4.0), np.array([400, 300, 250, 50])
    bins = numeric_bins(children, rows, {"0": 300, "[1, 3)": 600, "3": 100})
    assert bins == [(0, 1, 400, 300), (1, 2, 300, 300), (2, 3, 250, 300), (3, 4, 50, 100)]


def test_the_ends_are_not_those_of_a_few_rows() -> None:
    values = np.array([*range(20, 60), 999_999.0])
    rows = np.array([5] * 40 + [3])
    bins = numeric_bins(values, rows, {})
    assert bins[-1][1] <= 70


def test_a_range_is_spread_over_its_bins() -> None:
    values, rows = np.arange(0.0, 100.0), np.full(100, 10)
    bins = numeric_bins(values, rows, {"[0, 49]": 500, "[50, 100)": 500, "*": 7, "None": 3}, bins=4)
    assert [after for *_, after in bins] == pytest.approx([250, 250, 250, 250])


@pytest.mark.parametrize(
    ("given_name", "said"),
    [
        ("people.csv", "people.csv"),
        ("/home/ada/secret/people.csv", "people.csv"),
        ("postgresql://ada:pass@host/db#public.people", "public.people"),
        ("postgresql://ada:pass@host/db", "a database table"),
        ("", "table"),
    ],
)
def test_names_say_neither_folders_nor_passwords(given_name: str, said: str) -> None:
    assert name_of(given_name) == said


@given(sets=st.sets(st.frozensets(st.sampled_from("abcde"), min_size=1, max_size=3), max_size=6))
def test_the_lattice_draws_each_set_once(sets: set[frozenset[str]]) -> None:
    minimal = [sorted(s) for s in sets if not any(other < s for other in sets)]
    picture = lattice_svg("abcde", minimal, "Sets")
    above = sum(
        any(set(m) < subset for m in minimal)
        for subset in ({c for at, c in enumerate("abcde") if bits >> at & 1} for bits in range(32))
    )
    assert picture.count("<circle") == 32
    assert picture.count("<line") == 5 * 16
    assert picture.count('class="found"') == len(minimal)
    assert picture.count('class="above"') == above


def test_many_columns_stay_readable() -> None:
    names = [f"column_{at}" for at in range(40)]
    sets = [[names[a], names[(a + step) % 40]] for a in range(40) for step in (1, 2, 3)]
    picture = sets_svg(sets, "Sets")
    assert picture.count('class="joint"') == 30
    assert picture.count('class="dot"') == 60
    assert "in 120 sets" in picture


def test_marks_say_their_figures_and_pale_ones_are_not_lost() -> None:
    pairs = {("age", "age"): 0.0004, ("age", "zip"): 0.12345, ("zip", "zip"): 0.9}
    drawn = draw(charts.pair_strength("Pairs", pairs), 1)
    assert "other: zip; one: age; alone: 0.1235" in drawn
    assert min(float(opacity) for opacity in re.findall(r'opacity="([0-9.]+)"', drawn)) >= 0.05
    bars = draw(charts.shares("Shares", {'a "quoted" name': 0.12345}, what="rows"), 2)
    assert "name: a &quot;quoted&quot; name; rows: 12.3%" in bars


@pytest.mark.parametrize("share", [0.4725, 0.0025, 0.5625, 0.00004, 0.99999, -0.00001])
def test_a_share_is_the_same_where_the_pointer_rests(share: float) -> None:
    """Ticks round otherwise than sentences do: labels and what marks say are written as these."""
    spec = charts.shares("Rows", {"a": share}, what="share of rows")
    assert f"<title>name: a; share of rows: {html.escape(percent(share))}</title>" in draw(spec, 1)
    wide = json.loads(chart_data(spec))["wide"]
    tooltip = wide["layer"][0]["encoding"]["tooltip"][1]
    assert wide["data"]["values"][0][tooltip["field"]] == percent(share)
    assert not percent(share).startswith("-")
