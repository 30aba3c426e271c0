"""Evaluation as in the paper: random splits, one model an institution, private and pooled models.

Every model is tested on the test rows of all institutions. Classifiers learn from and are tested
on rows of which survival beyond the horizon is known; Cox models learn from all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.budget import Budget
from sfumato.errors import InputError, ParameterError, PromiseError
from sfumato.joint.agreement import Agreement
from sfumato.joint.cox import fit_cox
from sfumato.joint.leakage_report import Protect, safe_rounding
from sfumato.joint.linear_classifiers import fit_svm
from sfumato.joint.local_data import Encoded, project, round_to, survived
from sfumato.joint.validation import (
    auc,
    choose_penalty,
    choose_seed,
    concordance,
    score_seeds,
)
from sfumato.results import Result

__all__ = ["Evaluation", "ModelScore", "evaluate"]

Floats = NDArray[np.float64]


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
    models: tuple[ModelScore, ...]

    def model(self, name: str) -> ModelScore:
        """One model's scores by name."""
        return next(entry for entry in self.models if entry.model == name)

    @property
    def private(self) -> ModelScore:
        """The private model with the largest m̄."""
        return max((m for m in self.models if m.dimensions), key=lambda m: m.dimensions or 0)

    @property
    def best_single(self) -> ModelScore:
        """The institution whose own Cox model has the highest concordance."""
        alone = [m for m in self.models if m.dimensions is None and m.model != "pooled"]
        return max(alone, key=lambda m: m.concordance)


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
            sized = agreement.with_projection(dimensions=size, seed=f"{seed}/{split}/0")
            if candidates > 1:
                seeds = [f"{seed}/{split}/{number}" for number in range(candidates)]
                scores = [
                    score_seeds(encoded.matrix[own], (time[own], event[own]), sized, seeds)
                    for own in chosen.values()
                ]
                best = choose_seed(scores, [len(own) for own in chosen.values()])
                sized = sized.with_projection(seed=best)
            shares, owners = [np.empty((0, size))], [np.empty(0, dtype=np.int64)]
            for own in chosen.values():
                part = Encoded(encoded.matrix[own], encoded.options[own])
                try:
                    shares.append(_published(part, sized, rounding, protect))
                    owners.append(own)
                except PromiseError:  # no safe step: this institution stays out
                    continue
            told = judge(
                np.concatenate(shares),
                np.concatenate(owners),
                project(encoded.matrix[test], sized),
                test,
            )
            runs.setdefault((f"private m̄={size}", size), []).append(told)
    return Evaluation(
        train=train,
        splits=max(len(done) for done in runs.values()),
        stopped_by=watch.stopped_by,
        rows=len(time),
        institutions={str(name): len(rows) for name, rows in members.items()},
        horizon=horizon,
        rounding=rounding,
        models=tuple(
            _summary(str(name), size, np.array(done)) for (name, size), done in runs.items()
        ),
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

        def classify() -> tuple[float, ...]:
            lived = self.lived[rows[told]]
            ridge = self._penalty(x[told], (None, lived))
            plane = fit_svm(x[told], lived, nu=1.0 / ridge)
            return (auc(self.lived[test[asked]], plane.score(unseen[asked])),)

        def hazards() -> tuple[float, ...]:
            time, event = self.time[rows], self.event[rows]
            ridge = self._penalty(x, (time, event))
            risk = fit_cox(x, time, event, penalty=ridge).risk(unseen)
            return (
                auc(self.lived[test[asked]], -risk[asked]),
                concordance(self.time[test], self.event[test], risk),
            )

        (svm,), (cox, order) = _or_nan(classify, 1), _or_nan(hazards, 2)
        return svm, cox, order

    def _penalty(self, x: Floats, outcome: tuple[Floats | None, NDArray[np.bool_]]) -> float:
        return choose_penalty(x, outcome) if self.penalty is None else self.penalty


def _published(
    own: Encoded, agreement: Agreement, rounding: float | Literal["safe"], protect: Protect
) -> Floats:
    step = safe_rounding(own, agreement, protect=protect)[0] if rounding == "safe" else rounding
    return round_to(project(own.matrix, agreement), step)


def _or_nan(work: Callable[[], tuple[float, ...]], size: int) -> tuple[float, ...]:
    try:
        return work()
    except InputError:  # one class or no event among a small institution's training rows
        return (float("nan"),) * size


def _summary(name: str, size: int | None, runs: Floats) -> ModelScore:
    fitted = ~np.isnan(runs)
    count = np.maximum(fitted.sum(axis=0), 1)
    mean = np.where(fitted, runs, 0.0).sum(axis=0) / count
    spread = np.sqrt((np.where(fitted, runs - mean, 0.0) ** 2).sum(axis=0) / count)
    mean = np.where(fitted.any(axis=0), mean, np.nan)
    return ModelScore(
        name,
        size,
        float(mean[0]),
        float(spread[0]),
        float(mean[1]),
        float(spread[1]),
        float(mean[2]),
        float(spread[2]),
        int(fitted.all(axis=1).sum()),
        runs,
    )
