"""The exact fit: a model of everybody's rows, of which nothing but masked sums leaves a party.

All parties run `fit_exact` at once, each with its own table. Cox models are in `distributed_cox`;
classifiers need one sum an iteration: value, gradient, Hessian.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, ParameterError
from sfumato.files import require_file
from sfumato.joint.agreement import Agreement
from sfumato.joint.cox import Ties
from sfumato.joint.distributed_cox import (
    ExactFit,
    counted,
    exact_cox,
    exact_stratified_cox,
)
from sfumato.joint.linear_classifiers import Loss, loss_sums, minimise
from sfumato.joint.local_data import LocalRows, local_rows, rows_to_fit
from sfumato.joint.model import JointModel
from sfumato.joint.parties import Certificates, gather, join
from sfumato.joint.secure_sum import SecureSum, Summing, until_complete
from sfumato.secure.tls import Address, parse_address

__all__ = ["Parties", "exact_classifier", "fit_exact"]

Floats = NDArray[np.float64]
Kind = Literal["cox", "svm", "logistic"]


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
    min_parties
        Go on without parties that leave, down to so many; none may leave if None.
    timeout
        Seconds to wait for the others.
    progress
        Receives what is being done.
    """

    name: str | None
    coordinator: str | None
    listen: str | None = None
    connect: str | None = None
    certificate: str | Path | None = None
    key: str | Path | None = None
    others: Mapping[str, str | Path] = field(default_factory=dict)
    min_parties: int | None = None
    timeout: float = 60.0
    progress: Callable[..., None] | None = None

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
        for path in (self.certificate, self.key, *self.others.values()):
            require_file(path, "a certificate or key")
        _ = self.address

    @property
    def address(self) -> Address:
        """Host and port where the coordinator listens."""
        if self.listen:
            return parse_address(self.listen, "--listen")
        return parse_address(self.connect or "", "--connect")

    def meet(self, parameters: Mapping[str, Any]) -> SecureSum:
        """Wait until everybody is there, and compare what all must agree on."""
        self.tell("waiting for the other parties")
        name, coordinator = str(self.name), str(self.coordinator)
        others = {name: Path(path) for name, path in self.others.items()}
        trust = Certificates(Path(str(self.certificate)), Path(str(self.key)), others)
        links = (
            gather(self.address, trust, self.timeout)
            if self.listen
            else join(self.address, coordinator, trust, self.timeout)
        )
        return SecureSum(
            name,
            links,
            coordinator,
            parameters=parameters,
            min_parties=self.min_parties,
            trust=trust,
        )

    def tell(self, doing: str) -> None:
        """Tell `progress`, if there is one."""
        if self.progress is not None:
            self.progress(doing)


def fit_exact(
    rows: Any,
    agreement: Agreement,
    kind: Kind = "cox",
    *,
    parties: Parties | Summing,
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
    rows
        This party's table: anything `sfumato.table` opens.
    agreement
        What was agreed; no projection is used.
    parties
        How to meet the others, or a connection to them (`SecureSum`).
    weight
        Weight of this party's rows.
    penalty
        λ (ν = 1/λ for classifiers); 0 by default for Cox, 1 for classifiers.
    min_group
        Merge event times until at least so many people leave together (Cox).
    stratified
        Let every institution keep its own baseline hazard: nothing is revealed by time (Cox).

    Examples
    --------
    With `LocalSum`, the sum over this party alone, it is an ordinary fit:

    >>> import pyarrow as pa
    >>> from sfumato.joint import Category, Number, Outcome, Projection
    >>> from sfumato.joint.secure_sum import LocalSum
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
    >>> model = fit_exact(people, agreed, parties=LocalSum(), penalty=1.0)
    >>> model.columns, model.rows, model.exact
    (('age', 'sex=m'), 4, True)
    """
    table = local_rows(rows, agreement)
    own = rows_to_fit(
        table, agreement, kind, weight=weight, penalty=penalty, horizon=horizon,
        stratified=stratified, where=where,
    )  # fmt: skip

    def fitted(summing: Summing) -> JointModel:
        fit = _fitted(summing, own, agreement, kind, weight, ties, min_group, stratified)
        return _model(fit, own, agreement, kind, summing.parties)

    if not isinstance(parties, Parties):
        return fitted(parties)
    common = {
        "agreement": agreement.hash, "model": kind, "penalty": penalty, "ties": ties,
        "horizon": horizon, "min_group": min_group, "stratified": stratified,
    }  # fmt: skip
    with parties.meet(common) as summing:
        parties.tell("fitting together")
        model = until_complete(lambda: fitted(summing))
    return replace(model, session=summing.report())


def _fitted(
    summing: Summing,
    own: LocalRows,
    agreement: Agreement,
    kind: Kind,
    weight: float,
    ties: Ties,
    min_group: int,
    stratified: bool,
) -> ExactFit:
    if kind != "cox":
        return exact_classifier(
            summing, kind, own.x, own.event, nu=1.0 / own.penalty, weight=weight
        )
    settings: dict[str, Any] = {
        "weight": weight, "penalty": own.penalty, "ties": ties, "names": agreement.encoded_names
    }  # fmt: skip
    if stratified:
        return exact_stratified_cox(summing, own.x, own.time, own.event, **settings)
    outcome = agreement.outcome
    return exact_cox(
        summing,
        own.x,
        own.time,
        own.event,
        time_step=outcome.time_step,
        time_max=outcome.time_max or 0.0,
        min_group=min_group,
        **settings,
    )


def _model(
    fit: ExactFit, own: LocalRows, agreement: Agreement, kind: Kind, parties: tuple[str, ...]
) -> JointModel:
    notes = []
    if fit.revealed.get("alone"):
        notes.append(
            f"{int(fit.revealed['alone'])} people were alone in leaving between two event times; "
            "their covariates follow from the sums all parties saw (not at which institution): "
            "raise `min_group`, or stratify, to prevent that"
        )
    return JointModel(
        rows=fit.rows,
        institutions=dict.fromkeys(parties),
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


def exact_classifier(
    summing: Summing,
    loss: Loss,
    x: Floats,
    positive: NDArray[np.bool_],
    *,
    nu: float = 1.0,
    weight: float = 1.0,
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

    opened = 0

    def objective(z: Floats) -> tuple[float, Floats, Floats]:
        nonlocal opened
        value, gradient, hessian = loss_sums(loss, x, sign, weights, z)
        sums = summing.total("loss", np.concatenate(([value], gradient, hessian[upper])))
        opened += len(sums)
        full = np.zeros((size, size))
        full[upper] = nu * sums[1 + size :]
        full = full + np.triu(full, 1).T + np.eye(size)
        return nu * sums[0] + float(z @ z) / 2, nu * sums[1 : 1 + size] + z, full

    z, value, iterations = minimise(objective, size, summing.same)
    empty, told = np.empty(0), {"numbers": float(opened)}
    rows = int(counts.sum())
    return ExactFit(z[:-1], float(z[-1]), empty, empty, iterations, rows, -value, told)
