"""How well models do: scores of order, choices by cross-validation, and the paper's experiment.

Area under the ROC curve and concordance take O(n log n).

The random matrix cannot be chosen by publishing several projections of the same rows: two shares
under different matrices give an attacker twice the equations. So each institution scores the
candidate seeds on its own rows at home (`score_seeds`), and only these scores, rounded to three
decimals, are exchanged (`choose_seed`). The penalty may be chosen on the stacked shares, which are
public already (`choose_penalty`).

`evaluate` does as the paper: random splits, one model an institution, private and pooled models.
Every model is tested on the test rows of all institutions. Classifiers learn from and are tested
on rows of which survival beyond the horizon is known; Cox models learn from all rows.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.budget import Budget, within_budget
from sfumato.errors import InputError, ParameterError, PromiseError, SourceError
from sfumato.joint import attack
from sfumato.joint.agreement import Agreement
from sfumato.joint.cox import fit_cox, time_groups
from sfumato.joint.leakage_report import Protect, safe_rounding
from sfumato.joint.linear_classifiers import fit_svm
from sfumato.joint.local_data import (
    Encoded,
    encode,
    encode_outcome,
    local_rows,
    project,
    round_to,
    survived,
)
from sfumato.kernels.compiling import bare, compiled
from sfumato.results import Result

Floats = NDArray[np.float64]
Outcomes = tuple[Floats | None, NDArray[np.bool_]]

PENALTIES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Ridge penalties that are tried; for classifiers ν is the reciprocal."""

_DEFAULT_PENALTY = 0.3
_PRICE_ROWS = 2_000
_STEPS = 8  # of rounding that are tried about until one is not safe
_PAIRS = 1 << 20  # of rows that are compared at once
_PENALTY_ROWS = 5_000  # of more rows any penalty in the list matters little


def auc(positive: ArrayLike, score: ArrayLike) -> float:
    """Probability that a positive row scores above a negative one; ties count one half.

    Examples
    --------
    >>> auc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    """
    truth = np.asarray(positive, dtype=bool)
    values = _finite(score, "score")
    _same_length(truth, values)
    positives = int(truth.sum())
    negatives = truth.size - positives
    if not positives or not negatives:
        raise InputError(
            "the area under the curve needs rows of both classes",
            remedy="Use more test rows, or another horizon.",
        )
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    middle = np.cumsum(count) - (count - 1) / 2.0
    above = float(middle[place[truth]].sum()) - positives * (positives + 1) / 2.0
    return above / (positives * negatives)


def concordance(time: ArrayLike, event: ArrayLike, risk: ArrayLike) -> float:
    """Harrell's c: share of comparable pairs in which the higher risk died first.

    Two rows are comparable when the one with the shorter time had the event. Equal risks count
    one half; pairs that died at the same time are left out.

    Examples
    --------
    >>> concordance([1, 2, 3, 4], [1, 1, 0, 1], [4.0, 3.0, 2.0, 1.0])
    1.0
    """
    times = _finite(time, "time")
    dying = np.asarray(event, dtype=bool)
    values = _finite(risk, "risk")
    _same_length(times, values)
    _same_length(times, dying)
    order = np.argsort(-times, kind="stable")
    starts = time_groups(times[order])
    levels, rank = np.unique(values[order], return_inverse=True)
    pairs = rank.astype(np.int64), len(levels), dying[order], starts
    concordant, discordant, tied = concordant_pairs(*pairs) if len(rank) else (0, 0, 0)
    comparable = concordant + discordant + tied
    if comparable == 0:
        raise InputError(
            "no two rows can be compared: there is no event before the end of another row",
            remedy="Use more test rows, or check how events are coded.",
        )
    return float((concordant + tied / 2.0) / comparable)


def _finite(values: ArrayLike, name: str) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not np.isfinite(array).all():
        raise InputError(f"`{name}` must be one column of finite numbers")
    return array


