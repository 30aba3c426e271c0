"""HIPAA's Safe Harbor: what the law lists is removed, generalized, or pointed out.

45 C.F.R. §164.514(b)(2). Direct identifiers are dropped; ZIP codes keep three digits, and none
where the three-digit area has 20,000 people or fewer; dates keep their year; ages above 89, and
birth years that imply one, become ``90+``. Every column is listed with what was done and why;
where that could not be decided nothing is written before a person has confirmed it.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.budget import Budget, within_budget
from sfumato.columns.codebooks import RESTRICTED_AREAS as RESTRICTED_AREAS
from sfumato.columns.codebooks import postal_text
from sfumato.columns.content import words_of
from sfumato.columns.persons import known_persons, not_compared, numbers_of_persons
from sfumato.columns.profile import profile
from sfumato.columns.recognise import KINDS, Recognised, recognise_columns
from sfumato.engines.protocol import Codes, smallest_dtype
from sfumato.engines.recoding import Cells, Recoding, Step
from sfumato.errors import ColumnError, InputError, ParameterError, SourceError, did_you_mean, spell
from sfumato.release import Promise, Release, publish
from sfumato.release.certificate import check_place
from sfumato.release.other_promises import WithoutColumns
from sfumato.release.promise import Finding
from sfumato.results import Result
from sfumato.tables import Table, table
from sfumato.tables.open import refuse_too_wide
from sfumato.wording import counted

MOST_RESTRICTED = 20_000
OLDEST = 89
"""Ages above this become one category."""
ABOVE = "90+"

FIRST_YEAR = 1900
"""Dates before it are doubted."""

FREE_TEXT = "free text"

PARTS_OF_DATES = {
    "month": 12, "mon": 12, "quarter": 4, "qtr": 4, "week": 53, "wk": 53, "day": 31,
    "weekday": 7, "dow": 7, "dayofweek": 7, "doy": 366, "dayofyear": 366, "dayofmonth": 31,
}  # fmt: skip
"""What a name may end with that says which part of a date its numbers are, and how far they go."""
_RATES = {"per", "a", "each", "every", "last", "past", "next", "since", "of"}
"""Words before it that make it another thing: hours per week, visits last month."""
IN_A_YEAR = {"days": 365, "day": 365, "weeks": 52, "week": 52, "wks": 52,
           "months": 12, "month": 12, "mo": 12, "mos": 12}  # fmt: skip
"""Units of ages that are not counted in years: how many a year has, fewer rather than more."""


@dataclass(frozen=True)
class HarborColumn(Result):
    """What happens to one column: its kind in the law, the action, and the reason."""

    column: str
    kind: str | None
    identifier: str | None
    action: str
    why: str
    undecided: bool = False

    @classmethod
    def of(cls, column: str, found: Recognised, action: str) -> HarborColumn:
        """From what was recognised, and what is done about it."""
        if found.kind is None and not found.unsure and found.form != FREE_TEXT:
            return cls(column, None, None, action, "nothing the law lists was recognised")
        identifier = KINDS[found.kind] if found.kind else None
        return cls(column, found.kind, identifier, action, found.why, found.unsure)


def read_areas(lines: Sequence[str]) -> frozenset[str]:
    """Restricted three-digit areas from a list of them, or from lines ``area,population``.

    Examples
    --------
    >>> sorted(read_areas(["zip3,population", "036,19000", "021,600000"]))
    ['036']
    >>> sorted(read_areas(["036", "059"]))
    ['036', '059']
    """
    areas: set[str] = set()
    for number, line in enumerate(lines, start=1):
        area, _, people = (part.strip() for part in line.partition(","))
        if not area or (number == 1 and not area.isdigit()):
            continue
        if not re.fullmatch(r"\d{1,3}", area) or (people and not re.fullmatch(r"\d+", people)):
            raise ParameterError(
                "a line is neither a three-digit area nor `area,population`",
                where=f"line {number}",
                remedy="Write e.g. 036 or 036,19000.",
            )
        if not people or int(people) <= MOST_RESTRICTED:
            areas.add(area.zfill(3))
    return frozenset(areas)


_FORMS = ("zip", "date", "birth date", "birth year", "age")
"""What columns hold that may stay in a coarser form."""


def harbor_cells(
    form: str,
    values: Codes,
    *,
    as_of: dt.date,
    restricted: Collection[str] = RESTRICTED_AREAS,
    pad: bool = False,
) -> tuple[Cells | None, str, list[str]]:
    """New cells for a column that may stay in a coarser form.

    Parameters
    ----------
    form
        ``zip``, ``date``, ``birth date``, ``birth year`` or ``age``.
    values
        The distinct values of the column.
    as_of
        The day on which ages are counted.

    Returns
    -------
    The cells (None where the column stays as it is), what was done, and warnings.

    Examples
    --------
    >>> import pyarrow as pa
    >>> ages = Codes(("age",), (np.arange(3, dtype=np.uint8),), (pa.array([40, 90, None]),))
    >>> cells, action, _ = harbor_cells("age", ages, as_of=dt.date(2024, 1, 1))
    >>> cells.values.take(pa.array(cells.codes)).to_pylist(), action
    (['40', '90+', None], 'ages above 89 to 90+')
    """
    (name,) = values.columns
    (distinct,) = values.values
    if form == "zip":
        areas = _areas(name, distinct, frozenset(restricted), pad)
        return _cells(areas), "first three digits, 000 for small areas", []
    if form == "age":
        return _ages(name, distinct)
    years = _numbers(name, distinct) if form == "birth year" else _years(name, distinct)
    warnings = _odd_years(name, years, values, as_of)
    if form == "date":
        small = pc.any(pc.less(years, 1000)).as_py()  # of four digits they are no numbers any more
        return _cells(_in_digits(years) if small else years), "year only", warnings
    born = [None if year is None else int(year) for year in years.to_pylist()]
    # somebody born in this year may already be 90
    oldest = as_of.year - OLDEST - 1
    shown = [None if y is None else ABOVE if y <= oldest else f"{y:04}" for y in born]

    return _cells(pa.array(shown, pa.string())), f"year only, {ABOVE} up to {oldest}", warnings


def _cells(column: pa.Array) -> Cells:
    """Cells from the new value of each code."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    encoded = column.dictionary_encode(null_encoding="encode")
    codes = np.asarray(encoded.indices)
    return Cells(codes.astype(smallest_dtype(len(encoded.dictionary))), encoded.dictionary)


