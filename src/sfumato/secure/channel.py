"""Framed messages between two parties: limits, time-outs, and a count of everything.

A frame is a header of sixteen bytes and a payload::

    kind      4 bytes   b"SFUd" data, b"SFUx" the sender stopped
    length    4 bytes   of the payload, big-endian
    tag       8 bytes   SHA-256 of (binding, step name, message number), cut

Both sides know at every moment which step comes next and how long its message is, so a receiver
names the step and the size it expects. A frame of another length is refused before a byte of it
is stored; a frame whose tag differs comes from a party that is at another step, or runs another
version or other parameters (`rebind`).

One thread does everything on a non-blocking socket: while a large message is being sent, arriving
bytes are taken in, so two parties that send at the same time cannot block each other, and no TLS
connection is ever used from two threads.
"""

from __future__ import annotations

import contextlib
import hashlib
import selectors
import socket
import ssl
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from sfumato.budget import Budget
from sfumato.errors import BudgetError, ParameterError, PeerError

_HEADER = struct.Struct(">4sI8s")
FIRST_BYTES = _HEADER.size
_DATA, _STOPPED = b"SFUd", b"SFUx"
_LARGEST_REASON = 512
LARGEST_MESSAGE = 1 << 28
_LARGEST_INBOX = 1 << 24
"""Bytes taken in while sending, beyond as many as are being sent: what an honest peer may be
ahead. From one who sends more nothing is read until its own turn has come."""
_SLICE = 1 << 20
_SLOWEST_RATE = 1 << 16  # bytes a second below which a peer counts as stalled
_LONGEST_WAIT = 86_400


@dataclass
class Traffic:
    """What has passed through a channel so far (frames, without TLS and TCP overhead)."""

    bytes_sent: int = 0
    bytes_received: int = 0
    messages_sent: int = 0
    messages_received: int = 0
    rounds: int = 0
    """How often this side turned from sending to waiting for an answer."""
    seconds_waiting: float = 0.0


def opens_session(first: bytes) -> bool:
    """Whether a connection begins as a session does: with the header of a greeting.

    Examples
    --------
    >>> opens_session(b"GET / HTTP/1.1\\r\\n")
    False
    """
    if len(first) < FIRST_BYTES:
        return False
    kind, _, tag = _HEADER.unpack(first[:FIRST_BYTES])
    return bool(kind == _DATA and tag == _tag(b"", "greeting", 0))


def check_timeout(seconds: float) -> None:
    """Refuse a time-out that is none, or longer than a day."""
    if not 0 < seconds <= _LONGEST_WAIT:
        raise ParameterError(
            "a time-out is a number of seconds above zero, at most a day",
            remedy="Write e.g. --timeout 60 (timeout=60 in Python).",
        )


def printable(text: str) -> str:
    """What another party wrote, fit to be shown.

    Examples
    --------
    >>> printable("B\\x1b[2J")
    'B[2J'
    """
    return "".join(letter for letter in text if letter.isprintable())[:_LARGEST_REASON]


