"""Two parties find the structure of a Bayes net in rows they hold between them (Yang & Wright).

K2 walks through the columns in a public order and gives each, greedily, those earlier columns as
parents that raise its score most, until none does. The score of a column with d categories
whose parents have q combinations is ln Π_j (d-1)! / t_j! Π_k α_jk! with t_j = Σ_k α_jk + d - 1
(Cooper & Herskovits). Yang & Wright replace ln n! by Stirling's formula, so that

    2 · score = Σ_jk (2 α_jk + 1) ln α_jk - Σ_j (2 t_j + 1) ln t_j + a public number:

one shared logarithm and one product for each count. Stirling's formula is off by 0.92 at n = 0, so
combinations that never occur raise the score, and with many categories most never do. Burnside's,
ln n! ≈ (n + ½) ln(n + ½) - n + constant, is off by 0.07 at most. With it, and the constant such
that a combination that never occurs counts nothing (as in the exact score),

    2 · score = Σ_jk G(α_jk) - Σ_j (G(t_j) - G(d-1)),   G(n) = (2n + 1) ln(2n + 1):

the same cost. It is the default.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import ColumnError, ParameterError
from sfumato.results import Result
from sfumato.secure.arithmetic import argmax
from sfumato.secure.counting import Held, Schema
from sfumato.secure.logarithm import COUNTS, FAST, LogSettings, Setting, log, log_error, log_scale
from sfumato.secure.polynomial import product
from sfumato.secure.shares import Ring, Shares

if TYPE_CHECKING:
    from sfumato.secure.session import Session


SCORES = ("burnside", "stirling")
_TERMS, _PRECISION = 8, 24
"""Logarithms are few here and scores large: they are taken to 7e-8."""
_MOST_FRACTION_BITS = 36
_JOINT_TABLE = 1 << 12
"""Up to so many combinations all columns are counted at once; sums of shares give the rest."""

Family = tuple[int, ...]
"""Parents in the order of their choice, then the column."""


@dataclass(frozen=True)
class BayesNet(Result):
    """Which columns depend directly on which.

    Examples
    --------
    >>> net = BayesNet(("rain", "wet"), {"rain": (), "wet": ("rain",)}, 2, "stirling")
    >>> net.arrows
    (('rain', 'wet'),)
    """

    order: tuple[str, ...]
    parents: Mapping[str, tuple[str, ...]]
    max_parents: int
    score: str
    tolerance: float = 0.0
    """Where scores (nats) differ by more, the net is the one of the pooled rows."""

    @property
    def arrows(self) -> tuple[tuple[str, str], ...]:
        """Pairs of parent and child."""
        return tuple((p, child) for child in self.order for p in self.parents[child])


@dataclass(frozen=True)
class ScorePrecision:
    """How exactly scores are compared, given that x in ln x is below 2^bits.

    Twice the score is computed, at the scale of the logarithms. As in ID3 a small handicap for
    each earlier candidate makes the first of equal candidates win, and the present parents first.
    """

    bits: int
    cells: int
    setting: Setting = FAST

    @property
    def weight(self) -> int:
        """Of logarithms in twice a score: each row four times, each cell up to four times."""
        return (2 << self.bits) + 4 * self.cells

    @cached_property
    def ring(self) -> Ring:
        """Where scores are computed."""
        return self.setting.ring(self.bits, 4 * self.weight)

    @property
    def fraction_bits(self) -> int:
        """In the fast setting: what the ring has room for, with products up to 2^(bits+1)."""
        return min(_MOST_FRACTION_BITS, COUNTS.bits - self.bits - self.bits.bit_length() - 4)

    @property
    def settings(self) -> LogSettings:
        """Of the logarithms."""
        fast: LogSettings = {
            "fraction_bits": self.fraction_bits, "terms": _TERMS, "precision": _PRECISION
        }  # fmt: skip
        return self.setting.logarithms(self.bits, fast)

    @property
    def scale(self) -> int:
        """Of the logarithms."""
        return log_scale(self.ring, **self.settings)

    @property
    def error(self) -> float:
        """Of one logarithm."""
        return log_error(self.ring, **self.settings)

    @property
    def handicap(self) -> int:
        """In units of twice the score.

        More than the rounding of logarithms makes of all rows, and their error of all combinations
        that never occur: between equal scores these are the differences. The paper's setting rounds
        nothing.
        """
        empty = math.ceil(4 * self.cells * Fraction(self.error) * self.scale)
        return empty if self.setting.is_paper else 8 * ((1 << self.bits) + self.cells) + empty

    @property
    def handicap_nats(self) -> float:
        return self.handicap / (2 * self.scale)

    def tolerance(self, candidates: int) -> float:
        """Scores that differ by more are told apart rightly."""
        return self.weight * self.error + candidates * self.handicap_nats


@dataclass(frozen=True)
class NetRules:
    """The rules of the search, checked; equal on both sides."""

    schema: Schema
    order: tuple[int, ...]
    max_parents: int
    score: str

    @classmethod
    def of(
        cls, schema: Schema, order: Sequence[str] | None, max_parents: int, score: str
    ) -> NetRules:
        """Check what the user wants."""
        names = schema.columns if order is None else tuple(order)
        if len(names) != len(set(names)):
            raise ColumnError("a column occurs twice in the order")
        positions = tuple(schema.position(name) for name in names)
        if not positions:
            raise ParameterError("the order names no column")
        if max_parents < 0:
            raise ParameterError("the number of parents cannot be negative")
        if score not in SCORES:
            raise ParameterError(f"`{score}` is not a score", remedy=f"Use {' or '.join(SCORES)}.")
        return cls(schema, positions, max_parents, score)

    def precision(self, bits: int, setting: Setting = FAST) -> ScorePrecision:
        """How exactly the scores of fewer than 2^bits rows are compared."""
        sizes = sorted((self.schema.sizes[c] for c in self.order), reverse=True)
        largest = 2 * ((1 << bits) + max(sizes))
        cells = math.prod(sizes[: self.max_parents + 1])
        precision = ScorePrecision(largest.bit_length(), cells, setting)
        room = setting.is_paper or precision.fraction_bits >= 1
        if not room or len(sizes) * precision.handicap >= precision.ring.modulus >> 2:
            raise ParameterError(
                f"scores of 2^{bits} rows and up to {cells:,} combinations cannot be compared",
                remedy="Use fewer columns, categories or parents.",
            )
        return precision

    def constant(self, family: Family) -> float:
        """The public part of twice the score."""
        *parents, d = (self.schema.sizes[c] for c in family)
        if self.score == "burnside":
            each = (2 * d - 1) * math.log(2 * d - 1)
        else:
            each = 2 * math.lgamma(d) + (d - 1) * (math.log(2 * math.pi) + 2)
        return math.prod(parents) * each

    def net(self, parents: Mapping[str, tuple[str, ...]], tolerance: float = 0.0) -> BayesNet:
        names = tuple(self.schema.columns[c] for c in self.order)
        return BayesNet(names, dict(parents), self.max_parents, self.score, tolerance)


def search_net(
    session: Session,
    held: Held,
    *,
    order: Sequence[str] | None = None,
    max_parents: int = 2,
    score: str = "burnside",
    setting: Setting = FAST,
) -> BayesNet:
    """Find the parents of each column.

    Both learn the net, but neither counts nor scores; with `HeldRows` also the other's number of
    rows, to within a factor of two.

    Parameters
    ----------
    held
        My rows (`HeldRows`), or my cells of common rows (`HeldCells`).
    order
        Columns in which parents come before children; all, in the order of the schema, if None.
    max_parents
        No column gets more parents.
    score
        ``"burnside"``, or ``"stirling"`` as Yang & Wright have it, which favours combinations
        that never occur: for columns with few categories and many rows only.
    setting
        How it is computed: fast, or as in the paper.

    Examples
    --------
    >>> from sfumato.secure import HeldCells, together
    >>> schema = Schema.of({"rain": ["no", "yes"], "wet": ["no", "yes"]})
    >>> column = np.arange(40) % 2
    >>> gap = np.full(40, -1)
    >>> cells = {"alice": np.stack([column, gap], 1), "bob": np.stack([gap, column], 1)}
    >>> def party(session):
    ...     return search_net(session, HeldCells(schema, cells[session.role])).arrows
    >>> together(party, party)
    ((('rain', 'wet'),), (('rain', 'wet'),))
    """
    rules = NetRules.of(held.schema, order, max_parents, score)
    names = held.schema.columns
    facts = {"order": [names[c] for c in rules.order], "max_parents": max_parents, "score": score}
    bits = held.agree(session, {**facts, **setting.facts})
    search = _Search(session, held, rules, rules.precision(bits, setting))
    chosen = search.run() if max_parents else dict.fromkeys(rules.order, ())
    parents = {names[c]: tuple(names[p] for p in chosen[c]) for c in rules.order}
    tolerance = search.precision.tolerance(len(rules.order))
    return rules.net(parents, tolerance)


class _Search:
    """K2 for all columns side by side: step s of every column is one batch."""

    def __init__(
        self, session: Session, held: Held, rules: NetRules, precision: ScorePrecision
    ) -> None:
        self.session = session
        self.held = held
        self.rules = rules
        self.precision = precision
        self.ring, self.backend = precision.ring, precision.setting.products
        self._joint: Shares | None = None

    def run(self) -> dict[int, tuple[int, ...]]:
        """The parents of each column."""
        order = self.rules.order
        chosen: dict[int, tuple[int, ...]] = dict.fromkeys(order, ())
        going = list(order[1:])  # the first column has no candidates
        current: dict[int, Shares] = {}
        if going:
            scores = self._scores([(c,) for c in going])
            current = {c: scores[i] for i, c in enumerate(going)}
        for step in range(self.rules.max_parents):
            candidates = {
                c: [p for p in order[: order.index(c)] if p not in chosen[c]] for c in going
            }
            going = [c for c in going if candidates[c]]
            if not going:
                break
            self.session.begin("parents", step=step, columns=len(going))
            self.session.progress("looking for parents", step / self.rules.max_parents)
            families = [(*chosen[c], p, c) for c in going for p in candidates[c]]
            scores = self._scores(families)
            group = 1 + max(len(candidates[c]) for c in going)
            rows, first = [], 0
            for c in going:
                tried = scores[first : first + len(candidates[c])]
                first += len(tried)
                # what stands wins over its own copies, which fill the group up
                padding = [current[c].repeat(group - 1 - len(tried))]
                rows.append(Shares.concatenate([current[c], tried, *padding]))
            picks = self._largest(Shares.concatenate(rows), group)
            for c, row, pick in zip(going, rows, picks, strict=True):
                if pick > len(candidates[c]):
                    self.session.refuse("opened a parent that is not a candidate", "parents")
                if pick:
                    chosen[c] = (*chosen[c], candidates[c][pick - 1])
                    current[c] = row[pick]
            going = [c for c, pick in zip(going, picks, strict=True) if pick]
        return chosen

    def _largest(self, scores: Shares, group: int) -> list[int]:
        if self.session.is_alice:
            handicaps = self.ring.encode([-i * self.precision.handicap for i in range(group)])
            handicaps = np.tile(handicaps, (len(scores) // group, 1))
            scores = Shares(self.ring, self.ring.add(scores.values, handicaps), scores.scale)
        picks = argmax(self.session, scores, group=group, what="the net")
        return [int(pick) for pick in picks]

    def _scores(self, families: Sequence[Family]) -> Shares:
        """Shares of twice the score of each family."""
        sizes = self.rules.schema.sizes
        tables = self._tables(families)
        plus: list[Shares] = []
        minus: list[Shares] = []
        for table, family in zip(tables, families, strict=True):
            d = sizes[family[-1]]
            plus.append(table)
            minus.append(table.sum(group=d).plus(self.session, d - 1))
        lengths = [len(part) for part in (*plus, *minus)]
        counts = Shares.concatenate([*plus, *minus])
        doubled = (counts * 2).plus(self.session, 1)
        logarithms = log(
            self.session,
            counts if self.rules.score == "stirling" else doubled,
            backend=self.backend,
            **self.precision.settings,
        )
        products = product(self.session, doubled, logarithms, self.backend)
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
        sums = self.ring.sum_runs(products.values, starts)
        half = len(families)
        scores = self.ring.subtract(sums[:half], sums[half:])
        if self.session.is_alice:
            constants = [round(Fraction(self.rules.constant(f)) * products.scale) for f in families]
            scores = self.ring.add(scores, self.ring.encode(constants))
        return Shares(self.ring, scores, products.scale)

    def _tables(self, families: Sequence[Family]) -> list[Shares]:
        """Contingency tables, the child's categories running fastest."""
        sizes = self.rules.schema.sizes
        shape = [sizes[c] for c in self.rules.order]
        if math.prod(shape) > _JOINT_TABLE:
            counts, tables, first = self._counts(families), [], 0
            for family in families:
                length = math.prod(sizes[c] for c in family)
                tables.append(counts[first : first + length])
                first += length
            return tables
        if self._joint is None:
            self._joint = self._counts([self.rules.order])
        grid = np.arange(math.prod(shape)).reshape(shape)
        tables = []
        for family in families:
            axes = [self.rules.order.index(c) for c in family]
            others = [i for i in range(len(shape)) if i not in axes]
            turned = grid.transpose([*axes, *others]).reshape(-1)
            tables.append(self._joint[turned].sum(group=math.prod(shape[i] for i in others)))
        return tables

    def _counts(self, families: Sequence[Family]) -> Shares:
        everything = self.held.everything()
        asked = [(everything, family) for family in families]
        return self.held.counts(self.session, asked, self.ring, self.backend)
