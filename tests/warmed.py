"""Loads the compiled loops of two parties: processes that are forked afterwards have them."""

from __future__ import annotations

from sfumato.secure.party import warm_up

warm_up()
