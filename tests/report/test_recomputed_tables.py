"""Every figure on the pages of tables: keys, risks, first looks and populations, computed again."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from recomputed import (
    TABLES,
    Frame,
    Said,
    alone,
    bars,
    below,
    chart,
    classes,
    differences,
    everybody,
    numbers,
    part,
    risk_curve,
    said,
    size_chart,
    sizes,
    written,
)
from sfumato.budget import Budget
from sfumato.hierarchy import Hierarchy
from sfumato.report.page import page_html
from sfumato.report.pages.table import findings_of, table_page
from sfumato.report.registry import page_of
from sfumato.web.candidates import nodes_of
from sfumato.web.pages import explore
from sfumato.web.project import Project


def test_the_page_of_a_population(tmp_path: Path) -> None:
    """Counts are counted again; estimates, which have tests of their own, agree with each other."""
    frame, known = everybody(tmp_path), ["sex", "zip", "ethnicity"]
    found = sf.population(str(tmp_path / "people.csv"), universe=100_000, qi=known)
    shown = said(page_of(found), list(frame.columns))
    single = part(alone(frame, known) / len(frame))
    assert shown["subtitle"] == [f"{len(frame):,}", "100,000", part(len(frame) / 100_000)]
    assert shown["fact: people"] == ["100,000"]
    assert shown["fact: rows alone in the table"] == shown["gauge: rows alone"] == [single]
    assert shown["verdict"][:1] == shown["gauge: alone of all, estimated"]
    values = {row.column: len(set(written(frame[row.column]))) for row in found.plan.columns}
    for row in found.plan.columns:
        assert shown[f"column: {row.column}"][:1] == [f"{values[row.column]:,}"]
    assert shown["chart: How far each column is blurred"] == bars(
        {row.column: row.distinct / values[row.column] for row in found.plan.columns}
    )
    estimates = {dict(row).get("said") for row in shown[f"chart: {FEWER}"]}
    assert {single, *shown["gauge: alone of all, estimated"]} <= estimates


ASKED = ["birth_date", "sex", "zip", "ethnicity", "marital_status"]


def minimal(columns: Sequence[str], most: int, breaks: Any) -> list[tuple[str, ...]]:
    """All sets of columns that do something and of which no part does, by trying them all."""
    found: list[tuple[str, ...]] = []
    for size in range(1, most + 1):
        for names in combinations(columns, size):
            if not any(set(one) <= set(names) for one in found) and breaks(list(names)):
                found.append(names)
    return found


def listed(sets: Sequence[tuple[str, ...]]) -> Said:
    """How many sets there are of each size, and the column that is in most of them."""
    many = Counter(len(names) for names in sets)
    inside = Counter(name for names in sets for name in names)
    share = part(max(inside.values()) / len(sets))
    return {
        "fact: minimal sets": [f"{len(sets)}"],
        "The sets": [share],
        **{f"columns in the set: {size}": [f"{size}", f"{n}"] for size, n in many.items()},
    }


def without_places(shown: Said) -> Said:
    """Paragraphs by their section only: how many come before them does not matter here."""
    return {re.sub(r"^The sets \d+$", "The sets", place): told for place, told in shown.items()}


@pytest.mark.parametrize("measure", ["key", "distinct", "separation"])
def test_the_page_of_keys(measure: str, tmp_path: Path) -> None:
    frame, rows = everybody(tmp_path), 800
    least = {"distinct": 0.4, "separation": 0.95}.get(measure)
    asked = {} if least is None else {"beta": least}
    found = sf.minimal_keys(str(tmp_path / "people.csv"), columns=ASKED, measure=measure,
                            max_size=3, **asked)  # fmt: skip
    pairs = rows * (rows - 1) / 2

    def tells(names: list[str]) -> bool:
        if measure == "separation":
            alike = sum(n * (n - 1) / 2 for n in frame.groupby(names).size())
            return bool(1 - alike / pairs >= 0.95)
        return classes(frame, names) >= (rows if least is None else 0.4 * rows)

    sets = minimal(ASKED, 3, tells)
    sought = [] if least is None else [f"{least:g}"]
    expected = listed(sets) | {
        "verdict": [f"{len(sets)}", *sought, f"{min(map(len, sets))}"],
        "fact: columns in them": [f"{len({name for one in sets for name in one})}"],
        "fact: stand for": [f"{len(sets)}"],
    }
    expected |= {"subtitle": sought} if sought else {}
    shown = without_places(said(page_of(found), list(frame.columns)))
    assert differences(shown, expected) == {}


@pytest.mark.parametrize("k", [2, 40])
def test_the_page_of_violations(k: int, tmp_path: Path) -> None:
    frame = everybody(tmp_path)
    found = sf.violations(str(tmp_path / "people.csv"), columns=ASKED, k=k, max_size=2)
    sets = minimal(ASKED, 2, lambda names: below(frame, names, k) > 0)
    smallest = str(sizes(frame, ASKED).min())
    expected = listed(sets) | {
        "verdict": [f"{k}", f"{len(sets)}", f"{k}"],
        "fact: smallest class (k)": [smallest],
    }
    shown = without_places(said(page_of(found), list(frame.columns)))
    assert differences(shown, expected) == {}


@pytest.mark.parametrize("cap", [2, 3, None])
def test_a_lattice_says_of_sets_only_what_was_looked_at(cap: int | None, tmp_path: Path) -> None:
    cells = ["11214", "21001", "01204", "01410", "50043", "10222", "41052", "00434", "21141"]
    rows = [",".join(cell) for cell in cells]
    place = tmp_path / "lat.csv"
    place.write_text("\n".join(["a,b,c,d,e", *rows]) + "\n")
    frame = pd.read_csv(place)
    for page in (page_of(sf.minimal_keys(str(place), max_size=cap)),
                 page_of(sf.violations(str(place), k=2, max_size=cap))):  # fmt: skip
        keys = page.title.startswith("All minimal")
        nodes = re.findall(r"<title>([a-e +]+): ([^<]*)</title>", page_html(page))
        unsure = [names for names, words in nodes if "that was found" in words]
        assert ("a + c + e" in unsure) == (keys and cap == 2)
        assert bool(unsure) <= (cap == 2)
        assert bool(unsure) == ("Dashed" in page_html(page))
        for names, words in nodes:
            one = sizes(frame, names.split(" + "))
            holds = one.max() == 1 if keys else one.min() == 1
            if words in ("a minimal set", "contains a minimal set"):
                assert holds, (page.title, names)
            elif words == "contains none of them":
                assert not holds, (page.title, names)


def test_the_page_of_risky_rows(tmp_path: Path) -> None:
    """Minimal uniques of every row, by trying all sets; scores as Elliot and others have them."""
    frame, known, most = everybody(tmp_path), ["sex", "zip", "ethnicity", "marital_status"], 3
    found = sf.uniques(str(tmp_path / "people.csv"), columns=known, max_size=most)
    minimal_of: list[list[tuple[str, ...]]] = [[] for _ in range(len(frame))]
    for size in range(1, most + 1):
        for names in combinations(known, size):
            for row in np.flatnonzero(sizes(frame, names) == 1):
                if not any(set(one) <= set(names) for one in minimal_of[row]):
                    minimal_of[row].append(names)
    score = {s: math.prod(len(known) - i for i in range(s, most + 1)) for s in range(1, most + 1)}
    total = sum(score[len(one)] for row in minimal_of for one in row)
    reached = {
        "1 column" if at == 1 else f"{at} columns":
        sum(any(len(one) <= at for one in row) for row in minimal_of) / len(frame)
        for at in range(1, most + 1)
    }  # fmt: skip
    parts = {
        name: sum(score[len(one)] for row in minimal_of for one in row if name in one) / total
        for name in known
    }
    exposed, rows = sum(map(bool, minimal_of)), len(frame)
    alone_ones, twos = alone(frame, known) * 0.01, int((sizes(frame, known) == 2).sum()) * 0.99
    assert differences(said(page_of(found), list(frame.columns)), {
        "verdict": [f"{most}", f"{exposed:,}", f"{rows:,}", part(exposed / rows)],
        "subtitle": [f"{rows:,}", f"{most}"],
        "fact: exposed rows": [f"{exposed:,}"],
        "fact: right matches (DIS)": [part(alone_ones / (alone_ones + twos))],
        "gauge: exposed rows": [part(exposed / rows)],
        "chart: How few columns are enough": bars(reached),
        "chart: Which columns do it": bars(parts),
    }) == {}  # fmt: skip


def test_the_page_of_an_attack_with_a_known_table(tmp_path: Path) -> None:
    frame, on = everybody(tmp_path), ["sex", "zip", "ethnicity"]
    known = frame.sample(500, random_state=1)
    known.to_csv(tmp_path / "known.csv", index=False)
    found = sf.attack(str(tmp_path / "people.csv"), str(tmp_path / "known.csv"), on=on, k=5)
    fits = np.ones((len(frame), len(known)), bool)
    for name in on:  # an empty cell of a release may be a star: it fits everybody
        cells, theirs = np.array(written(frame[name])), np.array(written(known[name]))
        fits &= (cells[:, None] == theirs) | (cells[:, None] == "")
    matched = fits.sum(axis=1).tolist()
    strange = len(set(frame["zip"]) - set(known["zip"]))
    assert strange
    rows = len(frame)
    one, few = sum(n == 1 for n in matched), sum(1 < n < 5 for n in matched)
    right = sum(1 / n for n in matched if n)
    assert differences(said(page_of(found), list(frame.columns)), {
        "verdict": [f"{one}", f"{rows}", f"{few}", "5"],
        "subtitle": [f"{len(known)}"],
        "fact: match one": [f"{one}"],
        "fact: match 2 to 4": ["2", "4", f"{few}"],
        "fact: expected right guesses": [f"{right:,.1f}"],
        "gauge: match one": [part(one / rows)],
        "To keep in mind 0": [f"{strange}"],
        "chart: How many rows a released row matches": bars({
            "none": sum(n == 0 for n in matched) / rows, "one row": one / rows,
            "2 to 4 rows": few / rows, "5 rows or more": sum(n >= 5 for n in matched) / rows,
        }),
    }) == {}  # fmt: skip


@pytest.mark.parametrize(
    ("k", "bars"), [(2, ["2 rows or more"]), (3, ["2 rows", "3 rows or more"])]
)
def test_an_attack_names_only_numbers_of_matches_that_there_are(
    k: int, bars: Sequence[str], tmp_path: Path
) -> None:
    everybody(tmp_path)
    people = str(tmp_path / "people.csv")
    page = page_of(sf.attack(people, people, on=["sex", "zip"], k=k))
    spec = page.sections[0].figures[0].spec
    assert spec is not None
    rows = (spec.get("data") or spec["layer"][0]["data"])["values"]
    assert [row["name"] for row in rows] == ["none", "one row", *bars]


def test_every_node_of_the_lattice_of_levels(tmp_path: Path) -> None:
    """What the workbench says of each choice of levels: counted with the trees' own columns."""
    frame = everybody(tmp_path)[["zip", "sex", "marital_status"]].fillna("none")
    frame.to_csv(tmp_path / "people.csv", index=False)
    star = pd.Series("*", index=frame.index)
    levels = {
        "zip": [frame["zip"], frame["zip"].str[:3], frame["zip"].str[:1], star],
        "sex": [frame["sex"], star],
        "marital_status": [frame["marital_status"], star],
    }
    trees = {
        name: Hierarchy.from_levels(pd.concat(c, axis=1).drop_duplicates().T.to_numpy().tolist())
        for name, c in levels.items()
    }
    made = sf.anonymize(str(tmp_path / "people.csv"), k=5, qi=list(levels), method="full-domain",
                        hierarchies=trees, suppression_limit=0.1, every_node=True)  # fmt: skip
    nodes = nodes_of(made.details["lattice"])
    assert len(nodes) == 4 * 2 * 2
    for node in nodes:
        shown = pd.DataFrame(
            {n: c[at] for (n, c), at in zip(levels.items(), node.levels, strict=True)}
        )
        alike = sizes(shown, list(levels))
        gone = alike < 5
        assert node.holds == (gone.mean() <= 0.1), node.said
        assert node.left_out == int(gone.sum()), node.said
        if not node.holds:
            continue
        assert node.k == alike[~gone].min(), node.said
        lost = [
            np.where(gone, 1.0, shown[n].map(frame.groupby(shown[n])[n].nunique().sub(1)
                                             / (frame[n].nunique() - 1))).mean()
            for n in levels
        ]  # fmt: skip
        assert node.lost == pytest.approx(np.mean(lost)), node.said


