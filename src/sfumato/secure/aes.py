"""Hashing and garbling on AES: compiled for the processor's own instructions, or by OpenSSL.

Both ways give the same bytes, so a party with the instructions and one without can work together,
and one that has them begins with OpenSSL and compiles when that pays. Neither way takes another
path for other secrets; key schedules look up a table at places that depend on the key.

The hash is H(x; key, i) = AES_key(y) xor y with y = σ(x) xor i and σ(l, h) = (h, l xor h): a
re-keyed, tweaked, circular correlation robust hash (Guo, Katz, Wang & Yu 2020, "MiTCCR", with a
linear tweak added so that no (key, tweak) pair ever serves two instances). Garbling is the half
gates of Zahur, Rosulek & Evans 2015 with free XOR: two ciphertexts an AND.

Labels are pairs of uint64; the same circuit is garbled for a whole batch, gate by gate, so that
one key schedule serves the batch and the AES pipeline stays full. With VAES and AVX-512 four
blocks go through one instruction; otherwise eight independent blocks hide its latency.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import config
from numba.extending import intrinsic
from numpy.typing import NDArray

from sfumato.errors import MissingExtraError, ParameterError
from sfumato.kernels.compiling import Loop, njit, plain
from sfumato.secure.circuit import NOT, XOR, Circuit
from sfumato.secure.oblivious_transfer import ROWS_A_KEY

Bits = NDArray[np.uint8]
Words = NDArray[np.uint64]

_GROUP = 8
_ZERO = np.uint64(0)
_ONE = np.uint64(1)


def _features() -> set[str]:
    """What numba may use: the host's instructions, or what its settings say instead."""
    allowed: set[str] = set()
    if config.CPU_NAME in (None, "host"):
        allowed = {name for name, there in binding.get_host_cpu_features().items() if there}
    for change in (config.CPU_FEATURES or "").split(","):
        if change.startswith("+"):
            allowed.add(change[1:])
        else:
            allowed.discard(change[1:])
    return allowed


def available() -> bool:
    """Whether this processor has the instructions for AES and carry-less multiplication."""
    return {"aes", "pclmul", "sse2"} <= _features()


def _vector_blocks() -> int:
    """Blocks that one instruction takes: four with VAES and AVX-512, else one."""
    return 4 if {"vaes", "avx512f"} <= _features() else 1


class _Vectors:
    """Writes the machine instructions for a group of AES blocks into a numba function."""

    def __init__(self, builder: Any, blocks: int) -> None:
        self.builder = builder
        self.width = min(_vector_blocks(), blocks)
        self.count = blocks // self.width
        self.word = ir.IntType(64)
        self.index = ir.IntType(32)
        self.type = ir.VectorType(self.word, 2 * self.width)

    def load(self, pointer: Any) -> list[Any]:
        base = self.builder.inttoptr(pointer, self.type.as_pointer())
        loaded = []
        for i in range(self.count):
            place = self.builder.gep(base, [ir.Constant(self.index, i)])
            loaded.append(self.builder.load(place, align=8))
        return loaded

    def store(self, values: list[Any], pointer: Any) -> None:
        base = self.builder.inttoptr(pointer, self.type.as_pointer())
        for i, value in enumerate(values):
            place = self.builder.gep(base, [ir.Constant(self.index, i)])
            self.builder.store(value, place, align=8)

    def pair(self, low: Any, high: Any) -> Any:
        """The same (low, high) in every block."""
        return self.words([low, high] * self.width)

    def words(self, words: list[Any]) -> Any:
        vector = ir.Constant(self.type, ir.Undefined)
        for i, word in enumerate(words):
            vector = self.builder.insert_element(vector, word, ir.Constant(self.index, i))
        return vector

    def xor(self, values: list[Any], other: Any) -> list[Any]:
        return [self.builder.xor(value, other) for value in values]

    def sigma(self, values: list[Any]) -> list[Any]:
        lanes = 2 * self.width
        order = ir.Constant(
            ir.VectorType(self.index, lanes), [ir.Constant(self.index, i ^ 1) for i in range(lanes)]
        )
        odd = ir.Constant(self.type, [ir.Constant(self.word, -(i % 2)) for i in range(lanes)])
        undefined = ir.Constant(self.type, ir.Undefined)
        return [
            self.builder.xor(
                self.builder.shuffle_vector(value, undefined, order), self.builder.and_(value, odd)
            )
            for value in values
        ]

    def counters(self, first: Any) -> list[Any]:
        """(first + b, 0) for block b."""
        zero = ir.Constant(self.word, 0)
        result = []
        for i in range(self.count):
            words = []
            for b in range(self.width):
                offset = ir.Constant(self.word, i * self.width + b)
                words += [self.builder.add(first, offset), zero]
            result.append(self.words(words))
        return result

    def encrypt(self, values: list[Any], round_keys: Any) -> list[Any]:
        suffix = ".512" if self.width == 4 else ""
        middle = self._instruction(f"llvm.x86.aesni.aesenc{suffix}")
        last = self._instruction(f"llvm.x86.aesni.aesenclast{suffix}")
        state = self.xor(values, self._round_key(round_keys, 0))
        for i in range(1, 10):
            key = self._round_key(round_keys, i)
            state = [self.builder.call(middle, [value, key]) for value in state]
        key = self._round_key(round_keys, 10)
        return [self.builder.call(last, [value, key]) for value in state]

    def _round_key(self, round_keys: Any, number: int) -> Any:
        two = ir.VectorType(self.word, 2)
        base = self.builder.inttoptr(round_keys, two.as_pointer())
        place = self.builder.gep(base, [ir.Constant(self.index, number)])
        key = self.builder.load(place, align=8)
        if self.width == 1:
            return key
        lanes = [ir.Constant(self.index, i % 2) for i in range(2 * self.width)]
        spread = ir.Constant(ir.VectorType(self.index, len(lanes)), lanes)
        return self.builder.shuffle_vector(key, ir.Constant(two, ir.Undefined), spread)

    def _instruction(self, name: str) -> Any:
        module = self.builder.module
        found = module.globals.get(name)
        if found is not None:
            return found
        return ir.Function(module, ir.FunctionType(self.type, [self.type, self.type]), name)


