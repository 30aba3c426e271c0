"""Difference sets of rows left together, and the cheapest columns that hit all of them.

Two rows that a column set leaves together differ in some other columns, of which every key must
hold one: a key is a set of columns that hits every difference set.
"""

from __future__ import annotations

import pickle
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from multiprocessing.spawn import get_executable
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato import kernels
from sfumato.budget import Budget
from sfumato.engines.protocol import Codes
from sfumato.errors import UnfinishedError
from sfumato.kernels.compiling import compiled, without_numba

WITNESS_ROWS = 20_000
"""Rows among which pairs are looked for at a time."""
ORDERS = 4
"""In how many random column orders neighbours are compared."""

Sets = npt.NDArray[np.bool_]


def differences_within(
    codes: Codes,
    columns: Sequence[int],
    random: np.random.Generator,
    *,
    rows: int = WITNESS_ROWS,
) -> Sets:
    """Difference sets of rows that a column set leaves together, small ones preferred.

    Of classes of more than a quarter of so many `rows`, some rows are looked at.
    """
    chosen = codes.select([codes.columns[c] for c in columns])
    partition = (
        kernels.partition_of(chosen.arrays, chosen.cardinalities)
        if columns
        else kernels.whole(codes.entries)
    )
    return differences_within_classes(codes, partition, random, rows=rows)


def differences_within_classes(
    codes: Codes,
    partition: kernels.Partition,
    random: np.random.Generator,
    *,
    rows: int = WITNESS_ROWS,
    orders: int = ORDERS,
) -> Sets:
    """Difference sets of neighbours within random classes, as rows of booleans.

    Rows are sorted by all columns in random order: neighbours then agree on long prefixes, and
    their difference sets are small. Equal rows are passed over.
    """
    picked, class_of = _some_classes(partition, random, rows)
    if not len(picked):
        return np.zeros((0, len(codes.columns)), dtype=np.bool_)
    table = np.stack([array[picked] for array in codes.arrays], axis=1)
    found = []
    for _ in range(orders):
        order = random.permutation(table.shape[1])
        by = np.lexsort([*(table[:, c] for c in order[::-1]), class_of])
        together = class_of[by[1:]] == class_of[by[:-1]]
        found.append(_distinct(table[by[1:]][together] != table[by[:-1]][together]))
    demands = np.concatenate(found)
    return demands[demands.any(axis=1)]


def all_differences(codes: Codes, columns: Sequence[int], most: int) -> Sets | None:
    """Difference sets of all rows that a column set leaves together, of which none holds another.

    None where more than so many pairs of different rows are left together.
    """
    ids, number = codes.numbered(codes.columns)
    codes = codes.take(kernels.representatives(ids, number))
    chosen = codes.select([codes.columns[c] for c in columns])
    partition = kernels.partition_of(chosen.arrays, chosen.cardinalities)
    if partition.pairs > most:
        return None
    table = np.stack([array[partition.rows] for array in codes.arrays], axis=1)
    sizes = np.diff(partition.starts)
    class_of = np.repeat(np.arange(partition.classes), sizes)
    found = [np.zeros((0, table.shape[1]), dtype=np.bool_)]
    for apart in range(1, int(sizes.max(initial=0))):
        together = class_of[apart:] == class_of[:-apart]
        found.append(_distinct(table[apart:][together] != table[:-apart][together]))
    return minimal_sets(np.concatenate(found))


def _distinct(sets: Sets) -> Sets:
    """Each set once."""
    packed = np.packbits(sets, axis=1)
    _, first = np.unique(packed.view(f"V{packed.shape[1]}"), return_index=True)
    return sets[first]


