"""What is asked of a dataset: what is understood, what is refused, what is said."""

from __future__ import annotations

import csv
import datetime
import json
import shutil
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import sfumato as sf
from cli_tools import sfumato
from relational.conftest import house_tables
from sfumato.errors import ColumnError, ParameterError, PromiseError, SourceError
from sfumato.release.certificate import Certificate
from sfumato.report.registry import page_of

QI = ["patients.sex", "patients.born", "visits.ward"]


def ask(house: Any, key: Path, **more: Any) -> sf.relational.TablesRelease:
    asked: dict[str, Any] = {"qi": QI, "k": 3, "m": 2, "linkable": True, "key_file": key}
    return sf.relational.anonymize(house, **{**asked, **more})


def opened_certificate(folder: Path) -> tuple[Path, dict[str, Any]]:
    """Where the certificate of a release lies, and its record without the digest."""
    place = folder / "released" / "certificate.json"
    record = json.loads(place.read_text())
    del record["digest"]
    return place, record


def rows_of(place: Path) -> list[dict[str, str]]:
    with place.open() as file:
        return list(csv.DictReader(file))


def test_histories_stay_whole_under_pseudonyms(house: Path, key: Path, tmp_path: Path) -> None:
    release = ask(house, key, output=tmp_path / "released")
    assert (release.promise, release.verified, release.persons) == ("linkable", True, 40)
    patients = rows_of(tmp_path / "released" / "patients.csv")
    visits = rows_of(tmp_path / "released" / "visits.csv")
    wards = rows_of(tmp_path / "released" / "wards.csv")
    assert {row["patient_id"] for row in visits} <= {row["id"] for row in patients}
    assert {row["ward_id"] for row in visits} <= {row["id"] for row in wards}
    assert not any(row["id"].startswith("P") for row in patients)
    before = rows_of(house / "visits.csv")
    assert {row["cost"] for row in visits} <= {row["cost"] for row in before}
    with sf.relational.dataset(tmp_path / "released") as again:
        assert again.person == ("patients", "id")
        assert set(again.paths) == {"patients", "visits"}
    again_there = ask(house, key, output=tmp_path / "again")
    assert again_there.k == release.k
    for name in ("patients.csv", "visits.csv", "wards.csv", "dataset.toml"):
        same = (tmp_path / name_of for name_of in (f"released/{name}", f"again/{name}"))
        assert len({place.read_bytes() for place in same}) == 1, name


def test_equal_numbers_of_different_things_get_different_pseudonyms(
    key: Path, tmp_path: Path
) -> None:
    described = {
        "person": "patients.id",
        "tables": {
            "patients": {"source": pa.table({"id": range(6), "sex": list("FMFMFM")})},
            "stays": {
                "source": pa.table({"id": range(6), "patient_id": range(6), "ward_id": [0, 1] * 3})
            },
            "wards": {"source": pa.table({"id": [0, 1]}), "publish": True},
        },
    }
    ask(described, key, qi=["patients.sex"], k=2, m=1, output=tmp_path / "out", format="csv")
    ids = {
        name: {row["id"] for row in rows_of(tmp_path / "out" / f"{name}.csv")}
        for name in described["tables"]
    }
    assert [len(one) for one in ids.values()] == [6, 6, 2]
    assert len(set.union(*ids.values())) == 14
    stays = rows_of(tmp_path / "out" / "stays.csv")
    assert {row["patient_id"] for row in stays} == ids["patients"]
    assert {row["ward_id"] for row in stays} == ids["wards"]


def test_tables_without_keys_hold_k_persons_in_every_class(house: Path, tmp_path: Path) -> None:
    release = sf.relational.anonymize(house, qi=QI, k=3, output=tmp_path / "released")
    assert (release.promise, release.m) == ("unlinkable", None)
    visits = rows_of(tmp_path / "released" / "visits.csv")
    assert set(visits[0]) == {"ward", "cost"}
    owners: dict[str, set[str]] = defaultdict(set)
    by_cost = {float(row["cost"]): row["patient_id"] for row in rows_of(house / "visits.csv")}
    for row in visits:
        owners[row["ward"]].add(by_cost[float(row["cost"])])
    assert min(map(len, owners.values())) >= 3
    classes: dict[tuple[str, str], int] = defaultdict(int)
    for row in rows_of(tmp_path / "released" / "patients.csv"):
        classes[row["sex"], row["born"]] += 1
    assert min(classes.values()) >= 3
    assert sf.relational.verify(tmp_path / "released").holds


def test_the_order_of_rows_tells_nothing_where_they_cannot_be_linked(tmp_path: Path) -> None:
    """Both tables are sorted by patient: row for row they would belong together."""
    persons = 30
    described = {
        "person": "patients.id",
        "tables": {
            "patients": {"source": pa.table({"id": range(persons), "age": list(range(30))[::-1]})},
            "visits": {
                "source": pa.table({"patient": range(persons), "n": [str(i) for i in range(30)]})
            },
        },
    }
    sf.relational.anonymize(
        described, qi=["patients.age", "visits.n"], k=3, output=tmp_path / "out", format="csv"
    )
    for name, column in (("patients", "age"), ("visits", "n")):
        shown = [row[column] for row in rows_of(tmp_path / "out" / f"{name}.csv")]
        assert shown == sorted(shown)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"m": None}, "how many rows of a person"),
        ({"m": 0}, "how many rows of a person"),
        ({"m": "some"}, "how many rows of a person"),
        ({"k": None}, "how many persons"),
        ({"k": 41}, "larger than the dataset"),
        ({"key_file": None}, "secret key"),
        ({"linkable": False}, "must then be said"),
        ({"sensitive": ["visits.ward"]}, "`sensitive` is not understood"),
        ({"method": "lattice"}, "`method` is not understood"),
        ({"missing": "wildcard"}, "`missing` is not understood"),
        ({"qi": []}, "one set of quasi-identifiers"),
        ({"qi": [["patients.sex"], ["visits.ward"]]}, "one set of quasi-identifiers"),
        ({"exclude": ["nothing"]}, "no table `nothing`"),
        ({"exclude": ["patients"]}, "cannot be left out"),
    ],
)
def test_what_cannot_be_promised_is_refused(
    house: Path, key: Path, more: dict[str, Any], said: str
) -> None:
    with pytest.raises(ParameterError, match=said):
        ask(house, key, **more)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"qi": ["patients.nothing"]}, "no column"),
        ({"qi": ["patients.sex", "wards.floor"]}, "nobody is known"),
        ({"qi": ["patients.sex", "visits.patient_id"]}, "key or reference"),
        ({"qi": ["patients.sex"], "identifiers": ["patients.sex"]}, "left out at the same time"),
    ],
)
def test_columns_have_one_part_to_play(
    house: Path, key: Path, more: dict[str, Any], said: str
) -> None:
    with pytest.raises(ColumnError, match=said):
        ask(house, key, **more)


