"""Secure aggregation: everybody learns the sum of everybody's numbers, nobody anything else.

The parties form a star. The coordinator (a party like the others, with rows of its own) relays
the public keys, collects the masked numbers, and sends the sum to all. It sees only masked
numbers: the masks between any two other parties are unknown to it. Keys are signed with the
certificates that the parties handed each other, so the coordinator cannot slip in its own.

When a party vanishes, the round cannot be completed: the masks shared with it do not cancel.
With fewer than `min_parties` left everybody stops with an error that names the party; otherwise
everybody starts the computation again without it (`PartyLeft`), under fresh masks.

Under a mask a number is 128-bit fixed point in two 64-bit limbs: its floor, and its fraction times
2^64. Any double below 2^62 is represented to 2^-64, and sums are exact and do not depend on the
order of the parties. Each pair of parties shares a key (X25519); one adds the key's stream to its
numbers, the other subtracts it, modulo 2^128. To anybody who lacks one of a party's keys its
numbers are uniform.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NoReturn, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import MissingExtraError, ParameterError, PeerError, UnfinishedError
from sfumato.joint.parties import Trust, canonical, checked_keys, make_card, printable, read_json
from sfumato.results import Result

__all__ = ["LocalSum", "PartyLeft", "SecureSum", "SumReport", "Summing", "until_complete"]

Floats = NDArray[np.float64]
Words = NDArray[np.uint64]
T = TypeVar("T")
_PROTOCOL = 1
"""Version of what passes between the parties; all must speak the same."""
_LARGEST_GREETING = 1 << 16
_SUM, _LEFT, _STOP = b"S", b"L", b"X"
_PATIENCE = 3.0
"""How much longer a party waits for the coordinator than that waits for a party: while it finds
out that somebody stalls, and tells so, nobody else may give up."""
_GRACE = 1.0
"""Seconds for what a party sent in time, when another one used up the time-out."""

LIMB_BYTES = 16
LARGEST = 2.0**50
"""No party's sum may be larger. Random numbers are, so that nonsense is not taken for a total."""


class Link(Protocol):
    """A connection to one other party; `sfumato.secure.channel.Channel` is one."""

    timeout: float

    def send(self, step: str, payload: Any) -> None: ...
    def receive_at_most(self, step: str, limit: int) -> bytearray: ...
    def stop(self, reason: str) -> None: ...
    def close(self) -> None: ...


class Summing(Protocol):
    """What the exact fits need: sums over all parties, and a number all agree on."""

    @property
    def parties(self) -> tuple[str, ...]: ...
    def total(self, step: str, values: Floats) -> Floats: ...
    def same(self, step: str, values: Floats) -> Floats: ...


class LocalSum:
    """The sum over one party: turns an exact fit into an ordinary one, for comparison."""

    parties = ("alone",)

    def total(self, step: str, values: Floats) -> Floats:
        """The values themselves."""
        return values

    def same(self, step: str, values: Floats) -> Floats:
        """The values themselves."""
        return values


class PartyLeft(Exception):
    """A party left and the others may go on: start the computation again."""


@dataclass(frozen=True)
class SumReport(Result):
    """One party's view of an aggregation.

    Attributes
    ----------
    name, coordinator, parties, gone
        Who this party is, who relays, who took part to the end, and who left on the way.
    rounds
        Sums that were opened to everybody.
    messages_sent, messages_received, bytes_sent, bytes_received
        Of this party, after the greeting, without the transport's own overhead.
    opened
        How many totals everybody learned at each kind of step.
    encrypted
        Whether the parties knew each other by certificates.
    """

    name: str
    coordinator: str
    parties: tuple[str, ...]
    gone: tuple[str, ...]
    rounds: int
    messages_sent: int
    messages_received: int
    bytes_sent: int
    bytes_received: int
    opened: Mapping[str, int]
    encrypted: bool


