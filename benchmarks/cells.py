"""Figures 12 and 13 of Park & Shim again, the stars of ARX's example, and a million rows.

Cells that each algorithm stars, lower bounds, and CPU seconds of one run each, all warm. The peer
of the direct approximation is the same walk over patterns with polars group-bys: it must end with
the same number of stars.

``python -m benchmarks.cells`` measures everything (some ten minutes); ``--figures`` only what the
figures show, ``--million`` only the million rows.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.runner import compare, report

__all__ = ["FIGURES", "main"]

DATA = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[2] / "shared" / "data"))
FIGURES = Path(__file__).parents[1] / "docs" / "figures" / "cells.json"
KS, MORE_KS = (2, 4, 16, 128), (8, 32, 64)
ADULT = (
    "age", "workclass", "education", "marital-status", "occupation", "race", "sex",
    "native-country", "income",
)  # fmt: skip
CENSUS = (
    "age", "class of worker", "education", "marital stat", "major occupation code", "race", "sex",
    "country of birth self", "income",
)  # fmt: skip


def coded(frame: pl.DataFrame, columns: tuple[str, ...]) -> Any:
    """Columns as ranks."""
    ranks = [frame[name].rank("dense").to_numpy() - 1 for name in columns]
    return np.ascontiguousarray(np.stack(ranks, axis=1).astype(np.int32))


def adult(years: int = 1) -> Any:
    """Adult without missing values, age in steps of so many years."""
    frame = pl.read_parquet(DATA / "adult_all.parquet").drop_nulls()
    frame = frame.rename({frame.columns[-1]: "income"})
    return coded(frame.with_columns(pl.col("age") // years), ADULT)


def letter() -> Any:
    """The first nine attributes of Letter."""
    frame = pl.read_parquet(DATA / "letter.parquet")
    return coded(frame, tuple(frame.columns[1:10]))


def census() -> Any:
    """The columns of Adult in Census-income (its test part), without missing values."""
    frame = pl.read_parquet(DATA / "census_income_kdd_test.parquet")
    frame = frame.rename({frame.columns[-1]: "income"}).select(CENSUS).drop_nulls()
    return coded(frame, CENSUS)


def measured(codes: Any, k: int) -> dict[str, Any]:
    """Stars and CPU seconds of every algorithm and bound."""
    from sfumato.anonymize.cells.bounds import ascent, lower_bound
    from sfumato.anonymize.cells.cover import approx_cf, approx_fq
    from sfumato.anonymize.cells.direct import approx_dr, opt_lb
    from sfumato.anonymize.cells.forest import approx_gr
    from sfumato.anonymize.cells.patterns import patterns_of
    from sfumato.anonymize.cells.search import improved
    from sfumato.anonymize.cells.table import PRICE_UNIT, table_of_codes
    from sfumato.budget import Budget

    table = table_of_codes(codes, k)
    patterns = patterns_of(table)
    found: dict[str, Any] = {"k": k, "columns": codes.shape[1], "cells": int(codes.size)}

    def run(name: str, call: Callable[[], Any]) -> Any:
        begin = time.process_time()
        answer = call()
        found[f"{name} s"] = round(time.process_time() - begin, 3)
        return answer

    best = None
    for name, call in {
        "GR": lambda: approx_gr(table, patterns),
        "FQ": lambda: approx_fq(table),
        "CF": lambda: approx_cf(table),
        "CF-1.8": lambda: approx_cf(table, 1.8),
        "DR": lambda: approx_dr(table, patterns),
    }.items():
        best = run(name, call)
        assert best.sizes().min() >= k
        found[name] = int(best.cost(table))
    first = best
    least = run("OPT-LB", lambda: opt_lb(table, patterns))
    found["OPT-LB"] = int(least @ table.counts) // PRICE_UNIT
    dual = run("LP", lambda: ascent(table, patterns, least, first, "auto", Budget()))
    # The ascent serves both the bound and the search: its time counts once, as that of the bound.
    best = run("DR+", lambda: improved(table, patterns, first, "local", 0, Budget(), dual))
    assert best.sizes().min() >= k
    found["DR+"] = int(best.cost(table))
    bound = lower_bound(table, patterns, "auto", least, dual, best, Budget())
    found["LP"] = bound.units // PRICE_UNIT
    return found


def figures() -> None:
    """Measure figures 12 and 13; what is done is kept after every line."""
    tables = {
        "Adult": adult(), "Adult, age in decades": adult(10), "Letter": letter(),
        "Census-income": census(),
    }  # fmt: skip
    measured(tables["Letter"][:500], 3)
    lines: list[dict[str, Any]] = []

    def vary_k(ks: tuple[int, ...]) -> None:
        for k in ks:
            for name, codes in tables.items():
                lines.append({"figure": 12, "data": name, "rows": len(codes), **measured(codes, k)})
                _keep(lines)

    vary_k(KS)
    for width in range(3, 10):
        codes = tables["Adult"][:, :width]
        lines.append({"figure": 13, "data": "Adult", "rows": len(codes), **measured(codes, 4)})
        _keep(lines)
    vary_k(MORE_KS)


def _keep(lines: list[dict[str, Any]]) -> None:
    FIGURES.write_text(json.dumps(lines, indent=1) + "\n")
    print(lines[-1], flush=True)


def by_group_bys(codes: Any, k: int) -> int:
    """APPROX-DR with one polars group-by a pattern: the number of stars."""
    from sfumato.anonymize.cells.patterns import patterns_of
    from sfumato.anonymize.cells.table import PRICE_UNIT, table_of_codes

    patterns = patterns_of(table_of_codes(codes, k))
    names = [f"c{c}" for c in range(codes.shape[1])]
    left = pl.DataFrame(codes, schema=names)
    stars = 0
    for kept, price in zip(patterns.kept.tolist(), patterns.prices.tolist(), strict=True):
        shown = [name for c, name in enumerate(names) if kept >> c & 1]
        size = pl.len().over(shown) if shown else pl.len()
        taken = left.select(pl.repeat(True, pl.len()) & (size >= k)).to_series()
        stars += int(taken.sum()) * price // PRICE_UNIT
        left = left.filter(~taken)
        if left.is_empty():
            break
    return stars + 10**9 * left.height


def comparisons() -> Any:
    """The direct approximation against group-bys of polars."""
    from sfumato.anonymize.cells.direct import approx_dr
    from sfumato.anonymize.cells.table import table_of_codes

    codes = adult()
    found = []
    for k in (2, 16):
        approx_dr(table_of_codes(codes[:500], k))

        def ours(k: int = k) -> int:
            table = table_of_codes(codes, k)
            return int(approx_dr(table).cost(table))

        def theirs(k: int = k) -> int:
            return by_group_bys(codes, k)

        # Rows left at the end go to other groups here and nowhere there.
        found.append(
            compare(
                f"APPROX-DR on Adult, k = {k}",
                {"sfumato": ours, "polars group-bys": theirs},
                repetitions=2,
                same=lambda a, b: abs(a - b % 10**9) <= 0.001 * a,
            )
        )
    return found


def arx_example() -> dict[str, Any]:
    """ARX's own example, k = 5, from the file to the verified release."""
    from sfumato.anonymize.verb import anonymize

    path = str(DATA / "arx_adult.parquet")
    names = [name for name in pl.read_parquet_schema(path) if name != "salary-class"]
    spent = []
    for _ in range(3):
        begin = time.process_time()
        release = anonymize(path, qi=names, k=5, method="cells")
        spent.append(time.process_time() - begin)
    return {
        "arx_adult starred": round(release.details["starred_share"], 4),
        "arx_adult proven gap": round(release.details["proven_gap"], 4),
        "arx_adult CPU s": round(min(spent), 2),
    }


