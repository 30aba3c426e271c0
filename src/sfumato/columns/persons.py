"""The column that names persons: what must be true of it, and how to notice one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sfumato.budget import Budget
from sfumato.columns.profile import FEW, ColumnFacts, Profile
from sfumato.columns.recognise import GROUPS, Neighbours, Recognised, named_after_people, recognise
from sfumato.columns.vocabulary import meaning_of, words_of
from sfumato.engines.protocol import column_of
from sfumato.engines.results import CodeArray, Codes
from sfumato.errors import ColumnError, TooManyClassesError, spell
from sfumato.hierarchy.labels import as_text
from sfumato.results import Result
from sfumato.tables import Table
from sfumato.tables.celltypes import MISSING_WORDS
from sfumato.wording import counted

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "Changed",
    "PersonColumn",
    "alike_persons",
    "known_persons",
    "listed",
    "misspelled_persons",
    "named_by",
    "names_of_persons",
    "naming_columns",
    "not_compared",
    "numbers_of_persons",
    "other_names",
    "perhaps_persons",
    "person_columns",
    "published_names",
    "refused_names",
    "require_person",
    "rows_of_words",
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


_NOBODY = frozenset(word.lower() for word in (*MISSING_WORDS, "-", "--", "nan", "unknown"))


def rows_of_words(opened: Table, person: str) -> dict[str, int]:
    """Rows whose person is blank text ("") or a word for nobody, by word."""
    if opened.column(person).kind != "text":
        return {}
    try:
        found = opened.values(person, _most_fetched(opened))
    except TooManyClassesError:
        return {}
    texts = as_text(found.values[0]).to_pylist()
    words = {at: t.strip() for at, t in enumerate(texts) if t and t.strip().lower() in _NOBODY}
    words |= {at: "" for at, text in enumerate(texts) if text == ""}
    rows: dict[str, int] = {}
    for code, number in zip(found.arrays[0].tolist(), _each(found), strict=True):
        if code in words:
            rows[words[code]] = rows.get(words[code], 0) + number
    return rows


def _each(codes: Codes) -> list[int]:
    return [1] * codes.entries if codes.counts is None else codes.counts.tolist()


LOOKED_AT = 2_000
"""Rows looked at to find suspects; whoever is suspected is counted on all rows."""
EVIDENCE = 20
"""Rows looked at, beyond the first of each person, that an own column must not contradict."""
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

    They are recognised as a number or name of a person, they repeat, and other columns depend on
    them: those have one value a person. What a sample does not contradict is counted on all rows of
    the table, where one is given. Where a number of persons differs in every row, names that repeat
    are those of namesakes.
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
        if names and repeats and not namesakes and role.what not in (*_BY_COUNTS, "free text"):
            own = tuple(
                other.name
                for other in look.facts
                if 1 < other.classes < facts.classes
                and _decides(opened, look, facts, other.name, budget)
            )
            if own:
                found.append(PersonColumn(facts.name, facts.classes, own))
    return tuple(sorted(found, key=lambda one: (-len(one.own), -one.persons)))


_NAMES, _SOCIAL_SECURITY = "A", "G"
_ONE_PERSON = {"patient", "pat", "person", "customer", "client", "employee", "emp", "member",
               "subject", "student", "respondent", "participant", "user", "passenger", "mrn",
               "pid"}  # fmt: skip
_SEVERAL = {"visit", "encounter", "admission", "stay", "claim", "order", "case", "event", "test",
            "sample"}  # fmt: skip
"""What one person may have several of."""


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
    from sfumato.kernels import class_ids

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


NEARLY = 0.95
"""Share of numbers from which on exceptions are taken for mistakes."""
_MOSTLY = 0.9
"""Share of rows from which on others do not hide that a column is one-to-one with persons."""
_MANY = 100
"""Different whole numbers that are the persons' by more than chance, wherever those lie."""

MOST_FETCHED = 1_000_000
"""Numbers of persons that come to us at most from where rows stay."""


def _most_fetched(opened: Table) -> int | None:
    return MOST_FETCHED if opened.engine.capabilities.remote else None


def known_persons(opened: Table, person: str) -> pa.Array | None:
    """The numbers of all persons; None where they are too many to leave the place they are in."""
    most = _most_fetched(opened)
    if most is not None and opened.class_sizes([person]).classes > most:
        return None
    return opened.values(person).values[0]


def not_compared(person: str) -> str:
    """What is to be said where numbers of persons are too many to be compared with."""
    return (
        f"whether other columns hold values of `{person}`, or tell its values apart, was not "
        f"looked at: it has more than {MOST_FETCHED:,}, which stay where they are"
    )