def test_a_table_that_leads_to_nobody_must_be_spoken_of(house: Path, key: Path) -> None:
    text = (house / "dataset.toml").read_text()
    (house / "dataset.toml").write_text(text.replace("publish = true", ""))
    with pytest.raises(ParameterError, match="does not lead to the person"):
        ask(house, key)
    left = ask(house, key, exclude=["wards"])
    assert left.left_out == ("wards",)
    assert {one.name: one.dropped for one in left.tables}["visits"] == ("ward_id",)
    (house / "dataset.toml").write_text(text.replace("publish = true", "publish = false"))
    assert ask(house, key).left_out == ("wards",)


def test_a_way_to_the_person_must_not_be_left_out(key: Path) -> None:
    described = {
        "person": "patients.id",
        "tables": {
            "patients": {"source": pa.table({"id": range(6), "sex": list("FMFMFM")})},
            "stays": {"source": pa.table({"id": range(10, 16), "patient_id": range(6)})},
            "drugs": {"source": pa.table({"stay_id": range(10, 16), "drug": list("ababab")})},
        },
    }
    with pytest.raises(ParameterError, match="through a table that is left out"):
        ask(described, key, qi=["patients.sex", "drugs.drug"], exclude=["stays"])
    with pytest.raises(ParameterError, match="would not lead to the person"):
        ask(described, key, qi=["patients.sex"], identifiers=["drugs.stay_id"])
    release = ask(described, key, qi=["patients.sex", "drugs.drug"], m=1, k=2)
    assert release.k is not None
    assert release.k >= 2


def test_numbers_and_trees_are_shown_as_asked(house: Path, key: Path, tmp_path: Path) -> None:
    trees = tmp_path / "trees" / "visits"
    trees.mkdir(parents=True)
    (trees / "ward.csv").write_text("eyes;head;*\nheart;body;*\nskin;body;*\n")
    ask(
        house,
        key,
        output=tmp_path / "out",
        numbers_as={"patients.born": "bounds"},
        hierarchies=trees.parent,
        infer_hierarchies=False,
    )
    (first, *_) = rows_of(tmp_path / "out" / "patients.csv")
    assert list(first) == ["id", "sex", "born_from", "born_to"]
    wards = {row["ward"] for row in rows_of(tmp_path / "out" / "visits.csv")}
    assert wards <= {"eyes", "heart", "skin", "head", "body", "*"}
    assert sf.relational.verify(tmp_path / "out").holds
    with pytest.raises(ParameterError, match="which the people do not have"):
        sf.relational.attack(tmp_path / "out", house)
    ask(house, key, output=tmp_path / "tree", hierarchies=trees.parent, infer_hierarchies=False)
    found = sf.relational.attack(tmp_path / "tree", house, hierarchies=trees.parent)
    assert found.holds
    with pytest.raises(ParameterError, match="format"):
        ask(house, key, output=tmp_path / "no", format="nonsense")


def test_tables_without_rows_are_released_as_they_are(key: Path, tmp_path: Path) -> None:
    nothing = pa.table({"patient_id": pa.array([], pa.string()), "x": pa.array([], pa.int64())})
    tables = {name: {"source": rows} for name, rows in house_tables().items() if name != "wards"}
    described = {"person": "patients.id", "tables": {**tables, "empty": {"source": nothing}}}
    qi = ["patients.sex", "empty.x", "visits.ward"]
    assert ask(described, key, qi=qi, output=tmp_path / "out", format="csv").verified
    assert rows_of(tmp_path / "out" / "empty.csv") == []
    assert sf.relational.verify(tmp_path / "out").holds


def test_rows_of_two_persons_are_refused(key: Path) -> None:
    described = {
        "person": "patients.id",
        "tables": {
            "patients": {"source": pa.table({"id": range(4), "sex": list("FMFM")})},
            "stays": {"source": pa.table({"id": range(10, 14), "patient_id": range(4)})},
            "drugs": {
                "source": pa.table(
                    {"stay_id": range(10, 14), "patient_id": [3, 2, 1, 0], "drug": list("abab")}
                )
            },
        },
    }
    with pytest.raises(ColumnError, match="two persons"):
        ask(described, key, qi=["patients.sex", "drugs.drug"], m=1, k=2)


def test_rows_of_nobody_are_left_out_and_counted(house: Path, key: Path, tmp_path: Path) -> None:
    with (house / "visits.csv").open("a") as file:
        file.write('"stranger",0,"eyes",1.5\n')
    release = ask(house, key, output=tmp_path / "released")
    assert any("1 row of `visits` belongs to nobody" in told for told in release.warnings)
    assert len(rows_of(tmp_path / "released" / "visits.csv")) == release.events_kept


def test_columns_that_name_persons_stop_a_release(key: Path) -> None:
    tables = house_tables()
    names = [f"Ada{one} Lovelace{one}" for one in range(40)]
    described = {
        "person": "patients.id",
        "tables": {
            "patients": {"source": tables["patients"].append_column("name", pa.array(names))},
            "visits": {"source": tables["visits"].drop_columns(["ward_id"])},
        },
    }
    with pytest.raises(ColumnError, match=r"`patients.name`.* name persons"):
        ask(described, key)
    assert ask(described, key, identifiers=["patients.name"]).verified
    told = ask(described, key, rows_are_people=True).warnings
    assert any("`patients.name`" in one for one in told)


