"""From a table to the matrix A in [0, 1], by the agreement's bounds alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ColumnError, InputError, did_you_mean
from sfumato.joint.agreement import Agreement, Category, Number

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Encoded", "encode", "encode_outcome"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Encoded:
    """Rows as the agreement encodes them.

    Attributes
    ----------
    matrix
        A: one row a person, entries in [0, 1].
    options
        For each agreed column, which of its possible values each row holds.
    """

    matrix: Floats
    options: NDArray[np.int64]


def encode(table: pa.Table, agreement: Agreement, *, where: str = "table") -> Encoded:
    """Encode a table's predictors.

    Numbers are rounded to the agreed step and scaled by the agreed bounds; categories become
    numbers in order, or indicators; missing entries become what was agreed. Anything outside the
    agreement is an error that names the column and how many rows, never the value.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from sfumato.joint import Agreement, Category, Number, Outcome, Projection
    >>> agreement = Agreement("s", (Number("age", 0, 100, 1), Category("sex", ("f", "m"))),
    ...     Outcome(time="t", event="e"), Projection("seed", 1))
    >>> encode(pa.table({"age": [50, 100], "sex": ["m", "f"]}), agreement).matrix.tolist()
    [[0.5, 1.0], [1.0, 0.0]]
    """
    codes = np.empty((table.num_rows, len(agreement.columns)), dtype=np.int64)
    blocks: list[Floats] = []
    for index, column in enumerate(agreement.columns):
        cells = _cells(table, column.name, where)
        code = (
            _number(cells, column, where)
            if isinstance(column, Number)
            else _category(cells, column, where)
        )
        codes[:, index] = code
        blocks.append(column.options()[code])
    return Encoded(np.ascontiguousarray(np.concatenate(blocks, axis=1)), codes)


def encode_outcome(
    table: pa.Table, agreement: Agreement, *, where: str = "table"
) -> tuple[Floats | None, NDArray[np.bool_]]:
    """Time and event of each row, or None and whether the row has the positive label."""
    outcome = agreement.outcome
    if outcome.label is not None:
        text = _known(_cells(table, outcome.label, where), outcome.label, where)
        return None, np.asarray(text == outcome.positive, dtype=bool)
    assert outcome.time is not None
    assert outcome.event is not None
    time = _as_numbers(_cells(table, outcome.time, where), outcome.time, where)
    place = f"{where}, column `{outcome.time}`"
    if np.isnan(time).any():
        raise ColumnError(
            f"{int(np.isnan(time).sum())} times are missing",
            where=place,
            remedy="Leave those rows out.",
        )
    if (time < 0).any() or not np.isfinite(time).all():
        bad = int(((time < 0) | ~np.isfinite(time)).sum())
        raise ColumnError(
            f"{bad} times are negative or infinite",
            where=place,
            remedy="Correct them, or leave those rows out.",
        )
    if outcome.time_max is not None and (time > outcome.time_max).any():
        raise ColumnError(
            f"{int((time > outcome.time_max).sum())} times lie beyond the agreed maximum",
            where=place,
            remedy="Censor them there, or agree on a larger maximum.",
        )
    event = _happened(
        _cells(table, outcome.event, where), outcome.event, outcome.event_value, where
    )
    steps = np.ceil(np.round(time / outcome.time_step, 9))
    return steps * outcome.time_step, event


def _happened(cells: Any, name: str, value: str, where: str) -> NDArray[np.bool_]:
    import pyarrow.types as kinds

    # A boolean column says 1 as true.
    wanted = (
        {"1": "true", "0": "false"}.get(value, value) if kinds.is_boolean(cells.type) else value
    )
    return np.asarray(_known(cells, name, where) == wanted, dtype=bool)


def _known(cells: Any, name: str, where: str) -> NDArray[Any]:
    """Outcomes as texts. A missing one is not the other outcome: it would bias the model unseen."""
    text = _as_text(cells, name, where)
    missing = sum(cell is None for cell in text)
    if missing:
        raise ColumnError(
            f"{missing} outcomes are missing",
            where=f"{where}, column `{name}`",
            remedy="Leave those rows out.",
        )
    return text


def _cells(table: pa.Table, name: str, where: str) -> Any:
    if name not in table.column_names:
        raise ColumnError(
            f"column `{name}` of the agreement is missing",
            where=where,
            remedy=did_you_mean(name, table.column_names),
        )
    if table.column_names.count(name) > 1:
        raise ColumnError(f"column `{name}` occurs more than once", where=where)
    return table.column(name)


def _as_numbers(cells: Any, name: str, where: str) -> Floats:
    import pyarrow as pa
    import pyarrow.types as kinds

    kind = cells.type
    if kinds.is_dictionary(kind):
        cells = cells.cast(kind.value_type)
        kind = cells.type
    if not (
        kinds.is_integer(kind)
        or kinds.is_floating(kind)
        or kinds.is_boolean(kind)
        or kinds.is_decimal(kind)
    ):
        raise ColumnError(f"numbers are expected, found {kind}", where=f"{where}, column `{name}`")
    if kinds.is_boolean(kind):
        cells = cells.cast(pa.int8())
    return np.asarray(cells.cast(pa.float64()).to_numpy(), dtype=np.float64)


def _as_text(cells: Any, name: str, where: str) -> NDArray[Any]:
    """Cells as the texts the agreement writes; missing cells are None."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as kinds

    if kinds.is_dictionary(cells.type):
        cells = cells.cast(cells.type.value_type)
    if kinds.is_floating(cells.type):
        numbers = cells.to_numpy()
        known = numbers[~np.isnan(numbers)]
        if np.equal(np.floor(known), known).all():
            cells = pa.chunked_array([pa.array(numbers, mask=np.isnan(numbers)).cast(pa.int64())])
    try:
        text = cells.cast(pa.string())
    except pa.ArrowInvalid:
        raise ColumnError(
            f"categories are expected, found {cells.type}", where=f"{where}, column `{name}`"
        ) from None
    return np.asarray(pc.fill_null(text, None).to_numpy(zero_copy_only=False), dtype=object)


