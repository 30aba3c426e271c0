"""One's own rows: encoded by the agreement's bounds alone, and projected by the common matrix.

Encoding gives the matrix A in [0, 1]. The random matrix B comes from the agreement's seed through
SHAKE-256, so that every institution derives the same numbers on any machine and with any version
of the libraries below us; K(A, B') is what may be published, rounded.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.errors import ColumnError, InputError, ParameterError, did_you_mean
from sfumato.fields import checked
from sfumato.joint.agreement import Agreement, Category, Number
from sfumato.wording import counted

if TYPE_CHECKING:
    import pyarrow as pa


Floats = NDArray[np.float64]

_NEARLY_ALL = (0.9, 1.0)


@dataclass(frozen=True)
class Encoded:
    """Rows as the agreement encodes them.

    Attributes
    ----------
    matrix
        A: one row a person, entries in [0, 1].
    options
        For each agreed column, which of its possible values each row holds.
    likely
        For each agreed column, the possible values that nearly all rows keep to, such as whole
        numbers where the agreed step is finer, since others would guess so; and those that all
        rows keep to. Empty where everything that was agreed is likely.
    """

    matrix: Floats
    options: NDArray[np.int64]
    likely: tuple[tuple[NDArray[np.int64], ...], ...] = ()

    def part(self, rows: NDArray[Any]) -> Encoded:
        """Some of the rows."""
        return Encoded(self.matrix[rows], self.options[rows], self.likely)


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
    likely = list[list[NDArray[np.int64]]]()
    for index, column in enumerate(agreement.columns):
        cells = _cells(table, column.name, where)
        if isinstance(column, Number):
            values = _numbers(cells, column, where)
            code = _nearest(values, column)
            likely.append([_likely(values, column, most) for most in _NEARLY_ALL])
        else:
            code = _category(cells, column, where)
            likely.append([np.arange(len(column.categories))] * len(_NEARLY_ALL))
        codes[:, index] = code
        blocks.append(column.options()[code])
    matrix = np.ascontiguousarray(np.concatenate(blocks, axis=1))
    return Encoded(matrix, codes, tuple(zip(*likely, strict=True)))


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
    longest = math.inf if outcome.time_max is None else outcome.time_max
    for bad, does, remedy in (
        (np.isnan(time), "are missing", "Leave those rows out."),
        (
            (time < 0) | np.isinf(time),
            "are negative or infinite",
            "Correct them, or leave those rows out.",
        ),
        (
            time > longest,
            "lie beyond the agreed maximum",
            "Censor them there, or agree on a larger maximum.",
        ),
    ):
        if bad.any():
            told = counted(int(bad.sum()), "time", does=does)
            raise ColumnError(told, where=place, remedy=remedy)
    event = _happened(
        _cells(table, outcome.event, where), outcome.event, outcome.event_value, where
    )
    steps = np.ceil(np.round(time / outcome.time_step, 9))
    return steps * outcome.time_step, event


def survived(
    time: ArrayLike, event: ArrayLike, horizon: float
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Who lived beyond `horizon`, and of whom that is known.

    Rows censored before the horizon are not known (the paper's SVM leaves them out).

    Examples
    --------
    >>> lived, known = survived([100, 800, 300], [1, 0, 0], horizon=730)
    >>> lived.tolist(), known.tolist()
    ([False, True, False], [True, True, False])
    """
    times = np.asarray(time, dtype=np.float64)
    if not horizon > 0:
        raise ParameterError("the horizon must be larger than zero")
    lived = times > horizon
    return lived, lived | np.asarray(event, dtype=bool)


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
            counted(missing, "outcome", does="are missing"),
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
    kind = cells.type
    try:
        if kinds.is_decimal(kind):  # 1.00 is 1, as it is in a column of whole numbers
            cells = cells.cast(pa.float64())
        if kinds.is_floating(cells.type):
            numbers = cells.to_numpy()
            absent = np.isnan(numbers)
            if np.equal(np.floor(numbers), numbers)[~absent].all():
                cells = pa.chunked_array([pa.array(numbers, mask=absent).cast(pa.int64())])
        text = cells.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ColumnError(
            f"categories are expected, found {kind}", where=f"{where}, column `{name}`"
        ) from None
    return np.asarray(pc.fill_null(text, None).to_numpy(zero_copy_only=False), dtype=object)


