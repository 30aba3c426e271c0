"""What a column says of itself: its name, how many cells are alike, their form, how numbers spread.

A name is cut into words (``BirthDate``, ``birth_date`` and ``birth-date`` are alike, accents do
not count) and compared with those of `vocabulary`; names run together are cut by the same words
(``CONTACTLASTNAME``). Several words that belong together count more than one. Of cells only shares
are computed; none leaves this module.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns.vocabulary import FILLERS, MEANINGS, Meaning, Role
from sfumato.engines.protocol import Kind

NEARLY = 0.9
"""Share of its filled cells that must stand alone for a column to be nearly a key."""
FEW = 12
"""A column with so few values points at nobody, whatever its name."""
MOST = 0.6
"""Share of the different cells that must have a form."""
SOME = 0.001
"""Share from which on a few cells of a form are worth a question."""
FEWEST = 3
"""Different cells below which a form means nothing, unless it leaves no doubt."""
CHECKED = 2_000
"""Cells whose check digits are computed at most."""
_FOUND_INSIDE = 6
"""Letters a word must have to be recognized inside a longer one."""
_CUT_FROM = 6
"""Letters from which on a word is cut into words it may be run together of."""
_PLURALS = ("s", "es")


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
class Found:
    """A form that cells can have, the role of a column of such cells, and its kind in the law."""

    role: Role
    what: str
    pattern: str
    kind: str | None = None
    check: Callable[[str], bool] | None = None
    plain: bool = False
    """Whether nothing else looks like it, so that one cell is enough."""


def _is_card(cell: str) -> bool:
    """The check digit of payment cards (Luhn)."""
    digits = re.sub(r"[ -]", "", cell)
    doubled = [2 * int(d) if at % 2 else int(d) for at, d in enumerate(reversed(digits))]
    return sum(d - 9 if d > 9 else d for d in doubled) % 10 == 0


def _is_iban(cell: str) -> bool:
    plain = cell.replace(" ", "").upper()
    return int("".join(str(int(c, 36)) for c in plain[4:] + plain[:4])) % 97 == 1


_MONTH = (
    r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|m[aä]r|mai|okt|dez|ene|abr|ago|dic"
    r"|avr|juin|juil|ao[uû]t|d[eé]c|gen|mag|giu|lug|set|ott)[a-zé]*"
)
_DAY = r"(?:0?[1-9]|[12]\d|3[01])"
_DATE = (
    r"(?:1[6-9]|20)\d\d[-/.](?:0?[1-9]|1[0-2])[-/.]" + _DAY + r"|"
    + _DAY + r"[-/.](?:0?[1-9]|[12]\d|3[01])[-/.](?:(?:1[6-9]|20)\d\d|\d\d)|"
    + _DAY + r"\.? ?[ -]?" + _MONTH + r"[ -.,]*(?:(?:1[6-9]|20)\d\d|\d\d)|"
    + _MONTH + r"[ -.]*" + _DAY + r"(?:st|nd|rd|th)?,? +(?:1[6-9]|20)\d\d"
)  # fmt: skip


def _is_phone(cell: str) -> bool:
    if re.fullmatch(_DATE, cell, re.IGNORECASE):
        return False  # 09.04.2024 has as many digits
    digits = sum(letter.isdigit() for letter in cell)
    return 8 <= digits <= 15 and (
        cell.startswith(("+", "(", "00")) or len(re.findall(r"[\s()./-]+", cell)) >= 2
    )


_MONTH_NAME = (
    r"(?:jan(?:uary|uar|vier)?|feb(?:ruary|ruar)?|f[eé]v(?:rier)?|mar(?:ch|s|zo)?|m[aä]rz?|apr(?:il"
    r"|ile)?|avr(?:il)?|abr(?:il)?|may|mai|mayo|maggio|mag|june?|juni|juin|giu(?:gno)?|july?|juli"
    r"|juil(?:let)?|lug(?:lio)?|aug(?:ust)?|ao[uû]t|ago(?:sto)?|sept?(?:ember|embre|iembre)?"
    r"|set(?:tembre)?|oct(?:ober|obre|ubre)?|okt(?:ober)?|ott(?:obre)?|nov(?:ember|embre|iembre)?"
    r"|d[eé]c(?:ember|embre)?|dez(?:ember)?|dic(?:iembre|embre)?|ene(?:ro)?|gen(?:naio)?)\.?"
)
"""Months and nothing else: `Marketing` and `Maintenance` are none."""
_YEAR = r"(?:1[6-9]|20)\d\d"
_PART_OF_DATE = (
    _YEAR + r"[-/.](?:0?[1-9]|1[0-2])|(?:0?[1-9]|1[0-2])[-/.]" + _YEAR + r"|"
    + _YEAR + r"-?W(?:0[1-9]|[1-4]\d|5[0-3])(?:-?[1-7])?|"
    + _YEAR + r"[- ]?Q[1-4]|Q[1-4][-/ ]?" + _YEAR + r"|"
    + _MONTH_NAME + r"[ -]*(?:" + _DAY + r"(?:st|nd|rd|th)?|'?\d\d|,? *" + _YEAR + r")|"
    + _YEAR + r"[ -]*" + _MONTH_NAME + r"|"
    + _DAY + r"(?:st|nd|rd|th|\.)?[ -]*" + _MONTH_NAME + r"|"
    + _DAY + r"\.(?:0?[1-9]|1[0-2])\."
)  # fmt: skip
_SEXES = (
    "m|f|w|d|x|u|unknown|other|male|female|man|woman|men|women|mann|frau|männlich|weiblich|divers|"
    "hombre|mujer|masculino|femenino|feminino|homme|femme|masculin|féminin|maschio|femmina|uomo|"
    "donna|vrouw|mand|kvinde|kvinne"
)
_POSTAL_CODES = (
    r"\d{5}(-\d{4})?"  # United States, Germany, France, Spain, Italy …
    r"|[A-Z]{1,2}\d[A-Z0-9]? ?\d[A-Z]{2}"  # United Kingdom
    r"|[A-Z]\d[A-Z] ?\d[A-Z]\d"  # Canada
    r"|\d{4} ?[A-Z]{2}"  # Netherlands
)

FORMS = (
    Found("identifier", "e-mail addresses", r"[^@\s]+@[^@\s]+\.[A-Za-z]{2,}", "F", plain=True),
    Found("identifier", "web addresses", r"(?i)(https?://|www\.)\S+", "N", plain=True),
    Found(
        "identifier", "hardware addresses", r"(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}", "M",
        plain=True,
    ),
    Found(
        "identifier", "internet addresses",
        r"(?i)(\d{1,3}\.){3}\d{1,3}|([0-9a-f]{1,4}:){4,7}[0-9a-f]{1,4}|[0-9a-f:]+::[0-9a-f:]*", "O",
        plain=True,
    ),
    Found(
        "identifier", "universal identifiers (UUID)",
        r"(?i)\{?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\}?", "R", plain=True,
    ),
    Found("identifier", "long hexadecimal codes", r"(?i)[0-9a-f]{32,128}", "R", plain=True),
    Found("identifier", "social security numbers", r"\d{3}[- ]\d{2}[- ]\d{4}", "G"),
    Found(
        "identifier", "vehicle identification numbers",
        r"[A-HJ-NPR-Z0-9]{8}[0-9X][A-HJ-NPR-Z0-9]{4}\d{4}", "L",
        lambda cell: any(c.isalpha() for c in cell) and any(c.isdigit() for c in cell),
    ),
    Found(
        "identifier", "bank accounts (IBAN)",
        r"[A-Za-z]{2}\d{2} ?[A-Za-z0-9][A-Za-z0-9 ]{9,36}", "J", _is_iban,
    ),
    Found("identifier", "card numbers", r"(?:\d{4}[ -]){3}\d{4}", "J"),
    Found("identifier", "payment cards", r"[3-6](?:[ -]?\d){12,18}", "J", _is_card),
    Found(
        "identifier", "picture files", r"(?i)(.*\.(?:jpe?g|png|gif|tiff?|bmp|heic)|data:image/.*)",
        "Q", plain=True,
    ),
    Found("quasi-identifier", "dates", r"(?i)(?:" + _DATE + r")(?:[ T]\d{1,2}:\d\d.*)?", "C"),
    Found("identifier", "phone numbers", r"\+?[\d\s()./-]{8,24}", "D", _is_phone),
    Found(
        "identifier", "street addresses",
        r"(?i)\d+[a-z]? .*\b(?:st|street|ave|avenue|rd|road|blvd|lane|ln|drive|court|ct|way)\b.*"
        r"|(?:\S+ )*\S*(?:str\.|straße|strasse|weg|platz|allee) ?\d+[a-z]?"
        r"|(?:rue|calle|via|avenida|avenue|rua) .*\d+.*", "B",
    ),
    Found(
        "sensitive", "codes of diseases (ICD-10)", r"[A-TV-Z]\d[0-9A-Z]\.[0-9A-Z]{1,4}",
    ),
    Found("quasi-identifier", "sexes", rf"(?i)\s*(?:{_SEXES})\s*"),
    Found("quasi-identifier", "postal codes", _POSTAL_CODES, "B"),
)  # fmt: skip

_PATTERNS = {
    "dates": next(form.pattern for form in FORMS if form.what == "dates"),
    "digits of a postal code": r"\d{3,10}(-\d+)?",
    "codes": r"\S*\d\S*",
    "amounts": r"[-+(]?[$€£]? ?\d{1,3}(?:[., ']?\d{3})*[.,]\d{1,2}(?: ?[€$])?\)?",
    "capitalized words": r"\p{Lu}[\pL'’.]+(?:[ -]+\p{Lu}?[\pL'’.]+){0,3}",
    "years": r"(?:1[89]|20)\d\d(\.0+)?",
    "parts of dates": r"(?i)\s*(?:" + _PART_OF_DATE + r")\s*",
    "months as numbers": r"(?:1[89]|20)\d\d(?:0[1-9]|1[0-2])",
    "days as numbers": r"(?:1[89]|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])",
}
_DATED = {_PATTERNS["dates"], _PATTERNS["parts of dates"]}
"""Patterns that take long to prepare, and that nothing without a digit fits."""

_TELLING = "[0-9@:./-]|^[A-Fa-f]{32}"
"""What is in every cell that has one of the forms, but for words that say a sex."""


def share(cells: pa.Array, what: str) -> float:
    """Share of different cells that have a form.

    Examples
    --------
    >>> import pyarrow as pa
    >>> share(pa.array(["1999", "n/a"]), "years"), share(pa.array([20240229]), "days as numbers")
    (0.5, 1.0)
    """
    return _share(cells, _PATTERNS[what])


def _share(cells: pa.Array, pattern: str) -> float:
    if pattern in _DATED and not _has_digits(cells):
        return 0.0
    fits = pc.match_substring_regex(_text(cells), rf"^(?:{pattern})$")
    return float(pc.mean(fits).as_py() or 0.0)


def _text(cells: pa.Array) -> pa.Array:
    """Cells as text; blanks around them say nothing."""
    text = cells if pa.types.is_string(cells.type) else cells.cast(pa.string())
    return pc.utf8_trim_whitespace(text)


def _has_digits(cells: pa.Array) -> bool:
    return bool(pc.any(pc.match_substring_regex(_text(cells), "[0-9]")).as_py())


class Forms:
    """The forms that different cells of a text column have; each is looked for once."""

    def __init__(self, cells: pa.Array) -> None:
        self._cells = _text(cells)
        self._shares: dict[str, float] = {}

    def of_most(self) -> Found | None:
        """The form that most of them have, if any."""
        return next((form for form in FORMS if self._share(form) >= MOST), None)

    def of_few(self) -> Found | None:
        """A form that points at people and that only a few cells have."""
        asked = (form for form in FORMS if form.role == "identifier")
        return next((form for form in asked if self._share(form) >= SOME), None)

    def _share(self, form: Found) -> float:
        if form.what != "sexes" and not self._telling:
            return 0.0
        if form.what not in self._shares:
            self._shares[form.what] = _fitting(self._cells, form)
        return self._shares[form.what]

    @cached_property
    def _telling(self) -> bool:
        return bool(pc.any(pc.match_substring_regex(self._cells, _TELLING)).as_py())


def form_of(cells: pa.Array) -> Found | None:
    """The form that most of these different cells of a text column have, if any.

    Examples
    --------
    >>> import pyarrow as pa
    >>> form_of(pa.array(["ada@example.org", "bob@example.org", "eve@example.org"])).what
    'e-mail addresses'
    >>> form_of(pa.array(["red", "green", "blue"])) is None
    True
    """
    return Forms(cells).of_most()


def _fitting(text: pa.Array, form: Found) -> float:
    """Share of cells of a form; 0 where there are too few to say."""
    if form.what == "sexes":
        if not 2 <= len(text) <= 5:
            return 0.0
    elif len(text) < FEWEST and not form.plain:
        return 0.0
    if not len(text) or (form.pattern in _DATED and not _has_digits(text)):
        return 0.0
    fits = pc.match_substring_regex(text, rf"^(?:{form.pattern})$")
    found = float(pc.mean(fits).as_py() or 0.0)
    if form.check is None or not found:
        return found
    some = text.filter(fits)[:CHECKED].to_pylist()
    return found * sum(map(form.check, some)) / len(some)


def dates_inside(cells: pa.Array) -> float:
    """Share of cells within which a date stands, such as those of JSON or notes.

    Examples
    --------
    >>> import pyarrow as pa
    >>> dates_inside(pa.array(['{"seen": "2021-03-04"}', '{"seen": null}']))
    0.5
    """
    if not len(cells) or not _has_digits(cells):
        return 0.0
    pattern = rf"(?i)(?:^|[^\d./-])(?:{_DATE})(?:$|[^\d/-])"
    return float(pc.mean(pc.match_substring_regex(_text(cells), pattern)).as_py() or 0.0)


def is_free_text(cells: pa.Array) -> bool:
    """Whether these cells are written sentences rather than names of things.

    Examples
    --------
    >>> import pyarrow as pa
    >>> notes = ["Came in at night with a fever, sent home.", "Fell from a ladder in March."]
    >>> is_free_text(pa.array(notes)), is_free_text(pa.array(["Some-college", "Bachelors"]))
    (True, False)
    """
    text = _text(cells)
    if not len(text):
        return False
    words = pc.mean(pc.add(pc.count_substring(text, " "), 1)).as_py()
    middle = np.median(np.asarray(pc.utf8_length(text)))
    return bool(middle >= 25 and words >= 4.5)


_NAME = r"(?:Dr\. |Mr\. |Mrs\. |Ms\. )?\p{Lu}[\pL'’-]+,?(?: (?:\p{Lu}\.|\p{Lu}[\pL'’.-]+)){1,3}"


def looks_like_names(cells: pa.Array) -> bool:
    """Whether cells are two to four capitalized words, as full names are."""
    return len(cells) >= 30 and _share(cells, _NAME) >= 0.9


_SPOKEN: tuple[tuple[Role, str, str], ...] = (
    (
        "sensitive", "health",
        r"disease|syndrome|disorder|fracture|infection|cancer|carcinoma|tumou?r|diabetes|asthma"
        r"|neoplasm|injury|\w+itis|\w+emia|\w+aemia|\w+osis|hypertension|pregnan\w+|vaccin\w+"
        r"|influenza|hep(?:atitis)? [ab]|stroke|depress\w+|anxiety|therapy|chemotherapy|surgery"
        r"|laceration|sprain|wound|poisoning|overdose|dementia|obes\w+|antibiotic\w*|insulin"
        r"|krankheit|krebs|enfermedad|maladie|x-ray|tomography|ultrasound",
    ),
    (
        "sensitive", "religion",
        r"catholic|protestant|muslim|islam\w*|jewish|judaism|hindu\w*|buddhis[tm]|christian"
        r"|orthodox|atheist|no religion|katholisch|evangelisch|sikh|mormon",
    ),
    (
        "quasi-identifier", "marital status",
        r"(?:never[- ]|un)?married.*|divorced|widow(?:ed|er)?|separated|single|spouse|cohabit\w*"
        r"|verheiratet|ledig|geschieden|verwitwet|casad[oa]|solter[oa]|mari[eé]e?",
    ),
    (
        "quasi-identifier", "race or origin",
        r"white|black|asian.*|hispanic|non-?hispanic|caucasian|african[- ]american"
        r"|amer-?\w*[- ]indian.*|native american|pacific islander|latino|mixed|two or more races",
    ),
    (
        "quasi-identifier", "schooling",
        r"bachelor\w*|masters?|doctorate|phd|high school.*|hs-grad|(?:some[- ])?college|primary"
        r"|secondary|tertiary|university|graduate school|no schooling|abitur|hauptschule",
    ),
    (
        "quasi-identifier", "work",
        r"(?:self[- ]?)?employed.*|unemployed|retired|student|homemaker|full[- ]?time|part[- ]?time"
        r"|manager\w*|technician|teacher|engineer|clerical|sales|service worker|farmer|craft.*",
    ),
    (
        "quasi-identifier", "countries",
        r"united[- ]states.*|usa|canada|mexico|germany|france|spain|italy|china|india|japan|brazil"
        r"|england|united[- ]kingdom|poland|netherlands|portugal|ireland|cuba|vietnam|philippines"
        r"|russia|sweden|norway|denmark|austria|belgium|switzerland|greece|turkey|australia",
    ),
    (
        "quasi-identifier", "states",
        r"alabama|alaska|arizona|arkansas|california|colorado|connecticut|florida|georgia|illinois"
        r"|indiana|iowa|kansas|kentucky|maryland|massachusetts|michigan|minnesota|missouri|nevada"
        r"|new york|new jersey|ohio|oregon|texas|virginia|washington|wisconsin|bayern|sachsen"
        r"|hessen",
    ),
    ("quasi-identifier", "months", _MONTH_NAME),
    ("sensitive", "income",
     r"[<>]=? ?[$€]?\d+ ?k|[$€£] ?\d[\d.,]*|\d[\d.,]* ?(?:usd|eur|gbp|€|\$)"),
)  # fmt: skip


def words_in(cells: pa.Array) -> tuple[Role, str] | None:
    """The role and the subject that the words of category cells speak of, if any.

    Examples
    --------
    >>> import pyarrow as pa
    >>> words_in(pa.array(["Acute bronchitis (disorder)", "Asthma", "Fracture of foot"]))
    ('sensitive', 'health')
    """
    text = _text(cells)
    if len(text) < 2:
        return None
    for role, what, pattern in _SPOKEN:
        anywhere = what == "health"
        shown = rf"(?i)\b(?:{pattern})\b" if anywhere else rf"(?i)^(?:{pattern})$"
        needed = 0.3 if anywhere or len(text) > 8 else 0.4
        hits = pc.match_substring_regex(text, shown)
        if pc.sum(hits).as_py() >= 2 and pc.mean(hits).as_py() >= needed:
            return role, what
    return None


def _numbers(cells: pa.Array) -> npt.NDArray[np.float64]:
    """The cells that are numbers, sorted."""
    if not len(cells):
        return np.empty(0)
    if pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type):
        fits = pc.match_substring_regex(cells, r"^-?\d{1,15}(?:\.\d+)?$")
        if pc.mean(fits).as_py() < 0.8:
            return np.empty(0)
        cells = cells.filter(fits)
    try:
        numbers = np.asarray(cells.cast(pa.float64(), safe=False), dtype=np.float64)
    except pa.ArrowException:
        return np.empty(0)
    return np.sort(numbers[np.isfinite(numbers)])


def looks_like_ages(facts: ColumnFacts, cells: pa.Array) -> bool:
    """Whether whole numbers fill the range of human ages nearly without a gap, some above 89.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> facts = ColumnFacts("x", "integer", 5000, 0, 95, 0)
    >>> looks_like_ages(facts, pa.array(np.arange(95)))
    True
    """
    numbers = _numbers(cells)
    if len(numbers) < 40 or facts.classes > 125 or facts.rows < 2 * facts.classes:
        return False
    whole = bool((numbers == np.floor(numbers)).all())
    low, high = numbers[0], numbers[-1]
    filled = len(numbers) >= 0.8 * (high - low + 1)
    return whole and bool(low >= 0 and 89 < high <= 122 and filled)


def looks_like_birth_years(cells: pa.Array) -> bool:
    """Whether whole numbers are years over two generations, some of which are long ago."""
    numbers = _numbers(cells)
    if len(numbers) < 40:
        return False
    low, high = numbers[0], numbers[-1]
    whole = bool((numbers == np.floor(numbers)).all())
    return whole and bool(1850 <= low <= 1950 and 1960 <= high <= 2100)


def looks_like_amounts(facts: ColumnFacts, cells: pa.Array) -> bool:
    """Whether many numbers lie far apart and most are round, or all have cents: as money does.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> facts = ColumnFacts("x", "integer", 5000, 0, 400, 90)
    >>> looks_like_amounts(facts, pa.array(np.arange(400) ** 3 * 100))
    True
    """
    if facts.classes < 30 or facts.kind not in ("integer", "float", "decimal", "text"):
        return False
    numbers = _numbers(cells)
    if len(numbers) < 30 or numbers[-1] < 1_000:
        return False
    positive = numbers[numbers > 0]
    if len(positive) < 30 or positive[-1] < 4 * np.median(positive):
        return False
    if (positive == np.floor(positive)).all():
        return bool((positive % 10 == 0).mean() >= 0.6)
    cents = np.abs(positive * 100 - np.round(positive * 100)) < 1e-6
    return bool(cents.all())


def looks_like_body_weights(cells: pa.Array) -> bool:
    """Whether numbers lie as people's weights do, in kilograms or pounds."""
    numbers = _numbers(cells)
    if len(numbers) < 15:
        return False
    low, middle, high = np.quantile(numbers, (0, 0.5, 1))
    return bool(low > 0.2 and 20 <= middle <= 220 and high <= 700)