def _hash_code(blocks: int) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, target, round_keys, low, high, tweak = arguments
        vectors = _Vectors(builder, blocks)
        labels = vectors.xor(vectors.load(source), vectors.pair(low, high))
        mixed = [
            builder.xor(value, counter)
            for value, counter in zip(vectors.sigma(labels), vectors.counters(tweak), strict=True)
        ]
        hashed = vectors.encrypt(mixed, round_keys)
        vectors.store([builder.xor(a, b) for a, b in zip(hashed, mixed, strict=True)], target)
        return context.get_dummy_value()

    return generate


def _ctr_code(blocks: int) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target, round_keys, first = arguments
        vectors = _Vectors(builder, blocks)
        vectors.store(vectors.encrypt(vectors.counters(first), round_keys), target)
        return context.get_dummy_value()

    return generate


_U64 = types.uint64


@intrinsic
def _hash_group(typing, source, target, round_keys, low, high, tweak):  # type: ignore[no-untyped-def]
    return types.void(_U64, _U64, _U64, _U64, _U64, _U64), _hash_code(_GROUP)


@intrinsic
def _hash_single(typing, source, target, round_keys, low, high, tweak):  # type: ignore[no-untyped-def]
    return types.void(_U64, _U64, _U64, _U64, _U64, _U64), _hash_code(1)


@intrinsic
def _ctr_group(typing, target, round_keys, first):  # type: ignore[no-untyped-def]
    return types.void(_U64, _U64, _U64), _ctr_code(_GROUP)


@intrinsic
def _ctr_single(typing, target, round_keys, first):  # type: ignore[no-untyped-def]
    return types.void(_U64, _U64, _U64), _ctr_code(1)


def _substitution_box() -> np.ndarray[Any, np.dtype[np.uint8]]:
    """AES's S-box, computed from its definition (FIPS 197, §5.1.1)."""
    box = np.zeros(256, np.uint8)
    p = q = 1
    while True:
        p = p ^ ((p << 1) & 255) ^ (0x1B if p & 0x80 else 0)
        q ^= (q << 1) & 255
        q ^= (q << 2) & 255
        q ^= (q << 4) & 255
        if q & 0x80:
            q ^= 9
        rotated = [((q << i) | (q >> (8 - i))) & 255 for i in range(5)]
        box[p] = rotated[0] ^ rotated[1] ^ rotated[2] ^ rotated[3] ^ rotated[4] ^ 0x63
        if p == 1:
            break
    box[0] = 0x63
    return box


_BOX = _substitution_box()
_ROUND = np.array([1, 2, 4, 8, 16, 32, 64, 128, 27, 54], np.uint8)


