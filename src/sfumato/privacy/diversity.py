"""l-diversity: the sensitive values of every class are different enough.

Three kinds, after Machanavajjhala, Gehrke & Kifer 2006: distinct, entropy and recursive. A missing
value protects nobody: all are about the values that a class is known to hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Self, TypedDict

import numpy as np

from sfumato.errors import ParameterError, spell
from sfumato.fields import Field
from sfumato.privacy.base import (
    HOLDS,
    TOLERANCE,
    Asked,
    Counted,
    Measured,
    Model,
    SensitiveColumn,
    commonest,
    least,
    most,
    require_number,
    require_whole,
)
from sfumato.privacy.rules import DISTINCT, ENTROPY, RECURSIVE

__all__ = [
    "DistinctDiversity",
    "DiversityFields",
    "EntropyDiversity",
    "RecursiveDiversity",
    "richest",
]


class DiversityFields(TypedDict, total=False):
    """Parameters of l-diversity."""

    l: Annotated[  # noqa: E741 (the field's own name)
        float | None,
        Field(
            "l-diversity: so many sensitive values in every class.",
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
    c: Annotated[
        float | None,
        Field(
            "c of recursive (c,l)-diversity.",
            HOLDS,
            "--c",
            "C",
            label="c",
            when="l_kind=recursive",
        ),
    ]


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
            f"l = {number:g} is no whole number", remedy="Only entropy takes fractions."
        )
    return float(number)


@dataclass(frozen=True)
class DistinctDiversity(Model):
    """Every class holds at least l distinct values of the sensitive column."""

    l: int  # noqa: E741
    column: str
    name: ClassVar[str] = "distinct l-diversity"
    numbers: ClassVar[tuple[str, ...]] = ("l",)

    def __post_init__(self) -> None:
        require_whole(self.l, "l")

    @classmethod
    def of(cls, asked: Asked) -> Iterable[Self]:
        number = _of_kind(asked, "distinct")
        return () if number is None else [cls(int(number), name) for name in asked.sensitive]

    def measure(self, counted: Counted) -> Measured:
        distinct = counted.held.known.distinct
        return Measured(distinct >= self.l, {"l": least(distinct)})

    def rule(self, column: SensitiveColumn) -> tuple[int, float, float]:
        return DISTINCT, float(self.l), 0.0

    def best(self, counted: Counted) -> tuple[str, str]:
        values, reason = richest(counted)
        return f"l <= {values}", reason


@dataclass(frozen=True)
class EntropyDiversity(Model):
    """The entropy of the sensitive column in every class is at least log l (Definition 4.1)."""

    l: float  # noqa: E741
    column: str
    name: ClassVar[str] = "entropy l-diversity"
    numbers: ClassVar[tuple[str, ...]] = ("l",)

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
        reason = (
            f"the evenest class possible has {best:g}, since {commonest(counted.held.known, at)}"
        )
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
        return Measured(ratio < self.c, {"c": most(ratio), "l": self.l})

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
        return best, f"{commonest(held, at)}, and {rest:,} the {rank} commonest or a rarer one"


def richest(counted: Counted) -> tuple[int, str]:
    """Distinct values of the class that has most, and what it holds, in words."""
    held = counted.held.known
    at = int(np.argmax(held.distinct))
    values = int(held.distinct[at])
    rows = int(held.sizes[at])
    those = f"all {rows:,} rows together hold"
    if held.classes > 1:
        those = f"the {rows:,} rows of the richest class possible hold"
    largest = int(held.count[held.start[at] : held.start[at + 1]].max(initial=0))
    plural = "" if values == 1 else "s"
    return values, (f"{those} {values} distinct value{plural}, the commonest in {largest:,} rows")


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10)
    return f"{number}{ending or 'th'}"
