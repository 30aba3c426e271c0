"""Pictures that tests keep for people to look at, in a folder git ignores."""

from __future__ import annotations

from pathlib import Path

__all__ = ["FOLDER", "keep"]

FOLDER = Path(__file__).parents[1] / "artefacts"


def keep(name: str, data: bytes) -> Path:
    """Keep a picture or a document, such as ``report/table-400-dark.png``."""
    place = FOLDER / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
    return place
