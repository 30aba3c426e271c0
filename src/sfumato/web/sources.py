"""The tables that may be opened: in folders the user named or in uploads, and nothing else.

Uploads lie in a folder of their own that only this user can read; what a killed workbench left
there is removed by the next.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import os
import secrets
import shutil
import stat
import tempfile
import weakref
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sfumato.errors import EngineError, ParameterError, SourceError

__all__ = [
    "ENDINGS",
    "Listed",
    "TableFolders",
    "UploadFolder",
    "Uploads",
    "remove_abandoned",
]


LISTED = (
    ".csv", ".tsv", ".csv.gz", ".csv.zst", ".tsv.gz", ".tsv.zst", ".parquet", ".pq", ".arrow",
    ".feather", ".xlsx", ".xlsm", ".sav", ".zsav", ".dta", ".sas7bdat", ".xpt", ".orc", ".avro",
    ".jsonl", ".ndjson", ".sqlite", ".sqlite3",
)  # fmt: skip
"""Endings of files that are tables."""
ENDINGS = (*LISTED, ".txt", ".txt.gz", ".txt.zst", ".tab", ".ipc", ".json", ".db")
"""Those and endings of files that may be tables, where somebody says so."""
MOST = 500
"""Files listed at most."""


@dataclass(frozen=True)
class Listed:
    """A table that can be opened, and what was made of it on earlier days."""

    place: Path
    bytes: int
    begun: bool
    """Whether there are decisions about it."""
    releases: int
    last: str
    """The day on which the last release was written."""

    @property
    def size(self) -> str:
        """How large its file is."""
        for unit, power in (("GB", 30), ("MB", 20), ("KB", 10)):
            if self.bytes >= 1 << power:
                return f"{self.bytes / (1 << power):,.1f} {unit}"
        return f"{self.bytes:,} bytes"

    @classmethod
    def of(cls, place: Path) -> Listed:
        """What the file system says of a table; links in its folder count for nothing."""
        folder = place.parent / f"{place.name}.sfumato"
        written: list[float] = []
        begun = False
        with suppress(OSError):
            if folder.is_dir() and not folder.is_symlink():
                found = folder.glob("release*.certificate.json")
                written = [one.stat().st_mtime for one in found if not one.is_symlink()]
                begun = bool(written) or (folder / "project.toml").is_file()
        last = dt.date.fromtimestamp(max(written)).isoformat() if written else ""
        with suppress(OSError):
            return cls(place, place.stat().st_size, begun, len(written), last)
        return cls(place, 0, begun, len(written), last)


class TableFolders:
    """A list of files; what the browser asks for is compared with it and never opened as it came.

    Parameters
    ----------
    places
        Files, and folders whose tables (not those of folders inside them) are listed.
    """

    def __init__(self, places: Sequence[Path]) -> None:
        self._files: list[Path] = []
        self._folders: list[Path] = []
        for place in places:
            if place.is_dir():
                self._folders.append(place.resolve())
            elif place.is_file():
                self._files.append(place.resolve())
            else:
                raise SourceError("there is no such file or folder", where=str(place))

    def tables(self) -> list[Path]:
        """What can be opened now, in order of names."""
        found = list(self._files)
        found += [place for place in self._inside(LISTED) if place not in found]
        return found[:MOST]

    def listed(self) -> list[Listed]:
        """The same with what was made of them."""
        return [Listed.of(place) for place in self.tables()]

    def keys(self) -> list[Path]:
        """Keys of pseudonyms that lie in the folders."""
        return self._inside((".key",))[:MOST]

    def _inside(self, endings: tuple[str, ...]) -> list[Path]:
        """Files of the folders; one that cannot be read any more holds nothing."""
        found: list[Path] = []
        for folder in self._folders:
            with suppress(OSError):
                found += sorted(
                    place
                    for place in folder.iterdir()
                    # A link may lead elsewhere: only what really lies in the folder counts.
                    if place.name.endswith(endings)
                    and not place.name.startswith(".")
                    and place.is_file()
                    and place.resolve().parent == folder
                )
        return found

    def table(self, name: str) -> Path:
        """The table of this name as the list shows it."""
        for place in self.tables():
            if str(place) == name:
                return place
        raise SourceError("this table is not in the folders that were opened")


try:
    import fcntl
except ImportError:  # there are no such locks on Windows: folders go with the process, or stay
    fcntl = None  # type: ignore[assignment]


PREFIX = "sfumato-uploads-"
MARK = ".made-by-sfumato"
ATTEMPTS = 100
"""To make a folder before somebody who tidies up takes it for an abandoned one."""


class UploadFolder:
    """A folder that only this user can read, held for as long as this process lives.

    Examples
    --------
    >>> folder = UploadFolder()
    >>> path = folder.path
    >>> oct(path.stat().st_mode & 0o777), remove_abandoned()
    ('0o700', 0)
    >>> folder.close()
    >>> path.exists()
    False
    """

    def __init__(self) -> None:
        try:
            self.path, handle = _made()
        except OSError as error:
            raise EngineError(
                f"no temporary folder could be made: {error.strerror}",
                where=tempfile.gettempdir(),
                remedy="Free some space, or point TMPDIR to another disk.",
            ) from error
        self._remove = weakref.finalize(self, _removed, self.path, handle)

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
        # A workbench that starts may find it in the moment before it is held, and remove it.
        with contextlib.suppress(FileNotFoundError):
            handle = os.open(path, _DIRECTORY)
            if _locked(handle) is not False and _is_at(path, handle):
                mark = os.open(MARK, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=handle)
                with os.fdopen(mark, "wb") as file:
                    file.write(_mark(handle, path.name))
                return path, handle
            os.close(handle)
    raise OSError(errno.EBUSY, "others remove what is made")


def _removed(path: Path, handle: int | None) -> None:
    """Remove a folder that is held, and let go of it."""
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
    return f"uploads of the sfumato workbench: {name}, {os.fstat(handle).st_ino}\n".encode()


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


class Uploads:
    """Uploaded tables, each in a folder of its own that only this user can read.

    Parameters
    ----------
    most
        Bytes that one table may have.
    """

    def __init__(self, most: int = 2 << 30) -> None:
        self.most = most
        self._folder: UploadFolder | None = None

    @staticmethod
    def tidy() -> None:
        """Remove what workbenches left behind that were killed."""
        remove_abandoned()

    def place(self, name: str) -> Path:
        """Where a table of this name may be written; nothing of the name leads elsewhere."""
        plain = name.replace("\\", "/").rpartition("/")[2].strip()
        if not plain.lower().endswith(ENDINGS) or plain.startswith(".") or not plain.isprintable():
            raise ParameterError(
                "this is no table that can be read here",
                remedy="Choose a text file, Parquet, Arrow, Excel, SPSS, Stata, SAS or SQLite.",
            )
        if len(plain.encode()) > 200:
            raise ParameterError("the name of the file is too long", remedy="Rename it.")
        if self._folder is None:
            self._folder = UploadFolder()
        folder = self._folder.path / secrets.token_hex(8)
        folder.mkdir(mode=0o700)
        return folder / plain

    async def receive(self, name: str, parts: AsyncIterator[bytes]) -> Path:
        """Write what comes in; nothing of it is left where it is too large or breaks off."""
        place = self.place(name)
        left = self.most
        try:
            with place.open("xb") as file:
                async for part in parts:
                    left -= len(part)
                    if left < 0:
                        raise ParameterError(
                            f"the file is larger than {self.most / 2**20:,.0f} MB",
                            remedy="Name its folder when you start `sfumato serve`: tables that "
                            "lie there are not copied.",
                        )
                    file.write(part)
        except OSError as error:
            self.remove(place)
            raise EngineError(
                f"the file could not be kept ({(error.strerror or 'unknown').lower()})",
                remedy="Free some space, or point TMPDIR to a larger disk.",
            ) from None
        except BaseException:
            self.remove(place)
            raise
        return place

    def holds(self, place: Path) -> bool:
        """Whether a table came through the browser."""
        return self._folder is not None and self._folder.path in place.parents

    def remove(self, place: Path) -> None:
        """Forget a table, with everything that was made of it."""
        if self.holds(place):
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(place.parent)

    def close(self) -> None:
        """Remove everything."""
        if self._folder is not None:
            self._folder.close()
            self._folder = None
