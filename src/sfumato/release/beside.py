"""What a release does not promise: who stands alone by the columns that were kept as they are.

A promise is about quasi-identifiers. Whoever knows another column of a person, one that stays as it
is, may find her all the same; how many rows that concerns can be counted, and is said beside the
promise. So is what distinct l-diversity lets pass: classes in which nearly all rows hold one value;
and whom pseudonyms give away that say which rows belong together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.budget import Budget
from sfumato.columns.content import FEW
from sfumato.columns.persons import naming_columns, some_rows
from sfumato.engines.encoding import as_arrow
from sfumato.engines.protocol import CodeArray, Codes
from sfumato.errors import spell
from sfumato.kernels import class_ids, group_distinct, refine, representatives
from sfumato.privacy import Model
from sfumato.release.promise import Anonymity
from sfumato.results import Result
from sfumato.tables import Table, table
from sfumato.wording import among, counted, phrase

NOT_PROMISED = "not promised: "
"""How sentences begin about what a promise leaves open."""

_LOOKED_AT = 50_000
"""Rows among which the columns that single out most are looked for; they are counted on all."""
_STEPS = 2
"""Kept columns that are named."""
_MOST_COLUMNS = 30
_NAMED = 5
"""Columns that are named in one sentence."""
_NEARLY_A_KEY = 0.9
"""Columns with more different values than this share of rows find anybody alone."""
NEARLY_ALL = 0.9
"""Share of a class that holds one value, from which on it is said."""
_MOST_OWNED = 5_000_000
"""Rows among which it is counted what persons of a class have, and whom pseudonyms give away."""
_MANY = 50
"""Different numbers of a sensitive column, from which on counting them says little."""


@dataclass(frozen=True)
class Beside(Result):
    """Rows that are alone by quasi-identifiers and kept columns together.

    Attributes
    ----------
    qi
        The released quasi-identifiers.
    by
        Kept columns that single out most, the first by itself, then together with the next.
    alone
        Rows that are alone by the quasi-identifiers and the first, the first two, … of them.
    all_columns, alone_by_all
        The kept columns that were looked at, and rows that are alone by all of them.
    rows
        Rows of the release.
    of_its_own
        Kept columns with a value of its own in most rows, which by themselves find them; but for
        those that point at persons, which the release points out.
    several
        Whether others may know one of several sets, of which `qi` is one.
    worth_hiding
        Whether some of the kept columns are sensitive.
    """

    qi: tuple[str, ...]
    by: tuple[str, ...]
    alone: tuple[int, ...]
    all_columns: tuple[str, ...]
    alone_by_all: int
    rows: int
    of_its_own: tuple[str, ...] = ()
    several: bool = False
    worth_hiding: bool = field(default=False, metadata={"private": True})

    @property
    def say_of_its_own(self) -> str | None:
        """A sentence about columns that find rows by themselves; None where there are none."""
        if not self.of_its_own:
            return None
        shown = [f"`{name}`" for name in self.of_its_own[:_NAMED]]
        more = len(self.of_its_own) - len(shown)
        names = ", ".join(shown) + (f" and {more:,} more" if more else "")
        several = len(self.of_its_own) > 1
        values = "have values of their own" if several else "has a value of its own"
        return (
            f"{NOT_PROMISED}{names} {values} in most rows, and whoever knows "
            f"{'one of them' if several else 'it'} of such a person finds the row; blur what "
            "others may know, too"
        )

    @property
    def say(self) -> str | None:
        """A sentence; None where nobody is alone."""
        if not self.alone_by_all:
            return None
        listed = phrase([f"`{name}`" for name in self.qi], _NAMED)
        qi = f" besides {listed if self.several else 'the quasi-identifiers'}" if self.qi else ""
        every = f"{len(self.all_columns)} of the columns that stay as they are"
        every += " (those worth hiding among them)" * self.worth_hiding
        if not any(self.alone):
            be = "is" if self.alone_by_all == 1 else "are"
            said = f"{self._told(self.alone_by_all)} {be} alone for whoever knows {every}{qi}"
        else:
            names = " and ".join(f"`{name}`" for name in self.by)
            be = "is" if self.alone[-1] == 1 else "are"
            said = f"{self._told(self.alone[-1])} {be} alone for whoever knows {names}{qi}"
            if self.alone_by_all > self.alone[-1]:
                said += f", and {self._told(self.alone_by_all)} for whoever knows {every}"
        return f"{NOT_PROMISED}{said}; blur what others may know, too"

    def _told(self, alone: int) -> str:
        share = alone / max(self.rows, 1)
        told = f"{min(share, 0.999 if share < 1 else 1):.1%}" if share >= 0.001 else "below 0.1%"
        return f"{alone:,} of {counted(self.rows, 'row')} ({told})"


def beside(
    released: Table,
    qi: Sequence[str],
    others: Sequence[str],
    budget: Budget | None = None,
    *,
    several: bool = False,
) -> Beside | None:
    """Which kept columns single out rows of a release.

    Parameters
    ----------
    others
        Columns that are not looked at: sensitive ones, pseudonyms, and those of other sets.
    several
        Whether others may know one of several sets, of which `qi` is one.

    Returns
    -------
    beside
        None where nothing else was kept. Where rows are elsewhere, all kept columns are counted
        together, and none is named.

    Examples
    --------
    >>> import pyarrow as pa
    >>> people = pa.table({"age": ["[20, 30)"] * 4, "job": ["a", "b", "b", "c"]})
    >>> found = beside(table(people), ["age"], [])
    >>> found.by, found.alone
    (('job',), (2,))
    """
    kept = [n for n in released.columns if n not in qi and n not in others]
    able = released.engine.capabilities
    rows = released.rows
    if not kept or rows < 2 or not able.replayable:
        return None
    shown = [*qi, *kept]
    if able.remote:  # one question: rows are not brought here to choose among columns
        by_all = released.class_sizes(shown, budget).unique_rows
        return Beside(tuple(qi), (), (), tuple(kept), by_all, rows, (), several)
    few = released if able.coded and rows <= _LOOKED_AT else None
    if few is None:
        few = table(_some(released, shown, budget))
    few.codes(shown, budget)  # read together, in one pass
    sizes = {name: few.class_sizes([name], budget) for name in kept}
    near = [n for n in kept if sizes[n].classes > _NEARLY_A_KEY * few.rows]
    whole = {n: sizes[n] if few is released else released.class_sizes([n], budget) for n in near}
    near = [n for n in near if whole[n].unique_rows > rows / 2]
    pointed_out = naming_columns(released, near, budget=budget) if near else {}
    own = tuple(n for n in near if n not in pointed_out and rows > FEW)
    telling = [n for n in kept if sizes[n].classes > 1 and n not in near]
    telling = sorted(telling, key=lambda n: -sizes[n].classes)[:_MOST_COLUMNS]
    if not telling:
        return None if not own else Beside(tuple(qi), (), (), (), 0, rows, own, several)
    by: list[str] = []
    while len(by) < min(_STEPS, len(telling)):
        left = [name for name in telling if name not in by]
        counted = {n: few.class_sizes([*qi, *by, n], budget).unique_rows for n in left}
        by.append(max(left, key=lambda n: counted[n]))
    alone = [
        released.class_sizes([*qi, *by[: at + 1]], budget).unique_rows for at in range(len(by))
    ]
    by_all = released.class_sizes([*qi, *telling], budget).unique_rows
    return Beside(tuple(qi), tuple(by), tuple(alone), tuple(telling), by_all, rows, own, several)


def _some(released: Table, columns: Sequence[str], budget: Budget | None) -> pa.Table:
    """Some rows; of those that are held as codes, long labels are held once."""
    if not released.engine.capabilities.coded:
        return some_rows(released, _LOOKED_AT, columns, 0, budget)
    drawn = released.codes(columns, budget).drawn(_LOOKED_AT, 0)
    cells = {}
    for name, codes, values in zip(drawn.columns, drawn.arrays, drawn.values, strict=True):
        if released.column(name).kind == "text":
            cells[name] = pa.DictionaryArray.from_arrays(as_arrow(codes), values)
        else:
            cells[name] = values.take(as_arrow(codes))
    return pa.table(cells)


@dataclass(frozen=True)
class Linked(Result):
    """Whom pseudonyms give away, by one set of columns; whether a person, or a household, or
    something else that has several rows, nobody here can know.

    Attributes
    ----------
    column
        The pseudonyms: rows of equal ones belong together.
    persons
        How many there are.
    least
        Those of the class that holds fewest; fewer than its rows where one has several.
    alone
        Those of whom no other has the same rows, all of theirs taken together.
    """

    column: str
    persons: int
    least: int
    alone: int

    @property
    def say(self) -> str:
        """A sentence."""
        alone = among(self.alone, self.persons, "pseudonym", does="are", share=True)
        found = f": {alone} alone with all of their rows together" if self.alone else ""
        return (
            f"{NOT_PROMISED}pseudonyms of `{self.column}` say which rows belong together{found}; "
            f"a class of rows that look alike has at least {counted(self.least, 'pseudonym')}; "
            "leave it out, or, where they are those of persons, promise whole histories "
            f"({spell('linkable', True)})"
        )


def linked(
    released: Table, qi: Sequence[str], name: str, budget: Budget | None = None
) -> Linked | None:
    """Whom a column of pseudonyms gives away; None where each stands in one row.

    Like what persons have in common, it is counted where rows are held in memory, and not by
    bringing them here.

    Examples
    --------
    >>> import pyarrow as pa
    >>> seen = pa.table({"who": ["a", "a", "b", "c"], "age": [20, 30, 20, 30]})
    >>> linked(table(seen), ["age"], "who")
    Linked(column='who', persons=3, least=2, alone=3)
    """
    if name not in released.columns or not at_hand(released):
        return None
    if released.class_sizes([name], budget).classes == released.rows:
        return None
    entries = released.classes([*(one for one in qi if one != name), name], budget=budget)
    assert entries.counts is not None
    own = entries.select(tuple(one for one in qi if one != name))
    ids, number = class_ids(own.arrays, own.cardinalities, entries=entries.entries)
    who = entries.column(name).astype(np.int64)
    persons = int(who.max(initial=0)) + 1
    known = np.asarray(entries.values_of(name).is_valid())  # rows without a pseudonym are nobody's
    if not known.any():
        return None
    theirs = np.flatnonzero(known[who])
    held = np.asarray(group_distinct(ids[theirs], number, who[theirs].astype(np.uint32), persons))
    rows = np.repeat(theirs, entries.counts[theirs])
    same = _histories(ids[rows], who[rows])
    same = same[same >= 0]
    alone = int((np.bincount(same) == 1).sum())
    return Linked(name, len(same), int(held.min()), alone)


def _histories(ids: CodeArray, who: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """For each person a number that those share who have the same rows; -1 where there are none."""
    order = np.lexsort((ids, who))
    persons, starts = np.unique(who[order], return_index=True)
    seen: dict[bytes, int] = {}
    found = np.full(int(who.max(initial=-1)) + 1, -1, np.int64)
    found[persons] = [
        seen.setdefault(own.tobytes(), len(seen)) for own in np.split(ids[order], starts[1:])
    ]
    return found


@dataclass(frozen=True, eq=False)
class Owned:
    """Rows of a release as codes, and whose they are.

    Attributes
    ----------
    entries, owners
        The rows, and a number for the person (or household) of each.
    linked
        Whether the release shows which rows belong together: then whoever knows all rows of
        somebody looks for all of them.
    """

    entries: Codes
    owners: npt.NDArray[np.int64]
    linked: bool = False

    @property
    def persons(self) -> int:
        return len(np.unique(self.owners))

    def classes(self, qi: Sequence[str]) -> tuple[CodeArray, int]:
        """The class of each entry, and how many there are."""
        own = self.entries.select(tuple(qi))
        return class_ids(own.arrays, own.cardinalities, entries=self.entries.entries)

    def most(self, name: str) -> int:
        """The persons who have the commonest value of a column in some row."""
        from sfumato.kernels import group_distinct

        codes, values = self.entries.column(name), self.entries.values_of(name)
        there = np.asarray(values.is_valid())[codes]
        who, width = self.owners[there].astype(np.uint32), int(self.owners.max(initial=0)) + 1
        return int(np.max(group_distinct(codes[there], len(values), who, width), initial=0))

    def sharing(
        self, sets: Sequence[Sequence[str]], names: Sequence[str]
    ) -> dict[str, tuple[int, int]]:
        """By column the persons in classes of which everybody has the same value in some row, and
        of which nearly all have it. Where everybody has one row, rows tell it.

        Of rows that are linked a class is formed by whoever has the same rows, all of theirs.

        Examples
        --------
        >>> import pyarrow as pa
        >>> seen = pa.table({"who": [1, 1, 2, 2], "age": [20] * 4, "ill": ["a", "b", "a", "c"]})
        >>> rows = table(seen).codes()
        >>> Owned(rows, rows.column("who").astype(np.int64)).sharing([["age"]], ["ill"])
        {'ill': (2, 0)}
        """
        found = dict.fromkeys(names, (0, 0))
        if self.persons == self.entries.rows and not self.linked:
            return found  # rows tell it
        for one in sets:
            ids, number = self.classes(one)
            if self.linked:
                ids = _histories(ids, self.owners)[self.owners].astype(np.uint32)
                number = int(ids.max(initial=0)) + 1
            for name in names:
                by_all, nearly = self._sharing(ids, number, name)
                found[name] = max(found[name][0], by_all), max(found[name][1], nearly)
        return found

    def _sharing(self, ids: CodeArray, number: int, name: str) -> tuple[int, int]:
        from sfumato.kernels import group_distinct, refine, representatives

        codes, values = self.entries.column(name), self.entries.values_of(name)
        there = np.asarray(values.is_valid())[codes]  # a missing value is none
        classes, codes, who = ids[there], codes[there], self.owners[there].astype(np.uint32)
        width = int(self.owners.max(initial=0)) + 1
        everybody = np.asarray(group_distinct(classes, number, who, width))
        cells, kinds = refine(classes, number, codes, len(values), ordered=False)
        home = classes[np.asarray(representatives(cells, kinds), np.int64)]
        most = np.zeros(number, np.int64)
        np.maximum.at(most, home, np.asarray(group_distinct(cells, kinds, who, width), np.int64))
        by_all = (most == everybody) & (everybody > 0)
        nearly = (most >= NEARLY_ALL * everybody) & (most < everybody)
        return len(np.unique(who[by_all[classes]])), len(np.unique(who[nearly[classes]]))


def pseudonyms_of(asked: object) -> tuple[str, ...]:
    """Columns that were to be replaced by pseudonyms; of linked histories the person is.

    Examples
    --------
    >>> pseudonyms_of({"pseudonyms": ["who"], "columns": {"home": {"pseudonym": "street"}}})
    ('who', 'home')
    """
    if not isinstance(asked, Mapping):
        return ()
    said, actions = asked.get("pseudonyms"), asked.get("columns")
    named = said if isinstance(said, list | tuple) else ()
    marked = actions.items() if isinstance(actions, Mapping) else ()
    named = (*named, *(n for n, how in marked if isinstance(how, Mapping) and how.get("pseudonym")))
    if asked.get("linkable") and asked.get("person"):
        named = (*named, asked["person"])
    return tuple(dict.fromkeys(str(name) for name in named))


def about_promise(
    released: Table, promise: Anonymity, pseudonyms: Sequence[str], budget: Budget | None = None
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What a promise of anonymity leaves open: figures, and sentences for people."""
    figures, told = remarks(
        released, promise.qi, promise.sensitive, pseudonyms, promise.models, budget
    )
    whose = [linked(released, one, name, budget) for one in promise.qi[:1] for name in pseudonyms]
    return figures, (*told, *(one.say for one in whose if one is not None))


