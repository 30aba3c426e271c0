"""A cheap logarithm to base two: the position of the leading one and the next four bits (§6).

Between powers of two log2(1 + f) is taken as f. The paper says the result is within 1/16; in truth
it is 0 to 0.149 too small: up to 0.0861 from the straight line, up to 1/16 from cutting f off.
Adding half of that, as is done here, makes the error at most 0.0745 either way.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from sfumato.errors import ParameterError
from sfumato.secure import words, yao
from sfumato.secure.arithmetic import shares_of_bits
from sfumato.secure.circuit import ZERO, Builder, Circuit
from sfumato.secure.logarithm import known_bits
from sfumato.secure.sharing import Ring, Shares

if TYPE_CHECKING:
    from sfumato.secure.session import Session

__all__ = ["QUICK_ERROR", "log2_quick"]

_MANTISSA = 4
_SCALE = 1024
_CENTRE = 76
"""0.0742 · 1024: half of the largest shortfall."""
QUICK_ERROR = 0.0745


def log2_quick(
    session: Session, x: Shares, *, bits: int | None = None, centred: bool = True
) -> Shares:
    """Shares of 1024 · log2 x, at most 0.0745 off (in log2 x); 0 for x = 0 if not centred.

    Parameters
    ----------
    x
        Shares of integers, 0 <= x < 2^bits, in any ring with room for the result.
    bits
        Public bound on x; by default the largest the ring allows (40 at most).
    centred
        Add the constant that makes the error symmetric; False leaves the paper's own result.

    Examples
    --------
    >>> from sfumato.secure import private, reveal_real, together
    >>> def party(session):
    ...     x = private(Ring.power_of_two(32), [1000 if session.is_alice else 24])
    ...     result = log2_quick(session, x, bits=20, centred=False)
    ...     return reveal_real(session, result, what="log2 x").tolist()
    >>> together(party, party)
    ([10.0], [10.0])
    """
    if x.scale != 1:
        raise ParameterError("log2_quick takes whole numbers, not scaled ones")
    ring = x.ring
    width = known_bits(ring, bits)
    if 2 * _SCALE * (width + 1) >= ring.modulus:
        raise ParameterError(
            f"logarithms of numbers below 2^{width} do not fit modulo {ring} at scale {_SCALE}",
            remedy="Take a larger ring.",
        )
    session.begin("log2", ring=ring, bits=width, n=len(x), centred=centred)
    used = width if ring.is_power_of_two else ring.bits
    circuit = _circuit(ring, width)
    shared = yao.run(session, circuit, ring.to_bits(x.values, used).T, n=len(x))
    weights, constant = _weights(width)
    (total,) = shares_of_bits(session, ring, shared, [weights])
    if session.is_alice:
        total = ring.add(total, ring.encode([constant + (_CENTRE if centred else 0)]))
    return Shares(ring, total, _SCALE)


@lru_cache(maxsize=32)
def _circuit(ring: Ring, bits: int) -> Circuit:
    builder = Builder()
    x = words.reconstruct(builder, ring, bits)
    value, zeros = words.leading_one(builder, x, _MANTISSA + 1)
    first = bits - 1 - _MANTISSA
    mantissa = [value[i] if i >= 0 else ZERO for i in range(first, bits - 1)]
    return builder.finish([*zeros, value[-1], *mantissa])


def _weights(bits: int) -> tuple[list[int], int]:
    steps = max(1, (bits - 1).bit_length())
    counted = sum(1 << j for j in range(steps) if 1 << j < bits)
    places = [-(1 << j) * _SCALE if 1 << j < bits else 0 for j in range(steps)]
    mantissa = [_SCALE >> (_MANTISSA - i) for i in range(_MANTISSA)]
    return [*places, (bits - 1 - counted) * _SCALE, *mantissa], counted * _SCALE
