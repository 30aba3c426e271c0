"""What a secure aggregation cost one party, and what it told everybody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sfumato.results import Result

__all__ = ["SumReport"]


@dataclass(frozen=True)
class SumReport(Result):
    """One party's view of an aggregation.

    Attributes
    ----------
    name, coordinator, parties, gone
        Who this party is, who relays, who took part to the end, and who left on the way.
    rounds
        Sums that were opened to everybody.
    messages_sent, messages_received, bytes_sent, bytes_received
        Of this party, after the greeting, without the transport's own overhead.
    opened
        How many totals everybody learned at each kind of step.
    encrypted
        Whether the parties knew each other by certificates.
    """

    name: str
    coordinator: str
    parties: tuple[str, ...]
    gone: tuple[str, ...]
    rounds: int
    messages_sent: int
    messages_received: int
    bytes_sent: int
    bytes_received: int
    opened: Mapping[str, int]
    encrypted: bool