def _in_digits(years: pa.Array) -> pa.Array:
    return pc.utf8_lpad(years.cast(pa.string()), 4, "0")


def _areas(name: str, values: pa.Array, restricted: frozenset[str], pad: bool) -> pa.Array:
    present = values.cast(pa.string()).drop_null()
    right = pc.sum(pc.match_substring_regex(present, r"^\d{3,10}(?:-\d+)?$")).as_py() or 0
    if wrong := len(present) - right:
        raise ColumnError(
            counted(wrong, "distinct value", does="hold no ZIP code"),
            where=f"column `{name}`",
            remedy="Make them null, or drop the column.",
        )
    text = postal_text(name, values, pad=pad)
    areas = pc.utf8_slice_codeunits(text, 0, 3)
    small = pc.is_in(areas, value_set=pa.array(sorted(restricted), pa.string()))
    return pc.if_else(small, pa.scalar("000"), areas)


def _ages(name: str, values: pa.Array) -> tuple[Cells | None, str, list[str]]:
    limit = _age_limit(name)
    texts = values.cast(pa.string()).to_pylist()
    ages = [_largest_number(text) for text in texts]
    warnings = []
    impossible = sum(age is not None and not 0 <= age < limit * 1.5 for age in ages)
    if impossible:
        warnings.append(f"column `{name}`: {impossible:,} distinct ages are below 0 or above 134")
    if all(age is None or age < limit for age in ages):
        return None, f"kept: no age above {OLDEST}", warnings
    shown = [
        ABOVE if age is not None and age >= limit else text
        for age, text in zip(ages, texts, strict=True)
    ]
    return _cells(pa.array(shown, pa.string())), f"ages above {OLDEST} to {ABOVE}", warnings


