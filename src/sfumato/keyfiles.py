"""Keys that people make: pairs that sign certificates, and those of pseudonyms.

A pair (`make_pair`) is an Ed25519 key that signs, and its public half, which is handed out.
Pseudonyms can be made with the same file: their key is derived from it, so that one tells nothing
about the other.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from sfumato.errors import InputError, MissingExtraError, ParameterError, SourceError
from sfumato.files import LARGEST_KEY, read_secret, unreadable, write_secret
from sfumato.results import Result

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


_SHORTEST = 16
"""Bytes of randomness that a key of pseudonyms has at least."""
_SIGNED = b"sfumato certificate\n"
"""Comes before whatever is signed, so that a signature of ours is never one of something else."""
_MEND = "Make one with: openssl rand -hex 32 > secret.key && chmod 600 secret.key"


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
    check_name(name)
    with _cryptography():
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    private = Ed25519PrivateKey.generate()
    secret = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    shown = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    key, public = write_pair(folder, name, secret, shown, ".pub")
    return KeyPair(name, key, public, _public_name(private))


def check_name(name: str) -> None:
    """Refuse what cannot be the name of a key's files."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,59}", name):
        raise ParameterError(
            "the name of a key has 1 to 60 letters, digits, dots, dashes and underscores, and "
            "does not begin with a dot or dash",
            remedy="Write e.g. ada.",
        )


def write_pair(
    folder: str | os.PathLike[str], name: str, secret: bytes, shown: bytes, ending: str
) -> tuple[Path, Path]:
    """Write ``NAME.key``, for its owner alone, and what is handed out beside it; both or neither.

    Parameters
    ----------
    folder
        Made if missing.
    shown, ending
        What is handed out, and how its name ends.
    """
    home = Path(folder)
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ParameterError(
            f"keys cannot be written here ({(error.strerror or str(error)).lower()})",
            where=str(folder),
            remedy="Choose a folder that you may write to.",
        ) from error
    key, public = home / f"{name}.key", home / f"{name}{ending}"
    write_secret(key, secret)
    try:
        write_secret(public, shown, mode=0o644)
    except ParameterError:
        key.unlink()  # half a pair is of no use
        raise
    return key, public


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
            content = file.read(LARGEST_KEY)
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
            "this is the secret half of a pair" if secret else "this is not an Ed25519 public key",
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
            "this is not a key that signs certificates",
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
