"""CSV and its relatives: layouts, encodings, and everything that can be wrong with them."""

from __future__ import annotations

import bz2
import gzip
import io
from pathlib import Path

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.engines.staging import WrittenFile
from sfumato.engines.writing import format_of
from sfumato.errors import ColumnError, InputError, ParameterError, SourceError
from sfumato.tables.open import stream
from sfumato.tables.text import TextFile


def rows(source, **options) -> list[dict]:
    """All rows of a table, read by the engine in memory."""
    with sf.table(source, engine="memory", **options) as opened:
        return pa.Table.from_batches(list(opened.batches())).to_pylist()


@pytest.fixture
def file(tmp_path):
    """Write bytes or text to a file and give its path."""

    def write(content: bytes | str, name: str = "people.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


PEOPLE = [{"name": "José", "age": 40}, {"name": "Zoë", "age": 30}]


def test_columns_are_declared_once(file):
    """Each of thousands is asked for by its name, and all of them are looked through for it."""
    path = file("name,age\nJosé,40\n")
    text = TextFile(path, "people.csv")
    schema = pa.schema([(column.name, column.type) for column in text.schema()])
    for source in (text, WrittenFile(path, format_of("a.csv", None), schema, "a.csv")):
        assert source.schema() is source.schema()


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_delimiters_and_line_ends(file, delimiter, end):
    lines = ["name,age", "José,40", "Zoë,30"]
    content = end.join(line.replace(",", delimiter) for line in lines) + end
    assert rows(file(content)) == PEOPLE


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252",
                 "latin-1"]
)  # fmt: skip
def test_encodings_are_recognised(file, encoding):
    assert rows(file("name,age\nJosé,40\nZoë,30\n".encode(encoding))) == PEOPLE


@pytest.mark.parametrize("cell", ["Анна", "Ελένη", "ليلى", "e\u0301"])
def test_letters_whose_halves_are_control_characters_are_text(file, monkeypatch, cell):
    text = f"имя,age\n{cell},40\n" + f"{cell},30\n" * 20
    assert rows(file(text.encode("utf-16")))[0] == {"имя": cell, "age": 40}
    bare = file(text.encode("utf-16-be"))
    assert rows(bare, encoding="utf-16-be")[0] == {"имя": cell, "age": 40}
    packed = file(gzip.compress(text.encode("utf-16-be")))
    assert rows(packed, encoding="utf-16-be")[0] == {"имя": cell, "age": 40}
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode("utf-16-be"))))
    assert stream("-", encoding="utf-16-be").columns == ("имя", "age")


@pytest.mark.parametrize("word", ["à", "à la carte", "Österreich", "5 €", "“quoted”", "É."])
def test_western_text_is_recognised_without_utf_8(file, word):
    path = file(f"name,n\nChalon-sur-Saône,1\n{word},2\n".encode("cp1252"))
    assert rows(path)[1] == {"name": word, "n": 2}


def test_encodings_can_be_given(file):
    path = file("name,age\nŁódź,40\n".encode("cp1250"))
    assert rows(path, encoding="cp1250") == [{"name": "Łódź", "age": 40}]
    with pytest.raises(ParameterError, match="no encoding `klingon`"):
        sf.table(path, encoding="klingon")


