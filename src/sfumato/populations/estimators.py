"""How many people of the population are unique, estimated from a sample of it.

Three superpopulation models see only the histogram of class sizes of the sample:

- ``pitman``: Pitman's sampling formula, maximum likelihood (Hoshino 2001)
- ``zayatz``: a sample unique is a population unique with the probability that Bayes' rule gives if
  the sample's class sizes were the population's (Zayatz 1991)
- ``snb``: class sizes are 1 + negative binomial, matched to the sample's singles and pairs
  (Chen & Keller-McNulty 1998), the number of classes after Shlosser (Haas & Stokes 1998)

``dankar`` is the decision rule of Dankar et al. 2012: Pitman up to a sampling fraction of 0.1, and
above it the smaller of Zayatz and the slide negative binomial. A model that has no solution for a
sample says so (None) instead of giving 0.

Beside them stands the Gaussian copula of Rocher, Hendrickx & de Montjoye (2019), which sees rows:
margins and the dependence of columns on one another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Literal

import numpy as np
import numpy.typing as npt

from sfumato.engines.protocol import ClassSizes, Codes
from sfumato.errors import ParameterError
from sfumato.populations.bounds import check_universe
from sfumato.results import Result

Model = Literal["pitman", "zayatz", "snb", "dankar"]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

LARGEST_SMALL_FRACTION = 0.1
"""Up to this sampling fraction Dankar's rule trusts Pitman's model."""
AT_ONCE = 1 << 16
"""Points of boxes that are looked at together: so many numbers stay near the processor."""
FRACTIONS = 13
"""Sampling fractions for which uniqueness is told, evenly spaced on a logarithmic scale."""
_MOST_REPLICATES = 100_000
"""Nobody waits for more; the interval would not move."""


@dataclass(frozen=True)
class PopulationUniqueness(Result):
    """Estimated share of the population that is unique, by model.

    `estimates` holds a share of the population for each model, None where it has no solution.
    `chosen` is the model that Dankar's rule takes, `estimate` its figure, and `low` and `high` the
    bootstrap interval around it at the given `confidence`. `by_fraction` pairs sampling fractions,
    from this one up to all people, with the share that Dankar's rule would give if the sample were
    that fraction of its population.
    """

    universe: float
    sampling_fraction: float
    sample_unique: float
    estimates: Mapping[str, float | None]
    chosen: str
    estimate: float | None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    notes: tuple[str, ...] = field(default=())
    by_fraction: tuple[tuple[float, float], ...] = field(default=())


def population_uniqueness(
    sizes: ClassSizes,
    universe: float,
    *,
    bootstrap: int = 0,
    confidence: float = 0.95,
    seed: int = 0,
) -> PopulationUniqueness:
    """Estimate the share of unique people in a population from the class sizes of a sample.

    Parameters
    ----------
    sizes
        Class sizes of the sample.
    universe
        People in the population.
    bootstrap
        Replicates for the interval; 0 gives none. A replicate redraws the number of classes of each
        size (Poisson around what was seen): redrawing rows would double some and hide uniques.

    Examples
    --------
    >>> found = population_uniqueness(ClassSizes.of({1: 400, 2: 150, 3: 60, 10: 12}), 100_000)
    >>> found.chosen, round(found.estimate, 3)
    ('pitman', 0.008)
    """
    check_universe(universe, sizes.rows)
    if not 0 <= bootstrap <= _MOST_REPLICATES:
        raise ParameterError(
            f"bootstrap = {bootstrap} is out of range", remedy=f"Give 0 to {_MOST_REPLICATES:,}."
        )
    estimates = {
        "pitman": pitman(sizes, universe),
        "zayatz": zayatz(sizes, universe),
        "snb": snb(sizes, universe),
    }
    fraction = sizes.rows / universe
    chosen = _dankar(estimates, fraction)
    notes = []
    if sizes.unique_rows == 0:
        notes.append("no row of the sample is unique, so every model says nobody is")
    notes += [
        f"{name} has no solution for this sample"
        for name, value in estimates.items()
        if value is None
    ]
    low = high = None
    if bootstrap and estimates[chosen] is not None and sizes.unique_rows:
        low, high = _interval(sizes, universe, chosen, bootstrap, confidence, seed)
    return PopulationUniqueness(
        universe=universe,
        sampling_fraction=fraction,
        sample_unique=sizes.unique,
        estimates=estimates,
        chosen=chosen,
        estimate=estimates[chosen],
        low=low,
        high=high,
        confidence=confidence if low is not None else None,
        notes=tuple(notes),
        by_fraction=_by_fraction(sizes, fraction),
    )


def _by_fraction(sizes: ClassSizes, fraction: float) -> tuple[tuple[float, float], ...]:
    """What Dankar's rule says of this sample if it were a larger fraction of its population."""
    if not 0 < fraction < 1:
        return ()
    model = _pitman_fit(sizes) if sizes.unique_rows else None
    found = []
    for share in np.geomspace(fraction, 1, FRACTIONS)[:-1].tolist():
        universe = sizes.rows / share
        small = share <= LARGEST_SMALL_FRACTION
        estimates = {
            "pitman": _pitman_share(model, universe) if small and model else None,
            "zayatz": zayatz(sizes, universe),
            "snb": None if small else snb(sizes, universe),
        }
        value = estimates[_dankar(estimates, share)]
        if value is not None:
            found.append((share, value))
    return (*found, (1.0, sizes.unique))


