"""Progress on standard error, for work that takes longer than a second."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["ProgressLine"]

PATIENCE = 1.0
"""Seconds after which people begin to wonder."""
PLAIN_EVERY = 5.0
"""Seconds between lines where standard error is not a terminal."""


class ProgressLine:
    """Says what is being done: a moving line on a terminal, a plain one now and then elsewhere.

    Pass it to a `Budget` as `on_progress` and keep it open while the work runs. The moving line
    vanishes when the work is done; work that ends within a second shows nothing.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self._doing: str | None = None
        self._share: float | None = None
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._show: Callable[[], None] | None = None
        self._live: Progress | None = None
        self._said = float("-inf")

    def __call__(self, doing: str, share: float | None = None) -> None:
        """Take a message from the work; safe from any thread."""
        with self._lock:
            self._doing, self._share = doing, share
            if self._show is not None:
                self._show()

    def __enter__(self) -> ProgressLine:
        if not self.quiet:
            self._timer = threading.Timer(PATIENCE, self._begin)
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Take the line away; safe to call more than once."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._show = None
            live, self._live = self._live, None
        if live is not None:
            live.stop()

    def _begin(self) -> None:
        """People begin to wonder: show something from now on."""
        with self._lock:
            if self._timer is None:  # the work ended in this very moment
                return
            self._show = self._move if sys.stderr.isatty() else self._say
            self._show()

    def _say(self) -> None:
        if self._doing is None or time.monotonic() < self._said + PLAIN_EVERY:
            return
        self._said = time.monotonic()
        share = "" if self._share is None else f" ({self._share:.0%})"
        sys.stderr.write(f"sfumato: {self._doing}{share}\n")
        sys.stderr.flush()

    def _move(self) -> None:
        if self._live is None:
            self._live = _moving_line()
            self._live.add_task("", total=None)
            self._live.start()
        (task,) = self._live.tasks
        # `update` cannot take a total back, and work of unknown size has none
        task.total = None if self._share is None else 1.0
        doing = self._doing or "working"
        self._live.update(task.id, description=doing, completed=self._share or 0.0)


def _moving_line() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
