"""Who takes part in an exact fit: certificates, signed cards, and how the parties connect.

Every party makes a certificate (`sfumato.secure.make_keys`) and hands it to all others. The
coordinator listens on one port; the others connect, over TLS 1.3; each side accepts only
certificates it was handed.

Every party writes a card; the coordinator passes all of them on as the roster. A card names its
party, its public key of the masks, and a digest of everything that all must agree on. It is signed
with the party's certificate, so the coordinator, which relays it, can neither change it nor put
its own key in its place.
"""

from __future__ import annotations

import hashlib
import json
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol

from sfumato.errors import MissingExtraError, ParameterError, PeerError
from sfumato.secure.channel import Channel
from sfumato.secure.tls import TLS, Address, Door, dial, listening, named

__all__ = ["Certificates", "Trust", "checked_keys", "gather", "join", "make_card"]

Card = dict[str, Any]


class Trust(Protocol):
    """How public keys are vouched for; see `Certificates`."""

    @property
    def others(self) -> Mapping[str, Any]: ...
    def sign(self, message: bytes) -> bytes: ...
    def verify(self, name: str, message: bytes, signature: bytes) -> bool: ...


def make_card(name: str, public: bytes, parameters: Mapping[str, Any], trust: Trust | None) -> Card:
    """A party's card, signed.

    Examples
    --------
    >>> card = make_card("A", bytes(32), {"model": "cox"}, None)
    >>> card["card"]["name"], len(card["card"]["parameters"]["model"])
    ('A', 64)
    """
    digests = {k: hashlib.sha256(canonical(v)).hexdigest() for k, v in sorted(parameters.items())}
    card = {"name": name, "public": public.hex(), "parameters": digests}
    signature = trust.sign(canonical(card)) if trust else b""
    return {"card": card, "signature": signature.hex()}


def checked_keys(cards: Sequence[Any], mine: Card, trust: Trust | None) -> dict[str, bytes]:
    """Everybody's public key by name, if all cards agree with mine and are signed."""
    if mine not in cards:
        _refuse("the coordinator does not pass on this party's own key")
    wanted = mine["card"]["parameters"]
    publics: dict[str, bytes] = {}
    for entry in cards:
        try:
            card = entry["card"]
            name, theirs = str(card["name"]), dict(card["parameters"])
            public = bytes.fromhex(card["public"])
            signature = bytes.fromhex(entry["signature"])
        except (KeyError, TypeError, ValueError):
            _refuse("a party's card cannot be read")
        shown = printable(name)
        if name in publics:
            _refuse(f"two parties call themselves `{shown}`")
        different = [k for k in sorted({*wanted, *theirs}) if wanted.get(k) != theirs.get(k)]
        if different:
            _refuse(f"`{shown}` runs with different parameters: {printable(', '.join(different))}")
        if trust and not trust.verify(name, canonical(card), signature):
            _refuse(f"the key of `{shown}` is not signed by its certificate")
        publics[name] = public
    if trust and set(publics) != {mine["card"]["name"], *trust.others}:
        _refuse("the coordinator's roster does not list the agreed parties")
    return publics


def read_json(data: bytes | bytearray, kind: type, what: str) -> Any:
    """A JSON value of this kind, or an error that names what was expected."""
    try:
        value = json.loads(bytes(data))
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, kind):
        raise PeerError(
            f"a party sent {what} that cannot be read", remedy="Run the same version everywhere."
        )
    return value


def canonical(value: Any) -> bytes:
    """The one way to write a JSON value, for digests and signatures."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def printable(text: str) -> str:
    """What another party wrote, fit to be shown.

    Examples
    --------
    >>> printable("B\\x1b[2J")
    'B[2J'
    """
    return "".join(letter for letter in text if letter.isprintable())[:200]


def _refuse(what: str) -> NoReturn:
    raise PeerError(
        what, where="step `roster`", remedy="Agree on the settings, then start all again."
    )


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
    with (
        listening(address, loopback_only=False) as server,
        Door(server, context, names) as door,
    ):
        while len(found) < len(names):
            try:
                name, sock = door.admit(deadline)
            except TimeoutError:
                missing = sorted(set(names.values()) - set(found))
                for channel in found.values():
                    channel.stop("not all parties connected")
                raise PeerError(
                    f"{', '.join(f'`{name}`' for name in missing)} did not connect in time"
                    f"{door.others}",
                    where=named(address),
                    remedy="Start all parties within the time-out.",
                ) from None
            if name in found:
                sock.close()
            else:
                found[name] = Channel(sock, timeout=timeout)
    return found


def join(
    address: Address, coordinator: str, certificates: Certificates, timeout: float = 60.0
) -> dict[str, Channel]:
    """Connect to the coordinator, trying until it listens or the time is over."""
    if coordinator not in certificates.others:
        raise ParameterError(f"there is no certificate for the coordinator `{coordinator}`")
    tls = TLS(certificates.certificate, certificates.key, certificates.others[coordinator])
    return {coordinator: Channel(dial(address, tls, timeout), timeout=timeout)}


def _der(path: Path) -> bytes:
    try:
        return ssl.PEM_cert_to_DER_cert(Path(path).read_text().strip())
    except (OSError, ValueError):
        raise ParameterError(
            "this is not a certificate", where=str(path), remedy="Ask for the .crt file."
        ) from None
