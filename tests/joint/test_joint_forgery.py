"""Shares, models and agreements that somebody tampered with: refused in our own words."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from joint_studies import study
from sfumato.errors import InputError, SfumatoError, SourceError
from sfumato.joint import (
    Agreement,
    Share,
    fit_shares,
    make_share,
    read_model,
    read_share,
    score,
    write_model,
    write_share,
)

JUNK: list[Any] = [
    None, True, -1, 0, 1.5, 1e308, float("nan"), float("inf"), "", "x", "1", [], [1], {},
    {"a": 1}, 10**30, 10**400, "\u202e",
]  # fmt: skip


@pytest.fixture(scope="module")
def share() -> Share:
    lung = study("lung")
    made = make_share(lung.table, lung.agreement, "A", price=False, interval_rows=0).share
    assert made is not None
    return made


@pytest.fixture(scope="module")
def described(share: Share, tmp_path_factory: pytest.TempPathFactory) -> tuple[pa.Table, Any]:
    """A share's table and the description it carries."""
    path = tmp_path_factory.mktemp("share") / "a.share.parquet"
    write_share(share, path)
    table = pq.read_table(path)
    return table, json.loads(table.schema.metadata[b"sfumato.share"])


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, (dict, list)):
        keys = value if isinstance(value, dict) else range(len(value))
        for key in keys:
            yield from places(value[key], (*path, key))


def tampered(value: Any, dice: random.Random) -> Any:
    """The value with one entry left out, or with junk in its place."""
    value = copy.deepcopy(value)
    path = dice.choice(list(places(value)))
    if not path:
        return dice.choice(JUNK)
    holder = value
    for key in path[:-1]:
        holder = holder[key]
    if dice.random() < 0.2:
        holder.pop(path[-1])
    else:
        holder[path[-1]] = dice.choice(JUNK)
    return value


@pytest.mark.parametrize("times", [400, pytest.param(1500, marks=pytest.mark.slow)])
def test_agreements_with_junk_in_them(times: int) -> None:
    dice, plain, refused = random.Random(1), study("lung").agreement.to_dict(), 0
    for _ in range(times):
        try:
            Agreement.from_dict(tampered(plain, dice))
        except SfumatoError:
            refused += 1
    assert refused > times * 7 / 15  # another study's name or seed is as good as the first


@pytest.mark.parametrize("times", [100, pytest.param(300, marks=pytest.mark.slow)])
def test_descriptions_with_junk_in_them(
    described: tuple[pa.Table, Any], tmp_path: Path, times: int
) -> None:
    table, about = described
    dice, refused = random.Random(2), 0
    for _ in range(times):
        text = json.dumps(tampered(about, dice))
        pq.write_table(table.replace_schema_metadata({"sfumato.share": text}), tmp_path / "f")
        try:
            fit_shares([read_share(tmp_path / "f")], "cox", penalty=0.1)
        except SfumatoError:
            refused += 1
    # the institution's name and an unused rounding step may be others
    assert refused > times * 5 / 6


@pytest.mark.parametrize("times", [200, pytest.param(600, marks=pytest.mark.slow)])
def test_models_with_junk_in_them(share: Share, tmp_path: Path, times: int) -> None:
    lung = study("lung")
    write_model(fit_shares([share], "cox", penalty=0.1), tmp_path / "m.json")
    plain, dice, refused = json.loads((tmp_path / "m.json").read_text()), random.Random(3), 0
    few = lung.table.slice(0, 5)
    for _ in range(times):
        (tmp_path / "f.json").write_text(json.dumps(tampered(plain, dice)))
        try:
            found = score(read_model(tmp_path / "f.json"), few)
            assert np.isfinite(found.score).all()
        except SfumatoError:
            refused += 1
    assert refused > times / 6


