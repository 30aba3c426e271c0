"""Fingerprints: equal for equal rows in any order, different for any difference."""

from __future__ import annotations

import datetime as dt
import hashlib
import itertools
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.engines.protocol import column_of
from sfumato.files import file_fingerprint
from sfumato.tables.source import rows_fingerprint


def fingerprint(table: pa.Table, size: int | None = None) -> str:
    schema = [column_of(field.name, field.type) for field in table.schema]
    return rows_fingerprint(schema, table.to_batches(max_chunksize=size))


TABLE = pa.table(
    {
        "i": [1, -1, None, 2**62],
        "f": [0.5, math.nan, None, -0.0],
        "s": ["", "a", None, "a string longer than eight bytes"],
        "d": [dt.date(2020, 1, 1), None, dt.date(1, 1, 1), dt.date(1970, 1, 1)],
        "b": [True, False, None, True],
        "x": [Decimal("1.50"), None, Decimal("-2.25"), Decimal("0.00")],
        "y": [b"\x00", b"", None, b"\x00\x00"],
    }
)


def test_the_same_in_every_process_and_version():
    assert fingerprint(TABLE) == (
        "rows:acc6dc8151bf510859fe521734a05ccee147f9ac76a405e3f096b011c2306cf8"
    )


@given(st.permutations(range(4)), st.integers(1, 4))
def test_order_and_batches_do_not_matter(order, size):
    assert fingerprint(TABLE.take(pa.array(order)), size) == fingerprint(TABLE)


def test_encodings_do_not_matter():
    encoded = [
        column.dictionary_encode() if name in ("i", "s", "d") else column
        for name, column in zip(TABLE.schema.names, TABLE.columns, strict=True)
    ]
    assert fingerprint(pa.table(encoded, names=TABLE.schema.names)) == fingerprint(TABLE)
    wide = TABLE.set_column(2, "s", TABLE.column("s").cast(pa.large_string()))
    assert fingerprint(wide) == fingerprint(TABLE)
    hidden = pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["x", None]))
    assert fingerprint(pa.table({"a": hidden})) == fingerprint(pa.table({"a": ["x", None, None]}))


def test_equal_values_hash_alike():
    zeros = pa.table({"f": [0.0, math.nan]})
    other = np.array([-0.0, np.uint64(0xFFF8000000000001).view(np.float64)])
    assert fingerprint(pa.table({"f": other})) == fingerprint(zeros)


def test_every_cell_matters():
    seen = {fingerprint(TABLE)}
    for at, name in itertools.product(range(4), TABLE.schema.names):
        values = TABLE.column(name).to_pylist()
        values[at] = next(v for v in TABLE.column(name).to_pylist() if v != values[at])
        index = TABLE.schema.names.index(name)
        changed = pa.array(values, TABLE.schema.field(name).type)
        seen.add(fingerprint(TABLE.set_column(index, name, changed)))
    assert len(seen) == 1 + 4 * len(TABLE.schema.names)


def test_names_rows_and_repetition_matter():
    some = [
        pa.table({"a": [1]}), pa.table({"b": [1]}), pa.table({"a": [1, 1]}), pa.table({"a": ["1"]}),
        pa.table({"a": [1, 1, 1]}), pa.table({"a": pa.array([], pa.int64())}),
        pa.table({"a": [1], "b": [2]}), pa.table({"a": [2], "b": [1]}),
        pa.table({"b": [2], "a": [1]}),
    ]  # fmt: skip
    assert len({fingerprint(table) for table in some}) == len(some)


@settings(max_examples=50)
@given(st.lists(st.binary(max_size=20), unique=True, min_size=2, max_size=200))
def test_texts_that_differ_hash_differently(values):
    prints = {fingerprint(pa.table({"a": [value]})) for value in values}
    assert len(prints) == len(values)


def test_slices_hash_like_copies():
    long = pa.table({"s": [f"row {i}" for i in range(1000)]})
    part = long.slice(300, 400)
    assert fingerprint(part) == fingerprint(pa.table({"s": part.column("s").to_pylist()}))


def test_files(tmp_path):
    (tmp_path / "x").write_bytes(b"abc")
    assert file_fingerprint(tmp_path / "x") == "sha256:" + hashlib.sha256(b"abc").hexdigest()


def test_hashes_of_neighbours_collide_no_more_than_chance():
    from sfumato.tables.source import _cell_hashes

    for column in (pa.array(range(100_000)), pa.array([str(i) for i in range(100_000)])):
        for half in _cell_hashes(column):
            assert len(np.unique(half)) == 100_000
            assert len(np.unique(half >> np.uint64(32))) > 99_990