Changed = Mapping[str, Callable[["pa.Array"], "pa.Array"]]
"""What values of columns become before they are published; others stay."""
_NONE: Changed = {}


def _same(values: pa.Array) -> pa.Array:
    return values


def numbers_of_persons(
    opened: Table,
    columns: Sequence[str],
    persons: pa.Array,
    seed: int = 0,
    changed: Changed = _NONE,
) -> tuple[list[str], list[str]]:
    """Columns whose cells are those of a column of persons, beyond chance; and perhaps by chance.

    How values are spelled does not matter. Whole numbers from 1 to 90 are those of patients 1 to
    500 by chance; so where the persons' numbers leave few gaps, a column must have many and span
    most of theirs, or be called like a relative (`mother`), who need not be a patient. Some rows
    are looked at, wherever they are; all of a column that is mostly empty.
    """
    from sfumato.engines.encoding import codes_of_table

    looked = [c.name for c in opened.schema if c.name in columns and c.kind in _COMPARED]
    if not looked:
        return [], []
    known = set(_plain(persons))
    sample = codes_of_table(opened.sample(LOOKED_AT, looked, seed))
    found: list[str] = []
    perhaps: list[str] = []
    for name in looked:
        becomes = changed.get(name, _same)
        rows = _rows_of_cells(sample.select([name]), becomes)
        if len(rows) < EVIDENCE and opened.rows > LOOKED_AT:
            rows = _rows_of_cells(opened.values(name), becomes)
        cells = set(rows)
        if _among(cells, known):
            found.append(name)
        elif _is_relative(name):
            share, numbers = _known_share(rows, known)
            if share >= 0.5 and not cells <= _YES_OR_NO:
                (found if share >= _MOSTLY and numbers > FEW else perhaps).append(name)
        elif _included(cells, known) and _spans(cells, known):
            perhaps.append(name)
    return found, perhaps


def _rows_of_cells(held: Codes, becomes: Callable[[pa.Array], pa.Array]) -> dict[str, int]:
    """How many rows hold each value of a column, however it is spelled."""
    texts = _spelled(becomes(held.values[0])).to_pylist()
    rows: dict[str, int] = {}
    for code, number in zip(held.arrays[0].tolist(), _each(held), strict=True):
        if (text := texts[code]) is not None:
            rows[text] = rows.get(text, 0) + number
    return rows


def _known_share(rows: Mapping[str, int], known: set[str]) -> tuple[float, int]:
    """The share of cells, or of different ones, that are persons' numbers; and how many are."""
    if len(known) <= FEW or not rows:
        return 0.0, 0
    shared = rows.keys() & (known | _without_prefix(known))
    held = sum(rows[cell] for cell in shared)
    return max(held / sum(rows.values()), len(shared) / len(rows)), len(shared)


def perhaps_persons(names: Sequence[str], person: str) -> list[str]:
    """What is to be said of columns that hold persons' numbers, perhaps by chance."""
    return [
        f"values of `{name}` are also ones of `{person}`, all of them or at least half: if it "
        f"names persons, leave it out ({spell('identifiers', [name])})"
        for name in names
    ]


_RELATIVES = {
    "mother", "father", "husband", "wife", "spouse", "guardian", "donor", "twin", "mum", "mom",
    "dad", "mutter", "vater", "ehepartner", "mere", "pere", "madre", "padre", "infector",
}  # fmt: skip
"""Relatives of whom nobody has a number, as of children and siblings; those are counted."""
_YES_OR_NO = {"0", "1", "2"}
_NUMBER = {"id", "no", "nr", "num", "number", "ref", "key", "code", "patient", "person", "pid"}


def _is_relative(name: str) -> bool:
    """Whether a column is called like another person, and nothing is said that she might have."""
    words = set(words_of(name))
    return bool(words & _RELATIVES) and words <= _RELATIVES | _NUMBER


def _included(cells: set[str], known: set[str]) -> bool:
    """Whether all of many whole numbers are those of persons."""
    enough = len(known) > FEW and len(cells) > FEW
    return enough and all(map(str.isdecimal, cells)) and cells <= _without_prefix(known)


def _spans(cells: set[str], known: set[str]) -> bool:
    """Whether numbers reach as far as those of persons do."""
    mine = [int(cell) for cell in cells]
    theirs = [int(cell) for cell in _without_prefix(known) if cell.isdecimal()]
    return max(mine) - min(mine) >= NEARLY * (max(theirs) - min(theirs))


