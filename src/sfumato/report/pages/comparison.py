"""A release beside the table it was made of: cells, distributions, and what it is still good for.

Where the method's own mapping is at hand, every cell is followed from its value to its label. A
release that was read from its files is compared by the rows that hold each text before and after:
the two agree unless a label is spelled like another value.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.engines.recoding import Parted, Recoding, Step
from sfumato.errors import HierarchyError
from sfumato.hierarchy import Hierarchy, ValueSets
from sfumato.release.publish import Release
from sfumato.report import charts
from sfumato.report.disclosure import (
    MOST_DISTINCT,
    as_text,
    common_values,
    counts_of,
    is_number,
    number_ends,
    numeric_bins,
    only_common,
)
from sfumato.report.page import Figure, Grid, Page, Section
from sfumato.risks import Alike, alike
from sfumato.tables import Table, table
from sfumato.utility.comparison import Utility
from sfumato.utility.usefulness import Accuracy, Contingency
from sfumato.wording import counted, percent, phrase, unit_of

STAR = "*"
MISSING = "missing"
MARKED = "__suppressed"
"""Ends the name of a column that tells stars from nulls in another."""
MOST_PAIRS = 20_000_000
"""Pairs of a value and a label that are counted one by one; beyond, those that occur are sorted."""
Text = str | None
Moves = dict[tuple[Text, Text], int]
"""Rows by what their cell said before and says now; rows that were left out are not among them."""
MOST_COLUMNS = 40
"""Columns whose cells are compared."""
MOST_DISTRIBUTIONS = 8
"""Columns whose distributions are drawn."""
ENOUGH = 0.2
"""Share of the rows that the values of a picture must hold between them."""


@dataclass(frozen=True, eq=False)
class Compared:
    """The table before and after."""

    before: Table
    after: Table
    known: tuple[str, ...]
    """Columns others may know; some of them may have been left out of the release."""
    sizes: Mapping[str, Alike]
    recoding: Recoding | Parted | None = None
    sets: tuple[tuple[str, ...], ...] = ()
    """Sets of columns that others may know, as they are before."""
    begun: frozenset[str] = frozenset()
    """Columns of which the release shows how their values begin."""
    trees: Mapping[str, Hierarchy] = field(default_factory=dict)
    """Trees whose labels the release may show, where the mapping is not at hand."""
    of: str = "listed"
    """Which columns are `known`: those others may know where that was said, else all there are."""
    _moves: dict[str, Moves | None] = field(default_factory=dict)

    @property
    def both(self) -> tuple[str, ...]:
        """Columns others may know that are in the release."""
        return tuple(name for name in self.known if name in self.after.columns)

    def is_small(self, name: str) -> bool:
        """Whether the column has few enough values to look at each of them."""
        return self.before.class_sizes([name]).classes <= MOST_DISTINCT

    def fate(self, name: str) -> dict[str, float]:
        """Shares of a column's cells by what became of them."""
        rows = self.before.rows
        if name not in self.after.columns:
            return {"left out": 1.0}
        gone = rows - self.after.rows
        moves = self.moves(name)
        if moves is None:
            exact, starred = self._counted(name)
        else:
            exact = sum(n for (was, now), n in moves.items() if was == now)
            starred = sum(n for (was, now), n in moves.items() if was != now and _is_star(now))
        blurred = max(0, rows - gone - exact - starred)
        found = {"as it was": exact, "blurred": blurred, "starred": starred, "left out": gone}
        return {fate: count / rows for fate, count in found.items()}

    def _counted(self, name: str) -> tuple[int, int]:
        """Cells that are as they were, and starred ones, as far as counts tell."""
        before, after = self.texts("before", name), self.texts("after", name)
        marked = self._marked(name)
        if marked is not None:  # of nulls it is said which are stars
            after[None] = after.get(None, 0) - marked
            exact = sum(min(n, after.get(text, 0)) for text, n in before.items())
            return exact, marked
        exact = sum(min(n, after.get(text, 0)) for text, n in before.items())
        # New stars, and new nulls in columns that cannot hold a star.
        stars = [text for text in after if _is_star(text)]
        starred = sum(max(0, after[text] - before.get(text, 0)) for text in stars)
        return exact, starred

    def _marked(self, name: str) -> int | None:
        """Stars of a column that shows them as nulls beside nulls of its own."""
        if f"{name}{MARKED}" not in self.after.columns:
            return None
        values, counts = counts_of(self.after, f"{name}{MARKED}")
        return int(counts[np.asarray(values.fill_null(False))].sum())

    def texts(self, which: str, name: str) -> dict[Text, int]:
        """Rows that hold each text of a column."""
        source: Table = getattr(self, which)
        values, counts = counts_of(source, name)
        return dict(zip(as_text(values), counts.tolist(), strict=True))

    def spread(self, name: str) -> dict[Text, float]:
        """Rows of each value of a column in the release, as its reader would reckon them.

        A blurred cell counts in equal parts for the values that its label stands for, of which
        a missing one is one; stars and labels nobody can tell the members of count for none.
        """
        values, _ = counts_of(self.before, name)
        members = self._members(name, values)
        found: dict[Text, float] = dict.fromkeys(as_text(values), 0.0)
        for label, rows in self._told(name).items():
            inside = members.get(label, ())
            for value in inside:
                found[value] += rows / len(inside)
        return found

    def _told(self, name: str) -> dict[Text, int]:
        """Rows of each text of a column in the release; nulls that are stars are not among them."""
        found, moves = self.texts("after", name), self.moves(name)
        if moves is not None:
            found[None] = moves.get((None, None), 0)
        elif (marked := self._marked(name)) is not None:
            found[None] = found.get(None, 0) - marked
        else:
            found[None] = min(found.get(None, 0), self.texts("before", name).get(None, 0))
        return found

    def numbers(self, name: str) -> dict[Text, float]:
        """Rows of each number or range of a column in the release.

        A label that is neither, or a number that stands for others, such as the first digits of a
        code, counts in equal parts for the numbers it stands for.
        """
        members = self._members(name, counts_of(self.before, name)[0])
        found: dict[Text, float] = defaultdict(float)
        for label, rows in self._told(name).items():
            known = name not in self.begun and number_ends(label, whole=False) is not None
            inside = (label,) if known else members.get(label, ())
            for value in inside:
                found[value] += rows / len(inside)
        return found

    def _members(self, name: str, values: pa.Array) -> dict[Text, Sequence[Text]]:
        """The values that each label stands for."""
        moves = self.moves(name)
        if moves is not None:
            inside: dict[Text, list[Text]] = defaultdict(list)
            for was, now in moves:
                if was == now or not _is_star(now):
                    inside[now].append(was)
            return dict(inside)
        texts = as_text(values)
        found: dict[Text, Sequence[Text]] = {text: (text,) for text in texts}
        sets = ValueSets(values, name)
        grouped = _grouped(self.trees[name]) if name in self.trees else {}
        for label in self.texts("after", name):
            if label is None or label in found or _is_star(label):
                continue
            if label in grouped:
                found[label] = [text for text in texts if text in grouped[label]]
                continue
            if name in self.begun:
                found[label] = [text for text in texts if text and text.startswith(label)]
            elif label.startswith("{"):
                found[label] = _set_of(sets, label, texts)
        return found

    def unknown(self, name: str) -> bool:
        """Whether there are labels of which nobody here knows what they stand for."""
        if self.moves(name) is not None:
            return False
        values, _ = counts_of(self.before, name)
        known, numbers = self._members(name, values), is_number(values.type)
        return any(
            rows and not known.get(label) and not _is_star(label)
            and not (numbers and number_ends(label, whole=False))
            for label, rows in self._told(name).items()
        )  # fmt: skip

    def moves(self, name: str) -> Moves | None:
        """What each cell of a column became, where the mapping of the method is at hand."""
        if name not in self._moves:
            self._moves[name] = self._followed(name)
        return self._moves[name]

    def _followed(self, name: str) -> Moves | None:
        steps = self.recoding.steps if self.recoding is not None else ()
        step = next((s for s in steps if name in s.cells and name in s.match.columns), None)
        if step is None:
            return None
        found = _moves_of(step, name)
        # Where other steps leave rows out, this one alone does not tell which.
        return found if sum(found.values()) == self.after.rows else None


