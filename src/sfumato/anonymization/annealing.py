"""Annealing: improve a grouping by steps that now and then lose, less and less often.

What a class shows is fixed while it has its pieces, so that classes that show the same are one, and
what one of them can spare all of them can. The work is done in parts of a table that are small
enough for an index of all classes; a class that reaches beyond a part stays as it is until the
parts are cut differently.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sfumato.anonymization.blocks import Blocks
from sfumato.anonymization.districts import districts
from sfumato.anonymization.problem import Problem

if TYPE_CHECKING:
    from sfumato.anonymization.search import Search

__all__ = ["improve"]

Array = npt.NDArray[Any]
PART = 12_000
"""Least number of entries of a part; twice as many are not cut."""
DISTRICT = 12_000
"""Least number of entries of a district within which neighbours are looked for."""
NEIGHBOURS = 40
"""Entries that are near an entry, for groups of five and more rows."""
PASSES = 24
"""How often each piece has its turn."""
HOT, COLD = 0.15, 0.05
"""Heat of the first and of the last turn, in units."""
UNIT = 2.5
"""How many times the average row an expensive row loses: the unit of what the search weighs."""
SEATS = 128
"""Most rows of the index for one axis."""


def improve(search: Search, seed: int, passes: int = PASSES) -> float:
    """Anneal all parts of a grouping once; what was gained, summed over rows and columns.

    With few passes the beginning is not hot: they repair what is there.
    """
    problem, gained = search.problem, 0.0
    cut = _parts(problem, search.blocks, seed)
    for done, blocks in enumerate(cut):
        problem.budget.progress(f"improving, {done} of {len(cut)} parts", done / len(cut))
        gained += _Part(search, blocks, seed).improve(passes)
        if problem.budget.spent():
            break
    return gained


def _parts(problem: Problem, blocks: Blocks, seed: int) -> list[Blocks]:
    """Cut the blocks into parts that are searched one after the other."""
    if len(blocks.order) <= 2 * PART:
        return [blocks] if len(blocks.order) else []
    cut = districts(problem, blocks, PART, seed)
    found, begin = [], 0
    for end in range(1, cut.count + 1):
        low, high = cut.starts[begin], cut.starts[end]
        if high - low >= PART or end == cut.count:  # small blocks share a part
            found.append(Blocks(cut.order[low:high], cut.starts[begin : end + 1] - low))
            begin = end
    return found


class _Part:
    """A part of a grouping, ready to be annealed.

    Parameters
    ----------
    search
        The grouping of the whole table; `improve` changes it.
    blocks
        Entries of the part, block by block.
    """

    def __init__(self, search: Search, blocks: Blocks, seed: int) -> None:
        from sfumato.anonymization._classes import World
        from sfumato.anonymization._nearest import nearest_entries

        self.search = search
        self.random = np.random.default_rng(seed)
        entries = np.sort(blocks.order)
        number = np.full(len(search.table), -1, dtype=np.int64)
        number[entries] = np.arange(len(entries))
        inside = number[search.entry] >= 0
        reaching_out = np.bincount(search.groups[~inside], minlength=search.groups.max() + 1) > 0
        self.chosen = np.flatnonzero(inside & ~reaching_out[search.groups])
        self.entry: Array = number[search.entry[self.chosen]]
        self.rows: Array = search.rows[self.chosen]
        _, dense = np.unique(search.groups[self.chosen], return_inverse=True)
        self.groups: Array = dense.astype(np.int64)
        k = search.problem.rules.k
        near = np.full((len(entries), min(8 * k, NEIGHBOURS)), -1, dtype=np.int32)
        table = search.table[entries]
        close = districts(search.problem, blocks, DISTRICT, seed)
        nearest_entries(table, number[close.order], close.starts, *search.prices, near)
        kin = np.empty(len(entries), dtype=np.int64)
        kin[number[blocks.order]] = np.repeat(np.arange(blocks.count), np.diff(blocks.starts))
        starts, seats = _seats(search.problem)
        first = np.concatenate([[0], np.cumsum(np.bincount(self.entry, minlength=len(entries)))])
        self.world = World(
            table,
            search.sensitive[entries],
            kin,
            first,
            near,
            starts,
            seats,
            _sieve(table),
            *search.prices,
        )

    def improve(self, passes: int) -> float:
        """Anneal the part; what was gained, summed over rows and columns.

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
        if best > 0.0:
            base = int(self.search.groups.max(initial=-1)) + 1
            self.search.groups[self.chosen] = base + best_groups
        return best

    def _passes(self, passes: int) -> Iterator[float]:
        """Anneal pass by pass; what each gained."""
        from sfumato.anonymization._anneal import anneal

        problem = self.search.problem
        pieces = len(self.entry)
        company = self._company()
        counts = np.zeros(int(problem.rules.offsets[-1]), dtype=np.int64)
        hot = min(HOT, COLD * passes)
        cooling = (COLD / hot) ** (1 / max(passes * pieces, 1))
        unit = 0.0
        for turn in range(passes):
            now, loss = self._state()
            unit = unit or UNIT * loss / max(int(self.rows.sum()), 1)
            if unit == 0.0:
                return
            gained = anneal(
                self.world,
                now,
                company,
                problem.rules,
                counts,
                self.random.permutation(pieces),
                unit,
                hot * cooling ** (turn * pieces),
                cooling,
            )
            self.groups = now.pieces[:, 2].copy()
            yield gained

    def _state(self) -> tuple[Any, float]:
        """The grouping as the compiled search wants it, and its loss.

        Groups that show the same become one class.
        """
        from sfumato.anonymization._classes import State, populate
        from sfumato.anonymization._pricing import memories_of

        rules = self.search.problem.rules
        _, groups = np.unique(self.groups, return_inverse=True)
        many = int(groups.max(initial=-1)) + 1
        world = self.world
        memories = memories_of(world.head, world.ints, world.table, self.entry, groups, many)
        kin = np.zeros(many, dtype=np.int64)
        kin[groups] = world.kin[self.entry]
        memories, same = np.unique(np.c_[memories, kin], axis=0, return_inverse=True)
        groups, many = same.reshape(-1)[groups].astype(np.int64), len(memories)
        room = 64 * (2 + (many + many // 16) // 64)
        slots = memories.shape[1] - 1
        pieces = np.full((len(self.entry), 5), -1, dtype=np.int64)
        pieces[:, 0], pieces[:, 1] = self.entry, self.rows
        book = 512 + 16 * rules.k
        now = State(
            pieces=pieces,
            classes=np.zeros((room, 7), dtype=np.int64),
            memories=np.concatenate([memories[:, :slots], np.zeros((room + 1 - many, slots), int)]),
            costs=np.zeros(room),
            bits=np.zeros((int(world.seats.max(initial=0)) + 1, room // 64), dtype=np.uint64),
            free=np.zeros(room, dtype=np.int64),
            count=np.zeros(5, dtype=np.int64),
            change=np.zeros(1),
            moved=np.zeros((book, 2), dtype=np.int64),
            changed=np.zeros((book, 2), dtype=np.int64),
            saved=np.zeros((book, slots), dtype=np.int64),
            saved_costs=np.zeros(book),
            chance=self.random.integers(1, 2**63, size=1, dtype=np.uint64),
        )
        populate(world, now, groups, many)
        return now, float((now.classes[:, 0] * now.costs).sum())

    def _company(self) -> Any:
        from sfumato.anonymization._moves import Company

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


def _sieve(table: Array) -> Array:
    """The axes, first those on which two entries seldom agree."""
    agreeing = [(np.bincount(axis).astype(float) ** 2).sum() for axis in table.T]
    return np.argsort(agreeing, kind="stable")


def _seats(problem: Problem) -> tuple[Array, Array]:
    """Where the positions of each axis begin, and the row of the index each position has."""
    seats, rows = [], 0
    for name in problem.qi:
        size = problem.shapes[name].size
        many = min(size, SEATS)
        seats.append(rows + np.arange(size) * many // max(size, 1))
        rows += many
    sizes = [len(part) for part in seats]
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), np.concatenate(seats)
