"""How values become CSV text, and the same values again.

Null is an empty cell, the empty string is ``""``, and text is quoted only where a reader would
otherwise misread it. `parsed` is the inverse of `written` for every type that `written` takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["DELIMITERS", "ONE_COLUMN_NULL", "header_line", "lines", "parsed", "written"]

ONE_COLUMN_NULL = "NA"
"""Null in a table of one column, where an empty cell would be an empty line."""

DELIMITERS = (",", ";", "\t", "|")
"""What a reader may take for a delimiter; cells that contain one are quoted, whichever is used."""

_EXACT_INTEGERS = 1e15
"""Floats below this print without exponent, so that ``.0`` may follow."""


def written(array: pa.Array, name: str) -> pa.Array:
    """The cells of a column as text; null stays null.

    Examples
    --------
    >>> import pyarrow as pa
    >>> written(pa.array([1.0, 0.5, None]), "height").to_pylist()
    ['1.0', '0.5', None]
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as t

    type_ = array.type
    if t.is_run_end_encoded(type_):
        return written(pc.run_end_decode(array), name)
    if t.is_dictionary(type_):
        # Null may hide in the indices or among the values; taking keeps both.
        return written(array.dictionary, name).take(array.indices)
    if t.is_floating(type_):
        text = array.cast(pa.string())
        wide = array.cast(pa.float64())
        whole = pc.and_(pc.equal(wide, pc.floor(wide)), pc.less(pc.abs(wide), _EXACT_INTEGERS))
        plain = pc.and_(whole, pc.invert(pc.match_substring(text, "e")))
        return pc.if_else(plain, pc.binary_join_element_wise(text, "0", "."), text)
    if t.is_duration(type_):
        return array.cast(pa.int64()).cast(pa.string())
    if t.is_binary(type_) or t.is_large_binary(type_) or t.is_fixed_size_binary(type_):
        raise ParameterError(
            f"column `{name}` holds binary values, which CSV cannot carry",
            remedy="Write Parquet, or leave the column out.",
        )
    if t.is_date(type_) or t.is_timestamp(type_):
        _refuse_far_years(array, name)
    return array.cast(pa.string())


def _refuse_far_years(array: pa.Array, name: str) -> None:
    """Readers know years of four digits; the earliest and the latest cell decide for all."""
    import pyarrow as pa
    import pyarrow.compute as pc

    extremes = pc.min_max(array)
    text = pa.array([extremes["min"], extremes["max"]], array.type).cast(pa.string())
    if pc.any(pc.invert(pc.match_substring_regex(text, "^[0-9]{4}-"))).as_py():
        raise ParameterError(
            f"column `{name}` holds dates outside the years 0 to 9999, which CSV cannot carry",
            remedy="Write Parquet, correct the dates, or leave the column out.",
        )


def parsed(text: pa.Array, type_: pa.DataType) -> pa.Array:
    """The values that `written` wrote.

    Examples
    --------
    >>> import pyarrow as pa
    >>> parsed(pa.array(["1.0", None]), pa.float64()).to_pylist()
    [1.0, None]
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as t

    if t.is_dictionary(type_):
        return parsed(text, type_.value_type)
    if t.is_null(type_):
        return pa.nulls(len(text))
    if t.is_time(type_):
        # Arrow parses timestamps, not times of day.
        stamp = pc.binary_join_element_wise("1970-01-01", text, " ")
        return stamp.cast(pa.timestamp(type_.unit)).cast(type_)
    if t.is_duration(type_):
        return text.cast(pa.int64()).cast(type_)
    return text.cast(type_)


def lines(batch: pa.RecordBatch, delimiter: str) -> pa.Buffer:
    """A record batch as CSV lines, without header.

    Examples
    --------
    >>> import pyarrow as pa
    >>> batch = pa.record_batch({"name": ["Ann, MD", "", None], "age": [30, 40, 50]})
    >>> print(lines(batch, ",").to_pybytes().decode(), end="")
    "Ann, MD",30
    "",40
    ,50
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    null = ONE_COLUMN_NULL if batch.num_columns == 1 else ""
    cells = [
        _quoted(column, name, null)
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    rows = pc.binary_join_element_wise(
        *cells, delimiter, null_handling="replace", null_replacement=null
    )
    # The data buffer of an array of lines, each with its end, is the file's content.
    ended = pc.binary_join_element_wise(rows, "", "\n")
    _, offsets, data = ended.buffers()
    if data is None:
        return pa.py_buffer(b"")
    ends = np.frombuffer(offsets, np.int32)[ended.offset : ended.offset + len(ended) + 1]
    return data.slice(int(ends[0]), int(ends[-1] - ends[0]))


def header_line(names: list[str], delimiter: str) -> bytes:
    """The line of column names."""
    special = (*DELIMITERS, '"', "\r", "\n", "\ufeff")
    cells = [
        '"' + name.replace('"', '""') + '"' if not name or any(s in name for s in special) else name
        for name in names
    ]
    return (delimiter.join(cells) + "\n").encode()


def _quoted(column: pa.Array, name: str, null: str) -> pa.Array:
    """One column's cells as they stand in the file, null where the cell is null."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as t

    type_ = column.type
    if t.is_run_end_encoded(type_):
        return _quoted(pc.run_end_decode(column), name, null)
    if t.is_dictionary(type_):
        return _quoted(column.dictionary, name, null).take(column.indices)
    text = written(column, name)
    if not (t.is_string(type_) or t.is_large_string(type_) or t.is_string_view(type_)):
        return text
    needs = pc.or_(pc.equal(text, ""), pc.equal(text, null))
    for special in (*DELIMITERS, '"', "\r", "\n"):
        needs = pc.or_(needs, pc.match_substring(text, special))
    if not pc.any(needs).as_py():
        return text
    doubled = pc.replace_substring(text, '"', '""')
    quote = pa.scalar('"')
    return pc.if_else(needs, pc.binary_join_element_wise(quote, doubled, quote, ""), text)
