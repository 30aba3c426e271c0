"""Privacy models: what may be asked, how it is measured, and how anonymizers are held to it."""

from sfumato.privacy.alpha_k import AlphaK, Sensitivity
from sfumato.privacy.base import Counted, Model, Reach, SensitiveColumn
from sfumato.privacy.check import (
    Check,
    ModelFinding,
    Population,
    check,
    merged_checks,
    require_reachable,
    smaller_k,
)
from sfumato.privacy.check_table import check_table
from sfumato.privacy.classes import ClassHistogram
from sfumato.privacy.closeness import Closeness
from sfumato.privacy.diversity import DistinctDiversity, EntropyDiversity, RecursiveDiversity
from sfumato.privacy.likeness import Likeness
from sfumato.privacy.models import MODELS, KAnonymity, KMap, column_sets, model_from_dict, models_of
from sfumato.privacy.rules import (
    Rules,
    compares,
    compile_rules,
    minimum_rows,
    recounted,
    with_crowd,
    with_persons,
)

__all__ = [
    "MODELS",
    "AlphaK",
    "Check",
    "ClassHistogram",
    "Closeness",
    "Counted",
    "DistinctDiversity",
    "EntropyDiversity",
    "KAnonymity",
    "KMap",
    "Likeness",
    "Model",
    "ModelFinding",
    "Population",
    "Reach",
    "RecursiveDiversity",
    "Rules",
    "SensitiveColumn",
    "Sensitivity",
    "check",
    "check_table",
    "column_sets",
    "compares",
    "compile_rules",
    "merged_checks",
    "minimum_rows",
    "model_from_dict",
    "models_of",
    "recounted",
    "require_reachable",
    "smaller_k",
    "with_crowd",
    "with_persons",
]
