"""Tables of many columns: few clicks, few keys, and nothing wider than the window."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from clicking import Hand, at, entered, kept, look, no_issues
from workbench import Running, running

pytestmark = pytest.mark.browser

WANTED = ("age", "sex", "town", "job", "school", "income", "children", "car", "language", "rent")
MOST_CLICKS = 15


def write_wide(place: Path, columns: int, rows: int = 120) -> list[str]:
    """A survey in which ten columns matter and the others are answers to questions."""
    drawn = random.Random(0)
    names = [*WANTED, *(f"question_{at:03}" for at in range(columns - len(WANTED)))]
    drawn.shuffle(names)
    lines = [",".join(str(drawn.randrange(9)) for _ in names) for _ in range(rows)]
    place.write_text(",".join(names) + "\n" + "\n".join(lines) + "\n")
    return names


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Running]:
    write_wide(tmp_path / "wide.csv", 86)
    write_wide(tmp_path / "wider.csv", 300)
    with running([tmp_path]) as found:
        yield found


def opened(bench: Running, page: Page, table: str) -> None:
    entered(page, bench.server.guard.link)
    page.get_by_role("button", name=f"Open {table}", exact=True).click()
    at(page, "What may others know?")


def tick(page: Page, column: str) -> Locator:
    return page.get_by_label(f"Tick {column}", exact=True)


def test_ten_of_86_columns_are_kept_in_few_clicks(bench: Running, page: Page) -> None:
    """No typing at all: the first sort brings nothing, so that every column is looked up."""
    opened(bench, page, "wide.csv")
    (project,) = bench.workbench.projects.values()
    clicks = 0
    for column in WANTED:
        tick(page, column).click()
        clicks += 1
    expect(page.locator("#picked")).to_have_text("The 10 ticked")
    page.locator("[name=bulk][value=quasi-identifier]").click()
    page.locator("[name=rest][value=identifier]").click()
    hand = Hand(page)
    hand.click(page.get_by_role("button", name="Save and explore"), "Who can be found?")
    clicks += 2 + hand.clicks
    assert clicks == 13 <= MOST_CLICKS
    assert set(project.choices.qi) == set(WANTED)
    assert len(project.choices.with_role("identifier")) == 76
    page.get_by_role("link", name="Configure").click()
    at(page, "What may others know?")
    expect(page.locator("[data-count=identifier]")).to_have_text("76")
    expect(page.locator("[data-count=quasi-identifier]")).to_have_text("10")
    look(page, "wide-table")
    no_issues(page, "wide-table")
    page.get_by_role("button", name="Undo").click()  # what was done together is undone together
    expect(page.locator("[data-count=identifier]")).not_to_have_text("76")
    assert set(WANTED) <= set(project.choices.qi)


def test_the_same_by_keyboard_alone(bench: Running, page: Page) -> None:
    opened(bench, page, "wide.csv")
    (project,) = bench.workbench.projects.values()
    keys = page.keyboard
    page.locator("#search").focus()
    for column in WANTED[:3]:
        keys.type(column)  # what was found is selected, and written over
        keys.press("Enter")
        expect(tick(page, column)).to_be_checked()
    keys.press("Tab")
    keys.press("Tab")
    expect(page.locator("[name=bulk][value=sensitive]")).to_be_focused()
    keys.press("Enter")
    kept(page, 1)
    assert {*WANTED[:3]} <= set(project.choices.with_role("sensitive"))
    page.locator("[name=rest][value=other]").press("Enter")
    kept(page, 2)
    assert len(project.choices.with_role("other")) == 83

    page.locator("#search").fill("question_00")
    expect(page.locator(".columns tbody tr:visible")).to_have_count(10)
    page.locator("#all").focus()
    stops = 0
    while not page.evaluate("document.activeElement.name === 'pick'"):
        keys.press("Tab")
        stops += 1
    assert stops <= 8, "past the heads of the columns"
    keys.press("Space")
    keys.press("ArrowDown")
    keys.press("ArrowDown")
    keys.press("Space")
    expect(page.locator("[name=pick]:checked")).to_have_count(5)
    for _ in range(6):  # the other rows are no stops on the way
        keys.press("Tab")
    assert not page.evaluate("document.activeElement.closest('.columns') !== null")


def test_columns_are_sorted_and_ticked_in_a_row(bench: Running, page: Page) -> None:
    opened(bench, page, "wide.csv")
    names = page.locator(".columns tbody th")
    heads = page.locator(".columns thead")
    as_they_come = names.all_inner_texts()
    heads.get_by_role("link", name="column").click()
    expect(heads.locator("[aria-sort]")).to_have_attribute("aria-sort", "ascending")
    assert names.all_inner_texts() == sorted(as_they_come)
    heads.get_by_role("link", name="column").click()
    assert names.all_inner_texts() == sorted(as_they_come, reverse=True)
    heads.get_by_role("link", name="values").click()
    expect(heads.locator("[aria-sort]")).to_have_attribute("aria-sort", "descending")
    values = [
        int(text) for text in page.locator(".columns td.number:nth-child(5)").all_inner_texts()
    ]
    assert values == sorted(values, reverse=True)
    boxes = page.locator("[name=pick]")
    boxes.nth(2).click()
    boxes.nth(6).click(modifiers=["Shift"])
    expect(page.locator("[name=pick]:checked")).to_have_count(5)
    page.locator("#all").check()
    expect(page.locator("#picked")).to_have_text("The 86 ticked")


def test_300_columns_fit_and_follow(bench: Running, page: Page) -> None:
    opened(bench, page, "wider.csv")
    (project,) = bench.workbench.projects.values()
    look(page, "wider-table")
    page.locator("#search").fill("question")
    page.locator("#all").check()
    page.locator("[name=bulk][value=other]").click()
    expect(page.locator("[data-count=other]")).to_have_text("290")
    kept(page, 1)
    assert len(project.choices.with_role("other")) == 290
    page.get_by_role("link", name="cards").click()
    expect(page.locator(".card")).to_have_count(300)
    look(page, "wider-board")
    page.get_by_role("link", name="Configure").click()
    expect(page.locator(".card")).to_have_count(300)  # what was chosen stays


def test_names_are_shown_so_that_they_can_be_told_apart(bench: Running, tmp_path: Path) -> None:
    long = "x" * 300
    rows = "".join(f"{at % 5},{at % 4},{at % 3}\n" for at in range(60))
    (tmp_path / "names.csv").write_text(f"age,age ,{long}\n{rows}")
    bench.follow(bench.post("/open", table=str(tmp_path / "names.csv")))
    (project,) = bench.workbench.projects.values()
    base = f"/p/{project.number}"
    assert project.table.columns == ("age", "age ", long)
    for place in ("configure", "configure?view=table", "import", "ask/keys"):
        page = bench.get(f"{base}/{place}").text
        assert ">age<" in page, place
        assert ">age␣<" in page, place
        assert f">{long}<" not in page, place
        assert f'<span title="{long}">{"x" * 30}…{"x" * 30}</span>' in page, place


def test_a_board_of_many_cards_ends_where_its_lanes_do(bench: Running, page: Page) -> None:
    """What is scrolled within a lane makes no page below it."""
    opened(bench, page, "wide.csv")
    page.get_by_role("link", name="cards").click()
    expect(page.locator(".lane")).to_have_count(4)
    page.wait_for_load_state("load")  # with its styles, before it is measured
    lanes = page.evaluate("document.querySelector('.board').getBoundingClientRect().bottom")
    assert page.evaluate("document.documentElement.scrollHeight") < lanes + 400
