"""A release that is shown again says what it said when it was made, and no more than is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from sfumato.budget import Budget
from sfumato.report.page import Light
from sfumato.report.pages.certificate import certified_release
from sfumato.report.pages.release import release_page
from sfumato.web.choices import Choices
from sfumato.web.kept import Made
from sfumato.web.outcomes import rows_of
from sfumato.web.pages import risk
from sfumato.web.project import Project
from sfumato.web.sources import Reading
from sfumato.wording import percent
from workbench import running

KNOWS = "alone for whoever knows <code>ill</code> besides the quasi-identifiers"
ROLES = {"patient_id": "identifier", "age": "quasi-identifier", "town": "quasi-identifier",
         "ill": "sensitive"}  # fmt: skip


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    """Two hundred patients with two visits each; every fifth age is missing."""
    place = tmp_path / "visits.csv"
    lines = (
        f"P{row // 2},{'' if row // 2 % 5 == 0 else 20 + row // 2 % 50},"
        f"{('Aton', 'Berg', 'Cove')[row // 2 % 3]},{('flu', 'gout', 'none')[row * 7 % 11 % 3]}\n"
        for row in range(400)
    )
    place.write_text("patient_id,age,town,ill\n" + "".join(lines))
    return place


def made_of(place: Path, **chosen: Any) -> Project:
    project = Project(place)
    project.look(Budget())
    project.decide(Choices({**ROLES}, **chosen))
    project.release(Budget())
    return project


def shown_again(place: Path, name: str = "release") -> Made:
    """As a workbench shows it that was started later."""
    later = Project(place)
    later.look(Budget())
    later.reopen(name, Budget())
    assert later.made is not None
    later.close()
    return later.made


def test_what_a_release_cost_and_warned_of_is_said_again(visits: Path) -> None:
    project = made_of(visits, method="full-domain", k=5)
    fresh = project.made
    assert fresh is not None
    assert fresh.release.utility["ncp"] > 0
    again = shown_again(visits)
    assert again.release.utility["ncp"] == pytest.approx(fresh.release.utility["ncp"])
    assert [w for w in fresh.release.warnings if w not in again.release.warnings] == []
    assert "Nothing." not in again.shown
    assert "of the precision of what others may know" in again.shown
    project.close()


def cost(place: Path) -> Light:
    project = Project(place)
    project.look(Budget())
    released = certified_release(project.folder / "release.csv", project.table)
    page = release_page(released, project.table)
    project.close()
    return next(one for one in page.lights if one.question == "What it cost")


def test_what_nobody_kept_is_not_called_nothing(visits: Path) -> None:
    project = made_of(visits, method="full-domain", k=5)
    project.close()
    said = cost(visits)
    assert "of the precision of what others may know" in said.answer  # measured again
    kept = project.folder / "release.made.json"
    whole = json.loads(kept.read_text())
    for damage in ("{", "[]", json.dumps({**whole, "certificate": "0" * 64}),
                   json.dumps({**whole, "utility": {"ncp": "none"}}),
                   json.dumps({**whole, "warnings": [1]})):  # fmt: skip
        kept.write_text(damage)
        again = shown_again(visits)
        assert again.release.utility == {}
        assert again.reading is None


def test_what_is_not_checked_again_is_not_called_verified(visits: Path) -> None:
    project = made_of(visits, k=5, l=2, person="patient_id")
    fresh = project.made
    assert fresh is not None
    assert fresh.holds
    assert fresh.unchecked == ()
    again = shown_again(visits)
    assert again.holds
    assert again.unchecked == ("persons alike", "distinct l-diversity of `ill`")
    assert 'class="verdict good"' not in again.shown
    assert "not all of them were checked again" in again.shown
    assert "<td>not all checked</td>" in again.shown
    assert "persons published" in again.shown
    assert again.release.details["persons"] == fresh.release.details["persons"]
    assert again.release.details["risk"][0] == fresh.release.details["risk"][0]
    # In one run the very bytes were measured already, whosever rows they are.
    project.reopen("release", Budget())
    assert project.made is not None
    assert project.made.unchecked == ()
    assert project.made.shown == fresh.shown
    project.close()


def test_releases_are_listed_with_the_persons_who_look_alike(visits: Path) -> None:
    project = made_of(visits, k=5, person="patient_id")
    assert project.made is not None
    k = project.made.release.k
    said = f"<dt>smallest class (k)</dt><dd>{k} persons</dd>"
    assert said in project.made.shown
    assert [one.alike for one in project.versions()] == [f"{k} persons"]
    assert said in shown_again(visits).shown
    (project.folder / "release.made.json").unlink()  # then only the promise is known
    assert [one.alike for one in project.versions()] == ["≥ 5 persons"]
    assert "<dt>smallest class (k)</dt><dd>≥ 5 persons</dd>" in shown_again(visits).shown
    project.close()


def test_who_is_alone_with_what_is_worth_hiding_is_said_of_every_release(tmp_path: Path) -> None:
    place = tmp_path / "people.csv"
    rows = (f"N{n},{20 + n % 4},{'AB'[n % 2]},{n // 4 % 60}\n" for n in range(240))
    place.write_text("patient_id,age,town,ill\n" + "".join(rows))
    for asked in ({}, {"l": 2}):
        project = made_of(place, k=5, **asked)
        assert project.made is not None
        name = project.made.name
        assert KNOWS in project.made.shown, asked
        assert KNOWS in shown_again(place, name).shown, asked
        project.close()


def test_values_of_ones_own_are_pointed_out_whatever_is_asked(tmp_path: Path) -> None:
    place = tmp_path / "people.csv"
    rows = (f"N{n},{20 + n % 4},{'AB'[n % 2]},{n * 7919 % 9973 + 0.5}\n" for n in range(240))
    place.write_text("patient_id,age,town,ill\n" + "".join(rows))
    for asked in ({}, {"l": 2}):
        project = made_of(place, k=5, **asked)
        assert project.made is not None
        said = "<code>ill</code> has a value of its own in most rows"
        assert project.made.shown.partition("For the record")[0].count(said) == 1, asked
        project.close()


def test_not_protected_are_persons_where_those_are_counted(visits: Path) -> None:
    project = made_of(visits, k=5, l=2, person="patient_id", unit="patients")
    (section,) = (one for one in risk(project, project.choices).sections if one.grids)
    rows = pd.read_csv(visits)
    known = list(project.choices.qi)
    few = rows.groupby(known, dropna=False)["patient_id"].transform("nunique") < 5
    persons = rows["patient_id"].nunique()
    failing = rows.loc[few, "patient_id"].nunique()
    assert 0 < failing < few.sum()
    (said,) = (row[-1] for row in section.grids[0].rows if row[0] == "k-anonymity")
    assert said == f"{failing:,} patients ({percent(failing / persons)})"
    assert [one.alike.split()[-1] for one in project.versions()] == ["patients"]
    assert project.made is not None
    assert "persons" not in project.made.shown.partition(">For the record<")[0].replace(
        "Counting persons", ""
    )
    project.close()


def test_rows_of_a_release_of_this_run_are_at_hand_when_it_is_shown_again(visits: Path) -> None:
    project = made_of(visits, k=5)
    project.decide(project.choices.asking(k=10))
    project.release(Budget())
    for name in ("release", "release-2"):
        project.reopen(name, Budget())
        assert project.made is not None
        assert project.made.name == name
        assert rows_of(project.made.release, "sample") is not None
    project.close()


def test_how_a_file_is_read_is_a_setting(visits: Path) -> None:
    project = made_of(visits, k=5)
    first = {place.name: place.read_bytes() for place in project.folder.glob("release*.*")}
    project.look(Budget(), Reading(null_values=("Aton",)))
    project.reopen("release", Budget())
    assert project.made is not None
    (changed,) = project.made.differs(project.choices, project.reading)
    assert "the file is read otherwise" in changed
    project.release(Budget())
    assert project.made.name == "release-2"
    assert {name: (project.folder / name).read_bytes() for name in first} == first
    assert project.made.differs(project.choices, project.reading) == []
    project.release(Budget())  # the same again
    assert project.made.name == "release-2"
    project.close()


@pytest.mark.parametrize(
    ("unique", "guessed"),
    [("patient_id", ""), ("ssn", ""), ("visit_id", "name"), ("claim_id", "name")],
)
def test_namesakes_are_not_one_person(tmp_path: Path, unique: str, guessed: str) -> None:
    place = tmp_path / "people.csv"
    given, family = ("Ada", "Bo", "Cy", "Di"), ("Ash", "Birch", "Cedar", "Elm", "Fir", "Oak")
    rows = (
        f"{10_000 + n},{given[n % 4]} {family[n // 4 % 25 % 6]}{'abcdefghij'[n // 20 % 10]},"
        f"{'FM'[n % 2]},{20 + n % 40}\n"
        for n in range(240)
    )
    place.write_text(f"{unique},name,sex,age\n" + "".join(rows))
    project = Project(place)
    project.look(Budget())
    assert project.choices.person == guessed
    project.close()


def test_the_page_is_amber_over_what_was_not_checked_and_names_no_file_that_is_not_there(
    visits: Path,
) -> None:
    made_of(visits, k=5, l=2, person="patient_id").close()
    with running([visits.parent]) as later:
        later.follow(later.post("/open", table=str(visits)))
        (project,) = later.workbench.projects.values()
        page = later.follow(later.get(f"/p/{project.number}/release")).text
        assert 'class="done warn"' in page
        assert "Not checked again: k = 5, l = 2." in page
        assert '<div class="warn"><dt>Who can be found</dt>' in page
        assert "`" not in page.partition('id="verified"')[2].partition("</p>")[0]
        assert "Verified" not in page
        assert "but for the PDF, which is drawn when you download it" in page
        assert not list(project.folder.glob("*.pdf"))
        # Its rows were sorted, and no column tells them apart: none are laid beside others.
        asked = later.get(f"/p/{project.number}/ask/utility").text
        assert "cannot be paired" in asked
        assert "<form" not in asked.partition("cannot be paired")[2]
        later.post(f"/p/{project.number}/release/rows")
        rows = later.get(f"/p/{project.number}/release/rows").text
        assert "only for the last 6 releases that were made since the table was opened" in rows
