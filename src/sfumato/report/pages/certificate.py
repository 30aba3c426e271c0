"""What a certificate says: on one sheet of paper, and as the release that it lies beside.

Every figure is one that the certificate holds, and gives nothing away that the certificate does
not; the sheet is a drawing that is turned into a PDF.
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from sfumato.budget import Budget
from sfumato.errors import MissingExtraError, ParameterError
from sfumato.files import names_same
from sfumato.privacy import model_from_dict
from sfumato.release.beside import pseudonyms_of
from sfumato.release.certificate import Certificate, certificate_path
from sfumato.release.publish import Release
from sfumato.release.verify import of_input, verify
from sfumato.tables import Table
from sfumato.wording import at_most, counted, phrase, shown

WIDTH, HEIGHT = 595, 842
"""A4, in points."""
LEFT, RIGHT = 56, 539
MOST_NAMES = 24
MANY_LETTERS = "DejaVu Sans"
"""Where a font lacks a letter, all others of the line would be drawn by whatever font has it."""
LEFT_TO_RIGHT = "\u200e"
"""A mark that keeps a line where it begins, whatever letters it begins with."""
INK, SOFT, LINE, GOOD, BAD = "#1f1f1f", "#5c5c5c", "#c9c7c0", "#00694d", "#a33f00"


def certificate_pdf(certificate: Certificate) -> bytes:
    """The certificate as one page of a PDF."""
    try:
        import vl_convert
    except ImportError:
        raise MissingExtraError("report", "the certificate on paper") from None
    made: bytes = vl_convert.svg_to_pdf(certificate_svg(certificate))
    return made


def certificate_svg(certificate: Certificate) -> str:
    """The certificate as one drawing.

    Examples
    --------
    >>> body = {"output": {"name": "out.csv", "rows": 9, "fingerprint": "sha256:1"}, "rows": 9,
    ...         "suppressed_rows": 0, "suppressed_cells": 2, "k": 3, "classes": 3,
    ...         "method": "cells", "asked": {"k": 3}, "promises": [], "column_actions": {}}
    >>> drawn = certificate_svg(Certificate(body))
    >>> "out.csv" in drawn, "33.4%" in drawn
    (True, True)
    """
    body = certificate.body
    sheet = _Sheet()
    sheet.text(LEFT, 78, "Certificate of a release", size=25, family="serif", weight=600)
    (name, *more) = _wrapped(str(body["output"]["name"]), (RIGHT - LEFT - 14) / 14) or [""]
    sheet.text(LEFT, 104, f"{name}…" if more else name, size=14)
    sheet.text(LEFT, 122, certificate.maker[:1].upper() + certificate.maker[1:] + ".", ink=SOFT)
    sheet.y = 140
    sheet.facts(_facts(body))
    sheet.head("What was promised, and what was measured")
    for holds, said in _promises(body["promises"]):
        sheet.point(said, GOOD if holds else BAD, "✓" if holds else "✗")
    if not body["promises"]:
        sheet.point("Nothing was promised.", BAD, "–")
    if hidden := _linking(body):
        which = f"seudonyms of {phrase(hidden, MOST_NAMES)} may say which rows"
        said = f"Rows were counted: p{which} are one person’s"
        if unnamed(body) is not None:
            said = f"P{which} belong together, and of those together nothing is promised"
        sheet.point(said, BAD, "!")
    sheet.head("What happened to the columns")
    for action, names in _columns(actions_of(body)).items():
        sheet.point(f"{action}: {phrase(names, MOST_NAMES)}", SOFT, "·")
    sheet.head("How it was made")
    sheet.point(f"Method {body['method']}. Asked: {_asked(body['asked'])}.", SOFT, "·")
    sheet.head("How to check it")
    mapped = any(promise["kind"] == "k-map" for promise in body["promises"])
    people = " --population TABLE_OF_PEOPLE" * mapped
    told = f"sfumato verify {body['output']['name']}{people}"
    sheet.point(told, SOFT, "·", family="monospace")
    again = "everything again from the released file"
    if mapped:
        again = "everything again, with the table of people that the maker of the release had"
    if unnamed(body) is not None:
        again = "again what the released file shows, which does not say whose rows they are"
    sheet.point(f"It measures {again}; this sheet proves nothing.", SOFT, "·")
    signed = "Signed" if certificate.signed is not None else "Not signed"
    sheet.point(f"{signed}. Fingerprint of the output:", SOFT, "·")
    sheet.point(str(body["output"]["fingerprint"]), SOFT, "", family="monospace")
    return sheet.svg()


def _facts(body: Mapping[str, Any]) -> list[tuple[str, str]]:
    k, classes = body.get("k"), body.get("classes")
    smallest = "–" if k is None else f"{k:,}"
    linking = bool(_linking(body))
    facts = [
        ("rows published", f"{body['rows']:,}"),
        ("rows left out", f"{body['suppressed_rows']:,}"),
        ("cells starred", f"{body['suppressed_cells']:,}"),
    ]
    if (persons := persons_promised(body)) is not None:
        facts += [
            (ALIKE, f"≥ {counted(persons, 'person')}"),
            ("rows of the smallest class", smallest),
        ]
        risk, by = f"≤ {at_most(1 / persons)}", "highest risk by one row" if linking else ""
    else:
        counts_rows = unnamed(body) is not None
        facts.append(("rows of the smallest class" * counts_rows or ALIKE, smallest))
        risk = at_most(None if not k else 1 / k)
        by = "highest risk if each row is a person" if linking or counts_rows else ""
    return [
        *facts,
        (
            "classes" if len(body.get("qi", ())) < 2 else "classes by the first set",
            "–" if classes is None else f"{classes:,}",
        ),
        (by or "highest risk", risk),
    ]


ALIKE = "smallest class (k)"


def actions_of(body: Mapping[str, Any]) -> dict[str, str]:
    """What happened to each column, as a certificate and what was asked say it."""
    done = {str(name): str(action) for name, action in body["column_actions"].items()}
    hidden = [name for name in pseudonyms_of(body["asked"]) if done.get(name) == "recoded"]
    return done | dict.fromkeys(hidden, "replaced by pseudonyms")


def _linking(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Pseudonyms that may say which rows are one person's, where nothing is promised of those."""
    return () if body["asked"].get("linkable") else pseudonyms_of(body["asked"])


