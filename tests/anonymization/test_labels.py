"""Labels of a release that could be taken for values of its table."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.hierarchy import ValueSets, flat, infer, neighbours, parse_arx
from sfumato.populations.plan import Blurrer
from sfumato.release.label_matching import read_cells


def shown(release, name):
    return [cell for batch in release.table.batches([name]) for cell in batch.column(0).to_pylist()]


ODD = ["*", "**", "***", "{a, b}", "{{a, b}}", "{*}", "{", "}", "{}", "a", "b", "c", "", "null",
       '"a"', "a, b", "[1, 2)", None]  # fmt: skip


@given(st.sets(st.sampled_from(ODD), min_size=1), st.data())
@settings(max_examples=300, deadline=None)
def test_a_set_is_never_written_like_a_value_or_another_set(values, data):
    values = sorted(values, key=lambda text: (text is None, text or ""))
    sets = ValueSets(pa.array(values, pa.string()), "odd")
    subset = st.sets(st.sampled_from(range(len(values))), min_size=1)
    chosen = sorted({tuple(sorted(s)) for s in data.draw(st.lists(subset, min_size=1))})
    offsets = [0]
    for members in chosen:
        offsets.append(offsets[-1] + len(members))
    flattened = [code for members in chosen for code in members]
    labels = sets.published(offsets, flattened).array()
    for members, label in zip(chosen, labels.to_pylist(), strict=True):
        assert (label in values) == (len(members) == 1)
    starts, back = sets.read(labels)
    assert (starts.tolist(), back.tolist()) == (offsets, flattened)


def test_an_ordinary_column_is_shown_as_ever():
    sets = ValueSets(pa.array(["a", "b", "c", "{d", "e*"]), "plain")
    labels = sets.published([0, 2, 7], [0, 1, 0, 1, 2, 3, 4]).array().to_pylist()
    assert labels == ["{a, b}", "*"]


@pytest.mark.parametrize("method", ["mondrian", "kmember", "lattice", "full-domain", "best"])
def test_a_star_of_the_table_is_told_from_one_of_the_release(method):
    table = pa.table({"mark": ["*"] * 3 + ["a", "b", "c"], "x": [1] * 6})
    release = sf.anonymize(table, qi=["mark", "x"], k=3, method=method)
    before, after = table.column("mark").to_pylist(), shown(release, "mark")
    assert after != before
    assert {was for was, now in zip(before, after, strict=True) if now == "*"} <= {"*"}
    alike = sf.anonymize(table, qi=["mark"], k=6, method=method)
    assert shown(alike, "mark") == ["**"] * 6
    said = "values of column `mark` are stars themselves: where any value may stand, the release "
    assert f"{said}shows **" in alike.warnings


def test_sets_and_stars_step_aside_and_it_is_said():
    rows = ["{a, b}"] * 4 + ["a", "b"] * 2
    release = sf.anonymize(pa.table({"v": rows, "n": [9] * 4 + [1] * 4}), qi=["v", "n"], k=4)
    assert shown(release, "v") == ["{a, b}"] * 4 + ["{{a, b}}"] * 4
    assert any("2 braces on each side" in said for said in release.warnings)
    release = sf.anonymize(pa.table({"v": ["*", "a"]}), qi=["v"], k=2)
    assert shown(release, "v") == ["**", "**"]
    assert any("shows **" in said for said in release.warnings)
    plain = sf.anonymize(pa.table({"v": ["x", "a"]}), qi=["v"], k=2)
    assert (shown(plain, "v"), plain.warnings) == (["*", "*"], ())


def test_labels_of_a_given_tree_stay_and_are_pointed_out():
    tree = parse_arx("a;Other;*\nb;Other;*\nOther;rest;*\nz;rest;*\n")
    table = pa.table({"v": ["a", "b", "Other", "z"] * 2, "n": [1, 1, 5, 5] * 2})
    release = sf.anonymize(table, qi=["v"], k=3, method="full-domain", hierarchies={"v": tree})
    assert "Other" in shown(release, "v")
    (said,) = release.warnings
    assert "1 labels of column `v` stand for several values and are values too" in said


def test_made_trees_and_blurred_columns_leave_a_star_of_the_table_alone():
    values = pa.array(["*", "a", "b"])
    for tree in (flat(values), infer("v", values)[0], neighbours(values)):
        assert tree.levels()[-1].to_pylist() == ["**"] * 3
    blurrer = Blurrer("v", values, [5, 3, 1])
    assert blurrer.to(2).labels.to_pylist() == ["*", "**"]
    assert blurrer.to(1).labels.to_pylist() == ["**"]


def test_an_outside_table_reads_them_alike():
    reading = read_cells(
        "v", pa.array(["*", "**", "{{a, b}}", "{a, b}"]), pa.array(["*", "a", "b", "{a, b}"])
    )
    covered = [[bool(reading.covers([cell], [code])[0]) for code in range(4)] for cell in range(4)]
    assert covered == [
        [True, False, False, False],
        [True, True, True, True],
        [False, True, True, False],
        [False, False, False, True],
    ]
