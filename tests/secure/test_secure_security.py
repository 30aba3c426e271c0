"""What the protocols claim to hide stays hidden, as far as a test can show it."""

from __future__ import annotations

import ast
import os
import secrets
import threading
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chisquare

import sfumato.secure
from ports import free_port
from sfumato import secure
from sfumato.secure import Ring, Session, Shares, aes, garbling, oblivious_transfer
from sfumato.secure import session as session_module
from sfumato.secure.aes import CompiledEngine
from sfumato.secure.arithmetic import cross_products
from sfumato.secure.channel import Channel
from sfumato.secure.garbling import run_circuit
from two_parties import BY_CHANCE, P60, Recorder, Understudy, agree, everything, understudy

SOURCES = sorted(Path(sfumato.secure.__file__).parent.glob("*.py"))


@pytest.fixture(scope="module")
def bob():
    with understudy() as actor:
        yield actor


def recorded(bob: Understudy, numbers=(3, 1000, 77)) -> tuple[Recorder, list[float]]:
    """Alice here, Bob in a process of his own, a recorder between them."""
    port = free_port()
    recorder = Recorder(port)
    bob.play("bob", "everything", recorder.port)
    with secure.listen("alice", ("127.0.0.1", port), program="everything", timeout=20) as session:
        result = everything(session, numbers)
    bob.wait()
    recorder.close()
    return recorder, result


# Shares


@pytest.mark.parametrize("ring", [Ring.power_of_two(4), Ring.odd(13)], ids=str)
@pytest.mark.parametrize("x", [0, 3, 12])
def test_shares_of_a_product_are_uniform(ring, x):
    """Each side's share alone says nothing: uniform whatever was multiplied."""
    n = 4000
    values = np.full(n, x)

    def party(session):
        return cross_products(session, ring, ring.encode(values))

    for share in secure.together(party, party):
        counts = np.bincount(share[:, 0].astype(int), minlength=ring.modulus)
        assert chisquare(counts).pvalue > BY_CHANCE


@pytest.mark.parametrize("x", [1, 6, 7])
def test_shares_of_a_logarithm_are_uniform(x):
    """The paper's setting, all the way: low and top bits of both shares."""
    ring = Ring.odd(P60)
    n = 3000

    def party(session):
        mine = secure.private(ring, np.full(n, x if session.is_alice else 0))
        return secure.log(session, mine, bits=4, terms=2).values[:, 0]

    for share in secure.together(party, party):
        assert chisquare(np.bincount((share % 16).astype(int), minlength=16)).pvalue > BY_CHANCE
        top = np.minimum((share >> np.uint64(56)).astype(int), 15)
        assert chisquare(np.bincount(top, minlength=16)).pvalue > BY_CHANCE


def test_shared_inputs_are_uniform_on_both_sides():
    ring = Ring.power_of_two(4)

    def party(session):
        mine = np.full(5000, 7) if session.is_alice else None
        return secure.share(session, mine, ring=ring, owner="alice", n=5000).values[:, 0]

    for share in secure.together(party, party):
        assert chisquare(np.bincount(share.astype(int), minlength=16)).pvalue > BY_CHANCE


def test_circuit_outputs_are_shared_uniformly():
    from sfumato.secure.circuit import Builder

    builder = Builder()
    (a,), (b,) = builder.alice(1), builder.bob(1)
    circuit = builder.finish([builder.both(a, b), a, b])
    n = 4000

    def party(session):
        return run_circuit(session, circuit, np.ones((1, n), np.uint8), n=n)

    for share in secure.together(party, party):
        for bits in share:
            assert chisquare(np.bincount(bits, minlength=2)).pvalue > BY_CHANCE


# Transcripts, recorded between two processes


def test_lengths_and_counts_do_not_depend_on_the_data(bob):
    shapes = []
    for numbers in ((3, 1000, 77), (1, 1, 1), (4095, 0, 2048)):
        recorder, _ = recorded(bob, numbers)
        shapes.append([[len(f) for f in recorder.frames(way)] for way in ("to", "from")])
    assert shapes[0] == shapes[1] == shapes[2]


def test_the_same_input_gives_a_fresh_transcript(bob):
    first, result = recorded(bob)
    second, again = recorded(bob)
    assert result[3:] == again[3:]
    for way in ("to", "from"):
        pairs = zip(first.frames(way), second.frames(way), strict=True)
        long = [(a, b) for a, b in pairs if len(a) >= 16]
        assert len(long) > 5
        # The opening of public results at the end is the only thing that may repeat.
        assert all(a != b for a, b in long)


