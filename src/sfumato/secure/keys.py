"""Make the certificates two parties recognise each other by."""

from __future__ import annotations

import datetime
import os
import re
from dataclasses import dataclass
from pathlib import Path

from sfumato.errors import MissingExtraError, ParameterError

__all__ = ["KeyPaths", "make_keys"]


@dataclass(frozen=True)
class KeyPaths:
    """Where a party's certificate and private key lie."""

    certificate: Path
    key: Path
    fingerprint: str
    """SHA-256 of the certificate: read it to each other over the telephone."""


def make_keys(folder: Path | str, name: str, *, days: int = 730) -> KeyPaths:
    """Make a self-signed certificate for `name` and its private key.

    Give ``NAME.crt`` to the other party; ``NAME.key`` stays and is readable by its owner only.
    An existing key is never overwritten.

    Parameters
    ----------
    folder
        Where to write; made if missing.
    name
        Letters, digits, dots, dashes and underscores.
    days
        How long the certificate is valid. It starts two days ago, so clocks may differ.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     keys = make_keys(folder, "alice")
    ...     keys.certificate.name, oct(keys.key.stat().st_mode & 0o777)
    ('alice.crt', '0o600')
    """
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,60}", name):
        raise ParameterError(
            "a party's name has 1 to 60 letters, digits, dots, dashes and underscores"
        )
    if not 1 <= days <= 3650:
        raise ParameterError(f"a certificate of {days} days is not possible", remedy="1 to 3650.")
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID
    except ImportError as error:
        raise MissingExtraError("secure", "making certificates") from error

    home = Path(folder)
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ParameterError(
            f"no keys can be put here ({error.strerror})",
            where=str(folder),
            remedy="Name a folder of yours.",
        ) from error
    certificate_path, key_path = home / f"{name}.crt", home / f"{name}.key"
    for path in (certificate_path, key_path):
        if path.exists():
            raise ParameterError(
                "this file exists already",
                where=str(path),
                remedy="Choose another name or folder; keys are never overwritten.",
            )

    private = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=2))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(private, hashes.SHA256())
    )
    handle = os.open(key_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(
            private.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
    certificate_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return KeyPaths(certificate_path, key_path, certificate.fingerprint(hashes.SHA256()).hex())
