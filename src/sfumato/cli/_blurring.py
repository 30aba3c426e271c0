"""How a table is blurred, as it is written on the command line."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from sfumato.cli._demands import COLUMNS
from sfumato.cli._options import Weights, option, parse_weights, split_columns
from sfumato.errors import ParameterError

__all__ = ["Blurring", "Identifying"]

BLURRING = "How to blur"
_OF_COLUMNS = ("protected",)
"""Options of methods that name columns."""


@dataclass(frozen=True)
class Identifying:
    """Columns that point at people: they go, or become pseudonyms."""

    identifiers: Annotated[
        list[str] | None,
        option(COLUMNS, "--identifiers", metavar="A,B,…", help="Columns to leave out."),
    ] = None
    pseudonyms: Annotated[
        list[str] | None,
        option(
            COLUMNS,
            "--pseudonyms",
            metavar="A,B,…",
            help="Columns to replace by pseudonyms, the same in every table.",
        ),
    ] = None
    key_file: Annotated[
        str | None,
        option(COLUMNS, "--key-file", metavar="FILE", help="The secret key of the pseudonyms."),
    ] = None

    def given(self, known: Sequence[str]) -> dict[str, Any]:
        """What was given, as names of columns."""
        told = {
            "identifiers": split_columns(self.identifiers, known),
            "pseudonyms": split_columns(self.pseudonyms, known),
            "key_file": self.key_file,
        }
        return {name: value for name, value in told.items() if value is not None}


@dataclass(frozen=True)
class Blurring:
    """The method, and what it should spare."""

    method: Annotated[
        str | None,
        option(
            BLURRING,
            "--method",
            metavar="NAME",
            help="How to get there; mondrian unless given. The methods are listed below.",
        ),
    ] = None
    weights: Weights = None
    cut_weights: Annotated[
        list[str] | None,
        option(
            BLURRING,
            "--cut-weights",
            metavar="spread=1,priority=1,gain=0",
            help="What decides where Mondrian cuts: width, weights, or what it tells of --target.",
        ),
    ] = None
    target: Annotated[
        str | None,
        option(
            BLURRING, "--target", metavar="COLUMN", help="A column that should stay predictable."
        ),
    ] = None
    relaxed: Annotated[
        bool | None,
        typer.Option(
            "--relaxed/--strict",
            show_default=False,
            rich_help_panel=BLURRING,
            help="Whether Mondrian may part equal values.",
        ),
    ] = None
    options: Annotated[
        list[str] | None,
        option(
            BLURRING,
            "--option",
            metavar="NAME=VALUE",
            help="Any other option of the method. May be repeated.",
        ),
    ] = None
    workload: Annotated[
        str | None,
        option(
            BLURRING,
            "--workload",
            metavar="FILE",
            help="SQL queries or predicates the release will be asked: they set weights and cuts.",
        ),
    ] = None
    hierarchies: Annotated[
        str | None,
        option(
            BLURRING,
            "--hierarchies",
            metavar="FOLDER",
            help="Generalization trees, COLUMN.csv each; missing ones are inferred. Without a "
            "folder columns become ranges and sets of values.",
        ),
    ] = None
    infer_hierarchies: Annotated[
        bool | None,
        typer.Option(
            "--infer-hierarchies/--given-hierarchies",
            show_default=False,
            rich_help_panel=BLURRING,
            help="Whether columns without a tree there get one, or become ranges and sets.",
        ),
    ] = None
    boundaries: Annotated[
        str | None,
        option(
            BLURRING,
            "--boundaries",
            metavar="FILE",
            help="How far values may be blurred at most (TOML).",
        ),
    ] = None

    def given(self) -> dict[str, Any]:
        """What was given, under the names of the Python parameters."""
        told = {
            "method": self.method,
            "weights": parse_weights(self.weights) or None,
            "cut_weights": dict(parse_weights(self.cut_weights)) or None,
            "target": self.target,
            "relaxed": self.relaxed,
            "workload": self.workload,
            "hierarchies": self.hierarchies,
            "infer_hierarchies": self.infer_hierarchies,
            "boundaries": self.boundaries,
            **_options(self.options),
        }
        return {name: value for name, value in told.items() if value is not None}


def _options(given: Sequence[str] | None) -> dict[str, Any]:
    """Options of the method; values are written as in TOML, plain text without quotes.

    Columns are named as everywhere: ``protected=age,sex``, or one after the other.
    """
    options: dict[str, Any] = {}
    for text in given or ():
        name, separator, value = (part.strip() for part in text.partition("="))
        if not separator or not name:
            raise ParameterError("an option could not be read", remedy="Write --option name=value.")
        read = _value(value)
        if name in _OF_COLUMNS:
            read = split_columns([read]) if isinstance(read, str) else read
            if isinstance(read, list):
                options[name] = [*options.get(name, ()), *read]
                continue
        if name in options:
            raise ParameterError(f"option `{name}` is given twice", remedy="Give it once.")
        options[name] = read
    return options


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"x = {text}")["x"]
    except tomllib.TOMLDecodeError:
        return text