def _largest_number(text: str | None) -> float | None:
    """The largest number in a cell: an age, or the upper end of a range of ages.

    Examples
    --------
    >>> _largest_number("-3"), _largest_number("80 -95"), _largest_number("unknown")
    (-3.0, 95.0, None)
    """
    alone = re.fullmatch(r"\s*(-\d+(?:\.\d+)?)\s*", text or "")
    found = [alone[1]] if alone else re.findall(r"\d+(?:\.\d+)?", text or "")
    return max(map(float, found), default=None)


def _age_limit(name: str) -> int:
    """The age from which people are too old to be told apart, in the column's unit."""
    return (OLDEST + 1) * max((IN_A_YEAR.get(word, 1) for word in words_of(name)), default=1)


def _numbers(name: str, values: pa.Array) -> pa.Array:
    try:
        return values.cast(pa.float64(), safe=False)
    except pa.ArrowInvalid as error:
        raise ColumnError(
            "holds text among its numbers",
            where=f"column `{name}`",
            remedy=f"Make the others null ({spell('null_values', ['TEXT'])}), or drop the column "
            f"({spell('drop', [name])}).",
        ) from error


def _years(name: str, values: pa.Array) -> pa.Array:
    """The year of each date, whatever the column's type."""
    kind = values.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        text, years = values, pc.year(values).cast(pa.int32())
        years = pc.if_else(pc.is_in(years, pa.array(range(1, 10_000), pa.int32())), years, None)
    else:
        text = values.cast(pa.string())
        found = pc.extract_regex(text, r"(?:^|\D)(?P<year>\d{4})(?:$|\D)")
        years = pc.struct_field(found, "year").cast(pa.int32())
    unread = years.null_count - text.null_count
    if unread:
        raise ColumnError(
            counted(unread, "distinct date", does="have no year of four digits"),
            where=f"column `{name}`",
            remedy="Write dates as 1987-03-05, or drop the column.",
        )
    return years


def odd_dates(name: str, years: Any, counts: Any, last: int) -> list[str]:
    """Sentences about dates that can hardly be true: their years, the rows of each, and this year.

    Examples
    --------
    >>> odd_dates("birth", np.array([1850, 1990]), np.array([2, 5]), 2026)
    ['column `birth`: 2 dates lie before 1900 (placeholders?)']
    """
    odd = {
        f"before {FIRST_YEAR} (placeholders?)": int(counts[years < FIRST_YEAR].sum()),
        "in the future": int(counts[years > last].sum()),
    }
    return [
        f"column `{name}`: {counted(rows, 'date', does='lie')} {where}"
        for where, rows in odd.items()
        if rows
    ]


def _odd_years(name: str, years: pa.Array, values: Codes, as_of: dt.date) -> list[str]:
    counts = values.counts if values.counts is not None else np.ones(values.entries, np.int64)
    year = np.asarray(years.cast("float64").fill_null(np.nan))[values.arrays[0]]
    return odd_dates(name, year, counts, as_of.year)


def disallowed(name: str, form: str, values: pa.Array, restricted: Collection[str]) -> int:
    """How many distinct released values do not have the form the law allows.

    Examples
    --------
    >>> import pyarrow as pa
    >>> disallowed("zip", "zip", pa.array(["021", "000", "036", "02138"]), RESTRICTED_AREAS)
    2
    """
    text = values.cast(pa.string()).drop_null()
    if form == "zip":
        small = pc.is_in(text, value_set=pa.array(sorted(restricted), pa.string()))
        good = pc.and_(pc.match_substring_regex(text, r"^\d{3}$"), pc.invert(small))
    elif form == "age":
        ages = (_largest_number(cell) for cell in text.to_pylist() if cell != ABOVE)
        return sum(age is not None and age >= _age_limit(name) for age in ages)
    else:
        good = pc.or_(pc.equal(text, ABOVE), pc.match_substring_regex(text, r"^\d{4}$"))
    return len(text) - int(pc.sum(good).as_py() or 0)


