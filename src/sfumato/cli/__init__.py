"""All verbs of the command line, in the order in which ``sfumato --help`` lists them.

A verb is one line here and a command of a module beside this one. The module is imported when its
verb is used, so a verb costs nothing to those who use another.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from sfumato._version import __version__

__all__ = [
    "VERBS",
    "Verb",
    "app",
    "main",
]


LOOK = "Who can be found"
BLUR = "Blur it"
PROVE = "Prove it"
TOGETHER = "Compute together without showing it"
HELPERS = "Helpers"


@dataclass(frozen=True)
class Verb:
    """One verb: its name, the module in ``sfumato.cli`` whose `app` has it, and its place."""

    name: str
    module: str
    panel: str
    summary: str


VERBS = (
    Verb("scan", "scan", LOOK, "First look: who can be found, and by which columns."),
    Verb("measure", "measure", LOOK, "How well a set of columns tells people apart."),
    Verb(
        "key",
        "keys",
        LOOK,
        "A small set of columns that identifies people; the smallest with --proven.",
    ),
    Verb("keys", "keys", LOOK, "All minimal sets of columns that identify people."),
    Verb("violations", "keys", LOOK, "Which column sets break k-anonymity."),
    Verb("uniques", "keys", LOOK, "The rows that few columns single out."),
    Verb("risk", "measure", LOOK, "How likely somebody is found by what an attacker knows."),
    Verb("mask", "mask", BLUR, "Publish many columns, and no quasi-identifier among them."),
    Verb("anonymize", "anonymize", BLUR, "Blur until k-anonymity and its kin provably hold."),
    Verb("verify", "verify", PROVE, "Check a table or a release."),
    Verb("utility", "measure", PROVE, "What a release cost, compared with its original."),
    Verb("keygen", "keygen", PROVE, "A pair of keys that signs certificates."),
    Verb("population", "population", LOOK, "Who is unique in the population behind the table."),
    Verb("attack", "population", PROVE, "Join a release with known people and count who is found."),
    Verb("safe-harbor", "mask", BLUR, "De-identify by HIPAA's Safe Harbor."),
    Verb("party", "party", TOGETHER, "Two parties compute together without showing their rows."),
    Verb("joint", "joint", TOGETHER, "Models across institutions that do not share rows."),
    Verb("hierarchy", "hierarchy", HELPERS, "Look at generalization hierarchies, and make them."),
    Verb("report", "report", PROVE, "One page to look at: who can be found, and what to do."),
    Verb("serve", "report", PROVE, "The workbench in your browser, on this machine only."),
    Verb("datasets", "datasets", HELPERS, "Public tables to try things on, as files."),
    Verb("paper", "datasets", HELPERS, "The tables and figures of a paper, done again."),
    Verb("demo-data", "datasets", HELPERS, "Make a synthetic hospital table to try things on."),
)


class VerbGroup(TyperGroup):
    """Lists verbs from their one-line summaries; imports a verb's module only to run it."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.verbs = {verb.name: verb for verb in VERBS}
        for verb in VERBS:
            self.add_command(TyperCommand(verb.name, help=verb.summary, rich_help_panel=verb.panel))

    def invoke(self, ctx: Any) -> Any:
        """Run a verb; complaints about its arguments quote no password of an address."""
        as_json = "--json" in (*getattr(ctx, "_protected_args", ()), *ctx.args)
        try:
            return super().invoke(ctx)
        except Exception as error:
            said = getattr(error, "message", None)  # of a complaint about arguments
            if isinstance(said, str) and "://" in said:
                error.message = said.partition("://")[0] + "://…"  # type: ignore[attr-defined]
            if hasattr(error, "format_message") and as_json:
                from sfumato.cli._ending import explain
                from sfumato.errors import ParameterError

                verb = f"sfumato {ctx.invoked_subcommand or ''}".strip()
                what = error.format_message().rstrip(".")
                explain(ParameterError(what, remedy=f"See {verb} --help."), as_json=True)
                raise typer.Exit(2) from None
            raise

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The verb itself, in place of the line that stands for it in the list."""
        name, found, rest = super().resolve_command(ctx, args)
        return name, load(self.verbs[name]) if name in self.verbs else found, rest


def load(verb: Verb) -> Any:
    """The command (or group of commands) of a verb, from its module."""
    module = importlib.import_module(f"sfumato.cli.{verb.module}")
    command = typer.main.get_command(module.app)
    command = getattr(command, "commands", {}).get(verb.name, command)  # of several in a module
    command.name = verb.name
    without_values(command)
    return command


def without_values(command: Any) -> None:
    """Let help show flags as they are written; typer would add the type of a value they lack."""
    for parameter in command.params:
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""
    for below in getattr(command, "commands", {}).values():
        without_values(below)


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
