"""Where rows live: the same release from memory, out of core, from PostgreSQL and from Spark.

Ten columns, nearly all combinations different, Mondrian with k = 10, from Parquet or a table there
to a verified release there. Each release is made in a process of its own, after one of a few rows
that loads what is needed. CPU seconds are those of the program and of the server together. Losses
must agree within one percent.

How much two cores can gain is measured beside: two releases at once that share nothing but the
machine.

``python -m benchmarks.scale large`` measures what takes longer, or what is named after it: twenty
million rows of a Spark whose driver has 1 GB (with l = 2, of persons, and their proven minimum
key), fifty million of Parquet within 2 GB, five million in PostgreSQL and on Spark beside memory,
and ten million with one thread and with two, in five pairs. It writes their table in
``docs/scale.md``.
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
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, chdir, contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

import sfumato as sf
from benchmarks.recoding import put
from benchmarks.runner import RESULTS, Comparison, Measured, cache_folder, compile_first, report
from benchmarks.summary import QUIET, others
from sfumato.budget import parse_memory

SIZES = (91, 2, 5, 7, 17, 50, 9, 15, 400, 120)
QI = tuple(f"c{at}" for at in range(len(SIZES)))
K = 10
MANY, SOME, FEW = 5_000_000, 1_000_000, 20_000
TESTS = Path(__file__).parents[1] / "tests"
PAGE = Path(__file__).parents[1] / "docs" / "scale.md"
BLOCK = 5_000_000


@dataclass(frozen=True)
class Task:
    """A release of so many rows where they are, or their proven minimum key.

    Attributes
    ----------
    place
        Where rows are: ``memory``, ``out of core``, ``PostgreSQL`` or ``Spark``.
    sensitive, persons
        Whether l = 2 is asked of a column of 20 values, and k of persons: so many can be drawn.
    key
        Two columns more, and the key is asked for.
    """

    place: str
    rows: int
    threads: int | None = None
    memory: str | None = None
    sensitive: bool = False
    persons: int = 0
    key: bool = False

    @property
    def columns(self) -> dict[str, int]:
        """How many values each column has."""
        sizes = dict(zip(QI, SIZES, strict=True))
        if self.key:
            sizes |= {"c10": 1_000, "c11": 5_000}
        if self.sensitive:
            sizes["finding"] = 20
        if self.persons:
            sizes["person"] = self.persons
        return sizes

    @property
    def asked(self) -> dict[str, Any]:
        """What is asked of a release."""
        asked: dict[str, Any] = {"qi": list(QI), "k": K}
        if self.sensitive:
            asked |= {"sensitive": ["finding"], "l": 2}
        return asked | ({"person": "person"} if self.persons else {"rows_are_people": True})

    def table(self, rows: int) -> Path:
        """A file of so many rows; columns are independent, their values equally common."""
        digest = "-".join(map(str, self.columns.values()))
        path = cache_folder() / f"table-{rows}-{digest}.parquet"
        if not path.exists():
            random = np.random.default_rng(5)
            schema = pa.schema([(name, pa.int32()) for name in self.columns])
            partial = path.with_suffix(".partial")
            with pq.ParquetWriter(partial, schema) as file:
                for start in range(0, rows, BLOCK):
                    many = min(BLOCK, rows - start)
                    file.write_table(
                        pa.table(
                            {
                                name: random.integers(0, size, many).astype(np.int32)
                                for name, size in self.columns.items()
                            }
                        )
                    )
            partial.rename(path)
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
                file = pq.ParquetFile(path)
                columns = ", ".join(f"{name} integer" for name in file.schema_arrow.names)
                connection.execute(f'CREATE TABLE "{path.stem}" ({columns})')
                copied = f'COPY "{path.stem}" FROM STDIN (FORMAT csv)'
                with connection.cursor().copy(copied) as copy:
                    for batch in file.iter_batches(100_000):
                        lines = pa.BufferOutputStream()
                        pcsv.write_csv(batch, lines, pcsv.WriteOptions(include_header=False))
                        copy.write(lines.getvalue().to_pybytes())
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


def told(task: Task) -> dict[str, Any]:
    """Carry a task out; what it took, and how far this process grew."""
    compile_first()
    paths = [task.table(FEW), task.table(task.rows)]
    with ExitStack() as open_:
        folder = Path(open_.enter_context(tempfile.TemporaryDirectory()))
        open_.enter_context(chdir(folder))  # certificates of what is released to a server
        inputs: list[Any] = list(paths)
        outputs: list[Any] = [folder / "few.parquet", folder / "release.parquet"]
        server = None
        if task.place == "PostgreSQL":
            inputs, server = open_.enter_context(postgres(paths))
            outputs = [f"{one.split('#')[0]}#released_{at}" for at, one in enumerate(inputs)]
        elif task.place == "Spark":
            inputs, server = open_.enter_context(spark(paths))
        memory = None if task.memory is None else parse_memory(task.memory)
        budget = sf.Budget(threads=task.threads, memory=memory)

        def made(at: int) -> Any:
            with sf.table(inputs[at], budget=budget) as opened:
                if task.key:
                    return sf.minimum_key(opened, proven=True, budget=budget)
                return sf.anonymize(opened, output=outputs[at], budget=budget, **task.asked)

        made(0)
        held, wall, cpu = _held(), time.perf_counter(), time.process_time()
        apart = 0.0 if server is None else seconds_of(server)
        jobs = _jobs(task)
        found = made(1)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        time.sleep(0.5)  # of a process that is just ending nothing can be read
        apart = 0.0 if server is None else seconds_of(server) - apart
        facts = {
            "wall": wall,
            "cpu": cpu + apart,
            "server": apart,
            "MiB": (_held() - held) / 2**10,
            "jobs": _jobs(task) - jobs,
        }
        if task.key:
            return facts | {"found": f"{len(found.columns)} columns, {'; '.join(found.notes)}"}
        assert (found.verified, found.k >= K) == (True, True), found
        parts = found.details.get("in_parts", {"parts": 1})["parts"]
        return facts | {"loss": found.utility["ncp"], "parts": parts}


def _jobs(task: Task) -> int:
    """Spark's jobs so far."""
    if task.place != "Spark":
        return 0
    from pyspark import SparkContext

    return int(SparkContext._active_spark_context._jsc.sc().dagScheduler().numTotalJobs())


