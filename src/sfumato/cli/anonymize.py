"""`sfumato anonymize`: blur a table, or a dataset, until the privacy demanded holds."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sfumato.anonymization.request import RequestFields
from sfumato.cli._options import (
    Asked,
    Publishing,
    examples,
    flag,
    new_app,
    new_file,
    option,
    split_columns,
)
from sfumato.cli._running import Run, figures, listed, noted, table_verb, titled, warned
from sfumato.errors import ParameterError
from sfumato.fields import Columns, parameters
from sfumato.files import write_text
from sfumato.wording import counted, hundredths, phrase

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from sfumato.anonymization.request import Request
    from sfumato.privacy.check import Risk
    from sfumato.release import Release
    from sfumato.release.promise import Finding


app = new_app()

WRITING = "Writing the release"


class Requested(Asked):
    """Everything that decides a release."""

    declared = RequestFields
    elsewhere = ("parse", "unparsed")

    @classmethod
    def options(cls) -> list[inspect.Parameter]:
        more = option(
            "--option NAME=VALUE", "Any other option of the method. May be repeated.", "How to blur"
        )
        kind = inspect.Parameter.KEYWORD_ONLY
        hint = Annotated[list[str] | None, more]
        return [
            *super().options(),
            inspect.Parameter("option", kind, default=None, annotation=hint),
        ]

    def given(self, known: Sequence[str]) -> dict[str, Any]:
        return {**super().given(known), **_options(self._given.get("option"))}


def _options(given: Sequence[str] | None) -> dict[str, Any]:
    """Options of the method; values are written as in TOML, plain text without quotes.

    Columns are named as everywhere: ``protected=age,sex``, or one after the other.
    """
    declared = parameters(RequestFields)
    options: dict[str, Any] = {}
    for text in given or ():
        name, separator, value = (part.strip() for part in text.partition("="))
        if not separator or not name:
            raise ParameterError("an option could not be read", remedy="Write --option name=value.")
        read = _value(value)
        if name in declared and declared[name].kind == Columns:
            read = split_columns([read]) if isinstance(read, str) else read
            if isinstance(read, list):
                options[name] = [*options.get(name, ()), *read]
                continue
        if name in options:
            raise ParameterError(f"option `{name}` is given twice", remedy="Give it once.")
        options[name] = read
    return options


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"x = {text}")["x"]
    except tomllib.TOMLDecodeError:
        return text


def _methods() -> str:
    """The methods with a line each, for the help text."""
    from sfumato.anonymization.registry import METHODS

    lines = [f"[bold]{name}[/bold]: {method.says}." for name, method in METHODS.items()]
    return "[bold]Methods[/bold]\n\n" + "\n\n".join(f"  {line}" for line in lines)


@dataclass(frozen=True)
class Writing(Publishing):
    """Where the release goes, in which form, and what else is written."""

    format: Annotated[
        str | None,
        option(
            "--format csv|parquet|xlsx|sav|…",
            "Format of the output, if its ending does not say it.",
            WRITING,
        ),
    ] = None
    save_recoding: Annotated[
        Path | None,
        option(
            "--save-recoding FILE",
            "Write the groups that the release shows, for --recoding.",
            WRITING,
        ),
    ] = None
    dry_run: Annotated[
        bool, flag("--dry-run", "Say what would happen, write nothing.", WRITING)
    ] = False


@dataclass(frozen=True)
class Repeating:
    """Parameters kept in files."""

    config: Annotated[
        str | None,
        option(
            "--config FILE",
            "A TOML file with these settings, or the certificate of an earlier release; "
            "options given here come before it.",
        ),
    ] = None
    write_config: Annotated[
        Path | None, option("--write-config FILE", "Write the settings of this run as TOML.")
    ] = None


@app.command(
    epilog=_methods()
    + "\n\n"
    + examples(
        "sfumato anonymize people.csv -k 5 --qi birth_date,sex,zip "
        "--identifiers patient_id,name,ssn,email,phone,note",
        "sfumato anonymize people.csv -k 5 --qi birth_date,sex,zip --sensitive diagnosis -l 3 "
        "--identifiers patient_id,name,ssn,email,phone,note -o out.csv",
        "sfumato anonymize people.csv --config anonymize.toml --qi sex,zip --qi language,sex "
        "--weights zip=5",
        "sfumato anonymize people.parquet --config anonymize.toml -o out.parquet",
        "sfumato anonymize hospital -k 5 -m 2 --linkable --key-file secret.key "
        "--identifiers patients.name,patients.ssn,patients.email,patients.phone "
        "--qi patients.birth_date,admissions.diagnosis -o linked",
        "sfumato anonymize february.csv --like january.csv.certificate.json -o out.csv",
    )
)
@table_verb
def anonymize(run: Run, requested: Requested, writing: Writing, repeating: Repeating) -> None:
    """Blur a table as little as possible until the privacy demanded provably holds.

    The output is read back and measured by independent code; if a promise is broken, nothing is
    published. Its certificate is written beside it, and `sfumato verify` checks it again. Without
    -o no release is written: the answer says what would happen.

    The tables of a dataset (a dataset.toml, a folder of tables, postgresql://…#schema.*) are
    blurred and published together. Columns are written table.column; --exclude leaves out tables.
    """
    from sfumato.anonymization.request import Request
    from sfumato.anonymization.verb import anonymize as make
    from sfumato.release.recoding import refuse_unreadable

    if writing.format is not None and writing.output is None:
        raise ParameterError(
            "a format is given, and no output to write in it", remedy="Give -o FILE as well."
        )
    _check_dry(writing, repeating.write_config)
    if run.names_dataset:
        from sfumato.cli import _dataset

        kept = Request() if repeating.config is None else Request.read(repeating.config)
        if kept.parse:
            raise ParameterError(
                "[parse] is about one table, and this is a dataset of several",
                where=str(repeating.config),
                remedy="Leave out [parse], and write the dates and numbers of the tables plainly.",
            )
        _dataset.anonymize(run, requested, kept, writing, repeating.write_config)
        return
    like, recoding = requested.said("like"), requested.said("recoding")
    start = Request.starting(repeating.config, like, recoding)
    run.parse |= start.parse
    if start.unparsed != "stop":
        run.reading["unparsed"] = start.unparsed
    given = requested.given(run.table.columns)
    if run.parse:
        given |= {"parse": run.parse, "unparsed": run.reading.get("unparsed", "stop")}
    request = start.overridden(given)
    _check_places(run, request, writing, repeating.write_config)
    if writing.save_recoding is not None:
        asked = {"numbers_as": request.numbers_as}
        refuse_unreadable(request.qi or (), asked, "--save-recoding")
    people = request.population
    release = make(
        run.table,
        config=request if people is None else request.overridden({"population": run.open(people)}),
        output=None if writing.dry_run else writing.output,
        format=writing.format,
        force=writing.force,
        sign=writing.sign,
        author=writing.author,
        spreadsheet_safe=writing.spreadsheet_safe,
        budget=run.budget,
    )
    if writing.save_recoding is not None:
        release.recoding.save(writing.save_recoding)
    if repeating.write_config is not None:
        write_text(repeating.write_config, request.to_toml())
    besides = {"Groups": writing.save_recoding, "Settings": repeating.write_config}
    written = {what: str(place) for what, place in besides.items() if place is not None}
    run.show(release, partial(view, besides=written))


def _check_dry(writing: Writing, config: Path | None) -> None:
    """Refuse to write other files in a run that writes nothing."""
    named = {"--save-recoding": writing.save_recoding, "--write-config": config}
    for name, place in named.items():
        if writing.dry_run and place is not None:
            raise ParameterError(
                f"--dry-run writes nothing, and {name} names a file to write",
                where=str(place),
                remedy="Leave out one of them; without -o the release itself is not written.",
            )


def _check_places(run: Run, request: Request, writing: Writing, written: Path | None) -> None:
    """Refuse to write over anything that this command reads or writes besides."""
    from sfumato.release.certificate import certificate_path

    named = (
        request.population,
        request.key_file,
        request.boundaries,
        request.workload,
        request.like,
        request.recoding,
        writing.sign,
    )
    read = [str(name) for name in named if isinstance(name, (str, Path))]
    output = writing.output
    if output is not None and "://" not in output:
        new_file(output, True, *read)  # that it exists is looked at with its certificate
        read += [output, str(certificate_path(output))]
    for place in (written, writing.save_recoding):
        if place is not None:
            new_file(str(place), writing.force, run.source, *read)
            read.append(str(place))


# How a person reads a release: what was asked, what holds, what it cost

_BAR = 16


def view(release: Release, besides: Mapping[str, str]) -> RenderableType:
    """The whole page; `besides` are the files that were written beside the release."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [
        _headline(release),
        *titled("What holds", _promises(release)),
        *titled("What it cost", _columns(release), "", _figures(release)),
        *titled("Risk of being found", _risks(release)),
    ]
    if inferred := release.details.get("inferred_hierarchies"):
        parts += titled("Inferred hierarchies", figures(inferred.items(), first=False))
    parts += ["", *noted(release)]
    if release.stopped_by:
        parts += warned([f"the search was stopped by {release.stopped_by}"])
    # a path is copied from the terminal: it is never broken
    parts.append(Text(_ending(release, besides), style="bold", no_wrap=True, overflow="ignore"))
    return Group(*parts)


