"""Progress on standard error, for work that takes longer than a second."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["ProgressLine"]

PATIENCE = 1.0
"""Seconds after which people begin to wonder."""
PLAIN_EVERY = 5.0
"""Seconds between lines about the same work where standard error is not a terminal."""


class ProgressLine:
    """Says what is being done: a moving line on a terminal, plain lines elsewhere.

    Pass it to a `Budget` as `on_progress` and keep it open while the work runs. The line vanishes
    when the work is done; work that ends within a second shows nothing.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self._doing = "Working"
        self._share: float | None = None
        self._started = time.monotonic()
        self._said = ("", 0.0)
        self._lock = threading.Lock()
        self._live: Progress | None = None
        self._task: TaskID | None = None
        self._timer: threading.Timer | None = None

    def __call__(self, doing: str, share: float | None = None) -> None:
        """Take a message from the work; safe from any thread."""
        with self._lock:
            self._doing, self._share = doing, share
            if self._live is not None and self._task is not None:
                # `update` cannot take a total back, and unknown shares have none
                self._live.tasks[self._task].total = None if share is None else 1.0
                self._live.update(self._task, description=doing, completed=share or 0.0)
            elif self._timer is None and not self.quiet:
                self._say_plainly()

    def _say_plainly(self) -> None:
        now = time.monotonic()
        doing, said_at = self._said
        if now - self._started < PATIENCE or (doing == self._doing and now < said_at + PLAIN_EVERY):
            return
        self._said = (self._doing, now)
        share = "" if self._share is None else f" ({self._share:.0%})"
        sys.stderr.write(f"sfumato: {self._doing}{share}\n")
        sys.stderr.flush()

    def _begin(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        live = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        with self._lock:
            if self._timer is None:  # closed in the meantime
                return
            total = None if self._share is None else 1.0
            self._task = live.add_task(self._doing, total=total)
            live.update(self._task, completed=self._share or 0.0)
            self._live = live
            live.start()

    def __enter__(self) -> ProgressLine:
        if not self.quiet and sys.stderr.isatty():
            self._timer = threading.Timer(PATIENCE, self._begin)
            self._timer.daemon = True
            self._timer.start()
        return self

    def close(self) -> None:
        """Take the line away; safe to call more than once."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self.quiet = True
            live, self._live = self._live, None
        if live is not None:
            live.stop()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
