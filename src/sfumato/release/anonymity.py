"""The promise of anonymizers: privacy models that hold for each of the quasi-identifier sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import pyarrow as pa

from sfumato.budget import Budget
from sfumato.privacy import Check, Model, ModelFinding, check, model_from_dict
from sfumato.release.promise import Finding
from sfumato.tables import Table

__all__ = ["Anonymity"]


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
            "models": [model.to_dict() for model in self.models],
            "qi": [list(names) for names in self.qi],
            "sensitive": list(self.sensitive),
            "wildcards": self.wildcards,
        }

    @classmethod
    def from_dict(cls, parameters: Mapping[str, Any]) -> Self:
        return cls(
            tuple(model_from_dict(model) for model in parameters["models"]),
            tuple(tuple(names) for names in parameters["qi"]),
            tuple(parameters["sensitive"]),
            bool(parameters.get("wildcards", False)),
        )

    def check(self, table: Table, budget: Budget | None = None) -> Finding:
        """Count the classes of the table as it is and test each of them."""
        outcomes = [self._measure(table, names, budget) for names in self.qi]
        found = [finding for outcome in outcomes for finding in outcome.findings]
        broken = [finding for finding in found if not finding.holds]
        return Finding(
            check=self.kind,
            holds=not broken,
            say=_READING[self.wildcards] + "; ".join(map(_sentence, broken or found)),
            measured={"checks": found, "wildcards": self.wildcards, **self._reference()},
            remedy="Ask for less, allow more blurring, or leave columns out.",
            class_sizes=None if self.wildcards else _smallest(outcomes),
        )

    def _reference(self) -> dict[str, str]:
        """What classes were compared with, where a model does so."""
        asked = any(model.compares for model in self.models)
        return {"t_reference": "released rows"} if asked else {}

    def _measure(self, table: Table, names: tuple[str, ...], budget: Budget | None) -> Check:
        entries = table.classes((*names, *self.sensitive), budget=budget)
        return check(
            self.models,
            {name: entries.column(name) for name in entries.columns},
            names,
            counts=entries.counts,
            values={name: entries.values_of(name) for name in self.sensitive},
            wildcards={name: _stars(entries.values_of(name)) for name in names}
            if self.wildcards
            else None,
        )


def _smallest(outcomes: Sequence[Check]) -> tuple[int | None, int]:
    """The smallest class of any set, and the classes of the first."""
    least = min((one.k for one in outcomes if one.k is not None), default=None)
    return least, outcomes[0].classes


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
