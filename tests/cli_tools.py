"""Runs the command line as a user's shell would see it, without loading it anew each time."""

from __future__ import annotations

import faulthandler
import itertools
import json
import multiprocessing
import os
import random
import select
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from sfumato.cli import app, main


@dataclass(frozen=True)
class Done:
    """What a run of the program left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as the one JSON object it must be."""
        assert self.code in (0, 1), self.err
        assert self.out.count("\n") == 1, "exactly one object on one line"
        return json.loads(self.out)


def sfumato(*arguments: object, stdin: str | bytes | None = None) -> Done:
    """Run ``sfumato`` with these arguments on a terminal of 80 columns."""
    result = CliRunner(env={"COLUMNS": "80", "NO_COLOR": "1"}).invoke(
        app, [str(argument) for argument in arguments], input=stdin, prog_name="sfumato"
    )
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Done(result.exit_code, result.stdout, result.stderr)


PRELOADED = (
    "cli_tools", "killed_house", "killed_writer", "numba", "pyarrow.parquet", "sfumato.cli.party",
    "sfumato.quasi.mask", "sfumato.relational", "sfumato.secure.party", "warmed",
)  # fmt: skip


def forks() -> BaseContext:
    """Makes processes of one that has loaded all they need; there is one of them in each test run.

    Starting Python and loading the package takes a second each time.
    """
    if sys.platform == "win32":  # where nothing can be forked
        return multiprocessing.get_context("spawn")
    from multiprocessing import forkserver

    context = multiprocessing.get_context("forkserver")
    if hasattr(forkserver._forkserver, "shared"):
        return context
    context.set_forkserver_preload(list(PRELOADED))
    path = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *([path] * bool(path))])
    try:
        forkserver.ensure_running()  # else it would not find what lies beside this file
    finally:
        del os.environ["PYTHONPATH"]
        os.environ.update({"PYTHONPATH": path} if path else {})
    return context


def killed_again(
    times: int,
    work: Callable[..., None],
    *arguments: Any,
    context: BaseContext | None = None,
    least: float = 0,
) -> Iterator[None]:
    """Let processes work, each killed at another moment but the first; comes back after each.

    The last argument that `work` gets is an event to set when it begins. `least` is the share of
    its time that each process has.
    """
    context, chance, took = context or forks(), random.Random(0), 0.0
    for turn in range(times):
        began = context.Event()
        process = context.Process(target=work, args=(*arguments, began))
        process.start()
        assert began.wait(240)
        start = time.monotonic()
        # How long it takes is seen once, to spread the others over it.
        process.join(600 if turn == 0 else chance.uniform(least, 1.1) * took)
        took = took or time.monotonic() - start
        process.kill()
        process.join(60)
        yield


def share_forks(environment: dict[str, str]) -> None:
    """Let all workers that are forked from here on have their processes made by one.

    That one is forked from here, too, so that what tests have loaded needs no loading again; the
    rest it loads as soon as somebody asks it for a process. It ends with the last of them.
    """
    from multiprocessing import forkserver, resource_tracker, util

    def forked(_: str, words: list[str], files: list[int]) -> int:
        with warnings.catch_warnings():  # those of libraries that were only imported: they cope
            warnings.filterwarnings("ignore", "This process .* is multi-threaded")
            process = os.fork()
        if process:
            return process
        code = 0
        try:
            faulthandler.disable()
            ends = [2, *sorted(files), os.sysconf("SC_OPEN_MAX")]
            for below, above in itertools.pairwise(ends):  # its own hold on what tells of its end
                os.closerange(below + 1, above)
            os.environ.update(environment)
            select.select(files, [], [])
            exec(words[-1])
        except Exception:
            code = 1
            traceback.print_exc()
        finally:
            os._exit(code)

    server: Any = forkserver._forkserver
    forkserver.set_forkserver_preload(list(PRELOADED))
    resource_tracker.ensure_running()
    starting, util.spawnv_passfds = util.spawnv_passfds, forked  # type: ignore[attr-defined]
    try:
        forkserver.ensure_running()
    finally:
        util.spawnv_passfds = starting  # type: ignore[attr-defined]
    server.shared = True
    server.ensure_running = lambda: None  # it asks after its child, which is none of a worker's


class Program:
    """``sfumato`` with these arguments in a process of its own, on a terminal of 80 columns.

    With `code`, a program of Python that finds libraries loaded, and nothing of the package or of
    what lies beside this file.
    """

    def __init__(self, *arguments: object, code: str | None = None) -> None:
        self._said = tempfile.TemporaryDirectory()
        self._places = [Path(self._said.name, name) for name in ("out", "err")]
        words = [str(argument) for argument in arguments]
        environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1"}
        started = words, self._places, environment, os.getcwd(), code
        self._process = forks().Process(target=_run, args=started)
        self._process.start()

    @property
    def returncode(self) -> int | None:
        """How it ended; None before that."""
        return self._process.exitcode

    def communicate(self, timeout: float) -> tuple[str, str]:
        """Wait for its end; what it printed, and what it said beside that."""
        self._process.join(timeout)
        assert self._process.exitcode is not None, "it never ends"
        out, err = (place.read_text(encoding="utf-8") for place in self._places)
        self._said.cleanup()
        return out, err


def _run(
    words: list[str], places: list[Path], environment: dict[str, str], folder: str, code: str | None
) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for number, place in enumerate(places, 1):
        os.dup2(os.open(place, os.O_WRONLY | os.O_CREAT, 0o600), number)
    if code is None:
        sys.argv = ["sfumato", *words]
        main()
        return
    sys.argv = ["-c", *words]
    for name, module in list(sys.modules.items()):
        beside = str(getattr(module, "__file__", "")).startswith(str(Path(__file__).parent))
        if beside or name.partition(".")[0] == "sfumato":
            del sys.modules[name]
    exec(code, {"__name__": "__main__"})
