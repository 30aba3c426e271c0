"""The promise of anonymizers: privacy models that hold for each of the quasi-identifier sets.

Two releases of one table may each hide everybody and together hide nobody: one shows the age in
full and the other the place. Whoever has both and a key that links their rows sees the combination
of the cells (`combined`), so that is what a promise about all of them must hold for. Releases of
different rows that show the same labels are put one under the other (`stacked`).
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.budget import Budget
from sfumato.engines.encoding import codes_among, codes_from_arrow
from sfumato.engines.protocol import CodeArray, Codes, asks_sql
from sfumato.errors import ColumnError, InputError, did_you_mean, spell
from sfumato.hierarchy.labels import as_text, set_members
from sfumato.privacy import Check, DistinctDiversity, Model, check, merged_checks, model_from_dict
from sfumato.privacy.classes import star_codes
from sfumato.privacy.models import Missing
from sfumato.release.promise import CountsPersons, Finding, require_same_classes
from sfumato.tables import Table, table
from sfumato.wording import counted

__all__ = [
    "Anonymity",
    "combined",
    "stacked",
]


CLASS_BYTES = 64
"""What a cell of a class takes while it is checked, at most."""
ENOUGH_BYTES = 1 << 30
"""Memory for classes where nobody named a limit; they are checked in parts of a quarter of it."""


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
        present = [_present(at) for at in range(1, len(releases) + 1)]
        sets.append(tuple(c for c in [*cells, *present] if c in joined.column_names))
    return table(joined), replace(promise, qi=tuple(sets))


def _name(column: str, release: int) -> str:
    return f"{column} in {release}"


def _present(release: int) -> str:
    """Whether a release holds a row; `_name` calls no column so."""
    return f"presence in release {release}"


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
    return rows.append_column(_present(at), pa.array([True] * rows.num_rows))


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


_ROWS, _RELEASE = "\0rows", "\0release"
"""Names that no column of a file can have."""


def stacked(
    releases: Sequence[Table],
    promise: Anonymity,
    budget: Budget | None = None,
    *,
    newest: bool = False,
) -> tuple[Finding, tuple[str, ...]]:
    """What is promised, checked on the rows of several releases one under the other.

    Rows that show the same labels are one class, whichever release they are in: that is what
    somebody sees who has all of them and knows that a person is in one. Releases do not name
    persons, so rows are counted. The sentences are about somebody who knows more: that a person is
    in all of them, with the same sensitive value.

    With `newest` only classes that the last release shows are looked at, with the rows of all: the
    others were published before, and what is added changes nothing but the distribution of all
    rows, from which they may now differ more.

    Examples
    --------
    >>> from sfumato.privacy import KAnonymity
    >>> from sfumato.tables import table
    >>> january = table(pa.table({"age": ["[20, 30)"] * 3}))
    >>> february = table(pa.table({"age": ["[20, 30)", "31"]}))
    >>> promise = Anonymity((KAnonymity(3),), (("age",),))
    >>> stacked([january, february], promise)[0].say
    '2 releases, one under the other: k-anonymity on age: k = 1 measured, k = 3 asked (1 row fails)'
    """
    if promise.missing != "value":
        raise InputError(
            "several releases are put one under the other where a missing value is a value",
            remedy=f"Verify each by itself, or leave out {spell('missing', promise.missing)}.",
        )
    entries = _entries(releases, promise, budget)
    last = len(releases) - 1 if newest else None
    outcomes = [_outcome(entries, promise, names, last) for names in promise.qi]
    found = [finding for outcome in outcomes for finding in outcome.findings]
    broken = [finding for finding in found if not finding.holds]
    finding = Finding(
        check="together",
        holds=not broken,
        say=f"{len(releases)} releases, one under the other: "
        + "; ".join(finding.say for finding in broken or found),
        measured={"checks": found, "rows": entries.rows},
        remedy="Ask for more in the new release, or make it without the groups of the earlier one.",
    )
    return finding, _narrowed(entries, promise, len(releases))


def _outcome(entries: Codes, promise: Anonymity, names: tuple[str, ...], last: int | None) -> Check:
    """The classes of one set, measured against the distribution of all rows."""
    totals = {
        name: np.bincount(
            entries.column(name), entries.counts, len(entries.values_of(name))
        ).astype(np.int64)
        for name in promise.sensitive
    }
    shown = entries
    if last is not None:
        classes, count = _classes(entries, names)
        new = np.zeros(count, dtype=bool)
        new[classes[entries.column(_RELEASE) == last]] = True
        shown = entries.take(new[classes])
    return check(
        promise.models,
        {name: shown.column(name) for name in (*names, *promise.sensitive)},
        names,
        counts=shown.counts,
        values={name: entries.values_of(name) for name in promise.sensitive},
        totals=totals,
    )


def _classes(entries: Codes, names: Sequence[str]) -> tuple[npt.NDArray[np.int64], int]:
    classes, count = entries.numbered(names)
    return classes.astype(np.int64), count


def _entries(releases: Sequence[Table], promise: Anonymity, budget: Budget | None) -> Codes:
    """The combinations that each release shows, with their rows and its number."""
    names = tuple(dict.fromkeys(name for names in promise.qi for name in names))
    parts = []
    for at, release in enumerate(releases):
        release.require((*names, *promise.sensitive))
        found = release.classes((*names, *promise.sensitive), budget=budget)
        cells = {}
        for name in found.columns:
            values = found.values_of(name)
            values = as_text(values) if name in names else values
            cells[name] = values.take(pa.array(found.column(name)))
        cells[_RELEASE] = pa.array(np.full(found.entries, at))
        parts.append(pa.table({**cells, _ROWS: pa.array(found.counts)}))
    for name in promise.sensitive:
        kinds = {part.schema.field(name).type for part in parts}
        if len(kinds) > 1:
            parts = [_as_common(part, name, kinds) for part in parts]
    return codes_from_arrow(pa.concat_tables(parts), _ROWS)


def _as_common(part: pa.Table, name: str, kinds: set[pa.DataType]) -> pa.Table:
    """A sensitive column in a type that all releases can show it in."""
    number = all(pa.types.is_integer(k) or pa.types.is_floating(k) for k in kinds)
    at = part.schema.get_field_index(name)
    try:
        column = part.column(name).combine_chunks()
        column = column.cast(pa.float64()) if number else as_text(column)
    except pa.ArrowInvalid:
        raise ColumnError(
            f"`{name}` is of another type in each release",
            remedy="Write it alike in both, or verify each by itself.",
        ) from None
    return part.set_column(at, name, column)


def _narrowed(entries: Codes, promise: Anonymity, releases: int) -> tuple[str, ...]:
    """Classes of all releases that share fewer sensitive values than every class must have."""
    told = []
    least: dict[str, int] = {}
    for model in promise.models:
        if model.about is not None:
            asked = model.l if isinstance(model, DistinctDiversity) else 2
            least[model.about] = max(least.get(model.about, 2), asked)
    for name, asked in least.items():
        narrow, common = 0, 0
        for names in promise.qi:
            shared = _shared_values(entries, names, name, releases)
            common += len(shared)
            narrow += int((shared < asked).sum())
        if narrow:
            told.append(
                f"{narrow:,} of {common:,} groups that both releases show have fewer than {asked} "
                f"values of `{name}` in common: whoever knows that somebody is in both, with the "
                "same value, can narrow it down further than the promise says"
            )
    return tuple(told)


def _shared_values(
    entries: Codes, names: Sequence[str], about: str, releases: int
) -> npt.NDArray[np.int64]:
    """For each class that all releases show, how many values all of them show in it."""
    classes, count = _classes(entries, names)
    which = entries.column(_RELEASE).astype(np.int64)
    seen = np.unique(classes * releases + which)
    everywhere = np.bincount(seen // releases, minlength=count) == releases
    values = len(entries.values_of(about))
    pairs = classes * values + entries.column(about)
    each = np.unique(pairs * releases + which)
    pair, times = np.unique(each // releases, return_counts=True)
    shared = np.bincount(pair[times == releases] // values, minlength=count)
    return np.asarray(shared[everywhere], np.int64)