_COMPARED = ("text", "integer", "float", "decimal")


def _plain(values: pa.Array) -> list[str]:
    """Values in one spelling, missing ones left out."""
    return [text for text in _spelled(values).to_pylist() if text is not None]


def _spelled(values: pa.Array) -> pa.Array:
    """Values as text in one spelling; words for nobody are null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = as_text(values).cast(pa.string())
    plain = pc.utf8_lower(pc.utf8_trim_whitespace(texts))
    nobody = pc.is_in(plain, value_set=pa.array(sorted(_NOBODY)))
    return pc.if_else(nobody, pa.scalar(None, pa.string()), _one_way(texts))


def _among(cells: set[str], known: set[str]) -> bool:
    """Whether cells are known ones, and not by chance.

    Names like P17 are not met by chance: some of them will do, and half of the cells, as mothers
    need not be patients. Of numbers nearly all must be known; those of P1, P2, … are 1, 2, ….
    """
    if len(known) <= FEW or len(cells) < _SOME:
        return False
    if sum(map(_letters_and_digits, cells & known)) >= max(_SOME, len(cells) / 2):
        return True
    if any(map(str.isdecimal, cells)):
        known = _without_prefix(known)
    shared = cells & known
    whole = [int(cell) for cell in shared if cell.isdecimal()]
    few = len(cells) <= FEW
    if len(shared) < max(_SOME, NEARLY * len(cells)) or (few and len(whole) < _SOME):
        return False
    if len(whole) <= FEW and not few:
        return True
    numbers = [int(cell) for cell in known if cell.isdecimal()]
    low, high = min(whole), max(whole)
    density = sum(low <= number <= high for number in numbers) / (high - low + 1)
    if few:
        return bool(density ** len(whole) < _CHANCE)
    if density < 0.5:
        return True
    return len(whole) > _MANY and high - low >= NEARLY * (max(numbers) - min(numbers))


def _without_prefix(known: set[str]) -> set[str]:
    """Numbers without the letters before them, if those are the same in all."""
    prefix = next(iter(known)).rstrip("0123456789")
    bare = {one.removeprefix(prefix) for one in known if one.startswith(prefix)}
    same = prefix and len(bare) == len(known) and all(map(str.isdecimal, bare))
    return bare if same else known


_SOME = 3
_CHANCE = 0.001
"""How likely a few numbers may be all known by chance, to be taken for persons all the same."""


def _letters_and_digits(cell: str) -> bool:
    """Whether a text is a name like P17, and no number like 1e-05."""
    try:
        float(cell)
    except ValueError:
        return any(map(str.isdigit, cell)) and any(map(str.isalpha, cell))
    return False


def other_names(
    opened: Table,
    columns: Sequence[str],
    person: str,
    budget: Budget | None = None,
    changed: Changed = _NONE,
) -> list[str]:
    """Columns that have one value a person and one person a value, like a second number of hers.

    Missing cells say nothing, a few exceptions hide nothing, nor do several spellings. Where every
    row is another person, whatever differs in every row would be one; so rows beyond the first of
    each person must bear it out.
    """
    persons = opened.class_sizes([person], budget).classes
    again = opened.rows - persons
    if persons <= FEW or again < EVIDENCE:
        return []
    most = persons + 2 + (1 - _MOSTLY) * again  # different in nearly every row: not a person's
    found = []
    for name in columns:
        values = opened.class_sizes([name], budget).classes
        many = name not in changed and values > most
        spelled = opened.column(name).kind == "text" and values <= MOST_FETCHED
        if values <= FEW or (many and not spelled):
            continue
        held = opened.values(name)
        if many and len(_spelled(held.values[0]).unique()) > most:
            continue
        present = _present(held)
        if present < EVIDENCE or values < GROUPS * persons * present / opened.rows / 2:
            continue
        pairs = opened.classes([name, person], budget=budget)
        if _one_to_one(pairs, changed.get(name, _same)):
            found.append(name)
    return found


def _present(held: Codes) -> int:
    """Rows whose cell is not missing."""
    import pyarrow.compute as pc

    valid = np.asarray(pc.is_valid(_spelled(held.values[0])))[held.arrays[0]]
    return int(valid.sum() if held.counts is None else held.counts[valid].sum())


def _one_to_one(pairs: Codes, becomes: Callable[[pa.Array], pa.Array]) -> bool:
    """Whether nearly all rows of a value are one person's, and nearly all of hers have that value.

    Parameters
    ----------
    pairs
        Values and persons that occur together, with the rows of each.
    """
    cells = _spelled(becomes(pairs.values[0])).dictionary_encode()
    value = cells.indices.fill_null(-1).to_numpy().astype(np.int64)[pairs.arrays[0]]
    who = pairs.arrays[1].astype(np.int64)
    rows = np.ones(pairs.entries, dtype=np.int64) if pairs.counts is None else pairs.counts
    somebody = np.asarray(pairs.values[1].is_valid())[who]
    kept = (value >= 0) & somebody
    value, who, rows = value[kept], who[kept], rows[kept]
    width = len(pairs.values[1])
    both, at = np.unique(value * width + who, return_inverse=True)
    held = np.bincount(at, rows).astype(np.int64)
    of_value, of_person = _largest(both // width, held), _largest(both % width, held)
    values, persons, total = len(of_value), len(of_person), held.sum()
    again = total - persons
    return bool(
        persons > FEW
        and values > max(FEW, GROUPS * persons)
        and again >= EVIDENCE
        and of_value.sum() >= _MOSTLY * total
        and (of_person - 1).sum() >= _MOSTLY * again
    )


def _largest(of: npt.NDArray[np.int64], held: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The largest number of each group that occurs."""
    most = np.zeros(int(of.max(initial=-1)) + 1, dtype=np.int64)
    np.maximum.at(most, of, held)
    return most[most > 0]


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
    if persons is None:
        return why, (not_compared(person),)
    same, perhaps = numbers_of_persons(opened, rest, persons, seed)
    why |= dict.fromkeys(same, f"its values are persons of `{person}`")
    rest = [name for name in rest if name not in why]
    others = other_names(opened, rest, person, budget)
    why |= dict.fromkeys(others, f"its values are one-to-one with `{person}`")
    return why, tuple(perhaps_persons([name for name in perhaps if name not in why], person))


