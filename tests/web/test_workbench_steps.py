"""The workbench from a table to a verified release, step by step."""

from __future__ import annotations

import gc
import html
import json
import re
import stat
import threading
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from sfumato.budget import Budget
from sfumato.errors import BudgetError, ParameterError
from sfumato.files import write_secret
from sfumato.web import pages
from sfumato.web.app import Job, Jobs
from sfumato.web.choices import OFFERED, Choices
from sfumato.web.hierarchies import MOST_VALUES
from sfumato.web.project import Project
from sfumato.web.verbs import VERBS
from workbench import PEOPLE, PEOPLE_ROWS, Running

ROLES = {
    "role-0": "identifier",
    "role-1": "quasi-identifier",
    "role-2": "quasi-identifier",
    "role-3": "quasi-identifier",
    "role-4": "sensitive",
}


@pytest.fixture
def opened(bench: Running, tmp_path: Path) -> str:
    page = bench.follow(bench.post("/open", table=str(tmp_path / "people.csv")))
    assert page.status == 200
    assert "What may others know?" in page.text
    (number,) = bench.workbench.projects
    return f"/p/{number}"


def test_all_the_way(bench: Running, opened: str, tmp_path: Path) -> None:
    explored = bench.follow(bench.post(f"{opened}/configure", k="5", method="mondrian", **ROLES))
    assert "Who can be found?" in explored.text
    assert "How many should look alike?" in bench.follow(bench.get(f"{opened}/risk")).text
    moved = bench.get(f"{opened}/risk/figure?k=9")
    assert "fewer than 9 alike" in moved.text
    assert "<html" not in moved.text
    tried = bench.follow(bench.post(f"{opened}/utility", k="3", method="mondrian"))
    assert "mondrian, k = 3" in tried.text
    bench.post(f"{opened}/undo")
    done = bench.follow(bench.post(f"{opened}/release"))
    assert 'data-holds="yes"' in done.text
    folder = tmp_path / "people.csv.sfumato"
    assert {place.name for place in folder.iterdir()} == {
        "candidates.json",
        "project.toml",
        "release.csv",
        "release.csv.certificate.json",
        "release.decisions.toml",
        "release.html",
        "release.made.json",
        "release.toml",
    }
    assert sf.verify(str(folder / "release.csv")).holds
    released = sf.table(str(folder / "release.csv"))
    assert "name" not in released.columns
    assert sf.measure(released, ["age", "sex", "town"]).k >= 5
    again = sf.anonymize(
        str(tmp_path / "people.csv"), config=folder / "release.toml", output=tmp_path / "again.csv"
    )
    assert again.verified
    assert (tmp_path / "again.csv").read_bytes() == (folder / "release.csv").read_bytes()


def test_a_release_keeps_the_settings_it_was_made_with(bench: Running, opened: str) -> None:
    bench.post(f"{opened}/configure", k="5", method="mondrian", **ROLES)
    done = bench.follow(bench.post(f"{opened}/release")).text
    assert "Verified: k = 5." in done
    assert 'id="changed"' not in done
    roles = {name: "other" if value == "sensitive" else value for name, value in ROLES.items()}
    bench.post(f"{opened}/configure", k="20", method="lattice", **roles)
    later = bench.get(f"{opened}/release").text
    assert "Mondrian with k = 5." in later
    assert "Verified: k = 5." in later
    assert "k = 5 is now k = 20" in later
    assert "mondrian is now lattice" in later
    assert "k = 5\n" in later.replace("&#34;", '"')
    assert "k = 20\n" not in later
    again = bench.follow(bench.post(f"{opened}/release")).text
    assert "Verified: k = 20." in again
    assert 'id="changed"' not in again


def test_decisions_are_saved_taken_back_and_found_again(
    bench: Running, opened: str, tmp_path: Path
) -> None:
    bench.post(f"{opened}/configure", k="7", method="mondrian", **ROLES)
    bench.post(f"{opened}/configure", k="11", method="mondrian", **ROLES)
    saved = tmp_path / "people.csv.sfumato" / "project.toml"
    assert tomllib.loads(saved.read_text())["k"] == 11
    bench.post(f"{opened}/undo")
    assert tomllib.loads(saved.read_text())["k"] == 7
    bench.post(f"{opened}/close")
    assert bench.get(f"{opened}/configure").status == 404
    bench.follow(bench.post("/open", table=str(tmp_path / "people.csv")))
    (project,) = bench.workbench.projects.values()
    assert (project.choices.k, project.choices.roles["name"]) == (7, "identifier")


@pytest.mark.parametrize(
    "wrong", [{"k": "1"}, {"k": "many"}, {"method": "magic"}, {"role-0": "king"}, {"role-4": ""}]
)
def test_bad_decisions_are_refused(bench: Running, opened: str, wrong: dict[str, str]) -> None:
    (project,) = bench.workbench.projects.values()
    before = project.choices
    given = {"k": "5", "method": "mondrian", **ROLES, **wrong}
    assert bench.post(f"{opened}/configure", **given).status == 400
    assert project.choices == before


