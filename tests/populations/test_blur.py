"""Columns of every kind, blurred to few values; codes that lost their zeros; mixed columns."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.columns.codebooks import is_postal_name, looks_postal, postal_text
from sfumato.errors import ColumnError
from sfumato.hierarchy import Hierarchy
from sfumato.populations.plan import Blurrer


def blurrer(name: str, values: list[object], counts: list[int] | None = None) -> Blurrer:
    return Blurrer(name, pa.array(values), counts or [1] * len(values))


def test_numbers_become_ranges() -> None:
    blurred = blurrer("age", [20, 21, 30, 35, 50, 60]).to(3)
    assert blurred.labels.to_pylist() == ["[20, 22)", "[30, 36)", "[50, 61)"]
    assert blurred.groups.tolist() == [0, 0, 1, 1, 2, 2]
    assert blurred.action == "3 ranges between quantiles"


def test_dates_become_ranges_of_days() -> None:
    days = [dt.date(1950, 1, 1), dt.date(1960, 2, 3), dt.date(1970, 1, 1), dt.date(1999, 12, 31)]
    assert blurrer("birth", days).to(2).labels.to_pylist() == [
        "[1950-01-01, 1960-02-04)",
        "[1970-01-01, 2000-01-01)",
    ]


def test_timestamps_become_ranges() -> None:
    moments = [dt.datetime(2020, 1, day) for day in range(1, 9)]
    assert blurrer("seen", moments).to(4).distinct == 4


def test_nulls_and_nan_keep_their_own_group() -> None:
    blurred = blurrer("x", [1.0, 2.0, 3.0, 4.0, float("nan"), None]).to(4)
    assert blurred.distinct == 4
    assert blurred.labels.to_pylist()[2:] == ["nan", None]
    assert blurred.groups.tolist() == [0, 0, 1, 1, 2, 3]


def test_zip_codes_lose_digits_as_in_example_5() -> None:
    codes = ["02138", "02139", "02140", "10001"]
    assert blurrer("zip", codes).to(3).labels.to_pylist() == ["0213*", "0214*", "1000*"]
    assert blurrer("zip", codes).to(2).labels.to_pylist() == ["021**", "100**"]


def test_a_hierarchy_is_climbed_to_the_first_level_that_fits() -> None:
    cities = ["Ames", "Iowa City", "Lincoln", "Reno"]
    levels = [cities, ["Iowa", "Iowa", "Nebraska", "Nevada"], ["*"] * 4]
    city = Blurrer("city", pa.array(cities), [1] * 4, Hierarchy.from_levels(levels))
    assert city.to(3).labels.to_pylist() == ["Iowa", "Nebraska", "Nevada"]
    assert city.to(2).action == "suppressed"
    assert city.to(4).action == "untouched"


def test_categories_keep_their_most_frequent_values() -> None:
    blurred = blurrer("job", ["clerk", "cook", "judge", "smith"], [5, 90, 1, 30]).to(3)
    assert blurred.labels.to_pylist() == ["cook", "smith", "*"]
    assert blurred.groups.tolist() == [2, 0, 2, 1]


def test_one_value_is_suppressed_and_a_single_value_stays() -> None:
    assert blurrer("age", [20, 30]).to(1).action == "suppressed"
    only = blurrer("age", [20])
    assert only.to(1).action == "untouched"


@given(
    st.lists(st.integers(0, 500), min_size=1, max_size=80, unique=True).map(sorted),
    st.integers(1, 90),
    st.data(),
)
def test_never_more_values_than_allowed(
    values: list[int], distinct: int, data: st.DataObject
) -> None:
    counts = data.draw(
        st.lists(st.integers(1, 50), min_size=len(values), max_size=len(values)), label="counts"
    )
    for column in (
        blurrer("age", list(values), counts),
        blurrer("word", [f"w{value}" for value in values], counts),
        blurrer("zip", [f"{value:05}" for value in values], counts),
    ):
        blurred = column.to(distinct)
        assert blurred.distinct <= distinct
        assert len(blurred.groups) == len(values)
        assert set(blurred.groups.tolist()) == set(range(blurred.distinct))


def test_lost_zeros_are_said_and_can_be_put_back() -> None:
    with pytest.raises(
        ColumnError, match=r"2 distinct codes have fewer than 5 digits.*pad_zip=True"
    ):
        blurrer("zip", [2138, 2139, 10001])
    assert postal_text("zip", pa.array([2138, 10001, None]), pad=True).to_pylist() == [
        "02138", "10001", None,
    ]  # fmt: skip
    assert postal_text("zip", pa.array([2138, 2139]), pad=True).to_pylist() == ["02138", "02139"]
    assert postal_text("zip", pa.array(["2138-1234", "10001"]), pad=True).to_pylist() == [
        "02138-1234", "10001",
    ]  # fmt: skip
    with pytest.raises(ColumnError, match="leading zeros"):
        postal_text("zip", pa.array(["2138", "10001"]))


def test_numbers_mixed_with_text_are_refused_without_quoting_them() -> None:
    with pytest.raises(ColumnError, match="3 of 4 distinct values are numbers") as error:
        blurrer("age", ["20", "30", "40", "secret"])
    assert "secret" not in str(error.value)
    assert "column `age`" in str(error.value)


def test_what_is_postal() -> None:
    assert is_postal_name("HomeZip")
    assert not is_postal_name("gzip_size")
    assert looks_postal("area", pa.array(["021", "100"]))
    assert not looks_postal("area", pa.array(["021", "1000"]))
    assert not looks_postal("zip", pa.array([None], pa.string()))
    assert not looks_postal("zip", pa.array(["NW1", "02138"]))


def test_groups_are_of_the_codes_whatever_their_order() -> None:
    unsorted = Blurrer("age", pa.array([50, 20, 60, 30]), [1, 1, 1, 1])
    blurred = unsorted.to(2)
    assert np.array(blurred.labels.to_pylist())[blurred.groups].tolist() == [
        "[50, 61)", "[20, 31)", "[50, 61)", "[20, 31)",
    ]  # fmt: skip
