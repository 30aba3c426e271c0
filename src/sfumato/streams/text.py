"""Delimited text that passes by once, as record batches of text.

What type a column has is known only when its last cell has been seen, so a stream's cells stay
text: ``1`` and ``1.0`` are two values. An empty unquoted cell is null.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO, cast

from sfumato.errors import SourceError
from sfumato.tables.dialect import layout_of
from sfumato.tables.encoding import checked_encoding, guessed_encoding

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.csv as pc

__all__ = ["joined", "read_fully", "text_batches"]

SAMPLE = 1 << 20
"""Bytes that decide on delimiter and encoding."""
BLOCK = 1 << 22


def text_batches(
    stream: BinaryIO,
    name: str,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    null_values: Sequence[str] | None = None,
    header: bool = True,
) -> Iterator[pa.RecordBatch]:
    """The rows of a text file as they arrive; options are those of `sfumato.table`.

    The first batch has no rows: it names the columns before any row has come.

    Examples
    --------
    >>> batches = text_batches(io.BytesIO(b"age,sex\\n30,F\\n40,M\\n"), "people")
    >>> [batch.to_pydict() for batch in batches]
    [{'age': [], 'sex': []}, {'age': ['30', '40'], 'sex': ['F', 'M']}]
    """
    import pyarrow as pa
    import pyarrow.csv as pc

    sample = read_fully(stream, SAMPLE)
    complete = len(sample) < SAMPLE
    spelled = (
        guessed_encoding(sample, complete=complete)
        if encoding is None
        else checked_encoding(encoding)
    )
    layout = layout_of(
        sample.decode(spelled, errors="replace"),
        name,
        complete=complete,
        delimiter=delimiter,
        header=header,
        tabs=False,
    )
    schema = pa.schema([(column, pa.string()) for column in layout.names])
    yield _empty(schema)
    if layout.empty:
        return
    text: pa.NativeFile = pa.PythonFile(joined(sample, stream), mode="r")
    if spelled != "utf-8":
        text = pa.transcoding_input_stream(text, spelled, "utf-8")
    left = layout.above
    while left and (skipped := len(text.read(left))):
        left -= skipped
    ragged: list[pc.InvalidRow] = []

    def remember(row: pc.InvalidRow) -> str:
        ragged.append(row)
        return "error"

    inner = [f"c{at}" for at in range(len(layout.names))]
    try:
        reader = pc.open_csv(
            text,
            pc.ReadOptions(block_size=BLOCK, column_names=inner),
            pc.ParseOptions(
                delimiter=layout.delimiter,
                newlines_in_values=True,
                invalid_row_handler=remember,
            ),
            pc.ConvertOptions(
                column_types=dict.fromkeys(inner, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        for batch in reader:
            cells = [_without(column, null_values) for column in batch.columns]
            yield pa.RecordBatch.from_arrays(cells, schema=schema)
    except (pa.ArrowException, UnicodeError, OSError) as error:
        if "Empty CSV file" not in str(error):
            raise _explained(ragged, name) from None


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    """No rows: what the stream looks like before any has come."""
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


def _without(cells: pa.Array, words: Sequence[str] | None) -> pa.Array:
    """Cells with null in place of some words."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not words:
        return cells
    absent = pc.is_in(cells, value_set=pa.array(words, pa.string()))
    return pc.if_else(absent, pa.scalar(None, pa.string()), cells)


def _explained(ragged: Sequence[pc.InvalidRow], name: str) -> SourceError:
    """The reader's complaint in words that quote nothing."""
    if ragged:
        row = ragged[0]
        where = "a line" if row.number is None else f"line {row.number:,}"
        return SourceError(
            f"{where} does not fit the header: {row.actual_columns} instead of "
            f"{row.expected_columns} cells",
            where=name,
            remedy="Repair it, or name the --delimiter.",
        )
    return SourceError(
        "this does not read as a table of text",
        where=name,
        remedy="Check the delimiter, the quotes and the encoding.",
    )


def read_fully(stream: BinaryIO, size: int) -> bytes:
    """As many bytes as there are, up to `size`; a pipe hands out fewer at a time."""
    parts = []
    while size and (part := stream.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def joined(first: bytes, rest: BinaryIO) -> BinaryIO:
    """What has been read of a stream already, followed by the rest of it."""
    return cast(BinaryIO, _Joined(first, rest))


class _Joined(io.RawIOBase):
    def __init__(self, first: bytes, rest: BinaryIO) -> None:
        self._first, self._rest = io.BytesIO(first), rest

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """As many bytes as there are, up to `size`; readers take fewer for the end."""
        begun = self._first.read(size)
        if size < 0:
            return begun + self._rest.read()
        return begun + read_fully(self._rest, size - len(begun))