def _same_length(one: NDArray[Any], other: NDArray[Any]) -> None:
    if len(one) != len(other):
        raise InputError(f"columns of different length: {len(one)} and {len(other)} rows")


def cross_validate(
    x: Floats,
    outcome: Outcomes,
    *,
    penalty: float = _DEFAULT_PENALTY,
    folds: int = 5,
    seed: int = 0,
) -> float:
    """Concordance of a Cox model, or AUC of a support vector machine, on rows it has not seen.

    Each fold is scored by itself and the scores are averaged; folds in which nothing can be fitted
    or compared are left out. Not a number if that is all of them.
    """
    time, event = outcome
    if folds < 2:
        raise ParameterError("cross-validation needs at least two folds")
    part = np.random.default_rng(seed).permutation(len(event)) % folds
    scores = []
    for fold in range(folds):
        train, test = part != fold, part == fold
        try:
            if time is not None:
                fit = fit_cox(x[train], time[train], event[train], penalty=penalty)
                scores.append(concordance(time[test], event[test], fit.risk(x[test])))
            else:
                plane = fit_svm(x[train], event[train], nu=1.0 / penalty)
                scores.append(auc(event[test], plane.score(x[test])))
        except InputError:  # a fold without an event, or of one class
            continue
    return float(np.mean(scores)) if scores else math.nan


def choose_penalty(
    x: Floats, outcome: Outcomes, *, candidates: Sequence[float] = PENALTIES, seed: int = 0
) -> float:
    """The penalty with the best cross-validated score on (a sample of) the rows; ties: largest."""
    time, event = outcome
    if len(event) > _PENALTY_ROWS:
        picked = np.random.default_rng(seed).choice(len(event), _PENALTY_ROWS, replace=False)
        x, outcome = x[picked], (None if time is None else time[picked], event[picked])
    scores = [cross_validate(x, outcome, penalty=penalty, seed=seed) for penalty in candidates]
    if np.isnan(scores).all():
        return _DEFAULT_PENALTY
    best = float(np.nanmax(scores))
    return max(p for p, score in zip(candidates, scores, strict=True) if score >= best - 1e-12)


def score_seeds(
    matrix: Floats, outcome: Outcomes, agreement: Agreement, seeds: Sequence[str], *, folds: int = 3
) -> dict[str, float]:
    """Score candidate seeds for B on one institution's own rows; at home, nothing leaves.

    Returns
    -------
    scores
        Cross-validated score of each seed, rounded to three decimals: all that is exchanged.
    """
    scores = {}
    for name in seeds:
        x = project(matrix, agreement.with_projection(seed=name))
        scores[name] = round(cross_validate(x, outcome, folds=folds), 3)
    return scores


def choose_seed(scores: Sequence[Mapping[str, float]], rows: Sequence[int]) -> str:
    """The seed with the best mean score over institutions, each weighed by its rows.

    Examples
    --------
    >>> choose_seed([{"a": 0.6, "b": 0.7}, {"a": 0.9, "b": 0.5}], rows=[100, 10])
    'b'
    """
    if not scores or len(scores) != len(rows):
        raise ParameterError("every institution gives one set of scores and its number of rows")
    names = list(scores[0])
    if any(list(entry) != names for entry in scores):
        raise ParameterError("the institutions scored different seeds")
    total = np.zeros(len(names))
    for entry, count in zip(scores, rows, strict=True):
        values = np.array([entry[name] for name in names])
        total += count * np.where(np.isnan(values), 0.5, values)
    return names[int(np.argmax(total))]


