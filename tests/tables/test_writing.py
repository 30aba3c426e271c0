"""Writing beside the final place, and what happens when it goes wrong."""

from __future__ import annotations

import os
import resource
import signal
import stat
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.engines.foreign import FOREIGN
from sfumato.engines.staging import stage_batches
from sfumato.engines.writing import Writer, check_destination, format_of
from sfumato.errors import EngineError, ParameterError, SourceError

PEOPLE = pa.table({"name": ["Ann", "", None], "age": [30, None, 50]})


def stage(destination, table=PEOPLE, **options):
    batches = table.to_batches()
    return stage_batches(batches, table.schema, str(destination), reopen=lambda s: s, **options)


def test_nothing_is_visible_before_commit(tmp_path):
    out = tmp_path / "out.csv"
    staged = stage(out)
    assert not out.exists()
    assert len(list(tmp_path.iterdir())) == 1
    staged.commit()
    assert out.read_bytes() == b'name,age\nAnn,30\n"",\n,50\n'
    assert list(tmp_path.iterdir()) == [out]
    staged.discard()
    staged.discard()
    assert out.exists()


def test_discard_leaves_nothing(tmp_path):
    staged = stage(tmp_path / "out.parquet")
    staged.engine()
    staged.discard()
    staged.discard()
    assert not list(tmp_path.iterdir())


def test_forgotten_output_goes_away(tmp_path):
    staged = stage(tmp_path / "out.parquet")
    assert list(tmp_path.iterdir())
    del staged
    assert not list(tmp_path.iterdir())


def test_existing_file_is_replaced_only_by_force(tmp_path):
    out = tmp_path / "out.csv"
    out.write_text("mine")
    staged = stage(out)
    with pytest.raises(ParameterError, match="exists already"):
        staged.commit()
    assert out.read_text() == "mine"
    staged.commit(force=True)
    assert out.read_text().startswith("name,age")


def test_file_that_appears_meanwhile_is_not_replaced(tmp_path, monkeypatch):
    out = tmp_path / "out.csv"
    staged = stage(out)
    link = os.link

    def late(source, target):
        out.write_text("theirs")
        link(source, target)

    monkeypatch.setattr(os, "link", late)
    with pytest.raises(ParameterError, match="exists already"):
        staged.commit()
    assert out.read_text() == "theirs"


def test_file_system_without_hard_links(tmp_path, monkeypatch):
    def refuse(source, target):
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    stage(tmp_path / "out.csv").commit()
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]
    with pytest.raises(ParameterError, match="exists already"):
        stage(tmp_path / "out.csv").commit()


def test_private_until_committed_then_as_the_user_has_it(tmp_path):
    before = os.umask(0o022)
    try:
        staged = stage(tmp_path / "out.csv")
        assert stat.S_IMODE(staged.target.path.stat().st_mode) == 0o600
        staged.commit()
        assert stat.S_IMODE((tmp_path / "out.csv").stat().st_mode) == 0o644
    finally:
        os.umask(before)


def test_input_is_never_replaced(tmp_path):
    source = tmp_path / "in.csv"
    source.write_text("a\n1\n")
    link = tmp_path / "link.csv"
    link.symlink_to(source)
    for out in (source, link, tmp_path / "." / "in.csv"):
        with pytest.raises(ParameterError, match="the table being read"):
            stage(out, inputs=[source])
    assert source.read_text() == "a\n1\n"


def test_destination_is_checked_first(tmp_path):
    with pytest.raises(ParameterError, match="is a folder"):
        check_destination(str(tmp_path))
    with pytest.raises(ParameterError, match="does not exist"):
        check_destination(str(tmp_path / "no" / "out.csv"))
    (tmp_path / "x.csv").write_text("")
    with pytest.raises(ParameterError, match="exists already"):
        check_destination(str(tmp_path / "x.csv"), force=False)


