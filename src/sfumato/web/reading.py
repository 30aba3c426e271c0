"""How a table's file is read: what was found out about it, and what its user says instead.

The words are those of the command line (``--delimiter``, ``--encoding``, ``--null``, ``--header``,
``--exclude``, ``--parse``, ``--unparsed``, and a sheet or table behind ``#``), and the reader is
the one of all verbs. What is said is kept as ``reading.toml`` beside the decisions.
"""

from __future__ import annotations

import os
import shlex
import threading
import tomllib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import islice
from pathlib import Path
from typing import Any

import tomli_w

from sfumato.engines.foreign import parts_of
from sfumato.engines.protocol import KeepsText
from sfumato.errors import SourceError
from sfumato.files import held, read_unlinked, write_text
from sfumato.report.disclosure import as_text
from sfumato.tables import Table, table
from sfumato.tables.parsing import KINDS

__all__ = ["DELIMITERS", "KINDS", "FirstRows", "Reading", "read_reading"]

NAME = "reading.toml"
ROWS = 20
"""Rows of a preview."""
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar", " ": "space",
              ":": "colon"}  # fmt: skip
"""Those that the page offers by name; any other character can be written."""
_warned = threading.Lock()
"""Python keeps one list of warnings for all threads."""


@dataclass(frozen=True)
class Reading:
    """What the user says about a file; what is left empty is found out.

    Examples
    --------
    >>> Reading(delimiter=";", header=False, null_values=("?",)).command(Path("people.csv"))
    "people.csv --no-header --delimiter ';' --null '?'"
    """

    part: str = ""
    """The sheet or table in the file."""
    header: bool = True
    delimiter: str = ""
    encoding: str = ""
    null_values: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    parse: Mapping[str, str] = field(default_factory=dict)
    unparsed: str = "stop"

    def place(self, source: Path) -> str:
        """The file, with the part that is meant."""
        return f"{source}#{self.part}" if self.part else str(source)

    def open(self, source: Path) -> tuple[Table, tuple[str, ...]]:
        """The table, and what was noticed when its columns were turned into dates or numbers."""
        if self.part and self.part not in parts_of(source):  # it must not lead to another file
            raise SourceError(f"the file holds no `{self.part}`", where=source.name,
                              remedy="Choose one of its sheets or tables.")  # fmt: skip
        given = {name: value for name, value in self.said().items() if name != "part"}
        with _warned, warnings.catch_warnings(record=True) as noticed:
            warnings.simplefilter("always")
            opened = table(self.place(source), **given)
        return opened, tuple(str(one.message) for one in noticed)

    def said(self) -> dict[str, Any]:
        """What is not left to be found out."""
        usual = Reading()
        given = {part.name: getattr(self, part.name) for part in fields(self)}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in given.items()
            if value != getattr(usual, name)
        }

    def settings(self) -> dict[str, Any]:
        """What settings of `anonymize` say about reading."""
        return {n: v for n, v in self.said().items() if n in ("parse", "unparsed") and self.parse}

    def command(self, source: Path) -> str:
        """The table as an argument of the command line, with the options its settings lack."""
        words = [self.place(Path(source.name))]
        words += ["--no-header"] if not self.header else []
        for option, values in (
            ("--delimiter", [self.delimiter]),
            ("--encoding", [self.encoding]),
            ("--null", self.null_values),
            ("--exclude", [",".join(self.exclude)]),
        ):
            words += [word for value in values if value for word in (option, value)]
        return shlex.join(words)

    def save(self, folder: Path) -> None:
        """Keep it beside the decisions, where there is anything to say or was before."""
        with held(folder) as home:
            if self.said() or os.path.lexists(home / NAME):
                write_text(home / NAME, tomli_w.dumps(self.said()))

    @classmethod
    def asked(cls, form: Mapping[str, Sequence[str]], names: Sequence[str]) -> Reading:
        """What a page says about a file; its columns are called so where it does not name them."""

        def said(name: str) -> str:
            return form.get(name, [""])[0].strip(" ")

        delimiter = said("other_delimiter") or form.get("delimiter", [""])[0]
        told = range(max(len(names), sum(name.startswith("column-") for name in form)))
        called = [form.get(f"column-{at}", names[at : at + 1]) for at in told]
        kinds = {one[0]: said(f"parse-{at}") for at, one in enumerate(called) if one}
        unnamed = ("",) if "unnamed" in form else ()
        exclude = (*_listed(said("exclude")), *unnamed)
        return cls(
            part=form.get("part", [""])[0],
            header="header" in form or "text" not in form,
            delimiter=delimiter,
            encoding=said("encoding"),
            null_values=_listed(said("null_values")),
            exclude=exclude,
            parse={n: kind for n, kind in kinds.items() if kind and n not in exclude},
            unparsed=said("unparsed") or "stop",
        )

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Reading:
        """What plain values say; values of another kind are refused.

        Raises
        ------
        TypeError
            A value is not of its kind.
        """
        usual = cls()
        made: dict[str, Any] = {}
        for part in fields(cls):
            value = given.get(part.name, getattr(usual, part.name))
            if isinstance(getattr(usual, part.name), tuple):
                value = tuple(value) if isinstance(value, (list, tuple)) else value
                if not isinstance(value, tuple) or not all(isinstance(v, str) for v in value):
                    raise TypeError(part.name)
            elif type(value) is not type(getattr(usual, part.name)):
                raise TypeError(part.name)
            made[part.name] = value
        return cls(**made)


def _listed(text: str) -> tuple[str, ...]:
    """Words between commas."""
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def read_reading(folder: Path) -> Reading:
    """What was said on an earlier day; nothing where there is no such file."""
    if not os.path.lexists(folder):
        return Reading()
    with held(folder) as home:
        if not os.path.lexists(home / NAME):
            return Reading()
        try:
            return Reading.of(tomllib.loads(read_unlinked(home / NAME, "how the table is read")))
        except (OSError, ValueError, TypeError) as error:
            raise SourceError(
                "what was said about reading the table is not understood",
                where=str(folder / NAME),
                remedy="Say here what is not found out, and read it: that replaces the file.",
            ) from error


@dataclass(frozen=True)
class FirstRows:
    """The beginning of a table as it is read, and what was found out about its file."""

    names: tuple[str, ...] = ()
    rows: tuple[tuple[str | None, ...], ...] = ()
    delimiter: str = ""
    encoding: str = ""
    noticed: tuple[str, ...] = ()

    @classmethod
    def of(cls, opened: Table, noticed: Sequence[str] = ()) -> FirstRows:
        """The first rows of a table whose types are known."""
        columns: dict[str, list[str | None]] = {name: [] for name in opened.columns}
        for batch in islice(opened.batches(rows=ROWS), 1):
            for name in columns:
                columns[name] = as_text(batch.column(name))
        source = getattr(opened.engine, "source", None)
        form = source.text_form() if isinstance(source, KeepsText) else None
        return cls(
            tuple(columns),
            tuple(zip(*columns.values(), strict=True)),
            "" if form is None else form.delimiter,
            "" if form is None else form.encoding,
            tuple(noticed),
        )
