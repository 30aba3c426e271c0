"""The column that names persons: what must be true of it, and how to notice one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from sfumato.budget import Budget
from sfumato.columns.profile import FEW, ColumnFacts, Profile
from sfumato.columns.recognise import GROUPS, Neighbours, Recognised, named_after_people, recognise
from sfumato.columns.second_numbers import (
    EVIDENCE,
    LOOKED_AT,
    known_persons,
    not_compared,
    numbers_of_persons,
    other_names,
    perhaps_persons,
    rows_of_words,
)
from sfumato.columns.vocabulary import meaning_of, words_of
from sfumato.engines.encoding import codes_of_table
from sfumato.engines.results import CodeArray, Codes
from sfumato.errors import ColumnError, spell
from sfumato.kernels import class_ids
from sfumato.results import Result
from sfumato.tables import Table
from sfumato.wording import counted

__all__ = [
    "PersonColumn",
    "listed",
    "named_by",
    "names_of_persons",
    "naming_columns",
    "person_columns",
    "published_names",
    "refused_names",
    "require_person",
]


def require_person(opened: Table, person: str, others: Sequence[str] = ()) -> str:
    """The person column, if every row belongs to somebody and it plays no other part.

    Parameters
    ----------
    others
        Columns that must not name persons: what an attacker knows, or what is sensitive.
    """
    opened.require([person])
    if person in others:
        raise ColumnError(
            f"column `{person}` names persons and cannot be a quasi-identifier or sensitive",
            where=opened.name,
            remedy="Take it out there: persons are told apart by it, and it is left out.",
        )
    nobody = opened.engine.null_counts([person])[person]
    nobody += rows_of_words(opened, person).get("", 0)
    if nobody:
        raise ColumnError(
            f"column `{person}` is empty in {counted(nobody, 'row')}: nobody knows whose they are",
            where=opened.name,
            remedy="Leave these rows out, or say who they belong to.",
        )
    return person


_BY_COUNTS = (None, "a number", "a code")
"""What is known of columns of which only counts speak."""


@dataclass(frozen=True)
class PersonColumn(Result):
    """A column that seems to name persons, who have several rows.

    Attributes
    ----------
    persons
        Different values.
    own
        Columns that have one value a person, like sex and birth date.
    """

    name: str
    persons: int
    own: tuple[str, ...]


def person_columns(
    opened: Table | None,
    look: Profile,
    roles: Mapping[str, Recognised],
    budget: Budget | None = None,
) -> tuple[PersonColumn, ...]:
    """Columns that seem to name persons with several rows, the likeliest first.

    They are recognised as a number or name of a person, they repeat, and they are called a
    person's, or other columns depend on them: those have one value a person. What a sample does not
    contradict is counted on all rows of the table, where one is given. Where a number of persons
    differs in every row, names that repeat are those of namesakes. Households and visits are not
    persons, whatever depends on them.
    """
    found = []
    numbered = any(map(_numbers_rows, look.facts))
    for facts in look.facts:
        role = roles.get(facts.name)
        if role is None:
            continue
        names = role.role == "identifier" or role.what == "a person's number"
        repeats = FEW < facts.classes < facts.rows - facts.nulls
        namesakes = numbered and (role.kind == _NAMES or role.what in ("names", "a name"))
        called = set(words_of(facts.name))
        persons = called & _ONE_PERSON or not (called & {*_SEVERAL, *_TOGETHER})
        if role.what in (*_BY_COUNTS, "free text", "a household's number") or not persons:
            continue
        if names and repeats and not namesakes:
            own = tuple(
                other.name
                for other in look.facts
                if 1 < other.classes < facts.classes
                and _decides(opened, look, facts, other.name, budget)
            )
            if own or (called & _ONE_PERSON and role.kind != _NAMES):
                found.append(PersonColumn(facts.name, facts.classes, own))
    return tuple(
        sorted(
            found,
            key=lambda one: (
                not set(words_of(one.name)) & _ONE_PERSON, -len(one.own), -one.persons
            ),
        )
    )  # fmt: skip


_NAMES, _SOCIAL_SECURITY = "A", "G"
_ONE_PERSON = {"patient", "pat", "person", "customer", "client", "employee", "emp", "member",
               "subject", "student", "respondent", "participant", "user", "passenger", "mrn",
               "pid"}  # fmt: skip
_SEVERAL = {"visit", "encounter", "admission", "stay", "claim", "order", "case", "event", "test",
            "sample"}  # fmt: skip
"""What one person may have several of."""
_TOGETHER = {"household", "hh", "hhid", "hhnum", "hid", "family", "serialno"}
"""What several persons belong to."""


def _numbers_rows(facts: ColumnFacts) -> bool:
    """Whether a column numbers persons and differs in every row, so that each row is a person."""
    meaning = meaning_of(facts.name)
    if meaning is None or meaning.role != "identifier" or facts.nulls:
        return False
    words = set(words_of(facts.name))
    whose = meaning.kind == _SOCIAL_SECURITY or (
        meaning.kind != _NAMES and words & _ONE_PERSON and not words & _SEVERAL
    )
    return bool(whose) and FEW < facts.rows == facts.classes


def _decides(
    opened: Table | None, look: Profile, facts: ColumnFacts, other: str, budget: Budget | None
) -> bool:
    """Whether every value of a column has one value of another, and not only for lack of rows."""
    pair = (facts.name, other)
    codes = look.sample.select(pair)
    together = class_ids(codes.arrays, codes.cardinalities, entries=codes.entries, ordered=False)[1]
    seen = len(np.unique(codes.arrays[0]))
    if together != seen or (not look.whole and codes.entries - seen < EVIDENCE):
        return False
    if opened is None or look.whole:
        return True
    return opened.class_sizes(pair, budget).classes == facts.classes


def naming_columns(
    opened: Table, columns: Sequence[str], *, seed: int = 0, budget: Budget | None = None
) -> dict[str, Recognised]:
    """Columns that point at persons, with the reason.

    Some rows find the suspects, all rows convict them; of remote tables only names and counts are
    looked at. A number that many rows share is suspected if other columns depend on it. In a table
    of a dozen rows everything differs, so there only names of columns count.
    """
    text = [
        c.name
        for c in opened.schema
        if c.name in columns and (c.kind in _NAMING or named_after_people(c.name))
    ]
    if opened.rows <= FEW:
        text = [name for name in text if _by_name(name)]
    if not text or not opened.rows:
        return {}
    beside = Neighbours.of(opened.columns)
    sample = _sample(opened, text, seed)
    nulls = cache(lambda: opened.engine.null_counts(text))  # one statement for all of them
    found = {}
    for name in text:
        cells = sample.values_of(name).drop_null()
        some = _facts(opened, name, sample.column(name), sample.values_of(name).null_count > 0)
        first = _though_few(recognise(some, cells, beside), some)
        if first.role != "identifier" and first.what != "a person's number":
            continue
        facts = _counted(opened, name, nulls()[name], budget)
        role = _though_few(recognise(facts, cells, beside), facts)
        if role.role != "identifier" and role.what == "a person's number":
            look = Profile(facts.rows, (facts, *_others(opened, sample, name)), sample)
            if person_columns(opened, look, {f.name: role for f in look.facts}, budget):
                role = replace(
                    role, role="identifier", why="a number on which other columns depend"
                )
        shared = role.what == "binary content" and facts.classes < GROUPS * facts.rows
        if role.role == "identifier" and not shared:
            found[name] = role
    return found


def names_of_persons(
    opened: Table,
    columns: Sequence[str],
    person: str | None = None,
    *,
    seed: int = 0,
    budget: Budget | None = None,
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Columns that name persons by their names, cells or beside the persons' own, with reasons.

    And what is to be said of what was not looked at.
    """
    found = naming_columns(opened, columns, seed=seed, budget=budget)
    why = {name: role.why for name, role in found.items() if named_by(role)}
    if person is None:
        return why, ()
    rest = [name for name in columns if name not in why]
    persons = known_persons(opened, person)
    told: list[str] = []
    perhaps: list[str] = []
    if persons is None:
        told.append(not_compared(person))
    else:
        same, perhaps = numbers_of_persons(opened, rest, persons, seed)
        why |= dict.fromkeys(same, f"its values are persons of `{person}`")
    rest = [name for name in rest if name not in why]
    others = other_names(opened, rest, person, budget)
    why |= dict.fromkeys(others, f"its values are one-to-one with `{person}`")
    told += perhaps_persons([name for name in perhaps if name not in why], person)
    return why, tuple(told)


