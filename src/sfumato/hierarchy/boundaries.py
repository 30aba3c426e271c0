"""How far values may be generalized at most (Miller, Campan & Truta 2008).

The owner of the data marks nodes of a hierarchy. MAGVal(v), the maximum allowed generalization of
a value v, is the first marked node on the way from v to the root, v included; the root where none
is marked (Definition 3). Numbers without a tree get a maximum width instead, or intervals: a value
may be blurred to the one it lies in. Their ends are given, or found in the table for a given number
of them, so that dense values get narrow intervals and sparse ones wide (the paper's future work).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.errors import ColumnError, HierarchyError, InputError, ParameterError, did_you_mean
from sfumato.files import read_text
from sfumato.hierarchy.hierarchy import EncodedHierarchy, Hierarchy
from sfumato.hierarchy.labels import Published, ValueSets
from sfumato.hierarchy.ranges import Ranges, numbers
from sfumato.hierarchy.tree import Array

_KINDS = ("marks", "max_width", "intervals")


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
    interval
        For ranges, the number of the interval at each position: the maximum allowed generalization
        of what lies there; None where there is a width instead.
    """

    shape: EncodedHierarchy | Ranges
    magval: Array | None = None
    max_width: float | None = None
    interval: Array | None = None

    @property
    def magset(self) -> list[str]:
        """Labels of the highest nodes or intervals allowed (Definition 4); empty for a width."""
        if isinstance(self.shape, Ranges):
            if self.interval is None:
                return []
            on_line = self.interval[: len(self.shape.points)]
            _, first, many = np.unique(on_line, return_index=True, return_counts=True)
            return [str(text) for text in self.shape.labels(first, first + many - 1).to_pylist()]
        if self.magval is None:
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
        if not shown.any():
            return 0
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
            if self.interval is not None:
                return np.asarray(off_line | (len(self.magset) < 2))
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
        if self.interval is not None:
            own = self.interval[self.shape.position[codes]]
            out = (self.interval[low] != own) | (self.interval[high] != own)
            return np.asarray(on_line & (mixed | out))
        width = points[np.minimum(high, last)] - points[np.minimum(low, last)]
        return np.asarray(on_line & (mixed | (width > self.max_width)))


