"""What holds for several releases together.

Two releases of one table may each hide everybody and together hide nobody: one shows the age in
full and the other the place. Whoever has both and a key that links their rows sees the combination
of the cells (`combined`), so that is what a promise about all of them must hold for. Releases of
different rows that show the same labels are put one under the other (`stacked`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.budget import Budget
from sfumato.engines.encoding import codes_from_arrow
from sfumato.engines.protocol import Codes
from sfumato.errors import ColumnError, InputError, did_you_mean, spell
from sfumato.hierarchy.labels import as_text
from sfumato.privacy import Check, DistinctDiversity, check
from sfumato.release.promise import Anonymity, Finding
from sfumato.tables import Table, table


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
