"""Complete output that has no name yet: read back, verified, then published in one step.

Whatever goes wrong before `commit`, nothing is left behind.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.engines.protocol import Engine, Source
from sfumato.engines.readback import WrittenFile
from sfumato.engines.writing import FileFormat, Writer, check_destination, removed, synced
from sfumato.errors import EngineError
from sfumato.files import usual_mode

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FileStaged", "stage_batches"]


class FileStaged:
    """A complete file that does not have its final name yet (see `Staged`).

    Parameters
    ----------
    writer
        A writer whose rows are all in; its file is finished here.
    reopen
        Makes the engine that reads back what was written.
    """

    def __init__(self, writer: Writer, reopen: Callable[[Source], Engine]) -> None:
        self.destination = writer.destination
        self.rows = writer.rows
        self.format: FileFormat = writer.format
        self.schema = writer.schema
        writer.finish()
        self.path = writer.release()
        self._reopen = reopen
        self._engine: Engine | None = None
        self._remove = weakref.finalize(self, removed, self.path)

    def engine(self) -> Engine:
        """Reads back what was written, with explicit settings."""
        if self._engine is None:
            written = WrittenFile(self.path, self.format, self.schema, self.destination)
            self._engine = self._reopen(written)
        return self._engine

    def commit(self, *, force: bool = False) -> None:
        """Rename to the final name in one step; refuses to replace a file without `force`."""
        self._forget_engine()
        check_destination(self.destination, force=force)
        try:
            os.chmod(self.path, usual_mode())
            if force:
                os.replace(self.path, self.destination)
            else:
                _rename_without_replacing(self.path, self.destination)
        except FileExistsError:
            check_destination(self.destination, force=False)
            raise
        except OSError as error:
            raise EngineError(
                f"the finished file could not be put in place: {error.strerror}",
                where=self.destination,
                remedy="Check that the folder may still be written to, then start again.",
            ) from error
        synced(Path(self.destination).parent)

    def discard(self) -> None:
        """Remove the temporary file; after `commit` there is none."""
        self._forget_engine()
        self._remove()

    def _forget_engine(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None


def stage_batches(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    destination: str,
    format: str | None = None,
    *,
    reopen: Callable[[Source], Engine],
    inputs: Sequence[str | Path] = (),
) -> FileStaged:
    """Write record batches beside their final place.

    Parameters
    ----------
    batches
        The rows of the output; each batch is cast to `schema` where it differs.
    schema
        Columns of the output.
    destination, format, inputs
        As for `Writer`. Engines give their source's files: ``getattr(source, "paths", ())``.
    reopen
        Makes the engine that reads back what was written: an engine's own class will do.

    Examples
    --------
    >>> import tempfile, pyarrow as pa
    >>> from pathlib import Path
    >>> batch = pa.record_batch({"age": [30, 40]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     out = Path(folder, "out.csv")
    ...     staged = stage_batches([batch], batch.schema, str(out), reopen=lambda source: source)
    ...     [rows.to_pydict() for rows in staged.engine().batches()], out.exists()
    ...     staged.commit()
    ...     out.read_text()
    ([{'age': [30, 40]}], False)
    'age\\n30\\n40\\n'
    """
    with ExitStack() as stack:
        if isinstance(batches, Generator):
            # If writing fails, it lets go of its engine now and not whenever it is collected.
            stack.callback(batches.close)
        writer = stack.enter_context(Writer(schema, destination, format, inputs=inputs))
        for batch in batches:
            writer.write(batch)
        return FileStaged(writer, reopen)


def _rename_without_replacing(path: Path, destination: str) -> None:
    """A hard link fails if the name is taken, which a rename would not."""
    try:
        os.link(path, destination)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if os.path.lexists(destination):
            raise FileExistsError(destination) from None
        os.rename(path, destination)
        return
    removed(path)
