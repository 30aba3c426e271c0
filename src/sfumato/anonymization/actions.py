"""Single columns: drop, pseudonym, top and bottom coding, rounding, recodes, moved dates.

Except for the first two they turn values into other values before anything is anonymized: the
method sees the new values, while the recoding that is carried out still looks for the old ones.

Dates are moved by one secret number of days a person: order and intervals of a history survive. The
number follows from a secret key and the person, so that all tables of a house move alike. It is no
promise: who knows one date of a person knows how far all of hers were moved. Dates stay
quasi-identifiers unless the user says otherwise. Pseudonyms are keyed, too: HMAC-SHA256 cannot be
undone or tried out without the key, unlike a plain hash of a name.
"""

from __future__ import annotations

import hmac
import math
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.engines.protocol import BATCH_ROWS, Codes, smallest_dtype
from sfumato.engines.recoding import Cells, Step
from sfumato.errors import ColumnError, InputError, ParameterError, did_you_mean, spell
from sfumato.hierarchy.labels import as_text
from sfumato.hierarchy.tree import Array
from sfumato.kernels import group_sums, representatives
from sfumato.tables.parsing import MOST, guessed_kind
from sfumato.wording import counted

if TYPE_CHECKING:
    from sfumato.tables import Table


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
    if not pa.types.is_integer(kind) or len(numbers) == 0:
        return kind
    if (np.mod(numbers, 1) != 0).any():
        return pa.float64()
    limits = np.iinfo(kind.to_pandas_dtype())
    inside = limits.min <= numbers.min() and numbers.max() <= limits.max
    return kind if inside else pa.int64()


def _recoded(values: pa.Array, recode: Mapping[str, Any], name: str) -> pa.Array:
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
        arrays, values = list(entries.arrays), list(entries.values)
        for at, name in enumerate(entries.columns):
            if name in columns:
                made = new_values(values[at], columns[name], name)
                distinct, codes = ranked(made)
                arrays[at] = codes[arrays[at]].astype(smallest_dtype(len(distinct)))
                values[at] = distinct
        changed = replace(entries, arrays=tuple(arrays), values=tuple(values))
        into, number = changed.numbered(changed.columns)
        counts = group_sums(into, number, entries.row_counts)
        merged = changed.take(np.asarray(representatives(into, number), dtype=np.int64))
        return cls(replace(merged, counts=counts), entries, into.astype(np.int64))

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
        order = np.argsort(self.into, kind="stable")
        ends = np.cumsum(self.original.row_counts[order])
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
    values = table.values(name)
    return Step(values, {name: Cells(values.arrays[0], pseudonyms(values.values[0], key))})


SHORTEST_KEY = 16
"""Bytes a key must have at least."""

_BYTES = 16
"""Bytes of a pseudonym: two of 2^50 persons share one with probability below one in 10^8."""


def pseudonyms(values: pa.Array, key: bytes) -> pa.Array:
    """Pseudonyms of values, 32 hexadecimal digits each; a null stays null.

    Values are compared as text, so that 17 and "17" in two tables get the same pseudonym. Give
    the distinct values of a column, and look rows up in the result.

    Examples
    --------
    >>> names = pseudonyms(pa.array(["Ada", None, "Ada"]), b"a key of 16 bytes or more")
    >>> names[0] == names[2], names[1].as_py(), len(names[0].as_py())
    (True, None, 32)
    """
    if len(key) < SHORTEST_KEY:
        raise InputError(
            f"a key needs at least {SHORTEST_KEY} bytes",
            remedy="Read it from a file that `openssl rand -hex 32` or `sfumato keygen` made.",
        )

    def made(some: pa.Array) -> pa.Array:
        spelled = [
            None if text is None else hmac.digest(key, text.encode(), "sha256")[:_BYTES].hex()
            for text in as_text(some).to_pylist()
        ]
        return pa.array(spelled, type=pa.string())

    starts = range(0, max(len(values), 1), BATCH_ROWS)  # as words of Python they take much more
    return pa.concat_arrays([made(values.slice(start, BATCH_ROWS)) for start in starts])


def key_of(key: bytes, meaning: str) -> bytes:
    """The key of pseudonyms of values that mean something of their own, like `doctors.id`.

    Patient 3 and doctor 3 must not get the same pseudonym: whoever knows the doctor would know her.

    Examples
    --------
    >>> secret, three = b"a key of 16 bytes or more", pa.array([3])
    >>> doctor, patient = (pseudonyms(three, key_of(secret, n)) for n in ("doctors", "patients"))
    >>> doctor == patient
    False
    """
    return hmac.digest(key, b"sfumato: a key of a dataset\0" + meaning.encode(), "sha256")