@pytest.mark.parametrize("linkable", [True, False])
def test_second_numbers_of_persons_stop_a_release(key: Path, linkable: bool) -> None:
    random = np.random.default_rng(3)
    who = np.r_[np.arange(60), random.integers(0, 60, 180)]
    patients = {"id": [f"P{one:05d}" for one in range(60)], "sex": random.choice(["F", "M"], 60)}
    stays = pa.table(
        {"stay": [f"A{at}" for at in range(240)], "patient": np.array(patients["id"])[who]}
    )
    stays = stays.append_column("ward", pa.array(random.choice(list("AB"), 240)))
    drugs = pa.table({"stay": stays["stay"], "drug": random.choice(list("abc"), 240)})
    asked: dict[str, Any] = {"k": 3, "qi": ["patients.sex", "drugs.drug"]}
    asked |= {"linkable": True, "m": 1, "key_file": key} if linkable else {}

    def released(**more: Any) -> Any:
        given = {"patients": pa.table(patients), "stays": stays, "drugs": drugs}
        for name, cells in more.items():
            given[name] = given[name].append_column("zz", pa.array(cells))
        refers = {"stays": {"patient": "patients.id"}, "drugs": {"stay": "stays.stay"}}
        tables = {n: {"source": t, "references": refers.get(n, {})} for n, t in given.items()}
        return sf.relational.anonymize({"person": "patients.id", "tables": tables}, **asked)

    second = [f"Q{7 * one % 61}" for one in who]
    for name in ("stays", "drugs"):  # one step and two steps away from the person
        with pytest.raises(ColumnError, match=rf"`{name}.zz`.*one-to-one with `patients.id`"):
            released(**{name: second})
    with pytest.raises(ColumnError, match=r"`drugs.zz`.*persons of `patients.id`"):
        released(drugs=[f"p{one}" for one in random.permutation(who)])
    told = released(patients=[f"Q{7 * one % 61}" for one in range(60)]).warnings
    assert any("different in nearly every row: `patients.zz`" in one for one in told)
    assert released(drugs=random.random(240)).verified


def test_an_attack_with_the_dataset_itself_finds_nobody(
    house: Path, key: Path, tmp_path: Path
) -> None:
    ask(house, key, output=tmp_path / "released")
    found = sf.relational.attack(tmp_path / "released", house)
    assert found.holds
    assert (found.k, found.m, found.persons) == (3, 2, 40)
    assert found.attackers == found.matches_none + found.matches_k
    assert page_of(found).tone == "good"
    for wrong in ({"m": -1}, {"k": 0}):
        with pytest.raises(ParameterError, match="is out of range"):
            sf.relational.attack(tmp_path / "released", house, **wrong)
    harder = sf.relational.attack(tmp_path / "released", house, m=4, k=40)
    most = sf.relational.attack(tmp_path / "released", house, m=10**30, k=40)
    assert most.attackers == most.persons
    assert not harder.holds
    page, fewer = page_of(harder), harder.matches_one + harder.matches_few
    assert (page.tone, f"{fewer} of {harder.attackers} attackers" in page.verdict) == ("bad", True)
    told = sfumato("attack", tmp_path / "released", house, "-m", 4, "-k", 40).out
    assert f"{harder.matches_few}  are left with 2 to 39 persons" in told
    assert "at most 4 rows of one" in told


def test_an_attack_finds_whom_a_weak_release_shows(house: Path, key: Path, tmp_path: Path) -> None:
    ask(house, key, output=tmp_path / "released", qi=["patients.sex"], k=2, m=1)
    place, record = opened_certificate(tmp_path)
    for one in record["promises"]:
        if one["kind"] == "linked-tables":
            one["own"], one["events"] = ["sex", "born"], {"visits": ["ward"]}
    Certificate(record).write(place)
    found = sf.relational.attack(tmp_path / "released", house)
    assert found.matches_one > 0
    verified = sf.relational.verify(tmp_path / "released")
    assert not verified.holds


def test_verify_notices_what_was_changed(house: Path, key: Path, tmp_path: Path) -> None:
    ask(house, key, output=tmp_path / "released")
    released = tmp_path / "released"
    assert sf.relational.verify(released).holds
    assert page_of(sf.relational.verify(released)).verdict == "Everything that was checked holds."
    lines = (released / "patients.csv").read_text().splitlines()
    (released / "patients.csv").write_text("\n".join(lines[:-1]) + "\n")
    found = sf.relational.verify(released)
    broken = {finding.check for finding in found.findings if not finding.holds}
    assert {"fingerprint", "whole-references", "linked-tables"} <= broken


def test_what_lies_beside_a_release_is_none_of_it(house: Path, key: Path, tmp_path: Path) -> None:
    released = tmp_path / "released"
    ask(house, key, output=released)
    assert sf.relational.verify(released).not_promised["remarks"] == ()
    (released / "names.csv").write_bytes((house / "patients.csv").read_bytes())
    found = sf.relational.verify(released)
    assert found.holds
    assert "not looked at: names.csv" in found.not_promised["remarks"][0]
    description = released / "dataset.toml"
    said = description.read_text()
    more = '\n[tables.names]\nsource = "names.csv"\n'
    for other in (said + more, said.replace("patients.csv", "names.csv"), "tables = 7", said[1:]):
        description.write_text(other)
        found = sf.relational.verify(released)
        broken = [finding.say for finding in found.findings if not finding.holds]
        assert other != said
        assert [told.split(":")[0] for told in broken] == ["dataset.toml is not as it was released"]


def test_an_altered_certificate_is_told_and_no_accident(
    house: Path, key: Path, tmp_path: Path
) -> None:
    released = tmp_path / "released"
    ask(house, key, output=released)
    place = released / "certificate.json"
    place.write_text(place.read_text().replace('"k": 3', '"k": 9'))
    told = sfumato("verify", released)
    assert told.code == 1
    assert "altered or" in told.out
    assert "It does not hold." in told.out


