"""What every verb returns: small frozen records that know how to become JSON.

Results compute nothing and draw nothing. The command line prints `to_dict()` under ``--json``;
reports and notebooks draw the same fields.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa


_pages: Callable[[], ModuleType]


def drawn_by(pages: Callable[[], ModuleType]) -> None:
    """Say where the module is that draws results, so that they need not know it themselves."""
    global _pages
    _pages = pages


class Frames:
    """Mixin of what holds rows: they can be taken as a frame of any library.

    Whoever reads Arrow streams (polars, DuckDB, pandas, …) takes the object itself.
    """

    def to_arrow(self) -> pa.Table:
        """All rows as an Arrow table."""
        raise NotImplementedError

    def to_pandas(self) -> pd.DataFrame:
        """All rows as a pandas data frame."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """All rows as a polars data frame."""
        import polars

        return polars.from_arrow(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.to_arrow().__arrow_c_stream__(requested_schema)


class Result:
    """Mixin of frozen dataclasses that are returned to users.

    Fields whose metadata says ``{"private": True}`` are left out of JSON (table handles, arrays).

    On a figure of a table guesses about single cells can be tried out, so a field stays at home
    unless `passed_on` gives the reason why it need not.
    """

    passed_on: ClassVar[Mapping[str, str]] = {}
    """Fields that may go where a release goes, and why each is harmless."""

    def to_dict(self) -> dict[str, Any]:
        """The result as plain Python values, fields named as in Python."""
        assert dataclasses.is_dataclass(self)
        return {
            f.name: plain(getattr(self, f.name))
            for f in dataclasses.fields(self)
            if not f.metadata.get("private")
        }

    def stays_at_home(self) -> list[str]:
        """Fields of the answer that tell about a table what its release does not."""
        return [name for name in self.to_dict() if name not in self.passed_on]

    def answer(self) -> dict[str, Any]:
        """What ``--json`` prints: all fields, and in `stays_at_home` those not to be passed on."""
        return {**self.to_dict(), "stays_at_home": self.stays_at_home()}

    def to_json(self, indent: int | None = None) -> str:
        """The result as one JSON object."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False, indent=indent)

    def report(
        self, path: str | os.PathLike[str], *, force: bool = False, interactive: bool = False
    ) -> Path:
        """Write the result as one self-contained HTML page; see `sfumato.report`.

        With `interactive` charts answer the pointer: a script of about 0.9 MB is put into the page.
        """
        written: Path = _pages().report(self, path, force=force, interactive=interactive)
        return written

    def _repr_html_(self) -> str:
        """What notebooks show."""
        return str(_pages().compact(self))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """All forms a front end may choose from, the specification of the chart among them."""
        first, *charts = _pages().displayed(self)
        return {**(charts[0] if charts else {}), **first}

    def _ipython_display_(self) -> None:
        """Show the compact view and the chart below it; a terminal shows the text."""
        _pages().display(self)


def plain(value: Any) -> Any:
    """Turn a result's value into what JSON can hold.

    Not-a-number and infinities become null, sets are sorted, bytes are written in hexadecimal.

    Examples
    --------
    >>> plain({"k": (1, 2), "ratio": float("nan")})
    {'k': [1, 2], 'ratio': None}
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Result):
        return value.to_dict()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(plain(item) for item in value)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return value.hex()
    if hasattr(value, "tolist"):  # numpy scalars and arrays, without importing numpy here
        return plain(value.tolist())
    return str(value)
