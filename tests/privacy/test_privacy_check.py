"""Privacy models against their definitions, row by row, and the compiled rules against both."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from samples import sample_path
from sfumato.errors import ColumnError, ParameterError
from sfumato.hierarchy import parse_arx, taxonomy
from sfumato.privacy import (
    AlphaK,
    Closeness,
    DistinctDiversity,
    EntropyDiversity,
    KAnonymity,
    KMap,
    Model,
    Population,
    RecursiveDiversity,
    SensitiveColumn,
    Sensitivity,
    check,
    compile_rules,
)
from sfumato.privacy.check import merged_checks
from sfumato.privacy.classes import ClassHistogram
from sfumato.privacy.rules import holds

VALUES = pa.array(["angina", "asthma", "flu", "gastritis", "ulcer"])
TREE = taxonomy(
    [
        ("angina", "chest"),
        ("asthma", "chest"),
        ("chest", "any"),
        ("flu", "any"),
        ("gastritis", "stomach"),
        ("ulcer", "stomach"),
        ("stomach", "any"),
    ]
)
HEIGHT = {  # of the lowest common ancestor, over the height of the tree
    frozenset((a, b)): 0.0 if a == b else 0.5 if {a, b} in ({0, 1}, {3, 4}) else 1.0
    for a in range(5)
    for b in range(5)
}

tables = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 4), st.integers(1, 3)),
    min_size=1,
    max_size=25,
)


def moved(p: list[float], q: list[float], far: list[list[float]]) -> float:
    """Earth mover's distance as the transport problem that defines it."""
    m = len(p)
    out = [[float(a == i) for a in range(m) for _ in range(m)] for i in range(m)]
    into = [[float(b == j) for _ in range(m) for b in range(m)] for j in range(m)]
    cost = [far[i][j] for i in range(m) for j in range(m)]
    return float(linprog(cost, A_eq=[*out, *into], b_eq=[*p, *q], bounds=(0, None)).fun)


def far_apart(distance: str, total: Counter[int]) -> list[list[float]]:
    occurring = sorted(total)
    far = [[0.0] * 5 for _ in range(5)]
    for i in range(5):
        for j in range(5):
            if distance == "equal":
                far[i][j] = float(i != j)
            elif distance == "hierarchical":
                far[i][j] = HEIGHT[frozenset((i, j))]
            elif i in occurring and j in occurring and len(occurring) > 1:
                steps = abs(occurring.index(i) - occurring.index(j))
                far[i][j] = steps / (len(occurring) - 1)
    return far


def by_definition(model: Model, group: Counter[int], total: Counter[int]) -> bool:
    """Whether one class satisfies a model, from the counts of its sensitive values."""
    size = sum(group.values())
    ranked = sorted(group.values(), reverse=True)
    if isinstance(model, KAnonymity):
        return size >= model.k
    if isinstance(model, DistinctDiversity):
        return len(group) >= model.l
    if isinstance(model, Sensitivity):
        return len(group) >= model.p and size >= model.k
    if isinstance(model, EntropyDiversity):
        entropy = -sum(n / size * math.log(n / size) for n in ranked)
        return entropy >= math.log(model.l) - 1e-9
    if isinstance(model, RecursiveDiversity):
        return ranked[0] < model.c * sum(ranked[model.l - 1 :])
    if isinstance(model, AlphaK):
        share = max(ranked) if model.value is None else group[VALUES.to_pylist().index(model.value)]
        return share <= model.alpha * size + 1e-9 and size >= model.k
    assert isinstance(model, Closeness)
    n = sum(total.values())
    p = [group[c] / size for c in range(5)]
    q = [total[c] / n for c in range(5)]
    return moved(p, q, far_apart(model.distance, total)) <= model.t + 1e-9


MODELS: list[Model] = [
    KAnonymity(2),
    DistinctDiversity(2, "illness"),
    EntropyDiversity(1.7, "illness"),
    RecursiveDiversity(1.5, 2, "illness"),
    Sensitivity(2, 3, "illness"),
    AlphaK(0.5, 2, "illness"),
    AlphaK(0.5, 2, "illness", value="flu"),
    Closeness(0.413, "illness"),
    Closeness(0.237, "illness", "ordered"),
    Closeness(0.311, "illness", "hierarchical", TREE),
]