class SecureSum:
    """One party's end of the aggregation.

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
    min_parties
        How many parties must remain for the computation to go on; by default all of them. When a
        party leaves and the others go on, the difference between the old and the new sums is what
        that party had contributed: allow it only where that may be known.
    trust
        Signs and verifies public keys; None trusts the links (tests, loopback).

    Notes
    -----
    With two parties the sum tells each the other's numbers; at least three are required unless
    `min_parties` is 2 in so many words.
    """

    def __init__(
        self,
        name: str,
        links: Mapping[str, Link],
        coordinator: str,
        *,
        parameters: Mapping[str, Any] | None = None,
        min_parties: int | None = None,
        trust: Trust | None = None,
    ) -> None:
        expected = set(links) - {name} if name == coordinator else {coordinator}
        if set(links) != expected or not links:
            raise ParameterError("the parties' links do not form a star around the coordinator")
        self.name = name
        self.coordinator = coordinator
        self.epoch = 0
        self.bytes_sent = 0
        self.bytes_received = 0
        self.messages_sent = 0
        self.messages_received = 0
        self.rounds = 0
        self._opened: dict[str, int] = {}
        self._links = dict(links)
        self._trust = trust
        self._number = 0
        self._keys = PairKeys()
        self._gone: list[str] = []
        self._silent: set[str] = set()
        self._timeout = max(link.timeout for link in links.values())
        if name != coordinator:
            links[coordinator].timeout = _PATIENCE * self._timeout
        try:
            self._names = self._greet(dict(parameters or {}), min_parties)
        except BaseException:
            for link in self._links.values():
                link.stop("it met an error of its own")
            raise
        self._least = len(self._names) if min_parties is None else min_parties
        if len(self._names) < 3 and min_parties != 2:
            self._fail(
                "roster",
                "with two parties each could compute the other's numbers",
                remedy="Invite a third, or allow it on both sides: --min-parties 2.",
            )

    @property
    def parties(self) -> tuple[str, ...]:
        """Everybody who still takes part, in alphabetical order."""
        return tuple(self._names)

    @property
    def gone(self) -> tuple[str, ...]:
        """Who left on the way."""
        return tuple(self._gone)

    def total(self, step: str, values: Floats) -> Floats:
        """Sum of everybody's `values`, which all must have the same length."""
        self._number += 1
        self.rounds += 1
        self._opened[step] = self._opened.get(step, 0) + len(values)
        others = [other for other in self._names if other != self.name]
        masked = self._keys.mask(to_fixed(values), others, self.epoch, self._number)
        if self.name == self.coordinator:
            total = self._collect(step, masked)
        else:
            self._send(self.coordinator, step, pack(masked))
            total = to_floats(unpack(self._answer(step, LIMB_BYTES * len(values))))
        if (np.abs(total) > len(self._names) * LARGEST).any():
            self._fail(step, "the total does not match: somebody sent numbers that no rows give")
        return total

    def same(self, step: str, values: Floats) -> Floats:
        """The coordinator's `values`, for all to go on from exactly the same numbers.

        Everybody has computed them from the same sums; machines may differ in the last digits,
        and a coordinator that sends anything else is caught.
        """
        if self.name == self.coordinator:
            self._broadcast(step, _SUM + np.ascontiguousarray(values, dtype="<f8").tobytes())
            return values
        answer = self._answer(step, 8 * len(values))
        theirs = np.frombuffer(answer, dtype="<f8").astype(np.float64)
        if not np.allclose(theirs, values, rtol=1e-6, atol=1e-8):
            self._fail(step, "the coordinator's numbers do not follow from the totals")
        return theirs

    def report(self) -> SumReport:
        """What the aggregation cost this party so far, and what it told everybody."""
        return SumReport(
            name=self.name,
            coordinator=self.coordinator,
            parties=self.parties,
            gone=self.gone,
            rounds=self.rounds,
            messages_sent=self.messages_sent,
            messages_received=self.messages_received,
            bytes_sent=self.bytes_sent,
            bytes_received=self.bytes_received,
            opened=dict(self._opened),
            encrypted=self._trust is not None,
        )

    def finish(self) -> None:
        """Close all links in agreement: everybody has everything."""
        self.same("done", np.zeros(1))
        for link in self._links.values():
            link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.finish()
        else:
            for link in self._links.values():
                link.stop("it met an error of its own")

    # The greeting

    def _greet(self, parameters: dict[str, Any], least: int | None) -> list[str]:
        common = {"protocol": _PROTOCOL, "min_parties": least, "coordinator": self.coordinator}
        mine = make_card(self.name, self._keys.public, {**parameters, **common}, self._trust)
        if self.name == self.coordinator:
            cards = [mine]
            deadline = time.monotonic() + self._timeout
            for other, link in self._links.items():
                link.timeout = max(_GRACE, deadline - time.monotonic())
                greeting = link.receive_at_most("greeting", _LARGEST_GREETING)
                theirs = read_json(greeting, dict, "a greeting")
                card = theirs.get("card")
                if not isinstance(card, dict) or card.get("name") != other:
                    self._fail("greeting", f"`{other}` uses a different name")
                cards.append(theirs)
            for link in self._links.values():
                link.send("roster", json.dumps(cards).encode())
        else:
            link = self._links[self.coordinator]
            link.send("greeting", json.dumps(mine).encode())
            roster = link.receive_at_most("roster", 64 * _LARGEST_GREETING)
            cards = read_json(roster, list, "a roster")
        publics = checked_keys(cards, mine, self._trust)
        names = sorted(publics)
        context = hashlib.sha256(canonical([[n, publics[n].hex()] for n in names])).digest()
        self._keys.agree(self.name, publics, context)
        return names

    # The star

    def _collect(self, step: str, mine: Words) -> Floats:
        size = LIMB_BYTES * len(mine)
        total = mine
        lost = [other for other in self._links if other in self._silent]
        for other in self._links:
            if other in lost:
                continue
            try:
                data = self._receive(other, step, size)
                if len(data) != size:
                    raise PeerError("a message of another length")
                total = add(total, unpack(data))
            except PeerError:
                lost.append(other)
        if lost:
            self._without(step, lost)
        self._broadcast(step, _SUM + pack(total))
        return to_floats(total)

    def _broadcast(self, step: str, message: bytes) -> None:
        for other in self._links:
            if other not in self._silent:
                try:
                    self._send(other, step, message)
                except PeerError:
                    self._silent.add(other)  # found missing when the next sum is collected

    def _send(self, other: str, step: str, message: bytes) -> None:
        self._links[other].send(self._tag(step), message)
        self.messages_sent += 1
        self.bytes_sent += len(message)

    def _receive(self, other: str, step: str, limit: int) -> bytearray:
        message = self._links[other].receive_at_most(self._tag(step), limit)
        self.messages_received += 1
        self.bytes_received += len(message)
        return message

    def _answer(self, step: str, size: int) -> bytes:
        link = self._links[self.coordinator]
        limit = max(size, _LARGEST_GREETING) + 1
        answer = bytes(self._receive(self.coordinator, step, limit))
        if answer[:1] == _LEFT:
            names = [str(name) for name in read_json(answer[1:], list, "a roster")]
            if not set(names) < set(self._names) or self.name not in names:
                self._fail(step, "the coordinator sent a roster that does not belong here")
            self._restart(names)
        if answer[:1] == _STOP:
            link.close()
            raise _left_error(printable(answer[1:].decode("utf-8", "replace")))
        if answer[:1] != _SUM or len(answer) != size + 1:
            self._fail(step, "the coordinator sent something that does not belong here")
        return answer[1:]

    def _without(self, step: str, lost: list[str]) -> NoReturn:
        """Tell the others, who all wait for this step's sum, that somebody is missing."""
        for name in lost:
            self._links.pop(name).close()
        names = [name for name in self._names if name not in lost]
        enough = len(names) >= max(self._least, 2)
        message = _LEFT + json.dumps(names).encode() if enough else _STOP + lost[0].encode()
        self._broadcast(step, message)
        if not enough:
            for link in self._links.values():
                link.close()
            raise _left_error(lost[0])
        self._restart(names)

    def _restart(self, names: list[str]) -> NoReturn:
        if len(names) < max(self._least, 2):
            self._fail("restart", "fewer parties remain than were agreed on")
        self._gone += [name for name in self._names if name not in names]
        self._names = names
        self.epoch += 1
        self._number = 0
        raise PartyLeft

    def _tag(self, step: str) -> str:
        return f"{step} {self.epoch}.{self._number}"

    def _fail(
        self, step: str, what: str, remedy: str = "Agree on the settings, then start all again."
    ) -> NoReturn:
        for link in self._links.values():
            link.stop("it met an error of its own")
        raise PeerError(what, where=f"step `{step}`", remedy=remedy)


