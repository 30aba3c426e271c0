"""Pages of computations of two parties: costs, who learned what, and no category."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest

from planted import RARE_TEXTS, assert_nothing_rare
from sfumato import secure
from sfumato.report.diagrams import MOST_MEMBERS, Side, exchange_svg, gathering_svg
from sfumato.report.page import page_html
from sfumato.report.registry import page_of
from sfumato.secure import Logarithms, Outcome
from sfumato.secure.decision_tree import DecisionTree, Leaf

SCHEMA = secure.Schema.of(
    {
        "town": ["Aton", "Berg", RARE_TEXTS[0]],
        "job": ["baker", "clerk", RARE_TEXTS[1]],
        "ill": ["no", "yes", RARE_TEXTS[2]],
    }
)


@cache
def run(kind: str) -> Outcome:
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 3, (90, 3))
    codes[:, 2] = np.where(rng.random(90) < 0.8, codes[:, 0], codes[:, 2])

    def party(session: secure.Session) -> tuple[Any, secure.SessionReport]:
        rows = codes[:50] if session.is_alice else codes[50:]
        held = secure.HeldRows(SCHEMA, rows)
        if kind == "tree":
            return secure.grow_tree(session, held, target="ill"), session.report()
        return secure.search_net(session, held), session.report()

    (found, cost), _ = secure.together(party, party)
    return Outcome(found, cost)


@pytest.mark.parametrize("kind", ["tree", "net"])
def test_a_run_shows_its_result_its_cost_and_who_learned_what(kind: str) -> None:
    outcome = run(kind)
    cost = outcome.session
    for result in (outcome, outcome.found, cost):
        text = page_html(page_of(result)) + result._repr_html_()
        assert_nothing_rare(text)
        assert "baker" not in text
    whole = page_html(page_of(outcome))
    assert f"{cost.messages_sent:,} messages" in whole
    assert f"{cost.messages_received:,} messages" in whole
    assert f"{cost.rounds:,} rounds" in whole
    assert cost.learned
    for _, what in cost.learned:
        assert what[1:] in whole.replace("&#39;", "'")
    assert json.loads(outcome.to_json())["session"]["rounds"] == cost.rounds


def test_a_result_without_a_page_shows_the_session() -> None:
    outcome = Outcome(Logarithms((6.9,), 1e-7), run("net").session)
    assert "Computed together" in page_html(page_of(outcome))
    assert "Computed together" in outcome._repr_html_()


def test_a_tree_that_asks_nothing() -> None:
    text = page_html(page_of(DecisionTree(SCHEMA, "ill", Leaf(0))))
    assert "No column helps to tell ill" in text


def test_an_arrow_points_from_parent_to_child() -> None:
    found = run("net").found
    text = page_html(page_of(found))
    assert text.count('class="arc"') == len(found.arrows)
    for parent, child in found.arrows:
        assert f"{child} depends on {parent}" in text


def test_names_in_pictures_are_text_and_nothing_else() -> None:
    odd = "<b>&\"'"
    for picture in (
        exchange_svg((Side(odd, odd, [odd]), Side("b", odd)), odd, [odd], odd),
        gathering_svg([(odd, odd)], odd, (odd, [odd]), odd),
    ):
        assert "<b>" not in picture
        assert picture.count("<svg") == picture.count("</svg>") == 2


def test_of_many_institutions_the_last_box_counts_the_rest() -> None:
    members = [(f"clinic {at}", "") for at in range(30)]
    picture = gathering_svg(members, "sums", ("model", []), "Fit")
    assert picture.count('class="arrow"') == 2 * MOST_MEMBERS
    assert f"{30 - MOST_MEMBERS + 1} more" in picture
