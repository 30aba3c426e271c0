"""The synthetic hospital: one row a patient, drawn column after column, each given the earlier.

Where people live decides their ethnicity, that their language and name; age and sex decide the
diagnosis, that the department, doctor, length of stay and cost. Everything that could belong to
somebody is taken from ranges that are never given out: numbers that are neither social security
nor taxpayer numbers, area code 555, domains reserved for examples.
"""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.budget import Budget
from sfumato.errors import BudgetError, ParameterError, spell
from sfumato.fields import checked
from sfumato.results import Result

BLOCK = 100_000
"""Rows drawn at once, each block with a seed of its own: memory does not grow with the table."""
NUMBERS = 50_000_000
"""Social security-like numbers there are: areas 900-999, groups 00-49, any serial."""
PHONES = 8_000_000
FIRST_DAY = np.datetime64("2023-01-01")
DAYS = 731

WORDS: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
"""What people are called, where they live, what they come for: ``demo.toml`` beside this file."""


class Quarter(NamedTuple):
    """A part of the region: its ZIP codes, most populous first, and who lives there."""

    zips: str
    weight: float
    wealth: float
    mix: list[float]
    """Shares of the ethnicities."""


class Diagnosis(NamedTuple):
    """A reason to be in hospital, and whom it befalls."""

    code: str
    name: str
    department: str
    weight: float
    age: float
    spread: float
    women: float
    """Share of women among its patients."""
    days: float
    cost: float
    """Thousand dollars, median."""


QUARTERS = tuple(Quarter(**quarter) for quarter in WORDS["quarters"])
DIAGNOSES = tuple(Diagnosis(*told) for told in WORDS["diagnoses"])

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@checked
def people(rows: int = 20_000, seed: int = 0) -> pa.Table:
    """Patients of a synthetic hospital.

    Parameters
    ----------
    rows
        How many patients.
    seed
        Same rows and seed: same table, to the byte.

    Examples
    --------
    >>> table = people(100)
    >>> table.num_rows, table.column_names[:6]
    (100, ['patient_id', 'name', 'ssn', 'birth_date', 'sex', 'zip'])
    """
    return pa.Table.from_batches(people_batches(rows, seed), people_schema())


@checked
def people_batches(rows: int = 20_000, seed: int = 0) -> Iterator[pa.RecordBatch]:
    """The same patients, block by block, so that any number of them fits in memory."""
    if not 0 <= rows <= NUMBERS:
        raise ParameterError(f"{rows:,} patients cannot be made", remedy=f"At most {NUMBERS:,}.")
    if seed < 0:
        raise ParameterError(f"a seed of {seed} is not possible", remedy="Give 0 or more.")
    return _blocks(rows, seed)


def _blocks(rows: int, seed: int) -> Iterator[pa.RecordBatch]:
    rng = np.random.default_rng([seed, 0])
    numbering = _Numbering.draw(rng), _Numbering.draw(rng)
    for block, start in enumerate(range(0, rows, BLOCK)):
        rng = np.random.default_rng([seed, 1, block])
        at = np.arange(start, min(rows, start + BLOCK), dtype=np.int64)
        yield _block(rng, at, numbering)


def people_schema() -> pa.Schema:
    """Columns and types of the synthetic hospital."""
    text, day = pa.string(), pa.date32()
    return pa.schema(
        [
            ("patient_id", text),
            ("name", text),
            ("ssn", text),
            ("birth_date", day),
            ("sex", text),
            ("zip", text),
            ("ethnicity", text),
            ("language", text),
            ("marital_status", text),
            ("email", text),
            ("phone", text),
            ("insurance", text),
            ("admission_date", day),
            ("discharge_date", day),
            ("department", text),
            ("doctor", text),
            ("diagnosis", text),
            ("diagnosis_name", text),
            ("cost", pa.float64()),
            ("note", text),
        ]
    )


