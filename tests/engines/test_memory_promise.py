"""What `--memory` is worth: how far a fresh process grows, verb by verb.

Growth is the most that a process held (``VmHWM``) beyond what it held once everything was imported.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
import zipfile
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.feather as feather
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.anonymization import in_parts
from sfumato.anonymization.methods.annealing import _parts
from sfumato.anonymization.methods.moves import Search
from sfumato.anonymization.methods.pricing import entries_that_fit
from sfumato.anonymization.parting import Whole, plan_parts
from sfumato.anonymization.preparing import prepare
from sfumato.anonymization.problem import allowed_blocks
from sfumato.anonymization.request import Request
from sfumato.budget import usable_threads
from sfumato.columns.persons import Persons, some_rows
from sfumato.columns.profile import profile
from sfumato.engines import sql_release
from sfumato.engines import statements as sql
from sfumato.engines.duckdb import _Session
from sfumato.engines.encoding import _Dictionaries
from sfumato.engines.foreign import FOREIGN, write_foreign
from sfumato.engines.numbering import coded_rows
from sfumato.engines.protocol import column_of
from sfumato.engines.recoding import InOrder, Recoding
from sfumato.engines.spool import READ_BYTES, Spool, dictionary_of, parquet_batches
from sfumato.engines.sql_engine import SQLEngine
from sfumato.engines.staging import WrittenFile, stage_batches
from sfumato.engines.writing import Writer, format_of, marked_as_labels
from sfumato.errors import (
    ColumnError,
    EngineError,
    EngineMemoryError,
    ParameterError,
    SourceError,
)
from sfumato.quasi.lattice import levelwise
from sfumato.relational import joined_attack
from sfumato.tables import columnar
from sfumato.tables.columnar import ParquetSource
from sfumato.utility import compare

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

QI = "age,sex,zip,birth,height,weight,income,job,state,children"
MEGABYTES = 400
TOLERATED = 1.2

PROGRAM = """
import sys
from sfumato.budget import share_memory

share_memory()  # as the command line does before it loads anything
import duckdb, numba, numpy, pandas, pyarrow.compute, pyarrow.csv, pyarrow.parquet, sqlglot
import sfumato
from sfumato.cli import main

for name in sfumato.__all__:
    getattr(sfumato, name)

def held():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))

before, code = held(), 0
try:
    main()
except SystemExit as ended:
    code = ended.code or 0
