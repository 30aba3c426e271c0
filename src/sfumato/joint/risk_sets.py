"""Risk sets over institutions: the common grid of times, and one party's sums along it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, ParameterError
from sfumato.joint.cox import tie_rows

__all__ = ["Site", "grid_cells", "merge_cells", "revealed_groups"]

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

_MOST_CELLS = 1_000_000


class Site:
    """One party's rows, sorted by falling time and cut at the common event times."""

    def __init__(
        self,
        x: Floats,
        cells: Counts,
        event: NDArray[np.bool_],
        weight: float,
        events: Counts,
    ) -> None:
        order = np.argsort(-cells, kind="stable")
        cells = cells[order]
        # A group holds whoever left from its event time on, up to the event time before.
        self.events = events
        ends = np.searchsorted(-cells, -events, side="right")
        self.starts = np.concatenate(([0], ends)).astype(np.int64)
        kept = order[: int(self.starts[-1])]
        self.x = np.ascontiguousarray(x[kept])
        self.dying = event[kept]
        self.weight = weight
        self.group = np.repeat(np.arange(len(events)), np.diff(self.starts))
        self.death_sum = weight * self.x[self.dying].sum(axis=0)
        self._risk = np.zeros(len(kept))

    def risk(self, w: Floats, tied: NDArray[np.bool_]) -> Floats:
        """S0 at every event time, and D0 where several died (of one it would tell the risk)."""
        from sfumato.joint._kernels import group_totals

        self._risk = self.weight * np.exp(np.minimum(self.x @ w, 600.0))
        groups = len(self.events)
        d0 = np.bincount(self.group[self.dying], self._risk[self.dying], minlength=groups)
        return np.concatenate((group_totals(self._risk, self.starts), d0[tied]))

    def covariates(self, scalars: Floats, tied: NDArray[np.bool_]) -> Floats:
        """This party's part of gradient and Hessian, and S1, D1 at the event times."""
        from sfumato.joint._kernels import risk_totals, row_hazard

        lived = row_hazard(self.starts, self.dying, scalars[:, 1], scalars[:, 2]) * self._risk
        columns = self.x.shape[1]
        hessian = self.x.T @ (self.x * lived[:, None])
        carry = np.zeros(columns)
        groups = len(self.events)
        s1, d1 = risk_totals(self.x, self._risk, self.dying, self.starts, 0, groups, carry)
        upper = np.triu_indices(columns)
        return np.concatenate((-(self.x.T @ lived), hessian[upper], s1.ravel(), d1[tied].ravel()))

    def assemble(
        self, sums: Floats, scalars: Floats, tied: NDArray[np.bool_]
    ) -> tuple[Floats, Floats]:
        """Gradient (without the deaths' own part) and Hessian of the pooled rows."""
        columns = self.x.shape[1]
        groups = len(self.events)
        upper = np.triu_indices(columns)
        at = columns + len(upper[0])
        hessian = np.zeros((columns, columns))
        hessian[upper] = sums[columns:at]
        hessian = hessian + np.triu(hessian, 1).T
        s1 = sums[at : at + groups * columns].reshape(groups, columns)
        d1 = np.zeros((groups, columns))
        d1[tied] = sums[at + groups * columns :].reshape(-1, columns)
        rows = tie_rows(scalars, s1, d1)
        return sums[:columns].copy(), hessian - rows.T @ rows


def grid_cells(time: Floats, step: float, longest: float) -> Counts:
    """Cell of the grid in which each time lies; times between two are rounded up."""
    if not (step > 0 and longest > 0):
        raise ParameterError("time step and maximum must be positive")
    if longest / step > _MOST_CELLS:
        raise ParameterError(
            f"the grid would have more than {_MOST_CELLS:,} times", remedy="Use a larger time step."
        )
    if len(time) and (not np.isfinite(time).all() or time.min() < 0 or time.max() > longest):
        raise InputError("times must lie between 0 and the agreed maximum")
    return np.ceil(np.round(time / step, 9)).astype(np.int64)


def merge_cells(leaving: Counts, deaths: Counts, least: int) -> Counts:
    """Last cell of each merged cell: in each none or at least `least` die, and likewise live."""
    if least == 1:
        return np.arange(len(leaving))
    ends = []
    died = lived = 0
    for cell, (number, dead) in enumerate(zip(leaving.tolist(), deaths.tolist(), strict=True)):
        died, lived = died + dead, lived + int(number) - dead
        if died + lived and (died == 0 or died >= least) and (lived == 0 or lived >= least):
            ends.append(cell)
            died = lived = 0
    if not ends:
        raise InputError(f"fewer than {least} people in all", remedy="Lower `min_group`.")
    ends[-1] = len(leaving) - 1  # whoever is left over joins the last cell
    return np.array(ends, dtype=np.int64)


def revealed_groups(
    leaving: Counts,
    ends: Counts,
    deaths: Counts,
    tied: NDArray[np.bool_],
) -> dict[str, float]:
    """How finely the revealed totals tell people apart: groups that leave between event times.

    Where several died at once their totals are revealed by themselves, and so are the others'.
    """
    merged = np.add.reduceat(leaving, np.concatenate(([0], ends[:-1] + 1)))
    happened = np.flatnonzero(deaths)
    groups = np.add.reduceat(merged, happened)
    apart = tied[happened]
    dead = deaths[happened][apart]
    groups = np.concatenate((groups[~apart], dead, groups[apart] - dead))
    groups = groups[groups > 0]
    return {
        "times": float(len(happened)),
        "smallest_group": float(groups.min()),
        "alone": float((groups == 1).sum()),
    }
