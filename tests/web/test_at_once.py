"""Several things at once: pages agree with themselves, and no decision is lost.

Where threads meet is not left to chance: a test stops one of them at the moment that matters.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from sfumato.budget import Budget
from sfumato.errors import BudgetError, ParameterError, SfumatoError, SourceError
from sfumato.report import drawing
from sfumato.web.app import Jobs
from sfumato.web.choices import Choices
from sfumato.web.project import Project
from workbench import PATIENCE, PEOPLE, PEOPLE_ROWS, Running, running

ROLES = {"name": "identifier", "age": "quasi-identifier", "sex": "quasi-identifier",
         "town": "quasi-identifier", "illness": "sensitive"}  # fmt: skip
FORM = {f"role-{at}": role for at, role in enumerate(ROLES.values())}


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    source = tmp_path / "people.csv"
    source.write_text(PEOPLE)
    found = Project(source, sf.table(str(source)))
    found.look(Budget())
    found.decide(replace(found.choices, roles=ROLES))
    yield found
    found.close()


@pytest.fixture
def opened(bench: Running, tmp_path: Path) -> Project:
    bench.follow(bench.post("/open", table=str(tmp_path / "people.csv")))
    (project,) = bench.workbench.projects.values()
    bench.follow(bench.post(f"/p/{project.number}/configure", k=5, method="mondrian", **FORM))
    return project


def before(monkeypatch: pytest.MonkeyPatch, place: str, happens: Callable[[], object]) -> None:
    """Let something happen when a function is called for the first time, just before it runs."""
    home, _, name = place.rpartition(".")
    module = __import__(home, fromlist=[name])
    real, done = getattr(module, name), []

    def late(*arguments: Any, **options: Any) -> Any:
        if not done:
            done.append(True)
            happens()
        return real(*arguments, **options)

    monkeypatch.setattr(module, name, late)


def test_no_change_is_lost(project: Project) -> None:
    """Many change the same decisions, each what is theirs: all of it is there in the end."""
    start = project.decided.edition

    def heavier(_: int) -> None:
        def change(now: Choices) -> Choices:
            weights = {**now.weights, "age": now.weights.get("age", 1) + 1}
            return replace(now, weights=weights)

        project.alter(change)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(heavier, range(40)))
    assert project.choices.weights["age"] == 41
    assert project.decided.edition == start + 40
    for _ in range(40):
        project.undo()
    assert "age" not in project.choices.weights


def test_of_two_pages_that_are_as_old_one_is_heard(project: Project) -> None:
    decided = project.decided
    heard, refused = [], []

    def save(k: int) -> None:
        try:
            heard.append(project.decide(replace(decided.choices, k=k), decided.edition).choices.k)
        except ParameterError:
            refused.append(k)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(save, range(10, 30)))
    assert len(heard) == 1
    assert len(refused) == 19
    assert project.choices.k == heard[0]
    with pytest.raises(ParameterError, match="another page"):
        project.undo(decided.edition)


def test_a_page_shows_decisions_of_one_moment(
    bench: Running, opened: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decision falls while the page is being made: it shows all of it, or nothing."""
    edition = opened.decided.edition
    roles = {**opened.choices.roles, "sex": "other"}
    before(monkeypatch, "sfumato.web.pages.blurred",
           lambda: opened.alter(lambda now: replace(now, k=77, roles=roles)))  # fmt: skip
    page = bench.get(f"/p/{opened.number}/configure").text
    assert f'name="edition" value="{edition}"' in page
    menu = page.partition('aria-label="Role of sex">')[2].partition("</select>")[0]
    assert '<option value="quasi-identifier" selected>' in menu
    assert '<small data-count="quasi-identifier">3</small>' in page
    late = bench.post(f"/p/{opened.number}/configure", k=5, method="mondrian", edition=edition,
                      **{**FORM, "role-1": "other"})  # fmt: skip
    assert late.status == 400
    assert opened.choices.k == 77


