"""Connections: TLS 1.3 with certificates pinned on both sides; plain sockets on loopback only.

There is no certificate authority. Each party makes a self-signed certificate (`make_keys`), hands
it to the other in a trusted way, and accepts exactly the one certificate it was handed.

Anybody can reach an open port: scanners, browsers, monitoring. A `Door` lets them knock, and goes
on until whoever is expected has shown who it is.
"""

from __future__ import annotations

import contextlib
import datetime
import hmac
import ipaddress
import re
import selectors
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from sfumato.budget import Budget
from sfumato.errors import BudgetError, MissingExtraError, ParameterError, PeerError, SourceError
from sfumato.fields import checked
from sfumato.files import read_bytes, read_secret
from sfumato.keyfiles import check_name, write_pair
from sfumato.results import Result
from sfumato.secure.channel import FIRST_BYTES, opens_session

Address = tuple[str, int]
_GREETING_SECONDS = 10.0
"""How long a caller may take to show who it is."""
_CALLERS = 128
"""How many callers are listened to at once; one more, and the oldest must go."""
_LEAVING_SECONDS, _LEAVING_BYTES = 1.0, 1 << 16
"""A caller that was turned away is read from for so long, so that it still hears why."""
_PLACE_SECONDS = 3.0
"""How long one place of several that a name stands for may take to answer."""
_ATTEMPTS = 4
"""How often a line that breaks during the greeting is tried: the door may have been crowded."""


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
        read_secret(self.key, "the key")  # refuses one that others can read
        try:
            # with a password, even an empty one, nobody is asked for that of an encrypted key
            context.load_cert_chain(self.certificate, self.key, password="")
        except (ssl.SSLError, OSError) as error:
            raise SourceError(
                "this certificate and key do not belong together or cannot be read",
                where=str(self.certificate),
                remedy="Make a new pair.",
            ) from error
        context.load_verify_locations(cadata=self.pinned())
        if self.pinned() == read_certificate(self.certificate):
            raise SourceError(
                "this is this side's own certificate",
                where=str(self.peer_certificate),
                remedy="Ask the other party for its .crt file; each side makes a pair of its own.",
            )
        return context

    def pinned(self) -> bytes:
        """The one certificate the peer may show."""
        return read_certificate(self.peer_certificate)

    def check(self, sock: ssl.SSLSocket) -> None:
        """Refuse a peer that shows any certificate but the pinned one."""
        shown = sock.getpeercert(binary_form=True) or b""
        if not hmac.compare_digest(self.pinned(), shown):
            raise PeerError(
                "the other party shows a different certificate from the one it handed over",
                remedy="Exchange the .crt files again in a way you trust.",
            )


def read_certificate(path: str | Path) -> bytes:
    """The one certificate (DER) in a file."""
    text = read_bytes(path, "a certificate").decode("ascii", "replace").strip()
    try:
        if text.count("-----BEGIN") != 1:
            raise ValueError("none or several")
        found = ssl.PEM_cert_to_DER_cert(text)
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=found)
    except (ssl.SSLError, ValueError) as error:
        raise SourceError(
            "this is not a single certificate",
            where=str(path),
            remedy="Ask the other party for its .crt file.",
        ) from error
    return found


def accept(
    address: Address, tls: TLS | None, timeout: float, budget: Budget | None = None
) -> socket.socket:
    """Wait until the other party has connected and shown who it is.

    Parameters
    ----------
    budget
        The time that is left in all; it hears why somebody else was turned away.
    """
    context = tls.context(server=True) if tls else None
    names = {tls.pinned(): "peer"} if tls else {}
    left = budget or Budget()
    deadline = time.monotonic() + min(timeout, left.remaining)
    with (
        listening(address, loopback_only=tls is None) as server,
        Door(server, context, names, told=left.progress) as door,
    ):
        try:
            return door.admit(deadline)[1]
        except TimeoutError:
            require_time(left, address)
            raise PeerError(
                f"the other party did not connect within {timeout:g} s{door.others}",
                where=address_text(address),
                remedy="Start the other side, or raise the time-out.",
            ) from None


