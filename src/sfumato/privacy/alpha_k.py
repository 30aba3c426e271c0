"""(α,k)-anonymity and p-sensitive k-anonymity: k rows, and limits on their sensitive values."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self, TypedDict

import numpy as np

from sfumato.errors import ParameterError
from sfumato.fields import Field
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
from sfumato.privacy.diversity import richest
from sfumato.privacy.rules import ALPHA, DISTINCT


class SensitivityFields(TypedDict, total=False):
    """Parameters of p-sensitive k-anonymity."""

    p: Annotated[
        int | None,
        Field(
            "p-sensitive k-anonymity: k rows and p sensitive values in every class.",
            HOLDS,
            "-p",
            "N",
            label="Values worth hiding, at least",
            least=1,
        ),
    ]


class AlphaKFields(TypedDict, total=False):
    """Parameters of (α,k)-anonymity."""

    alpha: Annotated[
        float | None,
        Field(
            "(α,k)-anonymity: no sensitive value takes a larger share of a class.",
            HOLDS,
            "--alpha",
            "SHARE",
            label="Share of one value, at most",
            symbol="α",
            most=1,
        ),
    ]


@dataclass(frozen=True)
class Sensitivity(Model):
    """p-sensitive k-anonymity: k rows and p distinct sensitive values (Truta & Vinay 2006)."""

    p: int
    k: int
    column: str
    name: ClassVar[str] = "p-sensitive k-anonymity"
    numbers: ClassVar[tuple[str, ...]] = ("p", "k")
    asked_by: ClassVar[tuple[str, ...]] = ("p",)

    def __post_init__(self) -> None:
        require_whole(self.p, "p")
        require_whole(self.k, "k")
        if self.p > self.k:
            raise ParameterError(
                f"p = {self.p} distinct values do not fit into k = {self.k} rows",
                remedy="p must not be larger than k.",
            )

    @classmethod
    def of(cls, asked: Asked) -> Iterable[Self]:
        p = asked.about_sensitive("p")
        return [cls(p, max(p, asked.values["k"] or 1), name) for name in asked.sensitive]

    @property
    def least_rows(self) -> int:
        return int(self.k)

    def measure(self, counted: Counted) -> Measured:
        distinct, sizes = counted.held.known.distinct, counted.sizes
        fine = (distinct >= self.p) & (sizes >= self.k)
        return Measured(fine, {"p": smallest(distinct), "k": smallest(sizes)})

    def rule(self, column: SensitiveColumn) -> tuple[int, float, float]:
        return DISTINCT, float(self.p), 0.0

    def best(self, counted: Counted) -> tuple[str, str]:
        values, reason = richest(counted)
        return f"p <= {values} and k <= {int(counted.sizes.max()):,}", reason


@dataclass(frozen=True)
class AlphaK(Model):
    """(α,k)-anonymity: k rows, and no sensitive value takes more than the share α of a class.

    Wong, Li, Fu & Wang 2006. With `value` only that sensitive value is limited.
    """

    alpha: float
    k: int
    column: str
    value: Any = None
    name: ClassVar[str] = "(α,k)-anonymity"
    numbers: ClassVar[tuple[str, ...]] = ("alpha", "k")
    asked_by: ClassVar[tuple[str, ...]] = ("alpha",)

    def __post_init__(self) -> None:
        require_number(self.alpha, "α", above=0.0)
        if self.alpha > 1:
            raise ParameterError(
                f"α = {self.alpha:g} is not a share of a class", remedy="Give 0 < α <= 1."
            )
        require_whole(self.k, "k")

    @classmethod
    def of(cls, asked: Asked) -> Iterable[Self]:
        alpha = asked.about_sensitive("alpha")
        return [cls(alpha, asked.values["k"] or 1, name) for name in asked.sensitive]

    @property
    def least_rows(self) -> int:
        return int(self.k)

    @property
    def needs_values(self) -> bool:
        return self.value is not None

    def measure(self, counted: Counted) -> Measured:
        share = self._shares(counted)
        fine = (share <= self.alpha + TOLERANCE) & (counted.sizes >= self.k)
        return Measured(fine, {"alpha": largest(share), "k": smallest(counted.sizes)})

    def _shares(self, counted: Counted) -> Array:
        if self.value is None:
            return counted.held.largest_share(sizes=counted.sizes)
        assert counted.column is not None
        code = counted.column.code_of(self.value, self.column)
        return counted.held.largest_share(code, counted.sizes)

    def rule(self, column: SensitiveColumn) -> tuple[int, float, float]:
        code = -1 if self.value is None else column.code_of(self.value, self.column)
        return ALPHA, float(self.alpha), float(code)

    def best(self, counted: Counted) -> tuple[str, str]:
        share = self._shares(counted)
        at = int(np.argmin(share))
        smallest = math.ceil(float(share[at]) * 1e6) / 1e6  # so that asking for it is enough
        reason = commonest(counted, at)
        if self.value is not None:
            reason = f"the limited value takes {share[at]:.6g} of the rows"
        return f"α >= {smallest:g} and k <= {int(counted.sizes.max()):,}", reason
