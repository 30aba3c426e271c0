"""A party that lies: what is caught, and that nothing it does ends in more than a clean error."""

from __future__ import annotations

import contextlib
import gc
import json
import random
import resource
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from ports import at_once, connected, free_port
from sfumato import secure
from sfumato.errors import PeerError, SfumatoError
from sfumato.secure import HeldCells, HeldRows, Ring, Schema, Session
from sfumato.secure.channel import Channel

RING = Ring.power_of_two(64)
SCHEMA = Schema.of({"a": ["0", "1", "2"], "b": ["0", "1"], "c": ["0", "1"], "d": ["0", "1"]})
RNG = np.random.default_rng(1)
ROWS = np.stack([RNG.integers(0, size, 40) for size in SCHEMA.sizes], axis=1)
GAPS = RNG.random(ROWS.shape) < 0.5


def log(session: Session) -> Any:
    return secure.log_of_sums([600, 7] if session.is_alice else [400, 8], peer=session).found


def dual(session: Session) -> Any:
    mine = [600, 7] if session.is_alice else [400, 8]
    return secure.log_of_sums(mine, peer=session, dual=True).found


def told(session: Session) -> Schema:
    """The schema as `--share-categories` agrees on it."""
    categories = dict(zip(SCHEMA.columns, SCHEMA.values, strict=True))
    return secure.pool_categories(session, categories, same_columns=True)


def rows(session: Session) -> HeldRows:
    return HeldRows(told(session), ROWS[::2] if session.is_alice else ROWS[1::2])


def cells(session: Session) -> HeldCells:
    mine = GAPS if session.is_alice else ~GAPS
    return HeldCells(told(session), np.where(mine, ROWS, -1))


def tree(held: Callable[[Session], Any]) -> Callable[[Session], Any]:
    return lambda session: secure.grow_tree(session, held(session), target="d", max_depth=2)


def net(held: Callable[[Session], Any]) -> Callable[[Session], Any]:
    return lambda session: secure.search_net(session, held(session), max_parents=1)


PROTOCOLS: dict[str, Callable[[Session], Any]] = {
    "log": log,
    "log, dual": dual,
    "id3 of rows": tree(rows),
    "id3 of cells": tree(cells),
    "bayes of rows": net(rows),
    "bayes of cells": net(cells),
}

NONSENSE: list[Any] = [
    None, True, -1, 10**30, 1e308, "", "\ud800", "x" * 5000, [], {}, [[]], [["a", ["0", "0"]]],
    [["a", [str(i) for i in range(20_000)]]], [["a\x1b[2J", ["0"]]] * 2, {"facts": {}},
    {"facts": {"the target": "d"}, "told": 36}, {"facts": None, "told": "many"}, float("nan"),
]  # fmt: skip


def lie(rng: random.Random, payload: bytes) -> bytes:
    """Something else in place of a message, mostly of the same length."""
    if payload[:1] in (b"{", b"["):
        return _lie_in_json(rng, payload)
    kind = rng.randrange(5)
    if kind == 0 and payload:  # one flipped bit
        at = rng.randrange(len(payload))
        return payload[:at] + bytes([payload[at] ^ (1 << rng.randrange(8))]) + payload[at + 1 :]
    if kind == 1:
        return rng.randbytes(len(payload))
    if kind == 2:
        return bytes(len(payload))
    if kind == 3:
        return b"\xff" * len(payload)
    return payload[: rng.randrange(len(payload) + 1)] + rng.randbytes(rng.randrange(40))


def _lie_in_json(rng: random.Random, payload: bytes) -> bytes:
    value = json.loads(payload)
    if rng.random() < 0.5:
        value = rng.choice(NONSENSE)
    elif isinstance(value, dict):
        name = rng.choice(list(value))
        inner = value[name]
        if isinstance(inner, dict) and inner:
            inner[rng.choice(list(inner))] = rng.choice(NONSENSE)
        else:
            value[name] = rng.choice(NONSENSE)
    else:
        value[rng.randrange(len(value))] = rng.choice(NONSENSE)
    return json.dumps(value).encode()


class Liar(Channel):
    """Sends lies in place of some messages, or falls silent, floods, hangs up."""

    rng: random.Random
    lies: set[int]

    def send(self, step: str, payload: Any) -> None:
        number = self.traffic.messages_sent
        if number not in self.lies:
            return super().send(step, payload)
        body = bytes(memoryview(payload).cast("B")) if memoryview(payload).nbytes else b""
        fate = self.rng.randrange(12)
        if fate == 0:
            self.close()
            raise PeerError("gone")
        if fate == 1:
            with contextlib.suppress(OSError):
                self._sock.send(self.rng.randbytes(self.rng.randrange(1, 1 << 16)))
            self.close()
            raise PeerError("gone, after some noise")
        return super().send(step, lie(self.rng, body))


