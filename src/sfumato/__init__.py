"""Sfumato: find who can be found in a table, blur it just enough, and prove that it worked.

Verbs are loaded on first use, so that importing the package is quick.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

from sfumato._version import __version__

_HOMES = {
    "Budget": "sfumato.budget",
    "anonymize": "sfumato.anonymize.verb",
    "Table": "sfumato.tables",
    "attack": "sfumato.population.joining",
    "mask": "sfumato.quasi.mask",
    "measure": "sfumato.quasi.measure",
    "minimal_keys": "sfumato.quasi.minimal",
    "minimum_key": "sfumato.quasi.key",
    "population": "sfumato.population.survey",
    "risk": "sfumato.risks",
    "safe_harbor": "sfumato.population.harbor",
    "scan": "sfumato.quasi.scan",
    "table": "sfumato.tables",
    "uniques": "sfumato.quasi.uniques",
    "verify": "sfumato.release.verify",
    "violations": "sfumato.quasi.violations",
}
"""Where each public name lives."""

__all__ = [
    "Budget",
    "Table",
    "__version__",
    "anonymize",
    "attack",
    "mask",
    "measure",
    "minimal_keys",
    "minimum_key",
    "population",
    "risk",
    "safe_harbor",
    "scan",
    "table",
    "uniques",
    "verify",
    "violations",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sfumato' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


class _Package(ModuleType):
    """Keeps a verb in place when the room of the same name is imported after it or before it."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
