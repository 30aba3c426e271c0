"""Two-party computation: two processes on loopback with TLS, against SecretFlow SPU.

``python benchmarks/secure.py`` (or ``python -m benchmarks secure``). Ours are two processes that
meet over TLS 1.3 with pinned certificates, compiled code warm; SPU's two processes use its own
link, without TLS. Numbers are below 2^14, where SPU's fixed point of 64 bits gives the right
logarithm, and every result is compared with numpy's. CPU seconds are those of the busier party.

*New session* counts everything after the TLS connection: base transfers and, for SPU, the first
run. *Same session* is what further logarithms cost.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

if not __package__:
    sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.runner import (
    Comparison,
    Measured,
    PeerMissing,
    ask_peer,
    peer_environment,
    report,
)
from sfumato import secure
from sfumato.secure import logarithm
from sfumato.secure.aes import Engine, choose
from sfumato.secure.logarithm import log_opened, log_opened_error
from sfumato.secure.shares import Ring, Shares

__all__ = ["main"]

PEER = Path(__file__).parent / "peers" / "spu_logarithm.py"
RING = Ring.power_of_two(64)
FEW, MANY, BITS = 500, 100_000, 20
PAILLIER = 8
TRANSFERS = 1 << 20
RECORDS = 100_000
SESSIONS = 10
ROUNDS = 3
"""Ours and SPU take turns this often; the best of each counts, so that other work harms neither."""


def numbers(count: int, below: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The same test numbers on both sides, of all magnitudes."""
    rng = np.random.default_rng(7)
    drawn = np.exp(rng.uniform(0, np.log(below), count)).astype(np.int64)
    return np.clip(drawn, 1, below - 1)


def my_share(session: secure.Session, count: int, below: int) -> Shares:
    """Shares as an earlier step would have left them; seeded, for a benchmark only."""
    values = RING.encode(numbers(count, below))
    mask = RING.encode(np.random.default_rng(8).integers(-(2**62), 2**62, count))
    return Shares(RING, mask if session.is_alice else RING.subtract(values, mask))


class Clock:
    """Times one piece of a session, and what it sent."""

    def __init__(self, session: secure.Session) -> None:
        self.session = session

    def __enter__(self) -> Clock:
        self.session.exchange("start", b"")  # both begin together
        self._before = self.session.report()
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        after = self.session.report()
        self.result = {
            "wall": wall,
            "cpu": cpu,
            "bytes": after.bytes_sent - self._before.bytes_sent,
            "rounds": after.rounds - self._before.rounds,
        }


def logarithms(session: secure.Session, count: int, below: int, backend: str = "ot") -> Any:
    """Time logarithms, then check every one of them."""
    x = my_share(session, count, below)
    bits = (below - 1).bit_length()
    with Clock(session) as clock:
        result = secure.log(session, x, bits=bits, backend=backend)
    opened = secure.reveal_real(session, result, what="the logarithms, to check them")
    worst = float(np.abs(opened - np.log(numbers(count, below))).max())
    assert worst <= secure.log_error(RING, bits=bits) <= 3e-5
    return {**clock.result, "error": worst}


def dual(session: secure.Session) -> Any:
    """Time logarithms by dual execution, which opens them, and check them."""
    values = numbers(FEW, 1 << 14)
    parts = values - values // 3 if session.is_alice else values // 3
    with Clock(session) as clock:
        opened = log_opened(session, parts.tolist(), bits=40)
    worst = float(np.abs(opened - np.log(values)).max())
    assert worst <= log_opened_error(40)
    return {**clock.result, "error": worst}


def scalar_product(session: secure.Session) -> Any:
    """Time a binary scalar product, then check it."""
    rng = np.random.default_rng(3)
    vectors = rng.random((2, RECORDS)) < 0.5
    mine = vectors[0 if session.is_alice else 1]
    with Clock(session) as clock:
        count = secure.scalar_product(session, mine, ring=Ring.power_of_two(32))
    opened = secure.reveal(session, count, what="the count, to check it")
    assert int(opened[0]) == int((vectors[0] & vectors[1]).sum())
    return clock.result


def transfers(session: secure.Session) -> Any:
    """Time the extension of oblivious transfers."""
    choices = np.ones(TRANSFERS, np.uint8)
    with Clock(session) as clock:
        if session.is_alice:
            session.ot_sender.extend(TRANSFERS)
        else:
            session.ot_receiver.extend(choices)
    return clock.result


