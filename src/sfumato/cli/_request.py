"""Declared parameters as options: what `anonymize` and `verify` take on the command line."""

from __future__ import annotations

import inspect
import shlex
import tomllib
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, ClassVar, get_args, get_origin

import typer

from sfumato.anonymization.request import RequestFields
from sfumato.cli._options import option, parse_weights, split_columns
from sfumato.errors import ParameterError
from sfumato.fields import Columns, ColumnSets, Parameter, parameters
from sfumato.privacy.models import PromiseFields


class Asked:
    """A group of options made from declared parameters, and what was given of them."""

    declared: ClassVar[type]
    elsewhere: ClassVar[tuple[str, ...]] = ()
    """Parameters that are options of every verb, and read where the table is opened."""

    def __init__(self, **given: Any) -> None:
        self._given = given

    @classmethod
    def options(cls) -> list[inspect.Parameter]:
        """The options, for typer."""
        return [
            inspect.Parameter(
                one.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=Annotated[_type_of(one) | None, _option(one)],
            )
            for one in parameters(cls.declared).values()
            if one.field.flag is not None and one.name not in cls.elsewhere
        ]

    def said(self, name: str) -> Any:
        """What was given for a parameter, as it was written; None where it was not."""
        return self._given.get(name)

    def given(self, known: Sequence[str]) -> dict[str, Any]:
        """What was given, under the names of the Python parameters; columns are of those known."""
        declared = parameters(self.declared)
        told = {
            name: _read(declared[name], value, known)
            for name, value in self._given.items()
            if value is not None and name in declared
        }
        return {name: value for name, value in told.items() if value is not None}


class Promised(Asked):
    """What must hold of a table."""

    declared = PromiseFields


class Requested(Asked):
    """Everything that decides a release."""

    declared = RequestFields
    elsewhere = ("parse", "unparsed")

    @classmethod
    def options(cls) -> list[inspect.Parameter]:
        more = option(
            "--option NAME=VALUE", "Any other option of the method. May be repeated.", "How to blur"
        )
        kind = inspect.Parameter.KEYWORD_ONLY
        hint = Annotated[list[str] | None, more]
        return [
            *super().options(),
            inspect.Parameter("option", kind, default=None, annotation=hint),
        ]

    def given(self, known: Sequence[str]) -> dict[str, Any]:
        return {**super().given(known), **_options(self._given.get("option"))}


def as_option(name: str, value: Any, own: Collection[str] = ()) -> str:
    """A parameter as it is written on the command line.

    `own` are the options that a verb declares itself: they may have the name of a parameter of
    `anonymize` that is written in another way.

    Examples
    --------
    >>> as_option("sensitive", ["diagnosis"]), as_option("k", 5), as_option("marker", "?")
    ('--sensitive diagnosis', '-k 5', '--option marker=?')
    """
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


def _type_of(one: Parameter) -> Any:
    """What typer reads."""
    if one.kind in (int, float, bool):
        return one.kind
    return list[str] if one.is_plural else str


def _option(one: Parameter) -> Any:
    told = one.field
    assert told.flag is not None
    if one.kind is bool:
        return typer.Option(
            told.flag, show_default=False, rich_help_panel=told.group or None, help=told.help
        )
    least = {"min": 0} if one.kind is int and not told.counts else {}
    return option(f"{told.flag} {told.metavar}", told.help, told.group or None, **least)


def _read(one: Parameter, value: Any, known: Sequence[str]) -> Any:
    """The value that a text stands for."""
    if one.kind == ColumnSets:
        return [split_columns([names], known) for names in value]
    if one.kind == Columns:
        return split_columns(value, known)
    if get_origin(one.kind) is Mapping:
        try:
            return dict(parse_weights(value)) or None
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


def _options(given: Sequence[str] | None) -> dict[str, Any]:
    """Options of the method; values are written as in TOML, plain text without quotes.

    Columns are named as everywhere: ``protected=age,sex``, or one after the other.
    """
    declared = parameters(RequestFields)
    options: dict[str, Any] = {}
    for text in given or ():
        name, separator, value = (part.strip() for part in text.partition("="))
        if not separator or not name:
            raise ParameterError("an option could not be read", remedy="Write --option name=value.")
        read = _value(value)
        if name in declared and declared[name].kind == Columns:
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
