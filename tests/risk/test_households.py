"""The risk that anybody of a household is found, by its definition."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import ColumnError


def homes(seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "home": random.integers(0, 7, 30),
            "who": random.integers(0, 15, 30),
            "age": random.integers(0, 4, 30),
            "sex": random.integers(0, 2, 30),
        }
    )


@pytest.mark.parametrize("seed", range(5))
def test_members_are_rows(seed: int) -> None:
    rows = homes(seed).to_pylist()
    sizes = Counter((row["age"], row["sex"]) for row in rows)
    unseen = defaultdict(list)
    for row in rows:
        unseen[row["home"]].append(1 - 1 / sizes[row["age"], row["sex"]])
    risks = [1 - math.prod(one) for one in unseen.values()]
    found = sf.risk(homes(seed), ["age", "sex"], household="home", threshold=0.4).households
    assert found is not None
    assert found.number == len(risks)
    assert found.highest == pytest.approx(max(risks))
    assert found.mean == pytest.approx(sum(risks) / len(risks))
    assert found.share_above == pytest.approx(np.mean([risk > 0.4 + 1e-9 for risk in risks]))


@pytest.mark.parametrize("seed", range(5))
def test_members_are_persons_as_exposed_as_their_worst_row(seed: int) -> None:
    rows = homes(seed).to_pylist()
    people = defaultdict(set)
    for row in rows:
        people[row["age"], row["sex"]].add(row["who"])
    worst: dict[tuple[int, int], float] = {}
    for row in rows:
        risk = 1 / len(people[row["age"], row["sex"]])
        member = row["home"], row["who"]
        worst[member] = max(worst.get(member, 0.0), risk)
    unseen = defaultdict(list)
    for (home, _), risk in worst.items():
        unseen[home].append(1 - risk)
    risks = [1 - math.prod(one) for one in unseen.values()]
    found = sf.risk(homes(seed), ["age", "sex"], person="who", household="home").households
    assert found is not None
    assert found.mean == pytest.approx(sum(risks) / len(risks))


def test_households_are_persons_by_the_same_machinery() -> None:
    release = sf.anonymize(homes(1), qi=["age", "sex"], k=3, person="home", identifiers=["who"])
    assert release.details["persons"]["persons"] == 7
    assert release.k is not None
    assert release.k >= 3


def test_a_release_without_persons_is_not_counted_in_them() -> None:
    people = homes(1)
    released = sf.anonymize(people, k=2, qi=["age"], person="who")
    with pytest.raises(ColumnError, match="does not show `who`, so it cannot be counted in pers"):
        sf.risk(people, ["age"], person="who", released=released.table)
    assert sf.risk(people, ["age"], released=released.table).after is not None
