"""Parameters declared once: their type, default, line of help, group, and option of the program.

A parameter is an entry of a `TypedDict`, annotated with a `Field`. From that come the signature and
its checks, the settings file, the options of the command line, the form of the workbench and the
reference page; type checkers read the entry itself. Functions that declare nothing are checked
against their signatures.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import os
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, wraps
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from sfumato.errors import ParameterError, did_you_mean

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
        if isinstance(value, (Mapping, list, tuple)) and self.kind is not Any:
            return fitted(f"`{self.name}`", value, self.kind, where)
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
                    f"`{self.name}` of `{name}` must be a number, zero or larger",
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
    """Whether it is a number of any library, not beyond those that are counted with."""
    return isinstance(value, Real) and not isinstance(value, bool) and not _is_endless(value)


def _is_endless(value: Real) -> bool:
    """Whether a number has more digits than any float."""
    try:
        float(value)
    except OverflowError:
        return True
    return False


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


_NONE = type(None)
P = ParamSpec("P")
R = TypeVar("R")


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Refuse arguments of another kind than the signature says, before anything is done.

    Numbers of any library become those of Python, arrays of names become lists, and one name where
    several may be given becomes a list of one. What only the function can judge, such as the dtype
    of an array, is left to it.
    """
    names = list(inspect.signature(function).parameters)
    hints: dict[str, Any] = {}

    @wraps(function)
    def checking(*given: P.args, **named: P.kwargs) -> R:
        if not hints:  # not before the module is read: types may stand further down
            hints.update(_types_of(function))
        by_place = [
            fitted(f"`{name}`", value, hints.get(name, Any))
            for name, value in zip(names, given, strict=False)
        ]
        by_name = {name: fitted(f"`{name}`", v, hints.get(name, Any)) for name, v in named.items()}
        if isinstance(seed := by_name.get("seed", 0), int) and seed < 0:
            raise ParameterError("`seed` must be zero or larger", remedy="Give e.g. 0.")
        return function(*by_place, *given[len(by_place) :], **by_name)  # type: ignore[arg-type]

    return checking


def _types_of(function: Callable[..., Any]) -> dict[str, Any]:
    """What arguments must be; what is imported for type checkers alone is left to the function."""
    found: dict[str, Any] = {}
    for name, hint in function.__annotations__.items():
        with contextlib.suppress(NameError):
            said = types.SimpleNamespace(__annotations__={name: hint})
            found |= get_type_hints(said, inspect.unwrap(function).__globals__)
    return found


def fitted(name: str, value: Any, hint: Any, where: str | None = None) -> Any:
    """A value as its type says; `name` is how an error calls it, `where` the file it stands in."""
    kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    if any(_is_beyond(one) for one in kinds):
        return value
    for kind in kinds:
        outside, inside = get_origin(kind) or kind, get_args(kind)
        if kind in (bool, int, float):
            if (number := _as_number(value, kind)) is not None:
                return number
        elif outside in (Sequence, Collection, Iterable):
            if (several := _as_several(value, outside, inside[0])) is not None:
                unseen = inside[0] is Any or outside is Iterable  # which can be read only once
                for at, one in enumerate(() if unseen else several, 1):
                    fitted(f"entry {at} of {name}", one, inside[0], where)
                return several
        elif outside is Mapping:
            if isinstance(value, Mapping):
                for key in value:
                    fitted(f"a name in {name}", key, inside[0], where)
                return {
                    key: fitted(f"{name} of `{key}`", one, inside[1], where)
                    for key, one in value.items()
                }
        elif outside in (Callable, Literal):
            if callable(value) if outside is Callable else isinstance(value, str):
                return value
        elif isinstance(value, outside):
            if isinstance(value, (str, os.PathLike)):
                _require_characters(name, os.fspath(value))
            return value
    wanted = " or ".join(_described(one) for one in kinds if one is not _NONE)
    raise ParameterError(
        f"{name} must be {wanted if where is None else wanted.replace('dictionary', 'table')}",
        where=where,
        remedy=getattr(kinds[0], "remedy", f"It is {_as_shown(value)} now."),
    )


def _is_beyond(kind: Any) -> bool:
    """Whether nobody can say here what is of this type, or only numpy can."""
    outside = get_origin(kind) or kind
    if outside is Any or isinstance(outside, TypeVar):
        return True
    unasked = getattr(outside, "_is_protocol", False) and not outside._is_runtime_protocol
    return unasked or outside.__module__.partition(".")[0] == "numpy"


def _as_number(value: Any, kind: type) -> float | None:
    """A number of any library as one of Python; None where it is none of this kind."""
    if type(value).__name__ in ("bool", "bool_"):  # numpy has one of its own
        return bool(value) if kind is bool else None
    if kind is bool or not isinstance(value, Real):
        return None
    try:
        as_float = float(value)
    except OverflowError:
        return None
    whole = isinstance(value, Integral) or (kind is int and as_float.is_integer())
    if whole:
        return int(value)  # type: ignore[call-overload, no-any-return]
    return as_float if kind is float else None


def _as_several(value: Any, kind: Any, entry: Any) -> Any:
    """What holds several, arrays and single names as lists; None where it is something else."""
    if isinstance(value, (str, bytes, Mapping)):
        return [value] if isinstance(value, str) and entry is str else None
    if isinstance(value, kind):
        return value
    as_list = getattr(value, "tolist", getattr(value, "to_list", None))
    return as_list() if as_list is not None and getattr(value, "ndim", 1) == 1 else None


def _require_characters(name: str, text: str) -> None:
    try:
        usable = b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        usable = False
    if not usable:
        raise ParameterError(
            f"{name} holds what is no character",
            remedy="Leave out zero bytes and halves of surrogate pairs.",
        )


def _described(kind: Any) -> str:
    """What a value of a type is, for people who write Python."""
    outside, inside = get_origin(kind) or kind, get_args(kind)
    if outside in (Sequence, Collection, Iterable):
        return "a list of names" if inside[0] is str else "a list"
    told = {
        bool: "True or False",
        int: "a whole number",
        float: "a number",
        str: "text",
        Literal: "text",
        Path: "a path",
        os.PathLike: "a path",
        Mapping: "a dictionary",
        Callable: "a function",
    }
    name = getattr(outside, "__name__", str(outside))
    return told.get(outside) or f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def _as_shown(value: Any) -> str:
    """What was given, without what it holds."""
    if isinstance(value, Real) and _is_endless(value):
        return "a number of more than 300 digits"
    if value is None or isinstance(value, (bool, Real)):
        return repr(value)
    return "text" if isinstance(value, str) else f"of type {type(value).__name__}"
