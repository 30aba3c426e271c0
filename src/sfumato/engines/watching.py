"""Stopping a statement that an engine is busy with, when its budget is spent."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sfumato.budget import Budget
from sfumato.errors import BudgetError

__all__ = ["watching"]

_SECONDS_BETWEEN_LOOKS = 0.05


@contextmanager
def watching(
    budget: Budget | None, interrupt: Callable[[], object], doing: str, where: str
) -> Iterator[None]:
    """Call `interrupt` from another thread once the budget is spent, and say so afterwards.

    Parameters
    ----------
    budget
        Limits of the work; None watches nothing.
    interrupt
        Makes the engine give up its current statement; must be safe from another thread.
    doing
        What the work is, for progress and for the error.
    where
        The table concerned.

    Examples
    --------
    >>> from sfumato.budget import Budget
    >>> with watching(Budget(seconds=60), lambda: None, "counting classes", "people"):
    ...     pass
    """
    if budget is None:
        yield
        return
    stopped = BudgetError(
        f"{doing} was stopped before it had an answer",
        where=where,
        remedy="Allow more time with --time, or ask for fewer columns.",
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
