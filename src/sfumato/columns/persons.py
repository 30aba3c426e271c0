"""The column that names persons: what must be true of it, how to notice one, and its doubles.

Other columns may tell persons apart as that column does. To find them, the persons' values are
passed over some at a time, and rows are counted where they are: what is held here is a sample of
cells, or eight bytes for each person.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.budget import Budget
from sfumato.columns.content import FEW, ColumnFacts, meaning_of, words_of
from sfumato.columns.profile import Profile, classes_together
from sfumato.columns.recognise import GROUPS, Neighbours, Recognised, named_after_people, recognise
from sfumato.engines.encoding import codes_of_table
from sfumato.engines.protocol import (
    BATCH_ROWS,
    BLANKS,
    SPELLINGS,
    CodeArray,
    Codes,
    Spelling,
    asks_sql,
)
from sfumato.errors import ColumnError, TooManyClassesError, spell
from sfumato.hierarchy.labels import as_text
from sfumato.results import Result
from sfumato.tables import Table
from sfumato.tables.celltypes import MISSING_WORDS
from sfumato.wording import counted

LOOKED_AT = 2_000
"""Rows looked at to find suspects; whoever is suspected is counted on all rows."""
EVIDENCE = 20
"""Rows looked at, beyond the first of each person, that an own column must not contradict."""
MOST_FETCHED = 1_000_000
"""Numbers of persons that come to us at most from where rows stay."""
MOST_SPELLED = 1_000_000
"""Texts beyond those a column of persons may have that are compared in one spelling."""
MOST_CHANGED = 250_000
"""Values of a column of which is asked what they become before they are published."""

NEARLY = 0.95
"""Share of numbers from which on exceptions are taken for mistakes."""
_MOSTLY = 0.9
"""Share of rows from which on others do not hide that a column is one-to-one with persons."""
_MANY = 100
"""Different whole numbers that are the persons' by more than chance, wherever those lie."""
_SPELLED = 1 << 14
"""Texts that are brought into one spelling together: every step of it holds another copy."""
_SOME = 3
_CHANCE = 0.001
"""How likely a few numbers may be all known by chance, to be taken for persons all the same."""
_COMPARED = ("text", "integer", "float", "decimal")
_NOBODY = frozenset(word.lower() for word in (*MISSING_WORDS, "-", "--", "nan", "unknown"))

Changed = Mapping[str, Callable[["pa.Array"], "pa.Array"]]
"""What values of columns become before they are published; others stay."""
_NONE: Changed = {}
Hashes = npt.NDArray[np.int64]


def rows_of_words(opened: Table, column: str) -> dict[str, int]:
    """Rows whose cell is blank text ("") or a word for nobody, by word."""
    rows: dict[str, int] = {}
    if opened.column(column).kind == "text":
        for cell, number in opened.engine.rows_of_words(column, _NOBODY).items():
            rows[cell.strip()] = rows.get(cell.strip(), 0) + number
    return rows


@dataclass(frozen=True)
class Persons:
    """The values of a column that names persons, some at a time."""

    table: Table
    column: str

    def plain(self) -> Iterator[pa.Array]:
        """All values in one spelling, without words for nobody."""
        for values in self.table.engine.different(self.column):
            for start in range(0, len(values), _SPELLED):
                yield _spelled(values[start : start + _SPELLED]).drop_null()

    @property
    def is_text(self) -> bool:
        """Whether values can be spelled in several ways."""
        return self.table.column(self.column).kind == "text"


def known_persons(opened: Table, person: str) -> Persons | None:
    """The numbers of all persons; None where they are too many to leave the place they are in."""
    remote = opened.engine.capabilities.remote
    if remote and opened.class_sizes([person]).classes > MOST_FETCHED:
        return None
    return Persons(opened, person)


def not_compared(person: str) -> str:
    """What is to be said where numbers of persons are too many to be compared with."""
    return (
        f"whether other columns hold values of `{person}` was not looked at: it has more than "
        f"{MOST_FETCHED:,}, which stay where they are"
    )


