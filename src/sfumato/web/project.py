"""One table on the workbench: what was decided about it, and what was found.

Decisions are saved in a folder beside the table as TOML, so that work goes on another day; a
release is written there too, with its certificate and the settings that repeat it.
"""

from __future__ import annotations

import itertools
import os
import re
import secrets
import shlex
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, cast

import tomli_w

from sfumato.budget import Budget
from sfumato.columns.persons import person_columns
from sfumato.columns.profile import Profile, profile
from sfumato.columns.recognise import recognise_columns
from sfumato.columns.vocabulary import Role
from sfumato.engines.results import Codes
from sfumato.errors import BudgetError, ParameterError, SfumatoError, SourceError
from sfumato.files import held, keep_only, make_folder, read_unlinked, write_text
from sfumato.hierarchy import Hierarchy
from sfumato.keyfiles import names_same, read_secret, write_secret
from sfumato.privacy import Check, check
from sfumato.quasi.scan import ColumnScan, Scan, combine, describe
from sfumato.release.certificate import Certificate
from sfumato.release.promise import Finding
from sfumato.release.publish import Release
from sfumato.report.disclosure import counts_of
from sfumato.report.page import Page, body_html, write_page
from sfumato.report.pages.certificate import certificate_pdf, persons_promised, unnamed
from sfumato.report.pages.release import certified_release, release_page
from sfumato.report.registry import page_of
from sfumato.risks import Alike, alike
from sfumato.tables import Table, table
from sfumato.web.candidates import Candidate, candidates_from, candidates_to
from sfumato.web.choices import (
    OWN_KEY,
    Choices,
    read_choices,
    write_choices,
    write_trees,
)
from sfumato.web.hierarchies import MOST_VALUES, EditableHierarchy, Held, inferred
from sfumato.web.kept import (
    Asked,
    Kept,
    digest,
    digest_of,
    questions_from,
    questions_to,
    size_of,
)
from sfumato.web.reading import FirstRows, Reading
from sfumato.web.remedies import in_page_words, told
from sfumato.wording import counted, counting, phrase, sentence

__all__ = ["Answered", "Decided", "Made", "Project", "Version", "in_time"]

MOST_UNDO = 50
MOST_CANDIDATES = 24
MOST_AT_HAND = 6
"""Releases made of the table as it is read whose rows are kept at hand."""
MOST_OTHER_KS = 6
"""Releases with another k whose rows are kept at hand."""
LATTICE = "lattice"
TRIED, ASKED = "candidates.json", "questions.json"
"""Files of the candidates, and of what other verbs were asked, beside the decisions."""
ABOUT_FILES = ("certificate", "signature", "fingerprint")
"""Checks of a release that are about its files, not about people."""
QUICK = 2_000_000
"""Rows times columns that are counted while a page waits."""


Names = tuple[str, ...]
Sets = tuple[tuple[Names, ...], str]
"""Sets of columns, and the column that names persons; empty where rows are counted."""
Stamp = tuple[int, ...]
"""Of a file: see `_stamp_of`."""
T = TypeVar("T")


@dataclass(frozen=True)
class Decided:
    """The decisions of one moment: what is drawn from it agrees with itself."""

    choices: Choices = field(default_factory=Choices)
    edition: int = 0
    """Grows with every decision, so that a page can tell that it is out of date."""
    earlier: tuple[Choices, ...] = ()
    """What undo goes back to, the last one first."""

    @property
    def can_undo(self) -> bool:
        """Whether there is a decision to take back."""
        return bool(self.earlier)


@dataclass(frozen=True)
class Made:
    """A release that was written: all that pages say of it is said from here.

    Decisions may have changed since; `choices` and `settings` are those it was made with.
    """

    name: str
    """What its files are called, without an ending: ``release``, ``release-2``, …"""
    choices: Choices | None
    """None where another verb made it, or where they are not known any more."""
    settings: str
    release: Release
    holds: bool
    shown: str
    """Its page, drawn once."""
    shared: Names = ()
    """Columns worth hiding of which classes hold one value only, and nothing was asked of them."""
    single: Names = ()
    """Columns worth hiding with numbers that one row alone holds."""
    reading: Reading | None = None
    """How the file was read; None where that is not known any more."""
    seen: tuple[Stamp | None, ...] = ()
    """Its files when they were measured; see `Project.altered`."""
    repeats: bool = True
    """Whether the settings are known to be those it was made with."""

    @property
    def unchecked(self) -> Names:
        """What was promised and measured when it was made, and could not be checked again."""
        return tuple(what for finding in self.release.findings for what in finding.unchecked)

    def differs(self, now: Choices, reading: Reading) -> list[str]:
        """What is set otherwise now, as far as it matters for a release."""
        said = [] if self.choices is None else self.choices.differs(now)
        if self.reading is None and self.choices is not None:
            return [*said, "how the file was read then is not known any more"]
        if self.reading not in (None, reading):
            said.append("the file is read otherwise, and figures of the table are those of now")
        return said

    @property
    def how(self) -> str:
        """How it was made, in words."""
        if self.choices is not None:
            return sentence(self.choices.way).removesuffix(".")
        asked = _demand(self.release.asked)
        return self.release.method.capitalize() + (f" with {asked}" if asked else "")

    @property
    def promise(self) -> str:
        """What was promised, as it was measured."""
        if self.choices is not None:
            return f"{self.choices.demand}."
        told = [one for one in self.release.findings if one.check not in ABOUT_FILES]
        return sentence("; ".join(finding.say for finding in told))


