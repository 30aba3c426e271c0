"""Pages of computations of two parties: what they found, what it cost, who learned what.

Categories are not named on them: the parties never count together how many rows hold one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sfumato.report import charts
from sfumato.report.diagrams import Side, arcs_svg, exchange_svg
from sfumato.report.page import Figure, Grid, Page, Section
from sfumato.secure.bayes import BayesNet
from sfumato.secure.decision_tree import DecisionTree, Split
from sfumato.secure.session import SessionReport
from sfumato.wording import amount, counted, phrase, sentence

MOST_LEVELS = 12
OF_BOTH = "What two parties found together was told to nobody else: it is theirs to pass on or not."


def session_summary(found: SessionReport) -> Page:
    """What is said of a session first."""
    total = found.bytes_sent + found.bytes_received
    line = "an encrypted line" if found.encrypted else "a line that was not encrypted"
    return Page(
        title="Computed together",
        subtitle=f"Program {found.program} · this side was {found.role}",
        verdict=f"Two parties computed together over {line}: {amount(total)} in "
        f"{found.rounds:,} rounds. Nobody learned more than is listed below"
        + (
            ", and both sides ended with the same result and transcript."
            if found.confirmed
            else "."
        ),
        tone="good" if found.encrypted else "warn",
        facts=(
            ("rounds", f"{found.rounds:,}"),
            ("messages", f"{found.messages_sent + found.messages_received:,}"),
            ("sent", amount(found.bytes_sent)),
            ("received", amount(found.bytes_received)),
            ("seconds", f"{found.seconds:,.1f}"),
        ),
        at_home=OF_BOTH,
    )


def session_page(found: SessionReport) -> Page:
    return replace(session_summary(found), sections=session_sections(found))


def session_sections(found: SessionReport) -> list[Section]:
    """What passed between the parties, and what each learned."""
    peer = "bob" if found.role == "alice" else "alice"
    own = _sent(found.bytes_sent, found.messages_sent)
    other = _sent(found.bytes_received, found.messages_received)
    sent = {found.role: own, peer: other}
    told: dict[str, list[str]] = {"alice": [], "bob": [], "both": []}
    for who, what in found.learned:
        told[who].append(what)
    line = "TLS 1.3" if found.encrypted else "not encrypted"
    figure = Figure(
        "What passed between them, and who learned what",
        "Everything on the way is random to whoever does not hold the other half: what is listed "
        "is what was opened on purpose.",
        svg=exchange_svg(
            (Side("alice", sent["alice"], told["alice"]), Side("bob", sent["bob"], told["bob"])),
            f"{found.rounds:,} rounds · {found.seconds:,.1f} s · {line}",
            told["both"],
            "What passed between alice and bob, and who learned what",
        ),
    )
    learned = Grid(("who", "learned"), [(who, sentence(what)) for who, what in found.learned])
    work = Grid(
        ("work", "amount"),
        [
            ("AND gates", f"{found.and_gates:,}"),
            ("oblivious transfers", f"{found.oblivious_transfers:,}"),
            ("seconds waiting for the other side", f"{found.seconds_waiting:,.1f}"),
            ("engine", found.engine),
        ],
        frozenset({1}),
    )
    grids = [learned, work] if found.learned else [work]
    return [Section("The session", figures=[figure], grids=grids)]


def _sent(size: int, messages: int) -> str:
    return f"{amount(size)} in {counted(messages, 'message')}"


def tree_summary(found: DecisionTree) -> Page:
    """What is said of a tree first."""
    plain = found.simplified()
    asked = _asked(plain)
    verdict = (
        f"The tree tells {found.target} by {counted(plain.splits, 'question')}, at most "
        f"{plain.depth} in a row; it begins with {_first(plain)}."
        if plain.splits
        else f"No column helps to tell {found.target}."
    )
    return Page(
        title="A decision tree of both sides",
        subtitle=f"Predicts {found.target}, as if the rows were pooled",
        verdict=verdict,
        tone="good",
        facts=(
            ("questions", f"{plain.splits:,}"),
            ("ends", f"{plain.leaves:,}"),
            ("questions in a row", f"{plain.depth:,}"),
            ("columns asked", f"{len(asked):,}"),
            ("gains told apart from", f"{found.tolerance:.2g} nats a row"),
        ),
        at_home=OF_BOTH,
    )


def tree_page(found: DecisionTree) -> Page:
    plain = found.simplified()
    if not plain.splits:
        return tree_summary(found)
    asked = _asked(plain)
    shares = {name: count / plain.splits for name, count in asked.most_common(40)}
    figure = Figure(
        "Which columns the tree asks for",
        "The share of all questions that ask for each column. Questions whose answers make no "
        "difference are left out.",
        charts.shares("Questions by column", shares, what="share of questions"),
    )
    levels: list[Counter[str]] = [Counter() for _ in range(plain.depth)]
    for path, node in plain.walk():
        if isinstance(node, Split):
            levels[len(path)][plain.schema.columns[node.column]] += 1
    rows = [
        (f"{at}", f"{level.total():,}", phrase([name for name, _ in level.most_common()]))
        for at, level in enumerate(levels[:MOST_LEVELS], 1)
    ]
    grid = Grid(("question", "so many", "columns asked for"), rows, frozenset({1}))
    words = (
        "Which category leads where is in the tree itself and not on this page: nobody knows how "
        "many rows of both sides hold it."
    )
    return replace(tree_summary(found), sections=[Section("The tree", [words], [figure], [grid])])


def _asked(tree: DecisionTree) -> Counter[str]:
    return Counter(
        tree.schema.columns[node.column] for _, node in tree.walk() if isinstance(node, Split)
    )


def _first(tree: DecisionTree) -> str:
    assert isinstance(tree.root, Split)
    return tree.schema.columns[tree.root.column]


def net_summary(found: BayesNet) -> Page:
    """What is said of a net first."""
    arrows = len(found.arrows)
    verdict = (
        f"{counted(arrows, 'direct dependence')} among {counted(len(found.order), 'column')}."
        if arrows
        else "No column depends on another."
    )
    return Page(
        title="A Bayes net of both sides",
        subtitle=f"At most {found.max_parents} parents a column · {found.score} score",
        verdict=verdict,
        tone="good",
        facts=(
            ("columns", f"{len(found.order):,}"),
            ("arrows", f"{arrows:,}"),
            ("without parents", f"{sum(not found.parents[name] for name in found.order):,}"),
            ("scores told apart from", f"{found.tolerance:.2g} nats"),
        ),
        at_home=OF_BOTH,
    )


def net_page(found: BayesNet) -> Page:
    if not found.order:
        return net_summary(found)
    figure = Figure(
        "Which columns depend on which",
        "An arc leads from a column to one that depends on it directly; both sides agreed on the "
        "order.",
        svg=arcs_svg(found.order, found.arrows, "Arrows between columns"),
    )
    rows = [(name, phrase(found.parents[name]) or "–") for name in found.order]
    grid = Grid(("column", "depends on"), rows)
    return replace(net_summary(found), sections=[Section("The net", (), [figure], [grid])])


def outcome_summary(found: Any) -> Page:
    """What is said of a party's run: its result."""
    parts = _PAGES.get(type(found.found))
    return parts[0](found.found) if parts else session_summary(found.session)


def outcome_page(found: Any) -> Page:
    """The page of a party's run: its result, what it cost and who learned what."""
    parts = _PAGES.get(type(found.found))
    page = parts[1](found.found) if parts else session_summary(found.session)
    sections: Sequence[Section] = [*page.sections, *session_sections(found.session)]
    return replace(page, sections=sections)


_PAGES: dict[type, tuple[Any, Any]] = {
    BayesNet: (net_summary, net_page),
    DecisionTree: (tree_summary, tree_page),
}
