"""What the order of rows tells is said, and sorted releases tell nothing by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from samples import ADULT_QI, sample_path
from sfumato.anonymization.order import BATCH_ROWS, in_order
from sfumato.errors import ParameterError
from sfumato.hierarchy import Boundaries
from sfumato.utility import compare
from sfumato.utility.comparison import boundary_violations

ENGINES = ("memory", "duckdb")
QI = ("age", "sex", "race")
SAID = "rows that stand together in the table are more alike than others in "


def told(release: Any) -> list[str]:
    return [one for one in release.warnings if one.startswith(SAID)]


def random_rows(rows: int, seed: int = 0) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "name": [f"n{one:06}" for one in random.permutation(rows)],
            "age": random.integers(0, 90, rows),
            "zip": random.integers(0, 30, rows),
            "rare": random.random(rows) < 0.02,
        }
    )


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("parts", [None, 4])
def test_adult_is_warned_of_when_it_was_sorted(engine: Any, parts: int | None) -> None:
    adult = pq.read_table(sample_path("adult.parquet"))
    asked: dict[str, Any] = {"qi": QI, "k": 5, "parts": parts, "identifiers": ["fnlwgt"]}
    assert not told(sf.anonymize(sf.table(adult, engine=engine), **asked))
    by_age = adult.sort_by("age")
    for table, said in (
        (by_age, "`age`"),
        (adult.sort_by([("race", "ascending"), ("age", "ascending")]), "`age` and `race`"),
        (adult.sort_by([("fnlwgt", "descending")]), "`fnlwgt`"),
    ):
        release = sf.anonymize(sf.table(table, engine=engine), **asked)
        assert [one.split(", and the release")[0] for one in told(release)] == [SAID + said]
        assert told(release)[0].endswith("(sort=True)")
    assert not told(sf.anonymize(sf.table(by_age, engine=engine), sort=True, **asked))


@pytest.mark.parametrize("engine", ENGINES)
def test_tables_that_nobody_sorted(engine: Any) -> None:
    """Nor is it said of a household's rows that stand together, and have an age and a race each."""
    for name, columns in (
        ("adult", ADULT_QI),
        ("census_income_kdd_test", ["age", "race", "sex", "education"]),
        ("letter", ["x-box", "lettr", "high"]),
        ("pums_oregon_calm_person", ["AGEP", "SEX", "RAC1P", "MAR", "SCHL"]),
    ):
        assert not in_order(sf.table(sample_path(f"{name}.parquet"), engine=engine), columns, ())
    pums = sf.table(sample_path("pums_oregon_calm_person.parquet"), engine=engine)
    assert in_order(pums, ["AGEP", "SERIALNO"], ()) == ("SERIALNO",)


def test_a_column_that_stays_as_it_is_tells_itself() -> None:
    table = random_rows(600).sort_by("zip")
    release = sf.anonymize(table, qi=["zip"], k=2, identifiers=["name"])
    assert release.column_actions["zip"] == "kept"
    assert not told(release)


@pytest.mark.parametrize("rows", [0, 1, 2, 12, 25, 40, 90, 400])
def test_chance_is_no_order(rows: int) -> None:
    for seed in range(60):
        table = random_rows(rows, seed)
        assert not in_order(sf.table(table), table.column_names, ["name"])


@pytest.mark.parametrize("engine", ENGINES)
def test_few_rows_in_order(engine: Any) -> None:
    """From 27 on it is said; whatever a few rare values do is chance."""
    for rows in (26, 27):
        table = random_rows(rows).sort_by("name")
        found = in_order(sf.table(table, engine=engine), ["name"], ["name"])
        assert found == (("name",) if rows >= 27 else ())
    rare = pa.table({"rare": [True] * 10 + [False] * 990, "half": [True] * 500 + [False] * 500})
    assert in_order(sf.table(rare, engine=engine), ["rare", "half"], ()) == ("half",)


@pytest.mark.parametrize("engine", ENGINES)
def test_nearly_sorted_rows_and_rows_of_a_village(engine: Any) -> None:
    table = random_rows(3000).sort_by([("zip", "ascending"), ("age", "ascending")])
    assert in_order(sf.table(table, engine=engine), ["zip", "age", "name"], ()) == ("age", "zip")
    some = np.arange(3000)
    some[::10] = np.random.default_rng(1).permutation(some[::10])  # a tenth stands elsewhere
    names = random_rows(3000).sort_by("name").take(pa.array(some))
    assert in_order(sf.table(names, engine=engine), ["name"], ["name"]) == ("name",)


