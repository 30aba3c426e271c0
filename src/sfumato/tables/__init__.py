"""Anything tabular, opened as a handle."""

from sfumato.tables.open import table
from sfumato.tables.table import Table

__all__ = ["Table", "table"]
