"""Attacks on what is published: on each row of a share, and on the numbers of an exact fit.

*The grid attack*: which rows of the agreed grid could have led to a published row?

The attacker knows the agreement, so B, the bounds, and the grid of values of every column; the
published numbers are known to half a rounding step. Each column contributes additively to them
(to their logarithm with the Gaussian kernel), so the consistent rows are found by depth-first
search with sphere-decoder pruning. With m̄ = n-1 and full precision one column is free and all
others follow; that is why Proposition 4.2's "infinitely many solutions" protects nobody.

*The lattice attack*: how many people have each combination of values? A sum over people is linear
in these counts, and counts are whole numbers. Few sums with many digits determine many counts: the
vectors of counts that agree with them are points of a lattice, and lattice reduction (Lenstra,
Lenstra & Lovász 1982) finds the short ones. Of totals of gradients and Hessians they are the truth;
this is why an exact fit must not open such totals. Short vectors that change no number lead from
the true table to others that cannot be told from it (`equal_tables`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.joint.agreement import Agreement
from sfumato.joint.local_data import random_matrix
from sfumato.kernels.compiling import bare, compiled

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_SLACK = 1e-12  # rounding of the floating point sums themselves
_ENOUGH, _MOST = 100, 1_000
_MOST_SWAPS = 200_000
_UNCOMPILED = 1e-4  # seconds that the search of a row takes about where it is not compiled
_MOST_CELLS = 5_000  # of which it is asked one by one whether they are certain


@dataclass(frozen=True)
class GridAttack:
    """What the attack found for each attacked row.

    Attributes
    ----------
    candidates
        Consistent rows found (the true one among them), counted up to a limit.
    certain
        Whether the search proved that there are no others, or found enough of them.
    pinned
        For each row (of the first ones, if there are many cells) and column, whether no consistent
        row with another value was found; where the search was cut short this errs on the side of
        "pinned".
    """

    candidates: Ints
    certain: NDArray[np.bool_]
    pinned: NDArray[np.bool_]

    @property
    def recovered(self) -> NDArray[np.bool_]:
        """Rows with one consistent row only, or with no other found before the search was cut."""
        return self.candidates <= 1


def grid_attack(
    published: Floats,
    options: Ints,
    agreement: Agreement,
    rounding: float,
    *,
    likely: tuple[tuple[Ints, ...], ...] = (),
    **how: Any,
) -> GridAttack:
    """Attack published rows, knowing everything but the rows; see `Attacker`."""
    return Attacker(options, agreement, likely)(published, rounding, **how)


def expect_rows(rows: int) -> None:
    """Say how many rows will be attacked: whether compiling pays need not be found out then."""
    _search_rows.ahead(_UNCOMPILED * rows)


class Attacker:
    """Who knows everything but the rows, and attacks what may be published of them.

    Parameters
    ----------
    options
        The truth: which of its values each agreed column takes (`Encoded.options`); used to
        judge the attack and to look for alternatives nearby first.
    agreement
        What the attacker knows.
    likely
        For each column, the values that an attacker tries first, and next (`Encoded.likely`); a
        row is attacked with the first of these that it keeps to, or else with the whole grid.
    """

    def __init__(
        self, options: Ints, agreement: Agreement, likely: tuple[tuple[Ints, ...], ...] = ()
    ) -> None:
        self.agreement = agreement
        every = _contributions(agreement)
        left = np.ones(len(options), dtype=bool)
        self._grids = list[tuple[NDArray[np.bool_], Ints, _Grid]]()
        for values in (*likely, tuple(np.arange(len(part)) for part in every)):
            rows = left.copy()
            for at, tried in enumerate(values):
                if len(tried) < len(every[at]):
                    rows &= np.isin(options[:, at], tried)
            if not rows.any() and (self._grids or len(left)):
                continue
            left &= ~rows
            near = [np.searchsorted(tried, options[rows, at]) for at, tried in enumerate(values)]
            parts = [part[tried] for part, tried in zip(every, values, strict=True)]
            self._grids.append((rows, np.column_stack(near), _Grid(parts)))
            if not left.any():
                break

    def __call__(
        self,
        published: Floats,
        rounding: float,
        *,
        nodes: int = 20_000,
        only_recovery: bool = False,
        every_cell: bool = False,
        only_whether: bool = False,
    ) -> GridAttack:
        """Attack the rows.

        Parameters
        ----------
        published
            Projected rows, as rounded for publication.
        rounding
            To which step.
        nodes
            Limit of search steps a row and column.
        only_recovery
            Stop at the second consistent row: tells recovered rows fast, and nothing about columns.
        every_cell
            Judge the cells of all rows, however many there are.
        only_whether
            Tell which rows are recovered, and whether any cell of any row is certain: beside one
            that is, others may be called so, too; candidates are counted up to two.
        """
        how = (nodes, only_recovery, every_cell, only_whether)
        found = [
            (rows, _attacked(published[rows], options, self.agreement, rounding, grid, *how))
            for rows, options, grid in self._grids
        ]
        return found[0][1] if len(found) == 1 else _merged(found)


def _merged(found: list[tuple[NDArray[np.bool_], GridAttack]]) -> GridAttack:
    """All rows in their order; cells as far as all those before them were judged."""
    size = len(found[0][0])
    unjudged = np.zeros(size, dtype=bool)
    for rows, attack in found:
        unjudged |= rows & (np.cumsum(rows) > len(attack.pinned))
    judged = int(np.argmax(unjudged)) if unjudged.any() else size
    pinned = np.empty((judged, found[0][1].pinned.shape[1]), dtype=bool)
    candidates, certain = np.empty(size, dtype=np.int64), np.empty(size, dtype=bool)
    for rows, attack in found:
        candidates[rows], certain[rows] = attack.candidates, attack.certain
        pinned[rows[:judged]] = attack.pinned[: int(rows[:judged].sum())]
    return GridAttack(candidates, certain, pinned)


def _attacked(
    published: Floats,
    options: Ints,
    agreement: Agreement,
    rounding: float,
    grid: _Grid,
    nodes: int,
    only_recovery: bool,
    every_cell: bool,
    only_whether: bool,
) -> GridAttack:
    """Attack rows by the values of a grid."""
    contributions = grid.contributions
    centre, half = _cells(published, agreement, rounding, contributions)
    columns = len(contributions)
    few_first = sorted(range(columns), key=lambda g: (len(contributions[g]), g))
    judged = len(options)
    if not (every_cell or only_whether):
        judged = max(1, min(judged, _MOST_CELLS // columns))
    stop = (2, 2) if only_recovery or only_whether else (_ENOUGH, _MOST)
    hits, exhaustive, differs = _search(grid, few_first, centre, half, options, False, stop, nodes)
    pinned = ~differs[:judged]
    one = only_whether and bool(pinned[exhaustive[:judged]].any())
    # Where the first search ended early, ask for each column left whether it can differ at all;
    # once a cell is certain, only of rows that may not be recovered after all.
    for column in [] if only_recovery else few_first if only_whether else range(columns):
        left = pinned[:, column] & ~exhaustive[:judged]
        asked = np.flatnonzero(left & (hits[:judged] <= 1) if one else left)
        if not len(asked):
            continue
        order = [column] + [g for g in few_first if g != column]
        found, every_value, other = _search(
            grid, order, centre[asked], half[asked], options[asked], True, (1, 1), nodes // 2
        )
        hits[asked] = np.maximum(hits[asked], 1 + found)
        if only_whether:
            pinned[asked, column] = found == 0
            one |= bool((every_value & (found == 0)).any())
        else:
            pinned[asked] &= ~other
    if only_whether and not one and pinned.any():
        # All hangs on searches that were cut short: the thorough way may tell more.
        how = (nodes, False, True, False)
        return _attacked(published, options, agreement, rounding, grid, *how)
    candidates = np.maximum(hits, 1)
    return GridAttack(candidates, exhaustive | (candidates > 1), pinned)


def _contributions(agreement: Agreement) -> list[Floats]:
    """Per column, what each of its values adds to the m̄ published numbers."""
    chosen = agreement.projection
    b = random_matrix(chosen.seed, chosen.dimensions, agreement.encoded, chosen.matrix)
    out: list[Floats] = []
    first = 0
    for column in agreement.columns:
        part = b[:, first : first + column.width]
        first += column.width
        values = column.options()
        if chosen.kernel == "linear":
            out.append(values @ part.T)
        else:
            out.append(((values[:, None, :] - part[None, :, :]) ** 2).sum(axis=2))
    return out


def _cells(
    published: Floats, agreement: Agreement, rounding: float, contributions: list[Floats]
) -> tuple[Floats, Floats]:
    """Middle and half width of what the published numbers say about the additive ones."""
    reach = rounding / 2.0 * (1.0 + 1e-9) + _SLACK
    if agreement.projection.kernel == "linear":
        return published, np.full(published.shape, reach)
    smallest = sum(part.min(axis=0) for part in contributions)
    largest = sum(part.max(axis=0) for part in contributions)
    width = agreement.projection.width
    low = -np.log(np.minimum(published + reach, 1.0)) / width
    with np.errstate(divide="ignore"):
        high = -np.log(np.maximum(published - reach, 0.0)) / width
    low = np.clip(low, smallest - _SLACK, largest)
    high = np.clip(high, smallest, largest + _SLACK)
    return (low + high) / 2.0, (high - low) / 2.0 + _SLACK


class _Grid:
    """What the values of each column add to the published numbers, as the search wants it."""

    def __init__(self, contributions: list[Floats]) -> None:
        self.contributions = contributions
        self._spans = [_span(part) for part in contributions]
        self._levels: dict[tuple[int, ...], tuple[Levels, Floats, list[Ints]]] = {}

    def levels(self, order: list[int]) -> tuple[Levels, Floats, list[Ints]]:
        """The columns in the order in which they are decided, their rotation, and where the
        values of each lie among all."""
        found = self._levels.get(tuple(order))
        if found is None:
            found = self._levels[tuple(order)] = self._sorted(order)
        return found

    def _sorted(self, order: list[int]) -> tuple[Levels, Floats, list[Ints]]:
        size = self.contributions[0].shape[1]
        rotation, pivot = _triangular([self._spans[g] for g in order], size)
        end = np.cumsum([len(self.contributions[g]) for g in order], dtype=np.int64)
        begin = np.concatenate(([0], end[:-1]))
        plain = np.empty((int(end[-1]), size))
        turned = np.empty_like(plain)
        places: list[Ints] = []
        for s, g in enumerate(order):
            rotated = self.contributions[g] @ rotation
            by_pivot = np.argsort(rotated[:, pivot[s]], kind="stable")
            here = slice(begin[s], end[s])
            places.append(begin[s] + np.argsort(by_pivot))
            plain[here] = self.contributions[g][by_pivot]
            turned[here] = rotated[by_pivot]
        reach = [*_remaining(turned, begin, end), *_remaining(plain, begin, end)]
        return Levels(begin, end, turned, plain, pivot, *reach), rotation, places


def _search(
    grid: _Grid,
    order: list[int],
    centre: Floats,
    half: Floats,
    options: Ints,
    avoid_truth: bool,
    stop: tuple[int, int],
    nodes: int,
) -> tuple[Ints, NDArray[np.bool_], NDArray[np.bool_]]:
    """Per row: hits, whether the search was exhaustive, and for each column whether a hit differs.

    A hit is a consistent row of the grid; it differs where it is not the truth.
    """
    levels, rotation, places = grid.levels(order)
    truth = np.empty((len(centre), len(order)), dtype=np.int64)
    for s, g in enumerate(order):
        truth[:, s] = places[s][options[:, g]]
    targets = Targets(centre @ rotation, np.ascontiguousarray(centre), half, truth)
    rows, (depth, size) = len(truth), levels.turned_low.shape
    hits, exhaustive = np.zeros(rows, dtype=np.int64), np.ones(rows, dtype=bool)
    differs, by_column = np.zeros((2, rows, depth), dtype=bool)
    rest = np.empty((2, depth + 1, size))
    room = Room(*rest, *np.empty((5, depth), dtype=np.int64), *np.empty((2, depth)))
    reach = (half**2).sum(axis=1) * (1.0 + 1e-9)
    limits = Limits(avoid_truth, *stop, nodes)
    _search_rows(levels, targets, limits, room, reach, hits, exhaustive, differs)
    by_column[:, order] = differs
    return hits, exhaustive, by_column


def _span(contributions: Floats) -> Floats:
    """Directions in which the values of a column differ."""
    spread = contributions - contributions[0]
    _, strength, directions = np.linalg.svd(spread, full_matrices=False)
    rank = int((strength > 1e-10 * max(strength[0], 1e-300)).sum())
    return directions[:rank].T


def _triangular(spans: list[Floats], size: int) -> tuple[Floats, NDArray[np.int64]]:
    """Rotation in which columns decided later touch ever fewer coordinates, and each level's own.

    The QR factorisation is taken with the columns in reverse order of decision.
    """
    later = spans[::-1]
    starts = np.cumsum([0, *(part.shape[1] for part in later[:-1])], dtype=np.int64)
    rotation, _ = np.linalg.qr(np.concatenate(later, axis=1), mode="complete")
    pivot = np.minimum(starts, size - 1)[::-1]
    return np.ascontiguousarray(rotation), np.ascontiguousarray(pivot)


def _remaining(values: Floats, begin: Ints, end: Ints) -> tuple[Floats, Floats]:
    """Least and greatest sum that the levels after each level can still contribute."""
    levels, size = len(begin), values.shape[1]
    low, high = np.zeros((levels, size)), np.zeros((levels, size))
    for s in range(levels - 2, -1, -1):
        after = values[begin[s + 1] : end[s + 1]]
        low[s] = low[s + 1] + after.min(axis=0)
        high[s] = high[s + 1] + after.max(axis=0)
    return low, high


def lattice_attack(effects: Floats, totals: Floats, expected: float) -> Ints | None:
    """Counts that agree with totals, as lattice reduction finds them; None if it finds none.

    Parameters
    ----------
    effects
        What one person of each combination adds to each total, in units of its uncertainty.
    totals
        The totals, in the same units.
    expected
        About how many people a combination has; the search starts there.

    Examples
    --------
    Three counts from one number: 7·√2 + 1·√3 + 4·√5, to six decimals.

    >>> roots = np.sqrt([[2.0], [3.0], [5.0]]) * 1e6
    >>> lattice_attack(roots, np.array([7, 1, 4]) @ roots, expected=4.0)
    array([7, 1, 4])
    """
    count = len(effects)
    start = np.rint(expected)
    # The last row is what the totals leave; a short vector with it once is the answer.
    rows = np.concatenate((effects, (start * effects.sum(axis=0) - totals)[None, :]))
    lengths = np.eye(count + 1)
    lengths[-1, -1] = max(1.0, expected)
    for move in _short_moves(rows, lengths):
        counts = move[:-1] * move[-1] + start
        fits = abs(move[-1]) == 1 and (counts >= 0).all()
        if fits and np.abs(counts @ effects - totals).max() <= 1.0:
            return np.asarray(counts, dtype=np.int64)
    return None


def equal_tables(effects: Floats, counts: Ints) -> Ints:
    """Other counts, one row each, that change every total by less than half its uncertainty.

    Parameters
    ----------
    effects
        As in `lattice_attack`.
    counts
        The true counts.

    Examples
    --------
    >>> equal_tables(np.array([[1.0], [2.0], [3.0]]), np.array([1, 1, 1])).tolist()
    [[0, 0, 2], [2, 2, 0], [3, 0, 1]]
    """
    moves = _short_moves(effects, np.eye(len(effects)))
    others = counts + np.concatenate((moves, -moves))
    unseen = np.abs((others - counts) @ effects).max(axis=1) < 0.5
    return np.asarray(others[unseen & (others >= 0).all(axis=1)], dtype=np.int64)


def _short_moves(rows: Floats, lengths: Floats) -> Floats:
    """Whole-number combinations of rows that are short and lead to little, by lattice reduction."""
    moves = np.eye(len(rows))
    digits = max(0, int(np.ceil(np.log2(np.abs(rows).max(initial=1.0)))))
    # In floating point only numbers of few digits can be reduced: rows count for little at first.
    for coarse in (*range(digits - 8, 0, -8), 0, -2):
        basis = np.concatenate((moves @ lengths, moves @ rows * 2.0**-coarse), axis=1)
        reduce_lattice(np.ascontiguousarray(basis), moves, _MOST_SWAPS)
    return moves


Array = np.ndarray[Any, Any]


class Levels(NamedTuple):
    """What each level's options contribute, and what the levels after it still can.

    Attributes
    ----------
    begin, end
        Where the options of each level lie among all options.
    turned, plain
        Contribution of each option in the rotated space, in which later columns leave more and
        more coordinates alone, and in the space of the published numbers.
    pivot
        The rotated coordinate by which the options of a level are sorted.
    turned_low, turned_high, plain_low, plain_high
        Least and greatest sum of the contributions of the levels after each level.
    """

    begin: Array
    end: Array
    turned: Array
    plain: Array
    pivot: Array
    turned_low: Array
    turned_high: Array
    plain_low: Array
    plain_high: Array


class Targets(NamedTuple):
    """The attacked rows.

    Attributes
    ----------
    turned, plain, half
        Middle of each row's rounding cell in both spaces, and half its width in the plain one.
    truth
        The true option of every level, by its place among all options.
    """

    turned: Array
    plain: Array
    half: Array
    truth: Array


class Limits(NamedTuple):
    """When the search of a row ends.

    When `enough` hits were found and every column differs from the truth in one of them, at `most`
    hits, or after so many `nodes`. With `avoid_truth` the first level must differ from the true
    value and one hit is enough: that proves the value is not certain.
    """

    avoid_truth: bool
    enough: int
    most: int
    nodes: int


class Room(NamedTuple):
    """What the search of a row writes to.

    Attributes
    ----------
    turned, plain
        What remains of the row before each level, in both spaces, and after the last.
    low, high, left, right
        Of each level's options those from low to high are within reach, and those between left
        and right were tried: from the centre outwards.
    chosen
        The option of each level that is being tried.
    centre, truly
        Where to begin at each level, and what remains at its pivot when all columns before it are
        as in truth.
    """

    turned: Array
    plain: Array
    low: Array
    high: Array
    left: Array
    right: Array
    chosen: Array
    centre: Array
    truly: Array


@partial(bare, direct=True)
def _search_rows(levels, targets, limits, room, reach, hits, exhaustive, differs):  # type: ignore[no-untyped-def]
    for row in range(hits.shape[0]):
        hits[row], exhaustive[row] = _search_row(
            levels, targets, limits, room, row, reach[row], differs
        )


@bare
def _search_row(levels, targets, limits, room, row, radius2, differs):  # type: ignore[no-untyped-def]
    """Hits of one row, whether the search was exhaustive; marks the levels in which hits differ."""
    begin, end, turned, plain, pivot = levels[:5]
    turned_low, turned_high, plain_low, plain_high = levels[5:]
    low, high, left, right, chosen, centre = room[2:8]
    truth, depth = targets.truth, begin.shape[0]
    _start(turned, pivot, targets, row, room)
    radius = math.sqrt(radius2)
    hits, nodes, missing = 0, 0, depth
    s, entering = 0, True
    while s >= 0:
        k = pivot[s]
        if entering:
            rest = room.turned[s, k]
            low[s] = _bisect(turned, k, begin[s], end[s], rest - turned_high[s, k] - radius, False)
            high[s] = _bisect(turned, k, low[s], end[s], rest - turned_low[s, k] + radius, True)
            # Near the truth first, where other answers lie; a column that differs from it is made
            # up for by the next ones.
            centre[s] = turned[truth[row, s], k] + rest - room.truly[s]
            right[s] = _bisect(turned, k, low[s], high[s], centre[s], False)
            left[s] = right[s] - 1
            entering = False
        if right[s] < high[s] and (
            left[s] < low[s] or turned[right[s], k] - centre[s] <= centre[s] - turned[left[s], k]
        ):
            pick = right[s]
            right[s] += 1
        elif left[s] >= low[s]:
            pick = left[s]
            left[s] -= 1
        else:
            s -= 1
            continue
        if limits.avoid_truth and s == 0 and pick == truth[row, 0]:
            continue
        nodes += 1
        if nodes > limits.nodes:
            return hits, False
        if not _in_cell(s, pick, plain, plain_low, plain_high, targets.half, row, room.plain):
            continue
        if _distance2(s, pick, turned, turned_low, turned_high, room.turned) > radius2 + 1e-15:
            continue
        chosen[s] = pick
        if s + 1 < depth:
            s, entering = s + 1, True
            continue
        hits += 1
        missing -= _note_differences(chosen, truth, row, differs)
        if limits.avoid_truth or (hits >= limits.enough and missing == 0) or hits >= limits.most:
            return hits, False
    return hits, True


@bare
def _start(turned, pivot, targets, row, room):  # type: ignore[no-untyped-def]
    """Begin with a row, and follow the truth: what remains at each pivot."""
    for j in range(turned.shape[1]):
        room.turned[0, j] = targets.turned[row, j]
        room.plain[0, j] = targets.plain[row, j]
    for s in range(pivot.shape[0]):
        rest = targets.turned[row, pivot[s]]
        for before in range(s):
            rest -= turned[targets.truth[row, before], pivot[s]]
        room.truly[s] = rest


@bare
def _bisect(turned, k, first, last, value, after):  # type: ignore[no-untyped-def]
    """Where a value belongs among sorted options; after equal ones on request."""
    while first < last:
        middle = (first + last) // 2
        if turned[middle, k] < value or (after and turned[middle, k] == value):
            first = middle + 1
        else:
            last = middle
    return first


@bare
def _in_cell(s, pick, plain, low, high, half, row, rest):  # type: ignore[no-untyped-def]
    """Take an option off what remains; whether later columns can explain that within the cell."""
    for j in range(half.shape[1]):
        left = rest[s, j] - plain[pick, j]
        rest[s + 1, j] = left
        if left < low[s, j] - half[row, j] or left > high[s, j] + half[row, j]:
            return False
    return True


@bare
def _distance2(s, pick, turned, low, high, rest):  # type: ignore[no-untyped-def]
    """Take an option off what remains; how far, squared, that is from what later columns reach."""
    distance2 = 0.0
    for j in range(rest.shape[1]):
        left = rest[s, j] - turned[pick, j]
        rest[s + 1, j] = left
        beyond = max(low[s, j] - left, left - high[s, j], 0.0)
        distance2 += beyond * beyond
    return distance2


@bare
def _note_differences(chosen, truth, row, differs):  # type: ignore[no-untyped-def]
    """Mark the levels in which a hit is not the truth; returns how many are new."""
    new = 0
    for s in range(truth.shape[1]):
        if not differs[row, s] and chosen[s] != truth[row, s]:
            differs[row, s] = True
            new += 1
    return new


@compiled
def reduce_lattice(basis, moves, most):  # type: ignore[no-untyped-def]
    """Lenstra, Lenstra & Lovász's reduction of the rows of `basis`, in place, in floating point.

    The same is done to the rows of `moves`, which keeps them exact if they are whole numbers. Ends
    after `most` steps at the latest; returns how many it took.
    """
    count = basis.shape[0]
    mu = np.zeros((count, count))
    norms = np.zeros(count)
    norms[0] = basis[0] @ basis[0]
    k, steps = 1, 0
    while k < count and steps < most:
        steps += 1
        for _ in range(20):  # until rounding moves nothing: then the coefficients are accurate
            moved = False
            for j in range(k):
                dot = basis[k] @ basis[j]
                for i in range(j):
                    dot -= mu[j, i] * mu[k, i] * norms[i]
                mu[k, j] = dot / norms[j]
            for j in range(k - 1, -1, -1):
                if abs(mu[k, j]) > 0.51:
                    times = np.rint(mu[k, j])
                    moved = True
                    basis[k] -= times * basis[j]
                    moves[k] -= times * moves[j]
                    for i in range(j):
                        mu[k, i] -= times * mu[j, i]
                    mu[k, j] -= times
            if not moved:
                break
        norms[k] = basis[k] @ basis[k]
        for j in range(k):
            norms[k] -= mu[k, j] * mu[k, j] * norms[j]
        norms[k] = max(norms[k], 1e-12)
        if norms[k] < (0.99 - mu[k, k - 1] * mu[k, k - 1]) * norms[k - 1]:
            held, moved_too = basis[k].copy(), moves[k].copy()
            basis[k], moves[k] = basis[k - 1], moves[k - 1]
            basis[k - 1], moves[k - 1] = held, moved_too
            # Both rows are computed again.
            norms[k - 1] = basis[k - 1] @ basis[k - 1]
            for j in range(k - 1):
                mu[k - 1, j], mu[k, j] = mu[k, j], mu[k - 1, j]
                norms[k - 1] -= mu[k - 1, j] * mu[k - 1, j] * norms[j]
            k = max(k - 1, 1)
        else:
            k += 1
    return steps
