"""Annealing: improve a grouping by steps that now and then lose, less and less often.

What a class shows is fixed while it has its pieces, so that classes that show the same are one, and
what one of them can spare all of them can. The work is done in parts of a table that are small
enough for an index of all classes; a class that reaches beyond a part stays as it is until the
parts are cut differently.

A step founds a class around a piece with pieces near it, or lets a piece go elsewhere, or closes a
class. Classes that are too small then take pieces that others can spare, or are closed in turn.
Steps that lose something are kept now and then, the less often the later it is (simulated
annealing, Kirkpatrick, Gelatt & Vecchi 1983). No step that is kept leaves a class that fails its
rules.

Where groups are large, nobody finds k rows for a new class among the neighbours of one. There the
class comes first (`sketch`): what the class of a piece shows is narrowed on some columns and
widened on others. Whoever it covers and loses less there is gathered from the classes that can
spare them, or that are better closed for it (`gather`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from sfumato.anonymization.methods.mondrian import coarse_partition
from sfumato.anonymization.methods.moves import (
    AFTER,
    CHANGES,
    ENDLESS,
    ENTRY,
    HEAD,
    HOME,
    JOINED,
    LARGE,
    LEAST,
    LEFT,
    MOST,
    MOVES,
    OPEN,
    REACH,
    ROWS,
    SIZE,
    STEP,
    TOUCHED,
    Company,
    Search,
    State,
    World,
    begin_step,
    cheapest_cover,
    close_class,
    draw,
    founders,
    keep,
    move,
    open_class,
    populate,
    settle,
    span,
    spare_piece,
    take_back,
    tighten,
    undo,
)
from sfumato.anonymization.methods.pricing import (
    FEWEST,
    FIRST,
    KIND,
    LAST,
    LEAF,
    PARENT,
    SET,
    SLOT,
    TREE,
    WORD,
    covers,
    entries_that_fit,
    group_loss,
    grow,
    memories_of,
    nearest_entries,
)
from sfumato.anonymization.problem import Blocks, Problem
from sfumato.budget import Budget, each
from sfumato.hierarchy.tree import Array
from sfumato.kernels.compiling import bare
from sfumato.privacy.rules import (
    Rules,
    clear,
    compares,
    enough,
    holds,
    recounted,
    take_in,
)

PART = 12_000
"""Least number of entries of a part; twice as many are not cut."""
NEAR = (12_000, 1_000)
"""Least number of entries of a part within which neighbours are looked for; in a brief search."""
NEIGHBOURS = (40, 12)
"""Entries that are near an entry, for groups of five and more rows; in a brief search."""
LOOKING = 0.5
"""Most of the time left in which neighbours are looked for."""
PASSES = 24
"""How often each piece has its turn."""
HOT, COLD = 0.15, 0.05
"""Heat of the first and of the last turn, in units."""
WARM = 6.0
"""Rows of a group from which on heat grows with them: a step moves as many."""
UNIT = 2.5
"""How many times the average row an expensive row loses: the unit of what the search weighs."""
INDEX_ROWS = 128
"""Most rows of the index for one axis."""
CLOSE, JOIN = 0.03, 0.3
"""Share of the steps that close a class, and of those that move a single piece."""
OPENED = 2 / 3
"""Share of the passes after which more rows are left out, where they may be: while it is hot, rows
would go that nobody takes back."""
HARM, NOISE = 0.5, 0.5
"""Most that a piece is thought to be missed in a class that is just large enough, and most by
which its loss is misjudged, so that other founders are chosen the next time. In units."""
GATHER = 0.05
"""Share of the steps in which a class is drawn before its rows, where k is small."""
FEW = 24
"""Rows of a group up to which those near a piece are asked; for larger ones, all it covers."""
TALLIED = 8_000_000
"""Classes times sensitive values up to which all are tallied while pieces move."""
ASKED, ASKS = (16, 256), 4
"""Steps after which a search with a time limit asks whether there is time left, at least, as at
first, and at most; and how often it asks that in the time left, about, at the pace of its steps."""
CLEARED = 400
"""Rows up to which a class that fails its rules is cleared; above, the step is given up."""
STEP_WORK = 64
"""How much longer a step takes than going past an entry."""
SLACK = 2.0
"""Repair goes on while the loss has grown by no more units than this beyond what may be kept."""


def improve(search: Search, seed: int, passes: int = PASSES) -> None:
    """Anneal all parts of a grouping once, several at a time.

    With few passes the beginning is not hot: they repair what is there. No class is of two parts,
    so that what is found in one of them does not depend on the others.
    """
    budget = search.problem.budget
    cut = _parts(
        search.problem, search.blocks, seed, entries_that_fit(search.problem, search.prices)
    )
    begun = itertools.count()

    def improved(blocks: Blocks) -> tuple[Array, Array] | None:
        done = next(begun)
        if done and budget.spent():
            return None
        budget.progress(f"improving, {done} of {len(cut)} parts", done / len(cut))
        return _Part(search, blocks, seed, brief=passes == 1).improved(passes)

    steps = STEP_WORK * passes * len(search.entry)
    for part in each(improved, cut, steps, budget.threads):
        if part is not None:
            chosen, groups = part
            base = int(search.groups.max(initial=-1)) + 1
            search.groups[chosen] = np.where(groups < 0, -1, groups + base)


def _parts(problem: Problem, blocks: Blocks, seed: int, fit: float = np.inf) -> list[Blocks]:
    """Cut the blocks into parts that are searched one after the other."""
    least = PART * max(problem.rules.k, FEW) // FEW  # large groups are few, and reach far
    least = int(max(FEWEST, min(least, fit / 2)))
    if len(blocks.order) <= 2 * least:
        return [blocks] if len(blocks.order) else []
    cut = coarse_partition(problem, blocks, least, seed)
    found, begin = [], 0
    for end in range(1, cut.count + 1):
        low, high = cut.starts[begin], cut.starts[end]
        if high - low >= least or end == cut.count:  # small blocks share a part
            found.append(Blocks(cut.order[low:high], cut.starts[begin : end + 1] - low))
            begin = end
    return found


def _until_asked(budget: Budget, pace: float) -> int:
    """How many steps follow before somebody asks for the time, if each takes so many seconds.

    In large classes it may be a thousand times as many as in small ones.
    """
    if budget.seconds is None:
        return 1 << 62
    known = budget.remaining / (ASKS * pace) if pace else math.inf
    return int(min(max(ASKED[0], known), ASKED[1]))


class _Part:
    """A part of a grouping, ready to be annealed.

    Parameters
    ----------
    search
        The grouping of the whole table.
    blocks
        Entries of the part, block by block.
    brief
        Whether so little time is given to it that fewer neighbours are looked for, and not as far.
    """

    def __init__(self, search: Search, blocks: Blocks, seed: int, *, brief: bool) -> None:
        self.search = search
        self.random = np.random.default_rng(seed)
        entries = np.sort(blocks.order)
        number = np.full(len(search.table), -1, dtype=np.int64)
        number[entries] = np.arange(len(entries))
        inside = number[search.entry] >= 0
        named = search.groups + 1  # 0 is left out, here and elsewhere
        reaching_out = np.bincount(named[~inside], minlength=named.max(initial=0) + 1) > 0
        reaching_out[0] = False
        self._choose(np.flatnonzero(inside & ~reaching_out[named]))
        self.most = self._most()
        if not self.most:
            self._choose(self.chosen[self.groups >= 0])
        self.entry: Array = number[search.entry[self.chosen]]
        self.rules, self.totals = search.problem.rules, np.zeros(0, dtype=np.int64)
        left = np.flatnonzero(search.groups < 0)
        if compares(self.rules) and (self.most or len(left)):
            self.totals = rows_of_values(search.sensitive, search.problem.counts, self.rules)
            gone = rows_of_values(
                search.sensitive[search.entry[left]], search.rows[left], self.rules
            )
            self.rules = recounted(self.rules, self.totals - gone)
        k = search.problem.rules.k
        # large classes find who they cover by themselves
        wish = min(8 * k, NEIGHBOURS[brief]) if k <= FEW else (0 if brief else REACH)
        table = search.table[entries]
        near: Array | None = np.empty((len(entries), 0), dtype=np.int32)
        if wish:
            close = coarse_partition(search.problem, blocks, NEAR[brief], seed)
            near = search.nearby.get(asked := (close.order.tobytes(), close.starts.tobytes(), wish))
        if near is None:
            near = np.full((len(entries), wish), -1, dtype=np.int32)
            given = (table, number[close.order], close.starts, search.prices, near)
            nearest_entries(*given, search.problem.budget.part(LOOKING))
            search.nearby.clear()
            search.nearby[asked] = near
        block = np.empty(len(entries), dtype=np.int64)
        block[number[blocks.order]] = np.repeat(np.arange(blocks.count), np.diff(blocks.starts))
        starts, index_row = _index_rows(search.problem)
        first = np.concatenate([[0], np.cumsum(np.bincount(self.entry, minlength=len(entries)))])
        self.world = World(
            table,
            search.sensitive[entries],
            block,
            first,
            near,
            starts,
            index_row,
            *_along(table, starts),
            _lookup(table, starts, index_row),
            *search.prices,
        )
        # what classes that were never open are in the index with: few look there
        shown = (self.world.head, self.world.ints, table)
        self.alone = memories_of(*shown, *np.zeros((2, 1), np.int64), 1)

    def _choose(self, pieces: Array) -> None:
        self.chosen = pieces
        self.rows: Array = self.search.rows[pieces]
        self.groups: Array = self.search.groups[pieces]

    def _most(self) -> int:
        """Rows that may be left out of this part: those that are, and its share of what is left.

        Where rules compare with what is released, all of it must be at hand.
        """
        search, own = self.search, int(self.rows.sum())
        rules = search.problem.rules
        if compares(rules):
            tallied = (128 + 2 * own // rules.k) * int(rules.offsets[-1]) <= TALLIED
            if not tallied or len(self.chosen) < len(search.entry):
                return 0
        room = max(search.most - search.left_out, 0)
        return int(self.rows[self.groups < 0].sum()) + room * own // max(int(search.rows.sum()), 1)

    def improved(self, passes: int) -> tuple[Array, Array] | None:
        """Pieces of the part and their new groups; None if nothing was gained.

        Stops early when the time is over or nothing can be gained.
        """
        budget = self.search.problem.budget
        best, best_groups, total = 0.0, self.groups, 0.0
        for gained in self._passes(passes):
            total += gained
            if total > best:
                best, best_groups = total, self.groups
            if budget.spent():
                break
        return (self.chosen, best_groups) if best > 0.0 else None

    def _passes(self, passes: int) -> Iterator[float]:
        """Anneal pass by pass; what each gained."""
        problem = self.search.problem
        pieces = len(self.entry)
        company = self._company()
        counts = np.zeros(int(problem.rules.offsets[-1]), dtype=np.int64)
        hot = min(HOT, COLD * passes)
        cooling = (COLD / hot) ** (1 / max(passes * pieces, 1))
        unit, pace = 0.0, math.inf
        for turn in range(passes):
            now, loss = self._state(opened=turn >= OPENED * passes)
            unit = unit or UNIT * loss / max(int(self.rows.sum()), 1)
            if unit == 0.0:
                return
            heat = hot * cooling ** (turn * pieces) * max(problem.rules.k / WARM, 1.0)
            turns, gained = self.random.permutation(pieces), 0.0
            at, begun = 0, problem.budget.elapsed
            while at < pieces and not (at and problem.budget.spent()):
                some = _until_asked(problem.budget, pace)
                given = (self.world, now, company, self.rules, counts, turns[at : at + some])
                gained += _anneal(*given, unit, heat * cooling**at, cooling)
                at += some
                pace = (problem.budget.elapsed - begun) / min(at, pieces)
            homes = now.pieces[:, HOME]
            left = (homes == len(now.classes) - 1) & (now.count[MOST] > 0)
            self.groups = np.where(left, -1, homes)
            yield gained

    def _state(self, *, opened: bool) -> tuple[Any, float]:
        """The grouping as the compiled search wants it, and its loss.

        Groups that show the same become one class. Unless it is `opened`, no more rows are left
        out than are.
        """
        rules, world = self.search.problem.rules, self.world
        most = self.most if opened else int(self.rows[self.groups < 0].sum())
        kept = np.flatnonzero(self.groups >= 0)
        _, groups = np.unique(self.groups[kept], return_inverse=True)
        many = int(groups.max(initial=-1)) + 1
        shown = (world.head, world.ints, world.table)
        memories = memories_of(*shown, self.entry[kept], groups, many)
        block = np.zeros(many, dtype=np.int64)
        block[groups] = world.block[self.entry[kept]]
        memories, same = np.unique(np.c_[memories, block], axis=0, return_inverse=True)
        groups, many = same.reshape(-1)[groups].astype(np.int64), len(memories)
        room = 64 * (2 + (many + many // 16) // 64)
        slots = memories.shape[1] - 1
        never_open = np.repeat(self.alone, room + 1 - many, 0)
        pieces = np.full((len(self.entry), 5), -1, dtype=np.int64)
        pieces[:, 0], pieces[:, 1] = self.entry, self.rows
        book = 512 + 16 * rules.k + len(self.entry)
        now = State(
            pieces=pieces,
            classes=np.zeros((room, 9), dtype=np.int64),
            memories=np.concatenate([memories[:, :slots], never_open]),
            costs=np.zeros(room),
            bits=np.zeros((int(world.index_row.max(initial=0)) + 1, room // 64), dtype=np.uint64),
            free=np.zeros(room, dtype=np.int64),
            count=np.zeros(6, dtype=np.int64),
            change=np.zeros(1),
            moved=np.zeros((book, 2), dtype=np.int64),
            changed=np.zeros((room, 2), dtype=np.int64),
            saved=np.zeros((room, slots), dtype=np.int64),
            saved_costs=np.zeros(room),
            chance=self.random.integers(1, 2**63, size=1, dtype=np.uint64),
            inside=np.zeros(len(world.table), dtype=np.int64),
            donors=np.zeros(room, dtype=np.int64),
            tallies=np.zeros(self._tallied(room), dtype=np.int64),
            totals=self.totals if most else self.totals[:0],
        )
        homes = np.full(len(self.entry), room - 1)
        homes[kept] = groups
        now.count[MOST] = ENDLESS * (most > 0) + most
        populate(world, now, homes, many)
        if most:
            everybody = (np.arange(len(world.table)), np.zeros(len(world.table), np.int64))
            now.memories[room - 1] = memories_of(*shown, *everybody, 1)
            now.costs[room - 1] = self.search.everything
        loss = float((now.classes[:, SIZE] * now.costs).sum())
        if most:
            now.classes[room - 1, SIZE] += ENDLESS
            now.classes[room - 1, TOUCHED] = np.iinfo(np.int64).max
        return now, loss

    def _tallied(self, room: int) -> tuple[int, int]:
        """Classes and sensitive values that are tallied all the time."""
        rules = self.search.problem.rules
        values = int(rules.offsets[-1])
        if len(rules.kinds) == 0 or rules.people >= 0 or room * values > TALLIED:
            return 0, values
        return room, values

    def _company(self) -> Any:
        k, friends = self.search.problem.rules.k, self.world.near.shape[1] + 1
        pieces = max(256, 4 * k)
        return Company(
            chosen=np.zeros(k + 1, dtype=np.int64),
            piece=np.zeros(pieces, dtype=np.int64),
            friend=np.zeros(pieces, dtype=np.int64),
            gift=np.zeros(pieces),
            entry=np.zeros(friends, dtype=np.int64),
            total=np.zeros(friends),
            losses=np.zeros((len(self.world.head), friends)),
        )


def rows_of_values(sensitive: Array, rows: Array, rules: Rules) -> Array:
    """How many of these rows hold each sensitive value, laid out as rules count them."""
    counts = np.zeros(int(rules.offsets[-1]), dtype=np.int64)
    for values in sensitive.T:
        np.add.at(counts, values, rows)
    return counts


def _lookup(table: Array, starts: Array, index_row: Array) -> Array:
    """Rows of the index for each entry, first those of axes on which two entries seldom agree."""
    agreeing = [(np.bincount(axis).astype(float) ** 2).sum() for axis in table.T]
    rows: Array = index_row[starts[:-1] + table].astype(np.int32)
    # of one order also where there is one axis: else the search would be compiled anew for it
    return np.ascontiguousarray(rows[:, np.argsort(agreeing, kind="stable")])


def _along(table: Array, starts: Array) -> tuple[Array, Array]:
    """The entries by their positions on each axis, and where those of each position begin."""
    along = np.argsort(table, axis=0, kind="stable").T.astype(np.int32)
    begins = [
        np.concatenate([[0], np.cumsum(np.bincount(positions, minlength=size))])
        for positions, size in zip(table.T, np.diff(starts), strict=True)
    ]
    return np.ascontiguousarray(along), np.concatenate(begins).astype(np.int64)


def _index_rows(problem: Problem) -> tuple[Array, Array]:
    """Where the positions of each axis begin, and the row of the index each position has."""
    index_row, rows = [], 0
    for name in problem.qi:
        size = problem.shapes[name].size
        many = min(size, INDEX_ROWS)
        index_row.append(rows + np.arange(size) * many // max(size, 1))
        rows += many
    sizes = [len(part) for part in index_row]
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), np.concatenate(index_row)


@bare
def _room(now, rows):  # type: ignore[no-untyped-def]
    """Whether so many more moves can be written down."""
    return now.count[MOVES] + rows < now.moved.shape[0]


@bare
def _evacuate(world, now, group, limit):  # type: ignore[no-untyped-def]
    """Close a class and settle its pieces elsewhere; whether all found a place below a limit."""
    if not _room(now, now.classes[group, SIZE] + 1):
        return False
    close_class(now, group)
    while now.classes[group, HEAD] >= 0:
        least = now.change[0] - now.classes[group, SIZE] * now.costs[group]  # whoever is left
        if least > limit or not settle(world, now, now.classes[group, HEAD], group):
            return False
    return True


@bare
def _price_of_closing(world, now, group):  # type: ignore[no-untyped-def]
    """What a small class would lose if each of its pieces joined a class that covers it."""
    pieces, price = now.pieces, 0.0
    member = now.classes[group, HEAD]
    while member >= 0:
        _, cost = cheapest_cover(world, now, member, group, np.inf)
        price += pieces[member, ROWS] * (cost - now.costs[group])
        member = pieces[member, AFTER]
    return price


@bare
def _fill_up(world, now, group, k):  # type: ignore[no-untyped-def]
    """Fill a small class with spare pieces if that is cheaper than closing it; whether it was."""
    if not _room(now, k):
        return False
    moves, price = now.count[MOVES], 0.0
    limit = _price_of_closing(world, now, group)
    if k > FEW:
        return fill_from_classes(world, now, group, k, limit)
    while now.classes[group, SIZE] < k:
        piece, more = spare_piece(world, now, group, k)
        price += more
        if piece < 0 or price >= limit:
            take_back(world, now, moves)
            return False
        move(world, now, piece, group)
    return True


@bare
def _holds(world, now, group, rules, counts):  # type: ignore[no-untyped-def]
    """Whether a class satisfies all rules."""
    pieces, classes, sensitive = now.pieces, now.classes, world.sensitive
    if classes[group, SIZE] < rules.k or rules.kinds.shape[0] == 0:
        return classes[group, SIZE] >= rules.k
    if now.tallies.shape[0]:
        return holds(classes[group, SIZE], now.tallies[group], rules)
    clear(rules, counts)
    member = classes[group, HEAD]
    while member >= 0 and not enough(rules, counts):
        take_in(pieces[member, ENTRY], pieces[member, ROWS], sensitive, rules, counts)
        member = pieces[member, AFTER]
    return holds(classes[group, SIZE], counts, rules)


@bare
def _repair(world, now, rules, counts, limit):  # type: ignore[no-untyped-def]
    """Close or fill up every changed class that fails; whether all was put right.

    Where groups are large, one class may fail another rule than k, unless it is new and has many
    rows: else hundreds would move from class to class, and hardly ever come to rest.
    """
    classes, changed, at, most = now.classes, now.changed, 0, max(CLEARED, 2 * rules.k)
    failed = 0
    while at < now.count[CHANGES]:
        group = changed[at, 0]
        at += 1
        if not classes[group, OPEN]:
            continue
        if classes[group, HEAD] < 0:
            close_class(now, group)
        elif not _holds(world, now, group, rules, counts):
            if classes[group, SIZE] >= rules.k > FEW:
                failed += 1 if changed[at - 1, 1] or classes[group, SIZE] <= LARGE else 2
            if now.change[0] > limit or failed > 1:
                return False
            if classes[group, SIZE] < rules.k and _fill_up(world, now, group, rules.k):
                at -= 1  # it may still fail for another reason
            elif classes[group, SIZE] > most or not _evacuate(world, now, group, limit):
                return False
    return True


@bare
def _relieve(world, now, k):  # type: ignore[no-untyped-def]
    """Let classes that were joined pass on what they can spare to cheaper ones that cover it."""
    pieces, classes, costs = now.pieces, now.classes, now.costs
    for at in range(now.count[CHANGES]):
        group, looked = now.changed[at, 0], 0
        if not classes[group, OPEN] or classes[group, JOINED] != now.count[STEP]:
            continue
        member = classes[group, HEAD]
        while member >= 0 and classes[group, SIZE] > k and looked < LARGE and _room(now, 2):
            looked, following = looked + 1, pieces[member, AFTER]
            if classes[group, SIZE] - pieces[member, ROWS] >= k:
                limit = costs[group] - LEAST
                better, _ = cheapest_cover(world, now, member, group, limit)
                if better >= 0:
                    move(world, now, member, better)
            member = following


@bare
def _tidy(world, now, rules, counts, most):  # type: ignore[no-untyped-def]
    """Last touches of a step; whether all changed classes hold.

    Classes of more than so many pieces keep showing what they did.
    """
    classes = now.classes
    for at in range(now.count[CHANGES]):
        group = now.changed[at, 0]
        if classes[group, OPEN] and classes[group, LEFT] == now.count[STEP]:
            tighten(world, now, group, most)
    if now.totals.shape[0] and _left_or_came_back(now):
        if not _refer(now, rules):
            return False
        for group in range(classes.shape[0]):
            if classes[group, OPEN] and not holds(classes[group, SIZE], now.tallies[group], rules):
                return False
    elif rules.kinds.shape[0]:
        for at in range(now.count[CHANGES]):
            group = now.changed[at, 0]
            if classes[group, OPEN] and not _holds(world, now, group, rules, counts):
                return False
    return True


@bare
def _left_or_came_back(now):  # type: ignore[no-untyped-def]
    """Whether this step has changed who is left out."""
    out = now.classes.shape[0] - 1
    return now.classes[out, LEFT] == now.count[STEP] or now.classes[out, JOINED] == now.count[STEP]


@bare
def _refer(now, rules):  # type: ignore[no-untyped-def]
    """Let rules compare with the rows that are not left out; whether these hold the same values."""
    out, same = now.classes.shape[0] - 1, True
    for column in range(rules.offsets.shape[0] - 1):
        rows = 0
        for value in range(rules.offsets[column], rules.offsets[column + 1]):
            rows += now.totals[value] - now.tallies[out, value]
        for value in range(rules.offsets[column], rules.offsets[column + 1]):
            there = now.totals[value] - now.tallies[out, value]
            same = same and (there > 0) == (rules.reference[value] > 0.0)
            rules.reference[value] = there / max(rows, 1)
    return same


@bare
def _disturb(world, now, piece, k, unit, limit, company, kind):  # type: ignore[no-untyped-def]
    """Begin a step at a piece; whether there is anything to repair and to judge."""
    home = now.pieces[piece, HOME]
    if kind < CLOSE:
        return _evacuate(world, now, home, limit + SLACK * unit)
    if kind < CLOSE + JOIN:
        return settle(world, now, piece, home)
    if kind < CLOSE + JOIN + GATHER or k > FEW:
        block = world.block[now.pieces[piece, ENTRY]]
        return sketch(world, now, piece) and gather(world, now, block, k, limit)
    many = founders(world, now, piece, k, HARM * unit, NOISE * unit, company)
    familiar = True
    for c in range(many):
        familiar = familiar and now.pieces[company.chosen[c], HOME] == home
    if familiar:
        return False
    group = open_class(world, now, now.classes.shape[0])
    if group < 0:
        return False
    for c in range(many):
        move(world, now, company.chosen[c], group)
    return True


@partial(bare, most=0, direct=True)
def _anneal(world, now, company, rules, counts, turns, unit, heat, cooling):  # type: ignore[no-untyped-def]
    """Take a step at each of these pieces in turn; returns by how much the loss has fallen.

    Parameters
    ----------
    turns
        Pieces to begin at. Those in cheap classes are often passed over.
    unit
        What a row in an expensive class loses; other losses are judged by it.
    heat, cooling
        Loss in units that is kept with probability 1/e at first, and what that is multiplied by
        each turn.
    """
    pieces, costs, gained = now.pieces, now.costs, 0.0
    for turn in range(turns.shape[0]):
        heat *= cooling
        piece = turns[turn]
        home, entry = pieces[piece, HOME], pieces[piece, ENTRY]
        if costs[home] <= unit * draw(now.chance):
            continue
        if piece > world.first[entry] and pieces[piece - 1, HOME] == home:
            continue  # no different from the one before it
        begin_step(now)
        loss = -heat * unit * math.log(1.0 - draw(now.chance))
        kind = draw(now.chance)
        good = _disturb(world, now, piece, rules.k, unit, loss, company, kind)
        good = good and _repair(world, now, rules, counts, loss + SLACK * unit)
        if good:
            _relieve(world, now, rules.k)
            whole = kind >= CLOSE + JOIN and (kind < CLOSE + JOIN + GATHER or rules.k > FEW)
            good = _tidy(world, now, rules, counts, pieces.shape[0] if whole else LARGE)
        if good and now.change[0] <= loss:
            gained -= now.change[0]
            keep(now)
        else:
            undo(world, now)
            if now.totals.shape[0] and _left_or_came_back(now):
                _refer(now, rules)
    return gained


WITHIN, QUOTA = 7, 8
"""Columns of `State.classes`: rows that a template covers, and how many of them are wanted."""
MORE = 0.5
"""Chance that one more column of a template is changed."""
NARROW = 0.6
"""Share of the changes that let a template show less on a column."""


@bare
def _narrow(world, now, group, axis, position):  # type: ignore[no-untyped-def]
    """Let a class cover less of an axis, but still a position; some of it, drawn."""
    head, ints, memories, chance = world.head, world.ints, now.memories, now.chance
    at = head[axis, SLOT]
    if head[axis, KIND] == TREE:
        parent, first, last = head[axis, PARENT], head[axis, FIRST], head[axis, LAST]
        shown = memories[group, at]
        node = ints[head[axis, LEAF] + position]
        while node != shown:
            above = ints[parent + node]
            same = ints[first + above] == ints[first + shown]
            if same and ints[last + above] == ints[last + shown]:
                memories[group, at] = node
                return
            node = above
        return
    if head[axis, KIND] == SET:
        for other in range(world.starts[axis + 1] - world.starts[axis]):
            word, bit = at + 1 + other // WORD, np.int64(1) << (other % WORD)
            if memories[group, word] & bit and other != position and draw(chance) < 0.5:
                memories[group, word] ^= bit
                memories[group, at] -= 1
        return
    low, high = memories[group, at], memories[group, at + 1]
    cut = low + np.int64(draw(chance) * (high - low))
    if low == high:
        return
    if position <= cut:
        memories[group, at + 1] = cut
    else:
        memories[group, at] = cut + 1


@bare
def _widen(world, now, group, axis):  # type: ignore[no-untyped-def]
    """Let a class cover more of an axis: the next node up, a value more, up to twice the range."""
    head, ints, memories, chance = world.head, world.ints, now.memories, now.chance
    size, at = world.starts[axis + 1] - world.starts[axis], head[axis, SLOT]
    if head[axis, KIND] == TREE:
        low, high = span(world, memories, group, axis)
        if high - low == size - 1:
            return
        grow(head, ints, memories, group, axis, low - 1 if low > 0 else high + 1)
    elif head[axis, KIND] == SET:
        grow(head, ints, memories, group, axis, np.int64(draw(chance) * size))
    else:
        low, high = memories[group, at], memories[group, at + 1]
        step = 1 + np.int64(draw(chance) * (high - low + 1))
        if draw(chance) < 0.5:
            memories[group, at] = max(low - step, 0)
        else:
            memories[group, at + 1] = min(high + step, size - 1)


@bare
def sketch(world, now, piece):  # type: ignore[no-untyped-def]
    """Make the template of a class that covers a piece and shows more of it than its class does.

    Whether it does.
    """
    pieces, template = now.pieces, now.classes.shape[0]
    home, entry, axes = pieces[piece, HOME], pieces[piece, ENTRY], world.head.shape[0]
    for slot in range(now.memories.shape[1]):
        now.memories[template, slot] = now.memories[home, slot]
    while True:
        axis = np.int64(draw(now.chance) * axes)
        if draw(now.chance) < NARROW:
            _narrow(world, now, template, axis, np.int64(world.table[entry, axis]))
        else:
            _widen(world, now, template, axis)
        if draw(now.chance) >= MORE:
            break
    cost = group_loss(world.head, world.floats, now.memories, template)
    return cost < now.costs[home] - LEAST


@bare
def _inside(world, now, group, block):  # type: ignore[no-untyped-def]
    """List the entries of a block that a class covers; their number.

    They are looked for along the axis on which the class covers fewest.
    """
    head, ints, table, memories = world.head, world.ints, world.table, now.memories
    begins, along, inside = world.begins, world.along, now.inside
    best, chosen = np.int64(table.shape[0] + 1), 0
    for axis in range(head.shape[0]):
        low, high = span(world, memories, group, axis)
        at = world.starts[axis] + axis
        many = begins[at + high + 1] - begins[at + low]
        if many < best:
            best, chosen = many, axis
    low, high = span(world, memories, group, chosen)
    at, found = world.starts[chosen] + chosen, 0
    for place in range(begins[at + low], begins[at + high + 1]):
        entry = along[chosen, place]
        if world.block[entry] == block and covers(head, ints, memories, group, table, entry):
            inside[found] = entry
            found += 1
    return found


@bare
def _donors(world, now, group, many):  # type: ignore[no-untyped-def]
    """List the classes of the first so many entries listed, and count their rows; how many."""
    pieces, classes, first, found = now.pieces, now.classes, world.first, 0
    for z in range(many):
        for piece in range(first[now.inside[z]], first[now.inside[z] + 1]):
            home = pieces[piece, HOME]
            if home == group:
                continue
            if classes[home, WITHIN] == 0:
                now.donors[found] = home
                found += 1
            classes[home, WITHIN] += pieces[piece, ROWS]
    return found


@bare
def _price_of_parting(world, now, home, template, limit):  # type: ignore[no-untyped-def]
    """What the rows of a class that a template does not cover lose elsewhere; stops at a limit."""
    head, ints, memories, table = world.head, world.ints, now.memories, world.table
    pieces, price, before, cost = now.pieces, 0.0, np.int64(-1), 0.0
    member = now.classes[home, HEAD]
    while member >= 0 and price < limit:
        entry = pieces[member, ENTRY]
        if entry != before:
            before, cost = entry, 0.0
            if not covers(head, ints, memories, template, table, entry):
                _, cost = cheapest_cover(world, now, member, home, np.inf)
                cost -= now.costs[home]
        price += cost * pieces[member, ROWS]
        member = pieces[member, AFTER]
    return price


@bare
def _claim(world, now, template, found, cost, k):  # type: ignore[no-untyped-def]
    """Decide how many rows each class gives to one that costs less: rows, and what is saved.

    A class gives what it can spare, or everything where the rest is better off elsewhere.
    """
    classes, costs, taken, value = now.classes, now.costs, np.int64(0), 0.0
    for z in range(found):
        home = now.donors[z]
        gain, within = costs[home] - cost, classes[home, WITHIN]
        classes[home, QUOTA] = 0
        if gain <= LEAST:
            continue
        quota, spare = within, max(classes[home, SIZE] - k, 0)
        if spare < within < classes[home, SIZE]:
            more = (within - spare) * gain
            price = _price_of_parting(world, now, home, template, more)
            if price < more:
                value -= price
            else:
                quota = spare
        classes[home, QUOTA] = quota
        value += quota * gain
        taken += quota
    return taken, value


@bare
def _borrow(now, found, cost, lacking, k, limit):  # type: ignore[no-untyped-def]
    """Decide which classes give the rows that are lacking: rows, and what that costs."""
    classes, costs, taken, price = now.classes, now.costs, np.int64(0), 0.0
    while taken < lacking and price < limit:
        least, who = np.inf, -1
        for z in range(found):
            home = now.donors[z]
            can = min(classes[home, WITHIN], classes[home, SIZE] - k) > classes[home, QUOTA]
            if can and cost - costs[home] < least:
                least, who = cost - costs[home], home
        if who < 0:
            break
        most = min(classes[who, WITHIN], classes[who, SIZE] - k) - classes[who, QUOTA]
        rows = min(most, lacking - taken)
        classes[who, QUOTA] += rows
        taken += rows
        price += rows * least
    return taken, price


@bare
def _bring(world, now, group, many):  # type: ignore[no-untyped-def]
    """Move into a class what was decided on, of the first so many entries listed."""
    pieces, classes, first = now.pieces, now.classes, world.first
    for z in range(many):
        for piece in range(first[now.inside[z]], first[now.inside[z] + 1]):
            home, rows = pieces[piece, HOME], pieces[piece, ROWS]
            if home != group and rows <= classes[home, QUOTA]:
                classes[home, QUOTA] -= rows
                move(world, now, piece, group)


@bare
def _forget(now, found):  # type: ignore[no-untyped-def]
    for z in range(found):
        now.classes[now.donors[z], WITHIN] = 0
        now.classes[now.donors[z], QUOTA] = 0


@bare
def gather(world, now, block, k, limit):  # type: ignore[no-untyped-def]
    """Open a class that shows the template and gather whoever loses less there; whether it is open.

    It is not where too few come, or where that seems to lose more than the limit.
    """
    template = now.classes.shape[0]
    cost = group_loss(world.head, world.floats, now.memories, template)
    many = _inside(world, now, template, block)
    found = _donors(world, now, template, many)
    taken, value = _claim(world, now, template, found, cost, k)
    if taken < k:
        more, price = _borrow(now, found, cost, k - taken, k, value + limit)
        taken += more
        value -= price
    group = np.int64(-1)
    if taken >= k and value + limit >= 0.0:
        group = open_class(world, now, template)
    if group >= 0:
        _bring(world, now, group, many)
        if now.classes[group, HEAD] >= 0:
            tighten(world, now, group, now.pieces.shape[0])
    _forget(now, found)
    return group >= 0


@bare
def fill_from_classes(world, now, group, k, limit):  # type: ignore[no-untyped-def]
    """Fill a class that is too small with rows others can spare, below a price; whether it was."""
    block = world.block[now.pieces[now.classes[group, HEAD], ENTRY]]
    many = _inside(world, now, group, block)
    found = _donors(world, now, group, many)
    lacking = k - now.classes[group, SIZE]
    taken, price = _borrow(now, found, now.costs[group], lacking, k, limit)
    good = taken >= lacking and price < limit
    if good:
        _bring(world, now, group, many)
    _forget(now, found)
    return good and now.classes[group, SIZE] >= k