@dataclass(frozen=True)
class _Numbering:
    """Scatters row numbers: x -> a·x + b modulo a range, distinct since a shares no factor."""

    factor: int
    shift: int

    @classmethod
    def draw(cls, rng: np.random.Generator) -> _Numbering:
        # a number that ends in 1, 3, 7 or 9 shares no factor with ranges made of twos and fives
        factor = 10 * int(rng.integers(100_000, NUMBERS // 10)) + int(rng.choice([1, 3, 7, 9]))
        return cls(factor, int(rng.integers(NUMBERS)))

    def of(self, at: Ints, modulus: int) -> Ints:
        return (at * self.factor + self.shift) % modulus


def _block(
    rng: np.random.Generator, at: Ints, numbering: tuple[_Numbering, _Numbering]
) -> pa.RecordBatch:
    n = len(at)
    quarter = _draw(rng, [q.weight for q in QUARTERS], n)
    zips, zip_code = _zip_codes(rng, quarter)
    ethnicity = _draw_given(rng, [q.mix for q in QUARTERS], quarter)
    women = rng.random(n) < 0.53
    age = _ages(rng, n)
    diagnosis = _diagnoses(rng, age, women)
    delivery = np.array([d.women == 1.0 for d in DIAGNOSES])[diagnosis]
    newborn = diagnosis == 0
    age = np.where(newborn, 0.0, age)
    wealth = np.array([q.wealth for q in QUARTERS])[quarter] + rng.normal(0, 0.5, n)

    stay = np.array([d.days for d in DIAGNOSES])[diagnosis]
    days = np.maximum(0, np.rint(rng.gamma(2.0, stay / 2.0))).astype(np.int64)
    admitted = _admissions(rng, diagnosis, n)
    born = admitted - np.where(newborn, rng.integers(0, 2, n), (age * 365.25).astype(np.int64))
    discharged = admitted + days
    still_here = discharged >= DAYS

    language = _languages(rng, ethnicity)
    first, last, name = _names(rng, women, age, ethnicity)
    cost = np.array([d.cost for d in DIAGNOSES])[diagnosis] * 1000 * (0.4 + 0.6 * days / stay)
    cost = np.round(cost * rng.lognormal(0, 0.35, n) + 400, 2)

    department_names = tuple(WORDS["doctors"])
    department = np.array([department_names.index(d.department) for d in DIAGNOSES])[diagnosis]
    doctors = [[f"Dr. {one}" for one in names.split(", ")] for names in WORDS["doctors"].values()]
    columns = {
        "patient_id": _digits("P", at + 1, 8),
        "name": name,
        "ssn": _social_security(numbering[0].of(at, NUMBERS)),
        "birth_date": _dates(born),
        "sex": _words(("M", "F"), women.astype(np.int64)),
        "zip": _words(zips, zip_code),
        "ethnicity": _words(WORDS["ethnicities"], ethnicity, missing=rng.random(n) < 0.03),
        "language": _words(WORDS["languages"], language),
        "marital_status": _marital_status(rng, age),
        "email": _emails(rng, first, last, age),
        "phone": _phones(rng, numbering[1].of(at, PHONES)),
        "insurance": _insurance(rng, age, wealth, delivery),
        "admission_date": _dates(admitted),
        "discharge_date": _dates(discharged, missing=still_here),
        "department": _words(department_names, department),
        "doctor": _from_lists(rng, doctors, department, 0.6),
        "diagnosis": _words([d.code for d in DIAGNOSES], diagnosis),
        "diagnosis_name": _words([d.name for d in DIAGNOSES], diagnosis),
        "cost": pa.array(cost),
        "note": _notes(rng, n),
    }
    columns["note"] = pc.if_else(pa.array(rng.random(n) < 0.06), None, columns["note"])
    return pa.record_batch(list(columns.values()), schema=people_schema())


# --- drawing ------------------------------------------------------------------------------------


def _draw(rng: np.random.Generator, weights: Sequence[float], n: int) -> Ints:
    cumulative = np.cumsum(weights)
    drawn: Ints = np.searchsorted(cumulative, rng.random(n) * cumulative[-1], side="right")
    return drawn


def _draw_given(rng: np.random.Generator, weights: Sequence[Sequence[float]], given: Ints) -> Ints:
    """One draw a row, from the weights that belong to the row's group."""
    drawn = np.empty(len(given), dtype=np.int64)
    for group, row_weights in enumerate(weights):
        rows = np.flatnonzero(given == group)
        drawn[rows] = _draw(rng, row_weights, len(rows))
    return drawn


def _falling(count: int, steepness: float = 1.0) -> list[float]:
    """Weights of a vocabulary whose first words are the frequent ones (Zipf)."""
    return [1.0 / (place + 2.0) ** steepness for place in range(count)]


def _ages(rng: np.random.Generator, n: int) -> Floats:
    """Age in years: children, adults and, mostly, the old."""
    part = _draw(rng, [0.10, 0.36, 0.54], n)
    age: Floats = np.choose(
        part, [rng.gamma(1.3, 5.0, n), rng.normal(34, 12, n), rng.normal(68, 14, n)]
    )
    return np.minimum(np.abs(age), 104.9)


def _diagnoses(rng: np.random.Generator, age: Floats, women: Flags) -> Ints:
    """What brings somebody of this age and sex to hospital (five-year bands)."""
    band = np.minimum(age / 5, 20).astype(np.int64)
    group = band * 2 + women
    weights = [
        [_chance(diagnosis, middle, is_woman) for diagnosis in DIAGNOSES]
        for middle in 5.0 * np.arange(21) + 2.5
        for is_woman in (False, True)
    ]
    drawn = _draw_given(rng, weights, group)
    # a newborn is the one diagnosis that decides the age, so it is drawn apart
    return np.where(rng.random(len(age)) < 0.05, 0, drawn)


def _chance(diagnosis: Diagnosis, age: float, is_woman: bool) -> float:
    if diagnosis.code == "Z38.0":
        return 0.0
    share = diagnosis.women if is_woman else 1.0 - diagnosis.women
    if diagnosis.women == 1.0 and not 15 <= age <= 50:
        return 0.0
    distance = (age - diagnosis.age) / max(diagnosis.spread, 2.5)
    at_this_age = math.exp(-0.5 * distance**2) / diagnosis.spread
    return diagnosis.weight * share * (at_this_age + 1e-5)


def _admissions(rng: np.random.Generator, diagnosis: Ints, n: int) -> Ints:
    """Day of admission; infections of the airways keep to the winter."""
    winter = np.array([d.code[:3] in ("J21", "J18", "U07", "J44") for d in DIAGNOSES])
    day = rng.integers(0, DAYS, n)
    midwinter = (rng.normal(0, 45, n).astype(np.int64) + 365 * rng.integers(0, 3, n)) % DAYS
    return np.where(winter[diagnosis] & (rng.random(n) < 0.6), midwinter, day)


def _zip_codes(rng: np.random.Generator, quarter: Ints) -> tuple[list[str], Ints]:
    lists = [q.zips.split() for q in QUARTERS]
    starts = np.cumsum([0, *(len(codes) for codes in lists)])
    within = _draw_given(rng, [_falling(len(codes)) for codes in lists], quarter)
    return [code for codes in lists for code in codes], starts[quarter] + within


def _languages(rng: np.random.Generator, ethnicity: Ints) -> Ints:
    spoken = (
        (0.955, 0.004, 0.008, 0.0, 0.0, 0.0, 0.0, 0.016, 0.006, 0.009, 0.002),
        (0.92, 0.01, 0.05, 0.005, 0.0, 0.0, 0.0, 0.0, 0.013, 0.0, 0.002),
        (0.42, 0.575, 0.003, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.002),
        (0.55, 0.0, 0.0, 0.0, 0.27, 0.13, 0.05, 0.0, 0.0, 0.0, 0.001),
        (0.33, 0.0, 0.0, 0.67, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.001),
        (0.28, 0.01, 0.71, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.001),
        (0.99, 0.01, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    )
    return _draw_given(rng, spoken, ethnicity)


# --- columns ------------------------------------------------------------------------------------


def _words(vocabulary: Sequence[str], codes: Ints, missing: Flags | None = None) -> pa.Array:
    indices = pa.array(codes.astype(np.int32), mask=missing)
    return pa.array(vocabulary, pa.string()).take(indices)


def _dates(days: Ints, missing: Flags | None = None) -> pa.Array:
    return pa.array((FIRST_DAY + days).astype("datetime64[D]"), pa.date32(), mask=missing)


def _digits(before: str, numbers: Ints, width: int) -> pa.Array:
    padded = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), width, "0")
    return pc.binary_join_element_wise(before, padded, "")


def _joined(separator: str, *parts: Any) -> pa.Array:
    return pc.binary_join_element_wise(*parts, separator)


def _social_security(numbers: Ints) -> pa.Array:
    area, rest = 900 + numbers // 500_000, numbers % 500_000
    return _joined(
        "-", _digits("", area, 3), _digits("", rest // 10_000, 2), _digits("", rest % 10_000, 4)
    )


def _phones(rng: np.random.Generator, numbers: Ints) -> pa.Array:
    numbers = numbers + 2_000_000
    written = _joined(
        "-", _digits("(555) ", numbers // 10_000, 3), _digits("", numbers % 10_000, 4)
    )
    return pc.if_else(pa.array(rng.random(len(numbers)) < 0.08), None, written)


def _names(
    rng: np.random.Generator, women: Flags, age: Floats, ethnicity: Ints
) -> tuple[pa.Array, pa.Array, pa.Array]:
    """First, last and whole name."""
    generations = ("young", "middle", "old")
    generation = np.digitize(age, [30, 62])
    lists = [WORDS["first_names"][sex][when].split() for sex in "MF" for when in generations]
    group = 3 * women + generation
    first = _from_lists(rng, lists, group, 0.5)
    last = _from_lists(
        rng, [WORDS["last_names"][name].split() for name in WORDS["ethnicities"]], ethnicity, 0.7
    )
    middle = _words(
        [f"{letter}." for letter in "ABCDEFGHJKLMNPRSTW"], rng.integers(0, 18, len(age))
    )
    return first, last, _joined(" ", first, middle, last)


def _from_lists(
    rng: np.random.Generator, lists: Sequence[Sequence[str]], group: Ints, steepness: float
) -> pa.Array:
    starts = np.cumsum([0, *(len(names) for names in lists)])
    within = _draw_given(rng, [_falling(len(names), steepness) for names in lists], group)
    return _words([word for names in lists for word in names], starts[group] + within)


def _emails(rng: np.random.Generator, first: pa.Array, last: pa.Array, age: Floats) -> pa.Array:
    n = len(age)
    number = pa.array(rng.integers(1, 10_000, n)).cast(pa.string())
    domain = _words(("@example.com", "@example.org", "@example.net"), _draw(rng, [6, 3, 1], n))
    letters = pc.replace_substring_regex(_joined(".", first, last), r"[^A-Za-z.]", "")
    written = _joined("", pc.utf8_lower(letters), number, domain)
    missing = rng.random(n) < np.where(age < 14, 0.95, np.where(age > 75, 0.55, 0.2))
    return pc.if_else(pa.array(missing), None, written)


def _marital_status(rng: np.random.Generator, age: Floats) -> pa.Array:
    states = ("Single", "Married", "Partnered", "Divorced", "Widowed")
    by_age = (
        (1.0, 0.0, 0.0, 0.0, 0.0),
        (0.83, 0.08, 0.085, 0.005, 0.0),
        (0.36, 0.46, 0.10, 0.075, 0.005),
        (0.16, 0.57, 0.05, 0.18, 0.04),
        (0.08, 0.50, 0.02, 0.14, 0.26),
        (0.05, 0.28, 0.01, 0.08, 0.58),
    )
    band = np.digitize(age, [18, 27, 45, 63, 80])
    status = _draw_given(rng, by_age, band)
    return _words(states, status, missing=rng.random(len(age)) < 0.02)


def _insurance(rng: np.random.Generator, age: Floats, wealth: Floats, delivery: Flags) -> pa.Array:
    kinds = ("Private", "Medicaid", "Medicare", "Self-pay", "Veterans Affairs")
    by_group = (
        (0.55, 0.42, 0.0, 0.03, 0.0),  # not yet 65, poor
        (0.86, 0.09, 0.0, 0.04, 0.01),  # not yet 65, rich
        (0.08, 0.06, 0.83, 0.01, 0.02),  # 65 and older
        (0.62, 0.36, 0.0, 0.02, 0.0),  # giving birth
    )
    group = np.where(age >= 65, 2, np.where(delivery, 3, (wealth > 0).astype(np.int64)))
    return _words(kinds, _draw_given(rng, by_group, group))


def _notes(rng: np.random.Generator, n: int) -> pa.Array:
    """Free text as doctors write it; nearly every one is different."""

    def some(phrases: Sequence[str]) -> pa.Array:
        return _words(phrases, rng.integers(0, len(phrases), n))

    pressure = _joined(
        "",
        "BP ",
        _digits("", rng.integers(96, 190, n), 2),
        "/",
        _digits("", rng.integers(55, 108, n), 2),
    )
    seen = _joined(
        "",
        "seen ",
        _digits("", rng.integers(0, 24, n), 2),
        ":",
        _digits("", rng.integers(0, 60, n), 2),
    )
    opening = _joined(", ", some(WORDS["note_openings"]), seen, pressure)
    return _joined(
        " ",
        opening,
        _joined("", "Patient ", some(WORDS["note_courses"]), "."),
        some(WORDS["note_ends"]),
    )


@dataclass(frozen=True)
class Written(Result):
    """A table that was made and written."""

    passed_on: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("output", "rows", "columns", "seed"), "told of people who do not exist"
    )

    output: str
    rows: int
    columns: tuple[str, ...]
    seed: int


@dataclass(frozen=True)
class WrittenFolder(Result):
    """Tables that were made and written; `tables` has their rows by name."""

    passed_on: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("output", "tables", "seed"), "told of people who do not exist"
    )

    output: str
    tables: dict[str, int]
    seed: int


@checked
def write_people(
    destination: str | os.PathLike[str],
    rows: int = 20_000,
    seed: int = 0,
    *,
    force: bool = False,
    budget: Budget | None = None,
) -> Written:
    """Write patients of a synthetic hospital to a file.

    Parameters
    ----------
    destination
        The ending decides the format: ``.csv``, ``.tsv`` (both also ``.gz``, ``.zst``),
        ``.parquet`` or ``.arrow``.
    rows, seed
        As for `people`.
    force
        Replace the file if it exists.
    budget
        Limit of time; receives progress.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_people(f"{folder}/people.csv", rows=10).rows
    10
    """
    from sfumato.engines.memory import MemoryEngine
    from sfumato.engines.staging import stage_batches
    from sfumato.engines.writing import check_destination

    target = os.fspath(destination)
    check_destination(target, force=force)
    schema = people_schema()
    batches = _watched(people_batches(rows, seed), rows, budget or Budget())
    staged = stage_batches(batches, schema, target, reopen=MemoryEngine)
    staged.commit(force=force)
    return Written(output=target, rows=rows, columns=tuple(schema.names), seed=seed)


@checked
def write_hospital(
    folder: str | os.PathLike[str],
    rows: int = 20_000,
    seed: int = 0,
    *,
    budget: Budget | None = None,
) -> WrittenFolder:
    """Write the synthetic hospital as three tables and the file that describes them.

    Patients, their admissions (about two each) and what was prescribed at them (about two each),
    as CSV files beside a ``dataset.toml``.

    Parameters
    ----------
    folder
        A new folder.
    rows
        How many patients.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sorted(write_hospital(f"{folder}/hospital", rows=10).tables)
    ['admissions', 'patients', 'prescriptions']
    """
    from sfumato.engines.staging import appearing_folder
    from sfumato.files import write_text

    if os.path.lexists(folder) or not os.path.isdir(os.path.dirname(os.path.abspath(folder))):
        raise ParameterError(
            "the folder cannot be made",
            where=str(folder),
            remedy="Name a folder that is not there yet, in one that is.",
        )
    written: dict[str, int] = {}
    with appearing_folder(str(folder)) as place:
        writers: dict[str, Any] = {}
        try:
            for batch in _watched(people_batches(rows, seed), rows, budget or Budget()):
                for name, part in _tables(batch, seed, written.get("admissions", 0)).items():
                    _append(place / f"{name}.csv", part, writers)
                    written[name] = written.get(name, 0) + part.num_rows
            if not rows:
                for name, part in _tables(_empty(), seed, 0).items():
                    _append(place / f"{name}.csv", part, writers)
                    written[name] = 0
        finally:
            for writer in writers.values():
                writer.close()
        write_text(place / "dataset.toml", _DESCRIPTION)
    return WrittenFolder(output=str(folder), tables=written, seed=seed)


def _empty() -> pa.RecordBatch:
    schema = people_schema()
    return pa.record_batch([pa.array([], field.type) for field in schema], schema=schema)


def _append(file: Path, part: pa.Table, writers: dict[str, Any]) -> None:
    import pyarrow.csv

    if file.name not in writers:
        writers[file.name] = pyarrow.csv.CSVWriter(str(file), part.schema)
    writers[file.name].write(part)


_OWN = (
    "patient_id", "name", "ssn", "birth_date", "sex", "zip", "ethnicity", "language",
    "marital_status", "email", "phone",
)  # fmt: skip
"""Columns that a patient has once."""
_DRUGS = (
    "amoxicillin", "ibuprofen", "metformin", "lisinopril", "atorvastatin", "omeprazole",
    "salbutamol", "sertraline", "heparin", "morphine",
)  # fmt: skip
_DESCRIPTION = """\
person = "patients.patient_id"

[tables.patients]
source = "patients.csv"
key = "patient_id"

[tables.admissions]
source = "admissions.csv"
key = "admission_id"
references = { patient_id = "patients.patient_id" }

[tables.prescriptions]
source = "prescriptions.csv"
references = { admission_id = "admissions.admission_id" }
"""


def _tables(batch: pa.RecordBatch, seed: int, admitted: int) -> dict[str, pa.Table]:
    """Some patients, their admissions, and what was prescribed at them.

    `admitted` is how many admissions there were before.
    """
    rng = np.random.default_rng([seed, 2, admitted])
    patients = pa.table({name: batch.column(name) for name in _OWN})
    stays = 1 + rng.poisson(1.2, batch.num_rows)
    whose = np.repeat(np.arange(batch.num_rows), stays)
    code = rng.integers(0, len(DIAGNOSES), len(whose))
    first = np.r_[True, whose[1:] != whose[:-1]] if len(whose) else np.zeros(0, dtype=bool)
    known = {d.code: at for at, d in enumerate(DIAGNOSES)}
    told = [known[one] for one in batch.column("diagnosis").to_pylist()]
    code[first] = np.array(told, dtype=np.int64)
    day = rng.integers(0, DAYS, len(whose))
    number = admitted + 1 + np.arange(len(whose))
    admissions = pa.table(
        {
            "admission_id": _digits("A", number, 9),
            "patient_id": batch.column("patient_id").take(pa.array(whose)),
            "admission_date": _dates(day),
            "department": pa.array([DIAGNOSES[at].department for at in code], pa.string()),
            "diagnosis": _words([d.code for d in DIAGNOSES], code),
        }
    )
    given = np.repeat(np.arange(len(whose)), rng.poisson(1.8, len(whose)))
    drug = (code[given] * 3 + rng.integers(0, 4, len(given))) % len(_DRUGS)
    prescriptions = pa.table(
        {
            "admission_id": admissions.column("admission_id").take(pa.array(given)),
            "drug": _words(_DRUGS, drug),
            "days": pa.array(rng.integers(1, 31, len(given))),
        }
    )
    return {"patients": patients, "admissions": admissions, "prescriptions": prescriptions}


def _watched(
    batches: Iterable[pa.RecordBatch], rows: int, budget: Budget
) -> Iterator[pa.RecordBatch]:
    done = 0
    for batch in batches:
        if budget.spent():
            raise BudgetError(
                f"time ran out after {done:,} of {rows:,} people",
                remedy=f"Allow more ({spell('time', '10m')}).",
            )
        budget.progress("making people", done / rows)
        done += batch.num_rows
        yield batch
