"""Options that mean the same in every verb, those made from declared parameters, and how lists of
columns are written.
"""

from __future__ import annotations

import contextlib
import csv
import inspect
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin

import typer
from typer.core import TyperCommand

from sfumato import fields
from sfumato.errors import ParameterError
from sfumato.files import read_text, refuse_other_than_file, require_folder

READING = "Reading the table"
LIMITS = "Limits"
PRINTING = "Printing"


def option(usage: str, help: str, panel: str | None = None, **more: Any) -> Any:
    """An option that has no value unless it is given; `usage` is as in ``--columns -c A,B,…``."""
    return setting(usage, help, panel, show_default=False, **more)


def setting(usage: str, help: str, panel: str | None = None, **more: Any) -> Any:
    """An option with a value of its own, which the help shows."""
    parts = usage.split()
    names = [part for part in parts if part.startswith("-")]
    metavar = " ".join(parts[len(names) :]) or None
    return typer.Option(*names, metavar=metavar, help=help, rich_help_panel=panel, **more)


def argument(metavar: str, help: str) -> Any:
    """What is given without a name."""
    return typer.Argument(metavar=metavar, show_default=False, help=help)


def flag(usage: str, help: str, panel: str | None = None) -> Any:
    """An option that is on or off."""
    return setting(usage, help, panel)


EngineChoice = Literal["auto", "memory", "duckdb"]
"""Where the rows of a local table are worked on."""
Measure = Literal["key", "distinct", "separation"]
"""What a set of columns must do to identify."""
Measuring = Annotated[
    Measure, typer.Option(help="Tell all rows apart, or reach a ratio of classes or pairs.")
]
Source = Annotated[
    str,
    argument(
        "TABLE",
        "CSV, TSV, Parquet, Arrow, Excel, SPSS, Stata, SAS, SQLite, JSON, ORC or Avro file "
        "(text also .gz, .zst, .bz2, .lz4; a folder or glob of Parquet), "
        "[bold]-[/bold] for standard input, or postgresql://…#schema.table.",
    ),
]
Columns = Annotated[
    list[str] | None,
    option("--columns -c A,B,…", "Columns to look at, separated by commas; all by default."),
]
Person = Annotated[
    str | None,
    option(
        "--person COLUMN", "The column that tells persons apart: persons are counted, not rows."
    ),
]
Exclude = Annotated[
    list[str] | None, option("--exclude -x A,B,…", "Columns to leave out.", READING)
]
UseEngine = Annotated[
    EngineChoice,
    setting(
        "--engine",
        "Where a local table is processed; [bold]auto[/bold] means memory if it fits.",
        READING,
    ),
]
Delimiter = Annotated[
    str | None,
    option(
        "--delimiter CHAR",
        "What separates the cells of a text file. Detected by default.",
        READING,
    ),
]
Encoding = Annotated[
    str | None,
    option(
        "--encoding NAME",
        "The character encoding of a text file. Detected by default.",
        READING,
    ),
]
NullText = Annotated[
    list[str] | None,
    option(
        "--null TEXT",
        "Text that means a missing cell in a text file, e.g. '?'. May be repeated.",
        READING,
    ),
]
Parse = Annotated[
    list[str] | None,
    option(
        "--parse COLUMN=KIND",
        "Read text columns as dates or numbers, however they are written: "
        "seen=date,income=number. If the column is ambiguous: date:dmy, date:mdy, number:comma, "
        r"number:point. Or a TOML file with a table \[parse]. May be repeated.",
        READING,
    ),
]
Unparsed = Annotated[
    str,
    setting(
        "--unparsed null|stop",
        "What to do with cells that do not parse: stop the program, or count them and make them "
        "missing.",
        READING,
    ),
]
Header = Annotated[
    bool,
    flag(
        "--header/--no-header", "Whether the first line of a text file names the columns.", READING
    ),
]
Memory = Annotated[
    str | None,
    option(
        "--memory SIZE",
        "How much memory to use, e.g. 512MB or 4GiB; at least 256MB.",
        LIMITS,
    ),
]
Threads = Annotated[
    int | None, option("--threads N", "How many cores to use; all by default.", LIMITS, min=1)
]
Time = Annotated[
    str | None,
    option("--time DURATION", "Stop searching after this long, e.g. 30s, 5m or 1h.", LIMITS),
]
Json = Annotated[
    bool, flag("--json", "Print one JSON object on standard output and nothing else.", PRINTING)
]
Quiet = Annotated[bool, flag("--quiet -q", "No progress on standard error.", PRINTING)]
Beta = Annotated[float | None, option("--beta RATIO", "The ratio to reach; 1 by default.")]
MaxSize = Annotated[int | None, option("--max-size N", "Only sets of at most N columns.")]
Seed = Annotated[
    int, setting("--seed N", "Same table and same seed: same answer, to the byte.", min=0)
]
Output = Annotated[
    str | None,
    option("--output -o FILE", "Where to write the result; the ending decides the format."),
]
Missing = Annotated[
    str,
    option(
        "--missing value|wildcard|own-class",
        "What a missing cell means: a value like any other (default; own-class counts the same "
        "here), or a wildcard that matches any value.",
    ),
]
Force = Annotated[bool, flag("--force", "Replace the output if it exists.")]

