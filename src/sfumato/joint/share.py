"""A share: the one file that may leave the house, how it is written, read back and stacked."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, ParameterError, SourceError
from sfumato.files import appearing
from sfumato.joint.agreement import Agreement
from sfumato.joint.projection import projection_bounds

__all__ = ["Share", "Stacked", "read_share", "stack", "write_share"]

Floats = NDArray[np.float64]
Stacked = tuple[Floats, Floats | None, NDArray[np.bool_], Floats]

_KEY = b"sfumato.share"


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


def read_share(path: str | Path) -> Share:
    """Read a share and check that it is whole and belongs to the agreement it carries."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException):
        raise SourceError(
            "not a readable share",
            where=str(path),
            remedy="Make one with `sfumato joint share`.",
        ) from None
    raw = (table.schema.metadata or {}).get(_KEY)
    if raw is None:
        raise InputError(
            "this Parquet file is not a share",
            where=str(path),
            remedy="Make one with `sfumato joint share`; never pass the table itself around.",
        )
    try:
        about = json.loads(raw)
        institution, rounding = str(about["institution"]), float(about["rounding"])
        hashed, digest = about["hash"], about["digest"]
        agreement = Agreement.from_dict(about["agreement"], where=str(path))
    except (ValueError, KeyError, TypeError):
        raise InputError("the share's description cannot be read", where=str(path)) from None
    size = agreement.projection.dimensions
    names = [f"p{k + 1}" for k in range(size)]
    survival = agreement.outcome.is_survival
    wanted = [*names, "time", "event"] if survival else [*names, "positive"]
    types = [pa.float64()] * (len(wanted) - 1) + [pa.bool_()]
    if (table.column_names, table.schema.types) != (wanted, types) or agreement.hash != hashed:
        raise InputError("the share does not fit the agreement it carries", where=str(path))
    share = Share(
        institution,
        agreement,
        rounding,
        np.column_stack([np.asarray(table.column(name).to_numpy()) for name in names]),
        np.asarray(table.column("time").to_numpy()) if survival else None,
        np.asarray(table.column(wanted[-1]).to_numpy(zero_copy_only=False), dtype=bool),
    )
    if share.digest != digest or any(column.null_count for column in table.columns):
        raise InputError("the share was altered after it was made", where=str(path))
    if not _is_possible(share):
        raise InputError(
            "the share holds numbers that no rows within the agreed bounds give",
            where=str(path),
            remedy="Ask its institution to make it again.",
        )
    return share


def _is_possible(share: Share) -> bool:
    """Whether the agreement allows these numbers: a digest only says that they are the maker's."""
    if not len(share.event) or not (share.rounding >= 0 and math.isfinite(share.rounding)):
        return False
    low, high = projection_bounds(share.agreement)
    slack = share.rounding / 2 + 1e-6
    inside = (share.projected >= low - slack) & (share.projected <= high + slack)
    if not inside.all():  # nor is what is not a number
        return False
    if share.time is None:
        return True
    limit = share.agreement.outcome.time_max
    last = math.inf if limit is None else limit + share.agreement.outcome.time_step
    return bool(((share.time >= 0) & np.isfinite(share.time) & (share.time <= last)).all())


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
        raise ParameterError(f"there is no share of `{unknown[0]}` to weigh")
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
