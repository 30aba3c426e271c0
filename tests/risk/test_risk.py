"""Re-identification risk, against its definition person by person."""

from __future__ import annotations

from collections import Counter, defaultdict

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import ColumnError, ParameterError
from sfumato.privacy.check import risk_of_classes
from sfumato.risks import risk

rows_of_people = st.lists(
    st.tuples(
        st.integers(0, 2), st.sampled_from(["F", "M", None]), st.sampled_from([1.0, 2.5, 40])
    ),
    min_size=1,
    max_size=20,
)


@given(rows_of_people, st.sampled_from([0.05, 0.2, 0.5, 1.0]))
@settings(max_examples=40)
def test_by_definition(rows: list[tuple[int, str | None, float]], threshold: float) -> None:
    table = sf.table(
        pa.table(
            {
                "age": [age for age, _, _ in rows],
                "sex": pa.array([sex for _, sex, _ in rows], type=pa.string()),
                "weight": [float(weight) for _, _, weight in rows],
            }
        )
    )
    sizes = Counter((age, sex) for age, sex, _ in rows)
    outside: dict[tuple[int, str | None], float] = defaultdict(float)
    for age, sex, weight in rows:
        outside[age, sex] += weight
    n = len(rows)
    plain = risk(table, ["age", "sex"], threshold=threshold)
    weighted = risk(table, ["age", "sex"], threshold=threshold, sampling_weight="weight")
    for found in (plain, weighted):
        assert found.prosecutor == pytest.approx(1 / min(sizes.values()))
        exposed = sum(size for size in sizes.values() if 1 / size > threshold + 1e-9)
        assert found.share_above == pytest.approx(exposed / n)
        assert (found.rows, found.classes, found.persons) == (n, len(sizes), None)
    assert plain.journalist == plain.prosecutor
    assert plain.marketer == pytest.approx(len(sizes) / n)
    assert weighted.journalist == pytest.approx(1 / min(outside.values()))
    assert weighted.marketer == pytest.approx(sum(sizes[c] / outside[c] for c in sizes) / n)
    exposed = sum(sizes[c] for c in sizes if 1 / outside[c] > threshold + 1e-9)
    assert weighted.journalist_share_above == pytest.approx(exposed / n)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=20))
@settings(max_examples=40)
def test_several_rows_a_person(rows: list[tuple[int, int]]) -> None:
    table = sf.table(pa.table({"age": [a for a, _ in rows], "who": [w for _, w in rows]}))
    found = risk(table, ["age"], person="who", threshold=0.4)
    people_at = defaultdict(set)
    for age, who in rows:
        people_at[age].add(who)
    worst = {who: max(1 / len(people_at[age]) for age, w in rows if w == who) for _, who in rows}
    assert found.persons == len(worst)
    assert found.rows == len(rows)
    assert found.prosecutor == pytest.approx(max(worst.values()))
    assert found.marketer == pytest.approx(sum(worst.values()) / len(worst))
    assert found.share_above == pytest.approx(
        sum(r > 0.4 + 1e-9 for r in worst.values()) / len(worst)
    )


def test_a_population_table() -> None:
    table = sf.table(pa.table({"age": [20, 30, 30], "sex": ["F", "M", "M"]}))
    population = sf.table(
        pa.table({"sex": ["F"] * 4 + ["M"] * 8 + ["F"], "age": [20] * 4 + [30] * 8 + [99]})
    )
    found = risk(table, ["age", "sex"], population=population)
    assert found.prosecutor == 1.0
    assert found.journalist == 0.25
    assert found.marketer == pytest.approx((1 / 4 + 2 / 8) / 3)
    assert found.basis.startswith("population")
    # somebody who is in the table but not in the population still counts
    assert risk(table, ["age", "sex"], population=table).journalist == 1.0


def test_persons_of_a_population_count_once() -> None:
    """Fifty rows of one patient are one person; a population that names nobody is one of rows."""
    table = pa.table({"who": ["a", "b", "b"], "x": ["u", "v", "v"]})
    people = pa.table({"who": ["a"] * 50 + ["b", "c"] * 25, "x": ["u"] * 50 + ["v"] * 50})
    found = risk(table, ["x"], person="who", population=people)
    assert (found.journalist, found.marketer) == (1.0, 0.75)
    unnamed = risk(table, ["x"], person="who", population=people.drop_columns("who"))
    assert unnamed.journalist == 0.02


def test_weights_may_be_numbers_that_floats_round() -> None:
    table = pa.table({"age": [1, 1, 2], "weight": [2**62 + 1, 1, 2**62 + 1]})
    assert sf.risk(table, ["age"], sampling_weight="weight").journalist == pytest.approx(2**-62)


def test_a_person_has_one_weight() -> None:
    table = pa.table({"who": ["a", "a", "b"], "x": ["u", "v", "v"], "w": [10.0, 10.0, 30.0]})
    found = risk(table, ["x"], person="who", sampling_weight="w")
    assert (found.persons, found.journalist, found.marketer) == (2, 0.1, (1 / 10 + 1 / 40) / 2)
    several = table.set_column(2, "w", pa.array([10.0, 20.0, 30.0]))
    with pytest.raises(ColumnError, match=r"`w`: 1 person has rows of different weight"):
        risk(several, ["x"], person="who", sampling_weight="w")


def test_before_and_after() -> None:
    before = sf.table(pa.table({"age": [20, 21, 30, 31]}))
    after = sf.table(pa.table({"age": ["[20, 22)"] * 2 + ["[30, 32)"] * 2}))
    found = risk(before, ["age"], released=after)
    assert found.after is not None
    assert (found.prosecutor, found.after.prosecutor) == (1.0, 0.5)
    assert found.to_dict()["after"]["marketer"] == 0.5


def test_the_empty_table() -> None:
    found = risk(sf.table(pa.table({"age": pa.array([], type=pa.int64())})), ["age"])
    assert (found.rows, found.prosecutor, found.share_above) == (0, None, 0.0)


def test_a_class_of_five_is_not_above_a_fifth() -> None:
    assert risk_of_classes([5, 5]).share_above == 0.0
    assert risk_of_classes([4, 5]).share_above == pytest.approx(4 / 9)
    assert risk_of_classes([4], in_population=[2]).journalist == 0.25
    assert risk_of_classes([49], threshold=1 / 49).share_above == 0.0


def test_bad_input() -> None:
    table = sf.table(pa.table({"age": [1, 2], "w": [1.0, 0.0], "t": ["a", "b"]}))
    with pytest.raises(ParameterError, match="threshold"):
        risk(table, ["age"], threshold=0)
    with pytest.raises(ColumnError, match="larger than zero"):
        risk(table, ["age"], sampling_weight="w")
    with pytest.raises(ColumnError, match="must be numbers"):
        risk(table, ["age"], sampling_weight="t")
    with pytest.raises(ColumnError, match="at the same time"):
        risk(table, ["age", "w"], sampling_weight="w")
    with pytest.raises(ColumnError, match="no column `aeg`"):
        risk(table, ["aeg"])
    with pytest.raises(ParameterError, match="do not compare"):
        risk(table, ["age"], population=table, released=table)
    with pytest.raises(ParameterError, match="either"):
        risk(table, ["age"], sampling_weight="w", population=table)
