"""What the numbers that an exact fit opens would tell about one party's rows.

Measured by each party at home, before it meets the others. The party fits the model of its own
rows alone, in the same way and to the same precision, and attacks what would be opened. That is the
worst case: whoever is in league with all others knows their part of every number, and the more
rows take part, the less each of them moves a rounded number.

Two things are measured. *Counting*: how many tables of the agreed grid have these outcomes, and how
many different answers the opened digits can spell. Of all those tables no more can be told from
every other than there are answers. *The lattice attack*, for classifiers of few combinations of
values: whether tables with the same numbers exist in which other people have a combination.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import lgamma, log, log2
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import PromiseError
from sfumato.joint.agreement import Agreement
from sfumato.joint.attack import equal_tables
from sfumato.joint.hidden_newton import Climb
from sfumato.joint.linear_classifiers import Loss, row_losses
from sfumato.joint.local_data import LocalRows
from sfumato.results import Result

__all__ = ["ExactLeakage", "check_opened", "exact_leakage", "step_effects"]

Floats = NDArray[np.float64]

_FEW = 128
"""Combinations of values up to which the lattice attack is made."""
SPARE_BITS = 32


@dataclass(frozen=True)
class ExactLeakage(Result):
    """What an exact fit would tell about this party's rows, at one precision.

    Attributes
    ----------
    rows, precision
        This party's rows, and how far coefficients may be off.
    combinations
        Different rows that the agreed grid allows.
    table_bits
        Binary logarithm of the number of tables of that grid which have this party's outcomes.
    opened_bits
        Binary digits of the steps and the hazard that a fit of these rows alone opens.
    attacked
        Whether the lattice attack was made: for classifiers of few combinations.
    other_tables
        Tables it found that give the same numbers.
    certain
        People whose combination of values is as frequent in all of these as it is in truth.
    """

    rows: int
    precision: float
    combinations: float
    table_bits: float
    opened_bits: float
    attacked: bool
    other_tables: int
    certain: int

    def holds(self) -> bool:
        """Whether far fewer bits are opened than tell tables apart, and nobody is certain."""
        return self.table_bits >= self.opened_bits + SPARE_BITS and not self.certain


def exact_leakage(
    own: LocalRows,
    agreement: Agreement,
    kind: Literal["cox", "svm", "logistic"],
    precision: float,
    opened_bits: float,
    climb: Climb | None,
) -> ExactLeakage:
    """What the numbers opened by a fit of these rows alone tell about them.

    Parameters
    ----------
    own, agreement, kind, precision
        As they will be in the fit.
    opened_bits, climb
        What the rehearsal opened; without a climb (no model of these rows alone exists) there is
        nothing to attack.
    """
    combinations = float(np.prod([float(len(column.options())) for column in agreement.columns]))
    outcomes = np.column_stack((own.time, own.event)) if len(own.time) else own.event[:, None]
    _, alike = np.unique(outcomes, axis=0, return_counts=True)
    found, certain, attacked = 0, 0, False
    if kind != "cox" and combinations <= _FEW and climb is not None:
        attacked = True
        found, certain = _attacked(own, agreement, kind, climb)
    return ExactLeakage(
        rows=len(own.x),
        precision=precision,
        combinations=combinations,
        table_bits=float(sum(_choices(int(people), combinations) for people in alike)),
        opened_bits=opened_bits,
        attacked=attacked,
        other_tables=found,
        certain=certain,
    )


def _choices(people: int, combinations: float) -> float:
    """Bits to say how many of these people have each of the combinations."""
    ways = lgamma(people + combinations) - lgamma(combinations) - lgamma(people + 1)
    return ways / log(2)


def _attacked(own: LocalRows, agreement: Agreement, kind: Loss, climb: Climb) -> tuple[int, int]:
    """Other tables with the same steps, and people whose combination none of them changes."""
    options = [column.options() for column in agreement.columns]
    grid = np.array([np.concatenate(parts) for parts in product(*options)])
    place = {row.tobytes(): at for at, row in enumerate(np.round(grid, 9) + 0.0)}
    at = np.array([place[row.tobytes()] for row in np.round(own.x, 9) + 0.0])
    counts = np.bincount(at + len(grid) * ~own.event, minlength=2 * len(grid))
    x, sign = np.tile(grid, (2, 1)), np.repeat([1.0, -1.0], len(grid))
    effects, _ = step_effects(kind, x, sign, counts, 1.0 / own.penalty, climb)
    classes = (sign[:, None] == [1.0, -1.0]) * 1.0  # how many are of each class is opened too
    found = equal_tables(np.concatenate((effects, classes), axis=1), counts)
    people = counts.reshape(2, -1).sum(axis=0)
    changed = (found.reshape(-1, 2, len(grid)).sum(axis=1) != people).any(axis=0)
    return len(found), int(people[~changed].sum())


def step_effects(
    kind: Loss, x: Floats, sign: Floats, counts: NDArray[np.int64], nu: float, climb: Climb
) -> tuple[Floats, Floats]:
    """What one more person of each combination does to every opened step, in units of its grid.

    A step d at z solves M·d = g, and M and g are sums over people: so the sum over people of
    g_i - M_i·d is zero, but for the ridge. The attacker is given the inverse of M for free.

    Returns
    -------
    effects, totals
        One row a combination; and what they add up to over all people.
    """
    wide = np.c_[x, -np.ones(len(x))]
    effects, totals = [], []
    for z, after, places in zip(climb.path, climb.path[1:], climb.places, strict=False):
        step = after - z
        _, slope, bend = row_losses(kind, sign * (wide @ z))
        matrix = nu * (wide * (bend * counts)[:, None]).T @ wide + np.eye(wide.shape[1])
        units = np.linalg.inv(matrix) * 2.0**places
        pull = slope * sign + bend * (wide @ step)
        effects.append(-nu * (pull[:, None] * wide) @ units)
        totals.append((z + step) @ units)
    return np.concatenate(effects, axis=1), np.concatenate(totals)


def check_opened(found: ExactLeakage, coarser: float | None, where: str) -> None:
    """Refuse a fit that would tell too much about this party's rows.

    Parameters
    ----------
    coarser
        A precision at which it would not, if there is one.
    """
    if found.holds():
        return
    what = (
        f"the fit would open about {found.opened_bits:.0f} bits; all tables with these outcomes "
        f"can be told apart by {found.table_bits:.0f}"
    )
    if found.certain:
        what = (
            "from the numbers that the fit would open a lattice attack finds out how many people "
            f"have a combination of values, for {found.certain} of {found.rows} people"
        )
    raise PromiseError(
        what,
        where=where,
        remedy="Leave columns out, or open it anyway (--open-anyway)."
        if coarser is None
        else f"Agree on --precision {coarser:g}, or open it anyway (--open-anyway).",
    )


def opened_guess(columns: int, precision: float) -> float:
    """Bits that a fit of so many coefficients opens, where it cannot be rehearsed."""
    return 4.0 * columns * log2(1.0 / precision)
