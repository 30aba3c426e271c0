"""A table in which a few rows hold values that must never be seen, and every result made of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

import sfumato as sf

__all__ = ["QI", "RARE_NUMBERS", "RARE_TEXTS", "RESULTS", "assert_nothing_rare", "people"]

QI = ["age", "sex", "town", "job"]
RARE_TEXTS = ("Zzyzxville", "Lighthouse-keeper-9", "Rareflower")
RARE_NUMBERS = (987654, 876543)


def people(rows: int = 800, *, rare: bool = True) -> pa.Table:
    """A table in which a few rows hold values that must never be seen in a report."""
    rng = np.random.default_rng(5)
    town = np.array(["Aton", "Berg", "Cove", "Dale"], object)[rng.integers(0, 4, rows)]
    job = np.array(["baker", "clerk", "nurse", "pilot", "smith"], object)[rng.integers(0, 5, rows)]
    illness = np.array(["none", "flu", "cough"], object)[rng.integers(0, 3, rows)]
    age = rng.integers(20, 70, rows)
    income = rng.integers(10, 60, rows) * 1000
    if rare:
        town[:3], job[3:6], illness[:4] = RARE_TEXTS
        age[7:9] = RARE_NUMBERS[0]
        income[5:14] = RARE_NUMBERS[1]
    return pa.table(
        {
            "age": age,
            "sex": np.array(["F", "M"], object)[rng.integers(0, 2, rows)],
            "town": town,
            "job": job,
            "income": income,
            "illness": illness,
        }
    )


_MADE: dict[str, Callable[[], Any]] = {
    "scan": lambda: sf.scan(people()),
    "measure": lambda: sf.measure(people(), QI),
    "risk": lambda: sf.risk(people(), QI),
    "risk-twice": lambda: sf.risk(people(), QI, released=sf.anonymize(people(), k=5, qi=QI).table),
    "key": lambda: sf.minimum_key(people()),
    "key-sampled": lambda: sf.minimum_key(people(), eps=0.05),
    "keys": lambda: sf.minimal_keys(people(), measure="separation", beta=0.95),
    "violations": lambda: sf.violations(people(), k=5),
    "uniques": lambda: sf.uniques(people(), max_size=2),
    "mondrian": lambda: sf.anonymize(people(), k=5, qi=QI),
    "cells": lambda: sf.anonymize(people(), k=5, qi=QI, method="cells"),
    "kmember": lambda: sf.anonymize(people(), k=5, qi=QI, method="kmember"),
    "leaving-out": lambda: sf.anonymize(
        people(), k=5, qi=QI, method="full-domain", suppression_limit=0.2
    ),
    "mask": lambda: sf.mask(people(), measure="distinct", beta=0.5),
    "population": lambda: sf.population(people(), universe=1e6, qi=QI, k=20, bootstrap=10),
    "attack": lambda: sf.attack(sf.anonymize(people(), k=5, qi=QI).table, people(), on=QI, k=5),
}
RESULTS = {name: cache(make) for name, make in _MADE.items()}
"""Each is made when it is first asked for, and once."""


def assert_nothing_rare(text: str) -> None:
    """No planted value is in a text, however its digits are grouped."""
    for rare in (*RARE_TEXTS, *map(str, RARE_NUMBERS)):
        assert rare not in text
    for number in RARE_NUMBERS:
        assert f"{number:,}" not in text
