"""Scalar products of binary vectors: how many records match Alice's pattern and Bob's at once.

One transfer a record: Alice offers pad and pad + her bit, Bob takes by his bit; the sums of the
two sides' pads are shares of the count. Bits of many of Alice's vectors ride on one transfer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError
from sfumato.secure import _kernels
from sfumato.secure.arithmetic import cross_products
from sfumato.secure.oblivious_transfer import hashed
from sfumato.secure.polynomial import paillier_counts
from sfumato.secure.shares import Ring, Shares

if TYPE_CHECKING:
    from sfumato.secure.session import Session

__all__ = ["cross_counts", "many_cross_counts", "scalar_product"]

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
        raise ParameterError("a scalar product takes one vector from each side")
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
    return many_cross_counts(session, [(mine, theirs)], ring=ring)[0]


def many_cross_counts(
    session: Session, tasks: Sequence[tuple[Any, int]], *, ring: Ring, backend: str = "ot"
) -> list[Shares]:
    """`cross_counts` of many tasks, small ones in common messages.

    Parameters
    ----------
    tasks
        Pairs of my vectors and the number of the other side's, as in `cross_counts`.
    backend
        ``"ot"``, or ``"paillier"``: one encryption for each of Bob's bits, as the paper has it.
    """
    jobs = [_Job.of(session, mine, theirs, ring) for mine, theirs in tasks]
    shapes = [(job.vectors.shape[1], job.alices, job.bobs) for job in jobs]
    session.begin("cross counts", tasks=shapes, ring=ring, backend=backend)
    if backend == "paillier":
        sizes = [job.bobs if session.is_alice else job.alices for job in jobs]
        both = zip(jobs, sizes, strict=True)
        return [Shares(ring, paillier_counts(session, j.vectors, n, ring)) for j, n in both]
    if not ring.is_power_of_two or ring.bits > 64:
        return [_one_by_one(session, job, ring) for job in jobs]
    batches = _batches(jobs)
    with session.overlapping(sum(piece.length for batch in batches for piece in batch)):
        if session.is_alice:
            _offer_all(session, batches)
        else:
            _take_all(session, batches)
    mask = np.uint64(ring.modulus - 1)
    flat = (np.ascontiguousarray(job.counts.T).reshape(-1, 1) for job in jobs)
    return [Shares(ring, values & mask) for values in flat]


@dataclass(frozen=True)
class _Job:
    """One task: my vectors, how many each side has, and the sums so far."""

    vectors: NDArray[np.uint8]
    alices: int
    bobs: int
    width: int
    """Bytes of a correction: an element for each of Alice's vectors."""
    counts: NDArray[np.uint64]

    @classmethod
    def of(cls, session: Session, mine: Any, theirs: int, ring: Ring) -> _Job:
        vectors = _binary(mine)
        if vectors.ndim != 2 or not len(vectors) or theirs < 1:
            raise ParameterError("vectors must form a table, with at least one row on each side")
        alices, bobs = (len(vectors), theirs) if session.is_alice else (theirs, len(vectors))
        width = alices * ((ring.bits + 7) // 8)
        return cls(vectors, alices, bobs, width, np.zeros((bobs, alices), np.uint64))

    @property
    def words(self) -> int:
        """Words of hash output a transfer."""
        return 2 * ((self.width + 15) // 16)


@dataclass(frozen=True)
class _Piece:
    """Some records of a job, against one of Bob's vectors."""

    job: _Job
    bob: int
    records: slice

    @property
    def length(self) -> int:
        return int(self.records.stop - self.records.start)

    @property
    def bits(self) -> NDArray[np.uint8]:
        """Bob's bits."""
        bits: NDArray[np.uint8] = self.job.vectors[self.bob, self.records]
        return bits


def _batches(jobs: Sequence[_Job]) -> list[list[_Piece]]:
    """Pieces of all jobs, as many together as make some megabytes of hash output."""
    batches: list[list[_Piece]] = [[]]
    room = _BYTES
    for job in jobs:
        n, each = job.vectors.shape[1], 8 * job.words
        step = max(128, _BYTES // each // 128 * 128)
        for bob in range(job.bobs):
            for start in range(0, n, step):
                piece = _Piece(job, bob, slice(start, min(start + step, n)))
                if batches[-1] and piece.length * each > room:
                    batches.append([])
                    room = _BYTES
                batches[-1].append(piece)
                room -= piece.length * each
    return batches


def _with_keys(
    batch: Sequence[_Piece], keys: NDArray[np.uint64]
) -> Iterator[tuple[_Piece, NDArray[np.uint64]]]:
    start = 0
    for piece in batch:
        yield piece, keys[start : start + piece.length]
        start += piece.length


def _offer_all(session: Session, batches: Sequence[Sequence[_Piece]]) -> None:
    for batch in batches:
        keys = session.ot_sender.extend(sum(piece.length for piece in batch))
        messages = [_offer(session, *pair) for pair in _with_keys(batch, keys)]
        session.channel.send("cross counts: corrections", np.concatenate(messages))


def _take_all(session: Session, batches: Sequence[Sequence[_Piece]]) -> None:
    choices = (np.concatenate([piece.bits for piece in batch]) for batch in batches)
    asked = session.ot_receiver.ahead(choices)
    for batch, (_, keys) in zip(batches, asked, strict=True):
        size = sum(piece.length * piece.job.width for piece in batch)
        raw = session.channel.receive("cross counts: corrections", size)
        message, start = np.frombuffer(raw, np.uint8), 0
        for piece, own in _with_keys(batch, keys):
            end = start + piece.length * piece.job.width
            _take(session, piece, own, message[start:end])
            start = end


def _offer(session: Session, piece: _Piece, keys: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Alice's corrections; her pads are added to the counts."""
    job = piece.job
    rows = np.ascontiguousarray(job.vectors[:, piece.records].T)
    zero, one = (_narrow(p, job.width) for p in hashed(session, keys, job.words))
    message = np.empty((len(rows), job.width), np.uint8)
    _kernels.vector_send(zero, one, rows, message, job.counts[piece.bob])
    return message.reshape(-1)


def _take(
    session: Session, piece: _Piece, keys: NDArray[np.uint64], message: NDArray[np.uint8]
) -> None:
    """What Bob's bits choose is added to the counts."""
    job = piece.job
    (chosen,) = (_narrow(p, job.width) for p in hashed(session, keys, job.words))
    received = message.reshape(chosen.shape)
    _kernels.vector_receive(chosen, piece.bits, received, job.counts[piece.bob])


def _one_by_one(session: Session, job: _Job, ring: Ring) -> Shares:
    """The general way, for odd moduli and large rings: one product a record and pair."""
    pairs = []
    for a in range(job.alices):
        for b in range(job.bobs):
            mine = ring.encode(job.vectors[a if session.is_alice else b])
            pairs.append(ring.sum(cross_products(session, ring, mine, used=1), len(mine)))
    return Shares(ring, np.concatenate(pairs))


def _narrow(words: NDArray[np.uint64], size: int) -> NDArray[np.uint8]:
    return words.view(np.uint8)[:, :size]


def _binary(mine: Any) -> NDArray[np.uint8]:
    vectors = np.asarray(mine)
    if vectors.dtype != bool and not (
        vectors.dtype.kind in "iu" and ((vectors == 0) | (vectors == 1)).all()
    ):
        raise ParameterError("binary vectors may hold only true and false")
    if not vectors.size:
        raise ParameterError("these vectors have no elements")
    return vectors.astype(np.uint8)
