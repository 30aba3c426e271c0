"""Peers that die, lines that are cut, bytes that are wrong: an error in time, never a hang."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from namespaces import two_hosts
from ports import free_port
from sfumato import secure
from sfumato.errors import PeerError, SfumatoError
from sfumato.secure import Ring
from sfumato.secure.channel import Channel
from two_parties import PROGRAMS, Recorder, everything, understudy

TIMEOUT = 60


@pytest.fixture(scope="module")
def actor():
    with understudy() as someone:
        yield someone


def messages(program: str) -> int:
    """How many messages a side sends and receives in all."""
    counts = []

    def party(session):
        PROGRAMS[program](session)
        traffic = session.channel.traffic
        counts.append(traffic.messages_sent + traffic.messages_received)

    secure.together(party, party)
    # Four more at the end, twice there and back. Who dies while waiting for the last has finished:
    # the other side has heard so and ends well.
    return max(counts) + 3


def write_result(role: str, program: str, port: int, output: Path, times: int = 1) -> None:
    """Run a program and write its result once both sides have ended, as the command line does."""
    with secure.listen(role, ("127.0.0.1", port), program=program, timeout=TIMEOUT) as session:
        for _ in range(times):
            result = PROGRAMS[program](session)
    output.write_text(str(result))


@pytest.mark.parametrize("stride", [8, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("role", ["alice", "bob"])
def test_a_peer_killed_at_each_step(actor, role, stride, tmp_path):
    living = "bob" if role == "alice" else "alice"
    # who dies before it has said a word was never here: the door stays open for it
    # steps take turns: what the other role does in between is a step of the other role
    for step in range(1 + (role == "bob"), messages("everything"), stride):
        port = free_port()
        actor.play(role, "everything", port, fatal=step)
        output = tmp_path / f"{step}.txt"
        started = time.monotonic()
        with pytest.raises(PeerError) as caught:
            write_result(living, "everything", port, output)
        assert time.monotonic() - started < TIMEOUT
        assert not output.exists()
        assert "1000" not in str(caught.value)
        actor.wait()


@pytest.mark.parametrize("stride", [4, pytest.param(2, marks=pytest.mark.slow)])
def test_a_peer_killed_at_each_step_of_the_papers_setting(actor, stride, tmp_path):
    for step in range(1, messages("paper"), stride):
        port = free_port()
        actor.play("bob", "paper", port, fatal=step)
        with pytest.raises(PeerError):
            write_result("alice", "paper", port, tmp_path / "result.txt")
        assert not list(tmp_path.iterdir())
        actor.wait()


def test_an_unharmed_peer_ends_well(actor):
    port = free_port()
    actor.play("bob", "everything", port)
    with secure.listen("alice", ("127.0.0.1", port), program="everything") as session:
        result = everything(session)
    actor.wait()
    assert np.allclose(result[:3], np.log([3, 1000, 77]), atol=3e-5)
    assert result[3:] == [0, 9 + 200, 1_000_000 + 200, 77**2 + 200]


@pytest.mark.parametrize(
    "share",
    [0.001, 0.5, 0.999, *(pytest.param(at, marks=pytest.mark.slow) for at in (0.1, 0.3, 0.7, 0.9))],
)
def test_a_line_cut_after_some_bytes(actor, share, tmp_path):
    total = 500_000
    port = free_port()
    recorder = Recorder(port, cut_after=max(1, int(share * total)))
    actor.play("bob", "everything", recorder.port)
    with pytest.raises(PeerError):  # twenty times: more than any cut lets through
        write_result("alice", "everything", port, tmp_path / "result.txt", times=20)
    assert not list(tmp_path.iterdir())
    actor.wait()
    recorder.close()


@pytest.mark.crossed(2)
@pytest.mark.parametrize("liar", ["alice", "bob"])
@pytest.mark.parametrize("ring", [Ring.power_of_two(32), Ring.odd((1 << 61) - 1)], ids=str)
def test_garbage_for_content_gives_an_error_or_a_wrong_number(monkeypatch, ring, liar):
    """Right frames with random content, one message of the liar's after the other: no crash."""
    original = Channel.send
    rng = np.random.default_rng(6)
    lying: set[threading.Thread] = set()
    left = [0]
    sent = [0]

    def party(session):
        lying.discard(threading.current_thread())
        if session.role == liar:
            lying.add(threading.current_thread())
        before = session.channel.traffic.messages_sent
        x = secure.private(ring, [3, 4])
        logarithm = secure.log(session, x, bits=6)
        secure.argmin(session, logarithm, what="the smaller")
        result = secure.reveal(session, logarithm, what="both logarithms")
        if session.role == liar:
            sent[0] = session.channel.traffic.messages_sent - before
        return result

    def corrupted(self, step, payload):
        if threading.current_thread() in lying:
            left[0] -= 1
            if left[0] == 0:
                payload = rng.bytes(memoryview(payload).nbytes)
        return original(self, step, payload)

    monkeypatch.setattr(Channel, "send", corrupted)
    secure.together(party, party)
    messages_of_liar = sent[0]
    assert messages_of_liar >= 5
    for target in range(1, messages_of_liar + 1):
        left[0] = target
        with contextlib.suppress(SfumatoError):
            secure.together(party, party, timeout=60)
        assert left[0] <= 0, "the message was never sent"


