"""Models across institutions that do not share rows.

Each institution encodes its rows by a common agreement, multiplies them by a common random matrix
and publishes the rounded product with the outcome (`make_share`); anybody fits a support vector
machine or a Cox model on the stacked shares (`fit_shares`), and everybody scores new people at
home (`score`). What a share gives away is measured before it leaves (`leakage`). Where even that
is too much, the exact fit adds up masked sums and nothing else (`exact`).

Based on Fung et al., *Privacy-Preserving Predictive Models for Lung Cancer Survival Analysis*.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.joint.agreement import Agreement as Agreement
    from sfumato.joint.agreement import Category as Category
    from sfumato.joint.agreement import Number as Number
    from sfumato.joint.agreement import Outcome as Outcome
    from sfumato.joint.agreement import Projection as Projection
    from sfumato.joint.agreement import read_agreement as read_agreement
    from sfumato.joint.attack import grid_attack as grid_attack
    from sfumato.joint.cox import CoxFit as CoxFit
    from sfumato.joint.cox import fit_cox as fit_cox
    from sfumato.joint.dose import equivalent_dose as equivalent_dose
    from sfumato.joint.encoding import Encoded as Encoded
    from sfumato.joint.encoding import encode as encode
    from sfumato.joint.encoding import encode_outcome as encode_outcome
    from sfumato.joint.evaluation import Evaluation as Evaluation
    from sfumato.joint.evaluation import evaluate as evaluate
    from sfumato.joint.exact import exact_cox as exact_cox
    from sfumato.joint.exact import exact_margin as exact_margin
    from sfumato.joint.exact import fit_exact as fit_exact
    from sfumato.joint.leaks import Leakage as Leakage
    from sfumato.joint.leaks import known_rows as known_rows
    from sfumato.joint.leaks import leakage as leakage
    from sfumato.joint.leaks import narrowing as narrowing
    from sfumato.joint.leaks import safe_rounding as safe_rounding
    from sfumato.joint.margin import MarginFit as MarginFit
    from sfumato.joint.margin import fit_logistic as fit_logistic
    from sfumato.joint.margin import fit_svm as fit_svm
    from sfumato.joint.metrics import auc as auc
    from sfumato.joint.metrics import concordance as concordance
    from sfumato.joint.metrics import survived as survived
    from sfumato.joint.model import JointModel as JointModel
    from sfumato.joint.model import Scores as Scores
    from sfumato.joint.model import fit_shares as fit_shares
    from sfumato.joint.model import read_model as read_model
    from sfumato.joint.model import score as score
    from sfumato.joint.model import write_model as write_model
    from sfumato.joint.projection import project as project
    from sfumato.joint.projection import random_matrix as random_matrix
    from sfumato.joint.projection import round_to as round_to
    from sfumato.joint.publishing import ShareResult as ShareResult
    from sfumato.joint.publishing import make_share as make_share
    from sfumato.joint.share import Share as Share
    from sfumato.joint.share import read_share as read_share
    from sfumato.joint.share import stack as stack
    from sfumato.joint.share import write_share as write_share
    from sfumato.joint.stratified import exact_stratified_cox as exact_stratified_cox
    from sfumato.joint.summing import SecureSum as SecureSum
    from sfumato.joint.tuning import choose_penalty as choose_penalty
    from sfumato.joint.tuning import choose_seed as choose_seed
    from sfumato.joint.tuning import cross_validate as cross_validate
    from sfumato.joint.tuning import score_seeds as score_seeds

_HOME = {
    "agreement": ("Agreement", "Category", "Number", "Outcome", "Projection", "read_agreement"),
    "attack": ("grid_attack",),
    "cox": ("CoxFit", "fit_cox"),
    "dose": ("equivalent_dose",),
    "encoding": ("Encoded", "encode", "encode_outcome"),
    "evaluation": ("Evaluation", "evaluate"),
    "exact": ("exact_cox", "exact_margin", "fit_exact"),
    "leaks": ("Leakage", "known_rows", "leakage", "narrowing", "safe_rounding"),
    "margin": ("MarginFit", "fit_logistic", "fit_svm"),
    "metrics": ("auc", "concordance", "survived"),
    "model": ("JointModel", "Scores", "fit_shares", "read_model", "score", "write_model"),
    "projection": ("project", "random_matrix", "round_to"),
    "publishing": ("ShareResult", "make_share"),
    "share": ("Share", "read_share", "stack", "write_share"),
    "stratified": ("exact_stratified_cox",),
    "summing": ("SecureSum",),
    "tuning": ("choose_penalty", "choose_seed", "cross_validate", "score_seeds"),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}

__all__ = sorted(_MODULE)


def __getattr__(name: str) -> Any:
    if name in _MODULE:
        return getattr(import_module(f"{__name__}.{_MODULE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULE])
