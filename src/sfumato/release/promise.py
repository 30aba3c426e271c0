"""What a release promises, in a form that can be checked on any table and replayed from JSON.

A promise knows nothing of how a release was made. It is checked on the table as read back from
where it was written, before the release gets its name, and again whenever somebody verifies it.
`Anonymity` is the promise of anonymizers: privacy models that hold for each of the quasi-identifier
sets. `other_promises` holds those of masks and of linked histories.
"""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import pyarrow as pa

from sfumato.budget import Budget
from sfumato.engines.encoding import codes_among, codes_from_arrow
from sfumato.engines.protocol import ENOUGH_BYTES, CodeArray, Codes, asks_sql
from sfumato.errors import EngineError, EngineMemoryError, InputError
from sfumato.hierarchy.labels import set_members
from sfumato.privacy import Check, Model, check, merged_checks, model_from_dict
from sfumato.privacy.classes import star_codes
from sfumato.privacy.models import Missing
from sfumato.results import Result, plain
from sfumato.tables import Table
from sfumato.wording import counted


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


@runtime_checkable
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
    "anonymity": "sfumato.release.promise:Anonymity",
    "linked-histories": "sfumato.release.other_promises:LinkedHistories",
    "k-map": "sfumato.populations.promises:MatchesPopulation",
    "few-values": "sfumato.populations.promises:FewValues",
    "matches-people": "sfumato.populations.promises:MatchesPeople",
    "ratio-at-most": "sfumato.release.other_promises:RatioAtMost",
    "safe-harbor-forms": "sfumato.populations.safe_harbor:SafeHarborForms",
    "without-columns": "sfumato.release.other_promises:WithoutColumns",
}
"""Where each kind of promise lives."""
MEASURED_ELSEWHERE = frozenset({"k-map"})
"""Kinds that are measured on another table, too: what was measured there is not passed on."""


def promise_class(kind: str) -> Any:
    if kind not in _HOMES:
        raise InputError(
            f"the certificate names a promise `{kind}` that this version does not know",
            remedy="Verify it with the version of Sfumato that made it.",
        )
    module, name = _HOMES[kind].split(":")
    return getattr(importlib.import_module(module), name)


def promise_from_dict(kind: str, parameters: Mapping[str, Any]) -> Promise:
    """Rebuild a promise that a certificate names."""
    found: Promise = as_written(promise_class(kind).from_dict(parameters), parameters)
    return found


def as_written(promise: Any, parameters: Mapping[str, Any]) -> Any:
    """The promise, if it means by each parameter exactly what the certificate says."""
    told = plain(promise.to_dict())
    odd = [n for n, said in parameters.items() if n in told and not _same(told[n], said)]
    if odd:
        raise InputError(
            f"the certificate's promise `{promise.kind}` has an impossible `{odd[0]}`",
            remedy="Get the certificate again from whoever made the release.",
        )
    return promise


def _same(meant: Any, said: Any) -> bool:
    """Whether two JSON values are the same; 1 is not true, but is 1.0."""
    if isinstance(meant, dict) and isinstance(said, dict):
        return meant.keys() == said.keys() and all(_same(meant[n], said[n]) for n in meant)
    if isinstance(meant, list) and isinstance(said, list):
        return len(meant) == len(said) and all(map(_same, meant, said))
    return meant == said and isinstance(meant, bool) == isinstance(said, bool)


class CountsPersons:
    """What promises have in common that may count persons, whom a release does not name.

    While it is made a *witness* shows them: the same rows with the person beside them.
    """

    person: str | None
    witness: Table | None

    def counts_again(self, table: Table) -> bool:
        """Whether everything that was measured can be measured on a table."""
        return self.person is None or self.person in table.columns


def measured_on(promise: Promise, table: Table) -> bool:
    """Whether figures are of a table alone; those of others stay at home.

    People of a population, and persons whom the release does not name, are counted elsewhere.
    """
    if isinstance(promise, CountsPersons):
        return promise.counts_again(table)
    return promise.kind not in MEASURED_ELSEWHERE


