"""Random datasets of several tables, and what any attacker is left with, by brute force."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, compress
from typing import Any

import numpy as np
import pyarrow as pa


@dataclass(frozen=True)
class House:
    """A description as a dict, and what to ask of it."""

    described: dict[str, Any]
    qi: list[str]
    k: int
    m: int | None


def random_house(seed: int) -> House:
    """Patients, admissions, prescriptions of admissions, tests of patients, and wards.

    Some prescriptions refer to no admission, some admissions to nobody, some tests to nothing.
    """
    random = np.random.default_rng(seed)
    number = int(random.integers(4, 10))
    nested = bool(random.integers(2))
    named = [f"p{one}" for one in random.permutation(number)]
    patients = {
        "id": named,
        "sex": random.choice(["F", "M"], number).tolist(),
        "age": random.integers(20, 24, number).tolist(),
    }
    stays = int(random.integers(number, 4 * number))
    owner = [*random.choice(named, stays)]
    if random.integers(3) == 0:
        owner[0] = "nobody"
    admissions = {
        "id": random.permutation(stays).tolist(),
        "patient_id": owner,
        "ward_id": (wards := random.integers(3, size=stays).tolist()),
        "day": random.integers(4, size=stays).tolist(),
    }
    tables: dict[str, Any] = {
        "patients": {"source": pa.table(patients), "key": "id"},
        "admissions": {
            "source": pa.table(admissions),
            "key": "id",
            "references": {"patient_id": "patients.id", "ward_id": "wards.id"},
        },
        "wards": {
            "source": pa.table({"id": [0, 1, 2], "floor": ["up", "down", "up"]}),
            "publish": True,
        },
    }
    qi = ["patients.sex", "patients.age", "admissions.day"]
    if nested:
        drugs = int(random.integers(1, 2 * number))
        at = random.integers(stays, size=drugs)
        stay: list[int | None] = [admissions["id"][one] for one in at]
        whose: list[str | None] = [owner[one] for one in at]
        if random.integers(2):
            stay[0] = None
        if random.integers(2):
            stay[-1] = 10_000
        tables["prescriptions"] = {
            "source": pa.table(
                {
                    "admission_id": pa.array(stay, pa.int64()),
                    "patient_id": whose,
                    "drug": random.choice(["a", "b", "c"], drugs).tolist(),
                }
            ),
            "references": {"admission_id": "admissions.id", "patient_id": "patients.id"},
        }
        qi.append("prescriptions.drug")
        if random.integers(2):
            rows = tables["prescriptions"]["source"].drop_columns(["patient_id"])
            tables["prescriptions"]["source"] = rows
            del tables["prescriptions"]["references"]["patient_id"]
    if random.integers(2):
        tests = int(random.integers(1, 2 * number))
        tables["tests"] = {
            "source": pa.table(
                {
                    "patient": random.choice(named, tests).tolist(),
                    "result": random.choice(["good", "bad"], tests).tolist(),
                    "lab": random.integers(3, size=tests).tolist(),
                }
            ),
            "references": {"patient": "patients.id"},
        }
        if random.integers(3):
            qi.append("tests.result")
    m = [1, 2, 3, None][int(random.integers(4))]
    visitors = [set(compress(owner, [one == ward for one in wards])) for ward in {*wards}]
    if m is None and (nested or 2 * sum(len(one) == 1 for one in visitors) > len(visitors)):
        m = 2  # stays, or wards that are mostly one person's, link the rows that refer to them
    return House({"person": "patients.id", "tables": tables}, qi, int(random.integers(2, 4)), m)


WAYS = {
    "admissions": [["patient_id"]],
    "prescriptions": [["patient_id"], ["admission_id", "patient_id"]],
    "tests": [["patient"]],
}
"""How each table leads to the person."""
REFERS = {
    ("admissions", "patient_id"): ("patients", "id"),
    ("admissions", "ward_id"): ("wards", "id"),
    ("prescriptions", "admission_id"): ("admissions", "id"),
    ("prescriptions", "patient_id"): ("patients", "id"),
    ("tests", "patient"): ("patients", "id"),
}
KEYS = {
    "admissions": ["id", "patient_id"],
    "prescriptions": ["admission_id", "patient_id"],
    "tests": ["patient"],
}


def orphans(tables: dict[str, list[dict[str, Any]]]) -> dict[tuple[str, str], int]:
    """By reference how many rows lead nowhere."""
    found = {}
    for (name, column), (to, key) in REFERS.items():
        if name in tables and tables[name] and column in tables[name][0]:
            keys = {row[key] for row in tables[to]}
            cells = [row[column] for row in tables[name]]
            found[name, column] = sum(cell is not None and cell not in keys for cell in cells)
    return found


def owner_of(tables: dict[str, list[dict[str, Any]]], name: str, row: dict[str, Any]) -> Any:
    """Whose a row is: whichever way leads to somebody."""
    for way in WAYS[name]:
        at, here = name, row
        for column in way:
            if here is None or column not in here:
                here = None
                break
            to, key = REFERS[at, column]
            here = next((one for one in tables[to] if one[key] == here[column]), None)
            at = to
        if here is not None:
            return here["id"]
    return None


def _keys(
    tables: dict[str, list[dict[str, Any]]], name: str, row: dict[str, Any]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every key that can be seen through a row."""
    for column in KEYS[name]:
        if row.get(column) is not None:
            yield (column,), row[column]
            to, key = REFERS.get((name, column), ("wards", ""))
            if to not in ("wards", "patients"):
                for there in tables[to]:
                    if there[key] == row[column]:
                        for way, seen in _keys(tables, to, there):
                            yield (column, *way), seen