def _headline(release: Release) -> RenderableType:
    from rich.text import Text

    people = release.details.get("persons")
    lost = people.get("left_out") if people else None  # in parts only counted once written
    whose = ""
    if people:
        most = "" if lost is not None else "at most "
        whose = f" of {most}{counted(people['persons'] - (lost or 0), 'person')}"
    told = f"{counted(release.rows, 'row')}{whose} in "
    told += counted(release.classes or 0, "class")
    told += f"{' of own columns' if 'linkable' in release.details else ''}, by {release.method}"
    line = Text(told, style="bold")
    if release.suppressed_rows:
        before = release.rows + release.suppressed_rows
        share = release.suppressed_rows / before
        line.append(f"; {release.suppressed_rows:,} left out ({share:.2%})", style="yellow")
    if lost:
        line.append(f"; {counted(lost, 'person')} left out", style="yellow")
    if release.suppressed_cells:
        line.append(f"; {counted(release.suppressed_cells, 'cell')} starred")
    return line


def _promises(release: Release) -> Table:
    """One line for every model and set: asked, measured."""
    from sfumato.release.other_promises import LinkedHistories

    table = listed(("promise", ">asked", ">measured", "on"))
    checks = [
        (check, ", stars match anything" if finding.measured.get("wildcards") else "")
        for finding in release.findings
        for check in finding.measured.get("checks", ())
    ]
    linked = [finding for finding in release.findings if finding.check == LinkedHistories.kind]
    for finding in linked:
        told = release.details["linkable"]
        table.add_row(
            f"{'✓' if finding.holds else '✗'} persons left to whoever knows m rows",
            _numbers({"k": release.asked["k"], "m": told["m"]}),
            _numbers({"k": finding.measured["k"]}),
            ", ".join((*told["own"], *told["events"])),
        )
    above: Sequence[str] = ()
    for check, reading in checks:
        of = f" of {check.column}" if check.column else ""
        of += ", in persons" if "persons" in release.details and "k" in check.asked else ""
        table.add_row(
            f"{'✓' if check.holds else '✗'} {check.model}{of}{reading}",
            _numbers(check.asked),
            _numbers(check.measured),
            "the same columns" if check.qi == above and len(above) > 3 else ", ".join(check.qi),
        )
        above = check.qi
    if not checks and not linked:
        asked = {name: release.asked[name] for name in "kltp" if name in release.asked}
        table.add_row(
            "foreseen, measured once written",
            _numbers(asked),
            _numbers({"k": release.k}),
            "; ".join(", ".join(names) for names in release.asked["qi"]),
        )
    return table