@dataclass(frozen=True)
class SafeHarborForms:
    """ZIP codes, dates and ages have only the forms that the law leaves them."""

    forms: Mapping[str, str]
    """For each column what it holds: a ZIP code, a date, an age."""
    restricted: tuple[str, ...]
    """Beginnings of ZIP codes that stand for few people and become 000."""
    kind: str = field(default="safe-harbor-forms", init=False)

    def __post_init__(self) -> None:
        for form in self.forms.values():
            if form not in _FORMS:
                raise ParameterError(
                    f"there is no form `{form}`", remedy=did_you_mean(form, _FORMS)
                )

    def to_dict(self) -> dict[str, Any]:
        return {"forms": dict(self.forms), "restricted": list(self.restricted)}

    @classmethod
    def from_dict(cls, parameters: Mapping[str, Any]) -> Self:
        return cls(dict(parameters["forms"]), tuple(map(str, parameters["restricted"])))

    def check(self, table: Table, budget: Budget | None = None) -> Finding:
        wrong = {
            name: count
            for name, form in self.forms.items()
            if (count := disallowed(name, form, table.values(name).values[0], self.restricted))
        }
        return Finding(
            check=self.kind,
            holds=not wrong,
            say=f"{counted(len(self.forms) - len(wrong), 'column', does='hold')} ZIP areas, years "
            f"and ages as the law allows them, {len(wrong)} "
            f"{'does' if len(wrong) == 1 else 'do'} not{self._own_list()}",
            measured={"wrong": wrong},
            remedy="Publish again, or drop: " + ", ".join(f"`{name}`" for name in wrong),
        )

    def _own_list(self) -> str:
        """That small areas are others than those known here: whoever released chose them."""
        missing = set(RESTRICTED_AREAS) - set(self.restricted)
        if not missing:
            return ""
        return f"; {len(missing)} of {len(RESTRICTED_AREAS)} known areas of few people not heeded"


NUMBERS = ("G", "H", "I", "J", "K", "L", "R", None)
"""Kinds that are numbers of people or of what they hold; None where the user asked to drop it."""
INDIRECT = ("B", "C")
"""Kinds that tell something about people without naming them: geography, dates and ages."""


@within_budget
def safe_harbor(
    source: Any,
    *,
    keep: Sequence[str] = (),
    drop: Sequence[str] = (),
    as_of: dt.date | None = None,
    restricted_areas: Collection[str] = RESTRICTED_AREAS,
    pad_zip: bool = False,
    seed: int = 0,
    output: str | Path | None = None,
    format: str | None = None,
    force: bool = False,
    sign: str | Path | None = None,
    author: str | None = None,
    spreadsheet_safe: bool = False,
    sort: bool = False,
    budget: Budget | None = None,
) -> Release:
    """De-identify a table by HIPAA's Safe Harbor method.

    Parameters
    ----------
    source
        Anything `sfumato.table` opens.
    keep, drop
        Columns that stay as they are, or go, whatever was recognised; they also decide what
        could not be.
    as_of
        The day on which ages are counted; today where None.
    restricted_areas
        Three-digit ZIP areas with 20,000 people or fewer.
    pad_zip
        Give ZIP codes the leading zeros back that a spreadsheet took.
    output
        Write the release there; else it is only rehearsed.
    sign
        The key file that signs the certificate, as `sfumato keygen` made it.
    author
        Whom the certificate names as its author; nobody unless given.
    spreadsheet_safe
        Put an apostrophe before cells that a spreadsheet would run.
    sort
        Sort rows by the cells of the release, so that their order gives nothing away.

    Returns
    -------
    A release whose details hold `columns` (what was done to each and why) and `undecided`.

    Raises
    ------
    ColumnError
        If it is to be written and there are columns that could not be decided.

    Examples
    --------
    >>> import pyarrow as pa, sfumato as sf
    >>> patients = pa.table({"name": ["Ann Lee", "Bob Ray"], "zip": ["02138", "03601"],
    ...                      "sex": ["F", "M"]})
    >>> release = sf.safe_harbor(patients)
    >>> release.table.columns, release.table.sample(2).column("zip").to_pylist()
    (('zip', 'sex'), ['021', '000'])
    """
    budget = budget or Budget()
    opened = table(source, budget=budget)
    check_place(
        opened,
        output,
        format=format,
        force=force,
        sign=sign,
        spreadsheet_safe=spreadsheet_safe,
        budget=budget,
    )
    refuse_too_wide(opened, budget, writing=True, lookups=4)  # each column by itself
    kept, dropped = opened.require(keep), opened.require(drop)
    if both := [name for name in kept if name in dropped]:
        raise ParameterError(
            f"column `{both[0]}` is both kept and dropped",
            remedy=f"Say either {spell('keep', both[:1])} or {spell('drop', both[:1])}.",
        )
    plan = plan_safe_harbor(
        opened,
        keep=kept,
        drop=dropped,
        as_of=as_of or dt.date.today(),
        restricted=frozenset(restricted_areas),
        pad=pad_zip,
        seed=seed,
        budget=budget,
    )
    if output is not None:
        _require_decided(plan, opened.name)
    return publish(
        plan,
        output,
        sort=sort,
        format=format,
        force=force,
        sign=sign,
        author=author,
        spreadsheet_safe=spreadsheet_safe,
        budget=budget,
    )