def test_an_answer_tells_the_edition_it_is_about(
    bench: Running, opened: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a page would take decisions that it never saw for its own."""
    before(monkeypatch, "sfumato.web.pages.meter",
           lambda: opened.alter(lambda now: replace(now, k=77)))  # fmt: skip
    answer, edition = bench.get(f"/p/{opened.number}/configure/meter"), opened.decided.edition
    assert f'"edition":{edition - 1}' in answer.text


def test_candidates_may_come_while_they_are_shown(
    bench: Running, opened: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    before(monkeypatch, "sfumato.web.outcomes.curve",
           lambda: opened.try_out([opened.choices], Budget()))  # fmt: skip
    page = bench.get(f"/p/{opened.number}/utility")
    assert page.status == 200
    assert "Compared" not in page.text
    assert "Compared" in bench.get(f"/p/{opened.number}/utility").text


def test_a_release_may_be_made_while_its_page_is_drawn(
    bench: Running, opened: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    before(monkeypatch, "sfumato.web.outcomes.page", lambda: opened.release(Budget()))
    page = bench.get(f"/p/{opened.number}/release")
    assert page.status == 200
    assert 'id="verified"' not in page.text
    assert "None" not in page.text
    assert 'id="verified"' in bench.get(f"/p/{opened.number}/release").text


def test_trials_at_once_all_count(project: Project) -> None:
    asked = [replace(project.choices, k=k) for k in range(2, 10)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda choices: project.try_out([choices], Budget()), asked))
    assert {c.choices.k for c in project.candidates} == set(range(2, 10))
    assert len({c.number for c in project.candidates}) == 8


def test_what_is_counted_belongs_to_the_roles_it_was_counted_for(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Roles change while combinations are looked for."""
    first = project.choices
    before(monkeypatch, "sfumato.web.opened.combine",
           lambda: project.decide(replace(first, roles={**ROLES, "age": "other"})))  # fmt: skip
    found = project.explore(first, Budget())
    assert {name for m in found.combinations for name in m.columns} == {"age", "sex", "town"}
    assert project.has_explored(first)
    assert not project.has_explored(project.choices)
    again = project.explore(project.choices, Budget())
    assert {name for m in again.combinations for name in m.columns} == {"sex", "town"}


def test_checks_of_different_columns_do_not_disturb_each_other(project: Project) -> None:
    base = replace(project.choices, l=2)
    fewer = replace(base, roles={**ROLES, "age": "other"})
    alone = {choices.qi: project.check_now(choices) for choices in (base, fewer)}
    told = 0
    with ThreadPoolExecutor(8) as pool:
        for choices, found in pool.map(
            lambda choices: (choices, project.check_now(choices)), [base, fewer] * 40
        ):
            known = alone[choices.qi]
            assert known is not None
            if found is not None:  # else another had the table, and nobody waits for it
                assert (found.k, found.findings) == (known.k, known.findings)
                told += 1
    assert told


def test_class_sizes_are_counted_once(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []
    count = project.table.class_sizes
    monkeypatch.setattr(
        type(project.table), "class_sizes",
        lambda self, names, budget=None: counted.append(names) or count(names, budget),
    )  # fmt: skip
    with project.busy, ThreadPoolExecutor(6) as pool:  # all have to wait, and then find it done
        waiting = [pool.submit(project.alike, project.choices.counted) for _ in range(6)]
        project.busy.release()
        sizes = [one.result() for one in waiting]
        project.busy.acquire()
    assert counted == [project.choices.qi]
    assert len({id(found) for found in sizes}) == 1


def test_a_table_is_opened_once_however_often_it_is_clicked(bench: Running, tmp_path: Path) -> None:
    bench.enter()
    with ThreadPoolExecutor(8) as pool:
        places = {
            bench.follow(answer).status
            for answer in pool.map(
                lambda _: bench.post("/open", table=str(tmp_path / "people.csv")), range(8)
            )
        }
    assert places == {200}
    assert len(bench.workbench.projects) == 1


def test_nothing_is_written_once_a_table_is_closed(project: Project) -> None:
    """Its folder may be gone by then, and must not come back."""
    project.decide(replace(project.choices, k=7))
    folder = project.folder
    waiting = [
        lambda: project.decide(replace(project.choices, k=9)),
        lambda: project.undo(),
        lambda: project.release(Budget()),
        lambda: project.try_out([project.choices], Budget()),
        lambda: project.explore(project.choices, Budget()),
    ]
    project.close()
    for place in folder.iterdir():
        place.unlink()
    folder.rmdir()
    for work in waiting:
        with pytest.raises(SourceError, match="not open any more"):
            work()
    assert not folder.exists()


def test_a_table_can_be_closed_while_its_release_waits(
    bench: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    bench.follow(bench.upload("people.csv", PEOPLE.encode()))
    (project,) = bench.workbench.projects.values()
    base = f"/p/{project.number}"
    bench.follow(bench.post(f"{base}/configure", k=5, method="mondrian", **FORM))
    with ThreadPoolExecutor(1) as pool:
        with project.busy:
            place = bench.post(f"{base}/release").place
            (job,) = bench.workbench.jobs.running()
            closing = pool.submit(bench.post, f"{base}/close")
            until = time.monotonic() + PATIENCE
            while not job.budget.spent():  # by then the table is being closed
                assert time.monotonic() < until
                time.sleep(0.01)
        assert closing.result(PATIENCE).place == "/"
    bench.workbench.jobs.close()
    assert job.state == "cancelled"
    assert "Cancelled." in bench.get(str(place)).text
    assert not project.source.parent.exists()


def test_work_that_was_cancelled_while_it_waited_does_nothing(project: Project) -> None:
    budget = Budget()
    budget.cancel()
    works: list[Callable[[], object]] = [
        lambda: project.look(budget),
        lambda: project.alike(project.choices.counted, budget),
        lambda: project.explore(project.choices, budget),
        lambda: project.try_out([project.choices], budget),
        lambda: project.release(budget),
    ]
    for work in works:
        with pytest.raises(BudgetError):
            work()
    assert not project.folder.exists()
    assert project.candidates == ()


def test_a_release_that_is_refused_leaves_the_one_before_it(project: Project) -> None:
    from sfumato.web.hierarchies import inferred

    trees = {"town": inferred(project.held("town"))}
    project.decide(replace(project.choices, trees=trees))
    project.release(Budget())
    files = [place for place in project.folder.glob("release*") if place.is_file()]
    files += (project.folder / "release.hierarchies").iterdir()
    made = {place: place.read_bytes() for place in files}
    assert any(place.name == "town.csv" for place in made)
    age = {"age": inferred(project.held("age"))}
    project.decide(replace(project.choices, trees=age, k=PEOPLE_ROWS + 1))
    with pytest.raises(SfumatoError, match="larger than the table"):
        project.release(Budget())
    assert {place: place.read_bytes() for place in made} == made
    assert not (project.folder / "release.hierarchies" / "age.csv").exists()
    assert project.made is not None


def test_work_that_is_cancelled_may_end_as_it_likes() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def deaf(budget: Budget) -> None:
        begun.set()
        assert go_on.wait(PATIENCE)
        raise SourceError("this table is not open any more")  # and it never asked whether to stop

    jobs = Jobs(workers=1)
    job = jobs.start("Work", "/there", deaf)
    assert begun.wait(PATIENCE)
    jobs.cancel(job)
    go_on.set()
    jobs.close()
    assert job.state == "cancelled"


def test_work_that_is_being_cancelled_is_begun_anew(bench: Running, opened: Project) -> None:
    place = f"/p/{opened.number}/release"
    with opened.busy:  # work has to wait
        first = bench.post(place).place
        assert bench.post(place).place == first
        bench.post(f"{first}/cancel")
        second = bench.post(place)
        assert second.place != first
    assert 'data-holds="yes"' in bench.follow(second).text


def test_an_end_before_the_beginning_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is told to stop before it has begun to serve."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with running([]) as bench:
        bench.workbench.uploads.place("people.csv").write_bytes(PEOPLE.encode())
    assert list(tmp_path.iterdir()) == []


def test_pages_are_answered_while_charts_are_drawn(
    bench: Running, opened: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What draws them lets no other thread run: it does so in a process of its own."""
    drawing._both.cache_clear()
    monkeypatch.setattr(drawing, "_svg", lambda _: pytest.fail("drawn where pages are answered"))
    page = bench.follow(bench.get(f"/p/{opened.number}/explore"))
    assert page.status == 200
    assert 'class="wide"' in page.text
