"""The paper's dose variable, equation 5.8."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.joint import equivalent_dose


def test_equation_5_8() -> None:
    # 1.8 Gy twice daily to 61.2 Gy in 24 days: no repopulation; 2.75 Gy to 66 Gy in 32 days.
    found = equivalent_dose([61.2, 66.0], [1.8, 2.75], [24, 32])
    np.testing.assert_allclose(found, [61.2 * 11.8 / 12, 66 * 12.75 / 12 - 0.66 * 4])


def test_negative_doses_are_refused() -> None:
    with pytest.raises(InputError, match="not be negative"):
        equivalent_dose(60, -2, 30)
