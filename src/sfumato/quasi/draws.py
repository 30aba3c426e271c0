"""Samples of rows and of pairs of rows as codes, from any table, or from a stream in one pass."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sfumato.engines.codes import Codes
from sfumato.quasi.samples import pair_indices
from sfumato.streams.engine import StreamEngine
from sfumato.tables import Table

__all__ = ["differing_columns", "sampled_rows"]


def sampled_rows(opened: Table, rows: int, seed: int) -> Codes:
    """A uniform sample of rows as codes."""
    from sfumato.engines.encoding import codes_of_table

    return codes_of_table(opened.sample(rows, None, seed))


def differing_columns(opened: Table, pairs: int, seed: int) -> npt.NDArray[np.bool_]:
    """For independent uniform pairs of rows, in which columns they differ (pairs x columns).

    Pairs of row numbers are drawn first. The rows they name are then any uniform sample of that
    many different rows, so one sample serves every engine and the pairs are exactly independent.
    A stream has no row numbers yet: there each pair is a reservoir of its own.
    """
    from sfumato.engines.encoding import codes_of_table

    if isinstance(opened.engine, StreamEngine):
        import pyarrow as pa

        left_rows, right_rows = opened.engine.pairs(pairs, opened.columns, seed)
        codes = codes_of_table(pa.concat_tables([left_rows, right_rows]))
        half = left_rows.num_rows
        return np.stack([array[:half] != array[half:] for array in codes.arrays], axis=1)
    random = np.random.default_rng(seed)
    left, right = pair_indices(opened.rows, pairs, random)
    named, at = np.unique(np.concatenate([left, right]), return_inverse=True)
    codes = sampled_rows(opened, len(named), seed)
    where = random.permutation(codes.entries)[at]
    return np.stack([a[where[:pairs]] != a[where[pairs:]] for a in codes.arrays], axis=1)
