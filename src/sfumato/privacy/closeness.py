"""t-closeness: the sensitive column is distributed in every class much as in the whole table.

Li, Li & Venkatasubramanian 2007.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self, TypedDict, get_args

import numpy as np
import pyarrow as pa

from sfumato.errors import ColumnError, ParameterError, did_you_mean, spell
from sfumato.fields import Field
from sfumato.hierarchy import Hierarchy
from sfumato.hierarchy.tree import Array, Tree
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
from sfumato.privacy.rules import CLOSE_EQUAL, CLOSE_ORDERED, CLOSE_TREE

Distance = Literal["equal", "ordered", "hierarchical"]


class ClosenessFields(TypedDict, total=False):
    """Parameters of t-closeness."""

    t: Annotated[
        float | None,
        Field(
            "t-closeness: every class is within t of the distribution of all released rows.",
            HOLDS,
            "-t",
            "T",
            label="Distance from the whole, at most",
            most=1,
        ),
    ]
    t_distance: Annotated[
        str | Mapping[str, str] | None,
        Field(
            "How t is measured: ordered (default for numbers), equal (default for others) or "
            "hierarchical; or by column, e.g. income=ordered,job=hierarchical.",
            HOLDS,
            "--t-distance",
            "KIND",
            what="a kind of distance, or a table of them by column",
            label="measured",
        ),
    ]


@dataclass(frozen=True)
class Closeness(Model):
    """The sensitive column in every class is within t of its distribution in the table.

    The earth mover's distance takes all values equally far apart (``equal``), as far as their ranks
    (``ordered``), or as far as the height of their lowest common ancestor (``hierarchical``, which
    needs a hierarchy).
    """

    t: float
    column: str
    distance: Distance = "equal"
    hierarchy: Hierarchy | None = None
    name: ClassVar[str] = "t-closeness"
    numbers: ClassVar[tuple[str, ...]] = ("t",)
    asked_by: ClassVar[tuple[str, ...]] = ("t", "t_distance")
    compares: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_number(self.t, "t", least=0.0)
        if self.distance not in get_args(Distance):
            raise ParameterError(
                f"there is no distance `{self.distance}`",
                remedy="Choose one of: equal, ordered, hierarchical.",
            )
        if self.distance == "hierarchical" and self.hierarchy is None:
            raise ParameterError(
                "the hierarchical distance needs a hierarchy of the sensitive column",
                where=f"column `{self.column}`",
                remedy="Give one, or choose the equal or ordered distance.",
            )

    @classmethod
    def of(cls, asked: Asked) -> Iterable[Self]:
        t, distance = asked.about_sensitive("t"), asked.values["t_distance"]
        if t is not None and t > 1:
            raise ParameterError(
                f"t = {t:g} would always hold: no two distributions are farther apart than 1",
                remedy="Give a t between 0 and 1, e.g. 0.2.",
            )
        if t is None and distance is not None:
            raise ParameterError(
                "a distance only applies to t-closeness",
                remedy=f"Ask for it, e.g. {spell('t', 0.2)}.",
            )
        by_column = distance if isinstance(distance, Mapping) else {}
        for name, kind in by_column.items():
            if not kind:
                raise ParameterError(
                    f"no kind of distance is given for `{name}`",
                    remedy=f"Write e.g. {name}=ordered, or leave it out.",
                )
            if name not in asked.sensitive:
                raise ColumnError(
                    f"a distance is given for `{name}`, which is not a sensitive column",
                    remedy=did_you_mean(name, asked.sensitive),
                )
        for name in asked.sensitive if t is not None else ():
            usual = "ordered" if name in asked.ordered else "equal"
            kind = by_column.get(name) if isinstance(distance, Mapping) else distance
            yield cls(t, name, kind or usual, asked.hierarchies.get(name))  # type: ignore[arg-type]

    @property
    def title(self) -> str:
        return f"{self.name} ({self.distance} distance)"

    @property
    def needs_values(self) -> bool:
        return self.distance == "hierarchical"

    @property
    def needs_order(self) -> bool:
        return self.distance == "ordered"

    def measure(self, counted: Counted) -> Measured:
        distance = self._distances(counted)
        return Measured(distance <= self.t + TOLERANCE, {"t": largest(distance)})

    def _distances(self, counted: Counted) -> Array:
        if self.distance == "equal":
            return counted.held.distance_equal()
        if self.distance == "ordered":
            return counted.held.distance_ordered()
        assert counted.column is not None
        tree = self.tree(counted.column)
        assert tree is not None
        return counted.held.distance_tree(tree)

    def tree(self, column: SensitiveColumn) -> Tree | None:
        if self.distance != "hierarchical" or self.hierarchy is None:
            return None
        return column.tree(self.hierarchy, self.column)

    def rule(self, column: SensitiveColumn) -> tuple[int, float, float]:
        kinds = {"equal": CLOSE_EQUAL, "ordered": CLOSE_ORDERED, "hierarchical": CLOSE_TREE}
        return kinds[self.distance], float(self.t), 0.0

    def best(self, counted: Counted) -> tuple[str, str]:
        distance = self._distances(counted)
        at = int(np.argmin(distance))
        nearest = math.ceil(float(distance[at]) * 1e6) / 1e6  # so that asking for it is enough
        return f"t >= {nearest:g}", (
            f"the nearest class possible is {distance[at]:.6g} away from the table, and "
            + commonest(counted, at)
        )

    def to_dict(self) -> dict[str, Any]:
        told = super().to_dict()
        tree = told.pop("hierarchy")
        return (
            told
            if tree is None
            else {**told, "hierarchy": [level.to_pylist() for level in tree.levels()]}
        )

    @classmethod
    def from_dict(cls, parameters: Mapping[str, Any]) -> Self:
        levels = parameters.get("hierarchy")
        if levels is None:
            return cls(**parameters)
        arrays = [pa.array(level, pa.string()) for level in levels]
        return cls(**{**parameters, "hierarchy": Hierarchy.from_levels(arrays)})