class Channel:
    """One end of a connection between two parties.

    Parameters
    ----------
    sock
        A connected stream socket, plain or TLS; the channel owns and closes it.
    timeout
        Seconds without a byte moving after which the peer counts as gone. A whole message may take
        this long plus one second for each 64 KiB.
    budget
        The time that all of it may take.

    Examples
    --------
    >>> here, there = (Channel(s) for s in socket.socketpair())
    >>> here.send("greeting", b"good morning")
    >>> bytes(there.receive("greeting", 12)), there.traffic.bytes_received
    (b'good morning', 28)
    >>> here.close(), there.close()
    (None, None)
    """

    def __init__(
        self, sock: socket.socket, *, timeout: float = 60.0, budget: Budget | None = None
    ) -> None:
        check_timeout(timeout)
        sock.setblocking(False)
        self.timeout = timeout
        self.encrypted = isinstance(sock, ssl.SSLSocket)
        self.traffic = Traffic()
        self._sock = sock
        self._binding = b""
        self._budget = budget or Budget()
        self._transcript = hashlib.sha256(), hashlib.sha256()
        self._inbox = bytearray()
        self._ended = False
        self._closed = False
        self._inside = False  # whether a message has been sent in part
        self._sent_last = False
        self._stopping = False

    def rebind(self, binding: bytes) -> None:
        """Bind all later frames to what both sides have agreed on so far."""
        self._binding = hashlib.sha256(self._binding + binding).digest()

    @property
    def transcript(self) -> tuple[str, str]:
        """SHA-256 of all that was sent so far, and of all that was received.

        Within TLS, which authenticates every byte by itself, of the headers alone.
        """
        sent, received = self._transcript
        return sent.hexdigest(), received.hexdigest()

    def _note(self, way: int, header: bytes | bytearray, body: Any) -> None:
        self._transcript[way].update(header)
        if not self.encrypted:
            self._transcript[way].update(body)

    def send(self, step: str, payload: Any) -> None:
        """Send one message; returns when the operating system has taken all of it."""
        view = memoryview(payload)
        body = view.cast("B") if view.nbytes else memoryview(b"")
        if len(body) > LARGEST_MESSAGE:
            raise ParameterError(
                f"`{step}` would send {len(body)} bytes in one message",
                remedy="Work in smaller batches.",
            )
        header = _HEADER.pack(
            _DATA, len(body), _tag(self._binding, step, self.traffic.messages_sent)
        )
        self._note(0, header, body)
        deadline = self._deadline(len(body))
        if len(body) < _SLICE:  # one record instead of two
            self._push(memoryview(b"".join((header, body))), step, deadline)
        else:
            self._push(memoryview(header), step, deadline)
            self._push(body, step, deadline)
        self.traffic.bytes_sent += _HEADER.size + len(body)
        self.traffic.messages_sent += 1
        self._sent_last = True

    def receive(self, step: str, size: int) -> bytearray:
        """Receive one message of exactly `size` bytes."""
        return self._receive(step, lambda length: length == size, f"{size} bytes")

    def receive_at_most(self, step: str, limit: int) -> bytearray:
        """Receive one message of at most `limit` bytes."""
        return self._receive(step, lambda length: length <= limit, f"at most {limit} bytes")

    def stop(self, reason: str) -> None:
        """Tell the peer that this side stops, if that is still possible, and close."""
        if not (self._closed or self._ended or self._inside):
            self._stopping = True
            text = reason.encode()[:_LARGEST_REASON]
            frame = _HEADER.pack(_STOPPED, len(text), bytes(8)) + text
            with contextlib.suppress(PeerError):  # it may be gone already, with nobody to tell
                self._push(memoryview(frame), "stop", time.monotonic() + min(1.0, self.timeout))
        self.close()

    def close(self) -> None:
        """Close the connection."""
        if not self._closed:
            self._closed = True
            self._sock.close()

    # How bytes move

    def _deadline(self, size: int) -> float:
        return time.monotonic() + self.timeout + size / _SLOWEST_RATE

    def _receive(self, step: str, fits: Callable[[int], bool], wanted: str) -> bytearray:
        if self._sent_last:
            self._sent_last = False
            self.traffic.rounds += 1
        started = time.monotonic()
        header = self._take(_HEADER.size, step, self._deadline(0))
        kind, length, tag = _HEADER.unpack(header)
        if kind == _STOPPED:
            self._peer_stopped(length, step)
        if kind != _DATA:
            self._refuse(step, "sent something that is not a message of this protocol")
        if tag != _tag(self._binding, step, self.traffic.messages_received):
            self._refuse(step, "is at another step, or runs another version or other parameters")
        if not fits(length) or length > LARGEST_MESSAGE:
            self._refuse(step, f"announced {length} bytes where {wanted} were expected")
        body = self._take(length, step, self._deadline(length))
        self._note(1, header, body)
        self.traffic.bytes_received += _HEADER.size + length
        self.traffic.messages_received += 1
        self.traffic.seconds_waiting += time.monotonic() - started
        return body

    def _peer_stopped(self, length: int, step: str) -> NoReturn:
        reason = ""
        if length <= _LARGEST_REASON:
            raw = self._take(length, step, time.monotonic() + self.timeout)
            reason = f": {printable(raw.decode('utf-8', 'replace'))}" if raw else ""
        self.close()
        raise PeerError(
            f"the other party stopped{reason}",
            where=f"step `{step}`",
            remedy="Look at its own message, then start all sides again.",
        )

    def _refuse(self, step: str, what: str) -> NoReturn:
        self.stop("it received a message that does not belong here")
        raise PeerError(
            f"the other party {what}",
            where=f"step `{step}`",
            remedy="Run the same version with the same parameters on both sides.",
        )

    def _lost(self, step: str, how: str) -> NoReturn:
        self._ended = True
        reason = self._reason_in_inbox()
        if self.encrypted and not self.traffic.messages_received and "certificate" not in how:
            # In TLS 1.3 a client learns only now that its certificate was refused.
            how = f"{how}, perhaps because it refused this side's certificate"
        self.close()
        raise PeerError(
            f"the other party stopped: {reason}" if reason else f"the other party {how}",
            where=f"step `{step}`",
            remedy="Check that it is still running, then start all sides again.",
        )

    def _reason_in_inbox(self) -> str:
        if len(self._inbox) < _HEADER.size:
            return ""
        kind, length, _ = _HEADER.unpack(self._inbox[: _HEADER.size])
        if kind != _STOPPED or length > _LARGEST_REASON:
            return ""
        return printable(self._inbox[_HEADER.size :][:length].decode("utf-8", "replace"))

    def _push(self, view: memoryview, step: str, deadline: float) -> None:
        self._inside = True
        room = _LARGEST_INBOX + len(view)
        moved = time.monotonic()
        while view:
            self._check_open(step)
            try:
                view = view[self._sock.send(view[:_SLICE]) :]
                moved = time.monotonic()
                continue
            except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                pass
            except (OSError, ValueError) as error:
                self._drain(room)
                self._lost(step, _how(error))
            # with a full inbox arriving bytes wake nobody
            reading = len(self._inbox) < room
            self._wait(step, min(deadline, moved + self.timeout), reading=reading, writing=True)
            if reading and not self._drain(room):
                self._lost(step, "closed the connection")
        self._inside = False

    def _take(self, size: int, step: str, deadline: float) -> bytearray:
        """The next `size` bytes: first what has been taken in while sending, then the socket."""
        have = min(size, len(self._inbox))
        if have == size:
            result = self._inbox[:size]
            del self._inbox[:size]
            return result
        result = bytearray(size)
        result[:have] = self._inbox[:have]
        del self._inbox[:have]
        view = memoryview(result)[have:]
        moved = time.monotonic()
        while view:
            self._check_open(step)
            try:
                count = self._sock.recv_into(view)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                self._wait(step, min(deadline, moved + self.timeout), reading=True)
                continue
            except (OSError, ValueError) as error:
                self._lost(step, _how(error))
            if count == 0:
                self._lost(step, "closed the connection")
            view = view[count:]
            moved = time.monotonic()
        return result

    def _drain(self, room: int) -> bool:
        """Take in what has arrived, up to `room` bytes; False at the end of the stream."""
        while len(self._inbox) < room:
            try:
                data = self._sock.recv(min(_SLICE, room - len(self._inbox)))
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return True
            except (OSError, ValueError):
                return False
            if not data:
                return False
            self._inbox += data
        return True

    def _wait(self, step: str, deadline: float, *, reading: bool, writing: bool = False) -> None:
        remaining = min(deadline - time.monotonic(), self._budget.remaining)
        events = selectors.EVENT_READ * reading | selectors.EVENT_WRITE * writing
        with selectors.DefaultSelector() as selector:
            selector.register(self._sock, events)
            ready = remaining > 0 and selector.select(remaining)
        if not ready:
            self._check_open(step)
            self.stop("it waited too long for the other party")
            raise PeerError(
                f"no progress within the time-out of {self.timeout:g} s",
                where=f"step `{step}`",
                remedy="Check the other party and the network, or raise the time-out.",
            )

    def _check_open(self, step: str) -> None:
        """Refuse to go on with a line that is closed, or once the time is over."""
        if self._budget.spent() and not self._closed and not self._stopping:
            why = "the time was over" if self._budget.stopped_by == "time" else "it was stopped"
            self.stop(why.replace("the time", "its time"))
            raise BudgetError(
                f"{why} before all sides had finished",
                where=f"step `{step}`",
                remedy="Start all sides again, with more time if it was over.",
            )
        if self._closed:
            raise PeerError(
                "the connection is closed", where=f"step `{step}`", remedy="Start all sides again."
            )


def _tag(binding: bytes, step: str, number: int) -> bytes:
    return hashlib.sha256(binding + f"{step}\0{number}".encode()).digest()[:8]


def _how(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or "TLS failure").replace("_", " ").lower()
        if "alert" in reason or "certificate" in reason:
            return f"refused this side's certificate ({reason})"
        return f"broke the TLS connection ({reason})"
    if isinstance(error, ConnectionError):
        return "closed the connection"
    return "cannot be reached any more"
