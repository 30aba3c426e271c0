"""How figures, lists and addresses are said, in errors, on pages and on the command line."""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

_UNITS: ContextVar[tuple[str, str]] = ContextVar("units", default=("rows", "row"))
_SINGLE = {"people": "person", "companies": "company"}


def units(number: int = 2) -> str:
    """What is counted in a table: rows, unless somebody said otherwise.

    Examples
    --------
    >>> with counting("companies"):
    ...     units(), units(1)
    ('companies', 'company')
    >>> units(), units(1)
    ('rows', 'row')
    """
    return noun(_UNITS.get()[0], number)


def unit_of(thing: str, number: int = 1) -> str:
    """The word for what a figure counts, a row or a person: the one that is used for it here.

    Examples
    --------
    >>> with counting("patients", "person"):
    ...     unit_of("person", 2), unit_of("row", 2)
    ('patients', 'rows')
    """
    many, of = _UNITS.get()
    return noun(many if thing == of else f"{thing}s", number)


def in_units(said: str) -> str:
    """What was said of rows, or of persons, in the word that is used for them here.

    Examples
    --------
    >>> with counting("patients"):
    ...     in_units("9 rows of `rows` are alone, and whoever knows a row finds it")
    '9 patients of `rows` are alone, and whoever knows a row finds it'
    """
    many, of = _UNITS.get()
    if many == f"{of}s":
        return said
    parts = said.split("`")  # names of columns stay
    for at in range(0, len(parts), 2):
        parts[at] = re.sub(rf"\b{of}s\b", many, parts[at])
        parts[at] = re.sub(rf"(?<=\d ){of}\b", noun(many, 1), parts[at])
        parts[at] = parts[at].replace(f"in most {many}", f"for most {many}")
    return "`".join(parts)


def name_list(names: Sequence[str]) -> str:
    """Names between commas, as the command line reads them: what they hold besides is quoted.

    Examples
    --------
    >>> name_list(["age", "city, state", " sex"])
    'age,"city, state"," sex"'
    """
    parting = re.compile(r'[,"\r\n]|^\s|\s$|^$')
    return ",".join(
        '"' + name.replace('"', '""') + '"' if parting.search(name) else name for name in names
    )


def for_shell(*words: str) -> str:
    r"""Words as a shell takes them, on one line whatever they hold.

    Examples
    --------
    >>> for_shell("sfumato", "risk", "my table.csv", "--qi", "Age\n(years)")
    "sfumato risk 'my table.csv' --qi $'Age\\n(years)'"
    """
    return " ".join(
        shlex.quote(word) if word.isprintable() else "$'" + _ESCAPED.sub(_escape, word) + "'"
        for word in words
    )


_ESCAPED = re.compile(r"[\\'\x00-\x1f\x7f]")


def _escape(found: re.Match[str]) -> str:
    sign = found[0]
    return f"\\{sign}" if sign in "\\'" else {"\n": r"\n"}.get(sign, f"\\{ord(sign):03o}")


def noun(many: str, number: int | None) -> str:
    """The word for so many, given the word for several.

    Examples
    --------
    >>> noun("rows", 1), noun("people", 1), noun("persons", 0)
    ('row', 'person', 'persons')
    """
    return _SINGLE.get(many, many.removesuffix("s")) if number == 1 else many


@contextmanager
def counting(many: str, of: str = "row") -> Iterator[None]:
    """Speak of these where rows are counted, or persons."""
    before = _UNITS.set((many, of))
    try:
        yield
    finally:
        _UNITS.reset(before)


def percent(share: float | None) -> str:
    """A share as people say it: whole when it is, and never none or all when it is not.

    Examples
    --------
    >>> percent(0.25), percent(0.1234), percent(0.00001), percent(0.99999), percent(None)
    ('25%', '12.3%', '<0.1%', '>99.9%', '–')
    """
    if share is None:
        return "–"
    if 0 < share < 0.001:
        return "<0.1%"
    if 0.999 < share < 1:
        return ">99.9%"
    said = f"{share:.1%}".replace(".0%", "%")
    return "0%" if said == "-0%" else said


