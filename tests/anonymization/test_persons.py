"""Every class of a release holds enough different persons, counted by hand."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.anonymization.registry import METHODS
from sfumato.errors import ColumnError, ParameterError, PromiseError, SfumatoError
from sfumato.utility import compare

QI = ("age", "town")
COUNTING = [name for name in METHODS if name not in ("quantiles", "optimal-1d")]


def admissions(seed: int, persons: int = 9, rows: int = 40) -> pa.Table:
    """Rows of persons, some of whom have many; `row` tells rows apart and is kept."""
    random = np.random.default_rng(seed)
    share = random.dirichlet(np.full(persons, 0.5))
    who = np.sort(random.choice(persons, rows, p=share))
    return pa.table(
        {
            "patient": [f"P{one}" for one in who],
            "age": random.integers(20, 30, rows) + who % 3,
            "town": random.choice(["A", "B", "C", "D"], rows),
            "ill": random.choice(["flu", "gout", "cold"], rows, p=[0.5, 0.3, 0.2]),
            "row": np.arange(rows) * 0.5,
        }
    )


def histories(table: pa.Table, release: Any) -> dict[tuple[Any, ...], list[tuple[str, str]]]:
    """Person and illness of the rows of each class."""
    owner = dict(zip(table["row"].to_pylist(), table["patient"].to_pylist(), strict=True))
    classes = defaultdict(list)
    for row in release.to_arrow().to_pylist():
        assert "patient" not in row
        classes[tuple(row[name] for name in QI)].append((owner[row["row"]], row["ill"]))
    return classes


@pytest.mark.crossed(16)
@pytest.mark.parametrize("method", COUNTING)
@pytest.mark.parametrize("seed", range(8))
def test_every_class_holds_k_persons(method: str, seed: int) -> None:
    table = admissions(seed)
    k = 2 + seed % 2
    release = sf.anonymize(table, qi=QI, k=k, person="patient", method=method, seed=seed)
    classes = histories(table, release)
    smallest = min(len({who for who, _ in rows}) for rows in classes.values())
    assert release.k == smallest >= k
    assert release.rows == sum(len(rows) for rows in classes.values())


def test_rows_left_out_take_their_persons_with_them() -> None:
    """Where rows are missing from a release, row i of it is not row i of the table."""
    table = pa.table({"who": list("aabbccdd"), "age": [1, 2, 1, 2, 1, 2, 7, 7]})
    trees = {"age": sf.Hierarchy.from_levels([["1", "2", "7"], ["low", "low", "high"], ["*"] * 3])}
    release = sf.anonymize(
        table, qi=["age"], k=3, person="who", method="full-domain", hierarchies=trees,
        suppression_limit=0.3,
    )  # fmt: skip
    assert (release.rows, release.suppressed_rows, release.k) == (6, 2, 3)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["mondrian", "lattice", "kmember", "cells"])
def test_every_class_of_many_small_tables_holds_k_persons(method: str) -> None:
    for seed in range(750):
        table = admissions(seed, persons=4 + seed % 5, rows=6 + seed % 20)
        k = min(2 + seed % 2, len(table["patient"].unique()))
        release = sf.anonymize(table, qi=QI, k=k, person="patient", method=method, seed=seed)
        classes = histories(table, release)
        assert all(len({who for who, _ in rows}) >= k for rows in classes.values())


def test_counting_rows_would_not_do() -> None:
    table = admissions(3, persons=6, rows=60)
    release = sf.anonymize(table, qi=QI, k=3, identifiers=["patient"], rows_are_people=True)
    persons = [len({who for who, _ in rows}) for rows in histories(table, release).values()]
    assert release.k is not None
    assert release.k >= 3 > min(persons)


def pairs(rows: list[tuple[str, str]]) -> Counter[str]:
    """A person counts once for each value it has."""
    return Counter(value for _, value in set(rows))


def measured(asked: dict[str, Any], rows: list[tuple[str, str]], table: Counter[str]) -> bool:
    """Whether a class satisfies a model, by its definition."""
    held, persons = pairs(rows), len({who for who, _ in rows})
    total = sum(held.values())
    shares = [count / total for count in held.values()]
    if "alpha" in asked:
        return max(held.values()) / persons <= asked["alpha"] + 1e-9
    if "t" in asked:
        whole = sum(table.values())
        distance = sum(abs(held[v] / total - table[v] / whole) for v in table) / 2
        return distance <= asked["t"] + 1e-9
    if "likeness" in asked:
        whole = sum(table.values())
        gains = [held[v] / total / (table[v] / whole) - 1 for v in held]
        return max(gains) <= asked["likeness"] + 1e-9
    if asked.get("l_kind") == "entropy":
        return -sum(p * math.log(p) for p in shares) >= math.log(asked["l"]) - 1e-9
    if asked.get("l_kind") == "recursive":
        ranked = sorted(held.values(), reverse=True)
        return ranked[0] < asked["c"] * sum(ranked[asked["l"] - 1 :])
    return len(held) >= asked.get("l", asked.get("p", 1))


MODELS: list[dict[str, Any]] = [
    {"l": 2},
    {"l": 1.6, "l_kind": "entropy"},
    {"l": 2, "l_kind": "recursive", "c": 3.0},
    {"t": 0.35, "t_distance": "equal"},
    {"p": 2},
    {"alpha": 0.9},
    {"likeness": 1.5},
]


@pytest.mark.crossed(12)
@pytest.mark.parametrize("method", ["mondrian", "lattice", "kmember", "full-domain", "cells"])
@pytest.mark.parametrize("asked", MODELS, ids=str)
def test_models_count_a_person_once_for_each_value(method: str, asked: dict[str, Any]) -> None:
    kept = 0
    for seed in range(4):
        table = admissions(seed, persons=12, rows=60)
        try:
            release = sf.anonymize(
                table, qi=QI, k=2, person="patient", sensitive=["ill"], method=method, **asked
            )
        except (PromiseError, ParameterError):
            continue  # nothing was published: then nothing is broken
        kept += 1
        classes = histories(table, release)
        whole = pairs([one for rows in classes.values() for one in rows])
        assert all(measured(asked, rows, whole) for rows in classes.values())
        assert all(len({who for who, _ in rows}) >= 2 for rows in classes.values())
    assert kept >= 2


@pytest.mark.parametrize("method", COUNTING)
def test_one_row_a_person_changes_no_byte(method: str, tmp_path: Path) -> None:
    table = admissions(5, rows=50)
    table = table.set_column(0, "patient", pa.array([f"P{at:02d}" for at in range(50)]))
    asked: dict[str, Any] = {"qi": QI, "k": 3, "sensitive": ["ill"], "l": 2, "method": method}
    counted, plain = tmp_path / "persons.csv", tmp_path / "rows.csv"
    release = sf.anonymize(table, person="patient", output=counted, **asked)
    sf.anonymize(table, identifiers=["patient"], output=plain, **asked)
    assert counted.read_bytes() == plain.read_bytes()
    assert release.details["persons"]["persons"] == 50


def test_several_sets_each_hold_k_persons() -> None:
    table = admissions(7, persons=15, rows=90).append_column("sex", pa.array(["F", "M", "M"] * 30))
    sets = [["age", "town"], ["age", "sex"]]
    release = sf.anonymize(table, qi=sets, k=3, person="patient")
    owner = dict(zip(table["row"].to_pylist(), table["patient"].to_pylist(), strict=True))
    for names in sets:
        classes = defaultdict(set)
        for row in release.to_arrow().to_pylist():
            classes[tuple(row[name] for name in names)].add(owner[row["row"]])
        assert min(map(len, classes.values())) >= 3


def test_actions_come_before_persons_are_counted() -> None:
    table = admissions(2, persons=10, rows=60)
    release = sf.anonymize(
        table, qi=QI, k=3, person="patient", columns={"age": {"round": 5}}, method="mondrian"
    )
    assert all(len({who for who, _ in rows}) >= 3 for rows in histories(table, release).values())


def test_a_release_is_verified_again_by_its_rows(tmp_path: Path) -> None:
    table, output = admissions(1), tmp_path / "released.parquet"
    release = sf.anonymize(table, qi=QI, k=3, person="patient", output=output)
    assert release.findings[0].measured["counted"] == "persons"
    again = sf.verify(output)
    assert again.holds
    assert "rows can be counted" in next(f.say for f in again.findings if f.check == "anonymity")
    written = pq.read_table(output)
    pq.write_table(written.slice(2), output)
    assert not sf.verify(output).holds


def test_verify_counts_persons_where_it_can() -> None:
    table = pa.table({"patient": ["a", "a", "a", "b"], "age": [1, 1, 2, 2]})
    assert sf.verify(table, qi=["age"], k=2).holds
    assert not sf.verify(table, qi=["age"], k=2, person="patient").holds
    assert sf.verify(table, qi=["age"], k=1, person="patient").holds


def test_rows_of_nobody_are_refused_with_their_number() -> None:
    table = pa.table({"patient": ["a", None, None, "b"], "age": [1, 1, 2, 2]})
    with pytest.raises(ColumnError, match="empty in 2 rows"):
        sf.anonymize(table, qi=["age"], k=2, person="patient")
    with pytest.raises(ColumnError, match="empty in 2 rows"):
        sf.verify(table, qi=["age"], k=2, person="patient")


def test_too_few_persons_are_told_before_anything_is_done() -> None:
    table = admissions(0, persons=4)
    with pytest.raises(ParameterError, match="3 persons"):
        sf.anonymize(table, qi=QI, k=5, person="patient")


@pytest.mark.parametrize(
    "asked",
    [
        {"qi": ["age", "patient"]},
        {"sensitive": ["patient"], "l": 2},
        {"missing": "wildcard"},
        {"method": "quantiles", "qi": ["age"]},
        {"target": "patient"},
    ],
    ids=str,
)
def test_what_cannot_be_promised_of_persons_is_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(SfumatoError):
        sf.anonymize(admissions(0), **{"qi": QI, "k": 2, "person": "patient", **asked})


def test_a_witness_of_other_rows_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from sfumato.release.promise import Anonymity

    table = sf.table(admissions(1))
    other = sf.table(admissions(2))
    promise = Anonymity((), (QI,), person="patient", witness=other)
    with pytest.raises(SfumatoError, match="not the same"):
        promise.check(table.exclude(["patient"]))


def visits(folder: Path, order: list[int], name: str = "visits.csv") -> Path:
    """A text file of forty persons' rows, in some order; cells are not written all alike."""
    doses = ("7", "7.0", "07.5", "")
    lines = [
        f"P{row % 40:02},{20 + row % 40 % 7},{'AB'[row % 3 // 2]},{doses[row % 4]}"
        for row in range(160)
    ]
    place = folder / name
    place.write_text("\n".join(["patient,age,town,dose", *(lines[row] for row in order)]) + "\n")
    return place


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_order_of_rows_tells_nothing(engine: Any, ending: str, tmp_path: Path) -> None:
    """Whatever the order of the input is, the release is the same; also when rows are left out."""
    asked: dict[str, Any] = {"qi": QI, "k": 3, "person": "patient"}
    orders = [list(range(160)), list(range(160))[::-1]]
    orders += [np.random.default_rng(seed).permutation(160).tolist() for seed in range(2)]
    made = []
    for at, order in enumerate(orders):
        source = sf.table(visits(tmp_path, order, f"{at}.csv"), engine=engine)
        output = tmp_path / f"released {at}.{ending}"
        release = sf.anonymize(source, output=output, **asked)
        assert release.details["persons"]["sorted"]
        assert release.certificate is not None
        assert release.certificate.body["output"]["sorted"] == "by cells"
        made.append(output.read_bytes())
    assert len(set(made)) == 1
    if ending == "csv":
        lines = made[0].decode().splitlines()[1:]
        cells = [[cell or chr(0x10FFFF) for cell in line.rsplit(",", 2)] for line in lines]
        assert cells == sorted(cells)
        assert {cell for _, _, cell in cells} == {"7", "7.0", "07.5", chr(0x10FFFF)}


