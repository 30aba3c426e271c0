"""The rows as the algorithms of this room see them: distinct combinations, prices, and rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato import kernels
from sfumato.anonymization.problem import Problem
from sfumato.anonymization.space import sensitive_of
from sfumato.errors import ColumnError, ParameterError, did_you_mean
from sfumato.privacy import Rules

__all__ = ["MOST_COLUMNS", "PRICE_UNIT", "CellTable", "cell_table", "table_of_codes", "unstarrable"]

Array = npt.NDArray[Any]

MOST_COLUMNS = 62
"""Sets of columns are the bits of one machine word."""

PRICE_UNIT = 1_000
"""Prices are whole numbers of thousandths, so that every sum and every bound is exact."""

_DEAREST = 1e6


@dataclass(frozen=True, eq=False)
class CellTable:
    """Combinations of quasi-identifiers with counts.

    Attributes
    ----------
    codes
        One row a combination, one column a quasi-identifier. Where some values of a column may be
        starred and others not, a last column keeps such rows apart; it is never starred.
    counts
        Rows each combination stands for.
    cardinalities
        Distinct values of each column.
    prices
        Price of a star in each column, in units of `PRICE_UNIT`; -1 where stars are forbidden.
    rules
        What every group must satisfy; `rules.k` is its least number of rows.
    sensitive
        Where the sensitive values of each combination are counted (see `Rules`); no columns when
        only k is asked, and equal combinations are then one.
    """

    codes: Array
    counts: npt.NDArray[np.int64]
    cardinalities: npt.NDArray[np.int64]
    prices: npt.NDArray[np.int64]
    rules: Rules
    sensitive: Array

    @property
    def k(self) -> int:
        """Least number of rows of a group."""
        return self.rules.k

    @property
    def entries(self) -> int:
        """Number of combinations."""
        return len(self.codes)

    @property
    def width(self) -> int:
        """Number of columns."""
        return int(self.codes.shape[1])

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.counts.sum())

    @property
    def free(self) -> npt.NDArray[np.int64]:
        """Columns that may be starred."""
        return np.flatnonzero(self.prices >= 0)

    def payable(self, units: int) -> int:
        """The least cost that can occur and is not below: costs are sums of prices."""
        step = int(np.gcd.reduce(self.prices[self.prices > 0], initial=0))
        return -(-units // step) * step if step else units

    @property
    def multipliers(self) -> npt.NDArray[np.uint64]:
        """Random odd numbers, one a column: the key of a row is a sum of products with them.

        Two different rows share a key with probability 2⁻⁶³. Should it ever happen, rows are
        thought to be alike that are not: groups are then dearer than foreseen and bounds lower,
        but what is released is starred by its values and every bound still holds.
        """
        random = np.random.default_rng(20070612)
        numbers = random.integers(1, 2**63, size=self.width, dtype=np.uint64)
        return np.asarray(numbers | np.uint64(1))

    def new_keys(self) -> Any:
        """What every combination shows: nothing at first (see `move_keys`)."""
        from sfumato.anonymization.cells._classes import Keys

        return Keys(
            columns=np.ascontiguousarray(self.codes.T),
            multipliers=self.multipliers,
            keys=np.zeros(self.entries, dtype=np.uint64),
            kept=np.zeros(1, dtype=np.int64),
        )

    def take(self, entries: Array) -> CellTable:
        """Some of the combinations."""
        return CellTable(
            np.ascontiguousarray(self.codes[entries]),
            np.ascontiguousarray(self.counts[entries]),
            self.cardinalities,
            self.prices,
            self.rules,
            np.ascontiguousarray(self.sensitive[entries]),
        )


def table_of_codes(codes: Array, k: int, prices: Array | None = None) -> CellTable:
    """A table straight from codes, one row a row; equal rows become one combination.

    Examples
    --------
    >>> table = table_of_codes(np.array([[0, 1], [0, 1], [2, 0]]), k=2)
    >>> table.entries, table.counts.tolist()
    (2, [2, 1])
    """
    from sfumato.privacy import KAnonymity, compile_rules

    ranks = [np.unique(column, return_inverse=True)[1] for column in np.asarray(codes).T]
    found, counts = np.unique(np.stack(ranks, axis=1), axis=0, return_counts=True)
    width = len(ranks)
    given = np.ones(width) if prices is None else np.asarray(prices, dtype=np.float64)
    return CellTable(
        codes=np.ascontiguousarray(found.astype(np.int32)),
        counts=counts.astype(np.int64),
        cardinalities=found.max(axis=0, initial=-1).astype(np.int64) + 1,
        prices=np.where(np.isfinite(given), np.round(given * PRICE_UNIT), -1).astype(np.int64),
        rules=compile_rules([KAnonymity(k)]),
        sensitive=np.zeros((len(found), 0), dtype=np.int64),
    )


def cell_table(problem: Problem) -> tuple[CellTable, Array]:
    """The combinations of a problem, and which of them each of its entries belongs to.

    Raises
    ------
    ParameterError
        If every column is protected from stars, or a price cannot be used.
    ColumnError
        If a protected column is no quasi-identifier, or there are too many columns.
    """
    names = problem.qi
    prices = _prices(problem)
    arrays = [problem.entries.column(name) for name in names]
    cardinalities = [len(problem.entries.values_of(name)) for name in names]
    for name in unstarrable(problem):
        prices[names.index(name)] = -1
    blocks = _blocks(problem)
    if blocks is not None:
        arrays.append(blocks.astype(np.uint32))
        cardinalities.append(int(blocks.max(initial=0)) + 1)
        prices = np.append(prices, -1)
    if len(arrays) > MOST_COLUMNS:
        raise ColumnError(
            f"cell suppression takes at most {MOST_COLUMNS} quasi-identifiers, not {len(names)}",
            remedy="Leave out columns nobody can know, or use --method mondrian.",
        )
    codes = np.stack([array.astype(np.int32) for array in arrays], axis=1)
    counts, sensitive = problem.counts, sensitive_of(problem)
    belongs = np.arange(problem.entries.entries)
    if not len(problem.rules.kinds):
        ids, count = kernels.class_ids(tuple(arrays), tuple(cardinalities))
        belongs = ids.astype(np.int64)
        codes = codes[kernels.representatives(ids, count)]
        counts = kernels.group_sums(ids, count, counts)
        sensitive = np.zeros((count, 0), dtype=np.int64)
    table = CellTable(
        codes=np.ascontiguousarray(codes),
        counts=np.ascontiguousarray(counts, dtype=np.int64),
        cardinalities=np.array(cardinalities, dtype=np.int64),
        prices=prices,
        rules=problem.rules,
        sensitive=np.ascontiguousarray(sensitive),
    )
    return table, belongs


def unstarrable(problem: Problem) -> list[str]:
    """Quasi-identifiers that boundaries keep from being starred, whatever their value."""
    return [
        name
        for name, limit in problem.limits.items()
        if not limit.may_be_starred(problem.entries.column(name)).any()
    ]


def _blocks(problem: Problem) -> Array | None:
    """Which entries may share a group, where not all may.

    A value that its boundary keeps from being starred stays in sight, so its rows are only ever
    with rows of the same value; those whose values may all be starred are with each other.
    """
    keys = [] if problem.apart is None else [np.asarray(problem.apart)]
    for name, limit in problem.limits.items():
        codes = problem.entries.column(name).astype(np.int64)
        free = limit.may_be_starred(codes)
        if free.any() and not free.all():
            keys.append(np.where(free, 0, codes + 1))
    if not keys:
        return None
    _, blocks = np.unique(np.stack(keys, axis=1), axis=0, return_inverse=True)
    return np.asarray(blocks.ravel())


def _prices(problem: Problem) -> npt.NDArray[np.int64]:
    names = problem.qi
    protected = problem.options.get("protected") or ()
    protected = [protected] if isinstance(protected, str) else list(protected)
    for name in protected:
        if name not in names:
            raise ColumnError(
                f"the protected column `{name}` is no quasi-identifier",
                remedy=did_you_mean(name, names),
            )
    if set(protected) >= set(names):
        raise ParameterError(
            "all quasi-identifiers are protected from stars",
            remedy="Let at least one of them be starred.",
        )
    prices = []
    for name in names:
        price = problem.weight(name)
        if not 0 <= price <= _DEAREST:
            raise ParameterError(
                f"the price of a star in `{name}` is not between 0 and {_DEAREST:,.0f}",
                remedy="Give it with --weights; protect a column to forbid stars in it.",
            )
        if 0 < price < 1 / PRICE_UNIT:
            raise ParameterError(
                f"the price of a star in `{name}` is below 1/{PRICE_UNIT:,}",
                remedy="Make all prices larger by the same factor.",
            )
        prices.append(-1 if name in protected else round(price * PRICE_UNIT))
    return np.array(prices, dtype=np.int64)
