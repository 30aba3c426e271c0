"""The program `sfumato`: finds the verb, loads its module, and hands over."""

from __future__ import annotations

import importlib
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from sfumato._version import __version__
from sfumato.cli._verbs import VERBS, Verb

__all__ = ["app", "main"]


class VerbGroup(TyperGroup):
    """Lists verbs from their one-line summaries; imports a verb's module only to run it."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.verbs = {verb.name: verb for verb in VERBS}
        for verb in VERBS:
            self.add_command(TyperCommand(verb.name, help=verb.summary, rich_help_panel=verb.panel))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The verb itself, in place of the line that stands for it in the list."""
        name, found, rest = super().resolve_command(ctx, args)
        return name, load(self.verbs[name]) if name in self.verbs else found, rest


def load(verb: Verb) -> Any:
    """The command (or group of commands) of a verb, from its module."""
    module = importlib.import_module(f"sfumato.cli.{verb.module}")
    command = typer.main.get_command(module.app)
    command.name = verb.name
    return command


app = typer.Typer(
    name="sfumato",
    cls=VerbGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
    epilog="Every verb explains itself: [bold]sfumato scan --help[/bold]",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sfumato {__version__}")
        raise typer.Exit()


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Find who can be found in a table, blur it just enough, and prove that it worked."""


def main() -> None:
    """Run the command line."""
    app(prog_name="sfumato")