def _held() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def apart(task: Task) -> dict[str, Any]:
    """What is told of a task by a process of its own."""
    asked = json.dumps(asdict(task))
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.scale", asked], stdout=subprocess.PIPE, check=True
    )
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _rows_of(place: str) -> int:
    return MANY if place in ("memory", "out of core") else SOME


LARGE = {
    "10 M in memory": Task("memory", 10_000_000),
    "5 M in PostgreSQL": Task("PostgreSQL", MANY),
    "5 M on Spark": Task("Spark", MANY),
    "50 M of Parquet": Task("out of core", 50_000_000, memory="2GB"),
    "20 M on Spark, l = 2": Task("Spark", 20_000_000, sensitive=True),
    "20 M on Spark, persons": Task("Spark", 20_000_000, persons=6_000_000),
    "key of 20 M on Spark": Task("Spark", 20_000_000, key=True),
}
"""What takes long."""
PAIRS = 5


def pairs(task: Task) -> dict[str, Any]:
    """One thread and two in turns, each in a new process that has made a small release before."""
    found: dict[int, list[dict[str, Any]]] = {1: [], 2: []}
    for _, threads in product(range(PAIRS), found):
        found[threads].append(apart(replace(task, threads=threads)))
    walls = {threads: [one["wall"] for one in several] for threads, several in found.items()}
    gains = [one / two for one, two in zip(walls[1], walls[2], strict=True)]
    shown = {n: ", ".join(f"{wall:.2f}" for wall in several) for n, several in walls.items()}
    return found[2][-1] | {
        "wall": sum(walls[2]) / PAIRS,
        "found": f"one thread {shown[1]} s, two {shown[2]} s by the clock: {min(gains):.2f} to "
        f"{max(gains):.2f} times faster, {sum(walls[1]) / sum(walls[2]):.2f} in the mean",
    }


