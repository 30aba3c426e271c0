"""A paper done again: its tables as data, cells with a verdict each, and the page they stand on.

An experiment is a function that yields `Cell`, `Grid` and `Picture`; the first line of its
docstring is its heading. It is told whether it has to be quick: a quick run leaves cells out and
draws fewer samples, but calls a cell by the same name.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sfumato import datasets
from sfumato.budget import Budget
from sfumato.errors import EngineError, ParameterError, did_you_mean
from sfumato.files import appearing
from sfumato.report.drawing import chart, picture
from sfumato.results import Result

PAPERS = {
    "motwani-xu": "Motwani & Xu: masking and finding quasi-identifiers",
    "park-shim": "Park & Shim: approximate algorithms for k-anonymity",
    "lodha-thomas": "Lodha & Thomas: probabilistic anonymity",
    "xiong-rangachari": "Xiong & Rangachari: anonymization for an application",
    "miller-campan-truta": "Miller, Campan & Truta: k-anonymity within boundaries",
    "fung-et-al": "Fung et al.: predictive models across hospitals",
    "ryger-kardes-wright": "Ryger, Kardes & Wright: secure logarithms",
    "yuan": "Yuan: finding quasi-identifiers against k-anonymity",
}
"""Names of the papers, and what they are about."""
EXACT, NOISE, DIFFERS, OTHER = VERDICTS = ("exact", "within noise", "differs", "not comparable")
"""The same figure, or a claim that holds; as far apart as samples are; neither of these; measured
on another machine or another table, so that equality would mean nothing."""
MACHINE = "seconds of another machine"
_VARIES = re.compile(r"\bCPU s|^ms a |^off by units")
"""Headings and captions of seconds, and of errors that the operating system's chance decides."""


Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Cell(Result):
    """One figure or claim of a paper: where it stands, what it says, and what comes out here.

    What `varies` is another at each run: seconds, and what the operating system's chance decides.
    """

    where: str
    says: str
    here: str
    verdict: str
    why: str = ""
    varies: bool = False


@dataclass(frozen=True)
class Grid:
    """A table of figures that the paper has as a drawing, or that explain a difference."""

    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[Any]]

    @property
    def varying(self) -> set[int]:
        """Columns that are others at each run."""
        return {at for at, head in enumerate(self.headings) if _VARIES.search(head)}


@dataclass(frozen=True)
class Picture:
    """A drawing: the name of its file, what it shows, and its Vega-Lite specification."""

    name: str
    caption: str
    spec: dict[str, Any]

    @property
    def varies(self) -> bool:
        """Whether it shows seconds, which are others at each run."""
        return _VARIES.search(self.caption) is not None


Found = Cell | Grid | Picture
Experiment = Callable[[bool], Iterator[Found]]


@dataclass(frozen=True)
class Section:
    """What one experiment found, under its heading."""

    heading: str
    found: tuple[Found, ...]


@dataclass(frozen=True)
class Reproduction(Result):
    """A paper done again.

    Attributes
    ----------
    counts
        How many cells there are of each verdict.
    cpu_seconds
        What the run took, all cores together.
    page
        Where it was written to; None if it was only shown.
    kept
        Whether that page stayed as it was, since it said the same but for what varies.
    """

    passed_on: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("paper", "title", "quick", "counts", "cells", "cpu_seconds", "page", "kept"),
        "tables of papers are public",
    )

    paper: str
    title: str
    quick: bool
    counts: dict[str, int]
    cells: tuple[Cell, ...]
    cpu_seconds: float
    page: str | None = None
    kept: bool = False
    sections: tuple[Section, ...] = field(default=(), metadata={"private": True})


@dataclass(frozen=True)
class PaperList(Result):
    """Names of the papers, and what they are about."""

    passed_on: ClassVar[Mapping[str, str]] = {"papers": "it is the same for everybody"}

    papers: dict[str, str]


def list_papers() -> PaperList:
    """All papers there are."""
    return PaperList(dict(PAPERS))


