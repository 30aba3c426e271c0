"""Two parties grow the decision tree of their pooled rows (Lindell & Pinkas, corrected logarithm).

ID3 asks at each node for the column that leaves the least entropy of the target:
Σ_v n_v ln n_v - Σ_vc n_vc ln n_vc over its categories v and the target's c is smallest. All open
nodes of a level go through the protocol together: a circuit opens which of them end and with which
label, then come shared counts, x ln x of all of them, and the index of the smallest sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError, spell
from sfumato.results import Result
from sfumato.secure.arithmetic import argmin
from sfumato.secure.circuit import ONE, ZERO, Builder, Circuit, constant
from sfumato.secure.counting import Held, Part, Schema
from sfumato.secure.garbling import run_circuit
from sfumato.secure.logarithm import COUNTS, FAST, LogSettings, Setting, log_error, x_log_x
from sfumato.secure.shares import Ring, Shares

if TYPE_CHECKING:
    from sfumato.secure.session import Session


_MOST_FRACTION_BITS = 40
_MOST_CELLS = 1 << 22
"""Counts of one level of a tree."""


@dataclass(frozen=True)
class Leaf:
    """An end of the tree: the category of the target that is predicted."""

    label: int


@dataclass(frozen=True)
class Split:
    """An inner node: the column it asks for, and one branch for each of its categories."""

    column: int
    branches: tuple[Leaf | Split, ...]


@dataclass(frozen=True)
class DecisionTree(Result):
    """A tree that predicts one column from the others.

    Examples
    --------
    >>> schema = Schema.of({"sex": ["f", "m"], "ill": ["no", "yes"]})
    >>> tree = DecisionTree(schema, "ill", Split(0, (Leaf(0), Leaf(1))))
    >>> tree.predict(np.array([[1, 0], [0, 0]])).tolist(), tree.depth, tree.leaves
    ([1, 0], 1, 2)
    """

    schema: Schema = field(metadata={"private": True})
    target: str
    root: Leaf | Split = field(metadata={"private": True})
    tolerance: float = 0.0
    """Where gains (nats a row) differ by more, the tree is the one of the pooled rows."""

    @property
    def depth(self) -> int:
        """Questions on the longest way down."""
        return max(len(path) for path, _ in self.walk())

    @property
    def leaves(self) -> int:
        """Number of ends."""
        return sum(isinstance(node, Leaf) for _, node in self.walk())

    @property
    def splits(self) -> int:
        """Number of inner nodes."""
        return sum(isinstance(node, Split) for _, node in self.walk())

    def walk(self) -> Iterator[tuple[tuple[tuple[int, int], ...], Leaf | Split]]:
        """All nodes, each with its path: columns and categories from the root."""
        waiting: list[tuple[tuple[tuple[int, int], ...], Leaf | Split]] = [((), self.root)]
        while waiting:
            path, node = waiting.pop()
            yield path, node
            if isinstance(node, Split):
                below = enumerate(node.branches)
                waiting += [((*path, (node.column, v)), branch) for v, branch in below]

    def predict(self, codes: Any) -> NDArray[np.int64]:
        """The predicted category of each record, int[records, columns] as in the schema."""
        cells = np.asarray(codes)
        if cells.ndim != 2 or cells.shape[1] != len(self.schema.columns):
            raise ParameterError("records need one number for each column of the schema")
        found = np.empty(len(cells), np.int64)
        waiting: list[tuple[Leaf | Split, NDArray[np.int64]]] = [(self.root, np.arange(len(cells)))]
        while waiting:
            node, rows = waiting.pop()
            if isinstance(node, Leaf):
                found[rows] = node.label
                continue
            asked = cells[rows, node.column]
            waiting += [(branch, rows[asked == v]) for v, branch in enumerate(node.branches)]
        return found

    def simplified(self) -> DecisionTree:
        """The same predictions with as few questions: splits whose leaves all agree are leaves."""
        return replace(self, root=_simplified(self.root))

    def to_dict(self) -> dict[str, Any]:
        """Target, size and the nested tree, by names of columns and categories."""
        shape = {"depth": self.depth, "leaves": self.leaves, "splits": self.splits}
        return {**super().to_dict(), **shape, "tree": self._named(self.root)}

    def _named(self, node: Leaf | Split) -> dict[str, Any]:
        if isinstance(node, Leaf):
            return {"label": self.schema.values[self.schema.position(self.target)][node.label]}
        names = self.schema.values[node.column]
        branches = zip(names, node.branches, strict=True)
        return {
            "column": self.schema.columns[node.column],
            "branches": {name: self._named(branch) for name, branch in branches},
        }


def _simplified(node: Leaf | Split) -> Leaf | Split:
    if isinstance(node, Leaf):
        return node
    branches = tuple(_simplified(branch) for branch in node.branches)
    if isinstance(branches[0], Leaf) and len(set(branches)) == 1:
        return branches[0]
    return Split(node.column, branches)


@dataclass(frozen=True)
class TreeRules:
    """The rules of growing a tree, checked; equal on both sides.

    Parameters
    ----------
    schema, target
        All columns, and the one to predict.
    max_depth
        No more questions than this on any way; as many as there are columns if None.
    min_rows
        A node with fewer rows ends.
    """

    schema: Schema
    target: str
    max_depth: int | None = None
    min_rows: int = 2

    def __post_init__(self) -> None:
        if self.classes < 2:
            raise ParameterError(f"the target `{self.target}` has only one category")
        if self.max_depth is not None and self.max_depth < 0:
            raise ParameterError("the depth of a tree cannot be negative")
        if self.min_rows < 1:
            raise ParameterError("`min_rows` must be at least 1")

    @property
    def classes(self) -> int:
        """How many categories the target has."""
        return self.schema.sizes[self.schema.position(self.target)]

    @property
    def attributes(self) -> tuple[int, ...]:
        """Columns that may be asked for."""
        answer = self.schema.position(self.target)
        return tuple(c for c in range(len(self.schema.columns)) if c != answer)

    def ends(self, depth: int) -> bool:
        """Whether every node at this depth is a leaf."""
        return depth >= len(self.attributes) or depth == self.max_depth


@dataclass(frozen=True)
class Precision:
    """How exactly entropies are compared, given that there are fewer than 2^bits rows.

    Two sums that are equal in truth may come out different: every row stands twice in each, each
    time off by the rounding of a logarithm (one unit at most), and, if other counts make the same
    sum, by its error. So that the first column wins then, on both sides and in plain text
    alike, a column pays a handicap for each column before it: of the rounding, and in fine work
    of the whole error, for each row of the node (of which the parties have shares). In the paper's
    setting nothing is rounded, and there is none.
    """

    bits: int
    columns: int
    fine: bool = False
    setting: Setting = FAST

    @cached_property
    def ring(self) -> Ring:
        """Where the sums are computed."""
        return self.setting.ring(self.bits)

    @property
    def fraction_bits(self) -> int:
        """Of logarithms in the fast setting: as many as the ring has room for."""
        room = COUNTS.bits - self.bits - self.bits.bit_length() - 2
        return min(_MOST_FRACTION_BITS, room)

    @property
    def settings(self) -> LogSettings:
        """Of the logarithms."""
        fast: LogSettings = {"fraction_bits": self.fraction_bits}
        if self.fine:
            fast |= {"terms": 8, "precision": 24}
        return self.setting.logarithms(self.bits, fast)

    @property
    def error(self) -> float:
        """Of one logarithm."""
        return log_error(self.ring, **self.settings)

    @property
    def handicap(self) -> int:
        """In units of 2^-fraction_bits nats a row."""
        if self.setting.is_paper:
            return 0
        return 4 * math.ceil(self.error * (1 << self.fraction_bits)) if self.fine else 4

    @property
    def handicap_nats(self) -> float:
        """The handicap in nats a row."""
        return math.ldexp(self.handicap, -self.fraction_bits)

    @property
    def tolerance(self) -> float:
        """Gains, in nats a row, that differ by more are told apart rightly."""
        return 4 * self.error + self.columns * self.handicap_nats


@dataclass
class _Node:
    """A node of the tree while it grows."""

    left: tuple[int, ...]
    """Columns not yet asked for."""
    origin: tuple[Part, int, int] | None = None
    """The records above, and the column and category that lead here."""
    label: int = 0
    column: int | None = None
    branches: list[_Node] = field(default_factory=list)

    def take_part(self, held: Held) -> Part:
        """The records here, found only when they are needed, and not kept."""
        origin, self.origin = self.origin, None
        return held.everything() if origin is None else held.narrow(*origin)

    def divide(self, column: int, size: int, part: Part) -> None:
        """Ask for a column."""
        self.column = column
        left = tuple(c for c in self.left if c != column)
        self.branches = [_Node(left, (part, column, value)) for value in range(size)]

    def finished(self) -> Leaf | Split:
        """The grown tree from here on."""
        if self.column is None:
            return Leaf(self.label)
        return Split(self.column, tuple(branch.finished() for branch in self.branches))


def grow_tree(
    session: Session,
    held: Held,
    *,
    target: str,
    max_depth: int | None = None,
    min_rows: int = 2,
    fine: bool = False,
    setting: Setting = FAST,
) -> DecisionTree:
    """Grow the ID3 tree of the rows of both sides.

    Both learn the tree, but not the counts, not the gains, not why a node ended; with `HeldRows`
    also the other's number of rows, to within a factor of two.

    Parameters
    ----------
    held
        My rows (`HeldRows`), or my cells of common rows (`HeldCells`).
    target
        The column to predict.
    max_depth, min_rows
        When to stop: at this depth; at nodes with fewer rows. Nodes whose rows all agree, and
        nodes without a column left, end anyway. A leaf may have one row. Its label is the commonest
        category among its rows, of equally common ones the commonest at the node above, then the
        first.
    fine
        Take logarithms to 7e-8 instead of 2e-5: columns that gain equally much are then never
        confused by their errors. Seven times the work, three times the bytes.
    setting
        How it is computed: fast, or as in the paper.

    Examples
    --------
    >>> from sfumato.secure import HeldRows, together
    >>> schema = Schema.of({"sex": ["f", "m"], "smokes": ["no", "yes"], "ill": ["no", "yes"]})
    >>> rows = {"alice": [[0, 0, 0], [1, 1, 1]], "bob": [[1, 0, 0], [0, 1, 1]]}
    >>> def party(session):
    ...     held = HeldRows(schema, rows[session.role])
    ...     return grow_tree(session, held, target="ill").to_dict()["tree"]
    >>> alice, bob = together(party, party)
    >>> alice == bob, alice["column"], alice["branches"]
    (True, 'smokes', {'no': {'label': 'no'}, 'yes': {'label': 'yes'}})
    """
    rules = TreeRules(held.schema, target, max_depth, min_rows)
    answer = held.schema.position(target)
    if fine and setting.is_paper:
        raise ParameterError(
            "finer logarithms belong to the fast setting",
            remedy=f"Leave {spell('fine', True)} out, or take more terms.",
        )
    facts = {"the target": target, "max_depth": max_depth, "min_rows": min_rows, "fine": fine}
    bits = max(4, held.agree(session, {**facts, **setting.facts}))
    precision = Precision(bits, len(rules.attributes), fine, setting)
    counted = partial(held.counts, session, ring=precision.ring, backend=setting.products)
    root = _Node(rules.attributes)
    level = [root]
    own = counted([(held.everything(), [answer])])
    above = own
    for depth in range(len(rules.attributes) + 1):
        session.begin("id3 level", depth=depth, nodes=len(level))
        session.progress("growing", depth / (len(rules.attributes) + 1))
        ended, labels = _endings(session, own, above, rules, bits, forced=rules.ends(depth))
        going = np.flatnonzero(~ended)
        for node, label in zip(level, labels, strict=True):
            node.label = int(label)
        if not len(going):
            break
        nodes = [level[i] for i in going]
        _require_room(rules, nodes)
        parts = [node.take_part(held) for node in nodes]
        asked = [
            (part, (column, answer))
            for node, part in zip(nodes, parts, strict=True)
            for column in node.left
        ]
        tables = counted(asked)
        chosen = _best_columns(session, tables, _rows(own, rules)[going], rules, precision, nodes)
        for node, part, pick in zip(nodes, parts, chosen, strict=True):
            column = node.left[pick]
            node.divide(column, held.schema.sizes[column], part)
        own, above = _counts_below(tables, own, rules, going, nodes, chosen)
        level = [branch for node in nodes for branch in node.branches]
    return DecisionTree(rules.schema, target, root.finished(), precision.tolerance)


def _require_room(rules: TreeRules, nodes: Sequence[_Node]) -> None:
    """The other side has a say in which nodes go on: not in how much memory they take."""
    sizes = rules.schema.sizes
    cells = rules.classes * sum(sizes[c] for node in nodes for c in node.left)
    if cells > _MOST_CELLS:
        raise ParameterError(
            f"{len(nodes):,} nodes of one level need {cells:,} counts",
            remedy="Limit the depth, raise the least number of rows, or use fewer columns.",
        )


def _rows(counts: Shares, rules: TreeRules) -> Shares:
    """Shares of the number of rows, from counts of the target's categories."""
    return counts.sum(group=rules.classes)


