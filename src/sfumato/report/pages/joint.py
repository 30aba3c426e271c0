"""Pages of joint models and of what was exchanged to fit them.

What a model says is shown on made-up people: the agreement alone describes them, no row does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sfumato.joint.distributed_cox import OPENED
from sfumato.joint.local_data import project
from sfumato.joint.model import JointModel
from sfumato.joint.parties import FitSession
from sfumato.joint.share import ShareResult
from sfumato.joint.validation import Evaluation
from sfumato.report import charts
from sfumato.report.diagrams import gathering_svg
from sfumato.report.disclosure import RARE, safe_moments
from sfumato.report.page import Figure, Grid, Page, Section
from sfumato.wording import amount, percent, phrase, sentence

if TYPE_CHECKING:
    from sfumato.joint.agreement import Column


Floats = npt.NDArray[np.float64]
Points = list[tuple[float, float]]


def column_effects(model: JointModel) -> dict[str, float]:
    """Columns and how much they weigh, weightiest first.

    For a Cox model the hazard ratio between the worst and the best value of the agreed range, for
    classifiers the difference of the score; all other columns are in the middle of theirs.
    """
    effects = {}
    for column in model.agreement.columns:
        scores = _scores_along(model, column)
        change = float(scores.max() - scores.min())
        effects[column.name] = float(np.exp(min(change, 50.0))) if model.kind == "cox" else change
    return dict(sorted(effects.items(), key=lambda item: -item[1]))


def fates_of(model: JointModel, moments: Sequence[float]) -> tuple[dict[str, Points], Points]:
    """Survival of three made-up people at some moments, and the hazard of the middle one.

    One is in the middle of every column's range; the others differ from it in the weightiest column
    only, where they are at its best and at its worst.
    """
    name = next(iter(column_effects(model)))
    column = next(c for c in model.agreement.columns if c.name == name)
    scores = np.sort(_scores_along(model, column))
    middle = float(_score(model, _rows(model, None))[0])
    steps = np.concatenate(([0.0], model.hazard))
    reached = steps[np.searchsorted(model.times, np.asarray(moments), side="right")]
    at = [0.0, *moments]
    people = {
        f"{name} at its best": float(scores[0]),
        "everything in the middle": middle,
        f"{name} at its worst": float(scores[-1]),
    }
    curves = {
        who: list(zip(at, [1.0, *np.exp(-np.exp(score) * reached).tolist()], strict=True))
        for who, score in people.items()
    }
    return curves, list(zip(at, [0.0, *(np.exp(middle) * reached).tolist()], strict=True))


def _scores_along(model: JointModel, column: Column) -> Floats:
    return _score(model, _rows(model, column))


def _rows(model: JointModel, along: Column | None) -> Floats:
    """Encoded people in the middle of every range; along one column one for each of its values."""
    count = 1 if along is None else len(along.options())
    blocks = []
    for column in model.agreement.columns:
        options = column.options()
        chosen = options if column is along else options[[(len(options) - 1) // 2] * count]
        blocks.append(chosen)
    return np.ascontiguousarray(np.concatenate(blocks, axis=1))


def _score(model: JointModel, rows: Floats) -> Floats:
    seen = rows if model.exact else project(rows, model.agreement)
    return np.asarray(seen @ model.coefficients, dtype=np.float64)


MOST_COLUMNS = 30
KINDS = {"cox": "Cox model", "svm": "support vector machine", "logistic": "logistic model"}


def model_summary(found: JointModel) -> Page:
    """What is said of a joint model first."""
    who = phrase(list(found.institutions))
    way = (
        f"on sums that nobody could read one by one: {found.rows:,} rows that stayed at home"
        if found.exact
        else f"on shares of {found.rows:,} rows: {found.agreement.projection.dimensions} projected "
        "numbers a row, and the outcomes in clear"
    )
    scores = [
        (name, f"{value:.3f}")
        for name, value in (("concordance", found.concordance), ("AUC", found.auc))
        if value is not None
    ]
    return Page(
        title=f"A {KINDS[found.kind]} of {len(found.institutions):,} institutions",
        subtitle=f"Study {found.agreement.study} · {who}",
        verdict=f"Fitted {way}.",
        tone="warn" if found.notes else "good",
        facts=(
            ("rows", f"{found.rows:,}"),
            ("institutions", f"{len(found.institutions):,}"),
            *scores,
            ("penalty", f"{found.penalty:.3g}"),
            ("steps", f"{found.iterations:,}"),
        ),
        at_home="",
    )


def model_page(found: JointModel) -> Page:
    sections = [*_survival(found), *_effects(found), _together(found)]
    if found.notes:
        sections.append(Section("To keep in mind", [sentence(note) for note in found.notes]))
    footer = f"Agreement {found.agreement.hash}."
    return replace(model_summary(found), sections=sections, footer=footer)


def _survival(found: JointModel) -> list[Section]:
    """Curves of three made-up people, at moments between which many died."""
    if found.kind != "cox":
        return []
    if not len(found.times):
        words = "Every institution keeps its own baseline: there is no common survival curve."
        return [Section("How people fare", [words])]
    together = int((found.revealed or {}).get("smallest_group", 1))
    moments = safe_moments(found.times, each=together)
    if not moments:
        words = "Too few events for a curve that would not point at people."
        return [Section("How people fare", [words])]
    time = found.agreement.outcome.time or "time"
    people, baseline = fates_of(found, moments)
    words = (
        f"Nobody's row is behind a line: they are made-up people. The curves go straight between "
        f"moments that at least {RARE} events lie between, and end where fewer are left; how many "
        "people were still observed is not in the model."
    )
    figures = [
        Figure(
            "Survival",
            "The expected share of people who live on: with every agreed column in the middle of "
            "its range, and with the weightiest column at either end of it.",
            charts.survival("Survival by time", people, time=time),
        ),
        Figure(
            "Baseline hazard",
            "The cumulative hazard of the person in the middle: the steeper, the more die.",
            charts.hazard("Cumulative hazard by time", baseline, time=time),
        ),
    ]
    return [Section("How people fare", [words], figures)]


def _effects(found: JointModel) -> list[Section]:
    effects = column_effects(found)
    cox = found.kind == "cox"
    shown = dict(list(effects.items())[:MOST_COLUMNS])
    if cox:
        caption = (
            "How many times as likely one end of a column's agreed range (or its worst category) "
            "is to die at any moment as the other end (or the best one), all else in the middle."
        )
        spec = charts.ratios(
            "Hazard ratio by column", shown, what="hazard, times as high", factor=True
        )
    else:
        caption = (
            "How far the score moves from one end of a column's agreed range (or one category) to "
            "the other, all else in the middle."
        )
        spec = charts.ratios("Score by column", shown, what="difference of the score", factor=False)
    return [Section("What matters", figures=[Figure("Columns by their weight", caption, spec)])]


def _together(found: JointModel) -> Section:
    dimensions = found.agreement.projection.dimensions
    members = [(name, _rows_of(rows)) for name, rows in found.institutions.items()]
    if found.exact:
        arrow = "shares of secrets"
        lines = [f"{found.iterations:,} steps", "coefficients, rounded"]
        caption = (
            "Each institution deals its sums out in shares, of which a minority of the parties "
            "learns nothing; only what is listed is opened."
        )
        revealed = found.revealed or {}
        learned = [("everybody", "the model, and each step towards it")]
        if "times" in revealed:
            learned.append(("everybody", "how many died at each time of the agreed grid"))
        if "numbers" in revealed:
            numbers, bits = int(revealed["numbers"]), int(revealed.get("bits", 0))
            learned.append(("everybody", f"{numbers:,} numbers of {bits:,} bits in all"))
    else:
        arrow = "one file each"
        lines = [f"{dimensions:,} rounded numbers a row", "times and events in clear"]
        caption = "Each institution publishes one file; whoever has all of them fits the model."
        learned = [
            ("whoever has the files", "times and events of all rows"),
            ("whoever has the files", f"{dimensions:,} rounded numbers for each row"),
            ("everybody", "the model"),
        ]
    figure = Figure(
        "Who gave what",
        caption,
        svg=gathering_svg(members, arrow, (KINDS[found.kind], lines), "Who gave what to the model"),
    )
    return Section("Who learned what", figures=[figure], grids=[Grid(("who", "learned"), learned)])


def _rows_of(rows: int | None) -> str:
    if rows is None:
        return "rows not told"
    return f"fewer than {RARE} rows" if rows < RARE else f"{rows:,} rows"


def fit_summary(found: FitSession) -> Page:
    """What is said of an exact fit first."""
    line = "over encrypted lines" if found.encrypted else "over lines that were not encrypted"
    opened = sum(found.opened.values())
    return Page(
        title="Fitted together",
        subtitle=f"This side was {found.name} · {found.coordinator} coordinated",
        verdict=f"{len(found.parties):,} parties opened {opened:,} numbers {line}, and nothing "
        "else of their rows.",
        tone="good" if found.encrypted else "warn",
        facts=(
            ("rounds", f"{found.rounds:,}"),
            ("messages", f"{found.messages_sent + found.messages_received:,}"),
            ("sent", amount(found.bytes_sent)),
            ("received", amount(found.bytes_received)),
        ),
        at_home="",
    )


def fit_page(found: FitSession) -> Page:
    members = [(name, "coordinates" if name == found.coordinator else "") for name in found.parties]
    figure = Figure(
        "Who gave what",
        "Every party deals its sums out in shares, sealed for those who get them: the coordinator, "
        "which passes them on, can read none but its own.",
        svg=gathering_svg(
            members,
            "shares of secrets",
            ("opened to everybody", [f"{sum(found.opened.values()):,} numbers"]),
            "Shares of all parties become a model",
        ),
    )
    rows = [(OPENED.get(step, step), f"{numbers:,}") for step, numbers in found.opened.items()]
    grid = Grid(("everybody learned", "numbers"), rows, frozenset({1}))
    return replace(
        fit_summary(found), sections=[Section("Who learned what", figures=[figure], grids=[grid])]
    )


def share_summary(found: ShareResult) -> Page:
    """What is said of a share first."""
    leak = found.leakage
    verdict = (
        f"{leak.recovered_rows:,} of {leak.attacked_rows:,} attacked rows could be recovered from "
        "the share: do not send it."
        if leak.recovered_rows
        else f"None of {leak.attacked_rows:,} attacked rows could be recovered from the share."
    )
    return Page(
        title=f"The share of {found.institution}",
        subtitle=f"{found.rows:,} rows · {found.dimensions:,} numbers a row, rounded to "
        f"{found.rounding:g} (chosen by {found.chosen_by})",
        verdict=verdict,
        tone="bad" if leak.recovered_rows else "warn" if found.notes else "good",
        facts=(
            ("rows", f"{found.rows:,}"),
            ("recovered, at most", percent(leak.recovered_at_most)),
            ("right guesses", percent(leak.guessed)),
            ("rows that fit, median", f"{leak.candidates:,.0f}"),
            ("alone by time and event", percent(leak.unique_outcomes)),
        ),
    )


def share_page(found: ShareResult) -> Page:
    """The page of a share: its owner's eyes only."""
    pinned = dict(sorted(found.leakage.pinned.items(), key=lambda item: -item[1])[:MOST_COLUMNS])
    figures = [
        Figure(
            "What is certain although the row is not",
            "The share of rows whose value in a column follows from the share, even where several "
            "rows fit.",
            charts.shares("Certain values by column", pinned, what="rows whose value is certain"),
        )
    ]
    if len(found.tried) > 1:
        figures.append(
            Figure(
                "Rounding decides",
                "Rows that the attack recovered at each rounding step that was tried.",
                charts.shares(
                    "Recovered rows by rounding step",
                    {f"step {step}": share for step, share in found.tried.items()},
                    what="rows recovered",
                ),
            )
        )
    sections = [Section("What the share gives away", figures=figures)]
    sections += _price(found)
    if found.notes:
        sections.append(Section("To keep in mind", [sentence(note) for note in found.notes]))
    return replace(share_summary(found), sections=sections)


