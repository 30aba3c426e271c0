"""One pass over rows that are never kept: uniform samples of rows and of pairs of rows."""

from sfumato.streams.engine import StreamEngine
from sfumato.streams.opening import stream
from sfumato.streams.pairs import PairReservoir
from sfumato.streams.rows import RowReservoir

__all__ = ["PairReservoir", "RowReservoir", "StreamEngine", "stream"]