def numbers_of_persons(
    opened: Table, columns: Sequence[str], persons: Persons, seed: int = 0, changed: Changed = _NONE
) -> tuple[list[str], list[str]]:
    """Columns whose cells are those of a column of persons, beyond chance; and perhaps by chance.

    How values are spelled does not matter. Whole numbers from 1 to 90 are those of patients 1 to
    500 by chance; so where the persons' numbers leave few gaps, a column must have many and span
    most of theirs, or be called like a relative (`mother`), who need not be a patient. Some rows
    are looked at, wherever they are; more of a column that is mostly empty.
    """
    looked = [c.name for c in opened.schema if c.name in columns and c.kind in _COMPARED]
    if not looked:
        return [], []
    sample = codes_of_table(opened.sample(LOOKED_AT, looked, seed))
    rows = {}
    for name in looked:
        becomes = changed.get(name, _same)
        rows[name] = _rows_of_cells(sample.values_of(name), sample.column(name), None, becomes)
        if len(rows[name]) < EVIDENCE and opened.rows > LOOKED_AT:
            rows[name] = _more_rows(opened, name, seed, becomes)
    known = _Known.of(persons, {cell for cells in rows.values() for cell in cells})
    found: list[str] = []
    perhaps: list[str] = []
    for name in looked:
        cells = set(rows[name])
        if known.hold(cells):
            found.append(name)
        elif _is_relative(name):
            share, numbers = known.share(rows[name])
            if share >= 0.5 and not cells <= _YES_OR_NO:
                (found if share >= _MOSTLY and numbers > FEW else perhaps).append(name)
        elif known.include(cells) and known.spanned_by(cells):
            perhaps.append(name)
    return found, perhaps


def _same(values: pa.Array) -> pa.Array:
    return values


def _more_rows(
    opened: Table, name: str, seed: int, becomes: Callable[[pa.Array], pa.Array]
) -> dict[str, int]:
    """Values of a column that is mostly empty: all, or those of a larger sample."""
    try:
        held = opened.values(name, 10 * LOOKED_AT)
    except TooManyClassesError:
        held = codes_of_table(opened.sample(20 * LOOKED_AT, [name], seed))
    return _rows_of_cells(held.values[0], held.arrays[0], held.counts, becomes)


def _rows_of_cells(
    values: pa.Array,
    codes: npt.NDArray[np.integer],
    counts: Hashes | None,
    becomes: Callable[[pa.Array], pa.Array],
) -> dict[str, int]:
    """How many rows hold each value of a column, however it is spelled."""
    held = np.bincount(codes, counts, minlength=len(values)).astype(np.int64)
    rows: dict[str, int] = {}
    for text, number in zip(_spelled(becomes(values)).to_pylist(), held.tolist(), strict=True):
        if text is not None and number:
            rows[text] = rows.get(text, 0) + number
    return rows


@dataclass
class _Known:
    """What is known of the numbers of persons, and which of some cells are among them.

    Attributes
    ----------
    cells
        Those that are persons as they stand.
    bare
        Those that are persons without the letters before them, if these are the same in all.
    number
        How many persons there are.
    low, high
        The ends of those that are whole numbers, without the letters.
    """

    persons: Persons
    cells: set[str] = field(default_factory=set)
    bare: set[str] = field(default_factory=set)
    number: int = 0
    low: float = np.inf
    high: float = -np.inf
    prefix: str = ""

    @classmethod
    def of(cls, persons: Persons, cells: set[str]) -> _Known:
        """Pass over all persons with the cells that are to be found among them."""
        made, wanted = cls(persons), pa.array(sorted(cells), pa.string())
        made.prefix = made._common_prefix()
        for values in persons.plain():
            bare = made._without_prefix(values)
            made.number += len(values)
            for some, met in ((values, made.cells), (bare, made.bare)):
                met.update(some.filter(pc.is_in(some, value_set=wanted)).to_pylist())
            if len(numbers := _whole_numbers(bare)):
                made.low = min(made.low, numbers.min())
                made.high = max(made.high, numbers.max())
        return made

    def _common_prefix(self) -> str:
        """The letters before the numbers of all persons; none if they are not the same in all."""
        prefix = None
        for values in self.persons.plain():
            if len(values) and prefix is None:
                prefix = values[0].as_py().rstrip("0123456789")
            if not prefix:
                continue
            same = pc.starts_with(values, prefix)
            bare = pc.utf8_slice_codeunits(values, len(prefix))
            if not pc.all(pc.and_(same, pc.match_substring_regex(bare, _WHOLE))).as_py():
                return ""
        return prefix or ""

    def _without_prefix(self, values: pa.Array) -> pa.Array:
        return pc.utf8_slice_codeunits(values, len(self.prefix)) if self.prefix else values

    def hold(self, cells: set[str]) -> bool:
        """Whether cells are known ones, and not by chance.

        Names like P17 are not met by chance: some of them will do, and half of the cells, as
        mothers need not be patients. Of numbers nearly all must be known; those of P1, P2, … are
        1, 2, ….
        """
        if self.number <= FEW or len(cells) < _SOME:
            return False
        if sum(map(_letters_and_digits, cells & self.cells)) >= max(_SOME, len(cells) / 2):
            return True
        shared = cells & (self.bare if any(map(_is_whole, cells)) else self.cells)
        whole = [int(cell) for cell in shared if _is_whole(cell)]
        few = len(cells) <= FEW
        if len(shared) < max(_SOME, NEARLY * len(cells)) or (few and len(whole) < _SOME):
            return False
        if len(whole) <= FEW and not few:
            return True
        low, high = min(whole), max(whole)
        density = min(1.0, self._within(low, high) / (high - low + 1))
        if few:
            return bool(density ** len(whole) < _CHANCE)
        if density < 0.5:
            return True
        return len(whole) > _MANY and high - low >= NEARLY * (self.high - self.low)

    def _within(self, low: int, high: int) -> int:
        """How many persons have numbers between two."""
        found = 0
        for values in self.persons.plain():
            numbers = _whole_numbers(self._without_prefix(values))
            found += int(np.count_nonzero((numbers >= low) & (numbers <= high)))
        return found

    def share(self, rows: Mapping[str, int]) -> tuple[float, int]:
        """The share of cells, or of different ones, that are persons' numbers; how many are."""
        if self.number <= FEW or not rows:
            return 0.0, 0
        shared = rows.keys() & (self.cells | self.bare)
        held = sum(rows[cell] for cell in shared)
        return max(held / sum(rows.values()), len(shared) / len(rows)), len(shared)

    def include(self, cells: set[str]) -> bool:
        """Whether all of many whole numbers are those of persons."""
        enough = self.number > FEW and len(cells) > FEW
        return enough and all(map(_is_whole, cells)) and cells <= self.bare

    def spanned_by(self, cells: set[str]) -> bool:
        """Whether numbers reach as far as those of persons do."""
        mine = [int(cell) for cell in cells]
        return max(mine) - min(mine) >= NEARLY * (self.high - self.low)