@dataclass(frozen=True)
class Answered:
    """What another verb was asked, and its page; see `sfumato.web.verbs`."""

    by: Asked
    given: Mapping[str, Any]
    """What was answered to its questions."""
    asked: Mapping[str, Any]
    """The parameters of the verb."""
    command: str
    """Which asks the same."""
    shown: str = ""
    undecided: tuple[str, ...] = ()
    """Columns that somebody must decide about before a release is made."""


@dataclass(frozen=True)
class Version:
    """A release that lies in the folder, by its certificate; nothing of it is measured again."""

    name: str
    output: str
    date: str
    method: str
    demand: str
    alike: str
    """How many look alike at least: rows, or persons where they were counted."""
    rows: int
    apart: str = ""
    """What was done to columns otherwise than in others of the same method and numbers."""
    other: bool = False
    """Whether it was made of another table than the one that is open."""
    changed: bool = False
    """Whether its file may be another one than was measured."""


@dataclass(eq=False)
class Project:
    """A table that is open.

    `kept` says whether its folder outlives the workbench; that of an uploaded table does not.

    Pages and jobs use it from several threads at once. Whatever they read more than once, they
    read from one `decided` (and from one tuple of candidates): those never change, and are
    replaced as a whole by whoever holds `_changing`.
    """

    source: Path
    opened: Table | None = None
    """The table as its file is read; None until it was, or where it cannot be."""
    kept: bool = True
    apart: str = ""
    """Where it lies, while another table of its name is open."""
    reading: Reading = field(default_factory=Reading)
    """How its file is read."""
    tried: Reading | None = None
    """How it was to be read when that failed."""
    problem: str = ""
    """Why that failed."""
    damaged: bool = False
    """Whether decisions of an earlier day lie there that cannot be read."""
    first: FirstRows = field(default_factory=FirstRows)
    number: str = field(default_factory=lambda: secrets.token_hex(6))
    decided: Decided = field(default_factory=Decided)
    columns: tuple[ColumnScan, ...] = ()
    """Empty until the first look."""
    candidates: tuple[Candidate, ...] = ()
    untried: tuple[Choices, ...] = ()
    """What was to be tried as well when that was stopped."""
    made: Made | None = None
    answers: dict[str, Answered] = field(default_factory=dict)
    """The last answer of every other verb."""
    unasked: dict[str, Asked] = field(default_factory=dict)
    """What other verbs were asked on an earlier day, and not yet again."""
    view: str = ""
    """How columns are shown, ``board`` or ``table``; empty until somebody chose."""
    rows_shown: bool = False
    """Whether somebody asked to see single rows since the table was opened."""
    busy: threading.Lock = field(default_factory=threading.Lock)
    """Held by the job that asks the table something: engines answer one question at a time."""
    _changing: threading.Lock = field(default_factory=threading.Lock)
    _closed: bool = False
    _seen: Stamp | None = None
    """The file as it was when it was looked at."""
    _saved: Stamp | None = None
    """The file of the decisions as it was read or written here."""
    _print: str | None = None
    """The fingerprint of that file, once there are releases to compare with."""
    _look: Profile | None = None
    _alike: dict[Sets, Alike] = field(default_factory=dict)
    _scans: dict[tuple[Names, Names, str], Scan] = field(default_factory=dict)
    _entries: tuple[Names, Codes] | None = None
    _held: dict[str, Held] = field(default_factory=dict)
    _inferred: dict[str, EditableHierarchy] = field(default_factory=dict)
    _lattice: tuple[Choices, Mapping[str, Any]] | None = None
    _at_hand: dict[str, tuple[str, Release]] = field(default_factory=dict)
    """Releases as they were made, with the digests of their certificates."""
    _by_k: tuple[str, dict[int, Release]] = ("", {})
    """What a release would be with other k, by its name."""
    _tried: int = 0
    _unreadable: set[str] = field(default_factory=set)
    """Releases that could not be shown again: they are not tried a second time unasked."""

    @property
    def table(self) -> Table:
        """The table; an error where its file cannot be read."""
        if self.opened is None:
            raise SourceError(self.problem or "the table was not read yet")
        return self.opened

    @property
    def label(self) -> str:
        """What pages call the table."""
        return f"{self.source.name} ({self.apart})" if self.apart else self.source.name

    @property
    def folder(self) -> Path:
        """Where decisions and releases are kept."""
        return self.source.parent / f"{self.source.name}.sfumato"

    @property
    def choices(self) -> Choices:
        """What is decided now."""
        return self.decided.choices

    @property
    def looked(self) -> bool:
        """Whether the columns are known."""
        return bool(self.columns)

    @property
    def rows(self) -> int:
        """Rows of the table, once it was looked at."""
        return 0 if self._look is None else self._look.rows

    # Decisions

    def look(self, budget: Budget, reading: Reading | None = None) -> None:
        """Read the file and look at it; decisions of an earlier day come before guesses.

        Where it cannot be read that way, `problem` says why, and what was open stays so.
        """
        asked = reading or self.reading
        with self._asking(budget, reads=True):
            before = self._file()  # what is changed while it is read is noticed later
            try:
                with in_page_words():
                    opened, look, first = self._read(asked, budget, reading is not None)
            except SfumatoError as error:
                if budget.spent():
                    raise
                self.problem, self.tried = told(error), asked
                return
            budget.progress("guessing roles")
            columns = describe(look)
            self._recognise(opened)
            self._saved = _stamp_of(self.folder / "project.toml")
            self.damaged = True  # unless they can be read
            saved = read_choices(self.folder)
            self.damaged = False
            likely = "" if saved else self._likely_person(opened, look, budget)
        self._take(asked, opened, look, first, columns, saved or Choices(person=likely))
        self._seen = before

    def _recognise(self, opened: Table) -> None:
        """Learn what the table is called in certificates; pages are not to wait for that."""
        self._print = opened.fingerprint() if self.versions() else None

    def _read(
        self, reading: Reading, budget: Budget, anew: bool
    ) -> tuple[Table, Profile, FirstRows]:
        """The table as a file is read, its profile and first rows."""
        opened, noticed = self.opened, self.first.noticed
        if opened is None or anew:
            opened, noticed = reading.open(self.source)
        try:
            look = profile(opened, seed=0, budget=budget)
            return opened, look, FirstRows.of(opened, noticed)
        except BaseException:
            if opened is not self.opened:
                opened.close()
            raise

    def _take(
        self,
        reading: Reading,
        opened: Table,
        look: Profile,
        first: FirstRows,
        columns: tuple[ColumnScan, ...],
        kept: Choices,
    ) -> None:
        """Take what was read, and forget what was found in what was open before."""
        roles = {column.name: kept.roles.get(column.name, column.role) for column in columns}
        found = replace(
            kept,
            roles=roles,
            pseudonyms=tuple(name for name in kept.pseudonyms if name in roles),
            person=kept.person if roles.get(kept.person) == "identifier" else "",
            weights={name: weight for name, weight in kept.weights.items() if name in roles},
            levels={name: level for name, level in kept.levels.items() if name in roles},
            sets=tuple(tuple(n for n in one if n in roles) for one in kept.sets),
            target=kept.target if kept.target in roles else "",
            trees={name: tree for name, tree in kept.trees.items() if name in roles},
        )
        with self._changing, self.busy:
            if self._closed:
                opened.close()
            self._require_open()
            before, self.opened = self.opened, opened
            if before is not None and before is not opened:
                before.close()
                self.made = None
                self._at_hand.clear()
            self._look, self.first, self.reading = look, first, reading
            self.problem, self.tried = "", None
            for known in (self._alike, self._scans, self._held, self._inferred, self.answers):
                known.clear()
            self._entries = self._lattice = None
            self.decided = Decided(found, self.decided.edition)
            self.candidates, self.unasked = self._tried_before(), self._asked_before()
            self._tried = max((one.number for one in self.candidates), default=0)
            self.columns = columns

    def set_aside(self) -> None:
        """Give decisions that cannot be read another name."""
        with self._changing:
            self._require_open()
            if self.damaged:
                with held(self.folder) as home:
                    (home / "project.toml").replace(home / "project.damaged.toml")
                self.damaged = False

    def keep_reading(self) -> None:
        """How the file is read, for another day, where the folder can be written."""
        self._require_open()
        with suppress(SourceError, OSError):
            self._make_folder()
            self.reading.save(self.folder)

    @staticmethod
    def _likely_person(opened: Table, look: Profile, budget: Budget) -> str:
        """The column that seems to name persons with several rows, if every row has somebody."""
        found = person_columns(opened, look, recognise_columns(look), budget)
        whole = {facts.name for facts in look.facts if not facts.nulls}
        return next((one.name for one in found if one.name in whole), "")

    def decide(self, choices: Choices, edition: int | None = None) -> Decided:
        """Take a decision; it is saved, and can be taken back.

        `edition` is that of the decisions it was made on, where a page asks about all of them:
        what was decided elsewhere meanwhile is not overwritten unseen.
        """
        return self.alter(lambda _: choices, edition)

    def alter(self, change: Callable[[Choices], Choices], edition: int | None = None) -> Decided:
        """Change what is decided now, whatever that is; see `decide`."""
        with self._changing:
            before = self.decided
            choices = change(before.choices)
            self._check(choices)
            if choices != before.choices or choices.unit != before.choices.unit:
                in_time(edition, before)
                self._save(choices)
                earlier = (before.choices, *before.earlier)[:MOST_UNDO]
                self.decided = Decided(choices, before.edition + 1, earlier)
            return self.decided

    def undo(self, edition: int | None = None) -> None:
        """Take the last decision back."""
        with self._changing:
            before = self.decided
            in_time(edition, before)
            if before.earlier:
                choices, *earlier = before.earlier
                self._save(choices)
                self.decided = Decided(choices, before.edition + 1, tuple(earlier))

    def _check(self, choices: Choices) -> None:
        """Refuse decisions about columns that the table does not have."""
        if set(choices.roles) != set(self.table.columns):
            raise ParameterError("the roles are not those of this table's columns")
        named = {*choices.weights, *choices.levels, *choices.trees, *choices.pseudonyms}
        named |= {choices.person, choices.target} - {""}
        named |= {name for one in choices.sets for name in one}
        if not named <= set(choices.roles):
            raise ParameterError("something was decided about a column that does not exist")

    # What is found

    def alike(self, sets: Sets, budget: Budget | None = None) -> Alike:
        """How many look alike by sets of columns; counted once."""
        if sets not in self._alike:
            with self._asking(budget):
                if sets not in self._alike:  # nobody else counted them while this one waited
                    known, person = sets
                    self._alike[sets] = alike(self.table, known, person or None, budget)
        return self._alike[sets]

    def alike_now(self, sets: Sets) -> Alike | None:
        """How many look alike where that is known, or counted in a moment."""
        names = {name for one in sets[0] for name in one}
        if not names:
            return None
        if self.has_alike(sets):
            return self._alike[sets]
        if self.stale:
            return None
        small = self._look is not None and self._look.rows * len(names) <= QUICK
        # A page does not wait for a job that has the table for itself.
        return self.alike(sets) if small and not self.busy.locked() else None

    def can_count_soon(self, sets: Sets) -> bool:
        """Whether it is not known how many look alike, and a page can wait for that."""
        return any(sets[0]) and not self.has_alike(sets) and self.table.engine.capabilities.coded

    def has_alike(self, sets: Sets) -> bool:
        """Whether it is known without counting how many look alike."""
        return sets in self._alike

    def explore(self, choices: Choices, budget: Budget) -> Scan:
        """Which columns point at people together, given the roles; counted once for each."""
        assert self._look is not None
        columns = tuple(
            replace(column, role=cast("Role", choices.roles[column.name]))
            for column in self.columns
        )
        deciding = _deciding(choices)
        if deciding not in self._scans:
            with self._asking(budget):
                person = choices.person or None
                found = combine(self.table, self._look, columns, budget=budget, person=person)
            if budget.stopped_by is not None:
                raise BudgetError("the count was stopped")
            self._scans[deciding] = found
        return replace(self._scans[deciding], columns=columns)

    def has_explored(self, choices: Choices) -> bool:
        """Whether the columns have been combined."""
        return _deciding(choices) in self._scans

    def check_now(self, choices: Choices) -> Check | None:
        """What the table as it is has of everything demanded; None where that takes longer."""
        who = (choices.person,) if choices.person else ()
        names = (*choices.qi, *choices.with_role("sensitive"), *who)
        assert self._look is not None
        if (
            choices.gap is not None
            or not choices.protects_sensitive
            or self._look.rows * len(names) > QUICK
        ):
            return None
        waits = self.busy.locked() or self.stale is not None
        if waits and (self._entries is None or self._entries[0] != names):
            return None
        alone = replace(choices, k_map=None, population="")
        request = alone.rehearsed().opened(self.table)
        entries = self._classes(names)
        return check(
            request.models,
            {name: entries.column(name) for name in names if name not in who},
            choices.known,
            counts=entries.counts,
            values={name: entries.values_of(name) for name in names if name not in who},
            person=entries.column(who[0]) if who else None,
        )

    def _classes(self, names: Names) -> Codes:
        """The classes of columns; those that were asked for last are kept."""
        kept = self._entries
        if kept is None or kept[0] != names:
            with self._asking():
                kept = (names, self.table.classes(names))
            self._entries = kept
        return kept[1]

    # Trees

    def has_held(self, column: str) -> bool:
        """Whether the values of a column are at hand."""
        return column in self._held

    def held(self, column: str) -> Held:
        """The values of a column whose tree can be changed."""
        if column not in self._held:
            found = next(c for c in self.columns if c.name == column)
            if found.values > MOST_VALUES:
                raise ParameterError(
                    f"`{column}` has {found.values:,} values; a tree of more than "
                    f"{MOST_VALUES:,} cannot be changed by hand",
                    remedy="Leave it to the method, or change its role under Configure.",
                )
            with self._asking():
                values, counts = counts_of(self.table, column)
            self._held[column] = Held(self.table.column(column), values, counts)
        return self._held[column]

    def outline(self, column: str, choices: Choices | None = None) -> EditableHierarchy:
        """The tree of a column: the one that was made, or the one that would be inferred."""
        own = (choices or self.choices).trees.get(column)
        if own is not None:
            return own
        if column not in self._inferred:
            self._inferred[column] = inferred(self.held(column))
        return self._inferred[column]

    # Releases

    def try_out(self, tried: Sequence[Choices], budget: Budget) -> None:
        """Rehearse releases and keep their figures for comparison; nothing is written."""
        from sfumato.anonymization.verb import anonymize

        self.untried = ()
        for at, choices in enumerate(tried):
            if at and budget.spent():
                self._stop_trying(tried, at, budget)
                return
            with self._asking(budget):
                release = anonymize(self.table, config=choices.rehearsed(), budget=budget)
            with self._changing:
                self._tried += 1
                others = [old for old in self.candidates if not old.choices.same(choices)]
                new = Candidate.of(self._tried, choices, release)
                self.candidates = (*others, new)[-MOST_CANDIDATES:]
                self._keep_candidates()

    def _stop_trying(self, tried: Sequence[Choices], at: int, budget: Budget) -> None:
        """Remember what was not tried; the best of the others is chosen if that was asked for.

        It must promise what was decided: to stop early is no decision to promise less.
        """
        self.untried = tuple(tried[at:])
        wanted = tried[-1]
        found = [
            one
            for one in self.candidates
            if one.choices in tried[:at] and one.choices.promise == wanted.promise
        ]
        if found and budget.stopped_by != "cancelled":
            best = min(found, key=lambda one: one.lost).choices
            self.alter(lambda now: best if now == wanted else now)

    def look_at_lattice(self, choices: Choices, budget: Budget) -> None:
        """Let `full-domain` list its lattice, with what every node of a small one comes to."""
        from sfumato.anonymization.verb import anonymize

        if len(choices.known) > 1:
            raise ParameterError(
                "the lattice is listed for one set of columns, and others may know one of several",
                remedy="Try full-domain under Utility, which finds levels for all of them.",
            )
        wanted = _searched(choices)
        with self._asking(budget):
            request = wanted.rehearsed().overridden({"every_node": True})
            found = anonymize(self.table, config=request, budget=budget)
        if budget.stopped_by == "cancelled":
            raise BudgetError("the work was stopped")
        self._lattice = (wanted, found.details["lattice"])
        self.unasked.pop(LATTICE, None)
        self._keep_questions()

    def asks_lattice_again(self, choices: Choices) -> bool:
        """Whether the lattice was looked at with these decisions on an earlier day; told once."""
        before = self.unasked.get(LATTICE)
        if before is None or _searched(before.choices) != _searched(replace(choices, trees={})):
            return False
        del self.unasked[LATTICE]  # whoever stops it does not want it again
        return True

    def lattice_of(self, choices: Choices) -> Mapping[str, Any] | None:
        """The lattice of levels, if it was looked at with these decisions."""
        if self._lattice is None or self._lattice[0] != _searched(choices):
            return None
        return self._lattice[1]

    def release_with(self, k: int) -> Release | None:
        """The release that is shown, or what would be with another k, if that was tried."""
        made = self.made
        if made is None or made.choices is None:
            return None
        if k == made.choices.k:
            return made.release
        return self._by_k[1].get(k) if self._by_k[0] == made.name else None

    def try_rows(self, k: int, budget: Budget) -> None:
        """See what the shown release would be with another k; nothing is written."""
        from sfumato.anonymization.verb import anonymize

        made = self.made
        if made is None or made.choices is None:
            raise ParameterError("there is no release to compare with")
        with self._asking(budget):
            request = made.choices.asking(k=k).rehearsed()
            found = anonymize(self.table, config=request, budget=budget)
        known = self._by_k[1] if self._by_k[0] == made.name else {}
        kept = list(known.items())[1 - MOST_OTHER_KS :]
        self._by_k = (made.name, {**dict(kept), k: found})

    def _keep_text(self, name: str, text: Callable[[], str]) -> None:
        """For another day, where the folder can be written; it is a convenience."""
        self._require_open()
        with suppress(SourceError, OSError):
            self._make_folder()
            with held(self.folder) as home:
                write_text(home / name, text())

    def _kept_text(self, name: str, read: Callable[[str], T], nothing: T) -> T:
        """What an earlier day left, where it can be read."""
        if not os.path.lexists(self.folder):
            return nothing
        try:
            with held(self.folder) as home:
                return read(read_unlinked(home / name, "the file"))
        except (SfumatoError, OSError, ValueError, TypeError, KeyError, AttributeError):
            return nothing

    def _keep_candidates(self) -> None:
        self._keep_text(TRIED, lambda: candidates_to(self.candidates, self._stamp()))

    def _tried_before(self) -> tuple[Candidate, ...]:
        """Candidates of an earlier day, if the table has not changed since."""
        nothing: tuple[Candidate, ...] = ()
        found = self._kept_text(TRIED, lambda text: candidates_from(text, self._stamp()), nothing)
        names = set(self.table.columns)
        return tuple(one for one in found if set(one.choices.roles) == names)

    def _asked_before(self) -> dict[str, Asked]:
        """What other verbs were asked, if it was about these columns."""
        found: dict[str, Asked] = self._kept_text(ASKED, questions_from, {})
        names = set(self.table.columns)
        return {verb: one for verb, one in found.items() if set(one.choices.roles) == names}

    def _stamp(self) -> list[Any]:
        """By which it is seen that the table's file was changed, or is read otherwise."""
        said = self.reading.said()
        return [*(self._file() or ())[:2], *([said] if said else [])]

    def release(self, budget: Budget, wanted: Choices | None = None) -> None:
        """Write the release, its certificate, its settings and its report; then verify it.

        It lies beside earlier ones: only one that was made with the same decisions is replaced.
        Those that are `wanted`, and not decided yet, are once it is made.
        """
        from sfumato.anonymization.verb import anonymize
        from sfumato.release.verify import verify

        with self._asking(budget):
            choices = wanted or self.choices
            self._make_folder()
            with held(self.folder) as home:
                name = self._free_name(home, choices)
                folder = f"{name}.hierarchies"
                # Paths in the file are relative to it, so that the folder can be moved.
                said = self.reading.settings()
                settings = self._repeats(name) + (
                    choices.settings(Path(), folder).overridden(said).to_toml()
                )
                if choices.replaced and not choices.key_file:
                    _make_key(home / OWN_KEY)
                output = home / f"{name}{_ending(self.source)}"
                with _replacing(home / folder) as trees:
                    write_trees(choices.used_trees, trees)
                    release = anonymize(
                        self.table,
                        config=choices.settings(home, folder).overridden(said),
                        output=output,
                        force=True,
                        budget=budget,
                    )
                self.made = None  # what lies there is no longer what was shown
                self._by_k = ("", {})
                write_text(home / f"{name}.toml", settings)
                budget.progress("verifying what was written")
                # A certificate opens nothing: the people of a k-map are named again.
                asked = _matched(choices, home / folder)
                checked = verify(str(output), budget=budget.unhurried(), **asked)
                holds = not any(finding.broken for finding in checked.findings)
                made, page = self._finish(
                    name, choices, settings, release, holds, budget, self.reading
                )
                self._keep(made, release, page, home)
            self._recognise(self.table)
            used = replace(choices, trees=choices.used_trees)
            write_choices(used, self.folder, self.source.name, f"{name}.decisions", folder)
        if wanted is not None:
            self.decide(wanted)

    def release_by(
        self, command: Callable[[str], str], make: Callable[..., Release], budget: Budget
    ) -> None:
        """Write the release of another verb, its certificate, command and report; verify it."""
        from sfumato.release.verify import verify

        with self._asking(budget):
            self._make_folder()
            with held(self.folder) as home:
                name = self._free_name(home, None)
                output = f"{name}{_ending(self.source)}"
                release = make(output=str(home / output), force=True, budget=budget)
                self.made = None
                settings = tomli_w.dumps({"command": command(output)})
                write_text(home / f"{name}.toml", settings)
                budget.progress("verifying what was written")
                checked = verify(str(home / output), budget=budget.unhurried())
                holds = not any(finding.broken for finding in checked.findings)
                made, page = self._finish(
                    name, None, settings, release, holds, budget, self.reading
                )
                self._keep(made, release, page, home)
            self._recognise(self.table)

    def answer(self, name: str, asked: Answered, work: Callable[[], Any], budget: Budget) -> None:
        """Let another verb work on the table, and keep the page of its result."""
        with self._asking(budget):
            found = work()
            if budget.stopped_by == "cancelled":
                raise BudgetError("the work was stopped")
            budget.progress("drawing")
            known: dict[str, Any] = {}
            undecided: Names = ()
            if isinstance(found, Release):
                known["sensitive"] = self.choices.with_role("sensitive")
                known["person"] = self.choices.person or None
                undecided = tuple(found.details.get("undecided", ()))
            with counting(*self.choices.spoken):
                shown = body_html(page_of(found, **known))
        self.answers[name] = replace(asked, shown=shown, undecided=undecided)
        self.unasked.pop(name, None)
        self._keep_questions()

    def _keep_questions(self) -> None:
        """Keep what other verbs were asked, and whether the lattice was looked at."""
        questions = self.unasked | {n: one.by for n, one in self.answers.items()}
        if self._lattice is not None:
            questions[LATTICE] = Asked({}, self._lattice[0])
        self._keep_text(ASKED, lambda: questions_to(questions))

    def at_hand(self, name: str) -> Release | None:
        """A release as it was made, where that was since the table was opened."""
        found = self._at_hand.get(name)
        with held(self.folder) as home, suppress(SfumatoError, OSError):
            if found is not None and found[0] == digest_of(home, f"{name}{_ending(self.source)}"):
                return found[1]
        return None

    def reopen(self, name: str, budget: Budget, tables: Sequence[Path] = ()) -> None:
        """Show a release of an earlier day: files may be changed, so it is measured again.

        Of the tables that its decisions name only `tables` are opened.
        """
        with self._asking(budget):
            self._unreadable.add(name)
            choices = read_choices(self.folder, f"{name}.decisions", f"{name}.hierarchies")
            with held(self.folder) as home:
                settings = read_unlinked(home / f"{name}.toml", "the settings of the release")
                budget.progress("verifying what lies there")
                output = home / f"{name}{_ending(self.source)}"
                asked: dict[str, Any] = {}
                if choices is not None and choices.population in map(str, tables):
                    asked = _matched(choices, home / f"{name}.hierarchies")
                release = certified_release(output, self.table, budget=budget, **asked)
                alone = not asked and choices is not None and choices.k_map is not None
                if alone and choices is not None:
                    release = _without_people(release, choices)
                holds = not any(finding.broken for finding in release.findings)
                kept = Kept.read(home, name, output.name)
                made = self.at_hand(name)
                if holds and made is not None:
                    told = release.findings if alone else made.findings  # the same bytes
                    release = replace(made, destination=str(output), findings=told)
                elif kept is not None:
                    release = kept.known_to(release)
                if choices is not None and release.mapping is None:
                    trees = {"trees": self._climbed(choices)}
                    release = replace(release, details={**release.details, **trees})
                reading = None if kept is None else kept.reading
                repeats = kept is not None and kept.settings == digest(settings)
                self._finish(name, choices, settings, release, holds, budget, reading, repeats)
            self._unreadable.discard(name)

    def _climbed(self, choices: Choices) -> dict[str, Hierarchy]:
        """The trees whose labels a release may show; of inferred ones those that can be."""
        found = {name: tree.hierarchy for name, tree in choices.used_trees.items()}
        for name in choices.qi if choices.infers_trees else ():
            values, counts = counts_of(self.table, name)
            if name not in found and len(values) <= MOST_VALUES:
                with suppress(SfumatoError):
                    found[name] = inferred(Held(self.table.column(name), values, counts)).hierarchy
        return found

    def _keep(self, made: Made, release: Release, page: Page, home: Path) -> None:
        """Keep what is known of a release that was just made, at hand and in the folder."""
        name, output = made.name, f"{made.name}{_ending(self.source)}"
        write_page(page, home / f"{name}.html", force=True)
        Kept.of(release, self.reading, made.settings).save(home, name, output)
        self._at_hand.pop(name, None)
        self._at_hand[name] = (digest_of(home, output), release)
        while len(self._at_hand) > MOST_AT_HAND:
            del self._at_hand[next(iter(self._at_hand))]

    def _finish(
        self,
        name: str,
        choices: Choices | None,
        settings: str,
        release: Release,
        holds: bool,
        budget: Budget,
        reading: Reading | None,
        repeats: bool = True,
    ) -> tuple[Made, Page]:
        """Draw the page of a release that was written, and show it."""
        output = f"{name}{_ending(self.source)}"
        budget.progress("drawing")
        decided = choices or self.choices
        worth = decided.with_role("sensitive")
        with counting(*decided.spoken):
            page = release_page(release, self.table, worth, decided.person or None)
        place = str(self.folder / output)
        release = replace(release, output=place, destination=place)
        shared = next((one.shared for one in page.lights if one.shared), ())
        single = next((one.single for one in page.lights if one.single), ())
        same = any(one.name in worth and one.values < 2 for one in self.columns)
        shared = () if choices is None or choices.protects_sensitive or same else shared
        single = () if choices is None else single
        shown = body_html(page)
        seen = self._measured(name, choices)
        made = Made(
            name, choices, settings, release, holds, shown, shared, single, reading, seen, repeats
        )
        self.made = made
        return made, page

    def _measured(self, name: str, choices: Choices | None) -> tuple[Stamp | None, ...]:
        """The files by which a release is verified, and its settings, as they are now."""
        output = self.folder / f"{name}{_ending(self.source)}"
        places = [output, output.with_name(f"{output.name}.certificate.json")]
        places.append(self.folder / f"{name}.toml")
        if choices is not None and choices.population:
            places.append(Path(choices.population))
        return tuple(map(_stamp_of, places))

    def altered(self, made: Made) -> bool:
        """Whether files of a release are not those that were measured."""
        return made.seen != self._measured(made.name, made.choices)

    def _repeats(self, name: str) -> str:
        """The command that repeats a release, as the first line of its settings."""
        place = shlex.quote(f"{self.folder.name}/{name}.toml")
        ending = _ending(self.source)
        return (
            f"# sfumato anonymize {self.reading.command(self.source)} --config {place} "
            f"-o again{ending}\n"
        )

    def _free_name(self, home: Path, choices: Choices | None) -> str:
        """What the files of a release are called: no other release has this name."""
        made = self.made
        same = made is not None and made.choices == choices and made.reading == self.reading
        if made is not None and choices is not None and same:
            return made.name
        names = ("release" if n == 1 else f"release-{n}" for n in itertools.count(1))
        ending = _ending(self.source)
        return next(name for name in names if not os.path.lexists(home / f"{name}{ending}"))

    def versions(self) -> list[Version]:
        """Releases that lie in the folder, the last one first."""
        if not os.path.lexists(self.folder):
            return []
        found: list[Version] = []
        done: dict[str, Mapping[str, str]] = {}
        ending = _ending(self.source)
        with held(self.folder) as home:
            for place in home.glob(f"release*{ending}.certificate.json"):
                name = place.name.removesuffix(f"{ending}.certificate.json")
                if not re.fullmatch(r"release(-\d+)?", name) or place.is_symlink():
                    continue
                with suppress(SfumatoError, OSError, KeyError, TypeError, ValueError):
                    output = f"{name}{ending}"
                    kept = Kept.read(home, name, output)
                    body = Certificate.read(place).body
                    other = self._print and names_same(body["input"]["fingerprint"], self._print)
                    changed = kept is None or kept.size != size_of(home / output)
                    one = _version(name, output, body, kept, changed)
                    found.append(replace(one, other=other is False))
                    done[name] = body.get("column_actions", {})
        found = [replace(one, apart=_apart(one, found, done)) for one in found]
        return sorted(found, key=lambda one: -int(one.name.partition("-")[2] or 1))

    def certificate_pdf(self, version: Version) -> bytes:
        """The certificate of a release as a PDF."""
        with held(self.folder) as home:
            found = Certificate.read(home / f"{version.output}.certificate.json")
            with table(str(home / version.output)) as released:
                if released.fingerprint() != found.body["output"]["fingerprint"]:
                    raise ParameterError(
                        f"{version.output} is not what its certificate is about any more",
                        remedy="Make the release again.",
                    )
            return certificate_pdf(found)

    def latest(self) -> str | None:
        """The release to show where none was made yet: the last one that can be shown."""
        found = (one for one in self.versions() if not one.other)
        return next((one.name for one in found if one.name not in self._unreadable), None)

    def files(self, name: str | None = None) -> list[Path]:
        """What can be taken away: a release and what belongs to it; by default, the shown one."""
        if name is None and self.made is None:
            return []
        name = name or (self.made.name if self.made is not None else "")
        output = f"{name}{_ending(self.source)}"
        names = [output, f"{output}.certificate.json", f"{name}.toml", f"{name}.html"]
        places = [self.folder / name for name in names]
        places += sorted((self.folder / f"{name}.hierarchies").glob("*.csv"))
        return [place for place in places if place.is_file() and not place.is_symlink()]

    def close(self) -> None:
        """Let go of the table, as soon as nothing is asked of it any more.

        Nothing is written afterwards, so that its folder can be removed.
        """
        with self._changing, self.busy:
            self._closed = True
            self.candidates = ()
            if self.opened is not None:
                self.opened.close()

    @contextmanager
    def _asking(self, budget: Budget | None = None, reads: bool = False) -> Iterator[None]:
        """The table for oneself, unless it was closed or the work cancelled while that waited.

        Of a file that is not the one that was looked at nothing is asked, but by who `reads` it.
        """
        with self.busy:
            self._require_open()
            if not reads:
                self._require_same()
            if budget is not None and budget.spent():
                raise BudgetError("the work was stopped before it began")
            yield

    def _require_open(self) -> None:
        if self._closed:
            raise SourceError("this table is not open any more", remedy="Open it again.")

    def _file(self) -> Stamp | None:
        return _stamp_of(self.source)

    @property
    def stale(self) -> SourceError | None:
        """What is wrong where the file is not the one that was looked at."""
        now = self._file()
        if self._seen in (None, now):
            return None
        if now is None:
            return SourceError(
                "the file is not there any more",
                where=str(self.source),
                remedy="Put it back, or open it where it is now.",
            )
        surely = self._seen is not None and now[:2] != self._seen[:2]
        return SourceError(
            f"the file {'was' if surely else 'may have been'} changed since it was read",
            where=str(self.source),
            remedy="Read it again under Configure, “how the file is read”.",
        )

    def _require_same(self) -> None:
        stale = self.stale
        if stale is not None:
            raise stale

    def _save(self, choices: Choices) -> None:
        self._require_open()
        self._make_folder()
        place = self.folder / "project.toml"
        if _stamp_of(place) not in (None, self._saved):
            raise SourceError(
                "the decisions were changed by another program, and nothing was done",
                where=str(place),
                remedy="Close the table and open it again to see them.",
            )
        write_choices(choices, self.folder, self.source.name)
        self._saved = _stamp_of(place)

    def _make_folder(self) -> None:
        try:
            make_folder(self.folder)
        except OSError as error:
            raise SourceError(
                f"the folder for decisions cannot be made ({error.strerror})",
                where=str(self.folder),
                remedy="Copy the table to a folder that may be written to, or drop it on the first "
                "page: then it is kept in a private one.",
            ) from error


