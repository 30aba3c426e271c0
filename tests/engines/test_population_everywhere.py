"""Population, Safe Harbor, sampled quantiles and the attack say the same on every engine."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import pyarrow as pa

import sfumato as sf
from sfumato.demo import people
from sfumato.engines.protocol import Engine
from sfumato.populations.safe_harbor import RESTRICTED_AREAS, plan_safe_harbor
from sfumato.populations.sampled_quantiles import sampled_groups
from sfumato.tables import Table

QI = ["sex", "birth_date", "zip"]
TODAY = dt.date(2024, 12, 31)
PEOPLE = people(1_500, seed=5).select(["name", *QI, "diagnosis", "cost"])


def test_the_same_answers_everywhere(opened: Callable[[pa.Table], Engine]) -> None:
    table = Table(opened(PEOPLE))
    here = sf.population(PEOPLE, universe=1e6, qi=QI, k=20, bootstrap=0)
    there = sf.population(table, universe=1e6, qi=QI, k=20, bootstrap=0)
    assert there.whole == here.whole
    assert there.uniqueness == here.uniqueness
    assert there.plan == here.plan

    groups = sampled_groups(lambda: table.batches(["cost"]), "cost", 100, eps=0.02)
    assert groups.rows == 1_500
    assert groups.smallest >= 100

    attacked = sf.attack(table, PEOPLE, on=QI, k=2)
    assert attacked == sf.attack(PEOPLE, PEOPLE, on=QI, k=2)


def test_safe_harbor_decides_the_same_everywhere(opened: Callable[[pa.Table], Engine]) -> None:
    def decided(table: Table) -> dict[str, str]:
        plan = plan_safe_harbor(
            table, keep=(), drop=(), as_of=TODAY, restricted=RESTRICTED_AREAS, pad=False, seed=0,
            budget=sf.Budget(),
        )  # fmt: skip
        return dict(plan.column_actions)

    assert decided(Table(opened(PEOPLE))) == decided(sf.table(PEOPLE))
