"""Groups of an earlier release are kept, extended, saved and applied; promises are counted anew."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pc
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import ColumnError, ParameterError, PromiseError, SfumatoError, SourceError
from sfumato.hierarchy import Hierarchy
from sfumato.privacy import KAnonymity
from sfumato.release.label_matching import read_cells
from sfumato.release.promise import Anonymity
from sfumato.release.several_releases import stacked
from sfumato.utility.comparison import compare

QI = ["age", "town", "born"]


def people(rows: int, seed: int, oldest: int = 80) -> pa.Table:
    random = np.random.default_rng(seed)
    first = dt.date(1990, 1, 1)
    ages = [None if a == 50 else int(a) for a in random.integers(18, oldest, rows)]
    return pa.table(
        {
            "age": pa.array(ages, pa.int64()),
            "town": random.choice(["Ulm", "Jena", "Kiel"], rows),
            "born": [first + dt.timedelta(days=int(d)) for d in random.integers(0, 900, rows)],
            "ill": random.choice(["flu", "gout", "none"], rows),
        }
    )


def classes(*tables: pa.Table, qi=QI) -> dict[tuple, list]:
    """Sensitive values by what is shown, counted by hand."""
    found = defaultdict(list)
    for table in tables:
        for row in table.to_pylist():
            found[tuple(str(row[name]) for name in qi)].append(row.get("ill"))
    return found


def held(label: str | None, value: object) -> bool:
    """Whether a label of Mondrian holds a value, read by hand."""
    if label is None or value is None:
        return label is value or label == "*"
    if label == "*" or label == str(value):
        return True
    if label.startswith("{"):
        return str(value) in label[1:-1].split(", ")
    if not label.startswith("["):
        return False
    low, high = label[1:-1].split(", ")
    kind = dt.date.fromisoformat if isinstance(value, dt.date) else float
    return kind(low) <= value < kind(high)


@pytest.mark.parametrize("method", ["mondrian", "kmember", "lattice", "full-domain", "cells"])
def test_promises_hold_for_the_new_table_and_for_both(method):
    january = sf.anonymize(
        people(600, 1), qi=QI, sensitive=["ill"], k=8, l=2, method=method, seed=3
    )
    new = people(500, 2, oldest=95)
    february = sf.anonymize(new, like=january, k=4)
    first, second = january.to_arrow(), february.to_arrow()
    for shown in (classes(second), classes(first, second)):
        assert min(map(len, shown.values())) >= 4
        assert min(len(set(values)) for values in shown.values()) >= 2
    assert all(finding.holds for finding in february.together)
    kept = set(classes(first))
    like = february.like
    rows = sum(len(v) for group, v in classes(second).items() if group in kept)
    assert rows >= like["rows_in_kept_groups"] > 0
    assert like["rows_in_kept_groups"] + like["rows_in_new_groups"] == second.num_rows
    assert like["rows_left_out"] == 500 - second.num_rows == february.suppressed_rows


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from("abc")), min_size=12, max_size=60),
    st.lists(st.tuples(st.integers(-5, 40), st.sampled_from("abcd")), min_size=8, max_size=60),
    st.integers(2, 4),
    st.booleans(),
)
def test_rows_show_labels_that_hold_them_and_enough_rows_share_each(before, after, k, exact):
    def table(rows):
        return pa.table({"age": [a for a, _ in rows], "town": [t for _, t in rows]})

    january = sf.anonymize(table(before), qi=["age", "town"], k=k, exact_ends=exact)
    recoding = january.recoding
    february = sf.anonymize(table(after), recoding=recoding, k=k)
    shown = february.to_arrow()
    counts = Counter(zip(shown["age"].to_pylist(), shown["town"].to_pylist(), strict=True))
    assert not counts or min(counts.values()) >= k
    released = iter(shown.to_pylist())
    left = february.suppressed_rows
    assert left + shown.num_rows == len(after)
    assert left < k
    if not left:
        for (age, town), cells in zip(after, released, strict=True):
            assert held(str(cells["age"]), age)
            assert held(cells["town"], town)
    both = classes(january.to_arrow(), shown, qi=["age", "town"])
    assert min(map(len, both.values())) >= k


CELLS = {
    "day": st.dates(dt.date(1999, 12, 1), dt.date(2001, 2, 1)),
    "dose": st.floats(-3, 3).map(lambda number: round(number, 2)),
    "town": st.sampled_from(["Ulm", "Jena", "Bad Ems", "[1, 2)", "*", "{a, b}", "7"]),
    "age": st.integers(0, 40),
}
KINDS = {"day": pa.date32(), "dose": pa.float64(), "town": pa.string(), "age": pa.int64()}


@st.composite
def two_tables(draw):
    """Tables of the same columns, with missing values."""
    names = sorted(draw(st.sets(st.sampled_from(sorted(CELLS)), min_size=1, max_size=3)))

    def table(least):
        rows = draw(st.lists(st.tuples(*(st.none() | CELLS[n] for n in names)), min_size=least))
        columns = zip(*rows, strict=True) if rows else [()] * len(names)
        return pa.table(
            {n: pa.array(cells, KINDS[n]) for n, cells in zip(names, columns, strict=True)}
        )

    return table(6), table(3)


@settings(max_examples=25)
@given(
    two_tables(),
    st.integers(2, 3),
    st.sampled_from(["mondrian", "kmember", "lattice", "full-domain", "cells"]),
)
def test_any_release_can_be_kept_by_any_rows(tables, k, method):
    before, after = tables
    qi = before.column_names
    cells = {cell for table in tables for row in table.to_pylist() for cell in row.values()}
    assume(method != "cells" or "*" not in cells)  # which is refused
    january = sf.anonymize(before, qi=qi, k=k, method=method)
    february = sf.anonymize(after, like=january)
    first, second = january.to_arrow(), february.to_arrow()
    assert february.suppressed_rows + second.num_rows == after.num_rows
    for shown in (classes(second, qi=qi), classes(first, second, qi=qi)):
        assert all(len(rows) >= k for rows in shown.values())


def test_the_same_table_keeps_every_group():
    table = people(400, 5)
    january = sf.anonymize(table, qi=QI, k=6)
    again = sf.anonymize(table, like=january)
    assert set(classes(again.to_arrow())) <= set(classes(january.to_arrow()))
    assert again.like["rows_in_kept_groups"] == 400
    apart = table.filter(pa.compute.is_valid(table["age"]))  # a group with nulls holds all ages
    january = sf.anonymize(apart, qi=QI, k=6, exact_ends=True)
    assert sf.anonymize(apart, like=january).to_arrow().equals(january.to_arrow())


def test_a_range_that_holds_one_value_now_is_still_shown_as_a_range():
    january = sf.anonymize(pa.table({"age": [20, 24, 30, 34]}), qi=["age"], k=2, exact_ends=True)
    february = sf.anonymize(pa.table({"age": [22, 22, 31, 31]}), like=january)
    assert february.to_arrow()["age"].to_pylist() == ["[20, 25)"] * 2 + ["[30, 35)"] * 2
    assert february.column_actions["age"] == "blurred in 100% of rows"
    frame = pd.DataFrame({"age": [22, 22, 31, 31]})
    assert sf.anonymize(frame, like=january).to_pandas()["age"][0] == "[20, 25)"


def test_rows_that_are_too_few_for_a_group_are_left_out_and_counted():
    january = sf.anonymize(pa.table({"age": [20, 24, 30, 34] * 3}), qi=["age"], k=3)
    february = sf.anonymize(pa.table({"age": [20, 24, 30, 34] * 3 + [99, 98]}), like=january)
    assert february.like["rows_left_out"] == february.suppressed_rows == 2
    assert february.k >= 3


def test_a_group_with_enough_rows_and_too_few_values_is_not_shown():
    groups = sf.Recoding.of(pa.table({"age": ["[0, 9)", "[30, 39)"]}), ["age"])
    rows = pa.table({"age": [1, 2, 3, 31, 32, 33], "ill": ["flu"] * 3 + ["flu", "gout", "gout"]})
    release = sf.anonymize(rows, recoding=groups, sensitive=["ill"], k=2, l=2)
    assert release.to_arrow()["age"].to_pylist() == ["[30, 39)"] * 3
    assert release.like["rows_left_out"] == 3
    assert any("does not show `ill`" in line for line in release.warnings)
    more = pa.table({"age": [*range(1, 4), *range(50, 53)], "ill": ["flu"] * 3 + ["gout"] * 3})
    both = pa.concat_tables([rows, more.slice(3)])
    release = sf.anonymize(both, recoding=groups, sensitive=["ill"], k=2, l=2)
    assert (release.like["new_groups"], release.like["rows_left_out"]) == (1, 0)


def test_numbers_may_stand_for_kept_ranges_and_cannot_be_kept_themselves():
    january = sf.anonymize(people(300, 1), qi=["age"], k=5)
    means = sf.anonymize(people(300, 2), like=january, numbers_as="mean")
    assert pa.types.is_floating(means.to_arrow()["age"].type)
    with pytest.raises(ParameterError, match="shows numbers in place of ranges"):
        means.recoding


@pytest.mark.parametrize("how", ["mean", "median"])
def test_numbers_for_kept_ranges_are_counted_and_spoken_of(how):
    january = sf.anonymize(people(300, 1), qi=QI, sensitive=["ill"], k=8, l=2)
    new = people(300, 2)
    ranges = sf.anonymize(new, like=january, k=4)
    numbers = sf.anonymize(new, like=january, k=4, numbers_as={"age": how})
    assert numbers.like == ranges.like  # the same groups, whatever stands for them
    shown = numbers.to_arrow()
    assert min(map(len, classes(shown).values())) >= 4
    assert all(finding.holds for finding in numbers.together)
    told = {"mean": "the mean", "median": "about the median"}[how]
    say = f"`age` is shown as {told} of its class here, and a range in the earlier release"
    assert [one for one in numbers.warnings if one.startswith(say)]
    assert not [one for one in ranges.warnings if "in the earlier release" in one]
    by_file = sf.anonymize(
        new, recoding=january.recoding, k=4, sensitive=["ill"], l=2, numbers_as={"age": how}
    )
    assert by_file.to_arrow().equals(shown)


@pytest.mark.parametrize("written", [True, False])
def test_ranges_of_sensitive_numbers_end_where_they_did(tmp_path, written):
    def paid(seed):
        random = np.random.default_rng(seed)
        age = random.integers(20, 80, 400)
        income = age * 500 + 2_000 * seed + random.integers(0, 2_000, 400)
        return pa.table({"age": age, "income": income})

    out = tmp_path / "january.csv"
    asked = {
        "qi": ["age"],
        "k": 8,
        "sensitive": ["income"],
        "l": 3,
        "sensitive_bins": {"income": 6},
    }
    january = sf.anonymize(paid(1), **asked, output=out)
    february = sf.anonymize(paid(2), like=out if written else january, k=4)

    def edges(release):
        (bins,) = [m.bins for p in release.promises for m in getattr(p, "models", ()) if m.about]
        return bins

    assert edges(february) == edges(january)
    assert february.together[0].holds
    new = tmp_path / "february.csv"
    february.write(new)
    assert sf.verify(new, others=[out], other_rows=True).holds
    fewer = sf.anonymize(paid(2), like=january, k=4, sensitive_bins={"income": 3})
    assert len(edges(fewer)) == 2
    assert edges(fewer) != edges(january)[:2]


def test_a_recoding_holds_what_the_release_shows_and_nothing_else(tmp_path):
    table = people(500, 7)
    january = sf.anonymize(table, qi=QI, k=10)
    place = tmp_path / "january.recoding.json"
    january.recoding.save(place)
    body = json.loads(place.read_text())
    assert {tuple(group) for group in body["groups"]} == {
        tuple(None if row[n] is None else str(row[n]) for n in QI)
        for row in january.to_arrow().to_pylist()
    }
    loaded = sf.Recoding.load(place)
    assert list(loaded) == list(january.recoding)
    assert len(loaded) == len(body["groups"])
    new = people(300, 8)
    by_file = sf.anonymize(new, recoding=str(place), k=5).to_arrow()
    assert by_file.equals(sf.anonymize(new, like=january, k=5, seed=0).to_arrow())


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
def test_frames_stay_frames_and_rows_stay_in_line(kind):
    recoding = sf.Recoding.of(
        pa.table({"age": ["[20, 30)", "*"], "sex": ["F", "M"]}), ["age", "sex"]
    )
    frame = kind({"sex": ["M", "F", "F"], "age": [1, 25, 99], "kept": [True, False, None]})
    made = recoding.apply(frame)
    assert type(made) is type(frame)
    rows = pa.table(made) if not isinstance(made, pl.DataFrame) else made.to_arrow()
    assert rows.column_names == ["sex", "age", "kept"]
    assert rows["age"].to_pylist() == ["*", "[20, 30)", "*"]
    assert rows["sex"].to_pylist() == ["M", "F", None]


def test_the_narrowest_group_takes_a_row():
    labels = pa.table({"age": ["[0, 100)", "[20, 30)", "25"]})
    made = sf.Recoding.of(labels, ["age"]).apply(pa.table({"age": [25, 26, 60, 200]}))
    assert made["age"].to_pylist() == ["25", "[20, 30)", "[0, 100)", "*"]


def test_trees_are_needed_again():
    tree = Hierarchy.from_levels([["Ulm", "Jena", "Kiel"], ["south", "east", "north"], ["*"] * 3])
    table = pa.table({"town": ["Ulm", "Jena", "Kiel"] * 2})
    january = sf.anonymize(
        pa.table({"town": ["Ulm", "Kiel"] * 4}),
        qi=["town"],
        k=4,
        hierarchies={"town": tree},
        method="full-domain",
    )
    recoding = january.recoding
    assert recoding.trees
    with pytest.raises(ParameterError, match="labelled by trees"):
        recoding.apply(table)
    labels = sf.Recoding.of(pa.table({"town": ["south", "north"]}), ["town"])
    made = labels.apply(table, hierarchies={"town": tree})
    assert made["town"].to_pylist() == ["south", "*", "north"] * 2


def test_inferred_trees_are_read_from_their_labels():
    codes = [f"{a}{b:04}" for a in "ABC" for b in range(0, 9000, 300)]
    dotted = ["E11", "E11.9", "E11.91", "I10.1", "I10.2"]
    labels = pa.table({"zip": ["A****", "B****"], "icd": ["E11.*", "I10.*"]})
    recoding = sf.Recoding.of(labels, ["zip", "icd"])
    new = pa.table({"zip": [codes[0]] * 5, "icd": dotted})
    assert recoding.apply(new)["icd"].to_pylist() == ["E11.*"] * 3 + ["*"] * 2
    dates = sf.Recoding.of(pa.table({"born": ["1987", "1990-Q2"]}), ["born"])
    for kind in (pa.date32(), pa.string()):
        days = pa.array(["1987-05-01", "1990-04-30", "1990-07-01"]).cast(kind)
        assert dates.apply(pa.table({"born": days}))["born"].to_pylist() == ["1987", "1990-Q2", "*"]


def write(tmp_path: Path, name: str, table: pa.Table) -> str:
    place = str(tmp_path / name)
    pc.write_csv(table, place)
    return place


def test_a_certificate_leads_to_the_release_beside_it(tmp_path):
    out = str(tmp_path / "january.csv")
    january = sf.anonymize(people(400, 1), qi=QI, sensitive=["ill"], k=6, l=2, output=out)
    certificate = f"{out}.certificate.json"
    for named in (certificate, out, Path(out)):
        assert list(sf.Recoding.of(named)) == list(january.recoding)
    to = str(tmp_path / "february.csv")
    february = sf.anonymize(people(400, 2), like=certificate, output=to)
    assert february.asked["k"] == 6
    assert sf.verify(to).holds
    record = json.loads(Path(f"{to}.certificate.json").read_text())
    assert record["asked"]["like"] == "january.csv.certificate.json"
    assert str(tmp_path) not in Path(f"{to}.certificate.json").read_text()
    assert not {"together", "groups", "like"} & set(record)
    third = sf.anonymize(people(400, 3), like=f"{to}.certificate.json")
    assert third.like["release"] == "february.csv"
    both = sf.verify(to, others=[out], other_rows=True)
    assert both.holds
    assert both.findings[-1].check == "together"
    Path(out).write_text(Path(out).read_text() + "1,2,3,4\n")
    with pytest.raises(PromiseError, match="fingerprint differs"):
        sf.anonymize(people(400, 2), like=certificate)
    Path(out).unlink()
    with pytest.raises(SourceError, match="not beside its certificate"):
        sf.anonymize(people(400, 2), like=certificate)


def test_releases_that_break_a_promise_together_are_refused():
    labels = {"age": ["[0, 9)"] * 10 + ["30"] * 100, "ill": ["flu"] * 10 + ["hiv"] * 100}
    january = pa.table(labels)
    rows = pa.table({"age": [1] * 10, "ill": ["flu"] * 5 + ["hiv"] * 5})  # one class: t = 0
    asked = {"qi": ["age"], "sensitive": ["ill"], "k": 2}
    groups = sf.Recoding.of(january, ["age"])
    with pytest.raises(PromiseError, match=r"one under the other: .* t = 0\.625 measured"):
        sf.anonymize(rows, recoding=groups, t=0.6, **asked)
    assert sf.anonymize(rows, recoding=groups, t=0.63, **asked).together[0].holds
    february = pa.table({"age": ["5", "[0, 9)"], "ill": ["gout"] * 2})
    found = sf.verify(january, others=[february], other_rows=True, qi=["age"], k=2)
    assert not found.holds
    assert found.findings[0].holds


def test_classes_of_the_new_release_are_looked_at_with_the_rows_of_both():
    january = sf.table(pa.table({"age": ["[20, 30)"] * 3 + ["40"]}))
    february = sf.table(pa.table({"age": ["[20, 30)"]}))
    promise = Anonymity((KAnonymity(3),), (("age",),))
    assert stacked([january, february], promise, newest=True)[0].holds
    assert not stacked([january, february], promise)[0].holds
    march = sf.table(pa.table({"age": ["[20, 30)", "41"]}))
    assert not stacked([january, march], promise, newest=True)[0].holds


def test_whoever_knows_that_somebody_is_in_both_is_spoken_of():
    january = sf.anonymize(
        pa.table({"age": [20] * 4, "ill": ["flu", "flu", "hiv", "hiv"]}),
        qi=["age"],
        sensitive=["ill"],
        k=2,
        l=2,
    )
    rows = pa.table({"age": [20] * 4, "ill": ["gout", "gout", "hiv", "hiv"]})
    february = sf.anonymize(rows, like=january)
    assert any("1 of 1 groups that both releases show" in line for line in february.warnings)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"recoding": 9}, "another form"),
        ({"columns": []}, "different names"),
        ({"columns": ["age", "age"]}, "different names"),
        ({"groups": {"a": 1}}, "must be a list"),
        ({"groups": [["[1, 2)"], ["a", "b"]]}, "group 2 has not one label"),
        ({"groups": [[7]]}, "neither text nor null"),
        ({"trees": 1}, "true or false"),
        ({"more": 1}, "`more` is missing or unknown"),
    ],
)
def test_a_received_file_is_checked(tmp_path, change, says):
    place = tmp_path / "x.recoding.json"
    sf.Recoding.of(pa.table({"age": ["[1, 2)"]}), ["age"]).save(place)
    body = json.loads(place.read_text())
    place.write_text(json.dumps({**body, **change}))
    with pytest.raises(SourceError, match=says):
        sf.Recoding.load(place)


@pytest.mark.parametrize("text", ["", "[", "[]", "{}", "7", '{"recoding": 1}', "[" * 100_000])
def test_what_is_no_recoding_is_refused(tmp_path, text):
    place = tmp_path / "x.recoding.json"
    place.write_text(text)
    with pytest.raises(SourceError, match="this is not a recoding"):
        sf.Recoding.load(place)
    with pytest.raises(SourceError, match="no such file"):
        sf.Recoding.load(tmp_path / "y.json")


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"qi": ["age"]}, "other quasi-identifiers"),
        ({"qi": [["age"], ["town"]]}, "other quasi-identifiers"),
        ({"parts": 2}, "cannot be kept here"),
        ({"like": "x.csv"}, "named twice"),
        ({"population": people(99, 1), "k_map": 2, "k": None}, "cannot be kept here"),
    ],
)
def test_what_cannot_be_kept_is_refused(asked, says):
    recoding = sf.anonymize(people(200, 1), qi=["age", "town"], k=5).recoding
    with pytest.raises(SfumatoError, match=says):
        sf.anonymize(
            people(100, 2), **{"qi": ["age", "town"], "k": 5, "recoding": recoding, **asked}
        )


def test_a_table_without_the_columns_is_refused():
    recoding = sf.anonymize(people(200, 1), qi=["age", "town"], k=5).recoding
    with pytest.raises(ColumnError, match="town"):
        recoding.apply(pa.table({"age": [1], "twon": ["Ulm"]}))


def test_rows_left_out_are_counted_where_the_rest_is_measured_without_them():
    groups = sf.Recoding.of(pa.table({"zip": ["[0, 10)", "[10, 20)"]}), ["zip"])
    rows = pa.table({"zip": [1] * 4 + [11] * 4 + [50] * 2, "ill": ["flu", "gout"] * 5})
    made = sf.anonymize(rows, recoding=groups, sensitive=["ill"], k=3, t=0.5)
    assert (made.like["rows_in_kept_groups"], made.suppressed_rows) == (8, 2)
    assert made.like["rows_left_out"] == 2


def test_a_new_group_with_labels_of_an_earlier_one_is_kept():
    groups = sf.Recoding.of(pa.table({"sex": ["F", "*"]}), ["sex"])
    rows = pa.table({"sex": list("FFFMM"), "ill": ["flu"] * 4 + ["hiv"]})  # F alone breaks l = 2
    made = sf.anonymize(rows, recoding=groups, sensitive=["ill"], k=3, l=2)
    assert made.table.to_arrow()["sex"].to_pylist() == ["*"] * 5
    assert (made.like["groups_kept"], made.like["rows_in_kept_groups"]) == (1, 5)
    assert (made.like["new_groups"], made.like["rows_in_new_groups"]) == (0, 0)


def test_a_column_of_numbers_that_is_starred_everywhere_is_read_as_stars(tmp_path):
    table = pa.table({"zip": [1, 2] * 6, "age": list(range(12))})
    january = str(tmp_path / "january.csv")
    sf.anonymize(table, qi=["zip", "age"], k=4, method="cells", output=january)
    assert list(sf.Recoding.of(january)) == [{"zip": z, "age": "*"} for z in ("1", "2")]
    made = sf.anonymize(table, like=january)
    assert (made.like["groups_kept"], made.like["rows_in_kept_groups"]) == (2, 12)


def test_days_of_points_in_time_are_read(tmp_path):
    noon = dt.datetime(2020, 1, 1, 12)
    table = pa.table({"seen": [noon + dt.timedelta(minutes=17 * n) for n in range(20)]})
    january = str(tmp_path / "january.csv")
    sf.anonymize(table, qi=["seen"], k=5, method="full-domain", output=january)
    assert list(sf.Recoding.of(january)) == [{"seen": "2020-01-01"}]
    made = sf.anonymize(table, like=january)
    assert (made.like["groups_kept"], made.like["rows_in_kept_groups"]) == (1, 20)


def test_a_day_that_the_other_table_lacks_is_not_understood():
    born = pa.array([dt.date(1987, 5, 1), dt.date(1990, 4, 30)])
    assert read_cells("born", pa.array(["1988-01-01", "1987-05-01"]), born).unread == 1
    with pytest.raises(ColumnError, match="none of its 1 distinct cells"):
        read_cells("born", pa.array(["1988-01-01"]), born)


def test_bounds_are_shown_by_a_saved_recoding_only():
    table = pa.table({"age": [20, 21, 22, 40, 41, 42]})
    january = sf.anonymize(table, qi=["age"], k=3)
    with pytest.raises(ParameterError, match="has no columns of bounds"):
        sf.anonymize(table, like=january, numbers_as="bounds")
    saved = replace(january.recoding, released=None)
    made = sf.anonymize(table, recoding=saved, k=3, numbers_as="bounds")
    assert made.table.columns == ("age_from", "age_to")
    with pytest.raises(ColumnError, match="shows the bounds of `age` in two columns"):
        compare(made.table, table, qi=["age_from", "age_to"])


@pytest.mark.parametrize("kind", ["frame", "table", "columns"])
def test_what_is_no_release_is_refused_without_its_cells(kind):
    table = people(60, 1)
    given = {"frame": table.to_pandas(), "table": table, "columns": table.to_pydict()}[kind]
    with pytest.raises(ParameterError, match=r"^`like` must be a released file") as refused:
        sf.anonymize(table, like=given, k=2)
    assert len(str(refused.value)) < 120
