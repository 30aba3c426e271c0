"""Settings shared by all tests."""

from __future__ import annotations

import contextlib
import os
import signal

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["servers"]

# Continuous integration tries the same examples every time: nothing fails there by chance. At home
# new ones are tried, and what they find is kept.
settings.register_profile(
    "sfumato",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    derandomize="CI" in os.environ,
)
settings.load_profile("sfumato")


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
