"""Simple actions on single columns: drop, pseudonym, top and bottom coding, rounding, recodes.

Except for the first two they turn values into other values before anything is anonymized: the
method sees the new values, while the recoding that is carried out still looks for the old ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sfumato.engines.recoding import Cells, Step
from sfumato.engines.results import Codes, smallest_dtype
from sfumato.errors import ColumnError, ParameterError, did_you_mean
from sfumato.wording import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.tables import Table

__all__ = [
    "Merged",
    "alone",
    "check_actions",
    "described",
    "new_values",
    "pseudonym_step",
    "ranked",
]

Array = npt.NDArray[Any]
ACTIONS = ("drop", "pseudonym", "top", "bottom", "round", "recode")


def check_actions(table: Table, columns: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse unknown columns and actions, and actions that contradict each other."""
    for name, actions in columns.items():
        table.require([name])
        where = f"[columns.{name}]"
        if not isinstance(actions, Mapping):
            raise ParameterError(
                "a column's actions must be a table",
                where=where,
                remedy=f"Write [columns.{name}] and below it e.g. top = 90.",
            )
        for action in actions:
            if action not in ACTIONS:
                raise ParameterError(
                    f"there is no action `{action}`",
                    where=where,
                    remedy=did_you_mean(action, ACTIONS),
                )
        if not isinstance(actions.get("drop", False), bool):
            raise ParameterError(
                "`drop` must be true or false",
                where=where,
                remedy="Write drop = true, without quotes.",
            )
        meaning = actions.get("pseudonym", False)
        if not isinstance(meaning, bool) and not (isinstance(meaning, str) and meaning.strip()):
            raise ParameterError(
                "`pseudonym` must be true or false, or say what the values are",
                where=where,
                remedy='Write pseudonym = true, or e.g. pseudonym = "doctors".',
            )
        final = [action for action in ("drop", "pseudonym") if actions.get(action)]
        if final and len([action for action in actions if actions[action]]) > 1:
            raise ParameterError(
                f"`{final[0]}` leaves nothing for other actions to act on",
                where=where,
                remedy="Name one of them.",
            )
        numeric = [action for action in ("top", "bottom", "round") if action in actions]
        column = table.column(name)
        if numeric and column.kind not in ("integer", "float", "decimal"):
            raise ColumnError(
                f"`{numeric[0]}` needs numbers, and column `{name}` holds {column.kind}",
                where=where,
                remedy="Use recode, or give the column a hierarchy.",
            )
        _check_numbers(actions, numeric, where)
        if "recode" in actions and not (
            isinstance(actions["recode"], Mapping) and actions["recode"]
        ):
            raise ParameterError(
                "recode must be a table of old and new values",
                where=where,
                remedy=f'Write [columns.{name}.recode] and below it "old" = "new".',
            )
        nested = (list, tuple, Mapping)
        if any(isinstance(new, nested) for new in actions.get("recode", {}).values()):
            raise ParameterError(
                "a value can only be recoded to one value",
                where=f"[columns.{name}.recode]",
                remedy='Write e.g. "old" = "new".',
            )


def _check_numbers(actions: Mapping[str, Any], numeric: Sequence[str], where: str) -> None:
    for action in numeric:
        number = actions[action]
        usable = isinstance(number, (int, float)) and math.isfinite(number)
        if isinstance(number, bool) or not usable:
            raise ParameterError(
                f"`{action}` must be a number", where=where, remedy=f"Write e.g. {action} = 5."
            )
    if "round" in numeric and not actions["round"] > 0:
        raise ParameterError(
            "`round` must be larger than zero", where=where, remedy="Write e.g. round = 5."
        )
    if "top" in numeric and "bottom" in numeric and actions["top"] < actions["bottom"]:
        raise ParameterError("`top` is below `bottom`", where=where, remedy="Swap the two.")


def described(actions: Mapping[str, Any]) -> str:
    """Actions in a few words.

    Examples
    --------
    >>> described({"top": 90, "round": 5})
    'top-coded at 90, rounded to 5'
    """
    words = []
    for action, value in actions.items():
        if action in ("top", "bottom"):
            words.append(f"{action}-coded at {value:g}")
        elif action == "round":
            words.append(f"rounded to {value:g}")
        elif action == "recode":
            words.append(f"{counted(len(value), 'value')} recoded")
    return ", ".join(words)


def new_values(values: pa.Array, actions: Mapping[str, Any], name: str) -> pa.Array:
    """What each value becomes: recoded first, then rounded, then cut off at top and bottom.

    The type stays, unless a recode gives values that do not fit it; then the column becomes text.

    Examples
    --------
    >>> import pyarrow as pa
    >>> new_values(pa.array([3, 17, 99]), {"top": 90, "round": 5}, "age").to_pylist()
    [5, 15, 90]
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if "recode" in actions:
        values = _recoded(values, actions["recode"], name)
    if not {"top", "bottom", "round"} & set(actions):
        return values
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        raise ParameterError(
            "after its recode the column holds text, which has no top, bottom or rounding",
            where=f"[columns.{name}]",
            remedy="Recode to numbers, or name one of the actions.",
        )
    before = np.asarray(values.cast(pa.float64(), safe=False).fill_null(np.nan))
    numbers = before
    if "round" in actions:
        unit = float(actions["round"])
        numbers = np.round(np.floor(numbers / unit + 0.5) * unit, 12)
    numbers = np.clip(numbers, actions.get("bottom", -np.inf), actions.get("top", np.inf))
    # untouched values stay as they are: integers beyond 2^53 have no exact float
    keep = (numbers == before) | np.isnan(before)
    target = _fitting(kind, numbers[~keep])
    made = pa.array(np.where(keep, 0.0, numbers)).cast(target, safe=False)
    return pc.if_else(pa.array(keep), values.cast(target), made)


def _fitting(kind: pa.DataType, numbers: Array) -> pa.DataType:
    """The column's type if the new numbers fit into it, else a wider one."""
    import pyarrow as pa

    if not pa.types.is_integer(kind) or len(numbers) == 0:
        return kind
    if (np.mod(numbers, 1) != 0).any():
        return pa.float64()
    limits = np.iinfo(kind.to_pandas_dtype())
    inside = limits.min <= numbers.min() and numbers.max() <= limits.max
    return kind if inside else pa.int64()


