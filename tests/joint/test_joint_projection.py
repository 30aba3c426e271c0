"""The common random matrix and the row-wise kernels."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.joint import Agreement, Number, Outcome, Projection, project, random_matrix, round_to


def agreed(**projection: object) -> Agreement:
    columns = tuple(Number(name, 0, 1, 0.001) for name in "vwxyz")
    settings = {"seed": "s", "dimensions": 3, **projection}
    return Agreement("s", columns, Outcome(time="t", event="e"), Projection(**settings))  # type: ignore[arg-type]


def test_the_matrix_is_fixed_for_all_time() -> None:
    # Other institutions may run another version: these numbers must never change.
    expected = [[-0.372, -0.7336, -1.5371], [0.7748, 2.2192, 0.2365]]
    np.testing.assert_allclose(random_matrix("sfumato", 2, 3), expected, atol=1e-4)


def test_entries_are_standard_normal() -> None:
    b = random_matrix("large", 300, 300)
    assert abs(b.mean()) < 0.02
    assert abs(b.std() - 1) < 0.02
    assert abs((b**4).mean() - 3) < 0.1
    assert not np.allclose(b, random_matrix("other", 300, 300))


def test_orthonormal_rows() -> None:
    b = random_matrix("s", 7, 9, "orthonormal")
    np.testing.assert_allclose(b @ b.T, np.eye(7), atol=1e-12)


@pytest.mark.parametrize("kernel", ["linear", "gaussian"])
def test_kernels_act_on_rows_alone(kernel: str) -> None:
    rng = np.random.default_rng(0)
    a, c = rng.random((6, 5)), rng.random((4, 5))
    agreement = agreed(kernel=kernel, width=0.7)
    stacked = project(np.concatenate((a, c)), agreement)
    np.testing.assert_array_equal(
        stacked, np.concatenate((project(a, agreement), project(c, agreement)))
    )


def test_kernels_are_what_they_say() -> None:
    a = np.random.default_rng(1).random((6, 5))
    b = random_matrix("s", 3, 5, "orthonormal")
    np.testing.assert_allclose(project(a, agreed()), a @ b.T, atol=1e-14)
    distance = ((a[:, None, :] - b[None]) ** 2).sum(axis=2)
    found = project(a, agreed(kernel="gaussian", width=0.7))
    np.testing.assert_allclose(found, np.exp(-0.7 * distance), atol=1e-12)


def test_rounding() -> None:
    values = np.array([[0.123, -0.07], [0.0, 2.5]])
    assert round_to(values, 0.0) is values
    np.testing.assert_allclose(round_to(values, 0.05), [[0.1, -0.05], [0.0, 2.5]])
    assert not np.signbit(round_to(np.array([-0.01]), 1.0))[0]
