"""`anonymize` as a whole: sets of quasi-identifiers, figures, warnings, engines, bad input."""

from __future__ import annotations

import json
import shutil
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.anonymization.problem import group_view, piece_view
from sfumato.anonymization.registry import METHODS
from sfumato.anonymization.request import Request
from sfumato.anonymization.verb import components, solve
from sfumato.errors import ColumnError, HierarchyError, ParameterError, PromiseError
from sfumato.hierarchy import Hierarchy
from sfumato.privacy import DistinctDiversity, KAnonymity
from sfumato.release.beside import NOT_PROMISED
from sfumato.release.promise import Anonymity
from sfumato.release.several_releases import combined
from sfumato.utility import summarize

JOBS = Hierarchy.from_levels(
    [["nurse", "cook", "clerk", "judge"], ["care", "care", "desk", "desk"], ["*"] * 4]
)
MODELS = {
    "k": {"k": 4},
    "distinct": {"k": 2, "l": 2},
    "entropy": {"l": 1.5, "l_kind": "entropy"},
    "recursive": {"l": 2, "l_kind": "recursive", "c": 4.0},
    "t": {"k": 2, "t": 0.3},
    "p": {"k": 3, "p": 2},
    "alpha": {"k": 2, "alpha": 0.8},
}


def people(rows=400, seed=0):
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "age": random.integers(18, 80, rows),
            "job": np.array(["nurse", "cook", "clerk", "judge"])[random.integers(0, 4, rows)],
            "zip": random.integers(0, 40, rows),
            "ill": np.array(["flu", "cold", "gout"])[random.integers(0, 3, rows)],
        }
    )


def cells(release, *names):
    table = pa.Table.from_batches(list(release.table.batches(names)))
    return list(zip(*(table.column(name).to_pylist() for name in names), strict=True))


@pytest.mark.crossed(8)
@pytest.mark.parametrize("engine", ["memory", "duckdb"])
@pytest.mark.parametrize("model", MODELS)
def test_every_model_holds_on_embedded_engines(engine, model):
    table = people()
    release = sf.anonymize(
        sf.table(table, engine=engine), qi=["age", "job"], sensitive=["ill"], **MODELS[model]
    )
    classes = defaultdict(Counter)
    for age, job, ill in cells(release, "age", "job", "ill"):
        classes[age, job][ill] += 1
    whole = Counter(table.column("ill").to_pylist())
    share = {ill: count / table.num_rows for ill, count in whole.items()}
    for held in classes.values():
        size, counts = held.total(), sorted(held.values(), reverse=True)
        own = np.array(counts) / size
        moved = sum(abs(held[ill] / size - share[ill]) for ill in share) / 2
        assert {
            "k": size >= 4,
            "distinct": size >= 2 and len(held) >= 2,
            "entropy": -(own * np.log(own)).sum() >= np.log(1.5) - 1e-9,
            "recursive": len(counts) >= 2 and counts[0] < 4 * sum(counts[1:]),
            "t": moved <= 0.3 + 1e-9,
            "p": size >= 3 and len(held) >= 2,
            "alpha": size >= 2 and own.max() <= 0.8 + 1e-9,
        }[model]
    assert release.verified


@pytest.mark.crossed(16)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("demand", ["k", "l", "sets", "actions", "boundaries"])
def test_every_method_keeps_its_promise(method, demand):
    one = method in ("quantiles", "optimal-1d")  # work on one column, promise k only
    sets = [["age"]] if one else [["age", "job", "zip"]]
    asked = {"k": 4}
    if demand == "l" and not one:
        asked |= {"sensitive": ["ill"], "l": 2}
    elif demand == "sets":
        sets = [["age"] if one else ["age", "job"], ["zip"]]
    elif demand == "actions":
        asked["columns"] = {"age": {"top": 60, "round": 3}, "ill": {"recode": {"flu": "cold"}}}
    elif demand == "boundaries" and not one:
        asked["hierarchies"] = {"job": JOBS}
        asked["boundaries"] = {"job": {"marks": ["care", "clerk", "judge"]}}
    release = sf.anonymize(people(), qi=sets, method=method, **asked)
    for names in sets:
        assert min(Counter(cells(release, *names)).values()) >= 4
    if demand == "boundaries" and not one:
        allowed = {"nurse", "cook", "care", "clerk", "judge"}
        assert {job for (job,) in cells(release, "job")} <= allowed
    if demand == "actions":
        assert {ill for (ill,) in cells(release, "ill")} == {"cold", "gout"}


