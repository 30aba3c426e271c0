"""What releases of this room promise, in a form that can be checked again from a certificate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from sfumato.budget import Budget
from sfumato.populations.measured import people_share
from sfumato.populations.safe_harbor import disallowed
from sfumato.release.promise import Finding
from sfumato.tables import Table

__all__ = ["FewValues", "MatchesPeople", "SafeHarborForms"]


@dataclass(frozen=True)
class MatchesPeople:
    """At least a share 1-β of the rows match at least k people of the universe, as measured."""

    universe: float
    k: int
    beta: float
    columns: tuple[str, ...]
    figure: str = "at_least"
    kind: str = field(default="matches-people", init=False)

    def to_dict(self) -> dict[str, Any]:
        return {
            "universe": self.universe,
            "k": self.k,
            "beta": self.beta,
            "columns": list(self.columns),
            "figure": self.figure,
        }

    @classmethod
    def from_dict(cls, parameters: Mapping[str, Any]) -> Self:
        return cls(
            float(parameters["universe"]),
            int(parameters["k"]),
            float(parameters["beta"]),
            tuple(parameters["columns"]),
            str(parameters["figure"]),
        )

    def check(self, table: Table, budget: Budget | None = None) -> Finding:
        share = people_share(table.class_sizes(self.columns, budget), self.universe, self.k)
        measured = share.estimate if self.figure == "estimate" else share.at_least
        return Finding(
            check=self.kind,
            holds=measured >= 1 - self.beta,
            say=f"{measured:.1%} of the rows match at least {self.k:,} of {self.universe:,.0f} "
            f"people, {1 - self.beta:.1%} was promised",
            measured={"estimate": share.estimate, "at_least": share.at_least},
            remedy="Ask for a smaller k or a larger β.",
        )


@dataclass(frozen=True)
class FewValues:
    """The product of the columns' distinct values does not exceed what Theorem 4 allows."""

    distinct: float
    columns: tuple[str, ...]
    kind: str = field(default="few-values", init=False)

    def to_dict(self) -> dict[str, Any]:
        return {"distinct": self.distinct, "columns": list(self.columns)}

    @classmethod
    def from_dict(cls, parameters: Mapping[str, Any]) -> Self:
        return cls(float(parameters["distinct"]), tuple(parameters["columns"]))

    def check(self, table: Table, budget: Budget | None = None) -> Finding:
        found = math.prod(table.class_sizes([name], budget).classes for name in self.columns)
        return Finding(
            check=self.kind,
            holds=found <= self.distinct,
            say=f"the columns have {found:,} combinations of values, at most "
            f"{self.distinct:,.0f} were promised",
            measured={"distinct": found},
            remedy="Ask for a smaller k or a larger β.",
        )


@dataclass(frozen=True)
class SafeHarborForms:
    """ZIP codes, dates and ages have only the forms that the law leaves them."""

    forms: Mapping[str, str]
    restricted: tuple[str, ...]
    kind: str = field(default="safe-harbor-forms", init=False)

    def to_dict(self) -> dict[str, Any]:
        return {"forms": dict(self.forms), "restricted": list(self.restricted)}

    @classmethod
    def from_dict(cls, parameters: Mapping[str, Any]) -> Self:
        return cls(dict(parameters["forms"]), tuple(parameters["restricted"]))

    def check(self, table: Table, budget: Budget | None = None) -> Finding:
        wrong = {
            name: count
            for name, form in self.forms.items()
            if (count := disallowed(name, form, table.values(name).values[0], self.restricted))
        }
        return Finding(
            check=self.kind,
            holds=not wrong,
            say=f"{len(self.forms)} columns hold ZIP areas, years and ages as the law allows them, "
            f"{len(wrong)} do not",
            measured={"wrong": wrong},
            remedy="Publish again, or drop: " + ", ".join(f"`{name}`" for name in wrong),
        )
