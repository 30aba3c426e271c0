"""Released datasets: whatever any attacker knows, k persons remain, and references stay whole."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from houses import fewest_left, orphans, owner_of, random_house
from relational.conftest import house_tables
from sfumato.budget import Budget
from sfumato.errors import BudgetError, ColumnError, ParameterError
from sfumato.relational.verification import LinkedTables, WholeReferences


def read(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The tables of a released dataset, by nothing but their files."""
    return {one.stem: pq.read_table(one).to_pylist() for one in folder.glob("*.parquet")}


def check(seed: int, folder: Path, key: Path) -> int:
    """Release a random house; how many rows stayed."""
    house = random_house(seed)
    before = {n: t["source"].to_pylist() for n, t in house.described["tables"].items()}
    release = sf.relational.anonymize(
        house.described,
        qi=house.qi,
        k=house.k,
        m="all" if house.m is None else house.m,
        linkable=True,
        key_file=key,
        output=folder,
    )
    after = read(folder)
    assert set(after) == set(before)
    assert fewest_left(after, house.qi, house.m) >= house.k
    led_nowhere = orphans(before)
    for reference, number in orphans(after).items():
        assert number <= led_nowhere[reference], reference
    secrets = {str(cell) for row in before["patients"] for cell in [row["id"]]}
    shown = {
        str(row[c]) for rows in after.values() for row in rows for c in row if c.endswith("id")
    }
    assert not secrets & shown
    assert sf.relational.verify(folder).holds
    for name, rows in before.items():
        assert len(after[name]) <= len(rows)
    assert release.events_kept == sum(
        len(after[name]) for name in {c.partition(".")[0] for c in house.qi} - {"patients"}
    )
    return release.events_kept


@pytest.mark.fuzz
def test_random_datasets_leave_every_attacker_k_persons(
    tmp_path: Path, key: Path, fuzz_seed: int
) -> None:
    kept = [check(seed, tmp_path / str(seed), key) for seed in range(fuzz_seed, fuzz_seed + 24)]
    assert sum(kept) > 100, "hardly anything is released"


def test_wards_that_are_mostly_one_persons_link_the_rows_of_a_random_dataset(
    tmp_path: Path, key: Path
) -> None:
    seed = 637853985
    check(seed, tmp_path / "two", key)
    house = random_house(seed)
    with pytest.raises(ParameterError, match="whole histories cannot be compared"):
        sf.relational.anonymize(
            house.described, qi=house.qi, k=house.k, m="all", linkable=True, key_file=key
        )


def check_unlinkable(seed: int, folder: Path) -> int:
    """Release a random house without keys; how many rows stayed."""
    house = random_house(seed)
    for one in house.described["tables"].values():  # tells us, and nobody else, which row it was
        rows = one["source"]
        one["source"] = rows.append_column("cost", pa.array(range(len(rows))).cast(pa.float64()))
    before = {n: t["source"].to_pylist() for n, t in house.described["tables"].items()}
    try:
        sf.relational.anonymize(house.described, qi=house.qi, k=house.k, output=folder)
    except ParameterError as refused:  # a table of few persons cannot be blurred at all
        few = next(n for n in before if refused.where == n)
        assert len({owner_of(before, few, row) for row in before[few]} - {None}) < house.k
        return 0
    after = read(folder)
    assert sf.relational.verify(folder).holds
    for name in {column.partition(".")[0] for column in house.qi}:
        shown = [c.partition(".")[2] for c in house.qi if c.startswith(f"{name}.")]
        persons: dict[tuple[Any, ...], set[Any]] = defaultdict(set)
        for row in after[name]:
            was = before[name][int(row["cost"])]
            whose = was["id"] if name == "patients" else owner_of(before, name, was)
            assert whose is not None, "a row belongs to nobody"
            persons[tuple(row[column] for column in shown)].add(whose)
        assert all(len(found) >= house.k for found in persons.values()), name
    return sum(map(len, after.values()))


@pytest.mark.fuzz
def test_random_datasets_without_keys_hold_k_persons_in_every_class(
    tmp_path: Path, fuzz_seed: int
) -> None:
    kept = [check_unlinkable(fuzz_seed + n, tmp_path / str(n)) for n in range(12)]
    assert sum(kept) > 100, "hardly anything is released"


@pytest.mark.slow
def test_many_random_datasets_leave_every_attacker_k_persons(tmp_path: Path, key: Path) -> None:
    for seed in range(40, 500):
        check(seed, tmp_path / str(seed), key)


