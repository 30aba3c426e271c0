"""The column that names persons: what must be true of it, and how to notice one."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.errors import ColumnError
from sfumato.tables import Table

__all__ = ["require_person"]


def require_person(opened: Table, person: str, others: Sequence[str] = ()) -> str:
    """The person column, if every row belongs to somebody and it plays no other part.

    Parameters
    ----------
    others
        Columns that must not name persons: what an attacker knows, or what is sensitive.
    """
    opened.require([person])
    if person in others:
        raise ColumnError(
            f"column `{person}` names persons and cannot be a quasi-identifier or sensitive",
            where=opened.name,
            remedy="Take it out there: persons are told apart by it, and it is left out.",
        )
    nobody = opened.engine.null_counts([person])[person]
    if nobody:
        raise ColumnError(
            f"column `{person}` is empty in {nobody:,} rows, so nobody knows whose they are",
            where=opened.name,
            remedy="Leave these rows out, or say who they belong to.",
        )
    return person
