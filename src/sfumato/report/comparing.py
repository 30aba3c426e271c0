"""A release beside its table, column by column: what became of the cells, and of distributions.

Where the method's own mapping is at hand, every cell is followed from its value to its label. A
release that was read from its files is compared by the rows that hold each text before and after:
the two agree unless a label is spelled like another value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from sfumato.engines.recoding import Recoding, Step
from sfumato.engines.results import ClassSizes
from sfumato.errors import HierarchyError
from sfumato.hierarchy import ValueSets
from sfumato.report.showable import MOST_DISTINCT, as_text, counts_of
from sfumato.tables import Table

__all__ = ["Compared"]

STAR = "*"
Text = str | None
Moves = dict[tuple[Text, Text], int]
"""Rows by what their cell said before and says now; rows that were left out are not among them."""


@dataclass(frozen=True, eq=False)
class Compared:
    """The table before and after."""

    before: Table
    after: Table
    known: tuple[str, ...]
    """Columns others may know; some of them may have been left out of the release."""
    sizes: Mapping[str, ClassSizes]
    recoding: Recoding | None = None
    _moves: dict[str, Moves | None] = field(default_factory=dict)

    @property
    def both(self) -> tuple[str, ...]:
        """Columns others may know that are in the release."""
        return tuple(name for name in self.known if name in self.after.columns)

    def is_small(self, name: str) -> bool:
        """Whether the column has few enough values to look at each of them."""
        return self.before.class_sizes([name]).classes <= MOST_DISTINCT

    def fate(self, name: str) -> dict[str, float]:
        """Shares of a column's cells by what became of them."""
        rows = self.before.rows
        if name not in self.after.columns:
            return {"left out": 1.0}
        gone = rows - self.after.rows
        moves = self.moves(name)
        if moves is None:
            exact, starred = self._counted(name)
        else:
            exact = sum(n for (was, now), n in moves.items() if was == now)
            starred = sum(
                n for (was, now), n in moves.items() if was != now and now in (STAR, None)
            )
        blurred = max(0, rows - gone - exact - starred)
        found = {"as it was": exact, "blurred": blurred, "starred": starred, "left out": gone}
        return {fate: count / rows for fate, count in found.items()}

    def _counted(self, name: str) -> tuple[int, int]:
        """Cells that are as they were, and starred ones, as far as counts tell."""
        before, after = self.texts("before", name), self.texts("after", name)
        exact = sum(min(n, after.get(text, 0)) for text, n in before.items())
        # New stars, and new nulls in columns that cannot hold a star.
        starred = sum(max(0, after.get(text, 0) - before.get(text, 0)) for text in (STAR, None))
        return exact, starred

    def texts(self, which: str, name: str) -> dict[Text, int]:
        """Rows that hold each text of a column."""
        source: Table = getattr(self, which)
        values, counts = counts_of(source, name)
        return dict(zip(as_text(values), counts.tolist(), strict=True))

    def spread(self, name: str) -> dict[str, float]:
        """Rows of each value of a column in the release, as its reader would reckon them.

        A blurred cell counts in equal parts for the values that its label stands for; stars and
        labels nobody can tell the members of count for none.
        """
        values, _ = counts_of(self.before, name)
        originals = [text for text in as_text(values) if text is not None]
        members = self._members(name, values)
        found = dict.fromkeys(originals, 0.0)
        for label, rows in self.texts("after", name).items():
            inside = members.get(label, ())
            for value in inside:
                found[value] += rows / len(inside)
        return found

    def _members(self, name: str, values: pa.Array) -> dict[Text, Sequence[str]]:
        """The values that each label stands for."""
        moves = self.moves(name)
        if moves is not None:
            inside: dict[Text, list[str]] = defaultdict(list)
            for was, now in moves:
                if was is not None and now not in (STAR, None):
                    inside[now].append(was)
            return dict(inside)
        texts = as_text(values)
        found: dict[Text, Sequence[str]] = {text: (text,) for text in texts if text is not None}
        sets = ValueSets(values, name)
        for label in self.texts("after", name):
            if label is not None and label.startswith("{") and label not in found:
                found[label] = _set_of(sets, label, texts)
        return found

    def moves(self, name: str) -> Moves | None:
        """What each cell of a column became, where the mapping of the method is at hand."""
        if name not in self._moves:
            self._moves[name] = self._followed(name)
        return self._moves[name]

    def _followed(self, name: str) -> Moves | None:
        steps = self.recoding.steps if self.recoding is not None else ()
        step = next((s for s in steps if name in s.cells and name in s.match.columns), None)
        if step is None:
            return None
        found = _moves_of(step, name)
        # Where other steps leave rows out, this one alone does not tell which.
        return found if sum(found.values()) == self.after.rows else None


def _moves_of(step: Step, name: str) -> Moves:
    if step.first is not None and step.last is not None:
        rows = step.last - step.first
    else:
        counts = step.match.counts
        rows = np.ones(step.match.entries, np.int64) if counts is None else counts
    kept = np.ones(len(rows), np.bool_) if step.keep is None else step.keep
    was, now = as_text(step.match.values_of(name)), as_text(step.cells[name].values)
    pairs = step.match.column(name).astype(np.int64) * len(now) + step.cells[name].codes
    seen, place = np.unique(pairs[kept], return_inverse=True)
    held = np.bincount(place, weights=rows[kept], minlength=len(seen)).astype(np.int64)
    found: Moves = defaultdict(int)
    for pair, n in zip(seen.tolist(), held.tolist(), strict=True):
        before, after = divmod(pair, len(now))
        found[was[before], now[after]] += n
    return dict(found)


def _set_of(sets: ValueSets, label: str, texts: Sequence[Text]) -> list[str]:
    try:
        _, members = sets.read(pa.array([label]))
    except HierarchyError:
        return []
    return [text for code in members.tolist() if (text := texts[code]) is not None]
