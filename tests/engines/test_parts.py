"""Releases made part by part, on every engine that holds its own rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from cli_tools import sfumato
from sfumato.anonymization import in_parts as solving
from sfumato.anonymization import parting, verb
from sfumato.columns import persons as named_persons
from sfumato.engines import sql_engine
from sfumato.engines.protocol import Engine, asks_sql
from sfumato.engines.recoding import Cut, Parting
from sfumato.errors import ColumnError, EngineError, ParameterError
from sfumato.populations import promises
from sfumato.quasi import proof
from sfumato.release import promise
from sfumato.report.registry import page_of
from sfumato.tables import Table
from sfumato.utility import compare

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


@pytest.mark.parametrize("kind", DATABASES, indirect=True)
def test_where_a_row_stands_does_not_tell_what_its_star_hides(
    kind: str, opened: Opener, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Parts are cut by ages, and stars are the same in all of them."""
    table = people(1200)
    place = destination(kind, tmp_path, request)
    release = sf.anonymize(
        Table(opened(table)), qi=["age", "city"], k=20, method="cells", parts=3, output=place
    )
    assert release.verified
    with sf.table(place) as back:
        released = list(back)
    assert (kind != "duckdb") or [row["row"] for row in released] == list(range(1200))
    ages = table["age"].to_pylist()
    hidden = [ages[row["row"]] for row in released if row["age"] is None]
    places, known = zip(*((n, age) for n, age in enumerate(hidden) if age), strict=True)
    assert len(known) > 200
    assert abs(np.corrcoef(places, known)[0, 1]) < 0.2


def visits(rows: int = 2400) -> pa.Table:
    """Rows of persons, of whom some have many and one has a third of all."""
    random = np.random.default_rng(11)
    who = np.where(np.arange(rows) % 3 == 0, 0, random.zipf(1.4, rows) % 500)
    return people(rows).append_column("patient", pa.array([f"P{one}" for one in np.sort(who)]))


def test_persons_of_a_text_file_are_counted_by_values(tmp_path: Path) -> None:
    place, asked = tmp_path / "visits.csv", {"k": 5, "t": 0.4, "sensitive": ["days"], "parts": 4}
    days = pa.array(np.random.default_rng(3).integers(0, 40, 2400))  # 10 is before 9, as text
    pa.csv.write_csv(visits().select(["age", "patient"]).append_column("days", days), place)
    releases = [
        sf.anonymize(
            sf.table(place, engine=engine), qi=["age"], person="patient",
            output=tmp_path / f"{engine}.csv", **asked,
        )
        for engine in ("memory", "duckdb")
    ]  # fmt: skip
    here, there = ([c.measured for c in r.findings[0].measured["checks"]] for r in releases)
    assert here == there


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
    monkeypatch.setattr(promise, "ENOUGH_BYTES", 1 << 18)  # verified in parts, too
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


