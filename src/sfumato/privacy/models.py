"""The privacy models that can be asked for, alone or together.

Each is a demand on every class, that is on every set of rows that agree on the quasi-identifiers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from sfumato.hierarchy import Hierarchy

__all__ = [
    "AlphaK",
    "Closeness",
    "DistinctDiversity",
    "EntropyDiversity",
    "KAnonymity",
    "KMap",
    "Model",
    "RecursiveDiversity",
    "Sensitivity",
]

Distance = Literal["equal", "ordered", "hierarchical"]


@dataclass(frozen=True)
class KAnonymity:
    """Every class has at least k rows (Samarati & Sweeney 1998)."""

    k: int
    name: ClassVar[str] = "k-anonymity"

    def __post_init__(self) -> None:
        _whole(self.k, "k", least=1)


@dataclass(frozen=True)
class DistinctDiversity:
    """Every class holds at least l distinct values of the sensitive column."""

    l: int  # noqa: E741 (the field's own name)
    column: str
    name: ClassVar[str] = "distinct l-diversity"

    def __post_init__(self) -> None:
        _whole(self.l, "l", least=1)


@dataclass(frozen=True)
class EntropyDiversity:
    """The entropy of the sensitive column in every class is at least log l.

    Machanavajjhala, Gehrke & Kifer 2006, Definition 4.1.
    """

    l: float  # noqa: E741
    column: str
    name: ClassVar[str] = "entropy l-diversity"

    def __post_init__(self) -> None:
        _number(self.l, "l", least=1.0)


@dataclass(frozen=True)
class RecursiveDiversity:
    """In every class r1 < c·(rl + … + rm), the counts of its sensitive values being r1 ≥ r2 ≥ ….

    Machanavajjhala, Gehrke & Kifer 2006, Definition 4.2. A class with fewer than l values fails.
    """

    c: float
    l: int  # noqa: E741
    column: str
    name: ClassVar[str] = "recursive (c,l)-diversity"

    def __post_init__(self) -> None:
        _number(self.c, "c", above=0.0)
        _whole(self.l, "l", least=1)


@dataclass(frozen=True)
class Closeness:
    """The sensitive column in every class is within t of its distribution in the table.

    Li, Li & Venkatasubramanian 2007. The earth mover's distance takes all values equally far
    apart (``equal``), as far as their ranks (``ordered``), or as far as the height of their lowest
    common ancestor (``hierarchical``, which needs a hierarchy).
    """

    t: float
    column: str
    distance: Distance = "equal"
    hierarchy: Hierarchy | None = None
    name: ClassVar[str] = "t-closeness"

    def __post_init__(self) -> None:
        _number(self.t, "t", least=0.0)
        if self.distance not in ("equal", "ordered", "hierarchical"):
            raise ParameterError(
                f"there is no distance `{self.distance}`",
                remedy="Known are: equal, ordered, hierarchical.",
            )
        if self.distance == "hierarchical" and self.hierarchy is None:
            raise ParameterError(
                "the hierarchical distance needs a hierarchy of the sensitive column",
                where=f"column `{self.column}`",
                remedy="Give one, or choose the equal or ordered distance.",
            )


@dataclass(frozen=True)
class Sensitivity:
    """p-sensitive k-anonymity: k rows and p distinct sensitive values (Truta & Vinay 2006)."""

    p: int
    k: int
    column: str
    name: ClassVar[str] = "p-sensitive k-anonymity"

    def __post_init__(self) -> None:
        _whole(self.p, "p", least=1)
        _whole(self.k, "k", least=1)
        if self.p > self.k:
            raise ParameterError(
                f"p = {self.p} distinct values do not fit into k = {self.k} rows",
                remedy="p must not be larger than k.",
            )


@dataclass(frozen=True)
class AlphaK:
    """(α,k)-anonymity: k rows, and no sensitive value takes more than the share α of a class.

    Wong, Li, Fu & Wang 2006. With `value` only that sensitive value is limited.
    """

    alpha: float
    k: int
    column: str
    value: Any = None
    name: ClassVar[str] = "(α,k)-anonymity"

    def __post_init__(self) -> None:
        _number(self.alpha, "α", above=0.0)
        if self.alpha > 1:
            raise ParameterError(f"α = {self.alpha:g} is no share", remedy="Give 0 < α <= 1.")
        _whole(self.k, "k", least=1)


@dataclass(frozen=True)
class KMap:
    """Every class matches at least k rows of a population table (Sweeney 2002)."""

    k: int
    name: ClassVar[str] = "k-map"

    def __post_init__(self) -> None:
        _whole(self.k, "k", least=1)


Model = (
    KAnonymity
    | DistinctDiversity
    | EntropyDiversity
    | RecursiveDiversity
    | Closeness
    | Sensitivity
    | AlphaK
    | KMap
)
"""Any of them; several together are simply a sequence."""


def _whole(value: Any, name: str, *, least: int) -> None:
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < least:
        raise ParameterError(f"{name} = {value} is not possible", remedy=f"Give {name} >= {least}.")


def _number(value: Any, name: str, *, least: float = -math.inf, above: float = -math.inf) -> None:
    fits = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not fits or value < least or value <= above:
        bound = f"{name} > {above:g}" if above > -math.inf else f"{name} >= {least:g}"
        raise ParameterError(f"{name} = {value} is not possible", remedy=f"Give {bound}.")
