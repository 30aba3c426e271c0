"""A person who never saw it: from a table to a verified release by clicking."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

import sfumato as sf
from artefacts import keep
from clicking import Hand, at, entered, kept, look, no_issues
from sfumato.demo import write_people
from sfumato.files import write_secret
from sfumato.web.verbs import VERBS
from workbench import PATIENCE, Running, running

pytestmark = pytest.mark.browser
MISDRAWN = """[...document.querySelectorAll("#answer svg rect[width]")]
    .map((one) => [Number(one.getAttribute("width")), one.getBBox().width])
    .filter(([meant, drawn]) => Math.abs(meant - drawn) > 0.5)"""
"""Bars that the styles of the workbench drew otherwise than they were meant."""


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Running]:
    write_people(tmp_path / "people.csv", rows=2000, seed=3)
    with running([tmp_path]) as found:
        yield found


@pytest.fixture
def board(bench: Running, page: Page, tmp_path: Path) -> Page:
    """The first page of an opened table, in a browser that was let in before."""
    bench.follow(bench.post("/open", table=str(tmp_path / "people.csv")))
    (project,) = bench.workbench.projects.values()
    own = f"http://127.0.0.1:{bench.port}"
    name, _, value = bench.enter().partition("=")
    page.context.add_cookies([{"name": name, "value": value, "url": own}])
    page.goto(f"{own}/p/{project.number}/configure")
    at(page, "What may others know?")
    return page


def test_from_demo_to_verified_release_in_under_ten_clicks(
    bench: Running, page: Page, tmp_path: Path
) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    entered(page, bench.server.guard.link)
    look(page, "home")
    no_issues(page, "home")
    hand = Hand(page)
    hand.click(page.get_by_role("button", name="Try it on them"), "What may others know?")
    look(page, "configure")
    no_issues(page, "configure")
    hand.click(page.get_by_role("button", name="Save and explore"), "Who can be found?")
    look(page, "explore")
    no_issues(page, "explore")
    hand.click(page.get_by_role("link", name="On to the risk"), "How many should look alike?")
    page.locator("#k").fill("20")
    expect(page.locator("#figure")).to_contain_text("fewer than 20 alike")
    page.locator("#k").fill("5")
    expect(page.locator("#figure")).to_contain_text("fewer than 5 alike")
    expect(page.locator("#figure")).not_to_have_class("loading")
    look(page, "risk")
    no_issues(page, "risk")
    hand.click(page.get_by_role("button", name="On to the cost"), "What does it cost?")
    hand.click(page.get_by_role("button", name="Try k from"), "What does it cost?")
    expect(page.locator(".candidates tbody tr")).to_have_count(6)
    assert page.locator(".curve a").count() == 6
    assert page.locator(".curve a.chosen").count() == 1
    look(page, "utility")
    no_issues(page, "utility")
    hand.click(page.get_by_role("link", name="On to the release"), "Release")
    hand.click(page.get_by_role("button", name="Make the release"), "Release")
    expect(page.locator("#verified")).to_have_attribute("data-holds", "yes")
    look(page, "release")
    no_issues(page, "release")
    assert hand.clicks == 7
    with page.expect_download() as download:
        page.get_by_role("link", name="Download release.csv", exact=True).click()
    download.value.save_as(tmp_path / "taken.csv")
    (project,) = bench.workbench.projects.values()
    assert sf.measure(str(tmp_path / "taken.csv"), list(project.choices.qi)).k >= 5
    own = f"http://127.0.0.1:{bench.port}/"
    assert [url for url in asked if not url.startswith(own)] == []


def card_of(page: Page, column: str) -> Locator:
    return page.locator(".card", has=page.locator("strong").get_by_text(column, exact=True))


def lies_in(page: Page, column: str, role: str) -> None:
    """Wait until the card of a column lies in a lane."""
    lane = page.locator(f".lane[data-role={role}]")
    expect(lane.locator(card_of(page, column))).to_have_count(1)


def test_roles_by_drag_menu_and_keyboard(board: Page, bench: Running) -> None:
    (project,) = bench.workbench.projects.values()
    meter = board.locator("#meter")
    before = meter.inner_text()
    lies_in(board, "zip", "quasi-identifier")

    card_of(board, "zip").locator("strong").hover()
    board.mouse.down()
    target = board.locator(".lane[data-role=other]").bounding_box()
    assert target is not None
    board.mouse.move(target["x"] + 60, target["y"] + 80, steps=6)
    expect(board.locator(".lane.over")).to_have_attribute("data-role", "other")
    keep("workbench/dragging.png", board.screenshot)
    board.mouse.up()
    lies_in(board, "zip", "other")
    expect(meter).not_to_have_text(before)
    assert project.choices.roles["zip"] == "other"

    menu = board.get_by_label("Role of sex")
    menu.focus()
    menu.select_option("identifier")
    lies_in(board, "sex", "identifier")
    expect(menu).to_be_focused()
    board.keyboard.press("Alt+ArrowLeft")
    lies_in(board, "sex", "sensitive")
    expect(menu).to_be_focused()
    board.get_by_role("button", name="Undo").click()  # in haste: the page waits
    lies_in(board, "sex", "identifier")
    kept(board, 4)
    board.wait_for_load_state("load")
    board.locator("h1").click()
    board.keyboard.press("Control+z")
    lies_in(board, "sex", "quasi-identifier")
    kept(board, 5)


def test_two_pages_of_one_table_do_not_undo_each_other(board: Page, bench: Running) -> None:
    (project,) = bench.workbench.projects.values()
    other = board.context.new_page()
    other.goto(board.url)
    board.get_by_label("Role of sex").select_option("other")
    expect(board.locator("#undo-button")).to_be_enabled()
    other.get_by_label("Role of zip").select_option("other")
    expect(other.locator("#meter")).to_contain_text("another page")
    other.get_by_role("button", name="Save and explore").click()
    expect(other.locator(".verdict")).to_contain_text("another page")
    assert (project.choices.roles["sex"], project.choices.roles["zip"]) == (
        "other",
        "quasi-identifier",
    )
    other.get_by_role("link", name="Back").click()
    expect(other.locator(".lane[data-role=other]")).to_contain_text("sex")

    # Several changes in haste, and on at once: the page waits for what it is keeping.
    board.get_by_role("spinbutton", name="How much precision of zip matters").fill("9")
    board.get_by_label("Role of language").select_option("other")
    board.get_by_role("button", name="Save and explore").click()
    board.wait_for_url("**/explore")
    assert (project.choices.roles["language"], project.choices.weights["zip"]) == ("other", 9)


def test_a_page_that_is_open_hears_what_happened_elsewhere(board: Page, bench: Running) -> None:
    """Of work that ended and decisions that were made in another tab, and not of its own."""
    (project,) = bench.workbench.projects.values()
    other = board.context.new_page()
    other.goto(f"{board.url.rpartition('/')[0]}/release")
    at(other, "Release")
    news = other.locator("#tray .news")
    board.get_by_label("Role of sex").select_option("other")
    expect(news).to_contain_text("Decisions have changed since this page was loaded.")
    kept(board, 1)
    with board.expect_response("**/jobs?*"), board.expect_response("**/jobs?*"):
        pass
    expect(board.locator("#tray")).to_be_hidden()
    no_issues(other, "news")
    other.get_by_role("link", name="Load this page again").click()
    expect(news.locator("li")).to_have_count(0)
    step = f"/p/{project.number}/risk"
    bench.workbench.jobs.start("Counting", step, lambda budget: None, "people.csv")
    expect(news).to_contain_text("Finished: Counting")
    expect(board.locator("#tray .news")).to_contain_text("What stands here is of before.")


def test_a_count_that_comes_late_does_not_put_the_page_back(
    board: Page, bench: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables that are not counted in a moment: the page goes on, and is told when it is done."""
    (project,) = bench.workbench.projects.values()
    monkeypatch.setattr("sfumato.web.opened.QUICK", 0)
    meter = board.locator("#meter")
    with project.busy:  # counts have to wait
        for edition, column in enumerate(("zip", "sex"), 1):
            board.get_by_label(f"Role of {column}").select_option("other")
            kept(board, edition)
        expect(meter).to_contain_text("not counted yet")
    expect(meter).to_contain_text("By these 9 columns")
    board.get_by_label("Role of language").select_option("other")
    kept(board, 3)
    expect(meter).to_contain_text("By these 8 columns")
    assert project.choices.roles["language"] == "other"