FEWER = "Fewer people are alone among all than in a sample"


def exposed(frame: Frame, known: Sequence[str], k: int) -> Said:
    """Class sizes and risks of a table, as the report of a table and the risk page show them."""
    rows, low, risky = len(frame), below(frame, known, k), below(frame, known, 5)
    tables, names = {"table": frame}, {"table": known}
    return {
        "fact: stand alone": [f"{alone(frame, known):,}"],
        f"fact: fewer than {k} alike": [f"{k}", f"{low:,}"],
        "fact: smallest class (k)": [f"{sizes(frame, known).min():,}"],
        "gauge: highest risk": [part(1 / sizes(frame, known).min())],
        "gauge: average risk": [part(classes(frame, known) / rows)],
        f"gauge: rows below {k} alike": [f"{k}", part(low / rows)],
        "caption: How many rows look alike": [
            f"{low:,}", part(low / rows), f"{k - 1}", f"{1 / k:.0%}"
        ],
        "chart: How many rows look alike": size_chart(tables, names, k),
        "caption: How exposed rows are": ["20%", f"{risky:,}", part(risky / rows)],
        "chart: How exposed rows are": risk_curve(tables, names),
    }  # fmt: skip


def looked_at(frame: Frame, found: sf.Scan) -> Said:
    """A first look; which columns were combined is the choice of the scan, the counts are not."""
    rows = len(frame)
    expected: Said = {}
    for column in found.columns:
        cells = frame[column.name]
        missing = int(cells.isna().sum())
        values = len(set(written(cells.dropna())))
        single = part(alone(frame, [column.name]) / rows)
        expected[f"column: {column.name}"] = [f"{values:,}", f"{missing:,}", single]
    steps, before = {}, 0
    for one in found.ladder:
        name = " + ".join(one.columns[before:])
        steps[f"+ {name}" if before else name] = alone(frame, one.columns) / rows
        before = len(one.columns)
    if steps:
        ladder = [*steps.values()]
        title = ladder_title(frame, found.ladder[-1].columns)
        expected[f"chart: {title}"] = bars(steps)
        expected[f"caption: {title}"] = [str(before), part(ladder[-1])]
        assert ladder == sorted(ladder)
    pairs = {" + ".join(c.columns): alone(frame, c.columns) / rows for c in found.combinations}
    if pairs:
        strongest = dict(sorted(pairs.items(), key=lambda item: -item[1])[:10])
        expected["chart: The most telling combinations"] = bars(strongest)
        sizes = Counter(len(one.columns) for one in found.combinations)
        several = [f"{sizes[size]}" for size in (2, 3) if sizes[size] > 1]
        expected["caption: The most telling combinations"] = several
    return expected


