"""A share: the one file that may leave the house.

Rows are projected and rounded, and attacked before they may leave (`make_share`); shares are
written, read back, checked and stacked.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.budget import Budget, available_memory, within_budget
from sfumato.errors import ColumnError, InputError, ParameterError, PromiseError, SourceError
from sfumato.fields import checked
from sfumato.files import appearing
from sfumato.joint.agreement import Agreement
from sfumato.joint.leakage_report import Leakage, Protect, leakage, safe_rounding
from sfumato.joint.local_data import (
    Encoded,
    encode,
    encode_outcome,
    local_rows,
    project,
    projection_bounds,
    require_rows,
    round_to,
)
from sfumato.joint.validation import price_of_privacy
from sfumato.results import Result

if TYPE_CHECKING:
    import pyarrow as pa


Floats = NDArray[np.float64]
Outcomes = tuple[Floats | None, NDArray[np.bool_]]
Stacked = tuple[Floats, Floats | None, NDArray[np.bool_], Floats]

_KEY = b"sfumato.share"
_LONGEST_NAME = 200
_ROOM = 4 * 8
"""Bytes that a number takes while a share is read: in Arrow's table, the matrix, and checks."""


@dataclass(frozen=True)
class Share:
    """What one institution publishes: projected rows, and the outcome in clear.

    Rows are sorted, so that their order tells nothing about the source.
    """

    institution: str
    agreement: Agreement
    rounding: float
    projected: Floats
    time: Floats | None
    event: NDArray[np.bool_]

    @property
    def digest(self) -> str:
        """SHA-256 of the rows."""
        state = hashlib.sha256(np.ascontiguousarray(self.projected).tobytes())
        state.update(b"" if self.time is None else self.time.tobytes())
        state.update(self.event.tobytes())
        return state.hexdigest()


@checked
def write_share(share: Share, path: str | Path) -> None:
    """Write a share as Parquet; the file appears whole or not at all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, NDArray[np.float64] | NDArray[np.bool_]] = {
        f"p{k + 1}": share.projected[:, k] for k in range(share.projected.shape[1])
    }
    if share.time is not None:
        columns["time"] = share.time
    columns["event" if share.time is not None else "positive"] = share.event
    about = {
        "institution": share.institution,
        "agreement": share.agreement.to_dict(),
        "hash": share.agreement.hash,
        "rounding": share.rounding,
        "digest": share.digest,
    }
    table = pa.table(columns).replace_schema_metadata({_KEY: json.dumps(about, sort_keys=True)})
    with appearing(path) as unfinished:
        pq.write_table(table, unfinished, compression="zstd")


@checked
def read_share(path: str | Path) -> Share:
    """Read a share and check that it is whole and belongs to the agreement it carries."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            # whatever the end of the file tells is looked at before its rows are
            about, agreement = _described(file.schema_arrow, str(path))
            _check_room(file.metadata.num_rows, len(file.schema_arrow), str(path))
            table = file.read()
    except (OSError, pa.ArrowException):
        raise SourceError(
            "this share cannot be read",
            where=str(path),
            remedy="Make one with `sfumato joint share`.",
        ) from None
    *names, last = table.column_names
    survival = agreement.outcome.is_survival
    share = Share(
        about["institution"],
        agreement,
        about["rounding"],
        np.column_stack([table.column(name).to_numpy() for name in names if name != "time"]),
        np.asarray(table.column("time").to_numpy()) if survival else None,
        np.asarray(table.column(last).to_numpy(zero_copy_only=False), dtype=bool),
    )
    if share.digest != about["digest"] or any(column.null_count for column in table.columns):
        raise InputError("the share was altered after it was made", where=str(path))
    if not _is_possible(share):
        raise InputError(
            "the share holds numbers that no rows within the agreed bounds give",
            where=str(path),
            remedy="Ask its institution to make it again.",
        )
    return share