@given(tables, st.sampled_from(MODELS))
@settings(max_examples=150)
def test_models_by_definition(rows: list[tuple[int, int, int, int]], model: Model) -> None:
    total: Counter[int] = Counter()
    groups: dict[tuple[int, int], Counter[int]] = defaultdict(Counter)
    for age, sex, illness, n in rows:
        groups[age, sex][illness] += n
        total[illness] += n
    age, sex, illness, counts = (np.array(part) for part in zip(*rows, strict=True))
    codes = {"age": age, "sex": sex, "illness": illness}
    values = {"illness": VALUES}
    found = check([model], codes, ["age", "sex"], counts=counts, values=values)
    expected = [by_definition(model, group, total) for group in groups.values()]
    assert found.holds == all(expected)
    (finding,) = found.findings
    assert finding.failing_classes == expected.count(False)
    rows_of = [sum(group.values()) for group in groups.values()]
    assert finding.failing_rows == sum(
        n for n, fine in zip(rows_of, expected, strict=True) if not fine
    )
    assert found.k == min(rows_of)
    assert found.classes == len(groups)

    column = SensitiveColumn.of(illness, counts, VALUES)
    rules = compile_rules([model], {"illness": column})
    for group, fine in zip(groups.values(), expected, strict=True):
        held = np.array([group[c] for c in range(5)])
        assert holds(int(held.sum()), held, rules) == fine


@given(tables, st.sampled_from(MODELS))
def test_rules_are_monotone(rows: list[tuple[int, int, int, int]], model: Model) -> None:
    groups: dict[int, np.ndarray] = defaultdict(lambda: np.zeros(5, dtype=np.int64))
    for age, _, illness, n in rows:
        groups[age][illness] += n
    total = sum(groups.values())
    rules = compile_rules([model], {"illness": SensitiveColumn(total, VALUES)})
    fine = [held for held in groups.values() if holds(int(held.sum()), held, rules)]
    if len(fine) > 1:
        union = fine[0] + fine[1]
        assert holds(int(union.sum()), union, rules)


@given(tables)
@settings(max_examples=40)
def test_measured_values_are_exact(rows: list[tuple[int, int, int, int]]) -> None:
    age, sex, illness, counts = (np.array(part) for part in zip(*rows, strict=True))
    total = Counter(dict.fromkeys(range(5), 0))
    groups: dict[int, Counter[int]] = defaultdict(Counter)
    for a, _, i, n in rows:
        groups[a][i] += n
        total[i] += n
    total = +total
    n = sum(total.values())
    models = [
        EntropyDiversity(1, "illness"),
        RecursiveDiversity(1, 2, "illness"),
        AlphaK(1, 1, "illness"),
        *(Closeness(0, "illness", d, TREE) for d in ("equal", "ordered", "hierarchical")),
    ]
    found = check(
        models,
        {"age": age, "sex": sex, "illness": illness},
        ["age"],
        counts=counts,
        values={"illness": VALUES},
    )
    entropy, recursive, alpha, *distances = (dict(f.measured) for f in found.findings)
    sizes = {a: sum(group.values()) for a, group in groups.items()}
    assert entropy["l"] == pytest.approx(
        min(
            math.exp(-sum(c / sizes[a] * math.log(c / sizes[a]) for c in group.values()))
            for a, group in groups.items()
        )
    )
    ratios = []
    for group in groups.values():
        ranked = sorted(group.values(), reverse=True)
        rest = sum(ranked[1:])
        ratios.append(ranked[0] / rest if rest else math.inf)
    assert recursive["c"] == pytest.approx(max(ratios))
    assert alpha["alpha"] == pytest.approx(
        max(max(g.values()) / sizes[a] for a, g in groups.items())
    )
    for model, measured in zip(models[3:], distances, strict=True):
        assert isinstance(model, Closeness)
        far = far_apart(model.distance, total)
        expected = max(
            moved([g[c] / sizes[a] for c in range(5)], [total[c] / n for c in range(5)], far)
            for a, g in groups.items()
        )
        assert measured["t"] == pytest.approx(expected, abs=1e-9)


