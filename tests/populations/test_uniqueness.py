"""Population uniqueness from a sample: agreement with ARX's figures and with simulated truth."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.special import gammaln

from samples import sample_path
from sfumato.engines.protocol import ClassSizes
from sfumato.errors import ParameterError
from sfumato.populations import estimators
from sfumato.populations.bounds import check_universe
from sfumato.populations.estimators import pitman, population_uniqueness, snb, zayatz

USA = 317_238_626
"""The population that ARX takes for the USA."""


def adult() -> ClassSizes:
    table = pq.read_table(sample_path("arx_adult.parquet")).drop_columns(["salary-class"])
    groups = table.group_by(table.column_names).aggregate([([], "count_all")])
    return ClassSizes.of_counts(groups["count_all"].to_numpy())


def test_arx_figures_on_adult() -> None:
    found = population_uniqueness(adult(), USA)
    assert round(found.sample_unique, 3) == 0.465
    assert round(found.estimates["pitman"], 3) == 0.030
    assert round(found.estimates["zayatz"], 3) == 0.216
    assert found.chosen == "pitman"


def test_slide_negative_binomial_differs_from_arx_for_a_reason() -> None:
    """ARX prints 0.000: its iteration finds no root and "none" is shown as zero.

    Its second equation multiplies by (1-d)^(a+2) where expected pairs are divided by it. With the
    equation derived from the model a root exists, and it reproduces the sample's singles and pairs.
    """
    sizes = adult()
    share = snb(sizes, USA)
    assert share == pytest.approx(0.167, abs=5e-4)


def test_pitman_is_at_the_maximum_of_its_likelihood() -> None:
    from sfumato.populations import estimators as uniqueness

    sizes = ClassSizes.of({1: 400, 2: 150, 3: 60, 10: 12})
    s, c = sizes.sizes.astype(float), sizes.classes_of_size.astype(float)

    def value(x: float, y: float) -> float:
        return uniqueness._pitman_likelihood(np.array([x, y]), s, c, c.sum(), (s * c).sum())[0]

    def direct(alpha: float, theta: float) -> float:
        classes, rows = int(c.sum()), int((s * c).sum())
        pairs = zip(s, c, strict=True)
        total = sum(np.log(theta + i * alpha) for i in range(1, classes))
        total -= sum(np.log(theta + i) for i in range(1, rows))
        total += sum(n * sum(np.log(j - alpha) for j in range(1, int(m))) for m, n in pairs)
        return -total

    # the closed form is the definition
    alpha, theta = uniqueness._pitman_parameters(np.array([0.3, 2.0]))
    assert value(0.3, 2.0) == pytest.approx(direct(alpha, theta), rel=1e-10)
    # on a grid around it nothing is likelier than what maximum likelihood found
    grid = [(x, y) for x in np.linspace(-4, 4, 81) for y in np.linspace(-3, 9, 121)]
    x, y = min(grid, key=lambda at: value(*at))
    alpha, theta = uniqueness._pitman_parameters(np.array([x, y]))
    on_grid = np.exp(gammaln(theta + 1) - gammaln(theta + alpha)) * 1e5 ** (alpha - 1)
    assert pitman(sizes, 1e5) == pytest.approx(on_grid, rel=0.15)


def pitman_universe(
    people: int, theta: float, alpha: float, random: np.random.Generator
) -> np.ndarray:
    """Class of each person, seated by Pitman's rule (Chinese restaurant)."""
    seats = np.empty(people, np.int64)
    sizes: list[int] = []
    for person in range(people):
        if random.random() * (person + theta) < theta + alpha * len(sizes):
            seats[person] = len(sizes)
            sizes.append(1)
            continue
        # an old class, with probability proportional to size - alpha: copy somebody, then thin
        while True:
            chosen = seats[random.integers(person)]
            if random.random() * sizes[chosen] < sizes[chosen] - alpha:
                break
        seats[person] = chosen
        sizes[chosen] += 1
    return seats


def test_pitman_finds_the_truth_of_its_own_model() -> None:
    random = np.random.default_rng(4)
    seats = pitman_universe(60_000, 200.0, 0.5, random)
    truth = (np.bincount(seats) == 1).sum() / len(seats)
    sample = ClassSizes.of_counts(np.bincount(random.choice(seats, 3_000, replace=False)))
    assert pitman(sample, len(seats)) == pytest.approx(truth, rel=0.2)


