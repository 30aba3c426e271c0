"""How much time, memory and how many cores work may take, and how it tells where it is.

Every long search takes a `Budget`. It asks `budget.spent()` between steps, reports with
`budget.progress(...)`, and records in its result what stopped it (`budget.stopped_by`).

Compiled loops, numpy and Arrow release the interpreter lock while they compute, so that threads are
enough to use several cores. Whatever they compute is cut where the data say and not where threads
happen to meet, and put together in that order: answers are the same for any number of threads.
"""

from __future__ import annotations

import itertools
import math
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from sfumato.errors import ParameterError
from sfumato.fields import checked, fitted

LEAST_MEMORY = 256 * 2**20
"""Bytes below which a limit could not be kept: the program itself may take half of it."""
MOST_THREADS = 1 << 16
"""No machine has more cores."""
PROGRAM_MEMORY = 128 * 2**20
"""What compiled loops and batches of rows on their way take, however few rows are held."""

Progress = Callable[[str, float | None], None]
"""Called with what is being done and the finished share in [0, 1] (None where it is unknown)."""

_UNKNOWN_MEMORY = 2 * 2**30
_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_SECONDS = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


class Clock:
    """The time that limits count: it stands still while loops are compiled.

    Compiling is no part of the work, and happens once on a machine: a limit means the same on the
    first run as on the second.
    """

    _lost = 0.0
    _stopped: float | None = None
    _told: Budget | None = None

    @classmethod
    def now(cls) -> float:
        """Seconds from some moment on."""
        at = cls._stopped
        return (time.monotonic() if at is None else at) - cls._lost

    @classmethod
    def stop(cls, why: str) -> None:
        """Stand still until `go_on`; whoever watches the work that is going on here is told why."""
        cls._stopped = time.monotonic()
        cls._told = told = _at_work.get()
        if told is not None and told.on_progress is not None:
            told.on_progress(why, None)

    @classmethod
    def go_on(cls) -> None:
        """Run again; what was said before is said again."""
        if cls._stopped is not None:
            cls._lost += time.monotonic() - cls._stopped
            cls._stopped = None
        told, cls._told = cls._told, None
        if told is not None and told._doing:
            told.progress(*told._doing[-1])


