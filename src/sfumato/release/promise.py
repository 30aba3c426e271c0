"""What a release promises, in a form that can be checked on any table and replayed from JSON.

A promise knows nothing of how a release was made. It is checked on the table as read back from
where it was written, before the release gets its name, and again whenever somebody verifies it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from sfumato.budget import Budget
from sfumato.errors import InputError
from sfumato.results import Result
from sfumato.tables import Table

__all__ = [
    "MEASURED_ELSEWHERE",
    "Finding",
    "Promise",
    "RatioAtMost",
    "WithoutColumns",
    "promise_class",
    "promise_from_dict",
]


@dataclass(frozen=True)
class Finding(Result):
    """Outcome of one check.

    `measured` holds exact figures; `say` is the sentence for people; `remedy` what to change when
    the check failed; `class_sizes` the smallest class of any set and the classes of the first,
    where they were counted on the way.
    """

    check: str
    holds: bool
    say: str
    measured: Mapping[str, Any] = field(default_factory=dict)
    remedy: str | None = None
    class_sizes: tuple[int | None, int] | None = field(
        default=None, repr=False, compare=False, metadata={"private": True}
    )

    def __post_init__(self) -> None:
        if self.holds:
            object.__setattr__(self, "remedy", None)


class Promise(Protocol):
    """Something that must be true of a released table."""

    @property
    def kind(self) -> str:
        """Name in certificates."""

    def to_dict(self) -> dict[str, Any]:
        """Parameters as JSON values, without the kind."""

    @classmethod
    def from_dict(cls, parameters: Mapping[str, Any]) -> Self:
        """Rebuild the promise from a certificate."""

    def check(self, table: Table, budget: Budget | None = None) -> Finding:
        """Measure the table and say whether the promise holds."""


_HOMES = {
    "anonymity": "sfumato.release.anonymity:Anonymity",
    "k-map": "sfumato.populations.k_map:MatchesPopulation",
    "few-values": "sfumato.populations.estimate:FewValues",
    "matches-people": "sfumato.populations.estimate:MatchesPeople",
    "ratio-at-most": "sfumato.release.promise:RatioAtMost",
    "safe-harbor-forms": "sfumato.populations.safe_harbor:SafeHarborForms",
    "without-columns": "sfumato.release.promise:WithoutColumns",
}
"""Where each kind of promise lives."""
MEASURED_ELSEWHERE = frozenset({"k-map"})
"""Kinds that are measured on another table, too: what was measured there is not passed on."""


def promise_class(kind: str) -> Any:
    """The class of a kind of promise."""
    if kind not in _HOMES:
        raise InputError(
            f"the certificate names a promise `{kind}` that this version does not know",
            remedy="Verify it with the version of Sfumato that made it.",
        )
    module, name = _HOMES[kind].split(":")
    return getattr(importlib.import_module(module), name)


def promise_from_dict(kind: str, parameters: Mapping[str, Any]) -> Promise:
    """Rebuild a promise that a certificate names."""
    found: Promise = promise_class(kind).from_dict(parameters)
    return found


@dataclass(frozen=True)
class RatioAtMost:
    """The distinct or separation ratio of the columns does not exceed β (Motwani & Xu, masking)."""

    measure: str
    beta: float
    columns: tuple[str, ...]
    kind: str = field(default="ratio-at-most", init=False)

    def to_dict(self) -> dict[str, Any]:
        return {"measure": self.measure, "beta": self.beta, "columns": list(self.columns)}

    @classmethod
    def from_dict(cls, parameters: Mapping[str, Any]) -> Self:
        return cls(
            str(parameters["measure"]), float(parameters["beta"]), tuple(parameters["columns"])
        )

    def __post_init__(self) -> None:
        if self.measure not in ("distinct", "separation"):
            raise ValueError(self.measure)

    def check(self, table: Table, budget: Budget | None = None) -> Finding:
        sizes = table.class_sizes(self.columns, budget)
        ratio = sizes.distinct if self.measure == "distinct" else sizes.separation
        return Finding(
            check=self.kind,
            holds=ratio <= self.beta,
            say=f"{self.measure} ratio of the {len(self.columns)} published columns is "
            f"{ratio:.6g}, at most {self.beta:g} was promised",
            measured={"ratio": ratio, "classes": sizes.classes, "rows": sizes.rows},
            remedy="Publish fewer columns, or allow a larger β.",
        )


@dataclass(frozen=True)
class WithoutColumns:
    """Columns that were to be left out are not in the table."""

    columns: tuple[str, ...]
    kind: str = field(default="without-columns", init=False)

    def to_dict(self) -> dict[str, Any]:
        return {"columns": list(self.columns)}

    @classmethod
    def from_dict(cls, parameters: Mapping[str, Any]) -> Self:
        return cls(tuple(parameters["columns"]))

    def check(self, table: Table, budget: Budget | None = None) -> Finding:
        present = [name for name in self.columns if name in table.columns]
        return Finding(
            check=self.kind,
            holds=not present,
            say=_left_out(self.columns, present),
            measured={"present": present},
            remedy="Publish again without: " + ", ".join(f"`{name}`" for name in present),
        )


def _left_out(columns: tuple[str, ...], present: list[str]) -> str:
    if present:
        return "still present though left out: " + ", ".join(present)
    return "left out: " + ", ".join(columns) if columns else "no column had to be left out"
