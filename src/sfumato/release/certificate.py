"""The certificate that lies beside a release: what was asked, what was measured, what was written.

It carries a digest of itself, so that a changed byte is noticed, and on request a keyed one
(HMAC-SHA256), so that nobody without the key can make another. It has no date: the same input and
the same seed give the same bytes.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato._version import __version__
from sfumato.errors import PromiseError, SourceError, spell
from sfumato.files import unreadable, write_text
from sfumato.results import plain

__all__ = ["FORMAT", "Certificate", "certificate_path"]

FORMAT = 1
"""Version of the certificate's form; raised when old readers would misread a new one."""
_AGAIN = "Get it again from where it was made, or release the table again."


def certificate_path(output: str | os.PathLike[str]) -> Path:
    """Where the certificate of an output lies; that of a database's table in this folder.

    Examples
    --------
    >>> certificate_path("out/release.parquet").as_posix()
    'out/release.parquet.certificate.json'
    >>> certificate_path("postgresql://ada@server/clinic#public.release").as_posix()
    'public.release.certificate.json'
    """
    text = os.fspath(output)
    if "://" in text and "#" in text:
        text = text.rpartition("#")[2]
    return Path(text.rstrip("/") + ".certificate.json")


@dataclass(frozen=True)
class Certificate:
    """What is known about a release, and the proof that this record of it is untouched."""

    body: Mapping[str, Any]

    @classmethod
    def of(cls, **fields: Any) -> Certificate:
        """A new certificate with the given fields."""
        return cls({"certificate": FORMAT, "sfumato": __version__, **plain(fields)})

    def sealed(self, key: bytes | None = None) -> str:
        """The certificate as JSON text with its digest, and its keyed digest if there is a key."""
        body = dict(self.body)
        canonical = _canonical(body)
        body["digest"] = "sha256:" + hashlib.sha256(canonical).hexdigest()
        if key is not None:
            body["hmac"] = "sha256:" + hmac.new(key, canonical, hashlib.sha256).hexdigest()
        return json.dumps(body, ensure_ascii=False, indent=2) + "\n"

    def write(self, path: Path, key: bytes | None = None) -> None:
        """Write the sealed certificate in one atomic step."""
        write_text(path, self.sealed(key))

    @classmethod
    def read(cls, path: Path, key: bytes | None = None) -> Certificate:
        """Read a certificate and check that nobody changed it.

        Raises
        ------
        SourceError
            It is missing, unreadable, or of another form.
        PromiseError
            It was altered, or the key does not fit.
        """
        where = str(path)
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError as error:
            raise SourceError(
                "there is no certificate",
                where=where,
                remedy="Name it, or say what to check, e.g. "
                f"{spell('k', 5)} {spell('qi', ['age', 'sex'])}.",
            ) from error
        except (OSError, UnicodeDecodeError) as error:
            reason, remedy = unreadable(path, error)
            raise SourceError(
                f"the certificate cannot be read: {reason}", where=where, remedy=remedy
            ) from error
        try:
            body = json.loads(text)
        except json.JSONDecodeError as error:
            raise PromiseError(
                f"the certificate is not whole (line {error.lineno})",
                where=where,
                remedy=_AGAIN,
            ) from error
        if not isinstance(body, dict) or "certificate" not in body:
            raise SourceError(
                "this is not a certificate of Sfumato",
                where=where,
                remedy="Name the .certificate.json that lies beside the release.",
            )
        if body["certificate"] != FORMAT:
            raise SourceError(
                f"the certificate has form {body['certificate']}, this version reads form {FORMAT}",
                where=where,
                remedy="Verify it with the version of Sfumato that made it.",
            )
        digest, keyed = body.pop("digest", None), body.pop("hmac", None)
        canonical = _canonical(body)
        if digest != "sha256:" + hashlib.sha256(canonical).hexdigest():
            raise PromiseError(
                "the certificate was altered: its digest differs", where=where, remedy=_AGAIN
            )
        if key is not None:
            expected = "sha256:" + hmac.new(key, canonical, hashlib.sha256).hexdigest()
            if not isinstance(keyed, str) or not hmac.compare_digest(keyed, expected):
                raise PromiseError(
                    "the certificate was not sealed with this key",
                    where=where,
                    remedy="Check that it is the right key, and where the release came from.",
                )
        return cls(body)


def _canonical(body: Mapping[str, Any]) -> bytes:
    text = json.dumps(body, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return text.encode("utf-8")
