"""The join attack itself: match released rows with people whose names are known, and count.

What the models promise, measured: how many released rows match nobody, one person, fewer than k
or at least k people of an outside table, and, where the true identities are known, how many
guesses are right. If every row matches at least k people the release is k-map anonymous there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.budget import Budget, within_budget
from sfumato.engines.encoding import codes_among
from sfumato.engines.protocol import Codes
from sfumato.errors import ColumnError, ParameterError, SourceError, did_you_mean, spell
from sfumato.files import certificate_beside
from sfumato.hierarchy import Hierarchy, read_folder
from sfumato.hierarchy.labels import as_text, braces_around, read_interval
from sfumato.kernels import class_ids, representatives
from sfumato.release.label_matching import (
    Reading,
    Tree,
    build_tree,
    cells_of,
    count_people,
    count_persons,
    read_cells,
)
from sfumato.results import Result
from sfumato.risks import sampling_weights
from sfumato.tables import Table, table

if TYPE_CHECKING:
    from sfumato.hierarchy import Hierarchy


Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Points = npt.NDArray[np.int32]


@dataclass(frozen=True)
class AttackResult(Result):
    """Outcome of joining a release with an outside table.

    `released` counts released rows, or persons where the release says who is who by a person
    column (a person is as exposed as the worst of her rows). Of them `matches_none` match nobody,
    `matches_one` exactly one person, `matches_few` more than one and fewer than k, and `matches_k`
    at least k. `exposed_classes` counts the different combinations of released cells that match
    fewer than k. `smallest` and `median` are of those that match anybody. `expected_right` is how
    many an attacker gets right on average who guesses among the matches, if every released person
    is in the outside table.

    With true identities: `certain_right` rows match one person and it is the right one;
    `contains_truth` rows have the right person among their matches; `guessed_right` is the expected
    number of right guesses. `unread` counts, by column, distinct cells that could not be understood
    or name values the outside table does not have. `warnings` are sentences about what makes the
    figures say less than they seem to. `counted` says what the outside table was counted in:
    ``people``, where a person column or weights say who is who, else its ``rows``; and
    `released_as` what the release was.
    """

    on: tuple[str, ...]
    k: int
    released: int
    people: float
    matches_none: int
    matches_one: int
    matches_few: int
    matches_k: int
    smallest: float | None
    median: float | None
    k_map: bool
    exposed_classes: int
    expected_right: float
    certain_right: int | None = None
    contains_truth: int | None = None
    guessed_right: float | None = None
    unread: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    counted: str = "rows"
    released_as: str = "rows"


def join_attack(
    release: Codes,
    people: Codes,
    on: Sequence[str],
    *,
    k: int = 5,
    hierarchies: Mapping[str, Hierarchy] | None = None,
    person: str | None = None,
    identity: str | None = None,
    weight: str | None = None,
) -> AttackResult:
    """Join a release with an outside table.

    Parameters
    ----------
    release, people
        Distinct combinations with counts (or rows) of the columns `on`, followed by the columns
        named below where the table has them.
    on
        Columns both tables have.
    k
        Below so many matches a row is exposed.
    hierarchies
        Trees whose nodes the release shows, by column.
    person
        Column that says which rows belong to one person, in either table or both.
    identity
        Column with the true identity, in both tables.
    weight
        Column of `people` with sampling weights: how many people a row stands for.

    Examples
    --------
    >>> import pyarrow as pa
    >>> shown = pa.array(["[20, 30)", "*"])
    >>> release = Codes(("age",), (np.array([0, 1], np.uint8),), (shown,))
    >>> people = Codes(("age",), (np.array([0, 1, 2], np.uint8),), (pa.array([21, 25, 40]),))
    >>> found = join_attack(release, people, ["age"], k=3)
    >>> found.matches_few, found.matches_k, found.expected_right
    (1, 1, 0.8333333333333333)
    """
    if k < 1:
        raise ParameterError("k must be at least 1", remedy="Give -k 2 or more, e.g. -k 5.")
    if not on:
        raise ParameterError(
            "name at least one column to join on",
            remedy=f"E.g. {spell('on', ['age', 'sex', 'zip'])}.",
        )
    trees = hierarchies or {}
    readings = [
        read_cells(name, release.values_of(name), people.values_of(name), trees.get(name))
        for name in on
    ]
    boxes, box_of = _distinct_boxes(release, on)
    matched = _matches(boxes, readings, people, on, person, weight)
    exposed = int((matched < k).sum())
    matched = matched[box_of]
    rows = release.row_counts
    truth, warnings = None, []
    if identity is not None:
        truth = _truth(release, people, on, readings, identity)
        if identity != person:
            warnings = _repeated(release, people, identity)
    whose = person is not None and person in release.columns
    if person is not None and whose:
        matched, rows, truth = _by_person(release.column(person), matched, truth)
    unread = {name: r.unread for name, r in zip(on, readings, strict=True) if r.unread}
    count = _people_count(people, person, weight)
    found = _result(tuple(on), k, matched, rows, truth, count, exposed)
    named = weight is not None or (person is not None and person in people.columns)
    counted = "people" if named else "rows"
    return replace(
        found,
        unread=unread,
        warnings=tuple(warnings),
        counted=counted,
        released_as="people" if whose else "rows",
    )


def matching(
    release: Codes,
    people: Iterable[Codes],
    on: Sequence[str],
    values: Mapping[str, pa.Array],
    hierarchies: Mapping[str, Hierarchy],
) -> tuple[Floats, Ints]:
    """How many people each combination of released cells matches, and the rows that show it.

    A null may be a star, or say that the value is missing. Where people of the population lack it,
    too, only these are counted, as somebody would who knows that it is missing.

    Parameters
    ----------
    people
        Combinations with counts, some at a time.
    values
        All values that people have in each column.
    """
    readings = [
        read_cells(
            name,
            release.values_of(name),
            values[name],
            hierarchies.get(name),
            null_is_value=values[name].null_count > 0,
        )
        for name in on
    ]
    boxes, box_of = _distinct_boxes(release, on)
    found = np.zeros(len(boxes))
    for some in people:
        known = [codes_among(some.values_of(name), values[name]) for name in on]
        arrays = [code[some.column(name)] for name, code in zip(on, known, strict=True)]
        alike = Codes(tuple(on), tuple(arrays), tuple(values[n] for n in on), some.row_counts)
        found += _matches(boxes, readings, alike, on, None, None)
    return found, np.bincount(box_of, release.row_counts, len(boxes)).astype(np.int64)


def _distinct_boxes(release: Codes, on: Sequence[str]) -> tuple[Ints, Ints]:
    """Different combinations of released cells, and which of them each entry shows."""
    ids, count = release.numbered(on)
    first = representatives(ids, count)
    boxes = np.column_stack([release.column(name)[first].astype(np.int64) for name in on])
    return np.ascontiguousarray(boxes), ids.astype(np.int64)


def _matches(
    boxes: Ints,
    readings: Sequence[Reading],
    people: Codes,
    on: Sequence[str],
    person: str | None,
    weight: str | None,
) -> Floats:
    """People that each box may stand for."""
    points = np.empty((people.entries, len(on)), np.int32)
    for at, (name, reading) in enumerate(zip(on, readings, strict=True)):
        points[:, at] = reading.place[people.column(name)]
    shares = _weights(people, weight)
    if person is None or person not in people.columns:
        return _count(boxes, readings, points, shares)
    points, who, shares = _once_a_person(points, people.column(person).astype(np.int64), shares)
    if weight is not None:
        return _count(boxes, readings, points, shares)
    rows_of = np.bincount(who)
    several = rows_of[who] > 1  # people whose rows differ: a box may hold more than one of them
    found = np.zeros(len(boxes))
    if not several.all():
        found += _count(boxes, readings, points[~several], np.ones(int((~several).sum())))
    if several.any():
        found += _count_different(boxes, readings, points[several], who[several])
    return found


def _once_a_person(points: Points, who: Ints, shares: Floats) -> tuple[Points, Ints, Floats]:
    """Equal rows of one person are one."""
    columns = [array.astype(np.uint32) for array in (who, *points.T)]
    ids, count = class_ids(columns, [int(c.max(initial=0)) + 1 for c in columns], ordered=False)
    first = np.sort(representatives(ids, count))
    return points[first], who[first], shares[first]


def _weights(people: Codes, weight: str | None) -> Floats:
    counts = people.row_counts.astype(float)
    if weight is None:
        return counts
    return np.asarray(
        counts * sampling_weights(people.values_of(weight), weight)[people.column(weight)]
    )


def _people_count(people: Codes, person: str | None, weight: str | None) -> float:
    if weight is None and person is not None and person in people.columns:
        return float(len(np.unique(people.column(person))))
    return float(_weights(people, weight).sum())


def _count(boxes: Ints, readings: Sequence[Reading], points: Points, weights: Floats) -> Floats:
    if len(points) == 0:
        return np.zeros(len(boxes))
    tree = Tree(*build_tree(points, weights))
    return np.asarray(count_people(cells_of(boxes, readings), points, weights, tree))


def _count_different(boxes: Ints, readings: Sequence[Reading], points: Points, who: Ints) -> Floats:
    tree = Tree(*build_tree(points, np.ones(len(points))))
    persons = int(who.max()) + 1
    return np.asarray(count_persons(cells_of(boxes, readings), points, who, persons, tree))


def _truth(
    release: Codes, people: Codes, on: Sequence[str], readings: Sequence[Reading], identity: str
) -> npt.NDArray[np.bool_]:
    """Whether the true person of each released entry is among those it may stand for."""
    for codes, what in ((release, "the release"), (people, "the outside table")):
        if identity not in codes.columns:
            raise ColumnError(
                f"there is no column `{identity}` in {what}",
                remedy="Name a column that both tables have.",
            )
    known = people.values_of(identity)
    shown = release.values_of(identity)
    try:
        shown = shown.cast(known.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ColumnError(
            f"column `{identity}` holds {shown.type} in the release and {known.type} outside",
            remedy="Name a column that was released as it was.",
        ) from None
    same = pc.index_in(shown, value_set=known)
    code = np.asarray(same.fill_null(-1)).astype(np.int64)[release.column(identity)]
    owner = people.column(identity).astype(np.int64)
    by_owner = np.argsort(owner, kind="stable")
    start = np.searchsorted(owner[by_owner], code, "left")
    stop = np.searchsorted(owner[by_owner], code, "right")
    # every (released entry, row of the true person) pair
    entry = np.repeat(np.arange(release.entries), stop - start)
    first = np.repeat(start - np.concatenate([[0], np.cumsum(stop - start)[:-1]]), stop - start)
    row = by_owner[first + np.arange(len(entry))]
    fits = np.ones(len(entry), bool)
    for name, reading in zip(on, readings, strict=True):
        fits &= reading.covers(release.column(name)[entry], people.column(name)[row])
    among = np.zeros(release.entries, bool)
    among[entry[fits]] = True
    return among


def _repeated(release: Codes, people: Codes, identity: str) -> list[str]:
    """A sentence for each table in which an identity stands in several rows."""
    said = []
    for entries, what in ((release, "the release"), (people, "the outside table")):
        rows = np.bincount(entries.column(identity), weights=entries.counts)
        if several := int((rows > 1).sum()):
            said.append(
                f"`{identity}` does not identify rows in {what}: {several:,} of its values stand "
                "in several rows, and any of them counts as the right one; if they belong to one "
                f"person, say so with {spell('person', identity)}"
            )
    return said


def _by_person(
    person: npt.NDArray[Any], matched: Floats, truth: npt.NDArray[np.bool_] | None
) -> tuple[Floats, Ints, npt.NDArray[np.bool_] | None]:
    """One line a person: the row of hers that matches fewest people."""
    order = np.lexsort((matched, person))
    new = np.concatenate([[True], person[order][1:] != person[order][:-1]])
    worst = order[new]
    return matched[worst], np.ones(len(worst), np.int64), None if truth is None else truth[worst]


def _result(
    on: tuple[str, ...],
    k: int,
    matched: Floats,
    rows: Ints,
    truth: npt.NDArray[np.bool_] | None,
    people: float,
    exposed: int,
) -> AttackResult:
    def count(which: npt.NDArray[np.bool_]) -> int:
        return int(rows[which].sum())

    anybody = matched > 0
    guess = np.divide(1.0, np.maximum(matched, 1.0), out=np.zeros(len(matched)), where=anybody)
    right = None if truth is None else guess * (truth & anybody)
    one = anybody & (matched < 1.5) & (matched < max(k, 2))
    return AttackResult(
        on=on,
        k=k,
        released=int(rows.sum()),
        people=people,
        matches_none=count(~anybody),
        matches_one=count(one),
        matches_few=count(anybody & ~one & (matched < k)),
        matches_k=count(anybody & ~one & (matched >= k)),
        smallest=float(matched[anybody].min()) if anybody.any() else None,
        median=_weighted_median(matched[anybody], rows[anybody]),
        k_map=bool((matched >= k).all()),
        exposed_classes=exposed,
        expected_right=float((guess * rows).sum()),
        certain_right=None if truth is None else count(one & truth),
        contains_truth=None if truth is None else count(truth & anybody),
        guessed_right=None if right is None else float((right * rows).sum()),
    )


def _weighted_median(values: Floats, rows: Ints) -> float | None:
    if len(values) == 0:
        return None
    order = np.argsort(values)
    total = np.cumsum(rows[order])
    return float(values[order][np.searchsorted(total, total[-1] / 2)])


@within_budget
def attack(
    release: Any,
    people: Any,
    *,
    on: Sequence[str],
    k: int = 5,
    hierarchies: str | Path | Mapping[str, Hierarchy] | None = None,
    person: str | None = None,
    identity: str | None = None,
    sampling_weight: str | None = None,
    budget: Budget | None = None,
) -> AttackResult:
    """Join a release with a table of known people, as an attacker would.

    Parameters
    ----------
    release, people
        Anything `sfumato.table` opens. The release may show ranges, sets, stars, parts of dates
        and nodes of hierarchies.
    on
        Columns that both have.
    k
        Rows that match fewer people are exposed.
    hierarchies
        Folder of the trees the release was made with, or trees by column.
    person
        Column (in either table) that says which rows belong to one person: a name, a number or a
        pseudonym. One that was blurred names nobody, and is refused.
    identity
        Column of both tables with the true identity, to count right guesses.
    sampling_weight
        Column of `people` that says how many of the population a row stands for.

    Examples
    --------
    >>> import pyarrow as pa, sfumato as sf
    >>> people = pa.table({"name": ["Ann", "Bob", "Cid"], "age": [21, 25, 40]})
    >>> release = pa.table({"age": ["[20, 30)", "[40, 50)"], "illness": ["flu", "gout"]})
    >>> found = sf.attack(release, people, on=["age"], k=2)
    >>> found.matches_one, found.matches_k, found.k_map
    (1, 1, False)
    """
    budget = budget or Budget()
    if not hasattr(on, "__len__") or len(on) == 0:
        raise ParameterError(
            "name at least one column to join on",
            remedy=f"E.g. {spell('on', ['age', 'sex', 'zip'])}.",
        )
    released, outside = table(release, budget=budget), table(people, budget=budget)
    _refuse_bounds(released, on)
    columns = released.require(on)
    outside.require(on)
    if person is not None and person not in (*released.columns, *outside.columns):
        raise ColumnError(
            f"neither table has a column `{person}`",
            remedy=did_you_mean(person, [*released.columns, *outside.columns]),
        )
    for one in (released, outside):
        if person is not None and person in one.columns:
            _require_names(one, person)
    for needed, tables in ((identity, (released, outside)), (sampling_weight, (outside,))):
        for one in tables:
            one.require([] if needed is None else [needed])
    if not released.rows:
        raise SourceError(
            "the release has no rows, so there is nobody to look for",
            where=released.name,
            remedy="Give the released table.",
        )
    if not outside.rows:
        raise SourceError(
            "the outside table has no rows, so there are no people to match",
            where=outside.name,
            remedy="Give a table of people.",
        )
    _require_own_values(release, released, columns)
    trees = _trees(hierarchies, columns)
    return join_attack(
        _entries(released, columns, (person, identity), budget),
        _entries(outside, columns, (person, identity, sampling_weight), budget),
        columns,
        k=k,
        hierarchies=trees,
        person=person,
        identity=identity,
        weight=sampling_weight,
    )


def _require_own_values(release: Any, released: Table, on: Sequence[str]) -> None:
    """Refuse columns whose numbers stand for others, as the release or its certificate tells.

    The middle of a range, or a number that was rounded, is nobody's own: whoever has it in another
    table is somebody else.
    """
    beside = certificate_beside(released.name)  # whoever wrote it may have written anything
    asked, done = (
        _mapping(getattr(release, name, beside.get(name))) for name in ("asked", "column_actions")
    )
    shown, actions = asked.get("numbers_as") or "range", _mapping(asked.get("columns"))
    changed: dict[str, str] = {}
    for name in on:
        own = shown.get(name, "range") if isinstance(shown, Mapping) else shown
        before = [one for one in ("top", "bottom", "round") if one in _mapping(actions.get(name))]
        if before:
            changed[name] = f"was changed before ({', '.join(before)})"
        elif own not in ("range", "bounds") and done.get(name, "kept") != "kept":
            changed[name] = f"shows the {own} of each class in place of its range"
    for name, why in changed.items():
        rest = [one for one in on if one not in changed]
        raise ColumnError(
            f"column `{name}` {why}: equal numbers in the outside table are not matches",
            where=released.name,
            remedy=f"Join by the others ({spell('on', rest)}), or attack a release that shows "
            "ranges."
            if rest
            else "Attack a release that shows ranges.",
        )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _refuse_bounds(released: Table, on: Sequence[str]) -> None:
    """Refuse columns that a release shows by two others, the bounds of its ranges."""
    for name in on:
        ends = [f"{name}_from", f"{name}_to"]
        if name not in released.columns and set(ends) <= set(released.columns):
            raise ColumnError(
                f"there is no column `{name}`, only its bounds, `{ends[0]}` and `{ends[1]}`",
                where=released.name,
                remedy="Name other columns, or release ranges.",
            )


def _require_names(opened: Table, person: str) -> None:
    """Refuse to count persons by a column whose cells stand for several: they name nobody."""
    texts = as_text(opened.values(person).values[0]).to_pylist()
    blurred = sum(bool(t) and _stands_for_several(t) for t in texts)
    if blurred:
        raise ColumnError(
            f"{blurred:,} of {len(texts):,} different cells of `{person}` are ranges, sets or "
            "stars: they are labels, and persons cannot be counted by them",
            where=opened.name,
            remedy="Name a column that says who is who, or leave it out: rows are counted then.",
        )


def _stands_for_several(text: str) -> bool:
    """Whether a cell is a label of a release: a range with brackets, a set, a star or a mask."""
    ranged = text[0] in "[(" and read_interval(text) is not None
    return ranged or bool(braces_around(text)) or text.endswith("*")


def _entries(opened: Table, on: Sequence[str], more: Sequence[str | None], budget: Budget) -> Codes:
    """Distinct combinations with counts of the columns that the table has."""
    wanted = dict.fromkeys([*on, *(name for name in more if name in opened.columns and name)])
    return opened.classes(list(wanted), None, budget)


def _trees(
    given: str | Path | Mapping[str, Hierarchy] | None, columns: Sequence[str]
) -> Mapping[str, Hierarchy]:
    if given is None or isinstance(given, Mapping):
        return given or {}
    return read_folder(given, columns, pass_over=True)
