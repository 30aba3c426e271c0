"""Results in notebooks: the compact view, and the chart as its specification."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from functools import cache
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import sfumato as sf
from planted import QI, RESULTS, assert_nothing_rare, people
from sfumato.report.registry import VEGALITE
from sfumato.results import Result

WITHOUT_CHART = {"risk", "risk-twice", "keys", "violations", "mask"}
"""Results whose page has tables or hand-made pictures only, or would measure rows again."""


@cache
def bundle(name: str) -> dict[str, Any]:
    found: dict[str, Any] = RESULTS[name]()._repr_mimebundle_()
    return found


@pytest.mark.parametrize("name", RESULTS)
def test_front_ends_may_choose(name: str) -> None:
    forms = bundle(name)
    assert (VEGALITE in forms) == (name not in WITHOUT_CHART)
    assert forms["text/html"].startswith("<div")
    assert_nothing_rare(forms["text/plain"])
    assert_nothing_rare(forms["text/html"])
    assert_nothing_rare(json.dumps(forms.get(VEGALITE)))


@pytest.mark.parametrize("name", sorted(set(RESULTS) - WITHOUT_CHART))
def test_the_specification_can_be_drawn_as_it_is(name: str) -> None:
    import vl_convert

    spec = bundle(name)[VEGALITE]
    assert spec["$schema"].endswith("/v5.json")
    assert spec["background"] == "white"
    drawn = vl_convert.vegalite_to_svg(spec, vl_version="5.21")
    assert spec["title"]["text"].split()[0] in drawn
    assert "#010203" not in drawn


class _Screen:
    """IPython, as far as a result needs it."""

    def __init__(self, patch: pytest.MonkeyPatch, *, notebook: bool) -> None:
        self.shown: list[dict[str, Any]] = []
        shell = SimpleNamespace(kernel=object()) if notebook else SimpleNamespace()
        members = {"IPython": ("get_ipython", lambda: shell)}
        members["IPython.display"] = ("display", self.display)
        for name, (member, value) in members.items():
            module = ModuleType(name)
            setattr(module, member, value)
            patch.setitem(sys.modules, name, module)

    def display(self, output: dict[str, Any], *, raw: bool) -> None:
        assert raw
        self.shown.append(output)


def test_a_notebook_shows_what_is_said_and_then_the_chart(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = _Screen(monkeypatch, notebook=True)
    sf.scan(people())._ipython_display_()
    said, chart = screen.shown
    assert set(said) == {"text/plain", "text/html"}
    assert set(chart) == {"text/plain", VEGALITE}


def test_a_terminal_shows_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = _Screen(monkeypatch, notebook=False)
    found = sf.measure(people(), QI)
    found._ipython_display_()
    assert screen.shown == [{"text/plain": repr(found)}]


def test_a_result_without_chart_shows_its_figures() -> None:
    @dataclass(frozen=True)
    class Outcome(Result):
        rows: int

    assert set(Outcome(3)._repr_mimebundle_()) == {"text/plain", "text/html"}
