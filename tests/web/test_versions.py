"""Releases side by side, work in progress on every page, and what is found again another day."""

from __future__ import annotations

import json
import os
import re
import threading
import time
import uuid
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import sfumato as sf
from sfumato.budget import Budget
from sfumato.errors import ParameterError, SourceError
from sfumato.release.publish import Release
from sfumato.tables import Table
from sfumato.web.app import Job
from sfumato.web.candidates import Candidate, best_of, candidates_from, candidates_to, names_of
from sfumato.web.choices import Choices, read_choices
from sfumato.web.hierarchies import inferred
from sfumato.web.kept import demand_of
from sfumato.web.outcomes import ORDERS, rows_of
from sfumato.web.project import Project
from workbench import PATIENCE, PEOPLE, ROLES, Running, answered, running


def test_releases_lie_side_by_side_and_are_found_again(
    bench: Running, opened: Project, tmp_path: Path
) -> None:
    base = f"/p/{opened.number}"
    bench.follow(bench.post(f"{base}/release"))
    first = {place.name: place.read_bytes() for place in opened.folder.glob("release.*")}
    bench.post(f"{base}/configure", k=20, method="mondrian", **ROLES)
    page = bench.follow(bench.post(f"{base}/release")).text
    assert "Verified: k = 20." in page
    assert "Releases of this table" in page
    assert {n: (opened.folder / n).read_bytes() for n in first} == first
    assert (opened.folder / "release-2.csv").is_file()
    for name in ("release", "release-2"):
        assert f"{base}/release/certificates/{name}.pdf" in page
        assert answered(
            bench.port, "GET", f"{base}/release/certificates/{name}.pdf", None,
            {"cookie": bench.enter()}, "latin-1",
        )[1].startswith("%PDF-")  # fmt: skip
    assert bench.get(f"{base}/release/certificates/release-3.pdf").status == 404
    assert bench.get(f"{base}/release/certificates/..%2Fproject.pdf").status == 404
    bench.follow(bench.post(f"{base}/release"))  # made again, as it was
    assert not (opened.folder / "release-3.csv").exists()
    bench.follow(bench.post(f"{base}/utility", k=20, method="mondrian"))
    figures = replace(opened.candidates[0], number=0)
    with running([tmp_path]) as later:
        later.follow(later.post("/open", table=str(tmp_path / "people.csv")))
        (again,) = later.workbench.projects.values()
        assert again.choices.k == 20
        assert [replace(one, number=0) for one in again.candidates] == [figures]
        shown = later.follow(later.get(f"/p/{again.number}/release")).text
        assert "Verified: k = 20." in shown
        assert 'id="changed"' not in shown
        older = later.follow(later.post(f"/p/{again.number}/release/show", name="release")).text
        assert "Verified: k = 5." in older
        assert "k = 5 is now k = 20" in older
        files = f"/p/{again.number}/release/files"
        assert later.get(f"{files}/release-2.csv").status == 200
        assert later.post(f"/p/{again.number}/release/show", name="../people").status == 404
        for place in again.folder.glob("release-2.csv.certificate.json"):
            place.write_text(place.read_text().replace('"k": 20', '"k": 21'))
    with running([tmp_path]) as last:
        last.follow(last.post("/open", table=str(tmp_path / "people.csv")))
        (again,) = last.workbench.projects.values()
        assert "Verified: k = 5." in last.follow(last.get(f"/p/{again.number}/release")).text


def test_candidates_of_a_table_that_was_changed_are_forgotten(
    bench: Running, opened: Project, tmp_path: Path
) -> None:
    bench.follow(bench.post(f"/p/{opened.number}/utility", k=5, method="mondrian"))
    assert opened.candidates
    table = tmp_path / "people.csv"
    table.write_text(table.read_text() + "late,33,F,Aton,flu\n")
    for damage in (None, "[]", "{", '{"table": 1}'):
        if damage is not None:
            (opened.folder / "candidates.json").write_text(damage)
        with running([tmp_path]) as later:
            later.follow(later.post("/open", table=str(table)))
            (again,) = later.workbench.projects.values()
            assert again.looked
            assert again.candidates == ()


def test_what_can_be_inferred_is_protected_by_one_click(bench: Running, opened: Project) -> None:
    base = f"/p/{opened.number}"
    page = bench.follow(bench.post(f"{base}/release")).text
    assert "What can be inferred about them" in page
    assert "Protect with l = 2" in page
    protected = bench.follow(bench.post(f"{base}/release", of="release", protect=2)).text
    assert opened.choices.l == 2
    assert "Protect with l = 2" not in protected
    assert "it differs among those alike" in protected
    assert (opened.folder / "release.csv").is_file()


