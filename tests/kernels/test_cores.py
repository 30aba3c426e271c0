"""Work on several cores: the same answers, errors that arrive, and limits that are kept."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from sfumato.budget import Budget, each, limited, together, usable_threads, within_budget
from sfumato.kernels.ranking import sorted_order

MANY = 1 << 30


@pytest.fixture(autouse=True)
def several_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})


def _who(_: object) -> int:
    time.sleep(0.01)  # long enough that one thread does not do it all
    return threading.get_ident()


def test_answers_come_in_the_order_of_the_items():
    def late(item: int) -> int:
        time.sleep(0.02 / (item + 1))
        return item

    assert each(late, range(8), MANY) == list(range(8))
    assert len(set(each(_who, range(8), MANY))) > 1


@pytest.mark.parametrize("limit", [1, 2])
def test_no_more_threads_are_used_than_allowed(limit):
    assert len(set(each(_who, range(8), MANY, limit))) <= limit
    with limited(limit):
        assert len(set(each(_who, range(8), MANY))) <= limit
        assert usable_threads(None, MANY) == limit
        assert usable_threads(7, MANY) == limit  # the narrower limit holds
        with limited(None):
            assert usable_threads(None) == limit
    assert usable_threads(None) == 4


def test_one_thread_is_the_callers_own():
    with limited(1):
        assert set(each(_who, range(3), MANY)) == {threading.get_ident()}
    assert set(each(_who, range(3), entries=10)) == {threading.get_ident()}


def test_what_runs_in_a_thread_starts_no_others():
    def inner(_: int) -> tuple[int, int]:
        return len(set(each(_who, range(3), MANY))), usable_threads(None)

    assert each(inner, range(3), MANY) == [(1, 1)] * 3


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_an_error_in_a_thread_reaches_the_caller_and_ends_the_rest(kind):
    done = []

    def fails(item: int) -> None:
        if item == 0:
            raise kind("in a thread")
        time.sleep(0.01)
        done.append(item)

    with pytest.raises(kind, match="in a thread"):
        each(fails, range(200), MANY, 2)
    assert len(done) < 100
    assert not [t for t in threading.enumerate() if t.name.startswith("sfumato-work")]


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_what_has_begun_when_somebody_interrupts_is_told_to_stop(kind):
    budget, begun, stopped = Budget(), threading.Event(), []

    def works(item: int) -> None:
        if item == 0:
            begun.wait()
            raise kind("in a thread")
        begun.set()
        end = time.monotonic() + 0.5
        while not budget.spent() and time.monotonic() < end:
            time.sleep(0.001)
        stopped.append(budget.stopped_by)

    with budget.at_work(), pytest.raises(kind):
        each(works, range(2), MANY, 2)
    assert stopped == [None if kind is ValueError else "cancelled"]


def test_a_compiled_loop_that_fails_in_a_thread_reaches_the_caller():
    def loop(item: int) -> int:
        return 1 // item

    with pytest.raises(ZeroDivisionError):
        together(loop, [(1,), (0,), (2,)])


def test_a_verb_uses_as_many_threads_as_its_budget_allows():
    @within_budget
    def verb(*, budget: Budget | None = None) -> int:
        return usable_threads(None)

    assert [verb(budget=Budget(threads=2)), verb(budget=Budget()), verb()] == [2, 4, 4]


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_sorting_is_stable_and_the_same_for_any_number_of_threads(threads):
    keys = np.random.default_rng(4).integers(0, 5_000, 40_000).astype(np.uint64)
    expected = np.argsort(keys, kind="stable")
    assert np.array_equal(sorted_order(keys, 5_000, threads), expected)
    assert np.array_equal(sorted_order(keys << np.uint64(40), 1 << 63, threads), expected)


REUSED = """
import ctypes, resource, sys, threading
from sfumato.budget import reuse_memory, share_memory

if sys.argv[1] != "plain":
    share_memory()
import numpy as np
import pyarrow as pa

if sys.argv[1] == "reuse":
    reuse_memory()

def work():
    for _ in range(20):
        np.ones(8 << 20)
        pa.allocate_buffer(1 << 20)

work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
thread = threading.Thread(target=work)
thread.start()
thread.join()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(pa.default_memory_pool().backend_name)
sys.stdout.flush()
ctypes.CDLL(None).malloc_stats()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="settings of the GNU C library")
def test_memory_that_was_freed_is_used_again_by_all_threads():
    def told(how: str) -> tuple[int, str, int]:
        done = subprocess.run(
            [sys.executable, "-c", REUSED, how], capture_output=True, text=True, check=True
        )
        faults, pool = done.stdout.split()
        return int(faults), pool, done.stderr.count("Arena")

    (faults, pool, places), (usual, _, several) = told("reuse"), told("plain")
    assert 4 * faults < usual
    assert (pool, places) == ("system", 1)
    assert several > 1
    assert told("share")[1:] == (pool, places)  # where memory is limited, and nothing kept