Sort = Annotated[
    bool,
    flag(
        "--sort",
        "Sort the rows of the release by its cells, so that their order gives nothing away.",
    ),
]


@dataclass(frozen=True)
class Publishing:
    """Where a release goes, who signs it and in which form: named as `sfumato.anonymize` does."""

    output: Output = None
    force: Force = False
    sign: Annotated[
        str | None, option("--sign KEY", "Sign the certificate with this key (see sfumato keygen).")
    ] = None
    author: Annotated[
        str | None,
        option("--author NAME", "The author that the certificate names; nobody by default."),
    ] = None
    spreadsheet_safe: Annotated[
        bool,
        flag(
            "--spreadsheet-safe",
            "Put an apostrophe before cells that a spreadsheet would run as formulas.",
        ),
    ] = False


DRY = Publishing()
"""Nothing is written."""


_HEADING = "[bold]Examples[/bold]\n\n"


class _Command(TyperCommand):
    """A command whose examples can be pasted into a shell as they are printed."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        epilog = self.epilog
        self.epilog, _, shown = (epilog or "").partition(_HEADING)
        super().format_help(ctx, formatter)
        self.epilog = epilog
        if shown:
            typer.secho(" Examples\n", bold=True)
            typer.echo("".join(f" {_continued(line)}\n" for line in shown.split("\n\n")))


_WIDTH = 76


def _continued(line: str) -> str:
    """A command on lines that a terminal shows whole, each continued by a backslash."""
    lines = [""]
    for part in re.split(" (?=-)", line):
        if lines[-1] and len(lines[-1]) + len(part) > _WIDTH:
            lines.append("   ")
        lines[-1] += f" {part}" if lines[-1] else part
    return " \\\n".join(lines)


class _App(typer.Typer):
    """An app whose commands are such."""

    def command(self, *names: Any, **settings: Any) -> Any:
        return super().command(*names, **{"cls": _Command, **settings})


def new_app(**settings: Any) -> typer.Typer:
    """The `app` of a verb's module; verbs with several commands give their `help` here."""
    return _App(
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
        **settings,
    )


def examples(*lines: str) -> str:
    """The end of a help text: commands to copy, each of which runs as it stands."""
    return _HEADING + "\n\n".join(lines)


def split_columns(given: Sequence[str] | None, known: Sequence[str] = ()) -> list[str] | None:
    """Column names from what was written after an option; None if the option was not used.

    Names are separated by commas. A name that holds a comma itself is understood if it is written
    alone, or in double quotes.

    Examples
    --------
    >>> split_columns(["age,sex", "zip"])
    ['age', 'sex', 'zip']
    >>> split_columns(['"city, state",age']), split_columns(["a,b"], known=["a,b"])
    (['city, state', 'age'], ['a,b'])
    """
    if given is None:
        return None
    names: list[str] = []
    for text in given:
        if text in known:
            names.append(text)
        else:
            names.extend(next(csv.reader([text], skipinitialspace=True), []))
    names = [name for name in names if name != "" or name in known]
    if not names:
        raise ParameterError("no columns were named", remedy="Name some, e.g. age,sex,zip.")
    return names


