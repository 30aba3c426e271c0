"""The page of a release: what was promised, what it cost, and columns before and after.

Where the method's own mapping is at hand, every cell is followed from its value to its label. A
release that was read from its files is compared by the rows that hold each text before and after:
the two agree unless a label is spelled like another value.
"""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.budget import Budget
from sfumato.engines.recoding import Parted, Recoding, Step
from sfumato.errors import HierarchyError, ParameterError, shown
from sfumato.hierarchy import Hierarchy, ValueSets
from sfumato.kernels import class_ids, group_distinct, group_min
from sfumato.keyfiles import names_same
from sfumato.release.beside import (
    NEARLY_ALL,
    NOT_PROMISED,
    Linked,
    Owned,
    at_hand,
    beside,
    largest_shares,
    linked,
    pseudonyms_of,
    say_shared,
)
from sfumato.release.certificate import Certificate, certificate_path
from sfumato.release.publish import Release
from sfumato.release.verify import verify
from sfumato.report import charts
from sfumato.report.disclosure import (
    MOST_DISTINCT,
    as_text,
    common_values,
    counts_of,
    name_of,
    number_ends,
    numeric_bins,
    only_common,
)
from sfumato.report.page import AT_HOME, Figure, Grid, Light, Page, Section, Tone, tempered
from sfumato.report.pages.certificate import ALIKE, actions_of, persons_promised, unnamed
from sfumato.report.pages.risk import findings_grid, risk_gauges
from sfumato.risks import Alike, Risk, alike, risk_of_classes, risk_of_persons
from sfumato.tables import Table, table
from sfumato.wording import (
    among,
    at_most,
    counted,
    counting,
    percent,
    phrase,
    sentence,
    shortened,
    unit_of,
)

__all__ = [
    "Compared",
    "Inference",
    "certified_release",
    "inferences",
    "release_page",
    "release_picture",
    "release_summary",
    "worst_risk",
]


STAR = "*"
MISSING = "missing"
MARKED = "__suppressed"
"""Ends the name of a column that tells stars from nulls in another."""
MOST_PAIRS = 20_000_000
"""Pairs of a value and a label that are counted one by one; beyond, those that occur are sorted."""
Text = str | None
Moves = dict[tuple[Text, Text], int]
"""Rows by what their cell said before and says now; rows that were left out are not among them."""


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
        known, numbers = self._members(name, values), _is_number(values.type)
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


def certified_release(
    output: str | os.PathLike[str],
    original: Table,
    *,
    budget: Budget | None = None,
    population: Any = None,
    hierarchies: str | None = None,
) -> Release:
    """The release that lies at `output`, with its certificate beside it.

    Its promises are measured again; `findings` and `verified` are of now. A k-map takes the table
    of people, and the trees whose labels are shown.

    Raises
    ------
    ParameterError
        If the certificate is about another table than `original`.
    PromiseError
        If the certificate was altered.
    """
    certificate = Certificate.read(certificate_path(output))
    body = certificate.body
    same = names_same(body["input"]["fingerprint"], original.fingerprint())
    if same is False:
        raise ParameterError(
            "the release was made of another table",
            where=os.fspath(output),
            remedy=f"Give the table it was made of, {body['input']['name']}, unchanged.",
        )
    people = {} if population is None else {"population": population}
    checked = verify(os.fspath(output), budget=budget, hierarchies=hierarchies, **people)
    remarks = tuple(checked.not_promised.get("remarks", ()))
    own = {field.name for field in fields(Release)} - {"output", "certificate", "promises"}
    known = {name: body[name] for name in own if name in body}
    known["qi"] = tuple(tuple(names) for names in body.get("qi", ()))
    known["column_actions"] = actions = actions_of(body)
    details: dict[str, Any] = {}
    if unnamed(body) is not None:
        known["k"] = None  # the certificate counts rows
    if (persons := persons_promised(body)) is not None:
        details["persons_promised"] = persons
    if body["method"] == "mask":
        details["published"] = tuple(body["output"]["columns"])
        details["dropped"] = tuple(name for name in actions if actions[name] == "left out")
    return Release(
        **known,
        findings=checked.findings,
        verified=True,
        output=shown(output),
        destination=os.fspath(output),
        details=details,
        warnings=(*remarks, *(() if same else (NOT_RECOGNISED,))),
        certificate=certificate,
    )


