"""Who is found in a release and what is told of them, persons and rows, computed again."""

from __future__ import annotations

import datetime as dt
import hashlib
import html
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from recomputed import (
    ROLES,
    Frame,
    alone,
    classes,
    inferred,
    light_of,
    numbers,
    on_the_bench,
    part,
    said,
    sizes,
    smallest,
    visits,
)
from sfumato.budget import Budget
from sfumato.report.page import body_html, page_html
from sfumato.report.pages.certificate import certificate_svg, certified_release
from sfumato.report.pages.release import release_page
from sfumato.report.registry import page_of
from sfumato.web.pages import explore, meter, risk
from sfumato.web.project import Project
from sfumato.web.verbs import VERBS, Around, command_of


def limit(share: float) -> str:
    """A share that is not to be exceeded: rounded up."""
    return part(math.ceil(share * 1000 - 1e-9) / 1000)


@pytest.mark.parametrize("moving", [False, True])
def test_a_population_counts_whom_it_says(moving: bool, tmp_path: Path) -> None:
    """Persons with several rows are counted once, or once with each combination of values."""
    frame = visits(tmp_path)
    if moving:
        frame["age"] += frame.index % 2
        frame.to_csv(tmp_path / "in.csv", index=False)
    found = sf.population(str(tmp_path / "in.csv"), universe=1000, qi=["age", "sex"], person="pid",
                          k=5, bootstrap=0)  # fmt: skip
    whose = frame[["pid", "age", "sex"]].drop_duplicates()
    single = part(alone(whose, ["age", "sex"]) / len(whose))
    page = page_of(found)
    who = "different rows of persons" if moving else "persons"
    assert (len(whose) > frame["pid"].nunique()) == moving
    assert dict(page.facts)[f"{who} alone in the table"] == single
    assert page.subtitle.startswith(f"{len(whose)} {who} of 1,000 people")
    captions = [one.caption for section in page.sections for one in section.figures]
    assert any(one.startswith(f"{who.capitalize()} alone in the sample") for one in captions)


def test_the_sheet_of_persons(tmp_path: Path) -> None:
    """Where persons were counted the sheet says what was promised of them, and calls rows rows."""
    frame, output, known = visits(tmp_path), tmp_path / "out.csv", ["age", "sex"]
    made = sf.anonymize(str(tmp_path / "in.csv"), k=5, l=2, qi=known, sensitive=["ill"],
                        identifiers=["pid"], person="pid", output=str(output))  # fmt: skip
    after = pd.read_csv(output, dtype=str)
    rows = sizes(after, known).min()
    assert made.certificate is not None
    assert made.k is not None
    assert 5 <= made.k < rows < len(frame)
    svg = certificate_svg(made.certificate)
    texts = [html.unescape(text) for text in re.findall(r"<text[^>]*>([^<]*)</text>", svg)]
    figures = {"smallest class (k)": "≥ 5 persons", "rows of the smallest class": f"{rows:,}",
               "classes": f"{classes(after, known):,}", "highest risk": "≤ 20%"}  # fmt: skip
    assert {name: texts[texts.index(name) + 1] for name in figures} == figures
    whole = " ".join(texts)
    assert "see the certificate" not in whole
    assert "k-anonymity, for whoever knows age and sex: k = 5 asked, counting persons" in whole
    assert "l-diversity of ill, for whoever knows age and sex: l = 2 asked" in whole
    again = certified_release(output, sf.table(str(tmp_path / "in.csv")))
    page = release_page(again)
    assert dict(page.facts)["smallest class (k)"] == "≥ 5 persons"
    assert page.gauges == ()
    fresh = release_page(made)
    assert dict(fresh.facts)["smallest class (k)"] == f"{made.k:,} persons"


def write_key(tmp_path: Path) -> str:
    (tmp_path / "key").write_text(hashlib.sha256(b"a key").hexdigest())
    (tmp_path / "key").chmod(0o600)
    return str(tmp_path / "key")


