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
from cli_tools import sfumato
from sfumato.anonymization import verb as solving
from sfumato.columns import persons as named_persons
from sfumato.engines.protocol import Engine
from sfumato.errors import ParameterError
from sfumato.populations import promises
from sfumato.quasi import proof
from sfumato.release import anonymity
from sfumato.report.registry import page_of
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


def visits(rows: int = 2400) -> pa.Table:
    """Rows of persons, of whom some have many and one has a third of all."""
    random = np.random.default_rng(11)
    who = np.where(np.arange(rows) % 3 == 0, 0, random.zipf(1.4, rows) % 500)
    return people(rows).append_column("patient", pa.array([f"P{one}" for one in np.sort(who)]))


@pytest.mark.parametrize("kind", DATABASES, indirect=True)
@pytest.mark.parametrize("asked", [{"k": 5}, {"k": 5, "l": 2, "sensitive": ["illness"]}])
def test_every_class_of_every_part_holds_enough_persons(
    kind: str,
    opened: Opener,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    asked: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(anonymity, "ENOUGH_BYTES", 1 << 18)  # verified in parts, too
    table = visits()
    release = sf.anonymize(
        Table(opened(table)),
        qi=QI,
        person="patient",
        parts=4,
        output=destination(kind, tmp_path, request),
        **asked,
    )
    assert release.verified
    assert release.details["in_parts"]["parts"] > 1
    back = release.to_arrow() if kind != "spark" else pq.read_table(release.output)
    assert back.column_names == [name for name in table.column_names if name != "patient"]
    owner, persons, illnesses = table["patient"].to_pylist(), {}, {}
    for row in back.to_pylist():
        cells = tuple(row[name] for name in QI)
        persons.setdefault(cells, set()).add(owner[row["row"]])
        illnesses.setdefault(cells, {}).setdefault(row["illness"], set()).add(owner[row["row"]])
    assert release.k == min(map(len, persons.values())) >= 5
    if "l" in asked:
        assert min(map(len, illnesses.values())) >= 2
    told = release.details["persons"]
    kept = {one for there in persons.values() for one in there}
    assert (told["persons"], told["left_out"]) == (len({*owner}), len({*owner} - kept))
    assert release.rows == back.num_rows == 2400 - release.suppressed_rows
    first = [(cell is None, cell) for cell in back[release.qi[0][0]].to_pylist()]
    assert first == sorted(first), "their own order could tell whose they are"
    assert release.risk == ()
    page = page_of(release)  # cells are counted there by rows, which are not what was asked about
    assert not page.gauges
    if kind != "spark":
        assert f"At least {release.k} persons look alike" in str(page)


def test_risks_that_are_not_told_are_shown_in_words(tmp_path: Path) -> None:
    pq.write_table(visits().drop_columns(["row"]), tmp_path / "visits.parquet")
    asked = ("visits.parquet", "-k", 5, "--parts", 4, "--person", "patient", "--qi", ",".join(QI))
    shown = sfumato("anonymize", *asked, "--engine", "duckdb", "-o", "made.parquet")
    assert "Not told: a person is as exposed as the worst of their rows" in shown.out
    assert "Written and verified" in shown.out
    assert (
        sfumato("anonymize", *asked, "--engine", "duckdb", "--dry-run", "--json").json["risk"] == []
    )
    assert "prosecutor" in sfumato("anonymize", *asked, "--engine", "memory").out
    assert not [one for one in tmp_path.rglob("*") if "partial" in one.name]


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
    monkeypatch.setattr(proof, "PULLED_BYTES", 1)
    monkeypatch.setattr(proof, "SAMPLE_ROWS", 50)
    session = type(source.engine.connection.session())  # type: ignore[attr-defined]
    travelled = Travelled(monkeypatch, session)
    sizes = source.class_sizes(["a", "b"])
    assert (travelled.statements, travelled.answered) == (1, len(sizes.sizes))

    travelled.statements = travelled.answered = 0
    key = sf.minimum_key(source, proven=True)
    counted = 0 if kind == "duckdb" else 1
    assert key.notes[-1].startswith(f"{travelled.statements - counted:,} statements, besides")
    assert travelled.answered <= 50 + proof.CLASSES * travelled.statements
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
    looked = named_persons.LOOKED_AT if kind == "duckdb" else 0
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


@pytest.mark.parametrize("kind", DATABASES, indirect=True)
def test_what_travels_of_persons_is_what_the_documentation_says(
    kind: str,
    opened: Opener,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows, parts, random = 2000, 4, np.random.default_rng(5)
    table = pa.table(
        {
            **{name: random.integers(0, 40, rows) for name in "abcd"},
            "patient": pa.array(random.integers(0, 10**9, 600)[random.integers(0, 600, rows)]),
            # About as many as there are persons, but not theirs.
            "dose": pa.array([f"{one} mg" for one in random.integers(0, 600, rows)]),
        }
    )
    source = Table(opened(table))
    number = source.class_sizes(["patient"]).classes
    monkeypatch.setattr(solving, "SAMPLE_ROWS", 100)
    monkeypatch.setattr(anonymity, "ENOUGH_BYTES", 1 << 18)
    monkeypatch.setattr(named_persons, "MOST_FETCHED", 50)
    session = type(source.engine.connection.session())  # type: ignore[attr-defined]
    travelled = Travelled(monkeypatch, session)
    release = sf.anonymize(
        source,
        qi=list("abcd"),
        person="patient",
        k=5,
        parts=parts,
        output=destination(kind, tmp_path, request),
    )
    assert release.verified
    # Numbers of persons do not leave their place, nor do values beside them.
    looked = 3 * named_persons.LOOKED_AT if kind == "duckdb" else 0
    looked += 2 * sum(len(source.class_sizes([name]).sizes) + 2 for name in source.columns)
    # Values of columns with counts, those few rows hold once more; samples, parts, sums of hashes,
    # and sizes of classes of the release.
    assert travelled.answered <= looked + 2 * 4 * 40 + 100 + 200 + 3 * parts + 40
    if kind == "spark":
        assert travelled.streamed == 0
        assert travelled.statements <= 2 * len(source.columns) + 4 + 18
    else:
        # Parts, what was laid aside with the person, and from DuckDB the sorted rows. Of a local
        # table the numbers of persons pass by, twice.
        times, passed = (3, 2 * number) if kind == "duckdb" else (2, 0)
        assert rows < travelled.streamed <= times * rows + passed + 20


def population(rows: int, seed: int) -> pa.Table:
    """People who are nearly all different, older ones rarer."""
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "age": pa.array((90 * random.beta(1, 2, rows)).astype(np.int64)),
            "height": pa.array(random.integers(150, 200, rows)),
            "sex": pa.array(random.choice(["F", "M"], rows)),
            "illness": pa.array(random.choice(["flu", "cold", "gout"], rows)),
        }
    )


