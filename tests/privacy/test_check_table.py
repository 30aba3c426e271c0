"""Models measured on a table: the same whatever holds the rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import ColumnError
from sfumato.privacy import (
    AlphaK,
    Closeness,
    DistinctDiversity,
    EntropyDiversity,
    KAnonymity,
    check,
    check_table,
)

MODELS = [
    KAnonymity(2),
    DistinctDiversity(2, "illness"),
    EntropyDiversity(1.5, "illness"),
    AlphaK(0.6, 2, "illness"),
    Closeness(0.3, "illness", "equal"),
    Closeness(0.3, "illness", "ordered"),
    Closeness(0.3, "age", "ordered"),
]

texts = st.one_of(st.sampled_from(["a", "b", "ä", ""]), st.text("xy", max_size=2), st.none())


@st.composite
def frames(draw):
    rows = draw(st.integers(1, 30))
    column = lambda cells: draw(st.lists(cells, min_size=rows, max_size=rows))  # noqa: E731
    frame = pd.DataFrame(
        {
            "sex": pd.Series(column(texts), dtype=object),
            "room": column(st.integers(-3, 3)),
            "illness": pd.Series(column(st.one_of(texts, st.just(float("nan")))), dtype=object),
            "age": column(st.sampled_from([1, 2, 3, 10**12])),
        }
    )
    if draw(st.booleans()):  # equal texts that are different objects
        frame["sex"] = [None if v is None else "".join([*v]) for v in frame["sex"]]
    return frame


@given(frames())
@settings(max_examples=80)
def test_a_frame_measures_like_its_codes(frame):
    codes = sf.table(pa.Table.from_pandas(frame, preserve_index=False), engine="memory").codes()
    columns = dict(zip(codes.columns, codes.arrays, strict=True))
    values = dict(zip(codes.columns, codes.values, strict=True))
    by_codes = check(MODELS, columns, ["sex", "room"], values=values)
    assert check_table(frame, MODELS, ["sex", "room"]) == by_codes


@pytest.mark.parametrize(
    "made", [pa.Table.from_pandas, lambda frame: frame], ids=["arrow", "frame"]
)
def test_sets_and_sources(made):
    frame = pd.DataFrame({"a": ["x", "x", "y"], "b": [1, 1, 2], "c": [0.5, None, 0.5]})
    found = check_table(made(frame), [KAnonymity(2)], [["a"], ["b", "c"]])
    assert [dict(f.measured) for f in found.findings] == [{"k": 1}, {"k": 1}]
    assert [f.failing_rows for f in found.findings] == [1, 3]


def test_many_objects_and_wide_numbers_take_the_long_way():
    rows = 5000
    frame = pd.DataFrame(
        {"name": [f"person {i}" for i in range(rows)], "code": np.arange(rows) * 10**12}
    )
    assert check_table(frame, [KAnonymity(1)], ["name", "code"]).classes == rows


def test_other_objects_are_refused_as_everywhere():
    with pytest.raises(ColumnError, match="mixes values"):
        check_table(pd.DataFrame({"a": ["x", 1]}), [KAnonymity(1)], ["a"])
    with pytest.raises(ColumnError, match="age"):
        check_table(pd.DataFrame({"age": [1]}), [KAnonymity(1)], ["agee"])
