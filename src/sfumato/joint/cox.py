"""Cox proportional hazards: log h(t) = α(t) + w'x, by Newton's method on the partial likelihood.

One iteration costs O(n·p²) in matrix products and O(n·p) otherwise, whatever the number of
distinct times. Ties are Efron's (default) or Breslow's; rows may carry weights; a ridge penalty
λ/2·‖w‖² may be added. The Hessian is taken apart as

    Σ_i a_i r_i x_i x_i'  -  Σ_t (outer products of the risk-set means),

where r_i = exp(w'x_i) and a_i is the hazard that row i lived through: the first part is a single
matrix product, and of the second Efron's d tied terms collapse into two rows a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.errors import InputError, ParameterError, UnfinishedError
from sfumato.kernels.compiling import compiled
from sfumato.results import Result

Floats = NDArray[np.float64]
Ties = Literal["efron", "breslow"]

_BLOCK = 16_384
SEPARATION_PENALTY = 1e-2
"""Ridge penalty used when the likelihood has no maximum of its own."""


@dataclass(frozen=True)
class CoxFit(Result):
    """A fitted Cox model.

    Attributes
    ----------
    coefficients
        w, one number a column.
    times, hazard
        Event times, rising, and the cumulative baseline hazard at each.
    log_likelihood
        Partial log likelihood at the end, without the penalty.
    penalty
        Ridge penalty that was in force.
    iterations
        Newton steps taken.
    separated
        Whether a combination of columns orders the events perfectly, so that the coefficients
        would grow without end; the penalty was then raised.
    """

    coefficients: Floats
    times: Floats
    hazard: Floats
    log_likelihood: float
    penalty: float
    iterations: int
    separated: bool = False
    information: Floats = field(
        default_factory=lambda: np.empty((0, 0)), metadata={"private": True}
    )

    def risk(self, x: ArrayLike) -> Floats:
        """Log relative hazard w'x of each row."""
        return np.asarray(np.asarray(x, dtype=np.float64) @ self.coefficients, dtype=np.float64)

    def survival(self, x: ArrayLike, at: ArrayLike) -> Floats:
        """Probability to live beyond each time of `at`, one row a row of `x`."""
        moments = np.atleast_1d(np.asarray(at, dtype=np.float64))
        steps = np.concatenate(([0.0], self.hazard))
        reached = steps[np.searchsorted(self.times, moments, side="right")]
        return np.asarray(np.exp(-np.exp(self.risk(x))[:, None] * reached[None, :]))


def fit_cox(
    x: ArrayLike,
    time: ArrayLike,
    event: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    penalty: float = 0.0,
    ties: Ties = "efron",
    tolerance: float = 1e-10,
    max_iterations: int = 100,
) -> CoxFit:
    """Fit a Cox model.

    Parameters
    ----------
    x
        Rows by columns, finite.
    time, event
        Time under observation, and whether it ended in the event.
    weights
        Weight of each row; all 1 by default.
    penalty
        λ of the ridge penalty λ/2·‖w‖².
    ties
        Treatment of equal event times.
    tolerance
        Stop when no coefficient moves by more than this.

    Examples
    --------
    >>> fit = fit_cox([[0.0], [1.0], [0.0], [1.0]], [4, 2, 3, 3.5], [1, 1, 1, 0])
    >>> round(float(fit.coefficients[0]), 3), fit.separated
    (0.347, False)
    """
    matrix, times, dying, case = _checked(x, time, event, weights, penalty)
    problem = SortedRows(matrix, times, dying, case, ties)
    fit = _solve(problem, penalty, tolerance, max_iterations)
    if fit is None:
        # No finite maximum: a direction orders the deaths perfectly (monotone likelihood).
        raised = max(penalty, SEPARATION_PENALTY)
        fit = _solve(problem, raised, tolerance, max_iterations, separated=True)
        if fit is None:
            raise UnfinishedError(
                "the Cox model did not converge", remedy="Raise the penalty, or drop columns."
            )
    return fit


