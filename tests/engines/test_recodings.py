"""A recoding applied by every engine gives what plain Python gives."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.memory import MemoryEngine
from sfumato.engines.protocol import Codes, Engine
from sfumato.engines.recoding import Cells, Recoding, Step
from sfumato.errors import EngineError, ParameterError
from sfumato.tables import Table
from sfumato.tables.columnar import ArrowSource
from zoo import odd_names, rows_of, zoo

Opener = Callable[[pa.Table], Engine]


@pytest.fixture
def destination(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """Where the engine at hand writes: a file, a table or a folder."""
    if kind == "postgres":
        return f"{request.getfixturevalue('postgres_schema')}.released"
    return str(tmp_path / "released.parquet")


def people() -> pa.Table:
    return pa.table(
        {
            "id": list(range(9)),
            "age": pa.array([20, 20, 20, 30, 30, None, None, 40, 20], pa.int32()),
            "sex": ["F", "F", "F", "M", "", None, None, "F", "M"],
            "weight": [0.0, -0.0, 0.0, float("nan"), float("nan"), None, 1.5, 1.5, 0.0],
        }
    )


def match_of(table: pa.Table, columns: list[str]) -> Codes:
    return MemoryEngine(ArrowSource(table, "people")).classes(columns)


def written(engine: Engine, recoding: Recoding, destination: str) -> pa.Table:
    """What a recoding writes, read back before it has its name."""
    staged = engine.stage(recoding, destination)
    try:
        found = staged.engine()
        batches = list(found.batches())
        schema = pa.schema([(column.name, column.type) for column in found.schema()])
        return pa.Table.from_batches([batch.cast(schema) for batch in batches], schema)
    finally:
        staged.discard()


def same(engine: Engine, found: pa.Table, expected: list[tuple[Any, ...]]) -> bool:
    """Equal rows, in order where the engine has one."""
    if engine.capabilities.ordered:
        return rows_of(found) == expected
    return Counter(rows_of(found)) == Counter(expected)


def test_new_cells_suppressed_rows_dropped_and_new_columns(
    opened: Opener, destination: str
) -> None:
    table = people()
    match = match_of(table, ["age", "sex"])
    labels = pa.array(["young", "old", None, ""])
    chosen = np.arange(match.entries) % 4
    keep = np.arange(match.entries) != 1
    step = Step(
        match,
        {
            "age": Cells(chosen, labels),
            "score": Cells(np.zeros(match.entries, np.int64), pa.array([0.5])),
        },
        keep=keep,
    )
    engine = opened(table)
    found = written(engine, Recoding((step,), drop=("sex",)), destination)
    assert found.column_names == ["id", "age", "weight", "score"]
    entry = {
        key: at
        for at, key in enumerate(
            zip(
                *(
                    v.take(pa.array(a)).to_pylist()
                    for v, a in zip(match.values, match.arrays, strict=True)
                ),
                strict=True,
            )
        )
    }
    expected = []
    for number, age, sex, weight in rows_of(table):
        at = entry[age, sex]
        if keep[at]:
            expected.append((number, labels[int(chosen[at])].as_py(), weight, 0.5))
    assert same(engine, found, expected)
    assert found.schema.field("score").type == pa.float64()


def test_the_order_of_rows_tells_nothing_of_what_was_blurred(
    opened: Opener, destination: str
) -> None:
    """Nor of what was left out: only the source's order or what the release shows decides it."""
    random = np.random.default_rng(4)
    numbers = random.permutation(300).tolist()
    ages = pa.array(random.integers(0, 80, 300), pa.int32())
    told = []
    for order in (np.arange(300), random.permutation(300)):
        hidden = ages.take(pa.array(order))
        secret = [f"s{at:03}" for at in order]
        table = pa.table({"age": hidden, "number": numbers, "secret": secret})
        match = match_of(table, ["age"])
        same = np.zeros(match.entries, np.int64)
        step = Step(match, {"age": Cells(same, pa.array(["*"]))}, first=same, last=match.counts)
        engine = opened(table)
        found = written(engine, Recoding((step,), drop=("secret",)), destination)
        assert Counter(found["number"].to_pylist()) == Counter(numbers)
        told.append(found["number"].to_pylist())
        assert not engine.capabilities.ordered or told[-1] == numbers
    assert told[0] == told[1]


def test_rows_without_an_order_do_not_keep_that_of_a_column_left_out(
    opened: Opener, destination: str
) -> None:
    numbers = np.random.default_rng(4).permutation(300).tolist()
    engine = opened(pa.table({"number": numbers, "secret": [*range(300)]}))
    found = written(engine, Recoding(drop=("secret",)), destination)["number"].to_pylist()
    assert found == (numbers if engine.capabilities.ordered else sorted(numbers))