def test_an_attack_says_that_dates_were_moved(key: Path, tmp_path: Path) -> None:
    born = pa.array([datetime.date(1950 + at, 1, 1) for at in range(20)])
    people = pa.table({"id": [f"P{at}" for at in range(20)], "born": born, "sex": ["F", "M"] * 10})
    described = {"person": "patients.id", "tables": {"patients": {"source": people}}}
    asked: dict[str, Any] = {"qi": ["patients.born"], "k": 2, "m": 1, "shift_days": 3000}
    ask(described, key, output=tmp_path / "out", shift_dates=True, **asked)
    found = sf.relational.attack(tmp_path / "out", described)
    assert found.moved
    (tmp_path / "house").mkdir()
    pa.csv.write_csv(people, tmp_path / "house" / "patients.csv")
    place = tmp_path / "house" / "dataset.toml"
    place.write_text('person = "patients.id"\n[tables.patients]\nsource = "patients.csv"\n')
    told = sfumato("attack", tmp_path / "out", place).out
    assert "The release moved dates" in told


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"file": "../house/patients.csv"}, "does not lie beside"),
        ({"file": "/etc/passwd"}, "does not lie beside"),
        ({"file": 7}, None),
        (None, "lacks what it must say"),
    ],
)
def test_a_certificate_opens_nothing_but_what_lies_beside_it(
    house: Path, key: Path, tmp_path: Path, change: dict[str, Any] | None, said: str | None
) -> None:
    ask(house, key, output=tmp_path / "released")
    place, record = opened_certificate(tmp_path)
    if change is None:
        record["promises"][0]["events"] = {"nothing": ["x"]}
    else:
        record["output"]["tables"]["patients"] |= change
    Certificate(record).write(place)
    with pytest.raises(SourceError, match=said):
        sf.relational.verify(tmp_path / "released")


def test_a_table_of_a_released_folder_is_no_link(house: Path, key: Path, tmp_path: Path) -> None:
    released = tmp_path / "released"
    ask(house, key, output=released)
    (released / "patients.csv").rename(tmp_path / "elsewhere.csv")
    (released / "patients.csv").symlink_to(tmp_path / "elsewhere.csv")
    with pytest.raises(SourceError, match="this is a link"):
        sf.relational.verify(released)


def test_a_certificate_that_promises_nothing_does_not_hold(
    house: Path, key: Path, tmp_path: Path
) -> None:
    ask(house, key, output=tmp_path / "released")
    place, record = opened_certificate(tmp_path)
    kept = [told for told in record["promises"] if told["kind"] == "whole-references"]
    for promises in ([], kept):
        Certificate({**record, "promises": promises}).write(place)
        found = sf.relational.verify(tmp_path / "released")
        assert [one.check for one in found.findings if not one.holds] == ["promises"]


@pytest.mark.parametrize(
    "lie", [{"k": 9}, {"asked": {"k": 9}}, {"asked": {"m": "all"}}, {"qi": [["patients.sex"]]}]
)
def test_what_was_asked_of_tables_is_what_is_promised(
    house: Path, key: Path, tmp_path: Path, lie: dict[str, Any]
) -> None:
    ask(house, key, output=tmp_path / "released")
    place, record = opened_certificate(tmp_path)
    asked = {**record["asked"], **lie.get("asked", {})}
    Certificate({**record, **lie, "asked": asked}).write(place)
    found = sf.relational.verify(tmp_path / "released")
    assert [one.check for one in found.findings if not one.holds] == ["figures"]


@pytest.mark.parametrize("lie", ["k", "qi", "asked"])
def test_figures_of_tables_without_keys_are_counted_again(
    house: Path, key: Path, tmp_path: Path, lie: str
) -> None:
    sf.relational.anonymize(house, qi=QI, k=3, output=tmp_path / "released")
    place, record = opened_certificate(tmp_path)
    known: dict[str, list[str]] = defaultdict(list)
    for name in record["qi"][0]:
        known[name.partition(".")[0]].append(name.partition(".")[2])
    sizes = [
        min(Counter(tuple(row[c] for c in columns) for row in rows).values())
        for name, columns in known.items()
        for rows in [rows_of(tmp_path / "released" / f"{name}.csv")]
    ]
    assert record["k"] == min(sizes), "rows, which anybody can count, and not persons"
    record |= {"k": {"k": min(sizes) + 1}, "qi": {"qi": [record["qi"][0][:1]]}}.get(lie, {})
    if lie == "asked":
        promised = next(one for one in record["promises"] if one["kind"] == "anonymity")
        promised["models"][0]["k"] = 2
    Certificate(record).write(place)
    found = sf.relational.verify(tmp_path / "released")
    assert [one.check for one in found.findings if not one.holds] == ["figures"]


def test_a_certificate_that_promises_much_does_not_count_for_ever(
    house: Path, key: Path, tmp_path: Path
) -> None:
    ask(house, key, output=tmp_path / "released")
    place, record = opened_certificate(tmp_path)
    record["promises"][0]["m"] = 10**12
    Certificate(record).write(place)
    assert not sf.relational.verify(tmp_path / "released").holds


def test_who_is_found_only_after_a_join(house: Path) -> None:
    found = sf.relational.scan(house, ["patients.sex", "visits.ward", "visits.cost"])
    visits = next(one for one in found.tables if one.name == "visits")
    assert visits.way == ("visits.patient_id → patients.id",)
    assert (found.person, found.guessed, found.persons) == ("patients.id", False, 40)
    coarse = sf.relational.scan(house, ["patients.born", "visits.ward"])
    joined: dict[tuple[str, str], set[str]] = defaultdict(set)
    born = {row["id"]: row["born"] for row in rows_of(house / "patients.csv")}
    for row in rows_of(house / "visits.csv"):
        joined[born[row["patient_id"]], row["ward"]].add(row["patient_id"])
    alone = {one for some in joined.values() if len(some) == 1 for one in some}
    assert coarse.alone == 0
    assert coarse.only_joined == coarse.joined == len(alone)