def test_a_page_that_is_out_of_date_overwrites_nothing(bench: Running, opened: str) -> None:
    (project,) = bench.workbench.projects.values()
    form = {"k": "5", "method": "mondrian", "edition": project.decided.edition, **ROLES}
    assert bench.post(f"{opened}/configure", **{**form, "k": "7"}).status == 303
    refused = bench.post(f"{opened}/configure", **{**form, "role-1": "other"})
    assert refused.status == 400
    assert "another page" in refused.text
    assert (project.choices.k, project.choices.roles["age"]) == (7, "quasi-identifier")
    again = bench.post(f"{opened}/configure", **{**form, "k": "7"})
    assert again.status == 303, "what is so already is no conflict"


def test_the_first_page_tells_what_a_demand_lacks(bench: Running, opened: str) -> None:
    bench.post(
        f"{opened}/configure", k="5", l="2", method="mondrian", **{**ROLES, "role-4": "other"}
    )
    assert "worth hiding" in bench.get(f"{opened}/configure/meter").text


def test_work_that_failed_leads_back_to_where_it_was_asked_for(bench: Running, opened: str) -> None:
    bench.follow(bench.post(f"{opened}/configure", k="401", method="mondrian", **ROLES))
    assert f'href="{opened}/release"' in bench.follow(bench.post(f"{opened}/release")).text
    tried = bench.follow(bench.post(f"{opened}/utility", k="401", method="mondrian"))
    assert f'href="{opened}/utility"' in tried.text


def test_a_problem_nobody_foresaw_is_told_without_its_words(
    bench: Running, opened: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(project: object) -> None:
        raise ValueError("a cell of person7")

    monkeypatch.setattr("sfumato.web.pages.meter", broken)
    answer = bench.get(f"{opened}/configure")
    assert answer.status == 500
    assert "That did not work" in answer.text
    assert "person7" not in answer.text


def test_a_folder_that_cannot_be_made_is_told_with_a_way_out(
    bench: Running, opened: str, tmp_path: Path
) -> None:
    (tmp_path / "people.csv.sfumato").write_text("a file in its place")
    answer = bench.post(f"{opened}/configure", k="7", method="mondrian", **ROLES)
    assert answer.status == 400
    assert "drop it on the first page" in answer.text


def test_a_release_that_cannot_be_is_told(bench: Running, opened: str, tmp_path: Path) -> None:
    bench.follow(bench.post(f"{opened}/configure", k="401", method="mondrian", **ROLES))
    answer = bench.follow(bench.post(f"{opened}/release"))
    assert 'class="verdict bad"' in answer.text
    assert not (tmp_path / "people.csv.sfumato" / "release.csv").exists()


def test_no_cell_is_shown_before_the_release(bench: Running, opened: str) -> None:
    pages = [bench.follow(bench.post(f"{opened}/configure", k="5", method="mondrian", **ROLES))]
    pages += [bench.follow(bench.get(f"{opened}/{step}")) for step in ("risk", "utility")]
    pages.append(bench.get(f"{opened}/configure"))
    for page in pages:
        assert "person7" not in page.text
        assert "Cove" not in page.text


def test_many_requests_at_once(bench: Running, opened: str) -> None:
    bench.follow(bench.post(f"{opened}/configure", k="5", method="mondrian", **ROLES))
    places = ["/", f"{opened}/configure", "/static/report.css", f"{opened}/utility"] * 50
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(bench.get, places))
    assert {answer.status for answer in answers} == {200}


def test_fifty_cancelled_jobs_leave_nothing_behind() -> None:
    def work(budget: Budget) -> None:
        while not budget.spent():
            time.sleep(0.005)
        raise BudgetError("the work was stopped")

    before = threading.active_count()
    jobs = Jobs(workers=2)
    made = [jobs.start("Turning", "/", work) for _ in range(50)]
    assert jobs.running() == made
    for job in made:
        jobs.cancel(job)
    jobs.close()
    assert {job.state for job in made} == {"cancelled"}
    gc.collect()
    assert threading.active_count() <= before  # threads of other tests may have ended meanwhile


def test_work_on_a_table_waits_for_no_other_table() -> None:
    """However much is asked of one table, it takes one thread."""
    jobs, done = Jobs(workers=2), threading.Event()

    def turn(budget: Budget) -> None:
        while not budget.spent():
            time.sleep(0.005)

    try:
        slow = [jobs.start("Searching", "/p/1/utility", turn, queue="1") for _ in range(3)]
        quick = jobs.start("Trying", "/p/2/utility", lambda budget: done.set(), queue="2")
        assert done.wait(60)
        assert [job.state for job in slow[1:]] == ["waiting"] * 2
        assert slow[1].doing == "waiting for other work on this table"
        jobs.cancel(slow[2])
        assert slow[2].state == "cancelled"
        jobs.finish(slow[0])
        last = jobs.start("Trying", "/p/1/utility", lambda budget: None, queue="1")
        until = time.monotonic() + 60
        while slow[1].state == "waiting" and time.monotonic() < until:
            time.sleep(0.005)
        jobs.finish(slow[1])
        while not last.finished and time.monotonic() < until:
            time.sleep(0.005)
    finally:
        jobs.close()
    states = [job.state for job in (*slow, last, quick)]
    assert states == ["done", "done", "cancelled", "done", "done"]
    assert not jobs._queues


