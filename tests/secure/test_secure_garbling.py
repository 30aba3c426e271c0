"""AES and the hash against published values and OpenSSL; both engines give the same bytes."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import numba
import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from cli_tools import Program
from sfumato import secure
from sfumato.errors import ParameterError
from sfumato.secure import Ring, aes
from sfumato.secure.aes import CompiledEngine, PortableEngine, choose
from sfumato.secure.channel import Channel
from sfumato.secure.circuit import Builder
from sfumato.secure.party import _said_when_compiling, warm_up
from two_parties import agree, everything, running

needs_aes = pytest.mark.skipif(not aes.available(), reason="this processor has no AES instructions")
ENGINES = [
    pytest.param(CompiledEngine(), marks=needs_aes, id="aes-ni"),
    pytest.param(PortableEngine(), id="openssl"),
]


def rows(count: int) -> np.ndarray:
    return np.frombuffer(os.urandom(16 * count), np.uint64).reshape(count, 2).copy()


def openssl(key: bytes, blocks: np.ndarray) -> np.ndarray:
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    return np.frombuffer(encryptor.update(blocks.tobytes()), np.uint64).reshape(blocks.shape)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_key_schedule_is_that_of_fips_197(engine):
    key = bytes.fromhex("2b7e151628aed2a6abf7158809cf4f3c")
    (schedule,) = engine.schedule(np.frombuffer(key, np.uint64).reshape(1, 2))
    schedule = schedule.tobytes()
    assert schedule[:16] == key
    assert schedule[16:32].hex() == "a0fafe1788542cb123a339392a6c7605"
    assert schedule[160:].hex() == "d014f9a8c9ee2589e13f0cc8b6630ca6"


@pytest.mark.parametrize("engine", ENGINES)
def test_aes_gives_the_known_answer(engine):
    """SP 800-38A F.1.1 needs an input of choice; the hash of a label with tweak 0 is one."""
    key = bytes.fromhex("2b7e151628aed2a6abf7158809cf4f3c")
    block = bytes.fromhex("6bc1bee22e409f96e93d7e117393172a")
    answer = bytes.fromhex("3ad77bb40d7a3660a89ecaf32466ef97")
    low, high = np.frombuffer(block, np.uint64)
    label = np.array([[high ^ low, low]], np.uint64)  # σ turns it into the block
    hashed = engine.hash(label, int.from_bytes(key, "little"))
    assert (hashed ^ np.frombuffer(block, np.uint64)).tobytes() == answer


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("count", [1, 7, 8, 9, 64, 300, 4096, 4097, 8200])
def test_the_hash_is_its_definition(engine, count):
    first, labels, delta = 2**128 - 2, rows(count), rows(1)[0]
    for offset in (None, delta):
        shifted = labels if offset is None else labels ^ offset
        mixed = np.stack([shifted[:, 1], shifted[:, 0] ^ shifted[:, 1]], axis=1)
        mixed[:, 0] ^= np.arange(count, dtype=np.uint64) % np.uint64(4096)
        parts = []
        for number, start in enumerate(range(0, count, 4096)):
            key = ((first + number) % 2**128).to_bytes(16, "little")
            parts.append(openssl(key, mixed[start : start + 4096]))
        expected = np.concatenate(parts) ^ mixed
        got = engine.hash(labels, first, delta=offset)
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("blocks", [1, 8, 13])
def test_streams_are_aes_in_counter_mode(engine, blocks):
    keys, first = rows(3), 1000
    out = np.empty((3, 2 * blocks), np.uint64)
    engine.stream(engine.schedule(keys), first, out)
    counters = np.zeros((blocks, 2), np.uint64)
    counters[:, 0] = np.arange(first, first + blocks)
    for row, key in zip(out, keys, strict=True):
        np.testing.assert_array_equal(row.reshape(blocks, 2), openssl(key.tobytes(), counters))


@needs_aes
@pytest.mark.parametrize("batch", [1, 9, 256])
def test_both_engines_garble_to_the_same_bytes(batch):
    builder = Builder()
    x = builder.reconstruct(Ring.odd(10007))
    circuit = builder.finish([*x, builder.invert(x[0])])
    labels = rows(circuit.slots * batch).reshape(circuit.slots, batch, 2)
    delta = rows(1)[0] | np.array([1, 0], np.uint64)
    key = (1 << 128) - 5  # the counter of keys runs over
    results = []
    for engine in (CompiledEngine(), PortableEngine()):
        wires, active = labels.copy(), labels.copy()
        tables = engine.garble(circuit, wires, delta, key)
        engine.evaluate(circuit, active, tables, key)
        results.append((tables, wires, active))
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


def test_engines_are_chosen_by_name():
    assert choose("openssl").name == "openssl"
    assert isinstance(choose("aes-ni"), CompiledEngine)
    assert type(choose("auto")) is (aes.Engine if aes.available() else PortableEngine)
    with pytest.raises(ParameterError, match="not an engine"):
        choose("quantum")


def test_without_the_instructions_the_portable_engine_is_chosen(monkeypatch):
    monkeypatch.setattr(aes, "available", lambda: False)
    assert choose("auto").name == "openssl"
    with pytest.raises(ParameterError, match="no AES instructions"):
        choose("aes-ni")


def test_warming_up_loads_everything_and_says_nothing_once_it_is_compiled():
    assert warm_up() > 0
    assert aes.garble.settled
    assert choose("auto").name == "aes-ni"
    said = []
    warm_up(said.append)
    assert not said


def test_compiling_is_said_once():
    said = []
    with _said_when_compiling(said.append):
        for number in (1, 1.5):
            numba.njit(lambda x: x + 1)(number)
    assert said == ["preparing compiled code (once on this machine, up to half a minute)"]


LEFT = """
from sfumato import secure
from sfumato.kernels.compiling import Loop
from sfumato.secure import aes, _kernels, oblivious_transfer
from two_parties import PROGRAMS

