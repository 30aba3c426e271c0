"""Connections: TLS 1.3 with certificates pinned on both sides; plain sockets on loopback only.

There is no certificate authority. Each party makes a self-signed certificate (`make_keys`), hands
it to the other in a trusted way, and accepts exactly the one certificate it was handed.
"""

from __future__ import annotations

import contextlib
import datetime
import hmac
import ipaddress
import os
import re
import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sfumato.errors import MissingExtraError, ParameterError, PeerError, SourceError
from sfumato.results import Result

__all__ = ["TLS", "Address", "KeyPaths", "accept", "dial", "make_keys", "parse_address"]

Address = tuple[str, int]


@dataclass(frozen=True)
class TLS:
    """Who I am and whom I accept.

    Parameters
    ----------
    certificate, key
        My own certificate and private key, as `make_keys` wrote them.
    peer_certificate
        The certificate the other party handed over; no other is accepted.
    """

    certificate: Path
    key: Path
    peer_certificate: Path

    def context(self, *, server: bool) -> ssl.SSLContext:
        """The settings of a connection: TLS 1.3, both sides must show their certificate."""
        for path in (self.certificate, self.key, self.peer_certificate):
            if not Path(path).is_file():
                raise SourceError(
                    "there is no such file",
                    where=str(path),
                    remedy="Make certificates on both sides and exchange the .crt files.",
                )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # the certificate itself is pinned, names prove nothing more
        context.verify_mode = ssl.CERT_REQUIRED
        if server:
            context.num_tickets = 0  # sessions are never resumed
        try:
            context.load_cert_chain(self.certificate, self.key)
        except (ssl.SSLError, OSError) as error:
            raise SourceError(
                "this certificate and key do not belong together or cannot be read",
                where=str(self.certificate),
                remedy="Make a new pair.",
            ) from error
        context.load_verify_locations(cadata=self._pinned())
        if Path(self.peer_certificate).read_text().strip() in Path(self.certificate).read_text():
            raise SourceError(
                "this is this side's own certificate",
                where=str(self.peer_certificate),
                remedy="Ask the other party for its .crt file; each side makes a pair of its own.",
            )
        return context

    def _pinned(self) -> bytes:
        """The one certificate the peer may show."""
        try:
            text = Path(self.peer_certificate).read_text().strip()
            if text.count("-----BEGIN") != 1:
                raise ValueError("none or several")
            pinned = ssl.PEM_cert_to_DER_cert(text)
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=pinned)
        except (ssl.SSLError, OSError, ValueError) as error:
            raise SourceError(
                "this is not a single certificate",
                where=str(self.peer_certificate),
                remedy="Ask the other party for its .crt file.",
            ) from error
        return pinned

    def check(self, sock: ssl.SSLSocket) -> None:
        """Refuse a peer that shows any certificate but the pinned one."""
        shown = sock.getpeercert(binary_form=True) or b""
        if not hmac.compare_digest(self._pinned(), shown):
            raise PeerError(
                "the other party shows a different certificate from the one it handed over",
                remedy="Exchange the .crt files again in a way you trust.",
            )


def accept(address: Address, tls: TLS | None, timeout: float) -> socket.socket:
    """Wait for the other party to connect."""
    context = tls.context(server=True) if tls else None
    deadline = time.monotonic() + timeout
    with listening(address, loopback_only=tls is None) as server:
        server.settimeout(max(0.01, deadline - time.monotonic()))
        try:
            sock, _ = server.accept()
        except TimeoutError:
            raise PeerError(
                f"nobody connected within {timeout:g} s",
                where=named(address),
                remedy="Start the other side, or raise the time-out.",
            ) from None
    return _secured(sock, tls, context, server=True, deadline=deadline)


@contextlib.contextmanager
def listening(
    address: Address, *, loopback_only: bool, backlog: int = 1
) -> Iterator[socket.socket]:
    """A socket that waits for others at `address`."""
    family, where = _resolve(address, need_loopback=loopback_only)[0]
    with socket.socket(family, socket.SOCK_STREAM) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind(where)
            server.listen(backlog)
        except OSError as error:
            raise ParameterError(
                f"cannot listen here ({error.strerror})",
                where=named(address),
                remedy="Choose a free port of this machine.",
            ) from error
        yield server


