"""What every anonymizer gets and gives back.

A *problem* is the distinct combinations of quasi-identifiers (and sensitive values) with their
counts, how each column may be blurred, and what must hold. A *solution* puts the rows into groups
and says what each group shows. Methods differ only in how they get from one to the other, and none
of them sees a table, an engine or a file.

For compiled loops the quasi-identifiers are a space that can be cut and clustered: every column
becomes an axis, values have positions on it, and groups of neighbouring positions are what can be
published. On the axis of a tree the leaves below a node are one run of positions.

*Blocks* are rows that may share a group. Without boundaries there is one block. With boundaries the
blocks are the classes of the maximum allowed microdata, in which every value is as blurred as it
may ever be (Miller, Campan & Truta, Definition 9). A block that is too small can be released by
nobody (Property 6), every other one can be (Property 5), so leaving out the failing ones is the
least suppression for k-anonymity; likewise for distinct l-diversity and p-sensitivity, which no
subset of a failing block can satisfy. For the other models a part of a failing block might hold:
there the suppression need not be the least.

Leaving out a block changes what t-closeness measures: `verify` compares classes with the
distribution of the rows that were released, so the others must not count. Blocks are therefore left
out until those that remain hold against the distribution of what remains, before a method starts,
and the method works on nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt

from sfumato.budget import Budget, each
from sfumato.engines.protocol import Codes, usual_dtype
from sfumato.errors import ParameterError
from sfumato.hierarchy import EncodedHierarchy, Limit, Published, Ranges, ValueSets
from sfumato.hierarchy.ranges import published_ranges
from sfumato.hierarchy.tree import Array
from sfumato.kernels import group_sums
from sfumato.privacy import (
    ClassHistogram,
    Counted,
    Model,
    Rules,
    SensitiveColumn,
    compares,
    recounted,
)
from sfumato.privacy.rules import groups_hold, held, holds
from sfumato.utility import View

if TYPE_CHECKING:
    from sfumato.anonymization.actions import Merged


Shape = EncodedHierarchy | Ranges | ValueSets
"""How a column may be blurred: up a tree, into ranges, or into sets of values."""


def largest_sets(sets: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    """Sets that are no part of another: what holds for those holds for their parts.

    Examples
    --------
    >>> largest_sets([("age",), ("age", "zip"), ("zip", "age"), ("age", "job")])
    (('age', 'zip'), ('age', 'job'))
    """
    kept: list[tuple[str, ...]] = []
    for at, names in enumerate(sets):
        inside = any(set(names) < set(other) for other in sets)
        again = any(set(names) == set(other) for other in sets[:at])
        if not inside and not again:
            kept.append(names)
    return tuple(kept)


@dataclass(frozen=True, eq=False)
class Problem:
    """The rows to be grouped, and the rules.

    Parameters
    ----------
    entries
        Distinct combinations of the quasi-identifiers followed by the sensitive columns, with
        counts.
    qi, sensitive
        Names of the columns of `entries`, in their order there.
    sets
        Sets of quasi-identifiers for each of which the rules must hold; for all of them together
        where none are given. Of the methods only those that judge several sets are given them.
    shapes
        For every quasi-identifier, how it may be blurred.
    rules
        The privacy models asked, compiled; `rules.k` is the least size of a group.
    weights
        Importance of precision of each quasi-identifier (price of a star for cell suppression).
    limits
        How far values may be blurred at most, by column.
    crowd
        Distinct combinations of the quasi-identifiers in a population, with counts, in the codes of
        `entries`: every group must match enough of its people (k-map). Methods never see it: they
        get a problem that holds the people among its entries (see `preparing.with_people`).
    people
        Which entries are people of the population and not rows to be released.
    person
        The column of `entries` that says whose rows an entry is, where persons are counted: its
        codes are the runs of `rules` (see `sfumato.anonymization.persons`).
    apart
        A number for each entry; entries with different ones never share a group.
    options
        What only this method understands, already validated by it.
    original, merged
        Entries as the table has them, and how they became `entries`, where actions changed values;
        methods need neither.
    histories
        Where persons are counted, the entries as the table has them with the person beside them.
    inferred
        For each column whose tree was inferred, why it looks as it does.
    held
        By quasi-identifier, how many rows (or persons, where those count) hold each value.
    wildcards
        Whether missing and starred cells match any value, of which a method may make use.
    part
        Whether the entries are part of a table that is solved in parts: rules compare with the
        distribution of the whole, and columns are written in the types that other parts write.
    """

    entries: Codes
    qi: tuple[str, ...]
    sensitive: tuple[str, ...]
    shapes: Mapping[str, Shape]
    rules: Rules
    weights: Mapping[str, float] = field(default_factory=dict)
    limits: Mapping[str, Limit] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)
    seed: int = 0
    sets: tuple[tuple[str, ...], ...] = ()
    person: str | None = None
    apart: npt.NDArray[Any] | None = None
    crowd: Codes | None = None
    people: npt.NDArray[np.bool_] | None = None
    original: Codes | None = None
    merged: Merged | None = None
    histories: Codes | None = None
    inferred: Mapping[str, str] = field(default_factory=dict)
    held: Mapping[str, npt.NDArray[np.int64]] = field(default_factory=dict)
    wildcards: bool = False
    part: bool = False

    @property
    def source(self) -> Codes:
        """Entries as the table has them."""
        return self.entries if self.original is None else self.original

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Rows each entry stands for."""
        return self.entries.row_counts

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.entries.rows

    @cached_property
    def rows_of_values(self) -> dict[str, npt.NDArray[np.int64]]:
        """By quasi-identifier, how many rows hold each value."""

        def held(name: str) -> npt.NDArray[np.int64]:
            size = len(self.entries.values_of(name))
            return group_sums(self.entries.column(name), size, self.counts)

        cells = self.entries.entries * len(self.qi)
        return dict(zip(self.qi, each(held, self.qi, cells), strict=True))

    def weight(self, column: str) -> float:
        """Importance of a quasi-identifier; 1 unless the user said otherwise."""
        return self.weights.get(column, 1.0)


