"""Encoding by agreed bounds, and everything that is outside the agreement."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato.errors import ColumnError
from sfumato.joint import Agreement, Category, Number, Outcome, Projection, encode, encode_outcome

AGREED = Agreement(
    "s",
    (
        Number("age", 20, 120, 5, missing=70),
        Category("cell", ("a", "b", "c")),
        Category("grade", ("1", "2", "3"), ordered=True, missing="2"),
    ),
    Outcome(time="t", event="e", event_value="2", time_step=7, time_max=700),
    Projection("seed", 2),
)


def table(**changes: Any) -> pa.Table:
    columns = {
        "age": [20, 118, None],
        "cell": ["a", "c", "b"],
        "grade": [1, None, 3],
        "t": [1, 7, 8.5],
        "e": [2, 1, 2],
    }
    return pa.table({**columns, **changes})


def test_values_are_scaled_by_bounds_and_stand_ins_used() -> None:
    encoded = encode(table(), AGREED)
    expected = [[0.0, 0, 0, 0.0], [1.0, 0, 1, 0.5], [0.5, 1, 0, 1.0]]
    np.testing.assert_allclose(encoded.matrix, expected)
    assert encoded.options.tolist() == [[0, 0, 0], [20, 2, 1], [10, 1, 2]]


def test_times_are_rounded_up_to_the_step_and_events_compared_as_text() -> None:
    time, event = encode_outcome(table(), AGREED)
    assert time is not None
    assert time.tolist() == [7.0, 7.0, 14.0]
    assert event.tolist() == [True, False, True]
    assert encode_outcome(table(e=[2.0, 1.0, 2.0]), AGREED)[1].tolist() == [True, False, True]


def test_a_boolean_event_column_says_one_as_true() -> None:
    plain = Agreement("s", AGREED.columns, Outcome(time="t", event="e"), AGREED.projection)
    assert encode_outcome(table(e=[True, False, True]), plain)[1].tolist() == [True, False, True]


def test_labels() -> None:
    agreed = Agreement("s", AGREED.columns, Outcome(label="y", positive="yes"), AGREED.projection)
    time, positive = encode_outcome(table(y=["yes", "no", "yes"]), agreed)
    assert time is None
    assert positive.tolist() == [True, False, True]


def test_other_types_of_columns_are_read_alike() -> None:
    plain = encode(table(), AGREED).matrix
    dictionary = table(cell=pa.array(["a", "c", "b"]).dictionary_encode())
    floats = table(grade=pa.array([1.0, None, 3.0]))
    decimals = table(grade=pa.array([Decimal("1.00"), None, Decimal("3.00")]))
    nans = table(age=pa.array([20.0, 118.0, float("nan")]))
    for other in (dictionary, floats, decimals, nans):
        np.testing.assert_array_equal(encode(other, AGREED).matrix, plain)
    events = table(e=pa.array([Decimal("2.0"), Decimal("1.0"), Decimal("2.0")]))
    assert encode_outcome(events, AGREED)[1].tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"age": [19, 30, 40]}, r"`age`: 1 value lies outside"),
        ({"age": [20, 121, 122]}, r"`age`: 2 values lie outside"),
        ({"age": ["x", "y", "z"]}, "numbers are expected, found string"),
        ({"cell": ["a", "d", "d"]}, r"`cell`: 2 rows hold a category that was not agreed"),
        ({"cell": ["a", None, "b"]}, r"`cell`: 1 value is missing"),
        ({"t": [-1, 2, 3]}, "1 time is negative"),
        ({"t": [None, 2, 3]}, "1 time is missing"),
        ({"e": [2, None, 1]}, "`e`: 1 outcome is missing"),
        ({"e": [2.0, float("nan"), 1.0]}, "`e`: 1 outcome is missing"),
        ({"t": [701, 2, 3]}, "1 time lies beyond"),
        ({"e": [2.0, float("inf"), 1.0]}, "categories are expected, found double"),
        ({"e": [{"a": 2}] * 3}, "categories are expected, found struct"),
    ],
)
def test_what_was_not_agreed_is_refused_without_quoting_it(changes: Any, words: str) -> None:
    rows = table(**changes)
    read = encode_outcome if changes.keys() & {"t", "e"} else encode
    with pytest.raises(ColumnError, match=words) as caught:
        read(rows, AGREED)
    assert "121" not in str(caught.value)
    assert "701" not in str(caught.value)


def test_missing_and_doubled_columns_are_named() -> None:
    with pytest.raises(ColumnError, match="`cell` of the agreement is missing"):
        encode(table().drop_columns(["cell"]), AGREED)
    with pytest.raises(ColumnError, match="Did you mean `Age`"):
        encode(table().rename_columns(["Age", "cell", "grade", "t", "e"]), AGREED)
    with pytest.raises(ColumnError, match="more than once"):
        encode(table().append_column("age", pa.array([1, 2, 3])), AGREED)