def until_complete(work: Callable[[], T]) -> T:
    """Do `work`, again from the start whenever a party left that may be missed."""
    while True:
        try:
            return work()
        except PartyLeft:
            continue


def _left_error(name: str) -> PeerError:
    return PeerError(
        f"`{name}` left the computation; nothing was fitted",
        remedy="Start all parties again, with or without it.",
    )


# Numbers under masks


def to_fixed(values: Floats) -> Words:
    """Floats as 128-bit two's complement fixed point: columns (low, high).

    Examples
    --------
    >>> to_floats(add(to_fixed(np.array([0.25, -3.0])), to_fixed(np.array([0.5, 1.0])))).tolist()
    [0.75, -2.0]
    """
    if not np.isfinite(values).all() or (np.abs(values) >= LARGEST).any():
        raise UnfinishedError(
            "a sum grew beyond all bounds: the model diverges",
            remedy="Raise the penalty; perhaps some columns separate the outcomes perfectly.",
        )
    # The magnitude first: 1 - 2^-60 has no double, so small negative numbers would lose digits.
    size = np.abs(values)
    whole = np.floor(size)
    fraction = (size - whole) * 2.0**32  # exact; in two halves, as 2^64 is no 64-bit integer
    upper = np.floor(fraction)
    lower = np.floor((fraction - upper) * 2.0**32)
    fixed = np.empty((len(values), 2), dtype=np.uint64)
    fixed[:, 0] = (upper.astype(np.uint64) << np.uint64(32)) | lower.astype(np.uint64)
    fixed[:, 1] = whole.astype(np.uint64)
    below = values < 0
    fixed[below] = _negative(fixed[below])
    return fixed