@pytest.mark.parametrize("encoding", ["rot13", "base64", "idna", "utf-16", "utf-32", "undefined"])
def test_codecs_that_do_not_read_the_file_are_refused(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "people.csv"
    path.write_text("name,age\nAnna,40\n" * 99)
    with pytest.raises(InputError, match="encoding"):
        sf.table(path, encoding=encoding).rows


@pytest.mark.parametrize(
    ("name", "packed"),
    [
        ("people.csv.gz", gzip.compress),
        ("people.csv.bz2", bz2.compress),
        ("people.csv.zst", lambda b: pa.compress(b, codec="zstd", asbytes=True)),
        ("people.csv", gzip.compress),  # the bytes decide, not the name
    ],
)
def test_compressed_files(file, name, packed):
    assert rows(file(packed("name,age\nJosé,40\nZoë,30\n".encode()), name)) == PEOPLE


def test_quotes_hold_delimiters_quotes_and_line_ends(file):
    content = 'a,"b\nc"\n"x, ""y""","1\r\n2"\n,""\n'
    assert rows(file(content)) == [{"a": 'x, "y"', "b\nc": "1\r\n2"}, {"a": None, "b\nc": ""}]


def test_empty_cell_is_null_and_quoted_empty_cell_is_not(file):
    assert rows(file('a,b\n,""\n"",\nx,y\n')) == [
        {"a": None, "b": ""}, {"a": "", "b": None}, {"a": "x", "b": "y"}
    ]  # fmt: skip


def test_blank_lines_are_no_rows(file):
    assert rows(file("\n\na,b\n\n1,2\n\n")) == [{"a": 1, "b": 2}]


def test_one_column(file):
    assert rows(file('a\nx\nNA\n"NA"\n""\n')) == [
        {"a": "x"}, {"a": None}, {"a": "NA"}, {"a": ""}
    ]  # fmt: skip


def test_header_only_is_a_table_without_rows(file):
    for content in ("a,b", "a,b\n", "a,b\r\n\r\n"):
        opened = sf.table(file(content))
        assert opened.columns == ("a", "b")
        assert opened.rows == 0


def test_no_header(file):
    assert rows(file("1,x\n2,y\n"), header=False) == [
        {"column_1": 1, "column_2": "x"}, {"column_1": 2, "column_2": "y"}
    ]  # fmt: skip


def test_zip_codes_keep_their_zeros(file):
    assert rows(file("zip,n\n02139,1\n94103,2\n"))[0] == {"zip": "02139", "n": 1}


def test_a_late_cell_decides_the_type(file):
    content = "n\n" + "1\n" * 200_000 + "x\n"
    opened = sf.table(file(content))
    assert opened.column("n").kind == "text"
    assert opened.values("n").counts.tolist() == [200_000, 1]


def test_a_late_cell_makes_numbers_floats_or_text(file):
    numbers = "1\n" * 400_000
    for late, kind in (("1.5", "float"), ("1.0", "text"), ("12345678901234567890", "decimal")):
        opened = sf.table(file(f"n,m\n{numbers}{late}\n".replace("\n", ",0\n").replace("m,0", "m")))
        assert opened.column("n").kind == kind
        assert opened.column("m").kind == "integer"
        assert opened.class_sizes(["n"]).to_dict() == {400_000: 1, 1: 1}


def test_null_values(file):
    path = file('a,b\n-,1\nx,"-"\n')
    assert rows(path, null_values=["-"]) == [{"a": None, "b": 1}, {"a": "x", "b": None}]


def test_delimiter_given(file):
    path = file("a:b\n1:2\n")
    assert rows(path) == [{"a:b": "1:2"}]
    assert rows(path, delimiter=":") == [{"a": 1, "b": 2}]
    for wrong in ("::", "", '"', "§"):
        with pytest.raises(ParameterError, match="one ASCII character"):
            sf.table(path, delimiter=wrong)
    with pytest.raises(ParameterError, match="one ASCII character"):
        sf.table(file("sep=§\na§b\n1§2\n"))


def test_columns_are_chosen_before_anything_is_refused(file):
    path = file("a,,a,b\n1,2,3,4\n")
    assert rows(path, columns=["b"]) == [{"b": 4}]
    assert rows(path, exclude=["", "a"]) == [{"b": 4}]


def test_a_line_longer_than_a_block(file):
    long = "x" * (9 << 20)
    assert rows(file(f"a,b\n1,{long}\n2,y\n"))[0]["b"] == long


def test_zero_bytes_are_characters(file):
    assert rows(file('"a\0",b\n1,x\0y\n2,\0\n')) == [
        {"a\0": 1, "b": "x\0y"}, {"a\0": 2, "b": "\0"}
    ]  # fmt: skip


def test_undecodable_header(file):
    refused(SourceError, "offset 2 is not utf-8", file(b"a,\x81b\n1,2\n"))
    refused(SourceError, r'e\.g\. encoding="cp1252" or latin-1\.$', file(b"a,\x81b\n1,2\n"))


def test_blank_lines_beyond_the_first_look(file):
    opened = sf.table(file("a,b\n" + "\n" * (3 << 20)))
    assert opened.rows == 0


def test_three_hundred_columns(file):
    names = [f"c{i}" for i in range(300)]
    content = ",".join(names) + "\n" + ",".join(map(str, range(300))) + "\n"
    assert rows(file(content)) == [{name: i for i, name in enumerate(names)}]


def test_rows_keep_their_order_on_every_reading(file):
    path = file("n,m\n" + "".join(f"{i},{i % 7}\n" for i in range(300_000)))
    source = TextFile(path, "people.csv")
    for _ in range(4):  # at last from the spool
        read = [n for batch in source.batches(["n"]) for n in batch.column("n").to_pylist()]
        assert read == list(range(300_000))
    assert source._copied is not None
    source.close()


def refused(error, words, source, **options):
    with pytest.raises(error, match=words) as caught:
        rows(source, **options)
    assert str(source) in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "content", [b"", b"\n\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n", b"  \n", b"sep=;\n"]
)
def test_empty_file(file, content):
    refused(SourceError, "the file is empty", file(content))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a,b\n1,2\n3,4,5\n6,7\n", "line 3 has 3 cells, the header has 2"),
        ("a,b\n1,2\n3\n", "line 3 has 1 cell, the header has 2"),
        ('a,b\n"1\n1",2\n\n3,4,5\n', "line 5 has 3 cells, the header has 2"),
        ('a,b\n1,2\n3,"x\n4,5\n6,7\n', "a quote opens in line 3 and is never closed"),
        ('\n\na,"b\n1,2\n3,4\n', "a quote opens in line 3 and is never closed"),
        ("Report of 2024\nname,age\nAnn,3\n", "line 2 has 2 cells, the header has 1"),
        ("sep=;\na;b;c\n1;2;3;4\n", "line 3 has 4 cells, the header has 3"),
        ('a,b,c\n1,"x,2\n3,4,5\n', "a quote opens in line 2 and is never closed"),
        ('a,b\n"1""2\n', "a quote opens in line 2 and is never closed"),
        ("Report of 2024\nname;age\nAnn;3\n", "line 2 has 2 cells, the header has 1"),
        ("Report of 2024\nname\tage\nAnn\t3\n", "line 2 has 2 cells, the header has 1"),
        ('id,text\n1,"a"\n2,"b\n3,"c"\n', "begins in line 3 a cell goes on behind its closing"),
        ('a,b\n1,"x\\"y"\n', "begins in line 2 a cell goes on behind its closing"),
        ('sep=,\n"a"x,b\n1,2\n', "begins in line 2 a cell goes on behind its closing"),
        ('a, "b,c"\n1, "2,3"\n', "a quote stands behind a blank in line 1"),
    ],
)
def test_ragged_line_is_named_by_its_number(file, content, words):
    refused(SourceError, words, file(content))


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ('"sep=;"\na;b\n1;2\n', ["a", "b"]),
        ("SEP=|\na|b\n1|2\n", ["a", "b"]),
        ('a,b\n1, "hi" there\n', ["a", "b"]),
        ('a,b\n1," ""odd"\n', ["a", "b"]),
        ("note\nhello; you\nbye; me\n", ["note"]),
        ("x\n1,5\n2,5\n", ["x"]),
    ],
)
def test_what_looks_odd_and_is_not_refused(file, content, names):
    assert sf.table(file(content)).columns == tuple(names)


