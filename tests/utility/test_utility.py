"""Measures of utility, each against its definition row by row."""

from __future__ import annotations

import itertools
import math
import sys
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
from cli_tools import sfumato
from samples import sample_path
from sfumato.errors import (
    ColumnError,
    HierarchyError,
    InputError,
    MissingExtraError,
    ParameterError,
)
from sfumato.hierarchy import EncodedHierarchy, Published, Ranges, ValueSets, parse_arx
from sfumato.papers.xiong_rangachari import _by_region
from sfumato.papers.xiong_rangachari import regions as lefevre
from sfumato.utility import (
    Query,
    View,
    accuracy,
    answer_workload,
    average_class_size,
    certainty_penalty,
    column_losses,
    compare,
    cross_validated,
    discernibility,
    distribution_distances,
    general_loss,
    granularity,
    information_loss,
    majority_penalty,
    non_uniform_entropy,
    pair_tables,
    regions,
    similarity,
    summarize,
    weighted_discernibility,
)
from sfumato.utility.usefulness import statistics

PLACES = parse_arx("a;ab;*\nb;ab;*\nc;cd;*\nd;cd;*\nunseen;cd;*\n")
AGES = pa.array([20, 25, 40, 60])
COLOURS = pa.array(["red", "green", "blue"])

place = PLACES.bind(pa.array(["a", "b", "c", "d"]), "place")
age = Ranges(AGES, "age")
colour = ValueSets(COLOURS, "colour")


@st.composite
def views(draw: st.DrawFn) -> tuple[View, list[tuple[int, int, int, int]], list[int]]:
    """Random tables, groups and their lowest generalization; group -1 is suppressed."""
    rows = draw(
        st.lists(
            st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 2), st.integers(1, 3)),
            min_size=1,
            max_size=12,
        )
    )
    groups = draw(st.lists(st.integers(-1, 2), min_size=len(rows), max_size=len(rows)))
    codes = [np.array(part) for part in zip(*rows, strict=True)]
    g = np.array(groups)
    published = {
        "place": place.published(place.lca(codes[0], g, 3)).take(g),
        "age": age.published(*age.spans(codes[1], g, 3)).take(g),
        "colour": colour.published(*colour.collect(codes[2], g, 3)).take(g),
    }
    original = {"place": codes[0], "age": codes[1], "colour": codes[2]}
    return View(original, published, codes[3]), rows, groups


def covered(
    name: str, rows: list[tuple[int, int, int, int]], groups: list[int], i: int
) -> set[int]:
    """Codes that the cell of row i covers."""
    at = {"place": 0, "age": 1, "colour": 2}[name]
    held = {row[at] for row, group in zip(rows, groups, strict=True) if group == groups[i]}
    if name == "age":
        return set(range(min(held), max(held) + 1))
    if name == "place" and len(held) > 1:
        return next(block for block in ({0, 1}, {2, 3}, {0, 1, 2, 3}) if held <= block)
    return held


def cell_cost(name: str, cell: set[int]) -> tuple[float, float, float]:
    """Certainty penalty, height and loss over the whole hierarchy of a cell."""
    if name == "age":
        share = (AGES[max(cell)].as_py() - AGES[min(cell)].as_py()) / 40
        return share, share, share
    if name == "colour":
        share = (len(cell) - 1) / 2
        return share, share, share
    whole = {1: 0, 2: 1 if cell == {0, 1} else 2, 4: 4}[len(cell)] / 4
    return (len(cell) - 1) / 3, {1: 0.0, 2: 0.5, 4: 1.0}[len(cell)], whole


@given(views())
@settings(max_examples=60)
def test_losses_by_definition(drawn: tuple[View, list, list]) -> None:
    view, rows, groups = drawn
    totals = np.zeros(3)
    entropy = most = 0.0
    n = sum(row[3] for row in rows)
    for at, name in enumerate(("place", "age", "colour")):
        held = Counter()
        for row in rows:
            held[row[at]] += row[3]
        for i, row in enumerate(rows):
            own = held[row[at]]
            most += row[3] * math.log2(n / own)
            if groups[i] < 0:
                totals += row[3]
                entropy += row[3] * math.log2(n / own)
                continue
            cell = covered(name, rows, groups, i)
            totals += row[3] * np.array(cell_cost(name, cell))
            entropy += row[3] * math.log2(sum(held[c] for c in cell) / own)
    assert certainty_penalty(view) == pytest.approx(totals[0] / (3 * n))
    assert information_loss(view) == pytest.approx(totals[1])
    assert general_loss(view) == pytest.approx(totals[2] / (3 * n))
    assert granularity(view) == pytest.approx(1 - totals[2] / (3 * n))
    assert non_uniform_entropy(view) == pytest.approx(entropy / most if most else 0.0)
    assert sum(column_losses(view).values()) == pytest.approx(totals[0] / n)


