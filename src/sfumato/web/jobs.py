"""Work that takes longer than a page: it tells how far it is, and stops when told."""

from __future__ import annotations

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal

from sfumato.budget import Budget
from sfumato.errors import SfumatoError
from sfumato.web.remedies import told

__all__ = ["Job", "Jobs"]

State = Literal["waiting", "running", "done", "failed", "cancelled"]
KEPT = 100
"""Finished jobs remembered."""


@dataclass(eq=False)
class Job:
    """One piece of work; `number` names it."""

    number: str
    title: str
    after: str
    """The page that shows the outcome."""
    table: str = ""
    keeps: bool = False
    """Whether it can end early with the best it has."""
    state: State = "waiting"
    doing: str = "waiting"
    share: float | None = None
    problem: str | None = None
    began: float | None = None
    """When it came to its turn, by `time.monotonic`."""
    ended: float | None = None
    """When it came to its end, by `time.monotonic`; None of one that never began."""
    budget: Budget = field(default_factory=Budget)

    @property
    def finished(self) -> bool:
        """Whether nothing more will happen."""
        return self.state in ("done", "failed", "cancelled")

    def to_dict(self) -> dict[str, Any]:
        """What the page is told."""
        return {"state": self.state, "doing": self.doing, "share": self.share,
                "problem": self.problem, "after": self.after}  # fmt: skip

    def in_tray(self) -> dict[str, Any]:
        """What every page is told while it runs, and pages that are older once it has ended."""
        lasted = 0.0 if self.began is None else (self.ended or time.monotonic()) - self.began
        return {"number": self.number, "title": self.title, "table": self.table,
                "doing": self.doing, "share": self.share, "keeps": self.keeps,
                "elapsed": round(lasted), "state": self.state}  # fmt: skip


Work = Callable[[Budget], object]


class Jobs:
    """Runs jobs in a few threads; the compiled loops below do not hold Python's lock.

    Jobs of one queue run one after the other and take one thread together, so that work on a
    table never waits for that on another.
    """

    def __init__(self, workers: int = 8) -> None:
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="sfumato-job")
        self._jobs: dict[str, Job] = {}
        self._queues: dict[str, deque[tuple[Job, Work]]] = {}
        """What waits for a job that runs; a queue is there as long as one does."""
        self._lock = threading.Lock()

    def start(
        self,
        title: str,
        after: str,
        work: Work,
        table: str = "",
        keeps: bool = False,
        queue: str | None = None,
    ) -> Job:
        """Run `work` in the background, after what is in its queue already."""
        job = Job(secrets.token_hex(8), title, after, table, keeps)
        job.budget.on_progress = lambda doing, share: self._progress(job, doing, share)
        with self._lock:
            finished = [number for number, old in self._jobs.items() if old.finished]
            for number in finished[: max(0, len(self._jobs) - KEPT)]:
                del self._jobs[number]
            self._jobs[job.number] = job
            if queue is not None and queue in self._queues:
                job.doing = "waiting for other work on this table"
                self._queues[queue].append((job, work))
                return job
            if queue is not None:
                self._queues[queue] = deque()
        self._pool.submit(self._run_queue, queue, job, work)
        return job

    def _run_queue(self, queue: str | None, job: Job, work: Work) -> None:
        """Run a job, and those that came into its queue meanwhile."""
        while True:
            self._run(job, work)
            with self._lock:
                if queue is None or not self._queues[queue]:
                    self._queues.pop(queue or "", None)
                    return
                job, work = self._queues[queue].popleft()

    def find(self, number: str) -> Job | None:
        """A job by its number."""
        return self._jobs.get(number)

    def running(self) -> list[Job]:
        """Jobs that are not finished."""
        with self._lock:
            return [job for job in self._jobs.values() if not job.finished]

    def ended_since(self, moment: float, under: str) -> list[Job]:
        """Jobs that ended after a moment and whose outcome is shown under an address."""
        with self._lock:
            return [
                job
                for job in self._jobs.values()
                if job.finished
                and job.ended is not None
                and job.ended > moment
                and job.after.startswith(under)
            ]

    def cancel(self, job: Job) -> None:
        """Ask a job to stop; one that has not begun never will."""
        job.budget.cancel()
        if job.state == "waiting":
            job.state = "cancelled"

    def finish(self, job: Job) -> None:
        """Ask a job to end with the best it has."""
        job.budget.end()

    def close(self) -> None:
        """Stop everything and wait until it has stopped."""
        for job in self.running():
            self.cancel(job)
        self._pool.shutdown(wait=True, cancel_futures=True)
        for job in self.running():  # those that never began
            job.state = "cancelled"

    @staticmethod
    def _progress(job: Job, doing: str, share: float | None) -> None:
        job.doing, job.share = doing, share

    @classmethod
    def _run(cls, job: Job, work: Work) -> None:
        if job.budget.spent():
            job.state = "cancelled"
            return
        job.began = time.monotonic()
        job.state = "running"
        state = cls._work(job, work)
        job.ended = time.monotonic()  # before anybody sees that it has
        job.state = state

    @staticmethod
    def _work(job: Job, work: Work) -> State:
        """Do it, and say how it ended."""
        try:
            work(job.budget)
        except SfumatoError as error:
            job.problem = told(error)
            # Work that was told to stop may end with any refusal, whether it had heard or not.
            return "cancelled" if job.budget.spent() else "failed"
        except Exception as error:
            job.problem = told(error)
            return "failed"
        return "cancelled" if job.budget.stopped_by == "cancelled" else "done"
