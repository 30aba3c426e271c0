"""The lattice attack: on totals it recovers everybody; what an exact fit opens withstands it."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from joint_studies import study
from sfumato.errors import PromiseError
from sfumato.joint import (
    Agreement,
    Category,
    LocalArithmetic,
    Number,
    Outcome,
    Parties,
    Projection,
    equal_tables,
    fit_exact,
    lattice_attack,
)
from sfumato.joint.distributed_cox import exact_cox
from sfumato.joint.exact import dry_run, exact_classifier
from sfumato.joint.leakage_report import ExactLeakage, check_opened, exact_leakage, step_effects
from sfumato.joint.linear_classifiers import loss_sums
from sfumato.joint.local_data import LocalRows, rows_to_fit
from sfumato.secure import make_keys

FEW = ((0, 1), (0, 0.5, 1), (0, 1))
MORE = ((0, 1), (0, 1), (0, 0.5, 1), (0, 0.5, 1))


class People:
    """How many people have each combination of values, with either label."""

    def __init__(self, levels: Any, mean: float) -> None:
        self.grid = np.array(list(itertools.product(*levels)), dtype=np.float64)
        self.x = np.tile(self.grid, (2, 1))
        self.sign = np.repeat([1.0, -1.0], len(self.grid))
        self.counts = np.random.default_rng(0).poisson(mean, 2 * len(self.grid))
        self.mean = mean

    @property
    def rows(self) -> tuple[NDArray[Any], NDArray[Any]]:
        return np.repeat(self.x, self.counts, axis=0), np.repeat(self.sign > 0, self.counts)

    def found(self, counts: NDArray[Any] | None) -> int:
        """People of the combinations whose number was found, or 0 if any number is wrong."""
        if counts is None:
            return 0
        truth, guess = (both.reshape(2, -1).sum(axis=0) for both in (self.counts, counts))
        return int(truth.sum()) if (truth == guess).all() else 0

    def agreement(self) -> Agreement:
        steps = [1.0 / (len(np.unique(column)) - 1) for column in self.grid.T]
        columns = tuple(Number(f"c{k}", 0, 1, step) for k, step in enumerate(steps))
        label = Outcome(label="y", positive="1")
        return Agreement("s", columns, label, Projection("seed", 1))

    def table(self) -> pa.Table:
        x, positive = self.rows
        named = {f"c{k}": column for k, column in enumerate(x.T)}
        return pa.table({**named, "y": positive.astype(int)})


def old_totals(people: People, path: tuple[NDArray[Any], ...]) -> NDArray[Any]:
    """What one person adds to value, gradient and Hessian, which fits opened to ten decimals."""
    upper = np.triu_indices(people.grid.shape[1] + 1)
    sums = [
        [loss_sums("logistic", x[None], np.array([s]), np.ones(1), z) for z in path]
        for x, s in zip(people.x, people.sign, strict=True)
    ]
    flat = [np.concatenate([np.r_[v, g, h[upper]] for v, g, h in row]) for row in sums]
    return np.array(flat) / 1e-10


@pytest.mark.parametrize("levels", [FEW, MORE])
def test_totals_of_two_iterations_give_everybody_away(levels: Any) -> None:
    """Why gradients and Hessians stay secret: hundreds of people in a tenth of a second."""
    people = People(levels, 5.0)
    fit = exact_classifier(LocalArithmetic(), "logistic", *people.rows)
    effects = old_totals(people, fit.ascent.path[:2])
    found = lattice_attack(effects, people.counts @ effects, people.mean)
    assert people.found(found) == people.counts.sum() > 100


@pytest.mark.parametrize("loss", ["svm", "logistic"])
def test_what_is_opened_now_fits_other_tables_too(loss: Any) -> None:
    people = People(MORE, 5.0)
    fit = exact_classifier(LocalArithmetic(), loss, *people.rows)
    effects, totals = step_effects(loss, people.x, people.sign, people.counts, 1.0, fit.ascent)
    assert np.abs(people.counts @ effects - totals).max() <= 0.51  # the attacker's equations hold
    assert people.found(lattice_attack(effects, totals, people.mean)) == 0
    # Others, with which a fit opens the same numbers: everybody's combination may be rarer.
    others = equal_tables(effects, people.counts)
    both = others.reshape(len(others), 2, -1).sum(axis=1)
    assert (both != people.counts.reshape(2, -1).sum(axis=0)).any(axis=0).all()
    for counts in others[:3]:
        again = People(MORE, 5.0)
        again.counts = counts
        same = exact_classifier(LocalArithmetic(), loss, *again.rows)
        for mine, theirs, places in zip(
            fit.ascent.path[1:], same.ascent.path[1:], fit.ascent.places, strict=True
        ):
            assert np.abs(mine - theirs).max() <= 1.5 * 2.0**-places


def test_few_combinations_need_coarser_numbers_and_the_rehearsal_says_so() -> None:
    """Here even the opened steps determine the table: the fit is refused at 1e-6."""
    people = People(FEW, 5.0)
    x, positive = people.rows
    fit = exact_classifier(LocalArithmetic(), "logistic", x, positive)
    effects, totals = step_effects(
        "logistic", people.x, people.sign, people.counts, 1.0, fit.ascent
    )
    assert people.found(lattice_attack(effects, totals, people.mean)) == people.counts.sum()
    own = LocalRows(x, np.empty(0), positive, 1.0, None)
    fine = dry_run(own, people.agreement(), "logistic", "efron", False, 1e-6)
    assert fine.attacked
    assert fine.certain == len(x)
    assert not fine.holds()
    coarse = dry_run(own, people.agreement(), "logistic", "efron", False, 1e-1)
    assert (coarse.certain, coarse.other_tables > 10) == (0, True)
    assert coarse.opened_bits < fine.opened_bits


def test_a_fit_is_safe_only_by_a_margin_of_bits() -> None:
    def found(table_bits: float, certain: int = 0) -> ExactLeakage:
        return ExactLeakage(100, 40, 1e-6, 50.0, table_bits, 200.0, True, 9, certain, 3)

    assert found(232).holds()
    assert not found(231.9).holds()
    assert not found(1000, certain=1).holds()
    check_opened(found(232), None, "table")
    with pytest.raises(PromiseError):
        check_opened(found(1000, certain=1), None, "table")


def test_a_fit_that_tells_too_much_is_refused_before_anybody_is_met(tmp_path: Path) -> None:
    people = People(FEW, 5.0)
    keys = {name: make_keys(tmp_path, name) for name in "abc"}
    parties = Parties(
        "b",
        "a",
        connect="127.0.0.1:9",
        certificate=keys["b"].certificate,
        key=keys["b"].key,
        others={name: keys[name].certificate for name in "ac"},
        timeout=0.1,
    )
    with pytest.raises(PromiseError, match=r"lattice attack|bits") as refused:
        fit_exact(people.table(), people.agreement(), "logistic", parties=parties)
    assert "--precision" in str(refused.value)


@pytest.mark.parametrize("kind", ["cox", "svm", "logistic"])
def test_real_studies_open_far_fewer_bits_than_tell_tables_apart(kind: Any) -> None:
    lung = study("lung")
    own = rows_to_fit(lung.part("D"), lung.agreement, kind)
    leak = dry_run(own, lung.agreement, kind, "efron", False, 1e-6)
    assert leak.holds()
    assert not leak.attacked  # a million and a half combinations
    assert leak.opened_bits < leak.table_bits / 4
    few = rows_to_fit(lung.part("D").slice(0, 3), lung.agreement, kind)
    assert not dry_run(few, lung.agreement, kind, "efron", False, 1e-6).holds()


def of_one_kind(people: int) -> tuple[Agreement, pa.Table]:
    """300 people of 50 ages, two sexes and three stages; so many are of the last stage."""
    rng = np.random.default_rng(5)
    stage = np.where(rng.random(300) < 0.4, "b", "a")
    stage[7 : 7 + people] = "c"
    columns = (
        Number("age", 20, 69, 1),
        Category("sex", ("f", "m")),
        Category("stage", ("a", "b", "c")),
    )
    table = pa.table({
        "age": rng.integers(20, 70, 300) * 1.0,
        "sex": rng.choice(["f", "m"], 300),
        "stage": stage,
        "dead": rng.random(300) < 0.4,
    })  # fmt: skip
    outcome = Outcome(label="dead", positive="true")
    return Agreement("s", columns, outcome, Projection("seed", 2)), table


def test_one_person_of_a_kind_is_read_from_the_model_and_the_rehearsal_refuses_it() -> None:
    """At the maximum λ·w of an indicator is the sum of the residuals of those who have it."""
    agreement, table = of_one_kind(1)
    own = rows_to_fit(table, agreement, "logistic")
    fit = exact_classifier(LocalArithmetic(), "logistic", own.x, own.event)
    grid = np.array([
        np.concatenate(parts)
        for parts in itertools.product(*(column.options() for column in agreement.columns[:2]))
    ])  # fmt: skip
    candidates = np.tile(np.c_[grid, np.zeros(len(grid)), np.ones(len(grid))], (2, 1))
    sign = np.repeat([1.0, -1.0], len(grid))
    margin = candidates @ fit.coefficients - fit.threshold
    residual = sign / (1.0 + np.exp(sign * margin))
    fits = np.flatnonzero(np.abs(residual - fit.coefficients[3]) < 3e-6)
    assert len(fits) == 1
    assert (candidates[fits[0]] == own.x[7]).all()
    leak = dry_run(own, agreement, "logistic", "efron", False, 1e-6)
    assert (leak.group, leak.group_column, leak.attacked) == (1, "stage", False)
    assert not leak.holds()
    with pytest.raises(PromiseError, match=r"1 row differs .* column `stage`"):
        check_opened(leak, None, "table")


@pytest.mark.parametrize("kind", ["svm", "logistic"])
def test_enough_people_of_a_kind_hide_each_other(kind: Any) -> None:
    agreement, table = of_one_kind(20)
    own = rows_to_fit(table, agreement, kind)
    leak = dry_run(own, agreement, kind, "efron", False, 1e-6)
    assert (leak.group, leak.holds()) == (20, True)


def test_who_alone_makes_two_columns_differ_is_found() -> None:
    agreement, table = of_one_kind(20)
    own = rows_to_fit(table, agreement, "logistic")
    twice = np.c_[own.x, own.x[:, 0]]
    twice[3, -1] += 0.5
    columns = (*agreement.columns, Number("again", 0, 100, 1))
    more = dataclasses.replace(agreement, columns=columns)
    rows = LocalRows(twice, own.time, own.event, 1.0, None)
    found = exact_leakage(rows, more, "svm", 1e-6, 60, None)
    assert (found.group, found.group_column, found.holds()) == (1, None, False)


def test_a_finer_step_in_the_agreement_hides_nobody() -> None:
    """Stages 0 to 5 are few combinations, whatever step was agreed."""
    rng = np.random.default_rng(1)
    table = pa.table({
        "a": rng.integers(0, 6, 127) * 1.0,
        "sex": rng.choice(["f", "m"], 127),
        "dead": rng.random(127) < 0.5,
    })  # fmt: skip
    for step in (1.0, 0.01):
        agreed = Agreement(
            "s",
            (Number("a", 0, 5, step), Category("sex", ("f", "m"))),
            Outcome(label="dead", positive="true"),
            Projection("seed", 1),
        )
        leak = dry_run(
            rows_to_fit(table, agreed, "logistic"), agreed, "logistic", "efron", False, 1e-6
        )
        assert (leak.combinations, leak.attacked, leak.holds()) == (12, True, False)


def test_reduced_lattices_have_the_shortest_vectors() -> None:
    """Against brute force over small coefficients."""
    rng = np.random.default_rng(2)
    for _ in range(20):
        effects = rng.integers(-9, 10, (5, 2)) * 1.0
        moves = np.array(list(itertools.product(range(-4, 5), repeat=5)))
        zero = moves[(moves @ effects == 0).all(axis=1) & moves.any(axis=1)]
        shortest = np.sqrt((zero**2).sum(axis=1).min())
        counts = np.full(5, 50)
        found = equal_tables(effects, counts) - counts
        assert len(found)
        assert np.sqrt((found**2).sum(axis=1).min()) <= 1.5 * shortest


def test_the_covariance_is_rehearsed_before_it_is_opened() -> None:
    """A table that the steps do not determine may be determined by the covariance besides."""
    people = People(((0, 1), (0, 1), (0, 0.5, 1)), 5.0)
    x, positive = people.rows
    own = LocalRows(x, np.empty(0), positive, 1.0, None)
    settings = (own, people.agreement(), "logistic", "efron", False, 1e-3)
    plain, more = dry_run(*settings), dry_run(*settings, True)
    assert more.opened_bits > plain.opened_bits + 10 * 8
    assert (plain.certain, more.certain > 0) == (0, True)
    assert plain.other_tables > more.other_tables
    assert not more.holds()


def test_of_a_cox_fit_totals_give_everybody_away_and_steps_do_not() -> None:
    """Totals of those at risk at each time, which fits opened once, are sums over people.

    So is the gradient for an attacker who is given the Hessians and the means of those at risk for
    free: from the steps, and the deaths at each time, he learns no more than that.
    """
    grid = np.array(list(itertools.product(*FEW)), dtype=np.float64)
    times = 3
    x, at = np.tile(grid, (times, 1)), np.repeat(np.arange(times), len(grid))
    counts = np.random.default_rng(3).poisson(4.0, len(x))
    died = counts.sum()
    fit = exact_cox(
        LocalArithmetic(), np.repeat(x, counts, axis=0), np.repeat(at + 1.0, counts),
        np.ones(died, bool), time_step=1, time_max=times, ties="breslow",
    )  # fmt: skip
    by_time = (at[:, None] == np.arange(times)) * 1.0
    sums, steps, totals = [], [], []
    for z, after, places in zip(
        fit.ascent.path, fit.ascent.path[1:], fit.ascent.places, strict=False
    ):
        risk = counts * np.exp(x @ z)
        still = at[None] >= np.arange(times)[:, None]
        mean = (still * risk) @ x / (still * risk).sum(axis=1, keepdims=True)
        spread = np.einsum("ti,ij,ik->tjk", still * risk, x, x)
        spread = spread / (still * risk).sum(axis=1)[:, None, None]
        spread -= mean[:, :, None] * mean[:, None]
        hessian = np.tensordot(counts @ by_time, spread, axes=1)
        pull = x - mean[at]
        units = np.linalg.inv(hessian) * 2.0**places
        once = np.exp(x @ z)[:, None] * np.c_[np.ones(len(x)), x] / 1e-10
        sums += [once * row[:, None] for row in still]
        steps.append(pull @ units)
        totals.append((after - z) * 2.0**places)
    effects = np.concatenate(sums[: 3 * times], axis=1)  # of three iterations
    assert (lattice_attack(effects, counts @ effects, 4.0) == counts).all()
    effects = np.concatenate([*steps, by_time], axis=1)
    told = np.concatenate([*totals, counts @ by_time])
    assert np.abs(counts @ effects - told).max() <= 0.51  # the attacker's equations hold
    found = lattice_attack(effects, told, 4.0)
    assert found is None or (found != counts).any()
    others = equal_tables(effects, counts)
    assert (others != counts).any(axis=0).mean() > 0.9, "nearly every number could be another"
