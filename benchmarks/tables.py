"""Real tables as several benchmarks read them, written as CSV once.

Adult is the table of Motwani & Xu (29,096 x 14: training rows without `fnlwgt`, ``?`` as a value,
each different row once); covtype has its 54 attributes without the label.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from benchmarks.runner import cache_folder
from sfumato.papers.reproduction import adult_distinct as adult
from sfumato.papers.reproduction import covtype

__all__ = ["adult", "as_csv", "covtype"]


def as_csv(name: str, table: pa.Table) -> Path:
    """The table as a CSV file that is kept between runs."""
    path = cache_folder() / f"{name}-{table.num_rows}-{table.num_columns}.csv"
    if not path.exists():
        partial = path.with_suffix(".partial")
        pyarrow.csv.write_csv(table, partial, pyarrow.csv.WriteOptions(quoting_style="needed"))
        partial.rename(path)
    return path
