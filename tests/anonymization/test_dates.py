"""Dates move together with their person, and nobody is told that this hides anybody."""

from __future__ import annotations

import datetime
import hmac
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.anonymization.actions import days_of, pseudonyms
from sfumato.errors import SfumatoError


def visits() -> pa.Table:
    random = np.random.default_rng(4)
    who = np.sort(random.integers(0, 12, 60))
    days = np.datetime64("2024-01-01") + random.integers(0, 300, 60)
    stay = [None if at % 13 == 5 else int(at % 4) for at in range(60)]
    leave = [
        None if s is None else d + s for d, s in zip(days.tolist(), map(_days, stay), strict=True)
    ]
    return pa.table(
        {
            "patient": [f"P{one}" for one in who],
            "age": 20 + who % 5,
            "came": pa.array(days),
            "left": pa.array(leave, pa.date32()),
            "seen": pa.array(days.astype("datetime64[us]"), pa.timestamp("us")),
            "row": np.arange(60) * 0.5,
        }
    )


def _days(stay: int | None) -> Any:
    return None if stay is None else datetime.timedelta(days=stay)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    place = tmp_path / "secret.key"
    place.write_text("5b1f0c9ae37d42886f10d9c4b7a2e35d8c61f4907ab35e2dd08f9b16c7423ae5")
    place.chmod(0o600)
    return place


def released(table: pa.Table, release: Any) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    before = {row["row"]: row for row in table.to_pylist()}
    return [(before[row["row"]], row) for row in release.to_arrow().to_pylist()]


def test_all_dates_of_a_person_move_alike(key: Path) -> None:
    table = visits()
    release = sf.anonymize(
        table, qi=["age"], k=2, person="patient", shift_dates=True, shift_days=40, key_file=key
    )
    moved = defaultdict(set)
    for before, after in released(table, release):
        assert (before["left"] is None) == (after["left"] is None)
        for name in ("came", "left", "seen"):
            if before[name] is not None:
                moved[before["patient"]].add((after[name] - before[name]).days)
    assert all(len(days) == 1 for days in moved.values())
    shifts = [next(iter(days)) for days in moved.values()]
    assert all(-40 <= days <= 40 for days in shifts)
    assert len(set(shifts)) > 3
    assert any("not a promise" in warning for warning in release.warnings)
    assert release.column_actions["came"].startswith("moved by up to 40 days")


def test_days_are_uniform_over_both_sides_and_tell_nothing_of_a_pseudonym() -> None:
    persons, key = pa.array([f"p{at}" for at in range(3000)]), b"a key of 16 bytes or more"
    days = days_of(persons, key, 5)
    assert np.bincount(days + 5, minlength=11).min() > 200
    assert days.min() == -5
    assert days.max() == 5
    names = [int(name, 16) for name in pseudonyms(persons, key).to_pylist()]
    digests = [int.from_bytes(hmac.digest(key, p.encode(), "sha256")) for p in persons.to_pylist()]
    assert all(digest >> 128 == name for digest, name in zip(digests, names, strict=True))
    assert (days != np.array([digest % 11 - 5 for digest in digests])).any()


def test_dates_that_are_blurred_are_moved_first(key: Path) -> None:
    table = visits()
    asked: dict[str, Any] = {"qi": ["came", "age"], "k": 3, "person": "patient"}
    plain = sf.anonymize(table, **asked)
    moved = sf.anonymize(table, **asked, shift_dates=True, key_file=key)
    shown = {row["came"] for _, row in released(table, moved)}
    assert shown != {row["came"] for _, row in released(table, plain)}
    classes = defaultdict(set)
    for before, after in released(table, moved):
        classes[after["came"], after["age"]].add(before["patient"])
    assert moved.k == min(map(len, classes.values())) >= 3


def test_the_same_key_moves_alike_and_another_does_not(key: Path, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"qi": ["age"], "k": 2, "person": "patient", "shift_dates": True}
    other = tmp_path / "other.key"
    other.write_text("c03e8d5519f2a7b64e10d7c8b93f5a2648e1f07d3bc95a8264d0e7f91b3a5c68")
    other.chmod(0o600)
    first, again, different = (
        sf.anonymize(visits(), **asked, key_file=place).to_arrow() for place in (key, key, other)
    )
    assert first.equals(again)
    assert not first.equals(different)


@pytest.mark.parametrize(
    "asked",
    [
        {"shift_dates": True},
        {"shift_dates": True, "person": "patient", "identifiers": ["came", "left", "seen"]},
        {"shift_dates": True, "person": "patient", "shift_days": 0},
        {"shift_days": 20, "person": "patient"},
    ],
    ids=str,
)
def test_what_cannot_be_moved_is_refused(asked: dict[str, Any], key: Path) -> None:
    with pytest.raises(SfumatoError):
        sf.anonymize(visits(), **{"qi": ["age"], "k": 2, "key_file": key, **asked})


def test_moving_dates_needs_a_key() -> None:
    with pytest.raises(SfumatoError, match="secret key"):
        sf.anonymize(visits(), qi=["age"], k=2, person="patient", shift_dates=True)


