"""The layout of text files, guessed: a thousand dialects of which the truth is known."""

from __future__ import annotations

import csv
import io
import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from sfumato.engines.writing import DELIMITERS
from sfumato.errors import SourceError
from sfumato.tables.text import text_batches

WORDS = ["Ann", "Zoë", "von Berg", "O'Neil", "north-west", "n/a", "x:y", "10:30", "50 %", "#3"]
HARD = ["Smith, John", "red; green", "a|b", "a\tb", "||", ",", ";;", "one\ntwo", "x\r\ny", "\n",
        'she said "no"', '"', '""', '5" pipe', '",";"', "a,b;c|d\te", "'", "'a','b'"]  # fmt: skip
KINDS = {
    "integer": lambda r: str(r.randint(-5, 99999)),
    "float": lambda r: f"{r.uniform(-9, 999):.{r.randint(1, 4)}f}",
    "decimal comma": lambda r: f"{r.uniform(-9, 999):.2f}".replace(".", ","),
    "date": lambda r: f"{r.randint(1900, 2030)}-{r.randint(1, 12):02}-{r.randint(1, 28):02}",
    "time": lambda r: f"2024-02-29T{r.randint(0, 23):02}:30:00Z",
    "word": lambda r: r.choice(WORDS),
    "hard": lambda r: r.choice(HARD),
    "mixed": lambda r: r.choice([*WORDS, *HARD, "", "1", "2,5"]),
    "empty": lambda r: r.choice(["", "", "7"]),
}


@dataclass(frozen=True)
class Written:
    """A text file and what is true of it."""

    text: str
    delimiter: str
    header: bool
    records: list[list[str]]
    bare: list[list[str]]
    """The same cells, empty where the file quotes them."""

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.records[0])

    def decidable(self) -> bool:
        """Whether no other delimiter makes as much sense of the file.

        One that cuts every record alike does; in a file of one column, so does one that cuts the
        first record or half of all. Not so if it is but the decimal comma of numbers.
        """
        return not any(self._rival(d) for d in DELIMITERS if d != self.delimiter)

    def _rival(self, delimiter: str) -> bool:
        counts = [sum(cell.count(delimiter) for cell in record) for record in self.bare]
        cells = [cell for record in self.bare for cell in record if delimiter in cell]
        numbers = all(cell.replace(",", "", 1).lstrip("-").isdigit() for cell in cells)
        if self.width == 1:
            return counts[0] > 0 or (2 * sum(map(bool, counts)) >= len(counts) and not numbers)
        return counts[0] > 0 and len(set(counts)) == 1 and not numbers


def written(seed: int) -> Written:
    """A file in a dialect drawn at random: delimiter, quotes, line ends, header, shape, types."""
    r = random.Random(seed)
    delimiter, end = r.choice(DELIMITERS), r.choice(["\n", "\r\n", "\r"])
    header, quoted = r.random() < 0.7, r.choice([0.0, 0.2, 1.0])
    width, size = r.choice([1, 1, 2, 2, 3, 5, 8, 30]), r.choice([0, 1, 1, 2, 3, 10, 60])
    kinds = [r.choice(list(KINDS.values())) for _ in range(width)]
    records = [[kind(r) for kind in kinds] for _ in range(size if header else max(size, 1))]
    if header:
        hard = 0.5 * (r.random() < 0.3)
        names = [f"c{i}{r.choice(HARD) if r.random() < hard else ''}" for i in range(width)]
        records.insert(0, names)
    if width == 1:  # an empty line is no record
        records = [[cell or "-"] for (cell,) in records]

    def spelled(cell: str) -> str:
        must = any(sign in cell for sign in (delimiter, '"', "\r", "\n"))
        return '"' + cell.replace('"', '""') + '"' if must or r.random() < quoted else cell

    cells = [[spelled(cell) for cell in record] for record in records]
    start = r.choice(["", "", "", "", "\ufeff", end, f"sep={delimiter}{end}"])
    return Written(
        start + end.join(map(delimiter.join, cells)) + r.choice([end, end, "", end + end]),
        delimiter,
        header,
        records,
        [["" if cell[:1] == '"' else cell for cell in record] for record in cells],
    )


