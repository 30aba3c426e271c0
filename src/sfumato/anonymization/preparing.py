"""From a table and a demand to the problem a method solves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sfumato.anonymization.actions import Merged
from sfumato.anonymization.crowd import in_common_codes
from sfumato.anonymization.demand import Demand
from sfumato.anonymization.problem import Problem, Shape
from sfumato.anonymization.registry import method
from sfumato.budget import Budget
from sfumato.errors import ParameterError
from sfumato.hierarchy import Ranges, ValueSets, infer
from sfumato.privacy import SensitiveColumn, compile_rules, require_reachable
from sfumato.tables import Table

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.engines.results import Codes

__all__ = ["Prepared", "prepare"]


@dataclass(frozen=True, eq=False)
class Prepared:
    """A problem, and how its entries relate to the table.

    Attributes
    ----------
    problem
        What the method solves.
    original
        Entries as the table has them.
    merged
        How they became the entries of the problem, where actions changed values; else they are
        the same.
    inferred
        For each column whose tree was inferred, why it looks as it does.
    """

    problem: Problem
    original: Codes
    merged: Merged | None = None
    inferred: Mapping[str, str] = field(default_factory=dict)


def prepare(table: Table, demand: Demand, budget: Budget) -> Prepared:
    """The problem to solve; only distinct combinations with their counts leave the engine."""
    budget.progress("counting combinations")
    names = dict.fromkeys((*demand.columns, *demand.sensitive))
    if demand.target is not None:
        names[demand.target] = None  # a target that is kept as it is still steers the cuts
    original = entries = table.classes(tuple(names), budget=budget)
    merged = None
    if any(name in demand.actions for name in names):
        merged = Merged.of(original, demand.actions)
        entries = merged.entries
    crowd = None
    if demand.population is not None:
        entries, crowd = in_common_codes(entries, _people(demand, budget))
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
            remedy=f"Ask for k <= {rows:,}." if rows else "There is nothing to release.",
        )
    require_reachable(demand.models, columns, rows)
    shapes, reasons = _shapes(demand, entries)
    limits = {} if demand.boundaries is None else demand.boundaries.limits(shapes)
    problem = Problem(
        entries=entries,
        qi=demand.columns,
        sensitive=demand.sensitive,
        shapes=shapes,
        rules=rules,
        weights=_weights(demand),
        limits=limits,
        options=_options(demand, shapes),
        budget=budget,
        seed=demand.seed,
        crowd=crowd,
    )
    return Prepared(problem, original, merged, reasons)


def _people(demand: Demand, budget: Budget) -> Codes:
    """The population's combinations of quasi-identifiers, changed as those of the table are."""
    assert demand.population is not None
    budget.progress("counting the population")
    people = demand.population.classes(demand.columns, budget=budget)
    if people.rows < demand.k_map:
        raise ParameterError(
            f"k-map with k = {demand.k_map:,} cannot be reached: the population has "
            f"{people.rows:,} people",
            where=demand.population.name,
            remedy=f"Ask for --k-map {people.rows:,} at most."
            if people.rows
            else "Give a table of people.",
        )
    actions = {name: a for name, a in demand.actions.items() if name in demand.columns}
    return Merged.of(people, actions).entries if actions else people


def _weights(demand: Demand) -> Mapping[str, float]:
    """Weights given by the user; those of the workload where none was given."""
    if demand.workload is None:
        return demand.weights
    return {**demand.workload.weights(demand.columns), **demand.weights}


def _options(demand: Demand, shapes: Mapping[str, Shape]) -> Mapping[str, Any]:
    """The method's options, with the cuts of the workload for methods that make cuts."""
    if demand.workload is None or "cuts" not in method(demand.method).options:
        return demand.options
    return {"cuts": demand.workload.cuts(shapes), **demand.options}


def _shapes(demand: Demand, entries: Codes) -> tuple[Mapping[str, Shape], dict[str, str]]:
    """How each quasi-identifier may be blurred."""
    shapes: dict[str, Shape] = {}
    reasons: dict[str, str] = {}
    trees_only = method(demand.method).needs_trees
    for name in demand.columns:
        values = entries.values_of(name)
        if name in demand.hierarchies:
            shapes[name] = demand.hierarchies[name].bind(values, name)
        elif demand.infer_trees or trees_only:
            held = SensitiveColumn.of(entries.column(name), entries.counts, values).counts
            hierarchy, reasons[name] = infer(name, values, held)
            shapes[name] = hierarchy.bind(values, name)
        elif _ordered(values):
            shapes[name] = Ranges(values, name)
        else:
            shapes[name] = ValueSets(values, name)
    return shapes, reasons


def _ordered(values: pa.Array) -> bool:
    from sfumato.engines.protocol import column_of

    return column_of("", values.type).ordered
