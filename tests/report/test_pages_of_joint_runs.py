"""Pages of models fitted together, and of what the parties sent and learned."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planted import RARE_TEXTS, assert_nothing_rare
from ports import at_once, raised, star
from sfumato.joint import (
    Agreement,
    Category,
    Exchange,
    JointModel,
    Number,
    Outcome,
    Projection,
    Shamir,
    ShareResult,
    evaluate,
    fit_exact,
    fit_shares,
    make_share,
)
from sfumato.joint.local_data import encode, encode_outcome, project
from sfumato.joint.parties import FitSession
from sfumato.report.disclosure import RARE, safe_moments
from sfumato.report.page import page_html
from sfumato.report.pages.joint import column_effects, fates_of
from sfumato.report.registry import page_of
from sfumato.secure.channel import Channel

PLANTED_TIMES = (1234.5, 1777.25)
AGREED = Agreement(
    study="made up",
    columns=(
        Number("age", 18, 98, 1),
        Category("site", ("north", "south", RARE_TEXTS[0])),
        Number("weight", 40, 120, 5),
    ),
    outcome=Outcome(time="days", event="dead", time_step=0.25, time_max=2000, horizon=200),
    projection=Projection(seed="5", dimensions=3),
)


def patients(rows: int, seed: int) -> pa.Table:
    """People of one institution; two of them have times that nobody else has."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 99, rows)
    days = np.ceil(rng.exponential(300 * np.exp(-(age - 50) / 40)) + 1).clip(1, 1200)
    days[: len(PLANTED_TIMES)] = PLANTED_TIMES
    site = np.array(["north", "south"], object)[rng.integers(0, 2, rows)]
    site[2] = RARE_TEXTS[0]
    return pa.table(
        {
            "age": age,
            "site": site,
            "weight": rng.integers(8, 25, rows) * 5,
            "days": days,
            "dead": np.where(np.arange(rows) % 4, "1", "0"),
        }
    )


ROWS = {"hub": 140, "tiny": 7, "west": 120}


@cache
def shares() -> dict[str, ShareResult]:
    return {
        name: make_share(
            patients(rows, at), AGREED, name, rounding=0.2, publish_anyway=True, attack_rows=20
        )
        for at, (name, rows) in enumerate(ROWS.items())
    }


@cache
def shared_model() -> JointModel:
    made = [found.share for found in shares().values()]
    return fit_shares([share for share in made if share is not None], "cox", penalty=0.1)


@cache
def exact_run() -> dict[str, tuple[JointModel, FitSession]]:
    """Everybody's model and what it cost them, all in threads of this process."""
    ends = star(ROWS)

    def party(name: str) -> Any:
        links = {other: Channel(end, timeout=20) for other, end in ends[name].items()}
        with Exchange(name, links, "hub") as exchange:
            shared = Shamir(exchange)
            table = patients(ROWS[name], list(ROWS).index(name))
            model = fit_exact(table, AGREED, "cox", parties=shared, penalty=0.1)
        return model, exchange.report(shared.opened.numbers)

    return raised(at_once(ROWS, party))


@pytest.mark.parametrize("exact", [False, True])
def test_a_model_shows_curves_weights_and_who_learned_what(exact: bool) -> None:
    model = exact_run()["west"][0] if exact else shared_model()
    page = page_of(model)
    titles = [figure.title for section in page.sections for figure in section.figures]
    assert titles == ["Survival", "Baseline hazard", "Columns by their weight", "Who gave what"]
    for interactive in (False, True):
        text = page_html(page, interactive=interactive)
        assert_nothing_rare(text)
        for time in PLANTED_TIMES:
            assert str(time) not in text
            assert f"{time:,}" not in text
        assert "fewer than 10 rows" in text or exact


def test_a_model_without_times_or_events_says_so() -> None:
    model = shared_model()
    few = JointModel(**{**vars(model), "times": model.times[:12], "hazard": model.hazard[:12]})
    assert "Too few events" in page_html(page_of(few))
    apart = JointModel(**{**vars(few), "revealed": {"smallest_group": 5.0}})
    assert "Baseline hazard" in page_html(page_of(apart))
    none = JointModel(**{**vars(model), "times": np.empty(0), "hazard": np.empty(0)})
    assert "no common survival curve" in page_html(page_of(none))


def test_a_classifier_has_weights_and_no_curves() -> None:
    made = [found.share for found in shares().values() if found.share is not None]
    text = page_html(page_of(fit_shares(made, "svm", penalty=1.0)))
    assert "Columns by their weight" in text
    assert "Baseline hazard" not in text


