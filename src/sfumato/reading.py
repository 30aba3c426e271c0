"""Files and folders that users name beside their tables: read whole, or refused with a remedy.

Settings, trees, keys, query logs and certificates are all read here, so that a mistyped name gets
the same help everywhere.
"""

from __future__ import annotations

import difflib
import errno
import os
from collections.abc import Callable
from pathlib import Path

from sfumato.errors import InputError, SourceError, did_you_mean

__all__ = [
    "read_bytes",
    "read_text",
    "require_file",
    "require_folder",
    "similar_names",
    "unreadable",
]

_FEW = 8
"""Files of the same kind that are named where none has a similar name."""


def read_text(
    path: str | os.PathLike[str],
    what: str,
    *,
    kind: type[InputError] = SourceError,
) -> str:
    """The text of a UTF-8 file that a user named, its lines ended by ``\\n``.

    Parameters
    ----------
    path
        The file.
    what
        What it holds, e.g. ``the query log``.
    kind
        The error to raise.

    Examples
    --------
    >>> read_text("no such folder/queries.sql", "the query log")
    Traceback (most recent call last):
    sfumato.errors.SourceError: no such folder/queries.sql: the query log: there is no such file...
    """
    content = read_bytes(path, what, kind=kind)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise kind(
            f"{what}: this is not UTF-8 text, from byte {error.start + 1:,} on",
            where=str(path),
            remedy="Save it as UTF-8.",
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_bytes(
    path: str | os.PathLike[str], what: str, *, kind: type[InputError] = SourceError
) -> bytes:
    """The content of a file that a user named."""
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise _refusal(path, what, error, kind) from None


def require_file(
    path: str | os.PathLike[str], what: str, *, kind: type[InputError] = SourceError
) -> str:
    """The path itself, if a file of that name can be opened."""
    try:
        with open(path, "rb"):
            return os.fspath(path)
    except (OSError, ValueError) as error:
        raise _refusal(path, what, error, kind) from None


def require_folder(
    path: str | os.PathLike[str], what: str, *, kind: type[InputError] = SourceError
) -> Path:
    """The path itself, if it is a folder."""
    place = Path(path)
    if place.is_dir():
        return place
    if place.exists():
        raise kind(f"{what}: this is a file", where=str(path), remedy="Name the folder it is in.")
    raise kind(
        f"{what}: there is no such folder",
        where=str(path),
        remedy=similar_names(place, Path.is_dir),
    )


def unreadable(path: str | os.PathLike[str], error: OSError | ValueError) -> tuple[str, str]:
    """Why a file cannot be read, and what to do about it."""
    code = getattr(error, "errno", None)
    if code in (errno.ENOENT, errno.ENOTDIR):
        return "there is no such file", similar_names(Path(path), Path.is_file)
    if code == errno.EISDIR:
        return "this is a folder", "Name a file in it."
    if code in (errno.EACCES, errno.EPERM):
        return "permission denied", "Get the right to read it, or copy it to a place of yours."
    if code is None:
        return "this cannot be the name of a file", "Check how it is written."
    reason = (getattr(error, "strerror", None) or "it cannot be read").lower()
    return reason, "Check its name and the disk it is on."


def _refusal(
    path: str | os.PathLike[str], what: str, error: OSError | ValueError, kind: type[InputError]
) -> InputError:
    reason, remedy = unreadable(path, error)
    return kind(f"{what}: {reason}", where=str(path), remedy=remedy)


def similar_names(place: Path, fits: Callable[[Path], bool]) -> str:
    """Names beside a missing one that may have been meant, else where it was looked for."""
    folder = place.parent
    if not folder.is_dir():
        return f"There is no folder {folder} either: check the path."
    try:
        beside = [entry for entry in sorted(folder.iterdir()) if not entry.name.startswith(".")]
    except OSError:
        beside = []
    names = [entry.name for entry in beside if fits(entry)]
    if difflib.get_close_matches(place.name.lower(), [name.lower() for name in names]):
        return did_you_mean(place.name, names)
    alike = [name for name in names if place.suffix and name.endswith(place.suffix)]
    if alike:
        shown = ", ".join(f"`{name}`" for name in alike[:_FEW])
        return f"That folder holds {shown}{', …' if len(alike) > _FEW else ''}."
    return f"Check its name; it was looked for in {folder.absolute()}."
