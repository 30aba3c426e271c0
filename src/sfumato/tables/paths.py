"""A path, folder, pattern or ``-`` becomes a source."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from sfumato.engines.spool import PrivateFolder
from sfumato.errors import SourceError
from sfumato.files import unreadable
from sfumato.tables.arrowfile import ArrowFile
from sfumato.tables.files import find_files, kind_of, refuse_misnamed
from sfumato.tables.parquet import ParquetSource
from sfumato.tables.temporary import TemporarySource, kept
from sfumato.tables.textfile import TextFile

if TYPE_CHECKING:
    from sfumato.engines.protocol import Source
    from sfumato.tables.opening import Opening

__all__ = ["open_path", "open_standard_input"]

_BEGINNING = 64


def open_path(given: str, opening: Opening) -> Source:
    """The source that a path, folder or pattern stands for."""
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+)://", given)
    if scheme is not None:
        raise SourceError(
            f"{scheme[1]}:// addresses are not opened",
            remedy="Databases are opened by postgresql://…#table; download files first.",
        )
    found = find_files(given)
    first = found.paths[0]
    if len(found.paths) == 1 and found.root is None:
        if not first.is_file():  # a pipe can be read only once
            with first.open("rb") as pipe:
                return _open_stream(pipe, given, opening)
        return _open_file(first, given, opening)
    kind, compression = kind_of(_beginning(first, given), given)
    refuse_misnamed(str(first), kind, compression)
    if kind != "parquet":
        raise SourceError(
            f"{len(found.paths)} files match, and only Parquet files are read together",
            where=given,
            remedy="Name one file, or convert them to Parquet.",
        )
    opening.refuse_text_options(given, "Parquet")
    return ParquetSource(found.paths, given, opening.columns, opening.exclude, found.root)


def open_standard_input(opening: Opening) -> Source:
    """The table that is piped in, kept in a private temporary file."""
    if sys.stdin is None or sys.stdin.isatty():
        raise SourceError(
            "nothing is piped in",
            where="standard input",
            remedy="Pipe a table in, e.g. `cat people.csv | sfumato scan -`.",
        )
    return _open_stream(sys.stdin.buffer, "standard input", opening)


def _open_stream(stream: BinaryIO, name: str, opening: Opening) -> Source:
    """Keep a stream in a private file and open that."""
    folder = PrivateFolder()
    try:
        return TemporarySource(_open_file(kept(stream, folder, name), name, opening), folder)
    except BaseException:
        folder.close()
        raise


def _open_file(path: Path, name: str, opening: Opening) -> Source:
    """One file, by what its first bytes say it is."""
    kind, compression = kind_of(_beginning(path, name), name)
    refuse_misnamed(name, kind, compression)
    if compression is not None and _inner_kind(path, name, compression) != "text":
        import pyarrow as pa

        with pa.input_stream(str(path), compression=compression) as unpacked:
            return _open_stream(unpacked, name, opening)
    if kind != "text":
        opening.refuse_text_options(name, f"a file of {kind.split()[0].capitalize()}")
    if kind == "parquet":
        return ParquetSource([path], name, opening.columns, opening.exclude)
    if kind == "text":
        return TextFile(
            path,
            name,
            compression,
            columns=opening.columns,
            exclude=opening.exclude,
            delimiter=opening.delimiter,
            encoding=opening.encoding,
            null_values=opening.null_values,
            header=opening.header,
        )
    return ArrowFile(
        path,
        name,
        stream=kind == "arrow stream",
        columns=opening.columns,
        exclude=opening.exclude,
    )


def _beginning(path: Path, name: str) -> bytes:
    """The first bytes of a file that must hold some."""
    try:
        with path.open("rb") as file:
            first = file.read(_BEGINNING)
    except OSError as error:
        reason, remedy = unreadable(path, error)
        raise SourceError(f"cannot be read: {reason}", where=name, remedy=remedy) from None
    if not first:
        raise SourceError("the file is empty", where=name, remedy="Export it again.")
    return first


def _inner_kind(path: Path, name: str, compression: str) -> str:
    """What a compressed file holds; a damaged one is left to whoever reads it as text."""
    import pyarrow as pa

    try:
        with pa.input_stream(str(path), compression=compression) as unpacked:
            kind, _ = kind_of(unpacked.read(_BEGINNING), name)
    except OSError:
        return "text"
    return kind
