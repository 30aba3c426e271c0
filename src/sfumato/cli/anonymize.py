"""``sfumato anonymize``: blur a table until the privacy demanded provably holds."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli._options import Force, Output, examples, new_app, split_columns
from sfumato.cli._running import Run, table_verb
from sfumato.cli._weights import Weights, parse_weights
from sfumato.errors import EngineError, ParameterError

if TYPE_CHECKING:
    from sfumato.anonymize.config import Settings

app = new_app()

PRIVACY = "What must hold"
COLUMNS = "Columns"
BLURRING = "How to blur"
WRITING = "Writing the release"


def _methods() -> str:
    """The methods with a line each, for the help text."""
    from sfumato.anonymize.registry import METHODS

    lines = [f"[bold]{name}[/bold]: {method.says}." for name, method in METHODS.items()]
    return "[bold]Methods[/bold]\n\n" + "\n\n".join(f"  {line}" for line in lines)


@app.command(
    epilog=_methods()
    + "\n\n"
    + examples(
        "sfumato anonymize people.csv -k 5 --qi age,sex,zip",
        "sfumato anonymize people.csv -k 5 --qi age,sex,zip --sensitive diagnosis -l 3 -o out.csv",
        "sfumato anonymize people.csv -k 5 --qi age,zip --qi job,sex --weights age=5 -o out.csv",
        "sfumato anonymize people.parquet --config anonymize.toml -o out.parquet",
    )
)
@table_verb
def anonymize(
    run: Run,
    k: Annotated[
        int | None,
        typer.Option(
            "-k",
            metavar="N",
            show_default=False,
            rich_help_panel=PRIVACY,
            help="Every row looks like at least N-1 others.",
        ),
    ] = None,
    qi: Annotated[
        list[str] | None,
        typer.Option(
            "--qi",
            metavar="A,B,…",
            show_default=False,
            rich_help_panel=COLUMNS,
            help="Quasi-identifiers: columns others may know. May be given several times; the "
            "promise holds for each set.",
        ),
    ] = None,
    sensitive: Annotated[
        list[str] | None,
        typer.Option(
            "--sensitive",
            metavar="A,B,…",
            show_default=False,
            rich_help_panel=COLUMNS,
            help="Columns nobody must be able to infer; -l, -t, -p and --alpha are about them.",
        ),
    ] = None,
    diversity: Annotated[
        float | None,
        typer.Option(
            "-l",
            metavar="N",
            show_default=False,
            rich_help_panel=PRIVACY,
            help="l-diversity: so many sensitive values in every class.",
        ),
    ] = None,
    l_kind: Annotated[
        str | None,
        typer.Option(
            "--l-kind",
            metavar="KIND",
            show_default=False,
            rich_help_panel=PRIVACY,
            help="distinct (default), entropy or recursive.",
        ),
    ] = None,
    c: Annotated[
        float | None,
        typer.Option(
            "--c",
            metavar="C",
            show_default=False,
            rich_help_panel=PRIVACY,
            help="c of recursive (c,l)-diversity.",
        ),
    ] = None,
    t: Annotated[
        float | None,
        typer.Option(
            "-t",
            metavar="T",
            show_default=False,
            rich_help_panel=PRIVACY,
            help="t-closeness: every class is within T of the whole table's distribution.",
        ),
    ] = None,
    t_distance: Annotated[
        str | None,
        typer.Option(
            "--t-distance",
            metavar="KIND",
            show_default=False,
            rich_help_panel=PRIVACY,
            help="ordered (default for numbers), equal (default for others) or hierarchical; or "
            "by column: income=ordered,job=hierarchical.",
        ),
    ] = None,
    p: Annotated[
        int | None,
        typer.Option(
            "-p",
            metavar="N",
            show_default=False,
            rich_help_panel=PRIVACY,
            help="p-sensitive k-anonymity.",
        ),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(
            "--alpha",
            metavar="SHARE",
            show_default=False,
            rich_help_panel=PRIVACY,
            help="(α,k)-anonymity: no sensitive value takes a larger share of a class.",
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            metavar="NAME",
            show_default=False,
            rich_help_panel=BLURRING,
            help="How to get there; mondrian unless given. The methods are listed below.",
        ),
    ] = None,
    weights: Weights = None,
    cut_weights: Annotated[
        list[str] | None,
        typer.Option(
            "--cut-weights",
            metavar="spread=1,priority=1,gain=0",
            show_default=False,
            rich_help_panel=BLURRING,
            help="What decides where Mondrian cuts: width, weights, or what it tells of --target.",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            metavar="COLUMN",
            show_default=False,
            rich_help_panel=BLURRING,
            help="A column that should stay predictable.",
        ),
    ] = None,
    relaxed: Annotated[
        bool | None,
        typer.Option(
            "--relaxed/--strict",
            show_default=False,
            rich_help_panel=BLURRING,
            help="Whether Mondrian may part equal values.",
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            metavar="NAME=VALUE",
            show_default=False,
            rich_help_panel=BLURRING,
            help="Any other option of the method. May be repeated.",
        ),
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option(
            "--workload",
            metavar="FILE",
            show_default=False,
            rich_help_panel=BLURRING,
            help="SQL queries or predicates the release will be asked: they set weights and cuts.",
        ),
    ] = None,
    hierarchies: Annotated[
        str | None,
        typer.Option(
            "--hierarchies",
            metavar="FOLDER",
            show_default=False,
            rich_help_panel=BLURRING,
            help="Generalization trees, COLUMN.csv each; missing ones are inferred. Without a "
            "folder columns become ranges and sets of values.",
        ),
    ] = None,
    boundaries: Annotated[
        str | None,
        typer.Option(
            "--boundaries",
            metavar="FILE",
            show_default=False,
            rich_help_panel=BLURRING,
            help="How far values may be blurred at most (TOML).",
        ),
    ] = None,
    identifiers: Annotated[
        list[str] | None,
        typer.Option(
            "--identifiers",
            metavar="A,B,…",
            show_default=False,
            rich_help_panel=COLUMNS,
            help="Columns to leave out.",
        ),
    ] = None,
    pseudonyms: Annotated[
        list[str] | None,
        typer.Option(
            "--pseudonyms",
            metavar="A,B,…",
            show_default=False,
            rich_help_panel=COLUMNS,
            help="Columns to replace by pseudonyms, the same in every table.",
        ),
    ] = None,
    key_file: Annotated[
        str | None,
        typer.Option(
            "--key-file",
            metavar="FILE",
            show_default=False,
            rich_help_panel=COLUMNS,
            help="The secret key of the pseudonyms.",
        ),
    ] = None,
    suppressed_as: Annotated[
        str | None,
        typer.Option(
            "--suppressed-as",
            metavar="typed|text",
            show_default=False,
            rich_help_panel=WRITING,
            help="A star in a column of numbers is null (typed), or the column becomes text.",
        ),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(
            "--config",
            metavar="FILE",
            show_default=False,
            help="A TOML file with these settings, or the certificate of an earlier release; "
            "options given here come before it.",
        ),
    ] = None,
    write_config: Annotated[
        Path | None,
        typer.Option(
            "--write-config",
            metavar="FILE",
            show_default=False,
            help="Write the settings of this run as TOML.",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed",
            metavar="N",
            min=0,
            show_default=False,
            help="Same table and same seed: same release, to the byte. 0 unless given.",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", rich_help_panel=WRITING, help="Say what would happen, write nothing."
        ),
    ] = False,
    output: Output = None,
    force: Force = False,
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="csv|tsv|parquet|arrow",
            show_default=False,
            rich_help_panel=WRITING,
            help="Format of the output, if its ending does not say it.",
        ),
    ] = None,
) -> None:
    """Blur a table as little as possible until the privacy demanded provably holds.

    What is written is read back and measured by code that did not make it; if a promise is
    broken, nothing is published. Beside the output lies its certificate, which `sfumato verify`
    replays. Without -o nothing is written: the answer says what would be.
    """
    from sfumato.anonymize.verb import anonymize as make
    from sfumato.cli._anonymize_view import view

    known = run.table.columns
    given: dict[str, Any] = {
        "qi": None if qi is None else [split_columns([names], known) for names in qi],
        "k": k,
        "sensitive": split_columns(sensitive, known),
        "l": diversity,
        "l_kind": l_kind,
        "c": c,
        "t": t,
        "t_distance": _distances(t_distance),
        "p": p,
        "alpha": alpha,
        "method": method,
        "hierarchies": hierarchies,
        "boundaries": boundaries,
        "weights": parse_weights(weights) or None,
        "workload": workload,
        "identifiers": split_columns(identifiers, known),
        "pseudonyms": split_columns(pseudonyms, known),
        "key_file": key_file,
        "suppressed_as": suppressed_as,
        "seed": seed,
        "cut_weights": dict(parse_weights(cut_weights)) or None,
        "target": target,
        "relaxed": relaxed,
        **_options(option),
    }
    settings = _settings(config, {n: v for n, v in given.items() if v is not None})
    if write_config is not None:
        _write(write_config, settings.to_toml(), force)
    release = make(
        run.table,
        config=settings,
        output=None if dry_run else output,
        format=format,
        force=force,
        budget=run.budget,
    )
    run.show(release, view)


def _settings(config: str | None, given: Mapping[str, Any]) -> Settings:
    from sfumato.anonymize.config import Settings

    return (Settings() if config is None else Settings.read(config)).overridden(given)


def _distances(text: str | None) -> str | dict[str, str] | None:
    if text is None or "=" not in text:
        return text
    pairs = [part.rpartition("=") for part in text.split(",")]
    return {name.strip(): kind.strip() for name, _, kind in pairs}


def _options(given: Sequence[str] | None) -> dict[str, Any]:
    """Options of the method; values are written as in TOML, plain text without quotes."""
    options: dict[str, Any] = {}
    for text in given or ():
        name, separator, value = text.partition("=")
        if not separator or not name.strip():
            raise ParameterError("an option could not be read", remedy="Write --option name=value.")
        try:
            options[name.strip()] = tomllib.loads(f"x = {value}")["x"]
        except tomllib.TOMLDecodeError:
            options[name.strip()] = value.strip()
    return options


def _write(path: Path, text: str, force: bool) -> None:
    if path.exists() and not force:
        raise ParameterError(
            "the file exists", where=str(path), remedy="Choose another, or replace it with --force."
        )
    unfinished = path.with_name(f".{path.name}.tmp")
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        reason = (error.strerror or "it cannot be written").lower()
        raise EngineError(f"the configuration: {reason}", where=str(path)) from None