@pytest.mark.parametrize("more", [{"rows_are_people": True}, {"person": "patient"}])
def test_parts_are_read_however_late_they_are(
    monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    """The time of a search may be over before the rows of a part are there."""
    solver = solving.PartSolver
    monkeypatch.setattr(
        solving,
        "PartSolver",
        lambda own, whole, seconds, memory: solver(own, whole, 0.0, memory),
    )
    source = sf.table(visits(), engine="duckdb")
    asked: dict[str, Any] = {"qi": ["age", "height"], "k": 5, "parts": 3, **more}
    made = sf.anonymize(source, method="best", budget=sf.Budget(seconds=600), **asked)
    assert made.verified
    assert made.details["in_parts"]["parts"] > 1


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
    monkeypatch.setattr(promise, "ENOUGH_BYTES", 1 << 20)
    monkeypatch.setattr(proof, "ENOUGH_BYTES", 1)
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
    # And whether rows stand in an order, where they have one.
    looked = named_persons.LOOKED_AT + rows if kind == "duckdb" else 0
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

    travelled.answered = 0
    with pytest.raises(EngineError, match="too many to be held"):
        source.classes(list("abcd"), budget=sf.Budget(memory=1 << 16))
    assert travelled.answered <= (206 if kind == "duckdb" else 20), "refused before they come"
    scarce = sf.Budget(memory=1 << 16)
    asks: list[Callable[[], Any]] = [
        lambda: sf.uniques(source, budget=scarce),
        lambda: sf.minimum_key(source, measure="separation", beta=0.9, budget=scarce),
        lambda: sf.minimal_keys(source, person="a", budget=scarce),
        lambda: sf.risk(source, ["b", "c", "d"], person="a", budget=scarce),
        lambda: sf.population(source, universe=1e8, qi=list("abcd"), budget=scarce),
    ]
    for ask in asks:
        travelled.answered = 0
        with pytest.raises(EngineError, match=r"too many to (be held|pull)"):
            ask()
        assert travelled.answered <= (206 if kind == "duckdb" else 20)


@pytest.mark.postgres
@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
def test_rows_that_fit_come_once_and_lose_nothing(
    kind: str,
    opened: Opener,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verb, "WORTH_COUNTING", 100)
    monkeypatch.setattr(sql_engine, "_LOOKED_AT", 200)
    random = np.random.default_rng(5)
    odd = ["", "\\N", "a\tb\\", 'ä "b"\n', None]
    table = pa.table(
        {
            **{name: random.integers(0, 40, 2000) for name in "abc"},
            "day": pa.array(random.integers(0, 90, 2000).astype("datetime64[D]")),
            "note": pa.array([odd[at] for at in random.integers(0, 5, 2000)]),
            "well": pa.array([(True, False, None)[at] for at in random.integers(0, 3, 2000)]),
        }
    )
    asked: dict[str, Any] = {"qi": [*"abc", "day"], "sensitive": ["well"], "k": 5, "parts": 4}
    source, place = Table(opened(table)), destination(kind, tmp_path, request)
    engine = source.engine
    assert asks_sql(engine)
    travelled = Travelled(monkeypatch, type(engine.connection.session()))
    counted = []
    for most in (1 << 28, 1):
        monkeypatch.setattr(sql_engine, "HELD_BYTES", most)
        travelled.answered = travelled.streamed = 0
        release = sf.anonymize(source, output=place, force=True, **asked)
        counted.append((travelled.answered, travelled.streamed))
        assert release.verified
        assert release.details["in_parts"]["parts"] == 4
        back = release.to_arrow()
        kept = ["note", "well"]
        assert Counter(map(str, back.select(kept).to_pylist())) == Counter(
            map(str, table.select(kept).to_pylist())
        )
    (answered, streamed), (more, _) = counted
    assert streamed == 2000
    assert answered + 2000 < more, "neither samples nor values come by themselves"
    among = Cut("note", pa.array(odd[2:4]), True, -2, -3)
    parting = Parting((Cut("a", pa.array([20]), False, 1, -1), among), 3)
    with engine.one_moment():
        told = [engine.part_counts(parting, ["well"])]
        engine.row_count()
        monkeypatch.setattr(sql_engine, "HELD_BYTES", 1 << 28)
        engine.count_values(table.column_names, 0, None, table.column_names)
        monkeypatch.setattr(type(engine.connection), "session", None)
        told.append(engine.part_counts(parting, ["well"]))
        assert engine.sample(50, ["note"], 3).num_rows == 50
    first, second = (
        Counter(map(tuple, zip(*one.to_pydict().values(), strict=True))) for one in told
    )
    assert first == second


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
    monkeypatch.setattr(promise, "ENOUGH_BYTES", 1 << 18)
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


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("kind", DATABASES, indirect=True)
def test_columns_may_have_the_names_of_ours(
    kind: str, parts: int, opened: Opener, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    ages = [at % 90 for at in range(400)]
    table = pa.table({"part": ages, "rows": ages[::-1], "count": [str(age % 7) for age in ages]})
    out = destination(kind, tmp_path, request)
    asked = {"qi": ["part", "rows"], "sensitive": "count", "l": 2, "k": 5, "parts": parts}
    release = sf.anonymize(Table(opened(table)), **asked, output=out)
    assert release.verified
    assert release.details["in_parts"]["parts"] == parts
    released = sf.table(out)
    kept = released.to_arrow().column("count").to_pylist()
    released.close()
    assert sorted(kept) == sorted(table["count"].to_pylist())


@pytest.mark.parametrize("kind", DATABASES, indirect=True)
def test_missing_values_are_cut_off_like_others(kind: str, opened: Opener) -> None:
    """The commonest values go the first way; in SQL nothing equals null, not even null."""
    towns = pa.array([None, None, "Rome", None, "Oslo"] * 80)
    there = sf.anonymize(Table(opened(pa.table({"town": towns}))), qi=["town"], k=5, parts=3)
    told = there.details["in_parts"]
    assert (told["parts"], told["rows"]) == (2, [160, 240])


@pytest.mark.parametrize("kind", DATABASES, indirect=True)
def test_answers_of_parts_are_added_up(kind: str, opened: Opener) -> None:
    engine = opened(population(500, 1))
    assert asks_sql(engine)
    told = pa.schema([("age", pa.int64()), ("people", pa.int64())])

    def counted(classes: pa.Table) -> pa.Table:
        ages, rows = (classes.column(at).to_pylist() for at in (0, 2))
        return pa.table({"age": ages, "people": rows})

    for here in (False, True):
        found = engine.over_classes(
            ["age", "sex"], ["age", "sex"], 3, counted, told, summed=True, here=here
        )
        sums = dict(zip(*(column.to_pylist() for column in found.columns), strict=True))
        assert sums == Counter(population(500, 1).column("age").to_pylist())


ON_SPARK = pytest.mark.parametrize(
    "kind", [pytest.param("spark", marks=pytest.mark.spark)], indirect=True
)
RARELY_OLD: dict[str, Any] = {
    "qi": ["age", "height", "sex"], "weights": {"age": 10}, "k_map": 20, "parts": 4,
}  # fmt: skip


def rarely_old(rows: int) -> pa.Table:
    """People of whom so few are old that a part of a table has not enough of them."""
    people = population(rows, 2)
    young = np.array(people["age"]) < 20
    return people.filter(pa.array(young | (np.arange(rows) % 150 == 0)))


@ON_SPARK
def test_people_of_a_spark_frame_go_to_the_parts_of_another(
    kind: str,
    opened: Opener,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows, people = population(1200, 1), rarely_old(3000)
    source, crowd = Table(opened(rows)), Table(opened(people))
    here = sf.anonymize(
        sf.table(rows, engine="duckdb"), population=people, output="here.parquet", **RARELY_OLD
    )
    out = destination(kind, tmp_path, request)
    monkeypatch.setattr(promises, "ENOUGH_BYTES", 1 << 16)  # in several parts, on both sides
    session = type(source.engine.connection.session())  # type: ignore[attr-defined]
    travelled = Travelled(monkeypatch, session)
    made = sf.anonymize(source, population=crowd, output=out, **RARELY_OLD)
    assert made.verified
    told = made.details["in_parts"]
    assert told["parts"] == 3, "a part with too few people was merged with its neighbour"
    assert told == here.details["in_parts"]
    found, same = (pq.read_table(name) for name in (out, "here.parquet"))
    assert Counter(map(str, found.to_pylist())) == Counter(map(str, same.to_pylist()))
    matched = matches(found, people)
    assert min(matched.values()) >= 20
    (checked,) = [finding for finding in made.findings if finding.check == "k-map"]
    assert checked.measured["checks"][0].measured["k"] == min(matched.values())

    # Classes of the release came some at a time, and people as a sample and as figures.
    assert travelled.streamed == len(matched) > 32
    values = sum(len(set(people.column(name).to_pylist())) for name in RARELY_OLD["qi"])
    values += 2 * sum(len(set(rows.column(name).to_pylist())) for name in rows.column_names)
    looked = sum(len(source.class_sizes([name]).sizes) + 2 for name in source.columns)
    figures = 2 * 4 + 2 * len(matched) + 20
    assert travelled.answered <= told["sample"] + looked + 2 * values + 200 + figures

    (promised,) = [one for one in made.promises if one.kind == "k-map"]
    more = replace(promised, k=25).check(sf.table(found))  # type: ignore[type-var]
    shown = Counter(zip(*(found.column(n).to_pylist() for n in RARELY_OLD["qi"]), strict=True))
    few = {labels: rows for labels, rows in shown.items() if matched[labels] < 25}
    assert not more.holds
    failing = more.measured["checks"][0]
    assert (failing.failing_classes, failing.failing_rows) == (len(few), sum(few.values()))


@ON_SPARK
def test_a_population_elsewhere_is_sent_to_spark_if_it_is_small(
    kind: str, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, people = population(1200, 1), rarely_old(3000)
    people = people.set_column(2, "sex", people["sex"].dictionary_encode())
    source = Table(opened(rows))
    here = sf.anonymize(sf.table(rows, engine="duckdb"), population=people, **RARELY_OLD)
    sent = sf.anonymize(source, population=people, **RARELY_OLD)
    assert sent.details["in_parts"] == here.details["in_parts"]
    assert (sent.classes, sent.utility) == (here.classes, here.utility)

    text = people.set_column(0, "age", people["age"].cast(pa.string()))
    with pytest.raises(ColumnError, match="`age` is string in the population and int64 in the"):
        sf.anonymize(source, population=text, **RARELY_OLD)
    monkeypatch.setattr(solving, "MOST_SENT", 1000)
    with pytest.raises(ParameterError, match="where the table is at most 1,000 are sent") as told:
        sf.anonymize(source, population=people, **RARELY_OLD)
    assert "in the session that the table is in" in str(told.value)


def far_apart(rows: int = 400) -> pa.Table:
    """Rows of which half are too far from each other to be blurred within a boundary."""
    random = np.random.default_rng(3)
    near = random.integers(0, 10, rows // 2)
    far = 1_000 * np.arange(1, rows // 2 + 1)
    return pa.table({"age": np.concatenate([near, far]), "height": random.integers(0, 99, rows)})


@pytest.mark.parametrize("how", ["mean", "median", "middle", "bounds"])
@pytest.mark.parametrize("method", ["mondrian", "cells"])
def test_parts_of_which_all_rows_are_left_out_show_no_number(
    how: str, method: str, tmp_path: Path
) -> None:
    pq.write_table(far_apart(), tmp_path / "rows.parquet")
    opened = sf.table(tmp_path / "rows.parquet", engine="duckdb")
    asked: dict[str, Any] = {"qi": ["age", "height"], "k": 5, "method": method, "parts": 4}
    asked |= {"numbers_as": how, "boundaries": {"age": {"max_width": 20}}}
    place = tmp_path / "released.parquet"
    made = sf.anonymize(opened, output=place, **asked)
    assert made.details["in_parts"]["parts"] > 1
    assert made.suppressed_rows >= 200
    released = pq.read_table(place)
    assert released.num_rows == 400 - made.suppressed_rows > 0
    shown = [released.column(name).to_pylist() for name in released.column_names]
    assert min(Counter(zip(*shown, strict=True)).values()) >= 5


@pytest.mark.parametrize("how", ["mean", "median", "middle"])
def test_a_number_that_several_parts_show_stands_for_rows_of_all_of_them(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # either half is one class around 5, as no age but 5 has company enough
    ages = np.repeat([4, 5, 6, 2, 5, 8], [90, 230, 90] * 2)
    people = pa.table({"age": ages, "sex": np.repeat(["F", "M"], 410)})
    pq.write_table(people, tmp_path / "people.parquet")
    asked: dict[str, Any] = {"qi": ["age", "sex"], "k": 100, "parts": 2, "numbers_as": how}
    asked["weights"] = {"sex": 5}  # so that parts are cut by it
    whole = sf.anonymize(sf.table(people), **asked)
    opened = sf.table(tmp_path / "people.parquet", engine="duckdb")
    parts = sf.anonymize(opened, output=tmp_path / "released.parquet", **asked)
    assert parts.details["in_parts"]["parts"] == whole.details["in_parts"]["parts"] > 1
    compared = compare(tmp_path / "released.parquet", tmp_path / "people.parquet")
    for name in ("age", "sex"):
        assert parts.utility["columns"][name] == pytest.approx(whole.utility["columns"][name])
        assert parts.utility["columns"][name] == pytest.approx(compared.columns[name])
    for name in ("non_uniform_entropy", "granularity"):
        assert parts.utility[name] == pytest.approx(whole.utility[name])
    monkeypatch.setattr(parting, "MOST_NUMBERS", 0)
    told = sf.anonymize(opened, **asked)
    assert told.utility["columns"]["age"] < parts.utility["columns"]["age"]
    assert any("`age` is counted within each part" in warning for warning in told.warnings)


def test_parts_count_persons_with_their_values_alike_here_and_in_a_database(
    tmp_path: Path,
) -> None:
    """Of a person with several values each counts, so that entropy is not one of persons alone."""
    random = np.random.default_rng(1)
    rows = pa.table(
        {
            "id": random.integers(0, 1_000, 3_000),
            "age": random.integers(0, 95, 3_000),
            "zip": random.integers(0, 400, 3_000),
            "illness": random.choice(12, 3_000, p=np.arange(12, 0, -1) / 78),
        }
    )
    pq.write_table(rows, tmp_path / "rows.parquet")
    asked: dict[str, Any] = {"qi": ["age", "zip"], "k": 9, "person": "id", "parts": 3}
    asked |= {"sensitive": ["illness"], "l": 2, "l_kind": "entropy"}
    made = [
        sf.anonymize(sf.table(tmp_path / "rows.parquet", engine=engine), **asked)
        for engine in ("memory", "duckdb")
    ]
    assert [one.details["in_parts"]["parts"] for one in made] == [3, 3]
    assert made[0].classes == made[1].classes


def test_there_are_more_parts_than_asked_for_where_larger_ones_would_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(2)
    columns = {name: random.integers(0, 500, 4_000) for name in ("age", "zip")}
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    monkeypatch.setattr(solving, "PART_ROWS", 1_000)
    opened = sf.table(tmp_path / "rows.parquet", engine="duckdb")
    asked: dict[str, Any] = {"qi": ["age", "zip"], "k": 5, "parts": 2}
    assert sf.anonymize(opened, **asked).details["in_parts"]["parts"] == 2
    told = sf.anonymize(opened, **asked, budget=sf.Budget(memory=400 << 20)).details["in_parts"]
    assert told["parts"] == 4
    assert told["rows"][1] <= 1_100
