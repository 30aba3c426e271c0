"""Simulated populations of different skew and dependence, and samples of them.

A universe is a few columns of whole numbers. Numeric columns are cut at quantiles, categorical ones
keep their most frequent values. What a release truly promises is counted in the universe.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from scipy.stats import norm

from sfumato.engines.protocol import Codes, smallest_dtype
from sfumato.populations.plan import Blurred, Blurrer, Plan


@dataclass(frozen=True, eq=False)
class Universe:
    """People as columns of whole numbers; names that begin with c are categories."""

    columns: dict[str, np.ndarray]

    @property
    def people(self) -> int:
        return len(next(iter(self.columns.values())))

    def sample(self, share: float, seed: int) -> tuple[Codes, dict[str, Blurrer], np.ndarray]:
        """A uniform sample as codes, how its columns blur, and who was drawn."""
        random = np.random.default_rng(seed)
        drawn = random.choice(self.people, round(self.people * share), replace=False, shuffle=False)
        arrays, values, blurrers = [], [], {}
        for name, column in self.columns.items():
            distinct, codes, counts = np.unique(
                column[drawn], return_inverse=True, return_counts=True
            )
            kept = pa.array(distinct)
            if name.startswith("c"):
                kept = pa.array([f"v{value}" for value in distinct])
            arrays.append(codes.astype(smallest_dtype(len(distinct))))
            values.append(kept)
            blurrers[name] = Blurrer(name, kept, counts)
        entries = Codes(tuple(self.columns), tuple(arrays), tuple(values), None, len(drawn))
        return entries, blurrers, drawn


def make_universe(people: int, seed: int) -> Universe:
    """One of many kinds, drawn by the seed: even or skewed, independent or dependent."""
    random = np.random.default_rng(seed)
    columns: dict[str, np.ndarray] = {}
    correlation = correlation_of(seed)
    common = random.standard_normal(people, dtype=np.float32)
    for i in range(2 + seed % 2):
        own = random.standard_normal(people, dtype=np.float32)
        z = np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own
        kind, skew = random.integers(5), random.random()
        if kind == 0:  # bell-shaped whole numbers
            columns[f"n{i}"] = np.round(z * (100 + 400 * skew)).astype(np.int32)
        elif kind == 1:  # long tail
            columns[f"n{i}"] = np.round(np.exp((0.5 + 1.5 * skew) * z) * 200).astype(np.int32)
        elif kind == 2:  # few numbers, like an age
            columns[f"n{i}"] = np.clip(np.round(40 + (8 + 20 * skew) * z), 0, 99).astype(np.int32)
        else:  # categories of Zipf's law
            columns[f"c{i}"] = _zipf(z, 0.5 + 1.5 * skew)
    return Universe(columns)


def correlation_of(seed: int) -> float:
    """Share of the common cause in every column of a universe; a quarter has none."""
    return 0.0 if seed % 4 == 0 else float(np.random.default_rng([seed, 1]).uniform(0, 0.95))


def _zipf(z: np.ndarray, exponent: float, values: int = 300) -> np.ndarray:
    """Ranks whose frequencies fall like 1/rank^exponent, monotone in z."""
    shares = 1 / np.arange(1, values + 1) ** exponent
    edges = np.cumsum(shares / shares.sum())[:-1]
    return np.searchsorted(norm.ppf(edges).astype(np.float32), z).astype(np.int32)


def true_share(universe: Universe, drawn: np.ndarray, plan: Plan, k: int) -> float:
    """Share of the sampled rows whose released cells match at least k people."""
    key = np.zeros(universe.people, np.int32)
    inside = np.ones(universe.people, bool)
    for name, blurred in plan.blurred.items():
        column = universe.columns[name]
        low = int(column.min())
        values = np.arange(low, int(column.max()) + 1)
        of_value = _group_of(values, np.unique(column[drawn]), blurred, name.startswith("c"))
        group = of_value.astype(np.int32)[column - low]
        inside &= group >= 0
        key = key * np.int32(blurred.distinct) + np.maximum(group, 0)
    people = np.bincount(key[inside], minlength=int(key.max()) + 1)
    return float((people[key[drawn]] >= k).mean())


def _group_of(values: np.ndarray, seen: np.ndarray, blurred: Blurred, category: bool) -> np.ndarray:
    """The group whose released cell fits each value, -1 where none does."""
    if category:
        at = np.minimum(np.searchsorted(seen, values), len(seen) - 1)
        # somebody whose category the sample never saw fits only a star
        star = blurred.distinct - 1 if blurred.labels[-1].as_py() == "*" else -1
        return np.where(seen[at] == values, blurred.groups[at], star)
    starts = np.flatnonzero(np.diff(blurred.groups, prepend=-1))
    ends = np.append(starts[1:], len(seen)) - 1
    group = np.searchsorted(seen[starts], values, side="right") - 1
    fits = (group >= 0) & (values <= seen[ends][np.maximum(group, 0)])
    return np.where(fits, group, -1)


def unique_share(universe: Universe) -> tuple[float, int]:
    """Share of people who are alone with their values, and the number of values possible."""
    key, distinct = np.zeros(universe.people, np.int64), 1
    for column in universe.columns.values():
        low, high = int(column.min()), int(column.max())
        key = key * (high - low + 1) + (column - low)
        distinct *= len(np.flatnonzero(np.bincount(column - low)))
    key.sort()
    new = np.concatenate([[True], key[1:] != key[:-1], [True]])
    return float((new[1:] & new[:-1]).mean()), distinct
