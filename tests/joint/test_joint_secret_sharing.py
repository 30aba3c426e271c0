"""Secret sharing, and a coordinator that lies: it can neither read nor change what it passes on."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ports import at_once, star
from sfumato.errors import ParameterError, PeerError, UnfinishedError
from sfumato.joint import Exchange, Shamir, exact
from sfumato.joint.parties import PairKeys, checked_keys, key_stream, make_card
from sfumato.joint.secret_sharing import FRACTION, MODULUS, Opened, Pair, random_numbers, to_fixed
from sfumato.secure import Session
from sfumato.secure import together as both
from sfumato.secure.channel import Channel

Meddle = Callable[[str, str, int, bytes], bytes]


class Meddling(Exchange):
    """A coordinator that changes what it passes on: (sender, receiver, round, sealed) -> sealed."""

    meddle: Meddle | None = None

    def _send(self, other: str, step: str, message: bytes) -> None:
        if self.meddle is not None and self.name == self.coordinator:
            others = [name for name in self.parties if name != other]
            size = (len(message) - 1) // len(others)
            parts = [message[1 + k * size : 1 + (k + 1) * size] for k in range(len(others))]
            changed = [
                part if name == self.name else self.meddle(name, other, self.rounds, part)
                for name, part in zip(others, parts, strict=True)
            ]
            message = message[:1] + b"".join(changed)
        super()._send(other, step, message)


def together(names: str, work: Callable[[str, Shamir], Any], meddle: Meddle | None = None) -> Any:
    """Run `work` for every party in its own thread; the first is the coordinator."""
    ends = star(names)

    def party(name: str) -> Any:
        links = {other: Channel(end, timeout=20) for other, end in ends[name].items()}
        with Meddling(name, links, names[0]) as exchange:
            exchange.meddle = meddle
            return work(name, Shamir(exchange))

    return at_once(names, party)


@pytest.mark.parametrize("names", ["abc", "abcd", "abcde"])
def test_sums_products_and_openings(names: str) -> None:
    rng = np.random.default_rng(0)
    brought = {name: rng.normal(size=(2, 6)) * 1000 for name in names}

    def work(name: str, shared: Shamir) -> Any:
        a, b = (shared.total("x", values) for values in brought[name])
        product = shared.multiply(a, b - shared.public(np.full(6, 3.0)))
        square = shared.matmul(a.reshape(2, 3), b.reshape(3, 2))
        return [shared.open("x", secret, 50) for secret in (a, product, square)]

    done = together(names, work)
    a, b = sum(brought.values())
    for name in names:
        for found, expected in zip(
            done[name], (a, a * (b - 3), a.reshape(2, 3) @ b.reshape(3, 2)), strict=True
        ):
            np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_what_is_opened_has_no_digit_beyond_the_grid() -> None:
    values = np.random.default_rng(1).random(200)

    def work(name: str, shared: Shamir) -> Any:
        own = values if name == "a" else np.zeros(200)
        return shared.open("x", shared.total("x", own), 6), shared.opened.numbers

    done = together("abc", work)
    shown, noted = done["b"]
    units = shown * 64
    np.testing.assert_array_equal(units, np.rint(units))
    assert np.abs(units - values * 64).max() <= 2.0  # within (3 + 1)/2 steps of the grid
    assert noted == {"x": 200}


@pytest.mark.parametrize(("names", "degree"), [("abc", 1), ("abcd", 1), ("abcde", 2)])
def test_fewer_than_half_of_the_parties_know_nothing(names: str, degree: int) -> None:
    """So many shares lie on a polynomial through any secret at all."""
    shares: dict[str, int] = {}

    def work(name: str, shared: Shamir) -> Any:
        shares[name] = int(shared.total("x", np.array([5.0 if name == "a" else 0.0]))[0])
        return shared.open("x", np.array([shares[name]], dtype=object), 10)

    together(names, work)
    points = {1 + names.index(name): share for name, share in shares.items()}

    def at_zero(some: dict[int, int]) -> int:
        total = 0
        for x, y in some.items():
            for other in some:
                if other != x:
                    y = y * other * pow(other - x, -1, MODULUS) % MODULUS
            total += y
        return total % MODULUS

    secret = 5 << FRACTION
    for some in itertools.combinations(points.items(), degree + 1):
        assert at_zero(dict(some)) == secret
    for some in itertools.combinations(points.items(), degree):
        assert at_zero(dict(some)) != secret


def test_any_shares_but_all_that_are_needed_are_uniform() -> None:
    """One party of three sees the same whether the secret is 0 or a million."""
    seen: list[NDArray[Any]] = []

    def work(name: str, shared: Shamir) -> Any:
        own = np.full(4000, 1e6) if name == "a" else np.zeros(4000)
        share = shared.total("x", own)
        if name == "b":
            seen.append(share)
        return shared.open("x", share, 10)

    done = together("abc", work)
    np.testing.assert_allclose(done["c"], 1e6)
    tenths = np.bincount([int(10 * share // MODULUS) for share in seen[0]], minlength=10) / 4000
    assert np.abs(tenths - 0.1).max() < 0.03


def test_products_are_opened_under_masks_that_hide_them() -> None:
    opened: list[NDArray[Any]] = []

    class Watching(Shamir):
        def _recombined(self, step: str, share: Any, degree: int) -> Any:
            found = super()._recombined(step, share, degree)
            if step == "product":
                opened.append(found)
            return found

    def work(name: str, shared: Shamir) -> Any:
        shared.__class__ = Watching
        one = shared.total("x", np.ones(500) / 3)
        return shared.multiply(one, one)

    together("abc", work)
    tops = {int(number) >> (2 * FRACTION + 110) for number in opened[0]}
    assert len(tops) == 500  # equal products, and no two masked ones near each other


def test_products_are_opened_on_fresh_polynomials() -> None:
    """Of the shares of a product nothing but the masked product is seen: not its top term either.

    The top term of a product of two lines is the product of their slopes.
    """
    sent: dict[str, int] = {}
    lines: dict[str, int] = {}

    class Watching(Shamir):
        def _recombined(self, step: str, share: Any, degree: int) -> Any:
            if step == "product":
                sent[self._exchange.name] = int(share[0] % MODULUS)
            return super()._recombined(step, share, degree)

    def work(name: str, shared: Shamir) -> Any:
        shared.__class__ = Watching
        one = shared.total("x", np.array([0.5]))
        lines[name] = int(one[0])
        return shared.multiply(one, one)

    together("abc", work)
    a, b, c = (sent[name] for name in "abc")
    top = (a - 2 * b + c) * pow(2, -1, MODULUS) % MODULUS
    slope = lines["b"] - lines["a"]
    assert (lines["c"] - lines["b"] - slope) % MODULUS == 0
    assert top != slope**2 % MODULUS


def test_numbers_that_no_party_can_have_are_refused() -> None:
    def no_share(name: str, shared: Shamir) -> Any:
        return shared._unpacked("x", b"\xff" * 66)

    def too_large(name: str, shared: Shamir) -> Any:
        return shared.open("x", shared.total("x", np.array([0.9 * 2.0**99])), 4)

    for work, words in ((no_share, "an invalid share"), (too_large, "no rows give")):
        done = together("abc", work)
        assert all(isinstance(done[name], PeerError) for name in "abc")
        assert any(words in str(done[name]) for name in "abc")


def test_a_roster_without_my_own_card_is_refused() -> None:
    mine, other = (make_card(name, bytes(32), {}, None) for name in "ab")
    assert set(checked_keys([mine, other], mine, None)) == {"a", "b"}
    for cards in ([other], [{**mine, "signature": "ff"}, other]):
        with pytest.raises(PeerError, match="does not pass on this party's own key"):
            checked_keys(cards, mine, None)


@pytest.mark.parametrize("told", [[[1, 2]], [["a", 1]], "ab", None, 1])
def test_a_card_whose_parameters_have_no_names_is_refused(told: Any) -> None:
    mine, other = (make_card(name, bytes(32), {"model": "cox"}, None) for name in "ab")
    other["card"]["parameters"] = told
    with pytest.raises(PeerError, match="card cannot be read"):
        checked_keys([mine, other], mine, None)


def test_two_parties_that_were_shown_different_numbers_end_without_a_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Stub:
        name = coordinator = "a"
        parties = ("a", "b")
        theirs: bytes | None = None

        @contextlib.contextmanager
        def lent(self) -> Iterator[None]:
            yield None

        def broadcast(self, step: str, message: bytes) -> dict[str, bytes]:
            return {"a": message, "b": self.theirs or message}

        def fail(self, step: str, what: str) -> None:
            raise PeerError(what)

    class Calculated:
        shown, opened = hashlib.sha256(b"numbers"), Opened()

    monkeypatch.setattr(exact, "Session", lambda *_, **__: None)
    monkeypatch.setattr(exact, "Pair", lambda *_: Calculated())
    stub: Any = Stub()
    assert exact._fitted_by_two(stub, {}, lambda _: "model")[0] == "model"
    stub.theirs = hashlib.sha256(b"others").digest()
    with pytest.raises(PeerError, match="were shown different numbers"):
        exact._fitted_by_two(stub, {}, lambda _: "model")


def test_a_lying_coordinator_is_caught_whatever_it_changes() -> None:
    """It can flip, swap, repeat or blank what it passes on: nobody takes it for a number."""

    def work(name: str, shared: Shamir) -> Any:
        return [shared.open("x", shared.total("x", np.array([float(ord(name))])), 4)
                for _ in range(3)]  # fmt: skip

    kept: dict[tuple[str, str], bytes] = {}

    def flip(sender: str, receiver: str, number: int, sealed: bytes) -> bytes:
        return bytes([sealed[0] ^ 1]) + sealed[1:] if number == 3 and receiver == "c" else sealed

    def repeat(sender: str, receiver: str, number: int, sealed: bytes) -> bytes:
        before = kept.get((sender, receiver), sealed)
        kept[sender, receiver] = sealed
        return before if len(before) == len(sealed) and number > 4 else sealed

    def blank(sender: str, receiver: str, number: int, sealed: bytes) -> bytes:
        return bytes(len(sealed)) if number == 2 else sealed

    for lie in (flip, repeat, blank):
        done = together("abcd", work, lie)
        assert all(isinstance(done[name], PeerError) for name in "abcd"), lie
        assert any("not what it sent" in str(done[name]) for name in "bcd"), lie


def test_two_parties_that_were_told_different_things_part_at_once() -> None:
    """A party that deals one share to some and another to others is found by the next message."""

    class TwoFaced(Exchange):
        def broadcast(self, step: str, message: bytes) -> dict[str, bytes]:
            other = bytes([message[0] ^ 1]) + message[1:]
            self.scatter(step, {"a": message, "b": other, "c": message})
            return super().broadcast(step, message)

    def work(name: str, shared: Shamir) -> Any:
        if name == "d":
            shared._exchange.__class__ = TwoFaced
        return shared.open("x", shared.total("x", np.ones(2)), 4)

    done = together("abcd", work)
    assert all(isinstance(done[name], PeerError) for name in "abcd")


def test_a_party_that_tells_two_stories_is_found_by_the_next_message() -> None:
    """It keeps in step with everybody, and tells b another number than a and c."""

    class TwoFaced(Exchange):
        def scatter(self, step: str, messages: Mapping[str, bytes]) -> dict[str, bytes]:
            told = {**messages, "b": b"two"} if step == "number" else messages
            return super().scatter(step, told)

    def work(name: str, shared: Shamir) -> Any:
        exchange = shared._exchange
        if name == "d":
            exchange.__class__ = TwoFaced
        exchange.broadcast("number", b"one")
        return exchange.scatter("next", {o: b"" for o in exchange.parties if o != name})

    assert not isinstance(together("abc", work)["a"], PeerError)
    done = together("abcd", work)
    assert all(isinstance(done[name], PeerError) for name in "abcd")
    assert any("it was told other numbers" in str(done[name]) for name in "abc")


def test_shares_that_do_not_fit_together_are_refused() -> None:
    def work(name: str, shared: Shamir) -> Any:
        secret = shared.total("x", np.ones(3))
        if name == "c":
            secret = secret + 1
        return shared.open("x", secret, 4)

    done = together("abc", work)
    assert all(isinstance(done[name], PeerError) for name in "abc")
    assert any("do not fit together" in str(done[name]) for name in "abc")


def test_nobody_is_left_alone_with_the_coordinator() -> None:
    """The old attack: "all others left" made the rest go on in ever smaller circles."""
    alone = together("ab", lambda name, shared: shared.total("x", np.ones(1)))
    assert all(isinstance(alone[name], PeerError | ParameterError) for name in "ab")

    class Isolating(Exchange):
        def _pass_on(self, step: str, mine: Any, size: int) -> Any:
            if self.rounds == 3:
                for lost in ("c", "d"):  # tell b that c, and then d, has left
                    self._links["b"].send(f"{step} {self.rounds}", b"X" + lost.encode())
            return super()._pass_on(step, mine, size)

    def work(name: str, shared: Shamir) -> Any:
        if name == "a":
            shared._exchange.__class__ = Isolating
        return [shared.open("x", shared.total("x", np.ones(1)), 4) for _ in range(3)]

    done = together("abcd", work)
    assert isinstance(done["b"], PeerError)
    assert "says the coordinator" in str(done["b"])


@pytest.mark.parametrize("bad", [np.inf, np.nan, 2.0**99])
def test_boundless_numbers_are_refused(bad: float) -> None:
    with pytest.raises(UnfinishedError, match="diverges"):
        to_fixed(np.array([bad]))


def test_keys_belong_to_two_parties_a_direction_and_a_number() -> None:
    keys = {name: PairKeys() for name in "abc"}
    publics = {name: key.public for name, key in keys.items()}
    for name, key in keys.items():
        key.agree(name, publics, b"context")
    sealed = keys["a"].seal("b", 7, b"shares", b"bound")
    assert keys["b"].unseal("a", 7, sealed, b"bound") == b"shares"
    assert keys["b"].unseal("a", 8, sealed, b"bound") is None
    assert keys["b"].unseal("a", 7, sealed, b"other") is None
    assert keys["c"].unseal("a", 7, sealed, b"bound") is None
    assert keys["a"].unseal("b", 7, sealed, b"bound") is None  # sent back to its sender


@pytest.mark.parametrize("bad", [bytes(32), b"short"])
def test_keys_that_are_no_keys_are_refused(bad: bytes) -> None:
    keys = PairKeys()
    with pytest.raises(PeerError, match="`b` is not valid"):
        keys.agree("a", {"a": keys.public, "b": bad}, b"")


def test_random_numbers_are_fresh() -> None:
    streams = [
        key_stream(bytes(31) + bytes([k]), n, 64) for k, n in itertools.product(range(2), (1, 2))
    ]
    assert len(set(streams)) == 4
    assert key_stream(bytes(32), 1, 64) == streams[0]
    numbers = random_numbers(key_stream(bytes(32), 1, 16 * 20_000), 16)
    tenths = np.bincount([int(number) * 10 >> 128 for number in numbers], minlength=10) / 20_000
    assert np.abs(tenths - 0.1).max() < 0.01


def test_two_parties_add_multiply_and_open() -> None:
    rng = np.random.default_rng(5)
    brought = {"alice": rng.normal(size=(2, 6)) * 100, "bob": rng.normal(size=(2, 6)) * 100}

    def party(session: Session) -> Any:
        shared = Pair(session, ("a", "b"))
        a, b = (shared.total("x", values) for values in brought[session.role])
        product = shared.multiply(a, b - shared.public(np.full(6, 3.0)))
        square = shared.matmul(a.reshape(2, 3), b.reshape(3, 2))
        coarse = shared.open("x", a, 3)
        return [shared.open("x", s, 30) for s in (a, product, square)], coarse, a

    (found, coarse, mine), (theirs, _, others) = both(party, party)
    a, b = brought["alice"] + brought["bob"]
    for here, there, expected in zip(
        found, theirs, (a, a * (b - 3), a.reshape(2, 3) @ b.reshape(3, 2)), strict=True
    ):
        np.testing.assert_allclose(here, expected, rtol=1e-7)
        np.testing.assert_array_equal(here, there)
    np.testing.assert_array_equal(coarse * 8, np.rint(coarse * 8))
    assert np.abs(coarse - a).max() < 1 / 8
    assert all(share > 2**200 for share in (*mine, *others))  # masked, whatever was brought
