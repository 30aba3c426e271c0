"""The promise of anonymizers: privacy models that hold for each of the quasi-identifier sets.

Two releases of one table may each hide everybody and together hide nobody: one shows the age in
full and the other the place. Whoever has both and a key that links their rows sees the combination
of the cells (`combined`), so that is what a promise about all of them must hold for.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa

from sfumato.budget import Budget
from sfumato.engines.results import CodeArray
from sfumato.errors import ColumnError, InputError, did_you_mean
from sfumato.hierarchy.labels import set_members
from sfumato.privacy import Check, Model, ModelFinding, check, merged_checks, model_from_dict
from sfumato.privacy.models import Missing
from sfumato.privacy.wildcards import star_codes
from sfumato.release.promise import Finding, require_same_classes
from sfumato.tables import Table, table
from sfumato.wording import counted

__all__ = ["Anonymity", "combined"]

CLASS_BYTES = 64
"""What a cell of a class takes while it is checked, at most."""
ENOUGH_BYTES = 1 << 30
"""Memory for classes where nobody named a limit; they are checked in parts of a quarter of it."""


@dataclass(frozen=True, eq=False)
class Anonymity:
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
            raise TypeError("a model is about something that is no column")
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

    def counts_again(self, table: Table) -> bool:
        """Whether everything that was measured can be measured on a table."""
        return self.person is None or self.person in table.columns

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
            + "; ".join(map(sentence, broken or found)),
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
                    say=f"{labels:,} different cells of `{name}` stand for missing and other "
                    "values together",
                    measured={"mixed": labels},
                    remedy="Release the table again.",
                )
        return None

    def _rows_alone(self, table: Table, budget: Budget | None) -> Finding:
        """What can be said without the column that names persons: k persons have k rows."""
        least = max([1, *(model.least_rows for model in self.models)])
        sizes = [table.class_sizes(names, budget) for names in self.qi]
        smallest = min((one.k for one in sizes if one.k is not None), default=None)
        if least == 1:
            return Finding(
                check=self.kind,
                holds=False,
                say=f"not checked: persons were counted when this was released, by "
                f"`{self.person}`, which it does not show, and their rows tell nothing of it",
                measured={"not_checked": [model.name for model in self.models]},
                remedy="Ask its maker, who can count them.",
            )
        others = [f"{m.name} of `{m.about}`" for m in self.models if m.about is not None]
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
            parts = -(-table.rows * each * (8 if able.ordered else 4) // memory)
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
        from sfumato.engines.sql_engine import SQLEngine

        assert isinstance(table.engine, SQLEngine)
        values, totals = {}, {}
        who = () if self.person is None else (self.person,)
        for name in self.sensitive:
            column = table.engine.holders(name, *who) if who else table.values(name)
            assert column.counts is not None
            values[name] = column.values[0]
            totals[name] = column.counts[np.argsort(column.arrays[0])]
        counting = _ClassesCheck(self.models, names, values, totals, self.person)
        columns = (*names, *self.sensitive, *who)
        schema = pa.schema([("check", pa.binary())])
        found = table.engine.over_classes(
            columns, names, parts, counting, schema, budget, grouped=self.person is None
        )
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
        from sfumato.engines.encoding import codes_among, codes_from_arrow

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


def sentence(finding: ModelFinding) -> str:
    """What was measured and asked, in a line."""
    asked = ", ".join(f"{name} = {value:g}" for name, value in finding.asked.items())
    measured = ", ".join(
        f"{name} = {'none' if value is None else format(value, '.6g')}"
        for name, value in finding.measured.items()
    )
    of = f" of {finding.column}" if finding.column else ""
    failing = (
        f" ({counted(finding.failing_rows, 'row', does='fail')})" if finding.failing_rows else ""
    )
    return (
        f"{finding.model}{of} on {', '.join(finding.qi)}: {measured} measured, "
        f"{asked} asked{failing}"
    )


def combined(
    releases: Sequence[Table], row_key: str, promise: Anonymity
) -> tuple[Table, Anonymity]:
    """All releases as one table, and the promise in terms of its columns.

    A quasi-identifier becomes one column for each release that shows it. A row that only some
    releases hold keeps what they show; that the others lack it is visible, too. A sensitive
    value is taken from the first release that shows it.

    Parameters
    ----------
    releases
        At least one; all have the column `row_key`, different in every row.
    promise
        What is promised about the columns of the original table.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from sfumato.privacy import KAnonymity
    >>> first = table(pa.table({"id": [1, 2, 3, 4], "age": ["2*", "2*", "3*", "3*"]}))
    >>> second = table(pa.table({"id": [4, 3, 2, 1], "age": ["*", "27 or 35", "27 or 35", "*"]}))
    >>> promise = Anonymity((KAnonymity(2),), (("age",),))
    >>> both, about = combined([first, second], "id", promise)
    >>> promise.check(first).holds, promise.check(second).holds, about.check(both).holds
    (True, True, False)
    """
    shown = [_columns(release, row_key, promise, at) for at, release in enumerate(releases, 1)]
    joined = shown[0]
    for other in shown[1:]:
        joined = joined.join(
            _keyed_like(other, joined, row_key), keys="key", join_type="full outer"
        )
    joined = _with_sensitive(joined, promise.sensitive, len(releases))
    sets = []
    for names in promise.qi:
        cells = [_name(n, at) for at in range(1, len(releases) + 1) for n in names]
        present = [f"in {at}" for at in range(1, len(releases) + 1)]
        sets.append(tuple(c for c in [*cells, *present] if c in joined.column_names))
    return table(joined), replace(promise, qi=tuple(sets))


def _name(column: str, release: int) -> str:
    return f"{column} in {release}"


def _columns(release: Table, row_key: str, promise: Anonymity, at: int) -> pa.Table:
    """The columns of one release that matter, under names of their own."""
    if release.engine.capabilities.remote:
        raise InputError(
            "releases are joined on this machine, and rows of this one are elsewhere",
            where=release.name,
            remedy="Join the releases where they are and verify the result.",
        )
    if row_key not in release.columns:
        raise ColumnError(
            f"there is no column `{row_key}` to join the releases by",
            where=release.name,
            remedy=did_you_mean(row_key, release.columns),
        )
    sizes = release.class_sizes([row_key])
    if sizes.classes != sizes.rows:
        raise ColumnError(
            f"`{row_key}` does not tell all rows apart",
            where=release.name,
            remedy="Name a column with a different value in every row.",
        )
    about = dict.fromkeys(n for names in promise.qi for n in names)
    names = [n for n in (*about, *promise.sensitive) if n in release.columns and n != row_key]
    fields = [(name, release.column(name).type) for name in (row_key, *names)]
    batches = [batch.cast(pa.schema(fields)) for batch in release.batches([row_key, *names])]
    rows = pa.Table.from_batches(batches, pa.schema(fields))
    rows = rows.rename_columns(["key", *(_name(name, at) for name in names)])
    return rows.append_column(f"in {at}", pa.array([True] * rows.num_rows))


def _keyed_like(mine: pa.Table, theirs: pa.Table, row_key: str) -> pa.Table:
    """The same table with its key in the other's type."""
    wanted = mine.schema.set(mine.schema.get_field_index("key"), theirs.schema.field("key"))
    try:
        return mine.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ColumnError(
            f"`{row_key}` is of another type in each release",
            remedy="Name a column that links their rows.",
        ) from None


def _with_sensitive(joined: pa.Table, sensitive: Sequence[str], releases: int) -> pa.Table:
    import pyarrow.compute as pc

    for name in sensitive:
        shown = [_name(name, at) for at in range(1, releases + 1)]
        shown = [column for column in shown if column in joined.column_names]
        if not shown:
            raise ColumnError(
                f"no release shows the sensitive column `{name}`",
                remedy="Leave it out of what is checked, or give a release that has it.",
            )
        columns = [joined.column(column) for column in shown]
        if len({column.type for column in columns}) > 1:
            columns = [column.cast(pa.string()) for column in columns]
        joined = joined.append_column(name, pc.coalesce(*columns))
    return joined
