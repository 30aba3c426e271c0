"""How a person sees what the commands of ``sfumato party`` found."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType

    from sfumato.secure import (
        BayesNet,
        DecisionTree,
        KeyPaths,
        Logarithms,
        Outcome,
        ToldCategories,
    )
    from sfumato.secure.decision_tree import Leaf, Split

__all__ = ["view_categories", "view_keys", "view_logarithms", "view_net", "view_tree"]

_MOST_LINES = 60


def view_keys(made: KeyPaths) -> RenderableType:
    """Where they are and what to do with them."""
    return (
        f"Certificate {made.certificate}: give it to the other party.\n"
        f"Private key {made.key}: it stays here.\n"
        f"Fingerprint, to compare over the telephone:\n{made.fingerprint}"
    )


def view_categories(told: ToldCategories) -> RenderableType:
    """What would be told, column by column."""
    lines = [f"{name}: {', '.join(values)}" for name, values in told.columns.items()]
    title = "What --share-categories would tell the other side, in clear:"
    return _printable("\n".join([title, "", *lines]))


def view_logarithms(outcome: Outcome[Logarithms]) -> RenderableType:
    """One line each."""
    found = outcome.found
    name = "ln" if found.base == "e" else "log2"
    lines = [f"{name} of sum {i}: {value:.6f}" for i, value in enumerate(found.logarithms, 1)]
    bound = f"Each is off by at most {_rounded_up(found.error)}."
    return _with_costs(outcome, ["\n".join(lines), bound])


def view_tree(outcome: Outcome[DecisionTree]) -> RenderableType:
    """The tree, questions whose answers make no difference left out."""
    found = outcome.found
    simple = found.simplified()
    lines = list(_branches(found, simple.root, ""))
    if len(lines) > _MOST_LINES:
        more = len(lines) - _MOST_LINES
        lines = [*lines[:_MOST_LINES], f"… and {more:,} more lines: use -o FILE or --json"]
    exact = told_apart("Gains", found.tolerance, "nats a row", 0.01)
    return _with_costs(outcome, [_title(found, simple), "", "\n".join(lines), *exact])


def view_net(outcome: Outcome[BayesNet]) -> RenderableType:
    """Each column with its parents."""
    found = outcome.found
    lines = [
        f"{name} ← {', '.join(found.parents[name])}" if found.parents[name] else f"{name}"
        for name in found.order
    ]
    exact = told_apart("Scores", found.tolerance, "nats", 1)
    title = "Columns, and which they depend on:"
    return _with_costs(outcome, [title, "", "\n".join(lines), *exact])


def told_apart(what: str, tolerance: float, unit: str, coarse: float) -> list[str]:
    """What was decided by figures closer to each other than they are exact.

    Neither side may know which decisions these are: that would tell about the figures.
    """
    if not tolerance:
        return []
    said = (
        f"{what} that differ by less than {_rounded_up(tolerance, 2)} {unit} may have been decided "
        "wrongly; where, neither side can tell, since they stay secret."
    )
    if tolerance > coarse:
        said += " That is coarse: more --terms, or --setting fast, tell closer ones apart."
    return ["", said]


def _title(found: DecisionTree, simple: DecisionTree) -> str:
    if not simple.splits:
        title = f"{found.target}: no question makes a difference"
    elif simple.splits == 1:
        title = f"{found.target}, by 1 question"
    else:
        title = f"{found.target}, by {simple.splits:,} questions, at most {simple.depth} in a row"
    left_out = found.splits - simple.splits
    if left_out and simple.splits:
        title += f" ({left_out:,} more make no difference and are left out here)"
    return title


def _rounded_up(bound: float, digits: int = 1) -> str:
    """A bound in so many digits that is still one.

    Examples
    --------
    >>> _rounded_up(2.26e-5)
    '3e-05'
    >>> _rounded_up(119.8, 2)
    '120'
    """
    digit = 10.0 ** (math.floor(math.log10(bound)) - digits + 1)
    return f"{math.ceil(bound / digit - 1e-9) * digit:g}"


def _branches(tree: DecisionTree, node: Leaf | Split, indent: str) -> Iterator[str]:
    from sfumato.secure.decision_tree import Leaf

    labels = tree.schema.values[tree.schema.position(tree.target)]
    if isinstance(node, Leaf):
        yield f"{indent}{labels[node.label]}"
        return
    column = tree.schema.columns[node.column]
    for value, branch in zip(tree.schema.values[node.column], node.branches, strict=True):
        if isinstance(branch, Leaf):
            yield f"{indent}{column} = {value}: {labels[branch.label]}"
        else:
            yield f"{indent}{column} = {value}:"
            yield from _branches(tree, branch, indent + "  ")


def _with_costs(outcome: Outcome[Any], lines: list[str]) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    report = outcome.session
    total = report.bytes_sent + report.bytes_received
    line = "TLS 1.3" if report.encrypted else "not encrypted, on this machine"
    costs = (
        f"{report.seconds:.1f} s, {_size(total)} in {report.rounds:,} rounds ({line}); "
        f"sent {_size(report.bytes_sent)}, received {_size(report.bytes_received)}."
    )
    told = [("Both" if who == "both" else who.capitalize(), what) for who, what in report.learned]
    learned = [Text(f"{who} learned {what}.") for who, what in told]
    written = [f"Written to {outcome.output}."] if outcome.output else []
    end = "Nothing else was shown to either side."
    if report.confirmed:
        end += f"\nBoth sides ended with the same result and transcript ({report.confirmed[:16]})."
    shown = [Text(_printable(text)) for text in lines]
    return Group(*shown, "", costs, *learned, end, *written)


def _printable(text: str) -> str:
    """The other side's names and categories must not steer this side's terminal."""
    return "".join(c if c.isprintable() or c == "\n" else "�" for c in text)


def _size(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"
