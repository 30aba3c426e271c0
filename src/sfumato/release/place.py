"""Whether a release can be written where the user wants it, asked before any work is done."""

from __future__ import annotations

import os
from pathlib import Path

from sfumato.engines.writing import check_destination, format_of
from sfumato.errors import ParameterError, spell
from sfumato.keyfiles import signature
from sfumato.release.certificate import certificate_path
from sfumato.tables import Table

__all__ = ["check_certificate_place", "check_place"]


def check_place(
    opened: Table,
    output: str | os.PathLike[str] | None,
    *,
    format: str | None = None,
    force: bool = False,
    sign: str | os.PathLike[str] | None = None,
) -> None:
    """Refuse an output that could not be published in the end, or signed.

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
    able = opened.engine.capabilities
    if able.replayable and not able.remote:
        text = os.fspath(output)
        if "://" in text:
            raise ParameterError(
                "rows of a file are written to a file, not to a database",
                remedy="Write a file, e.g. -o out.parquet, and load that.",
            )
        format_of(text, format)
        check_destination(text, inputs=opened.engine.paths, force=force)
    check_certificate_place(certificate_path(output), force=force, sign=sign)


def check_certificate_place(
    beside: Path, *, force: bool = False, sign: str | os.PathLike[str] | None = None
) -> None:
    """Refuse to replace the certificate of another release, and a key that cannot sign."""
    if sign is not None:
        signature(b"", sign)
    if beside.exists() and not force:
        raise ParameterError(
            "there is a certificate of an earlier release",
            where=str(beside),
            remedy=f"Choose another name, or replace it with {spell('force', True)}.",
        )
