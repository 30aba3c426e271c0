"""Whether a release can be written where the user wants it, asked before any work is done."""

from __future__ import annotations

import os
from pathlib import Path

from sfumato.engines.writing import check_destination, format_of
from sfumato.errors import ParameterError, spell
from sfumato.release.certificate import certificate_path
from sfumato.tables import Table

__all__ = ["check_certificate_place", "check_place"]


def check_place(
    opened: Table,
    output: str | os.PathLike[str],
    *,
    format: str | None = None,
    force: bool = False,
) -> None:
    """Refuse an output that could not be published in the end.

    A long search should not end in "this file exists already". Places in a database or on a
    cluster are looked at when the release is written.

    Examples
    --------
    >>> import pyarrow as pa, sfumato as sf
    >>> check_place(sf.table(pa.table({"age": [1]})), "no-such-folder/people.csv")
    Traceback (most recent call last):
        ...
    sfumato.errors.ParameterError: no-such-folder: the folder to write to does not exist. \
Create it first.
    """
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
    check_certificate_place(certificate_path(output), force=force)


def check_certificate_place(beside: Path, *, force: bool = False) -> None:
    """Refuse to replace the certificate of another release."""
    if beside.exists() and not force:
        raise ParameterError(
            "there is a certificate of an earlier release",
            where=str(beside),
            remedy=f"Choose another name, or replace it with {spell('force', True)}.",
        )
