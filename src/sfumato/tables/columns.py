"""Which columns of a source become columns of the table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sfumato.errors import ColumnError, ParameterError, did_you_mean

__all__ = ["chosen"]


def chosen(
    names: Iterable[str],
    columns: Sequence[str] | None,
    exclude: Sequence[str] | None,
    where: str,
) -> list[str]:
    """Names of the columns to show, each of them usable and there exactly once.

    Parameters
    ----------
    names
        All columns of the source, in its order.
    columns
        The ones asked for, in the order asked for; None means all.
    exclude
        The ones to leave out; None leaves out none.
    where
        The source, for messages.

    Examples
    --------
    >>> chosen(["id", "age", "sex"], None, ["id"], "people.csv")
    ['age', 'sex']
    """
    known = list(names)
    if columns is not None and exclude is not None:
        raise ParameterError(
            "columns to show and columns to exclude were both given",
            where=where,
            remedy="Give one of the two.",
        )
    asked = [columns] if isinstance(columns, str) else columns
    hidden = [exclude] if isinstance(exclude, str) else (exclude or ())
    for name in (*(asked or ()), *hidden):
        if name not in known:
            raise ColumnError(
                f"there is no column `{name}`", where=where, remedy=did_you_mean(name, known)
            )
    shown = list(asked) if asked is not None else [name for name in known if name not in hidden]
    if not shown:
        raise ColumnError("the table has no columns", where=where, remedy="Keep at least one.")
    for name in shown:
        _check_name(name, known if asked is None else [*known, *shown], shown, where)
    return shown


def _check_name(name: str, known: list[str], shown: list[str], where: str) -> None:
    if not name.strip():
        raise ColumnError(
            f"column {known.index(name) + 1} has no name",
            where=where,
            remedy='Name it, or leave it out with --exclude "" (exclude=[""]); it may be the index '
            "that pandas writes unless told index=False.",
        )
    if shown.count(name) > 1:
        raise ColumnError(
            f"column `{name}` occurs {shown.count(name)} times",
            where=where,
            remedy="Rename or exclude it: a name must mean one column.",
        )