def unnamed(body: Mapping[str, Any]) -> str | None:
    """The column by which persons were counted whom the release does not name."""
    told = (one for one in body["promises"] if one.get("person") and not one.get("measured"))
    return next((str(one["person"]) for one in told), None)


def persons_promised(body: Mapping[str, Any]) -> int | None:
    """Persons who look alike at least, where they were counted and the release names nobody.

    The certificate then counts rows: how many persons there are stays with the maker. None where
    everything that was promised is measured on the release.
    """
    for promise in body["promises"]:
        if promise["kind"] == "anonymity" and promise.get("person") and not promise.get("measured"):
            return max([1, *(model_from_dict(one).least_rows for one in promise["models"])])
    return None


def _promises(promises: Sequence[Mapping[str, Any]]) -> Iterator[tuple[bool, str]]:
    """Each promise, whether it held, and in words."""
    for promise in promises:
        measured = promise.get("measured", {})
        if "checks" in measured:
            yield from ((bool(one["holds"]), _checked(one)) for one in measured["checks"])
        elif promise["kind"] == "without-columns":
            gone, there = promise["columns"], measured.get("present", [])
            yield not there, f"{counted(len(gone), 'column')} left out: {phrase(gone, MOST_NAMES)}"
        elif promise["kind"] == "ratio-at-most":
            about = f"{promise['measure']} ratio of {phrase(promise['columns'], MOST_NAMES)}"
            ratio, most = measured.get("ratio"), promise["beta"]
            told = f"{about}: at most {most:g} asked, "
            if ratio is None:
                yield True, f"{told}counting pairs of different persons by {_elsewhere(promise)}"
            else:
                yield ratio <= most + 1e-12, f"{told}{ratio:.6g} measured"
        elif promise["kind"] == "safe-harbor-forms":
            wrong = measured.get("wrong", {})
            right = [name for name in promise["forms"] if name not in wrong]
            held = "ZIP areas, years and ages as the law allows them"
            yield not wrong, f"Safe Harbor: {held} in {phrase(right, MOST_NAMES)}"
        elif promise["kind"] == "anonymity":
            yield from ((True, said) for said in _of_persons(promise))
        else:
            kind = str(promise["kind"]).replace("-", " ")
            asked = _figures({n: v for n, v in promise.items() if n != "measured"})
            parts = [f"{asked} asked"] if asked else []
            parts.append(f"{found} measured" if (found := _figures(measured)) else ELSEWHERE)
            yield True, f"{kind}: {', '.join(parts)}"