def hundredths(share: float, digits: int = 2) -> str:
    """A share with two digits or more, which is never none or all when it is not.

    Examples
    --------
    >>> hundredths(0.0), hundredths(0.125), hundredths(0.00001), hundredths(0.99999)
    ('0.00%', '12.50%', '<0.01%', '>99.99%')
    """
    least = 10 ** -(digits + 2)
    if 0 < share < least:
        return f"<{least:.{digits}%}"
    return f">{1 - least:.{digits}%}" if 1 - least < share < 1 else f"{share:.{digits}%}"


def ratio(value: float, digits: int = 9) -> str:
    """A ratio with so many digits, which is never one when it is not.

    Examples
    --------
    >>> ratio(0.25), ratio(1.0), ratio(1 - 1e-12)
    ('0.25', '1', '>0.999999999')
    """
    said = f"{value:.{digits}g}"
    return f">0.{'9' * digits}" if said == "1" and value < 1 else said


def at_most(share: float | None) -> str:
    """A share that nothing exceeds, rounded up: what is said of a limit must not be below it.

    Examples
    --------
    >>> at_most(1 / 26), percent(1 / 26), at_most(0.2), at_most(0.00001), at_most(None)
    ('3.9%', '3.8%', '20%', '0.1%', '–')
    """
    return percent(None if share is None else min(1.0, math.ceil(share * 1000 - 1e-9) / 1000))


def phrase(names: Sequence[str], most: int = 12) -> str:
    """Names as a sentence lists them; a long list ends with how many more there are.

    Examples
    --------
    >>> phrase(["age", "sex", "zip"])
    'age, sex and zip'
    """
    shown = list(names[:most])
    if len(names) > most:
        return f"{', '.join(shown)} and {len(names) - most} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def counted(number: int, thing: str, *, many: str | None = None, does: str = "") -> str:
    """A number of things, and what they do, in the words for several of them.

    Examples
    --------
    >>> counted(1, "row"), counted(2500, "row"), counted(1, "person", many="people")
    ('1 row', '2,500 rows', '1 person')
    >>> counted(1, "row", does="match fewer"), counted(3, "row", does="are left out")
    ('1 row matches fewer', '3 rows are left out')
    """
    if number == 1:
        return " ".join([f"1 {thing}", *_of_one(does)])
    ending = "es" if thing.endswith("s") else "s"
    return " ".join([f"{number:,} {many or thing + ending}", *does.split()])


def among(
    number: int, whole: int, thing: str, *, many: str | None = None, does: str, share: bool = False
) -> str:
    """How many of all do something.

    Examples
    --------
    >>> among(1, 400, "row", does="stand alone")
    '1 of 400 rows stands alone'
    >>> among(100, 400, "person", many="people", does="stand alone", share=True)
    '100 of 400 people (25%) stand alone'
    """
    part = f" ({percent(number / max(1, whole))})" if share else ""
    doing = " ".join(_of_one(does)) if number == 1 else does
    return f"{number:,} of {counted(whole, thing, many=many)}{part} {doing}"


def rows_known(m: int | str | None) -> str:
    """How many rows of a person are known, where m of them may be.

    Examples
    --------
    >>> rows_known(1), rows_known(2), rows_known("all")
    ('at most 1 row', 'at most 2 rows', 'all rows')
    """
    return f"at most {counted(m, 'row')}" if isinstance(m, int) else "all rows"


def several_below(k: int) -> str:
    """How many are more than one and fewer than k; empty where no number is.

    Examples
    --------
    >>> several_below(5), several_below(3), several_below(2)
    ('2 to 4', '2', '')
    """
    return f"2 to {k - 1:,}" if k > 3 else "2" if k == 3 else ""


