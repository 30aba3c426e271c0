"""Parameters declared once: their type, default, line of help, group, and option of the program.

A parameter is an entry of a `TypedDict`, annotated with a `Field`. From that come the signature and
its checks, the settings file, the options of the command line, the form of the workbench and the
reference page; type checkers read the entry itself.
"""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from sfumato.errors import ParameterError, did_you_mean

__all__ = [
    "ColumnSets",
    "Columns",
    "Field",
    "Parameter",
    "Weights",
    "declares",
    "parameters",
    "reference",
]

Columns = str | Sequence[str]
"""Names of columns; one may be given by itself."""
ColumnSets = str | Sequence[str] | Sequence[Sequence[str]]
"""A set of columns, or several."""
Weights = Mapping[str, float]
"""Numbers by column."""
_MOST_ROWS = 2**53
"""No table has more rows; whole numbers beyond are no exact floats."""


@dataclass(frozen=True)
class Field:
    """What is said of a parameter beside its type.

    Parameters
    ----------
    help
        One line for people.
    group
        Parameters of a group stand together in help texts, forms and reference pages.
    flag
        Option of the command line, with the opposite after a slash; without one the parameter is
        given with ``--option``, or by another verb's own option.
    metavar
        What stands for the value in help texts.
    default
        What holds where nothing is given.
    what
        What the value must be, where its type does not say it well.
    label, symbol, when
        What the workbench asks for, the letter that stands for it, and the choice (``name=value``)
        with which it matters; parameters without a label are not in its form.
    least, most
        What the workbench lets a number be.
    counts
        Whether a whole number counts rows or values, and so is none that no table could have.
    file
        Whether text is a path; in a settings file it is relative to that file.
    """

    help: str
    group: str
    flag: str | None = None
    metavar: str = "…"
    default: Any = None
    what: str | None = None
    label: str | None = None
    symbol: str | None = None
    when: str | None = None
    least: float = 0
    most: float = 1e6
    counts: bool = True
    file: bool = False


@dataclass(frozen=True)
class Parameter:
    """A declared parameter."""

    name: str
    kind: Any
    """Its type, without None."""
    field: Field

    @property
    def default(self) -> Any:
        """What holds where nothing is given."""
        if self.field.default is None and self.is_plural:
            return {} if self.kind == Weights or get_origin(self.kind) is Mapping else ()
        return self.field.default

    def differs(self, value: Any) -> bool:
        """Whether a value is another one than the default; objects that cannot be compared are."""
        usual = self.default
        return value is not usual and not (type(value) is type(usual) and value == usual)

    @property
    def symbol(self) -> str:
        """The letter that stands for it."""
        return self.field.symbol or self.name

    @cached_property
    def is_plural(self) -> bool:
        """Whether its value holds names of columns, or something for each of them."""
        return self.kind in (Columns, ColumnSets) or get_origin(self.kind) is Mapping

    @cached_property
    def choices(self) -> tuple[str, ...]:
        """The texts it may be; none where any will do."""
        return get_args(self.kind) if get_origin(self.kind) is Literal else ()

    @cached_property
    def _choices_by_column(self) -> tuple[str, ...]:
        """The texts it may be where it is one for all columns or a table of them."""
        inside = [one for one in get_args(self.kind) if get_origin(one) is Literal]
        return get_args(inside[0]) if inside else ()

    def checked(self, value: Any, where: str | None = None) -> Any:
        """The value in one form: numbers as they count, names of columns as tuples.

        Raises
        ------
        ParameterError
            If it has another type; `where` says in which file.
        """
        if value is None:
            return self.default
        if self.kind == ColumnSets:
            return self._sets(value, where)
        if self.kind == Columns:
            return self._names(value, where)
        if self.kind in (int, float):
            return self._number(value, where)
        if self.kind == Weights:
            return self._weights(value, where)
        choices = self.choices or self._choices_by_column
        for one in value.values() if isinstance(value, Mapping) else (value,):
            if choices and not isinstance(one, str) and one is not None:
                raise self._refused(one, where)
            if choices and one not in choices and one is not None:
                raise ParameterError(
                    f"`{self.name}` cannot be `{one}`",
                    where=where,
                    remedy=did_you_mean(one, choices),
                )
        if not _fits(value, self.kind):
            raise self._refused(value, where)
        return str(value) if isinstance(value, Path) and self.kind is not Any else value

    def _refused(self, value: Any, where: str | None) -> ParameterError:
        return ParameterError(
            f"`{self.name}` must be {self.what}", where=where, remedy=f"It is {_found(value)} now."
        )

    @property
    def what(self) -> str:
        """What its value must be, for people."""
        if self.field.what is not None:
            return self.field.what
        if get_origin(self.kind) is Mapping:
            return "a table"
        return _WHAT.get(self.kind, "text")

    def _number(self, value: Any, where: str | None) -> float:
        write = f"Write e.g. {self.name} = 5."
        if not _is_number(value):
            raise ParameterError(f"`{self.name}` must be a number", where=where, remedy=write)
        if self.kind is float:
            return int(value) if isinstance(value, Integral) else float(value)
        if self.field.counts and abs(value) > _MOST_ROWS:
            raise ParameterError(
                f"`{self.name}` is larger than any table", where=where, remedy=write
            )
        if not math.isfinite(value) or value != int(value) or (not self.field.counts and value < 0):
            least = "" if self.field.counts else ", zero or larger"
            raise ParameterError(
                f"`{self.name}` must be a whole number{least}", where=where, remedy=write
            )
        return int(value)

    def _names(self, value: Any, where: str | None) -> tuple[str, ...]:
        if isinstance(value, str):
            return (value,)
        if not isinstance(value, (list, tuple)) or not all(isinstance(one, str) for one in value):
            raise ParameterError(
                f"`{self.name}` must be a list of column names",
                where=where,
                remedy=f'Write {self.name} = ["age", "sex"].',
            )
        return tuple(value)

    def _sets(self, value: Any, where: str | None) -> tuple[tuple[str, ...], ...]:
        if isinstance(value, (list, tuple)) and not all(isinstance(one, str) for one in value):
            return tuple(self._names(one, where) for one in value)
        names = self._names(value, where)
        return (names,) if names else ()

    def _weights(self, value: Any, where: str | None) -> dict[str, float]:
        if not isinstance(value, Mapping):
            remedy = f"Write [{self.name}]."
            raise ParameterError(f"`{self.name}` must be a table", where=where, remedy=remedy)
        for name, weight in value.items():
            if not _is_number(weight) or not 0 <= weight < float("inf"):
                raise ParameterError(
                    f"the weight of `{name}` must be a number, zero or larger",
                    where=where,
                    remedy=f"Write e.g. {name} = 2.",
                )
        return {name: float(weight) for name, weight in value.items()}