def hostile_session(protocol: str, seed: int) -> BaseException | None:
    """How the honest side of a session ends, of which the other side lies."""
    rng = random.Random(f"{protocol} {seed}")
    honest_role = rng.choice(["alice", "bob"])
    program = PROTOCOLS[protocol]
    ends = socket.socketpair()

    def honest() -> None:
        channel = Channel(ends[0], timeout=60)
        try:
            with Session(channel, honest_role, program=protocol) as session:
                program(session)
        finally:
            channel.close()

    def liar() -> None:
        channel = Liar(ends[1], timeout=60)
        channel.rng = rng
        channel.lies = {rng.choice([0, 1, 2, *range(40)]) for _ in range(rng.choice([1, 1, 3]))}
        role = "bob" if honest_role == "alice" else "alice"
        with contextlib.suppress(Exception), Session(channel, role, program=protocol) as session:
            program(session)
        channel.close()

    ended = at_once(["honest", "liar"], lambda who: honest() if who == "honest" else liar())
    assert "honest" in ended, f"{protocol}, session {seed}: it hangs"
    return ended["honest"]


def play(protocol: str, sessions: range) -> None:
    """No hang, no traceback, and memory that does not grow."""
    for seed in sessions[: min(20, len(sessions) // 3)]:
        hostile_session(protocol, seed)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    caught = 0
    for seed in sessions:
        if seed % 50 == 0:
            gc.collect()  # which tests leave for longer than programs do
        error = hostile_session(protocol, seed)
        assert error is None or isinstance(error, SfumatoError), (seed, repr(error))
        caught += error is not None
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 64 * 1024, f"{grown} KiB more"
    assert caught > len(sessions) // 4


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_hostile_sessions_end_in_clean_errors(protocol):
    play(protocol, range(12))


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_thousand_hostile_sessions_end_in_clean_errors(protocol):
    play(protocol, range(1000))


# What is caught


@pytest.fixture
def tampered(monkeypatch) -> Callable[[str, str, Callable[[bytearray], None]], None]:
    """Let one side send other bytes at some step."""

    def install(who: str, step: str, change: Callable[[bytearray], None]) -> None:
        original = Channel.send
        threads: dict[int, str] = {}
        greet = Session._greet

        def greeting(self, parameters):
            threads[threading.get_ident()] = self.role
            greet(self, parameters)

        def send(self, at, payload):
            if at == step and threads.get(threading.get_ident()) == who:
                body = bytearray(memoryview(payload).cast("B"))
                change(body)
                payload = bytes(body)
            return original(self, at, payload)

        monkeypatch.setattr(Session, "_greet", greeting)
        monkeypatch.setattr(Channel, "send", send)

    return install


def both_ends(party: Callable[[Session], Any]) -> dict[str, Any]:
    """What each side found, or its error."""
    found: dict[str, Any] = {}

    def noting(session: Session) -> None:
        found[session.role] = party(session)

    with pytest.raises(PeerError) as caught:
        secure.together(noting, noting)
    return {"error": str(caught.value), **found}


def flip(body: bytearray) -> None:
    body[-1] ^= 0x80


def flip_label(body: bytearray) -> None:
    body[0] ^= 0x40  # the first bit says whether the node ends, the second is its label


@pytest.mark.parametrize("liar", ["alice", "bob"])
def test_two_different_trees_do_not_both_end_well(tampered, liar):
    """One flipped bit of an opened output used to leave each side with a tree of its own."""
    tampered(liar, "circuit: outputs", flip_label)
    found = both_ends(lambda s: secure.grow_tree(s, rows(s), target="d", max_depth=0))
    assert found["alice"].root != found["bob"].root
    assert "the results differ" in found["error"]


def test_what_is_shown_at_the_end_is_what_was_sealed(tampered):
    tampered("bob", "end: shown", flip)
    with pytest.raises(PeerError, match="did not show what it had sealed"):
        secure.together(lambda s: 1, lambda s: 1)


def test_two_different_numbers_do_not_both_end_well(tampered):
    tampered("bob", "reveal", flip)
    found = both_ends(lambda s: log(s).logarithms)
    assert found["alice"] != found["bob"]
    assert "the results differ" in found["error"]


class Tamperer:
    """A line without TLS on which one bit is changed on its way."""

    def __init__(self, target: int, at: int) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._at = at
        self._target = target
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with self._server.accept()[0] as inner, connected(self._target) as outer:
            back = threading.Thread(target=self._copy, args=(outer, inner, -1), daemon=True)
            back.start()
            self._copy(inner, outer, self._at)
            back.join(60)

    def _copy(self, source: socket.socket, target: socket.socket, at: int) -> None:
        seen = 0
        with contextlib.suppress(OSError):
            while data := bytearray(source.recv(1 << 16)):
                if seen <= at < seen + len(data):
                    data[at - seen] ^= 1
                seen += len(data)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._thread.join(60)
        self._server.close()


def test_a_bit_changed_on_a_plain_line_is_noticed_by_both_sides():
    port = free_port()
    line = Tamperer(port, at=5_000)  # in Bob's matrix of transfers or behind it

    def party(role):
        meet, where = (secure.listen, port) if role == "alice" else (secure.connect, line.port)
        with meet(role, ("127.0.0.1", where), program="log", timeout=60) as session:
            x = secure.private(RING, [5])
            secure.multiply(session, x, x)
            secure.share(
                session, [1] * 2000 if role == "bob" else None, ring=RING, owner="bob", n=2000
            )

    ends = at_once(["alice", "bob"], party)
    line.close()
    assert [type(end) for end in ends.values()] == [PeerError] * 2


def test_an_end_that_only_repeats_what_it_heard_is_refused(monkeypatch):
    """Whoever waits for the other's digest and sends it back has proven nothing."""

    def honest(session):
        return session.exchange("x", b"")

    def echo(session):
        session.exchange("x", b"")
        sealed = session.channel.receive_at_most("end: sealed", 32)
        session.channel.send("end: sealed", sealed)
        shown = session.channel.receive_at_most("end: shown", 1 << 16)
        session.channel.send("end: shown", shown)
        raise PeerError("enough")

    errors = []

    def noting(session):
        try:
            with session:
                honest(session)
        except PeerError as error:
            errors.append(str(error))
            raise

    with pytest.raises(PeerError):
        secure.together(noting, echo)
    assert "did not show what it had sealed" in errors[0]


def test_both_sides_confirm_the_same_end():
    reports = {}

    def party(session):
        log(session)
        reports[session.role] = session

    secure.together(party, party)
    ends = [session.report().confirmed for session in reports.values()]
    assert ends[0] == ends[1]
    assert len(ends[0]) == 64


# Transfers: the check of the extension


def choose_otherwise(columns: int) -> Callable[[bytearray], None]:
    def change(body: bytearray) -> None:
        rows = np.frombuffer(body, np.uint64).reshape(128, -1)
        rows[:columns, 0] ^= np.uint64(1)

    return change


def extended(session: Session) -> Any:
    if session.is_alice:
        return session.ot_sender.extend(100)
    return session.ot_receiver.extend(np.zeros(100, np.uint8))


@pytest.mark.parametrize("engine", ["aes-ni", "openssl"])
def test_a_receiver_who_chooses_differently_in_some_columns_is_caught(tampered, engine):
    """It would learn bits of Alice's secret, one for each column, from what she sends next."""
    tampered("bob", "transfers: matrix", choose_otherwise(80))
    with pytest.raises(PeerError, match="did not choose alike in all columns"):
        secure.together(extended, extended, engine=engine)


def test_one_column_is_caught_by_every_second_secret(tampered):
    """A guessed bit of Δ passes; more than one bit a session cannot be tried."""
    tampered("bob", "transfers: matrix", choose_otherwise(1))
    ends = set()
    for _ in range(40):
        try:
            secure.together(extended, extended)
            ends.add(True)
        except PeerError:
            ends.add(False)
        if len(ends) == 2:
            return
    raise AssertionError(f"every session ended alike: {ends}")


def test_a_lie_in_the_answer_is_caught(tampered):
    tampered("bob", "transfers: check", flip)
    with pytest.raises(PeerError, match="did not choose alike in all columns"):
        secure.together(extended, extended)


def test_a_parent_that_is_no_candidate_is_refused(monkeypatch):
    """It used to be an IndexError."""
    monkeypatch.setattr(
        "sfumato.secure.bayes.argmax", lambda session, shares, group, what: np.full(3, group - 1)
    )
    with pytest.raises(PeerError, match="not a candidate"):
        secure.together(net(rows), net(rows))


@contextlib.contextmanager
def telling(value: Any) -> Iterator[Callable[[Session], None]]:
    def liar(session: Session) -> None:
        session.exchange_json("columns", ["a"], limit=1 << 20)
        session.exchange_json("categories", value, limit=1 << 20)
        session.exchange("wait", b"")

    yield liar


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([["a", [str(i) for i in range(1000)]]], "1,000 categories"),
        ([["a", ["0"]], ["a", ["1"]]], "twice"),
        ([["a", ["\ud800"]]], "did not tell its categories"),
    ],
)
def test_categories_that_no_honest_side_tells(value, words):
    def honest(session: Session) -> None:
        secure.pool_categories(session, {"a": ["0"]}, same_columns=True, max_values=64)

    errors = []

    def noting(session: Session) -> None:
        try:
            honest(session)
        except PeerError as error:
            errors.append(str(error))
            raise

    with telling(value) as liar, pytest.raises(PeerError):
        secure.together(noting, liar)
    assert words in errors[0]
