"""Measures l-diversity and t-closeness with pyCANON; run by `benchmarks.privacy_models`.

Reads ``{"file": …, "tasks": [[qi, sensitive], …]}`` from standard input. Each measure is called as
a user would, on a data frame that is already in memory; of short calls the best counts.
"""

import json
import sys
import time

import numpy
import pandas
import pycanon
from pycanon import anonymity

MEASURES = {
    "distinct l": anonymity.l_diversity,
    "entropy l": anonymity.entropy_l_diversity,
    "alpha": anonymity.alpha_k_anonymity,
    "t": anonymity.t_closeness,
}

question = json.load(sys.stdin)
frame = pandas.read_parquet(question["file"])
anonymity.k_anonymity(frame.head(100), question["tasks"][0][0])  # warm
answers = []
for qi, sensitive in question["tasks"]:
    found = {}
    for name, measure in MEASURES.items():
        taken = []
        while not taken or (sum(cpu for _, cpu in taken) < 1.0 and len(taken) < 10):
            wall, cpu = time.perf_counter(), time.process_time()
            value = measure(frame, qi, [sensitive])
            taken.append((time.perf_counter() - wall, time.process_time() - cpu))
        found[name] = {
            "value": float(value[0] if name == "alpha" else value),
            "wall": min(wall for wall, _ in taken),
            "cpu": min(cpu for _, cpu in taken),
        }
    answers.append(found)
versions = {
    "pycanon": getattr(pycanon, "__version__", "?"),
    "pandas": pandas.__version__,
    "numpy": numpy.__version__,
}
print(json.dumps({"answers": answers, "versions": versions}))