def test_ordinal_ranges_split_equal_rows(opened: Opener, destination: str) -> None:
    table = people()
    match = match_of(table, ["sex"])
    assert match.counts is not None
    twice = np.repeat(np.arange(match.entries), 2)
    first = np.tile([0, 1], match.entries)
    last = np.where(first == 0, 1, np.repeat(match.counts, 2))
    split = Step(
        Codes(match.columns, tuple(a[twice] for a in match.arrays), match.values),
        {"part": Cells(first, pa.array(["first", "rest"]))},
        first=first,
        last=last,
    )
    engine = opened(table)
    found = written(engine, Recoding((split,)), destination)
    assert Counter(rows_of(found, table.column_names)) == Counter(rows_of(table))
    expected = Counter()
    for sex, count in Counter(table["sex"].to_pylist()).items():
        expected[sex, "first"] += 1
        expected[sex, "rest"] += count - 1
    assert Counter(rows_of(found, ["sex", "part"])) == +expected
    if engine.capabilities.ordered:
        seen: set[Any] = set()
        for sex, part in rows_of(found, ["sex", "part"]):
            assert part == ("rest" if sex in seen else "first")
            seen.add(sex)


def test_several_steps_and_floats_as_keys(opened: Opener, destination: str) -> None:
    table = people()
    weight, age = match_of(table, ["weight"]), match_of(table, ["age"])
    names = [f"w{at}" for at in range(weight.entries)]
    steps = (
        Step(weight, {"weight": Cells(np.arange(weight.entries), pa.array(names))}),
        Step(age, keep=np.array([value.as_py() is not None for value in age.values[0]])),
    )
    engine = opened(table)
    found = written(engine, Recoding(steps, drop=("id", "age")), destination)
    meaning = {
        str(value) if value != value else value: name
        for value, name in zip(weight.values[0].to_pylist(), names, strict=True)
    }
    expected = [
        (sex, meaning["nan" if w == "not a number" else w])
        for _, age_, sex, w in rows_of(table)
        if age_ is not None
    ]
    assert same(engine, found, expected)


def test_zeros_lose_their_sign(opened: Opener, destination: str) -> None:
    """A kept -0.0 beside 0.0 would be two values in the text of the release."""
    zeros = pa.array([0.0, -0.0, None, -1.5])
    table = pa.table({"double": zeros, "single": zeros.cast(pa.float32())})
    released = written(opened(table), Recoding(), destination)
    for name in table.column_names:
        assert released.schema.field(name).type == table.schema.field(name).type
        found = released.column(name).combine_chunks().drop_null().to_numpy()
        assert sorted(found) == [-1.5, 0.0, 0.0]
        assert np.signbit(found).sum() == 1


def test_every_type_survives_a_release(opened: Opener, destination: str) -> None:
    table = zoo()
    engine = opened(table)
    found = written(engine, Recoding(drop=("empty",)), destination)
    assert found.schema.types == table.schema.types[:-1]
    assert same(engine, found, rows_of(table.drop_columns(["empty"])))


def test_every_type_as_key_and_as_cell(opened: Opener, destination: str) -> None:
    table = zoo()
    columns = [name for name in table.column_names if name not in ("id", "empty")]
    match = match_of(table, columns)
    cells = {
        f"new {name}": Cells(codes, values)
        for name, codes, values in zip(columns, match.arrays, match.values, strict=True)
    }
    engine = opened(table)
    found = written(engine, Recoding((Step(match, cells),)), destination)
    for name in columns:
        pairs = zip(rows_of(found, [name]), rows_of(found, [f"new {name}"]), strict=True)
        assert all(old == new for old, new in pairs)
    assert found.num_rows == 12


def test_odd_names_survive_a_release(opened: Opener, destination: str, kind: str) -> None:
    table = odd_names()
    if kind == "spark":  # Parquet as Spark reads it cannot hold both
        table = table.drop_columns(["A"])
    match = match_of(table, ['say "hi"', "group"])
    step = Step(match, {"it's": Cells(np.zeros(match.entries, np.int64), pa.array(["*"]))})
    found = written(opened(table), Recoding((step,), drop=("`tick`",)), destination)
    assert found.column_names == [name for name in table.column_names if name != "`tick`"]
    assert set(found["it's"].to_pylist()) == {"*"}


def test_no_rows(opened: Opener, destination: str) -> None:
    table = people().slice(0, 0)
    match = match_of(table, ["age"])
    step = Step(match, {"age": Cells(np.zeros(0, np.int64), pa.array([], pa.string()))})
    found = written(opened(table), Recoding((step,)), destination)
    assert found.num_rows == 0
    assert found.schema.field("age").type == pa.string()