ELSEWHERE = "measured when it was made"


def _of_persons(promise: Mapping[str, Any]) -> Iterator[str]:
    """What was promised of persons whom the release does not name."""
    for names in promise["qi"]:
        known = phrase(names, MOST_NAMES)
        for model in promise["models"]:
            about = f" of {model['column']}" if model.get("column") else ""
            asked = _figures({name: value for name, value in model.items() if name != "column"})
            yield (
                f"{model['model']}{about}, for whoever knows {known}: {asked} asked, counting "
                f"persons by {_elsewhere(promise)}"
            )


def _elsewhere(promise: Mapping[str, Any]) -> str:
    """The column of persons, and that a reader does not see it."""
    return f"{promise['person']}; {ELSEWHERE}, and not shown by the release"


def _checked(one: Mapping[str, Any]) -> str:
    about = f" of {one['column']}" if one.get("column") else ""
    known = phrase(one["qi"], MOST_NAMES)
    asked, measured = _figures(one["asked"]), _figures(one["measured"])
    return f"{one['model']}{about}, for whoever knows {known}: {asked} asked, {measured} measured"


def _figures(named: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} = {value:.6g}" if isinstance(value, float) else f"{name} = {value:,}"
        for name, value in named.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    )


def _asked(asked: Mapping[str, Any]) -> str:
    texts = [f"{n} {v}" for n, v in asked.items() if isinstance(v, str) and n != "method"]
    levels = asked.get("levels") or {}
    texts += [f"level {level} of {name}" for name, level in levels.items()]
    return ", ".join(part for part in (_figures(asked), *texts) if part) or "nothing more"


def _columns(actions: Mapping[str, str]) -> dict[str, list[str]]:
    """Columns by what was done to them."""
    found: dict[str, list[str]] = {}
    for name, action in actions.items():
        found.setdefault(action, []).append(name)
    return found


def _wide(character: str, family: str) -> float:
    """How wide a character is at most, in heights of its font."""
    if family == "monospace" and character < "\u0250":
        return 0.61
    if character >= "\u0250":
        return 1.0 if character >= "\u1100" else 0.75
    if character in " .,:;'|!()[]ijltfrI":
        return 0.42
    return 1.0 if character in "mwMW@%" else 0.72 if character.isupper() else 0.62


def _wrapped(said: str, width: float, family: str = "sans-serif") -> list[str]:
    """Lines that fit, broken between words, or within one that is too long.

    Examples
    --------
    >>> _wrapped("age and sex", 5), _wrapped("0123456789", 4)
    (['age and', 'sex'], ['012345', '6789'])
    """
    lines: list[str] = []
    left = 0.0
    for word in said.split():
        long = sum(_wide(character, family) for character in word)
        if lines and long + 0.42 <= left:
            lines[-1] += f" {word}"
            left -= long + 0.42
            continue
        lines.append("")
        left = width
        for character in word:
            wide = _wide(character, family)
            if wide > left:
                lines.append("")
                left = width
            lines[-1] += character
            left -= wide
    return lines


