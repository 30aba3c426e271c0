"""Helpers for the tests of two-party computation: shares, recorders, and processes to kill."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from cli_tools import forks
from ports import connected
from sfumato.kernels.compiling import Loop
from sfumato.secure import HeldCells, HeldRows, Ring, Session, Shares, together
from sfumato.secure.channel import Channel

P60 = (1 << 60) - 93
BY_CHANCE = 1e-12
"""Below this a test of randomness fails: the numbers are the operating system's, so a thousand such
tests fail by chance once in a billion runs."""
_ODD = (101, P60, (1 << 64) - 59, (1 << 79) + 21, (1 << 128) - 159, (1 << 213) + 7)
RINGS = [Ring.power_of_two(bits) for bits in (8, 17, 64, 65, 127, 128, 139, 256)]
RINGS += [Ring.odd(m) for m in _ODD]


def split(ring: Ring, numbers: Any) -> dict[str, Shares]:
    """Uniformly random shares of numbers, by role."""
    values = ring.encode(numbers)
    mask = ring.random(len(values))
    return {"alice": Shares(ring, mask), "bob": Shares(ring, ring.subtract(values, mask))}


def split_rows(schema, codes, seed=0):
    alices = np.random.default_rng(seed).random(len(codes)) < 0.5
    return {"alice": HeldRows(schema, codes[alices]), "bob": HeldRows(schema, codes[~alices])}


def split_cells(schema, codes, seed=0):
    alices = np.random.default_rng(seed).random(codes.shape) < 0.5
    return owned(schema, codes, alices)


def split_columns(schema, codes, seed=0):
    alices = np.random.default_rng(seed).random(codes.shape[1]) < 0.5
    return owned(schema, codes, np.broadcast_to(alices, codes.shape))


def owned(schema, codes, alices):
    return {
        "alice": HeldCells(schema, np.where(alices, codes, -1)),
        "bob": HeldCells(schema, np.where(alices, -1, codes)),
    }


def pooled_bits(held):
    """The public bound that the two sides come to, as the protocol finds it."""
    rows = [len(side.everything()) for side in held.values()]
    return max(rows).bit_length() + isinstance(held["alice"], HeldRows)


def agree(party: Callable[[Session], Any], **settings: Any) -> Any:
    """Run the same party on both sides and return the result on which they agree."""
    alice, bob = together(party, party, **settings)
    np.testing.assert_array_equal(alice, bob)
    return alice


@contextlib.contextmanager
def running(way: str) -> Iterator[None]:
    """Let all loops run compiled, or what numpy and OpenSSL do instead."""
    call = Loop.__call__
    ways = {"compiled": lambda loop: loop.dispatcher, "instead": lambda loop: loop.instead}
    Loop.__call__ = lambda loop, *arguments: ways[way](loop)(*arguments)  # type: ignore[method-assign]
    try:
        yield
    finally:
        Loop.__call__ = call  # type: ignore[method-assign]


def residues(ring: Ring, numbers: Any) -> list[int]:
    """Numbers as residues 0 … m-1."""
    return [int(v) % ring.modulus for v in np.asarray(numbers, dtype=object).reshape(-1)]


class Recorder:
    """A proxy on loopback that forwards and keeps every byte, and can cut the line."""

    def __init__(self, target: int, *, cut_after: int | None = None) -> None:
        self.sent: dict[str, bytearray] = {"to": bytearray(), "from": bytearray()}
        self._left = cut_after
        self._target = target
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        inner, _ = self._server.accept()
        outer = connected(self._target)
        ways = [("to", inner, outer), ("from", outer, inner)]
        threads = [threading.Thread(target=self._copy, args=way, daemon=True) for way in ways]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        inner.close()
        outer.close()

    def _copy(self, way: str, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if self._left is not None:
                    data = data[: self._left]
                    self._left -= len(data)
                self.sent[way] += data
                target.sendall(data)
                if self._left == 0:
                    source.shutdown(socket.SHUT_RDWR)
                    break
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Wait for both directions to end."""
        self._thread.join(20)
        self._server.close()

    def frames(self, way: str) -> list[bytes]:
        """The payloads of the frames that went one way."""
        raw, payloads = bytes(self.sent[way]), []
        while raw:
            length = int.from_bytes(raw[4:8], "big")
            payloads.append(raw[16 : 16 + length])
            raw = raw[16 + length :]
        return payloads


