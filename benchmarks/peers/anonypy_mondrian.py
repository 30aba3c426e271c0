"""anonypy's Mondrian: reads a question, prints its partitions as JSON (row numbers) and timings."""

from __future__ import annotations

import json
import sys
import time


def main() -> None:
    """Answer one question: a Parquet file, columns and k."""
    import anonypy
    import pandas as pd

    question = json.load(sys.stdin)
    frame = pd.read_parquet(question["path"], columns=question["columns"])
    for name in question["columns"]:
        if not pd.api.types.is_numeric_dtype(frame[name]):
            frame[name] = frame[name].astype("category")
    wall, cpu = time.perf_counter(), time.process_time()
    preserver = anonypy.Preserver(frame, question["columns"], question["columns"][0])
    partitions = preserver.modrian.partition(question["k"])
    taken = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    groups = [[int(row) for row in part] for part in partitions]
    print(json.dumps({"groups": groups, **taken}))


if __name__ == "__main__":
    main()
