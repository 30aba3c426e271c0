"""A tree as lines of a page: what is open, what is picked, what may be shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sfumato.report.disclosure import RARE
from sfumato.web.outline import Outline

__all__ = ["Line", "few_hold", "lines_of", "opened_at_first"]

AT_FIRST = 40
"""Lines that are open when the page is first seen, about."""
MOST_CHILDREN = 250
"""Lines below one group, unless all are asked for."""


@dataclass(frozen=True)
class Line:
    """One node, or a note that more are not shown."""

    depth: int
    node: int | None = None
    label: str = ""
    values: int = 0
    rows: int = 0
    share: float = 0.0
    is_group: bool = False
    is_root: bool = False
    is_open: bool = False
    marked: bool = False
    out_of_reach: bool = False
    hidden: int = 0
    """Values of this note that few rows hold; 0 where there are simply too many lines."""
    below: int | None = None
    """The group that a note stands below."""


def opened_at_first(outline: Outline) -> set[int]:
    """Groups from the root downward, as many as fit on a screen."""
    opened = {outline.root}
    shown = len(outline.children[outline.root])
    for group in outline.downward[1:]:
        shown += len(outline.children[group])
        if shown > AT_FIRST:
            break
        opened.add(group)
    return opened


def few_hold(outline: Outline, rows: Sequence[int], group: int) -> list[int]:
    """What stands directly below a group and is held by fewer than ten rows."""
    return [
        node
        for node in outline.children.get(group, ())
        if sum(rows[value] for value in outline.leaves(node)) < RARE
    ]


def lines_of(
    outline: Outline,
    rows: Sequence[int],
    opened: set[int],
    *,
    with_rare: bool,
    with_all: bool = False,
    named: frozenset[int] = frozenset(),
) -> list[Line]:
    """The lines of a tree.

    Nodes that fewer than ten rows hold are counted but not named, unless they are asked for or
    were just `named` by the user. Long lists are cut unless `with_all` is asked for.
    """
    most = len(rows) + len(outline.names) if with_all else MOST_CHILDREN
    total = max(1, sum(rows))
    held: dict[int, int] = {}
    below: dict[int, int] = {}
    for value, count in enumerate(rows):
        for node in outline.path(value):
            held[node] = held.get(node, 0) + count
            below[node] = below.get(node, 0) + 1

    found: list[Line] = []

    def show(node: int, depth: int) -> None:
        is_group = node in outline.names
        is_open = is_group and node in opened
        found.append(
            Line(
                depth=depth,
                node=node,
                label=outline.label(node),
                values=below[node],
                rows=held[node],
                share=held[node] / total,
                is_group=is_group,
                is_root=node == outline.root,
                is_open=is_open,
                marked=node in outline.marks,
                out_of_reach=node in outline.out_of_reach,
            )
        )
        if not is_open:
            return
        children = outline.children[node]
        shown = [c for c in children if with_rare or held[c] >= RARE or c in named]
        for child in shown[:most]:
            show(child, depth + 1)
        hidden = [c for c in children if c not in set(shown)]
        if len(shown) > most:
            found.append(Line(depth + 1, values=len(shown) - most))
        if hidden:
            few = sum(below[c] for c in hidden)
            found.append(Line(depth + 1, values=few, hidden=few, below=node))

    show(outline.root, 0)
    return found