def _checked(
    x: ArrayLike, time: ArrayLike, event: ArrayLike, weights: ArrayLike | None, penalty: float
) -> tuple[Floats, Floats, NDArray[np.bool_], Floats]:
    matrix = np.asarray(x, dtype=np.float64)
    times = np.asarray(time, dtype=np.float64)
    dying = np.asarray(event, dtype=bool)
    if matrix.ndim != 2 or len(matrix) != len(times) or len(times) != len(dying):
        raise InputError("`x`, `time` and `event` must have one entry per row")
    case = np.ones(len(times)) if weights is None else np.asarray(weights, dtype=np.float64)
    if case.shape != times.shape or not (np.isfinite(case) & (case > 0)).all():
        raise ParameterError("weights must be positive numbers, one per row")
    if not (penalty >= 0 and np.isfinite(penalty)):
        raise ParameterError("the penalty must not be negative")
    if not np.isfinite(matrix).all():
        raise InputError("a column holds missing or infinite values; fill them before fitting")
    if not np.isfinite(times).all() or (times < 0).any():
        raise InputError(
            "times must be finite and not negative",
            remedy="Check the time column for negative or missing entries.",
        )
    if not dying.any():
        raise InputError(
            "every row is censored: without an event there is nothing to learn",
            remedy="Check how the event column is coded.",
        )
    if penalty == 0 and len(matrix):
        constant = np.flatnonzero(matrix.max(axis=0) == matrix.min(axis=0))
        if constant.size:
            raise InputError(
                f"column number {int(constant[0]) + 1} is constant over the {len(matrix)} rows",
                remedy="Leave it out, or set a penalty.",
            )
    return matrix, times, dying, case


class SortedRows:
    """Rows sorted by falling time, so that risk sets are prefixes."""

    def __init__(
        self, x: Floats, time: Floats, dying: NDArray[np.bool_], weights: Floats, ties: Ties
    ) -> None:
        order = np.argsort(-time, kind="stable")
        # Centring leaves the partial likelihood as it is and keeps exp(w'x) in range.
        self.x = np.ascontiguousarray(x[order] - x.mean(axis=0))
        self.mean = x.mean(axis=0)
        self.time = time[order]
        self.dying = dying[order]
        self.weights = weights[order]
        if ties not in ("efron", "breslow"):
            raise ParameterError(
                f"`{ties}` is not a treatment of ties", remedy="Use efron or breslow."
            )
        self.efron = ties == "efron"
        self.starts = time_groups(self.time)
        heads = self.starts[:-1]
        self.deaths = np.add.reduceat(self.dying.astype(np.int64), heads)
        self.death_weight = np.add.reduceat(np.where(self.dying, self.weights, 0.0), heads)
        self.death_sum = self.x.T @ np.where(self.dying, self.weights, 0.0)

    def likelihood(self, w: Floats) -> tuple[float, Floats, Floats]:
        """Log likelihood at `w`, the rows' risks, and the tie scalars of each time."""
        risk = self.weights * np.exp(np.minimum(self.x @ w, 600.0))
        s0 = group_totals(risk, self.starts)
        d0 = np.add.reduceat(np.where(self.dying, risk, 0.0), self.starts[:-1])
        scalars = tie_scalars(s0, d0, self.deaths, self.death_weight, self.efron)
        return float(self.death_sum @ w - scalars[:, 0].sum()), risk, scalars

    def derivatives(self, risk: Floats, scalars: Floats) -> tuple[Floats, Floats]:
        """Gradient and (positive) Hessian of the log likelihood, turned in sign."""
        lived = row_hazard(self.starts, self.dying, scalars[:, 1], scalars[:, 2]) * risk
        gradient = self.death_sum - self.x.T @ lived
        columns = self.x.shape[1]
        hessian = np.zeros((columns, columns))
        for first in range(0, len(lived), _BLOCK):
            part = self.x[first : first + _BLOCK]
            hessian += part.T @ (part * lived[first : first + _BLOCK, None])
        for rows in self._mean_rows(risk, scalars):
            hessian -= rows.T @ rows
        return gradient, hessian

    def _mean_rows(self, risk: Floats, scalars: Floats) -> Iterator[Floats]:
        carry = np.zeros(self.x.shape[1])
        for first in range(0, len(scalars), _BLOCK):
            last = min(first + _BLOCK, len(scalars))
            s1, d1 = risk_totals(self.x, risk, self.dying, self.starts, first, last, carry)
            yield tie_rows(scalars[first:last], s1, d1)


