"""Masking and keys of streams: a hundred million rows in one pass.

Streams run in a process of their own, so that the growth of its memory is theirs,
and what producing the batches costs is measured apart and taken off.

``python -m benchmarks.masking`` runs all of it; ``--stream key`` or ``--stream mask`` one stream.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import sfumato as sf
from benchmarks.runner import report

__all__ = ["main"]

STREAM = 100_000_000
BATCH = 131_072
KINDS = 64
"""Different record batches that the stream repeats, so that producing them costs little."""


def batches(rows: int) -> Iterator[pa.RecordBatch]:
    """A stream of people: batches of random rows, some of them again and again."""
    random = np.random.default_rng(0)
    kinds = [
        pa.record_batch(
            {
                "person": random.integers(0, 1 << 40, BATCH),
                "birth": random.integers(0, 30_000, BATCH, dtype=np.int32),
                "zip": random.integers(0, 40_000, BATCH, dtype=np.int32),
                "sex": random.integers(0, 2, BATCH, dtype=np.int8),
                "age": random.integers(0, 100, BATCH, dtype=np.int8),
                "state": random.integers(0, 50, BATCH, dtype=np.int8),
                "code": pa.array(random.integers(0, 500, BATCH).astype("U")),
            }
        )
        for _ in range(KINDS)
    ]
    done = 0
    while done < rows:
        for batch in kinds:
            taken = batch.slice(0, min(BATCH, rows - done))
            done += taken.num_rows
            if taken.num_rows:
                yield taken


def stream(what: str, rows: int) -> dict[str, Any]:
    """One pass over a generated stream: CPU nanoseconds a row, and growth of memory."""
    ask = {
        "key": lambda source: sf.minimum_key(source, eps=0.001),
        "mask": lambda source: sf.mask(source, measure="separation", beta=0.8, sample=20_000),
    }[what]
    ask(batches(BATCH))  # compiles and imports whatever there is
    for _ in batches(KINDS * BATCH):
        pass
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    for _ in batches(rows):
        pass
    producing = time.process_time() - began
    began = time.process_time()
    found = ask(batches(rows))
    taken = time.process_time() - began
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    answer = found.columns if what == "key" else found.details["published"]
    return {
        "answer": list(answer),
        "ns_per_row": round(1e9 * (taken - producing) / rows, 2),
        "grown_mib": round(grown / 1024, 1),
        "rows": rows,
    }


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stream", choices=("key", "mask"))
    parser.add_argument("--rows", type=int, default=STREAM)
    options, _ = parser.parse_known_args()
    if options.stream is not None:
        print(json.dumps(stream(options.stream, options.rows)))
        return
    facts: dict[str, Any] = {}
    for what in ("key", "mask"):
        asked = [sys.executable, "-m", "benchmarks.masking", "--stream", what]
        done = subprocess.run(
            [*asked, "--rows", str(options.rows)], capture_output=True, text=True, check=True
        )
        facts[f"stream through {what}"] = json.loads(done.stdout.splitlines()[-1])
    versions = {"pyarrow": pa.__version__, "numpy": np.__version__}
    report("masking", [], data="a stream", versions=versions, facts=facts)


if __name__ == "__main__":
    main()
