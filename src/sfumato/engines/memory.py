"""The engine for tables that fit: every column as codes, every question a compiled loop."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato import kernels
from sfumato.budget import Budget, each, limited, usable_threads
from sfumato.engines.encoding import (
    as_arrow,
    codes_among,
    codes_of_table,
    encode_apart,
    encode_batches,
)
from sfumato.engines.protocol import (
    BATCH_ROWS,
    Capabilities,
    ClassSizes,
    CodeArray,
    Codes,
    Column,
    KeepsText,
    Pairing,
    PersonSizes,
    Source,
    Spelling,
    column_of,
    names_in,
    too_many_classes,
)
from sfumato.engines.recoding import (
    Parted,
    Recoding,
    Step,
    copied,
    output_schema,
    recoded_batch,
    unmatched,
)
from sfumato.engines.spool import give_back
from sfumato.engines.staging import Staged, kept_form, stage_batches
from sfumato.errors import BudgetError
from sfumato.kernels.ranking import translate
from sfumato.wording import counted

_REMEMBERED = 256
"""Histograms kept for column sets asked again."""
_AT_ONCE = 4 * BATCH_ROWS
"""Rows that are read at a time without a limit: between them threads wait for the interpreter."""


class MemoryEngine:
    """A source whose columns are held as codes, each read when it is first asked for.

    Parameters
    ----------
    source
        Where the rows come from.
    threads
        Upper limit for compiled loops; None means all cores.
    memory
        Bytes that the codes may take; None is no limit.

    Examples
    --------
    >>> import pyarrow as pa, sfumato as sf
    >>> engine = sf.table(pa.table({"age": [20, 30, 30]}), engine="memory").engine
    >>> engine.class_sizes(["age"]).to_dict()
    {1: 1, 2: 1}
    """

    kind = "memory"
    capabilities = Capabilities(coded=True)

    def __init__(
        self, source: Source, threads: int | None = None, memory: int | None = None
    ) -> None:
        self.source = source
        self.name = source.name
        self.threads = threads
        self.memory = memory
        self._rows: int | None = None
        self._fingerprint: str | None = None
        self._to_be_named = False
        self._encoded: dict[str, tuple[CodeArray, pa.Array]] = {}
        self._sizes: OrderedDict[frozenset[str], ClassSizes] = OrderedDict()
        self._class_of: WeakKeyDictionary[Codes, npt.NDArray[np.uint32]] = WeakKeyDictionary()

    @property
    def paths(self) -> Sequence[Path]:
        """Files being read, which a release must not replace."""
        return self.source.paths

    def schema(self) -> tuple[Column, ...]:
        """Columns and types."""
        return self.source.schema()

    def row_count(self) -> int:
        """Number of rows; counted by reading them where the source does not know it."""
        if self._rows is None:
            self._rows = self.source.row_count()
        if self._rows is None:
            columns = self.schema()
            if columns:
                self.codes([column.name for column in columns])
            else:
                self._rows = sum(batch.num_rows for batch in self.source.batches())
        assert self._rows is not None
        return self._rows

    def codes(self, columns: Sequence[str], budget: Budget | None = None) -> Codes:
        """The rows as codes, in the source's order; nothing is copied."""
        self._read(columns, budget)
        return Codes(
            tuple(columns),
            tuple(self._encoded[name][0] for name in columns),
            tuple(self._encoded[name][1] for name in columns),
            None,
            None if columns else self.row_count(),
        )

    @property
    def held(self) -> Collection[str]:
        """Columns that were read."""
        return self._encoded.keys()

    def null_counts(self, columns: Sequence[str]) -> dict[str, int]:
        """How many cells of each column are null."""
        codes = self.codes(columns)
        null = {name: len(values) - 1 for name, values in zip(columns, codes.values, strict=True)}
        return {
            name: int(np.count_nonzero(array == null[name])) if values.null_count else 0
            for name, array, values in zip(columns, codes.arrays, codes.values, strict=True)
        }

    def class_sizes(self, columns: Sequence[str], budget: Budget | None = None) -> ClassSizes:
        """Histogram of the sizes of the classes of a column set."""
        asked = frozenset(columns)
        if asked in self._sizes:
            self._sizes.move_to_end(asked)
            return self._sizes[asked]
        codes = self.codes(columns, budget)
        sizes = ClassSizes(
            *kernels.size_histogram(
                codes.arrays,
                codes.cardinalities,
                entries=codes.entries,
                threads=self._threads(budget),
            )
        )
        self._sizes[asked] = sizes
        if len(self._sizes) > _REMEMBERED:
            self._sizes.popitem(last=False)
        return sizes

    def person_sizes(
        self, columns: Sequence[str], person: str, budget: Budget | None = None
    ) -> PersonSizes:
        """Class sizes of a column set in different persons."""
        codes = self.codes((*columns, person), budget)
        number = len(codes.values_of(person))
        return PersonSizes.counted(codes.select(columns), codes.column(person), number)

    def classes(
        self, columns: Sequence[str], limit: int | None = None, budget: Budget | None = None
    ) -> Codes:
        """The classes with their counts, in ascending order of their codes."""
        codes = self.codes(columns, budget)
        ids, count = kernels.class_ids(
            codes.arrays,
            codes.cardinalities,
            entries=codes.entries,
            threads=self._threads(budget),
        )
        if limit is not None and count > limit:
            raise too_many_classes(columns, limit, self.name)
        reductions: tuple[Callable[..., Any], ...] = (kernels.representatives, kernels.group_sums)
        first, counts = each(lambda reduced: reduced(ids, count), reductions, len(ids))
        taken = each(partial(translate, first), codes.arrays, count * len(codes.arrays))
        found = Codes(codes.columns, tuple(taken), codes.values, counts, count)
        self._class_of[found] = ids  # as long as somebody holds the classes
        return found

    def note(self, classes: Codes, wide: Codes, of: npt.NDArray[np.uint32]) -> None:
        """Note which of some classes each of wider ones is part of; they need not be looked up."""
        ids = self._class_of.get(wide)
        if ids is not None:
            self._class_of[classes] = of[ids]

    def values(self, column: str, limit: int | None = None) -> Codes:
        """One column's values with their counts."""
        return self.classes([column], limit)

    def different(self, column: str) -> Iterator[pa.Array]:
        """One column's values but null, some at a time."""
        values = self.codes([column]).values[0]
        some = len(values) - values.null_count  # null is the last
        for start in range(0, some, BATCH_ROWS):
            yield values.slice(start, min(BATCH_ROWS, some - start))

    def rows_of_words(self, column: str, words: Collection[str]) -> dict[str, int]:
        """Rows of the cells that are one of some words but for case and blanks."""
        codes, values = self.codes([column]).arrays[0], self.codes([column]).values[0]
        known = pa.array(sorted(words))
        found: dict[str, int] = {}
        for at, some in enumerate(self.different(column)):
            close = pc.utf8_lower(pc.utf8_trim_whitespace(some.cast(pa.string())))
            for nth in np.flatnonzero(pc.is_in(close, value_set=known)):
                code = at * BATCH_ROWS + int(nth)
                found[values[code].as_py()] = int(np.count_nonzero(codes == code))
        return found

    def pairing(
        self, column: str, person: str, spelling: Spelling, budget: Budget | None = None
    ) -> Pairing:
        """How values of a column, in one spelling, and persons go together."""
        codes = self.codes([column, person], budget)
        numbers = spelling.numbers(codes.values[0])
        known = int(numbers.max(initial=-1)) + 1
        value = np.where(numbers < 0, known, numbers).astype(np.uint32)[codes.arrays[0]]
        who, nobody = codes.arrays[1], len(codes.values[1]) - codes.values[1].null_count
        sizes = (known + 1, len(codes.values[1]))
        threads = self._threads(budget)
        ids, count = kernels.class_ids((value, who), sizes, ordered=False, threads=threads)
        rows, first = kernels.group_sums(ids, count), kernels.representatives(ids, count)
        value, who = value[first], who[first]
        kept = (value < known) & (who < nobody)
        value, who, rows = value[kept], who[kept], rows[kept]
        tops = [np.zeros(size, dtype=np.int64) for size in sizes]
        for most, of in zip(tops, (value, who), strict=True):
            np.maximum.at(most, of, rows)
        figures = [(int(np.count_nonzero(most)), int(most.sum())) for most in tops]
        (values, of_values), (persons, of_persons) = figures
        return Pairing(values, persons, int(rows.sum()), of_values, of_persons)

    def sample(self, rows: int, columns: Sequence[str] | None = None, seed: int = 0) -> pa.Table:
        """Rows at seeded positions, in the order of the table."""
        return self.codes(names_in(self.schema(), columns)).drawn(rows, seed).table()

    def stage(
        self,
        recoding: Recoding | Parted,
        destination: str,
        *,
        format: str | None = None,
        budget: Budget | None = None,
    ) -> Staged:
        """Apply a recoding batch by batch and write the result beside its final place."""
        assert isinstance(recoding, Recoding), "rows in memory are not made part by part"
        schema = output_schema(self.schema(), recoding)
        form = copied(kept_form(self.source, destination, format), schema, recoding.written)
        text = () if form is None else tuple(form.readers)
        order = None
        if recoding.sorted:
            batches, order = self._sorted(recoding, schema, budget, text)
        else:
            batches = self._recoded(recoding, schema, budget, bool(text))
        return stage_batches(
            batches,
            schema,
            destination,
            format,
            reopen=self._reopened,
            inputs=self.paths,
            form=form,
            order=order,
            threads=self._threads(budget),
            memory=None if budget is None else budget.memory,
            meanwhile=None if budget is None else budget.meanwhile,
            spreadsheet_safe=recoding.spreadsheet_safe,
        )

    def recoded(self, recoding: Recoding) -> tuple[pa.Table, npt.NDArray[np.bool_] | None]:
        """New cells of all rows, in their order, and which rows stay; None if all do.

        Cells are numbers of what stands in dictionaries: a label may list thousands of texts.
        """
        cells: dict[str, pa.Array] = {}
        keep: npt.NDArray[np.bool_] | None = None
        for step in recoding.steps:
            found = self._finder(step, None, recoding.sorted)(slice(0, self.row_count()))
            if (found < 0).any():
                raise unmatched(self.name)
            if step.keep is not None:
                kept = step.keep[found]
                keep = kept if keep is None else keep & kept
            for name, made in step.cells.items():
                values = made.values if len(made.values) else pa.nulls(1, made.values.type)
                codes = as_arrow(made.of(found).astype(np.int32))  # all rows may be left out
                cells[name] = pa.DictionaryArray.from_arrays(codes, values)
        return pa.table(cells), keep

    def fingerprint(self) -> str:
        """Identity of the source's content."""
        return self._fingerprint or self.source.fingerprint()

    def expect_fingerprint(self) -> None:
        """Say that files will be asked for theirs: it is found while their columns are read."""
        self._to_be_named = bool(self.source.paths)

    def _name(self) -> None:
        self._fingerprint = self.source.fingerprint()

    def batches(
        self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The source's own rows."""
        return self.source.batches(columns, rows)

    def close(self) -> None:
        """Forget the codes and remove temporary files."""
        self._encoded.clear()
        self._sizes.clear()
        self._class_of.clear()
        self.source.close()

    def _reopened(self, source: Source) -> MemoryEngine:
        return MemoryEngine(source, self.threads, self.memory)

    def _recoded(
        self,
        recoding: Recoding,
        schema: pa.Schema,
        budget: Budget | None,
        as_text: bool,
    ) -> Iterator[pa.RecordBatch]:
        """The output of a recoding, batch by batch.

        Cells that stay are as they stand in the file, where they come `as_text`.
        """
        finders = [self._finder(step, budget) for step in recoding.steps]
        # A batch without columns would not know its rows, so one column is always read.
        read = [name for name in schema.names if name not in recoding.written]
        read = read or [column.name for column in self.schema()[:1]]
        done, workers = 0, max(1, usable_threads(self._threads(budget), self.row_count()) - 1)
        keeps = self.source if as_text and isinstance(self.source, KeepsText) else None
        for batch in self.source.batches(read) if keeps is None else keeps.texts(read):
            if budget is not None:
                if budget.spent():
                    raise BudgetError(
                        f"writing stopped after {counted(done, 'row')} ({budget.stopped_by})",
                        where=self.name,
                        remedy="Allow more time.",
                    )
                budget.progress("writing", done / max(1, self.row_count()))
            rows = slice(done, done + batch.num_rows)
            done += batch.num_rows
            entries = [finder(rows) for finder in finders]
            if any((found < 0).any() for found in entries):
                raise unmatched(self.name)
            yield recoded_batch(batch, recoding, entries, schema, workers)

    def _sorted(
        self, recoding: Recoding, schema: pa.Schema, budget: Budget | None, text: Container[str]
    ) -> tuple[Iterator[pa.RecordBatch], npt.NDArray[np.uint32]]:
        """The output of a recoding in the order of what it shows, and the row each row was.

        Cells of the columns in `text` stay as they stand in the file.
        """
        keys: dict[tuple[str, ...], _Key] = {}
        kept: npt.NDArray[np.bool_] | None = None
        for step in recoding.steps:
            found = self._finder(step, budget, recoding.sorted)(slice(0, self.row_count()))
            if (found < 0).any():
                raise unmatched(self.name)
            if step.keep is not None:
                kept = step.keep[found] if kept is None else kept & step.keep[found]
            made = {name: cells for name, cells in step.cells.items() if name in schema.names}
            compared = _keys(replace(step, cells=made))
            keys |= {names: key.of_rows(found) for names, key in compared.items()}
        read = [name for name in recoding.sorting(schema.names) if name not in recoding.written]
        codes = self.codes([name for name in read if name not in text], budget)
        plain = dict(zip(codes.columns, zip(codes.arrays, codes.values, strict=True), strict=True))
        plain |= self._texts([name for name in read if name in text])
        for name in read:
            array, values = plain[name]
            keys[name,] = _Key(array, len(values), {name: (None, values)})
        rows = np.arange(self.row_count(), dtype=np.uint32)
        if kept is not None:
            rows = rows[kept]
            keys = {names: key.of_rows(kept) for names, key in keys.items()}
        ids, count = kernels.class_ids(
            tuple(key.codes for key in keys.values()),
            tuple(max(key.size, 1) for key in keys.values()),
            entries=len(rows),
            threads=self._threads(budget),
        )
        order, _ = kernels.group_rows(ids, count)

        def batches() -> Iterator[pa.RecordBatch]:
            for start in range(0, len(order), BATCH_ROWS):
                if budget is not None:
                    budget.progress("writing", start / len(order))
                taken = order[start : start + BATCH_ROWS]
                cells = {n: c for key in keys.values() for n, c in key.cells(taken).items()}
                arrays = [cells[name] for name in schema.names]
                yield pa.RecordBatch.from_arrays(arrays, names=schema.names)

        return batches(), rows[order]

    def _texts(self, names: Sequence[str]) -> dict[str, tuple[CodeArray, pa.Array]]:
        """Cells as they stand in a text file, as codes."""
        if not names:
            return {}
        assert isinstance(self.source, KeepsText)
        columns = [column_of(name, pa.string()) for name in names]
        arrays, values, _ = encode_batches(self.source.texts(names), columns, where=self.name)
        return dict(zip(names, zip(arrays, values, strict=True), strict=True))

    def _finder(
        self, step: Step, budget: Budget | None, by_cells: bool = False
    ) -> Callable[[slice], npt.NDArray[np.integer[Any]]]:
        """The entry that each of some rows meets; rows are asked for in order, each once.

        Equal rows are numbered in that order, or else by the cells of all columns.
        """
        class_of = self._class_of.get(step.match)
        if class_of is not None and step.first is None:
            return class_of.__getitem__  # the step's combinations are classes counted here
        codes = self.codes(step.match.columns, budget)
        lookup = _lookup(step, codes)
        if by_cells and step.first is not None:
            every = self.codes([column.name for column in self.schema()], budget)
            ids, count = kernels.class_ids(
                every.arrays, every.cardinalities, threads=self._threads(budget)
            )
            order, _ = kernels.group_rows(ids, count)
            met = np.empty(len(order), dtype=np.int64)
            met[order] = lookup.find([array[order] for array in codes.arrays], entries=len(order))
            return met.__getitem__

        def find(rows: slice) -> npt.NDArray[np.int64]:
            entries = len(range(*rows.indices(self.row_count())))
            return lookup.find([array[rows] for array in codes.arrays], entries=entries)

        return find

    def _threads(self, budget: Budget | None) -> int | None:
        asked = [t for t in (self.threads, budget.threads if budget else None) if t is not None]
        return min(asked) if asked else None

    def _read(self, columns: Sequence[str], budget: Budget | None) -> None:
        """Encode the columns that have not been asked for before, in one pass."""
        missing = [name for name in dict.fromkeys(columns) if name not in self._encoded]
        if not missing:
            return
        known = {column.name: column for column in self.schema()}
        held = sum(array.nbytes for array, _ in self._encoded.values())
        rows = self.source.row_count() if self._rows is None else self._rows
        wanted = [known[name] for name in missing]
        limit = None if self.memory is None else self.memory - held
        limits: dict[str, Any] = {"limit": limit, "budget": budget, "where": self.name}
        with limited(self.threads):
            if rows is not None and getattr(self.source, "columns_apart", False):
                at_once = _AT_ONCE if self.memory is None else BATCH_ROWS
                read = partial(self.source.batches, rows=at_once)
                named, self._to_be_named = self._to_be_named, False
                limits["beside"] = [self._name] if named else []
                sizes = getattr(self.source, "column_sizes", dict[str, int])()
                found = encode_apart(read, wanted, rows=rows, sizes=sizes, **limits)
            else:
                found = encode_batches(self.source.batches(missing), wanted, rows=rows, **limits)
        arrays, values, length = found
        if self.memory is not None:
            give_back()
        self._rows = length
        self._encoded.update(zip(missing, zip(arrays, values, strict=True), strict=True))


@dataclass(frozen=True, eq=False)
class _Key:
    """What rows are compared by: one number for their cells of some columns.

    Attributes
    ----------
    codes, size
        The number of each row, in the order of the cells, and how many there are.
    shown
        By column the code of its cell for each number (None: the number), and what codes mean.
    """

    codes: CodeArray
    size: int
    shown: Mapping[str, tuple[CodeArray | None, pa.Array]]

    def of_rows(self, rows: npt.NDArray[Any]) -> _Key:
        """The same for some of the rows, or for rows that have these numbers."""
        return replace(self, codes=self.codes[rows])

    def cells(self, rows: npt.NDArray[np.uint32]) -> dict[str, pa.Array]:
        """The cells of some rows, as numbers of what stands in dictionaries."""
        at = self.codes[rows]
        return {
            name: pa.DictionaryArray.from_arrays(
                as_arrow(at if codes is None else codes[at]), values
            )
            for name, (codes, values) in self.shown.items()
        }


def _keys(step: Step) -> dict[tuple[str, ...], _Key]:
    """What rows are compared by, for each entry of a step: its columns together where they can be.

    Where it is known which entries have the same cells, these are compared once and not row by row.
    """
    ranked = {n: codes_of_table(pa.table({n: made.values})) for n, made in step.cells.items()}
    if step.groups is None or not ranked:
        return {
            (name,): _Key(
                one.arrays[0][step.cells[name].codes],
                len(one.values[0]),
                {name: (None, one.values[0])},
            )
            for name, one in ranked.items()
        }
    groups = (step.groups + 1).astype(np.uint32)  # 0: left out
    first = np.zeros(int(groups.max(initial=0)) + 1, dtype=np.int64)
    first[groups[::-1]] = np.arange(len(groups) - 1, -1, -1)  # any entry of each group
    codes = {n: one.arrays[0][step.cells[n].of(first)] for n, one in ranked.items()}
    sizes = tuple(max(len(one.values[0]), 1) for one in ranked.values())
    ids, count = kernels.class_ids(tuple(codes.values()), sizes, entries=len(first))
    some = kernels.representatives(ids, count)
    shown = {n: (codes[n][some], one.values[0]) for n, one in ranked.items()}
    return {tuple(ranked): _Key(ids[groups], count, shown)}


def _lookup(step: Step, codes: Codes) -> kernels.Lookup:
    """The combinations of a step, in the codes of the rows."""
    match = step.match
    arrays, cardinalities = [], []
    for at, (array, values) in enumerate(zip(match.arrays, match.values, strict=True)):
        known = codes.values[at]
        if values is known or values.equals(known):
            arrays.append(array)
            cardinalities.append(len(known))
        else:
            codes_known = codes_among(values, known)
            unknown = np.where(codes_known < 0, len(known), codes_known)
            arrays.append(unknown.astype(np.uint32)[array])
            cardinalities.append(len(known) + 1)
    return kernels.Lookup(arrays, cardinalities, step.first, step.last, entries=match.entries)
