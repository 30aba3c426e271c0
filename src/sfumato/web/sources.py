"""The tables that may be opened, in folders the user named or in uploads, and how they are read.

Uploads lie in a folder of their own that only this user can read; what a killed workbench left
there is removed later. What is found out about a file its user may say instead, in the words
of the command line (``--delimiter``, ``--encoding``, ``--null``, ``--header``, ``--exclude``,
``--parse``, ``--unparsed``, and a sheet or table behind ``#``); it is kept as ``reading.toml``
beside the decisions.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import secrets
import shutil
import threading
import tomllib
import warnings
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from itertools import islice
from pathlib import Path
from typing import Any

import tomli_w

from sfumato.engines.foreign import parts_of
from sfumato.engines.private_folder import PrivateFolder, remove_abandoned
from sfumato.engines.protocol import KeepsText
from sfumato.errors import EngineError, ParameterError, SourceError
from sfumato.files import held, read_unlinked, write_text
from sfumato.report.disclosure import as_text
from sfumato.tables import Table, table
from sfumato.wording import for_shell

LISTED = (
    ".csv", ".tsv", ".csv.gz", ".csv.zst", ".tsv.gz", ".tsv.zst", ".parquet", ".pq", ".arrow",
    ".feather", ".xlsx", ".xlsm", ".sav", ".zsav", ".dta", ".sas7bdat", ".xpt", ".orc", ".avro",
    ".jsonl", ".ndjson", ".sqlite", ".sqlite3",
)  # fmt: skip
"""Endings of files that are tables."""
ENDINGS = (*LISTED, ".txt", ".txt.gz", ".txt.zst", ".tab", ".ipc", ".json", ".db")
"""Those and endings of files that may be tables, where somebody says so."""
MOST = 500
"""Files listed at most."""


@dataclass(frozen=True)
class Listed:
    """A table that can be opened, and what was made of it on earlier days."""

    place: Path
    bytes: int
    begun: bool
    """Whether there are decisions about it."""
    releases: int
    last: str
    """The day on which the last release was written."""

    @property
    def size(self) -> str:
        """How large its file is."""
        for unit, power in (("GB", 30), ("MB", 20), ("KB", 10)):
            if self.bytes >= 1 << power:
                return f"{self.bytes / (1 << power):,.1f} {unit}"
        return f"{self.bytes:,} bytes"

    @classmethod
    def of(cls, place: Path) -> Listed:
        """What the file system says of a table; links in its folder count for nothing."""
        folder = place.parent / f"{place.name}.sfumato"
        written: list[float] = []
        begun = False
        with suppress(OSError):
            if folder.is_dir() and not folder.is_symlink():
                found = folder.glob("release*.certificate.json")
                written = [one.stat().st_mtime for one in found if not one.is_symlink()]
                begun = bool(written) or (folder / "project.toml").is_file()
        last = dt.date.fromtimestamp(max(written)).isoformat() if written else ""
        with suppress(OSError):
            return cls(place, place.stat().st_size, begun, len(written), last)
        return cls(place, 0, begun, len(written), last)


class TableFolders:
    """A list of files; what the browser asks for is compared with it and never opened as it came.

    Parameters
    ----------
    places
        Files, and folders whose tables (not those of folders inside them) are listed.
    """

    def __init__(self, places: Sequence[Path]) -> None:
        self._files: list[Path] = []
        self._folders: list[Path] = []
        for place in places:
            if place.is_dir():
                self._folders.append(place.resolve())
            elif place.is_file():
                self._files.append(place.resolve())
            else:
                raise SourceError(
                    "there is no such file or folder",
                    where=str(place),
                    remedy="Give tables, or folders that hold some.",
                )

    def tables(self) -> list[Path]:
        """What can be opened now, in order of names."""
        found = list(self._files)
        found += [place for place in self._inside(LISTED) if place not in found]
        return found[:MOST]

    def listed(self) -> list[Listed]:
        """The same with what was made of them."""
        return [Listed.of(place) for place in self.tables()]

    def keys(self) -> list[Path]:
        """Keys of pseudonyms that lie in the folders."""
        return self._inside((".key",))[:MOST]

    def _inside(self, endings: tuple[str, ...]) -> list[Path]:
        """Files of the folders; one that cannot be read any more holds nothing."""
        found: list[Path] = []
        for folder in self._folders:
            with suppress(OSError):
                found += sorted(
                    place
                    for place in folder.iterdir()
                    # A link may lead elsewhere: only what really lies in the folder counts.
                    if place.name.endswith(endings)
                    and not place.name.startswith(".")
                    and place.is_file()
                    and place.resolve().parent == folder
                )
        return found

    def table(self, name: str) -> Path:
        """The table of this name as the list shows it."""
        for place in self.tables():
            if str(place) == name:
                return place
        raise SourceError("this table is not in the folders that were opened")


class Uploads:
    """Uploaded tables, each in a folder of its own that only this user can read.

    Parameters
    ----------
    most
        Bytes that one table may have.
    """

    def __init__(self, most: int = 2 << 30) -> None:
        self.most = most
        self._folder: PrivateFolder | None = None

    @staticmethod
    def tidy() -> None:
        """Remove what workbenches left behind that were killed."""
        remove_abandoned()

    def place(self, name: str) -> Path:
        """Where a table of this name may be written; nothing of the name leads elsewhere."""
        plain = name.replace("\\", "/").rpartition("/")[2].strip()
        if not plain.lower().endswith(ENDINGS) or plain.startswith(".") or not plain.isprintable():
            raise ParameterError(
                "this is not a table that can be read here",
                remedy="Choose a text file, Parquet, Arrow, Excel, SPSS, Stata, SAS or SQLite.",
            )
        if len(plain.encode()) > 200:
            raise ParameterError("the name of the file is too long", remedy="Rename it.")
        if self._folder is None:
            self._folder = PrivateFolder()
        folder = self._folder.path / secrets.token_hex(8)
        folder.mkdir(mode=0o700)
        return folder / plain

    async def receive(self, name: str, parts: AsyncIterator[bytes]) -> Path:
        """Write what comes in; nothing of it is left where it is too large or breaks off."""
        place = self.place(name)
        left = self.most
        try:
            with place.open("xb") as file:
                async for part in parts:
                    left -= len(part)
                    if left < 0:
                        raise ParameterError(
                            f"the file is larger than {self.most / 2**20:,.0f} MB",
                            remedy="Name its folder when you start `sfumato serve`: tables that "
                            "lie there are not copied.",
                        )
                    file.write(part)
        except OSError as error:
            self.remove(place)
            raise EngineError(
                f"the file could not be kept ({(error.strerror or 'unknown').lower()})",
                remedy="Free some space, or point TMPDIR to a larger disk.",
            ) from None
        except BaseException:
            self.remove(place)
            raise
        return place

    def holds(self, place: Path) -> bool:
        """Whether a table came through the browser."""
        return self._folder is not None and self._folder.path in place.parents

    def remove(self, place: Path) -> None:
        """Forget a table, with everything that was made of it."""
        if self.holds(place):
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(place.parent)

    def close(self) -> None:
        """Remove everything."""
        if self._folder is not None:
            self._folder.close()
            self._folder = None


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
            try:
                opened = table(self.place(source), **given)
            except SourceError as error:
                if self.part or len(parts_of(source)) < 2:
                    raise
                remedy = "Choose one at “Sheet or table” under “how the file is read”."
                raise SourceError(error.what, where=error.where, remedy=remedy) from error
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
        return for_shell(self.place(Path(source.name)), *self.options())

    def options(self, parsing: bool = False) -> list[str]:
        """Options of the command line that read it so; what is parsed may stand in settings."""
        words = ["--no-header"] if not self.header else []
        for option, values in (
            ("--delimiter", [self.delimiter]),
            ("--encoding", [self.encoding]),
            ("--null", self.null_values),
            ("--exclude", [",".join(self.exclude)]),
        ):
            words += [word for value in values if value for word in (option, value)]
        if parsing and self.parse:
            words += ["--parse", ",".join(f"{name}={kind}" for name, kind in self.parse.items())]
            words += ["--unparsed", self.unparsed] if self.unparsed != Reading.unparsed else []
        return words

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
                remedy="Say here what is not detected, and read it: that replaces the file.",
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