def price_of_privacy(
    matrix: Floats, outcome: Outcomes, agreement: Agreement, rounding: float, *, seed: int = 0
) -> dict[str, float | str]:
    """What projection and rounding cost, cross-validated on (a sample of) the owner's rows."""
    time, event = outcome
    picked = np.random.default_rng(seed).permutation(len(event))[:_PRICE_ROWS]
    some: Outcomes = (None if time is None else time[picked], event[picked])
    projected = project(matrix[picked], agreement)
    return {
        "measure": "auc" if time is None else "concordance",
        "rows": float(len(picked)),
        "all_columns": cross_validate(matrix[picked], some, seed=seed),
        "projected": cross_validate(projected, some, seed=seed),
        "published": cross_validate(round_to(projected, rounding), some, seed=seed),
    }


@dataclass(frozen=True)
class SeedScores(Result):
    """One institution's scores of candidate seeds: all that leaves when a matrix is chosen."""

    passed_on: ClassVar[Mapping[str, str]] = {
        "agreement": "a digest of the agreement",
        "rows": "the others need it to weigh the scores",
        "scores": "rounded to three digits; that is what the others get",
    }

    agreement: str
    rows: int
    scores: Mapping[str, float]


def read_seed_scores(path: str | Path, agreement: str) -> SeedScores:
    """Read scores that were made under the agreement with this hash."""
    try:
        plain = json.loads(Path(path).read_text(encoding="utf-8"))
        scores = {
            str(name): math.nan if value is None else float(value)
            for name, value in plain["scores"].items()
        }
        found = SeedScores(str(plain["agreement"]), int(plain["rows"]), scores)
        if not scores:
            raise ValueError("none")
    except OSError as error:
        raise SourceError(f"the scores cannot be read: {error.strerror}", where=str(path)) from None
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        raise InputError("this file does not hold scores of seeds", where=str(path)) from None
    if not 0 < found.rows < 2**53 or any(not 0 <= v <= 1 for v in scores.values() if v == v):
        raise InputError("the file holds scores that no rows give", where=str(path))
    if found.agreement != agreement:
        raise InputError("these scores were made under another agreement", where=str(path))
    return found


@dataclass(frozen=True)
class ModelScore(Result):
    """How one kind of model did over all splits: means and standard deviations.

    Attributes
    ----------
    model
        `pooled`, `private m̄=…`, or the institution's name.
    dimensions
        m̄ of a private model.
    svm_auc, cox_auc, concordance
        Mean over splits: AUC of the support vector machine and of the Cox model for survival
        beyond the horizon, and concordance of the Cox model.
    svm_auc_sd, cox_auc_sd, concordance_sd
        Standard deviation over splits (the paper's error bars).
    splits
        In how many splits the model could be fitted (a small institution may have one class only).
    """

    model: str
    dimensions: int | None
    svm_auc: float
    svm_auc_sd: float
    cox_auc: float
    cox_auc_sd: float
    concordance: float
    concordance_sd: float
    splits: int
    runs: Floats = field(
        default_factory=lambda: np.empty((0, 3)), repr=False, metadata={"private": True}
    )


@dataclass(frozen=True)
class Evaluation(Result):
    """All models over the same splits."""

    train: float
    splits: int
    stopped_by: str | None
    rows: int
    institutions: dict[str, int]
    horizon: float
    rounding: float | str
    protect: str
    models: tuple[ModelScore, ...]

    def model(self, name: str) -> ModelScore:
        """One model's scores by name."""
        return next(entry for entry in self.models if entry.model == name)

    @property
    def private(self) -> ModelScore:
        """The private model with the largest m̄."""
        return max((m for m in self.models if m.dimensions), key=lambda m: m.dimensions or 0)


