"""Whole histories: whatever any attacker knows of m rows, k persons remain."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from cli_tools import sfumato
from sfumato.anonymization import linkable
from sfumato.engines.protocol import ClassSizes
from sfumato.errors import BudgetError, ParameterError, SfumatoError
from sfumato.privacy import DistinctDiversity
from sfumato.release.other_promises import LinkedHistories
from sfumato.report.registry import page_of


def histories(seed: int, persons: int = 8, most: int = 4, values: int = 4) -> pa.Table:
    """Random persons with up to so many events; sex is their own, code and place are not."""
    random = np.random.default_rng(seed)
    rows = []
    for one in range(persons):
        sex = "FM"[random.integers(2)]
        for _ in range(random.integers(1, most + 1)):
            code = int(random.integers(values))
            rows.append((f"p{one}", sex, code, "xyz"[random.integers(3)], len(rows) * 0.5))
    who, sex, code, place, row = zip(*rows, strict=True)
    return pa.table({"who": who, "sex": sex, "code": code, "place": place, "row": row})


def attackers_left(rows: list[dict[str, Any]], m: int | None) -> int:
    """The fewest persons that any attacker is left with: brute force over what may be known."""
    people: dict[str, tuple[Any, list[tuple[Any, ...]]]] = {}
    for row in rows:
        people.setdefault(row["who"], (row["sex"], []))[1].append((row["code"], row["place"]))
    fewest = len(people)
    for sex, events in people.values():
        assert len({row["sex"] for row in rows if row["who"] in people}) >= 1
        every = (
            [tuple(events)]
            if m is None
            else [some for size in range(m + 1) for some in combinations(events, size)]
        )
        for some in every:
            wanted = Counter(some)
            fits = [
                other
                for other_sex, other in people.values()
                if other_sex == sex
                and (Counter(other) == wanted if m is None else not wanted - Counter(other))
            ]
            fewest = min(fewest, len(fits))
    return fewest


ASKED: dict[str, Any] = {"qi": ["sex", "code", "place"], "person": "who", "linkable": True}


@pytest.mark.parametrize("m", [1, 2, 3, "all"])
@pytest.mark.parametrize(
    "seeds",
    [range(16), pytest.param(range(16, 790), marks=pytest.mark.slow)],
    ids=["some", "many"],
)
def test_every_attacker_is_left_with_k_persons(m: int | str, seeds: range, key: Path) -> None:
    for seed in seeds:
        k = 2 + seed % 2
        table = histories(seed, persons=5 + seed % 4)
        release = sf.anonymize(table, k=k, m=m, key_file=key, **ASKED)
        rows = release.to_arrow().to_pylist()
        if not rows:
            continue
        known = None if m == "all" else int(m)
        left = attackers_left(rows, known)
        assert left >= k
        told = release.details["linkable"]
        assert told["rows_left_out"] == table.num_rows - len(rows)
        assert told["persons_left_out"] == len({*table["who"].to_pylist()}) - len(
            {row["who"] for row in rows}
        )


@pytest.mark.parametrize("m", [1, 2, 3, "all"])
@pytest.mark.parametrize(
    "seeds",
    [range(12), pytest.param(range(12, 330), marks=pytest.mark.slow)],
    ids=["some", "many"],
)
def test_rows_that_look_alike_are_shown_once(m: int | str, seeds: range, key: Path) -> None:
    """Then whoever knows m rows as they were is left with k, and nobody but them is left out."""
    for seed in seeds:
        k = 2 + seed % 2
        table = histories(seed, persons=5 + seed % 4)
        release = sf.anonymize(table, k=k, m=m, key_file=key, repeats="once", **ASKED)
        rows = release.to_arrow().to_pylist()
        looks = [(row["who"], row["code"], row["place"]) for row in rows]
        assert len(looks) == len({*looks})
        assert attackers_left(rows, None if m == "all" else int(m)) >= k
        told = release.details["linkable"]
        assert told["rows_left_out"] == told["rows_shown_once"] == table.num_rows - len(rows)
        assert len({row["who"] for row in rows}) == len({*table["who"].to_pylist()})


def values_told(rows: list[dict[str, Any]], m: int | None) -> Iterator[list[tuple[str, str]]]:
    """Whom any attacker is left with and the places they have: in all rows, and in those known."""
    people: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        people[row["who"]].append(row)
    codes = {who: Counter(row["code"] for row in hers) for who, hers in people.items()}
    for hers in people.values():
        sizes = [len(hers)] if m is None else range(m + 1)
        for some in (some for size in sizes for some in combinations(hers, size)):
            wanted = Counter(row["code"] for row in some)
            fits = [
                row
                for who, other in people.items()
                if other[0]["sex"] == hers[0]["sex"]
                and (codes[who] == wanted if m is None else not wanted - codes[who])
                for row in other
            ]
            for code in (None, *wanted):
                yield [(r["who"], r["place"]) for r in fits if code is None or r["code"] == code]


def measured(told: list[tuple[str, str]], whole: list[tuple[str, str]]) -> dict[str, float]:
    """l, entropy l, the share of persons with one value, and the distance from the whole."""
    counts, all_counts = (Counter(place for _, place in {*some}) for some in (told, whole))
    shares = {place: number / counts.total() for place, number in counts.items()}
    apart = [abs(shares.get(p, 0) - n / all_counts.total()) for p, n in all_counts.items()]
    return {
        "l": len(counts),
        "entropy": math.exp(-sum(share * math.log(share) for share in shares.values())),
        "alpha": max(counts.values()) / len({who for who, _ in told}),
        "t": sum(apart) / 2,
    }


@pytest.mark.parametrize(
    ("asked", "fine"),
    [
        ({"l": 2}, lambda found: found["l"] >= 2),
        ({"l": 2, "l_kind": "entropy"}, lambda found: found["entropy"] >= 2 - 1e-9),
        ({"alpha": 0.8}, lambda found: found["alpha"] <= 0.8 + 1e-9),
        ({"t": 0.35}, lambda found: found["t"] <= 0.35 + 1e-9),
    ],
    ids=["distinct", "entropy", "alpha", "closeness"],
)
@pytest.mark.parametrize(
    "seeds",
    [range(6), pytest.param(range(6, 100), marks=pytest.mark.slow)],
    ids=["some", "many"],
)
def test_no_attacker_learns_a_sensitive_value(
    asked: dict[str, Any], fine: Callable[[dict[str, float]], bool], seeds: range, key: Path
) -> None:
    given = {**ASKED, "qi": ["sex", "code"], "sensitive": ["place"], "key_file": key, **asked}
    for seed in seeds:
        for m in (1, 2, "all"):
            release = sf.anonymize(histories(seed, persons=24, most=3), k=2, m=m, **given)
            rows = release.to_arrow().to_pylist()
            known = None if m == "all" else int(m)
            whole = [(row["who"], row["place"]) for row in rows]
            assert all(fine(measured(told, whole)) for told in values_told(rows, known) if told)
            assert not rows or attackers_left([{**r, "place": ""} for r in rows], known) >= 2


def test_the_check_sees_values_that_are_told() -> None:
    """All who have an event share its value, though they have others: who knows it, knows that."""

    def checked(people: list[tuple[str, str]], m: int | None = 1) -> tuple[bool, Any]:
        rows = [
            (f"p{at}", *pair) for at, one in enumerate(people) for pair in zip(*one, strict=True)
        ]
        who, code, place = zip(*rows, strict=True)
        table = sf.table(pa.table({"who": who, "code": code, "place": place}))
        models = (DistinctDiversity(2, "place"),)
        promise = LinkedHistories(2, m, (), ("code",), "who", models)
        assert LinkedHistories.from_dict(promise.to_dict()) == promise
        found = promise.check(table)
        return found.holds, found.measured["checks"][0].measured["l"]

    assert checked([("ab", "xy"), ("ab", "yx")]) == (True, 2)
    assert checked([("ab", "xy"), ("ab", "xy")]) == (False, 1)
    assert checked([("ab", "xy"), ("ab", "xx"), ("ac", "yz"), ("ac", "xy")], 1) == (True, 2)
    assert checked([("ab", "xy"), ("ab", "xx"), ("ac", "yz"), ("ac", "xy")], 2) == (False, 1)
    assert checked([("ab", "xy"), ("ab", "yx"), ("b", "x"), ("b", "x")], None) == (False, 1)


@pytest.mark.parametrize("asked", [{"m": "all"}, {"m": 2, "repeats": "once"}], ids=str)
@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_the_order_of_the_input_tells_nothing(
    engine: str, asked: dict[str, Any], key: Path, tmp_path: Path
) -> None:
    """Which of equal rows are left out is decided by all of their cells."""
    for seed in range(2):
        table = histories(seed, persons=12, most=7, values=2).drop_columns(["row"])
        random = np.random.default_rng(seed)
        dose = pa.array(random.integers(0, 20, table.num_rows) / 4)
        table = table.append_column("dose", dose)
        found = []
        for _ in range(3):
            pq.write_table(table, tmp_path / "table.parquet")
            opened = sf.table(tmp_path / "table.parquet", engine=engine)
            release = sf.anonymize(opened, k=3, key_file=key, **asked, **ASKED)
            assert release.details["linkable"]["rows_left_out"]
            found.append(release.to_arrow().to_pylist())
            table = table.take(pa.array(random.permutation(table.num_rows)))
        assert found[0] == found[1] == found[2]


def test_more_known_rows_never_promise_less(key: Path) -> None:
    for seed in range(12):
        release = sf.anonymize(histories(seed), k=2, m=3, key_file=key, **ASKED)
        rows = release.to_arrow().to_pylist()
        assert all(attackers_left(rows, m) >= 2 for m in (1, 2, 3))


def test_one_event_a_person_known_whole_is_k_anonymity(key: Path) -> None:
    table = histories(3, persons=40, most=1)
    release = sf.anonymize(table, k=4, m="all", key_file=key, **ASKED)
    classes = Counter(
        tuple(row[name] for name in ASKED["qi"]) for row in release.to_arrow().to_pylist()
    )
    assert min(classes.values()) >= 4
    assert release.k == min(classes.values())


@pytest.mark.parametrize("events", [[], ["code"]])
def test_classes_of_own_columns_have_k_persons_of_whom_none_is_left_out(
    events: list[str], key: Path
) -> None:
    """Twelve persons of twelve ages, each with two rows: three of them can hide in an age."""
    ages = np.repeat(np.arange(12) * 5, 2)
    table = pa.table({"who": [f"p{a}" for a in ages], "age": ages, "code": ["c", "d"] * 12})
    asked: dict[str, Any] = {"qi": ["age", *events], "person": "who", "linkable": True}
    release = sf.anonymize(table, k=3, m=1, key_file=key, **asked)
    told = release.details["linkable"]
    assert (told["own"], told["persons_left_out"]) == (["age"], 0)
    persons = {(row["age"], row["who"]) for row in release.to_arrow().to_pylist()}
    assert min(Counter(age for age, _ in persons).values()) >= 3
    assert len({age for age, _ in persons}) >= 2


def test_rows_of_one_person_stay_together_under_a_pseudonym(key: Path) -> None:
    table = histories(9, persons=8)
    release = sf.anonymize(table, k=2, m=1, key_file=key, **ASKED)
    owner = dict(zip(table["row"].to_pylist(), table["who"].to_pylist(), strict=True))
    together = defaultdict(set)
    for row in release.to_arrow().to_pylist():
        together[row["who"]].add(owner[row["row"]])
    assert all(len(owners) == 1 for owners in together.values())
    assert not {*together} & {*owner.values()}


def test_a_linkable_release_is_verified_from_itself(key: Path, tmp_path: Path) -> None:
    output = tmp_path / "linked.parquet"
    table = histories(5, persons=30)
    release = sf.anonymize(table, k=3, m=2, key_file=key, output=output, **ASKED)
    assert release.details["linkable"]["own"] == ["sex"]
    again = sf.verify(output)
    assert again.holds
    assert any(finding.check == "linked-histories" for finding in again.findings)
    written = pq.read_table(output)
    first = written["who"].to_pylist()[0]
    spoilt = written.to_pylist()
    for row in spoilt:
        if row["who"] == first:
            row["code"] = "something else"
    pq.write_table(pa.Table.from_pylist(spoilt, written.schema), output)
    broken = sf.verify(output)
    assert not next(f for f in broken.findings if f.check == "linked-histories").holds


def test_sensitive_values_of_histories_are_verified_again(key: Path, tmp_path: Path) -> None:
    output = tmp_path / "linked.parquet"
    given = {**ASKED, "qi": ["sex", "code"], "sensitive": ["place"], "key_file": key, "l": 2}
    sf.anonymize(histories(5, persons=30), k=3, m=2, output=output, **given)
    again = sf.verify(output)
    assert again.holds
    assert "distinct l-diversity" not in again.not_promised["models"]
    written = pq.read_table(output)
    at = written.column_names.index("place")
    pq.write_table(written.set_column(at, "place", pa.array(["x"] * len(written))), output)
    broken = sf.verify(output)
    assert not next(f for f in broken.findings if f.check == "linked-histories").holds


def test_the_check_sees_what_fewer_than_k_persons_have() -> None:
    """One person too few for a pair of events, for one event, and for an own column alone."""

    def checked(people: list[tuple[str, str]], m: int | None, k: int = 3) -> tuple[bool, Any]:
        rows = [(f"p{at}", sex, code) for at, (sex, codes) in enumerate(people) for code in codes]
        who, sex, code = zip(*rows, strict=True)
        table = sf.table(pa.table({"who": who, "sex": sex, "code": code}))
        found = LinkedHistories(k, m, ("sex",), ("code",), "who").check(table)
        return found.holds, found.measured["k"]

    pairs = [("F", "ab"), ("F", "ab"), ("F", "ac"), ("F", "bc"), ("F", "cb")]
    assert checked(pairs, 1) == (True, 3)
    assert checked(pairs, 2) == (False, 1)
    assert checked([("F", "ab")] * 2 + [("F", "abb")] * 3, 2) == (True, 3)
    assert checked([("F", "ab")] * 3 + [("M", "ab")] * 2, 1) == (False, 2)
    assert checked([("F", "ab")] * 3 + [("M", "ab")] * 2, 0) == (False, 2)
    assert checked([("F", "ab")] * 3, None) == (True, 3)
    assert checked([("F", "ab")] * 2 + [("F", "a")], None) == (False, 1)


def test_trees_are_climbed(key: Path) -> None:
    from sfumato.hierarchy import Hierarchy

    codes = [[str(n) for n in range(6)], ["low", "low", "low", "high", "high", "high"], ["*"] * 6]
    tree = Hierarchy.from_levels([pa.array(level) for level in codes])
    table = histories(4, persons=30, values=6)
    table = table.set_column(2, "code", table["code"].cast(pa.string()))
    release = sf.anonymize(
        table, k=3, m=2, key_file=key, hierarchies={"code": tree}, infer_hierarchies=False, **ASKED
    )
    shown = {row["code"] for row in release.to_arrow().to_pylist()}
    assert shown <= {*codes[0], "low", "high", "*"}


def test_too_many_combinations_are_refused_before_anything_starts(
    key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linkable, "MOST_COMBINATIONS", 60)
    with pytest.raises(BudgetError, match="combinations of at most 3 rows") as caught:
        sf.anonymize(histories(1, persons=12), k=2, m=3, key_file=key, **ASKED)
    assert "m=1" in str(caught.value)


def test_twenty_million_events_are_refused_with_what_would_fit() -> None:
    histories = ClassSizes.of({9: 1_000_000, 11: 1_000_000})
    with pytest.raises(BudgetError, match="2,000,000 histories have 111,000,000") as caught:
        linkable.require_countable(histories, 2)
    assert "m=1" in str(caught.value)
    assert "about 18.0% of them fit" in str(caught.value)
    with pytest.raises(BudgetError) as caught:  # no sample with the longest one fits
        linkable.require_countable(ClassSizes.of({10_000: 1, 3: 300}), 2)
    assert "of them fit" not in str(caught.value)
    linkable.require_countable(histories, 1)
    linkable.require_countable(histories, None)


def test_more_rows_than_anybody_has_are_all_of_them(key: Path) -> None:
    """Certificates may say any number: none keeps anybody waiting."""
    table = histories(1, persons=12)
    asked = {**ASKED, "k": 2, "key_file": key}
    made = sf.anonymize(table, m=2**50, **asked)
    longest = max(Counter(table["who"].to_pylist()).values())
    assert made.to_arrow() == sf.anonymize(table, m=longest, **asked).to_arrow()
    shown = sf.table(made.to_arrow())
    found = LinkedHistories(2, 10**30, ("sex",), ("code",), "who").check(shown)
    same = LinkedHistories(2, longest, ("sex",), ("code",), "who").check(shown)
    assert (found.holds, found.measured) == (same.holds, same.measured)
    lengths = ClassSizes.of({11: 1_000_000})
    with pytest.raises(BudgetError, match="m=1"):
        linkable.require_countable(lengths, 10**30)


@pytest.mark.parametrize(
    "asked",
    [
        {"m": None},
        {"m": 0},
        {"m": "some"},
        {"person": None},
        {"sensitive": ["place"], "l": 2, "qi": ["sex", "code"], "repeats": "once"},
        {"sensitive": ["place"], "l": 4, "qi": ["sex", "code"]},
        {"method": "lattice"},
        {"linkable": False},
        {"linkable": False, "m": None, "repeats": "once"},
        {"repeats": "twice"},
        {"k": 9},
    ],
    ids=str,
)
def test_what_is_not_promised_of_histories_is_refused(asked: dict[str, Any], key: Path) -> None:
    given = {"k": 2, "m": 1, "key_file": key, **ASKED, **asked}
    with pytest.raises(SfumatoError):
        sf.anonymize(histories(0), **given)


def test_shares_that_cannot_be_reached_are_shares_of_persons(key: Path) -> None:
    rows = [
        ("a", 1, "x"),
        ("a", 2, "y"),
        ("b", 1, "x"),
        ("b", 2, "y"),
        ("c", 1, "x"),
        ("c", 2, "z"),
    ]
    who, code, place = zip(*rows, strict=True)
    table = pa.table({"who": who, "code": code, "place": place})
    asked: dict[str, Any] = {"qi": ["code"], "person": "who", "linkable": True, "key_file": key}
    with pytest.raises(ParameterError, match="3 of 3 persons hold one value, a share of 1"):
        sf.anonymize(table, k=2, m=1, alpha=0.8, sensitive=["place"], **asked)


def test_a_pseudonym_of_the_person_is_no_unlinkable_release(key: Path) -> None:
    with pytest.raises(ParameterError, match="linkable"):
        sf.anonymize(histories(0), qi=["sex"], k=2, person="who", pseudonyms=["who"], key_file=key)


def test_the_price_says_how_well_common_events_are_told(key: Path) -> None:
    held = ["a", "a", "a", "b", "b", "c"]  # one event a person
    table = pa.table({"who": [f"p{at}" for at in range(6)], "code": held, "sex": list("FMFMFM")})
    asked: dict[str, Any] = {"qi": ["code"], "person": "who", "linkable": True, "key_file": key}
    table = pa.concat_tables([table, table.slice(0, 1)])  # code is no own column: p0 has two rows
    table = table.set_column(1, "code", pa.array([*held, "b"]))
    exact = sf.anonymize(table, k=1, m=1, **asked).details["linkable"]
    assert (exact["rows_left_out"], exact["support_error"]) == (0, pytest.approx(0.0, abs=1e-9))
    blurred = sf.anonymize(table, k=6, m=1, **asked).details["linkable"]["support_error"]
    each = [1 - (2 / 3) ** 2, *[1 / 3] * 5]  # how likely each person is to have any one code
    said = {"one": sum(each), "two": sum(chance**2 for chance in each)}
    real = [(3, "one"), (3, "one"), (1, "one"), (1, "two")]  # a, b, c; a and b
    errors = [abs(said[of] - number) / number for number, of in real]
    assert blurred == pytest.approx(np.mean(errors))


@pytest.mark.parametrize(
    ("who", "born", "told"),
    [
        (["a", "b", "a"], [1, 1, 2], "0 rows are nobody's, and 1 pseudonym"),
        (["a", "b", None], [1, 1, 1], "1 row is nobody's, and 0 pseudonyms"),
    ],
)
def test_pseudonyms_that_name_no_person_are_noticed(
    who: list[str | None], born: list[int], told: str
) -> None:
    table = sf.table(pa.table({"who": who, "born": born, "ill": ["flu", "flu", "flu"]}))
    found = LinkedHistories(2, 1, ("born",), ("ill",), "who").check(table)
    assert not found.holds
    assert told in found.say


@pytest.mark.parametrize("m", [1, 2, "all"])
def test_numbers_of_rows_are_known_where_no_event_is(m: int | str, key: Path) -> None:
    """Two persons have a single row, the others of their classes several."""
    who = [f"p{one}" for one in range(12) for _ in range(1 if one in (0, 6) else 2 + one % 3)]
    born = [1950 + int(one[1:]) // 3 for one in who]
    table = pa.table({"who": who, "born": born, "row": np.arange(len(who)) * 0.5})
    asked: dict[str, Any] = {"qi": ["born"], "k": 3, "m": m, "linkable": True, "key_file": key}
    shown = sf.anonymize(table, person="who", **asked).to_arrow().to_pylist()
    lengths = Counter(row["who"] for row in shown)
    alike: dict[tuple[str, int], set[str]] = defaultdict(set)
    for row in shown:
        number = lengths[row["who"]]
        for known in [number] if m == "all" else range(1, min(number, int(m)) + 1):
            alike[row["born"], known].add(row["who"])
    assert min(map(len, alike.values())) >= 3
    assert len(lengths) == (8 if m == "all" else 12)  # the shortest are nobody else's


@pytest.mark.parametrize("how", ["mean", "median", "middle", "bounds"])
def test_numbers_that_stand_for_own_columns_are_one_a_person(how: str, key: Path) -> None:
    table = histories(3, persons=24)
    years = [1950 + int(one[1:]) for one in table["who"].to_pylist()]
    table = table.append_column("born", pa.array(years))
    asked = {**ASKED, "qi": ["born", "code"], "numbers_as": {"born": how}}
    release = sf.anonymize(table, k=3, m=2, key_file=key, identifiers=["row"], **asked)
    assert release.verified
    shown = [name for name in release.to_arrow().column_names if name.startswith("born")]
    people = defaultdict(set)
    for row in release.to_arrow().to_pylist():
        people[row["who"]].add(tuple(row[name] for name in shown))
    assert {len(cells) for cells in people.values()} == {1}
    assert min(Counter(next(iter(cells)) for cells in people.values()).values()) >= 3


def test_figures_of_histories_say_what_they_count(key: Path, tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    who = np.sort(random.integers(0, 40, 200))
    place = tmp_path / "stays.csv"
    stays = {"who": who, "sex": np.array(["F", "M"])[who % 2], "ill": random.integers(0, 4, 200)}
    pa.csv.write_csv(pa.table(stays), place)
    asked = ("-k", 3, "--linkable", "--person", "who", "--key-file", key, "--qi", "sex,ill")
    told = " ".join(sfumato("anonymize", place, *asked, "-m", "all").out.split())
    release = sf.anonymize(
        place, k=3, m="all", linkable=True, person="who", key_file=key, qi=["sex", "ill"]
    )
    assert f"{release.classes} classes of own columns, by mondrian" in told
    assert f"prosecutor – {1 / release.k:.2%} own columns and all rows" in told
    assert "sex, ill of one row" in told
    assert "(by all quasi-identifiers)" in told
    page = page_of(release)
    assert not page.gauges  # those of single rows would be other ones
    assert f"At least {release.k} persons look alike" in str(page)
    once = " ".join(sfumato("anonymize", place, *asked, "-m", 2, "--repeats", "once").out.split())
    assert "(1 everything lost, as in rows left out)" in once
    assert once.count("(rows shown by one alike count as it)") == 2
    assert "own columns and 2 rows" in once


@pytest.mark.parametrize("ending", ["csv", "json", "xlsx"])
def test_histories_of_which_no_row_can_stay_are_refused(
    ending: str, key: Path, tmp_path: Path
) -> None:
    random = np.random.default_rng(0)
    who = np.sort(random.integers(0, 20, 80))
    cells = {"who": who, "ward": random.integers(0, 9, 80), "cost": random.integers(0, 999, 80)}
    with pytest.raises(ParameterError, match=r"all 80 rows would .* Ask for a smaller k or m"):
        sf.anonymize(
            pa.table(cells),
            k=5,
            m="all",
            t=0.01,
            qi=["ward"],
            sensitive=["cost"],
            person="who",
            linkable=True,
            key_file=key,
            output=tmp_path / f"out.{ending}",
        )