@given(views())
@settings(max_examples=60)
def test_classes_by_definition(drawn: tuple[View, list, list]) -> None:
    view, rows, groups = drawn
    n = sum(row[3] for row in rows)
    names = ("place", "age", "colour")
    cells = [
        None if groups[i] < 0 else tuple(frozenset(covered(x, rows, groups, i)) for x in names)
        for i in range(len(rows))
    ]
    suppressed = sum(row[3] for row, cell in zip(rows, cells, strict=True) if cell is None)
    sizes = Counter()
    for row, cell in zip(rows, cells, strict=True):
        if cell is not None:
            sizes[cell] += row[3]
    assert view.suppressed_rows == suppressed
    assert sorted(view.class_sizes.tolist()) == sorted(sizes.values())
    assert discernibility(view) == sum(s * s for s in sizes.values()) + suppressed * n
    expected = (n - suppressed) / len(sizes) if sizes else 0.0
    assert average_class_size(view) == pytest.approx(expected)
    alone = 0.0
    for at, name in enumerate(names):
        column = Counter()
        for row, cell in zip(rows, cells, strict=True):
            if cell is not None:
                column[cell[at]] += row[3]
        weight = {"place": 2.0, "age": 1.0, "colour": 0.0}[name]
        alone += weight * (sum(s * s for s in column.values()) + suppressed * n)
    weights = {"place": 2.0, "colour": 0.0}
    assert weighted_discernibility(view, weights) == pytest.approx(alone)
    meeting = 0.0
    for name, weight in (("place", 2.0), ("age", 1.0)):
        shown = view.published[name]
        held = [
            frozenset(shown.order[shown.low[code] : shown.high[code] + 1].tolist())
            for code in shown.codes[view.kept]
        ]
        counted = list(zip(held, view.weight[view.kept].tolist(), strict=True))
        alike = sum(m * k for (a, m), (b, k) in itertools.product(counted, repeat=2) if a & b)
        meeting += weight * (alike + suppressed * n)
    assert weighted_discernibility(view, weights, by="overlap") == pytest.approx(meeting)
    target = np.array([row[2] for row in rows])
    votes: dict[object, Counter[int]] = {}
    for row, cell in zip(rows, cells, strict=True):
        if cell is not None:
            votes.setdefault(cell, Counter())[row[2]] += row[3]
    right = sum(max(vote.values()) for vote in votes.values())
    assert majority_penalty(view, target) == pytest.approx((n - right) / n)

    people = [(row[:3], cell) for row, cell in zip(rows, cells, strict=True) for _ in range(row[3])]
    pairs: dict[bool, list[float]] = {True: [], False: []}
    for (a, cell_a), (b, cell_b) in itertools.combinations(
        [person for person in people if person[1] is not None], 2
    ):
        alike = sum(x == y for x, y in zip(a, b, strict=True)) / 3
        pairs[cell_a == cell_b].append(alike)
    found = similarity(view)
    for measured, alike in ((found.within, pairs[True]), (found.between, pairs[False])):
        assert measured == (pytest.approx(np.mean(alike)) if alike else None)