def _numbers(cells: Any, column: Number, where: str) -> Floats:
    """Numbers within the agreed bounds, what was agreed for missing ones among them."""
    values = _as_numbers(cells, column.name, where)
    place = f"{where}, column `{column.name}`"
    absent = np.isnan(values)
    if absent.any():
        stand_in = _stand_in(column, int(absent.sum()), place)
        values = np.where(absent, stand_in, values)
    outside = (values < column.low) | (values > column.high)
    if outside.any():
        raise ColumnError(
            f"{counted(int(outside.sum()), 'value', does='lie')} outside the agreed bounds",
            where=place,
            remedy="Correct them, or agree on wider bounds.",
        )
    return values


def _nearest(values: Floats, column: Number) -> NDArray[np.int64]:
    """Which of the agreed values is nearest to each number."""
    # A top value between the last step and the bound belongs to the last step.
    return np.minimum(np.rint((values - column.low) / column.step), column.values - 1).astype(
        np.int64
    )


def _likely(values: Floats, column: Number, most: float) -> NDArray[np.int64]:
    """The agreed values that multiples of the unit of so many rows become."""
    unit = unit_of(values, column.step, column.high - column.low, most)
    if unit <= column.step:
        return np.arange(column.values)
    first, last = np.ceil(column.low / unit - 1e-9), np.floor(column.high / unit + 1e-9)
    return np.unique(_nearest(np.clip(np.arange(first, last + 1) * unit, column.low, column.high),
                              column))  # fmt: skip


def unit_of(values: ArrayLike, finest: float, coarsest: float, share: float = 1.0) -> float:
    """The largest of 1, 2, 5 · 10^n of which that share of the numbers are multiples.

    Examples
    --------
    >>> unit_of([26.0, 31.0, 40.5], 0.03, 100), unit_of([26.0, 31.0, 40.5], 0.03, 100, share=0.6)
    (0.5, 1.0)
    >>> unit_of([0.127, 0.331], 0.03, 100)
    0.03
    """
    numbers = np.asarray(values, dtype=np.float64)
    powers = range(math.floor(math.log10(finest)), math.ceil(math.log10(coarsest)) + 1)
    units = [float(f"{lead}e{power}") for power in powers for lead in (1, 2, 5)]
    for unit in sorted((u for u in units if finest < u <= coarsest), reverse=True):
        times = numbers / unit
        if (np.abs(times - np.rint(times)) < 1e-6).sum() >= share * len(numbers):
            return unit
    return finest


def _category(cells: Any, column: Category, where: str) -> NDArray[np.int64]:
    import pyarrow as pa
    import pyarrow.compute as pc

    text = pa.array(_as_text(cells, column.name, where), type=pa.string())
    place = f"{where}, column `{column.name}`"
    if text.null_count:
        text = pc.fill_null(text, _stand_in(column, text.null_count, place))
    found = pc.index_in(text, pa.array(column.categories))
    if found.null_count:
        raise ColumnError(
            f"{counted(found.null_count, 'row', does='hold')} a category that was not agreed",
            where=place,
            remedy="Correct them, or agree on more categories.",
        )
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.int64)


def _stand_in(column: Number | Category, count: int, where: str) -> Any:
    """What was agreed to stand for missing values."""
    if column.missing is None:
        raise ColumnError(
            f"{counted(count, 'value', does='are')} missing, for which the agreement has no rule",
            where=where,
            remedy="Agree on a `missing` value, or leave those rows out.",
        )
    return column.missing


def require_rows(rows: int, where: str) -> None:
    """Refuse an empty table."""
    if rows == 0:
        raise InputError("the table has no rows", where=where)


def local_rows(
    rows: Any,
    agreement: Agreement,
    renamed: Mapping[str, str] | None = None,
    *,
    outcome: bool = True,
) -> pa.Table:
    """The agreed columns of a table as Arrow rows, under their agreed names.

    Parameters
    ----------
    rows
        Anything `sfumato.table` opens; an Arrow table is taken as it is.
    renamed
        This table's own names for agreed columns.
    outcome
        Whether the columns of the outcome are wanted too.
    """
    import pyarrow as pa

    from sfumato.tables.open import opened

    if isinstance(rows, pa.Table) and not renamed:
        return rows
    told = agreement.outcome
    wanted = list(agreement.names)
    if outcome:
        wanted += [name for name in (told.time, told.event, told.label) if name is not None]
    with opened(rows) as own:
        found = own.select([(renamed or {}).get(name, name) for name in wanted]).to_arrow()
    return found.rename_columns(wanted)


@dataclass(frozen=True)
class LocalRows:
    """This party's rows as an exact fit takes them."""

    x: Floats
    time: Floats
    event: NDArray[np.bool_]
    """Whether the event happened; for classifiers whether the row is of the positive class."""
    penalty: float
    horizon: float | None
    likely: tuple[Floats, ...] = ()
    """Each agreed column's encoded values that somebody would guess; empty for all of them."""


