"""Priorities and cut points learned from queries."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.anonymization.workload import Predicate, QueryLog
from sfumato.errors import ParameterError, SourceError
from sfumato.hierarchy import Ranges, ValueSets


def log(*queries):
    return QueryLog.of(list(queries))


def test_columns_are_counted_once_a_query_and_by_any_spelling():
    found = log(
        "SELECT t.AGE, avg(pay) FROM t WHERE age > 3 AND Sex = 'F' GROUP BY age",
        "SELECT count(*) FROM t JOIN u ON t.zip = u.zip",
    )
    # age 1, sex 1, zip 1, job 0, and one more for each
    assert found.weights(["age", "sex", "zip", "job"]) == {
        "age": 8 / 7, "sex": 8 / 7, "zip": 8 / 7, "job": 4 / 7,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("query", "cuts"),
    [
        ("age >= 30", [1]),
        ("age > 30", [2]),
        ("age < 30", [1]),
        ("age <= 30", [2]),
        ("30 <= age", [1]),
        ("age = 30", [1, 2]),
        ("age BETWEEN 25 AND 35", [1, 2]),
        ("age IN (20, 21)", [1]),
        ("NOT (age > 30.5 OR sex = 'F')", [2]),
        ("age > 1000", []),
        ("age > 'old'", []),
        ("age > other", []),
        ("SELECT 1 FROM t WHERE age > (SELECT max(age) FROM u WHERE age <> 20)", [0]),
    ],
)
def test_where_predicates_cut(query, cuts):
    shapes = {
        "age": Ranges(pa.array([20, 21, 30, 40, None]), "age"),
        "sex": ValueSets(pa.array(["F", "M"]), "sex"),
    }
    assert log(query).cuts(shapes).get("age", []) == cuts


def test_dates_cut():
    day = Ranges(pa.array(["2020-01-01", "2020-06-01", "2021-01-01"]).cast(pa.date32()), "day")
    assert log("day >= DATE '2020-03-01'").cuts({"day": day}) == {"day": [0]}
    assert log("day >= '2020-06-01'").cuts({"day": day}) == {"day": [0]}


def test_replayed_queries_select_what_sql_selects():
    values = {"age": pa.array([20, 30, None]), "sex": pa.array(["F", "M"])}
    queries = log(
        "SELECT * FROM t WHERE age > 25 AND (sex = 'F')",
        "age <> 20",
        "age > 25 OR sex = 'F'",  # no conjunction
        "pay > 3 AND age > 25",  # of another column
        "SELECT age FROM t",
    ).replayed(values)
    assert [{n: m.tolist() for n, m in q.conditions.items()} for q in queries] == [
        {"age": [False, True, False], "sex": [True, False]},
        {"age": [False, True, False]},
    ]


def test_lines_that_do_not_parse_are_named_and_passed_over(tmp_path):
    path = tmp_path / "queries.sql"
    path.write_text(
        "-- what the ward asks\nSELECT age FROM t\nWHERE sex = 'F';\n\nSELECT FROM WHERE (;\n"
        "DROP TABLE t;\nage >= 65;\n"
    )
    found = QueryLog.read(path)
    assert len(found.queries) == 2
    assert [line for line, _ in found.skipped] == [5, 6]
    (warning,) = found.warnings(["age", "sex"])
    assert "2 queries were skipped (line 5: it does not parse" in warning
    assert "line 6: it is neither" in warning


def test_columns_that_the_table_does_not_have_are_named():
    found = log("agee >= 65 AND Sex = 'F'", "SELECT pay FROM t WHERE age > 3")
    assert found.warnings(["age", "sex", "pay"]) == (
        "the query log asks about `agee`, which the table does not have",
    )
    assert found.warnings(["agee", "age", "SEX", "pay"]) == ()


def test_one_query_a_line_where_there_are_no_semicolons(tmp_path):
    path = tmp_path / "queries.sql"
    path.write_text("age > 3\nage >\nsex = 'F'\n")
    found = QueryLog.read(path)
    assert len(found.queries) == 2
    assert found.skipped[0][0] == 2


def test_logs_that_are_of_no_use(tmp_path):
    with pytest.raises(SourceError, match="no such file"):
        QueryLog.read(tmp_path / "nowhere.sql")
    empty = tmp_path / "empty.sql"
    empty.write_text("-- nothing\n")
    with pytest.raises(ParameterError, match="no query"):
        QueryLog.read(empty)
    binary = tmp_path / "binary.sql"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(SourceError, match="not UTF-8"):
        QueryLog.read(binary)


def test_a_predicate_of_another_type_selects_nothing():
    assert Predicate("age", "<", ("x",)).mask(pa.array([1, 2])) is None


def test_a_release_answers_its_workload_better():
    random = np.random.default_rng(5)
    table = pa.table({name: random.integers(0, 100, 3000) for name in ("a", "b", "c")})
    queries = [f"SELECT count(*) FROM t WHERE a >= {x} AND a < {x + 10}" for x in range(0, 100, 10)]
    asked = {"qi": ["a", "b", "c"], "k": 20}
    aware = sf.anonymize(table, workload=queries, **asked)
    # the plain release is asked the same queries, but does not know them
    from sfumato.anonymization.problem import piece_view
    from sfumato.anonymization.request import Request
    from sfumato.anonymization.verb import solve
    from sfumato.utility import answer_workload

    opened = sf.table(table)
    (part,) = solve(opened, Request.of(asked).opened(opened), sf.Budget())
    values = {n: part.problem.entries.values_of(n) for n in asked["qi"]}
    plain = answer_workload(piece_view(part.problem, part), QueryLog.of(queries).replayed(values))
    told = aware.utility["queries"]
    assert told["answered"] == 10
    assert told["precision"] > plain.precision
    assert aware.k >= 20
