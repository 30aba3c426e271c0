"""``python -m sfumato`` is the same as ``sfumato``."""

from sfumato.cli import program

program()