def test_brute_force_finds_a_broken_promise() -> None:
    tables = {
        "patients": [{"id": n, "sex": "F", "age": 1} for n in range(3)],
        "admissions": [
            {"id": 10 + n, "patient_id": n, "ward_id": 0, "day": n // 2} for n in range(3)
        ],
        "wards": [{"id": 0}],
    }
    qi = ["patients.sex", "admissions.day"]
    assert fewest_left(tables, qi, 1) == 1
    assert fewest_left(tables, qi[:1], 1) == 3


def test_the_check_of_tables_sees_what_fewer_than_k_persons_have() -> None:
    """One person too few for a pair of visits, for one, and for an own column alone; lost rows."""
    link = ("visits", "patient", "patients", "id")
    keys = {"patients": ("id",), "visits": ("patient",)}

    def checked(
        people: list[tuple[str, str]], m: int | None, more: list[tuple[str, str]] | None = None
    ) -> Any:
        visits = [(f"p{at}", code) for at, (_, codes) in enumerate(people) for code in codes]
        visits += more or []
        tables = {
            "patients": {
                "id": [f"p{at}" for at in range(len(people))],
                "sex": [s for s, _ in people],
            },
            "visits": {"patient": [p for p, _ in visits], "code": [c for _, c in visits]},
        }
        opened = {name: sf.table(pa.table(columns)) for name, columns in tables.items()}
        events = {"visits": ("code",)}
        promise = LinkedTables(3, m, ("patients", "id"), ("sex",), events, (link,), keys)
        found = promise.check(opened)
        orphans = WholeReferences(((*link, 0),)).check(opened)
        assert orphans.holds is (not more)
        return found.holds, found.measured["k"], found.measured["lost"]

    pairs = [("F", "ab"), ("F", "ab"), ("F", "ac"), ("F", "bc"), ("F", "cb")]
    assert checked(pairs, 1) == (True, 3, 0)
    assert checked(pairs, 2) == (False, 1, 0)
    assert checked([("F", "ab")] * 3 + [("M", "")] * 2, 1) == (False, 2, 0)
    assert checked([("F", "ab")] * 3, None) == (True, 3, 0)
    assert checked([("F", "ab")] * 2 + [("F", "a")], None) == (False, 1, 0)
    assert checked([("F", "ab")] * 3, 1, [("p9", "a")]) == (False, 3, 1)
    twice = {
        "patients": sf.table(pa.table({"id": ["p1", "p1"], "sex": ["F", "F"]})),
        "visits": sf.table(pa.table({"patient": ["p1"], "code": ["a"]})),
    }
    promise = LinkedTables(1, 1, ("patients", "id"), ("sex",), {"visits": ("code",)}, (), keys)
    with pytest.raises(ColumnError, match="does not name one person per row"):
        promise.check(twice)


def test_the_check_of_tables_sees_keys_that_rows_share() -> None:
    """Two persons have both drugs on one stay, two on two: by drugs alone they are four."""
    stays = {"id": list("stuvwxyz"), "patient": [0, 0, 1, 1, 2, 2, 3, 3]}
    drugs = {"stay": list("ssuuwxyz"), "drug": ["a"] * 8}
    columns = {"patients": {"id": [0, 1, 2, 3]}, "stays": stays, "drugs": drugs}
    tables = {name: sf.table(pa.table(cells)) for name, cells in columns.items()}
    links = (("stays", "patient", "patients", "id"), ("drugs", "stay", "stays", "id"))
    keys = {"patients": ("id",), "stays": ("id", "patient"), "drugs": ("stay",)}
    for m, holds, fewest in ((1, True, 4), (2, False, 2)):
        promise = LinkedTables(3, m, ("patients", "id"), (), {"drugs": ("drug",)}, links, keys)
        found = promise.check(tables)
        assert (found.holds, found.measured["k"]) == (holds, fewest)


@pytest.mark.parametrize("first", [10, 0], ids=["other numbers", "equal numbers"])
def test_links_between_rows_are_part_of_what_is_known(key: Path, first: int) -> None:
    """Two drugs on one stay and two drugs on two stays are told apart by their keys.

    Stay 0 and patient 0 have nothing to do with each other.
    """
    stays = [first + at for at in (0, 0, 2, 2, 4, 5, 6, 7)]
    described = {
        "person": "patients.id",
        "tables": {
            "patients": {"source": pa.table({"id": [0, 1, 2, 3]})},
            "admissions": {
                "source": pa.table(
                    {"id": list(range(first, first + 8)), "patient_id": [0, 0, 1, 1, 2, 2, 3, 3]}
                )
            },
            "prescriptions": {"source": pa.table({"admission_id": stays, "drug": ["a"] * 8})},
        },
    }
    found = sf.relational.dataset(described)
    assert {one.say for one in found.references} == {
        "admissions.patient_id → patients.id",
        "prescriptions.admission_id → admissions.id",
    }
    release = sf.relational.anonymize(
        found, qi=["prescriptions.drug"], k=3, m=2, linkable=True, key_file=key
    )
    # two persons have both drugs on one stay, two on two: one of the drugs goes, everywhere
    assert release.k is not None
    assert release.k >= 3
    assert release.events_kept <= 6
    loose = sf.relational.anonymize(
        found, qi=["prescriptions.drug"], k=3, m=1, linkable=True, key_file=key
    )
    assert loose.events_kept == 8


def test_with_a_row_go_those_that_refer_to_it(tmp_path: Path, key: Path) -> None:
    """Only one person has two stays: one of them goes, with its drugs and their doses."""
    stays = {"id": [10, 11, 12, 13], "patient_id": [0, 1, 2, 2], "ward": ["a"] * 4}
    drugs = {"id": [20, 21, 22, 23, 24], "stay_id": [10, 11, 12, 13, 13], "drug": list("xyzuv")}
    doses = {"drug_id": [20, 23, 24, None], "mg": [1, 2, 3, 4]}
    described = {
        "person": "patients.id",
        "tables": {
            "patients": {"source": pa.table({"id": [0, 1, 2]})},
            "stays": {"source": pa.table(stays)},
            "drugs": {"source": pa.table(drugs)},
            "doses": {"source": pa.table(doses)},
        },
    }
    release = sf.relational.anonymize(
        described,
        qi=["stays.ward"],
        k=2,
        m=2,
        linkable=True,
        key_file=key,
        output=tmp_path / "released",
    )
    after = read(tmp_path / "released")
    assert len(after["stays"]) == release.events_kept == 3
    kept = {row["id"] for row in after["stays"]}
    assert {row["stay_id"] for row in after["drugs"]} <= kept
    assert {row["drug"] for row in after["drugs"]} < set("xyzuv")
    assert {row["drug_id"] for row in after["doses"]} <= {row["id"] for row in after["drugs"]}
    assert len(after["doses"]) in (1, 2)


def test_one_long_history_is_cut_and_the_time_is_kept(key: Path) -> None:
    who = [f"p{one}" for one in range(20)]
    stays = [f"a{one}" for one in range(20)]
    of = [*stays, *["a0"] * 60]
    described = {
        "person": "people.id",
        "tables": {
            "people": {"source": pa.table({"id": who, "sex": ["F"] * 20}), "key": "id"},
            "stays": {
                "source": pa.table({"stay": stays, "id": who, "ill": ["flu"] * 20}),
                "key": "stay",
                "references": {"id": "people.id"},
            },
            "drugs": {
                "source": pa.table({"stay": of, "drug": ["e", "f"] * 40}),
                "references": {"stay": "stays.stay"},
            },
        },
    }
    asked: dict[str, Any] = {"k": 5, "m": 2, "linkable": True, "key_file": key}
    asked["qi"] = ["people.sex", "stays.ill", "drugs.drug"]
    assert sf.relational.anonymize(described, **asked).events_kept == 40
    with pytest.raises(BudgetError, match="before the time was over"):
        sf.relational.anonymize(described, **asked, budget=Budget(seconds=0))


def test_the_order_of_the_input_tells_nothing(key: Path, tmp_path: Path) -> None:
    """Which of the rows that look alike are left out is decided by their other cells."""
    random = np.random.default_rng(0)
    tables = house_tables(20, seed=2)
    found = []
    for turn in range(3):
        house = {
            "person": "patients.id",
            "tables": {
                "patients": {"source": tables["patients"], "key": "id"},
                "visits": {
                    "source": tables["visits"].drop_columns(["ward_id"]),
                    "references": {"patient_id": "patients.id"},
                },
            },
        }
        release = sf.relational.anonymize(
            house,
            qi=["patients.sex", "visits.ward"],
            k=5,
            m="all",
            linkable=True,
            key_file=key,
            output=tmp_path / str(turn),
        )
        assert release.events_kept < release.events
        with sf.relational.dataset(tmp_path / str(turn)) as again:
            found.append({n: one.table.to_arrow().to_pylist() for n, one in again.tables.items()})
        tables = {
            name: rows.take(pa.array(random.permutation(rows.num_rows)))
            for name, rows in tables.items()
        }
    assert found[0] == found[1] == found[2]


def test_tables_are_sorted_and_no_order_is_warned_of() -> None:
    """Also where every row of the table is another person's, which would keep its place alone."""
    ids = [f"p{at:03}" for at in range(60)]
    persons = pa.table({"id": ids, "age": [*range(20, 80)]})
    visits = pa.table({"patient_id": persons["id"], "ward": ["a", "b"] * 30})
    described = {"source": visits, "references": {"patient_id": "patients.id"}}
    house = {
        "person": "patients.id",
        "tables": {"patients": {"source": persons, "key": "id"}, "visits": described},
    }
    for sort in (False, True):
        release = sf.relational.anonymize(house, qi=["patients.age"], k=3, sort=sort)
        assert not [one for one in release.warnings if "keeps their order" in one]