def ladder_title(frame: Frame, columns: Sequence[str]) -> str:
    """Harmless are columns that hardly single out anybody by themselves; enough is half of all."""
    if alone(frame, columns) < 0.5 * len(frame):
        return "What columns single out together"
    if len(columns) == 1:
        return "One column is enough"
    if any(alone(frame, [name]) > 0.05 * len(frame) for name in columns):
        return "A few columns are enough"
    return "A few harmless columns are enough together"


@pytest.mark.parametrize("name", TABLES)
def test_the_report_of_a_table(name: str, tmp_path: Path) -> None:
    frame, known, _ = TABLES[name](tmp_path)
    place = tmp_path / "in.parquet"
    frame.to_parquet(place)
    findings = findings_of(str(place), qi=known, k=7)
    found = said(table_page(findings), list(frame.columns))
    rows, single = len(frame), alone(frame, known)
    shares = {(one, one): alone(frame, [one]) / rows for one in known}
    shares |= {pair: alone(frame, pair) / rows for pair in combinations(known, 2)}
    expected = {
        **looked_at(frame, findings.scan),
        **exposed(frame, known, 7),
        "subtitle": [f"{rows:,}", f"{len(frame.columns):,}"],
        "verdict": [f"{single:,}", f"{rows:,}", part(single / rows)],
        "fact: duplicate rows": [f"{int(frame.duplicated(keep='first').sum()):,}"],
        "caption: Pairs of columns": [part(max(shares.values()))],
        "chart: Pairs of columns": chart(
            {
                "one": one,
                "other": other,
                "alone": share,
                "said": part(share) if share >= 0.0005 else "·",
            }
            for (one, other), share in shares.items()
        ),
    }
    assert differences(found, expected) == {}


