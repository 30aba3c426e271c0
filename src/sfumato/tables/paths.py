"""A path, folder or pattern becomes a source."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.errors import SourceError
from sfumato.tables.files import find_files, kind_of
from sfumato.tables.textfile import TextFile

if TYPE_CHECKING:
    from sfumato.engines.protocol import Source
    from sfumato.tables.opening import Opening

__all__ = ["open_path"]


def open_path(given: str, opening: Opening) -> Source:
    """The source a path, folder or pattern stands for."""
    found = find_files(given)
    first = found.paths[0]
    kind, compression = kind_of(first_bytes(first), given)
    if kind == "parquet":
        from sfumato.tables.parquet import ParquetSource

        return ParquetSource(found.paths, given, opening.columns, opening.exclude, found.root)
    if len(found.paths) > 1:
        raise SourceError(
            f"{len(found.paths)} files match, and only Parquet files are read together",
            where=given,
            remedy="Name one file, or convert them to Parquet.",
        )
    return TextFile(
        first,
        given,
        compression,
        columns=opening.columns,
        exclude=opening.exclude,
        delimiter=opening.delimiter,
        encoding=opening.encoding,
        null_values=opening.null_values,
        header=opening.header,
    )


def first_bytes(path: Path) -> bytes:
    """The first bytes of a file that must exist and hold something."""
    try:
        with path.open("rb") as file:
            first = file.read(64)
    except OSError as error:
        raise SourceError(f"cannot be read: {error.strerror}", where=str(path)) from error
    if not first:
        raise SourceError("the file is empty", where=str(path), remedy="Export it again.")
    return first
