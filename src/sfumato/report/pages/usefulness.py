"""The page of what a release is still good for: precision, statistics, and what can be learned."""

from __future__ import annotations

from dataclasses import replace

from sfumato.report import charts
from sfumato.report.page import Figure, Grid, Page, Section
from sfumato.utility.measures import Utility
from sfumato.utility.usefulness import Accuracy, Contingency
from sfumato.wording import percent

__all__ = ["utility_page", "utility_summary"]


def utility_summary(found: Utility) -> Page:
    """What is said of the usefulness of a release first."""
    said = f"{percent(found.certainty_penalty)} of the precision of these columns is lost."
    learned = found.accuracy
    if learned is not None:
        said += (
            f" A classifier predicts {percent(learned.released)} of the rows right from the "
            f"release, {percent(learned.original)} from the original, and always guessing the "
            f"commonest {percent(learned.baseline)}."
        )
    elif found.majority_penalty is not None:
        said += (
            " Nothing was learned to predict the target: that takes scikit-learn, two rows, and "
            "another column."
        )
    facts = [
        ("precision lost", percent(found.certainty_penalty)),
        ("average class size by these columns", f"{found.average_class_size:,.1f}"),
        ("rows left out", f"{found.suppressed_rows:,}"),
        ("cells that tell nothing", f"{found.suppressed_cells:,}"),
    ]
    if found.majority_penalty is not None:
        facts.append(("unlike the majority of their class", percent(found.majority_penalty)))
    return Page(
        title="What it is still good for",
        subtitle="A release beside the table it was made of",
        verdict=said,
        tone="warn" if found.certainty_penalty > 0.3 or _forgot(learned) else "good",
        facts=facts,
    )


def _forgot(learned: Accuracy | None) -> bool:
    """Whether a classifier lost more than half of what it knows beyond guessing."""
    if learned is None or learned.original <= learned.baseline:
        return False
    return learned.released - learned.baseline < (learned.original - learned.baseline) / 2


def utility_page(found: Utility) -> Page:
    """The page of the usefulness of a release."""
    sections = [*_learned(found), _columns(found), *_numbers(found)]
    if found.contingency is not None:
        sections.append(_together(found.contingency))
    return replace(utility_summary(found), sections=sections)


def _learned(found: Utility) -> list[Section]:
    learned = found.accuracy
    if learned is None:
        return []
    shown = {
        "from the original": learned.original,
        "from the release": learned.released,
        "by guessing the commonest": learned.baseline,
    }
    figure = Figure(
        "Rows whose target is predicted right",
        f"Naive Bayes on the other columns that were compared, tested on rows it had not seen "
        f"({learned.folds} folds).",
        charts.shares("Rows predicted right", shown, what="rows predicted right"),
    )
    return [Section("What can still be learned", figures=[figure])]


def _columns(found: Utility) -> Section:
    words = (
        "Precision lost: 0% where every cell is exact, 100% where it says nothing. Distribution "
        "moved: the share of the rows that would have to change their value to give the released "
        "distribution, in which a blurred cell counts in equal parts for the values it covers."
    )
    rows = [
        (name, percent(lost), percent(found.distribution[name]))
        for name, lost in found.columns.items()
    ]
    heads = ("column", "precision lost", "distribution moved")
    return Section("Column by column", [words], grids=[Grid(heads, rows, frozenset({1, 2}))])


def _numbers(found: Utility) -> list[Section]:
    if not found.statistics:
        return []
    rows = [
        (name, *(f"{getattr(one, part):,.6g}" for part in _PARTS))
        for name, one in found.statistics.items()
    ]
    heads = ("column", "mean", "released", "standard deviation", "released", "median", "released")
    grid = Grid(heads, rows, frozenset(range(1, 7)))
    words = "A released cell counts in equal parts for the original values that it covers."
    return [Section("Numbers before and after", [words], grids=[grid])]


_PARTS = ("mean", "released_mean", "deviation", "released_deviation", "median", "released_median")


def _together(found: Contingency) -> Section:
    """The table of two columns: rows before and after in every cell."""
    one, other = found.columns
    words = [
        f"Rows by {one} (down) and {other} (across), before → after. A released cell counts in "
        "equal parts for the values it covers; values that few rows hold are under others."
    ]
    if found.association is not None and found.released_association is not None:
        words.append(
            f"Association (Cramér\u2019s V): {found.association:.3f} before, "
            f"{found.released_association:.3f} after; 0 where one column says nothing of the "
            "other, 1 where it says all."
        )
    rows = [
        (name, *(f"{b:,.0f} → {_rows(a)}" for b, a in zip(before, after, strict=True)))
        for name, before, after in zip(found.names[0], found.before, found.after, strict=True)
    ]
    grid = Grid((one, *found.names[1]), rows, frozenset(range(1, len(found.names[1]) + 1)))
    return Section(f"{one} and {other} together", words, grids=[grid])


def _rows(number: float) -> str:
    return f"{number:,.1f}".removesuffix(".0")
