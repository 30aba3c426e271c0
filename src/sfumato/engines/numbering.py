"""All rows of a table as codes, where these fit though its cells do not.

Columns are numbered some at a time, and their values forgotten: what tells rows apart stays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.budget import Budget
from sfumato.engines.encoding import codes_of_table, encode_batches
from sfumato.engines.private_folder import PrivateFolder
from sfumato.engines.protocol import (
    TEXT_COPIES,
    VALUE_BYTES,
    CodeArray,
    Codes,
    Engine,
    asks_sql,
    columns_named,
    smallest_dtype,
)
from sfumato.engines.spool import give_back
from sfumato.errors import EngineMemoryError

SEARCH_BYTES = 40
"""What searches take for each row beside its codes, measured."""
COPIED = 1.5
"""How many times codes are held by searches that set rows aside which are told apart."""
_NUMBERED = 8
"""Bytes that numbering a column takes of each row, besides those of its values."""
_JUDGED = 5_000
"""Rows that tell how many values columns have."""


def coded_rows(
    engine: Engine,
    columns: Sequence[str],
    budget: Budget,
    rows: int | None = None,
    *,
    apart: bool = False,
) -> Codes | None:
    """All rows as codes where these fit, though not all columns can be numbered at once.

    Columns are read some at a time, and their values forgotten. A search that looks at one column
    after the other has them `apart`, on disk. Rows that are elsewhere may have no order that lasts:
    all of their columns come at once. None where there is no room, or no limit.
    """
    if budget.memory is None or not asks_sql(engine):
        return None
    rows, once = engine.row_count() if rows is None else rows, engine.source is None
    apart = apart and not once
    least = 0 if apart else COPIED * rows * len(columns)
    if not budget.holds(SEARCH_BYTES * rows + least):
        return None
    try:
        if once:
            engine.check_cells(columns, budget.memory)
    except EngineMemoryError:
        return None
    some = codes_of_table(engine.sample(engine.fitting(_JUDGED, columns, budget), columns))
    needed, long = {}, engine.value_bytes(columns)
    for name, codes in zip(some.columns, some.arrays, strict=True):
        value = VALUE_BYTES + TEXT_COPIES * long.get(name, 0)
        seen = _values_of(np.bincount(codes), rows)
        numbered = COPIED * smallest_dtype(seen).itemsize if once else _NUMBERED
        needed[name] = rows * numbered + seen * value
        if not budget.holds(needed[name]):  # a sample shows a larger share of the values
            values_there = engine.class_sizes([name], budget).classes
            needed[name] = rows * numbered + values_there * value
    if once and not budget.holds(SEARCH_BYTES * rows + sum(needed.values())):
        return None
    stored = _Stored() if apart else None
    held, values = list[CodeArray](), list[pa.Array]()
    waiting = columns_named(engine.schema(), columns)
    while waiting:
        group = [waiting.pop(0)]
        size = COPIED * sum(array.nbytes for array in held) + needed[group[0].name]
        if not budget.holds(size):
            return None
        while waiting and (once or budget.holds(size + needed[waiting[0].name])):
            size += needed[waiting[0].name]
            group.append(waiting.pop(0))
        batches = engine.batches([column.name for column in group])
        arrays, found, _ = encode_batches(
            batches, group, rows=rows, budget=budget, where=engine.name
        )
        values += [pa.nulls(len(one)) for one in found]
        (held.extend if stored is None else stored.add)(arrays)
        del arrays, found
        give_back()
    if not budget.holds(SEARCH_BYTES * rows + COPIED * sum(array.nbytes for array in held)):
        return None
    return Codes(tuple(columns), tuple(held) if stored is None else stored, tuple(values))


def _values_of(sampled: npt.NDArray[np.int64], rows: int) -> int:
    """How many values a column has, about, given how many sampled rows have each of some.

    Of rows that were not sampled, as large a share has a new value as of those that were has one
    that no other has (Good & Turing).
    """
    alone = int(np.count_nonzero(sampled == 1))
    looked_at = max(1, int(sampled.sum()))
    share = min(1.0, (alone + alone**0.5 + 1) / looked_at)
    return int(np.count_nonzero(sampled) + math.ceil(share * max(0, rows - looked_at)))


class _Stored(Sequence[CodeArray]):
    """Codes of columns on disk, read whenever they are asked for."""

    def __init__(self) -> None:
        self._folder = PrivateFolder()
        self._types: list[np.dtype[Any]] = []

    def add(self, arrays: Sequence[CodeArray]) -> None:
        for array in arrays:
            array.tofile(self._folder.path / str(len(self)))
            self._types.append(array.dtype)

    def __getitem__(self, at: Any) -> Any:
        return np.fromfile(self._folder.path / str(range(len(self))[at]), self._types[at])

    def __len__(self) -> int:
        return len(self._types)
