"""Trees of a column: inferred, built as the form asks, or read from a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import sfumato.hierarchy as builders
from sfumato.engines.protocol import Column
from sfumato.errors import ParameterError
from sfumato.hierarchy import Hierarchy
from sfumato.web.outline import Outline

__all__ = ["MOST_VALUES", "Held", "built", "inferred", "read", "ways"]

MOST_VALUES = 20_000
"""Values of a column whose tree can be changed by hand."""
MOST_LEVELS = 50


@dataclass(frozen=True, eq=False)
class Held:
    """The values of a column, and the rows that hold each."""

    column: Column
    values: pa.Array
    counts: npt.NDArray[np.int64]

    def rows_of(self, outline: Outline) -> list[int]:
        """Rows that hold each value of a tree.

        Raises
        ------
        HierarchyError
            If the tree lacks a value of the column.
        """
        bound = outline.hierarchy.bind(self.values, self.column.name)
        rows = [0] * len(outline.values)
        for leaf, count in zip(bound.origin[: bound.size].tolist(), self.counts, strict=True):
            if leaf >= 0:
                rows[leaf] = int(count)
        return rows

    @property
    def missing(self) -> int:
        """Rows without a value: they stand apart in every tree."""
        return int(self.counts[np.asarray(self.values.is_null())].sum())


def inferred(held: Held) -> Outline:
    """The tree that a column gets when nobody makes one."""
    tree, reason = builders.infer(held.column.name, held.values, held.counts)
    return Outline.of(tree, f"inferred: {reason}")


def read(held: Held, text: str, name: str) -> Outline:
    """A tree from a file in ARX's form; it must know every value of the column."""
    tree = builders.parse_arx(text, where=name)
    if tree.height > MOST_LEVELS:
        raise ParameterError(
            f"the tree has {tree.height:,} levels", where=name,
            remedy=f"Leave out all but {MOST_LEVELS}.",
        )  # fmt: skip
    outline = Outline.of(tree, f"read from {name}")
    held.rows_of(outline)
    return outline


def ways(kind: str) -> tuple[str, ...]:
    """Ways to build a tree that make sense for a kind of column."""
    if kind in ("integer", "float", "decimal", "duration", "time"):
        return ("width", "cuts", "frequency", "prefixes", "flat")
    if kind in ("date", "timestamp"):
        return ("dates", "frequency", "flat")
    return ("prefixes", "order", "dates", "flat") if kind == "text" else ("flat",)


def built(held: Held, way: str, form: Mapping[str, Sequence[str]]) -> Outline:
    """A tree of the kind the form asks for."""
    if way == "infer":
        return inferred(held)
    if way not in ways(held.column.kind):
        raise ParameterError("there is no such way to make a tree", remedy="Choose one listed.")
    values, name = held.values, held.column.name
    makers: dict[str, Callable[[], tuple[Hierarchy, str]]] = {
        "width": lambda: _width(values, _one(form, "width", float), name),
        "cuts": lambda: _cuts(values, _list(form, "cuts", float), name),
        "frequency": lambda: _frequency(held, _one(form, "groups", int)),
        "prefixes": lambda: _prefixes(values, _list(form, "keep", int)),
        "order": lambda: _order(values, _one(form, "fanout", int)),
        "dates": lambda: _dates(values, form.get("calendar", ()), name),
        "flat": lambda: (builders.flat(values), "nothing but * above"),
    }
    tree, said = makers[way]()
    return Outline.of(tree, said)


Made = tuple[Hierarchy, str]


def _width(values: pa.Array, width: float, name: str) -> Made:
    tree = builders.intervals(values, width=width, name=name)
    return tree, f"intervals of {width:g}, each next level twice as wide"


def _cuts(values: pa.Array, edges: Sequence[float], name: str) -> Made:
    tree = builders.intervals(values, edges=sorted(set(edges)), name=name)
    return tree, f"cut at {', '.join(f'{edge:g}' for edge in sorted(set(edges)))}"


def _frequency(held: Held, groups: int) -> Made:
    tree = builders.equal_frequency(
        held.values, held.counts, groups=groups, name=held.column.name
    )  # fmt: skip
    return tree, f"{groups} intervals of about equally many rows"


def _prefixes(values: pa.Array, keep: Sequence[int]) -> Made:
    kept = sorted(set(keep), reverse=True)
    tree = builders.prefixes(values, keep=kept)
    return tree, f"the first {', '.join(str(length) for length in kept)} characters"


def _order(values: pa.Array, fanout: int) -> Made:
    return builders.neighbours(values, fanout), f"{fanout} neighbours at a time"


def _dates(values: pa.Array, levels: Sequence[str], name: str) -> Made:
    chosen = [level for level in builders.CALENDAR if level in levels]
    if not chosen:
        raise ParameterError("no level of the calendar was chosen", remedy="Choose at least one.")
    return builders.dates(values, chosen, name=name), "dates: " + ", ".join(chosen)


def _one(form: Mapping[str, Sequence[str]], name: str, kind: Callable[[str], Any]) -> Any:
    return _list(form, name, kind)[0]


def _list(form: Mapping[str, Sequence[str]], name: str, kind: Callable[[str], Any]) -> list[Any]:
    """Numbers as people write them: separated by commas or spaces."""
    written = "".join(form.get(name, [""])[:1]).replace(",", " ").split()
    try:
        numbers = [kind(part) for part in written[:1000]]
    except ValueError:
        numbers = []
    if not numbers or not all(abs(number) < 1e300 for number in numbers):
        raise ParameterError("numbers were expected", remedy="Write e.g. 18, 30, 65.")
    return numbers
