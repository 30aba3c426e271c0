"""What a release promises, in a form that can be checked on any table and replayed from JSON.

A promise knows nothing of how a release was made. It is checked on the table as read back from
where it was written, before the release gets its name, and again whenever somebody verifies it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import numpy as np

from sfumato import wording
from sfumato.budget import Budget
from sfumato.engines.results import Codes
from sfumato.errors import EngineError, InputError
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
    "require_same_classes",
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

    @property
    def unchecked(self) -> tuple[str, ...]:
        """What was promised and could not be measured again, though nothing speaks against it."""
        return tuple(self.measured.get("not_checked", ()))

    @property
    def broken(self) -> bool:
        """Whether something speaks against it: what nobody could measure here is not broken."""
        return not self.holds and not self.unchecked


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
    "linked-histories": "sfumato.release.histories:LinkedHistories",
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
    """The distinct or separation ratio of the columns does not exceed β (Motwani & Xu, masking).

    With a `person` the pairs are those of rows of different persons; they can be counted where the
    table, or its `witness`, has that column.
    """

    measure: str
    """`distinct` or `separation`."""
    beta: float
    """The largest ratio that is allowed."""
    columns: tuple[str, ...]
    """The published columns."""
    person: str | None = None
    """The column that names persons, if pairs of different persons were counted."""
    witness: Table | None = field(default=None, repr=False, compare=False)
    kind: str = field(default="ratio-at-most", init=False)

    def to_dict(self) -> dict[str, Any]:
        told = {"measure": self.measure, "beta": self.beta, "columns": list(self.columns)}
        return told if self.person is None else {**told, "person": self.person}

    @classmethod
    def from_dict(cls, parameters: Mapping[str, Any]) -> Self:
        return cls(
            str(parameters["measure"]),
            float(parameters["beta"]),
            tuple(parameters["columns"]),
            parameters.get("person"),
        )

    def __post_init__(self) -> None:
        if self.measure not in ("distinct", "separation"):
            raise ValueError(self.measure)

    @property
    def about(self) -> tuple[str, ...]:
        """The columns that a witness needs."""
        return self.columns if self.person is None else (*self.columns, self.person)

    def counts_again(self, table: Table) -> bool:
        """Whether everything that was measured can be measured on a table."""
        return self.person is None or self.person in table.columns

    def check(self, table: Table, budget: Budget | None = None) -> Finding:
        if self.counts_again(table) or self.witness is None:
            counted = table
        else:
            require_same_classes(table, self.witness, self.columns, budget)
            counted = self.witness
        published = wording.counted(len(self.columns), "published column")
        if self.person is not None and self.person not in counted.columns:
            return Finding(
                check=self.kind,
                holds=False,
                say=f"{self.measure} ratio of the {published}, at most {self.beta:g} promised, was "
                "not checked: pairs of different persons were counted when this was released, by "
                f"`{self.person}`, which it does not show",
                measured={"not_checked": ["pairs of different persons"]},
                remedy="Ask its maker, who can count them.",
            )
        if self.person is None:
            sizes = counted.class_sizes(self.columns, budget)
            ratio = sizes.distinct if self.measure == "distinct" else sizes.separation
            alike = sizes
        else:
            held = counted.person_sizes(self.columns, self.person, budget)
            sizes, ratio, alike = held.rows, held.separation, held.persons
        return Finding(
            check=self.kind,
            holds=ratio <= self.beta,
            say=f"{self.measure} ratio of the {published} is "
            f"{ratio:.6g}, at most {self.beta:g} was promised",
            measured={"ratio": ratio, "classes": sizes.classes, "rows": sizes.rows},
            remedy="Publish fewer columns, or allow a larger β.",
            class_sizes=(alike.k, alike.classes),
        )


def require_same_classes(
    table: Table, witness: Table, columns: Sequence[str], budget: Budget | None
) -> None:
    """Refuse a witness that is not about the rows of a table: the same classes, as often.

    Where both are tables of one kind of database, it sums up hashes of their rows.
    """
    sums = [_hash_sums(one, columns, budget) for one in (table, witness)]
    if table.engine.kind != witness.engine.kind or None in sums:
        same = _equal(*(one.classes(columns, budget=budget) for one in (table, witness)))
    else:
        same = sums[0] == sums[1]
    if not same:
        raise EngineError(
            "the rows that were written twice, once with the persons, are not the same",
            where=table.name,
            remedy="Make sure that nobody changes the table meanwhile.",
        )


def _hash_sums(
    table: Table, columns: Sequence[str], budget: Budget | None
) -> tuple[int, ...] | None:
    from sfumato.engines.sql_engine import SQLEngine

    engine = table.engine
    return engine.hash_sums(columns, budget) if isinstance(engine, SQLEngine) else None


def _equal(mine: Codes, theirs: Codes) -> bool:
    """Whether two tables have the same combinations, as often."""
    if mine.entries != theirs.entries or mine.rows != theirs.rows:
        return False
    if not all(a.equals(b) for a, b in zip(mine.values, theirs.values, strict=True)):
        return False
    ordered = []
    for codes in (mine, theirs):
        order = np.lexsort(codes.arrays[::-1])
        assert codes.counts is not None
        ordered.append([array[order] for array in (*codes.arrays, codes.counts)])
    return all(np.array_equal(a, b) for a, b in zip(*ordered, strict=True))


@dataclass(frozen=True)
class WithoutColumns:
    """Columns that were to be left out are not in the table."""

    columns: tuple[str, ...]
    """Columns that the release must not have."""
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
