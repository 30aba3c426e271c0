"""Sfumato: find who can be found in a table, blur it just enough, and prove that it worked.

Verbs are loaded on first use, so that importing the package is quick.
"""

from __future__ import annotations

import importlib
from typing import Any

from sfumato._version import __version__

_HOMES = {
    "Budget": "sfumato.budget",
    "Table": "sfumato.tables",
    "mask": "sfumato.quasi.mask",
    "measure": "sfumato.quasi.measure",
    "minimal_keys": "sfumato.quasi.minimal",
    "minimum_key": "sfumato.quasi.key",
    "scan": "sfumato.quasi.scan",
    "table": "sfumato.tables",
    "uniques": "sfumato.quasi.uniques",
    "violations": "sfumato.quasi.violations",
}
"""Where each public name lives."""

__all__ = [
    "Budget",
    "Table",
    "__version__",
    "mask",
    "measure",
    "minimal_keys",
    "minimum_key",
    "scan",
    "table",
    "uniques",
    "violations",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sfumato' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
