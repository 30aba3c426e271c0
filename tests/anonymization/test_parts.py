"""Tables solved in parts: the promise holds, and workers and engines do not change the release."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.anonymization import in_parts as solving
from sfumato.anonymization import parting
from sfumato.anonymization.parting import Whole, merged, merged_into, plan_parts
from sfumato.anonymization.request import Request
from sfumato.budget import Budget
from sfumato.engines import sql_release
from sfumato.engines.recoding import Cut, Parting
from sfumato.errors import EngineError, ParameterError
from sfumato.privacy import KAnonymity, compile_rules

QI = ["age", "height", "city"]


def people(rows: int = 1200) -> pa.Table:
    """Rows that are nearly all different, with nulls."""
    random = np.random.default_rng(3)
    return pa.table(
        {
            "row": np.arange(rows),
            "age": pa.array([None if a == 30 else int(a) for a in random.integers(20, 80, rows)]),
            "height": np.round(random.normal(170, 10, rows), 1),
            "city": random.choice(["Rome", "Oslo", "Köln", "Bern", "Łódź"], rows),
            "illness": random.choice(["flu", "cold", "gout", "none"], rows),
        }
    )


def patients(rows: int = 1200) -> pa.Table:
    """The same, some of them one person's."""
    who = np.random.default_rng(9).zipf(1.6, rows) % 400
    return people(rows).append_column("patient", pa.array(who))


def classes(table: pa.Table, names: list[str]) -> Counter[Any]:
    return Counter(tuple(row.values()) for row in table.select(names).to_pylist())


@pytest.mark.crossed(7)
@pytest.mark.parametrize("method", ["mondrian", "kmember", "lattice", "cells", "best"])
@pytest.mark.parametrize("engine", ["memory", "duckdb"])
@pytest.mark.parametrize("whose", [{}, {"person": "patient"}], ids=["rows", "persons"])
def test_every_method_keeps_its_promise_in_parts(
    method: str, engine: Any, whose: dict[str, str]
) -> None:
    source = sf.table(patients(400) if whose else people(400), engine=engine)
    release = sf.anonymize(
        source, qi=QI, sensitive=["illness"], k=4, l=2, parts=3, method=method, **whose
    )
    assert release.details["in_parts"]["parts"] == 3
    assert release.verified
    made = release.to_arrow()
    assert made.num_rows == 400 - release.suppressed_rows
    illnesses: dict[Any, set[str]] = {}
    for row in made.to_pylist():
        illnesses.setdefault(tuple(row[name] for name in QI), set()).add(row["illness"])
    assert min(classes(made, QI).values()) >= 4
    assert min(map(len, illnesses.values())) >= 2
    if whose:
        rows = patients(400)
        owner = dict(enumerate(rows["patient"].to_pylist()))
        persons: dict[Any, set[int]] = {}
        for row in made.to_pylist():
            persons.setdefault(tuple(row[name] for name in QI), set()).add(owner[row["row"]])
        assert min(map(len, persons.values())) >= 4


def about_persons(release: sf.Release) -> dict[str, Any]:
    """What is told of persons, but for what is only counted where rows are held in memory."""
    told = dict(release.details.get("persons") or {})
    for name in ("held_by_all", "held_by_nearly_all"):
        told.pop(name, None)
    return told


@pytest.mark.parametrize(
    "asked",
    [
        {"k": 5},
        {"k": 5, "relaxed": True},
        {"k": 4, "sensitive": ["illness"], "t": 0.3},
        {"k": 4, "columns": {"age": {"round": 5}, "illness": {"recode": {"flu": "cold"}}}},
        {"k": 4, "boundaries": {"age": {"max_width": 15}}},
        {"k": 4, "method": "cells", "suppressed_as": "text"},
        {"k": 4, "person": "patient"},
        {"k": 4, "person": "patient", "sensitive": ["illness"], "t": 0.4},
        {"k": 3, "person": "patient", "boundaries": {"height": {"max_width": 2}}},
    ],
)
def test_engines_and_workers_make_the_same_release(asked: dict[str, Any]) -> None:
    made = [
        sf.anonymize(
            sf.table(patients() if "person" in asked else people(), engine=engine),
            qi=QI,
            parts=4,
            budget=Budget(threads=threads),
            **asked,
        )
        for engine, threads in (("memory", 1), ("memory", 2), ("duckdb", 2))
    ]
    first = made[0]
    assert first.details["in_parts"]["parts"] > 1
    for other in made[1:]:
        assert other.to_arrow().equals(first.to_arrow())
        assert other.suppressed_rows == first.suppressed_rows
        assert other.suppressed_cells == first.suppressed_cells
        assert other.column_actions == first.column_actions
        assert about_persons(other) == about_persons(first)
        assert other.k == first.k
        assert other.utility["ncp"] == pytest.approx(first.utility["ncp"])
        entropy = first.utility["non_uniform_entropy"]
        assert other.utility["non_uniform_entropy"] == pytest.approx(entropy)
        assert other.utility["granularity"] == pytest.approx(first.utility["granularity"])


