"""Errors in the words of pages: what to do about one is something that a page lets one do.

Errors name parameters; here each is called what its field is called, and where that is. Of a remedy
only what pages offer is said: options of the command line, of which they know nothing, are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sfumato.errors import MissingExtraError, SfumatoError, spelling
from sfumato.report.page import quoted
from sfumato.web.choices import DEMANDS
from sfumato.wording import sentence

__all__ = ["in_page_words", "linked", "told"]

_READ = "under “how the file is read”"
_KNOWS = "under Risk (who knows what)"
_CONTROLS = {
    "qi": "“Others may know” under Configure",
    "sensitive": "“Worth hiding” under Configure",
    "identifiers": "“Leave out” under Configure",
    "pseudonyms": "“pseudonym” beside a column that is left out, under Configure",
    "columns": "“pseudonym” beside a column that is left out, under Configure",
    "key_file": "a key under “The key of pseudonyms”, under Configure",
    "hierarchies": "the tree of a column, under Configure",
    "boundaries": "limits in the tree of a column, under Configure",
    "weights": "“matters” beside a column, under Configure",
    "person": "“counted in” under Risk",
    "rows_are_people": "tick “publish columns that seem to name persons” under Risk",
    "sets": f"“Several sets of columns” {_KNOWS}",
    "k_map": f"“People a row matches, at least” {_KNOWS}",
    "population": f"“of the table” {_KNOWS}",
    "target": f"“Keep predictable” {_KNOWS}",
    "suppression_limit": "“Rows that may be left out, %” under Utility",
    "levels": "levels in the lattice under Utility",
    "exclude": f"“Leave unread” {_READ}",
    "unparsed": f"“Cells that do not parse” {_READ}",
    "null_values": f"“Missing cells say” {_READ}",
    "header": f"“The first line names the columns” {_READ}",
    "delimiter": f"“Delimiter” {_READ}",
    "keep": "“Keep as they are”",
    "drop": "“Leave out in any case”",
    "must_drop": "“Leave out” under Configure",
    "must_publish": "“Must be published”",
    "max_size": "“Columns together, at most”",
    "universe": "“People in the population”",
    "on": "“Joined by”",
    "row_key": "“Rows are paired”",
    "pair": "“Lay side by side”",
}
"""Where pages ask for a parameter."""
_FIGURES = ("k", "l", "t", "p", "alpha", "beta", "c")
"""Called the same everywhere."""
_NOT_HERE = "\0"
"""Stands for what no page lets one set."""
_PLACES = {
    "under Configure": "configure",
    "under Risk (who knows what)": "knowledge",
    "under Risk": "risk",
    "under Utility": "utility",
    "under Release": "release",
    "under “how the file is read”": "import",
}
OTHERWISE = "Choose other columns under Configure, or another method under Utility."
"""What pages offer where nothing of a remedy is left."""


@contextmanager
def in_page_words() -> Iterator[None]:
    """Errors name what a page lets one set as the page does."""
    before = spelling.set(_on_the_page)
    try:
        yield
    finally:
        spelling.reset(before)


def _on_the_page(name: str, value: Any) -> str:
    if name == "exclude" and list(value) == [""]:
        return f"“Leave out a column without a name” {_READ}"
    if name in _CONTROLS:
        return _CONTROLS[name]
    if name == "parse" and isinstance(value, Mapping):
        kinds = ", ".join(f"{column} as {kind}" for column, kind in value.items())
        return f"“read it as” {_READ}: {kinds}"
    if name == "encoding":
        return f"{name} {value} {_READ}"
    if name == "method":
        return f"the method {value} under Utility"
    if name in _FIGURES:
        return f"{name} = {value}"
    if name in DEMANDS:
        return f"“{DEMANDS[name].field.label}” under Risk"
    return f"{_NOT_HERE}{name}"


def told(error: Exception) -> str:
    """What a page says of a problem, as a sentence; a file that it begins with keeps its name.

    Examples
    --------
    >>> told(SfumatoError("no column is picked")), told(SfumatoError("is empty", where="a.csv"))
    ('No column is picked.', 'a.csv: is empty')
    >>> from sfumato.errors import spell
    >>> with in_page_words():
    ...     told(SfumatoError("it is late", remedy=f"Wait ({spell('time', '1h')}), or go home."))
    'It is late. Go home.'
    """
    if not isinstance(error, SfumatoError):
        # What went wrong may quote cells: the page is told only the kind of it.
        return f"An unexpected problem ({type(error).__name__})."
    if not isinstance(error, MissingExtraError):  # what is to be installed is, by a command
        remedy = _offered(error.remedy)
        error = SfumatoError(error.what, where=error.where, remedy=remedy)
    inside = error.where is None or error.where.startswith(("column ", "line "))
    return sentence(str(error)) if inside else str(error)


def _offered(remedy: str | None) -> str | None:
    """Of a remedy what pages offer."""
    if remedy is None:
        return None
    said = []
    for one in re.split(r"(?<=[.?]) (?=[A-Z“])", remedy):
        parts = re.split(r",? or |; ", one.rstrip("."))
        here = [
            part
            for part in parts
            if _NOT_HERE not in part and not re.search(r"`sfumato (?!serve)", part)
        ]
        if len(here) == len(parts):
            said.append(one)
        elif here:
            said.append(sentence(", or ".join(here)))
    return " ".join(said) or OTHERWISE


def linked(said: str, number: str) -> Any:
    """What is said of a problem as HTML, with links to the places of a table's pages it names."""
    from markupsafe import Markup

    def link(found: re.Match[str]) -> str:
        return f'<a href="/p/{number}/{_PLACES[found[0]]}">{found[0]}</a>'

    return Markup(re.sub("|".join(map(re.escape, _PLACES)), link, quoted(said)))
