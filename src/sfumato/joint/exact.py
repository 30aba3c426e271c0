"""The exact alternative: Newton's method over institutions, with nothing but masked sums leaving.

Cox: one iteration takes two sums. First the risk-set totals S0 (and D0 over tied deaths) at the
event times; with them everybody can compute each row's hazard, so the gradient and the first part
of the Hessian become plain sums over rows. The second sum holds these and the covariate totals
S1, D1 of the risk sets; second moments by time are never sent. Classifiers need one sum an
iteration: value, gradient, Hessian.

What all parties learn is in `ExactFit.revealed`. The totals at two neighbouring event times
differ by the people who left in between; where that is a single person, the totals give that
person's covariates away, though not at which institution. `min_group` merges times until at
least so many leave together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, ParameterError, PeerError, UnfinishedError
from sfumato.joint.agreement import Agreement
from sfumato.joint.climbing import TOLERANCE, climb
from sfumato.joint.cox import Ties, newton
from sfumato.joint.margin import Loss, loss_sums
from sfumato.joint.model import JointModel
from sfumato.joint.own_rows import rows_to_fit
from sfumato.joint.risk_sets import Site, grid_cells, merge_cells, revealed_groups
from sfumato.joint.summing import Summing

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ExactFit", "check_pooled", "counted", "exact_cox", "exact_margin", "fit_exact"]

Floats = NDArray[np.float64]


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
    >>> from sfumato.joint.summing import Alone
    >>> x, t, e = np.array([[0.0], [1.0], [0.0], [1.0]]), np.array([4.0, 2, 3, 4]), np.ones(4, bool)
    >>> fit = exact_cox(Alone(), x, t, e, time_step=1, time_max=10)
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

    top = climb(summing, columns, penalty, likelihood, derivatives, max_iterations)
    return ExactFit(
        coefficients=top.coefficients,
        threshold=0.0,
        times=np.asarray(ends[site.events] * time_step, dtype=np.float64)[::-1],
        hazard=np.cumsum(top.aside[::-1, 1]) * np.exp(-float(mean @ top.coefficients)),
        iterations=top.iterations,
        rows=total,
        log_likelihood=top.log_likelihood,
        revealed=revealed,
    )


def exact_margin(
    summing: Summing,
    loss: Loss,
    x: Floats,
    positive: NDArray[np.bool_],
    *,
    nu: float = 1.0,
    weight: float = 1.0,
    max_iterations: int = 100,
) -> ExactFit:
    """Fit the support vector machine or logistic regression of everybody's rows together."""
    if not (nu > 0 and weight > 0):
        raise ParameterError("ν and the weight must be positive")
    size = x.shape[1] + 1
    upper = np.triu_indices(size)
    sign = np.where(positive, 1.0, -1.0)
    weights = np.full(len(sign), weight)
    classes = np.array([positive.sum(), (~positive).sum()], dtype=float)
    counts = counted(summing.total("classes", classes))
    if not counts.all():
        raise InputError(
            "all rows of all parties are of one class", remedy="Choose another horizon or label."
        )

    def objective(z: Floats) -> tuple[float, Floats, Floats]:
        value, gradient, hessian = loss_sums(loss, x, sign, weights, z)
        sums = summing.total("loss", np.concatenate(([value], gradient, hessian[upper])))
        full = np.zeros((size, size))
        full[upper] = nu * sums[1 + size :]
        full = full + np.triu(full, 1).T + np.eye(size)
        return nu * sums[0] + float(z @ z) / 2, nu * sums[1 : 1 + size] + z, full

    z = np.zeros(size)
    value, gradient, hessian = objective(z)
    numbers = 1 + size + len(upper[0])
    for iteration in range(1, max_iterations + 1):
        step = summing.same("step", -newton(gradient, hessian))
        slope = float(gradient @ step)
        for _ in range(50):
            moved = z + step
            after, gradient_after, hessian_after = objective(moved)
            numbers += 1 + size + len(upper[0])
            after, slope = summing.same("value", np.array([after, slope])).tolist()
            if after <= value + 1e-4 * slope + 1e-12 * max(1.0, abs(value)):
                break
            step, slope = step / 2, slope / 2
        z, value, gradient, hessian = moved, after, gradient_after, hessian_after
        if float(np.abs(step).max()) <= TOLERANCE * max(1.0, float(np.abs(z).max())):
            empty = np.empty(0)
            told = {"numbers": float(numbers)}
            rows = int(counts.sum())
            return ExactFit(z[:-1], float(z[-1]), empty, empty, iteration, rows, -value, told)
    raise UnfinishedError("the classifier did not converge", remedy="Lower ν.")


def fit_exact(
    summing: Summing,
    table: pa.Table,
    agreement: Agreement,
    kind: Literal["cox", "svm", "logistic"] = "cox",
    *,
    weight: float = 1.0,
    penalty: float | None = None,
    ties: Ties = "efron",
    horizon: float | None = None,
    min_group: int = 1,
    stratified: bool = False,
    where: str = "table",
) -> JointModel:
    """Fit a model of everybody's rows by exact aggregation; all parties run this at once.

    Parameters
    ----------
    summing
        The connection (`SecureSum`).
    table, agreement
        This party's rows, and what was agreed; no projection is used.
    penalty
        λ (ν = 1/λ for classifiers); 0 by default for Cox, 1 for classifiers.
    min_group
        Merge event times until at least so many people leave together (Cox).
    stratified
        Let every institution keep its own baseline hazard: nothing is revealed by time (Cox).
    """
    own = rows_to_fit(
        table, agreement, kind, weight=weight, penalty=penalty, horizon=horizon,
        stratified=stratified, where=where,
    )  # fmt: skip
    fit: ExactFit
    if kind != "cox":
        fit = exact_margin(summing, kind, own.x, own.event, nu=1.0 / own.penalty, weight=weight)
    elif stratified:
        from sfumato.joint.stratified import exact_stratified_cox

        fit = exact_stratified_cox(
            summing, own.x, own.time, own.event, weight=weight, penalty=own.penalty, ties=ties,
            names=agreement.encoded_names,
        )  # fmt: skip
    else:
        fit = exact_cox(
            summing,
            own.x,
            own.time,
            own.event,
            time_step=agreement.outcome.time_step,
            time_max=agreement.outcome.time_max or 0.0,
            weight=weight,
            penalty=own.penalty,
            ties=ties,
            min_group=min_group,
            names=agreement.encoded_names,
        )
    notes = []
    if fit.revealed.get("alone"):
        notes.append(
            f"{int(fit.revealed['alone'])} people were alone in leaving between two event times; "
            "their covariates follow from the sums all parties saw (not at which institution): "
            "raise `min_group`, or stratify, to prevent that"
        )
    return JointModel(
        rows=fit.rows,
        institutions=dict.fromkeys(summing.parties),
        coefficients=fit.coefficients,
        threshold=fit.threshold,
        times=fit.times,
        hazard=fit.hazard,
        penalty=own.penalty,
        iterations=fit.iterations,
        notes=tuple(notes),
        revealed=fit.revealed,
        kind=kind,
        agreement=agreement,
        exact=True,
        horizon=own.horizon,
        separated=False,
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
            "the parties' counts do not add up to counts: one of them sent other numbers",
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