def _some_classes(
    partition: kernels.Partition, random: np.random.Generator, wanted: int
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """Rows of random classes, whole where they are small, with the number of their class."""
    # Every class holds two rows at least.
    order = random.choice(partition.classes, min(partition.classes, wanted // 2 + 1), replace=False)
    sizes = partition.starts[order + 1] - partition.starts[order]
    taken = np.minimum(sizes, max(2, wanted // 4))
    order = order[: int(np.searchsorted(np.cumsum(taken), wanted)) + 1]
    rows = []
    for at in order:
        members = partition.rows[partition.starts[at] : partition.starts[at + 1]]
        if len(members) > max(2, wanted // 4):
            members = members[np.sort(random.choice(len(members), max(2, wanted // 4), False))]
        rows.append(members)
    if not rows:
        return np.zeros(0, dtype=np.uint32), np.zeros(0, dtype=np.int64)
    class_of = np.repeat(np.arange(len(rows)), [len(members) for members in rows])
    return np.concatenate(rows), class_of


@without_numba
def hitting_sets(edges, words, limit, max_size, steps):  # type: ignore[no-untyped-def]
    """All minimal sets of vertices that hit every edge (Murakami & Uno's MMCS).

    `edges` says for each vertex, as bits of `words` words, which edges contain it. Returns whether
    all sets (of at most `max_size` vertices) were found, and these as rows of booleans, at most
    `limit` of them. It ends after so many `steps`, too.
    """
    vertices = edges.shape[0]
    count = 0
    out = np.zeros((256, vertices), np.bool_)
    uncovered = np.zeros((vertices + 2, words), np.uint64)
    for v in range(vertices):
        for w in range(words):
            uncovered[0, w] |= edges[v, w]
    depths = min(vertices + 2, 16)  # more where sets are larger: of wide tables few are
    critical = np.zeros((depths, depths, words), np.uint64)
    chosen = np.zeros(vertices + 1, np.int64)
    spans = (vertices + 63) >> 6
    candidate = np.zeros((vertices + 2, spans), np.uint64)  # as bits
    branch = np.zeros((vertices + 2, vertices), np.int64)
    branches = np.zeros(vertices + 2, np.int64)
    cursor = np.zeros(vertices + 2, np.int64)
    for v in range(vertices):
        candidate[0, v >> 6] |= np.uint64(1) << np.uint64(v & 63)
    depth = 0
    branches[0] = -1
    while depth >= 0:
        steps -= 1
        if steps < 0:
            return False, out[:count]
        if branches[depth] < 0:  # first visit of this node
            edge = _thinnest(edges, uncovered[depth], candidate[depth], words)
            if edge < 0:
                if count == limit:
                    return False, out[:count]
                if count == out.shape[0]:
                    grown = np.zeros((2 * count, vertices), np.bool_)
                    for at in range(count):
                        for w in range(vertices):
                            grown[at, w] = out[at, w]
                    out = grown
                for i in range(depth):
                    out[count, chosen[i]] = True
                count += 1
                depth -= 1
                continue
            if depth >= max_size:
                depth -= 1
                continue
            branches[depth] = 0
            cursor[depth] = 0
            word, bit = edge >> 6, np.uint64(edge & 63)
            for v in range(vertices):
                if (edges[v, word] >> bit) & _bit(candidate[depth], v):
                    branch[depth, branches[depth]] = v
                    branches[depth] += 1
                    candidate[depth, v >> 6] ^= np.uint64(1) << np.uint64(v & 63)
        if cursor[depth] >= branches[depth]:
            depth -= 1
            continue
        v = branch[depth, cursor[depth]]
        cursor[depth] += 1
        if depth + 1 == depths:
            deeper = np.zeros((2 * depths, 2 * depths, words), np.uint64)
            for at in range(depths):
                for i in range(depths):
                    for w in range(words):
                        deeper[at, i, w] = critical[at, i, w]
            critical, depths = deeper, 2 * depths
        minimal = True
        for i in range(depth):
            alive = False
            for w in range(words):
                left = critical[depth, i, w] & ~edges[v, w]
                critical[depth + 1, i, w] = left
                alive |= left != 0
            if not alive:
                minimal = False
                break
        if not minimal:
            continue
        for w in range(words):
            critical[depth + 1, depth, w] = uncovered[depth, w] & edges[v, w]
            uncovered[depth + 1, w] = uncovered[depth, w] & ~edges[v, w]
        chosen[depth] = v
        for w in range(spans):
            candidate[depth + 1, w] = candidate[depth, w]
        candidate[depth, v >> 6] |= np.uint64(1) << np.uint64(v & 63)  # for siblings that follow
        depth += 1
        branches[depth] = -1
    return True, out[:count]


@compiled
def _bit(words, at):  # type: ignore[no-untyped-def]
    """One of the bits of some words."""
    return (words[at >> 6] >> np.uint64(at & 63)) & np.uint64(1)


@compiled
def _thinnest(edges, uncovered, candidate, words):  # type: ignore[no-untyped-def]
    """An uncovered edge with the fewest candidates, -1 if all are covered."""
    best, fewest, looked = -1, edges.shape[0] + 1, 0
    for w in range(words):
        left = uncovered[w]
        while left:
            low = left & (~left + np.uint64(1))
            bit = 0
            probe = low
            while probe > np.uint64(1):
                probe >>= np.uint64(1)
                bit += 1
            left ^= low
            size = 0
            for v in range(edges.shape[0]):
                if _bit(candidate, v) and edges[v, w] & low:
                    size += 1
            if size < fewest:
                best, fewest = w * 64 + bit, size
                if fewest <= 1:
                    return best
            looked += 1
            if looked >= 64:  # a good choice is enough; the best one costs more than it saves
                return best
    return best


Matrix = npt.NDArray[np.bool_]


_FIRST_SECONDS = 60.0
"""Limit of the first attempt where none is asked for; each other has twice as long.

Nothing is lost of most searches by it, and one whose program was killed ends after some time.
"""
_OUT_OF_TIME = 1
"""What SciPy calls a limit that was reached."""
_LOOKING = 0.1
"""Seconds between two looks at whether a search is still wanted."""
_GRACE = 2.0
"""Seconds that it is waited for when time is over: it looks at its own limit now and then."""
_STEPS, _MOST_FOUND = 1 << 18, 1_024
"""Steps, and sets, after which an enumeration leaves the search to a solver of linear programs."""
_WORDS = 1 << 27
"""Words of sets, about, that steps go through in a second."""
_ALIKE = 128
"""Sets that cost as little as the cheapest, and are told besides."""
_CELL_BYTES = 512
"""What a column of a set takes while the cheapest set that hits all is searched for."""


class SetFamily:
    """Sets of columns that every answer must hit; only inclusion-minimal ones are kept."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self._sets: Matrix = np.zeros((0, columns), dtype=np.bool_)

    def __len__(self) -> int:
        return len(self._sets)

    @property
    def matrix(self) -> Matrix:
        """One row a set."""
        return self._sets

    def add(self, sets: Matrix) -> int:
        """Add sets, drop those that contain another; returns how many new ones stayed."""
        sets = _distinct(sets[sets.any(axis=1)])
        if not len(sets):
            return 0
        fresh = sets[~_contains_any(sets, self._sets)]
        fresh = minimal_sets(fresh)
        if not len(fresh):
            return 0
        old = self._sets[~_contains_any(self._sets, fresh)]
        self._sets = np.concatenate([old, fresh])
        return len(fresh)

    @property
    def solving_bytes(self) -> int:
        """About what finding the cheapest set that hits all of these takes."""
        return _CELL_BYTES * int(np.count_nonzero(self._sets)) + self._sets.nbytes

    def full(self, budget: Budget) -> bool:
        """Whether there are as many sets as memory allows."""
        return budget.memory is not None and self.solving_bytes > budget.memory // 2

    def hit_by(self, columns: Iterable[int]) -> bool:
        """Whether a column set hits all sets."""
        chosen = list(columns)
        return bool(self._sets[:, chosen].any(axis=1).all()) if len(self._sets) else True


def minimal_sets(sets: Matrix) -> Matrix:
    """The sets that contain no other one; equal ones once."""
    sets = _distinct(sets)
    sizes = sets.sum(axis=1)
    kept = sets[:0]
    for size in np.unique(sizes):
        level = sets[sizes == size]
        kept = np.concatenate([kept, level[~_contains_any(level, kept)]])
    return kept


_FEW_PAIRS = 1 << 22
"""Pairs of sets that numpy has compared before a loop is compiled."""


def in_words(sets: Matrix) -> npt.NDArray[np.uint64]:
    """Rows of booleans as bits of words."""
    padded = np.zeros((len(sets), -(-sets.shape[1] // 64) * 64), dtype=np.bool_)
    padded[:, : sets.shape[1]] = sets
    packed = np.packbits(padded, axis=1, bitorder="little")
    return np.ascontiguousarray(packed).view(np.uint64)


def _contains_any(sets: Matrix, smaller: Matrix) -> npt.NDArray[np.bool_]:
    """For every set whether it contains (or equals) one of the smaller ones."""
    answer = np.zeros(len(sets), dtype=np.bool_)
    if len(sets) * len(smaller) > _FEW_PAIRS:
        # what holds little is held by many: most sets are done with soon
        order = np.argsort(smaller.sum(axis=1), kind="stable")
        _contain_any(in_words(sets), in_words(smaller[order]), answer)
    elif len(sets) and len(smaller):
        others = smaller.astype(np.float32).T
        with np.errstate(invalid="ignore"):  # of what fills up the last block in some libraries
            common = sets.astype(np.float32) @ others
        answer[:] = (common == others.sum(axis=0)).any(axis=1)
    return answer


@compiled(most=0, direct=True)
def _contain_any(sets, smaller, answer):  # type: ignore[no-untyped-def]
    """Mark the sets that contain one of the smaller ones, both as bits of words."""
    words = sets.shape[1]
    for i in range(sets.shape[0]):
        for j in range(smaller.shape[0]):
            inside = True
            for w in range(words):
                if smaller[j, w] & ~sets[i, w]:
                    inside = False
                    break
            if inside:
                answer[i] = True
                break


@dataclass(frozen=True)
class Hitting:
    """A hitting set, its cost, and a cost below which there is none; others that cost as little."""

    columns: tuple[int, ...]
    cost: float
    lower_bound: float
    optimal: bool
    others: tuple[tuple[int, ...], ...] = ()


def minimum_hitting_set(
    family: SetFamily, costs: Sequence[float], budget: Budget | None = None
) -> Hitting:
    """The cheapest set of columns that hits every set of the family.

    Examples
    --------
    >>> family = SetFamily(3)
    >>> family.add(np.array([[True, True, False], [False, True, True]]))
    2
    >>> minimum_hitting_set(family, [1, 1, 1]).columns
    (1,)
    """
    budget = (budget or Budget()).part(1.0)  # what it says of time is not yet what stopped the work
    fallback = greedy_hitting_set(family, costs)
    if not len(family):
        return Hitting((), 0.0, 0.0, True)
    price = np.asarray(costs, dtype=np.float64)
    known = float(price[list(fallback)].sum())
    steps = _steps(family, budget)
    cheaper, complete = _cheapest(family.matrix, price, known - 1e-9, _MOST_FOUND, steps)
    if complete:
        chosen = cheaper[0] if cheaper else fallback
        cost = float(price[list(chosen)].sum())
        alike = cheaper or _cheapest(family.matrix, price, known + 1e-9, _ALIKE, steps)[0]
        return Hitting(chosen, cost, cost, True, tuple(one for one in alike if one != chosen))
    lower, limit = 0.0, _FIRST_SECONDS
    while True:
        seconds = limit if budget.seconds is None else max(0.01, budget.remaining)
        solved = _solved(family.matrix, price, seconds, budget)
        if solved is None:
            return Hitting(fallback, known, lower, False)
        status, found, bound = solved
        lower = max(lower, 0.0 if bound is None or not np.isfinite(bound) else float(bound))
        limit *= 2
        if status != _OUT_OF_TIME or budget.spent():
            break
    if found is None:
        return Hitting(fallback, known, lower, False)
    chosen = tuple(int(c) for c in np.flatnonzero(found > 0.5))
    cost = float(price[list(chosen)].sum())
    return Hitting(chosen, cost, cost if status == 0 else lower, status == 0)


def _steps(family: SetFamily, budget: Budget) -> int:
    """How many steps an enumeration may take, which cannot be ended: a quarter of the time left."""
    if budget.seconds is None:
        return _STEPS
    words = len(family) // 64 + 64 * family.columns  # of sets, and those that are looked at first
    return int(min(_STEPS, budget.remaining / 4 * _WORDS / words))


def _cheapest(
    sets: Matrix, price: npt.NDArray[np.float64], below: float, most: int, steps: int
) -> tuple[list[tuple[int, ...]], bool]:
    """The cheapest of the sets that hit every set and cost less than given; whether all were found.

    Where few columns cost as much, all of their combinations are sooner looked through than linear
    programs, whose bounds are weak here, tell that none does.
    """
    few = int(np.searchsorted(np.cumsum(np.sort(price)), below))  # so many cost less, at most
    edges = in_words(np.ascontiguousarray(sets[np.argsort(sets.sum(axis=1), kind="stable")].T))
    complete, found = hitting_sets(edges, edges.shape[1], most, few, steps)
    costs = found @ price
    least = min(costs.min(initial=np.inf), below)
    return [tuple(np.flatnonzero(row).tolist()) for row in found[costs <= least]], bool(complete)


_SOLVES = """
import pickle, sys, time
import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array
sets, price, until = pickle.load(sys.stdin.buffer)
solved = milp(
    price,
    constraints=LinearConstraint(csr_array(sets).astype(np.float64), lb=1),
    integrality=np.ones(len(price)),
    bounds=Bounds(0, 1),
    options={"mip_rel_gap": 0.0, "time_limit": max(0.01, until - time.time())},
)
pickle.dump((solved.status, solved.x, solved.mip_dual_bound), sys.stdout.buffer)
"""


def _solved(
    sets: Matrix, price: npt.NDArray[np.float64], seconds: float, budget: Budget
) -> tuple[int, Any, Any] | None:
    """Status, solution and bound of a linear program; None once nobody waits for it any longer.

    The solver hears no signal, looks at its limit only now and then, and crashes a program that
    ends meanwhile: so it has a process of its own, which is ended at any time.
    """
    asked: bytes | None = pickle.dumps((sets, price, time.time() + seconds))
    with subprocess.Popen(
        [get_executable(), "-P", "-c", _SOLVES],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # whoever interrupts the program lets it end this one
    ) as process:
        try:
            while True:
                over = budget.spent()
                wait = _LOOKING if not over else _GRACE if budget.stopped_by == "time" else 0.0
                try:
                    answer, why = process.communicate(asked, wait)
                    break
                except subprocess.TimeoutExpired:
                    asked = None
                    if over:
                        return None
        finally:
            process.kill()
            process.wait()
    if process.returncode:
        last = why.decode(errors="replace").strip().rpartition("\n")[2]
        raise UnfinishedError(
            f"the solver of linear programs ended early ({last or 'killed'})",
            remedy="Allow it more memory, or ask without a proof.",
        )
    told: tuple[int, Any, Any] = pickle.loads(answer)
    return told


def greedy_hitting_set(family: SetFamily, costs: Sequence[float]) -> tuple[int, ...]:
    """A hitting set found by always taking the column that hits most sets for its cost."""
    price = np.asarray(costs, dtype=np.float64)
    waiting = family.matrix
    chosen: list[int] = []
    while len(waiting):
        best = int(np.argmax(waiting.sum(axis=0) / price))
        chosen.append(best)
        waiting = waiting[~waiting[:, best]]
    return tuple(sorted(chosen))