def test_a_first_look_hides_nobody_who_stands_alone(tmp_path: Path) -> None:
    """Neither by a column that differs in every row, nor by more columns than are combined."""
    draw = np.random.default_rng(7)
    frame = pd.DataFrame({"income": draw.permutation(np.arange(200) + 5000),
                          "sex": draw.choice(["m", "f"], 200),
                          "region": draw.choice(["a", "b"], 200)})  # fmt: skip
    frame.to_csv(tmp_path / "income.csv", index=False)
    pd.DataFrame(draw.integers(0, 2, (9000, 12)), columns=[f"q{at}" for at in range(12)]).to_csv(
        tmp_path / "many.csv", index=False
    )
    for name in ("income", "many"):
        project = Project(tmp_path / f"{name}.csv")
        project.look(Budget())
        roles = dict.fromkeys(project.choices.roles, "quasi-identifier")
        project.decide(replace(project.choices, roles=roles, person=""))
        page = explore(project, project.choices)
        if name == "income":
            assert page.verdict == "200 of 200 rows (100%) stand alone by income."
            assert "income differs in every row" in page.sections[0].paragraphs[0]
        else:
            lonely = alone(pd.read_csv(tmp_path / "many.csv"), list(roles))
            assert lonely > 0
            (told,) = page.beside
            assert numbers(told, []) == ["12", f"{lonely:,}", "9,000", part(lonely / 9000)]
            assert page.verdict.startswith("Nobody stands alone by any of the combinations that")
        assert page.tone == {"income": "bad", "many": "warn"}[name]
        sets = (("sex",), ("region",)) if name == "income" else (("q0",), ("q1",))
        assert name == "many" or not page.beside
        assert "Risk counts by the sets" in explore(
            project, replace(project.choices, sets=sets)
        ).beside[0]  # fmt: skip
        project.close()


