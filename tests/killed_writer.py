"""Writes a release in a process that a test may kill at any moment."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import sfumato as sf
from sfumato.anonymization.in_parts import planned_in_parts
from sfumato.anonymization.request import Request
from sfumato.budget import Budget
from sfumato.engines.recoding import Parted, Work
from sfumato.release import publish


def write(source: str, output: str, began: Any) -> None:
    """Mask a table and publish it, saying when it begins."""
    began.set()
    sf.mask(source, beta=0.9, must_drop=["id"], output=output, force=True)


QI = ["age", "height"]


def write_parts(source: str, output: str, engine: str | None, moment: str, reached: Any) -> None:
    """Anonymize persons in parts, and wait at a moment until somebody kills this process."""
    from sfumato.anonymization.in_parts import PartSolver
    from sfumato.release.promise import Anonymity

    kind, name = {"solving": (PartSolver, "__call__"), "verifying": (Anonymity, "check")}[moment]
    act, times = getattr(kind, name), []

    def halted(*arguments: Any, **named: Any) -> Any:
        times.append(1)
        # The first call only asks which columns parts write.
        if len(times) == {"solving": 3, "verifying": 1}[moment]:
            reached.set()
            signal.pause()
        return act(*arguments, **named)

    setattr(kind, name, halted)
    opened = sf.table(source) if engine is None else sf.table(source, engine=engine)  # type: ignore[arg-type]
    sf.anonymize(opened, qi=QI, k=4, person="patient", parts=4, output=output, force=True)


def write_parts_by_spark(source: str, output: str, moment: str, reached: Any) -> None:
    """The same in a Spark of its own, whose driver is this process."""
    from pyspark.sql import SparkSession

    from sfumato.release.promise import Anonymity

    os.environ["PYSPARK_PYTHON"] = sys.executable  # whatever it was when this process was prepared
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", False)
    spark = builder.config("spark.sql.shuffle.partitions", 2).getOrCreate()
    halting = f"{output}.reached"
    if moment == "verifying":
        Anonymity.check = lambda *_: (reached.set(), signal.pause())  # type: ignore[assignment,method-assign,return-value]
    else:
        threading.Thread(target=_when_there, args=(halting, reached), daemon=True).start()
    table = sf.table(spark.read.parquet(source))
    asked = {"qi": QI, "k": 4, "person": "patient", "parts": 4}
    request = Request.of(asked).opened(table)
    plan = planned_in_parts(table, request, 4, Budget())
    assert isinstance(plan.mapping, Parted)
    if moment == "solving":
        plan = replace(
            plan, mapping=replace(plan.mapping, work=waiting(plan.mapping.work, halting))
        )
    publish(plan, output, force=True)


def waiting(work: Work, place: str) -> Work:
    """Work that says by a file that it has begun, and goes on much later."""

    def act(rows: Any) -> Any:
        from pathlib import Path
        from time import sleep

        Path(place).touch()
        sleep(300)
        return work(rows)

    return act


def _when_there(place: str, reached: Any) -> None:
    while not Path(place).exists():
        time.sleep(0.05)
    reached.set()