def test_roles_by_finger(board: Page) -> None:
    """A finger drags by the grip, and scrolls elsewhere."""
    page = board
    session = page.context.new_cdp_session(page)

    def touch(kind: str, x: float, y: float) -> None:
        points = [] if kind == "touchEnd" else [{"x": x, "y": y}]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    def drag(start: Locator) -> None:
        at = start.bounding_box()
        to = page.locator(".lane[data-role=other]").bounding_box()
        assert at is not None
        assert to is not None
        touch("touchStart", at["x"] + 4, at["y"] + 8)
        for step in range(1, 6):
            touch("touchMove", at["x"] + (to["x"] + 60 - at["x"]) * step / 5, at["y"] + 8 + step)
        touch("touchEnd", 0, 0)

    drag(card_of(page, "ethnicity").locator("strong"))
    drag(card_of(page, "zip").locator(".grip"))
    lies_in(page, "zip", "other")
    lies_in(page, "ethnicity", "quasi-identifier")


def test_a_tree_by_keyboard_and_pointer(board: Page, bench: Running) -> None:
    (project,) = bench.workbench.projects.values()
    card = card_of(board, "ethnicity")
    card.get_by_role("link", name="blurred in sets").click()
    at(board, "How is ethnicity blurred?")
    keys = board.keyboard
    board.locator("[role=treeitem]").first.focus()
    first, second = (
        board.locator("[role=treeitem]").nth(at).locator(".label").inner_text() for at in (1, 2)
    )
    for key in ("ArrowDown", "Space", "ArrowDown", "Space", "g"):
        keys.press(key)
    expect(board.locator("#tree-label")).to_be_focused()
    keys.type("together")
    keys.press("Enter")
    group = board.locator("[role=treeitem]", has=board.get_by_text("together", exact=True))
    expect(group).to_be_visible()
    outline = project.choices.trees["ethnicity"]
    node = next(at for at, name in outline.names.items() if name == "together")
    assert {outline.label(child) for child in outline.children[node]} == {first, second}

    group.focus()
    keys.press("Space")  # it was picked when it was made
    keys.press("m")
    expect(group.get_by_role("button", name="Limit at together")).to_have_attribute(
        "aria-pressed", "true"
    )
    assert project.choices.trees["ethnicity"].mark_labels == ("together",)
    expect(group).to_be_focused()
    keys.press("ArrowLeft")
    expect(group).to_have_attribute("aria-expanded", "false")
    keys.press("ArrowRight")
    expect(group).to_have_attribute("aria-expanded", "true")
    keys.press("F2")
    expect(board.locator("#tree-label")).to_have_value("together")
    keys.type("named anew")
    keys.press("Enter")
    expect(board.locator(".label", has_text="named anew")).to_be_visible()

    third = board.locator("[role=treeitem][aria-level='2']").last
    label = third.locator(".label").inner_text()
    third.locator(".label").drag_to(board.locator(f"#n{node} .label"))
    expect(board.locator("[role=treeitem][aria-level='3']")).to_have_count(3)
    outline = project.choices.trees["ethnicity"]
    assert label in {outline.label(child) for child in outline.children[node]}
    look(board, "tree")
    no_issues(board, "tree")

    board.locator(f"#n{node}").focus()
    keys.press("Control+z")
    expect(board.locator("[role=treeitem][aria-level='3']")).to_have_count(2)
    board.locator(f"#n{node}").focus()
    keys.press("Delete")
    expect(board.locator("[role=treeitem][aria-level='3']")).to_have_count(0)
    board.get_by_role("button", name="Undo").click()
    expect(board.locator("[role=treeitem][aria-level='3']")).to_have_count(2)
    look(board, "tree-ways")
    board.get_by_role("link", name="Done").click()
    expect(card).to_contain_text("own tree, 1 limit")


