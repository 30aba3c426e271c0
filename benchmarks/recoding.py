"""Recoding: loss and CPU seconds of every method, beside every Python Mondrian that installs.

Adult is ARX's table (30,162 rows, 8 quasi-identifiers, k = 5). A loss is the normalized certainty
penalty, computed by `sfumato.utility` from the groups of rows that each side made, so that all are
measured alike. Seconds are those of the method alone, the table being in memory on every side; ours
are taken again before and after every peer. Ask for the part ``large`` to take one and ten million
rows from Parquet to verified Parquet, each in a process of its own.

Writes the tables of ``docs/recoding.md``.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sfumato as sf
from benchmarks.census import census_file
from benchmarks.runner import (
    Comparison,
    Measured,
    ask_peer,
    cache_folder,
    compile_first,
    measure,
    peer_environment,
    report,
)
from sfumato.anonymization.preparing import prepare
from sfumato.anonymization.problem import Problem, group_view
from sfumato.anonymization.request import Request
from sfumato.anonymization.verb import solver
from sfumato.budget import Budget
from sfumato.hierarchy import EncodedHierarchy, Ranges, read_folder
from sfumato.utility import View, certainty_penalty

__all__ = ["CELLS", "main", "put"]

SCRIPT = Path(__file__).parent / "peers" / "mondrians.py"
PAGE = Path(__file__).parents[1] / "docs" / "recoding.md"
CELLS = PAGE.with_name("recoding-cells.md")
QI = ("sex", "age", "race", "marital-status", "education", "native-country", "workclass",
      "occupation")  # fmt: skip
CENSUS = {"age": 91, "sex": 2, "race": 5, "marital_status": 7, "education": 17, "state": 50,
          "class_of_worker": 9, "occupation": 15}  # fmt: skip
K = 5
LARGE_K = 10


@dataclass(frozen=True)
class Peer:
    """Somebody else's Mondrian."""

    name: str
    label: str
    packages: tuple[str, ...]
    repetitions: int = 1


PEERS = (
    Peer("aijack", "AIJack 0.0.1b2 (C++)",
         ("pybind11", "setuptools", "wheel", "cmake", "ninja", "pandas", "pyarrow"), 3),
    Peer("umbra", "umbra-k 0.1.0 (relaxed)", ("umbra-k==0.1.0", "pandas", "pyarrow")),
    Peer("anonypy", "anonypy 0.2.1", ("anonypy==0.2.1", "pandas", "pyarrow")),
    Peer("privacy_preserver", "privacy-preserver 1.0.1",
         ("privacy-preserver==1.0.1", "pandas", "pyarrow")),
    Peer("polarfrost", "polarfrost 0.2.1",
         ("polarfrost==0.2.1", "pyspark", "pandas", "pyarrow")),
    Peer("anonypyx", "anonypyx 0.2.11", ("anonypyx==0.2.11", "pandas", "pyarrow")),
)  # fmt: skip


def adult(name: str, trees: bool, rows: int | None = None) -> Problem:
    """Adult, ready for a method."""
    table = pq.read_table(sf.datasets.path("arx_adult"), columns=list(QI)).slice(0, rows)
    grown = (
        read_folder(sf.datasets.hierarchies("arx_adult"), [*QI, "salary-class"]) if trees else {}
    )
    grown = {column: tree for column, tree in grown.items() if column in QI}
    demand = Request.of(
        {"qi": QI, "k": K, "method": name, **({"hierarchies": grown} if trees else {})}
    )
    problem: Problem = prepare(opened := sf.table(table), demand.opened(opened), Budget())
    return problem


def best_of(call: Callable[[], Any], repetitions: int) -> tuple[Any, Measured]:
    """The answer and the least time of several calls, after one to warm up."""
    answer, taken = call(), []
    for _ in range(repetitions):
        answer, seconds = measure(call)
        taken.append(seconds)
    return answer, Measured(min(t.wall for t in taken), min(t.cpu for t in taken))


def loss(problem: Problem, name: str) -> tuple[float, Measured]:
    """What a method loses, and how long it takes."""
    repetitions = 1 if name == "best" else 3
    solution, taken = best_of(lambda: solver(name)(problem), repetitions)
    return certainty_penalty(group_view(problem, solution)), taken


def loss_of_groups(problem: Problem, groups: Sequence[Sequence[int]]) -> float:
    """What groups of rows lose when each shows ranges and sets of its values."""
    table = pq.read_table(sf.datasets.path("arx_adult"), columns=list(QI))
    codes = sf.table(table).codes(QI)
    of_row = np.full(table.num_rows, -1)
    for group, rows in enumerate(groups):
        of_row[rows] = group
    assert (of_row >= 0).all(), "rows were lost"
    assert min(map(len, groups)) >= K, "k-anonymity is broken"
    published = {}
    for name in QI:
        shape, column = problem.shapes[name], codes.column(name)
        assert not isinstance(shape, EncodedHierarchy)
        held = shape.spans if isinstance(shape, Ranges) else shape.collect
        shown = shape.published(*held(column, of_row, len(groups)))
        published[name] = shown.take(of_row)
    return certainty_penalty(View(dict(zip(QI, codes.arrays, strict=True)), published))


