"""How values and the cells that stand for several are written, and the signs they leave free.

Categories without a tree are shown as the set of values that their group holds (`ValueSets`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import HierarchyError
from sfumato.hierarchy.tree import Array

STAR = "*"
"""What stands for all values of a column."""


def as_text(values: pa.Array) -> pa.Array:
    """Values as text, null as null; bytes in hexadecimal.

    Examples
    --------
    >>> as_text(pa.array([1.5, 2.0, None])).to_pylist()
    ['1.5', '2', None]
    >>> as_text(pa.array([b"\\xff"])).to_pylist()
    ['ff']
    """
    values = decoded(values)
    kind = values.type
    if (
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
    ):
        return pa.array(
            [None if item is None else item.hex() for item in values.to_pylist()], pa.string()
        )
    if pa.types.is_float16(kind):
        values = values.cast(pa.float32())
    return values.cast(pa.string())


def decoded(values: pa.Array) -> pa.Array:
    """The values themselves, where they are codes of a dictionary."""
    kind = values.type
    return values.cast(kind.value_type) if pa.types.is_dictionary(kind) else values


def different_texts(labels: pa.Array) -> pa.DictionaryArray:
    """Labels of a release as text, each of them once, null among them."""
    if isinstance(labels, pa.ChunkedArray):
        labels = labels.combine_chunks()
    return as_text(labels).dictionary_encode(null_encoding="encode")


def null_code(values: pa.Array) -> int | None:
    """Where the null stands among distinct values; None where there is none."""
    at = pc.index(values.is_null(), True).as_py()
    return None if at < 0 else int(at)


def same_texts(one: pa.Array, other: pa.Array) -> pa.Array:
    """Whether texts are the same, cell by cell; null is null."""
    both_null = pc.and_(one.is_null(), other.is_null())
    return pc.or_(both_null, pc.equal(one, other).fill_null(False))


def star_beside(texts: Iterable[str | None]) -> str:
    """A sign for all values of a column that is none of them: one star more than any has.

    Examples
    --------
    >>> star_beside(["F", "M"]), star_beside(["a", "*", None])
    ('*', '**')
    """
    longest = max((len(text) for text in texts if text and not text.strip(STAR)), default=0)
    return STAR * (longest + 1)


def mark_of(column: str) -> str:
    """The column that tells stars from nulls in another."""
    return f"{column}__suppressed"


def without_marks(names: Iterable[str]) -> tuple[str, ...]:
    """Columns without those that tell stars from nulls in one of them.

    Examples
    --------
    >>> without_marks(["age", "sex", "age__suppressed"])
    ('age', 'sex')
    """
    names = tuple(names)
    marks = {*map(mark_of, names)}
    return tuple(name for name in names if name not in marks)


def braces_around(text: str) -> int:
    """How many braces a text has around it.

    Examples
    --------
    >>> braces_around("{a, b}"), braces_around("{{a}"), braces_around("a}")
    (1, 1, 0)
    """
    before, after = len(text) - len(text.lstrip("{")), len(text) - len(text.rstrip("}"))
    return min(before, after)


class Interval(NamedTuple):
    """The ends of a range as texts, and whether they belong to it; None where it has no end."""

    low: str | None
    with_low: bool
    high: str | None
    with_high: bool


_INTERVAL = re.compile(r"([\[(])\s*(.+?)\s*,\s*(.+?)\s*([)\]])")
_DASHED = re.compile(r"(-?\d+(?:\.\d+)?)\s*(?:-|–|to)\s*(-?\d+(?:\.\d+)?)")
_ONE_SIDED = re.compile(r"(<=|>=|<|>|≤|≥)\s*(.+)")
_AND_ABOVE = re.compile(r"(-?\d+(?:\.\d+)?)\s*\+")


def read_interval(text: str) -> Interval | None:
    """The range that a label means; None where it is none.

    Examples
    --------
    >>> read_interval("[20, 30)")
    Interval(low='20', with_low=True, high='30', with_high=False)
    >>> read_interval("20-29") == read_interval("[20, 29]"), read_interval(">= 90").low
    (True, '90')
    >>> read_interval("90+").high is None, read_interval("Divorced") is None
    (True, True)
    """
    if match := _INTERVAL.fullmatch(text):
        opening, low, high, closing = match.groups()
        return Interval(low, opening == "[", high, closing == "]")
    if match := _DASHED.fullmatch(text):
        return Interval(match[1], True, match[2], True)
    if match := _AND_ABOVE.fullmatch(text):
        return Interval(match[1], True, None, True)
    if match := _ONE_SIDED.fullmatch(text):
        with_end = match[1] in ("<=", ">=", "≤", "≥")
        if match[1][0] in "<≤":
            return Interval(None, True, match[2], with_end)
        return Interval(match[2], with_end, None, True)
    return None


def moments(ends: pa.Array, kind: pa.DataType) -> pa.Array:
    """Ends of ranges of dates or points in time as values of this type.

    A range that reaches 9999-12-31 ends in a year that neither Python nor most formats know:
    there it ends with the last day, or its last second.

    Examples
    --------
    >>> moments(pa.array(["2001-12-24", "10000-01-01"]), pa.date32()).to_pylist()
    [datetime.date(2001, 12, 24), datetime.date(9999, 12, 31)]
    """
    last = "9999-12-31"
    if pa.types.is_timestamp(kind):
        last += " 23:59:59" if kind.tz is None else " 23:59:59Z"
        ends = ends if kind.tz is None else in_zone(ends)
    return pc.replace_substring_regex(ends, r"^\d{5,}-\d\d-\d\d.*$", last).cast(kind)


def in_zone(ends: pa.Array) -> pa.Array:
    """Ends of ranges of moments, all with their zone: labels leave it out with midnight in UTC.

    Examples
    --------
    >>> in_zone(pa.array(["2001-12-24", "2001-12-24 08:00:00Z"])).to_pylist()
    ['2001-12-24 00:00Z', '2001-12-24 08:00:00Z']
    """
    return pc.replace_substring_regex(ends, r"^([-+]?\d+-\d\d-\d\d)$", r"\1 00:00Z")


def set_members(inside: str) -> list[str | None] | None:
    """Members of a set's label without its braces; None where it does not parse.

    Those that could be misread are quoted as in JSON.

    Examples
    --------
    >>> set_members('Divorced, "a, b", null')
    ['Divorced', 'a, b', None]
    """
    members: list[str | None] = []
    decoder = json.JSONDecoder()
    at = 0
    while at <= len(inside):
        if inside[at : at + 1] == '"':
            try:
                text, at = decoder.raw_decode(inside, at)
            except json.JSONDecodeError:
                return None
            members.append(text)
        else:
            end = inside.find(",", at)
            end = len(inside) if end < 0 else end
            text, at = inside[at:end].strip(), end
            members.append(None if text == "null" else text)
        if at == len(inside):
            return members
        if inside[at] != ",":
            return None
        at += 1
        while at < len(inside) and inside[at] == " ":
            at += 1
    return members


@dataclass(frozen=True, eq=False)
class Published:
    """The distinct cells of a released column, and which of them each row (or group) shows.

    A cell covers some of the column's original values: those at ``order[low] … order[high]``. For
    a node of a tree that is the run of leaves below it, for a range the values inside it, for a
    set its members.

    Attributes
    ----------
    codes
        Entry shown by each row or group; -1 where the row is suppressed.
    labels
        Text of each entry; null for a cell that shows a null.
    loss
        Normalized certainty penalty of a cell that shows the entry.
    height_loss
        Height of the entry in its tree over the height of the tree; for ranges and sets the same
        as `loss`.
    domain_loss
        Like `loss`, but counted among all values of the hierarchy, not only those that occur.
    low, high, order
        The original values each entry covers, as above.
    blurred
        Whether an entry shows something else than one value as it is; by default, whether it covers
        several. A range of an earlier release may cover one value that occurs, and is no value.
    more
        What all rows lose more than by ranges that end where their values do, if that was counted.

    Examples
    --------
    >>> from sfumato.hierarchy import Ranges
    >>> age = Ranges(pa.array([21, 25, 34]), "age")
    >>> shown = age.published([0, 2], [1, 2])
    >>> shown.array().to_pylist()
    ['[21, 26)', '34']
    >>> shown.covered(np.array([True, False, False])).tolist()
    [0.5, 0.0]
    """

    codes: Array
    labels: pa.Array
    loss: Array
    height_loss: Array
    domain_loss: Array
    low: Array
    high: Array
    order: Array
    blurred: Array = None  # type: ignore[assignment]
    more: float | None = field(default=None, init=False)  # of other rows it is not known

    def __post_init__(self) -> None:
        if self.blurred is None:
            object.__setattr__(self, "blurred", self.leaf_count > 1)

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def leaf_count(self) -> Array:
        """Original values that each entry covers."""
        return (self.high - self.low + 1).astype(np.int64)

    @cached_property
    def used(self) -> Array:
        """The entries that some row or group shows, ascending."""
        there = np.zeros(len(self.labels) + 1, dtype=bool)
        there[self.codes] = True  # suppressed rows are the last
        return np.flatnonzero(there[:-1])

    def take(self, groups: Any) -> Published:
        """From one entry a group to one entry a row; a negative group is a suppressed row."""
        groups = np.asarray(groups)
        codes = np.full(len(groups), -1, dtype=np.int32)
        kept = groups >= 0
        codes[kept] = self.codes[groups[kept]]
        return replace(self, codes=codes)

    @classmethod
    def joined(cls, parts: Sequence[Published]) -> Published:
        """What several parts of a table publish, one after the other; equal cells become one.

        Examples
        --------
        >>> from sfumato.hierarchy import Ranges
        >>> age = Ranges(pa.array([21, 25, 34]), "age")
        >>> both = Published.joined([age.published([0], [1]), age.published([0, 2], [1, 2])])
        >>> both.codes.tolist(), both.labels.to_pylist()
        ([0, 0, 1], ['[21, 26)', '34'])
        """
        alike = all(part.order is parts[0].order for part in parts)
        starts = np.cumsum([0, *(0 if alike else len(part.order) for part in parts[:-1])])
        sizes = np.cumsum([0, *(len(part.labels) for part in parts[:-1])])
        labels = pa.concat_arrays([part.labels for part in parts])
        text = np.asarray(labels.dictionary_encode(null_encoding="encode").indices)
        order = parts[0].order if alike else np.concatenate([part.order for part in parts])
        low, high = (
            np.concatenate([getattr(p, end) + at for p, at in zip(parts, starts, strict=True)])
            for end in ("low", "high")
        )
        # Sets of values are listed once for each part: there the text alone tells cells apart.
        keys = (text, low, high) if alike else (text, high - low)
        _, first, inverse = np.unique(
            np.stack(keys, axis=1), axis=0, return_index=True, return_inverse=True
        )
        codes = [
            np.where(part.codes < 0, -1, inverse.ravel()[np.maximum(part.codes, 0) + at])
            if len(part.labels)
            else part.codes
            for part, at in zip(parts, sizes, strict=True)
        ]
        return cls(
            codes=np.concatenate(codes).astype(np.int32),
            labels=labels.take(pa.array(first)),
            loss=np.concatenate([part.loss for part in parts])[first],
            height_loss=np.concatenate([part.height_loss for part in parts])[first],
            domain_loss=np.concatenate([part.domain_loss for part in parts])[first],
            low=low[first],
            high=high[first],
            order=order,
            blurred=np.concatenate([part.blurred for part in parts])[first],
        )

    def array(self) -> pa.Array:
        """The column as text, suppressed rows left out."""
        return self.labels.take(pa.array(self.codes[self.codes >= 0]))

    @classmethod
    def starred(cls, values: pa.Array, codes: Any, stars: Any) -> Published:
        """A column where some rows show ``*`` and the others their own value.

        Examples
        --------
        >>> shown = Published.starred(pa.array(["F", "M"]), [0, 1, 1], [False, True, False])
        >>> shown.array().to_pylist()
        ['F', '*', 'M']
        """
        size = len(values)
        labels = pa.concat_arrays([as_text(values), pa.array(["*"])])
        loss = np.append(np.zeros(size), 1.0 if size > 1 else 0.0)
        low = np.append(np.arange(size), 0)
        high = np.append(np.arange(size), size - 1)
        shown = np.where(np.asarray(stars), size, np.asarray(codes)).astype(np.int32)
        return cls(shown, labels, loss, loss, loss, low, high, np.arange(size))

    def weight(self, weights: Any) -> Array:
        """Sum over the original values that each entry covers."""
        summed = np.concatenate([[0.0], np.cumsum(np.asarray(weights, dtype=float)[self.order])])
        return np.asarray(summed[self.high + 1] - summed[self.low])

    def covers(self, original: Any) -> Array:
        """Whether each row's entry covers the row's original code; suppressed rows count as yes."""
        original = np.asarray(original, dtype=np.int64)
        shown = self.codes >= 0
        entry, code = self.codes[shown].astype(np.int64), original[shown]
        base = max(int(self.order.max(initial=-1)), int(code.max(initial=-1))) + 1
        answer = np.ones(len(self.codes), dtype=bool)
        if len(np.unique(self.order)) == len(self.order):  # runs of one order of all values
            position = np.full(base, -1, dtype=np.int64)
            position[self.order] = np.arange(len(self.order))
            answer[shown] = (position[code] >= self.low[entry]) & (
                position[code] <= self.high[entry]
            )
        else:  # sets: each has its own stretch of `order`
            owner = np.repeat(np.arange(len(self.low), dtype=np.int64), self.leaf_count)
            answer[shown] = np.isin(entry * base + code, owner * base + self.order)
        return answer

    def covered(self, mask: Any) -> Array:
        """Share of the values below each entry that lie in a set of original codes."""
        part, whole = self.weight(mask), self.leaf_count
        return np.asarray(np.divide(part, whole, out=np.zeros(len(part)), where=whole > 0))


class ValueSets:
    """A column of categories, generalized to sets such as ``{Divorced, Widowed}``.

    Sets are given as one array of codes with the offset of each group in it; the codes of a group
    are ascending and distinct. The set of all values is shown as ``*``. Where a value of the column
    reads like a set or like ``*``, sets get one more brace and the star one more star than any
    value has, so that no label can be taken for a value.

    Parameters
    ----------
    values
        Distinct values of the column, in the order of its codes.
    name
        The column, for error messages.

    Examples
    --------
    >>> colour = ValueSets(pa.array(["red", "green", "blue"]), "colour")
    >>> offsets, members = colour.collect([0, 1, 1, 1, 1], groups=[0, 0, 1, 1, 0], n_groups=2)
    >>> shown = colour.published(offsets, members)
    >>> shown.array().to_pylist(), shown.loss[shown.codes].tolist()
    (['{green, red}', 'green'], [0.5, 0.0])
    >>> odd = ValueSets(pa.array(["*", "{a, b}", "a", "b"]), "odd")
    >>> odd.published([0, 4, 6, 7], [0, 1, 2, 3, 2, 3, 0]).array().to_pylist()
    ['**', '{{a, b}}', '*']
    """

    kind: Literal["sets"] = "sets"

    def __init__(self, values: pa.Array, name: str) -> None:
        self.values = values = decoded(values)
        self.name = name
        self.size = len(values)
        self._text: list[str | None] = as_text(values).to_pylist()
        self.everything = star_beside(self._text)
        self.braces = 1 + max((braces_around(text) for text in self._text if text), default=0)
        self.null_code = null_code(values)

    def __repr__(self) -> str:
        return f"ValueSets(column `{self.name}`, {self.size} values)"

    def collect(self, codes: Any, groups: Any, n_groups: int) -> tuple[Array, Array]:
        """The distinct codes in each group, as offsets and members."""
        codes, groups = np.asarray(codes, dtype=np.int64), np.asarray(groups, dtype=np.int64)
        kept = groups >= 0
        pairs = _distinct(groups[kept] * self.size + codes[kept], n_groups * self.size)
        group, members = np.divmod(pairs, max(self.size, 1))
        offsets = np.concatenate([[0], np.cumsum(np.bincount(group, minlength=n_groups))])
        return offsets.astype(np.int64), members.astype(np.int32)

    def published(self, offsets: Any, members: Any) -> Published:
        """What rows or groups that show these sets publish; an empty set is a suppressed row."""
        offsets, members = np.asarray(offsets, dtype=np.int64), np.asarray(members, dtype=np.int64)
        codes, chosen = _distinct_sets(offsets, members, self.size)
        length = np.diff(offsets)[chosen]
        start = np.concatenate([[0], np.cumsum(length)])
        order = members[np.repeat(offsets[chosen] - start[:-1], length) + np.arange(start[-1])]
        loss = (length - 1) / max(self.size - 1, 1)
        labels = pa.array(self._labels(start, order), type=pa.string())
        return Published(codes, labels, loss, loss, loss, start[:-1], start[1:] - 1, order)

    def read(self, labels: pa.Array) -> tuple[Array, Array]:
        """The set that each label of a release means, as offsets and members."""
        distinct = different_texts(labels)
        code_of = {text: code for code, text in enumerate(self._text)}
        sets = [self._read(text, code_of) for text in distinct.dictionary.to_pylist()]
        unknown = sum(not codes for codes in sets)
        if unknown:
            raise HierarchyError(
                f"{unknown} distinct labels of the release are not sets of the original values",
                where=f"column `{self.name}`",
                remedy="Give the table that the release was made from.",
            )
        index = np.asarray(distinct.indices)
        length = np.array([len(codes) for codes in sets], dtype=np.int64)
        begin = np.cumsum(length) - length
        members = np.array([code for codes in sets for code in codes], dtype=np.int64)
        offsets = np.concatenate([[0], np.cumsum(length[index])])
        at = np.repeat(begin[index] - offsets[:-1], length[index]) + np.arange(offsets[-1])
        return offsets, members[at]

    def _labels(self, start: Array, members: Array) -> list[str | None]:
        """Texts of sets, members in order of their text; what could be misread is quoted."""
        used = np.unique(members).tolist()  # of a part they may be few
        by_text = sorted(used, key=lambda code: (self._text[code] is None, self._text[code] or ""))
        rank = np.empty(self.size, dtype=np.int64)
        rank[by_text] = np.arange(len(by_text))
        texts = [_quoted(self._text[code]) for code in by_text]
        owner = np.repeat(np.arange(len(start) - 1), np.diff(start)) * self.size
        ranks = (np.sort(owner + rank[members]) - owner).tolist()
        labels: list[str | None] = []
        for begin, end in pairwise(start.tolist()):
            if end - begin == 1:
                labels.append(self._text[by_text[ranks[begin]]])
            elif end - begin == self.size:
                labels.append(self.everything)
            else:
                inside = ", ".join([texts[at] for at in ranks[begin:end]])
                labels.append("{" * self.braces + inside + "}" * self.braces)
        return labels

    def _read(self, text: str | None, code_of: dict[str | None, int]) -> list[int]:
        """Codes of one label, ascending; empty where the label is unknown."""
        if text in code_of:
            return [code_of[text]]
        if text is None or text == self.everything:
            return list(range(self.size))
        if braces_around(text) != self.braces:
            return []
        members = set_members(text[self.braces : -self.braces])
        if members is None or not all(member in code_of for member in members):
            return []
        return sorted({code_of[member] for member in members})


def _quoted(text: str | None) -> str:
    if text is None:
        return "null"
    plain = text not in ("", "null") and not set(text) & set(',{}"')
    return text if plain and text == text.strip() else json.dumps(text, ensure_ascii=False)


def _distinct(numbers: Array, limit: int) -> Array:
    """Distinct numbers below a limit, ascending; by marking them where there is room for marks."""
    if limit > max(16 * len(numbers), 1 << 20):
        return np.unique(numbers)
    seen = np.zeros(limit, dtype=bool)
    seen[numbers] = True
    return np.flatnonzero(seen)


def _distinct_sets(offsets: Array, members: Array, size: int) -> tuple[Array, Array]:
    """Number equal sets alike: the code of each set (-1 if empty), and one set for each code."""
    length = np.diff(offsets)
    filled = np.flatnonzero(length > 0)
    codes = np.full(len(length), -1, dtype=np.int32)
    if len(filled) == 0:
        return codes, filled
    weight = np.random.default_rng(0).integers(0, 2**63, size=size, dtype=np.uint64)
    key = np.add.reduceat(weight[members], offsets[filled])
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    chosen = filled[first][inverse]
    # The keys are sums of random numbers; compare the members themselves before believing them.
    twin = np.repeat(offsets[chosen] - offsets[filled], length[filled])
    if (length[chosen] != length[filled]).any() or (
        members[np.arange(len(members)) + twin] != members
    ).any():
        sets = [tuple(members[offsets[i] : offsets[i + 1]].tolist()) for i in filled]
        numbered = {codes: i for i, codes in enumerate(dict.fromkeys(sets))}
        inverse = np.array([numbered[codes] for codes in sets])
        _, first = np.unique(inverse, return_index=True)
    codes[filled] = inverse
    return codes, filled[first]
