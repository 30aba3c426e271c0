"""Figures about persons, against their definitions on small random tables."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import ColumnError, ParameterError

NAMES = ("a", "b", "c")


def table_of(seed: int, rows: int = 14, persons: int = 5) -> pa.Table:
    random = np.random.default_rng(seed)
    cells: dict[str, Any] = {name: random.integers(0, 3, rows) for name in NAMES}
    who = random.integers(0, persons, rows)
    cells["c"] = (cells["c"] + who) % 4  # something that hangs on the person
    return pa.table({"who": [f"p{one}" for one in who], **cells})


def classes_of(table: pa.Table, columns: tuple[str, ...]) -> list[list[str]]:
    """The person of each row, class by class."""
    found = defaultdict(list)
    for row in table.to_pylist():
        found[tuple(row[name] for name in columns)].append(row["who"])
    return list(found.values())


def unseparated(table: pa.Table, columns: tuple[str, ...]) -> int:
    return sum(a != b for one in classes_of(table, columns) for a, b in combinations(one, 2))


def subsets() -> list[tuple[str, ...]]:
    return [s for size in range(len(NAMES) + 1) for s in combinations(NAMES, size)]


def minimal(sets: list[tuple[str, ...]]) -> set[tuple[str, ...]]:
    return {s for s in sets if not any(set(other) < set(s) for other in sets)}


@pytest.mark.parametrize("seed", range(6))
def test_measures_are_those_of_the_definition(seed: int) -> None:
    table = table_of(seed)
    persons = set(table["who"].to_pylist())
    total = unseparated(table, ())
    for columns in subsets()[1:]:
        classes = classes_of(table, columns)
        alone = {one[0] for one in classes if len(set(one)) == 1}
        found = sf.measure(table, list(columns), person="who")
        assert found.k == min(len(set(one)) for one in classes)
        assert found.unseparated_pairs == unseparated(table, columns)
        assert found.separation == pytest.approx(1 - unseparated(table, columns) / total)
        assert found.distinct == pytest.approx(len(classes) / sum(len(set(c)) for c in classes))
        assert (found.persons, found.unique_persons) == (len(persons), len(alone))
        assert found.unique == pytest.approx(len(alone) / len(persons))


@pytest.mark.parametrize("seed", range(12))
def test_keys_are_all_minimal_sets_that_tell_persons_apart(seed: int) -> None:
    table = table_of(seed, rows=9)
    best = unseparated(table, NAMES)
    good = minimal([s for s in subsets() if unseparated(table, s) == best])
    found = sf.minimal_keys(table, person="who")
    assert set(found.keys) == good
    assert found.complete
    smallest = sf.minimum_key(table, person="who", proven=True)
    assert smallest.size == min(map(len, good))
    assert smallest.proven_minimum
    assert smallest.is_key == (best == 0)
    assert tuple(sorted(sf.minimum_key(table, person="who").columns)) in good


@pytest.mark.parametrize("seed", range(6))
def test_steps_of_a_search_count_pairs_of_different_persons(seed: int) -> None:
    table = table_of(seed)
    steps = sf.minimum_key(table, person="who").steps
    taken = [str(step["column"]) for step in steps]
    assert [step["unseparated_pairs"] for step in steps] == [
        unseparated(table, taken[: at + 1]) for at in range(len(taken))
    ]


def test_a_mask_of_persons_rounds_beta_down() -> None:
    """Four persons, six pairs: 3.6 of them may be separated, and 4 are too many."""
    table = pa.table({"who": list("abcd"), "half": [0, 0, 1, 1], "same": [0] * 4})
    for beta, published in ((0.6, ("same",)), (0.67, ("half", "same"))):
        release = sf.mask(table, measure="separation", beta=beta, person="who")
        assert release.details["published"] == published


def test_a_mask_tells_of_persons_written_in_several_ways() -> None:
    ward = [0, 0, 0, 1]
    for who, said in ((["ann", "Ann", "bob", "eve"], 1), (["ann", "ann", "bob", "eve"], 0)):
        table = pa.table({"who": who, "ward": ward})
        release = sf.mask(table, measure="separation", beta=0.9, person="who")
        assert (
            sum("2 values of `who` differ from others only in" in w for w in release.warnings)
            == said
        )


@pytest.mark.parametrize("seed", range(6))
def test_a_ratio_is_about_pairs_of_different_persons(seed: int) -> None:
    table = table_of(seed)
    total = unseparated(table, ())
    good = minimal([s for s in subsets() if 1 - unseparated(table, s) / total >= 0.8])
    found = sf.minimal_keys(table, person="who", measure="separation", beta=0.8)
    assert set(found.keys) == good


@pytest.mark.parametrize("seed", range(8))
def test_violations_are_classes_of_few_persons(seed: int) -> None:
    table = table_of(seed, rows=30, persons=4)
    bad = [s for s in subsets() if min(len(set(c)) for c in classes_of(table, s)) < 2]
    found = sf.violations(table, k=2, person="who")
    assert set(found.minimal) == minimal(bad)
    assert found.smallest == min(len(set(c)) for c in classes_of(table, NAMES))
    identifying = tuple(found.identifying)
    assert unseparated(table, identifying) == unseparated(table, NAMES)


@pytest.mark.parametrize("seed", range(6))
def test_unique_persons_are_those_whose_rows_nobody_shares(seed: int) -> None:
    table = table_of(seed)
    exposed: set[str] = set()
    for columns in subsets()[1:]:
        exposed |= {one[0] for one in classes_of(table, columns) if len(set(one)) == 1}
    found = sf.uniques(table, person="who")
    assert (found.exposed_persons, found.persons) == (
        len(exposed),
        len(set(table["who"].to_pylist())),
    )


@pytest.mark.parametrize("seed", range(4))
def test_masked_columns_separate_few_pairs_of_persons(seed: int, tmp_path: Path) -> None:
    table = table_of(seed, rows=40)
    total = unseparated(table, ())
    output = tmp_path / "masked.csv"
    try:
        release = sf.mask(table, measure="separation", beta=0.75, person="who", output=str(output))
    except ParameterError:
        assert all(1 - unseparated(table, (name,)) / total > 0.75 for name in NAMES)
        return
    published = release.details["published"]
    assert "who" not in published
    assert 1 - unseparated(table, published) / total <= 0.75
    found = sf.verify(output)  # whoever has the release alone cannot count persons
    assert [one.check for one in found.findings if not one.holds] == ["ratio-at-most"]
    assert any("not checked: pairs of different persons" in one.say for one in found.findings)


def test_one_row_a_person_gives_what_rows_give() -> None:
    table = table_of(0).set_column(0, "who", pa.array([str(at) for at in range(14)]))
    plain = table.drop_columns(["who"])
    mine, theirs = sf.measure(table, NAMES, person="who"), sf.measure(plain, NAMES)
    for name in ("k", "classes", "unseparated_pairs", "separation", "distinct", "unique"):
        assert getattr(mine, name) == getattr(theirs, name)
    assert set(sf.minimal_keys(table, person="who").keys) == set(
        sf.minimal_keys(plain, expand=True).keys
    )
    assert sf.violations(table, k=3, person="who").minimal == sf.violations(plain, k=3).minimal


def test_what_only_rows_can_answer_is_refused() -> None:
    table = table_of(0)
    for asked in ({"measure": "distinct", "beta": 0.5}, {"eps": 0.1}):
        with pytest.raises(ParameterError):
            sf.minimum_key(table, person="who", **asked)  # type: ignore[arg-type]
    with pytest.raises(ParameterError):
        sf.mask(table, beta=0.5, person="who")
    with pytest.raises(ColumnError, match="names persons"):
        sf.measure(table, ["a", "who"], person="who")


@pytest.mark.parametrize(
    ("names", "whose"),
    [
        (("patient", "encounter_id"), "patient"),  # every visit is one patient's, and several are
        (("patient_id", "drug"), "patient_id"),  # nothing else has one value per person
        (("customer", "drug"), "customer"),
        (("household_id", "drug"), None),  # of which each row is a person's
        (("encounter_id", "drug"), None),
    ],
)
def test_who_is_proposed_to_be_counted(names: tuple[str, str], whose: str | None) -> None:
    random = np.random.default_rng(8)
    visits = np.arange(400) * 2 // 3  # half of the visits have two rows
    cells = {
        "patient": visits // 3,
        "encounter_id": 50_000 + visits,
        "drug": random.integers(0, 9, 400),
    }
    first, second = names
    who = cells["encounter_id" if first == "encounter_id" else "patient"]
    table = pa.table(
        {
            first: [f"P{number:05d}" for number in who],
            second: [f"E{number}" for number in cells[second]],
            "ward": random.choice(["a", "b"], 400),
        }
    )
    found = sf.scan(table).person
    assert (None if found is None else found.column) == whose