def test_a_tree_and_a_table_from_files(bench: Running, page: Page, tmp_path: Path) -> None:
    entered(page, bench.server.guard.link)
    at(page, "Which table?")
    page.wait_for_load_state()  # the link's page leads on to this one
    page.locator("#upload input").set_input_files(
        {"name": "towns.csv", "mimeType": "text/csv",
         "buffer": b"town,age\n" + b"Aton,20\nBerg,30\nCove,40\n" * 40}
    )  # fmt: skip
    at(page, "What may others know?")
    page.get_by_label("Role of town").select_option("quasi-identifier")
    card_of(page, "town").get_by_role("link").click()  # in haste: the page waits
    at(page, "How is town blurred?")
    (project,) = bench.workbench.projects.values()
    assert project.choices.roles["town"] == "quasi-identifier"
    page.locator("#tree-file").set_input_files(
        {
            "name": "town.csv",
            "mimeType": "text/csv",
            "buffer": b"Aton;A-B;*\nBerg;A-B;*\nCove;C;*\n",
        }
    )
    expect(page.locator("textarea[name=text]")).to_have_value("Aton;A-B;*\nBerg;A-B;*\nCove;C;*\n")
    page.get_by_role("button", name="Read it").click()
    expect(page.locator(".origin")).to_contain_text("read from town.csv")
    expect(page.locator(".label", has_text="A-B")).to_be_visible()


