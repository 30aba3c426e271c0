"""l-diversity: the sensitive values of every class are different enough.

Three kinds, after Machanavajjhala, Gehrke & Kifer 2006: distinct, entropy and recursive. A missing
value protects nobody: all are about the values that a class is known to hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from sfumato.errors import ColumnError, ParameterError, did_you_mean, spell
from sfumato.fields import Field, Weights
from sfumato.hierarchy.ends import round_ends
from sfumato.hierarchy.ranges import numbers
from sfumato.hierarchy.tree import Array
from sfumato.privacy.base import (
    HOLDS,
    TOLERANCE,
    Asked,
    Counted,
    Measured,
    Model,
    SensitiveColumn,
    commonest,
    largest,
    require_number,
    require_whole,
    smallest,
)
from sfumato.privacy.rules import DISTINCT, ENTROPY, RECURSIVE
from sfumato.tables import Table
from sfumato.wording import counted as in_words


class DiversityFields(TypedDict, total=False):
    """Parameters of l-diversity."""

    l: Annotated[  # noqa: E741 (the field's own name)
        float | None,
        Field(
            "l-diversity: at least l different sensitive values in every class.",
            HOLDS,
            "-l",
            "N",
            label="Different values, at least",
            least=1,
        ),
    ]
    l_kind: Annotated[
        Literal["distinct", "entropy", "recursive"],
        Field(
            "How l is counted: distinct (default), entropy or recursive.",
            HOLDS,
            "--l-kind",
            "KIND",
            default="distinct",
            label="counted as",
        ),
    ]
    sensitive_bins: Annotated[
        Weights | None,
        Field(
            "Sensitive numbers for which distinct l-diversity counts ranges instead of values, and "
            "the number of ranges (of about equally many rows).",
            HOLDS,
            "--sensitive-bins",
            "income=10",
        ),
    ]
    c: Annotated[
        float | None,
        Field(
            "c of recursive (c,l)-diversity.", HOLDS, "--c", "C", label="c", when="l_kind=recursive"
        ),
    ]


_ASKED_BY = ("l", "l_kind", "sensitive_bins", "c")


def _of_kind(asked: Asked, kind: str) -> float | None:
    """The l that is asked of this kind, whole except for entropy."""
    chosen, number = asked.values["l_kind"], asked.about_sensitive("l")
    if chosen != kind:
        return None
    if number is None:
        if kind != "distinct":
            raise ParameterError(
                f"{kind} l-diversity needs l", remedy=f"Give it, e.g. {spell('l', 3)}."
            )
        return None
    if kind != "entropy" and number != int(number):
        raise ParameterError(
            f"l = {number:g} is not a whole number", remedy="Only entropy takes fractions."
        )
    return float(number)


def _refuse_bins_of_others(asked: Asked, number: float | None) -> None:
    """Refuse ranges of columns that are not sensitive, and where nobody counts them."""
    given = asked.values["sensitive_bins"]
    for name, bins in given.items():
        if name not in asked.sensitive:
            raise ColumnError(
                f"ranges are asked of `{name}`, which is not a sensitive column",
                remedy=did_you_mean(name, asked.sensitive),
            )
        if bins != int(bins) or bins < 2:
            raise ParameterError(
                f"{bins:g} ranges of `{name}` are not possible", remedy="Give 2 or more."
            )
    if given and number is None:
        raise ParameterError(
            "ranges of sensitive numbers are counted by distinct l-diversity",
            remedy=f"Ask for it, e.g. {spell('l', 3)}.",
        )


def quantile_edges(values: pa.Array, counts: Array, bins: int, k: int) -> tuple[float, ...]:
    """Round numbers that cut a column into so many ranges of about as many rows each.

    No edge is a value that fewer than k rows hold: certificates name them. They are fewer where
    single values are so common, or so few, that no round number lies between.

    Parameters
    ----------
    values, counts
        The column's distinct values, and the rows that hold each.

    Examples
    --------
    >>> import pyarrow as pa
    >>> quantile_edges(pa.array(range(100, 1100)), np.ones(1000, np.int64), 4, k=5)
    (349.5, 599.5, 849.5)
    """
    points = numbers(values, "")
    order = np.argsort(points, kind="stable")
    order = order[np.isfinite(points[order])]
    held = np.asarray(counts)[order]
    ends = round_ends(values.take(pa.array(order)), held, k)
    if ends is None:
        return ()
    before = np.r_[0, np.cumsum(held)][ends.below]  # rows below each end
    bins = min(bins, int(held.sum()))  # more cut no finer: each row has a range of its own
    wanted = np.arange(1, bins) / bins * held.sum()
    after = np.minimum(np.searchsorted(before, wanted), len(before) - 1)
    nearest = np.where(wanted - before[after - 1] < before[after] - wanted, after - 1, after)
    parts = np.unique(nearest[(before[nearest] > 0) & (before[nearest] < held.sum())])
    _, first = np.unique(before[parts], return_index=True)
    return tuple(float(ends.points[at]) for at in parts[first])


@dataclass(frozen=True)
class DistinctDiversity(Model):
    """Every class holds at least l distinct values of the sensitive column.

    With `bins` they are values of different ranges: those between the numbers given.
    """

    l: int  # noqa: E741
    column: str
    bins: tuple[float, ...] = ()
    name: ClassVar[str] = "distinct l-diversity"
    numbers: ClassVar[tuple[str, ...]] = ("l",)
    asked_by: ClassVar[tuple[str, ...]] = _ASKED_BY

    def __post_init__(self) -> None:
        require_whole(self.l, "l")

    @classmethod
    def of(cls, asked: Asked) -> Iterable[Self]:
        number = _of_kind(asked, "distinct")
        _refuse_bins_of_others(asked, number)
        if number is None:
            return ()
        return [cls(int(number), name, asked.edges.get(name, ())) for name in asked.sensitive]

    @property
    def title(self) -> str:
        return f"{self.name} by {len(self.bins) + 1} ranges" if self.bins else self.name

    @property
    def needs_values(self) -> bool:
        return bool(self.bins)

    def measure(self, counted: Counted) -> Measured:
        distinct = self._distinct(counted)
        return Measured(distinct >= self.l, {"l": smallest(distinct)})

    def _distinct(self, counted: Counted) -> Array:
        """Values of each class that count as different."""
        held = counted.held.known
        if not self.bins:
            return held.distinct
        assert counted.column is not None
        bins = counted.column.bins(self.bins)[held.value]
        first = np.ones(len(bins), dtype=bool)  # values of a class ascend, and so do their ranges
        first[1:] = (held.owner[1:] != held.owner[:-1]) | (bins[1:] != bins[:-1])
        return np.bincount(held.owner[first], minlength=held.classes)

    def rule(self, column: SensitiveColumn) -> tuple[int, float, float]:
        return DISTINCT, float(self.l), float(bool(self.bins))

    def best(self, counted: Counted) -> tuple[str, str]:
        values, reason = richest(counted)
        if self.bins:
            values = int(self._distinct(counted).max())
            reason += f", of {values} of the {len(self.bins) + 1} ranges"
        return f"l <= {values}", reason

    def to_dict(self) -> dict[str, Any]:
        told = super().to_dict()
        return told if self.bins else {n: v for n, v in told.items() if n != "bins"}

    @classmethod
    def from_dict(cls, parameters: Mapping[str, Any]) -> Self:
        bins = tuple(float(edge) for edge in parameters.get("bins", ()))
        return cls(**{**parameters, "bins": bins})


@dataclass(frozen=True)
class EntropyDiversity(Model):
    """The entropy of the sensitive column in every class is at least log l (Definition 4.1)."""

    l: float  # noqa: E741
    column: str
    name: ClassVar[str] = "entropy l-diversity"
    numbers: ClassVar[tuple[str, ...]] = ("l",)
    asked_by: ClassVar[tuple[str, ...]] = _ASKED_BY

    def __post_init__(self) -> None:
        require_number(self.l, "l", least=1.0)

    @classmethod
    def of(cls, asked: Asked) -> Iterable[Self]:
        number = _of_kind(asked, "entropy")
        return () if number is None else [cls(number, name) for name in asked.sensitive]

    def measure(self, counted: Counted) -> Measured:
        entropy = counted.held.known.entropy
        worst = float(np.exp(entropy.min())) if len(entropy) else None
        return Measured(entropy >= np.log(self.l) - TOLERANCE, {"l": worst})

    def rule(self, column: SensitiveColumn) -> tuple[int, float, float]:
        return ENTROPY, float(np.log(self.l)), 0.0

    def best(self, counted: Counted) -> tuple[str, str]:
        entropy = counted.held.known.entropy
        at = int(np.argmax(entropy))
        best = max(1.0, math.floor(float(np.exp(entropy[at])) * 1e4) / 1e4)
        reason = f"the evenest class possible has {best:g}, since "
        reason += commonest(counted, at, known=True)
        return f"l <= {best:g}", reason


@dataclass(frozen=True)
class RecursiveDiversity(Model):
    """In every class r1 < c·(rl + … + rm), the counts of its sensitive values being r1 ≥ r2 ≥ ….

    Definition 4.2. A class with fewer than l values fails.
    """

    c: float
    l: int  # noqa: E741
    column: str
    name: ClassVar[str] = "recursive (c,l)-diversity"
    numbers: ClassVar[tuple[str, ...]] = ("c", "l")
    asked_by: ClassVar[tuple[str, ...]] = _ASKED_BY

    def __post_init__(self) -> None:
        require_number(self.c, "c", above=0.0)
        require_whole(self.l, "l")

    @classmethod
    def of(cls, asked: Asked) -> Iterable[Self]:
        number, c = _of_kind(asked, "recursive"), asked.values["c"]
        if c is not None and number is None:
            example = f"{spell('l', 3)}, {spell('l_kind', 'recursive')}, {spell('c', 4)}"
            raise ParameterError(
                "c only applies to recursive l-diversity", remedy=f"Ask for it, e.g. {example}."
            )
        if number is None:
            return ()
        if c is None:
            raise ParameterError(
                "recursive l-diversity needs c", remedy=f"Give it, e.g. {spell('c', 3)}."
            )
        return [cls(c, int(number), name) for name in asked.sensitive]

    def measure(self, counted: Counted) -> Measured:
        ratio = counted.held.known.recursive_ratio(self.l)
        return Measured(ratio < self.c, {"c": largest(ratio), "l": self.l})

    def rule(self, column: SensitiveColumn) -> tuple[int, float, float]:
        return RECURSIVE, float(self.l), float(self.c)

    def best(self, counted: Counted) -> tuple[str, str]:
        held = counted.held.known
        ratio = held.recursive_ratio(self.l)
        at = int(np.argmin(ratio))
        counts = np.sort(held.count[held.start[at] : held.start[at + 1]])[::-1]
        rest = int(counts[self.l - 1 :].sum())
        best = f"c > {ratio[at]:.6g}" if rest else f"l <= {int(held.distinct.max())}"
        rank = _ordinal(self.l)
        common = commonest(counted, at, known=True)
        return best, f"{common}, and the {rank} commonest and rarer ones {rest:,} times"


def richest(counted: Counted) -> tuple[int, str]:
    """Distinct values of the class that has most, and what it holds, in words."""
    held = counted.held.known
    at = int(np.argmax(held.distinct))
    values = int(held.distinct[at])
    rows = int(counted.sizes[at])
    if held.classes > 1:
        those = f"the {in_words(rows, 'row')} of the richest class possible hold"
    else:
        those = f"all {rows:,} rows together hold" if rows > 1 else "the only row holds"
    largest = int(held.count[held.start[at] : held.start[at + 1]].max(initial=0))
    distinct = in_words(values, "distinct value")
    return values, f"{those} {distinct}, the commonest in {in_words(largest, 'row')}"


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10)
    return f"{number}{ending or 'th'}"


def bin_edges(source: Table, given: Mapping[str, Any]) -> dict[str, tuple[float, ...]]:
    """Where `sensitive_bins` cut the columns of a table.

    Parameters
    ----------
    given
        What is asked; the larger of k and l decides which values are too rare to be an edge.
    """
    # Whether k and l can be meant is said where models are made.
    asked = (given.get(name) or 0 for name in ("k", "l"))
    least = max(2, *(int(number) if math.isfinite(number) else 0 for number in asked))
    edges = {}
    for name, bins in (given.get("sensitive_bins") or {}).items():
        (name,) = source.require([name])
        found = source.values(name)
        (values,), (codes,) = found.values, found.arrays
        kind = values.type
        if not any(of(kind) for of in (pt.is_integer, pt.is_floating, pt.is_decimal)):
            raise ColumnError(
                f"column `{name}` holds no numbers, so it has no ranges",
                where=source.name,
                remedy=f"Leave it out of {spell('sensitive_bins', {name: int(bins)})}.",
            )
        rows = np.bincount(codes, weights=found.counts, minlength=len(values))
        edges[name] = quantile_edges(values, rows.astype(np.int64), int(bins), least)
        if not edges[name] and bins >= 2:
            raise ColumnError(
                f"the numbers of `{name}` are too few or too much alike for ranges",
                where=source.name,
                remedy="Count its values: leave the ranges out.",
            )
    return edges
