"""How a verb runs: its table and budget, progress on standard error, its answer and its end."""

from __future__ import annotations

import inspect
import json
import os
import shlex
import sys
import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from sfumato.budget import Budget, parse_memory, parse_time, reuse_memory
from sfumato.cli import VerbGroup, _options, guarded
from sfumato.cli._options import READING, option, split_columns
from sfumato.errors import EngineError, ParameterError, spelling
from sfumato.fields import parameters
from sfumato.files import may_be_dataset
from sfumato.results import Result
from sfumato.wording import visible, visible_json

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress
    from rich.table import Table as Listed
    from rich.text import Text

    from sfumato.release import Release
    from sfumato.tables import Table


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

    def __exit__(self, *_: object) -> None:
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
        sys.stderr.write(f"sfumato: {visible(self._doing)}{share}\n")
        sys.stderr.flush()

    def _move(self) -> None:
        if self._live is None:
            self._live = _moving_line()
            self._live.add_task("", total=None)
            self._live.start()
        (task,) = self._live.tasks
        # `update` cannot take a total back, and work of unknown size has none
        task.total = None if self._share is None else 1.0
        doing = visible(self._doing or "working")
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


@dataclass
class Run:
    """One run of a verb.

    `budget` goes into whatever takes one; `table` is the table named on the command line, opened
    when first asked for; `show` prints the result. `parse` is what columns are turned into then; a
    settings file may say it before options do. `given` are the verb's own options and groups.
    """

    budget: Budget
    as_json: bool = False
    source: str | None = None
    exclude: Sequence[str] | None = None
    reading: dict[str, Any] = field(default_factory=dict)
    parse: dict[str, str] = field(default_factory=dict)
    progress: ProgressLine = field(default_factory=ProgressLine)
    given: dict[str, Any] = field(default_factory=dict)
    _opened: list[Table] = field(default_factory=list)

    @cached_property
    def table(self) -> Table:
        """The table named on the command line, without the excluded columns."""
        assert self.source is not None
        table = _opener()
        hidden = _options.split_columns(self.exclude)
        self.parse |= _options.parse_kinds(self.reading.get("parse"))
        reading = {**self.reading, "parse": self.parse}
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            opened = table(self.source, exclude=hidden, budget=self.budget, **reading)
        for one in said:
            sys.stderr.write(f"sfumato: {one.message}\n")
        self._opened.append(opened)
        return opened

    @cached_property
    def names_dataset(self) -> bool:
        """Whether the table named on the command line is a dataset."""
        if not may_be_dataset(self.source):
            return False
        from sfumato.relational import is_dataset

        return is_dataset(self.source)

    @cached_property
    def console(self) -> Console:
        """Standard output, drawn by rich; column names are never read as markup."""
        from rich.console import Console

        return Console(highlight=False, markup=False, emoji=False)

    def open(self, source: str, parse: Mapping[str, str] | None = None) -> Table:
        """Open another table with the options of this run; it is closed when the run ends.

        What is said about text files is said of those among the tables, what is parsed only of the
        table that `parse` is given for.
        """
        table = _opener()
        named = [name for name in self.reading if name not in ("parse", "unparsed")]
        if not _may_be_text(source):
            named = ["engine"]
        reading = {name: self.reading[name] for name in named if name in self.reading}
        if parse:
            reading |= {"parse": parse, "unparsed": self.reading.get("unparsed", "stop")}
        opened = table(source, budget=self.budget, **reading)
        self._opened.append(opened)
        return opened

    def asked(self, *left_out: str, **read: Any) -> dict[str, Any]:
        """What was asked, as parameters of the Python function that answers: they have the names
        of the verb's own options, and of those of its groups.

        Parameters
        ----------
        left_out
            Options that this function does not take.
        read
            What stands in place of an option that was written in another form, or besides.
        """
        told: dict[str, Any] = {}
        for name, value in self.given.items():
            told |= vars(value) if is_dataclass(value) else {name: value}
        kept = {name: value for name, value in told.items() if name not in left_out}
        return {**kept, **read, "budget": self.budget}

    def columns(self, given: Sequence[str] | None) -> tuple[str, ...] | None:
        """The columns that an option names, all known to the table; None if it was not used."""
        names = _options.split_columns(given, self.table.columns if given else ())
        hidden = _options.split_columns(self.exclude) or []
        for name in names or ():
            if name in hidden:
                raise ParameterError(
                    f"column `{name}` is asked for and excluded at the same time",
                    remedy="Take it out of --exclude.",
                )
        return None if names is None else self.table.require(names)

    def show(self, result: Result, view: Callable[[Any], RenderableType]) -> None:
        """Print a result: as one JSON object, or as `view` draws it."""
        self.progress.close()
        if sys.stdout is None:
            raise EngineError(
                "standard output is closed, so there is no place for the answer",
                remedy="Send it to a file, e.g. > answer.txt.",
            )
        if self.as_json:
            told = json.dumps(result.answer(), ensure_ascii=False, allow_nan=False)
            sys.stdout.write(visible_json(told) + "\n")
        else:
            # paths and commands stay whole
            self.console.print(_Visible(view(result)), crop=False)
        sys.stdout.flush()

    def close(self) -> None:
        """Close every table this run opened."""
        while self._opened:
            self._opened.pop().close()


