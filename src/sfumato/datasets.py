"""Public tables to try things on, each with its source and licence.

The smallest are part of the package, and a clone of the repository has all of them in ``data/``.
Elsewhere a table is fetched once, from the project's own address or that in
``SFUMATO_DATASETS_URL``, compared with its checksum, and kept in the user's cache.
"""

from __future__ import annotations

import csv
import hashlib
import http.client
import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from sfumato.errors import EngineError, ParameterError, did_you_mean
from sfumato.fields import checked
from sfumato.files import appearing
from sfumato.results import Result

if TYPE_CHECKING:
    from sfumato.tables import Table


SECONDS = 30
"""How long a server may be silent."""


@dataclass(frozen=True)
class Dataset(Result):
    """One table: what it is, where it comes from, and the checksum of its Parquet file."""

    passed_on: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("name", "rows", "columns", "size", "licence", "source", "about", "sha256", "hierarchies"),
        "told of a public table",
    )

    name: str
    rows: int
    columns: int
    size: int
    licence: str
    source: str
    about: str
    sha256: str
    hierarchies: str | None = None

    @property
    def file(self) -> str:
        """Its place below ``data/``, in the package's folder of tables and in the cache."""
        return f"{self.name}.parquet"


@dataclass(frozen=True)
class Listing(Result):
    """All tables there are."""

    passed_on: ClassVar[Mapping[str, str]] = {"datasets": "told of public tables"}

    datasets: tuple[Dataset, ...]


@dataclass(frozen=True)
class Saved(Result):
    """A table that was written to a file, and the folder of its hierarchies if asked for."""

    passed_on: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("output", "hierarchies", "dataset"), "told of a public table"
    )

    output: str
    hierarchies: str | None
    dataset: Dataset


def names() -> tuple[str, ...]:
    """Names of all tables.

    Examples
    --------
    >>> from sfumato import datasets
    >>> datasets.names()[:3]
    ('adult', 'adult_all', 'arx_adult')
    """
    return tuple(_tables())


def listing() -> Listing:
    """All tables with their size, source and licence."""
    return Listing(tuple(_tables().values()))


@checked
def describe(name: str) -> Dataset:
    """What a table is, and where it comes from.

    Examples
    --------
    >>> from sfumato import datasets
    >>> datasets.describe("crx").rows
    690
    """
    known = _tables()
    if name not in known:
        raise ParameterError(f"there is no dataset `{name}`", remedy=did_you_mean(name, known))
    return known[name]


@checked
def load(name: str) -> Table:
    """Open a table by its name.

    Examples
    --------
    >>> import sfumato as sf
    >>> sf.measure(sf.datasets.load("nursery"), ["parents", "children"]).k
    1080
    """
    from sfumato.tables import table

    return table(path(name))


@checked
def path(name: str) -> Path:
    """The Parquet file of a table; it is fetched if this machine does not have it.

    Raises
    ------
    EngineError
        If the table is not here and cannot be fetched, or if what a server sent is not the file.
    """
    wanted = describe(name)
    for folder in _folders():
        if (folder / wanted.file).exists():
            return folder / wanted.file
    kept = _cache() / wanted.file
    if not (kept.exists() and _digest(kept.read_bytes()) == wanted.sha256):
        _fetch(wanted, kept)
    return kept


@checked
def hierarchies(name: str) -> Path:
    """The folder of a table's generalization hierarchies, for `anonymize`.

    Examples
    --------
    >>> import sfumato as sf
    >>> sorted(file.stem for file in sf.datasets.hierarchies("arx_adult").iterdir())[:2]
    ['age', 'education']
    """
    below = describe(name).hierarchies
    if below is None:
        having = [f"`{other.name}`" for other in _tables().values() if other.hierarchies]
        raise ParameterError(
            f"dataset `{name}` comes without hierarchies",
            remedy=f"Choose {' or '.join(having)}, or make some with `sfumato hierarchy make`.",
        )
    return next(place / below for place in _folders() if (place / below).is_dir())


