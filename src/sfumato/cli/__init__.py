"""The command line: one module a verb, each loaded only when it is used."""

from sfumato.cli._main import main

__all__ = ["main"]
