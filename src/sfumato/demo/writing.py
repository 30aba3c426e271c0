"""Writes the synthetic hospital to a file, block by block; the file appears when it is whole."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.budget import Budget
from sfumato.demo.hospital import people_batches, people_schema
from sfumato.errors import BudgetError
from sfumato.results import Result

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Written", "write_people"]


@dataclass(frozen=True)
class Written(Result):
    """A table that was made and written."""

    output: str
    rows: int
    columns: tuple[str, ...]
    seed: int


def write_people(
    destination: str | os.PathLike[str],
    rows: int = 20_000,
    seed: int = 0,
    *,
    force: bool = False,
    budget: Budget | None = None,
) -> Written:
    """Write patients of a synthetic hospital to a file.

    Parameters
    ----------
    destination
        The ending decides the format: ``.csv``, ``.tsv`` (both also ``.gz``, ``.zst``),
        ``.parquet`` or ``.arrow``.
    rows, seed
        As for `people`.
    force
        Replace the file if it exists.
    budget
        Limit of time; receives progress.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_people(f"{folder}/people.csv", rows=10).rows
    10
    """
    from sfumato.engines.memory import MemoryEngine
    from sfumato.engines.staging import stage_batches
    from sfumato.engines.writing import check_destination

    target = os.fspath(destination)
    check_destination(target, force=force)
    schema = people_schema()
    batches = _watched(people_batches(rows, seed), rows, budget or Budget())
    staged = stage_batches(batches, schema, target, reopen=MemoryEngine)
    staged.commit(force=force)
    return Written(output=target, rows=rows, columns=tuple(schema.names), seed=seed)


def _watched(
    batches: Iterable[pa.RecordBatch], rows: int, budget: Budget
) -> Iterator[pa.RecordBatch]:
    done = 0
    for batch in batches:
        if budget.spent():
            raise BudgetError(
                f"time ran out after {done:,} of {rows:,} people", remedy="Allow more --time."
            )
        budget.progress("making people", done / rows)
        done += batch.num_rows
        yield batch