@within_budget
def evaluate(
    encoded: Encoded,
    time: Floats,
    event: NDArray[np.bool_],
    institution: NDArray[np.str_],
    agreement: Agreement,
    *,
    horizon: float,
    train: float = 0.4,
    splits: int = 100,
    dimensions: Sequence[int] | None = None,
    rounding: float | Literal["safe"] = 0.0,
    protect: Protect = "rows",
    penalty: float | None = 0.1,
    candidates: int = 1,
    seed: int = 0,
    budget: Budget | None = None,
) -> Evaluation:
    """Compare private, pooled and single-institution models over random splits.

    Parameters
    ----------
    encoded, time, event, institution
        Encoded rows of everybody (an experiment, not a release).
    agreement
        Kind of matrix and kernel; seeds are drawn anew for every split, as in the paper.
    train
        Share of each institution's rows that is used for training.
    dimensions
        Values of m̄; by default n-1 alone.
    rounding
        Step of the published numbers; "safe" lets each institution find its own, as shares do.
        Test rows are scored at home, so they are not rounded.
    protect
        What a safe step protects: whole rows, or every cell. An institution without a safe step
        stays out of that split.
    penalty
        λ of the Cox models, and 1/ν of the classifiers; None chooses it for each model by
        cross-validation on its training rows.
    candidates
        Seeds among which B is chosen by the institutions' own cross-validation on training rows.
    """
    if not 0 < train < 1:
        raise ParameterError("the share of training rows must lie between 0 and 1")
    if splits < 1 or candidates < 1:
        raise ParameterError("at least one split and one candidate are needed")
    columns = encoded.matrix.shape[1]
    sizes = tuple(dimensions or (columns - 1,))
    if any(not 0 < size < columns for size in sizes):
        raise ParameterError(f"m̄ must lie between 1 and {columns - 1}")
    if rounding == "safe":
        attack.expect_rows(_STEPS * splits * len(sizes) * round(train * len(time)))
    watch = budget or Budget()
    judge = _Judge(time, event, horizon, penalty)
    members = {name: np.flatnonzero(institution == name) for name in sorted(set(institution))}
    runs: dict[tuple[str, int | None], list[tuple[float, float, float]]] = {}
    for split in range(splits):
        if watch.spent() and split:
            break
        watch.progress("splitting and fitting", split / splits)
        rng = np.random.default_rng([seed, split])
        chosen = {
            name: rng.permutation(rows)[: round(train * len(rows))]
            for name, rows in members.items()
        }
        rows = np.concatenate(list(chosen.values()))
        test = np.setdiff1d(np.arange(len(time)), rows)
        for name, own in (("pooled", rows), *chosen.items()):
            told = judge(encoded.matrix[own], own, encoded.matrix[test], test)
            runs.setdefault((name, None), []).append(told)
        for size in sizes:
            seeds = [f"{seed}/{split}/{number}" for number in range(candidates)]
            sized = agreement.with_projection(dimensions=size, seed=seeds[0])
            if candidates > 1:
                sized = _with_best_seed(sized, seeds, encoded, (time, event), chosen.values())
            shares, owners = _published(encoded, chosen.values(), sized, rounding, protect)
            told = judge(shares, owners, project(encoded.matrix[test], sized), test)
            runs.setdefault((f"private m̄={size}", size), []).append(told)
    return Evaluation(
        train=train,
        splits=max(len(done) for done in runs.values()),
        stopped_by=watch.stopped_by,
        rows=len(time),
        institutions={str(name): len(rows) for name, rows in members.items()},
        horizon=horizon,
        rounding=rounding,
        protect=protect,
        models=tuple(
            _summary(str(name), size, np.array(done)) for (name, size), done in runs.items()
        ),
    )