def test_one_click_protects_the_release_it_stands_under(bench: Running, opened: Project) -> None:
    """Settings that were changed since promise less, perhaps: they are not what is added to."""
    base = f"/p/{opened.number}"
    bench.follow(bench.post(f"{base}/release"))
    bench.post(f"{base}/risk", k=2)
    page = bench.get(f"{base}/release").text
    assert "the settings of now give way to its own" in page
    assert 'name="of" value="release"' in page
    refused = bench.post(f"{base}/release", of="release-2", protect=2)
    assert refused.status == 400
    assert "another release is shown by now" in refused.text.lower()
    assert opened.choices.k == 2
    protected = bench.follow(bench.post(f"{base}/release", of="release", protect=2)).text
    assert "Verified: k = 5, l = 2." in protected
    assert (opened.choices.k, opened.choices.l) == (5, 2)


def test_a_release_whose_files_were_changed_is_not_called_verified(
    bench: Running, opened: Project
) -> None:
    base = f"/p/{opened.number}"
    page = bench.follow(bench.post(f"{base}/release")).text
    assert 'data-holds="yes"' in page
    output = opened.folder / "release.csv"
    lines = output.read_text().splitlines()
    output.write_text("\n".join([lines[0], "33,F,Elsewhere,flu", *lines[2:]]) + "\n")
    assert bench.get(f"{base}/release/files/release.csv").status == 409
    certificate = bench.get(f"{base}/release/certificates/release.pdf")
    assert certificate.status == 400
    assert "is not what its certificate is about any more" in certificate.text
    again = bench.follow(bench.get(f"{base}/release")).text
    assert 'data-holds="no"' in again
    assert "Verified:" not in again
    assert "1 of 400 rows stands alone" in again
    assert "<dt>smallest class (k)</dt><dd>1</dd>" in again  # nothing of then is said of it
    assert "precision lost</dt>" not in again
    assert "Not known: the file is not the one that was written." in again
    assert "release.pdf" in page
    assert "release.pdf" not in again
    assert "No PDF is drawn of its certificate, which is about another file." in again
    assert bench.get(f"{base}/release/files/release.csv").status == 200  # it is not called so
    output.unlink()
    gone = bench.follow(bench.get(f"{base}/release")).text
    assert "Verified:" not in gone
    assert "the file of this release is not there any more" in gone
    certificate = bench.get(f"{base}/release/certificates/release.pdf")
    assert "Put it back, or make the release again." in certificate.text
    with pytest.raises(SourceError) as missing:
        sf.table(output)
    assert ".json" not in str(missing.value)


def test_a_page_that_is_out_of_date_takes_no_demand_back(bench: Running, opened: Project) -> None:
    place = f"/p/{opened.number}/risk"
    shown = bench.follow(bench.get(place)).text
    edition = re.search(r'name="edition" value="(\d+)"', shown)
    assert edition is not None
    bench.post(place, k=5, l=3, edition=edition[1])
    assert opened.choices.l == 3
    late = bench.post(place, k=6, l="", edition=edition[1])
    assert late.status == 400
    assert "changed on another page" in late.text
    assert (opened.choices.k, opened.choices.l) == (5, 3)
    knows = f"/p/{opened.number}/knowledge"
    edition = re.search(r'name="edition" value="(\d+)"', bench.get(knows).text)
    assert edition is not None
    bench.post(knows, unit="clients", target="illness", edition=edition[1])
    assert "changed on another page" in bench.post(knows, unit="rows", edition=edition[1]).text
    assert (opened.choices.unit, opened.choices.target) == ("clients", "illness")
    assert "pages call them clients." in bench.get(knows).text
    for step, form in (("release", {}), ("utility", {"method": "mondrian"})):
        shown = bench.get(f"/p/{opened.number}/{step}").text
        edition = re.search(r'name="edition" value="(\d+)"', shown)
        assert edition is not None
        opened.decide(opened.choices.asking(k=opened.choices.k + 1))
        late = bench.post(f"/p/{opened.number}/{step}", edition=edition[1], **form)
        assert "changed on another page" in late.text
    assert not opened.versions()


def test_two_workbenches_do_not_undo_each_other(opened: Project) -> None:
    other = Project(opened.source)
    other.look(Budget())
    other.decide(other.choices.asking(k=15))
    with pytest.raises(SourceError, match="changed by another program"):
        opened.decide(opened.choices.asking(k=7))
    again = read_choices(opened.folder)
    assert again is not None
    assert again.k == 15
    other.close()