def test_duckdb_sorts_as_memory_does(tmp_path: Path) -> None:
    source, made = visits(tmp_path, list(range(160))), []
    for engine in ("memory", "duckdb"):
        for ending in ("csv", "parquet"):
            output = tmp_path / f"{engine}.{ending}"
            opened = sf.table(source, engine=engine)  # type: ignore[arg-type]
            sf.anonymize(opened, qi=QI, k=3, person="patient", output=output)
            made.append(sf.table(output).to_arrow())
    assert made[0].equals(made[2])
    assert made[1].equals(made[3])


def test_rows_that_stay_are_sorted_where_others_are_left_out() -> None:
    table = admissions(4, persons=20, rows=120)
    release = sf.anonymize(
        table, qi=QI, k=4, person="patient", method="full-domain", suppression_limit=0.2
    )
    assert release.suppressed_rows
    rows = [tuple(row.values()) for row in release]
    assert rows == sorted(rows)
    assert all(len({who for who, _ in some}) >= 4 for some in histories(table, release).values())


def test_rows_of_single_persons_keep_their_order(tmp_path: Path) -> None:
    table = admissions(1).set_column(0, "patient", pa.array([f"P{at}" for at in range(40)]))
    release = sf.anonymize(table, qi=QI, k=2, person="patient", output=tmp_path / "one.csv")
    assert release.to_arrow()["row"].to_pylist() == table["row"].to_pylist()
    assert not release.details["persons"]["sorted"]
    assert release.certificate is not None
    assert "sorted" not in release.certificate.body["output"]