@pytest.mark.parametrize("times", [400, pytest.param(1500, marks=pytest.mark.slow)])
def test_bytes_changed_or_cut_off(share: Share, tmp_path: Path, times: int) -> None:
    path, dice = tmp_path / "a.share.parquet", random.Random(4)
    write_share(share, path)
    whole = path.read_bytes()
    for _ in range(times):
        changed = bytearray(whole)
        for _ in range(dice.choice([1, 1, 4, 50])):
            changed[dice.randrange(len(changed))] = dice.randrange(256)
        if dice.random() < 0.3:
            changed = changed[: dice.randrange(len(changed))]
        path.write_bytes(changed)
        try:
            assert read_share(path).digest == share.digest  # nothing that matters was hit
        except SfumatoError:
            continue


@pytest.mark.parametrize(
    "bad",
    [
        {"projected": np.nan},
        {"projected": np.inf},
        {"projected": 40.0},
        {"projected": 0.0123},
        {"time": np.nan},
        {"time": np.inf},
        {"time": -1.0},
        {"time": 1e9},
        {"time": 10.5},
        {"rounding": np.inf},
        {"rounding": 1e6, "projected": 1e6},
    ],
    ids=str,
)
def test_numbers_that_no_rows_give(share: Share, bad: dict[str, float], tmp_path: Path) -> None:
    """Made with a right digest: only the agreement tells that they are impossible."""
    forged = replace(share, rounding=bad.get("rounding", share.rounding))
    for name in bad.keys() - {"rounding"}:
        numbers = getattr(share, name) * (forged.rounding < 1e6)  # of such a step all would be 0
        numbers.flat[7] = bad[name]
        forged = replace(forged, **{name: numbers})
    write_share(forged, tmp_path / "f.parquet")
    with pytest.raises(InputError, match=r"no rows within the agreed bounds|description"):
        read_share(tmp_path / "f.parquet")


def test_names_that_are_none_and_descriptions_without_end(share: Share, tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    for name in ("", "x" * 10_000, ["A"]):
        write_share(replace(share, institution=name), path)
        with pytest.raises(InputError, match="needs a name"):
            read_share(path)
    about = {b"sfumato.share": b"[" * 100_000}
    pq.write_table(pq.read_table(path).replace_schema_metadata(about), path)
    with pytest.raises(InputError, match="description cannot be read"):
        read_share(path)


def test_rows_that_memory_would_not_hold_are_not_read(
    share: Share, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.parquet"
    write_share(share, path)
    numbers = len(share.event) * (share.projected.shape[1] + 2)
    monkeypatch.setattr("sfumato.joint.share.available_memory", lambda: 32 * numbers)
    assert read_share(path).digest == share.digest
    monkeypatch.setattr("sfumato.joint.share.available_memory", lambda: 32 * numbers - 1)
    monkeypatch.setattr(pq.ParquetFile, "read", lambda self: pytest.fail("rows were read"))
    with pytest.raises(SourceError, match=r"a\.parquet: its 227 rows would take about"):
        read_share(path)


@pytest.mark.parametrize(
    "junk",
    [
        {"notes": [1]},
        {"institutions": {"A": "many"}},
        {"concordance": "good"},
        {"auc": 2},
        {"revealed": [1]},
        {"revealed": {"bits": "few"}},
    ],
    ids=str,
)
def test_what_a_model_tells_besides_its_numbers(
    share: Share, junk: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "m.json"
    write_model(fit_shares([share], "cox", penalty=0.1), path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **junk}))
    with pytest.raises(InputError, match="numbers that no fit gives"):
        read_model(path)


def test_columns_of_other_types_and_missing_numbers(share: Share, tmp_path: Path) -> None:
    write_share(share, tmp_path / "a.parquet")
    table = pq.read_table(tmp_path / "a.parquet")
    texts = table.set_column(0, "p1", table.column(0).cast(pa.string()))
    holes = table.set_column(0, "p1", pa.array([None] * table.num_rows, pa.float64()))
    for changed in (texts, holes, table.slice(0, 0), table.drop_columns(["time"])):
        pq.write_table(changed, tmp_path / "f.parquet")
        with pytest.raises(InputError):
            read_share(tmp_path / "f.parquet")
