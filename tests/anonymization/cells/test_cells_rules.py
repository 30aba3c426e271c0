"""Rules beyond k: every move of the search keeps them, against all partitions of tiny tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.anonymization.cells.bounds import ascent, lower_bound, opt_lb
from sfumato.anonymization.cells.candidates import patterns_of
from sfumato.anonymization.cells.paper import approx_dr, guided, possible_entries
from sfumato.anonymization.cells.search import improved
from sfumato.anonymization.cells.table import PRICE_UNIT, CellTable, Partition
from sfumato.anonymization.verb import anonymize
from sfumato.budget import Budget
from sfumato.privacy import (
    AlphaK,
    Closeness,
    DistinctDiversity,
    EntropyDiversity,
    KAnonymity,
    Model,
    SensitiveColumn,
    compile_rules,
)
from sfumato.privacy.rules import groups_hold

MODELS: dict[str, Model] = {
    "distinct": DistinctDiversity(2, "s"),
    "entropy": EntropyDiversity(1.7, "s"),
    "closeness": Closeness(0.35, "s", "equal"),
    "alpha": AlphaK(0.6, 2, "s"),
}


def partitions(rows: list[int]) -> Iterator[list[list[int]]]:
    """All partitions of a list."""
    if not rows:
        yield []
        return
    first, rest = rows[0], rows[1:]
    for others in partitions(rest):
        yield [[first], *others]
        for at, group in enumerate(others):
            yield [*others[:at], [first, *group], *others[at + 1 :]]


def ruled_table(rows: Any, model: Model) -> CellTable:
    """A table whose last column is sensitive."""
    found, counts = np.unique(rows, axis=0, return_counts=True)
    secret = found[:, -1].astype(np.uint32)
    column = SensitiveColumn.of(secret, counts, pa.array(range(3)))
    rules = compile_rules([KAnonymity(2), model], {"s": column})
    return CellTable(
        codes=np.ascontiguousarray(found[:, :-1].astype(np.int32)),
        counts=counts.astype(np.int64),
        cardinalities=np.full(found.shape[1] - 1, 3),
        prices=np.full(found.shape[1] - 1, PRICE_UNIT),
        rules=rules,
        sensitive=secret.astype(np.int64)[:, None] + rules.offsets[0],
    )


def rows_hold(table: CellTable, partition: Partition) -> bool:
    """Whether every group satisfies all rules."""
    rows = np.repeat(np.arange(len(partition.entry)), partition.rows)
    entry, group = partition.entry[rows], partition.group[rows]
    one = np.ones(len(rows), dtype=np.int64)
    good = groups_hold(group, partition.groups, one, table.sensitive[entry], table.rules)
    return bool(good.all())


def best_units(table: CellTable) -> int | None:
    entry = np.repeat(np.arange(table.entries), table.counts)
    one = np.ones(len(entry), dtype=np.int64)
    best = None
    for groups in partitions(list(range(len(entry)))):
        number = np.empty(len(entry), dtype=np.int64)
        for at, members in enumerate(groups):
            number[members] = at
        found = Partition(entry, one, number)
        if rows_hold(table, found):
            units = found.units(table)
            best = units if best is None else min(best, units)
    return best


@pytest.mark.parametrize("name", sorted(MODELS))
@settings(max_examples=50)
@given(rows=st.lists(st.tuples(*[st.integers(0, 2)] * 4), min_size=3, max_size=6))
def test_the_search_keeps_rules_and_is_never_below_the_optimum(
    name: str, rows: list[tuple[int, ...]]
) -> None:
    table = ruled_table(np.array(rows), MODELS[name])
    if not possible_entries(table).all():
        return
    patterns = patterns_of(table)
    first, least = approx_dr(table, patterns), opt_lb(table, patterns)
    dual = ascent(table, patterns, least, first, "lp", Budget())
    found = improved(table, patterns, first, "local", 0, Budget(), dual)
    best = best_units(table)
    assert best is not None
    for partition in [first, found] + ([] if dual is None else [guided(table, patterns, dual)]):
        held = np.bincount(partition.entry, weights=partition.rows, minlength=table.entries)
        assert (held == table.counts).all()
        assert rows_hold(table, partition)
        assert partition.units(table) >= best
    assert found.units(table) <= first.units(table)
    assert lower_bound(table, patterns, "lp", least, dual, found, Budget()).units <= best


def test_the_bound_says_whose_it_is() -> None:
    random = np.random.default_rng(0)
    table = pa.table({name: random.integers(0, 4, 120) for name in "abs"})
    release = anonymize(table, qi=["a", "b"], k=3, l=3, sensitive=["s"], method="cells")
    assert release.details["bound_of"] == "k-anonymity alone"
    plain = anonymize(table, qi=["a", "b"], k=3, method="cells")
    assert "bound_of" not in plain.details
