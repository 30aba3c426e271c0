"""Key files: made once, readable by their owner alone, never written through a link.

Two kinds of secret are kept in files.

* The *input key*, one a user: 32 random bytes, made when they are first needed. Certificates name
  the table a release was made of by a digest under this key, which nobody without it can try
  guesses on.
* *Pairs* (`make_pair`): an Ed25519 key that signs certificates, and its public half, which is
  handed out. Pseudonyms can be made with the same file: their key is derived from it, so that one
  tells nothing about the other.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import os
import re
import secrets
import shlex
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from sfumato.errors import InputError, MissingExtraError, ParameterError, SourceError
from sfumato.files import unreadable
from sfumato.results import Result

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = [
    "INPUT_KEY",
    "KeyPair",
    "is_signed_by",
    "keyed_digest",
    "make_pair",
    "names_same",
    "pseudonym_key",
    "public_key",
    "read_secret",
    "signature",
    "write_secret",
]

INPUT_KEY = "SFUMATO_INPUT_KEY"
"""The environment variable that says where the input key lies."""
_LARGEST = 1 << 16
"""Bytes of the largest key file."""
_SHORTEST = 16
"""Bytes of randomness that a key of pseudonyms has at least."""
_SIGNED = b"sfumato certificate\n"
"""Comes before whatever is signed, so that a signature of ours is never one of something else."""
_MEND = "Make one with: openssl rand -hex 32 > secret.key && chmod 600 secret.key"


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
        reason, remedy = unreadable(path, error)
        raise InputError(f"{what}: {reason}", where=where, remedy=remedy) from None
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
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
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


# The input key


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


# Pairs


@dataclass(frozen=True)
class KeyPair(Result):
    """Where a pair of keys lies."""

    passed_on: ClassVar[Mapping[str, str]] = {
        "name": "chosen by its owner",
        "public": "where the public key lies",
        "fingerprint": "the public key itself",
    }

    name: str
    key: Path
    public: Path
    fingerprint: str
    """The public key: read it to each other over the telephone."""


def make_pair(folder: str | os.PathLike[str], name: str) -> KeyPair:
    """Make an Ed25519 key that signs certificates, and its public half.

    Give ``NAME.pub`` to those who verify your releases; ``NAME.key`` stays, and is readable by its
    owner alone. Nothing is ever overwritten.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = make_pair(folder, "ada")
    ...     made.public.name, oct(made.key.stat().st_mode & 0o777)
    ('ada.pub', '0o600')
    """
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,59}", name):
        raise ParameterError(
            "the name of a key has 1 to 60 letters, digits, dots, dashes and underscores, and "
            "begins with none of the dots and dashes",
            remedy="Write e.g. ada.",
        )
    with _cryptography():
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    home = Path(folder)
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ParameterError(
            f"keys cannot be written here ({(error.strerror or str(error)).lower()})",
            where=str(folder),
            remedy="Choose a folder that you may write to.",
        ) from error
    private = Ed25519PrivateKey.generate()
    secret = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    shown = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    made = KeyPair(name, home / f"{name}.key", home / f"{name}.pub", _public_name(private))
    write_secret(made.key, secret)
    try:
        write_secret(made.public, shown, mode=0o644)
    except ParameterError:
        made.key.unlink()  # half a pair is of no use
        raise
    return made


def signature(message: bytes, key: str | os.PathLike[str]) -> dict[str, str]:
    """Who signed a message, and the signature itself."""
    private = _private(key)
    return {"by": _public_name(private), "signature": private.sign(_SIGNED + message).hex()}


def is_signed_by(signed: object, message: bytes, public: str | None = None) -> bool:
    """Whether a record of `signature` is of this message, and by `public` where that is given."""
    if not isinstance(signed, dict):
        return False
    by, value = signed.get("by"), signed.get("signature")
    if not isinstance(by, str) or not isinstance(value, str) or (public and by != public):
        return False
    with _cryptography():
        from nacl.exceptions import BadSignatureError
        from nacl.signing import VerifyKey
    try:
        # unlike others, libsodium refuses public keys of small order, which "sign" everything
        known = VerifyKey(bytes.fromhex(by.removeprefix("ed25519:")))
        known.verify(_SIGNED + message, bytes.fromhex(value))
    except (BadSignatureError, ValueError):
        return False
    return True


def public_key(path: str | os.PathLike[str]) -> str:
    """The public key in a ``.pub`` file, as certificates name it."""
    with _cryptography():
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    try:
        with Path(path).open("rb") as file:
            content = file.read(_LARGEST)
    except (OSError, ValueError) as error:
        reason, remedy = unreadable(path, error)
        raise SourceError(
            f"the public key: {reason}", where=os.fspath(path), remedy=remedy
        ) from None
    try:
        found = serialization.load_pem_public_key(content)
    except Exception:  # the library has many ways to say that this is something else
        found = None
    if not isinstance(found, Ed25519PublicKey):
        secret = b"PRIVATE KEY" in content
        raise SourceError(
            "this is the secret half of a pair" if secret else "this is no public key of Ed25519",
            where=os.fspath(path),
            remedy="Name the .pub file that `sfumato keygen` made and its owner handed to you.",
        )
    return "ed25519:" + found.public_bytes_raw().hex()


def _private(path: str | os.PathLike[str]) -> Ed25519PrivateKey:
    with _cryptography():
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    content = read_secret(path, "the key that signs")
    try:
        found = serialization.load_pem_private_key(content, password=None)
    except Exception:  # the library has many ways to say that this is something else
        found = None
    if not isinstance(found, Ed25519PrivateKey):
        raise InputError(
            "this is no key that signs certificates",
            where=os.fspath(path),
            remedy="Make a pair with: sfumato keygen NAME",
        )
    return found


def _public_name(private: Ed25519PrivateKey) -> str:
    return "ed25519:" + private.public_key().public_bytes_raw().hex()


@contextlib.contextmanager
def _cryptography() -> Iterator[None]:
    try:
        yield
    except ImportError:
        raise MissingExtraError("secure", "a key that signs") from None


# Pseudonyms


def pseudonym_key(path: str | os.PathLike[str]) -> bytes:
    """The secret key of pseudonyms in a file.

    The file holds random bytes, as hexadecimal digits or as they are, or the secret half of a pair.
    What people can remember can be guessed: whoever guesses the key undoes every pseudonym, so
    words are refused.
    """
    content = read_secret(path, "the key")
    if b"PRIVATE KEY" in content:
        seed = _private(path).private_bytes_raw()
        return hashlib.blake2b(b"", key=seed, digest_size=32, person=b"pseudonyms").digest()
    key = content.rstrip(b"\r\n")
    digits = re.fullmatch(rb"[0-9a-fA-F]+", key)
    strength = len(key) // 2 if digits else len(key)
    if strength < _SHORTEST:
        raise InputError(
            f"the key has {strength} bytes, at least {_SHORTEST} are needed",
            where=os.fspath(path),
            remedy=_MEND,
        )
    if not (digits or _is_binary(key)) or _repeats(key):
        raise InputError(
            "the key can be guessed: it is text, or repeats itself",
            where=os.fspath(path),
            remedy=_MEND,
        )
    return key


def _is_binary(key: bytes) -> bool:
    """Whether bytes are more than text; random ones hold no text with probability 1 - 10^-6."""
    try:
        return not key.decode("utf-8").isprintable()
    except UnicodeDecodeError:
        return True


def _repeats(key: bytes) -> bool:
    """Whether few symbols are used; of random keys fewer than one in a million are refused."""
    return len(set(key)) < 8 or key in (key + key)[1:-1]