@pytest.mark.parametrize("relaxed", [False, True])
def test_engines_write_the_same_bytes(tmp_path, relaxed):
    for engine in ("memory", "duckdb"):
        sf.anonymize(
            sf.table(people(), engine=engine),
            qi=["age", "zip"],
            k=5,
            sensitive=["ill"],
            l=2,
            relaxed=relaxed,
            columns={"age": {"top": 70}},
            output=tmp_path / f"{engine}.csv",
        )
    assert (tmp_path / "memory.csv").read_bytes() == (tmp_path / "duckdb.csv").read_bytes()


@given(
    st.lists(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=3, unique=True), min_size=1)
)
def test_components_share_no_column_and_lose_no_set(sets):
    given_sets = tuple(tuple(names) for names in sets)
    parts = components(given_sets)
    assert Counter(names for part in parts for names in part) == Counter(given_sets)
    columns = [{name for names in part for name in names} for part in parts]
    assert sum(map(len, columns)) == len(set().union(*columns))
    for part in parts:  # connected: growing from one set reaches all
        reached, rest = set(part[0]), list(part[1:])
        while touching := [names for names in rest if reached & set(names)]:
            reached.update(*touching)
            rest = [names for names in rest if names not in touching]
        assert not rest


def test_sets_without_a_common_column_do_not_pay_for_each_other():
    apart = sf.anonymize(people(), qi=[["age", "job"], ["zip"]], k=5)
    together = sf.anonymize(people(), qi=["age", "job", "zip"], k=5)
    alone = sf.anonymize(people(), qi=["age", "job"], k=5)
    assert min(Counter(cells(apart, "age", "job")).values()) >= 5
    assert min(Counter(cells(apart, "zip")).values()) >= 5
    assert apart.utility["ncp"] < together.utility["ncp"]
    assert apart.utility["columns"]["age"] == alone.utility["columns"]["age"]
    assert [risk.qi for risk in apart.details["risk"]] == [("age", "job"), ("zip",)]


def test_sets_that_overlap_hold_each():
    release = sf.anonymize(
        people(), qi=[["age", "job"], ["job", "zip"]], k=4, sensitive=["ill"], l=2
    )
    for names in (["age", "job"], ["job", "zip"]):
        assert min(Counter(cells(release, *names)).values()) >= 4
    assert len(release.findings[0].measured["checks"]) == 4


def test_rows_suppressed_for_one_set_are_missing_from_no_class_of_another():
    table = pa.table({"job": ["nurse"] * 3 + ["judge"], "zip": [1, 1, 2, 2]})
    release = sf.anonymize(
        table,
        qi=[["job"], ["zip"]],
        k=2,
        hierarchies={"job": JOBS},
        boundaries={"job": {"marks": ["nurse", "judge"]}},
    )
    assert release.suppressed_rows == 1
    assert min(Counter(cells(release, "zip")).values()) >= 2
    assert any("within the boundaries" in warning for warning in release.warnings)