def methods(facts: dict[str, Any]) -> str:
    """Loss and seconds of every method on Adult, with trees and without."""
    lines = [
        "| method | trees: loss | CPU s | ranges and sets: loss | CPU s |",
        "|:--|--:|--:|--:|--:|",
    ]
    for name in ("mondrian", "lattice", "kmember", "best"):
        cells = []
        for trees in (True, False):
            lost, taken = loss(adult(name, trees), name)
            cells += [f"{lost:.4f}", f"{taken.cpu:.3f}"]
            facts[f"{name}, {'trees' if trees else 'ranges and sets'}"] = (
                f"loss {lost:.4f}, {taken.cpu:.3f} s CPU"
            )
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    _, taken = loss(adult("kmember", True, 10_000), "kmember")
    facts["kmember, 10,000 rows"] = f"{taken.cpu:.3f} s CPU"
    least, proving = least_loss(adult("best", True))
    facts["least loss with trees"] = f"{least:.4f}, proven in {proving.cpu:.1f} s CPU"
    told = (
        f"`kmember` on the first 10,000 rows: {taken.cpu:.2f} s CPU. With these trees **no** "
        f"recoding loses less than {least:.4f}: `--option bound=lp` proves it, in "
        f"{proving.cpu:.1f} s CPU more."
    )
    return "\n".join([*lines, "", told])


def least_loss(problem: Problem) -> tuple[float, Measured]:
    """The loss that no recoding undercuts, and how long it takes to prove it beyond finding one."""
    found, searching = measure(lambda: solver("best")(problem))
    asked = replace(problem, options={"bound": "lp"})
    proven, both = measure(lambda: solver("best")(asked))
    assert proven.lower_bound <= found.details["loss_after"]
    return proven.lower_bound, Measured(both.wall - searching.wall, both.cpu - searching.cpu)


@dataclass
class Contest:
    """Strict Mondrian of Adult, and what peers made of the same rows."""

    loss: float
    ours: Measured
    whole_call: Measured
    peers: dict[str, tuple[float, Measured]] = field(default_factory=dict)

    def table(self) -> str:
        """Everybody, the fastest first."""
        lines = [
            "| Mondrian | loss | CPU s | times ours | times our whole call |",
            "|:--|--:|--:|--:|--:|",
            f"| sfumato, strict | {self.loss:.4f} | {self.ours.cpu:.4f} | | |",
            f"| sfumato, whole call, verified | {self.loss:.4f} | {self.whole_call.cpu:.3f} | | |",
        ]
        for label, (lost, peer) in sorted(self.peers.items(), key=lambda row: row[1][1].cpu):
            ratios = [f"{peer.cpu / mine.cpu:,.0f}" for mine in (self.ours, self.whole_call)]
            lines.append(f"| {label} | {lost:.4f} | {peer.cpu:.2f} | " + " | ".join(ratios) + " |")
        return "\n".join(lines)


def against_peers(facts: dict[str, Any]) -> list[Comparison]:
    """Strict Mondrian beside each peer on the same rows, one after the other."""
    problem = adult("mondrian", False)
    path = sf.datasets.path("arx_adult")
    frame = pq.read_table(path, columns=list(QI)).to_pandas()
    _, whole_call = best_of(lambda: sf.anonymize(frame, qi=list(QI), k=K), 5)
    contest = Contest(*loss(problem, "mondrian"), whole_call)
    for peer in PEERS:
        try:
            interpreter = peer_environment(peer.name, peer.packages)
            question = {"peer": peer.name, "path": str(path), "columns": QI, "k": K}
            question["repetitions"] = peer.repetitions
            answer = ask_peer(interpreter, SCRIPT, question)
        except (RuntimeError, OSError) as error:
            print(f"*** SKIPPED {peer.label}: {str(error)[-500:]}", file=sys.stderr, flush=True)
            facts[f"skipped: {peer.label}"] = type(error).__name__
            continue
        lost = loss_of_groups(problem, answer["groups"])
        contest.peers[peer.label] = lost, Measured(answer["wall"], answer["cpu"])
        _, again = best_of(lambda: solver("mondrian")(problem), 10)
        ours = contest.ours
        contest.ours = Measured(min(ours.wall, again.wall), min(ours.cpu, again.cpu))
        facts[peer.label] = f"loss {lost:.4f}, {answer['cpu']:.2f} s CPU"
        put("peers", contest.table())
    facts["strict Mondrian"] = f"loss {contest.loss:.4f}"
    facts["whole call, data frame to verified release"] = f"{whole_call.cpu:.3f} s CPU"
    return [
        Comparison("strict Mondrian of Adult", {"sfumato": contest.ours, label: peer})
        for label, (_, peer) in contest.peers.items()
    ]


