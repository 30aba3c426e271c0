"""The joint model: fitted from shares by anybody, kept as JSON, applied at home."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, ParameterError, SourceError
from sfumato.fields import checked
from sfumato.files import write_text
from sfumato.joint.agreement import Agreement
from sfumato.joint.cox import CoxFit, Ties, fit_cox
from sfumato.joint.leakage_report import ExactLeakage
from sfumato.joint.linear_classifiers import ClassifierFit, fit_logistic, fit_svm
from sfumato.joint.local_data import encode, local_rows, project, require_rows, survived
from sfumato.joint.parties import FitSession
from sfumato.joint.share import Share, Stacked, stack
from sfumato.joint.validation import auc, choose_penalty, concordance
from sfumato.results import Result

Floats = NDArray[np.float64]
Kind = Literal["cox", "svm", "logistic"]

FORMAT = 1


@dataclass(frozen=True)
class JointModel(Result):
    """A model that several institutions own together.

    Attributes
    ----------
    kind
        `cox`, `svm` or `logistic`.
    agreement
        What was agreed, whole: it tells how to encode and project new rows.
    exact
        Whether it was fitted on all columns under secret sharing (True), or on shares (False).
    rows
        Rows of all institutions together.
    institutions
        Rows that each institution contributed; null where that is nobody's business (exact).
    coefficients, threshold
        w and γ, in the space of the shares (or of the encoded columns when exact).
    times, hazard
        Cumulative baseline hazard (Cox).
    horizon
        Time for which classifiers tell survival, and the default moment for Cox.
    penalty, iterations, separated
        As they were at the end of the fit; ν of a classifier is 1/penalty.
    concordance, auc
        On the training rows (optimistic); null when exact.
    notes
        Anything unusual about the fit.
    revealed
        What an exact fit revealed to all parties (`ExactFit.revealed`).
    session
        What an exact fit cost this party; not kept in the model's file.
    leakage
        What an exact fit told about this party's rows, as rehearsed; not kept in the model's file.
    covariance
        Of the coefficients (of a classifier, the threshold last), where an exact fit was asked for
        it.
    """

    kind: Kind
    agreement: Agreement
    exact: bool
    rows: int
    institutions: Mapping[str, int | None]
    coefficients: Floats
    threshold: float
    times: Floats
    hazard: Floats
    horizon: float | None
    penalty: float
    iterations: int
    separated: bool
    concordance: float | None = None
    auc: float | None = None
    notes: tuple[str, ...] = ()
    revealed: Mapping[str, float] | None = None
    session: FitSession | None = field(default=None, compare=False, metadata={"private": True})
    leakage: ExactLeakage | None = field(default=None, compare=False, metadata={"private": True})
    covariance: Floats | None = field(default=None, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """The model as plain values."""
        plain = super().to_dict()
        plain["agreement"] = self.agreement.to_dict()
        plain["hash"] = self.agreement.hash
        plain["columns"] = list(self.columns)
        return plain

    @property
    def columns(self) -> tuple[str, ...]:
        """What the coefficients belong to."""
        if self.exact:
            return self.agreement.encoded_names
        return tuple(f"p{k + 1}" for k in range(self.agreement.projection.dimensions))

    @property
    def standard_errors(self) -> Floats | None:
        """Of the coefficients, where the covariance was asked for."""
        if self.covariance is None:
            return None
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))[: len(self.coefficients)]

    @property
    def cox(self) -> CoxFit:
        """The Cox model in it."""
        return CoxFit(
            self.coefficients, self.times, self.hazard, 0.0, self.penalty, self.iterations
        )


@dataclass(frozen=True)
class Scores(Result):
    """Scores of new rows, computed at home.

    Attributes
    ----------
    kind, rows
        Of the model, and how many rows were scored.
    score
        Cox: log relative hazard (high is bad). Classifiers: distance from the plane (high is the
        positive class, or survival).
    at, survival
        Cox: moment, and the probability to live beyond it.
    positive
        Whether the row is put in the positive class (for survival: lives beyond the horizon).
    """

    kind: Kind
    rows: int
    at: float | None
    score: Floats
    survival: Floats | None
    positive: NDArray[np.bool_] | None
    path: str | None = None


@dataclass(frozen=True)
class Fitted(Result):
    """A model that was written: how it was fitted, and how well it does on its training rows."""

    passed_on: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            ("kind", "exact", "rows", "institutions", "columns", "coefficients", "horizon"),
            "part of the model, which all parties have",
        ),
        **dict.fromkeys(
            (
                "penalty",
                "iterations",
                "separated",
                "concordance",
                "auc",
                "notes",
                "revealed",
                "covariance",
            ),
            "part of the model, which all parties have",
        ),
        "agreement": "a digest of the agreement",
        "path": "where the model lies",
        "session": "what was opened, which all parties saw, and what it cost",
    }

    model: JointModel
    path: str

    def to_dict(self) -> dict[str, Any]:
        """The model without its curve, the hash of its agreement, and what an exact fit cost."""
        plain = self.model.to_dict()
        for name in ("threshold", "times", "hazard", "hash"):
            plain.pop(name)
        told: dict[str, Any] = {"path": self.path}
        for name in ("session", "leakage"):
            found = getattr(self.model, name)
            told[name] = None if found is None else found.to_dict()
        return {**plain, "agreement": self.model.agreement.hash, **told}


@checked
def fit_shares(
    shares: Sequence[Share],
    kind: Kind = "cox",
    *,
    institution_weights: Mapping[str, float] | None = None,
    penalty: float | None = None,
    ties: Ties = "efron",
    horizon: float | None = None,
    seed: int = 0,
) -> JointModel:
    """Fit a model from shares; anybody who has them can.

    Parameters
    ----------
    shares
        One of each institution, all of one agreement.
    kind
        `cox` needs survival outcomes; `svm` and `logistic` a label, or a horizon.
    institution_weights
        Weight of each institution's rows; 1 where not given.
    penalty
        λ (ν = 1/λ for classifiers). By default chosen by cross-validation on the shares.
    horizon
        Time that classifiers predict survival beyond; by default the agreement's.
    """
    if kind not in ("cox", "svm", "logistic"):
        raise ParameterError(f"`{kind}` is not a model", remedy="Use cox, svm or logistic.")
    stacked = stack(shares, institution_weights)
    horizon = shares[0].agreement.outcome.horizon if horizon is None else horizon
    if kind == "cox":
        return _hazards(shares, stacked, penalty, ties, horizon, seed)
    return _plane(shares, stacked, kind, penalty, horizon, seed)


def _hazards(
    shares: Sequence[Share],
    stacked: Stacked,
    penalty: float | None,
    ties: Ties,
    horizon: float | None,
    seed: int,
) -> JointModel:
    """The Cox model of shares."""
    x, time, event, weights = stacked
    if time is None:
        raise InputError("a Cox model needs times", remedy="Fit `svm` or `logistic` instead.")
    chosen = choose_penalty(x, (time, event), seed=seed) if penalty is None else penalty
    fit = fit_cox(x, time, event, weights=weights, penalty=chosen, ties=ties)
    notes = []
    if fit.separated:
        notes.append(
            "the projected columns order the events perfectly; the penalty was raised to "
            f"{fit.penalty:g} to keep the coefficients finite"
        )
    return JointModel(
        kind="cox",
        agreement=shares[0].agreement,
        exact=False,
        rows=len(event),
        institutions=_rows(shares),
        coefficients=fit.coefficients,
        threshold=0.0,
        times=fit.times,
        hazard=fit.hazard,
        horizon=horizon,
        penalty=fit.penalty,
        iterations=fit.iterations,
        separated=fit.separated,
        concordance=concordance(time, event, fit.risk(x)),
        auc=auc_at(time, event, -fit.risk(x), horizon),
        notes=tuple(notes),
    )


def _plane(
    shares: Sequence[Share],
    stacked: Stacked,
    kind: Kind,
    penalty: float | None,
    horizon: float | None,
    seed: int,
) -> JointModel:
    """The plane between two classes of the rows of shares: labels, or survivors of the horizon."""
    x, time, positive, weights = stacked
    notes = []
    if time is not None:
        if horizon is None:
            raise ParameterError(
                "a classifier of survival needs a horizon", remedy="Give one, e.g. 730 for 2 years."
            )
        positive, known = survived(time, positive, horizon)
        x, positive, weights = x[known], positive[known], weights[known]
        if left_out := int((~known).sum()):
            notes.append(f"{left_out:,} rows censored before the horizon were left out")
    chosen = choose_penalty(x, (None, positive), seed=seed) if penalty is None else penalty
    if not chosen > 0:
        raise ParameterError("a classifier needs a positive penalty")
    fit = fit_svm if kind == "svm" else fit_logistic
    plane = fit(x, positive, nu=1.0 / chosen, weights=weights)
    if plane.separated:
        notes.append("a plane separates the classes perfectly; the penalty alone keeps it finite")
    return JointModel(
        kind=kind,
        agreement=shares[0].agreement,
        exact=False,
        rows=len(positive),
        institutions=_rows(shares),
        coefficients=plane.coefficients,
        threshold=plane.threshold,
        times=np.empty(0),
        hazard=np.empty(0),
        horizon=horizon,
        penalty=chosen,
        iterations=plane.iterations,
        separated=plane.separated,
        auc=auc(positive, plane.score(x)),
        notes=tuple(notes),
    )


@checked
def score(
    model: JointModel,
    rows: Any,
    *,
    at: float | None = None,
    threshold: float = 0.5,
    where: str = "table",
) -> Scores:
    """Score new rows at home: encode, project locally, apply the public model.

    Parameters
    ----------
    rows
        Anything `sfumato.table` opens.
    at
        Moment for which Cox gives the probability of survival; by default the model's horizon.
    threshold
        Probability of survival from which a row is put in the positive class.
    """
    table = local_rows(rows, model.agreement, outcome=False)
    require_rows(table.num_rows, where)
    if not 0 < threshold < 1:
        raise ParameterError("the threshold must lie between 0 and 1")
    _check_moment(model, at)
    matrix = encode(table, model.agreement, where=where).matrix
    x = matrix if model.exact else project(matrix, model.agreement)
    if model.kind == "cox":
        fit = model.cox
        moment = (model.horizon if at is None else at) if len(fit.times) else None
        alive = None if moment is None else fit.survival(x, [moment])[:, 0]
        return Scores(
            "cox", len(x), moment, fit.risk(x), alive, None if alive is None else alive >= threshold
        )
    plane = ClassifierFit(model.coefficients, model.threshold, model.kind, 0.0, 0, False)
    values = plane.score(x)
    return Scores(model.kind, len(x), model.horizon, values, None, values > 0)


def _check_moment(model: JointModel, at: float | None) -> None:
    if at is None:
        return
    if model.kind != "cox":
        raise ParameterError(
            "a classifier only knows its own horizon", remedy="Leave --at out, or fit cox."
        )
    if not len(model.times):
        raise ParameterError(
            "a stratified model has no common survival curve", remedy="Leave --at out."
        )
    if not at >= 0:
        raise ParameterError(
            "the moment of survival must not be negative", remedy="Use e.g. --at 730."
        )
    longest = model.agreement.outcome.time_max
    if longest is not None and at > longest:
        raise ParameterError(
            "nobody was observed for that long, so survival is unknown",
            remedy=f"The agreed longest time is {longest:g}.",
        )


def auc_at(
    time: Floats, event: NDArray[np.bool_], score: Floats, horizon: float | None
) -> float | None:
    """AUC for survival beyond a horizon among rows of whom it is known; None where it is not."""
    if horizon is None:
        return None
    lived, known = survived(time, event, horizon)
    if lived[known].all() or not lived[known].any():
        return None
    return auc(lived[known], score[known])


@checked
def write_model(model: JointModel, path: str | Path) -> None:
    """Write a model as JSON; the file appears whole or not at all."""
    plain = {"format": FORMAT, **model.to_dict()}
    text = json.dumps(plain, ensure_ascii=False, allow_nan=False, indent=1)
    write_text(path, text + "\n")


@checked
def read_model(path: str | Path) -> JointModel:
    """Read a model that `write_model` wrote."""
    try:
        plain = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SourceError(
            f"the model cannot be read: {error.strerror}",
            where=str(path),
            remedy="Give the file that `joint fit` wrote.",
        ) from None
    except (ValueError, RecursionError):
        raise InputError("this is not a model: the file is not JSON", where=str(path)) from None
    if not isinstance(plain, dict) or plain.get("format") != FORMAT or "kind" not in plain:
        raise InputError(
            f"this is not a model of format {FORMAT}",
            where=str(path),
            remedy="Make one with `sfumato joint fit`.",
        )
    try:
        agreement = Agreement.from_dict(plain["agreement"], where=str(path))
        model = JointModel(
            kind=plain["kind"],
            agreement=agreement,
            exact=bool(plain["exact"]),
            rows=int(plain["rows"]),
            institutions=dict(plain["institutions"]),
            coefficients=np.array(plain["coefficients"], dtype=np.float64),
            threshold=float(plain["threshold"]),
            times=np.array(plain["times"], dtype=np.float64),
            hazard=np.array(plain["hazard"], dtype=np.float64),
            horizon=plain["horizon"],
            penalty=float(plain["penalty"]),
            iterations=int(plain["iterations"]),
            separated=bool(plain["separated"]),
            concordance=plain["concordance"],
            auc=plain["auc"],
            notes=tuple(plain["notes"]),
            revealed=plain["revealed"],
            covariance=_matrix(plain.get("covariance")),
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        raise InputError("the model is incomplete", where=str(path)) from None
    if agreement.hash != plain.get("hash") or model.coefficients.shape != (len(model.columns),):
        raise InputError("the model does not fit the agreement it carries", where=str(path))
    if not _is_proper(model):
        raise InputError("the model holds numbers that no fit gives", where=str(path))
    return model


def _matrix(read: Any) -> Floats | None:
    return None if read is None else np.array(read, dtype=np.float64)


def _is_proper(model: JointModel) -> bool:
    """Whether what was read from a file can be a fitted model at all."""
    curve = model.times.shape == model.hazard.shape and model.times.ndim == 1
    curve = curve and all(
        bool((np.diff(part, prepend=0.0) >= 0).all()) for part in (model.times, model.hazard)
    )
    horizon = model.horizon is None or (
        isinstance(model.horizon, (int, float)) and 0 < model.horizon < math.inf
    )
    counts = model.rows > 0 and model.iterations >= 0 and 0 <= model.penalty < math.inf
    numbers = (model.coefficients, model.times, model.hazard, np.array([model.threshold]))
    known = model.kind in ("cox", "svm", "logistic")
    finite = all(np.isfinite(part).all() for part in numbers)
    size = len(model.coefficients) + (model.kind != "cox")
    spread = model.covariance is None or (
        model.covariance.shape == (size, size) and bool(np.isfinite(model.covariance).all())
    )
    told = all(isinstance(note, str) for note in model.notes) and all(
        rows is None or type(rows) is int for rows in model.institutions.values()
    )
    judged = all(v is None or _is_share(v) for v in (model.concordance, model.auc))
    opened = model.revealed is None or (
        isinstance(model.revealed, dict)
        and all(type(value) in (int, float) for value in model.revealed.values())
    )
    return (
        known and curve and horizon and counts and finite and spread and told and judged and opened
    )


def _is_share(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= 1


def _rows(shares: Sequence[Share]) -> dict[str, int]:
    return {share.institution: len(share.event) for share in shares}