NOT_RECOGNISED = (
    "whether the release was made of this table was not checked: the certificate names its input "
    "under another key"
)
PASS_ON = "Pass on the release and its certificate, which tell nothing that was hidden."
MOST_COLUMNS = 40
"""Columns whose cells are compared."""
MOST_DISTRIBUTIONS = 8
"""Columns whose distributions are drawn."""
ENOUGH = 0.2
"""Share of the rows that the values of a picture must hold between them."""
MEASURES = {
    "ncp": ("normalized certainty penalty", "precision lost, 0 to 1; 0: every cell is exact"),
    "information_loss": ("information loss", "how far cells were moved up their trees, summed"),
    "granularity": (
        "granularity",
        "detail kept as ARX counts it, 1 to 0: among all values of a tree, also those no row holds",
    ),
    "non_uniform_entropy": (
        "non-uniform entropy",
        "bits lost of all that could be, 0 to 1: common values cost less to blur than rare ones",
    ),
    "discernibility": ("discernibility", "each row pays for those it cannot be told from"),
    "weighted_discernibility_by_label": (
        "weighted discernibility, by label",
        "the same, column by column: a row pays for those that read like it",
    ),
    "average_class_size": ("average class size", "rows that look alike, on average"),
    "published_columns": ("published columns", "columns that are shown as they are"),
    "weight": ("weight", "how much the published columns matter, summed"),
}
"""Names and meanings of measures."""
OF_FIRST = ("discernibility", "average_class_size")
"""Measures that are those of the first of several sets of columns."""
ATTACKERS = (
    "The gauges show three attackers. The prosecutor knows that somebody is in the table, the "
    "journalist does not; both are judged by the row that is easiest to find. The marketer matches "
    "everybody, and is judged by the share of right matches."
)


OF_POPULATION = (
    "The gauges show two attackers. The prosecutor knows that somebody is in the table, and is "
    "judged by the row that is easiest to find. The marketer matches everybody, and is judged by "
    "the share of right matches. Whoever does not know who is in the table, and looks people up "
    "in the table of people that was given, finds at least {:,} for every row: a match is right "
    "with a chance of at most {}."
)


def release_summary(found: Release) -> Page:
    """What is said of a release first; nothing is measured again."""
    broken = [finding for finding in found.findings if finding.broken]
    tone: Tone = "good"
    if not found.verified:
        tone, verdict = "warn", "Not verified yet: the figures are those the method foresees."
    elif broken:
        tone = "bad"
        said = shortened("; ".join(finding.say for finding in broken), _lists(found))
        verdict = f"Do not publish it: {said}."
    elif undecided := found.details.get("undecided"):
        tone, which = "warn", phrase([f"`{name}`" for name in undecided])
        verdict = f"Not decided yet: whether {which} may be published. Nothing is written before."
    elif unchecked := [what for finding in found.findings for what in finding.unchecked]:
        tone = "warn"
        verdict = (
            "Nothing was found that breaks a promise, and not all of them were checked again: "
            f"{phrase(unchecked, len(unchecked))}."
        )
    else:
        promises = shortened("; ".join(f.say for f in found.findings), _lists(found))
        verdict = f"The release keeps its promises. {promises[:1].upper()}{promises[1:]}."
        if not promises:
            tone, verdict = "warn", "Nothing was promised of it."
    cost = found.utility.get("ncp")
    facts = [
        ("rows published", f"{found.rows:,}"),
        ("rows left out", f"{found.suppressed_rows:,}"),
        ("cells starred", f"{found.suppressed_cells:,}"),
        (ALIKE, _alike(found)),
    ]
    people = found.details.get("persons")
    if people:
        lost = people.get("left_out")  # in parts only counted once written
        facts[2:2] = [
            ("persons published", "–" if lost is None else f"{people['persons'] - lost:,}"),
            ("persons left out", "–" if lost is None else f"{lost:,}"),
        ]
    if isinstance(cost, float):
        facts.append(("precision lost", percent(cost)))
    return Page(
        title=_title(found),
        subtitle=f"Method {found.method} · {_demand(found)}",
        verdict=verdict,
        tone=tone,
        beside=[sentence(w) for w in found.warnings if w.startswith(NOT_PROMISED)],
        facts=facts,
    )


def _alike(found: Release) -> str:
    """How many look alike at least: persons, where they were counted."""
    if found.k is None and (promised := found.details.get("persons_promised")):
        return f"≥ {counted(promised, 'person')}"
    if found.k is None:
        return "–"
    return counted(found.k, "person") if found.details.get("persons") else f"{found.k:,}"


def _lists(found: Release) -> list[Sequence[str]]:
    """Names that findings list: columns others may know, and those that were left out."""
    sets = found.qi or found.asked.get("qi")
    dropped = [n for n, action in found.column_actions.items() if action in ("dropped", "left out")]
    return [*(sets or ()), dropped]


def _title(found: Release) -> str:
    if found.source is not None:
        return f"Release of {name_of(found.source.name)}"
    described = found.certificate.body.get("input") if found.certificate is not None else None
    return f"Release of {described['name']}" if isinstance(described, Mapping) else "Release"


def _demand(found: Release) -> str:
    """What was asked, as far as it is a number or the name of a measure."""
    said = [
        f"{name} = {value:g}" if isinstance(value, (int, float)) else f"{name} {value}"
        for name, value in found.asked.items()
        if (isinstance(value, (int, float)) and not isinstance(value, bool)) or name == "measure"
    ]
    return "asked: " + ", ".join(said) if said else "as asked"


