"""The Cox model of everybody's rows: Newton's method over institutions, by masked sums alone.

One iteration takes two sums. First the risk-set totals S0 (and D0 over tied deaths) at the
event times; with them everybody can compute each row's hazard, so the gradient and the first part
of the Hessian become plain sums over rows. The second sum holds these and the covariate totals
S1, D1 of the risk sets; second moments by time are never sent.

What all parties learn is in `ExactFit.revealed`. The totals at two neighbouring event times
differ by the people who left in between; where that is a single person, the totals give that
person's covariates away, though not at which institution. `min_group` merges times until at
least so many leave together.

*Stratified* Cox lets every institution keep a baseline hazard of its own. Risk sets then never
reach across institutions, so nothing is revealed by time: 1 + p + p(p+1)/2 numbers an iteration
are all that is added up. The price: no common survival curve, and differences between
institutions are not learned from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, ParameterError, PeerError, UnfinishedError
from sfumato.joint.cox import SortedRows, Ties, newton, tie_rows
from sfumato.joint.secure_sum import Summing

__all__ = ["ExactFit", "counted", "exact_cox", "exact_stratified_cox"]

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

Extra = TypeVar("Extra")

_MOST_CELLS = 1_000_000
_TOLERANCE = 1e-10
"""A step this small beside the coefficients is the last one."""
_FLAT = 1e-11
_HALVINGS = 40
_ENDLESS = 200.0
"""Coefficients beyond this grow for ever."""


@dataclass(frozen=True)
class ExactFit:
    """What an exact fit gives every party.

    Attributes
    ----------
    coefficients, threshold
        w (and γ of a classifier), equal to those of the pooled rows.
    times, hazard
        Cumulative baseline hazard (Cox).
    iterations
        Newton steps.
    rows
        Rows of all parties together.
    revealed
        Cox: `times` at which totals were revealed, `smallest_group` of people that left between
        two of them, `alone`, the people who were alone in that; classifiers: `numbers` revealed.
    """

    coefficients: Floats
    threshold: float
    times: Floats
    hazard: Floats
    iterations: int
    rows: int
    log_likelihood: float
    revealed: Mapping[str, float]


def exact_cox(
    summing: Summing,
    x: Floats,
    time: Floats,
    event: NDArray[np.bool_],
    *,
    time_step: float,
    time_max: float,
    weight: float = 1.0,
    penalty: float = 0.0,
    ties: Ties = "efron",
    min_group: int = 1,
    max_iterations: int = 50,
    names: Sequence[str] | None = None,
) -> ExactFit:
    """Fit the Cox model of everybody's rows together.

    Parameters
    ----------
    summing
        The connection to the other parties.
    x, time, event
        This party's rows.
    time_step, time_max
        The agreed grid: times are multiples of the step (others are rounded up) up to the maximum.
        All parties' event times are found by a masked sum over this grid.
    weight
        Weight of this party's rows.
    min_group
        Merge neighbouring grid cells until at least so many people leave in each; 1 keeps the grid,
        and the fit equals the pooled one.
    names
        What the columns of x are called, where an error must name one.

    Examples
    --------
    >>> from sfumato.joint.secure_sum import LocalSum
    >>> x, t, e = np.array([[0.0], [1.0], [0.0], [1.0]]), np.array([4.0, 2, 3, 4]), np.ones(4, bool)
    >>> fit = exact_cox(LocalSum(), x, t, e, time_step=1, time_max=10)
    >>> from sfumato.joint import fit_cox
    >>> bool(np.allclose(fit.coefficients, fit_cox(x, t, e).coefficients))
    True
    """
    if min_group < 1:
        raise ParameterError("`min_group` must be at least 1")
    if not weight > 0:
        raise ParameterError("the weight must be positive")
    cells = grid_cells(time, time_step, time_max)
    count = int(np.ceil(round(time_max / time_step, 9))) + 1
    columns = x.shape[1]
    efron = ties == "efron"

    first = summing.total(
        "outcomes",
        np.concatenate(
            (
                np.bincount(cells, minlength=count),
                np.bincount(cells[event], minlength=count),
                np.bincount(cells[event], minlength=count) * weight,
                x.sum(axis=0),
                (x * x).sum(axis=0),
            )
        ).astype(np.float64),
    )
    leaving, deaths = counted(first[:count]), counted(first[count : 2 * count])
    death_weight = first[2 * count : 3 * count]
    total = int(leaving.sum())
    mean = first[3 * count : 3 * count + columns] / total
    variance = first[3 * count + columns :] / total - mean**2
    check_pooled(int(deaths.sum()), variance, penalty, names)

    ends = merge_cells(leaving, deaths, min_group)
    cells = np.searchsorted(ends, cells)
    deaths = np.add.reduceat(deaths, np.concatenate(([0], ends[:-1] + 1)))
    death_weight = np.add.reduceat(death_weight, np.concatenate(([0], ends[:-1] + 1)))
    tied = (deaths > 1) & efron
    revealed = revealed_groups(leaving, ends, deaths, tied)
    site = Site(x - mean, cells, event, weight, np.flatnonzero(deaths)[::-1])
    deaths, death_weight, tied = deaths[site.events], death_weight[site.events], tied[site.events]
    death_sum = summing.total("deaths", site.death_sum)

    from sfumato.joint._kernels import tie_scalars

    def likelihood(w: Floats) -> tuple[float, Floats]:
        sums = summing.total("risk", site.risk(w, tied))
        groups = len(site.events)
        d0 = np.zeros(groups)
        d0[tied] = sums[groups:]
        scalars = tie_scalars(sums[:groups], d0, deaths, death_weight, efron)
        return float(death_sum @ w - scalars[:, 0].sum()), scalars

    def derivatives(scalars: Floats) -> tuple[Floats, Floats]:
        sums = summing.total("covariates", site.covariates(scalars, tied))
        gradient, hessian = site.assemble(sums, scalars, tied)
        return gradient + death_sum, hessian

    top = maximise(summing, columns, penalty, likelihood, derivatives, max_iterations)
    return ExactFit(
        coefficients=top.coefficients,
        threshold=0.0,
        times=np.asarray(ends[site.events] * time_step, dtype=np.float64)[::-1],
        hazard=np.cumsum(top.extra[::-1, 1]) * np.exp(-float(mean @ top.coefficients)),
        iterations=top.iterations,
        rows=total,
        log_likelihood=top.log_likelihood,
        revealed=revealed,
    )


def exact_stratified_cox(
    summing: Summing,
    x: Floats,
    time: Floats,
    event: NDArray[np.bool_],
    *,
    weight: float = 1.0,
    penalty: float = 0.0,
    ties: Ties = "efron",
    max_iterations: int = 50,
    names: Sequence[str] | None = None,
) -> ExactFit:
    """Fit the Cox model of everybody's rows, stratified by institution.

    Parameters
    ----------
    summing
        The connection to the other parties.
    x, time, event
        This party's rows; times need no common grid.
    weight
        Weight of this party's rows.
    penalty
        λ of the ridge penalty λ/2·‖w‖².
    names
        What the columns of x are called, where an error must name one.

    Examples
    --------
    >>> from sfumato.joint import fit_cox
    >>> from sfumato.joint.secure_sum import LocalSum
    >>> x, t, e = np.array([[0.0], [1.0], [0.0], [1.0]]), np.array([4.0, 2, 3, 4]), np.ones(4, bool)
    >>> fit = exact_stratified_cox(LocalSum(), x, t, e)
    >>> bool(np.allclose(fit.coefficients, fit_cox(x, t, e).coefficients))
    True
    """
    if not (weight > 0 and penalty >= 0):
        raise ParameterError("the weight must be positive, and the penalty not negative")
    if len(time) and (not np.isfinite(time).all() or time.min() < 0):
        raise InputError("times must be finite and not negative")
    columns = x.shape[1]
    upper = np.triu_indices(columns)
    first = summing.total(
        "outcomes", np.concatenate(([len(x), event.sum()], x.sum(axis=0), (x * x).sum(axis=0)))
    )
    rows, events = counted(first[:2]).tolist()
    mean = first[2 : 2 + columns] / rows
    check_pooled(events, first[2 + columns :] / rows - mean**2, penalty, names)
    own = SortedRows(x, time, event, np.full(len(x), weight), ties) if event.any() else None

    numbers = 1 + columns + len(upper[0])
    revealed = 0

    def likelihood(w: Floats) -> tuple[float, tuple[Floats, Floats]]:
        nonlocal revealed
        if own is None:  # without an event this party's likelihood is constant
            local = np.zeros(numbers)
        else:
            value, risk, scalars = own.likelihood(w)
            gradient, hessian = own.derivatives(risk, scalars)
            local = np.concatenate(([value], gradient, hessian[upper]))
        total = summing.total("derivatives", local)
        revealed += numbers
        full = np.zeros((columns, columns))
        full[upper] = total[1 + columns :]
        return float(total[0]), (total[1 : 1 + columns], full + np.triu(full, 1).T)

    top = maximise(summing, columns, penalty, likelihood, lambda extra: extra, max_iterations)
    return ExactFit(
        coefficients=top.coefficients,
        threshold=0.0,
        times=np.empty(0),
        hazard=np.empty(0),
        iterations=top.iterations,
        rows=rows,
        log_likelihood=top.log_likelihood,
        revealed={"numbers": float(revealed)},
    )


@dataclass(frozen=True)
class Maximum(Generic[Extra]):
    """Where the climb ended: coefficients, log-likelihood, what came extra with it, and steps."""

    coefficients: Floats
    log_likelihood: float
    extra: Extra
    iterations: int


def maximise(
    summing: Summing,
    columns: int,
    penalty: float,
    likelihood: Callable[[Floats], tuple[float, Extra]],
    derivatives: Callable[[Extra], tuple[Floats, Floats]],
    max_iterations: int,
) -> Maximum[Extra]:
    """Maximise the log-likelihood of everybody's rows less the penalty λ/2·‖w‖².

    Parameters
    ----------
    likelihood
        Log-likelihood at some coefficients, and whatever `derivatives` needs of it.
    derivatives
        Its gradient, and minus its Hessian.
    """
    w = np.zeros(columns)
    value, extra = likelihood(w)
    length = 0.0
    for iteration in range(1, max_iterations + 1):
        gradient, hessian = derivatives(extra)
        objective = value - penalty / 2 * length
        ridge = penalty * np.eye(columns)
        step = summing.same("step", newton(gradient - penalty * w, hessian + ridge))
        for _ in range(_HALVINGS):
            moved = w + step
            value, extra = likelihood(moved)
            told = summing.same("value", np.array([value, float(moved @ moved)]))
            value, length = told.tolist()
            if value - penalty / 2 * length >= objective - _FLAT * max(1.0, abs(objective)):
                break
            step = step / 2
        w = moved
        largest = float(np.abs(w).max())
        if largest > _ENDLESS:
            break
        if float(np.abs(step).max()) <= _TOLERANCE * max(1.0, largest):
            return Maximum(w, value, extra, iteration)
    raise UnfinishedError(
        "the Cox model has no finite maximum: some combination of columns orders the events "
        "perfectly",
        remedy="Start again with a penalty.",
    )


def counted(total: Floats) -> NDArray[np.int64]:
    """Everybody's counts, added up: what is no count was not made by this program.

    Examples
    --------
    >>> counted(np.array([3.0, 0.0])).tolist()
    [3, 0]
    """
    counts = np.rint(total)
    if (np.abs(total - counts) > 1e-6).any() or (counts < 0).any() or (counts > 2**53).any():
        raise PeerError(
            "the total does not match: the parties' counts do not add up to whole numbers",
            remedy="Run the same version everywhere; find out who does not.",
        )
    return counts.astype(np.int64)


def check_pooled(
    events: int, variance: Floats, penalty: float, names: Sequence[str] | None
) -> None:
    """Refuse totals from which no model follows: no event at all, or a constant column."""
    if not events:
        raise InputError("every row of every party is censored", remedy="Check the event column.")
    if penalty == 0 and (variance < 1e-14).any():
        at = int(np.flatnonzero(variance < 1e-14)[0])
        raise InputError(
            f"column {f'`{names[at]}`' if names else at + 1} is constant over all parties' rows",
            remedy="Leave it out of the agreement, or set a penalty.",
        )


# One party's sums along the common grid of times


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