@pytest.mark.parametrize("name", TABLES)
def test_the_page_of_a_first_look(name: str, tmp_path: Path) -> None:
    frame, _, _ = TABLES[name](tmp_path)
    place = tmp_path / "in.parquet"
    frame.to_parquet(place)
    look = sf.scan(str(place))
    found = said(page_of(look), list(frame.columns))
    rows = len(frame)
    tried = [alone(frame, m.columns) for m in (*look.combinations, *look.ladder)]
    expected = looked_at(frame, look) | {
        "subtitle": [f"{rows:,}", f"{len(frame.columns):,}"],
        "verdict": [f"{max(tried):,}", f"{rows:,}", part(max(tried) / rows)],
        "fact: rows": [f"{rows:,}"],
        "fact: duplicate rows": [f"{int(frame.duplicated(keep='first').sum()):,}"],
        "fact: others may know": [f"{len(look.with_role('quasi-identifier'))}"],
        "fact: worth hiding": [f"{len(look.with_role('sensitive'))}"],
    }
    assert differences(found, expected) == {}


@pytest.mark.parametrize("name", TABLES)
def test_the_page_of_a_risk(name: str, tmp_path: Path) -> None:
    frame, known, _ = TABLES[name](tmp_path)
    place = tmp_path / "in.parquet"
    frame.to_parquet(place)
    found = said(page_of(sf.risk(str(place), known[:3])), list(frame.columns))
    alike = sizes(frame, known[:3])
    rows, above = len(frame), part(float((1 / alike > 0.2).sum()) / len(frame))
    highest, average = part(1 / alike.min()), part(classes(frame, known[:3]) / rows)
    assert differences(found, {
        "subtitle": [f"{rows:,}"],
        "verdict": [above, f"{rows:,}", "20%"],
        "fact: highest risk": [highest],
        "fact: average risk": [average],
        "fact: above 20%": ["20%", above],
        "fact: classes": [f"{classes(frame, known[:3]):,}"],
        "gauge: prosecutor": [highest],
        "gauge: journalist": [highest],
        "gauge: marketer": [average],
        "attacker: prosecutor": [highest],
        "attacker: journalist": [highest],
        "attacker: marketer": [average],
        "attacker: above 20%": ["20%", above],
    }) == {}  # fmt: skip
