"""Finds sample uniques with the package `suda`; run by `benchmarks.finding`.

Reads ``{"file": …, "rows": …, "max_size": …}`` from standard input; the file is loaded beforehand.
"""

import json
import sys
import time
import warnings
from importlib.metadata import version

import pandas
from suda import suda

warnings.simplefilter("ignore")
question = json.load(sys.stdin)
frame = pandas.read_csv(question["file"], dtype=str, keep_default_na=False)
frame = frame.head(question["rows"])
suda(frame.head(100), max_msu=1)  # warm
wall, cpu = time.perf_counter(), time.process_time()
scored = suda(frame, max_msu=question["max_size"])
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
answer = {
    "smallest": scored["msu"].sort_index().astype(int).tolist(),
    "wall": wall,
    "cpu": cpu,
    "version": version("suda"),
}
print(json.dumps(answer))