@given(views(), st.lists(st.booleans(), min_size=4, max_size=4))
@settings(max_examples=60)
def test_queries_and_distributions_by_definition(
    drawn: tuple[View, list, list], mask: list[bool]
) -> None:
    view, rows, groups = drawn
    query = Query({"age": np.array(mask), "colour": np.array([True, False, True])})
    (answer,) = answer_workload(view, [query]).answers
    true = estimate = offered = found = 0.0
    after = np.zeros(4)
    released = 0
    for i, row in enumerate(rows):
        fits = mask[row[1]] and row[2] != 1
        true += row[3] * fits
        if groups[i] < 0:
            continue
        ages, colours = covered("age", rows, groups, i), covered("colour", rows, groups, i)
        chance = sum(mask[a] for a in ages) / len(ages)
        chance *= sum(c != 1 for c in colours) / len(colours)
        estimate += row[3] * chance
        offered += row[3] * (chance > 0)
        found += row[3] * (chance > 0) * fits
        released += row[3]
        for a in ages:
            after[a] += row[3] / len(ages)
    assert answer.rows == true
    assert answer.estimate == pytest.approx(estimate)
    assert answer.precision == (pytest.approx(found / offered) if offered else None)
    assert answer.recall == (pytest.approx(found / true) if true else None)
    assert answer.relative_error == pytest.approx(abs(estimate - true) / max(true, 1))
    before = np.zeros(4)
    for row in rows:
        before[row[1]] += row[3]
    before /= before.sum()
    after = after / max(released, 1)
    assert distribution_distances(view)["age"] == pytest.approx(np.abs(before - after).sum() / 2)


def test_ordered_distributions_move_by_ranks() -> None:
    codes = np.array([0, 0, 3, 3])
    ranges = Ranges(AGES, "age")
    view = View({"age": codes}, {"age": ranges.published([0, 0, -1, -1], [0, 0, -2, -2])})
    # half of the rows are gone: what is left stands at one end of the two ranks that occurred
    assert distribution_distances(view, ordered=["age"])["age"] == pytest.approx(0.5)


def test_nothing_lost() -> None:
    codes = np.arange(4)
    view = View({"age": codes}, {"age": age.published(codes, codes)})
    cost = summarize(view, target=codes)
    assert cost.certainty_penalty == cost.information_loss == cost.non_uniform_entropy == 0
    assert cost.granularity == 1
    assert cost.majority_penalty == 0
    assert cost.to_dict()["similarity"] == {"within": None, "between": 0.0}


def test_everything_suppressed() -> None:
    codes = np.arange(4)
    view = View({"age": codes}, {"age": age.published([0] * 4, [-1] * 4)})
    cost = summarize(view, target=codes)
    assert cost.certainty_penalty == cost.information_loss_share == cost.non_uniform_entropy == 1
    assert (cost.suppressed_rows, cost.suppressed_cells, cost.average_class_size) == (4, 0, 0.0)
    assert cost.discernibility == 16
    assert cost.majority_penalty == 1


def test_the_largest_numbers_have_moments(recwarn: pytest.WarningsRecorder) -> None:
    for largest in (1e300, 8e307):
        numbers, codes = pa.array([-largest, 0.0, largest]), np.array([0, 1, 2, 2])
        shown = Ranges(numbers, "huge").published(codes, codes)
        view = View({"huge": codes}, {"huge": shown})
        found = statistics(view, {"huge": numbers})["huge"]
        assert found.mean == found.released_mean == pytest.approx(largest / 4)
        assert found.deviation == found.released_deviation == pytest.approx(largest * (11**0.5 / 4))
    assert not [one for one in recwarn if issubclass(one.category, RuntimeWarning)]


def test_stars_are_counted() -> None:
    shown = Published.starred(COLOURS, [0, 1, 2], [True, False, True])
    view = View({"colour": np.arange(3)}, {"colour": shown}, np.array([1, 1, 5]))
    assert view.suppressed_cells == 6
    assert certainty_penalty(view) == pytest.approx(6 / 7)


def test_what_is_shown_as_it_is_answers_exactly_and_odd_workloads_are_refused() -> None:
    codes = np.arange(4)
    view = View(
        {"age": codes, "place": codes},
        {"age": age.published(codes, codes), "place": place.published(codes)},
    )
    some = [Query({"age": codes < 2}), Query({"age": codes > 0, "place": codes == 1})]
    assert answer_workload(view, some).mean_relative_error == 0
    with pytest.raises(ParameterError, match="no query"):
        answer_workload(view, [])
    with pytest.raises(ColumnError, match="`zip` is not a quasi-identifier"):
        answer_workload(view, [Query({"zip": np.ones(4)})])
    with pytest.raises(ColumnError, match="is not a quasi-identifier"):
        weighted_discernibility(view, {"zip": 1})


