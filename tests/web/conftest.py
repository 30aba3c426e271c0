"""A workbench with one small table, and a browser for it: Debian's chromium, by Playwright."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from browser import chromium_or_skip
from sfumato.report import drawing
from sfumato.web.project import Project
from workbench import PATIENCE, PEOPLE, ROLES, Running, running

expect.set_options(timeout=PATIENCE * 1000)

QUIET = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync",
         "--disable-component-update", "--disable-dev-shm-usage", "--no-first-run")  # fmt: skip


@pytest.fixture(scope="session")
def artist() -> Iterator[drawing._Draws]:
    """Draws charts, once somebody wants one: to start a process for each test takes a second."""
    draws = drawing._Draws()
    yield draws
    draws.close()


@pytest.fixture(autouse=True)
def _one_draws_for_all(artist: drawing._Draws) -> Iterator[None]:
    """The first that is there draws; those of workbenches stay unasked, and do not begin."""
    drawing._apart.insert(0, artist)
    yield
    drawing._apart.remove(artist)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Running]:
    """A running workbench beside ``people.csv``."""
    (tmp_path / "people.csv").write_text(PEOPLE)
    with running([tmp_path]) as found:
        yield found


@pytest.fixture
def opened(bench: Running, tmp_path: Path) -> Project:
    """The table of that workbench, with a role for every column."""
    bench.follow(bench.post("/open", table=str(tmp_path / "people.csv")))
    (project,) = bench.workbench.projects.values()
    bench.post(f"/p/{project.number}/configure", k=5, method="mondrian", **ROLES)
    return project


_STARTED, _AFTERWARDS = list[Browser](), ExitStack()


@pytest.fixture
def chromium() -> Browser:
    """A started browser; tests are skipped, saying so, where chromium is missing."""
    if not _STARTED:
        found = chromium_or_skip()
        playwright = _AFTERWARDS.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=found, args=list(QUIET))
        _AFTERWARDS.callback(browser.close)
        _STARTED.append(browser)
    return _STARTED[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Close the browser when no test of it follows: with it, nothing else can run an event loop."""
    yield
    here = nextitem is not None and nextitem.path.parent == item.path.parent
    if not (here and nextitem.get_closest_marker("browser")):  # type: ignore[union-attr]
        _STARTED.clear()
        _AFTERWARDS.close()


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """An empty page; whatever the browser complains about fails the test."""
    context = chromium.new_context(viewport={"width": 1400, "height": 900})
    context.set_default_timeout(PATIENCE * 1000)
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "console",
        lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None,
    )
    yield page
    context.close()
    assert complaints == []