def test_a_job_tells_how_far_it_is_and_what_went_wrong() -> None:
    jobs = Jobs(workers=1)

    def half(budget: Budget) -> None:
        budget.progress("halving", 0.5)

    def refuse(budget: Budget) -> None:
        raise ParameterError("k is too large", remedy="Give less.")

    def crash(budget: Budget) -> None:
        raise ValueError("a cell: Rareflower")

    done, refused, crashed = (jobs.start("Work", "/there", w) for w in (half, refuse, crash))
    jobs._pool.shutdown(wait=True)
    assert (done.state, done.doing, done.share) == ("done", "halving", 0.5)
    assert refused.state == crashed.state == "failed"
    assert str(refused.problem) == "k is too large. Give less."
    assert "Rareflower" not in str(crashed.problem)


def test_a_job_may_end_while_its_page_is_drawn(bench: Running) -> None:
    class Hasty(Job):
        def __getattribute__(self, name: str) -> object:
            if name == "title":
                job.state = "done"
            return super().__getattribute__(name)

    job = Hasty("1", "Work", "/there", state="running")
    bench.workbench.jobs._jobs["1"] = job
    answer = bench.get("/jobs/1")
    assert (answer.status, answer.place) == (303, "/there")


def test_choices_know_their_limits() -> None:
    with pytest.raises(ParameterError, match="out of range"):
        Choices(k=1)
    with pytest.raises(ParameterError, match="known to others"):
        Choices({"age": "other"}).rehearsed()


def test_the_same_work_is_not_begun_twice_and_ends_with_its_table(
    bench: Running, opened: str
) -> None:
    (project,) = bench.workbench.projects.values()
    project.columns = ()
    with project.busy:  # the job has to wait
        first = bench.get(f"{opened}/configure")
        assert bench.get(f"{opened}/configure").place == first.place
        assert len(bench.workbench.jobs.running()) == 1
        (job,) = bench.workbench.jobs.running()
        assert 'action="/jobs/' in bench.get(str(first.place)).text
        bench.post(f"{first.place}/cancel")
        assert job.budget.spent()
    bench.workbench.jobs.close()
    assert job.state == "cancelled"
    assert "Cancelled." in bench.get(str(first.place)).text
    bench.post(f"{opened}/close")
    assert bench.workbench.projects == {}


def test_the_users_roles_come_before_guesses(bench: Running, opened: str) -> None:
    roles = {**ROLES, "role-0": "other"}
    page = bench.follow(bench.post(f"{opened}/configure", k="5", method="mondrian", **roles))
    assert "<td>points at one person</td>" not in page.text
    roles = {**ROLES, "role-0": "identifier"}
    page = bench.follow(bench.post(f"{opened}/configure", k="5", method="mondrian", **roles))
    assert "<td>points at one person</td>" in page.text


def test_problems_are_sentences_that_name_what_pages_ask_for(bench: Running, opened: str) -> None:
    roles = {**ROLES, "role-0": "other"}
    bench.follow(bench.post(f"{opened}/configure", k="5", method="mondrian", **roles))
    said = html.unescape(bench.follow(bench.post(f"{opened}/release")).text)
    assert "would be published, and it seems to name persons" in said
    assert f'Leave it out (“Leave out” <a href="{opened}/configure">under Configure</a>), ' in said
    assert "all the same: tick “publish columns that seem to name persons” <a href=" in said
    bench.post(f"{opened}/risk", k=5, who=1, names_published=1)
    assert 'data-holds="yes"' in bench.follow(bench.post(f"{opened}/release")).text
    bench.post(f"{opened}/risk", k=5, who=1)
    changed = bench.get(f"{opened}/release").text
    assert "columns that seem to name persons must not be published now" in changed
    assert "=[" not in said
    assert "=True" not in said
    for form, told in (
        ({}, "No method is ticked."),
        ({"method": "x", "k": "x"}, "<code>k</code> is not"),
    ):
        assert f'<p class="verdict bad">{told}' in bench.post(f"{opened}/utility", **form).text


def test_rows_of_a_sorted_table_are_sorted_where_that_is_ticked(
    bench: Running, opened: str
) -> None:
    bench.follow(bench.post(f"{opened}/configure", k="5", method="mondrian", **ROLES))
    bench.post(f"{opened}/risk", k=5, who=1)
    said = html.unescape(bench.follow(bench.post(f"{opened}/release")).text)
    assert "the release keeps their order" in said
    assert "(tick “sort rows by what the release shows” under Risk)" in said
    assert 'name="sort" value="1" checked' not in bench.get(f"{opened}/risk").text
    bench.post(f"{opened}/risk", k=5, who=1, sort=1)
    assert 'name="sort" value="1" checked' in bench.get(f"{opened}/risk").text
    assert "rows are sorted now" in bench.get(f"{opened}/release").text
    said = bench.follow(bench.post(f"{opened}/release")).text
    assert 'data-holds="yes"' in said
    assert "keeps their order" not in said
    for verb, asked in (("mask", {"measure": "distinct", "beta": 0.9}), ("safe-harbor", {})):
        for sort in ({"sort": 1}, {}):
            bench.post(f"{opened}/risk", k=5, who=1, **sort)
            said = html.unescape(bench.follow(bench.post(f"{opened}/ask/{verb}", **asked)).text)
            assert ("--sort" in said) == bool(sort)
            assert ("keeps their order" in said) == (not sort)


