"""A process that compiles for this one, where memory is limited.

Numba and LLVM keep what they load and most of what they make while they compile, up to 150 MiB: far
more than compiled code takes. Another process gives all of that back when it ends.
"""

from __future__ import annotations

import atexit
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.spawn import get_executable
from typing import Any, TypeVar, cast

from sfumato.errors import UnfinishedError

T = TypeVar("T")

_SERVES = """
import pickle, sys
sys.path[:] = pickle.load(sys.stdin.buffer)
from sfumato.kernels.compiler_process import serve
serve()
"""


def made_apart(function: Callable[..., T], *arguments: Any) -> T | None:
    """What a function of a module gives in a process that compiles.

    None where it fails there: it is to run here, where its error has its place.
    """
    asked = pickle.dumps((function, arguments))
    with _Process.turn:
        for _ in range(2):  # one that was idle may have ended
            with suppress(OSError):  # nor can one be started everywhere
                if answer := _Process.running().answer(asked):
                    return cast(T | None, answer[0])
    raise UnfinishedError(
        "loops could not be compiled by a process of their own, as a memory limit needs it",
        remedy="Run the same once without the limit: what it compiles is kept.",
    )


class _Process:
    """A process that compiles; it ends when it is asked for nothing, or nobody is left to ask."""

    turn = threading.Lock()
    idle = 2.0
    """Seconds that it waits to be asked."""
    _running: _Process | None = None

    @classmethod
    def running(cls) -> _Process:
        """The one that runs; it is started if there is none, or only that of who forked this."""
        if cls._running is None or cls._running._owner != os.getpid():
            cls._running = cls()
        return cls._running

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._process = subprocess.Popen(
            [get_executable(), "-P", "-c", _SERVES],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # whoever interrupts the program does not interrupt it
        )
        atexit.register(self.end)
        self._unsent = pickle.dumps(sys.path)

    def answer(self, asked: bytes) -> tuple[Any] | None:
        """What it answers; None, and it has ended, if nothing."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        answer: tuple[Any] | None = None
        try:
            self._process.stdin.write(self._unsent + asked)
            self._process.stdin.flush()
            self._unsent = b""
            answer = (pickle.load(self._process.stdout),)
        except (OSError, EOFError, pickle.UnpicklingError):
            pass
        finally:
            if answer is None:  # also where somebody interrupts: its answer would come too late
                self.end()
        return answer

    def end(self) -> None:
        """End it."""
        atexit.unregister(self.end)
        if self._owner == os.getpid():  # a copy of this process leaves it alone
            self._process.kill()
            with suppress(OSError), self._process:  # its pipes are closed, and its end awaited
                pass
        if _Process._running is self:
            _Process._running = None


def _renew() -> None:
    """Let the copy of a process not wait for threads that it has no copy of."""
    _Process.turn = threading.Lock()


if hasattr(os, "register_at_fork"):  # where processes can be copied
    os.register_at_fork(after_in_child=_renew)


def serve() -> None:
    """Answer on standard output what is asked on standard input."""
    while True:
        bored = threading.Timer(_Process.idle, os._exit, [0])
        bored.daemon = True
        bored.start()
        try:
            function, arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        finally:
            bored.cancel()
        try:
            answer = pickle.dumps(function(*arguments))
        except MemoryError:
            raise
        except Exception:
            answer = pickle.dumps(None)
        sys.stdout.buffer.write(answer)
        sys.stdout.buffer.flush()