_PURPOSE = b"sfumato: days by which the dates of a person are moved\0"


def date_columns(table: Table, left_out: Sequence[str]) -> tuple[str, ...]:
    """The columns of dates and times that a release shows."""
    return tuple(
        column.name
        for column in table.schema
        if column.kind in ("date", "timestamp") and column.name not in left_out
    )


def unmoved(table: Table, left_out: Sequence[str], seed: int = 0) -> dict[str, bool]:
    """Columns that look like dates, months or years and are not moved; whether they can be parsed.

    Text, and numbers like 20240131, 31012024 or 202401, also where empty cells made them fractions;
    years are known by the name of the column, too.
    """
    kinds = ("text", "integer", "float", "decimal")
    columns = [c.name for c in table.schema if c.kind in kinds and c.name not in left_out]
    found: dict[str, bool] = {}
    if not columns:
        return found
    sample = table.sample(_LOOKED_AT, columns, seed)
    for name in columns:
        texts = as_text(sample[name].unique()).to_pylist()
        cells = [text.strip() for text in texts if text is not None]
        text = any(c.name == name and c.kind == "text" for c in table.schema)
        mostly = guessed_kind(cells) if text else None
        if mostly is not None and mostly.kind == "date":
            found[name] = True
            continue
        days = _like(cells, _DIGITS, 1.0) or (text and _like(cells, _MONTH, MOST))
        if days or (_YEARS.search(name) and _like(cells, _YEAR, 1.0)):
            found[name] = False
    return found


_LOOKED_AT = 2_000
_DAY_NUMBER = re.compile(r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])")
_DIGITS = re.compile(
    _DAY_NUMBER.pattern
    + r"|(?:0?[1-9]|[12]\d|3[01])(?:0[1-9]|1[0-2])(?:19|20)\d\d|(?:19|20)\d\d(?:0[1-9]|1[0-2])"
)
"""Days and months without signs."""
_DAY = r"(?:\d{4}-\d\d-\d\d|\d{1,2}[./]\d{1,2}[./]\d{4})"
_MONTH = re.compile(
    r"\d{4}[-/.]\d{1,2}|\d{4}Q[1-4]|\d{1,2}[-/.]\d{4}|\d{1,2}([-/.])\d{1,2}\1\d{2}(?:[ T].*)?|"
    r"\d{4}-?W\d\d(?:-?[1-7])?|\d{1,2}([-. ])[^\W\d]{3}\2\d{2}|\d{1,2}\.\d{1,2}\.|"
    rf"{_DAY} ?[-–/] ?{_DAY}|{_DAY_NUMBER.pattern}"
)
"""Months, weeks, quarters, days of years of two digits or of no year, days without signs, and from
a day to a day: they are not read as dates."""
_YEAR = re.compile(r"(?:18|19|20)\d\d")
_YEARS = re.compile("year|yob|born|birth|date|jahr|geboren|geburt|datum|annee|année", re.IGNORECASE)


def _like(cells: Sequence[str], pattern: re.Pattern[str], share: float) -> bool:
    return bool(cells) and sum(map(bool, map(pattern.fullmatch, cells))) >= share * len(cells)


