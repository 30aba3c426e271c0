"""Releases made part by part, on every engine that holds its own rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.protocol import Engine
from sfumato.tables import Table

Opener = Callable[[pa.Table], Engine]

QI = ["age", "height", "city", "day"]


def people(rows: int = 3000) -> pa.Table:
    """A table in which nearly every combination is different, with nulls and odd values."""
    random = np.random.default_rng(7)
    ages = random.integers(18, 90, rows)
    heights = np.round(random.normal(170, 10, rows), 1)
    heights[:2] = [-0.0, 0.0]
    days = random.integers(0, 4000, rows).astype("datetime64[D]")
    cities = random.choice(["Rome", "Oslo", "Köln", "", 'a "b"', "Łódź"], rows)
    return pa.table(
        {
            "id": pa.array(np.arange(rows)),
            "age": pa.array([None if at % 50 == 0 else int(a) for at, a in enumerate(ages)]),
            "height": pa.array(heights),
            "city": pa.array([None if at % 70 == 0 else c for at, c in enumerate(cities)]),
            "day": pa.array(days),
            "illness": pa.array(random.choice(["flu", "cold", "gout", "none"], rows)),
        }
    )


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


DATABASES = [
    "duckdb",
    pytest.param("postgres", marks=pytest.mark.postgres),
    pytest.param("spark", marks=pytest.mark.spark),
]


def destination(kind: str, folder: Path, request: pytest.FixtureRequest) -> str:
    if kind == "postgres":
        schema = request.getfixturevalue("postgres_schema")
        server = request.getfixturevalue("postgres")
        return f"{server.url}#{schema}.released"
    return str(folder / "released.parquet")


@pytest.mark.parametrize("kind", DATABASES, indirect=True)
def test_parts_keep_the_promise_and_every_other_cell(
    kind: str, opened: Opener, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    table = people()
    release = sf.anonymize(
        Table(opened(table)),
        qi=QI,
        sensitive=["illness"],
        k=5,
        l=2,
        parts=4,
        output=destination(kind, tmp_path, request),
    )
    told = release.details["in_parts"]
    assert told["parts"] == 4
    assert release.verified
    assert release.k is not None
    assert release.k >= 5
    back = release.to_arrow() if kind != "spark" else pq.read_table(release.output)
    assert back.num_rows == 3000
    kept = ["id", "illness"]
    assert Counter(map(str, back.select(kept).to_pylist())) == Counter(
        map(str, table.select(kept).to_pylist())
    )
    sizes = Counter(tuple(row.values()) for row in back.select(QI).to_pylist())
    assert min(sizes.values()) >= 5
