"""What cells look like: e-mail addresses, phone numbers, codes of diseases, free text.

Only the share of cells that fit a form is looked at; no cell ever leaves this module.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.quasi.wording import Role

__all__ = ["Form", "form_of", "is_free_text"]

MOST = 0.8
"""Share of the cells looked at that must fit."""
FEWEST = 3
"""Different cells below which a form means nothing."""


@dataclass(frozen=True)
class Form:
    """A form that cells can have, and the role of a column of such cells."""

    role: Role
    what: str
    fits: Callable[[str], bool]


def _matches(pattern: str, flags: int = 0) -> Callable[[str], bool]:
    compiled = re.compile(pattern, flags)
    return lambda cell: compiled.fullmatch(cell) is not None


def _is_phone(cell: str) -> bool:
    digits = sum(letter.isdigit() for letter in cell)
    return (
        8 <= digits <= 15
        and re.fullmatch(r"\+?[\d\s()./-]+", cell) is not None
        and (cell.startswith(("+", "(", "00")) or len(re.findall(r"[\s()./-]+", cell)) >= 2)
        and re.fullmatch(r"\d{4}-\d\d-\d\d.*|\d\d?[./]\d\d?[./]\d{4}.*", cell) is None
    )


def _is_card(cell: str) -> bool:
    """Thirteen to nineteen digits with the check digit of payment cards (Luhn)."""
    digits = re.sub(r"[ -]", "", cell)
    if re.fullmatch(r"[3-6]\d{12,18}", digits) is None:
        return False
    doubled = [2 * int(d) if at % 2 else int(d) for at, d in enumerate(reversed(digits))]
    return sum(d - 9 if d > 9 else d for d in doubled) % 10 == 0


def _is_iban(cell: str) -> bool:
    plain = cell.replace(" ", "").upper()
    if re.fullmatch(r"[A-Z]{2}\d{2}[A-Z0-9]{10,30}", plain) is None:
        return False
    return int("".join(str(int(c, 36)) for c in plain[4:] + plain[:4])) % 97 == 1


_SEXES = frozenset(
    {
        *("m", "f", "w", "d", "x", "u", "unknown", "other", "male", "female", "man", "woman"),
        *("men", "women", "mann", "frau", "männlich", "weiblich", "divers", "hombre", "mujer"),
        *("masculino", "femenino", "feminino", "homme", "femme", "masculin", "féminin"),
        *("maschio", "femmina", "uomo", "donna", "vrouw", "mand", "kvinde", "kvinne"),
    }
)
_POSTAL_CODES = (
    r"\d{5}(-\d{4})?"  # United States, Germany, France, Spain, Italy …
    r"|[A-Z]{1,2}\d[A-Z0-9]? ?\d[A-Z]{2}"  # United Kingdom
    r"|[A-Z]\d[A-Z] ?\d[A-Z]\d"  # Canada
    r"|\d{4} ?[A-Z]{2}"  # Netherlands
)
_DATES = (
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([ T][\d:.]+(Z|[+-]\d\d:?\d\d)?)?"
    r"|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}"
)

FORMS = (
    Form("identifier", "e-mail addresses", _matches(r"[^@\s]+@[^@\s]+\.[A-Za-z]{2,}")),
    Form("identifier", "web addresses", _matches(r"(https?://|www\.)\S+", re.IGNORECASE)),
    Form(
        "identifier",
        "internet addresses",
        _matches(r"(\d{1,3}\.){3}\d{1,3}|([0-9a-f]{0,4}:){3,7}[0-9a-f]{0,4}", re.IGNORECASE),
    ),
    Form(
        "identifier",
        "universal identifiers (UUID)",
        _matches(r"\{?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\}?", re.IGNORECASE),
    ),
    Form("identifier", "social security numbers", _matches(r"\d{3}[- ]\d{2}[- ]\d{4}")),
    Form("identifier", "bank accounts (IBAN)", _is_iban),
    Form("identifier", "payment cards", _is_card),
    Form("identifier", "phone numbers", _is_phone),
    Form(
        "sensitive",
        "codes of diseases (ICD-10)",
        _matches(r"[A-TV-Z]\d[0-9A-Z]\.[0-9A-Z]{1,4}"),
    ),
    Form("quasi-identifier", "sexes", lambda cell: cell.strip().lower() in _SEXES),
    Form("quasi-identifier", "postal codes", _matches(_POSTAL_CODES)),
    Form("quasi-identifier", "dates", _matches(_DATES)),
)


def form_of(cells: Sequence[Any]) -> Form | None:
    """The form that most of these different cells of a text column have, if any.

    Examples
    --------
    >>> form_of(["ada@example.org", "bob@example.org", "eve@example.org"]).what
    'e-mail addresses'
    >>> form_of(["red", "green", "blue"]) is None
    True
    """
    texts = [cell for cell in cells if isinstance(cell, str) and cell]
    for form in FORMS:
        enough = 1 if form.what == "sexes" else FEWEST
        if len(texts) >= enough and sum(map(form.fits, texts)) >= MOST * len(texts):
            return form
    return None


def is_free_text(cells: Sequence[Any]) -> bool:
    """Whether these cells are written sentences rather than names of things.

    Examples
    --------
    >>> is_free_text(["Came in at night with a fever, sent home.", "Fell from a ladder in March."])
    True
    >>> is_free_text(["Some-college", "Bachelors"])
    False
    """
    texts = [cell for cell in cells if isinstance(cell, str)]
    if not texts:
        return False
    lengths = sorted(len(text) for text in texts)
    words = sum(len(text.split()) for text in texts) / len(texts)
    return lengths[len(lengths) // 2] >= 25 and words >= 4.5
