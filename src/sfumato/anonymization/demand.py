"""What the user asks of `anonymize`: columns and their parts, privacy models, and the method."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sfumato.anonymization.registry import METHODS, method
from sfumato.anonymization.workload import QueryLog
from sfumato.errors import ColumnError, ParameterError, did_you_mean
from sfumato.hierarchy import Boundaries, Hierarchy
from sfumato.privacy import (
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
from sfumato.tables import Table

__all__ = ["Demand", "models_of", "quasi_identifier_sets"]

L_KINDS = ("distinct", "entropy", "recursive")


@dataclass(frozen=True, eq=False)
class Demand:
    """A checked demand.

    Parameters
    ----------
    qi
        The column sets the promise is about, at least one.
    sensitive
        Columns whose values must not be inferable from a class.
    models
        What must hold for each of the sets.
    method, options
        How to get there.
    hierarchies
        Trees by column; `infer_trees` makes the missing ones, else columns without a tree are
        blurred into ranges and sets of values.
    boundaries
        How far values may be blurred at most.
    weights
        Importance of precision by column.
    workload
        Queries the release will be asked; they weigh the columns that have no weight, and say
        where to cut.
    actions
        By column, what is done to its values before anything else.
    identifiers, pseudonyms
        Columns that are left out of the release, and columns replaced by pseudonyms under `key`.
    stars_as_text
        Whether starred columns become text instead of holding nulls.
    population
        The people that k-map looks rows up among.
    asked
        The demand as the user gave it; certificates record it.
    """

    qi: tuple[tuple[str, ...], ...]
    sensitive: tuple[str, ...]
    models: tuple[Model, ...]
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    hierarchies: Mapping[str, Hierarchy] = field(default_factory=dict)
    infer_trees: bool = False
    boundaries: Boundaries | None = None
    weights: Mapping[str, float] = field(default_factory=dict)
    workload: QueryLog | None = None
    actions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    identifiers: tuple[str, ...] = ()
    pseudonyms: tuple[str, ...] = ()
    key: bytes | None = field(default=None, repr=False)
    stars_as_text: bool = False
    population: Table | None = None
    seed: int = 0
    asked: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        chosen = method(self.method)
        for name in self.options:
            if name not in chosen.options:
                raise ParameterError(
                    f"method `{self.method}` has no option `{name}`",
                    remedy=did_you_mean(name, chosen.options),
                )
        if self.k_map and not chosen.maps_people:
            able = ", ".join(name for name, one in METHODS.items() if one.maps_people)
            raise ParameterError(
                f"k-map cannot steer method `{self.method}`",
                remedy=f"Choose one of: {able}. Or ask for k: k-anonymity implies k-map where the "
                "table is part of the population.",
            )
        if self.k_map and self.target is not None:
            raise ParameterError(
                "a target cannot be kept predictable together with k-map",
                remedy="Leave one of them out.",
            )
        if bool(self.k_map) != (self.population is not None):
            raise ParameterError(
                "k-map looks people up in a population, and one of the two is missing",
                remedy="Give both, e.g. --k-map 20 --population voters.parquet.",
            )

    @property
    def k_map(self) -> int:
        """People of the population that every row must match; 0 where that is not asked."""
        return max((model.k for model in self.models if isinstance(model, KMap)), default=0)

    @property
    def columns(self) -> tuple[str, ...]:
        """All quasi-identifiers, each once, in the order given."""
        return tuple(dict.fromkeys(name for names in self.qi for name in names))

    @property
    def target(self) -> str | None:
        """The column whose prediction from the quasi-identifiers should stay possible."""
        target = self.options.get("target")
        return None if target is None else str(target)

    def about(self, sets: Sequence[tuple[str, ...]]) -> Demand:
        """The part of the demand that is about some of the sets."""
        names = {name for columns in sets for name in columns}
        bounds = self.boundaries
        if bounds is not None:
            inside = {name: rule for name, rule in bounds.columns.items() if name in names}
            bounds = Boundaries(inside, bounds.where) if inside else None
        return replace(
            self,
            qi=tuple(sets),
            weights={name: w for name, w in self.weights.items() if name in names},
            hierarchies={name: tree for name, tree in self.hierarchies.items() if name in names},
            boundaries=bounds,
        )

    def check(self, table: Table) -> None:
        """Refuse columns that are missing or have two parts to play."""
        for names in self.qi:
            table.require(names)
        table.require(self.sensitive)
        table.require(self.identifiers)
        table.require(self.pseudonyms)
        if self.population is not None:
            self.population.require(self.columns)
        if self.target is not None:
            table.require([self.target])
        parts = {
            "a quasi-identifier": self.columns,
            "sensitive": self.sensitive,
            "an identifier to be left out": self.identifiers,
            "an identifier to be replaced by a pseudonym": self.pseudonyms,
        }
        seen: dict[str, str] = {}
        for part, names in parts.items():
            for name in names:
                if name in seen:
                    raise ColumnError(
                        f"column `{name}` is {seen[name]} and {part} at the same time",
                        where=table.name,
                        remedy="Give it one part.",
                    )
                seen[name] = part
        for what, names in (
            ("a weight", tuple(self.weights)),
            ("a hierarchy", tuple(self.hierarchies)),
            ("cuts", tuple(self.options.get("cuts") or ())),
            ("a boundary", () if self.boundaries is None else tuple(self.boundaries.columns)),
        ):
            for name in names:
                if name not in self.columns:
                    raise ColumnError(
                        f"`{name}` has {what} but is no quasi-identifier",
                        where=table.name,
                        remedy=did_you_mean(name, self.columns),
                    )
        if self.pseudonyms and self.key is None:
            raise ParameterError(
                "pseudonyms need a secret key",
                remedy="Name its file, e.g. --key-file secret.key (openssl rand -hex 32).",
            )
        if self.key is not None and not self.pseudonyms:
            raise ParameterError(
                "a key file is given, and no column that becomes a pseudonym with it",
                remedy="Name the columns, e.g. --pseudonyms patient_id, or leave the key file out.",
            )


def quasi_identifier_sets(
    given: Sequence[str] | Sequence[Sequence[str]],
) -> tuple[tuple[str, ...], ...]:
    """One set of names, or several, as several.

    Examples
    --------
    >>> quasi_identifier_sets(["age", "sex"])
    (('age', 'sex'),)
    >>> quasi_identifier_sets([["age", "sex"], ["zip"]])
    (('age', 'sex'), ('zip',))
    """
    if not given:
        raise ParameterError(
            "no quasi-identifiers were named",
            remedy="Name the columns others may know, e.g. --qi age,sex,zip (see `sfumato scan`).",
        )
    if all(isinstance(name, str) for name in given):
        return (tuple(str(name) for name in given),)
    sets = tuple(tuple(names) for names in given)
    if not all(sets):
        raise ParameterError(
            "one of the sets of quasi-identifiers is empty",
            remedy="Name its columns, or leave the set out.",
        )
    return sets


def models_of(
    sensitive: Sequence[str],
    *,
    k: int | None = None,
    l: float | None = None,  # noqa: E741 (the field's own name)
    l_kind: str = "distinct",
    c: float | None = None,
    t: float | None = None,
    t_distance: Mapping[str, str] | str | None = None,
    ordered: Sequence[str] = (),
    p: int | None = None,
    alpha: float | None = None,
    k_map: int | None = None,
    hierarchies: Mapping[str, Hierarchy] | None = None,
) -> tuple[Model, ...]:
    """Privacy models from the numbers users give; those of sensitive columns hold for each.

    Parameters
    ----------
    ordered
        Sensitive columns whose values lie on a line; t-closeness measures them by rank unless
        `t_distance` says otherwise.
    """
    wanted = (("l", l), ("t", t), ("p", p), ("alpha", alpha))
    for name, value in wanted:
        if value is not None and not sensitive:
            raise ParameterError(
                f"{name} is about a sensitive column, and none was named",
                remedy="Name it, e.g. --sensitive diagnosis.",
            )
    if l_kind not in L_KINDS:
        raise ParameterError(
            f"there is no l-diversity `{l_kind}`", remedy=did_you_mean(l_kind, L_KINDS)
        )
    for name, value in (*wanted, ("c", c)):
        if value is not None and not math.isfinite(value):
            raise ParameterError(f"{name} = {value} is no number", remedy="Give a number.")
    if t is not None and t > 1:
        raise ParameterError(
            f"t = {t:g} would always hold: no two distributions are farther apart than 1",
            remedy="Give a t between 0 and 1, e.g. 0.2.",
        )
    _refuse_unused(sensitive, l, l_kind, c, t, t_distance)
    models: list[Model] = [] if k is None else [KAnonymity(k)]
    if k_map is not None:
        models.append(KMap(k_map))
    for column in sensitive:
        if l is not None:
            models.append(_diversity(l, l_kind, c, column))
        if t is not None:
            asked = t_distance.get(column) if isinstance(t_distance, Mapping) else t_distance
            distance = asked or ("ordered" if column in ordered else "equal")
            models.append(Closeness(t, column, distance, (hierarchies or {}).get(column)))  # type: ignore[arg-type]
        if p is not None:
            models.append(Sensitivity(p, max(p, k or 1), column))
        if alpha is not None:
            models.append(AlphaK(alpha, k or 1, column))
    if not models:
        raise ParameterError("nothing was asked for", remedy="Ask at least for -k, e.g. -k 5.")
    return tuple(models)


def _refuse_unused(
    sensitive: Sequence[str],
    l: float | None,  # noqa: E741
    l_kind: str,
    c: float | None,
    t: float | None,
    t_distance: Mapping[str, str] | str | None,
) -> None:
    """Refuse what would have no effect: it was meant to have one."""
    if c is not None and l_kind != "recursive":
        raise ParameterError(
            "c is of recursive diversity, which was not asked for",
            remedy="Ask for it, e.g. -l 3 --l-kind recursive --c 4.",
        )
    if l is None and l_kind != "distinct":
        raise ParameterError(f"{l_kind} diversity needs l", remedy="Give it, e.g. -l 3.")
    if t is None and t_distance is not None:
        raise ParameterError("a distance is of t-closeness", remedy="Ask for it, e.g. -t 0.2.")
    for name, kind in t_distance.items() if isinstance(t_distance, Mapping) else ():
        if not kind:
            raise ParameterError(
                f"no kind of distance is given for `{name}`",
                remedy=f"Write e.g. {name}=ordered, or leave it out.",
            )
        if name not in sensitive:
            raise ColumnError(
                f"a distance is given for `{name}`, which is no sensitive column",
                remedy=did_you_mean(name, sensitive),
            )


def _diversity(l: float, kind: str, c: float | None, column: str) -> Model:  # noqa: E741
    if kind == "entropy":
        return EntropyDiversity(l, column)
    if l != int(l):
        raise ParameterError(
            f"l = {l:g} is no whole number", remedy="Only entropy takes fractions."
        )
    if kind == "recursive":
        if c is None:
            raise ParameterError("recursive diversity needs c", remedy="Give it, e.g. --c 3.")
        return RecursiveDiversity(c, int(l), column)
    return DistinctDiversity(int(l), column)