def _columns(release: Release) -> Table:
    """What happened to each column, with a bar for the precision it lost."""
    table = listed(("column", "what was done", ">loss", ""))
    losses = release.utility["columns"]
    for name, action in release.column_actions.items():
        if name in losses:
            bar = "█" * round(_BAR * losses[name]) or ("▏" if losses[name] else "")
            table.add_row(name, action, f"{losses[name]:.3f}", bar)
        elif action != "kept":
            table.add_row(name, action, "", "")
    kept = [n for n, action in release.column_actions.items() if action == "kept"]
    others = [name for name in kept if name not in losses]
    if others:
        table.add_row(counted(len(others), "other column"), "kept", "", "")
    return table


def _sampled(ranks: Mapping[str, Any]) -> str:
    """What is known of quantiles that were read from a sample."""
    if not ranks["eps"]:
        return "read from all rows"
    sure = f"with probability {1 - ranks['delta']:g}"
    known = f"{sure} every rank within {ranks['eps']:.2%} of all rows"
    if ranks["eps"] >= 1:
        known = "too few to say how far ranks are off"
    return (
        f"read from {counted(ranks['sample'], 'row')}: {known}; groups were counted, and have at "
        "least k rows"
    )


def _figures(release: Release) -> RenderableType:
    cost, linked = release.utility, "linkable" in release.details
    meaning = "0 nothing lost, 1 everything"
    if linked and release.suppressed_rows:
        meaning = "1 everything lost, as in rows left out"
    if changed := phrase([f"`{name}`" for name in release.changed_before]):
        meaning += f"; not counted: what was done to {changed} before"
    told = {
        "normalized certainty penalty": f"{cost['ncp']:.4f}  ({meaning})",
        **_rounding(release),
        "granularity kept": f"{cost['granularity']:.1%}",
        "entropy lost": f"{cost['non_uniform_entropy']:.1%}",
        "average class size": f"{cost['average_class_size']:,.1f}"
        + ("  (by all quasi-identifiers)" if linked else ""),
        "discernibility": f"{cost['discernibility']:,}",
    }
    told |= _of_the_method(release)
    asked = cost.get("queries")
    if asked and asked["answered"]:
        queries = counted(asked["answered"], "query", many="queries")
        told[f"{queries}, relative error"] = (
            f"{asked['mean_relative_error']:.1%} on average, "
            f"{asked['median_relative_error']:.1%} median"
        )
    return figures(told.items(), first=False)


