"""The tables that may be opened: those in the folders the user named, and nothing outside them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from sfumato.errors import SourceError

__all__ = ["Shelf"]

ENDINGS = (".csv", ".tsv", ".parquet", ".arrow", ".csv.gz", ".csv.zst", ".tsv.gz", ".tsv.zst")
MOST = 500
"""Files listed at most."""


class Shelf:
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
                raise SourceError("there is no such file or folder", where=str(place))

    def tables(self) -> list[Path]:
        """What can be opened now, in order of names."""
        found = list(self._files)
        found += [place for place in self._inside(ENDINGS) if place not in found]
        return found[:MOST]

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