def matches(released: pa.Table, people: pa.Table) -> dict[tuple[str, ...], int]:
    """How many people each class of a release may be, read off its labels."""
    columns = {name: np.array(people.column(name).to_pylist()) for name in ("age", "height", "sex")}

    def covers(label: str, cells: Any) -> Any:
        if label.startswith("["):
            low, high = map(float, label[1:-1].split(", "))
            return (cells >= low) & (cells < high)
        shown = label[1:-1].split(", ") if label.startswith("{") else [label]
        return np.isin(cells.astype(str), shown)

    cells = (released.column(name).cast(pa.string()).to_pylist() for name in columns)
    return {
        labels: int(
            np.logical_and.reduce(
                [covers(label, columns[n]) for n, label in zip(columns, labels, strict=True)]
            ).sum()
        )
        for labels in set(zip(*cells, strict=True))
    }


@pytest.mark.parametrize(
    "kind",
    ["memory", "duckdb", pytest.param("postgres", marks=pytest.mark.postgres)],
    indirect=True,
)
def test_every_class_of_every_part_matches_enough_people(
    kind: str,
    opened: Opener,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Rows and people are looked up some at a time, as if there were many of them.
    monkeypatch.setattr(promises, "ENOUGH_BYTES", 1 << 18)
    monkeypatch.setattr(promises, "SOME_BATCHES", 1)
    rows, people = population(1500, 1), population(4000, 2)
    out = destination(kind, tmp_path, request)
    whole = sf.anonymize(rows, qi=["age", "height", "sex"], k_map=11, population=people)
    made = sf.anonymize(
        Table(opened(rows)),
        qi=["age", "height", "sex"],
        sensitive="illness",
        l=2,
        k_map=11,
        population=Table(opened(people)),
        parts=6,
        output=out,
    )
    assert made.verified
    assert 1 < made.details["in_parts"]["parts"] <= 6
    released = sf.table(out)
    found = matches(released.to_arrow(), people)
    released.close()
    assert min(found.values()) >= 11
    assert made.rows == 1500
    (checked,) = [finding for finding in made.findings if finding.check == "k-map"]
    assert checked.measured["checks"][0].measured["k"] == min(found.values())
    assert made.utility["ncp"] < 1.5 * whole.utility["ncp"]


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["spark"], indirect=True)
def test_spark_refuses_k_map_in_parts_before_it_starts(kind: str, opened: Opener) -> None:
    rows = Table(opened(population(200, 1)))
    with pytest.raises(ParameterError, match="looks people up here, and Spark solves parts else"):
        sf.anonymize(rows, qi=["age", "sex"], k_map=3, population=population(400, 2), parts=2)