def commonest_date(cells: pa.Array, who: npt.NDArray[np.int64]) -> int:
    """How many persons have the date that most of them have.

    Examples
    --------
    >>> import datetime, pyarrow as pa
    >>> never = datetime.date(2099, 12, 31)
    >>> commonest_date(pa.array([never, never, never, None]), np.array([0, 0, 1, 2]))
    2
    """
    encoded = cells.dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    persons = int(who.max(initial=0)) + 1
    pairs = np.unique(codes[codes >= 0] * persons + who[codes >= 0])
    return int(np.bincount(pairs // persons).max(initial=0))


def known_to_all(name: str, most: int, persons: int) -> str | None:
    """What is said of a column of moved dates in which one date is many persons'."""
    if most < max(_MANY_PERSONS, _MANY_SHARE * persons):
        return None
    return (
        f"before dates were moved, `{name}` held one date for {most:,} of {persons:,} persons: "
        "whoever knows or guesses it reads from it how far all of theirs were moved; empty what "
        f"stands for no date, or leave the column out ({spell('identifiers', [name])})"
    )


_MANY_PERSONS, _MANY_SHARE = 10, 0.1


def require_dates(table: Table, dropped: Sequence[str], changed: Container[str]) -> tuple[str, ...]:
    """The columns of dates to move: there must be some, and nothing else may happen to them."""
    dates = date_columns(table, dropped)
    if not dates:
        raise ColumnError(
            "dates were to be moved, and no column that is released holds dates",
            where=table.name,
            remedy="Dates that are text must be read as dates first; or leave it out.",
        )
    both = [name for name in dates if name in changed]
    if both:
        raise ColumnError(
            f"column `{both[0]}` is moved as a date and changed by an action or pseudonym",
            where=table.name,
            remedy="Ask for one of them.",
        )
    return dates


def told_of_dates(
    table: Table, person: str, left_out: Sequence[str], most: int, seed: int
) -> list[str]:
    """Sentences about moved dates: what that is worth, and what tells how far they were moved."""
    told: list[str | None] = [
        f"dates were moved by a secret number of days a person, {most:,} at most either way; that "
        "is not a promise: whoever knows one date of a person knows how far all their dates moved"
    ]
    for name in date_columns(table, left_out):
        pairs = table.classes((name, person))
        cells = pairs.values_of(name).take(pa.array(pairs.column(name).astype(np.int64)))
        shared = commonest_date(cells, pairs.column(person).astype(np.int64))
        told.append(known_to_all(name, shared, len(pairs.values_of(person))))
    still = unmoved(table, left_out, seed)
    if still:
        dates = {name: "date" for name, readable in still.items() if readable}
        read = f"; read text as dates ({spell('parse', dates)})" if dates else ""
        told.append(
            f"what looks like dates was not moved: {', '.join(f'`{n}`' for n in still)}"
            f"{read}{', or' if read else ';'} leave it out ({spell('identifiers', [*still])})"
        )
    return [one for one in told if one is not None]


def days_of(persons: pa.Array, key: bytes, most: int) -> npt.NDArray[np.int64]:
    """Days by which the dates of each person are moved, uniform from -`most` to `most`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> days = days_of(pa.array(["P1", "P2", "P1"]), b"a key of 16 bytes or more", 365)
    >>> bool(days[0] == days[2]), bool((abs(days) <= 365).all())
    (True, True)
    """
    made = [
        int.from_bytes(hmac.digest(key, _PURPOSE + str(text).encode(), "sha256")) % (2 * most + 1)
        for text in as_text(persons).to_pylist()
    ]
    return np.array(made, dtype=np.int64) - most


def moved(values: pa.Array, days: npt.NDArray[np.int64], name: str) -> pa.Array:
    """Dates or times, each moved by its own number of days; null stays null."""
    try:
        if pa.types.is_date(values.type):
            plain = values.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
            there = _in_calendar(pc.add_checked(plain, pa.array(days)), 1)
            return there.cast(pa.int32()).cast(pa.date32())
        step = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[values.type.unit] * 86_400
        plain = values.cast(pa.int64())
        return _in_calendar(pc.add_checked(plain, pa.array(days * step)), step).cast(values.type)
    except pa.ArrowInvalid:
        raise ColumnError(
            f"a date of column `{name}` cannot be moved: it would leave the calendar",
            remedy="Mend or leave out such dates, or leave the column out.",
        ) from None


def _in_calendar(moved_to: pa.Array, step: int) -> pa.Array:
    """Numbers of days (or parts of them, `step` a day) since 1970, all in the years 1 to 9999."""
    ends = pc.min_max(moved_to)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if low is not None and not _FIRST_DAY * step <= low <= high < (_LAST_DAY + 1) * step:
        raise pa.ArrowInvalid("no such day")
    return moved_to


_FIRST_DAY = (date.min - date(1970, 1, 1)).days
_LAST_DAY = (date.max - date(1970, 1, 1)).days


def shifted(
    codes: Codes, person: str, columns: Sequence[str], days: npt.NDArray[np.int64]
) -> Codes:
    """The same entries, their dates moved as their person's are.

    Parameters
    ----------
    columns
        Columns of dates; those that the entries do not have are passed over.
    days
        Days by the code of the person.
    """
    arrays, values = list(codes.arrays), list(codes.values)
    by_entry = days[codes.column(person).astype(np.int64)]
    for at, name in enumerate(codes.columns):
        if name in columns:
            cells = values[at].take(pa.array(arrays[at].astype(np.int64)))
            values[at], numbers = ranked(moved(cells, by_entry, name))
            arrays[at] = numbers.astype(smallest_dtype(len(values[at])))
    return replace(codes, arrays=tuple(arrays), values=tuple(values))


def shift_step(table: Table, name: str, person: str, key: bytes, most: int) -> Step:
    """The step that moves the dates of one column."""
    match = table.classes((name, person))
    made = shifted(match, person, [name], days_of(match.values_of(person), key, most))
    return Step(match, {name: Cells(made.column(name), made.values_of(name))})