@pytest.mark.parametrize("whose", [{}, {"person": "patient"}], ids=["rows", "persons"])
def test_one_part_is_the_release_of_the_whole(whose: dict[str, Any]) -> None:
    table = patients() if whose else people()
    whole = sf.anonymize(table, qi=QI, k=5, **whose)
    part = sf.anonymize(sf.table(table, engine="duckdb"), qi=QI, k=5, parts=1, **whose)
    assert part.to_arrow().equals(whole.to_arrow())
    for name, cost in part.utility.items():
        assert cost == pytest.approx(whole.utility[name])
    assert part.details["risk"] == whole.details["risk"]


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_sets_without_a_common_column_are_solved_in_parts(engine: Any) -> None:
    sets = [["age"], ["height", "city"]]
    asked = {"qi": sets, "k": 5, "parts": 3, "identifiers": ["row"]}
    release = sf.anonymize(sf.table(people(400), engine=engine), **asked)
    made = release.to_arrow()
    smallest = [min(classes(made, names).values()) for names in sets]
    assert min(smallest) == release.k >= 5
    assert release.verified


@pytest.mark.parametrize(
    ("method", "sets", "told"),
    [("cells", [["height"]], True), ("mondrian", [["age", "city"], ["illness"]], False)],
)
def test_figures_of_parts_are_those_of_the_release(
    method: str, sets: list[list[str]], told: bool
) -> None:
    """Classes that two parts make alike are one, and those cut by parts have no risks told."""
    table = people(300)
    source = sf.table(table, engine="duckdb")
    release = sf.anonymize(source, qi=sets, k=3, method=method, parts=4, identifiers=["row"])
    assert release.details["in_parts"]["parts"] > 1
    sizes = Counter(classes(release.to_arrow(), sets[0]).values())
    number = sum(sizes.values())
    assert release.classes == number
    assert release.utility["average_class_size"] == pytest.approx(300 / number)
    assert release.utility["discernibility"] == sum(size**2 * n for size, n in sizes.items())
    assert bool(release.details["risk"]) == told
    for risk in release.details["risk"]:
        before, after = (len(classes(one, sets[0])) for one in (table, release.to_arrow()))
        assert (risk.marketer, risk.after.marketer) == pytest.approx((before / 300, after / 300))


def test_a_part_may_be_left_out_whole() -> None:
    apart = np.r_[np.repeat(np.arange(10), 6), np.arange(1000, 61000, 3000)]
    table = pa.table({"n": apart, "town": ["a"] * 60 + ["b"] * 20})
    asked = {"qi": ["n", "town"], "k": 3, "boundaries": {"n": {"max_width": 5}}}
    source = sf.table(table, engine="duckdb")
    release = sf.anonymize(source, **asked, method="lattice", parts=3)
    assert (release.rows, release.suppressed_rows) == (60, 20)


def test_rows_keep_their_order_and_what_is_not_blurred(tmp_path: Path) -> None:
    table = people()
    out = tmp_path / "out.parquet"
    key = tmp_path / "key"
    key.write_text(sha256(b"parts").hexdigest())
    key.chmod(0o600)
    sf.anonymize(
        sf.table(table, engine="duckdb"),
        qi=["age", "height"],
        k=5,
        parts=4,
        pseudonyms=["row"],
        key_file=key,
        identifiers=["illness"],
        output=out,
    )
    made = pq.read_table(out)
    assert made.column_names == ["row", "age", "height", "city"]
    assert made.column("city").equals(table.column("city"))
    assert len(set(made.column("row").to_pylist())) == table.num_rows


def test_parts_with_too_few_people_are_merged() -> None:
    random = np.random.default_rng(4)
    rows = pa.table({"age": np.r_[random.integers(0, 50, 300), random.integers(50, 100, 300)]})
    young = pa.table({"age": np.r_[random.integers(0, 50, 900), random.integers(50, 100, 9)]})
    asked = {"qi": ["age"], "k_map": 30, "population": young}
    release = sf.anonymize(rows, **asked, parts=8)
    assert release.verified
    assert release.suppressed_rows == sf.anonymize(rows, **asked).suppressed_rows == 0


def test_what_needs_the_whole_table_is_refused(key: Path) -> None:
    with pytest.raises(ParameterError, match="treats the whole table alike"):
        sf.anonymize(people(), qi=QI, k=5, method="full-domain", parts=2)
    whose = {"person": "patient", "linkable": True, "m": 1, "key_file": key}
    with pytest.raises(ParameterError, match="histories"):
        sf.anonymize(patients(), qi=QI, identifiers=["row"], k=2, parts=2, **whose)
    with pytest.raises(ParameterError, match="parts"):
        sf.anonymize(people(), qi=QI, k=5, parts=0)