@njit(nogil=True)
def _expand(low, high, keys):  # type: ignore[no-untyped-def]
    """AES-128 key schedule (FIPS 197, §5.2): uint8[176] from a key of two little-endian words."""
    for i in range(8):
        keys[i] = np.uint8((low >> np.uint64(8 * i)) & np.uint64(255))
        keys[8 + i] = np.uint8((high >> np.uint64(8 * i)) & np.uint64(255))
    for i in range(4, 44):
        a, b, c, d = keys[4 * i - 4], keys[4 * i - 3], keys[4 * i - 2], keys[4 * i - 1]
        if i % 4 == 0:
            a, b, c, d = _BOX[b] ^ _ROUND[i // 4 - 1], _BOX[c], _BOX[d], _BOX[a]
        keys[4 * i] = keys[4 * i - 16] ^ a
        keys[4 * i + 1] = keys[4 * i - 15] ^ b
        keys[4 * i + 2] = keys[4 * i - 14] ^ c
        keys[4 * i + 3] = keys[4 * i - 13] ^ d


@njit(nogil=True, inline="always")
def _expand_at(low, high, offset, keys):  # type: ignore[no-untyped-def]
    moved = low + np.uint64(offset)
    _expand(moved, high + np.uint64(moved < low), keys)


_kernel = partial(partial, Loop, most=1 << 22)
"""Marks a loop, and says what OpenSSL and numpy do instead."""


def _expanded(keys: Words) -> Bits:
    out = np.empty((176, len(keys)), np.uint8)
    plain(_expand)(keys[:, 0], keys[:, 1], out)
    return np.ascontiguousarray(out.T)


@_kernel(instead=_expanded, patience=0.5)
def expand_keys(keys):  # type: ignore[no-untyped-def]
    """Key schedules of many keys: uint64[n, 2] to uint8[n, 176]."""
    out = np.empty((len(keys), 176), np.uint8)
    for i in range(len(keys)):
        _expand(keys[i, 0], keys[i, 1], out[i])
    return out


@njit(nogil=True, inline="always")
def _hash_row(source, target, count, round_keys, low, high):  # type: ignore[no-untyped-def]
    i = 0
    while i + _GROUP <= count:
        _hash_group(
            _U64(source + 16 * i), _U64(target + 16 * i), _U64(round_keys),
            _U64(low), _U64(high), _U64(i),
        )  # fmt: skip
        i += _GROUP
    while i < count:
        _hash_single(
            _U64(source + 16 * i), _U64(target + 16 * i), _U64(round_keys),
            _U64(low), _U64(high), _U64(i),
        )  # fmt: skip
        i += 1


def _hashed(labels: Words, key: int) -> Words:
    """H(labels[…, i, :]; key + i // 4096, i % 4096), by OpenSSL."""
    mixed = np.empty_like(labels)
    tweaks = np.arange(labels.shape[-2], dtype=np.uint64) % np.uint64(ROWS_A_KEY)
    mixed[..., 0] = labels[..., 1] ^ tweaks
    mixed[..., 1] = labels[..., 0] ^ labels[..., 1]
    encrypted: Words = np.empty_like(mixed)
    for number, start in enumerate(range(0, len(tweaks), ROWS_A_KEY)):
        part = (..., slice(start, start + ROWS_A_KEY), slice(None))
        encrypted[part] = _aes_blocks(_shifted(key, number).to_bytes(16, "little"), mixed[part])
    return encrypted ^ mixed


def _hashed_rows(
    labels: Words, low: np.uint64, high: np.uint64, delta_low: Any, delta_high: Any, out: Words
) -> None:
    out[:] = _hashed(labels ^ np.array([delta_low, delta_high]), _whole(low, high))


@_kernel(instead=_hashed_rows, patience=0.7)
def hash_rows(labels, key_low, key_high, delta_low, delta_high, out):  # type: ignore[no-untyped-def]
    """out[i] = H(labels[i] xor delta; key + i // 4096, i % 4096)."""
    round_keys = np.empty(176, np.uint8)
    for start in range(0, len(labels), ROWS_A_KEY):
        _expand_at(key_low, key_high, start // ROWS_A_KEY, round_keys)
        count = min(ROWS_A_KEY, len(labels) - start)
        _hash_row(
            labels.ctypes.data + 16 * start, out.ctypes.data + 16 * start, count,
            round_keys.ctypes.data, delta_low, delta_high,
        )  # fmt: skip


@intrinsic
def _carryless(typing, a, b):  # type: ignore[no-untyped-def]
    """The product of two polynomials over GF(2), as its low and its high word."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        word, index = ir.IntType(64), ir.IntType(32)
        pair = ir.VectorType(word, 2)
        name = "llvm.x86.pclmulqdq"
        instruction = builder.module.globals.get(name) or ir.Function(
            builder.module, ir.FunctionType(pair, [pair, pair, ir.IntType(8)]), name
        )
        zero, one = ir.Constant(index, 0), ir.Constant(index, 1)
        vectors = [
            builder.insert_element(ir.Constant(pair, ir.Undefined), value, zero)
            for value in arguments
        ]
        product = builder.call(instruction, [*vectors, ir.Constant(ir.IntType(8), 0)])
        halves = [builder.extract_element(product, place) for place in (zero, one)]
        return context.make_tuple(builder, signature.return_type, halves)

    return types.UniTuple(_U64, 2)(_U64, _U64), generate


def _combined(rows: Words, weights: Words, low: Words, high: Words) -> None:
    for bit in range(64):
        chosen = np.uint64(0) - ((weights >> np.uint64(bit)) & np.uint64(1))
        words = np.bitwise_xor.reduce(rows & chosen, axis=1)
        low ^= words << np.uint64(bit)
        if bit:
            high ^= words >> np.uint64(64 - bit)


@_kernel(instead=_combined, patience=0.5)
def combine(rows, weights, low, high):  # type: ignore[no-untyped-def]
    """Add Σ_w rows[r, w] · weights[w], products over GF(2), to (high, low)[r]."""
    for r in range(len(rows)):
        below, above = low[r], high[r]
        for w in range(len(weights)):
            first, second = _carryless(rows[r, w], weights[w])
            below ^= first
            above ^= second
        low[r], high[r] = below, above


def _streamed(round_keys: Bits, first: np.uint64, out: Words) -> None:
    counters = np.zeros((out.shape[1] // 2, 2), np.uint64)
    counters[:, 0] = first + np.arange(len(counters), dtype=np.uint64)
    for row, keys in enumerate(round_keys):  # the first is the key itself
        out[row] = _aes_blocks(keys[:16].tobytes(), counters).reshape(-1)


@_kernel(instead=_streamed, patience=0.7)
def ctr(round_keys, first, out):  # type: ignore[no-untyped-def]
    """Row r of out (uint64[keys, words]) = AES-CTR stream of key r from block `first` on."""
    blocks = out.shape[1] // 2
    for r in range(len(round_keys)):
        keys = round_keys[r].ctypes.data
        target = out[r].ctypes.data
        i = 0
        while i + _GROUP <= blocks:
            _ctr_group(_U64(target + 16 * i), _U64(keys), _U64(first + np.uint64(i)))
            i += _GROUP
        while i < blocks:
            _ctr_single(_U64(target + 16 * i), _U64(keys), _U64(first + np.uint64(i)))
            i += 1


def _garbled(
    kinds: Any, left: Any, right: Any, target: Any, wires: Words, tables: Words, delta: Words,
    low: np.uint64, high: np.uint64,
) -> None:  # fmt: skip
    key, gate = _whole(low, high), 0
    both = np.stack([np.zeros_like(delta), delta])[:, None]
    for kind, x, y, out in zip(kinds, left, right, target, strict=True):
        a, b = wires[x], wires[y]
        if kind == XOR:
            wires[out] = a ^ b
        elif kind == NOT:
            wires[out] = a ^ delta
        else:
            key_a, key_b = _shifted(key, 2 * gate), _shifted(key, 2 * gate + 1)
            a0, a1 = _hashed(a ^ both, key_a)
            b0, b1 = _hashed(b ^ both, key_b)
            colour_a, colour_b = _colour(a), _colour(b)
            first = a0 ^ a1 ^ (colour_b & delta)
            second = b0 ^ b1 ^ a
            tables[gate, 0], tables[gate, 1] = first, second
            wires[out] = a0 ^ (colour_a & first) ^ b0 ^ (colour_b & (second ^ a))
            gate += 1


@_kernel(instead=_garbled, patience=1.0)
def garble(kinds, left, right, target, wires, tables, delta, key_low, key_high):  # type: ignore[no-untyped-def]
    """Garble a circuit for a batch: wires[slot, instance] holds the label of zero.

    AND gate number g hashes its left input under key 2g and its right input under key 2g + 1,
    counted from (key_low, key_high); instance i has tweak i.
    """
    batch = wires.shape[1]
    a0 = np.empty((batch, 2), np.uint64)
    a1 = np.empty((batch, 2), np.uint64)
    b0 = np.empty((batch, 2), np.uint64)
    b1 = np.empty((batch, 2), np.uint64)
    keys_a = np.empty(176, np.uint8)
    keys_b = np.empty(176, np.uint8)
    low, high = delta[0], delta[1]
    gate = 0
    for j in range(len(kinds)):
        a, b, out = wires[left[j]], wires[right[j]], wires[target[j]]
        if kinds[j] == 0:
            for i in range(batch):
                out[i, 0] = a[i, 0] ^ b[i, 0]
                out[i, 1] = a[i, 1] ^ b[i, 1]
        elif kinds[j] == 1:
            for i in range(batch):
                out[i, 0] = a[i, 0] ^ low
                out[i, 1] = a[i, 1] ^ high
        else:
            _expand_at(key_low, key_high, 2 * gate, keys_a)
            _expand_at(key_low, key_high, 2 * gate + 1, keys_b)
            pa, pb = a.ctypes.data, b.ctypes.data
            ka, kb = keys_a.ctypes.data, keys_b.ctypes.data
            _hash_row(pa, a0.ctypes.data, batch, ka, _ZERO, _ZERO)
            _hash_row(pa, a1.ctypes.data, batch, ka, low, high)
            _hash_row(pb, b0.ctypes.data, batch, kb, _ZERO, _ZERO)
            _hash_row(pb, b1.ctypes.data, batch, kb, low, high)
            generator, evaluator = tables[gate, 0], tables[gate, 1]
            for i in range(batch):
                colour_a = _ZERO - (a[i, 0] & _ONE)
                colour_b = _ZERO - (b[i, 0] & _ONE)
                for w in range(2):
                    d = low if w == 0 else high
                    label = a[i, w]
                    first = a0[i, w] ^ a1[i, w] ^ (colour_b & d)
                    second = b0[i, w] ^ b1[i, w] ^ label
                    generator[i, w] = first
                    evaluator[i, w] = second
                    out[i, w] = (
                        a0[i, w] ^ (colour_a & first) ^ b0[i, w] ^ (colour_b & (second ^ label))
                    )
            gate += 1


def _evaluated(
    kinds: Any, left: Any, right: Any, target: Any, wires: Words, tables: Words,
    low: np.uint64, high: np.uint64,
) -> None:  # fmt: skip
    key, gate = _whole(low, high), 0
    for kind, x, y, out in zip(kinds, left, right, target, strict=True):
        a, b = wires[x], wires[y]
        if kind == XOR:
            wires[out] = a ^ b
        elif kind == NOT:
            wires[out] = a
        else:
            hashed_a = _hashed(a, _shifted(key, 2 * gate))
            hashed_b = _hashed(b, _shifted(key, 2 * gate + 1))
            first, second = tables[gate]
            wires[out] = hashed_a ^ (_colour(a) & first) ^ hashed_b ^ (_colour(b) & (second ^ a))
            gate += 1


@_kernel(instead=_evaluated, patience=1.0)
def evaluate(kinds, left, right, target, wires, tables, key_low, key_high):  # type: ignore[no-untyped-def]
    """Evaluate a garbled circuit for a batch: wires hold the active labels."""
    batch = wires.shape[1]
    ha = np.empty((batch, 2), np.uint64)
    hb = np.empty((batch, 2), np.uint64)
    keys_a = np.empty(176, np.uint8)
    keys_b = np.empty(176, np.uint8)
    gate = 0
    for j in range(len(kinds)):
        a, b, out = wires[left[j]], wires[right[j]], wires[target[j]]
        if kinds[j] == 0:
            for i in range(batch):
                out[i, 0] = a[i, 0] ^ b[i, 0]
                out[i, 1] = a[i, 1] ^ b[i, 1]
        elif kinds[j] == 1:
            for i in range(batch):
                out[i, 0] = a[i, 0]
                out[i, 1] = a[i, 1]
        else:
            _expand_at(key_low, key_high, 2 * gate, keys_a)
            _expand_at(key_low, key_high, 2 * gate + 1, keys_b)
            _hash_row(a.ctypes.data, ha.ctypes.data, batch, keys_a.ctypes.data, _ZERO, _ZERO)
            _hash_row(b.ctypes.data, hb.ctypes.data, batch, keys_b.ctypes.data, _ZERO, _ZERO)
            generator, evaluator = tables[gate, 0], tables[gate, 1]
            for i in range(batch):
                colour_a = _ZERO - (a[i, 0] & _ONE)
                colour_b = _ZERO - (b[i, 0] & _ONE)
                for w in range(2):
                    out[i, w] = (
                        ha[i, w]
                        ^ (colour_a & generator[i, w])
                        ^ hb[i, w]
                        ^ (colour_b & (evaluator[i, w] ^ a[i, w]))
                    )
            gate += 1


_MASK = (1 << 64) - 1


class Engine:
    """Hashing and garbling of whole batches: by OpenSSL while there is little, then compiled."""

    def _run(self, loop: Loop) -> Callable[..., Any]:
        return loop

    @property
    def name(self) -> str:
        """ "aes-ni" or "openssl": whether anything has run compiled in this process."""
        loops = (expand_keys, ctr, hash_rows, combine, garble, evaluate)
        return "aes-ni" if any(loop.settled for loop in loops) else "openssl"

    def schedule(self, keys: Words) -> Bits:
        """Key schedules of keys (uint64[n, 2]) for `stream`, uint8[n, 176]."""
        schedules: Bits = self._run(expand_keys)(keys)
        return schedules

    def stream(self, schedule: Bits, first: int, out: Words) -> None:
        """Row r of out (uint64[n, words]) = AES-CTR of key r, from block `first` on."""
        self._run(ctr)(schedule, np.uint64(first), out)

    def hash(self, labels: Words, key: int, *, delta: Words | None = None) -> Words:
        """H(labels[i] xor delta; key + i // 4096, i % 4096) for every i."""
        low, high = (_ZERO, _ZERO) if delta is None else (delta[0], delta[1])
        rows = np.ascontiguousarray(labels)  # the loop walks over memory, not over strides
        out = np.empty_like(rows)
        self._run(hash_rows)(rows, *_key(key), low, high, out)
        return out

    def combine(self, rows: Words, weights: Words, low: Words, high: Words) -> None:
        """Add Σ_w rows[r, w] · weights[w], carry-less products of 128 bits, to (high, low)[r]."""
        self._run(combine)(rows, weights, low, high)

    def garble(self, circuit: Circuit, wires: Words, delta: Words, key: int) -> Words:
        """Fill `wires` (labels of zero) gate by gate; return the tables."""
        tables = np.empty((circuit.and_gates, 2, wires.shape[1], 2), np.uint64)
        self._run(garble)(*circuit.program, wires, tables, delta, *_key(key))
        return tables

    def evaluate(self, circuit: Circuit, wires: Words, tables: Words, key: int) -> None:
        """Fill `wires` (active labels) gate by gate."""
        self._run(evaluate)(*circuit.program, wires, tables, *_key(key))


class CompiledEngine(Engine):
    """AES-NI (and VAES where there is) through numba, however little there is to do."""

    name = "aes-ni"

    def _run(self, loop: Loop) -> Callable[..., Any]:
        dispatcher: Callable[..., Any] = loop.dispatcher
        return dispatcher


class PortableEngine(Engine):
    """numpy, with AES from OpenSSL: for processors without the AES instructions."""

    name = "openssl"

    def _run(self, loop: Loop) -> Callable[..., Any]:
        assert loop.instead is not None
        return loop.instead


def choose(name: str = "auto") -> Engine:
    """The engine of that name; "auto" compiles where it pays and the processor allows it."""
    if name not in ("auto", "aes-ni", "openssl"):
        raise ParameterError(f"`{name}` is not an engine", remedy="Use auto, aes-ni or openssl.")
    if name == "openssl" or (name == "auto" and not available()):
        return PortableEngine()
    if not available():
        raise ParameterError(
            "this processor has no AES instructions", remedy="Use the engine openssl or auto."
        )
    return CompiledEngine() if name == "aes-ni" else Engine()


def _key(key: int) -> tuple[np.uint64, np.uint64]:
    return np.uint64(key & _MASK), np.uint64(key >> 64)


def _whole(low: np.uint64, high: np.uint64) -> int:
    return int(low) | int(high) << 64


def _shifted(key: int, offset: int) -> int:
    return (key + offset) % (1 << 128)


def _colour(labels: Words) -> Words:
    return (np.uint64(0) - (labels[:, :1] & np.uint64(1))).astype(np.uint64)


def _aes_blocks(key: bytes, blocks: Words) -> Words:
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    except ImportError as error:
        raise MissingExtraError("secure", "secure computation") from error

    encrypted = (
        Cipher(algorithms.AES(key), modes.ECB())
        .encryptor()
        .update(np.ascontiguousarray(blocks).tobytes())
    )
    return np.frombuffer(encrypted, np.uint64).reshape(blocks.shape)
