"""l-diversity, α and t-closeness of Adult, against pyCANON.

Both sides begin with the table loaded as they keep it: pyCANON a data frame, we codes (how long
the encoding took is told beside it). Every measure is timed alone, classes included; what takes all
of them is shown too, where we need the classes only once. Ours is the best of several calls,
pyCANON's is one call. Values must be equal (pyCANON rounds entropy l down).
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
from sfumato.engines.codes import Codes
from sfumato.privacy import (
    AlphaK,
    Check,
    Closeness,
    DistinctDiversity,
    EntropyDiversity,
    Model,
    check,
)

__all__ = ["main"]

DATA = Path(__file__).parents[2] / "shared" / "data" / "arx_adult.parquet"
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
REPETITIONS = 30


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


def ask(codes: Codes, qi: list[str], asked: list[Model]) -> Check:
    """From codes to findings, nothing remembered."""
    columns = dict(zip(codes.columns, codes.arrays, strict=True))
    return check(asked, columns, qi, counts=codes.counts)


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
    table = pq.read_table(DATA)
    codes, encoding = best(lambda: sf.table(table).codes())
    interpreter = peer_environment("pycanon", ["pycanon==1.3.6", "pyarrow"])
    told = ask_peer(interpreter, PEER, {"file": str(DATA), "tasks": TASKS})
    comparisons = []
    for (qi, sensitive), theirs in zip(TASKS, told["answers"], strict=True):
        asked = models(sensitive)
        together = {"wall": 0.0, "cpu": 0.0}
        where = f"{len(qi)} columns, {sensitive}"
        for name, model in asked.items():
            found, taken = best(lambda m=model, q=qi: ask(codes, q, [m]))
            value = measured(found, name)
            assert np.isclose(value, theirs[name]["value"], rtol=1e-12), (where, name)
            peer = Measured(theirs[name]["wall"], theirs[name]["cpu"])
            comparisons.append(Comparison(f"{where}: {name}", {"sfumato": taken, "pycanon": peer}))
            together = {clock: together[clock] + theirs[name][clock] for clock in together}
        _, taken = best(lambda q=qi, a=asked: ask(codes, q, list(a.values())))
        peer = Measured(together["wall"], together["cpu"])
        comparisons.append(Comparison(f"{where}: all", {"sfumato": taken, "pycanon": peer}))
    ratios = {
        name: min(c.ratio("pycanon", "cpu") for c in comparisons if c.task.endswith(": " + name))
        for name in ("distinct l", "entropy l", "alpha", "t", "all")
    }
    report(
        "privacy models",
        comparisons,
        data=f"Adult {table.num_rows:,} rows",
        versions=told["versions"],
        facts={
            "CPU seconds to encode the table": round(encoding.cpu, 4),
            **{f"least CPU ratio of {name}": round(ratio, 1) for name, ratio in ratios.items()},
        },
    )


if __name__ == "__main__":
    main()
