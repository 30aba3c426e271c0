"""Population uniqueness from a sample by a Gaussian copula (Rocher, Hendrickx & de Montjoye 2019).

Each column keeps the shares it has in the sample. Columns hang together through one correlated
normal vector: each pair gets the correlation whose discretized normal pair has the mutual
information seen in the sample. A record x then has the probability p(x) of its cell under the
model, is unique among n people with likelihood (1-p)^(n-1), and the expected share of unique
people is the mean of that likelihood over records of the model, for any n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.engines.results import Codes
from sfumato.errors import ParameterError
from sfumato.populations.bound import check_universe
from sfumato.results import Result

__all__ = ["CopulaUniqueness", "GaussianCopula", "fit_copula"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

FINEST = 64
"""Groups into which a column is gathered where only its dependence on another is looked at."""

LARGEST_CORRELATION = 0.9999


@dataclass(frozen=True)
class CopulaUniqueness(Result):
    """Expected share of unique people under the copula, with the error of its simulation."""

    columns: tuple[str, ...]
    universe: float
    unique: float
    standard_error: float
    draws: int


@dataclass(frozen=True, eq=False)
class GaussianCopula:
    """A fitted model: shares of every column, in the order of their frequency, and correlations.

    Parameters
    ----------
    columns
        Column names.
    edges
        For each column the cumulated shares of its values, most frequent first, from 0 to 1.
    rank
        For each column the place of each code in that order.
    correlation
        Correlation matrix of the normal vector.
    """

    columns: tuple[str, ...]
    edges: tuple[Floats, ...]
    rank: tuple[Ints, ...]
    correlation: Floats

    def uniqueness(
        self, universe: float, *, draws: int = 2_000, points: int = 256, seed: int = 0
    ) -> CopulaUniqueness:
        """Expected share of unique people in a population of that size."""
        check_universe(universe)
        random = np.random.default_rng(seed)
        chances = self._chances(self._draw(draws, random), points, random)
        alone = np.exp((universe - 1) * np.log1p(-np.minimum(chances, 1 - 1e-15)))
        error = float(alone.std(ddof=1) / math.sqrt(draws)) if draws > 1 else math.inf
        return CopulaUniqueness(self.columns, universe, float(alone.mean()), error, draws)

    def record_uniqueness(
        self, records: npt.ArrayLike, universe: float, *, points: int = 1_024, seed: int = 0
    ) -> Floats:
        """Likelihood that each record, given by its codes, is unique in the population."""
        check_universe(universe)
        codes = np.atleast_2d(np.asarray(records, dtype=np.int64))
        ranks = np.column_stack([rank[codes[:, i]] for i, rank in enumerate(self.rank)])
        chances = self._chances(ranks, points, np.random.default_rng(seed))
        return np.asarray(np.exp((universe - 1) * np.log1p(-np.minimum(chances, 1 - 1e-15))))

    def _draw(self, draws: int, random: np.random.Generator) -> Ints:
        from scipy.special import ndtr

        factor = np.linalg.cholesky(self.correlation)
        shares = ndtr(random.standard_normal((draws, len(self.columns))) @ factor.T)
        found = [
            np.searchsorted(edges[1:-1], shares[:, i], side="right")
            for i, edges in enumerate(self.edges)
        ]
        return np.column_stack(found).astype(np.int64)

    def _chances(self, ranks: Ints, points: int, random: np.random.Generator) -> Floats:
        """Probability of the cell of each record."""
        from scipy.special import ndtri

        from sfumato.populations._kernels import box_probabilities

        low = np.empty(ranks.shape)
        high = np.empty(ranks.shape)
        for i, edges in enumerate(self.edges):
            normal = np.clip(ndtri(edges), -40, 40)
            low[:, i], high[:, i] = normal[ranks[:, i]], normal[ranks[:, i] + 1]
        # narrow columns first: the later ones are then drawn inside almost nothing
        order = np.argsort([np.square(np.diff(edges)).sum() for edges in self.edges])
        matrix = self.correlation[np.ix_(order, order)]
        factor = np.linalg.cholesky(matrix)
        lattice = _lattice(points, len(order), random)
        return np.asarray(
            box_probabilities(
                np.ascontiguousarray(low[:, order]),
                np.ascontiguousarray(high[:, order]),
                factor,
                lattice,
            )
        )


def fit_copula(entries: Codes) -> GaussianCopula:
    """Fit the copula to rows, or to distinct combinations with their counts.

    Examples
    --------
    >>> import pyarrow as pa
    >>> random = np.random.default_rng(1)
    >>> age, job = random.integers(0, 60, 5_000), random.integers(0, 20, 5_000)
    >>> entries = Codes(("age", "job"), (age, job), (pa.array(range(60)), pa.array(range(20))))
    >>> model = fit_copula(entries)
    >>> bool(model.correlation[0, 1] < 0.25)  # they are independent
    True
    >>> round(model.uniqueness(1_000).unique, 1)  # 1,200 cells for 1,000 people: e^(-1/1.2)
    0.4
    """
    counts = np.ones(entries.entries) if entries.counts is None else entries.counts.astype(float)
    if counts.sum() < 2 or not entries.columns:
        raise ParameterError(
            "a model of the population needs columns and at least two rows",
            remedy="Give a table with more rows.",
        )
    edges, ranks, gathered = [], [], []
    for array, values in zip(entries.arrays, entries.values, strict=True):
        shares = np.bincount(array, weights=counts, minlength=len(values)) / counts.sum()
        order = np.argsort(-shares, kind="stable")
        rank = np.empty(len(values), np.int64)
        rank[order] = np.arange(len(values))
        upper = np.cumsum(shares[order])
        column_edges = np.concatenate([[0.0], upper / upper[-1]])
        edges.append(column_edges)
        ranks.append(rank)
        gathered.append(_gather(column_edges)[rank[array]])
    correlation = np.eye(len(edges))
    for i in range(len(edges)):
        for j in range(i):
            value = _correlation(gathered[i], gathered[j], counts)
            correlation[i, j] = correlation[j, i] = value
    return GaussianCopula(entries.columns, tuple(edges), tuple(ranks), _nearest(correlation))


def _gather(edges: Floats) -> Ints:
    """At most `FINEST` groups of neighbours of about equal share, for each value of a column."""
    middle = (edges[:-1] + edges[1:]) / 2
    groups = np.minimum((middle * FINEST).astype(np.int64), FINEST - 1)
    groups = np.arange(len(middle)) if len(middle) <= FINEST else groups
    return np.asarray(np.unique(groups, return_inverse=True)[1])


def _correlation(a: Ints, b: Ints, counts: Floats) -> float:
    """Correlation whose discretized normal pair has the mutual information of the data."""
    table = np.zeros((int(a.max()) + 1, int(b.max()) + 1))
    np.add.at(table, (a, b), counts)
    rows = table.sum()
    joint = table / rows
    p, q = joint.sum(axis=1), joint.sum(axis=0)
    seen = _information(joint, p, q)
    # a sample shows dependence where there is none: on average (r-1)(c-1)/2n of it
    goal = seen - (np.count_nonzero(p) - 1) * (np.count_nonzero(q) - 1) / (2 * rows)
    if goal <= 0:
        return 0.0
    low, high = 0.0, LARGEST_CORRELATION
    for _ in range(30):
        middle = (low + high) / 2
        if _information(_normal_pair(p, q, middle), p, q) < goal:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _information(joint: Floats, p: Floats, q: Floats) -> float:
    """Mutual information in nats."""
    independent = np.outer(p, q)
    positive = (joint > 0) & (independent > 0)
    return float((joint[positive] * np.log(joint[positive] / independent[positive])).sum())


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


def _normal_pair(p: Floats, q: Floats, correlation: float) -> Floats:
    """Cell probabilities of two correlated normals cut so that their shares are p and q."""
    from scipy.special import ndtr, ndtri

    edges = np.concatenate([[0.0], np.cumsum(p)])
    shares = edges[:-1, None] + np.diff(edges)[:, None] * (_NODES + 1) / 2
    x = ndtri(np.clip(shares, 1e-12, 1 - 1e-12))
    cuts = ndtri(np.clip(np.concatenate([[0.0], np.cumsum(q)]), 0.0, 1.0))
    spread = math.sqrt(1 - correlation * correlation)
    given = np.diff(ndtr((cuts - correlation * x[..., None]) / spread), axis=-1)
    return np.asarray((given * (_WEIGHTS / 2)[None, :, None]).sum(axis=1) * p[:, None])


def _nearest(correlation: Floats) -> Floats:
    """The matrix itself, or with its negative eigenvalues lifted and its diagonal set back to 1."""
    values, vectors = np.linalg.eigh(correlation)
    if values[0] >= 1e-6:
        return correlation
    lifted = (vectors * np.maximum(values, 1e-6)) @ vectors.T
    scale = np.sqrt(np.diag(lifted))
    return np.asarray(lifted / np.outer(scale, scale))


def _lattice(points: int, dimensions: int, random: np.random.Generator) -> Floats:
    """Quasi-random points: multiples of square roots of primes, randomly shifted and folded."""
    primes: list[int] = []
    candidate = 2
    while len(primes) < dimensions:
        if all(candidate % prime for prime in primes):
            primes.append(candidate)
        candidate += 1
    steps = np.arange(1, points + 1)[:, None] * np.sqrt(np.array(primes, dtype=float))
    return np.asarray(np.abs(2 * ((steps + random.random(dimensions)) % 1.0) - 1))
