"""What part a column plays: who it points at, what others know, what it reveals.

Guesses from the name and the look of the cells, each with its reason, for a person to correct.
Where nothing is known a column counts as a quasi-identifier: the safe mistake.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.engines.schema import Kind
from sfumato.quasi.patterns import form_of, is_free_text
from sfumato.quasi.wording import Role, meaning_of

__all__ = ["ColumnFacts", "Guess", "guess_role"]

NEARLY = 0.9
"""Share of its filled cells that must stand alone for a column to be nearly a key."""
FEW = 12
"""A column with so few values points at nobody, whatever its name."""
GROUPS = 0.2
"""Below this distinct ratio the numbers of a column belong to groups, not to people."""


@dataclass(frozen=True)
class ColumnFacts:
    """What is known of one column: exact counts over all rows."""

    name: str
    kind: Kind
    rows: int
    nulls: int
    classes: int
    unique_rows: int

    @property
    def is_constant(self) -> bool:
        """Whether all rows agree."""
        return self.classes <= 1

    @property
    def is_key(self) -> bool:
        """Whether no two rows agree."""
        return self.rows > 1 and self.classes == self.rows

    @property
    def is_nearly_key(self) -> bool:
        """Whether most of the rows that have a value are the only ones with it."""
        filled = self.rows - self.nulls
        return not self.is_key and filled > FEW and self.unique_rows >= NEARLY * filled


@dataclass(frozen=True)
class Guess:
    """A role and the reason for it."""

    role: Role
    why: str


def guess_role(facts: ColumnFacts, cells: Sequence[Any]) -> Guess:
    """Guess the role of a column.

    Parameters
    ----------
    facts
        Exact counts of the column.
    cells
        Some of its different values; they are looked at and not kept.

    Examples
    --------
    >>> age = ColumnFacts("age", "integer", rows=100, nulls=0, classes=60, unique_rows=30)
    >>> guess_role(age, [30, 41])
    Guess(role='quasi-identifier', why='named like birth or age')
    """
    if facts.is_constant:
        return Guess("other", "empty" if facts.nulls == facts.rows else "the same in every row")
    return _by_name(facts) or _by_cells(facts, cells) or _by_counts(facts)


def _by_name(facts: ColumnFacts) -> Guess | None:
    meaning = meaning_of(facts.name)
    if meaning is None:
        return None
    if meaning.role == "identifier":
        if facts.classes <= FEW < facts.rows:
            return Guess("quasi-identifier", f"like {meaning.what}, but few values")
        shared = facts.classes < GROUPS * facts.rows
        if shared and meaning.what == "a person's number":
            return Guess("quasi-identifier", "a number shared by many rows")
    return Guess(meaning.role, f"named like {meaning.what}")


def _by_cells(facts: ColumnFacts, cells: Sequence[Any]) -> Guess | None:
    if facts.kind != "text":
        return None
    form = form_of(cells)
    if form is not None:
        return Guess(form.role, f"cells look like {form.what}")
    if is_free_text(cells) and facts.classes > FEW:
        return Guess("identifier", "free text: may say anything")
    return None


def _by_counts(facts: ColumnFacts) -> Guess:
    if facts.kind == "binary":
        return Guess("other", "binary data")
    if facts.kind in ("float", "decimal") and facts.classes > 0.1 * (facts.rows - facts.nulls):
        return Guess("other", "a measured number")
    if facts.kind in ("date", "timestamp"):
        return Guess("quasi-identifier", "dates: others may know them")
    if facts.is_key:
        return Guess("identifier", "different in every row")
    if facts.is_nearly_key:
        return Guess("identifier", "different in nearly every row")
    return Guess("quasi-identifier", "nothing known of it")