def require_time(budget: Budget, address: Address, within: float = 0.0) -> None:
    """Say so if the time of the whole work is over, not only that of waiting."""
    if budget.remaining <= within:
        raise BudgetError(
            "the time was over before all sides had met",
            where=address_text(address),
            remedy="Allow more time, on all sides.",
        )


@dataclass(eq=False)
class _Caller:
    """Somebody at the door."""

    sock: socket.socket
    until: float
    left: int | None = None
    """Bytes still read from somebody who was turned away; None before that."""


class Door:
    """A port where anybody may knock and only those who are expected come in.

    One thread serves all callers, none of whom can hold up another: a caller has ten seconds to
    show its certificate, OpenSSL bounds what it may send until then, and a hundred and
    twenty-eight callers wait at most, of whom the oldest has to go when one more comes.

    Parameters
    ----------
    server
        A socket that listens.
    context
        Settings of TLS; None for plain connections, where the peer is whoever begins with the
        first frame of a session.
    names
        Who may come in, by certificate (DER).
    told
        Receives why a caller was turned away.
    """

    def __init__(
        self,
        server: socket.socket,
        context: ssl.SSLContext | None,
        names: Mapping[bytes, str],
        *,
        told: Callable[[str], None] | None = None,
    ) -> None:
        self._server = server
        self._context = context
        self._names = names
        self._told = told
        self._callers: dict[_Caller, None] = {}
        self._turned_away = 0
        self._last = ""
        self._selector = selectors.DefaultSelector()
        server.setblocking(False)
        self._selector.register(server, selectors.EVENT_READ)

    def __enter__(self) -> Door:
        return self

    def __exit__(self, *_: object) -> None:
        for caller in list(self._callers):
            self._drop(caller)
        self._selector.close()

    @property
    def others(self) -> str:
        """Who came instead, to be put behind a sentence."""
        if not self._turned_away:
            return ""
        return f" ({self._turned_away:,} turned away, the last because it {self._last})"

    def admit(self, deadline: float) -> tuple[str, socket.socket]:
        """The next one who may come in, and its name; TimeoutError if nobody does in time."""
        while (now := time.monotonic()) < deadline:
            for caller in [c for c in self._callers if c.until <= now]:
                self._expire(caller)
            soonest = min([deadline, *(caller.until for caller in self._callers)])
            for key, _ in self._selector.select(max(0.0, soonest - time.monotonic())):
                if key.data is None:
                    self._answer()
                elif key.data in self._callers and (name := self._listen_to(key.data)) is not None:
                    caller = key.data
                    self._forget(caller)
                    return name, caller.sock
        raise TimeoutError

    def _answer(self) -> None:
        try:
            sock, _ = self._server.accept()
        except OSError:  # it has gone again, or there is no room for one more
            time.sleep(0.01)
            return
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context is not None:
                sock = self._context.wrap_socket(
                    sock, server_side=True, do_handshake_on_connect=False
                )
            else:
                with contextlib.suppress(OSError):  # not everywhere: then a part is nothing
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, FIRST_BYTES)
        except (OSError, ValueError):
            sock.close()
            return
        if len(self._callers) >= _CALLERS:
            self._drop(next(iter(self._callers)))
        self._register(_Caller(sock, time.monotonic() + _GREETING_SECONDS))

    def _listen_to(self, caller: _Caller) -> str | None:
        """Go on with a caller; its name once it has shown who it is."""
        if caller.left is not None:
            self._let_leave(caller)
            return None
        try:
            if isinstance(caller.sock, ssl.SSLSocket):
                return self._greeted(caller, caller.sock)
            if opens_session(caller.sock.recv(FIRST_BYTES, socket.MSG_PEEK)):
                with contextlib.suppress(OSError):
                    caller.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
                return ""
            self._turn_away(caller, "does not speak this protocol")
        except BlockingIOError:
            pass
        except OSError:
            self._turn_away(caller, "hung up")
        return None

    def _greeted(self, caller: _Caller, sock: ssl.SSLSocket) -> str | None:
        try:
            with _explained():
                sock.do_handshake()
        except ssl.SSLWantReadError:
            self._selector.modify(sock, selectors.EVENT_READ, caller)
            return None
        except ssl.SSLWantWriteError:
            self._selector.modify(sock, selectors.EVENT_WRITE, caller)
            return None
        except PeerError as error:
            self._turn_away(caller, f"was not recognised: {error.what}")
            return None
        name = self._names.get(sock.getpeercert(binary_form=True) or b"")
        if name is None:
            self._turn_away(caller, "shows a certificate that was not handed over")
        return name

    def _expire(self, caller: _Caller) -> None:
        if caller.left is None:
            self._turn_away(caller, f"showed nothing within {_GREETING_SECONDS:g} s", wait=False)
        else:
            self._drop(caller)

    def _turn_away(self, caller: _Caller, why: str, *, wait: bool = True) -> None:
        self._turned_away += 1
        self._last = why
        if self._told is not None:
            self._told(f"somebody who {why} was turned away")
        self._forget(caller)
        try:
            # closing over unread bytes would cut off the alert that says why
            plain = socket.socket(fileno=caller.sock.detach())
            plain.setblocking(False)
            plain.shutdown(socket.SHUT_WR)
        except OSError:
            plain.close()
            return
        if wait:
            self._register(_Caller(plain, time.monotonic() + _LEAVING_SECONDS, _LEAVING_BYTES))
        else:
            plain.close()

    def _let_leave(self, caller: _Caller) -> None:
        assert caller.left is not None
        try:
            read = len(caller.sock.recv(1 << 12))
        except OSError:
            read = 0
        caller.left -= read
        if not read or caller.left <= 0:
            self._drop(caller)

    def _register(self, caller: _Caller) -> None:
        self._callers[caller] = None
        self._selector.register(caller.sock, selectors.EVENT_READ, caller)

    def _forget(self, caller: _Caller) -> None:
        del self._callers[caller]
        self._selector.unregister(caller.sock)

    def _drop(self, caller: _Caller) -> None:
        self._forget(caller)
        caller.sock.close()


