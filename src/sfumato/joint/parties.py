"""Who takes part in an exact fit: certificates, signed cards, and messages among the parties.

Every party makes a certificate (`sfumato.secure.make_keys`) and hands it to all others. The
coordinator listens on one port; the others connect, over TLS 1.3; each side accepts only
certificates it was handed.

Every party writes a card; the coordinator passes all of them on as the roster. A card names its
party, its public key of the masks, and a digest of everything that all must agree on. It is signed
with the party's certificate, so the coordinator, which relays it, can neither change it nor put
its own key in its place. The keys seal all later messages: the coordinator, a party like the
others with rows of its own, passes them on and can neither read nor change them. A party that
leaves ends the computation for everybody: going on without it would tell, by the difference, what
it brought.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, Protocol, Self

from sfumato.budget import Budget
from sfumato.errors import MissingExtraError, ParameterError, PeerError
from sfumato.results import Result
from sfumato.secure.channel import Channel, Traffic, printable
from sfumato.secure.tls import (
    TLS,
    Address,
    Door,
    address_text,
    dial,
    listening,
    read_certificate,
    require_time,
)

Card = dict[str, Any]
_PROTOCOL = 2
"""Version of what passes between the parties; all must speak the same."""
_LARGEST_GREETING = 1 << 16
_WHOLE, _STOP = b"W", b"X"
_PATIENCE = 3.0
"""How much longer a party waits for the coordinator than that waits for a party: while it finds
out that somebody stalls, and tells so, nobody else may give up."""
_GRACE = 1.0
"""Seconds for what a party sent in time, when another one used up the time-out."""


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
            name, theirs = str(card["name"]), {**card["parameters"]}
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
        """Whether `name`'s certificate signed the message, or mine where no other has that name."""
        from cryptography import x509
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec

        path = self.others.get(name, self.certificate)  # my own card comes back in the roster
        public = x509.load_der_x509_certificate(read_certificate(path)).public_key()
        if not isinstance(public, ec.EllipticCurvePublicKey):
            return False
        try:
            public.verify(signature, message, ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            return False
        return True


def gather(
    address: Address,
    certificates: Certificates,
    timeout: float = 60.0,
    budget: Budget | None = None,
) -> dict[str, Channel]:
    """Wait, as coordinator, until every other party has connected.

    Parameters
    ----------
    budget
        The time that all of it may take; it hears why strangers were turned away.
    """
    names = {read_certificate(path): name for name, path in certificates.others.items()}
    if len(names) < len(certificates.others) or read_certificate(certificates.certificate) in names:
        raise ParameterError(
            "two parties have the same certificate", remedy="Every party makes its own."
        )
    first = next(iter(certificates.others.values()))
    context = TLS(certificates.certificate, certificates.key, first).context(server=True)
    for pinned in names:
        context.load_verify_locations(cadata=pinned)
    left = budget or Budget()
    deadline = time.monotonic() + min(timeout, left.remaining)
    found: dict[str, Channel] = {}
    with (
        listening(address, loopback_only=False) as server,
        Door(server, context, names, told=left.progress) as door,
    ):
        while len(found) < len(names):
            try:
                name, sock = door.admit(deadline)
            except TimeoutError:
                missing = sorted(set(names.values()) - set(found))
                for channel in found.values():
                    channel.stop("not all parties connected")
                require_time(left, address)
                raise PeerError(
                    f"{', '.join(f'`{name}`' for name in missing)} did not connect in time"
                    f"{door.others}",
                    where=address_text(address),
                    remedy="Start all parties within the time-out.",
                ) from None
            if name in found:
                sock.close()
            else:
                found[name] = Channel(sock, timeout=timeout, budget=left)
    return found


def join(
    address: Address,
    coordinator: str,
    certificates: Certificates,
    timeout: float = 60.0,
    budget: Budget | None = None,
) -> dict[str, Channel]:
    """Connect to the coordinator, trying until it listens or the time is over."""
    if coordinator not in certificates.others:
        raise ParameterError(f"there is no certificate for the coordinator `{coordinator}`")
    tls = TLS(certificates.certificate, certificates.key, certificates.others[coordinator])
    sock = dial(address, tls, timeout, budget)
    return {coordinator: Channel(sock, timeout=timeout, budget=budget)}


# Sealed messages through the coordinator


class Link(Protocol):
    """A connection to one other party; `sfumato.secure.channel.Channel` is one."""

    timeout: float

    def send(self, step: str, payload: Any) -> None: ...
    def receive_at_most(self, step: str, limit: int) -> bytearray: ...
    def stop(self, reason: str) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class FitSession(Result):
    """One party's view of an exact fit.

    Attributes
    ----------
    name, coordinator, parties
        Who this party is, who passes messages on, and who took part.
    rounds
        How often everybody sent everybody a message.
    messages_sent, messages_received, bytes_sent, bytes_received
        Of this party, after the greeting, without the transport's own overhead.
    opened
        How many numbers everybody learned at each kind of step.
    encrypted
        Whether the parties knew each other by certificates.
    """

    name: str
    coordinator: str
    parties: tuple[str, ...]
    rounds: int
    messages_sent: int
    messages_received: int
    bytes_sent: int
    bytes_received: int
    opened: Mapping[str, int]
    encrypted: bool


class Exchange:
    """Messages between any two parties, which the coordinator passes on and cannot read.

    Every message is sealed (ChaCha20-Poly1305) under a key of sender and receiver, and bound to
    everything that was broadcast before. A message that was changed, left out, repeated or put in
    another's place does not open; nor does one of a party that was told other things than I.

    Parameters
    ----------
    name
        This party's name.
    links
        The coordinator holds a link to every other party by name; every other party holds one
        link, to the coordinator.
    coordinator
        Name of the coordinator.
    parameters
        What all must agree on (agreement hash, model, penalty, …); a difference is an error.
    trust
        Signs and verifies public keys; None trusts the links (tests, loopback).
    """

    def __init__(
        self,
        name: str,
        links: Mapping[str, Link],
        coordinator: str,
        *,
        parameters: Mapping[str, Any] | None = None,
        trust: Trust | None = None,
    ) -> None:
        expected = set(links) - {name} if name == coordinator else {coordinator}
        if set(links) != expected or not links:
            raise ParameterError("the parties' links do not form a star around the coordinator")
        self.name = name
        self.coordinator = coordinator
        self.rounds = 0
        self.encrypted = trust is not None
        self._traffic = Traffic()  # its rounds are those of lent lines
        self._links = dict(links)
        self._keys = PairKeys()
        self._timeout = max(link.timeout for link in links.values())
        if name != coordinator:
            links[coordinator].timeout = _PATIENCE * self._timeout
        try:
            self.parties, self._transcript = self._greet(dict(parameters or {}), trust)
        except BaseException:
            self.stop()
            raise

    def scatter(self, step: str, messages: Mapping[str, bytes]) -> dict[str, bytes]:
        """Send each of the others its own message, all of one length, and receive theirs."""
        self.rounds += 1
        others = [other for other in self.parties if other != self.name]
        bound = self._transcript + f"{step}\0{self.rounds}".encode()
        sealed = {o: self._keys.seal(o, self.rounds, messages[o], bound) for o in others}
        size = len(sealed[others[0]])
        if self.name == self.coordinator:
            received = self._pass_on(step, sealed, size)
        else:
            self._send(self.coordinator, step, b"".join(sealed[other] for other in others))
            received = dict(zip(others, _cut(self._answer(step, size * len(others)), size),
                                strict=True))  # fmt: skip
        opened = {o: self._keys.unseal(o, self.rounds, received[o], bound) for o in others}
        strange = [other for other, message in opened.items() if message is None]
        if strange:
            self.fail(
                step,
                f"what came from `{strange[0]}` is not what it sent, or it was told other numbers "
                "than this party",
                remedy="Ask who coordinates: messages were changed on the way. Do not try again.",
            )
        return {other: message for other, message in opened.items() if message is not None}

    def broadcast(self, step: str, message: bytes) -> dict[str, bytes]:
        """Send all others the same, and receive theirs; mine is in what is returned.

        Whatever comes later is bound to all of it, so everybody knows that all were told the same.
        """
        others = [other for other in self.parties if other != self.name]
        received = self.scatter(step, dict.fromkeys(others, message))
        received[self.name] = message
        digest = hashlib.sha256(self._transcript + step.encode())
        for party in self.parties:
            digest.update(received[party])
        self._transcript = digest.digest()
        return received

    @contextlib.contextmanager
    def lent(self) -> Iterator[Channel]:
        """The line to the only other party, for another protocol; what passes on it is counted."""
        (link,) = self._links.values()
        assert isinstance(link, Channel)
        before = replace(link.traffic)
        yield link
        for name, value in vars(link.traffic).items():
            more = value - getattr(before, name)
            setattr(self._traffic, name, getattr(self._traffic, name) + more)

    def finish(self) -> None:
        """Let everybody confirm to everybody that all were told the same, and close all links."""
        self.broadcast("done", b"done")
        self.scatter("goodbye", {o: b"" for o in self.parties if o != self.name})
        for link in self._links.values():
            link.close()

    def stop(self) -> None:
        """Tell the others that this party met an error, and close all links."""
        for link in self._links.values():
            link.stop("it met an error of its own")

    def fail(
        self,
        step: str,
        what: str,
        remedy: str = "Run the same version everywhere; find out who lies.",
    ) -> NoReturn:
        """End the computation for everybody."""
        self.stop()
        raise PeerError(what, where=f"step `{step}`", remedy=remedy)

    def report(self, opened: Mapping[str, int]) -> FitSession:
        """What the computation cost this party so far, and what it told everybody."""
        return FitSession(
            name=self.name,
            coordinator=self.coordinator,
            parties=self.parties,
            rounds=self.rounds + self._traffic.rounds,
            messages_sent=self._traffic.messages_sent,
            messages_received=self._traffic.messages_received,
            bytes_sent=self._traffic.bytes_sent,
            bytes_received=self._traffic.bytes_received,
            opened=dict(opened),
            encrypted=self.encrypted,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self.finish()
        else:
            self.stop()

    def _greet(
        self, parameters: dict[str, Any], trust: Trust | None
    ) -> tuple[tuple[str, ...], bytes]:
        common = {"protocol": _PROTOCOL, "coordinator": self.coordinator}
        mine = make_card(self.name, self._keys.public, {**parameters, **common}, trust)
        if self.name == self.coordinator:
            cards = [mine]
            deadline = time.monotonic() + self._timeout
            for other, link in self._links.items():
                link.timeout = max(_GRACE, deadline - time.monotonic())
                greeting = link.receive_at_most("greeting", _LARGEST_GREETING)
                theirs = read_json(greeting, dict, "a greeting")
                card = theirs.get("card")
                if not isinstance(card, dict) or card.get("name") != other:
                    self.fail("greeting", f"`{other}` uses a different name")
                cards.append(theirs)
                link.timeout = self._timeout
            for link in self._links.values():
                link.send("roster", json.dumps(cards).encode())
        else:
            link = self._links[self.coordinator]
            link.send("greeting", json.dumps(mine).encode())
            roster = link.receive_at_most("roster", 64 * _LARGEST_GREETING)
            cards = read_json(roster, list, "a roster")
        publics = checked_keys(cards, mine, trust)
        names = tuple(sorted(publics))
        context = hashlib.sha256(canonical([[n, publics[n].hex()] for n in names])).digest()
        self._keys.agree(self.name, publics, context)
        return names, context

    # The star

    def _pass_on(self, step: str, mine: Mapping[str, bytes], size: int) -> dict[str, bytes]:
        """As coordinator: everybody's sealed messages to whom they are for."""
        sent = {self.name: mine}
        for member in self._links:
            others = [other for other in self.parties if other != member]
            try:
                data = bytes(self._receive(member, step, size * len(others)))
                if len(data) != size * len(others):
                    raise PeerError("a message of another length")
            except PeerError:
                self._without(step, member)
            sent[member] = dict(zip(others, _cut(data, size), strict=True))
        for member in self._links:
            parts = [sent[other][member] for other in self.parties if other != member]
            try:
                self._send(member, step, b"".join((_WHOLE, *parts)))
            except PeerError:
                self._without(step, member)
        return {member: sent[member][self.name] for member in self._links}

    def _without(self, step: str, lost: str) -> NoReturn:
        self._links.pop(lost).close()
        for member, link in self._links.items():
            with contextlib.suppress(PeerError):  # whoever is gone too needs no telling
                self._send(member, step, _STOP + lost.encode())
            link.close()
        raise _left_error(f"`{lost}` left the computation")

    def _answer(self, step: str, size: int) -> bytes:
        limit = max(size, _LARGEST_GREETING) + 1
        answer = bytes(self._receive(self.coordinator, step, limit))
        if answer[:1] == _STOP:
            self._links[self.coordinator].close()
            name = printable(answer[1:].decode("utf-8", "replace"))
            raise _left_error(f"`{name}` left the computation, says the coordinator")
        if answer[:1] != _WHOLE or len(answer) != size + 1:
            self.fail(step, "the coordinator sent something that does not belong here")
        return answer[1:]

    def _send(self, other: str, step: str, message: bytes) -> None:
        self._links[other].send(f"{step} {self.rounds}", message)
        self._traffic.messages_sent += 1
        self._traffic.bytes_sent += len(message)

    def _receive(self, other: str, step: str, limit: int) -> bytearray:
        message = self._links[other].receive_at_most(f"{step} {self.rounds}", limit)
        self._traffic.messages_received += 1
        self._traffic.bytes_received += len(message)
        return message


def _cut(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def _left_error(what: str) -> PeerError:
    return PeerError(
        f"{what}; nothing was fitted",
        remedy="Start all parties again. If numbers had been opened already, a fit without that "
        "party would tell, by the difference, about its rows.",
    )


class PairKeys:
    """One party's ephemeral X25519 key and the keys it shares with each other party."""

    def __init__(self) -> None:
        try:
            from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
            from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
        except ImportError:
            raise MissingExtraError("secure", "the exact fit") from None
        self._private = X25519PrivateKey.generate()
        self.public: bytes = self._private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self._to: dict[str, Any] = {}
        self._from: dict[str, Any] = {}

    def agree(self, name: str, publics: Mapping[str, bytes], context: bytes) -> None:
        """Derive the pairwise keys; `context` binds them to the study and everybody's keys."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        for other, public in publics.items():
            if other == name:
                continue
            try:
                secret = self._private.exchange(X25519PublicKey.from_public_bytes(public))
            except ValueError:  # another length, or a point of small order
                raise PeerError(f"the public key of `{other}` is not valid") from None
            for ciphers, ends in ((self._to, (name, other)), (self._from, (other, name))):
                label = "\0".join(("sfumato joint seal", *ends, "")).encode()
                ciphers[other] = ChaCha20Poly1305(hashlib.sha256(label + context + secret).digest())

    def seal(self, other: str, number: int, message: bytes, bound: bytes) -> bytes:
        """A message that only `other` can read, and only as this number and bound to this."""
        sealed: bytes = self._to[other].encrypt(number.to_bytes(12, "little"), message, bound)
        return sealed

    def unseal(self, other: str, number: int, sealed: bytes, bound: bytes) -> bytes | None:
        """The message, or None if `other` did not send it as this number and bound to this."""
        from cryptography.exceptions import InvalidTag

        try:
            message: bytes = self._from[other].decrypt(number.to_bytes(12, "little"), sealed, bound)
        except InvalidTag:
            return None
        return message


def key_stream(key: bytes, number: int, size: int) -> bytes:
    """`size` random bytes of a key, fresh for every number (ChaCha20)."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

    nonce = bytes(8) + number.to_bytes(8, "little")  # a block counter of 64 bits, then the nonce
    return Cipher(ChaCha20(key, nonce), mode=None).encryptor().update(bytes(size))
