"""What every privacy model is: a demand on classes that can be measured, compiled and written down.

A model is a frozen dataclass in a file of its own. It says what it measures on classes, the rule by
which compiled anonymizers judge groups, what can be reached at best, which parameters ask for it,
and how it reads in certificates. `sfumato.privacy.models` lists them; nothing else knows one from
another.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import ParameterError, spell
from sfumato.hierarchy import Hierarchy
from sfumato.hierarchy.ranges import numbers
from sfumato.hierarchy.tree import Array, Tree
from sfumato.kernels import group_sums
from sfumato.privacy.classes import ClassHistogram

HOLDS = "What must hold"
"""The group of the models' parameters."""
TOLERANCE = 1e-12
"""How far rounding may push a share or distance over what was asked."""


@dataclass(frozen=True, eq=False)
class SensitiveColumn:
    """A sensitive column as a whole table holds it.

    Parameters
    ----------
    counts
        Rows of the table that hold each code.
    values
        The distinct values in order of the codes; needed for hierarchies and for the value that
        (α,k)-anonymity names. Codes are taken to be ranks: a smaller code is a smaller value, and
        the last code may be that of missing values.
    """

    counts: Array
    values: pa.Array | None = None

    @classmethod
    def of(cls, codes: Any, counts: Any = None, values: pa.Array | None = None) -> SensitiveColumn:
        """From the column's codes, with the rows each entry stands for."""
        codes = np.asarray(codes)
        size = int(codes.max()) + 1 if len(codes) else 0
        size = max(size, 0 if values is None else len(values))
        return cls(group_sums(codes, size, counts), values)

    @property
    def has_missing(self) -> bool:
        """Whether the last code stands for missing values."""
        return bool(self.values is not None and len(self.values) and not self.values[-1].is_valid)

    def seen_in(self, histogram: ClassHistogram) -> ClassHistogram:
        """Classes of the column's codes, with the code of missing values, if any."""
        if self.values is None or not self.has_missing:
            return histogram
        return replace(histogram, missing=len(self.values) - 1)

    def tree(self, hierarchy: Hierarchy, name: str) -> Tree:
        """A hierarchy over this column's codes."""
        if self.values is None:
            raise ParameterError("a hierarchical distance needs the values of the column")
        return hierarchy.bind(self.values, name).tree

    def bins(self, edges: Sequence[float]) -> Array:
        """The range of each code: between which of the edges its value lies."""
        if self.values is None:
            raise ParameterError("ranges of sensitive numbers need the values of the column")
        return np.searchsorted(np.asarray(edges), numbers(self.values, ""), "right")

    def code_of(self, value: Any, column: str) -> int:
        """The code of a value."""
        if self.values is None:
            raise ParameterError("a limit on one value needs the values of the column")
        try:
            wanted = pa.scalar(value).cast(self.values.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            wanted = None
        found = -1 if wanted is None else pc.index(self.values, wanted).as_py()
        if found < 0:
            raise ParameterError(
                "the value whose share to limit does not occur",
                where=f"column `{column}`",
                remedy="Write it as it stands in the table.",
            )
        return int(found)


@dataclass(frozen=True, eq=False)
class Counted:
    """What models measure: some classes, and what they hold of one sensitive column.

    Attributes
    ----------
    sizes
        Rows of each class, or people of a population who match it, whichever the model counts.
    histogram, column
        The sensitive column in each class and in the whole table, for models that are about one.
    """

    sizes: Array
    histogram: ClassHistogram | None = None
    column: SensitiveColumn | None = None

    @property
    def held(self) -> ClassHistogram:
        """The histogram of a model that is about a sensitive column."""
        assert self.histogram is not None
        return self.histogram


class Measured(NamedTuple):
    """Which classes are fine, and what the worst of them has under the names of the parameters."""

    fine: Array
    worst: dict[str, Any]


@dataclass(frozen=True)
class Reach:
    """How far a model can be met by rows that may only share a class within their block.

    Attributes
    ----------
    asked
        The demand, e.g. ``distinct l-diversity of illness with l = 3``.
    best
        What may be asked at most, e.g. ``l <= 2``.
    reason
        What stands in the way in the best block, as counts of rows.
    blocked_rows, blocked_blocks
        Rows in blocks that do not satisfy the model even as one class, and how many blocks.
    """

    asked: str
    best: str
    reason: str
    blocked_rows: int
    blocked_blocks: int


@dataclass(frozen=True)
class Asked:
    """Parameters from which models make themselves.

    Attributes
    ----------
    values
        Every parameter of the models, with its default where it was not given.
    sensitive
        The sensitive columns, for each of which a model holds.
    ordered
        Columns whose values lie on a line.
    hierarchies
        Trees by column.
    edges
        By column, the numbers between which its values count as one.
    """

    values: Mapping[str, Any]
    sensitive: Sequence[str] = ()
    ordered: Sequence[str] = ()
    hierarchies: Mapping[str, Hierarchy] = field(default_factory=dict)
    edges: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def about_sensitive(self, name: str) -> Any:
        """A number that is asked of sensitive columns; None where it was not given."""
        value = self.values[name]
        if value is None:
            return None
        if not self.sensitive:
            raise ParameterError(
                f"{name} is about a sensitive column, and none was named",
                remedy=f"Name it, e.g. {spell('sensitive', ['diagnosis'])}.",
            )
        return value


class Model(ABC):
    """A demand on every class, that is on every set of rows that agree on the quasi-identifiers.

    A model about a sensitive column has a field `column`. All models are monotone: if two classes
    satisfy one, so does their union.
    """

    name: ClassVar[str]
    """What the field calls it; its name in certificates."""
    numbers: ClassVar[tuple[str, ...]]
    """The fields that are asked for, as they are reported."""
    asked_by: ClassVar[tuple[str, ...]]
    """The parameters that ask for it: where none of them is given, nobody does."""
    asks_people: ClassVar[bool] = False
    """Whether it counts people of a population who match a class, and not its rows."""
    compares: ClassVar[bool] = False
    """Whether classes are compared with the distribution of all released rows."""

    @property
    def about(self) -> str | None:
        """The sensitive column it is about, if any."""
        return getattr(self, "column", None)

    @property
    def title(self) -> str:
        """Its name, and what else tells it from others of that name."""
        return self.name

    @property
    def asked(self) -> dict[str, Any]:
        """What is asked, under the names of the parameters."""
        return {name: getattr(self, name) for name in self.numbers}

    @property
    def least_rows(self) -> int:
        """Rows that it asks of every class outright."""
        return 1

    @property
    def needs_values(self) -> bool:
        """Whether the values of its column are needed, not only their codes."""
        return False

    @property
    def needs_order(self) -> bool:
        """Whether the codes of its column must be ranks."""
        return False

    @classmethod
    @abstractmethod
    def of(cls, asked: Asked) -> Iterable[Self]:
        """The models that parameters ask for, some of which are given: often one a column."""

    @abstractmethod
    def measure(self, counted: Counted) -> Measured:
        """Measure classes."""

    @abstractmethod
    def best(self, counted: Counted) -> tuple[str, str]:
        """What may be asked at most of the best class, and what stands in the way there."""

    def rule(self, column: SensitiveColumn) -> tuple[int, float, float]:
        """Its compiled rule: the kind, its number, and a second one (see `rules.holds`)."""
        raise NotImplementedError

    def tree(self, column: SensitiveColumn) -> Tree | None:
        """The tree its rule needs, if any."""
        return None

    def reach(self, counted: Counted, rows: Array) -> Reach:
        """How far blocks get, the rows of each of which are given.

        Examples
        --------
        >>> from sfumato.privacy import DistinctDiversity
        >>> illness = SensitiveColumn(np.array([5, 3]))
        >>> blocks = ClassHistogram.of(np.array([0, 0, 1]), 2, np.array([0, 1, 0]), 2, [2, 3, 3])
        >>> rows = np.array([5, 3])
        >>> found = DistinctDiversity(2, "illness").reach(Counted(rows, blocks, illness), rows)
        >>> found.best, found.blocked_rows
        ('l <= 2', 3)
        """
        of = "" if self.about is None else f" of `{self.about}`"
        numbers = " and ".join(f"{_GREEK.get(n, n)} = {v:,.12g}" for n, v in self.asked.items())
        fails = ~self.measure(counted).fine
        return Reach(
            f"{self.name}{of} with {numbers}",
            *self.best(counted),
            int(rows[fails].sum()),
            int(fails.sum()),
        )

    def to_dict(self) -> dict[str, Any]:
        """As certificates record it."""
        told = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        return {"model": self.name, **told}

    @classmethod
    def from_dict(cls, parameters: Mapping[str, Any]) -> Self:
        """From what certificates record, without the name."""
        return cls(**parameters)


_GREEK = {"alpha": "α", "beta": "β"}


def smallest(numbers: Array) -> int | None:
    """The smallest; None where there are none."""
    return int(numbers.min()) if len(numbers) else None


def largest(numbers: Array) -> float | None:
    """The largest; None where there are none."""
    return float(numbers.max()) if len(numbers) else None


def commonest(counted: Counted, at: int, *, known: bool = False) -> str:
    """How many of a class hold its commonest value, or the commonest that is known.

    The class may be one of persons, each of whom has several values: their number is not the sum of
    what the histogram holds.
    """
    values = counted.held.known if known else counted.held
    counts = values.count[values.start[at] : values.start[at + 1]]
    held, rows = int(counts.max(initial=0)), int(counted.sizes[at])
    every = counted.held.count[counted.held.start[at] : counted.held.start[at + 1]]
    does = "holds" if held == 1 else "hold"
    missing = ", and values of others are missing" if counts.sum() < every.sum() else ""
    return (
        f"{held:,} of {rows:,} rows {does} one value, a share of {held / max(rows, 1):.6g}{missing}"
    )


def require_whole(value: Any, name: str) -> None:
    """Refuse what is not a whole number, or too small."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < 1:
        raise ParameterError(f"{name} = {value} is not possible", remedy=f"Give {name} >= 1.")


def require_number(
    value: Any, name: str, *, least: float = -math.inf, above: float = -math.inf
) -> None:
    """Refuse what is no number, or too small."""
    fits = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not fits or value < least or value <= above:
        bound = f"{name} > {above:g}" if above > -math.inf else f"{name} >= {least:g}"
        raise ParameterError(f"{name} = {value} is not possible", remedy=f"Give {bound}.")
