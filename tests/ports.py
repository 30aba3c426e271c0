"""Parties that meet: ports that nobody else takes in the meantime, sockets, and threads."""

from __future__ import annotations

import itertools
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

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


def at_once(
    parties: Iterable[str], party: Callable[[str], Any], seconds: float = 120
) -> dict[str, Any]:
    """What each party ended with, in a thread of its own: its answer, or its error."""
    done: dict[str, Any] = {}

    def run(name: str) -> None:
        try:
            done[name] = party(name)
        except BaseException as error:
            done[name] = error

    threads = [threading.Thread(target=run, args=(name,), daemon=True) for name in parties]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
    return done


def raised(done: dict[str, Any]) -> dict[str, Any]:
    """The same answers; the first error there is among them is raised."""
    for value in done.values():
        if isinstance(value, BaseException):
            raise value
    return done


def star(names: Iterable[str]) -> dict[str, dict[str, socket.socket]]:
    """Each party's ends of sockets by who is at the other one: all are tied to the first."""
    hub, *others = names
    pairs = {name: socket.socketpair() for name in others}
    ends = {name: {hub: pair[1]} for name, pair in pairs.items()}
    return {hub: {name: pair[0] for name, pair in pairs.items()}, **ends}
