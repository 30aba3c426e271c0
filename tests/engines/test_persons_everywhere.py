"""Persons are counted alike wherever the rows are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import sfumato as sf
from sfumato.columns.persons import Changed, other_names, rows_of_words
from sfumato.engines.protocol import Engine
from sfumato.errors import ColumnError
from sfumato.tables import Table

Opener = Callable[[pa.Table], Engine]
QI = ["age", "town"]


@pytest.fixture
def destination(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> str:
    """Where the engine at hand writes: a file or a table."""
    monkeypatch.chdir(tmp_path)  # the certificate of a table is a file where we are
    if kind == "postgres":
        return f"{request.getfixturevalue('postgres_schema')}.released"
    return str(tmp_path / "released.parquet")


def admissions() -> pa.Table:
    random = np.random.default_rng(8)
    who = np.sort(random.zipf(1.5, 600) % 70)
    return pa.table(
        {
            "patient": [f"P{one}" for one in who],
            "age": pa.array(random.integers(20, 60, 600), pa.int32()),
            "town": [f"town {one}" for one in random.integers(0, 6, 600)],
            "cost": np.arange(600) * 1.5,
        }
    )


@pytest.mark.crossed(4)
@pytest.mark.parametrize("method", ["mondrian", "cells"])
def test_every_class_holds_five_persons(opened: Opener, destination: str, method: str) -> None:
    table = admissions()
    source = Table(opened(table))
    release = sf.anonymize(
        source, qi=QI, k=5, person="patient", method=method, output=destination, force=True
    )
    assert release.verified
    assert release.findings[0].measured["counted"] == "persons"
    owner = dict(zip(table["cost"].to_pylist(), table["patient"].to_pylist(), strict=True))
    classes = defaultdict(set)
    rows = released_rows(source, destination)
    for row in rows:
        classes[tuple(row[name] for name in QI)].add(owner[row["cost"]])
    assert release.k == min(map(len, classes.values())) >= 5
    cells = [[(cell is None, cell or 0) for cell in row.values()] for row in rows]
    assert cells == sorted(cells), "their own order could tell whose they are"


@pytest.mark.crossed(4)
@pytest.mark.parametrize("parts", [None, 3])
def test_rows_are_sorted_where_that_is_asked(
    opened: Opener, destination: str, parts: int | None
) -> None:
    """In a database, too, where parts would otherwise be written one after the other."""
    table = admissions().drop_columns("patient")
    source = Table(opened(table))
    asked: dict[str, Any] = {"qi": QI, "k": 5, "sort": True, "parts": parts}
    release = sf.anonymize(source, output=destination, force=True, **asked)
    assert release.certificate is not None
    assert release.certificate.body["output"]["sorted"] == "by cells"
    assert not [one for one in release.warnings if "the position of a row" in one]
    rows = [tuple(row.values()) for row in released_rows(source, destination)]
    assert rows == sorted(rows)
    assert sorted(cost for _, _, cost in rows) == table["cost"].to_pylist()


def test_parts_that_keep_the_order_in_which_they_are_read_say_so(
    opened: Opener, destination: str
) -> None:
    """Where nobody knows the order of a table, its parts are written as they are read."""
    source = Table(opened(admissions().drop_columns("patient")))
    asked: dict[str, Any] = {"qi": QI, "k": 5, "output": destination, "force": True}
    for parts in (3, None):
        warned = sf.anonymize(source, parts=parts, **asked).warnings
        told = [one for one in warned if "part by part" in one]
        assert bool(told) == (parts is not None and not source.engine.capabilities.ordered)
        assert all(one.endswith("(sort=True)") for one in told)


def with_dates(table: pa.Table) -> pa.Table:
    """The same with a date and a time, some of them missing."""
    random = np.random.default_rng(9)
    days = np.datetime64("2020-01-31") + random.integers(0, 900, table.num_rows)
    gone = random.random(table.num_rows) < 0.05
    seconds = np.datetime64("2021-03-01T10:20:30", "us") + 10**6 * np.arange(table.num_rows)
    return table.append_column("admitted", pa.array(days, mask=gone)).append_column(
        "seen", pa.array(seconds, pa.timestamp("us"))
    )


def released_rows(source: Table, destination: str) -> list[dict[str, Any]]:
    postgres = source.engine.kind == "postgres"
    place = f"{source.name.partition('#')[0]}#{destination}" if postgres else destination
    with sf.table(place) as released:
        return list(released)


@pytest.mark.crossed(4)
@pytest.mark.parametrize("qi", [QI, [*QI, "admitted"]], ids=["beside", "among"])
def test_dates_move_alike_everywhere(
    opened: Opener, destination: str, key: Path, qi: list[str]
) -> None:
    table = with_dates(admissions())
    asked: dict[str, Any] = {"qi": qi, "k": 5, "person": "patient", "key_file": key}
    asked |= {"shift_dates": True, "shift_days": 40}
    source = Table(opened(table))
    assert sf.anonymize(source, output=destination, force=True, **asked).verified
    found = {row["cost"]: row for row in released_rows(source, destination)}
    expected = sf.anonymize(table, **asked).to_arrow().to_pylist()
    assert found == {row["cost"]: row for row in expected}
    moved = {}
    for row in table.to_pylist():
        days = (found[row["cost"]]["seen"] - row["seen"]).days
        assert moved.setdefault(row["patient"], days) == days
    assert len({*moved.values()}) > 10
    assert max(map(abs, moved.values())) <= 40


def test_numbers_of_other_persons_are_found_everywhere(opened: Opener) -> None:
    table = admissions()
    mothers = table["patient"].to_pylist()[::-1]
    source = Table(opened(table.append_column("mum", pa.array(mothers))))
    with pytest.raises(ColumnError, match="`mum`"):
        sf.anonymize(source, qi=QI, k=5, person="patient")


def test_many_numbers_of_persons_stay_where_they_are(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfumato.columns.persons.MOST_FETCHED", 5)
    table = admissions()
    mothers = table["patient"].to_pylist()[::-1]
    source = Table(opened(table.append_column("mum", pa.array(mothers))))
    if not source.engine.capabilities.remote:
        with pytest.raises(ColumnError, match="`mum`"):
            sf.anonymize(source, qi=QI, k=5, person="patient")
        return
    release = sf.anonymize(source, qi=QI, k=5, person="patient")
    assert any("values of `patient`" in one and "more than 5" in one for one in release.warnings)


SPELLINGS = (" card-00{}", "Card {}", "CARD/{}", "n/a", None, "card\u2013{}")


def test_second_numbers_are_found_where_the_rows_are(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfumato.columns.persons.MOST_FETCHED", 5)
    table = admissions()
    numbers = [int(one[1:]) for one in table["patient"].to_pylist()]
    card = [
        form and form.format(1000 + 7 * number)
        for number, form in zip(numbers, SPELLINGS * 100, strict=True)
    ]
    source = Table(opened(table.append_column("card", pa.array(card, pa.string()))))
    assert other_names(source, ["card", "age", "cost"], "patient") == ["card"]
    assert rows_of_words(source, "card") == {"n/a": 100}
    # What values become counts: in fives, the number of a person is several persons'.
    table = table.append_column("number", pa.array([7 * number for number in numbers]))
    source = Table(opened(table))
    assert other_names(source, ["number"], "patient") == ["number"]
    fives: Changed = {"number": lambda values: pc.divide(values, 35)}
    assert other_names(source, ["number"], "patient", changed=fives) == []


def test_class_sizes_in_persons_are_the_same_everywhere(opened: Opener) -> None:
    table = admissions()
    found = sf.measure(Table(opened(table)), QI, person="patient")
    assert found == sf.measure(table, QI, person="patient")
    assert sf.measure(Table(opened(table)), [], person="patient").k == found.persons