def test_several_sets_of_quasi_identifiers() -> None:
    codes = {"age": [0, 0, 1, 1], "zip": [0, 1, 2, 3], "sex": [0, 0, 0, 0]}
    found = check([KAnonymity(2)], codes, [["age", "sex"], ["zip"]])
    assert [finding.holds for finding in found.findings] == [True, False]
    assert [finding.qi for finding in found.findings] == [("age", "sex"), ("zip",)]
    assert not found.holds
    assert check([KAnonymity(4)], codes, [[]]).holds  # the best that any blurring can reach


def test_a_person_with_several_rows_counts_once() -> None:
    codes = {"a": np.array([0, 0, 0, 1, 1, 1]), "s": np.array([0, 1, 1, 0, 0, 1])}
    person = np.array([7, 7, 7, 7, 8, 9])
    models = [KAnonymity(2), AlphaK(0.7, 1, "s")]
    by_rows = check(models, codes, ["a"])
    assert [one.measured for one in by_rows.findings] == [
        {"k": 3},
        {"alpha": pytest.approx(2 / 3), "k": 3},
    ]
    by_persons = check(models, codes, ["a"], person=person)
    assert not by_persons.holds
    assert by_persons.k == 1
    assert by_persons.findings[0].failing_rows == 3
    assert [one.failing_persons for one in by_persons.findings] == [1, 1]
    assert by_rows.findings[0].failing_persons is None
    assert by_persons.findings[1].measured["alpha"] == 1


def test_parts_of_a_table_are_judged_together() -> None:
    codes = {"a": np.array([0, 0, 0, 1, 1, 2]), "s": np.array([0, 1, 2, 0, 1, 0])}
    models = [KAnonymity(2), DistinctDiversity(2, "s"), Closeness(0.2, "s")]
    whole = check(models, codes, ["a"])
    totals = {"s": np.bincount(codes["s"])}
    parts = [
        check(models, {n: c[codes["a"] == a] for n, c in codes.items()}, ["a"], totals=totals)
        for a in range(3)
    ]
    for order in (parts, parts[::-1]):
        found = merged_checks(order)
        assert (found.holds, found.k, found.classes, found.rows) == (False, 1, 3, 6)
        for mine, theirs in zip(found.findings, whole.findings, strict=True):
            assert mine.measured == pytest.approx(theirs.measured)
            assert (mine.holds, mine.failing_rows) == (theirs.holds, theirs.failing_rows)
    assert merged_checks(parts[:2]).findings[0].holds


def test_the_empty_table() -> None:
    found = check([KAnonymity(5), DistinctDiversity(2, "s")], {"a": [], "s": []}, ["a"])
    assert found.holds
    assert (found.rows, found.classes, found.k) == (0, 0, None)
    assert found.findings[0].measured == {"k": None}


def test_entries_of_nobody_do_not_count() -> None:
    found = check([KAnonymity(2)], {"a": [0, 1]}, ["a"], counts=[2, 0])
    assert (found.holds, found.classes, found.rows) == (True, 1, 2)


cells = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=15
)


@given(cells)
def test_wildcards_match_anything(rows: list[tuple[int, int, int]]) -> None:
    star = 2

    def match(a: tuple[int, int, int], b: tuple[int, int, int]) -> bool:
        return all(x == y or star in (x, y) for x, y in zip(a[:2], b[:2], strict=True))

    sizes = [sum(match(row, other) for other in rows) for row in rows]
    distinct = [len({other[2] for other in rows if match(row, other)}) for row in rows]
    first, second, sensitive = (np.array(part) for part in zip(*rows, strict=True))
    found = check(
        [KAnonymity(3), DistinctDiversity(2, "s")],
        {"a": first, "b": second, "s": sensitive},
        ["a", "b"],
        wildcards={"a": [star], "b": [star]},
    )
    assert found.wildcards
    assert found.findings[0].measured == {"k": min(sizes)}
    assert found.findings[1].measured == {"l": min(distinct)}
    assert found.findings[0].failing_rows == sum(size < 3 for size in sizes)
    assert found.findings[1].failing_rows == sum(number < 2 for number in distinct)