@given(st.integers(0, 1000), st.integers(1, 8), st.booleans(), st.booleans(), st.booleans())
@settings(max_examples=40)
def test_figures_are_those_of_the_utility_room(seed, k, relaxed, trees, bounded):
    """Measured there from every entry, here from groups and values."""
    asked = {"qi": ["age", "job", "zip"], "k": k, "relaxed": relaxed, "weights": {"age": 3}}
    if trees:
        asked["hierarchies"] = {"job": JOBS}
        if bounded:
            asked["boundaries"] = {"job": {"marks": ["care", "clerk", "judge"]}}
    table = people(60, seed)
    opened = sf.table(table)
    (part,) = solve(opened, Request.of(asked).opened(opened), sf.Budget())
    view = piece_view(part.problem, part)
    told = summarize(view, weights={"age": 3.0})
    got = sf.anonymize(table, **asked).utility
    for mine, theirs in {
        "ncp": told.certainty_penalty,
        "columns": told.columns,
        "information_loss": told.information_loss,
        "granularity": told.granularity,
        "non_uniform_entropy": told.non_uniform_entropy,
        "discernibility": told.discernibility,
        "weighted_discernibility_by_label": told.weighted_discernibility_by_label,
        "average_class_size": told.average_class_size,
        "distribution": told.distribution,
    }.items():
        assert got[mine] == pytest.approx(theirs, abs=1e-9), mine
    assert sorted(group_view(part.problem, part).class_sizes) == sorted(view.class_sizes)


def test_risk_before_and_after_is_that_of_the_tables():
    table = people()
    release = sf.anonymize(table, qi=["age", "job"], k=5, sensitive=["ill"], l=2)
    (found,) = release.details["risk"]
    measured = sf.risk(table, ["age", "job"], released=release.table)
    assert found == measured


def test_excluded_columns_are_not_published():
    table = sf.table(people(), exclude=["zip"])
    release = sf.anonymize(table, qi=["age"], k=5)
    assert release.table.columns == ("age", "job", "ill")


def said(release):
    """Warnings beside those about what is not promised."""
    return [w for w in release.warnings if not w.startswith(NOT_PROMISED)]


def test_a_target_that_is_neither_sensitive_nor_blurred_steers_the_cuts():
    random = np.random.default_rng(2)
    a, b = random.integers(0, 40, 2000), random.integers(0, 40, 2000)
    table = pa.table({"a": a, "b": b, "ill": np.where(a > 13, "yes", "no")})
    mix = {"spread": 0, "priority": 0, "gain": 1}
    release = sf.anonymize(table, qi=["a", "b"], k=20, target="ill", cut_weights=mix)
    assert release.utility["columns"]["a"] < release.utility["columns"]["b"]
    assert not said(release)


def test_warning_where_the_target_is_sensitive():
    release = sf.anonymize(people(), qi=["age"], k=5, sensitive=["ill"], l=2, target="ill")
    assert any("target `ill` is also sensitive" in warning for warning in release.warnings)


def test_warning_where_identifiers_stay():
    table = people().append_column("ssn", pa.array([f"{n:09d}" for n in range(400)]))
    kept = sf.anonymize(table, qi=["age"], k=5, rows_are_people=True)
    assert any("`ssn`" in warning for warning in kept.warnings)
    (told,) = said(sf.anonymize(table, qi=["age"], k=5, identifiers=["ssn"]))
    assert "alike than others in `ssn`" in told  # it numbers the rows
    assert not said(sf.anonymize(table, qi=["age"], k=5, identifiers=["ssn"], sort=True))


def test_warning_where_the_folder_holds_a_release_of_the_same_table(tmp_path):
    path = tmp_path / "people.parquet"
    pq.write_table(people(), path)
    (tmp_path / "broken.certificate.json").write_text("{")
    first = sf.anonymize(path, qi=["age"], k=5, output=tmp_path / "first.csv")
    assert not said(first)
    second = sf.anonymize(path, qi=["zip"], k=5, output=tmp_path / "second.csv")
    (warning,) = said(second)
    assert "first.csv" in warning
    pq.write_table(people(seed=9), path)
    third = tmp_path / "third.csv"
    assert not said(sf.anonymize(path, qi=["zip"], k=5, output=third))
    assert not said(sf.anonymize(path, qi=["zip"], k=5, output=third, force=True))


