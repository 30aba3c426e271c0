"""Weights of columns as they are written on the command line."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from sfumato.errors import ParameterError, SourceError
from sfumato.files import read_text

__all__ = ["Weights", "parse_weights"]

Weights = Annotated[
    list[str] | None,
    typer.Option(
        "--weights",
        metavar="A=2,B=0.5",
        show_default=False,
        help="Weights of columns, or a TOML file with a table of them; 1 where none is given.",
    ),
]


def parse_weights(given: Sequence[str] | None) -> Mapping[str, float]:
    """Weights from ``name=number`` lists or a TOML file (its table ``[weights]``, or its top).

    Examples
    --------
    >>> parse_weights(["age=2,zip=0.5"])
    {'age': 2.0, 'zip': 0.5}
    """
    weights: dict[str, float] = {}
    for text in given or ():
        if text.endswith(".toml"):
            weights |= _from_file(Path(text))
            continue
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, separator, number = part.rpartition("=")
            weights[name] = _number(name, number, bool(separator))
    return weights


def _number(name: str, text: str, has_name: bool) -> float:
    try:
        if has_name and name:
            return float(text)
    except ValueError:
        pass
    raise ParameterError("a weight could not be read", remedy="Write e.g. --weights age=2,zip=0.5")


def _from_file(path: Path) -> dict[str, float]:
    try:
        content = tomllib.loads(read_text(path, "the weights"))
    except tomllib.TOMLDecodeError as error:
        raise SourceError(
            f"this is no TOML: {error}", where=str(path), remedy="Write e.g.\n[weights]\nage = 2"
        ) from None
    table = content.get("weights", content)
    if not isinstance(table, dict) or not all(
        isinstance(weight, (int, float)) and not isinstance(weight, bool)
        for weight in table.values()
    ):
        raise ParameterError(
            "the weights must be a table of numbers",
            where=str(path),
            remedy="Write e.g.\n[weights]\nage = 2",
        )
    return {name: float(weight) for name, weight in table.items()}