def about_persons(
    released: Table, promise: Anonymity, budget: Budget | None = None
) -> tuple[dict[str, tuple[int, int]], tuple[str, ...]]:
    """What everybody, or nearly everybody, of a class has, where persons were counted.

    By column the persons in classes in which all who have a value have the same one in some row,
    and in which nearly all have, as whoever made the release can count. Where no column was named
    as sensitive, all that were kept are looked at, and nothing is said: a page may know which are
    worth hiding.
    """
    table = released if promise.owners is not None else promise.witness
    if promise.person is None or table is None or not at_hand(table):
        return {}, ()
    names = dict.fromkeys(name for one in promise.qi for name in one)
    who = () if promise.owners is not None else (promise.person,)
    kept = [name for name in table.columns if name not in names and name != promise.person]
    hidden = promise.sensitive or kept[:_MOST_COLUMNS]
    read = table.codes if promise.owners is not None else table.classes
    entries = read((*names, *hidden, *who), budget=budget)
    owners = promise.owners if promise.owners is not None else entries.column(promise.person)
    owned = Owned(entries, np.asarray(owners, np.int64))
    found = owned.sharing(promise.qi, hidden)
    return found, tuple(
        f"{NOT_PROMISED}{said}{_limit(owned.most(name) / max(1, owned.persons))}"
        for name in promise.sensitive
        for said in say_shared(name, *found[name], owned.persons)
    )


