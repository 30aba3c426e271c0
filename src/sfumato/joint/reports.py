"""What the command line tells about agreements, fits and seeds: small records, no rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, SourceError
from sfumato.joint.agreement import Agreement
from sfumato.joint.model import JointModel
from sfumato.joint.traffic import SumReport
from sfumato.results import Result

__all__ = ["Agreed", "Fitted", "Keys", "SeedScores", "read_seed_scores"]


@dataclass(frozen=True)
class Agreed(Result):
    """An agreement that was written: its size and its hash, to compare with the others'."""

    study: str
    columns: int
    encoded: int
    dimensions: int
    hash: str
    path: str

    @classmethod
    def of(cls, agreement: Agreement, path: str) -> Agreed:
        """The record of an agreement."""
        size = agreement.projection.dimensions
        return cls(
            agreement.study, len(agreement.columns), agreement.encoded, size, agreement.hash, path
        )


@dataclass(frozen=True)
class Fitted(Result):
    """A model that was written: how it was fitted and how well it does on its training rows."""

    kind: str
    exact: bool
    rows: int
    institutions: Mapping[str, int | None]
    columns: tuple[str, ...]
    coefficients: NDArray[np.float64]
    penalty: float
    iterations: int
    separated: bool
    horizon: float | None
    concordance: float | None
    auc: float | None
    revealed: Mapping[str, float] | None
    notes: tuple[str, ...]
    agreement: str
    path: str
    session: SumReport | None = None

    @classmethod
    def of(cls, model: JointModel, path: str, session: SumReport | None = None) -> Fitted:
        """The record of a model; `session` tells what an exact fit cost this party."""
        return cls(
            model.kind,
            model.exact,
            model.rows,
            model.institutions,
            model.columns,
            model.coefficients,
            model.penalty,
            model.iterations,
            model.separated,
            model.horizon,
            model.concordance,
            model.auc,
            model.revealed,
            model.notes,
            model.agreement.hash,
            path,
            session,
        )


@dataclass(frozen=True)
class Keys(Result):
    """A party's certificate, which all others get, and its private key, which stays."""

    name: str
    certificate: str
    key: str
    fingerprint: str


@dataclass(frozen=True)
class SeedScores(Result):
    """One institution's scores of candidate seeds: all that leaves when a matrix is chosen."""

    agreement: str
    rows: int
    scores: Mapping[str, float]


def read_seed_scores(path: str | Path, agreement: str) -> SeedScores:
    """Read scores that were made under the agreement with this hash."""
    try:
        plain = json.loads(Path(path).read_text(encoding="utf-8"))
        scores = {
            str(name): float("nan") if value is None else float(value)
            for name, value in plain["scores"].items()
        }
        found = SeedScores(str(plain["agreement"]), int(plain["rows"]), scores)
    except OSError as error:
        raise SourceError(f"the scores cannot be read: {error.strerror}", where=str(path)) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError("these are not scores of seeds", where=str(path)) from None
    if found.agreement != agreement:
        raise InputError("these scores were made under another agreement", where=str(path))
    return found
