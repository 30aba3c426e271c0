"""Addresses of databases: with their passwords to connect, without them wherever they are shown.

A password may hold any character, also those that end it in an address (``@ / ? #``) and that its
owner forgot to write as ``%40 %2F %3F %23``. So nothing is shown that could be part of one: of the
credentials only the name before the first colon, and parameters only if all are harmless.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

__all__ = ["Address", "shown"]

_HARMLESS = frozenset({"host", "hostaddr", "port", "sslmode", "connect_timeout"})
_SCHEME = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]*)://")
_MISTYPED = re.compile(
    r"(?i)://|\w:[^/\\\s]*@|\bpass(word|wd)?\s*=|^\W*(postgres|mysql|mariadb)\w*:?/"
)
_UNSHOWN = "(an address that cannot be read; it is not shown, since it may hold a password)"


@dataclass(frozen=True, repr=False)
class Address:
    """An address such as ``postgresql://ada:secret@server/clinic#public.people``.

    Printed, formatted or written as JSON it shows no secret; `text` is what was given.

    Examples
    --------
    >>> print(Address("postgresql://ada:s3/c@r#t@db.example/census?sslmode=require#people"))
    postgresql://ada@db.example/census?sslmode=require#people
    >>> Address("mysql://db.example/census?PASSWORD=secret").shown
    'mysql://db.example/census'

    What was to be an address, and is not written as one, is not shown at all:

    >>> print(Address("'postgresql:/ada:secret@db.example/census'"))
    (an address that cannot be read; it is not shown, since it may hold a password)
    """

    text: str

    @property
    def shown(self) -> str:
        """The address without anything that could be part of a secret."""
        found = _SCHEME.match(self.text)
        if found is None:
            return _UNSHOWN if _MISTYPED.search(self.text) else self.text
        rest = self.text[found.end() :]
        before, at, place = rest.rpartition("@")
        name = re.split(r"[:/?#@]", rest, maxsplit=1)[0]
        if "?" in before:  # a password with a question mark, or a parameter with an at sign
            table = rest.rpartition("#")[2] if "#" in place else ""
            return f"{found[1]}://{name}" + (f"#{table}" if table else "")
        place = _without_parameters(place)
        if at:
            place = f"{name}@{place}" if name else place
        elif ":" in place:
            place = _without_port(place)
        return f"{found[1]}://{place}"

    def __str__(self) -> str:
        return self.shown

    def __repr__(self) -> str:
        return f"<Address {self.shown}>"


def _without_parameters(place: str) -> str:
    """Host, database and table; parameters stay only if all of them say where and how."""
    base, question, rest = place.partition("?")
    if not question or "#" in base:
        return place
    parameters, sign, table = rest.rpartition("#") if "#" in rest else (rest, "", "")
    names = [one.partition("=")[0] for one in parameters.split("&")]
    kept = question + parameters if _HARMLESS.issuperset(names) else ""
    return base + kept + sign + table


def _without_port(place: str) -> str:
    """The same without what stands for a port and is none: it may be half a password."""
    host, _, rest = place.partition(":")
    if re.match(r"\d*(?=[/?#]|$)", rest) or place.startswith("["):
        return place
    return host


def shown(place: str | os.PathLike[str]) -> str:
    """A path as it is, an address without its secrets.

    Examples
    --------
    >>> shown("people.csv"), shown("postgresql://ada:secret@server/clinic#people")
    ('people.csv', 'postgresql://ada@server/clinic#people')
    """
    return Address(os.fspath(place)).shown
