"""Reading the census table from Parquet into codes: CPU seconds and growth of memory.

Runs in a process of its own, since memory is counted as growth above a process that has imported
the package; the fastest of several runs counts for time, the largest for memory.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.census import census_file
from benchmarks.runner import Comparison, Measured, measure, report

__all__ = ["main"]


def encode(path: Path) -> dict[str, Any]:
    """Encode all columns; memory is growth of the peak above what the imports took."""
    import numba

    import sfumato as sf
    from sfumato.engines.encoding import codes_of_table

    some = next(pq.ParquetFile(path).iter_batches(1 << 18))  # enough to load what was compiled
    codes_of_table(pa.Table.from_batches([some]))
    before = _peak()
    table = sf.table(str(path), engine="memory")
    codes, taken = measure(lambda: table.codes())
    return {
        "wall": taken.wall,
        "cpu": taken.cpu,
        "growth": _peak() - before,
        "held": sum(array.nbytes for array in codes.arrays),
        "rows": codes.rows,
        "columns": len(codes.columns),
        "versions": {"numba": numba.__version__, "pyarrow": pa.__version__},
    }


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options, _ = parser.parse_known_args()
    if options.child:
        print(json.dumps(encode(options.child)))
        return
    path = census_file(options.rows)
    command = [sys.executable, "-m", "benchmarks.encoding", "--child", str(path)]
    runs = [
        json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for _ in range(options.repetitions)
    ]
    best = Measured(min(run["wall"] for run in runs), min(run["cpu"] for run in runs))
    report(
        "encoding",
        [Comparison("all columns from Parquet", {"sfumato": best})],
        data=f"census {runs[0]['rows']:,} x {runs[0]['columns']}",
        versions=runs[0]["versions"],
        facts={
            "growth of memory (MiB)": max(run["growth"] for run in runs) >> 20,
            "codes held (MiB)": runs[0]["held"] >> 20,
            "cores": multiprocessing.cpu_count(),
        },
    )


if __name__ == "__main__":
    main()
