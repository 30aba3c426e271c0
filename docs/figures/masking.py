"""Draws the figure of docs/masking.md: columns lost by masking a sample instead of the table.

``python docs/figures/masking.py`` writes the figure and prints the table.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import vl_convert

import sfumato as sf
from sfumato.errors import ParameterError

SIZES = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000)
SEEDS = 10
FIGURE = Path(__file__).parent / "masking-sample-size.svg"


def tables() -> list[tuple[str, pa.Table, str, float]]:
    """What is masked, by which ratio."""
    adult = pq.read_table(sf.datasets.path("adult")).drop(["fnlwgt"])
    adult = adult.group_by(adult.column_names).aggregate([])
    covtype = pq.read_table(sf.datasets.path("covtype"))
    covtype = covtype.select(covtype.column_names[:54])
    return [
        ("Adult, 0.5-distinct", adult, "distinct", 0.5),
        ("Adult, 0.8-separation", adult, "separation", 0.8),
        ("covtype, 0.5-distinct", covtype, "distinct", 0.5),
        ("covtype, 0.8-separation", covtype, "separation", 0.8),
    ]


def lost(table: sf.Table, measure: str, beta: float, size: int, exact: int) -> float | None:
    """Mean share of the exact utility that samples of a size lose; None if they say nothing."""
    kept = []
    for seed in range(SEEDS):
        try:
            release = sf.mask(
                table, measure=measure, beta=beta, sample=size, seed=seed, explain=False
            )
        except ParameterError:
            return None
        kept.append(len(release.details["published"]))
    return 1 - statistics.mean(kept) / exact


def measured() -> list[dict[str, Any]]:
    """Records of the figure."""
    records = []
    for name, table, measure, beta in tables():
        opened = sf.table(table)
        exact = sf.mask(opened, measure=measure, beta=beta, explain=False)
        columns = len(exact.details["published"])
        for size in SIZES:
            share = lost(opened, measure, beta, size, columns)
            records.append({"mask": name, "exact": columns, "sample": size, "lost": share})
    return records


def drawn(records: list[dict[str, Any]]) -> str:
    """The figure as SVG."""
    specification = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "data": {"values": [record for record in records if record["lost"] is not None]},
        "width": 420,
        "height": 240,
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": {
                "field": "sample",
                "type": "quantitative",
                "scale": {"type": "log"},
                "axis": {"title": "sampled rows or pairs", "values": list(SIZES)},
            },
            "y": {
                "field": "lost",
                "type": "quantitative",
                "axis": {"title": "utility lost against exact masking", "format": "%"},
            },
            "color": {"field": "mask", "type": "nominal", "title": None},
        },
        "config": {"font": "sans-serif", "background": "white"},
    }
    return str(vl_convert.vegalite_to_svg(specification))


def main() -> None:
    """Measure, draw, and print the table of the page."""
    records = measured()
    FIGURE.write_text(drawn(records), encoding="utf-8")
    names = list(dict.fromkeys(record["mask"] for record in records))
    print("| mask (columns kept exactly) |", " | ".join(f"{size:,}" for size in SIZES), "|")
    print("|---|" + "---:|" * len(SIZES))
    for name in names:
        own = [record for record in records if record["mask"] == name]
        shares = ["–" if r["lost"] is None else f"{r['lost']:.0%}" for r in own]
        print(f"| {name} ({own[0]['exact']}) |", " | ".join(shares), "|")


if __name__ == "__main__":
    main()