def _dankar(estimates: Mapping[str, float | None], fraction: float) -> str:
    if fraction <= LARGEST_SMALL_FRACTION:
        return "pitman" if estimates["pitman"] is not None else "zayatz"
    snb_, zayatz_ = estimates["snb"], estimates["zayatz"]
    return "zayatz" if snb_ is None or zayatz_ is None or zayatz_ < snb_ else "snb"


def _interval(
    sizes: ClassSizes, universe: float, chosen: str, replicates: int, confidence: float, seed: int
) -> tuple[float | None, float | None]:
    model, near = _MODELS[chosen], _pitman_fit(sizes) if chosen == "pitman" else None
    if near is not None:  # replicates differ little: the search begins at the fit of the sample
        model = partial(pitman, near=near)
    random = np.random.default_rng(seed)
    found: list[float] = []
    for _ in range(replicates):
        drawn = random.poisson(sizes.classes_of_size)
        again = ClassSizes(sizes.sizes[drawn > 0], drawn[drawn > 0])
        estimate = model(again, universe) if len(again.sizes) else None
        if estimate is not None:
            found.append(estimate)
    if not found:
        return None, None
    tail = (1 - confidence) / 2
    low, high = np.quantile(found, [tail, 1 - tail])
    return float(low), float(high)


def zayatz(sizes: ClassSizes, universe: float) -> float | None:
    """Share of unique people after Zayatz: sample uniques that stay unique, scaled up.

    Examples
    --------
    >>> round(zayatz(ClassSizes.of({1: 50, 2: 25}), 1000), 3)
    0.263
    """
    singles = sizes.unique_rows
    if singles == 0:
        return 0.0
    rows = sizes.rows
    # P(exactly one of a class of i is sampled), hypergeometric: i·(n/N)·Π (N-n-j)/(N-1-j)
    steps = np.arange(int(sizes.sizes[-1]) - 1, dtype=np.float64)
    with np.errstate(divide="ignore"):
        logs = np.log(np.maximum(universe - rows - steps, 0)) - np.log(universe - 1 - steps)
    missed = np.exp(np.concatenate([[0.0], np.cumsum(logs)]))
    one = sizes.sizes * missed[sizes.sizes - 1]
    stays = singles / float((sizes.classes_of_size * one).sum())
    return min(1.0, singles * stays / rows)


def pitman(
    sizes: ClassSizes, universe: float, near: tuple[float, float] | None = None
) -> float | None:
    """Share of unique people under Pitman's sampling formula, by maximum likelihood.

    The expected number of uniques among N people is Γ(θ+1)/Γ(θ+α)·N^α. The search for α and θ
    begins at `near` where they are known of a similar sample.

    Examples
    --------
    >>> round(pitman(ClassSizes.of({1: 400, 2: 150, 3: 60, 10: 12}), 100_000), 3)
    0.008
    """
    if sizes.unique_rows == 0:
        return 0.0
    model = _pitman_fit(sizes, near)
    return None if model is None else _pitman_share(model, universe)


