"""Every question on every engine: the same table, the same answers."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from samples import sample_path
from sfumato.engines.memory import MemoryEngine
from sfumato.engines.protocol import Engine, asks_sql, column_of
from sfumato.errors import EngineError
from sfumato.tables.columnar import ArrowSource
from zoo import classes_of, comparable, decoded, odd_names, rows_of, zoo

Opener = Callable[[pa.Table], Engine]

SETS = [
    [],
    ["double"],
    ["single"],
    ["text", "yes"],
    ["moment", "local"],
    ["small", "big", "price"],
    ["huge", "birth", "blob"],
    ["empty", "yes"],
]


def test_schema_and_row_count(opened: Opener) -> None:
    table = zoo()
    engine = opened(table)
    assert [(c.name, c.kind) for c in engine.schema()] == [
        (field.name, column_of(field.name, field.type).kind) for field in table.schema
    ]
    assert engine.row_count() == 12


def test_types_travel_unchanged(opened: Opener) -> None:
    table = zoo()
    engine = opened(table)
    assert [c.type for c in engine.schema()] == table.schema.types
    assert engine.sample(3).schema.types == table.schema.types


@pytest.mark.parametrize("column", zoo().column_names)
def test_values_of_every_type(opened: Opener, column: str) -> None:
    table = zoo().select([column])
    found = opened(table).values(column)
    assert found.values[0].type == table.schema.field(0).type
    assert decoded(found) == classes_of(table, [column])


def test_class_sizes_and_classes_of_column_sets(opened: Opener) -> None:
    table = zoo()
    engine, memory = opened(table), MemoryEngine(ArrowSource(table, "people"))
    for columns in [*SETS, table.column_names]:
        expected = classes_of(table, columns)
        assert engine.class_sizes(columns).to_dict() == Counter(expected.values())
        found, reference = engine.classes(columns), memory.classes(columns)
        assert decoded(found) == expected
        assert [a.tolist() for a in found.arrays] == [a.tolist() for a in reference.arrays]
        assert [a.dtype for a in found.arrays] == [a.dtype for a in reference.arrays]
        assert [[comparable(value) for value in values.to_pylist()] for values in found.values] == [
            [comparable(value) for value in values.to_pylist()] for values in reference.values
        ]


def test_texts_are_measured_in_bytes(opened: Opener) -> None:
    engine = opened(pa.table({"a": ["é", None, "four", ""], "b": [1, 2, 3, 4]}))
    # the others hold codes, and no texts
    assert not asks_sql(engine) or engine.text_bytes(["a", "b"]) == {"a": (2 + 4) / 4}


def test_sums_of_hashes_tell_rows_that_exchange_a_cell(opened: Opener) -> None:
    texts = [f"text {at}" for at in range(16)]
    exchanged = {  # the cells of `b`, two of them exchanged
        f"b{at}": [*texts[:at], *texts[at : at + 2][::-1], *texts[at + 2 :]] for at in range(7)
    }
    engine = opened(pa.table({"a": range(16), "b": texts, **exchanged, "c": range(15, -1, -1)}))
    if asks_sql(engine):
        sums = [engine.hash_sums(["a", name]) for name in ("b", *exchanged)]
        assert len(set(sums)) == 8
        assert engine.hash_sums(["a", "a"]) == engine.hash_sums(["c", "c"])


def test_null_cells_are_counted(opened: Opener) -> None:
    engine = opened(pa.table({"age": [1, None, 2, None], "sex": ["F", None, "", "M"]}))
    assert engine.null_counts(["age", "sex"]) == {"age": 2, "sex": 1}


def test_a_limit_on_classes(opened: Opener) -> None:
    engine = opened(pa.table({"age": [1, 2, 2, None], "sex": ["F", "M", "M", "M"]}))
    assert engine.classes(["age", "sex"], limit=3).entries == 3
    with pytest.raises(EngineError, match="more than"):
        engine.classes(["age", "sex"], limit=2)
    with pytest.raises(EngineError, match="more than"):
        engine.values("age", limit=2)


def test_odd_column_names(opened: Opener) -> None:
    table = odd_names()
    engine = opened(table)
    assert [column.name for column in engine.schema()] == table.column_names
    names = ["order", 'say "hi"', "A", "count", "c0", "semi;colon --"]
    assert decoded(engine.classes(names)) == classes_of(table, names)
    assert engine.class_sizes(table.column_names).to_dict() == {1: 2, 2: 1}
    assert Counter(rows_of(engine.sample(9))) == Counter(rows_of(table))


def test_duplicate_rows(opened: Opener) -> None:
    table = pa.table({"age": [1, 1, None, None, None, 2], "sex": ["F", "F", None, None, None, ""]})
    engine = opened(table)
    assert engine.class_sizes(["age", "sex"]).to_dict() == {1: 1, 2: 1, 3: 1}
    assert Counter(rows_of(engine.sample(6))) == Counter(rows_of(table))


def test_no_rows(opened: Opener) -> None:
    table = zoo().slice(0, 0)
    engine = opened(table)
    assert engine.row_count() == 0
    for columns in ([], ["double"], table.column_names):
        assert engine.class_sizes(columns).to_dict() == {}
        assert engine.classes(columns).entries == 0
    assert engine.sample(5).num_rows == 0
    assert engine.sample(5).schema.types == table.schema.types
    assert sum(batch.num_rows for batch in engine.batches()) == 0


def test_one_row(opened: Opener) -> None:
    table = zoo().slice(3, 1)
    engine = opened(table)
    for columns in ([], ["double"], table.column_names):
        assert engine.class_sizes(columns).to_dict() == {1: 1}
        assert decoded(engine.classes(columns)) == classes_of(table, columns)
    assert rows_of(engine.sample(1)) == rows_of(table)


def test_three_hundred_columns(opened: Opener) -> None:
    names = [f"column {at}" for at in range(300)]
    table = pa.table({name: [at % 7, at % 7, at % 3] for at, name in enumerate(names)})
    engine = opened(table)
    assert len(engine.schema()) == 300
    assert engine.class_sizes(names).to_dict() == Counter(classes_of(table, names).values())
    assert decoded(engine.classes(names)) == classes_of(table, names)
    assert engine.fingerprint() == engine.fingerprint()


def test_samples(opened: Opener) -> None:
    table = pa.table({"id": list(range(200)), "odd": [at % 2 == 1 for at in range(200)]})
    engine = opened(table)
    drawn = engine.sample(40, ["odd", "id"], seed=7)
    assert drawn.column_names == ["odd", "id"]
    found = drawn.column("id").to_pylist()
    assert len(set(found)) == 40
    assert set(found) <= set(range(200))
    assert drawn.column("odd").to_pylist() == [at % 2 == 1 for at in found]
    assert engine.sample(40, ["id"], seed=7).column("id").to_pylist() == found
    assert engine.sample(40, ["id"], seed=8).column("id").to_pylist() != found
    assert sorted(engine.sample(500, ["id"]).column("id").to_pylist()) == list(range(200))
    assert engine.sample(0, ["id"]).num_rows == 0


def test_ordered_engines_draw_the_same_sample(opened: Opener) -> None:
    table = zoo()
    engine, memory = opened(table), MemoryEngine(ArrowSource(table, "people"))
    if engine.capabilities.ordered:
        assert rows_of(engine.sample(5, seed=3)) == rows_of(memory.sample(5, seed=3))
    else:
        assert engine.capabilities.remote


def test_batches(opened: Opener) -> None:
    table = zoo()
    engine = opened(table)
    batches = list(engine.batches(["text", "double", "moment", "blob", "id"], rows=5))
    assert all(0 < batch.num_rows <= 5 for batch in batches)
    assert batches[0].schema.names == ["text", "double", "moment", "blob", "id"]
    found = pa.Table.from_batches(batches)
    assert Counter(rows_of(found)) == Counter(rows_of(table, found.column_names))
    whole = pa.Table.from_batches(list(engine.batches()))
    assert Counter(rows_of(whole)) == Counter(rows_of(table))


def test_questions_between_batches(opened: Opener) -> None:
    table = zoo()
    engine = opened(table)
    seen = 0
    for batch in engine.batches(["id"], rows=4):
        seen += batch.num_rows
        assert engine.class_sizes(["yes"]).to_dict() == {4: 3}
    assert seen == 12


def test_fingerprint_knows_rows_not_their_order(opened: Opener) -> None:
    table = zoo()
    shuffled = table.take([3, 1, 2, 0, *range(4, 12)])
    changed = table.set_column(11, "text", pa.array(["x", *table["text"].to_pylist()[1:]]))
    print_of = opened(table).fingerprint()
    assert opened(shuffled).fingerprint() == print_of
    assert opened(changed).fingerprint() != print_of
    assert opened(table.slice(1)).fingerprint() != print_of
    renamed = table.rename_columns(["key", *table.column_names[1:]])
    assert opened(renamed).fingerprint() != print_of


def test_a_fingerprint_knows_which_row_and_column_a_cell_is_in(opened: Opener) -> None:
    rows = [("a", "b", 1), ("a", "c", 2), ("", "b", 2), ("a,b", "c", 1), (None, '"', None)]

    def print_of(changes: dict[int, tuple[object, ...]]) -> str:
        cells = zip(*(changes.get(at, row) for at, row in enumerate(rows)), strict=True)
        types = (pa.string(), pa.string(), pa.int64())
        columns = [pa.array(column, type_) for column, type_ in zip(cells, types, strict=True)]
        return opened(pa.table(columns, names=["left", "right", "number"])).fingerprint()

    changed = (
        {0: ("b", "a", 1)},  # cells change columns
        {0: ("", "b", 1), 2: ("a", "b", 2)},  # and rows
        {0: ("a", "b", 2), 1: ("a", "c", 1)},
        {2: (None, "b", 2)},
        {2: ("-", "b", 2)},
        {3: ("a", "b,c", 1)},
        {4: ("", '"', None)},
        {4: (None, '""', None)},
        {4: (None, '"', 0)},
        {1: ("a", "b", 1)},  # a row comes twice, another one goes
    )
    assert print_of({0: rows[1], 1: rows[0]}) == print_of({})
    assert len({print_of(change) for change in ({}, *changed)}) == len(changed) + 1


def test_a_fingerprint_knows_every_bit_of_a_number(opened: Opener) -> None:
    def print_of(number: int) -> str:
        apart = pa.array([number], pa.int64())
        since = pa.array([number + 946_684_800_000_000], pa.int64())  # where years begin with 2000
        return opened(
            pa.table({"number": apart, "at": since.cast(pa.timestamp("us"))})
        ).fingerprint()

    assert len({print_of(number) for number in (1, 1 << 32, 3 << 32 | 2)}) == 3


def test_adult_measures_are_the_same(opened: Opener) -> None:
    _same_measures(opened, column_sets=6, rows=3_000)


@pytest.mark.slow
def test_adult_measures_are_the_same_for_many_sets(opened: Opener) -> None:
    _same_measures(opened, column_sets=200, rows=None)


def _same_measures(opened: Opener, column_sets: int, rows: int | None) -> None:
    table = pq.read_table(sample_path("adult.parquet")).slice(0, rows)
    engine, memory = opened(table), MemoryEngine(ArrowSource(table, "adult"))
    choice = random.Random(1994)
    for _ in range(column_sets):
        columns = choice.sample(table.column_names, choice.randint(1, 15))
        found, expected = engine.class_sizes(columns), memory.class_sizes(columns)
        assert found == expected
        assert found.exact_separation == expected.exact_separation