def test_k_map_looks_into_the_population() -> None:
    table = {"age": np.array([0, 1, 2])}
    population = Population({"age": np.array([0, 0, 1, 2, 2])}, np.array([1, 2, 1, 5, 5]))
    found = check([KMap(3)], table, ["age"], population=population)
    assert found.findings[0].measured == {"k": 1}
    assert found.findings[0].failing_rows == 1
    assert check([KMap(2)], table, ["age"], population=population).findings[0].failing_rows == 1
    assert check([KMap(1)], table, ["age"], population=population).holds
    starred = check([KMap(3)], table, ["age"], population=population, wildcards={"age": [1]})
    assert starred.findings[0].measured == {"k": 4}
    with pytest.raises(ParameterError, match="population"):
        check([KMap(3)], table, ["age"])
    with pytest.raises(ColumnError, match="population has no column `age`"):
        check([KMap(3)], table, ["age"], population=Population({"sex": np.array([0])}))


def test_bad_columns() -> None:
    codes = {"age": [0, 0], "illness": [0, 1]}
    with pytest.raises(ColumnError, match="Did you mean `age`"):
        check([KAnonymity(2)], codes, ["aeg"])
    with pytest.raises(ColumnError, match="both sensitive and a quasi-identifier"):
        check([DistinctDiversity(2, "age")], codes, ["age"])
    with pytest.raises(ColumnError, match="no column `ilness`"):
        check([DistinctDiversity(2, "ilness")], codes, ["age"])
    values = {"illness": pa.array(["flu", "asthma"])}
    with pytest.raises(ParameterError, match="does not occur"):
        check([AlphaK(0.5, 2, "illness", value="gout")], codes, ["age"], values=values)
    with pytest.raises(ParameterError, match="values of the column"):
        check([AlphaK(0.5, 2, "illness", value="gout")], codes, ["age"])


def test_adult_agrees_with_pycanon() -> None:
    # pyCANON 1.3.6 on the 30,162 rows: k, l, entropy l (rounded down), α and t
    expected = {
        (("sex", "race"), "occupation"): (87, 10, 7, 0.2789115646258503, 0.3249624441807344),
        (("sex", "race"), "age"): (87, 33, 27, 0.08045977011494253, 0.09193571485872032),
        (("sex", "race", "marital-status"), "occupation"): (1, 1, 1, 1.0, 0.8766328492805519),
        (("sex", "race", "marital-status", "workclass"), "age"): (1, 1, 1, 1.0, 0.5857855841367414),
    }
    table = pq.read_table(sample_path("arx_adult.parquet"))
    codes = {}
    for name in table.column_names:
        column = table[name].combine_chunks()
        values = column.unique().sort()
        codes[name] = np.asarray(pa.compute.index_in(column, value_set=values)).astype(np.uint8)
    for (qi, column_name), (k, distinct, entropy, alpha, t) in expected.items():
        distance = "ordered" if column_name == "age" else "equal"
        models = [
            KAnonymity(1),
            DistinctDiversity(1, column_name),
            EntropyDiversity(1, column_name),
            AlphaK(1, 1, column_name),
            Closeness(1, column_name, distance),
        ]
        found = [dict(f.measured) for f in check(models, codes, list(qi)).findings]
        assert found[0] == {"k": k}
        assert found[1] == {"l": distinct}
        assert math.floor(found[2]["l"] + 1e-9) == entropy
        assert found[3]["alpha"] == pytest.approx(alpha, rel=1e-12)
        assert found[4]["t"] == pytest.approx(t, rel=1e-12)


def test_examples_of_the_t_closeness_paper() -> None:
    # Li, Li & Venkatasubramanian, section 5.2: salaries of 3k to 11k, one each; the classes
    # {3k, 4k, 5k} and {6k, 8k, 11k} are 0.375 and 0.167 away from the table
    salary = np.array([0, 1, 2, 3, 5, 8, 4, 6, 7])
    classes = ClassHistogram.of(np.repeat([0, 1, 2], 3), 3, salary, 9)
    assert classes.distance_ordered()[:2].tolist() == pytest.approx([0.375, 1 / 6])


def test_hierarchies_may_be_files() -> None:
    h = parse_arx("flu;any\nulcer;any\n")
    codes = {"g": [0, 0, 1, 1], "s": [0, 0, 1, 1]}
    model = Closeness(0.5, "s", "hierarchical", h)
    found = check([model], codes, ["g"], values={"s": pa.array(["flu", "ulcer"])})
    assert found.holds
    with pytest.raises(ParameterError, match="values of the column"):
        check([model], codes, ["g"])