def million() -> dict[str, Any]:
    """A million rows like those of Adult: a fifth of the cells come from another person."""
    import pyarrow as pa

    from sfumato.anonymize.verb import anonymize

    codes, random = adult(), np.random.default_rng(0)
    one, other = random.integers(0, len(codes), (2, 1_000_000))
    mixed = np.where(random.random((1_000_000, 9)) < 0.8, codes[one], codes[other])
    table = pa.table({name: mixed[:, c] for c, name in enumerate(ADULT)})
    anonymize(table.slice(0, 2_000), qi=list(ADULT), k=5, method="cells")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.process_time()
    release = anonymize(table, qi=list(ADULT), k=5, method="cells")
    spent = time.process_time() - begin
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
    return {
        "million rows CPU s": round(spent, 1),
        "million rows GiB": round(grown, 2),
        "million rows starred": round(release.details["starred_share"], 4),
        "million rows proven gap": round(release.details["proven_gap"], 4),
    }


def main() -> None:
    """Run what was asked for."""
    if "--figures" in sys.argv:
        figures()
        return
    facts = million()
    if "--million" in sys.argv:
        print(facts)
        return
    facts |= arx_example()
    report(
        "cells", comparisons(), data="Adult 45,222 x 9", versions={"polars": pl.__version__},
        facts=facts,
    )  # fmt: skip
    figures()


if __name__ == "__main__":
    main()
