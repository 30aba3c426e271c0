"""Ryger, Kardes & Wright: the logarithms of section 7, the scale of section 3, the quick logarithm.

Both parties run in one process, so that seconds are CPU seconds of both together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from math import lcm, log, log2
from typing import Any

import numpy as np

from sfumato import secure
from sfumato.papers.reproduction import Found, Grid, claim, figure, seconds, timed
from sfumato.secure.arithmetic import _wrap_circuit
from sfumato.secure.logarithm import SCALINGS, Setting, _paper_circuit, log2_quick
from sfumato.secure.polynomial import PrivateKey, taylor_scale

MODULUS = (1 << 60) - 93
"""A prime of 60 bits."""
RUNS = {(17, 3): (0.0112, 1497, 5.0), (13, 4): (0.0044, 1386, 4.9), (10, 5): (0.0018, 1314, 4.8)}
"""Bits of x and terms of the series: error, gates and seconds."""
TABLE = "another table (generated, every cell given to one of the two at random) and machine"
PENTIUM = "CPU seconds of both parties here; a Pentium 4 with Fairplay there"


def _logarithms(
    numbers: Any, bits: int, terms: int, backend: str = "ot", scaling: str = "whole"
) -> Any:
    """ln of numbers by the paper's protocol, in its field of 60 bits."""
    ring = secure.Ring.odd(MODULUS)
    parts = {True: numbers // 3, False: numbers - numbers // 3}

    def party(session: secure.Session) -> Any:
        x = secure.private(ring, parts[session.is_alice].tolist())
        shares = secure.log(session, x, bits=bits, terms=terms, backend=backend, scaling=scaling)
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
    yield seconds("section 7, almost 500 logarithms", "about 5 s each", cpu, PENTIUM)
    _, cpu = timed(lambda: _logarithms(np.array([1000]), 13, 4, "paillier"))
    yield seconds("section 7, 13 bits, k = 4, with Paillier's encryption", 4.9, cpu, PENTIUM)


def scaling(quick: bool) -> Iterator[Found]:
    """Sections 2, 4 and 5: from n to n · ln 2, by a table, by a selection, by shares that wrap."""
    ring = secure.Ring.odd(MODULUS)
    gates: dict[tuple[int, str], int] = {}
    worst: dict[str, float] = {}
    rows = []
    for (bits, terms), way in product(RUNS, SCALINGS):
        circuit = _paper_circuit(ring, bits, bits, way == "table")
        if way == "exact":
            gates[bits, way] = circuit.and_gates + _wrap_circuit(ring).and_gates
        else:
            gates[bits, way] = circuit.and_gates
        powers = np.tile(1 << np.arange(bits), 10 if quick else 100)
        found, cpu = timed(partial(_logarithms, powers, bits, terms, scaling=way))
        off = float(np.abs(found - np.log(powers)).max()) * 2**bits
        worst[way] = max(off, worst.get(way, 0.0))
        rows.append((f"{bits} bits, k = {terms}", way, gates[bits, way], round(off, 2),
                     round(1000 * cpu / len(powers), 3)))  # fmt: skip
    yield Grid(
        "n · ln 2 of powers of two, where nothing else is off; CPU milliseconds of both parties",
        ["setting", "way", "AND gates", "off by units of 2^-N", "ms a logarithm"], rows,
    )  # fmt: skip
    yield claim(
        "section 4, error of the exact way", "less than 1.5, usually less than 1",
        f"up to {worst['exact']:.2f}", worst["exact"] < 1.5, varies=True,
    )  # fmt: skip
    yield claim(
        "section 5, without a circuit", "arbitrary scaling completely autonomously",
        f"up to {worst['statistical']:.2f} units off, no gates more", worst["statistical"] <= 1,
        varies=True,
    )  # fmt: skip
    more = [gates[bits, "table"] - gates[bits, "whole"] for bits, _ in RUNS]
    yield claim(
        "section 3, the table of Lindell & Pinkas", "can be removed from the circuit",
        f"saves {min(more)} to {max(more)} AND gates", min(more) > 0,
    )  # fmt: skip


def section_3(quick: bool) -> Iterator[Found]:
    """Section 3: the scale, and the size of the field."""
    shared = 13 * 4 + 2 * 4
    yield claim(
        "section 5, share space for N = 13, k = 4", "greater than 10^20",
        f"2^{shared} = {2.0**shared:.2g}; corrected {13 * 2.0**shared:.2g}", 2.0**shared > 1e20,
        "2^(Nk + 2k), and with the correction N times that",
    )  # fmt: skip
    yield claim(
        "section 5, share space over the largest value, 10^6", "10^14",
        f"{2.0**shared / 1e6:.1g}", 2.0**shared / 1e6 > 1e14 / 10**0.5,
        "from the size of the share space",
    )  # fmt: skip
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
    yield figure(
        "section 6, log2 x against x - 1 in the middle of [1, 2]", 0.085, log2(1.5) - 0.5,
        "in the middle; the largest deviation is 0.0861, at 1.4427",
    )  # fmt: skip
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


def _six_fields(records: int) -> tuple[secure.Schema, Any, Any]:
    """Records of six binary fields that depend on each other, and which cells are Alice's."""
    random = np.random.default_rng(5)

    def drawn(chance: Any) -> Any:
        return (random.random(records) < chance).astype(np.int64)

    a = drawn(0.3)
    b = drawn(np.where(a, 0.7, 0.2))
    c = drawn(0.5)
    d = drawn(0.1 + 0.5 * (b & c) + 0.2 * b)
    e = drawn(np.where(c, 0.55, 0.5))
    codes = np.stack([a, b, c, d, e, drawn(0.2 + 0.3 * d + 0.3 * e)], axis=1)
    schema = secure.Schema.of({name: ["no", "yes"] for name in "abcdef"})
    return schema, codes, random.random(codes.shape) < 0.5


def _both(records: int, model: Callable[[secure.Session, secure.HeldCells], Any]) -> Any:
    """A model of records of which every cell belongs to one of the two, and CPU seconds."""
    schema, codes, alices = _six_fields(records)

    def party(session: secure.Session) -> Any:
        own = alices if session.is_alice else ~alices
        return model(session, secure.HeldCells(schema, np.where(own, codes, -1)))

    (found, _), cpu = timed(lambda: secure.together(party, party, timeout=600.0))
    return found, cpu


def models(quick: bool) -> Iterator[Found]:
    """Section 7: a Bayes net of 100,000 records of six fields, and the tree of Lindell & Pinkas."""
    few = 1_000
    settings = {"fast": Setting(), "paper": Setting("paper", 3, "ot")}
    ways: dict[str, Callable[..., Any]] = {
        "Bayes net": partial(secure.search_net, max_parents=5, score="stirling"),
        "ID3": partial(secure.grow_tree, target="f", max_depth=2),
    }
    found, spent, off = {}, {}, {}
    for (model, grow), (name, setting) in product(ways.items(), settings.items()):
        made, spent[model, name, few] = _both(few, partial(grow, setting=setting))
        found[model, name] = made.root if model == "ID3" else made.arrows
        off[model, name] = made.tolerance
    for where, says, model, unit in (
        ("section 1, ID3 on arbitrary partitions", "with the scalar product", "ID3", "gains a row"),
        (
            "section 6, inexact logarithms",
            "tolerable where comparisons come out alike",
            "Bayes net",
            "scores",
        ),
    ):
        same = found[model, "fast"] == found[model, "paper"]
        yield claim(
            where, says, f"{'the same' if same else 'another'} {model} with three terms of the "
            "series as in the fast setting", same,
            f"on this table: three terms are off by up to 0.0112, and {unit} that differ by less "
            f"than {off[model, 'paper']:.2g} nats may be decided otherwise",
        )  # fmt: skip
    if quick:
        return
    _, spent["Bayes net", "fast", 100_000] = _both(100_000, ways["Bayes net"])
    yield seconds(
        "section 7, Bayes net, 100,000 records of 6 fields", "2.5 hours",
        spent["Bayes net", "fast", 100_000], TABLE,
    )  # fmt: skip
    encrypted = partial(secure.grow_tree, target="f", max_depth=1, setting=Setting("paper", 3))
    _, spent["ID3", "paper, encrypted", 20] = _both(20, encrypted)
    key = PrivateKey.generate()
    _, each = timed(lambda: [key.encrypt(1) for _ in range(20)])
    yield seconds(
        "section 7, its encryptions if three fields are each party's", "most of 2.5 hours",
        each / 20 * 8 * 100_000,
        f"reckoned: 8 patterns of Bob's in 100,000 records, {each / 20:.3f} s for each encryption "
        "with a key of 3,072 bits; how long their keys were is not said",
    )  # fmt: skip
    yield Grid(
        "The fast setting; the paper's, a prime and Taylor's series, with transfers; and with "
        "Paillier's encryption; CPU seconds of both parties",
        ["model", "setting", "records", "CPU seconds"],
        [[*key_, round(cpu, 2)] for key_, cpu in spent.items()],
    )  # fmt: skip


EXPERIMENTS = (section_3, scaling, section_6, section_7, models)
