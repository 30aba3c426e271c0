"""Stars: ARX's example, a million rows, and many columns.

CPU seconds are of one run each, all warm. The peer of the direct approximation is the same walk
over patterns with polars group-bys: it must end with the same number of stars. No package on PyPI
stars single cells for k-anonymity; ARX, which does, is a Java program and is not run here: its
share of stars and its seconds are quoted as known.

``python -m benchmarks.cells`` measures everything; ``--large`` only the million rows and the many
columns.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.census import census_file
from benchmarks.runner import compare, report
from sfumato import datasets

__all__ = ["main"]

NINE = (
    "age", "class_of_worker", "education", "marital_status", "occupation", "race", "sex",
    "citizenship", "industry",
)  # fmt: skip


def adult() -> Any:
    """Nine columns of Adult as ranks."""
    from sfumato.papers.park_shim import coded

    return coded("Adult")


def by_group_bys(codes: Any, k: int) -> int:
    """APPROX-DR with one polars group-by a pattern: the number of stars."""
    from sfumato.anonymization.cells.candidates import patterns_of
    from sfumato.anonymization.cells.table import PRICE_UNIT, table_of_codes

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
    return int(stars + 10**9 * left.height)


def comparisons() -> Any:
    """The direct approximation against group-bys of polars."""
    from sfumato.anonymization.cells.paper import approx_dr
    from sfumato.anonymization.cells.table import table_of_codes

    codes = adult()
    found = []
    for k in (2, 16):
        approx_dr(table_of_codes(codes[:500], k))

        def ours(k: int = k) -> int:
            table = table_of_codes(codes, k)
            return int(approx_dr(table).cost(table))

        def theirs(k: int = k) -> int:
            return by_group_bys(codes, k)

        def same(mine: int, other: int, k: int = k) -> bool:
            # Rows left at the end go to other groups here and nowhere there.
            left, stars = divmod(other, 10**9)
            return stars <= mine <= stars + left * k * len(NINE)

        found.append(
            compare(
                f"APPROX-DR on Adult, k = {k}",
                {"sfumato": ours, "polars group-bys": theirs},
                repetitions=2,
                same=same,
            )
        )
    return found


def arx_example() -> dict[str, Any]:
    """ARX's own example, k = 5, from the file to the verified release."""
    from sfumato.anonymization.verb import anonymize

    path = str(datasets.path("arx_adult"))
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
        "arx_adult starred by ARX (quoted, not run)": 0.1405,
        "arx_adult seconds of ARX (quoted, not run)": 3.6,
    }


def large() -> dict[str, Any]:
    """Many rows and many columns, from the table to the verified release in a file."""
    codes, random = adult(), np.random.default_rng(0)
    one, other = random.integers(0, len(codes), (2, 1_000_000))
    mixed = np.where(random.random((1_000_000, 9)) < 0.8, codes[one], codes[other])
    people = pa.table({name: mixed[:, c] for c, name in enumerate(NINE)})
    wide = pl.read_parquet(census_file(1_000_000))
    forest = pl.read_parquet(datasets.path("covtype")).sample(20_000, seed=1)
    released(wide[:300].to_arrow())
    return {
        **_named("like Adult, 1,000,000 x 9", released(people)),
        **_named("census, 1,000,000 x 9", released(wide.select(NINE).to_arrow())),
        **_named("census, 20,000 x 41", released(wide[:20_000].to_arrow())),
        **_named("census, 200,000 x 41", released(wide[:200_000].to_arrow())),
        **_named("covtype, 20,000 x 55", released(forest.to_arrow())),
    }


def _named(name: str, facts: dict[str, Any]) -> dict[str, Any]:
    print(name, facts, flush=True)
    return {f"{name}: {what}": value for what, value in facts.items()}


def released(table: Any) -> dict[str, Any]:
    """A release at k = 5 with all defaults: what it cost and what it says about itself."""
    from sfumato.anonymization.verb import anonymize

    # The kernel starts a new peak when told so.
    Path("/proc/self/clear_refs").write_text("5")
    before = _held("VmRSS")
    begin = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "out.parquet"
        release = anonymize(table, qi=table.column_names, k=5, method="cells", output=path)
        spent = time.process_time() - begin
        assert release.k is not None
        assert release.k >= 5
        assert pq.read_metadata(path).num_rows == release.rows
    grown = (_held("VmHWM") - before) / 2**20
    return {
        "CPU s": round(spent, 1),
        "GiB grown": round(grown, 2),
        "starred": round(release.details["starred_share"], 4),
        "proven gap": round(release.details["proven_gap"], 4),
        "cut off": list(release.details["cut_off"]),
    }


def _held(what: str) -> int:
    """Kibibytes this process holds, now (VmRSS) or at most (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what))


def main() -> None:
    """Run what was asked for."""
    facts = large()
    if "--large" in sys.argv:
        return
    facts |= arx_example()
    report(
        "cells", comparisons(), data="Adult 45,222 x 9", versions={"polars": pl.__version__},
        facts=facts,
    )  # fmt: skip


if __name__ == "__main__":
    main()