class Boundaries:
    """Boundaries of some columns, as the owner wrote them.

    Parameters
    ----------
    columns
        For each column ``{"marks": [label, …]}``, ``{"max_width": number}`` or ``{"intervals":
        …}``: where intervals begin, or how many of about equally many rows there shall be.
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
        for name, rule in columns.items():
            if not isinstance(rule, Mapping):
                raise ParameterError(
                    "a boundary is either marks or a max_width or intervals",
                    where=f"{where}, [{name}]" if where else f"boundary of `{name}`",
                    remedy="Write e.g. max_width = 10.",
                )
        self.columns = {name: dict(rule) for name, rule in columns.items()}
        self.where = where
        for name, rule in self.columns.items():
            _validate(name, rule, where)
            if isinstance(rule.get("intervals"), (list, tuple)):
                rule["intervals"] = [
                    str(end) if isinstance(end, date) else end for end in rule["intervals"]
                ]

    @classmethod
    def read(cls, path: str | Path) -> Boundaries:
        """Read a TOML file with one table a column."""
        try:
            content = tomllib.loads(read_text(path, "the boundaries"))
        except tomllib.TOMLDecodeError as error:
            raise InputError(
                f"this is not TOML: {error}",
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
        self,
        shapes: Mapping[str, EncodedHierarchy | Ranges | ValueSets],
        rows: Mapping[str, Array] | None = None,
    ) -> dict[str, Limit]:
        """Resolve the boundaries against the columns of a table.

        Parameters
        ----------
        rows
            Rows that hold each code of a column, where a number of intervals is to be found.

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
                    f"there is a boundary for `{name}`, which is not a quasi-identifier",
                    where=self.where,
                    remedy=did_you_mean(name, shapes),
                )
            limits[name] = self._limit(name, rule, shapes[name], (rows or {}).get(name))
        return limits

    def _limit(
        self,
        name: str,
        rule: dict[str, Any],
        shape: EncodedHierarchy | Ranges | ValueSets,
        rows: Array | None,
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
        if isinstance(shape, Ranges) and "intervals" in rule:
            return Limit(shape, interval=_intervals(shape, rule["intervals"], rows, where))
        if "marks" in rule:
            raise HierarchyError(
                "marks name nodes of a hierarchy, and this column has none",
                where=where,
                remedy="Give it a hierarchy, or a max_width if it holds numbers.",
            )
        (kind,) = rule
        raise HierarchyError(
            f"{'a max_width limits' if kind == 'max_width' else 'intervals limit'} ranges of "
            "numbers, and this column is not blurred into ranges",
            where=where,
            remedy='Write marks = ["…"] with labels of its hierarchy.',
        )


def _intervals(shape: Ranges, asked: Any, rows: Array | None, where: str) -> Array:
    """The number of the interval at each position; what is on no line is an interval each."""
    points = len(shape.points)
    if isinstance(asked, int):
        if rows is None:
            raise HierarchyError(
                "how many rows hold each value is not known here, so intervals cannot be found",
                where=where,
                remedy="Write where they begin, e.g. intervals = [18, 30, 65].",
            )
        held = np.asarray(rows)[shape.order[:points]].astype(np.int64)
        interval = _even(held, asked)
    else:
        interval = np.searchsorted(np.unique(_ends(shape, asked, where)), shape.points, "right")
    last = int(interval.max(initial=-1))
    alone = np.arange(last + 1, last + 1 + shape.size - points)
    return np.concatenate([interval, alone]).astype(np.int64)


def _even(held: Array, wanted: int) -> Array:
    """Intervals of about equally many rows: each value goes where the middle of its rows lies."""
    middle = np.cumsum(held) - held / 2
    return np.minimum((middle * wanted / max(int(held.sum()), 1)).astype(np.int64), wanted - 1)


def _ends(shape: Ranges, asked: Any, where: str) -> Array:
    """Where intervals begin, as numbers of the column's line."""
    kind = shape.values.type
    plain = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    try:
        ends = (
            np.asarray(asked, float) if plain else numbers(pa.array(asked).cast(kind), shape.name)
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError, ValueError):
        raise HierarchyError(
            f"not all of these are values of the column, which holds {kind}",
            where=where,
            remedy="Write e.g. intervals = [18, 65], or of dates intervals = [1950-01-01].",
        ) from None
    return ends


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
        if key not in _KINDS:
            raise ParameterError(
                f"`{key}` is not a boundary", where=place, remedy=did_you_mean(key, _KINDS)
            )
    if len(rule) != 1:
        raise ParameterError(
            "a boundary is either marks or a max_width or intervals",
            where=place,
            remedy="Write one of them.",
        )
    if "marks" in rule:
        marks = rule["marks"]
        if not isinstance(marks, (list, tuple)) or not all(isinstance(m, str) for m in marks):
            raise ParameterError(
                "marks must be a list of labels", where=place, remedy='Write marks = ["Midwest"].'
            )
    elif "intervals" in rule:
        asked = rule["intervals"]
        listed = isinstance(asked, (list, tuple)) and len(asked) > 0
        counted = isinstance(asked, int) and not isinstance(asked, bool) and asked >= 1
        if not (listed or counted):
            raise ParameterError(
                "intervals are where they begin, or how many there shall be",
                where=place,
                remedy="Write e.g. intervals = [18, 30, 65], or intervals = 10.",
            )
    else:
        width = rule["max_width"]
        if isinstance(width, bool) or not isinstance(width, (int, float)) or not width >= 0:
            raise ParameterError(
                "max_width must be a number, zero or larger",
                where=place,
                remedy="Write e.g. max_width = 10.",
            )
