"""Anything tabular, opened as a handle."""

from sfumato.tables.opening import table
from sfumato.tables.table import Table

__all__ = ["Table", "table"]