def test_risk_follows_everything_that_must_hold(bench: Running, opened: str) -> None:
    demand = {"k": 5, "l": 2, "t": "0.3", "method": "mondrian", **ROLES}
    bench.follow(bench.post(f"{opened}/configure", **demand))
    page = bench.follow(bench.get(f"{opened}/risk"))
    assert "What must hold" in page.text
    for model in ("k-anonymity", "l-diversity", "t-closeness"):
        assert model in page.text
    (project,) = bench.workbench.projects.values()
    project._entries = None
    with project.busy:  # what other work holds up is announced, and asked for again
        held_up = bench.get(f"{opened}/risk/figure?k=5")
    again = bench.get(f"{opened}/risk/figure?k=5")
    told = [(one.later, "What must hold" in one.text) for one in (held_up, again)]
    assert told == [(True, False), (False, True)]
    found = project.check_now(project.choices)
    assert found is not None
    names = ["age", "sex", "town"]
    assert found.k == sf.measure(str(project.source), names).k
    rows = [line.split(",")[1:] for line in PEOPLE.splitlines()[1:]]
    illnesses: dict[tuple[str, ...], set[str]] = {}
    for *known, illness in rows:
        illnesses.setdefault(tuple(known), set()).add(illness)
    alone = sum(len(illnesses[tuple(known)]) < 2 for *known, _ in rows)
    diversity = next(f for f in found.findings if "diversity" in f.model)
    assert diversity.failing_rows == alone


def test_explore_follows_the_roles(bench: Running, opened: str) -> None:
    bench.follow(bench.post(f"{opened}/configure", k=5, method="mondrian", **ROLES))
    (project,) = bench.workbench.projects.values()
    first = project.explore(project.choices, Budget())
    assert {name for m in first.combinations for name in m.columns} <= {"age", "sex", "town"}
    others = {**ROLES, "role-1": "other", "role-4": "quasi-identifier"}
    page = bench.follow(bench.post(f"{opened}/configure", k=5, method="mondrian", **others))
    assert "Who can be found?" in page.text
    second = project.explore(project.choices, Budget())
    used = {name for m in second.combinations for name in m.columns}
    assert used == {"sex", "town", "illness"}
    for found in second.combinations:
        assert found.unique_rows == sf.measure(str(project.source), found.columns).unique_rows


def test_roles_are_given_to_many_columns_at_once(bench: Running, opened: str) -> None:
    (project,) = bench.workbench.projects.values()
    guessed = project.choices.roles
    page = bench.get(f"{opened}/configure?view=table&sort=values").text
    assert re.findall(r'name="pick" value="(\d)"', page)[0] == "0", "names have the most values"
    answer = bench.post(f"{opened}/configure", bulk="sensitive", pick=["1", "3"], **ROLES)
    assert answer.place == f"{opened}/configure", "there may be more to do"
    assert project.choices.with_role("sensitive") == ("age", "town", "illness")
    bench.post(f"{opened}/configure", rest="other", pick=["1", "2"], **ROLES)
    assert project.choices.roles == {
        "name": "other", "age": "quasi-identifier", "sex": "quasi-identifier", "town": "other",
        "illness": "other",
    }  # fmt: skip
    refused = bench.post(f"{opened}/configure", rest="identifier", **ROLES)
    assert refused.status == 400
    assert "No column is picked" in refused.text
    for _ in range(2):
        bench.post(f"{opened}/undo")
    assert project.choices.roles == guessed


def test_a_form_changes_only_what_it_asks_about(bench: Running, opened: str) -> None:
    (project,) = bench.workbench.projects.values()
    bench.post(f"{opened}/configure", k=7, l=2, method="lattice", **ROLES)
    bench.post(f"{opened}/configure", **ROLES)
    assert (project.choices.k, project.choices.l, project.choices.method) == (7, 2, "lattice")
    assert bench.post(f"{opened}/risk", k=9, t="0.4", l="").place == f"{opened}/utility"
    asked = project.choices
    assert (asked.k, asked.l, asked.t, asked.method) == (9, None, 0.4, "lattice")


def test_several_methods_are_tried_together(bench: Running, opened: str) -> None:
    (project,) = bench.workbench.projects.values()
    bench.post(f"{opened}/configure", k=3, method="mondrian", **ROLES)
    form = {"method": ["mondrian", "lattice", "kmember"]}
    page = bench.follow(bench.post(f"{opened}/utility", **form)).text
    assert "Of the 3 that promise the same" in page
    tried = [one.choices.method for one in project.candidates]
    assert tried == ["lattice", "kmember", "mondrian"], "what was chosen stays so, and comes last"
    bench.follow(bench.post(f"{opened}/utility", method=["lattice", "kmember"]))
    assert project.choices.method == project.candidates[-1].choices.method == "kmember"
    assert "No method is ticked" in bench.post(f"{opened}/utility").text


@pytest.mark.parametrize(
    "demand", [{"l": 2, "role-4": "other"}, {"person": "name", "role-0": "other"}]
)
def test_the_risk_is_shown_while_something_is_missing(
    bench: Running, opened: str, demand: dict[str, object]
) -> None:
    """Demands are made on that page, so it must be there to take them back."""
    bench.post(f"{opened}/configure", k=5, method="mondrian", **{**ROLES, **demand})
    page = bench.follow(bench.get(f"{opened}/risk"))
    assert page.status == 200
    (project,) = bench.workbench.projects.values()
    assert project.choices.gap is not None
    assert project.choices.gap[1] in html.unescape(page.text)


