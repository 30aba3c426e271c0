"""The promise of anonymizers: privacy models that hold for each of the quasi-identifier sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

import pyarrow as pa

from sfumato import privacy
from sfumato.budget import Budget
from sfumato.errors import InputError
from sfumato.hierarchy import Hierarchy
from sfumato.privacy import Model, ModelFinding, check
from sfumato.release.promise import Finding
from sfumato.tables import Table

__all__ = ["Anonymity"]

_MODELS = {
    model.name: model
    for model in (
        privacy.KAnonymity,
        privacy.DistinctDiversity,
        privacy.EntropyDiversity,
        privacy.RecursiveDiversity,
        privacy.Closeness,
        privacy.Sensitivity,
        privacy.AlphaK,
    )
}


@dataclass(frozen=True, eq=False)
class Anonymity:
    """Every class of every quasi-identifier set satisfies all models.

    With `wildcards` a suppressed or missing cell matches any value; by default it is a value of its
    own, which is what an adversary sees. t-closeness compares classes with the distribution of the
    released rows: that is what whoever has the release knows of the table.
    """

    models: tuple[Model, ...]
    qi: tuple[tuple[str, ...], ...]
    sensitive: tuple[str, ...] = ()
    wildcards: bool = False
    kind: str = field(default="anonymity", init=False)

    def to_dict(self) -> dict[str, Any]:
        return {
            "models": [_model_to_dict(model) for model in self.models],
            "qi": [list(names) for names in self.qi],
            "sensitive": list(self.sensitive),
            "wildcards": self.wildcards,
        }

    @classmethod
    def from_dict(cls, parameters: Mapping[str, Any]) -> Self:
        return cls(
            tuple(_model_from_dict(model) for model in parameters["models"]),
            tuple(tuple(names) for names in parameters["qi"]),
            tuple(parameters["sensitive"]),
            bool(parameters.get("wildcards", False)),
        )

    def check(self, table: Table, budget: Budget | None = None) -> Finding:
        """Count the classes of the table as it is and test each of them."""
        found = [finding for names in self.qi for finding in self._measure(table, names, budget)]
        broken = [finding for finding in found if not finding.holds]
        return Finding(
            check=self.kind,
            holds=not broken,
            say=_READING[self.wildcards] + "; ".join(map(_sentence, broken or found)),
            measured={"checks": found, "wildcards": self.wildcards, **self._reference()},
            remedy="Ask for less, allow more blurring, or leave columns out.",
        )

    def _reference(self) -> dict[str, str]:
        """What t-closeness was measured against, where it was asked for."""
        asked = any(isinstance(model, privacy.Closeness) for model in self.models)
        return {"t_reference": "released rows"} if asked else {}

    def _measure(
        self, table: Table, names: tuple[str, ...], budget: Budget | None
    ) -> tuple[ModelFinding, ...]:
        entries = table.classes((*names, *self.sensitive), budget=budget)
        outcome = check(
            self.models,
            {name: entries.column(name) for name in entries.columns},
            names,
            counts=entries.counts,
            values={name: entries.values_of(name) for name in self.sensitive},
            wildcards={name: _stars(entries.values_of(name)) for name in names}
            if self.wildcards
            else None,
        )
        return outcome.findings


_READING = {False: "", True: "with stars that match anything, "}


def _stars(values: pa.Array) -> list[int]:
    """Codes of cells that may stand for any value: nulls, and stars in text columns."""
    return [code for code, value in enumerate(values.to_pylist()) if value is None or value == "*"]


def _sentence(finding: ModelFinding) -> str:
    asked = ", ".join(f"{name} = {value:g}" for name, value in finding.asked.items())
    measured = ", ".join(
        f"{name} = {'none' if value is None else format(value, '.6g')}"
        for name, value in finding.measured.items()
    )
    of = f" of {finding.column}" if finding.column else ""
    failing = f" ({finding.failing_rows:,} rows fail)" if finding.failing_rows else ""
    return (
        f"{finding.model}{of} on {', '.join(finding.qi)}: {measured} measured, "
        f"{asked} asked{failing}"
    )


def _model_to_dict(model: Model) -> dict[str, Any]:
    parameters = {f.name: getattr(model, f.name) for f in fields(model)}
    tree = parameters.pop("hierarchy", None)
    if tree is not None:
        parameters["hierarchy"] = [level.to_pylist() for level in tree.levels()]
    return {"model": model.name, **parameters}


def _model_from_dict(given: Mapping[str, Any]) -> Model:
    parameters = dict(given)
    name = parameters.pop("model")
    if name not in _MODELS:
        raise InputError(
            f"the certificate names a privacy model `{name}` that this version does not know",
            remedy="Verify it with the version of Sfumato that made it.",
        )
    if parameters.get("hierarchy") is not None:
        levels = [pa.array(level, pa.string()) for level in parameters["hierarchy"]]
        parameters["hierarchy"] = Hierarchy.from_levels(levels)
    made: Model = _MODELS[name](**parameters)
    return made