def test_no_input_and_no_secret_appears_in_a_transcript(bob, monkeypatch):
    secrets_seen: dict[str, bytes] = {}
    original = os.urandom

    def watched(count):
        drawn = original(count)
        if count == 16:
            secrets_seen[f"drawn {len(secrets_seen)}"] = drawn
        return drawn

    kept = {}
    original_sender = oblivious_transfer.OTSender.__init__

    def sender(self, session):
        original_sender(self, session)
        kept["delta of transfers"] = self.delta.tobytes()

    garbled = aes.Engine.garble

    def garble(self, circuit, wires, delta, key):
        kept["delta of circuits"] = delta.tobytes()
        return garbled(self, circuit, wires, delta, key)

    token_bytes = secrets.token_bytes

    def token(count):
        drawn = token_bytes(count)
        kept[f"number {len(kept)} of base transfers"] = drawn
        return drawn

    monkeypatch.setattr(oblivious_transfer.secrets, "token_bytes", token)
    monkeypatch.setattr(garbling.os, "urandom", watched)
    monkeypatch.setattr(oblivious_transfer.OTSender, "__init__", sender)
    monkeypatch.setattr(aes.Engine, "garble", garble)
    numbers = (0x0ABC, 0x0DEF, 0x0123)
    recorder, _ = recorded(bob, numbers)
    transcript = bytes(recorder.sent["to"]) + bytes(recorder.sent["from"])
    assert kept["delta of transfers"] != kept["delta of circuits"]
    assert len(kept) > 128  # Alice's secret numbers of the base transfers
    for name, secret in kept.items():
        assert secret not in transcript, name
        assert secret[:8] not in transcript, name
        assert secret[8:] not in transcript, name
    for number in numbers:
        assert number.to_bytes(8, "little") not in transcript
        assert number.to_bytes(8, "big") not in transcript
    assert np.array(numbers, np.uint64).tobytes() not in transcript
    # Seeds of Alice's active labels are sent on purpose; nothing else that was drawn is.
    sent = [name for name, drawn in secrets_seen.items() if drawn in transcript]
    seeds = [f for f in recorder.frames("from") if any(f[:16] == secrets_seen[n] for n in sent)]
    assert len(sent) == len(seeds)


def test_messages_look_random(monkeypatch):
    """Bytes of tables, labels, matrices and corrections are uniform, whatever the input."""
    sent: dict[str, list[bytes]] = {}
    original = Channel.send

    def watched(self, step, payload):
        sent.setdefault(step, []).append(bytes(memoryview(payload).cast("B")))
        return original(self, step, payload)

    monkeypatch.setattr(Channel, "send", watched)
    ring = Ring.power_of_two(64)

    def party(session):
        zeros = np.zeros((2000, 1), np.uint64)
        cross_products(session, ring, zeros, used=1)  # whole words: no spare bits in the message
        secure.argmin(session, secure.zeros(ring, 300), group=3, what="x")
        secure.scalar_product(session, np.zeros(2000, bool), ring=ring)
        return 0

    agree(party)
    steps = {
        "transfers: matrix",
        "transfers: choices",
        "products: corrections",
        "circuit: labels",
        "circuit: tables",
        "cross counts: corrections",
    }
    assert steps <= set(sent)
    for step in steps:
        counts = np.bincount(np.frombuffer(b"".join(sent[step]), np.uint8), minlength=256)
        assert chisquare(counts).pvalue > BY_CHANCE, step


# Keys, tweaks and counters


def test_no_key_of_the_hash_serves_twice(monkeypatch):
    used: dict[str, list[tuple[int, int]]] = {"alice": [], "bob": []}
    original = Session.hash_keys

    def watched(self, count):
        first = original(self, count)
        used[self.role].append(((first - self._hash_key_base) % (1 << 128), count))
        return first

    monkeypatch.setattr(Session, "hash_keys", watched)
    agree(everything)
    assert used["alice"] == used["bob"]
    end = 0
    for first, count in used["alice"]:
        assert first == end
        end += count
    assert end > 100