@pytest.mark.parametrize("verb", ["mask", "anonymize"])
def test_the_sheet_of_persons_counted_beside_the_rows(verb: str, tmp_path: Path) -> None:
    """Of a mask, and of pseudonyms that are not those of persons, it says what was counted."""
    visits(tmp_path).assign(home=lambda frame: frame["pid"] // 3).to_csv(
        tmp_path / "in.csv", index=False
    )
    source, output = str(tmp_path / "in.csv"), str(tmp_path / "out.csv")
    if verb == "mask":
        made = sf.mask(source, measure="separation", beta=0.9, person="pid", must_drop=["home"],
                       output=output)  # fmt: skip
    else:
        made = sf.anonymize(source, k=5, qi=["age", "sex"], person="pid", pseudonyms=["home"],
                            key_file=write_key(tmp_path), output=output)  # fmt: skip
    assert made.certificate is not None
    svg = certificate_svg(made.certificate)
    texts = [html.unescape(text) for text in re.findall(r"<text[^>]*>([^<]*)</text>", svg)]
    whole, after = " ".join(texts), pd.read_csv(output, dtype=str)
    known = [*after.columns] if verb == "mask" else ["age", "sex"]
    rows = sizes(after, known).min()
    figures = {"rows of the smallest class": f"{rows:,}"}
    if verb == "mask":
        figures["highest risk if each row is a person"] = limit(1 / rows)
        assert "asked, counting pairs of different persons by pid; measured when it was" in whole
        assert "smallest class (k)" not in texts
    else:
        figures["highest risk by one row"] = "≤ 20%"
        assert "replaced by pseudonyms: home" in whole
        assert "recoded: age" in whole
        assert "Pseudonyms of home may say which rows belong together" in whole
        assert "Rows were counted" not in whole
        read = certified_release(output, sf.table(source))
        assert read.column_actions["home"] == "replaced by pseudonyms"
    assert {name: texts[texts.index(name) + 1] for name in figures} == figures
    assert "measures again what the released file shows" in whole


@pytest.mark.parametrize(
    ("person", "sets"),
    [("pid", ()), ("", (("age",), ("sex", "ward"))), ("pid", (("age",), ("sex", "ward")))],
)
def test_the_workbench_counts_whom_it_says(
    person: str, sets: tuple[tuple[str, ...], ...], tmp_path: Path
) -> None:
    """Before a release: persons where they were chosen, of several sets the one that finds."""
    frame = visits(tmp_path)
    frame["age"], frame["ward"] = frame["age"] // 9, frame["pid"] % 19 * (frame["pid"] % 4 < 1)
    frame.to_csv(tmp_path / "in.csv", index=False)
    roles = {**ROLES, "ward": "quasi-identifier"}
    project = on_the_bench(tmp_path / "in.csv", roles=roles, person=person, sets=sets, k=5)
    known = sets or (("age", "sex", "ward"),)
    alike = smallest(frame, known, person or None)
    alone, few, all_ = alike.count(1), sum(size < 5 for size in alike), len(alike)
    who = "persons" if person else "rows"
    assert 0 < alone < few < all_
    page = risk(project, project.choices)
    share = part(few / all_)
    assert f"{few:,} of {all_:,} {who} ({share}) have fewer than 4 others" in page.verdict
    facts = dict(page.facts)
    assert [facts[n] for n in ("stand alone", "fewer than 5 alike", "smallest class (k)")] == [
        f"{alone:,}", f"{few:,}", f"{min(alike):,}"]  # fmt: skip
    assert ("classes" in facts) == (not sets)
    columns = list(frame.columns)
    figures = said(page, columns)
    assert figures["gauge: average risk"] == [part(sum(1 / size for size in alike) / all_)]
    assert figures[f"gauge: {who} below 5 alike"] == ["5", share]
    drawn_rows: dict[str, float] = {}
    for row in figures[f"chart: How many {who} look alike"]:
        told = dict(row)
        if "rows" in told:
            drawn_rows[told["alike"]] = told["rows"]
    for label, count in drawn_rows.items():
        low, _, high = label.partition("–")
        first = int(low.rstrip("+").replace(",", ""))
        last = math.inf if low.endswith("+") else int((high or low).replace(",", ""))
        assert count == sum(first <= size <= last for size in alike)
    assert f"{alone:,} of {all_:,} {who}" in meter(project, project.choices)[0]
    project.explore(project.choices, Budget())
    if person:
        first_look = explore(project, project.choices)
        assert f"of {frame['pid'].nunique():,} persons" in first_look.verdict
        assert "of the rows stand alone" not in page_html(first_look)
    project.release(Budget())
    assert project.made is not None
    after = pd.read_csv(project.folder / "release.csv", dtype=str)
    shown = html.unescape(re.sub(r"<[^>]+>", " ", project.made.shown))
    rows, then = smallest(frame, known), smallest(after, known)
    words = f"Below 5 alike: {sum(s < 5 for s in rows):,} rows before, {sum(s < 5 for s in then):,}"
    assert words in shown
    assert f"Before, {rows.count(1):,} of {len(rows):,} rows stood alone" in shown
    if person:
        assert f"and {few:,} of {all_:,} persons had a row that fewer than 5 persons" in shown
        assert "How many rows look alike" in shown
        assert "How many persons look alike" not in shown
    else:
        worst = max(classes(frame, names) / len(frame) for names in known)
        label = f"marketer: {part(worst)} before"
        assert label in html.unescape(project.made.shown)
    project.close()


