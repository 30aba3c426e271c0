"""Several releases of one table, joined by people who collude.

Two releases may each hide everybody and together hide nobody: one shows the age in full and the
other the place. Whoever has both and a key that links their rows sees the combination of the cells,
so that is what a promise about all of them must hold for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sfumato.errors import ColumnError, InputError, did_you_mean
from sfumato.release.anonymity import Anonymity
from sfumato.tables import Table, table

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["combined"]


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
    import pyarrow as pa

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
    import pyarrow as pa

    wanted = mine.schema.set(mine.schema.get_field_index("key"), theirs.schema.field("key"))
    try:
        return mine.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ColumnError(
            f"`{row_key}` is of another type in each release",
            remedy="Name a column that links their rows.",
        ) from None


def _with_sensitive(joined: pa.Table, sensitive: Sequence[str], releases: int) -> pa.Table:
    import pyarrow as pa
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