def release_page(
    found: Release,
    original: Table | None = None,
    sensitive: Sequence[str] | None = None,
    person: str | None = None,
) -> Page:
    """The page of a release, measured again before and after.

    `original` is the table it was made of, where the release was read from its certificate and
    does not know it; `sensitive` are the columns worth hiding, and `person` the column that says
    whose rows they are, where the request did not say.
    """
    altered = any(one.check == "fingerprint" and not one.holds for one in found.findings)
    if altered:  # what was known of the file that was written is not said of another one
        found = replace(found, k=None, utility={}, details={}, column_actions={}, mapping=None)
    page = release_summary(found)
    sections = []
    lights: list[Light] = []
    cost = None
    with _opened(found, original) as compared:
        if compared is not None and altered:
            kept = {"rows published": f"{compared.after.rows:,}", ALIKE: _alike(found)}
            page = replace(page, facts=list(kept.items()))
        if compared is not None:
            person = found.asked.get("person") or person
            owned = None if altered else _owned(found, compared, person)
            judged = _judged(found, compared, person, owned)
            lights = [judged.light, _inferred(found, compared, sensitive, person, owned)]
            last, told = judged.last, judged.told
            page = replace(
                page, facts=[(n, judged.alike if n == ALIKE else v) for n, v in page.facts]
            )
            tone = tempered(page.tone, last.prosecutor, last.marketer)
            if lights[0].tone == "warn" and tone == "good":
                tone = "warn"
            if tone == "good" and lights[1].tone not in (None, "good"):
                tone = "warn"
            gauges = risk_gauges(judged.risk) if told else ()
            if _matched(found):  # they look people up in a table that was given, not in this one
                gauges = (*gauges[:1], *gauges[2:])
            page = replace(page, gauges=gauges, tone=tone)
            page = replace(page, beside=_beside(page.beside, found, compared.after))
            protects = _protection(found, compared, judged, person, drawn=bool(gauges))
            sections = [protects, _where(compared), *_shapes(compared)]
            cost = None if altered else _paid(found, compared)
    sections += [*_cost(found), *_why(found), _record(found)]
    shown = [section for section in sections if section is not None]
    knows = found.source is not None or original is not None
    paid = Light("What it cost", None, "Not known: the file is not the one that was written.")
    page = replace(page, lights=[*lights, paid if altered else cost or _paid(found)])
    return replace(page, sections=shown, at_home=f"{AT_HOME} {PASS_ON}" if knows else "")


def _beside(said: Sequence[str], found: Release, after: Table) -> list[str]:
    """What is not promised; also of whoever knows a column that counts as worth hiding."""
    sets = found.qi or found.asked.get("qi")
    if not found.asked.get("sensitive") or not sets or after.rows * len(after.columns) > MOST_CELLS:
        return [*said]
    hidden = [name for name, action in found.column_actions.items() if "pseudonym" in action]
    hidden += pseudonyms_of(found.asked)
    elsewhere = [name for one in sets[1:] for name in one if name not in sets[0]]
    known = [name for name in sets[0] if name in after.columns]
    told = beside(after, known, [*hidden, *elsewhere], several=len(sets) > 1)
    more = None if told is None or told.say is None else sentence(told.say)
    return [*said] if more is None or more in said else [*said, more]


@dataclass(frozen=True, eq=False)
class _Judged:
    """Who can be found in a release: persons where they can be counted, else rows."""

    risk: Risk
    """Before, and after in it."""
    told: bool
    """Whether it is that of those who are spoken of; else only the highest is known, in `last`."""
    last: Risk
    light: Light
    alike: str
    least: int | None
    """Persons who could have any row, at least."""
    linked: bool


def _judged(found: Release, compared: Compared, person: str | None, owned: Owned | None) -> _Judged:
    """Who can be found: by whoever knows one row, and by pseudonyms that link rows."""
    after, details = compared.sizes["after"], found.details
    risk, told, alone = _risk(compared), person is None, after.alone
    promised = details.get("persons_promised")
    known: Sequence[Risk] = details.get("risk", ()) if details.get("persons") else ()
    if owned is not None:
        known, alone = _risks_of(owned, compared)
    if known:
        risk, told = worst_risk(known), True  # the release itself does not say who is who
    if "linkable" in details:
        told = False  # it is told of single rows, and histories are promised
    last = risk.after or risk
    least = (found.k if person in (None, found.asked.get("person")) else None) or promised
    if owned is not None and last.prosecutor:
        least = round(1 / last.prosecutor)
    elif not told and least:  # not told; at its highest it is that of the smallest class
        last = replace(last, persons=last.rows, prosecutor=1 / least, marketer=None)
    light, shown = _found(last, alone, person), _alike(found)
    if person and least and not promised:
        shown = counted(least, "person")
    elif not least and after.k:
        shown = f"{after.k:,}{' rows' if person else ''}"
    whose = _linked(found, compared)
    if whose is not None:
        told, light = False, _found_linked(whose)
        last = replace(last, prosecutor=1 / (1 if whose.alone else whose.least), marketer=None)
        shown = f"{shown if person else f'{after.k:,} rows'}, {counted(whose.least, 'pseudonym')}"
    return _Judged(risk, told, last, light, shown, least, whose is not None)


