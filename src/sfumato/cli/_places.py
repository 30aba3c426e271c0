"""Where to write."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from sfumato.errors import ParameterError
from sfumato.files import require_folder

__all__ = ["new_file"]


def new_file(path: str, force: bool, *taken: str | None) -> Path:
    """Where to write; an existing file is not replaced unless asked.

    Parameters
    ----------
    taken
        What the command reads or writes besides: never replaced, not even with `force`.
    """
    target = Path(path)
    if any(_same(target, other) for other in taken if other):
        raise ParameterError(
            "the same command reads or writes this file; it would be lost",
            where=path,
            remedy="Choose another name.",
        )
    if target.is_dir():
        raise ParameterError("this is a folder", where=path, remedy="Name a file to write in it.")
    if target.exists() and not force:
        raise ParameterError(
            "the output exists already", where=path, remedy="Choose another name, or use --force."
        )
    require_folder(target.parent, "the output", kind=ParameterError)
    return target


def _same(target: Path, other: str) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return os.path.samefile(target, other)
    return os.path.abspath(target) == os.path.abspath(other)
