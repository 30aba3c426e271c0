"""How many clicks and keys things take, and that nothing sticks out, is lost, or leads nowhere."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from clicking import Hand, at, entered, look, no_issues
from sfumato.budget import Budget
from sfumato.web.pages import meter
from sfumato.web.project import Project
from workbench import PATIENCE, PEOPLE, Running, running

LONG = [f"a_name_of_a_column_that_goes_on_and_on_until_nobody_reads_it_any_more_{at:03}" * 2
        for at in range(6)]  # fmt: skip


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Running]:
    (tmp_path / "people.csv").write_text(PEOPLE)
    cells = [",".join(str(row * 7 % (3 + at)) for at in range(6)) for row in range(200)]
    (tmp_path / "long.csv").write_text(",".join(LONG) + "\n" + "\n".join(cells) + "\n")
    for number in range(14):
        (tmp_path / f"study-{number:02}.csv").write_text(PEOPLE)
    with running([tmp_path]) as found:
        yield found


@pytest.mark.browser
def test_a_release_takes_three_clicks_and_yesterdays_one(bench: Running, page: Page) -> None:
    entered(page, bench.server.guard.link)
    at(page, "Which table?")
    hand = Hand(page)
    hand.click(page.get_by_role("button", name="Open people.csv"), "What may others know?")
    hand.click(page.get_by_role("link", name="Release", exact=True), "Release")
    hand.click(page.get_by_role("button", name="Make the release"), "Release")
    expect(page.locator("#verified")).to_have_attribute("data-holds", "yes")
    assert hand.clicks <= 4
    page.get_by_role("link", name="Sfumato").click()
    page.get_by_role("button", name="Close people.csv").click()
    expect(page.get_by_text("1 release, the last written on")).to_be_visible()
    look(page, "home-later")
    no_issues(page, "home-later")
    again = Hand(page)
    again.click(page.get_by_role("button", name="Last release of people.csv"), "Release")
    expect(page.locator("#verified")).to_have_attribute("data-holds", "yes")
    assert again.clicks <= 2


@pytest.mark.browser
def test_three_methods_are_compared_and_one_is_chosen_in_six_clicks(
    bench: Running, page: Page
) -> None:
    entered(page, bench.server.guard.link)
    at(page, "Which table?")
    hand = Hand(page)
    hand.click(page.get_by_role("button", name="Open people.csv"), "What may others know?")
    hand.click(page.get_by_role("link", name="Utility"), "What does it cost?")
    for method in ("lattice", "kmember"):
        hand.click(page.locator(f"[name=method][value={method}]"), "What does it cost?")
    hand.click(page.get_by_role("button", name="Try it"), "What does it cost?")
    expect(page.locator(".candidates tbody tr")).to_have_count(3)
    page.set_viewport_size({"width": 400, "height": 900})
    use = page.get_by_role("button", name="Use lattice")
    use.scroll_into_view_if_needed()
    box = use.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 400, "in sight on a telephone, without scrolling sideways"
    hand.click(use, "What does it cost?")
    expect(page.locator("tr.chosen")).to_contain_text("lattice")
    assert hand.clicks == 6
    (project,) = bench.workbench.projects.values()
    assert project.choices.method == "lattice"


@pytest.mark.browser
def test_k_is_a_few_keys_away(bench: Running, page: Page) -> None:
    entered(page, bench.server.guard.link)
    page.get_by_role("button", name="Open people.csv").click()
    at(page, "What may others know?")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip the columns")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")  # past nothing: there is nothing to undo
    expect(page.get_by_role("button", name="Save and explore")).to_be_focused()
    page.get_by_role("link", name="Risk").click()
    at(page, "How many should look alike?")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.locator("#k")).to_be_focused()
    assert page.locator("[name=k]").count() == 1
    for step in ("configure", "utility", "release"):
        page.goto(page.url.rsplit("/", 1)[0] + f"/{step}")
        expect(page.locator("[name=k]")).to_have_count(0)  # it is set in one place


@pytest.mark.browser
def test_long_names_stay_in_the_window(bench: Running, page: Page) -> None:
    entered(page, bench.server.guard.link)
    page.get_by_role("button", name="Open long.csv").click()
    at(page, "What may others know?")
    base = page.url.rsplit("/", 1)[0]
    for number, role in enumerate(["quasi-identifier"] * 3 + ["sensitive"] + ["other"] * 2):
        page.locator(f"[name=role-{number}]").select_option(role)
    look(page, "long-configure")
    for step in ("configure?view=table", "import", "explore", "risk", "utility", "columns/0"):
        page.goto(f"{base}/{step}")
        page.wait_for_selector("main:not(:has(#job))")
        look(page, f"long-{step.partition('?')[0].replace('/', '-')}")
    page.goto(f"{base}/release")
    page.get_by_role("button", name="Make the release").click()
    page.wait_for_selector("#verified")
    look(page, "long-release")


@pytest.mark.browser
def test_the_lattice_shows_what_is_chosen_on_a_telephone(bench: Running, page: Page) -> None:
    entered(page, bench.server.guard.link)
    page.get_by_role("button", name="Try it on them").click()
    at(page, "What may others know?")
    (project,) = bench.workbench.projects.values()
    known = ("sex", "zip", "ethnicity", "marital_status")
    roles = {
        name: "other" if role == "quasi-identifier" and name not in known else role
        for name, role in project.choices.roles.items()
    }
    project.decide(replace(project.choices, roles=roles, person=""))
    page.set_viewport_size({"width": 400, "height": 900})
    page.goto(page.url.replace("/configure", "/lattice"))
    page.get_by_role("button", name="Look at the lattice").click()
    page.wait_for_selector(".levels .chosen")
    assert page.evaluate("document.querySelector('.levels').clientWidth") > 500
    right = "(node) => node.getBoundingClientRect().right"
    for better in ("<", ">"):  # the node at either end
        href = page.evaluate(
            f"[...document.querySelectorAll('.levels a')].reduce((one, other) => "
            f"({right})(one) {better} ({right})(other) ? one : other).getAttribute('href')"
        )
        page.goto(f"http://127.0.0.1:{bench.port}{href}")
        page.wait_for_load_state("load")
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        box = page.locator(".levels .chosen").bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 400


def test_errors_and_work_keep_the_way_back(bench: Running, tmp_path: Path) -> None:
    bench.follow(bench.post("/open", table=str(tmp_path / "people.csv")))
    (project,) = bench.workbench.projects.values()
    base = f"/p/{project.number}"
    steps = f'<a href="{base}/utility"'
    for place in (f"{base}/nowhere", f"{base}/release/files/none", f"{base}/columns/99"):
        answer = bench.get(place)
        assert answer.status == 404
        assert steps in answer.text, place
    with project.busy:
        job = bench.post(f"{base}/utility", method="mondrian")
        assert steps in bench.get(str(job.place)).text
    bench.follow(job)
    failed = bench.follow(bench.post(f"{base}/utility", k=401, method="mondrian"))
    assert "verdict bad" in failed.text
    assert steps in failed.text


def test_home_offers_tables_quietly(bench: Running) -> None:
    home = bench.get("/").text
    assert home.count("<button") == 17  # sixteen tables, and the made-up patients
    assert len(re.findall(r'<button(?! class="(?:plain|quiet))', home)) == 0
    assert home.count("<p>/") == 1, "the folder is named once"


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ("age\n1\n2\n2\n", "By this column 1 of 3 rows stands alone."),
        ("age\n1\n1\n2\n2\n", "By this column everybody has at least 1 other like them."),
        ("age,sex\n1,F\n2,F\n2,F\n", "By these 2 columns 1 of 3 rows stands alone."),
    ],
)
def test_one_is_one(tmp_path: Path, cells: str, said: str) -> None:
    source = tmp_path / "few.csv"
    source.write_text(cells)
    project = Project(source)
    project.look(Budget())
    roles = dict.fromkeys(project.choices.roles, "quasi-identifier")
    choices = project.choices.asking(k=2, roles=roles, person="")
    assert meter(project, choices)[0] == said
    project.close()


@pytest.mark.browser
def test_another_browser_gets_in_by_a_fresh_link(bench: Running, chromium: Browser) -> None:
    guard = bench.server.guard
    first, other = (chromium.new_context() for _ in range(2))
    try:
        page = first.new_page()
        entered(page, guard.link)
        at(page, "Which table?")
        stranger = other.new_page()
        answer = stranger.goto(f"http://127.0.0.1:{bench.port}/")
        assert answer is not None
        assert answer.status == 403
        expect(stranger.locator("h1")).to_have_text("This browser is not let in yet")
        expect(stranger.locator("p")).to_contain_text("sfumato serve")
        link = guard.renew()
        stranger.goto(link)
        at(stranger, "Which table?")
        page.reload()
        at(page, "Which table?")  # who was in stays in
        third = chromium.new_context()
        assert third.new_page().goto(link).status == 403  # type: ignore[union-attr]
        third.close()
    finally:
        first.close()
        other.close()


def test_enter_in_the_terminal_prints_a_fresh_link(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "sfumato", "serve", str(tmp_path), "--no-browser"]
    program = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True)
    os.close(theirs)
    try:
        told = _until(ours, r"Ctrl-C ends it", "")
        assert "Enter prints a fresh link" in told
        os.write(ours, b"\n")
        told = _until(ours, r"(?s)token=.*token=\S+\s", told)
        first, second = re.findall(r"token=(\S+)", told)[:2]
        assert first != second
    finally:
        program.terminate()
        program.wait(PATIENCE)
        os.close(ours)


def _until(terminal: int, pattern: str, told: str) -> str:
    """What a terminal shows until a pattern is found."""
    until = time.monotonic() + PATIENCE
    while not re.search(pattern, told):
        assert time.monotonic() < until, told
        if select.select([terminal], [], [], 1)[0]:
            told += os.read(terminal, 4096).decode()
    return told


@pytest.mark.browser
def test_who_clicks_twice_asks_once_and_the_way_back_works(bench: Running, page: Page) -> None:
    def titles() -> list[str]:
        return [job.title for job in bench.workbench.jobs._jobs.values()]

    posts: list[str] = []
    page.on("request", lambda one: posts.append(one.url) if one.method == "POST" else None)

    def twice(name: str, then: str) -> None:
        posts.clear()
        page.get_by_role("button", name=name, exact=True).first.dblclick()
        at(page, then)
        page.wait_for_selector("main:not(:has(#job))")
        assert len(posts) == 1, posts

    entered(page, bench.server.guard.link)
    twice("Try it on them", "What may others know?")
    page.goto(f"http://127.0.0.1:{bench.port}/")
    twice("Open people.csv", "What may others know?")
    assert len(bench.workbench.projects) == 2
    (project,) = (p for p in bench.workbench.projects.values() if p.source.name == "people.csv")
    base = page.url.rsplit("/", 1)[0]
    twice("Save and explore", "Who can be found?")
    page.goto(f"{base}/utility")
    twice("Try it", "What does it cost?")
    expect(page.locator(".candidates tbody tr")).to_have_count(1)
    page.goto(f"{base}/release")
    twice("Make the release", "Release")
    expect(page.locator("#verified")).to_have_attribute("data-holds", "yes")
    assert [one.name for one in project.versions()] == ["release"]
    page.goto(f"{base}/ask/mask")
    twice("See what would be", "Publish fewer columns")
    twice("Make this release", "Release")
    expect(page.locator("#verified")).to_have_attribute("data-holds", "yes")
    assert [one.name for one in project.versions()] == ["release-2", "release"]
    page.goto(f"{base}/lattice")
    twice("Look at the lattice", "The lattice of levels")
    page.go_back()  # to where it was asked from, and not into the work that is over
    at(page, "The lattice of levels")
    page.goto(f"{base}/utility")
    page.get_by_role("button", name="Try it", exact=True).click()
    expect(page.locator(".candidates tbody tr")).to_have_count(1)
    page.go_back()
    page.wait_for_load_state("load")
    page.goto(f"{base}/utility")
    page.get_by_role("button", name="Try it", exact=True).click()  # a form that came back is sent
    expect(page.locator(".candidates tbody tr")).to_have_count(1)
    found = titles()
    for title in ("Trying mondrian with k = 5", "Making the release: mondrian with k = 5"):
        assert found.count(title) == (3 if title.startswith("Trying") else 1), found
    assert sum("Publish fewer columns" in title for title in found) == 2


@pytest.mark.browser
def test_values_that_are_rare_are_said_to_everybody(bench: Running, page: Page) -> None:
    """Of a tree of which hardly any value may be shown nothing is drawn that no reader tells."""
    rows = "".join(
        f"{1900 + at % 90}-0{1 + at % 9}-1{at % 9},{'FM'[at % 2]}\n" for at in range(300)
    )
    (bench.workbench.shelf.tables()[0].parent / "rare.csv").write_text("born,sex\n" + rows)
    entered(page, bench.server.guard.link)
    page.get_by_role("button", name="Open rare.csv").click()
    at(page, "What may others know?")
    page.goto(page.url.rsplit("/", 1)[0] + "/columns/0")
    expect(page.get_by_text("that fewer than ten rows hold").first).to_be_visible()
    look(page, "tree-rare")
    no_issues(page, "tree-rare")