def test_two_releases_may_hide_nobody_together(tmp_path):
    """Each shows one of two columns in full and blurs the other."""
    table = people().append_column("id", pa.array(range(400)))
    for name, weights in (("a", {"age": 99}), ("b", {"zip": 99})):
        sf.anonymize(
            table,
            qi=["age", "zip"],
            k=5,
            weights=weights,
            cut_weights={"spread": 0, "priority": 1},
            rows_are_people=True,
            output=tmp_path / f"{name}.csv",
        )
    alone = sf.verify(tmp_path / "a.csv")
    assert alone.holds
    both = sf.verify(tmp_path / "a.csv", others=[tmp_path / "b.csv"], row_key="id")
    assert not both.holds
    (finding,) = [f for f in both.findings if not f.holds]
    a, b = (dict(_rows(tmp_path / f"{n}.csv")) for n in "ab")
    smallest = min(Counter((a[key], b[key]) for key in a).values())
    assert finding.measured["checks"][0].measured["k"] == smallest < 5
    shutil.copy(tmp_path / "a.csv", tmp_path / "c.csv")
    assert sf.verify(tmp_path / "a.csv", others=[tmp_path / "c.csv"], row_key="id").holds


def _rows(path):
    table = sf.table(path)
    for batch in table.batches(["id", "age", "zip"]):
        for row in batch.to_pylist():
            yield row["id"], (row["age"], row["zip"])


def test_a_row_that_is_missing_is_told_from_one_whose_cells_are():
    first = pa.table({"id": [1, 2, 3, 4], "age": ["*"] * 4})
    promise = Anonymity((KAnonymity(2),), (("age", "zip"),))
    for rows, holds in (([1, 2, 3, 4], True), ([1, 2], True), ([1, 2, 3], False)):
        second = pa.table({"id": rows, "zip": pa.array([None] * len(rows), pa.string())})
        both, stated = combined([sf.table(first), sf.table(second)], "id", promise)
        assert stated.check(both).holds is holds


