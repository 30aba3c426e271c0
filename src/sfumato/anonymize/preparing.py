"""From a table and a demand to the problem a method solves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sfumato.anonymize.demand import Demand
from sfumato.anonymize.problem import Problem, Shape
from sfumato.anonymize.registry import method
from sfumato.budget import Budget
from sfumato.errors import ParameterError
from sfumato.hierarchy import Ranges, ValueSets, infer
from sfumato.privacy import SensitiveColumn, compile_rules
from sfumato.tables import Table

if TYPE_CHECKING:
    from sfumato.engines.codes import Codes

__all__ = ["prepare"]


def prepare(table: Table, demand: Demand, budget: Budget) -> tuple[Problem, dict[str, str]]:
    """The problem, and for each column whose tree was inferred why it looks as it does.

    Only distinct combinations with their counts leave the engine.
    """
    demand.check(table)
    budget.progress("counting combinations")
    entries = table.classes((*demand.columns, *demand.sensitive), budget=budget)
    rows = entries.rows
    columns = {
        name: SensitiveColumn.of(entries.column(name), entries.counts, entries.values_of(name))
        for name in demand.sensitive
    }
    rules = compile_rules(demand.models, columns)
    if rules.k > rows:
        raise ParameterError(
            f"k = {rules.k:,} is larger than the table, which has {rows:,} rows",
            where=table.name,
            remedy="Ask for a smaller k.",
        )
    shapes, reasons = _shapes(table, demand, entries)
    limits = {} if demand.boundaries is None else demand.boundaries.limits(shapes)
    problem = Problem(
        entries=entries,
        quasi_identifiers=demand.columns,
        sensitive=demand.sensitive,
        shapes=shapes,
        rules=rules,
        weights=demand.weights,
        limits=limits,
        options=demand.options,
        budget=budget,
        seed=demand.seed,
    )
    return problem, reasons


def _shapes(
    table: Table, demand: Demand, entries: Codes
) -> tuple[Mapping[str, Shape], dict[str, str]]:
    """How each quasi-identifier may be blurred."""
    shapes: dict[str, Shape] = {}
    reasons: dict[str, str] = {}
    trees_only = method(demand.method).needs_trees
    for name in demand.columns:
        values = entries.values_of(name)
        if name in demand.hierarchies:
            shapes[name] = demand.hierarchies[name].bind(values, name)
        elif demand.infer_trees or trees_only:
            counts = table.values(name).counts
            hierarchy, reasons[name] = infer(name, values, counts)
            shapes[name] = hierarchy.bind(values, name)
        elif table.column(name).ordered:
            shapes[name] = Ranges(values, name)
        else:
            shapes[name] = ValueSets(values, name)
    return shapes, reasons
