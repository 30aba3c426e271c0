"""Where rows live: the same release from memory, out of core, from PostgreSQL and from Spark.

Ten columns, nearly all combinations different, Mondrian with k = 10, from Parquet or a table there
to a verified release there. Each release is made in a process of its own, after one of a few rows
that loads what is needed. CPU seconds are those of the program and of the server together. Losses
must agree within one percent.

How much two cores can gain is measured beside: two releases at once that share nothing but the
machine.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, chdir, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sfumato as sf
from benchmarks.runner import Comparison, Measured, cache_folder, compile_first, report

SIZES = (91, 2, 5, 7, 17, 50, 9, 15, 400, 120)
QI = tuple(f"c{at}" for at in range(len(SIZES)))
K = 10
MANY, SOME, FEW = 5_000_000, 1_000_000, 20_000
MEMORY = "512MB"
TESTS = Path(__file__).parents[1] / "tests"


def table(rows: int) -> Path:
    """A file of ten columns of independent, equally common values."""
    path = cache_folder() / f"ten-{rows}.parquet"
    if not path.exists():
        random = np.random.default_rng(5)
        columns = {
            name: random.integers(0, size, rows).astype(np.int32)
            for name, size in zip(QI, SIZES, strict=True)
        }
        pq.write_table(pa.table(columns), path.with_suffix(".partial"))
        path.with_suffix(".partial").rename(path)
    return path


def seconds_of(process: int) -> float:
    """CPU seconds of a process and of all that descend from it."""
    used, parents = {}, {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = place.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        parents[int(place.parent.name)] = int(words[1])
        used[int(place.parent.name)] = sum(map(int, words[11:15]))
    wanted = {process}
    while more := {one for one, parent in parents.items() if parent in wanted} - wanted:
        wanted |= more
    return sum(used.get(one, 0) for one in wanted) / os.sysconf("SC_CLK_TCK")


@contextmanager
def postgres(paths: list[Path]) -> Iterator[tuple[list[str], int]]:
    """A server that holds the rows of some files: where they are, and its process."""
    sys.path.insert(0, str(TESTS))
    from servers import running_postgres

    with running_postgres() as server:
        with server.connect() as connection:
            for path in paths:
                columns = ", ".join(f"{name} integer" for name in QI)
                connection.execute(f'CREATE TABLE "{path.stem}" ({columns})')
                with connection.cursor().copy(f'COPY "{path.stem}" FROM STDIN') as copy:
                    for batch in pq.ParquetFile(path).iter_batches(100_000):
                        for row in zip(*(column.to_pylist() for column in batch), strict=True):
                            copy.write_row(row)
            connection.execute("VACUUM ANALYZE")
        leader = int((server.folder / "data" / "postmaster.pid").read_text().split()[0])
        yield [f"{server.url}#{path.stem}" for path in paths], leader


@contextmanager
def spark(paths: list[Path]) -> Iterator[tuple[list[Any], int]]:
    """The rows of some files as frames of a Spark with a driver of 1 GB, and its process."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory() as folder:
        session = (
            SparkSession.builder.master("local[2]")
            .config("spark.driver.memory", "1g")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.local.dir", folder)
            .config("spark.sql.shuffle.partitions", 8)
            .config("spark.ui.enabled", False)
            .config("spark.ui.showConsoleProgress", False)
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("OFF")
        try:
            leader = SparkContext._gateway.proc.pid
            yield [session.read.parquet(str(path)) for path in paths], leader
        finally:
            session.stop()


def release(place: str, rows: int, threads: int | None) -> dict[str, Any]:
    """Make a release of so many rows where they are; what it took."""
    compile_first()
    paths = [table(FEW), table(rows)]
    with ExitStack() as open_:
        folder = Path(open_.enter_context(tempfile.TemporaryDirectory()))
        open_.enter_context(chdir(folder))  # certificates of what is released to a server
        inputs: list[Any] = list(paths)
        outputs: list[Any] = [folder / "few.parquet", folder / "release.parquet"]
        server = None
        if place == "PostgreSQL":
            inputs, server = open_.enter_context(postgres(paths))
            outputs = [f"{one.split('#')[0]}#released_{at}" for at, one in enumerate(inputs)]
        elif place == "Spark":
            inputs, server = open_.enter_context(spark(paths))
        memory = MEMORY if place == "out of core" else None
        budget = sf.Budget(threads=threads)

        def made(at: int) -> Any:
            with sf.table(inputs[at], memory=memory) as opened:
                return sf.anonymize(opened, output=outputs[at], qi=list(QI), k=K, budget=budget)

        made(0)
        held, wall, cpu = _held(), time.perf_counter(), time.process_time()
        apart = 0.0 if server is None else seconds_of(server)
        found = made(1)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        time.sleep(0.5)  # of a process that is just ending nothing can be read
        apart = 0.0 if server is None else seconds_of(server) - apart
        return {
            "wall": wall,
            "cpu": cpu + apart,
            "server": apart,
            "MiB": (_held() - held) / 2**10,
            "loss": found.utility["ncp"],
            "k": found.k,
        }


def _held() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def apart(place: str, rows: int, threads: int | None = None) -> dict[str, Any]:
    """What `release` tells, from a process of its own."""
    asked = json.dumps([place, rows, threads])
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.scale", asked], stdout=subprocess.PIPE, check=True
    )
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert told["k"] >= K, told
    return told


def _rows_of(place: str) -> int:
    return MANY if place in ("memory", "out of core") else SOME


def main() -> None:
    """Run the benchmark."""
    facts: dict[str, Any] = {}
    comparisons = []
    places = ["memory", "out of core"]
    places += ["PostgreSQL"] if shutil.which("psql") else []
    places += ["Spark"] if shutil.which("java") else []
    apart("memory", SOME)  # compiles what a few rows do not need
    whole = {rows: apart("memory", rows) for rows in (SOME, MANY)}
    for rows, ours in whole.items():
        compared = Comparison(f"{rows // 1_000_000} M rows", {"memory": _measured(ours)})
        facts[f"memory, {rows:,} rows"] = _told(ours)
        for place in places[1:]:
            if rows > _rows_of(place):
                continue
            found = apart(place, rows)
            assert abs(found["loss"] / ours["loss"] - 1) < 0.01, (place, found, ours)
            compared.measured[place] = _measured(found)
            facts[f"{place}, {rows:,} rows"] = _told(found)
        comparisons.append(compared)
    alone = apart("memory", MANY, 1)
    with ThreadPoolExecutor(2) as both:
        beside = list(both.map(lambda _: apart("memory", MANY, 1), range(2)))
    slower = max(one["wall"] for one in beside)
    comparisons.append(
        Comparison(
            f"{MANY // 1_000_000} M rows, threads",
            {"two threads": _measured(apart("memory", MANY, 2)), "one thread": _measured(alone)},
        )
    )
    facts["two releases that share nothing gain by the clock"] = f"{2 * alone['wall'] / slower:.2f}"
    report(
        "scale",
        comparisons,
        data=f"ten columns, nearly all combinations different, Mondrian, k = {K}",
        versions={"sfumato": version("sfumato")},
        facts=facts,
    )


def _measured(told: dict[str, Any]) -> Measured:
    return Measured(told["wall"], told["cpu"])


def _told(found: dict[str, Any]) -> str:
    server = f", {found['server']:.1f} s of it in the server" if found["server"] else ""
    return f"loss {found['loss']:.4f}, grew {found['MiB']:,.0f} MiB{server}"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(release(*json.loads(sys.argv[1]))))
    else:
        main()
