"""Ports of the loopback interface that nobody else takes in the meantime."""

from __future__ import annotations

import itertools
import os
import socket
import time
from functools import cache
from pathlib import Path

_FIRST, _LAST = 10_000, 32_000
_PATIENCE = 60.0


def _first_ephemeral() -> int:
    """From here on the system hands ports to whoever connects somewhere."""
    try:
        text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
    except OSError:
        return _LAST
    return int(text.split()[0])


@cache
def _candidates(process: int) -> itertools.cycle[int]:
    """Each process begins somewhere else, copies of one too, so that no two tests meet."""
    ports = range(_FIRST, max(_FIRST + 1_000, min(_LAST, _first_ephemeral())))
    begin = process * 997 % len(ports)
    return itertools.cycle([*ports[begin:], *ports[:begin]])


def free_port() -> int:
    """A port that nobody listens on, below those that the system hands out by itself.

    A port of the system's own choice could be given to somebody else between the moment it is
    found and the moment it is listened on.
    """
    while True:
        port = next(_candidates(os.getpid()))
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


def connected(port: int) -> socket.socket:
    """A connection to somebody who will listen soon."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
