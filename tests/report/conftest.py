"""What the tests of reports share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from browser import Tab, browser_or_skip


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    """A tab of a real browser that cannot reach anything."""
    browser = browser_or_skip(tmp_path_factory.mktemp("profile"))
    try:
        found = browser.tab()
        found.offline()
        yield found
    finally:
        browser.close()
