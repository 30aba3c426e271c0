"""l-diversity, α and t-closeness of Adult, against pyCANON.

A call takes a pandas frame and gives a number, on both sides; nothing is kept from call to call. We
are also timed on codes, as a release is checked, and with all measures in one call. Ours is the
best of several calls, pyCANON's the best of those that fit into a second. Values must be equal
(pyCANON rounds entropy l down).
Writes the table of ``docs/privacy-models.md``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import sfumato as sf
from benchmarks.runner import Comparison, Measured, ask_peer, peer_environment, report
from sfumato.engines.protocol import Codes
from sfumato.privacy import (
    AlphaK,
    Check,
    Closeness,
    DistinctDiversity,
    EntropyDiversity,
    Model,
    check,
    check_table,
)

__all__ = ["main"]

PEER = Path(__file__).parent / "peers" / "pycanon_models.py"
FEW = ["sex", "race", "marital-status", "workclass"]
ALL = [*FEW, "education", "age", "native-country", "occupation"]
TASKS = [
    (FEW, "occupation"),
    (FEW, "age"),
    ([*FEW, "education"], "occupation"),
    ([*FEW, "education"], "age"),
    (ALL, "salary-class"),
]
REPETITIONS = 50
PAGE = Path(__file__).parents[1] / "docs" / "privacy-models.md"
HEAD = (
    "| quasi-identifiers, sensitive column | distinct l | entropy l | α | t | all four |",
    "|---|---:|---:|---:|---:|---:|",
)


def models(sensitive: str) -> dict[str, Model]:
    """What is measured, by the names the peer uses."""
    distance: Any = "ordered" if sensitive == "age" else "equal"
    return {
        "distinct l": DistinctDiversity(1, sensitive),
        "entropy l": EntropyDiversity(1, sensitive),
        "alpha": AlphaK(1, 1, sensitive),
        "t": Closeness(1, sensitive, distance),
    }


def measured(found: Check, name: str) -> float:
    """The figure of a finding that the peer reports."""
    figure = found.findings[0].measured
    value = float(figure["alpha" if name == "alpha" else name[-1]])
    return float(math.floor(value + 1e-9)) if name == "entropy l" else value


def of_codes(codes: Codes, qi: list[str], asked: list[Model]) -> Check:
    """From codes to findings, nothing remembered."""
    return check(asked, dict(zip(codes.columns, codes.arrays, strict=True)), qi)


def best(call: Callable[[], Any]) -> tuple[Any, Measured]:
    """The answer and the least time of several calls."""
    answer = call()
    walls, cpus = [], []
    for _ in range(REPETITIONS):
        wall, cpu = time.perf_counter(), time.process_time()
        call()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return answer, Measured(min(walls), min(cpus))


def main() -> None:
    """Run the benchmark."""
    file = sf.datasets.path("arx_adult")
    table = pq.read_table(file)
    frame, codes = table.to_pandas(), sf.table(table).codes()
    interpreter = peer_environment("pycanon", ["pycanon==1.3.6", "pyarrow"])
    told = ask_peer(interpreter, PEER, {"file": str(file), "tasks": TASKS})
    comparisons, lines = [], list(HEAD)
    for (qi, sensitive), theirs in zip(TASKS, told["answers"], strict=True):
        asked = models(sensitive)
        where = f"{len(qi)} columns, {sensitive}"
        cells: list[str] = []
        for name, model in asked.items():
            found, taken = best(lambda m=model, q=qi: check_table(frame, [m], q))
            assert np.isclose(measured(found, name), theirs[name]["value"], rtol=1e-12), where
            _, encoded = best(lambda m=model, q=qi: of_codes(codes, q, [m]))
            peer = Measured(theirs[name]["wall"], theirs[name]["cpu"])
            sides = {"sfumato": taken, "pycanon": peer, "sfumato on codes": encoded}
            comparisons.append(Comparison(f"{where}: {name}", sides))
            cells.append(f"{peer.cpu / taken.cpu:,.0f}x ({peer.cpu / encoded.cpu:,.0f}x)")
        _, taken = best(lambda q=qi, a=asked: check_table(frame, list(a.values()), q))
        peer = Measured(*(sum(theirs[name][clock] for name in asked) for clock in ("wall", "cpu")))
        comparisons.append(Comparison(f"{where}: all", {"sfumato": taken, "pycanon": peer}))
        lines.append(
            f"| {len(qi)}, {sensitive} ({found.classes:,} classes) | {' | '.join(cells)} "
            f"| {peer.cpu / taken.cpu:,.0f}x |"
        )
    ratios = {
        name: min(c.ratio("pycanon", "cpu") for c in comparisons if c.task.endswith(": " + name))
        for name in ("distinct l", "entropy l", "alpha", "t", "all")
    }
    put("against pyCANON", "\n".join(lines))
    report(
        "privacy models",
        comparisons,
        data=f"Adult {table.num_rows:,} rows",
        versions=told["versions"],
        facts={f"least CPU ratio of {name}": round(ratio, 1) for name, ratio in ratios.items()},
    )


def put(mark: str, text: str) -> None:
    """Put a table between its marks on the page."""
    begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
    before, rest = PAGE.read_text(encoding="utf-8").split(begin)
    PAGE.write_text(f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
