"""Distinct l-diversity of numbers, counted by ranges."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import ColumnError, ParameterError
from sfumato.privacy import DistinctDiversity, SensitiveColumn, check, compile_rules
from sfumato.privacy.diversity import quantile_edges
from sfumato.privacy.models import model_from_dict
from sfumato.privacy.rules import holds, sides_hold

EDGES = (15.0, 40.0)
VALUES = pa.array([10, 12, 20, 30, 50, None])


@given(st.lists(st.integers(0, 2), min_size=6, max_size=6).filter(any), st.integers(1, 3))
def test_rules_and_check_count_ranges(counts, least):
    model = DistinctDiversity(least, "income", EDGES)
    known = {
        int(np.searchsorted(EDGES, v, "right"))
        for v, n in zip(VALUES.to_pylist(), counts, strict=True)
        if n and v
    }
    column = SensitiveColumn(np.ones(6, np.int64), VALUES)
    rules = compile_rules([model], {"income": column})
    assert holds(sum(counts), np.array(counts), rules) == (len(known) >= least)
    codes = {"sex": np.zeros(6), "income": np.arange(6)}
    found = check([model], codes, ["sex"], counts=counts, values={"income": VALUES})
    assert found.findings[0].measured == {"l": len(known)}
    assert found.findings[0].model == "distinct l-diversity by 3 ranges"
    rows = np.repeat(np.arange(6), counts)
    sides = np.repeat([0, 1], len(rows)).astype(np.uint8)
    spare = np.zeros((2, 6), np.int64)
    both = sides_hold(sides, np.ones(2 * len(rows), np.int64), np.tile(rows, 2)[None], rules, spare)
    assert both == (len(known) >= least)
    assert not spare.any()


@given(
    st.lists(st.integers(0, 300), min_size=2, max_size=200), st.integers(2, 8), st.integers(2, 6)
)
def test_edges_are_ascending_and_held_by_nobody_few(incomes, bins, k):
    values, counts = np.unique(incomes, return_counts=True)
    edges = quantile_edges(pa.array(values), counts, bins, k)
    assert len(edges) < bins
    assert list(edges) == sorted(set(edges))
    of = dict(zip(values.tolist(), counts.tolist(), strict=True))
    assert all(of.get(edge, k) >= k for edge in edges)
    held = np.bincount(np.searchsorted(edges, incomes, "right"), minlength=len(edges) + 1)
    assert (held > 0).all()
    assert quantile_edges(pa.array(values), counts, 10**30, k) == quantile_edges(
        pa.array(values), counts, len(incomes), k
    )


def test_ranges_hold_about_equally_many():
    incomes = np.exp(np.random.default_rng(0).normal(10, 1, 20_000)).round()
    values, counts = np.unique(incomes, return_counts=True)
    edges = quantile_edges(pa.array(values), counts, 10, 5)
    assert len(edges) == 9
    held = np.bincount(np.searchsorted(edges, incomes, "right"))
    assert 1500 < held.min() <= held.max() < 2500
    assert not set(edges) & set(values[counts < 5])


def people(rows=600):
    random = np.random.default_rng(1)
    age = random.integers(20, 80, rows)
    return pa.table({"age": age, "income": (age * 500 + random.integers(0, 2000, rows))})


def test_releases_certificates_and_verify(tmp_path):
    out = tmp_path / "out.csv"
    asked = {"qi": ["age"], "sensitive": ["income"], "k": 5}
    plain = sf.anonymize(people(), **asked, l=4)
    assert any("sensitive_bins" in warning for warning in plain.warnings)
    found = sf.anonymize(people(), **asked, l=4, sensitive_bins={"income": 8}, output=out)
    assert not any("sensitive_bins" in warning for warning in found.warnings)
    assert found.classes < plain.classes, "neighbours in age have neighbouring incomes"
    model = json.loads(out.with_suffix(".csv.certificate.json").read_text())["promises"][0][
        "models"
    ][1]
    edges = model["bins"]
    assert len(edges) == 7
    shown = sf.table(out).to_arrow().to_pandas()
    ranges = np.searchsorted(edges, shown["income"], "right")
    assert shown.assign(r=ranges).groupby("age")["r"].nunique().min() >= 4
    assert sf.verify(out).holds
    assert model_from_dict(model) == DistinctDiversity(4, "income", tuple(edges))


def test_what_cannot_be_is_refused():
    table = people().append_column("job", pa.array(["a", "b"] * 300))
    asked = {"qi": ["age"], "sensitive": ["income", "job"], "k": 5}
    for more, message in (
        ({"l": 3, "sensitive_bins": {"job": 3}}, "holds no numbers"),
        ({"l": 3, "sensitive_bins": {"income": 1}}, "not possible"),
        ({"l": 3, "sensitive_bins": {"age": 5}}, "not a sensitive column"),
        ({"sensitive_bins": {"income": 5}}, "counted by distinct l-diversity"),
        (
            {"l": 6, "sensitive": ["income"], "sensitive_bins": {"income": 5}},
            "of 5 of the 5 ranges",
        ),
    ):
        with pytest.raises((ColumnError, ParameterError), match=message):
            sf.anonymize(table, **{**asked, **more})
    same = pa.table({"age": [1, 2], "income": [7, 7]})
    with pytest.raises(ColumnError, match="too few or too much alike"):
        sf.verify(same, qi=["age"], sensitive=["income"], l=1, sensitive_bins={"income": 2})


def test_one_odd_income_does_not_put_edges_on_incomes() -> None:
    values = sorted([*(float(at) for at in range(1_000) if at != 500), 0.1 + 0.2])
    edges = quantile_edges(pa.array(values), np.ones(1_000, np.int64), 10, 5)
    assert len(edges) == 9
    assert not set(edges) & set(values)
