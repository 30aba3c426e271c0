"""Hierarchies in ARX's form: one line a value, ``value;level 1;…;root``, no header."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sfumato.errors import HierarchyError, did_you_mean
from sfumato.files import appearing, read_text, require_folder
from sfumato.hierarchy.hierarchy import Hierarchy

__all__ = ["parse_arx", "read_arx", "read_folder", "write_arx"]

_DELIMITERS = (";", "\t", ",")


def read_arx(path: str | Path) -> Hierarchy:
    """Read a hierarchy file.

    Raises
    ------
    HierarchyError
        If the file cannot be read, has lines of unequal depth, a value twice, two roots, or a
        label below two different labels; file and line are named.
    """
    return parse_arx(read_text(path, "the hierarchy", kind=HierarchyError), where=str(path))


def parse_arx(text: str, *, where: str | None = None) -> Hierarchy:
    """Read a hierarchy from text; fields are separated by semicolons, else tabs, else commas.

    Examples
    --------
    >>> sex = parse_arx("Female;*\\nMale;*\\n")
    >>> sex.leaves.to_pylist(), sex.height
    (['Female', 'Male'], 1)
    >>> parse_arx("Female;*\\nMale;any;*\\n", where="sex.csv")
    Traceback (most recent call last):
        ...
    sfumato.errors.HierarchyError: sex.csv: line 2 has 3 fields where line 1 has 2. Give every \
line the same number; pad short branches by repeating a label.
    """
    bare = re.sub(r'"[^"]*"', "", text)  # what stands within quotes separates nothing
    first_line = next((line for line in bare.splitlines() if line.strip(" ")), "")
    delimiter = next((mark for mark in _DELIMITERS if mark in first_line), ";")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        for row in reader:
            if row:
                rows.append(row)
                lines.append(reader.line_num)
    except csv.Error as error:
        raise HierarchyError(
            f"line {reader.line_num} is malformed: {error}",
            where=where,
            remedy="Close every quote; write a quote inside a label twice.",
        ) from None
    if not rows:
        raise HierarchyError(
            "the hierarchy is empty", where=where, remedy="Write one line a value, e.g. Female;*"
        )
    for row, line in zip(rows, lines, strict=True):
        if len(row) != len(rows[0]):
            raise HierarchyError(
                f"line {line} has {len(row)} fields where line {lines[0]} has {len(rows[0])}",
                where=where,
                remedy="Give every line the same number; pad short branches by repeating a label.",
            )
    levels = [list(level) for level in zip(*rows, strict=True)]
    return Hierarchy.from_levels(levels, where=where, lines=np.array(lines))


def write_arx(hierarchy: Hierarchy, path: str | Path) -> None:
    """Write a hierarchy as ARX reads it; short branches are padded by repeating labels.

    Raises
    ------
    HierarchyError
        If a padded label would meet another node of the same label on its level.
    """
    levels = hierarchy.levels()
    for level, labels in enumerate(levels):
        nodes = len(np.unique(hierarchy.tree.ancestors[:, level]))
        if labels.null_count or len(labels.unique()) != nodes:
            raise HierarchyError(
                f"different nodes would get the same label on level {level}",
                where=str(path),
                remedy="Rename one of them: this file form tells nodes apart by level and label.",
            )
    with appearing(path) as unfinished, unfinished.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=";", lineterminator="\n")
        writer.writerows(zip(*(labels.to_pylist() for labels in levels), strict=True))


def read_folder(folder: str | Path, columns: Sequence[str]) -> dict[str, Hierarchy]:
    """Read ``<column>.csv`` for every column that has one.

    Raises
    ------
    HierarchyError
        If the folder does not exist, or a file belongs to none of the columns.
    """
    place = require_folder(folder, "the hierarchies", kind=HierarchyError)
    found = {}
    for file in sorted(place.glob("*.csv")):
        if file.stem not in columns:
            raise HierarchyError(
                f"there is no column `{file.stem}` for this hierarchy",
                where=str(file),
                remedy=did_you_mean(file.stem, columns),
            )
        found[file.stem] = read_arx(file)
    return found
