"""A session: two parties that have agreed who they are, what they run, and with which parameters.

The greeting binds protocol version, program, roles and a digest of every parameter; a difference
is an error on both sides that names what differs. Every later operation binds its own public
parameters and circuit in the same way (`Session.begin`), so two programs that drift apart stop at
the next message instead of computing nonsense. At the end both compare what they sent, received
and opened (`Session.finish`).
"""

from __future__ import annotations

import copy
import hashlib
import json
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NoReturn,
    Required,
    Self,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
)

from sfumato.budget import Budget
from sfumato.errors import ParameterError, PeerError
from sfumato.results import Result
from sfumato.secure.channel import Channel, check_timeout, printable
from sfumato.secure.tls import TLS, Address, accept, dial

if TYPE_CHECKING:
    from sfumato.secure.aes import Engine
    from sfumato.secure.oblivious_transfer import OTReceiver, OTSender
    from sfumato.secure.polynomial import PrivateKey, PublicKey


PROTOCOL_VERSION = 3
Role = Literal["alice", "bob"]
_LARGEST_GREETING = 1 << 16
T = TypeVar("T")


@dataclass(frozen=True)
class SessionReport(Result):
    """What a session cost and what each side learned from it."""

    role: str
    program: str
    seconds: float
    bytes_sent: int
    bytes_received: int
    messages_sent: int
    messages_received: int
    rounds: int
    seconds_waiting: float
    and_gates: int
    oblivious_transfers: int
    encrypted: bool
    engine: str
    learned: tuple[tuple[str, str], ...]
    confirmed: str | None = None
    """A digest of transcript and result that both sides found equal; None before the end."""

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values; `learned` becomes a list of {"who", "what"}."""
        learned = [{"who": who, "what": what} for who, what in self.learned]
        return {**super().to_dict(), "learned": learned}


class Session:
    """One party's end of a joint computation.

    Made by `listen`, `connect` or `together`. As a context manager it ends in agreement: leaving
    the block normally waits until the other side has finished too, leaving it by an exception
    tells the other side that this one stopped (not why: reasons may hold private facts).

    Parameters
    ----------
    channel
        A connected channel; the session owns it.
    role
        ``"alice"`` garbles circuits and sends in oblivious transfers, ``"bob"`` evaluates and
        receives. Which party takes which role is theirs to agree.
    program, parameters
        What both sides run; must be equal on both.
    engine
        ``"auto"``, ``"aes-ni"`` or ``"openssl"``; both give the same bytes.
    """

    def __init__(
        self,
        channel: Channel,
        role: str,
        *,
        program: str,
        parameters: Mapping[str, Any] | None = None,
        engine: str = "auto",
    ) -> None:
        self.role: Role = _role(role)
        self.peer: Role = "bob" if role == "alice" else "alice"
        self.is_alice = role == "alice"
        self.program = program
        self.channel = channel
        self.and_gates = 0
        self.oblivious_transfers = 0
        self.paillier: PrivateKey | PublicKey | None = None
        self.on_progress: Callable[[str, float], None] | None = None
        self._engine_name = engine
        self._started = time.monotonic()
        self._learned: dict[tuple[str, str], None] = {}
        self._next_hash_key = 0
        self._ot_sender: OTSender | None = None
        self._ot_receiver: OTReceiver | None = None
        self._mirrored: Session | None = None
        self._operations = 0
        self._opened = hashlib.sha256()
        self._confirmed: str | None = None
        self._greet(parameters or {})

    # Agreement

    def _greet(self, parameters: Mapping[str, Any]) -> None:
        mine = {
            "protocol": "sfumato-secure",
            "version": PROTOCOL_VERSION,
            "program": self.program,
            "role": self.role,
            "parameters": {str(k): _digest(v) for k, v in sorted(parameters.items())},
            "nonce": secrets.token_hex(32),
        }
        theirs = self.exchange_json("greeting", mine, limit=_LARGEST_GREETING)
        different = _differences(mine, theirs)
        if different:
            self.channel.close()
            raise PeerError(
                "the two sides are not running the same thing: " + "; ".join(different),
                where="greeting",
                remedy="Agree on program, version, roles and parameters, then start both again.",
            )
        first, second = (mine, theirs) if self.is_alice else (theirs, mine)
        agreed = hashlib.sha256((_canonical(first) + _canonical(second)).encode()).digest()
        self.channel.rebind(agreed)
        # Public, but fresh in every session: nobody could prepare attacks on the hash for it.
        self._agreed = agreed
        self._hash_key_base = self._first_hash_key(b"hash keys")

    def _first_hash_key(self, purpose: bytes) -> int:
        seed = hashlib.sha256(purpose + self._agreed).digest()
        return int.from_bytes(seed[:16], "little")

    def begin(self, operation: str, /, **public: Any) -> None:
        """Bind an operation and its public parameters to all later messages."""
        self._operations += 1
        text = _canonical([operation, self._operations, {k: str(v) for k, v in public.items()}])
        self.channel.rebind(text.encode())

    def exchange(self, step: str, payload: bytes, *, limit: int = _LARGEST_GREETING) -> bytes:
        """Send public bytes and receive the other side's, in one round."""
        if len(payload) > limit:
            raise ParameterError(f"`{step}` is larger than the agreed {limit} bytes")
        self.channel.send(step, payload)
        return bytes(self.channel.receive_at_most(step, limit))

    def exchange_json(self, step: str, value: Any, *, limit: int = _LARGEST_GREETING) -> Any:
        """Send a public JSON value and receive the other side's, in one round."""
        answer = self.exchange(step, _canonical(value).encode(), limit=limit)
        try:
            return json.loads(answer)
        except (ValueError, RecursionError):
            self.refuse("sent a message that is not JSON", step)

    def sealed_exchange(self, step: str, payload: bytes) -> bytes:
        """Exchange as many bytes as the other side; each commits to its own before it sees those.

        So nobody can send back what it hears.
        """
        shown = self.role.encode().ljust(8) + secrets.token_hex(32).encode() + payload
        seal = self.exchange(f"{step}: sealed", hashlib.sha256(shown).digest(), limit=32)
        self.channel.send(f"{step}: shown", shown)
        answer = bytes(self.channel.receive(f"{step}: shown", len(shown)))
        if hashlib.sha256(answer).digest() != seal or answer[:8] != self.peer.encode().ljust(8):
            self.refuse("did not show what it had sealed", step)
        return answer[72:]

    def refuse(self, what: str, step: str) -> NoReturn:
        """Stop because of what the other party did, and tell it so."""
        self.channel.stop(f"this side {what}")
        raise PeerError(
            f"the other party {what}",
            where=f"step `{step}`",
            remedy="Run the same version on both sides.",
        ) from None

    # What the modules draw from

    @cached_property
    def engine(self) -> Engine:
        """The implementation of AES hashing and garbling in use."""
        from sfumato.secure.aes import choose

        return choose(self._engine_name)

    def hash_keys(self, count: int) -> int:
        """Reserve `count` consecutive keys of the hash; no key is given out twice.

        Both sides reserve in the same order, so they hold the same keys.
        """
        first = self._next_hash_key
        self._next_hash_key += count
        return (self._hash_key_base + first) % (1 << 128)

    # No cached_property: before Python 3.12 its lock is common to all sessions of a process, and
    # the base transfers wait for the other party.

    @property
    def ot_sender(self) -> OTSender:
        """Alice's end of the oblivious transfers; the base transfers happen on first use."""
        if self._ot_sender is None:
            from sfumato.secure.oblivious_transfer import OTSender

            assert self.is_alice
            self._ot_sender = OTSender(self)
        return self._ot_sender

    @property
    def ot_receiver(self) -> OTReceiver:
        """Bob's end of the oblivious transfers."""
        if self._ot_receiver is None:
            from sfumato.secure.oblivious_transfer import OTReceiver

            assert not self.is_alice
            self._ot_receiver = OTReceiver(self)
        return self._ot_receiver

    def mirrored(self) -> Session:
        """This session with the roles exchanged: on the same line, with transfers and keys of its
        own. There is one for the whole session."""
        if self._mirrored is None:
            other = copy.copy(self)
            other.role, other.peer, other.is_alice = self.peer, self.role, not self.is_alice
            other._ot_sender = other._ot_receiver = None
            other._hash_key_base = self._first_hash_key(b"hash keys, roles exchanged")
            other._next_hash_key = 0
            other.and_gates = other.oblivious_transfers = 0
            self._mirrored = other
        return self._mirrored

    def absorb(self, other: Session) -> None:
        """Count what was done in the mirrored session as done in this one."""
        self.oblivious_transfers += other.oblivious_transfers
        other.oblivious_transfers = 0

    @property
    def transfers(self) -> OTSender | OTReceiver:
        """This side's end of the oblivious transfers."""
        return self.ot_sender if self.is_alice else self.ot_receiver

    @contextmanager
    def overlapping(self, transfers: int) -> Iterator[None]:
        """Messages about so many transfers, in parts that do not wait for each other's answers.

        They count as one round for each lot of transfers, and one for making it.
        """
        stock = self.transfers  # has a round of its own
        stock.reserve(transfers)
        before, lots = self.channel.traffic.rounds, stock.lots
        yield
        made = stock.lots - lots
        most = before + made + max(1, made)
        self.channel.traffic.rounds = min(self.channel.traffic.rounds, most)

    # What remains

    def progress(self, doing: str, share: float) -> None:
        """Tell `on_progress`, if there is one, what is being done and which share is finished."""
        if self.on_progress is not None:
            self.on_progress(doing, share)

    def note_learned(self, who: str, what: str) -> None:
        """Record that `who` ("alice", "bob", "both") learned `what`."""
        self._learned[(who, what)] = None

    def report(self) -> SessionReport:
        """Costs so far, and what each side learned."""
        return SessionReport(
            role=self.role,
            program=self.program,
            seconds=time.monotonic() - self._started,
            **vars(self.channel.traffic),
            and_gates=self.and_gates,
            oblivious_transfers=self.oblivious_transfers,
            encrypted=self.channel.encrypted,
            engine=self.engine.name,
            learned=tuple(self._learned),
            confirmed=self._confirmed,
        )

    def note_opened(self, value: bytes) -> None:
        """Record something that both sides have learned, to be compared at the end."""
        self._opened.update(len(value).to_bytes(8, "big") + value)

    def finish(self) -> None:
        """Compare transcript and result with the other side's, then close."""
        sent, received = self.channel.transcript
        opened = self._opened.digest()
        mine = bytes.fromhex(sent + received) + opened
        different = _endings(mine, self.sealed_exchange("end", mine))
        self.channel.close()
        if different:
            raise PeerError(
                f"the two sides do not end alike: {different}",
                where="end",
                remedy="Discard the result; nothing was written. Look for a faulty machine or "
                "line, or a party that does not follow the protocol.",
            )
        alice, bob = (sent, received) if self.is_alice else (received, sent)
        self._confirmed = _digest([alice, bob, opened.hex()])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self.finish()
        else:
            self.channel.stop("it met an error of its own" if not _peer(error) else "")