def test_a_row_that_one_release_lacks_gives_itself_away():
    first = pa.table({"id": [1, 2, 3], "age": ["2*"] * 3, "ill": ["flu", "cold", "flu"]})
    second = pa.table({"id": [1, 2], "age": ["*", "*"]})
    models = (KAnonymity(2), DistinctDiversity(2, "ill"))
    promise = Anonymity(models, (("age",),), ("ill",))
    found = sf.verify(first, promises=[promise], others=[second], row_key="id")
    assert not found.holds
    assert found.findings[-1].measured["checks"][0].failing_rows == 1
    told = "age in 1, age in 2, presence in release 1, presence in release 2:"
    assert told in found.findings[-1].say
    for said in ({}, {"row_key": "id", "other_rows": True}):
        with pytest.raises(ParameterError, match="one of the two must be said"):
            sf.verify(first, promises=[promise], others=[second], **said)
    with pytest.raises(ParameterError, match="one of the two must be said"):
        sf.verify(first, promises=[promise], row_key="id")
    with pytest.raises(ColumnError, match="Did you mean `id`"):
        sf.verify(first, promises=[promise], others=[second], row_key="idd")
    with pytest.raises(ColumnError, match="does not tell all rows apart"):
        sf.verify(first, promises=[promise], others=[first], row_key="age")
    other = pa.table({"id": ["x", "y"], "age": ["*", "*"]})
    with pytest.raises(ColumnError, match="another type"):
        sf.verify(first, promises=[promise], others=[other], row_key="id")


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"k": 401}, ParameterError, "k = 401 is larger than the table, which has 400 rows"),
        ({"qi": ["agee"]}, ColumnError, "Did you mean `age`"),
        ({"qi": ["age", "age"]}, ColumnError, "named twice"),
        ({"qi": [["age"], []]}, ParameterError, "is empty"),
        ({"qi": None}, ParameterError, "no quasi-identifiers"),
        ({"sensitive": ["age"], "l": 2}, ColumnError, "at the same time"),
        ({"sensitive": ["ill"], "l": 4}, ParameterError, "hold 3 distinct values.*l <= 3"),
        ({"sensitive": ["ill"], "l": 2.5}, ParameterError, "not a whole number"),
        ({"sensitive": ["ill"], "l": 2, "l_kind": "recursive"}, ParameterError, "needs c"),
        (
            {"sensitive": ["ill"], "l": 3, "l_kind": "recursive", "c": 0.1},
            ParameterError,
            "rows hold one value.*Ask for c >",
        ),
        (
            {"sensitive": ["ill"], "l": 3.0, "l_kind": "entropy"},
            ParameterError,
            "rows hold one value.*l <= 2.9",
        ),
        ({"sensitive": ["ill"], "alpha": 0.2}, ParameterError, "rows hold one value.*α >= 0.3"),
        ({"sensitive": ["ill"], "p": 4}, ParameterError, "p <= 3"),
        ({"sensitive": ["ill"], "t": -1}, ParameterError, "t >= 0"),
        ({"sensitive": ["ill"], "t": 0.1, "t_distance": "far"}, ParameterError, "no distance"),
        (
            {"sensitive": ["ill"], "t": 0.1, "t_distance": "hierarchical"},
            ParameterError,
            "needs a hierarchy",
        ),
        ({"hierarchies": {"job": JOBS}, "boundaries": {"job": {"marks": ["town"]}}},
         HierarchyError, "town"),
        ({"boundaries": {"job": {"marks": ["care"]}}}, HierarchyError, "this column has none"),
        ({"boundaries": {"ill": {"max_width": 3}}}, ColumnError, "not a quasi-identifier"),
        ({"boundaries": {"age": {"max_with": 3}}}, ParameterError, "Did you mean `max_width`"),
        ({"identifiers": ["age"]}, ColumnError, "at the same time"),
        ({"c": 3.0}, ParameterError, "c only applies to recursive"),
        ({"l_kind": "entropy"}, ParameterError, "entropy l-diversity needs l"),
        ({"t_distance": "equal"}, ParameterError, "Ask for it, e.g. t=0.2"),
        (
            {"sensitive": ["ill"], "t": 0.5, "t_distance": {"il": "equal"}},
            ColumnError,
            "Did you mean `ill`",
        ),
        ({"pseudonyms": ["zip"]}, ParameterError, "secret key"),
        ({"target": "il"}, ColumnError, "Did you mean `ill`"),
        (
            {
                "k": 150,
                "hierarchies": {"job": JOBS},
                "boundaries": {"job": {"marks": ["nurse", "cook", "clerk", "judge"]}},
                "sensitive": ["ill"],
                "l": 2,
            },
            ParameterError,
            "all 400 rows would have to be left out.*k <= 1.., l <= 3 for `ill`",
        ),
    ],
)  # fmt: skip
def test_bad_demands_are_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        sf.anonymize(people(), **{"qi": ["age", "job"], "k": 5, **arguments})


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("nurse;*\ncook;*\nclerk;*\n", "job"),
        ("nurse;a\ncook;a\nclerk;b\njudge;b\n", "root"),
        ("nurse;*\nnurse;*\ncook;*\nclerk;*\njudge;*\n", "line 2"),
        ("nurse;x;*\ncook;*\n", "line 2 has 2 fields"),
    ],
)
def test_bad_hierarchies_are_refused(tmp_path, lines, words):
    (tmp_path / "job.csv").write_text(lines)
    with pytest.raises(HierarchyError, match=words):
        sf.anonymize(people(), qi=["age", "job"], k=5, hierarchies=tmp_path)


def test_an_empty_table_has_nothing_to_release():
    with pytest.raises(ParameterError, match="0 rows"):
        sf.anonymize(people(0), qi=["age"], k=2)


