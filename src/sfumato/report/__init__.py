"""Reports: one self-contained page that a person can read top to bottom and file."""

from sfumato.report.page import Figure, Page, Section, write_page

__all__ = ["Figure", "Page", "Section", "write_page"]