def _counts_below(
    tables: Shares,
    own: Shares,
    rules: TreeRules,
    going: NDArray[np.int64],
    nodes: Sequence[_Node],
    chosen: NDArray[np.int64],
) -> tuple[Shares, Shares]:
    """Counts of the target at each new branch, and at the node above it.

    The chosen column's table holds the first; nothing needs to be counted again.
    """
    classes, sizes = rules.classes, rules.schema.sizes
    columns = len(nodes[0].left)
    starts = _starts([sizes[c] * classes for node in nodes for c in node.left])
    first = starts[np.arange(len(nodes)) * columns + chosen]
    branches = np.array([len(node.branches) for node in nodes])
    within = np.concatenate([np.arange(n) for n in branches])
    below = np.repeat(first, branches) + within * classes
    above = np.repeat(going, branches) * classes
    each = np.arange(classes)
    here, there = ((at[:, None] + each).reshape(-1) for at in (below, above))
    return tables[here], own[there]


def _starts(lengths: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)


def _best_columns(
    session: Session,
    tables: Shares,
    rows: Shares,
    rules: TreeRules,
    precision: Precision,
    nodes: Sequence[_Node],
) -> NDArray[np.int64]:
    """For each node the position, among the columns left to it, of the one that tells most."""
    sizes, ring = rules.schema.sizes, precision.ring
    counts = Shares.concatenate([tables, _rows(tables, rules)])
    backend = precision.setting.products
    entropies = x_log_x(session, counts, backend=backend, **precision.settings)
    inner, outer = entropies[: len(tables)].sum(group=rules.classes), entropies[len(tables) :]
    difference = outer - inner
    starts = _starts([sizes[c] for node in nodes for c in node.left])
    sums = ring.sum_runs(difference.values, starts)
    group = len(nodes[0].left)
    before = np.tile(np.arange(group), len(nodes)) * precision.handicap
    handicaps = ring.multiply(rows.repeat(group).values, ring.encode(before))
    remaining = Shares(ring, ring.add(sums, handicaps), difference.scale)
    return argmin(session, remaining, group=group, what="the tree")


