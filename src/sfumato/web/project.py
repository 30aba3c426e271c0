"""One table on the workbench: what was decided about it, and what was found.

Decisions are saved in a folder beside the table as TOML, so that work goes on another day; a
release is written there too, with its certificate and the settings that repeat it.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from sfumato.atomic import write_text
from sfumato.budget import Budget
from sfumato.engines.codes import Codes
from sfumato.engines.sizes import ClassSizes
from sfumato.errors import BudgetError, ParameterError, SourceError
from sfumato.privacy import Check, check
from sfumato.quasi.looking import Look, look_at
from sfumato.quasi.scan import ColumnScan, Scan, combine, describe
from sfumato.quasi.wording import Role
from sfumato.release.publish import Release
from sfumato.release.verify import Verification
from sfumato.report.showable import counts_of
from sfumato.tables import Table
from sfumato.web.candidates import Candidate
from sfumato.web.choices import Choices, read_choices, write_choices, write_trees
from sfumato.web.outline import Outline
from sfumato.web.trees import MOST_VALUES, Held, inferred

__all__ = ["Project"]

MOST_UNDO = 50
MOST_CANDIDATES = 24
QUICK = 2_000_000
"""Rows times columns that are counted while a page waits."""
RELEASE_TREES = "release.hierarchies"


@dataclass(eq=False)
class Project:
    """A table that is open.

    `kept` says whether its folder outlives the workbench; that of an uploaded table does not.
    """

    source: Path
    table: Table
    kept: bool = True
    number: str = field(default_factory=lambda: secrets.token_hex(6))
    choices: Choices = field(default_factory=Choices)
    columns: tuple[ColumnScan, ...] = ()
    """Empty until the first look."""
    candidates: list[Candidate] = field(default_factory=list)
    released: tuple[Release, Verification] | None = None
    edition: int = 0
    """Grows with every decision, so that a page can tell that it is out of date."""
    busy: threading.Lock = field(default_factory=threading.Lock)
    """Held by the job that asks the table something: engines answer one question at a time."""
    _deciding: threading.Lock = field(default_factory=threading.Lock)
    _look: Look | None = None
    _undo: list[Choices] = field(default_factory=list)
    _sizes: dict[tuple[str, ...], ClassSizes] = field(default_factory=dict)
    _scans: dict[tuple[str, ...], Scan] = field(default_factory=dict)
    _entries: dict[tuple[str, ...], Codes] = field(default_factory=dict)
    _held: dict[str, Held] = field(default_factory=dict)
    _inferred: dict[str, Outline] = field(default_factory=dict)
    _tried: int = 0

    @property
    def folder(self) -> Path:
        """Where decisions and releases are kept."""
        return self.source.parent / f"{self.source.name}.sfumato"

    @property
    def qi(self) -> tuple[str, ...]:
        """Columns others may know."""
        return self.choices.qi

    @property
    def can_undo(self) -> bool:
        """Whether there is a decision to take back."""
        return bool(self._undo)

    @property
    def looked(self) -> bool:
        """Whether the columns are known."""
        return bool(self.columns)

    # Decisions

    def look(self, budget: Budget) -> None:
        """First look; decisions of an earlier day come before guesses."""
        with self.busy:
            self._look = look_at(self.table, seed=0, budget=budget)
        budget.progress("guessing roles")
        columns = tuple(describe(facts, self._look) for facts in self._look.facts)
        kept = read_choices(self.folder) or self.choices
        roles = {column.name: kept.roles.get(column.name, column.role) for column in columns}
        self.choices = replace(
            kept,
            roles=roles,
            weights={name: weight for name, weight in kept.weights.items() if name in roles},
            trees={name: tree for name, tree in kept.trees.items() if name in roles},
        )
        self.columns = columns

    def decide(self, choices: Choices, edition: int | None = None) -> None:
        """Take a decision; it is saved, and can be taken back.

        `edition` is that of the decisions it was made on, where a page asks about all of them:
        what was decided elsewhere meanwhile is not overwritten unseen.
        """
        if set(choices.roles) != set(self.table.columns):
            raise ParameterError("the roles are not those of this table's columns")
        if not set(choices.weights) | set(choices.trees) <= set(choices.roles):
            raise ParameterError("there is a weight or a tree of a column that does not exist")
        with self._deciding:
            if choices != self.choices:
                if edition not in (None, self.edition):
                    raise ParameterError(
                        "the decisions were changed on another page, and nothing was done",
                        remedy="Load this page again to see them.",
                    )
                self._save(choices)
                self._undo = [*self._undo[1 - MOST_UNDO :], self.choices]
                self.choices = choices
                self.edition += 1

    def undo(self) -> None:
        """Take the last decision back."""
        with self._deciding:
            if self._undo:
                self._save(self._undo[-1])
                self.choices = self._undo.pop()
                self.edition += 1

    # What is found

    def class_sizes(self, budget: Budget | None = None) -> ClassSizes:
        """Class sizes of the columns others may know; counted once."""
        qi = self.qi
        if qi not in self._sizes:
            with self.busy:
                self._sizes[qi] = self.table.class_sizes(qi, budget)
        return self._sizes[qi]

    def sizes_now(self) -> ClassSizes | None:
        """Class sizes where they are known, or counted in a moment."""
        if not self.qi:
            return None
        small = self._look is not None and self._look.rows * len(self.qi) <= QUICK
        return self.class_sizes() if small or self.has_sizes() else None

    @property
    def can_count_soon(self) -> bool:
        """Whether class sizes are missing that a page can wait for."""
        return bool(self.qi) and not self.has_sizes() and self.table.engine.kind == "memory"

    def has_sizes(self) -> bool:
        """Whether class sizes are known without counting."""
        return self.qi in self._sizes

    def explore(self, budget: Budget) -> Scan:
        """Which columns point at people together, given the roles; counted once for each."""
        assert self._look is not None
        roles = self.choices.roles
        columns = tuple(
            replace(column, role=cast("Role", roles[column.name])) for column in self.columns
        )
        qi = self.qi
        if qi not in self._scans:
            with self.busy:
                found = combine(self.table, self._look, columns, budget=budget)
            if budget.stopped_by is not None:
                raise BudgetError("the count was stopped")
            self._scans[qi] = found
        return replace(self._scans[qi], columns=columns)

    def has_explored(self) -> bool:
        """Whether the columns have been combined."""
        return self.qi in self._scans

    def check_now(self, k: int) -> Check | None:
        """What the table as it is has of everything demanded; None where that takes longer."""
        from sfumato.anonymize.verb import demand_of

        choices = replace(self.choices, k=k)
        names = (*self.qi, *choices.with_role("sensitive"))
        assert self._look is not None
        if (choices.l is None and choices.t is None) or self._look.rows * len(names) > QUICK:
            return None
        demand = demand_of(self.table, choices.settings())
        if names not in self._entries:
            with self.busy:
                self._entries = {names: self.table.classes(names)}
        entries = self._entries[names]
        return check(
            demand.models,
            {name: entries.column(name) for name in names},
            self.qi,
            counts=entries.counts,
            values={name: entries.values_of(name) for name in names},
        )

    # Trees

    def held(self, column: str) -> Held:
        """The values of a column whose tree can be changed."""
        if column not in self._held:
            found = next(c for c in self.columns if c.name == column)
            if found.classes > MOST_VALUES:
                raise ParameterError(
                    f"`{column}` has {found.classes:,} values; a tree of more than "
                    f"{MOST_VALUES:,} cannot be changed by hand",
                    remedy="Leave it to the method, or make its tree with `sfumato hierarchy`.",
                )
            with self.busy:
                values, counts = counts_of(self.table, column)
            self._held[column] = Held(self.table.column(column), values, counts)
        return self._held[column]

    def outline(self, column: str) -> Outline:
        """The tree of a column: the one that was made, or the one that would be inferred."""
        if column in self.choices.trees:
            return self.choices.trees[column]
        if column not in self._inferred:
            self._inferred[column] = inferred(self.held(column))
        return self._inferred[column]

    def decide_tree(self, column: str, outline: Outline | None) -> None:
        """Give a column a tree, or none of its own."""
        trees = {name: tree for name, tree in self.choices.trees.items() if name != column}
        if outline is not None:
            trees[column] = outline
        self.decide(replace(self.choices, trees=trees))

    # Releases

    def try_out(self, tried: Sequence[Choices], budget: Budget) -> None:
        """Rehearse releases and keep their figures for comparison; nothing is written."""
        from sfumato.anonymize.verb import anonymize

        for choices in tried:
            if budget.spent():
                raise BudgetError("the trial was stopped")
            with self.busy:
                release = anonymize(self.table, config=choices.settings(), budget=budget)
            self._tried += 1
            others = [old for old in self.candidates if old.choices != choices]
            new = Candidate.of(self._tried, choices, release)
            self.candidates = [*others, new][-MOST_CANDIDATES:]

    def release(self, budget: Budget) -> None:
        """Write the release, its certificate, its settings and its report; then verify it."""
        from sfumato.anonymize.verb import anonymize
        from sfumato.release.verify import verify

        choices = self.choices
        self._make_folder()
        trees = self.folder / RELEASE_TREES
        write_trees(choices.used_trees, trees)
        output = self.folder / f"release{_ending(self.source)}"
        with self.busy:
            release = anonymize(
                self.table,
                config=choices.settings(str(trees)),
                output=output,
                force=True,
                budget=budget,
            )
            # Paths in the file are relative to it, so that the folder can be moved.
            write_text(self.folder / "release.toml", choices.settings(RELEASE_TREES).to_toml())
            budget.progress("verifying what was written")
            checked = verify(str(output), budget=budget)
            budget.progress("drawing")
            release.report(self.folder / "release.html", force=True)
        self.released = (release, checked)

    def files(self) -> list[Path]:
        """What can be taken away: the release and what belongs to it."""
        if self.released is None:
            return []
        output = f"release{_ending(self.source)}"
        names = [output, f"{output}.certificate.json", "release.toml", "release.html"]
        places = [self.folder / name for name in names]
        places += sorted((self.folder / RELEASE_TREES).glob("*.csv"))
        return [place for place in places if place.is_file()]

    def close(self) -> None:
        """Let go of the table, as soon as nothing is asked of it any more."""
        with self.busy:
            self.candidates.clear()
            self.table.close()

    def _save(self, choices: Choices) -> None:
        self._make_folder()
        write_choices(choices, self.folder, self.source.name)

    def _make_folder(self) -> None:
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise SourceError(
                f"the folder for decisions cannot be made ({error.strerror})",
                where=str(self.folder),
                remedy="Copy the table to a folder that may be written to, or drop it on the first "
                "page: then it is kept in a private one.",
            ) from error


def _ending(source: Path) -> str:
    """The format a release is written in: that of the table, uncompressed."""
    for ending in (".parquet", ".arrow", ".tsv"):
        if ending in source.suffixes:
            return ending
    return ".csv"
