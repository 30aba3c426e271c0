"""File formats by name, and names that contradict them."""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.engines import staging, writing
from sfumato.engines.writing import Writer, format_of, marked_as_labels
from sfumato.errors import EngineError, ParameterError


@pytest.mark.parametrize(
    ("path", "named", "kind"),
    [("a.csv", "csv", "csv"), ("a.txt", "csv", "csv"), ("a.csv.gz", "csv.gz", "csv"),
     ("a.dat", "parquet", "parquet"), ("a", "tsv", "tsv"), ("a.parquet", None, "parquet")],
)  # fmt: skip
def test_a_name_and_a_format_that_agree(path, named, kind):
    assert format_of(path, named).kind == kind


@pytest.mark.parametrize(
    ("path", "named"), [("a.csv", "parquet"), ("a.parquet", "csv"), ("a.csv.gz", "arrow")]
)
def test_a_name_and_a_format_that_contradict_each_other(path, named):
    with pytest.raises(ParameterError, match=r"is named .* and would be written as"):
        format_of(path, named)


WHEN = pa.timestamp("ms", "Europe/Berlin")


def _written(schema: pa.Schema, batches: list[pa.RecordBatch], path: Path) -> bytes:
    with Writer(schema, str(path)) as writer:
        for batch in batches:
            writer.write(batch)
        return writer.finish().read_bytes()


@pytest.mark.parametrize("group", [100, 1000])
def test_labels_are_the_same_bytes_however_they_come(tmp_path, monkeypatch, group):
    monkeypatch.setattr(writing, "_GROUP", group)
    random = np.random.default_rng(2)
    codes = pa.array(random.integers(0, 40, 850), mask=random.random(850) < 0.1)
    labels = pa.array([f"[{n}, {n + 1})" if n % 9 else f"{n}é" for n in range(60)])
    plain = labels.take(codes)
    schema = pa.schema([marked_as_labels(pa.field("age", pa.string())), ("n", WHEN)])
    other = pa.array([*reversed(labels.to_pylist()), None])  # null may stand in a dictionary, too
    at = {text: n for n, text in enumerate(other.to_pylist())}
    hidden = pa.array([at[text] for text in plain.to_pylist()], pa.uint8())
    ways = [
        plain,
        plain.dictionary_encode(),
        pa.DictionaryArray.from_arrays(codes.cast(pa.uint16()), labels),
        pa.DictionaryArray.from_arrays(hidden, other),
    ]
    whole = [pa.record_batch({"age": way, "n": np.arange(850).astype("M8[ms]")}) for way in ways]
    cuts = [[0, 850], [0, 7, 333, 334, 850], [*range(0, 850, 50), 850]]
    found = [
        _written(schema, [batch.slice(a, b - a) for a, b in pairwise(cut)], tmp_path / "a.parquet")
        for batch in whole
        for cut in cuts
    ]
    assert set(found) == {found[0]}
    (tmp_path / "read.parquet").write_bytes(found[0])
    read = pq.read_table(tmp_path / "read.parquet")
    assert read.column("age").to_pylist() == plain.to_pylist()
    assert read.schema.equals(pa.schema([("age", pa.string()), ("n", WHEN)]), True)
    of_group = pq.read_metadata(tmp_path / "read.parquet").row_group(0)
    assert [of_group.column(at).is_stats_set for at in range(2)] == [False, True]


@pytest.mark.parametrize("name", ["out.parquet", "out.arrow", "out.csv"])
def test_rows_are_packed_in_a_thread_of_their_own(tmp_path, monkeypatch, name):
    monkeypatch.setattr(writing, "_GROUP", 100)
    threads: dict[str, set[str]] = {"_fitted": set(), "pack": set()}
    for method, seen in threads.items():
        whole = getattr(Writer, method)

        def watched(writer, rows, whole=whole, seen=seen):
            seen.add(threading.current_thread().name)
            return whole(writer, rows)

        monkeypatch.setattr(Writer, method, watched)
    schema = pa.schema([marked_as_labels(pa.field("age", pa.string())), ("n", pa.int64())])
    rows = pa.table({"age": [f"{n % 7}" for n in range(950)], "n": range(950)}, schema)
    written = []
    for cores in (1, 3):
        batches = rows.to_batches(max_chunksize=130)
        with Writer(schema, str(tmp_path / name)) as writer:
            staging._write_all(writer, batches, cores)
            written.append(writer.finish().read_bytes())
        apart = threads["pack"] - threads["_fitted"]
        assert len(apart) == (cores > 1)
    assert written[0] == written[1]


