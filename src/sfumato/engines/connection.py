"""What a database must offer to be asked: a connection to a table, and sessions of statements.

`SQLEngine` needs no more of a database than this. What has a default here need not be written for
every one.
"""

from __future__ import annotations

import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from sfumato.budget import Budget
from sfumato.engines import statements as sql
from sfumato.engines.protocol import BATCH_ROWS, Capabilities, Column, Source
from sfumato.errors import BudgetError, spell

if TYPE_CHECKING:
    from sqlglot import exp

    from sfumato.engines.staging import Target


_SECONDS_BETWEEN_LOOKS = 0.05


class Session(AbstractContextManager["Session"]):
    """Some statements that belong together; what was uploaded goes when it ends."""

    @abstractmethod
    def stream(
        self,
        statement: sql.Node,
        columns: Sequence[Column],
        rows: int = BATCH_ROWS,
        pieces: int = 1,
    ) -> Generator[pa.RecordBatch]:
        """The answer to a statement under these names and in these types, batch by batch.

        A cluster sends partitions as wholes: it is to make so many `pieces` of the answer at least.
        """

    def execute(self, statement: sql.Node, columns: Sequence[Column]) -> pa.Table:
        """The whole answer to a statement."""
        schema = pa.schema([pa.field(column.name, column.type) for column in columns])
        return pa.Table.from_batches(self.stream(statement, columns), schema)

    @abstractmethod
    def run(self, statement: sql.Node) -> None:
        """Run a statement that has no answer."""

    @abstractmethod
    def upload(self, name: str, table: pa.Table) -> None:
        """Make a table that statements of this session can name."""

    def apply(
        self,
        statement: sql.Node,
        act: Callable[..., tuple[pa.Table, bytes]],
        schema: pa.Schema,
        reports: dict[int, bytes],
        beside: sql.Node | None = None,
    ) -> exp.Select | None:
        """Do something with each part where the rows are: a statement that asks for the outcome.

        The first column of the given statement numbers the parts; of rows that are given `beside`
        them, too, and `act` gets both tables of a part. Reports are there once the outcome was
        asked for. None where the database does not run what we do.
        """
        return None

    def seed(self, seed: int) -> None:
        """Make random numbers repeatable where the statement's text cannot."""
        return

    @abstractmethod
    def cancel(self) -> None:
        """Give up the current statement; called from another thread, at any time."""

    def __enter__(self) -> Self:
        return self


class Connection(ABC):
    """One table of one database: all that `SQLEngine` needs to know of it."""

    name: str
    """The table as the user named it."""
    kind: str
    """What to call the database."""
    capabilities: Capabilities
    source: Source | None = None
    """The rows themselves where this process reads them; None where the database has them."""

    @abstractmethod
    def rows(self) -> sql.Rows:
        """The table as statements speak of it, in the types the database holds it in."""

    @abstractmethod
    def session(self, *, apart: bool = False, writing: bool = False) -> Session:
        """Statements to come; `apart` from others that go on meanwhile; to `write` a release."""

    def target(self, destination: str, format: str | None, schema: pa.Schema) -> Target | None:
        """Where a release of these columns goes in the database; None if it is a file of ours.

        Refuses a place that cannot be written before any work is done.
        """
        return None

    def over(self, source: Source, budget: Budget | None = None) -> Connection:
        """How a file that was written here is read back: by DuckDB, unless there is a reason."""
        from sfumato.engines.duckdb import DuckDB

        return DuckDB(source) if budget is None else DuckDB(source, budget.memory, budget.threads)

    def reaches(self, destination: str) -> bool:
        """Whether a release there can appear at once with those of other tables."""
        return "://" not in destination

    def files(self) -> Sequence[Path]:
        """The files that a release there consists of, where this machine sees them."""
        return ()

    def shares(self, other: Connection) -> bool:
        """Whether a statement can speak of another table, too."""
        return False

    def view(self, statement: sql.Node) -> Connection:
        """What a statement gives, as a table in the same place; asked of those that share one."""
        raise NotImplementedError(f"{self.kind} has no place for tables")

    def one_moment(self) -> AbstractContextManager[object] | None:
        """Let all that is read meanwhile describe one moment; None where others may change it."""
        return None

    def check_width(self, columns: int, *, writing: bool, lookups: int = 1) -> None:
        """Refuse rows of more columns than could be moved, or looked up and written."""
        return

    def most_cuts(self) -> int | None:
        """How many values may stand beside every row that is cut at them; None for any number."""
        return None

    @abstractmethod
    def close(self) -> None:
        """Release connections and temporary files."""


@contextmanager
def interrupting(
    budget: Budget | None, interrupt: Callable[[], object], doing: str, where: str
) -> Iterator[None]:
    """Call `interrupt` from another thread once the budget is spent, and say so afterwards."""
    if budget is None:
        yield
        return
    stopped = BudgetError(
        f"{doing} was stopped before it had an answer",
        where=where,
        remedy=f"Allow more time ({spell('time', '10m')}), or ask for fewer columns.",
    )
    if budget.spent():
        raise stopped
    budget.progress(doing)
    done, fired = threading.Event(), threading.Event()

    def look() -> None:
        while not done.wait(_SECONDS_BETWEEN_LOOKS):
            if budget.spent():
                fired.set()
                interrupt()
                return

    watcher = threading.Thread(target=look, name="sfumato-budget", daemon=True)
    watcher.start()
    try:
        yield
    except Exception as error:
        if fired.is_set():
            raise stopped from error
        raise
    finally:
        done.set()
        watcher.join()


def temporary_name() -> str:
    """A name for a table that nobody looks at yet."""
    return f"sfumato_partial_{uuid.uuid4().hex[:16]}"
