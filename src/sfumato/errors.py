"""Everything that can go wrong, as one tree.

::

    SfumatoError                 exit code 3 unless a branch below says otherwise
    ├── InputError               2  what the user gave is wrong: a file, a column, a parameter
    │   ├── SourceError             the table cannot be opened or read (file, line, offset)
    │   ├── ColumnError             a column is missing, doubled, nested or unfit for the job
    │   ├── ParameterError          an option is out of range or contradicts another
    │   └── HierarchyError          a generalization tree is malformed (file, line)
    ├── PromiseError             1  a demanded guarantee does not hold; nothing was published
    └── UnfinishedError          3  could not finish
        ├── EngineError             the database, Spark or the disk failed
        │   ├── EngineMemoryError       it ran out of memory or of room for temporary files
        │   └── TooManyClassesError     there are more classes than were asked for
        ├── BudgetError             time or memory ran out before any answer existed
        ├── PeerError               the other party vanished, lied or speaks another version
        └── MissingExtraError       an optional dependency is not installed

A message says what is wrong, where, and what to do. Column names, line numbers and counts may be
quoted; a cell's value never is.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any

from sfumato.wording import shown


class SfumatoError(Exception):
    """Base of all errors that Sfumato raises on purpose.

    Parameters
    ----------
    what
        What is wrong, in one sentence.
    where
        File, table, column, row or line concerned.
    remedy
        What the user can do about it.

    Examples
    --------
    >>> str(SfumatoError("the file is empty", where="people.csv", remedy="Export it again."))
    'people.csv: the file is empty. Export it again.'
    """

    exit_code = 3

    def __init__(self, what: str, *, where: str | None = None, remedy: str | None = None) -> None:
        where = None if where is None else shown(where)  # an address may hold a password
        self.what = what
        self.where = where
        self.remedy = remedy
        message = f"{where}: {what}" if where else what
        if remedy:
            end = "" if message.endswith(("?", "!")) else "."
            message = f"{message.rstrip('.')}{end} {remedy}"
        super().__init__(message)


class InputError(SfumatoError):
    """What the user gave is wrong."""

    exit_code = 2


class SourceError(InputError):
    """The table cannot be opened or read."""


class ColumnError(InputError):
    """A column is missing, doubled, nested or unfit for the job."""


class ParameterError(InputError):
    """An option is out of range or contradicts another."""


class HierarchyError(InputError):
    """A generalization tree is malformed."""


class PromiseError(SfumatoError):
    """A demanded guarantee does not hold; nothing was published."""

    exit_code = 1


class UnfinishedError(SfumatoError):
    """The work could not be finished."""


class EngineError(UnfinishedError):
    """The database, Spark or the disk failed."""


class EngineMemoryError(EngineError):
    """The engine ran out of memory or of room for temporary files."""


class TooManyClassesError(EngineError):
    """There are more classes than were asked for."""


class BudgetError(UnfinishedError):
    """Time or memory ran out before any answer existed."""


class PeerError(UnfinishedError):
    """The other party vanished, broke the protocol or speaks another version."""


class MissingExtraError(UnfinishedError):
    """An optional dependency is not installed."""

    exit_code = 2

    def __init__(self, extra: str, needed_for: str) -> None:
        super().__init__(
            f"{needed_for} needs an optional part of Sfumato",
            remedy=f"Install it with: pip install 'sfumato[{extra}]'",
        )


def did_you_mean(given: object, known: Iterable[str]) -> str:
    """Suggest the closest known names, as a sentence to append to an error.

    Examples
    --------
    >>> did_you_mean("aeg", ["age", "sex", "zip"])
    'Did you mean `age`?'
    >>> did_you_mean("colour", ["age", "sex"])
    'Choose one of `age`, `sex`.'
    """
    names = list(known)
    lowered = {name.lower(): name for name in names}
    close = difflib.get_close_matches(str(given).lower(), list(lowered), n=3, cutoff=0.6)
    if close:
        return "Did you mean " + " or ".join(f"`{lowered[name]}`" for name in close) + "?"
    shown = ", ".join(f"`{name}`" for name in names[:12])
    if not names:
        return "There are none."
    return f"Choose one of {shown}{', …' if len(names) > 12 else ''}."


def _in_python(name: str, value: Any) -> str:
    if name == "time":  # limits of time are an object there
        return "budget=Budget(seconds=600)"
    return f"{name}={value!r}".replace("'", '"')


spelling: ContextVar[Callable[[str, Any], str]] = ContextVar("spelling", default=_in_python)
"""How parameters are written where the user is: in Python, or as options of the command line."""


def spell(name: str, value: Any) -> str:
    """A parameter with an example of its value, as the user would write it.

    Examples
    --------
    >>> spell("sensitive", ["diagnosis"])
    'sensitive=["diagnosis"]'
    """
    return spelling.get()(name, value)