def _rounding(release: Release) -> dict[str, str]:
    """What round ends add to the loss, where no round ends are within what they may add."""
    from sfumato.hierarchy.ranges import MOST_MORE

    told = release.details.get("round_ends")
    if told is None or told["more"] <= MOST_MORE:
        return {}
    return {"more by round ends": f"{told['more']:.1%}  (--exact-ends: none)"}


def _parts(planned: Mapping[str, Any]) -> str:
    """How many parts there were, and what their borders cost where that is known."""
    least, most = planned["rows"]
    fewer = planned["parts"] < planned["parts_asked"]
    wanted = f" (of {planned['parts_asked']:,} wanted)" if fewer else ""
    told = f"{planned['parts']:,}{wanted}, of {least:,} to {most:,} rows"
    if "sample_loss_in_parts" in planned:
        as_one, cut = planned["sample_loss_as_one"], planned["sample_loss_in_parts"]
        told += f"; a sample loses {cut:.4f} within them, {as_one:.4f} as one"
    return told


def _of_the_method(release: Release) -> dict[str, str]:
    """What only some methods can say."""
    told: dict[str, str] = {}
    details = release.details
    if "linkable" in details:
        told |= _price_of_histories(details["linkable"])
    if "loss_before" in details and "start" in details:
        rounds = counted(details["rounds"], "round")
        told["search"] = (
            f"{details['loss_before']:.4f} by {details['start']}, "
            f"{details['loss_after']:.4f} after {rounds}"
        )
        if "finished" in details:
            told["search"] += f"; it ended because {details['finished']}"
        if abs(release.utility.get("ncp", 0.0) - details["loss_after"]) > 1e-9:
            told["search"] += ", with exact ends"
    if release.lower_bound is not None and "loss_after" in details:
        told["proven"] = f"no recoding with these trees loses less than {release.lower_bound:.4f}"
    if "sampled_ranks" in details:
        told["quantiles"] = _sampled(details["sampled_ranks"])
    if "like" in details:
        told |= _kept_groups(details["like"], details.get("together", ()))
    if "in_parts" in details:
        told["solved in parts"] = _parts(details["in_parts"])
    if "several_sets" in details:
        told["sets that share columns"] = _several_sets(details["several_sets"])
    if "levels" in details:
        told["levels"] = ", ".join(f"{name} {level}" for name, level in details["levels"].items())
    if details.get("proven_optimum"):
        told["price of the stars"] = f"{details['cost']:g}, proven to be the least"
    elif release.lower_bound is not None and "cost" in details:
        told["price of the stars"] = (
            f"{details['cost']:g}, proven to be at least {release.lower_bound:g}"
        )
    return told