def compiled():
    return {
        (m.__name__, name): len(getattr(kernel, "dispatcher", kernel).signatures)
        for m in (aes, _kernels, oblivious_transfer)
        for name, kernel in vars(m).items()
        if isinstance(kernel, Loop) or hasattr(kernel, "signatures")
    }

secure.warm_up()
before = compiled()
for program in PROGRAMS.values():
    secure.together(program, program)
after = compiled()
print({name: (before[name], after[name]) for name in after if before[name] != after[name]})
"""


@needs_aes
def test_after_warming_up_nothing_is_left_to_compile():
    out, said = Program(code=LEFT).communicate(timeout=300)
    assert out == "{}\n", out + said


LITTLE = """
import sys
from numba import config
from numba.core import event
import pyarrow as pa
from sfumato import secure
from two_parties import everything

made = []

class Compiled(event.Listener):
    def on_start(self, event):
        made.append(event)

    def on_end(self, event):
        pass

event.register("numba:compile", Compiled())
config.CACHE_DIR = sys.argv[1]
days = pa.table({name: ["no", "yes"] * 20 for name in ("rain", "wet", "mud")})

def party(session):
    everything(session)
    secure.log_of_sums([300], peer=session, modulus=2**60 - 93, bits=10)
    secure.id3(days, target="mud", peer=session, share_categories=True)
    secure.bayes_net(days, peer=session, share_categories=True)
    return session.report().engine

print(*secure.together(party, party), len(made))
"""


def test_with_little_to_do_nothing_is_compiled(tmp_path):
    out, said = Program(tmp_path, code=LITTLE).communicate(timeout=300)
    assert out == "openssl openssl 0\n", out + said


NARROW = """
import numpy as np
from sfumato.secure import aes
from sfumato.secure.aes import CompiledEngine, PortableEngine

labels = np.arange(42, dtype=np.uint64).reshape(21, 2)
results = []
for engine in (CompiledEngine(), PortableEngine()):
    out = np.empty((2, 22), np.uint64)
    engine.stream(engine.schedule(labels[:2]), 5, out)
    sums = np.zeros((2, 21), np.uint64)
    engine.combine(labels, out[0, :2], *sums)
    results.append((engine.hash(labels, 77).tolist(), out.tolist(), sums.tolist()))
print(aes.available(), aes._vector_blocks(), results[0] == results[1])
"""


@needs_aes
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "+sse2,+aes,+pclmul"},
            "True 1 True\n",
        ),
        pytest.param({"NUMBA_CPU_FEATURES": "-vaes"}, "True 1 True\n", marks=pytest.mark.slow),
    ],
    ids=["an old processor", "without VAES"],
)
def test_one_block_at_a_time_gives_the_same_bytes(settings, expected, tmp_path):
    source = Path(__file__).parents[2] / "src"
    done = subprocess.run(
        [sys.executable, "-c", NARROW],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **settings, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(source)},
    )
    assert done.stdout == expected, done.stdout + done.stderr


def test_importing_loads_neither_numba_nor_cryptography():
    source = (
        "import sys, sfumato.secure; print({'numba', 'cryptography', 'nacl'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", source],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")},
    )
    assert done.stdout == "set()\n", done.stdout + done.stderr


# Loops and what numpy and OpenSSL do instead


class Drawn:
    """Random bytes that are the same in every run, for each party and of each kind in order."""

    def __init__(self) -> None:
        self._left: dict[tuple[str, str], np.random.Generator] = {}

    def of(self, kind: str, length: int) -> bytes:
        who = (threading.current_thread()._args[0], kind)  # `together` runs a role in each thread
        generator = self._left.setdefault(who, np.random.default_rng([*"|".join(who).encode()]))
        return generator.bytes(length)


def everything_in_all_kinds_of_rings(session):
    opened = everything(session)
    for ring in (
        Ring.power_of_two(24),
        Ring.power_of_two(100),
        Ring(1 << 200),
        Ring.odd(2**90 + 7),
    ):
        x = secure.share(session, [5, -3, 2**20, 0, 1], ring=ring, owner="alice", n=5)
        opened += list(secure.reveal(session, secure.multiply(session, x, x), what="squares"))
    return opened


@needs_aes
def test_without_a_compiler_the_same_bytes_are_sent(monkeypatch):
    sent = {}
    send = Channel.send

    def watched(self, step, payload):
        role = threading.current_thread()._args[0]
        sent[way].setdefault(role, []).append((step, bytes(memoryview(payload).cast("B"))))
        return send(self, step, payload)

    monkeypatch.setattr(Channel, "send", watched)
    results = []
    for way in ("compiled", "instead"):
        drawn, sent[way] = Drawn(), {}
        monkeypatch.setattr(os, "urandom", partial(drawn.of, "urandom"))
        monkeypatch.setattr(secrets, "token_bytes", partial(drawn.of, "bytes"))
        monkeypatch.setattr(secrets, "token_hex", lambda n, d=drawn: d.of("hex", n).hex())
        with running(way):
            results.append(agree(everything_in_all_kinds_of_rings))
    assert results[0] == results[1]
    assert sent["compiled"] == sent["instead"]
    assert {"circuit: tables", "products: corrections", "transfers: matrix"} <= {
        step for step, _ in sent["instead"]["alice"] + sent["instead"]["bob"]
    }
