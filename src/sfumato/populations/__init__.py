"""Anonymity in a population: the table is a sample, and the question is who is unique out there.

``sfumato.population(table, universe=3e8)`` is the verb; its parts are here.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.populations.bound import distinct_needed, uniqueness_bound
    from sfumato.populations.harbor import safe_harbor
    from sfumato.populations.joining import attack
    from sfumato.populations.plan import allot, anonymity_given, distinct_allowed, failure_given
    from sfumato.populations.survey import PopulationReport, population

__all__ = [
    "PopulationReport",
    "allot",
    "anonymity_given",
    "attack",
    "distinct_allowed",
    "distinct_needed",
    "failure_given",
    "population",
    "safe_harbor",
    "uniqueness_bound",
]

_HOMES = {
    "PopulationReport": "survey",
    "allot": "plan",
    "anonymity_given": "plan",
    "attack": "joining",
    "distinct_allowed": "plan",
    "distinct_needed": "bound",
    "failure_given": "plan",
    "population": "survey",
    "safe_harbor": "harbor",
    "uniqueness_bound": "bound",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