def _price(found: ShareResult) -> list[Section]:
    price = found.price or {}
    names = {"all_columns": "all columns", "projected": "projected", "published": "as published"}
    shown = {
        said: float(value)
        for name, said in names.items()
        if isinstance(value := price.get(name), (int, float))
    }
    if not shown:
        return []
    figure = Figure(
        "What projection and rounding cost",
        f"{sentence(str(price.get('measure', 'quality')))} Cross-validated on the owner's rows; "
        "50% is a guess.",
        charts.shares("Quality of a model by what it sees", shown, what="quality"),
    )
    return [Section("What it costs", figures=[figure])]


def evaluation_summary(found: Evaluation) -> Page:
    """What is said of an experiment first."""
    best = max(found.models, key=lambda m: m.concordance, default=None)
    verdict = (
        f"{best.model} orders people best: concordance {best.concordance:.3f} over "
        f"{best.splits:,} splits."
        if best is not None
        else "No model could be fitted."
    )
    return Page(
        title="Private, pooled and single models compared",
        subtitle=f"{found.rows:,} rows of {len(found.institutions):,} institutions",
        verdict=verdict,
        tone="good",
        facts=(
            ("splits", f"{found.splits:,}"),
            ("rows to learn from", percent(found.train)),
            ("horizon", f"{found.horizon:g}"),
        ),
    )


def evaluation_page(found: Evaluation) -> Page:
    measures: Sequence[tuple[str, str, str]] = (
        ("Concordance", "concordance", "pairs of people ordered rightly"),
        ("AUC of the Cox model", "cox_auc", "pairs told apart at the horizon"),
        ("AUC of the support vector machine", "svm_auc", "pairs told apart at the horizon"),
    )
    figures = []
    for title, field, what in measures:
        rows: list[tuple[str, float, float | None, float | None]] = []
        for model in found.models:
            value, spread = getattr(model, field), getattr(model, f"{field}_sd")
            if value == value:  # not every model has every score
                rows.append((model.model, value, value - spread, value + spread))
        if rows:
            caption = "Mean over all splits; the bar reaches one standard deviation to each side."
            figures.append(Figure(title, caption, charts.intervals(title, rows, what=what)))
    return replace(evaluation_summary(found), sections=[Section("Models", figures=figures)])