def beside_memory(task: Task) -> dict[str, Any]:
    """A task, and the same rows in memory before and after it."""
    before = apart(replace(task, place="memory"))
    found = apart(task)
    both = before, apart(replace(task, place="memory"))
    assert abs(found["loss"] / before["loss"] - 1) < 0.01, (found, before)
    times = sorted(found["cpu"] / one["cpu"] for one in both)
    seconds = " and ".join(f"{one['cpu']:.1f}" for one in both)
    return found | {
        "found": f"in memory {before['loss']:.5f}; {times[0]:.1f} to {times[1]:.1f} times "
        f"what memory takes ({seconds} s of CPU)"
    }


def large(names: Sequence[str]) -> None:
    """Measure long tasks, keep what is told of each, and write the table of all that are kept."""
    kept = RESULTS / "large.json"
    known = json.loads(kept.read_text()) if kept.exists() else {}
    ask = dict.fromkeys(("5 M in PostgreSQL", "5 M on Spark"), beside_memory)
    ask["10 M in memory"] = pairs
    for name in names or LARGE:
        apart(Task("memory", SOME))  # compiles
        LARGE[name].table(LARGE[name].rows)
        busy = (others() or 0) > QUIET
        known[name] = ask.get(name, apart)(LARGE[name]) | {"busy": busy}
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(json.dumps(known, indent=2) + "\n")
        print(name, known[name], flush=True)
    rows = [_row(name, known[name]) for name in LARGE if name in known]
    heading = (
        "| task | grew by, MiB | CPU s | of it in the server | clock s | load | found |",
        "|:--|--:|--:|--:|--:|:--|:--|",
    )
    put("large", "\n".join([*heading, *rows]), PAGE)


def _row(name: str, facts: dict[str, Any]) -> str:
    told = facts.get("found", "")
    if "loss" in facts:
        told = f"loss {facts['loss']:.5f}{'; ' * bool(told)}{told}"
    if facts.get("parts", 1) > 1:
        told = f"{facts['parts']} parts, {told}"
    if facts["jobs"]:
        told = f"{facts['jobs']} jobs, {told}"
    server = f"{facts['server']:,.1f}" if facts["server"] else ""
    load = "busy" if facts["busy"] else "idle"
    times = f"{facts['cpu']:,.1f} | {server} | {facts['wall']:,.1f}"
    return f"| {name} | {facts['MiB']:,.0f} | {times} | {load} | {told} |"


def main() -> None:
    """Run the benchmark."""
    facts: dict[str, Any] = {}
    comparisons = []
    places = ["memory", "out of core"]
    places += ["PostgreSQL"] if shutil.which("psql") else []
    places += ["Spark"] if shutil.which("java") else []
    apart(Task("memory", SOME))  # compiles what a few rows do not need
    whole = {rows: apart(Task("memory", rows)) for rows in (SOME, MANY)}
    for rows, ours in whole.items():
        compared = Comparison(f"{rows // 1_000_000} M rows", {"memory": _measured(ours)})
        facts[f"memory, {rows:,} rows"] = _told(ours)
        for place in places[1:]:
            if rows > _rows_of(place):
                continue
            memory = "512MB" if place == "out of core" else None
            found = apart(Task(place, rows, memory=memory))
            assert abs(found["loss"] / ours["loss"] - 1) < 0.01, (place, found, ours)
            compared.measured[place] = _measured(found)
            facts[f"{place}, {rows:,} rows"] = _told(found)
        comparisons.append(compared)
    one, two = (Task("memory", MANY, threads) for threads in (1, 2))
    alone = apart(one)
    with ThreadPoolExecutor(2) as both:
        beside = list(both.map(apart, [one, one]))
    slower = max(found["wall"] for found in beside)
    comparisons.append(
        Comparison(
            f"{MANY // 1_000_000} M rows, threads",
            {"two threads": _measured(apart(two)), "one thread": _measured(alone)},
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
    if sys.argv[1:2] == ["large"]:
        large(sys.argv[2:])
    elif len(sys.argv) > 1:
        print(json.dumps(told(Task(**json.loads(sys.argv[1])))))
    else:
        main()
