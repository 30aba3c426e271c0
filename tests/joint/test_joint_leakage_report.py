"""The leakage report and the search for a safe rounding."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from joint_studies import study
from sfumato.budget import Budget
from sfumato.errors import BudgetError, ParameterError, PromiseError
from sfumato.joint import (
    Agreement,
    Category,
    Encoded,
    Number,
    Outcome,
    Projection,
    encode,
    known_rows,
    leakage,
    leakage_report,
    make_share,
    narrowing,
    project,
    random_matrix,
    round_to,
    safe_rounding,
)
from sfumato.joint.attack import GridAttack
from sfumato.joint.leakage_report import Leakage


def small(dimensions: int = 2) -> tuple[Encoded, Agreement]:
    columns = (Number("a", 0, 9, 1), Number("b", 0, 9, 1), Category("s", ("1", "2")))
    agreement = Agreement(
        "s", columns, Outcome(time="t", event="e"), Projection("seed", dimensions)
    )
    options = np.random.default_rng(0).integers(0, [10, 10, 2], (200, 3))
    return Encoded(options / [9.0, 9.0, 1.0], options), agreement


def test_the_lung_figures() -> None:
    """All recovered from full-precision shares, nobody at the proposed precision."""
    lung = study("lung")
    encoded = lung.encoded
    whole = leakage(encoded, lung.agreement, 0.0, sample=None, interval_rows=5)
    assert whole.recovered == 1.0
    assert set(whole.pinned.values()) == {1.0}
    step, tried = safe_rounding(encoded, lung.agreement, sample=None)
    safe = leakage(encoded, lung.agreement, step, sample=None, interval_rows=5)
    assert safe.recovered == 0.0
    assert safe.attacked_rows == safe.rows == lung.table.num_rows
    assert safe.guessed < 0.2
    assert min(rounding for rounding, recovered in tried.items() if recovered == 0) == step
    assert tried[min(tried)] >= 0.5
    assert safe.interval is not None
    assert whole.interval is not None
    assert all(safe.interval[name] >= whole.interval[name] - 1e-9 for name in safe.interval)
    assert safe.known_rows == 6


def test_the_report_goes_row_by_row() -> None:
    encoded, agreement = small(1)
    found = leakage(encoded, agreement, 0.05, sample=50)
    rows = found.by_row()
    assert len(rows) == 50
    for entry in rows:
        truth = encoded.options[entry["row"]]
        grid = np.array(list(itertools.product(range(10), range(10), range(2))))
        projected = project(grid / [9.0, 9.0, 1.0], agreement)
        published = round_to(project(encoded.matrix[[entry["row"]]], agreement), 0.05)
        fits = grid[np.abs(projected - published).max(axis=1) <= 0.025 + 1e-9]
        assert entry["candidates"] == len(fits)
        certain = [name for k, name in enumerate("abs") if (fits[:, k] == truth[k]).all()]
        assert entry["certain"] == certain


def test_protecting_cells_asks_for_coarser_steps() -> None:
    lung = study("lung", dimensions=2)
    encoded, agreement = lung.encoded, lung.agreement
    rows, _ = safe_rounding(encoded, agreement, protect="rows")
    cells, _ = safe_rounding(encoded, agreement, protect="cells")
    assert cells > rows
    found = leakage(encoded, agreement, cells)
    assert found.holds("cells")
    assert set(found.pinned.values()) == {0.0}
    assert not leakage(encoded, agreement, rows).holds("cells")


def test_nothing_is_safe_when_every_row_stands_out() -> None:
    columns = (Category("a", ("0", "1")), Category("b", ("0", "1")))
    agreement = Agreement("s", columns, Outcome(time="t", event="e"), Projection("seed", 1))
    options = np.array([[0, 0], [1, 1]])
    encoded = Encoded(options.astype(float), options)
    with pytest.raises(PromiseError, match="protects rows and still"):
        safe_rounding(encoded, agreement)
    with pytest.raises(ParameterError, match="rows or cells"):
        safe_rounding(encoded, agreement, protect="people")  # type: ignore[arg-type]


def test_a_spent_budget_is_an_error_when_nothing_is_known() -> None:
    encoded, agreement = small()
    budget = Budget()
    budget.cancel()
    with pytest.raises(BudgetError, match="in time"):
        safe_rounding(encoded, agreement, budget=budget)


def test_a_sample_carries_its_confidence_limit() -> None:
    encoded, agreement = small()
    found = leakage(encoded, agreement, 3.0, sample=60)
    assert (found.attacked_rows, found.rows, found.recovered) == (60, 200, 0.0)
    # 0 of 60: the exact limit is 1 - 0.05^(1/60)
    assert found.recovered_at_most == pytest.approx(1 - 0.05 ** (1 / 60))
    everybody = leakage(encoded, agreement, 1.0, sample=None)
    assert everybody.recovered_at_most == everybody.recovered
    assert leakage(encoded, agreement, 0.0, sample=60).recovered_at_most == 1.0
    with pytest.raises(ParameterError, match="at least one row"):
        leakage(encoded, agreement, 1.0, sample=0)
    with pytest.raises(ParameterError, match="negative"):
        leakage(encoded, agreement, -1.0)


def test_intervals_hold_every_consistent_row() -> None:
    encoded, agreement = small(1)
    published = round_to(project(encoded.matrix[:5], agreement), 0.2)
    widths = narrowing(published, agreement, 0.2)
    fine = np.array(list(itertools.product(np.linspace(0, 1, 21), repeat=3)))
    inside = np.abs(project(fine, agreement)[None] - published[:, None]).max(axis=2) <= 0.1
    for row in range(5):
        spread = np.ptp(fine[inside[row]], axis=0)
        assert (widths[row] >= spread - 1e-9).all()
        assert (widths[row] <= spread + 0.11).all()


def test_intervals_on_a_line_are_exact() -> None:
    # With m̄ = n-1 and no rounding the consistent rows form a segment: known in closed form.
    encoded, agreement = small(2)
    b = random_matrix("seed", 2, 3, "orthonormal")
    direction = np.linalg.svd(b)[2][2]
    widths = narrowing(project(encoded.matrix[:6], agreement), agreement, 0.0)
    for row, width in zip(encoded.matrix[:6], widths, strict=True):
        ends = np.sort(np.stack([(0 - row) / direction, (1 - row) / direction]), axis=0)
        length = ends[1].min() - ends[0].max()
        np.testing.assert_allclose(width, length * np.abs(direction), atol=1e-6)


def test_n_known_rows_reveal_a_secret_matrix() -> None:
    lung = study("lung")
    matrix = lung.encoded.matrix
    b = random_matrix(lung.agreement.projection.seed, 5, 6, "orthonormal")
    published = project(matrix, lung.agreement)
    errors = {k: np.abs(known_rows(matrix, published, k, seed=3) - b).max() for k in (4, 6, 12)}
    assert errors[4] > 0.01
    assert errors[6] < 1e-9
    rounded = np.abs(known_rows(matrix, round_to(published, 0.1), 200) - b).max()
    assert rounded < 0.05  # rounding hardly helps once many rows are known


def test_rows_alone_with_their_outcome_are_counted() -> None:
    encoded, agreement = small()
    time = np.repeat(np.arange(100.0), 2)
    time[:2] = [500.0, 501.0]
    found = leakage(encoded, agreement, 1.0, outcome=(time, np.ones(200, bool)), interval_rows=0)
    assert found.unique_outcomes == pytest.approx(2 / 200)
    assert found.interval is None


def test_one_row_that_stands_out_among_thousands_is_found() -> None:
    """A sample of 2,000 rows misses it; the promise is about all of them."""
    columns = tuple(Number(name, 0, 9, 1) for name in "abc")
    agreement = Agreement("s", columns, Outcome(time="t", event="e"), Projection("three", 1))
    rows = 3_001
    options = np.random.default_rng(7).integers(3, 7, (rows, 3))
    sampled = np.random.default_rng(0).choice(rows, 2_000, replace=False)
    alone = int(np.setdiff1d(np.arange(rows), sampled)[0])
    b = random_matrix("three", 1, 3, agreement.projection.matrix)
    options[alone] = np.where(b[0] > 0, 9, 0)  # nothing else projects as far out
    encoded = Encoded(options / 9.0, options)
    assert leakage(encoded, agreement, 0.05, sample=2_000).recovered_rows == 0
    found = leakage(encoded, agreement, 0.05)
    assert (found.attacked_rows, found.recovered_rows) == (rows, 1)
    assert found.recovered_at_most == found.recovered
    step, _ = safe_rounding(encoded, agreement)
    assert step > 0.05
    table = pa.table({**{n: options[:, k] for k, n in enumerate("abc")},
                      "t": np.arange(rows), "e": np.ones(rows, int)})  # fmt: skip
    with pytest.raises(PromiseError, match="1 of 3001 attacked rows"):
        make_share(table, agreement, "A", rounding=0.05)


@pytest.mark.parametrize("odd", [0, 5])
def test_whole_numbers_are_guessed_whatever_step_was_agreed(odd: int) -> None:
    """Ages in a column of floats, of which a few have a half, and an agreed step of 0.03."""
    rng = np.random.default_rng(3)
    rows = rng.integers(0, 31, (300, 3)) * 1.0
    rows[:odd, 0] = np.minimum(rows[:odd, 0] + 0.5, 30)
    columns = tuple(Number(name, 0, 30, 0.03) for name in "abc")
    agreement = Agreement("s", columns, Outcome(time="t", event="e"), Projection("seed", 2))
    table = pa.table({name: rows[:, at] for at, name in enumerate("abc")})
    encoded = encode(table, agreement)
    blind = Encoded(encoded.matrix, encoded.options)
    assert leakage(blind, agreement, 0.002, interval_rows=0).recovered == 0.0
    assert leakage(encoded, agreement, 0.002, interval_rows=0).recovered > 0.9
    step, _ = safe_rounding(encoded, agreement)
    published = round_to(project(encoded.matrix, agreement), step)
    whole = np.rint(np.arange(31) / 0.03) * 0.03 / 30
    grid = np.array(list(itertools.product(whole, repeat=3)))
    could = round_to(project(grid, agreement), step)
    for row in published[odd::10]:
        assert (np.abs(could - row) < 1e-9).all(axis=1).sum() > 1


def leak(recovered: int, pinned: float = 0.0) -> Leakage:
    """One of a hundred rows, and nothing else, may be known."""
    share = recovered / 100
    return Leakage(
        100, 100, 1, 0.1, recovered, share, share, 0, 0.1, 9.0, {"a": pinned}, 100, 0, 100
    )


def test_one_row_or_one_cell_that_is_certain_is_too_many() -> None:
    assert leak(0).holds()
    assert not leak(1).holds()
    assert leak(0, pinned=0.01).holds()
    assert leak(0).holds("cells")
    assert not leak(1).holds("cells")
    assert not leak(0, pinned=0.01).holds("cells")


def test_rows_whose_search_was_cut_short_are_counted_among_the_recovered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = GridAttack(
        np.array([1, 1, 1, 5]), np.array([True, False, False, True]), np.zeros((4, 1), bool)
    )
    assert found.recovered.tolist() == [True, True, True, False]
    monkeypatch.setattr(leakage_report, "grid_attack", lambda *_, **__: found)
    nothing: Any = None
    assert leakage_report.recovered_rows(nothing, nothing, nothing, 0.1) == (3, 2)
