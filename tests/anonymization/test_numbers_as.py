"""Numbers in place of ranges: promises stay, types are numbers and dates, labels are read back."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.anonymization.request import Request
from sfumato.errors import ColumnError, ParameterError
from sfumato.utility import pair_tables, summarize

ROWS = 400
HOWS = ("range", "mean", "median", "middle", "bounds")


def people(rows: int = ROWS, seed: int = 1) -> pa.Table:
    random = np.random.default_rng(seed)
    first = dt.date(1990, 1, 1)
    return pa.table(
        {
            "age": random.integers(18, 90, rows),
            "dose": np.round(random.normal(50, 10, rows), 3),
            "born": [
                first + dt.timedelta(days=int(day)) for day in random.integers(0, 9_000, rows)
            ],
            "sex": random.choice(["F", "M"], rows),
            "ill": random.choice(["flu", "gout", "none"], rows),
        }
    )


@pytest.mark.crossed(6)
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("method", ["mondrian", "kmember", "full-domain"])
def test_promises_hold_whatever_stands_for_a_class(how: str, method: str, tmp_path: Path) -> None:
    where = tmp_path / "out.parquet"
    asked = {"qi": ["age", "born", "sex"], "k": 5, "l": 2, "sensitive": ["ill"]}
    if method == "full-domain" and how in ("middle", "bounds"):
        return  # the trees of dates have no ranges with two ends
    release = sf.anonymize(people(), **asked, method=method, numbers_as=how, output=where)
    assert sf.verify(where).holds
    again = sf.verify(where, **{**asked, "qi": release.qi})  # counted anew, without certificate
    assert again.holds
    assert release.k is not None
    assert release.k >= 5


def test_types_are_those_of_numbers_and_dates(tmp_path: Path) -> None:
    table = people()
    for how in ("mean", "median", "middle"):
        where = tmp_path / f"{how}.parquet"
        sf.anonymize(table, qi=["age", "dose", "born"], k=5, numbers_as=how, output=where)
        schema = pq.read_schema(where)
        assert schema.field("age").type == pa.float64()
        assert schema.field("dose").type == pa.float64()
        assert schema.field("born").type == pa.date32()
    bounds = sf.anonymize(people(4_000), qi=["age", "born"], k=5, numbers_as="bounds").to_arrow()
    assert bounds.schema.field("age_from").type == pa.int64()
    assert bounds.schema.field("born_to").type == pa.date32()
    assert "age" not in bounds.column_names


def test_means_are_means_of_classes() -> None:
    table = people()
    ranges = sf.anonymize(table, qi=["age", "dose"], k=5).to_arrow().to_pandas()
    means = sf.anonymize(table, qi=["age", "dose"], k=5, numbers_as="mean").to_arrow().to_pandas()
    original = table.to_pandas()
    key = [means["age"], means["dose"]]
    assert np.allclose(original["age"].groupby(key).transform("mean"), means["age"], atol=1e-4)
    assert np.allclose(original["dose"].groupby(key).transform("mean"), means["dose"], atol=1e-4)
    assert means.groupby(["age", "dose"]).size().min() >= 5
    assert means["age"].mean() == pytest.approx(original["age"].mean(), abs=1e-4)
    assert len(ranges.groupby(["age", "dose"])) <= len(means.groupby(["age", "dose"]))


def test_a_median_of_dates_is_compared_with_cells_as_it_is_shown() -> None:
    born = pa.array([dt.date(2020, 1, day) for day in (1, 2, 3, 30)])
    release = sf.anonymize(pa.table({"born": born}), qi=["born"], k=4, numbers_as="median")
    assert release.to_arrow()["born"].to_pylist() == [dt.date(2020, 1, 9)] * 4


def test_a_median_is_nobodys_cell_unless_k_rows_hold_it() -> None:
    table = pa.table({"x": [1, 2, 3, 14, 15] + [7] * 5})
    release = sf.anonymize(table, qi=["x"], k=5, numbers_as="median").to_arrow()
    shown = release["x"].to_pylist()
    assert shown[5:] == [7.0] * 5 or set(shown) != {7.0}
    held = {value: table["x"].to_pylist().count(value) for value in table["x"].to_pylist()}
    assert all(held.get(value, 5) >= 5 for value in shown)


def test_a_median_of_k_minus_1_rows_gives_way_to_the_mean() -> None:
    for sevens, shown in ((3, 12.0), (4, 7.0)):
        table = pa.table({"x": [1, *[7] * sevens, 20, 72 - 1 - 20 - 7 * sevens]})
        release = sf.anonymize(table, qi=["x"], k=4, numbers_as="median").to_arrow()
        assert set(release["x"].to_pylist()) == {shown}


@settings(max_examples=60)
@given(st.lists(st.integers(0, 30), min_size=6, max_size=60), st.sampled_from(HOWS))
def test_classes_of_any_numbers_have_k_rows(numbers: list[int], how: str) -> None:
    table = pa.table({"x": numbers, "y": [number % 7 for number in numbers]})
    release = sf.anonymize(table, qi=["x", "y"], k=3, numbers_as=how)
    assert release.k is not None
    assert release.k >= 3


@settings(max_examples=60)
@given(st.lists(st.one_of(st.none(), st.integers(0, 9)), min_size=6, max_size=40))
def test_a_class_of_numbers_and_missing_ones_shows_neither(numbers: list[int | None]) -> None:
    release = sf.anonymize(pa.table({"x": pa.array(numbers, pa.int64())}), qi=["x"], k=3)
    means = sf.anonymize(
        pa.table({"x": pa.array(numbers, pa.int64())}), qi=["x"], k=3, numbers_as="mean"
    )
    for label, mean in zip(
        release.to_arrow()["x"].to_pylist(), means.to_arrow()["x"].to_pylist(), strict=True
    ):
        assert (mean is None) == (label in (None, "*"))


def test_sets_with_common_columns_keep_their_promises() -> None:
    sets = [["age", "sex"], ["age", "born"]]
    for how in ("mean", "median", "bounds"):
        release = sf.anonymize(people(), qi=sets, k=5, numbers_as=how)
        assert release.verified


def test_it_is_chosen_by_column_and_recorded(tmp_path: Path) -> None:
    where = tmp_path / "anonymize.toml"
    where.write_text('k = 5\nqi = ["age", "born", "sex"]\n[numbers_as]\nage = "mean"\n')
    release = sf.anonymize(people(), config=where)
    schema = release.to_arrow().schema
    assert schema.field("age").type == pa.float64()
    assert schema.field("born").type == pa.string()
    assert release.asked["numbers_as"] == {"age": "mean"}
    assert Request.of({"numbers_as": "mean"}).to_toml() == 'numbers_as = "mean"\n'
    assert "shown as the mean of its class" in release.column_actions["age"]


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ParameterError, match="cannot be `mode`"):
        sf.anonymize(people(), qi=["age"], k=5, numbers_as="mode")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="cannot be `mode`"):
        sf.anonymize(people(), qi=["age"], k=5, numbers_as={"age": "mode"})  # type: ignore[dict-item]
    with pytest.raises(ColumnError, match="`sex` is not a quasi-identifier with numbers"):
        sf.anonymize(people(), qi=["age", "sex"], k=5, numbers_as={"sex": "mean"})
    with pytest.raises(ParameterError, match="finds others"):
        sf.anonymize(people(), qi=["age"], k_map=5, population=people(), numbers_as="mean")
    taken = people().append_column("age_to", pa.array(range(ROWS)))
    with pytest.raises(ColumnError, match="needs a column `age_to`"):
        sf.anonymize(taken, qi=["age"], k=5, numbers_as="bounds")


@pytest.mark.parametrize("sets", [["age", "age_from"], [["age"], ["age_from"]]])
def test_bounds_never_take_the_place_of_a_quasi_identifier(sets: Any) -> None:
    table = pa.table({"age": range(8), "age_from": [1, 1, 2, 2, 9, 9, 8, 7]})
    with pytest.raises(ColumnError, match="needs a column `age_from`"):
        sf.anonymize(table, qi=sets, k=2, numbers_as={"age": "bounds"})
    kept = table.set_column(0, "age", pa.array([1] * 8))
    release = sf.anonymize(kept, qi=sets, k=2, numbers_as={"age": "bounds"})
    assert release.to_arrow().column_names == ["age", "age_from"]
    assert {name for names in release.qi for name in names} == {"age", "age_from"}


def test_codes_are_categories_where_it_is_said() -> None:
    table = pa.table({"state": np.repeat([1, 2, 4, 5, 6, 8], 3), "age": np.arange(18)})
    plain = sf.anonymize(table, qi=["state"], k=6).to_arrow()["state"].to_pylist()
    assert all(label.startswith("[") for label in plain)
    codes = sf.anonymize(table, qi=["state"], k=6, categorical=["state"], numbers_as="mean")
    assert set(codes.to_arrow()["state"].to_pylist()) == {"{1, 2, 4}", "{5, 6, 8}"}
    with pytest.raises(ColumnError, match="no column `stat`"):
        sf.anonymize(table, qi=["state"], k=6, categorical=["stat"])


def test_no_end_of_a_release_is_a_value_of_few_rows() -> None:
    table = people(3_000)
    held = table.to_pandas()["dose"].value_counts()
    rare = {f"{value:g}" for value, rows in held.items() if rows < 5}
    labels = sf.anonymize(table, qi=["dose", "age"], k=5).to_arrow()["dose"].unique().to_pylist()
    ends = {end for label in labels if label[0] == "[" for end in label[1:-1].split(", ")}
    assert ends
    assert not ends & rare
    exact = sf.anonymize(table, qi=["dose", "age"], k=5, exact_ends=True).to_arrow()["dose"]
    ends = {
        e for label in exact.unique().to_pylist() if "," in label for e in label[1:-1].split(", ")
    }
    assert ends & rare


@pytest.mark.parametrize("method", ["mondrian", "kmember", "full-domain"])
@pytest.mark.parametrize("how", ["range", "mean", "median", "middle"])
def test_what_a_release_says_it_cost_is_what_comparing_finds(how: str, method: str) -> None:
    from sfumato.utility import compare

    table = people().append_column("pay", pa.array([None, *range(ROWS - 1)], pa.int64()))
    qi = ["age", "dose", "pay"]
    release = sf.anonymize(table, qi=qi, k=5, method=method, numbers_as=how)
    found = compare(release.to_arrow(), table, qi=qi)
    if how == "range" and method == "full-domain":
        return  # losses are counted in the tree, which is not given
    assert release.utility["ncp"] == pytest.approx(found.certainty_penalty)
    assert release.utility["columns"] == pytest.approx(found.columns)
    assert release.utility["discernibility"] == found.discernibility


def test_numbers_that_are_values_of_others_still_stand_for_their_rows() -> None:
    from sfumato.utility import compare

    people, means = pa.table({"age": [20, 22, 24, 60]}), pa.table({"age": [22, 22, 22, 60]})
    assert compare(means, people, qi=["age"]).certainty_penalty == pytest.approx(3 * 0.1 / 4)


def test_means_that_happen_to_be_values_of_few_rows_are_counted() -> None:
    days = [dt.date(2020, 1, day) for day in (1, 2, 3, 4, 5)]
    release = sf.anonymize(pa.table({"born": days}), qi=["born"], k=5, numbers_as="mean")
    (told,) = [one for one in release.warnings if "happens" in one]
    assert "the mean of `born` in 1 class (5 rows)" in told
    assert "fewer than 5 rows" in told
    shown = sf.anonymize(pa.table({"x": [1, 2, 3, 5, 9]}), qi=["x"], k=5, numbers_as="median")
    assert not [one for one in shown.warnings if "happens" in one]


class TestMidpoints:
    def test_a_frame_stays_what_it_is(self) -> None:
        import pandas as pd
        import polars as pl

        labels = {"age": ["[20, 30)", "34", None, "*"], "sex": ["F", "M", "F", "M"]}
        frame = pd.DataFrame(labels, index=["a", "b", "c", "d"])
        middle = sf.midpoints(frame)
        assert middle["age"].tolist()[:2] == [25.0, 34.0]
        assert middle["age"].isna().tolist() == [False, False, True, True]
        assert middle.index.tolist() == ["a", "b", "c", "d"]
        assert frame["age"].tolist()[0] == "[20, 30)"
        assert sf.midpoints(pl.DataFrame(labels))["age"].to_list() == [25.0, 34.0, None, None]
        assert sf.midpoints(pa.table(labels))["age"].to_pylist() == [25.0, 34.0, None, None]

    def test_dates_and_labels_of_other_tools(self) -> None:
        table = pa.table(
            {
                "day": ["[2020-01-01, 2020-01-31)", "2021-05-05"],
                "when": ["[2020-01-01 10:00:00, 2020-01-01 12:00:00)", "2020-01-01 00:00:00"],
                "noon": ["[2020-01-01 12:00:00, 2020-01-04 12:00:00)", "2021-05-05"],
                "zone": ["[2020-01-01, 2020-01-03)", "2020-01-01 08:00:00Z"],
                "old": ["20-29", ">= 90"],
                "name": ["[Ann, Bob)", "Cid"],
            }
        )
        utc = dt.UTC
        assert sf.midpoints(table).to_pydict() == {
            "day": [dt.date(2020, 1, 16), dt.date(2021, 5, 5)],
            "when": [dt.datetime(2020, 1, 1, 11), dt.datetime(2020, 1, 1)],
            "noon": [dt.date(2020, 1, 3), dt.date(2021, 5, 5)],
            "zone": [dt.datetime(2020, 1, 2, tzinfo=utc), dt.datetime(2020, 1, 1, 8, tzinfo=utc)],
            "old": [24.5, None],
            "name": ["[Ann, Bob)", "Cid"],
        }
        with pytest.raises(ColumnError, match="`name` holds no ranges"):
            sf.midpoints(table, ["name"])
        with pytest.raises(ColumnError, match="no column `ol`"):
            sf.midpoints(table, ["ol"])

    def test_middles_of_a_release_are_those_it_would_have_been_written_with(self) -> None:
        table = people()
        ranges = sf.anonymize(table, qi=["age", "dose", "born"], k=5).to_arrow()
        middles = sf.anonymize(
            table, qi=["age", "dose", "born"], k=5, numbers_as="middle"
        ).to_arrow()
        for name in ("age", "dose", "born"):
            assert sf.midpoints(ranges)[name].to_pylist() == middles[name].to_pylist()


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize("how", ["middle", "bounds"])
def test_moments_in_a_zone_have_bounds(how: str, zone: str) -> None:
    first = dt.datetime(2000, 2, 21, 5, 57, tzinfo=dt.UTC)
    moments = [first + dt.timedelta(hours=7 * hour) for hour in range(60)]
    table = pa.table({"seen": pa.array(moments, pa.timestamp("us", zone))})
    shown = sf.anonymize(table, qi=["seen"], k=5, numbers_as=how, rows_are_people=True).to_arrow()
    assert all(type_ == table.schema.field("seen").type for type_ in shown.schema.types)
    if how == "bounds":
        for moment, low, high in zip(moments, *shown.to_pydict().values(), strict=True):
            assert low <= moment <= high


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")])
def test_ranges_may_reach_the_last_day_of_all(kind: pa.DataType, engine: Any) -> None:
    """It often means that no end is known; a range that holds it ends in the year 10000."""
    days = [dt.date(2000, 1, 1) + dt.timedelta(days=37 * at) for at in range(40)]
    cells = pa.array([*days, dt.date(9999, 12, 31), dt.date(9999, 12, 31)])
    cells = cells if kind == pa.date32() else cells.cast(pa.timestamp("us")).cast(kind)
    table = pa.table({"until": cells})
    asked = {"qi": ["until"], "k": 5, "rows_are_people": True}
    source = sf.table(table, engine=engine)
    labels = sf.anonymize(source, **asked, k_map=5, population=table)
    assert any(label.endswith(", 10000-01-01)") for label in labels.to_arrow()["until"].to_pylist())
    assert labels.utility["ncp"] == pytest.approx(
        summarize(pair_tables(table, labels.to_arrow(), ["until"])).certainty_penalty
    )
    middles = sf.anonymize(source, **asked, numbers_as="middle").to_arrow()["until"]
    assert max(day.year for day in middles.to_pylist()) > 2003
    last = sf.anonymize(source, **asked, numbers_as="bounds").to_arrow()["until_to"]
    assert max(day.isoformat() for day in last.to_pylist()).startswith("9999-12-31")
    found = sf.midpoints(labels.to_arrow())["until"].to_pylist()
    assert max(day.year for day in found) == max(day.year for day in middles.to_pylist())


@pytest.mark.parametrize("how", ["middle", "bounds"])
def test_months_and_years_of_a_tree_have_no_bounds(how: str) -> None:
    with pytest.raises(
        ParameterError, match=r"labels of column `born` cannot be read as a range of two ends"
    ):
        sf.anonymize(people(), qi=["born"], k=5, method="full-domain", numbers_as=how)


@pytest.mark.parametrize("base", [2**55 + 1, 2**63 - 60])
def test_very_large_numbers_are_shown_by_whole_bounds_and_not_by_floats(base: int) -> None:
    table = pa.table({"n": pa.array([base + row for row in range(60)], pa.int64())})
    asked = {"qi": ["n"], "k": 5, "rows_are_people": True}
    for how in ("mean", "median", "middle", "bounds"):  # here ends lie between values
        with pytest.raises(ParameterError, match="beyond 2\\^53, which floats round"):
            sf.anonymize(table, **asked, numbers_as=how)
    common = [2**60 + row for row in range(60) for _ in range(6 if row % 3 else 1)]
    shown = sf.anonymize(pa.table({"n": common}), **asked, numbers_as="bounds").to_arrow()
    ends = [shown[f"n_{end}"].to_pylist() for end in ("from", "to")]
    for value, low, high in zip(common, *ends, strict=True):
        assert isinstance(low, int)
        assert low <= value < high or low == value == high


def test_only_ends_that_were_chosen_so_are_said_to_be_nobodys() -> None:
    table = pa.table({"x": [3 * row for row in range(30)]})
    for exact in (False, True):
        release = sf.anonymize(table, qi=["x"], k=3, numbers_as="mean", exact_ends=exact)
        (said,) = [told for told in release.warnings if "the mean of `x`" in told]
        assert ("ends of ranges never are" in said) is not exact


@pytest.mark.crossed(8)
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("method", ["mondrian", "kmember", "lattice"])
@pytest.mark.parametrize("person", [None, "who"])
def test_classes_that_show_the_same_numbers_are_one_in_every_figure(
    how: str, method: str, person: str | None
) -> None:
    for seed in (2, 10, 12):
        random = np.random.default_rng(seed)
        table = pa.table(
            {
                "age": random.integers(20, 30, 24),
                "sex": random.choice(["F", "M"], 24),
                "zip": random.choice(["a", "b", "c"], 24),
                "row": [f"row {number}" for number in range(24)],
                "who": random.permutation(np.arange(24) // 2 if person else np.arange(24)),
            }
        )
        asked = {"qi": ["age", "sex", "zip"], "k": 2, "method": method, "numbers_as": how}
        if person is None:
            table, asked["rows_are_people"] = table.drop_columns(["who"]), True
        release = sf.anonymize(table, **asked, person=person)
        shown, qi = release.to_arrow(), release.qi[0]
        if person is not None:
            rows = shown["row"].to_pylist()
            whose = dict(zip(table["row"].to_pylist(), table["who"].to_pylist(), strict=True))
            shown = shown.append_column("who", pa.array([whose[row] for row in rows]))
        counted, after = sf.risk(shown, qi, person=person), release.risk[0].after
        assert after is not None
        assert release.classes == after.classes == counted.classes
        assert (after.marketer, after.share_above) == (counted.marketer, counted.share_above)
        assert release.utility["average_class_size"] == pytest.approx(24 / counted.classes)


def test_stars_and_missing_values_that_both_show_no_bounds_are_one_class() -> None:
    table = pa.table({"age": [None] * 12 + [5] * 2 + [30] * 6})
    release = sf.anonymize(table, qi=["age"], k=5, relaxed=True, numbers_as="bounds")
    counted, after = sf.risk(release.to_arrow(), release.qi[0]), release.risk[0].after
    assert release.suppressed_cells > 0
    assert after is not None
    assert release.classes == after.classes == counted.classes == 2
    assert after.marketer == counted.marketer
    assert release.utility["average_class_size"] == 10
    assert release.utility["discernibility"] == 15**2 + 5**2


@pytest.mark.parametrize("how", ["mean", "median", "middle"])
def test_stars_are_counted_that_the_release_shows(how: str) -> None:
    """A mean of all rows is no star, and a class without a number is one on every engine."""
    random = np.random.default_rng(0)
    heights = [None, None, *random.normal(0, 1, 58)]
    table = pa.table({"age": random.integers(0, 8, 60), "height": heights})
    asked = {"qi": ["age", "height"], "k": 3, "numbers_as": how}
    here = sf.anonymize(table, **asked)
    there = sf.anonymize(sf.table(table, engine="duckdb"), parts=1, **asked)
    stars = here.to_arrow().column("height").null_count
    assert here.suppressed_cells == there.suppressed_cells == stars > 2
    assert here.column_actions == there.column_actions
    whole = sf.anonymize(table.drop_null(), **{**asked, "k": 25}, method="full-domain")
    shown = whole.to_arrow()
    assert whole.suppressed_cells == sum(column.null_count for column in shown.columns)
    starred = "starred" in whole.column_actions["height"]
    assert starred == (shown.column("height").null_count > 0) == (how == "middle")


@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize("whose", [{}, {"person": "who"}], ids=["rows", "persons"])
def test_bounds_cover_their_rows_out_of_core_too(
    tmp_path: Path, whose: dict[str, str], ending: str
) -> None:
    """Ends between whole numbers and days stay there, and are no values that few rows hold."""
    random = np.random.default_rng(1)
    day = [dt.date(2024, 1, 1) + dt.timedelta(int(at)) for at in random.integers(0, 20, 40)]
    own = {"row": range(40), "who": random.integers(0, 20, 40), "n": random.integers(-20, 20, 40)}
    table = pa.table({**own, "day": day})
    asked = {"qi": ["n", "day"], "k": 4, "numbers_as": "bounds", **whose}
    rare = {
        name: {at for at, n in Counter(own).items() if n < 4}
        for name, own in (
            ("n", table["n"].to_pylist()),
            ("day", [dt.datetime(*d.timetuple()[:3]) for d in day]),
        )
    }
    source = sf.table(table, engine="duckdb")
    release = sf.anonymize(
        source, **asked, parts=1, rows_are_people=True, output=tmp_path / f"out.{ending}"
    )
    assert release.k >= 4
    for row in release.to_arrow().to_pylist():
        was = {"n": own["n"][row["row"]], "day": dt.datetime(*day[row["row"]].timetuple()[:3])}
        for name, value in was.items():
            low, high = row[f"{name}_from"], row[f"{name}_to"]
            assert low <= value < high or low == value == high
            assert low == high or not rare[name] & {low, high}


@pytest.mark.parametrize(
    "kind", [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]
)
def test_the_last_range_of_a_day_ends_within_it(kind):
    seconds = np.random.default_rng(0).integers(0, 86_399, 600)
    scale = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
    at = pa.array(seconds * scale).cast(pa.int32() if scale <= 1_000 else pa.int64()).cast(kind)
    release = sf.anonymize(pa.table({"t": at}), qi=["t"], k=50, numbers_as="bounds").to_arrow()
    low, high = (release.column(name).to_pylist() for name in ("t_from", "t_to"))
    assert release.column("t_to").type == kind
    assert all(a <= b for a, b in zip(low, high, strict=True))
