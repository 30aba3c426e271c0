"""Settings shared by all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

pytest_plugins = ["servers"]

settings.register_profile(
    "sfumato", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("sfumato")