def _of_one(does: str) -> list[str]:
    """What several do, said of one."""
    verb, *rest = does.split() or [""]
    irregular = {
        "are": "is",
        "were": "was",
        "have": "has",
        "had": "had",
        "match": "matches",
        "": "",
    }
    return [word for word in (irregular.get(verb, verb + "s"), *rest) if word]


def shortened(text: str, lists: Sequence[Sequence[str]], most: int = 6) -> str:
    """A text in which long lists of names end with how many more there are.

    Examples
    --------
    >>> shortened("left out: a, b, c, d", [["a", "b", "c", "d"]], most=2)
    'left out: a, b and 2 more'
    """
    for names in lists:
        if len(names) > most:
            text = text.replace(", ".join(names), phrase(names, most))
    return text


def sentence(text: str) -> str:
    """A note as a sentence of its own; a symbol that it begins with stays as it is.

    Examples
    --------
    >>> sentence("a sample is small"), sentence("k is out of range")
    ('A sample is small.', 'k is out of range.')
    """
    first = text[:1] if text[1:2] == " " and text[:1] != "a" else text[:1].upper()
    return first + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def amount(size: int) -> str:
    """A number of bytes.

    Examples
    --------
    >>> amount(999), amount(1_530), amount(27_800_000)
    ('999 B', '1.5 kB', '27.8 MB')
    """
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size} B"


_HARMLESS = frozenset({"host", "hostaddr", "port", "sslmode", "connect_timeout"})
_SCHEME = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]*)://")
_MISTYPED = re.compile(
    r"(?i)://|\w:[^/\\\s]*@|\bpass(word|wd)?\s*=|^\W*(postgres|mysql|mariadb)\w*:?/"
)
_UNSHOWN = "(an address that cannot be read; it is not shown, since it may hold a password)"


def shown(place: str | os.PathLike[str]) -> str:
    """A path as it is, an address of a database without its secrets.

    A password may hold any character, also those that end it in an address (``@ / ? #``) and that
    its owner forgot to write as ``%40 %2F %3F %23``. So nothing is shown that could be part of one:
    of the credentials only the name before the first colon, and parameters only if all are
    harmless. What was to be an address, and is not written as one, is not shown at all.

    Examples
    --------
    >>> shown("people.csv"), shown("postgresql://ada:secret@server/clinic#people")
    ('people.csv', 'postgresql://ada@server/clinic#people')
    >>> shown("postgresql://ada:s3/c@r#t@db.example/census?sslmode=require#people")
    'postgresql://ada@db.example/census?sslmode=require#people'
    >>> shown("'postgresql:/ada:secret@db.example/census'")
    '(an address that cannot be read; it is not shown, since it may hold a password)'
    """
    text = os.fspath(place)
    found = _SCHEME.match(text)
    if found is None:
        return _UNSHOWN if _MISTYPED.search(text) else text
    rest = text[found.end() :]
    before, at, where = rest.rpartition("@")
    name = re.split(r"[:/?#@]", rest, maxsplit=1)[0]
    if "?" in before:  # a password with a question mark, or a parameter with an at sign
        table = rest.rpartition("#")[2] if "#" in where else ""
        return f"{found[1]}://{name}" + (f"#{table}" if table else "")
    where = _without_parameters(where)
    if at:
        where = f"{name}@{where}" if name else where
    elif ":" in where:
        where = _without_port(where)
    return f"{found[1]}://{where}"


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


_UNSEEN = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Characters that steer a terminal or turn the direction of writing; line ends are none of them."""


def visible(text: str) -> str:
    """A text whose control characters are written out, so that no terminal obeys them.

    Examples
    --------
    >>> visible("age\x1b[2J")
    'age\\\\x1b[2J'
    """
    return _UNSEEN.sub(lambda found: ascii(found[0])[1:-1], text)


def visible_json(text: str) -> str:
    """The same for JSON, which stays what it was."""
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