def _require_decided(plan: Release, where: str) -> None:
    """Nothing is written while a person has not decided what the program could not."""
    doubtful = [c for c in plan.details["columns"] if c["undecided"]]
    if doubtful:
        names = [c["column"] for c in doubtful]
        raise ColumnError(
            "not decided: " + "; ".join(f"`{c['column']}` ({c['why']})" for c in doubtful),
            where=where,
            remedy=f"Look at them, then confirm those that may stay ({spell('keep', names)}) and "
            f"drop the others ({spell('drop', names)}).",
        )


def direct_identifiers(
    opened: Table, columns: Sequence[str], seed: int = 0, budget: Budget | None = None
) -> dict[str, str]:
    """Which of some columns name people outright, and why; such columns never help a release."""
    if not columns:
        return {}
    look = profile(opened.select(columns), seed=seed, budget=budget or Budget())
    return {
        name: one.why
        for name, one in recognise_columns(look).items()
        if not one.unsure
        and (one.form == FREE_TEXT or (one.kind is not None and one.kind not in INDIRECT))
    }


def plan_safe_harbor(
    opened: Table,
    *,
    keep: Sequence[str],
    drop: Sequence[str],
    as_of: dt.date,
    restricted: frozenset[str],
    pad: bool,
    seed: int,
    budget: Budget,
) -> Release:
    """Recognise every column and work out what becomes of it."""
    if not opened.rows:
        raise SourceError(
            "the table has no rows, and columns are recognised by what they hold",
            where=opened.name,
            remedy="Give a table with rows.",
        )
    work = _Work(as_of, restricted, pad)
    found = recognise_columns(profile(opened, seed=seed, budget=budget))
    for column in opened.schema:
        if column.name in keep:
            work.keep(opened, column.name, found[column.name])
        elif column.name in drop:
            work.add(HarborColumn(column.name, None, None, "dropped", "the user asked to drop it"))
        else:
            work.decide(opened, column.name, found[column.name])
    work.drop_numbers(opened, keep, seed)
    return work.plan(opened, seed)


def _part_of_date(opened: Table, name: str) -> bool:
    """Whether a column is called month, day or the like, and its numbers do not go beyond that."""
    *before, last = words_of(name) or ("",)
    rate = bool(_RATES & set(before))
    most = PARTS_OF_DATES.get("".join([*before, last]), None if rate else PARTS_OF_DATES.get(last))
    if most is None:
        return False
    (values,) = opened.values(name).values
    texts = values.cast(pa.string()).drop_null().to_pylist()
    numbers = [text for text in texts if not any(map(str.isalpha, text))]
    fits = all(re.fullmatch(r"\d{1,3}(\.0*)?", n) and float(n) <= most for n in numbers)
    return bool(texts) and fits