_WHOLE = "^[0-9]+$"


def _whole_numbers(texts: pa.Array) -> npt.NDArray[np.float64]:
    whole = texts.filter(pc.match_substring_regex(texts, _WHOLE))
    return np.asarray(whole.cast(pa.float64()))


def _is_whole(cell: str) -> bool:
    return cell.isascii() and cell.isdecimal()


def _letters_and_digits(cell: str) -> bool:
    """Whether a text is a name like P17, and no number like 1e-05."""
    try:
        float(cell)
    except ValueError:
        return any(map(str.isdigit, cell)) and any(map(str.isalpha, cell))
    return False


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
    each person must bear it out. Rows are counted where they are.
    """
    persons = opened.class_sizes([person], budget).classes
    again = opened.rows - persons
    if not columns or persons <= FEW or again < EVIDENCE:
        return []
    most = persons + 2 + (1 - _MOSTLY) * again  # different in nearly every row: not a person's
    nulls = opened.engine.null_counts(columns)
    found = []
    for name in columns:
        values = opened.class_sizes([name], budget).classes
        changes = name in changed and values <= MOST_CHANGED
        spelled = opened.column(name).kind == "text" and values <= MOST_SPELLED
        if values <= FEW or (values > most and not changes and not spelled):
            continue
        present = opened.rows - nulls[name] - sum(rows_of_words(opened, name).values())
        if present < EVIDENCE or values < GROUPS * persons * present / opened.rows / 2:
            continue
        spelling = Spelling(_NOBODY, partial(_numbered, changed.get(name, _same)), changes)
        pairs = opened.engine.pairing(name, person, spelling, budget)
        again = pairs.rows - pairs.persons
        if (
            pairs.persons > FEW
            and pairs.values > max(FEW, GROUPS * pairs.persons)
            and again >= EVIDENCE
            and pairs.of_values >= _MOSTLY * pairs.rows
            and pairs.of_persons - pairs.persons >= _MOSTLY * again
        ):
            found.append(name)
    return found


def alike_persons(persons: Persons, person: str) -> list[str]:
    """Sentences about persons who may be one, written in several ways, or nobody."""
    if not persons.is_text:
        return []
    (one_way,), blank = _all_hashes(persons, _one_way), hash("")
    nobody, some = int(np.count_nonzero(one_way == blank)), one_way[one_way != blank]
    told = []
    if nobody:
        told.append(
            f"{counted(nobody, 'value', does='hold')} nothing but blanks in `{person}`, and each "
            "counts as a person: empty such cells if they name nobody"
        )
    times = np.unique(some, return_counts=True)[1]
    if alike := int(times[times > 1].sum()):
        told.append(
            f"{alike:,} values of `{person}` differ from others only in {_SPELLING}, and count as "
            "different persons: if they are the same, k persons may be fewer; write every person "
            "one way"
        )
    return told


def misspelled_persons(cells: Persons, column: str, persons: Persons, person: str) -> list[str]:
    """A sentence about cells that name nobody, and would if it did not matter how."""
    if not cells.is_text and not persons.is_text:
        return []
    (exact, loose), (mine, spelled) = (
        _all_hashes(of, as_text, _one_way) for of in (persons, cells)
    )
    others = ~np.isin(mine, exact)
    found = int(np.count_nonzero(np.isin(spelled[others], loose)))
    if not found:
        return []
    return [
        f"{counted(found, 'value')} of `{column}` {'differs' if found == 1 else 'differ'} from "
        f"`{person}` only in {_SPELLING}, so that nobody has these rows; write every key one way"
    ]


def shared_values(opened: Table, columns: Sequence[str]) -> Callable[[str, str], int]:
    """How many values two of some columns have in common."""
    held = {name: _all_hashes(Persons(opened, name), as_text)[0] for name in columns}
    return lambda one, other: len(np.intersect1d(held[one], held[other], assume_unique=True))


_SPELLING = "case, blanks, leading zeros, dashes (- _ /), a final .0 or the coding of letters"


def _one_way(values: pa.Array) -> pa.Array:
    """Texts without what people write in several ways.

    Whole numbers beside empty cells may have been read as 17.0; a dash that nothing stands before
    is a sign.
    """
    texts = as_text(values).cast(pa.string())
    if pa.types.is_integer(values.type):
        return texts
    plain = pc.utf8_lower(pc.utf8_normalize(texts, "NFKC"))
    ascii_only = pc.all(pc.string_is_ascii(plain)).as_py()
    for pattern, by in ((BLANKS, ""), *SPELLINGS):
        if ascii_only:  # for all letters there are, it takes longer to compile than to apply
            pattern = pattern.replace(r"\p{L}\p{N}", "A-Za-z0-9").replace(r"\p{Pd}", r"\-")
        plain = pc.replace_substring_regex(plain, pattern, by)
    return plain


def _spelled(values: pa.Array) -> pa.Array:
    """Values as text in one spelling; words for nobody are null."""
    texts = as_text(values).cast(pa.string())
    plain = pc.utf8_lower(pc.utf8_trim_whitespace(texts))
    nobody = pc.is_in(plain, value_set=pa.array(sorted(_NOBODY)))
    return pc.if_else(nobody, pa.scalar(None, pa.string()), _one_way(values))


def _hashes(texts: pa.Array) -> Hashes:
    return np.fromiter(map(hash, texts.to_pylist()), np.int64, len(texts))


def _all_hashes(persons: Persons, *ways: Callable[[pa.Array], pa.Array]) -> list[Hashes]:
    """A number for each value, for each way of writing: the same for those written alike."""
    found: list[list[Hashes]] = [[np.empty(0, np.int64)] for _ in ways]
    for values in persons.table.engine.different(persons.column):
        for numbers, way in zip(found, ways, strict=True):
            numbers.append(_hashes(way(values)))
    return [np.concatenate(numbers) for numbers in found]


def _numbered(becomes: Callable[[pa.Array], pa.Array], values: pa.Array) -> Hashes:
    """A number for each value, the same for those that are spelled alike; -1 for nobody."""
    hashes, there = np.empty(len(values), np.int64), np.empty(len(values), np.bool_)
    changed = becomes(values)
    for start in range(0, len(values), BATCH_ROWS):
        some = slice(start, start + BATCH_ROWS)
        texts = _spelled(changed.slice(start, BATCH_ROWS))
        hashes[some], there[some] = _hashes(texts), np.asarray(texts.is_valid())
    numbers = np.unique(hashes, return_inverse=True)[1].astype(np.int64)
    return np.where(there, numbers, -1)


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
            remedy="Remove it there: it tells persons apart and is left out.",
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
    seen = len(np.unique(codes.arrays[0]))
    if classes_together(codes) != seen or (not look.whole and codes.entries - seen < EVIDENCE):
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
    looked_at = 0 if opened.engine.capabilities.remote else LOOKED_AT
    sample = codes_of_table(some_rows(opened, looked_at, text, seed, budget))
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

    And what is to be said of persons who may be one, and of what was not looked at.
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
        told += alike_persons(persons, person)
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


def some_rows(
    table: Table, rows: int, columns: Sequence[str], seed: int, budget: Budget | None
) -> pa.Table:
    """A sample of so many rows, or of fewer where they are long and memory is limited."""
    engine = table.engine
    fit = engine.fitting(rows, columns, budget) if rows and asks_sql(engine) else rows
    return table.sample(fit, columns, seed)


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
