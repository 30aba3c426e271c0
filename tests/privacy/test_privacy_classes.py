"""Classes and what they hold: counted by possible combinations or by numbers, alike."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.privacy.check import Classes

room = import_module("sfumato.privacy.check")  # the package has a function of that name

rows = st.lists(st.tuples(*(st.integers(0, 3) for _ in range(3))), min_size=1, max_size=40)


@given(rows, st.booleans(), st.booleans(), st.integers(0, 2))
def test_both_ways_of_counting_agree(
    table: list[tuple[int, int, int]], weighed: bool, starred: bool, known: int
) -> None:
    columns = [np.array(column, np.uint8) for column in zip(*table, strict=True)]
    weights = np.arange(1, len(table) + 1) if weighed else None

    def counted(cells_an_entry: int) -> Classes:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(room, "_CELLS_AN_ENTRY", cells_an_entry)
            made = Classes(
                ("a", "b")[:known],
                tuple(columns[:known]),
                (4, 4)[:known],
                len(table),
                weights,
                {"illness": (columns[2], 4)},
                ((0,), (1,))[:known] if starred and known else None,
            )
            assert made.histograms  # while it is patched
        return made

    cells, numbers = counted(1 << 20), counted(0)
    assert cells.own_sizes.tolist() == numbers.own_sizes.tolist()
    assert cells.sizes.tolist() == numbers.sizes.tolist() == _alike(cells)
    for part in ("start", "value", "count", "total", "sizes"):
        one, other = (getattr(way.histograms["illness"], part) for way in (cells, numbers))
        assert one.tolist() == other.tolist()


def _alike(classes: Classes) -> list[int]:
    """Rows that could be those of each class, by comparing all pairs of entries."""
    entries = list(zip(*(array.tolist() for array in classes.arrays), strict=True))
    entries = entries or [()] * classes.entries
    weights = [1] * classes.entries if classes.weights is None else classes.weights.tolist()

    def match(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
        stars = classes.stars
        return all(a == b or a in s or b in s for a, b, s in zip(one, other, stars, strict=True))

    return [
        sum(weight for entry, weight in zip(entries, weights, strict=True) if match(one, entry))
        for one in sorted(set(entries))
    ]
