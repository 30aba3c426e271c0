"""Parties of an exact fit as processes of their own, over TLS, with something wrong with some.

A process of `tests/joint/test_joint_parties.py` loads everything once and then forks the parties of
one scenario after the other, which is much faster than starting each of them. A scenario:

    {"names": "ABC", "faults": {"C": ["kill", 3]}, "timeout": 10}

Faults: ``["kill", n]`` and ``["stall", n]`` at the n-th message sent or received; ``["version"]``,
``["agreement"]``, ``["certificate"]``: another version of the protocol, another agreement, a
certificate that nobody was handed; ``["nonsense", n]``: random bytes as n-th message.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from ports import free_port
from sfumato.errors import SfumatoError
from sfumato.joint import Exchange, Shamir, fit_logistic, parties
from sfumato.joint.exact import exact_classifier
from sfumato.joint.parties import Certificates, gather, join
from sfumato.secure import make_keys
from sfumato.secure.channel import Channel

ROWS, COLUMNS, PRECISION = 120, 2, 1e-3
PATIENCE = 60.0


def rows(name: str) -> tuple[Any, Any]:
    """A party's own rows: the same in every scenario."""
    rng = np.random.default_rng(ord(name))
    x = rng.random((ROWS, COLUMNS))
    return x, rng.random(ROWS) < x.mean(axis=1)


def pooled(names: str) -> list[float]:
    """Coefficients of the pooled rows."""
    x, positive = (np.concatenate(parts) for parts in zip(*map(rows, names), strict=True))
    return [float(w) for w in fit_logistic(x, positive).coefficients]


class Fault:
    """Counts this party's messages and does what was asked at one of them."""

    def __init__(self, kind: str, number: int) -> None:
        self.kind, self.left = kind, number
        send, receive = Channel.send, Channel.receive_at_most

        def sending(link: Channel, step: str, payload: Any) -> None:
            send(link, step, self.at(payload))

        def receiving(link: Channel, step: str, limit: int) -> bytearray:
            self.at(b"")
            return receive(link, step, limit)

        Channel.send, Channel.receive_at_most = sending, receiving  # type: ignore[method-assign]

    def at(self, payload: Any) -> Any:
        """The payload, unless this is the message."""
        self.left -= 1
        if self.left != -1:
            return payload
        if self.kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.kind == "stall":
            os.kill(os.getpid(), signal.SIGSTOP)
        return os.urandom(len(payload))


def party(name: str, folder: Path, port: int, scenario: dict[str, Any]) -> list[float]:
    """One party's whole life."""
    names, timeout = scenario["names"], scenario["timeout"]
    kind, *rest = scenario["faults"].get(name, ["none"])
    others = {n: folder / f"{n}.crt" for n in names if n != name}
    own = folder / ("strange" if kind == "certificate" else "")
    trust = Certificates(own / f"{name}.crt", own / f"{name}.key", others)
    address = ("127.0.0.1", port)
    if rest:
        Fault(kind, *rest)
    if kind == "version":
        parties._PROTOCOL += 1
    links = gather(address, trust, timeout) if name == "A" else join(address, "A", trust, timeout)
    with Exchange(
        name,
        links,
        "A",
        parameters={"agreement": "0.1" if kind == "agreement" else "0.2"},
        trust=trust,
    ) as exchange:
        fit = exact_classifier(Shamir(exchange), "logistic", *rows(name), precision=PRECISION)
    return [float(w) for w in fit.coefficients]


def play(folder: Path, scenario: dict[str, Any]) -> dict[str, Any]:
    """Fork the parties; what each of them wrote, or how it ended."""
    port = free_port()
    answers = Path(tempfile.mkdtemp(dir=folder))
    children = {}
    for name in scenario["names"]:
        child = os.fork()
        if child == 0:
            try:
                told: dict[str, Any] = {"coefficients": party(name, folder, port, scenario)}
            except SfumatoError as error:
                told = {"error": type(error).__name__, "what": str(error)}
            except BaseException as error:
                told = {"error": "traceback", "what": repr(error)}
            (answers / name).write_text(json.dumps(told))
            os._exit(0)
        children[child] = name
    started = time.monotonic()
    seconds = {}
    stalled = {n for n, fault in scenario["faults"].items() if fault[0] == "stall"}
    waiting = {child: name for child, name in children.items() if name not in stalled}
    while waiting and time.monotonic() - started < PATIENCE:
        child, _ = os.waitpid(-1, os.WNOHANG)
        if child in waiting:
            seconds[waiting.pop(child)] = time.monotonic() - started
        elif not child:
            time.sleep(0.005)
    for child, name in children.items():
        if child in waiting or name in stalled:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    found = {p.name: json.loads(p.read_text()) for p in answers.iterdir()}
    return {"found": found, "seconds": seconds, "hanging": sorted(waiting.values())}


def answer(line: Connection) -> None:
    """Play scenarios until there are none."""
    with tempfile.TemporaryDirectory() as folder, suppress(EOFError):
        for name in "ABCD":
            make_keys(folder, name)
            make_keys(Path(folder) / "strange", name)
        pooled("ABC")  # loads the compiled code, which the forks share
        while True:
            scenario = {"faults": {}, "timeout": 10.0, **line.recv()}
            line.send(play(Path(folder), scenario))
