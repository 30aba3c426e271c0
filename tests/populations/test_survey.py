"""The verb `population`: judging a table, planning, writing, and its bad input."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from samples import sample_path
from sfumato.demo import people
from sfumato.errors import ColumnError, ParameterError, SfumatoError, SourceError
from sfumato.populations.promises import FewValues, MatchesPeople
from sfumato.populations.survey import Judge
from sfumato.release.certificate import Certificate, certificate_path
from sfumato.release.promise import promise_from_dict

QI = ["sex", "birth_date", "zip"]


def test_figure_3_of_the_paper_through_the_verb() -> None:
    table = pq.read_table(sample_path("adult.parquet"))
    found = sf.population(
        table,
        universe=3e8,
        qi=["age", "workclass", "education", "occupation", "native-country"],
        domains={
            "age": 60,
            "workclass": 8,
            "education": 15,
            "occupation": 14,
            "native-country": 40,
        },
        bootstrap=0,
    )
    assert found.whole.distinct == 4_032_000
    assert found.whole.bound == pytest.approx(4.9e-3, rel=0.02)
    assert found.whole.unique == pytest.approx(7659 / 32561)
    assert found.whole.k == pytest.approx(74.4, abs=0.1)
    assert not found.whole.quasi_identifier
    assert {d.source for d in found.domains} == {"declared"}


def test_gender_birth_and_zip_identify_americans_and_the_plan_says_how_far_to_blur() -> None:
    table = people(4_000).select(QI)
    found = sf.population(
        table, universe=3e8, domains={"birth_date": 20_000, "zip": 100_000}, bootstrap=0
    )
    assert found.whole.distinct == 4e9
    assert round(found.whole.bound, 2) == 0.93
    assert [set(s.columns) for s in found.sets] == [{"zip", "birth_date"}]
    assert found.complete
    assert found.plan.distinct_allowed == 2_443_425
    assert found.plan.holds
    unrepaired = sf.population(
        table,
        universe=3e8,
        domains={"birth_date": 20_000, "zip": 100_000},
        bootstrap=0,
        repair="none",
    )
    allowed = {c.column: c.allowed for c in unrepaired.plan.columns}
    assert allowed["sex"] == 2
    assert allowed["birth_date"] == pytest.approx(1105, abs=1)
    assert allowed["zip"] == pytest.approx(1105, abs=1)


def test_joint_and_estimated_values_use_dependence() -> None:
    random = np.random.default_rng(1)
    city = random.integers(0, 200, 5_000)
    table = pa.table({"city": city, "state": city // 10, "age": random.integers(0, 80, 5_000)})
    by = {
        how: sf.population(table, universe=1e4, distinct=how, bootstrap=0, k=5).whole.distinct
        for how in ("product", "joint", "estimate")
    }
    assert by["product"] == 200 * 20 * 80
    assert by["joint"] < by["estimate"] <= by["product"]
    assert by["estimate"] == pytest.approx(200 * 80, rel=0.1)  # the state adds nothing


def test_the_estimate_never_shrinks_with_more_columns() -> None:
    random = np.random.default_rng(2)
    table = sf.table(pa.table({c: random.integers(0, 30, 2_000) for c in "abc"}))
    entries = table.codes(["a", "b", "c"])
    judge = Judge(entries, dict.fromkeys("abc", 30), 1e6, "estimate", 0.5)
    assert judge.distinct(("a",)) <= judge.distinct(("a", "b")) <= judge.distinct(("a", "b", "c"))


def test_a_written_release_keeps_and_replays_its_promise(tmp_path: Path) -> None:
    table = people(5_000, seed=2)
    target = tmp_path / "blurred.parquet"
    found = sf.population(table, universe=1e6, qi=QI, k=50, output=str(target))
    release = found.release
    assert release is not None
    assert release.verified
    assert release.method == "population"
    assert release.asked["universe"] == 1e6
    written = pq.read_table(target)
    assert written.num_rows == 5_000
    kept = {c.column: c for c in found.plan.columns}
    for name in QI:
        assert len(written[name].unique()) == kept[name].distinct
    promises = Certificate.read(certificate_path(target)).body["promises"]
    assert [p["kind"] for p in promises] == ["matches-people", "without-columns"]
    with sf.table(target) as again:
        for promise in promises:
            parameters = {k: v for k, v in promise.items() if k not in ("kind", "measured")}
            assert promise_from_dict(promise["kind"], parameters).check(again).holds
        strict = promise_from_dict(
            "matches-people",
            {"universe": 1e6, "k": 50_000, "beta": 0.01, "columns": QI, "figure": "at_least"},
        )
        assert not strict.check(again).holds


def test_columns_that_name_people_do_not_get_into_a_release(tmp_path: Path) -> None:
    table = people(2_000)
    target = tmp_path / "out.parquet"
    sf.population(table, universe=1e6, qi=QI, k=20, keep=["note"], output=str(target))
    names = pq.read_schema(target).names
    assert not {"name", "ssn", "email", "phone", "patient_id"} & set(names)
    assert {"note", "diagnosis", "cost", *QI} <= set(names)


def test_the_theorems_plan_can_be_written_too(tmp_path: Path) -> None:
    table = people(3_000).select(QI)
    target = tmp_path / "out.csv"
    found = sf.population(table, universe=1e6, k=50, repair="none", output=str(target))
    assert found.release is not None
    assert [f.check for f in found.release.findings] == ["few-values"]
    assert found.plan.distinct <= found.plan.distinct_allowed


def test_the_table_as_universe(tmp_path: Path) -> None:
    table = people(3_000).select(QI)
    found = sf.population(table, universe="table", k=5, beta=0.05, bootstrap=0)
    assert found.universe == 3_000
    assert found.plan.measured.exact
    assert found.plan.measured.at_least >= 0.95
    target = tmp_path / "out.parquet"
    sf.population(table, universe="table", k=5, beta=0.05, bootstrap=0, output=str(target))
    sizes = sf.table(target).class_sizes([c for c in QI if c in pq.read_schema(target).names])
    assert 1 - sizes.rows_below(5) / 3_000 >= 0.95


def test_people_are_counted_not_rows() -> None:
    rows = pa.table({"who": [1, 1, 1, 2, 3], "age": [30, 30, 30, 30, 40]})
    found = sf.population(rows, universe=100, qi=["age"], k=2, person="who", bootstrap=0)
    assert found.rows == 3
    assert found.whole.unique == pytest.approx(1 / 3)
    by_row = sf.population(rows, universe=100, qi=["age"], k=2, bootstrap=0)
    assert by_row.rows == 5


def test_hierarchies_are_climbed(tmp_path: Path) -> None:
    folder = sample_path("hierarchies") / "adult"
    table = pq.read_table(sample_path("arx_adult.parquet"))
    found = sf.population(
        table,
        universe=3e8,
        qi=["occupation", "education", "native-country", "age"],
        hierarchies=str(folder),
        k=10_000,
        bootstrap=0,
    )
    actions = {c.column: c.action for c in found.plan.columns}
    assert any(action.startswith("level ") for action in actions.values())


def test_the_report_is_json_and_says_what_it_counts() -> None:
    found = sf.population(people(1_000).select(["sex", "zip"]), universe=1e5, k=10)
    plain = found.to_dict()
    assert plain["counted_by"] == "product"
    assert {"rows", "universe", "whole", "sets", "uniqueness", "copula", "plan"} <= set(plain)
    assert "blurred" not in plain["plan"]
    assert found.to_json().startswith("{")


def test_curves_are_data_for_the_report() -> None:
    found = sf.population(people(3_000).select(["birth_date", "cost"]), universe=1e6, bootstrap=0)
    curves = {curve.column: curve for curve in found.curves}
    assert set(curves) == {"birth_date", "cost"}
    points = curves["birth_date"].points
    born = people(3_000)["birth_date"].cast(pa.int32()).to_numpy().astype(float)
    off = (np.mean(born) - np.sort(born)[(len(born) - 1) // 2]) ** 2 / np.var(born)
    assert points[0].error == pytest.approx(1 + off, rel=1e-3)  # a median is not quite the mean
    assert [p.error for p in points] == sorted((p.error for p in points), reverse=True)
    for point in points:
        assert (1 - point.privacy) ** 2 * (1 - point.utility) == pytest.approx(1 / 3_000**2)


BAD: list[tuple[dict[str, object], type[SfumatoError], str]] = [
    ({"universe": 150}, ParameterError, "150 people but the table already has 200 rows"),
    ({"universe": "many"}, ParameterError, "number of people or `table`"),
    ({"universe": 1e6, "k": 2_000_000}, ParameterError, "more than the 1,000,000 people"),
    ({"universe": 1e6, "beta": 0}, ParameterError, "β"),
    ({"universe": 1e6, "beta": 1}, ParameterError, "β"),
    ({"universe": 1e6, "weights": {"sex": 0}}, ParameterError, "`sex` must be larger than zero"),
    ({"universe": 1e6, "weights": {"sex": -2}}, ParameterError, "`sex` must be larger than zero"),
    ({"universe": 1e6, "qi": ["sexx"]}, ColumnError, "Did you mean `sex`"),
    ({"universe": 1e6, "alpha": 1}, ParameterError, "between 0 and 1"),
    ({"universe": 1e6, "domains": {"sex": 0}}, ParameterError, "at least one value"),
    ({"universe": 1e6, "domains": {"x": 5}}, ParameterError, "`x`"),
    ({"universe": 1e6, "max_size": 0}, ParameterError, "at least one column"),
    ({"universe": 1e6, "person": "nobody"}, ColumnError, "`nobody`"),
]


@pytest.mark.parametrize(("options", "error", "says"), BAD)
def test_bad_input(options: dict[str, object], error: type[SfumatoError], says: str) -> None:
    table = people(200).select(["sex", "zip"])
    with pytest.raises(error, match=says):
        sf.population(table, **options)  # type: ignore[arg-type]


def test_a_column_with_one_value_is_said() -> None:
    table = pa.table({"a": ["x"] * 100, "b": list(range(100))})
    found = sf.population(table, universe=1e5, k=10, bootstrap=0)
    assert "column `a` has a single value and tells nothing" in found.warnings


def test_a_domain_below_what_the_table_shows_is_said() -> None:
    table = people(200).select(["sex", "zip"])
    found = sf.population(table, universe=1e6, k=5, domains={"zip": 3}, bootstrap=0)
    assert any("`zip` is declared to have 3 values" in said for said in found.warnings)
    found = sf.population(table, universe=1e6, k=5, domains={"zip": 100_000}, bootstrap=0)
    assert not any("declared" in said for said in found.warnings)


def test_impossible_dates_are_said() -> None:
    days = [dt.date(1850, 1, 1)] * 3 + [dt.date(2990, 1, 1)] * 2 + [dt.date(1990, 1, 1)] * 95
    found = sf.population(pa.table({"d": days}), universe=1e5, k=10, bootstrap=0)
    assert "column `d`: 3 dates lie before 1900 (placeholders?)" in found.warnings
    assert "column `d`: 2 dates lie in the future" in found.warnings


def test_zip_codes_that_lost_their_zero() -> None:
    table = pa.table({"zip": [2138, 10001, 94110] * 30})
    with pytest.raises(ColumnError, match="pad_zip=True"):
        sf.population(table, universe=1e5)
    found = sf.population(table, universe=1e5, pad_zip=True, k=10, bootstrap=0)
    assert found.whole.distinct == 3


def test_mixed_types_in_a_column() -> None:
    table = pa.table({"age": ["20", "30", "41", "unknown"] * 10})
    with pytest.raises(ColumnError, match="3 of 4 distinct values are numbers"):
        sf.population(table, universe=1e5)


def test_columns_that_name_people_are_not_judged_unless_asked() -> None:
    found = sf.population(people(500).select(["name", "sex", "zip"]), universe=1e6, bootstrap=0)
    assert found.whole.columns == ("sex", "zip")
    assert "`name`" in found.warnings[0]
    asked = sf.population(people(500), qi=["name"], universe=1e6, bootstrap=0)
    assert asked.whole.columns == ("name",)


def test_codes_with_letters_are_categories() -> None:
    codes = [f"{i}" for i in range(300, 330)] + [f"V{i}" for i in range(20)]
    table = pa.table({"icd9": codes * 20})
    assert sf.population(table, universe=1e5, k=10, bootstrap=0).whole.distinct == 50


@pytest.mark.parametrize("kind", ["memory", "duckdb"])
def test_every_local_engine_says_the_same(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "people.parquet"
    pq.write_table(people(2_000, seed=3), path)
    with sf.table(path, engine=kind) as table:
        found = sf.population(table, universe=1e6, qi=QI, k=20, bootstrap=0)
        harbor = sf.safe_harbor(table, as_of=dt.date(2024, 1, 1))
        attacked = sf.attack(table, table, on=QI, k=2)
    expected = sf.population(people(2_000, seed=3), universe=1e6, qi=QI, k=20, bootstrap=0)
    assert found.plan == expected.plan
    assert found.uniqueness == expected.uniqueness
    assert found.sets == expected.sets
    assert harbor.column_actions["name"] == "dropped"
    assert attacked.matches_one == found.whole.unique * 2_000


def test_columns_of_every_type() -> None:
    table = pa.table(
        {
            "flag": [True, False] * 30,
            "nothing": pa.nulls(60),
            "moment": [dt.datetime(2020, 1, 1) + dt.timedelta(hours=i) for i in range(60)],
            "clock": [dt.time(i % 24) for i in range(60)],
            "price": pa.array([f"{i}.50" for i in range(60)]).cast(pa.decimal128(8, 2)),
        }
    )
    found = sf.population(table, universe=1e5, k=10, bootstrap=0, qi=table.column_names)
    assert len(found.plan.columns) == 5


def test_nothing_is_written_when_something_is_wrong(tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    with pytest.raises(ParameterError):
        sf.population(people(100), universe=5, output=str(target))
    assert list(tmp_path.iterdir()) == []


def test_a_table_without_rows_says_nothing_about_a_population():
    empty = pa.table({"age": pa.array([], pa.int64())})
    with pytest.raises(SourceError, match="no rows"):
        sf.population(empty, universe=1e6, qi=["age"], k=5)


def test_promises_about_a_population_at_their_edges() -> None:
    """Nine rows alike and one alone, in a universe of ten; two by three values."""
    table = sf.table(pa.table({"a": [0] * 9 + [1], "b": [0] * 9 + [0]}))
    for beta, holds in ((0.1, True), (0.0999, False)):
        found = MatchesPeople(10, 5, beta, ("a", "b")).check(table)
        assert (found.holds, found.measured["at_least"]) == (holds, 0.9)
    assert MatchesPeople(10, 9, 0.1, ("a", "b")).check(table).holds
    assert not MatchesPeople(10, 10, 0.1, ("a", "b")).check(table).holds
    values = sf.table(pa.table({"a": [0, 1, 0], "b": [0, 1, 2]}))
    assert FewValues(6, ("a", "b")).check(values).holds
    assert not FewValues(5, ("a", "b")).check(values).holds
