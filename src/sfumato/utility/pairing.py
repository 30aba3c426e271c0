"""Any two tables as original and release: rows are paired, released cells are read back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import ColumnError, HierarchyError, InputError, did_you_mean
from sfumato.hierarchy import Hierarchy, Published, Ranges, ValueSets
from sfumato.hierarchy.tree import Array
from sfumato.tables import table
from sfumato.utility.view import View

__all__ = ["pair_tables"]


def pair_tables(
    original: Any,
    released: Any,
    qi: Sequence[str],
    *,
    key: str | None = None,
    hierarchies: Mapping[str, Hierarchy] | None = None,
) -> View:
    """Put a release beside its original.

    Parameters
    ----------
    original, released
        Anything `sfumato.table` opens. Without a `key`, row i of one is row i of the other.
    qi
        Columns to compare.
    key
        A column with a different value in every row of the original; rows of it that are not in
        the release are suppressed.
    hierarchies
        Trees of the columns that were generalized with one. Other columns are read as ranges
        where they hold numbers or dates, else as sets of values.

    Examples
    --------
    >>> original = pa.table({"age": [20, 25, 60]})
    >>> released = pa.table({"age": ["[20, 26)", "[20, 26)", "60"]})
    >>> view = pair_tables(original, released, ["age"])
    >>> view.class_sizes.tolist()
    [2, 1]
    """
    names = [*qi, *([key] if key else [])]
    original, released = _rows(original, names, "original"), _rows(released, names, "release")
    place = _places(original, released, key)
    codes: dict[str, Array] = {}
    published: dict[str, Published] = {}
    for name in qi:
        column = original[name].combine_chunks()
        values = column.unique()
        codes[name] = np.asarray(pc.index_in(column, value_set=values)).astype(np.int64)
        shown = _read(name, values, released[name].combine_chunks(), (hierarchies or {}).get(name))
        published[name] = shown.take(place)
    return View(codes, published)


def _rows(source: Any, names: list[str], which: str) -> pa.Table:
    """Some columns of a table, as Arrow holds them."""
    opened = table(source)
    for name in names:
        if name not in opened.columns:
            raise ColumnError(
                f"the {which} has no column `{name}`", remedy=did_you_mean(name, opened.columns)
            )
    schema = pa.schema([(name, opened.column(name).type) for name in names])
    batches = [batch.cast(schema) for batch in opened.batches(names)]  # text may be in dictionaries
    return pa.Table.from_batches(batches, schema)


def _read(name: str, values: pa.Array, cells: pa.Array, tree: Hierarchy | None) -> Published:
    """What a released column shows, in terms of the original's values."""
    if tree is not None:
        bound = tree.bind(values, name)
        return bound.published(bound.read(cells))
    kind = values.type
    is_text = (
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_boolean(kind)
    )
    if not is_text:
        ranges = Ranges(values, name)
        try:
            return ranges.published(*ranges.read(cells))
        except HierarchyError:
            pass  # perhaps sets of numbers
    sets = ValueSets(values, name)
    return sets.published(*sets.read(cells))


def _places(original: pa.Table, released: pa.Table, key: str | None) -> Array:
    """The released row of each original row; -1 where it is suppressed."""
    if key is None:
        if original.num_rows != released.num_rows:
            raise InputError(
                f"the original has {original.num_rows:,} rows and the release "
                f"{released.num_rows:,}; they cannot be paired by position",
                remedy="Name a key column that both have.",
            )
        return np.arange(original.num_rows)
    mine, theirs = original[key].combine_chunks(), released[key].combine_chunks()
    if theirs.type != mine.type:
        theirs = theirs.cast(mine.type)
    for column, which in ((mine, "original"), (theirs, "release")):
        if len(column.unique()) != len(column):
            raise ColumnError(
                f"`{key}` does not tell all rows of the {which} apart",
                remedy="Name a column that differs in every row.",
            )
    if int(pc.sum(pc.is_in(theirs, value_set=mine)).as_py() or 0) != len(theirs):
        raise InputError(
            f"the release has rows whose `{key}` is not in the original",
            remedy="Give the table that the release was made from.",
        )
    return np.asarray(pc.index_in(mine, value_set=theirs).fill_null(-1)).astype(np.int64)