def time_groups(falling: Floats) -> NDArray[np.int64]:
    """Start of each run of equal values in sorted `falling`, with its length at the end."""
    edges = np.flatnonzero(np.diff(falling)) + 1
    return np.concatenate(([0], edges, [len(falling)])).astype(np.int64)


def tie_rows(scalars: Floats, s1: Floats, d1: Floats) -> Floats:
    """Rows M with M'M = Σ v·c²·(S1 - f·D1)(S1 - f·D1)' over all times and tied deaths.

    With α = Σvc², β = Σvc²f, γ = Σvc²f² the sum over one time's ties is the quadratic form
    [[α, -β], [-β, γ]] in (S1, D1), whose Cholesky factor gives two rows.
    """
    alpha, beta, gamma = scalars[:, 3], scalars[:, 4], scalars[:, 5]
    happened = alpha > 0
    root = np.sqrt(alpha[happened])
    share = beta[happened] / alpha[happened]
    first = root[:, None] * (s1[happened] - share[:, None] * d1[happened])
    rest = np.maximum(gamma[happened] - beta[happened] * share, 0.0)
    tied = rest > 0
    second = np.sqrt(rest[tied])[:, None] * d1[happened][tied]
    return np.concatenate((first, second))


def newton(gradient: Floats, hessian: Floats) -> Floats:
    """Newton step; least squares where the Hessian is singular."""
    try:
        return np.asarray(np.linalg.solve(hessian, gradient))
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(hessian, gradient, rcond=None)[0])


def _solve(
    problem: SortedRows,
    penalty: float,
    tolerance: float,
    max_iterations: int,
    separated: bool = False,
) -> CoxFit | None:
    columns = problem.x.shape[1]
    w = np.zeros(columns)
    value, risk, scalars = problem.likelihood(w)
    information = np.zeros((columns, columns))
    for iteration in range(1, max_iterations + 1):
        gradient, information = problem.derivatives(risk, scalars)
        information[np.diag_indices(columns)] += penalty
        step = newton(gradient - penalty * w, information)
        objective = value - penalty / 2 * float(w @ w)
        for _ in range(40):
            moved = w + step
            value, risk, scalars = problem.likelihood(moved)
            if np.isfinite(value) and (
                value - penalty / 2 * float(moved @ moved) >= objective - 1e-12 * abs(objective)
            ):
                break
            step = step / 2
        w = moved
        gain = value - penalty / 2 * float(w @ w) - objective
        if penalty == 0 and _diverges(problem, step, gain, objective):
            return None
        if float(np.abs(step).max(initial=0.0)) <= tolerance * max(1.0, float(np.abs(w).max())):
            return _finished(problem, w, value, scalars, penalty, iteration, separated, information)
    return None


def _diverges(problem: SortedRows, step: Floats, gain: float, objective: float) -> bool:
    # Where a maximum exists, a step that gains nothing is a small step. Under monotone likelihood
    # the gain shrinks e-fold while every step goes on adding about 1 to a log hazard ratio.
    return gain <= 1e-8 * (1.0 + abs(objective)) and float(np.ptp(problem.x @ step)) > 0.1


def _finished(
    problem: SortedRows,
    w: Floats,
    value: float,
    scalars: Floats,
    penalty: float,
    iterations: int,
    separated: bool,
    information: Floats,
) -> CoxFit:
    happened = problem.deaths > 0
    heads = problem.starts[:-1]
    times = problem.time[heads][happened][::-1]
    # Weighted deaths over weighted risk; the shift undoes the centring of the columns.
    steps = scalars[happened, 1][::-1] * np.exp(-float(problem.mean @ w))
    return CoxFit(
        coefficients=w,
        times=times.copy(),
        hazard=np.cumsum(steps),
        log_likelihood=value,
        penalty=penalty,
        iterations=iterations,
        separated=separated,
        information=information,
    )


def group_totals(values: Floats, starts: NDArray[np.int64]) -> Floats:
    """Running total of `values` at the end of each group of rows (rows sorted by time, falling)."""
    return np.asarray(np.cumsum(values)[starts[1:] - 1])


def row_hazard(
    starts: NDArray[np.int64], dying: NDArray[np.bool_], hazard: Floats, tied: Floats
) -> Floats:
    """Hazard that each row lived through: Σ over times up to its own, less its own tie's share."""
    many = np.diff(starts)
    total = np.repeat(np.cumsum(hazard[::-1])[::-1], many)
    return np.where(dying, total - np.repeat(tied, many), total)


