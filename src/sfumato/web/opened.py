"""A table that is open: what was decided about it, and what is found in it.

Decisions are saved in a folder beside the table as TOML, so that work goes on another day.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from sfumato.budget import Budget
from sfumato.columns.persons import person_columns
from sfumato.columns.profile import Profile, profile
from sfumato.columns.recognise import recognise_columns
from sfumato.columns.vocabulary import Role
from sfumato.engines.protocol import Codes
from sfumato.errors import BudgetError, ParameterError, SfumatoError, SourceError
from sfumato.files import held, make_folder
from sfumato.privacy import Check, check
from sfumato.quasi.scan import ColumnScan, Scan, combine, describe
from sfumato.report.disclosure import counts_of
from sfumato.risks import Alike, alike
from sfumato.tables import Table
from sfumato.web.choices import Choices, read_choices, write_choices
from sfumato.web.hierarchies import MOST_VALUES, EditableHierarchy, Held, inferred
from sfumato.web.sources import FirstRows, Reading

MOST_UNDO = 50
QUICK = 2_000_000
"""Rows times columns that are counted while a page waits."""
Names = tuple[str, ...]
Sets = tuple[tuple[Names, ...], str]
"""Sets of columns, and the column that names persons; empty where rows are counted."""
Stamp = tuple[int, ...]
"""Of a file: see `stamp_of`."""


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


@dataclass(eq=False)
class OpenTable:
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
    problem: SfumatoError | None = None
    """Why that failed."""
    damaged: bool = False
    """Whether decisions of an earlier day lie there that cannot be read."""
    first: FirstRows = field(default_factory=FirstRows)
    number: str = field(default_factory=lambda: secrets.token_hex(6))
    decided: Decided = field(default_factory=Decided)
    columns: tuple[ColumnScan, ...] = ()
    """Empty until the first look."""
    view: str = ""
    """How columns are shown, ``board`` or ``table``; empty until somebody chose."""
    rows_shown: bool = False
    """Whether somebody asked to see single rows since the table was opened."""
    busy: threading.Lock = field(default_factory=threading.Lock)
    """Held by the job that asks the table something: engines answer one question at a time."""
    _guessed: tuple[int, dict[str, str]] = (0, {})
    """Roles that were guessed otherwise before the file was read anew, at an edition."""
    _changing: threading.Lock = field(default_factory=threading.Lock)
    _closed: bool = False
    _seen: Stamp | None = None
    """The file as it was when it was looked at."""
    _saved: Stamp | None = None
    """The file of the decisions as it was read or written here."""
    _look: Profile | None = None
    _alike: dict[Sets, Alike] = field(default_factory=dict)
    _scans: dict[tuple[Names, Names, str], Scan] = field(default_factory=dict)
    _entries: tuple[Names, Codes] | None = None
    _held: dict[str, Held] = field(default_factory=dict)
    _inferred: dict[str, EditableHierarchy] = field(default_factory=dict)

    @property
    def table(self) -> Table:
        """The table; an error where its file cannot be read."""
        if self.opened is None:
            raise self.problem or SourceError("the table was not read yet")
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

    # Reading

    def look(self, budget: Budget, reading: Reading | None = None) -> None:
        """Read the file and look at it; decisions of an earlier day come before guesses.

        Where it cannot be read that way, `problem` says why, and what was open stays so.
        """
        asked = reading or self.reading
        with self._asking(budget, reads=True):
            before = self._file()  # what is changed while it is read is noticed later
            try:
                opened, look, first = self._read(asked, budget, reading is not None)
            except SfumatoError as error:
                if budget.spent():
                    raise
                self.problem, self.tried = error, asked
                return
            budget.progress("guessing roles")
            columns = describe(look)
            saved = self._decided_before(opened)
            likely = "" if saved else self._likely_person(opened, look, budget)
        self._take(asked, opened, look, first, columns, saved or Choices(person=likely))
        self._seen = before

    def _decided_before(self, opened: Table) -> Choices | None:
        """Decisions of an earlier day about the table that was just opened."""
        self._saved = stamp_of(self.folder / "project.toml")
        self.damaged = True  # unless they can be read
        saved = read_choices(self.folder)
        self.damaged = False
        return saved

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
            self._look, self.first, self.reading = look, first, reading
            self.problem, self.tried = None, None
            then = self.decided.choices.roles if before not in (None, opened) else {}
            changed = {n: role for n, role in then.items() if roles.get(n, role) != role}
            self._guessed = (self.decided.edition, changed)
            self.decided = Decided(found, self.decided.edition)
            self._forget(before not in (None, opened))
            self.columns = columns

    def _forget(self, another: bool) -> None:
        """Forget what was found in what was open before; `another`: that was read anew."""
        for known in (self._alike, self._scans, self._held, self._inferred):
            known.clear()
        self._entries = None

    @staticmethod
    def _likely_person(opened: Table, look: Profile, budget: Budget) -> str:
        """The column that seems to name persons with several rows, if every row has somebody."""
        found = person_columns(opened, look, recognise_columns(look), budget)
        whole = {facts.name for facts in look.facts if not facts.nulls}
        return next((one.name for one in found if one.name in whole), "")

    def keep_reading(self) -> None:
        """How the file is read, for another day, where the folder can be written."""
        self._require_open()
        with suppress(SourceError, OSError):
            self._make_folder()
            self.reading.save(self.folder)

    def regarded(self, decided: Decided) -> dict[str, str]:
        """Roles before the file was read anew, where they changed and nothing was decided since."""
        edition, changed = self._guessed
        return changed if edition == decided.edition else {}

    # Decisions

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

    def _save(self, choices: Choices) -> None:
        self._require_open()
        self._make_folder()
        place = self.folder / "project.toml"
        if stamp_of(place) not in (None, self._saved):
            raise SourceError(
                "the decisions were changed by another program, and nothing was done",
                where=str(place),
                remedy="Close the table and open it again to see them.",
            )
        write_choices(choices, self.folder, self.source.name)
        self._saved = stamp_of(place)

    def set_aside(self) -> None:
        """Give decisions that cannot be read another name."""
        with self._changing:
            self._require_open()
            if self.damaged:
                with held(self.folder) as home:
                    (home / "project.toml").replace(home / "project.damaged.toml")
                self.damaged = False

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
        who, names = self._checked(choices)
        waits = self.busy.locked() or self.stale is not None
        if not self.checks(choices) or (waits and (self._entries or ("", None))[0] != names):
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

    def checks(self, choices: Choices) -> bool:
        """Whether something is demanded that can be counted in a moment, once no work goes on."""
        assert self._look is not None
        few = self._look.rows * len(self._checked(choices)[1]) <= QUICK
        return choices.gap is None and choices.protects_sensitive and few

    def _checked(self, choices: Choices) -> tuple[Names, Names]:
        """The person, where there is one, and all columns that demands are about."""
        who = (choices.person,) if choices.person else ()
        return who, (*choices.qi, *choices.with_role("sensitive"), *who)

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

    # One thing at a time

    def close(self) -> None:
        """Let go of the table, as soon as nothing is asked of it any more.

        Nothing is written afterwards, so that its folder can be removed.
        """
        with self._changing, self.busy:
            self._closed = True
            if self.opened is not None:
                self.opened.close()

    @contextmanager
    def _asking(self, budget: Budget | None = None, reads: bool = False) -> Iterator[None]:
        """The table for oneself, unless it was closed or the work cancelled while that waited.

        Of a file that is not the one that was looked at nothing is asked, but by who `reads` it.
        """
        with self.busy:
            self._require_open()
            if not reads and (stale := self.stale) is not None:
                raise stale
            if budget is not None and budget.spent():
                raise BudgetError("the work was stopped before it began")
            yield

    def _require_open(self) -> None:
        if self._closed:
            raise SourceError("this table is not open any more", remedy="Open it again.")

    def _file(self) -> Stamp | None:
        return stamp_of(self.source)

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


def stamp_of(place: Path) -> Stamp | None:
    """By which it is seen that a file was changed; None where there is none.

    The last two are not to be set back: size and time of a file can be.
    """
    try:
        found = place.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


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