Weights = Annotated[
    list[str] | None,
    option(
        "--weights A=2,B=0.5",
        "Weights of columns, 1 by default; or a TOML file with a table of them.",
    ),
]


def parse_kinds(given: Sequence[str] | None) -> dict[str, str]:
    """What columns are to be turned into, from ``name=kind`` lists or a TOML file's ``[parse]``.

    Examples
    --------
    >>> parse_kinds(["seen=date,income=number:comma"])
    {'seen': 'date', 'income': 'number:comma'}
    """
    told = _entries(given, "what to parse", "--parse seen=date", '[parse]\nseen = "date"')
    return {name: str(kind) for name, kind in told}


def parse_weights(given: Sequence[str] | None) -> dict[str, float]:
    """Weights from ``name=number`` lists or a TOML file (its table ``[weights]``, or its top).

    Examples
    --------
    >>> parse_weights(["age=2,zip=0.5"])
    {'age': 2.0, 'zip': 0.5}
    """
    what, example = "the weights", "--weights age=2,zip=0.5"
    told = _entries(given, what, example, "[weights]\nage = 2")
    return {name: _number(weight, what, example) for name, weight in told}


def parse_domains(given: Sequence[str] | None) -> dict[str, int]:
    """Domain sizes from ``name=number`` lists.

    Examples
    --------
    >>> parse_domains(["age=60,zip=1e5"])
    {'age': 60, 'zip': 100000}
    """
    what, example = "the domain sizes", "--domains age=60,zip=1e5"
    told = _entries(given, what, example)
    return {name: int(_number(size, what, example)) for name, size in told}


def parse_numbers(text: str | None, usage: str, kind: Callable[[str], Any] = float) -> Any:
    """Numbers with commas between them; `usage` is an example.

    Examples
    --------
    >>> parse_numbers("1,2", "--dimensions 1,2,3", int)
    [1, 2]
    """
    try:
        return None if text is None else [kind(number) for number in text.split(",")]
    except ValueError:
        numbers = "whole numbers" if kind is int else "numbers"
        raise ParameterError(
            f"{usage.split()[0]} needs {numbers}", remedy=f"Write e.g. {usage}."
        ) from None


def _entries(
    given: Sequence[str] | None, what: str, example: str, toml: str | None = None
) -> Iterator[tuple[str, Any]]:
    """Entries of ``name=value`` lists, or of TOML files: of the table that `toml` begins with."""
    for text in given or ():
        if toml is not None and text.endswith(".toml"):
            yield from _read_table(text, what, toml).items()
            continue
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, sign, value = part.rpartition("=")
            if not sign or not name:
                raise ParameterError(f"{what} could not be read", remedy=f"Write e.g. {example}.")
            yield name, value


def _read_table(path: str, what: str, example: str) -> dict[str, Any]:
    """A table of a TOML file, or its top."""
    try:
        content = tomllib.loads(read_text(path, what))
    except tomllib.TOMLDecodeError as error:
        raise ParameterError(
            f"this is not TOML: {error}", where=path, remedy=f"Write e.g.\n{example}"
        ) from None
    found = content.get(example.partition("]")[0].removeprefix("["), content)
    if not isinstance(found, dict):
        raise ParameterError(f"{what} must be a table", where=path, remedy=f"Write e.g.\n{example}")
    return found


def _number(value: Any, what: str, example: str) -> float:
    try:
        if not isinstance(value, bool):
            return float(value)
    except (TypeError, ValueError):
        pass
    raise ParameterError(f"{what} could not be read", remedy=f"Write e.g. {example}.")


