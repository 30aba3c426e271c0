"""Ways to make a hierarchy: from how values are written, a taxonomy, or ARX's files; or guessed.

Codes climb by their beginnings, dates by the calendar, orders by neighbourhood. `infer` chooses by
a column's name, type and values.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import ColumnError, HierarchyError, ParameterError, did_you_mean
from sfumato.fields import checked
from sfumato.files import appearing, read_text, require_folder
from sfumato.hierarchy.hierarchy import Hierarchy
from sfumato.hierarchy.intervals import counts_of, equal_frequency, intervals
from sfumato.hierarchy.labels import STAR, as_text, decoded, star_beside
from sfumato.hierarchy.ranges import numbers
from sfumato.hierarchy.tree import Tree
from sfumato.wording import counted

CALENDAR = ("day", "month", "quarter", "year", "decade")
"""Levels of dates, finest first."""


@checked
def flat(values: pa.Array) -> Hierarchy:
    """Values and nothing but ``*`` above them (``**`` where ``*`` is a value itself).

    Examples
    --------
    >>> flat(pa.array(["F", "M"])).levels()[1].to_pylist()
    ['*', '*']
    """
    text = as_text(values).drop_null()
    return Hierarchy.from_levels([text, pa.repeat(star_beside(text.to_pylist()), len(text))])


@checked
def prefixes(
    values: pa.Array, *, keep: Sequence[int] | None = None, digits: int | None = None
) -> Hierarchy:
    """Mask codes from the right: 02138, 0213*, 021**, …

    Parameters
    ----------
    keep
        How many characters to keep on each level, descending; by default one fewer each time.
    digits
        Length to which numbers are filled with zeros on the left before they are cut, for codes
        that lost theirs (2138 is the ZIP code 02138).

    Examples
    --------
    >>> [level.to_pylist() for level in prefixes(pa.array(["02138", "02139"]), keep=[3]).levels()]
    [['02138', '02139'], ['021**', '021**'], ['*', '*']]
    """
    if digits is not None and not 0 <= digits <= _MOST_DIGITS:
        raise ParameterError(
            f"codes of {digits} digits are not possible", remedy=f"Give {_MOST_DIGITS} at most."
        )
    text = _text(values)
    codes = [item.zfill(digits) for item in text] if digits else text
    if any(STAR in code for code in codes):
        raise ParameterError(
            "values that hold a * cannot be masked with it",
            remedy="Write the tree yourself, or leave it out: values then become sets.",
        )
    longest = max((len(code) for code in codes), default=1)
    kept = list(range(longest - 1, 0, -1)) if keep is None else list(keep)
    if any(length < 1 for length in kept) or any(np.diff(kept) >= 0):
        raise ParameterError(
            "the lengths to keep must descend and be at least 1", remedy="Write e.g. 4,3,2."
        )
    pairs = list(zip(text, codes, strict=True))
    levels = [
        [item if len(c) <= length else c[:length] + STAR * (len(c) - length) for item, c in pairs]
        for length in kept
    ]
    return Hierarchy.from_levels([text, *levels, [STAR] * len(text)])


@checked
def dates(values: pa.Array, levels: Sequence[str] = CALENDAR[1:], name: str = "dates") -> Hierarchy:
    """Days, months, quarters, years, decades.

    Parameters
    ----------
    values
        Dates, timestamps, or text in ISO form.
    levels
        Which of `CALENDAR` to use, finest first.

    Examples
    --------
    >>> born = dates(pa.array(["1987-03-05"]), levels=["month", "quarter", "year", "decade"])
    >>> [level[0].as_py() for level in born.levels()]
    ['1987-03-05', '1987-03', '1987-Q1', '1987', '1980s', '*']
    """
    unknown = [level for level in levels if level not in CALENDAR]
    if unknown or [lv for lv in CALENDAR if lv in levels] != list(levels):
        raise ParameterError(
            "levels of dates must be some of " + ", ".join(CALENDAR) + ", in this order",
            remedy="Write e.g. month,year.",
        )
    values = decoded(values).drop_null()
    days = as_days(values)
    if days is None:
        raise ColumnError(
            "these are not dates",
            where=name,
            remedy="Write them as 2024-03-05, or leave them text.",
        )
    year = [f"{y:04d}" for y in pc.year(days).to_pylist()]
    month, quarter = pc.month(days).to_pylist(), pc.quarter(days).to_pylist()
    texts = {
        "day": days.cast(pa.string()).to_pylist(),
        "month": [f"{y}-{m:02d}" for y, m in zip(year, month, strict=True)],
        "quarter": [f"{y}-Q{q}" for y, q in zip(year, quarter, strict=True)],
        "year": year,
        "decade": [f"{y[:-1]}0s" for y in year],
    }
    text = values.cast(pa.string()).to_pylist()
    return Hierarchy.from_levels([text, *(texts[level] for level in levels), [STAR] * len(text)])


def as_days(values: pa.Array) -> pa.Array | None:
    """Values as days, or None where they are no dates."""
    kind = values.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return values.cast(pa.date32(), safe=False)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        try:
            return values.cast(pa.timestamp("s")).cast(pa.date32(), safe=False)
        except pa.ArrowInvalid:
            return None
    return None


@checked
def ordered_groups(
    ordered: Sequence[str], sizes: Sequence[Sequence[int]], labels: Sequence[Sequence[str]] = ()
) -> Hierarchy:
    """Cut an order of values into groups of neighbours, and those into larger groups.

    Parameters
    ----------
    ordered
        The values, in their order.
    sizes
        For each level, how many neighbours of the level below each group takes.
    labels
        For each level the names of its groups; by default first and last value.

    Examples
    --------
    >>> grades = ordered_groups(["A", "B", "C", "D", "E"], [[2, 3]])
    >>> grades.levels()[1].to_pylist()
    ['A … B', 'A … B', 'C … E', 'C … E', 'C … E']
    """
    if labels and len(labels) != len(sizes):
        raise ParameterError(
            "there must be names for every level of groups, or none",
            remedy="Name the groups of all levels.",
        )
    first = np.arange(len(ordered))  # first value of each group of the level below
    levels: list[list[str]] = []
    for at, level in enumerate(sizes):
        if any(size < 1 for size in level) or sum(level) != len(first):
            raise ParameterError(
                f"the sizes of level {at + 1} must be at least 1 and add up to {len(first)}",
                remedy="Count the groups of the level below again.",
            )
        first = first[np.cumsum([0, *level[:-1]])]
        last = np.append(first[1:], len(ordered)) - 1
        names = [
            ordered[a] if a == b else f"{ordered[a]} … {ordered[b]}"
            for a, b in zip(first, last, strict=True)
        ]
        if labels:
            if len(labels[at]) != len(level):
                raise ParameterError(
                    f"level {at + 1} has {len(level)} groups, not as many names",
                    remedy="Give every group one name.",
                )
            names = list(labels[at])
        levels.append(np.repeat(np.array(names, dtype=object), last - first + 1).tolist())
    return Hierarchy.from_levels([list(ordered), *levels, [star_beside(ordered)] * len(ordered)])


@checked
def neighbours(values: pa.Array, fanout: int = 2) -> Hierarchy:
    """Cut values, in their own order, into groups of neighbours, and those into larger ones.

    Examples
    --------
    >>> neighbours(pa.array([3, 1, 2])).levels()[1].to_pylist()
    ['1 … 2', '1 … 2', '3']
    """
    if fanout < 2:
        raise ParameterError(f"groups of {fanout} never end", remedy="Give at least 2.")
    values = decoded(values).drop_null()
    ordered = _text(values.take(pc.sort_indices(values)))
    sizes: list[list[int]] = []
    left = len(ordered)
    while left > fanout:
        level = [fanout] * (left // fanout) + ([left % fanout] if left % fanout else [])
        sizes.append(level)
        left = len(level)
    return ordered_groups(ordered, sizes)


def _text(values: pa.Array) -> list[str]:
    text: list[str] = as_text(values).drop_null().to_pylist()
    return text


_MOST_DIGITS = 1000
_ONE_A_LINE = "Write one pair a line, e.g. Lincoln,Midwest"


@checked
def taxonomy(pairs: Iterable[tuple[str, str]], *, where: str | None = None) -> Hierarchy:
    """Build a hierarchy from (child, parent) pairs; values are the nodes nothing stands below.

    Parameters
    ----------
    pairs
        Child and parent, in any order; each node is the child of one parent.
    where
        The file whose lines they are, for error messages.

    Examples
    --------
    >>> h = taxonomy([("cat", "mammal"), ("dog", "mammal"), ("mammal", "all"), ("ant", "all")])
    >>> h.leaves.to_pylist(), h.height, h.uniform
    (['cat', 'dog', 'ant'], 2, False)
    """
    parent_of: dict[str, str] = {}
    line_of: dict[str, int] = {}
    for line, pair in enumerate(pairs, 1):
        if not isinstance(pair, (tuple, list)) or [*map(type, pair)] != [str, str]:
            raise HierarchyError(
                f"line {line} is not a child and its parent",
                where=where,
                remedy='Write e.g. ("cat", "mammal").',
            )
        child, parent = pair
        if parent_of.get(child, parent) != parent:
            raise HierarchyError(
                f"line {line} gives a second parent to the child of line {line_of[child]}",
                where=where,
                remedy="Keep one parent a child.",
            )
        if child == parent:
            raise HierarchyError(
                f"line {line} makes a node its own parent",
                where=where,
                remedy="Leave that line out.",
            )
        if child not in parent_of:
            parent_of[child], line_of[child] = parent, line
    if not parent_of:
        raise HierarchyError("the hierarchy is empty", where=where, remedy=_ONE_A_LINE)
    parents = dict.fromkeys(parent_of.values())
    roots = [label for label in parents if label not in parent_of]
    _refuse_cycles(parent_of, line_of, where)
    if len(roots) != 1:
        first_of: dict[str, int] = {}
        for child, parent in parent_of.items():
            first_of.setdefault(parent, line_of[child])
        lines = ", ".join(str(first_of[root]) for root in roots[:5])
        raise HierarchyError(
            f"there are {len(roots)} roots, at lines {lines}",
            where=where,
            remedy="Put them below one common parent.",
        )

    leaves = [label for label in parent_of if label not in parents]
    height = dict.fromkeys(leaves, 0)
    for leaf in leaves:
        label, steps = leaf, 0
        while label in parent_of:
            label, steps = parent_of[label], steps + 1
            if height.get(label, -1) >= steps:
                break
            height[label] = steps
    inner = sorted((label for label in height if label in parents), key=lambda label: height[label])
    nodes = leaves + inner
    number = {label: i for i, label in enumerate(nodes)}
    above = np.array([number[parent_of[label]] if label in parent_of else -1 for label in nodes])
    return Hierarchy(Tree.grow(above, len(leaves)), pa.array(nodes, type=pa.string()), where)


@checked
def read_taxonomy(path: str | Path, delimiter: str = ",") -> Hierarchy:
    """Read a file with one ``child,parent`` a line."""
    text = read_text(path, "the taxonomy", kind=HierarchyError)
    try:
        rows = list(csv.reader(io.StringIO(text), delimiter=delimiter))
    except csv.Error as error:
        raise HierarchyError(
            f"this is not a text table: {error}", where=str(path), remedy=_ONE_A_LINE
        ) from None
    for line, row in enumerate(rows, 1):
        if len(row) != 2:
            raise HierarchyError(
                f"line {line} has {len(row)} fields instead of child and parent",
                where=str(path),
                remedy=_ONE_A_LINE,
            )
    return taxonomy([(row[0], row[1]) for row in rows], where=str(path))


def _refuse_cycles(parent_of: dict[str, str], line_of: dict[str, int], where: str | None) -> None:
    safe: set[str] = set()
    for start in parent_of:
        way: dict[str, None] = {}
        label = start
        while label in parent_of and label not in safe:
            if label in way:
                raise HierarchyError(
                    f"the node of line {line_of[label]} stands above itself",
                    where=where,
                    remedy="Follow its parents, and correct the line that leads back.",
                )
            way[label] = None
            label = parent_of[label]
        safe.update(way)


_DELIMITERS = (";", "\t", ",")


@checked
def read_arx(path: str | Path) -> Hierarchy:
    """Read a hierarchy file.

    Raises
    ------
    HierarchyError
        If the file cannot be read, has lines of unequal depth, a value twice, two roots, or a
        label below two different labels; file and line are named.
    """
    return parse_arx(read_text(path, "the hierarchy", kind=HierarchyError), where=str(path))


@checked
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
            "the hierarchy is empty", where=where, remedy="Write one line per value, e.g. Female;*"
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


@checked
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


@checked
def read_folder(
    folder: str | Path, columns: Sequence[str], *, pass_over: bool = False
) -> dict[str, Hierarchy]:
    """Read ``<column>.csv`` for every column that has one.

    Parameters
    ----------
    pass_over
        Whether files of other columns are left alone: a release lacks some of its table.

    Raises
    ------
    HierarchyError
        If the folder does not exist, or a file belongs to none of the columns.
    """
    place = require_folder(folder, "the hierarchies", kind=HierarchyError)
    found = {}
    for file in sorted(place.glob("*.csv")):
        if file.stem not in columns and pass_over:
            continue
        if file.stem not in columns:
            raise HierarchyError(
                f"there is no column `{file.stem}` for this hierarchy",
                where=str(file),
                remedy=did_you_mean(file.stem, columns),
            )
        found[file.stem] = read_arx(file)
    return found


_POSTAL = re.compile(r"zip|postal|post_?code|plz|postleitzahl|cap\b|codigo_?postal", re.IGNORECASE)
_FINEST_INTERVALS = 20
"""About how many intervals the finest level of numbers gets."""
_FINEST_SPREAD = 1e-9
"""Numbers nearer to each other than this, relative to their size, are not cut at round numbers."""
_FEW = 6
"""Up to so many numbers are categories."""
_CROWDED = 0.6
"""If one interval of equal width would hold more than this share of rows, cut by frequency."""


@checked
def infer(
    name: str, values: pa.Array, counts: Any = None, *, categorical: bool = False, k: int = 5
) -> tuple[Hierarchy, str]:
    """Choose a hierarchy from a column's name, type and values.

    Parameters
    ----------
    name
        The column's name: a ZIP code and a number look alike but for it.
    values
        Distinct values of the column.
    counts
        Rows that hold each value. Without them each value counts once, and all multiples of a
        width are ends.
    categorical
        Whether numbers are codes, whose neighbours have nothing in common.
    k
        From how many rows on a value may be the end of an interval.

    Returns
    -------
    hierarchy
        Over exactly these values (nulls find their place when it is bound).
    reason
        Why this one, in a few words; it quotes no value.

    Examples
    --------
    >>> ages, reason = infer("age", pa.array(range(17, 91)))
    >>> ages.height, reason
    (6, 'numbers: intervals of 5, each next level twice as wide')
    >>> infer("zip", pa.array(["02138", "02139", "10001"]))[1]
    'codes of 5 characters: masked from the right'
    """
    values = decoded(values)
    if counts is not None:
        counts = counts_of(values, counts)[np.asarray(values.is_valid())]
    values = values.drop_null()
    kind = values.type
    if len(values) == 0:
        return Hierarchy.from_levels([["null"], [STAR]]), "no values but null"
    if pa.types.is_boolean(kind):
        return flat(values), "yes or no: only * above"
    if categorical and not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return flat(values), f"{counted(len(values), 'code')} of categories: only * above"
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return _calendar(values, name)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _number(name, values, counts, k)
    text = as_text(values)
    if as_days(text) is not None:
        return _calendar(text, name)
    return _of_text(text)


def _calendar(values: pa.Array, name: str) -> tuple[Hierarchy, str]:
    days = as_days(values)
    assert days is not None
    if values.cast(pa.string()).equals(days.cast(pa.string())):
        return dates(values, name=name), "dates: month, quarter, year, decade"
    return dates(values, CALENDAR, name=name), "times: day, month, quarter, year, decade"


def _number(name: str, values: pa.Array, counts: Any, k: int) -> tuple[Hierarchy, str]:
    points = numbers(values, name)
    finite = points[np.isfinite(points)]
    whole = pa.types.is_integer(values.type)
    if whole and _POSTAL.search(name) and len(finite) and finite.min() >= 0:
        digits = max(len(str(int(finite.max()))), 5 if finite.max() >= 1000 else 0)
        return prefixes(values, digits=digits), f"postal codes of {digits} digits: masked"
    if len(finite) <= _FEW:
        return flat(values), f"{len(values)} numbers only: categories, * above"
    lowest, highest = float(finite.min()), float(finite.max())
    spread = highest - lowest
    even = np.isfinite(spread) and spread > _FINEST_SPREAD * max(abs(lowest), abs(highest), 1e-290)
    if even:
        width = _round_width(spread / _FINEST_INTERVALS, whole or bool((finite % 1 == 0).all()))
        weight = np.ones(len(points)) if counts is None else np.asarray(counts, dtype=float)
        weight = weight[np.isfinite(points)]
        in_interval = np.bincount(((finite - lowest) / width).astype(np.int64), weights=weight)
        even = in_interval.max() <= _CROWDED * weight.sum()
    if not even:
        tree = equal_frequency(values, counts, groups=16, k=k, name=name)
        return tree, "unevenly spread numbers: intervals of about equally many rows"
    tree = intervals(values, width=width, counts=counts, k=k, name=name)
    return tree, f"numbers: intervals of {width:g}, each next level twice as wide"


def _round_width(least: float, whole: bool) -> float:
    """The smallest of 1, 2, 5, 10, 20, … (or 0.1, 0.2, …) that is not below `least`."""
    least = max(least, 2.0) if whole else least
    unit = 10.0 ** np.floor(np.log10(least))
    return next(float(step * unit) for step in (1, 2, 5, 10) if step * unit >= least)


def _of_text(values: pa.Array) -> tuple[Hierarchy, str]:
    text = values.to_pylist()
    lengths = {len(item) for item in text}
    # Codes: all of one length, each with a digit, too many to be categories with a number in them
    coded = all(re.fullmatch(r"[0-9A-Za-z -]*[0-9][0-9A-Za-z -]*", item) for item in text)
    if coded and len(lengths) == 1 and 3 <= len(text[0]) <= 12 and len(text) > 2:
        return prefixes(values), f"codes of {len(text[0])} characters: masked from the right"
    if all(re.fullmatch(r"[0-9A-Za-z]+(\.[0-9A-Za-z]+)*", item) for item in text) and any(
        "." in item for item in text
    ):
        return _dotted(text), "dotted codes: cut at the dots"
    return flat(values), f"{len(text)} categories whose meaning is unknown: only * above"


def _dotted(codes: list[str]) -> Hierarchy:
    """E11.9 and E11 below ``E11.*`` below ``*``: one level a dot."""
    parts = {code: code.split(".") for code in codes}
    deepest = max(len(part) for part in parts.values())
    levels = [
        [code if len(p) < keep else ".".join(p[:keep]) + ".*" for code, p in parts.items()]
        for keep in range(deepest - 1, 0, -1)
    ]
    return Hierarchy.from_levels([codes, *levels, [STAR] * len(codes)])
