"""The same release for any number of threads, and threads that stop when they should."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato import budget as budgets
from sfumato.anonymization import releasing
from sfumato.anonymization.methods import annealing, lattice, mondrian
from sfumato.errors import BudgetError
from sfumato.utility import granularity

ROWS = 900
QI = ["age", "wage", "sex", "job"]


@pytest.fixture(autouse=True)
def every_table_is_worth_threads(monkeypatch):
    monkeypatch.setattr(budgets, "_WORTHWHILE", 16)
    monkeypatch.setattr(budgets.os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    monkeypatch.setattr(lattice, "SHARED", 250)
    monkeypatch.setattr(annealing, "PART", 200)


@pytest.fixture(scope="module")
def people(tmp_path_factory) -> Path:
    random = np.random.default_rng(11)
    path = tmp_path_factory.mktemp("threads") / "people.parquet"
    columns = {
        "age": random.integers(18, 90, ROWS),
        "wage": random.lognormal(8, 1, ROWS).astype(int),
        "sex": random.choice(["F", "M"], ROWS),
        "job": random.choice([f"job {at}" for at in range(12)], ROWS),
        "who": random.integers(0, 600, ROWS),
        "ill": random.choice(["a", "b", "c", "d"], ROWS),
    }
    pq.write_table(pa.table(columns), path)
    return path


WAYS = {
    "mondrian": {},
    "relaxed": {"relaxed": True},
    "towards a target": {"target": "ill", "sensitive": ["ill"]},
    "with l": {"sensitive": ["ill"], "l": 2},
    "of persons": {"person": "who"},
    "within boundaries": {"boundaries": {"age": {"max_width": 20}}},
    "in parts": {"parts": 4},
    "lattice": {"method": "lattice"},
    "lattice with l": {"method": "lattice", "sensitive": ["ill"], "l": 4},
    "full-domain": {"method": "full-domain", "suppression_limit": 0.05},
    "kmember": {"method": "kmember"},
    "kmember in parts": {"method": "kmember", "part_size": 100},
    "best": {"method": "best"},
    "best of several": {"method": "best", "k": 60, "rounds": 1, "qi": ["age", "job"]},
    "cells": {"method": "cells", "qi": ["age", "sex", "job"]},
}


@pytest.mark.parametrize("way", WAYS)
def test_the_release_does_not_depend_on_the_number_of_threads(people, tmp_path, way):
    written, told = set(), []
    for threads in (1, 2 + [*WAYS].index(way) % 2):
        place = tmp_path / f"{threads}.parquet"
        asked = {"qi": QI, "k": 5, **WAYS[way]}
        release = sf.anonymize(people, output=place, budget=sf.Budget(threads=threads), **asked)
        written.add(place.read_bytes())
        told.append((release.utility, release.k, release.classes, release.details.get("risk")))
    assert len(written) == 1
    assert told[0] == told[1]


@pytest.mark.parametrize("memory", [None, 1 << 30])
def test_what_a_release_costs_is_computed_while_it_is_written(
    people, tmp_path, monkeypatch, memory
):
    doing, computed = [], []

    def watched(view):
        computed.append(doing[-1])
        return granularity(view)

    monkeypatch.setattr(releasing, "granularity", watched)
    budget = sf.Budget(memory=memory, threads=2, on_progress=lambda what, _: doing.append(what))
    release = sf.anonymize(people, qi=QI, k=5, output=tmp_path / "out.parquet", budget=budget)
    assert type(release.utility) is dict
    # under a limit, nothing that it is computed from is held so long
    assert [what.split()[0] for what in computed] == ["anonymizing" if memory else "writing"]


@pytest.mark.parametrize("way", ["lattice", "lattice with l", "best"])
def test_shares_of_a_lattice_give_what_it_gives_as_a_whole(people, tmp_path, monkeypatch, way):
    written = set()
    for least in (1, 10 * ROWS):
        monkeypatch.setattr(lattice, "SHARED", least)
        sf.anonymize(people, output=tmp_path / "out.parquet", force=True, qi=QI, k=5, **WAYS[way])
        written.add((tmp_path / "out.parquet").read_bytes())
    assert len(written) == 1


def test_parts_are_annealed_in_several_threads_where_there_are_some(people, monkeypatch):
    working, whole = set(), annealing._Part.improved

    def watched(*given):
        working.add(threading.current_thread().name)
        time.sleep(0.02)  # else the first thread is done before a second is wanted
        return whole(*given)

    monkeypatch.setattr(annealing._Part, "improved", watched)
    sf.anonymize(people, qi=QI, k=5, method="best", budget=sf.Budget(threads=1))
    assert working == {threading.current_thread().name}
    sf.anonymize(people, qi=QI, k=5, method="best", budget=sf.Budget(threads=3))
    assert len(working) > 2


def test_groups_are_cut_in_several_threads_where_there_are_some(people, monkeypatch):
    cutting, whole = set(), mondrian._cut_blocks

    def watched(*given):
        cutting.add(threading.current_thread().name)
        time.sleep(0.02)  # else the first thread is done before a second is wanted
        return whole(*given)

    watched.ahead = whole.ahead
    monkeypatch.setattr(mondrian, "_cut_blocks", watched)
    sf.anonymize(people, qi=QI, k=5, budget=sf.Budget(threads=1))
    assert cutting == {threading.current_thread().name}
    sf.anonymize(people, qi=QI, k=5, budget=sf.Budget(threads=3))
    assert len(cutting) > 2


def test_an_error_in_a_thread_ends_the_work_and_leaves_nothing_behind(
    people, tmp_path, monkeypatch
):
    def broken(*_):
        raise MemoryError("no room in this thread")

    monkeypatch.setattr(mondrian, "_spans_of_groups", broken)
    with pytest.raises(MemoryError, match="no room in this thread"):
        sf.anonymize(people, qi=QI, k=5, output=tmp_path / "out.parquet")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("stage", ["reading", "anonymizing", "writing"])
def test_work_in_threads_can_be_interrupted(people, tmp_path, stage):
    def interrupt(doing: str, share: float | None) -> None:
        if doing.startswith(stage):
            raise KeyboardInterrupt

    budget = sf.Budget(threads=3, on_progress=interrupt)
    with pytest.raises(KeyboardInterrupt):
        sf.anonymize(people, qi=QI, k=5, output=tmp_path / "out.parquet", budget=budget)
    assert list(tmp_path.iterdir()) == []
    assert not [t for t in threading.enumerate() if t.name.startswith("sfumato-")]


def test_work_in_threads_can_be_cancelled(people, tmp_path):
    budget = sf.Budget(threads=3)
    budget.on_progress = lambda doing, share: budget.cancel()
    with pytest.raises(BudgetError, match="cancelled"):
        sf.anonymize(people, qi=QI, k=5, output=tmp_path / "out.parquet", budget=budget)
    assert list(tmp_path.iterdir()) == []
