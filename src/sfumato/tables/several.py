"""Names that stand for several tables: a description of them, a folder, a schema of PostgreSQL."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa

from sfumato.engines.foreign import FOREIGN
from sfumato.tables.formats import is_postgres

DESCRIPTION = "dataset.toml"
"""What the file is called that describes a folder."""
MOST_TABLES = 500
TABLE_ENDINGS = (
    ".csv", ".tsv", ".csv.gz", ".tsv.gz", ".csv.zst", ".tsv.zst", ".parquet", ".pq", ".arrow",
    ".feather", *(f".{end}" for one in FOREIGN.values() for end in one.endings if end != "db"),
)  # fmt: skip
_IN_SCHEMA = ".*"
"""What follows the name of a schema of PostgreSQL that is a dataset."""


def names_several(text: str) -> bool:
    """Whether a name stands for several tables: a description, a folder of tables, or a schema.

    A folder of Parquet files is one table, unless a description lies in it or they are no parts of
    one table: their columns differ.

    Examples
    --------
    >>> names_several("people.csv"), names_several("postgresql:///db#ward.*")
    (False, True)
    """
    if is_postgres(text):
        return schema_of(text) is not None
    place = Path(text)
    if not os.path.isdir(place):
        return text.lower().endswith(".toml") and os.path.isfile(place)
    if parts := parts_of_one(text):
        return any(_header(one) != _header(parts[0]) for one in parts[1:MOST_TABLES])
    return (place / DESCRIPTION).is_file() or bool(table_files(place))


def parts_of_one(text: str) -> list[Path]:
    """Parquet files of a folder without a description, which one table is read from if they fit."""
    folder = Path(text)
    if not folder.is_dir() or (folder / DESCRIPTION).is_file():
        return []
    ends = (".parquet", ".pq")
    return [one for one in table_files(folder) if one.name.lower().endswith(ends)]


def schema_of(address: str) -> str | None:
    """The schema of an address ``postgresql://…#schema.*``; None if it names something else."""
    fragment = address.partition("#")[2]
    if not fragment.endswith(_IN_SCHEMA) or not is_postgres(address):
        return None
    return fragment.removesuffix(_IN_SCHEMA)


def table_files(folder: Path) -> list[Path]:
    """The files of a folder that are tables by their names; links lead elsewhere and are none."""
    return [
        one
        for one in sorted(folder.iterdir())
        if one.name.lower().endswith(TABLE_ENDINGS)
        and not one.name.startswith(".")
        and not one.name.endswith("certificate.json")
        and one.is_file()
        and not one.is_symlink()
    ]


def _header(file: Path) -> tuple[str, ...]:
    """Names of the columns of a Parquet file; none where it is not one."""
    import pyarrow.parquet as pq

    try:
        return tuple(pq.read_schema(file).names)
    except (OSError, pa.ArrowException):
        return ()
