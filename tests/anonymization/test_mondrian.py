"""Mondrian: every promise is kept, groups stay within boundaries, priorities matter."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from samples import ADULT_QI, FOLDER, sample_path
from sfumato.errors import ColumnError, ParameterError
from sfumato.hierarchy import Hierarchy


@st.composite
def people(draw):
    rows = draw(st.integers(4, 60))
    cell = {
        "age": st.one_of(st.none(), st.integers(18, 30)),
        "height": st.floats(150, 200, allow_nan=False).map(lambda x: round(x, 1)),
        "job": st.sampled_from(["nurse", "cook", "clerk", "judge", None]),
        "illness": st.sampled_from(["flu", "cold", "gout"]),
    }
    return pa.table(
        {
            name: draw(st.lists(values, min_size=rows, max_size=rows))
            for name, values in cell.items()
        },
        schema=pa.schema(
            [
                ("age", pa.int64()),
                ("height", pa.float64()),
                ("job", pa.string()),
                ("illness", pa.string()),
            ]
        ),
    )


JOBS = Hierarchy.from_levels(
    [["nurse", "cook", "clerk", "judge"], ["care", "care", "desk", "desk"], ["*"] * 4]
)


def released(release, columns):
    table = pa.Table.from_batches(list(release.table.batches(columns)))
    return list(zip(*(table.column(name).to_pylist() for name in columns), strict=True))


@given(people(), st.integers(1, 4), st.booleans(), st.booleans())
@settings(max_examples=80)
def test_k_anonymity_holds_and_every_cell_covers_its_value(table, k, relaxed, with_tree):
    qi = ["age", "height", "job"]
    release = sf.anonymize(
        table,
        qi=qi,
        k=k,
        relaxed=relaxed,
        hierarchies={"job": JOBS} if with_tree else None,
    )
    rows = released(release, qi)
    assert len(rows) == table.num_rows
    assert min(Counter(rows).values()) >= k
    assert release.k == min(Counter(rows).values())
    for original, cell in zip(table.column("age").to_pylist(), rows, strict=True):
        if cell[0] is None or cell[0] == "*" or original is None:
            assert original is None or cell[0] == "*"
        elif str(cell[0]).startswith("["):
            low, high = cell[0][1:-1].split(", ")
            assert float(low) <= original < float(high)  # ends may lie between whole numbers
        else:
            assert int(cell[0]) == original


@given(people(), st.integers(1, 3), st.integers(1, 3), st.booleans())
@settings(max_examples=60)
def test_l_diversity_holds_or_is_refused(table, k, l, relaxed):  # noqa: E741
    values = set(table.column("illness").to_pylist())
    arguments = {"qi": ["age", "job"], "k": k, "l": l, "sensitive": ["illness"]}
    if l > len(values):
        with pytest.raises(ParameterError):
            sf.anonymize(table, relaxed=relaxed, **arguments)
        return
    release = sf.anonymize(table, relaxed=relaxed, **arguments)
    found = defaultdict(set)
    for age, job, illness in released(release, ["age", "job", "illness"]):
        found[age, job].add(illness)
    assert min(len(illnesses) for illnesses in found.values()) >= l


def test_boundaries_are_never_crossed_and_suppression_is_minimal():
    """Miller, Campan & Truta: rows whose largest allowed class is too small are left out."""
    jobs = ["nurse"] * 3 + ["cook"] * 3 + ["clerk"] * 4 + ["judge"]
    table = pa.table({"job": jobs, "age": [30] * 11})
    release = sf.anonymize(
        table,
        qi=["job", "age"],
        k=3,
        hierarchies={"job": JOBS},
        boundaries={"job": {"marks": ["care", "clerk", "judge"]}},
    )
    assert release.suppressed_rows == 1
    assert set(released(release, ["job"])) <= {("nurse",), ("cook",), ("care",), ("clerk",)}


def test_a_numeric_boundary_limits_the_width_of_ranges():
    random = np.random.default_rng(0)
    table = pa.table({"age": random.integers(0, 100, 500), "sex": random.integers(0, 2, 500)})
    release = sf.anonymize(table, qi=["age", "sex"], k=5, boundaries={"age": {"max_width": 7}})
    for (cell,) in released(release, ["age"]):
        if cell.startswith("["):
            low, high = (math.ceil(float(end)) for end in cell[1:-1].split(", "))
            assert high - 1 - low <= 7


def test_prioritized_columns_stay_more_precise():
    random = np.random.default_rng(1)
    table = pa.table({name: random.integers(0, 50, 2000) for name in "abc"})
    plain = sf.anonymize(table, qi=["a", "b", "c"], k=10)
    first = sf.anonymize(
        table, qi=["a", "b", "c"], k=10, weights={"a": 10}, cut_weights={"priority": 5}
    )
    assert first.utility["columns"]["a"] < plain.utility["columns"]["a"] / 2


def test_gain_cuts_where_the_target_changes():
    random = np.random.default_rng(2)
    a, b = random.integers(0, 40, 2000), random.integers(0, 40, 2000)
    table = pa.table({"a": a, "b": b, "ill": np.where(a > 13, "yes", "no")})
    release = sf.anonymize(
        table,
        qi=["a", "b"],
        k=20,
        sensitive=["ill"],
        l=1,
        target="ill",
        cut_weights={"spread": 0, "priority": 0, "gain": 1},
    )
    assert release.utility["columns"]["a"] < release.utility["columns"]["b"]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"k": 100}, ParameterError, "larger than the table"),
        ({"k": 2, "qi": ["agge"]}, ColumnError, "Did you mean `age`"),
        ({"k": 2, "qi": []}, ParameterError, "no quasi-identifiers"),
        ({"k": 2, "sensitive": ["age"], "l": 2}, ColumnError, "at the same time"),
        ({"k": 2, "l": 2}, ParameterError, "none was named"),
        ({}, ParameterError, "nothing was asked"),
        ({"k": 2, "method": "mondrain"}, ParameterError, "Did you mean `mondrian`"),
        ({"k": 2, "relax": True}, ParameterError, "no option `relax`"),
        ({"k": 0}, ParameterError, "k = 0"),
        ({"k": 2, "weights": {"nobody": 2}}, ColumnError, "not a quasi-identifier"),
    ],
)
def test_bad_demands_are_refused(arguments, error, words):
    table = pa.table({"age": [1, 2, 3, 4], "job": ["a", "b", "a", "b"]})
    with pytest.raises(error, match=words):
        sf.anonymize(table, **{"qi": ["age", "job"], **arguments})


def test_adult_in_five_anonymous_form():
    table = sf.table(sample_path("arx_adult.parquet"))
    release = sf.anonymize(table, qi=ADULT_QI, k=5)
    assert release.k >= 5
    assert release.utility["ncp"] < 0.04
    trees = sf.anonymize(table, qi=ADULT_QI, k=5, hierarchies=str(FOLDER / "hierarchies/adult"))
    assert trees.k >= 5
    assert trees.utility["ncp"] < 0.08