def test_persons_written_in_several_ways_are_told_of_in_parts_too() -> None:
    table = patients()
    who = pa.array([f"{'p' if at % 2 else 'P'}{one}" for at, one in enumerate(table["patient"])])
    table = table.set_column(table.column_names.index("patient"), "patient", who)
    asked: dict[str, Any] = {"qi": QI, "k": 4, "person": "patient", "identifiers": ["row"]}
    one = sf.anonymize(table, **asked)
    parts = sf.anonymize(sf.table(table, engine="duckdb"), parts=2, **asked)
    told = [[line for line in release.warnings if "one way" in line] for release in (one, parts)]
    assert told[0] == told[1] != []


def test_a_release_that_lost_a_row_on_the_way_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Persons were counted in rows that were laid aside: the release must have the same."""
    sorted_rows = sql_release._in_sorted_order

    def fewer(*arguments: Any) -> Any:
        for batch in sorted_rows(*arguments):
            yield batch.slice(1)

    monkeypatch.setattr(sql_release, "_in_sorted_order", fewer)
    source = sf.table(patients(), engine="duckdb")
    with pytest.raises(EngineError, match="are not the same"):
        sf.anonymize(source, qi=QI, k=4, person="patient", parts=2, output=tmp_path / "out.csv")
    assert not list(tmp_path.iterdir())


def test_rare_values_are_those_of_few_persons() -> None:
    """Forty rows of one person do not make an age one that may be an end of a range."""
    random = np.random.default_rng(4)
    ages, who = random.integers(20, 80, 2000), np.arange(2000) // 2
    ages[:400], who[:400] = np.repeat(50, 400), 0
    ages[400:] += ages[400:] == 50
    table = pa.table({"age": ages, "patient": who})
    asked: dict[str, Any] = {"qi": ["age"], "k": 3, "person": "patient"}
    source = sf.table(table, engine="duckdb")
    whole = Whole.of(source, Request.of(asked).opened(source), Budget())
    held = dict(zip(whole.values["age"].to_pylist(), whole.held["age"].tolist(), strict=True))
    assert (held[50], whole.persons, whole.most) == (1, 801, 400)
    one = sf.anonymize(table, **asked)
    parts = sf.anonymize(source, parts=2, **asked)
    assert "50" not in "".join({*one.to_arrow()["age"].to_pylist()})
    assert "50" not in "".join({*parts.to_arrow()["age"].to_pylist()})


def test_parts_of_few_persons_are_merged() -> None:
    """Half of the rows are two persons': a part of theirs would be left out."""
    ages = np.arange(400) % 100
    who = np.where(ages < 50, ages % 2, np.arange(400))
    for engine in ("memory", "duckdb"):
        table = sf.table(pa.table({"age": ages, "patient": who}), engine=engine)
        release = sf.anonymize(table, qi=["age"], k=3, person="patient", parts=2)
        assert release.details["in_parts"]["parts"] == 1
        assert release.suppressed_rows == 0


def test_persons_with_one_row_change_no_byte() -> None:
    who = np.random.default_rng(1).permutation(1200)
    names = pa.array([f"P{one * 7919 + 10**7}" for one in who])
    table = people().append_column("patient", names)
    source = sf.table(table, engine="duckdb")
    with_persons = sf.anonymize(source, qi=QI, k=5, parts=4, person="patient")
    without = sf.anonymize(source, qi=QI, k=5, parts=4, identifiers=["patient"])
    assert with_persons.to_arrow().equals(without.to_arrow())
    assert with_persons.details["persons"]["sorted"] is False


def test_parts_are_chosen_when_combinations_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    source = sf.table(people(), engine="duckdb")
    assert "in_parts" not in sf.anonymize(source, qi=QI, k=5).details
    monkeypatch.setattr(solving, "ENOUGH_BYTES", 200_000)
    monkeypatch.setattr(solving, "PART_ROWS", 300)
    assert sf.anonymize(source, qi=QI, k=5).details["in_parts"]["parts"] == 4
    repeated = sf.table(pa.concat_tables([people(100)] * 12), engine="duckdb")
    assert "in_parts" not in sf.anonymize(repeated, qi=QI, k=5).details


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_parts_hold_rows_however_many_are_asked_for(engine: Any) -> None:
    release = sf.anonymize(sf.table(people(), engine=engine), qi=QI, k=2, parts=10**6)
    told = release.details["in_parts"]
    assert 6 <= told["parts"] <= 1200 // solving.FEWEST_ROWS
    assert (told["parts_asked"], told["sample"]) == (10**6, 1200)


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_columns_without_a_finite_number_are_cut_like_others(engine: Any) -> None:
    floats = [np.inf, -np.inf, np.nan, None] * 100
    table = sf.table(pa.table({"odd": floats, "age": list(range(400))}), engine=engine)
    release = sf.anonymize(table, qi=["odd", "age"], k=5, parts=3)
    assert release.verified
    assert release.details["in_parts"]["parts"] == 3


