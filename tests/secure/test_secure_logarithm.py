"""Secure logarithms: exhaustive where possible, within the stated bounds everywhere."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pooled_models import taylor_ln
from sfumato import secure
from sfumato.errors import ParameterError
from sfumato.secure import Ring, Shares, polynomial
from sfumato.secure.logarithm import SCALINGS, _paper_circuit, _times_ln2
from two_parties import P60, agree, split

RING = Ring.power_of_two(64)


def logarithms(ring: Ring, numbers, **how) -> np.ndarray:
    x = split(ring, numbers)

    def party(session):
        result = secure.log(session, x[session.role], **how)
        return secure.reveal_real(session, result, what="the logarithms")

    return agree(party)


def worst(ring: Ring, numbers, **how) -> float:
    truth = np.array([math.log(x) if x else 0.0 for x in numbers])
    return float(np.abs(logarithms(ring, numbers, **how) - truth).max())


def spread(count: int, bits: int, seed: int = 0) -> list[int]:
    """Numbers of all lengths up to `bits` bits, with the ends and the steps among them."""
    rng = np.random.default_rng(seed)
    drawn = np.exp2(rng.uniform(0, bits, count)).astype(np.int64).tolist()
    edges = [0, 1, 2, 3, (1 << bits) - 1]
    for n in range(2, bits):
        edges += [(1 << n) - 1, 1 << n, (3 << (n - 1)) - 1, 3 << (n - 1)]
    return [v for v in edges if v < 1 << bits] + [v for v in drawn if v < 1 << bits]


@pytest.mark.parametrize(("bits", "terms"), [(17, 3), (13, 4), (10, 5)])
def test_the_papers_three_configurations(bits, terms):
    """§7: a 60-bit modulus, numbers of up to 17, 13, 10 bits, k = 3, 4, 5."""
    ring = Ring.odd(P60)
    error = worst(ring, spread(400, bits), bits=bits, terms=terms)
    bound = secure.log_error(ring, bits=bits, terms=terms)
    assert error <= bound <= round(polynomial.taylor_error(terms), 4) + 5e-5


def test_every_number_of_ten_bits_in_the_papers_setting():
    ring = Ring.odd(P60)
    assert worst(ring, list(range(1024)), bits=10) <= secure.log_error(ring, bits=10)


def test_the_paper_computes_in_whole_numbers():
    """Without rounding the result is the series itself: formulas 2.1 and 3.7 in plain text."""
    ring, bits, terms = Ring.odd(P60), 10, 5
    ln, numbers = taylor_ln(bits, terms), list(range(1024))
    x = split(ring, numbers)

    def party(session):
        shares = secure.log(session, x[session.role], bits=bits, terms=terms)
        return secure.reveal(session, shares, what="σ ln x")

    assert [int(v) for v in agree(party)] == [ln(number) for number in numbers]


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize(("bits", "terms"), [(17, 3), (13, 4), (10, 5)])
def test_every_way_from_n_to_n_times_ln_2(scaling, bits, terms):
    """A table in the circuit, section 4, section 5: all within what is stated for them."""
    ring, how = Ring.odd(P60), {"bits": bits, "terms": terms, "scaling": scaling}
    bound = secure.log_error(ring, **how)
    units = {"whole": 0, "table": 0.5, "exact": 1.5, "statistical": 1}[scaling]
    assert bound <= polynomial.taylor_error(terms) + units / 2**bits + 1e-9
    assert worst(ring, spread(200, bits), **how) <= bound


@pytest.mark.parametrize("scaling", ["table", "exact", "statistical"])
def test_the_main_term_is_off_by_its_units_and_no_more(scaling):
    """Powers of two have ε = 0: what comes out is n · ln 2 alone, in units of 2^-N."""
    ring, bits = Ring.odd(P60), 12
    numbers = [1 << n for n in range(bits)] * 20
    found = logarithms(ring, numbers, bits=bits, terms=4, scaling=scaling)
    off = np.abs(found - np.log(numbers)) * 2**bits
    assert off.max() <= {"table": 0.5, "exact": 1.5, "statistical": 1.0}[scaling] + 1e-6
    assert off.max() > 0.1


def test_the_table_of_lindell_and_pinkas_makes_the_circuit_larger():
    """Section 4: taking the table out of the circuit is the optimization."""
    ring = Ring.odd(P60)
    with_table, without = (_paper_circuit(ring, 13, 13, table).and_gates for table in (True, False))
    assert with_table > without + 20


@pytest.mark.parametrize(
    ("ring", "how", "told"),
    [
        (RING, {"scaling": "table"}, "sum of bits"),
        (Ring.odd(P60), {"bits": 10, "scaling": "rounded"}, "whole, table, exact, statistical"),
        (Ring.odd((1 << 31) - 1), {"bits": 8, "terms": 2, "scaling": "statistical"}, "no room"),
    ],
)
def test_scalings_that_cannot_be(ring, how, told):
    with pytest.raises(ParameterError, match=told):
        secure.log_error(ring, **how)


def test_every_number_of_twelve_bits_in_the_fast_setting():
    assert worst(RING, list(range(4096)), bits=12) <= secure.log_error(RING, bits=12) < 3e-5


@pytest.mark.parametrize("bits", [1, 2, 3, 5])
@pytest.mark.parametrize("modulus", [1 << 32, (1 << 61) - 1])
def test_all_small_widths(bits, modulus):
    ring = Ring(modulus)
    numbers = list(range(1 << bits))
    assert worst(ring, numbers, bits=bits) <= secure.log_error(ring, bits=bits)


@pytest.mark.parametrize("modulus", [257, 401, 509])
def test_every_pair_of_shares_for_small_moduli(modulus):
    """N = 3, k = 2: all shares of Alice's and all numbers x, by the real protocol."""
    ring = Ring.odd(modulus)
    bits, numbers = 1, [0, 1]
    pairs = [(a, x) for a in range(modulus) for x in numbers]
    mine = {"alice": [a for a, _ in pairs], "bob": [(x - a) % modulus for a, x in pairs]}

    def party(session):
        x = secure.private(ring, mine[session.role])
        return secure.reveal(session, secure.log(session, x, bits=bits, terms=2), what="ln")

    assert agree(party).tolist() == [0] * len(pairs)