def test_dates_that_are_text_are_spoken_of(tmp_path: Path) -> None:
    key = tmp_path / "secret.key"
    key.write_text("5b1f0c9ae37d42886f10d9c4b7a2e35d8c61f4907ab35e2dd08f9b16c7423ae5")
    key.chmod(0o600)
    table = visits()
    days = table["came"].to_pylist()
    table = table.append_column("back", pa.array([f"{one:%d.%m.%Y}" for one in days]))
    table = table.append_column("month", pa.array([f"{one:%Y-%m}" for one in days]))
    table = table.append_column("ward", pa.array(["eyes", "skin"] * 30))
    asked: dict[str, Any] = {"qi": ["age"], "k": 2, "person": "patient", "key_file": key}
    told = sf.anonymize(table, **asked, shift_dates=True).warnings
    assert any("was not moved: `back`, `month`;" in one for one in told)


def test_a_date_that_many_persons_share_tells_how_far(key: Path) -> None:
    """A date that stands for none, like the end of what has not ended, is known to everybody."""
    asked: dict[str, Any] = {"qi": ["age"], "k": 2, "person": "patient", "key_file": key}
    table = visits()
    told = sf.anonymize(table, **asked, shift_dates=True).warnings
    assert not any("reads from it" in one for one in told)
    never = pa.array([datetime.date(2099, 12, 31)] * 60)
    told = sf.anonymize(table.append_column("ends", never), **asked, shift_dates=True).warnings
    assert any("`ends` held one date for 12 of 12 persons" in one for one in told)
    assert not any("2099" in one for one in told)


@pytest.mark.parametrize("day", [datetime.date.max, datetime.date.min])
def test_no_date_leaves_the_calendar(day: datetime.date, key: Path) -> None:
    times = pa.array([datetime.datetime.combine(day, datetime.time(12))] * 60, pa.timestamp("us"))
    for cells in (pa.array([day] * 60), times):
        table = visits().append_column("ends", cells)
        with pytest.raises(SfumatoError, match="`ends` cannot be moved"):
            sf.anonymize(table, qi=["age"], k=2, person="patient", shift_dates=True, key_file=key)


@pytest.mark.parametrize(
    ("cells", "like"),
    [
        (["05/02/24", "17/11/23"], True),
        (["20240205", "20231117"], True),
        ([20240205, 20231117], True),
        ([20240205.0, None], True),
        ([Decimal(20240205), Decimal(20231117)], True),
        ([202402, 202311], True),
        (["05022024", "17112023"], True),
        (["05-Feb-24", "17-Nov-23"], True),
        (["2024-W05", "2023-W46"], True),
        (["05.02.", "17.11."], True),
        (["05.02.2024 - 06.02.2024", "17.11.2023 - 17.11.2023"], True),
        (["2024-02-05/2024-02-11", "2023-11-13/2023-11-19"], True),
        ([20240205.5, 20231117.0], False),
        (["A-05-24", "B-11-23"], False),
        ([20240205, 7], False),
        ([2024, 2023], False),
    ],
)
def test_what_only_looks_like_dates_is_named(cells: list[Any], like: bool, key: Path) -> None:
    table = visits().append_column("day", pa.array(cells * 30))
    told = sf.anonymize(
        table, qi=["age"], k=2, person="patient", shift_dates=True, key_file=key
    ).warnings
    assert any("looks like dates was not moved: `day`" in one for one in told) == like


@pytest.mark.parametrize(("name", "like"), [("birth_year", True), ("Jahr", True), ("dose", False)])
@pytest.mark.parametrize("as_text", [True, False])
def test_bare_years_are_named_by_their_column(
    name: str, as_text: bool, like: bool, key: Path
) -> None:
    table = visits()
    years: list[Any] = [1950 + at % 60 for at in range(table.num_rows)]
    if not as_text:
        years = [None, *map(float, years[1:])]  # as pandas reads years and an empty cell
    table = table.append_column(name, pa.array([*map(str, years)] if as_text else years))
    release = sf.anonymize(table, qi=["age"], k=2, key_file=key, person="patient", shift_dates=True)
    assert any(f"was not moved: `{name}`" in one for one in release.warnings) == like


def test_periods_of_pandas_move_by_days_and_are_named_by_months(key: Path) -> None:
    pd = pytest.importorskip("pandas")
    frame = visits().to_pandas()
    frame["day"] = pd.PeriodIndex(frame["came"], freq="D")
    frame["month"] = pd.PeriodIndex(frame["came"], freq="M")
    frame["quarter"] = pd.PeriodIndex(frame["came"], freq="Q")
    frame.loc[3, ["day", "month"]] = pd.NaT
    release = sf.anonymize(frame, qi=["age"], k=2, key_file=key, person="patient", shift_dates=True)
    assert any("was not moved: `month`, `quarter`" in one for one in release.warnings)
    rows = {row["row"]: row for row in release.to_arrow().to_pylist()}
    assert rows[1.5]["day"] is None
    assert rows[1.5]["month"] is None
    for at, row in rows.items():
        assert row["day"] is None or row["day"] == row["came"]
        came = frame["came"][int(2 * at)]
        assert row["month"] is None or row["month"] == f"{came:%Y-%m}"
        assert row["quarter"] == f"{came.year}Q{(came.month + 2) // 3}"