def test_parts_are_cut_where_no_column_has_weight() -> None:
    release = sf.anonymize(people(400), qi=QI, k=5, parts=3, weights=dict.fromkeys(QI, 0))
    assert release.verified
    assert release.details["in_parts"]["parts"] == 3


def test_all_engines_tell_what_the_cuts_cost() -> None:
    here, there = (
        sf.anonymize(sf.table(people(), engine=engine), qi=QI, k=5, parts=4).details["in_parts"]
        for engine in ("memory", "duckdb")
    )
    assert here == there
    assert here["sample_loss_as_one"] > 0


def test_there_are_no_more_combinations_than_values_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of a sample's rows are alone in it, though the table holds each of them many times."""
    codes = np.random.default_rng(3).permutation(400_000) % 40_000
    table = sf.table(pa.table({"a": codes % 200, "b": codes // 200}), engine="duckdb")
    request = Request.of({"qi": ["a", "b"], "k": 5}).opened(table)
    assert solving.combinations(table, ["a", "b"], 0, Budget()) > 100_000
    row = solving._bytes_a_row(table, request, Budget())
    monkeypatch.setattr(solving, "ENOUGH_BYTES", 100_000 * row)
    assert solving.parts_for(table, request, Budget()) is None


def test_numbers_with_too_many_values_are_cut_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parting, "MOST_VALUES", 100)
    source = sf.table(people(), engine="duckdb")
    release = sf.anonymize(source, qi=["age", "height"], k=5, parts=4)
    assert release.verified
    whole = sf.anonymize(people(), qi=["age", "height"], k=5)
    assert release.utility["ncp"] == pytest.approx(whole.utility["ncp"], rel=0.1)
    names = pa.table(
        {"word": [f"n{at}" for at in range(500)], "age": [at % 9 for at in range(500)]}
    )
    with pytest.raises(ParameterError, match="more than 100 distinct values"):
        sf.anonymize(sf.table(names, engine="duckdb"), qi=["word", "age"], k=5, parts=2)


def test_cuts_say_the_same_here_and_in_the_database() -> None:
    table = sf.table(people(), engine="duckdb")
    request = Request.of({"qi": QI, "k": 5}).opened(table)
    whole = Whole.of(table, request, Budget())
    sample = table.sample(1200, QI, 0)
    parting = plan_parts(sample, whole, request, 7)
    assert parting.parts == 7
    entries = sf.table(people()).classes(QI)
    here = np.bincount(parting.of(entries), weights=entries.counts, minlength=7)
    there = table.engine.part_counts(parting)  # type: ignore[attr-defined]
    assert dict(zip(*(c.to_pylist() for c in there.columns), strict=True)) == dict(
        enumerate(here.astype(int).tolist())
    )
    assert here.min() > 0.5 * 1200 / 7


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_a_part_without_diversity_is_solved_with_its_neighbour(engine: Any) -> None:
    """Everybody below 50 has flu: a part of its own would lose them all."""
    ages = np.arange(100).repeat(2)
    ill = np.where(ages < 50, "flu", np.array(["flu", "gout"])[ages % 2])
    table = sf.table(pa.table({"age": ages, "ill": ill}), engine=engine)
    release = sf.anonymize(table, qi=["age"], sensitive=["ill"], k=2, l=2, parts=2)
    assert release.details["in_parts"]["parts"] == 1
    assert (release.rows, release.suppressed_rows) == (200, 0)


def test_failing_parts_are_merged_with_their_neighbours() -> None:
    age = pa.array([40])
    parting = Parting(
        (Cut("age", age, False, 1, 2), Cut("a", age, False, -1, -2), Cut("b", age, False, -3, -4)),
        4,
    )
    counts = np.array([[9], [1], [8], [7]])
    five = compile_rules([KAnonymity(5)])
    into = merged_into(parting, counts, five)
    assert into.tolist() == [0, 0, 1, 2]
    again = merged(parting, into)
    assert again.parts == 3
    assert [(cut.yes, cut.no) for cut in again.cuts] == [(1, 2), (-1, -1), (-2, -3)]
    shared = np.array([[4], [4], [8], [7]])
    into = merged_into(parting, shared, five)
    assert into.tolist() == [0, 0, 1, 2]
    # Four persons here and four there may be the same four.
    into = merged_into(parting, shared, five, overlapping=True)
    assert into.tolist() == [0, 0, 0, 0]
    nothing = merged_into(parting, counts, compile_rules([KAnonymity(25)]))
    assert merged(parting, nothing).cuts == ()