def test_a_protection_that_cannot_be_had_changes_nothing(
    bench: Running, opened: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = f"/p/{opened.number}"
    page = bench.follow(bench.post(f"{base}/release")).text
    assert "Protect with l = 2" in page
    before = opened.choices
    monkeypatch.setattr("sfumato.anonymization.verb.anonymize", _refused)
    bench.follow(bench.post(f"{base}/release", of="release", protect=2))
    assert opened.choices == before
    monkeypatch.undo()
    place = opened.source.with_name("same.csv")  # two values cannot be had of one
    place.write_text(PEOPLE.replace(",none", ",flu"))
    same = Project(place)
    same.look(Budget())
    same.decide(replace(opened.choices))
    same.release(Budget())
    assert same.made is not None
    assert same.made.shared == ()
    assert "400 of 400 rows (100%) are in classes that hold one" in same.made.shown
    same.close()


def _refused(*args: object, **more: object) -> None:
    raise ParameterError("this cannot be reached")


def test_labels_of_trees_are_understood_another_day(bench: Running, opened: Project) -> None:
    """Those that somebody made, and those that were inferred."""
    base = f"/p/{opened.number}"
    tree = inferred(opened.held("town")).group([0, 1], "coast")
    own = replace(opened.choices, trees={"town": tree}, method="full-domain")
    for at, choices in enumerate((own, replace(own, trees={})), 1):
        name = f"release-{at}".removesuffix("-1")
        opened.decide(replace(choices, k=2, levels={"age": 0, "sex": 0, "town": 1}))
        bench.follow(bench.post(f"{base}/release"))
        assert opened.made is not None
        then = told_of_shapes(opened.made.shown)
        opened._at_hand.clear()
        opened.reopen(name, Budget())
        assert told_of_shapes(opened.made.shown) == then
        assert then


def told_of_shapes(page: str) -> str:
    """What is said of distributions before and after."""
    part = page.partition("Distributions before and after")[2].partition("</section>")[0]
    return re.sub(r"<svg.*?</svg>|<[^>]*>", "", part, flags=re.DOTALL)


def test_the_tray_counts_by_the_clock(bench: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while something is compiled, which no time limit counts."""
    job = Job("1", "Counting", "/")
    assert job.in_tray()["elapsed"] == 0
    job.began = time.monotonic() - 75
    monkeypatch.setattr(type(job.budget), "elapsed", 7.0)
    assert job.in_tray()["elapsed"] == 75


def test_who_closes_a_table_is_told_what_ends(bench: Running, opened: Project) -> None:
    assert "stops its work" not in bench.get("/").text
    with opened.busy:
        bench.post(f"/p/{opened.number}/release")
        assert "stops its work" in bench.get("/").text
    bench.follow(bench.post("/demo"))
    assert "removes it with its releases" in bench.get("/").text


def test_a_small_table_is_tried_with_each_k_it_can_have(tmp_path: Path) -> None:
    rows = "".join(f"{row % 5},{row % 2}\n" for row in range(12))
    (tmp_path / "few.csv").write_text(f"age,sex\n{rows}")
    with running([tmp_path]) as bench:
        bench.follow(bench.post("/open", table=str(tmp_path / "few.csv")))
        (project,) = bench.workbench.projects.values()
        roles = dict.fromkeys(("age", "sex"), "quasi-identifier")
        project.decide(replace(project.choices, roles=roles))
        base = f"/p/{project.number}"
        bench.follow(bench.post(f"{base}/utility", method="mondrian", range=1))
        assert sorted(one.choices.k for one in project.candidates) == [2, 3, 5, 10]
        project.decide(replace(project.choices, sets=(("age",), ("sex",))))
        page = bench.follow(bench.post(f"{base}/lattice")).text
        assert "the lattice is listed for one set of columns" in page.lower()


@pytest.mark.parametrize(
    ("names", "person"), [("PATIENT,ENCOUNTER", "PATIENT"), ("Surname,patient_id", "")]
)
def test_patients_are_counted_and_not_their_visits(names: str, person: str, tmp_path: Path) -> None:
    first, second = names.split(",")
    rows = "".join(
        f"{uuid.UUID(int=n // 4)},{uuid.UUID(int=10_000 + n)},{n % 30},{n % 7}\n"
        for n in range(400)
    )
    place = tmp_path / "visits.csv"
    place.write_text(f"{first},{second},day,code\n{rows}")
    project = Project(place)
    project.look(Budget())
    assert project.choices.person == person
    project.close()


def test_explore_says_who_is_alone_by_all_columns(bench: Running, opened: Project) -> None:
    page = bench.follow(bench.get(f"/p/{opened.number}/explore")).text
    assert "By all 3 columns" not in page  # nobody is
    names = [f"answer_{at}" for at in range(10)]
    rows = "".join(",".join(str(row >> at & 1) for at in range(10)) + "\n" for row in range(900))
    opened.source.with_name("odd.csv").write_text(",".join(names) + f"\n{rows}")
    bench.follow(bench.post("/open", table=str(opened.source.with_name("odd.csv"))))
    project = next(p for p in bench.workbench.projects.values() if p is not opened)
    roles = dict.fromkeys(project.table.columns, "quasi-identifier")
    project.decide(replace(project.choices, roles=roles))
    page = bench.follow(bench.get(f"/p/{project.number}/explore")).text
    assert "By all 10 columns that others may know, 900 of 900 rows (100%) stand alone." in page
    project.decide(replace(project.choices, roles={**roles, "answer_3": "identifier"}))
    page = bench.follow(bench.get(f"/p/{project.number}/explore")).text
    assert "<td>left out</td>" in page  # by decision: it points at nobody
    assert "point at one person" not in page
    assert "Roles are as decided under Configure." in page


def test_the_list_does_not_say_what_was_measured_of_other_files(
    bench: Running, opened: Project, tmp_path: Path
) -> None:
    base = f"/p/{opened.number}"
    bench.follow(bench.post(f"{base}/release"))
    people = tmp_path / "register.csv"
    pd.concat([pd.read_csv(opened.source)] * 2).to_csv(people, index=False)
    bench.follow(bench.post(f"{base}/knowledge", k_map=12, population=str(people)))
    page = bench.follow(bench.post(f"{base}/release")).text
    assert [one.changed for one in opened.versions()] == [False, False]
    assert "people of register.csv" in page
    assert "may have been changed since" not in page
    assert "The settings that repeat it" in page
    output = opened.folder / "release.csv"
    output.write_text(output.read_text() + "33,F,Elsewhere,flu\n")
    assert [one.alike for one in opened.versions()][1] == "–"
    assert "may have been changed since" in bench.get(f"{base}/release").text
    settings = opened.folder / "release-2.toml"
    settings.write_text(settings.read_text().replace("k = 5", "k = 2"))
    again = bench.follow(bench.get(f"{base}/release")).text
    assert "The settings that repeat it" not in again
    assert "it is not known to repeat it" in again
    people.write_text("".join(people.read_text().splitlines(keepends=True)[:9]))
    assert 'data-holds="partly"' in bench.follow(bench.get(f"{base}/release")).text


def test_a_column_by_which_one_person_is_found_is_not_called_harmless(tmp_path: Path) -> None:
    rows = "".join(f"{row % 7},{row % 2}\n" for row in range(1999))
    (tmp_path / "many.csv").write_text(f"age,sex\n99,0\n{rows}")
    with running([tmp_path]) as bench:
        bench.follow(bench.post("/open", table=str(tmp_path / "many.csv")))
        (project,) = bench.workbench.projects.values()
        for place in ("configure?view=board", "configure?view=table", "explore"):
            page = bench.follow(bench.get(f"/p/{project.number}/{place}")).text
            assert "&lt;0.1%" in page, place
            assert "0.0%" not in page, place


def test_rows_that_were_left_out_are_shown_as_nothing(tmp_path: Path) -> None:
    place = tmp_path / "odd.csv"
    place.write_text("age,sex\n" + "30,F\n" * 60 + "".join(f"{age},M\n" for age in range(41, 51)))
    project = Project(place)
    project.look(Budget())
    roles = {"age": "quasi-identifier", "sex": "quasi-identifier"}
    way = replace(project.choices, roles=roles, method="full-domain", suppression_limit=0.5)
    project.decide(replace(way, levels={"age": 0, "sex": 0}))
    project.release(Budget())
    assert project.made is not None
    for which in ORDERS:
        found = rows_of(project.made.release, which)
        assert found is not None
        gone = [row for row in found.rows if row.left_out]
        assert all(was == now for row in gone for was, now in row.cells)
        assert [row.number for row in gone] == [-1] * len(gone)
        assert (len(gone), gone) == (10, list(found.rows[-10:]))
    project.close()


def test_a_search_that_was_stopped_is_called_so(
    bench: Running, opened: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = f"/p/{opened.number}"
    told = "may give another release"
    assert told not in bench.follow(bench.post(f"{base}/release")).text
    assert opened.made is not None
    stopped = replace(opened.made.release, stopped_by="time")
    opened.made = replace(opened.made, release=stopped)
    assert told in bench.get(f"{base}/release").text
    one = replace(tried(1, 0.5), stopped=True)
    assert names_of([one], one.choices) == {1: "mondrian, k = 5, stopped early"}
    assert candidates_from(candidates_to([one], 1), 1)[0].stopped


def test_trying_again_what_comes_out_the_same_makes_no_twin(
    bench: Running, opened: Project
) -> None:
    """A share of rows that may be left out matters to one method, and to no other."""
    base = f"/p/{opened.number}/utility"
    bench.follow(bench.post(base, method=["lattice", "full-domain"], suppression_limit=0.05))
    page = bench.follow(bench.post(base, method="lattice", suppression_limit="")).text
    assert [one.choices.method for one in opened.candidates] == ["full-domain", "lattice"]
    assert "(2)" not in page
    assert "up to 0.05% of the rows left out" in page
    assert "was not tried with the decisions of now" not in page
    assert page.count("<strong>chosen</strong>") == 1


def test_a_tree_that_is_not_at_hand_is_waited_for_as_a_job(bench: Running, opened: Project) -> None:
    place = f"/p/{opened.number}/columns/1"
    with opened.busy:
        job = bench.get(place)
        assert job.status == 303
        assert str(job.place).startswith("/jobs/")
        assert "Reading the values of age" in bench.get(str(job.place)).text
        bench.post(f"{job.place}/cancel")
        told = bench.get(str(job.place)).text
    assert f'href="/p/{opened.number}/configure">Back' in told or 'id="job"' in told
    assert "How is age blurred?" in bench.follow(bench.get(place)).text
    with opened.busy:
        assert "How is age blurred?" in bench.get(place).text  # it is at hand now


def test_pages_answer_while_a_job_has_the_table(bench: Running, opened: Project) -> None:
    base = f"/p/{opened.number}"
    bench.follow(bench.get(f"{base}/explore"))
    bench.follow(bench.get(f"{base}/risk"))
    roles = {**ROLES, "role-3": "other"}
    with opened.busy:  # a page that waited for it would never come
        bench.post(f"{base}/configure", k=5, l=2, method="mondrian", **roles)
        assert "not counted yet" in bench.get(f"{base}/configure").text
        assert bench.get(f"{base}/utility").status == 200
        assert bench.get(f"{base}/release").status == 200
        job = bench.post(f"{base}/utility", k=5, method="mondrian")
        (told,) = json.loads(bench.get("/jobs").text)["running"]
        assert (told["title"], told["table"]) == ("Trying mondrian with k = 5, l = 2", "people.csv")
        assert told["keeps"]
    bench.follow(job)
    assert json.loads(bench.get("/jobs").text) == {"running": []}


def test_a_release_that_waited_is_the_one_that_was_asked_for(
    bench: Running, opened: Project
) -> None:
    base = f"/p/{opened.number}"
    with opened.busy:  # other work on the table
        job = bench.post(f"{base}/release")
        bench.post(f"{base}/risk", k=20)
        (told,) = json.loads(bench.get("/jobs").text)["running"]
        assert told["title"] == "Making the release: mondrian with k = 5"
    page = bench.follow(job).text
    assert "Verified: k = 5." in page
    assert "k = 5 is now k = 20" in page
    assert opened.choices.k == 20


def test_the_same_demand_of_other_columns_is_another_release(
    bench: Running, opened: Project
) -> None:
    base = f"/p/{opened.number}"
    with opened.busy:
        first = bench.post(f"{base}/release")
        assert bench.post(f"{base}/release").place == first.place  # clicked twice
        roles = {**ROLES, "role-3": "other"}
        bench.post(f"{base}/configure", k=5, method="mondrian", **roles)
        second = bench.post(f"{base}/release")
        assert second.place != first.place
    bench.follow(first)
    assert 'id="changed"' not in bench.follow(second).text
    assert [one.name for one in opened.versions()] == ["release-2", "release"]


def test_what_was_drawn_is_not_counted_or_drawn_again(
    bench: Running, opened: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that is looked at twice asks neither the table nor the drawing of charts."""
    base = f"/p/{opened.number}"
    bench.post(f"{base}/configure", k=5, l=2, method="mondrian", **ROLES)
    bench.follow(bench.post(f"{base}/release"))
    bench.follow(bench.post(f"{base}/ask/keys", columns=["age", "sex"], measure="key", max_size=2))
    pages = ["configure", "explore", "risk", "risk/figure?k=7", "utility", "release", "ask/keys",
             "lattice"]  # fmt: skip
    before = [bench.follow(bench.get(f"{base}/{place}")).drawn for place in pages]
    asked: list[str] = []
    for name in ("class_sizes", "classes", "codes", "values", "sample"):
        monkeypatch.setattr(Table, name, lambda *_, name=name, **__: asked.append(name))
    monkeypatch.setattr("sfumato.report.drawing._drawn", lambda *_: asked.append("draw"))
    with opened.busy:  # somebody else has the table
        assert [bench.get(f"{base}/{place}").drawn for place in pages] == before
    assert asked == []


def _told(bench: Running, page: str) -> dict[str, Any]:
    """What a page that is open hears a while later."""
    tray = re.search(r'data-of="(\w+)" data-since="([\d.]+)"', page)
    assert tray is not None
    return dict(json.loads(bench.get(f"/jobs?of={tray[1]}&since={tray[2]}").text))


def test_pages_that_are_open_are_told_what_ended_since(
    bench: Running, opened: Project, tmp_path: Path
) -> None:
    base = f"/p/{opened.number}"
    older = bench.get(f"{base}/utility").text
    assert _told(bench, older)["ended"] == []
    newer = bench.follow(bench.post(f"{base}/utility", k=5, method="mondrian")).text
    (job,) = _told(bench, older)["ended"]
    assert (job["title"], job["state"]) == ("Trying mondrian with k = 5", "done")
    assert bench.get(f"/jobs/{job['number']}").place == f"{base}/utility"
    assert _told(bench, newer)["ended"] == [], "it was made afterwards"
    bench.follow(bench.post(f"{base}/utility", k=999, method="mondrian"))
    assert [job["state"] for job in _told(bench, newer)["ended"]] == ["failed"]
    (tmp_path / "other.csv").write_text(PEOPLE)
    elsewhere = bench.follow(bench.post("/open", table=str(tmp_path / "other.csv"))).text
    bench.follow(bench.post(f"{base}/utility", k=6, method="mondrian"))
    assert _told(bench, elsewhere)["ended"] == [], "of another table"


def test_pages_that_are_open_are_told_of_decisions_made_elsewhere(
    bench: Running, opened: Project
) -> None:
    base = f"/p/{opened.number}"
    edition = re.search(r'data-edition="(\d+)"', bench.follow(bench.get(f"{base}/utility")).text)
    assert edition is not None
    assert _told(bench, bench.get(f"{base}/utility").text)["edition"] == int(edition[1])
    bench.post(f"{base}/risk", k=7)
    assert _told(bench, bench.get(f"{base}/utility").text)["edition"] == int(edition[1]) + 1
    tray = bench.get(f"{base}/utility").text
    bench.post(f"{base}/close")
    assert not _told(bench, tray)["open"]


def test_the_release_that_is_being_made_is_named(bench: Running, opened: Project) -> None:
    with opened.busy:
        bench.post(f"/p/{opened.number}/release")
        (told,) = json.loads(bench.get("/jobs").text)["running"]
    assert told["title"] == "Making the release: mondrian with k = 5"


def test_a_job_ends_with_the_best_it_has(bench: Running, opened: Project) -> None:
    begun, seen = threading.Event(), []

    def search(budget: Budget) -> None:
        begun.set()
        half = budget.part(0.5)
        while not half.spent():
            pass
        seen.append(half.stopped_by)

    jobs = bench.workbench.jobs
    job = jobs.start("Searching", f"/p/{opened.number}/utility", search, "people.csv", True)
    assert begun.wait(PATIENCE)
    assert "Stop and keep the best" in bench.get(f"/jobs/{job.number}").text
    page = bench.follow(bench.post(f"/jobs/{job.number}/finish"))
    assert "What does it cost?" in page.text
    assert (seen, job.state) == (["time"], "done")


@pytest.mark.parametrize("stop", ["end", "cancel"])
def test_who_stops_early_gets_the_best_that_promises_the_same_and_is_told_the_rest(
    stop: str, bench: Running, opened: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, decided, made = f"/p/{opened.number}", opened.choices, Candidate.of
    budgets = [Budget(), Budget()]

    def last(number: int, choices: Choices, release: Release) -> Candidate:
        getattr(budgets[-1], stop)()
        return made(number, choices, release)

    monkeypatch.setattr(Candidate, "of", last)
    better, weaker = replace(decided, method="kmember"), decided.asking(k=2)
    opened.try_out([weaker, decided], budgets[-1])
    assert opened.choices == decided  # to stop early is no decision to promise less
    page = bench.get(f"{base}/utility").text
    assert "Stopped before mondrian (k = 5) was tried." in page
    assert "What would be released, mondrian with k = 5, was not tried" in page
    assert "the ring is" not in page
    assert "No other promises exactly what mondrian, k = 2 does" in page
    budgets.pop()
    opened.try_out([better, decided], budgets[-1])
    assert opened.choices == (better if stop == "end" else decided)
    page = bench.get(f"{base}/utility").text
    assert ("the ring is" in page) == ("<strong>chosen</strong>" in page) == (stop == "end")
    monkeypatch.undo()
    opened.try_out([decided], Budget())
    assert "Stopped before" not in bench.get(f"{base}/utility").text


def tried(number: int, lost: float, **asked: object) -> Candidate:
    roles = {"age": "quasi-identifier", "zip": asked.pop("zip", "quasi-identifier")}
    choices = Choices(roles, **asked)  # type: ignore[arg-type]
    return Candidate(number, choices, 5, 1, 0, 0, lost, None, None, {})


def test_the_best_is_looked_for_among_equals() -> None:
    five, ten = tried(1, 0.5), tried(2, 0.4, method="lattice")
    cheap, other = tried(3, 0.1, k=2), tried(4, 0.0, zip="other")
    candidates = [five, cheap, ten, other]
    assert best_of(candidates, five.choices) == (ten, 2)
    assert best_of(candidates, cheap.choices) == (cheap, 1)
    assert best_of(candidates, Choices()) == (other, 1)
    assert best_of([], Choices()) is None
    names = names_of(candidates, five.choices)
    assert len(set(names.values())) == 4
    assert names[4] == "mondrian, k = 5; zip is other"


def test_rows_are_shown_side_by_side_once_asked_for(bench: Running, opened: Project) -> None:
    place = f"/p/{opened.number}/release/rows"
    assert bench.get(place).place == f"/p/{opened.number}/release"
    bench.follow(bench.post(f"/p/{opened.number}/release"))
    asked = bench.get(place).text
    assert "Show rows" in asked
    assert "<del>" not in asked
    page = bench.follow(bench.post(place)).text
    assert "<del>" in page
    report = (opened.folder / "release.html").read_text()
    assert "<del>" not in report
    assert bench.get(f"{place}?which=all").status == 404
    assert opened.made is not None
    before = pd.read_csv(opened.source)
    after = pd.read_csv(opened.folder / "release.csv", dtype=str)
    names = ["age", "sex", "town"]
    pairs = Counter(
        zip(before[names].astype(str).itertuples(index=False, name=None),
            after[names].itertuples(index=False, name=None), strict=True)
    )  # fmt: skip
    own, classes = Counter(), Counter()
    for (was, now), rows in pairs.items():
        own[was] += rows
        classes[now] += rows
    for which in ORDERS:
        found = rows_of(opened.made.release, which)
        assert found is not None
        assert set(found.columns) == set(names)
        assert 0 < len(found.rows) <= 50
        for row in found.rows:
            cells = dict(zip(found.columns, row.cells, strict=True))
            was = tuple(cells[name][0] for name in names)
            now = tuple(cells[name][1] for name in names)
            assert (was, now) in pairs
            assert (row.alike_before, row.alike_after) == (own[was], classes[now])
    one = found.rows[0]
    alike = rows_of(opened.made.release, "sample", one.number)
    assert alike is not None
    assert {row.number for row in alike.rows} == {one.number}
    assert sum(row.times for row in alike.rows) == one.alike_after, "all of them are told"
    assert len(alike.rows) == alike.different == len({row.cells for row in alike.rows})
    listed = bench.get(f"{place}?which=sample&only={one.number}").text
    assert "Equal rows are listed once" in listed
    other = bench.follow(bench.post(f"{place}/other", k=40, which="riskiest")).text
    assert "tried for this page and not released; the release has k = 5" in other
    tried = opened.release_with(40)
    assert tried is not None
    assert tried.output is None
    wider = rows_of(tried, "sample")
    assert wider is not None
    least = {row.alike_after for row in wider.rows if not row.left_out}
    assert min(least) >= 40
    first = rows_of(opened.made.release, "sample")
    assert first is not None
    assert sorted(tuple(was for was, _ in row.cells) for row in wider.rows) == sorted(
        tuple(was for was, _ in row.cells) for row in first.rows
    )  # the same rows, otherwise blurred
    assert len(opened.versions()) == 1
    assert bench.get(f"{place}?k=77").place == place
    bench.follow(bench.post(f"/p/{opened.number}/release"))
    assert opened.release_with(40) is None


def test_the_most_blurred_rows_are_those_that_lost_most(opened: Project) -> None:
    opened.release(Budget())
    assert opened.made is not None
    rows = rows_of(opened.made.release, "blurred")
    assert rows is not None
    found = rows_of(opened.made.release, "sample")
    assert found is not None
    assert rows.different == found.different
    ages = pd.read_csv(opened.source)["age"]
    at = rows.columns.index("age")

    def lost(cell: str) -> float:
        ends = re.findall(r"[\d.]+", cell)
        return (float(ends[-1]) - float(ends[0])) / (ages.max() - ages.min())

    changed = [[was != now for was, now in row.cells] for row in rows.rows]
    assert not any(one[:at] + one[at + 1 :] for one in changed if any(one[:at] + one[at + 1 :]))
    least = min(lost(row.cells[at][1]) for row in rows.rows)
    every = pd.read_csv(opened.folder / "release.csv", dtype=str)["age"]
    wider = [cell for cell in every if lost(cell) > least + 1e-9]
    listed = {row.cells[at][1] for row in rows.rows}
    assert set(wider) <= listed


def test_rows_are_shown_by_each_set_of_columns(bench: Running, opened: Project) -> None:
    base = f"/p/{opened.number}"
    sets = (("age", "sex"), ("sex", "town"))
    opened.decide(replace(opened.choices, sets=sets, k=12))  # the second stays as it is
    bench.follow(bench.post(f"{base}/release"))
    bench.post(f"{base}/release/rows")
    for number, names in enumerate([("age", "sex"), ("sex", "town")]):
        page = bench.get(f"{base}/release/rows?set={number}").text
        assert "one of 2 sets of columns" in page
        heads = re.findall(r'<th scope="col">([^<]*)</th>', page)
        assert tuple(heads) == names
        after = pd.read_csv(opened.folder / "release.csv", dtype=str)
        alike = set(after.groupby(list(names)).size())
        found = re.findall(r'set=\d">([\d,]+)</a></td>', page)
        assert found
        assert {int(one.replace(",", "")) for one in found} <= alike
    assert bench.get(f"{base}/release/rows?set=2").status == 404


def test_of_a_file_that_is_another_one_nothing_is_made(
    bench: Running, opened: Project, tmp_path: Path
) -> None:
    """Roles and figures are those of the file that was looked at; it says so until it is read."""
    base, source = f"/p/{opened.number}", tmp_path / "people.csv"
    source.write_text(PEOPLE.replace("Aton", "Oton"))
    asked = {"columns": ["age"], "measure": "key", "max_size": 1}
    for place, form in (("release", {}), ("utility", {"k": 4, "method": "cells"}),
                        ("ask/keys", asked), ("lattice", {})):  # fmt: skip
        page = bench.follow(bench.post(f"{base}/{place}", **form)).text
        assert "the file was changed since it was read" in page, place
    assert opened.versions() == []
    bench.follow(bench.post(f"{base}/import", text=1, header=1, unparsed="stop"))
    assert "Verified" in bench.follow(bench.post(f"{base}/release")).text
    source.rename(tmp_path / "elsewhere.csv")
    page = bench.follow(bench.post(f"{base}/utility", k=4, method="cells")).text
    assert "the file is not there any more" in page
    assert bench.get(f"{base}/release").status == 200, "what was made stays in sight"


def _rewritten(source: Path, how: str) -> None:
    """Put another file in the place of one."""
    head, *rows = PEOPLE.splitlines(keepends=True)
    if how == "deleted":
        source.unlink()
        return
    text = {
        "other rows": PEOPLE.replace("Aton", "Oton"),
        "set back": PEOPLE.replace("Aton", "Oton"),
        "reordered": head + "".join(rows[::-1]),
        "halved": head + "".join(rows[: len(rows) // 2]),
    }[how]
    then = source.stat()
    source.write_text(text)
    if how == "set back":
        os.utime(source, ns=(then.st_atime_ns, then.st_mtime_ns))
        assert source.stat().st_size == then.st_size


@pytest.mark.parametrize("how", ["other rows", "reordered", "halved", "deleted", "set back"])
def test_every_page_says_that_the_file_is_another_one(
    how: str, bench: Running, opened: Project, tmp_path: Path
) -> None:
    base, source = f"/p/{opened.number}", tmp_path / "people.csv"
    bench.follow(bench.post(f"{base}/release"))
    places = ("configure", "import", "explore", "risk", "utility", "release", "release/rows",
              "lattice", "knowledge", "ask/keys")  # fmt: skip
    for place in places:
        assert 'id="stale"' not in bench.follow(bench.get(f"{base}/{place}")).text, place
    _rewritten(source, how)
    for place in places:
        answer = bench.get(f"{base}/{place}")
        assert answer.status == 200, place
        assert 'id="stale"' in answer.text, place
        assert ("is not there any more" if how == "deleted" else " changed since") in answer.text
    page = bench.follow(bench.post(f"{base}/release")).text
    assert "the file " in page
    assert len(opened.versions()) == 1
    assert bench.post(f"{base}/configure", k=4, method="mondrian", **ROLES).status == 303
    assert bench.get(f"{base}/configure").status == 200
    for place in ("explore", "risk"):
        assert bench.follow(bench.get(f"{base}/{place}")).status in (200, 400)


def test_releases_of_another_table_are_marked(
    bench: Running, opened: Project, tmp_path: Path
) -> None:
    base, source = f"/p/{opened.number}", tmp_path / "people.csv"
    bench.follow(bench.post(f"{base}/release"))
    source.write_text(PEOPLE.replace("Aton", "Oton"))
    bench.follow(bench.post(f"{base}/import", text=1, header=1, unparsed="stop"))
    page = bench.follow(bench.get(f"{base}/release")).text
    assert "of another table" in page
    assert 'id="verified"' not in page, "it is not shown as one of this table"
    bench.follow(bench.post(f"{base}/release"))
    assert [one.other for one in opened.versions()] == [False, True]
    bench.post(f"{base}/close")
    bench.follow(bench.post("/open", table=str(source), release=1))
    (later,) = bench.workbench.projects.values()
    assert [one.other for one in later.versions()] == [False, True]
    assert later.made is not None
    assert later.made.name == "release-2"


def test_releases_that_differ_in_one_action_are_told_apart(bench: Running, opened: Project) -> None:
    base = f"/p/{opened.number}"
    bench.follow(bench.post(f"{base}/release"))
    bench.post(f"{base}/configure", k=5, method="mondrian", **{**ROLES, "role-4": "identifier"})
    page = bench.follow(bench.post(f"{base}/release")).text
    second, first = opened.versions()
    assert (first.method, first.demand) == (second.method, second.demand)
    assert first.apart != second.apart
    assert second.apart.startswith("illness ")
    assert second.apart in page
    pseudonyms = {**ROLES, "pseudonym-0": "1"}
    bench.post(f"{base}/configure", k=5, method="mondrian", **pseudonyms)
    bench.follow(bench.post(f"{base}/release"))
    assert "name replaced by pseudonyms" in opened.versions()[0].apart
    assert "k_map" not in demand_of({"k_map": 10})
