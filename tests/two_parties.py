"""Helpers for the tests of two-party computation: shares, recorders, and processes to kill."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ports import connected
from sfumato.kernels.compiling import Loop
from sfumato.secure import Ring, Session, Shares, together

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


_STAGE = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from sfumato import secure
from sfumato.secure.channel import Channel
from two_parties import PROGRAMS
secure.warm_up()
print("ready", flush=True)
for line in sys.stdin:
    role, program, port, fatal = line.split()
    if os.fork():
        os.wait()
        print("ended", flush=True)
        continue
    left = int(fatal)
    if left >= 0:
        def dying(method):
            def call(self, *arguments):
                global left
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left -= 1
                return method(self, *arguments)
            return call
        Channel.send = dying(Channel.send)
        Channel._receive = dying(Channel._receive)
    with secure.connect(role, ("127.0.0.1", int(port)), program=program, timeout=60) as session:
        PROGRAMS[program](session)
    os._exit(0)
"""


class Understudy:
    """A process that plays the other party, over and over, and dies at a given message."""

    def __init__(self) -> None:
        tests = Path(__file__).parent
        environment = {**os.environ, "PYTHONPATH": str(tests.parent / "src")}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _STAGE, str(tests)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def play(self, role: str, program: str, port: int, *, fatal: int = -1) -> None:
        """Connect as `role`; be killed before message number `fatal`, if not negative."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{role} {program} {port} {fatal}\n")
        self._process.stdin.flush()

    def wait(self) -> None:
        """Wait for the end of the last play."""
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ended\n"

    def close(self) -> None:
        """Send the process home."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()


@contextlib.contextmanager
def understudy() -> Iterator[Understudy]:
    """An understudy for the length of a test module."""
    actor = Understudy()
    try:
        yield actor
    finally:
        actor.close()


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