def test_everything_suppressed(opened: Opener, destination: str) -> None:
    table = people()
    match = match_of(table, [])
    step = Step(match, keep=np.zeros(match.entries, np.bool_))
    assert written(opened(table), Recoding((step,)), destination).num_rows == 0


def test_a_row_that_matches_nothing_is_an_error(opened: Opener, destination: str) -> None:
    table = people()
    match = match_of(table, ["age"]).take(np.arange(2))
    step = Step(match, {"age": Cells(np.zeros(2, np.int64), pa.array(["*"]))})
    with pytest.raises(EngineError, match="match no entry"):
        opened(table).stage(Recoding((step,)), destination)
    assert not Path(destination).exists()
    assert not list(Path(destination).parent.glob("*partial*"))


@pytest.fixture
def published(kind: str, request: pytest.FixtureRequest) -> Callable[[str], pa.Table]:
    """Reads what stands under a name, by other means than ours."""

    def from_postgres(name: str) -> pa.Table:
        with request.getfixturevalue("postgres").connect() as connection:
            cursor = connection.execute(f"SELECT * FROM {name}")
            names = [column.name for column in cursor.description]
            return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in cursor])

    return from_postgres if kind == "postgres" else pq.read_table


def test_commit_names_it_and_discard_leaves_nothing(
    opened: Opener, destination: str, published: Callable[[str], pa.Table]
) -> None:
    engine = opened(people())
    first = engine.stage(Recoding(drop=("id",)), destination)
    first.commit()
    first.discard()
    assert Counter(rows_of(published(destination))) == Counter(
        rows_of(people().drop_columns(["id"]))
    )
    again = engine.stage(Recoding(drop=("age", "sex")), destination)
    with pytest.raises(ParameterError, match="exists already"):
        again.commit()
    assert published(destination).column_names == ["age", "sex", "weight"]
    again.commit(force=True)
    again.discard()
    again.discard()
    assert published(destination).column_names == ["id", "weight"]
    third = engine.stage(Recoding(), destination)
    third.engine().row_count()
    third.discard()
    assert published(destination).column_names == ["id", "weight"]
    leftovers = [path.name for path in Path(destination).parent.glob("*released*")]
    assert leftovers in ([], ["released.parquet"])


def test_embedded_engines_write_the_same_bytes(tmp_path: Path) -> None:
    table = people()
    match = match_of(table, ["age", "sex"])
    step = Step(match, {"age": Cells(np.arange(match.entries) % 2, pa.array(["a", None]))})
    for ending in ("csv", "parquet"):
        written_bytes = []
        for engine in ("memory", "duckdb"):
            path = tmp_path / f"{engine}.{ending}"
            opened = sf.table(table, engine=engine).engine
            opened.stage(Recoding((step,), drop=("id",)), str(path)).commit()
            written_bytes.append(path.read_bytes())
            opened.close()
        assert written_bytes[0] == written_bytes[1]


@pytest.mark.parametrize("parts", [None, 3])
@pytest.mark.parametrize(("k", "shown"), [(20, "range"), (20, "bounds"), (4, "bounds")])
def test_a_certificate_says_of_columns_what_the_release_says(
    opened: Opener,
    destination: str,
    parts: int | None,
    k: int,
    shown: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Out of core, too, a quasi-identifier that nothing had to be blurred of is kept."""
    monkeypatch.chdir(tmp_path)  # the certificate of a table is a file where we are
    random, rows = np.random.default_rng(5), 900
    people = pa.table(
        {
            "row": np.arange(rows),
            "age": random.integers(20, 90, rows),
            "zip": random.integers(0, 9_000, rows),
            "sex": ["f"] * rows,
            "died": [2001] * rows,
            "town": random.choice(["Rome", "Oslo", "Bern"], rows),
        }
    )
    release = sf.anonymize(
        Table(opened(people)), qi=["age", "sex", "died"], k=k, parts=parts,
        columns={"zip": {"round": 100}}, identifiers=["town"], numbers_as={"age": shown},
        rows_are_people=True, output=destination,
    )  # fmt: skip
    (beside,) = tmp_path.glob("*.certificate.json")
    told = json.loads(beside.read_text())["column_actions"]
    done = release.column_actions
    assert (done["sex"], done["died"], done["row"], done["town"]) == (
        "kept", "kept", "kept", "dropped"
    )  # fmt: skip
    ends = shown == "bounds" and done["age"] != "kept"
    gone = {"age", "town"} if ends else {"town"}
    own = {name: "kept" if done[name] == "kept" else "recoded" for name in people.column_names}
    made = {name: "recoded" for name in told if name not in people.column_names}
    assert told == {**own, **made, **dict.fromkeys(gone, "left out")}
    assert bool(made) == ends