def test_every_share_of_alice_in_a_small_power_of_two():
    """2^9, x below 8: every share and every number, one bit of fraction."""
    ring = Ring.power_of_two(9)
    pairs = [(a, x) for a in range(512) for x in range(8)]
    mine = {"alice": [a for a, _ in pairs], "bob": [(x - a) % 512 for a, x in pairs]}
    how = {"bits": 3, "fraction_bits": 5}

    def party(session):
        x = secure.private(ring, mine[session.role])
        return secure.reveal_real(session, secure.log(session, x, **how), what="ln")

    truth = np.array([math.log(x) if x else 0.0 for _, x in pairs])
    assert np.abs(agree(party) - truth).max() <= secure.log_error(ring, **how)


@given(st.integers(1, 40), st.integers(16, 30), st.integers(0, 2**32))
@settings(max_examples=8)
def test_widths_and_scales_at_random(bits, fraction_bits, seed):
    numbers = spread(20, bits, seed)
    how = {"bits": bits, "fraction_bits": fraction_bits}
    assert worst(RING, numbers, **how) <= secure.log_error(RING, **how)


@pytest.mark.parametrize("terms", [3, 4, 5])
def test_taylor_bounds_up_to_two_to_the_forty(terms):
    ring = Ring.odd((1 << 128) - 159)
    how = {"bits": 40, "terms": terms, "precision": 20}
    bound = secure.log_error(ring, **how)
    assert worst(ring, spread(1000, 40), **how) <= bound <= polynomial.taylor_error(terms) + 2e-6


def test_the_fast_setting_up_to_two_to_the_forty():
    assert worst(RING, spread(5000, 40), bits=40) <= secure.log_error(RING, bits=40) <= 3e-5


