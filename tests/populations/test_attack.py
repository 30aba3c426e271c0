"""The join attack, against comparing every released row with every person."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli_tools import sfumato
from recomputed import light_of
from sfumato.anonymization.verb import anonymize
from sfumato.engines.protocol import Codes, smallest_dtype
from sfumato.errors import ColumnError, ParameterError
from sfumato.hierarchy import Hierarchy
from sfumato.populations.attack import attack, join_attack
from sfumato.populations.promises import MatchesPopulation
from sfumato.release.label_matching import read_cells
from sfumato.report.registry import page_of
from sfumato.tables import table


def codes(**columns: Sequence[Any]) -> Codes:
    """Rows as codes; values ascending, null last."""
    arrays, values = [], []
    for column in columns.values():
        distinct = sorted({v for v in column if v is not None})
        distinct += [None] if None in column else []
        at = {value: i for i, value in enumerate(distinct)}
        arrays.append(np.array([at[v] for v in column]).astype(smallest_dtype(len(distinct))))
        values.append(pa.array(distinct))
    rows = len(next(iter(columns.values())))
    return Codes(tuple(columns), tuple(arrays), tuple(values), None, rows)


LABELS = {
    "[20, 30)": lambda v: v is not None and 20 <= v < 30,
    "[20, 29]": lambda v: v is not None and 20 <= v <= 29,
    "(20, 29]": lambda v: v is not None and 20 < v <= 29,
    "30-39": lambda v: v is not None and 30 <= v <= 39,
    "<25": lambda v: v is not None and v < 25,
    ">=90": lambda v: v is not None and v >= 90,
    "90+": lambda v: v is not None and v >= 90,
    "≤ 30": lambda v: v is not None and v <= 30,
    "{21, 35, null}": lambda v: v in (21, 35, None),
    "25": lambda v: v == 25,
    "*": lambda v: True,
    None: lambda v: True,
}


@pytest.mark.parametrize("label", LABELS)
def test_cells_of_numbers(label: str | None) -> None:
    values = [*range(15, 100, 1), None]
    reading = read_cells("age", pa.array([label], pa.string()), pa.array(values))
    covered = reading.covers(np.zeros(len(values), int), np.arange(len(values)))
    assert covered.tolist() == [bool(LABELS[label](value)) for value in values]


def test_cells_of_dates() -> None:
    days = [dt.date(1979, 12, 31), dt.date(1980, 3, 1), dt.date(1987, 3, 5), dt.date(1987, 9, 1)]
    labels = ["1987", "1987-03", "1987-Q1", "1980s", "[1980-01-01, 1987-03-05)", "1987-03-05"]
    reading = read_cells("born", pa.array(labels), pa.array(days))
    table = [
        [bool(reading.covers(np.array([c]), np.array([v]))[0]) for v in range(4)] for c in range(6)
    ]
    assert table == [
        [False, False, True, True],
        [False, False, True, False],
        [False, False, True, False],
        [False, True, True, True],
        [False, True, False, False],
        [False, False, True, False],
    ]


def test_masked_codes_and_quoted_sets() -> None:
    zips = pa.array(["02138", "02139", "02150", "10001"])
    reading = read_cells("zip", pa.array(["0213*", "021**", '{"02138", 10001}']), zips)
    covers = [reading.covers(np.full(4, cell), np.arange(4)).tolist() for cell in range(3)]
    assert covers == [
        [True, True, False, False],
        [True, True, True, False],
        [True, False, False, True],
    ]


def test_zip_codes_that_a_spreadsheet_made_numbers() -> None:
    reading = read_cells("zip", pa.array(["021", "000", "02139"]), pa.array([2138, 2139, 3601]))
    covers = [reading.covers(np.full(3, cell), np.arange(3)).tolist() for cell in range(3)]
    assert covers == [[True, True, False], [False, False, True], [False, True, False]]


def test_nodes_of_a_hierarchy_whose_leaves_are_not_neighbours() -> None:
    tree = Hierarchy.from_levels([["a", "b", "c", "d"], ["odd", "even", "odd", "even"], ["*"] * 4])
    reading = read_cells("x", pa.array(["odd", "even", "b"]), pa.array(["a", "b", "c", "d"]), tree)
    assert reading.starts is None  # the tree's order makes every node one run
    covers = [reading.covers(np.full(4, cell), np.arange(4)).tolist() for cell in range(3)]
    assert covers == [
        [True, False, True, False],
        [False, True, False, True],
        [False, True, False, False],
    ]


def test_a_column_of_which_nothing_can_be_read_is_refused() -> None:
    with pytest.raises(ColumnError, match="none of its 2 distinct cells") as error:
        read_cells("job", pa.array(["White-Collar", "Blue-Collar"]), pa.array(["clerk", "smith"]))
    assert "White" not in str(error.value)


AGES, JOBS = [*range(15, 45), 90, None], ["clerk", "cook", "judge", "smith"]
SHOWN_AGES = list(LABELS)
SHOWN_JOBS = {
    "clerk": {"clerk"}, "judge": {"judge"}, "{clerk, judge}": {"clerk", "judge"},
    "*": set(JOBS), "{cook, judge, smith}": {"cook", "judge", "smith"},
}  # fmt: skip


shown_rows = st.tuples(st.sampled_from(SHOWN_AGES), st.sampled_from(list(SHOWN_JOBS)))
people_rows = st.tuples(st.sampled_from(AGES), st.sampled_from(JOBS), st.integers(0, 6))


@settings(max_examples=60)
@given(
    st.lists(shown_rows, min_size=1, max_size=15),
    st.lists(people_rows, min_size=1, max_size=80),
    st.integers(1, 6),
)
def test_equals_comparing_everybody(
    released: list[tuple[str | None, str]], people: list[tuple[int | None, str, int]], k: int
) -> None:
    people = [*people, *[(15, job, 9) for job in JOBS], (None, "cook", 9), (25, "cook", 9)]
    release = codes(age=[row[0] for row in released], job=[row[1] for row in released])
    outside = codes(
        age=[p[0] for p in people], job=[p[1] for p in people], who=[p[2] for p in people]
    )
    fits = [
        {i for i, p in enumerate(people) if LABELS[age](p[0]) and p[1] in SHOWN_JOBS[job]}
        for age, job in released
    ]
    for person in (None, "who"):
        counts = [len({people[i][2] for i in found} if person else found) for found in fits]
        result = join_attack(release, outside, ["age", "job"], k=k, person=person)
        assert result.released == len(released)
        assert result.matches_none == sum(c == 0 for c in counts)
        assert result.matches_one == sum(c == 1 for c in counts) * (max(k, 2) > 1)
        assert result.matches_k == sum(c >= k and c != 1 for c in counts) or k == 1
        assert result.k_map == (min(counts) >= k)
        assert result.expected_right == pytest.approx(sum(1 / c for c in counts if c))


def test_many_people_and_boxes_equal_brute_force() -> None:
    random = np.random.default_rng(3)
    people = random.integers(0, 50, size=(3_000, 3))
    low = random.integers(0, 45, size=(300, 3))
    high = low + random.integers(0, 25, size=(300, 3))
    outside = codes(**{c: people[:, i].tolist() for i, c in enumerate("abc")})
    shown = [[f"[{a}, {b}]" for a, b in zip(low[:, i], high[:, i], strict=True)] for i in range(3)]
    release = codes(a=shown[0], b=shown[1], c=shown[2])
    inside = (people[None] >= low[:, None]) & (people[None] <= high[:, None])
    counts = inside.all(axis=2).sum(axis=1)
    found = join_attack(release, outside, ["a", "b", "c"], k=20)
    assert found.matches_none == (counts == 0).sum()
    assert found.matches_one == (counts == 1).sum()
    assert found.matches_few == ((counts > 1) & (counts < 20)).sum()
    assert found.matches_k == (counts >= 20).sum()
    assert found.smallest == counts[counts > 0].min()


def test_true_identities_tell_how_many_guesses_are_right() -> None:
    people = codes(age=[21, 25, 40, 60], name=["Ann", "Bob", "Cid", "Dee"])
    release = codes(age=["[20, 30)", "[40, 50)", "[40, 50)"], name=["Bob", "Cid", "Dee"])
    found = join_attack(release, people, ["age"], k=2, identity="name")
    assert found.matches_few + found.matches_k == 1
    assert found.matches_one == 2
    assert found.certain_right == 1  # Cid; the row said to be Dee's matches only Cid
    assert found.contains_truth == 2
    assert found.guessed_right == pytest.approx(0.5 + 1)


def test_identities_nobody_knows_are_never_right() -> None:
    people = codes(age=[21], name=["Ann"])
    found = join_attack(codes(age=["*"], name=["Zoe"]), people, ["age"], identity="name")
    assert (found.certain_right, found.contains_truth, found.guessed_right) == (0, 0, 0)


def test_weights_are_people() -> None:
    people = codes(age=[21, 25, 40], w=[10.0, 2.5, 100.0])
    found = join_attack(codes(age=["[20, 30)"]), people, ["age"], k=12, weight="w")
    assert found.people == 112.5
    assert found.smallest == 12.5
    assert found.k_map


@pytest.mark.parametrize("bad", [0.0, -1.0, None, float("inf")])
def test_weights_that_are_none_are_refused(bad: float | None) -> None:
    with pytest.raises(ColumnError, match="larger than zero"):
        join_attack(codes(age=["*"]), codes(age=[1, 2], w=[1.0, bad]), ["age"], weight="w")


def test_persons_of_the_release_are_as_exposed_as_their_worst_row() -> None:
    people = codes(age=[21, 25, 40])
    release = codes(age=["*", "40", "*"], who=["x", "x", "y"])
    found = join_attack(release, people, ["age"], k=3, person="who")
    assert found.released == 2
    assert (found.matches_one, found.matches_k) == (1, 1)


def test_bad_demands() -> None:
    people = codes(age=[21])
    with pytest.raises(ParameterError, match="at least one column"):
        join_attack(people, people, [])
    with pytest.raises(ParameterError, match="k must be"):
        join_attack(people, people, ["age"], k=0)
    with pytest.raises(ColumnError, match="`name` in the release"):
        join_attack(people, people, ["age"], identity="name")


@pytest.mark.parametrize(
    "cells", [["[1, 3)", "[3, 5)"], ["{a, b}", "c"], ["*", "x"], ["02**", "1"]]
)
def test_labels_are_not_counted_as_persons(cells):
    import sfumato as sf

    release = pa.table({"age": ["[20, 30)"] * 2, "id": cells})
    people = pa.table({"age": [21, 22]})
    with pytest.raises(ColumnError, match="persons cannot be counted by them"):
        sf.attack(release, people, on=["age"], person="id")
    named = release.set_column(1, "id", pa.array(["p1", "p2"]))
    assert sf.attack(named, people, on=["age"], person="id").released == 2


def test_k_map_of_rows_that_match_nobody_is_none() -> None:
    people = table(pa.table({"age": [20, 20, 30]}))
    promise = MatchesPopulation(2, (("age",),), "people", people=people)
    for shown, holds, fewest in (
        (["20", "[20, 40)"], True, 2),
        (["20", "30"], False, 1),
        (["20", "50"], False, 0),
    ):
        found = promise.check(table(pa.table({"age": shown})))
        assert (found.holds, found.measured["checks"][0].measured["k"]) == (holds, fewest)


def test_k_map_needs_the_trees_that_a_certificate_names() -> None:
    people, shown = table(pa.table({"age": [20, 20]})), table(pa.table({"age": ["20"]}))
    promise = MatchesPopulation(2, (("age",),), "people", people=people)
    assert promise.check(shown).holds
    for unknown in (
        MatchesPopulation(2, (("age",),), "people", people=people, trees=("age",)),
        MatchesPopulation(2, (("age",),), "people"),
    ):
        found = unknown.check(shown)
        assert not found.holds
        assert "was not checked" in found.say


def test_a_class_that_matches_one_too_few_is_exposed() -> None:
    release, people = codes(age=["20", "30"]), codes(age=[20, 20, 30])
    for k, exposed in ((1, 0), (2, 1), (3, 2)):
        assert join_attack(release, people, ["age"], k=k).exposed_classes == exposed


def test_what_is_counted_is_called_by_its_name(tmp_path: Path) -> None:
    known = pa.table({"patient": [f"P{row // 3}" for row in range(12)], "sex": ["F", "M"] * 6})
    where = [tmp_path / "shown.csv", tmp_path / "known.csv"]
    csv.write_csv(known, where[1])
    asked = ["--on", "sex", "--person", "patient", "-k", "2", "--identity", "sex"]
    for names, said, who in (
        (["patient", "sex"], "4 released people, each by the row", "people"),
        (["sex"], "12 released rows joined with 4 people", "rows"),
    ):
        csv.write_csv(known.select(names), where[0])
        told = " ".join(sfumato("attack", *where, *asked).out.split())
        assert said in told
        assert f"0 {who} are found for certain" in told
        found = attack(known.select(names), known, on=["sex"], person="patient", k=2)
        assert found.released_as == who
        assert f"Every one of {found.released} released {who} " in page_of(found).verdict


@pytest.mark.parametrize(
    "asked",
    [{"numbers_as": "middle"}, {"numbers_as": {"age": "mean"}}, {"columns": {"age": {"round": 5}}}],
)
def test_numbers_that_stand_for_others_are_not_matched(asked: Any, tmp_path: Path) -> None:
    people = pa.table({"age": np.arange(200) % 60, "sex": np.arange(200) % 2})
    place = str(tmp_path / "release.csv")
    made = anonymize(people, k=5, qi=["age"], rows_are_people=True, output=place, **asked)
    for release in (place, made):
        with pytest.raises(ColumnError, match=r"column `age` (shows the m|was changed before)"):
            attack(release, people, on=["age", "sex"])
        assert attack(release, people, on=["sex"]).matches_k == 200
    told = light_of(page_of(made), "What it cost")
    assert ("took from `age`" in told[1]) == ("columns" in asked)
    assert made.changed_before == tuple(asked.get("columns", ()))


def test_a_column_of_which_only_bounds_are_there_is_refused(tmp_path: Path) -> None:
    people = pa.table({"age": np.arange(200) % 60, "sex": np.arange(200) % 2})
    place = str(tmp_path / "release.csv")
    anonymize(people, k=5, qi=["age"], rows_are_people=True, output=place, numbers_as="bounds")
    with pytest.raises(ColumnError, match="only its bounds, `age_from` and `age_to`"):
        attack(place, people, on=["age", "sex"])


@pytest.mark.parametrize("strange", [[], {"columns": []}, {"columns": {"age": 1}}, "k"])
def test_a_strange_certificate_ends_no_attack(strange: Any, tmp_path: Path) -> None:
    people = pa.table({"age": [1, 1, 2, 2]})
    csv.write_csv(people, tmp_path / "release.csv")
    told = json.dumps({"certificate": 2, "output": {}, "asked": strange, "column_actions": 1})
    (tmp_path / "release.csv.certificate.json").write_text(told)
    assert attack(str(tmp_path / "release.csv"), people, on=["age"], k=2).matches_k == 4


def test_sets_among_many_values_take_room_for_what_they_list() -> None:
    """A table of 2,000 sets and 60,000 values would have 120 million cells."""
    random = np.random.default_rng(3)
    values = pa.array([f"{number:05}" for number in range(60_000)])
    chosen = [np.sort(random.choice(60_000, 1 + at % 7, replace=False)) for at in range(2_000)]
    said = [values.take(pa.array(one)).to_pylist() for one in chosen]
    labels = pa.array(["{" + ", ".join(one) + "}" if one[1:] else one[0] for one in said])
    reading = read_cells("zip", labels, values)
    assert reading.listed.size <= sum(map(len, chosen))
    assert reading.size.tolist() == [len(one) for one in chosen]
    people = random.integers(0, 60_000, 50_000)
    cells = random.integers(0, 2_000, 50_000)
    expected = [people[at] in set(chosen[cell]) for at, cell in enumerate(cells)]
    assert reading.covers(cells, people).tolist() == expected
    released = Codes(("zip",), (np.arange(2_000, dtype=np.uint16),), (labels,))
    known = Codes(("zip",), (people.astype(np.uint32),), (values,))
    had = np.bincount(people, minlength=60_000)
    found = join_attack(released, known, ["zip"], k=3)
    assert found.matches_few == sum(had[one].sum() == 2 for one in chosen)
    assert found.matches_none == sum(had[one].sum() == 0 for one in chosen)
