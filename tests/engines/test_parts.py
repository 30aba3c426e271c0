"""Releases made part by part, on every engine that holds its own rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.anonymization import parts as solving
from sfumato.columns import persons
from sfumato.engines.protocol import Engine
from sfumato.quasi import counterexamples
from sfumato.release import anonymity
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
            "row": pa.array(np.arange(rows)),
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


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The certificate of a table in a database is written to the current folder."""
    monkeypatch.chdir(tmp_path)


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
    kept = ["row", "illness"]
    assert Counter(map(str, back.select(kept).to_pylist())) == Counter(
        map(str, table.select(kept).to_pylist())
    )
    sizes = Counter(tuple(row.values()) for row in back.select(QI).to_pylist())
    assert min(sizes.values()) >= 5


class Travelled:
    """Rows that answers bring here, in one piece or as a stream, and statements that ask."""

    def __init__(self, patch: pytest.MonkeyPatch, session: Any) -> None:
        self.statements = self.answered = self.streamed = 0
        execute, stream = session.execute, session.stream

        def executed(this: Any, statement: Any, columns: Any) -> pa.Table:
            before = self.streamed
            found = execute(this, statement, columns)
            self.streamed = before  # an answer may come as a stream
            self.statements += 1
            self.answered += found.num_rows
            return found

        def streamed(this: Any, *arguments: Any) -> Iterator[pa.RecordBatch]:
            for batch in stream(this, *arguments):
                self.streamed += batch.num_rows
                yield batch

        patch.setattr(session, "execute", executed)
        patch.setattr(session, "stream", streamed)


@pytest.mark.parametrize("kind", DATABASES, indirect=True)
def test_what_travels_is_what_the_documentation_says(
    kind: str,
    opened: Opener,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows, parts = 2000, 4
    random = np.random.default_rng(5)
    table = pa.table(
        {
            **{name: random.integers(0, 40, rows) for name in "abcd"},
            "illness": pa.array(random.choice(["flu", "cold", "gout"], rows)),
        }
    )
    source = Table(opened(table))
    monkeypatch.setattr(solving, "SAMPLE_ROWS", 100)
    monkeypatch.setattr(anonymity, "ENOUGH_BYTES", 1 << 20)
    monkeypatch.setattr(counterexamples, "PULLED_BYTES", 1)
    monkeypatch.setattr(counterexamples, "SAMPLE_ROWS", 50)
    session = type(source.engine.connection.session())  # type: ignore[attr-defined]
    travelled = Travelled(monkeypatch, session)
    sizes = source.class_sizes(["a", "b"])
    assert (travelled.statements, travelled.answered) == (1, len(sizes.sizes))

    travelled.statements = travelled.answered = 0
    key = sf.minimum_key(source, proven=True)
    counted = 0 if kind == "duckdb" else 1
    assert key.notes[-1].startswith(f"{travelled.statements - counted:,} statements, besides")
    assert travelled.answered <= 50 + counterexamples.CLASSES * travelled.statements
    assert travelled.streamed == 0

    travelled.statements = travelled.answered = 0
    release = sf.anonymize(
        source,
        qi=list("abcd"),
        sensitive=["illness"],
        k=5,
        l=2,
        parts=parts,
        output=destination(kind, tmp_path, request),
    )
    assert release.verified
    values, answered, statements = 4 * 40 + 3, travelled.answered, travelled.statements
    # Whether columns name persons: of DuckDB some rows are looked at, elsewhere counts alone.
    looked = persons.LOOKED_AT if kind == "duckdb" else 0
    looked += sum(len(source.class_sizes([name]).sizes) + 2 for name in source.columns)
    # Values of columns (those of the sensitive one twice), samples, parts, and a few counts.
    assert answered <= looked + values + 3 + 100 + 200 + 3 * parts + 20
    classes = release.classes or 0
    if kind == "spark":
        assert travelled.streamed == 0
        # A look at each column, and one outcome for each part in which classes were checked.
        assert statements <= (len(source.columns) + 1) + 6 + 2 + 8
    else:
        assert rows < travelled.streamed <= rows + 3 * classes