def _described(schema: pa.Schema, where: str) -> tuple[dict[str, Any], Agreement]:
    """What a file tells about the share in it, and the agreement of that, which its columns fit."""
    import pyarrow as pa

    raw = (schema.metadata or {}).get(_KEY)
    if raw is None:
        raise InputError(
            "this Parquet file is not a share",
            where=where,
            remedy="Make one with `sfumato joint share`; never pass the table itself around.",
        )
    try:
        about = json.loads(raw)
        about["rounding"] = float(about["rounding"])
        institution, hashed, _ = about["institution"], about["hash"], about["digest"]
        agreement = Agreement.from_dict(about["agreement"], where=where)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise InputError("the share's description cannot be read", where=where) from None
    _check_name(institution)
    names = [f"p{k + 1}" for k in range(agreement.projection.dimensions)]
    wanted = [*names, *(("time", "event") if agreement.outcome.is_survival else ("positive",))]
    types = [pa.float64()] * (len(wanted) - 1) + [pa.bool_()]
    if (schema.names, schema.types) != (wanted, types) or agreement.hash != hashed:
        raise InputError("the share does not fit the agreement it carries", where=where)
    return about, agreement


def _check_room(rows: int, columns: int, where: str) -> None:
    """Refuse rows that memory would not hold: a few bytes of a file can stand for millions."""
    needed = _ROOM * rows * columns
    if needed > available_memory():
        raise SourceError(
            f"its {rows:,} rows would take about {needed / 2**30:,.1f} GB of memory, more than is "
            "free",
            where=where,
            remedy="Ask its institution how many rows it shared.",
        )


def _is_possible(share: Share) -> bool:
    """Whether the agreement allows each number: a digest only says that they are the maker's."""
    if not len(share.event) or not (share.rounding >= 0 and math.isfinite(share.rounding)):
        return False
    low, high = (round_to(end, share.rounding) for end in projection_bounds(share.agreement))
    inside = (share.projected >= low - 1e-6) & (share.projected <= high + 1e-6)
    if not inside.all() or not _are_multiples(share.projected, share.rounding):
        return False  # nor is what is not a number
    if share.time is None:
        return True
    limit, unit = share.agreement.outcome.time_max, share.agreement.outcome.time_step
    last = math.inf if limit is None else limit + unit
    inside = (share.time >= 0) & np.isfinite(share.time) & (share.time <= last)
    return bool(inside.all()) and _are_multiples(share.time, unit)


def _are_multiples(values: Floats, step: float) -> bool:
    away = np.abs(values - round_to(values, step))
    return bool((away <= 1e-9 * (np.abs(values) + step)).all())


def stack(shares: Sequence[Share], weights: Mapping[str, float] | None = None) -> Stacked:
    """Put shares of one agreement on top of each other.

    Returns
    -------
    projected, time, event, weights
        The stacked rows, and each row's weight (its institution's; 1 by default).
    """
    if not shares:
        raise InputError("there are no shares to fit")
    by_name: dict[str, Share] = {}
    by_digest: dict[str, Share] = {}
    for share in shares:
        if share.agreement.hash != shares[0].agreement.hash:
            raise InputError(
                f"the share of `{share.institution}` was made under another agreement than that of "
                f"`{shares[0].institution}`",
                remedy="All must use the same agreement file.",
            )
        twin = by_name.get(share.institution) or by_digest.get(share.digest)
        if twin is not None:
            raise InputError(
                f"two shares come from the same institution: `{twin.institution}`"
                + ("" if twin.institution == share.institution else f" and `{share.institution}`"),
                remedy="Give each institution's share once.",
            )
        by_name[share.institution] = by_digest[share.digest] = share
    given = dict(weights or {})
    unknown = sorted(set(given) - set(by_name))
    if unknown:
        raise ParameterError(f"weights name `{unknown[0]}`, of which there is no share")
    if any(not weight > 0 for weight in given.values()):
        raise ParameterError("weights of institutions must be positive")
    time = None if shares[0].time is None else np.concatenate([_time(s) for s in shares])
    return (
        np.concatenate([share.projected for share in shares]),
        time,
        np.concatenate([share.event for share in shares]),
        np.concatenate([np.full(len(s.event), given.get(s.institution, 1.0)) for s in shares]),
    )


def _time(share: Share) -> Floats:
    assert share.time is not None
    return share.time