def _owned(found: Release, compared: Compared, person: str | None) -> Owned | None:
    """Rows of a release and whose they are, where the table that it was made of tells it.

    Columns of a mask are as they were; rows that Safe Harbor coarsens are where they were. Of
    others it was counted when they were made.
    """
    before, after = compared.before, compared.after
    if person is None or person not in before.columns or not (at_hand(before) and at_hand(after)):
        return None
    if found.method == "mask":
        rows = before.codes(list(dict.fromkeys((*after.columns, person))))
    elif found.method == "safe-harbor" and before.rows == after.rows:
        rows = after.codes()
    else:
        return None
    return Owned(rows, before.codes([person]).arrays[0].astype(np.int64))


def _risks_of(owned: Owned, compared: Compared) -> tuple[list[Risk], int]:
    """The risks of persons by each set, and how many have a row that is nobody else's."""
    who = owned.owners.astype(np.uint32)
    number = int(who.max(initial=0)) + 1
    smallest = np.full(number, np.iinfo(np.uint32).max, np.int64)
    told = []
    for one in compared.sets:
        both = []
        now = [name for name in one if name in compared.after.columns]
        for rows, names in (
            (replace(owned, entries=compared.before.codes(one)), one),
            (owned, now),
        ):
            ids, classes = rows.classes(names)
            sizes = group_distinct(ids, classes, who, number)
            least = group_min(who, number, sizes[ids].astype(np.uint32))
            ids = ids.astype(np.int64)
            both.append(risk_of_persons(ids, owned.owners, sizes=sizes, rows=len(who)))
        smallest = np.minimum(smallest, least)
        told.append(replace(both[0], after=both[1]))
    return told, int((smallest == 1).sum())


def _found(after: Risk, alone: int, person: str | None) -> Light:
    """Who can be found in the release, by the columns that others may know."""
    asked, one = "Who can be found", "row" if after.persons is None else "person"
    if after.prosecutor is None or not after.rows:
        return Light(asked, "good", "Nobody: there are no rows.")
    if after.persons is not None and after.prosecutor == 1 and alone:
        found = among(alone, after.persons, unit_of(one), many=unit_of(one, 2), does="have")
        return Light(
            asked, "bad",
            f"{found} a row that is nobody else’s: whoever knows their published columns finds "
            "them for certain.",
        )  # fmt: skip
    if after.persons is None and alone:
        found = among(alone, after.rows, unit_of(one), many=unit_of(one, 2), does="stand alone")
        return Light(
            asked, "bad",
            f"{found}: whoever knows their published columns finds them for certain.",
        )  # fmt: skip
    alike, sure = round(1 / after.prosecutor), at_most(after.prosecutor)
    if person and after.persons is None:
        said = f"At least {alike:,} rows look alike. How many persons have them was not counted."
        return Light(asked, tempered("warn", after.prosecutor), said)
    said = f"At least {alike:,} {unit_of(one, 2)} look alike: a match is right with a chance of at "
    said += f"most {sure}."
    return Light(asked, tempered("bad" if alike == 1 else "good", after.prosecutor), said)


def _linked(found: Release, compared: Compared) -> Linked | None:
    """Whom pseudonyms give away that say which rows belong together; the worst of several sets.

    Where whole histories are promised, what they give away is part of the promise.
    """
    after = compared.after
    if found.asked.get("linkable"):
        return None
    known = [[n for n in one if n in after.columns] for one in compared.sets]
    each = [linked(after, one, name) for name in _pseudonyms(found) for one in known]
    whose = [one for one in each if one is not None]
    if not whose:
        return None
    worst = max(whose, key=lambda one: one.alone)
    return replace(worst, least=min(one.least for one in whose))


def _pseudonyms(found: Release) -> list[str]:
    """Columns that hold pseudonyms."""
    done = [name for name, action in found.column_actions.items() if "pseudonym" in action]
    return list(dict.fromkeys((*done, *pseudonyms_of(found.asked))))


def _found_linked(whose: Linked) -> Light:
    """Who can be found where pseudonyms say which rows belong together."""
    said = f"Rows with the same pseudonym of `{whose.column}` belong together."
    if whose.alone:
        alone = among(whose.alone, whose.persons, "pseudonym", does="are", share=True)
        said += (
            f" {alone} alone with all of their published rows: whoever knows those finds them for "
            "certain."
        )
    least = counted(whose.least, "pseudonym")
    said += (
        f" The rows of a class have at least {least}: a match of a single row with one is right "
        f"with a chance of at most {at_most(1 / whose.least)}."
    )
    tone: Tone = "bad" if whose.alone or whose.least == 1 else "good"
    return Light("Who can be found", tempered(tone, 1 / whose.least), said)


MOST_CELLS = 40_000_000
"""Rows times columns among which shared sensitive values are counted."""


@dataclass(frozen=True)
class Inference:
    """What a release tells about a sensitive column to whoever finds a class, or knows a value."""

    column: str
    shared: int
    """Rows of classes in which all who have a value have the same one."""
    single: int
    """Rows with a number, a date or a text of their own, that no other row holds."""
    rows: int
    nearly: int = 0
    """Rows of classes in which nearly all who have a value, and not all, have the same one."""
    lacking: int = 0
    """Rows without a value among those of `shared` and `nearly`."""
    empty: int = 0
    """Rows of classes in which nobody has a value."""


