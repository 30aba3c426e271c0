"""Scalar products of binary vectors: how many records match Alice's pattern and Bob's at once.

One transfer a record: Alice offers pad and pad + her bit, Bob takes by his bit; the sums of the
two sides' pads are shares of the count. Bits of many of Alice's vectors ride on one transfer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError
from sfumato.secure import _kernels
from sfumato.secure.arithmetic import cross_products, pads
from sfumato.secure.sharing import Ring, Shares

if TYPE_CHECKING:
    from sfumato.secure.session import Session

__all__ = ["cross_counts", "scalar_product"]

_BYTES = 1 << 22
"""Hash output worked on at a time."""


def scalar_product(session: Session, mine: Any, *, ring: Ring) -> Shares:
    """Shares of the number of positions where Alice's and Bob's bits are both one.

    Examples
    --------
    >>> from sfumato.secure import reveal, together
    >>> ring = Ring.power_of_two(32)
    >>> def party(session):
    ...     bits = [1, 1, 0, 1] if session.is_alice else [0, 1, 1, 1]
    ...     count = scalar_product(session, np.array(bits, bool), ring=ring)
    ...     return int(reveal(session, count, what="the count")[0])
    >>> together(party, party)
    (2, 2)
    """
    vector = _binary(mine)
    if vector.ndim != 1:
        raise ParameterError("a scalar product takes one vector of each side")
    return cross_counts(session, vector[None, :], theirs=1, ring=ring)


def cross_counts(session: Session, mine: Any, *, theirs: int, ring: Ring) -> Shares:
    """Scalar products of each of Alice's binary vectors with each of Bob's.

    With one-hot rows of a column on each side this is the contingency table of the two columns.

    Parameters
    ----------
    mine
        My vectors, bool[vectors, n].
    theirs
        How many vectors the other side has.
    ring
        Modulo what the counts are shared; 2^L with L above log2 n is smallest and fastest.

    Returns
    -------
    Shares
        Of Alice's number times Bob's number of counts; index ``a * bobs + b``.
    """
    vectors = _binary(mine)
    if vectors.ndim != 2 or not len(vectors) or theirs < 1:
        raise ParameterError("vectors come as a table: one row each, at least one on each side")
    n = vectors.shape[1]
    alices, bobs = (len(vectors), theirs) if session.is_alice else (theirs, len(vectors))
    session.begin("cross counts", n=n, alice=alices, bob=bobs, ring=ring)
    if not ring.is_power_of_two or ring.bits > 64:
        return _one_by_one(session, vectors, alices, bobs, ring)
    size = (ring.bits + 7) // 8
    words = 2 * ((alices * size + 15) // 16)
    step = max(128, _BYTES // (8 * words) // 128 * 128)
    parts = [(b, slice(i, min(i + step, n))) for b in range(bobs) for i in range(0, n, step)]
    counts = np.zeros((bobs, alices), np.uint64)
    if session.is_alice:
        for b, part in parts:
            rows = np.ascontiguousarray(vectors[:, part].T)
            q = session.ot_sender.extend(len(rows))
            zero, one = (_narrow(p, alices * size) for p in pads(session, q, words))
            message = np.empty((len(rows), alices * size), np.uint8)
            _kernels.vector_send(zero, one, rows, message, counts[b])
            session.channel.send("cross counts: corrections", message)
    else:
        choices = (vectors[b, part] for b, part in parts)
        asked = session.ot_receiver.ahead(choices)
        for (b, _), (choice, t) in zip(parts, asked, strict=True):
            (chosen,) = (_narrow(p, alices * size) for p in pads(session, t, words))
            raw = session.channel.receive("cross counts: corrections", chosen.size)
            received = np.frombuffer(raw, np.uint8).reshape(chosen.shape)
            _kernels.vector_receive(chosen, choice, received, counts[b])
    flat = np.ascontiguousarray(counts.T).reshape(-1, 1)
    return Shares(ring, flat & np.uint64(ring.modulus - 1))


def _one_by_one(
    session: Session, vectors: NDArray[np.uint8], alices: int, bobs: int, ring: Ring
) -> Shares:
    """The general way, for odd moduli and large rings: one product a record and pair."""
    pairs = []
    for a in range(alices):
        for b in range(bobs):
            mine = ring.encode(vectors[a if session.is_alice else b])
            pairs.append(ring.sum(cross_products(session, ring, mine, used=1), len(mine)))
    return Shares(ring, np.concatenate(pairs))


def _narrow(words: NDArray[np.uint64], size: int) -> NDArray[np.uint8]:
    return words.view(np.uint8)[:, :size]


def _binary(mine: Any) -> NDArray[np.uint8]:
    vectors = np.asarray(mine)
    if vectors.dtype != bool and not (
        vectors.dtype.kind in "iu" and ((vectors == 0) | (vectors == 1)).all()
    ):
        raise ParameterError("binary vectors hold only true and false")
    if not vectors.size:
        raise ParameterError("these vectors have no elements")
    return vectors.astype(np.uint8)
