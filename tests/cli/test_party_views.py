"""How a person sees what two parties found."""

from __future__ import annotations

import re

import pytest
from rich.console import Console

from cli_tools import sfumato
from sfumato.cli.party import view_logarithms, view_net, view_tree
from sfumato.secure import BayesNet, DecisionTree, Logarithms, Outcome, Schema, SessionReport
from sfumato.secure.decision_tree import Leaf, Split

SCHEMA = Schema.of({"stage": ["I", "II"], "sex": ["f", "m"], "ill": ["no", "yes"]})
NO, YES = Leaf(0), Leaf(1)
SESSION = SessionReport(
    role="alice", program="id3", seconds=1.0, bytes_sent=10, bytes_received=20, messages_sent=1,
    messages_received=1, rounds=1, seconds_waiting=0.0, and_gates=0, oblivious_transfers=0,
    encrypted=True, engine="aes-ni", learned=(("both", "the tree"),),
)  # fmt: skip


def shown(found, view):
    console = Console(width=200)
    with console.capture() as captured:
        console.print(view(Outcome(found, SESSION, "tree.json")))
    return captured.get().strip().splitlines()


def tree(root):
    return DecisionTree(target="ill", tolerance=1e-4, schema=SCHEMA, root=root)


@pytest.mark.parametrize(
    ("root", "title"),
    [
        (YES, "ill: no question makes a difference"),
        (Split(0, (YES, YES)), "ill: no question makes a difference"),
        (Split(0, (YES, NO)), "ill, by 1 question"),
        (
            Split(0, (Split(1, (NO, NO)), YES)),
            "ill, by 1 question (1 more make no difference and are left out here)",
        ),
        (
            Split(0, (Split(1, (NO, YES)), Split(1, (YES, YES)))),
            "ill, by 2 questions, at most 2 in a row "
            "(1 more make no difference and are left out here)",
        ),
    ],
)
def test_the_title_counts_the_questions_below_it(root, title):
    lines = shown(tree(root), view_tree)
    assert lines[0] == title
    asked = [re.match(r" *\w+ = ", line) for line in lines]
    assert any(asked) == ("question" in title and "no question" not in title)


def test_where_it_was_written_comes_last():
    lines = shown(tree(YES), view_tree)
    assert lines[-2:] == ["Nothing else was shown to either side.", "Written to tree.json."]


def test_what_may_have_been_decided_wrongly_is_on_the_screen():
    """Five terms of the series on 8,000 rows: an arrow that 2.87 nats speak against got in."""
    net = BayesNet(("A", "B"), {"A": (), "B": ("A",)}, 2, "burnside", 119.8)
    (said,) = [line for line in shown(net, view_net) if "decided wrongly" in line]
    assert said.startswith("Scores that differ by less than 120 nats")
    assert "more --terms, or --setting fast" in said
    (said,) = [line for line in shown(tree(YES), view_tree) if "decided wrongly" in line]
    assert said.startswith("Gains that differ by less than 0.0001 nats a row")
    assert "--terms" not in said


@pytest.mark.parametrize(
    ("error", "said"), [(2.26e-5, "3e-05"), (0.002, "0.002"), (9.5e-8, "1e-07")]
)
def test_a_bound_is_rounded_up(error, said):
    lines = shown(Logarithms((1.0,), error), view_logarithms)
    assert f"Each is off by at most {said}." in lines


@pytest.mark.parametrize("number", ["0", "-1", str(1 << 39)])
def test_a_part_of_a_sum_is_at_least_one(number):
    place = ["--me", "alice", "--listen", "127.0.0.1:9", "--plain"]
    done = sfumato("party", "log", *place, "--number", number)
    assert (done.code, done.out) == (2, "")
    assert "Use 1 to 549,755,813,887." in done.err
