"""Privacy models: what may be asked, how it is measured, and how anonymizers are held to it."""

from sfumato.privacy.check import Check, ModelFinding, Population, check
from sfumato.privacy.histogram import ClassHistogram
from sfumato.privacy.models import (
    AlphaK,
    Closeness,
    DistinctDiversity,
    EntropyDiversity,
    KAnonymity,
    KMap,
    Model,
    RecursiveDiversity,
    Sensitivity,
)
from sfumato.privacy.pseudonyms import pseudonyms, read_key
from sfumato.privacy.reachable import Reach, reach, require_reachable
from sfumato.privacy.rules import (
    Rules,
    SensitiveColumn,
    compile_rules,
    minimum_rows,
    recounted,
    with_crowd,
)
from sfumato.privacy.tables import check_table

__all__ = [
    "AlphaK",
    "Check",
    "ClassHistogram",
    "Closeness",
    "DistinctDiversity",
    "EntropyDiversity",
    "KAnonymity",
    "KMap",
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
    "compile_rules",
    "minimum_rows",
    "pseudonyms",
    "reach",
    "read_key",
    "recounted",
    "require_reachable",
    "with_crowd",
]