def looks_numbered(cells: pa.Array) -> bool:
    """Whether different whole numbers were given out, not measured: long, or one after another."""
    numbers = _numbers(cells)
    if not len(numbers):
        return True
    low, high = numbers[0], numbers[-1]
    if high - low < 1.05 * len(numbers):
        return True
    alike = len(str(int(abs(low)))) == len(str(int(abs(high))))
    return bool(low >= 1_000_000 or (alike and low >= 10_000 and high < 4 * low))


_MEASURED = (
    "an age", "money", "a date", "a birth date", "a birth year", "a part of a date", "a year",
    "a weight", "a statistical weight", "a duration",
)  # fmt: skip
_NAMED = ("sex", "origin or language", "family", "work or school", "an institution")
_COUNTED = frozenset(("num", "number", "count", "n", "size", "hours", "minutes", "weeks", "days"))
_FEW_CODES, _MOST_CODES = 12, 600


def looks_coded(facts: ColumnFacts, cells: pa.Array, what: str | None = None) -> bool:
    """Whether whole numbers are codes of categories: few of them, or with gaps, as their name says.

    Parameters
    ----------
    what
        What the column is about, if that is known: ages and amounts are no codes.

    Examples
    --------
    >>> import pyarrow as pa
    >>> race = ColumnFacts("RAC1P", "integer", 5000, 0, 9, 0)
    >>> looks_coded(race, pa.array(range(1, 10)), "origin or language")
    True
    >>> looks_coded(ColumnFacts("hours", "integer", 5000, 0, 9, 0), pa.array(range(9)))
    False
    """
    if facts.kind != "integer" or what in _MEASURED or _COUNTED & set(words_of(facts.name)):
        return False
    numbers = _numbers(cells)
    if len(numbers) < 2 or numbers[0] < 0 or len(numbers) > _MOST_CODES:
        return False
    if facts.rows < 20 * facts.classes:
        return False
    if len(numbers) <= _FEW_CODES:
        return bool(numbers[-1] <= 99)
    if what in ("a place", "a small area"):
        return True
    gaps = numbers[-1] - numbers[0] + 1 >= 1.3 * len(numbers)
    heaped = (numbers % 5 == 0).mean() >= 0.4  # people round what they measure
    return bool(what in _NAMED and gaps and not heaped and numbers[-1] < 100_000)


