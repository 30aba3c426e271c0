"""Fung et al.: Figures 2 to 5, on studies whose patients are public.

The patients of MAASTRO, Gent and Leuven are not to be had. The lung cancer study of the North
Central Cancer Treatment Group stands in: six columns as theirs, 18 real institutions merged into
four (A to D). The breast cancer study GBSG2 stands beside it, with eight columns and constructed
institutions of 40, 30, 20 and 10 % of the rows. Both come with the package lifelines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.errors import MissingExtraError
from sfumato.joint import Agreement, Category, Number, Outcome, Projection, encode, encode_outcome
from sfumato.joint.local_data import equivalent_dose
from sfumato.joint.validation import Evaluation, ModelScore, evaluate
from sfumato.papers.reproduction import Cell, Found, Grid, Picture, claim, elsewhere, figure, lines

SITES = ("A", "B", "C", "D")
MERGED = {1: "A", 12: "B", 13: "B", 3: "C", 11: "C", 22: "C"}
"""Institutions of the lung study; all others are D."""
LUNG = (
    Number("age", 39, 82, 1),
    Category("sex", ("1", "2")),
    Number("ph.ecog", 0, 3, 1, missing=1),
    Number("ph.karno", 50, 100, 10, missing=80),
    Number("pat.karno", 30, 100, 10, missing=80),
    Number("wt.loss", -24, 68, 1, missing=10),
)
GBSG2 = (
    Category("horTh", ("no", "yes")),
    Number("age", 20, 80, 1),
    Category("menostat", ("Pre", "Post")),
    Number("tsize", 0, 120, 1),
    Category("tgrade", ("I", "II", "III"), ordered=True),
    Number("pnodes", 0, 51, 1),
    Number("progrec", 0, 2400, 1),
    Number("estrec", 0, 1200, 1),
)
OUTCOMES = {
    "lung": Outcome(time="time", event="status", event_value="1", time_max=1100, horizon=365),
    "gbsg2": Outcome(time="time", event="cens", time_max=2700, horizon=730),
}
LOST = "a random B that loses an important direction costs more than the others' rows bring"
SVM, COX = ("svm_auc", "SVM"), ("cox_auc", "Cox")


@cache
def _study(name: str) -> tuple[Any, Any, Any, Any, Agreement, float]:
    """Encoded rows, time, event, institution, agreement and horizon of a study."""
    try:
        from lifelines import datasets
    except ImportError as error:
        raise MissingExtraError("models", "the survival studies of lifelines") from error
    frame = getattr(datasets, f"load_{name}")()
    columns = LUNG if name == "lung" else GBSG2
    if name == "lung":
        frame = frame[frame["inst"].notna()]
        institution = np.array([MERGED.get(int(number), "D") for number in frame["inst"]])
    else:
        random = np.random.default_rng(2008)
        institution = random.choice(np.array(SITES), len(frame), p=[0.4, 0.3, 0.2, 0.1])
    outcome = OUTCOMES[name]
    wanted = [*(column.name for column in columns), outcome.time, outcome.event]
    table = _whole(pa.Table.from_pandas(frame[wanted], preserve_index=False))
    width = sum(column.width for column in columns) - 1
    agreement = Agreement(
        name,
        columns,
        outcome,
        Projection(seed=f"{name} study", dimensions=width, matrix="gaussian"),
    )
    time, event = encode_outcome(table, agreement)
    return (
        encode(table, agreement),
        time,
        event,
        institution,
        agreement,
        float(outcome.horizon or 0),
    )


def _whole(table: pa.Table) -> pa.Table:
    """Whole numbers that pandas holds as floats because a value is missing."""
    fields = [
        pa.field(name, pa.int64())
        if pa.types.is_floating(column.type)
        and column.drop_null().cast(pa.int64(), safe=False).equals(column.drop_null())
        else table.schema.field(name)
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    return table.cast(pa.schema(fields))


def patients(quick: bool) -> Iterator[Found]:
    """Sections 5.1 to 5.3: patients, dose and columns."""
    public = "their patients are not to be had: the lung study stands in, in four institutions"
    encoded, time, event, institution, _, horizon = _study("lung")
    known = (time > horizon) | event.astype(bool)
    for what, says, rows in (
        ("SVM, with two years of follow-up", "70, 37 and 23", known),
        ("Cox regression", "80, 85 and 40", np.ones(len(time), bool)),
    ):
        held = [int((institution[rows] == site).sum()) for site in SITES]
        told = ", ".join(map(str, held[:-1])) + f" and {held[-1]}"
        yield elsewhere(f"section 5.3, patients of the {what}", says, told, public)
    yield figure("section 5.3, predictors", 6, len(LUNG), "other ones, as many")
    width = encoded.matrix.shape[1]
    yield claim("section 6, the random matrix B", "5 x 6", f"{width - 1} x {width}", width == 6)
    doses = equivalent_dose([60.0, 66.0], [2.0, 3.0], [28, 38])
    by_hand = (60 * (2 + 10) / 12, 66 * (3 + 10) / 12 - 0.66 * 10)
    yield claim(
        "formula 5.8, 60 Gy by 2 in 28 days and 66 Gy by 3 in 38 days",
        ", ".join(f"{dose:.2f}" for dose in by_hand), ", ".join(f"{dose:.2f}" for dose in doses),
        bool(np.allclose(doses, by_hand)),
    )  # fmt: skip


@cache
def _evaluated(name: str, train: float, splits: int, every: bool = False) -> Evaluation:
    encoded, time, event, institution, agreement, horizon = _study(name)
    width = encoded.matrix.shape[1] - 1
    return evaluate(
        encoded, time, event, institution, agreement, horizon=horizon, train=train, splits=splits,
        dimensions=range(1, width + 1) if every else (width,),
    )  # fmt: skip


def _splits(quick: bool) -> int:
    return 10 if quick else 100


def _studies(quick: bool) -> tuple[str, ...]:
    return ("lung",) if quick else ("lung", "gbsg2")


def _score(model: ModelScore, key: str) -> tuple[float, float]:
    return float(getattr(model, key)), float(getattr(model, f"{key}_sd"))


def _lead(one: ModelScore, other: ModelScore, key: str) -> tuple[float, float]:
    """Mean difference over the splits, and its standard error."""
    column = 0 if key == "svm_auc" else 1
    apart = one.runs[:, column] - other.runs[:, column]
    apart = apart[np.isfinite(apart)]
    return float(apart.mean()), float(apart.std(ddof=1) / np.sqrt(len(apart)))


def _judged(
    where: str, says: str, here: str, lead: tuple[float, float], same: bool = False, why: str = LOST
) -> Cell:
    """Whether one model beats another (or is as good): beyond two standard errors, or not."""
    mean, error = lead
    told = f"{here} ({mean:+.3f} ± {error:.3f})"
    if same:
        good = mean > -2 * error
        return claim(where, says, told, good, "" if good else why)
    if abs(mean) <= 2 * error:
        return Cell(where, says, told, "within noise", "within two standard errors of equal")
    return claim(where, says, told, mean > 0, "" if mean > 0 else why)


def _single(number: int, model: tuple[str, str], quick: bool) -> Iterator[Found]:
    key, what = model
    grid = []
    for name in _studies(quick):
        gains: dict[str, list[float]] = {site: [] for site in ("private", *SITES)}
        for train in (0.4, 0.6):
            found = _evaluated(name, train, _splits(quick))
            private, spread = _score(found.private, key)
            alone = {site: _score(found.model(site), key) for site in SITES}
            best = max(alone, key=lambda site: alone[site][0])
            row: list[Any] = [name, f"{train:.0%}", f"{private:.3f} ± {spread:.3f}"]
            row += [f"{mean:.3f} ± {sd:.3f}" for mean, sd in alone.values()]
            grid.append([*row, f"{_score(found.model('pooled'), key)[0]:.3f}"])
            gains["private"].append(private)
            for site in SITES:
                gains[site].append(alone[site][0])
            same = (number, train) == (4, 0.6)
            says = "is as good as the best center" if same else "beats every single center"
            yield _judged(
                f"Figure {number}, {name}, {train:.0%} for training", f"the private {what} {says}",
                f"{private:.3f} against {alone[best][0]:.3f} of {best}",
                _lead(found.private, found.model(best), key), same,
            )  # fmt: skip
        if quick:
            continue
        told = ", ".join(f"{site} {after - before:+.3f}" for site, (before, after) in gains.items())
        worst = min(gains, key=lambda site: gains[site][1] - gains[site][0])
        # splits of 40 and of 60 % are other splits: their errors add up
        yield _judged(
            f"Figure {number}, {name}, more training rows", "all models improve",
            f"{told}; least {worst}", _growth(name, worst, key),
            why="this one is worse with more training rows",
        )  # fmt: skip
        grown = [_growth(name, site, key) for site in SITES]
        single, own = float(np.mean([mean for mean, _ in grown])), _growth(name, "private", key)
        error = float(np.sqrt(sum(e * e for _, e in grown) / len(grown) ** 2 + own[1] ** 2))
        yield _judged(
            f"Figure {number}, {name}, improvement", "single centers improve more",
            f"{single:+.3f} on average against {own[0]:+.3f}", (single - own[0], error),
            why="the private model improves more here",
        )  # fmt: skip
    if not quick:
        heads = ["study", "training rows", "private", *SITES, "pooled"]
        yield Grid(f"Figure {number}: AUC of {what}, mean and standard deviation of 100 splits",
                   heads, grid)  # fmt: skip


def figure_2(quick: bool) -> Iterator[Found]:
    """Figure 2: SVM, private against single institutions."""
    yield from _single(2, SVM, quick)


def figure_4(quick: bool) -> Iterator[Found]:
    """Figure 4: Cox regression, private against single institutions."""
    yield from _single(4, COX, quick)


def _growth(name: str, model: str, key: str) -> tuple[float, float]:
    """How much better a model is with 60 than with 40 % for training, and its standard error."""
    column = 0 if key == "svm_auc" else 1
    runs = []
    for train in (0.4, 0.6):
        found = _evaluated(name, train, 100)
        scores = (found.private if model == "private" else found.model(model)).runs[:, column]
        runs.append(scores[np.isfinite(scores)])
    few, many = runs
    error = np.sqrt(few.var(ddof=1) / len(few) + many.var(ddof=1) / len(many))
    return float(many.mean() - few.mean()), float(error)


def _gap(found: Evaluation, key: str) -> float:
    return _score(found.model("pooled"), key)[0] - _score(found.private, key)[0]


def _against_pooled(number: int, model: tuple[str, str], quick: bool) -> Iterator[Found]:
    key, what = model
    shares = (0.4,) if quick else (0.2, 0.4, 0.6, 0.8)
    for name in _studies(quick):
        runs = {share: _evaluated(name, share, _splits(quick), share == 0.4) for share in shares}
        gaps = {share: _gap(run, key) for share, run in runs.items()}
        yield claim(
            f"Figure {number}, left, {name}", "the gap to the pooled model is not very big",
            ", ".join(f"{gap:+.3f} at {share:.0%}" for share, gap in gaps.items()),
            max(gaps.values()) < 0.05,
        )  # fmt: skip
        swept = sorted(
            (m for m in runs[0.4].models if m.dimensions), key=lambda m: m.dimensions or 0
        )
        scores = [_score(model, key)[0] for model in swept]
        told = ", ".join(f"{score:.3f}" for score in scores) + f" for m̄ = 1 to {len(scores)}"
        yield _growing(f"Figure {number}, right, {name}", told, swept, key)
        if not quick:
            yield from _pictures(number, what, key, name, runs)


def _growing(where: str, told: str, swept: Sequence[ModelScore], key: str) -> Cell:
    """Whether each further dimension helps; a fall within two standard errors is noise."""
    steps = [_lead(larger, smaller, key) for smaller, larger in pairwise(swept)]
    says = "a larger m̄ is better"
    if all(mean > 0 for mean, _ in steps):
        return claim(where, says, told, True)
    grows = _lead(swept[-1], swept[0], key)[0] > 0
    if grows and all(mean > -2 * error for mean, error in steps):
        return Cell(where, says, told, "within noise", "falls by less than two standard errors")
    return claim(where, says, told, False, "falls by more than two standard errors")


def _pictures(
    number: int, what: str, key: str, name: str, runs: dict[float, Evaluation]
) -> Iterator[Found]:
    records = [
        {"training rows": share, "AUC": _score(model, key)[0], "model": told}
        for told in ("private", "pooled")
        for share, run in runs.items()
        for model in (run.private if told == "private" else run.model("pooled"),)
    ]
    caption = f"Figure {number}, left: AUC of {what} on {name} by share of training rows"
    yield Picture(
        f"{number}-{name}-rows", caption, lines(caption, records, "training rows", "AUC", "model")
    )
    swept = [m for m in runs[0.4].models if m.dimensions]
    pooled = _score(runs[0.4].model("pooled"), key)[0]
    records = [
        {"m̄": m.dimensions or 0, "AUC": _score(m, key)[0], "model": "private"} for m in swept
    ]
    records += [{"m̄": m.dimensions or 0, "AUC": pooled, "model": "pooled"} for m in swept]
    caption = f"Figure {number}, right: AUC of {what} on {name} by m̄, 40 % for training"
    yield Picture(f"{number}-{name}-m", caption, lines(caption, records, "m̄", "AUC", "model"))
    column = 0 if key == "svm_auc" else 1
    both = np.stack([runs[0.4].model("pooled").runs[:, column], runs[0.4].private.runs[:, column]])
    below = float(np.mean(both[1] < both[0]))
    worst = float(np.max(both[0] - both[1]))
    yield claim(
        f"Figure {number}, middle, {name}", "big error bars for different B",
        f"private below pooled in {below:.0%} of the splits, by up to {worst:.3f}", worst > 0.02,
    )  # fmt: skip
    above = float(np.mean(both[1] > both[0]))
    yield claim(
        f"Figure {number}, caption, {name}", "pooled models upper-bound the private ones",
        f"private above pooled in {above:.0%} of the splits", above == 0,
        "fewer dimensions can fit few training rows better" if above else "",
    )  # fmt: skip


def figure_3(quick: bool) -> Iterator[Found]:
    """Figure 3: SVM, private against pooled."""
    yield from _against_pooled(3, SVM, quick)


def figure_5(quick: bool) -> Iterator[Found]:
    """Figure 5: Cox regression, private against pooled."""
    yield from _against_pooled(5, COX, quick)
    if quick:
        return
    for name in _studies(quick):
        found = _evaluated(name, 0.4, 100, True)
        gaps = {what: _gap(found, key) for key, what in (SVM, COX)}
        apart = found.model("pooled").runs[:, :2] - found.private.runs[:, :2]
        smaller = apart[:, 0] - apart[:, 1]  # split by split: SVM's gap less that of Cox
        smaller = smaller[np.isfinite(smaller)]
        error = float(smaller.std(ddof=1) / np.sqrt(len(smaller)))
        yield _judged(
            f"Figure 5, {name}, gap of Cox against SVM", "even smaller for Cox",
            f"Cox {gaps['Cox']:+.3f}, SVM {gaps['SVM']:+.3f}", (float(smaller.mean()), error),
            why="the gap of the SVM is the smaller one here",
        )  # fmt: skip


EXPERIMENTS = (patients, figure_2, figure_3, figure_4, figure_5)