@contextlib.contextmanager
def listening(
    address: Address, *, loopback_only: bool, backlog: int = _CALLERS
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
                where=address_text(address),
                remedy="Choose a free port of this machine.",
            ) from error
        yield server


def dial(
    address: Address, tls: TLS | None, timeout: float, budget: Budget | None = None
) -> socket.socket:
    """Connect to the other party, trying until it listens or the time is over."""
    context = tls.context(server=False) if tls else None
    left = budget or Budget()
    deadline = time.monotonic() + min(timeout, left.remaining)
    places = _resolve(address, need_loopback=tls is None)
    attempt, broken = 0, 0
    while True:
        family, where = places[attempt % len(places)]
        attempt += 1
        sock = socket.socket(family, socket.SOCK_STREAM)
        patience = deadline - time.monotonic()
        if len(places) > 1:  # one may swallow what is sent to it: the next could answer
            patience = min(patience, _PLACE_SECONDS)
        sock.settimeout(max(0.01, patience))
        try:
            sock.connect(where)
        except OSError as error:
            sock.close()
            if time.monotonic() + 0.05 >= deadline:
                require_time(left, address, within=0.1)
                raise PeerError(
                    f"nobody answers ({error.strerror or 'timed out'})",
                    where=address_text(address),
                    remedy="Start the other side, and check address, port and firewall.",
                ) from error
            time.sleep(0.05)
            continue
        try:
            return _secured(sock, tls, context, deadline)
        except _BrokenLine:
            broken += 1
            pause = 0.1 * 2**broken
            if broken == _ATTEMPTS or time.monotonic() + pause >= deadline:
                raise
            time.sleep(pause)


