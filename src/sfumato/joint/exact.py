"""The exact fit: a model of everybody's rows, of which everybody learns the model and little else.

All parties run `fit_exact` at once, each with its own table. Cox models are in `distributed_cox`;
classifiers need one total an iteration, of gradient and Hessian, which nobody sees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.budget import Budget
from sfumato.errors import InputError, ParameterError, UnfinishedError, spell
from sfumato.fields import checked
from sfumato.files import require_file
from sfumato.joint.agreement import Agreement
from sfumato.joint.cox import Ties
from sfumato.joint.distributed_cox import (
    PRECISION,
    ExactFit,
    check_rows,
    counted,
    covariance_of,
    exact_cox,
    exact_stratified_cox,
    revealed,
)
from sfumato.joint.hidden_newton import (
    HEAVIEST,
    check_precision,
    check_weight,
    newton_ascent,
    symmetric,
)
from sfumato.joint.leakage_report import ExactLeakage, check_opened, exact_leakage, opened_guess
from sfumato.joint.linear_classifiers import Loss, loss_sums
from sfumato.joint.local_data import LocalRows, local_rows, rows_to_fit
from sfumato.joint.model import JointModel
from sfumato.joint.parties import Certificates, Exchange, gather, join
from sfumato.joint.secret_sharing import Arithmetic, LocalArithmetic, Opened, Pair, Secret, Shamir
from sfumato.secure.channel import check_timeout
from sfumato.secure.session import Session
from sfumato.secure.tls import Address, parse_address, read_certificate

Floats = NDArray[np.float64]
Kind = Literal["cox", "svm", "logistic"]

_COARSER = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
"""Precisions that are tried when one tells too much."""


@dataclass(frozen=True)
class Parties:
    """Who this party is, who the others are, and where they meet.

    Parameters
    ----------
    name, coordinator
        This party, and the one that listens and relays.
    listen, connect
        ``HOST:PORT``: the coordinator listens, all others connect to it.
    certificate, key
        This party's own (`sfumato.secure.make_keys`).
    others
        Every other party's certificate, by name.
    timeout
        Seconds to wait for the others, at the start and at each step.
    budget
        The time that all of it may take; it hears what is being done.
    """

    name: str | None
    coordinator: str | None
    listen: str | None = None
    connect: str | None = None
    certificate: str | Path | None = None
    key: str | Path | None = None
    others: Mapping[str, str | Path] = field(default_factory=dict)
    timeout: float = 60.0
    budget: Budget | None = None

    def __post_init__(self) -> None:
        if not (self.name and self.coordinator and self.certificate and self.key and self.others):
            raise ParameterError(
                "an exact fit needs --agreement, --name, --coordinator, --certificate, --key and "
                "a --party for each of the others (others= in Python)"
            )
        if bool(self.listen) == bool(self.connect) or (
            (self.name == self.coordinator) != bool(self.listen)
        ):
            raise ParameterError("the coordinator uses --listen, all others --connect")
        if self.name in self.others:
            raise ParameterError(f"--party names `{self.name}`, which is this party itself")
        require_file(self.key, "the key")
        for path in (self.certificate, *self.others.values()):
            read_certificate(path)
        check_timeout(self.timeout)
        _ = self.address

    @property
    def address(self) -> Address:
        """Host and port where the coordinator listens."""
        if self.listen:
            return parse_address(self.listen, "--listen")
        return parse_address(self.connect or "", "--connect")

    def meet(self, parameters: Mapping[str, Any]) -> Exchange:
        """Wait until everybody is there, and compare what all must agree on."""
        self.tell("waiting for the other parties")
        name, coordinator = str(self.name), str(self.coordinator)
        others = {name: Path(path) for name, path in self.others.items()}
        trust = Certificates(Path(str(self.certificate)), Path(str(self.key)), others)
        links = (
            gather(self.address, trust, self.timeout, self.budget)
            if self.listen
            else join(self.address, coordinator, trust, self.timeout, self.budget)
        )
        return Exchange(name, links, coordinator, parameters=parameters, trust=trust)

    def tell(self, doing: str) -> None:
        if self.budget is not None:
            self.budget.progress(doing)


@checked
def fit_exact(
    rows: Any,
    agreement: Agreement,
    kind: Kind = "cox",
    *,
    parties: Parties | Arithmetic,
    weight: float = 1.0,
    penalty: float | None = None,
    ties: Ties = "efron",
    horizon: float | None = None,
    stratified: bool = False,
    precision: float = PRECISION,
    covariance: bool = False,
    open_anyway: bool = False,
    where: str = "table",
) -> JointModel:
    """Fit a model of everybody's rows under secret sharing; all parties run this at once.

    Parameters
    ----------
    rows
        This party's table: anything `sfumato.table` opens.
    agreement
        What was agreed; no projection is used.
    parties
        How to meet the others, or an arithmetic shared with them (`Shamir`).
    weight
        Weight of this party's rows; nobody learns it.
    penalty
        λ (ν = 1/λ for classifiers); 0 by default for Cox, 1 for classifiers.
    stratified
        Let every institution keep its own baseline hazard: nothing is opened by time (Cox).
    precision
        How far coefficients may lie from those of the pooled rows; no digit beyond is opened.
    covariance
        Open the covariance of the coefficients at the end, to some twelve binary digits: the
        inverse of minus the Hessian, penalty and weights included.
    open_anyway
        Take part even if this party's rehearsal finds that the opened numbers tell too much about
        its rows (`exact_leakage`).

    Examples
    --------
    With `LocalArithmetic`, one party alone, it is an ordinary fit:

    >>> import pyarrow as pa
    >>> from sfumato.joint import Category, Number, Outcome, Projection
    >>> from sfumato.joint.secret_sharing import LocalArithmetic
    >>> agreed = Agreement(
    ...     study="lung",
    ...     columns=(Number("age", 18, 98, 1), Category("sex", ("f", "m"))),
    ...     outcome=Outcome(time="days", event="dead", time_max=100),
    ...     projection=Projection(seed="2026-11", dimensions=1),
    ... )
    >>> people = pa.table({
    ...     "age": [38, 58, 48, 60], "sex": ["f", "m", "m", "f"],
    ...     "days": [3, 5, 8, 9], "dead": [1, 0, 1, 1],
    ... })
    >>> model = fit_exact(people, agreed, parties=LocalArithmetic(), penalty=1.0)
    >>> model.columns, model.rows, model.exact
    (('age', 'sex=m'), 4, True)
    """
    check_weight(weight)
    check_precision(precision)
    if covariance and kind == "svm":
        raise ParameterError(
            "a support vector machine has no likelihood, and so no covariance",
            remedy=f"Leave {spell('covariance', True)} out, or fit a logistic model.",
        )
    table = local_rows(rows, agreement)
    own = rows_to_fit(
        table, agreement, kind, penalty=penalty, horizon=horizon, stratified=stratified,
        where=where,
    )  # fmt: skip

    settings: dict[str, Any] = {
        "ties": ties, "stratified": stratified, "precision": precision, "covariance": covariance,
    }  # fmt: skip

    def fitted(arithmetic: Arithmetic) -> JointModel:
        fit = _fitted(arithmetic, own, agreement, kind, weight, **settings)
        return _model(fit, own, agreement, kind, arithmetic.parties)

    if not isinstance(parties, Parties):
        return fitted(parties)
    leak = dry_run(own, agreement, kind, **settings)
    if not open_anyway and not leak.holds():
        coarser = (
            p
            for p in _COARSER
            if p > precision
            and dry_run(own, agreement, kind, **{**settings, "precision": p}).holds()
        )
        check_opened(leak, next(coarser, None), where)
    common = {
        "agreement": agreement.hash, "model": kind, "penalty": penalty, "horizon": horizon,
        **settings,
    }  # fmt: skip
    with parties.meet(common) as exchange:
        parties.tell("fitting together")
        if len(exchange.parties) == 2:
            model, opened = _fitted_by_two(exchange, common, fitted)
        else:
            arithmetic = Shamir(exchange)
            model, opened = fitted(arithmetic), arithmetic.opened
    return replace(model, session=exchange.report(opened.numbers), leakage=leak)


def _fitted_by_two(
    exchange: Exchange, common: Mapping[str, Any], fitted: Callable[[Arithmetic], JointModel]
) -> tuple[JointModel, Opened]:
    """Fit with one other party, by the arithmetic of `sfumato.secure`."""
    role = "alice" if exchange.name == exchange.coordinator else "bob"
    with exchange.lent() as channel:
        session = Session(channel, role, program="joint fit", parameters=common)
        arithmetic = Pair(session, exchange.parties)
        model = fitted(arithmetic)
    shown = arithmetic.shown.digest()
    if len(set(exchange.broadcast("opened", shown).values())) > 1:
        exchange.fail("opened", "the two parties were shown different numbers")
    return model, arithmetic.opened


def dry_run(
    own: LocalRows,
    agreement: Agreement,
    kind: Kind,
    ties: Ties,
    stratified: bool,
    precision: float,
    covariance: bool = False,
) -> ExactLeakage:
    """Fit this party's rows alone, and attack what that opens."""
    alone = LocalArithmetic()
    columns = own.x.shape[1] + (kind != "cox")
    try:
        fit = _fitted(alone, own, agreement, kind, 1.0, ties, stratified, precision, covariance)
    except (InputError, UnfinishedError):  # no model of these rows alone exists
        bits = opened_guess(columns, precision, covariance=covariance)
        return exact_leakage(own, agreement, kind, precision, bits, None)
    told = ("step", "hazard", "covariance")
    bits = sum(alone.opened.bits.get(step, 0.0) for step in told)
    return exact_leakage(own, agreement, kind, precision, bits, fit.ascent)


