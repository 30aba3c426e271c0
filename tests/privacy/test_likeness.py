"""β-likeness: by its definition, compiled, reached, and everywhere a model is."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from cli_tools import sfumato
from sfumato.anonymization.request import Request
from sfumato.errors import ParameterError
from sfumato.privacy import Likeness, SensitiveColumn, check, compile_rules, require_reachable
from sfumato.privacy.rules import holds, recounted
from sfumato.web.choices import DEMANDS, Choices

rows = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4)), min_size=1, max_size=30)
betas = st.sampled_from([0.1, 0.25, 0.5, 1.0, 2.0, 7.0])
kinds = st.sampled_from(["basic", "enhanced"])


def by_definition(group: Counter[int], total: Counter[int], beta: float, kind: str) -> bool:
    """Whether a class keeps every value's gain within its limit."""
    for value, held in group.items():
        p, q = total[value] / total.total(), held / group.total()
        limit = beta if kind == "basic" else min(beta, -math.log(p))
        if q > p and (q - p) / p > limit + 1e-12:
            return False
    return True


@given(rows, betas, kinds)
def test_classes_are_judged_by_the_definition(table, beta, kind):
    total, groups = Counter(illness for _, illness in table), defaultdict(Counter)
    for age, illness in table:
        groups[age][illness] += 1
    model = Likeness(beta, "illness", kind)
    codes = {"age": [age for age, _ in table], "illness": [illness for _, illness in table]}
    fine = {age: by_definition(group, total, beta, kind) for age, group in groups.items()}
    found = check([model], codes, ["age"]).findings[0]
    assert found.holds == all(fine.values())
    assert found.failing_rows == sum(groups[age].total() for age in groups if not fine[age])
    counts = np.array([total[value] for value in range(5)])
    rules = compile_rules([model], {"illness": SensitiveColumn(counts)})
    for age, group in groups.items():
        held = np.array([group[value] for value in range(5)])
        assert holds(group.total(), held, rules) == fine[age]


@given(rows, betas, kinds)
def test_unions_of_classes_that_hold_hold_too(table, beta, kind):
    total, groups = Counter(illness for _, illness in table), defaultdict(Counter)
    for age, illness in table:
        groups[age][illness] += 1
    good = [group for group in groups.values() if by_definition(group, total, beta, kind)]
    assert by_definition(sum(good, Counter()), total, beta, kind)


def test_the_whole_table_always_holds_and_blocks_say_how_near_they_come():
    illness = SensitiveColumn(np.array([6, 3, 1]))
    require_reachable([Likeness(0.001, "s", "enhanced")], {"s": illness}, 10)
    with pytest.raises(ParameterError, match="β > 0"):
        Likeness(0, "s")
    with pytest.raises(ParameterError, match="Did you mean `enhanced`"):
        Likeness(1, "s", "enhance")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["basic", "enhanced"])
def test_a_value_of_no_row_that_is_left_is_likelier_in_any_class_that_holds_it(kind):
    illness = SensitiveColumn(np.array([6, 3, 1]))
    rules = recounted(compile_rules([Likeness(7, "s", kind)], {"s": illness}), np.array([6, 3, 0]))
    assert holds(2, np.array([1, 1, 0]), rules)
    assert not holds(3, np.array([1, 1, 1]), rules)
    assert not holds.plain(3, np.array([1, 1, 1]), rules)


@pytest.fixture
def people() -> pa.Table:
    random = np.random.default_rng(7)
    ills = np.array(["flu", "cold", "gout", "cancer"])[
        random.choice(4, 200, p=[0.5, 0.3, 0.15, 0.05])
    ]
    return pa.table({"age": random.integers(20, 60, 200), "sex": ["F", "M"] * 100, "ill": ills})


@pytest.mark.parametrize("method", ["mondrian", "kmember", "lattice", "cells"])
@pytest.mark.parametrize("kind", ["basic", "enhanced"])
def test_releases_keep_it_and_python_verifies_it(people, tmp_path, method, kind):
    asked = {"sensitive": ["ill"], "likeness": 1.5, "likeness_kind": kind}
    release = sf.anonymize(people, qi=["age", "sex"], k=3, method=method, **asked)
    out = release.write(tmp_path / "out.csv")
    total, groups = Counter(people["ill"].to_pylist()), defaultdict(Counter)
    for row in out:
        groups[row["age"], row["sex"]][row["ill"]] += 1
    assert not release.suppressed_rows
    assert all(by_definition(group, total, 1.5, kind) for group in groups.values())
    assert len(groups) > 1
    assert sf.verify(tmp_path / "out.csv").holds, "the certificate knows it"
    assert sf.verify(people, qi=["age"], likeness=0.01, sensitive=["ill"]).holds is False


def test_it_is_in_files_options_reports_and_the_workbench(people, tmp_path):
    source = tmp_path / "people.parquet"
    pq.write_table(people, source)
    out, config = tmp_path / "out.csv", tmp_path / "asked.toml"
    done = sfumato(
        "anonymize", source, "--qi", "age", "-k", 3, "--sensitive", "ill", "--likeness", 2,
        "--likeness-kind", "enhanced", "-o", out, "--write-config", config,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "enhanced β-likeness of ill" in done.out
    assert Request.read(config).likeness_kind == "enhanced"
    assert "--likeness" in sfumato("anonymize", "--help").out
    asked = ("verify", out, "--qi", "age", "--sensitive", "ill", "--likeness")
    assert (sfumato(*asked, 2).code, sfumato(*asked, 0.001).code) == (0, 1)
    page = sf.anonymize(source, config=config).report(tmp_path / "page.html")
    assert "β-likeness" in page.read_text()
    assert {"likeness", "likeness_kind"} <= set(DEMANDS)
    roles = {"age": "quasi-identifier", "ill": "sensitive"}
    mine = Choices(roles, likeness=2.0, likeness_kind="enhanced")
    assert mine.demand == "k = 5, β = 2 enhanced"
    assert mine.rehearsed().likeness == 2
