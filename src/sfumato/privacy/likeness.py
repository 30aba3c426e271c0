"""β-likeness: no sensitive value is much likelier in a class than in the whole table.

Cao & Karras, "Publishing Microdata with a Robust Privacy Guarantee", VLDB 2012. Where a value has
the share p in the table and q > p in a class, what an adversary gains about it is (q - p) / p.
Unlike t-closeness, which adds differences up, it protects rare values as much as common ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Self, TypedDict, get_args

import numpy as np

from sfumato.errors import ParameterError, did_you_mean, spell
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
)
from sfumato.privacy.rules import LIKE

Kind = Literal["basic", "enhanced"]


class LikenessFields(TypedDict, total=False):
    """Parameters of β-likeness."""

    likeness: Annotated[
        float | None,
        Field(
            "β-likeness: a sensitive value's share of a class exceeds its share of all released "
            "rows by at most β times that share.",
            HOLDS,
            "--likeness",
            "BETA",
            label="Gain about one value, at most",
            symbol="β",
        ),
    ]
    likeness_kind: Annotated[
        Kind,
        Field(
            "How β limits: basic (default), or enhanced: common values may gain less, at most -ln "
            "of their share.",
            HOLDS,
            "--likeness-kind",
            "KIND",
            default="basic",
            label="limited as",
        ),
    ]


@dataclass(frozen=True)
class Likeness(Model):
    """In every class, (q - p) / p <= β for every sensitive value of share q there, p in the table.

    Definition 2; the enhanced kind (Definition 3) asks for at most min(β, -ln p).
    """

    likeness: float
    column: str
    kind: Kind = "basic"
    name: ClassVar[str] = "β-likeness"
    numbers: ClassVar[tuple[str, ...]] = ("likeness",)
    asked_by: ClassVar[tuple[str, ...]] = ("likeness", "likeness_kind")
    compares: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_number(self.likeness, "β", above=0.0)
        if self.kind not in get_args(Kind):
            raise ParameterError(
                f"there is no β-likeness `{self.kind}`",
                remedy=did_you_mean(self.kind, get_args(Kind)),
            )

    @classmethod
    def of(cls, asked: Asked) -> Iterable[Self]:
        beta, kind = asked.about_sensitive("likeness"), asked.values["likeness_kind"]
        if beta is None and kind != "basic":
            raise ParameterError(
                f"{kind} β-likeness needs β", remedy=f"Give it, e.g. {spell('likeness', 1)}."
            )
        return () if beta is None else [cls(beta, name, kind) for name in asked.sensitive]

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name}"

    def measure(self, counted: Counted) -> Measured:
        gain, limit = self._gains(counted)
        held = counted.held
        fine = np.ones(held.classes, dtype=bool)
        fine[held.owner[gain > limit + TOLERANCE]] = False
        return Measured(fine, {"likeness": largest(np.maximum(gain, 0.0))})

    def _gains(self, counted: Counted) -> tuple[Array, Array]:
        """What each class tells about each value it holds, and what it may."""
        held = counted.held
        share = (held.total / max(int(held.total.sum()), 1))[held.value]
        gain = held.count / held.sizes[held.owner] / share - 1.0
        limit = np.full(len(gain), float(self.likeness))
        return gain, limit if self.kind == "basic" else np.minimum(limit, -np.log(share))

    def rule(self, column: SensitiveColumn) -> tuple[int, float, float]:
        return LIKE, float(self.likeness), float(self.kind == "enhanced")

    def best(self, counted: Counted) -> tuple[str, str]:
        gain, _ = self._gains(counted)
        worst = np.zeros(counted.held.classes)
        np.maximum.at(worst, counted.held.owner, gain)
        at = int(np.argmin(worst))
        nearest = math.ceil(float(worst[at]) * 1e6) / 1e6  # so that asking for it is enough
        return f"β >= {nearest:g}", (
            f"the class most like the table gains {worst[at]:.6g} about a value, and "
            + commonest(counted, at)
        )