def _fitted(
    arithmetic: Arithmetic,
    own: LocalRows,
    agreement: Agreement,
    kind: Kind,
    weight: float,
    ties: Ties,
    stratified: bool,
    precision: float,
    covariance: bool,
) -> ExactFit:
    settings: dict[str, Any] = {
        "weight": weight, "precision": precision, "covariance": covariance,
    }  # fmt: skip
    if kind != "cox":
        return exact_classifier(
            arithmetic, kind, own.x, own.event, nu=1.0 / own.penalty, **settings
        )
    settings |= {"penalty": own.penalty, "ties": ties}
    if stratified:
        return exact_stratified_cox(arithmetic, own.x, own.time, own.event, **settings)
    outcome = agreement.outcome
    return exact_cox(
        arithmetic,
        own.x,
        own.time,
        own.event,
        time_step=outcome.time_step,
        time_max=outcome.time_max or 0.0,
        horizon=own.horizon,
        **settings,
    )


def _model(
    fit: ExactFit, own: LocalRows, agreement: Agreement, kind: Kind, parties: tuple[str, ...]
) -> JointModel:
    return JointModel(
        rows=fit.rows,
        institutions=dict.fromkeys(parties),
        coefficients=fit.coefficients,
        threshold=fit.threshold,
        times=fit.times,
        hazard=fit.hazard,
        penalty=own.penalty,
        iterations=fit.iterations,
        revealed=fit.revealed,
        kind=kind,
        agreement=agreement,
        exact=True,
        horizon=own.horizon,
        separated=False,
        covariance=fit.covariance,
    )


