"""The grid attack against trying every row of the grid."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from joint_studies import study
from sfumato.joint import (
    Agreement,
    Category,
    Number,
    Outcome,
    Projection,
    grid_attack,
    project,
    round_to,
)
from sfumato.joint.agreement import Column

COLUMNS: tuple[Column, ...] = (
    Number("a", 0, 5, 1),
    Category("c", ("x", "y", "z")),
    Number("d", 0, 3, 1),
    Category("s", ("1", "2")),
)


@given(
    st.integers(0, 1000),
    st.integers(1, 4),
    st.sampled_from(["linear", "gaussian"]),
    st.sampled_from(["gaussian", "orthonormal"]),
    st.sampled_from([0.0, 0.03, 0.1, 0.3, 0.7]),
)
@example(15, 1, "gaussian", "gaussian", 0.0)
@settings(max_examples=40)
def test_equal_to_trying_every_row(
    seed: int, dimensions: int, kernel: str, matrix: str, rounding: float
) -> None:
    projection = Projection(str(seed), dimensions, matrix, kernel)  # type: ignore[arg-type]
    agreement = Agreement("s", COLUMNS, Outcome(time="t", event="e"), projection)
    grid = np.array(list(itertools.product(*[range(column.values) for column in COLUMNS])))
    rows = np.concatenate(
        [column.options()[grid[:, k]] for k, column in enumerate(COLUMNS)], axis=1
    )
    exact = project(rows, agreement)
    published = round_to(exact, rounding)
    found = grid_attack(published, grid, agreement, rounding)
    for i in range(len(grid)):
        # Numbers published exactly tell rows apart that are nearer than 1e-9 to each other.
        near = np.abs(exact - published[i]).max(axis=1) <= rounding / 2 * (1 + 1e-9) + 1e-12
        assert min(found.candidates[i], 100) == min(near.sum(), 100)
        assert found.pinned[i].tolist() == (grid[near] == grid[i]).all(axis=0).tolist()
    assert found.certain.all()


@pytest.mark.parametrize("nodes", [20_000, 30])
@pytest.mark.parametrize(("dimensions", "seeds"), [(2, (77, 157, 227)), (3, (6, 141, 241))])
def test_whether_a_cell_is_certain_is_told_as_by_the_whole_search(
    dimensions: int, seeds: tuple[int, ...], nodes: int
) -> None:
    columns = (Number("a", 0, 40, 1), Number("b", 0, 30, 1), Number("c", 0, 12, 1), COLUMNS[3])
    for seed, rounding in itertools.product(seeds, (0.1, 0.3, 1.0)):
        agreement = Agreement(
            "s", columns, Outcome(time="t", event="e"), Projection(str(seed), dimensions)
        )
        rng = np.random.default_rng(seed)
        rows = np.column_stack([rng.integers(0, column.values, 2) for column in columns])
        parts = [column.options()[rows[:, k]] for k, column in enumerate(columns)]
        published = round_to(project(np.concatenate(parts, axis=1), agreement), rounding)
        whole = grid_attack(published, rows, agreement, rounding, nodes=nodes, every_cell=True)
        quick = grid_attack(published, rows, agreement, rounding, nodes=nodes, only_whether=True)
        assert quick.recovered.tolist() == whole.recovered.tolist()
        assert quick.pinned.any() == whole.pinned.any()


def test_a_search_cut_short_counts_as_recovered() -> None:
    columns = tuple(Category(f"c{k}", ("0", "1")) for k in range(40))
    projection = Projection("s", 1)
    agreement = Agreement("s", columns, Outcome(time="t", event="e"), projection)
    rows = np.random.default_rng(0).integers(0, 2, (3, 40))
    published = project(rows.astype(float), agreement)
    found = grid_attack(published, rows, agreement, 0.0, nodes=2_000)
    assert found.recovered.all()
    assert not found.certain.any()


@pytest.mark.parametrize("dimensions", [5, 3, 1])
@pytest.mark.parametrize("matrix", ["gaussian", "orthonormal"])
def test_full_precision_gives_every_lung_patient_away(dimensions: int, matrix: str) -> None:
    lung = study("lung", dimensions=dimensions, matrix=matrix)
    encoded = lung.encoded
    found = grid_attack(project(encoded.matrix, lung.agreement), encoded.options, lung.agreement, 0)
    assert found.recovered.all()
    assert found.certain.all()


def test_two_decimals_give_most_lung_patients_away_and_few_dimensions_none() -> None:
    shares = {}
    for dimensions in (5, 2):
        lung = study("lung", dimensions=dimensions, matrix="gaussian")
        encoded = lung.encoded
        published = round_to(project(encoded.matrix, lung.agreement), 0.01)
        found = grid_attack(published, encoded.options, lung.agreement, 0.01)
        shares[dimensions] = found.recovered.mean()
    assert shares[5] > 0.5
    assert shares[2] < 0.05
