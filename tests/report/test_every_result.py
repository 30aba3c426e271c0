"""Every class of results has a page, and a view in notebooks.

Results are made up here from the types of their fields, so that a new class is tested as soon as
it is written.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import re
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import sfumato
from sfumato.report.page import page_html
from sfumato.report.registry import page_of
from sfumato.results import Result


def result_types() -> list[type]:
    """All classes of results of the package, whoever returns them."""
    for module in pkgutil.walk_packages(sfumato.__path__, "sfumato."):
        if not re.search(r"spark|__main__|\.web\b", module.name):
            importlib.import_module(module.name)
    found: set[type] = set()
    waiting: list[type] = [Result]
    while waiting:
        for kind in waiting.pop().__subclasses__():
            waiting.append(kind)
            if kind.__module__.startswith("sfumato.") and dataclasses.is_dataclass(kind):
                found.add(kind)
    return sorted(found, key=lambda kind: (kind.__module__, kind.__qualname__))


def made_up(hint: Any) -> Any:
    """A value of a type: small numbers, empty collections, and records of the same."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in (int, float, str, bool):
        return {int: 3, float: 0.5, str: "Rareflower", bool: True}[hint]
    if origin in (typing.Union, types.UnionType):
        return None if type(None) in arguments else made_up(arguments[0])
    if origin is typing.Literal:
        return arguments[0]
    if origin is tuple:
        return () if arguments[-1:] == (Ellipsis,) else tuple(made_up(one) for one in arguments)
    if origin in (dict, Mapping):
        return {}
    if origin in (list, Sequence):
        return []
    if origin is np.ndarray:
        return np.zeros(2)
    if dataclasses.is_dataclass(hint):
        return record(typing.cast("type", hint))
    return None


def record(kind: type) -> Any:
    """A record as the constructor would make it, without its checks."""
    made = object.__new__(kind)
    for field, hint in hints_of(kind).items():
        object.__setattr__(made, field, made_up(hint))
    return made


def hints_of(kind: type) -> dict[str, Any]:
    """Types of a class's fields; those that are imported for the type checker only are unknown."""
    module = importlib.import_module(kind.__module__)
    names = {**vars(typing), **vars(np), **vars(module)}
    hints = {}
    for field in dataclasses.fields(kind):
        try:
            hints[field.name] = eval(str(field.type), names)
        except NameError:
            hints[field.name] = Any
    return hints


SPECIAL = {"DecisionTree", "Evaluation", "JointModel", "Outcome", "SessionReport"}
"""Results that mean nothing without the records in them; they have tests of their own."""


def test_there_are_results() -> None:
    names = {kind.__name__ for kind in result_types()}
    assert len(names) > 45
    assert names > SPECIAL


@pytest.mark.parametrize("kind", result_types(), ids=lambda kind: kind.__name__)
def test_a_result_has_a_page_and_views(kind: type) -> None:
    for name in ("report", "_repr_html_", "_repr_mimebundle_", "_ipython_display_", "to_json"):
        assert callable(getattr(kind, name))
    if kind.__name__ in SPECIAL:
        return
    found = record(kind)
    text = found._repr_html_()
    assert text.startswith("<div")
    assert text.count("<div") == text.count("</div>")
    page = page_html(page_of(found))
    assert page.startswith("<!doctype html>")
    assert set(found._repr_mimebundle_()) >= {"text/plain", "text/html"}