def refused_names(
    why: Mapping[str, str], where: str, leave_out: str, others: Sequence[str]
) -> ColumnError:
    """Why a release stops that would publish columns which seem to name persons.

    Parameters
    ----------
    why
        The columns, each with what it is suspected for.
    leave_out, others
        The parameter that leaves columns out, and what else can be done.
    """
    first, one = next(iter(why)), len(why) == 1
    it, seems = ("it", "it seems") if one else ("them", "they seem")
    choices = "".join(f", {other}" for other in others)
    return ColumnError(
        f"{listed(why)} would be published, and {seems} to name persons (`{first}`: {why[first]})",
        where=where,
        remedy=f"Leave {it} out ({spell(leave_out, list(why))}){choices}. To publish {it} all "
        f"the same: {spell('rows_are_people', True)}.",
    )


def published_names(names: Collection[str]) -> list[str]:
    """What is to be said where such columns are published all the same."""
    return [f"published though they seem to name persons: {listed(names)}"] if names else []


def listed(names: Iterable[str]) -> str:
    """Names of columns in a sentence."""
    return ", ".join(f"`{name}`" for name in names)


def _by_name(name: str) -> bool:
    """Whether the name of a column says that it points at persons."""
    meaning = meaning_of(name)
    return meaning is not None and meaning.role == "identifier" and meaning.what != "free text"