def read(text: str, *, header: bool) -> list[list[str]]:
    """All records as they are read by guesses, null as the empty text."""
    batches = list(text_batches(io.BytesIO(text.encode()), "a.csv", header=header))
    rows = [list(row.values()) for batch in batches for row in batch.to_pylist()]
    names = [batches[0].schema.names] if header else []
    return names + [[cell or "" for cell in row] for row in rows]


@pytest.mark.parametrize(
    ("text", "records"),
    [
        ('0,"||"', [["0", "||"]]),  # one line, and more of another delimiter within quotes
        ('"a;b";"c,d"\n', [["a;b", "c,d"]]),
        ('a,"b\n;;c"\n1,2\n', [["a", "b\n;;c"], ["1", "2"]]),
        ('a,b\n"x ""y"" | z",";;"\n', [["a", "b"], ['x "y" | z', ";;"]]),
        ("a;b\r1,5;2,5\r", [["a", "b"], ["1,5", "2,5"]]),
        ("1,5;2,5\r\n3,5;4\r\n", [["1,5", "2,5"], ["3,5", "4"]]),  # each cuts alike
        ("name|income\nAnn|1,234,567\n", [["name", "income"], ["Ann", "1,234,567"]]),
        ("amount\n365,68\n12,5\n", [["amount"], ["365,68"], ["12,5"]]),
        ("note\nhello, world\nyes\nno\n", [["note"], ["hello, world"], ["yes"], ["no"]]),
        ("n\n1,2;3\t4|5\nx\ny\n", [["n"], ["1,2;3\t4|5"], ["x"], ["y"]]),  # each occurs
        ('n\n"x,y"\n"z,w"\n', [["n"], ["x,y"], ["z,w"]]),
        ("a,b\n,\n,\n", [["a", "b"], ["", ""], ["", ""]]),
        ("\ufeffa;b\n", [["a", "b"]]),
        ("\t\r\r", [["", ""]]),
        ("sep=;\na;b\n1,2;3\n", [["a", "b"], ["1,2", "3"]]),
        ("\ufeffsep=|\r\n\r\na;b|c\r\n1;2|3\r\n", [["a;b", "c"], ["1;2", "3"]]),
        ("sep=\t\na\n1\n", [["a"], ["1"]]),
        ("sep=a,b\n1,2\n", [["sep=a", "b"], ["1", "2"]]),
        ('"sep=;"\n1\n', [["sep=;"], ["1"]]),
    ],
)
@pytest.mark.parametrize("header", [True, False])
def test_examples(text, records, header):
    assert read(text, header=header) == records


@pytest.fixture
def files(fuzz_seed):
    """Files that make sense in one way only."""
    drawn = [written(seed) for seed in range(fuzz_seed, fuzz_seed + 1_500)]
    return [file for file in drawn if file.decidable()]


def right(file: Written) -> bool:
    """Whether every cell is read as it was written."""
    try:
        return read(file.text, header=file.header) == file.records
    except SourceError:
        return False


@pytest.mark.fuzz
def test_a_thousand_dialects(files):
    assert len(files) >= 1_000
    assert [file for file in files if not right(file)] == []


def duckdb_is_right(file: Written, path: Path) -> bool:
    """Whether DuckDB, told whether there is a header, finds delimiter and number of columns."""
    path.write_bytes(file.text.encode())
    try:
        (found,) = duckdb.sql(f"FROM sniff_csv('{path}', header={file.header})").fetchall()
    except duckdb.Error:
        return False
    return len(found[7]) == file.width and (file.width == 1 or found[0] == file.delimiter)


def python_is_right(file: Written) -> bool:
    """Whether Python's sniffer, told which delimiters there are, finds the one."""
    text = file.text.lstrip("\ufeff\r\n")
    try:
        found = csv.Sniffer().sniff(text, "".join(DELIMITERS))
    except csv.Error:
        return False
    if file.width == 1:
        return len(next(csv.reader(io.StringIO(text, newline=""), found))) == 1
    return found.delimiter == file.delimiter


def test_other_sniffers_are_right_less_often(files, tmp_path):
    answers = Counter[str]()
    files = files[::8]
    for file in files:
        answers["duckdb"] += duckdb_is_right(file, tmp_path / "a.csv")
        answers["python"] += python_is_right(file)
    # No less than this, or they were asked wrongly; no more, or there is no need for our own.
    assert 0.85 * len(files) < answers["duckdb"] < len(files)
    assert 0.65 * len(files) < answers["python"] < len(files)