@dataclass(frozen=True)
class ShareResult(Result):
    """A share with its owner's leakage report (which is not part of the share).

    Attributes
    ----------
    institution, agreement
        Whose share it is, and the hash of the agreement.
    rows, events
        Rows, and how many of them have the agreed event (or the positive label).
    columns, dimensions
        Encoded columns n, and published numbers a row m̄.
    rounding
        Step of the published numbers; 0 is unrounded.
    chosen_by
        `attack` when the step was searched for, `agreement` or `user` when it was given.
    leakage
        What the share gives away.
    tried
        Share of rows recovered at each rounding step that was tried.
    price
        What projection and rounding cost, measured on the owner's rows by cross-validation.
    notes
        Anything the owner should know before sending the file.
    path
        Where the share was written, once it was.
    """

    passed_on: ClassVar[Mapping[str, str]] = {
        "institution": "part of the share",
        "agreement": "part of the share",
        "rows": "part of the share",
        "events": "counted on the share, which has events in clear",
        "columns": "part of the share",
        "dimensions": "part of the share",
        "rounding": "part of the share",
        "path": "where the share lies",
    }

    institution: str
    agreement: str
    rows: int
    events: int
    columns: int
    dimensions: int
    rounding: float
    chosen_by: str
    leakage: Leakage
    tried: Mapping[str, float]
    price: Mapping[str, float | str] | None
    notes: tuple[str, ...]
    path: str | None = None
    share: Share | None = field(default=None, repr=False, metadata={"private": True})


@within_budget
def make_share(
    rows: Any,
    agreement: Agreement,
    institution: str,
    *,
    renamed: Mapping[str, str] | None = None,
    rounding: float | None = None,
    protect: Protect = "rows",
    publish_anyway: bool = False,
    allow_constant: bool = False,
    attack_rows: int | None = None,
    interval_rows: int = 20,
    price: bool = True,
    seed: int = 0,
    where: str = "table",
    budget: Budget | None = None,
) -> ShareResult:
    """Project a table for publication and measure what that gives away.

    Parameters
    ----------
    rows, agreement, institution
        A table (anything `sfumato.table` opens), what was agreed, and whose rows they are.
    renamed
        This table's own names for agreed columns.
    rounding
        Step of the published numbers. By default the agreement's, and if that leaves the choice,
        the finest step at which the attack recovers nobody.
    protect
        What the attack must not make certain: whole `rows`, or any single cell (`cells`).
    publish_anyway
        Do not refuse when it does.
    allow_constant
        Accept columns in which all rows agree.
    attack_rows, interval_rows
        How many rows are attacked by enumeration (None: all) and by linear programming.

    Raises
    ------
    PromiseError
        When the attack recovers rows (or cells) at the given rounding.
    """
    _check_name(institution)
    _check_rounding(rounding)
    table = local_rows(rows, agreement, renamed)
    require_rows(table.num_rows, where)
    encoded = encode(table, agreement, where=where)
    outcome = encode_outcome(table, agreement, where=where)
    _check_outcome(outcome, agreement, where)
    notes = _constant(encoded, agreement, allow_constant, where)

    step, chosen_by, tried = agreement.projection.rounding, "agreement", dict[float, float]()
    if rounding is not None:
        step, chosen_by = rounding, "user"
    if step is None:
        chosen_by = "attack"
        step, tried = safe_rounding(
            encoded, agreement, protect=protect, sample=attack_rows, seed=seed, budget=budget
        )
    found = leakage(
        encoded,
        agreement,
        step,
        sample=attack_rows,
        protect=protect,
        interval_rows=interval_rows,
        seed=seed,
        outcome=outcome,
    )
    if not found.holds(protect) and not publish_anyway:
        raise _refusal(found, protect, where)
    costs: Mapping[str, float | str] | None = None
    if price:
        costs = price_of_privacy(encoded.matrix, outcome, agreement, step, seed=seed)
    return ShareResult(
        institution=institution,
        agreement=agreement.hash,
        rows=table.num_rows,
        events=int(outcome[1].sum()),
        columns=agreement.encoded,
        dimensions=agreement.projection.dimensions,
        rounding=step,
        chosen_by=chosen_by,
        leakage=found,
        tried={f"{step:g}": recovered for step, recovered in tried.items()},
        price=costs,
        notes=(*notes, *_given_away(found, protect)),
        share=_projected(encoded, outcome, agreement, institution, step),
    )


