"""Every recoding method: rules hold, cells cover their values, boundaries are never crossed."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from samples import ADULT_QI, FOLDER, sample_path
from sfumato.anonymization.methods import kmember
from sfumato.errors import ParameterError, PromiseError
from sfumato.hierarchy import Boundaries, Hierarchy

LOCAL = ["kmember", "lattice", "best"]
JOBS = Hierarchy.from_levels(
    [["nurse", "cook", "clerk", "judge"], ["care", "care", "desk", "desk"], ["*"] * 4]
)
TOWNS = Hierarchy.from_levels(
    [list("abcdef"), ["west"] * 2 + ["mid"] * 2 + ["east"] * 2, ["*"] * 6]
)


@st.composite
def people(draw):
    rows = draw(st.integers(4, 60))
    cell = {
        "age": st.one_of(st.none(), st.integers(18, 30)),
        "job": st.sampled_from(["nurse", "cook", "clerk", "judge"]),
        "town": st.sampled_from("abcdef"),
        "illness": st.sampled_from(["flu", "cold", "gout"]),
    }
    columns = {
        name: draw(st.lists(values, min_size=rows, max_size=rows)) for name, values in cell.items()
    }
    columns["row"] = list(range(rows))
    return pa.table(
        columns,
        schema=pa.schema(
            [("age", pa.int64())]
            + [(n, pa.string()) for n in columns if n in ("job", "town", "illness")]
            + [("row", pa.int64())]
        ),
    )


def released(release, columns):
    table = pa.Table.from_batches(list(release.table.batches(columns)))
    return list(zip(*(table.column(name).to_pylist() for name in columns), strict=True))


def covers(cell, value):
    """Whether a published cell without a tree covers a value."""
    if cell == "*" or cell == value or cell == str(value):
        return True
    if cell is None or value is None:
        return cell is value or (cell is not None and "null" in cell)
    if cell.startswith("["):
        low, high = cell[1:-1].split(", ")
        return float(low) <= value < float(high)  # ends may lie between whole numbers
    return str(value) in cell[1:-1].split(", ")


@pytest.mark.parametrize("method", LOCAL)
@given(table=people(), k=st.integers(1, 5))
@settings(max_examples=40)
def test_classes_are_large_enough_and_cells_cover_their_values(method, table, k):
    if k > table.num_rows:
        return
    release = sf.anonymize(table, qi=["age", "job", "town"], k=k, method=method)
    rows = released(release, ["age", "job", "town", "row"])
    assert len(rows) == table.num_rows
    assert min(Counter(row[:3] for row in rows).values()) >= k
    originals = {row["row"]: row for row in table.to_pylist()}
    for age, job, town, row in rows:
        assert covers(age, originals[row]["age"])
        assert covers(job, originals[row]["job"])
        assert covers(town, originals[row]["town"])


@pytest.mark.parametrize("method", [*LOCAL, "full-domain"])
@given(table=people(), k=st.integers(1, 4))
@settings(max_examples=30)
def test_trees_are_climbed_and_marks_are_never_passed(method, table, k):
    if k > table.num_rows:
        return
    care = {row["row"]: row["job"] in ("nurse", "cook") for row in table.to_pylist()}
    too_small = sum(size for size in Counter(care.values()).values() if size < k)
    asked = {
        "qi": ["job", "town"],
        "k": k,
        "method": method,
        "hierarchies": {"job": JOBS, "town": TOWNS},
        "boundaries": {"job": {"marks": ["care", "desk"]}},
    }
    if too_small == table.num_rows:
        with pytest.raises(ParameterError):
            sf.anonymize(table, **asked)
        return
    release = sf.anonymize(table, **asked)
    rows = released(release, ["job", "town", "row"])
    assert all(size >= k for size in Counter(row[:2] for row in rows).values())
    for job, _, row in rows:
        assert job in (("nurse", "cook", "care") if care[row] else ("clerk", "judge", "desk"))
    assert release.suppressed_rows == too_small
    assert len(rows) == table.num_rows - too_small


@pytest.mark.parametrize("method", LOCAL)
@given(table=people(), k=st.integers(1, 3), t=st.sampled_from([None, 0.3, 0.5]))
@settings(max_examples=30)
def test_rules_about_sensitive_values_hold(method, table, k, t):
    illnesses = table.column("illness").to_pylist()
    l = 2 if len(set(illnesses)) > 1 else 1  # noqa: E741
    if k > table.num_rows:
        return
    asked = {"l": l} if t is None else {"t": t}
    release = sf.anonymize(
        table, qi=["age", "job", "town"], k=k, sensitive=["illness"], method=method, **asked
    )
    found = defaultdict(list)
    for *cells, illness in released(release, ["age", "job", "town", "illness"]):
        found[tuple(cells)].append(illness)
    overall = Counter(illnesses)
    for group in found.values():
        assert len(group) >= k
        if t is None:
            assert len(set(group)) >= l
        else:
            shares = Counter(group)
            moved = sum(abs(shares[i] / len(group) - overall[i] / len(illnesses)) for i in overall)
            assert moved / 2 <= t + 1e-9


@given(table=people(), k=st.integers(1, 4))
@settings(max_examples=40)
def test_best_is_never_worse_than_its_start_and_says_what_it_gained(table, k):
    if k > table.num_rows:
        return
    qi = ["age", "job", "town"]
    best = sf.anonymize(table, qi=qi, k=k, method="best", exact_ends=True)
    details = best.details
    assert details["loss_after"] <= details["loss_before"] + 1e-12
    assert best.utility["ncp"] == pytest.approx(details["loss_after"])
    for method in ("kmember", "lattice", "mondrian"):
        other = sf.anonymize(table, qi=qi, k=k, method=method, exact_ends=True)
        assert best.utility["ncp"] <= other.utility["ncp"] + 1e-12
        assert other.utility["ncp"] == pytest.approx(details["starts"][method])


LEVELS = {"job": JOBS, "town": TOWNS}


def full_domain_by_hand(table, k, limit):
    """Least loss over all levels: (loss, suppressed)."""
    best = None
    columns = {name: table.column(name).to_pylist() for name in LEVELS}
    bound = {
        name: tree.bind(pa.array(sorted(set(columns[name]))), name) for name, tree in LEVELS.items()
    }
    codes = {
        name: [sorted(set(values)).index(value) for value in values]
        for name, values in columns.items()
    }
    for levels in product(*(range(tree.height + 1) for tree in bound.values())):
        nodes = [
            [int(bound[name].ancestors[code, level]) for code in codes[name]]
            for name, level in zip(LEVELS, levels, strict=True)
        ]
        rows = list(zip(*nodes, strict=True))
        sizes = Counter(rows)
        lost, suppressed = 0.0, 0
        for row in rows:
            if sizes[row] < k:
                suppressed += 1
                lost += len(LEVELS)
            else:
                lost += sum(bound[n].loss[node] for n, node in zip(LEVELS, row, strict=True))
        if suppressed <= limit * len(rows):
            loss = lost / len(rows) / len(LEVELS)
            best = loss if best is None else min(best, loss)
    return best


@given(table=people(), k=st.integers(1, 5), limit=st.sampled_from([0.0, 0.1, 0.3]))
@settings(max_examples=60)
def test_full_domain_is_the_optimum_of_the_lattice(table, k, limit):
    if k > table.num_rows:
        return
    release = sf.anonymize(
        table,
        qi=["job", "town"],
        k=k,
        method="full-domain",
        hierarchies=LEVELS,
        suppression_limit=limit,
    )
    assert release.utility["ncp"] == pytest.approx(full_domain_by_hand(table, k, limit))
    assert release.suppressed_rows <= limit * table.num_rows
    lattice = release.details["lattice"]
    assert lattice["nodes"] == len(lattice["levels"])
    chosen = lattice["optimal"]
    assert lattice["loss"][chosen] == pytest.approx(release.utility["ncp"])
    assert lattice["holds"][chosen]


def test_full_domain_looks_below_levels_that_fail_where_classes_may_spoil_each_other():
    """A class that holds may fail together with one that does not: more is left out above it."""
    x = Hierarchy.from_levels([list("abcd"), ["ab", "ab", "cd", "cd"], ["*"] * 4])
    y = Hierarchy.from_levels([list("wxyz"), ["wx", "wx", "yz", "yz"], ["*"] * 4])
    table = pa.table({"x": list("cabdacbb"), "y": list("zwzywzwx"), "ill": list("prrpqqpq")})
    asked = {"k": 2, "sensitive": ["ill"], "alpha": 0.5, "suppression_limit": 0.3}
    for more in ({}, {"l": 2}):
        release = sf.anonymize(
            table,
            qi=["x", "y"],
            method="full-domain",
            hierarchies={"x": x, "y": y},
            **asked,
            **more,
        )
        assert release.utility["ncp"] == pytest.approx(0.375)


@pytest.mark.parametrize("k", [3, 4])
def test_full_domain_never_leaves_everybody_out(k):
    """Four rows apart cost as much as four roots; only the roots are a release."""
    table = pa.table({"job": ["nurse", "cook", "clerk", "judge"]})
    release = sf.anonymize(
        table, qi=["job"], k=k, method="full-domain", suppression_limit=1.0, hierarchies={}
    )
    assert release.rows == 4
    assert release.table.sample(4).column("job").to_pylist() == ["*"] * 4


def test_a_suppression_limit_counts_whole_rows():
    """0.29 of 100 rows are 29, though 0.29 * 100 is less in binary."""
    table = pa.table({"job": ["nurse"] * 71 + [f"rare {i}" for i in range(29)]})
    release = sf.anonymize(
        table, qi=["job"], k=2, method="full-domain", suppression_limit=0.29, hierarchies={}
    )
    assert (release.rows, release.suppressed_rows) == (71, 29)


@pytest.mark.parametrize(
    ("ages", "illnesses"),
    [([15, 15, 25, 20, 15], "caaba"), ([20, 10, 5, 0, 0, 5, 15], "bbbbaaa")],
)
def test_rows_that_no_group_can_take_are_piled_up_until_they_hold(ages, illnesses):
    """With one more of the commonest illness every group would pass α: groups are joined."""
    release = sf.anonymize(
        pa.table({"age": ages, "ill": list(illnesses)}),
        qi=["age"],
        sensitive=["ill"],
        k=2,
        alpha=0.6,
        method="kmember",
        rows_are_people=True,
    )
    assert release.verified
    assert release.rows == len(ages)


def test_full_domain_stops_at_boundaries_where_others_climb_on():
    """C and D must climb to the root; A and B may not, and need not."""
    values = ["a1", "a2", "b1", "b2", "c1", "d1"]
    tree = Hierarchy.from_levels([values, ["A", "A", "B", "B", "C", "D"], ["*"] * 6])
    release = sf.anonymize(
        pa.table({"x": values}),
        qi=["x"],
        k=2,
        method="full-domain",
        hierarchies={"x": tree},
        boundaries=Boundaries({"x": {"marks": ["A", "B"]}}),
        rows_are_people=True,
    )
    assert release.to_arrow().column("x").to_pylist() == ["A", "A", "B", "B", "*", "*"]


def test_full_domain_shows_one_level_a_column():
    random = np.random.default_rng(0)
    table = pa.table(
        {
            "job": random.choice(["nurse", "cook", "clerk", "judge"], 200),
            "town": random.choice(list("abcdef"), 200),
        }
    )
    release = sf.anonymize(
        table, qi=["job", "town"], k=12, method="full-domain", hierarchies=LEVELS
    )
    jobs = {job for job, _ in released(release, ["job", "town"])}
    assert jobs in ({"*"}, {"care", "desk"}, {"nurse", "cook", "clerk", "judge"})


def test_clustering_in_parts_keeps_every_promise():
    random = np.random.default_rng(1)
    table = pa.table(
        {
            "a": random.integers(0, 50, 3000),
            "b": random.integers(0, 40, 3000),
            "c": random.choice(list("abcdefgh"), 3000),
        }
    )
    whole = sf.anonymize(table, qi=["a", "b", "c"], k=4, method="kmember")
    parts = sf.anonymize(table, qi=["a", "b", "c"], k=4, method="kmember", part_size=100)
    plain = sf.anonymize(table, qi=["a", "b", "c"], k=4)
    assert parts.details["parts"] > 5
    assert parts.k >= 4
    assert parts.utility["ncp"] < plain.utility["ncp"]
    assert whole.utility["ncp"] < plain.utility["ncp"]


@pytest.mark.parametrize("parts", [0, 1, 5])
def test_clustering_ends_with_its_time_and_mondrian_cuts_what_is_left(parts, monkeypatch):
    random = np.random.default_rng(3)
    table = pa.table({name: random.integers(0, 40, 900) for name in "abc"})
    asked = {"qi": ["a", "b", "c"], "k": 4, "method": "kmember", "part_size": 60}
    whole, done = sf.anonymize(table, **asked), []
    same = sf.anonymize(table, **asked, budget=sf.Budget(seconds=1e9))
    assert same.to_arrow().equals(whole.to_arrow())  # a limit that suffices changes nothing

    def clustered(*given):
        done.append(given)
        if len(done) == parts:
            budget.end()
        return cluster(*given)

    cluster, budget = kmember._cluster_blocks, sf.Budget(seconds=1e9, threads=1)
    monkeypatch.setattr(kmember, "_cluster_blocks", clustered)
    if not parts:
        monkeypatch.setattr(kmember, "coarse_partition", ended(kmember.coarse_partition, budget))
    stopped = sf.anonymize(table, **asked, budget=budget)
    assert len(done) == parts
    assert stopped.stopped_by == "time"
    assert stopped.k >= 4
    assert stopped.rows == 900


def ended(function, budget):
    """The function, after which the time of a budget is over."""

    def found(*given):
        answer = function(*given)
        budget.end()
        return answer

    return found


@pytest.mark.parametrize(
    ("method", "options", "words"),
    [
        ("kmember", {"loss": "entropy"}, "no loss"),
        ("kmember", {"part_size": -1}, "number of entries"),
        ("full-domain", {"suppression_limit": 2}, "share of the rows"),
        ("best", {"part_size": 5}, "no option"),
    ],
)
def test_bad_options_are_refused(method, options, words):
    table = pa.table({"age": [1, 2, 3, 4], "job": ["nurse", "cook"] * 2})
    with pytest.raises(ParameterError, match=words):
        sf.anonymize(table, qi=["age", "job"], k=2, method=method, **options)


def test_methods_on_adult():
    table = sf.table(sample_path("arx_adult.parquet"))
    trees = str(FOLDER / "hierarchies/adult")
    found = {
        method: sf.anonymize(table, qi=ADULT_QI, k=5, method=method, hierarchies=trees)
        for method in ("mondrian", "lattice")
    }
    assert all(release.k >= 5 for release in found.values())
    assert found["lattice"].utility["ncp"] < 0.055 < found["mondrian"].utility["ncp"]


def test_levels_that_were_chosen_are_taken_and_every_node_is_what_choosing_it_gives():
    """The list of the lattice against a release at each of its nodes, counted by hand."""
    rows = 60
    table = pa.table(
        {
            "job": [
                ["nurse", "cook", "clerk", "judge"][row * 7 % 4 - (row % 9 == 0)]
                for row in range(rows)
            ],
            "town": ["abcdef"[row * 5 % 6] for row in range(rows)],
        }
    )
    trees = {"job": JOBS, "town": TOWNS}
    asked = {"qi": ["job", "town"], "k": 4, "method": "full-domain", "hierarchies": trees}
    listed = sf.anonymize(table, **asked, every_node=True).details["lattice"]
    assert (listed["nodes"], listed["visited"], listed["heights"]) == (9, 9, [3, 3])
    held = 0
    for at, (job, town) in enumerate(listed["levels"]):
        chosen = {"job": job, "town": town}
        if not listed["holds"][at]:
            with pytest.raises(PromiseError, match=f"{listed['suppressed'][at]:,} rows"):
                sf.anonymize(table, **asked, levels=chosen)
            continue
        held += 1
        release = sf.anonymize(table, **asked, levels=chosen)
        cells = release.table.to_arrow().select(["job", "town"]).to_pylist()
        classes = Counter(tuple(row.values()) for row in cells)
        assert release.details["levels"] == chosen
        assert listed["k"][at] == min(classes.values())
        assert listed["loss"][at] == pytest.approx(release.utility["ncp"])
    assert 1 < held < 9
    half = sf.anonymize(table, **asked, levels={"town": 2}).details["levels"]
    assert half["town"] == 2
    for wrong in ({"job": 3}, {"job": -1}, {"job": 0.5}, {"sex": 1}):
        with pytest.raises(ParameterError, match="level"):
            sf.anonymize(table, **asked, levels=wrong)
