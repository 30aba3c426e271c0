"""How far values may be generalized at most (Miller, Campan & Truta 2008).

The owner of the data marks nodes of a hierarchy. MAGVal(v), the maximum allowed generalization of
a value v, is the first marked node on the way from v to the root, v included; the root where none
is marked (Definition 3). Numbers without a tree get a maximum width instead.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.errors import ColumnError, HierarchyError, InputError, ParameterError, did_you_mean
from sfumato.files import read_text
from sfumato.hierarchy.encoded import EncodedHierarchy
from sfumato.hierarchy.hierarchy import Hierarchy
from sfumato.hierarchy.labels import Published
from sfumato.hierarchy.ranges import Ranges
from sfumato.hierarchy.sets import ValueSets
from sfumato.hierarchy.tree import Array

__all__ = ["Boundaries", "Limit", "maximum_allowed"]


@dataclass(frozen=True, eq=False)
class Limit:
    """The boundary of one column.

    Attributes
    ----------
    shape
        The column it limits.
    magval
        For a hierarchy, the highest node that each code may become; None for ranges.
    max_width
        For ranges, the widest one allowed; None for a hierarchy.
    """

    shape: EncodedHierarchy | Ranges
    magval: Array | None = None
    max_width: float | None = None

    @property
    def magset(self) -> list[str]:
        """Labels of the highest nodes allowed (Definition 4); empty for ranges."""
        if self.magval is None or isinstance(self.shape, Ranges):
            return []
        return sorted(str(text) for text in self.shape.labels(np.unique(self.magval)).to_pylist())

    def violations(self, codes: Any, published: Published, counts: Any = None) -> int:
        """Rows whose cell is generalized beyond the boundary.

        Parameters
        ----------
        codes
            Original code of each row.
        published
            What each row shows; suppressed rows violate nothing.
        counts
            Rows that each entry stands for.
        """
        codes = np.asarray(codes)
        shown = published.codes >= 0
        low = published.low[published.codes]
        high = published.high[published.codes]
        if isinstance(self.shape, Ranges):
            beyond = self._too_wide(low, high, codes)
        else:
            assert self.magval is not None
            allowed = self.magval[codes]
            beyond = (low < self.shape.first[allowed]) | (high > self.shape.last[allowed])
        beyond &= shown
        return int(beyond.sum() if counts is None else np.asarray(counts)[beyond].sum())

    def may_be_starred(self, codes: Any) -> Array:
        """Whether each value may show nothing at all: a star says as much as the root."""
        codes = np.asarray(codes)
        if isinstance(self.shape, Ranges):
            off_line = self.shape.position[codes] >= len(self.shape.points)
            return np.asarray(off_line | (self.shape.width <= (self.max_width or 0.0)))
        assert self.magval is not None
        return np.asarray(self.magval[codes] == self.shape.root)

    def _too_wide(self, low: Array, high: Array, codes: Array) -> Array:
        assert isinstance(self.shape, Ranges)
        points = self.shape.points
        if len(points) == 0:
            return np.zeros(len(codes), dtype=bool)
        last = len(points) - 1
        on_line = self.shape.position[codes] <= last
        mixed = (high > last) & (low != high)
        width = points[np.minimum(high, last)] - points[np.minimum(low, last)]
        return np.asarray(on_line & (mixed | (width > self.max_width)))


class Boundaries:
    """Boundaries of some columns, as the owner wrote them.

    Parameters
    ----------
    columns
        For each column either ``{"marks": [label, …]}`` or ``{"max_width": number}``.
    where
        File they come from, for error messages.

    Examples
    --------
    >>> import pyarrow as pa
    >>> places = Hierarchy.from_levels(
    ...     [["Wichita", "Lincoln"], ["Kansas", "Nebraska"], ["Midwest"] * 2, ["US"] * 2]
    ... )
    >>> bound = places.bind(pa.array(["Lincoln", "Wichita"]), "place")
    >>> boundaries = Boundaries({"place": {"marks": ["Kansas", "Midwest"]}})
    >>> boundaries.limits({"place": bound})["place"].magset
    ['Kansas', 'Midwest']
    """

    def __init__(self, columns: Mapping[str, Mapping[str, Any]], where: str | None = None) -> None:
        self.columns = {name: dict(rule) for name, rule in columns.items()}
        self.where = where
        for name, rule in self.columns.items():
            _validate(name, rule, where)

    @classmethod
    def read(cls, path: str | Path) -> Boundaries:
        """Read a TOML file with one table a column."""
        try:
            content = tomllib.loads(read_text(path, "the boundaries"))
        except tomllib.TOMLDecodeError as error:
            raise InputError(
                f"this is no TOML: {error}",
                where=str(path),
                remedy='Write e.g. [age] and below it max_width = 10, or marks = ["Midwest"].',
            ) from None
        for name, rule in content.items():
            if not isinstance(rule, dict):
                raise InputError(
                    f"`{name}` stands outside of a column",
                    where=str(path),
                    remedy="Write e.g. [age] and below it max_width = 10.",
                )
        return cls(content, str(path))

    def limits(
        self, shapes: Mapping[str, EncodedHierarchy | Ranges | ValueSets]
    ) -> dict[str, Limit]:
        """Resolve the boundaries against the columns of a table.

        Raises
        ------
        ColumnError
            If a boundary names a column that is not among `shapes`.
        HierarchyError
            If a mark names no node or more than one, or the kind of boundary does not fit.
        """
        limits = {}
        for name, rule in self.columns.items():
            if name not in shapes:
                raise ColumnError(
                    f"there is a boundary for `{name}`, which is no quasi-identifier",
                    where=self.where,
                    remedy=did_you_mean(name, shapes),
                )
            limits[name] = self._limit(name, rule, shapes[name])
        return limits

    def _limit(
        self, name: str, rule: dict[str, Any], shape: EncodedHierarchy | Ranges | ValueSets
    ) -> Limit:
        where = f"{self.where}, [{name}]" if self.where else f"boundary of `{name}`"
        if isinstance(shape, EncodedHierarchy) and "marks" in rule:
            allowed = maximum_allowed(shape.hierarchy, rule["marks"], where=where)
            bound_id = np.full(shape.hierarchy.tree.nodes, shape.root, dtype=np.int32)
            known = shape.origin >= 0
            bound_id[shape.origin[known]] = np.flatnonzero(known)
            magval = np.full(shape.size, shape.root, dtype=np.int32)
            leaves = shape.origin[: shape.size]
            magval[leaves >= 0] = bound_id[allowed[leaves[leaves >= 0]]]
            return Limit(shape, magval=magval)
        if isinstance(shape, Ranges) and "max_width" in rule:
            return Limit(shape, max_width=float(rule["max_width"]))
        if "marks" in rule:
            raise HierarchyError(
                "marks name nodes of a hierarchy, and this column has none",
                where=where,
                remedy="Give it a hierarchy, or a max_width if it holds numbers.",
            )
        raise HierarchyError(
            "a max_width limits ranges of numbers, and this column is not blurred into ranges",
            where=where,
            remedy='Write marks = ["…"] with labels of its hierarchy.',
        )


def maximum_allowed(hierarchy: Hierarchy, marks: list[str], *, where: str | None = None) -> Array:
    """MAGVal of every leaf: the first marked node on its way to the root, else the root."""
    tree = hierarchy.tree
    marked = np.zeros(tree.nodes, dtype=bool)
    for label in marks:
        marked[hierarchy.node(label, where=where)] = True
    marked[tree.root] = True
    on_the_way = marked[tree.ancestors]
    first = np.argmax(on_the_way, axis=1)
    return np.asarray(tree.ancestors[np.arange(tree.size), first])


def _validate(name: str, rule: dict[str, Any], where: str | None) -> None:
    place = f"{where}, [{name}]" if where else f"boundary of `{name}`"
    for key in rule:
        if key not in ("marks", "max_width"):
            raise ParameterError(
                f"`{key}` is no boundary",
                where=place,
                remedy=did_you_mean(key, ["marks", "max_width"]),
            )
    if len(rule) != 1:
        raise ParameterError(
            "a boundary is either marks or a max_width", where=place, remedy="Write one of them."
        )
    if "marks" in rule:
        marks = rule["marks"]
        if not isinstance(marks, (list, tuple)) or not all(isinstance(m, str) for m in marks):
            raise ParameterError(
                "marks must be a list of labels", where=place, remedy='Write marks = ["Midwest"].'
            )
    else:
        width = rule["max_width"]
        if isinstance(width, bool) or not isinstance(width, (int, float)) or not width >= 0:
            raise ParameterError(
                "max_width must be a number, zero or larger",
                where=place,
                remedy="Write e.g. max_width = 10.",
            )