def test_values_that_nearly_all_share_are_said_unasked(tmp_path: Path) -> None:
    """Nobody is safe where 98 % of every class hold one value, also if l was not asked for."""
    draw = np.random.default_rng(5)
    frame = pd.DataFrame({"age": draw.integers(20, 24, 800), "sex": draw.choice(["F", "M"], 800),
                          "ill": np.where(np.arange(800) % 50 < 1, "yes", "no")})  # fmt: skip
    frame.to_csv(tmp_path / "in.csv", index=False)
    made = sf.anonymize(str(tmp_path / "in.csv"), k=5, qi=["age", "sex"], rows_are_people=True,
                        output=str(tmp_path / "out.csv"))  # fmt: skip
    after = pd.read_csv(tmp_path / "out.csv", dtype=str)
    for sensitive in (["ill"], ["ill", "sex"]):
        page = release_page(made, sensitive=sensitive)
        light = page.lights[1]
        assert light.tone == "warn"
        assert numbers(light.answer, ["ill"]) == inferred(after, ["age", "sex"], ["ill"])
        assert "nearly surely" in light.answer
        assert page.tone != "good"


@pytest.mark.parametrize("times", [[4] * 20, [*range(1, 6)] * 8, [1, 1, 1, 2] * 10, [1] * 40])
def test_pseudonyms_that_repeat_are_counted_as_persons(times: list[int], tmp_path: Path) -> None:
    """A reader sees which rows are one person's: by one row of theirs, and by all together."""
    who = [f"p{person}" for person, rows in enumerate(times) for _ in range(rows)]
    ages = [20 + 10 * (at // 8) for at in range(len(who))]
    frame = pd.DataFrame({"who": who, "age": ages, "ill": ["a", "b"] * (len(who) // 2)})
    frame.to_csv(tmp_path / "in.csv", index=False)
    source, output = str(tmp_path / "in.csv"), str(tmp_path / "out.csv")
    made = sf.anonymize(source, k=5, qi=["age"], pseudonyms=["who"], sensitive=["ill"],
                        key_file=write_key(tmp_path), output=output)  # fmt: skip
    after = pd.read_csv(output)
    least = after.groupby("age")["who"].nunique().min()
    rows = after.groupby("age").size().min()
    held = Counter(tuple(sorted(own)) for _, own in after.groupby("who")["age"])
    lonely, persons = sum(n == 1 for n in held.values()), after["who"].nunique()
    told = [one for one in made.warnings if "pseudonyms of" in one]
    saved = certified_release(output, sf.table(source))
    assert made.certificate is not None
    sheet = html.unescape(certificate_svg(made.certificate))
    assert "highest risk if each row is a person" in sheet
    for page in (release_page(made), release_page(saved, sf.table(source))):
        tone, answer = light_of(page, "Who can be found")
        if persons == len(after):
            assert (tone, told, len(page.gauges)) == ("good", [], 3)
            continue
        alone_ones = [f"{lonely}", f"{persons}", part(lonely / persons)] * bool(lonely)
        assert numbers(answer, []) == [*alone_ones, f"{least}", part(1 / least)]
        assert numbers(told[0], []) == [*alone_ones, f"{least}"]
        assert tone == ("bad" if lonely else "warn" if least < 5 else "good")
        assert page.tone == ("good" if tone == "good" else "warn")
        fact = dict(page.facts)["smallest class (k)"]
        assert numbers(fact, []) == [f"{rows}", f"{least}"]
        assert not page.gauges  # which count rows
        assert "The gauges show" not in page_html(page)


@pytest.mark.parametrize(
    ("ills", "tone"),
    [
        ({"c": "hhhhhfffff", "d": "hhhhhhhh--", "e": "hhhhhhhh---"}, "bad"),
        ({"a": "hhhhhhhhh-", "b": "----------", "c": "hhhhhfffff", "d": "ffffffff--"}, "bad"),
        ({"a": "hhhhhfffff", "b": "----------"}, "good"),
        ({"a": "----------", "b": "----------"}, "good"),
        ({"a": "hhhhhfff--", "b": "hf--------"}, "good"),
        ({"a": "hhhhhhhhhhhhhhhhhhf-----", "b": "hf--------"}, "warn"),
    ],
)
def test_a_missing_value_protects_nobody(
    ills: Mapping[str, str], tone: str, tmp_path: Path
) -> None:
    """Neither in the light nor in what is said beside a promise, in both directions."""
    rows = [(grp, ill) for grp, all_ills in ills.items() for ill in all_ills]
    frame = pd.DataFrame(rows, columns=["grp", "ill"]).replace("-", None)
    frame.to_csv(tmp_path / "in.csv", index=False)
    made = sf.anonymize(str(tmp_path / "in.csv"), k=5, qi=["grp"], sensitive=["ill"],
                        output=str(tmp_path / "out.csv"))  # fmt: skip
    after = pd.read_csv(tmp_path / "out.csv", dtype=str)
    found, answer = light_of(page_of(made), "What can be inferred about them")
    assert found == tone
    assert numbers(answer, ["grp"]) == inferred(after, ["grp"], ["ill"])
    assert (found == "good") == ("Nobody’s" in answer)
    assert ("missing in every row" in answer) == after["ill"].isna().all()
    shares = after.dropna().groupby("grp")["ill"].agg(lambda own: own.value_counts(True).max())
    told = [one for one in made.warnings if "hold" in one]
    assert bool(told) == bool((shares >= 0.9).any())
    for one in told:
        high = shares[shares >= 0.9]
        held = int(after["grp"].isin(high.index).sum())
        counts = [f"{len(high)}", f"{after['grp'].nunique()}", f"{held}", "90%"]
        assert numbers(one, [])[:4] == counts


def test_of_many_columns_the_worst_is_said_first_and_the_others_below(tmp_path: Path) -> None:
    draw = np.random.default_rng(5)
    rows = pd.DataFrame({"grp": np.repeat(np.arange(40), 6)})
    for at in range(6):  # the fifth is the same in most classes
        few = draw.random(len(rows)) < (0.02 if at == 4 else 0.2 + at / 20)
        rows[f"ill_{at}"] = np.where(few, "rare", rows["grp"].map(lambda grp: f"kind {grp % 3}"))
    rows.to_csv(tmp_path / "in.csv", index=False)
    hidden = [f"ill_{at}" for at in range(6)]
    made = sf.anonymize(str(tmp_path / "in.csv"), k=5, qi=["grp"],
                        output=str(tmp_path / "out.csv"))  # fmt: skip
    after = pd.read_csv(tmp_path / "out.csv", dtype=str)
    page = release_page(made, sensitive=hidden)
    (light,) = (one for one in page.lights if one.question == "What can be inferred about them")
    of = {name: inferred(after, ["grp"], [name]) for name in hidden}
    told = [name for name in hidden if of[name]]
    assert len(told) > 3
    answer = light.answer.replace("`ill_4` is the worst of", "", 1).removesuffix(" are below.")
    count, *said = numbers(answer, hidden)
    assert (count, said) == (f"{len(told)}", [*of["ill_4"], f"{len(told) - 1}"])
    assert sum(answer.count(name) for name in hidden) == answer.count("ill_4")
    others = [name for name in told if name != "ill_4"]
    assert numbers(" ".join(light.more), hidden) == [one for name in others for one in of[name]]
    assert max(of, key=lambda name: float(of[name][0] if of[name] else 0)) == "ill_4"
    drawn = body_html(page)
    assert drawn.count("<details><summary>The others</summary>") == 1
    assert light.more[0].split("`")[0] in drawn


@pytest.mark.parametrize("diverse", [None, 1])
@pytest.mark.parametrize("ills", ["hf hf hh", "hf fg gh", "h- hf h-", "hh hh hh"])
def test_what_every_person_of_a_class_has_is_said(
    ills: str, diverse: int | None, tmp_path: Path
) -> None:
    """Also where rows differ: in the first table everybody of a class has h, in some row."""
    rows = [
        (f"p{grp}{at}", grp, ill)
        for grp, several in (("a", ills.split()), ("b", ["hf", "fg", "gh"]))
        for at in range(9)
        for ill in several[at % 3]
    ]
    frame = pd.DataFrame(rows, columns=["who", "grp", "ill"]).replace("-", None)
    frame.to_csv(tmp_path / "in.csv", index=False)
    roles = {"who": "identifier", "grp": "quasi-identifier", "ill": "sensitive"}
    project = on_the_bench(tmp_path / "in.csv", roles=roles, person="who", k=5, l=diverse)
    project.release(Budget())
    after = pd.read_csv(project.folder / "release.csv")
    assert set(after["grp"]) == {"a", "b"}
    held = 0
    for _, own in frame.dropna().groupby("grp"):
        most = own.groupby("ill")["who"].nunique().max()
        if most == own["who"].nunique():
            held += own["who"].nunique()
    assert held == {"hf hf hh": 9, "hf fg gh": 0, "h- hf h-": 9, "hh hh hh": 9}[ills]
    words = f"{held} of 18 persons ({part(held / 18)}) are in classes in which everybody"
    for _ in range(2):  # as it was made, and from what was kept of it
        assert project.made is not None
        shown = html.unescape(re.sub(r"<[^>]+>", "", project.made.shown))
        assert ("in which everybody" in shown) == bool(held)
        # The light; and what is not promised, where the column was named in the request.
        assert (words in shown, shown.count(words) > 1) == (bool(held), bool(held and diverse))
        assert ("Nobody’s ill for certain" in shown) == (ills == "hf fg gh")
        project._at_hand.clear()
        project.reopen("release", Budget())
    project.close()


def have_in_common(
    frame: Frame, known: Sequence[str], hidden: str, *, together: bool = False
) -> tuple[int, int]:
    """Those in classes of which all, or nearly all, have one value in some row, by loops.

    A class is formed by those who have a row that looks alike; or all rows, where these are known
    `together`.
    """
    cells = list(frame[list(known)].astype(str).itertuples(index=False, name=None))
    rows: dict[Any, list[Any]] = {}
    for who, cell in zip(frame["who"], cells, strict=True):
        rows.setdefault(who, []).append(cell)
    members: dict[Any, dict[Any, set[Any]]] = {}
    for who, cell, value in zip(frame["who"], cells, frame[hidden], strict=True):
        place = tuple(sorted(rows[who])) if together else cell
        if not pd.isna(value):
            members.setdefault(place, {}).setdefault(who, set()).add(value)
    by_all, nearly = set(), set()
    for persons in members.values():
        held = Counter(value for values in persons.values() for value in values)
        most = max(held.values())
        if most == len(persons):
            by_all |= set(persons)
        elif most >= 0.9 * len(persons):
            nearly |= set(persons)
    if not together and frame["who"].is_unique:
        return 0, 0
    return len(by_all), len(nearly)


def in_common(frame: Frame, known: Sequence[str], *, together: bool = False) -> list[str]:
    """The same as a page says it."""
    whole = frame["who"].nunique()
    both = have_in_common(frame, known, "ill", together=together)
    return [
        figure
        for held, more in zip(both, ([], ["90%"]), strict=True)
        if held
        for figure in [f"{held:,}", f"{whole:,}", part(held / whole), *more]
    ]


def ill_persons(ills: Mapping[str, str]) -> Frame:
    """Persons of groups; each has the illnesses of one word."""
    rows = [
        (f"p{grp}{at}", grp, ill)
        for grp, words in ills.items()
        for at, word in enumerate(words.split())
        for ill in word
    ]
    return pd.DataFrame(rows, columns=["who", "grp", "ill"]).replace("-", None)


def made_by(project: Project, verb: str, **given: Any) -> None:
    """A release on the workbench, by any verb."""
    if verb == "anonymize":
        return project.release(Budget())
    asked = {"mask": {"measure": "separation", "beta": 0.95, "must_publish": ()},
             "safe-harbor": {"keep": (), "drop": ("who",)}}[verb] | given  # fmt: skip
    around, how = Around(project, project.choices), VERBS[verb]
    project.release_by(
        lambda output: command_of(how, around, asked, output),
        lambda **more: how.run(around, asked, **more),
        Budget(),
    )
    return None


@pytest.mark.crossed(5)
@pytest.mark.parametrize("verb", ["anonymize", "mask", "safe-harbor"])
@pytest.mark.parametrize(
    ("ills", "tone"),
    [
        ({"a": "hhf hgg " * 8, "b": "hhf ffg ggh " * 6}, "bad"),
        ({"a": "hff hgg " * 9 + "hh fg", "b": "hff fgg ghh " * 6}, "warn"),
        ({"a": "hhf ffg ggh " * 6, "b": "hhff fgg ggh " * 6}, "good"),
    ],
)
def test_a_release_counted_in_persons_by_any_verb(
    verb: str, ills: Mapping[str, str], tone: str, tmp_path: Path
) -> None:
    """Made, shown again, and shown again where nothing was kept of it but the files."""
    frame = ill_persons(ills)
    frame.to_csv(tmp_path / "in.csv", index=False)
    roles = {"who": "identifier", "grp": "quasi-identifier", "ill": "sensitive"}
    project = on_the_bench(tmp_path / "in.csv", roles=roles, person="who", k=5)
    made_by(project, verb)
    assert [*pd.read_csv(project.folder / "release.csv").columns] == ["grp", "ill"]
    known = ["grp"] if verb == "anonymize" else ["grp", "ill"]
    each = smallest(frame, [known], "who")
    for kept in ("made", "kept", "forgotten"):
        if kept == "forgotten":
            (project.folder / "release.made.json").unlink()
        if kept != "made":
            project._at_hand.clear()
            project.reopen("release", Budget())
        made = project.made
        assert made is not None
        assert made.holds
        assert bool(made.unchecked) == (kept != "made" and verb != "safe-harbor")
        page = release_page(made.release, project.table, ["ill"], "who")
        found, answer = light_of(page, "What can be inferred about them")
        sure, least = light_of(page, "Who can be found")
        (version,) = project.versions()
        if kept == "forgotten" and verb == "anonymize":
            assert found == "warn"  # the release does not say whose rows they are
            assert "Rows were counted" in answer
            assert numbers(least, []) == ["5"]
            continue
        assert found == tone
        assert numbers(answer, []) == in_common(frame, ["grp"])
        assert numbers(least, []) == [f"{min(each)}"]  # and no chance: see the rows of one person
        assert " persons look alike" in least
        assert "one of them may have most of these rows" in least
        assert sure == ("warn" if made.unchecked else "good")
        assert page.tone == ("good" if tone == "good" and not made.unchecked else "warn")
        assert dict(page.facts)["smallest class (k)"] == f"{min(each)} persons"
        if verb != "safe-harbor" and kept != "forgotten":
            assert made.release.k == min(each)
            assert dict(page.facts)["persons published"] == f"{len(each)}"
        gauges = [re.findall(r'aria-label="(.*?)"', one)[0] for one in page.gauges]
        risk, mean = limit(1 / min(each)), part(float(np.mean([1 / one for one in each])))
        assert [numbers(one, []) for one in gauges] == [[risk] * 2, [risk] * 2, [mean] * 2]
        words = next(one for one in page.sections if one.title == "What it protects").paragraphs
        low = sum(one < 5 for one in each)
        assert numbers(words[0], []) == [f"{each.count(1)}", f"{len(each)}", f"{low}",
                                         f"{len(each)}", "5"]  # fmt: skip
        assert f"with their {' and '.join(known)} in" in words[0]
        assert numbers(words[1], []) == [f"{min(each)}"]
        rows = f"{sizes(frame, known).min():,} rows" if verb == "mask" else "–"
        assert version.alike == (
            f"{min(each)} persons" if verb != "safe-harbor" and kept != "forgotten" else rows
        )
        assert project.certificate_pdf(version).startswith(b"%PDF")
    project.close()


def test_persons_who_have_a_row_of_their_own_are_counted_as_persons(tmp_path: Path) -> None:
    """By Safe Harbor, which asks nobody whose rows they are; also where it keeps that column."""
    frame = ill_persons({"a": "hf hg hi fg", "b": "hf fg gh " * 3})
    frame["who"] = frame["who"].replace("pb8", None)  # whose these are is not known
    frame.to_csv(tmp_path / "in.csv", index=False)
    roles = {"who": "identifier", "grp": "quasi-identifier", "ill": "sensitive"}
    project = on_the_bench(tmp_path / "in.csv", roles=roles, person="who", k=5)
    for keep in ((), ("who",)):
        made_by(project, "safe-harbor", keep=keep, drop=() if keep else ("who",))
        assert project.made is not None
        page = release_page(project.made.release, project.table, ["ill"], "who")
        each = smallest(frame, [[*keep, "grp", "ill"]], "who")
        tone, answer = light_of(page, "Who can be found")
        assert (tone, numbers(answer, [])) == ("bad", [f"{each.count(1)}", f"{len(each)}"])
        assert each.count(1) == (13 if keep else 1)
        assert dict(page.facts)["smallest class (k)"] == "1 person"
    project.close()


@pytest.mark.parametrize(("hidden", "person"), [("home", "who"), ("home", ""), ("who", "")])
def test_what_pseudonyms_of_anything_tell(hidden: str, person: str, tmp_path: Path) -> None:
    """Whose they are is not known: rows with equal ones belong together, and may be a person's."""
    draw = np.random.default_rng(3)
    frame = ill_persons({"a": "hf fg gh g " * 6, "b": "hf fh gh h " * 6})
    frame["age"] = draw.choice([20, 30, 40], len(frame))
    frame["home"] = [f"h{int(who[2:]) // 2}{who[1]}" for who in frame["who"]]
    frame.to_csv(tmp_path / "in.csv", index=False)
    roles = {"who": "identifier", "home": "identifier", "grp": "quasi-identifier",
             "age": "quasi-identifier", "ill": "sensitive"}  # fmt: skip
    project = on_the_bench(
        tmp_path / "in.csv", roles=roles, person=person, pseudonyms=(hidden,), k=2
    )
    project.release(Budget())
    assert project.made is not None
    after = pd.read_csv(project.folder / "release.csv").assign(who=lambda one: one[hidden])
    expected = in_common(after, ["grp", "age"], together=True)
    assert expected
    for _ in range(2):
        page = release_page(project.made.release, project.table, ["ill"], person or None)
        tone, answer = light_of(page, "What can be inferred about them")
        told = [one for one in re.split(r"(?<=[a-z])\. ", answer) if "pseudonym" in one]
        assert tone == "bad"
        assert [figure for one in told for figure in numbers(one, [])] == expected
        shown = html.unescape(re.sub(r"<[^>]+>", "", project.made.shown))
        assert f"Rows with the same pseudonym of {hidden} belong together" in shown
        assert "one person" not in shown
        assert shown.count("The charts count") == 1
        assert dict(page.facts)["smallest class (k)"].endswith(" pseudonyms")
        project._at_hand.clear()
        project.reopen("release", Budget())
    project.close()


@pytest.mark.parametrize("m", [1, "all"])
def test_linked_histories_tell_what_all_who_share_them_have(m: int | str, tmp_path: Path) -> None:
    """Also where the release is read from its files, of which the certificate names the person."""
    draw = np.random.default_rng(3)
    frame = ill_persons({"a": "hf gh hg h " * 9, "b": "hf fg gh g " * 9})
    frame["age"] = np.where(frame["grp"] == "a", 20, draw.choice([20, 30], len(frame)))
    frame.to_csv(tmp_path / "in.csv", index=False)
    source, output = str(tmp_path / "in.csv"), str(tmp_path / "out.csv")
    made = sf.anonymize(source, k=3, qi=["grp", "age"], person="who", linkable=True, m=m,
                        key_file=write_key(tmp_path), output=output)  # fmt: skip
    after = pd.read_csv(output)
    expected = in_common(after, ["grp", "age"], together=m == "all")
    assert expected
    for release in (made, certified_release(output, sf.table(source))):
        page = release_page(release, sf.table(source), ["ill"])
        tone, answer = light_of(page, "What can be inferred about them")
        assert (tone != "good", numbers(answer, [])) == (True, expected)
        assert dict(page.facts)["smallest class (k)"] == f"{made.k} persons"
        words = next(one for one in page.sections if one.title == "What it protects").paragraphs
        assert "pseudonyms say which belong together" in words[-1]


@pytest.mark.parametrize("verb", ["mask", "safe-harbor"])
def test_rows_are_called_rows_where_persons_cannot_be_counted(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table whose rows are not at hand: what is not known of persons is never green."""
    frame = ill_persons({"a": "hhf ffg ggh " * 6, "b": "hhff fgg ggh " * 6})
    frame.to_csv(tmp_path / "in.csv", index=False)
    source, output = str(tmp_path / "in.csv"), str(tmp_path / "out.csv")
    if verb == "mask":
        sf.mask(source, measure="separation", beta=0.95, must_drop=["who"], output=output,
                rows_are_people=True)  # fmt: skip
    else:
        sf.safe_harbor(source, drop=["who"], as_of=dt.date(2024, 1, 1), output=output)
    monkeypatch.setattr("sfumato.report.pages.risk.at_hand", lambda rows: False)
    found = certified_release(output, sf.table(source))
    page = release_page(found, sf.table(source), ["ill"], "who")
    rows = sizes(frame, ["grp", "ill"]).min()
    tone, answer = light_of(page, "Who can be found")
    assert (tone, numbers(answer, [])) == ("warn", [f"{rows}"])
    assert answer.startswith(f"At least {rows} rows look alike. How many persons")
    assert light_of(page, "What can be inferred about them")[0] == "warn"
    assert (page.tone, page.gauges) == ("warn", ())
    assert dict(page.facts)["smallest class (k)"] == f"{rows} rows"
    assert "persons could have any row" not in page_html(page)


@pytest.mark.parametrize("verb", ["mask", "safe-harbor"])
def test_whoever_knows_all_that_is_published_but_the_value(verb: str, tmp_path: Path) -> None:
    """What can be inferred is judged by all published columns that are not worth hiding."""
    draw = np.random.default_rng(5)
    grp, sex = draw.choice(["a", "b", "c"], 120), draw.choice(["f", "m"], 120)
    ill = np.where(grp == "a", "hiv", draw.choice(["flu", "cold", "ok"], 120))
    frame = pd.DataFrame({"grp": grp, "sex": sex, "ill": ill})
    frame.to_csv(tmp_path / "in.csv", index=False)
    source, output = str(tmp_path / "in.csv"), str(tmp_path / "out.csv")
    if verb == "mask":
        made = sf.mask(source, measure="distinct", beta=0.9, output=output)
    else:
        made = sf.safe_harbor(source, as_of=dt.date(2024, 1, 1), output=output)
    assert [*pd.read_csv(output).columns] == ["grp", "sex", "ill"]
    for page in (
        release_page(made, sensitive=["ill"]),
        release_page(certified_release(output, sf.table(source)), sf.table(source), ["ill"]),
    ):
        tone, answer = light_of(page, "What can be inferred about them")
        assert tone == "bad"
        assert numbers(answer, ["grp"]) == inferred(frame, ["grp", "sex"], ["ill"])
        assert numbers(answer, [])[0] == str((grp == "a").sum())


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_keys_and_risky_rows_are_told_of_persons_where_those_are_counted(engine: str) -> None:
    """Equal rows of one person are no company: she is singled out, and they are not told apart."""
    rows = [("a", 1, "F"), ("a", 1, "F"), ("b", 2, "F"), ("b", 3, "M"), ("c", 2, "F"),
            ("d", 2, "M"), ("d", 2, "F")]  # fmt: skip
    frame = pd.DataFrame(rows, columns=["pid", "age", "sex"])
    opened = sf.table(frame, engine=engine)
    risky = sf.uniques(opened, person="pid", max_size=2)
    holders = frame.groupby(["age", "sex"])["pid"].transform("nunique")
    alone = frame[holders == 1]
    assert risky.exposed_rows == len(alone) == 4
    page = page_of(risky)
    told = "2 columns or fewer single out 3 of 4 persons (75%): one of their rows is like nobody"
    assert page.verdict.startswith(told)
    assert alone["pid"].nunique() == 3
    by_age = frame[frame.groupby("age")["pid"].transform("nunique") == 1]["pid"].nunique()
    assert by_age == 2
    assert "persons: 50%" in page_html(page).replace("share of ", "")
    keys = sf.minimal_keys(opened, person="pid")
    assert "tell persons apart as well as all columns that were looked at do" in (
        page_of(keys).verdict
    )
    few = sf.table(frame[frame["pid"].isin(["a", "b"])], engine=engine)
    assert page_of(sf.minimal_keys(few, person="pid")).verdict == (
        "One minimal set was found to tell all persons apart: age."
    )
