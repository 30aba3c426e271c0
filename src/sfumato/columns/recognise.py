"""What a column is about: guessed from its name, and from the form of its cells.

Only the share of cells that fit a form (e-mail addresses, phone numbers, codes of diseases, free
text) is looked at; no cell ever leaves this module.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.columns.vocabulary import Role, meaning_of
from sfumato.engines.protocol import Kind

__all__ = [
    "ColumnFacts",
    "Form",
    "Guess",
    "form_of",
    "guess_role",
    "is_free_text",
]


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


NEARLY = 0.9
"""Share of its filled cells that must stand alone for a column to be nearly a key."""
FEW = 12
"""A column with so few values points at nobody, whatever its name."""
GROUPS = 0.2
"""Below this distinct ratio the numbers of a column belong to groups, not to people."""


@dataclass(frozen=True)
class ColumnFacts:
    """What is known of one column: exact counts over all rows."""

    name: str
    kind: Kind
    rows: int
    nulls: int
    classes: int
    unique_rows: int

    @property
    def is_constant(self) -> bool:
        """Whether all rows agree."""
        return self.classes <= 1

    @property
    def is_key(self) -> bool:
        """Whether no two rows agree."""
        return self.rows > 1 and self.classes == self.rows

    @property
    def is_nearly_key(self) -> bool:
        """Whether most of the rows that have a value are the only ones with it."""
        filled = self.rows - self.nulls
        return not self.is_key and filled > FEW and self.unique_rows >= NEARLY * filled


@dataclass(frozen=True)
class Guess:
    """A role and the reason for it."""

    role: Role
    why: str


def guess_role(facts: ColumnFacts, cells: Sequence[Any]) -> Guess:
    """Guess the role of a column.

    Parameters
    ----------
    facts
        Exact counts of the column.
    cells
        Some of its different values; they are looked at and not kept.

    Examples
    --------
    >>> age = ColumnFacts("age", "integer", rows=100, nulls=0, classes=60, unique_rows=30)
    >>> guess_role(age, [30, 41])
    Guess(role='quasi-identifier', why='named like birth or age')
    """
    if facts.is_constant:
        return Guess("other", "empty" if facts.nulls == facts.rows else "the same in every row")
    return _by_name(facts) or _by_cells(facts, cells) or _by_counts(facts)


def _by_name(facts: ColumnFacts) -> Guess | None:
    meaning = meaning_of(facts.name)
    if meaning is None:
        return None
    if meaning.role == "identifier":
        if facts.classes <= FEW < facts.rows:
            return Guess("quasi-identifier", f"like {meaning.what}, but few values")
        shared = facts.classes < GROUPS * facts.rows
        if shared and meaning.what == "a person's number":
            return Guess("quasi-identifier", "a number shared by many rows")
    return Guess(meaning.role, f"named like {meaning.what}")


def _by_cells(facts: ColumnFacts, cells: Sequence[Any]) -> Guess | None:
    if facts.kind != "text":
        return None
    form = form_of(cells)
    if form is not None:
        return Guess(form.role, f"cells look like {form.what}")
    if is_free_text(cells) and facts.classes > FEW:
        return Guess("identifier", "free text: may say anything")
    return None


def _by_counts(facts: ColumnFacts) -> Guess:
    if facts.kind == "binary":
        return Guess("other", "binary data")
    if facts.kind in ("float", "decimal") and facts.classes > 0.1 * (facts.rows - facts.nulls):
        return Guess("other", "a measured number")
    if facts.kind in ("date", "timestamp"):
        return Guess("quasi-identifier", "dates: others may know them")
    if facts.is_key:
        return Guess("identifier", "different in every row")
    if facts.is_nearly_key:
        return Guess("identifier", "different in nearly every row")
    return Guess("quasi-identifier", "nothing known of it")
