"""Writes a release in a process that a test may kill at any moment."""

from __future__ import annotations

from typing import Any

import sfumato as sf


def write(source: str, output: str, began: Any) -> None:
    """Mask a table and publish it, saying when it begins."""
    began.set()
    sf.mask(source, beta=0.9, must_drop=["id"], output=output, force=True)