def reproduce(name: str, *, quick: bool = False, budget: Budget | None = None) -> Reproduction:
    """Run the experiments of a paper.

    Parameters
    ----------
    name
        One of `PAPERS`.
    quick
        A part of it that takes seconds: fewer cells, fewer samples.
    """
    if name not in PAPERS:
        raise ParameterError(f"there is no paper `{name}`", remedy=did_you_mean(name, PAPERS))
    budget = budget or Budget()
    module = importlib.import_module(f"sfumato.papers.{name.replace('-', '_')}")
    begun = time.process_time()
    sections = []
    for at, experiment in enumerate(module.EXPERIMENTS):
        heading = (experiment.__doc__ or "").partition("\n")[0].removesuffix(".")
        budget.progress(heading, at / len(module.EXPERIMENTS))
        found = tuple(experiment(quick))
        if found:
            sections.append(Section(heading, found))
    cells = tuple(one for part in sections for one in part.found if isinstance(one, Cell))
    return Reproduction(
        paper=name,
        title=PAPERS[name],
        quick=quick,
        counts={verdict: sum(cell.verdict == verdict for cell in cells) for verdict in VERDICTS},
        cells=cells,
        cpu_seconds=round(time.process_time() - begun, 1),
        sections=tuple(sections),
    )


def written(value: Any) -> str:
    """A figure as it stands in a table.

    Examples
    --------
    >>> written(30162), written(0.99995), written(7200.0), written("5 columns")
    ('30,162', '0.99995', '7,200', '5 columns')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    if abs(value) >= 10 and value % 1 == 0:
        return f"{value:,.0f}"
    return f"{value:.6g}"


def _as_printed(here: float, says: float) -> tuple[float, float]:
    """A figure with as many decimals as another has, rounded and cut off."""
    if isinstance(says, int) or not math.isfinite(here):
        return here, here
    places = -int(Decimal(repr(says)).as_tuple().exponent)
    whole, _, rest = format(Decimal(repr(float(here))), "f").partition(".")
    return round(here, places), float(f"{whole}.{rest[:places]}")


def figure(where: str, says: float, here: float, why: str = "") -> Cell:
    """A figure that has no chance in it: exact if it is what is printed, rounded or cut off.

    Examples
    --------
    >>> figure("Table 4", 0.9997, 0.99972).verdict, figure("Table 4", 13, 14).verdict
    ('exact', 'differs')
    """
    same = says in _as_printed(here, says)
    return Cell(where, written(says), written(here), EXACT if same else DIFFERS, why)


def sampled(where: str, says: float, drawn: Sequence[float], why: str = "") -> Cell:
    """A figure of random samples: within noise if the seeds tried lie around what is printed.

    Examples
    --------
    >>> sampled("Table 3", 37, [36, 37, 38]).verdict, sampled("Table 2", 46, [45, 45]).verdict
    ('within noise', 'differs')
    """
    low, high = min(drawn), max(drawn)
    inside = min(_as_printed(low, says)) <= says <= max(_as_printed(high, says))
    told = written(low) if written(low) == written(high) else f"{written(low)} to {written(high)}"
    many = f" ({len(drawn)} seeds)" if len(drawn) > 1 else ""
    verdict = DIFFERS if not inside else EXACT if low == high else NOISE
    return Cell(where, written(says), told + many, verdict, why)


def claim(
    where: str, says: str, here: str, holds: bool, why: str = "", *, varies: bool = False
) -> Cell:
    """A sentence of the paper that holds here, or does not."""
    return Cell(where, says, here, EXACT if holds else DIFFERS, why, varies)


def faster(where: str, says: str, ratio: float, why: str) -> Cell:
    """A sentence about which of two is faster: up to 30% more or less is noise of the machine.

    Examples
    --------
    >>> [faster("Figure 3", "better", ratio, "").verdict for ratio in (0.6, 1.04, 1.4)]
    ['exact', 'within noise', 'differs']
    """
    verdict = EXACT if ratio < 0.7 else NOISE if ratio < 1.3 else DIFFERS
    told = why if verdict == DIFFERS else ""
    return Cell(where, says, f"{ratio:.2f} of the time", verdict, told, varies=True)


def elsewhere(where: str, says: Any, here: Any, why: str) -> Cell:
    """A figure that cannot be the paper's: its table is not to be had, or its machine."""
    return Cell(where, written(says), written(here), OTHER, why)


