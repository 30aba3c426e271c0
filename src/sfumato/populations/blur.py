"""One column, blurred to at most so many distinct values.

How depends on what the values are: numbers, dates and times become ranges between quantiles
(section 4 of Lodha & Thomas), columns with a hierarchy climb to its first level with few enough
values, ZIP-like codes lose digits from the right, and plain categories keep their most frequent
values and star the rest.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sfumato.errors import ColumnError
from sfumato.populations.postal import looks_postal, postal_text
from sfumato.populations.quantiles import quantile_groups

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.hierarchy import Hierarchy

__all__ = ["Blurred", "Blurrer"]

FIRST_YEAR = 1900
MOSTLY = 0.75
"""Share of numbers from which other text in a column is taken for a mistake."""
NUMBER = r"^\s*[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\s*$"


@dataclass(frozen=True, eq=False)
class Blurred:
    """What a column becomes.

    Parameters
    ----------
    groups
        Group of each of the column's codes.
    labels
        What each group shows.
    action
        What was done, in a few words.
    """

    column: str
    groups: npt.NDArray[np.int64]
    labels: pa.Array
    action: str

    @property
    def distinct(self) -> int:
        """Distinct values left."""
        return len(self.labels)


class Blurrer:
    """A column that can be blurred to any number of values.

    Parameters
    ----------
    name, values, counts
        The column: its distinct values in the order of their codes (a null last), and their rows.
    hierarchy
        How categories generalize, where there is a tree.
    pad
        Give ZIP-like codes the leading zeros back that they lost.

    Examples
    --------
    >>> import pyarrow as pa
    >>> age = Blurrer("age", pa.array([20, 30, 40, 50]), np.array([5, 5, 5, 5]))
    >>> blurred = age.to(2)
    >>> blurred.labels.to_pylist(), blurred.groups.tolist()
    (['[20, 31)', '[40, 51)'], [0, 0, 1, 1])
    """

    def __init__(
        self,
        name: str,
        values: pa.Array,
        counts: npt.ArrayLike,
        hierarchy: Hierarchy | None = None,
        *,
        pad: bool = False,
    ) -> None:
        import pyarrow as pa

        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        self.name = name
        self.counts = np.asarray(counts, dtype=np.int64)
        self.values = values
        self._bound = None
        self._ranges = None
        if hierarchy is not None:
            self._bound = hierarchy.bind(values, name)
        elif looks_postal(name, values):
            from sfumato.hierarchy import prefixes

            self.values = postal_text(name, values, pad=pad)
            self._bound = prefixes(self.values).bind(self.values, name)
        elif pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
            refuse_mixture(name, values)
        elif not (pa.types.is_boolean(values.type) or pa.types.is_null(values.type)):
            from sfumato.hierarchy import Ranges

            self._ranges = Ranges(values, name)

    @property
    def domain(self) -> int:
        """Distinct values the column has."""
        return len(self.values)

    def line(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]] | None:
        """Numbers or dates as ascending numbers with their rows; None for other columns."""
        if self._ranges is None:
            return None
        on_line = self._ranges.order[: len(self._ranges.points)]
        return self._ranges.points, self.counts[on_line]

    def odd_dates(self, today: dt.date | None = None) -> list[str]:
        """Sentences about dates that can hardly be true."""
        import pyarrow as pa
        import pyarrow.compute as pc

        kind = self.values.type
        if not (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
            return []
        year = np.asarray(pc.fill_null(pc.year(self.values), FIRST_YEAR))
        last = (today or dt.date.today()).year
        odd = {
            f"before {FIRST_YEAR} (placeholders?)": int(self.counts[year < FIRST_YEAR].sum()),
            "in the future": int(self.counts[year > last].sum()),
        }
        return [f"column `{self.name}`: {rows:,} dates lie {w}" for w, rows in odd.items() if rows]

    @property
    def _star(self) -> str:
        """What stands for values that are not shown: never one of the column's own."""
        from sfumato.hierarchy.text import as_text, star_beside

        return star_beside(as_text(self.values).to_pylist())

    def to(self, distinct: int) -> Blurred:
        """The column with at most so many distinct values."""
        import pyarrow as pa

        if distinct >= self.domain:
            return Blurred(self.name, np.arange(self.domain), self.values, "untouched")
        if distinct <= 1:
            everything = np.zeros(self.domain, np.int64)
            return Blurred(self.name, everything, pa.array([self._star]), "suppressed")
        if self._bound is not None:
            return self._level(distinct)
        return self._quantiles(distinct) if self._ranges is not None else self._frequent(distinct)

    def _level(self, distinct: int) -> Blurred:
        bound = self._bound
        assert bound is not None
        for level in range(bound.height + 1):
            nodes, groups = np.unique(bound.ancestors[:, level], return_inverse=True)
            if len(nodes) <= distinct:
                break
        action = f"level {level} of {bound.height}: {len(nodes)} values"
        if len(nodes) == 1:
            action = "suppressed"
        return Blurred(self.name, groups.astype(np.int64), bound.labels(nodes), action)

    def _quantiles(self, distinct: int) -> Blurred:
        ranges = self._ranges
        assert ranges is not None
        on_line = len(ranges.points)
        others = self.domain - on_line  # null, NaN, infinities: each a value of its own
        counts = self.counts[ranges.order[:on_line]]
        made = quantile_groups(counts, groups=max(1, distinct - others))
        low = np.append(made.first_value, np.arange(on_line, self.domain))
        high = np.append(made.last_value, np.arange(on_line, self.domain))
        by_rank = np.append(made.group_of_value, len(made.cuts) + np.arange(others))
        groups = np.empty(self.domain, np.int64)
        groups[ranges.order] = by_rank
        action = f"{len(made.cuts)} ranges between quantiles"
        return Blurred(self.name, groups, ranges.labels(low, high), action)

    def _frequent(self, distinct: int) -> Blurred:
        import pyarrow as pa

        order = np.argsort(-self.counts, kind="stable")
        kept = np.sort(order[: distinct - 1])
        groups = np.full(self.domain, len(kept), np.int64)
        groups[kept] = np.arange(len(kept))
        labels = pa.concat_arrays(
            [self.values.take(pa.array(kept)).cast(pa.string()), pa.array([self._star])]
        )
        action = f"the {len(kept)} most frequent values, the others starred"
        return Blurred(self.name, groups, labels, action)


def refuse_mixture(name: str, values: pa.Array) -> None:
    """Refuse a text column that is numbers but for a few cells: it has neither order nor tree."""
    import pyarrow.compute as pc

    present = values.drop_null()
    if len(present) < 3:
        return
    numeric = pc.sum(pc.match_substring_regex(present, NUMBER)).as_py()
    if MOSTLY * len(present) <= numeric < len(present):
        raise ColumnError(
            f"{numeric:,} of {len(present):,} distinct values are numbers and the others are not",
            where=f"column `{name}`",
            remedy="Make the others null or give the column a hierarchy.",
        )