def class_figures(
    qi: Sequence[Sequence[str]], findings: Sequence[Finding], table: Table
) -> tuple[int | None, int | None]:
    """The smallest class of any set and the classes of the first, as a finding counted them."""
    for finding in findings:
        if finding.class_sizes is not None:
            return finding.class_sizes
    sizes = [table.class_sizes(columns) for columns in qi]
    smallest = min((s.k for s in sizes if s.k is not None), default=None)
    return smallest, sizes[0].classes if sizes else None


def require_same_classes(
    table: Table, witness: Table, columns: Sequence[str], budget: Budget | None
) -> None:
    """Refuse a witness that is not about the rows of a table: the same classes, as often.

    Where both are tables of one kind of database, it sums up hashes of their rows.
    """
    both = (table, witness)
    alike = table.engine.kind == witness.engine.kind and all(
        table.column(name).type == witness.column(name).type for name in columns
    )
    sums = [_hash_sums(one, columns, budget) for one in both] if alike else [None]
    if None in sums:
        same = _equal(*(one.classes(columns, budget=budget) for one in both))
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
    engine = table.engine
    return engine.hash_sums(columns, budget) if asks_sql(engine) else None


def _same_values(mine: pa.Array, theirs: pa.Array) -> bool:
    """Whether values are the same; times, in whichever unit a file counts them."""
    try:
        return bool(mine.equals(theirs if theirs.type == mine.type else theirs.cast(mine.type)))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False


def _equal(mine: Codes, theirs: Codes) -> bool:
    """Whether two tables have the same combinations, as often."""
    if mine.entries != theirs.entries or mine.rows != theirs.rows:
        return False
    if not all(map(_same_values, mine.values, theirs.values)):
        return False
    ordered = []
    for codes in (mine, theirs):
        order = np.lexsort(codes.arrays[::-1])
        ordered.append([array[order] for array in (*codes.arrays, codes.row_counts)])
    return all(np.array_equal(a, b) for a, b in zip(*ordered, strict=True))


CLASS_BYTES = 64
"""What a cell of a class takes while it is checked, at most."""