def _limit(share: float) -> str:
    """The remedy against values that nearly all have; none where all of the table do.

    Examples
    --------
    >>> [_limit(share)[-9:] for share in (0.3, 0.83, 0.96)]
    ['alpha=0.5', 'alpha=0.9', '']
    """
    reached = next((one for one in (0.5, 0.7, 0.9) if share + 0.02 <= one), None)
    return f"; limit the share of one value, e.g. {spell('alpha', reached)}" if reached else ""


def say_shared(name: str, by_all: int, nearly: int, persons: int, of: str = "") -> list[str]:
    """What persons of a class have in common, in sentences; `of` pseudonyms that link rows."""
    noun, where, takes = "person", "classes", "somebody there to have it"
    if of:
        where = f"classes by all rows of a pseudonym of `{of}` together,"
        noun, takes = "pseudonym", "it to be among theirs"
    told = []
    for number, who, right in (
        (by_all, "everybody has" if not of else "each has", "right"),
        (nearly, f"at least {NEARLY_ALL:.0%}, and not all, have", "nearly surely right"),
    ):
        if number:
            found = among(number, persons, noun, does="are", share=True)
            told.append(
                f"{found} in {where} in which {who} the same `{name}` in some row: whoever takes "
                f"{takes} is {right}"
            )
    return told


