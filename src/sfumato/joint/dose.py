"""The paper's dose variable: radiotherapy schedules made comparable (equation 5.8)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.errors import InputError

__all__ = ["equivalent_dose"]


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