def dial(address: Address, tls: TLS | None, timeout: float) -> socket.socket:
    """Connect to the other party, trying until it listens or the time is over."""
    context = tls.context(server=False) if tls else None
    deadline = time.monotonic() + timeout
    places = _resolve(address, need_loopback=tls is None)
    attempt = 0
    while True:
        family, where = places[attempt % len(places)]
        attempt += 1
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.settimeout(max(0.01, deadline - time.monotonic()))
        try:
            sock.connect(where)
        except OSError as error:
            sock.close()
            if time.monotonic() + 0.05 >= deadline:
                raise PeerError(
                    f"nobody answers ({error.strerror or 'timed out'})",
                    where=named(address),
                    remedy="Start the other side, and check address, port and firewall.",
                ) from error
            time.sleep(0.05)
            continue
        return _secured(sock, tls, context, server=False, deadline=deadline)


def _secured(
    sock: socket.socket,
    tls: TLS | None,
    context: ssl.SSLContext | None,
    *,
    server: bool,
    deadline: float,
) -> socket.socket:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if tls is None or context is None:
        return sock
    sock.settimeout(max(0.01, deadline - time.monotonic()))
    secured = context.wrap_socket(sock, server_side=server, do_handshake_on_connect=False)
    try:
        with _explained():
            secured.do_handshake()
        tls.check(secured)
    except PeerError:
        _hang_up(secured)
        raise
    return secured


def _hang_up(sock: ssl.SSLSocket) -> None:
    """Close so that the other side still hears why: closing over unread bytes would cut it off."""
    with contextlib.suppress(OSError, ValueError):
        sock.settimeout(0.2)
        plain = socket.socket(fileno=sock.detach())
        with plain:
            plain.settimeout(0.2)
            plain.shutdown(socket.SHUT_WR)
            for _ in range(64):
                if not plain.recv(1 << 16):
                    break
    sock.close()


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        raise PeerError(
            f"the other party's certificate is not the expected one ({error.verify_message})",
            remedy="Exchange the .crt files again in a way you trust; check both clocks.",
        ) from error
    except ssl.SSLError as error:
        reason = (error.reason or "TLS failure").replace("_", " ").lower()
        raise PeerError(
            f"no TLS 1.3 connection could be agreed ({reason})",
            remedy="Both sides need TLS with each other's certificate.",
        ) from error
    except TimeoutError as error:
        raise PeerError(
            "the other party did not finish the TLS greeting in time",
            remedy="Both sides need TLS, or neither.",
        ) from error
    except OSError as error:
        raise PeerError(
            "the other party closed the connection during the TLS greeting",
            remedy="Both sides need TLS with each other's certificate.",
        ) from error


def _resolve(address: Address, *, need_loopback: bool) -> list[tuple[int, tuple[str, int]]]:
    """All places an address stands for."""
    host, port = address
    if not 0 <= port <= 65535:
        raise ParameterError(f"{port} is not a port", remedy="Use 1 to 65535.")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ParameterError(
            "this host name cannot be found", where=host, remedy="Check the spelling."
        ) from error
    places = [(int(entry[0]), (str(entry[4][0]), int(entry[4][1]))) for entry in found]
    if need_loopback and not all(ipaddress.ip_address(w[0]).is_loopback for _, w in places):
        raise ParameterError(
            "without TLS only loopback addresses are allowed",
            where=named(address),
            remedy="Give certificates, or use 127.0.0.1.",
        )
    return places


def parse_address(text: str, option: str) -> Address:
    """``host:port``, as it was given after an option.

    Examples
    --------
    >>> parse_address("127.0.0.1:9000", "--listen")
    ('127.0.0.1', 9000)
    """
    host, sign, port = text.rpartition(":")
    if not sign or not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise ParameterError(
            f"{option} needs host:port, with a port from 1 to 65535",
            remedy=f"Write e.g. {option} 10.0.0.7:9000",
        )
    return host.strip("[]"), int(port)


def named(address: Address) -> str:
    """An address as people write it."""
    return f"{address[0]}:{address[1]}"


@dataclass(frozen=True)
class KeyPaths(Result):
    """Where a party's certificate and private key lie."""

    name: str
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
        raise ParameterError(f"a certificate of {days} days is impossible", remedy="Use 1 to 3650.")
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
            f"keys cannot be written here ({error.strerror})",
            where=str(folder),
            remedy="Choose a folder that you may write to.",
        ) from error
    certificate_path, key_path = home / f"{name}.crt", home / f"{name}.key"
    for path in (certificate_path, key_path):
        if path.exists():
            raise ParameterError(
                "this file already exists",
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
    fingerprint = certificate.fingerprint(hashes.SHA256()).hex()
    return KeyPaths(name, certificate_path, key_path, fingerprint)
