"""What an experiment finds: cells beside those of the paper, each with a verdict, and pictures.

An experiment is a function that yields `Cell`, `Grid` and `Picture`; the first line of its
docstring is its heading. It is told whether it has to be quick: a quick run leaves cells out and
draws fewer samples, but calls a cell by the same name.
"""

from __future__ import annotations

import importlib
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, ClassVar, TypeVar

from sfumato.budget import Budget
from sfumato.errors import ParameterError, did_you_mean
from sfumato.results import Result

__all__ = [
    "PAPERS",
    "VERDICTS",
    "Cell",
    "Experiment",
    "Found",
    "Grid",
    "Picture",
    "Reproduction",
    "Section",
    "Shelf",
    "claim",
    "elsewhere",
    "faster",
    "figure",
    "reproduce",
    "sampled",
    "seconds",
    "shelf",
    "timed",
]

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
class Shelf(Result):
    """Names of the papers, and what they are about."""

    passed_on: ClassVar[Mapping[str, str]] = {"papers": "it is the same for everybody"}

    papers: dict[str, str]


def shelf() -> Shelf:
    """All papers there are."""
    return Shelf(dict(PAPERS))


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