class Wanted(TypedDict, total=False):
    """What both sides run (`program` and `parameters`), over which TLS, and how long one waits.

    `budget` is the time that all of it may take; it hears why strangers were turned away.
    """

    program: Required[str]
    parameters: Mapping[str, Any] | None
    tls: TLS | None
    timeout: float
    budget: Budget | None


def listen(role: str, address: Address, **wanted: Unpack[Wanted]) -> Session:
    """Wait for the other party at `address` and greet it; strangers are turned away meanwhile.

    Without `tls` only a loopback address is accepted; `timeout` is 60 seconds if not given.
    """
    return _met(accept, role, address, **wanted)


def connect(role: str, address: Address, **wanted: Unpack[Wanted]) -> Session:
    """Connect to the party that listens at `address`, trying until the time is over.

    Without `tls` only a loopback address is accepted; `timeout` is 60 seconds if not given.
    """
    return _met(dial, role, address, **wanted)


def together(
    alice: Callable[[Session], T],
    bob: Callable[[Session], T],
    *,
    program: str = "example",
    parameters: Mapping[str, Any] | None = None,
    timeout: float = 60.0,
    engine: str = "auto",
) -> tuple[T, T]:
    """Run both parties in one process, in two threads joined by a socket pair.

    For examples and tests: of course one process then sees both sides' data.

    Examples
    --------
    >>> together(lambda session: session.peer, lambda session: session.peer)
    ('bob', 'alice')
    """
    ends = socket.socketpair()
    results: dict[str, T] = {}
    failures: dict[str, BaseException] = {}

    def run(role: str, sock: socket.socket, function: Callable[[Session], T]) -> None:
        channel = Channel(sock, timeout=timeout)
        try:
            with Session(
                channel, role, program=program, parameters=parameters, engine=engine
            ) as session:
                results[role] = function(session)
        except BaseException as error:
            failures[role] = error
        finally:
            channel.close()

    threads = [
        threading.Thread(target=run, args=(role, sock, function), daemon=True)
        for role, sock, function in zip(("alice", "bob"), ends, (alice, bob), strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # The side that failed by itself explains more than the side that lost its peer.
    for error in sorted(failures.values(), key=_peer):
        raise error
    return results["alice"], results["bob"]


def _met(
    meet: Callable[[Address, TLS | None, float, Budget | None], socket.socket],
    role: str,
    address: Address,
    *,
    program: str,
    parameters: Mapping[str, Any] | None = None,
    tls: TLS | None = None,
    timeout: float = 60.0,
    budget: Budget | None = None,
) -> Session:
    _role(role)
    check_timeout(timeout)
    channel = Channel(meet(address, tls, timeout, budget), timeout=timeout, budget=budget)
    try:
        return Session(channel, role, program=program, parameters=parameters)
    except BaseException:
        channel.close()
        raise


def _endings(mine: bytes, theirs: bytes) -> str:
    """How two ends of a session differ: digests of what was sent, received and opened."""
    if mine[:64] != theirs[32:64] + theirs[:32]:
        return "what one side sent is not what the other received"
    return "the results differ" if mine[64:] != theirs[64:] else ""


def _peer(error: BaseException) -> bool:
    return isinstance(error, PeerError)


def _role(role: str) -> Role:
    if role in ("alice", "bob"):
        return cast(Role, role)
    raise ParameterError(
        f"`{role}` is not a role", remedy="Use alice on one side, bob on the other."
    )


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _digest(value: Any) -> str:
    try:
        text = _canonical(value)
    except (TypeError, ValueError) as error:
        raise ParameterError("session parameters must be plain JSON values") from error
    return hashlib.sha256(text.encode()).hexdigest()


def _differences(mine: dict[str, Any], theirs: Any) -> list[str]:
    if not isinstance(theirs, dict) or theirs.get("protocol") != mine["protocol"]:
        return ["the other side does not speak this protocol"]
    if theirs.get("version") != mine["version"]:
        return [f"this side speaks version {mine['version']} of the protocol, the other does not"]
    found = []
    if theirs.get("role") not in ("alice", "bob") or theirs["role"] == mine["role"]:
        found.append(f"both sides say they are {mine['role']}")
    if theirs.get("program") != mine["program"]:
        # their parameters would differ too, and say nothing
        return [*found, f"this side runs `{mine['program']}`, the other something else"]
    here, there = mine["parameters"], theirs.get("parameters")
    if not isinstance(there, dict):
        return [*found, "the other side sent no parameters"]
    names = sorted(name for name in {*here, *map(str, there)} if here.get(name) != there.get(name))
    if names:
        found.append(f"parameters differ: {printable(', '.join(names))[:200]}")
    nonce = theirs.get("nonce")
    if not isinstance(nonce, str) or len(nonce) != 64 or nonce == mine["nonce"]:
        found.append("the other side sent no fresh nonce")
    return found
