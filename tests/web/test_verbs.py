"""Other verbs on pages of their own: each says what the command line says, and shows its report."""

from __future__ import annotations

import html
import json
import re
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd
import pytest

import sfumato as sf
from cli_tools import sfumato
from sfumato.budget import Budget
from sfumato.release.certificate import Certificate
from sfumato.report.page import Page, body_html
from sfumato.report.pages.certificate import certificate_svg
from sfumato.report.registry import page_of
from sfumato.web.candidates import drawn_lattice, nodes_of
from sfumato.web.choices import Choices, read_choices
from sfumato.web.kept import Asked, noted, questions_from, questions_to
from sfumato.web.project import Project
from sfumato.web.verbs import VERBS
from sfumato.wording import counting, percent
from workbench import PEOPLE, ROLES, Running, answered

KNOWN = ["age", "sex", "town"]


def answers(folder: Path) -> dict[str, dict[str, Any]]:
    """What each verb is told."""
    return {
        "keys": {"columns": [*KNOWN, "illness"], "measure": "distinct", "beta": 0.2, "max_size": 4},
        "violations": {"columns": KNOWN, "k": 7, "max_size": 2},
        "uniques": {"columns": KNOWN, "max_size": 2, "sampling_fraction": 0.1},
        "population": {"qi": KNOWN, "universe": 40000, "k": 20, "beta": 0.2},
        "attack": {"of": "", "known": str(folder / "people.csv"), "on": KNOWN, "k": 3},
        "utility": {
            "of": "release",
            "target": "illness",
            "one": "town",
            "other": "illness",
            "row_key": "",
        },
        "safe-harbor": {"keep": ["illness"], "drop": ["town"]},
        "mask": {"measure": "distinct", "beta": 0.3, "must_publish": ["sex"]},
    }


def of(page: str, pattern: str) -> str:
    found = re.search(pattern, page, re.DOTALL)
    assert found is not None, page
    return html.unescape(found[1])


