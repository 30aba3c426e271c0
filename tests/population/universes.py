"""Simulated populations of different skew and dependence, and samples of them.

A universe is a few columns of whole numbers. Numeric columns are cut at quantiles, categorical ones
keep their most frequent values. What a release truly promises is counted in the universe.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from scipy.stats import norm

from sfumato.engines.codes import Codes, smallest_dtype
from sfumato.population.blur import Blurrer
from sfumato.population.repair import Plan


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
    """One of many kinds, chosen by the seed: even or skewed, independent or dependent."""
    random = np.random.default_rng(seed)
    columns: dict[str, np.ndarray] = {}
    count = 2 + seed % 2
    correlation = (0.0, 0.3, 0.6, 0.9)[seed % 4]
    common = random.standard_normal(people, dtype=np.float32)
    for i in range(count):
        own = random.standard_normal(people, dtype=np.float32)
        z = np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own
        kind = (seed // 4 + i) % 5
        if kind == 0:  # bell-shaped whole numbers
            columns[f"n{i}"] = np.round(z * 300).astype(np.int32)
        elif kind == 1:  # long tail
            columns[f"n{i}"] = np.round(np.exp(1.5 * z) * 200).astype(np.int32)
        elif kind == 2:  # few numbers, like an age
            columns[f"n{i}"] = np.clip(np.round(40 + 18 * z), 0, 99).astype(np.int32)
        else:  # categories of Zipf's law, mild or strong
            columns[f"c{i}"] = _zipf(z, 1.0 if kind == 3 else 1.6)
    return Universe(columns)


def _zipf(z: np.ndarray, exponent: float, values: int = 300) -> np.ndarray:
    """Ranks whose frequencies fall like 1/rank^exponent, monotone in z."""
    shares = 1 / np.arange(1, values + 1) ** exponent
    edges = np.cumsum(shares / shares.sum())[:-1]
    return np.searchsorted(norm.ppf(edges).astype(np.float32), z).astype(np.int32)


def true_share(universe: Universe, drawn: np.ndarray, plan: Plan, k: int) -> float:
    """Share of the sampled rows whose released cells match at least k people."""
    key = np.zeros(universe.people, np.int64)
    inside = np.ones(universe.people, bool)
    for name, blurred in plan.blurred.items():
        column = universe.columns[name]
        seen = np.unique(column[drawn])
        if name.startswith("c"):
            at = np.minimum(np.searchsorted(seen, column), len(seen) - 1)
            known = seen[at] == column
            group = blurred.groups[at]
            # somebody whose category the sample never saw fits only a star
            star = blurred.distinct - 1 if blurred.labels[-1].as_py() == "*" else -1
            group = np.where(known, group, star)
        else:
            starts = np.flatnonzero(np.diff(blurred.groups, prepend=-1))
            ends = np.append(starts[1:], len(seen)) - 1
            group = np.searchsorted(seen[starts], column, side="right") - 1
            fits = (group >= 0) & (column <= seen[ends][np.maximum(group, 0)])
            group = np.where(fits, group, -1)
        inside &= group >= 0
        key = key * blurred.distinct + np.maximum(group, 0)
    people = np.bincount(key[inside], minlength=int(key.max()) + 1)
    return float((people[key[drawn]] >= k).mean())


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
