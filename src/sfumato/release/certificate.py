"""The certificate that lies beside a release: what was asked, what was measured, what was written.

A certificate goes wherever the release goes, so it must not tell more than the release itself.
`FIELDS` lists all it may hold, each with the reason why it is harmless: it was chosen by the maker,
or can be counted on the released table by anybody, or is a digest under a key that stays at home.
Nothing in it depends on what was hidden, so no guess about hidden cells can be tried out on it.

It carries a checksum of itself, against accidents; who wrote it only a signature can tell
(`sfumato.keyfiles`). It names the day it was made, or that of SOURCE_DATE_EPOCH: with the same day,
the same input and the same seed give the same bytes. Nobody is named who was not asked for.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato._version import __version__
from sfumato.budget import Budget
from sfumato.engines.foreign import FOREIGN, check_room
from sfumato.engines.protocol import asks_sql
from sfumato.engines.writing import check_destination, format_of
from sfumato.errors import ParameterError, PromiseError, SourceError, spell
from sfumato.files import (
    alone_in,
    appearing,
    published,
    refuse_other_than_file,
    unreadable,
    write_text,
)
from sfumato.files import certificate_path as certificate_path
from sfumato.keyfiles import is_signed_by, signature
from sfumato.results import plain
from sfumato.tables import Table

FORMAT = 2
"""Version of the certificate's form; raised when old readers would misread a new one."""
FIELDS = {
    "certificate": "the form of certificates",
    "sfumato": "the version that wrote it",
    "date": "the day it was written, in UTC",
    "author": "whom the maker named",
    "method": "chosen by the maker",
    "asked": "chosen by the maker; seeds, key files, recoding tables and passwords are left out",
    "qi": "chosen by the maker, or the published columns",
    "k": "counted on the released table: rows of the smallest class, also where persons were "
    "promised whom the release does not name",
    "classes": "counted on the released table",
    "rows": "counted on the released table",
    "suppressed_rows": "a number of rows; it tells nothing about what any of them holds",
    "suppressed_cells": "counted on the released table: stars can be seen there",
    "column_actions": "which columns are in the released table, and which of them were recoded, as "
    "their cells or the maker's choices show",
    "stopped_by": "whether time or memory ended the search",
    "input": "its name, its columns, and a digest under a key that stays with the maker",
    "output": "its name, its columns, its rows, whether these are sorted, and its own digest: "
    "anybody who has it can make it",
    "promises": "what the maker promised, and what is measured for it on the released table",
}
"""Every field of a certificate, and why it is harmless."""
_LONGEST = 64 << 20
"""Bytes of a certificate that are read."""
_LONGEST_NAME = 200
AGAIN = "Get it again from where it was made, or release the table again."


def today() -> dt.date:
    """The day in UTC; that of SOURCE_DATE_EPOCH where it is set, so that builds can be repeated."""
    fixed = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not fixed:
        return dt.datetime.now(dt.UTC).date()
    try:
        return dt.datetime.fromtimestamp(int(fixed), dt.UTC).date()
    except (ValueError, OverflowError, OSError):
        raise ParameterError(
            "SOURCE_DATE_EPOCH is not a number of seconds since 1970",
            remedy="Set it to a whole number, or unset it.",
        ) from None


def fits(text: str) -> bool:
    """Whether a name or a date can be printed in a line."""
    return 0 < len(text) <= _LONGEST_NAME and text.isprintable()


def checked_author(author: str | None) -> str | None:
    """The name that a certificate gives as its author's; None where none is given."""
    if author is None or (isinstance(author, str) and fits(author := author.strip())):
        return author
    raise ParameterError(
        f"an author is one line of text, of at most {_LONGEST_NAME} characters",
        remedy=f"Give e.g. {spell('author', 'Data office')}.",
    )