@dataclass(eq=False)
class Budget:
    """Limits of one piece of work, counted from the moment it is made.

    Parameters
    ----------
    seconds
        Wall-clock limit; None is no limit. Time that passes while loops are compiled is not
        counted.
    memory
        Bytes the work may hold beyond what the process already holds; None leaves the choice to
        the engine.
    on_progress
        Receives messages from the work.
    threads
        Upper limit for compiled loops and embedded engines; None means all cores.

    Attributes
    ----------
    meanwhile
        Does a little of what can wait, and says whether there was something to do: for a thread
        that would only wait for another.

    Examples
    --------
    >>> budget = Budget(seconds=60)
    >>> budget.spent()
    False
    >>> budget.cancel()
    >>> budget.spent(), budget.stopped_by
    (True, 'cancelled')
    """

    seconds: float | None = None
    memory: int | None = None
    on_progress: Progress | None = None
    threads: int | None = None
    stopped_by: str | None = field(default=None, init=False)
    meanwhile: Callable[[], bool] | None = field(default=None, init=False, repr=False)
    _doing: list[tuple[str, float | None]] = field(default_factory=list, init=False, repr=False)
    _started: float = field(default_factory=lambda: Clock.now(), init=False, repr=False)
    _cancelled: threading.Event = field(default_factory=threading.Event, init=False, repr=False)
    _ended: threading.Event = field(default_factory=threading.Event, init=False, repr=False)

    def __post_init__(self) -> None:
        self.seconds = fitted("`seconds`", self.seconds, float | None)
        self.memory = fitted("`memory`", self.memory, int | None)
        self.threads = fitted("`threads`", self.threads, int | None)
        if self.seconds is not None and not self.seconds >= 0:
            raise ParameterError(
                f"a time budget of {self.seconds} s is not possible", remedy="Give zero or more."
            )
        if self.memory is not None and self.memory <= 0:
            raise ParameterError(
                f"a memory budget of {self.memory} bytes is not possible",
                remedy=f"Give at least {LEAST_MEMORY // 2**20}MB.",
            )
        if self.threads is not None and not 0 < self.threads <= MOST_THREADS:
            raise ParameterError(
                f"{self.threads} threads are not possible", remedy=f"Give 1 to {MOST_THREADS:,}."
            )

    @property
    def elapsed(self) -> float:
        """Seconds since the budget was made, without those that no limit counts."""
        return Clock.now() - self._started

    @property
    def remaining(self) -> float:
        """Seconds left; infinite without a limit."""
        return float("inf") if self.seconds is None else max(0.0, self.seconds - self.elapsed)

    def cancel(self) -> None:
        """Ask the work to stop at its next step; safe from any thread or signal handler."""
        self._cancelled.set()

    def end(self) -> None:
        """Let the time be over: the work ends at its next step with what it has found by then."""
        self._ended.set()

    def spent(self) -> bool:
        """Whether the work must stop now; remembers why in `stopped_by`."""
        if self._cancelled.is_set():
            self.stopped_by = "cancelled"
        elif self._ended.is_set() or not self.remaining:
            self.stopped_by = "time"
        return self.stopped_by is not None

    def part(self, share: float) -> Budget:
        """A budget of its own with a share of the time that is left; cancelling is common.

        Examples
        --------
        >>> Budget(seconds=60).part(0.5).remaining <= 30, Budget().part(0.5).seconds is None
        (True, True)
        """
        rest = self.unhurried()
        rest._ended = self._ended
        if self.seconds is not None:
            rest.seconds = share * self.remaining
        return rest

    def unhurried(self) -> Budget:
        """The same without a time limit, for what must follow a search that used it up.

        Cancelling one cancels both.
        """
        rest = Budget(memory=self.memory, on_progress=self.on_progress, threads=self.threads)
        rest._cancelled, rest._doing = self._cancelled, self._doing
        return rest

    def holds(self, size: float) -> bool:
        """Whether so many bytes of rows fit, beside what the program itself takes.

        Examples
        --------
        >>> Budget(memory=512 << 20).holds(300 << 20), Budget(memory=512 << 20).holds(400 << 20)
        (True, False)
        >>> Budget().holds(1 << 60)
        True
        """
        if self.memory is None:
            return True
        return size <= max(self.memory - PROGRAM_MEMORY, self.memory // 4)

    def progress(self, doing: str, share: float | None = None) -> None:
        """Tell whoever watches what is being done and how much of it is finished."""
        self._doing[:] = [(doing, share)]
        if self.on_progress is not None:
            self.on_progress(doing, share)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Let what runs inside of the block use no more threads than this allows.

        Whoever watches is told there, and only there, when loops are compiled.
        """
        before = _at_work.set(self)
        try:
            with limited(self.threads):
                yield
        finally:
            _at_work.reset(before)


def parse_memory(text: str) -> int:
    """Read a memory limit as people write it.

    Examples
    --------
    >>> parse_memory("512MB"), parse_memory("4 GiB")
    (536870912, 4294967296)
    """
    return checked_memory(parse_size(text))


def parse_size(text: str) -> int:
    """Read a number of bytes as people write it.

    Examples
    --------
    >>> parse_size("512"), parse_size("1.5 kB")
    (512, 1536)
    """
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([kmgt]?)i?b?\s*", text, re.IGNORECASE)
    if match is None:
        raise ParameterError(f"`{text}` is not a memory size", remedy="Write e.g. 512MB or 4GiB.")
    return int(float(match[1]) * _UNITS[match[2].lower()])


def checked_memory(size: int) -> int:
    """Refuse a limit that no work could keep.

    Examples
    --------
    >>> checked_memory(1024)
    Traceback (most recent call last):
    sfumato.errors.ParameterError: a memory limit of 1,024 bytes is too small. Give at least 256MB.
    """
    if size < LEAST_MEMORY:
        raise ParameterError(
            f"a memory limit of {size:,} bytes is too small",
            remedy=f"Give at least {LEAST_MEMORY // 2**20}MB.",
        )
    return size


def parse_time(text: str) -> float:
    """Read a duration as people write it, in seconds.

    Examples
    --------
    >>> parse_time("90"), parse_time("1.5m"), parse_time("2h")
    (90.0, 90.0, 7200.0)
    """
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*(ms|s|min|m|h)?\s*", text, re.IGNORECASE)
    if match is None:
        raise ParameterError(f"`{text}` is not a duration", remedy="Write e.g. 30s, 5m or 1h.")
    return float(match[1]) * _SECONDS[(match[2] or "").lower()]


_LARGE_PAGES, _LARGE_PAGE = 1 << 30, 1 << 21
"""Bytes of memory that come in large pages, and of one of these."""


def share_memory() -> None:
    """Let all threads, and Arrow, take memory from one place, and give it back there.

    To be told before Arrow is loaded and any library starts a thread: whatever place a thread was
    given stays in use, and Arrow would keep what it frees beside what others need. This and
    `reuse_memory` are for programs to choose, and not for libraries, which share their process.
    Only the GNU C library lets itself be told.
    """
    if _tell_allocator((-8, 1)):  # M_ARENA_MAX
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


def reuse_memory() -> None:
    """Let the C library keep what is freed for whoever asks next, until the process ends.

    It would give large arrays back to the system, and every page fetched anew is cleared first, one
    thread at a time. Pages are large ones at first, unless addresses are scarce.
    """
    if not _tell_allocator((-1, 2**31 - 1), (-4, 0)):  # M_TRIM_THRESHOLD, M_MMAP_MAX
        return
    if _free_of_process() == math.inf:
        # What is asked for and given back untouched is no more than addresses, which come next.
        import ctypes

        c = ctypes.CDLL(None)
        c.malloc.restype = ctypes.c_void_p
        place = c.malloc(ctypes.c_size_t(_LARGE_PAGES))
        if place:
            first, last = -(-place // _LARGE_PAGE), (place + _LARGE_PAGES) // _LARGE_PAGE
            size = (last - first) * _LARGE_PAGE
            c.madvise(ctypes.c_void_p(first * _LARGE_PAGE), ctypes.c_size_t(size), 14)  # HUGEPAGE
            c.free(ctypes.c_void_p(place))


def _tell_allocator(*settings: tuple[int, int]) -> bool:
    """Settings of `mallopt`; False where there is no such thing."""
    import ctypes

    try:
        tell = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return False
    return all(tell(*setting) for setting in settings)


def available_memory() -> int:
    """Bytes of memory that are free for use, also in a container or within a limit."""
    free = _free_of_machine()
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        used = Path("/sys/fs/cgroup/memory.current").read_text().strip()
        if limit != "max":
            free = min(free, max(int(limit) - int(used), 0))
    except (OSError, ValueError):
        pass
    return int(min(free, _free_of_process()))


def _free_of_process() -> float:
    """Bytes that a limit of this process (``ulimit -v``) leaves; infinite without one."""
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        used = pages * resource.getpagesize()
    except (ImportError, OSError, ValueError):  # not on Windows, nor in some containers
        return math.inf
    return math.inf if limit == resource.RLIM_INFINITY else max(limit - used, 0)


def _free_of_machine() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    if not hasattr(os, "sysconf"):  # Windows
        return _UNKNOWN_MEMORY
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


_WORTHWHILE = 1 << 18
"""Entries below which starting a thread costs more than it saves."""

_limit: ContextVar[int | None] = ContextVar("limit", default=None)
_at_work: ContextVar[Budget | None] = ContextVar("at_work", default=None)

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


def memory_is_limited() -> bool:
    """Whether somebody said how much memory the work that is going on here may take."""
    budget = _at_work.get()
    return budget is not None and budget.memory is not None


def within_budget(function: Callable[P, S]) -> Callable[P, S]:
    """Check what a verb is given; a budget given by name is at work as long as the verb runs."""
    verb = checked(function)

    @wraps(function)
    def working(*given: P.args, **named: P.kwargs) -> S:
        budget = named.get("budget")
        if not isinstance(budget, Budget):
            return verb(*given, **named)
        with budget.at_work():
            return verb(*given, **named)

    return working


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
        futures = [pool.submit(copy_context().run, loop, *arguments) for arguments in calls]
        return [future.result() for future in futures]


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
        except BaseException as error:
            for future in futures:
                future.cancel()
            told = _at_work.get()
            if told is not None and not isinstance(error, Exception):
                told.cancel()  # whoever interrupts would wait for all that has begun
            raise


class Postponed(Mapping[str, Any]):
    """Figures that can wait: found step by step while a thread waits for others, or when read.

    Parameters
    ----------
    steps
        None of them may change what another reads.
    whole
        Makes the figures of what the steps gave, in their order.
    entries
        How many entries all steps go through.

    Examples
    --------
    >>> figures = Postponed([lambda: 1, lambda: 2], lambda found: {"sum": sum(found)}, entries=2)
    >>> figures.step(), figures["sum"], figures.step()
    (True, 3, False)
    """

    def __init__(
        self,
        steps: Iterable[Callable[[], Any]],
        whole: Callable[[Sequence[Any]], Mapping[str, Any]],
        entries: int,
    ) -> None:
        self._left, self._found = deque(steps), list[Any]()
        self._whole, self._entries = whole, entries

    def step(self) -> bool:
        """Take the next step in this thread alone; False if there is none."""
        if not self._left:
            return False
        self._found.append(_alone(self._left.popleft()))
        return True

    @cached_property
    def _figures(self) -> Mapping[str, Any]:
        self._found += each(lambda step: step(), self._left, self._entries)
        self._left.clear()  # and with them what they read
        return self._whole(self._found)

    def __getitem__(self, name: str) -> Any:
        return self._figures[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._figures)

    def __len__(self) -> int:
        return len(self._figures)


def submitted(pool: ThreadPoolExecutor, function: Callable[..., S], *given: Any) -> Future[S]:
    """A call in a thread of a pool, which uses no other thread.

    What depends on who calls, such as the words of messages, stays as it is here.
    """
    return pool.submit(copy_context().run, _alone, function, *given)


def _alone(function: Callable[..., S], *given: Any) -> S:
    with limited(1):
        return function(*given)
