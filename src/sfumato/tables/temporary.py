"""Sources that live in a temporary file: standard input, pipes and unpacked files."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from sfumato.engines.protocol import BATCH_ROWS, Column, Source
from sfumato.engines.spool import PrivateFolder
from sfumato.errors import EngineError

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

__all__ = ["TemporarySource", "kept"]

_CHUNK = 1 << 20


class TemporarySource:
    """A source together with the private folder that holds its file.

    Parameters
    ----------
    source
        Reads the file.
    folder
        Goes away when the source is closed.
    """

    paths = ()

    def __init__(self, source: Source, folder: PrivateFolder) -> None:
        self.name = source.name
        self._source = source
        self._folder = folder

    def schema(self) -> tuple[Column, ...]:
        """Columns and types."""
        return self._source.schema()

    def row_count(self) -> int | None:
        """Number of rows where it is known."""
        return self._source.row_count()

    def code_bytes(self) -> int:
        """About how much memory the codes take."""
        return self._source.code_bytes()

    def batches(
        self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows in their own order."""
        return self._source.batches(columns, rows)

    def relation(self, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
        """The rows as DuckDB scans them."""
        return self._source.relation(connection)

    def fingerprint(self) -> str:
        """SHA-256 of what came in."""
        return self._source.fingerprint()

    def close(self) -> None:
        """Remove the temporary file."""
        self._source.close()
        self._folder.close()


def kept(stream: BinaryIO, folder: PrivateFolder, name: str) -> Path:
    """Copy a stream to a file in a private folder."""
    path = folder.path / "input"
    try:
        with path.open("xb") as file:
            shutil.copyfileobj(stream, file, _CHUNK)
    except OSError as error:
        folder.close()
        raise EngineError(
            f"the input could not be copied to a temporary file: {error.strerror or error}",
            where=name,
            remedy="Free some space, or point TMPDIR to a larger disk.",
        ) from None
    except BaseException:
        folder.close()
        raise
    return path