print(f"\\n{code} {(held() - before) / 1024:.0f}", file=sys.stderr)
"""

VERBS = {
    "scan": ["scan", "TABLE"],
    "measure": ["measure", "TABLE", "-c", QI],
    "key": ["key", "TABLE"],
    "key-sampled": ["key", "TABLE", "--eps", "0.001"],
    "keys": ["keys", "TABLE"],
    "violations": ["violations", "TABLE", "-k", "5"],
    "uniques": ["uniques", "TABLE", "--max-size", "3"],
    "mask": ["mask", "TABLE", "--beta", "0.9", "-o", "mask.parquet"],
    "risk": ["risk", "TABLE", "--qi", QI],
    "safe-harbor": ["safe-harbor", "TABLE", "-o", "harbor.parquet"],
    "population-written": [
        "population", "TABLE", "--universe", "3e8", "--qi", "age,sex,zip", "-k", "20",
        "-o", "population.parquet",
    ],
    "attack-persons": ["attack", "RELEASE", "VISITS", "--on", "age,sex", "-k", "5"],
    "risk-people": ["risk", "TABLE", "--qi", "age,sex,zip,job", "--population", "VISITS"],
    "full-domain": [
        "anonymize", "TABLE", "-k", "10", "--qi", "age,sex,state", "--method", "full-domain",
        "-o", "full-domain.parquet",
    ],
    "kmember": [
        "anonymize", "TABLE", "-k", "10", "--qi", "age,sex,state,job", "--method", "kmember",
        "--time", "30s", "-o", "kmember.parquet",
    ],
    "best": [
        "anonymize", "TABLE", "-k", "10", "--qi", "age,sex,state,job", "--method", "best",
        "--time", "30s", "-o", "best.parquet",
    ],
    "demo-data": ["demo-data", "-n", "1000000", "-o", "demo.parquet"],
    "population": ["population", "TABLE", "--universe", "3e8", "--qi", "age,sex,zip"],
    "mondrian": ["anonymize", "TABLE", "-k", "10", "--qi", QI, "-o", "mondrian.parquet"],
    "diverse": [
        "anonymize", "TABLE", "-k", "10", "--qi", QI, "--sensitive", "diagnosis", "-l", "2",
        "-o", "diverse.parquet",
    ],
    "lattice": [
        "anonymize", "TABLE", "-k", "10", "--qi", "age,sex,state,job", "--method", "lattice",
        "-o", "lattice.parquet",
    ],
    "cells": [
        "anonymize", "TABLE", "-k", "10", "--qi", "sex,state,children", "--method", "cells",
        "-o", "cells.parquet",
    ],
    "verify": ["verify", "RELEASE"],
    "utility": ["utility", "RELEASE", "--of", "TABLE"],
    "attack": ["attack", "RELEASE", "TABLE", "--on", "age,sex"],
    "report": ["report", "TABLE", "--qi", "age,sex,zip", "-o", "page.html"],
    "measure-persons": ["measure", "VISITS", "-c", QI, "--person", "patient"],
    "risk-persons": ["risk", "VISITS", "--qi", QI, "--person", "patient"],
    "mondrian-persons": [
        "anonymize", "VISITS", "-k", "10", "--qi", QI, "--person", "patient",
        "-o", "persons.parquet",
    ],
    "diverse-persons": [
        "anonymize", "VISITS", "-k", "10", "--qi", QI, "--person", "patient",
        "--sensitive", "diagnosis", "-l", "2", "-o", "diverse-persons.parquet",
    ],
}  # fmt: skip
ENDINGS = (0, 1)
REFUSED = 3


def people(path: Path, rows: int) -> Path:
    """A table with ten quasi-identifiers in which nearly nobody is like another."""
    random = np.random.default_rng(7)
    age = random.integers(18, 90, rows)
    names = {
        kind: pa.array([f"{kind}{n:02}" for n in range(many)])
        for kind, many in (("job", 60), ("state", 50), ("diagnosis", 30))
    }
    table = pa.table(
        {
            "age": age.astype(np.int16),
            "sex": pa.array(["f", "m"]).take(random.integers(0, 2, rows)),
            "zip": (10_000 + random.zipf(1.4, rows) % 900).astype(np.int32),
            "birth": (2020 - age + random.integers(-1, 2, rows)).astype(np.int16),
            "height": random.normal(170, 10, rows).astype(np.int16),
            "weight": random.normal(75, 15, rows).astype(np.int16),
            "income": (100 * np.minimum(random.lognormal(5, 0.6, rows), 3000)).astype(np.int32),
            "job": names["job"].take(random.zipf(1.3, rows) % 60),
            "state": names["state"].take(random.integers(0, 50, rows)),
            "children": random.poisson(1.4, rows).astype(np.int8),
            "diagnosis": names["diagnosis"].take(np.minimum(random.geometric(0.12, rows), 29)),
        }
    )
    pq.write_table(table, path, compression="zstd", row_group_size=250_000)
    return path


def visits(path: Path, of: Path) -> None:
    """The same rows, of about a third as many persons."""
    table = pq.read_table(of)
    who = np.random.default_rng(5).integers(0, int(0.3 * table.num_rows), table.num_rows)
    table = table.append_column("patient", pa.array([f"P{one:08}" for one in who]))
    pq.write_table(table, path, compression="zstd", row_group_size=250_000)


def growth(
    folder: Path, arguments: list[str], megabytes: int = MEGABYTES, **environment: str
) -> tuple[int, int, str]:
    """How the program ended, by how many MiB its process grew, and what it said."""
    places = {"TABLE": "people.parquet", "RELEASE": "release.parquet", "VISITS": "visits.parquet"}
    told = [str(folder / places[word]) if word in places else word for word in arguments]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *told, "--memory", f"{megabytes}MB", "--quiet"],
        cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    code, grown = done.stderr.rsplit("\n", 2)[-2].split()
    return int(code), int(grown), done.stderr


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table that fits the memory."""
    folder = tmp_path_factory.mktemp("small")
    visits(folder / "visits.parquet", people(folder / "people.parquet", 300_000))
    return folder


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table whose work does not, and a release of it."""
    folder = tmp_path_factory.mktemp("large")
    visits(folder / "visits.parquet", people(folder / "people.parquet", 2_000_000))
    columns = QI.split(",")
    sf.anonymize(folder / "people.parquet", qi=columns, k=10, output=folder / "release.parquet")
    return folder


@pytest.mark.parametrize("verb", ["measure", "mondrian"])
def test_work_on_a_table_that_fits(small: Path, verb: str) -> None:
    code, grown, told = growth(small, VERBS[verb])
    assert code in ENDINGS, told
    assert grown <= TOLERATED * MEGABYTES


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_exceeds_its_limit(large: Path, verb: str) -> None:
    code, grown, told = growth(large, VERBS[verb])
    assert code in (*ENDINGS, REFUSED), told
    assert grown <= TOLERATED * MEGABYTES
    if code == REFUSED:
        assert "too many to be held" in told or "more than the 400 MiB allowed" in told


@pytest.mark.parametrize("more", [[], ["--person", "patient"]], ids=["rows", "persons"])
def test_a_limit_that_cannot_be_kept_is_refused_before_rows_come(
    small: Path, more: list[str]
) -> None:
    table = "VISITS" if more else "TABLE"
    asked = ["anonymize", table, "-k", "10", "--qi", QI, *more, "-o", "refused.parquet"]
    code, grown, told = growth(small, asked, 256)
    assert code == REFUSED
    assert "solving it in parts takes at least 384 MiB" in told
    assert grown <= TOLERATED * 256


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["kmember", "best", "cells", "mask", "diverse-persons"])
def test_nor_where_nothing_is_compiled_yet(large: Path, tmp_path: Path, verb: str) -> None:
    asked = [word if ".parquet" not in word else str(tmp_path / word) for word in VERBS[verb]]
    code, grown, told = growth(large, asked, NUMBA_CACHE_DIR=str(tmp_path))
    assert code in ENDINGS, told
    assert grown <= TOLERATED * MEGABYTES


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["measure", "risk", "key-sampled", "scan", "verify"])
def test_nor_out_of_core(large: Path, verb: str) -> None:
    code, grown, told = growth(large, [*VERBS[verb], "--engine", "duckdb"], 256)
    assert code in ENDINGS, told
    assert grown <= TOLERATED * 256


@pytest.mark.slow
def test_nor_with_long_texts(tmp_path: Path) -> None:
    letters(tmp_path / "people.parquet", 1_000_000, 1, 200)
    code, grown, told = growth(tmp_path, VERBS["scan"], 256)
    assert code in ENDINGS, told
    assert grown <= TOLERATED * 256


@pytest.mark.slow
def test_nor_where_long_texts_are_kept(tmp_path: Path) -> None:
    letters(tmp_path / "people.parquet", 200_000, 1, 2_000)
    asked = ["anonymize", "TABLE", "-k", "5", "--qi", "age", "--rows-are-people"]
    code, grown, told = growth(tmp_path, [*asked, "-o", "release.parquet"], 384)
    assert code in ENDINGS, told
    assert grown <= TOLERATED * 384


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "group"),
    [([], 250_000), (["--sort"], 250_000), ([], 16_384)],
    ids=["in order", "sorted", "in small groups"],
)
def test_nor_where_short_texts_that_differ_are_kept(
    tmp_path: Path, more: list[str], group: int
) -> None:
    path = letters(tmp_path / "people.parquet", 1_500_000, 3, 40)
    if group < 250_000:
        pq.write_table(pq.read_table(path), path, row_group_size=group, use_dictionary=False)
    asked = ["anonymize", "TABLE", "-k", "5", "--qi", "age", "--rows-are-people", *more]
    code, grown, told = growth(tmp_path, [*asked, "-o", "release.parquet"], 256)
    assert code in ENDINGS, told
    assert grown <= TOLERATED * 256


@pytest.mark.parametrize("group", [60_000, 4_096])
def test_short_texts_that_differ_come_cell_by_cell_within_a_limit(
    tmp_path: Path, group: int
) -> None:
    path = letters(tmp_path / "letters.parquet", 60_000, 1, 40)
    pq.write_table(pq.read_table(path), path, row_group_size=group, use_dictionary=False)
    for memory, collected in ((None, True), (256 << 20, False)):
        opened = sf.table(path, engine="duckdb", memory=memory)
        kinds = {batch.column("text0").type for batch in opened.engine.source.batches(["text0"])}
        assert [pa.types.is_dictionary(kind) for kind in kinds] == [collected]
        opened.close()


@pytest.mark.parametrize("sort", [False, True])
def test_little_memory_is_written_by_one_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sort: bool
) -> None:
    path, told = letters(tmp_path / "letters.parquet", 2_000, 1, 40), []
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1}, raising=False)

    def staged(*given: Any, **named: Any) -> Any:
        told.append(usable_threads(None))
        return stage_batches(*given, **named)

    monkeypatch.setattr(sql_release, "stage_batches", staged)
    releases = []
    for memory, threads in ((256, 1), (384, 2)):
        told.clear()
        releases.append(tmp_path / f"{memory}.parquet")
        limit = sf.Budget(memory=memory << 20)
        with sf.table(path, engine="duckdb", memory=memory << 20) as opened:
            asked: dict[str, Any] = {"qi": ["age"], "k": 5, "rows_are_people": True, "sort": sort}
            sf.anonymize(opened, **asked, output=releases[-1], budget=limit)
        assert set(told) == {threads}
    assert releases[0].read_bytes() == releases[1].read_bytes()


@pytest.mark.slow
def test_nor_with_text_files(tmp_path: Path) -> None:
    random, rows = np.random.default_rng(3), 3_000_000
    cells = [random.integers(18, 10**size, rows) for size in (2, 5, 6, 9)]
    csv.write_csv(pa.table(cells, ["age", "zip", "income", "number"]), tmp_path / "people.csv")
    code, grown, told = growth(tmp_path, ["measure", "people.csv"], 256)
    assert code in ENDINGS, told
    assert grown <= TOLERATED * 256


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_nor_where_few_long_texts_are_many_cells(tmp_path: Path, ending: str) -> None:
    """A small file whose texts do not fit, once they are written out."""
    random, rows = np.random.default_rng(3), 1_000_000
    texts = pq.read_table(letters(tmp_path / "texts.parquet", 500, 1, 2_000))["text0"]
    which = pa.array(random.integers(0, 500, rows), pa.int32())
    text = pa.DictionaryArray.from_arrays(which, texts.combine_chunks())
    age = random.integers(18, 90, rows)
    pq.write_table(pa.table({"age": age, "text": text}), tmp_path / "people.parquet")
    asked = ["mask", "TABLE", "--beta", "0.5", "--rows-are-people", "-o", f"mask.{ending}"]
    code, grown, told = growth(tmp_path, asked, 256)
    assert code in ENDINGS, told
    assert grown <= TOLERATED * 256


@pytest.mark.parametrize("memory", [None, 256 << 20])
def test_texts_of_a_release_that_differ_come_cell_by_cell_within_a_limit(
    tmp_path: Path, memory: int | None
) -> None:
    path = letters(tmp_path / "letters.parquet", 60_000, 1, 40)
    pq.write_table(pq.read_table(path), path, row_group_size=4_096, use_dictionary=False)
    schema = pq.read_schema(path)
    written = WrittenFile(path, format_of("a.parquet", None), schema, "a.parquet")
    written.memory = memory
    kinds = {pa.types.is_dictionary(b.column("text0").type) for b in written.batches(["text0"])}
    assert kinds == {memory is None}


def test_long_texts_in_one_group_of_rows_are_not_collected(tmp_path: Path) -> None:
    path = letters(tmp_path / "letters.parquet", 40_000, 1, 1_000)
    rows = pq.read_table(path)
    for encoded in (False, True):  # the latter begins with a dictionary, until that is full
        pq.write_table(rows, path, use_dictionary=encoded)
        source = sf.table(path).engine.source
        batches = list(source.batches())
        assert max(batch.nbytes for batch in batches) < 18 << 20
        assert pa.Table.from_batches(batches).equals(rows)
    few = rows["text0"].combine_chunks().slice(0, 100)
    many = few.take(pa.array(np.arange(40_000) % 100))
    pq.write_table(rows.set_column(1, "text0", many), path)
    (batch,) = sf.table(path).engine.source.batches()
    assert pa.types.is_dictionary(batch.column("text0").type)


def _numbered(path: Path, values: int, rows: int, *, typed: bool) -> Path:
    """A Parquet file of one group of rows, whose texts stand in a dictionary."""
    texts = pa.array([f"a text of many, number {i:09}" for i in range(values)])
    which = pa.array(np.arange(rows, dtype=np.int32) % values)
    name: Any = pa.DictionaryArray.from_arrays(which, texts)
    table = pa.table({"name": name if typed else name.dictionary_decode(), "n": np.arange(rows)})
    pq.write_table(table, path, dictionary_pagesize_limit=1 << 30, row_group_size=rows)
    return path


def test_a_dictionary_that_is_longer_than_a_batch_comes_cell_by_cell(tmp_path: Path) -> None:
    path = _numbered(tmp_path / "names.parquet", 10_000, 30_000, typed=False)
    part = pq.read_metadata(path).row_group(0).column(0)
    assert dictionary_of(path, part) == (
        10_000,
        10_000 * (4 + len("a text of many, number 000000000")),
    )
    for rows, memory, collected in (
        (9_000, 1 << 28, False),
        (10_000, 1 << 28, True),
        (9_000, None, True),
    ):
        (batch, *_) = parquet_batches(path, ["name"], ["name"], rows, memory)
        assert pa.types.is_dictionary(batch.column("name").type) == collected


def test_large_dictionaries_of_few_columns_are_copied_in_large_batches(tmp_path: Path) -> None:
    source: Any = ParquetSource([_numbered(tmp_path / "a.parquet", 4_000, 9_000, typed=True)], "a")
    source.memory = 200 << 20
    source._sizes[READ_BYTES] = {"name": 100 << 20, "n": 0}  # as if there were many more
    copied = list(source.to_copy())
    assert [batch.num_rows for batch in copied] == [9_000]


def test_a_dictionary_that_cannot_be_numbered_within_the_memory_is_refused(tmp_path: Path) -> None:
    path = _numbered(tmp_path / "names.parquet", 20_000, 40_000, typed=True)
    source: Any = ParquetSource([path], "names.parquet")
    source.memory = 10 << 20
    with pytest.raises(EngineMemoryError, match="reading the dictionary of column `name` takes"):
        next(source.batches())
    assert next(source.batches(["n"])).num_rows
    source.memory = 200 << 20
    assert next(source.batches()).num_rows


def test_small_groups_of_rows_with_long_texts_come_some_at_a_time(tmp_path: Path) -> None:
    texts = np.array([f"{i:05}" + 30_000 * "x" for i in range(3_000)])
    with pq.ParquetWriter(tmp_path / "long.parquet", pa.schema({"text": pa.string()})) as writer:
        for some in np.split(texts, 300):
            writer.write_table(pa.table({"text": np.tile(some, 5)}))
    source: Any = ParquetSource([tmp_path / "long.parquet"], "long.parquet")
    source.memory = 256 << 20
    before, most, rows = pa.total_allocated_bytes(), 0, 0
    for batch in source.batches():
        most, rows = max(most, pa.total_allocated_bytes() - before), rows + batch.num_rows
    assert rows == 15_000
    assert most < 40 << 20


def test_fewer_rows_are_looked_at_where_texts_are_long(tmp_path: Path) -> None:
    path = tmp_path / "long.parquet"
    pq.write_table(pa.table({"text": [f"{i:05}" + 60_000 * "x" for i in range(400)]}), path)
    for megabytes, least in ((400, 300), (256, 200)):
        budget = sf.Budget(memory=megabytes << 20)
        with sf.table(path, engine="duckdb", budget=budget) as opened:
            assert least <= profile(opened, seed=0, budget=budget).sample.entries < 400
            assert least / 2 < some_rows(opened, 400, ["text"], 0, budget).num_rows < 400
    budget = sf.Budget(memory=100 << 20)
    with (
        sf.table(path, engine="duckdb") as opened,
        pytest.raises(EngineMemoryError, match="not even 100 fit"),
    ):
        profile(opened, seed=0, budget=budget)


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["scan", "key"])
@pytest.mark.parametrize("typed", [False, True], ids=["texts", "categories"])
def test_nor_with_a_large_dictionary(tmp_path: Path, verb: str, typed: bool) -> None:
    _numbered(tmp_path / "people.parquet", 1_100_000, 3_000_000, typed=typed)
    code, grown, told = growth(tmp_path, [verb, "TABLE"], 256)
    assert code == REFUSED if typed else code in ENDINGS, told
    assert grown <= TOLERATED * 256


@pytest.mark.parametrize("release", [False, True], ids=["table", "release"])
def test_a_parquet_file_is_not_held_while_it_is_read(tmp_path: Path, release: bool) -> None:
    path = letters(tmp_path / "letters.parquet", 40_000, 1, 1_000)
    rows = pq.read_table(path)
    pq.write_table(rows, path, row_group_size=1_000)
    size, schema = path.stat().st_size, rows.schema
    source: Any = sf.table(path).engine.source
    if release:
        source = WrittenFile(path, format_of("a.parquet", None), schema, "a.parquet")
    del rows
    before, most = pa.total_allocated_bytes(), 0
    for _ in source.batches(["text0"], 1_000):
        most = max(most, pa.total_allocated_bytes() - before)
    source.close()
    assert most < size / 4


@pytest.mark.parametrize("ending", ["csv", "arrow"])
def test_long_cells_are_read_back_some_at_a_time(tmp_path: Path, ending: str) -> None:
    long, line = "x" * (1 << 21), f'say "{"y" * (3 << 20)}"\nand go'  # no block holds such lines
    texts = ["a", '"', *([long] * 30), line, None, "b\n", *([long] * 30)]
    rows = pa.table({"age": np.arange(len(texts)), "text": texts})
    place = str(tmp_path / f"letters.{ending}")
    few = [rows.slice(at, 1).to_batches()[0] for at in range(len(texts))]
    staged = stage_batches(few, rows.schema, place, reopen=lambda source: source)
    before, most, found = pa.total_allocated_bytes(), 0, []
    for batch in staged.engine().batches():
        most = max(most, pa.total_allocated_bytes() - before)
        found += [None if text is None else len(text) for text in batch["text"].to_pylist()]
        del batch
    staged.discard()
    assert found == [None if text is None else len(text) for text in texts]
    assert most < 48 << 20


@pytest.mark.parametrize("person", [None, "who"])
def test_labels_that_list_many_texts_are_written_some_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, person: str | None
) -> None:
    """A class of `lattice` may list thousands of texts, and each of its rows shows all of them."""
    rows, sizes = names(3_000, 3_000), []
    rows = rows.append_column("age", pa.array(np.arange(3_000) % 5))
    rows = rows.append_column("who", pa.array(np.arange(3_000) // 2))
    packed = Writer._append
    monkeypatch.setattr(
        Writer, "_append", lambda writer, rows: (sizes.append(rows.nbytes), packed(writer, rows))[1]
    )
    asked: dict[str, Any] = {"qi": ["name", "age"], "k": 5, "method": "lattice"}
    place = tmp_path / "release.csv"
    made = sf.anonymize(rows, **asked, person=person, rows_are_people=True, output=place)
    assert made.verified
    assert place.stat().st_size > 5 << 20
    assert max(sizes) < 1 << 20


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["csv", "csv.gz", "tsv", "arrow", "parquet"])
def test_nor_with_labels_that_list_many_texts(tmp_path: Path, ending: str) -> None:
    rows = names(70_000, 70_000)
    rows = rows.append_column("age", pa.array(np.arange(70_000) % 70))
    pq.write_table(rows, tmp_path / "people.parquet")
    asked = ["anonymize", "TABLE", "-k", "5", "--qi", "name,age", "--method", "lattice"]
    code, grown, told = growth(
        tmp_path, [*asked, "--rows-are-people", "-o", f"release.{ending}"], 256
    )
    assert code in ENDINGS, told
    assert grown <= TOLERATED * 256


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a release of 70,000 rows whose cells list about 1,000 texts each, as CSV."""
    folder = tmp_path_factory.mktemp("listed")
    rows = names(70_000, 70_000)
    rows = rows.append_column("age", pa.array(np.arange(70_000) % 70))
    asked: dict[str, Any] = {"qi": ["name", "age"], "k": 5, "method": "lattice"}
    place = folder / "release.csv"
    sf.anonymize(rows, **asked, rows_are_people=True, output=place)
    return place


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["scan", "measure", "key", "keys", "verify", "risk", "report"])
def test_nor_of_a_file_with_such_labels(listed: Path, verb: str) -> None:
    more = {"risk": ["--qi", "name,age"], "report": ["--qi", "name,age", "-o", "page.html"]}
    asked = [verb, str(listed), *more.get(verb, [])]
    code, grown, told = growth(listed.parent, asked, 256)
    assert code in ENDINGS, told
    assert grown <= TOLERATED * 256


