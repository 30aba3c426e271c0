"""Hierarchies from how values are written: codes by their beginnings, dates by the calendar,
orders by neighbourhood."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import ColumnError, ParameterError
from sfumato.hierarchy.hierarchy import Hierarchy
from sfumato.hierarchy.text import STAR, as_text, star_beside

__all__ = ["CALENDAR", "dates", "flat", "neighbours", "ordered_groups", "prefixes"]

CALENDAR = ("day", "month", "quarter", "year", "decade")
"""Levels of dates, finest first."""


def flat(values: pa.Array) -> Hierarchy:
    """Values and nothing but ``*`` above them (``**`` where ``*`` is a value itself).

    Examples
    --------
    >>> flat(pa.array(["F", "M"])).levels()[1].to_pylist()
    ['*', '*']
    """
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    text = as_text(values.drop_null())
    return Hierarchy.from_levels([text, pa.repeat(star_beside(text.to_pylist()), len(text))])


def prefixes(
    values: pa.Array, *, keep: Sequence[int] | None = None, digits: int | None = None
) -> Hierarchy:
    """Mask codes from the right: 02138, 0213*, 021**, …

    Parameters
    ----------
    keep
        How many characters to keep on each level, descending; by default one fewer each time.
    digits
        Length to which numbers are filled with zeros on the left before they are cut, for codes
        that lost theirs (2138 is the ZIP code 02138).

    Examples
    --------
    >>> [level.to_pylist() for level in prefixes(pa.array(["02138", "02139"]), keep=[3]).levels()]
    [['02138', '02139'], ['021**', '021**'], ['*', '*']]
    """
    text = _text(values)
    codes = [item.zfill(digits) for item in text] if digits else text
    if any(STAR in code for code in codes):
        raise ParameterError(
            "values that hold a * cannot be masked with it",
            remedy="Write the tree yourself, or leave it out: values then become sets.",
        )
    longest = max((len(code) for code in codes), default=1)
    kept = list(range(longest - 1, 0, -1)) if keep is None else list(keep)
    if any(length < 1 for length in kept) or any(np.diff(kept) >= 0):
        raise ParameterError(
            "the lengths to keep must descend and be at least 1", remedy="Write e.g. 4,3,2."
        )
    pairs = list(zip(text, codes, strict=True))
    levels = [
        [item if len(c) <= length else c[:length] + STAR * (len(c) - length) for item, c in pairs]
        for length in kept
    ]
    return Hierarchy.from_levels([text, *levels, [STAR] * len(text)])


def dates(values: pa.Array, levels: Sequence[str] = CALENDAR[1:], name: str = "dates") -> Hierarchy:
    """Days, months, quarters, years, decades.

    Parameters
    ----------
    values
        Dates, timestamps, or text in ISO form.
    levels
        Which of `CALENDAR` to use, finest first.

    Examples
    --------
    >>> born = dates(pa.array(["1987-03-05"]), levels=["month", "quarter", "year", "decade"])
    >>> [level[0].as_py() for level in born.levels()]
    ['1987-03-05', '1987-03', '1987-Q1', '1987', '1980s', '*']
    """
    unknown = [level for level in levels if level not in CALENDAR]
    if unknown or [lv for lv in CALENDAR if lv in levels] != list(levels):
        raise ParameterError(
            "levels of dates must be some of " + ", ".join(CALENDAR) + ", in this order",
            remedy="Write e.g. month,year.",
        )
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    values = values.drop_null()
    days = as_days(values)
    if days is None:
        raise ColumnError(
            "these are no dates", where=name, remedy="Write them as 2024-03-05, or leave them text."
        )
    year = [f"{y:04d}" for y in pc.year(days).to_pylist()]
    month, quarter = pc.month(days).to_pylist(), pc.quarter(days).to_pylist()
    texts = {
        "day": days.cast(pa.string()).to_pylist(),
        "month": [f"{y}-{m:02d}" for y, m in zip(year, month, strict=True)],
        "quarter": [f"{y}-Q{q}" for y, q in zip(year, quarter, strict=True)],
        "year": year,
        "decade": [f"{y[:-1]}0s" for y in year],
    }
    text = values.cast(pa.string()).to_pylist()
    return Hierarchy.from_levels([text, *(texts[level] for level in levels), [STAR] * len(text)])


def as_days(values: pa.Array) -> pa.Array | None:
    """Values as days, or None where they are no dates."""
    kind = values.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return values.cast(pa.date32(), safe=False)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        try:
            return values.cast(pa.timestamp("s")).cast(pa.date32(), safe=False)
        except pa.ArrowInvalid:
            return None
    return None


def ordered_groups(
    ordered: Sequence[str], sizes: Sequence[Sequence[int]], labels: Sequence[Sequence[str]] = ()
) -> Hierarchy:
    """Cut an order of values into groups of neighbours, and those into larger groups.

    Parameters
    ----------
    ordered
        The values, in their order.
    sizes
        For each level, how many neighbours of the level below each group takes.
    labels
        For each level the names of its groups; by default first and last value.

    Examples
    --------
    >>> grades = ordered_groups(["A", "B", "C", "D", "E"], [[2, 3]])
    >>> grades.levels()[1].to_pylist()
    ['A … B', 'A … B', 'C … E', 'C … E', 'C … E']
    """
    if labels and len(labels) != len(sizes):
        raise ParameterError(
            "there must be names for every level of groups, or none",
            remedy="Name the groups of all levels.",
        )
    first = np.arange(len(ordered))  # first value of each group of the level below
    levels: list[list[str]] = []
    for at, level in enumerate(sizes):
        if any(size < 1 for size in level) or sum(level) != len(first):
            raise ParameterError(
                f"the sizes of level {at + 1} must be at least 1 and add up to {len(first)}",
                remedy="Count the groups of the level below again.",
            )
        first = first[np.cumsum([0, *level[:-1]])]
        last = np.append(first[1:], len(ordered)) - 1
        names = [
            ordered[a] if a == b else f"{ordered[a]} … {ordered[b]}"
            for a, b in zip(first, last, strict=True)
        ]
        if labels:
            if len(labels[at]) != len(level):
                raise ParameterError(
                    f"level {at + 1} has {len(level)} groups, not as many names",
                    remedy="Give every group one name.",
                )
            names = list(labels[at])
        levels.append(np.repeat(np.array(names, dtype=object), last - first + 1).tolist())
    return Hierarchy.from_levels([list(ordered), *levels, [star_beside(ordered)] * len(ordered)])


def neighbours(values: pa.Array, fanout: int = 2) -> Hierarchy:
    """Cut values, in their own order, into groups of neighbours, and those into larger ones.

    Examples
    --------
    >>> neighbours(pa.array([3, 1, 2])).levels()[1].to_pylist()
    ['1 … 2', '1 … 2', '3']
    """
    if fanout < 2:
        raise ParameterError(f"groups of {fanout} never end", remedy="Give at least 2.")
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    values = values.drop_null()
    ordered = _text(values.take(pc.sort_indices(values)))
    sizes: list[list[int]] = []
    left = len(ordered)
    while left > fanout:
        level = [fanout] * (left // fanout) + ([left % fanout] if left % fanout else [])
        sizes.append(level)
        left = len(level)
    return ordered_groups(ordered, sizes)


def _text(values: pa.Array) -> list[str]:
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    text: list[str] = as_text(values.drop_null()).to_pylist()
    return text