def _pitman_fit(
    sizes: ClassSizes, near: tuple[float, float] | None = None
) -> tuple[float, float] | None:
    """α and θ of greatest likelihood."""
    from scipy.optimize import minimize

    s, c = sizes.sizes.astype(np.float64), sizes.classes_of_size.astype(np.float64)
    classes, rows = float(c.sum()), float((s * c).sum())
    if classes == rows:
        return None  # all rows unique: the likelihood has no maximum below α = 1

    def minus_log_likelihood(at: Floats) -> tuple[float, Floats]:
        return _pitman_likelihood(at, s, c, classes, rows)

    best = None
    for start in _pitman_starts(sizes) if near is None else [_pitman_place(*near)]:
        found = minimize(minus_log_likelihood, start, jac=True, method="BFGS", tol=1e-9)
        if np.isfinite(found.fun) and (best is None or found.fun < best.fun):
            best = found
    return None if best is None else _pitman_parameters(best.x)


def _pitman_share(model: tuple[float, float], universe: float) -> float | None:
    from scipy.special import gammaln

    alpha, theta = model
    share = math.exp(gammaln(theta + 1) - gammaln(theta + alpha) + (alpha - 1) * math.log(universe))
    return share if 0 <= share <= 1 else None


def _pitman_parameters(at: Floats) -> tuple[float, float]:
    """α in (0, 1) and θ > 0 from a logarithmic scale on which every point is allowed."""
    alpha = 1 / (1 + math.exp(-min(max(at[0], -30.0), 30.0)))
    return alpha, math.exp(min(max(at[1], -30.0), 60.0))


def _pitman_place(alpha: float, theta: float) -> Floats:
    """Where α and θ are on that scale."""
    return np.array([math.log(alpha / (1 - alpha)), math.log(theta)])


def _pitman_starts(sizes: ClassSizes) -> list[Floats]:
    ratio = sizes.unique_rows / sizes.classes
    logit = math.log(min(max(ratio, 0.01), 0.99) / (1 - min(max(ratio, 0.01), 0.99)))
    scale = math.log(max(1.0, sizes.classes / 10))
    return [np.array([logit, scale]), np.array([0.0, 0.0]), np.array([logit, 2 * scale])]


def _pitman_likelihood(
    at: Floats, s: Floats, c: Floats, classes: float, rows: float
) -> tuple[float, Floats]:
    """Minus the log likelihood and its gradient on the logarithmic scale.

    L = Σ_{i<u} log(θ+iα) - Σ_{i<n} log(θ+i) + Σ_s c_s Σ_{j<s} log(j-α), in closed form by log Γ.
    """
    from scipy.special import digamma, gammaln

    alpha, theta = _pitman_parameters(at)
    first, top = theta / alpha + 1, theta / alpha + classes
    value = (
        (classes - 1) * math.log(alpha)
        + gammaln(top)
        - gammaln(first)
        - gammaln(theta + rows)
        + gammaln(theta + 1)
        + float((c * (gammaln(s - alpha) - gammaln(1 - alpha))).sum())
    )
    spread = float(digamma(top) - digamma(first))
    by_theta = spread / alpha - float(digamma(theta + rows) - digamma(theta + 1))
    by_alpha = (
        (classes - 1) / alpha
        - theta / alpha**2 * spread
        - float((c * (digamma(s - alpha) - digamma(1 - alpha))).sum())
    )
    gradient = np.array([by_alpha * alpha * (1 - alpha), by_theta * theta])
    return -float(value), -gradient


