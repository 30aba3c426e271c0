"""A person who never saw it: from a table to a verified release by clicking."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sfumato as sf
from browser import Tab, browser_or_skip
from sfumato.demo import write_people
from workbench import running

pytestmark = pytest.mark.browser


class Hand:
    """Clicks what is on the page, and counts."""

    def __init__(self, tab: Tab) -> None:
        self.tab = tab
        self.clicks = 0

    def click(self, text: str, then: str) -> None:
        """Click the link or button that says so; wait for a heading."""
        self.clicks += 1
        found = (
            "[...document.querySelectorAll('main button, main a.button, nav a')]"
            f".find(e => e.textContent.trim().startsWith({json.dumps(text)}))"
        )
        self.tab.wait(f"{found} !== undefined")
        self.tab.value(f"{found}.click()")
        said = json.dumps(then)
        self.tab.wait(f"document.querySelector('h1')?.textContent.trim() === {said}")
        self.tab.wait("document.readyState === 'complete'")


def test_from_table_to_verified_release_in_under_ten_clicks(tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    folder.mkdir()
    write_people(folder / "people.csv", rows=2000, seed=3)
    browser = browser_or_skip(tmp_path / "profile")
    try:
        with running([folder]) as bench:
            tab = browser.tab()
            tab.look()
            own = f"http://127.0.0.1:{bench.port}/"
            tab.open(bench.server.guard.link)
            hand = Hand(tab)
            hand.click("Open", then="What may others know?")
            hand.click("Save and explore", then="Who can be found?")
            hand.click("On to the risk", then="How many should look alike?")
            slider = "document.getElementById('k')"
            tab.value(f"{slider}.value = 20; {slider}.dispatchEvent(new Event('input'))")
            tab.wait("document.querySelector('#figure').textContent.includes('fewer than 20')")
            hand.click("On to the cost", then="What does it cost?")
            hand.click("Try it", then="What does it cost?")
            tab.wait("document.querySelector('table') !== null")
            hand.click("On to the release", then="Release")
            hand.click("Make the release", then="Release")
            tab.wait("document.querySelector('#verified') !== null")
            tab.wait("document.readyState === 'complete'")
            assert tab.value("document.querySelector('#verified').dataset.holds") == "yes"
            assert hand.clicks < 10
            assert tab.complaints() == []
            assert [url for url in tab.requests() if not url.startswith(own)] == []
            tab.look(width=400)
            wide = tab.value(
                "[...document.querySelectorAll('main *')].filter(e => !e.closest('.scroll') && "
                "e.getBoundingClientRect().right > 400).map(e => e.outerHTML.slice(0, 160))"
            )
            assert wide == []
            assert tab.value("document.documentElement.scrollWidth") <= 400
            (tmp_path / "release.png").write_bytes(tab.picture())
        assert sf.verify(str(folder / "people.csv.sfumato" / "release.csv")).holds
    finally:
        browser.close()