def inferences(after: Table, qi: Sequence[str], sensitive: Sequence[str]) -> list[Inference] | None:
    """What can be inferred about sensitive columns; None where that takes too long to count.

    Examples
    --------
    >>> people = table(pa.table({"age": [1, 1, 2, 2], "ill": ["a", "a", "a", "b"]}))
    >>> inferences(people, ["age"], ["ill"])
    [Inference(column='ill', shared=2, single=0, rows=4, nearly=0, lacking=0, empty=0)]
    """
    known = [name for name in qi if name in after.columns]
    if after.rows * (len(known) + 1) > MOST_CELLS:
        return None
    hidden = [name for name in sensitive if name in after.columns and name not in known]
    # Rows that are in memory are classed once; of others each column has classes of its own.
    together = after.engine.capabilities.coded
    found = []
    for names in [hidden] if together else [[name] for name in hidden]:
        entries = after.codes([*known, *names])
        counts = np.ones(entries.entries, np.int64) if entries.counts is None else entries.counts
        own = entries.select(tuple(known))
        ids, number = class_ids(
            own.arrays, own.cardinalities, entries=entries.entries, ordered=False
        )
        for name in names:
            values, codes = entries.values_of(name), entries.column(name)
            single = 0
            held = np.bincount(codes, weights=counts, minlength=len(values))
            alone = int((held[np.asarray(values.is_valid())] == 1).sum())
            # few know a rare word of somebody; a date, an amount, or what all have their own of
            exact = _is_number(values.type) or pa.types.is_temporal(values.type)
            if exact or 2 * alone > counts.sum():
                single = alone
            found.append(_in_classes(name, ids, number, codes, counts, values, single))
    return found


def _in_classes(
    name: str, ids: Any, number: int, codes: Any, counts: Any, values: pa.Array, single: int
) -> Inference:
    """What classes tell about a column, of which missing values protect nobody."""
    there = counts * np.asarray(values.is_valid())[codes]
    known, most = largest_shares(ids, number, codes, there)
    size = np.bincount(ids, weights=counts, minlength=number).astype(np.int64)
    all_same, empty = (most == known) & (known > 0), known == 0
    nearly = (most >= NEARLY_ALL * known) & (most < known)
    return Inference(
        name, int(size[all_same].sum()), single, int(size.sum()), int(size[nearly].sum()),
        int((size - known)[all_same | nearly].sum()), int(size[empty].sum()),
    )  # fmt: skip


def _inferred(
    found: Release,
    compared: Compared,
    sensitive: Sequence[str] | None,
    person: str | None,
    owned: Owned | None,
) -> Light:
    """What can be inferred about people who are not found."""
    asked, after = "What can be inferred about them", compared.after
    named = [str(name) for name in found.asked.get("sensitive") or sensitive or ()]
    worth = [name for name in named if name in after.columns]
    sets = found.qi or found.asked.get("qi") or ()
    if found.method == "mask" or not sets:  # they may know all else that is published
        sets = (tuple(name for name in after.columns if name not in worth),)
    hidden = [name for name in worth if not any(name in one for one in sets)]
    if not hidden:
        return Light(asked, None, "Not counted: no published column was named as worth hiding.")
    by_set = [inferences(after, one, hidden) for one in sets]
    if any(found is None for found in by_set):
        return Light(asked, None, "Not counted: the table is too large for that.")
    # Of several sets, for each column the one that tells most about it.
    by_column = zip(*(found for found in by_set if found is not None), strict=False)
    inferred = [
        replace(
            same[0],
            shared=max(one.shared for one in same),
            nearly=max(one.nearly for one in same),
            lacking=max(one.lacking for one in same),
            empty=max(one.empty for one in same),
        )
        for same in by_column
    ]
    told = [words for one in inferred for words in _exposure(one)]
    known = [[name for name in one if name in after.columns] for one in sets]
    share, more = _sharing(found, after, known, hidden, person, owned)
    told += more
    if not told:
        which = phrase([f"`{name}`" for name in hidden])
        return Light(asked, "good", f"Nobody’s {which} for certain: {_differs(inferred)}.")
    worst = max(max(one.shared, one.single) / max(1, one.rows) for one in inferred)
    worst = max(worst, share)
    shared = tuple(one.column for one in inferred if one.shared)
    single = tuple(one.column for one in inferred if one.single)
    return Light(asked, "bad" if worst > 0.2 else "warn", " ".join(told), shared, single)


