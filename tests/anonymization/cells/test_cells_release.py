"""Cell suppression through `anonymize`: the release is verified, bad input is refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.anonymization.verb import anonymize
from sfumato.budget import Budget
from sfumato.errors import BudgetError, ColumnError, InputError, ParameterError
from sfumato.release.recoding import Recoding
from sfumato.utility.comparison import compare

PEOPLE = pa.table(
    {
        "age": [34, 34, 35, 35, 61, 61],
        "zip": ["8001", "8001", "8001", "8002", "8002", "8002"],
        "ill": ["flu", "cold", "flu", "gout", "flu", "cold"],
    }
)


def rows_of(table: pa.Table, names: list[str]) -> list[tuple[Any, ...]]:
    return list(zip(*(table.column(name).to_pylist() for name in names), strict=True))


def random_table(rows: int, seed: int = 0) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "a": random.integers(0, 6, rows),
            "b": [f"b{v}" for v in random.integers(0, 5, rows)],
            "c": [None if v == 0 else int(v) for v in random.integers(0, 4, rows)],
            "d": random.integers(0, 3, rows).astype(np.float64),
            "s": [f"s{v}" for v in random.integers(0, 4, rows)],
        }
    )


@pytest.mark.parametrize("algorithm", ["dr", "cf", "fq", "naive", "gr", "ds"])
def test_release_is_k_anonymous_and_only_stars_cells(algorithm: str) -> None:
    table = random_table(14 if algorithm == "naive" else 200)
    qi = ["a", "b", "c", "d"]
    k = 3
    release = anonymize(table, qi=qi, k=k, method="cells", algorithm=algorithm, bound="lp")
    assert release.k is not None
    assert release.k >= k
    out = release.table.sample(table.num_rows)
    assert min(Counter(rows_of(out, qi)).values()) >= k
    stars = 0
    for name in qi:
        marks = (
            out.column(f"{name}__suppressed").to_pylist()
            if f"{name}__suppressed" in out.column_names
            else [
                v in (None, "*") and w is not None
                for v, w in zip(
                    out.column(name).to_pylist(), table.column(name).to_pylist(), strict=True
                )
            ]
        )
        stars += sum(marks)
        for new, old, starred in zip(
            out.column(name).to_pylist(), table.column(name).to_pylist(), marks, strict=True
        ):
            assert starred or new == old
    assert stars == release.suppressed_cells
    assert release.lower_bound is not None
    assert release.lower_bound <= stars
    assert release.details["proven_gap"] == pytest.approx(stars / release.lower_bound - 1)


def test_l_diversity_holds_and_more_is_starred() -> None:
    table = random_table(300, 1)
    qi = ["a", "b", "c"]
    plain = anonymize(table, qi=qi, k=3, method="cells")
    diverse = anonymize(table, qi=qi, k=3, sensitive=["s"], l=3, method="cells")
    out = diverse.table.sample(300)
    held: dict[tuple[Any, ...], set[Any]] = {}
    for row, secret in zip(rows_of(out, qi), out.column("s").to_pylist(), strict=True):
        held.setdefault(row, set()).add(secret)
    assert min(len(values) for values in held.values()) >= 3
    assert diverse.suppressed_cells >= plain.suppressed_cells


@pytest.mark.parametrize("asked", [{"t": 0.3}, {"l": 2, "l_kind": "entropy"}, {"alpha": 0.7}])
def test_other_models_hold(asked: dict[str, Any]) -> None:
    table = random_table(250, 2)
    release = anonymize(table, qi=["a", "b", "c"], k=4, sensitive=["s"], method="cells", **asked)
    assert all(finding.holds for finding in release.findings)


def test_protected_columns_are_never_starred() -> None:
    table = random_table(300, 3)
    release = anonymize(table, qi=["a", "b", "c"], k=3, method="cells", protected=["b"])
    assert release.column_actions["b"] == "kept"
    assert release.table.sample(300).column("b").to_pylist() == table.column("b").to_pylist()


def test_rows_that_protection_leaves_alone_are_left_out() -> None:
    table = PEOPLE.set_column(1, "zip", pa.array(["1", "1", "1", "1", "1", "2"]))
    release = anonymize(table, qi=["age", "zip"], k=2, method="cells", protected=["zip"])
    assert release.suppressed_rows == 1
    assert any("left out" in warning for warning in release.warnings)


@settings(max_examples=8)
@given(st.integers(0, 10_000), st.integers(2, 6))
def test_weights_choose_the_column(seed: int, k: int) -> None:
    table = random_table(60, seed).select(["a", "b"])
    dear = anonymize(table, qi=["a", "b"], k=k, method="cells", weights={"a": 10})
    stars = [
        sum(v in (None, "*") for v in dear.table.sample(60).column(name).to_pylist())
        for name in ("a", "b")
    ]
    assert dear.details["cost"] == 10 * stars[0] + stars[1]
    assert dear.lower_bound is not None
    assert dear.lower_bound <= dear.details["cost"]


def test_same_seed_same_stars() -> None:
    table = random_table(400, 5)
    first, second = (
        anonymize(table, qi=["a", "b", "c", "d"], k=4, method="cells", bound="lp").table.sample(400)
        for _ in range(2)
    )
    assert first.equals(second)


def test_many_columns() -> None:
    random = np.random.default_rng(6)
    kinds = random.integers(0, 2, (4, 40))
    which = random.integers(0, 4, 400)
    codes = np.where(random.random((400, 40)) < 0.03, 2, kinds[which])
    table = pa.table({f"c{j}": codes[:, j] for j in range(40)})
    release = anonymize(table, qi=table.column_names, k=5, method="cells", improve="local")
    assert release.k is not None
    assert release.k >= 5
    assert any("sets of columns" in warning for warning in release.warnings)
    assert release.lower_bound is not None
    assert 0 < release.lower_bound <= release.suppressed_cells


def test_another_marker() -> None:
    table = pa.table({"a": ["*", "x", "y", "y"], "b": ["1", "1", "2", "2"]})
    with pytest.raises(ColumnError, match="already contains the text"):
        anonymize(table, qi=["a", "b"], k=2, method="cells")
    release = anonymize(table, qi=["a", "b"], k=2, method="cells", marker="(hidden)")
    assert release.table.sample(4).column("a").to_pylist()[:2] == ["(hidden)", "(hidden)"]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"k": 7}, "larger than|cannot be reached"),
        ({"k": 2, "protected": ["age", "zip"]}, "all quasi-identifiers are protected"),
        ({"k": 2, "protected": ["ill"]}, "is not a quasi-identifier"),
        ({"k": 2, "algorithm": "best"}, "no algorithm"),
        ({"k": 2, "improve": "much"}, "no improve"),
        ({"k": 2, "bound": "tight"}, "no bound"),
        ({"k": 2, "algorithm": "cf", "beta": 0.5}, "beta is below 1"),
        ({"k": 2, "weights": {"age": -1}}, "price of a star|weight"),
        ({"k": 4, "protected": ["zip"]}, "no row can be kept"),
    ],
)
def test_bad_input(asked: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        anonymize(PEOPLE, qi=["age", "zip"], method="cells", **asked)


def test_no_time_is_refused() -> None:
    with pytest.raises(BudgetError, match="time"):
        anonymize(PEOPLE, qi=["age", "zip"], k=2, method="cells", budget=Budget(seconds=0))


def test_other_algorithms_refuse_rules_beyond_k() -> None:
    with pytest.raises(ParameterError, match="supports k-anonymity only"):
        anonymize(
            PEOPLE, qi=["age", "zip"], k=2, l=2, sensitive=["ill"], method="cells", algorithm="cf"
        )


def test_naive_and_ds_are_guarded_by_size() -> None:
    table = random_table(2_100, 7)
    for algorithm in ("naive", "ds"):
        with pytest.raises(ParameterError, match=r"sets of rows|at most 2,000 rows"):
            anonymize(table, qi=["a", "b", "c"], k=3, method="cells", algorithm=algorithm)


def test_classes_are_those_of_readers_who_see_which_nulls_are_stars(tmp_path: Path) -> None:
    ages = [54, 54, 54, None, None, None, None, 31, 40, 62]
    people = pa.table({"age": ages, "sex": ["F"] * 10})
    out = tmp_path / "out.parquet"
    asked = {"k": 3, "qi": ["age", "sex"], "method": "cells"}
    release = sf.anonymize(people, output=str(out), **asked)
    rows = pq.read_table(out)
    by = ("age", "sex", "age__suppressed")
    seen = Counter(zip(*(rows[name].to_pylist() for name in by), strict=True))
    assert (release.k, release.classes) == (min(seen.values()), len(seen)) == (3, 3)
    assert release.qi == (by,)
    assert sf.measure(str(out)).k == 3
    checked = sf.verify(str(out))
    assert checked.holds
    assert any("age__suppressed: k = 3 measured" in one.say for one in checked.findings)
    kept = Recoding.of(release)
    assert kept.columns == ("age", "sex")
    again = sf.anonymize(people, k=3, qi=["age", "sex"], recoding=kept)
    assert again.rows == 10
    told = compare(str(out), people)
    assert told.certainty_penalty == release.utility["ncp"]
