"""What a release changes, in a form every engine can apply where the rows are.

A `Recoding` is a list of steps. A step looks at some columns of a row (its *match*), finds the
entry with the same values, and says what the row's new cells are or that the row is left out.
Methods that treat equal rows differently (relaxed Mondrian, clustering, stars) give an entry an
ordinal range: it then speaks only of the first … last of the rows with these values, in the
engine's stable order, so that SQL engines need one window function and one join.

SQL engines find the combination of values a row has (`Lookup.tuples` is what they look it up in);
where rows come out in order, the ordinal range and the new cells are found here, batch by batch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.budget import each
from sfumato.engines.encoding import as_arrow
from sfumato.engines.protocol import Column, TextForm
from sfumato.engines.results import CodeArray, Codes
from sfumato.errors import EngineError

if TYPE_CHECKING:
    from sfumato.engines.parts import Parted

__all__ = [
    "Cells",
    "Combinations",
    "Lookup",
    "Recoding",
    "Step",
    "copied",
    "mapping_table",
    "output_schema",
    "recoded_batch",
    "unmatched",
]


@dataclass(frozen=True, eq=False)
class Cells:
    """New cells of one column: a code for every entry of the step, and what the codes mean.

    Where entries have a number in `groups`, there is a code for each number instead; the last one
    is that of entries with the number -1, which are left out.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> labels = Cells(np.array([1, 0]), pa.array(["[20, 30)", "[30, 40)"]), np.array([0, 1, 1, 0]))
    >>> labels.codes.tolist(), labels.of(np.array([2, 3])).tolist()
    ([1, 0, 0, 1], [0, 1])
    """

    shown: CodeArray
    values: pa.Array
    groups: npt.NDArray[np.integer[Any]] | None = None

    @property
    def codes(self) -> CodeArray:
        """The code of each entry."""
        codes: CodeArray = self.shown if self.groups is None else self.shown[self.groups]
        return codes

    def of(self, entries: npt.NDArray[np.integer[Any]]) -> CodeArray:
        """The code of each of some entries."""
        codes: CodeArray = self.shown[entries if self.groups is None else self.groups[entries]]
        return codes


@dataclass(frozen=True, eq=False)
class Step:
    """One look-up: rows that match an entry get its cells, or are left out.

    Parameters
    ----------
    match
        The combinations looked for; every row of the table must match exactly one entry. Counts
        are ignored.
    cells
        New cells by column name. A name the table does not have becomes a new column, appended in
        the order of this mapping.
    keep
        False where matching rows are suppressed (left out); None keeps all.
    first, last
        Half-open ordinal range ``first <= ordinal < last`` among rows with equal values, numbered
        from 0; both None when each combination occurs in `match` once and speaks of all its rows.
    groups
        A number for each entry, such that entries of one number have the same new cells; -1 where
        they are left out. None where no such numbers are known.
    """

    match: Codes
    cells: Mapping[str, Cells] = field(default_factory=dict)
    keep: npt.NDArray[np.bool_] | None = None
    first: npt.NDArray[np.int64] | None = None
    last: npt.NDArray[np.int64] | None = None
    groups: npt.NDArray[np.integer[Any]] | None = None


@dataclass(frozen=True, eq=False)
class Recoding:
    """All changes of a release.

    Steps look at the original values, never at each other's results; a column is written by at most
    one step; a row is kept if every step keeps it. Columns in `drop` do not appear in the output,
    and all others appear in their original order. So do rows, unless they are `sorted` by what they
    show, written columns first: then their order tells nothing that their cells do not.
    """

    steps: tuple[Step, ...] = ()
    drop: tuple[str, ...] = ()
    sorted: bool = False

    @property
    def written(self) -> dict[str, pa.DataType]:
        """The columns that steps write, and their types."""
        return {n: cells.values.type for step in self.steps for n, cells in step.cells.items()}

    def sorting(self, names: Sequence[str]) -> list[str]:
        """Columns of the output in the order in which its rows are compared."""
        written = [name for name in self.written if name in names]
        return [*written, *(name for name in names if name not in written)]


Entries = npt.NDArray[np.int64]


class Lookup:
    """One step of a recoding: its distinct combinations, and the entry of each row.

    Rows must be asked for in their stable order, each once: the ordinal among equal rows is counted
    here, unless it is given.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> from sfumato.engines.results import Codes
    >>> match = Codes(("sex",), (np.array([0, 0, 1]),), (pa.array(["F", "M"]),))
    >>> step = Step(match, first=np.array([0, 1, 0]), last=np.array([1, 9, 9]))
    >>> lookup = Lookup(step, "people")
    >>> lookup.tuples.column("sex").to_pylist()
    ['F', 'M']
    >>> lookup.entries(np.array([0, 1, 0, 0])).tolist()
    [0, 2, 1, 1]
    """

    def __init__(self, step: Step, where: str) -> None:
        self.step = step
        self.where = where
        match = step.match
        tuple_of, chosen = _distinct(match.arrays, match.entries)
        self.ranged = step.first is not None
        if not self.ranged and len(chosen) != match.entries:
            raise EngineError(
                "the recoding names the same combination of values twice",
                where=where,
                remedy="Name every combination once, or give it ranges of rows.",
            )
        arrays = [
            values.take(pa.array(codes[chosen].astype(np.int64)))
            for codes, values in zip(match.arrays, match.values, strict=True)
        ]
        self.tuples = pa.table(arrays, names=list(match.columns))
        self.combinations = len(chosen)
        self._entry_of = chosen
        if self.ranged:
            assert step.first is not None
            assert step.last is not None
            self._order = np.lexsort((step.first, tuple_of))
            self._tuple, self._first = tuple_of[self._order], step.first[self._order]
            self._start = np.searchsorted(self._tuple, np.arange(len(chosen)))
            self._seen = np.zeros(len(chosen), dtype=np.int64)

    def entries(self, tuples: Entries, ordinals: Entries | None = None) -> Entries:
        """The entry each of the next rows meets, given the number of its combination."""
        if not self.ranged:
            return self._entry_of[tuples]
        assert self.step.last is not None
        ordinals = self._ordinals(tuples) if ordinals is None else ordinals
        # Ranges of one combination do not overlap, so the last one that starts early enough is the
        # only candidate: search for (tuple, ordinal) among the pairs (tuple, first).
        width = int(max(self._first.max(initial=0), ordinals.max(initial=0))) + 1
        at = np.searchsorted(self._tuple * width + self._first, tuples * width + ordinals, "right")
        at -= 1
        if (at < self._start[tuples]).any():
            raise unmatched(self.where)
        found: Entries = self._order[at]
        if (ordinals >= self.step.last[found]).any():
            raise unmatched(self.where)
        return found

    def _ordinals(self, tuples: Entries) -> Entries:
        """Numbers of these rows among all rows of their combination so far, from 0."""
        order = np.argsort(tuples, kind="stable")
        ordered = tuples[order]
        present, starts, counts = np.unique(ordered, return_index=True, return_counts=True)
        within = np.arange(len(tuples)) - np.repeat(starts, counts)
        ordinals = np.empty(len(tuples), dtype=np.int64)
        ordinals[order] = within + self._seen[ordered]
        self._seen[present] += counts
        return ordinals


class Combinations:
    """A stream of numbers of combinations, handed out in pieces of any length."""

    def __init__(self, batches: Iterator[pa.RecordBatch], steps: int, where: str) -> None:
        self.batches = batches
        self.where = where
        self.held: list[list[Entries]] = [[] for _ in range(steps)]
        self.available = 0

    def take(self, rows: int) -> list[Entries]:
        """The next rows of every step."""
        if not self.held:
            return []
        while self.available < rows:
            batch = next(self.batches, None)
            if batch is None:
                raise unmatched(self.where)
            for held, array in zip(self.held, batch.columns, strict=True):
                if array.null_count:
                    raise unmatched(self.where)
                held.append(array.to_numpy())
            self.available += batch.num_rows
        taken = []
        for at, held in enumerate(self.held):
            whole = np.concatenate(held) if held else np.empty(0, np.int64)
            taken.append(whole[:rows])
            self.held[at] = [whole[rows:]]
        self.available -= rows
        return taken

    def finish(self) -> None:
        """Every row must have been asked for."""
        if self.available or any(batch.num_rows for batch in self.batches):
            raise unmatched(self.where)


def mapping_table(step: Step) -> pa.Table:
    """A step as a table to join with: keys, ordinal ranges, whether to keep, and new cells.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> from sfumato.engines.results import Codes
    >>> from sfumato.engines.recoding import Cells
    >>> match = Codes(("age",), (np.array([0, 1]),), (pa.array([20, 30]),))
    >>> step = Step(match, {"age": Cells(np.array([0, 0]), pa.array(["*"]))})
    >>> mapping_table(step).to_pydict()
    {'k0': [20, 30], 'keep': [True, True], 'v0': ['*', '*']}
    """

    def taken(codes: npt.NDArray[Any], values: pa.Array) -> pa.Array:
        return values.take(pa.array(codes.astype(np.int64)))

    match = step.match
    keys = zip(match.arrays, match.values, strict=True)
    keep = np.ones(match.entries, np.bool_) if step.keep is None else step.keep
    ranges = {} if step.first is None else {"first": step.first, "last": step.last}
    return pa.table(
        {
            **{f"k{at}": taken(*pair) for at, pair in enumerate(keys)},
            **{name: pa.array(bound, pa.int64()) for name, bound in ranges.items()},
            "keep": pa.array(keep),
            **{
                f"v{at}": taken(cells.codes, cells.values)
                for at, cells in enumerate(step.cells.values())
            },
        }
    )


def output_schema(columns: Sequence[Column], recoding: Recoding | Parted) -> pa.Schema:
    """Columns and types of what a recoding writes."""
    types = {column.name: column.type for column in columns} | dict(recoding.written)
    return pa.schema([pa.field(n, type_) for n, type_ in types.items() if n not in recoding.drop])


def copied(form: TextForm | None, schema: pa.Schema, written: Collection[str]) -> TextForm | None:
    """How text is written where only columns that are not written anew keep their cells."""
    if form is None:
        return None
    kept = {n: read for n, read in form.readers.items() if n in schema.names and n not in written}
    return replace(form, readers=kept)


def recoded_batch(
    batch: pa.RecordBatch,
    recoding: Recoding,
    entries: Sequence[npt.NDArray[np.integer[Any]]],
    schema: pa.Schema,
    threads: int | None = 1,
) -> pa.RecordBatch:
    """Some rows after a recoding, given the entry each of them meets in every step."""
    keep = np.ones(batch.num_rows, dtype=np.bool_)
    written: dict[str, tuple[Cells, npt.NDArray[np.integer[Any]]]] = {}
    for step, found in zip(recoding.steps, entries, strict=True):
        if step.keep is not None:
            keep &= step.keep[found]
        # Entries are far apart in memory: their groups are fetched once for all columns.
        groups = None if step.groups is None else step.groups[found]
        for name, cells in step.cells.items():
            written[name] = cells, found
            if groups is not None and cells.groups is step.groups:
                written[name] = replace(cells, groups=None), groups

    def new(name: str) -> pa.Array:
        if name not in written:
            return batch.column(name)
        cells, found = written[name]
        return cells.values.take(as_arrow(cells.of(found)))

    arrays = each(new, schema.names, batch.num_rows * len(schema.names), threads)
    whole = pa.RecordBatch.from_arrays(arrays, names=schema.names)
    return whole if keep.all() else whole.filter(pa.array(keep))


def unmatched(where: str) -> EngineError:
    """What to say when a row is not spoken of by a recoding."""
    return EngineError(
        "rows changed while the release was being made: some match no entry of its recoding",
        where=where,
        remedy="Run it again on a table that does not change.",
    )


def _distinct(arrays: Sequence[npt.NDArray[Any]], entries: int) -> tuple[Entries, Entries]:
    """For each entry the number of its combination, and for each combination one entry."""
    if not arrays:
        return np.zeros(entries, np.int64), np.arange(min(entries, 1), dtype=np.int64)
    order = np.lexsort(arrays[::-1])
    changed = np.zeros(entries, dtype=np.bool_)
    for codes in arrays:
        ordered = codes[order]
        changed[1:] |= ordered[1:] != ordered[:-1]
    numbers = np.cumsum(changed)
    tuple_of = np.empty(entries, dtype=np.int64)
    tuple_of[order] = numbers
    first = np.concatenate([[True], changed[1:]]) if entries else changed
    return tuple_of, order[first].astype(np.int64)