def test_settings_depend_on_each_other_and_candidates_can_be_chosen(
    board: Page, bench: Running
) -> None:
    (project,) = bench.workbench.projects.values()
    board.get_by_role("link", name="Risk").click()
    at(board, "How many should look alike?")
    board.get_by_label("Different values, at least").fill("3")
    board.get_by_role("button", name="On to the cost").click()
    at(board, "What does it cost?")
    assert project.choices.l == 3
    limit = board.get_by_label("Rows that may be left out")
    expect(limit).to_be_hidden()
    method(board, "full-domain").check()
    expect(limit).to_be_visible()
    method(board, "full-domain").uncheck()
    expect(limit).to_be_hidden()
    board.get_by_role("button", name="Try it").click()
    expect(board.locator("tr.chosen")).to_contain_text("mondrian, k = 5, l = 3")
    board.get_by_role("link", name="change").click()
    at(board, "How many should look alike?")
    board.locator("#k").fill("8")
    board.get_by_label("Different values, at least").fill("")
    board.get_by_role("link", name="Utility").click()  # in haste: the page waits
    at(board, "What does it cost?")
    board.get_by_role("button", name="Try it").click()
    expect(board.locator("tr.chosen")).to_contain_text("mondrian, k = 8")
    assert project.choices.l is None
    board.get_by_role("button", name="Use mondrian, k = 5, l = 3").click()
    expect(board.locator("tr.chosen")).to_contain_text("mondrian, k = 5, l = 3")
    assert (project.choices.k, project.choices.l) == (5, 3)
    expect(board.get_by_role("link", name="On to the release")).to_contain_text("k = 5, l = 3")


def method(page: Page, name: str) -> Locator:
    """The tick of a method."""
    return page.locator(f"[name=method][value={name}]")


def test_more_demands_and_pseudonyms(board: Page, bench: Running, tmp_path: Path) -> None:
    (project,) = bench.workbench.projects.values()
    write_secret(tmp_path / "hospital.key", b"8f14e45fceea167a5a36dedd4bea2543\n")
    board.reload()
    card_of(board, "patient_id").get_by_label("pseudonym").check()
    board.get_by_text("The key of pseudonyms").click()
    board.get_by_label("made with the key").select_option(label=f"hospital.key in {tmp_path.name}")
    kept(board, 2)
    look(board, "pseudonyms")
    no_issues(board, "pseudonyms")
    board.get_by_role("link", name="Risk").click()
    at(board, "How many should look alike?")
    expect(board.get_by_label("Values worth hiding, at least")).to_be_hidden()
    board.get_by_text("More demands").click()
    board.get_by_label("Values worth hiding, at least").fill("2")
    board.get_by_label("Share of one value, at most").fill("0.8")
    board.get_by_label("Share of one value, at most").press("Tab")
    expect(board.locator("#figure")).to_contain_text("What must hold")
    look(board, "demands")
    no_issues(board, "demands")
    board.get_by_role("button", name="On to the cost").click()
    at(board, "What does it cost?")
    choices = project.choices
    assert (choices.p, choices.alpha, choices.replaced) == (2, 0.8, ("patient_id",))
    assert choices.key_file == str(tmp_path / "hospital.key")
    board.get_by_role("link", name="Release", exact=True).click()
    board.get_by_role("button", name="Make the release").click()
    expect(board.locator("#verified")).to_have_attribute("data-holds", "yes")
    folder = tmp_path / "people.csv.sfumato"
    again = sf.anonymize(
        str(tmp_path / "people.csv"), config=folder / "release.toml", output=tmp_path / "again.csv"
    )
    assert again.verified
    assert (tmp_path / "again.csv").read_bytes() == (folder / "release.csv").read_bytes()