def test_the_program_takes_datasets(house: Path, key: Path, tmp_path: Path) -> None:
    released = str(tmp_path / "released")
    scanned = json.loads(sfumato("scan", house, "--json").out)
    assert scanned["person"] == "patients.id"
    asked = ["-k", 3, "-m", 2, "--linkable", "--key-file", key, "--qi", ",".join(QI)]
    made = sfumato("anonymize", house / "dataset.toml", *asked, "-o", released)
    assert made.code == 0, made.err
    assert "all tables together" in made.out
    assert sfumato("verify", released).code == 0
    assert sfumato("attack", released, house, "--check").code == 0
    for source in (house, released):
        page = tmp_path / "page.html"
        assert sfumato("report", source, "-o", page, "--force").code == 0
        assert "<html" in page.read_text()
    assert "Nothing is promised about: visits." in page.read_text()
    few = ("--person", "patients.id", "--exclude", "visits", "--force")
    assert sfumato("report", house, *few, "-o", page).code == 0
    assert "patient_id" not in page.read_text()
    parsed = ("--parse", "patients.born=date")
    for verb in (("scan",), ("anonymize", *asked), ("report", "-o", page, "--force")):
        refused = sfumato(verb[0], house, *verb[1:], *parsed)
        assert (refused.code, "is about one table" in refused.err) == (2, True)
    assert sfumato("anonymize", house, *asked, "-o", released).code == 2
    assert sfumato("anonymize", house, *asked, "--dry-run").code == 0
    for more in (("--save-recoding", page), ("--write-config", page, "--dry-run")):
        assert sfumato("anonymize", house, *asked, *more, "--force").code == 2
    told = sfumato("anonymize", house, *asked, "--write-config", tmp_path / "all.toml").out
    assert "No table was written: give -o FOLDER" in told
    assert f"Settings written: {tmp_path / 'all.toml'}" in told
    refused = sfumato("verify", released, "-k", 5, "--qi", "sex")
    assert (refused.code, "by its certificate" in refused.err) == (2, True)
    shutil.rmtree(released)
    assert sfumato("verify", released).code == 2
    one = sfumato("measure", house, "-c", "sex")
    assert (one.code, "dataset of several tables" in one.err) == (2, True)
    wrong = sfumato("scan", house, "-c", "SEX")
    assert (wrong.code, "`patients.sex`" in wrong.err) == (2, True)


def test_patients_of_synthea_keep_their_conditions(key: Path) -> None:
    """What is left of 8,376 conditions of 1,171 patients, whoever knows one, two or three."""
    folder = Path(sf.__file__).parents[2] / "data" / "synthea"
    if not folder.is_dir():
        pytest.skip("the public tables are not here")
    qi = ["patients.BIRTHDATE", "patients.GENDER", "conditions.CODE"]
    leave = ["SSN", "DRIVERS", "PASSPORT", "FIRST", "LAST", "MAIDEN", "ADDRESS", "BIRTHPLACE"]
    with sf.relational.dataset(folder, person="patients.Id") as made:
        assert sum(one.orphans for one in made.references) == 0
        found = sf.relational.scan(made, qi)
        assert (found.persons, found.only_joined) == (1171, 266)
        others = [name for name in made.tables if name not in ("patients", "conditions")]
        lost = 0.0
        for m, most in ((1, 0.03), (2, 0.08), (3, 0.14)):
            release = sf.relational.anonymize(
                made,
                qi=qi,
                k=5,
                m=m,
                linkable=True,
                key_file=key,
                categorical=["conditions.CODE"],
                identifiers=[f"patients.{one}" for one in leave] + ["conditions.ENCOUNTER"],
                exclude=others,
            )
            assert release.events_kept / release.events > 0.99
            assert release.ncp_events is not None
            assert lost < release.ncp_events < most
            lost = release.ncp_events


def test_the_synthetic_hospital_has_three_tables(tmp_path: Path) -> None:
    folder = tmp_path / "hospital"
    made = sfumato("demo-data", "--relational", "-o", folder, "-n", 300)
    assert made.code == 0, made.err
    with sf.relational.dataset(folder) as found:
        assert set(found.paths) == {"patients", "admissions", "prescriptions"}
        assert found.tables["patients"].table.rows == 300
        assert [one.orphans for one in found.references] == [0, 0]
    assert sfumato("demo-data", "--relational", "-o", folder).code == 2
    none = tmp_path / "none"
    assert sfumato("demo-data", "--relational", "-o", none, "-n", 0).code == 0
    again = tmp_path / "again"
    sfumato("demo-data", "--relational", "-o", again, "-n", 300)
    assert all((again / one.name).read_bytes() == one.read_bytes() for one in folder.iterdir())


def test_copied_tables_name_nobody_either(house: Path, key: Path) -> None:
    wards = house / "wards.csv"
    wards.write_text("id,floor,ssn\n0,up,123-45-6789\n1,up,123-45-6780\n2,down,123-45-6781\n")
    with pytest.raises(ColumnError, match=r"`wards\.ssn` would be published"):
        ask(house, key)


def test_keys_of_tables_that_lead_to_nobody_are_spoken_of(house: Path, key: Path) -> None:
    told = ask(house, key).warnings
    assert any("`visits.ward_id` refers to a table that does not lead" in one for one in told)