def _few_risk_totals(
    x: Floats,
    risk: Floats,
    dying: NDArray[np.bool_],
    starts: NDArray[np.int64],
    first: int,
    last: int,
    carry: Floats,
) -> tuple[Floats, Floats]:
    """`risk_totals` by numpy."""
    begin, many = starts[first], last - first
    rows = slice(begin, starts[last])
    group = np.repeat(np.arange(many), np.diff(starts[first : last + 1]))[dying[rows]]
    own = x[rows] * risk[rows, None]
    deaths = np.zeros((many, x.shape[1]))
    for at, column in enumerate(own[dying[rows]].T):
        deaths[:, at] = np.bincount(group, column, many)
    running = np.cumsum(np.concatenate((carry[None, :], own)), axis=0)
    carry[:] = running[-1]
    return running[starts[first + 1 : last + 1] - begin], deaths


@compiled(instead=_few_risk_totals)
def risk_totals(x, risk, dying, starts, first, last, carry):  # type: ignore[no-untyped-def]
    """Covariate sums over the risk set and over the deaths of groups `first` to `last` - 1.

    Returns S1 (one row a group: the sum over everybody still at risk) and D1 (the sum over the
    group's deaths only). `carry` is the running sum and is brought up to date in place, so that
    calls over consecutive ranges stream through any number of rows.
    """
    columns = x.shape[1]
    at_risk = np.empty((last - first, columns))
    deaths = np.zeros((last - first, columns))
    for g in range(first, last):
        for i in range(starts[g], starts[g + 1]):
            r = risk[i]
            if dying[i]:
                for j in range(columns):
                    v = r * x[i, j]
                    carry[j] += v
                    deaths[g - first, j] += v
            else:
                for j in range(columns):
                    carry[j] += r * x[i, j]
        for j in range(columns):  # assigning a row takes numba three times as long to compile
            at_risk[g - first, j] = carry[j]
    return at_risk, deaths


def _few_tie_scalars(
    s0: Floats, d0: Floats, deaths: NDArray[np.int64], weight: Floats, efron: bool
) -> Floats:
    """`tie_scalars` by numpy."""
    many = len(s0)
    group = np.repeat(np.arange(many), deaths)
    d = deaths[group]
    rank = np.arange(len(group)) - np.repeat(np.cumsum(deaths) - deaths, deaths)
    v, f = weight[group] / d, rank / d if efron else np.zeros(len(group))
    below = s0[group] - f * d0[group]
    with np.errstate(all="ignore"):
        logs = np.log(np.minimum(below, 0.0))  # of what is too small; others are taken from `math`
        logs[below > 0.0] = [math.log(one) for one in below[below > 0.0].tolist()]
        c = 1.0 / below
        vc, vcc = v * c, v * c * c
        terms = (v * logs, vc, vc * f, vcc, vcc * f, vcc * f * f)
    return np.array([np.bincount(group, term, many) for term in terms]).T


@compiled(instead=_few_tie_scalars, error_model="numpy")
def tie_scalars(s0, d0, deaths, weight, efron):  # type: ignore[no-untyped-def]
    """The sums over tied deaths on which likelihood, gradient and Hessian depend.

    With f = l/d and c = 1/(S0 - f·D0) for l = 0..d-1 (Efron; f = 0 throughout for Breslow) and the
    mean weight v of the deaths, the columns are Σ v·log(1/c), Σ v·c, Σ v·c·f, Σ v·c², Σ v·c²·f
    and Σ v·c²·f².
    """
    groups = s0.shape[0]
    out = np.zeros((groups, 6))
    for g in range(groups):
        d = deaths[g]
        if d == 0:
            continue
        v = weight[g] / d
        for rank in range(d):
            f = rank / d if efron else 0.0
            below = s0[g] - f * d0[g]
            c = 1.0 / below
            out[g, 0] += v * math.log(below)
            out[g, 1] += v * c
            out[g, 2] += v * c * f
            out[g, 3] += v * c * c
            out[g, 4] += v * c * c * f
            out[g, 5] += v * c * c * f * f
    return out