def test_a_sorted_frame_gets_a_new_index_and_keeps_its_types() -> None:
    import pandas as pd

    table = admissions(2, rows=60).drop_columns(["row"])
    frame = table.to_pandas().set_index(pd.Index(range(100, 160)))
    frame["ill"] = frame["ill"].astype("category")
    made = sf.anonymize(frame, qi=QI, k=2, person="patient").to_pandas()
    assert made.index.tolist() == list(range(60))
    assert made["ill"].dtype == frame["ill"].dtype
    assert sorted(made["ill"]) == sorted(frame["ill"])
    plain = sf.anonymize(table, qi=QI, k=2, person="patient").to_arrow()
    assert made["ill"].tolist() == plain["ill"].to_pylist()


def test_what_sorted_rows_were_is_not_guessed(tmp_path: Path) -> None:
    table, output = admissions(1), tmp_path / "released.parquet"
    release = sf.anonymize(table, qi=QI, k=3, person="patient", output=output)
    with pytest.raises(ParameterError, match="sorted by their cells"):
        compare(output, table)
    found = compare(output, table, row_key="row")
    assert found.certainty_penalty == pytest.approx(release.utility["ncp"])


def test_masked_rows_of_persons_are_sorted() -> None:
    table = pa.table(
        {"who": list("aabbccdd"), "age": [3, 3, 1, 1, 3, 3, 1, 1], "sex": list("fmfmfmfm")}
    )
    rows = sf.mask(table, measure="separation", beta=0.9, person="who").to_arrow()
    assert rows["age"].to_pylist() == [1, 1, 1, 1, 3, 3, 3, 3]
    assert rows["sex"].to_pylist() == list("ffmmffmm")


