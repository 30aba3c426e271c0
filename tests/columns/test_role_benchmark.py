"""Every column of the public tables against what two readings by hand call it."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from samples import sample_path, survival
from sfumato.budget import Budget
from sfumato.columns.profile import profile
from sfumato.columns.recognise import recognise_columns
from sfumato.tables import table

LABELS = tomllib.loads((Path(__file__).parent / "roles.toml").read_text(encoding="utf-8"))
ROLES = ("identifier", "quasi-identifier", "sensitive", "other")
HIDDEN = ("crx", "letter")
"""Tables whose names say nothing at all."""


def names(text):
    for part in re.split(r",\s*", text.replace("\n", " ").strip()):
        series = re.fullmatch(r"(.*?)(\d+)\.\.(\d+)", part)
        if series is None:
            yield part
        else:
            yield from (f"{series[1]}{i}" for i in range(int(series[2]), int(series[3]) + 1))


@cache
def judged(name):
    """Each column with what it is, and what it was taken for; constants say nothing."""
    folder, _, study = name.partition("survival/")
    rows = survival(study) if study else pq.read_table(sample_path(f"{folder}.parquet"))
    label = LABELS[name]
    wanted = {c: role for role in ROLES if role in label for c in names(label[role])}
    assert set(wanted) == set(rows.column_names), set(wanted) ^ set(rows.column_names)
    look = profile(table(rows), seed=0, budget=Budget())
    found = recognise_columns(look)
    answers = {}
    for facts in look.facts:
        if not facts.is_constant:
            got = found[facts.name].role
            also = label.get("second", {}).get(facts.name)
            answers[facts.name] = (got if got == also else wanted[facts.name], got)
    return answers


@pytest.mark.parametrize("name", [n for n in LABELS if n not in HIDDEN])
def test_most_columns_of_each_table_are_right(name):
    answers = judged(name)
    wrong = {c: pair for c, pair in answers.items() if pair[0] != pair[1]}
    assert len(wrong) <= max(2, 0.6 * len(answers) if "survival" in name else 0.1 * len(answers)), (
        wrong
    )


def test_precision_and_recall_of_each_role():
    pairs = Counter(pair for name in LABELS for pair in judged(name).values())
    columns = sum(pairs.values())
    assert columns == 737
    assert sum(pairs[role, role] for role in ROLES) / columns >= 0.94
    least = {"identifier": (0.95, 0.95), "quasi-identifier": (0.88, 0.96),
             "sensitive": (0.96, 0.84), "other": (0.95, 0.93)}  # fmt: skip
    for role, (precision, recall) in least.items():
        taken = sum(pairs[wanted, role] for wanted in ROLES)
        there = sum(pairs[role, got] for got in ROLES)
        assert pairs[role, role] / taken >= precision, role
        assert pairs[role, role] / there >= recall, role