def new_file(path: str, force: bool, *taken: str | None) -> Path:
    """Where to write; an existing file is not replaced unless asked.

    Parameters
    ----------
    taken
        What the command reads or writes besides: never replaced, not even with `force`.
    """
    target = Path(path)
    if any(_same(target, other) for other in taken if other):
        raise ParameterError(
            "the same command reads or writes this file; it would be lost",
            where=path,
            remedy="Choose another name.",
        )
    refuse_other_than_file(path)
    if target.exists() and not force:
        raise ParameterError(
            "the output exists already", where=path, remedy="Choose another name, or use --force."
        )
    require_folder(target.parent, "the output", kind=ParameterError)
    return target


def _same(target: Path, other: str) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return os.path.samefile(target, other)
    return os.path.abspath(target) == os.path.abspath(other)


def parse_pairs(given: Sequence[str] | None, option: str, example: str) -> dict[str, str]:
    """``name=text`` entries, one an option.

    Examples
    --------
    >>> parse_pairs(["sex=f,m", "age=0:120"], "--values", "sex=f,m")
    {'sex': 'f,m', 'age': '0:120'}
    """
    pairs: dict[str, str] = {}
    for text in given or ():
        name, sign, rest = text.partition("=")
        if not sign or not name or not rest:
            raise ParameterError(
                f"{option} could not be read", remedy=f"Write e.g. {option} {example}"
            )
        if name in pairs:
            raise ParameterError(f"{option} names `{name}` twice", remedy="Name it once.")
        pairs[name] = rest
    return pairs


class Asked:
    """A group of options made from declared parameters, and what was given of them."""

    declared: ClassVar[type]
    elsewhere: ClassVar[tuple[str, ...]] = ()
    """Parameters that are options of every verb, and read where the table is opened."""

    def __init__(self, **given: Any) -> None:
        self._given = given

    @classmethod
    def options(cls) -> list[inspect.Parameter]:
        return [
            inspect.Parameter(
                one.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=Annotated[_type_of(one) | None, _option(one)],
            )
            for one in fields.parameters(cls.declared).values()
            if one.field.flag is not None and one.name not in cls.elsewhere
        ]

    def said(self, name: str) -> Any:
        """What was given for a parameter, as it was written; None where it was not."""
        return self._given.get(name)

    def given(self, known: Sequence[str]) -> dict[str, Any]:
        """What was given, under the names of the Python parameters; columns are of those known."""
        declared = fields.parameters(self.declared)
        told = {
            name: _read(declared[name], value, known)
            for name, value in self._given.items()
            if value is not None and name in declared
        }
        return {name: value for name, value in told.items() if value is not None}


def _type_of(one: fields.Parameter) -> Any:
    if one.kind in (int, float, bool):
        return one.kind
    return list[str] if one.is_plural else str


def _option(one: fields.Parameter) -> Any:
    told = one.field
    assert told.flag is not None
    if one.kind is bool:
        return typer.Option(
            told.flag, show_default=False, rich_help_panel=told.group or None, help=told.help
        )
    least = {"min": 0} if one.kind is int and not told.counts else {}
    return option(f"{told.flag} {told.metavar}", told.help, told.group or None, **least)


def _read(one: fields.Parameter, value: Any, known: Sequence[str]) -> Any:
    """The value that a text stands for."""
    if one.kind == fields.ColumnSets:
        return [split_columns([names], known) for names in value]
    if one.kind == fields.Columns:
        return split_columns(value, known)
    if get_origin(one.kind) is Mapping:
        try:
            return parse_weights(value) or None
        except ParameterError:
            told = f"{one.field.flag} {one.field.metavar}"
            raise ParameterError(
                f"the numbers of {one.field.flag} could not be read", remedy=f"Write e.g. {told}."
            ) from None
    by_column = any(get_origin(kind) is Mapping for kind in get_args(one.kind))
    if by_column and isinstance(value, str) and "=" in value:
        pairs = [part.rpartition("=") for part in value.split(",")]
        return {name.strip(): kind.strip() for name, _, kind in pairs}
    return value
