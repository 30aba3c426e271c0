"""Sfumato: find who can be found in a table, blur it just enough, and prove that it worked.

Everything below is loaded on first use, so that importing the package is quick; type checkers see
the imports.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sfumato import results
from sfumato._version import __version__

if TYPE_CHECKING:
    from sfumato import datasets, demo, errors, hierarchy, joint, relational, secure
    from sfumato.anonymization.numbers_as import midpoints
    from sfumato.anonymization.verb import anonymize
    from sfumato.budget import Budget
    from sfumato.hierarchy import Hierarchy
    from sfumato.populations.attack import attack
    from sfumato.populations.safe_harbor import safe_harbor
    from sfumato.populations.survey import population
    from sfumato.quasi.key import minimum_key
    from sfumato.quasi.mask import mask
    from sfumato.quasi.measure import measure
    from sfumato.quasi.minimal_keys import minimal_keys
    from sfumato.quasi.scan import scan
    from sfumato.quasi.uniques import uniques
    from sfumato.quasi.violations import violations
    from sfumato.release import Release
    from sfumato.release.recoding import Recoding
    from sfumato.release.verify import verify
    from sfumato.risks import risk
    from sfumato.tables import Table
    from sfumato.tables.open import table

_HOMES = {
    "Budget": "budget",
    "Hierarchy": "hierarchy",
    "Recoding": "release.recoding",
    "Release": "release",
    "Table": "tables",
    "anonymize": "anonymization.verb",
    "attack": "populations.attack",
    "mask": "quasi.mask",
    "measure": "quasi.measure",
    "midpoints": "anonymization.numbers_as",
    "minimal_keys": "quasi.minimal_keys",
    "minimum_key": "quasi.key",
    "population": "populations.survey",
    "risk": "risks",
    "safe_harbor": "populations.safe_harbor",
    "scan": "quasi.scan",
    "table": "tables.open",
    "uniques": "quasi.uniques",
    "verify": "release.verify",
    "violations": "quasi.violations",
}
"""Where each public name lives."""
_ROOMS = ("datasets", "demo", "errors", "hierarchy", "joint", "relational", "secure")
"""Modules that are public as they are."""

__all__ = [
    "Budget",
    "Hierarchy",
    "Recoding",
    "Release",
    "Table",
    "__version__",
    "anonymize",
    "attack",
    "datasets",
    "demo",
    "errors",
    "hierarchy",
    "joint",
    "mask",
    "measure",
    "midpoints",
    "minimal_keys",
    "minimum_key",
    "population",
    "relational",
    "risk",
    "safe_harbor",
    "scan",
    "secure",
    "table",
    "uniques",
    "verify",
    "violations",
]

results.drawn_by(lambda: importlib.import_module("sfumato.report.registry"))

if not TYPE_CHECKING:  # so that type checkers refuse names that are not there

    def __getattr__(name: str) -> Any:
        if name in _ROOMS:
            return importlib.import_module(f"sfumato.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module 'sfumato' has no attribute {name!r}")
        value = getattr(importlib.import_module(f"sfumato.{_HOMES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
