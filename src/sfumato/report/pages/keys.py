"""Pages of column sets that tell people apart: smallest, minimal, violations of k, risky rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sfumato.quasi.key import Key
from sfumato.quasi.minimal_keys import MinimalKeys
from sfumato.quasi.uniques import Uniques
from sfumato.quasi.violations import Violations
from sfumato.report import charts
from sfumato.report.diagrams import MOST_IN_LATTICE, lattice_svg, sets_svg
from sfumato.report.drawing import gauge
from sfumato.report.page import Figure, Grid, Page, Section
from sfumato.wording import counted, percent, phrase, sentence, unit_of


def _goal(goal: Mapping[str, Any], told: str = "rows") -> str:
    measure, least = goal.get("measure"), goal.get("at_least")
    if measure == "key" or least is None:
        return f"tell all {told} apart"
    return f"reach a {measure} ratio of {float(least):g}"


def key_summary(found: Key) -> Page:
    """What is said of a smallest key first."""
    m = found.measures
    least = "smaller" if found.weight == found.size else "cheaper"
    proven = f" No {least} set does." if found.proven_minimum else ""
    if not found.columns:
        verdict = "No columns are needed: the rows do not differ, or there are none."
    elif found.goal.get("met") is False and m is not None:
        measure = str(found.goal["measure"])
        enough = counted(found.size, "column", does="were enough for the sample")
        reach = "reaches" if found.size == 1 else "reach"
        verdict = (
            f"{enough}, but on all rows {phrase(found.columns)} {reach} a "
            f"{measure} ratio of {getattr(m, measure):.6g}, not {found.goal['at_least']:g}."
        )
    elif found.is_key:
        apart = counted(found.size, "column", does="tell everybody apart")
        verdict = f"{apart}: {phrase(found.columns)}.{proven}"
    else:
        enough = counted(found.size, "column", does=f"are enough to {_goal(found.goal)}")
        verdict = f"{enough}: {phrase(found.columns)}.{proven}"
    facts = [("columns", f"{found.size}")]
    if m is not None:
        facts += [("stand alone", f"{m.unique_rows:,}"), ("rows", f"{m.rows:,}"),
                  ("separation ratio", f"{m.separation:.6g}")]  # fmt: skip
    if found.sample is not None:
        facts.append((f"sampled {found.sample.unit}", f"{found.sample.size:,}"))
    return Page(
        title="One smallest identifying set",
        subtitle=f"Columns that {_goal(found.goal)}",
        verdict=verdict,
        tone="bad" if found.columns else "good",
        facts=facts,
        gauges=() if m is None else (gauge("stand alone", m.unique if m.rows else None),),
    )


def key_page(found: Key) -> Page:
    figures = [*_steps(found), *_promise(found)]
    paragraphs = [sentence(note) for note in found.notes]
    if found.lower_bound is not None and not found.proven_minimum:
        paragraphs.append(
            f"No set weighs less than {found.lower_bound:g}; this one weighs {found.weight:g}."
        )
    return replace(key_summary(found), sections=[Section("How it was found", paragraphs, figures)])


def _steps(found: Key) -> list[Figure]:
    """Pairs of rows still together after each step, as a share of those before the first."""
    pairs = [(str(step["column"]), _together(step)) for step in found.steps if "column" in step]
    known = [(name, n) for name, n in pairs if n is not None]
    if len(known) < 2 or len(known) != len(pairs) or not known[0][1]:
        return []
    first = known[0][1]
    shown = {name if at == 0 else f"+ {name}": n / first for at, (name, n) in enumerate(known)}
    return [
        Figure(
            "Each column tells more rows apart",
            f"Pairs of rows that still look alike after each column, as a share of the "
            f"{first:,.0f} that the first one leaves together.",
            charts.shares("Pairs of rows still together", shown, what="pairs still together"),
        )
    ]


def _together(step: Mapping[str, Any]) -> float | None:
    numbers = [v for k, v in step.items() if k != "column" and isinstance(v, (int, float))]
    return float(numbers[0]) if numbers else None


def _promise(found: Key) -> list[Figure]:
    sample = found.sample
    if sample is None or sample.promised is None or found.verified is False:
        return []
    name = f"{sample.measure} ratio"
    rows: list[tuple[str, float, float | None, float | None]] = [
        ("promised", sample.promised, sample.promised, 1.0)
    ]
    if found.measures is not None:
        exact = getattr(found.measures, sample.measure, None)
        if exact is not None:
            rows.append(("counted", float(exact), None, None))
    low = min(value for _, value, _, _ in rows)
    caption = (
        f"From {sample.size:,} sampled {sample.unit}: with probability {1 - sample.delta:g} the "
        f"{name} lies in the bar, at {sample.promised:g} or more."
    )
    if len(rows) > 1:
        caption += " The second point is what one exact pass over all rows counted."
    return [
        Figure(
            "What the sample promises",
            caption,
            charts.intervals(
                f"Promised and counted {name}",
                rows,
                what=name,
                domain=(max(0.0, low - 0.25 * (1 - low)), 1.0),
            ),
        )
    ]


def minimal_keys_summary(found: MinimalKeys) -> Page:
    """What is said of all minimal sets first."""
    sizes = Counter(len(names) for names in found.keys)
    told = unit_of("person", 2) if found.counted == "persons" else "rows"
    goal = _goal(found.goal, told)
    equal = found.duplicate_rows or (found.equal_pairs and found.goal.get("measure") == "key")
    if equal:  # nothing tells equal rows apart
        goal = f"tell {told} apart as well as all columns that were looked at do"
    if found.keys == ((),):
        verdict = f"No column is needed to {goal}."
    elif not found.keys:
        within = "" if found.max_size is None else f" of at most {found.max_size:,}"
        verdict = f"No set{within} of the columns that were looked at was found to {goal}."
    else:
        least = min(sizes)
        verdict = (
            f"{len(found.keys):,} minimal sets of columns {goal}; the smallest "
            f"{'has' if sizes[least] == 1 else 'have'} {counted(least, 'column')}, such as "
            f"{phrase(found.keys[0])}."
        )
        if len(found.keys) == 1:
            verdict = f"One minimal set was found to {goal}: {phrase(found.keys[0])}."
    if not found.complete:
        verdict += " There may be more." if found.keys else " Sets that were not looked at may."
    return Page(
        title="All minimal identifying sets",
        subtitle=f"Sets of columns that {goal} and lose that with any column less",
        verdict=verdict,
        tone="bad" if found.keys else "good" if found.complete else "warn",
        facts=(
            ("minimal sets", f"{len(found.keys):,}"),
            ("columns in them", f"{len({name for names in found.keys for name in names}):,}"),
            ("stand for", f"{found.represents:,}"),
            ("all of them", "yes" if found.complete else "no"),
            ("method", found.method),
        ),
    )


def minimal_keys_page(found: MinimalKeys) -> Page:
    paragraphs = [sentence(note) for note in found.notes]
    if found.delta is not None:
        paragraphs.append(f"Pruned on a sample: a set is missing with probability {found.delta:g}.")
    paragraphs += [
        f"In place of {name} one could also know {phrase(others)}: they say the same."
        for name, others in found.equivalents.items()
        if others
    ]
    looked = found.max_size if found.stopped_by is None else 0
    sections = _sets(found.keys, paragraphs, None if found.complete else looked)
    return replace(minimal_keys_summary(found), sections=sections)


def violations_summary(found: Violations) -> Page:
    """What is said of violations first."""
    if found.k_anonymous:
        verdict = f"No set of columns leaves anybody among fewer than {found.k} alike."
    else:
        verdict = f"The table is not {found.k}-anonymous: {_breaking(found)}."
    return Page(
        title=f"Violations of {found.k}-anonymity",
        subtitle="Sets of columns that break it, and do not with any column less",
        verdict=verdict,
        tone="good" if found.k_anonymous else "bad",
        facts=(
            ("smallest class (k)", "–" if found.smallest is None else f"{found.smallest:,}"),
            ("minimal sets", f"{len(found.minimal):,}"),
            ("all of them", "yes" if found.complete else "no"),
        ),
    )


def _breaking(found: Violations) -> str:
    """How many sets do it; where only small ones were looked at, larger ones may."""
    if found.minimal == ((),):
        return f"it has fewer than {found.k:,} {found.counted}, whatever is known of them"
    if not found.minimal:
        return "all columns together break it, and no smaller set that was looked at does"
    sets = counted(
        len(found.minimal), "minimal set of columns", many="minimal sets of columns",
        does=f"leave somebody among fewer than {found.k} alike",
    )  # fmt: skip
    return sets if found.complete else f"{sets}. There may be more"


def violations_page(found: Violations) -> Page:
    paragraphs = []
    if found.identifying:
        paragraphs.append(f"As telling as all columns together: {phrase(found.identifying)}.")
    paragraphs += [sentence(note) for note in found.notes]
    looked = max(map(len, found.minimal), default=0) if found.stopped_by is None else 0
    sections = _sets(found.minimal, paragraphs, None if found.complete else looked)
    return replace(violations_summary(found), sections=sections)


def _sets(
    sets: Sequence[Sequence[str]], paragraphs: Sequence[str], looked: int | None
) -> list[Section]:
    """Minimal sets as a picture, how large they are, and their names; see `lattice_svg`."""
    title = "The sets"
    ordered = sorted(sets, key=lambda names: (len(names), list(names)))
    columns = sorted({name for names in sets for name in names})
    if not columns:
        return [Section(title, paragraphs)] if paragraphs else []
    if len(columns) == 1:
        figures = []
    elif len(columns) <= MOST_IN_LATTICE:
        legend = ", ".join(f"{chr(ord('A') + at)} = {name}" for at, name in enumerate(columns))
        picture = lattice_svg(columns, ordered, f"Lattice of {len(columns)} columns", looked)
        unknown = 'class="unknown"' in picture
        told = " Dashed: they contain none that was found, and were not all looked at." * unknown
        figures = [
            Figure(
                "The lattice of column sets",
                f"Every set of the columns that matter, larger ones above. Filled: minimal sets. "
                f"Outlined: they contain one.{told} {legend}.",
                svg=picture,
            )
        ]
    else:
        figures = [
            Figure(
                "Which columns make a set",
                f"Each chain of dots is one minimal set, small ones first; the bars count in how "
                f"many of the {len(sets):,} sets a column occurs.",
                svg=sets_svg(ordered, f"Minimal sets of {len(columns)} columns"),
            )
        ]
    sizes = Counter(len(names) for names in sets)
    grid = Grid(
        ("columns in the set", "sets", "for example"),
        [
            (f"{size}", f"{sizes[size]:,}", phrase(next(n for n in ordered if len(n) == size)))
            for size in sorted(sizes)
        ],
        frozenset({1}),
    )
    share = {
        name: sum(name in names for names in sets) / len(sets) for name in columns
    }  # what leaving a column out would break
    high = max(share.values())
    most = [name for name in columns if share[name] == high]
    if len(most) == 1:
        said = f"{most[0]} is in {percent(high)} of the sets: leaving it out helps most."
    else:
        each = f"{phrase(most)} are in {percent(high)} of the sets each"
        said = f"{each}: leaving out any of them helps most."
    return [Section(title, [*paragraphs, said], figures, [grid])]


def uniques_summary(found: Uniques) -> Page:
    """What is said of risky rows first."""
    exposed, all_of, told = found.exposed_rows, found.rows, "rows"
    subtitle = f"{found.rows:,} rows"
    if found.persons is not None and found.exposed_persons is not None:
        exposed, all_of = found.exposed_persons, found.persons
        told = unit_of("person", 2)
        subtitle += f" of {found.persons:,} {unit_of('person', found.persons)}"
    share = exposed / all_of if all_of else 0.0
    few = (
        "one column singles" if found.max_size == 1 else f"{found.max_size} columns or fewer single"
    )
    how = ": one of their rows is like nobody else’s" if found.persons and exposed else ""
    return Page(
        title="Risky rows",
        subtitle=f"{subtitle} · sets of up to {counted(found.max_size, 'column')}",
        verdict=f"{few[0].upper()}{few[1:]} out {exposed:,} of {all_of:,} {told} "
        f"({percent(share)}){how}.",
        tone="bad" if exposed else "good",
        facts=(
            (f"exposed {told}", f"{exposed:,}"),
            ("right matches (DIS)", percent(found.dis)),
            ("complete", "yes" if found.complete else "no"),
        ),
        gauges=(gauge(f"exposed {told}", share),),
    )


def uniques_page(found: Uniques) -> Page:
    """The page of risky rows; no row is named."""
    if not found.rows:
        return uniques_summary(found)
    reached = {counted(at, "column"): _exposed_by(found, at) for at in range(1, found.max_size + 1)}
    who = "rows" if found.fewest is None else unit_of("person", 2)
    strongest = dict(sorted(found.columns.items(), key=lambda item: -item[1])[:40])
    figures = [
        Figure(
            "How few columns are enough",
            f"{who.capitalize()} that some set of at most so many columns singles out.",
            charts.shares(
                f"{who.capitalize()} singled out by few columns", reached, what=f"share of {who}"
            ),
        ),
        Figure(
            "Which columns do it",
            "How much of all rows' score comes from sets that contain the column; a set counts for "
            "each of its columns, so the shares add up to more than one.",
            charts.shares("Columns by their share of the score", strongest, what="share of score"),
        ),
    ]
    return replace(uniques_summary(found), sections=[Section("Who, and by what", figures=figures)])


def _exposed_by(found: Uniques, size: int) -> float:
    """The share of rows, or of persons, that sets of at most so many columns single out."""
    if found.fewest is not None:
        return float(((found.fewest > 0) & (found.fewest <= size)).mean())
    return int(((found.smallest > 0) & (found.smallest <= size)).sum()) / found.rows
