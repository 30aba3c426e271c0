"""Measure any table, or frame of pandas, against privacy models.

A column of a pandas frame that holds text is an array of references, mostly to a few objects. It
is encoded by the objects themselves: only one of each is ever looked at, so that measuring a
frame costs little more than reading it once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.budget import Budget
from sfumato.engines.protocol import smallest_dtype
from sfumato.hierarchy.tree import Array
from sfumato.kernels.compiling import compiled
from sfumato.privacy.base import Model
from sfumato.privacy.check import Check, check
from sfumato.tables import table
from sfumato.tables.source import is_pandas

if TYPE_CHECKING:
    import pandas as pd


_OBJECTS = ((1 << 8, np.uint8), (1 << 14, np.uint16))
"""Different objects up to which a column is encoded by identity, and the type of the codes."""
_SPREAD_OUT = 4
"""Whole numbers are taken as codes where their range has at most so many values a row."""


def check_table(
    source: Any,
    models: Sequence[Model],
    qi: Sequence[str] | Sequence[Sequence[str]],
    *,
    budget: Budget | None = None,
) -> Check:
    """Measure a table against privacy models.

    Parameters
    ----------
    source
        Anything `sfumato.table` opens. Only the columns concerned are read.
    models
        What must hold, all together; whether it does or not, the answer says what was measured.
    qi
        The quasi-identifiers, or several sets of them.

    Examples
    --------
    >>> import pandas as pd
    >>> from sfumato.privacy import Closeness, DistinctDiversity
    >>> illness = ["flu", "gout", "flu", "flu"]
    >>> frame = pd.DataFrame({"sex": ["F", "F", "M", "M"], "illness": illness})
    >>> models = [DistinctDiversity(2, "illness"), Closeness(0.3, "illness")]
    >>> found = check_table(frame, models, ["sex"])
    >>> [(dict(finding.measured), finding.holds) for finding in found.findings]
    [({'l': 1}, False), ({'t': 0.25}, True)]
    """
    names = _columns(models, qi)
    if is_pandas(source) and not any(model.needs_values for model in models):
        ordered = {model.about for model in models if model.needs_order}
        whole = {model.about for model in models}
        codes = _codes_of_frame(source, names, ordered, whole)
        if codes is not None:
            return check(models, codes, qi)

    entries = table(source, columns=names, budget=budget).classes(names, budget=budget)
    return check(
        models,
        dict(zip(entries.columns, entries.arrays, strict=True)),
        qi,
        counts=entries.counts,
        values=dict(zip(entries.columns, entries.values, strict=True)),
    )


def _columns(
    models: Sequence[Model], qi: Sequence[str] | Sequence[Sequence[str]]
) -> tuple[str, ...]:
    """Every column that is named, once."""
    named: dict[str, None] = {}
    for part in qi:
        named |= {part: None} if isinstance(part, str) else dict.fromkeys(part)
    named |= {model.about: None for model in models if model.about is not None}
    return tuple(named)


def _codes_of_frame(
    frame: pd.DataFrame, names: Sequence[str], ordered: set[str | None], whole: set[str | None]
) -> dict[str, Array] | None:
    """Codes of columns; None where one is not made of whole numbers or a few texts.

    Nor where one that must be whole lacks cells: codes alone do not say which one those have.
    """
    if not len(frame) or not frame.columns.is_unique:
        return None
    codes = {}
    for name in names:
        if name not in frame.columns:
            return None  # opening the table says so, with a suggestion
        cells = frame[name].to_numpy()
        found = None
        if cells.dtype == object and cells.flags.c_contiguous:
            found = _codes_of_objects(cells, name in ordered, name in whole)
        elif cells.dtype.kind in "iu":
            found = _codes_of_integers(cells)
        if found is None:
            return None
        codes[name] = found
    return codes


def _codes_of_objects(cells: Array, ordered: bool, whole: bool) -> Array | None:
    """Equal texts get equal codes, missing cells one of their own, the last."""

    addresses = np.frombuffer(cells, np.intp)
    for most, width in _OBJECTS:
        first, numbers = np.empty(most, np.int64), np.empty(len(cells), width)
        found = number_objects(addresses, first, numbers)
        if found >= 0:
            break
    else:
        return None
    objects = cells[first[:found]].tolist()
    if not all(type(value) is str or (_missing(value) and not whole) for value in objects):
        return None
    known = dict.fromkeys(value for value in objects if type(value) is str)
    if len(known) == len(objects) and not ordered:
        return numbers
    code_of = {text: code for code, text in enumerate(sorted(known) if ordered else known)}
    codes = np.array([code_of.get(value, len(known)) for value in objects], numbers.dtype)
    return np.asarray(codes[numbers])


def _missing(value: Any) -> bool:
    """None, and the not-a-number that pandas writes for it."""
    return value is None or (isinstance(value, float) and value != value)


def _codes_of_integers(cells: Array) -> Array | None:
    """Whole numbers counted from the smallest, where they lie close together."""
    low, high = int(cells.min()), int(cells.max())
    if high - low > _SPREAD_OUT * len(cells) + 1024 or high - low >= 2**32:
        return None
    counted: Array = cells - cells.dtype.type(low)
    return np.asarray(counted.astype(smallest_dtype(high - low + 1)))


_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@compiled
def number_objects(addresses, first, numbers):  # type: ignore[no-untyped-def]
    """Number objects in order of appearance; returns how many, or -1 where there are too many.

    `first` takes the place where each object was first met; its length is a power of two.
    """
    slots = 2 * len(first)
    shift = np.uint64(64)
    while np.uint64(1) << (np.uint64(64) - shift) < slots:
        shift -= np.uint64(1)
    met = np.full(slots, -1, np.int64)  # where no object can be
    number = np.empty(slots, numbers.dtype)
    found = 0
    for i in range(len(addresses)):
        address = addresses[i]
        at = (np.uint64(address) * _SPREAD) >> shift
        while met[at] != address:
            if met[at] == -1:
                if found == len(first):
                    return -1
                met[at], number[at], first[found] = address, found, i
                found += 1
                break
            at = (at + np.uint64(1)) & np.uint64(slots - 1)
        numbers[i] = number[at]
    return found
