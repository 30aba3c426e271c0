"""Which characters the bytes of a text file stand for."""

from __future__ import annotations

import codecs
import re
from typing import BinaryIO

from sfumato.errors import ParameterError

__all__ = ["checked_encoding", "first_undecodable", "guessed_encoding", "looks_western"]

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_WESTERN = frozenset(
    "ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØÙÚÛÜÝßàáâãäåæçèéêëìíîïñòóôõöøùúûüýÿŒœŠšŽžÐðÞþ"
    "€‚„‘’“”–—…•§©®°±²³·ºª¼½¾¿¡«»£\xa0´µ×"
)
_CHUNK = 1 << 20


def checked_encoding(encoding: str) -> str:
    """The canonical name of an encoding that the user named."""
    try:
        return codecs.lookup(encoding).name.removesuffix("-sig")
    except LookupError:
        raise ParameterError(
            f"there is no encoding `{encoding}`", remedy="Common ones: utf-8, cp1252, utf-16."
        ) from None


def guessed_encoding(sample: bytes, *, complete: bool) -> str:
    """The encoding of a file by its first bytes.

    UTF-8 unless a byte order mark or zero bytes say otherwise, or the bytes cannot be UTF-8 and
    make sense as Windows-1252 (which contains Latin-1's letters).

    Examples
    --------
    >>> guessed_encoding("José".encode("cp1252"), complete=True)
    'cp1252'
    """
    for mark, encoding in _BYTE_ORDER_MARKS:
        if sample.startswith(mark):
            return encoding
    even, odd = sample[:4096:2].count(0), sample[1:4096:2].count(0)
    if max(even, odd) > 0.4 * len(sample[:4096]) / 2:
        return "utf-16-le" if odd > even else "utf-16-be"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample, final=complete)
    except UnicodeDecodeError:
        return "cp1252" if looks_western(sample) else "utf-8"
    return "utf-8"


def looks_western(sample: bytes) -> bool:
    """Whether bytes make sense as Windows-1252: Western letters and signs, mostly beside words.

    Examples
    --------
    >>> looks_western("Chalon-sur-Saône, à côté".encode("cp1252")), looks_western(b"1,\\xff,2")
    (True, False)
    """
    try:
        text = sample.decode("cp1252")
    except UnicodeDecodeError:
        return False
    found = within = 0
    for match in re.finditer(r"[^\x00-\x7f]", text):
        at = match.start()
        if match[0] not in _WESTERN:
            return False
        found += 1
        beside = text[max(at - 1, 0) : at] + text[at + 1 : at + 2]
        within += any(c.isalpha() or c in " 0123456789" for c in beside)
    return found > 0 and 2 * within >= found


def first_undecodable(file: BinaryIO, encoding: str) -> tuple[int, bytes] | None:
    """Offset of the first byte that does not fit an encoding, and what stands around it."""
    decoder = codecs.getincrementaldecoder(encoding)()
    read = 0
    while True:
        chunk = file.read(_CHUNK)
        pending = decoder.getstate()[0]
        try:
            decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            whole = pending + chunk
            around = whole[max(error.start - 200, 0) : error.start + 200]
            return read - len(pending) + error.start, around
        if not chunk:
            return None
        read += len(chunk)