@within_budget
def evaluate_tables(
    tables: Mapping[str, Any],
    agreement: Agreement,
    *,
    train: float = 0.4,
    splits: int = 100,
    dimensions: Sequence[int] | None = None,
    rounding: float | Literal["safe"] | None = None,
    protect: Protect = "rows",
    candidates: int = 1,
    seed: int = 0,
    budget: Budget | None = None,
) -> Evaluation:
    """The paper's experiment on tables that one person may see: what a study would gain.

    Parameters
    ----------
    tables
        Rows of each institution by its name; anything `sfumato.table` opens.
    agreement
        Columns, outcome and matrix; its outcome must name a horizon.
    rounding
        As `evaluate` takes it; as shares of this agreement would be rounded if None.
    train, splits, dimensions, protect, candidates, seed
        As `evaluate` takes them.
    """
    if rounding is None:
        agreed = agreement.projection.rounding
        rounding = "safe" if agreed is None else agreed
    if agreement.outcome.horizon is None:
        raise ParameterError(
            "the agreement names no horizon, and classes are survival beyond it",
            remedy="Write horizon = 730 below [outcome], in the unit of the time.",
        )
    if len(tables) < 2:
        raise ParameterError(
            "there is nothing to compare: one institution only",
            remedy="Give the table of every institution.",
        )
    parts = {name: local_rows(rows, agreement) for name, rows in tables.items()}
    encoded = [encode(part, agreement, where=name) for name, part in parts.items()]
    outcomes = [encode_outcome(part, agreement, where=name) for name, part in parts.items()]
    times = [time for time, _ in outcomes if time is not None]
    if len(times) < len(outcomes):
        raise ParameterError(
            "the agreement is about a label, and the experiment about survival",
            remedy="Give an agreement whose outcome has a time and an event.",
        )
    return evaluate(
        Encoded(
            np.concatenate([part.matrix for part in encoded]),
            np.concatenate([part.options for part in encoded]),
            tuple(
                tuple(np.unique(np.concatenate(values)) for values in zip(*levels, strict=True))
                for levels in zip(*(part.likely for part in encoded), strict=True)
            ),
        ),
        np.concatenate(times),
        np.concatenate([event for _, event in outcomes]),
        np.repeat(list(parts), [part.num_rows for part in parts.values()]),
        agreement,
        horizon=agreement.outcome.horizon,
        train=train,
        splits=splits,
        dimensions=dimensions,
        rounding=rounding,
        protect=protect,
        candidates=candidates,
        seed=seed,
        budget=budget,
    )


class _Judge:
    """Fits both kinds of model on training rows and scores them on test rows."""

    def __init__(
        self, time: Floats, event: NDArray[np.bool_], horizon: float, penalty: float | None
    ) -> None:
        self.time, self.event, self.penalty = time, event, penalty
        self.lived, self.known = survived(time, event, horizon)

    def __call__(
        self, x: Floats, rows: NDArray[np.int64], unseen: Floats, test: NDArray[np.int64]
    ) -> tuple[float, float, float]:
        told, asked = self.known[rows], self.known[test]
        svm = cox = order = math.nan
        with contextlib.suppress(InputError):  # one class among few training rows
            lived = self.lived[rows[told]]
            plane = fit_svm(x[told], lived, nu=1.0 / self._penalty(x[told], (None, lived)))
            svm = auc(self.lived[test[asked]], plane.score(unseen[asked]))
        with contextlib.suppress(InputError):  # no event among them
            outcome = self.time[rows], self.event[rows]
            risk = fit_cox(x, *outcome, penalty=self._penalty(x, outcome)).risk(unseen)
            cox, order = (
                auc(self.lived[test[asked]], -risk[asked]),
                concordance(self.time[test], self.event[test], risk),
            )
        return svm, cox, order

    def _penalty(self, x: Floats, outcome: Outcomes) -> float:
        return choose_penalty(x, outcome) if self.penalty is None else self.penalty


def _with_best_seed(
    agreement: Agreement,
    seeds: Sequence[str],
    encoded: Encoded,
    outcome: tuple[Floats, NDArray[np.bool_]],
    chosen: Collection[NDArray[np.int64]],
) -> Agreement:
    """The agreement with the seed that does best in the institutions' own cross-validation."""
    time, event = outcome
    scores = [
        score_seeds(encoded.matrix[own], (time[own], event[own]), agreement, seeds)
        for own in chosen
    ]
    return agreement.with_projection(seed=choose_seed(scores, [len(own) for own in chosen]))


