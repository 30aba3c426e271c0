"""Cell suppression under strange demands, strange columns and interruptions."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.anonymization.cells import bounds, candidates
from sfumato.anonymization.cells.bounds import Optimum
from sfumato.anonymization.verb import anonymize
from sfumato.budget import Budget
from sfumato.errors import ColumnError, InputError, ParameterError, SfumatoError


def random_table(rows: int, width: int, values: int = 5) -> pa.Table:
    random = np.random.default_rng(rows)
    return pa.table({f"c{j}": random.integers(0, values, rows) for j in range(width)})


@pytest.mark.parametrize("k", [1, 2, 7, 40])
def test_equal_rows_need_no_star(k: int) -> None:
    release = anonymize(pa.table({"a": [3] * 40, "b": ["x"] * 40}), qi=["a", "b"], k=k)
    assert (release.suppressed_cells, release.k) == (0, 40)


@pytest.mark.parametrize("k", [2, 30, 60])
def test_rows_that_share_nothing_are_starred_whole(k: int) -> None:
    table = pa.table({"a": range(60), "b": [str(i) for i in range(60)]})
    release = anonymize(table, qi=["a", "b"], k=k, method="cells")
    assert release.suppressed_cells == 120
    assert release.details["proven_optimum"]


def test_all_rows_in_one_group() -> None:
    table = random_table(50, 3)
    release = anonymize(table, qi=table.column_names, k=50, method="cells")
    assert release.k == 50
    assert release.details["proven_optimum"]


def test_stars_in_typed_columns_are_null_and_marked_only_among_nulls() -> None:
    table = pa.table(
        {
            "whole": [1, 2, 3, 4],
            "real": [1.5, None, float("nan"), -0.0],
            "day": [dt.date(2020, 1, day) for day in (1, 2, 3, 4)],
            "yes": [True, False, True, None],
            "price": [Decimal("1.10"), Decimal("2.20"), Decimal("3.30"), Decimal("4.40")],
            "time": [dt.datetime(2020, 1, 1, hour) for hour in (1, 2, 3, 4)],
        }
    )
    release = anonymize(table, qi=table.column_names, k=4, method="cells")
    out = release.table.sample(4)
    for field in table.schema:
        assert out.schema.field(field.name).type == field.type
        assert out.column(field.name).null_count == 4
        marked = f"{field.name}__suppressed" in out.column_names
        assert marked == (table.column(field.name).null_count > 0)
    assert out.column("real__suppressed").to_pylist() == [True] * 4
    text = anonymize(table, qi=table.column_names, k=4, method="cells", suppressed_as="text")
    assert text.table.sample(4).to_pylist() == [dict.fromkeys(table.column_names, "*")] * 4


def test_a_marking_column_never_replaces_another() -> None:
    table = pa.table({"a": [1, None, 2, 3], "a__suppressed": ["p", "q", "p", "q"]})
    with pytest.raises(ColumnError, match="already has one"):
        anonymize(table, qi=["a"], k=2, method="cells")
    release = anonymize(table, qi=["a"], k=2, method="cells", suppressed_as="text")
    assert release.table.sample(4).column("a__suppressed").to_pylist() == ["p", "q", "p", "q"]


@pytest.mark.parametrize("sets", [["a", "a__suppressed"], [["a"], ["a__suppressed"]]])
def test_a_quasi_identifier_may_be_called_like_a_marking_column(sets: Any) -> None:
    table = pa.table({"a": [1, None, 1, 2], "a__suppressed": [1, 1, 1, 2]})
    with pytest.raises(ColumnError, match="needs a column `a__suppressed`"):
        anonymize(table, qi=sets, k=2, method="cells")
    release = anonymize(table, qi=sets, k=2)
    assert {name for names in release.qi for name in names} == {"a", "a__suppressed"}
    shown = release.table.sample(4).column("a__suppressed").to_pylist()
    assert len({*map(str, shown)} & {"True", "False"}) == 0


def test_a_marker_must_not_be_a_number_that_occurs() -> None:
    table = pa.table({"a": [1, 5, 7, 9], "b": ["x", "x", "y", "y"]})
    with pytest.raises(ColumnError, match="already contains the text"):
        anonymize(table, qi=["a", "b"], k=2, method="cells", suppressed_as="text", marker="5")


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"marker": ""}, "marker of suppressed cells is empty"),
        ({"weights": {"c0": 0.0001}}, "below 1/1,000"),
        ({"weights": {"c0": 2e6}}, "not between 0 and"),
        ({"weights": {"c0": float("nan")}}, "weight"),
        ({"beta": float("nan")}, "beta is below 1"),
        ({"beta": 1.8}, "beta does not apply to the algorithm dr"),
        ({"protected": ["c0", "c1", "c2"]}, "all quasi-identifiers are protected"),
    ],
)
def test_refusals(asked: dict[str, Any], says: str) -> None:
    table = random_table(30, 3)
    with pytest.raises(InputError, match=says):
        anonymize(table, qi=table.column_names, k=3, method="cells", **asked)


def test_stars_that_cost_nothing() -> None:
    table = random_table(60, 3)
    free = anonymize(table, qi=table.column_names, k=3, method="cells", weights={"c0": 0})
    assert free.details["cost"] <= free.suppressed_cells
    assert free.lower_bound is not None
    assert free.lower_bound <= free.details["cost"]
    nothing = dict.fromkeys(table.column_names, 0)
    worthless = anonymize(table, qi=table.column_names, k=3, method="cells", weights=nothing)
    assert worthless.details["cost"] == 0
    assert worthless.details["proven_optimum"]


def test_what_was_cut_off_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    table, large = random_table(80, 6), random_table(150, 6)
    names = table.column_names
    tiny = random_table(12, 6)
    assert anonymize(tiny, qi=names, k=3, method="cells").details["cut_off"] == ()
    monkeypatch.setattr(candidates, "MOST_PLACES", 1)
    monkeypatch.setattr("sfumato.anonymization.verb.roomy", lambda opened, *_: opened)
    small, held = Budget(memory=6_000), sf.table(large, engine="memory")
    little = anonymize(held, qi=names, k=3, method="cells", bound="lp", budget=small)
    assert any("as many as fit into memory" in said for said in little.details["cut_off"])
    monkeypatch.setattr(candidates, "MOST_PATTERNS", 20)
    monkeypatch.setattr(candidates, "_SAMPLE", 20)
    monkeypatch.setattr(candidates, "_MOST_PAIRS", 20 * 80)
    few = anonymize(table, qi=names, k=3, method="cells")
    assert any("of 2^6 sets of columns" in said for said in few.details["cut_off"])
    assert any("were compared with all others" in said for said in few.details["cut_off"])
    assert set(few.details["cut_off"]) <= set(few.warnings)
    assert few.lower_bound is not None
    assert little.lower_bound is not None
    assert few.lower_bound <= few.suppressed_cells
    assert little.lower_bound <= little.suppressed_cells


def test_an_optimum_that_was_sought_and_not_proven_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounds, "optimum", lambda *_: Optimum(None, 999_999, False))
    table = random_table(200, 6, values=9)
    found = anonymize(table, qi=table.column_names, k=3, method="cells", bound="exact")
    assert found.details["bounds"]["exact"] == 1000
    assert any("not proven within 60 seconds" in said for said in found.details["cut_off"])
    usual = anonymize(table, qi=table.column_names, k=3, method="cells")
    assert any("not proven within 10 seconds" in said for said in usual.warnings)


@pytest.mark.parametrize("width", [7, 30])
@pytest.mark.parametrize("stage", ["covering rows", "comparing rows", "bounding from below"])
def test_time_that_ends_in_any_stage_leaves_a_release(stage: str, width: int) -> None:
    table = random_table(40, width)

    def stop(doing: str, share: float | None) -> None:
        if doing == stage:
            budget.seconds = 0.0

    budget = Budget(seconds=600, on_progress=stop)
    release = anonymize(table, qi=table.column_names, k=3, method="cells", budget=budget)
    out = release.table.sample(40)
    rows = zip(*(out.column(name).to_pylist() for name in table.column_names), strict=True)
    assert min(Counter(rows).values()) >= 3
    assert release.lower_bound is not None
    assert release.lower_bound <= release.suppressed_cells
    if (stage, width) != ("comparing rows", 7):
        assert release.stopped_by == "time"
        assert any("time ran out" in said for said in release.details["cut_off"])


@pytest.mark.parametrize("stage", ["covering rows", "bounding from below", "improving"])
def test_cancelling_in_any_stage_ends_without_a_release(stage: str, tmp_path: Any) -> None:
    table = random_table(200, 7)

    def stop(doing: str, share: float | None) -> None:
        if doing == stage:
            budget.cancel()

    budget = Budget(on_progress=stop)
    out = tmp_path / "out.parquet"
    try:
        release = anonymize(
            table, qi=table.column_names, k=3, method="cells", budget=budget, output=out
        )
    except SfumatoError:
        assert not list(tmp_path.iterdir())
    else:
        assert release.stopped_by == "cancelled"
        assert release.k is not None
        assert release.k >= 3


def test_prices_below_a_thousandth_are_refused_by_name() -> None:
    table = random_table(30, 3)
    with pytest.raises(ParameterError, match="`c1`"):
        anonymize(table, qi=table.column_names, k=3, method="cells", weights={"c1": 0.0005})


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_numbers_too_far_apart_for_ranges_are_starred(engine: Any, tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    far = random.choice([1e308, -1e308, np.inf, 1.0, None], 300).tolist()
    table = sf.table(pa.table({"a": far, "b": random.integers(0, 9, 300)}), engine=engine)
    release = sf.anonymize(
        table, qi=["a", "b"], k=8, method="cells", output=tmp_path / "out.parquet"
    )
    assert release.verified
    assert release.suppressed_cells > 0
    with pytest.raises(ColumnError, match="too far apart for ranges"):
        sf.anonymize(table, qi=["a", "b"], k=8)