def test_rows_too_long_for_a_statement_are_sampled_and_counted_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, columns = tmp_path / "people.parquet", ("name", "town")
    pq.write_table(names(5_000, 300), place)
    near = sf.table(place, engine="memory")
    with sf.table(place, engine="duckdb", budget=sf.Budget(memory=256 << 20)) as opened:
        asked, executed = list[str](), _Session.execute

        def too_long(session: Any, statement: Any, declared: Any) -> pa.Table:
            asked.append(sql.text(statement, sql.Dialect("duckdb")))
            if "wanted" in asked[-1] or "GROUP BY" in asked[-1]:
                raise EngineMemoryError("no room", remedy="Allow more.")
            return executed(session, statement, declared)

        monkeypatch.setattr(_Session, "execute", too_long)
        for rows in (0, 700, 5_000, 6_000):
            found = opened.sample(rows, columns, seed=3)
            assert found.equals(near.sample(rows, columns, seed=3))
        asked.clear()
        limit = sf.Budget(memory=256 << 20)
        assert opened.class_sizes(columns, limit) == near.class_sizes(columns)
        assert not any("HASH" in statement for statement in asked)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["mondrian", "kmember", "best"])
def test_nor_with_texts_of_many_values_in_parts(tmp_path: Path, method: str) -> None:
    rows = names(1_000_000, 300_000)
    rows = rows.append_column("age", pa.array(np.arange(1_000_000) % 70))
    pq.write_table(rows, tmp_path / "people.parquet", row_group_size=250_000)
    asked = ["anonymize", "TABLE", "-k", "5", "--qi", "name,age", "--method", method]
    asked += ["--time", "20s", "--rows-are-people", "-o", "release.parquet"]
    code, grown, told = growth(tmp_path, asked, 384)
    assert code in ENDINGS, told
    assert grown <= TOLERATED * 384


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_nor_with_classes_that_are_wide_and_many(tmp_path: Path, ending: str) -> None:
    random, many = np.random.default_rng(3), 1_000_000
    texts = {
        f"text{at}": pa.array([f"value {at} {one:06}" for one in range(60_000)]).take(
            pa.array(random.integers(0, 60_000, many))
        )
        for at in range(6)
    }
    rows = pa.table({**texts, "diagnosis": random.integers(0, 20, many)})
    pq.write_table(rows, tmp_path / "people.parquet", row_group_size=250_000)
    asked = ["anonymize", "TABLE", "-k", "5", "--qi", ",".join(texts), "--sensitive", "diagnosis"]
    asked += ["-l", "2", "--rows-are-people", "-o", f"release.{ending}"]
    code, grown, told = growth(tmp_path, asked, 384)
    assert code in ENDINGS, told
    assert grown <= TOLERATED * 384


@pytest.mark.slow
def test_nor_with_more_than_a_million_persons(tmp_path: Path) -> None:
    visits(tmp_path / "visits.parquet", people(tmp_path / "people.parquet", 5_000_000))
    code, grown, told = growth(tmp_path, VERBS["mondrian-persons"], 512)
    assert code in ENDINGS, told
    assert grown <= TOLERATED * 512


def test_work_that_takes_more_than_its_codes_goes_out_of_core(tmp_path: Path) -> None:
    """A release is then made in parts, also where the codes alone would fit."""
    rows = people(tmp_path / "people.parquet", 2_000)
    budget = sf.Budget(memory=700_000)
    opened = sf.table(rows, engine="memory")
    with pytest.raises(EngineError, match="solving it in parts takes at least 384 MiB"):
        sf.anonymize(opened, qi=QI.split(","), k=10, budget=budget)


KEPT = """
import sys
import sfumato as sf

def held():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))

opened = sf.table(sys.argv[1], engine="duckdb", memory="512MB")
opened.class_sizes(["age"])
before = held()
opened.class_sizes(["who"])
for _ in opened.engine.different("who"):
    pass
print((held() - before) >> 10)
"""


def test_duckdb_gives_back_what_it_does_not_need_any_more(tmp_path: Path) -> None:
    """Others work between its statements, and several databases are open at once."""
    rows = 1_000_000
    who = pa.array(np.arange(rows)).cast(pa.string())
    table = pa.table({"age": np.arange(rows) % 90, "who": who})
    pq.write_table(table, tmp_path / "people.parquet", row_group_size=100_000)
    program = [sys.executable, "-c", KEPT, str(tmp_path / "people.parquet")]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 48


def test_combinations_that_do_not_fit_are_refused_before_they_come(tmp_path: Path) -> None:
    opened = sf.table(people(tmp_path / "people.parquet", 2_000), engine="duckdb")
    budget = sf.Budget(memory=64 * 12 * 1_000)
    with pytest.raises(EngineError, match=r"more than 1,000 distinct combinations of 11 columns"):
        opened.classes(budget=budget)
    assert opened.classes(["sex"], budget=budget).entries == 2
    opened.close()


