"""One smallest key or quasi-identifier: exact, sampled with a guarantee, or proven minimum.

After Motwani & Xu, *Efficient Algorithms for Masking and Finding Quasi-Identifiers*. What is beyond
them: samples of rows instead of pairs for separation, and the proven minimum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.budget import Budget
from sfumato.quasi.answer import Key, Question
from sfumato.quasi.exact_key import exact_key
from sfumato.quasi.sampled_key import sampled_key
from sfumato.quasi.weights import column_weights
from sfumato.tables import table

__all__ = ["Key", "minimum_key"]


def minimum_key(
    source: Any,
    *,
    columns: Sequence[str] | None = None,
    measure: str = "key",
    eps: float | None = None,
    delta: float = 0.01,
    beta: float | None = None,
    weights: Mapping[str, float] | None = None,
    proven: bool = False,
    by: str = "rows",
    sample: int | None = None,
    max_size: int | None = None,
    verify: bool | None = None,
    seed: int = 0,
    budget: Budget | None = None,
) -> Key:
    """Find a smallest set of columns that identifies rows.

    Parameters
    ----------
    source
        Anything `sfumato.table` opens.
    columns
        Columns to choose from; None means all.
    measure
        ``key`` (tell all rows apart), ``distinct`` or ``separation``.
    eps, delta
        With `eps` the answer comes from a sample: with probability 1-δ its ratio is at least 1-ε
        (with `beta`: at least (1-ε)·β).
    beta
        Look for the smallest set whose ratio is at least β (separation unless `measure` says
        distinct).
    weights
        What a column costs an adversary; 1 unless given. The sum is made small.
    proven
        Find the minimum and prove it (exact searches only).
    by
        Sample ``rows`` (default) or ``pairs`` of rows, as Motwani & Xu do.
    sample
        Number of rows or pairs to draw, instead of the number the guarantee needs.
    max_size
        Only sets of at most so many columns; tightens samples.
    verify
        Measure a sampled answer exactly in one pass; by default on local engines.

    Examples
    --------
    >>> import pyarrow as pa, sfumato as sf
    >>> people = pa.table({
    ...     "age": [20, 30, 40, 20, 40],
    ...     "sex": ["F", "F", "F", "M", "M"],
    ...     "state": ["CA", "CA", "TX", "NY", "CA"],
    ... })
    >>> sf.minimum_key(people, proven=True).columns
    ('age', 'sex')
    """
    question = Question(measure, eps, delta, beta, proven, by, sample, max_size, verify, seed)
    budget = budget or Budget()
    opened = table(source, budget=budget)
    if columns is not None:
        opened = opened.select(columns)
    costs = column_weights(opened, weights)
    search = exact_key if eps is None else sampled_key
    return search(opened, costs, question, budget)