def seconds(where: str, says: float | str, here: float, why: str = MACHINE) -> Cell:
    """A time of theirs beside CPU seconds of ours."""
    told = says if isinstance(says, str) else f"{written(says)} s"
    spent = f"{here:.2g} s" if here < 100 else f"{here:,.0f} s"
    return Cell(where, told, spent, OTHER, why, varies=True)


def timed(call: Callable[[], Answer], *, turns: int = 1) -> tuple[Answer, float]:
    """The answer of a call and the CPU seconds it took: the least, where it is done in turns.

    The first turn may have to compile, and others use the machine.
    """
    least = math.inf
    for _ in range(turns):
        begun = time.process_time()
        answer = call()
        least = min(least, time.process_time() - begun)
    return answer, max(least, math.ulp(1.0))


COLUMNS = 41
"""How many attributes Motwani & Xu took from the census."""


def read(name: str) -> pa.Table:
    """A table that comes with the repository."""
    return pq.read_table(datasets.path(name))


@cache
def adult_complete() -> pa.Table:
    """The 30,162 rows of Adult's training part that miss no value."""
    return read("adult").drop_null()


@cache
def adult_distinct() -> pa.Table:
    """Adult as Motwani & Xu used it: 29,096 x 14.

    Training rows without `fnlwgt`, ``?`` as a value, each different row once in the order in which
    rows first appear.
    """
    return _distinct(read("adult").drop(["fnlwgt"]))


@cache
def covtype() -> pa.Table:
    """Covtype without its label: 581,012 x 54."""
    table = read("covtype")
    return table.select(table.column_names[:54])


@cache
def oregon_adults() -> pa.Table:
    """Adults of Oregon in the American Community Survey, the first 41 columns that vary.

    Stands in for a state of the census of 2000: numbers of households and persons, weights and
    flags of imputation are left out, and so are columns that mostly miss.
    """
    table = read("pums_oregon_calm_person")
    table = table.filter(pc.greater_equal(table.column("AGEP"), 20))
    skipped = {"SERIALNO", "SPORDER", "PUMA", "PUMA00", "PUMA10", "RT", "ST", "DIVISION", "REGION"}
    chosen = [
        name
        for name, column in zip(table.column_names, table.columns, strict=True)
        if name not in skipped
        and name.isupper()
        and not name.startswith(("F", "PWGT", "WGT", "ADJ"))
        and column.null_count < 0.7 * len(column)
        and pc.count_distinct(column, mode="all").as_py() > 1
    ]
    return _distinct(table.select(chosen[:COLUMNS]))


@cache
def census_adults() -> pa.Table:
    """Adults of Census-income (its test part), all 41 columns but the sampling weight.

    Stands in for the states of Motwani & Xu; it has the same questions but is another survey.
    """
    table = read("census_income_kdd_test")
    table = table.filter(pc.greater_equal(table.column("age"), 20))
    return _distinct(table.drop(["instance weight"]))


def _distinct(table: pa.Table) -> pa.Table:
    """Each different row once, in the order in which rows first appear; null becomes ``?``."""
    names = table.column_names
    filled = [
        pc.fill_null(column, "?") if pa.types.is_string(column.type) else column
        for column in table.columns
    ]
    table = pa.table(dict(zip(names, filled, strict=True)))
    at = table.append_column("row", pa.array(range(table.num_rows)))
    first = at.group_by(names).aggregate([("row", "min")]).column("row_min")
    return table.take(first.take(pc.sort_indices(first)))


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
    lines = [_line(headings), "|" + "".join("---:|" if right else "---|" for right in numbers)]
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