def _check_name(institution: object) -> None:
    if not isinstance(institution, str) or not 0 < len(institution) <= _LONGEST_NAME:
        raise ParameterError(f"an institution needs a name of at most {_LONGEST_NAME} characters")


def _check_rounding(step: float | None) -> None:
    if step is not None and not (step >= 0 and math.isfinite(step)):
        raise ParameterError(
            "the rounding step must be a finite number and not negative",
            remedy="Write e.g. --rounding 0.05, or leave it out to find a safe step.",
        )


def _check_outcome(outcome: Outcomes, agreement: Agreement, where: str) -> None:
    time, event = outcome
    if time is not None and not event.any():
        raise ColumnError(
            "every row is censored",
            where=f"{where}, column `{agreement.outcome.event}`",
            remedy="Check `event_value` in the agreement.",
        )
    if time is None and (event.all() or not event.any()):
        raise ColumnError(
            "all rows are of one class",
            where=f"{where}, column `{agreement.outcome.label}`",
            remedy="Check `positive` in the agreement.",
        )


def _constant(encoded: Encoded, agreement: Agreement, allowed: bool, where: str) -> list[str]:
    same = encoded.options.max(axis=0) == encoded.options.min(axis=0)
    names = [name for name, is_same in zip(agreement.names, same, strict=True) if is_same]
    if names and not allowed:
        raise ColumnError(
            f"column `{names[0]}` holds one value in all rows: it teaches the model nothing and "
            "makes the other columns easier to recover",
            where=where,
            remedy="Leave it out of the agreement, or allow constant columns.",
        )
    return [f"column `{name}` holds one value in all rows" for name in names]


def _refusal(found: Leakage, protect: Protect, where: str) -> PromiseError:
    if found.recovered_rows:
        what = (
            f"{found.recovered_rows} of {found.attacked_rows} attacked rows can be recovered "
            f"exactly from a share with m̄ = {found.dimensions} rounded to {found.rounding:g}"
        )
    else:
        name, share = max(found.pinned.items(), key=lambda entry: entry[1])
        what = f"column `{name}` is certain in {share:.1%} of the attacked rows"
    return PromiseError(
        what,
        where=where,
        remedy="Leave the rounding to the tool, lower m̄, fit exactly instead, or publish anyway.",
    )


def _given_away(found: Leakage, protect: Protect) -> list[str]:
    """What the owner should know about a share that may be published."""
    notes = []
    if not found.holds(protect):
        notes.append(
            f"{found.recovered_rows} of {found.attacked_rows} attacked rows are recoverable"
        )
    if found.certain_cells and not found.recovered_rows:
        notes.append(
            f"{found.certain_cells:,} of {found.judged_cells:,} cells looked at are certain to "
            "whoever knows the agreement, although no whole row is. To publish only what leaves "
            "every cell open: `--protect cells` (it usually takes fewer `dimensions` in the "
            "agreement). To publish no rows at all: `joint fit --exact`"
        )
    notes += [
        f"column `{name}` is certain in {share:.0%} of the attacked rows"
        for name, share in found.pinned.items()
        if share >= 0.5
    ]
    if (found.unique_outcomes or 0.0) > 0.5:
        notes.append(
            f"{found.unique_outcomes:.0%} of the rows are alone with their time and event, which "
            "are published in clear; a larger `time_step` would blur them"
        )
    return notes


def _projected(
    encoded: Encoded, outcome: Outcomes, agreement: Agreement, institution: str, step: float
) -> Share:
    """The share itself; rows are sorted, so that their order tells nothing about the source."""
    time, event = outcome
    projected = round_to(project(encoded.matrix, agreement), step)
    keys = [event, *([] if time is None else [time])]
    order = np.lexsort((*projected.T[::-1], *keys))
    return Share(
        institution,
        agreement,
        step,
        np.ascontiguousarray(projected[order]),
        None if time is None else time[order],
        event[order],
    )
