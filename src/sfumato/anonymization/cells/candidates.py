"""Candidate groups: the rows that share a frequent itemset (Park & Shim, sections 4.3 and 4.4).

Closed itemsets are mined after LCM (Uno et al. 2004). Each row has exactly one item a column, so a
set of rows is extended by splitting it on a column: one counting pass gives all extensions at once.
Each closed set is reached once, by the extension that adds no item left of the column it splits
(prefix preserving). The list of sets found is also the queue of sets to be extended: no recursion,
and no memory besides the answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato import kernels
from sfumato.anonymization.cells.table import CellTable
from sfumato.errors import BudgetError
from sfumato.hierarchy.tree import Array
from sfumato.kernels.compiling import compiled

__all__ = [
    "MOST_PLACES",
    "Candidates",
    "closed_candidates",
    "frequent_candidates",
    "require_complete",
]

MOST_PLACES = 150_000_000
"""Entries that all candidates together may list; 4 bytes each."""
DEAREST = 1 << 62
"""More than any candidate costs."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """Sets of entries that agree on a set of columns.

    Attributes
    ----------
    kept
        Columns each candidate shows, one bit a column.
    prices
        Price of the stars of one of its rows, in units.
    starts, members
        Entries of candidate c are ``members[starts[c]:starts[c + 1]]``.
    complete
        Whether all candidates are listed.
    """

    kept: npt.NDArray[np.int64]
    prices: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    members: npt.NDArray[np.int32]
    complete: bool

    def __len__(self) -> int:
        return len(self.kept)

    def take(self, chosen: Array) -> Candidates:
        """Some of the candidates."""
        lengths = np.diff(self.starts)[chosen]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        shift = np.repeat(self.starts[:-1][chosen] - starts[:-1], lengths)
        members = self.members[shift + np.arange(starts[-1])]
        return Candidates(self.kept[chosen], self.prices[chosen], starts, members, self.complete)


def closed_candidates(
    table: CellTable, most: int = MOST_PLACES, *, below: int = DEAREST
) -> Candidates:
    """All closed itemsets of support k whose price is below a limit; without one, all of them.

    The empty one (all rows) is among them if it is cheap enough. Sets that cannot become cheaper
    than the limit are not extended. When they need more room than `most`, those found until then
    are given as incomplete.

    Examples
    --------
    >>> from sfumato.anonymization.cells.table import table_of_codes
    >>> table = table_of_codes(np.array([[0, 0], [0, 1], [1, 1]]), k=2)
    >>> sorted(format(kept, "02b") for kept in closed_candidates(table).kept.tolist())
    ['00', '01', '10']
    """
    return _mined(table, True, most, below)


def frequent_candidates(table: CellTable) -> Candidates:
    """All frequent itemsets, closed or not."""
    return _mined(table, False, MOST_PLACES, DEAREST)


def require_complete(candidates: Candidates) -> None:
    """Refuse to go on without all candidates."""
    if not candidates.complete:
        raise BudgetError(
            f"the candidates take more than {MOST_PLACES:,} places in memory",
            remedy="Use the algorithm dr, which needs none of them, or a larger k.",
        )


def _mined(table: CellTable, closed: bool, most: int, below: int) -> Candidates:
    roots, root_starts = kernels.group_rows(*table.blocks())
    # Columns of many values first: they split the rows into small sets early.
    free = table.free[np.argsort(-table.cardinalities[table.free], kind="stable")]
    fixed_bits = int(table.bits[table.prices < 0].sum())
    kept, starts, members, complete = _mine(
        table.codes,
        table.counts,
        free,
        table.k,
        roots.astype(np.int64),
        root_starts,
        fixed_bits,
        closed,
        max(most, 4 * table.entries),
        table.prices.astype(np.int64),
        below,
    )
    prices = np.zeros(len(kept), dtype=np.int64)
    for column in table.free.tolist():
        prices += np.where((kept >> column) & 1, 0, table.prices[column])
    found = Candidates(kept.copy(), prices, starts.copy(), members, bool(complete))
    cheap = prices < below
    return found if cheap.all() else found.take(np.flatnonzero(cheap))


@compiled
def _mine(codes, counts, free, k, roots, root_starts, kept0, closed, most, prices, below):  # type: ignore[no-untyped-def]
    """Sets of entries with a common itemset of support k.

    Parameters
    ----------
    free
        Columns to extend by, in order.
    roots, root_starts
        Entries of each block (one block without protected columns).
    kept0
        Bits of the protected columns.
    closed
        Whether itemsets must be closed; else all frequent ones are listed.
    most
        Places for entries; when they are used up, the last answer is False.
    prices, below
        Price of a star in each column, and of the sets that matter. An extension shows no column
        left of the one it splits that its parent does not show: what those cost it cannot save.

    Returns
    -------
    kept, starts, members, complete
    """
    capacity, room = 1024, max(4096, 4 * roots.shape[0])
    kept, core = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    starts = np.zeros(capacity + 1, np.int64)
    members = np.empty(room, np.int32)
    widest = 0
    for c in range(codes.shape[1]):
        widest = max(widest, codes[:, c].max() + 1)
    tally, place = np.zeros(widest, np.int64), np.zeros(widest, np.int64)
    values = np.empty(max(1, min(widest, codes.shape[0])), np.int64)
    found, complete = 0, True
    for b in range(root_starts.shape[0] - 1):
        first, last = root_starts[b], root_starts[b + 1]
        support = 0
        for z in range(first, last):
            support += counts[roots[z]]
        if support < k:
            continue
        if found + 1 >= capacity:
            capacity *= 2
            kept, core = _longer(kept, capacity), _longer(core, capacity)
            starts = _longer(starts, capacity + 1)
        at = starts[found]
        for z in range(first, last):
            members[at + z - first] = roots[z]
        kept[found] = kept0
        if closed:
            kept[found] = _closure(codes, members, at, at + last - first, free, kept0, 0, -1)
        core[found] = -1
        starts[found + 1] = at + last - first
        found += 1
    parent = 0
    while parent < found:
        lo, hi = starts[parent], starts[parent + 1]
        spent = 0
        for f in range(core[parent] + 1):
            if not (kept[parent] >> free[f]) & 1:
                spent += prices[free[f]]
        for f in range(core[parent] + 1, free.shape[0]):
            d = free[f]
            if spent >= below:
                break
            if (kept[parent] >> d) & 1:
                continue
            spent += prices[d]
            distinct = 0
            for z in range(lo, hi):
                v = codes[members[z], d]
                if tally[v] == 0:
                    values[distinct] = v
                    distinct += 1
                tally[v] += counts[members[z]]
            at = starts[found]
            if at + hi - lo > members.shape[0]:
                if at + hi - lo > most:
                    complete = False
                else:
                    members = _longer(members, min(most, 2 * (at + hi - lo)))
            if not complete:
                for z in range(distinct):
                    tally[values[z]] = 0
                return kept[:found], starts[: found + 1], members[: starts[found]], complete
            # Entries of each value that is frequent go side by side behind the sets found so far.
            ends = at
            for z in range(distinct):
                place[values[z]] = -1
                if tally[values[z]] >= k:
                    place[values[z]] = 0
            for z in range(lo, hi):
                v = codes[members[z], d]
                if place[v] >= 0:
                    place[v] += 1
            for z in range(distinct):
                v = values[z]
                if place[v] >= 0:
                    length = place[v]
                    place[v] = ends
                    ends += length
            for z in range(lo, hi):
                v = codes[members[z], d]
                if place[v] >= 0:
                    members[place[v]] = members[z]
                    place[v] += 1
            begin, write = at, at
            for z in range(distinct):
                v = values[z]
                tally[v] = 0
                if place[v] < 0:
                    continue
                end = place[v]
                shown = kept[parent] | (np.int64(1) << d)
                if closed:
                    shown = _closure(codes, members, begin, end, free, shown, f, kept[parent])
                if shown >= 0:
                    if found + 1 >= capacity:
                        capacity *= 2
                        kept, core = _longer(kept, capacity), _longer(core, capacity)
                        starts = _longer(starts, capacity + 1)
                    for y in range(begin, end):
                        members[write + y - begin] = members[y]
                    write += end - begin
                    kept[found], core[found] = shown, f
                    starts[found + 1] = write
                    found += 1
                begin = end
        parent += 1
    return kept[:found], starts[: found + 1], members[: starts[found]], complete


@compiled
def _closure(codes, members, lo, hi, free, shown, upto, parent):  # type: ignore[no-untyped-def]
    """All columns on which the entries agree; -1 if one left of `upto` is new to the parent."""
    first = members[lo]
    for f in range(free.shape[0]):
        c = free[f]
        if (shown >> c) & 1:
            continue
        value, same = codes[first, c], True
        for z in range(lo + 1, hi):
            if codes[members[z], c] != value:
                same = False
                break
        if same:
            if f < upto and parent >= 0:
                return np.int64(-1)
            shown |= np.int64(1) << c
    return np.int64(shown)


@compiled
def _longer(array, length):  # type: ignore[no-untyped-def]
    longer = np.empty(length, array.dtype)
    for i in range(array.shape[0]):
        longer[i] = array[i]
    return longer