def _endings(
    session: Session, own: Shares, above: Shares, rules: TreeRules, bits: int, *, forced: bool
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Which nodes end, and with which label; of nodes that go on nothing is opened."""
    classes, ring = rules.classes, own.ring
    circuit = _ending_circuit(ring, classes, bits, rules.min_rows, forced)
    n = len(own) // classes
    session.note_learned("both", "the tree")
    used = bits if ring.is_power_of_two else ring.bits
    numbers = [ring.to_bits(s.values, used).reshape(n, classes * used) for s in (own, above)]
    inputs = np.concatenate(numbers, axis=1).T
    opened = run_circuit(session, circuit, inputs, n=n, reveal="both").astype(np.int64)
    labels = (opened[1:] << np.arange(len(opened) - 1)[:, None]).sum(axis=0)
    return opened[0].astype(np.bool_), np.minimum(labels, classes - 1)


@lru_cache(maxsize=32)
def _ending_circuit(ring: Ring, classes: int, bits: int, min_rows: int, forced: bool) -> Circuit:
    """Whether a node ends, and its label if it does; a label of zero if it does not."""
    builder = Builder()
    own = [builder.reconstruct(ring, bits) for _ in range(classes)]
    above = [builder.reconstruct(ring, bits) for _ in range(classes)]
    ended = ONE
    if not forced:
        total, occupied, mixed = constant(0, bits), ZERO, ZERO
        for count in own:
            total, _ = builder.add(total, count)
            some = ZERO
            for wire in count:
                some = builder.either(some, wire)
            mixed = builder.either(mixed, builder.both(occupied, some))
            occupied = builder.either(occupied, some)
        few = ONE
        if min_rows < 1 << bits:
            few = builder.less_than(total, constant(min_rows, bits))
        ended = builder.either(few, builder.invert(mixed))
    # the largest (own count, count above) is the smallest of the inverted words
    ranks = [[builder.invert(w) for w in (*a, *o)] for o, a in zip(own, above, strict=True)]
    label = builder.smallest(ranks)
    return builder.finish([ended, *(builder.both(ended, wire) for wire in label)])
