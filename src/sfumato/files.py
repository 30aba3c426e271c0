"""Files: read whole or refused with a remedy; written whole or not at all.

Settings, trees, keys, query logs and certificates are all read here, so that a mistyped name gets
the same help everywhere. Secrets are made once, readable by their owner alone, never written
through a link. One of them is the *input key*, one a user: 32 random bytes, made when they are
first needed. Certificates name the table a release was made of by a digest under this key, which
nobody without it can try guesses on.
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import hashlib
import hmac
import itertools
import json
import os
import re
import secrets
import shlex
import stat
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from sfumato.errors import (
    EngineError,
    InputError,
    ParameterError,
    SfumatoError,
    SourceError,
    did_you_mean,
)
from sfumato.wording import shown

try:
    import fcntl
except ImportError:  # on Windows there are no locks of folders
    fcntl = None  # type: ignore[assignment]


INPUT_KEY = "SFUMATO_INPUT_KEY"
"""The environment variable that says where the input key lies."""
LARGEST_KEY = 1 << 16
"""Bytes of the largest key file."""
_FEW = 8
"""Files of the same kind that are named where none has a similar name."""


def read_text(
    path: str | os.PathLike[str], what: str, *, kind: type[InputError] = SourceError
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


def require_file(path: str | os.PathLike[str], what: str) -> str:
    """The path itself, if a file of that name can be opened."""
    try:
        with open(path, "rb"):
            return os.fspath(path)
    except (OSError, ValueError) as error:
        raise _refusal(path, what, error, SourceError) from None


def require_folder(
    path: str | os.PathLike[str], what: str, *, kind: type[InputError] = SourceError
) -> Path:
    """The path itself, if it is a folder."""
    place = Path(path)
    if os.path.isdir(place):
        return place
    if os.path.exists(place):
        raise kind(f"{what}: this is a file", where=str(path), remedy="Name the folder it is in.")
    raise kind(
        f"{what}: there is no such folder",
        where=str(path),
        remedy=similar_names(place, Path.is_dir),
    )


def may_be_dataset(source: Any) -> bool:
    """Whether a source could be a dataset, judged without loading what reads them."""
    if not isinstance(source, (str, os.PathLike)):
        return False
    text = os.fsdecode(source)
    return text.lower().endswith((".toml", ".*")) or os.path.isdir(text)


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
    if shown(place) != str(place):
        return "Write addresses as postgresql://user@server/database#table, without quotes."
    folder = place.parent
    if not os.path.isdir(folder):  # which no name is too long for
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
        some = ", ".join(f"`{name}`" for name in alike[:_FEW])
        return f"That folder holds {some}{', …' if len(alike) > _FEW else ''}."
    return f"Check its name; it was looked for in {folder.absolute()}."


published: ContextVar[Callable[[Path], None]] = ContextVar("published", default=lambda path: None)
"""Is told of each certificate whose release has its name: nothing takes it back any more."""


def refuse_other_than_file(path: str | os.PathLike[str]) -> None:
    """Refuse a place where there is something else than a file: none is ever replaced."""
    place = Path(path)
    try:
        os.lstat(place)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise ParameterError(
                "this name is too long for a file", where=str(path), remedy="Choose a shorter one."
            ) from None
    if place.is_dir():
        raise ParameterError(
            "this is a folder", where=str(path), remedy="Name a file to write in it."
        )
    if place.exists() and not place.is_file():
        raise ParameterError(
            "this is a device or a pipe, not a file", where=str(path), remedy="Name a file."
        )


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
    refuse_other_than_file(path)
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        os.close(handle)
        unfinished = Path(name)
        try:
            yield unfinished
            with unfinished.open("rb+") as written:  # Windows flushes no file that is only read
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


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """No other program of ours is in such a block for this folder; it waits until this one ends.

    Nothing is left in the folder for that. Where the system or the disk cannot lock folders, nobody
    waits.
    """
    with ExitStack() as stack:
        if fcntl is not None:
            with contextlib.suppress(OSError):
                handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
                stack.callback(os.close, handle)
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file in one atomic step."""
    with appearing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


_MADE: set[tuple[int, int]] = set()
"""Folders that this process made, by device and number."""


def make_folder(path: Path) -> None:
    """Make a folder where there is none; what is there must be a folder, and no link to one."""
    try:
        path.mkdir(parents=True)
    except FileExistsError:
        with held(path):
            return
    with held(path) as place:
        _MADE.add(_identity(place))