def _moves_of(step: Step, name: str) -> Moves:
    if step.first is not None and step.last is not None:
        rows = step.last - step.first
    else:
        counts = step.match.counts
        rows = np.ones(step.match.entries, np.int64) if counts is None else counts
    kept = np.ones(len(rows), np.bool_) if step.keep is None else step.keep
    was, now = as_text(step.match.values_of(name)), as_text(step.cells[name].values)
    shown = step.cells[name].codes.astype(np.int64)
    marks = step.cells.get(f"{name}{MARKED}")
    if marks is not None:  # a null that was starred is a star, also where there was a null before
        now.append(STAR)
        starred = np.asarray(marks.values.fill_null(False))[marks.codes]
        shown = np.where(starred, len(now) - 1, shown)
    pairs = step.match.column(name).astype(np.int64) * len(now) + shown
    if len(was) * len(now) <= MOST_PAIRS:
        all_held = np.bincount(pairs[kept], weights=rows[kept])
        seen = np.flatnonzero(all_held)
        held = all_held[seen].astype(np.int64)
    else:
        seen, place = np.unique(pairs[kept], return_inverse=True)
        held = np.bincount(place, weights=rows[kept], minlength=len(seen)).astype(np.int64)
    found: Moves = defaultdict(int)
    for pair, n in zip(seen.tolist(), held.tolist(), strict=True):
        before, after = divmod(pair, len(now))
        found[was[before], now[after]] += n
    return dict(found)