def test_ragged_line_of_a_large_file(file):
    lines = ["a,b"] + [f"{i},x" for i in range(200_000)]
    lines[150_000] = "1,2,3"
    refused(SourceError, "line 150,001 has 3 cells", file("\n".join(lines)))
    refused(SourceError, "line 150,001 has 3 cells", file(gzip.compress("\n".join(lines).encode())))


@pytest.mark.parametrize("encoding", [None, "utf-8"])
def test_undecodable_byte_is_named_by_its_offset(file, encoding):
    refused(SourceError, "offset 6 is not utf-8", file(b"a,b\n1,\xff\n"), encoding=encoding)


def test_undecodable_byte_beyond_the_first_look(file):
    content = b"a,b\n" + b"1,2\n" * 500_000 + "3,José\n".encode("cp1252")
    refused(SourceError, r"offset 2,000,009 is not utf-8 \(line 500,002\).*cp1252", file(content))


def test_another_file_within_a_file_is_not_taken_for_western_letters(file):
    for mark in (b"\xff\xfe", b"\xfe\xff"):
        content = b"a,b\n" + b"x,2\n" * 9 + mark + b",2\nx,3\n"
        refused(SourceError, r"offset 40 is not utf-8 \(line 11\)", file(content))


def test_another_file_behind_western_letters_is_seen_however_late(file):
    western = "a,b\nJosé,2\n".encode("cp1252") + b"x,2\n" * 300_000
    for mark in (b"\xff\xfe", b"\xfe\xff"):
        content = western + mark + b",2\nx,3\n"
        refused(SourceError, "the mark with which a file in utf-16 begins", file(content))
        assert sf.table(file(content), encoding="cp1252").rows == 300_003
    assert sf.table(file(western)).rows == 300_001


def test_undecodable_byte_in_another_encoding(file):
    refused(SourceError, "offset 4 is not cp1252", file(b"a,b\n\x81,2\n"), encoding="cp1252")
    refused(SourceError, "offset 6 is not ascii", file("a,b\n1,é\n"), encoding="ascii")


def test_duplicate_and_empty_names(file):
    refused(ColumnError, "column `a` occurs 2 times", file("a,b,a\n1,2,3\n"))
    refused(ColumnError, "column 2 has no name", file("a,,b\n1,2,3\n"))
    refused(ColumnError, "column 3 has no name", file("a,b, \n1,2,3\n"))


def test_damaged_compression(file):
    whole = gzip.compress(b"a,b\n" + b"1,2\n" * 1000)
    refused(SourceError, "gzip file is damaged or incomplete", file(whole[:-20], "people.csv.gz"))


def test_no_cell_is_quoted_in_messages(file):
    secret = "Rumpelstiltskin"
    for content in (f"a,b\n1,2\n{secret},{secret},5\n", f'a,b\n1,"{secret}\n3,4\n'):
        with pytest.raises(SourceError) as caught:
            rows(file(content))
        assert secret not in str(caught.value)
        assert caught.value.__cause__ is None
