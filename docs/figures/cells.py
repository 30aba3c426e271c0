"""Draws figures 12 and 13 of docs/papers/park-shim.md as SVG and fills in its tables.

``python docs/figures/cells.py`` reads cells.json, which ``python -m benchmarks.cells --figures``
measures; lines of the same code that are already there are kept.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent / "papers" / "park-shim.md"
MEASURED = HERE / "cells.json"
SERIES = ("GR", "FQ", "CF", "CF-1.8", "DR", "DR+", "LP", "OPT-LB")
TIMED = ("GR", "FQ", "CF", "CF-1.8", "DR", "DR+", "LP")
COLOURS = ("#b9b2a6", "#7d8a6a", "#5b7a99", "#93aec4", "#c98a5b", "#9c4a2f", "#3b3a38", "#8d8a84")
INK, PALE = "#3b3a38", "#b9b2a6"
CONFIG: dict[str, Any] = {
    "font": "Georgia, serif",
    "view": {"stroke": None},
    "axis": {"labelColor": INK, "titleColor": INK, "gridColor": "#eeeae3", "domainColor": PALE},
    "legend": {"labelColor": INK, "titleColor": INK},
    "title": {"color": INK, "anchor": "start", "fontSize": 14},
}

Lines = list[dict[str, Any]]


def chart(name: str, title: str, lines: Lines, x: str, log: bool) -> None:
    """Starred cells and CPU seconds side by side."""
    import vl_convert

    def panel(what: str, series: tuple[str, ...], suffix: str) -> dict[str, Any]:
        rows = [
            {x: line[x], "algorithm": s, what: line[s + suffix]} for line in lines for s in series
        ]
        scale = {"type": "log", "base": 2} if log else {"zero": False}
        return {
            "width": 300,
            "height": 240,
            "data": {"values": rows},
            "mark": {"type": "line", "point": {"size": 18}},
            "encoding": {
                "x": {"field": x, "type": "quantitative", "scale": scale,
                      "axis": {"values": sorted({line[x] for line in lines})}},
                "y": {"field": what, "type": "quantitative",
                      "scale": {"type": "linear" if not suffix else "log"}},
                "color": {"field": "algorithm", "type": "nominal", "sort": list(SERIES),
                          "scale": {"domain": list(SERIES), "range": list(COLOURS)}},
            },
        }  # fmt: skip

    spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "config": CONFIG,
        "title": title,
        "hconcat": [panel("starred cells", SERIES, ""), panel("CPU seconds", TIMED, " s")],
    }
    (HERE / f"{name}.svg").write_text(vl_convert.vegalite_to_svg(spec), encoding="utf-8")


def stars_table(lines: Lines, x: str) -> str:
    """Starred cells as multiples of OPT-LB, and the gap that is proven."""
    heads = ("GR", "FQ", "CF", "CF-1.8", "DR", "DR+", "LP")
    text = [
        f"| {x} | OPT-LB cells | {' | '.join(heads)} | DR+ / LP |",
        f"|---:|---:|{'---:|' * (len(heads) + 1)}",
    ]
    for line in lines:
        base = line["OPT-LB"]
        cells = " | ".join(f"{line[name] / base:.3f}" for name in heads)
        text.append(f"| {line[x]} | {base:,} | {cells} | {line['DR+'] / line['LP']:.3f} |")
    return "\n".join(text)


def seconds_table(lines: Lines, x: str) -> str:
    """CPU seconds."""
    heads = ("GR", "FQ", "CF", "CF-1.8", "DR", "DR+", "OPT-LB", "LP")
    text = [f"| {x} | {' | '.join(heads)} |", f"|---:|{'---:|' * len(heads)}"]
    text += [
        f"| {line[x]} | " + " | ".join(f"{line[name + ' s']:.2f}" for name in heads) + " |"
        for line in lines
    ]
    return "\n".join(text)


def main() -> None:
    """Draw every chart and write the tables between their marks."""
    lines: Lines = json.loads(MEASURED.read_text())
    assert len({line["code"] for line in lines}) == 1, "measured with different versions"
    parts = []
    for data in dict.fromkeys(line["data"] for line in lines if line["figure"] == 12):
        chosen = [line for line in lines if line["figure"] == 12 and line["data"] == data]
        chosen.sort(key=lambda line: line["k"])
        name = "cells-" + re.sub(r"\W+", "-", data.lower())
        title = f"{data}, {chosen[0]['rows']:,} rows x 9"
        chart(name, f"Figure 12: {title}", chosen, "k", True)
        parts.append(
            f"### {title}\n![{data}](../figures/{name}.svg)\n\n"
            f"Cells as multiples of OPT-LB:\n\n{stars_table(chosen, 'k')}\n\n"
            f"CPU seconds:\n\n{seconds_table(chosen, 'k')}\n"
        )
    chosen = [line for line in lines if line["figure"] == 13]
    if chosen:
        chart("cells-columns", "Figure 13: Adult, k = 4", chosen, "columns", False)
        parts.append(
            "### Figure 13: Adult, the first 3 to 9 columns, k = 4\n"
            f"![columns](../figures/cells-columns.svg)\n\n{stars_table(chosen, 'columns')}\n\n"
            f"CPU seconds:\n\n{seconds_table(chosen, 'columns')}\n"
        )
    begin, end = "<!-- tables -->", "<!-- end of tables -->"
    page = PAGE.read_text(encoding="utf-8")
    head, rest = page.split(begin)
    tail = rest.split(end)[1]
    middle = "\n".join(parts)
    PAGE.write_text(f"{head}{begin}\n{middle}\n{end}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
