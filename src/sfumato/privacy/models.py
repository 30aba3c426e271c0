"""k-anonymity and k-map, the list of all privacy models, and the parameters that ask for them.

Adding a model is adding its file, its branch in `rules.holds`, and its names here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self, TypedDict

from sfumato.errors import ColumnError, InputError, ParameterError, spell
from sfumato.fields import Columns, ColumnSets, Field, parameters
from sfumato.hierarchy import Hierarchy
from sfumato.privacy.alpha_k import AlphaK, AlphaKFields, Sensitivity, SensitivityFields
from sfumato.privacy.base import HOLDS, Asked, Counted, Measured, Model, require_whole, smallest
from sfumato.privacy.closeness import Closeness, ClosenessFields
from sfumato.privacy.diversity import (
    DistinctDiversity,
    DiversityFields,
    EntropyDiversity,
    RecursiveDiversity,
)
from sfumato.privacy.likeness import Likeness, LikenessFields


class KAnonymityFields(TypedDict, total=False):
    """Parameters of k-anonymity."""

    k: Annotated[
        int | None,
        Field(
            "k-anonymity: every row looks like at least k-1 others.",
            HOLDS,
            "-k",
            "N",
            label="People alike, at least",
            least=2,
        ),
    ]


class KMapFields(TypedDict, total=False):
    """Parameters of k-map."""

    k_map: Annotated[
        int | None,
        Field(
            "k-map: every row matches at least k people of the population.",
            HOLDS,
            "--k-map",
            "N",
        ),
    ]
    population: Annotated[
        Any,
        Field(
            "A table of people that has the quasi-identifiers too.",
            HOLDS,
            "--population",
            "TABLE",
            file=True,
        ),
    ]


@dataclass(frozen=True)
class KAnonymity(Model):
    """Every class has at least k rows (Samarati & Sweeney 1998)."""

    k: int
    name: ClassVar[str] = "k-anonymity"
    numbers: ClassVar[tuple[str, ...]] = ("k",)
    asked_by: ClassVar[tuple[str, ...]] = ("k",)

    def __post_init__(self) -> None:
        require_whole(self.k, "k")

    @classmethod
    def of(cls, asked: Asked) -> Iterable[Self]:
        return (cls(asked.values["k"]),)

    @property
    def least_rows(self) -> int:
        return int(self.k)

    def measure(self, counted: Counted) -> Measured:
        return Measured(counted.sizes >= self.k, {"k": smallest(counted.sizes)})

    def best(self, counted: Counted) -> tuple[str, str]:
        largest = int(counted.sizes.max(initial=0))
        return f"k <= {largest:,}", f"{largest:,} rows at most can be alike"


@dataclass(frozen=True)
class KMap(Model):
    """Every class matches at least k rows of a population table (Sweeney 2002)."""

    k: int
    name: ClassVar[str] = "k-map"
    numbers: ClassVar[tuple[str, ...]] = ("k",)
    asked_by: ClassVar[tuple[str, ...]] = ("k_map",)
    asks_people: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_whole(self.k, "k")

    @classmethod
    def of(cls, asked: Asked) -> Iterable[Self]:
        return (cls(asked.values["k_map"]),)

    @property
    def needs_values(self) -> bool:
        return True

    def measure(self, counted: Counted) -> Measured:
        return Measured(counted.sizes >= self.k, {"k": smallest(counted.sizes)})

    def best(self, counted: Counted) -> tuple[str, str]:
        largest = int(counted.sizes.max(initial=0))
        return f"k <= {largest:,} for k-map", f"{largest:,} people at most can match a row"


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
            "Columns nobody must be able to infer; l, t, p, alpha and likeness are about them.",
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
    named = {name for name, value in values.items() if declared[name].differs(value)}
    for name, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ParameterError(f"{name} = {value} is not a number", remedy="Give a number.")
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
    for names in sets:
        if twice := [name for name in names if names.count(name) > 1]:
            raise ColumnError(
                f"column `{twice[0]}` is named twice among the quasi-identifiers",
                remedy="Name it once.",
            )
    return sets