@dataclass
class _Work:
    """Collects what happens to each column."""

    as_of: dt.date
    restricted: frozenset[str]
    pad: bool
    columns: list[HarborColumn] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    forms: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def add(self, column: HarborColumn) -> None:
        self.columns.append(column)

    def keep(self, opened: Table, name: str, found: Recognised) -> None:
        """Keep a column for the user, and say so where the law lists what it seems to hold."""
        self.add(HarborColumn(name, None, None, "kept", "the user asked to keep it"))
        if found.unsure or (found.kind is None and found.form != FREE_TEXT):
            return
        if found.form == "age" and self._as_the_law_lets(opened.values(name)):
            return
        listed = KINDS[found.kind] if found.kind else "identifiers in free text"
        self.warnings.append(
            f"column `{name}` stays as it is, and the law lists {listed} ({found.why}): a release "
            "that shows them is not de-identified by Safe Harbor"
        )

    def _as_the_law_lets(self, ages: Codes) -> bool:
        """Whether ages may stay as they are."""
        try:
            return harbor_cells("age", ages, as_of=self.as_of)[0] is None
        except InputError:
            return False

    def decide(self, opened: Table, name: str, found: Recognised) -> None:
        if found.kind is None and not found.unsure and _part_of_date(opened, name):
            why = "named like a part of a date, which the law lists where it is a person's"
            self.add(HarborColumn(name, "C", KINDS["C"], "kept", why, undecided=True))
        elif found.unsure or (found.kind is None and found.form != FREE_TEXT):
            self.add(HarborColumn.of(name, found, "kept"))
        elif found.form is None or found.form == FREE_TEXT:
            self.add(HarborColumn.of(name, found, "dropped"))
        else:
            values = opened.values(name)
            cells, action, said = harbor_cells(
                found.form, values, as_of=self.as_of, restricted=self.restricted, pad=self.pad
            )
            if cells is not None:
                self.steps.append(Step(values, {name: cells}))
            self.forms[name] = found.form
            self.warnings += said
            self.add(HarborColumn.of(name, found, action))

    def drop_numbers(self, opened: Table, keep: Sequence[str], seed: int) -> None:
        """Drop columns whose values are those of numbers that are dropped, like a mother's."""
        kept = {c.column: at for at, c in enumerate(self.columns) if c.action == "kept"}
        for one in [c for c in self.columns if c.action == "dropped" and c.kind in NUMBERS]:
            names = [name for name in kept if name not in keep]
            values = known_persons(opened, one.column)
            if values is None:
                self.warnings.append(not_compared(one.column))
                continue
            for name in numbers_of_persons(opened, names, values, seed)[0]:
                why = f"its values are those of `{one.column}`, which is dropped"
                same = HarborColumn(name, one.kind, one.identifier, "dropped", why)
                self.columns[kept.pop(name)] = same

    def plan(self, opened: Table, seed: int) -> Release:
        dropped = tuple(c.column for c in self.columns if c.action == "dropped")
        promises: list[Promise] = []
        if dropped:
            promises.append(WithoutColumns(dropped))
        if self.forms:
            promises.append(SafeHarborForms(self.forms, tuple(sorted(self.restricted))))
        if not promises:
            self.warnings.append(
                "no column is left out or coarsened, so a certificate has nothing to promise, and "
                "`sfumato verify` nothing to check"
            )
        undecided = [c.column for c in self.columns if c.undecided]
        warnings = self.warnings + [
            f"column `{c.column}` must be decided ({spell('keep', [c.column])} or "
            f"{spell('drop', [c.column])}): {c.why}"
            for c in self.columns
            if c.undecided
        ]
        return Release.planned(
            opened,
            Recoding(tuple(self.steps), dropped),
            method="safe-harbor",
            asked={"as_of": self.as_of.isoformat(), "rule": "45 CFR 164.514(b)(2)"},
            promises=tuple(promises),
            column_actions={c.column: c.action for c in self.columns},
            details={"columns": [c.to_dict() for c in self.columns], "undecided": undecided},
            seed=seed,
            warnings=tuple(warnings),
        )