def _price_of_histories(price: Mapping[str, Any]) -> dict[str, str]:
    """What it cost that histories stay whole."""
    told = {
        "rows of histories left out": f"{price['rows_left_out']:,} of {price['rows']:,}",
        "persons left out": f"{price['persons_left_out']:,} of {price['persons']:,}",
    }
    if price["rows_shown_once"]:
        told["shown by a row alike"] = f"{price['rows_shown_once']:,} of the rows left out"
    named = {"ncp_own": "loss of own columns", "ncp_events": "loss of other columns"}
    how = "  (rows shown by one alike count as it)" if price["rows_shown_once"] else ""
    told |= {say: f"{price[key]:.4f}{how}" for key, say in named.items() if price[key] is not None}
    if price["support_error"] is not None:
        told["persons with common events"] = f"{price['support_error']:.1%} relative error"
    return told


def _kept_groups(like: Mapping[str, Any], together: Sequence[Finding]) -> dict[str, str]:
    """What was kept of an earlier release, and what holds of both."""
    kept = (
        f"{counted(like['rows_in_kept_groups'], 'row')} in {like['groups_kept']:,} of its "
        f"{like['groups']:,} groups; {counted(like['rows_in_new_groups'], 'row')} in "
        f"{like['new_groups']:,} new groups; {like['rows_left_out']:,} left out"
    )
    checked = "; ".join(finding.say for finding in together)
    return {
        f"like {like['release']}": kept,
        "both together": checked or "not checked: a recoding has no rows; use --like",
    }


def _several_sets(how: Mapping[str, Any]) -> str:
    """How sets with common columns were solved, and what that saved."""
    if how["by"] == "union":
        why = how.get("why") or f"two stages would lose {how['loss_in_two_stages']:.4f}"
        return f"solved as their union; {why}"
    if "loss_of_union" not in how:
        return f"solved by {how['by']}"
    return f"solved in {how['by']}; their union would lose {how['loss_of_union']:.4f}"


def _risks(release: Release) -> RenderableType:
    from rich.text import Text

    found: Sequence[Risk] = release.details.get("risk") or ()
    persons, linked = "persons" in release.details, release.details.get("linkable")
    if not found and persons:
        return Text(
            "Not told: a person is as exposed as the worst of their rows, and they may lie in "
            "several parts."
        )
    if not found:
        return Text("Not told.")
    table = listed(("attacker", ">before", ">after", "by"))
    if linked and release.k:
        rows = "all rows" if linked["m"] == "all" else counted(linked["m"], "row")
        known = f"own columns and {rows}"
        table.add_row("prosecutor", "–", _share(1 / release.k), known)
    for before in found:
        after = before.after
        assert after is not None
        names = ", ".join(before.qi) + (" of one row" if linked else "")
        table.add_row("prosecutor", _share(before.prosecutor), _share(after.prosecutor), names)
        table.add_row("marketer", _share(before.marketer), _share(after.marketer), "")
        who = "rows" if before.persons is None else "persons"
        above = f"{who} above {before.threshold:g}"
        table.add_row(above, _share(before.share_above), _share(after.share_above), "")
    return table


def _ending(release: Release, besides: Mapping[str, str]) -> str:
    from sfumato.release.certificate import certificate_path

    if release.output is not None:
        lines = [
            f"Written and verified: {release.output}",
            f"Its certificate: {certificate_path(release.output)}",
        ]
    elif besides:
        lines = ["The release was not written; give -o FILE to publish."]
    else:
        lines = ["Nothing was written; give -o FILE to publish."]
    return "\n".join([*lines, *(f"{what} written: {place}" for what, place in besides.items())])


def _numbers(figures: Any) -> str:
    def written(value: Any) -> str:
        if value is None:
            return "–"
        if isinstance(value, str):
            return value
        return format(value, ",.0f" if float(value).is_integer() else ".4g")

    return ", ".join(f"{name} = {written(value)}" for name, value in figures.items())


def _share(risk: float | None) -> str:
    return "–" if risk is None else hundredths(risk)