def letters(path: Path, rows: int, columns: int, length: int) -> Path:
    """A table of long texts, every one different, and of ages."""
    random = np.random.default_rng(3)
    marks = pa.py_buffer(np.arange(0, (rows + 1) * length, length, dtype=np.int32))
    table = {"age": random.integers(18, 90, rows)}
    for at in range(columns):
        cells = pa.py_buffer(random.integers(97, 123, rows * length, dtype=np.uint8))
        table[f"text{at}"] = pa.Array.from_buffers(pa.string(), rows, [None, marks, cells])
    pq.write_table(pa.table(table), path, row_group_size=max(1, (16 << 20) // columns // length))
    return path


def test_as_many_long_texts_are_looked_at_as_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = sf.table(letters(tmp_path / "letters.parquet", 2_000, 2, 4_000), engine="duckdb")
    drawn: list[pa.Table] = []
    draw = opened.engine.sample
    monkeypatch.setattr(
        opened.engine, "sample", lambda *asked: drawn.append(draw(*asked)) or drawn[-1]
    )
    limit = 32 << 20
    found = sf.scan(opened, budget=sf.Budget(memory=limit))
    assert found.rows == 2_000
    assert {column.name: column.classes for column in found.columns}["text1"] == 2_000
    assert 0 < max(table.nbytes for table in drawn) <= limit // 4
    sf.scan(opened)
    assert drawn[-1].num_rows == 2_000
    opened.close()


def test_rows_of_other_programs_do_not_stay_beside_the_work(tmp_path: Path) -> None:
    """What was read whole is laid aside, and answers are the same."""
    rows = pq.read_table(people(tmp_path / "people.parquet", 60_000))
    path = tmp_path / "people.orc"
    orc.write_table(rows, path)
    plain = sf.table(path, engine="memory")
    before = pa.total_allocated_bytes()
    limited = sf.table(path, budget=sf.Budget(memory=24 << 20), engine="duckdb")
    assert pa.total_allocated_bytes() - before < rows.nbytes / 8
    assert limited.fingerprint() == plain.fingerprint()
    assert limited.schema == plain.schema
    columns = ["age", "job", "income"]
    assert limited.class_sizes(columns) == plain.class_sizes(columns)
    copied = [batch.cast(rows.schema) for batch in limited.batches()]
    assert pa.Table.from_batches(copied).equals(rows)
    limited.close()


@pytest.mark.parametrize("ending", ["sav", "dta", "xpt", "orc", "db", "avro"])
def test_rows_of_other_programs_that_would_not_fit_are_refused(tmp_path: Path, ending: str) -> None:
    """Numbers of statistics programs, and long texts, take several times their bytes."""
    rows, random = 20_000, np.random.default_rng(2)
    if ending in ("sav", "dta", "xpt"):
        table, least = pa.table({f"n{at}": random.normal(size=rows) for at in range(5)}), 5 * 40
    else:
        texts = pq.read_table(letters(tmp_path / "letters.parquet", rows, 1, 200))
        table, least = texts.select(["text0"]), 2 * 200
    kind = next(name for name, one in FOREIGN.items() if ending in one.endings)
    path = tmp_path / f"people.{ending}"
    write_foreign(kind, table, path, "people")
    with pytest.raises(SourceError, match="memory"):
        sf.table(path, budget=sf.Budget(memory=rows * least))
    assert sf.table(path, budget=sf.Budget(memory=4 * rows * least)).rows == rows


def test_workbooks_are_refused_by_what_their_cells_take(tmp_path: Path) -> None:
    """The bytes of a sheet are many where its cells are few."""
    table = pa.table({f"n{at}": np.arange(5_000) % 90 for at in range(8)})
    write_foreign("excel", table, tmp_path / "people.xlsx", "people")
    with zipfile.ZipFile(tmp_path / "people.xlsx") as book:
        size = sum(part.file_size for part in book.infolist())
    assert sf.table(tmp_path / "people.xlsx", budget=sf.Budget(memory=7 * size // 2)).rows == 5_000
    for memory, told in ((5 * size // 2, "its rows need more"), (size, "reading it would take")):
        with pytest.raises(SourceError, match=told):
            sf.table(tmp_path / "people.xlsx", budget=sf.Budget(memory=memory))


def test_a_group_of_rows_that_does_not_fit_is_cut(tmp_path: Path) -> None:
    """DuckDB would hold all that is stored of one."""
    path = letters(tmp_path / "letters.parquet", 40_000, 1, 2_000)
    pq.write_table(pq.read_table(path), path, use_dictionary=False, compression="none")
    opened = sf.table(path, engine="duckdb", budget=sf.Budget(memory=64 << 20))
    assert opened.class_sizes(["text0"]).classes == 40_000
    opened.close()


def wide(path: Path, rows: int, columns: int) -> pa.Table:
    """A table of many columns, numbers and few texts, in one group of rows."""
    random = np.random.default_rng(4)
    table = pa.table(
        {
            f"c{at}": random.integers(0, 1000, rows)
            if at % 5
            else pa.array(["x", "y", None]).take(random.integers(0, 3, rows))
            for at in range(columns)
        }
    )
    pq.write_table(table, path)
    return table


def test_wide_tables_are_copied_some_columns_after_the_others(tmp_path: Path) -> None:
    rows = wide(tmp_path / "wide.parquet", 5_000, 60)
    opened = sf.table(tmp_path / "wide.parquet", budget=sf.Budget(memory=2 << 20), engine="duckdb")
    source: Any = opened.engine.source
    assert max(len(batch.schema) for batch in source.to_copy()) == 60
    assert pa.Table.from_batches(batch.cast(rows.schema) for batch in source.batches()).equals(rows)
    assert source._copied.path is not None
    assert opened.class_sizes(["c1", "c5"]).rows == 5_000
    opened.close()
    plenty: Any = sf.table(tmp_path / "wide.parquet", budget=sf.Budget(memory=1 << 30))
    assert next(iter(plenty.batches())).num_rows == 5_000
    assert plenty.engine.source._copied is None


def categories(path: Path, rows: int, columns: int, many: int) -> pa.Table:
    """A table of columns that have few values for their rows, but long ones and many."""
    random, values = np.random.default_rng(6), pa.array([f"{at:066}" for at in range(many)])
    table = {
        f"k{at}": pa.DictionaryArray.from_arrays(
            pa.array(random.integers(0, many, rows), pa.int32()), values
        )
        for at in range(columns)
    }
    pq.write_table(pa.table(table), path, row_group_size=100_000)
    return pa.table(table)


def test_large_dictionaries_count_and_are_copied_without_values_that_no_row_has(
    tmp_path: Path,
) -> None:
    """A group of a few thousand rows would hold all of them once more."""
    rows = categories(tmp_path / "people.parquet", 20_000, 4, 20_000)
    limit = sf.Budget(memory=32 << 20)
    with sf.table(tmp_path / "people.parquet", engine="duckdb", budget=limit) as opened:
        source: Any = opened.engine.source  # type: ignore[attr-defined]
        assert min(source._column_bytes().values()) > 4 * 66 * 12_000
    (few,) = rows.slice(0, 2_000).to_batches()
    with closing(Spool.of(rows.schema, [few])) as spool:
        (held,) = spool.batches()
    assert held.nbytes < few.nbytes / 4
    assert held.to_pylist() == few.to_pylist()


@pytest.mark.slow
def test_nor_with_columns_of_many_long_values(tmp_path: Path) -> None:
    categories(tmp_path / "people.parquet", 300_000, 30, 20_000)
    code, grown, told = growth(tmp_path, VERBS["scan"], 256)
    assert code in ENDINGS, told
    assert grown <= TOLERATED * 256


def test_pictures_that_are_stored_once_come_a_few_at_a_time(tmp_path: Path) -> None:
    pictures = [bytes([at]) * (1 << 18) for at in range(8)]
    table = pa.table({"age": range(200), "photo": [pictures[at % 8] for at in range(200)]})
    place = tmp_path / "people.parquet"
    pq.write_table(table, place)
    for columns, most in ((["age", "photo"], 63), (["age"], 200)):
        batches = list(parquet_batches(place, columns, [], 1_000, 256 << 20))
        assert max(batch.num_rows for batch in batches) == most
        assert pa.Table.from_batches(batches).equals(table.select(columns))


def numbers(path: Path, rows: int) -> Path:
    """Two columns of numbers that all differ, and one of few."""
    at = np.arange(rows)
    table = pa.table({"id": at, "back": rows - at, "age": at % 99})
    pq.write_table(table, path, row_group_size=1_000_000)
    return path


def test_numbers_that_differ_count_more_than_others(tmp_path: Path) -> None:
    place = numbers(tmp_path / "people.parquet", 3_000_000)
    with sf.table(place, memory="256MB") as opened:
        assert opened.engine.kind == "duckdb"
    with sf.table(place, memory="1GB") as opened:
        assert opened.engine.kind == "memory"
    with sf.table(place, memory="256MB", exclude=["id", "back"]) as opened:
        assert opened.engine.kind == "memory"


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["scan", "key", "measure", "mask"])
def test_nor_with_numbers_that_all_differ(tmp_path: Path, verb: str) -> None:
    numbers(tmp_path / "people.parquet", 5_000_000)
    asked = {"measure": ["measure", "TABLE", "-c", "id,age"]}.get(verb, [verb, "TABLE"])
    asked += ["--beta", "0.9", "--rows-are-people"] if verb == "mask" else []
    code, grown, told = growth(tmp_path, asked, 384)
    assert code in ENDINGS, told
    assert grown <= TOLERATED * 384


def test_rows_of_too_many_columns_are_refused_before_work_starts(tmp_path: Path) -> None:
    wide(tmp_path / "wide.parquet", 200, 1_000)
    budget = sf.Budget(memory=256 << 20)
    opened = sf.table(tmp_path / "wide.parquet", budget=budget, engine="duckdb")
    told = r"rows of 1,000 columns take about \d+ MiB out of core, more than the 256 MiB allowed"
    with pytest.raises(EngineError, match=told):
        sf.scan(opened, budget=budget)
    with pytest.raises(EngineError, match=told):
        sf.anonymize(opened, qi=["c1"], k=2, rows_are_people=True, budget=budget)
    with pytest.raises(EngineError, match=told):
        sf.mask(opened, beta=0.5, budget=budget)
    assert sf.measure(opened, ["c0", "c5"], budget=budget).rows == 200
    opened.close()


def test_with_little_memory_only_narrow_releases_are_written(tmp_path: Path) -> None:
    """Rows are read, looked up and packed at the same time."""
    rows = wide(tmp_path / "wide.parquet", 200, 13)
    little, more = (sf.Budget(memory=size << 20) for size in (256, 384))
    told = r"rows of \d+ columns take about 41\d MiB out of core, more than the 256 MiB allowed"
    asked: dict[str, Any] = {"qi": ["c1"], "k": 2, "rows_are_people": True}
    for budget, names in ((little, rows.column_names[:12]), (more, rows.column_names)):
        with sf.table(
            tmp_path / "wide.parquet", columns=names, engine="duckdb", budget=budget
        ) as opened:
            assert sf.anonymize(opened, **asked, budget=budget).verified
    with sf.table(tmp_path / "wide.parquet", engine="duckdb", budget=little) as opened:
        with pytest.raises(EngineError, match=told):
            sf.anonymize(opened, **asked, budget=little)
        with pytest.raises(EngineError, match=told):
            sf.safe_harbor(opened, budget=little)
        with pytest.raises(EngineError, match=told):
            sf.population(opened, universe=1e6, output=tmp_path / "out.csv", budget=little)
        assert sf.mask(opened, beta=0.5, budget=little).verified


def test_wide_releases_are_written_in_smaller_groups(tmp_path: Path) -> None:
    wide(tmp_path / "wide.parquet", 14_000, 320)
    sf.anonymize(
        tmp_path / "wide.parquet", qi=["c0"], k=2, rows_are_people=True,
        output=tmp_path / "release.parquet",
    )  # fmt: skip
    metadata = pq.read_metadata(tmp_path / "release.parquet")
    assert metadata.row_group(0).num_rows == 131_072 // 10


def test_texts_of_a_group_of_rows_are_held_once() -> None:
    """Arrow's dictionary grows from batch to batch, and comes with each."""
    names = pa.array([None, *(f"person {at:04}" for at in range(2_999))])
    encoder: Any = _Dictionaries(column_of("name", pa.string()))
    for end in range(1_000, 3_001, 1_000):
        indices = pa.array(np.arange(end - 1_000, end), pa.int32())
        encoder.add(pa.DictionaryArray.from_arrays(indices, names[:end]))
    other = pa.DictionaryArray.from_arrays(pa.array([1, None], pa.int32()), names[1_000:1_002])
    encoder.add(other)
    assert [len(one) for one in encoder.dictionaries] == [3_000, 2]
    codes, values = encoder.finish()
    assert values.take(pa.array(codes)).equals(
        pa.concat_arrays([names, names[1_001:1_002], names[:1]])
    )


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_different_texts_take_more_than_their_letters(tmp_path: Path, ending: str) -> None:
    """They are numbered and ranked; texts that recur are few."""
    rows = np.random.default_rng(1).permutation(10_000)
    kinds = []
    for many in (10_000, 10):
        table = pa.table({"name": pa.array([f"person {at % many:05}" for at in rows])})
        path = tmp_path / f"people{many}.{ending}"
        (csv.write_csv if ending == "csv" else pq.write_table)(table, path)
        kinds.append(sf.table(path, budget=sf.Budget(memory=3 << 20)).engine.kind)
    assert kinds == ["duckdb", "memory"]


@pytest.mark.parametrize("ending", ["json", "xlsx", "avro", "sav"])
def test_a_file_that_is_written_whole_is_refused_before_work_starts(
    tmp_path: Path, ending: str
) -> None:
    rows, output = people(tmp_path / "people.parquet", 2_000), tmp_path / f"release.{ending}"
    asked: dict[str, Any] = {"qi": ["age"], "k": 2, "rows_are_people": True, "output": output}
    with pytest.raises(EngineError, match=r"22,000 cells take about .* until .* is written and"):
        sf.anonymize(rows, **asked, budget=sf.Budget(memory=5 << 20))
    assert not output.exists()
    assert sf.anonymize(rows, **asked, budget=sf.Budget(memory=512 << 20)).verified


def frame_of(kind: str, rows: int) -> Any:
    """A frame with texts that all differ, few texts, numbers, days and nulls."""
    numbers = np.random.default_rng(6).permutation(rows)
    days = pa.array(numbers % 900, pa.int32()).cast(pa.date32())
    table = pa.table(
        {
            "who": pa.array([f"person {at:09}" for at in numbers]),
            "sex": pa.array(["f", "m", None]).take(pa.array(numbers % 3)),
            "age": pa.array(numbers % 90, mask=numbers % 7 == 0),
            "day": days,
            "income": pa.array(numbers / 8),
        }
    )
    if kind == "arrow":
        return table
    return table.to_pandas() if kind == "pandas" else pl.from_arrow(table)


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_frames_are_not_copied_within_a_limit(kind: str) -> None:
    frame = frame_of(kind, 20_000)
    plain = sf.table(frame, engine="memory")
    before = pa.total_allocated_bytes()
    limited = sf.table(frame, budget=sf.Budget(memory=5 << 20))
    assert pa.total_allocated_bytes() - before < 1 << 16
    assert limited.engine.kind == "duckdb"
    assert limited.schema == plain.schema
    assert limited.fingerprint() == plain.fingerprint()
    for columns in (["who"], ["sex", "age"], ["day", "income"]):
        assert limited.class_sizes(columns) == plain.class_sizes(columns)
    limited.close()
    few = frame[["sex", "age"]] if kind != "arrow" else frame.select(["sex", "age"])
    assert sf.table(few, budget=sf.Budget(memory=5 << 20)).engine.kind == "memory"


def test_lazy_frames_are_refused_within_a_limit(tmp_path: Path) -> None:
    """Nobody knows what polars will take."""
    lazy = pl.from_arrow(frame_of("arrow", 2_000)).lazy()  # type: ignore[union-attr]
    with pytest.raises(SourceError, match=r"no memory limit.*sink_parquet\(.*give no limit"):
        sf.scan(lazy, budget=sf.Budget(memory=256 << 20))
    lazy.sink_parquet(tmp_path / "people.parquet", row_group_size=16_384)
    found = sf.scan(tmp_path / "people.parquet", budget=sf.Budget(memory=256 << 20))
    assert found.rows == sf.scan(lazy).rows == 2_000


def test_few_numbers_of_persons_are_spelled_at_a_time() -> None:
    """Every step of it holds another copy of them."""
    opened = sf.table(frame_of("arrow", 20_000))
    spelled = list(Persons(opened, "who").plain())
    assert max(map(len, spelled)) <= 1 << 14
    assert len(pa.concat_arrays(spelled).unique()) == 20_000


def test_cells_of_another_type_are_found_before_work_starts() -> None:
    late = [*range(140_000), "secret"]  # after the first batch
    for cells in (late, late[::-1]):
        with pytest.raises(ColumnError, match="`x` mixes values of different types") as caught:
            sf.table(pd.DataFrame({"x": cells}), budget=sf.Budget(memory=1 << 30))
        assert "secret" not in str(caught.value)


FRAMES = """
import gc, sys
import duckdb, numba, pandas, polars, pyarrow as pa, sqlglot
import sfumato as sf
from sfumato.engines.spool import give_back
sys.path.insert(0, sys.argv[1])
from test_memory_promise import frame_of

def held(what):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(what)) >> 10

for name in sf.__all__:
    getattr(sf, name)
frame = frame_of(sys.argv[2], 1_000_000)
gc.collect(), give_back()
with open("/proc/self/clear_refs", "w") as peak:
    peak.write("5")
before = held("VmRSS:")
getattr(sf, sys.argv[3])(frame, budget=sf.Budget(memory=256 << 20))
print(held("VmHWM:") - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
@pytest.mark.parametrize("verb", ["measure", "scan"])
def test_nor_with_frames(kind: str, verb: str) -> None:
    program = [sys.executable, "-c", FRAMES, str(Path(__file__).parent), kind, verb]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    assert int(done.stdout) <= TOLERATED * 256


def test_a_line_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("age,text\n30,a\n40," + "x" * (5 << 20) + "\n")
    with pytest.raises(SourceError, match=r"a row is longer than 2 MB\. .* allow more memory"):
        sf.table(path, budget=sf.Budget(memory=64 << 20)).class_sizes(["age"])
    assert sf.table(path, budget=sf.Budget(memory=1 << 30)).class_sizes(["age"]).classes == 2


def test_long_texts_of_an_arrow_file_are_counted_before_it_is_read(tmp_path: Path) -> None:
    rows = pq.read_table(letters(tmp_path / "letters.parquet", 2_000, 1, 4_000))
    feather.write_feather(rows, tmp_path / "letters.arrow", compression="uncompressed")
    limits = (sf.Budget(memory=4 << 20), sf.Budget(memory=512 << 20))
    kinds = [sf.table(tmp_path / "letters.arrow", budget=b).engine.kind for b in limits]
    assert kinds == ["duckdb", "memory"]


def test_combinations_of_long_texts_take_more_than_others(tmp_path: Path) -> None:
    opened = sf.table(letters(tmp_path / "letters.parquet", 2_000, 1, 4_000), engine="duckdb")
    budget = sf.Budget(memory=16 << 20)
    with pytest.raises(
        EngineError, match="distinct combinations of 2 columns, too many to be held"
    ):
        opened.classes(budget=budget)
    assert opened.classes(["age"], budget=budget).entries == 72
    opened.close()


def test_groups_of_rows_that_duckdb_could_not_hold_are_copied(tmp_path: Path) -> None:
    """It is given less than the limit, and a group of rows is held beside what it works on."""
    numbers = np.random.default_rng(2).integers(0, 1 << 60, 100_000)
    pq.write_table(pa.table({"number": numbers}), tmp_path / "numbers.parquet")
    opened = sf.table(tmp_path / "numbers.parquet", engine="memory")
    source: Any = opened.engine.source  # type: ignore[attr-defined]
    source.memory = 16 << 20
    for given, copied in (("12MiB", False), ("6MiB", True)):
        with duckdb.connect(config={"memory_limit": given, "threads": 1}) as connection:
            assert len(source.relation(connection)) == 100_000
        assert (source._copied is not None) == copied
    source.close()


def test_columns_are_numbered_where_their_values_fit() -> None:
    """A sample shows a larger share of the values than all rows do."""
    rows, limit = np.arange(20_000), sf.Budget(memory=4_200_000)
    for many, fit in ((20_000, False), (6_000, True)):
        numbers = np.random.default_rng(4).permutation(rows) % many
        for cells in (pa.array(numbers), pa.array(numbers).cast(pa.decimal128(21, 2))):
            with sf.table(pa.table({"number": cells}), engine="duckdb") as opened:
                assert (coded_rows(opened.engine, opened.columns, limit) is not None) == fit
                fit = False  # decimals are numbered as texts are, and take more


def names(rows: int, many: int) -> pa.Table:
    """A table of so many names, and of towns."""
    at = np.random.default_rng(9).permutation(rows)
    towns = [f"town {one % 1_100:05}" for one in at]
    return pa.table({"name": [f"name {one % many:09}" for one in at], "town": towns})


def test_texts_and_labels_are_counted_before_work_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_parts, "LEAST_OF_PARTS", 1 << 20)
    asked: dict[str, Any] = {"qi": ["name", "town"], "k": 5, "rows_are_people": True}
    little, more = sf.Budget(memory=4 << 20), sf.Budget(memory=16 << 20)
    with pytest.raises(ParameterError, match=r"`name` has more than 4,096 .* allow more memory"):
        sf.anonymize(names(6_000, 6_000), **asked, budget=little)
    made = sf.anonymize(names(6_000, 2_000), **asked, budget=little)
    low, high = made.details["in_parts"]["rows"]
    assert made.details["in_parts"]["parts"] > 1
    assert high < 3 * low  # texts are cut by their order, and not only the most common ones
    assert "in_parts" not in sf.anonymize(names(6_000, 6_000), **asked, budget=more).details


def test_values_that_become_pseudonyms_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would be held and joined as a whole: in parts, those of a part are."""
    (tmp_path / "key").write_text(sha256(b"names").hexdigest())
    (tmp_path / "key").chmod(0o600)
    rows = letters(tmp_path / "people.parquet", 20_000, 1, 40)
    pq.write_table(pq.read_table(rows), rows, use_dictionary=False)  # one would not fit so little
    asked: dict[str, Any] = {"qi": ["age"], "k": 5, "rows_are_people": True}
    replaced = {**asked, "pseudonyms": ["text0"], "key_file": str(tmp_path / "key")}
    monkeypatch.setattr(columnar, "_BESIDE", 0)
    limit = sf.Budget(memory=4 << 20)
    kept = sf.anonymize(rows, **asked, budget=limit)
    assert "in_parts" not in kept.details
    with pytest.raises(EngineError, match="solving it in parts takes at least 384 MiB"):
        sf.anonymize(rows, **replaced, budget=limit)
    with pytest.raises(EngineError, match="cannot be solved in parts: method `full-domain`"):
        sf.anonymize(rows, **replaced, method="full-domain", budget=limit)
    monkeypatch.setattr(in_parts, "LEAST_OF_PARTS", 1 << 20)
    made = sf.anonymize(rows, **replaced, output=tmp_path / "parts.parquet", budget=limit)
    assert made.details["in_parts"]["parts"] > 1
    whole = sf.anonymize(rows, **replaced, output=tmp_path / "whole.parquet")
    assert "in_parts" not in whole.details
    shown = [pq.read_table(tmp_path / f"{name}.parquet")["text0"] for name in ("parts", "whole")]
    assert shown[0].equals(shown[1])


@pytest.mark.slow
@pytest.mark.parametrize(("megabytes", "ends"), [(256, REFUSED), (384, 0)])
def test_nor_with_pseudonyms_that_differ(tmp_path: Path, megabytes: int, ends: int) -> None:
    (tmp_path / "key").write_text(sha256(b"names").hexdigest())
    (tmp_path / "key").chmod(0o600)
    letters(tmp_path / "people.parquet", 1_500_000, 2, 40)
    asked = ["anonymize", "TABLE", "-k", "5", "--qi", "age", "--rows-are-people"]
    asked += ["--pseudonyms", "text0,text1", "--key-file", "key", "-o", "release.parquet"]
    code, grown, told = growth(tmp_path, asked, megabytes)
    assert code == ends, told
    assert grown <= TOLERATED * megabytes


def test_long_texts_and_sensitive_values_of_parts_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """All values of a column are held while parts are solved."""
    monkeypatch.setattr(in_parts, "LEAST_OF_PARTS", 1 << 20)
    rows = names(6_000, 2_000).append_column("note", pa.array([f"{n}" for n in range(6_000)]))
    long = rows.set_column(0, "name", pc.binary_repeat(rows["name"], 20))
    asked: dict[str, Any] = {"qi": ["name", "town"], "k": 5, "rows_are_people": True}
    little = sf.Budget(memory=4 << 20)
    with pytest.raises(ParameterError, match=r"`name` has more than \d{3} .* allow more memory"):
        sf.anonymize(long, **asked, budget=little)
    with pytest.raises(ParameterError, match=r"`note` has more than .* allow more memory"):
        sf.anonymize(rows, **asked, sensitive=["note"], l=2, budget=little)


def test_files_that_are_written_whole_count_the_texts_of_labels(tmp_path: Path) -> None:
    rows = names(3_000, 3_000).append_column("age", pa.array(np.arange(3_000) % 5))
    asked: dict[str, Any] = {"qi": ["name", "age"], "method": "lattice", "rows_are_people": True}
    limit = sf.Budget(memory=64 << 20)
    with pytest.raises(EngineError, match=r"until a file of JSON lines is written .* Parquet or"):
        sf.anonymize(rows, **asked, k=5, output=tmp_path / "release.jsonl", budget=limit)
    assert not list(tmp_path.iterdir())


def test_texts_that_differ_count_as_often_as_they_are_held(tmp_path: Path) -> None:
    path = letters(tmp_path / "letters.parquet", 20_000, 1, 1_000)
    csv.write_csv(pq.read_table(path), tmp_path / "letters.csv")
    for place, little in ((path, 200 << 20), (tmp_path / "letters.csv", 170 << 20)):
        limits = (sf.Budget(memory=little), sf.Budget(memory=512 << 20))
        kinds = [sf.table(place, budget=limit).engine.kind for limit in limits]
        assert kinds == ["duckdb", "memory"]


def test_rare_texts_that_are_long_count_by_their_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is held are values: their cells are few, and say little of their length."""
    monkeypatch.setattr(in_parts, "LEAST_OF_PARTS", 1 << 20)
    texts = pa.array(["a"] * 4_800 + [f"{at:04}" * 300 for at in range(1_200)])
    rows = pa.table({"name": texts, "age": np.arange(6_000) % 50})
    with sf.table(rows, engine="duckdb") as opened:
        assert opened.engine.text_bytes(["name"])["name"] < 250  # type: ignore[attr-defined]
        length = opened.engine.value_bytes(["name"])["name"]  # type: ignore[attr-defined]
        assert 1_190 < length < 1_200
        with pytest.raises(EngineError, match="too many to be held"):
            opened.classes(["name"], budget=sf.Budget(memory=2 << 20))
        with pytest.raises(ParameterError, match=r"`name` has more than \d{3} distinct values"):
            sf.anonymize(
                opened, qi=["name", "age"], k=5, rows_are_people=True,
                budget=sf.Budget(memory=4 << 20),
            )  # fmt: skip


def test_values_are_counted_and_measured_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = pa.array([None, "", *["é" * 90] * 48, *(f"{at:04}" * 300 for at in range(50))])
    rows, asked = pa.table({"name": texts}), []
    figures = SQLEngine._figures

    def told(self: Any, statement: Any, *how: Any) -> Any:
        asked.append(statement)
        return figures(self, statement, *how)

    monkeypatch.setattr(SQLEngine, "_figures", told)
    found = []
    for counted in (True, False):
        with sf.table(rows, engine="duckdb") as opened:
            if counted:
                assert opened.class_sizes(["name"]).classes == 53
            found.append(opened.engine.value_bytes(["name"]))  # type: ignore[attr-defined]
    assert found[0] == found[1]
    assert len(asked) == 2 + 2  # each time how long cells are, and one look at values


def test_texts_that_every_row_would_list_are_refused_before_rows_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(in_parts, "LEAST_OF_PARTS", 1 << 20)
    rows = names(6_000, 3_000).append_column("age", pa.array(np.arange(6_000) % 50))
    few = rows.append_column("day", pa.array(np.arange(6_000) // 2))
    asked: dict[str, Any] = {"k": 2, "method": "lattice", "rows_are_people": True}
    little = sf.Budget(memory=6 << 20)
    with pytest.raises(
        EngineError, match=r"cells of `name` would list about 119 texts .* hierarch"
    ):
        sf.anonymize(rows, qi=["name", "age"], **asked, budget=little)
    made = sf.anonymize(few, qi=["name", "age", "day"], **asked, budget=little)
    assert made.details["in_parts"]["parts"] > 1
    # One age of half of the rows lists far more than others, and rare names may be the long ones.
    age = np.where(np.arange(6_000) % 2, 0, np.arange(6_000) // 2)
    uneven = rows.set_column(2, "age", pa.array(age))
    lengths = np.where(np.arange(6_000) < 5_000, 0, np.arange(6_000))
    long = pa.array([f"{at:04}" * 50 if at else "a" for at in lengths])
    rare = rows.set_column(0, "name", long).set_column(2, "age", pa.array(lengths % 50))
    for table, told in ((uneven, r"about [12],\d{3}"), (rare, r"about 2\d")):
        for engine in ("duckdb", "memory"):
            opened = sf.table(table, engine=engine)
            with pytest.raises(EngineError, match=f"cells of `name` would list {told} texts"):
                in_parts._refuse_long_labels(
                    opened, Request().overridden({**asked, "qi": ["name", "age"]}).opened(opened),
                    little,
                )  # fmt: skip


def test_parts_know_how_much_memory_they_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_parts, "LEAST_OF_PARTS", 1 << 20)
    limits, solved = set(), in_parts.solve
    monkeypatch.setattr(
        in_parts, "solve", lambda *given: (limits.add(given[2].memory), solved(*given))[1]
    )
    asked: dict[str, Any] = {"qi": ["name", "town"], "k": 5, "rows_are_people": True}
    sf.anonymize(names(6_000, 2_000), **asked, budget=sf.Budget(memory=4 << 20))
    assert limits == {2 << 20}


def test_what_groups_lose_takes_the_memory_of_one_group() -> None:
    """Where a text has many values, those that a group shows are as many bits."""
    table = sf.table(names(20_000, 20_000), engine="memory")
    request = Request().overridden({"qi": ["name"], "k": 2}).opened(table)
    problem = prepare(table, request, sf.Budget(threads=1))
    search = Search(problem, allowed_blocks(problem), np.arange(20_000) // 2)
    lost = search.loss()  # compiled
    tracemalloc.start()
    assert search.loss() == lost == pytest.approx(20_000 / 19_999)
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()


def test_long_labels_of_parts_are_laid_aside_and_merged_some_at_a_time(tmp_path: Path) -> None:
    """Batches have dictionaries of what they show, and are as small as it takes."""
    label = pa.array([f"{at:04}" * 500 for at in range(300)])
    aside = InOrder(tmp_path, "at", most=1 << 16)
    for part in (0, 1):
        at = np.arange(part, 6_000, 2)
        shown = pa.DictionaryArray.from_arrays(pa.array(at // 20, pa.int32()), label)
        aside.add(pa.table({"at": at, "label": shown}))
    sizes = [batch.nbytes for path in aside._paths for batch in pa.ipc.open_stream(path)]
    assert max(sizes) <= 1 << 16
    assert aside.row_bytes < 300
    cells = [aside.before(end) for end in range(1_000, 7_000, 1_000)]
    assert [len(c) for c in cells if c is not None] == [1_000] * 6
    told = pa.Table.from_batches([c for c in cells if c is not None]).to_pydict()
    assert told == {"at": [*range(6_000)], "label": [f"{n // 20:04}" * 500 for n in range(6_000)]}


def test_groups_of_rows_end_where_their_labels_are_many(tmp_path: Path) -> None:
    """The same rows give the same groups, however they come; labels count once in each."""
    label = pa.array([f"{at:06}" * 500 for at in range(20_000)])
    field = marked_as_labels(pa.field("label", pa.string()))
    groups = []
    for cut, order in ((40_000, 1), (7_000, 1), (40_000, 20_000)):
        which = np.arange(40_000) // 2 if order == 1 else np.arange(40_000) % 50
        shown = pa.DictionaryArray.from_arrays(pa.array(which, pa.int32()), label)
        rows = pa.table({"label": shown}).to_batches(max_chunksize=cut)
        place = tmp_path / f"{len(groups)}.parquet"
        staged = stage_batches(rows, pa.schema([field]), str(place), reopen=lambda source: source)
        staged.commit()
        held = pq.ParquetFile(place)
        several = range(held.num_row_groups)
        groups.append([held.metadata.row_group(at).num_rows for at in several])
        assert held.read()["label"].to_pylist() == [label[at].as_py() for at in which.tolist()]
    assert groups[0] == groups[1]
    assert max(groups[0]) < 12_000
    assert groups[2] == [40_000]


def test_classes_that_the_database_cannot_count_are_counted_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = people(tmp_path / "people.parquet", 2_000)
    asked: dict[str, Any] = {
        "qi": ["age", "sex", "zip"],
        "sensitive": ["diagnosis"],
        "k": 5,
        "l": 2,
    }
    sf.anonymize(rows, **asked, output=tmp_path / "release.parquet")
    counted = SQLEngine.over_classes

    def failing(*given: Any, grouped: bool = True, **named: Any) -> pa.Table:
        if grouped:
            raise EngineMemoryError("too wide", remedy="None.")
        return counted(*given, grouped=grouped, **named)

    opened = sf.table(tmp_path / "release.parquet", engine="duckdb")
    little = sf.Budget(memory=1 << 20)
    plain = sf.verify(opened, budget=little)
    monkeypatch.setattr(SQLEngine, "over_classes", failing)
    assert sf.verify(opened, budget=little).to_dict() == plain.to_dict()
    assert plain.holds


def test_classes_of_many_values_are_improved_some_at_a_time() -> None:
    """Each of them remembers by a bit which values it shows."""
    table = sf.table(names(3_000, 3_000), engine="memory")
    request = Request().overridden({"qi": ["name", "town"], "k": 2}).opened(table)
    parts = []
    for memory in (None, 256 << 20, 16 << 20):
        problem = prepare(table, request, sf.Budget(memory=memory, threads=1))
        search = Search(problem, allowed_blocks(problem), np.arange(3_000) // 2)
        cut = _parts(problem, search.blocks, 0, entries_that_fit(problem, search.prices))
        parts.append(len(cut))
        assert sum(len(part.order) for part in cut) == 3_000
    assert parts[:2] == [1, 1]
    assert parts[2] > 1


def test_k_map_that_does_not_fit_is_solved_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = people(tmp_path / "people.parquet", 2_000)
    asked = {"qi": QI.split(","), "k_map": 5, "population": rows}
    with pytest.raises(EngineError, match="solving it in parts takes at least 384 MiB"):
        sf.anonymize(rows, **asked, budget=sf.Budget(memory=2 << 20))
    monkeypatch.setattr(in_parts, "LEAST_OF_PARTS", 1 << 20)
    made = sf.anonymize(rows, **asked, budget=sf.Budget(memory=2 << 20))
    assert made.verified
    assert made.details["in_parts"]["parts"] > 1
    assert "in_parts" not in sf.anonymize(rows, **asked).details


def test_what_is_solved_as_a_whole_goes_by_how_many_combinations_there_can_be(
    tmp_path: Path,
) -> None:
    """A sample of 20,000 rows suggests more of them than values could form."""
    rows = people(tmp_path / "people.parquet", 40_000)
    limit = sf.Budget(memory=7_600_000)
    asked: dict[str, Any] = {"k": 10, "method": "full-domain", "budget": limit}
    made = sf.anonymize(rows, qi=["age", "sex", "state"], **asked)
    assert made.verified
    with pytest.raises(EngineError, match="method `full-domain` treats the whole table alike"):
        sf.anonymize(rows, qi=["age", "sex", "state", "job"], **asked)


def test_tables_that_do_not_fit_together_are_refused_before_their_rows_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = np.arange(600)
    stays = {"patient": numbers % 200, "ward": pa.array(["A", "B"]).take(pa.array(numbers % 2))}
    house = {
        "person": "patients.id",
        "tables": {
            "patients": {"source": pa.table({"id": numbers[:200], "sex": numbers[:200] % 2})},
            "stays": {"source": pa.table(stays)},
        },
    }
    (tmp_path / "key").write_text(sha256(b"tables").hexdigest())
    (tmp_path / "key").chmod(0o600)
    asked: dict[str, Any] = {"qi": ["patients.sex", "stays.ward"], "k": 3}
    linked = {**asked, "linkable": True, "m": 1, "key_file": str(tmp_path / "key")}
    little, more, plenty = (sf.Budget(memory=size) for size in (500_000, 2_500_000, 4_000_000))
    told = r"800 rows of 2 tables take about \d+ MiB together, more than the \d MiB allowed"
    for demanded in (asked, linked):
        with pytest.raises(EngineError, match=told):
            sf.relational.anonymize(house, **demanded, budget=little)
    with pytest.raises(EngineError, match=told):
        sf.relational.scan(house, budget=little)
    assert sf.relational.scan(house, budget=more).alone is not None
    with pytest.raises(EngineError, match=told):  # what is done with histories takes more
        sf.relational.anonymize(house, **linked, budget=more)
    sf.relational.anonymize(house, **linked, output=tmp_path / "out", budget=plenty)
    with pytest.raises(EngineError, match=told):
        sf.relational.verify(tmp_path / "out", budget=little)
    with pytest.raises(EngineError, match=told.replace("800 rows of 2", "1,600 rows of 4")):
        sf.relational.attack(tmp_path / "out", house, budget=plenty)
    found = sf.relational.attack(tmp_path / "out", house)
    monkeypatch.setattr(joined_attack, "_PAIR_BYTES", 1 << 40)  # not one pair is remembered
    assert sf.relational.attack(tmp_path / "out", house) == found


def test_a_population_is_read_within_the_limit(tmp_path: Path) -> None:
    rows = people(tmp_path / "people.parquet", 2_000)
    request, opened = (
        Request().overridden({"qi": ["age"], "k_map": 5, "population": rows}),
        sf.table(rows),
    )
    engines = [
        request.opened(opened, b).population.engine.kind for b in (None, sf.Budget(memory=9_000))
    ]
    assert engines == ["memory", "duckdb"]


def test_comparing_more_rows_than_fit_is_refused_before_it_starts(tmp_path: Path) -> None:
    rows = people(tmp_path / "people.parquet", 2_000)
    with pytest.raises(EngineError, match=r"comparing 2,000 rows takes about 0 MiB, more than"):
        compare(rows, rows, qi=["age", "sex"], budget=sf.Budget(memory=100_000))
    compare(rows, rows, qi=["age", "sex"], budget=sf.Budget(memory=2_000_000))
    long = names(300, 300).append_column("row", pa.array(np.arange(300)))
    shown = long.set_column(
        0, "name", pa.array(["{" + ", ".join(long["name"].to_pylist()) + "}"] * 300)
    )
    pq.write_table(shown, tmp_path / "shown.parquet")
    asked: dict[str, Any] = {"qi": ["name"], "row_key": "row"}
    for engine in ("duckdb", "memory"):
        with sf.table(tmp_path / "shown.parquet", engine=engine) as opened:
            with pytest.raises(EngineError, match=r"comparing 300 rows takes about \d MiB, more"):
                compare(opened, long, **asked, budget=sf.Budget(memory=4 << 20))
            compare(opened, long, **asked, budget=sf.Budget(memory=64 << 20))


def flags(rows: int, columns: int) -> pa.Table:
    """A table of many columns with few values each."""
    random = np.random.default_rng(8)
    return pa.table({f"c{at}": random.integers(0, 3 + at % 5, rows) for at in range(columns)})


def test_narrow_columns_are_searched_as_codes_where_combinations_do_not_fit() -> None:
    """The same is found as in memory, and DuckDB is not asked for every set of columns."""
    rows = flags(2_000, 30)
    opened = sf.table(rows, engine="duckdb")
    plain = sf.table(rows, engine="memory").codes(None)
    scarce = sf.Budget(memory=700_000)
    for apart in (False, True):
        codes = coded_rows(opened.engine, opened.columns, scarce, apart=apart)
        assert codes is not None
        assert (codes.entries, codes.cardinalities) == (2_000, plain.cardinalities)
        assert all(map(np.array_equal, codes.arrays, plain.arrays))
        assert (
            coded_rows(opened.engine, opened.columns, sf.Budget(memory=300_000), apart=apart)
            is None
        )
    assert coded_rows(opened.engine, opened.columns, sf.Budget()) is None
    asked: dict[str, Any] = {"budget": scarce}
    few = sf.table(rows, engine="duckdb", columns=[f"c{at}" for at in range(30)])
    assert sf.minimum_key(few, **asked).columns == sf.minimum_key(rows).columns
    assert sf.violations(few, k=2, max_size=2, **asked).minimal == (
        sf.violations(rows, k=2, max_size=2).minimal
    )
    for measure in ("distinct", "separation"):
        masked = [
            sf.mask(one, measure=measure, beta=0.9, explain=False, rows_are_people=True, budget=b)
            for one, b in ((few, scarce), (rows, None))
        ]
        assert masked[0].details["published"] == masked[1].details["published"]
    found = sf.uniques(few, max_size=1, **asked)
    assert found.by_size == sf.uniques(rows, max_size=1).by_size
    opened.close()


def test_sets_that_cannot_be_remembered_are_refused_before_they_are_looked_at() -> None:
    rows = flags(2_000, 30)
    told = r"sets of up to 4 columns out of 30 takes about \d+ MiB, more than the 1 MiB allowed"
    with pytest.raises(EngineError, match=told + r"\. .* smaller sets \(max_size=3\)"):
        sf.uniques(rows, max_size=4, budget=sf.Budget(memory=1 << 20))
    assert sf.uniques(rows, max_size=1, budget=sf.Budget(memory=1 << 20)).complete


def test_levels_of_too_many_sets_are_not_begun() -> None:
    asked: list[tuple[int, ...]] = []

    def good(columns: tuple[int, ...]) -> bool:
        asked.append(columns)
        return columns == (7,)

    found = levelwise(60, good, 3, sf.Budget(memory=1 << 20))
    assert (found.sets, found.complete, found.stopped_by) == (((7,),), False, "too many sets")
    assert max(map(len, asked)) == 2
    assert levelwise(60, good, 2, sf.Budget(memory=1 << 20)).stopped_by is None
    assert max(map(len, asked)) == 2
    # A database would be asked about 32,509 sets of three; with a time limit that is its affair.
    for seconds, stopped in ((None, "too many sets"), (600, None)):
        there = levelwise(60, good, 3, sf.Budget(seconds=seconds), ahead=lambda _: None)
        assert (there.stopped_by, there.sets) == (stopped, ((7,),))


def test_violations_are_the_same_where_memory_is_scarce(tmp_path: Path) -> None:
    rows = people(tmp_path / "people.parquet", 2_000)
    opened = sf.table(rows, engine="memory")
    plain, scarce = (sf.violations(opened, k=3, budget=b) for b in (None, sf.Budget(memory=4000)))
    assert set(plain.minimal) == set(scarce.minimal)


def few_texts(path: Path, rows: int, columns: int, many: int, length: int) -> pa.Table:
    """A table of few texts, of ages and of areas: nearly all combinations are different."""
    random = np.random.default_rng(3)
    table: dict[str, Any] = {
        "age": random.integers(18, 90, rows),
        "zip": random.integers(0, 900, rows),
    }
    for at in range(columns):
        cells = random.integers(97, 123, (many, length), dtype=np.uint8)
        texts = pa.array([bytes(cell).decode() for cell in cells])
        which = pa.array(random.integers(0, many, rows), pa.int32())
        table[f"text{at}"] = pa.DictionaryArray.from_arrays(which, texts)
    pq.write_table(pa.table(table), path, row_group_size=100_000)
    return pa.table(table)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "more"),
    [((60_000, 1, 500, 2_000), ["--parts", "4"]), ((150_000, 10, 50, 60), [])],
    ids=["long", "many"],
)
def test_nor_where_few_texts_make_many_labels(
    tmp_path: Path, shape: tuple[int, int, int, int], more: list[str]
) -> None:
    rows = few_texts(tmp_path / "people.parquet", *shape)
    names = ",".join(rows.column_names if more else rows.column_names[2:])
    asked = ["anonymize", "TABLE", "-k", "5", "--qi", names, "--rows-are-people", *more]
    code, grown, told = growth(tmp_path, [*asked, "-o", "release.parquet"], 384)
    assert code in ENDINGS, told
    assert grown <= TOLERATED * 384


def test_labels_of_few_texts_are_counted_by_combinations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_parts, "LEAST_OF_PARTS", 1 << 20)
    rows = few_texts(tmp_path / "people.parquet", 3_000, 1, 50, 1_000)
    asked: dict[str, Any] = {"k": 5, "rows_are_people": True, "budget": sf.Budget(memory=8 << 20)}
    for engine in ("memory", "duckdb"):
        opened = sf.table(rows, engine=engine)
        made = sf.anonymize(opened, qi=["age", "zip", "text0"], **asked)
        assert made.details["in_parts"]["parts"] > 1
        whole = sf.anonymize(opened, qi=["text0"], **asked)  # as many combinations as texts
        assert "in_parts" not in whole.details


def test_cuts_list_fewer_values_where_these_would_not_fit(tmp_path: Path) -> None:
    """Each of them stands beside all rows."""
    rows = few_texts(tmp_path / "people.parquet", 6_000, 1, 300, 20)
    budget = sf.Budget(memory=384 << 20)
    request = Request.of({"qi": ["age", "text0"], "k": 5}).opened(sf.table(rows))
    with sf.table(rows, engine="duckdb", budget=budget) as opened:
        whole, most = Whole.of(opened, request, budget), opened.engine.connection.most_cuts()  # type: ignore[attr-defined]
        for listed in (None, most):
            sample = opened.sample(6_000, request.qi_columns, 0)
            parting = plan_parts(sample, whole, request, 32, listed=listed)
            assert parting.parts == 32
            values = sum(len(cut.values) for cut in parting.cuts)
            assert (values <= most) == (listed is not None)
    assert sf.table(rows, engine="duckdb").engine.connection.most_cuts() is None  # type: ignore[attr-defined]


@pytest.mark.parametrize("type_", [pa.string(), pa.binary()])
def test_a_cell_that_could_not_be_moved_is_refused_before_rows_come(
    tmp_path: Path, type_: pa.DataType
) -> None:
    cells = pa.array([*(f"note {at}" for at in range(2_000)), "x" * (9 << 20)]).cast(type_)
    rows = pa.table({"age": np.arange(2_001) % 50, "note": cells})
    pq.write_table(rows, tmp_path / "people.parquet")
    told = "a cell of `note` is 9 MiB long, which takes more than the 256 MiB allowed"
    asked: dict[str, Any] = {"rows_are_people": True}
    for memory in (256, 512):
        budget = sf.Budget(memory=memory << 20)
        with sf.table(tmp_path / "people.parquet", engine="duckdb", budget=budget) as opened:
            if memory == 512:
                assert sf.mask(opened, beta=0.5, **asked, budget=budget).verified
                continue
            with pytest.raises(EngineError, match=told) as caught:
                sf.anonymize(opened, qi=["age"], k=2, **asked, budget=budget)
            assert "xxx" not in str(caught.value)
            with pytest.raises(EngineError, match=told):
                sf.mask(opened, beta=0.5, **asked, budget=budget)
            with pytest.raises(EngineError, match=told):
                sf.scan(opened, budget=budget)


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["scan", "key", "mask"])
def test_nor_with_few_very_long_cells(tmp_path: Path, verb: str) -> None:
    short = [f"note {at % 1000}" for at in range(200_000)]
    short[7::50_000] = ["x" * (7 << 20)] * 4
    age = np.random.default_rng(3).integers(18, 90, 200_000)
    rows = pa.table({"age": age, "zip": np.arange(200_000) // 3, "note": short})
    pq.write_table(rows, tmp_path / "people.parquet", row_group_size=50_000)
    code, grown, told = growth(tmp_path, VERBS[verb], 256)
    assert code in ENDINGS, told
    assert grown <= TOLERATED * 256


@pytest.mark.postgres
def test_a_file_made_of_rows_of_a_database_is_read_back_within_the_limit(
    postgres: Any, postgres_schema: str, tmp_path: Path
) -> None:
    with postgres.connect() as connection:
        connection.execute(f"CREATE TABLE {postgres_schema}.few AS SELECT 1 AS a, 'x' AS b")
    limit = sf.Budget(memory=300 << 20, threads=1)
    with sf.table(f"{postgres.url}#{postgres_schema}.few", budget=limit) as opened:
        staged = opened.engine.stage(Recoding(), str(tmp_path / "few.parquet"), budget=limit)
        engine: Any = staged.engine()
        assert (engine.connection.memory, engine.connection.threads) == (300 << 20, 1)
        assert engine.source.memory == 300 << 20
        engine.close()
        staged.discard()


@pytest.mark.postgres
def test_a_release_with_long_labels_is_counted_in_the_database(
    postgres: Any, postgres_schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its combinations do not fit, though those of so many rows of short cells would."""
    monkeypatch.chdir(tmp_path)  # where its certificate goes
    monkeypatch.setattr(in_parts, "LEAST_OF_PARTS", 1 << 20)
    with postgres.connect() as connection:
        connection.execute(
            f"CREATE TABLE {postgres_schema}.people AS SELECT n * 7919 % 72 AS age, "
            "n * 104729 % 900 AS zip, repeat(md5((n * 31 % 50)::text), 32) AS text "
            "FROM generate_series(1, 3000) AS n"
        )
    place, limit = f"{postgres.url}#{postgres_schema}.", sf.Budget(memory=8 << 20)
    asked: dict[str, Any] = {"k": 5, "qi": ["age", "zip", "text"], "rows_are_people": True}
    with sf.table(place + "people", budget=limit) as opened:
        made = sf.anonymize(opened, **asked, output=place + "release", budget=limit)
    assert made.verified
    assert made.k >= 5