class KeptGroups(TypedDict):
    """How much of an earlier release's groups a solution shows again."""

    release: str
    groups: int
    groups_kept: int
    rows_in_kept_groups: int
    new_groups: int
    rows_in_new_groups: int
    rows_left_out: int


class ShownHistories(TypedDict):
    """What a solution shows of whole histories, of which any m rows may be known."""

    m: int | str
    own: list[str]
    events: list[str]
    contradictions: dict[str, int]
    rows: int
    rows_left_out: int
    rows_shown_once: int
    persons: int
    persons_left_out: int
    ncp_own: float | None
    ncp_events: float | None
    support_error: float | None


@dataclass(frozen=True, eq=False)
class Solution:
    """Groups of rows, and what each group shows.

    Parameters
    ----------
    groups
        Group of each piece, -1 where its rows are suppressed. A piece is an entry, or some of the
        rows of an entry where `entry` and `rows` say so.
    published
        What a quasi-identifier shows for each group, where it is blurred.
    starred
        For each group whether a quasi-identifier is starred; elsewhere its value stays. A column
        is in `published`, in `starred`, or untouched.
    entry, rows
        Which entry a piece belongs to (ascending) and how many of its rows it takes; None when
        piece i is the whole of entry i.
    lower_bound
        Proven lower bound of the cost the method minimises.
    left_out
        Rows that the method left out by choice, where it did: it has compared classes with the
        distribution of the others.
    like, linkable
        What was kept of an earlier release's groups, and what whole histories show, where asked.
    details
        Further results, only shown to the user.
    solves
        The problem, once the solution is the answer to a request.
    """

    groups: npt.NDArray[np.int32]
    published: Mapping[str, Published] = field(default_factory=dict)
    starred: Mapping[str, npt.NDArray[np.bool_]] = field(default_factory=dict)
    entry: npt.NDArray[np.int64] | None = None
    rows: npt.NDArray[np.int64] | None = None
    lower_bound: float | None = None
    left_out: int | None = None
    like: KeptGroups | None = None
    linkable: ShownHistories | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    stopped_by: str | None = None
    warnings: tuple[str, ...] = ()
    solves: Problem | None = field(default=None, repr=False)

    @property
    def problem(self) -> Problem:
        """The problem that was solved."""
        assert self.solves is not None
        return self.solves

    @property
    def entry_of_piece(self) -> npt.NDArray[np.int64]:
        """The entry that each piece belongs to, also where pieces are whole entries."""
        return np.arange(len(self.groups)) if self.entry is None else self.entry

    def rows_of_pieces(self, problem: Problem) -> npt.NDArray[np.int64]:
        """The rows of each piece, also where pieces are whole entries."""
        return problem.counts if self.rows is None else self.rows

    @property
    def told(self) -> dict[str, Any]:
        """What is told of it beyond the fields that every release has."""
        named = {"left_out": self.left_out, "like": self.like, "linkable": self.linkable}
        return {**self.details, **{name: one for name, one in named.items() if one is not None}}

    @cached_property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Rows of each group; with several sets a class of one set may be many groups."""
        return _group_sizes(self.problem, self)

    @cached_property
    def view(self) -> View:
        """The groups as measures of utility read them."""
        return group_view(self.problem, self)

    def view_of(self, names: tuple[str, ...]) -> View:
        """The same with the columns of one set only, whose classes are what it promises."""
        if set(names) == set(self.view.columns):
            return self.view
        return View(
            {name: self.view.original[name] for name in names},
            {name: self.view.published[name] for name in names},
            self.view.counts,
        )


def _group_sizes(problem: Problem, solution: Solution) -> npt.NDArray[np.int64]:
    """Rows of each group."""
    groups, rows = solution.groups, solution.rows_of_pieces(problem)
    kept = groups >= 0
    if not kept.all():
        groups, rows = groups[kept], rows[kept]
    return group_sums(groups, int(groups.max(initial=-1)) + 1, rows)


def group_view(problem: Problem, solution: Solution) -> View:
    """Groups in place of rows; all suppressed rows are one entry that shows nothing.

    The original codes of a view are of no use here and are left zero.
    """
    sizes = solution.sizes if solution.solves is problem else _group_sizes(problem, solution)
    shown = np.flatnonzero(sizes)
    counts = sizes[shown]
    left_out = problem.rows - int(counts.sum())
    if left_out:
        shown, counts = np.append(shown, -1), np.append(counts, left_out)
    member = np.zeros(len(sizes), dtype=np.int64)  # any piece of each group
    if not set(problem.qi) <= set(solution.published):
        kept = np.flatnonzero(solution.groups >= 0)
        member[solution.groups[kept]] = kept
    entry = member if solution.entry is None else solution.entry[member]
    every = np.arange(len(sizes))

    def taken(name: str) -> Published:
        return _of_groups(problem, solution, name, entry, every).take(shown)

    cells = len(problem.qi) * len(sizes)
    published = dict(zip(problem.qi, each(taken, problem.qi, cells), strict=True))
    return View(dict.fromkeys(published, np.zeros(len(counts), np.int64)), published, counts)


def piece_view(problem: Problem, solution: Solution) -> View:
    """Entries (or pieces of them) with their original codes and what they show."""
    pieces = len(solution.groups)
    entry = solution.entry_of_piece
    left_out = solution.groups < 0
    original, published = {}, {}
    for name in problem.qi:
        original[name] = problem.entries.column(name)[entry].astype(np.int64)
        if name in solution.published:
            published[name] = solution.published[name].take(solution.groups)
        else:
            column = _of_groups(problem, solution, name, entry, solution.groups)
            published[name] = column.take(np.where(left_out, -1, np.arange(pieces)))
    return View(original, published, solution.rows_of_pieces(problem))


def _of_groups(
    problem: Problem, solution: Solution, name: str, entry: Array, groups: Array
) -> Published:
    """What a column shows: blurred, starred or as it was."""
    if name in solution.published:
        return solution.published[name]
    stars = np.zeros(len(groups), dtype=bool)
    if name in solution.starred:
        stars = (groups >= 0) & solution.starred[name][groups]
    codes = problem.entries.column(name)[entry]
    return Published.starred(problem.entries.values_of(name), codes, stars)


LINE, TREE = 0, 1


class Axes(NamedTuple):
    """All axes in flat arrays; what belongs to axis j starts at ``offsets[j]``.

    Attributes
    ----------
    kinds
        LINE for ranges and sets of values, TREE for hierarchies.
    sizes
        Number of positions.
    offsets, places
        Where positions of an axis start; place of each position on a line from 0 to 1 (what
        has no place among numbers lies beyond 1).
    node_offsets, parent, first, last, loss
        Nodes of the trees, with the positions they cover and the loss of showing them.
    leaf
        Node of each position.
    """

    kinds: Array
    sizes: Array
    offsets: Array
    places: Array
    node_offsets: Array
    parent: Array
    first: Array
    last: Array
    loss: Array
    leaf: Array


def axes_of(problem: Problem) -> Axes:
    """The axes of a problem, in the order of its quasi-identifiers."""
    kinds, sizes, places, leaf = [], [], [], []
    trees: list[tuple[Array, ...]] = []
    for name in problem.qi:
        shape = problem.shapes[name]
        sizes.append(shape.size)
        if isinstance(shape, EncodedHierarchy):
            kinds.append(TREE)
            places.append(np.zeros(shape.size))
            leaf.append(shape.order)
            trees.append((shape.parent, shape.first, shape.last, shape.loss))
        else:
            kinds.append(LINE)
            places.append(_places(shape))
            leaf.append(np.zeros(shape.size, dtype=np.int32))
            trees.append((np.zeros(0, dtype=np.int32),) * 3 + (np.zeros(0),))
    columns = [np.concatenate(part) for part in zip(*trees, strict=True)]
    return Axes(
        kinds=np.array(kinds, dtype=np.int64),
        sizes=np.array(sizes, dtype=np.int64),
        offsets=_starts([len(part) for part in places]),
        places=np.concatenate(places),
        node_offsets=_starts([len(tree[0]) for tree in trees]),
        parent=columns[0].astype(np.int64),
        first=columns[1].astype(np.int64),
        last=columns[2].astype(np.int64),
        loss=columns[3].astype(np.float64),
        leaf=np.concatenate(leaf).astype(np.int64),
    )


def _places(shape: Ranges | ValueSets) -> Array:
    if isinstance(shape, ValueSets):
        return np.arange(shape.size) / max(shape.size - 1, 1)
    on_line = (shape.points - shape.points[:1]) / (shape.width or 1.0)
    beyond = 2.0 + np.arange(shape.size - len(on_line))
    return np.concatenate([on_line, beyond])


def _starts(sizes: list[int]) -> Array:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def positions_of(problem: Problem) -> Array:
    """Position of every entry on every axis, one row an entry."""
    shapes = [problem.shapes[name] for name in problem.qi]
    size = (problem.entries.entries, len(shapes))
    widest = usual_dtype(max((shape.size for shape in shapes), default=1), math.prod(size))
    table = np.empty(size, dtype=widest)
    for at, (name, shape) in enumerate(zip(problem.qi, shapes, strict=True)):
        codes = problem.entries.column(name)
        table[:, at] = codes if isinstance(shape, ValueSets) else shape.position[codes]
    return table


def sensitive_of(problem: Problem) -> Array:
    """Where the sensitive values of every entry are counted, and its persons; one row an entry."""
    persons = problem.person is not None
    table = np.empty((problem.entries.entries, len(problem.sensitive) + persons), dtype=np.int64)
    for at, name in enumerate(problem.sensitive):
        table[:, at] = problem.entries.column(name) + problem.rules.offsets[at]
    if problem.person is not None:
        table[:, -1] = problem.entries.column(problem.person)
    return table


def published_groups(
    problem: Problem,
    groups: Array,
    count: int,
    entry: Array | None = None,
    rows: Array | None = None,
) -> dict[str, Published]:
    """What each group shows on each axis: its lowest ancestor, range or set of values.

    `groups` has one number a piece, -1 for suppressed ones; `entry` says which entry a piece is
    of, where pieces are not entries, and `rows` how many of its rows it takes.
    """
    if rows is None:
        rows = problem.counts if entry is None else problem.counts[entry]
    kept = groups >= 0
    sizes = np.bincount(groups[kept], rows[kept], count)

    def showing(name: str) -> Published | tuple[Ranges, Array, Array]:
        codes = problem.entries.column(name)
        codes = codes if entry is None else codes[entry]
        shape = problem.shapes[name]
        if isinstance(shape, EncodedHierarchy):
            return shape.published(shape.lca(codes, groups, count))
        if isinstance(shape, Ranges):
            return (shape, *shape.spans(codes, groups, count))
        return shape.published(*shape.collect(codes, groups, count))

    cells = len(groups) * len(problem.qi)
    found = each(showing, problem.qi, cells, problem.budget.threads)
    return with_ranges(problem, dict(zip(problem.qi, found, strict=True)), sizes)


def with_ranges(
    problem: Problem,
    found: Mapping[str, Published | tuple[Ranges, Array, Array]],
    rows: Array,
) -> dict[str, Published]:
    """What groups of so many rows show in all columns, given spans in place of ranges."""
    shown = {name: one for name, one in found.items() if isinstance(one, Published)}
    ranges = {name: one for name, one in found.items() if not isinstance(one, Published)}
    if ranges:
        lost = 0.0
        for published in shown.values():
            there = published.codes >= 0
            lost += float((rows[there] * published.loss[published.codes[there]]).sum())
        shown |= published_ranges(ranges, rows, lost)
    return {name: shown[name] for name in problem.qi}


def grouped(problem: Problem, groups: Array, **facts: Any) -> Solution:
    """The solution that puts whole entries into groups; empty group numbers are closed up."""
    kept = groups >= 0
    used = np.zeros(int(groups.max(initial=-1)) + 1, dtype=np.int32)
    used[groups[kept]] = 1
    count = int(used.sum())
    closed = np.full(len(groups), -1, dtype=np.int32)
    closed[kept] = (np.cumsum(used) - 1)[groups[kept]]
    return Solution(closed, published_groups(problem, closed, count), **facts)


def pieced(problem: Problem, entry: Array, rows: Array, groups: Array, **facts: Any) -> Solution:
    """The solution that puts some rows of an entry here and some there.

    Pieces come with their entry, their rows and their group; those of one entry in one group become
    one piece.
    """
    count = int(groups.max(initial=-1)) + 1
    keys, inverse = np.unique(entry * (count + 1) + (groups + 1), return_inverse=True)
    joined = np.bincount(inverse, weights=rows).astype(np.int64)
    piece_entry, group = np.divmod(keys, count + 1)
    piece_groups = group - 1
    if len(keys) == problem.entries.entries:
        return grouped(problem, piece_groups, **facts)
    kept = piece_groups >= 0
    _, dense = np.unique(piece_groups[kept], return_inverse=True)
    closed = np.full(len(keys), -1, dtype=np.int32)
    closed[kept] = dense
    count = int(dense.max(initial=-1)) + 1
    shown = published_groups(problem, closed, count, piece_entry, joined)
    return Solution(closed, shown, entry=piece_entry.astype(np.int64), rows=joined, **facts)


Mask = npt.NDArray[np.bool_]


def _blocks_of(problem: Problem) -> Array:
    """Which entries may share a group: entries of different blocks never may.

    Without boundaries that is everybody. With boundaries, entries whose highest allowed values
    differ can never look alike (Miller, Campan & Truta, Property 1); a column limited to a
    width is cut into strips of that width, one limited to intervals into these.
    """
    blocks = np.zeros(problem.entries.entries, dtype=np.int64)
    if problem.apart is not None:
        blocks = np.unique(problem.apart, return_inverse=True)[1]
    for name, limit in problem.limits.items():
        codes = problem.entries.column(name)
        if limit.magval is not None:
            key = limit.magval[codes]
        else:
            assert isinstance(limit.shape, Ranges)
            strips = limit.interval
            if strips is None:
                strips = _strips(limit.shape, float(limit.max_width or 0.0))
            key = strips[limit.shape.position[codes]]
        _, blocks = np.unique(blocks * (int(key.max(initial=0)) + 1) + key, return_inverse=True)
    return blocks.astype(np.int64)


def _strips(shape: Ranges, width: float) -> Array:
    """Strip of each position: as few as possible, none wider than allowed."""
    strips = np.zeros(shape.size, dtype=np.int64)
    strip, begin = -1, -np.inf
    for at, point in enumerate(shape.points):
        if point - begin > width:
            strip, begin = strip + 1, point
        strips[at] = strip
    strips[len(shape.points) :] = np.arange(strip + 1, strip + 1 + shape.size - len(shape.points))
    return strips


def releasable(problem: Problem) -> Mask:
    """Which entries can be released: the blocks that hold when the others are left out.

    For k-anonymity, distinct l-diversity and p-sensitivity these are as many as possible.
    """
    kept = np.ones(problem.entries.entries, dtype=bool)
    if not problem.limits and problem.apart is None:
        return kept
    blocks = _blocks_of(problem)
    count = int(blocks.max(initial=-1)) + 1
    sensitive = sensitive_of(problem)
    rules = problem.rules
    while True:
        there = np.where(kept, blocks, -1)
        good = groups_hold(there, count, problem.counts, sensitive, rules)
        remaining: Mask = kept & good[blocks]
        if remaining.sum() == kept.sum() or not compares(rules) or problem.part:
            return remaining
        kept = remaining
        rules = recounted(rules, _held(problem, kept))


def _held(problem: Problem, kept: Mask | None = None) -> npt.NDArray[np.int64]:
    """How many rows of some entries hold each sensitive value, laid out as rules count them."""
    if not problem.rules.offsets[-1]:  # nothing is counted but rows
        return np.zeros(0, np.int64)
    chosen = np.arange(problem.entries.entries) if kept is None else np.flatnonzero(kept)
    counts: Array = held(chosen, problem.counts, sensitive_of(problem), problem.rules)
    return counts


def only(problem: Problem, kept: Mask) -> Problem:
    """The problem of some of the entries, measured against their own distribution.

    Those of a part stay measured against the distribution of the whole table.
    """
    if kept.all():
        return problem
    rules = problem.rules if problem.part else recounted(problem.rules, _held(problem, kept))
    return replace(
        problem,
        entries=problem.entries.take(kept),
        rules=rules,
        apart=None if problem.apart is None else problem.apart[kept],
        people=None if problem.people is None else problem.people[kept],
    )


def own_rows(problem: Problem) -> Array:
    """Rows to be released that each entry stands for; none where it is people of a population."""
    return problem.counts if problem.people is None else problem.counts * ~problem.people


def most_left_out(problem: Problem) -> int:
    """Rows that a method may leave out: the option ``suppression_limit`` is a share of all."""
    share = problem.options.get("suppression_limit", 0.0)
    if not isinstance(share, (int, float)) or not 0 <= share <= 1:
        raise ParameterError(
            "the suppression limit must be a share of the rows, from 0 to 1",
            remedy="Give e.g. 0.02 for 2 %.",
        )
    return int(share * own_rows(problem).sum() + 1e-9)  # 0.29 of 100 rows are 29, not 28.999…


def lifted(solution: Solution, kept: Mask, problem: Problem) -> Solution:
    """A solution for some of the entries as one for all; the others are suppressed."""
    if kept.all():
        return solution
    numbers = np.flatnonzero(kept)
    if solution.entry is None or solution.rows is None:
        groups = np.full(len(kept), -1, dtype=np.int32)
        groups[numbers] = solution.groups
        return replace(solution, groups=groups)
    out = np.flatnonzero(~kept)
    entry = np.r_[numbers[solution.entry], out]
    order = np.argsort(entry, kind="stable")
    return replace(
        solution,
        groups=np.r_[solution.groups, np.full(len(out), -1, np.int32)][order].astype(np.int32),
        entry=entry[order],
        rows=np.r_[solution.rows, problem.counts[out]][order],
    )


def nothing_left(problem: Problem, models: Sequence[Model]) -> ParameterError:
    """Why no row could be released: for each model the best block, and what the others lack."""
    everybody = _blocks_of(problem)
    people = np.zeros(len(everybody), bool) if problem.people is None else problem.people
    own = ~people
    _, blocks = np.unique(everybody[own], return_inverse=True)
    rows = problem.counts[own]
    sizes = np.bincount(blocks, weights=rows).astype(np.int64)
    crowds = np.bincount(
        everybody[people], weights=problem.counts[people], minlength=int(everybody.max()) + 1
    )[np.unique(everybody[own])].astype(np.int64)
    found, best = [], []
    for model in models:
        counted = Counted(crowds if model.asks_people else sizes)
        if model.about is not None:
            codes = problem.entries.column(model.about)[own]
            values = problem.entries.values_of(model.about)
            column = SensitiveColumn.of(codes, rows, values)
            inside = ClassHistogram.of(blocks, len(sizes), codes, len(values), rows)
            counted = Counted(sizes, column.seen_in(inside), column)
        found.append(model.reach(counted, sizes))
        of = "" if model.about is None else f" for `{model.about}`"
        best.append(found[-1].best + of)
    keeps = "the boundaries keep" if problem.limits else "what rows lack keeps"
    blocking = [
        f"{one.asked} fails for {one.blocked_rows:,} rows in {one.blocked_blocks:,} of "
        f"{len(sizes):,} groups ({one.reason})"
        for one in found
        if one.blocked_rows
    ]
    return ParameterError(
        f"the privacy models cannot be met: all {int(sizes.sum()):,} rows would have to be left "
        f"out, because {keeps} them apart; " + "; ".join(blocking),
        remedy=f"So ask for at most {', '.join(best)}, or allow more blurring.",
    )


@dataclass(frozen=True, eq=False)
class Blocks:
    """Entries that can be released, block after block.

    Attributes
    ----------
    order
        The entries of all blocks that satisfy the rules.
    starts
        Block b is ``order[starts[b]:starts[b + 1]]``.
    """

    order: Array
    starts: Array

    @property
    def count(self) -> int:
        """Number of blocks."""
        return len(self.starts) - 1

    def __getitem__(self, block: int) -> Array:
        return self.order[self.starts[block] : self.starts[block + 1]]


class _Whole(Blocks):
    """All of so many entries as one block; they are listed when somebody asks."""

    def __init__(self, entries: int) -> None:
        starts = np.array([0, entries] if entries else [0], dtype=np.int64)
        object.__setattr__(self, "starts", starts)

    @cached_property
    def order(self) -> Array:
        return np.arange(self.starts[-1])


def allowed_blocks(problem: Problem) -> Blocks:
    """The blocks of a problem that satisfy its rules.

    Raises
    ------
    ParameterError
        If there are no boundaries and even all rows together do not satisfy the rules.
    """
    if not problem.limits and problem.apart is None:
        return _one_block(problem)
    blocks = _blocks_of(problem)
    count = int(blocks.max(initial=-1)) + 1
    good = groups_hold(blocks, count, problem.counts, sensitive_of(problem), problem.rules)
    order = np.flatnonzero(good[blocks])
    order = order[np.argsort(blocks[order], kind="stable")]
    edges = np.flatnonzero(np.diff(blocks[order])) + 1
    starts = np.r_[0, edges, len(order)] if len(order) else np.zeros(1)
    return Blocks(order, starts.astype(np.int64))


def _one_block(problem: Problem) -> Blocks:
    """All entries together."""
    entries = problem.entries.entries
    # where only persons are asked for, there are enough: see `preparing.prepare`
    company = problem.person is not None and len(problem.rules.kinds) == 1
    if entries and not company and not holds(problem.rows, _held(problem), problem.rules):
        raise ParameterError(
            "the privacy models cannot be met: not even all rows as one class satisfy them",
            remedy="Ask for a smaller k or l, or a larger t.",
        )
    return _Whole(entries)
