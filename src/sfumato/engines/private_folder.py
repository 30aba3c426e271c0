"""Folders that only this user can read, and that do not outlive their process.

They hold rows of tables: what did not fit in memory, what was uploaded. Where a process is killed,
the next program of ours that makes one in the same place removes what it left: a folder is held by
a lock as long as its process lives.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path

from sfumato.errors import EngineError

try:
    import fcntl
except ImportError:  # there are no such locks on Windows: folders go with the process, or stay
    fcntl = None  # type: ignore[assignment]


PREFIX = "sfumato-private-"
MARK = ".made-by-sfumato"
ATTEMPTS = 100
"""To make a folder before somebody who tidies up takes it for an abandoned one."""
_looked: set[str] = set()
"""Where this process has looked for what others left."""


class PrivateFolder:
    """A folder that only this user can read, held for as long as this process lives.

    Examples
    --------
    >>> folder = PrivateFolder()
    >>> path = folder.path
    >>> oct(path.stat().st_mode & 0o777), remove_abandoned()
    ('0o700', 0)
    >>> folder.close()
    >>> path.exists()
    False
    """

    def __init__(self) -> None:
        if (parent := tempfile.gettempdir()) not in _looked:
            _looked.add(parent)
            remove_abandoned()
        try:
            self.path, handle = _made()
        except OSError as error:
            raise EngineError(
                f"no temporary folder could be made: {error.strerror}",
                where=tempfile.gettempdir(),
                remedy="Free some space, or point TMPDIR to another disk.",
            ) from error
        self._remove = weakref.finalize(self, _removed, self.path, handle, os.getpid())

    def close(self) -> None:
        """Remove the folder and everything in it."""
        self._remove()


def remove_abandoned() -> int:
    """Remove folders whose process has ended without doing so; how many there were."""
    if fcntl is None:
        return 0
    parent = Path(tempfile.gettempdir())
    count = 0
    for name in _named(parent):
        with contextlib.suppress(OSError), _opened(parent / name) as handle:
            if _is_ours(handle, name) and _locked(handle) and _is_at(parent / name, handle):
                _empty(handle)
                os.rmdir(parent / name)  # an empty folder, and no link: else this fails
                count += 1
    return count


def _made() -> tuple[Path, int | None]:
    """A new folder, and the handle that holds it where there are locks."""
    for _ in range(ATTEMPTS):
        path = Path(tempfile.mkdtemp(prefix=PREFIX))
        if fcntl is None:
            return path, None
        # A program that starts may find it in the moment before it is held, and remove it.
        with contextlib.suppress(FileNotFoundError):
            handle = os.open(path, _DIRECTORY)
            if _locked(handle) is not False and _is_at(path, handle):
                mark = os.open(MARK, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=handle)
                with os.fdopen(mark, "wb") as file:
                    file.write(_mark(handle, path.name))
                return path, handle
            os.close(handle)
    raise OSError(errno.EBUSY, "others remove what is made")


def _removed(path: Path, handle: int | None, maker: int) -> None:
    """Remove a folder that is held, and let go of it; a fork of its process only lets go."""
    if os.getpid() != maker:
        if handle is not None:
            os.close(handle)
        return
    if handle is None:
        shutil.rmtree(path, ignore_errors=True)
        return
    with contextlib.suppress(OSError):
        _empty(handle)
        os.rmdir(path)
    os.close(handle)


_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)


def _named(parent: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return sorted(name for name in os.listdir(parent) if name.startswith(PREFIX))
    return []


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    handle = os.open(path, _DIRECTORY)  # a link is refused
    try:
        yield handle
    finally:
        os.close(handle)


def _is_ours(handle: int, name: str) -> bool:
    """Whether a folder was made here; one that is empty may have been left before it was marked."""
    about = os.fstat(handle)
    if about.st_uid != os.geteuid() or about.st_mode & 0o077:
        return False
    if not os.listdir(handle):
        return True
    mark = os.open(MARK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=handle)
    with os.fdopen(mark, "rb") as file:
        plain = stat.S_ISREG(os.fstat(mark).st_mode)
        return plain and file.read(1000) == _mark(handle, name)


def _mark(handle: int, name: str) -> bytes:
    """What the mark of a folder says; a copy of it does not name the folder it lies in."""
    return f"a private folder of sfumato: {name}, {os.fstat(handle).st_ino}\n".encode()


def _locked(handle: int) -> bool | None:
    """Take hold of a folder: false if somebody has it, None if it cannot be locked at all."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some network drives
        return None
    return True


def _is_at(path: Path, handle: int) -> bool:
    """Whether a path still leads to the folder that is open."""
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(handle))
    except FileNotFoundError:
        return False


def _empty(handle: int) -> None:
    """Remove everything in a folder, the mark last: what is interrupted can be gone on with."""
    names = sorted(os.listdir(handle), key=lambda name: name == MARK)
    for name in names:
        if stat.S_ISDIR(os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode):
            shutil.rmtree(name, dir_fd=handle, ignore_errors=True)
        else:
            os.unlink(name, dir_fd=handle)