def exact_classifier(
    arithmetic: Arithmetic,
    loss: Loss,
    x: Floats,
    positive: NDArray[np.bool_],
    *,
    nu: float = 1.0,
    weight: float = 1.0,
    precision: float = PRECISION,
    covariance: bool = False,
) -> ExactFit:
    """Fit the support vector machine or logistic regression of everybody's rows together."""
    if not (nu > 0 and np.isfinite(nu)):
        raise ParameterError("ν must be a positive number")
    check_rows(x, weight, 1 / nu)
    size = x.shape[1] + 1
    upper = np.triu_indices(size)
    sign = np.where(positive, 1.0, -1.0)
    weights = np.full(len(sign), weight)
    classes = np.array([positive.sum(), (~positive).sum()], dtype=float)
    counts = counted(arithmetic, "classes", classes)
    if not counts.all():
        raise InputError(
            "all rows of all parties are of one class", remedy="Choose another horizon or label."
        )
    rows = int(counts.sum())
    scale = nu * rows + 1  # of an average row, so that secrets have room for any number of rows

    def derivatives(z: Floats) -> tuple[Secret, Secret]:
        _, gradient, hessian = loss_sums(loss, x, sign, weights, z)
        local = np.concatenate((-gradient, hessian[upper])) * (nu / scale)
        total = arithmetic.total("derivatives", local)
        down = total[:size] - arithmetic.public(z / scale)
        return down, symmetric(total[size:], size) + arithmetic.public(np.eye(size) / scale)

    bound, smooth = HEAVIEST * size + 1, loss == "logistic"
    top = newton_ascent(
        arithmetic, size, derivatives, bound=bound, precision=precision, smooth=smooth,
        inverse=covariance,
    )  # fmt: skip
    w, threshold = top.coefficients[:-1], float(top.coefficients[-1])
    none, told = np.empty(0), revealed(arithmetic)
    shown = covariance_of(top, nu / scale)
    return ExactFit(w, threshold, none, none, top.iterations, rows, told, top, shown)
