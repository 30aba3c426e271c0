"""What is written as text reads back as the same values."""

from __future__ import annotations

import math
import re
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import sfumato as sf
from samples import sample_path
from sfumato.engines.staging import WrittenFile, stage_batches
from sfumato.errors import SourceError

SIGNS = st.text(
    st.one_of(st.sampled_from(list('",;\t|\r\n \'\\N#A0.1"')), st.characters(codec="utf-8")),
    max_size=6,
)
TEXT = st.one_of(
    st.none(), st.sampled_from(["", "NA", "*", "01", "1.0", "null", '"', "\n", "é"]), SIGNS
)
NAMES = SIGNS.filter(lambda name: bool(name.strip()))


@st.composite
def tables(draw, cells=TEXT, most_columns=4):
    """Small tables of text."""
    names = draw(st.lists(NAMES, min_size=1, max_size=most_columns, unique=True))
    size = draw(st.integers(0, 5))
    return {name: draw(st.lists(cells, min_size=size, max_size=size)) for name in names}


def staged(table: pa.Table, folder: str, format: str):
    destination = str(Path(folder, f"out.{format}"))
    return stage_batches(table.to_batches(), table.schema, destination, reopen=lambda s: s)


def whole(batches, schema) -> pa.Table:
    return pa.Table.from_batches([batch.cast(schema) for batch in batches], schema)


@pytest.mark.parametrize("format", ["csv", "tsv", "csv.gz", "tsv.zst", "parquet", "arrow"])
@settings(max_examples=60)
@given(columns=tables())
@example(columns={"a": [None, "", "NA"]})
@example(columns={"\ufeffa": ["\ufeff"]})
def test_reading_with_explicit_settings_gives_the_same_text(format, columns):
    table = pa.table({name: pa.array(cells, pa.string()) for name, cells in columns.items()})
    with tempfile.TemporaryDirectory() as folder:
        out = staged(table, folder, format)
        source = out.engine()
        assert isinstance(source, WrittenFile)
        assert whole(source.batches(), table.schema).to_pydict() == columns
        out.discard()
        assert not list(Path(folder).iterdir())


def partition(values: list) -> list[int]:
    keys = ["nan" if isinstance(v, float) and math.isnan(v) else v for v in values]
    return [keys.index(key) for key in keys]


@settings(max_examples=150)
@given(columns=tables())
@example(columns={"a;b": ["x;y"]})
@example(columns={"0": [], "||": []})
@example(columns={"sep=:": ["x"]})
@example(columns={"a": [None, None]})
@example(columns={"a\x85b": ["\x85", "\u2028"]})
@example(columns={"a": ["x"], "\x08": ["\x1f" * 9]})
def test_reading_by_guesses_keeps_apart_what_differs(columns):
    if any("\x00" in (cell or "") for cells in (columns, *columns.values()) for cell in cells):
        return  # zero bytes look like UTF-16
    table = pa.table({name: pa.array(cells, pa.string()) for name, cells in columns.items()})
    with tempfile.TemporaryDirectory() as folder:
        staged(table, folder, "csv").commit()
        path = Path(folder, "out.csv")
        text = path.read_bytes()
        if len(re.findall(rb"[\x01-\x08\x0e-\x1a\x1c-\x1f]", text)) > max(8, len(text) / 50):
            with pytest.raises(SourceError, match="binary data"):  # few texts look like this
                sf.table(path, engine="memory")
            return
        read = sf.table(path, engine="memory")
        assert read.columns == tuple(columns)
        again = whole(read.batches(), pa.schema([(c.name, c.type) for c in read.schema]))
        for column in read.schema:
            values = again.column(column.name).to_pylist()
            if column.kind == "text":
                assert values == columns[column.name]
            else:
                assert partition(values) == partition(columns[column.name])


TYPES = [
    (pa.int8(), st.integers(-128, 127)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.float64(), st.floats()),
    (pa.float32(), st.floats(width=32)),
    (pa.bool_(), st.booleans()),
    (pa.date32(), st.dates()),
    (pa.timestamp("us"), st.datetimes()),
    (pa.timestamp("ns", "Europe/Berlin"), st.integers(-(10**18), 10**18)),
    (pa.timestamp("s", "UTC"), st.integers(0, 2**31)),
    (pa.time64("us"), st.times()),
    (pa.time32("s"), st.integers(0, 86399)),
    (pa.duration("ms"), st.integers(-(10**12), 10**12)),
    (pa.decimal128(38, 10), st.decimals(-(10**12), 10**12, places=10)),
    (pa.large_string(), SIGNS),
]


@pytest.mark.parametrize("format", ["csv", "tsv.gz", "parquet", "arrow"])
@settings(max_examples=25)
@given(data=st.data())
def test_reading_with_explicit_settings_gives_the_same_values(format, data):
    chosen = data.draw(st.lists(st.sampled_from(range(len(TYPES))), min_size=1, max_size=4))
    size = data.draw(st.integers(0, 4))
    arrays = []
    for at in chosen:
        type_, values = TYPES[at]
        cells = st.lists(st.one_of(st.none(), values), min_size=size, max_size=size)
        arrays.append(pa.array(data.draw(cells), type_))
    table = pa.Table.from_arrays(arrays, names=[f"c{i}" for i in range(len(arrays))])
    with tempfile.TemporaryDirectory() as folder:
        out = staged(table, folder, format)
        read = whole(out.engine().batches(), table.schema)
        out.discard()
    for before, after in zip(table.columns, read.columns, strict=True):
        assert [spelled(v) for v in before.to_pylist()] == [repr(v) for v in after.to_pylist()]


def spelled(value) -> str:
    """How a value reads once it is written; zeros have no sign then."""
    return repr(value + 0.0 if isinstance(value, float) else value)


@pytest.mark.parametrize("name", ["adult", "crx", "pums_oregon_calm_person", "synthea/patients"])
@pytest.mark.parametrize("writer", ["sfumato", "arrow", "pandas"])
def test_real_tables_survive_text(name, writer, tmp_path):
    table = pq.read_table(sample_path(f"{name}.parquet")).slice(0, 1_000)
    out = tmp_path / "out.csv"
    if writer == "sfumato":
        staged(table, str(tmp_path), "csv").commit()
    elif writer == "arrow":
        pa.csv.write_csv(table, out)
    else:
        table.to_pandas().to_csv(out, index=False)
    before, after = sf.table(table, engine="memory"), sf.table(out, engine="memory")
    assert after.columns == before.columns
    assert after.class_sizes() == before.class_sizes()
    for column in before.columns:
        assert after.class_sizes([column]) == before.class_sizes([column])