def _stamp_of(place: Path) -> Stamp | None:
    """By which it is seen that a file was changed; None where there is none.

    The last two are not to be set back: size and time of a file can be.
    """
    try:
        found = place.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def _ending(source: Path) -> str:
    """The format a release is written in: that of the table, uncompressed."""
    for ending in (".parquet", ".arrow", ".tsv"):
        if ending in source.suffixes:
            return ending
    return ".csv"


def _version(
    name: str, output: str, body: Mapping[str, Any], kept: Kept | None, changed: bool
) -> Version:
    """A release as its certificate describes it, and what was kept of the persons in it."""
    k, persons = body.get("k"), persons_promised(body)
    alike = "–" if k is None else f"{k:,}{' rows' if unnamed(body) else ''}"
    if kept is not None and changed:
        alike = "–"
    elif kept is not None and kept.k is not None:
        alike = counted(kept.k, "person")
    elif persons is not None:
        alike = f"≥ {counted(persons, 'person')}"
    return Version(
        name=name,
        output=output,
        date=str(body["date"]),
        method=str(body["method"]),
        demand=_demand(body["asked"], len(body.get("qi", ()))),
        alike=alike,
        rows=int(body["rows"]),
        changed=changed,
    )


def _apart(one: Version, among: Sequence[Version], done: Mapping[str, Mapping[str, str]]) -> str:
    """By what a release differs from those that would be called the same."""
    mine = done[one.name]
    same = [other for other in among if (other.method, other.demand) == (one.method, one.demand)]
    differ = [n for n in mine if any(done[other.name].get(n) != mine[n] for other in same)]
    return phrase([f"{name} {mine[name]}" for name in differ], 3)


