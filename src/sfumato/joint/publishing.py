"""Making a share: rows are projected and rounded, and attacked before they may leave the house."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.budget import Budget
from sfumato.errors import ColumnError, ParameterError, PromiseError
from sfumato.joint.agreement import Agreement
from sfumato.joint.encoding import Encoded, encode, encode_outcome, require_rows
from sfumato.joint.leaks import Leakage, Protect, leakage, safe_rounding
from sfumato.joint.projection import project, round_to
from sfumato.joint.share import Share
from sfumato.results import Result

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ShareResult", "make_share"]

Outcomes = tuple[NDArray[np.float64] | None, NDArray[np.bool_]]


@dataclass(frozen=True)
class ShareResult(Result):
    """A share with its owner's leakage report (which is not part of the share).

    Attributes
    ----------
    institution, agreement
        Whose share it is, and the hash of the agreement.
    rows, events
        Rows, and how many of them have the agreed event (or the positive label).
    columns, dimensions
        Encoded columns n, and published numbers a row m̄.
    rounding
        Step of the published numbers; 0 is unrounded.
    chosen_by
        `attack` when the step was searched for, `agreement` or `user` when it was given.
    leakage
        What the share gives away.
    tried
        Share of rows recovered at each rounding step that was tried.
    price
        What projection and rounding cost, measured on the owner's rows by cross-validation.
    notes
        Anything the owner should know before sending the file.
    path
        Where the share was written, once it was.
    """

    institution: str
    agreement: str
    rows: int
    events: int
    columns: int
    dimensions: int
    rounding: float
    chosen_by: str
    leakage: Leakage
    tried: Mapping[str, float]
    price: Mapping[str, float | str] | None
    notes: tuple[str, ...]
    path: str | None = None
    share: Share | None = field(default=None, repr=False, metadata={"private": True})


def make_share(
    table: pa.Table,
    agreement: Agreement,
    institution: str,
    *,
    rounding: float | None = None,
    protect: Protect = "rows",
    publish_anyway: bool = False,
    allow_constant: bool = False,
    attack_rows: int | None = 2_000,
    interval_rows: int = 20,
    price: bool = True,
    seed: int = 0,
    where: str = "table",
    budget: Budget | None = None,
) -> ShareResult:
    """Project a table for publication and measure what that gives away.

    Parameters
    ----------
    table, agreement, institution
        The rows, what was agreed, and whose they are.
    rounding
        Step of the published numbers. By default the agreement's, and if that leaves the choice,
        the finest step at which the attack recovers nobody.
    protect
        What the attack must not make certain: whole `rows`, or any single cell (`cells`).
    publish_anyway
        Do not refuse when it does.
    allow_constant
        Accept columns in which all rows agree.
    attack_rows, interval_rows
        How many rows are attacked by enumeration (None: all) and by linear programming.

    Raises
    ------
    PromiseError
        When the attack recovers rows (or cells) at the given rounding.
    """
    if not institution:
        raise ParameterError("an institution needs a name")
    _check_rounding(rounding)
    require_rows(table.num_rows, where)
    encoded = encode(table, agreement, where=where)
    outcome = encode_outcome(table, agreement, where=where)
    _check_outcome(outcome, agreement, where)
    notes = _constant(encoded, agreement, allow_constant, where)

    step, chosen_by, tried = agreement.projection.rounding, "agreement", dict[float, float]()
    if rounding is not None:
        step, chosen_by = rounding, "user"
    if step is None:
        chosen_by = "attack"
        step, tried = safe_rounding(
            encoded, agreement, protect=protect, sample=attack_rows, seed=seed, budget=budget
        )
    found = leakage(
        encoded,
        agreement,
        step,
        sample=attack_rows,
        interval_rows=interval_rows,
        seed=seed,
        outcome=outcome,
    )
    if not found.holds(protect) and not publish_anyway:
        raise _refusal(found, protect, where)
    costs: Mapping[str, float | str] | None = None
    if price:
        from sfumato.joint.tuning import price_of_privacy

        costs = price_of_privacy(encoded.matrix, outcome, agreement, step, seed=seed)
    return ShareResult(
        institution=institution,
        agreement=agreement.hash,
        rows=table.num_rows,
        events=int(outcome[1].sum()),
        columns=agreement.encoded,
        dimensions=agreement.projection.dimensions,
        rounding=step,
        chosen_by=chosen_by,
        leakage=found,
        tried={f"{step:g}": recovered for step, recovered in tried.items()},
        price=costs,
        notes=(*notes, *_given_away(found, protect)),
        share=_projected(encoded, outcome, agreement, institution, step),
    )


def _check_rounding(step: float | None) -> None:
    if step is not None and not (step >= 0 and math.isfinite(step)):
        raise ParameterError(
            "the rounding step must be a finite number and not negative",
            remedy="Write e.g. --rounding 0.05, or leave it out to find a safe step.",
        )


def _check_outcome(outcome: Outcomes, agreement: Agreement, where: str) -> None:
    time, event = outcome
    if time is not None and not event.any():
        raise ColumnError(
            "every row is censored",
            where=f"{where}, column `{agreement.outcome.event}`",
            remedy="Check `event_value` in the agreement.",
        )
    if time is None and (event.all() or not event.any()):
        raise ColumnError(
            "all rows are of one class",
            where=f"{where}, column `{agreement.outcome.label}`",
            remedy="Check `positive` in the agreement.",
        )


def _constant(encoded: Encoded, agreement: Agreement, allowed: bool, where: str) -> list[str]:
    same = encoded.options.max(axis=0) == encoded.options.min(axis=0)
    names = [name for name, is_same in zip(agreement.names, same, strict=True) if is_same]
    if names and not allowed:
        raise ColumnError(
            f"column `{names[0]}` holds one value in all rows: it teaches the model nothing and "
            "makes the other columns easier to recover",
            where=where,
            remedy="Leave it out of the agreement, or allow constant columns.",
        )
    return [f"column `{name}` holds one value in all rows" for name in names]


def _refusal(found: Leakage, protect: Protect, where: str) -> PromiseError:
    if found.recovered_rows:
        what = (
            f"{found.recovered_rows} of {found.attacked_rows} attacked rows can be recovered "
            f"exactly from a share with m̄ = {found.dimensions} rounded to {found.rounding:g}"
        )
    else:
        name, share = max(found.pinned.items(), key=lambda entry: entry[1])
        what = f"column `{name}` is certain in {share:.1%} of the attacked rows"
    return PromiseError(
        what,
        where=where,
        remedy="Leave the rounding to the tool, lower m̄, fit exactly instead, or publish anyway.",
    )


def _given_away(found: Leakage, protect: Protect) -> list[str]:
    """What the owner should know about a share that may be published."""
    notes = []
    if not found.holds(protect):
        notes.append(
            f"{found.recovered_rows} of {found.attacked_rows} attacked rows are recoverable"
        )
    if found.certain_cells and not found.recovered_rows:
        notes.append(
            f"{found.certain_cells:,} of {found.judged_cells:,} cells looked at are certain to "
            "whoever knows the agreement, although no whole row is. To publish only what leaves "
            "every cell open: `--protect cells` (it usually takes fewer `dimensions` in the "
            "agreement). To publish no rows at all: `joint fit --exact`"
        )
    notes += [
        f"column `{name}` is certain in {share:.0%} of the attacked rows"
        for name, share in found.pinned.items()
        if share >= 0.5
    ]
    if (found.unique_outcomes or 0.0) > 0.5:
        notes.append(
            f"{found.unique_outcomes:.0%} of the rows are alone with their time and event, which "
            "are published in clear; a larger `time_step` would blur them"
        )
    return notes


def _projected(
    encoded: Encoded,
    outcome: Outcomes,
    agreement: Agreement,
    institution: str,
    step: float,
) -> Share:
    """The share itself; rows are sorted, so that their order tells nothing about the source."""
    time, event = outcome
    projected = round_to(project(encoded.matrix, agreement), step)
    keys = [event, *([] if time is None else [time])]
    order = np.lexsort((*projected.T[::-1], *keys))
    return Share(
        institution,
        agreement,
        step,
        np.ascontiguousarray(projected[order]),
        None if time is None else time[order],
        event[order],
    )