def _is_star(text: Text) -> bool:
    """Whether a cell says nothing: stars, several where the column holds one, or nothing at all."""
    return text is None or bool(text and not text.strip(STAR))


def _grouped(tree: Hierarchy) -> dict[Text, set[Text]]:
    """The values under every label of a tree; of a label on several levels, all of them."""
    leaves, *levels = (as_text(level) for level in tree.levels())
    found: dict[Text, set[Text]] = defaultdict(set)
    for level in levels:
        for leaf, label in zip(leaves, level, strict=True):
            found[label].add(leaf)
    return found


def _set_of(sets: ValueSets, label: str, texts: Sequence[Text]) -> list[Text]:
    try:
        _, members = sets.read(pa.array([label]))
    except HierarchyError:
        return []
    return [texts[code] for code in members.tolist()]


@contextmanager
def comparison_of(found: Release, original: Table | None) -> Iterator[Compared | None]:
    """Both tables where they are at hand; a written release is read from where it lies."""
    before = found.source if found.source is not None else original
    if before is None or (found.table is None and found.destination is None):
        yield None
        return
    opened = None
    try:
        after = found.table
        if after is None:
            assert found.destination is not None
            after = opened = table(found.destination)
        yield _compared(found, before, after)
    finally:
        if opened is not None:
            opened.close()


def _compared(found: Release, before: Table, after: Table) -> Compared:
    """Columns others may know, and how many look alike by them before and after."""
    sets = found.qi or found.asked.get("qi") or (after.columns,)
    # Where a method chose the columns, those it left out were known to others before.
    gone = [n for n in found.details.get("dropped", ()) if n != found.asked.get("person")]
    gone = gone if "published" in found.details else []
    named = {name for one in sets for name in one} | set(gone)
    known = tuple(name for name in before.columns if name in named)
    then = tuple(tuple(n for n in known if n in one or n in gone) for one in sets)
    now = [[name for name in one if name in after.columns] for one in sets]
    sizes = {"before": alike(before, then), "after": alike(after, now)}
    trees = found.details.get("trees", {})
    of = "others may know" if found.asked.get("qi") else "listed"
    return Compared(before, after, known, sizes, found.mapping, then, _begun(found), trees, of)


def _begun(found: Release) -> frozenset[str]:
    """Columns of which Safe Harbor left the first digits."""
    body = found.certificate.body if found.certificate is not None else {}
    promises = [*body.get("promises", ()), *(one.to_dict() for one in found.promises)]
    forms = [one.get("forms", {}) for one in promises]
    return frozenset(name for one in forms for name, form in one.items() if form == "zip")


def fates_of_columns(compared: Compared) -> Section | None:
    rows = compared.before.rows
    if not rows:
        return None
    drawn = [name for name in compared.known if compared.is_small(name)][:MOST_COLUMNS]
    if not drawn:
        return None
    fates = {name: compared.fate(name) for name in drawn}
    figure = Figure(
        "What happened to each column",
        f"Cells of each column {compared.of}: published as they were, blurred into a range or "
        "group, starred, or left out with their row or column.",
        charts.column_fates("Cells as they were, blurred, starred and left out", fates),
    )
    rest = len(compared.known) - len(fates)
    words = [f"{rest} more columns are not drawn."] if rest > 0 else []
    return Section("What it cost, and where", words, [figure])


