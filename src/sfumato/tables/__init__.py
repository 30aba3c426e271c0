"""Anything tabular, opened as a handle."""

from sfumato.tables.open import Table, table

__all__ = ["Table", "table"]
