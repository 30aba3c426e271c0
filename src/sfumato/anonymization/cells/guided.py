"""A first partition that follows the linear program instead of the price of stars alone.

The ascent to the lower bound opens candidates again and again where rows are worth more than they
cost. Those open in a good share of its last steps are about those a fractional optimum opens, so
they are covered first, cheapest first; what is left over is covered as APPROX-DR does.
"""

from __future__ import annotations

import numpy as np

from sfumato.anonymization.cells.direct import complete
from sfumato.anonymization.cells.dual import Dual
from sfumato.anonymization.cells.partition import Partition
from sfumato.anonymization.cells.patterns import Patterns
from sfumato.anonymization.cells.table import CellTable

__all__ = ["OFTEN", "guided"]

OFTEN = 0.1
"""Share of the last steps in which a candidate must have been open."""


def guided(table: CellTable, patterns: Patterns, dual: Dual, often: float = OFTEN) -> Partition:
    """The partition that takes candidates which were open often, cheapest first.

    Examples
    --------
    >>> from sfumato.anonymization.cells.direct import opt_lb
    >>> from sfumato.anonymization.cells.dual import dual_of
    >>> from sfumato.anonymization.cells.patterns import patterns_of
    >>> from sfumato.anonymization.cells.table import table_of_codes
    >>> table = table_of_codes(np.array([[0, 0], [0, 1], [1, 2], [1, 3]]), k=2)
    >>> dual = dual_of(table, opt_lb(table), 8000)
    >>> guided(table, patterns_of(table), dual).cost(table)
    4.0
    """
    from sfumato.anonymization.cells._direct import take_classes
    from sfumato.anonymization.cells._guided import take_candidates

    candidates = dual.candidates
    chosen = np.flatnonzero(dual.opened >= often)
    order = chosen[np.lexsort((-dual.opened[chosen], candidates.prices[chosen]))]
    group = np.full(table.entries, -1, dtype=np.int64)
    facts = (table.counts, table.sensitive, table.rules)
    groups = take_candidates(order, candidates.starts, candidates.members, *facts, group, 0)
    groups = take_classes(table.codes, *facts, patterns.kept, table.multipliers, group, groups)
    return complete(table, group, int(groups))