def distributions(compared: Compared) -> list[Section]:
    """Distributions before and after, of columns that changed, without values that few hold.

    Of many columns those that moved most are drawn; of the others it is said how far they moved.
    """
    found: dict[str, tuple[float, Figure]] = {}
    same, bare, unread = [], [], []
    for name in compared.both:
        if not compared.is_small(name):
            bare.append(name)
        elif compared.fate(name).get("as it was") == 1:
            same.append(name)
        elif compared.unknown(name):
            unread.append(name)
        elif (drawn := _shape(compared, name)) is not None:
            found[name] = drawn
        else:
            bare.append(name)
    most = sorted(found, key=lambda name: -found[name][0])[:MOST_DISTRIBUTIONS]
    figures = [figure for name, (_, figure) in found.items() if name in most]
    rest = {name: moved for name, (moved, _) in found.items() if name not in most}
    words, grids = [], []
    if rest:
        words.append(
            f"{len(figures)} of the {len(found):,} distributions that changed are drawn, those "
            "that moved most; the table says how far the others moved."
        )
        grids.append(
            Grid(
                ("not drawn", "rows that would have to move (of numbers: from bar to bar)"),
                [
                    (name, "–" if math.isinf(moved) else percent(moved))
                    for name, moved in rest.items()
                ],
                frozenset({1}),
            )
        )
    if figures:
        words.append(
            "Shares on each side are compared, so that rows that were left out matter only as far "
            "as they change them. A blurred cell counts in equal parts for the values, or evenly "
            "over the range, that it stands for; a starred one counts for none. A missing value is "
            "a value of its own, but for numbers, where it counts for none."
        )
    if same:
        words.append(f"Every cell of {phrase(same)} is as it was.")
    if bare:
        words.append(
            "Not drawn, since a picture of the commonest values would show too little: "
            f"{phrase(bare)}."
        )
    if unread:
        words.append(
            "Not drawn, since only whoever made the release knows what its labels stand for: "
            f"{phrase(unread)}."
        )
    if not words:
        return []
    return [Section("Distributions before and after", words, figures, grids)]


def _shape(compared: Compared, name: str) -> tuple[float, Figure] | None:
    """How far a column moved, and its picture; None where it would show hardly anything."""
    values, rows = counts_of(compared.before, name)
    whose = unit_of("row", 2).capitalize()
    if is_number(values.type):
        numbers = np.asarray(pc.cast(values, pa.float64(), safe=False).fill_null(np.nan))
        finite = np.isfinite(numbers)
        bins = only_common(numeric_bins(numbers[finite], rows[finite], compared.numbers(name)))
        if len(bins) < 2:
            return None
        moved = _moved([(b, a) for _, _, b, a in bins])
        return moved, Figure(
            name,
            f"{whose} by {name} in the table (grey) and in the release (line). The few beyond "
            "either end are counted in the last bars; a bar that few would hold is joined with the "
            f"next. {_apart(moved, ' from bar to bar')}",
            charts.histogram(
                f"Distribution of {name} before and after",
                bins,
                name,
                whole=bool((numbers[finite] == np.floor(numbers[finite])).all()),
            ),
        )
    missing = MISSING
    while missing in compared.texts("before", name):  # a value that is spelled like it
        missing = f"({missing})"
    held = {
        missing if text is None else text: n for text, n in compared.texts("before", name).items()
    }
    released = {missing if text is None else text: n for text, n in compared.spread(name).items()}
    shown, hidden = common_values(held, released)
    if sum(share for _, share, _ in shown) < ENOUGH:
        return None
    more = f" {counted(hidden, 'rarer value', does='are not shown')}." if hidden else ""
    moved = _moved([(n, released[text]) for text, n in held.items()])
    return moved, Figure(
        name,
        f"{whose} by {name} in the table (grey) and in the release (blue).{more} {_apart(moved)}",
        charts.distribution(f"Distribution of {name} before and after", shown),
    )


def _moved(pairs: Sequence[tuple[float, float]]) -> float:
    """How far two distributions lie apart: the share of rows that would have to move.

    Without end where nothing is left to compare.
    """
    first, then = sum(b for b, _ in pairs), sum(a for _, a in pairs)
    return sum(abs(b / first - a / then) for b, a in pairs) / 2 if then else math.inf


def _apart(moved: float, how: str = "") -> str:
    """The same in words."""
    if math.isinf(moved):
        return "Nothing of it is left in the release."
    if moved < 1e-9:
        return f"The two are the same{how}."
    who = unit_of("row", 2)
    return f"To turn one into the other, {percent(moved)} of the {who} would have to move{how}."


