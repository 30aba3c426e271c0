"""A hand that clicks in the workbench and counts, and eyes that look at its pages."""

from __future__ import annotations

import json
from functools import partial
from typing import Literal

from playwright.sync_api import Locator, Page, expect

from accessibility import COLOURS, EVERYTHING, axe_or_skip
from artefacts import keep

__all__ = ["Hand", "at", "entered", "kept", "look", "no_issues"]


def at(page: Page, heading: str) -> None:
    """Wait until a page is there and listens."""
    expect(page.get_by_role("heading", level=1)).to_have_text(heading)
    page.wait_for_load_state("load")


def entered(page: Page, link: str) -> None:
    """Follow the link that the program prints: through its door to the first page."""
    page.goto(link)
    at(page, "Which table?")


class Hand:
    """Clicks what is on the page, and counts."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.clicks = 0

    def click(self, what: Locator, then: str) -> None:
        """Click, and wait for a heading."""
        self.clicks += 1
        what.click()
        at(self.page, then)


def look(page: Page, name: str) -> None:
    """Nothing may stick out at two sizes; keep pictures of both, by day and by night."""
    page.wait_for_load_state()  # rows of a page can be counted before its styles are there
    for width in (1400, 400):
        page.set_viewport_size({"width": width, "height": 900})
        for scheme in ("light", "dark"):
            keep(f"workbench/{name}-{width}-{scheme}.png", partial(_drawn, page, scheme))
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
    page.set_viewport_size({"width": 1400, "height": 900})


def _drawn(page: Page, scheme: Literal["light", "dark"]) -> bytes:
    page.emulate_media(color_scheme=scheme)
    picture = page.screenshot(full_page=True, animations="disabled")
    page.emulate_media(color_scheme="light")
    return picture


def no_issues(page: Page, name: str) -> None:
    """Nothing that axe-core finds wrong, by day and by night."""
    page.evaluate(axe_or_skip() + ";true")
    for scheme, rules in (("dark", COLOURS), ("light", EVERYTHING)):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        found = page.evaluate(rules)
        assert found == [], f"{name}, {scheme}: {json.dumps(found, indent=1)}"


def kept(page: Page, edition: int) -> None:
    """Wait until the page knows that so many decisions were kept."""
    expect(page.locator("#roles [name=edition]")).to_have_value(str(edition))
