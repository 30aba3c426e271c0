"""One pass over rows that are never kept: uniform samples of rows and of pairs of rows."""

from sfumato.engines.reservoirs import PairReservoir, RowReservoir
from sfumato.engines.stream import StreamEngine
from sfumato.streams.opening import stream

__all__ = ["PairReservoir", "RowReservoir", "StreamEngine", "stream"]
