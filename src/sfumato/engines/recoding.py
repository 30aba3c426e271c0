"""What a release changes, in a form every engine can apply where the rows are.

A `Recoding` is a list of steps. A step looks at some columns of a row (its *match*), finds the
entry with the same values, and says what the row's new cells are or that the row is left out.
Methods that treat equal rows differently (relaxed Mondrian, clustering, stars) give an entry an
ordinal range: it then speaks only of the first … last of the rows with these values, in the
engine's stable order, so that SQL engines need one window function and one join.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sfumato.engines.codes import CodeArray, Codes

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Cells", "Recoding", "Step"]


@dataclass(frozen=True, eq=False)
class Cells:
    """New cells of one column: a code for every entry of the step, and what the codes mean."""

    codes: CodeArray
    values: pa.Array


@dataclass(frozen=True, eq=False)
class Step:
    """One look-up: rows that match an entry get its cells, or are left out.

    Parameters
    ----------
    match
        The combinations looked for; every row of the table must match exactly one entry. Counts
        are ignored.
    cells
        New cells by column name. A name the table does not have becomes a new column, appended in
        the order of this mapping.
    keep
        False where matching rows are suppressed (left out); None keeps all.
    first, last
        Half-open ordinal range ``first <= ordinal < last`` among rows with equal values, numbered
        from 0; both None when each combination occurs in `match` once and speaks of all its rows.
    """

    match: Codes
    cells: Mapping[str, Cells] = field(default_factory=dict)
    keep: npt.NDArray[np.bool_] | None = None
    first: npt.NDArray[np.int64] | None = None
    last: npt.NDArray[np.int64] | None = None


@dataclass(frozen=True, eq=False)
class Recoding:
    """All changes of a release.

    Steps look at the original values, never at each other's results; a column is written by at most
    one step; a row is kept if every step keeps it. Columns in `drop` do not appear in the output,
    and all others appear in their original order.
    """

    steps: tuple[Step, ...] = ()
    drop: tuple[str, ...] = ()