@checked
def save(
    name: str,
    destination: str | os.PathLike[str],
    *,
    trees: str | os.PathLike[str] | None = None,
    force: bool = False,
) -> Saved:
    """Write a table to a file, whose ending decides the format.

    Parameters
    ----------
    name
        One of `names`.
    destination
        ``.csv``, ``.tsv`` (both also ``.gz``, ``.zst``), ``.parquet`` or ``.arrow``.
    trees
        A folder to be, for the table's hierarchies.
    force
        Replace the file if it exists.
    """
    import pyarrow.parquet as pq

    from sfumato.engines.memory import MemoryEngine
    from sfumato.engines.staging import stage_batches
    from sfumato.engines.writing import check_destination

    target = os.fspath(destination)
    check_destination(target, force=force)
    grown = None if trees is None else hierarchies(name)
    if trees is not None and Path(trees).exists():
        raise ParameterError(
            "this exists already", where=os.fspath(trees), remedy="Name a folder to be made."
        )
    with pq.ParquetFile(path(name)) as file:
        staged = stage_batches(file.iter_batches(), file.schema_arrow, target, reopen=MemoryEngine)
    staged.commit(force=force)
    if grown is not None and trees is not None:
        try:
            shutil.copytree(grown, trees)
        except OSError as error:
            raise EngineError(
                "the hierarchies could not be written",
                where=os.fspath(trees),
                remedy="Check that its folder may be written to, and has space.",
            ) from error
    return Saved(target, None if trees is None else os.fspath(trees), describe(name))


@cache
def _tables() -> dict[str, Dataset]:
    """What ``datasets.csv`` beside this file says of each table."""
    found = {}
    with Path(__file__).with_suffix(".csv").open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            told: dict[str, Any] = {**row, "hierarchies": row["hierarchies"] or None}
            told |= {name: int(row[name]) for name in ("rows", "columns", "size")}
            found[row["name"]] = Dataset(**told)
    return found


def _folders() -> tuple[Path, ...]:
    """Where tables may lie that came with the program: inside the package, or beside ``src``."""
    package = Path(__file__).parent
    inside = package / "data"
    return (inside, package.parents[1] / "data") if package.parent.name == "src" else (inside,)


def _cache() -> Path:
    """Where fetched tables are kept."""
    return (
        Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "sfumato" / "datasets"
    )


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _address() -> str | None:
    """Where the project, or whoever runs a mirror, serves the folder ``data/``."""
    if mirror := os.environ.get("SFUMATO_DATASETS_URL"):
        return mirror
    try:
        told = metadata("sfumato").get_all("Project-URL") or []
    except PackageNotFoundError:
        return None
    addresses = dict(line.split(", ", 1) for line in told)
    return addresses.get("Datasets")


def _fetch(wanted: Dataset, target: Path) -> None:
    """Get a table's file, all of it and nothing else; otherwise nothing is left behind."""
    address = _address()
    if address is None:
        raise _unavailable(
            wanted, target, "SFUMATO_DATASETS_URL does not say from where to fetch it"
        )
    url = f"{address.rstrip('/')}/{wanted.file}"
    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as response:
            content = response.read(wanted.size + 1)
    except (OSError, http.client.HTTPException, ValueError) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()  # it holds the connection
        raise _unavailable(wanted, target, f"{url} cannot be read: {error}") from error
    if len(content) < wanted.size:
        why = f"{url} broke off after {len(content):,} of {wanted.size:,} bytes"
        raise _unavailable(wanted, target, why)
    if _digest(content) != wanted.sha256:
        raise _unavailable(wanted, target, f"{url} has another checksum")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unavailable(wanted, target, "its folder cannot be made") from error
    with appearing(target) as unfinished:
        unfinished.write_bytes(content)


def _unavailable(wanted: Dataset, target: Path, why: str) -> EngineError:
    state = "is damaged" if target.exists() else "is not on this machine"
    return EngineError(
        f"dataset `{wanted.name}` {state}, and {why}",
        where=str(target),
        remedy=f"Put the file there by hand; it is data/{wanted.file} in the repository.",
    )
