"""Who takes part in an exact fit: cards with names, keys and parameters, signed and compared.

Every party writes a card; the coordinator passes all of them on as the roster. A card names its
party, its public key of the masks, and a digest of everything that all must agree on. It is signed
with the certificate that the party handed to all others, so the coordinator cannot change it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Protocol

from sfumato.errors import PeerError

__all__ = ["Trust", "canonical", "checked_keys", "make_card", "printable", "read_json"]

Card = dict[str, Any]


class Trust(Protocol):
    """How public keys are vouched for; see `sfumato.joint.links.Certificates`."""

    @property
    def others(self) -> Mapping[str, Any]: ...
    def sign(self, message: bytes) -> bytes: ...
    def verify(self, name: str, message: bytes, signature: bytes) -> bool: ...


def make_card(name: str, public: bytes, parameters: Mapping[str, Any], trust: Trust | None) -> Card:
    """A party's card, signed.

    Examples
    --------
    >>> card = make_card("A", bytes(32), {"model": "cox"}, None)
    >>> card["card"]["name"], len(card["card"]["parameters"]["model"])
    ('A', 64)
    """
    digests = {k: hashlib.sha256(canonical(v)).hexdigest() for k, v in sorted(parameters.items())}
    card = {"name": name, "public": public.hex(), "parameters": digests}
    signature = trust.sign(canonical(card)) if trust else b""
    return {"card": card, "signature": signature.hex()}


def checked_keys(cards: Sequence[Any], mine: Card, trust: Trust | None) -> dict[str, bytes]:
    """Everybody's public key by name, if all cards agree with mine and are signed."""
    if mine not in cards:
        _refuse("the coordinator does not pass on this party's own key")
    wanted = mine["card"]["parameters"]
    publics: dict[str, bytes] = {}
    for entry in cards:
        try:
            card = entry["card"]
            name, theirs = str(card["name"]), dict(card["parameters"])
            public = bytes.fromhex(card["public"])
            signature = bytes.fromhex(entry["signature"])
        except (KeyError, TypeError, ValueError):
            _refuse("a party's card cannot be read")
        shown = printable(name)
        if name in publics:
            _refuse(f"two parties call themselves `{shown}`")
        different = [k for k in sorted({*wanted, *theirs}) if wanted.get(k) != theirs.get(k)]
        if different:
            _refuse(f"`{shown}` runs with other parameters: {printable(', '.join(different))}")
        if trust and not trust.verify(name, canonical(card), signature):
            _refuse(f"the key of `{shown}` is not signed by its certificate")
        publics[name] = public
    if trust and set(publics) != {mine["card"]["name"], *trust.others}:
        _refuse("the coordinator's roster is not the parties agreed on")
    return publics


def read_json(data: bytes | bytearray, kind: type, what: str) -> Any:
    """A JSON value of this kind, or an error that names what was expected."""
    try:
        value = json.loads(bytes(data))
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, kind):
        raise PeerError(f"a party sent {what} that cannot be read", remedy="Run one version.")
    return value


def canonical(value: Any) -> bytes:
    """The one way to write a JSON value, for digests and signatures."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def printable(text: str) -> str:
    """What another party wrote, fit to be shown.

    Examples
    --------
    >>> printable("B\\x1b[2J")
    'B[2J'
    """
    return "".join(letter for letter in text if letter.isprintable())[:200]


def _refuse(what: str) -> NoReturn:
    raise PeerError(
        what, where="step `roster`", remedy="Agree on the settings, then start all again."
    )
