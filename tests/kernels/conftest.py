"""Every test of these loops runs twice: by numpy, as on small tables, and compiled."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sfumato.kernels import compiling


@pytest.fixture(scope="module", params=["numpy", "compiled"])
def by(request: pytest.FixtureRequest) -> Iterator[str]:
    """Which of the two ways is taken, whatever the number of entries."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiling, "by_numpy", lambda entries: request.param == "numpy")
        yield request.param
