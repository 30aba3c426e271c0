"""k-map: rows hide among the people of a population, not only among themselves.

The people become entries of the problem, beside the rows to be released. A group of rows and people
shows what covers both, so at least its people match what is shown: a group with k people keeps
k-map, whatever the method. Which entries are people is told to the rules as one more sensitive
column, so that every method that obeys rules obeys this one (see `sfumato.privacy.with_crowd`).
Afterwards the people are taken out again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sfumato.anonymization.problem import Problem, Solution
from sfumato.engines.results import Codes, smallest_dtype
from sfumato.errors import ColumnError
from sfumato.privacy import with_crowd

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["in_common_codes", "with_people", "without_people"]

Array = npt.NDArray[Any]
WHO = "\0who"
"""The column that tells rows from people."""
ROW, PERSON, NOBODY = 0, 1, 2


def in_common_codes(entries: Codes, people: Codes) -> tuple[Codes, Codes]:
    """Entries and people with one numbering of the values of the people's columns.

    Raises
    ------
    ColumnError
        If a column has another type in the population, so that no value could be the same.
    """
    import pyarrow as pa

    from sfumato.anonymization.actions import ranked

    mine = dict(zip(entries.columns, zip(entries.arrays, entries.values, strict=True), strict=True))
    theirs = []
    values = []
    for name, codes in zip(people.columns, people.arrays, strict=True):
        own = mine[name][1]
        other = _of_type(people.values_of(name), own.type, name)
        distinct, numbers = ranked(pa.concat_arrays([own, other]))
        width = smallest_dtype(len(distinct))
        mine[name] = (numbers[: len(own)][mine[name][0]].astype(width), distinct)
        theirs.append(numbers[len(own) :][codes].astype(width))
        values.append(distinct)
    arrays = tuple(array for array, _ in mine.values())
    return (
        replace(entries, arrays=arrays, values=tuple(distinct for _, distinct in mine.values())),
        replace(people, arrays=tuple(theirs), values=tuple(values)),
    )


def _of_type(values: pa.Array, wanted: pa.DataType, name: str) -> pa.Array:
    import pyarrow as pa

    try:
        return values.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ColumnError(
            f"column `{name}` is {values.type} in the population and {wanted} in the table",
            remedy="Give both tables the same type, e.g. by reading them from the same format.",
        ) from None


def with_people(problem: Problem, k: int) -> Problem:
    """The problem with the people of its population among its entries.

    Parameters
    ----------
    k
        How many people every group must match.
    """
    crowd = problem.crowd
    assert crowd is not None
    assert crowd.counts is not None
    rules = with_crowd(problem.rules, k)
    nowhere = rules.mapped + NOBODY
    arrays = []
    for name, codes in zip(problem.entries.columns, problem.entries.arrays, strict=True):
        if name in problem.qi:
            arrays.append(np.concatenate([codes, crowd.column(name)]))
            continue
        # people have no sensitive value: they are counted where no rule looks
        none = nowhere - int(rules.offsets[problem.sensitive.index(name)])
        width = smallest_dtype(none + 1)
        arrays.append(np.concatenate([codes.astype(width), np.full(crowd.entries, none, width)]))
    people = np.r_[np.zeros(problem.entries.entries, bool), np.ones(crowd.entries, bool)]
    who = np.where(people, PERSON, ROW).astype(np.uint8)
    import pyarrow as pa

    name = WHO
    while name in problem.entries.columns:
        name += "\0"
    entries = Codes(
        (*problem.entries.columns, name),
        (*arrays, who),
        (*problem.entries.values, pa.array(["row", "person", "nobody"])),
        np.concatenate([problem.counts, crowd.counts]),
        len(people),
    )
    return replace(
        problem,
        entries=entries,
        sensitive=(*problem.sensitive, name),
        rules=rules,
        crowd=None,
        people=people,
    )


def without_people(solution: Solution, rows: int) -> Solution:
    """The solution for the first so many entries, which are the rows to be released."""
    entry = solution.entry
    kept = np.arange(len(solution.groups)) < rows if entry is None else entry < rows
    groups = solution.groups[kept]
    used, numbers = np.unique(groups[groups >= 0], return_inverse=True)
    closed = np.full(len(groups), -1, dtype=np.int32)
    closed[groups >= 0] = numbers
    return replace(
        solution,
        groups=closed,
        published={name: shown.take(used) for name, shown in solution.published.items()},
        entry=None if entry is None else entry[kept],
        rows=None if solution.rows is None else solution.rows[kept],
    )