def alike_persons(persons: pa.Array, person: str) -> list[str]:
    """Sentences about persons who may be one, written in several ways, or nobody."""
    import pyarrow.compute as pc

    if not _is_text(persons):
        return []
    plain = _one_way(persons.drop_null())
    told = []
    if blank := pc.sum(pc.equal(plain, "")).as_py():
        told.append(
            f"{counted(blank, 'value', does='hold')} nothing but blanks in `{person}`, and each "
            "counts as a person: empty such cells if they name nobody"
        )
    times = pc.value_counts(plain.filter(pc.not_equal(plain, ""))).field("counts")
    if alike := pc.sum(times.filter(pc.greater(times, 1))).as_py():
        told.append(
            f"{alike:,} values of `{person}` differ from others only in {_SPELLING}, and count as "
            "different persons: if they are the same, k persons may be fewer; write every person "
            "one way"
        )
    return told


def misspelled_persons(cells: pa.Array, column: str, persons: pa.Array, person: str) -> list[str]:
    """A sentence about cells that name nobody, and would if it did not matter how."""
    import pyarrow.compute as pc

    if not _is_text(cells) or not _is_text(persons):
        return []
    others = cells.drop_null().filter(pc.invert(pc.is_in(cells.drop_null(), value_set=persons)))
    found = pc.sum(pc.is_in(_one_way(others), value_set=_one_way(persons.drop_null()))).as_py()
    if not found:
        return []
    return [
        f"{counted(found, 'value')} of `{column}` {'differs' if found == 1 else 'differ'} from "
        f"`{person}` only in {_SPELLING}, so that nobody has these rows; write every person one way"
    ]


def _is_text(values: pa.Array) -> bool:
    return column_of("", values.type).kind == "text"


_SPELLING = "case, blanks, leading zeros, dashes (- _ /), a final .0 or the coding of letters"


def _one_way(texts: pa.Array) -> pa.Array:
    """Texts without what people write in several ways.

    Whole numbers beside empty cells may have been read as 17.0; a dash that nothing stands before
    is a sign.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    plain = pc.utf8_lower(pc.utf8_normalize(texts.cast(pa.string()), "NFKC"))
    plain = pc.replace_substring_regex(plain, r"[\s\pZ\p{Cf}]+", "")
    plain = pc.replace_substring_regex(plain, r"([\pL\pN])[\p{Pd}_/]+", r"\1")
    plain = pc.replace_substring_regex(plain, r"([0-9])\.0+$", r"\1")
    return pc.replace_substring_regex(plain, r"(^|[^0-9.,])0+([0-9])", r"\1\2")


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
    from sfumato.engines.encoding import codes_of_table

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
