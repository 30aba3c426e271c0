"""Floating-point numbers as programs write them.

Programs agree on the digits (the fewest that give the number back) but not on the form: one writes
``1.0``, another ``1``; one ``100000``, another ``1e+05``. A column is a float if all its cells are
in one of the known forms: each form gives different numbers different texts, a mixture does not.
(``-0.0`` is the same value as ``0.0`` everywhere, so a column that writes both stays text.)
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sfumato.tables.numbertext import cast_or_none

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FloatText"]

_LOW, _HIGH = 1e-3, 1e10
"""Between these, every form writes digits without exponent, except R for round numbers."""
_ROUND = 1e5

_FORMS = ("python", "python, whole numbers bare", "arrow", "arrow, whole numbers pointed", "R")


class FloatText:
    """Floats in one of the forms that programs write."""

    def __init__(self) -> None:
        self._forms = set(_FORMS)
        self._not_a_number: set[str] = set()
        self._zeros: set[str] = set()

    def accepts(self, cells: pa.Array) -> bool:
        """Whether one form fits all cells."""
        import pyarrow as pa
        import pyarrow.compute as pc

        values = cast_or_none(cells, pa.float64())
        if values is None:
            return False
        nan = pc.is_nan(values)
        if pc.any(nan).as_py():
            self._not_a_number.update(cells.filter(nan).unique().to_pylist())
            if len(self._not_a_number) > 1:
                return False
            cells, values = cells.filter(pc.invert(nan)), values.filter(pc.invert(nan))
        self._zeros.update(cells.filter(pc.equal(values, 0.0)).unique().to_pylist())
        if len(self._zeros) > 1:
            return False
        short = values.cast(pa.string())
        bare = _flags(pc.equal(short, cells))
        pointed = _flags(pc.equal(pc.binary_join_element_wise(short, ".0", ""), cells))
        numbers = values.to_numpy(zero_copy_only=False)
        whole, size = np.floor(numbers) == numbers, np.abs(numbers)
        plain = ((size >= _LOW) & (size < _HIGH)) | (size == 0)
        rest = np.fmod(size, _ROUND, where=plain, out=np.zeros_like(size))
        plain &= ~((size >= _ROUND) & (rest == 0))
        with_point = np.where(whole, pointed, bare)
        self._keep("python", with_point[plain].all())
        self._keep("python, whole numbers bare", bare[plain].all())
        self._keep("R", bare[plain].all())
        self._keep("arrow", bare.all())
        exponent = _flags(pc.match_substring(short, "e")) | np.isinf(numbers)
        self._keep("arrow, whole numbers pointed", np.where(exponent, bare, with_point).all())
        self._look_closely(cells.filter(pa.array(~plain)).to_pylist(), numbers[~plain])
        return bool(self._forms)

    def type(self) -> pa.DataType:
        """A float of 64 bits."""
        import pyarrow as pa

        return pa.float64()

    def convert(self, cells: pa.Array) -> pa.Array:
        """Cells as floats."""
        return cells.cast(self.type())

    def _keep(self, form: str, fits: Any) -> None:
        if not fits:
            self._forms.discard(form)

    def _look_closely(self, cells: list[str], numbers: npt.NDArray[np.float64]) -> None:
        """Very small, very large and round numbers, where the forms differ."""
        for cell, number in zip(cells, numbers.tolist(), strict=True):
            if not self._forms - {"arrow", "arrow, whole numbers pointed"}:
                return
            python = repr(number)
            self._keep("python", cell == python)
            self._keep("python, whole numbers bare", cell == python.removesuffix(".0"))
            if "R" in self._forms:
                self._keep("R", cell == _as_r_writes(python))


def _flags(array: pa.Array) -> npt.NDArray[np.bool_]:
    flags: npt.NDArray[np.bool_] = array.to_numpy(zero_copy_only=False)
    return flags


def _as_r_writes(python: str) -> str:
    """R writes the shorter of ``100000`` and ``1e+05``, the former if they are equally long.

    Examples
    --------
    >>> _as_r_writes("100000.0"), _as_r_writes("120000.0"), _as_r_writes("0.0001")
    ('1e+05', '120000', '1e-04')
    """
    if "inf" in python:
        return python.replace("inf", "Inf")
    sign, digits, exponent = Decimal(python).normalize().as_tuple()
    assert isinstance(exponent, int)
    fixed = format(Decimal(python).normalize(), "f").lstrip("-")
    first, rest = str(digits[0]), "".join(map(str, digits[1:]))
    power = exponent + len(digits) - 1
    scientific = f"{first}{'.' + rest if rest else ''}e{'-' if power < 0 else '+'}{abs(power):02d}"
    shorter = fixed if len(fixed) <= len(scientific) else scientific
    return ("-" if sign else "") + shorter
