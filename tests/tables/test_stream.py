"""Rows that pass by once: from iterators, standard input, PostgreSQL and Spark."""

from __future__ import annotations

import gzip
import io

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from cli_tools import sfumato
from sfumato.engines.stream import PairReservoir, RowReservoir
from sfumato.errors import EngineError, ParameterError, SourceError
from sfumato.tables.open import stream
from sfumato.tables.text import text_batches


def people(rows: int = 4000, seed: int = 0) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "id": np.arange(rows),
            "age": random.integers(0, 90, rows),
            "sex": random.integers(0, 2, rows),
            "flag": random.random(rows) < 0.01,
        }
    )


def as_csv(table: pa.Table) -> bytes:
    import pyarrow.csv

    sink = io.BytesIO()
    pyarrow.csv.write_csv(table, sink)
    return sink.getvalue()


def batches(table: pa.Table, rows: int = 700):
    return iter(table.to_batches(max_chunksize=rows))


def test_a_key_from_an_iterator_says_that_it_was_not_verified():
    found = sf.minimum_key(batches(people()), eps=0.001)
    assert found.columns == ("id",)
    assert (found.verified, found.measures, found.sample.unit) == (None, None, "pairs")
    assert any("passes only once" in note for note in found.notes)


def test_the_seed_decides_and_the_cut_into_batches_does_not():
    table = people().drop(["id"])
    answers = {
        (seed, rows): sf.minimum_key(batches(table, rows), eps=0.02, beta=0.9, seed=seed)
        for seed in (1, 2)
        for rows in (300, 4000)
    }
    for seed in (1, 2):
        assert answers[seed, 300] == answers[seed, 4000]


def test_a_mask_from_an_iterator_keeps_beta():
    table = people()
    release = sf.mask(batches(table), measure="separation", beta=0.8, sample=5000)
    published = release.details["published"]
    assert "id" not in published
    assert sf.measure(table, list(published)).separation <= 0.8
    assert (release.rows, release.verified, release.table) == (4000, False, None)
    assert "passes only once" in release.warnings[0]


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda s: sf.minimum_key(s, eps=0.1, verify=True), "cannot be verified"),
        (lambda s: sf.minimum_key(s, eps=0.1, measure="distinct"), "length of the stream"),
        (lambda s: sf.mask(s, beta=0.5), "only a sample"),
        (lambda s: sf.mask(s, beta=0.5, sample=2000, output="x.csv"), "second time"),
    ],
)
def test_what_a_stream_cannot_do(ask, words):
    with pytest.raises(ParameterError, match=words):
        ask(batches(people()))


@pytest.mark.parametrize("ask", [sf.minimum_key, sf.minimal_keys, sf.violations, sf.uniques])
def test_exact_answers_are_refused(ask):
    with pytest.raises(EngineError, match="passes only once"):
        ask(batches(people()))


def test_equal_rows_in_a_stream_are_said():
    found = sf.minimum_key(iter([pa.record_batch({"a": [1] * 500})]), eps=0.1)
    assert found.columns == ()
    assert any("are of equal rows" in note for note in found.notes)


def test_a_stream_passes_once():
    opened = stream(batches(people()))
    sf.minimum_key(opened, eps=0.1)
    assert opened.rows == 4000
    with pytest.raises(EngineError, match="passed already"):
        sf.minimum_key(opened, eps=0.1)


def test_distinct_from_a_stream_with_a_sample_of_its_own_size():
    found = sf.minimum_key(batches(people()), eps=0.1, measure="distinct", sample=1000)
    assert found.columns == ("id",)
    assert any("size of the sample was given" in note for note in found.notes)


def test_streams_that_are_none():
    with pytest.raises(SourceError, match="record batches"):
        sf.minimum_key(iter([1, 2]), eps=0.1)
    with pytest.raises(SourceError, match="empty"):
        sf.minimum_key(iter([]), eps=0.1)
    other = [pa.record_batch({"a": [1]}), pa.record_batch({"a": ["x"]})]
    with pytest.raises(SourceError, match="after row 1 has other columns or types"):
        sf.minimum_key(iter(other), eps=0.1)


def test_anything_tabular_as_a_stream():
    assert sf.minimum_key(stream(people(), exclude=["flag"]), eps=0.001).columns == ("id",)
    reader = people().to_reader(max_chunksize=100)
    assert sf.minimum_key(stream(reader, columns=["id", "age"]), eps=0.001).columns == ("id",)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_standard_input_in_one_pass(pack):
    done = sfumato("key", "-", "--eps", "0.001", "--json", stdin=pack(as_csv(people())))
    assert done.json["columns"] == ["id"]
    assert done.json["verified"] is None
    kept = sfumato("key", "-", "--eps", "0.1", "--no-stream", "--json", stdin=as_csv(people()))
    assert kept.json["verified"] is True