def _sharing(
    found: Release,
    after: Table,
    sets: Sequence[Sequence[str]],
    hidden: Sequence[str],
    person: str | None,
    owned: Owned | None,
) -> tuple[float, list[str]]:
    """What persons of a class have in common, or pseudonyms: the largest share, and sentences."""
    counts: list[tuple[str, str, int, int, int]] = []
    lacking = False
    if owned is not None:
        shared = owned.sharing(sets, hidden)
        counts += [("", name, *shared[name], owned.persons) for name in hidden]
    elif person is not None and not found.asked.get("linkable"):
        told = found.details.get("persons") or {}
        by_all, nearly = (told.get(f"held_by_{who}") or {} for who in ("all", "nearly_all"))
        whole = max(1, told.get("persons", 0) - (told.get("left_out") or 0))
        there = [name for name in hidden if name in by_all and name in nearly]
        counts += [("", name, by_all[name], nearly[name], whole) for name in there]
        lacking = len(there) < len(hidden)
    for one in _pseudonyms(found):
        if one not in after.columns or after.class_sizes([one]).classes == after.rows:
            continue
        if not at_hand(after):
            lacking = True
            continue
        rows = after.codes(list(dict.fromkeys((*(n for own in sets for n in own), *hidden, one))))
        known = np.asarray(rows.values_of(one).is_valid())[rows.column(one)]
        rows = rows.take(np.flatnonzero(known))  # rows without a pseudonym are nobody's
        # Of somebody of whom one row may be known, it tells the class.
        single = bool(found.asked.get("linkable")) and str(found.asked.get("m")) == "1"
        linking = Owned(rows, rows.column(one).astype(np.int64), linked=not single)
        by, shared = "" if single else one, linking.sharing(sets, hidden)
        counts += [(by, name, *shared[name], linking.persons) for name in hidden]
    told = [
        sentence(said)
        for by, name, by_all, nearly, whole in counts
        for said in say_shared(name, by_all, nearly, whole, by)
    ]
    if lacking:
        told.append(ROWS_ONLY)
    return max((by_all / max(1, whole) for _, _, by_all, _, whole in counts), default=0.0), told


ROWS_ONLY = (
    "Rows were counted: what persons who look alike have in common in some row is not known."
)


def _differs(inferred: Sequence[Inference]) -> str:
    """Why nobody's value is known."""
    if all(one.empty == one.rows for one in inferred):
        return "it is missing in every row"
    missing = any(one.empty for one in inferred)
    return "it differs among those alike" + ", or is missing in all of them" * missing


def _exposure(one: Inference) -> list[str]:
    """What can be inferred about one column, in sentences."""
    told = []
    aside, theirs = (
        (", missing ones aside", "theirs, if they have one") if one.lacking else ("", "theirs")
    )
    if one.shared:
        found = among(one.shared, one.rows, "row", does="are", share=True)
        told.append(
            f"{found} in classes that hold one `{one.column}` only{aside}: whoever finds the class "
            f"of somebody there knows {theirs}."
        )
    if one.nearly:
        found = among(one.nearly, one.rows, "row", does="are", share=True)
        told.append(
            f"{found} in classes of which at least {NEARLY_ALL:.0%}, and not all, hold one "
            f"`{one.column}`{aside}: whoever finds the class of somebody there guesses {theirs}, "
            "and is nearly surely right."
        )
    if one.single:
        told.append(
            f"{counted(one.single, 'row', does='hold')} a value of `{one.column}` that no other "
            "has: whoever knows it finds the row."
        )
    return told


def _paid(found: Release, compared: Compared | None = None) -> Light:
    """What the release cost."""
    lost = found.utility.get("ncp")
    whole = found.rows + found.suppressed_rows
    said = [f"{percent(lost)} of the precision of what others may know"] if lost is not None else []
    if found.suppressed_rows:
        said.append(f"{found.suppressed_rows:,} of {whole:,} rows")
    coarser = _coarsened(found, compared)
    said += coarser
    gone = [n for n, action in found.column_actions.items() if action in ("dropped", "left out")]
    if gone:
        number = len(found.column_actions)
        said.append(f"{len(gone)} of {number} columns, which were left out")
    if found.suppressed_cells and lost is None:
        said.append(f"{counted(found.suppressed_cells, 'cell')}, which were starred")
    left = found.suppressed_rows / max(1, whole)
    most = 2 * len(gone) > len(found.column_actions)
    tone: Tone = "warn" if coarser or most or left > 0.05 or (lost or 0) > 0.3 else "good"
    if left > 0.2 or (lost or 0) > 0.6:
        tone = "bad"
    answer = sentence(phrase(said)) if said else "Nothing."
    if (
        lost is None and not coarser and found.source is None
    ):  # only whoever made it has measured that
        blurred = sum(action == "recoded" for action in found.column_actions.values())
        if blurred:
            unknown = f"What {counted(blurred, 'changed column')} lost in precision is not known."
            answer = f"{answer} {unknown}" if said else unknown
            tone = tone if tone == "bad" else "warn"
    return Light("What it cost", tone, answer)


def _coarsened(found: Release, compared: Compared | None) -> list[str]:
    """What Safe Harbor left in a coarser form, in words: no measure says what that cost."""
    if found.method != "safe-harbor":
        return []
    same = ("kept", "dropped", "left out")
    names = [n for n, action in found.column_actions.items() if not action.startswith(same)]
    if compared is None:
        return [f"the detail of {counted(len(names), 'column')}"] if names else []
    kept = [compared.fate(name).get("as it was", 0.0) for name in names]
    every, some = kept.count(0.0), sum(0 < share < 1 for share in kept)
    return [
        f"the detail of {counted(number, 'column')} in {where}"
        for number, where in ((every, "every row"), (some, "some rows"))
        if number
    ]


