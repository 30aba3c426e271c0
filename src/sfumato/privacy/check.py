"""Measure any table against privacy models, independently of what made it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.errors import ColumnError, ParameterError, did_you_mean
from sfumato.hierarchy.tree import Array
from sfumato.privacy.classes import Classes
from sfumato.privacy.histogram import ClassHistogram
from sfumato.privacy.models import (
    AlphaK,
    Closeness,
    DistinctDiversity,
    EntropyDiversity,
    KAnonymity,
    KMap,
    Model,
    RecursiveDiversity,
    Sensitivity,
)
from sfumato.privacy.rules import TOLERANCE, SensitiveColumn
from sfumato.privacy.wildcards import Cells, matching_rows
from sfumato.results import Result

__all__ = ["Check", "ModelFinding", "Population", "check"]


@dataclass(frozen=True)
class ModelFinding(Result):
    """What one model measured on the classes of one set of quasi-identifiers.

    Attributes
    ----------
    model
        Its name.
    qi
        The quasi-identifiers.
    column
        The sensitive column, if any.
    asked, measured
        What was asked and what the worst class has, numbers under the same names; what an empty
        table has is None.
    failing_classes, failing_rows
        Classes that do not satisfy the model, and their rows.
    """

    model: str
    qi: tuple[str, ...]
    column: str | None
    asked: Mapping[str, Any]
    measured: Mapping[str, Any]
    holds: bool
    failing_classes: int
    failing_rows: int


@dataclass(frozen=True)
class Check(Result):
    """Whether every model holds for every set of quasi-identifiers.

    `k` and `classes` are of the first set; `wildcards` says how suppressed cells were read.
    """

    holds: bool
    findings: tuple[ModelFinding, ...]
    rows: int
    classes: int
    k: int | None
    wildcards: bool


@dataclass(frozen=True, eq=False)
class Population:
    """The population that k-map looks people up in, in the codes of the checked table.

    Parameters
    ----------
    codes
        The quasi-identifiers of the population, recoded as the table was.
    counts
        Rows each entry stands for.
    """

    codes: Mapping[str, Array]
    counts: Array | None = None


def check(
    models: Sequence[Model],
    codes: Mapping[str, Any],
    qi: Sequence[str] | Sequence[Sequence[str]],
    *,
    counts: Any = None,
    values: Mapping[str, pa.Array] | None = None,
    wildcards: Mapping[str, Sequence[int]] | None = None,
    population: Population | None = None,
) -> Check:
    """Measure a table against privacy models.

    Parameters
    ----------
    models
        What must hold, all together.
    codes
        The columns as small integers; for ordered distances a smaller code is a smaller value.
    qi
        The quasi-identifiers, or several sets of them: the models must hold for each.
    counts
        Rows that each entry stands for; 1 each by default.
    values
        Distinct values by code, needed for hierarchies and for limits on a named value.
    wildcards
        For each column the codes that match anything (suppressed or missing cells); by default
        these are values like any other.
    population
        Needed for k-map.

    Examples
    --------
    >>> codes = {"age": [0, 0, 0, 1, 1], "illness": [0, 1, 1, 1, 1]}
    >>> found = check([KAnonymity(2), DistinctDiversity(2, "illness")], codes, ["age"])
    >>> found.holds, [dict(finding.measured) for finding in found.findings]
    (False, [{'k': 2}, {'l': 1}])
    >>> found.findings[1].failing_rows
    2
    """
    columns = {name: _as_codes(array) for name, array in codes.items()}
    weights = None if counts is None else np.asarray(counts, dtype=np.int64)
    if weights is not None and (weights <= 0).any():  # entries that stand for nobody
        columns = {name: array[weights > 0] for name, array in columns.items()}
        weights = weights[weights > 0]
    sets = _sets(qi)
    _refuse_bad_columns(models, columns, sets)
    values = values or {}
    entries = len(next(iter(columns.values()), np.zeros(0)))
    sensitive = {
        model.column: (
            columns[model.column],
            max(_cardinality(columns[model.column]), len(values.get(model.column, ()))),
        )
        for model in models
        if not isinstance(model, (KAnonymity, KMap))
    }
    counted = [
        Classes(
            names,
            tuple(columns[name] for name in names),
            tuple(_cardinality(columns[name]) for name in names),
            entries,
            weights,
            sensitive,
            tuple(wildcards.get(name, ()) for name in names) if wildcards and names else None,
        )
        for names in sets
    ]
    findings = tuple(
        _k_map(model, classes, population)
        if isinstance(model, KMap)
        else _finding(model, classes, values)
        for classes in counted
        for model in models
    )
    first = counted[0]
    return Check(
        holds=all(finding.holds for finding in findings),
        findings=findings,
        rows=entries if weights is None else int(weights.sum()),
        classes=len(first.own_sizes),
        k=int(first.sizes.min()) if len(first.sizes) else None,
        wildcards=bool(wildcards),
    )


def _as_codes(array: Any) -> Array:
    """Codes in a width that the compiled loops take."""
    codes = np.asarray(array)
    return codes if codes.dtype.kind == "u" and codes.itemsize <= 4 else codes.astype(np.uint32)


def _cardinality(codes: Array) -> int:
    return int(codes.max()) + 1 if len(codes) else 0


def _sets(qi: Sequence[str] | Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """The sets of quasi-identifiers, whether one or several were given."""
    if isinstance(qi, str):
        return [(qi,)]
    if all(isinstance(name, str) for name in qi):
        return [tuple(str(name) for name in qi)]
    return [tuple(names) if not isinstance(names, str) else (names,) for names in qi]


def _refuse_bad_columns(
    models: Sequence[Model], columns: Mapping[str, Array], sets: Sequence[tuple[str, ...]]
) -> None:
    wanted = [name for names in sets for name in names]
    wanted += [model.column for model in models if not isinstance(model, (KAnonymity, KMap))]
    for name in wanted:
        if name not in columns:
            raise ColumnError(f"there is no column `{name}`", remedy=did_you_mean(name, columns))
    for model in models:
        if isinstance(model, (KAnonymity, KMap)):
            continue
        if any(model.column in names for names in sets):
            raise ColumnError(
                f"`{model.column}` is both sensitive and a quasi-identifier",
                remedy="Take it out of one of them.",
            )


def _finding(model: Model, classes: Classes, values: Mapping[str, pa.Array]) -> ModelFinding:
    sizes = classes.sizes
    if isinstance(model, KAnonymity):
        return _report(model, classes, {"k": model.k}, {"k": _least(sizes)}, sizes >= model.k)
    assert not isinstance(model, KMap)
    histogram = classes.histograms[model.column]
    if isinstance(model, (DistinctDiversity, Sensitivity)):
        distinct = histogram.distinct
        if isinstance(model, DistinctDiversity):
            measured = {"l": _least(distinct)}
            return _report(model, classes, {"l": model.l}, measured, distinct >= model.l)
        measured = {"p": _least(distinct), "k": _least(sizes)}
        fine = (distinct >= model.p) & (sizes >= model.k)
        return _report(model, classes, {"p": model.p, "k": model.k}, measured, fine)
    if isinstance(model, EntropyDiversity):
        entropy = histogram.entropy
        worst = float(np.exp(entropy.min())) if len(entropy) else None
        fine = entropy >= np.log(model.l) - TOLERANCE
        return _report(model, classes, {"l": model.l}, {"l": worst}, fine)
    if isinstance(model, RecursiveDiversity):
        ratio = histogram.recursive_ratio(model.l)
        asked = {"c": model.c, "l": model.l}
        return _report(model, classes, asked, {"c": _most(ratio), "l": model.l}, ratio < model.c)
    if isinstance(model, AlphaK):
        code = None
        if model.value is not None:
            column = SensitiveColumn(histogram.total, values.get(model.column))
            code = column.code_of(model.value, model.column)
        share = histogram.largest_share(code)
        fine = (share <= model.alpha + TOLERANCE) & (sizes >= model.k)
        measured_share = {"alpha": _most(share), "k": _least(sizes)}
        return _report(model, classes, {"alpha": model.alpha, "k": model.k}, measured_share, fine)
    distance = _distance(model, histogram, values.get(model.column))
    fine = distance <= model.t + TOLERANCE
    return _report(model, classes, {"t": model.t}, {"t": _most(distance)}, fine)


def _distance(model: Closeness, histogram: ClassHistogram, values: pa.Array | None) -> Array:
    if model.distance == "equal":
        return histogram.distance_equal()
    if model.distance == "ordered":
        return histogram.distance_ordered()
    return histogram.distance_tree(SensitiveColumn(histogram.total, values).tree(model))


def _k_map(model: KMap, classes: Classes, population: Population | None) -> ModelFinding:
    if population is None:
        raise ParameterError("k-map needs a population table", remedy="Give one, or ask for k.")
    for name in classes.qi:
        if name not in population.codes:
            raise ColumnError(
                f"the population has no column `{name}`",
                remedy=did_you_mean(name, population.codes),
            )
    theirs = Cells.of([population.codes[name] for name in classes.qi], classes.stars)
    counts = np.ones(len(theirs)) if population.counts is None else population.counts
    found = matching_rows(classes.cells, theirs, counts)
    return _report(model, classes, {"k": model.k}, {"k": _least(found)}, found >= model.k)


def _report(
    model: Model,
    classes: Classes,
    asked: dict[str, Any],
    measured: dict[str, Any],
    fine: Array,
) -> ModelFinding:
    name = model.name
    if isinstance(model, Closeness):
        name += f" ({model.distance} distance)"
    return ModelFinding(
        model=name,
        qi=classes.qi,
        column=None if isinstance(model, (KAnonymity, KMap)) else model.column,
        asked=asked,
        measured=measured,
        holds=bool(fine.all()),
        failing_classes=int((~fine).sum()),
        failing_rows=int(classes.own_sizes[~fine].sum()),
    )


def _least(numbers: Array) -> int | None:
    return int(numbers.min()) if len(numbers) else None


def _most(numbers: Array) -> float | None:
    return float(numbers.max()) if len(numbers) else None
