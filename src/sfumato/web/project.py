"""One table on the workbench: what was decided about it, and what was found.

Decisions are saved in a folder beside the table as TOML, so that work goes on another day; a
release is written there too, with its certificate and the settings that repeat it.
"""

from __future__ import annotations

import json
import secrets
import threading
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path

from sfumato.anonymize.config import Settings
from sfumato.anonymize.registry import METHODS
from sfumato.atomic import write_text
from sfumato.budget import Budget
from sfumato.engines.sizes import ClassSizes
from sfumato.errors import ParameterError, SourceError
from sfumato.quasi.scan import Scan, scan
from sfumato.release.publish import Release
from sfumato.release.verify import Verification
from sfumato.tables import Table

__all__ = ["ROLES", "Choices", "Project", "methods"]

ROLES = ("quasi-identifier", "sensitive", "identifier", "other")
"""Parts a column can play; identifiers are left out of a release."""
MOST_UNDO = 50


def methods() -> dict[str, str]:
    """Methods that can be chosen, and what each does."""
    offered = ("mondrian", "lattice", "kmember", "cells")
    return {n: METHODS[n].says for n in offered if n in METHODS and find_spec(METHODS[n].home)}


@dataclass(frozen=True)
class Choices:
    """What the user decided."""

    roles: Mapping[str, str] = field(default_factory=dict)
    k: int = 5
    method: str = "mondrian"

    def __post_init__(self) -> None:
        if self.k < 2:
            raise ParameterError(f"k = {self.k} is out of range", remedy="Give 2 or more.")
        if self.method not in methods():
            raise ParameterError("there is no such method", remedy="Choose one of the list.")
        for role in self.roles.values():
            if role not in ROLES:
                raise ParameterError("there is no such role", remedy="Choose one of the list.")

    def with_role(self, role: str) -> tuple[str, ...]:
        """Columns of a role."""
        return tuple(name for name, given in self.roles.items() if given == role)

    @property
    def settings(self) -> Settings:
        """The same as settings of `anonymize`."""
        qi = self.with_role("quasi-identifier")
        if not qi:
            raise ParameterError(
                "no column is marked as known to others",
                remedy="Mark at least one quasi-identifier on the first page.",
            )
        given = {"qi": [list(qi)], "k": self.k, "method": self.method}
        identifiers = self.with_role("identifier")
        if identifiers:
            given["identifiers"] = list(identifiers)
        return Settings.of(given)

    def to_toml(self, source: str) -> str:
        """The project file."""
        lines = [f"table = {json.dumps(source, ensure_ascii=False)}", f"k = {self.k}"]
        lines += [f"method = {json.dumps(self.method)}", "", "[roles]"]
        lines += [
            f"{json.dumps(name, ensure_ascii=False)} = {json.dumps(role)}"
            for name, role in self.roles.items()
        ]
        return "\n".join(lines) + "\n"


@dataclass(eq=False)
class Project:
    """A table that is open."""

    source: Path
    table: Table
    number: str = field(default_factory=lambda: secrets.token_hex(6))
    choices: Choices = field(default_factory=Choices)
    scan: Scan | None = None
    candidates: list[tuple[Choices, Release]] = field(default_factory=list)
    released: tuple[Release, Verification] | None = None
    busy: threading.Lock = field(default_factory=threading.Lock)
    """Held by the job that asks the table something: engines answer one question at a time."""
    _undo: list[Choices] = field(default_factory=list)
    _sizes: dict[tuple[str, ...], ClassSizes] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Where decisions and releases are kept."""
        return self.source.parent / f"{self.source.name}.sfumato"

    @property
    def qi(self) -> tuple[str, ...]:
        """Columns others may know."""
        return self.choices.with_role("quasi-identifier")

    @property
    def can_undo(self) -> bool:
        """Whether there is a decision to take back."""
        return bool(self._undo)

    def look(self, budget: Budget) -> None:
        """First look; decisions of an earlier day come before guesses."""
        with self.busy:
            self.scan = scan(self.table, budget=budget)
        guessed = {column.name: column.role for column in self.scan.columns}
        kept = self._saved()
        self.choices = replace(kept, roles={n: kept.roles.get(n, r) for n, r in guessed.items()})

    def decide(self, choices: Choices) -> None:
        """Take a decision; it is saved, and can be taken back."""
        if set(choices.roles) != set(self.table.columns):
            raise ParameterError("the roles are not those of this table's columns")
        if choices != self.choices:
            self._undo = [*self._undo[1 - MOST_UNDO :], self.choices]
            self.choices = choices
        self._save()

    def undo(self) -> None:
        """Take the last decision back."""
        if self._undo:
            self.choices = self._undo.pop()
            self._save()

    def class_sizes(self, budget: Budget | None = None) -> ClassSizes:
        """Class sizes of the columns others may know; counted once."""
        qi = self.qi
        if qi not in self._sizes:
            with self.busy:
                self._sizes[qi] = self.table.class_sizes(qi, budget)
        return self._sizes[qi]

    def has_sizes(self) -> bool:
        """Whether class sizes are known without counting."""
        return self.qi in self._sizes

    def try_out(self, choices: Choices, budget: Budget) -> None:
        """Rehearse a release and keep it for comparison; nothing is written."""
        from sfumato.anonymize.verb import anonymize

        with self.busy:
            release = anonymize(self.table, config=choices.settings, budget=budget)
        same = [old for old in self.candidates if old[0] != choices]
        self.candidates = [*same, (choices, release)][-12:]

    def release(self, budget: Budget) -> None:
        """Write the release, its certificate, its settings and its report; then verify it."""
        from sfumato.anonymize.verb import anonymize
        from sfumato.release.verify import verify

        settings = self.choices.settings
        self._make_folder()
        output = self.folder / f"release{_ending(self.source)}"
        with self.busy:
            release = anonymize(
                self.table, config=settings, output=output, force=True, budget=budget
            )
            write_text(self.folder / "release.toml", settings.to_toml())
            budget.progress("verifying what was written")
            checked = verify(str(output), budget=budget)
            budget.progress("drawing")
            release.report(self.folder / "release.html", force=True)
        self.released = (release, checked)

    def close(self) -> None:
        """Let go of the table, as soon as nothing is asked of it any more."""
        with self.busy:
            self.candidates.clear()
            self.table.close()

    def _saved(self) -> Choices:
        place = self.folder / "project.toml"
        if not place.exists():
            return self.choices
        try:
            body = tomllib.loads(place.read_text(encoding="utf-8"))
            roles = {str(name): str(role) for name, role in body.get("roles", {}).items()}
            return Choices(roles, int(body.get("k", 5)), str(body.get("method", "mondrian")))
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise SourceError(
                "the saved decisions cannot be read",
                where=str(place),
                remedy="Mend the file, or remove it to begin anew.",
            ) from error

    def _save(self) -> None:
        self._make_folder()
        write_text(self.folder / "project.toml", self.choices.to_toml(self.source.name))

    def _make_folder(self) -> None:
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise SourceError(
                f"the folder for decisions cannot be made ({error.strerror})",
                where=str(self.folder),
            ) from error


def _ending(source: Path) -> str:
    """The format a release is written in: that of the table, uncompressed."""
    for ending in (".parquet", ".arrow", ".tsv"):
        if ending in source.suffixes:
            return ending
    return ".csv"
