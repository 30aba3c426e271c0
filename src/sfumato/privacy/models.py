"""The privacy models that can be asked for, alone or together, and the parameters that do.

Adding a model is adding its file, its branch in `rules.holds`, and its names here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from sfumato.errors import InputError, ParameterError, spell
from sfumato.fields import Columns, ColumnSets, Field, parameters
from sfumato.hierarchy import Hierarchy
from sfumato.privacy.alpha_k import AlphaK, AlphaKFields, Sensitivity, SensitivityFields
from sfumato.privacy.base import Asked, Model
from sfumato.privacy.closeness import Closeness, ClosenessFields
from sfumato.privacy.diversity import (
    DistinctDiversity,
    DiversityFields,
    EntropyDiversity,
    RecursiveDiversity,
)
from sfumato.privacy.k_anonymity import KAnonymity, KAnonymityFields, KMap, KMapFields
from sfumato.privacy.likeness import Likeness, LikenessFields

__all__ = [
    "COLUMNS",
    "MODELS",
    "Missing",
    "ModelFields",
    "PromiseFields",
    "column_sets",
    "model_from_dict",
    "models_of",
    "require_missing",
]

MODELS: tuple[type[Model], ...] = (
    KAnonymity,
    KMap,
    DistinctDiversity,
    EntropyDiversity,
    RecursiveDiversity,
    Closeness,
    Sensitivity,
    AlphaK,
    Likeness,
)
"""All models, in the order in which they are reported."""


class ModelFields(
    KAnonymityFields,
    DiversityFields,
    ClosenessFields,
    SensitivityFields,
    AlphaKFields,
    LikenessFields,
    KMapFields,
    total=False,
):
    """Parameters of all models."""


COLUMNS = "Columns"
"""The group of the parameters that name columns."""
Missing = Literal["value", "wildcard", "own-class"]
"""What a missing quasi-identifier is."""


class PromiseFields(ModelFields, total=False):
    """What is promised of a table: models, and the columns they are about."""

    qi: Annotated[
        ColumnSets,
        Field(
            "Quasi-identifiers: columns others may know. May be several sets; the promise holds "
            "for each.",
            COLUMNS,
            "--qi",
            "A,B,…",
        ),
    ]
    sensitive: Annotated[
        Columns,
        Field(
            "Columns nobody must be able to infer; l, t, p and alpha are about them.",
            COLUMNS,
            "--sensitive",
            "A,B,…",
        ),
    ]
    person: Annotated[
        str | None,
        Field(
            "Which rows belong to one person: every model counts persons, not rows.",
            COLUMNS,
            "--person",
            "COLUMN",
        ),
    ]
    missing: Annotated[
        Missing,
        Field(
            "What a missing or suppressed quasi-identifier is: a value like any other, a wildcard "
            "that matches any value, or a reason for classes of its own.",
            COLUMNS,
            "--missing",
            "value|wildcard|own-class",
            default="value",
        ),
    ]


def models_of(
    given: Mapping[str, Any],
    *,
    sensitive: Sequence[str] = (),
    ordered: Sequence[str] = (),
    hierarchies: Mapping[str, Hierarchy] | None = None,
    edges: Mapping[str, tuple[float, ...]] | None = None,
) -> tuple[Model, ...]:
    """The models that parameters ask for; those of sensitive columns hold for each.

    Parameters
    ----------
    ordered
        Sensitive columns whose values lie on a line; t-closeness measures them by rank unless
        `t_distance` says otherwise.
    edges
        Where `sensitive_bins` cut columns.

    Examples
    --------
    >>> models_of({"k": 5, "l": 2}, sensitive=["illness"])
    (KAnonymity(k=5), DistinctDiversity(l=2, column='illness', bins=()))
    """
    declared = parameters(ModelFields)
    values = {name: given.get(name, one.default) for name, one in declared.items()}
    named = {name for name, value in values.items() if value != declared[name].default}
    for name, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ParameterError(f"{name} = {value} is no number", remedy="Give a number.")
    asked = Asked(values, sensitive, ordered, hierarchies or {}, edges or {})
    wanted = (kind for kind in MODELS if not named.isdisjoint(kind.asked_by))
    models = tuple(model for kind in wanted for model in kind.of(asked))
    if not models:
        raise ParameterError(
            "nothing was asked for", remedy=f"Ask for k at least, e.g. {spell('k', 5)}."
        )
    return models


def model_from_dict(given: Mapping[str, Any]) -> Model:
    """A model that a certificate records."""
    parameters = dict(given)
    name = parameters.pop("model")
    for kind in MODELS:
        if kind.name == name:
            return kind.from_dict(parameters)
    raise InputError(
        f"the certificate names a privacy model `{name}` that this version does not know",
        remedy="Verify it with the version of Sfumato that made it.",
    )


def require_missing(missing: str) -> bool:
    """Whether missing cells match any value; refuses readings that do not exist."""
    return bool(parameters(PromiseFields)["missing"].checked(missing) == "wildcard")


def column_sets(given: ColumnSets) -> tuple[tuple[str, ...], ...]:
    """One set of quasi-identifiers, or several, as several.

    Examples
    --------
    >>> column_sets(["age", "sex"]), column_sets([["age", "sex"], ["zip"]])
    ((('age', 'sex'),), (('age', 'sex'), ('zip',)))
    """
    sets: tuple[tuple[str, ...], ...] = parameters(PromiseFields)["qi"].checked(given)
    if not sets:
        raise ParameterError(
            "no quasi-identifiers were named",
            remedy="Name the columns others may know, e.g. "
            f"{spell('qi', ['age', 'sex', 'zip'])} (see `sfumato scan`).",
        )
    if not all(sets):
        raise ParameterError(
            "one of the sets of quasi-identifiers is empty",
            remedy="Name its columns, or leave the set out.",
        )
    return sets