def _demand(asked: Mapping[str, Any], sets: int = 1) -> str:
    """The numbers that were asked for, and for how many sets of columns."""
    said = [
        f"{symbol.replace('_', '-')} = {value:g}"
        if symbol != "suppression_limit"
        else f"up to {100 * value:g}% of the rows left out"
        for symbol, value in asked.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    ]
    people = asked.get("population")
    said += [f"people of {Path(people).name}"] if isinstance(people, str) else []
    return ", ".join([*said, *([f"for each of {sets} sets of columns"] if sets > 1 else [])])


def _matched(choices: Choices, trees: Path) -> dict[str, Any]:
    """What it takes to verify a k-map: the people, and the trees whose labels are shown."""
    if choices.k_map is None or not choices.population:
        return {}
    found: dict[str, Any] = {"population": choices.population}
    return {**found, "hierarchies": str(trees)} if choices.used_trees else found


def _without_people(release: Release, choices: Choices) -> Release:
    """A release of which a k-map cannot be checked again: the people are not at hand."""
    people = f"k-map = {choices.k_map}, without {Path(choices.population).name}, which is not here"
    found = Finding("k-map", True, f"not checked: {people}", {"not_checked": [people]})
    return replace(
        release, findings=tuple(found if f.check == "k-map" else f for f in release.findings)
    )