@contextmanager
def small_disk(size: int):
    """No file can grow beyond a size."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


FOREIGN_ENDINGS = [one.endings[0] for one in FOREIGN.values() if one.write is not None]


@pytest.mark.filterwarnings("ignore:Exception ignored in.*WorksheetWriter")
@pytest.mark.parametrize("format", ["csv", "tsv.gz", "parquet", "arrow", *FOREIGN_ENDINGS])
def test_full_disk(tmp_path, format):
    random = pa.array([os.urandom(12).hex() for _ in range(50_000)])
    full = pytest.raises(EngineError, match=r"writing failed|read back")
    with small_disk(100_000), full as caught:
        staged = stage(tmp_path / f"out.{format}", pa.table({"x": random, "y": random}))
        try:  # what writes transport files does not notice
            list(staged.engine().batches())
        finally:
            staged.discard()
    assert caught.value.exit_code == 3
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_interrupted_while_writing(tmp_path, error):
    def broken():
        yield from PEOPLE.to_batches()
        raise error

    with pytest.raises(error):
        stage_batches(broken(), PEOPLE.schema, str(tmp_path / "o.csv"), reopen=lambda s: s)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("format", ["csv", "csv.gz", "csv.zst", "parquet", "arrow"])
def test_same_rows_same_bytes(tmp_path, format):
    for name in ("a", "b"):
        stage(tmp_path / f"{name}.{format}").commit()
    assert (tmp_path / f"a.{format}").read_bytes() == (tmp_path / f"b.{format}").read_bytes()


@pytest.mark.parametrize("format", ["csv", "csv.gz", "csv.zst", "parquet", "arrow"])
def test_bytes_depend_on_the_rows_and_not_on_how_they_came(tmp_path, format):
    size = 300_000
    table = pa.table({"n": range(size), "s": [f"text {i * i % 1000}" for i in range(size)]})
    encoded = table.set_column(1, "s", table.column("s").dictionary_encode())
    ways = {
        "whole": table.to_batches(),
        "small": table.to_batches(max_chunksize=7001),
        "encoded": encoded.to_batches(max_chunksize=131_072),
    }
    written = {}
    for name, batches in ways.items():
        out = tmp_path / f"{name}.{format}"
        stage_batches(batches, table.schema, str(out), reopen=lambda s: s).commit()
        written[name] = out.read_bytes()
    assert written["whole"] == written["small"] == written["encoded"]


def test_dictionaries_are_written_plainly_and_metadata_is_not_written(tmp_path):
    table = pa.table({"a": pa.array(["x", None, "x"]).dictionary_encode()})
    table = table.replace_schema_metadata({"secret": "history"})
    stage(tmp_path / "out.parquet", table).commit()
    read = pq.read_schema(tmp_path / "out.parquet")
    assert read.field("a").type == pa.string()
    assert not read.metadata


def test_null_behind_a_dictionary_code(tmp_path):
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["x", None]))
    stage(tmp_path / "out.csv", pa.table({"a": array, "b": [1, 2, 3]})).commit()
    assert (tmp_path / "out.csv").read_text() == "a,b\nx,1\n,2\n,3\n"


def test_one_column_marks_null(tmp_path):
    stage(tmp_path / "out.csv", pa.table({"a": ["x", None, "NA", ""]})).commit()
    assert (tmp_path / "out.csv").read_text() == 'a\nx\nNA\n"NA"\n""\n'


def test_binary_has_no_text_form(tmp_path):
    with pytest.raises(ParameterError, match="column `b` holds binary"):
        stage(tmp_path / "out.csv", pa.table({"b": [b"x"]}))
    assert not list(tmp_path.iterdir())


def test_two_columns_of_one_name(tmp_path):
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(SourceError, match="two columns named `a`"):
        stage(tmp_path / "out.csv", table)


def test_formats_by_name():
    assert format_of("x.CSV").kind == "csv"
    assert format_of("x.tsv.zst").compression == "zstd"
    assert format_of("x", "arrow").kind == "arrow"
    for bad in ("x", "x.parqet", "csv", "x.gz", "x.sas7bdat"):
        with pytest.raises(ParameterError, match="cannot tell the format"):
            format_of(bad)
    with pytest.raises(ParameterError, match="compressed inside"):
        format_of("x.parquet.gz")


def test_many_small_batches_make_few_row_groups(tmp_path):
    batch = pa.record_batch({"a": list(range(100))})
    out = tmp_path / "out.parquet"
    stage_batches([batch] * 50, batch.schema, str(out), reopen=lambda s: s).commit()
    assert pq.read_metadata(out).num_row_groups == 1
    assert pq.read_table(out).num_rows == 5000


@pytest.mark.parametrize("rows", [0, 1, 131_072, 131_073, 300_000])
def test_groups_of_rows_are_complete(tmp_path, rows):
    out = tmp_path / "out.parquet"
    stage(out, pa.table({"n": pa.array(range(rows), pa.int64())})).commit()
    assert pq.read_table(out).column("n").to_pylist() == list(range(rows))
    sizes = [pq.read_metadata(out).row_group(i).num_rows
             for i in range(pq.read_metadata(out).num_row_groups)]  # fmt: skip
    assert all(size == 131_072 for size in sizes[:-1])


def test_long_lines_are_read_back(tmp_path):
    table = pa.table({"a": ["x", "y" * (9 << 20), "z"], "b": [1, 2, 3]})
    staged = stage(tmp_path / "o.csv", table)
    read = [row for batch in staged.engine().batches() for row in batch.to_pylist()]
    assert read == table.to_pylist()


def test_what_changed_on_disk_is_noticed(tmp_path):
    staged = stage(tmp_path / "o.csv")
    staged.target.path.write_bytes(staged.target.path.read_bytes().replace(b"name,", b"nome,"))
    with pytest.raises(EngineError, match="cannot be read back"):
        list(staged.engine().batches())


def test_writer_alone(tmp_path):
    with Writer(PEOPLE.schema, str(tmp_path / "o.csv")) as writer:
        for batch in PEOPLE.to_batches():
            writer.write(batch)
        path = writer.finish()
        assert path.read_bytes().startswith(b"name,age")
    writer.discard()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "far",
    [
        pa.array([0, 2**30, None], pa.date32()),
        pa.array([-10_000_000, 0, None], pa.date32()),
        pa.array([0, 2**40, None], pa.timestamp("s")),
        pa.array([0, 2**40, None], pa.timestamp("s", "UTC")),
    ],
)
def test_csv_cannot_carry_far_years(tmp_path, far):
    batch = pa.record_batch({"day": far, "n": [1, 2, 3]})
    with pytest.raises(ParameterError, match="`day` holds dates outside the years 0 to 9999"):
        stage_batches([batch], batch.schema, str(tmp_path / "out.csv"), reopen=lambda s: s)
    assert list(tmp_path.iterdir()) == []


def test_rows_let_go_of_their_engine_when_writing_fails(tmp_path):
    closed = []

    def rows():
        try:
            yield pa.record_batch({"picture": [b"\xff"]})
        finally:
            closed.append(True)

    given = rows()
    with pytest.raises(ParameterError, match="binary"):
        stage_batches(
            given,
            pa.schema([("picture", pa.binary())]),
            str(tmp_path / "out.csv"),
            reopen=lambda s: s,
        )
    assert closed == [True]


def test_a_folder_that_cannot_be_written_to_is_found_out_first(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda place, mode: False)
    with pytest.raises(ParameterError, match=r"the folder cannot be written to\. Choose a folder"):
        check_destination(str(tmp_path / "out.csv"))
    assert list(tmp_path.iterdir()) == []
