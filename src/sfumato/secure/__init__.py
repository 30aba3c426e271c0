"""Two parties compute together without showing each other their data.

Alice and Bob each run the same program and call the same functions in the same order; what passes
between modules are *shares* (two random-looking numbers whose sum is the value), never the values.
Security holds against a party that follows the protocol and looks at everything it receives
(semi-honest); `docs/secure.md` says plainly what that leaves out.

Based on Ryger, Kardes & Wright, *On the Lindell-Pinkas Secure Computation of Logarithms*.

Examples
--------
>>> from sfumato import secure
>>> ring = secure.Ring.power_of_two(64)
>>> def party(session):
...     count = secure.private(ring, [600 if session.is_alice else 400])
...     logarithm = secure.log(session, count, bits=20)
...     return secure.reveal_real(session, logarithm, what="ln of the common count")
>>> alice, bob = secure.together(party, party)
>>> round(float(alice[0]), 3), bool(alice[0] == bob[0])  # ln 1000
(6.908, True)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.secure.arithmetic import multiply as multiply
    from sfumato.secure.bayes import BayesNet as BayesNet
    from sfumato.secure.bayes import bayes_net as bayes_net
    from sfumato.secure.counting import HeldCells as HeldCells
    from sfumato.secure.counting import HeldRows as HeldRows
    from sfumato.secure.engine import warm_up as warm_up
    from sfumato.secure.growing import id3 as id3
    from sfumato.secure.keys import KeyPaths as KeyPaths
    from sfumato.secure.keys import make_keys as make_keys
    from sfumato.secure.logarithm import log as log
    from sfumato.secure.logarithm import log_error as log_error
    from sfumato.secure.logarithm import x_log_x as x_log_x
    from sfumato.secure.quicklog import log2_quick as log2_quick
    from sfumato.secure.reference import plain_bayes_net as plain_bayes_net
    from sfumato.secure.reference import plain_id3 as plain_id3
    from sfumato.secure.scalar import cross_counts as cross_counts
    from sfumato.secure.scalar import scalar_product as scalar_product
    from sfumato.secure.scaling import rescale as rescale
    from sfumato.secure.scaling import scale as scale
    from sfumato.secure.scaling import share_wrapping as share_wrapping
    from sfumato.secure.schema import Schema as Schema
    from sfumato.secure.schema import pool_categories as pool_categories
    from sfumato.secure.selection import argmax as argmax
    from sfumato.secure.selection import argmin as argmin
    from sfumato.secure.selection import below as below
    from sfumato.secure.selection import is_zero as is_zero
    from sfumato.secure.session import Session as Session
    from sfumato.secure.session import SessionReport as SessionReport
    from sfumato.secure.session import connect as connect
    from sfumato.secure.session import listen as listen
    from sfumato.secure.session import together as together
    from sfumato.secure.sharing import Ring as Ring
    from sfumato.secure.sharing import Shares as Shares
    from sfumato.secure.sharing import private as private
    from sfumato.secure.sharing import reveal as reveal
    from sfumato.secure.sharing import reveal_real as reveal_real
    from sfumato.secure.sharing import share as share
    from sfumato.secure.sharing import zeros as zeros
    from sfumato.secure.transport import TLS as TLS
    from sfumato.secure.tree import DecisionTree as DecisionTree

_HOME = {
    "BayesNet": "bayes",
    "DecisionTree": "tree",
    "HeldCells": "counting",
    "HeldRows": "counting",
    "KeyPaths": "keys",
    "Ring": "sharing",
    "Schema": "schema",
    "Session": "session",
    "SessionReport": "session",
    "Shares": "sharing",
    "TLS": "transport",
    "argmax": "selection",
    "argmin": "selection",
    "bayes_net": "bayes",
    "below": "selection",
    "connect": "session",
    "cross_counts": "scalar",
    "id3": "growing",
    "is_zero": "selection",
    "listen": "session",
    "log": "logarithm",
    "log2_quick": "quicklog",
    "log_error": "logarithm",
    "make_keys": "keys",
    "multiply": "arithmetic",
    "plain_bayes_net": "reference",
    "plain_id3": "reference",
    "pool_categories": "schema",
    "private": "sharing",
    "rescale": "scaling",
    "reveal": "sharing",
    "reveal_real": "sharing",
    "scalar_product": "scalar",
    "scale": "scaling",
    "share": "sharing",
    "share_wrapping": "scaling",
    "together": "session",
    "warm_up": "engine",
    "x_log_x": "logarithm",
    "zeros": "sharing",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
