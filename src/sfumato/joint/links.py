"""Connections of the exact fit: TLS 1.3 with pinned certificates, one port at the coordinator.

Every party makes a certificate (`sfumato.secure.make_keys`) and hands it to all others. The
coordinator listens; the others connect; each side accepts only certificates it was handed. The
same certificates sign the ephemeral keys of the masks, so that the coordinator, which relays
them, cannot put its own in their place.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.errors import MissingExtraError, ParameterError, PeerError
from sfumato.secure.channel import Channel
from sfumato.secure.tls import TLS, Address, dial

__all__ = ["Certificates", "gather", "join"]

_GREETING_SECONDS = 10.0
"""How long a caller may take for the TLS greeting before the next one is served."""


@dataclass(frozen=True)
class Certificates:
    """My certificate and key, and everybody else's certificate by name."""

    certificate: Path
    key: Path
    others: Mapping[str, Path]

    def __post_init__(self) -> None:
        if not self.others:
            raise ParameterError("the other parties' certificates are missing")

    def sign(self, message: bytes) -> bytes:
        """Sign with my private key (ECDSA, SHA-256)."""
        try:
            from cryptography.hazmat.primitives import hashes, serialization
            from cryptography.hazmat.primitives.asymmetric import ec
        except ImportError:
            raise MissingExtraError("secure", "the exact fit") from None
        private = serialization.load_pem_private_key(Path(self.key).read_bytes(), password=None)
        if not isinstance(private, ec.EllipticCurvePrivateKey):
            raise ParameterError("this is not a key of `sfumato party keys`", where=str(self.key))
        return private.sign(message, ec.ECDSA(hashes.SHA256()))

    def verify(self, name: str, message: bytes, signature: bytes) -> bool:
        """Whether `name`'s certificate signed the message; unknown names sign nothing."""
        from cryptography import x509
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec

        path = self.others.get(name)
        if path is None:
            # My own card comes back in the roster; the sum itself checks it is unchanged.
            path = self.certificate
        public = x509.load_pem_x509_certificate(Path(path).read_bytes()).public_key()
        if not isinstance(public, ec.EllipticCurvePublicKey):
            return False
        try:
            public.verify(signature, message, ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            return False
        return True


def gather(
    address: Address, certificates: Certificates, timeout: float = 60.0
) -> dict[str, Channel]:
    """Wait, as coordinator, until every other party has connected."""
    names = {_der(path): name for name, path in certificates.others.items()}
    if len(names) < len(certificates.others) or _der(certificates.certificate) in names:
        raise ParameterError(
            "two parties have the same certificate", remedy="Every party makes its own."
        )
    paths = list(certificates.others.values())
    context = TLS(certificates.certificate, certificates.key, paths[0]).context(server=True)
    for path in paths[1:]:
        context.load_verify_locations(path)
    deadline = time.monotonic() + timeout
    found: dict[str, Channel] = {}
    with _listening(address, len(names)) as server:
        while len(found) < len(names):
            server.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                plain, _ = server.accept()
            except TimeoutError:
                missing = sorted(set(names.values()) - set(found))
                for channel in found.values():
                    channel.stop("not everybody came")
                raise PeerError(
                    f"{', '.join(f'`{name}`' for name in missing)} did not connect in time",
                    where=f"{address[0]}:{address[1]}",
                    remedy="Start all parties within the time-out.",
                ) from None
            try:
                plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                plain.settimeout(min(_GREETING_SECONDS, max(0.01, deadline - time.monotonic())))
                sock = context.wrap_socket(plain, server_side=True)
            except OSError:  # a stranger, or somebody who only knocks; parties try again
                plain.close()
                continue
            name = names.get(sock.getpeercert(binary_form=True) or b"")
            if name is None or name in found:
                sock.close()
                continue
            found[name] = Channel(sock, timeout=timeout)
    return found


def join(
    address: Address, coordinator: str, certificates: Certificates, timeout: float = 60.0
) -> dict[str, Channel]:
    """Connect to the coordinator, trying until it listens or the time is over."""
    if coordinator not in certificates.others:
        raise ParameterError(f"there is no certificate of the coordinator `{coordinator}`")
    tls = TLS(certificates.certificate, certificates.key, certificates.others[coordinator])
    return {coordinator: Channel(dial(address, tls, timeout), timeout=timeout)}


@contextlib.contextmanager
def _listening(address: Address, backlog: int) -> Any:
    try:
        family, _, _, _, where = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(where)
            server.listen(backlog)
            yield server
    except OSError as error:
        raise ParameterError(
            f"cannot listen here ({error.strerror})",
            where=f"{address[0]}:{address[1]}",
            remedy="Choose a free port of this machine.",
        ) from error


def _der(path: Path) -> bytes:
    try:
        return ssl.PEM_cert_to_DER_cert(Path(path).read_text().strip())
    except (OSError, ValueError):
        raise ParameterError(
            "this is not a certificate", where=str(path), remedy="Ask for the .crt file."
        ) from None