def rows_to_fit(
    table: pa.Table,
    agreement: Agreement,
    kind: Literal["cox", "svm", "logistic"],
    *,
    penalty: float | None = None,
    horizon: float | None = None,
    stratified: bool = False,
    where: str = "table",
) -> LocalRows:
    """Encode this party's rows; whatever can be wrong on this side alone is found here.

    Parameters are those of `fit_exact`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from sfumato.joint import Category, Number, Outcome, Projection
    >>> agreed = Agreement(
    ...     study="lung",
    ...     columns=(Number("age", 18, 98, 1), Category("sex", ("f", "m"))),
    ...     outcome=Outcome(time="days", event="dead", time_max=100),
    ...     projection=Projection(seed="2026-11", dimensions=1),
    ... )
    >>> people = {"age": [38, 58], "sex": ["f", "m"], "days": [3, 5], "dead": [1, 0]}
    >>> rows_to_fit(pa.table(people), agreed, "cox").x.tolist()
    [[0.25, 0.0], [0.5, 1.0]]
    """
    require_rows(table.num_rows, where)
    encoded = encode(table, agreement, where=where)
    x, likely = encoded.matrix, _guessed(encoded, agreement)
    time, event = encode_outcome(table, agreement, where=where)
    horizon = agreement.outcome.horizon if horizon is None else horizon
    if kind == "cox":
        if time is None:
            raise InputError("a Cox model needs times", remedy="Fit `svm` or `logistic` instead.")
        if not stratified and agreement.outcome.time_max is None:
            raise InputError(
                "the exact Cox fit needs `time_max` in the agreement: the grid of times ends there",
                where="[outcome]",
                remedy="Agree on one that no follow-up exceeds.",
            )
        ridge = 0.0 if penalty is None else penalty
        if not (ridge >= 0 and np.isfinite(ridge)):
            raise ParameterError("the penalty must not be negative")
        return LocalRows(x, time, event, ridge, horizon, likely)
    positive = event
    if time is not None:
        if horizon is None:
            raise ParameterError("a classifier of survival needs a horizon")
        positive, known = survived(time, event, horizon)
        x, positive = x[known], positive[known]
    ridge = 1.0 if penalty is None else penalty
    if not (ridge > 0 and np.isfinite(ridge)):
        raise ParameterError("a classifier needs a positive penalty")
    return LocalRows(x, np.empty(0), positive, ridge, horizon, likely)


def _guessed(encoded: Encoded, agreement: Agreement) -> tuple[Floats, ...]:
    """The encoded values of each column that are likely, or that a row holds."""
    held = zip(agreement.columns, encoded.likely[0], encoded.options.T, strict=True)
    return tuple(column.options()[np.union1d(likely, codes)] for column, likely, codes in held)


def random_matrix(seed: str, rows: int, columns: int, kind: str = "gaussian") -> Floats:
    """B from a seed: independent standard normal entries, or orthonormal rows.

    Orthonormal rows keep distances (and so the meaning of a penalty) and amplify rounding least.

    Examples
    --------
    >>> b = random_matrix("study", 2, 3, "orthonormal")
    >>> bool(np.allclose(b @ b.T, np.eye(2)))
    True
    >>> bool((random_matrix("study", 2, 3) == random_matrix("study", 2, 3)).all())
    True
    """
    count = rows * columns
    label = f"sfumato joint {kind} {rows}x{columns} {seed}".encode()
    stream = hashlib.shake_256(label).digest(16 * count)
    words = np.frombuffer(stream, dtype="<u8").reshape(2, count)
    uniform = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    # Box and Muller: two uniform numbers make one normal number.
    normal = np.sqrt(-2.0 * np.log(uniform[0])) * np.cos(2.0 * np.pi * uniform[1])
    matrix: Floats = normal.reshape(rows, columns)
    if kind == "gaussian":
        return matrix
    q, r = np.linalg.qr(matrix.T)
    return np.ascontiguousarray((q * np.sign(np.diag(r))).T)


def project(a: Floats, agreement: Agreement) -> Floats:
    """K(A, B'): what may be published of each row, before rounding.

    Linear: A·B'. Gaussian: exp(-width·‖A_i - B_k‖²). Both act on each row alone (the paper's
    condition below Algorithm 4.1), so stacking shares equals projecting the stacked rows.
    """
    chosen = agreement.projection
    b = random_matrix(chosen.seed, chosen.dimensions, a.shape[1], chosen.matrix)
    if chosen.kernel == "linear":
        return np.asarray(a @ b.T)
    distance = (a * a).sum(axis=1)[:, None] - 2.0 * (a @ b.T) + (b * b).sum(axis=1)[None, :]
    return np.asarray(np.exp(-chosen.width * np.maximum(distance, 0.0)))


