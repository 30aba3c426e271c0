"""The best grouping that a given time finds: start from the best of the others, then improve.

The start is the least lossy of lattice-descending recoding, Mondrian and, where some column has no
tree and it does not take too long, k-member clustering; with a time limit, or where groups are
large or rows may be left out, also of iterated global recoding, in fine steps and in coarse ones.
Where groups are large, several starts are tried. A search then founds, closes and rearranges
classes under all rules and within all boundaries. Without a time limit it makes one round, or as
many as were asked for; with one it goes on, each round slower than the last, until the time is
over or it is proven that nothing is left to gain. Whenever it is stopped, the best so far is the
answer. Where rows may be left out, some starts leave out whoever finds no company on their way, and
the search leaves out rows, one by one, where the others gain more than these lose, which is
everything, and takes them back. Where every column has a tree, it can be asked to prove how much
less any recoding could lose.

That proof is a linear program. The rows of a group show, column by column, a node of the tree. So
the group lies in a *class* of some node of the lattice of levels, the rows that look alike there,
and each of its rows loses what the class loses. A recoding thus opens classes and puts at least k
rows into each, just as cell suppression does with patterns of stars, and `dual_ascent` bounds both.
Rules beyond k and boundaries can only make it dearer. Prices of rows are raised over the classes
that matter and then lowered, in whole numbers, until no class of the whole lattice is overpriced:
whatever the ascent did, their sum is a lower bound.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from sfumato import kernels
from sfumato.anonymization.dual_ascent import ascend, lower_classes
from sfumato.anonymization.methods.annealing import (
    FEW,
    PASSES,
    STEP_WORK,
    improve,
    rows_of_values,
)
from sfumato.anonymization.methods.iterated import Iteration
from sfumato.anonymization.methods.kmember import EXACT, clustered_groups
from sfumato.anonymization.methods.lattice import (
    SHARED,
    covering_groups,
    level_groups,
    placed,
)
from sfumato.anonymization.methods.mondrian import cut_groups
from sfumato.anonymization.methods.moves import Ground, Search
from sfumato.anonymization.methods.pricing import PRICE, prices_of, total_loss
from sfumato.anonymization.problem import (
    Blocks,
    Problem,
    Solution,
    allowed_blocks,
    most_left_out,
    positions_of,
    sensitive_of,
)
from sfumato.budget import Budget, each
from sfumato.errors import ParameterError, did_you_mean
from sfumato.hierarchy import EncodedHierarchy, ValueSets
from sfumato.hierarchy.tree import Array
from sfumato.privacy.rules import DISTINCT, Rules, compares, groups_hold, recounted

ROUNDS = 1
"""Rounds without a time limit, unless more are asked for. Each takes twice as long as the last."""
DOUBLED = 6
"""How often a round takes twice as long as the one before."""
PROVEN = 20_000_000
"""Entries times nodes of a lattice up to which a search with a time limit asks for a proof that
nothing is left to gain."""
SEEDS = 1_000
"""Seeds between those of two runs; a round takes the next one."""
RUNS, FEW_CLASSES, RUN_PIECES = 12, 64, 8_000
"""Where there is room for few classes only, one search ends far from another. So several begin at
the start, and the best is kept: at most so many, and together of so many pieces. Twice as many
where they begin at several starts."""
QUICKLY_PROVEN = 400
"""Nodes of a lattice up to which a start is compared with what rows lose at least by themselves:
that takes a fraction of a round."""
WORTH = 0.95
"""Share of what the best start loses below which that of Mondrian is searched from, too, after it
was improved a little."""
BOUNDS = ("none", "lp")
SEARCHING = 0.5
"""Share of a time limit that is left to the search where a bound is asked too."""
PROVING = 0.1
"""Share of the time left that may go into a proof that nothing is left to gain."""
SPARED, ENDING = 0.04, 1.5
"""Share of a time limit that is kept, since nobody asks the clock all the time; and how many times
as long as those of the first start it may take to weigh the last groups and say what they show."""
STARTING = 0.8
"""Share of the time left that may go into a start: before the first has ended, no search is worth
its beginning."""
BEGINNING = ((0.004, 2.5e-6), (0.002, 1e-6))
"""Seconds, and seconds a piece, below which no search begins: it would end before it gained; and
where groups are large, which need not look who is near."""
PASSING = 3e-5
"""Seconds a piece that a pass may take: five times the most that was measured of trees (1e-6 to
6e-6). Too many cost a brief pass to see the pace, too few a round that never cools down."""
REMEMBERING = 1e-7
"""Seconds for each piece and 64 values of columns without a tree or an order, beside these."""
PLACING, PLACED = (1.2e-8, 2.2e-8), 0.5
"""Seconds, about, to see what an entry that is left over would lose on a column of a class; where
classes are compared with all rows. And share of the time left up to which all have their place in
one of the first answers there."""
CUTTING, SOON = (0.001, (1e-6, 5e-6)), 0.02
"""Seconds, and seconds an entry, that must be left for Mondrian, which takes less, where there is a
start; and where all columns have trees, in which it seldom loses least. And the share of the time
left that it may take before all others: of many combinations an iteration may not come far."""
ITERATING = 3e-8
"""Seconds, for each entry and pair of columns, that must be left for an iteration of many entries:
the more columns, the more nodes it looks at, and the longer it takes to look at one."""
COARSE, WAYS = (100, 500), 8
"""Steps of an iteration release at least one row in so many, with a time limit and without, where
it is not as fine as can be; and how many of them there are at most."""
STRICTER = 0.05
"""Share by which iterations differ in the closeness that they ask for, where classes are compared
with all rows, as long as that pays."""
VARIED = 0.1
"""By how much iterations differ in what they find dear (standard deviation of its logarithm)."""
DESCENDING = (16, 4)
"""How many times as long as an iteration there must be time for that lattice-descending recoding
is worth it; and where groups are large and not compared with all rows."""
SAME = 1e-8
"""Shares of rows that differ by less are the same."""
PARTING = 20
"""A group that fails when rows are left out loses one piece in so many at a time."""
TRIED = 8
"""Passes after which searches from two starts are compared."""
CLUSTERED = 8_000
"""Entries up to which k-member clustering is one of the starts: its time grows with the square.
Tables that are so large that it cuts them into parts have it as a start again."""
MOST_WORK = 2_000_000_000
"""Entries times nodes of the lattice up to which a bound is computed without a time limit."""
MOST_PLACES = 40_000_000
"""Entries that the listed classes together may have; 4 bytes each."""
REACHES = ((2.0, 1 / 8), (1.5, 1 / 25), (1.2, 1 / 40))
"""How far prices may rise: times the least a row can lose, plus a share of losing everything.
Classes that cost more than that for all their rows need not be listed."""
STEPS = 150
_FINE = 1 << 40
_SAFE = 1e-9
"""More than what floating point may add to a sum, as a share of it."""


def solve(problem: Problem) -> Solution:
    """Improve the best start until nothing gains or the time budget is spent.

    Options: ``loss`` (``certainty`` or ``height``); ``bound`` (``none``, or ``lp`` to prove how
    little any recoding with these trees can lose: with a time limit, that takes half of it);
    ``rounds``, after which the search ends, time or not; ``suppression_limit``, the share of rows
    that may be left out where that loses less (default 0).
    """
    bound = str(problem.options.get("bound", "none"))
    if bound not in BOUNDS:
        raise ParameterError(f"there is no bound `{bound}`", remedy=did_you_mean(bound, BOUNDS))
    if bound == "none":
        return _searched(replace(problem, budget=problem.budget.part(1 - SPARED)))
    refused = _unbounded(problem)
    if most_left_out(problem):
        refused = ("the bound does not cover rows that may be left out", "Give one of both.")
    if refused is not None:
        raise ParameterError(refused[0], remedy=refused[1])
    half = replace(problem, budget=problem.budget.part(SEARCHING))
    return _bounded(problem, _searched(half))


def _searched(problem: Problem) -> Solution:
    blocks = allowed_blocks(problem)
    starts = _starts(problem, blocks, _loss(problem))
    all_in = _with_everybody(starts)
    found = _improved(problem, blocks, starts)
    if all_in and problem.budget.seconds is None:
        options = {name: x for name, x in problem.options.items() if name != "suppression_limit"}
        other = _improved(replace(problem, options=options), blocks, all_in)
        if other.details["loss_after"] <= found.details["loss_after"]:
            return other
    return found


def _with_everybody(starts: dict[str, tuple[float, Search]]) -> dict[str, tuple[float, Search]]:
    """Starts that leave out nobody, where others may and so few classes are made that it is chance
    what a search comes to: there nobody shall lose by being allowed to leave rows out."""
    found = {}
    for name, (loss, search) in starts.items():
        if search.most and not search.left_out and _runs(search.problem, search) > 1:
            found[name] = loss, copy.copy(search)
            found[name][1].most = 0
    return found


def _leaving(problem: Problem) -> int:
    """Rows that the search may leave out.

    None where persons or people of a population count, nor where rules compare with other rows
    than these: nobody could say what they would compare with then.
    """
    most, rules = most_left_out(problem), problem.rules
    if not most or problem.people is not None or problem.person is not None:
        return 0
    if not compares(rules):
        return most
    own = recounted(rules, rows_of_values(sensitive_of(problem), problem.counts, rules))
    return most if (abs(own.reference - rules.reference) < SAME).all() else 0


def _improved(
    problem: Problem, blocks: Blocks, starts: dict[str, tuple[float, Search]]
) -> Solution:
    """The best start, improved round by round."""
    near = _near(problem, starts)
    start, search, after = _chosen(problem, starts, near)
    rounds, finished, pace, before = 0, None, 0.0, after
    while rounds < _rounds(problem) and not _too_late(problem, search):
        finished = _nothing_left(problem, blocks, after, rounds, gained=after < before)
        if finished:
            break
        passes = _passes(search, rounds, pace)
        brief = rounds or passes < PASSES
        begun, runs = problem.budget.elapsed, 1 if brief else _runs(problem, search)
        names = [start, *(name for name in near if name != start)] if runs > 1 else [start]
        several = [search, *(starts[name][1] for name in names[1:])]
        runs = max(runs * min(len(several), 2), len(several))
        which, search, lost = _best_of(several, problem.seed + rounds, passes, runs)
        start, before, after = names[which], after, lost / _cells(problem)
        pace = (problem.budget.elapsed - begun) / (passes * runs)
        rounds += 1
    if search.left_out and search is not starts[start][1] and _release_more(search):
        after = search.loss() / _cells(problem)
    details = {
        "start": start,
        "loss_before": starts[start][0],
        "loss_after": after,
        "starts": {name: value for name, (value, _) in starts.items()},
        "rounds": rounds,
        **({"finished": finished} if finished else {}),
    }
    out = search.left_out or None
    return search.solution(details=details, stopped_by=problem.budget.stopped_by, left_out=out)


def _too_late(problem: Problem, search: Search) -> bool:
    """Whether there is no time left in which a search could gain anything."""
    budget = problem.budget
    if not budget.spent() and budget.remaining < _beginning(problem, len(search.entry)):
        budget.stopped_by = "time"
    return budget.spent()


def _beginning(problem: Problem, pieces: int) -> float:
    """Seconds that a search needs before it gains."""
    once, each_piece = BEGINNING[problem.rules.k > FEW]
    # a set of values is a bit for each that there is
    shapes = problem.shapes.values()
    bits = sum(shape.size for shape in shapes if isinstance(shape, ValueSets))
    return once + (each_piece + REMEMBERING * (bits // 64)) * pieces


def _near(problem: Problem, starts: dict[str, tuple[float, Search]]) -> list[str]:
    """Other starts that lose little more than the best, where groups are large.

    There it depends on its beginning where a search ends.
    """
    best = min(starts, key=lambda name: starts[name][0])
    known, search = starts[best]
    if problem.rules.k <= FEW or _hurried(search, PASSES):
        return []
    return [
        name
        for name, (lost, _) in starts.items()
        if WORTH * lost < known and name not in (best, "mondrian")
    ]


def _chosen(
    problem: Problem, starts: dict[str, tuple[float, Search]], near: list[str]
) -> tuple[str, Search, float]:
    """The start that a search begins at, improved a little where another might be better; its loss.

    Where more is asked than company, the large classes of lattice-descending recoding are hard to
    improve, and rows that are left out hard to take back. So the small classes of Mondrian, and the
    best start with everybody, are improved a little: if they then lose less than any start does,
    so is the best start, and the search goes on from the best of them. So are those that are near
    the best, unless there are to be several searches anyway. Where even the first round might not
    be finished in time, one pass must do, and is only made if most of what the best start loses is
    rows left out. Whatever is tried may take no longer than what it leaves to the search.
    """
    best = min(starts, key=lambda name: starts[name][0])
    known, search = starts[best]
    worth = {}
    if len(problem.rules.kinds):
        worth = {"mondrian": WORTH} if "mondrian" in starts else {}
        everybody = [name for name, (_, one) in starts.items() if not one.left_out]
        if search.left_out and everybody:
            worth[min(everybody, key=lambda name: starts[name][0])] = 1.0
    if _runs(problem, search) == 1:
        worth |= dict.fromkeys(near, 1.0)
    worth.pop(best, None)
    passes = 1 if _hurried(search, PASSES) else TRIED
    if passes == 1 and 2 * search.left_out * search.everything <= known * _cells(problem):
        return best, search, known
    tried: dict[str, tuple[Search, float]] = {}
    for after, (name, share) in enumerate(worth.items(), -len(worth)):
        if _rounds(problem) and not _too_late(problem, search):
            one = _tried(problem, starts[name][1], passes, 1 / (2 - after))
            if one[1] < share * known:
                tried[name] = one
    if not tried:
        return best, search, known
    tried[best] = _tried(problem, search, passes, 1 / 2)
    chosen = min(tried, key=lambda name: tried[name][1])
    return chosen, *tried[chosen]


def _tried(problem: Problem, search: Search, passes: int, share: float) -> tuple[Search, float]:
    """A search after a few passes, in no more than a share of the time left; and what it loses."""
    tried = copy.copy(search)
    tried.groups = search.groups.copy()
    tried.problem = replace(search.problem, budget=problem.budget.part(share))
    improve(tried, problem.seed, passes)
    tried.problem = search.problem
    return tried, tried.loss() / _cells(problem)


def _runs(problem: Problem, search: Search) -> int:
    """How many searches begin at a start."""
    if problem.rows >= FEW_CLASSES * problem.rules.k:
        return 1
    return max(1, min(RUNS, RUN_PIECES // max(len(search.entry), 1)))


def _best_of(begun: list[Search], seed: int, passes: int, runs: int) -> tuple[int, Search, float]:
    """Improve groupings in turn, from where they are: which was the best, and what it loses now."""
    which, best, least = 0, begun[0], begun[0].loss()
    budget = best.problem.budget

    def improved(run: int) -> tuple[int, Search, float] | None:
        if run and _too_late(best.problem, best):
            return None
        number = run % len(begun)
        own = copy.copy(begun[number])
        own.groups = own.groups.copy()
        improve(own, seed + SEEDS * run, passes)
        # large classes may show more than they must while they are improved: look again
        return number, own, own.loss()

    steps = STEP_WORK * passes * runs * len(best.entry)
    for one in each(improved, range(runs), steps, budget.threads):
        if one is not None and one[2] < least:
            which, best, least = one
    return which, best, least


def _passes(search: Search, rounds: int, pace: float) -> int:
    """Passes of the next round, twice as many as of the last.

    The slower a search cools down, the less is lost in the end; so one that would not be finished
    in time gets all the time that is left, at the pace of the last. Where the first might not, it
    is brief, and shows the pace.
    """
    budget, passes = search.problem.budget, PASSES << min(rounds, DOUBLED)
    if budget.seconds is None:
        return passes
    if pace <= 0.0:
        return 1 if _hurried(search, passes) else passes
    left = max(1, int(budget.remaining / pace))
    return passes if left >= 2 * passes else left


def _hurried(search: Search, passes: int) -> bool:
    """Whether so many passes might not be finished in time."""
    return search.problem.budget.remaining < PASSING * passes * len(search.entry)


def _rounds(problem: Problem) -> float:
    """How many rounds there are at most."""
    asked = problem.options.get("rounds")
    if asked is None:
        return ROUNDS if problem.budget.seconds is None else math.inf
    if not isinstance(asked, int) or asked < 0:
        raise ParameterError("rounds must be a whole number", remedy="Give e.g. rounds=3.")
    return asked


def _nothing_left(
    problem: Problem, blocks: Blocks, loss: float, rounds: int, *, gained: bool = False
) -> str | None:
    """Why no search could lose less, where that is known; None where it is not.

    A proof takes a while: none is looked for as long as rounds gain.
    """
    if loss <= 0.0:
        matters = all(problem.weight(name) for name in problem.qi)
        return "nothing is lost" if matters else "nothing is lost of what matters"
    sizes = np.add.reduceat(problem.counts[blocks.order], blocks.starts[:-1])
    few = problem.people is None and not most_left_out(problem)
    if few and (sizes < 2 * problem.rules.k).all():
        return "there are too few rows for two classes"
    limited = problem.budget.seconds is not None
    if limited != (rounds > 0) or gained or _unbounded(problem) is not None:
        return None
    if _nodes(problem) > (PROVEN // max(len(blocks.order), 1) if rounds else QUICKLY_PROVEN):
        return None
    known = loss * _cells(problem)
    if rounds:
        brief = replace(problem, budget=problem.budget.part(PROVING))
        least = _least_loss(brief, blocks.order, known, _loss(problem))
    else:
        least = _least_alone(_Lattice.of(problem, blocks.order, _loss(problem)), problem.budget)
    proven = least is not None and known <= least * (1 + 1e-6)
    return "no recoding with these trees loses less" if proven else None


def _bounded(problem: Problem, found: Solution) -> Solution:
    """The solution with a loss that no other undercuts."""
    entry = found.entry_of_piece
    kept = np.unique(entry[found.groups >= 0])
    known = float(found.details["loss_after"])
    least = _least_loss(problem, kept, known * _cells(problem), _loss(problem))
    if least is None:
        why = "the time was over" if problem.budget.spent() else "the lattice of levels is large"
        return replace(
            found, warnings=(*found.warnings, f"no bound was proven: {why}; allow more time")
        )
    least /= _cells(problem)
    gap = known / least - 1 if least else None
    return replace(found, lower_bound=least, details={**found.details, "proven_gap": gap})


def _starts(problem: Problem, blocks: Blocks, loss: str) -> dict[str, tuple[float, Search]]:
    """Loss of each start, and the search that begins there.

    Those *without outliers* leave rows out, and lose them whole.
    """
    found: dict[str, tuple[float, Search]] = {}
    most, ground, budget = _leaving(problem), Ground.of(problem, loss), problem.budget
    nobody = Search(problem, blocks, np.full(len(ground.table), -1), ground, most)
    making: list[tuple[float, float]] = []
    for name, groups in _groupings(problem, blocks, ground, loss, most, making):
        begun, search = budget.elapsed, nobody.begun_at(groups)
        # iterations may have compared with other rows than these
        judged = not (search.left_out or (search.most and compares(problem.rules)))
        if judged or (_made_to_hold(search) and search.left_out <= search.most):
            ending = budget.elapsed
            lost = search.loss() / _cells(problem)
            making.append((budget.elapsed - begun, lost))
            if budget.seconds is not None and not found:  # from here on there is an answer
                search.solution()
                budget.seconds -= ENDING * (budget.elapsed - ending)
            if name not in found or lost < found[name][0]:
                found[name] = (lost, search)
    return found


def _made_to_hold(search: Search) -> bool:
    """Leave out rows of groups that fail when compared with what is released; whether all hold.

    Those go first whose values are too common in their group; of groups of k rows, all, and of
    every group when there is no time for another look.
    """
    rules, rows, values = search.problem.rules, search.rows, search.sensitive[search.entry]
    budget, before, took = search.problem.budget, search.problem.budget.elapsed, 0.0
    while compares(rules):
        asked = _compared(search)
        sizes = np.bincount(search.groups[search.groups >= 0], rows[search.groups >= 0])
        good = groups_hold(search.groups, len(sizes), rows, values, asked)
        failing = np.flatnonzero((search.groups >= 0) & ~np.append(good, True)[search.groups])
        if not len(failing):
            break
        names, group = np.unique(search.groups[failing], return_inverse=True)
        tallies = np.zeros((len(names), len(asked.reference)))
        np.add.at(tallies, (group[:, None], values[failing]), rows[failing, None])
        excess = tallies / sizes[names, None] - asked.reference
        order = np.lexsort((-excess[group[:, None], values[failing]].max(axis=1), group))
        many = np.bincount(group)
        first = np.repeat(np.cumsum(many) - many, many)
        slowly = (sizes[names] > rules.k) & (budget.remaining > took)
        most = np.where(slowly, -(-many // PARTING), many)
        search.groups[failing[order][np.arange(len(order)) - first < most[group[order]]]] = -1
        before, took = budget.elapsed, budget.elapsed - before
    _release_more(search)
    return bool((search.groups >= 0).any())


def _compared(search: Search) -> Rules:
    """The rules, compared with what is released."""
    rules, kept = search.problem.rules, np.flatnonzero(search.groups >= 0)
    values = search.sensitive[search.entry[kept]]
    return recounted(rules, rows_of_values(values, search.rows[kept], rules))


def _release_more(search: Search) -> bool:
    """Let what is left out of a block be a group if it may, which loses no more; whether any is."""
    before, out, rules = search.groups, np.flatnonzero(search.groups < 0), search.problem.rules
    if not len(out):
        return False
    entries, blocks = search.entry[out], search.blocks
    block = np.zeros(len(search.table), np.int64)
    block[blocks.order] = np.repeat(np.arange(blocks.count), np.diff(blocks.starts))
    own, values = block[entries], search.sensitive
    good = groups_hold(own, blocks.count, search.rows[out], values[entries], rules)
    if not good.any():
        return False
    many = int(before.max(initial=-1)) + 1
    search.groups = before.copy()
    search.groups[out] = np.where(good[own], many + own, -1)
    given = (many + blocks.count, search.rows, values[search.entry], _compared(search))
    good = groups_hold(search.groups, *given)
    if good[search.groups[search.groups >= 0]].all():
        return True
    search.groups = before
    return False


def _groupings(
    problem: Problem,
    blocks: Blocks,
    ground: Ground,
    loss: str,
    most: int,
    making: Sequence[tuple[float, float]] = (),
) -> Iterator[tuple[str, Array]]:
    """The starts, first those that lose least for the time they take.

    Where there is a time limit those are of iterated global recoding, and the lattice is only
    descended where there seems to be time for that. Where time is over before that has ended, or
    before rows that are left over were placed, Mondrian still follows: it is quick, and loses less
    than what was begun. Where it is quick beside the time there is, it comes first. So it does
    where there are many entries: these are only iterated where there is time for that, all columns
    have trees, and classes are not compared with all rows. Meanwhile `making` tells how long it
    took to make starts of groups, and what these lose.
    """
    plain, budget = replace(problem, options={}), problem.budget

    def leaving(name: str, covered: Array) -> Iterator[tuple[str, Array]]:
        """A grouping that leaves out who has no company, if it may."""
        out = int(problem.counts[covered < 0].sum())
        if 0 < out <= most and out < problem.rows:
            found.append(f"{name} without outliers")
            yield found[-1], covered

    def everybody(name: str, covered: Array, share: float = 1.0) -> Iterator[tuple[str, Array]]:
        """A grouping in which all have their place, if it takes no more than a share of the time
        left to look for it."""
        pairs = float((covered < 0).sum()) * (covered.max(initial=-1) + 1) * len(problem.qi)
        making_it = making[-1][0] if making and limited else 0.0
        if making_it + PLACING[compares(problem.rules)] * pairs <= share * budget.remaining:
            found.append(name)
            yield name, placed(plain, blocks, covered)

    found: list[str] = []
    crowded, limited = problem.rules.k > FEW, budget.seconds is not None
    trees = all(isinstance(shape, EncodedHierarchy) for shape in problem.shapes.values())
    slow, large = 0.0, len(blocks.order) >= SHARED
    iterating = (crowded or limited or most) and Iteration.possible(problem)
    if large and limited and trees and iterating and not compares(problem.rules):
        large = budget.remaining < ITERATING * len(blocks.order) * len(problem.qi) ** 2
    cutting = [CUTTING[0] + each_entry * len(blocks.order) for each_entry in CUTTING[1]]
    cut = large or (limited and cutting[0] < SOON * budget.remaining)
    if cut:
        yield "mondrian", _cut(plain, blocks)
    if iterating and not large:
        whole, known = None, list[Array]()
        for name, covered, taken, last in _iterated(plain, blocks, ground, most, making):
            slow, answered = slow or taken, cut or bool(found)
            if compares(problem.rules) and not (last or answered):  # that is long made to hold
                yield from everybody(name, covered, PLACED)
                whole = covered if found else None
            if (answered or whole is None) and not any(covered is one for one in known):
                known.append(covered)
                yield from leaving(name, covered)
                if compares(problem.rules) and whole is None:
                    yield from everybody(name, covered, PLACED)
                    whole = covered if name in found else None
            nobody_left = (covered[blocks.order] >= 0).all()
            if covered is not whole and (last or nobody_left or not (cut or found)):
                whole = covered
                yield from everybody(name, covered)
    if slow and limited and not cut:
        cut = True
        if not found or budget.remaining >= cutting[trees]:
            yield "mondrian", _cut(plain, blocks)
    if (cut and budget.spent()) or (
        limited and budget.remaining < DESCENDING[crowded and not compares(problem.rules)] * slow
    ):
        return
    brief = replace(plain, budget=budget.part(STARTING))
    covered = covering_groups(brief, blocks, needed=not cut)
    good = brief.budget.stopped_by is None
    if good or not cut:
        yield from leaving("lattice", covered)
        yield from everybody("lattice", covered)
    if not (cut or (good and "lattice" in found and budget.spent())):
        yield "mondrian", _cut(plain, blocks)
    if not (trees or CLUSTERED < len(blocks.order) <= EXACT or budget.spent()):
        budget.progress("clustering")
        yield "kmember", clustered_groups(problem, blocks, loss)[0]


def _iterated(
    problem: Problem,
    blocks: Blocks,
    ground: Ground,
    most: int,
    making: Sequence[tuple[float, float]],
) -> Iterator[tuple[str, Array, float, bool]]:
    """Groups of iterations, how long the first took, and whether these are the last of a kind.

    With a time limit, the first, so that there is an answer, and the best of those that there is
    time for: one that is as fine as can be, a coarse one and, where there is no time for a search
    anyway, others that differ a little. Where classes are compared with all rows, a brief look at
    the lattice comes first; where rows may be left out, some follow that ask for more closeness
    than they need, or compare with what was released before, since classes are compared anew then.
    They end where two in turn lost no less, or no class holds but that of all. Where groups are
    large, coarse ones that differ a little follow, until two in turn lost no less again. Without a
    limit, the finest, and where groups are large the best of several coarse ones.
    """
    iteration, budget = Iteration(problem, blocks, ground[:2]), problem.budget
    random, rules = np.random.default_rng(problem.seed), problem.rules
    first, chosen, answer, best = 0.0, np.ones(len(problem.qi)), None, math.nan
    limited = budget.seconds is not None
    compared = limited and compares(rules)
    anew, crowded = compared and most > 0, rules.k > FEW
    coarse = max(-(-problem.rows // COARSE[not limited]), 1)
    ways = WAYS if crowded or limited else 0
    # where values are scarcer than company, fine steps take those that others need later
    scarce = (2 * rules.values[rules.kinds == DISTINCT] > rules.k).any()
    second, held, met, idle = int(limited and not compared and scarce), math.inf, rules, 0
    stricter = anew
    for way in range((1 + (anew and crowded)) * ways + 1):
        before, charges = budget.elapsed, chosen
        if way > 1 and not stricter:
            charges = chosen * np.exp(VARIED * random.normal(size=len(problem.qi)))
        least = 1 if way == second or (compared and way < 2) or stricter else coarse
        # to make a start of groups takes about as long as to make ready, until it is known
        following = making[-1][0] if making else budget.elapsed
        seconds = max(budget.remaining - following, budget.remaining / 2)
        # in turn compared with all rows, more and more strictly, and with those the second released
        brief, again = compared and not way, stricter and way > 2 and way % 2 == 1
        strict = 1 - STRICTER * ((way - 2 * again) // 2) if stricter and way > 1 else 1.0
        groups = iteration.groups(
            least, seconds, charges, monotone=brief, strict=strict, rules=met if again else rules
        )
        met = _met(problem, ground, groups) if anew and way == 1 else met
        taken = budget.elapsed - before
        first = first or taken
        if not limited and not way:
            yield "iterated", groups, first, True
        elif answer is None:
            answer = groups
        else:
            best = _lost(problem, ground, answer) if math.isnan(best) else best
            if (lost := _lost(problem, ground, groups)) < best:
                best, answer, chosen = lost, groups, chosen if anew else charges
        if limited:
            if budget.remaining < taken + following or (anew and way and _is_one(groups, blocks)):
                break
            enough = way > 0
            if not way or anew:
                judged = len(making)
                yield "iterated", groups, first, anew and not stricter
                following = sum(took for took, _ in making[judged:]) or following
                lost = min((lost for _, lost in making[judged:]), default=math.inf)
                chosen = charges if lost < held else chosen
                idle, held = (idle + 1) * (lost >= held), min(held, lost)
                enough = way > 2 and idle > 1
                if answer is not None and enough and stricter and crowded:
                    yield "iterated", answer, first, True
                    held = min([held, *(lost for _, lost in making[judged:])])
                    stricter, enough, idle = False, False, 0
            left, searching = budget.remaining - following, _beginning(problem, problem.rows)
            if left < taken or (
                left > searching and (enough or (way and left - taken - following < searching))
            ):
                break
    if answer is not None:
        yield ("iterated" if limited else "coarse"), answer, first, True


def _is_one(groups: Array, blocks: Blocks) -> bool:
    """Whether all share one group: then no other class holds, nor would it if more were asked."""
    return bool((groups[blocks.order] == 0).all())


def _met(problem: Problem, ground: Ground, groups: Array) -> Rules:
    """The rules, compared with the entries that are in groups."""
    kept = np.flatnonzero(groups >= 0)
    values, counts = ground.sensitive[kept], problem.counts[kept]
    return recounted(problem.rules, rows_of_values(values, counts, problem.rules))


def _lost(problem: Problem, ground: Ground, groups: Array) -> float:
    """What groups of entries lose; those in none lose all that matters."""
    kept, counts = np.flatnonzero(groups >= 0), problem.counts
    given = (ground.table, kept, counts[kept], groups[kept], int(groups.max(initial=-1)) + 1)
    lost = float(total_loss(*ground.prices, *given)) / _cells(problem)
    return lost + 1 - int(counts[kept].sum()) / problem.rows


def _nodes(problem: Problem) -> int:
    """How many nodes the lattice of levels has."""
    return math.prod(len(level_groups(shape)) for shape in problem.shapes.values())


def _cut(problem: Problem, blocks: Blocks) -> Array:
    problem.budget.progress("cutting")
    return cut_groups(replace(problem, budget=problem.budget.part(STARTING)), blocks)


def _loss(problem: Problem) -> str:
    return str(problem.options.get("loss", "certainty"))


def _cells(problem: Problem) -> float:
    """Cells by weight, of which a loss is a share; 1 where no column matters and none is lost."""
    weights = [problem.weight(name) for name in problem.qi]
    return float(max(problem.rows, 1) * np.sum(weights)) or 1.0


def _unbounded(problem: Problem) -> tuple[str, str] | None:
    """Why the bound does not cover a problem, and the remedy."""
    for name in problem.qi:
        if not isinstance(problem.shapes[name], EncodedHierarchy):
            return (
                f"the bound needs a hierarchy for every column, and `{name}` has none",
                "Give hierarchies (missing ones are inferred), or drop bound=lp.",
            )
    if problem.people is not None:
        return "the bound does not cover k-map", "Drop bound=lp."
    return None


def _least_loss(
    problem: Problem, kept: Array, known: float, loss: str = "certainty"
) -> float | None:
    """A loss, summed over rows and columns, that no recoding of these entries undercuts.

    Parameters
    ----------
    kept
        The entries that are released.
    known
        What a known solution loses.
    loss
        See `prices_of`.

    Returns
    -------
    float or None
        None where the time was over before anything was proven, or where the lattice is too large
        and there is no time limit.
    """
    budget = problem.budget
    lattice = _Lattice.of(problem, kept, loss)
    if lattice.work > MOST_WORK and budget.seconds is None:
        return None
    least = _cheapest(lattice, budget)
    if least is None:
        return None
    proven = _sum(lattice, least)
    if proven >= known * (1 - 2 * _SAFE):
        return proven
    for times, share in REACHES:
        highest = np.minimum(times * least + share * lattice.everything, lattice.everything)
        classes = _listed(lattice, highest, budget)
        if classes is not None:
            break
    else:
        return proven
    found = ascend(
        lattice.counts, lattice.k, *classes, least, known, budget.part(0.5), STEPS, highest
    )
    return max(proven, _certified(lattice, found.prices, budget) or 0.0)


@dataclass(frozen=True, eq=False)
class _Lattice:
    """What entries look like on each level of each column, and what that loses.

    Attributes
    ----------
    labels, cardinalities, losses
        For each column and level: the group of each entry, the number of groups, and the loss.
    counts, k
        Rows of each entry, and how many a group needs.
    everything
        The loss of a row that shows nothing.
    """

    labels: list[list[Array]]
    cardinalities: list[list[int]]
    losses: list[list[Array]]
    counts: Array
    k: int
    everything: float

    @classmethod
    def of(cls, problem: Problem, kept: Array, loss: str) -> _Lattice:
        prices = prices_of(problem, loss)
        table = positions_of(problem)[kept]
        columns = tuple(np.ascontiguousarray(column) for column in table.T)
        sizes = tuple(problem.shapes[name].size for name in problem.qi)
        ids, count = kernels.class_ids(columns, sizes, entries=len(table))
        first = kernels.representatives(ids, count)  # sensitive values do not matter here
        labels, cardinalities, losses = [], [], []
        for axis, name in enumerate(problem.qi):
            at = columns[axis][first]
            price = prices.floats[prices.head[axis, PRICE] :]
            nodes = [groups[at] for groups in level_groups(problem.shapes[name])]
            seen = [np.unique(node, return_inverse=True) for node in nodes]
            # a level that changes nothing here would double the lattice
            new = [i for i, node in enumerate(nodes) if not i or (node != nodes[i - 1]).any()]
            labels.append([seen[i][1].astype(np.uint32) for i in new])
            cardinalities.append([len(seen[i][0]) for i in new])
            losses.append([price[nodes[i]] for i in new])
        return cls(
            labels,
            cardinalities,
            losses,
            kernels.group_sums(ids, count, problem.counts[kept]),
            problem.rules.k,
            float(sum(column[-1].max(initial=0.0) for column in losses)),
        )

    @property
    def work(self) -> int:
        """Entries times nodes."""
        return len(self.counts) * self.size

    @property
    def size(self) -> int:
        """Number of nodes."""
        return math.prod(len(column) for column in self.labels)

    def nodes(
        self, below: Array, budget: Budget, doing: str
    ) -> Iterator[tuple[tuple[int, ...], Array]]:
        """Nodes where some entry loses less than its limit, and the loss of each entry there.

        Ends early with the budget, so whoever needs all of them asks it.
        """
        nodes = self.size
        for at, levels in enumerate(product(*(range(len(column)) for column in self.labels))):
            if at % 64 == 0:
                budget.progress(doing, at / nodes)
            if budget.spent():
                return
            loss = np.zeros(len(self.counts))
            for column, level in zip(self.losses, levels, strict=True):
                loss += column[level]
            if (loss < below).any():
                yield levels, loss

    def classes(self, levels: tuple[int, ...]) -> tuple[Array, int]:
        """Class of each entry at a node, and their number."""
        return kernels.class_ids(
            [column[level] for column, level in zip(self.labels, levels, strict=True)],
            [column[level] for column, level in zip(self.cardinalities, levels, strict=True)],
        )


def _least_alone(lattice: _Lattice, budget: Budget) -> float | None:
    """What rows lose at least, each by itself, summed; None if the time was over."""
    least = _cheapest(lattice, budget)
    return None if least is None else _sum(lattice, least)


def _sum(lattice: _Lattice, least: Array) -> float:
    return float((lattice.counts * least).sum()) * (1 - _SAFE)


def _cheapest(lattice: _Lattice, budget: Budget) -> Array | None:
    """The least each entry can lose in any class of k rows."""
    least = np.full(len(lattice.counts), lattice.everything)
    for levels, loss in lattice.nodes(least, budget, "finding the least losses"):
        ids, count = lattice.classes(levels)
        enough = kernels.group_sums(ids, count, lattice.counts) >= lattice.k
        np.minimum(least, loss, out=least, where=enough[ids])
    return None if budget.spent() else least


def _listed(lattice: _Lattice, highest: Array, budget: Budget) -> tuple[Array, Array, Array] | None:
    """Closed classes of k rows some of which may be priced above their loss.

    Where the entries of each begin, the entries, and the loss of a row; None where they are too
    many, or the time was over. A class is closed if no column could go down a level: otherwise a
    cheaper one has the same rows.
    """
    starts, members, losses, places = [np.zeros(1, np.int64)], [], [], 0
    for levels, loss in lattice.nodes(highest, budget, "listing classes"):
        ids, count = lattice.classes(levels)
        wanted = kernels.group_sums(ids, count, lattice.counts) >= lattice.k
        reached = np.zeros(count, dtype=bool)
        reached[ids[loss < highest]] = True
        wanted &= reached
        for column, level in zip(lattice.labels, levels, strict=True):
            if level and wanted.any():
                finer = column[level - 1]
                lowest, most = (
                    f(ids, count, finer) for f in (kernels.group_min, kernels.group_max)
                )
                wanted &= lowest != most
        order, begin = kernels.group_rows(ids, count)
        sizes = np.diff(begin)
        members.append(order[np.repeat(wanted, sizes)].astype(np.int32))
        starts.append(sizes[wanted])
        losses.append(loss[order[begin[:-1]]][wanted])
        places += len(members[-1])
        if places > MOST_PLACES:
            return None
    if budget.spent() or not members:
        return None
    return np.cumsum(np.concatenate(starts)), np.concatenate(members), np.concatenate(losses)


def _certified(lattice: _Lattice, prices: Array, budget: Budget) -> float | None:
    """What prices prove after they are lowered until no class is overpriced, None if unfinished."""
    scale = min(float(_FINE), 2.0**60 / (lattice.k * lattice.everything)) / lattice.everything
    whole = np.floor(prices * scale).astype(np.int64)
    for levels, loss in lattice.nodes(prices, budget, "proving the bound"):
        ids, count = lattice.classes(levels)
        order, begin = kernels.group_rows(ids, count)
        order = order.astype(np.int64)  # as cell suppression has them: compiled once for both
        sizes = kernels.group_sums(ids, count, lattice.counts)
        # rounded down, so that no class seems to cost more than it does
        costs = np.floor(loss[order[begin[:-1]]] * scale * (1 - _SAFE)).astype(np.int64)
        lower_classes(order, begin, sizes, lattice.counts, lattice.k, costs, whole)
    if budget.spent():
        return None
    return float(lattice.counts @ (whole / scale)) * (1 - _SAFE)