def test_snb_and_zayatz_near_the_truth_of_a_large_sample() -> None:
    random = np.random.default_rng(8)
    sizes = 1 + random.negative_binomial(0.8, 0.25, size=20_000)
    people = np.repeat(np.arange(len(sizes)), sizes)
    truth = (sizes == 1).sum() / len(people)
    sample = ClassSizes.of_counts(
        np.bincount(random.choice(people, len(people) // 2, replace=False))
    )
    assert snb(sample, len(people)) == pytest.approx(truth, rel=0.15)
    assert zayatz(sample, len(people)) == pytest.approx(truth, rel=0.3)


def test_zayatz_equals_its_definition_by_the_hypergeometric_distribution() -> None:
    from scipy.stats import hypergeom

    sizes = ClassSizes.of({1: 50, 2: 20, 5: 4})
    universe, rows = 700, sizes.rows
    one = {s: hypergeom.pmf(1, universe, s, rows) for s in (1, 2, 5)}
    stays = 50 * one[1] / (50 * one[1] + 20 * one[2] + 4 * one[5])
    assert zayatz(sizes, universe) == pytest.approx(50 * stays / rows)


def test_dankars_rule() -> None:
    sizes = ClassSizes.of({1: 400, 2: 150, 3: 60, 10: 12})
    assert population_uniqueness(sizes, sizes.rows / 0.1).chosen == "pitman"
    above = population_uniqueness(sizes, sizes.rows / 0.3)
    assert above.estimate == min(above.estimates["zayatz"], above.estimates["snb"])
    assert above.chosen in ("zayatz", "snb")


def test_no_sample_uniques_means_none() -> None:
    found = population_uniqueness(ClassSizes.of({2: 30, 5: 10}), 10_000)
    assert set(found.estimates.values()) == {0.0}
    assert "no row of the sample is unique" in found.notes[0]


def test_no_pairs_leaves_models_without_solution() -> None:
    found = population_uniqueness(ClassSizes.of({1: 50}), 10_000)
    assert found.estimates["snb"] is None
    assert found.estimates["pitman"] is None
    assert found.chosen == "zayatz"
    assert any("snb has no solution" in note for note in found.notes)


def test_the_interval_is_around_the_estimate_and_repeats() -> None:
    sizes = ClassSizes.of({1: 400, 2: 150, 3: 60, 10: 12})
    found = population_uniqueness(sizes, 50_000, bootstrap=60, seed=3)
    assert found.low < found.estimate < found.high
    assert found == population_uniqueness(sizes, 50_000, bootstrap=60, seed=3)
    for replicates in (-1, 10**30):
        with pytest.raises(ParameterError, match=r"bootstrap = .* Give 0 to 100,000"):
            population_uniqueness(sizes, 50_000, bootstrap=replicates)
    assert found.to_dict()["confidence"] == 0.95


@pytest.mark.slow
def test_the_interval_covers() -> None:
    """95 % intervals over 60 samples of Pitman universes cover the truth in at least 80 %."""
    random = np.random.default_rng(11)
    covered = 0
    for _ in range(60):
        seats = pitman_universe(40_000, 100.0, 0.4, random)
        truth = (np.bincount(seats) == 1).sum() / len(seats)
        sample = ClassSizes.of_counts(np.bincount(random.choice(seats, 2_000, replace=False)))
        found = population_uniqueness(sample, len(seats), bootstrap=100)
        covered += found.low <= truth <= found.high
    assert covered >= 48


def test_a_universe_smaller_than_the_table_is_refused() -> None:
    with pytest.raises(ParameterError, match="10 people but the table already has 600 rows"):
        population_uniqueness(ClassSizes.of({1: 400, 2: 100}), 10)


def test_uniqueness_by_sampling_fraction_ends_where_it_must() -> None:
    sizes = ClassSizes.of({1: 400, 2: 150, 3: 60, 10: 12})
    found = population_uniqueness(sizes, 100_000)
    fractions, shares = zip(*found.by_fraction, strict=True)
    assert fractions[0] == pytest.approx(found.sampling_fraction)
    assert shares[0] == pytest.approx(found.estimate)
    assert (fractions[-1], shares[-1]) == (1.0, sizes.unique)
    assert list(fractions) == sorted(fractions)
    for fraction, share in found.by_fraction[1:-1:4]:
        again = population_uniqueness(sizes, sizes.rows / fraction)
        assert share == pytest.approx(again.estimate)
    assert population_uniqueness(sizes, sizes.rows).by_fraction == ()


def test_the_edges_of_dankars_rule_and_of_a_universe() -> None:
    estimates = {"pitman": 0.1, "zayatz": 0.2, "snb": 0.3}
    assert estimators._dankar(estimates, 0.1) == "pitman"
    assert estimators._dankar(estimates, 0.101) == "zayatz"
    check_universe(10, rows=10)
    with pytest.raises(ParameterError, match="already has 10 rows"):
        check_universe(9, rows=10)