def projection_bounds(agreement: Agreement) -> tuple[Floats, Floats]:
    """The least and the greatest number that a row within the agreed bounds can give, each k.

    Examples
    --------
    >>> from sfumato.joint import Number, Outcome, Projection
    >>> agreement = Agreement("s", (Number("a", 0, 9, 1), Number("b", 0, 9, 1)),
    ...     Outcome(time="t", event="e"), Projection("seed", 1))
    >>> low, high = projection_bounds(agreement)
    >>> corners = project(np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]), agreement)
    >>> bool(np.isclose(corners.min(), low) and np.isclose(corners.max(), high))
    True
    """
    chosen = agreement.projection
    if chosen.kernel != "linear":
        return np.zeros(chosen.dimensions), np.ones(chosen.dimensions)
    b = random_matrix(chosen.seed, chosen.dimensions, agreement.encoded, chosen.matrix)
    return np.minimum(b, 0.0).sum(axis=1), np.maximum(b, 0.0).sum(axis=1)


def round_to(values: Floats, step: float) -> Floats:
    """Round to multiples of `step`; a step of 0 leaves the values alone.

    Examples
    --------
    >>> round_to(np.array([0.26, -0.74]), 0.5).tolist()
    [0.5, -0.5]
    """
    if step == 0:
        return values
    return np.asarray(np.rint(values / step) * step) + 0.0


def equivalent_dose(
    total: ArrayLike,
    per_fraction: ArrayLike,
    days: ArrayLike,
    *,
    beta: float = 10.0,
    loss: float = 0.66,
    kick_off: float = 28.0,
) -> NDArray[np.float64]:
    """Dose in 2 Gy fractions, corrected for overall treatment time (EQD2,T).

    D·(d + β)/(2 + β) - γ·max(0, T - T_k), by default with β = 10 Gy, γ = 0.66 Gy a day and
    accelerated repopulation from T_k = 28 days on.

    Parameters
    ----------
    total, per_fraction
        Total dose and dose a fraction, in Gy.
    days
        Overall treatment time.

    Examples
    --------
    >>> equivalent_dose([60.0, 60.0], [2.0, 2.0], [28, 38]).tolist()
    [60.0, 53.4]
    """
    whole, part, length = (np.asarray(v, dtype=np.float64) for v in (total, per_fraction, days))
    if any((np.asarray(values) < 0).any() for values in (whole, part, length)):
        raise InputError("doses and days must not be negative")
    dose = whole * (part + beta) / (2.0 + beta) - loss * np.maximum(0.0, length - kick_off)
    return np.asarray(dose, dtype=np.float64)


@checked
def add_dose(
    source: Any,
    *,
    total: str,
    per_fraction: str,
    days: str,
    name: str = "eqd2",
    beta: float = 10.0,
    loss: float = 0.66,
    kick_off: float = 28.0,
) -> pa.Table:
    """A table with one more column, the `equivalent_dose` of three of its own.

    Parameters
    ----------
    source
        Anything `sfumato.table` opens.
    total, per_fraction, days
        Columns with the total dose, the dose a fraction and the overall treatment time; where one
        of them is empty, so is the result.
    name
        The new column.

    Examples
    --------
    >>> import pyarrow as pa
    >>> treated = pa.table({"gy": [60.0, 66.0], "fraction": [2.0, 2.75], "time": [38, None]})
    >>> added = add_dose(treated, total="gy", per_fraction="fraction", days="time")
    >>> added.column("eqd2").to_pylist()
    [53.4, None]
    """
    import pyarrow as pa

    from sfumato.tables.open import opened

    with opened(source) as own:
        if name in own.columns:
            raise ColumnError(
                f"there is a column `{name}` already",
                where=own.name,
                remedy="Give the new one another name.",
            )
        own.require([total, per_fraction, days])
        rows, where = own.to_arrow(), own.name
    known = [_cells(rows, column, where) for column in (total, per_fraction, days)]
    there = np.logical_and.reduce([np.asarray(cells.is_valid()) for cells in known])
    whole, part, length = (
        _as_numbers(cells.filter(pa.array(there)), column, where)
        for cells, column in zip(known, (total, per_fraction, days), strict=True)
    )
    doses = np.full(rows.num_rows, np.nan)
    doses[there] = equivalent_dose(whole, part, length, beta=beta, loss=loss, kick_off=kick_off)
    return rows.append_column(name, pa.array(doses, mask=~there))
