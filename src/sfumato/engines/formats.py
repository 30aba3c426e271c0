"""File formats by name: what a path's ending, or the user, says."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from sfumato.errors import ParameterError, did_you_mean

__all__ = ["FileFormat", "format_of"]

_KINDS = {
    "csv": "csv", "txt": "csv", "tsv": "tsv", "tab": "tsv", "parquet": "parquet", "pq": "parquet",
    "arrow": "arrow", "feather": "arrow", "ipc": "arrow",
}  # fmt: skip
_COMPRESSIONS = {"gz": "gzip", "gzip": "gzip", "zst": "zstd", "zstd": "zstd"}


@dataclass(frozen=True)
class FileFormat:
    """A kind of file and its outer compression."""

    kind: Literal["csv", "tsv", "parquet", "arrow"]
    compression: Literal["gzip", "zstd"] | None = None

    @property
    def delimiter(self) -> str:
        """What stands between two cells of a text file."""
        return "\t" if self.kind == "tsv" else ","


def format_of(path: str, named: str | None = None) -> FileFormat:
    """The format a file is to be written in: as named by the user, else by the path's ending.

    Examples
    --------
    >>> format_of("people.csv.gz")
    FileFormat(kind='csv', compression='gzip')
    >>> format_of("out.dat", "parquet").kind
    'parquet'
    """
    text = named.lower().lstrip(".") if named is not None else PurePath(path).name.lower()
    parts = text.split(".")
    compression = _COMPRESSIONS.get(parts[-1])
    if compression is not None:
        parts.pop()
    kind = _KINDS.get(parts[-1]) if parts and (named is not None or len(parts) > 1) else None
    if kind is None:
        given = parts[-1] if parts else text
        raise ParameterError(
            f"cannot tell the format to write from `{named or PurePath(path).name}`",
            where=path,
            remedy=f"End it in .csv, .tsv, .parquet or .arrow. {did_you_mean(given, _KINDS)}",
        )
    if named is not None and (said := _said_by(path)) not in (None, kind):
        raise ParameterError(
            f"the file is named {said} and would be written as {kind}",
            where=path,
            remedy="Leave out the format, or end the name otherwise.",
        )
    if compression is not None and kind in ("parquet", "arrow"):
        raise ParameterError(
            f"{kind} files are compressed inside, not as a whole",
            where=path,
            remedy=f"Leave out the last ending: .{kind} is enough.",
        )
    return FileFormat(kind, compression)  # type: ignore[arg-type]


def _said_by(path: str) -> str | None:
    """The kind of file that a path's ending says, if it says one."""
    parts = PurePath(path).name.lower().split(".")
    if parts[-1] in _COMPRESSIONS:
        parts.pop()
    return _KINDS.get(parts[-1]) if len(parts) > 1 else None