def _make_key(place: Path) -> None:
    """Make a key that only its owner can read, where there is none."""
    if os.path.lexists(place):
        read_secret(place, "the key of the pseudonyms", follow=False)
    else:
        write_secret(place, f"{secrets.token_hex(32)}\n".encode())


@contextmanager
def _replacing(folder: Path) -> Iterator[Path]:
    """A folder whose files are replaced; where nothing comes of it they are as they were."""
    before = _texts(folder) if os.path.lexists(folder) else {}
    try:
        yield folder
    except BaseException:
        if os.path.lexists(folder):
            keep_only(folder, list(before), ".csv")
            with held(folder) as place:
                for name, content in before.items():
                    write_text(place / name, content)
            if not before:
                with suppress(OSError):
                    folder.rmdir()
        raise


def _texts(folder: Path) -> dict[str, str]:
    """What the trees in a folder say; links are left alone."""
    with held(folder) as place:
        names = [p.name for p in place.glob("*.csv") if not p.is_symlink()]
        return {name: read_unlinked(place / name, "the tree") for name in names}


def _searched(choices: Choices) -> Choices:
    """The same by full-domain recoding that is free to choose all levels."""
    return replace(choices, method="full-domain", levels={})


def _deciding(choices: Choices) -> tuple[Names, Names, str]:
    """What decides which columns are combined, and who is counted."""
    return choices.qi, choices.with_role("identifier"), choices.person


def in_time(edition: int | None, now: Decided) -> None:
    """Refuse what a page asks that does not show the decisions of now."""
    if edition not in (None, now.edition):
        raise ParameterError(
            "the decisions were changed on another page, and nothing was done",
            remedy="Load this page again to see them.",
        )
