"""Real tables as several benchmarks read them, written as CSV once.

Adult is the table of Motwani & Xu (29,096 x 14: training rows without `fnlwgt`, ``?`` as a value,
each different row once); covtype has its 54 attributes without the label.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from benchmarks.runner import cache_folder
from sfumato import datasets

__all__ = ["adult", "as_csv", "covtype"]


def adult() -> pa.Table:
    """Adult as Motwani & Xu used it."""
    table = pq.read_table(datasets.path("adult")).drop(["fnlwgt"])
    names = table.column_names
    filled = [
        pc.fill_null(column, "?") if pa.types.is_string(column.type) else column
        for column in table.columns
    ]
    table = pa.table(dict(zip(names, filled, strict=True)))
    # In the order in which rows first appear, so that the file is always the same.
    at = table.append_column("row", pa.array(range(table.num_rows)))
    first = at.group_by(names).aggregate([("row", "min")]).column("row_min")
    return table.take(first.take(pc.sort_indices(first)))


def covtype() -> pa.Table:
    """Covtype without its label."""
    table = pq.read_table(datasets.path("covtype"))
    return table.select(table.column_names[:54])


def as_csv(name: str, table: pa.Table) -> Path:
    """The table as a CSV file that is kept between runs."""
    path = cache_folder() / f"{name}-{table.num_rows}-{table.num_columns}.csv"
    if not path.exists():
        partial = path.with_suffix(".partial")
        pyarrow.csv.write_csv(table, partial, pyarrow.csv.WriteOptions(quoting_style="needed"))
        partial.rename(path)
    return path