@dataclass(frozen=True)
class Certificate:
    """What is said about a release, and who signed it.

    `signed` is what `sfumato.keyfiles.signature` made of the body; None where nobody did.
    """

    body: Mapping[str, Any]
    signed: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, **fields: Any) -> Certificate:
        """A new certificate with the given fields, all of which `FIELDS` knows."""
        unknown = set(fields) - set(FIELDS)
        if unknown:  # whoever adds a field has to say why it gives nothing away
            raise ValueError(f"no field of a certificate: {', '.join(sorted(unknown))}")
        head = {"certificate": FORMAT, "sfumato": __version__, "date": today().isoformat()}
        return cls({**head, **plain(fields)})

    @property
    def maker(self) -> str:
        """When and by whom it says that it was made, in a line; nobody checked that.

        Examples
        --------
        >>> Certificate({"sfumato": "0.1.0", "date": "2026-11-16", "author": "Ada"}).maker
        'made on 2026-11-16 by Ada, with Sfumato 0.1.0'
        """
        date, author, version = (
            told if isinstance(told := self.body.get(name), str) and fits(told) else None
            for name in ("date", "author", "sfumato")
        )
        day = "on a day that it does not say" if date is None else f"on {date}"
        by = "" if author is None else f" by {author}"
        return f"made {day}{by}" + ("" if version is None else f", with Sfumato {version}")

    def signed_with(self, key: str | os.PathLike[str]) -> Certificate:
        """The same, signed with the key in a file."""
        return Certificate(self.body, signature(_canonical(self.body), key))

    def is_signed(self, by: str | None = None) -> bool:
        """Whether the signature is one, and by this public key where one is given."""
        return is_signed_by(self.signed, _canonical(self.body), by)

    def text(self) -> str:
        """The certificate as JSON, with its checksum and its signature."""
        body = {**self.body, "digest": _digest(self.body)}
        if self.signed is not None:
            body["signed"] = dict(self.signed)
        return json.dumps(body, ensure_ascii=False, indent=2) + "\n"

    def write(self, path: Path) -> None:
        """Write the certificate in one atomic step."""
        write_text(path, self.text())

    @contextmanager
    def beside(
        self, path: Path, *, force: bool, appeared: Callable[[], bool] = lambda: False
    ) -> Iterator[None]:
        """Lie at a path from now on if the release appears in the block, or leave what was there.

        Of programs that publish in one folder one waits for the other, so that the certificate of
        one never lies beside the release of another.

        Parameters
        ----------
        path
            Where the certificate goes.
        force
            Whether that of an earlier release may be replaced.
        appeared
            Whether the release has its name although the block was interrupted.
        """
        with alone_in(path.parent):
            check_certificate_place(path, force=force)
            earlier = path.read_bytes() if path.is_file() else None
            try:
                self.write(path)
                yield
            except BaseException:
                if appeared():
                    published.get()(path)
                    raise
                if earlier is None:
                    with suppress(OSError):
                        path.unlink()
                else:
                    with appearing(path) as unfinished:
                        unfinished.write_bytes(earlier)
                raise
            published.get()(path)

    @classmethod
    def read(cls, path: Path) -> Certificate:
        """Read a certificate and check that it is whole.

        Raises
        ------
        SourceError
            It is missing, unreadable, or of another form.
        PromiseError
            It is damaged: its checksum differs.
        """
        where = str(path)
        try:
            body = json.loads(_read(path).decode("utf-8"))
        except (ValueError, RecursionError) as error:
            line = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
            raise PromiseError(
                f"the certificate is not whole{line}", where=where, remedy=AGAIN
            ) from error
        if not isinstance(body, dict) or "certificate" not in body:
            raise SourceError(
                "this is not a certificate of Sfumato",
                where=where,
                remedy="Name the .certificate.json beside the release.",
            )
        if body["certificate"] != FORMAT:
            raise SourceError(
                f"the certificate has form {body['certificate']}, this version reads form {FORMAT}",
                where=where,
                remedy="Verify it with the version of Sfumato that made it, or make the release "
                "again.",
            )
        digest, signed = body.pop("digest", None), body.pop("signed", None)
        if digest != _digest(body):
            raise PromiseError(
                "the certificate was altered or damaged: its checksum differs",
                where=where,
                remedy=AGAIN,
            )
        return cls(body, signed)