def _published(
    encoded: Encoded,
    chosen: Collection[NDArray[np.int64]],
    agreement: Agreement,
    rounding: float | Literal["safe"],
    protect: Protect,
) -> tuple[Floats, NDArray[np.int64]]:
    """All institutions' shares, and whose rows they are; where no step is safe, one stays out."""
    shares, owners = [np.empty((0, agreement.projection.dimensions))], [np.empty(0, dtype=np.int64)]
    for own in chosen:
        part, step = encoded.part(own), rounding
        with contextlib.suppress(PromiseError):
            if step == "safe":
                step = safe_rounding(part, agreement, protect=protect)[0]
            shares.append(round_to(project(part.matrix, agreement), step))
            owners.append(own)
    return np.concatenate(shares), np.concatenate(owners)


def _summary(name: str, size: int | None, runs: Floats) -> ModelScore:
    fitted = ~np.isnan(runs)
    count = np.maximum(fitted.sum(axis=0), 1)
    mean = np.where(fitted, runs, 0.0).sum(axis=0) / count
    spread = np.sqrt((np.where(fitted, runs - mean, 0.0) ** 2).sum(axis=0) / count)
    mean = np.where(fitted.any(axis=0), mean, np.nan)
    svm, cox, order = zip(mean.tolist(), spread.tolist(), strict=True)
    return ModelScore(name, size, *svm, *cox, *order, int(fitted.all(axis=1).sum()), runs)


def _few_concordant_pairs(
    rank: NDArray[np.int64], levels: int, dying: NDArray[np.bool_], starts: NDArray[np.int64]
) -> tuple[int, int, int]:
    """`concordant_pairs` by numpy, pair by pair."""
    many = np.diff(starts)
    order = np.lexsort((dying, np.repeat(np.arange(len(many)), many)))  # those who die come last
    outlived = starts[1:] - np.add.reduceat(dying.astype(np.int64), starts[:-1])
    before, held = np.repeat(outlived, many)[order], rank[order]
    dead = np.flatnonzero(dying[order])
    lower = tied = 0
    for some in np.array_split(dead, 1 + len(dead) * len(rank) // _PAIRS):
        seen = np.arange(len(rank)) < before[some, None]
        lower += int((seen & (held < held[some, None])).sum())
        tied += int((seen & (held == held[some, None])).sum())
    return lower, int(before[dead].sum()) - lower - tied, tied


@compiled(instead=_few_concordant_pairs)
def concordant_pairs(rank, levels, dying, starts):  # type: ignore[no-untyped-def]
    """Concordant, discordant and risk-tied pairs; rows sorted by time, falling, risks ranked.

    A Fenwick tree holds the ranks of all who outlived the row at hand: O(n log n). Rows censored
    at the very time of a death count as having outlived it (Harrell).
    """
    tree = np.zeros(levels + 1, np.int64)
    inside, concordant, discordant, tied = 0, 0, 0, 0
    for g in range(starts.shape[0] - 1):
        for i in range(starts[g], starts[g + 1]):
            if not dying[i]:
                inside += _count(tree, rank[i])
        for i in range(starts[g], starts[g + 1]):
            if dying[i]:
                below, upto = _below(tree, rank[i]), _below(tree, rank[i] + 1)
                concordant += below
                tied += upto - below
                discordant += inside - upto
        for i in range(starts[g], starts[g + 1]):
            if dying[i]:
                inside += _count(tree, rank[i])
    return concordant, discordant, tied


@bare
def _count(tree, rank):  # type: ignore[no-untyped-def]
    """Put one more rank into the tree."""
    k = rank + 1
    while k < tree.shape[0]:
        tree[k] += 1
        k += k & -k
    return 1


@bare
def _below(tree, rank):  # type: ignore[no-untyped-def]
    """How many in the tree are below a rank."""
    found, k = 0, rank
    while k > 0:
        found += tree[k]
        k -= k & -k
    return found
