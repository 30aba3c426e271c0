"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sfumato.errors import EngineError

__all__ = ["appearing", "write_text"]


@contextmanager
def appearing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary file beside a path, which gets that name when the block ends well.

    Whatever goes wrong inside, nothing is left behind and what was there before stays.

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "notes.txt"
    >>> with appearing(target) as unfinished:
    ...     _ = unfinished.write_text("all of it")
    >>> target.read_text()
    'all of it'
    """
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        os.close(handle)
        unfinished = Path(name)
        try:
            yield unfinished
            with unfinished.open("rb") as written:
                os.fsync(written.fileno())
            unfinished.chmod(0o666 & ~_umask())
            os.replace(unfinished, target)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise EngineError(
            f"the file could not be written ({(error.strerror or str(error)).lower()})",
            where=str(target),
            remedy="Check that the folder exists, may be written to, and has space.",
        ) from error


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file in one atomic step."""
    with appearing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