def to_floats(fixed: Words) -> Floats:
    """The nearest floats of 128-bit fixed point numbers."""
    below = fixed[:, 1].view(np.int64) < 0
    size = fixed.copy()
    size[below] = _negative(size[below])
    floats = size[:, 1].astype(np.float64) + size[:, 0].astype(np.float64) * 2.0**-64
    return np.where(below, -floats, floats)


def add(a: Words, b: Words) -> Words:
    """Sum modulo 2^128."""
    out = a + b
    out[:, 1] += (out[:, 0] < a[:, 0]).astype(np.uint64)
    return out


def _negative(a: Words) -> Words:
    out = ~a
    out[:, 0] += np.uint64(1)
    out[:, 1] += (out[:, 0] == 0).astype(np.uint64)
    return out


def pack(fixed: Words) -> bytes:
    """Fixed point numbers as bytes for the wire."""
    return np.ascontiguousarray(fixed, dtype="<u8").tobytes()


def unpack(data: bytes | bytearray) -> Words:
    """Bytes from the wire as fixed point numbers."""
    return np.frombuffer(bytes(data), dtype="<u8").astype(np.uint64).reshape(-1, 2)


def mask_stream(key: bytes, epoch: int, number: int, size: int) -> Words:
    """`size` uniform 128-bit numbers of one key, fresh for every epoch and round (ChaCha20)."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

    # The cipher's nonce: block counter 0, then epoch and round, so no stream is used twice.
    nonce = bytes(4) + epoch.to_bytes(4, "little") + number.to_bytes(8, "little")
    stream = Cipher(ChaCha20(key, nonce), mode=None).encryptor().update(bytes(LIMB_BYTES * size))
    return unpack(stream)


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
        self._shared: dict[str, bytes] = {}
        self._name = ""

    def agree(self, name: str, publics: Mapping[str, bytes], context: bytes) -> None:
        """Derive the pairwise keys; `context` binds them to the study and everybody's keys."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

        self._name = name
        for other, public in publics.items():
            if other != name:
                try:
                    secret = self._private.exchange(X25519PublicKey.from_public_bytes(public))
                except ValueError:  # another length, or a point of small order
                    raise PeerError(f"the public key of `{other}` is not valid") from None
                first, second = sorted((name, other))
                label = f"sfumato joint mask\0{first}\0{second}\0".encode()
                self._shared[other] = hashlib.sha256(label + context + secret).digest()

    def mask(self, values: Words, others: list[str], epoch: int, number: int) -> Words:
        """Add the masks shared with the others; they cancel in the sum over everybody."""
        out = values
        for other in others:
            stream = mask_stream(self._shared[other], epoch, number, len(values))
            out = add(out, stream if self._name < other else _negative(stream))
        return out