class _BrokenLine(PeerError):
    """The line was cut during the greeting, without a word: to be tried again."""


def _secured(
    sock: socket.socket, tls: TLS | None, context: ssl.SSLContext | None, deadline: float
) -> socket.socket:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if tls is None or context is None:
        return sock
    sock.settimeout(max(0.01, deadline - time.monotonic()))
    secured = context.wrap_socket(sock, do_handshake_on_connect=False)
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
    except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
        raise
    except ssl.SSLCertVerificationError as error:
        raise PeerError(
            f"the other party's certificate is not the expected one ({error.verify_message})",
            remedy="Exchange the .crt files again in a way you trust; check both clocks.",
        ) from error
    except (ssl.SSLEOFError, ConnectionError) as error:
        raise _BrokenLine(
            "the other party closed the connection during the TLS greeting",
            remedy="Both sides need TLS with each other's certificate.",
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
            "the other party cannot be reached any more",
            remedy="Check the network, then start all sides again.",
        ) from error


def _resolve(address: Address, *, need_loopback: bool) -> list[tuple[int, tuple[str, int]]]:
    """All places an address stands for."""
    host, port = address
    if not 0 <= port <= 65535:
        raise ParameterError(f"{port} is not a port", remedy="Use 1 to 65535.")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ParameterError(
            "this host name cannot be found", where=host, remedy="Check the spelling."
        ) from error
    places = [(int(entry[0]), (str(entry[4][0]), int(entry[4][1]))) for entry in found]
    if need_loopback and not all(ipaddress.ip_address(w[0]).is_loopback for _, w in places):
        raise ParameterError(
            "without TLS only loopback addresses are allowed",
            where=address_text(address),
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
    host, _, port = text.rpartition(":")
    if not host or not re.fullmatch("[0-9]{1,5}", port) or not 0 < int(port) < 1 << 16:
        raise ParameterError(
            f"{option} needs host:port, with a port from 1 to 65535",
            remedy=f"Write e.g. {option} 10.0.0.7:9000",
        )
    return host.strip("[]"), int(port)


def address_text(address: Address) -> str:
    """An address as people write it.

    Examples
    --------
    >>> address_text(("127.0.0.1", 9000)), address_text(("::1", 9000))
    ('127.0.0.1:9000', '[::1]:9000')
    """
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@dataclass(frozen=True)
class KeyPaths(Result):
    """Where a party's certificate and private key lie."""

    passed_on: ClassVar[Mapping[str, str]] = {
        "name": "chosen by its owner",
        "certificate": "where the certificate lies, which the others get",
        "fingerprint": "a digest of that certificate",
    }

    name: str
    certificate: Path
    key: Path
    fingerprint: str
    """SHA-256 of the certificate: read it to each other over the telephone."""


@checked
def make_keys(folder: Path | str, name: str, *, days: int = 730) -> KeyPaths:
    """Make a self-signed certificate for `name` and its private key.

    Give ``NAME.crt`` to the other party; ``NAME.key`` stays and is readable by its owner only.
    An existing key is never overwritten.

    Parameters
    ----------
    folder
        Where to write; made if missing.
    name
        Letters, digits, dots, dashes and underscores, no dot or dash first.
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
    check_name(name)
    if not 1 <= days <= 3650:
        raise ParameterError(f"a certificate of {days} days is impossible", remedy="Use 1 to 3650.")
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID
    except ImportError as error:
        raise MissingExtraError("secure", "making certificates") from error

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
    secret = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    shown = certificate.public_bytes(serialization.Encoding.PEM)
    key, public = write_pair(folder, name, secret, shown, ".crt")
    return KeyPaths(name, public, key, certificate.fingerprint(hashes.SHA256()).hex())
