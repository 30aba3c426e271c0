"""Settings shared by all tests."""

from __future__ import annotations

import contextlib
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase

pytest_plugins = ["servers"]

# Everybody tries the same examples every time: nothing fails by chance. `make fuzz` tries new ones,
# and keeps what fails.
settings.register_profile(
    "sfumato",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    derandomize=True,
    database=None,
)
settings.register_profile(
    "fuzz",
    settings.get_profile("sfumato"),
    derandomize=False,
    database=DirectoryBasedExampleDatabase(Path(__file__).parents[1] / ".hypothesis" / "examples"),
)
settings.load_profile("sfumato")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Other random searches than hypothesis's draw from here."""
    parser.addoption("--fuzz-seed", type=int, default=0, help="seed of tests that are marked fuzz")


@pytest.fixture
def fuzz_seed(request: pytest.FixtureRequest) -> int:
    """The same seed always, except for `make fuzz`."""
    return int(request.config.getoption("--fuzz-seed"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need a server run in one worker, so that it is started once."""
    for item in items:
        for server in ("postgres", "spark", "browser"):
            if item.get_closest_marker(server) is not None:
                item.add_marker(pytest.mark.xdist_group(server))


# A shell that starts tests in the background lets them ignore Ctrl-C, and so would what they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, signal.default_int_handler)
