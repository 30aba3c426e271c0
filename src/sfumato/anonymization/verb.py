"""Anonymize a table: from the demand to a verified release."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sfumato.anonymization.actions import check_actions
from sfumato.anonymization.config import Settings
from sfumato.anonymization.demand import Demand, models_of, quasi_identifier_sets
from sfumato.anonymization.drafting import draft_of
from sfumato.anonymization.labels import label_warnings
from sfumato.anonymization.solving import solve
from sfumato.anonymization.workload import QueryLog
from sfumato.budget import Budget
from sfumato.errors import InputError
from sfumato.files import require_file
from sfumato.hierarchy import Boundaries, Hierarchy, read_folder
from sfumato.privacy import read_key
from sfumato.release import Draft, Release, publish, rehearse
from sfumato.release.certificate import certificate_path
from sfumato.release.place import check_place
from sfumato.tables import Table, table

__all__ = ["anonymize", "anonymize_draft", "demand_of", "earlier_releases"]


def anonymize(
    source: Any,
    *,
    qi: Sequence[str] | Sequence[Sequence[str]] | None = None,
    k: int | None = None,
    sensitive: Sequence[str] | None = None,
    l: float | None = None,  # noqa: E741 (the field's own name)
    l_kind: str | None = None,
    c: float | None = None,
    t: float | None = None,
    t_distance: Mapping[str, str] | str | None = None,
    p: int | None = None,
    alpha: float | None = None,
    k_map: int | None = None,
    population: Any = None,
    method: str | None = None,
    hierarchies: str | Path | Mapping[str, Hierarchy] | None = None,
    infer_hierarchies: bool | None = None,
    boundaries: str | Path | Mapping[str, Mapping[str, Any]] | Boundaries | None = None,
    weights: Mapping[str, float] | None = None,
    workload: str | Path | Sequence[str] | None = None,
    columns: Mapping[str, Mapping[str, Any]] | None = None,
    identifiers: Sequence[str] | None = None,
    pseudonyms: Sequence[str] | None = None,
    key_file: str | Path | None = None,
    suppressed_as: str | None = None,
    seed: int | None = None,
    config: str | Path | Settings | None = None,
    output: str | Path | None = None,
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
        with `c` for the recursive one), t-closeness (`t_distance`: ordered for numbers, equal for
        others, or hierarchical), p-sensitivity and (α,k)-anonymity.
    k_map, population
        k-map: every row matches at least so many people of that table, which has the
        quasi-identifiers too; anything `sfumato.table` opens.
    sensitive
        Columns that l, t, p and alpha are about.
    method
        How to get there, ``mondrian`` unless given; see ``sfumato anonymize --help``.
    hierarchies
        A folder of generalization trees (``<column>.csv``) or a mapping; missing ones are inferred,
        unless `infer_hierarchies` is false: then those columns become ranges and sets of values.
    boundaries
        A TOML file or mapping that says how far values may be blurred at most.
    weights
        Importance of precision by column (for ``cells`` the price of a star).
    workload
        A file of SQL queries or predicates, or a list of them: columns they mention often are
        kept precise, and cuts are made where they cut.
    columns
        Actions on single columns, done first: ``{"age": {"top": 90, "round": 5}}``; also
        ``bottom``, ``recode``, ``drop`` and ``pseudonym``.
    identifiers, pseudonyms
        Columns left out of the release, and columns replaced by pseudonyms made with the secret
        key in `key_file`.
    suppressed_as
        ``typed`` (a star is null in typed columns) or ``text``.
    config
        A TOML file with these settings; what is given here comes before it.
    output, format, force
        Write the release there, in this format, replacing what is there; without `output` it is
        only rehearsed.
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
    given = {
        "qi": qi, "k": k, "sensitive": sensitive, "l": l, "l_kind": l_kind, "c": c, "t": t,
        "t_distance": t_distance, "p": p, "alpha": alpha, "k_map": k_map,
        "population": population, "method": method,
        "hierarchies": hierarchies, "infer_hierarchies": infer_hierarchies,
        "boundaries": boundaries, "weights": weights,
        "workload": workload, "columns": columns, "identifiers": identifiers,
        "pseudonyms": pseudonyms, "key_file": key_file, "suppressed_as": suppressed_as,
        "seed": seed,
    }  # fmt: skip
    given = {name: value for name, value in given.items() if value is not None}
    if isinstance(config, Settings):
        start = config
    else:
        start = Settings() if config is None else Settings.read(config)
    settings = start.overridden({**given, **options}).inlined()
    budget = budget or Budget()
    opened = table(source, budget=budget)
    demand = demand_of(opened, settings)
    if output is None:
        return rehearse(anonymize_draft(opened, demand, budget), budget=budget)
    check_place(opened, output, format=format, force=force)
    draft = anonymize_draft(opened, demand, budget)
    draft = replace(draft, warnings=(*draft.warnings, *earlier_releases(opened, output)))
    return publish(draft, output, format=format, force=force, budget=budget)


def anonymize_draft(opened: Table, demand: Demand, budget: Budget) -> Draft:
    """Work out a release without writing it."""
    demand.check(opened)
    parts = solve(opened, demand, budget)
    draft = draft_of(opened, demand, parts)
    told = (
        *_warnings(opened, demand, draft),
        *_identifying(opened, demand),
        *label_warnings(parts),
        *draft.warnings,
    )
    return replace(draft, warnings=told)


def demand_of(opened: Table, settings: Settings) -> Demand:
    """The demand that settings make of a table."""
    sets = quasi_identifier_sets(settings.qi)
    check_actions(opened, settings.columns)
    dropped = [name for name, actions in settings.columns.items() if actions.get("drop")]
    hidden = [name for name, actions in settings.columns.items() if actions.get("pseudonym")]
    involved = [*(name for names in sets for name in names), *settings.sensitive]
    trees = _trees(settings.hierarchies, opened, involved)
    return Demand(
        qi=sets,
        sensitive=settings.sensitive,
        models=models_of(
            settings.sensitive,
            k=settings.k,
            l=settings.l,
            l_kind=settings.l_kind,
            c=settings.c,
            t=settings.t,
            t_distance=settings.t_distance,
            ordered=[column.name for column in opened.schema if column.ordered],
            p=settings.p,
            alpha=settings.alpha,
            k_map=settings.k_map,
            hierarchies=trees,
        ),
        method=settings.method,
        options=settings.options,
        hierarchies={name: tree for name, tree in trees.items() if name not in settings.sensitive},
        infer_trees=settings.hierarchies is not None and settings.infer_hierarchies,
        boundaries=_boundaries(settings.boundaries),
        weights=settings.weights,
        workload=None if settings.workload is None else QueryLog.of(settings.workload),
        actions={
            name: actions
            for name, actions in settings.columns.items()
            if name not in dropped and name not in hidden
        },
        identifiers=tuple(dict.fromkeys((*settings.identifiers, *dropped))),
        pseudonyms=tuple(dict.fromkeys((*settings.pseudonyms, *hidden))),
        key=None if settings.key_file is None else _key(settings.key_file),
        stars_as_text=settings.suppressed_as == "text",
        population=None if settings.population is None else table(settings.population),
        seed=settings.seed,
        asked=settings.to_dict(),
    )


def earlier_releases(opened: Table, output: str | Path) -> tuple[str, ...]:
    """A warning where the folder of an output already holds releases of the same table."""
    beside = certificate_path(output)
    others = []
    for place in sorted(beside.parent.glob("*.certificate.json")):
        if place == beside:
            continue
        try:
            record = json.loads(place.read_text(encoding="utf-8"))
            if record["input"]["fingerprint"] == opened.fingerprint():
                others.append(place.name.removesuffix(".certificate.json"))
        except (OSError, ValueError, KeyError, TypeError):
            continue  # not one of ours
    if not others:
        return ()
    return (
        f"this folder already holds a release of the same table ({', '.join(others)}): whoever has "
        "both can join them; check their combination with `sfumato verify --with`",
    )


def _warnings(opened: Table, demand: Demand, draft: Draft) -> tuple[str, ...]:
    found: list[str] = []
    if demand.target is not None and demand.target in demand.sensitive:
        found.append(
            f"the target `{demand.target}` is also sensitive: the more a class tells about it, "
            "the less private it is; what one demand wins the other loses"
        )
    if demand.workload is not None:
        found += demand.workload.warnings(opened.columns)
    if demand.boundaries is not None and draft.suppressed_rows:
        found.append(
            f"{draft.suppressed_rows:,} rows are left out: they cannot be blurred enough within "
            "the boundaries"
        )
    return tuple(found)


_LOOKED_AT = 2_000


def _identifying(opened: Table, demand: Demand) -> tuple[str, ...]:
    """A warning about columns that stay as they are though they tell people apart.

    A sample finds the suspects, one pass over each convicts; rows of remote engines are not
    sampled. Measurements are left out: prices differ from row to row and find nobody.
    """
    if opened.engine.capabilities.remote:
        return ()
    parts = {*demand.columns, *demand.sensitive, *demand.identifiers, *demand.pseudonyms}
    kept = [
        column.name
        for column in opened.schema
        if column.name not in parts and column.kind in ("text", "integer", "binary")
    ]
    if not kept or opened.rows < 2:
        return ()
    sample = opened.sample(_LOOKED_AT, kept, seed=demand.seed)
    suspects = [n for n in kept if len(sample.column(n).unique()) > 0.9 * sample.num_rows]
    guilty = [name for name in suspects if opened.class_sizes([name]).distinct > 0.9]
    if not guilty:
        return ()
    names = ", ".join(f"`{name}`" for name in guilty)
    return (
        f"kept, though different in nearly every row: {names}; leave out what identifies people "
        "(--identifiers), or replace it (--pseudonyms)",
    )


def _trees(
    given: str | Path | Mapping[str, Hierarchy] | None, opened: Table, columns: Sequence[str]
) -> dict[str, Hierarchy]:
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return dict(given)
    found = read_folder(given, opened.columns)
    return {name: tree for name, tree in found.items() if name in columns}


def _key(path: str) -> bytes:
    return read_key(require_file(path, "the key", kind=InputError))


def _boundaries(
    given: str | Path | Mapping[str, Mapping[str, Any]] | Boundaries | None,
) -> Boundaries | None:
    if given is None or isinstance(given, Boundaries):
        return given
    return Boundaries(given) if isinstance(given, Mapping) else Boundaries.read(given)