def _stage(line: Connection) -> None:
    """Play again and again, each time in a process of its own."""
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            play = line.recv()
            if not os.fork():
                with contextlib.suppress(BaseException):  # who was left alone
                    _play(*play)
                os._exit(0)
            os.wait()
            line.send("ended")


def _play(role: str, program: str, port: int, fatal: int) -> None:
    from sfumato import secure

    if fatal >= 0:
        _die_before(fatal)
    with secure.connect(role, ("127.0.0.1", port), program=program, timeout=60) as session:
        PROGRAMS[program](session)


def _die_before(message: int) -> None:
    """Let this process be killed before it sends or takes this message."""
    numbers = itertools.count()

    def dying(method: Any) -> Any:
        def call(*arguments: Any) -> Any:
            if next(numbers) == message:
                os.kill(os.getpid(), signal.SIGKILL)
            return method(*arguments)

        return call

    Channel.send = dying(Channel.send)  # type: ignore[method-assign]
    Channel._receive = dying(Channel._receive)  # type: ignore[method-assign]


class Understudy:
    """A process that plays the other party, over and over, and dies at a given message."""

    def __init__(self) -> None:
        context = forks()
        self._line, there = context.Pipe()
        self._process = context.Process(target=_stage, args=(there,))
        self._process.start()
        there.close()

    def play(self, role: str, program: str, port: int, *, fatal: int = -1) -> None:
        """Connect as `role`; be killed before message number `fatal`, if not negative."""
        self._line.send((role, program, port, fatal))

    def wait(self) -> None:
        """Wait for the end of the last play."""
        assert self._line.recv() == "ended"

    def close(self) -> None:
        """Send the process home."""
        self._line.close()
        self._process.join(20)


@contextlib.contextmanager
def understudy() -> Iterator[Understudy]:
    """An understudy for the length of a test module."""
    actor = Understudy()
    try:
        yield actor
    finally:
        actor.close()


def logarithms_over_tls(role: str, mode: str, host: str, port: str, keys: str) -> None:
    """A party that takes logarithms with the other, and writes them beside its keys."""
    from sfumato import secure

    other = "bob" if role == "alice" else "alice"
    mine = (Path(keys, f"{role}.crt"), Path(keys, f"{role}.key"), Path(keys, f"{other}.crt"))
    settings: dict[str, Any] = {"program": "log", "tls": secure.TLS(*mine), "timeout": 60}
    ring = Ring.power_of_two(64)
    with getattr(secure, mode)(role, (host, int(port)), **settings) as session:
        x = secure.private(ring, [900 if role == "alice" else 100, 1, 7])
        result = secure.reveal_real(session, secure.log(session, x, bits=20), what="ln x")
    told = f"{' '.join(f'{v:.4f}' for v in result)} {session.report().encrypted}"
    Path(keys, f"{role}.txt").write_text(told, encoding="utf-8")


def everything(session: Session, numbers: Sequence[int] = (3, 1000, 77)) -> list[float]:
    """A program that goes through every kind of protocol step."""
    from sfumato import secure

    ring = Ring.power_of_two(64)
    x = secure.share(
        session, list(numbers) if session.is_alice else None, ring=ring, owner="alice", n=3
    )
    logarithms = secure.log(session, x, bits=12)
    products = secure.multiply(session, x, x)
    best = secure.argmin(session, x, what="the smallest")
    count = secure.scalar_product(session, np.ones(200, bool), ring=ring)
    secure.scale(session, x, 0.3)
    opened = secure.reveal_real(session, logarithms, what="the logarithms")
    return [*opened, int(best[0]), *secure.reveal(session, products + count, what="sums")]


def paper(session: Session) -> list[float]:
    """The paper's setting with Paillier's encryption."""
    from sfumato import secure

    x = secure.private(Ring.odd(P60), [500 if session.is_alice else 23])
    result = secure.log(session, x, bits=10, backend="paillier")
    return list(secure.reveal_real(session, result, what="the logarithm"))


PROGRAMS: dict[str, Callable[[Session], Any]] = {"everything": everything, "paper": paper}
