"""Anonymize a table: from the demand to a verified release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.anonymize.demand import Demand, models_of, quasi_identifier_sets
from sfumato.anonymize.drafting import draft_of
from sfumato.anonymize.preparing import prepare
from sfumato.anonymize.registry import method as method_named
from sfumato.budget import Budget
from sfumato.hierarchy import Boundaries, Hierarchy, read_folder
from sfumato.release import Draft, Release, publish, rehearse
from sfumato.tables import Table, table

__all__ = ["anonymize", "anonymize_draft"]


def anonymize(
    source: Any,
    *,
    qi: Sequence[str] | Sequence[Sequence[str]],
    k: int | None = None,
    sensitive: Sequence[str] = (),
    l: float | None = None,  # noqa: E741 (the field's own name)
    l_kind: str = "distinct",
    c: float | None = None,
    t: float | None = None,
    t_distance: Mapping[str, str] | str | None = None,
    p: int | None = None,
    alpha: float | None = None,
    method: str = "mondrian",
    hierarchies: str | Mapping[str, Hierarchy] | None = None,
    boundaries: str | Mapping[str, Mapping[str, Any]] | None = None,
    weights: Mapping[str, float] | None = None,
    identifiers: Sequence[str] = (),
    suppressed_as: str = "typed",
    seed: int = 0,
    output: str | None = None,
    format: str | None = None,
    force: bool = False,
    budget: Budget | None = None,
    **options: Any,
) -> Release:
    """Blur or star as little as possible so that the privacy demanded provably holds.

    Parameters
    ----------
    source
        Anything `sfumato.table` opens.
    qi
        Quasi-identifiers: the columns others may know. Several sets may be given; the promise
        then holds for each of them.
    k, l, t, p, alpha
        Privacy models, all of which must hold: k-anonymity, l-diversity (of the kind `l_kind`,
        with `c` for the recursive one), t-closeness, p-sensitivity and (α,k)-anonymity.
    sensitive
        Columns that l, t, p and alpha are about.
    method
        How to get there; see ``sfumato anonymize --help``.
    hierarchies
        A folder of generalization trees (``<column>.csv``) or a mapping; missing ones are inferred.
    boundaries
        A TOML file or mapping that says how far values may be blurred at most.
    weights
        Importance of precision by column (for ``cells`` the price of a star).
    identifiers
        Columns left out of the release.
    suppressed_as
        ``typed`` (a star is null in typed columns) or ``text``.
    output
        Write the release there; else it is only rehearsed.
    options
        Options of the method.

    Examples
    --------
    >>> import pyarrow as pa, sfumato as sf
    >>> people = pa.table({"age": [21, 22, 35, 36], "sex": ["F", "F", "M", "M"]})
    >>> release = sf.anonymize(people, qi=["age", "sex"], k=2)
    >>> release.k, release.table.sample(4).column("age").to_pylist()
    (2, ['[21, 23)', '[21, 23)', '[35, 37)', '[35, 37)'])
    """
    budget = budget or Budget()
    opened = table(source, budget=budget)
    sets = quasi_identifier_sets(qi)
    involved = [*(name for names in sets for name in names), *sensitive]
    trees = _trees(hierarchies, opened, involved)
    demand = Demand(
        quasi_identifiers=sets,
        sensitive=tuple(sensitive),
        models=models_of(
            sensitive,
            k=k,
            l=l,
            l_kind=l_kind,
            c=c,
            t=t,
            t_distance=t_distance,
            ordered=[column.name for column in opened.schema if column.ordered],
            p=p,
            alpha=alpha,
            hierarchies=trees,
        ),
        method=method,
        options=options,
        hierarchies={name: tree for name, tree in trees.items() if name not in sensitive},
        infer_trees=hierarchies is not None,
        boundaries=_boundaries(boundaries),
        weights=dict(weights or {}),
        identifiers=tuple(identifiers),
        stars_as_text=suppressed_as == "text",
        seed=seed,
    )
    draft = anonymize_draft(opened, demand, budget)
    if output is None:
        return rehearse(draft, budget=budget)
    return publish(draft, output, format=format, force=force, budget=budget)


def anonymize_draft(opened: Table, demand: Demand, budget: Budget) -> Draft:
    """Work out a release without writing it."""
    problem, reasons = prepare(opened, demand, budget)
    solution = method_named(demand.method).solve(problem)
    return draft_of(opened, demand, problem, solution, reasons)


def _trees(
    given: str | Mapping[str, Hierarchy] | None, opened: Table, columns: Sequence[str]
) -> dict[str, Hierarchy]:
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return dict(given)
    found = read_folder(given, opened.columns)
    return {name: tree for name, tree in found.items() if name in columns}


def _boundaries(given: str | Mapping[str, Mapping[str, Any]] | None) -> Boundaries | None:
    if given is None or isinstance(given, Boundaries):
        return given
    return Boundaries(given) if isinstance(given, Mapping) else Boundaries.read(given)
