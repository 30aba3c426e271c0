"""What became of each cell, against following the rows of a column nobody touched."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.engines.recoding import Cells, Recoding, Step
from sfumato.report.pages.certificate import certified_release
from sfumato.report.pages.comparison import Compared, comparison_of

QI = ["age", "sex", "town"]


def people(rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    town = np.array(["Aton", "Berg", "Cove", "Dale", None], object)[rng.integers(0, 5, rows)]
    return pa.table(
        {
            "row": np.arange(rows),
            "age": rng.integers(20, 60, rows),
            "sex": np.array(["F", "M"], object)[rng.integers(0, 2, rows)],
            "town": town,
        }
    )


def texts(table: pa.Table, name: str) -> dict[int, str | None]:
    return dict(
        zip(table["row"].to_pylist(), table[name].cast(pa.string()).to_pylist(), strict=True)
    )


def followed(before: pa.Table, after: pa.Table, name: str) -> dict[str, float]:
    """Fates of cells, row by row."""
    was, now = texts(before, name), texts(after, name)
    fates: Counter[str] = Counter()
    for row, text in was.items():
        if row not in now:
            fates["left out"] += 1
        elif now[row] == text:
            fates["as it was"] += 1
        else:
            fates["starred" if now[row] in ("*", None) else "blurred"] += 1
    return {fate: n / len(was) for fate, n in fates.items()}


def whole(release: Any) -> pa.Table:
    names = ["row", *QI]
    return pa.Table.from_batches(list(release.table.batches(names))).select(names)


METHODS: dict[str, dict[str, Any]] = {
    "mondrian": {},
    "kmember": {},
    "cells": {"method": "cells"},
    "full-domain": {"method": "full-domain"},
    "leaving rows out": {"method": "full-domain", "suppression_limit": 0.2},
}


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", METHODS)
def test_every_cell_is_followed(name: str, seed: int) -> None:
    before = people(200, seed)
    options = {"method": "kmember"} if name == "kmember" else METHODS[name]
    release = sf.anonymize(before, k=5, qi=QI, seed=seed, **options)
    after = whole(release)
    assert (after.num_rows < before.num_rows) == (name == "leaving rows out")
    with comparison_of(release, None) as compared:
        assert compared is not None
        for column in QI:
            fates = {fate: share for fate, share in compared.fate(column).items() if share}
            assert fates == pytest.approx(followed(before, after, column))


def test_rows_that_were_left_out_do_not_change_the_shares() -> None:
    before = pa.table({"town": ["Aton"] * 60 + ["Berg"] * 40})
    after = pa.table({"town": ["Aton"] * 30 + ["Berg"] * 20})
    compared = Compared(sf.table(before), sf.table(after), ("town",), {})
    assert compared.fate("town") == {
        "as it was": 0.5, "blurred": 0.0, "starred": 0.0, "left out": 0.5,
    }  # fmt: skip
    assert compared.spread("town") == {"Aton": 30, "Berg": 20}


def test_a_set_counts_in_equal_parts_for_its_members() -> None:
    before = pa.table({"town": ["Aton"] * 3 + ["Berg"] * 3 + ["Cove"] * 2})
    after = pa.table({"town": ["{Aton, Berg}"] * 4 + ["Cove"] * 2 + ["*", "somewhere"]})
    compared = Compared(sf.table(before), sf.table(after), ("town",), {})
    assert compared.spread("town") == {"Aton": 2, "Berg": 2, "Cove": 2}


def test_files_say_the_same_as_the_mapping(tmp_path: Any) -> None:
    before = people(300, 3)
    release = sf.anonymize(before, k=5, qi=QI)
    written = release.write(tmp_path / "release.parquet")
    read = certified_release(str(written.output), sf.table(before))
    with comparison_of(release, None) as ours, comparison_of(read, sf.table(before)) as theirs:
        assert ours is not None
        assert theirs is not None
        for column in QI:
            assert theirs.moves(column) is None
            assert theirs.fate(column) == pytest.approx(ours.fate(column))
            if column != "age":
                assert theirs.spread(column) == pytest.approx(ours.spread(column))


def test_a_label_spelled_like_another_value_is_not_taken_for_it() -> None:
    """Every number moves to its neighbour: none is as it was, though all counts agree."""
    before = sf.table(pa.table({"age": [20, 21, 22] * 10}))
    codes = before.values("age")
    turned = Cells(np.array([1, 2, 0]), codes.values[0])
    recoding = Recoding((Step(codes, {"age": turned}),))
    after = sf.table(pa.table({"age": [21, 22, 20] * 10}))
    assert Compared(before, after, ("age",), {}).fate("age")["as it was"] == 1.0
    assert Compared(before, after, ("age",), {}, recoding).fate("age")["blurred"] == 1.0
