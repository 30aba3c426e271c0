"""Releases a dataset in a process that a test may kill at any moment."""

from __future__ import annotations

from typing import Any

from sfumato import relational


def write(source: str, output: str, key: str, began: Any) -> None:
    """Release a dataset, saying when it begins."""
    began.set()
    relational.anonymize(
        source,
        qi=["patients.sex", "visits.ward"],
        k=2,
        m=2,
        linkable=True,
        key_file=key,
        output=output,
        force=True,
    )