def census_columns(rows: int) -> Path:
    """Eight columns of the census-like table."""
    path = cache_folder() / f"census-eight-{rows}.parquet"
    if not path.exists():
        whole = pq.ParquetFile(census_file(rows))
        write(path, whole.iter_batches(1_000_000, columns=list(CENSUS)))
    return path


def distinct_rows(rows: int) -> Path:
    """The same columns with independent, equally common values: nearly all rows differ."""
    path = cache_folder() / f"distinct-{rows}.parquet"
    if not path.exists():
        write(path, (_uniform(start, min(1_000_000, rows - start))
                     for start in range(0, rows, 1_000_000)))  # fmt: skip
    return path


def _uniform(seed: int, rows: int) -> pa.RecordBatch:
    random = np.random.default_rng(seed)
    columns = {}
    for name, size in CENSUS.items():
        drawn = pa.array(random.integers(0, size, rows))
        labels = pa.array([f"{name} {code:02}" for code in range(size)])
        columns[name] = drawn if name == "age" else labels.take(drawn)
    return pa.RecordBatch.from_pydict(columns)


def write(path: Path, batches: Any) -> None:
    """Put batches into a file, whole or not at all."""
    partial = path.with_suffix(".partial")
    first = next(batches := iter(batches))
    with pq.ParquetWriter(partial, first.schema, store_schema=False) as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)
    partial.rename(path)


def release(path: Path, name: str) -> dict[str, Any]:
    """From Parquet to verified Parquet; run in a process of its own."""
    compile_first()
    with tempfile.TemporaryDirectory() as folder:
        few = Path(folder, "few.parquet")
        pq.write_table(
            pa.Table.from_batches([next(pq.ParquetFile(path).iter_batches(20_000))]), few
        )
        asked: dict[str, Any] = {"qi": list(CENSUS), "k": LARGE_K, "method": name}
        sf.anonymize(few, output=Path(folder, "warm.parquet"), **asked)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        made, taken = measure(
            lambda: sf.anonymize(path, output=Path(folder, "release.parquet"), **asked)
        )
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
    return {"rows": made.rows, "loss": made.utility["ncp"], "k": made.k, "classes": made.classes,
            "cpu": taken.cpu, "wall": taken.wall, "GiB": grown}  # fmt: skip


def large(facts: dict[str, Any]) -> str:
    """One and ten million rows."""
    lines = [
        "| table | method | loss | classes | CPU s | wall s | GiB |",
        "|:--|:--|--:|--:|--:|--:|--:|",
    ]
    tasks = (
        ("census-like, 1 M x 8", census_columns(1_000_000), "mondrian"),
        ("census-like, 1 M x 8", census_columns(1_000_000), "kmember"),
        ("census-like, 10 M x 8", census_columns(10_000_000), "mondrian"),
        ("all distinct, 10 M x 8", distinct_rows(10_000_000), "mondrian"),
    )
    for table, path, name in tasks:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            told = process.submit(release, path, name).result()
        assert told["k"] >= LARGE_K
        facts[f"{table}, {name}"] = told
        lines.append(
            f"| {table} | `{name}` | {told['loss']:.4f} | {told['classes']:,} | {told['cpu']:.1f} "
            f"| {told['wall']:.1f} | {told['GiB']:.2f} |"
        )
    return "\n".join(lines)


def put(mark: str, text: str, page: Path = PAGE) -> None:
    """Put a table between its marks on a page."""
    begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
    before, rest = page.read_text(encoding="utf-8").split(begin)
    page.write_text(f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}", encoding="utf-8")


def main() -> None:
    """Run the benchmark."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("parts", nargs="*", default=["methods", "peers"])
    chosen = options.parse_args().parts
    compile_first()
    facts: dict[str, Any] = {"when": time.strftime("%Y-%m-%d")}
    comparisons: list[Comparison] = []
    if "methods" in chosen:
        put("methods", methods(facts))
    if "peers" in chosen:
        comparisons = against_peers(facts)
    if "large" in chosen:
        put("large", large(facts))
    report(
        f"recoding {' '.join(chosen)}",
        comparisons,
        data="arx_adult, 30,162 x 8, k = 5",
        versions={"sfumato": version("sfumato")},
        facts=facts,
    )


if __name__ == "__main__":
    main()
