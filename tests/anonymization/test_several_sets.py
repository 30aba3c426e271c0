"""Sets of quasi-identifiers that share columns: each holds, and more is kept than by the union."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from samples import sample_path
from sfumato.hierarchy import Hierarchy

NAMES = ("a", "b", "c", "d")
OVERLAPPING = [
    [("a", "b"), ("b", "c")],
    [("a", "b", "c"), ("c", "d"), ("a", "d")],
    [("a", "b"), ("b", "c"), ("b", "d")],
    [("a", "b", "c"), ("b", "c", "d")],
]


def random_table(seed: int, rows: int, values: int = 6) -> pa.Table:
    random = np.random.default_rng(seed)
    columns = {name: random.integers(0, values, rows) for name in NAMES}
    columns["ill"] = random.choice(["flu", "gout", "none"], rows)
    return pa.table(columns)


def classes(release: sf.Release, names: tuple[str, ...]) -> dict[tuple[Any, ...], list[str]]:
    """The sensitive values of every class of a release, counted without any of our code."""
    assert release.table is not None
    rows = release.table.sample(release.rows).to_pylist()
    found: dict[tuple[Any, ...], list[str]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in names), []).append(row["ill"])
    return found


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10_000),
    st.integers(12, 60),
    st.sampled_from(OVERLAPPING),
    st.sampled_from(["mondrian", "relaxed", "lattice", "kmember", "best", "full-domain"]),
    st.integers(2, 4),
)
def test_every_set_holds_by_every_method(
    seed: int, rows: int, sets: list[tuple[str, ...]], method: str, k: int
) -> None:
    table = random_table(seed, rows)
    options: dict[str, Any] = {"relaxed": True} if method == "relaxed" else {}
    name = "mondrian" if method == "relaxed" else method
    asked = {"k": k, "l": 2, "sensitive": ["ill"], "method": name, **options}
    release = sf.anonymize(table, qi=sets, **asked)
    assert release.rows == rows
    for names in sets:
        for members in classes(release, names).values():
            assert len(members) >= k
            assert len(set(members)) >= 2
    union = sf.anonymize(
        table, qi=list(NAMES[: 3 + ("d" in {n for s in sets for n in s})]), **asked
    )
    assert release.utility["ncp"] <= union.utility["ncp"] + 1e-9
    told = release.details["several_sets"]
    assert told["by"] in ("two stages", "union", "levels that fit every set")
    assert set(told["shared"]) == {n for n, many in Counter(sum(sets, ())).items() if many > 1}


def trees(values: int = 6) -> dict[str, Hierarchy]:
    leaves = [str(value) for value in range(values)]
    pairs = [f"{int(leaf) // 2 * 2}+" for leaf in leaves]
    return {name: Hierarchy.from_levels([leaves, pairs, ["*"] * values]) for name in NAMES}


def brute_force(table: pa.Table, sets: list[tuple[str, ...]], k: int, limit: int) -> float:
    """Least loss over all levels; rows are left out one failing class after the other."""
    spread = {0: 0.0, 1: 1 / 5, 2: 1.0}
    shown = {0: lambda v: v, 1: lambda v: v // 2, 2: lambda v: 0}
    used = [name for name in NAMES if any(name in names for names in sets)]
    best = np.inf
    rows = table.to_pylist()
    for levels in product(range(3), repeat=len(used)):
        level = dict(zip(used, levels, strict=True))
        left = rows
        while True:
            bad = []
            for names in sets:
                keys = [tuple(shown[level[n]](row[n]) for n in names) for row in left]
                many = Counter(keys)
                bad += [i for i, key in enumerate(keys) if many[key] < k]
            if not bad:
                break
            left = [row for i, row in enumerate(left) if i not in set(bad)]
        out = len(rows) - len(left)
        if out <= limit:
            kept = sum(spread[at] for at in levels) * len(left)
            best = min(best, (kept + out * len(used)) / len(rows) / len(used))
    return float(best)


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(OVERLAPPING), st.sampled_from([0.0, 0.1, 0.3]))
def test_full_domain_finds_the_optimum_for_all_sets(
    seed: int, sets: list[tuple[str, ...]], share: float
) -> None:
    table = random_table(seed, 40)
    for name in NAMES:  # every value occurs, so that losses are those of the whole tree
        column = table[name].to_pylist()
        column[:6] = range(6)
        table = table.set_column(table.column_names.index(name), name, pa.array(column))
    release = sf.anonymize(
        table, qi=sets, k=3, method="full-domain", suppression_limit=share,
        hierarchies={n: t for n, t in trees().items() if any(n in names for names in sets)},
    )  # fmt: skip
    assert release.utility["ncp"] == pytest.approx(brute_force(table, sets, 3, int(share * 40)))
    for names in sets:
        assert min(len(members) for members in classes(release, names).values()) >= 3


def test_a_set_within_another_costs_nothing() -> None:
    table = random_table(1, 60)
    both = sf.anonymize(table, qi=[["a"], ["a", "b"], ["b", "a"]], k=3)
    one = sf.anonymize(table, qi=["a", "b"], k=3)
    assert both.utility["ncp"] == one.utility["ncp"]
    assert "several_sets" not in both.details


def test_where_the_union_is_solved_the_release_says_so() -> None:
    table = random_table(2, 80)
    sets = [["a", "b"], ["b", "c"]]
    starred = sf.anonymize(table, qi=sets, k=3, method="cells").details["several_sets"]
    assert starred["by"] == "union"
    assert starred["why"].startswith("method cells")
    within = sf.anonymize(table, qi=sets, k=2, boundaries={"a": {"max_width": 3}})
    assert within.details["several_sets"]["why"].startswith("within boundaries")


@pytest.mark.parametrize("method", ["mondrian", "lattice"])
def test_adult_loses_a_fifth_less_than_by_the_union(method: str) -> None:
    table = sf.table(sample_path("arx_adult.parquet"))
    sets = [
        ["sex", "age", "marital-status", "education", "native-country"],
        ["sex", "age", "race", "workclass", "occupation"],
    ]
    release = sf.anonymize(table, qi=sets, k=5, method=method)
    told = release.details["several_sets"]
    assert told["by"] == "two stages"
    assert release.utility["ncp"] == pytest.approx(told["loss"])
    assert told["loss"] < 0.8 * told["loss_of_union"]