@pytest.mark.parametrize("method", OFFERED)
def test_every_method_can_be_tried_and_compared(bench: Running, opened: str, method: str) -> None:
    bench.follow(bench.post(f"{opened}/configure", k=3, method="mondrian", **ROLES))
    form = {"k": 3, "l": 2, "method": method, "suppression_limit": 20, "l_kind": "distinct"}
    page = bench.follow(bench.post(f"{opened}/utility", **form))
    assert f"{method}, k = 3, l = 2" in page.text
    (project,) = bench.workbench.projects.values()
    (candidate,) = project.candidates
    assert candidate.k is not None
    assert candidate.k >= 3
    assert 0 <= candidate.lost <= 1
    assert set(candidate.columns) == {"age", "sex", "town"}
    assert project.choices.method == method


@pytest.mark.parametrize(
    ("demand", "said"),
    [
        ({"l": 1.5, "l_kind": "entropy"}, "l = 1.5 entropy"),
        ({"l": 2, "l_kind": "recursive", "c": 9}, "l = 2 recursive"),
        ({"t": 0.4, "t_distance": "equal"}, "t = 0.4 equal"),
        ({"t": 0.4, "t_distance": "ordered"}, "t = 0.4 ordered"),
        ({"p": 2}, "p = 2"),
        ({"alpha": 0.9}, "α = 0.9"),
        ({"l": 2, "p": 2, "alpha": 0.85}, "l = 2, p = 2, α = 0.85"),
    ],
)
def test_every_model_can_be_demanded(
    bench: Running, opened: str, demand: dict[str, object], said: str, tmp_path: Path
) -> None:
    bench.follow(bench.post(f"{opened}/configure", k=3, method="mondrian", **ROLES))
    page = bench.follow(bench.post(f"{opened}/utility", k=3, method="mondrian", **demand))
    assert f"mondrian, k = 3, {said}" in page.text
    done = bench.follow(bench.post(f"{opened}/release"))
    assert 'data-holds="yes"' in done.text
    assert repeated(tmp_path) == (tmp_path / "people.csv.sfumato/release.csv").read_bytes()


def repeated(tmp_path: Path) -> bytes:
    """What the settings beside the release make of the table again."""
    settings, again = tmp_path / "people.csv.sfumato/release.toml", tmp_path / "again.csv"
    sf.anonymize(str(tmp_path / "people.csv"), config=settings, output=again, force=True)
    return again.read_bytes()


@pytest.mark.parametrize("own", [True, False])
def test_pseudonyms_take_the_place_of_what_is_left_out(
    bench: Running, opened: str, tmp_path: Path, own: bool
) -> None:
    secret = tmp_path / "mine.key"
    write_secret(secret, b"8f14e45fceea167a5a36dedd4bea2543\n")
    form = {"k": 5, "method": "mondrian", "pseudonym-0": 1, "key": "" if own else secret}
    bench.follow(bench.post(f"{opened}/configure", **form, **ROLES))
    page = bench.get(f"{opened}/configure").text
    assert re.search(r'name="pseudonym-0" value="1" checked', page)
    assert "mine.key in" in page
    assert (" selected>mine.key in" in page) is not own
    tried = bench.follow(bench.post(f"{opened}/utility", k=4, method="mondrian", key=form["key"]))
    assert "mondrian, k = 4" in tried.text
    folder = tmp_path / "people.csv.sfumato"
    assert not (folder / "pseudonyms.key").exists(), "nothing is written by trying"
    done = bench.follow(bench.post(f"{opened}/release"))
    assert 'data-holds="yes"' in done.text
    released = sf.table(str(folder / "release.csv"))
    names = released.values("name").values[0].to_pylist()
    assert len(names) == PEOPLE_ROWS
    assert all(re.fullmatch("[0-9a-f]{32}", name) for name in names)
    assert repeated(tmp_path) == (folder / "release.csv").read_bytes()
    key = folder / "pseudonyms.key"
    assert key.exists() is own
    if own:
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        assert bench.get(f"{opened}/release/files/pseudonyms.key").status == 404
        before, content = (folder / "release.csv").read_bytes(), key.read_bytes()
        bench.follow(bench.post(f"{opened}/release"))
        assert (folder / "release.csv").read_bytes() == before, "the key stays the same"
        assert content.decode().strip() not in done.text