class _Sheet:
    """What is drawn, from top to bottom; what does not fit is counted, never drawn outside."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.y = 0.0
        self.lost = 0

    def text(
        self, x: float, y: float, said: str, *, size: float = 10.5, ink: str = INK,
        weight: int = 400, family: str = "sans-serif",
    ) -> None:  # fmt: skip
        if re.search(r"[\u0250-\u1fff\u2c00-\U0010ffff]", said):
            family, said = f"{MANY_LETTERS}, {family}", LEFT_TO_RIGHT + said
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" fill="{ink}" font-weight="{weight}" '
            f'font-family="{family}">{html.escape(said)}</text>'
        )

    def head(self, said: str) -> None:
        self.y += 34
        if self.y > HEIGHT - 60:
            return
        self.parts.append(
            f'<line x1="{LEFT}" x2="{RIGHT}" y1="{self.y - 20:g}" y2="{self.y - 20:g}" '
            f'stroke="{LINE}"/>'
        )
        self.text(LEFT, self.y, said, size=12.5, family="serif", weight=600)
        self.y += 6

    def facts(self, named: Sequence[tuple[str, str]]) -> None:
        across = (RIGHT - LEFT) / 3
        for at, (name, value) in enumerate(named):
            x, y = LEFT + across * (at % 3), self.y + 24 + 42 * (at // 3)
            self.text(x, y, name, size=9.5, ink=SOFT)
            self.text(x, y + 18, value, size=16)
        self.y += 42 * ((len(named) + 2) // 3) + 8

    def point(self, said: str, ink: str, mark: str, family: str = "sans-serif") -> None:
        lines = _wrapped(said, (RIGHT - LEFT - 16) / 10.5, family) or [""]
        if self.lost or self.y + 15 * len(lines) > HEIGHT - 70:
            self.lost += 1
            return
        self.text(LEFT, self.y + 15, mark, ink=ink, weight=600)
        for line in lines:
            self.y += 15
            self.text(LEFT + 16, self.y, line, family=family)

    def svg(self) -> str:
        if self.lost:
            more = f"{counted(self.lost, 'more line')}: see the certificate itself."
            self.text(LEFT, HEIGHT - 44, more, ink=SOFT)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
            f'viewBox="0 0 {WIDTH} {HEIGHT}"><rect width="{WIDTH}" height="{HEIGHT}" '
            f'fill="#ffffff"/>{"".join(self.parts)}</svg>'
        )


def certified_release(
    output: str | os.PathLike[str],
    original: Table,
    *,
    budget: Budget | None = None,
    population: Any = None,
    hierarchies: str | None = None,
) -> Release:
    """The release that lies at `output`, with its certificate beside it.

    Its promises are measured again; `findings` and `verified` are of now. A k-map takes the table
    of people, and the trees whose labels are shown.

    Raises
    ------
    ParameterError
        If the certificate is about another table than `original`.
    PromiseError
        If the certificate was altered.
    """
    certificate = Certificate.read(certificate_path(output))
    body = certificate.body
    same = names_same(body["input"]["fingerprint"], original.fingerprint())
    if same is False:
        raise ParameterError(
            "the release was made of another table",
            where=os.fspath(output),
            remedy=f"Give the table it was made of, {body['input']['name']}, unchanged.",
        )
    people = {} if population is None else {"population": population}
    checked = verify(os.fspath(output), budget=budget, hierarchies=hierarchies, **people)
    remarks = tuple(checked.not_promised.get("remarks", ()))
    own = {field.name for field in fields(Release)} - {"output", "certificate", "promises"}
    known = {name: body[name] for name in own if name in body}
    known["qi"] = tuple(tuple(names) for names in body.get("qi", ()))
    known["column_actions"] = actions = actions_of(body)
    if same:  # counted, whatever the certificate says
        known["suppressed_rows"] = max(original.rows - body["rows"], 0)
    anonymous = [one for one in body["promises"] if one["kind"] == "anonymity"]
    if anonymous and not any(one.get("person") for one in anonymous):  # rows were counted
        known["asked"] = {name: told for name, told in body["asked"].items() if name != "person"}
    details: dict[str, Any] = {}
    if unnamed(body) is not None:
        known["k"] = None  # the certificate counts rows
    if (persons := persons_promised(body)) is not None:
        details["persons_promised"] = persons
    if body["method"] == "mask":
        details["published"] = tuple(body["output"]["columns"])
        details["dropped"] = tuple(name for name in actions if actions[name] == "left out")
    return Release(
        **known,
        findings=(*checked.findings, *(of_input(body, original) if same else ())),
        verified=True,
        output=shown(output),
        destination=os.fspath(output),
        details=details,
        warnings=(*remarks, *(() if same else (NOT_RECOGNISED,))),
        certificate=certificate,
    )


NOT_RECOGNISED = (
    "whether the release was made of this table was not checked: the certificate names its input "
    "under another key"
)