@lru_cache(maxsize=4096)
def words_of(name: str) -> tuple[str, ...]:
    """The words of a column name, in lower case and without accents.

    Examples
    --------
    >>> words_of("BirthDate"), words_of("Année de naissance"), words_of("ZIP_code2")
    (('birth', 'date'), ('annee', 'de', 'naissance'), ('zip', 'code', '2'))
    """
    plain = unicodedata.normalize("NFKD", name.replace("ß", "ss"))
    plain = "".join(letter for letter in plain if not unicodedata.combining(letter))
    plain = re.sub(r"\bID(?=[a-z])", "ID ", plain)
    plain = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", plain)
    plain = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1 \2", plain)
    return tuple(re.findall(r"[^\W\d_]+|\d+", plain.lower()))


def meaning_of(name: str) -> Meaning | None:
    """What a column is about, by its name; None where the name says nothing known.

    Examples
    --------
    >>> meaning_of("Geburtsdatum").what, meaning_of("diagnosis_name").role
    ('a birth date', 'sensitive')
    >>> meaning_of("CONTACTLASTNAME").what, meaning_of("x17") is None
    ('names', True)
    """
    words = [part for word in words_of(name) for part in _cut(word)]
    best: tuple[int, int] | None = None
    for start in range(len(words)):
        for end in range(start + 1, len(words) + 1):
            at = _place("".join(words[start:end]))
            if at is not None and (best is None or (start - end, at) < best):
                best = (start - end, at)
    return None if best is None else MEANINGS[best[1]]


