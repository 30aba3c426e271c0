"""What an SQL engine sends back, in the terms of the questions."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sfumato.engines.codes import Codes
from sfumato.engines.schema import Column
from sfumato.errors import EngineError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["as_declared", "codes_of", "rows_identity"]


def as_declared(found: pa.Table, columns: Sequence[Column]) -> pa.Table:
    """The leading columns of an answer under their own names, in their declared types.

    Engines have fewer types than Arrow (one size of text, microseconds); what comes back is cast to
    what the table declares. Later columns of the answer, such as counts, stay as they are.
    """
    import pyarrow as pa

    arrays = [_cast(found.column(at), column.type) for at, column in enumerate(columns)]
    names = [column.name for column in columns]
    rest = found.columns[len(columns) :]
    if not arrays and not rest:
        return found.select([])
    return pa.table([*arrays, *rest], names=[*names, *found.schema.names[len(columns) :]])


def codes_of(found: pa.Table, columns: Sequence[Column], limit: int | None, where: str) -> Codes:
    """Classes that came back with their counts in the last column, as codes."""
    from sfumato.engines.encoding import codes_from_arrow

    if limit is not None and found.num_rows > limit:
        raise EngineError(
            f"there are more than {limit} classes",
            where=where,
            remedy="Ask for fewer columns, coarser values or a higher limit.",
        )
    names = {column.name for column in columns}
    count = "count"
    while count in names:
        count += "_"
    declared = as_declared(found, columns)
    return codes_from_arrow(declared.rename_columns([*declared.column_names[:-1], count]), count)


def rows_identity(found: pa.Table, columns: Sequence[Column], engine: str) -> str:
    """Fingerprint from a row count and the sums of the four chunks of all row hashes.

    Row hashes are the engine's own, so the engine is part of the fingerprint.
    """
    rows, *sums = (int(column[0].as_py() or 0) for column in found.columns)
    total = sum(chunk << 32 * (3 - at) for at, chunk in enumerate(sums)) & ((1 << 128) - 1)
    whole = hashlib.sha256(f"{rows}\n{total:032x}\n".encode())
    for column in columns:
        whole.update(f"{len(column.name.encode())}:{column.name}:{column.kind}\n".encode())
    return f"{engine}-rows:{whole.hexdigest()}"


def _cast(array: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    import pyarrow as pa
    import pyarrow.types as t

    if array.type == type_:
        return array
    if t.is_null(type_):
        return pa.chunked_array([pa.nulls(len(array))])
    return array.cast(type_)
