"""A sensible hierarchy for a column that came without one, and the reason for it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.hierarchy.builders import as_days, dates, flat, prefixes
from sfumato.hierarchy.hierarchy import Hierarchy
from sfumato.hierarchy.intervals import equal_frequency, intervals
from sfumato.hierarchy.labels import STAR, as_text
from sfumato.hierarchy.ranges import numbers
from sfumato.wording import counted

__all__ = ["infer"]

_POSTAL = re.compile(r"zip|postal|post_?code|plz|postleitzahl|cap\b|codigo_?postal", re.IGNORECASE)
_FINEST_INTERVALS = 20
"""About how many intervals the finest level of numbers gets."""
_FINEST_SPREAD = 1e-9
"""Numbers nearer to each other than this, relative to their size, are not cut at round numbers."""
_FEW = 6
"""Up to so many numbers are categories."""
_CROWDED = 0.6
"""If one interval of equal width would hold more than this share of rows, cut by frequency."""


def infer(
    name: str, values: pa.Array, counts: Any = None, *, categorical: bool = False, k: int = 5
) -> tuple[Hierarchy, str]:
    """Choose a hierarchy from a column's name, type and values.

    Parameters
    ----------
    name
        The column's name: a ZIP code and a number look alike but for it.
    values
        Distinct values of the column.
    counts
        Rows that hold each value. Without them each value counts once, and all multiples of a
        width are ends.
    categorical
        Whether numbers are codes, whose neighbours have nothing in common.
    k
        From how many rows on a value may be the end of an interval.

    Returns
    -------
    hierarchy
        Over exactly these values (nulls find their place when it is bound).
    reason
        Why this one, in a few words; it quotes no value.

    Examples
    --------
    >>> ages, reason = infer("age", pa.array(range(17, 91)))
    >>> ages.height, reason
    (6, 'numbers: intervals of 5, each next level twice as wide')
    >>> infer("zip", pa.array(["02138", "02139", "10001"]))[1]
    'codes of 5 characters: masked from the right'
    """
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if counts is not None:
        counts = np.asarray(counts)[np.asarray(values.is_valid())]
    values = values.drop_null()
    kind = values.type
    if len(values) == 0:
        return Hierarchy.from_levels([["null"], [STAR]]), "no values but null"
    if pa.types.is_boolean(kind):
        return flat(values), "yes or no: only * above"
    if categorical and not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return flat(values), f"{counted(len(values), 'code')} of categories: only * above"
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return _calendar(values, name)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _number(name, values, counts, k)
    text = as_text(values)
    if as_days(text) is not None:
        return _calendar(text, name)
    return _text(text)


def _calendar(values: pa.Array, name: str) -> tuple[Hierarchy, str]:
    days = as_days(values)
    assert days is not None
    if values.cast(pa.string()).equals(days.cast(pa.string())):
        return dates(values, name=name), "dates: month, quarter, year, decade"
    levels = ("day", "month", "quarter", "year", "decade")
    return dates(values, levels, name=name), "times: day, month, quarter, year, decade"


def _number(name: str, values: pa.Array, counts: Any, k: int) -> tuple[Hierarchy, str]:
    points = numbers(values, name)
    finite = points[np.isfinite(points)]
    whole = pa.types.is_integer(values.type)
    if whole and _POSTAL.search(name) and len(finite) and finite.min() >= 0:
        digits = max(len(str(int(finite.max()))), 5 if finite.max() >= 1000 else 0)
        return prefixes(values, digits=digits), f"postal codes of {digits} digits: masked"
    if len(finite) <= _FEW:
        return flat(values), f"{len(values)} numbers only: categories, * above"
    lowest, highest = float(finite.min()), float(finite.max())
    spread = highest - lowest
    even = np.isfinite(spread) and spread > _FINEST_SPREAD * max(abs(lowest), abs(highest), 1e-290)
    if even:
        width = _round_width(spread / _FINEST_INTERVALS, whole or bool((finite % 1 == 0).all()))
        weight = np.ones(len(points)) if counts is None else np.asarray(counts, dtype=float)
        weight = weight[np.isfinite(points)]
        in_interval = np.bincount(((finite - lowest) / width).astype(np.int64), weights=weight)
        even = in_interval.max() <= _CROWDED * weight.sum()
    if not even:
        tree = equal_frequency(values, counts, groups=16, k=k, name=name)
        return tree, "unevenly spread numbers: intervals of about equally many rows"
    tree = intervals(values, width=width, counts=counts, k=k, name=name)
    return tree, f"numbers: intervals of {width:g}, each next level twice as wide"


def _round_width(least: float, whole: bool) -> float:
    """The smallest of 1, 2, 5, 10, 20, … (or 0.1, 0.2, …) that is not below `least`."""
    least = max(least, 2.0) if whole else least
    unit = 10.0 ** np.floor(np.log10(least))
    return next(float(step * unit) for step in (1, 2, 5, 10) if step * unit >= least)


def _text(values: pa.Array) -> tuple[Hierarchy, str]:
    text = values.to_pylist()
    lengths = {len(item) for item in text}
    # Codes: all of one length, each with a digit, too many to be categories with a number in them
    coded = all(re.fullmatch(r"[0-9A-Za-z -]*[0-9][0-9A-Za-z -]*", item) for item in text)
    if coded and len(lengths) == 1 and 3 <= len(text[0]) <= 12 and len(text) > 2:
        return prefixes(values), f"codes of {len(text[0])} characters: masked from the right"
    if all(re.fullmatch(r"[0-9A-Za-z]+(\.[0-9A-Za-z]+)*", item) for item in text) and any(
        "." in item for item in text
    ):
        return _dotted(text), "dotted codes: cut at the dots"
    return flat(values), f"{len(text)} categories whose meaning is unknown: only * above"


def _dotted(codes: list[str]) -> Hierarchy:
    """E11.9 and E11 below ``E11.*`` below ``*``: one level a dot."""
    parts = {code: code.split(".") for code in codes}
    deepest = max(len(part) for part in parts.values())
    levels = [
        [code if len(p) < keep else ".".join(p[:keep]) + ".*" for code, p in parts.items()]
        for keep in range(deepest - 1, 0, -1)
    ]
    return Hierarchy.from_levels([codes, *levels, [STAR] * len(codes)])