def test_keys_come_from_the_named_folders_alone(
    bench: Running, opened: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (project,) = bench.workbench.projects.values()
    outside = tmp_path_factory.mktemp("elsewhere") / "outside.key"
    write_secret(outside, b"8f14e45fceea167a5a36dedd4bea2543\n")
    (tmp_path / "link.key").symlink_to(outside)
    form = {"k": 5, "method": "mondrian", "pseudonym-0": 1, **ROLES}
    for wrong in (outside, tmp_path / "link.key", tmp_path / "people.csv", "/etc/passwd"):
        assert bench.post(f"{opened}/configure", **form, key=wrong).status == 400
    assert project.choices.key_file == ""
    assert "link.key" not in bench.get(f"{opened}/configure").text
    # A project that was made elsewhere may name any file.
    project.decide(replace(project.choices, key_file=str(outside), pseudonyms=("name",)))
    assert "which is not here" in bench.get(f"{opened}/configure").text
    refused = bench.post(f"{opened}/release")
    assert refused.status == 400
    assert "not in the folders that were opened" in refused.text
    assert not (project.folder / "release.csv").exists()


def test_a_key_that_is_too_short_is_told(bench: Running, opened: str, tmp_path: Path) -> None:
    write_secret(tmp_path / "short.key", b"short")
    form = {"k": 5, "method": "mondrian", "pseudonym-0": 1, "key": tmp_path / "short.key"}
    bench.follow(bench.post(f"{opened}/configure", **form, **ROLES))
    assert "at least 16 are needed" in bench.follow(bench.post(f"{opened}/release")).text


def test_risk_shows_more_demands(bench: Running, opened: str) -> None:
    demand = {"k": 5, "p": 2, "alpha": "0.9", "method": "mondrian", **ROLES}
    bench.follow(bench.post(f"{opened}/configure", **demand))
    page = bench.follow(bench.get(f"{opened}/risk")).text
    for model in ("p-sensitive k-anonymity", "(α,k)-anonymity"):
        assert model in page


def test_what_trees_mean_is_said_beside_the_method(bench: Running, opened: str) -> None:
    (project,) = bench.workbench.projects.values()
    bench.follow(bench.post(f"{opened}/configure", k=5, method="mondrian", **ROLES))
    notes = along(bench.get(f"{opened}/utility").text)
    assert set(notes) == {"full-domain"}
    assert (
        notes["full-domain"]
        == "full-domain climbs trees only: those of age, sex and town are inferred."
    )
    bench.post(f"{opened}/columns/3", do="build", way="order", fanout=2,
               edition=project.decided.edition)  # fmt: skip
    notes = along(bench.get(f"{opened}/utility").text)
    assert set(notes) == {"full-domain", "cells"}
    assert notes["full-domain"].endswith("those of age and sex are inferred.")
    assert "only their limits count" in notes["cells"]


@pytest.mark.parametrize("method", ["mondrian", "lattice", "full-domain", "cells"])
def test_what_cards_say_is_what_a_release_does(bench: Running, opened: str, method: str) -> None:
    """The words about blurring are held against what was done to the columns."""
    (project,) = bench.workbench.projects.values()
    bench.post(f"{opened}/configure", k=5, method=method, **ROLES)
    for made in (False, True):
        if made:
            bench.post(f"{opened}/columns/3", do="build", way="order", fanout=2,
                       edition=project.decided.edition)  # fmt: skip
        said = pages.blurred(project, project.choices)
        assert 'data-holds="yes"' in bench.follow(bench.post(f"{opened}/release")).text
        assert project.made is not None
        release = project.made.release
        for name in ("age", "sex", "town"):
            if method == "cells":
                assert said[name] == "starred"
            elif made and name == "town":
                assert said[name] == "blurred by own tree"
            elif name in release.details.get("inferred_hierarchies", {}):
                assert said[name] == "blurred by inferred tree"
            else:
                assert said[name] == f"blurred in {'ranges' if name == 'age' else 'sets'}"


def along(page: str) -> dict[str, str]:
    """What a page says beside each method."""
    found = re.findall(r'<p class="along" data-when="method=([a-z-]+)">([^<]*)</p>', page)
    return dict(found)


def test_the_hierarchical_distance_takes_the_tree_of_its_column(
    bench: Running, opened: str, tmp_path: Path
) -> None:
    bench.follow(bench.post(f"{opened}/configure", k=3, method="mondrian", **ROLES))
    (project,) = bench.workbench.projects.values()
    form = {"k": 3, "t": 0.5, "t_distance": "hierarchical", "method": "mondrian"}
    refused = bench.follow(bench.post(f"{opened}/utility", **form))
    assert "no tree of its own" in refused.text
    bench.post(f"{opened}/columns/4", do="build", way="flat", edition=project.decided.edition)
    tried = bench.follow(bench.post(f"{opened}/utility", **form))
    assert "t = 0.5 hierarchical" in tried.text
    done = bench.follow(bench.post(f"{opened}/release"))
    assert 'data-holds="yes"' in done.text
    assert (tmp_path / "people.csv.sfumato/release.hierarchies/illness.csv").exists()


def test_weights_decide_where_precision_is_kept(bench: Running, opened: str) -> None:
    (project,) = bench.workbench.projects.values()
    lost = {}
    for weight in ("0.01", "100"):
        form = {"k": 5, "method": "lattice", "weight-1": weight, **ROLES}
        bench.follow(bench.post(f"{opened}/configure", **form))
        bench.follow(bench.post(f"{opened}/utility", k=5, method="lattice"))
        lost[weight] = project.candidates[-1].columns["age"]
    assert lost["100"] < lost["0.01"]


@pytest.mark.parametrize(
    "wrong",
    [{"l": "many"}, {"l": "0"}, {"t": "2"}, {"t": "nan"}, {"c": "-1"}, {"l_kind": "x"},
     {"t_distance": "x"}, {"suppression_limit": "101"}, {"weight-1": "-1"}, {"weight-1": "inf"},
     {"p": "0"}, {"p": "1.5"}, {"p": "x"}, {"alpha": "1.1"}, {"alpha": "nan"}],
)  # fmt: skip
def test_demands_that_make_no_sense_are_refused(
    bench: Running, opened: str, wrong: dict[str, str]
) -> None:
    (project,) = bench.workbench.projects.values()
    before = project.choices
    given = {"k": "5", "method": "mondrian", **ROLES, **wrong}
    assert bench.post(f"{opened}/configure", **given).status == 400
    assert project.choices == before
    assert not project.folder.exists()


def test_several_tables_at_once_do_not_mix(bench: Running, opened: str, tmp_path: Path) -> None:
    (tmp_path / "others.csv").write_text(PEOPLE.replace("town", "city"))
    bench.follow(bench.post("/open", table=str(tmp_path / "others.csv")))
    first, second = bench.workbench.projects.values()
    bench.post(f"/p/{second.number}/configure", k=9, method="lattice", **ROLES)
    assert (first.choices.k, second.choices.k) == (5, 9)
    assert "city" in second.choices.roles
    home = bench.get("/").text
    assert home.count('/configure">') == 2
    # Opening a table that is open leads to where it is.
    again = bench.post("/open", table=str(tmp_path / "others.csv"))
    assert again.place == f"/p/{second.number}/configure"


@pytest.mark.parametrize(
    "damage",
    [
        'k = "five"',
        "k = 5\nmethod = 3",
        "k = 1",
        "roles = 3",
        'k = 5\n[trees.age]\nsaid = "x"',
        "x",
    ],
)
def test_damaged_decisions_are_told(bench: Running, tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "people.csv.sfumato"
    folder.mkdir()
    (folder / "project.toml").write_text(damage)
    page = bench.follow(bench.post("/open", table=str(tmp_path / "people.csv")))
    assert "the saved decisions cannot be read" in page.text
    anew = re.search(r'action="(/p/\w+/anew)"><p><button>Begin anew</button>', page.text)
    assert anew is not None
    page = bench.follow(bench.post(anew[1]))
    assert "What may others know?" in page.text
    assert (folder / "project.damaged.toml").read_text() == damage
    assert "What may others know?" in bench.follow(bench.post(anew[1])).text  # once is enough
    assert (folder / "project.damaged.toml").read_text() == damage


def test_how_a_file_is_read_can_be_said_anew_where_it_is_not_understood(
    bench: Running, tmp_path: Path
) -> None:
    folder = tmp_path / "people.csv.sfumato"
    folder.mkdir()
    (folder / "reading.toml").write_text("header = 3")
    page = bench.follow(bench.post("/open", table=str(tmp_path / "people.csv")))
    assert "what was said about reading the table is not understood" in page.text
    place = re.search(r'action="(/p/\w+/import)"', page.text)
    assert place is not None
    page = bench.follow(bench.post(place[1], text=1, header=1))
    assert "400 rows, 5 columns" in page.text
    assert (folder / "reading.toml").read_text() == ""


PERSONS = {**ROLES, "role-0": "other"}


@pytest.mark.parametrize(
    ("table", "place", "form", "names"),
    [
        ("", "release", {**PERSONS}, ["risk", "configure"]),
        ("", "release", {**ROLES, "l": 2, "role-4": "other"}, ["risk", "configure"]),
        ("", "release", {**ROLES, "p": 9}, ["risk"]),
        ("", "release", {**ROLES, "l": 2.5}, ["risk"]),
        ("", "release", {**ROLES, "k": 900}, []),
        ("", "release", {**ROLES, "l": 3}, []),
        ("town,x\n" + "*,a\nb,a\n" * 9, "release", {"method": "cells"}, ["configure", "utility"]),
        ("a,,b\n1,2,3\n", "import", {}, ["import"]),
        ("a,b\n1,2,3\n", "import", {}, ["import"]),
        ("a,b\n1,\xe9\n", "import", {}, ["import"]),
        ("", "lattice", {**ROLES}, ["utility"]),
        ("", "ask/safe-harbor", {"keep": "town", "drop": "town"}, []),
        ("", "knowledge", {"k_map": 3}, []),
        ("", "columns/0", {}, ["configure"]),
    ],
)
def test_what_to_do_is_on_a_page(
    bench: Running, tmp_path: Path, table: str, place: str, form: dict[str, Any], names: list[str]
) -> None:
    """No remedy is an option of the command line, and those elsewhere are links."""
    if table:
        (tmp_path / "people.csv").write_bytes(table.encode("latin-1"))
    if place == "columns/0":
        rows = "".join(f"{row}-{row},a\n" for row in range(MOST_VALUES + 9))
        (tmp_path / "people.csv").write_text(f"long,x\n{rows}")
    page = bench.follow(bench.post("/open", table=str(tmp_path / "people.csv")))
    (project,) = bench.workbench.projects.values()
    base = f"/p/{project.number}"
    known = {f"role-{at}": "quasi-identifier" for at, _ in enumerate(project.columns)}
    if place in ("release", "lattice"):
        asked = {"k": 5, "method": "mondrian", **(form if "role-0" in form else known), **form}
        bench.post(f"{base}/configure", **asked)
        if place == "lattice":
            bench.post(f"{base}/knowledge", **{"set-0": "age", "set-1": "town"})
        page = bench.follow(bench.post(f"{base}/{place}"))
    elif place == "columns/0":
        page = bench.get(f"{base}/{place}")
    elif place != "import":
        page = bench.follow(bench.post(f"{base}/{place}", **form))
    found = re.search(r'<p class="verdict bad">(.*?)</p>', page.text, re.DOTALL)
    assert found is not None, page.text
    said = html.unescape(found[1])
    for foreign in (" --", "command line", "`sfumato", "<code>sfumato", ".toml", "=[", "\0"):
        assert foreign not in said, said
    assert re.search(r"\. [A-Z“]", re.sub("<[^>]*>", "", said)), said  # what is wrong; what to do
    assert sorted(set(re.findall(rf'href="{base}/(\w+)"', said))) == sorted(names), said


def test_persons_are_counted_where_a_column_says_who_they_are(
    bench: Running, opened: str, tmp_path: Path
) -> None:
    form = {"k": 5, "method": "mondrian", "person": "name"}
    bench.follow(bench.post(f"{opened}/configure", **form, **ROLES))
    page = bench.follow(bench.get(f"{opened}/risk")).text
    assert '<option value="name" selected>persons, by name</option>' in page
    done = bench.follow(bench.post(f"{opened}/release"))
    assert 'data-holds="yes"' in done.text
    assert 'person = "name"' in (tmp_path / "people.csv.sfumato" / "project.toml").read_text()
    asked = json.loads(
        (tmp_path / "people.csv.sfumato" / "release.csv.certificate.json").read_text()
    )
    assert [one.get("person") for one in asked["promises"]] == ["name", None]
    published = {**ROLES, "role-0": "other"}
    refused = bench.follow(bench.post(f"{opened}/configure", **form, **published))
    tried = bench.follow(bench.post(f"{opened}/release"))
    assert "would be published" in refused.text + tried.text


def test_the_first_look_notices_whose_rows_they_are(tmp_path: Path) -> None:
    source = tmp_path / "visits.csv"
    cells = [
        f"P{at // 4:03d},{'FM'[at // 4 % 2]},{1940 + at // 4},{at * 7 % 5}" for at in range(400)
    ]
    source.write_text("patient_id,sex,birth_year,ward\n" + "\n".join(cells) + "\n")
    project = Project(source, sf.table(str(source)))
    project.look(Budget())
    assert project.choices.person == "patient_id"
    assert project.choices.roles["patient_id"] == "identifier"
    assert project.choices.rehearsed().person == "patient_id"
    project.close()


def test_a_figure_that_is_out_of_reach_is_linked_to_its_field(bench: Running, opened: str) -> None:
    demand = {"k": 5, "alpha": "0.01", "method": "mondrian", **ROLES}
    bench.follow(bench.post(f"{opened}/configure", **demand))
    refused = bench.follow(bench.post(f"{opened}/release")).text
    assert re.search(rf'Ask for <a href="{opened}/risk#alpha">α</a> &gt;= 0\.\d+', refused)
    assert 'id="alpha"' in bench.follow(bench.get(f"{opened}/risk")).text


def test_a_k_that_no_release_can_have_is_called_so(bench: Running, tmp_path: Path) -> None:
    bench.follow(bench.post("/open", table=str(tmp_path / "people.csv")))
    (project,) = bench.workbench.projects.values()
    base = f"/p/{project.number}"
    bench.follow(bench.get(f"{base}/risk"))
    assert "No release can have" not in bench.get(f"{base}/risk/figure?k={PEOPLE_ROWS}").text
    figure = bench.get(f"{base}/risk/figure?k=20000").text
    assert "No release can have k = 20,000: the table has 400 rows." in figure
    assert "one over the number alike, is above 1 in 20,000." in figure
    strange = bench.get(f"{base}/nothing")
    assert (strange.status, "There is no such page." in strange.text) == (404, True)


def test_without_anything_known_to_others_pages_say_what_is_missing(
    bench: Running, opened: str
) -> None:
    """Nothing is said to be safe, and what does not need roles can be reached and released."""
    base, others = opened, dict.fromkeys(ROLES, "other")
    answer = bench.post(f"{base}/configure", k=5, method="mondrian", **others)
    assert answer.place == f"{base}/configure"
    page = bench.get(f"{base}/configure").text
    assert "nobody can be found" not in page
    assert "No column is marked as one that others may know" in page
    for step in ("explore", "risk", "utility", "release"):
        answer = bench.get(f"{base}/{step}")
        assert answer.status == 200, step
        assert "No column is marked as one that others may know" in answer.text
        assert "That did not work" not in answer.text
        for place in ("configure", "ask/mask", "ask/safe-harbor"):
            assert f'href="{base}/{place}"' in answer.text, (step, place)
    assert bench.post(f"{base}/release").status == 400
    asked = {"measure": "distinct", "beta": 0.3}
    page = bench.follow(bench.post(f"{base}/ask/mask", **asked)).text
    assert 'id="answer"' in page
    page = bench.follow(bench.post(f"{base}/ask/mask", write=1, **asked)).text
    assert 'data-holds="yes"' in page
    for name in VERBS:
        assert bench.get(f"{base}/ask/{name}").status == 200, name


def test_missing_cells_are_no_value(bench: Running, tmp_path: Path) -> None:
    rows = "".join(f"{at % 3 or ''},,{at}\n" for at in range(60))
    (tmp_path / "gaps.csv").write_text(f"some,none,all\n{rows}")
    page = bench.follow(bench.post("/open", table=str(tmp_path / "gaps.csv"))).text
    for name, said in (("some", "2 values"), ("none", "0 values"), ("all", "60 values")):
        card = page.partition(f"<strong>{name}</strong>")[2]
        assert said in card.partition("</small>")[0], name
    (project,) = bench.workbench.projects.values()
    shown = bench.follow(bench.get(f"/p/{project.number}/configure?view=table")).text
    assert 'data-values="0"' in shown
