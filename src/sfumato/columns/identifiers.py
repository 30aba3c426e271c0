"""The identifiers that HIPAA's Safe Harbor lists, recognised by column names and by content.

45 C.F.R. §164.514(b)(2)(i) lists eighteen kinds, (A) to (R). Names of columns are read word by
word (``PatientID``, ``patient_id`` and ``patient id`` are the same two words) and content by its
form: an e-mail address is one wherever it stands. There is no list of people's names, which would
take `race` for a column of last names because people are called White; names are known by their
column, or by looking like names and hardly ever repeating.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.columns.postal import is_postal_name
from sfumato.results import Result

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.engines.protocol import Column

__all__ = [
    "KINDS",
    "Recognised",
    "recognise",
    "words_of",
]


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


@dataclass(frozen=True)
class Recognised(Result):
    """What a column is in the eyes of the law.

    `kind` is a letter of `KINDS`; None with `undecided` means that a person should look. `form`
    says how the values may stay: ``zip``, ``date``, ``birth date``, ``birth year``, ``age``, or
    None where only dropping helps.
    """

    kind: str | None
    why: str
    form: str | None = None
    undecided: bool = False


_PERSON = {"patient", "mother", "father", "spouse", "child", "guardian", "relative", "contact",
           "employer", "employee", "member", "customer", "client", "insured", "full", "first",
           "last", "middle", "given", "family", "maiden", "nick", "legal", "emergency", "person",
           "subject", "next", "kin", "of", "the", "s", "alias", "preferred"}  # fmt: skip
_STAFF = {"doctor", "physician", "surgeon", "nurse", "provider", "attending", "clinician",
          "therapist", "prescriber", "practitioner", "radiologist"}  # fmt: skip
_EVENT = {"birth", "admission", "admit", "discharge", "death", "visit", "service", "procedure",
          "encounter", "dob", "dod", "appointment", "surgery", "onset", "diagnosis"}  # fmt: skip
_SERIAL = {"id", "ids", "uid", "uuid", "guid", "number", "num", "no", "nr", "key", "identifier"}

# words of a column's name that settle the matter; all words of a phrase must follow one another
_BY_NAME: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("F", ("email", "e mail", "mail address")),
    ("O", ("ip", "ip address", "ipv4", "ipv6")),
    ("N", ("url", "website", "homepage", "web address", "uri")),
    ("G", ("ssn", "social security", "sin number", "national insurance number")),
    ("E", ("fax", "telefax")),
    ("D", ("phone", "telephone", "mobile", "cellphone", "cell phone", "tel", "pager")),
    ("L", ("vin", "vehicle id", "vehicle identification", "license plate", "licence plate",
           "plate number", "vehicle serial", "registration plate")),
    ("M", ("device id", "device serial", "serial number", "udi", "imei", "mac address",
           "implant serial", "device identifier")),
    ("K", ("license", "licence", "certificate number", "driver licence", "dea number", "npi",
           "passport", "certificate id", "permit number")),
    ("I", ("member id", "beneficiary", "policy number", "policy id", "subscriber", "plan id",
           "plan number", "medicare number", "medicaid number", "mbi", "hicn",
           "insurance number", "insurance id", "health plan number", "group number")),
    ("J", ("account", "acct", "iban", "credit card", "card number", "billing number",
           "bank account", "invoice number", "routing number")),
    ("H", ("mrn", "medical record", "patient id", "patient number", "patient no", "patient nr",
           "patient key", "chart number", "encounter id", "visit id", "admission id", "hadm id",
           "subject id", "record number", "accession number", "case number", "patient identifier")),
    ("P", ("fingerprint", "voiceprint", "voice print", "finger print", "biometric", "iris scan",
           "retina scan", "face encoding", "face template", "palm print")),
    ("Q", ("photo", "photograph", "portrait", "headshot", "mugshot", "picture")),
    ("B", ("street", "address", "city", "town", "county", "precinct", "parish", "borough",
           "village", "latitude", "longitude", "lat", "lon", "lng", "geocode", "geohash",
           "census tract", "census block", "neighborhood", "neighbourhood", "place of birth",
           "birthplace", "birth place", "hometown", "municipality", "puma", "fips")),
    ("A", ("surname", "forename", "lastname", "firstname", "fullname", "initials",
           "maiden name", "next of kin")),
    ("R", ("username", "user name", "login", "uuid", "guid", "barcode", "device token",
           "cookie id")),
)  # fmt: skip

# share of cells that have the form, from which a column counts as holding such identifiers
_MOST = 0.2
_SOME = 0.001

_BY_CONTENT: tuple[tuple[str, str, str], ...] = (
    ("F", "e-mail addresses", r"^[^@\s]+@[^@\s]+\.[A-Za-z]{2,}$"),
    ("N", "web addresses", r"^(?:https?://|www\.)\S+$"),
    ("M", "hardware addresses", r"^(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}$"),
    ("O", "IP addresses",
     r"^(?:\d{1,3}\.){3}\d{1,3}$|^(?:[0-9A-Fa-f]{1,4}:){4,7}[0-9A-Fa-f]{1,4}$"),
    ("G", "social security numbers", r"^\d{3}-\d{2}-\d{4}$"),
    ("D", "telephone numbers",
     r"^(?:\+?\d{1,3}[ .-]?)?(?:\(\d{3}\) ?|\d{3}[ .-])\d{3}[ .-]\d{4}$|^\+\d{9,15}$"),
    ("L", "vehicle identification numbers", r"^[A-HJ-NPR-Z0-9]{3}[A-HJ-NPR-Z0-9]{5}[0-9X]"
     r"[A-HJ-NPR-Z0-9]{2}[A-HJ-NPR-Z0-9]{2}\d{4}$"),
    ("J", "bank account numbers", r"^[A-Z]{2}\d{2}[A-Z0-9]{4}\d{7}[A-Z0-9]{0,16}$"),
    ("J", "card numbers", r"^(?:\d{4}[ -]){3}\d{4}$"),
    ("Q", "picture files", r"(?i)\.(?:jpe?g|png|gif|tiff?|bmp|heic)$"),
    ("R", "universally unique identifiers",
     r"^[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}$"),
    ("B", "street addresses",
     r"(?i)^\d+[a-z]? .*\b(?:st|street|ave|avenue|rd|road|blvd|lane|ln|drive|court|ct|way)\b"),
)  # fmt: skip
_PERSON_NAME = r"^(?:Dr\. |Mr\. |Mrs\. |Ms\. )?[A-Z][\w'’-]+,?(?: (?:[A-Z]\.|[A-Z][\w'’.-]+)){1,3}$"
_ISO_DATE = r"^\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}.*)?$"
_OTHER_DATE = r"^\d{1,2}[/.-]\d{1,2}[/.-]\d{2,4}(?: .*)?$"


def words_of(name: str) -> list[str]:
    """The words of a column's name, in lower case.

    Examples
    --------
    >>> words_of("PatientID"), words_of("date_of-birth2")
    (['patient', 'id'], ['date', 'of', 'birth'])
    """
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)
    return [word for word in re.split(r"[^A-Za-z]+", spaced.lower()) if word]


def recognise(column: Column, sample: pa.Array, unique: float) -> Recognised | None:
    """Which identifier a column holds, if any.

    Parameters
    ----------
    column
        Name and type.
    sample
        Some of its cells.
    unique
        Share of all rows whose value occurs once.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from sfumato.engines.protocol import column_of
    >>> mail = column_of("contact", pa.string())
    >>> recognise(mail, pa.array(["ann@example.org", None]), 1.0).kind
    'F'
    >>> race = column_of("race", pa.string())
    >>> recognise(race, pa.array(["White", "Black", "White"]), 0.0) is None
    True
    """
    words = words_of(column.name)
    cells = sample.drop_null()
    found = _by_date(column, words, cells) or _by_name(column.name, words)
    if found is not None:
        return found
    if column.kind == "binary":
        return Recognised("Q", "binary content, perhaps a picture or a biometric template")
    if column.kind != "text" or len(cells) == 0:
        return _by_uniqueness(column, words, cells, unique)
    return _by_content(cells, unique) or _by_uniqueness(column, words, cells, unique)


def _by_date(column: Column, words: list[str], cells: pa.Array) -> Recognised | None:
    birth = bool({"birth", "born", "dob", "birthday", "birthdate"} & set(words))
    if column.kind in ("date", "timestamp"):
        what = "birth date" if birth else "date"
        return Recognised("C", "holds dates", what)
    if column.kind == "text" and len(cells):
        share = max(_share(cells, _ISO_DATE), _share(cells, _OTHER_DATE))
        if share >= _MOST:
            return Recognised("C", "holds dates as text", "birth date" if birth else "date")
    if {"dob", "birthdate", "birthday"} & set(words) or _phrase(words, "date of birth"):
        return Recognised("C", "its name says that it holds birth dates")
    if "age" in words and column.kind in ("integer", "float", "decimal", "text"):
        return Recognised("C", "its name says that it holds ages", "age")
    if column.kind in ("integer", "float") and ("yob" in words or ("year" in words and birth)):
        return Recognised("C", "its name says that it holds birth years", "birth year")
    part = {"month", "day", "weekday", "week", "quarter", "dow"} & set(words)
    if part and _EVENT & set(words) and "days" not in words:
        return Recognised("C", "a part of a date other than its year")
    return None


def _by_name(name: str, words: list[str]) -> Recognised | None:
    if is_postal_name(name):
        return Recognised("B", "its name says that it holds ZIP codes", "zip")
    for kind, phrases in _BY_NAME:
        if kind == "B" and {"ip", "email", "mac", "web"} & set(words):
            continue
        for phrase in phrases:
            if _phrase(words, phrase):
                return Recognised(kind, f"its name says that it holds {KINDS[kind]}")
    rest = set(words) - {"name", "names"}
    if rest & _STAFF:
        return Recognised(
            None,
            "may name members of staff, who are not among those whose names the law lists",
            undecided=True,
        )
    # `name` alone or of a person, but not the name of a diagnosis, drug, department, …
    if "name" in words and rest <= _PERSON:
        return Recognised("A", "its name says that it holds names")
    return None


def _by_content(cells: pa.Array, unique: float) -> Recognised | None:
    few: str | None = None
    for kind, what, pattern in _BY_CONTENT:
        share = _share(cells, pattern)
        if share >= _MOST:
            return Recognised(kind, f"{share:.0%} of its cells look like {what}")
        if share >= _SOME and few is None:
            few = what
    if _is_free_text(cells):
        return Recognised(None, "free text, in which any identifier may stand", "free text")
    if unique >= 0.3 and len(cells) >= 30 and _share(cells, _PERSON_NAME) >= 0.9:
        return Recognised("A", "looks like names of persons and hardly repeats")
    if few is not None:
        return Recognised(None, f"a few of its cells look like {few}", undecided=True)
    return None


def _by_uniqueness(
    column: Column, words: list[str], cells: pa.Array, unique: float
) -> Recognised | None:
    if column.kind not in ("text", "integer") or len(cells) < 2:
        return None
    if unique >= 0.9 and (_SERIAL & set(words) or column.name.lower().endswith("id")):
        return Recognised("R", "a number or code that nearly every row has for itself")
    if unique < 0.99 or len(cells) < 30 or not _looks_assigned(column, cells):
        return None
    if column.kind == "text" and _share(cells, r"^\S*\d\S*$") >= 0.9:
        return Recognised("R", "a code that every row has for itself")
    return Recognised(
        None, "every row has a value of its own: a number that identifies, or a measure", None, True
    )


def _looks_assigned(column: Column, cells: pa.Array) -> bool:
    """Whether unique whole numbers look given out rather than measured: long, or one after another.

    Text counts as assigned.
    """
    import pyarrow.compute as pc

    if column.kind != "integer":
        return True
    ends = pc.min_max(cells)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    return bool(low >= 1_000_000 or high - low < 1.05 * len(cells))


def _phrase(words: list[str], phrase: str) -> bool:
    """Whether the words of a phrase follow one another in a name."""
    wanted = phrase.split()
    return any(words[i : i + len(wanted)] == wanted for i in range(len(words) - len(wanted) + 1))


def _share(cells: pa.Array, pattern: str) -> float:
    import pyarrow.compute as pc

    return float(pc.mean(pc.match_substring_regex(cells, pattern)).as_py() or 0.0)


def _is_free_text(cells: pa.Array) -> bool:
    """Long and hardly repeating: sentences rather than labels."""
    import pyarrow.compute as pc

    words = pc.add(pc.count_substring(cells, " "), 1)
    distinct = len(pc.unique(cells)) / len(cells)
    return bool(pc.mean(words).as_py() >= 6 and distinct >= 0.3 and len(cells) >= 10)