def worst_risk(risks: Sequence[Risk]) -> Risk:
    """Of the risks of several sets of columns each figure that of the set where it is highest."""
    if len(risks) == 1:
        return risks[0]
    names = ("prosecutor", "journalist", "marketer", "share_above", "journalist_share_above")
    highest: dict[str, Any] = {
        name: max((v for one in risks if (v := getattr(one, name)) is not None), default=None)
        for name in names
    }
    after = [one.after for one in risks if one.after is not None]
    return replace(risks[0], **highest, after=worst_risk(after) if after else None)


@contextmanager
def _opened(found: Release, original: Table | None) -> Iterator[Compared | None]:
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
    return Compared(before, after, known, sizes, found.mapping, then, _begun(found), trees)


def _begun(found: Release) -> frozenset[str]:
    """Columns of which Safe Harbor left the first digits."""
    body = found.certificate.body if found.certificate is not None else {}
    promises = [*body.get("promises", ()), *(one.to_dict() for one in found.promises)]
    forms = [one.get("forms", {}) for one in promises]
    return frozenset(name for one in forms for name, form in one.items() if form == "zip")


def _risk(compared: Compared) -> Risk:
    """The risks before, with those after in them: of several sets each that of the worst."""
    before, after = compared.before, compared.after
    if len(compared.sets) == 1:
        return replace(_of_set(compared.sizes["before"]), after=_of_set(compared.sizes["after"]))
    both = []
    for one in compared.sets:
        now = alike(after, [[name for name in one if name in after.columns]])
        both.append(replace(_of_set(alike(before, [one])), after=_of_set(now)))
    return worst_risk(both)