def test_exact_epsilon_needs_a_large_modulus():
    """N = 40, k = 5 as the paper writes it: 214 bits."""
    ring = Ring.odd((1 << 213) + 7)
    how = {"bits": 40, "terms": 5}
    assert worst(ring, spread(100, 40), **how) <= secure.log_error(ring, **how) <= 0.00183


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ring", "how", "limit"),
    [
        (RING, {}, 3e-5),
        (Ring.odd((1 << 128) - 159), {"terms": 3, "precision": 20}, 0.01121),
        (Ring.odd((1 << 128) - 159), {"terms": 4, "precision": 20}, 0.00443),
        (Ring.odd((1 << 128) - 159), {"terms": 5, "precision": 20}, 0.00183),
    ],
    ids=["fast", "k=3", "k=4", "k=5"],
)
def test_a_hundred_thousand_numbers_up_to_two_to_the_forty(ring, how, limit):
    assert worst(ring, spread(100_000, 40, seed=9), bits=40, **how) <= limit


def test_the_uncorrected_protocol_of_lindell_and_pinkas_fails():
    """§3: at the scale 2^N · lcm(2..k), division by 2^(N(i-1)) modulo m gives nonsense.

    The same oblivious evaluation, once with their coefficients and once with the corrected ones.
    """
    ring, precision, terms = Ring.odd(P60), 13, 4
    epsilons = list(range(-(1 << 11), 1 << 12, 37))
    x = split(ring, epsilons)
    common = math.lcm(*range(2, terms + 1))
    halving = pow(1 << precision, -1, ring.modulus)
    uncorrected = [0] + [
        (-1) ** (i - 1) * (common // i) * pow(halving, i - 1, ring.modulus)
        for i in range(1, terms + 1)
    ]
    cases = {
        "uncorrected": (uncorrected, (1 << precision) * common),
        "corrected": (
            polynomial.taylor(precision, terms),
            polynomial.taylor_scale(precision, terms),
        ),
    }
    truth = np.log1p(np.array(epsilons) / (1 << precision))
    errors = {}
    for name, (coefficients, scale) in cases.items():

        def party(session, coefficients=coefficients, scale=scale):
            mine = x[session.role].values
            result = polynomial.evaluate(session, ring, mine, coefficients)
            return secure.reveal_real(session, Shares(ring, result, scale), what="ln(1 + ε)")

        errors[name] = np.abs(agree(party) - truth)
    assert errors["corrected"].max() <= polynomial.taylor_error(terms)
    assert np.median(errors["uncorrected"]) > 1e6
    # It is right only where ε happens to divide, as the paper says: here at ε = 0 alone.
    right = np.flatnonzero(errors["uncorrected"] <= polynomial.taylor_error(terms))
    assert all(epsilons[i] % (1 << 9) == 0 for i in right)


def test_paillier_and_transfers_agree():
    ring = Ring.odd(P60)
    numbers = [1, 7, 500, 1023]
    exact = logarithms(ring, numbers, bits=10)
    np.testing.assert_array_equal(logarithms(ring, numbers, bits=10, backend="paillier"), exact)
    fast = logarithms(RING, numbers, bits=10, backend="paillier")
    assert np.abs(fast - np.log(numbers)).max() <= secure.log_error(RING, bits=10)


@pytest.mark.parametrize(
    ("ring", "bits"), [(RING, 20), (RING, 36), (Ring.odd((1 << 128) - 159), 12)], ids=str
)
def test_x_log_x(ring, bits):
    numbers = spread(200, bits)
    x = split(ring, numbers)

    def party(session):
        result = secure.x_log_x(session, x[session.role], bits=bits)
        return np.concatenate([[result.scale], secure.reveal_real(session, result, what="x ln x")])

    scale, *got = agree(party)
    truth = np.array([v * math.log(v) if v else 0.0 for v in numbers])
    fraction = math.log2(scale) if ring.is_power_of_two else None
    bound = secure.log_error(ring, bits=bits, fraction_bits=fraction and int(fraction))
    allowed = np.maximum(np.array(numbers), 1) * bound
    assert (np.abs(np.array(got) - truth) <= allowed * (1 + 1e-9)).all()
    assert got[numbers.index(0)] == 0


def test_gate_counts_are_stated():
    """§7 counts all gates of its circuits: 1497, 1386, 1314."""
    counts = {}
    for bits, gates in ((17, 1497), (13, 1386), (10, 1314)):
        circuit = _paper_circuit(Ring.odd(P60), bits, bits)
        counts[bits] = circuit.and_gates
        assert circuit.and_gates < gates / 2
    assert counts[10] < counts[13] < counts[17]


@pytest.mark.parametrize(
    ("ring", "how", "words"),
    [
        (RING, {"bits": 0}, "0 bits"),
        (RING, {"bits": 65}, "65 bits"),
        (Ring.power_of_two(16), {"bits": 10}, "20 fraction bits do not fit"),
        (RING, {"fraction_bits": 0}, "0 fraction bits"),
        (RING, {"terms": 1}, "1 terms"),
        (RING, {"terms": 12, "precision": 30}, "more than 256 bits"),
        (RING, {"backend": "magic"}, "not a backend"),
        (Ring.odd(P60), {"bits": 17, "terms": 4}, "modulus of 60 bits is too small for 4 terms"),
        (Ring.odd(P60), {"bits": 17, "fraction_bits": 3}, "paper's scale"),
        (Ring.odd(101), {"bits": 3}, "too small"),
    ],
)
def test_bad_parameters_are_refused_before_anything_is_sent(ring, how, words):
    x = secure.private(ring, [1])
    with pytest.raises(ParameterError, match=words):
        agree(lambda s: secure.log(s, x, **how))


def test_scaled_or_no_numbers_are_refused():
    with pytest.raises(ParameterError, match="whole numbers"):
        agree(lambda s: secure.log(s, Shares(RING, RING.encode([1]), 2)))
    with pytest.raises(ParameterError, match="no number"):
        agree(lambda s: secure.log(s, secure.zeros(RING, 0)))
    with pytest.raises(ParameterError, match="does not fit"):
        agree(lambda s: secure.x_log_x(s, secure.zeros(RING, 1), bits=40, fraction_bits=20))


def test_the_necessary_condition_on_the_modulus_is_what_is_checked():
    """(17, 3) fits 60 bits by the necessary condition, not by the paper's sufficient one."""
    needed = math.ceil(2 * polynomial.taylor_scale(17, 3) * 17 * math.log(2))
    sufficient = 2 ** (17 * 3 + 2 * 3 + math.log2(17))
    assert needed < P60 < sufficient
    smallest = needed + 1 + needed % 2
    assert worst(Ring.odd(smallest | 1), [1, (1 << 17) - 1], bits=17, terms=3) < 0.0113
    with pytest.raises(ParameterError, match="too small"):
        secure.log_error(Ring.odd(needed - 1 - needed % 2), bits=17, terms=3)


@pytest.mark.parametrize("count", [1, 500])
def test_a_batch_takes_as_many_rounds_as_one_logarithm(count):
    """Its parts overlap: base, a lot of transfers, circuit, bits to numbers, products."""

    def party(session):
        before = session.report().rounds
        secure.log(session, secure.private(Ring.power_of_two(64), np.arange(count)), bits=20)
        return session.report().rounds - before

    alice, bob = secure.together(party, party)
    assert max(alice, bob) == 5


@pytest.mark.parametrize("bits", [0, 1, 20, 64, 300])
def test_ln_2_is_rounded_to_the_nearest_at_any_scale(bits):
    with localcontext(prec=200):
        exact = Decimal(2).ln() * 2**bits
        assert abs(Decimal(_times_ln2(1 << bits)) - exact) <= Decimal("0.5")


def test_x_log_x_that_has_no_room_is_refused():
    x = secure.private(Ring.power_of_two(32), [5])
    with pytest.raises(ParameterError, match="does not fit modulo"):
        secure.x_log_x(None, x, bits=20, fraction_bits=10)