def test_columns_of_other_persons_stop_a_release(key: Path) -> None:
    tables = house_tables()
    ids = tables["patients"]["id"].to_pylist()
    mothers = pa.array([None if at % 2 else ids[at // 2] for at in range(len(ids))])
    described = {
        "person": "patients.id",
        "tables": {"patients": {"source": tables["patients"].append_column("mother", mothers)}},
    }
    asked: dict[str, Any] = {"qi": ["patients.sex"]}
    with pytest.raises(ColumnError, match=r"`patients\.mother` would be .* of `patients\.id`"):
        ask(described, key, **asked)
    assert ask(described, key, **asked, identifiers=["patients.mother"]).verified


@pytest.mark.parametrize("linkable", [True, False], ids=["linkable", "unlinkable"])
def test_persons_written_in_two_ways_are_spoken_of(linkable: bool, key: Path) -> None:
    tables = house_tables()
    ids = tables["patients"]["id"].to_pylist()
    visits = tables["visits"].drop_columns(["ward_id"])
    twice = pa.array([ids[1].lower(), *ids[1:]])
    whose = visits["patient_id"].to_pylist()
    whose[-1] = f" {whose[-1]}"
    described = {
        "person": "patients.id",
        "tables": {
            "patients": {"source": tables["patients"].set_column(0, "id", twice)},
            "visits": {
                "source": visits.set_column(0, "patient_id", pa.array(whose)),
                "references": {"patient_id": "patients.id"},
            },
        },
    }
    more: dict[str, Any] = {} if linkable else {"m": None, "linkable": None, "key_file": None}
    told = ask(described, key, **more).warnings
    mine = [one for one in told if "only in case, blanks, leading zeros" in one]
    assert len(mine) == 2
    assert mine[0].startswith("2 values of `patients.id` differ from others only in case")
    assert mine[1].startswith("1 value of `visits.patient_id` differs from `patients.id` only")


def test_keys_written_in_two_ways_are_spoken_of(key: Path) -> None:
    """Numbers in one table and text in the other, and keys that lead on to another table."""
    ids, visits = list(range(1, 21)), [f"V{one}" for one in range(1, 21)]
    described = {
        "person": "patients.id",
        "tables": {
            "patients": {"source": pa.table({"id": ids, "sex": ["F", "M"] * 10})},
            "visits": {
                "source": pa.table({"id": visits, "who": ["007", *map(str, ids[1:])]}),
                "references": {"who": "patients.id"},
            },
            "drugs": {
                "source": pa.table({"visit": ["v2", *visits[1:]], "drug": ["a", "b"] * 10}),
                "references": {"visit": "visits.id"},
            },
        },
    }
    told = [
        one.partition(" only in")[0] for one in ask(described, key, qi=["patients.sex"]).warnings
    ]
    assert "1 value of `visits.who` differs from `patients.id`" in told
    assert "1 value of `drugs.visit` differs from `visits.id`" in told


def test_persons_who_refer_to_rows_that_are_left_out(key: Path) -> None:
    ids = list(range(20))
    described: dict[str, Any] = {
        "person": "patients.id",
        "tables": {
            "patients": {
                "source": pa.table({"id": ids, "sex": ["F", "M"] * 10, "last": ids}),
                "references": {"last": "visits.id"},
            },
            "visits": {
                "source": pa.table({"id": ids, "who": [99, *ids[1:]], "ward": ["a", "b"] * 10}),
                "references": {"who": "patients.id"},
            },
        },
    }
    asked: dict[str, Any] = {"qi": ["patients.sex", "visits.ward"]}
    with pytest.raises(PromiseError, match=r'identifiers=\["patients\.last"\]'):
        ask(described, key, **asked)
    assert ask(described, key, **asked, identifiers=["patients.last"]).verified
    described["tables"]["patients"]["source"] = pa.table(
        {"id": ids, "sex": ["F", "M"] * 10, "last": [None, *ids[1:]]}
    )
    told = ask(described, key, **asked).warnings
    assert any("`patients.last` stays as a pseudonym: which of a person's rows" in t for t in told)


def test_a_table_of_keys_is_released_or_left_out(key: Path, tmp_path: Path) -> None:
    """Who treats whom: two references and nothing else; and drugs that lead on through it."""
    patients = house_tables()["patients"]
    ids = patients["id"].to_pylist()
    treats = pa.table({"id": range(40), "patient": ids, "doctor": [at % 3 for at in range(40)]})
    drugs = pa.table({"treats": [at // 2 for at in range(80)], "drug": ["a", "b"] * 40})
    described = {
        "person": "patients.id",
        "tables": {
            "patients": {"source": patients},
            "doctors": {"source": pa.table({"id": [0, 1, 2], "wing": ["a", "b", "a"]})},
            "treats": {
                "source": treats,
                "references": {"patient": "patients.id", "doctor": "doctors.id"},
            },
            "drugs": {"source": drugs, "references": {"treats": "treats.id"}},
        },
    }
    described["tables"]["doctors"]["publish"] = True  # type: ignore[index]
    asked: dict[str, Any] = {"qi": ["patients.sex", "drugs.drug"]}
    ask(described, key, output=tmp_path / "linked", **asked)
    with sf.relational.dataset(tmp_path / "linked") as made:
        assert {r.say for r in made.references} == {
            "treats.patient → patients.id", "treats.doctor → doctors.id",
            "drugs.treats → treats.id",
        }  # fmt: skip
        assert not any(one.orphans for one in made.references)
        assert made.tables["treats"].table.rows == 40
        assert not set(made.tables["treats"].table.to_arrow()["patient"].to_pylist()) & set(ids)
    release = ask(
        described, key, output=tmp_path / "rows", m=None, linkable=None, key_file=None, **asked
    )
    assert release.left_out == ("treats",)
    assert any(one.startswith("`treats` is not released") for one in release.warnings)
    assert sorted(one.name for one in (tmp_path / "rows").iterdir()) == [
        "certificate.json", "dataset.toml", "doctors.parquet", "drugs.parquet", "patients.parquet",
    ]  # fmt: skip
    assert sf.relational.verify(tmp_path / "rows").holds


def test_small_numbers_of_relatives_are_noticed(key: Path) -> None:
    """Mothers 17 and 18 of patients 1 to 40."""
    tables = house_tables()
    patients = tables["patients"].set_column(0, "id", pa.array(range(1, 41)))
    asked: dict[str, Any] = {"qi": ["patients.sex"]}
    for mothers, stops in ((20, True), (5, False)):
        column = pa.array([10 + at % mothers for at in range(40)])
        rows = patients.append_column("mother", column)
        described = {"person": "patients.id", "tables": {"patients": {"source": rows}}}
        if stops:
            with pytest.raises(ColumnError, match=r"`patients\.mother` would be published"):
                ask(described, key, **asked)
        else:
            told = ask(described, key, **asked).warnings
            assert any("values of `patients.mother` are also ones" in one for one in told)


def test_cells_that_stay_are_written_as_they_stand(tmp_path: Path) -> None:
    """A number of a column with fractions keeps its digits; nobody's rows are not among them."""
    house = tmp_path / "house"
    house.mkdir()
    (house / "patients.csv").write_text("id,sex\n" + "".join(f"P{n},F\n" for n in range(6)))
    lines = [f"P{n % 6},A,{('5', '5.50', '05')[n % 3]}\n" for n in range(12)]
    (house / "visits.csv").write_text("patient_id,ward,dose\n" + "".join(["P9,A,7\n", *lines]))
    release = sf.relational.anonymize(
        {
            "person": "patients.id",
            "tables": {
                name: {"source": str(house / f"{name}.csv")} for name in ("patients", "visits")
            },
        },
        qi=["patients.sex", "visits.ward"],
        k=3,
        output=tmp_path / "released",
        format="csv",
    )
    rows = rows_of(tmp_path / "released" / "visits.csv")
    assert [row["dose"] for row in rows] == ["05"] * 4 + ["5"] * 4 + ["5.50"] * 4
    told = [finding.say for finding in release.findings] + list(release.warnings)
    assert not any("`patients.id`" in one and "left out" in one for one in told)
    assert not any("patients.id" in one for one in told if one.startswith("visits: without"))


def test_keys_of_look_up_tables_that_are_one_persons_are_counted(key: Path) -> None:
    """Stays lead to nobody, and each is one patient's: two drugs of one stay can be seen."""
    described = {
        "person": "patients.id",
        "tables": {
            "patients": {"source": pa.table({"id": [f"p{n}" for n in range(4)]}), "key": "id"},
            "stays": {
                "source": pa.table({"id": [f"s{n}" for n in range(8)], "ward": ["a"] * 8}),
                "key": "id",
                "publish": True,
            },
            "drugs": {
                "source": pa.table(
                    {
                        "patient_id": [f"p{n // 2}" for n in range(8)],
                        "stay_id": ["s0", "s0", "s2", "s2", "s4", "s5", "s6", "s7"],
                        "drug": ["x"] * 8,
                    }
                ),
                "references": {"patient_id": "patients.id", "stay_id": "stays.id"},
            },
        },
    }
    release = ask(described, key, qi=["drugs.drug"], k=3, m=2)
    assert release.k is not None
    assert release.k >= 3
    assert release.events_kept <= 6, "two persons had both drugs in one stay, two in two"
    assert not any("drugs.stay_id" in one for one in release.warnings)


@pytest.mark.parametrize("linkable", [True, False])
def test_dates_of_a_person_move_alike_in_all_tables(
    linkable: bool, key: Path, tmp_path: Path
) -> None:
    import datetime as dt

    day = dt.date(2024, 5, 1)
    persons = [f"P{n}" for n in range(8)]
    whose = [n % 8 for n in range(24)]
    described = {
        "person": "patients.id",
        "tables": {
            "patients": {"source": pa.table({"id": persons, "sex": ["F"] * 8, "born": [day] * 8})},
            "visits": {
                "source": pa.table(
                    {
                        "patient_id": [persons[n] for n in whose],
                        "ward": ["A"] * 24,
                        "day": [day + dt.timedelta(days=n // 8) for n in range(24)],
                        "owner": [f"of {n}" for n in whose],
                    }
                )
            },
        },
    }
    more: dict[str, Any] = {"shift_dates": True, "shift_days": 30, "output": tmp_path / "out"}
    more |= {"rows_are_people": True, "qi": ["patients.sex", "visits.ward"], "k": 2}
    if not linkable:
        more |= {"linkable": None, "m": None}
    release = ask(described, key, **more)
    assert any("the same in all tables" in one for one in release.warnings)
    visits = sf.table(tmp_path / "out" / "visits.parquet").to_arrow().to_pylist()
    moved = defaultdict(set)
    for row in visits:
        moved[row["owner"]].add((row["day"] - day).days)
    assert all(len(days) == 3 and max(days) - min(days) == 2 for days in moved.values())
    by_person = {min(days) for days in moved.values()}
    assert len(by_person) > 1
    assert all(abs(one) <= 30 for one in by_person)
    born = sf.table(tmp_path / "out" / "patients.parquet").to_arrow()["born"].to_pylist()
    assert {(one - day).days for one in born} == by_person
    single = pa.table({"id": persons, "sex": ["F"] * 8, "day": [day] * 8})
    alone = sf.anonymize(
        single, qi=["sex"], k=2, person="id", shift_dates=True, shift_days=30, key_file=key
    )
    assert {(one - day).days for one in alone.to_arrow()["day"].to_pylist()} == by_person


def test_moving_dates_needs_a_key_dates_and_days(key: Path, house: Path) -> None:
    with pytest.raises(ParameterError, match="secret key"):
        sf.relational.anonymize(house, qi=QI, k=3, shift_dates=True)
    with pytest.raises(ColumnError, match="no column that is released holds dates"):
        ask(house, key, shift_dates=True)
    with pytest.raises(ParameterError, match="no dates are moved"):
        ask(house, key, shift_days=10)
    with pytest.raises(ParameterError, match="fewer than one day"):
        ask(house, key, shift_dates=True, shift_days=0)


def drugs(whose: list[str], stays: list[int]) -> dict[str, Any]:
    """Drugs that lead to a patient, and to her by her stay."""
    patients, rows = house_tables()["patients"], len(whose)
    stay = pa.table({"id": range(40), "patient": patients["id"]})
    given = pa.table({"patient": whose, "stay": stays, "drug": ["a", "b"] * (rows // 2)})
    return {
        "person": "patients.id",
        "tables": {
            "patients": {"source": patients},
            "stays": {"source": stay, "references": {"patient": "patients.id"}},
            "drugs": {
                "source": given,
                "references": {"patient": "patients.id", "stay": "stays.id"},
            },
        },
    }


ROWS: dict[str, Any] = {"m": None, "linkable": None, "key_file": None}
"""Rows that cannot be linked."""


@pytest.mark.parametrize("more", [{}, ROWS], ids=["linkable", "unlinkable"])
def test_rows_of_two_persons_are_refused_by_any_way(more: dict[str, Any], key: Path) -> None:
    ids = house_tables()["patients"]["id"].to_pylist()
    asked: dict[str, Any] = {"qi": ["patients.sex", "drugs.drug"], **more}
    with pytest.raises(ColumnError, match=r"40 rows of `drugs` belong to two persons: `stay`"):
        ask(drugs([*ids[1:], ids[0]], [*range(40)]), key, **asked)
    assert ask(drugs(ids, [*range(39), 99]), key, **asked).verified  # one stay leads nowhere


@pytest.mark.parametrize("more", [{}, ROWS], ids=["linkable", "unlinkable"])
def test_empty_tables_are_released_as_such(more: dict[str, Any], key: Path, tmp_path: Path) -> None:
    described = drugs([], [])
    empty = pa.table({"patient": pa.array([], "string"), "drug": pa.array([], "string")})
    described["tables"]["drugs"] = {"source": empty, "references": {"patient": "patients.id"}}
    out = tmp_path / "out"
    release = ask(described, key, qi=["patients.sex", "drugs.drug"], output=out, **more)
    assert release.k is not None
    assert release.k >= 3
    assert (out / "drugs.parquet").exists()
    assert sf.relational.verify(out).holds
    described["tables"]["patients"]["source"] = house_tables()["patients"][:0]
    with pytest.raises(ParameterError, match="k = 3 is larger"):
        ask(described, key, qi=["patients.sex"], **more)


def test_rows_that_are_all_nobodys_leave_an_empty_table(key: Path, tmp_path: Path) -> None:
    described = drugs(["nobody"] * 40, [99] * 40)
    qi = ["patients.sex", "drugs.drug"]
    release = ask(described, key, qi=qi, output=tmp_path / "out", **ROWS)
    assert {one.name: one.rows for one in release.tables} == {"patients": 40, "drugs": 0}
    assert any(one.startswith("40 rows of `drugs` belong to nobody") for one in release.warnings)
    assert sf.relational.verify(tmp_path / "out").holds


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('key = "id"', 'key = ["id", "sex"]', "key must be the name of one column"),
        ('"patients.id", ward_id', "true, ward_id", "refers to must be the name of one column"),
        ('person = "patients.id"', 'person = ["patients.id"]', "person must be the name of one"),
        ('key = "id"', 'key = "sex"', "some values occur twice"),
    ],
)
def test_descriptions_that_say_something_else(old: str, new: str, told: str, house: Path) -> None:
    text = (house / "dataset.toml").read_text()
    assert old in text
    (house / "dataset.toml").write_text(text.replace(old, new))
    done = sfumato("scan", house)
    assert done.code == 2
    assert told in " ".join(done.err.split())


def test_a_key_without_a_value_is_refused(key: Path) -> None:
    described = drugs(house_tables()["patients"]["id"].to_pylist(), [*range(40)])
    described["tables"]["stays"]["key"] = "id"
    stays = described["tables"]["stays"]["source"]
    numbers = pa.array([None, *range(1, 40)])
    described["tables"]["stays"]["source"] = stays.set_column(0, "id", numbers)
    with pytest.raises(ColumnError, match=r"`stays\.id` was said .* it is empty in 1 row"):
        ask(described, key, qi=["patients.sex"])


def test_a_dataset_becomes_a_folder(house: Path, key: Path, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="the name of a file"):
        ask(house, key, output=tmp_path / "out.csv")


def test_what_was_not_released_is_not_verified(house: Path) -> None:
    for verb in (["verify", house], ["attack", house, house]):
        done = sfumato(*verb)
        assert done.code == 2
        assert "no certificate lies here" in done.err


def test_no_column_is_taken_for_the_owner(key: Path) -> None:
    described = drugs(house_tables()["patients"]["id"].to_pylist(), [*range(40)])
    source = described["tables"]["drugs"]["source"]
    named = source.append_column("patients.id", source["drug"])
    named = named.append_column("patients.id'", source["drug"])
    described["tables"]["drugs"]["source"] = named
    del described["tables"]["drugs"]["references"]["patient"]
    release = ask(described, key, qi=["patients.sex", "drugs.drug"], **ROWS)
    assert release.verified


@pytest.mark.parametrize("linkable", [True, False])
def test_tables_of_which_nothing_is_known_are_spoken_of(linkable: bool, key: Path) -> None:
    people = pa.table({"id": range(20), "sex": ["F", "M"] * 10})
    drugs = pa.table({"whose": [*range(20)], "drug": ["rare", *["common"] * 19]})
    house = {
        "person": "people.id",
        "tables": {
            "people": {"source": people, "key": "id"},
            "drugs": {"source": drugs, "references": {"whose": "people.id"}},
        },
    }
    more: dict[str, Any] = {"linkable": True, "m": 1, "key_file": key} if linkable else {}
    told = sf.relational.anonymize(house, k=3, qi=["people.sex"], **more).warnings
    how = "under pseudonyms" if linkable else "without their keys"
    assert any(
        f"no quasi-identifier of `drugs` is named: its rows are published {how}" in one
        for one in told
    )
    alone = "drugs: not promised: 1 of 20 rows (5.0%) is alone for whoever knows `drug`; blur"
    assert any(one.startswith(alone) for one in told)
    known = sf.relational.anonymize(house, k=3, qi=["people.sex", "drugs.drug"], **more).warnings
    assert not any("no quasi-identifier" in one for one in known)


def test_columns_that_still_join_rows_without_keys_are_named() -> None:
    people = pa.table({"id": range(30), "sex": ["F", "M"] * 15})
    episode = [500 + 2 * (at % 30) + at // 60 for at in range(120)]
    stays = {"whose": [at % 30 for at in range(120)], "illness": ["a", "b"] * 60}
    wards = {"ward": [at % 4 for at in range(120)]}
    tables = {
        "people": {"source": people, "key": "id"},
        "stays": {
            "source": pa.table({**stays, **wards, "Episode": episode}),
            "references": {"whose": "people.id"},
        },
        "drugs": {
            "source": pa.table({**stays, **wards, "episode": episode}),
            "references": {"whose": "people.id"},
        },
    }
    asked = {"k": 3, "qi": ["people.sex", "stays.illness", "drugs.illness"]}
    told = sf.relational.anonymize({"person": "people.id", "tables": tables}, **asked).warnings
    (said,) = [one for one in told if "may still join" in one]
    assert "their rows: `episode` (stays and drugs);" in said
    gone = {**asked, "identifiers": ["drugs.episode"]}
    told = sf.relational.anonymize({"person": "people.id", "tables": tables}, **gone).warnings
    assert not any("may still join" in one for one in told)


def test_either_of_two_columns_may_be_about_somebody_else(key: Path) -> None:
    ids = [f"P{at:02d}" for at in range(20)]
    births = pa.table({"mother": [*ids[1:], ids[0]], "child": ids, "ward": ["a", "b"] * 10})
    house = {
        "person": "people.id",
        "tables": {
            "people": {"source": pa.table({"id": ids, "sex": ["F", "M"] * 10}), "key": "id"},
            "births": {
                "source": births,
                "references": {"mother": "people.id", "child": "people.id"},
            },
        },
    }
    asked: dict[str, Any] = {"qi": ["people.sex", "births.ward"], "k": 3}
    with pytest.raises(ColumnError) as refused:
        sf.relational.anonymize(house, **asked)
    for name in ("mother", "child"):
        assert f'identifiers=["births.{name}"]' in str(refused.value)
        assert f"references = {{ {name} = false }}" in str(refused.value)
        assert sf.relational.anonymize(house, **asked, identifiers=[f"births.{name}"]).verified


def test_a_dataset_of_which_only_persons_are_known_counts_no_rows(house: Path) -> None:
    shown = sfumato("anonymize", house, "-k", 3, "--qi", "patients.sex").out
    told = " ".join(shown.split())
    assert "no rows of other tables are among what others may know." in told
    assert "0 of 0" not in told
    assert "quasi-identifiers NCP" in told
