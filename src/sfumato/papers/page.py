"""The page of a paper: tables and pictures of one run, between the marks of what people wrote."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sfumato.errors import EngineError
from sfumato.files import appearing
from sfumato.papers.findings import (
    PAPERS,
    VERDICTS,
    Cell,
    Found,
    Grid,
    Picture,
    Reproduction,
    Section,
    written,
)
from sfumato.report.drawing import chart, picture

__all__ = ["BEGIN", "END", "home", "lines", "measured", "write"]

BEGIN, END = "<!-- measured -->", "<!-- end of measured -->"
_COUNTED = re.compile(
    r"^Written by `sfumato paper .*: (\d+) cells, "
    + ", ".join(rf"(\d+) {verdict}" for verdict in VERDICTS)
    + r"; ([\d,]+) s CPU",
    re.MULTILINE,
)
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999", "#000000")
"""Colours of Okabe & Ito, which people of any colour vision tell apart."""


def home() -> Path | None:
    """The folder of the pages, where the program runs from a clone of its repository."""
    package = Path(__file__).parents[1]
    folder = package.parents[1] / "docs" / "papers"
    return folder if package.parent.name == "src" and folder.is_dir() else None


def write(done: Reproduction, folder: Path) -> Reproduction:
    """Put a run on its page, with its pictures in ``figures`` beside it; prose stays as it is.

    A page that says the same but for what varies from run to run stays as it is: who does a paper
    again sees at once whether anything has changed.
    """
    path = folder / f"{done.paper}.md"
    try:
        (folder / "figures").mkdir(parents=True, exist_ok=True)
        text = path.read_text(encoding="utf-8") if path.exists() else f"# {done.title}\n"
        end = text.find(END, text.find(BEGIN)) if BEGIN in text else -1
        if end < 0:
            text = f"{text.rstrip()}\n\n{BEGIN}\n{END}\n"
            end = text.rfind(END)
        begin = text.rfind(BEGIN, 0, end)
        before, old, after = text[:begin], text[begin + len(BEGIN) : end], text[end + len(END) :]
        new = f"\n{measured(done)}\n"
        kept = _settled(old, done) == _settled(new, done)
        for section in done.sections:
            for one in section.found:
                if isinstance(one, Picture) and not (kept and one.varies):
                    drawn = folder / "figures" / f"{done.paper}-{one.name}.svg"
                    with appearing(drawn) as partial:
                        partial.write_text(picture(one.spec, one.name), encoding="utf-8")
        with appearing(path) as partial:
            whole = f"{before}{BEGIN}{old if kept else new}{END}{after}"
            partial.write_text(whole, encoding="utf-8")
        with appearing(folder / "README.md") as partial:
            partial.write_text(_overview(folder), encoding="utf-8")
    except OSError as error:
        raise EngineError(
            "the page could not be written",
            where=str(path),
            remedy="Name a folder that may be written to.",
        ) from error
    return dataclasses.replace(done, page=str(path), kept=kept)


def _settled(text: str, done: Reproduction) -> str:
    """What stands between the marks, without what varies from run to run."""
    found = [one for section in done.sections for one in section.found]
    cells = {
        _line([one.where, one.says])[:-1] for one in found if isinstance(one, Cell) and one.varies
    }
    grids = {_line(one.headings): one.varying for one in found if isinstance(one, Grid)}
    lines, varying = [], set[int]()
    for line in text.splitlines():
        varying = grids.get(line, varying if line.startswith("|") else set())
        parts = re.split(r"(?<!\\)\|", line)
        hidden = varying or ({2, 4} if "|".join(parts[:3]) in cells else set())
        lines.append("|".join("" if at - 1 in hidden else part for at, part in enumerate(parts)))
    return re.sub(r"; [\d,]+ s CPU", "", "\n".join(lines), count=1)


def _overview(folder: Path) -> str:
    """All papers with the verdicts that stand on their pages."""
    rows: list[list[Any]] = []
    for name, title in PAPERS.items():
        path = folder / f"{name}.md"
        counted = _COUNTED.search(path.read_text(encoding="utf-8")) if path.exists() else None
        if counted is not None:
            numbers = [int(number.replace(",", "")) for number in counted.groups()]
            rows.append([f"[{title}]({name}.md)", *numbers])
    heads = ("paper", "cells", *VERDICTS, "CPU s")
    total = [sum(row[at] for row in rows) for at in range(1, len(heads))]
    return (
        "# Eight papers, done again\n\nCells of tables, points of figures and sentences that the "
        "papers state, beside what comes out here; each page says why where they differ. Written "
        "by [`sfumato paper`](../verbs/paper.md), as are the pages.\n\n"
        f"{_table(heads, [*rows, ['all', *total]])}\n"
    )


def measured(done: Reproduction) -> str:
    """What stands between the marks."""
    how = " --quick" if done.quick else ""
    counted = ", ".join(f"{many} {verdict}" for verdict, many in done.counts.items())
    parts = [
        "## Their figures, here",
        f"Written by `sfumato paper {done.paper}{how}`: {len(done.cells)} cells, {counted}; "
        f"{done.cpu_seconds:,.0f} s CPU. A claim that holds counts as exact; seconds, and tables "
        "that others stand in for, are not comparable.",
    ]
    return "\n\n".join([*parts, *(_section(done.paper, part) for part in done.sections)])


def _section(paper: str, section: Section) -> str:
    parts = [f"### {section.heading}"]
    waiting: list[Cell] = []
    for one in section.found:
        if isinstance(one, Cell):
            waiting.append(one)
            continue
        parts += _cells(waiting)
        waiting = []
        parts.append(_shown(paper, one))
    return "\n\n".join([*parts, *_cells(waiting)])


def _cells(cells: Sequence[Cell]) -> list[str]:
    rows = [(c.where, c.says, c.here, c.verdict, c.why) for c in cells]
    heads = ("in the paper", "paper says", "here", "verdict", "why different")
    return [_table(heads, rows)] if rows else []


def _shown(paper: str, one: Found) -> str:
    if isinstance(one, Picture):
        return f"![{one.caption}](figures/{paper}-{one.name}.svg)\n\n{one.caption}"
    assert isinstance(one, Grid)
    return f"{one.caption}:\n\n{_table(one.headings, one.rows)}"


def _table(headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    numbers = [all(not isinstance(row[at], str) for row in rows) for at in range(len(headings))]
    lines = [
        _line(headings),
        "|" + "".join("---:|" if right else "---|" for right in numbers),
    ]
    shown = (["–" if value is None else written(value) for value in row] for row in rows)
    return "\n".join([*lines, *map(_line, shown)])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def lines(
    title: str,
    records: Sequence[Mapping[str, Any]],
    x: str,
    y: str,
    series: str,
    *,
    log_x: bool = False,
    log_y: bool = False,
) -> dict[str, Any]:
    """A chart of lines with points, one line a series."""
    names = list(dict.fromkeys(str(record[series]) for record in records))
    axis = {"grid": True, "format": "~s"}
    layers = {
        "data": {"values": [dict(record) for record in records]},
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": {
                "field": x,
                "type": "quantitative",
                "scale": {"type": "log"} if log_x else {"zero": False},
                "axis": {**axis, "title": x, "values": sorted({r[x] for r in records})},
            },
            "y": {
                "field": y,
                "type": "quantitative",
                "scale": {"type": "log"} if log_y else {"zero": False},
                "axis": {**axis, "title": y},
            },
            "color": {
                "field": series,
                "type": "nominal",
                "sort": names,
                "title": None,
                "scale": {"domain": names, "range": list(PALETTE[: len(names)])},
                "legend": {"orient": "bottom", "columns": 3},
            },
        },
    }
    return chart(title, layers, height=240)
