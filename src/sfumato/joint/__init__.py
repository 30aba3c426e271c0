"""Models across institutions that do not share rows.

Each institution encodes its rows by a common agreement, multiplies them by a common random matrix
and publishes the rounded product with the outcome (`make_share`); anybody fits a support vector
machine or a Cox model on the stacked shares (`fit_shares`), and everybody scores new people at
home (`score`). What a share gives away is measured before it leaves (`leakage`). Where even that
is too much, the exact fit computes the model under secret sharing (`fit_exact`).

Based on Fung et al., *Privacy-Preserving Predictive Models for Lung Cancer Survival Analysis*.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # fmt: off
    # isort: off
    from sfumato.joint.agreement import (
        Agreement as Agreement, Category as Category, Number as Number, Outcome as Outcome,
        Projection as Projection, read_agreement as read_agreement,
    )
    from sfumato.joint.attack import (
        equal_tables as equal_tables, grid_attack as grid_attack,
        lattice_attack as lattice_attack,
    )
    from sfumato.joint.cox import CoxFit as CoxFit, fit_cox as fit_cox
    from sfumato.joint.distributed_cox import (
        exact_cox as exact_cox, exact_stratified_cox as exact_stratified_cox,
    )
    from sfumato.joint.leakage_report import (
        ExactLeakage as ExactLeakage, Leakage as Leakage, known_rows as known_rows,
        leakage as leakage, narrowing as narrowing, safe_rounding as safe_rounding,
    )
    from sfumato.joint.linear_classifiers import (
        ClassifierFit as ClassifierFit, fit_logistic as fit_logistic, fit_svm as fit_svm,
    )
    from sfumato.joint.local_data import (
        Encoded as Encoded, add_dose as add_dose, encode as encode,
        encode_outcome as encode_outcome, equivalent_dose as equivalent_dose, project as project,
        random_matrix as random_matrix, round_to as round_to, survived as survived,
    )
    from sfumato.joint.model import (
        JointModel as JointModel, Scores as Scores, fit_shares as fit_shares,
        read_model as read_model, score as score, write_model as write_model,
    )
    from sfumato.joint.exact import (
        Parties as Parties, exact_classifier as exact_classifier, fit_exact as fit_exact,
    )
    from sfumato.joint.parties import Exchange as Exchange
    from sfumato.joint.secret_sharing import (
        LocalArithmetic as LocalArithmetic, Shamir as Shamir,
    )
    from sfumato.joint.share import (
        Share as Share, ShareResult as ShareResult, make_share as make_share,
        read_share as read_share, stack as stack, write_share as write_share,
    )
    from sfumato.joint.validation import (
        Evaluation as Evaluation, auc as auc, choose_penalty as choose_penalty,
        choose_seed as choose_seed, concordance as concordance, cross_validate as cross_validate,
        evaluate as evaluate, score_seeds as score_seeds,
    )
    # isort: on
    # fmt: on

_NAMES = {
    "agreement": "Agreement Category Number Outcome Projection read_agreement",
    "attack": "equal_tables grid_attack lattice_attack",
    "cox": "CoxFit fit_cox",
    "distributed_cox": "exact_cox exact_stratified_cox",
    "leakage_report": "ExactLeakage Leakage known_rows leakage narrowing safe_rounding",
    "linear_classifiers": "ClassifierFit fit_logistic fit_svm",
    "local_data": (
        "Encoded add_dose encode encode_outcome equivalent_dose project random_matrix round_to "
        "survived"
    ),
    "model": "JointModel Scores fit_shares read_model score write_model",
    "exact": "Parties exact_classifier fit_exact",
    "parties": "Exchange",
    "secret_sharing": "LocalArithmetic Shamir",
    "share": "Share ShareResult make_share read_share stack write_share",
    "validation": (
        "Evaluation auc choose_penalty choose_seed concordance cross_validate evaluate score_seeds"
    ),
}
_MODULE = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_MODULE)


def __getattr__(name: str) -> Any:
    if name in _MODULE:
        return getattr(import_module(f"{__name__}.{_MODULE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULE])