def test_what_a_tree_means_for_the_others_is_told_at_once(board: Page) -> None:
    note = board.locator(".along:visible")
    steps = board.get_by_role("navigation")

    def told(column: str, words: str | re.Pattern[str]) -> None:
        link = card_of(board, column).get_by_role("link").locator("span:visible").first
        expect(link).to_have_text(words, use_inner_text=True)

    def go(step: str, heading: str) -> None:
        steps.get_by_role("link", name=step).click()
        at(board, heading)

    def choose(name: str) -> None:
        """Try one method, which is then the chosen one, and go back to the cards."""
        go("Utility", "What does it cost?")
        board.locator("[name=method]:checked").uncheck()
        method(board, name).check()

    told("zip", "blurred in sets")
    choose("full-domain")
    expect(note).to_contain_text("full-domain climbs trees only")
    board.get_by_role("button", name="Try it").click()
    expect(board.locator("tr.chosen")).to_contain_text("full-domain")
    go("Configure", "What may others know?")
    told("zip", "blurred by inferred tree")
    choose("mondrian")
    expect(note).to_have_count(0)
    board.get_by_role("button", name="Try it").click()
    expect(board.locator("tr.chosen")).to_contain_text("mondrian")
    go("Configure", "What may others know?")
    card_of(board, "ethnicity").get_by_role("link").click()
    at(board, "How is ethnicity blurred?")
    expect(board.locator(".origin")).to_contain_text("mondrian makes sets of values")
    board.get_by_role("button", name="Limit at").first.click()
    expect(board.locator(".origin")).to_contain_text("Its own tree")
    board.get_by_role("link", name="Done").click()
    at(board, "What may others know?")
    told("ethnicity", re.compile("^blurred by own tree"))
    told("zip", "blurred in sets")
    look(board, "mixed-trees")
    no_issues(board, "mixed-trees")
    choose("cells")
    expect(note).to_contain_text("cells stars values")


def test_changes_in_haste_come_one_after_the_other(board: Page, bench: Running) -> None:
    """Keys are faster than answers: every change is about the tree that the one before left."""
    (project,) = bench.workbench.projects.values()
    card_of(board, "ethnicity").get_by_role("link").click()
    at(board, "How is ethnicity blurred?")
    items = board.locator("[role=treeitem]")
    items.nth(1).focus()
    with project._changing:  # answers have to wait
        board.keyboard.press("m")
        board.keyboard.press("ArrowDown")
        board.keyboard.press("m")
        board.keyboard.press("ArrowDown")
        board.keyboard.press("m")
    expect(board.locator(".line.marked")).to_have_count(3)
    assert len(project.choices.trees["ethnicity"].marks) == 3
    assert board.locator("#tree-problem").inner_text() == ""


def test_everything_but_uploads_works_without_scripts(bench: Running, chromium: Browser) -> None:
    context = chromium.new_context(java_script_enabled=False)
    context.set_default_timeout(PATIENCE * 1000)
    try:
        page = context.new_page()
        entered(page, bench.server.guard.link)
        page.get_by_role("button", name="Open people.csv").click()
        at(page, "What may others know?")
        page.get_by_label("Role of doctor").select_option("other")
        page.get_by_role("button", name="Save and explore").click()
        at(page, "Who can be found?")
        (project,) = bench.workbench.projects.values()
        assert project.choices.roles["doctor"] == "other"
        page.get_by_role("link", name="Configure").click()
        card_of(page, "ethnicity").get_by_role("link").click()
        page.get_by_label("Pick Asian").check()
        page.get_by_label("Pick Black").check()
        page.get_by_label("Name", exact=True).fill("together")
        page.get_by_role("button", name="Group", exact=True).click()
        limit = page.get_by_role("button", name="Limit at together")
        limit.click()
        expect(limit).to_have_attribute("aria-pressed", "true")
        assert project.choices.trees["ethnicity"].mark_labels == ("together",)
        page.get_by_role("button", name="Close together").click()
        expect(page.get_by_label("Pick Asian")).to_have_count(0)
        page.get_by_role("button", name="Undo").click()
        expect(limit).to_have_attribute("aria-pressed", "false")
        assert project.choices.trees["ethnicity"].marks == frozenset()
        page.get_by_role("link", name="Release").click()
        page.get_by_role("button", name="Make the release").click()
        expect(page.locator("#verified")).to_have_attribute("data-holds", "yes")
    finally:
        context.close()