def _read(path: Path) -> bytes:
    """The bytes of a certificate, without following wherever a strange file may lead."""
    where = str(path)
    try:
        if not path.is_file() and path.exists():
            raise SourceError(
                "the certificate is not a file", where=where, remedy="Name the .certificate.json."
            )
        with path.open("rb") as file:
            content = file.read(_LONGEST + 1)
        if len(content) > _LONGEST:
            raise SourceError(
                f"this file is larger than {_LONGEST >> 20} MB, so it is no certificate",
                where=where,
                remedy="Name the .certificate.json beside the release.",
            )
        return content
    except FileNotFoundError as error:
        raise SourceError(
            "there is no certificate",
            where=where,
            remedy="Name it, or say what to check, e.g. "
            f"{spell('k', 5)} {spell('qi', ['age', 'sex'])}.",
        ) from error
    except OSError as error:
        reason, remedy = unreadable(path, error)
        raise SourceError(
            f"the certificate cannot be read: {reason}", where=where, remedy=remedy
        ) from error


def _digest(body: Mapping[str, Any]) -> str:
    return "sha256:" + hashlib.sha256(_canonical(body)).hexdigest()


def _canonical(body: Mapping[str, Any]) -> bytes:
    text = json.dumps(body, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def check_place(
    opened: Table,
    output: str | os.PathLike[str] | None,
    *,
    format: str | None = None,
    force: bool = False,
    sign: str | os.PathLike[str] | None = None,
    spreadsheet_safe: bool = False,
    budget: Budget | None = None,
) -> None:
    """Refuse an output that could not be published in the end, signed, or held until it is written.

    A long search should not end in "this file exists already". Places in a database or on a
    cluster are looked at when the release is written. Where there is no output, nothing can be
    signed.

    Examples
    --------
    >>> import pyarrow as pa, sfumato as sf
    >>> check_place(sf.table(pa.table({"age": [1]})), "no-such-folder/people.csv")
    Traceback (most recent call last):
        ...
    sfumato.errors.ParameterError: no-such-folder: the folder to write to does not exist. \
Create it first.
    """
    if output is None:
        if sign is not None:
            raise ParameterError(
                "only a release that is written can be signed",
                remedy=f"Say where to write it, e.g. {spell('output', 'out.csv')}.",
            )
        return
    able, text = opened.engine.capabilities, os.fspath(output)
    kind: str | None = None
    if able.replayable and not able.remote:
        if "://" in text:
            raise ParameterError(
                "rows of a file are written to a file, not to a database",
                remedy="Write a file, e.g. -o out.parquet, and load that.",
            )
        kind = format_of(text, format).kind
        check_destination(text, inputs=opened.engine.paths, force=force)
    elif asks_sql(opened.engine):
        with suppress(ParameterError):  # the name of a table, or refused when it is written
            kind = format_of(text, format).kind
        connection = opened.engine.connection
        stays = (spreadsheet_safe or kind in FOREIGN) and connection.target(
            text, format, pa.schema([])
        )
        if stays and spreadsheet_safe:
            raise ParameterError(
                f"{spell('spreadsheet_safe', True)} is for files, and this release stays where its "
                "rows are",
                where=text,
                remedy="Leave it out.",
            )
        if stays:
            kind = None  # a table of such a name
    limit = None if budget is None else budget.memory
    limit = limit or getattr(getattr(opened.engine, "source", None), "memory", None)
    if kind in FOREIGN and limit is not None:
        check_room(kind, opened.rows * len(opened.columns), limit, text)
    check_certificate_place(certificate_path(output), force=force, sign=sign)


def check_certificate_place(
    beside: Path, *, force: bool = False, sign: str | os.PathLike[str] | None = None
) -> None:
    """Refuse to replace the certificate of another release, and a key that cannot sign."""
    if sign is not None:
        signature(b"", sign)
    refuse_other_than_file(beside)
    if beside.exists() and not force:
        raise ParameterError(
            "there is a certificate of an earlier release",
            where=str(beside),
            remedy=f"Choose another name, or replace it with {spell('force', True)}.",
        )