def listed(headings: Sequence[str], rows: Iterable[Sequence[Any]] = ()) -> Listed:
    """A table of an answer; columns whose heading begins with ``>`` hold numbers."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in headings:
        side: Any = "right" if heading.startswith(">") else "left"
        table.add_column(heading.removeprefix(">"), justify=side, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def figures(rows: Iterable[Sequence[Any]] = (), *, first: bool = True) -> Listed:
    """Lines of an answer that say what each figure is; it stands `first`, or after its name."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    if first:
        table.add_column(justify="right", style="bold")
    for row in rows:
        table.add_row(*row)
    return table


def titled(heading: str, *body: RenderableType) -> list[RenderableType]:
    """A part of an answer: its heading after an empty line, and what stands below it."""
    from rich.text import Text

    return ["", Text(heading, style="bold"), *body]


def warned(warnings: Iterable[str]) -> list[Text]:
    """What to keep in mind, a line each."""
    from rich.text import Text

    return [Text(f"! {warning}", style="yellow") for warning in warnings]


def noted(release: Release) -> list[Text]:
    """What to keep in mind of a release: that its rows were sorted, and its warnings."""
    from rich.text import Text

    said = warned(release.warnings)
    if release.mapping is None or not release.mapping.sorted:
        return said
    why = "give more away" if release.asked.get("sort") else "show whose they are"
    return [Text(f"Rows are sorted by their cells: the original order could {why}."), *said]


class _Visible:
    """Whatever a verb draws, with control characters of names and values written out."""

    def __init__(self, drawn: RenderableType) -> None:
        self._drawn = drawn

    def __rich_console__(self, console: Console, options: Any) -> Iterator[Any]:
        from rich.segment import Segment

        for segment in console.render(self._drawn, options):
            if segment.control:
                yield segment
            else:
                yield Segment(visible(segment.text), segment.style)


def _may_be_text(source: str) -> bool:
    """Whether a table could be a text file, judged by its name."""
    others = (".parquet", ".pq", ".arrow", ".feather", ".ipc")
    return not (source.lower().endswith(others) or "://" in source or os.path.isdir(source))


def verb(function: Callable[..., None]) -> Callable[..., None]:
    """Make a command of a function that takes a `Run` first and its own options after it.

    A parameter that is a dataclass, or made from declared parameters (see `_options.Asked`), stands
    for a group of options. Adds --json, --quiet, --time, --memory and --threads.
    """
    return _command(function, _COMMON)


def table_verb(function: Callable[..., None]) -> Callable[..., None]:
    """Like `verb`, for a verb whose first argument is a table, found in `run.table`.

    Adds TABLE, --exclude, --engine and the options for reading text files.
    """
    return _command(function, _TABLE + _COMMON)


def _parameter(name: str, kind: Any, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


_COMMON = (
    _parameter("time", _options.Time),
    _parameter("memory", _options.Memory),
    _parameter("threads", _options.Threads),
    _parameter("json", _options.Json, False),
    _parameter("quiet", _options.Quiet, False),
)
_READING = (
    _parameter("engine", _options.UseEngine, "auto"),
    _parameter("delimiter", _options.Delimiter),
    _parameter("encoding", _options.Encoding),
    _parameter("null_values", _options.NullText),
    _parameter("header", _options.Header, True),
    _parameter("parse", _options.Parse),
    _parameter("unparsed", _options.Unparsed, "stop"),
)
"""Named as `sfumato.table` names them."""
_TABLE = (
    _parameter("source", _options.Source, inspect.Parameter.empty),
    _parameter("exclude", _options.Exclude),
    *_READING,
)


def _command(
    function: Callable[..., None], added: Sequence[inspect.Parameter]
) -> Callable[..., None]:
    _, *declared = inspect.signature(function, eval_str=True).parameters.values()
    groups = {p.name: p.annotation for p in declared if _group(p) is not None}
    of_group = {p.name: [one.name for one in _group(p) or ()] for p in declared}
    own = [option for parameter in declared for option in _options_of(parameter)]
    # a verb's own option takes the place of a shared one of the same name
    taken = {option.name for option in own}
    added = [parameter for parameter in added if parameter.name not in taken]
    shared = {parameter.name for parameter in added}
    plain = {p.name for p in declared if _group(p) is None}

    def command(**given: Any) -> None:
        common = {name: given.pop(name) for name in shared}
        with (
            _naming_options(plain),
            guarded(as_json=common["json"]),
            ProgressLine(quiet=common["quiet"]) as progress,
        ):
            run = Run(
                budget=_budget(common, progress),
                as_json=common["json"],
                source=common.get("source"),
                exclude=common.get("exclude"),
                reading={p.name: common[p.name] for p in _READING if p.name in common},
                progress=progress,
            )
            for name, group in groups.items():
                given[name] = group(**{one: given.pop(one) for one in of_group[name]})
            run.given = given
            try:
                with _on_cores(run.budget):
                    function(run, **given)
            finally:
                run.close()

    # what typer reads; the table comes first, then the verb's own options, then the shared ones
    ordered = sorted(
        [*own, *added], key=lambda p: (p.default is not inspect.Parameter.empty, p not in own)
    )
    ordered = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in ordered]
    command.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in ordered}
    command.__name__ = function.__name__
    command.__doc__ = _flowing(inspect.getdoc(function) or "")
    return command