def party(role: str, port: int, keys: str, everything: bool) -> None:
    """One party's process: a number of sessions, timings as JSON on the last line."""
    secure.warm_up()
    other = "bob" if role == "alice" else "alice"
    folder = Path(keys)
    tls = secure.TLS(folder / f"{role}.crt", folder / f"{role}.key", folder / f"{other}.crt")
    tasks = ("new", "same", "same, 40 bits", "dual, new", "dual", "transfers", "scalar")
    found: dict[str, Any] = {task: [] for task in tasks}
    for number in range(SESSIONS):
        meet = secure.listen if role == "alice" else secure.connect
        with meet(role, ("127.0.0.1", port), program="benchmark", tls=tls) as session:
            found["new"].append(logarithms(session, FEW, 1 << 14))
            found["same"].append(logarithms(session, FEW, 1 << 14))
            found["same, 40 bits"].append(logarithms(session, FEW, 1 << 40))
            found["dual, new"].append(dual(session))
            found["dual"].append(dual(session))
            found["transfers"].append(transfers(session))
            found["scalar"].append(scalar_product(session))
            if everything and number == 0:
                found["many"] = [logarithms(session, MANY, 1 << BITS)]
                found["widest"] = [logarithms(session, MANY // 5, 1 << 40)]
                logarithms(session, 1, 1 << 14, "paillier")  # makes the key
                found["paillier"] = [logarithms(session, PAILLIER, 1 << 14, "paillier")]
    print(json.dumps(found))


def both_parties(everything: bool) -> dict[str, dict[str, Any]]:
    """Run two processes; the busier side's times, the bytes of both."""
    with tempfile.TemporaryDirectory() as keys:
        for role in ("alice", "bob"):
            secure.make_keys(keys, role)
        port = free_port()
        command = [sys.executable, __file__, "--party"]
        settings = [str(port), keys, "everything" if everything else ""]
        processes = [
            subprocess.Popen([*command, role, *settings], stdout=subprocess.PIPE, text=True)
            for role in ("alice", "bob")
        ]
        outputs = [process.communicate()[0] for process in processes]
    alice, bob = (json.loads(output.splitlines()[-1]) for output in outputs)
    summary = {}
    for task in alice:
        pairs = list(zip(alice[task], bob[task], strict=True))
        wall, cpu = (min(max(a[clock], b[clock]) for a, b in pairs) for clock in ("wall", "cpu"))
        summary[task] = {**pairs[0][0], "wall": wall, "cpu": cpu}
        summary[task]["bytes"] = pairs[0][0]["bytes"] + pairs[0][1]["bytes"]
        summary[task]["rounds"] = max(side["rounds"] for side in pairs[0])
    return summary


def free_port() -> int:
    """A free port of the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def gates(engine: Engine, repetitions: int) -> dict[str, float]:
    """Millions of AND gates a CPU second, one core, for the circuit of the logarithm."""
    circuit = logarithm._fast_circuit(RING, 40, 16)
    batch = 256
    words = np.frombuffer(os.urandom(circuit.slots * batch * 16), np.uint64)
    wires = words.reshape(circuit.slots, batch, 2).copy()
    delta = np.frombuffer(os.urandom(16), np.uint64) | np.array([1, 0], np.uint64)
    tables = engine.garble(circuit, wires, delta, 0)
    engine.evaluate(circuit, wires, tables, 0)
    best = {"garble": 0.0, "evaluate": 0.0}
    for _ in range(5):
        for name in best:
            started = time.process_time()
            for _ in range(repetitions):
                if name == "garble":
                    engine.garble(circuit, wires, delta, 0)
                else:
                    engine.evaluate(circuit, wires, tables, 0)
            rate = circuit.and_gates * batch * repetitions / (time.process_time() - started) / 1e6
            best[name] = max(best[name], rate)
    best["both"] = 1 / (1 / best["garble"] + 1 / best["evaluate"])
    return {name: round(rate, 2) for name, rate in best.items()}


def compile_seconds() -> dict[str, float]:
    """What the first run on a machine pays for compiling, and what later runs pay for loading."""
    script = "import time; from sfumato import secure; s = secure.warm_up()\n"
    script += "print(s, time.process_time())"
    taken = {}
    with tempfile.TemporaryDirectory() as cache:
        for name in ("first", "later"):
            environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
            done = subprocess.run(
                [sys.executable, "-c", script],
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            )
            wall, cpu = (float(v) for v in done.stdout.split())
            taken[f"{name} wall"], taken[f"{name} cpu"] = round(wall, 2), round(cpu, 2)
    return taken


def spu(count: int) -> dict[str, dict[str, Any]]:
    """SPU's times for the same numbers by protocol, or why there are none."""
    try:
        interpreter = peer_environment("spu", ["spu==0.9.5"])
    except PeerMissing as error:
        print(error)
        return {}
    asked = numbers(count, 1 << 14)
    found = {}
    for protocol in ("CHEETAH", "SEMI2K"):
        question = {"protocol": protocol, "numbers": asked.tolist(), "repetitions": SESSIONS}
        answer = ask_peer(interpreter, PEER, question)
        worst = float(np.abs(np.array(answer.pop("values")) - np.log(asked)).max())
        assert worst < 1e-3, f"SPU {protocol} gives other logarithms"
        for clock in ("cpu", "first_cpu"):
            answer[clock] = max(answer[clock])  # the busier party
        found[protocol] = {**answer, "error": worst}
    return found


def _keep_best(best: dict[str, dict[str, Any]], found: dict[str, dict[str, Any]]) -> None:
    """Keep the least of every time over all turns."""
    for name, times in found.items():
        known = best.setdefault(name, dict(times))
        for clock in ("wall", "cpu", "first_wall", "first_cpu"):
            if clock in times:
                known[clock] = min(known[clock], times[clock])


def _scaled(taken: dict[str, float], factor: float) -> Measured:
    return Measured(taken["wall"] * factor, taken["cpu"] * factor)


def main() -> dict[str, Any]:
    """Run everything, print the table and write the results."""
    ours: dict[str, dict[str, Any]] = {}
    peers: dict[str, dict[str, Any]] = {}
    for turn in range(ROUNDS):
        _keep_best(ours, both_parties(everything=turn == 0))
        _keep_best(peers, spu(FEW))
    comparisons = []
    for task, title in (("new", "new session"), ("same", "same session")):
        measured = {"sfumato": Measured(ours[task]["wall"], ours[task]["cpu"])}
        for protocol, times in peers.items():
            first = "first_" if task == "new" else ""
            measured[f"SPU {protocol}"] = Measured(times[f"{first}wall"], times[f"{first}cpu"])
        comparisons.append(Comparison(f"{FEW} logarithms, {title}", measured))
    thousand = {
        "transfers": _scaled(ours["same"], 1000 / FEW),
        "Paillier, 3072 bits": _scaled(ours["paillier"], 1000 / PAILLIER),
    }
    comparisons.append(Comparison("1000 logarithms, by backend", thousand))
    facts: dict[str, Any] = {}
    for task, title in (
        ("new", f"{FEW} logarithms, new session"),
        ("same", f"{FEW} logarithms, same session"),
        ("same, 40 bits", f"{FEW} logarithms below 2^40, same session"),
        ("dual, new", f"{FEW} logarithms below 2^40, dual execution, first time"),
        ("dual", f"{FEW} logarithms below 2^40, dual execution, again"),
        ("many", f"{MANY} logarithms below 2^{BITS}"),
        ("widest", f"{MANY // 5} logarithms below 2^40"),
        ("scalar", f"scalar product of {RECORDS} bits"),
        ("transfers", f"{TRANSFERS} transfers"),
        ("paillier", f"{PAILLIER} logarithms by Paillier"),
    ):
        facts[title] = {k: round(v, 6) for k, v in ours[task].items()}
    facts["million transfers a second (wall)"] = round(
        TRANSFERS / ours["transfers"]["wall"] / 1e6, 1
    )
    facts["million AND a CPU second, aes-ni"] = gates(choose("auto"), 40)
    facts["million AND a CPU second, openssl"] = gates(choose("openssl"), 1)
    facts["compiling (seconds)"] = compile_seconds()
    versions = {"spu": next((p["version"] for p in peers.values()), "not installed")}
    data = f"{FEW} and {MANY} shared numbers, TLS on loopback"
    return report("secure", comparisons, data=data, versions=versions, facts=facts)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--party"]:
        party(sys.argv[2], int(sys.argv[3]), sys.argv[4], bool(sys.argv[5]))
    else:
        main()