def stays(**more: list[Any]) -> pa.Table:
    """Forty persons with three rows each."""
    who = [f"P{7 * (row // 3):03}" for row in range(120)]
    return pa.table({"patient": who, "age": [20 + row // 3 % 4 for row in range(120)], **more})


def secret(folder: Path) -> Path:
    """A file with a key."""
    key = folder / "secret.key"
    key.write_text("5b1f0c9ae37d42886f10d9c4b7a2e35d8c61f4907ab35e2dd08f9b16c7423ae5")
    key.chmod(0o600)
    return key


def test_columns_of_other_persons_stop_a_release() -> None:
    mothers = [None if row % 4 else f"P{7 * (row // 4):03}" for row in range(120)]
    table = stays(mother=mothers)
    with pytest.raises(ColumnError, match=r"`mother` would be published, .* persons of `patient`"):
        sf.anonymize(table, qi=["age"], k=2, person="patient")
    assert sf.anonymize(table, qi=["age"], k=2, person="patient", identifiers=["mother"]).verified


@pytest.mark.parametrize(
    "mothers",
    [
        ["P000", "P007", "P014", None],  # three of them
        [f"P{7 * row:03}" for row in range(80)],  # half of them are no patients
    ],
)
def test_a_few_persons_and_persons_from_elsewhere_stop_a_release(mothers: list[Any]) -> None:
    table = stays(mother=[mothers[row % len(mothers)] for row in range(120)])
    with pytest.raises(ColumnError, match=r"`mother` would be published, .* persons of `patient`"):
        sf.anonymize(table, qi=["age"], k=2, person="patient")


def test_a_few_numbers_are_persons_where_those_leave_gaps() -> None:
    who = [10_000 + 997 * (row // 3) for row in range(120)]
    ages = [20 + row // 3 % 4 for row in range(120)]
    table = pa.table(
        {"patient": who, "age": ages, "guide": [who[row % 5 * 9] for row in range(120)]}
    )
    with pytest.raises(ColumnError, match="`guide`"):
        sf.anonymize(table, qi=["age"], k=2, person="patient")
    near = [1 + row // 3 for row in range(120)]
    table = pa.table({"patient": near, "age": ages, "dose": [1 + row % 4 for row in range(120)]})
    assert sf.anonymize(table, qi=["age"], k=2, person="patient").verified


def test_small_numbers_are_no_persons_by_chance() -> None:
    who = [1 + row // 3 for row in range(600)]
    table = pa.table({"patient": who, "age": [row % 5 for row in range(600)]})
    doses = table.append_column("dose", pa.array([1 + row * 7 % 90 for row in range(600)]))
    assert sf.anonymize(doses, qi=["age"], k=2, person="patient").verified
    mothers = table.append_column("guide", pa.array([1 + row * 7 % 200 for row in range(600)]))
    with pytest.raises(ColumnError, match="`guide`"):
        sf.anonymize(mothers, qi=["age"], k=2, person="patient")


def numbered(**more: list[int]) -> pa.Table:
    """Three hundred patients, 1 to 300, with two rows each."""
    who = [1 + row // 2 for row in range(600)]
    return pa.table({"patient": who, "size": [row % 5 for row in range(600)], **more})


def told_of(table: pa.Table) -> tuple[str, ...]:
    return sf.anonymize(table, qi=["size"], k=2, person="patient").warnings


@pytest.mark.parametrize("name", ["mother", "mother_id", "FatherNo", "spouse"])
def test_a_relative_with_the_number_of_a_patient_stops_a_release(name: str) -> None:
    mothers = [1 + row // 2 * 7 % 40 for row in range(600)]
    with pytest.raises(ColumnError, match=f"`{name}` would be published, .* of `patient`"):
        told_of(numbered(**{name: mothers}))
    few = numbered(**{name: [17 + row % 5 for row in range(600)]})  # five may be a code
    assert any(f"values of `{name}` are also ones of `patient`" in one for one in told_of(few))


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("age", [1 + row * 7 % 90 for row in range(600)]),
        ("age", [17] * 600),
        ("children", [1 + row % 6 for row in range(600)]),
        ("mother_age", [15 + row * 7 % 30 for row in range(600)]),
        ("mother", [row % 3 for row in range(600)]),  # nobody is patient 0
        ("dose", [5 * (1 + row % 40) for row in range(600)]),
    ],
)
def test_counts_and_ages_are_no_persons(name: str, cells: list[int]) -> None:
    assert not any("are also ones of" in one for one in told_of(numbered(**{name: cells})))


@pytest.mark.parametrize("name", ["mother", "mother_id"])
def test_relatives_need_not_all_be_patients(name: str) -> None:
    mothers = [1 + row * 7 % 90 for row in range(600)]
    unknown = [4_000 + row % 100 for row in range(600)]
    for others in (1, 31):
        table = numbered(**{name: [*mothers[others:], *unknown[:others]]})
        with pytest.raises(ColumnError, match=f"`{name}` would be published, .* of `patient`"):
            told_of(table)
    half = numbered(**{name: [*mothers[300:], *unknown[:300]]})
    assert any(f"values of `{name}` are also ones of `patient`" in one for one in told_of(half))
    fewer = numbered(**{name: [*mothers[400:], *unknown[:400]]})
    assert not any("are also ones of" in one for one in told_of(fewer))


@pytest.mark.parametrize("known", [1, 2, 3, 12])
def test_a_few_numbers_of_relatives_are_spoken_of(known: int) -> None:
    mothers = pa.array([17 + row if row < known else None for row in range(600)], pa.int64())
    told = told_of(numbered().append_column("mother", mothers))
    assert any("values of `mother` are also ones of `patient`" in one for one in told)


SPELLINGS = [("S{}", "s{}"), (" {} ", "{}"), ("{:,}", "{}"), ("AB-{}", "ab{:09}"), ("{}.0", "{}")]


@pytest.mark.parametrize("spellings", SPELLINGS)
def test_second_numbers_in_two_spellings_stop_a_release(spellings: tuple[str, str]) -> None:
    numbers = [
        spellings[row % 2].format(123_456_789 + row // 3 * 7_777).replace(",", "-")
        for row in range(120)
    ]
    with pytest.raises(ColumnError, match=r"`SUBJ` would be published, .* one-to-one"):
        sf.anonymize(stays(SUBJ=numbers), qi=["age"], k=2, person="patient")


@pytest.mark.parametrize("spellings", [("P-{:05}", "P{:05}"), ("{}", "{}.0"), ("P{}", "P_0{}")])
def test_persons_in_two_spellings_are_spoken_of(spellings: tuple[str, str]) -> None:
    whose = pa.array([spellings[row % 2].format(1 + row // 3) for row in range(120)])
    table = stays()
    table = table.set_column(table.column_names.index("patient"), "patient", whose)
    told = sf.anonymize(table, qi=["age"], k=2, person="patient").warnings
    assert any("80 values of `patient` differ from others only in case" in one for one in told)
    apart = pa.array([f"{1 + row // 3}-{row // 3 % 2}" for row in range(120)])
    table = table.set_column(table.column_names.index("patient"), "patient", apart)
    told = sf.anonymize(table, qi=["age"], k=2, person="patient").warnings
    assert not any("differ from others" in one for one in told)


def test_numbers_that_reach_as_far_as_those_of_patients_are_spoken_of() -> None:
    table = numbered(guide=[1 + row % 60 * 5 for row in range(600)])
    assert any("values of `guide` are also ones of `patient`" in one for one in told_of(table))


def test_a_second_number_of_a_person_stops_a_release(tmp_path: Path) -> None:
    numbers = [None if row < 9 else f"S-{row // 3 * 77}" for row in range(120)]
    table = stays(SUBJ=numbers, weight=[row // 3 + row % 3 / 4 for row in range(120)])
    asked: dict[str, Any] = {"qi": ["age"], "k": 2, "person": "patient"}
    with pytest.raises(ColumnError, match=r"`SUBJ` would be published, .* one-to-one"):
        sf.anonymize(table, **asked)
    told = sf.anonymize(table, **asked, rows_are_people=True).warnings
    assert any("`SUBJ`" in one for one in told)
    key = secret(tmp_path)
    told = sf.anonymize(table, **asked, pseudonyms=["SUBJ"], key_file=key).warnings
    assert any("`SUBJ` has one value per person" in one for one in told)


@pytest.mark.parametrize(
    ("shared", "wrong", "stops"), [(4, 0, True), (5, 0, False), (0, 8, True), (0, 9, False)]
)
def test_a_tenth_of_exceptions_hides_no_second_number(shared: int, wrong: int, stops: bool) -> None:
    """So many pairs of persons share a number, and so many persons have another in one row."""
    whose = [row // 3 for row in range(120)]
    whose = [one - one % 2 if one < 2 * shared else one for one in whose]
    numbers = [f"S-{(one + (row % 3 == 0 and one < wrong)) * 77}" for row, one in enumerate(whose)]
    asked: dict[str, Any] = {"qi": ["age"], "k": 2, "person": "patient"}
    if not stops:
        assert sf.anonymize(stays(SUBJ=numbers), **asked).k is not None
        return
    with pytest.raises(ColumnError, match=r"`SUBJ` would be published, .* one-to-one"):
        sf.anonymize(stays(SUBJ=numbers), **asked)


@pytest.mark.parametrize("again", [19, 20])
def test_twenty_further_rows_tell_a_second_number(again: int) -> None:
    whose = [*range(30), *range(again)]
    table = pa.table(
        {"patient": whose, "SUBJ": [f"S-{one * 77}" for one in whose], "age": [1] * len(whose)}
    )
    asked: dict[str, Any] = {"qi": ["age"], "k": 2, "person": "patient"}
    if again < 20:
        assert sf.anonymize(table, **asked).k is not None
        return
    with pytest.raises(ColumnError, match=r"`SUBJ` would be published, .* one-to-one"):
        sf.anonymize(table, **asked)


def test_blank_persons_are_nobody_and_words_for_nobody_are_spoken_of() -> None:
    table = pa.table({"patient": ["a", "", "  ", "b", "NA", "NA"], "age": [1, 1, 2, 2, 1, 2]})
    with pytest.raises(ColumnError, match="empty in 2 rows"):
        sf.anonymize(table, qi=["age"], k=2, person="patient")
    told = sf.anonymize(table.slice(3), qi=["age"], k=2, person="patient").warnings
    assert any("`patient` is `NA` in 2 rows" in one for one in told)
    told = sf.anonymize(table.slice(3, 2), qi=["age"], k=2, person="patient").warnings
    assert any("`patient` is `NA` in 1 row, " in one for one in told)


@pytest.mark.parametrize("drop", [True, False])
def test_an_index_of_persons_does_not_come_back(drop: bool) -> None:
    import pandas as pd

    frame = pd.DataFrame({"patient_id": [f"P{one:04}" for one in range(20)], "age": [30, 31] * 10})
    asked: dict[str, Any] = {} if drop else {"person": "patient_id"}
    indexed = frame.set_index("patient_id", drop=drop)
    made = sf.anonymize(indexed, qi=["age"], k=2, **asked).to_pandas()
    assert made.index.tolist() == list(range(20))
    assert made.columns.tolist() == ["age"]
    kept = frame[["age"]].set_index(pd.Index(range(5, 25), name="line"))
    assert sf.anonymize(kept, qi=["age"], k=2).to_pandas().index.tolist() == list(range(5, 25))


def test_equal_pseudonyms_of_two_columns_are_spoken_of(tmp_path: Path) -> None:
    table = pa.table({"patient": [1, 2, 3, 4], "doctor": ["3", "4", "5", "5"], "age": [1, 1, 2, 2]})
    asked: dict[str, Any] = {"qi": ["age"], "k": 2, "key_file": secret(tmp_path)}
    release = sf.anonymize(table, **asked, pseudonyms=["patient", "doctor"])
    assert any("2 values of `patient` also stand in `doctor`" in w for w in release.warnings)
    rows = release.to_arrow()
    assert rows["patient"][2] == rows["doctor"][0]
    alone = sf.anonymize(table, **asked, pseudonyms=["patient"], identifiers=["doctor"])
    assert not any("too, and have" in one for one in alone.warnings)


def test_pseudonyms_of_different_things_differ(tmp_path: Path) -> None:
    table = pa.table({"patient": [1, 2, 3, 4], "doctor": ["3", "4", "5", "5"], "age": [1, 1, 2, 2]})
    asked: dict[str, Any] = {"qi": ["age"], "k": 2, "key_file": secret(tmp_path)}
    actions = {"doctor": {"pseudonym": "doctors"}}
    release = sf.anonymize(table, **asked, pseudonyms=["patient"], columns=actions)
    rows = release.to_arrow()
    assert not {*rows["patient"].to_pylist()} & {*rows["doctor"].to_pylist()}
    assert rows["doctor"][2] == rows["doctor"][3]
    assert not any("too, and have" in one for one in release.warnings)
    with pytest.raises(ParameterError, match="say what the values are"):
        sf.anonymize(table, **asked, columns={"doctor": {"pseudonym": " "}})


@pytest.mark.parametrize(
    "asked",
    [
        {"alpha": 0.5},
        {"l": 5},
        {"l": 2.9, "l_kind": "entropy"},
        {"l": 3, "l_kind": "recursive", "c": 1.1},
    ],
)
def test_refusals_count_persons_and_not_the_values_they_have(asked):
    rows = pa.table(
        {
            "pid": [1, 1, 1, 2, 2, 3, 3, 3, 4],
            "e": [1, 2, 3, 1, 2, 3, 1, 2, 3],
            "s": list("xyzxyxyzx"),
        }
    )
    with pytest.raises(ParameterError, match=r"4 of 4 persons hold|all 4 persons together hold"):
        sf.anonymize(rows, k=2, person="pid", qi=["e"], sensitive="s", **asked)


@pytest.mark.parametrize(
    ("first", "second"), [("P3", "p3"), ("P3", "P3 "), ("P3", "P03"), ("7", "07"), ("é", "e\u0301")]
)
def test_persons_written_in_two_ways_are_spoken_of(first, second):
    who = [first, second, "a1", "a2", "a3", "a1"]
    rows = pa.table({"who": who, "age": [1, 1, 1, 2, 2, 2]})
    told = sf.anonymize(rows, k=2, person="who", qi=["age"]).warnings
    assert any(one.startswith("2 values of `who` differ from others only in case") for one in told)
    rows = pa.table({"who": ["P3", "P30", "a1", "a2", "a3", "a1"], "age": rows["age"]})
    told = sf.anonymize(rows, k=2, person="who", qi=["age"]).warnings
    assert not any("differ from others" in one or "blanks" in one for one in told)


def test_a_person_of_blanks_alone_is_spoken_of():
    rows = pa.table({"who": ["\u200b", "b", "a1", "a2", "a3", "a1"], "age": [1, 1, 1, 2, 2, 2]})
    told = sf.anonymize(rows, k=2, person="who", qi=["age"]).warnings
    assert any(one.startswith("1 value holds nothing but blanks in `who`") for one in told)


def test_groups_that_show_the_same_are_one_class_of_persons():
    rows = pa.table(
        {
            "pid": [31, 27, 29, 32, 26, 32, 32, 6, 8, 0],
            "sex": list("bbabbbbbaa"),
            "age": [9, 3, 1, None, 6, None, None, 8, None, 0],
            "ill": list("yzxxyxzxzz"),
        }
    )
    asked = {"l": 1.5, "l_kind": "entropy", "sensitive": "ill", "method": "kmember"}
    release = sf.anonymize(rows, k=2, person="pid", qi=["sex", "age"], **asked)
    shown = release.to_arrow()
    classes = {*zip(shown["sex"].to_pylist(), shown["age"].to_pylist(), strict=True)}
    assert release.classes == release.details["risk"][0].after.classes == len(classes)


@pytest.mark.parametrize("seed", range(8))
def test_no_class_that_mondrian_leaves_could_be_cut(seed: int) -> None:
    """Also where few combinations are those of many persons."""
    random = np.random.default_rng(seed)
    rows, persons = int(random.integers(60, 200)), int(random.integers(10, 40))
    who = random.integers(0, persons, rows)
    cells = {
        "a": (who * random.integers(0, 2) + random.integers(0, 4, rows)) % 6,
        "b": random.integers(0, 3, rows),
    }
    table = pa.table({"who": who, "row": np.arange(rows), **cells})
    release = sf.anonymize(table, k=4, qi=["a", "b"], person="who", identifiers=[])
    classes = defaultdict(list)
    for row in release.to_arrow().to_pylist():
        classes[row["a"], row["b"]].append(row["row"])
    for members in classes.values():
        for name in cells:
            values = cells[name][members]
            for cut in np.unique(values)[1:]:
                sides = [set(who[members][values < cut]), set(who[members][values >= cut])]
                assert min(map(len, sides)) < 4, "both sides hold enough persons"