@dataclass(frozen=True, eq=False)
class Anonymity(CountsPersons):
    """Every class of every quasi-identifier set satisfies all models.

    A `missing` or suppressed cell is a ``value`` of its own, which is what an adversary sees; or a
    ``wildcard`` that matches any value; or in an ``own-class``: then it is a value of its own, and
    no cell of a release may stand for missing and other values together.

    t-closeness compares classes with the distribution of the released rows: that is what whoever
    has the release knows of the table.

    With a `person` the models count persons, which needs the column that names them. A release does
    not have it: while it is made, either the `owners` of its rows are known, in their order, or its
    classes are held against a *witness*, the same rows with the person beside the classes.
    Afterwards only its rows can be counted.
    """

    models: tuple[Model, ...]
    """What must hold: a model by its name, with its parameters."""
    qi: tuple[tuple[str, ...], ...]
    """The sets of quasi-identifiers, each by itself."""
    sensitive: tuple[str, ...] = ()
    """Columns worth hiding."""
    missing: Missing = "value"
    """How a missing or suppressed cell is read: `value`, `wildcard` or `own-class`."""
    person: str | None = None
    """The column that names persons, where they were counted; the release does not have it."""
    witness: Table | None = field(default=None, repr=False)
    owners: CodeArray | None = field(default=None, repr=False)
    kind: str = field(default="anonymity", init=False)

    def to_dict(self) -> dict[str, Any]:
        told = {
            "models": [model.to_dict() for model in self.models],
            "qi": [list(names) for names in self.qi],
            "sensitive": list(self.sensitive),
            "missing": self.missing,
        }
        return told if self.person is None else {**told, "person": self.person}

    @classmethod
    def from_dict(cls, parameters: Mapping[str, Any]) -> Self:
        if not all(isinstance(told.get("column", ""), str) for told in parameters["models"]):
            raise TypeError("a model is about something that is not a column")
        return cls(
            tuple(model_from_dict(model) for model in parameters["models"]),
            tuple(tuple(names) for names in parameters["qi"]),
            tuple(parameters["sensitive"]),
            _missing_of(parameters),
            parameters.get("person"),
        )

    @property
    def wildcards(self) -> bool:
        """Whether suppressed and missing cells match any value."""
        return self.missing == "wildcard"

    @property
    def about(self) -> tuple[str, ...]:
        """The columns that a witness needs."""
        names = dict.fromkeys(name for names in self.qi for name in names)
        return (*names, *self.sensitive, *(() if self.person is None else (self.person,)))

    def check(self, table: Table, budget: Budget | None = None) -> Finding:
        """Count the classes of the table as it is and test each of them."""
        if not self.counts_again(table) and self.owners is None:
            if self.witness is None:
                return self._rows_alone(table, budget)
            names = [name for name in self.about if name != self.person]
            require_same_classes(table, self.witness, names, budget)
            table = self.witness
        mixed = self._mixed(table)
        if mixed is not None:
            return mixed
        outcomes = [self._measure(table, names, budget) for names in self.qi]
        found = [finding for outcome in outcomes for finding in outcome.findings]
        broken = [finding for finding in found if not finding.holds]
        return Finding(
            check=self.kind,
            holds=not broken,
            say=_READING[self.missing]
            + ("" if self.person is None else "counting persons, ")
            + "; ".join(finding.say for finding in broken or found),
            measured={
                "checks": found,
                "wildcards": self.wildcards,
                **({} if self.person is None else {"counted": "persons"}),
                **self._reference(),
            },
            remedy="Ask for less, allow more blurring, or leave columns out.",
            class_sizes=None if self.wildcards else _smallest(outcomes),
        )

    def _mixed(self, table: Table) -> Finding | None:
        """That cells stand for missing and other values together, where none may."""
        if self.missing != "own-class":
            return None
        for name in dict.fromkeys(name for names in self.qi for name in names):
            labels = _labels_of_both(table.values(name).values[0])
            if labels:
                return Finding(
                    check=self.kind,
                    holds=False,
                    say=f"in `{name}` {counted(labels, 'different cell', does='stand')} for "
                    "missing and other values together",
                    measured={"mixed": labels},
                    remedy="Release the table again.",
                )
        return None

    def _rows_alone(self, table: Table, budget: Budget | None) -> Finding:
        """What can be said without the column that names persons: k persons have k rows."""
        least = max([1, *(model.least_rows for model in self.models)])
        sizes = [table.class_sizes(names, budget) for names in self.qi]
        smallest = min((one.k for one in sizes if one.k is not None), default=None)
        others = [f"{m.name} of `{m.about}`" for m in self.models if m.about is not None]
        if least == 1 and not others:
            return Finding(
                check=self.kind,
                holds=True,
                say="k = 1, in persons, asks for nothing: every class of any table has one",
                measured={"rows": smallest},
            )
        if least == 1:
            return Finding(
                check=self.kind,
                holds=False,
                say=f"not checked: persons were counted when this was released, by "
                f"`{self.person}`, which it does not show, and their rows tell nothing of it",
                measured={"not_checked": [model.name for model in self.models]},
                remedy="Ask its maker, who can count them.",
            )
        unchecked = f"; not checked: {', '.join(others)}" if others else ""
        holds = smallest is None or smallest >= least
        return Finding(
            check=self.kind,
            holds=holds,
            say=f"persons were counted when this was released, by `{self.person}`, which it does "
            f"not show; here rows can be counted: the smallest class has {smallest or 0:,}, and "
            f"{least:,} persons need at least as many{unchecked}",
            measured={"rows": smallest}
            | ({"not_checked": ["persons alike", *others]} if holds else {}),
            remedy="Release the table again.",
        )

    def _reference(self) -> dict[str, str]:
        """What classes were compared with, where a model does so."""
        asked = any(model.compares for model in self.models)
        return {"t_reference": "released rows"} if asked else {}

    def _measure(self, table: Table, names: tuple[str, ...], budget: Budget | None) -> Check:
        able = table.engine.capabilities
        if not able.coded and able.replayable and not self.wildcards and self.owners is None:
            each = CLASS_BYTES * (len(names) + len(self.sensitive) + 1)
            memory = (budget and budget.memory) or ENOUGH_BYTES
            # Here they are dealt to their parts on disk, and more parts cost nothing.
            copies = 8 if able.ordered else 4
            few = budget is not None and budget.memory is not None
            few &= table.rows * each * copies <= memory
            if asks_sql(table.engine) and (able.ordered or few):  # texts count by their length
                each = max(each, table.engine.combination_bytes((*names, *self.sensitive)))
            parts = -(-table.rows * each * copies // memory)
            if parts > 1:
                return self._measure_parts(table, names, parts, budget)
        who = () if self.person is None or self.owners is not None else (self.person,)
        read = table.classes if self.owners is None else table.codes
        entries = read((*names, *self.sensitive, *who), budget=budget)
        return check(
            self.models,
            {name: entries.column(name) for name in entries.columns if name not in who},
            names,
            counts=entries.counts,
            values={name: entries.values_of(name) for name in self.sensitive},
            wildcards={name: star_codes(entries.values_of(name)) for name in names}
            if self.wildcards
            else None,
            person=entries.column(who[0]) if who else self.owners,
        )

    def _measure_parts(
        self, table: Table, names: tuple[str, ...], parts: int, budget: Budget | None
    ) -> Check:
        """The same from some classes at a time, counted where the rows are if that is possible."""
        assert asks_sql(table.engine)
        values, totals = {}, {}
        who = () if self.person is None else (self.person,)
        for name in self.sensitive:
            column = table.engine.holders(name, *who) if who else table.values(name)
            values[name] = column.values[0]
            totals[name] = column.row_counts[np.argsort(column.arrays[0])]
        counting = _ClassesCheck(self.models, names, values, totals, self.person)
        columns = (*names, *self.sensitive, *who)
        schema = pa.schema([("check", pa.binary())])
        asked = (columns, names, parts, counting, schema, budget)
        try:
            found = table.engine.over_classes(*asked, grouped=self.person is None)
        except EngineMemoryError:  # classes too wide and too many to be counted there, row by row
            found = table.engine.over_classes(*asked, grouped=False)
        checks = [pickle.loads(cell) for cell in found.column("check").to_pylist()]
        return merged_checks(checks)


@dataclass(frozen=True, eq=False)
class _ClassesCheck:
    """Checks some of the classes of a table, wherever it is called."""

    models: tuple[Model, ...]
    qi: tuple[str, ...]
    values: Mapping[str, pa.Array]
    totals: Mapping[str, Any]
    person: str | None = None

    def __call__(self, classes: pa.Table) -> pa.Table:
        return pa.table({"check": pa.array([pickle.dumps(self.of(classes))], pa.binary())})

    def of(self, classes: pa.Table) -> Check:
        """The outcome for classes whose counts are in the last column."""
        entries = codes_from_arrow(classes, classes.column_names[-1])
        codes = {name: entries.column(name) for name in entries.columns}
        who = None if self.person is None else codes.pop(self.person)
        for name, values in self.values.items():
            codes[name] = codes_among(entries.values_of(name), values)[codes[name]]
        return check(
            self.models,
            codes,
            self.qi,
            counts=entries.counts,
            values=self.values,
            totals=self.totals,
            person=who,
        )


def _smallest(outcomes: Sequence[Check]) -> tuple[int | None, int]:
    """The smallest class of any set, and the classes of the first."""
    least = min((one.k for one in outcomes if one.k is not None), default=None)
    return least, outcomes[0].classes


_READING = {
    "value": "",
    "wildcard": "with stars that match anything, ",
    "own-class": "with missing values in classes of their own, ",
}


def _missing_of(parameters: Mapping[str, Any]) -> Missing:
    """How missing cells are read; certificates once said only whether they are wildcards."""
    told = parameters.get("missing", "wildcard" if parameters.get("wildcards") else "value")
    if told not in _READING:
        raise InputError(
            f"the certificate reads missing values in a way (`{told}`) that is not known here",
            remedy="Verify it with the version of Sfumato that made it.",
        )
    return told  # type: ignore[no-any-return]


def _labels_of_both(values: pa.Array) -> int:
    """Labels that stand for missing and other values together."""
    if not pa.types.is_string(values.type) and not pa.types.is_large_string(values.type):
        return 0
    sets = [text[1:-1] for text in values.to_pylist() if text and text[0] + text[-1] == "{}"]
    return sum(None in (set_members(inside) or ()) for inside in sets)
