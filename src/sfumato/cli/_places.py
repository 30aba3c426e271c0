"""Where to write, and where others listen."""

from __future__ import annotations

from pathlib import Path

from sfumato.errors import ParameterError
from sfumato.reading import require_folder

__all__ = ["new_file", "parse_address"]


def parse_address(text: str, option: str) -> tuple[str, int]:
    """``host:port``.

    Examples
    --------
    >>> parse_address("127.0.0.1:9000", "--listen")
    ('127.0.0.1', 9000)
    """
    host, sign, port = text.rpartition(":")
    if not sign or not host or not port.isdigit():
        raise ParameterError(
            f"{option} needs host:port", remedy=f"Write e.g. {option} 10.0.0.7:9000"
        )
    return host.strip("[]"), int(port)


def new_file(path: str, force: bool) -> Path:
    """Where to write; an existing file is not replaced unless asked."""
    target = Path(path)
    if target.exists() and not force:
        raise ParameterError(
            "the output exists already", where=path, remedy="Choose another name, or use --force."
        )
    require_folder(target.parent, "the output", kind=ParameterError)
    return target