def _recoded(values: pa.Array, recode: Mapping[str, Any], name: str) -> pa.Array:
    import pyarrow as pa

    from sfumato.hierarchy.labels import as_text

    texts = as_text(values).to_pylist()
    missing = [old for old in recode if old not in texts]
    if missing:
        raise ParameterError(
            f"{len(missing)} of {len(recode)} recoded values do not occur in column `{name}`",
            where=f"[columns.{name}.recode]",
            remedy="Write them as they stand in the table.",
        )
    news = list(recode.values())
    try:
        fitting = pa.array(news).cast(values.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        told = [str(new) if new is not None else None for new in news]
        by_text = dict(zip(recode, told, strict=True))
        return pa.array([by_text.get(text, text) for text in texts], pa.string())
    of = {old: at for at, old in enumerate(recode)}
    both = pa.concat_arrays([values, fitting])
    take = [
        len(values) + of[text] if text is not None and text in of else at
        for at, text in enumerate(texts)
    ]
    return both.take(pa.array(take, pa.int64()))


@dataclass(frozen=True, eq=False)
class Merged:
    """Entries whose values were changed, those that became equal merged into one.

    Attributes
    ----------
    entries
        The new entries, distinct, with counts.
    original
        The entries as the table has them.
    into
        For each original entry, the new entry it became part of.
    """

    entries: Codes
    original: Codes
    into: Array

    @classmethod
    def of(cls, entries: Codes, columns: Mapping[str, Mapping[str, Any]]) -> Merged:
        """Apply actions to the columns of some entries."""
        from sfumato.kernels import class_ids

        arrays, values = list(entries.arrays), list(entries.values)
        for at, name in enumerate(entries.columns):
            if name in columns:
                made = new_values(values[at], columns[name], name)
                distinct, codes = ranked(made)
                arrays[at] = codes[arrays[at]].astype(smallest_dtype(len(distinct)))
                values[at] = distinct
        sizes = tuple(len(distinct) for distinct in values)
        into, number = class_ids(tuple(arrays), sizes, entries=entries.entries)
        into = into.astype(np.int64)
        assert entries.counts is not None
        counts = np.zeros(number, dtype=np.int64)
        np.add.at(counts, into, entries.counts)
        first = np.zeros(number, dtype=np.int64)
        first[into[::-1]] = np.arange(entries.entries)[::-1]
        merged = Codes(
            entries.columns,
            tuple(array[first] for array in arrays),
            tuple(values),
            counts,
            number,
        )
        return cls(merged, entries, into)

    def expanded(
        self, groups: Array, entry: Array | None, rows: Array | None
    ) -> tuple[Array, Array | None, Array | None, Array]:
        """Groups of pieces of new entries as groups of pieces of the original ones.

        Gives groups, original entry and rows of each piece (None where pieces are whole entries),
        and the new entry each piece is of. Rows of a new entry are dealt out in order: its
        pieces and the original entries are laid over each other and cut at every end.
        """
        if entry is None or rows is None:
            return groups[self.into], None, None, self.into
        assert self.original.counts is not None
        order = np.argsort(self.into, kind="stable")
        ends = np.cumsum(self.original.counts[order])
        piece_ends = np.cumsum(rows)
        cuts = np.union1d(ends, piece_ends)
        starts = np.r_[0, cuts[:-1]]
        owner = order[np.searchsorted(ends, starts, side="right")]
        piece = np.asarray(np.searchsorted(piece_ends, starts, side="right"))
        back = np.argsort(owner, kind="stable")
        owner, piece, taken = owner[back], piece[back], (cuts - starts)[back]
        return groups[piece], owner, taken, entry[piece]


def ranked(values: pa.Array) -> tuple[pa.Array, Array]:
    """Distinct values in the order of codes (null last), and the code of each value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    distinct = values.unique()
    order = pc.sort_indices(distinct)
    distinct = distinct.take(order)
    codes = pc.index_in(values, value_set=distinct)
    if isinstance(codes, pa.ChunkedArray):
        codes = codes.combine_chunks()
    return distinct, np.asarray(codes).astype(np.int64)


def alone(table: Table, name: str, actions: Mapping[str, Any]) -> Step:
    """The step that changes a column by itself."""
    values = table.values(name)
    made = new_values(values.values[0], actions, name)
    codes = values.arrays[0]
    return Step(values, {name: Cells(codes, made)})


def pseudonym_step(table: Table, name: str, key: bytes) -> Step:
    """The step that replaces a column by keyed pseudonyms."""
    from sfumato.privacy import pseudonyms

    values = table.values(name)
    return Step(values, {name: Cells(values.arrays[0], pseudonyms(values.values[0], key))})
