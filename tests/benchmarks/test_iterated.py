"""The yardstick of local recoding: its first optimum, and what repeating it gains."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.anonymization.pipeline import prepare
from sfumato.anonymization.request import Request
from sfumato.budget import Budget
from tree_partitions import TREES, small_table

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks.iterated import iterated  # noqa: E402


@pytest.mark.parametrize("rules", [{}, {"l": 3, "sensitive": ["illness"]}])
def test_where_all_rows_are_released_at_once_it_is_full_domain_recoding(rules):
    random = np.random.default_rng(1)
    table = small_table(random, 60)
    table = table.append_column("illness", pa.array(random.choice(["flu", "gout", "cold"], 60)))
    asked = {"qi": list(TREES), "k": 4, "hierarchies": TREES, **rules}
    whole = sf.anonymize(table, method="full-domain", **asked)
    problem = posed(table, asked)
    found = iterated(problem, steps=1, factor=0.5)
    assert (found.iterations, found.left_out, found.finished) == (1, 0, True)
    assert found.loss == pytest.approx(whole.utility["ncp"])
    again = iterated(problem, steps=60, factor=0.5)
    assert again.iterations > 1
    assert again.loss < found.loss


def test_rows_that_find_no_company_lose_everything():
    table = pa.table({"job": ["nurse"] * 3 + ["judge"], "town": ["a"] * 4})
    problem = posed(table, {"qi": list(TREES), "k": 2, "hierarchies": TREES})
    found = iterated(problem, steps=100, factor=0.05)
    assert (found.left_out, found.loss) == (1, 0.25)


def posed(table, asked):
    opened = sf.table(table)
    return prepare(opened, Request.of({**asked, "method": "best"}).opened(opened), Budget())
