"""Ryger, Kardes & Wright: the logarithms of section 7, the scale of section 3, the quick logarithm.

Both parties run in one process, so that seconds are CPU seconds of both together.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import lcm, log, log2
from typing import Any

import numpy as np

from sfumato import secure
from sfumato.papers.findings import Found, Grid, claim, figure, seconds, timed
from sfumato.secure.logarithm import _paper_circuit, log2_quick
from sfumato.secure.polynomial import taylor_scale

__all__ = ["EXPERIMENTS"]

MODULUS = (1 << 60) - 93
"""A prime of 60 bits."""
RUNS = {(17, 3): (0.0112, 1497, 5.0), (13, 4): (0.0044, 1386, 4.9), (10, 5): (0.0018, 1314, 4.8)}
"""Bits of x and terms of the series: error, gates and seconds."""
PENTIUM = "CPU seconds of both parties here; a Pentium 4 with Fairplay there"


def _logarithms(numbers: Any, bits: int, terms: int, backend: str = "ot") -> Any:
    """ln of numbers by the paper's protocol, in its field of 60 bits."""
    ring = secure.Ring.odd(MODULUS)
    parts = {True: numbers // 3, False: numbers - numbers // 3}

    def party(session: secure.Session) -> Any:
        x = secure.private(ring, parts[session.is_alice].tolist())
        shares = secure.log(session, x, bits=bits, terms=terms, backend=backend)
        return secure.reveal_real(session, shares, what="the logarithms, to check them")

    return secure.together(party, party, timeout=600.0)[0]


def section_7(quick: bool) -> Iterator[Found]:
    """Section 7: one logarithm in a field of 60 bits."""
    ring = secure.Ring.odd(MODULUS)
    _logarithms(np.array([5, 6]), 10, 5)
    for (bits, terms), (error, gates, spent) in RUNS.items():
        here = f"section 7, {bits} bits, k = {terms}"
        numbers = np.arange(1, 1 << bits)
        if len(numbers) > (300 if quick else 3_000):
            random = np.random.default_rng(bits)
            numbers = random.choice(numbers, 300 if quick else 3_000, replace=False)
        worst = float(np.abs(_logarithms(numbers, bits, terms) - np.log(numbers)).max())
        bound = secure.log_error(ring, bits=bits, terms=terms)
        yield figure(f"{here}, stated error", error, bound)
        yield claim(
            f"{here}, error", f"within {error}", f"at most {worst:.4f} on {len(numbers):,} numbers",
            worst <= bound,
        )  # fmt: skip
        circuit = _paper_circuit(ring, bits, bits)
        total = circuit.and_gates + circuit.free_gates
        yield claim(
            f"{here}, gates", f"{gates:,}",
            f"{total:,}, of which {circuit.and_gates:,} cost anything", total == gates,
            "another circuit, counted in gates of two inputs; exclusive or and negation are free",
        )  # fmt: skip
        _, cpu = timed(partial(_logarithms, np.array([1000]), bits, terms))
        yield seconds(f"{here}, seconds", spent, cpu, PENTIUM)
    if quick:
        return
    _, cpu = timed(lambda: _logarithms(np.arange(1, 501), 13, 4))
    yield seconds("section 7, almost 500 logarithms", 2500, cpu, PENTIUM)
    _, cpu = timed(lambda: _logarithms(np.array([1000]), 13, 4, "paillier"))
    yield seconds("section 7, 13 bits, k = 4, with Paillier's encryption", 4.9, cpu, PENTIUM)


def section_3(quick: bool) -> Iterator[Found]:
    """Section 3: the scale, and the size of the field."""
    bits, terms = 10, 4
    off = {}
    for name, scale in (
        ("uncorrected", lcm(*range(2, terms + 1)) << bits),
        ("corrected", taylor_scale(bits, terms)),
    ):
        errors = [
            abs(_series(scaled, bits, terms, scale) - log(1 + scaled / (1 << bits)))
            for scaled in range(-(1 << bits) // 3 + 1, 1 << (bits - 1), 7)
        ]
        off[name] = float(np.median(errors))
    yield claim(
        "section 3, scale 2^N · lcm(2, …, k) of Lindell & Pinkas", "does not work",
        f"median error {off['uncorrected']:.3g}", off["uncorrected"] > 1,
    )  # fmt: skip
    yield claim(
        "section 3, scale 2^(Nk) · lcm(2, …, k)", "works",
        f"median error {off['corrected']:.3g}", off["corrected"] < 0.01,
    )  # fmt: skip
    rows: list[tuple[str, float, float]] = []
    for bits, terms in RUNS:
        stated = bits * terms + 2 * terms + log2(bits)
        needed = log2(2 * taylor_scale(bits, terms) * bits * log(2))
        rows.append((f"{bits} bits, k = {terms}", round(stated, 1), round(needed, 1)))
    yield Grid("Size of the field in bits", ["setting", "section 3 states", "needed"], rows)
    fits = all(needed < 60 for _, _, needed in rows)
    yield claim(
        "section 7, a field of 60 bits", "suffices, although section 3 states more",
        f"{max(needed for _, _, needed in rows)} bits are needed at most", fits,
    )  # fmt: skip


def _series(scaled: int, bits: int, terms: int, scale: int) -> float:
    """ln(1 + ε) by the series with division in a field, as the parties compute it."""
    total = 0
    for power in range(1, terms + 1):
        sign = 1 if power % 2 else -1
        divisor = power * (1 << (bits * power))
        # the field divides exactly only what is divisible
        inverse = pow(divisor, -1, MODULUS)
        total += sign * scale * scaled**power * inverse
    residue = total % MODULUS
    return (residue - MODULUS if residue > MODULUS // 2 else residue) / scale


def section_6(quick: bool) -> Iterator[Found]:
    """Section 6: the quick base-two logarithm."""
    grid = np.linspace(1, 2, 100_001)
    deviation = float((np.log2(grid) - (grid - 1)).max())
    yield figure(
        "section 6, log2 x against x - 1 in [1, 2]", 0.085, deviation, "rounded down in the paper"
    )
    bits = 12
    numbers = np.arange(1, 1 << bits) if not quick else np.arange(1, 1 << bits, 16)
    ring = secure.Ring.power_of_two(32)

    def party(session: secure.Session) -> Any:
        mine = numbers // 2 if session.is_alice else numbers - numbers // 2
        found = log2_quick(session, secure.private(ring, mine.tolist()), bits=bits, centred=False)
        return secure.reveal_real(session, found, what="the logarithms, to check them")

    found = secure.together(party, party)[0]
    worst = float((np.log2(numbers) - found).max())
    yield claim(
        "section 6, error of the quick logarithm", "within 1/16 = 0.0625", f"up to {worst:.3f}",
        worst <= 1 / 16,
        "the line is up to 0.086 below log2, and cutting to four bits takes up to 1/16 more",
    )  # fmt: skip


def bayes_net(quick: bool) -> Iterator[Found]:
    """Section 7: a Bayes net of 100,000 records of six fields."""
    if quick:
        return
    random = np.random.default_rng(5)

    def drawn(chance: Any) -> Any:
        return (random.random(100_000) < chance).astype(np.int64)

    a = drawn(0.3)
    b = drawn(np.where(a, 0.7, 0.2))
    c = drawn(0.5)
    d = drawn(0.1 + 0.5 * (b & c) + 0.2 * b)
    e = drawn(np.where(c, 0.55, 0.5))
    codes = np.stack([a, b, c, d, e, drawn(0.2 + 0.3 * d + 0.3 * e)], axis=1)
    schema = secure.Schema.of({name: ["no", "yes"] for name in "abcdef"})
    alices = random.random(codes.shape) < 0.5

    def party(session: secure.Session) -> Any:
        own = alices if session.is_alice else ~alices
        held = secure.HeldCells(schema, np.where(own, codes, -1))
        return secure.search_net(session, held, max_parents=5, score="stirling")

    _, cpu = timed(lambda: secure.together(party, party, timeout=600.0))
    yield seconds(
        "section 7, Bayes net, 100,000 records of 6 fields", "2.5 hours", cpu,
        "another table (generated, every cell given to one of the two at random) and machine",
    )  # fmt: skip


EXPERIMENTS = (section_3, section_6, section_7, bayes_net)
