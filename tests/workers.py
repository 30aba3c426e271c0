"""``--workers N``: tests are collected once, and then run by N copies of the process that did so.

Collecting takes as long as hundreds of tests; N programs that are started would each do it. Every
worker begins with an equal part of the tests, one after the other; who has none left takes half of
those that wait for another. Where a process cannot be copied, as on Windows, one runs all.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections import deque
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, NoReturn

import pytest
from _pytest.runner import runtestprotocol


def pytest_addoption(parser: pytest.Parser) -> None:
    """How many processes run tests."""
    parser.addoption("--workers", type=int, default=1, help="how many processes run the tests")


def pytest_configure(config: pytest.Config) -> None:
    """Let one process run all if it cannot be copied, or if somebody looks into it."""
    if not hasattr(os, "fork") or config.option.collectonly or config.option.usepdb:
        config.option.workers = 1


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Let workers run what was collected, and tell of it as if it had been run here."""
    count = session.config.option.workers
    if count <= 1 or session.testsfailed:
        return None
    session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # all share it
    Crew(session, count).run()
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)
    return True


@dataclass
class Worker:
    """A process that runs tests: its place among all, and the tests it has been given."""

    turn: int
    process: int
    given: deque[int] = field(default_factory=deque)


class Crew:
    """All workers, as the process sees them that collected the tests."""

    def __init__(self, session: pytest.Session, count: int) -> None:
        self.session = session
        ends = [len(session.items) * turn // count for turn in range(count + 1)]
        self.waiting = [deque(range(*ends[turn : turn + 2])) for turn in range(count)]
        self.workers: dict[Any, Worker] = {}

    def run(self) -> None:
        """Give out tests and take reports until all are done."""
        try:
            for turn in range(len(self.waiting)):
                self.start(turn)
            while self.workers:
                for line in wait(list(self.workers)):
                    self.hear(line)
        finally:
            for line in self.workers:  # they see that nobody listens any more
                line.close()

    def start(self, turn: int) -> None:
        """Start a worker: a copy of this process."""
        here, there = Pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():  # those of libraries that were only imported: they cope
            warnings.filterwarnings("ignore", "This process .* is multi-threaded")
            process = os.fork()
        if process == 0:
            for line in (here, *self.workers):
                line.close()
            work(self.session, there)
        there.close()
        self.workers[here] = Worker(turn, process)

    def hear(self, line: Any) -> None:
        """Do what a worker asks for: another test, or to pass on a report."""
        worker, config = self.workers[line], self.session.config
        try:
            report = line.recv()
        except (EOFError, ConnectionError):
            self.ended(line)
            return
        if report is None:
            worker.given.append(self.next_of(worker.turn))
            line.send(worker.given[-1])
            return
        report = config.hook.pytest_report_from_serializable(config=config, data=report)
        config.hook.pytest_runtest_logreport(report=report)
        if report.when == "teardown":
            self.finished(worker.given.popleft())

    def next_of(self, turn: int) -> int:
        """The next test of a worker, who may take half of another's; -1 if there is none."""
        if self.session.shouldfail or self.session.shouldstop:
            return -1
        mine = self.waiting[turn]
        if not mine:
            most = max(self.waiting, key=len)
            mine.extendleft(most.pop() for _ in range((len(most) + 1) // 2))
        return mine.popleft() if mine else -1

    def finished(self, test: int) -> None:
        """Tell that nothing more comes of a test."""
        item = self.session.items[test]
        self.session.config.hook.pytest_runtest_logfinish(
            nodeid=item.nodeid, location=item.location
        )

    def ended(self, line: Any) -> None:
        """Another takes the place of a worker that ended in the midst of a test."""
        worker = self.workers.pop(line)
        line.close()
        code = os.waitstatus_to_exitcode(os.waitpid(worker.process, 0)[1])
        left = [test for test in worker.given if test >= 0]
        if not left:
            if code:
                raise RuntimeError(f"a process that ran tests ended with {code} after its last one")
            return
        item = self.session.items[left[0]]
        told = f"the process that ran it ended with {code}"
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", told, "call")
        self.session.config.hook.pytest_runtest_logreport(report=report)
        self.finished(left[0])
        self.waiting[worker.turn].extendleft(reversed(left[1:]))
        self.start(worker.turn)


class Teller:
    """What a worker runs, it tells of elsewhere."""

    def __init__(self, line: Connection) -> None:
        self.line = line

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Run a test, with all that others do around it."""
        config = item.config
        for report in runtestprotocol(item, log=False, nextitem=nextitem):
            self.line.send(config.hook.pytest_report_to_serializable(config=config, report=report))
        return True

    def asked(self) -> int:
        """The number of the next test, or -1."""
        self.line.send(None)
        return int(self.line.recv())


def work(session: pytest.Session, line: Connection) -> NoReturn:
    """Run tests until there are no more."""
    code = 1
    try:
        config, items = session.config, session.items
        capture: Any = config.pluginmanager.getplugin("capturemanager")
        capture.stop_global_capturing()  # into files that all workers would share
        capture.start_global_capturing()
        capture.suspend_global_capture()
        teller = Teller(line)
        config.pluginmanager.register(teller)
        test = teller.asked()
        while test >= 0:
            following = teller.asked()
            config.hook.pytest_runtest_protocol(
                item=items[test], nextitem=items[following] if following >= 0 else None
            )
            test = following
        config._ensure_unconfigure()  # with a last look at what was left behind
        code = 0
    except (EOFError, ConnectionError, KeyboardInterrupt):
        pass  # nobody wants to know any more
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