def snb(sizes: ClassSizes, universe: float) -> float | None:
    """Share of unique people when class sizes are 1 + negative binomial (a, b).

    With K classes and sampling fraction f, the expected singles and pairs of the sample are

        K f G (1 + a d/(1-d))  and  K f² a (1-b) G (2 - (1-a) d) / (2 (1-d)²),

    d = (1-f)(1-b), G = (b/(1-d))^a; K·b^a of the classes are unique people.

    Examples
    --------
    >>> round(snb(ClassSizes.of({1: 400, 2: 150, 3: 60, 10: 12}), 4_000), 3)
    0.131
    """
    from scipy.optimize import root

    singles, pairs = sizes.unique_rows, sizes.to_dict().get(2, 0)
    if singles == 0:
        return 0.0
    fraction = sizes.rows / universe
    if fraction >= 1:
        return sizes.unique
    classes = _shlosser(sizes, fraction)
    if pairs == 0 or not math.isfinite(classes):
        return None

    def off(at: Floats) -> Floats:
        log_a, logit_b = np.clip(at, (-20, -30), (20, 30))
        a, b = math.exp(log_a), 1 / (1 + math.exp(-logit_b))
        d = (1 - fraction) * (1 - b)
        g = math.exp(a * (math.log(b) - math.log1p(-d)))
        one = classes * fraction * g * (1 + a * d / (1 - d))
        two = classes * fraction**2 * a * (1 - b) * g * (2 - (1 - a) * d) / (2 * (1 - d) ** 2)
        return np.array([one / singles - 1, two / pairs - 1])

    for start in product((-2.0, 0.0, 2.0), (-8.0, -4.0, 0.0)):
        found = root(off, start, tol=1e-12)
        if np.abs(found.fun).max() < 1e-6:
            log_a, logit_b = found.x
            log_b = -math.log1p(math.exp(-logit_b))
            return min(1.0, classes * math.exp(math.exp(log_a) * log_b) / universe)
    return None


def _shlosser(sizes: ClassSizes, fraction: float) -> float:
    """Number of classes in the population (the third of Haas & Stokes's Shlosser estimators)."""
    s, c = sizes.sizes.astype(np.float64), sizes.classes_of_size.astype(np.float64)
    f = fraction
    missed = (1 - f) ** s * c
    first = (s * f * f * (1 - f * f) ** (s - 1) * c).sum()
    second = (missed * ((1 + f) ** np.minimum(s, 700 / math.log1p(f)) - 1)).sum()
    third = (missed.sum() / (s * f * (1 - f) ** (s - 1) * c).sum()) ** 2
    return float(c.sum() + sizes.unique_rows * first / second * third)


_MODELS: dict[str, Callable[[ClassSizes, float], float | None]] = {
    "pitman": pitman,
    "zayatz": zayatz,
    "snb": snb,
}


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

        low = np.empty(ranks.shape)
        high = np.empty(ranks.shape)
        for i, edges in enumerate(self.edges):
            normal = np.clip(ndtri(edges), -40, 40)
            low[:, i], high[:, i] = normal[ranks[:, i]], normal[ranks[:, i] + 1]
        # narrow columns first: the later ones are then drawn inside almost nothing
        order = np.argsort([np.square(np.diff(edges)).sum() for edges in self.edges])
        factor = np.asarray(np.linalg.cholesky(self.correlation[np.ix_(order, order)]), np.float64)
        lattice = _lattice(points, len(order), random)
        return box_probabilities(low[:, order], high[:, order], factor, lattice)


def box_probabilities(low: Floats, high: Floats, factor: Floats, points: Floats) -> Floats:
    """P(low < z < high) for z ~ N(0, factor·factorᵀ), one box a row of `low` and `high`.

    Genz's separation of variables: one dimension after the other is drawn inside its limits given
    the ones before, and the chances of doing so are multiplied; averaged over quasi-random points.
    """
    from scipy.special import ndtr, ndtri

    chances = np.empty(len(low))
    many = max(1, AT_ONCE // len(points))
    for begin in range(0, len(low), many):
        rows = slice(begin, begin + many)
        chance, drawn = np.ones((1, 1)), list[Floats]()
        for d, line in enumerate(factor):
            shift = sum(weight * z for weight, z in zip(line, drawn, strict=False))
            a = ndtr((low[rows, d, None] - shift) / line[d])
            width = np.maximum(ndtr((high[rows, d, None] - shift) / line[d]) - a, 0.0)
            chance = chance * width
            if d + 1 < len(factor):
                drawn.append(np.clip(ndtri(a + points[:, d] * width), -37.0, 37.0))
        chances[rows] = chance.mean(axis=1)
    return chances


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
    counts = entries.row_counts.astype(float)
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
