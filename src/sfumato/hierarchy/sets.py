"""Categories without a tree: a cell shows the set of values that its group holds."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from sfumato.errors import HierarchyError
from sfumato.hierarchy.labels import Published, as_text, braces_around, set_members, star_beside
from sfumato.hierarchy.tree import Array

__all__ = ["ValueSets"]


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
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        self.values = values
        self.name = name
        self.size = len(values)
        self._text: list[str | None] = as_text(values).to_pylist()
        self.everything = star_beside(self._text)
        self.braces = 1 + max((braces_around(text) for text in self._text if text), default=0)
        nulls = np.flatnonzero(np.asarray(values.is_null()))
        self.null_code: int | None = int(nulls[0]) if len(nulls) else None

    def __repr__(self) -> str:
        return f"ValueSets(column `{self.name}`, {self.size} values)"

    def collect(
        self, codes: Any, groups: Any, n_groups: int, weights: Any = None
    ) -> tuple[Array, Array]:
        """The distinct codes in each group, as offsets and members."""
        codes, groups = np.asarray(codes, dtype=np.int64), np.asarray(groups, dtype=np.int64)
        kept = groups >= 0
        if weights is not None:
            kept &= np.asarray(weights) > 0
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
        if isinstance(labels, pa.ChunkedArray):
            labels = labels.combine_chunks()
        distinct = as_text(labels).dictionary_encode(null_encoding="encode")
        code_of = {text: code for code, text in enumerate(self._text)}
        sets = [self._read(text, code_of) for text in distinct.dictionary.to_pylist()]
        unknown = sum(not codes for codes in sets)
        if unknown:
            raise HierarchyError(
                f"{unknown} distinct labels of the release are no sets of the original values",
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
        by_text = sorted(range(self.size), key=lambda code: _null_last(self._text[code]))
        rank = np.empty(self.size, dtype=np.int64)
        rank[by_text] = np.arange(self.size)
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


def _null_last(text: str | None) -> tuple[bool, str]:
    return text is None, text or ""


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