def _lefevre(seed: int, k: int, columns: int = 3) -> tuple[View, np.ndarray, list]:
    """LeFevre's strict Mondrian with its regions, and the tight ranges of its parts as a view."""
    random = np.random.default_rng(seed)
    codes = np.stack([random.integers(0, random.integers(1, 9), 40) for _ in range(columns)], 1)
    codes = np.stack([np.unique(column, return_inverse=True)[1] for column in codes.T], axis=1)
    parts = lefevre(codes, k, np.zeros(columns))
    group = np.empty(len(codes), np.int64)
    for at, part in enumerate(parts):
        group[part.rows] = at
    original, published = {}, {}
    for axis, column in enumerate(codes.T):
        line = Ranges(pa.array(np.arange(column.max() + 1)), f"c{axis}")
        original[f"c{axis}"] = column
        published[f"c{axis}"] = line.published(*line.spans(column, group, len(parts))).take(group)
    return View(original, published), codes, parts


@given(st.integers(0, 10_000), st.integers(1, 9))
@settings(max_examples=60)
def test_regions_are_those_that_mondrian_cut(seed: int, k: int) -> None:
    view, _, parts = _lefevre(seed, k)
    wanted = sum(_by_region(parts, axis) for axis in range(3))
    assert weighted_discernibility(view, by="region") == wanted
    found = regions(view)
    for axis in range(3):
        of_part = {}
        for at, part in enumerate(parts):
            (number,) = set(found[f"c{axis}"][part.rows].tolist())
            of_part[at] = number
        bounds = {at: (int(p.low[axis]), int(p.high[axis])) for at, p in enumerate(parts)}
        pairs = set(zip(of_part.values(), bounds.values(), strict=True))
        assert len(pairs) == len(set(of_part.values())) == len(set(bounds.values()))


@given(views())
@settings(max_examples=60)
def test_regions_hold_their_classes_and_none_is_cut(drawn: tuple[View, list, list]) -> None:
    """A class lies in one region of each column; more regions than classes are impossible."""
    view, _, _ = drawn
    ids, number = view.classes
    for name, region in regions(view).items():
        if number:
            assert len(set(zip(ids.tolist(), region.tolist(), strict=True))) == number, name
    whole = sum(view.weight[view.kept]) ** 2 + view.suppressed_rows * view.rows
    by_region = weighted_discernibility(view, by="region")
    assert discernibility(view) <= by_region / 3 + 1e-9
    assert by_region <= 3 * whole
    with pytest.raises(ParameterError, match="label, overlap, region"):
        weighted_discernibility(view, by="colour")


@given(
    st.lists(
        st.tuples(st.sets(st.integers(0, 4), min_size=1), st.integers(1, 3)), min_size=1, max_size=8
    )
)
def test_sets_overlap_where_they_share_a_value(groups: list[tuple[set[int], int]]) -> None:
    letters = ValueSets(pa.array(list("abcde")), "letters")
    offsets = np.cumsum([0, *(len(codes) for codes, _ in groups)])
    members = [code for codes, _ in groups for code in sorted(codes)]
    original = np.array([min(codes) for codes, _ in groups])
    counts = np.array([rows for _, rows in groups])
    view = View({"letters": original}, {"letters": letters.published(offsets, members)}, counts)
    meeting = sum(m * k for (a, m), (b, k) in itertools.product(groups, repeat=2) if a & b)
    assert weighted_discernibility(view, by="overlap") == meeting


def test_views_must_be_aligned() -> None:
    with pytest.raises(ColumnError, match="column `age`"):
        View({"age": np.arange(3)}, {"age": age.published([0], [0])})


