"""k-anonymity, and k-map: rows hide among each other, or among the people of a population."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self, TypedDict

from sfumato.fields import Field
from sfumato.privacy.base import (
    HOLDS,
    Asked,
    Counted,
    Measured,
    Model,
    least,
    require_whole,
)

__all__ = ["KAnonymity", "KAnonymityFields", "KMap", "KMapFields"]


class KAnonymityFields(TypedDict, total=False):
    """Parameters of k-anonymity."""

    k: Annotated[
        int | None,
        Field(
            "k-anonymity: every row looks like at least k-1 others.",
            HOLDS,
            "-k",
            "N",
            label="People alike, at least",
            least=2,
        ),
    ]


class KMapFields(TypedDict, total=False):
    """Parameters of k-map."""

    k_map: Annotated[
        int | None,
        Field(
            "k-map: every row matches at least so many people of the population.",
            HOLDS,
            "--k-map",
            "N",
        ),
    ]
    population: Annotated[
        Any,
        Field(
            "A table of people that has the quasi-identifiers too.",
            HOLDS,
            "--population",
            "TABLE",
            file=True,
        ),
    ]


@dataclass(frozen=True)
class KAnonymity(Model):
    """Every class has at least k rows (Samarati & Sweeney 1998)."""

    k: int
    name: ClassVar[str] = "k-anonymity"
    numbers: ClassVar[tuple[str, ...]] = ("k",)
    asked_by: ClassVar[tuple[str, ...]] = ("k",)

    def __post_init__(self) -> None:
        require_whole(self.k, "k")

    @classmethod
    def of(cls, asked: Asked) -> Iterable[Self]:
        return (cls(asked.values["k"]),)

    @property
    def least_rows(self) -> int:
        return int(self.k)

    def measure(self, counted: Counted) -> Measured:
        return Measured(counted.sizes >= self.k, {"k": least(counted.sizes)})

    def best(self, counted: Counted) -> tuple[str, str]:
        largest = int(counted.sizes.max(initial=0))
        return f"k <= {largest:,}", f"{largest:,} rows at most can be alike"


@dataclass(frozen=True)
class KMap(Model):
    """Every class matches at least k rows of a population table (Sweeney 2002)."""

    k: int
    name: ClassVar[str] = "k-map"
    numbers: ClassVar[tuple[str, ...]] = ("k",)
    asked_by: ClassVar[tuple[str, ...]] = ("k_map",)
    asks_people: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_whole(self.k, "k")

    @classmethod
    def of(cls, asked: Asked) -> Iterable[Self]:
        return (cls(asked.values["k_map"]),)

    @property
    def needs_values(self) -> bool:
        return True

    def measure(self, counted: Counted) -> Measured:
        return Measured(counted.sizes >= self.k, {"k": least(counted.sizes)})

    def best(self, counted: Counted) -> tuple[str, str]:
        largest = int(counted.sizes.max(initial=0))
        return f"k <= {largest:,} for k-map", f"{largest:,} people at most can match a row"
