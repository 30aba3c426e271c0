"""Every table and figure of eight papers again: what the paper says, what comes out here, and why.

A paper is a module here that lists its experiments; `sfumato.papers.reproduction` runs them and
writes what they found.
"""

from sfumato.papers.reproduction import PAPERS, Reproduction, reproduce

__all__ = ["PAPERS", "Reproduction", "reproduce"]
