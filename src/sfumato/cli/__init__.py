"""All verbs of the command line, in the order in which ``sfumato --help`` lists them.

A verb is one line here and a command of a module beside this one. The module is imported when its
verb is used, so a verb costs nothing to those who use another.

Whatever goes wrong in a verb becomes a message on standard error and an exit code: 0 done and
guarantee met; 1 a guarantee is not met; 2 bad usage or bad input; 3 could not finish; 128 + n
stopped by signal n (130 interrupted, 143 terminated, 141 the reader of the output is gone).
"""

from __future__ import annotations

import _thread
import atexit
import errno
import gc
import importlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from sfumato._version import __version__
from sfumato.wording import visible, visible_json

if TYPE_CHECKING:
    from contextvars import Token
    from pathlib import Path

    from sfumato.errors import SfumatoError

__all__ = [
    "VERBS",
    "Verb",
    "app",
    "explain",
    "guarded",
    "main",
    "program",
]


LOOK = "Who can be found"
BLUR = "Blur it"
PROVE = "Prove it"
TOGETHER = "Compute together without showing it"
HELPERS = "Helpers"


@dataclass(frozen=True)
class Verb:
    """One verb: its name, the module in ``sfumato.cli`` whose `app` has it, and its place."""

    name: str
    module: str
    panel: str
    summary: str


VERBS = (
    Verb("scan", "scan", LOOK, "First look: who can be found, and by which columns."),
    Verb("measure", "measure", LOOK, "How well a set of columns tells people apart."),
    Verb(
        "key",
        "keys",
        LOOK,
        "A small set of columns that identifies people; the smallest with --proven.",
    ),
    Verb("keys", "keys", LOOK, "All minimal sets of columns that identify people."),
    Verb("violations", "keys", LOOK, "Which column sets break k-anonymity."),
    Verb("uniques", "keys", LOOK, "The rows that few columns single out."),
    Verb("risk", "measure", LOOK, "How likely an attacker is to find somebody."),
    Verb("mask", "mask", BLUR, "Publish many columns with no quasi-identifier among them."),
    Verb("anonymize", "anonymize", BLUR, "Blur until k-anonymity and its kin provably hold."),
    Verb("verify", "verify", PROVE, "Check a table or a release."),
    Verb("utility", "measure", PROVE, "What a release cost, compared with its original."),
    Verb("keygen", "keygen", PROVE, "Make a key pair that signs certificates."),
    Verb("population", "population", LOOK, "Who is unique in the population behind the table."),
    Verb("attack", "population", PROVE, "Join a release with known people and count who is found."),
    Verb("safe-harbor", "mask", BLUR, "De-identify by HIPAA's Safe Harbor."),
    Verb("party", "party", TOGETHER, "Two parties compute together without showing their rows."),
    Verb("joint", "joint", TOGETHER, "Models across institutions that do not share rows."),
    Verb("hierarchy", "hierarchy", HELPERS, "Show and make generalization hierarchies."),
    Verb("report", "report", PROVE, "One page to look at: who can be found, and what to do."),
    Verb("serve", "report", PROVE, "The workbench in your browser, on this machine only."),
    Verb("datasets", "datasets", HELPERS, "Save public tables to try things on."),
    Verb("paper", "datasets", HELPERS, "Reproduce the tables and figures of a paper."),
    Verb("demo-data", "datasets", HELPERS, "Make a synthetic hospital table to try things on."),
)


class VerbGroup(TyperGroup):
    """Lists verbs from their one-line summaries; imports a verb's module only to run it."""

    own_process = False
    """Whether nothing runs in this process but the command line."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.verbs = {verb.name: verb for verb in VERBS}
        for verb in VERBS:
            self.add_command(TyperCommand(verb.name, help=verb.summary, rich_help_panel=verb.panel))

    def invoke(self, ctx: Any) -> Any:
        """Run a verb; complaints about its arguments quote no password of an address."""
        as_json = "--json" in (*getattr(ctx, "_protected_args", ()), *ctx.args)
        try:
            return super().invoke(ctx)
        except Exception as error:
            said = getattr(error, "message", None)  # of a complaint about arguments
            if isinstance(said, str) and "://" in said:
                error.message = said.partition("://")[0] + "://…"  # type: ignore[attr-defined]
            if hasattr(error, "format_message") and as_json:
                from sfumato.errors import ParameterError

                verb = f"sfumato {ctx.invoked_subcommand or ''}".strip()
                what = error.format_message().rstrip(".")
                explain(ParameterError(what, remedy=f"See {verb} --help."), as_json=True)
                raise typer.Exit(2) from None
            raise

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The verb itself, in place of the line that stands for it in the list."""
        name, found, rest = super().resolve_command(ctx, args)
        if name in self.verbs:
            found = load(self.verbs[name])
        if self.own_process:
            gc.enable()
        return name, found, rest