def utility_summary(found: Utility) -> Page:
    """What is said of the usefulness of a release first."""
    said = f"{percent(found.certainty_penalty)} of the precision of these columns is lost."
    learned = found.accuracy
    if learned is not None:
        said += (
            f" A classifier predicts {percent(learned.released)} of the rows right from the "
            f"release, {percent(learned.original)} from the original, and always guessing the "
            f"commonest {percent(learned.baseline)}."
        )
    elif found.majority_penalty is not None:
        said += (
            " Nothing was learned to predict the target: that takes scikit-learn, two rows, and "
            "another column."
        )
    facts = [
        ("precision lost", percent(found.certainty_penalty)),
        ("average class size by these columns", f"{found.average_class_size:,.1f}"),
        ("rows left out", f"{found.suppressed_rows:,}"),
        ("cells that tell nothing", f"{found.suppressed_cells:,}"),
    ]
    if found.majority_penalty is not None:
        facts.append(("unlike the majority of their class", percent(found.majority_penalty)))
    return Page(
        title="What it is still good for",
        subtitle="A release beside the table it was made of",
        verdict=said,
        tone="warn" if found.certainty_penalty > 0.3 or _forgot(learned) else "good",
        facts=facts,
    )


def _forgot(learned: Accuracy | None) -> bool:
    """Whether a classifier lost more than half of what it knows beyond guessing."""
    if learned is None or learned.original <= learned.baseline:
        return False
    return learned.released - learned.baseline < (learned.original - learned.baseline) / 2


def utility_page(found: Utility) -> Page:
    """The page of the usefulness of a release."""
    sections = [*_learned(found), _columns(found), *_numbers(found)]
    if found.contingency is not None:
        sections.append(_together(found.contingency))
    return replace(utility_summary(found), sections=sections)


def _learned(found: Utility) -> list[Section]:
    learned = found.accuracy
    if learned is None:
        return []
    shown = {
        "from the original": learned.original,
        "from the release": learned.released,
        "by guessing the commonest": learned.baseline,
    }
    figure = Figure(
        "Rows whose target is predicted right",
        f"Naive Bayes on the other columns that were compared, tested on rows it had not seen "
        f"({learned.folds} folds).",
        charts.shares("Rows predicted right", shown, what="rows predicted right"),
    )
    return [Section("What can still be learned", figures=[figure])]


def _columns(found: Utility) -> Section:
    words = (
        "Precision lost: 0% where every cell is exact, 100% where it says nothing. Distribution "
        "moved: the share of the rows that would have to change their value to give the released "
        "distribution, in which a blurred cell counts in equal parts for the values it covers."
    )
    rows = [
        (name, percent(lost), percent(found.distribution[name]))
        for name, lost in found.columns.items()
    ]
    heads = ("column", "precision lost", "distribution moved")
    return Section("Column by column", [words], grids=[Grid(heads, rows, frozenset({1, 2}))])


def _numbers(found: Utility) -> list[Section]:
    if not found.statistics:
        return []
    rows = [
        (name, *(f"{getattr(one, part):,.6g}" for part in _PARTS))
        for name, one in found.statistics.items()
    ]
    heads = ("column", "mean", "released", "standard deviation", "released", "median", "released")
    grid = Grid(heads, rows, frozenset(range(1, 7)))
    words = "A released cell counts in equal parts for the original values that it covers."
    return [Section("Numbers before and after", [words], grids=[grid])]


_PARTS = ("mean", "released_mean", "deviation", "released_deviation", "median", "released_median")


def _together(found: Contingency) -> Section:
    """The table of two columns: rows before and after in every cell."""
    one, other = found.columns
    words = [
        f"Rows by {one} (down) and {other} (across), before → after. A released cell counts in "
        "equal parts for the values it covers; values that few rows hold are under others."
    ]
    if found.association is not None and found.released_association is not None:
        words.append(
            f"Association (Cramér\u2019s V): {found.association:.3f} before, "
            f"{found.released_association:.3f} after; 0 where one column says nothing of the "
            "other, 1 where it says all."
        )
    rows = [
        (name, *(f"{b:,.0f} → {_rows(a)}" for b, a in zip(before, after, strict=True)))
        for name, before, after in zip(found.names[0], found.before, found.after, strict=True)
    ]
    grid = Grid((one, *found.names[1]), rows, frozenset(range(1, len(found.names[1]) + 1)))
    return Section(f"{one} and {other} together", words, grids=[grid])


def _rows(number: float) -> str:
    return f"{number:,.1f}".removesuffix(".0")
