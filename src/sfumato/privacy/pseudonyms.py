"""Identifiers replaced by keyed pseudonyms: the same person gets the same one in every table.

HMAC-SHA256 cannot be undone or tried out without the key, unlike a plain hash of a name.
"""

from __future__ import annotations

import hmac

import pyarrow as pa

from sfumato.errors import InputError
from sfumato.hierarchy.labels import as_text

__all__ = ["SHORTEST_KEY", "key_of", "pseudonyms"]

SHORTEST_KEY = 16
"""Bytes a key must have at least."""

_BYTES = 16
"""Bytes of a pseudonym: two of 2^50 persons share one with probability below one in 10^8."""


def pseudonyms(values: pa.Array, key: bytes) -> pa.Array:
    """Pseudonyms of values, 32 hexadecimal digits each; a null stays null.

    Values are compared as text, so that 17 and "17" in two tables get the same pseudonym. Give
    the distinct values of a column, and look rows up in the result.

    Examples
    --------
    >>> names = pseudonyms(pa.array(["Ada", None, "Ada"]), b"a key of 16 bytes or more")
    >>> names[0] == names[2], names[1].as_py(), len(names[0].as_py())
    (True, None, 32)
    """
    if len(key) < SHORTEST_KEY:
        raise InputError(
            f"a key needs at least {SHORTEST_KEY} bytes",
            remedy="Read it from a file that `openssl rand -hex 32` or `sfumato keygen` made.",
        )
    made = [
        None if text is None else hmac.digest(key, text.encode(), "sha256")[:_BYTES].hex()
        for text in as_text(values).to_pylist()
    ]
    return pa.array(made, type=pa.string())


def key_of(key: bytes, meaning: str) -> bytes:
    """The key of pseudonyms of values that mean something of their own, like `doctors.id`.

    Patient 3 and doctor 3 must not get the same pseudonym: whoever knows the doctor would know her.

    Examples
    --------
    >>> secret, three = b"a key of 16 bytes or more", pa.array([3])
    >>> doctor, patient = (pseudonyms(three, key_of(secret, n)) for n in ("doctors", "patients"))
    >>> doctor == patient
    False
    """
    return hmac.digest(key, b"sfumato: a key of a dataset\0" + meaning.encode(), "sha256")