def test_a_slow_peer_is_waited_for_within_the_time_out():
    def slow(session):
        for _ in range(3):
            time.sleep(0.2)
            session.exchange("step", b"x")
        return 1

    def fast(session):
        for _ in range(3):
            session.exchange("step", b"x")
        return 1

    assert secure.together(slow, fast, timeout=60) == (1, 1)
    with pytest.raises(PeerError, match=r"time-out|waited too long"):
        secure.together(slow, fast, timeout=0.1)


SCRIPT = """
import sys
from pathlib import Path
from sfumato import secure

role, mode, host, port, keys = sys.argv[1:]
other = "bob" if role == "alice" else "alice"
tls = secure.TLS(Path(keys, f"{role}.crt"), Path(keys, f"{role}.key"), Path(keys, f"{other}.crt"))
secure.warm_up()
ring = secure.Ring.power_of_two(64)
with getattr(secure, mode)(role, (host, int(port)), program="log", tls=tls, timeout=60) as session:
    x = secure.private(ring, [900 if role == "alice" else 100, 1, 7])
    result = secure.reveal_real(session, secure.log(session, x, bits=20), what="ln x")
print(" ".join(f"{v:.4f}" for v in result), session.report().encrypted)
"""


def start(script: Path, *arguments: str, prefix: Sequence[str] = ()) -> subprocess.Popen[str]:
    source = Path(secure.__file__).parents[2]
    return subprocess.Popen(
        [*prefix, sys.executable, str(script), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(source)},
    )


def keys_and_script(folder: Path) -> Path:
    for role in ("alice", "bob"):
        secure.make_keys(folder, role)
    script = folder / "party.py"
    script.write_text(textwrap.dedent(SCRIPT))
    return script


def test_two_processes_over_tls(tmp_path):
    script, port = keys_and_script(tmp_path), str(free_port())
    alice = start(script, "alice", "listen", "127.0.0.1", port, str(tmp_path))
    bob = start(script, "bob", "connect", "127.0.0.1", port, str(tmp_path))
    outputs = [p.communicate(timeout=120) for p in (alice, bob)]
    assert [p.returncode for p in (alice, bob)] == [0, 0], outputs
    assert outputs[0][0] == outputs[1][0] == "6.9078 0.6932 2.6391 True\n"


@pytest.mark.slow  # the same two programs as above
def test_two_hosts_in_two_network_namespaces(tmp_path):
    script = keys_and_script(tmp_path)
    with two_hosts() as (address, first, second):
        alice = start(script, "alice", "listen", address, "7000", str(tmp_path), prefix=first)
        bob = start(script, "bob", "connect", address, "7000", str(tmp_path), prefix=second)
        outputs = [p.communicate(timeout=120) for p in (alice, bob)]
    assert [p.returncode for p in (alice, bob)] == [0, 0], outputs
    assert outputs[0][0] == outputs[1][0] == "6.9078 0.6932 2.6391 True\n"
