"""Measures l-diversity and t-closeness with pyCANON; run by `benchmarks.privacy_models`.

Reads ``{"file": …, "tasks": [[qi, sensitive], …]}`` from standard input. Each measure is called as
a user would, on a data frame that is already in memory.
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
        wall, cpu = time.perf_counter(), time.process_time()
        value = measure(frame, qi, [sensitive])
        found[name] = {
            "value": float(value[0] if name == "alpha" else value),
            "wall": time.perf_counter() - wall,
            "cpu": time.process_time() - cpu,
        }
    answers.append(found)
versions = {
    "pycanon": getattr(pycanon, "__version__", "?"),
    "pandas": pandas.__version__,
    "numpy": numpy.__version__,
}
print(json.dumps({"answers": answers, "versions": versions}))
