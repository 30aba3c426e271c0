"""The common random matrix B and the row-wise kernels K(A, B').

B comes from the agreement's seed through SHAKE-256, so that every institution derives the same
numbers on any machine and with any version of the libraries below us.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from sfumato.joint.agreement import Agreement

__all__ = ["project", "projection_bounds", "random_matrix", "round_to"]

Floats = NDArray[np.float64]


def random_matrix(seed: str, rows: int, columns: int, kind: str = "gaussian") -> Floats:
    """B from a seed: independent standard normal entries, or orthonormal rows.

    Orthonormal rows keep distances (and so the meaning of a penalty) and amplify rounding least.

    Examples
    --------
    >>> b = random_matrix("study", 2, 3, "orthonormal")
    >>> bool(np.allclose(b @ b.T, np.eye(2)))
    True
    >>> bool((random_matrix("study", 2, 3) == random_matrix("study", 2, 3)).all())
    True
    """
    count = rows * columns
    label = f"sfumato joint {kind} {rows}x{columns} {seed}".encode()
    stream = hashlib.shake_256(label).digest(16 * count)
    words = np.frombuffer(stream, dtype="<u8").reshape(2, count)
    uniform = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    # Box and Muller: two uniform numbers make one normal number.
    normal = np.sqrt(-2.0 * np.log(uniform[0])) * np.cos(2.0 * np.pi * uniform[1])
    matrix: Floats = normal.reshape(rows, columns)
    if kind == "gaussian":
        return matrix
    q, r = np.linalg.qr(matrix.T)
    return np.ascontiguousarray((q * np.sign(np.diag(r))).T)


def project(a: Floats, agreement: Agreement) -> Floats:
    """K(A, B'): what may be published of each row, before rounding.

    Linear: A·B'. Gaussian: exp(-width·‖A_i - B_k‖²). Both act on each row alone (the paper's
    condition below Algorithm 4.1), so stacking shares equals projecting the stacked rows.
    """
    chosen = agreement.projection
    b = random_matrix(chosen.seed, chosen.dimensions, a.shape[1], chosen.matrix)
    if chosen.kernel == "linear":
        return np.asarray(a @ b.T)
    distance = (a * a).sum(axis=1)[:, None] - 2.0 * (a @ b.T) + (b * b).sum(axis=1)[None, :]
    return np.asarray(np.exp(-chosen.width * np.maximum(distance, 0.0)))


def projection_bounds(agreement: Agreement) -> tuple[Floats, Floats]:
    """The least and the greatest number that a row within the agreed bounds can give, each k.

    Examples
    --------
    >>> from sfumato.joint import Number, Outcome, Projection
    >>> agreement = Agreement("s", (Number("a", 0, 9, 1), Number("b", 0, 9, 1)),
    ...     Outcome(time="t", event="e"), Projection("seed", 1))
    >>> low, high = projection_bounds(agreement)
    >>> corners = project(np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]), agreement)
    >>> bool(np.isclose(corners.min(), low) and np.isclose(corners.max(), high))
    True
    """
    chosen = agreement.projection
    if chosen.kernel != "linear":
        return np.zeros(chosen.dimensions), np.ones(chosen.dimensions)
    b = random_matrix(chosen.seed, chosen.dimensions, agreement.encoded, chosen.matrix)
    return np.minimum(b, 0.0).sum(axis=1), np.maximum(b, 0.0).sum(axis=1)


def round_to(values: Floats, step: float) -> Floats:
    """Round to multiples of `step`; a step of 0 leaves the values alone.

    Examples
    --------
    >>> round_to(np.array([0.26, -0.74]), 0.5).tolist()
    [0.5, -0.5]
    """
    if step == 0:
        return values
    return np.asarray(np.rint(values / step) * step) + 0.0
