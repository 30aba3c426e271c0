"""What is not promised of a release is counted and said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.release.beside import NOT_PROMISED, _some, beside, linked


def people(rows: int = 600) -> pa.Table:
    random = np.random.default_rng(2)
    return pa.table(
        {
            "age": random.integers(20, 60, rows),
            "job": random.integers(0, 150, rows),
            "town": random.integers(0, 9, rows),
            "same": ["x"] * rows,
            "id": np.arange(rows),
            "wage": random.integers(1_000, 9_000, rows),
            "ill": np.where(random.random(rows) < 0.97, "no", "yes"),
        }
    )


def test_rows_alone_are_those_that_brute_force_finds() -> None:
    release = sf.anonymize(people(), qi=["age"], k=5, rows_are_people=True)
    frame = release.to_arrow().to_pandas()
    found = beside(sf.table(release.to_arrow()), ["age"], ["wage", "ill"])
    assert found is not None
    assert found.by == ("job", "town")
    for step, alone in enumerate(found.alone, 1):
        sizes = frame.groupby(["age", *found.by[:step]]).size()
        assert alone == int((sizes == 1).sum())
    assert set(found.all_columns) == {"job", "town"}


def test_long_labels_of_rows_that_are_looked_at_are_held_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    labels = pa.array(["x" * 100_000, None, "y" * 100_000])
    rows = people().append_column("label", labels.take(pa.array(np.arange(600) % 3)))
    released = sf.table(rows, engine="memory")
    whole = beside(released, ["label"], ["wage", "ill", "id"])
    monkeypatch.setattr("sfumato.release.beside._LOOKED_AT", 500)
    seen = _some(released, released.columns, None)
    assert seen.num_rows == 500
    assert seen.column("label").nbytes < 1 << 20
    assert beside(released, ["label"], ["wage", "ill", "id"]) == whole


@pytest.mark.postgres
def test_rows_of_a_database_are_counted_by_all_that_was_kept(
    postgres: Any, postgres_schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where the certificate goes
    with postgres.connect() as connection:
        connection.execute(
            f"CREATE TABLE {postgres_schema}.people AS SELECT i % 3 AS age, i % 7 AS job,"
            " i % 11 AS town, 'x' AS same FROM generate_series(1, 90) AS i"
        )
    with sf.table(f"{postgres.url}#{postgres_schema}.people") as source:
        release = sf.anonymize(source, qi=["age"], k=5, output=f"{postgres_schema}.released")
    (told,) = [warning for warning in release.warnings if warning.startswith(NOT_PROMISED)]
    assert "90 of 90 rows (100.0%) are alone for whoever knows 3 of the columns" in told


def test_columns_worth_hiding_are_named_among_those_that_stay() -> None:
    cycles = {"age": 3, "job": 7, "town": 11, "ill": 2}
    table = pa.table({name: [n % every for n in range(90)] for name, every in cycles.items()})
    found = beside(sf.table(table), ["age"], [])
    assert found is not None
    several = replace(found, by=(), alone=())
    assert several.say is not None
    named = replace(several, worth_hiding=True).say
    stay = "3 of the columns that stay as they are"
    assert f"{stay} besides the quasi-identifiers" in several.say
    assert named == several.say.replace(stay, f"{stay} (those worth hiding among them)")
    assert "worth_hiding" not in found.to_dict()


def test_it_is_said_at_release_by_verify_and_in_the_report(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    release = sf.anonymize(
        people(), qi=["age"], k=5, l=2, sensitive=["wage", "ill"], identifiers=["id"], output=out
    )
    told = [warning for warning in release.warnings if warning.startswith(NOT_PROMISED)]
    assert "`job` and `town` besides the quasi-identifiers" in told[0]
    assert "`wage` has" in told[1]
    assert "l counts any two as different" in told[1]
    assert "hold one `ill`" in told[2]
    assert release.beside["by"] == ["job", "town"]
    found = sf.verify(out)
    assert found.holds
    assert [line.split("rows")[0] for line in found.not_promised["remarks"]] == [
        line.split("rows")[0] for line in told
    ]
    page = tmp_path / "report.html"
    release.report(page)
    # The remarks in one box, with that on values of one's own, and the verdict above, not green.
    assert page.read_text("utf-8").count('class="verdict warn"') == 2
    assert page.read_text("utf-8").count("<li>Not promised: ") == len(told) + 1 == 4


def test_nothing_is_said_where_nothing_is_to_be_said() -> None:
    table = pa.table({"age": [20] * 30 + [30] * 30, "sex": ["F", "M"] * 30})
    release = sf.anonymize(table, qi=["age"], k=5)
    assert not [warning for warning in release.warnings if warning.startswith(NOT_PROMISED)]
    close = sf.anonymize(
        people(), qi=["age"], k=5, l=2, t=0.9, sensitive=["wage"], identifiers=["id"]
    )
    assert not [warning for warning in close.warnings if "l counts" in warning]


def test_kept_columns_that_find_rows_by_themselves_are_named(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    rows = 400
    seen = np.datetime64("2020-12-31T23:00:00") + 60 * random.integers(0, 3_000, rows)
    table = people(rows).drop(["wage"]).append_column("seen", pa.array(seen))
    table = table.append_column("height", pa.array(random.normal(170, 9, rows)))
    release = sf.anonymize(
        table, qi=["age"], k=5, rows_are_people=True, output=tmp_path / "out.parquet"
    )
    own = [name for name in ("seen", "height") if len(set(table[name].to_pylist())) > rows / 2]
    assert release.beside["of_its_own"] == own == ["seen", "height"]
    said = "`seen`, `height` have values of their own in most rows"
    assert any(said in warning for warning in release.warnings)
    assert any("name persons: `id`" in warning for warning in release.warnings)
    told = sf.verify(tmp_path / "out.parquet").not_promised["remarks"]
    assert any(said in line for line in told)


def test_rows_without_a_pseudonym_are_nobodys() -> None:
    who, ages = ["a", "a", "b", "c", "d", None, None], [20, 30, 20, 20, 30, 30, 30]
    seen = pa.table({"who": who, "age": ages})
    found = linked(sf.table(seen), ["age"], "who")
    assert found is not None
    assert (found.persons, found.least, found.alone) == (4, 2, 2)
    assert linked(sf.table(seen.slice(0, 1)), ["age"], "who") is None
    assert linked(sf.table(seen.slice(5, 2)), ["age"], "who") is None