def _of_set(sizes: Alike) -> Risk:
    """The risks of the rows of one set of columns."""
    held = np.array([[size, rows // size] for size, rows in sizes.members.items()], np.int64)
    held = held.reshape(-1, 2)
    return risk_of_classes(held[:, 0], times=held[:, 1])


def _matched(found: Release) -> int | None:
    """How many people of another table every row matches at least, where that was measured."""
    asked = found.asked.get("k_map")
    holds = found.verified and all(one.holds for one in found.findings)
    return asked if isinstance(asked, int) and holds else None


def _protection(
    found: Release, compared: Compared, judged: _Judged, person: str | None, *, drawn: bool
) -> Section | None:
    """How many look alike before and after; whether gauges are drawn."""
    before, after = compared.sizes["before"], compared.sizes["after"]
    if not before.total:
        return None
    asked = found.asked.get("k")
    k = int(asked) if isinstance(asked, int) and asked > 1 else 5
    by = "; or ".join(phrase(one, 6) for one in compared.sets[:MOST_SETS])
    if len(compared.sets) > MOST_SETS:
        by += f"; or one of {len(compared.sets) - MOST_SETS} more sets"
    of_persons = person is not None and person in compared.before.columns
    many = "rows" if of_persons or judged.linked else unit_of("row", 2)
    words = [
        f"Before, {before.alone:,} of {before.total:,} {many} stood alone with their {by}; "
        f"afterwards {after.alone:,} of {after.total:,} do."
    ]
    if person is not None and of_persons:
        words = [*_persons_before(judged, compared, person, by, k), *words]
    if len(compared.sets) > 1:
        words.append(OF_SETS)
    if judged.linked or found.asked.get("linkable"):
        words.append(OF_LINKED)
    elif of_persons:
        words.append(OF_PERSONS)
    if drawn:
        matched = _matched(found)
        told = OF_POPULATION.format(matched, at_most(1 / matched)) if matched else ATTACKERS
        words.append(told)
    with counting(many):
        figures = [
            Figure(
                f"How many {many} look alike",
                f"{many.capitalize()} by the size of their class, before (pale) and after (full). "
                f"Below {k} alike: {before.below(k):,} {many} before, {after.below(k):,} after.",
                charts.class_sizes(
                    f"{many.capitalize()} by the size of their class", compared.sizes, k
                ),
            ),
            Figure(
                f"How exposed {many} are",
                f"Share of {many} that carry at least a given risk: one over the number of {many} "
                "alike. The dotted line is a risk of 20%.",
                charts.risk_curve(f"Share of {many} by risk, before and after", compared.sizes),
            ),
        ]
    return Section("What it protects", words, figures)


MOST_SETS = 4
"""Sets of columns that are named in one sentence."""
OF_PERSONS = (
    "The charts count rows, of which a person may have several: the release does not say whose "
    "they are."
)
OF_LINKED = (
    "The charts count single rows, of which a person may have several; pseudonyms say which belong "
    "together."
)
OF_SETS = (
    "Others may know one of several sets of columns: a row counts with the set that finds it most "
    "easily, and each gauge shows the set in which the risk is highest."
)


def _persons_before(
    judged: _Judged, compared: Compared, person: str, by: str, k: int
) -> Iterator[str]:
    """How many persons could be found before; and afterwards, as far as that is known."""
    then = alike(compared.before, compared.sets, person)
    alone = among(then.alone, then.total, "person", does="were")
    few = among(then.below(k), then.total, "person", does="had")
    yield (
        f"Before, {alone} the only one with their {by} in some row, and {few} a row that fewer "
        f"than {k} persons could have."
    )
    if judged.least and judged.least > 1:
        yield f"Afterwards at least {judged.least:,} persons could have any row."


def _where(compared: Compared) -> Section | None:
    rows = compared.before.rows
    if not rows:
        return None
    drawn = [name for name in compared.known if compared.is_small(name)][:MOST_COLUMNS]
    if not drawn:
        return None
    fates = {name: compared.fate(name) for name in drawn}
    figure = Figure(
        "What happened to each column",
        "Cells of each column others may know: published as they were, blurred into a range or "
        "group, starred, or left out with their row or column.",
        charts.column_fates("Cells as they were, blurred, starred and left out", fates),
    )
    rest = len(compared.known) - len(fates)
    words = [f"{rest} more columns are not drawn."] if rest > 0 else []
    return Section("What it cost, and where", words, [figure])


def _shapes(compared: Compared) -> list[Section]:
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
        words.append(f"Not drawn, since hardly any value is held by many rows: {phrase(bare)}.")
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
    if _is_number(values.type):
        numbers = np.asarray(pc.cast(values, pa.float64(), safe=False).fill_null(np.nan))
        finite = np.isfinite(numbers)
        bins = only_common(numeric_bins(numbers[finite], rows[finite], compared.numbers(name)))
        if len(bins) < 2:
            return None
        moved = _moved([(b, a) for _, _, b, a in bins])
        return moved, Figure(
            name,
            f"Rows by {name} in the table (grey) and in the release (line). The few beyond either "
            "end are counted in the last bars; a bar that few would hold is joined with the next. "
            f"{_apart(moved, ' from bar to bar')}",
            charts.histogram(f"Distribution of {name} before and after", bins, name),
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
        f"Rows by {name} in the table (grey) and in the release (blue).{more} {_apart(moved)}",
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
    return f"To turn one into the other, {percent(moved)} of the rows would have to move{how}."


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _cost(found: Release) -> list[Section]:
    """Utility figures, and the precision that each column lost."""
    of_first = ", by the first set of columns" if len(found.qi) > 1 else ""
    numbers = [
        (named, _number(value), meaning + of_first * (name in OF_FIRST))
        for name, value in found.utility.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
        for named, meaning in [MEASURES.get(name, (name.replace("_", " "), ""))]
    ]
    lost = release_picture(found)
    if not numbers and lost is None:
        return []
    grids = [Grid(("measure", "value", "what it says"), numbers, frozenset({1}))] if numbers else []
    return [Section("Utility", figures=[] if lost is None else [lost], grids=grids)]


def release_picture(found: Release) -> Figure | None:
    """Precision lost by column, where the method says so."""
    columns = found.utility.get("columns")
    if not isinstance(columns, Mapping) or not columns:
        return None
    lost = {str(name): float(share) for name, share in columns.items()}
    lost = dict(sorted(lost.items(), key=lambda item: -item[1])[:MOST_COLUMNS])
    return Figure(
        "Precision lost by column",
        "Normalized certainty penalty: 0% where every cell is exact, 100% where it says nothing "
        "any more.",
        charts.shares("Precision lost by column", lost, what="precision lost"),
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 1e4 else f"{value:,.4g}"


def _why(found: Release) -> list[Section]:
    """Why columns were left out, where the method says so."""
    why = found.details.get("why")
    if not isinstance(why, Mapping) or not why:
        return []
    rows = [(str(name), _reason(str(name), others)) for name, others in why.items()]
    return [Section("Why columns were left out", grids=[Grid(("column", "why"), rows)])]


def _reason(name: str, why: str | Sequence[str]) -> str:
    """Why a column was left out: what was asked, or the columns that it would identify with."""
    if isinstance(why, str):
        return why
    others = [str(other) for other in why if other != name]
    return (
        f"would break the promise with {phrase(others)}"
        if others
        else "would break the promise by itself"
    )


STOPPED = {None: "nothing: it ran to its end", "time": "a time limit, or by hand"}


def _record(found: Release) -> Section:
    """Checks, what happened to columns, and the certificate."""
    grids = []
    if found.findings:
        grids.append(findings_grid(found.findings))
    if found.column_actions:
        actions = [(name, action) for name, action in found.column_actions.items()]
        grids.append(Grid(("column", "what happened"), actions))
    body = found.certificate.body if found.certificate is not None else {}
    facts = []
    for side in ("input", "output"):
        described = body.get(side)
        if isinstance(described, Mapping):
            rows = f" · {described['rows']:,} rows" if "rows" in described else ""
            facts.append((side, f"{described['name']}{rows}"))
    if "output" in body:
        facts.append(("output fingerprint", str(body["output"]["fingerprint"])))
    facts += [
        ("method", found.method),
        ("seed", "–" if found.seed is None else str(found.seed)),
        ("stopped by", STOPPED.get(found.stopped_by) or str(found.stopped_by)),
    ]
    if found.lower_bound is not None:
        least = "no recoding with these trees loses less than"
        if "cost" in found.details:
            least = "no release that only stars cells costs less than"
        facts.append((least, f"{found.lower_bound:,.6g}"))
    grids.append(Grid(("certificate", "value"), facts))
    return Section("For the record", [sentence(w) for w in found.warnings], grids=grids)
