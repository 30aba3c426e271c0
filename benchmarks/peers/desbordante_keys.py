"""Finds unique column combinations with Desbordante; run by `benchmarks.finding`.

Reads ``{"file": …, "algorithm": …, "options": {…}, "repetitions": n}`` from standard input. Reading
the file is part of the time; the best of several repetitions counts.
"""

import json
import sys
import time
from importlib.metadata import version

import desbordante

question = json.load(sys.stdin)
times = []
for _ in range(question["repetitions"]):
    algorithm = getattr(desbordante.ucc.algorithms, question["algorithm"])()
    wall, cpu = time.perf_counter(), time.process_time()
    algorithm.load_data(table=(question["file"], ",", True))
    algorithm.execute(**question["options"])
    found = [list(ucc.indices) for ucc in algorithm.get_uccs()]
    times.append((time.perf_counter() - wall, time.process_time() - cpu))
answer = {
    "sets": found,
    "wall": min(wall for wall, _ in times),
    "cpu": min(cpu for _, cpu in times),
    "version": version("desbordante"),
}
print(json.dumps(answer))