@cache
def load(verb: Verb) -> Any:
    """The command (or group of commands) of a verb, from its module."""
    module = importlib.import_module(f"sfumato.cli.{verb.module}")
    command = typer.main.get_command(module.app)
    command = getattr(command, "commands", {}).get(verb.name, command)  # of several in a module
    command.name = verb.name
    without_values(command)
    return command


def without_values(command: Any) -> None:
    """Let help show flags as they are written; typer would add the type of a value they lack."""
    for parameter in command.params:
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""
    for below in getattr(command, "commands", {}).values():
        without_values(below)


app = typer.Typer(
    name="sfumato",
    cls=VerbGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
    epilog="Every verb explains itself: [bold]sfumato scan --help[/bold]",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sfumato {__version__}")
        raise typer.Exit()


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Find who can be found in a table, blur it just enough, and prove that it worked."""


_MULTIPLIES = (["joint"], ["party"], ["serve"], ["paper"])
"""Verbs with matrices: for the others numpy's threads would only spin, a tenth of a second each."""


def main() -> None:
    """Run the command line."""
    from sfumato.budget import share_memory

    if sys.argv[1:2] not in _MULTIPLIES:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    VerbGroup.own_process = True
    gc.disable()  # until the verb is loaded: modules are no garbage
    sys.setswitchinterval(_SECONDS_ALONE)
    share_memory()
    app(prog_name="sfumato")


def program() -> None:
    """Run the command line and end the process at once, where nothing is left to do.

    The interpreter would take itself apart first, object by object: a third of a second where
    compiled loops were loaded.
    """
    try:
        main()
    except SystemExit as end:
        others = [thread for thread in threading.enumerate() if not thread.daemon]
        if len(others) > 1 or not isinstance(end.code, int | None):
            raise
        atexit._run_exitfuncs()
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (OSError, ValueError, AttributeError):  # the interpreter has its own words for that
            raise end from None
        os._exit(end.code or 0)


# How every verb ends

_UNREADABLE = (errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR)
_READER_GONE = 128 + 13
"""SIGPIPE, which has no name on Windows."""
_SECONDS_ALONE = 0.0005
"""Time that a thread may keep the interpreter, e.g. to import, while others want to read on."""
_SECONDS_TO_RETURN = 0.05
"""Time for a callback to return to the compiled code that called it."""
_SECONDS_TO_HEED = 1.0
"""After this time a signal that nobody is heeding was swallowed."""


@contextmanager
def guarded(*, as_json: bool) -> Iterator[None]:
    """Run the body; end the program with the right code if anything goes wrong in it."""
    with _Signals() as signals:
        try:
            yield
        except (typer.Exit, typer.Abort):
            raise
        except BrokenPipeError:
            # the interpreter would complain when it flushes standard output at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(_READER_GONE) from None
        except (Exception, KeyboardInterrupt) as error:
            if signals.received is not None or isinstance(error, KeyboardInterrupt):
                _say(" ".join(["Interrupted.", *signals.told()]))
                # Python remembers a signal that came within an `exec` of some library, and would
                # die of Ctrl-C at its end, whichever it was; until the next one.
                exec("")
                raise typer.Exit(128 + (signals.received or signal.SIGINT)) from None
            known = _known(error)
            if known is None and os.environ.get("SFUMATO_DEBUG"):
                raise
            told = known or _unexpected(error)
            if finished := signals.told():  # its answer could not be shown
                told.remedy = " ".join([*filter(None, [told.remedy]), *finished])
            explain(told, as_json=as_json)
            raise typer.Exit(told.exit_code) from None


class _Signals:
    """Turns Ctrl-C and termination into an exception, so that all that is held is let go.

    Libraries may turn that exception into one of their own; `received` remembers the truth. They
    may also swallow it, and it cannot pass through compiled code that called back into Python:
    where it was lost on the way, the signal is delivered again, until it arrives where it can be
    heeded.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[signal.Signals, Any] = {}
        self._unraisable: Callable[[Any], Any] = sys.unraisablehook
        self._again: threading.Timer | None = None
        self._over = False
        self._published: list[str] = []
        self._before_us: Token[Callable[[Path], None]] | None = None

    def told(self) -> list[str]:
        """What was finished before the end came."""
        return [f"The release beside {path} is there, and whole." for path in self._published]

    def __enter__(self) -> _Signals:
        from sfumato.files import published

        self._before_us = published.set(lambda path: self._published.append(str(path)))
        for number in (signal.SIGINT, signal.SIGTERM):
            ignored = signal.getsignal(number) is signal.SIG_IGN
            try:
                if not ignored:
                    self._before[number] = signal.signal(number, self._stop)
            except ValueError:  # only the main thread may; elsewhere somebody else takes care
                break
        self._unraisable, sys.unraisablehook = sys.unraisablehook, self._lost
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        if self._again is not None:
            self._again.cancel()
        from sfumato.files import published

        if self._before_us is not None:
            published.reset(self._before_us)
        sys.unraisablehook = self._unraisable
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        self._remind(_SECONDS_TO_HEED)
        raise KeyboardInterrupt

    def _lost(self, lost: Any) -> None:
        """What Python calls for an exception that could not go anywhere."""
        if self.received is None or not issubclass(lost.exc_type, KeyboardInterrupt):
            self._unraisable(lost)
            return
        # not at once: the signal would arrive in this very function, and be lost again
        self._remind(_SECONDS_TO_RETURN)

    def _remind(self, seconds: float) -> None:
        """Deliver the signal again after some time."""
        if self._again is not None:
            self._again.cancel()
        self._again = threading.Timer(seconds, self._deliver)
        self._again.daemon = True
        self._again.start()

    def _deliver(self) -> None:
        """Runs beside the main thread, and lets it clean up in peace."""
        if self._over or self.received is None:
            return
        main = threading.main_thread().ident
        assert main is not None
        if _handles_an_exception(main):
            self._remind(_SECONDS_TO_HEED)
        elif sys.platform == "win32":
            _thread.interrupt_main(self.received)
        else:  # a true signal, which also wakes it where it sleeps
            signal.pthread_kill(main, self.received)


def _handles_an_exception(thread: int) -> bool:
    """Whether it is inside of an ``except`` or ``finally`` that an exception led to."""
    handled = sys._current_exceptions().get(thread)
    return handled not in (None, (None, None, None))  # the latter before Python 3.12


def _known(error: BaseException) -> SfumatoError | None:
    """The error in our own words, where we have some."""
    from sfumato.errors import EngineError, SfumatoError, SourceError
    from sfumato.files import unreadable

    if isinstance(error, SfumatoError):
        return error
    if isinstance(error, MemoryError):
        return EngineError(
            "there is not enough memory", remedy="Try --engine duckdb, or a lower --memory."
        )
    if not isinstance(error, OSError):
        return None
    where = None if error.filename is None else str(error.filename)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return EngineError("the disk is full", where=where, remedy="Free some space and try again.")
    if where is not None and error.errno in _UNREADABLE:
        reason, remedy = unreadable(where, error)
        return SourceError(reason, where=where, remedy=remedy)
    reason = (error.strerror or type(error).__name__).lower()
    return EngineError(reason, where=where, remedy="Check the disk, and try again.")


def _unexpected(error: BaseException) -> SfumatoError:
    """Say where, but not what: the messages of other libraries may quote cells."""
    from sfumato.errors import SfumatoError

    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "an unknown place"
    if trace is not None:
        where = f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"
    return SfumatoError(
        f"an unexpected {type(error).__name__} at {where}",
        remedy="Please report it; SFUMATO_DEBUG=1 prints the whole story (it may quote cells).",
    )


def explain(error: SfumatoError, *, as_json: bool) -> None:
    """Say what went wrong on standard error, for people or for programs."""
    if not as_json:
        _say(str(error))
        return
    story = {
        "kind": type(error).__name__,
        "what": error.what,
        "where": error.where,
        "remedy": error.remedy,
        "exit_code": error.exit_code,
    }
    sys.stderr.write(visible_json(json.dumps({"error": story}, ensure_ascii=False)) + "\n")


def _say(message: str) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(Text.assemble(("sfumato: ", "bold red"), visible(message)))
