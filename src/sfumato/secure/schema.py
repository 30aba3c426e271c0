"""What two parties agree on before they count: columns, their categories, and how rows are held."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from sfumato.errors import ColumnError, ParameterError, PeerError, did_you_mean

if TYPE_CHECKING:
    from sfumato.secure.session import Session

__all__ = ["Schema", "agree"]


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
    theirs = session.exchange_json("agreement", {"facts": facts, "told": told}, limit=1 << 20)
    there = theirs.get("facts") if isinstance(theirs, dict) else None
    if not isinstance(there, dict):
        session.channel.stop("it received a message that does not belong here")
        raise PeerError("the other party sent no facts to agree on", where="agreement")
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


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