@pytest.mark.parametrize("first", range(4))
def test_other_verbs_are_asked_where_they_belong(bench: Running, board: Page, first: int) -> None:
    """Each from its step, by clicking; nothing sticks out, and nothing is hard to read."""
    (project,) = bench.workbench.projects.values()
    few = ("sex", "zip", "marital_status", "language")  # of which a lattice can be drawn
    roles = {
        name: "other" if role == "quasi-identifier" and name not in few else role
        for name, role in project.choices.roles.items()
    }
    project.decide(replace(project.choices, roles=roles, person=""))
    page, hand = board, Hand(board)
    page.get_by_role("link", name="Release", exact=True).click()
    hand.click(page.get_by_role("button", name="Make the release"), "Release")
    page.get_by_role("link", name="Utility", exact=True).click()
    page.get_by_role("link", name="The lattice of levels").click()
    hand.click(page.get_by_role("button", name="Look at the lattice"), "The lattice of levels")
    expect(page.locator("#node .verdict")).to_contain_text("holds")
    look(page, "lattice")
    no_issues(page, "lattice")
    for name, verb in list(VERBS.items())[first::4]:
        page.get_by_role("link", name=verb.step.capitalize(), exact=True).click()
        page.get_by_role("link", name=verb.title).click()
        at(page, verb.title)
        if name == "safe-harbor":
            page.locator("[name=keep][value=doctor]").check()
        for box in page.locator("[name=columns]").all() if name == "violations" else ():
            box.check()  # more than a lattice is drawn of
        page.get_by_role("button", name="See what would be" if verb.writes else "Ask").click()
        expect(page.locator("#answer .verdict").first).to_be_visible()
        at(page, verb.title)  # with its styles, before it is measured
        assert page.evaluate(MISDRAWN) == [], name
        look(page, f"ask-{name}")
        no_issues(page, f"ask-{name}")


def test_what_is_no_k_is_said_and_not_kept(board: Page, bench: Running) -> None:
    (project,) = bench.workbench.projects.values()
    was = project.choices.k
    board.goto(board.url.replace("/configure", "/risk"))
    at(board, "How many should look alike?")
    field, meter = board.locator("#k"), board.locator("#meter")
    for wrong in ("2.5", "0", "-3", ""):
        field.fill(wrong)
        field.blur()
        expect(meter).to_contain_text("k must be a whole number from 2 to")
        expect(meter).to_contain_text(f"k stays {was}.")
        expect(field).to_have_value(str(was))
    field.fill("7")
    field.blur()
    expect(meter).to_contain_text("By these")
    assert project.choices.k == 7
    for named in ("Persons", "Rows"):  # what is counted is called so at once
        chosen = "" if named == "Rows" else "patient_id"
        board.get_by_label("counted in").select_option(chosen)
        expect(board.locator("label[for=k]")).to_contain_text(f"{named} alike, at least")


def uploaded(page: Page, content: bytes) -> None:
    """Open a table as who drops it on the first page."""
    file = {"name": "mine.csv", "mimeType": "text/csv", "buffer": content}
    page.locator("#upload input").set_input_files(file)  # type: ignore[arg-type]
    at(page, "What may others know?")


def test_an_uploaded_table_is_removed_by_who_says_so_twice(bench: Running, page: Page) -> None:
    entered(page, bench.server.guard.link)
    content = b"age,sex\n" + b"30,F\n31,M\n" * 20
    uploaded(page, content)
    (project,) = bench.workbench.projects.values()
    page.goto(page.url.partition("/p/")[0])
    expect(page.get_by_role("button", name="Remove mine.csv")).to_be_hidden()
    page.get_by_text("Close mine.csv").click()
    expect(page.get_by_text("removes it with its releases, for good")).to_be_visible()
    assert project.source.is_file()
    no_issues(page, "closing")
    page.get_by_role("button", name="Remove mine.csv").click()
    expect(page.get_by_text("Close mine.csv")).to_have_count(0)
    assert not project.source.exists()


def test_what_columns_look_like_is_in_view_on_a_small_screen(bench: Running, page: Page) -> None:
    lines = b"".join(b"%d,%s\n" % (n % 60, b"N" if n % 4 == 0 else b"%d" % n) for n in range(200))
    entered(page, bench.server.guard.link)
    page.set_viewport_size({"width": 400, "height": 900})
    uploaded(page, b"age,income\n" + lines)
    page.goto(page.url.replace("/configure", "/import"))
    told = page.get_by_text("150 of 200 cells are numbers")
    menu = page.get_by_label("Read income as")
    for part in (told, menu):
        box = part.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 400
    no_issues(page, "import, small")
