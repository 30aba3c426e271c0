"""Compiled loops on several cores, with a layout that does not depend on who finishes first."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

__all__ = ["spans", "together", "usable_threads"]

_WORTHWHILE = 1 << 18
"""Entries below which starting a thread costs more than it saves."""


def usable_threads(threads: int | None, entries: int) -> int:
    """How many threads a loop over so many entries should use."""
    if entries < 2 * _WORTHWHILE:
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(threads or cores or 1, entries // _WORTHWHILE))


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

    The loops release the interpreter lock. Threads live only for the call, so that a process may
    fork before and after it.
    """
    if len(calls) == 1:
        return [loop(*calls[0])]
    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(lambda arguments: loop(*arguments), calls))
