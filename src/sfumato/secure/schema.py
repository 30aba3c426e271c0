"""What two parties agree on before they count: columns, their categories, and how rows are held."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from sfumato.errors import ColumnError, ParameterError, PeerError, did_you_mean

if TYPE_CHECKING:
    from sfumato.secure.session import Session

__all__ = ["Schema", "agree", "pool_categories"]

_LARGEST_MESSAGE = 1 << 20
_MOST_VALUES, _MOST_COLUMNS = 1 << 12, 1 << 12


@dataclass(frozen=True)
class Schema:
    """Columns and their categories; public, and equal on both sides.

    Parameters
    ----------
    columns
        Names, in order.
    values
        For each column the categories; a cell is held as the position of its category.

    Examples
    --------
    >>> schema = Schema.of({"sex": ["f", "m"], "stage": ["I", "II", "III"]})
    >>> schema.sizes, schema.position("stage")
    ((2, 3), 1)
    """

    columns: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        if not self.columns or len(self.columns) != len(self.values):
            raise ParameterError("a schema has at least one column, each with its categories")
        for at, (name, categories) in enumerate(zip(self.columns, self.values, strict=True)):
            if name in self.columns[:at]:
                raise ColumnError(f"column `{name}` occurs twice in the schema")
            if not categories:
                raise ColumnError(f"column `{name}` has no categories")
            if len(set(categories)) != len(categories):
                raise ColumnError(f"a category of column `{name}` occurs twice")

    @classmethod
    def of(cls, categories: Mapping[str, Sequence[str]]) -> Self:
        """A schema from column names with their categories."""
        return cls(tuple(categories), tuple(tuple(v) for v in categories.values()))

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many categories each column has."""
        return tuple(len(categories) for categories in self.values)

    def position(self, column: str) -> int:
        """Where a column stands."""
        if column not in self.columns:
            raise ColumnError(
                f"there is no column `{column}`", remedy=did_you_mean(column, self.columns)
            )
        return self.columns.index(column)

    def digests(self) -> dict[str, str]:
        """A digest of each column's categories, and one of the order of the columns."""
        pairs = zip(self.columns, self.values, strict=True)
        digests = {f"column `{name}`": _digest(categories) for name, categories in pairs}
        return {**digests, "the order of the columns": _digest(self.columns)}


def agree(session: Session, facts: Mapping[str, Any], told: Any = None) -> Any:
    """Compare public facts with the other side's and return what else it tells.

    Parameters
    ----------
    facts
        What must be equal, by the name under which a difference is reported.
    told
        Whatever the other side should know besides (JSON).
    """
    theirs = session.exchange_json(
        "agreement", {"facts": facts, "told": told}, limit=_LARGEST_MESSAGE
    )
    there = theirs.get("facts") if isinstance(theirs, dict) else None
    if not isinstance(there, dict):
        session.refuse("sent nothing to agree on", "agreement")
    here = json.loads(json.dumps(facts))
    different = [name for name in here if name not in there or here[name] != there[name]]
    # names of the other side's own columns are its affair: only that there are some is said
    more = ["something that this side does not have"] if set(there) - set(here) else []
    if different or more:
        session.channel.stop("the two sides do not agree")
        raise PeerError(
            "the two sides differ in " + ", ".join([*different[:12], *more]),
            where="agreement",
            remedy="Agree on columns, categories and options, then start both again.",
        )
    return theirs.get("told")


def pool_categories(
    session: Session,
    mine: Mapping[str, Sequence[str]],
    *,
    same_columns: bool,
    max_values: int = _MOST_VALUES,
) -> Schema:
    """Tell each other the categories that occur, and take all of them.

    Alice's columns come first, in her order; the categories of a column are sorted.

    Parameters
    ----------
    mine
        The categories of each of my columns.
    same_columns
        Whether both sides must have the same columns.
    max_values
        No column of the other side may have more categories.
    """
    here = {name: list(values) for name, values in mine.items()}
    if same_columns:
        # first the names alone: categories of a column that only one side has are never told
        names = session.exchange_json("columns", list(here), limit=_LARGEST_MESSAGE)
        if not isinstance(names, list) or not all(map(_is_text, names)):
            session.refuse("did not name its columns", "columns")
        _require_same_columns(session, here, names)
    told = [[name, values] for name, values in here.items()]
    theirs = session.exchange_json("categories", told, limit=_LARGEST_MESSAGE)
    session.note_learned("both", "which categories occur in the other's columns")
    if not isinstance(theirs, list) or not all(_is_column(entry) for entry in theirs):
        session.refuse("did not tell its categories", "categories")
    there: dict[str, list[str]] = dict(theirs)
    if len(there) != len(theirs) or len(there) > _MOST_COLUMNS:
        session.refuse("told too many columns, or one of them twice", "categories")
    for values in there.values():
        if len(values) > max_values:
            session.channel.stop("it was told too many categories")
            raise PeerError(
                f"the other party has a column with {len(values):,} categories",
                where="categories",
                remedy="Leave that column out on both sides, or raise --max-values (max_values=).",
            )
    if same_columns:
        _require_same_columns(session, here, there)
    first, second = (here, there) if session.is_alice else (there, here)
    pooled = {}
    for name in dict.fromkeys([*first, *second]):
        pooled[name] = sorted({*first.get(name, ()), *second.get(name, ())}, key=_rank)
    if not any(pooled.values()):
        raise ParameterError("neither side has any rows", remedy="At least one side needs some.")
    return Schema.of(pooled)


def _require_same_columns(session: Session, here: Iterable[str], there: Iterable[str]) -> None:
    mine, theirs = dict.fromkeys(here), dict.fromkeys(there)
    found = [f"it lacks `{name}`" for name in mine if name not in theirs]
    # names of the other side's own columns are its affair: only how many there are is said
    if more := len(theirs.keys() - mine.keys()):
        found.append(f"it has {more} that this side lacks")
    if found:
        session.channel.stop("the two sides have different columns")
        raise PeerError(
            f"the other party has different columns: {', '.join(found)}",
            where="columns",
            remedy="Name the common columns on both sides (-c, -x).",
        )


def _is_column(entry: Any) -> bool:
    return (
        isinstance(entry, list)
        and len(entry) == 2
        and isinstance(entry[1], list)
        and all(_is_text(value) for value in (entry[0], *entry[1]))
    )


def _is_text(value: Any) -> bool:
    """Text that can be written down: JSON allows halves of letters."""
    return isinstance(value, str) and not any("\ud800" <= c <= "\udfff" for c in value)


def _rank(text: str) -> tuple[float, str]:
    """Numbers by size, then text by alphabet."""
    try:
        number = float(text)
    except ValueError:
        return math.inf, text
    return (number if math.isfinite(number) else math.inf), text


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
