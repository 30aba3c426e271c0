"""Sampled quantiles: uniform, one pass, mergeable, within their rank error, never below k."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

import sfumato as sf
from cli_tools import sfumato
from sfumato.errors import ColumnError, ParameterError
from sfumato.kernels.sorted_groups import (
    merge_small,
    sample_size,
    sampled_cuts,
    sampled_quantile_groups,
)
from sfumato.populations.sampled_quantiles import ValueReservoir, recoded_batches, sampled_groups


def test_the_sample_is_smaller_than_the_papers() -> None:
    for eps, delta in ((0.1, 0.1), (0.01, 0.01), (0.001, 0.05)):
        assert sample_size(eps, delta) < np.log(1 / delta) / eps**2


def times_chosen(make: object, people: int, runs: int) -> np.ndarray:
    times = np.zeros(people)
    for seed in range(runs):
        times[make(seed).values().astype(int)] += 1  # type: ignore[operator]
    return times


def test_every_value_is_equally_likely() -> None:
    def fed(seed: int) -> ValueReservoir:
        reservoir = ValueReservoir(5, seed)
        for part in np.split(np.arange(40.0), [3, 4, 20, 20, 39]):
            reservoir.add(part)
        return reservoir

    assert chisquare(times_chosen(fed, 40, 4_000)).pvalue > 1e-4


def test_a_merged_sample_is_uniform_and_stays_so_when_fed() -> None:
    def fed(seed: int) -> ValueReservoir:
        left, right = ValueReservoir(5, seed), ValueReservoir(6, seed + 1_000_000)
        left.add(np.arange(12.0))
        right.add(np.arange(12.0, 30.0))
        merged = left.merge(right)
        merged.add(np.arange(30.0, 40.0))
        assert merged.seen == 40
        return merged

    assert chisquare(times_chosen(fed, 40, 4_000)).pvalue > 1e-4


def test_merging_what_has_not_filled_up_keeps_everything() -> None:
    left, right = ValueReservoir(10), ValueReservoir(10)
    left.add([1, 2, 3])
    right.add([4, 5])
    assert sorted(left.merge(right).values()) == [1, 2, 3, 4, 5]


def test_the_same_seed_gives_the_same_sample_however_batched() -> None:
    values = np.random.default_rng(0).normal(size=10_000)
    whole, parts = ValueReservoir(100, 7), ValueReservoir(100, 7)
    whole.add(values)
    for part in np.array_split(values, 13):
        parts.add(part)
    assert whole.values().tolist() == parts.values().tolist()


def worst_rank_error(values: np.ndarray, eps: float, delta: float, seed: int) -> float:
    """Largest error, in shares of all rows, of the ranks 1 %, 2 %, … 99 % read from the sample."""
    reservoir = ValueReservoir.for_ranks(eps, delta, seed)
    reservoir.add(values)
    asked = np.arange(1, 100) / 100
    ranks = np.searchsorted(np.sort(values), reservoir.quantile(asked)) / len(values)
    return float(np.abs(ranks - asked).max())


@pytest.mark.slow
def test_rank_errors_over_a_thousand_seeds() -> None:
    values = np.random.default_rng(1).normal(size=50_000)
    eps, delta = 0.05, 0.1
    wrong = sum(worst_rank_error(values, eps, delta, seed) > eps for seed in range(1_000))
    assert wrong <= delta * 1_000


def test_rank_errors_over_a_hundred_seeds() -> None:
    values = np.random.default_rng(2).normal(size=20_000)
    wrong = sum(worst_rank_error(values, 0.05, 0.1, seed) > 0.05 for seed in range(100))
    assert wrong <= 10
    # half the error needs four times the sample: with this one it is exceeded most of the time
    assert sum(worst_rank_error(values, 0.05, 0.1, seed) > 0.02 for seed in range(100)) > 50


def masked_sizes(values: np.ndarray, k: int, eps: float, seed: int) -> np.ndarray:
    reservoir = ValueReservoir.for_ranks(eps, 0.05, seed)
    reservoir.add(values)
    cuts = sampled_cuts(reservoir.values(), len(values), k, eps)
    counts = np.bincount(np.searchsorted(cuts, values, side="right"), minlength=len(cuts) + 1)
    kept = merge_small(cuts, counts, k)
    return np.bincount(np.searchsorted(kept, values, side="right"), minlength=len(kept) + 1)


def test_a_sampled_release_is_never_below_k() -> None:
    values = np.random.default_rng(3).gamma(2.0, size=30_000)
    for seed in range(60):
        sizes = masked_sizes(values, 300, 0.01, seed)
        assert sizes.min() >= 300
        assert len(sizes) >= 20


def test_groups_aim_beyond_k_by_twice_the_error() -> None:
    """A group of k + 2εn rows keeps k where both of its ends are read εn rows off."""
    sample = np.arange(1000.0)
    assert len(sampled_cuts(sample, 100_000, 1000, 0.01)) + 1 == 100_000 // 3000
    assert len(sampled_cuts(sample, 100_000, 1000, 0.0)) + 1 == 100


@given(st.lists(st.integers(0, 30), min_size=1, max_size=30), st.integers(1, 30))
def test_merge_small_keeps_k(counts: list[int], k: int) -> None:
    if sum(counts) < k:
        return
    cuts = np.arange(1.0, len(counts))
    kept = merge_small(cuts, np.array(counts), k)
    rows = np.repeat(np.arange(len(counts)) + 0.5, counts)
    sizes = np.bincount(np.searchsorted(kept, rows, side="right"), minlength=len(kept) + 1)
    assert sizes.min() >= k


def test_a_quantile_is_read_from_the_sample() -> None:
    reservoir = ValueReservoir(1_000, 1)
    reservoir.add(np.arange(100.0))
    assert reservoir.quantile([0.0, 0.05, 0.999]).tolist() == [0, 5, 99]


@pytest.mark.parametrize(("eps", "delta"), [(0, 0.1), (1, 0.1), (0.1, 0), (0.1, 1)])
def test_impossible_errors_are_refused(eps: float, delta: float) -> None:
    with pytest.raises(ParameterError, match="ε and δ"):
        sample_size(eps, delta)


def in_batches(values: object, size: int = 1_000) -> list[pa.RecordBatch]:
    return pa.table({"x": values}).to_batches(max_chunksize=size)


@pytest.mark.parametrize("seed", range(5))
def test_no_group_is_below_k(seed: int) -> None:
    values = np.random.default_rng(seed).lognormal(size=20_000)
    rows = in_batches(values)
    found = sampled_groups(lambda: rows, "x", 400, eps=0.02, seed=seed)
    assert found.smallest >= 400
    assert found.counts.sum() == 20_000
    group = np.searchsorted(found.cuts, values, side="right")
    assert np.bincount(group).tolist() == found.counts.tolist()
    assert found.groups >= 10


def test_few_distinct_values() -> None:
    rows = in_batches(np.repeat([1, 2, 3], [500, 3, 500]))
    found = sampled_groups(lambda: rows, "x", 100, eps=0.02)
    assert found.smallest >= 100


def test_dates_and_nulls_are_recoded() -> None:
    days = [dt.date(1950, 1, 1) + dt.timedelta(i) for i in range(1_000)]
    rows = in_batches(pa.array([*days, None]), 300)
    found = sampled_groups(lambda: rows, "x", 300, eps=0.02)
    assert found.nulls == 1
    labels = pa.array([f"group {i}" for i in range(found.groups)])
    out = pa.Table.from_batches(recoded_batches(rows, found, labels))["x"].to_pylist()
    assert out[-1] is None
    assert out[0] == "group 0"
    assert {out.count(label) for label in set(out) - {None}} == set(found.counts.tolist())


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_tables_of_every_local_engine(tmp_path: object, engine: str) -> None:
    path = f"{tmp_path}/x.parquet"
    pq.write_table(pa.table({"x": np.random.default_rng(3).normal(size=30_000)}), path)
    with sf.table(path, engine=engine) as table:
        found = sampled_groups(lambda: table.batches(["x"]), "x", 1_000, eps=0.02)
    assert found.rows == 30_000
    assert found.smallest >= 1_000


def test_bad_streams() -> None:
    rows = in_batches(np.arange(100))
    with pytest.raises(ParameterError, match="larger than the 100 rows"):
        sampled_groups(lambda: rows, "x", 101)
    with pytest.raises(ColumnError, match="no column `y`"):
        sampled_groups(lambda: rows, "y", 5)
    with pytest.raises(ColumnError, match="numbers or dates"):
        sampled_groups(lambda: in_batches(["a"]), "x", 1)
    passes = iter([rows, rows[:0]])
    with pytest.raises(ColumnError, match="second pass saw 0 values"):
        sampled_groups(lambda: next(passes), "x", 5)


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=60), st.integers(1, 30), st.integers(1, 200),
    st.integers(0, 99),
)  # fmt: skip
def test_groups_of_a_sample_have_k_rows_whatever_was_drawn(
    counts: list[int], k: int, sample: int, seed: int
) -> None:
    rows = sum(counts)
    if k > rows:
        with pytest.raises(ParameterError, match="larger than the"):
            sampled_quantile_groups(range(len(counts)), counts, k, sample=sample)
        return
    groups, eps = sampled_quantile_groups(range(len(counts)), counts, k, sample=sample, seed=seed)
    assert groups.k >= k
    assert groups.rows == rows
    assert not groups.splits_values
    assert eps == (0 if sample >= rows else pytest.approx(np.sqrt(np.log(200) / (2 * sample))))


def test_ranks_read_from_a_sample_are_as_good_as_stated() -> None:
    """All cuts of a thousand samples, against the rank they stand for: ε is missed in 1 %."""
    points, k, sample = np.arange(5000), 1000, 300
    missed = 0
    for seed in range(300):
        groups, eps = sampled_quantile_groups(points, np.ones(5000), k, sample=sample, seed=seed)
        aimed = max(1, int(5000 / (k + 2 * eps * 5000)))
        wanted = np.arange(1, aimed) * 5000 / aimed
        found = groups.cuts[1:]
        off = [np.abs(wanted - cut).min() for cut in found]
        missed += bool(off) and max(off) > eps * 5000 + 1
    assert missed <= 8


def test_quantiles_of_a_sample_from_the_command_line(tmp_path) -> None:
    random = np.random.default_rng(7)
    people = pa.table(
        {"age": random.integers(0, 5000, 20_000), "ill": random.integers(0, 2, 20_000)}
    )
    pq.write_table(people, tmp_path / "people.parquet")
    asked = ["-k", 2000, "--qi", "age", "--method", "quantiles", "--sample", 4000]
    done = sfumato(
        "anonymize", tmp_path / "people.parquet", *asked, "-o", tmp_path / "out.csv", "--json"
    )
    assert (done.code, done.json["k"] >= 2000) == (0, True), done.err
    told = done.json["sampled_ranks"]
    assert (told["sample"], told["delta"]) == (4000, 0.01)
    assert told["eps"] == pytest.approx(np.sqrt(np.log(200) / 8000))
    shown = sfumato("anonymize", tmp_path / "people.parquet", *asked, "-o", tmp_path / "o.csv")
    said = " ".join(shown.out.split())
    assert "with probability 0.99 every rank within 2.57% of all rows" in said
    exact = sf.anonymize(people, k=2000, qi=["age"], method="quantiles")
    assert exact.details["rank_difference"] <= done.json["rank_difference"]
    whole = sf.anonymize(people, k=2000, qi=["age"], method="quantiles", sample=20_000)
    assert whole.details["sampled_ranks"] == {"sample": 20_000, "eps": 0.0, "delta": 0.0}
    for bad in ({"sample": 0}, {"sample": 9, "ties": False}):
        with pytest.raises(ParameterError, match="sample"):
            sf.anonymize(people, k=5, qi=["age"], method="quantiles", **bad)
