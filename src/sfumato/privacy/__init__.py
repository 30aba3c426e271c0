"""Privacy models: what may be asked, how it is measured, and how anonymizers are held to it."""

from sfumato.privacy.check import Check, ModelFinding, Population, check
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
from sfumato.privacy.reachable import require_reachable
from sfumato.privacy.rules import Rules, SensitiveColumn, compile_rules, minimum_rows

__all__ = [
    "AlphaK",
    "Check",
    "Closeness",
    "DistinctDiversity",
    "EntropyDiversity",
    "KAnonymity",
    "KMap",
    "Model",
    "ModelFinding",
    "Population",
    "RecursiveDiversity",
    "Rules",
    "SensitiveColumn",
    "Sensitivity",
    "check",
    "compile_rules",
    "minimum_rows",
    "pseudonyms",
    "read_key",
    "require_reachable",
]