def test_weights_of_an_exact_model_are_its_hazard_ratios() -> None:
    model = exact_run()["hub"][0]
    weights = dict(zip(model.columns, model.coefficients, strict=True))
    effects = column_effects(model)
    for name in ("age", "weight"):
        assert effects[name] == pytest.approx(np.exp(abs(weights[name])))
    site = [0.0] + [w for name, w in weights.items() if name.startswith("site")]
    assert effects["site"] == pytest.approx(np.exp(max(site) - min(site)))
    assert list(effects.values()) == sorted(effects.values(), reverse=True)


def test_curves_are_those_of_the_model() -> None:
    model = shared_model()
    moments = safe_moments(model.times)
    assert len(moments) >= 3
    people, hazard = fates_of(model, moments)
    best, middle, worst = people.values()
    assert all(a[1] >= b[1] >= c[1] for a, b, c in zip(best, middle, worst, strict=True))
    assert [at for at, _ in middle] == [0.0, *moments]
    np.testing.assert_allclose([s for _, s in middle], np.exp([-h for _, h in hazard]))
    middling = {"age": 58, "site": "south", "weight": 80}
    values = {
        "age": range(18, 99),
        "site": AGREED.columns[1].categories,
        "weight": range(40, 121, 5),
    }
    weightiest = next(iter(column_effects(model)))
    tried = [{**middling, weightiest: value} for value in values[weightiest]]
    rows = project(encode(pa.Table.from_pylist(tried), AGREED).matrix, AGREED)
    lived = np.sort(model.cox.survival(rows, moments), axis=0)
    np.testing.assert_allclose(lived[-1], [s for _, s in best[1:]])
    np.testing.assert_allclose(lived[0], [s for _, s in worst[1:]])


@given(times=st.lists(st.floats(0.001, 5000, allow_subnormal=False), max_size=200, unique=True))
def test_between_moments_lie_many_times(times: list[float]) -> None:
    moments = safe_moments(times)
    edges = [-np.inf, *moments, np.inf]
    if moments:
        for low, high in pairwise(edges):
            assert sum(low < time <= high for time in times) >= RARE
    else:
        assert len(times) < 2 * RARE or len(set(times)) == len(times)


def test_what_was_sent_is_what_was_received() -> None:
    costs = {name: cost for name, (_, cost) in exact_run().items()}
    hub, others = costs["hub"], [cost for name, cost in costs.items() if name != "hub"]
    assert hub.bytes_received == sum(cost.bytes_sent for cost in others) > 0
    assert hub.bytes_sent == sum(cost.bytes_received for cost in others) > 0
    assert hub.messages_sent == sum(cost.messages_received for cost in others)
    assert hub.messages_received == sum(cost.messages_sent for cost in others)
    assert len({(cost.rounds, tuple(cost.opened.items())) for cost in costs.values()}) == 1
    assert hub.opened["deaths"] == 1 + 8001
    text = page_html(page_of(hub))
    assert "3 parties opened" in text
    assert f"{sum(hub.opened.values()):,} numbers" in text
    assert "how many died at each time of the grid" in text


def test_a_share_tells_its_owner_what_it_gives_away() -> None:
    found = shares()["west"]
    text = page_html(page_of(found))
    assert "What is certain although the row is not" in text
    assert_nothing_rare(text)


def test_an_experiment_has_error_bars() -> None:
    table = pa.concat_tables([patients(rows, at) for at, rows in enumerate(ROWS.values())])
    time, event = encode_outcome(table, AGREED)
    assert time is not None
    names = np.repeat(list(ROWS), list(ROWS.values()))
    found = evaluate(encode(table, AGREED), time, event, names, AGREED, horizon=200, splits=2)
    page = page_of(found)
    spec = page.sections[0].figures[0].spec
    assert spec is not None
    bars = spec["layer"][0]["data"]["values"]
    assert len(bars) >= 2
    assert all(bar["low"] <= bar["estimate"] <= bar["high"] for bar in bars)


def test_control_characters_of_names_are_written_out() -> None:
    """HTML has none, and those that turn the direction of writing would show another name."""
    names = ("A\x01\x0b\x1b[2J", "B\u202e", "C\tc")
    shares = [
        make_share(patients(60, at), AGREED, name, publish_anyway=True, price=False).share
        for at, name in enumerate(names)
    ]
    text = page_html(page_of(fit_shares([one for one in shares if one is not None])))
    assert not {*"\x01\x0b\x1b\u202e"}.intersection(text)
    assert r"A\x01\x0b\x1b[2J" in text
    assert (r"B\u202e" in text, "C\tc" in text) == (True, True)