def _number(cells: Any, column: Number, where: str) -> NDArray[np.int64]:
    values = _as_numbers(cells, column.name, where)
    place = f"{where}, column `{column.name}`"
    absent = np.isnan(values)
    if absent.any():
        if column.missing is None:
            raise ColumnError(
                f"{int(absent.sum())} values are missing and the agreement has no rule for them",
                where=place,
                remedy="Agree on a `missing` value, or leave those rows out.",
            )
        values = np.where(absent, column.missing, values)
    outside = (values < column.low) | (values > column.high)
    if outside.any():
        raise ColumnError(
            f"{int(outside.sum())} values lie outside the agreed bounds",
            where=place,
            remedy="Correct them, or agree on wider bounds.",
        )
    # A top value between the last step and the bound belongs to the last step.
    return np.minimum(np.rint((values - column.low) / column.step), column.values - 1).astype(
        np.int64
    )


def _category(cells: Any, column: Category, where: str) -> NDArray[np.int64]:
    import pyarrow as pa
    import pyarrow.compute as pc

    text = pa.array(_as_text(cells, column.name, where), type=pa.string())
    place = f"{where}, column `{column.name}`"
    if text.null_count:
        if column.missing is None:
            raise ColumnError(
                f"{text.null_count} values are missing and the agreement has no rule for them",
                where=place,
                remedy="Agree on a `missing` category, or leave those rows out.",
            )
        text = pc.fill_null(text, column.missing)
    found = pc.index_in(text, pa.array(column.categories))
    if found.null_count:
        raise ColumnError(
            f"{found.null_count} rows hold a category that was not agreed",
            where=place,
            remedy="Correct them, or agree on more categories.",
        )
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.int64)


def require_rows(rows: int, where: str) -> None:
    """Refuse an empty table."""
    if rows == 0:
        raise InputError("the table has no rows", where=where)
