"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sfumato.errors import EngineError

__all__ = ["appearing", "usual_mode", "write_text"]


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
            unfinished.chmod(usual_mode())
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


def usual_mode() -> int:
    """The permissions that a new file of this process gets."""
    try:  # asking the system would change them for a moment, for all threads
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        return 0o666 & ~int(status.split("\nUmask:")[1].split()[0], 8)
    except (OSError, IndexError):
        mask = os.umask(0o077)
        os.umask(mask)
        return 0o666 & ~mask
