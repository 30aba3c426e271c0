"""How the compiled functions of searches are compiled."""

from __future__ import annotations

import numba

__all__ = ["bare"]

bare = numba.njit(nogil=True, cache=True, _nrt=False)
"""For functions that make no arrays: nobody counts references to those they are handed, which
would take longer than what most of these functions do."""