@lru_cache(maxsize=4096)
def inside_of(name: str) -> Meaning | None:
    """What a longer word of a name says by a known word inside it: less sure than `meaning_of`.

    Examples
    --------
    >>> meaning_of("patientenvorname") is None, inside_of("patientenvorname").what
    (True, 'names')
    """
    found = min(
        (
            _PLACES.get(word[start:end], len(MEANINGS))
            for word in words_of(name)
            for start in range(len(word))
            for end in range(start + _FOUND_INSIDE, min(start + _LONGEST, len(word)) + 1)
        ),
        default=len(MEANINGS),
    )
    return None if found == len(MEANINGS) else MEANINGS[found]


def _place(run: str) -> int | None:
    """Which meaning a run of words has, by its place in the list."""
    found = _PLACES.get(run)
    if found is not None:
        return found
    stems = (_PLACES.get(run.removesuffix(end)) for end in _PLURALS if run.endswith(end))
    return next((at for at in stems if at is not None), None)


@lru_cache(maxsize=4096)
def _cut(word: str) -> tuple[str, ...]:
    """The known words that a word is run together of; the word itself if it is none of that."""
    if len(word) < _CUT_FROM or _place(word) is not None or word in FILLERS:
        return (word,)
    for split in range(len(word) - 3, 2, -1):
        head, tail = word[:split], word[split:]
        if _place(head) is None and head not in FILLERS:
            continue
        if _place(tail) is not None or tail in FILLERS:
            return head, tail
        rest = _cut(tail)
        if len(rest) > 1:
            return head, *rest
    return (word,)


_KNOWN = tuple(
    (meaning, frozenset(name.replace("_", "") for name in meaning.names.split()))
    for meaning in MEANINGS
)
_PLACES: dict[str, int] = {}
for _at, (_, _names) in enumerate(_KNOWN):
    for _name in _names:
        _PLACES.setdefault(_name, _at)
_LONGEST = max(map(len, _PLACES))
