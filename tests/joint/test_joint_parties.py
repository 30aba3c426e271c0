"""Exact fits between processes over TLS: parties that are killed, stall, or talk nonsense."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import joint_parties
from cli_tools import forks

Play = Callable[..., dict[str, Any]]
MOST_MESSAGES = 2_000


@pytest.fixture(scope="module")
def play() -> Iterator[Play]:
    """Play a scenario and return what every party found."""
    context = forks()
    line, there = context.Pipe()
    stage = context.Process(target=joint_parties.answer, args=(there,))
    stage.start()
    there.close()

    def scenario(names: str = "ABC", **settings: Any) -> dict[str, Any]:
        line.send({"names": names, **settings})
        told: dict[str, Any] = line.recv()
        assert not told["hanging"], settings
        return told

    yield scenario
    line.close()
    stage.join(60)


def errors(told: dict[str, Any], names: str) -> list[str]:
    """What the named parties say; every one of them must have ended with a PeerError."""
    for name in names:
        assert told["found"][name].get("error") == "PeerError", (name, told["found"])
    return [told["found"][name]["what"] for name in names]


def steps(
    play: Play, names: str, victim: str, stride: int, **settings: Any
) -> Iterator[dict[str, Any]]:
    """The same scenario with the victim killed at one of its first messages, then ever later."""
    number = 0
    while number < MOST_MESSAGES:
        told = play(names, faults={victim: ["kill", number]}, **settings)
        if victim in told["found"]:  # it had fewer messages than that: nobody was killed
            assert number > 50
            return
        yield told
        number += stride + number // 8 * 2 * stride
    pytest.fail("the victim never came to its end")


def test_nobody_is_harmed(play: Play) -> None:
    told = play()
    for name in "ABC":
        np.testing.assert_allclose(
            told["found"][name]["coefficients"],
            joint_parties.pooled("ABC"),
            rtol=0,
            atol=joint_parties.PRECISION,
        )


@pytest.mark.parametrize("stride", [6, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("victim", ["A", "C"], ids=["coordinator", "member"])
def test_a_party_killed_at_each_message_stops_all_others(
    play: Play, victim: str, stride: int
) -> None:
    living = "ABC".replace(victim, "")
    whole = joint_parties.pooled("ABC")
    for told in steps(play, "ABC", victim, stride):
        finished = [name for name in living if "coefficients" in told["found"][name]]
        for name in finished:  # it was killed on its way out: the others had everything
            np.testing.assert_allclose(
                told["found"][name]["coefficients"], whole, rtol=0, atol=joint_parties.PRECISION
            )
        for what in errors(told, living.translate({ord(name): None for name in finished})):
            assert "left" in what or "closed" in what or "stopped" in what, what
        assert max(told["seconds"][name] for name in living) < 10


def test_nobody_goes_on_without_a_party_that_left(play: Play) -> None:
    told = play("ABCD", faults={"C": ["kill", 30], "D": ["kill", 40]})
    assert any("`C` left" in what for what in errors(told, "AB"))


@pytest.mark.parametrize(
    "number", [0, 4, *(pytest.param(number, marks=pytest.mark.slow) for number in (1, 9))]
)
def test_a_party_that_stalls_is_given_up_and_nobody_else_with_it(play: Play, number: int) -> None:
    told = play("ABCD", faults={"C": ["stall", number]}, timeout=3.0)
    assert any("`C` left" in what or "time-out" in what for what in errors(told, "ABD"))
    assert max(told["seconds"].values()) < 45


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("version", "different parameters: protocol"),
        ("agreement", "different parameters: agreement"),
    ],
)
@pytest.mark.parametrize("who", ["A", "B"])
def test_what_differs_is_named(play: Play, fault: str, words: str, who: str) -> None:
    told = play(faults={who: [fault]})
    assert any(words in what for what in errors(told, "ABC"))


@pytest.mark.parametrize("who", ["A", "B"])
def test_a_certificate_that_nobody_was_handed_is_refused(play: Play, who: str) -> None:
    told = play(faults={who: ["certificate"]}, timeout=1.5)
    assert any("certificate" in what or "connect" in what for what in errors(told, "ABC"))


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in (1, 2, 3))]
)
@pytest.mark.parametrize("who", ["A", "B"])
def test_nonsense_is_never_taken_for_a_model(play: Play, who: str, first: int) -> None:
    """Right frames with random content: everybody ends with an error of ours, nobody hangs."""
    for number in range((2 if who == "B" else 0) + first, 12, 4):
        told = play(faults={who: ["nonsense", number]}, timeout=20.0)
        for name in "ABC":
            assert told["found"][name].get("error", "") != "traceback", told["found"][name]
        ends = ["coefficients" in told["found"][name] for name in "ABC"]
        if all(ends):  # it was a message that this party received, not one that it sent
            for name in "ABC":
                np.testing.assert_allclose(
                    told["found"][name]["coefficients"],
                    joint_parties.pooled("ABC"),
                    rtol=0,
                    atol=1e-3,
                )
        else:
            assert not any(ends)
