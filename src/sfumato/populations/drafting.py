"""From a plan to a draft of its release."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sfumato.engines.recoding import Cells, Recoding, Step
from sfumato.engines.results import ClassSizes, Codes, smallest_dtype
from sfumato.populations.blur import Blurred
from sfumato.populations.promises import FewValues, MatchesPeople
from sfumato.populations.repair import Plan, Repair
from sfumato.release import Draft, Promise
from sfumato.release.promise import WithoutColumns
from sfumato.tables import Table

__all__ = ["column_step", "draft_plan"]


def column_step(values: Codes, cells: Cells) -> Step:
    """Replace one column's values, each by its cell."""
    (name,) = values.columns
    return Step(values, {name: cells})


def draft_plan(
    table: Table,
    plan: Plan,
    repair: Repair,
    *,
    weights: Mapping[str, float],
    foreseen: ClassSizes,
    identifiers: Mapping[str, str],
    warnings: tuple[str, ...] = (),
    seed: int = 0,
) -> Draft:
    """The release that a plan describes: columns blurred one by one, rows untouched.

    `identifiers` are other columns that go, with the reason.
    """
    suppressed = tuple(name for name, b in plan.blurred.items() if b.action == "suppressed")
    kept = tuple(name for name in plan.blurred if name not in suppressed)
    drop = (*suppressed, *identifiers)
    steps = tuple(
        step for name in kept if (step := _step(table, name, plan.blurred[name])) is not None
    )
    asked: dict[str, Any] = {
        "k": plan.k,
        "beta": plan.beta,
        "universe": plan.universe,
        "repair": repair,
    }
    if weights:
        asked["weights"] = dict(weights)
    loss = sum(column.weight / column.distinct for column in plan.columns)
    return Draft(
        table=table,
        recoding=Recoding(steps, drop),
        method="population",
        asked=asked,
        promises=_promises(plan, repair, kept, drop),
        qi=(kept,) if kept else (),
        column_actions={column.column: column.action for column in plan.columns}
        | {name: f"dropped: {why}" for name, why in identifiers.items()},
        utility={"weighted_inverse_distinct": loss},
        details={"plan": plan.to_dict()},
        foreseen=foreseen,
        seed=seed,
        warnings=warnings,
    )


def _step(table: Table, name: str, blurred: Blurred) -> Step | None:
    values = table.values(name)
    if blurred.action == "untouched" and blurred.labels.equals(values.values[0]):
        return None
    # codes of `values` are those of the plan: both are ranks of the same distinct values
    groups = blurred.groups[values.arrays[0]]
    codes = np.asarray(groups).astype(smallest_dtype(blurred.distinct))
    return column_step(values, Cells(codes, blurred.labels))


def _promises(
    plan: Plan, repair: Repair, kept: tuple[str, ...], drop: tuple[str, ...]
) -> tuple[Promise, ...]:
    promises: list[Promise] = []
    if kept and repair == "none":
        promises.append(FewValues(plan.distinct_allowed, kept))
    elif kept:
        figure = "estimate" if repair == "estimate" else "at_least"
        promises.append(MatchesPeople(plan.universe, plan.k, plan.beta, kept, figure))
    if drop:
        promises.append(WithoutColumns(drop))
    return tuple(promises)