def test_of_columns_left_out_memory_reads_the_first_rows(monkeypatch: Any) -> None:
    rows = 2 * BATCH_ROWS
    names = np.arange(rows)
    names[BATCH_ROWS:] = np.random.default_rng(2).permutation(names[BATCH_ROWS:])
    table = pa.table({"name": names, "age": np.arange(rows) // 4000})
    opened = sf.table(table, engine="memory")
    assert in_order(opened, ["name", "age"], ["name"]) == ("name", "age")
    assert [*opened.engine._encoded] == ["age"]  # type: ignore[attr-defined]
    late = table.take(pa.array(np.r_[np.arange(BATCH_ROWS, rows), np.arange(BATCH_ROWS)]))
    assert not in_order(sf.table(late, engine="memory"), ["name"], ["name"])


@pytest.mark.crossed(6)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize(
    "how", [{"relaxed": True}, {"method": "cells"}, {"method": "kmember"}], ids=str
)
def test_a_sorted_release_is_the_same_whatever_the_order_was(
    engine: Any, ending: str, how: dict[str, Any], tmp_path: Path
) -> None:
    table = pq.read_table(sample_path("adult.parquet")).slice(0, 400)
    table = table.select([*QI, "fnlwgt", "income"])
    random, made = np.random.default_rng(3), []
    for at, rows in enumerate((table.sort_by("age"), table.take(random.permutation(400)))):
        place = tmp_path / f"{at}.{ending}"
        release = sf.anonymize(
            sf.table(rows, engine=engine), qi=QI, k=4, identifiers=["fnlwgt"], sort=True,
            output=place, **how,
        )  # fmt: skip
        assert release.certificate is not None
        assert release.certificate.body["output"]["sorted"] == "by cells"
        assert release.certificate.body["asked"]["sort"] is True
        made.append(place.read_bytes())
    assert made[0] == made[1]


@pytest.mark.parametrize("engine", ENGINES)
def test_sorted_rows_of_parts(engine: Any) -> None:
    table = pq.read_table(sample_path("adult.parquet")).slice(0, 2000).select([*QI, "income"])
    orders = (np.arange(2000), np.random.default_rng(4).permutation(2000))
    made = [
        sf.anonymize(sf.table(table.take(order), engine=engine), qi=QI, k=4, parts=4, sort=True)
        for order in orders
    ]
    assert [*made[0]] == [*made[1]]
    ages = [row["age"] for row in made[0]]
    assert ages == sorted(ages)


def test_rows_of_single_persons_are_sorted_where_that_is_asked() -> None:
    table = random_rows(90)
    release = sf.anonymize(table, qi=["age", "zip"], k=3, person="name", sort=True)
    assert release.details["persons"]["sorted"]
    rows = [tuple(row.values()) for row in release]
    assert rows == sorted(rows)


def test_a_sorted_frame_does_not_keep_its_index() -> None:
    import pandas as pd

    frame = random_rows(60).drop_columns("name").to_pandas()
    frame.index = pd.Index(range(100, 160))
    made = sf.anonymize(frame, qi=["age"], k=3, sort=True).to_pandas()
    assert made.index.tolist() == list(range(60))
    assert sorted(made["zip"]) == sorted(frame["zip"])
    plain = sf.anonymize(pa.Table.from_pandas(frame), qi=["age"], k=3, sort=True).to_arrow()
    assert made["zip"].tolist() == plain["zip"].to_pylist()


def test_sorted_rows_are_paired_with_none(tmp_path: Path) -> None:
    """Neither to find what was lost, nor to count cells beyond their boundaries."""
    table = random_rows(60).rename_columns(["row", "age", "zip", "rare"])
    place = tmp_path / "released.parquet"
    sf.anonymize(table, qi=["age"], k=3, sort=True, output=place)
    within = Boundaries({"age": {"max_width": 90}})
    with pytest.raises(ParameterError, match="sorted by their cells"):
        compare(place, table)
    with pytest.raises(ParameterError, match="sorted by their cells"):
        boundary_violations(table, place, within)
    assert boundary_violations(table, place, within, key="row") == {"age": 0}
    findings = sf.verify(place, of=table).findings
    assert all(one.holds for one in findings)
