"""What is known of releases and of questions, while the workbench runs and on another day.

A certificate says what whoever has the release may know. What the release cost, whom its maker was
warned of and how the file was read stays at home: in a file that names the certificate it belongs
to. Where either was replaced, or the file is damaged, nothing is known. Of what other verbs were
asked the questions are kept, and asked again: a page from a file could say anything.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from sfumato.errors import SfumatoError
from sfumato.files import read_unlinked, write_text
from sfumato.privacy.check import Risk
from sfumato.release.publish import Release
from sfumato.report.pages.certificate import persons_promised, unnamed
from sfumato.report.pages.risk import worst_risk
from sfumato.results import plain
from sfumato.web.choices import Choices, choices_from, choices_to
from sfumato.web.sources import Reading
from sfumato.wording import counted, in_units, phrase, sentence

ABOUT_FILES = ("certificate", "signature", "fingerprint")
"""Checks of a release that are about its files, not about people."""
NOT_HERE = "\0"
"""Stands for what no page lets one set."""
Names = tuple[str, ...]


@dataclass(frozen=True)
class Kept:
    """What was known of a release when it was made."""

    reading: Reading
    """How the file was read."""
    utility: Mapping[str, Any] = field(default_factory=dict)
    column_actions: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    persons: Mapping[str, Any] = field(default_factory=dict)
    risk: Risk | None = None
    """Of persons, where they were counted: the release does not say who is who."""
    k: int | None = None
    """Persons of the smallest class; None where rows were counted."""
    settings: str = ""
    """The digest of the settings that repeat it."""
    size: tuple[int, ...] = ()
    """Bytes of the file, and when they were written."""

    @classmethod
    def of(cls, release: Release, reading: Reading, settings: str = "") -> Kept:
        """What a release that was just made knows of itself."""
        persons = release.details.get("persons") or {}
        risks = release.details.get("risk")
        risk = worst_risk(risks) if persons and risks else None
        return cls(
            reading, release.utility, release.column_actions, release.warnings, persons, risk,
            release.k if persons else None, digest(settings),
        )  # fmt: skip

    def known_to(self, release: Release) -> Release:
        """A release that was read from its files, with what was known when it was made."""
        now = [one for one in release.warnings if one not in self.warnings]
        counted: dict[str, Any] = {"persons": self.persons} if self.persons else {}
        counted |= {"risk": (self.risk,)} if self.risk is not None else {}
        return replace(
            release,
            utility=self.utility,
            column_actions=self.column_actions or release.column_actions,
            # What is counted again on the release may know less, such as which are pseudonyms.
            warnings=(*self.warnings, *(one for one in now if not _is_counted(one))),
            details={**release.details, **counted},
            k=release.k if self.k is None else self.k,
        )

    def save(self, home: Path, name: str, output: str) -> None:
        """Keep it beside the certificate of a release."""
        told = {part.name: plain(getattr(self, part.name)) for part in fields(self)}
        told |= {
            "certificate": digest_of(home, output),
            "reading": self.reading.said(),
            "size": size_of(home / output),
        }
        write_text(home / f"{name}.made.json", json.dumps(told, indent=1) + "\n")

    @classmethod
    def read(cls, home: Path, name: str, output: str) -> Kept | None:
        """What was kept of a release; None where nothing was, or not of this one."""
        try:
            told = json.loads(read_unlinked(home / f"{name}.made.json", "what was kept"))
            if told["certificate"] != digest_of(home, output):
                return None
            return cls(
                Reading.of(told["reading"]),
                _utility(told["utility"]),
                _texts(told["column_actions"]),
                tuple(_texts(dict(enumerate(told["warnings"]))).values()),
                _counts(told["persons"]),
                _risk(told["risk"]),
                None if told.get("k") is None else int(told["k"]),
                str(told.get("settings", "")),
                tuple(map(int, told.get("size", ()))),
            )
        except (SfumatoError, OSError, ValueError, TypeError, KeyError, AttributeError):
            return None


def digest_of(home: Path, output: str) -> str:
    """By which it is seen that a certificate is the one that was written then."""
    return digest(read_unlinked(home / f"{output}.certificate.json", "the certificate"))


def digest(text: str) -> str:
    """By which a text is known again."""
    return hashlib.sha256(text.encode()).hexdigest()


def size_of(place: Path) -> tuple[int, ...]:
    """The size of a file, and when it was written; nothing where there is none."""
    try:
        found = place.stat()
    except OSError:
        return ()
    return found.st_size, found.st_mtime_ns


def _is_counted(warning: str) -> bool:
    from sfumato.release.beside import NOT_PROMISED

    return warning.startswith(NOT_PROMISED)


def _texts(told: Mapping[Any, Any]) -> dict[Any, str]:
    if not all(isinstance(one, str) for one in told.values()):
        raise TypeError("no texts")
    return dict(told)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _utility(told: Mapping[str, Any]) -> dict[str, Any]:
    """Measures, and shares of columns; anything else is not drawn."""
    for value in told.values():
        inside = value.values() if isinstance(value, Mapping) else [value]
        if isinstance(value, Mapping) and not all(map(_is_number, inside)):
            raise TypeError("no shares of columns")
    lost = told.get("ncp")
    if lost is not None and not _is_number(lost):
        raise TypeError("no measure")
    return dict(told)


def _counts(told: Mapping[str, Any]) -> dict[str, Any]:
    if told and not all(isinstance(told[name], int) for name in ("persons", "left_out")):
        raise TypeError("no persons")
    return dict(told)


def _risk(told: Mapping[str, Any] | None) -> Risk | None:
    """A risk, and that of the release."""
    if told is None:
        return None
    numbers = {f.name for f in fields(Risk)} - {"qi", "basis", "households", "after"}
    if not all(told[name] is None or _is_number(told[name]) for name in numbers):
        raise TypeError("no risk")
    return Risk(
        **{name: told[name] for name in numbers},
        qi=tuple(map(str, told["qi"])),
        basis=str(told["basis"]),
        after=_risk(told.get("after")),
    )


@dataclass(frozen=True)
class Made:
    """A release that was written: all that pages say of it is said from here.

    Decisions may have changed since; `choices` and `settings` are those it was made with.
    """

    name: str
    """What its files are called, without an ending: ``release``, ``release-2``, …"""
    choices: Choices | None
    """None where another verb made it, or where they are not known any more."""
    settings: str
    release: Release
    holds: bool = False
    shown: str = ""
    """Its page, drawn once."""
    shared: Names = ()
    """Columns worth hiding of which classes hold one value only, and nothing was asked of them."""
    single: Names = ()
    """Columns worth hiding with numbers that one row alone holds."""
    reading: Reading | None = None
    """How the file was read; None where that is not known any more."""
    seen: tuple[tuple[int, ...] | None, ...] = ()
    """Its files when they were measured; see `Project.altered`."""
    repeats: bool = True
    """Whether the settings are known to be those it was made with."""
    judged: tuple[Names, str] = ((), "")
    """By which columns worth hiding, and whose persons, it was drawn; see `Project.outdated`."""

    @property
    def unchecked(self) -> Names:
        """What was promised and measured when it was made, and could not be checked again."""
        return tuple(what for finding in self.release.findings for what in finding.unchecked)

    @property
    def unchanged(self) -> bool:
        """Whether its file was seen to be the one that the certificate is about."""
        return any(one.check == "fingerprint" and one.holds for one in self.release.findings)

    @property
    def replaced(self) -> bool:
        """Whether its file was seen to be another one."""
        return any(one.check == "fingerprint" and one.broken for one in self.release.findings)

    def differs(self, now: Choices, reading: Reading) -> list[str]:
        """What is set otherwise now, as far as it matters for a release."""
        said = [] if self.choices is None else self.choices.differs(now)
        if self.reading is None and self.choices is not None:
            return [*said, "how the file was read then is not known any more"]
        if self.reading not in (None, reading):
            said.append("the file is read otherwise, and figures of the table are those of now")
        return said

    @property
    def how(self) -> str:
        """How it was made, in words."""
        if self.choices is not None:
            return sentence(self.choices.way).removesuffix(".")
        asked = demand_of(self.release.asked)
        return self.release.method.capitalize() + (f" with {asked}" if asked else "")

    @property
    def promise(self) -> str:
        """What was promised, as it was measured."""
        if self.choices is not None:
            return f"{self.choices.demand}."
        told = [one for one in self.release.findings if one.check not in ABOUT_FILES]
        return sentence("; ".join(finding.say for finding in told))


@dataclass(frozen=True)
class Version:
    """A release that lies in the folder, by its certificate; nothing of it is measured again."""

    name: str
    output: str
    date: str
    method: str
    demand: str
    alike: str
    """How many look alike at least: rows, or persons where they were counted."""
    rows: int
    apart: str = ""
    """What was done to columns otherwise than in others of the same method and numbers."""
    other: bool = False
    """Whether it was made of another table than the one that is open."""
    changed: bool = False
    """Whether its file may be another one than was measured."""
    sorted: bool = False
    """Whether its rows left their order."""


def version_of(
    name: str, output: str, body: Mapping[str, Any], kept: Kept | None, changed: bool
) -> Version:
    """A release as its certificate describes it, and what was kept of the persons in it."""
    k, persons = body.get("k"), persons_promised(body)
    alike = "–" if k is None else f"{k:,}{' rows' if unnamed(body) else ''}"
    if kept is not None and changed:
        alike = "–"
    elif kept is not None and kept.k is not None:
        alike = in_units(counted(kept.k, "person"))
    elif persons is not None:
        alike = in_units(f"≥ {counted(persons, 'person')}")
    return Version(
        name=name,
        output=output,
        date=str(body["date"]),
        method=str(body["method"]),
        demand=demand_of(body["asked"], len(body.get("qi", ()))),
        alike=alike,
        rows=int(body["rows"]),
        changed=changed,
        sorted=bool(body["output"].get("sorted")),
    )


def apart_from(
    one: Version, among: Sequence[Version], done: Mapping[str, Mapping[str, str]]
) -> str:
    """By what a release differs from those that would be called the same."""
    mine = done[one.name]
    same = [other for other in among if (other.method, other.demand) == (one.method, one.demand)]
    differ = [n for n in mine if any(done[other.name].get(n) != mine[n] for other in same)]
    return phrase([f"{name} {mine[name]}" for name in differ], 3)


def demand_of(asked: Mapping[str, Any], sets: int = 1) -> str:
    """The numbers that were asked for, and for how many sets of columns."""
    said = [
        f"{symbol.replace('_', '-')} = {value:g}"
        if symbol != "suppression_limit"
        else f"up to {100 * value:g}% of the rows left out"
        for symbol, value in asked.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    ]
    people = asked.get("population")
    said += [f"people of {Path(people).name}"] if isinstance(people, str) else []
    return ", ".join([*said, *([f"for each of {sets} sets of columns"] if sets > 1 else [])])


@dataclass(frozen=True)
class Asked:
    """What another verb was asked: the form, and the decisions of then."""

    form: Mapping[str, list[str]]
    choices: Choices


def questions_to(asked: Mapping[str, Asked]) -> str:
    """Questions by verb, as text for another day; no verb asks for trees."""
    told = {
        name: {"form": dict(one.form), "choices": choices_to(replace(one.choices, trees={}))}
        for name, one in asked.items()
    }
    return json.dumps(told, indent=1) + "\n"


def questions_from(text: str) -> dict[str, Asked]:
    """What `questions_to` wrote.

    Raises
    ------
    ValueError, TypeError, KeyError, AttributeError, ParameterError
        It did not write this.
    """
    return {
        str(name): Asked(
            {str(field): [str(value) for value in values] for field, values in one["form"].items()},
            choices_from(one["choices"]),
        )
        for name, one in json.loads(text).items()
    }


@dataclass(frozen=True)
class Answered:
    """What another verb was asked, and its page; see `sfumato.web.verbs`."""

    by: Asked
    given: Mapping[str, Any]
    """What was answered to its questions."""
    asked: Mapping[str, Any]
    """The parameters of the verb."""
    command: str
    """Which asks the same."""
    shown: str = ""
    undecided: tuple[str, ...] = ()
    """Columns that somebody must decide about before a release is made."""


def noted(note: str) -> str:
    """What a release does not promise, with the remedies that pages offer.

    Examples
    --------
    >>> noted("`a` is far; limit it first, by the action `top` of the column")
    '`a` is far; limit it in the file first, and read that again'
    """
    said, _, remedy = note.partition("; ")
    remedy = re.sub(r"limit it first, by the action `\w+` of the column",
                    "limit it in the file first, and read that again", remedy)  # fmt: skip
    here = [one for one in remedy.split(", or ") if one and NOT_HERE not in one]
    return in_units("; ".join(part for part in (said, ", or ".join(here)) if part))