@pytest.mark.parametrize(("most", "groups"), [(1 << 26, staging._READY + 1), (2_000, 3)])
def test_what_can_wait_is_done_while_rows_are_packed(tmp_path, monkeypatch, most, groups):
    monkeypatch.setattr(writing, "_GROUP", 100)
    monkeypatch.setattr(staging, "_READY_BYTES", most)
    may_pack, made, waiting = threading.Event(), [], []
    pack, copied = Writer.pack, writing._copied

    def slow(writer, group):
        assert may_pack.wait(10), "nothing else is done meanwhile"
        pack(writer, group)

    def meanwhile():
        waiting.append(len(made))
        may_pack.set()
        return False

    monkeypatch.setattr(Writer, "pack", slow)
    monkeypatch.setattr(writing, "_copied", lambda group: made.append(1) or copied(group))
    rows = pa.record_batch({"n": range(2_000)})
    with Writer(rows.schema, str(tmp_path / "out.parquet")) as writer:
        staging._write_all(writer, [rows], 2, meanwhile)
        assert pq.read_table(writer.finish()).num_rows == 2_000
    assert waiting[0] == groups  # those that wait, and the one that is packed


def test_no_more_rows_are_packed_after_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "_GROUP", 100)
    tried = []

    def broken(writer, group):
        tried.append(group)
        time.sleep(0.1)  # so that others are waiting by then
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Writer, "_append", broken)
    rows = pa.record_batch({"n": range(2_000)})
    with (
        pytest.raises(EngineError, match="No space left"),
        Writer(rows.schema, str(tmp_path / "out.parquet")) as writer,
    ):
        staging._write_all(writer, [rows], 2, lambda: False)
    assert len(tried) <= 2  # the second may have begun
    assert list(tmp_path.iterdir()) == []


def test_long_texts_of_a_dictionary_are_written_out_some_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "_GROUP_TEXT", 10_000)
    texts = pa.array(["a" * 1_000, "b", None, "c" * 3_000])
    indices = pa.array([*([0] * 20), *([1] * 20), None, *([2, 3] * 10)], pa.int8())
    rows = pa.record_batch({"t": pa.DictionaryArray.from_arrays(indices, texts)})
    plain = pa.record_batch({"t": rows.column(0).cast(pa.string())})
    sizes, fitted = [], Writer._fitted
    monkeypatch.setattr(
        Writer, "_fitted", lambda w, b: sizes.append((made := fitted(w, b)).nbytes) or made
    )
    found = [
        _written(plain.schema, [batch.slice(0, 0), batch], tmp_path / "a.parquet")
        for batch in (rows, plain)
    ]
    assert found[0] == found[1]
    assert len(sizes) == 6  # the plain rows came at once
    assert max(sizes[:-1]) < 10_000 + 3_000 + 500


def test_long_texts_make_groups_of_fewer_rows_wherever_batches_end(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "_GROUP", 200)
    monkeypatch.setattr(writing, "_GROUP_TEXT", 5_000)
    lengths = [*[1] * 450, *np.random.default_rng(1).integers(0, 300, 300).tolist()]
    rows = pa.record_batch({"text": pa.array(["x" * n if n else None for n in lengths])})
    found = [
        _written(
            rows.schema, [rows.slice(a, b - a) for a, b in pairwise(cut)], tmp_path / "a.parquet"
        )
        for cut in ([0, 750], [0, 3, 500, 511, 750], [*range(0, 751, 10)])
    ]
    assert set(found) == {found[0]}
    (tmp_path / "read.parquet").write_bytes(found[0])
    file = pq.ParquetFile(tmp_path / "read.parquet")
    groups = [file.read_row_group(at).column(0) for at in range(file.num_row_groups)]
    assert [cell for group in groups for cell in group.to_pylist()] == rows.column(0).to_pylist()
    sizes = [sum(len(text or "") for text in group.to_pylist()) for group in groups]
    assert [len(group) for group in groups][:2] == [200, 200]
    assert max(sizes) < 5_300
    assert len(groups) > 8
