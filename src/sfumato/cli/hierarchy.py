"""``sfumato hierarchy``: look at generalization hierarchies, and make them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree as Drawing

from sfumato.cli._options import (
    Columns,
    Force,
    argument,
    examples,
    flag,
    new_app,
    option,
    parse_numbers,
    setting,
)
from sfumato.cli._running import Run, listed, table_verb, verb
from sfumato.errors import ParameterError
from sfumato.results import Result
from sfumato.wording import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.hierarchy import Hierarchy
    from sfumato.hierarchy.hierarchy import HierarchySummary

app = new_app(help="Show and make generalization hierarchies.", no_args_is_help=True)

WAYS = "Ways to cut"


Kind = Literal["auto", "intervals", "frequency", "prefixes", "dates", "order", "flat"]
"""Ways to make a hierarchy."""
_USED_BY = {
    "width": ("intervals",),
    "count": ("intervals", "frequency"),
    "edges": ("intervals",),
    "keep": ("prefixes",),
    "levels": ("dates",),
    "fanout": ("intervals", "frequency", "order"),
}
"""The ways of making a hierarchy that look at each option."""


@app.command(
    epilog=examples(
        "sfumato hierarchy show trees/zip.csv",
        "sfumato hierarchy show animals.csv --taxonomy --values",
    )
)
@verb
def show(
    run: Run,
    file: Annotated[Path, argument("FILE", "A hierarchy file.")],
    taxonomy: Annotated[bool, flag("--taxonomy", "The file holds pairs: child,parent.")] = False,
    values: Annotated[bool, flag("--values", "Draw the values, too.")] = False,
    width: Annotated[int, setting("--width N", "Branches to draw below a node.", min=1)] = 12,
) -> None:
    """Check a hierarchy file and draw it.

    Files are in ARX's form: one line per value, with the value first and ever more general labels
    after it, separated by semicolons. Errors name the line.
    """
    from sfumato.hierarchy import read_arx, read_taxonomy
    from sfumato.hierarchy.hierarchy import describe

    found = read_taxonomy(file) if taxonomy else read_arx(file)
    run.show(describe(found, file.stem), lambda told: _picture(found, told, values, width))


@dataclass(frozen=True)
class Made(Result):
    """The hierarchies that were made."""

    hierarchies: tuple[HierarchySummary, ...]


@app.command(
    epilog=examples(
        "sfumato hierarchy make people.csv -c cost,zip -o trees",
        "sfumato hierarchy make people.csv -c cost --kind intervals --width 50 -o trees",
        "sfumato hierarchy make people.csv -c zip --kind prefixes --keep 3,2 -o trees",
    )
)
@table_verb
def make(
    run: Run,
    columns: Columns = None,
    folder: Annotated[
        Path | None,
        option("--output -o FOLDER", "Where to write COLUMN.csv; without it nothing is written."),
    ] = None,
    kind: Annotated[
        Kind, setting("--kind", "How to make them; [bold]auto[/bold] looks at values.")
    ] = "auto",
    width: Annotated[
        float | None, setting("--width", "Width of the finest intervals.", WAYS)
    ] = None,
    count: Annotated[int | None, setting("--count", "How many intervals or groups.", WAYS)] = None,
    edges: Annotated[str | None, setting("--edges 18,65", "Where to cut.", WAYS)] = None,
    keep: Annotated[str | None, setting("--keep 3,2", "Characters to keep of codes.", WAYS)] = None,
    levels: Annotated[
        str | None,
        setting("--levels month,year", "Of dates: day, month, quarter, year, decade.", WAYS),
    ] = None,
    fanout: Annotated[
        int | None, option("--fanout", "Groups that become one; 2 unless given.", WAYS, min=2)
    ] = None,
    force: Force = False,
) -> None:
    """Make hierarchies from the values of a table.

    By default it cuts numbers into intervals and dates by the calendar, and masks codes from the
    right; it says why. The files are in ARX's form, for you to read and edit.
    """
    from sfumato.hierarchy import write_arx
    from sfumato.hierarchy.hierarchy import describe

    names = run.columns(columns)
    if names is None:
        raise ParameterError("no columns were named", remedy="Name some, e.g. -c age,zip")
    places = {name: None if folder is None else _place(folder, name) for name in names}
    if folder is not None:
        _check_places(run, folder, places.values(), force)
    options = {
        "width": width,
        "count": count,
        "edges": parse_numbers(edges, "--edges 30,50,70"),
        "keep": parse_numbers(keep, "--keep 3,2", int),
        "levels": None if levels is None else [part.strip() for part in levels.split(",")],
        "fanout": fanout,
    }
    _refuse_unused(kind, options)
    made = []
    for name in names:
        found = run.table.values(name)
        tree, reason = _build(kind, name, found.values[0], found.counts, options)
        made.append((name, tree, reason))
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    told = []
    for name, tree, reason in made:
        place = places[name]
        if place is not None:
            write_arx(tree, place)
        told.append(describe(tree, name, reason, None if place is None else str(place)))
    run.show(Made(tuple(told)), _listing)


def _check_places(run: Run, folder: Path, places: Iterable[Path | None], force: bool) -> None:
    """Refuse to write over the table, or over other files unasked."""
    from sfumato.engines.writing import check_destination

    if folder.exists() and not folder.is_dir():
        raise ParameterError(
            "this is a file, and hierarchies are written into a folder",
            where=str(folder),
            remedy="Name a folder, e.g. -o hierarchies.",
        )
    for place in places:
        if place is not None and folder.is_dir():
            check_destination(str(place), inputs=[str(run.source)], force=force)


def _refuse_unused(kind: Kind, options: dict[str, Any]) -> None:
    """Refuse options that the way chosen does not look at."""
    for name, value in options.items():
        if value is not None and kind not in _USED_BY[name]:
            ways = " or ".join(f"--kind {way}" for way in _USED_BY[name])
            raise ParameterError(
                f"--{name} has no effect with --kind {kind}", remedy=f"Say {ways} as well."
            )


def _place(folder: Path, column: str) -> Path:
    """The file of a column; its name must not lead out of the folder."""
    place = folder / f"{column}.csv"
    if place.parent != folder or place.stem != column:
        raise ParameterError(
            f"a file cannot be named after column `{column}`",
            remedy="Tell without -o, or rename the column first.",
        )
    return place


def _build(
    kind: Kind, name: str, values: pa.Array, counts: Any, options: dict[str, Any]
) -> tuple[Hierarchy, str]:
    """The hierarchy asked for, and why it is as it is."""
    import sfumato.hierarchy as builders

    if kind == "auto":
        return builders.infer(name, values, counts)
    if kind == "frequency" and options["count"] is None:
        raise ParameterError("--kind frequency needs --count", remedy="E.g. --count 8")
    fanout, levels = options["fanout"] or 2, options["levels"] or builders.CALENDAR[1:]
    cuts = {one: options[one] for one in ("width", "count", "edges")}
    ways: dict[str, Callable[[], Hierarchy]] = {
        "intervals": lambda: builders.intervals(values, **cuts, fanout=fanout, name=name),
        "frequency": lambda: builders.equal_frequency(
            values, counts, groups=options["count"], fanout=fanout, name=name
        ),
        "prefixes": lambda: builders.prefixes(values, keep=options["keep"]),
        "dates": lambda: builders.dates(values, levels, name=name),
        "order": lambda: builders.neighbours(values, fanout),
        "flat": lambda: builders.flat(values),
    }
    return ways[kind](), f"as asked: {kind}"


def _listing(made: Made) -> RenderableType:
    drawn = listed(("column", "values", "height", "labels a level", "why", "file"))
    for found in made.hierarchies:
        drawn.add_row(
            found.name,
            f"{found.values:,}",
            str(found.height),
            " ".join(f"{number:,}" for number in found.labels),
            found.reason or "",
            found.file or "not written (-o FOLDER)",
        )
    return drawn


def _picture(
    hierarchy: Hierarchy, told: HierarchySummary, with_values: bool, width: int
) -> RenderableType:
    """The tree from its root downward, with the number of values below each node."""
    tree = hierarchy.tree
    labels = hierarchy.labels
    children: dict[int, list[int]] = {}
    for node, above in enumerate(tree.parent[:-1].tolist()):
        children.setdefault(above, []).append(node)

    def text(node: int) -> Text:
        line = Text(str(labels[node].as_py()))
        if node >= tree.size:
            line.append(f"  {int(tree.leaf_count[node]):,}", style="dim")
        return line

    drawn = Drawing(text(tree.root))
    waiting: list[tuple[int, Drawing]] = [(tree.root, drawn)]
    while waiting:
        node, branch = waiting.pop()
        below = sorted(children.get(node, []), key=lambda child: int(tree.first[child]))
        shown = [child for child in below if with_values or child >= tree.size]
        waiting.extend((child, branch.add(text(child))) for child in shown[:width])
        if len(shown) > width:
            branch.add(Text(f"… {len(shown) - width:,} more", style="dim"))
    depth = "" if told.uniform else ", branches of unequal depth"
    title = Text(f"{counted(told.values, 'value')}, height {told.height}{depth}")
    notes: list[RenderableType] = [title, "", drawn]
    if told.ambiguous:
        notes += ["", f"{told.ambiguous:,} labels mean different things on different levels."]
    return Group(*notes)
