"""How a release is made of a database's rows, and staged: in the database, or as a file.

A recoding is looked up for every row (`_MadeAtOnce`), or rows are solved part by part
(`_MadeInParts`). Either happens by statements where the rows are, or here, batch by batch in their
order. What `SQLEngine` tells of its rows is all that is needed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.budget import Budget, limited
from sfumato.engines import statements as sql
from sfumato.engines.connection import Session, temporary_name
from sfumato.engines.private_folder import PrivateFolder
from sfumato.engines.protocol import (
    BATCH_BYTES,
    BATCH_ROWS,
    HELD_BYTES,
    Column,
    Engine,
    KeepsText,
    Kind,
    Source,
    TextForm,
    asks_sql,
    column_of,
    columns_named,
    names_in,
    whole_number,
)
from sfumato.engines.recoding import (
    Combinations,
    Dealt,
    InOrder,
    Lookup,
    Parted,
    Recoder,
    Recoding,
    copied,
    in_turn,
    mapping_table,
    output_schema,
    recoded_batch,
    unmatched,
)
from sfumato.engines.spool import give_back
from sfumato.engines.staging import Staged, Target, kept_form, stage_batches

if TYPE_CHECKING:
    from sfumato.engines.sql_engine import SQLEngine


_ALONE = 384 << 20
"""Memory below which rows are written by one thread."""


def stage(
    engine: SQLEngine,
    recoding: Recoding | Parted,
    destination: str,
    *,
    format: str | None = None,
    budget: Budget | None = None,
) -> Staged:
    """Write a release: as a file row by row in order, or in the database by joins.

    One that is made part by part is written as parts are done, without any join. Where persons
    are counted, rows are laid aside with their owners, in which whoever verifies the release
    counts them; it shows them without.
    """
    schema, ordered = output_schema(engine.schema(), recoding), engine.capabilities.ordered
    target = None if ordered else engine.connection.target(destination, format, schema)
    form = copied(kept_form(engine.source, destination, format), schema, recoding.written)
    person, owned = None, recoding
    if isinstance(recoding, Parted):
        recoding.reports.clear()
        person = recoding.person
        kept = tuple(name for name in recoding.drop if name != person)
        owned = replace(recoding, drop=kept, person=None, sorted=False)
    as_text = form is not None and bool(form.readers)
    made = _made(engine, owned, budget, target is not None, as_text)
    safe = recoding.spreadsheet_safe
    again = recoding.sorted and (ordered or isinstance(recoding, Parted))
    if person is None and not again:
        with ExitStack() as unless_done:  # a session may be interrupted while it ends
            with made.rows() as (session, rows):
                if target is None:
                    done = _as_file(
                        engine, rows, schema, destination, format, form, budget=budget, safe=safe
                    )
                else:
                    fill = partial(target.fill, session, rows, schema, recoding.written)
                    done = Staged(target, destination, fill)
                unless_done.callback(done.discard)
            unless_done.pop_all()
        return done
    staged: Staged | None = None
    if target is None:
        aside = _aside(engine, made)
    else:
        aside = stage(engine, owned, destination, format=format, budget=budget)
    try:
        sorting = recoding.sorting(schema.names)
        if target is None:
            sorted_rows = _in_sorted_order(aside, schema.names, sorting, budget)
            staged = _as_file(
                engine, sorted_rows, schema, destination, format, form, budget=budget, safe=safe
            )
        else:
            staged = _shown(aside, target, destination, schema, sorting, budget)
        if person is not None:
            staged.beside = _as_values(engine, aside, owned, budget) if as_text else aside
    finally:
        if staged is None or staged.beside is not aside:
            aside.discard()
    return staged


def _as_file(
    engine: SQLEngine,
    batches: Iterator[pa.RecordBatch],
    schema: pa.Schema,
    destination: str,
    format: str | None = None,
    form: TextForm | None = None,
    folder: PrivateFolder | None = None,
    budget: Budget | None = None,
    safe: bool = False,
) -> Staged:
    """Rows in a file, which is read back in the way that this table is.

    With little memory one thread reads, recodes and packs: each keeps what it freed.
    """
    limits = budget if engine.source is None else engine.source
    memory = None if limits is None else limits.memory

    def reopened(source: Source) -> Engine:
        give_back()
        return type(engine)(engine.connection.over(source, budget))

    with limited(1 if memory is not None and memory < _ALONE else None):
        return stage_batches(
            batches, schema, destination, format,
            reopen=reopened, inputs=engine.paths, form=form, folder=folder, memory=memory,
            spreadsheet_safe=safe,
        )  # fmt: skip


def _aside(engine: SQLEngine, made: _Made) -> Staged:
    """The rows of a release with their owners in a private file."""
    with made.rows() as (_, rows):
        return _laid_aside(engine, rows, made.schema, made.budget)


def _laid_aside(
    engine: SQLEngine, rows: Iterator[pa.RecordBatch], schema: pa.Schema, budget: Budget | None
) -> Staged:
    folder = PrivateFolder()
    try:
        place = str(folder.path / "rows.parquet")
        return _as_file(engine, rows, schema, place, folder=folder, budget=budget)
    except BaseException:
        folder.close()
        raise


def _as_values(
    engine: SQLEngine, aside: Staged, made: Recoding | Parted, budget: Budget | None
) -> Staged:
    """What counts of rows that were laid aside, with values in place of a text file's cells."""
    assert isinstance(engine.source, KeepsText)
    assert isinstance(made, Parted)
    readers, counted = engine.source.text_form().readers, {*made.reads, *made.written}
    schema = pa.schema([f for f in output_schema(engine.schema(), made) if f.name in counted])
    texts = {n: read for n, read in readers.items() if n not in made.written}

    def values(batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [texts[n](batch[n]) if n in texts else batch[n] for n in schema.names]
        return pa.RecordBatch.from_arrays(arrays, names=schema.names)

    return _laid_aside(engine, map(values, aside.engine().batches(schema.names)), schema, budget)


def try_parts(engine: SQLEngine, parted: Parted, budget: Budget | None = None) -> None:
    """Make a release part by part and keep nothing of it but the reports."""
    with _made(engine, parted, budget, True).rows() as (session, rows):
        if isinstance(rows, sql.Node):
            assert session is not None
            count = "SELECT COUNT(*) AS rows FROM ANSWER AS counted"
            session.run(sql.select(count, ANSWER=rows))
        else:
            for _ in rows:
                pass


def _made(
    engine: SQLEngine,
    recoding: Recoding | Parted,
    budget: Budget | None,
    stays: bool,
    as_text: bool = False,
) -> _Made:
    """How the rows of a release are made."""
    schema = output_schema(engine.schema(), recoding)
    if as_text:
        fields = [
            f if f.name in recoding.written else pa.field(f.name, pa.string()) for f in schema
        ]
        schema = pa.schema(fields)
    if isinstance(recoding, Parted):
        return _MadeInParts(engine, schema, budget, stays, as_text, recoding)
    return _MadeAtOnce(engine, schema, budget, stays, as_text, recoding)


_Rows = tuple[Session | None, Any]
"""Batches; or a statement, and the session in which it can be run."""


@dataclass(frozen=True, eq=False)
class _Made(ABC):
    """The rows of a release, on their way.

    Parameters
    ----------
    schema
        Their columns.
    stays
        Whether they stay in the database: then a statement can stand for them.
    as_text
        Whether cells that nobody writes are copied as they stand in a text file.
    """

    engine: SQLEngine
    schema: pa.Schema
    budget: Budget | None
    stays: bool
    as_text: bool

    @abstractmethod
    def rows(self) -> AbstractContextManager[_Rows]:
        """The rows, as long as the context lasts."""

    def _kept_cells(
        self, written: Collection[str], beside: float = 0.0
    ) -> Iterator[pa.RecordBatch]:
        """Columns that nobody writes, in order; whoever waits is told how many rows are done.

        Beside those of a row come so many bytes of cells that were written.
        """
        engine = self.engine
        # A reading of no column might lose the number of rows.
        kept = [name for name in self.schema.names if name not in written]
        names = kept or [*names_in(engine.schema(), None)[:1]]
        if self.as_text and isinstance(engine.source, KeepsText):
            batches = engine.source.texts(names)
        else:
            long = max(sum(engine.text_bytes(names).values()) + beside, 1)
            memory = None if engine.source is None else engine.source.memory
            most = BATCH_BYTES if memory is None else min(BATCH_BYTES, memory // 64)
            batches = engine.batches(names, max(1, min(BATCH_ROWS // 2, int(most / long))))
        total, done = engine.row_count(), 0
        for batch in batches:
            yield batch
            done += batch.num_rows
            if self.budget is not None:
                self.budget.progress("writing", done / total if total else None)


@dataclass(frozen=True, eq=False)
class _MadeAtOnce(_Made):
    """Rows whose combinations are looked up in a recoding: in the database, or in order here."""

    recoding: Recoding

    @contextmanager
    def rows(self) -> Iterator[_Rows]:
        if self.engine.capabilities.ordered:
            yield None, self._in_order()
            return
        engine, recoding = self.engine, self.recoding
        rows, total = engine.connection.rows(), engine.row_count()
        with engine.asking("recoding", self.budget, writing=True) as session:
            mappings = []
            for step in recoding.steps:
                cells, ranged = tuple(step.cells), step.first is not None
                mapping = sql.Mapping(temporary_name(), step.match.columns, cells, ranged)
                session.upload(mapping.relation, mapping_table(step))
                mappings.append(mapping)
            if mappings:
                figures = [whole_number(f"met{at}") for at in range(len(mappings) + 1)]
                found = session.execute(sql.entries(rows, mappings), figures)
                if any(column[0].as_py() != total for column in found.columns):
                    raise unmatched(engine.name)
            sorting = recoding.sorting(self.schema.names)
            # joins and windows would leave rows in the order of the values that are blurred
            moves = recoding.sorted or mappings or recoding.drop
            sort = _kinds(self.schema, sorting) if moves else None
            statement = sql.recoded(rows, mappings, recoding.drop, sort)
            columns = [column_of(field.name, field.type) for field in self.schema]
            yield session, statement if self.stays else session.stream(statement, columns)

    def _in_order(self) -> Generator[pa.RecordBatch]:
        """Every row is looked up in the database, and recoded here batch by batch."""
        recoding, source = self.recoding, self.engine.source
        lookups = [Lookup(step, self.engine.name) for step in recoding.steps]
        # rows that leave their order must not be told by it which of them are left out
        by_cells = [at for at, lookup in enumerate(lookups) if lookup.ranged and recoding.sorted]
        batches = self._kept_cells(recoding.written)
        with self._combinations(lookups, by_cells) as met:
            for batch in batches:
                taken = met.take(batch.num_rows)
                ordinals = dict(zip(by_cells, taken[len(lookups) :], strict=True))
                entries = [
                    lookup.entries(taken[at], ordinals.get(at)) for at, lookup in enumerate(lookups)
                ]
                yield recoded_batch(batch, recoding, entries, self.schema)
                if source is not None and source.memory is not None:
                    give_back()
            met.finish()

    @contextmanager
    def _combinations(
        self, lookups: Sequence[Lookup], by_cells: Sequence[int]
    ) -> Iterator[Combinations]:
        """The combination every row has in each step, row by row in order.

        After them, for some of the steps, the number of the row among those of its combination.
        """
        engine = self.engine
        if not lookups:
            yield Combinations(iter(()), 0, engine.name)
            return
        rows = engine.connection.rows()
        with engine.asking("recoding", self.budget, writing=True) as session:
            mappings = []
            for lookup in lookups:
                mapping = sql.Mapping(temporary_name(), lookup.step.match.columns, (), ranged=False)
                keys = [lookup.tuples.column(n).cast(rows.stored(n)) for n in mapping.columns]
                numbers = pa.array(np.arange(lookup.combinations, dtype=np.int64))
                names = [*(f"k{nth}" for nth in range(len(keys))), sql.TUPLE]
                session.upload(mapping.relation, pa.table([*keys, numbers], names=names))
                mappings.append(mapping)
            figures = [whole_number(f"t{at}") for at in range(len(mappings))]
            figures += [whole_number(f"ordinal{at}") for at in by_cells]
            numbered = session.stream(sql.matched(rows, mappings, by_cells), figures)
            with closing(numbered):
                yield Combinations(numbered, len(figures), engine.name)


@dataclass(frozen=True, eq=False)
class _MadeInParts(_Made):
    """Rows that are solved part by part: where they are, or here."""

    parted: Parted

    @contextmanager
    def rows(self) -> Iterator[_Rows]:
        engine, parted, parting = self.engine, self.parted, self.parted.parting
        if engine.capabilities.ordered and not self.stays:
            yield None, self._in_order()
            return
        rows, apart = engine.connection.rows(), self.stays and not engine.capabilities.runs_work
        names = [n for n in rows.names if n in parted.reads or n in self.schema.names]
        # What passes by to a table of the same database passes as text: nothing is lost on the way.
        passing = [n for n in self.schema.names if apart and n not in parted.written]
        text = [n for n in passing if n not in parted.reads]
        fields = [pa.field(f.name, pa.string()) if f.name in passing else f for f in self.schema]
        if apart:  # labels are written out by whoever sends them
            fields = [_as_labels(f) if f.name in parted.written else f for f in fields]
        near = engine.near(names)
        if near is not None:
            sent = tuple(columns_named(engine.schema(), names))
            recoder = Recoder(parted.work, sent, parted.reads, pa.schema(fields))
            solved = self._solved(parting.tables(near), recoder)
            yield None, _batches_of(solved)
            return
        with engine.cutting(parting, self.budget) as (session, thresholds):
            sent = tuple(
                column_of(column.name, pa.string()) if column.name in text else column
                for column in columns_named(engine.schema(), names)
            )
            beside, along = None, tuple[Column, ...]()
            if parted.others is not None:
                theirs, along = engine.others(parted.others, session), parted.others.columns
                beside = sql.in_parts(theirs, [one.name for one in along], parting, thresholds)
            recoder = Recoder(parted.work, sent, parted.reads, pa.schema(fields), along)
            statement = sql.in_parts(rows, names, parting, thresholds, text=text)
            answer = None
            if self.stays:
                answer = session.apply(statement, recoder, self.schema, parted.reports, beside)
            if answer is not None:
                yield session, answer
                return
            with engine.dealt(session, statement, sent, parting.parts, self.budget) as tables:
                solved = self._solved(tables, recoder)
                yield session, _batches_of(solved)

    def _solved(
        self, parts: Iterator[tuple[int, pa.Table]], recoder: Recoder
    ) -> Iterator[pa.Table]:
        reports, number = self.parted.reports, self.parted.parting.parts
        for part, (made, report) in in_turn(recoder, parts, self.parted.workers):
            reports[part] = report
            if self.budget is not None:
                self.budget.progress("solving parts", len(reports) / number)
            yield made
            del made  # the next part is on its way
            if self.budget is not None and self.budget.memory is not None:
                give_back()

    def _in_order(self) -> Generator[pa.RecordBatch]:
        """Parts are solved and laid aside one after the other, then read in the order of rows."""
        engine, parted = self.engine, self.parted
        rows = engine.connection.rows()
        names = [name for name in rows.names if name in parted.reads]
        place = max((*names, ""), key=len) + "\0position"
        sent = (whole_number(place), *columns_named(engine.schema(), names))
        written = [_as_labels(f) for f in self.schema if f.name in parted.written]
        given = pa.schema([pa.field(place, pa.int64()), *written])
        memory = (self.budget and self.budget.memory) or HELD_BYTES
        folder = PrivateFolder()
        try:
            aside = InOrder(folder.path, place, memory // 16 // parted.parting.parts)
            with engine.cutting(parted.parting, self.budget) as (session, thresholds):
                statement = sql.in_parts(rows, names, parted.parting, thresholds, numbered=True)
                with closing(session.stream(statement, [whole_number(sql.PART), *sent])) as stream:
                    dealt = Dealt.out(stream, folder.path / "dealt.arrow")
            give_back()
            recoder = Recoder(parted.work, sent, parted.reads, given)
            for made in self._solved(dealt.tables(), recoder):
                aside.add(made)
                del made
            done = 0
            for batch in self._kept_cells(parted.written, aside.row_bytes):
                cells = aside.before(done + batch.num_rows)
                if cells is not None:
                    at = cells.column(place).to_numpy() - done
                    kept = batch.take(pa.array(at)) if cells.num_rows < batch.num_rows else batch
                    arrays = [
                        (cells if name in parted.written else kept).column(name)
                        for name in self.schema.names
                    ]
                    yield pa.RecordBatch.from_arrays(arrays, names=self.schema.names)
                    del cells, kept, arrays
                done += batch.num_rows
                if engine.source is not None and engine.source.memory is not None:
                    give_back()
        finally:
            folder.close()


def _batches_of(tables: Iterator[pa.Table]) -> Iterator[pa.RecordBatch]:
    """The rows of tables, of which none is held while the next one is made."""
    for table in tables:
        batches = table.to_batches()
        del table
        batches.reverse()
        while batches:
            yield batches.pop()


def _shown(
    aside: Staged,
    target: Target,
    destination: str,
    schema: pa.Schema,
    sorting: Sequence[str],
    budget: Budget | None,
) -> Staged:
    """What was laid aside in the database, without the owners."""
    engine = aside.engine()
    assert asks_sql(engine)
    rows = engine.connection.rows()
    drop = [name for name in rows.names if name not in schema.names]
    statement = sql.recoded(rows, (), drop, _kinds(schema, sorting) or None)
    with engine.asking("sorting", budget, writing=True) as session:
        return Staged(target, destination, lambda: target.fill(session, statement, schema, ()))


def _as_labels(field: pa.Field) -> pa.Field:
    """A column of texts as one of numbers, where labels are texts."""
    text = pa.types.is_string(field.type)
    return pa.field(field.name, pa.dictionary(pa.int32(), field.type)) if text else field


def _in_sorted_order(
    aside: Staged, names: Sequence[str], sorting: Sequence[str], budget: Budget | None
) -> Generator[pa.RecordBatch]:
    """Some columns of rows that were laid aside in a file, sorted out of core."""
    engine = aside.engine()
    assert asks_sql(engine)
    with engine.asking("sorting", budget, apart=True, writing=True) as session:
        statement = sql.all_rows(engine.connection.rows(), names, sorting)
        shown = columns_named(engine.schema(), names)
        yield from session.stream(statement, shown, BATCH_ROWS // 4)  # several are on their way


def _kinds(schema: pa.Schema, names: Sequence[str]) -> dict[str, Kind]:
    """What some columns of a release hold."""
    return {name: column_of(name, schema.field(name).type).kind for name in names}