def test_pairing_by_position_and_by_key() -> None:
    original = pa.table(
        {"id": [1, 2, 3], "age": [20, 25, 60], "place": ["a", "b", "c"], "colour": ["x", "y", None]}
    )
    released = pa.table(
        {
            "id": [2, 1],
            "age": ["[20, 26)", "[20, 26)"],
            "place": ["ab", "ab"],
            "colour": ["{x, y}", "{x, y}"],
        }
    )
    view = pair_tables(
        original, released, ["age", "place", "colour"], key="id", hierarchies={"place": PLACES}
    )
    assert view.suppressed_rows == 1
    assert view.class_sizes.tolist() == [2]
    assert isinstance(PLACES.bind(pa.array(["a"]), "x"), EncodedHierarchy)
    assert certainty_penalty(view) == pytest.approx((3 + 2 * (5 / 40 + 1 / 2 + 1 / 2)) / 9)
    with pytest.raises(InputError, match="paired by position"):
        pair_tables(original, released, ["age"])
    with pytest.raises(ColumnError, match="release has no column"):
        pair_tables(original, released.drop_columns(["age"]), ["age"], key="id")
    with pytest.raises(InputError, match="not in the original"):
        pair_tables(original.slice(0, 1), released, ["age"], key="id")
    with pytest.raises(ColumnError, match="tell all rows"):
        pair_tables(pa.concat_tables([original] * 2), released, ["age"], key="id")
    foreign = released.set_column(1, "age", pa.array(["young", "old"]))
    with pytest.raises(HierarchyError, match="2 distinct labels"):
        pair_tables(original, foreign, ["age"], key="id")
    numbers = released.set_column(1, "age", pa.array(["{20, 25}", "{20, 25}"]))
    assert pair_tables(original, numbers, ["age"], key="id").class_sizes.tolist() == [2]


def test_pairing_files(tmp_path: Path) -> None:
    before, after = tmp_path / "before.csv", tmp_path / "after.csv"
    before.write_text("sex,age\nF,20\nM,25\nM,60\n")
    after.write_text('sex,age\n*,"[20, 26)"\n*,"[20, 26)"\nM,60\n')
    view = pair_tables(str(before), str(after), ["sex", "age"])
    assert sorted(view.class_sizes.tolist()) == [1, 2]
    assert view.suppressed_cells == 2
    assert certainty_penalty(view) == pytest.approx((2 + 2 * 5 / 40) / 6)


def test_accuracy_without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    with pytest.raises(MissingExtraError, match=r"sfumato\[models\]"):
        cross_validated([np.arange(4)], np.arange(4), folds=2)


def test_accuracy_of_naive_bayes_on_adult() -> None:
    table = pq.read_table(sample_path("arx_adult.parquet")).slice(0, 4000)
    codes = {}
    for name in ("education", "marital-status", "occupation", "salary-class"):
        column = table[name].combine_chunks()
        codes[name] = np.asarray(column.dictionary_encode().indices)
    target = codes.pop("salary-class")
    values = table["occupation"].combine_chunks().unique()
    published = {}
    for name, column in codes.items():
        distinct = table[name].combine_chunks().unique()
        stars = np.full(len(column), name != "education")
        published[name] = Published.starred(distinct, column, stars)
    found = accuracy(View(codes, published), target, folds=5)
    assert len(values) == 14
    assert 0.78 < found.original < 0.85
    assert found.baseline - 0.02 < found.released < found.original
    assert found == accuracy(View(codes, published), target, folds=5)
    perfect = cross_validated([target], target, folds=3)
    assert perfect == 1.0
    with pytest.raises(ParameterError, match="folds"):
        cross_validated([target], target, folds=1)
    with pytest.raises(ParameterError, match="counted"):
        accuracy(View(codes, published, np.ones(4000)), target)