@contextmanager
def _naming_options(own: set[str]) -> Iterator[None]:
    """Let errors name options, as long as a verb of the command line runs."""
    before = spelling.set(partial(as_option, own=own))
    try:
        yield
    finally:
        spelling.reset(before)


@contextmanager
def _on_cores(budget: Budget) -> Iterator[None]:
    """Use so many threads at most, in loops of our own and in Arrow's."""
    with budget.at_work():
        if budget.threads is None:
            yield
            return
        import pyarrow as pa

        before = pa.cpu_count()
        pa.set_cpu_count(budget.threads)
        try:
            yield
        finally:
            pa.set_cpu_count(before)


def _opener() -> Callable[..., Table]:
    """What opens tables."""
    from sfumato.tables import table
    from sfumato.tables.source import spare_pandas

    if VerbGroup.own_process:
        spare_pandas()
    return table


def _options_of(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    """The options that a verb's parameter stands for: itself, or those of its group."""
    return _group(parameter) or [parameter]


def as_option(name: str, value: Any, own: Collection[str] = ()) -> str:
    """A parameter as it is written on the command line.

    `own` are the options that a verb declares itself: they may have the name of a parameter of
    `anonymize` that is written in another way.

    Examples
    --------
    >>> as_option("sensitive", ["diagnosis"]), as_option("k", 5), as_option("marker", "?")
    ('--sensitive diagnosis', '-k 5', '--option marker=?')
    """
    from sfumato.anonymization.request import RequestFields

    one = None if name in own else parameters(RequestFields).get(name)
    if isinstance(value, Mapping):
        value = [f"{key}={item}" for key, item in value.items()]
    text = ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    if not text or not set(";|&<>").isdisjoint(text):  # a shell would end the command there
        text = shlex.quote(text)
    if one is not None and one.field.flag is None:
        return f"--option {name}={text}"
    name = name.removeprefix("must_").removesuffix("_values")  # --drop of mask, and --null
    flag = f"--{name.replace('_', '-')}" if one is None else str(one.field.flag)
    if isinstance(value, bool):
        return flag.split("/")[0 if value or "/" not in flag else 1]
    return f"{flag} {text}"


def _group(parameter: inspect.Parameter) -> list[inspect.Parameter] | None:
    """The options of a parameter that stands for a group of them."""
    group = parameter.annotation
    if hasattr(group, "options"):
        options: list[inspect.Parameter] = group.options()
        return options
    if not is_dataclass(group):
        return None
    kinds = get_type_hints(group, include_extras=True)
    return [
        _parameter(
            one.name,
            kinds[one.name],
            inspect.Parameter.empty if one.default is MISSING else one.default,
        )
        for one in fields(group)
    ]


def _flowing(text: str) -> str:
    """Paragraphs without the line ends of the source, so that they fill the terminal."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _budget(common: dict[str, Any], progress: ProgressLine) -> Budget:
    if common["memory"] is None and VerbGroup.own_process:
        reuse_memory()
    return Budget(
        seconds=None if common.get("time") is None else parse_time(common["time"]),
        memory=None if common["memory"] is None else parse_memory(common["memory"]),
        threads=common["threads"],
        on_progress=progress,
    )


Stream = Annotated[
    bool | None,
    option(
        "--stream/--no-stream",
        "Read the table once and keep nothing of it but a sample; by default for standard "
        "input if a sample is enough. Cells of text files are then compared as text.",
        READING,
    ),
]


def read_as_stream(run: Run, wanted: bool | None, *, once: bool) -> None:
    """Open the table of a run as a stream if that is wanted, or likely and possible.

    Parameters
    ----------
    wanted
        What the user said; None where nothing was said.
    once
        Whether one pass is enough for what is asked.
    """
    if run.reading.get("parse") and wanted is None:
        return
    if not (once and run.source == "-" if wanted is None else wanted):
        return
    if run.reading.get("parse"):
        raise ParameterError(
            "columns of a stream cannot be parsed: their cells pass by once",
            remedy="Leave out --parse or --stream.",
        )
    from sfumato.tables.open import stream

    assert run.source is not None
    left_out = ("engine", "parse", "unparsed")
    reading = {name: value for name, value in run.reading.items() if name not in left_out}
    run.table = stream(run.source, exclude=split_columns(run.exclude), **reading)
