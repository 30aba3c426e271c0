"""Tables that came through the browser: kept in a private folder, and gone with the workbench."""

from __future__ import annotations

import contextlib
import secrets
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

from sfumato.errors import EngineError, ParameterError
from sfumato.web.refuge import Refuge, remove_abandoned
from sfumato.web.shelf import ENDINGS

__all__ = ["Uploads"]


class Uploads:
    """Uploaded tables, each in a folder of its own that only this user can read.

    Parameters
    ----------
    most
        Bytes that one table may have.
    """

    def __init__(self, most: int = 2 << 30) -> None:
        self.most = most
        self._folder: Refuge | None = None

    @staticmethod
    def tidy() -> None:
        """Remove what workbenches left behind that were killed."""
        remove_abandoned()

    def place(self, name: str) -> Path:
        """Where a table of this name may be written; nothing of the name leads elsewhere."""
        plain = name.replace("\\", "/").rpartition("/")[2].strip()
        if not plain.lower().endswith(ENDINGS) or plain.startswith(".") or not plain.isprintable():
            raise ParameterError(
                "this is no table that can be read here",
                remedy="Choose a CSV, TSV, Parquet or Arrow file.",
            )
        if len(plain.encode()) > 200:
            raise ParameterError("the name of the file is too long", remedy="Rename it.")
        if self._folder is None:
            self._folder = Refuge()
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
