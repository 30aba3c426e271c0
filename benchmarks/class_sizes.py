"""Class sizes with unseparated pairs, against the group-bys of DuckDB and polars.

Data is loaded on both sides, and loaded alike: peers group the same integer codes that we count,
which is faster for them than grouping the text of the file. Column sets are random, the same for
all, and the best of several interleaved repetitions counts.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import duckdb
import numba
import numpy as np
import polars as pl
import pyarrow as pa

import sfumato as sf
from benchmarks.census import census_file
from benchmarks.runner import Comparison, compare, report
from sfumato.engines.protocol import ClassSizes, Codes

__all__ = ["main"]

Answer = tuple[dict[int, int], int]
"""Histogram of class sizes, and the number of unseparated pairs."""


def ours(codes: Codes, columns: Sequence[str], threads: int | None) -> Answer:
    """The memory engine's answer, from the kernels so that nothing is remembered."""
    from sfumato import kernels

    chosen = codes.select(columns)
    sizes = ClassSizes(
        *kernels.size_histogram(chosen.arrays, chosen.cardinalities, threads=threads)
    )
    return sizes.to_dict(), sizes.unseparated_pairs


def in_duckdb(connection: duckdb.DuckDBPyConnection, columns: Sequence[str]) -> Answer:
    """Group by, then group the counts."""
    names = ", ".join(f'"{name}"' for name in columns)
    rows = connection.execute(
        f"SELECT size, count(*) FROM (SELECT count(*) AS size FROM census GROUP BY {names}) "
        "GROUP BY size"
    ).fetchall()
    return dict(rows), _pairs(rows)


def in_polars(frame: pl.DataFrame, columns: Sequence[str]) -> Answer:
    """Group by, then count the counts."""
    rows = frame.group_by(columns).len("size")["size"].value_counts().rows()
    return dict(rows), _pairs(rows)


def _pairs(rows: Sequence[tuple[int, int]]) -> int:
    return sum(size * (size - 1) // 2 * classes for size, classes in rows)


def alternatives(
    codes: Codes,
    columns: Sequence[str],
    connection: duckdb.DuckDBPyConnection,
    frame: pl.DataFrame,
    threads: int | None,
) -> dict[str, Callable[[], Any]]:
    """The same question to all."""
    return {
        "sfumato": lambda: ours(codes, columns, threads),
        "duckdb": lambda: in_duckdb(connection, columns),
        "polars": lambda: in_polars(frame, columns),
    }


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--sets", type=int, default=20)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--columns", type=int, nargs="*", default=[3, 5])
    parser.add_argument("--seed", type=int, default=1)
    options, _ = parser.parse_known_args()

    codes = sf.table(str(census_file(options.rows)), engine="memory").codes()
    loaded = pa.table(dict(zip(codes.columns, codes.arrays, strict=True)))
    connection = duckdb.connect()
    connection.register("loaded", loaded)
    connection.execute("CREATE TABLE census AS SELECT * FROM loaded")
    connection.unregister("loaded")
    frame = pl.from_arrow(loaded)
    assert isinstance(frame, pl.DataFrame)
    threads = pl.thread_pool_size()
    connection.execute(f"SET threads = {threads}")

    random = np.random.default_rng(options.seed)
    for size in options.columns:
        comparisons: list[Comparison] = []
        for _ in range(options.sets):
            chosen = [codes.columns[i] for i in random.choice(len(codes.columns), size, False)]
            calls = alternatives(codes, chosen, connection, frame, threads)
            if not comparisons:
                compare("warming up", calls, repetitions=1)
            comparisons.append(compare(", ".join(chosen), calls, repetitions=options.repetitions))
        report(
            f"class sizes of {size} columns",
            comparisons,
            data=f"census {codes.rows:,} x {len(codes.columns)}",
            versions={
                "numba": numba.__version__,
                "duckdb": duckdb.__version__,
                "polars": pl.__version__,
            },
            facts={"threads": threads, "column sets": options.sets},
        )


if __name__ == "__main__":
    main()