def fewest_left(tables: dict[str, list[dict[str, Any]]], qi: list[str], m: int | None) -> int:
    """The fewest persons that any attacker is left with, trying every way to match rows."""
    events: dict[Any, list[Any]] = {one["id"]: [] for one in tables["patients"]}
    own = {
        one["id"]: tuple(one[c.partition(".")[2]] for c in qi if c.startswith("patients."))
        for one in tables["patients"]
    }
    for name in WAYS:
        known = [c.partition(".")[2] for c in qi if c.startswith(f"{name}.")]
        for row in tables.get(name, []) if known else []:
            whose = owner_of(tables, name, row)
            assert whose is not None, "a row belongs to nobody"
            keys = {way: key for way, key in _keys(tables, name, row) if key != whose}
            events[whose].append((name, tuple(row[c] for c in known), keys))
    fewest = len(events)
    for person, mine in events.items():
        sizes = range(m + 1) if m is not None else [len(mine)]
        for some in (one for size in sizes for one in combinations(mine, size)):
            left = sum(
                own[other] == own[person] and _has(theirs, some, m)
                for other, theirs in events.items()
            )
            fewest = min(fewest, left)
    return fewest


def _has(theirs: list[Any], some: tuple[Any, ...], m: int | None) -> bool:
    """Whether rows can be matched so that cells agree, and so does which keys are the same."""
    if m is None and len(theirs) != len(some):
        return False
    return _matched(theirs, some, ())


def _matched(theirs: list[Any], some: tuple[Any, ...], chosen: tuple[int, ...]) -> bool:
    """Whether the rows chosen so far can be completed."""
    if len(chosen) == len(some):
        return True
    wanted = some[len(chosen)]
    for at, row in enumerate(theirs):
        fits = at not in chosen and row[:2] == wanted[:2] and set(row[2]) == set(wanted[2])
        if (
            fits
            and all(
                _same_pattern(some[nth], wanted, theirs[other], row)
                for nth, other in enumerate(chosen)
            )
            and _matched(theirs, some, (*chosen, at))
        ):
            return True
    return False


def _same_pattern(one: Any, other: Any, mine: Any, beside: Any) -> bool:
    """Whether two rows share keys exactly where two others do."""
    return all(
        (one[2][here] == other[2][there]) == (mine[2][here] == beside[2][there])
        for here in one[2]
        for there in other[2]
    )