def test_a_method_that_lies_publishes_nothing(tmp_path, monkeypatch):
    """Whatever a method returns, the written output is measured by other code."""
    from sfumato.anonymization.methods import mondrian
    from sfumato.anonymization.problem import grouped

    monkeypatch.setattr(
        mondrian, "solve", lambda problem: grouped(problem, np.arange(problem.entries.entries))
    )
    with pytest.raises(PromiseError, match="nothing was published"):
        sf.anonymize(people(), qi=["age", "job"], k=5, output=tmp_path / "out.csv")
    assert list(tmp_path.iterdir()) == []


def test_a_search_that_takes_all_its_time_is_still_published(tmp_path, monkeypatch):
    from sfumato.anonymization.methods import mondrian

    cut = mondrian.solve

    def slowly(problem):
        problem.budget.seconds = 0
        assert problem.budget.spent()
        return cut(problem)

    monkeypatch.setattr(mondrian, "solve", slowly)
    release = sf.anonymize(
        people(), qi=["age"], k=5, budget=sf.Budget(seconds=60), output=tmp_path / "out.csv"
    )
    assert release.verified


def test_a_method_that_ignores_boundaries_publishes_nothing(monkeypatch):
    from sfumato.anonymization.methods import mondrian
    from sfumato.anonymization.problem import grouped

    def in_one_group(problem):
        return grouped(problem, np.zeros(problem.entries.entries, dtype=np.int64))

    monkeypatch.setattr(mondrian, "solve", in_one_group)
    asked = {"qi": ["age"], "k": 5}
    with pytest.raises(PromiseError, match="400 cells of `age` beyond"):
        sf.anonymize(people(), boundaries={"age": {"max_width": 9}}, **asked)
    assert sf.anonymize(people(), boundaries={"age": {"max_width": 90}}, **asked).k == 400


@pytest.mark.postgres
@pytest.mark.parametrize("sets", [[["age", "job"], ["zip"]], [["age", "job"], ["age", "zip"]]])
def test_rows_of_postgres_stay_there(sets, postgres, postgres_schema, tmp_path, monkeypatch):
    table = people()
    monkeypatch.chdir(tmp_path)
    with postgres.connect() as connection:
        connection.execute(
            f"CREATE TABLE {postgres_schema}.people (age bigint, job text, zip bigint, ill text)"
        )
        with connection.cursor().copy(f"COPY {postgres_schema}.people FROM STDIN") as copy:
            for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
                copy.write_row(row)
    source = f"{postgres.url}#{postgres_schema}.people"
    asked = {"qi": sets, "k": 5, "columns": {"age": {"top": 60}}}
    with sf.table(source) as opened:
        mapped = sf.anonymize(table.slice(0, 90), qi=["age", "job"], k_map=9, population=opened)
        assert mapped.findings[0].holds
        foreseen = sf.anonymize(opened, **asked)
        release = sf.anonymize(opened, output=f"{postgres_schema}.released", **asked)
    here = sf.anonymize(table, **asked)
    assert foreseen.utility == release.utility == here.utility
    assert release.k == here.k
    with sf.table(f"{postgres.url}#{postgres_schema}.released") as written:
        assert written.class_sizes(["age", "job"]).to_dict() == Counter(
            Counter(cells(here, "age", "job")).values()
        )
    record = json.loads((tmp_path / f"{postgres_schema}.released.certificate.json").read_text())
    assert record["k"] == release.k