def test_a_mask_of_standard_input():
    asked = ("mask", "-", "--measure", "separation", "--beta", "0.8", "--sample", "3000")
    done = sfumato(*asked, "--json", stdin=as_csv(people()))
    assert "id" in done.json["dropped"]
    read = sfumato(*asked, stdin=as_csv(people()))
    assert read.code == 0
    assert "not checked on all rows" in " ".join(read.out.split())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "nothing was piped in"),
        (b"a,b\n1,2\n3\n", "does not fit the header: 1 instead of 2 cells"),
        (b"PK\x03\x04", "an Excel workbook is damaged"),
        (b"\xff\xff\xff\xff\x10\x00\x00\x00", "damaged or incomplete"),
    ],
)
def test_bad_standard_input(text, words):
    done = sfumato("key", "-", "--eps", "0.1", stdin=text)
    assert done.code == 2
    assert words in " ".join(done.err.split())


def test_arrow_and_parquet_on_standard_input():
    import pyarrow.parquet as pq

    sink, parquet = io.BytesIO(), io.BytesIO()
    with pa.ipc.new_stream(sink, people().schema) as writer:
        writer.write_table(people())
    pq.write_table(people(), parquet)
    for piped in (sink, parquet):
        done = sfumato("key", "-", "--eps", "0.001", "--json", stdin=piped.getvalue())
        assert done.json["columns"] == ["id"]


def test_text_keeps_nulls_and_quotes_apart():
    text = b'a;b\n1;""\n;"x\ny"\nNA;\n'
    (_, batch) = text_batches(io.BytesIO(text), "text", null_values=["NA"])
    assert batch.to_pydict() == {"a": ["1", None, None], "b": ["", "x\ny", None]}
    latin = list(text_batches(io.BytesIO("n,m\nJosé,é\n".encode("latin-1")), "text"))
    assert latin[-1].to_pydict() == {"n": ["José"], "m": ["é"]}
    assert [b.num_rows for b in text_batches(io.BytesIO(b"a,b\n"), "text")] == [0]
    plain = text_batches(io.BytesIO(b"1\t2\n3\t4\n"), "text", header=False, delimiter="\t")
    assert [b.to_pydict() for b in plain][1] == {"column_1": ["1", "3"], "column_2": ["2", "4"]}


@pytest.mark.parametrize("sizes", [(1, 1), (1, 5, 3), (0, 4), (6,)])
def test_restored_reservoirs_merge_like_those_that_stayed(sizes):
    counts: dict[tuple[int, ...], int] = {}
    total = sum(sizes)
    pairs = 3000
    merged: PairReservoir | None = None
    start = 0
    for part, size in enumerate(sizes):
        made = PairReservoir(pairs, [7, part])
        made.add(pa.record_batch({"x": list(range(start, start + size))}))
        start += size
        if not size:
            continue
        back = PairReservoir.restored(pairs, made.rows_seen, *made.kept(), seed=[8, part])
        merged = back if merged is None else merged.merge(back)
    assert merged is not None
    left, right = merged.pairs()
    for a, b in zip(left["x"].to_pylist(), right["x"].to_pylist(), strict=True):
        assert a != b
        counts[min(a, b), max(a, b)] = counts.get((min(a, b), max(a, b)), 0) + 1
    expected = pairs / (total * (total - 1) / 2)
    chi = sum((count - expected) ** 2 / expected for count in counts.values())
    assert len(counts) == total * (total - 1) // 2
    assert chi < len(counts) + 6 * (2 * len(counts)) ** 0.5 + 6


def test_restored_rows():
    made = RowReservoir(5, [1, 2])
    made.add(pa.record_batch({"x": list(range(100))}))
    back = RowReservoir.restored(5, made.rows_seen, made.sample(), seed=[3])
    other = RowReservoir(5, 4)
    other.add(pa.record_batch({"x": list(range(100, 200))}))
    both = back.merge(other)
    assert both.rows_seen == 200
    assert len(set(both.sample()["x"].to_pylist())) == 5


@pytest.mark.postgres
def test_a_postgres_table_through_a_cursor(postgres, postgres_schema):
    with postgres.connect() as connection:
        connection.execute(
            f"CREATE TABLE {postgres_schema}.people AS "
            "SELECT i AS id, i % 7 AS age FROM generate_series(1, 3000) AS i"
        )
    with stream(f"{postgres.url}#{postgres_schema}.people") as opened:
        assert sf.minimum_key(opened, eps=0.001).columns == ("id",)
        assert opened.rows == 3000


@pytest.mark.spark
def test_spark_partitions_are_streams_that_merge(spark):
    frame = spark.range(2000, numPartitions=3).selectExpr("id", "id % 7 AS age")
    opened = stream(frame)
    assert opened.columns == ("id", "age")
    assert sf.minimum_key(opened, eps=0.001).columns == ("id",)
    assert opened.rows == 2000
    sample = stream(frame).sample(300, seed=1)
    assert len(set(sample["id"].to_pylist())) == 300
    assert sample.equals(stream(frame).sample(300, seed=1))
    everything = stream(frame).sample(5000)
    assert sorted(everything["id"].to_pylist()) == list(range(2000))