def at_hand(rows: Table) -> bool:
    """Whether persons can be counted row by row: rows are held as codes, and are not too many."""
    return rows.engine.capabilities.coded and rows.rows <= _MOST_OWNED


def remarks(
    released: Table,
    sets: Sequence[Sequence[str]],
    sensitive: Sequence[str],
    others: Sequence[str],
    models: Sequence[Model],
    budget: Budget | None = None,
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What is not promised of a release: figures, and sentences for people."""
    if not sets:
        return {}, ()
    told: list[str] = []
    elsewhere = [name for one in sets[1:] for name in one if name not in sets[0]]
    found = beside(
        released, sets[0], [*sensitive, *others, *elsewhere], budget, several=len(sets) > 1
    )
    figures: dict[str, Any] = {} if found is None else {"beside": found.to_dict()}
    if found is not None:
        told += [said for said in (found.say, found.say_of_its_own) if said is not None]
    told += _about_sets(released, sets, budget)
    for name in sensitive:
        told += _about_numbers(
            released, name, {m.title for m in models if m.to_dict().get("column") == name}
        )
        if released.engine.capabilities.coded:
            for one in sets:
                told += _about_shares(released, one, name, budget, len(sets) > 1)
    return figures, tuple(told)


def _about_sets(released: Table, sets: Sequence[Sequence[str]], budget: Budget | None) -> list[str]:
    """Whoever knows the columns of all sets is not who the promise is about."""
    if len(sets) < 2 or not released.engine.capabilities.replayable:
        return []
    names = dict.fromkeys(name for one in sets for name in one)
    alone = released.class_sizes(tuple(names), budget).unique_rows
    if not alone:
        return []
    return [
        f"{NOT_PROMISED}{among(alone, released.rows, 'row', does='are', share=True)} alone for "
        f"whoever knows the columns of all {len(sets)} sets; what is promised, is promised of each "
        "set by itself"
    ]


def _about_numbers(released: Table, name: str, asked: set[str]) -> list[str]:
    """Different numbers are nearly always different: that promises little."""
    compared = any(title.startswith("t-closeness") for title in asked)
    counted = "distinct l-diversity" in asked and not compared
    if not counted or not released.column(name).ordered:
        return []
    values = released.class_sizes([name]).classes
    if values < _MANY:
        return []
    return [
        f"{NOT_PROMISED}`{name}` has {values:,} different numbers, and l counts any two as "
        "different: a class of people with nearly the same value passes; count ranges, e.g. "
        f"{spell('sensitive_bins', {name: 10})}, or ask for t-closeness too, e.g. {spell('t', 0.2)}"
    ]


def _about_shares(
    released: Table, qi: Sequence[str], name: str, budget: Budget | None, several: bool
) -> list[str]:
    """Classes in which nearly all rows hold one value."""
    entries = released.classes([*qi, name], budget=budget)
    own = entries.select(tuple(qi))
    ids, number = class_ids(own.arrays, own.cardinalities, entries=entries.entries)
    assert entries.counts is not None
    codes = entries.column(name)
    there = np.asarray(entries.values_of(name).is_valid())[codes]  # a missing value protects nobody
    known, most = largest_shares(ids, number, codes, entries.counts * there)
    rows = np.bincount(ids, weights=entries.counts, minlength=number).astype(np.int64)
    share = np.divide(most, known, out=np.zeros(number), where=known > 0)
    alike = share >= NEARLY_ALL
    if not alike.any():
        return []
    by = f" by {phrase([f'`{one}`' for one in qi], _NAMED)}" if several else ""
    overall = float(np.bincount(codes, entries.counts * there).max() / max(1, known.sum()))
    hold = f"hold one `{name}`" if there.all() else f"that tell `{name}` hold the same one"
    return [
        f"{NOT_PROMISED}in {int(alike.sum()):,} of {number:,} classes{by} "
        f"({counted(int(rows[alike].sum()), 'row')}) at least {NEARLY_ALL:.0%} of the rows "
        f"{hold}, at most {share.max():.1%}: whoever finds the class of a person "
        f"knows it nearly surely{_limit(overall)}"
    ]


def largest_shares(
    ids: CodeArray, number: int, codes: CodeArray, counts: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The rows of each class, and those that hold its commonest value.

    Examples
    --------
    >>> ids, codes = np.array([0, 0, 1, 0], np.uint32), np.array([5, 5, 5, 6], np.uint32)
    >>> [found.tolist() for found in largest_shares(ids, 2, codes, np.array([2, 1, 1, 4]))]
    [[7, 1], [4, 1]]
    """
    both, parts = refine(ids, number, codes, int(codes.max(initial=0)) + 1, ordered=False)
    held = np.bincount(both, weights=counts, minlength=parts).astype(np.int64)
    home = ids[np.asarray(representatives(both, parts), dtype=np.int64)]
    rows = np.bincount(home, weights=held, minlength=number).astype(np.int64)
    most = np.zeros(number, np.int64)
    np.maximum.at(most, home, held)
    return rows, most