def _though_few(role: Recognised, facts: ColumnFacts) -> Recognised:
    """A number of patients is one even if there are few patients, or one."""
    meaning = meaning_of(facts.name)
    if meaning is None or role.kind != meaning.kind or not _by_name(facts.name):
        return role
    if facts.rows > 1 and not named_after_people(facts.name):
        return role
    return replace(role, role="identifier", why=f"named like {meaning.what}")


_NAMING = ("text", "integer", "binary")


def named_by(role: Recognised) -> bool:
    """Whether name or cells say what a column is, and not only that it differs in every row."""
    return role.what not in _BY_COUNTS


def _sample(opened: Table, columns: Sequence[str], seed: int) -> Codes:
    rows = 0 if opened.engine.capabilities.remote else LOOKED_AT
    return codes_of_table(opened.sample(rows, columns, seed))


def _facts(opened: Table, name: str, codes: CodeArray, has_null: bool) -> ColumnFacts:
    """Counts of the sample; of an empty one those of a column that might be anything."""
    counts = np.bincount(codes) if len(codes) else np.ones(FEW + 2, dtype=np.int64)
    nulls = int(counts[-1]) if has_null and len(codes) else 0
    alone = int((counts == 1).sum())
    kind = opened.column(name).kind
    return ColumnFacts(name, kind, int(counts.sum()), nulls, len(counts), alone)


def _counted(opened: Table, name: str, nulls: int, budget: Budget | None) -> ColumnFacts:
    sizes = opened.class_sizes([name], budget)
    kind = opened.column(name).kind
    return ColumnFacts(name, kind, opened.rows, nulls, sizes.classes, sizes.unique_rows)


def _others(opened: Table, sample: Codes, name: str) -> list[ColumnFacts]:
    """The other columns as far as the sample shows them."""
    return [
        _facts(opened, other, sample.column(other), False)
        for other in sample.columns
        if other != name and sample.entries
    ]
