"""Rows of a release before and after, side by side: only after somebody asked to see them.

What is shown are combinations of the columns that others may know, as the method found them in the
table, each with the cells that take their place. They are on this machine anyway; no saved report
holds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.engines.recoding import Recoding, Step
from sfumato.kernels import class_ids
from sfumato.release.publish import Release
from sfumato.report.disclosure import as_text, number_ends

__all__ = ["MOST_ROWS", "ORDERS", "Rows", "rows_of"]

MOST_ROWS = 50
ORDERS = {
    "sample": "a sample",
    "riskiest": "those who stood out most",
    "blurred": "the most blurred",
}
"""Which rows are shown, and how that is said."""

Array = npt.NDArray[np.int64]
Texts = tuple[Array, list[str | None]]
"""A column: for every entry the place of its text in a list."""


@dataclass(frozen=True)
class Row:
    """One combination of values: what it said, what it says, and how many look like that."""

    cells: tuple[tuple[str, str], ...]
    """Each cell before and after, empty where nothing is there; the same where it is left out."""
    alike_before: int
    alike_after: int
    number: int
    """Of its class in the release; -1 where it is not in it."""
    left_out: bool
    times: int = 1
    """Rows of the table that are this one."""


@dataclass(frozen=True)
class Rows:
    """Some rows of a release, and the columns they are about."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    different: int = 0
    """Rows there are to show, equal ones once."""


def rows_of(release: Release, which: str, only: int | None = None, by: int = 0) -> Rows | None:
    """Rows before and after; those of one class where its number is given.

    Of several sets of columns that others may know, `by` is the number of the one that is shown.

    None where the mapping of the method is not at hand: it is with a release that was just made.
    """
    known = release.qi[by] if by < len(release.qi) else ()
    step = _step(release, known)
    if step is None:
        return None
    match = step.match
    if step.first is not None and step.last is not None:
        counts = (step.last - step.first).astype(np.int64)
    elif match.counts is None:
        counts = np.ones(match.entries, np.int64)
    else:
        counts = np.asarray(match.counts, np.int64)
    names = [name for name in match.columns if name in known]
    before = {n: (match.column(n).astype(np.int64), as_text(match.values_of(n))) for n in names}
    cells = {n: (c.codes.astype(np.int64), as_text(c.values)) for n, c in step.cells.items()}
    shown_as = [cells.get(name, before[name]) for name in names]  # the others are as they were
    kept = np.ones(match.entries, np.bool_) if step.keep is None else step.keep
    classes, sizes = _alike(shown_as, counts * kept)
    classes = np.where(kept, classes, -1)
    held = [before[name] for name in names]
    mine, own = _alike(held, counts)
    lost = np.zeros(match.entries)
    for one, other in zip(held, shown_as, strict=True):
        lost += _lost(one, other)
    order = _order(which, counts, own[mine], np.where(kept, lost, -1))
    if only is not None:
        order = order[classes[order] == only]
    same, first, times = _equal(mine, classes, counts)
    order = order[first[same[order]] == order]
    chosen = sorted(order[:MOST_ROWS].tolist(), key=lambda at: (not kept[at], classes[at], at))
    return Rows(tuple(names), tuple(
        Row(
            tuple(
                (was[codes[at]] or "", (now[shown[at]] if kept[at] else was[codes[at]]) or "")
                for (codes, was), (shown, now) in zip(held, shown_as, strict=True)
            ),
            int(own[mine[at]]), int(sizes[classes[at]]), int(classes[at]), not bool(kept[at]),
            int(times[same[at]]),
        )
        for at in chosen
    ), len(order))  # fmt: skip


def _step(release: Release, known: Sequence[str]) -> Step | None:
    """The step of the mapping that blurs what others may know."""
    mapping, wanted = release.mapping, set(known)
    if not isinstance(mapping, Recoding):
        return None
    return next((s for s in mapping.steps if wanted <= set(s.match.columns)), None)


def _lost(before: Texts, after: Texts) -> npt.NDArray[np.float64]:
    """How much less each cell says, from 0 to 1: its width where it is a range, else its values."""
    (was, old), (now, new) = before, after
    ends = [number_ends(text, whole=False) for text in old]
    known = [low for low, _ in filter(None, ends)]
    span = max(known, default=0.0) - min(known, default=0.0)
    pairs = np.unique(now * len(old) + was) // len(old)
    values = np.bincount(pairs, minlength=len(new))
    lost = np.zeros(len(new))
    for at, text in enumerate(new):
        width = number_ends(text, whole=False)
        if text is None or not text.strip("*"):
            lost[at] = 1.0
        elif width is not None and span and width[0] < width[1]:
            lost[at] = min(1.0, (width[1] - width[0]) / span)
        else:
            lost[at] = (values[at] - 1) / max(1, len(old) - 1)
    number = {text: at for at, text in enumerate(dict.fromkeys([*old, *new]))}
    numbers = [np.array([number[text] for text in texts], np.int64) for texts in (old, new)]
    return np.where(numbers[0][was] != numbers[1][now], lost[now], 0.0)


def _alike(columns: Sequence[Texts], counts: Array) -> tuple[Array, Array]:
    """The class of each entry by its texts, and the rows in every class."""
    arrays, cardinalities = [], []
    for codes, texts in columns:
        number = {text: at for at, text in enumerate(dict.fromkeys(texts))}
        arrays.append(np.array([number[text] for text in texts], np.uint32)[codes])
        cardinalities.append(len(number))
    ids, number_of = class_ids(tuple(arrays), tuple(cardinalities), entries=len(counts))
    return ids.astype(np.int64), np.bincount(ids, weights=counts, minlength=number_of).astype(int)


def _equal(before: Array, after: Array, counts: Array) -> tuple[Array, Array, Array]:
    """Which entries are the same row, before and after; the first of each, and their rows."""
    keys = before * (int(after.max(initial=0)) + 2) + after + 1
    _, first, same = np.unique(keys, return_index=True, return_inverse=True)
    return same, first, np.bincount(same, weights=counts, minlength=len(first)).astype(int)


def _order(which: str, counts: Array, alike: Array, lost: npt.NDArray[np.float64]) -> Array:
    """Entries in the order in which they are shown."""
    drawn = np.random.default_rng(0).random(len(counts)) ** (1 / np.maximum(counts, 1))
    if which == "riskiest":
        return np.lexsort((-drawn, alike))
    if which == "blurred":
        return np.lexsort((-drawn, -lost))
    return np.argsort(-drawn, kind="stable")
