"""k-map steers anonymizers: every row matches enough people of a population."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from cli_tools import sfumato
from sfumato.errors import ColumnError, ParameterError, SourceError
from sfumato.utility import compare

METHODS = ["mondrian", "relaxed", "lattice", "kmember", "best", "full-domain"]


def population(seed: int = 0, people: int = 400) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "age": random.integers(18, 90, people),
            "sex": random.choice(["F", "M"], people),
            "town": random.choice([f"t{i}" for i in range(9)], people),
            "ill": random.choice(["flu", "gout", "none"], people),
        }
    )


def covers(cell: str, value: Any) -> bool:
    """Whether a released cell covers a value, read without any of our code."""
    if cell == str(value) or cell == "*":
        return True
    if cell.startswith("{"):
        return str(value) in [part.strip() for part in cell[1:-1].split(",")]
    if cell.startswith("["):
        low, high = cell[1:-1].split(",")
        return float(low) <= value < float(high)
    return False


def fewest(release: sf.Release, people: pa.Table, names: list[str]) -> int:
    """People that match the most exposed class, counted one by one."""
    assert release.table is not None
    rows = release.table.sample(release.rows).select(names).to_pylist()
    shown = {tuple(row[name] for name in names) for row in rows}
    crowd = people.select(names).to_pylist()
    return min(
        sum(all(covers(str(c), p[n]) for c, n in zip(cells, names, strict=True)) for p in crowd)
        for cells in shown
    )


def test_a_population_may_be_any_frame() -> None:
    people = population()
    for frame in (people.to_pandas(), polars.from_arrow(people)):
        release = sf.anonymize(people, qi=["age", "sex"], k_map=3, population=frame)
        assert fewest(release, people, ["age", "sex"]) >= 3


@pytest.mark.parametrize("action", [{"round": 10}, {"top": 80}, {"recode": {"18": "young"}}])
def test_people_are_not_found_by_what_an_action_changed(action: dict[str, Any]) -> None:
    people = population()
    with pytest.raises(ColumnError, match="an action changes those of `age` in the table alone"):
        sf.anonymize(people, qi=["age", "sex"], k_map=3, population=people, columns={"age": action})


@settings(max_examples=18, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(METHODS), st.integers(2, 15), st.integers(1, 3))
def test_every_row_matches_enough_people(seed: int, method: str, k_map: int, k: int) -> None:
    people = population(seed)
    table = people.slice(0, 60)
    names = ["age", "sex", "town"]
    asked: dict[str, Any] = {"method": method}
    if method == "relaxed":
        asked = {"method": "mondrian", "relaxed": True}
    release = sf.anonymize(
        table, qi=names, k=k, k_map=k_map, population=people, sensitive=["ill"], l=min(k, 2),
        **asked,
    )  # fmt: skip
    assert release.rows == 60
    assert release.k is not None
    assert release.k >= k
    (finding,) = [f for f in release.findings if f.check == "k-map"]
    (measured,) = finding.measured["checks"]
    assert measured.measured["k"] >= k_map
    if method != "full-domain":  # inferred trees have labels of their own
        assert fewest(release, people, names) == measured.measured["k"]


def test_the_population_buys_precision() -> None:
    """Ten people may share a class with one row: what k-anonymity would have to blur stays."""
    people = population(1, 3000)
    table = people.slice(0, 120)
    names = ["age", "sex", "town"]
    mapped = sf.anonymize(table, qi=names, k_map=10, population=people)
    alike = sf.anonymize(table, qi=names, k=10)
    assert mapped.utility["ncp"] < 0.5 * alike.utility["ncp"]
    assert mapped.k is not None
    assert mapped.k < 10


def test_people_outside_the_table_and_rows_outside_the_population() -> None:
    people = pa.table({"age": [30, 31, 32, 50, 51, 52], "sex": ["F"] * 6})
    strange = pa.table({"age": [31, 77], "sex": ["F", "M"]})
    release = sf.anonymize(strange, qi=["age", "sex"], k_map=3, population=people)
    assert fewest(release, people, ["age", "sex"]) >= 3


@pytest.mark.parametrize("method", [m for m in METHODS if m not in ("relaxed", "best")])
@pytest.mark.parametrize("demand", [{}, {"k": 3}, {"sensitive": ["ill"], "l": 2}])
def test_sets_that_overlap_hide_among_people(method: str, demand: dict[str, Any]) -> None:
    """Few rows among more people, so that groups of shared columns cannot grow with the people."""
    people = population(1, 40)
    table = people.slice(0, 9)
    sets = [["age", "sex"], ["town", "sex"]]
    release = sf.anonymize(table, qi=sets, k_map=5, population=people, method=method, **demand)
    assert all(finding.holds for finding in release.findings)
    assert all(fewest(release, people, names) >= 5 for names in sets)


def test_several_sets_and_boundaries_with_people() -> None:
    people = population(2, 600)
    table = people.slice(0, 80)
    sets = [["age", "sex"], ["age", "town"]]
    release = sf.anonymize(table, qi=sets, k_map=12, population=people)
    for names in sets:
        assert fewest(release, people, names) >= 12
    within = sf.anonymize(
        table, qi=["age", "sex"], k_map=12, population=people, boundaries={"age": {"max_width": 15}}
    )
    assert within.rows + within.suppressed_rows == 80
    with pytest.raises(ParameterError, match=r"k = 400 fails for 80 rows.*k <= \d+ for k-map"):
        sf.anonymize(
            table, qi=["age"], k_map=400, population=people, boundaries={"age": {"max_width": 5}}
        )


@pytest.mark.parametrize(
    ("given_", "error", "says"),
    [
        ({"method": "cells"}, ParameterError, "cannot steer method `cells`.*mondrian, kmember"),
        ({"method": "quantiles"}, ParameterError, "cannot steer"),
        ({"population": None}, ParameterError, "one of the two is missing"),
        ({"k_map": None, "k": 2}, ParameterError, "one of the two is missing"),
        ({"k_map": 500}, ParameterError, "the population has 400 people"),
        ({"k_map": 0}, ParameterError, "k = 0 is not possible"),
        ({"population": "nowhere.csv"}, SourceError, "nowhere.csv"),
        ({"population": pa.table({"age": [1]})}, ColumnError, "sex"),
        ({"population": pa.table({"age": ["x"], "sex": ["F"]}), "k_map": 1}, ColumnError, "int64"),
        ({"target": "sex"}, ParameterError, "together with k-map"),
    ],
)  # fmt: skip
def test_bad_demands_are_refused(given_: dict[str, Any], error: type, says: str) -> None:
    people = population()
    asked: dict[str, Any] = {"k_map": 5, "population": people, **given_}
    with pytest.raises(error, match=says):
        sf.anonymize(people.slice(0, 50), qi=["age", "sex"], **asked)


def test_verify_replays_it_and_notices_another_population(tmp_path: Path) -> None:
    people, table, out = tmp_path / "people.parquet", tmp_path / "t.parquet", tmp_path / "o.csv"
    pq.write_table(population(3), people)
    pq.write_table(population(3).slice(0, 90), table)
    asked = ("--qi", "age,sex", "--k-map", 8, "--population", people)
    done = sfumato("anonymize", table, *asked, "-o", out, "-q")
    assert done.code == 0, done.err
    assert "k-map" in done.out
    record = json.loads((tmp_path / "o.csv.certificate.json").read_text())
    assert record["asked"]["k_map"] == 8
    assert sfumato("verify", out, *asked, "-q").code == 0
    here = ("--population", people)
    assert sfumato("verify", out, "--qi", "age,sex", "--k-map", 300, *here).code == 1
    assert sfumato("verify", out, "--qi", "age,sex", "--k-map", 3).code == 2
    assert sfumato("verify", out, *here, "-q").code == 0
    unnamed = sfumato("verify", out, "-q")
    assert unnamed.code == 1
    assert "was not checked: a certificate opens nothing" in " ".join(unnamed.out.split())
    config = ("--config", f"{out}.certificate.json")
    refused = sfumato("anonymize", table, *config, "--json")
    assert (refused.code, "a certificate opens nothing" in refused.err) == (2, True)
    again = sfumato("anonymize", table, *config, *here, "--json").json
    assert again["classes"] == record["classes"]
    pq.write_table(population(4), people)
    changed = sfumato("verify", out, *here, "-q")
    assert changed.code == 1
    assert "its digest differs" in " ".join(changed.out.split())
    elsewhere = tmp_path / "moved.parquet"
    pq.write_table(population(3), elsewhere)
    assert sfumato("verify", out, "--population", elsewhere, "-q").code == 0


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_people_are_found_by_ranges_of_whole_days(zone: str | None, tmp_path: Path) -> None:
    """Labels of moments leave out midnight in UTC, and the zone with it."""
    seconds = np.arange(60) * (3 * 86_400 + 77) * 1_000_000
    table = pa.table({"seen": pa.array(seconds, pa.timestamp("us", zone))})
    asked = {"k_map": 5, "population": pa.concat_tables([table] * 2)}
    release = sf.anonymize(table, qi=["seen"], output=tmp_path / "out.csv", **asked)
    assert '"[1970-' in (tmp_path / "out.csv").read_text()
    found = compare(tmp_path / "out.csv", table)
    assert found.certainty_penalty == pytest.approx(release.utility["ncp"])


@pytest.mark.parametrize("ending", ["csv", "parquet", "xlsx"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_points_in_time_are_found_in_whatever_unit_they_are_kept(
    unit: str, ending: str, tmp_path: Path
) -> None:
    random = np.random.default_rng(0)
    hours = random.integers(0, 20, 900).astype("timedelta64[h]")
    seen = pa.array(np.datetime64("2000-01-01T00:00:00", "s") + hours).cast(pa.timestamp(unit))
    people = pa.table({"seen": seen, "sex": random.choice(["F", "M"], 900)})
    output = tmp_path / f"out.{ending}"
    sf.anonymize(
        people.slice(0, 150), k_map=4, population=people, qi=["seen", "sex"], output=output
    )
    assert sf.verify(output, population=people).holds


@pytest.mark.parametrize("method", ["mondrian", "lattice"])
def test_short_floats_lie_in_their_ranges_as_they_are_written(method: str) -> None:
    random = np.random.default_rng(0)
    some, sex = (random.random(200) * 10).round(1), random.choice(["F", "M", "X"], 200)
    people = pa.table({"dose": pa.array(some, pa.float32()), "sex": sex})
    names = ["dose", "sex"]
    release = sf.anonymize(people, k_map=3, population=people, qi=names, method=method)
    for cells, value in zip(release.to_arrow().to_pylist(), some.tolist(), strict=True):
        assert covers(cells["dose"], value)


def test_trees_of_columns_that_were_left_out_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "trees").mkdir()
    towns = "".join(f"t{i};{'north' if i < 5 else 'south'};*\n" for i in range(9))
    (tmp_path / "trees" / "town.csv").write_text(towns)
    (tmp_path / "trees" / "ill.csv").write_text("flu;*\ngout;*\nnone;*\n")
    people, output, trees = population(), tmp_path / "out.csv", str(tmp_path / "trees")
    sf.anonymize(
        people.slice(0, 90),
        k_map=9,
        population=people,
        qi=["town", "sex", "age"],
        identifiers=["ill"],
        hierarchies=trees,
        output=output,
    )
    assert sf.verify(output, population=people, hierarchies=trees).holds
    assert sf.attack(output, people, on=["town", "sex"], hierarchies=trees).k_map


def test_a_missing_cell_counts_those_who_lack_it_where_people_do() -> None:
    """It may be a star, and then means anybody, but nobody's cell is missing among other people."""
    people = pa.table({"sex": ["F"] * 10 + ["M"] * 9 + [None] * 6, "zip": ["1"] * 25})
    table = pa.table({"sex": ["F", "M", None], "zip": ["1"] * 3})
    release = sf.anonymize(table, qi=["sex", "zip"], k_map=5, population=people)
    assert "every row matches at least 6 of 25 people" in release.findings[0].say
    asked: dict[str, Any] = {"qi": ["sex", "zip"], "population": people}
    found = sf.verify(release.table, k_map=7, **asked)
    assert "6 of 25 people, 7 asked (1 row matches fewer)" in found.findings[0].say
    known = people.filter(pc.is_valid(people["sex"]))
    assert sf.verify(release.table, k_map=9, **asked | {"population": known}).holds