_WHAT = {
    bool: "true or false",
    float: "a number",
    int: "a whole number",
    Columns: "a list of column names",
}


def _is_number(value: Any) -> bool:
    """Whether it is a number of any library."""
    return isinstance(value, Real) and not isinstance(value, bool)


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value is of a declared type, as far as its outside tells."""
    if kind is Any:
        return True
    if get_origin(kind) is Literal:
        return isinstance(value, str)
    if get_origin(kind) in (Union, types.UnionType):
        return any(_fits(value, one) for one in get_args(kind))
    outside = get_origin(kind) or kind
    if outside is Sequence:
        return isinstance(value, (list, tuple))
    if isinstance(value, bool):
        return outside is bool
    return isinstance(value, outside)


def _found(value: Any) -> str:
    """What kind of value was given, in the words of a settings file."""
    if isinstance(value, bool):
        return "true or false"
    names = {(int, float): "a number", str: "text", Mapping: "a table", (list, tuple): "a list"}
    known = (what for kind, what in names.items() if isinstance(value, kind))  # type: ignore[arg-type]
    return next(known, type(value).__name__)


@cache
def parameters(declared: type) -> Mapping[str, Parameter]:
    """The parameters of a `TypedDict` whose entries are annotated with a `Field`, by name."""
    found = {}
    for name, hint in get_type_hints(declared, include_extras=True).items():
        kind, *said = get_args(hint)
        inner = tuple(one for one in get_args(kind) if one is not types.NoneType)
        if get_origin(kind) in (Union, types.UnionType) and len(inner) < len(get_args(kind)):
            kind = Union[inner]  # noqa: UP007 (built from parts)
        (field,) = (one for one in said if isinstance(one, Field))
        found[name] = Parameter(name, kind, field)
    return found


def reference(declared: type) -> str:
    """A page's table of parameters, as Markdown."""
    lines = ["| parameter | option | default | |", "|---|---|---|---|"]
    for one in parameters(declared).values():
        flag = f"`{one.field.flag or '–'}`"
        default = "" if one.default in (None, (), {}) else f"`{one.default}`"
        lines.append(f"| `{one.name}` | {flag} | {default} | {one.field.help} |")
    return "\n".join(lines)


Verb = TypeVar("Verb", bound=Callable[..., Any])


def declares(declared: type) -> Callable[[Verb], Verb]:
    """Name the parameters of a verb that takes ``**asked: Unpack[declared]``, for people who ask.

    They get into its signature and into the section ``Parameters`` of its docstring.
    """

    def decorate(verb: Verb) -> Verb:
        own = inspect.signature(verb)
        kept = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
        made = [
            inspect.Parameter(
                one.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=one.default,
                annotation=one.kind if one.default is not None else one.kind | None,
            )
            for one in parameters(declared).values()
        ]
        verb.__signature__ = own.replace(parameters=[*kept, *made])  # type: ignore[attr-defined]
        told = "".join(
            f"    {p.name}\n        {p.field.help}\n" for p in parameters(declared).values()
        )
        head, rule, rest = (verb.__doc__ or "").partition("    Parameters\n    ----------\n")
        verb.__doc__ = head + rule + rest.replace("\n\n", f"\n{told}\n", 1)
        return verb

    return decorate
