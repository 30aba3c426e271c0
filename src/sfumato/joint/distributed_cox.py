"""The Cox model of everybody's rows, of which everybody learns the model and little else.

At coefficients that all know, each party sums over its own people still at risk at each death:
their risks, risks times covariates, and risks times pairs of covariates. The sums are dealt out as
secrets; the totals are divided, multiplied and added up to gradient and Hessian without anybody
seeing one of them (`secret_sharing`, `hidden_newton`). No total by time is ever opened, as the
difference of two neighbouring ones is what those who left in between look like.

What is opened: how many rows there are, how many died at each time of the agreed grid, the steps,
and the cumulative hazard at up to 33 times (the horizon and the last death among them), with ten or
more deaths between any two, to some ten binary digits.

*Stratified* Cox lets every institution keep a baseline hazard of its own. Risk sets then never
reach across institutions: nothing is opened by time, and each step needs one total of p + p(p+1)/2
numbers. The price: no common survival curve, and differences between institutions are not learned
from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, ParameterError, PeerError
from sfumato.joint.cox import SortedRows, Ties
from sfumato.joint.hidden_newton import (
    HEAVIEST,
    NewtonAscent,
    check_weight,
    leading_digits,
    newton_ascent,
    reciprocal,
    symmetric,
)
from sfumato.joint.secret_sharing import Arithmetic, Secret

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

OPENED = {
    "rows": "how many rows there are (stratified Cox)",
    "classes": "how many rows each of the two classes has (classifiers)",
    "deaths": "how many rows there are, and how many died at each time of the grid (Cox)",
    "weighted": "how many parties weigh their rows other than by one (Cox)",
    "rank": "how many columns do not follow from the others",
    "step": "each step of the coefficients, rounded",
    "hazard": "the cumulative hazard at some times, rounded (Cox)",
    "covariance": "the covariance of the coefficients, rounded (where it was asked for)",
}
"""All that any party of an exact fit is ever shown, by step."""
PRECISION = 1e-6
"""How far coefficients may lie from those of the pooled rows, unless asked otherwise."""
_MOST_CELLS = 100_000
_CENTRE = 0.5
"""Columns lie between 0 and 1. Centred on one half, exp(w'x) stays in range."""
_MOST_DEATHS_OF_TWO = 500
_MOMENTS, _TOGETHER = 32, 10
_HAZARD_UNITS, _FINEST_HAZARD = 1 << 10, 60


@dataclass(frozen=True)
class ExactFit:
    """What an exact fit gives every party.

    Attributes
    ----------
    coefficients, threshold
        w (and γ of a classifier), equal to those of the pooled rows up to the agreed precision.
    times, hazard
        Cumulative baseline hazard (Cox), rounded, at a few times.
    iterations
        Newton steps.
    rows
        Rows of all parties together.
    revealed
        How many `numbers` were opened in all, and how many `bits` they have; Cox: the `times` at
        which somebody died, and how many deaths at least lie between two times of the hazard
        (`smallest_group`).
    ascent
        Every place that was opened on the way.
    covariance
        Of the coefficients (of a classifier, the threshold last), where it was asked for.
    """

    coefficients: Floats
    threshold: float
    times: Floats
    hazard: Floats
    iterations: int
    rows: int
    revealed: Mapping[str, float]
    ascent: NewtonAscent
    covariance: Floats | None = None


def covariance_of(top: NewtonAscent, scale: float) -> Floats | None:
    """The covariance of the coefficients, of which the ascent opened the inverse of 1/scale."""
    return None if top.inverse is None else top.inverse * scale


def exact_cox(
    arithmetic: Arithmetic,
    x: Floats,
    time: Floats,
    event: NDArray[np.bool_],
    *,
    time_step: float,
    time_max: float,
    weight: float = 1.0,
    penalty: float = 0.0,
    ties: Ties = "efron",
    precision: float = PRECISION,
    horizon: float | None = None,
    covariance: bool = False,
) -> ExactFit:
    """Fit the Cox model of everybody's rows; all parties call this at once.

    Parameters
    ----------
    arithmetic
        The connection to the other parties.
    x, time, event
        This party's rows; columns lie between 0 and 1.
    time_step, time_max
        The agreed grid: times are multiples of the step (others are rounded up) up to the maximum.
    weight
        Weight of this party's rows; nobody learns it.
    penalty
        λ of the ridge penalty λ/2·‖w‖².
    precision
        How far coefficients may be off.
    horizon
        A time at which the hazard is wanted in any case.
    covariance
        Whether to open the covariance of the coefficients, too.

    Examples
    --------
    >>> from sfumato.joint import fit_cox
    >>> from sfumato.joint.secret_sharing import LocalArithmetic
    >>> x, t, e = np.array([[0.0], [1.0], [0.0], [1.0]]), np.array([4.0, 2, 3, 4]), np.ones(4, bool)
    >>> fit = exact_cox(LocalArithmetic(), x, t, e, time_step=1, time_max=10)
    >>> bool(np.allclose(fit.coefficients, fit_cox(x, t, e).coefficients, rtol=0, atol=1e-6))
    True
    """
    check_rows(x, weight, penalty)
    cells = grid_cells(time, time_step, time_max)
    count = int(np.ceil(round(time_max / time_step, 9))) + 1
    rows, deaths = _outcomes(arithmetic, cells, event, count)
    happened = np.flatnonzero(deaths)
    if len(arithmetic.parties) == 2 and deaths.sum() > _MOST_DEATHS_OF_TWO:
        raise InputError(
            f"more than {_MOST_DEATHS_OF_TWO:,} people died: two parties would send each other "
            "gigabytes",
            remedy="Fit with --stratified, or invite a third party.",
        )
    people = Deaths(arithmetic, x, cells, event, weight, rows, happened, deaths[happened], ties)
    died = int(deaths.sum())
    columns = x.shape[1]
    ridge = arithmetic.public(np.eye(columns) * penalty / died)

    def derivatives(w: Floats) -> tuple[Secret, Secret]:
        gradient, hessian = people.derivatives(w)
        return gradient - arithmetic.public(penalty * w / died), hessian + ridge

    bound = HEAVIEST * columns / 4 + penalty / died
    top = newton_ascent(
        arithmetic, columns, derivatives, bound=bound, precision=precision, inverse=covariance
    )
    at = moments(deaths[happened], happened.astype(np.float64) * time_step, horizon)
    hazard = people.hazard(top.coefficients, at)
    told = {
        "times": float(len(happened)),
        "smallest_group": float(min(np.diff(np.cumsum(deaths[happened])[at], prepend=0))),
    }
    return ExactFit(
        coefficients=top.coefficients,
        threshold=0.0,
        times=np.asarray(happened[at] * time_step, dtype=np.float64),
        hazard=hazard,
        iterations=top.iterations,
        rows=rows,
        revealed={**revealed(arithmetic), **told},
        ascent=top,
        covariance=covariance_of(top, 1 / died),
    )


def exact_stratified_cox(
    arithmetic: Arithmetic,
    x: Floats,
    time: Floats,
    event: NDArray[np.bool_],
    *,
    weight: float = 1.0,
    penalty: float = 0.0,
    ties: Ties = "efron",
    precision: float = PRECISION,
    covariance: bool = False,
) -> ExactFit:
    """Fit the Cox model of everybody's rows, stratified by institution.

    Parameters
    ----------
    x, time, event
        This party's rows; columns lie between 0 and 1, times need no common grid.
    arithmetic, weight, penalty, ties, precision, covariance
        As in `exact_cox`.

    Examples
    --------
    >>> from sfumato.joint import fit_cox
    >>> from sfumato.joint.secret_sharing import LocalArithmetic
    >>> x, t, e = np.array([[0.0], [1.0], [0.0], [1.0]]), np.array([4.0, 2, 3, 4]), np.ones(4, bool)
    >>> fit = exact_stratified_cox(LocalArithmetic(), x, t, e)
    >>> bool(np.allclose(fit.coefficients, fit_cox(x, t, e).coefficients, rtol=0, atol=1e-6))
    True
    """
    check_rows(x, weight, penalty)
    if len(time) and (not np.isfinite(time).all() or time.min() < 0):
        raise InputError("times must be finite and not negative")
    columns = x.shape[1]
    upper = np.triu_indices(columns)
    (rows,) = counted(arithmetic, "rows", np.array([float(len(x))])).tolist()
    own = SortedRows(x, time, event, np.full(len(x), weight), ties) if event.any() else None

    def derivatives(w: Floats) -> tuple[Secret, Secret]:
        local = np.zeros(columns + len(upper[0]))
        if own is not None:  # without an event this party's likelihood is constant
            _, risk, scalars = own.likelihood(w)
            gradient, hessian = own.derivatives(risk, scalars)
            local = np.concatenate((gradient, hessian[upper])) / rows
        total = arithmetic.total("derivatives", local)
        ridge = arithmetic.public(np.eye(columns) * penalty / rows)
        gradient_of_all = total[:columns] - arithmetic.public(penalty * w / rows)
        return gradient_of_all, symmetric(total[columns:], columns) + ridge

    bound = HEAVIEST * columns / 4 + penalty / rows
    top = newton_ascent(
        arithmetic, columns, derivatives, bound=bound, precision=precision, inverse=covariance
    )
    none, told = np.empty(0), revealed(arithmetic)
    shown = covariance_of(top, 1 / rows)
    return ExactFit(top.coefficients, 0.0, none, none, top.iterations, rows, told, top, shown)


def revealed(arithmetic: Arithmetic) -> dict[str, float]:
    """How many numbers were opened so far, and how many bits they have together."""
    opened = arithmetic.opened
    numbers, bits = sum(opened.numbers.values()), sum(opened.bits.values())
    return {"numbers": float(numbers), "bits": float(round(bits))}


def check_rows(x: Floats, weight: float, penalty: float) -> None:
    """Refuse rows and settings that secrets have no room for."""
    check_weight(weight)
    if not (penalty >= 0 and np.isfinite(penalty)):
        raise ParameterError("the penalty must not be negative")
    if x.size and (not np.isfinite(x).all() or x.min() < 0 or x.max() > 1):
        raise InputError("columns must be scaled to lie between 0 and 1")


def counted(arithmetic: Arithmetic, step: str, counts: Floats) -> Counts:
    """Everybody's counts, added up and opened: what is no count was not made by this program.

    Examples
    --------
    >>> from sfumato.joint.secret_sharing import LocalArithmetic
    >>> counted(LocalArithmetic(), "rows", np.array([3.0, 0.0])).tolist()
    [3, 0]
    """
    places = arithmetic.places(0.25)
    total = arithmetic.open(step, arithmetic.total(step, counts), places)
    whole = np.rint(total)
    if (whole < 0).any() or (whole > 2**53).any():
        raise PeerError(
            "the parties' counts do not add up to a count",
            remedy="Run the same version everywhere; find out who does not.",
        )
    return whole.astype(np.int64)


def _outcomes(
    arithmetic: Arithmetic, cells: Counts, event: NDArray[np.bool_], count: int
) -> tuple[int, Counts]:
    """Rows of all parties, and how many died at each time of the grid."""
    own = np.concatenate(([len(cells)], np.bincount(cells[event], minlength=count)))
    rows, *deaths = counted(arithmetic, "deaths", own.astype(np.float64)).tolist()
    if not any(deaths):
        raise InputError("every row of every party is censored", remedy="Check the event column.")
    return rows, np.array(deaths, dtype=np.int64)


def moments(deaths: Counts, times: Floats, horizon: float | None) -> Counts:
    """At which of the times of deaths the cumulative hazard is told.

    Examples
    --------
    >>> moments(np.full(40, 5), np.arange(40.0), None).tolist()[:4]
    [1, 3, 5, 7]
    """
    died = np.cumsum(deaths)
    apart = max(_TOGETHER, -(-int(died[-1]) // _MOMENTS))
    until = len(times) if horizon is None else int(np.searchsorted(times, horizon, side="right"))
    chosen: list[int] = []
    # Up to the horizon, which is told exactly, and then to the last death.
    for last in dict.fromkeys((until - 1, len(times) - 1)):
        since = died[chosen[-1]] if chosen else 0
        if last < 0 or (died[last] - since < _TOGETHER and (chosen or last < len(times) - 1)):
            continue
        for at in range(chosen[-1] + 1 if chosen else 0, last):
            if died[at] - since >= apart and died[last] - died[at] >= _TOGETHER:
                chosen.append(at)
                since = died[at]
        chosen.append(last)
    return np.array(chosen, dtype=np.int64)


class Deaths:
    """One party's people, as seen from each death of everybody's people.

    Tied deaths are taken one after the other; of those before it a death takes its share off the
    totals (Efron), or nothing (Breslow).
    """

    def __init__(
        self,
        arithmetic: Arithmetic,
        x: Floats,
        cells: Counts,
        event: NDArray[np.bool_],
        weight: float,
        rows: int,
        happened: Counts,
        deaths: Counts,
        ties: Ties,
    ) -> None:
        if ties not in ("efron", "breslow"):
            raise ParameterError(
                f"`{ties}` is not a treatment of ties", remedy="Use efron or breslow."
            )
        last = np.searchsorted(happened, cells, side="right") - 1
        at_risk = last >= 0  # whoever left before the first death is at risk at none
        self._arithmetic = arithmetic
        self._x = x[at_risk] - _CENTRE
        self._last = last[at_risk]
        self._dying = event[at_risk]
        self._weight, self._rows = weight, rows
        self._deaths = deaths
        self._which = np.repeat(np.arange(len(deaths)), deaths)
        before = np.arange(len(self._which)) - np.repeat(np.cumsum(deaths) - deaths, deaths)
        self._share = before / deaths[self._which] if ties == "efron" else np.zeros(len(before))
        self._died = len(self._which)
        average = arithmetic.public(np.full(1, 1 / self._died))
        deaths_of = weight * self._x[self._dying].sum(axis=0)
        self._death_sum = arithmetic.multiply(arithmetic.total("deaths", deaths_of), average)
        self._average = average
        self._case: Secret | None = None  # everybody's weight is one
        if counted(arithmetic, "weighted", np.array([float(weight != 1.0)]))[0]:
            own = np.bincount(self._last[self._dying], minlength=len(deaths)) * weight / deaths
            self._case = arithmetic.total("weights", own[self._which])
        self._inverse: Secret = arithmetic.public(np.ones(self._died))
        self._at: Floats | None = None

    def _totals(self, values: Floats) -> Floats:
        """Of everybody at risk at each death, less the share of the deaths tied before it."""
        count = len(self._deaths)
        everybody = np.cumsum(np.bincount(self._last, values, minlength=count)[::-1])[::-1]
        dead = np.bincount(self._last[self._dying], values[self._dying], minlength=count)
        return np.asarray(everybody[self._which] - self._share * dead[self._which])

    def _risks(self, w: Floats) -> tuple[Floats, float]:
        """Risks of this party's people, so scaled that no total of all exceeds one."""
        scale = self._rows * HEAVIEST * np.exp(np.abs(w).sum() * _CENTRE)
        return self._weight * np.exp(self._x @ w) / scale, float(scale)

    def _invert(self, w: Floats, total: Secret) -> Secret:
        """One over the scaled total risk at each death.

        From one w to the next, totals change by a factor between e^-d and e^d at most.
        """
        arithmetic = self._arithmetic
        if self._at is None:
            # At first nobody's risk is less than the lightest weight.
            start, least = self._inverse, 1 / (self._rows * HEAVIEST**2)
        else:
            change = float(np.abs(w - self._at).sum()) * _CENTRE
            grown = (np.abs(w).sum() - np.abs(self._at).sum()) * _CENTRE
            factor = arithmetic.public(np.full(self._died, np.exp(grown - change)))
            start, least = arithmetic.multiply(self._inverse, factor), np.exp(-2 * change)
        self._inverse, self._at = reciprocal(arithmetic, total, start, float(least)), w
        return self._inverse

    def derivatives(self, w: Floats) -> tuple[Secret, Secret]:
        """Gradient of everybody's log likelihood and minus its Hessian, a death on average."""
        arithmetic, columns = self._arithmetic, self._x.shape[1]
        risk, _ = self._risks(w)
        rows, others = np.triu_indices(columns)
        parts = [self._totals(risk)]
        parts += [self._totals(risk * self._x[:, j]) for j in range(columns)]
        parts += [
            self._totals(risk * self._x[:, j] * self._x[:, k])
            for j, k in zip(rows, others, strict=True)
        ]
        total = arithmetic.total("risk", np.column_stack(parts))
        inverse = self._invert(w, total[:, 0])
        mean = arithmetic.multiply(inverse[:, None], total[:, 1 : 1 + columns])
        jumps, weighed = self._weighed(inverse), self._weighed(mean)
        second = arithmetic.matmul(jumps[None, :], total[:, 1 + columns :])[0]
        outer = arithmetic.matmul(weighed.T, mean)
        average = self._average
        gradient = self._death_sum - arithmetic.multiply(weighed.sum(axis=0), average)
        return gradient, arithmetic.multiply(symmetric(second, columns) - outer, average)

    def _weighed(self, each: Secret) -> Secret:
        """What belongs to each death, times the mean weight of those who died with it."""
        if self._case is None:
            return each
        case = self._case if each.ndim == 1 else self._case[:, None]
        return self._arithmetic.multiply(case, each)

    def hazard(self, w: Floats, at: Counts) -> Floats:
        """Cumulative baseline hazard at some of the times of deaths, rounded."""
        arithmetic = self._arithmetic
        risk, scale = self._risks(w)
        inverse = self._invert(w, arithmetic.total("risk", self._totals(risk)))
        steps = np.cumsum(self._weighed(inverse))[np.cumsum(self._deaths)[at] - 1]
        # Back from totals that are at most one, and from columns centred on one half.
        factor = np.exp(float(np.sum(w)) * -_CENTRE) / scale
        real = arithmetic.multiply(steps, arithmetic.public(np.full(len(at), factor)))
        shown, _ = leading_digits(arithmetic, "hazard", real, _FINEST_HAZARD, _HAZARD_UNITS)
        return np.maximum.accumulate(np.maximum(shown, 0.0))  # rounding may turn a tiny step round


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
