"""Missing quasi-identifiers: a value, a wildcard, or a reason for classes of their own."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import ParameterError
from sfumato.privacy.classes import matching_sizes
from sfumato.release.promise import Anonymity

rows = st.lists(
    st.tuples(st.sampled_from([20, 25, 30, 60, None]), st.sampled_from(["F", "M", None])),
    min_size=1,
    max_size=40,
)


def table_of(some):
    ages, sexes = zip(*some, strict=True)
    return pa.table({"age": pa.array(ages, pa.int64()), "sex": pa.array(sexes, pa.string())})


@given(rows)
@settings(max_examples=30)
def test_wildcards_match_by_definition(some):
    def matches(one, other):
        return all(a is None or b is None or a == b for a, b in zip(one, other, strict=True))

    found = [sum(matches(one, other) for other in some) for one in some]
    people = sf.table(table_of(some))
    measured = sf.measure(people, missing="wildcard")
    assert (measured.k, measured.unique_rows) == (min(found), found.count(1))
    assert measured.unseparated_pairs == sum(number - 1 for number in found) // 2
    risk = sf.risk(people, ["age", "sex"], missing="wildcard")
    assert risk.prosecutor == 1 / min(found)
    assert risk.marketer == pytest.approx(np.mean([1 / number for number in found]))
    assert risk.rows == len(some)
    holds = sf.verify(people, qi=["age", "sex"], k=2, missing="wildcard").holds
    assert holds == (min(found) >= 2)


@given(rows)
@settings(max_examples=15)
def test_classes_of_their_own_measure_like_values(some):
    people = table_of(some)
    assert sf.measure(people, missing="own-class") == sf.measure(people)
    assert sf.risk(people, ["age"], missing="own-class") == sf.risk(people, ["age"])


@pytest.mark.parametrize("method", ["mondrian", "kmember", "lattice", "best", "cells"])
def test_missing_values_stay_missing_in_classes_of_their_own(method, tmp_path):
    generator = np.random.default_rng(3)
    ages = generator.integers(20, 60, 300)
    lacking = generator.random((2, 300)) < 0.2
    people = pa.table(
        {
            "row": np.arange(300),
            "age": pa.array(ages, mask=lacking[0]),
            "sex": pa.array(np.array(["F", "M", "X"])[ages % 3], mask=lacking[1]),
        }
    )
    out = tmp_path / "out.parquet"
    asked = {"qi": ["age", "sex"], "k": 4, "method": method, "suppressed_as": "text"}
    found = sf.anonymize(people, **asked, missing="own-class", output=out)
    shown = sf.table(out).to_arrow().to_pandas()
    for at, name in enumerate(("age", "sex")):
        assert (shown[name].isna().to_numpy() == lacking[at][shown["row"]]).all()
    assert (shown.groupby(["age", "sex"], dropna=False).size() >= 4).all()
    assert sf.verify(out).holds
    told = json.loads((tmp_path / "out.parquet.certificate.json").read_text())
    assert told["promises"][0]["missing"] == "own-class"
    assert found.rows == 300


def test_too_few_that_lack_something_are_left_out():
    people = pa.table({"age": [20, 21, 22, 23, 24, None], "sex": ["F"] * 6})
    found = sf.anonymize(people, qi=["age", "sex"], k=2, missing="own-class").to_arrow()
    assert found.num_rows == 5
    assert sf.anonymize(people, qi=["age", "sex"], k=2).to_arrow().num_rows == 6
    with pytest.raises(ParameterError, match="what rows lack keeps them apart"):
        sf.anonymize(pa.table({"age": [20, None]}), qi=["age"], k=2, missing="own-class")


@given(rows, st.sampled_from(["mondrian", "cells", "kmember"]))
@settings(max_examples=25)
def test_what_holds_by_values_holds_by_wildcards(some, method):
    people = table_of(some)
    if len(some) < 3:
        return
    found = sf.anonymize(people, qi=["age", "sex"], k=3, method=method, missing="wildcard")
    released = sf.table(found.to_arrow())
    entries = released.classes(["age", "sex"])
    assert matching_sizes(entries).min() >= 3
    assert found.promises[0].missing == "wildcard"


def test_verify_says_no_where_a_cell_stands_for_both():
    mixed = pa.table({"sex": ["{F, null}", "{F, null}", "M", "M"]})
    assert sf.verify(mixed, qi=["sex"], k=2).holds
    found = sf.verify(mixed, qi=["sex"], k=2, missing="own-class")
    assert not found.holds
    assert "missing and other values together" in found.findings[0].say


def test_older_certificates_are_read():
    told = Anonymity((), (("age",),)).to_dict()
    del told["missing"]
    assert Anonymity.from_dict({**told, "wildcards": True}).missing == "wildcard"
    assert Anonymity.from_dict(told).missing == "value"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"missing": "ignore"}, "cannot be `ignore`"),
        ({"missing": "own-class", "method": "full-domain"}, "missing values too"),
        ({"missing": "wildcard", "k_map": 2, "population": "p"}, "k-map finds people"),
        ({"missing": "wildcard", "method": "cells", "marker": "?"}, "the marker is `*`"),
    ],
)
def test_what_cannot_be_is_refused(asked, message, tmp_path):
    people = pa.table({"age": [20, 20, 30, 30], "sex": ["F", "M", "F", "M"]})
    if "population" in asked:
        asked = {**asked, "population": people}
    with pytest.raises(ParameterError, match=message):
        sf.anonymize(people, qi=["age", "sex"], k=2, **asked)


def test_risks_of_persons_and_populations_are_not_counted_by_wildcards():
    people = pa.table({"age": [20, None], "who": ["a", "b"]})
    with pytest.raises(ParameterError, match="not persons or a population"):
        sf.risk(people, ["age"], person="who", missing="wildcard")
    with pytest.raises(ParameterError, match="cannot be `any`"):
        sf.risk(people, ["age"], missing="any")
