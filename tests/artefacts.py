"""Pictures that tests keep for people to look at, in a folder git ignores.

Drawing them takes longer than looking for mistakes does, so they are made on request: where
``SFUMATO_PICTURES`` is set.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

__all__ = ["FOLDER", "keep"]

FOLDER = Path(__file__).parents[1] / "artefacts"


def keep(name: str, picture: Callable[[], bytes]) -> None:
    """Keep a picture or a document, such as ``report/table-400-dark.png``, if anybody asked."""
    if not os.environ.get("SFUMATO_PICTURES"):
        return
    place = FOLDER / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(picture())