@contextmanager
def held(folder: Path) -> Iterator[Path]:
    """A path to a folder that leads there for as long as the block lasts, and is no link.

    Whoever may write to the folder above could put a link in its place at any moment, also after
    a look at it. So the folder is opened once, as what it is, and reached through the open handle.
    Where the system has no such paths (it has them on Linux) its own path is given.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp()) / "mine"
    >>> folder.mkdir()
    >>> with held(folder) as place:
    ...     _ = folder.rename(folder.with_name("moved"))
    ...     _ = (place / "note.txt").write_text("here")
    >>> (folder.with_name("moved") / "note.txt").read_text()
    'here'
    """
    if os.name != "posix":
        refuse_link(folder)
        yield folder
        return
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        refuse_link(folder)
        raise
    try:
        through = Path(f"/proc/self/fd/{handle}")
        place = through if through.is_dir() else folder
        try:
            yield place
        except SfumatoError as error:  # people know the folder by its own name
            if error.where is None or not error.where.startswith(str(through)):
                raise
            where = str(folder) + error.where.removeprefix(str(through))
            raise type(error)(error.what, where=where, remedy=error.remedy) from error
    finally:
        os.close(handle)


def read_unlinked(path: Path, what: str) -> str:
    """The text of a UTF-8 file that must lie there itself: a link is refused, not followed."""
    try:
        flags = os.O_RDONLY | _flag("O_NOFOLLOW") | _flag("O_NONBLOCK")
        with os.fdopen(os.open(path, flags), encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        refuse_link(path)
        raise _refusal(path, what, error, SourceError) from None


def refuse_link(path: Path) -> None:
    """Say of a link that it leads out of a folder that somebody handed over."""
    if path.is_symlink():
        raise SourceError(
            "this is a link, and nothing is read or written through it",
            where=str(path),
            remedy="Remove it, or put what it leads to in its place.",
        )


def keep_only(folder: Path, names: Collection[str], ending: str) -> None:
    """See that a folder holds no files of an ending but those named.

    Only files of a folder that this process made are removed. Another one, which an earlier process
    made or somebody handed over, is moved aside with all it holds, and a new one takes its place.
    """
    make_folder(folder)
    with held(folder) as place:
        others = [n for n in os.listdir(place) if n.endswith(ending) and n not in names]
        ours = _identity(place) in _MADE
        for name in others if ours else ():
            (place / name).unlink()  # a link itself, never what it leads to
    if others and not ours:
        aside = (folder.with_name(f"{folder.name}.earlier-{n}") for n in itertools.count(1))
        folder.rename(next(place for place in aside if not os.path.lexists(place)))
        make_folder(folder)


def _identity(folder: Path) -> tuple[int, int]:
    found = folder.stat()
    return found.st_dev, found.st_ino


def usual_mode() -> int:
    """The permissions that a new file of this process gets."""
    try:  # asking the system would change them for a moment, for all threads
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        return 0o666 & ~int(status.split("\nUmask:")[1].split()[0], 8)
    except (OSError, IndexError):
        mask = os.umask(0o077)
        os.umask(mask)
        return 0o666 & ~mask


def file_fingerprint(*paths: Path) -> str:
    """SHA-256 of a file's bytes; of several files, of their fingerprints in order."""
    if len(paths) != 1:
        whole = hashlib.sha256()
        for path in paths:
            whole.update(file_fingerprint(path).encode())
        return f"sha256:{whole.hexdigest()}"
    with paths[0].open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def certificate_path(output: str | os.PathLike[str]) -> Path:
    """Where the certificate of an output lies; that of a database's table in this folder.

    Examples
    --------
    >>> certificate_path("out/release.parquet").as_posix()
    'out/release.parquet.certificate.json'
    >>> certificate_path("postgresql://ada@server/clinic#public.release").as_posix()
    'public.release.certificate.json'
    """
    text = shown(output)
    if "://" in text:
        text = re.split("[#/]", text)[-1]
    return Path(text.rstrip("/") + ".certificate.json")


def certificate_beside(output: str) -> dict[str, Any]:
    """What the certificate beside a release says, as far as it can be read; nothing without one."""
    try:
        text = certificate_path(output).read_text(encoding="utf-8")
        told = json.loads(text)
    except (OSError, ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) and isinstance(told.get("output"), dict) else {}


def read_secret(path: str | os.PathLike[str], what: str, *, follow: bool = True) -> bytes:
    """The content of a file that only its owner can read.

    Parameters
    ----------
    path
        The file.
    what
        What it holds, e.g. ``the key``.
    follow
        Whether the path may be a link.

    Raises
    ------
    InputError
        If the file cannot be read, is no file, or can be read by others.
    """
    where = os.fspath(path)
    try:
        handle = os.open(path, os.O_RDONLY | _flag("O_NONBLOCK") | _no_follow(follow))
    except (OSError, ValueError) as error:
        if getattr(error, "errno", None) == errno.ELOOP:
            raise InputError(
                f"{what}: this is a link", where=where, remedy="Put the file itself there."
            ) from None
        raise _refusal(path, what, error, InputError) from None
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        os.close(handle)
        raise InputError(
            f"{what}: this is not a file", where=where, remedy="Name the file with the key."
        )
    with os.fdopen(handle, "rb") as file:
        if os.name == "posix" and found.st_mode & 0o077:
            raise InputError(
                f"{what} can be read or changed by other users of this machine",
                where=where,
                remedy=f"Mend it with: chmod 600 {shlex.quote(where)} "
                "(and make a new key if somebody may have seen this one).",
            )
        content = file.read(LARGEST_KEY + 1)
    if len(content) > LARGEST_KEY:
        raise InputError(
            f"{what}: this file is too large to be a key",
            where=where,
            remedy="Name the file with the key.",
        )
    return content


def write_secret(path: str | os.PathLike[str], content: bytes, *, mode: int = 0o600) -> None:
    """Write a new file that only its owner can read.

    What exists is never replaced and no link is followed: the name appears once, with the whole
    content behind it.
    """
    target = Path(path)
    beside = target.with_name(f".{target.name}.{secrets.token_hex(6)}")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _no_follow(False)
        with os.fdopen(os.open(beside, flags, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(beside, target, follow_symlinks=False)  # fails where anything has the name
        finally:
            beside.unlink()
    except FileExistsError:
        raise ParameterError(
            "this file already exists",
            where=str(target),
            remedy="Choose another name or folder; keys are never overwritten.",
        ) from None
    except OSError as error:
        raise ParameterError(
            f"the key cannot be written ({(error.strerror or str(error)).lower()})",
            where=str(target),
            remedy="Choose a folder that you may write to.",
        ) from error


def _flag(name: str) -> int:
    return int(getattr(os, name, 0))  # Windows lacks some


def _no_follow(follow: bool) -> int:
    return 0 if follow else _flag("O_NOFOLLOW")


def keyed_digest(text: str) -> str | None:
    """A digest that only the owner of the input key can make, or try guesses on.

    None where there is no input key and none can be made.
    """
    key = _input_key()
    return None if key is None else f"blake2b:{_number(key)}:{_keyed(key, text)}"


def names_same(digest: str | None, text: str) -> bool | None:
    """Whether a digest of `keyed_digest` is of this text; None where the key is another one."""
    key = _input_key(make=False)
    if key is None or digest is None:
        return None
    kind, _, rest = digest.partition(":")
    number, _, kept = rest.partition(":")
    if kind != "blake2b" or number != _number(key):
        return None
    return hmac.compare_digest(kept.encode(), _keyed(key, text).encode())


def _keyed(key: bytes, text: str) -> str:
    return hashlib.blake2b(text.encode(), key=key, digest_size=32, person=b"input").hexdigest()


def _number(key: bytes) -> str:
    """A name of the key, which tells nothing about it."""
    return hashlib.blake2b(b"", key=key, digest_size=8, person=b"number").hexdigest()


def _input_key_path() -> Path:
    told = os.environ.get(INPUT_KEY)
    if told:
        return Path(told)
    config = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(config).expanduser() / "sfumato" / "input.key"


def _input_key(*, make: bool = True) -> bytes | None:
    """The key of this user, made where there is none; None where that is impossible."""
    try:
        path = _input_key_path()
        if make and not path.is_symlink() and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with contextlib.suppress(ParameterError):  # another process may have been faster
                write_secret(path, f"{secrets.token_hex(32)}\n".encode())
        if not path.is_symlink() and not path.exists():
            return None
    except (OSError, RuntimeError):  # no home, or one that cannot be written to
        return None
    content = read_secret(path, "the input key", follow=False).strip()
    if not re.fullmatch(rb"[0-9a-f]{64}", content):
        raise InputError(
            "the input key is damaged",
            where=str(path),
            remedy="Put it back from a copy, or remove it: a new one is made, and inputs of "
            "earlier releases can no longer be recognised.",
        )
    return bytes.fromhex(content.decode())
