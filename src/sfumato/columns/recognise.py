"""What a column is: its role, and which of the identifiers that the law lists it holds.

One recogniser for `scan`, `safe-harbor` and all that must know who is in a table. It reads the name
(words of several languages, abbreviations of large surveys), the cells (their form, the words in
them, how numbers are spread) and the other columns (flags about them, series of them, columns that
say the same). Every answer carries a reason and a confidence. No cell ever leaves this module.

HIPAA's Safe Harbor, 45 C.F.R. §164.514(b)(2)(i), lists eighteen kinds, (A) to (R). There is no list
of people's names, which would take `race` for a column of last names because people are called
White: names are known by their column, or by looking like names and hardly ever repeating.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from sfumato.columns.codebooks import CODEBOOKS, Codebook
from sfumato.columns.content import (
    FEW,
    MOST,
    ColumnFacts,
    Forms,
    Found,
    dates_inside,
    inside_of,
    is_free_text,
    looks_like_ages,
    looks_like_amounts,
    looks_like_birth_years,
    looks_like_body_weights,
    looks_like_names,
    looks_numbered,
    meaning_of,
    share,
    words_in,
    words_of,
)
from sfumato.columns.profile import Profile, cells_of, classes_together, equivalents
from sfumato.columns.vocabulary import WEIGHT, Meaning, Role
from sfumato.results import Result

KINDS = {
    "A": "names",
    "B": "geography below a state",
    "C": "dates and ages",
    "D": "telephone numbers",
    "E": "fax numbers",
    "F": "e-mail addresses",
    "G": "social security numbers",
    "H": "medical record numbers",
    "I": "health plan numbers",
    "J": "account numbers",
    "K": "certificate and licence numbers",
    "L": "vehicle identifiers",
    "M": "device identifiers",
    "N": "web addresses",
    "O": "internet protocol addresses",
    "P": "biometric identifiers",
    "Q": "photographs",
    "R": "other unique numbers or codes",
}
"""The eighteen kinds, lettered as in the law."""

SURE = 0.5
"""Confidence from which on a role is more than a guess."""
GROUPS = 0.2
"""Below this share of different values the numbers of a column belong to groups, not to people."""


@dataclass(frozen=True)
class Recognised(Result):
    """What a column is.

    Attributes
    ----------
    role, confidence, why
        The role, how sure that is (0 to 1), and the reason in words that quote no cell.
    what
        What the column is about (``an age``, ``money``, ``a person's number``), if that is known.
    kind
        A letter of `KINDS`, if the law lists it.
    form
        How the law lets the values stay: ``zip``, ``date``, ``birth date``, ``birth year``,
        ``age``; None where only dropping helps.
    unsure
        Whether a person must look before this is published under Safe Harbor.
    """

    role: Role
    confidence: float
    why: str
    what: str | None = None
    kind: str | None = None
    form: str | None = None
    unsure: bool = False


@dataclass(frozen=True)
class Neighbours:
    """What the names of all columns of a table say about each of them."""

    names: frozenset[str] = frozenset()
    books: tuple[Codebook, ...] = ()
    prefix: str = ""
    """Letters that all names begin with."""

    @classmethod
    def of(cls, names: Sequence[str]) -> Neighbours:
        """Of a table's columns.

        Examples
        --------
        >>> Neighbours.of(["iage", "isex", "irace", "istate", "ihispanic"]).prefix
        'i'
        >>> [book.title for book in Neighbours.of(["SERIALNO", "AGEP", "SEX", "HINCP"]).books]
        ['ACS']
        """
        first, last = (min(names), max(names)) if names else ("", "")
        same = 0
        while same < min(len(first), len(last)) and first[same] == last[same]:
            same += 1
        longest = min(map(len, names), default=0)
        prefix = first[:same] if len(names) > 4 and same < longest else ""
        plain = {name.lower() for name in names}
        books = [b for b in CODEBOOKS if len(plain.intersection(b.telling.split())) >= b.needed]
        return cls(frozenset(names), tuple(books), prefix)

    @cached_property
    def lowered(self) -> frozenset[str]:
        """The names in small letters."""
        return frozenset(name.lower() for name in self.names)

    def flagged(self, name: str) -> str | None:
        """The column that another one is a flag about, by their names."""
        for pattern in _FLAGS:
            found = re.fullmatch(pattern, name, re.IGNORECASE)
            if found is not None and found[1] in self.names and found[1] != name:
                return found[1]
        return None


_FLAGS = (
    r"(.+)[_.](?:f|i|if|q|flag|flg|imp|imputed|imputation|allocated|alloc|edited|qc|quality"
    r"|source)",
    r"(?:f|i|q|imp|flag|imputed|edited|allocated)[_.](.+)",
    r"(?:f|q)(.+?)p?",
    r"(.+?)(?:flag|imputed)",
)


def recognise_columns(look: Profile) -> dict[str, Recognised]:
    """What the columns of a table are, each of them seen beside the others.

    Examples
    --------
    >>> import pyarrow as pa, sfumato as sf
    >>> from sfumato.budget import Budget
    >>> from sfumato.columns.profile import profile
    >>> people = sf.table(pa.table({"AGEP": [34, 51], "dx": ["E11.9", "I10.0"]}))
    >>> found = recognise_columns(profile(people, seed=0, budget=Budget()))
    >>> found["AGEP"].role, found["AGEP"].kind, found["AGEP"].form
    ('quasi-identifier', 'C', 'age')
    """
    beside = Neighbours.of([facts.name for facts in look.facts])
    found = {
        facts.name: recognise(facts, cells_of(look, facts.name), beside) for facts in look.facts
    }
    _read_series(look, found)
    _read_twins(look, found)
    _read_health(look, found)
    return found


def recognise(facts: ColumnFacts, cells: pa.Array, beside: Neighbours | None = None) -> Recognised:
    """What a column is, by its name, counts and cells.

    Parameters
    ----------
    facts
        Name, type and exact counts.
    cells
        Some of its different values; they are looked at and not kept.
    beside
        What the other columns' names say.

    Examples
    --------
    >>> import pyarrow as pa
    >>> age = ColumnFacts("age", "integer", rows=100, nulls=0, classes=60, unique_rows=30)
    >>> recognise(age, pa.array([30, 41])).why
    'named like an age'
    >>> mail = ColumnFacts("reach", "text", rows=3, nulls=0, classes=3, unique_rows=3)
    >>> recognise(mail, pa.array(["a@example.org", "b@example.org", "c@example.org"])).kind
    'F'
    """
    beside = beside or Neighbours()
    column = _Column(facts, cells, beside)
    found = (
        column.by_form()
        or column.by_dates()
        or column.by_flag()
        or column.by_name()
        or column.by_words()
        or column.by_spread()
    )
    found = column.doubted(found)
    if facts.is_constant:
        why = "empty" if facts.nulls == facts.rows else "the same in every row"
        why = why if found.kind is None else f"{why}, {found.why}"
        return replace(found, role="other", confidence=0.9, why=why)
    return found


@dataclass(frozen=True)
class _Column:
    facts: ColumnFacts
    cells: pa.Array
    beside: Neighbours

    @property
    def is_text(self) -> bool:
        return self.facts.kind == "text" and len(self.cells) > 0

    @cached_property
    def _forms(self) -> Forms:
        return Forms(self.cells)

    def by_form(self) -> Recognised | None:
        """Cells whose form says what they are, whatever the column is called."""
        if self.facts.kind == "binary":
            why = "binary content, perhaps a picture or a biometric template"
            return Recognised("identifier", 0.6, why, "binary content", "Q")
        form = self._forms.of_most() if self.is_text else None
        if form is None or form.role != "identifier":
            return None
        named = self._meaning()
        kind, confidence = form.kind, 0.95
        if named is not None and form.kind in _NUMBERS and (named[0].kind or "R") not in "ABCR":
            kind = named[0].kind  # a number is what its column calls it
        if self.facts.classes <= FEW < self.facts.rows:
            why = f"cells look like {form.what}, but there are few"
            return Recognised("quasi-identifier", 0.6, why, form.what, kind)
        return Recognised("identifier", confidence, f"cells look like {form.what}", form.what, kind)

    def by_dates(self) -> Recognised | None:
        """Dates, typed or written."""
        words = set(self._words())
        birth = bool({"birth", "born", "dob", "birthday", "birthdate", "bdate"} & words)
        meaning = self._meaning()
        birth = birth or (meaning is not None and meaning[0].form in ("birth date", "birth year"))
        form = "birth date" if birth else "date"
        if self.facts.kind in ("date", "timestamp"):
            why = "dates: others may know them"
            role: Role = "quasi-identifier"
            if meaning is not None and meaning[0].what == "a field of the file":
                role = "other"
            return Recognised(role, 0.85, why, f"a {form}", "C", form)
        if self.is_text and share(self.cells, "dates") >= 0.2:
            return Recognised(
                "quasi-identifier", 0.9, "cells look like dates", f"a {form}", "C", form
            )
        if self.is_text and share(self.cells, "parts of dates") >= MOST:
            why = "cells look like parts of dates"
            return Recognised("quasi-identifier", 0.8, why, "a part of a date", "C")
        if meaning is None and self.facts.classes >= 5:
            return self._by_day_numbers()
        return None

    def _by_day_numbers(self) -> Recognised | None:
        """Whole numbers written as days or months are."""
        if self._day_numbers():
            why = "whole numbers that look like days (yyyymmdd)"
            return Recognised("quasi-identifier", 0.7, why, "a date", "C")
        if self.facts.kind == "integer" and share(self.cells, "months as numbers") >= 0.95:
            why = "whole numbers that look like months (yyyymm)"
            return Recognised("quasi-identifier", 0.7, why, "a part of a date", "C")
        return None

    def by_flag(self) -> Recognised | None:
        """A flag about another column."""
        other = self.beside.flagged(self.facts.name)
        if other is None or self.facts.classes > FEW:
            return None
        return Recognised("other", 0.85, f"a flag about `{other}`", "a flag about another column")

    def by_name(self) -> Recognised | None:
        """By the name, as far as the values allow it."""
        named = self._meaning()
        numbered = bool(_NUMBERED & set(self._words()[-1:])) and self._mostly_different()
        if numbered and (named is None or named[0].role != "identifier"):
            why = "named like a number, and most rows have their own"
            return Recognised("identifier", 0.75, why, "a record's number", "R")
        if self._numbers_of_homes():
            why = "named like households, and has more values than one has members"
            return Recognised("identifier", 0.75, why, "a household's number", "R")
        if named is None:
            return None
        meaning, confidence, why = named
        if meaning.role == "identifier":
            return self._identifier(meaning, confidence, why)
        if meaning.what == WEIGHT:
            return self._weight()
        if meaning.what == "a date" and self._says_who_died():
            return Recognised("sensitive", 0.7, "whether somebody died", "health")
        if meaning.what == "a member of staff":
            return Recognised(meaning.role, 0.6, why, meaning.what, unsure=True)
        kind, form = self._lawful(meaning)
        return Recognised(meaning.role, confidence, why, meaning.what, kind, form)

    def _numbers_of_homes(self) -> bool:
        """Whether a column that is only called household tells households apart, not their size."""
        words = set(self._words())
        if not words or words - _HOMES or self.facts.classes <= _MOST_MEMBERS:
            return False
        return self.facts.kind == "integer" or (self.is_text and share(self.cells, "codes") >= 0.9)

    def _mostly_different(self) -> bool:
        return self.facts.classes > max(0.5 * (self.facts.rows - self.facts.nulls), FEW)

    def _says_who_died(self) -> bool:
        dated = self.facts.kind in ("text", "date", "timestamp")
        return not dated and self.facts.classes <= 3 and bool(_DEATH & set(self._words()))

    def _weight(self) -> Recognised:
        if looks_like_body_weights(self.cells):
            why = "named like a weight, and spread like those of people"
            return Recognised("quasi-identifier", 0.6, why, "looks or habits")
        return Recognised("other", 0.7, "named like a statistical weight", "a statistical weight")

    def _identifier(self, meaning: Meaning, confidence: float, why: str) -> Recognised | None:
        if meaning.what == "free text":
            return self._free_text(confidence, why)
        if (meaning.kind or "") in _WRITTEN and self.facts.kind in _NUMERIC:
            return None  # no number is an e-mail address
        rows, classes = self.facts.rows, self.facts.classes
        if meaning.what == "a name":
            confidence = 0.55  # the name of something: of what is not known
        if classes <= FEW < rows:
            kept = Recognised(
                "quasi-identifier", 0.5, f"like {meaning.what}, but few values", meaning.what
            )
            return replace(kept, kind=meaning.kind, unsure=classes <= 2)
        generic = meaning.what == "a person's number" and not _PEOPLE & set(self._words())
        if generic and classes < GROUPS * rows:
            why = "a number shared by many rows"
            return Recognised("quasi-identifier", 0.45, why, meaning.what, "R", unsure=True)
        return Recognised("identifier", confidence, why, meaning.what, meaning.kind)

    def _free_text(self, confidence: float, why: str) -> Recognised | None:
        """Notes are free text if they hardly repeat; a description of few kinds is a category."""
        if not self.is_text:
            return None
        if is_free_text(self.cells) and self.facts.classes >= GROUPS * self.facts.rows:
            return Recognised(
                "identifier", 0.9, "free text: may say anything", "free text", form="free text"
            )
        by_words = self.by_words()
        if by_words is not None:
            return by_words
        if self.facts.classes < GROUPS * self.facts.rows:
            return Recognised("other", 0.4, "a description shared by many rows", unsure=True)
        return Recognised("identifier", confidence, why, "free text", form="free text")

    def by_words(self) -> Recognised | None:
        """By the form of cells that are no identifiers, or the words in them."""
        if not self.is_text:
            return None
        form = self._forms.of_most()
        if form is not None:
            if form.what == "postal codes":
                return self._postal(f"cells look like {form.what}")
            return Recognised(form.role, 0.8, f"cells look like {form.what}", form.what, form.kind)
        about = words_in(self.cells)
        if about is not None:
            role, what = about
            law = "C" if what == "months" else None
            return Recognised(role, 0.7, f"cells speak of {what}", what, law)
        many = self.facts.classes > FEW
        if many and is_free_text(self.cells) and self.facts.classes >= GROUPS * self.facts.rows:
            return Recognised(
                "identifier", 0.85, "free text: may say anything", "free text", form="free text"
            )
        if self.facts.unique_rows >= 0.3 * self.facts.rows and looks_like_names(self.cells):
            why = "looks like names of persons and hardly repeats"
            return Recognised("identifier", 0.75, why, "a name", "A")
        return None

    def _postal(self, why: str) -> Recognised:
        digits = share(self.cells, "digits of a postal code") >= 0.5
        return Recognised(
            "quasi-identifier", 0.7, why, "a postal code", "B", "zip" if digits else None
        )

    def by_spread(self) -> Recognised:
        """By nothing but type and counts: a guess."""
        facts, cells = self.facts, self.cells
        if facts.kind == "boolean" or (facts.classes <= 2 and facts.kind != "text"):
            return Recognised("other", 0.3, "yes or no, and nothing known of it")
        if (facts.is_key or facts.is_nearly_key) and facts.kind not in ("float", "decimal"):
            return self._every_row_its_own()
        if looks_like_ages(facts, cells):
            why = "whole numbers that are spread like ages"
            return Recognised("quasi-identifier", 0.45, why, "an age", "C", "age", unsure=True)
        if looks_like_birth_years(cells):
            why = "whole numbers that are spread like birth years"
            return Recognised(
                "quasi-identifier", 0.45, why, "a birth year", "C", "birth year", unsure=True
            )
        if looks_like_amounts(facts, cells):
            return Recognised("sensitive", 0.45, "amounts, spread like money", "money")
        if self.is_text and facts.classes > FEW and share(cells, "capitalized words") >= 0.8:
            why = "capitalized words: perhaps names of people or places"
            return Recognised("quasi-identifier", 0.35, why, unsure=True)
        numeric = facts.kind in ("integer", "float", "decimal")
        if numeric and facts.classes > max(0.1 * (facts.rows - facts.nulls), 100):
            return Recognised("other", 0.4, "a measured number")
        if facts.kind in ("float", "decimal") and facts.classes > 20:
            return Recognised("other", 0.4, "a measured number")
        return Recognised("quasi-identifier", 0.3, "nothing known of it")

    def _every_row_its_own(self) -> Recognised:
        facts, cells = self.facts, self.cells
        nearly = "" if facts.is_key else "nearly "
        why = f"different in {nearly}every row"
        if facts.kind == "text":
            if share(cells, "amounts") >= 0.6:
                return Recognised("sensitive", 0.4, "amounts as text, as money has them", "money")
            coded = len(cells) >= 30 and share(cells, "codes") >= 0.9
            if coded:
                return Recognised("identifier", 0.8, why, "a code", "R")
            return Recognised("identifier", 0.55, why, kind=None, unsure=True)
        if facts.kind == "integer" and len(cells) and not looks_numbered(cells):
            if looks_like_amounts(facts, cells):
                return Recognised("sensitive", 0.45, "amounts, spread like money", "money")
            return Recognised("other", 0.4, f"a measured number, {why}")
        unsure = len(cells) >= 30 or not len(cells)
        return Recognised("identifier", 0.7, why, "a number", None, unsure=unsure)

    def doubted(self, found: Recognised) -> Recognised:
        """The same with what must make a person look before Safe Harbor lets it pass."""
        if found.kind is not None or not self.is_text or found.form is not None:
            return found
        inside = dates_inside(self.cells)
        if inside >= 0.5:
            why = f"{found.why}; dates stand inside the cells"
            return replace(found, kind="C", why=why, unsure=False)
        if found.unsure:
            return found
        few: Found | None = self._forms.of_few()
        if few is not None:
            return replace(found, unsure=True, why=f"{found.why}; some cells look like {few.what}")
        if inside > 0:
            return replace(found, unsure=True, why=f"{found.why}; dates stand inside some cells")
        return found

    def _words(self) -> tuple[str, ...]:
        return words_of(self.facts.name)

    def _meaning(self) -> tuple[Meaning, float, str] | None:
        """What the name says, how surely, and the reason."""
        name = self.facts.name
        for book in self.beside.books:
            looked_up = book.look_up(name, self.facts.classes)
            if looked_up is not None:
                return looked_up, 0.9, f"{looked_up.what} ({book.title})"
        if name.lower() in _LONG <= self.beside.lowered:
            return Meaning("quasi-identifier", "a small area", kind="B"), 0.85, "named like a place"
        if name.lower() in _HALVES <= self.beside.lowered:
            return Meaning("identifier", "names", kind="A"), 0.8, "named like half of a name"
        stripped = name.removeprefix(self.beside.prefix)
        words = set(self._words())
        if words & {"name", "names"} and words <= _OF_PERSONS:
            return Meaning("identifier", "names", kind="A"), 0.85, "named like names"
        for spelled in (name, stripped):
            part = _part_of_date(words_of(spelled))
            if part is not None:
                return part, 0.8, f"named like {part.what}"
            meaning = meaning_of(spelled)
            if meaning is not None:
                return meaning, 0.85, f"named like {meaning.what}"
        meaning = inside_of(name)
        return None if meaning is None else (meaning, 0.6, f"named like {meaning.what}")

    def _lawful(self, meaning: Meaning) -> tuple[str | None, str | None]:
        """The kind and the form that the law knows, as far as the values can have them."""
        kind, form = meaning.kind, meaning.form
        if self.facts.kind in ("boolean", "null"):
            return None, None
        if form == "zip":
            digits = share(self.cells, "digits of a postal code") >= 0.5
            return kind, "zip" if digits else None
        if form == "birth date" and self.facts.kind in ("integer", "float"):
            return kind, "birth year" if self._years() else None
        if form == "birth date":
            return kind, None
        if form == "birth year" and self.facts.kind not in ("integer", "float"):
            return kind, "date" if self._years() else None
        if meaning.what == "a date":
            written = self.facts.kind == "text" and _DATED & set(self._words())
            return ("C", None) if written or self._day_numbers() else (None, None)
        return kind, form

    def _years(self) -> bool:
        return share(self.cells, "years") >= 0.8

    def _day_numbers(self) -> bool:
        return self.facts.kind == "integer" and share(self.cells, "days as numbers") >= 0.8


_DEATH = {"death", "died", "dead", "deceased"}
_NUMBERS = ("D", "G", "J", "R")
_HALVES = {"first", "last"}
_NUMERIC = ("integer", "float", "decimal")
_WRITTEN = ("A", "F", "N", "O")
"""Kinds that are never numbers."""
_LONG = {"lat", "long"}
_HOMES = {"household", "hh", "family", "dwelling", "home"}
_MOST_MEMBERS = 30
"""Sizes of households up to which a column may hold them."""
_NUMBERED = {"id", "ids", "number", "no", "nr", "num", "key", "reference", "uid"}
_DATED = {"date", "datum", "fecha", "datetime", "timestamp", "dt"}
_PEOPLE = {"patient", "person", "customer", "client", "employee", "member", "subject", "student",
           "respondent", "participant", "household", "family", "user", "passenger", "hh", "case",
           "pat", "hid", "hhid", "caseid", "hhnum", "serialno", "seqn", "pid"}  # fmt: skip
_PERSONAL = ("D", "E", "F", "G", "H")
"""Kinds of which few values are persons as well: telephones, e-mail, insured and patients."""
_OF_PERSONS = {*_PEOPLE, "name", "names", "namen", "mother", "father", "spouse", "child",
               "guardian", "relative", "contact", "employer", "insured", "full", "first", "last",
               "middle", "given", "maiden", "nick", "legal", "emergency", "next", "kin", "of",
               "the", "s",
               "alias", "preferred"}  # fmt: skip
_EVENTS = {"birth", "admission", "admit", "discharge", "death", "visit", "service", "procedure",
           "encounter", "dob", "dod", "appointment", "surgery", "onset", "diagnosis"}  # fmt: skip
_PARTS = {"month", "mon", "day", "weekday", "week", "quarter", "dow"}


def named_after_people(name: str) -> bool:
    """Whether a name leaves no doubt that a column names persons, however few they are.

    Examples
    --------
    >>> [named_after_people(name) for name in ("patient_id", "Surname", "id", "name", "ward")]
    [True, True, False, False, False]
    """
    meaning = meaning_of(name)
    if meaning is None or meaning.role != "identifier":
        return False
    numbered = meaning.kind == "R" and bool(_PEOPLE & set(words_of(name)))
    return meaning.kind in _PERSONAL or meaning.what == "names" or numbered


def _part_of_date(words: Sequence[str]) -> Meaning | None:
    if _PARTS & set(words) and _EVENTS & set(words):
        return Meaning("quasi-identifier", "a part of a date", kind="C")
    return None


def _read_series(look: Profile, found: dict[str, Recognised]) -> None:
    """Many columns of one name with a number: replicate weights, or the values of one column."""
    stems = Counter(_stem(name) for name in found)
    facts = {one.name: one for one in look.facts}
    for name, one in found.items():
        many = stems[_stem(name)]
        if many < 8 or not name[-1:].isdigit() or one.confidence >= SURE:
            continue
        if re.search(r"(?i)w(ei)?gh?t|wt$|^rep", _stem(name)):
            why = f"one of {many:,} replicate weights"
            found[name] = Recognised("other", 0.9, why, "a statistical weight")
        elif facts[name].classes <= 2:
            found[name] = replace(one, confidence=0.4, why=f"one of {many:,} alike columns")


def _stem(name: str) -> str:
    return name.rstrip("0123456789")


def _read_twins(look: Profile, found: dict[str, Recognised]) -> None:
    """Columns that decide each other are about the same: a code takes after its description."""
    sample = look.sample
    for first, others in equivalents(sample).items():
        group = [sample.columns[at] for at in (first, *others)]
        if classes_together(sample.select(group[:1])) < 2:
            continue  # which says nothing of rows that are not in the sample
        known = [name for name in group if found[name].confidence >= SURE]
        best = max(known, key=lambda name: found[name].confidence, default=None)
        if best is None or found[best].role not in ("sensitive", "quasi-identifier"):
            continue
        for name in group:
            if found[name].confidence < SURE:
                one = found[best]
                why = f"says the same as `{best}`"
                found[name] = replace(
                    found[name], role=one.role, confidence=0.6, why=why, what=one.what
                )


def _read_health(look: Profile, found: dict[str, Recognised]) -> None:
    """Where many columns are about health, a number of which nothing is known is too."""
    health = sum(one.what is not None and "health" in one.what for one in found.values())
    if health < 3 or health < 0.15 * len(found):
        return
    numbers = {facts.name for facts in look.facts if facts.kind != "text"}
    for name, one in found.items():
        unknown = one.confidence < SURE and one.what is None and one.role != "identifier"
        if unknown and name in numbers:
            why = "unknown, in a table about health"
            found[name] = replace(one, role="sensitive", confidence=0.4, why=why)