@pytest.mark.spark
def test_rows_of_spark_are_never_collected(spark, tmp_path, monkeypatch):
    """Only counted combinations come to the driver, however many rows there are."""
    from pyspark.sql.classic.dataframe import DataFrame

    rows, combinations = 20_000, 5 * 4
    random = np.random.default_rng(0)
    table = pa.table(
        {
            "age": random.integers(20, 25, rows),
            "job": np.array(["nurse", "cook", "clerk", "judge"])[random.integers(0, 4, rows)],
            "pay": random.normal(size=rows),
        }
    )
    frame = spark.createDataFrame(table)
    fetched = []

    def counting(name):
        original = getattr(DataFrame, name)

        def fetch(self, *arguments, **options):
            found = original(self, *arguments, **options)
            fetched.append(found.num_rows if name == "toArrow" else len(found))
            return found

        monkeypatch.setattr(DataFrame, name, fetch)

    def refuse(self, *arguments, **options):
        raise AssertionError("rows were fetched")

    counting("toArrow")
    counting("collect")
    for name in ("toPandas", "toLocalIterator", "tail"):
        monkeypatch.setattr(DataFrame, name, refuse)
    release = sf.anonymize(frame, qi=["age", "job"], k=1_100, output=tmp_path / "out.parquet")
    assert release.verified
    assert release.k >= 1_100
    assert fetched
    assert max(fetched) <= combinations
    with pytest.raises(AssertionError, match="rows were fetched"):  # the watch works
        list(sf.table(frame).batches())
    frame.toArrow()
    assert max(fetched) == rows
    monkeypatch.undo()
    written = spark.read.parquet(str(tmp_path / "out.parquet"))
    here = sf.anonymize(table, qi=["age", "job"], k=1_100)
    counted = {
        (r["age"], r["job"]): r["count"] for r in written.groupBy("age", "job").count().collect()
    }
    assert counted == Counter(cells(here, "age", "job"))


@pytest.mark.parametrize("parts", [{}, {"parts": 3}], ids=["whole", "parts"])
@pytest.mark.parametrize(("far", "said"), [(987654.3, "highest"), (-987654.3, "lowest"), (61, "")])
def test_a_range_that_ends_beside_a_lonely_number_is_pointed_out(
    far: float, said: str, parts: dict[str, int]
) -> None:
    numbers = [40.0 + at / 4 for at in range(80)] + [far]
    people = sf.table(pa.table({"num": numbers}), engine="duckdb" if parts else "memory")
    found = sf.anonymize(people, k=5, qi=["num"], **parts)
    told = [one for one in found.warnings if "ends beside a number" in one]
    assert len(told) == bool(said)
    assert all(f"the {said} range of `num`" in one and "987" not in one for one in told)


def test_a_range_that_ends_beside_a_lonely_amount_of_money_is_pointed_out(tmp_path: Path) -> None:
    """Cells that all have two places are decimals."""
    (tmp_path / "paid.csv").write_text(
        "\n".join(["paid", *(f"{40 + at / 4:.2f}" for at in range(80)), "987654.30"])
    )
    found = sf.anonymize(tmp_path / "paid.csv", k=5, qi=["paid"])
    assert [one for one in found.warnings if "highest range of `paid` ends beside a number" in one]


@pytest.mark.filterwarnings("error")
def test_a_range_that_ends_beside_a_lonely_moment_is_pointed_out() -> None:
    moments = [f"2001-01-01 {at // 4:02d}:{at % 4 * 15:02d}:00Z" for at in range(80)]
    kind = pa.timestamp("us", tz="UTC")
    table = pa.table({"seen": pa.array([*moments, "2033-03-03 03:33:33Z"]).cast(kind)})
    found = sf.anonymize(table, k=5, qi=["seen"])
    assert [one for one in found.warnings if "highest range of `seen` ends beside a date" in one]


@pytest.mark.parametrize(("far", "said"), [("1899-12-24", "lowest"), ("2001-04-01", "")])
def test_a_range_that_ends_beside_a_lonely_date_is_pointed_out(far: str, said: str) -> None:
    days = [f"2001-{1 + at // 28:02d}-{1 + at % 28:02d}" for at in range(80)] + [far]
    table = pa.table({"day": pa.array(days).cast(pa.date32())})
    found = sf.anonymize(table, k=5, qi=["day"])
    told = [one for one in found.warnings if "ends beside a date" in one]
    assert len(told) == bool(said)
    assert all(f"the {said} range of `day`" in one and "1899" not in one for one in told)
