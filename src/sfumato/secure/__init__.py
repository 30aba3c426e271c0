"""Two parties compute together without showing each other their data.

Alice and Bob each run the same program and call the same functions in the same order; what passes
between modules are *shares* (two random-looking numbers whose sum is the value), never the values.
Security holds against a party that follows the protocol and looks at everything it receives
(semi-honest); `docs/secure.md` says plainly what that leaves out.

With tables: `id3`, `bayes_net` and `log_of_sums` bring a table, meet the other party and compute.
With shares: everything else. Only `party` knows tables; all other modules work on arrays.

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
    # fmt: off
    # isort: off
    from sfumato.secure.arithmetic import (
        argmax as argmax, argmin as argmin, below as below, is_zero as is_zero,
        multiply as multiply, rescale as rescale, scale as scale, share_wrapping as share_wrapping,
    )
    from sfumato.secure.bayes import BayesNet as BayesNet, search_net as search_net
    from sfumato.secure.counting import (
        HeldCells as HeldCells, HeldRows as HeldRows, Schema as Schema,
        cross_counts as cross_counts, pool_categories as pool_categories,
        scalar_product as scalar_product,
    )
    from sfumato.secure.decision_tree import DecisionTree as DecisionTree, grow_tree as grow_tree
    from sfumato.secure.logarithm import (
        log as log, log2_quick as log2_quick, log_error as log_error, x_log_x as x_log_x,
    )
    from sfumato.secure.party import (
        Logarithms as Logarithms, Meeting as Meeting, Outcome as Outcome,
        ToldCategories as ToldCategories, bayes_net as bayes_net, id3 as id3,
        log_of_sums as log_of_sums, read_schema as read_schema, told_categories as told_categories,
        warm_up as warm_up,
    )
    from sfumato.secure.session import (
        Session as Session, SessionReport as SessionReport, connect as connect, listen as listen,
        together as together,
    )
    from sfumato.secure.shares import (
        Ring as Ring, Shares as Shares, private as private, reveal as reveal,
        reveal_real as reveal_real, share as share, zeros as zeros,
    )
    from sfumato.secure.tls import KeyPaths as KeyPaths, TLS as TLS, make_keys as make_keys
    # isort: on
    # fmt: on

_NAMES = {
    "arithmetic": "argmax argmin below is_zero multiply rescale scale share_wrapping",
    "bayes": "BayesNet search_net",
    "counting": "HeldCells HeldRows Schema cross_counts pool_categories scalar_product",
    "decision_tree": "DecisionTree grow_tree",
    "logarithm": "log log2_quick log_error x_log_x",
    "party": "Logarithms Meeting Outcome ToldCategories bayes_net id3 log_of_sums read_schema "
    "told_categories warm_up",
    "session": "Session SessionReport connect listen together",
    "shares": "Ring Shares private reveal reveal_real share zeros",
    "tls": "KeyPaths TLS make_keys",
}
_MODULE = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_MODULE)


def __getattr__(name: str) -> Any:
    if name in _MODULE:
        return getattr(import_module(f"{__name__}.{_MODULE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULE])
