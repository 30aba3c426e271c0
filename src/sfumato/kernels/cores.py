"""Several cores: how many may be used, and how work is given to them.

Compiled loops, numpy and Arrow release the interpreter lock while they compute, so that threads are
enough. Whatever is computed on several cores is cut where the data say and not where threads happen
to meet, and put together in that order: answers are the same for any number of threads.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from sfumato.budget import Budget

__all__ = [
    "each",
    "limited",
    "spans",
    "submitted",
    "together",
    "usable_threads",
    "within_budget",
]

_WORTHWHILE = 1 << 18
"""Entries below which starting a thread costs more than it saves."""

_limit: ContextVar[int | None] = ContextVar("limit", default=None)

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S")


@contextmanager
def limited(threads: int | None) -> Iterator[None]:
    """Use so many threads at most, inside of the block; None changes nothing.

    Examples
    --------
    >>> with limited(1):
    ...     usable_threads(None, 10_000_000)
    1
    """
    before = _limit.set(_least(threads, _limit.get()))
    try:
        yield
    finally:
        _limit.reset(before)


def within_budget(function: Callable[P, S]) -> Callable[P, S]:
    """Let a verb use as many threads as the budget allows that it is given by name."""

    @wraps(function)
    def limiting(*given: P.args, **named: P.kwargs) -> S:
        budget = named.get("budget")
        with limited(budget.threads if isinstance(budget, Budget) else None):
            return function(*given, **named)

    return limiting


def _least(*threads: int | None) -> int | None:
    return min((number for number in threads if number is not None), default=None)


def usable_threads(threads: int | None, entries: int | None = None) -> int:
    """How many threads work on so many entries should use; None is very many."""
    if entries is not None and entries < 2 * _WORTHWHILE:
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    asked = _least(threads, _limit.get()) or cores or 1
    return max(1, asked if entries is None else min(asked, entries // _WORTHWHILE))


def spans(entries: int, threads: int) -> list[tuple[int, int]]:
    """Cut entries into one consecutive span a thread.

    Examples
    --------
    >>> spans(10, 2)
    [(0, 5), (5, 10)]
    """
    marks = [entries * part // threads for part in range(threads + 1)]
    return list(itertools.pairwise(marks))


def together(loop: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Run one compiled loop with several arguments at once; answers in the order of the calls.

    Threads live only for the call, so that a process may fork before and after it.
    """
    if len(calls) == 1:
        return [loop(*calls[0])]
    with ThreadPoolExecutor(len(calls), "sfumato-loop") as pool:
        return list(pool.map(lambda arguments: loop(*arguments), calls))


def each(
    function: Callable[[T], S], items: Iterable[T], entries: int, threads: int | None = None
) -> list[S]:
    """What a function gives for each of some items, several at a time; in the order of the items.

    Parameters
    ----------
    function
        It must not change what another of its calls reads. Inside of it one thread is used.
    entries
        How many entries all calls go through: few are not worth a thread.
    threads
        Upper limit; None means as many as the caller may use.

    Examples
    --------
    >>> each(abs, [-3, 2, -1], entries=1_000_000)
    [3, 2, 1]
    """
    items = list(items)
    workers = min(usable_threads(threads, entries), len(items))
    if workers < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(workers, "sfumato-work") as pool:
        futures = [submitted(pool, function, item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            for future in futures:
                future.cancel()
            raise


def submitted(pool: ThreadPoolExecutor, function: Callable[..., S], *given: Any) -> Future[S]:
    """A call in a thread of a pool, which uses no other thread.

    What depends on who calls, such as the words of messages, stays as it is here.
    """
    return pool.submit(copy_context().run, _alone, function, *given)


def _alone(function: Callable[..., S], *given: Any) -> S:
    with limited(1):
        return function(*given)