@pytest.mark.parametrize("name", sorted(VERBS))
def test_the_page_is_that_of_the_command_line(
    name: str, bench: Running, opened: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command that is shown gives the figures that are drawn, and nothing is drawn twice."""
    results: list[Any] = []

    def drawn(found: Any, **known: Any) -> Page:
        results.append((found, known))
        return page_of(found, **known)

    monkeypatch.setattr("sfumato.web.project.page_of", drawn)
    place = f"/p/{opened.number}/ask/{name}"
    form = bench.get(place)
    assert form.status == 200
    for menu in re.findall(r"<select.*?</select>", form.text, re.DOTALL):
        assert '<option value=""' not in menu or " required" not in menu  # a browser refuses those
    if name == "utility":
        assert "There is no release of this table yet" in bench.get(place).text
        bench.follow(bench.post(f"/p/{opened.number}/release"))
    page = bench.follow(bench.post(place, **answers(tmp_path)[name])).drawn
    assert f"<h1>{VERBS[name].title}</h1>" in page
    ((result, known),) = results
    told = {"sensitive": ("illness",), "person": None}
    assert known == (told if VERBS[name].writes else {})
    assert opened.answers[name].shown == body_html(page_of(result, **known))
    assert opened.answers[name].shown in page
    monkeypatch.chdir(tmp_path)
    command = of(page, r'class="command">.*?<code>(.*?)</code>')
    words = shlex.split(re.sub(r"</?span>", "", command))
    told = sfumato(*words[1:], "--json").json
    on_the_page = json.dumps(result.answer(), ensure_ascii=False)
    here = on_the_page.replace("tick “sort rows by what the release shows” under Risk", "--sort")
    assert json.loads(here) == told
    assert bench.get(place).drawn == page
    assert len(results) == 1
    listed = bench.follow(bench.get(f"/p/{opened.number}/{VERBS[name].step}")).text
    assert "answered" in of(listed, rf'href="{place}">(.*?)</a>')


@pytest.mark.parametrize("name", [name for name in VERBS if VERBS[name].writes])
def test_verbs_that_release_are_verified_and_lie_beside_the_others(
    name: str, bench: Running, opened: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, told = f"/p/{opened.number}", answers(tmp_path)[name]
    bench.follow(bench.post(f"{base}/release"))
    page = bench.follow(bench.post(f"{base}/ask/{name}", write=1, **told)).text
    assert 'data-holds="yes"' in page
    assert "with k = 5" not in page
    assert "k = 5." not in of(page, r'id="verified"[^>]*>(.*?)</p>')
    assert "release-2.csv.certificate.json" in page
    command = of(page, r"command = (.*?)\n")
    monkeypatch.chdir(tmp_path)
    done = sfumato(*shlex.split(json.loads(command))[1:])
    assert done.code == 0, done.err
    made, again = opened.folder / "release-2.csv", tmp_path / "release-2.csv"
    assert made.read_bytes() == again.read_bytes()
    bench.follow(bench.post(f"{base}/release/show", name="release"))
    back = bench.follow(bench.post(f"{base}/release/show", name="release-2")).text
    assert of(back, r'id="verified"[^>]*>(.*?)</p>') == of(page, r'id="verified"[^>]*>(.*?)</p>')


def test_what_safe_harbor_cannot_decide_is_asked_before_a_release_is_offered(
    bench: Running, tmp_path: Path
) -> None:
    sf.demo.write_people(tmp_path / "hospital.csv", 300, 0)
    bench.follow(bench.post("/open", table=str(tmp_path / "hospital.csv")))
    (project,) = bench.workbench.projects.values()
    hidden = project.choices.with_role("sensitive")
    place = f"/p/{project.number}/ask/safe-harbor"
    page = bench.follow(bench.post(place)).text
    assert "Make this release" not in page
    assert "Not decided yet: whether <code>doctor</code> may be published." in page
    assert "To decide before a release can be made: doctor" in page
    assert "keeps its promises" not in page
    page = bench.follow(bench.post(place, drop="doctor")).text
    assert "Make this release" in page
    assert "The release keeps its promises." in page
    assert hidden
    assert f"<code>{hidden[0]}</code>" in of(
        page, r"What can be inferred about them(.*?)What it cost"
    )
    assert "The detail of 3 columns in every row, the detail of 1 column in some rows" in page
    alone = of(page, r"smallest class \(k\).*?<dd[^>]*>(.*?)</dd>")
    assert alone == "1"


def test_a_release_of_another_verb_is_judged_by_what_is_decided_now(
    bench: Running, opened: Project
) -> None:
    base = f"/p/{opened.number}"
    asked = {"k": 5, "method": "mondrian", **ROLES}
    bench.post(f"{base}/configure", **{**asked, "role-4": "other"})
    made = bench.post(f"{base}/ask/mask", measure="distinct", beta=0.5, write=1)
    light = r"What can be inferred about them(.*?)What it cost"
    page = bench.follow(made).text
    assert "no published column was named as worth hiding" in of(page, light)
    bench.post(f"{base}/configure", **asked)
    page = bench.follow(bench.get(f"{base}/release")).text
    assert "classes that hold one <code>illness</code> only" in of(page, light)
    assert bench.get(f"{base}/release").status == 200  # and is drawn once


def test_another_question_is_not_taken_for_one_that_is_waiting(
    bench: Running, opened: Project
) -> None:
    place = f"/p/{opened.number}/ask/violations"
    with opened.busy:
        first = bench.post(place, columns=KNOWN, k=7, max_size=2)
        assert bench.post(place, columns=KNOWN, k=7, max_size=2).place == first.place
        second = bench.post(place, columns=KNOWN, k=20, max_size=2)
    bench.follow(first)
    bench.follow(second)
    assert opened.answers["violations"].given["k"] == 20


def test_an_answer_says_when_it_is_about_other_decisions(bench: Running, opened: Project) -> None:
    place = f"/p/{opened.number}/ask/mask"
    page = bench.follow(bench.post(place, measure="distinct", beta=0.3)).text
    assert "Decisions have changed" not in page
    other = {**ROLES, "role-3": "identifier"}
    bench.post(f"/p/{opened.number}/configure", k=5, method="mondrian", **other)
    page = bench.get(place).text
    assert "Decisions have changed" in page
    assert "--drop</span> <span>name</span></code>" in page


@pytest.mark.parametrize("name", sorted(set(VERBS) - {"utility"}))
def test_every_answer_says_what_was_decided_otherwise(
    name: str, bench: Running, opened: Project, tmp_path: Path
) -> None:
    base = f"/p/{opened.number}"
    bench.follow(bench.post(f"{base}/ask/{name}", **answers(tmp_path)[name]))
    bench.post(f"{base}/configure", k=5, method="cells", **ROLES)
    assert "Decisions have changed" not in bench.get(f"{base}/ask/{name}").text
    other = {**ROLES, "role-2": "other"}
    bench.post(f"{base}/configure", k=9, method="mondrian", **other)
    page = bench.get(f"{base}/ask/{name}").text
    said = (
        "Decisions have changed since:</strong> k = 5 is now k = 9; sex was quasi-identifier, and"
    )
    assert said in page


def test_questions_begin_with_what_is_decided_now(bench: Running, opened: Project) -> None:
    place = f"/p/{opened.number}/ask/violations"
    bench.follow(bench.post(place, columns=KNOWN, k=5, max_size=2))
    bench.post(f"/p/{opened.number}/configure", k=9, method="mondrian",
               **{**ROLES, "role-2": "other"})  # fmt: skip
    form = bench.get(place).text.partition('<section class="answer"')[0]
    assert re.search(r'name="k"[^>]*value="9"', form)
    assert re.search(r'name="max_size"[^>]*value="2"', form), "which was chosen there"
    assert re.findall(r'value="(\w+)" checked', form) == ["age", "town"]


@pytest.mark.parametrize(
    ("name", "told", "said"),
    [
        ("keys", {"columns": KNOWN, "measure": "key", "max_size": "two"}, "not a whole number"),
        ("keys", {"columns": KNOWN, "measure": "all", "max_size": 2}, "choose one of the list"),
        ("keys", {"measure": "key", "max_size": 2}, "Columns: none is ticked"),
        ("mask", {"measure": "distinct", "beta": 2}, "out of range"),
        ("mask", {"measure": "distinct", "beta": "nan"}, "out of range"),
        ("attack", {"of": "", "known": "/etc/passwd", "on": KNOWN, "k": 2}, "choose one of the"),
        ("attack", {"of": "../people", "known": "", "on": KNOWN, "k": 2}, "choose one of the"),
    ],
)
def test_answers_that_mean_nothing_are_refused(
    name: str, told: dict[str, Any], said: str, bench: Running, opened: Project
) -> None:
    answer = bench.post(f"/p/{opened.number}/ask/{name}", **told)
    assert answer.status == 400
    assert said in answer.text
    assert not opened.answers


def test_only_what_can_be_meant_is_offered(bench: Running, opened: Project) -> None:
    """A column that is blurred cannot be learnt, and one that repeats pairs no rows."""
    bench.follow(bench.post(f"/p/{opened.number}/release"))
    opened.decide(replace(opened.choices, target="age"))
    page = bench.get(f"/p/{opened.number}/ask/utility").text
    options = {
        name: re.findall(r'<option value="([^"]*)"', menu)
        for name, menu in re.findall(r'<select name="(\w+)">(.*?)</select>', page, re.DOTALL)
    }
    assert options["target"] == ["", "illness"]
    assert options["row_key"] == [""]
    roles = {**opened.choices.roles, "name": "other", "town": "other"}
    opened.decide(replace(opened.choices, roles=roles))
    page = bench.get(f"/p/{opened.number}/ask/utility").text
    assert 'value="name">by name' in page
    assert "by town" not in page


def test_what_is_kept_is_not_left_out_too(bench: Running, opened: Project) -> None:
    both = {"keep": ["town", "illness"], "drop": ["town"]}
    told = bench.follow(bench.post(f"/p/{opened.number}/ask/safe-harbor", **both)).text
    assert "column <code>town</code> is both kept and dropped" in told.lower()
    assert not opened.answers


def test_a_k_beyond_the_rows_is_broken_by_no_column_at_all(bench: Running, opened: Project) -> None:
    asked = {"columns": ["sex"], "k": 401, "max_size": 2}
    told = bench.follow(bench.post(f"/p/{opened.number}/ask/violations", **asked)).text
    assert "it has fewer than 401 rows, whatever is known of them." in told


def test_a_cancelled_question_leaves_the_answer_before_it(
    bench: Running, opened: Project, tmp_path: Path
) -> None:
    place, told = f"/p/{opened.number}/ask/keys", answers(tmp_path)["keys"]
    bench.follow(bench.post(place, **told))
    before = opened.answers["keys"]
    with opened.busy:
        job = bench.post(place, **{**told, "max_size": 2}).place
        assert bench.get(place).status == 200  # nobody waits
        bench.post(f"{job}/cancel")
    bench.workbench.jobs.close()
    assert opened.answers["keys"] is before
    assert bench.get(f"/p/{opened.number}/ask/verify").status == 404


def test_questions_of_an_earlier_day_are_asked_again_as_they_were(
    bench: Running, opened: Project, tmp_path: Path
) -> None:
    base = f"/p/{opened.number}"
    asked = {"columns": ["age", "town"], "k": 7, "max_size": 2}
    first = _answer(bench.follow(bench.post(f"{base}/ask/violations", **asked)).text)
    assert "7-anonymous" in first
    bench.follow(bench.post(f"{base}/ask/uniques", columns=["age"], max_size=1,
                            sampling_fraction=0.5))  # fmt: skip
    bench.post(f"{base}/risk", k=9)
    bench.post(f"{base}/close")
    bench.follow(bench.post("/open", table=str(tmp_path / "people.csv")))
    (later,) = bench.workbench.projects.values()
    base = f"/p/{later.number}"
    assert later.answers == {}
    assert bench.follow(bench.get(f"{base}/explore")).text.count("<em>asked before</em>") == 2
    page = bench.follow(bench.get(f"{base}/ask/violations")).text
    changed = r'<p class="changed"><strong>Decisions have changed since:.*?</p>'
    assert re.search(changed, page)
    assert re.sub(changed, "", _answer(page)) == first
    assert list(later.unasked) == ["uniques"], "which is not forgotten"
    assert set(questions_from((later.folder / "questions.json").read_text())) == {
        "violations",
        "uniques",
    }


def _answer(page: str) -> str:
    return page.partition('<section class="answer"')[2].partition("</section>\n<p class")[0]


def test_questions_in_a_folder_from_elsewhere_ask_and_no_more(
    bench: Running, opened: Project, tmp_path: Path
) -> None:
    """Nothing is written, no table is opened that was not named, and nonsense is passed over."""
    home, base = opened.folder, f"/p/{opened.number}"
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "people.csv").write_text(PEOPLE)
    elsewhere = {"of": [""], "known": [str(tmp_path / "hidden" / "people.csv")], "on": ["age"],
                 "k": ["5"]}  # fmt: skip
    told = {
        "mask": Asked({"measure": ["distinct"], "beta": ["0.5"], "write": ["1"]}, opened.choices),
        "attack": Asked(elsewhere, opened.choices),
    }
    bench.follow(bench.post(f"{base}/ask/keys", columns=["age"], measure="key", max_size=1))
    for text, found in (
        (questions_to(told), {"mask", "attack"}),
        ('{"mask": 3}', set()),
        ("[", set()),
    ):
        (home / "questions.json").write_text(text)
        opened.look(Budget())
        assert set(opened.unasked) == found
        assert "<h1>Publish fewer columns</h1>" in bench.follow(bench.get(f"{base}/ask/mask")).text
        assert ("mask" in opened.answers) == bool(found)
        assert "<h1>What would a known" in bench.follow(bench.get(f"{base}/ask/attack")).text
        assert "attack" not in opened.answers
        assert opened.versions() == []


def test_a_question_that_was_stopped_is_not_asked_again_unasked(
    bench: Running, opened: Project
) -> None:
    base = f"/p/{opened.number}"
    form = {"columns": ["age"], "measure": ["key"], "max_size": ["1"]}
    opened.unasked = {"keys": Asked(form, opened.choices)}
    with opened.busy:
        begun = bench.get(f"{base}/ask/keys")
        assert str(begun.place).startswith("/jobs/")
        bench.post(f"{begun.place}/cancel")
    assert "Cancelled." in bench.follow(begun).text
    assert bench.get(f"{base}/ask/keys").status == 200
    assert opened.answers == {}


def test_a_node_of_the_lattice_is_looked_at_and_chosen(bench: Running, opened: Project) -> None:
    base = f"/p/{opened.number}"
    assert "Look at the lattice" in bench.get(f"{base}/lattice").text
    page = bench.follow(bench.post(f"{base}/lattice")).text
    lattice = opened.lattice_of(opened.choices)
    assert lattice is not None
    nodes = nodes_of(lattice)
    assert lattice["visited"] == lattice["nodes"] == len(nodes)
    assert page.count('class="holds') == sum(node.holds is True for node in nodes)
    for node in nodes:
        assert f"node={node.name}#node" in page, node
    dearer = max((node for node in nodes if node.holds), key=lambda node: (node.lost, node.levels))
    shown = bench.get(f"{base}/lattice?node={quote(dearer.name)}").text
    assert f"Levels {dearer.said[7:]}." in html.unescape(shown)
    bench.follow(bench.post(f"{base}/lattice", node=dearer.name))
    assert opened.choices.levels == dict(zip(lattice["columns"], dearer.levels, strict=True))
    (tried,) = opened.candidates
    assert (tried.k, tried.rows_left_out) == (dearer.k, dearer.left_out)
    assert tried.lost == pytest.approx(dearer.lost)
    assert opened.lattice_of(opened.choices) is lattice
    again = bench.get(f"{base}/lattice?node={quote(dearer.name)}").text
    assert "<strong>chosen</strong>" in again
    assert "Verified: k = 5." in bench.follow(bench.post(f"{base}/release")).text
    assert "levels" in (opened.folder / "release.toml").read_text()
    assert opened.made is not None
    assert opened.made.how == f"Full-domain with k = 5, levels {dearer.name}"
    bench.follow(bench.post(f"{base}/utility", method="full-domain"))
    assert opened.choices.levels == {}  # it searches, whatever node was tried before
    assert opened.candidates[-1].lost == pytest.approx(min(n.lost for n in nodes if n.holds))
    for wrong in ("9·9·9", "x", "1", ""):
        assert bench.post(f"{base}/lattice", node=wrong).status == 404
    assert bench.get(f"{base}/lattice?node=9").status == 404
    bench.post(f"{base}/configure", k=7, method="mondrian", **ROLES)
    assert "Look at the lattice" in bench.get(f"{base}/lattice").text


def test_the_lattice_of_an_earlier_day_is_looked_at_again(
    bench: Running, opened: Project, tmp_path: Path
) -> None:
    base = f"/p/{opened.number}"
    page = bench.follow(bench.post(f"{base}/lattice")).text
    assert "Which choices hold" in page
    bench.post(f"{base}/close")
    bench.follow(bench.post("/open", table=str(tmp_path / "people.csv")))
    (later,) = bench.workbench.projects.values()
    base = f"/p/{later.number}"
    assert "<em>asked before</em>" in bench.get(f"{base}/utility").text
    assert "Which choices hold" in bench.follow(bench.get(f"{base}/lattice")).text
    bench.follow(bench.post(f"{base}/ask/keys", columns=["age"], measure="key", max_size=1))
    kept = questions_from((later.folder / "questions.json").read_text())
    assert set(kept) == {"lattice", "keys"}
    (tmp_path / "people.csv").write_text(PEOPLE.replace("Aton", "Oton"))
    bench.follow(bench.post(f"{base}/import", text=1, header=1, unparsed="stop"))
    assert later.lattice_of(later.choices) is None, "which was that of another file"


def test_what_others_know_in_sets_is_counted_and_released_for_each(
    bench: Running, opened: Project
) -> None:
    base = f"/p/{opened.number}"
    told = {"set-0": ["age"], "set-2": ["town"]}
    page = html.unescape(bench.follow(bench.post(f"{base}/knowledge", **told)).text)
    assert opened.choices.known == (("age", "sex"), ("sex", "town"))
    people = pd.read_csv(opened.source)
    for known in opened.choices.known:
        alike = people.groupby(list(known))["name"].transform("size")
        below = int((alike < 5).sum())
        assert (
            f"By {', '.join(known)}: {int((alike == 1).sum()):,} stand alone, {below:,} "
            f"({percent(below / len(people))}) have fewer than 4 others like them."
        ) in page
    shown = bench.follow(bench.post(f"{base}/release")).text
    assert "k = 5, for each of 2 sets of columns" in shown
    released = pd.read_csv(opened.folder / "release.csv", dtype=str)
    for known in opened.choices.known:
        assert released.groupby(list(known)).size().min() >= 5
    again = read_choices(opened.folder)
    assert again is not None
    assert again.known == opened.choices.known
    bench.post(f"{base}/knowledge", **{"set-0": ["age", "town"]})
    assert opened.choices.known == (("age", "sex", "town"),)
    assert "other sets" in "; ".join(opened.choices.otherwise(again))


def test_every_row_matches_people_of_a_population(
    bench: Running, opened: Project, tmp_path: Path
) -> None:
    register = pd.read_csv(opened.source)
    pd.concat([register] * 2).to_csv(tmp_path / "register.csv", index=False)
    base, asked = f"/p/{opened.number}", {"k_map": 12, "population": str(tmp_path / "register.csv")}
    bench.follow(bench.post(f"{base}/knowledge", **asked))
    page = bench.follow(bench.post(f"{base}/release")).text
    assert "Verified: k = 5, k-map = 12." in page
    opened.made = None
    assert "Verified: k = 5, k-map = 12." in bench.follow(bench.get(f"{base}/release")).text
    sheet = certificate_svg(Certificate.read(opened.folder / "release.csv.certificate.json"))
    assert "sfumato verify release.csv --population TABLE_OF_PEOPLE" in sheet
    assert opened.made is not None
    shown = opened.made.shown
    assert "journalist:" not in shown  # they look people up elsewhere
    assert (
        "finds at least 12 for every row: a match is right with a chance of at most 8.4%" in shown
    )
    found = sf.attack(str(opened.folder / "release.csv"), asked["population"], on=KNOWN, k=12)
    assert found.k_map
    Path(asked["population"]).rename(tmp_path / "gone.txt")
    page = bench.follow(bench.get(f"{base}/release")).text
    assert "Not checked again" in page
    assert "without register.csv, which is not here" in page
    assert "Do not publish it" not in page
    (tmp_path / "gone.txt").rename(asked["population"])
    register.to_csv(asked["population"], index=False)
    for shown_before in (True, False):  # and on another day
        opened.made = opened.made if shown_before else None
        page = bench.follow(bench.get(f"{base}/release")).text
        assert "Not checked again: k = 5, k-map = 12." in page
        assert "The file is unchanged: its digest is that of the certificate." in page
        assert "k-map = 12, because register.csv is another table now" in page
        for wrong in ("Not verified", "Do not publish it", "not what was promised", "journalist:"):
            assert wrong not in page
        opened._at_hand.clear()
    for wrong in ({"k_map": 12}, {"population": asked["population"]},
                  {"k_map": 12, "population": "/etc/passwd"}, {"target": "nobody"}):  # fmt: skip
        assert bench.post(f"{base}/knowledge", **wrong).status == 400
    before = opened.choices
    short = tmp_path / "short.csv"
    register.drop(columns=["sex", "town"]).to_csv(short, index=False)
    lacks = "short.csv: there are no columns sex and town, by which rows would be matched."
    refused = bench.post(f"{base}/knowledge", k_map=12, population=str(short))
    assert (refused.status, lacks in refused.text, opened.choices) == (400, True, before)
    opened.decide(replace(before, population=str(short)))  # columns got other roles since
    refused = bench.post(f"{base}/release")
    assert (refused.status, lacks in refused.text) == (400, True)
    assert f'<a href="{base}/knowledge#population">“of the table” under Risk' in refused.text
    assert f'<a href="{base}/configure">under Configure</a>' in refused.text
    assert 'id="population"' in bench.get(f"{base}/knowledge").text
    opened.decide(replace(opened.choices, population="/etc/passwd"))  # came with the folder
    for place in ("release", "utility", "lattice"):
        refused = bench.post(f"{base}/{place}", k=5, method="mondrian")
        assert refused.status == 400
        assert "not in the folders" in refused.text


def test_a_column_is_kept_predictable(bench: Running, opened: Project) -> None:
    base = f"/p/{opened.number}"
    bench.follow(bench.post(f"{base}/knowledge", target="illness"))
    bench.follow(bench.post(f"{base}/release"))
    assert 'target = "illness"' in (opened.folder / "release.toml").read_text()
    assert opened.made is not None
    assert opened.made.release.asked["target"] == "illness"
    assert replace(opened.choices, method="lattice").used_target == ""


def test_rows_are_about_what_the_user_says(bench: Running, opened: Project) -> None:
    base = f"/p/{opened.number}"
    bench.follow(bench.get(f"{base}/risk"))
    before = bench.get(f"{base}/risk").text
    bench.follow(bench.post(f"{base}/knowledge", unit="companies"))
    page = bench.get(f"{base}/risk").text
    assert "Companies</span> alike, at least" in page
    assert "companies alike" in page
    facts = [re.findall(r"<dd>([\d,.%]+)</dd>", text) for text in (before, page)]
    assert len(facts[0]) > 3
    assert facts[0] == facts[1]  # no figure is another
    shown = bench.follow(bench.post(f"{base}/release")).text
    assert "How many companies look alike" in shown
    assert "companies look alike: a match" in shown
    assert not re.search(r"[\d,]+ rows (\([\d.%]+\) )?(are in classes|hold)", shown)
    assert opened.made is not None
    told, record = opened.made.shown.split(">For the record<")
    assert "<dt>companies published</dt>" in told
    with counting(*opened.choices.spoken):
        assert noted("8 of 9 rows are alone; do `rows`") == "8 of 9 companies are alone; do `rows`"
    assert not re.search(r"[\d%)] (of (the )?)?rows\b|\brows (published|left out)|>Rows by", told)
    assert "rows" in record  # as the certificate has it
    explored = bench.follow(bench.get(f"{base}/explore")).text
    other = r"\b(people|persons|rows) (\([\d.%]+\) )?(stand alone|stood alone|look alike)"
    for one in (shown, explored, bench.get(f"{base}/configure").text, page):
        assert "companies" in one
        assert not re.search(other, one)
    again = read_choices(opened.folder)
    assert again is not None
    assert (again.unit, again) == ("companies", opened.choices)
    for wrong in ("<b>", "1", "x" * 40, "a\nb"):
        assert bench.post(f"{base}/knowledge", unit=wrong).status == 400
    bench.post(f"{base}/undo")
    assert opened.choices.unit == ""


def test_what_is_counted_has_one_name_on_all_pages(bench: Running, opened: Project) -> None:
    """Rows are rows, and persons are persons, whichever page counts them."""
    base = f"/p/{opened.number}"
    for person, name, other in (("", "rows", "persons|people"), ("name", "persons", "people")):
        bench.post(f"{base}/risk", k=5, person=person)
        pages = [bench.follow(bench.get(f"{base}/{one}")).text for one in ("risk", "explore")]
        pages += [bench.get(f"{base}/configure").text]
        pages += [bench.follow(bench.post(f"{base}/release")).text]
        for page in pages:
            assert re.search(rf"\b{name} (\([\d.%]+\) )?(stand|have|that stand|look)", page), page
            assert not re.search(rf"\b({other}) (\([\d.%]+\) )?(stand|have|look|alike|below)", page)


def test_the_lattice_counts_persons_and_precision_as_other_pages_do(
    bench: Running, opened: Project, tmp_path: Path
) -> None:
    """A node that is tried has the figures that the lattice foretold, whatever columns matter."""
    base = f"/p/{opened.number}"
    place = tmp_path / "visits.csv"
    place.write_text("who,age,sex\n" + "".join(
        f"p{row % 40},{20 + row % 40 % 6},{'FM'[row % 2]}\n" for row in range(200)
    ))  # fmt: skip
    bench.follow(bench.upload("visits.csv", place.read_bytes()))
    visits = next(one for one in bench.workbench.projects.values() if one is not opened)
    base = f"/p/{visits.number}"
    roles = {"role-0": "identifier", "role-1": "quasi-identifier", "role-2": "quasi-identifier"}
    more = {"person": "who", "weight-1": 9}
    bench.post(f"{base}/configure", k=5, method="mondrian", **roles, **more)
    page = bench.follow(bench.post(f"{base}/lattice")).text
    assert "cost, by what matters" in page
    lattice = visits.lattice_of(visits.choices)
    assert lattice is not None
    held = [node for node in nodes_of(lattice) if node.holds]
    assert len({node.k for node in held}) > 1
    for node in held:
        bench.follow(bench.post(f"{base}/lattice", node=node.name))
        tried = visits.candidates[-1]
        assert (tried.k, tried.highest_risk) == (node.k, node.risk)
        assert tried.lost == pytest.approx(node.lost)
    assert any(node.cost != node.lost for node in held)


def test_rows_of_a_release_made_here_are_paired_also_where_some_were_left_out(
    bench: Running, opened: Project
) -> None:
    base = f"/p/{opened.number}"
    opened.source.write_text(PEOPLE + "odd1,150,F,Aton,flu\nodd2,160,M,Cove,none\n")
    opened.look(Budget(), opened.reading)
    bench.follow(bench.post(f"{base}/utility", method="full-domain", suppression_limit=30))
    bench.follow(bench.post(f"{base}/release"))
    assert opened.made is not None
    release = opened.made.release
    assert release.suppressed_rows > 0
    asked = {"of": "release", "target": "", "one": "", "other": "", "row_key": ""}
    page = bench.follow(bench.post(f"{base}/ask/utility", **asked)).text
    lost = percent(release.utility["ncp"])
    assert f"{lost} of the precision of these columns is lost." in page
    assert f"<dd>{release.suppressed_rows:,}</dd>" in page
    assert "it was made here" in page
    assert "sfumato utility" not in page
    opened.look(Budget(), opened.reading)  # as another day: nothing is at hand
    page = html.unescape(bench.follow(bench.post(f"{base}/ask/utility", **asked)).text)
    told = f"{release.suppressed_rows} rows of the table are not in release.csv, and which is known"
    assert told in page
    assert f'Make it again <a href="{base}/release">under Release</a>' in page


def test_spellings_of_one_value_are_pointed_out(bench: Running, tmp_path: Path) -> None:
    ills = ("flu", "Flu ", "FLU", "none")
    rows = [f"{20 + row % 9},{('Aton', 'Berg')[row % 2]},{ills[row % 4]}\n" for row in range(80)]
    bench.follow(bench.upload("ills.csv", ("age,town,illness\n" + "".join(rows)).encode()))
    (project,) = bench.workbench.projects.values()
    told = "3 values differ only in upper case or blanks"
    assert {one.name: one.spelled for one in project.columns} == {
        "age": None, "town": None, "illness": told}  # fmt: skip
    page = bench.get(f"/p/{project.number}/configure").text
    assert f"<strong>illness</strong>: {told}. They count as different" in page
    assert told in bench.get(f"/p/{project.number}/import").text
    place = tmp_path / "ills.csv"
    place.write_text("age,town,illness\n" + "".join(rows))
    scanned = " ".join(sfumato("scan", place).out.split())
    assert f"illness: {told}, and count as different" in scanned
    assert "flu" not in scanned.lower()


def test_some_nodes_of_a_large_lattice_are_listed_and_not_drawn() -> None:
    """They lie far apart: a picture of them is mostly empty."""
    losses = {"loss": [0.0, 0.5], "ncp": [0.0, 0.5], "suppressed": [4, 0], "k": [1, 6]}
    listed = {"columns": ["age"], "levels": [[0], [1]], "holds": [False, True], "optimal": 1}
    chosen = Choices({"age": "quasi-identifier"})
    for number, drawn in ((2, True), (165_888, False)):
        lattice = {**listed, **losses, "nodes": number}
        picture, line = drawn_lattice("1", (), chosen, lattice, nodes_of(lattice), (1,))
        assert bool(picture) == drawn
        assert "precision lost" in line


def test_a_command_reads_the_table_as_it_was_read_here(
    bench: Running, opened: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns that were parsed, or left unread, are for the command too."""
    place = tmp_path / "prices.csv"
    rows = (f"{n % 7},5;t{n % 3};x{n % 2}" for n in range(90))
    place.write_text("price;town;sex\n" + "\n".join(rows) + "\n")
    bench.follow(bench.post("/open", table=str(place)))
    project = next(p for p in bench.workbench.projects.values() if p.source == place)
    base = f"/p/{project.number}"
    form = {"text": 1, "header": 1, "parse-0": "number:comma", "exclude": "sex"}
    bench.follow(bench.post(f"{base}/import", **form))
    roles = {"role-0": "quasi-identifier", "role-1": "quasi-identifier"}
    bench.post(f"{base}/configure", k=3, method="mondrian", **roles)
    bench.follow(bench.post(f"{base}/release"))
    monkeypatch.chdir(tmp_path)
    for verb, form in (
        ("utility", {"of": "release", "target": "", "one": "", "other": "", "row_key": ""}),
        ("violations", {"columns": ["price", "town"], "k": 70, "max_size": 2}),
    ):
        bench.follow(bench.post(f"{base}/ask/{verb}", **form))
        words = shlex.split(project.answers[verb].command)
        assert words[words.index("--parse") + 1] == "price=number:comma"
        assert ("--exclude" in words) == (verb == "violations"), "a release has no such column"
        assert sfumato(*words[1:], "--json").json


def test_a_page_that_is_too_old_leads_back_to_the_one_it_was(
    bench: Running, opened: Project
) -> None:
    """Loading the answer again would ask for the same again."""
    base, edition = f"/p/{opened.number}", opened.decided.edition
    opened.alter(lambda now: replace(now, k=7))
    cookie, own = bench.enter(), f"http://127.0.0.1:{bench.port}"
    for came, back in ((f"{own}{base}/utility", f"{base}/utility"), ("", f"{base}/configure"),
                       ("https://elsewhere.example/p/x", f"{base}/configure")):  # fmt: skip
        headers = {"cookie": cookie, "origin": own, "referer": came}
        _, page = answered(bench.port, "POST", f"{base}/release", f"edition={edition}", headers)
        assert "Go back to see them." in page
        assert f'class="button" href="{back}">Back' in page


def test_a_table_that_lacks_columns_is_answered_with_what_to_untick(
    bench: Running, opened: Project, tmp_path: Path
) -> None:
    (tmp_path / "known.csv").write_text("age,weight\n" + "30,70\n" * 20)
    form = {"of": "", "known": str(tmp_path / "known.csv"), "on": KNOWN, "k": 3}
    page = bench.follow(bench.post(f"/p/{opened.number}/ask/attack", **form)).text
    assert "known.csv: there are no columns sex and town. Untick what it lacks " in page
    assert f'<a href="/p/{opened.number}/ask/attack">under “Joined by”</a>' in page


def test_columns_of_any_name_are_asked_about_and_stand_in_the_command(
    bench: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a browser sends them: with two characters at the end of each line."""
    names = ["a,b", "  spaced  ", "line\nbreak", 'say "hi"']
    rows = pd.DataFrame({name: [n * (at + 2) % 7 for n in range(60)] for at, name in
                         enumerate(names)})  # fmt: skip
    rows.to_csv(tmp_path / "odd.csv", index=False)
    bench.follow(bench.post("/open", table=str(tmp_path / "odd.csv")))
    (project,) = bench.workbench.projects.values()
    sent = [name.replace("\n", "\r\n") for name in names]
    asked = {"columns": sent, "k": 3, "max_size": 2}
    page = bench.follow(bench.post(f"/p/{project.number}/ask/violations", **asked)).text
    assert project.answers["violations"].given["columns"] == tuple(names)
    assert page.count("checked") >= len(names)
    monkeypatch.chdir(tmp_path)
    command = project.answers["violations"].command
    assert command.isprintable(), "a line break would be shown as a blank"
    split = ["bash", "-c", f"printf '%s\\0' {command}"]
    words = subprocess.run(split, capture_output=True, text=True, check=True).stdout.split("\0")
    done = sfumato(*words[1:-1], "--json")
    assert done.code == 0, done.err
    shown = project.answers["violations"].asked
    assert done.json["minimal"] == [
        list(one) for one in sf.violations(tmp_path / "odd.csv", **shown).minimal
    ]


def test_a_question_that_nothing_can_answer_is_not_asked(bench: Running, tmp_path: Path) -> None:
    (tmp_path / "none.csv").write_text("age,sex,illness\n")
    bench.follow(bench.post("/open", table=str(tmp_path / "none.csv")))
    (project,) = bench.workbench.projects.values()
    base = f"/p/{project.number}/ask"
    page = bench.get(f"{base}/utility").text
    assert "There is no release of this table yet." in page
    assert ">Ask<" not in page
    asked = {"measure": "distinct", "beta": 0.5}
    told = bench.follow(bench.post(f"{base}/mask", **asked)).text
    assert "the table has no rows to publish" in told
    assert "Publish fewer columns, or allow" not in told
    assert " checked" in bench.get(f"{base}/keys").text  # all columns, where none is known
