"""Charts that answer the pointer, in a real browser without a network."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest

import sfumato as sf
from accessibility import COLOURS, EVERYTHING, accessibility_issues, axe_or_skip
from browser import Tab
from planted import QI, RESULTS, assert_nothing_rare, people
from sfumato.report import charts
from sfumato.report.drawing import chart_data, script
from sfumato.report.page import page_html
from sfumato.report.registry import page_of


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    release = sf.anonymize(people(), k=5, qi=QI)
    return release.report(tmp_path_factory.mktemp("live") / "release.html", interactive=True)


def test_only_the_script_of_the_page_may_run(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)
    assert policy is not None
    inside = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert len(inside) == 1
    digest = base64.b64encode(hashlib.sha256(inside[0].encode()).digest()).decode()
    assert policy[1].replace("&#39;", "'") == (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    )


def test_the_page_grows_by_about_a_megabyte(page: Path) -> None:
    plain = page_html(page_of(sf.anonymize(people(), k=5, qi=QI)))
    assert "<script" not in plain
    assert 800_000 < page.stat().st_size - len(plain.encode()) < 1_200_000


@pytest.mark.parametrize("name", RESULTS)
def test_a_value_held_by_few_rows_is_not_in_the_data_of_charts(name: str) -> None:
    text = page_html(page_of(RESULTS[name]()), interactive=True)
    assert_nothing_rare(text.replace(script(), ""))


def test_a_page_without_charts_needs_no_script() -> None:
    found = sf.risk(people(), QI)
    text = page_html(page_of(found), interactive=True)
    assert "<script" not in text
    assert "script-src" not in text


def test_data_cannot_end_its_own_script() -> None:
    data = chart_data(charts.shares("a & b", {"</script><b>&amp;<!--": 0.5}, what="share"))
    assert not re.search(r"[<>&]", data)
    assert json.loads(data)["wide"]["data"]["values"][0]["name"] == "</script><b>&amp;<!--"
    assert "</script" not in script()


def test_every_mark_says_what_its_axes_say() -> None:
    spec = json.loads(chart_data(charts.shares("Shares", {"age": 0.5}, what="rows")))["wide"]
    told = spec["layer"][0]["encoding"]["tooltip"]
    assert [entry["title"] for entry in told] == ["name", "rows"]
    assert spec["data"]["values"][0][told[1]["field"]] == "50%"


@pytest.mark.browser
@pytest.mark.parametrize(("width", "dark"), [(400, True), (1400, False)])
def test_every_chart_is_drawn_alive(tab: Tab, page: Path, width: int, dark: bool) -> None:
    asked, complained = len(tab.requests()), len(tab.complaints())
    tab.look(width=width, dark=dark)
    tab.open(page.as_uri())
    charted = tab.value("document.querySelectorAll('.chart').length")
    assert charted >= 4
    tab.wait(f"document.querySelectorAll('.chart.drawn .live svg').length === {charted}")
    sizes = tab.value(
        "[...document.querySelectorAll('.live svg')].map(s => [s.getBBox().width, "
        "s.querySelectorAll('.mark-rect path, .mark-line path, .mark-symbol path').length])"
    )
    assert all(wide > 100 and marks >= 1 for wide, marks in sizes)
    assert tab.value("[...document.querySelectorAll('.still')].every(s => !s.offsetHeight)")
    assert tab.value("document.documentElement.scrollWidth") <= width
    assert tab.requests()[asked:] == [page.as_uri()]
    assert tab.complaints()[complained:] == []


@pytest.mark.browser
@pytest.mark.parametrize(("width", "dark"), [(400, True), (1400, False)])
def test_people_of_all_abilities_can_read_it_alive(
    tab: Tab, page: Path, width: int, dark: bool
) -> None:
    axe_or_skip()
    tab.look(width=width, dark=dark)
    tab.open(page.as_uri())
    tab.wait("document.querySelector('.chart.drawn .live svg') !== null")
    assert accessibility_issues(tab, EVERYTHING if dark else COLOURS) == []


@pytest.mark.browser
def test_a_mark_under_the_pointer_says_what_it_stands_for(tab: Tab, page: Path) -> None:
    tab.look()
    tab.open(page.as_uri())
    tab.wait("document.querySelector('.chart.drawn .live .mark-rect path') !== null")
    x, y = tab.value(
        "(() => { const bar = document.querySelector('.live .mark-rect path');"
        "bar.scrollIntoView({block: 'center'}); const box = bar.getBoundingClientRect();"
        "return [box.x + box.width / 2, box.y + box.height / 2]; })()"
    )
    tab.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    tab.wait("document.querySelector('#vg-tooltip-element.visible') !== null")
    said = tab.value("document.querySelector('#vg-tooltip-element').innerText")
    assert "rows that look alike" in said
    assert "rows" in said


@pytest.mark.browser
def test_without_scripts_and_on_paper_the_still_pictures_are_shown(tab: Tab, page: Path) -> None:
    shown = "[...document.querySelectorAll('.still')].every(s => s.offsetHeight > 40)"
    tab.look()
    tab.ask("Emulation.setScriptExecutionDisabled", value=True)
    tab.open(page.as_uri())
    assert tab.value(shown)
    tab.ask("Emulation.setScriptExecutionDisabled", value=False)
    tab.open(page.as_uri())
    tab.wait("document.querySelector('.chart.drawn') !== null")
    tab.ask("Emulation.setEmulatedMedia", media="print")
    assert tab.value(shown)
    assert tab.value("[...document.querySelectorAll('.live')].every(s => !s.offsetHeight)")
    tab.ask("Emulation.setEmulatedMedia", media="")
