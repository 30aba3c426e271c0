"""Privacy models: what may be asked, how it is measured, and how anonymizers are held to it."""

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
from sfumato.privacy.rules import Rules, SensitiveColumn, compile_rules, minimum_rows

__all__ = [
    "AlphaK",
    "Closeness",
    "DistinctDiversity",
    "EntropyDiversity",
    "KAnonymity",
    "KMap",
    "Model",
    "RecursiveDiversity",
    "Rules",
    "SensitiveColumn",
    "Sensitivity",
    "compile_rules",
    "minimum_rows",
]