def test_a_release_is_compared_with_its_original_whatever_stands_for_a_class(tmp_path):
    random = np.random.default_rng(4)
    people = pa.table({"age": random.integers(20, 80, 300), "sex": random.choice(["F", "M"], 300)})
    ranges = sf.anonymize(people, qi=["age", "sex"], k=5, exact_ends=True)
    out = tmp_path / "means.csv"
    sf.anonymize(people, qi=["age", "sex"], k=5, numbers_as="mean", output=out)
    cost = compare(out, people)  # the certificate names the columns
    assert cost.certainty_penalty <= ranges.utility["ncp"] + 1e-12
    assert cost.columns["sex"] == 0
    rounded = sf.anonymize(people, qi=["age", "sex"], k=5)
    again = compare(rounded.to_arrow(), people, qi=["age", "sex"])
    assert again.certainty_penalty == pytest.approx(rounded.utility["ncp"])
    with pytest.raises(ParameterError, match="there is no certificate beside"):
        compare(people, people)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_times_of_day_that_stand_for_a_class_are_compared(ending, tmp_path):
    clock = pa.array(np.random.default_rng(2).integers(0, 86_400, 90), pa.int32())
    seen = pa.table({"seen": clock.cast(pa.time32("s"))})
    out = tmp_path / f"out.{ending}"
    release = sf.anonymize(seen, qi=["seen"], k=5, numbers_as="mean", output=out)
    assert compare(out, seen).certainty_penalty == pytest.approx(release.utility["ncp"])


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("cells", [[7, None, 3, 9, None, 20], [None] * 6])
def test_a_column_without_a_cell_has_lost_all_that_there_was(cells, ending, tmp_path):
    """A text file does not say that they were numbers, and a star of numbers is an empty cell."""
    seen = pa.table({"n": cells, "sex": ["f", "m"] * 3})
    out = tmp_path / f"out.{ending}"
    asked = {"qi": ["n", "sex"], "k": 3, "method": "full-domain", "numbers_as": "middle"}
    release = sf.anonymize(seen, output=out, **asked)
    assert not any(release.to_arrow()["n"].to_pylist())
    assert release.utility["ncp"] == (0.5 if any(cells) else 0)
    assert compare(out, seen, qi=["n", "sex"]).certainty_penalty == release.utility["ncp"]


def test_statistics_of_numbers_that_floats_round(tmp_path):
    codes = pa.table({"code": [2**60 + at % 30 for at in range(90)]})
    out = tmp_path / "out.csv"
    release = sf.anonymize(codes, qi=["code"], k=5, rows_are_people=True, output=out)
    cost = compare(out, codes)
    assert cost.certainty_penalty == pytest.approx(release.utility["ncp"])
    assert cost.statistics["code"].mean == pytest.approx(2**60)


def test_a_release_is_judged_under_weights_and_a_target(tmp_path):
    from sfumato.utility import compare

    sexes = ["f", "m", "f", "m"]
    people = pa.table({"age": [20, 25, 30, 60], "sex": sexes, "ill": ["a", "a", "b", "b"]})
    ranges = ["[20, 26)", "[20, 26)", "[25, 61)", "[25, 61)"]
    shown = pa.table({"age": ranges, "sex": sexes})
    only = {"age": 2.0, "sex": 0.0}
    cost = compare(shown, people, qi=["age", "sex"], weights=only, target="ill")
    assert cost.weighted_discernibility_by_label == 2 * (2**2 + 2**2)
    assert cost.weighted_discernibility_by_overlap == 2 * 4 * 4  # both ranges hold 25
    assert cost.weighted_discernibility_by_region == 2 * 4 * 4  # no cut parts those two ranges
    assert cost.majority_penalty == 0.0
    assert cost.accuracy == accuracy(
        pair_tables(people, shown, ["age", "sex"]), [0, 0, 1, 1], folds=4
    )
    assert compare(shown, people, qi=["sex"], target="ill").majority_penalty == 0.5
    pq.write_table(people, tmp_path / "people.parquet")
    pq.write_table(shown, tmp_path / "shown.parquet")
    asked = ["--of", tmp_path / "people.parquet", "--qi", "age,sex", "--weights", "age=2,sex=0"]
    done = sfumato("utility", tmp_path / "shown.parquet", *asked, "--target", "ill", "--json")
    assert {**done.json, "stays_at_home": 0} == {**cost.to_dict(), "stays_at_home": 0}
    lost = sfumato("utility", tmp_path / "shown.parquet", *asked, "--target", "sick")
    assert (lost.code, "sick" in lost.err) == (2, True)


def test_a_column_is_never_predicted_from_itself():
    from sfumato.utility import compare

    chance = np.random.default_rng(3)
    people = pa.table({"age": np.repeat([20, 60], 100), "ill": chance.integers(0, 2, 200)})
    cost = compare(people, people, qi=["age", "ill"], target="ill")
    assert cost.accuracy == compare(people, people, qi=["age"], target="ill").accuracy
    assert cost.accuracy.original < 0.7
    assert compare(people, people, qi=["ill"], target="ill").accuracy is None  # nothing to learn of


