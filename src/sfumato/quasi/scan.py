"""First look at a table: who can be found in it, and by which columns.

Everything printed is exact and counted over all rows, except the choice of column sets in large
tables, which states its error (see `combinations`). No cell is ever printed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Any

from sfumato.budget import Budget
from sfumato.errors import ColumnError
from sfumato.quasi.combinations import Choice, Combinations, most_identifying
from sfumato.quasi.looking import Look, cells_of, look_at
from sfumato.quasi.measure import Measures
from sfumato.quasi.roles import ColumnFacts, Guess, guess_role
from sfumato.quasi.twins import find_twins
from sfumato.quasi.wording import Role
from sfumato.results import Result

if TYPE_CHECKING:
    from sfumato.tables import Table

__all__ = ["ColumnScan", "Scan", "combine", "describe", "scan"]


@dataclass(frozen=True)
class ColumnScan(Result):
    """One column: counts over all rows, the guessed role and the reason for it."""

    name: str
    type: str
    nulls: int
    classes: int
    distinct: float
    unique_rows: int
    unique: float
    role: Role
    why: str
    flags: tuple[str, ...]
    """Of ``key``, ``nearly a key``, ``constant``, ``float``, ``free text``."""


@dataclass(frozen=True)
class Scan(Result):
    """What a first look finds.

    Attributes
    ----------
    duplicate_rows
        Rows that repeat an earlier row in every column; a table with any has no key.
    keys, nearly_keys
        Single columns that tell (nearly) all rows apart.
    twins
        Groups of columns that say the same in other words; only the first is used below.
    combinations
        The pairs and triples of quasi-identifiers that make most rows unique, exact.
    ladder
        The same for one, two, three … columns, each time adding the one that helps most.
    choice
        How combinations were chosen in a table too large to count them all; None if they were.
    next
        What to do now.
    """

    table: str
    engine: str
    rows: int
    duplicate_rows: int | None
    columns: tuple[ColumnScan, ...]
    keys: tuple[tuple[str, ...], ...]
    nearly_keys: tuple[tuple[str, ...], ...]
    twins: tuple[tuple[str, ...], ...]
    combinations: tuple[Measures, ...]
    ladder: tuple[Measures, ...]
    choice: Choice | None
    next: tuple[str, ...]
    stopped_by: str | None

    def with_role(self, role: Role) -> tuple[str, ...]:
        """Names of the columns of this role."""
        return tuple(column.name for column in self.columns if column.role == role)


def scan(
    source: Any,
    columns: Sequence[str] | None = None,
    *,
    seed: int = 0,
    budget: Budget | None = None,
) -> Scan:
    """Look at a table for the first time: who can be found in it, and by which columns?

    Parameters
    ----------
    source
        Anything `sfumato.table` opens.
    columns
        Column names; None means all columns.
    seed
        Of the samples that large tables need.
    budget
        Limits of time and memory. When the time is over, column sets that were not counted are
        missing from the result and `stopped_by` says so.

    Examples
    --------
    >>> import pyarrow as pa, sfumato as sf
    >>> people = pa.table({
    ...     "age": [20, 30, 40, 20, 40],
    ...     "sex": ["F", "F", "F", "M", "M"],
    ...     "state": ["CA", "CA", "TX", "NY", "CA"],
    ... })
    >>> found = sf.scan(people)
    >>> found.duplicate_rows, found.combinations[0].columns, found.combinations[0].unique_rows
    (0, ('age', 'state'), 5)
    """
    from sfumato.tables import table

    budget = budget or Budget()
    opened = table(source, budget=budget)
    shown = opened if columns is None else opened.select(columns)
    if not shown.columns:
        raise ColumnError("the table has no columns", where=shown.name, remedy="Name at least one.")
    look = look_at(shown, seed=seed, budget=budget)
    described = tuple(describe(facts, look) for facts in look.facts)
    return combine(shown, look, described, seed=seed, budget=budget)


def combine(
    table: Table, look: Look, columns: tuple[ColumnScan, ...], *, seed: int = 0, budget: Budget
) -> Scan:
    """What a look at all columns and their roles lead to: which of them point at people together.

    Parameters
    ----------
    columns
        The columns of `table` with their roles, guessed by `describe` or known better.
    """
    twins = find_twins(table, look, budget)
    found = most_identifying(table, _to_combine(columns, twins), look, seed=seed, budget=budget)
    return Scan(
        table=table.name,
        engine=table.engine.kind,
        rows=look.rows,
        duplicate_rows=_duplicates(table, look, twins, budget),
        columns=columns,
        keys=tuple((facts.name,) for facts in look.facts if facts.is_key),
        nearly_keys=tuple((facts.name,) for facts in look.facts if facts.is_nearly_key),
        twins=twins,
        combinations=found.best,
        ladder=found.ladder,
        choice=found.choice,
        next=_next(table.name, look.rows, columns, found),
        stopped_by=budget.stopped_by,
    )


def describe(facts: ColumnFacts, look: Look) -> ColumnScan:
    """One column in figures, with the role it seems to play."""
    guess = guess_role(facts, cells_of(look, facts.name))
    return ColumnScan(
        name=facts.name,
        type=facts.kind,
        nulls=facts.nulls,
        classes=facts.classes,
        distinct=facts.classes / facts.rows if facts.rows else 1.0,
        unique_rows=facts.unique_rows,
        unique=facts.unique_rows / facts.rows if facts.rows else 1.0,
        role=guess.role,
        why=guess.why,
        flags=_flags(facts, guess),
    )


def _flags(facts: ColumnFacts, guess: Guess) -> tuple[str, ...]:
    found = {
        "key": facts.is_key,
        "nearly a key": facts.is_nearly_key,
        "constant": facts.is_constant,
        "float": facts.kind == "float",
        "free text": "free text" in guess.why,
    }
    return tuple(flag for flag, holds in found.items() if holds)


def _to_combine(columns: Sequence[ColumnScan], twins: Sequence[Sequence[str]]) -> list[str]:
    """What others may know of a person, leaving out what finds anybody alone or says it twice."""
    repeated = {name for group in twins for name in group[1:]}
    useful = [
        column
        for column in columns
        if column.name not in repeated and not {"constant", "key"} & set(column.flags)
    ]
    known = [column.name for column in useful if column.role == "quasi-identifier"]
    return known or [column.name for column in useful if column.role != "identifier"]


def _duplicates(
    table: Table, look: Look, twins: Sequence[Sequence[str]], budget: Budget
) -> int | None:
    """Rows that repeat an earlier one; None if the time is over before they are counted."""
    if look.rows < 2 or any(facts.is_key for facts in look.facts):
        return 0
    if budget.spent():
        return None
    budget.progress("looking for duplicate rows")
    repeated = {name for group in twins for name in group[1:]}
    deciding = [facts for facts in look.facts if facts.name not in repeated]
    deciding.sort(key=lambda facts: -facts.classes)
    return look.rows - table.class_sizes([facts.name for facts in deciding], budget).classes


def _next(
    name: str, rows: int, columns: Sequence[ColumnScan], found: Combinations
) -> tuple[str, ...]:
    """Commands that run as they are printed."""
    identifiers = [column.name for column in columns if column.role == "identifier"]
    steps = []
    if identifiers:
        steps.append(f"Leave out what points at one person: {', '.join(identifiers)}")
    if found.ladder:
        names = _listed(found.ladder[-1].columns[:3])
        steps.append(f"Measure any set of columns: sfumato measure {quote(name)} -c {names}")
        steps.append(f"See what an attacker can do: sfumato risk {quote(name)} --qi {names}")
    if found.ladder and rows >= _ALIKE:
        steps.append(f"Blur it until everybody has company: {_anonymize(name, columns, found)}")
    return tuple(steps)


_ALIKE = 5
"""How many rows the suggested release makes alike."""


def _anonymize(name: str, columns: Sequence[ColumnScan], found: Combinations) -> str:
    known = [column.name for column in columns if column.role == "quasi-identifier"]
    secret = [c.name for c in columns if c.role == "sensitive" and c.classes > 1]
    hidden = [column.name for column in columns if column.role == "identifier"]
    known = known or [n for n in found.ladder[-1].columns if n not in (*secret, *hidden)]
    parts = [f"sfumato anonymize {quote(name)} -k {_ALIKE} --qi {_listed(known)}"]
    if secret:
        parts.append(f"--sensitive {_listed(secret)} -l 2")
    if hidden:
        parts.append(f"--identifiers {_listed(hidden)}")
    return " ".join(parts)


def _listed(names: Sequence[str]) -> str:
    """Columns as the command line reads them: those that hold commas or quotes are quoted."""
    written = ['"' + n.replace('"', '""') + '"' if {",", '"'} & set(n) else n for n in names]
    return quote(",".join(written))
