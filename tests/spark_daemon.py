"""Spark's workers as copies of one process that has loaded what all of them need.

After every task a worker looks for garbage among all it has: what was loaded here is none.
"""

from __future__ import annotations

import gc
import importlib
import pkgutil

from pyspark.daemon import manager

import sfumato.anonymization

if __name__ == "__main__":
    ours = pkgutil.walk_packages(sfumato.anonymization.__path__, "sfumato.anonymization.")
    for name in ("numba", "pyspark.worker", *(module.name for module in ours)):
        importlib.import_module(name)
    gc.freeze()
    manager()
