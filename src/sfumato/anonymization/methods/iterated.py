"""Iterated global recoding: the cheapest node that has company for somebody, again and again.

Of all nodes of the lattice of levels the one is looked for at which the rows that are left lose
least and enough of them find company. Those become groups, and the others go on. So does ARX's
local recoding, which searches the whole lattice for each of its steps. Here little of it is looked
at, and the steps are the same: a node that has company for nobody has none for fewer rows either,
and neither has any finer one (unless rules compare classes with all rows). So what was ruled out
stays ruled out, and one look at a coarse node rules out many. What entries look like at a node is
the sum of two numbers, each of half of the columns, which many nodes share.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sfumato.anonymization.methods.lattice import lattice_of, least_rows, levels_of
from sfumato.anonymization.problem import Blocks, Problem
from sfumato.budget import Clock
from sfumato.hierarchy.tree import Array
from sfumato.kernels.compiling import bare, compiled
from sfumato.privacy.rules import COMPARED, DISTINCT, Rules, holds

MOST_NODES = 1 << 17
"""Nodes of a lattice; of a larger one some levels are left out."""
TALLIED = 1 << 24
"""Entries times sensitive values up to which classes are tallied."""
KEPT = 1 << 21
"""Numbers of entries and levels of half of the columns that are kept."""
BITS = 64
"""Sensitive values up to which it is a bit each which of them a class holds."""
TIED = 1e-7
"""Nodes that lose the same differ by less than this: the one with the lower number is chosen."""
WORK, LOOKS, FIRST_LOOKS = 1 << 23, 4, 16
"""Entries looked at before somebody asks how much time is left, at most; how often that is asked,
about; and nodes looked at before it is known how long an entry takes."""
HURRIES, LEAST_STEPS, LATE = ((0.2, 16), (0.08, 4), (0.03, 1)), 16, 0.02
"""When less than such a share of the time is left, so many ways upwards are tried for a step; and
steps of the rest of an iteration that has to hurry, about. It ends even so if it is later than by
as long as it should take, and by so many seconds."""
EMPTY, SHORT, CROWDED, FAILED = 1, 2, 4, 8
"""What is known of a node: nobody has company there; too few have; somebody has at least k rows of
company; and it was looked at, and those fail another rule."""
OUT = EMPTY | SHORT | FAILED
MANY, ROWS, GROUPS, CHOSEN, FRESH, QUEUED, STAMP, FOUND, AGAIN, LOOKED, WAYS = range(11)
"""Places of `_Way.state`: entries and rows that are left, groups made, the best node so far,
whether what nodes lose is known, nodes that may be better; the hash table's current mark, and how
many classes were made; how many groups there were when nodes that failed were last looked at again;
entries looked at; and ways upwards that were tried for this step."""


class Iteration:
    """Groups of a problem's entries, made in steps; what is known of them need not be looked up."""

    def __init__(
        self, problem: Problem, blocks: Blocks, known: tuple[Array, Array] | None = None
    ) -> None:
        levels, prices = levels_of(problem, MOST_NODES)
        self.problem, self.order = problem, blocks.order
        self.heights = np.array([len(column) for column in levels])
        self.sizes = np.array([len(column[0]) for column in levels])
        self.strides = np.append(np.cumprod(self.heights[:0:-1])[::-1], 1)
        self.levels = np.indices(self.heights.tolist(), np.uint8).reshape(len(levels), -1).T.copy()
        random = np.random.default_rng(problem.seed)
        self.lattice = lattice_of(problem, blocks, levels, prices, random, known)
        rules = problem.rules
        self.monotone = bool((rules.kinds == DISTINCT).all())
        plain = self.monotone and rules.mapped < 0 and not rules.extras.any()
        self.bits = plain and len(rules.kinds) > 0 and rules.offsets[-1] <= BITS
        self.values = int(rules.offsets[-1]) if len(rules.kinds) and not self.bits else 0

    @staticmethod
    def possible(problem: Problem) -> bool:
        """Whether rules are such that what classes hold can be summed, and there is room for it."""
        rules = problem.rules
        room = problem.entries.entries * int(rules.offsets[-1]) <= TALLIED
        return rules.people < 0 and room and 1 << len(problem.qi) <= MOST_NODES

    def groups(
        self,
        least: int,
        seconds: float,
        charges: Array,
        *,
        monotone: bool = False,
        strict: float = 1.0,
        rules: Rules | None = None,
    ) -> Array:
        """Group of every entry that finds company, -1 of the others.

        Parameters
        ----------
        least
            Rows that are released in a step at least; the last takes all that are left.
        seconds
            How long it may take, about. When much of that is gone, steps release more rows, and
            are no longer the best there are.
        charges
            How dear it is to lose something on each column.
        monotone
            Whether what fails the rules is taken to fail them on finer levels, too, and with fewer
            rows, even where it need not. So much less is looked at.
        strict
            Share of what classes may differ from all rows that is allowed.
        rules
            The rules, where they compare with other rows than all.
        """
        problem, way = self.problem, self._begun()
        prices = self.lattice.prices * np.repeat(charges, self.heights * self.sizes)
        lattice = self.lattice._replace(prices=prices)
        asked = rules or problem.rules
        allowed = np.where(np.isin(asked.kinds, COMPARED), strict * asked.values, asked.values)
        rules = asked._replace(k=least_rows(asked), values=allowed)
        groups = np.full(len(lattice.table), -1, np.int64)
        start, paths, rows = Clock.now(), 1 << 62, int(way.state[ROWS])
        monotone = monotone or self.monotone
        whole = problem.budget.unhurried()  # when time is over, the rest is released in a hurry
        while True:
            left, rest = int(way.state[MANY]), start + seconds - (now := Clock.now())
            # as long as entries took here so far, whatever else is going on on this machine
            pace = (now - start) / max(int(way.state[LOOKED]), 1)
            entries = rest / pace if pace else 0.0
            for share, most in HURRIES if seconds < math.inf else ():
                if rest < share * seconds:
                    paths, steps = most, max(entries / (most * (left + 1)), LEAST_STEPS)
                    least = max(least, math.ceil(int(way.state[ROWS]) / steps))
            known = entries / LOOKS if way.state[LOOKED] else 0.0
            work = int(min(WORK, max(known, FIRST_LOOKS * left)))
            if _iterate(lattice, way, rules, least, monotone, paths, work, groups):
                break
            problem.budget.progress("recoding what is left", 1 - int(way.state[ROWS]) / rows)
            if rest < -max(seconds, LATE) or whole.spent():
                break
        return groups

    def _begun(self) -> _Way:
        many, nodes, lattice = len(self.order), len(self.levels), self.lattice
        strides, begins = self.strides, np.cumsum(self.sizes) - self.sizes
        weights, held = lattice.weights[self.order], np.zeros(int(self.sizes.sum()))
        half = int(np.argmin(np.maximum(nodes // strides, strides)))
        room = max(1, KEPT // max(many, 1))
        parts = [min(room, int(part)) for part in (nodes // strides[half], strides[half])]
        slots = 16
        while slots < 2 * many:
            slots *= 2
        return _Way(
            order=self.order.astype(np.int64),
            left=np.arange(many),
            weights=weights.astype(np.int64),
            own=self._own_bits(),
            state=np.array([many, int(weights.sum()), 0, -1, 0, 0, 0, 0, 0, 0, 0]),
            best=np.array([np.inf]),
            heights=self.heights,
            strides=strides,
            levels=self.levels,
            flags=np.zeros(nodes, np.uint8),
            bound=np.empty(nodes),
            queue=np.empty(nodes, np.int32),
            stack=np.empty(nodes, np.int32),
            path=np.empty(int(self.heights.sum()), np.int64),
            held=held,
            begins=np.append(begins, len(held)),
            lost=np.empty(int(self.heights.max())),
            half=np.array([half + 1]),
            owners=np.full((2, max(parts)), -1),
            first=np.empty((parts[0], many), np.uint64),
            second=np.empty((parts[1], many), np.uint64),
            rows=np.empty(many, np.int64),
            bits=np.empty(many if self.bits else 0, np.uint64),
            tallies=np.empty((many if self.values else 0, self.values), np.int32),
            keys=np.empty(slots, np.uint64),
            good=np.empty(many, np.bool_),
            name=np.empty(many, np.int64),
            number=np.empty(many, np.int32),
            slots=np.zeros(slots, np.int64),
        )

    def _own_bits(self) -> Array:
        """Which sensitive values each entry has, a bit each."""
        if not self.bits:
            return np.zeros(0, np.uint64)
        values = self.lattice.sensitive[self.order].astype(np.uint64)
        bits: Array = np.bitwise_or.reduce(np.uint64(1) << values, axis=1)
        return bits


class _Way(NamedTuple):
    """How far an iteration is.

    Attributes
    ----------
    order, left, weights, own
        The entries, and places there of those that are left; the rows of each, and its sensitive
        values as bits.
    state, best
        Numbers, see their names; and what the rows that are left lose at the best node.
    heights, strides, levels
        Levels of each column, how far nodes are apart that differ by one, and those of each node.
    flags, bound, queue
        What is known of each node, what all that is left would lose there, and which may be best.
    stack, path
        Room for nodes, and for those on a way upwards.
    held, begins, lost
        Rows left that have each value, where those of a column begin, and what levels lose.
    half, owners, first, second
        How many columns are the first half; which levels of each half are kept, and what the
        entries look like there.
    rows, bits, tallies
        Of the classes of a node: their rows, and which sensitive values they hold; or how many of
        each, of those that have enough rows.
    good, name, number
        Whether these classes hold, and their group, or place among those that have enough rows; and
        the class of each entry that is left.
    keys, slots
        A hash table of classes.
    """

    order: Array
    left: Array
    weights: Array
    own: Array
    state: Array
    best: Array
    heights: Array
    strides: Array
    levels: Array
    flags: Array
    bound: Array
    queue: Array
    stack: Array
    path: Array
    held: Array
    begins: Array
    lost: Array
    half: Array
    owners: Array
    first: Array
    second: Array
    rows: Array
    bits: Array
    tallies: Array
    keys: Array
    good: Array
    name: Array
    number: Array
    slots: Array


@bare
def _count_values(lattice, way):  # type: ignore[no-untyped-def]
    """Count the rows that have each value, before any of them goes."""
    table, held, begins, order = lattice.table, way.held, way.begins, way.order
    for i in range(way.state[MANY]):
        for axis in range(table.shape[1]):
            held[begins[axis] + table[order[i], axis]] += way.weights[i]


@bare
def _price_nodes(lattice, way):  # type: ignore[no-untyped-def]
    """Sum up what all rows that are left lose at each node."""
    prices, starts, bound, held, lost = (
        lattice.prices, lattice.starts, way.bound, way.held, way.lost
    )  # fmt: skip
    begins, strides, apart = way.begins, way.strides, TIED / way.bound.shape[0]
    bound[0] = 0.0
    for axis in range(way.heights.shape[0] - 1, -1, -1):
        height, stride, begin = way.heights[axis], strides[axis], begins[axis]
        for level in range(height):
            total, at = 0.0, starts[axis, level]
            for position in range(begins[axis + 1] - begin):
                total += held[begin + position] * prices[at + position]
            lost[level] = total + apart * (level * stride)
        for level in range(height - 1, -1, -1):
            for node in range(stride):
                bound[level * stride + node] = bound[node] + lost[level]


@bare
def _tag(way, node, mark, step):  # type: ignore[no-untyped-def]
    """Mark a node and all that are finer (a step of -1) or coarser (1)."""
    flags, stack, levels, heights, strides = (
        way.flags, way.stack, way.levels, way.heights, way.strides
    )  # fmt: skip
    flags[node] |= mark
    stack[0], many = node, 1
    while many:
        many -= 1
        here = stack[many]
        for axis in range(heights.shape[0]):
            level = levels[here, axis] + step
            if 0 <= level < heights[axis]:
                there = here + step * strides[axis]
                if not flags[there] & mark:
                    flags[there] |= mark
                    stack[many] = there
                    many += 1


@bare
def _varied(bits, rules):  # type: ignore[no-untyped-def]
    """Whether a class that holds these values holds enough different ones."""
    for rule in range(rules.kinds.shape[0]):
        column, many = rules.columns[rule], np.int64(0)
        first = rules.offsets[column]
        rest = bits >> np.uint64(first)
        for _ in range(rules.offsets[column + 1] - rules.missing[column] - first):
            many += np.int64(rest & np.uint64(1))
            rest >>= np.uint64(1)
        if many < rules.values[rule]:
            return False
    return True


@bare
def _part(lattice, way, node, low, high, owners, kept):  # type: ignore[no-untyped-def]
    """Where it is kept what entries look like at a node on some columns; found out, if need be."""
    table, marks, starts, levels = lattice.table, lattice.marks, lattice.starts, way.levels
    left, order, strides = way.left, way.order, way.strides
    whole = strides[low - 1] if low else way.flags.shape[0]
    choice = (node % whole) // strides[high - 1]
    place = choice % kept.shape[0]
    if owners[place] != choice:
        owners[place] = choice
        for i in range(way.state[MANY]):
            entry, key = order[left[i]], np.uint64(0)
            if low == 0:
                key = lattice.base[entry]
            for axis in range(low, high):
                key += marks[starts[axis, levels[node, axis]] + table[entry, axis]]
            kept[place, left[i]] = key
    return place


@bare
def _judged(lattice, way, large, rules):  # type: ignore[no-untyped-def]
    """Tally the classes that have enough rows, and say which hold; how many rows these have."""
    sensitive, weights, tallies, order = lattice.sensitive, way.weights, way.tallies, way.order
    rows, name, good, number, left = way.rows, way.name, way.good, way.number, way.left
    released = np.int64(0)
    for c in range(large):
        for value in range(tallies.shape[1]):
            tallies[c, value] = 0
    for i in range(way.state[MANY]):
        c = number[i]
        if rows[c] >= rules.k:
            at = left[i]
            for s in range(sensitive.shape[1]):
                tallies[name[c], sensitive[order[at], s]] += weights[at]
    for c in range(way.state[FOUND]):
        good[c] = rows[c] >= rules.k and holds(rows[c], tallies[name[c]], rules)
        if good[c]:
            released += rows[c]
    return released


@bare
def _classes(lattice, way, node, rules, enough):  # type: ignore[no-untyped-def]
    """Make the classes of a node; rows of those that hold, and whether any has k rows.

    It may end as soon as `enough` rows hold.
    """
    weights, own, left, state, number = way.weights, way.own, way.left, way.state, way.number
    rows, bits, name, good = way.rows, way.bits, way.name, way.good
    keys, slots, mask = way.keys, way.slots, 16
    half, axes, many, k = way.half[0], way.heights.shape[0], state[MANY], rules.k
    by_bit, by_tally = bits.shape[0] > 0, way.tallies.shape[0] > 0
    ones = way.first[_part(lattice, way, node, 0, half, way.owners[0], way.first)]
    others = way.second[_part(lattice, way, node, half, axes, way.owners[1], way.second)]
    while mask < 2 * many:
        mask *= 2
    mask -= 1
    state[STAMP] += 1
    stamp, found, released, large = state[STAMP] << 32, 0, np.int64(0), 0
    state[LOOKED] += many
    for i in range(many):
        at = left[i]
        key = ones[at] + others[at]
        place = np.int64(key >> np.uint64(20)) & mask
        while slots[place] >= stamp and keys[place] != key:
            place = (place + 1) & mask
        c = slots[place] - stamp
        if c < 0:
            c = found
            found += 1
            slots[place], keys[place], rows[c] = stamp + c, key, 0
            if by_bit:
                bits[c], good[c] = np.uint64(0), False
        number[i] = c
        more = weights[at]
        now = rows[c] + more
        rows[c] = now
        if by_bit:
            bits[c] |= own[at]
        if now < k:
            continue
        if by_tally:
            if now - more < k:
                name[c] = large
                large += 1
        elif by_bit and not good[c]:
            if _varied(bits[c], rules):
                good[c] = True
                released += now
        else:
            released += now if now - more < k and not by_bit else more
        if released >= enough:
            state[LOOKED] -= many - i
            break
    state[FOUND] = found
    if by_tally and large:
        released = _judged(lattice, way, large, rules)
    return released, large > 0 or released > 0


@bare
def _release(lattice, way, node, rules, groups):  # type: ignore[no-untyped-def]
    """Let the classes of a node that hold be groups; the other entries stay."""
    table, held, begins, state, left = lattice.table, way.held, way.begins, way.state, way.left
    good, name, number, order, kept = way.good, way.name, way.number, way.order, 0
    released, _ = _classes(lattice, way, node, rules, state[ROWS] + 1)
    for c in range(state[FOUND]):
        if way.bits.shape[0] == 0 and way.tallies.shape[0] == 0:
            good[c] = way.rows[c] >= rules.k
        name[c] = state[GROUPS]
        state[GROUPS] += np.int64(good[c])
    for i in range(state[MANY]):
        entry, c = order[left[i]], number[i]
        if good[c]:
            groups[entry] = name[c]
            for axis in range(table.shape[1]):
                held[begins[axis] + table[entry, axis]] -= lattice.weights[entry]
        else:
            left[kept] = left[i]
            kept += 1
    state[MANY], state[ROWS] = kept, state[ROWS] - released
    state[CHOSEN], state[FRESH] = -1, 0
    way.best[0] = np.inf


@bare
def _refresh(lattice, way, least):  # type: ignore[no-untyped-def]
    """Look anew what nodes lose, after rows went; all that are not ruled out may be best."""
    flags, state, queued = way.flags, way.state, 0
    _price_nodes(lattice, way)
    for node in range(flags.shape[0]):
        if state[ROWS] < least:  # from now on all that are left are enough
            flags[node] &= ~SHORT
        if not flags[node] & OUT:
            way.queue[queued] = node
            queued += 1
    state[QUEUED], state[FRESH] = queued, 1


@bare
def _cheapest(way):  # type: ignore[no-untyped-def]
    """The node that would lose least of those that may be better than the best; -1 if none may."""
    flags, bound, queue, state, best = way.flags, way.bound, way.queue, way.state, way.best[0]
    found, least, queued = np.int64(-1), best, 0
    for i in range(state[QUEUED]):
        node = queue[i]
        if bound[node] < best and not flags[node] & OUT:
            queue[queued] = node
            queued += 1
            if bound[node] < least:
                found, least = np.int64(node), bound[node]
    state[QUEUED] = queued
    return found


@bare
def _climb(way, node, passed):  # type: ignore[no-untyped-def]
    """Nodes on a way upwards that may be better than the best, none of them `passed`; how many."""
    heights, bound, path, length = way.heights, way.bound, way.path, 0
    levels, strides, flags, best = way.levels, way.strides, way.flags, way.best[0]
    while node >= 0:
        path[length] = node
        length += 1
        there, least = -1, best
        for axis in range(heights.shape[0]):
            if levels[node, axis] + 1 < heights[axis]:
                above = node + strides[axis]
                if bound[above] < least and not flags[above] & passed:
                    there, least = above, bound[above]
        node = there
    return length


@compiled(most=0, direct=True)
def _iterate(lattice, way, rules, least, monotone, paths, work, groups):  # type: ignore[no-untyped-def]
    """Go on until so many entries were looked at; whether it came to its end.

    Parameters
    ----------
    monotone
        Whether who has no company has none among fewer rows, and none on finer levels.
    paths
        Ways upwards that are tried for a step, if one of them leads to a node.
    """
    state, flags, path = way.state, way.flags, way.path
    work += state[LOOKED]
    if not state[STAMP]:
        _count_values(lattice, way)
    while state[LOOKED] < work:
        if state[ROWS] < rules.k:
            return True
        if not state[FRESH]:
            _refresh(lattice, way, least)
        wanted, node = min(least, state[ROWS]), _cheapest(way)
        if node < 0 or (state[WAYS] >= paths and state[CHOSEN] >= 0):
            node, state[WAYS] = state[CHOSEN], 0
            if node >= 0:
                _release(lattice, way, node, rules, groups)
                if monotone:
                    _tag(way, node, EMPTY, -1)
                else:
                    flags[node] |= FAILED
            elif state[GROUPS] > state[AGAIN]:  # of fewer rows some may hold now
                for one in range(flags.shape[0]):
                    flags[one] &= ~FAILED
                state[AGAIN], state[FRESH] = state[GROUPS], 0
            else:
                return True
            continue
        low, high, known, hasty = 0, 0, way.best[0] < np.inf, state[WAYS] >= paths
        state[WAYS] += 1
        if not flags[node] & CROWDED or hasty:
            high = _climb(way, node, OUT if hasty else OUT | CROWDED) - 1
        path[0] = node
        while low <= high:
            middle = high if known else (low + high) // 2
            node, known = path[middle], False
            released, company = _classes(lattice, way, node, rules, wanted)
            if company and not monotone:
                _tag(way, node, CROWDED, 1)
            if released >= wanted:
                if way.bound[node] < way.best[0]:
                    way.best[0], state[CHOSEN] = way.bound[node], node
                high = middle - 1
                continue
            if monotone or not company:
                _tag(way, node, SHORT if released else EMPTY, -1)
            else:
                flags[node] |= FAILED
            if monotone or not company or hasty:
                low = middle + 1
            else:
                high = middle - 1
    return False
