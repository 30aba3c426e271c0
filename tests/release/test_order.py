"""What the order of rows tells is said, and sorted releases tell nothing by it."""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from samples import ADULT_QI, sample_path
from sfumato.errors import ParameterError
from sfumato.hierarchy import Boundaries, builders
from sfumato.release import Release
from sfumato.release.order import BATCH_ROWS, in_order
from sfumato.report.pages.certificate import certified_release
from sfumato.report.pages.release import release_page
from sfumato.utility import compare
from sfumato.utility.comparison import boundary_violations, measured_by_cells

ENGINES = ("memory", "duckdb")
QI = ("age", "sex", "race")
SAID = "neighbouring rows of the table are more alike than others in "


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


def everyday(rows: int = 600) -> pa.Table:
    random = np.random.default_rng(5)
    born = dt.date(1940, 1, 1)
    days = random.permutation(20_000)[:rows].tolist()
    return pa.table(
        {
            "number": random.permutation(rows),
            "birth_date": [born + dt.timedelta(day) for day in days],
            "sex": random.choice(["F", "M"], rows),
        }
    )


VERBS: dict[str, tuple[Callable[..., Release], str]] = {
    "mask": (partial(sf.mask, beta=0.9, must_drop=["birth_date", "number"]), "birth_date"),
    "mask all": (partial(sf.mask, beta=0.9, must_drop=["number"]), "number"),
    "safe-harbor": (partial(sf.safe_harbor, keep=["sex"], drop=["number"]), "birth_date"),
    "safe-harbor drops": (partial(sf.safe_harbor, keep=["sex"], drop=["number"]), "number"),
    "population": (
        lambda source, **how: (
            sf.population(
                source, qi=["birth_date", "sex"], universe=1e5, k=50, bootstrap=0, **how
            ).release
        ),
        "birth_date",
    ),
    "anonymize": (
        partial(sf.anonymize, qi=["birth_date"], k=5, identifiers=["number"]),
        "birth_date",
    ),
}
"""Verbs that write a release, and a column that it does not show as it was."""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_tells_what_its_order_does_and_sorts_where_asked(
    engine: Any, verb: str, tmp_path: Path
) -> None:
    release_of, hidden = VERBS[verb]
    table = everyday()

    def made(rows: pa.Table, **how: Any) -> Release:
        place = tmp_path / "released.parquet"
        return release_of(sf.table(rows, engine=engine), output=place, force=True, **how)

    assert not told(made(table))
    in_its_order = table.sort_by(hidden)
    (said,) = told(made(in_its_order))
    assert said.startswith(f"{SAID}`{hidden}`, and the release")
    found = []
    for rows in (table, in_its_order):
        release = made(rows, sort=True)
        assert not told(release)
        assert release.certificate is not None
        assert release.certificate.body["output"]["sorted"] == "by cells"
        assert release.certificate.body["asked"]["sort"] is True
        found.append(pq.read_table(tmp_path / "released.parquet"))
    assert found[0].equals(found[1])
    assert all(one.holds for one in sf.verify(tmp_path / "released.parquet").findings)


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_of_persons_do_not_keep_their_place_in_any_release(engine: Any) -> None:
    """Where they have several: they stand together in the table, and would in the release."""
    table = everyday().append_column("who", pa.array(np.arange(600) // 3))
    shuffled = table.take(np.random.default_rng(6).permutation(600))
    for verb, more in (("mask", {"measure": "separation"}), ("population", {})):
        with tempfile.TemporaryDirectory() as folder:
            found = []
            for rows in (table, shuffled):
                opened = sf.table(rows, engine=engine)
                place = Path(folder, "out.parquet")
                release = VERBS[verb][0](opened, person="who", output=place, force=True, **more)
                assert release.certificate is not None
                assert "sort" not in release.certificate.body["asked"]
                assert "who" not in pq.read_table(place).column_names
                found.append(pq.read_table(place))
            assert found[0].equals(found[1])


@pytest.mark.parametrize("engine", ENGINES)
def test_tables_that_nobody_sorted(engine: Any) -> None:
    """Nor is it said of a household's rows that stand together, and have an age and a race each."""
    for name, columns in (
        ("adult", ADULT_QI),
        ("census_income_kdd_test", ["age", "race", "sex", "education"]),
        ("letter", ["x-box", "lettr", "high"]),
        ("pums_oregon_calm_person", ["AGEP", "SEX", "RAC1P", "MAR", "SCHL"]),
    ):
        assert not in_order(sf.table(sample_path(f"{name}.parquet"), engine=engine), columns)
    pums = sf.table(sample_path("pums_oregon_calm_person.parquet"), engine=engine)
    assert in_order(pums, ["AGEP", "SERIALNO"]) == ("SERIALNO",)


def test_a_column_that_stays_as_it_is_tells_itself() -> None:
    table = random_rows(600).sort_by("zip")
    release = sf.anonymize(table, qi=["zip"], k=2, identifiers=["name"])
    assert release.column_actions["zip"] == "kept"
    assert not told(release)


@pytest.mark.parametrize("rows", [0, 1, 2, 12, 25, 40, 90, 400])
def test_chance_is_no_order(rows: int) -> None:
    for seed in range(60):
        table = random_rows(rows, seed)
        assert not in_order(sf.table(table), table.column_names)


@pytest.mark.parametrize("engine", ENGINES)
def test_few_rows_in_order(engine: Any) -> None:
    """From 27 on it is said; whatever a few rare values do is chance."""
    for rows in (26, 27):
        table = random_rows(rows).sort_by("name")
        found = in_order(sf.table(table, engine=engine), ["name"])
        assert found == (("name",) if rows >= 27 else ())
    rare = pa.table({"rare": [True] * 10 + [False] * 990, "half": [True] * 500 + [False] * 500})
    assert in_order(sf.table(rare, engine=engine), ["rare", "half"]) == ("half",)


@pytest.mark.parametrize("engine", ENGINES)
def test_nearly_sorted_rows_and_rows_of_a_village(engine: Any) -> None:
    table = random_rows(3000).sort_by([("zip", "ascending"), ("age", "ascending")])
    assert in_order(sf.table(table, engine=engine), ["zip", "age", "name"]) == ("age", "zip")
    some = np.arange(3000)
    some[::10] = np.random.default_rng(1).permutation(some[::10])  # a tenth stands elsewhere
    names = random_rows(3000).sort_by("name").take(pa.array(some))
    assert in_order(sf.table(names, engine=engine), ["name"]) == ("name",)


def test_of_columns_left_out_memory_reads_the_first_rows(monkeypatch: Any) -> None:
    rows = 2 * BATCH_ROWS
    names = np.arange(rows)
    names[BATCH_ROWS:] = np.random.default_rng(2).permutation(names[BATCH_ROWS:])
    table = pa.table({"name": names, "age": np.arange(rows) // 4000})
    opened = sf.table(table, engine="memory")
    opened.codes(["age"])
    assert in_order(opened, ["name", "age"]) == ("name", "age")
    assert [*opened.engine.held] == ["age"]  # type: ignore[attr-defined]
    late = table.take(pa.array(np.r_[np.arange(BATCH_ROWS, rows), np.arange(BATCH_ROWS)]))
    assert not in_order(sf.table(late, engine="memory"), ["name"])


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


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"method": "cells"},
        {"method": "full-domain"},
        {"method": "cells", "suppressed_as": "text"},
    ],
    ids=str,
)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_what_cells_cost_is_counted_without_pairs(
    how: dict[str, Any], ending: str, tmp_path: Path
) -> None:
    """As it is with them, and as whoever made the release measured it."""
    table = pq.read_table(sample_path("adult.parquet")).slice(0, 500)
    places = [tmp_path / f"{name}.{ending}" for name in ("kept", "sorted")]
    asked: dict[str, Any] = {"qi": [*QI, "hours-per-week"], "k": 5, **how}
    sf.anonymize(table, output=places[0], **asked)
    made = sf.anonymize(table, output=places[1], sort=True, **asked)
    cost = compare(places[0], table)
    found = measured_by_cells(places[1], table, qi=asked["qi"])
    assert found["columns"] == pytest.approx(cost.columns)
    for name, figure in found.items():
        if name != "columns":
            assert figure == pytest.approx(getattr(cost, name)), name
    assert found["certainty_penalty"] == pytest.approx(made.utility["ncp"])


def test_the_page_of_a_sorted_release_says_what_it_cost(tmp_path: Path) -> None:
    table = pq.read_table(sample_path("adult.parquet")).slice(0, 500)

    def utility(name: str, **how: Any) -> tuple[list[str], Any, Any]:
        place = tmp_path / f"{name}.parquet"
        sf.anonymize(table, **{"qi": QI, "k": 5, "output": place} | how)
        page = release_page(certified_release(place, sf.table(table)), sf.table(table))
        (section,) = [one for one in page.sections if one.title == "Utility"]
        return [*section.paragraphs], section.grids, section.figures

    said, (grid,), (lost,) = utility("kept")
    assert not said
    (told,), (same,), (drawn,) = utility("sorted", sort=True)
    assert "sorted by their cells" in told
    assert "`sfumato utility --row-key`" in told
    entropy = [row for row in grid.rows if row[0] == "non-uniform entropy"]
    assert sorted([*same.rows, *entropy]) == sorted(grid.rows)
    assert drawn.spec == lost.spec
    for name, how, why in (
        ("medians", {"sort": True, "numbers_as": "median"}, "do not tell what they stand for"),
        ("sets", {"qi": [["age", "sex"], ["race", "sex"]]}, "several sets of columns"),
        (
            "trees",
            {"hierarchies": {"sex": builders.flat(pa.array(["Female", "Male"]))}},
            "--hierarchies",
        ),
    ):
        (told,), grids, _ = utility(name, **how)
        assert why in told
        assert not grids