def test_few_blocks_are_hashed_under_one_key(monkeypatch):
    """What the concrete bound rests on; twenty thousand transfers used to share a key."""
    blocks: dict[tuple[str, bytes], int] = {}
    original = aes._aes_blocks

    hashing = threading.local()
    hash_alone = aes._hashed

    def counted(key, data):
        if getattr(hashing, "now", False):
            who = (threading.current_thread().name, key)
            blocks[who] = blocks.get(who, 0) + data.size // 2
        return original(key, data)

    def hash_counted(labels, key):
        hashing.now = True
        try:
            return hash_alone(labels, key)
        finally:
            hashing.now = False

    monkeypatch.setattr(aes, "_aes_blocks", counted)
    monkeypatch.setattr(aes, "_hashed", hash_counted)

    def party(session):
        ring = Ring.power_of_two(32)
        secure.scalar_product(session, np.ones(20_000, bool), ring=ring)
        secure.is_zero(session, secure.zeros(Ring(8), 600), what="zero")
        return 0

    agree(party, engine="openssl")
    assert max(blocks.values()) == 2 * oblivious_transfer.ROWS_A_KEY == 1 << 13


def test_no_block_of_a_stream_serves_twice(monkeypatch):
    """(key, counter) pairs of all AES streams of a session, on Bob's side."""
    drawn: set[tuple[bytes, int]] = set()
    lock = threading.Lock()
    twice = []
    schedule, stream = CompiledEngine.schedule, CompiledEngine.stream

    def watched_schedule(self, keys):
        return (schedule(self, keys), [k.tobytes() for k in keys])

    def watched_stream(self, scheduled, first, out):
        made, keys = scheduled
        with lock:
            for key in keys:
                for block in range(first, first + out.shape[1] // 2):
                    who = (key + threading.current_thread().name.encode(), block)
                    if who in drawn:
                        twice.append(who)
                    drawn.add(who)
        stream(self, made, first, out)

    monkeypatch.setattr(CompiledEngine, "schedule", watched_schedule)
    monkeypatch.setattr(CompiledEngine, "stream", watched_stream)
    agree(everything, engine="aes-ni")
    assert drawn
    assert not twice


def test_sessions_have_different_hash_keys_and_nonces():
    bases = {agree(lambda s: [s._hash_key_base % (1 << 62)])[0] for _ in range(5)}
    assert len(bases) == 5


def test_every_run_of_a_circuit_has_a_delta_of_its_own(monkeypatch):
    deltas = []
    garble = CompiledEngine.garble

    def watched(self, circuit, wires, delta, key):
        deltas.append(delta.tobytes())
        assert delta[0] & np.uint64(1)
        return garble(self, circuit, wires, delta, key)

    monkeypatch.setattr(CompiledEngine, "garble", watched)

    def party(session):
        for _ in range(3):
            secure.is_zero(session, secure.zeros(Ring(8), 1), what="zero")
        if session.is_alice:
            deltas.append(session.ot_sender.delta.tobytes())
        return 0

    agree(party, engine="aes-ni")
    assert len(deltas) == len(set(deltas)) == 4


# The source itself


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.name)
def test_randomness_comes_from_the_operating_system_alone(path):
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            assert all(alias.name.split(".")[0] != "random" for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            assert (node.module or "").split(".")[0] != "random"
        if isinstance(node, ast.Attribute):
            assert not (node.attr == "random" and getattr(node.value, "id", "") in ("np", "numpy"))
            assert node.attr not in ("default_rng", "RandomState", "seed")


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.name)
def test_only_the_adapter_knows_more_than_errors_and_the_form_of_results(path):
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        for name in names:
            if name.startswith("sfumato"):
                allowed = (
                    "sfumato.budget",
                    "sfumato.errors",
                    "sfumato.fields",
                    "sfumato.kernels.compiling",
                    "sfumato.results",
                    "sfumato.secure",
                )
                if path.name == "tls.py":  # keys lie in files
                    allowed += ("sfumato.files", "sfumato.keyfiles")
                if path.name == "party.py":
                    allowed += ("sfumato.files", "sfumato.tables")
                assert name.startswith(allowed), name


def test_nothing_secret_shows_in_representations():
    x = Shares(Ring(1 << 16), Ring(1 << 16).encode([4711]))
    assert "4711" not in repr(x)


def test_the_greeting_is_fresh(monkeypatch):
    nonces = []
    original = session_module._differences

    def watched(mine, theirs):
        nonces.append(mine["nonce"])
        return original(mine, theirs)

    monkeypatch.setattr(session_module, "_differences", watched)
    for _ in range(3):
        secure.together(lambda s: 0, lambda s: 0)
    assert len(nonces) == len(set(nonces)) == 6
