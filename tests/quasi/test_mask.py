"""Masking: the papers' examples, brute force, guarantees, and what is published."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from brute import as_table, classes, column_sets, small_tables, together
from cli_tools import sfumato
from samples import sample_path
from sfumato.budget import Budget
from sfumato.errors import BudgetError, ColumnError, InputError, ParameterError
from sfumato.quasi.mask import Demand, plan_mask
from sfumato.quasi.sampling import prune_below

PEOPLE = pa.table(
    {
        "age": [20, 30, 40, 20, 40],
        "sex": ["F", "F", "F", "M", "M"],
        "state": ["CA", "CA", "TX", "NY", "CA"],
    }
)


def published(source, measure, beta, **options):
    parameters = {
        name: options.pop(name) for name in ("sample", "proven", "seed") if name in options
    }
    plan = plan_mask(source, Demand(measure, beta, explain=False, **parameters), **options)
    return plan.details


def test_the_example_of_motwani_and_xu():
    assert published(PEOPLE, "distinct", 0.8)["published"] == ("sex", "state")
    assert len(published(PEOPLE, "separation", 0.8)["published"]) == 1


@given(
    small_tables(min_rows=2),
    st.sampled_from(["distinct", "separation"]),
    st.integers(1, 9),
    st.integers(0, 5),
)
@settings(max_examples=150)
def test_the_proven_optimum_equals_brute_force(drawn, measure, tenths, seed):
    rows, width = drawn
    weights = [1 + (seed * (c + 2)) % 3 for c in range(width)]
    pairs = len(rows) * (len(rows) - 1) // 2

    def allowed(columns):
        if measure == "distinct":
            return 10 * classes(rows, columns) <= tenths * len(rows)
        return 10 * (pairs - together(rows, columns)) <= tenths * pairs

    best = max((sum(weights[c] for c in s) for s in column_sets(width) if allowed(s)), default=0)
    named = dict(zip("abcde", weights, strict=False))
    table = as_table(rows, width)
    if not any(allowed((c,)) for c in range(width)):
        with pytest.raises(ParameterError, match="not even one column"):
            published(table, measure, tenths / 10, weights=named)
        return
    for proven in (False, True):
        found = published(table, measure, tenths / 10, weights=named, proven=proven)
        assert allowed([ord(name) - ord("a") for name in found["published"]])
        assert found["weight"] <= best
    assert found["weight"] == best == found["upper_bound"]
    assert found["proven_optimum"]


def test_pins_are_kept():
    found = published(PEOPLE, "distinct", 0.8, must_publish=["age"], must_drop=["sex"])
    assert found["published"] == ("age",)
    with pytest.raises(ParameterError, match="must be published and must be left out"):
        published(PEOPLE, "distinct", 0.8, must_publish=["age"], must_drop=["age"])
    with pytest.raises(ParameterError, match="already exceed β together: `age`, `sex`"):
        published(PEOPLE, "distinct", 0.7, must_publish=["age", "sex"])
    with pytest.raises(ParameterError, match="already exceed β together"):
        published(PEOPLE, "distinct", 0.7, must_publish=["sex", "state"])  # by one class


def test_columns_left_out_come_with_a_reason():
    release = sf.mask(PEOPLE, measure="distinct", beta=0.8, must_drop=["sex"])
    assert release.details["why"]["sex"] == "left out on request"
    release = sf.mask(PEOPLE, measure="distinct", beta=0.8)
    assert release.details["why"]["age"] in (("age", "sex"), ("age", "state"))


def test_the_release_holds_exactly_the_published_columns():
    release = sf.mask(PEOPLE, measure="distinct", beta=0.8)
    assert release.table.columns == ("sex", "state")
    assert release.rows == 5
    assert release.column_actions == {"age": "dropped", "sex": "kept", "state": "kept"}
    assert release.verified


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"beta": 0}, "β"),
        ({"beta": 1}, "β"),
        ({"beta": 0.5, "measure": "key"}, "no measure"),
        ({"beta": 0.5, "sample": 3}, "Draw at least"),
        ({"beta": 0.5, "sample": 3, "proven": True}, "proven on a sample"),
        ({"beta": 0.1}, "not even one column"),
        ({"beta": 0.1, "proven": True}, "not even one column"),
        ({"beta": 0.1, "must_publish": ["sex"]}, "not even one column"),
        ({"beta": 0.5, "proven": True, "weights": {"age": 1 / 3}}, "too many digits, for a proof"),
    ],
)
def test_bad_parameters_are_refused(arguments, words):
    with pytest.raises(ParameterError, match=words):
        sf.mask(PEOPLE, **arguments)


def adult() -> pa.Table:
    table = pq.read_table(sample_path("adult.parquet")).drop(["fnlwgt"])
    return table.group_by(table.column_names).aggregate([])


@pytest.mark.parametrize(
    ("measure", "beta", "kept"), [("distinct", 0.5, 12), ("separation", 0.8, 5)]
)
def test_adult_keeps_as_many_columns_as_in_the_paper(measure, beta, kept):
    table = sf.table(adult())
    assert len(published(table, measure, beta)["published"]) == kept
    proven = published(table, measure, beta, proven=True)
    assert (len(proven["published"]), proven["proven_optimum"]) == (kept, True)


def test_covtype_keeps_as_many_columns_as_in_the_paper():
    table = sf.table(sample_path("covtype.parquet"))
    table = table.select(table.columns[:54])
    assert len(published(table, "separation", 0.8)["published"]) == 38
    sampled = published(table, "separation", 0.8, sample=100_000)
    assert len(sampled["published"]) >= 37
    assert sampled["measures"].separation <= 0.8


def just_beyond(measure: str, rows: int = 4000) -> tuple[pa.Table, float]:
    """A column that may be published, one that may not, and a β just below the ratio of that one.

    Half of the rows are alike and all others alone: there a sample has the ratio of the table, and
    a sampled ratio falls below β every second time.
    """
    values = np.concatenate([np.zeros(rows // 2, int), np.arange(1, rows // 2 + 1)])
    table = pa.table({"same": np.zeros(rows, int), "telling": values})
    return table, getattr(sf.measure(table, ["telling"]), measure) - 1e-4


@pytest.mark.parametrize("measure", ["distinct", "separation"])
def test_a_ratio_just_beyond_beta_is_not_published_by_any_sample(measure):
    table, beta = just_beyond(measure)
    opened = sf.table(table)
    for seed in range(20):
        found = published(opened, measure, beta, sample=1500, seed=seed)
        assert found["published"] == ("same",)


def test_the_limit_of_a_sample_is_that_of_the_theorem():
    # (1 - sqrt(2 ln(2^14 / 0.01) / (0.8 · 30,000))) · 0.8, section 4 of Motwani & Xu
    assert prune_below(0.8, 30_000, 14, 0.01) == pytest.approx(0.772_375, abs=1e-6)
    assert prune_below(0.8, 30, 14, 0.01) < 0


@pytest.mark.slow
@pytest.mark.parametrize(("measure", "beta"), [("distinct", 0.6), ("separation", 0.95)])
def test_a_sampled_mask_breaks_beta_in_at_most_delta_of_a_thousand_seeds(measure, beta, capsys):
    random = np.random.default_rng(0)
    rows = 20_000
    table = sf.table(pa.table({f"c{i}": random.zipf(1.3, rows) % (4 * i + 3) for i in range(10)}))
    table.codes()
    broken = 0
    for seed in range(1000):
        found = published(table, measure, beta, sample=2000, seed=seed)
        broken += getattr(found["measures"], measure) > beta
    with capsys.disabled():
        sys.stdout.write(f"\nmask, {measure}: {broken} of 1,000 break β = {beta}, 10 allowed\n")
    assert broken <= 10


def test_columns_that_name_persons_are_not_published() -> None:
    random = np.random.default_rng(3)
    who = random.permutation(np.r_[np.arange(60), random.integers(0, 60, 180)])
    mother = random.integers(0, 60, 60)[who]
    visits = pa.table({"pid": [f"P{one:05d}" for one in who], "mother": [f"p{m}" for m in mother]})
    visits = visits.append_column("ward", pa.array(random.choice(list("ABC"), 240)))
    asked: dict[str, Any] = {"measure": "separation", "beta": 0.999999}
    with pytest.raises(ColumnError, match="`pid` would be published, and it seems to name persons"):
        sf.mask(visits, **asked)
    with pytest.raises(ColumnError, match=r"`mother`.*persons of `pid`.*must_drop"):
        sf.mask(visits, person="pid", must_publish=["mother"], **asked)
    assert sf.mask(visits, person="pid", must_drop=["mother"], **asked).verified
    told = sf.mask(visits, person="pid", rows_are_people=True, **asked).warnings
    assert told == ("published though they seem to name persons: `mother`",)


def test_a_mask_says_whether_rows_or_persons_are_alone(tmp_path: Path) -> None:
    where = tmp_path / "stays.csv"
    rows = [f"P{row // 4:02},{'xy'[row == 0]}" for row in range(40)]
    where.write_text("\n".join(["pid,ward", *rows]))
    asked = ["mask", where, "--measure", "separation", "--beta", 0.9]
    assert "10.00% of persons alone" in sfumato(*asked, "--person", "pid").out
    assert "2.50% of rows alone" in sfumato(*asked, "--drop", "pid").out
    where.write_text("\n".join(["ward", *["x"] * 20_000, "y"]))
    assert "<0.01% of rows alone" in sfumato(*asked).out


@pytest.mark.parametrize("unit", [1.0, 1e-7, 1e-10, 1e9])
def test_a_proof_of_the_heaviest_set_holds_in_any_unit(unit):
    columns = {"a": "00120112", "b": "12000021", "c": "01110111", "d": "01131133"}
    people = pa.table({name: list(cells) for name, cells in columns.items()})
    weights = {name: unit * weight for name, weight in zip("abcd", (1, 4, 2, 4), strict=True)}
    assert published(people, "distinct", 0.5, weights=weights)["published"] == ("b",)
    found = published(people, "distinct", 0.5, weights=weights, proven=True)
    assert (found["published"], found["proven_optimum"]) == (("c", "d"), True)
    assert found["upper_bound"] == pytest.approx(6 * unit)


def test_a_table_without_pairs_is_not_masked_by_separation() -> None:
    one = pa.table({"a": [1], "b": ["x"]})
    for source in (one, iter(one.to_batches())):
        asked = {} if source is one else {"sample": 200}
        with pytest.raises(ParameterError, match="a table of 1 row has no pairs of rows"):
            sf.mask(source, measure="separation", beta=0.5, **asked)
    twice = pa.table({"who": ["p", "p"], "b": ["x", "y"]})
    with pytest.raises(ParameterError, match="a table of 1 person has no pairs of persons"):
        sf.mask(twice, measure="separation", beta=0.5, person="who")
    with pytest.raises(InputError, match="no rows to publish"):
        sf.mask(iter([one.to_batches()[0].slice(1)]), beta=0.5, sample=200)


def test_a_sample_says_only_what_it_knows(tmp_path: Path) -> None:
    where = tmp_path / "halves.csv"
    where.write_text("a,b\n" + "".join(f"x,{row % 2}\n" for row in range(500)))
    asked = ["mask", where, "--beta", 0.5]
    assert "by a sample of 24 no column is sure to keep β" in sfumato(*asked, "--sample", 24).err
    told = sfumato(*asked, "--sample", 30).out
    assert "b  may identify by itself" in told
    assert "--proven finds out on all rows" in told


def test_what_was_not_found_in_time_is_not_called_impossible() -> None:
    opened = sf.table(PEOPLE)
    opened.codes()  # read before, so that the search is what stops
    budget = Budget()
    budget.cancel()
    with pytest.raises(BudgetError, match="before a column was found to publish"):
        sf.mask(opened, beta=0.8, budget=budget)