def test_stars_that_are_told_from_nulls_by_a_column_beside_them_count_as_stars():
    before = pa.table({"age": [20, None, 40, 60]})
    after = pa.table(
        {"age": [20, None, None, None], "age__suppressed": [False, False, True, True]},
        pa.schema([("age", pa.int64()), ("age__suppressed", pa.bool_())]),
    )
    view = pair_tables(before, after, ["age"])
    starred = pair_tables(before, pa.table({"age": ["20", None, "*", "*"]}), ["age"])
    assert column_losses(view) == column_losses(starred) == {"age": 0.5}


@pytest.mark.parametrize("asked", [{"method": "full-domain"}, {"hierarchies": {}}])
def test_inferred_trees_cost_what_is_said(tmp_path: Path, asked: dict[str, object]) -> None:
    random = np.random.default_rng(4)
    rows = 200
    original = pa.table(
        {
            "height": random.normal(170, 9, rows),
            "income": np.round(random.lognormal(9, 1, rows)).astype(int),
            "born": np.datetime64("1930-01-01") + random.integers(0, 9_000, rows),
            "zip": random.choice(["02139", "02140", "10001"], rows),
        }
    )
    for name in original.column_names:
        out = tmp_path / f"{name}.csv"
        own = sf.anonymize(original, qi=[name], k=4, rows_are_people=True, output=out, **asked)
        found = compare(out, original)
        assert own.suppressed_rows == 0
        assert found.certainty_penalty == pytest.approx(own.utility["ncp"])
        assert found.information_loss == pytest.approx(own.utility["information_loss"])
        assert found.granularity == pytest.approx(own.utility["granularity"])


def test_what_was_parsed_is_parsed_in_the_original(tmp_path: Path) -> None:
    lines = [f"{1 + row % 28}.{1 + row % 12}.{1950 + row % 50}" for row in range(60)]
    (tmp_path / "in.csv").write_text("born\n" + "\n".join(lines) + "\n")
    places = str(tmp_path / "in.csv"), str(tmp_path / "out.csv")
    for shown in ("range", "mean"):
        made = sfumato(
            "anonymize", places[0], "-k", "5", "--qi", "born", "--parse", "born=date:dmy", "-o",
            places[1], "--numbers-as", shown, "--rows-are-people", "--force", "--json",
        )  # fmt: skip
        found = sfumato(
            "utility", places[1], "--of", places[0], "--parse", "born=date:dmy", "--json"
        )
        assert made.code == found.code == 0, found.err
        ncp = made.json["utility"]["ncp"]
        assert found.json["certainty_penalty"] == pytest.approx(ncp)
    unread = sfumato("utility", *places[1:], "--of", places[0])
    assert unread.code == 2
    said = "`born` was not read as text when the release was made."
    assert f"{said} Read this table as then: --parse born=date:dmy." in " ".join(unread.err.split())


def test_zeros_are_one_value_whatever_their_sign(tmp_path):
    table = pa.table({"x": [0.0, -0.0] * 5 + [1.0] * 5})
    release = sf.anonymize(table, qi=["x"], k=3, output=tmp_path / "out.parquet")
    found = compare(tmp_path / "out.parquet", table)
    assert found.non_uniform_entropy == release.utility["non_uniform_entropy"] == 0


@pytest.mark.postgres
def test_rows_of_a_database_are_paired_by_a_key_alone(
    postgres: Any, postgres_schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have no order: paired in whatever order they come, means would seem to tell nothing."""
    monkeypatch.chdir(tmp_path)  # where the certificate goes
    with postgres.connect() as connection:
        connection.execute(
            f"CREATE TABLE {postgres_schema}.people AS SELECT i AS visit, (i * 37) % 101 AS age "
            "FROM generate_series(1, 300) AS i"
        )
    place = f"{postgres.url}#{postgres_schema}"
    asked = {"qi": ["age"], "k": 5, "numbers_as": "mean", "rows_are_people": True}
    with sf.table(f"{place}.people") as people:
        release = sf.anonymize(people, output=f"{postgres_schema}.released", **asked)
        with sf.table(f"{place}.released") as released:
            with pytest.raises(ParameterError, match="no order of their own"):
                compare(released, people)
            # Its columns are those of the certificate, which lies in this folder.
            cost = compare(released, people, row_key="visit")
            with pytest.raises(InputError, match="shows the mean of each class"):
                sf.attack(released, people, on=["age"])
    assert cost.certainty_penalty == pytest.approx(release.utility["ncp"])
