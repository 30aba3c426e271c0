"""Options that several verbs of ``sfumato joint`` share."""

from __future__ import annotations

from typing import Annotated, Any

import typer

__all__ = ["AgreementFile", "OutputFile", "text"]

OutputFile = Annotated[
    str, typer.Option("--output", "-o", metavar="FILE", show_default=False, help="Where to write.")
]
AgreementFile = Annotated[
    str,
    typer.Option(
        "--agreement",
        "-a",
        metavar="FILE",
        show_default=False,
        help="The study's agreement (TOML).",
    ),
]


def text(options: str, metavar: str, told: str, panel: str | None = None) -> Any:
    """An option that takes a text, is off by default, and says so by showing no default."""
    return typer.Option(
        *options.split(), metavar=metavar, show_default=False, help=told, rich_help_panel=panel
    )
