"""From a table and a request to solutions: set by set, or around the groups of an earlier release.

Sets of quasi-identifiers without a common column are anonymized one by one: each blurs only its own
columns, so neither pays for the other. Only where nothing else is possible sets are solved as their
union: whatever holds for the classes of a union holds for the classes of each of its parts, since
those are unions of classes and all models are monotone. The result says how it was.

Sets that share columns are solved apart where they differ (`solve_apart`; full-domain recoding
judges every set itself). The promise is about each set, not about their union, which asks for more:
whoever knows age and zip code does not know age and job. But a shared column is published once, so
the sets cannot be solved one by one either. They are solved in two stages:

1. The *shared* columns (those of two sets or more) are grouped so that each group has at least K
   rows, K being larger than k, and satisfies all other rules.
2. Within these groups every set blurs its own columns, as if the other sets did not exist.

The classes of a set are unions of the groups of its second stage. Each of those satisfies the
rules, and all models are monotone; so the promise holds for every set. A small K keeps shared
columns precise and leaves few rows to tell the own columns apart, a large K does the opposite: the
K of least loss is searched for. Where the union loses less (its groups fit all columns at once),
the union is taken.

Groups of an earlier release can be kept for the rows of another table (`keep_groups`). A row goes
to the group whose labels hold all its values. A group that does not satisfy the rules with the rows
it gets now is not shown. The rows that are left over (values nobody had before, groups that have
become too small) are grouped anew by the method, among themselves; where not even all of them
together satisfy the rules, they are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.anonymization.actions import Merged
from sfumato.anonymization.linkable import require_countable, solve_linkable
from sfumato.anonymization.preparing import prepare, with_people, without_people
from sfumato.anonymization.problem import (
    KeptGroups,
    Problem,
    Shape,
    Solution,
    group_view,
    grouped,
    largest_sets,
    lifted,
    nothing_left,
    only,
    releasable,
    sensitive_of,
)
from sfumato.anonymization.registry import METHODS
from sfumato.anonymization.request import Request
from sfumato.budget import Budget
from sfumato.engines.protocol import Codes
from sfumato.errors import PromiseError, spell
from sfumato.hierarchy import Hierarchy, Published, Ranges, ValueSets
from sfumato.hierarchy.labels import STAR, as_text
from sfumato.hierarchy.tree import Array
from sfumato.kernels import class_ids, group_sums, representatives
from sfumato.privacy import (
    Rules,
    compares,
)
from sfumato.privacy.rules import groups_hold
from sfumato.release.label_matching import Reading
from sfumato.release.recoding import Recoding
from sfumato.tables import Table
from sfumato.utility import column_losses
from sfumato.wording import counted

if TYPE_CHECKING:
    from sfumato.anonymization.parting import Whole

__all__ = [
    "components",
    "keep_groups",
    "released",
    "shared_columns",
    "solve",
    "solve_apart",
    "solver",
    "stay_within",
]

Sets = tuple[tuple[str, ...], ...]
AGAIN = 20
"""How often a method may leave out more rows before its last answer is taken."""


def components(sets: Sets) -> list[Sets]:
    """Sets grouped so that those in different groups share no column.

    Examples
    --------
    >>> components((("age", "sex"), ("zip",), ("sex", "job")))
    [(('age', 'sex'), ('sex', 'job')), (('zip',),)]
    """
    groups: list[list[tuple[str, ...]]] = []
    for names in sets:
        touched = [g for g in groups if any(set(names) & set(other) for other in g)]
        joined = [other for g in touched for other in g] + [names]
        at = groups.index(touched[0]) if touched else len(groups)
        groups = [g for g in groups if g not in touched]
        groups.insert(at, joined)
    return [tuple(group) for group in groups]


def solve(
    table: Table, request: Request, budget: Budget, whole: Whole | None = None
) -> list[Solution]:
    """Solve an opened request, set by set where that is possible.

    A row is released only if no solution suppresses it. Where rows are suppressed for one set, the
    classes of another would lose rows, so then all sets are solved as one. With `whole` the table
    is one part of a larger one.
    """
    if request.linkable:
        return [_linked(table, request, budget)]
    parts = components(request.qi)
    solved = [_solved(table, request, sets, budget, whole) for sets in parts]
    if len(parts) > 1 and any((part.groups < 0).any() for part in solved):
        solved = [_solved(table, request, request.qi, budget, whole)]
    return solved


def _linked(table: Table, request: Request, budget: Budget) -> Solution:
    """Whole histories."""
    histories = table.class_sizes([request.person], budget)
    require_countable(histories, request.known_rows, values=bool(request.sensitive))
    problem = prepare(table, request, budget)
    budget.progress("blurring histories")
    once = request.repeats == "once"
    found = solve_linkable(problem, request.k, request.known_rows, once=once)
    return replace(found, solves=replace(problem, sets=request.qi))


def _solved(
    table: Table, request: Request, sets: Sets, budget: Budget, whole: Whole | None
) -> Solution:
    about = request.about(sets)
    problem = prepare(table, about, budget, whole)
    budget.progress(f"anonymizing {', '.join(about.qi_columns)}")
    solution = released(problem, about)
    stay_within(problem, solution, request.method)
    if request.missing == "own-class":
        _keep_missing_apart(problem, solution, request.method)
    return replace(solution, solves=replace(problem, sets=sets))


def released(problem: Problem, request: Request) -> Solution:
    """The method's solution, held against the distribution of the rows that it releases."""
    rows = problem.entries.entries
    if problem.crowd is not None:
        problem = with_people(problem, request.k_map)
    kept = releasable(problem)
    for _ in range(AGAIN):
        if rows and not kept[:rows].any():
            if problem.part:
                return grouped(problem, np.full(rows, -1, dtype=np.int32))
            raise nothing_left(problem, request.models)
        solution = _of_sets(only(problem, kept), request)
        out = solution.groups < 0
        fixed = problem.part or not compares(problem.rules) or request.chosen.judges_sets
        # a method that says how many rows it left out by choice has compared with the others
        if fixed or not out.any() or solution.left_out is not None:
            break
        # t-closeness is measured on what is released: what was left out must not count
        kept[np.flatnonzero(kept)[solution.entry_of_piece[out]]] = False
    solution = lifted(solution, kept, problem)
    if solution.like is not None:  # also the rows that the method never saw
        shown = solution.like["rows_in_kept_groups"] + solution.like["rows_in_new_groups"]
        like: KeptGroups = {**solution.like, "rows_left_out": problem.rows - shown}
        solution = replace(solution, like=like)
    if problem.people is not None:
        solution = without_people(solution, rows)
    if rows and not problem.part and not (solution.groups >= 0).any():
        raise nothing_left(problem, request.models)
    return solution


def solver(name: str) -> Callable[[Problem], Solution]:
    """The method of that name, loaded when it is asked for."""
    module, _, function = METHODS[name].home.partition(":")
    found: Callable[[Problem], Solution] = getattr(import_module(module), function or "solve")
    return found


def _of_sets(problem: Problem, request: Request) -> Solution:
    """The solution for all sets of a request, each by itself where that is possible."""
    chosen = request.chosen
    solve = solver(request.method)
    sets = largest_sets(request.qi)
    if request.recoding is not None:
        stars = request.method == "cells"
        return keep_groups(problem, request.recoding, request.trees, solve, stars=stars)
    if len(sets) == 1:
        return solve(problem)
    apart = "within boundaries" if problem.limits else ""
    if problem.apart is not None:
        apart = "missing values in classes of their own"
    if chosen.judges_sets and not problem.limits:
        solution = solve(replace(problem, sets=sets))
        by, why = "levels that fit every set", None
    elif chosen.blurs and not apart and shared_columns(sets):
        return solve_apart(problem, sets, request.method)
    else:
        solution = solve(problem)
        by = "union"
        why = apart or f"method {request.method}"
    told = {"shared": list(shared_columns(sets)), "by": by}
    if why is not None:
        told["why"] = f"{why}: more is blurred than the sets ask for"
    return replace(solution, details={**solution.details, "several_sets": told})


def _keep_missing_apart(problem: Problem, solution: Solution, name: str) -> None:
    """Refuse groups in which some rows lack a quasi-identifier that others have."""
    assert problem.apart is not None
    entry = solution.entry_of_piece
    shown = solution.groups >= 0
    pairs = np.unique(np.stack([solution.groups[shown], problem.apart[entry[shown]]]), axis=1)
    if pairs.shape[1] > len(np.unique(pairs[0])):
        raise PromiseError(
            f"method `{name}` blurred missing values together with others",
            remedy=f"Choose a method that keeps them apart, e.g. {spell('method', 'mondrian')}.",
        )


def stay_within(problem: Problem, solution: Solution, name: str) -> None:
    """Refuse a solution that blurs cells beyond the boundaries, whatever method made it."""
    entry = solution.entry_of_piece
    rows = solution.rows_of_pieces(problem)
    for column, limit in problem.limits.items():
        codes = problem.entries.column(column)[entry]
        beyond = 0
        if column in solution.published:
            beyond = limit.violations(codes, solution.published[column].take(solution.groups), rows)
        elif column in solution.starred:
            starred = (solution.groups >= 0) & solution.starred[column][solution.groups]
            beyond = int(rows[starred & ~limit.may_be_starred(codes)].sum())
        if beyond:
            raise PromiseError(
                f"method `{name}` blurred {counted(beyond, 'cell')} of `{column}` "
                "beyond the boundaries",
                remedy=f"Choose a method that keeps them, e.g. {spell('method', 'mondrian')}.",
            )


def keep_groups(
    problem: Problem,
    recoding: Recoding,
    trees: Mapping[str, Hierarchy],
    solve: Callable[[Problem], Solution],
    *,
    stars: bool = False,
) -> Solution:
    """The solution that keeps the groups of an earlier release where it can.

    With `stars` the method stars cells and shows all others as they are.
    """
    held = recoding.holding(problem.entries.select(problem.qi), trees, problem.rules.k)
    stays = held.group >= 0
    if stays.any():
        sensitive = sensitive_of(problem)
        good = groups_hold(held.group, len(recoding), problem.counts, sensitive, problem.rules)
        stays &= good[held.group]
    used, group = np.unique(held.group[stays], return_inverse=True)
    new = _regrouped(problem, ~stays, solve)
    solution = _joined(problem, stays, group, len(used), new)
    labels = dict(zip(recoding.columns, recoding.groups[used].T, strict=True))
    if stars:
        starred = {name: _starred(recoding, name, shown, new) for name, shown in labels.items()}
        solution = replace(solution, starred=starred)
    else:
        published = {}
        for name, shown in labels.items():
            texts, reading = recoding.labels[name], held.readings[name]
            cells = _earlier_cells(problem.shapes[name], texts, reading, shown)
            published[name] = cells if new is None else _both(cells, new.published[name])
        solution = replace(solution, published=published)
    if new is not None:
        solution = replace(solution, details=new.details, left_out=new.left_out)
    return replace(solution, like=_told(problem, recoding, solution))


def _regrouped(
    problem: Problem, rest: Array, solve: Callable[[Problem], Solution]
) -> Solution | None:
    """New groups for the entries that no earlier group can show; None where there can be none.

    They are measured against the distribution of all rows, as the others are.
    """
    if not rest.any():
        return None
    left = replace(only(problem, rest), rules=problem.rules)
    one = np.zeros(left.entries.entries, dtype=np.int64)
    if not groups_hold(one, 1, left.counts, sensitive_of(left), left.rules)[0]:
        return None
    return solve(left)


def _joined(
    problem: Problem, stays: Array, group: Array, count: int, new: Solution | None
) -> Solution:
    """Earlier groups first, then new ones; entries that have neither are left out."""
    groups = np.full(len(stays), -1, dtype=np.int32)
    groups[stays] = group
    if new is None:
        return Solution(groups)
    rest = np.flatnonzero(~stays)
    numbers = np.where(new.groups < 0, -1, new.groups + count).astype(np.int32)
    facts: dict[str, Any] = {"stopped_by": new.stopped_by, "warnings": new.warnings}
    if new.entry is None or new.rows is None:
        groups[rest] = numbers
        return Solution(groups, **facts)
    kept = np.flatnonzero(stays)
    entry = np.r_[kept, rest[new.entry]]
    order = np.argsort(entry, kind="stable")
    return Solution(
        np.r_[groups[kept], numbers][order],
        entry=entry[order],
        rows=np.r_[problem.counts[kept], new.rows][order],
        **facts,
    )


def _told(problem: Problem, recoding: Recoding, solution: Solution) -> KeptGroups:
    """What was kept and what is new, by the labels shown: a new group may show earlier ones."""
    rows = solution.rows_of_pieces(problem)
    seen = solution.groups >= 0
    groups, at = np.unique(solution.groups[seen], return_inverse=True)
    held = np.bincount(at, rows[seen], len(groups)).astype(np.int64)
    earlier = {tuple(group.values()) for group in recoding}
    shown = _combinations(problem, recoding.columns, solution, groups)
    kept = np.array([labels in earlier for labels in shown], dtype=bool)
    different = set(shown)
    return {
        "release": recoding.name,
        "groups": len(recoding),
        "groups_kept": len(different & earlier),
        "rows_in_kept_groups": int(held[kept].sum()),
        "new_groups": len(different - earlier),
        "rows_in_new_groups": int(held[~kept].sum()),
        "rows_left_out": problem.rows - int(held.sum()),
    }


def _combinations(
    problem: Problem, columns: Sequence[str], solution: Solution, groups: Array
) -> list[tuple[str | None, ...]]:
    """The labels that each group shows."""
    entry = solution.entry_of_piece
    one = np.zeros(int(groups.max(initial=-1)) + 2, dtype=np.int64)
    one[solution.groups] = entry  # rows left out write to the last place, which is no group
    texts = []
    for name in columns:
        if name in solution.published:
            published = solution.published[name]
            cells = published.labels.take(pa.array(published.codes[groups])).to_pylist()
        else:
            values = as_text(problem.entries.values_of(name))
            cells = values.take(pa.array(problem.entries.column(name)[one[groups]])).to_pylist()
            starred = solution.starred[name][groups].tolist()
            cells = [STAR if star else cell for star, cell in zip(starred, cells, strict=True)]
        texts.append(cells)
    return list(zip(*texts, strict=True))


def _starred(recoding: Recoding, name: str, shown: Array, new: Solution | None) -> Array:
    """Which groups star a column."""
    stars = np.array([bool(t and not t.strip(STAR)) for t in recoding.labels[name]])
    if new is None:
        return np.asarray(stars[shown])
    groups = int(new.groups.max(initial=-1)) + 1
    more = new.starred.get(name, np.zeros(groups, dtype=bool))
    return np.asarray(np.r_[stars[shown], more[:groups]])


def _earlier_cells(
    shape: Shape, texts: Sequence[str | None], reading: Reading, shown: Array
) -> Published:
    """What the kept groups publish of a column: the labels they had, and the values these cover."""
    used, codes = np.unique(shown, return_inverse=True)
    labels = pa.array([texts[label] for label in used], pa.string())
    low, high, order = _covered(shape, reading, used)
    sizes = high - low + 1
    if isinstance(shape, Ranges):
        place = shape.position[order]
        loss = shape.loss(place[low], place[high])
    else:
        loss = (sizes - 1) / max(shape.size - 1, 1)
    values = as_text(shape.values).take(pa.array(order[low]))
    itself = [a == b for a, b in zip(labels.to_pylist(), values.to_pylist(), strict=True)]
    blurred = (sizes > 1) | ~np.array(itself, dtype=bool)
    return Published(codes.astype(np.int32), labels, loss, loss, loss, low, high, order, blurred)


def _covered(shape: Shape, reading: Reading, used: Array) -> tuple[Array, Array, Array]:
    """The values that labels cover, as runs of one order where they are, else as sets."""
    order = np.arange(shape.size) if isinstance(shape, ValueSets) else shape.order
    if reading.members is None and np.array_equal(reading.place[order], np.arange(shape.size)):
        return reading.low[used], reading.high[used], order
    sets = [reading.codes(label) for label in used]
    ends = np.cumsum([len(codes) for codes in sets])
    members = np.concatenate([*sets, np.zeros(0, np.int64)]).astype(np.int64)
    return np.r_[0, ends[:-1]].astype(np.int64)[: len(sets)], ends.astype(np.int64) - 1, members


def _both(earlier: Published, new: Published) -> Published:
    """Earlier cells, then new ones; a cell that both show is one."""
    texts = {text: at for at, text in enumerate(earlier.labels.to_pylist())}
    into: list[int] = []
    more: list[int] = []
    for at, text in enumerate(new.labels.to_pylist()):
        into.append(texts.get(text, len(earlier.labels) + len(more)))
        if text not in texts:
            more.append(at)
    added = np.array(more, dtype=np.int64)
    numbers = np.append(np.array(into, dtype=np.int32), -1)
    low, high, order = _runs(earlier, new, added)
    return Published(
        codes=np.r_[earlier.codes, numbers[new.codes]].astype(np.int32),
        labels=pa.concat_arrays([earlier.labels, new.labels.take(pa.array(added))]),
        loss=np.r_[earlier.loss, new.loss[added]],
        height_loss=np.r_[earlier.height_loss, new.height_loss[added]],
        domain_loss=np.r_[earlier.domain_loss, new.domain_loss[added]],
        low=low,
        high=high,
        order=order,
        blurred=np.r_[earlier.blurred, new.blurred[added]],
    )


def _runs(earlier: Published, new: Published, added: Array) -> tuple[Array, Array, Array]:
    """What the cells of both cover: runs of the common order, or sets one after the other."""
    whole = len(np.unique(new.order)) == len(new.order)
    if whole and np.array_equal(earlier.order, new.order):
        return np.r_[earlier.low, new.low[added]], np.r_[earlier.high, new.high[added]], new.order
    sets = [
        shown.order[shown.low[at] : shown.high[at] + 1]
        for shown, entries in ((earlier, range(len(earlier.low))), (new, added))
        for at in entries
    ]
    ends = np.cumsum([len(codes) for codes in sets]).astype(np.int64)
    return np.r_[np.int64(0), ends[:-1]], ends - 1, np.concatenate(sets)


Solve = Callable[[Problem], Solution]
CHOOSING = {"mondrian": "mondrian"}
"""The method that chooses K, by the method that is used then; a fast one where not listed."""
FAST = "lattice"


def shared_columns(sets: Sets) -> tuple[str, ...]:
    """Columns of two sets or more, in the order given.

    Examples
    --------
    >>> shared_columns([("age", "zip"), ("age", "job")])
    ('age',)
    """
    names = dict.fromkeys(name for names in sets for name in names)
    return tuple(name for name in names if sum(name in one for one in sets) > 1)


def solve_apart(problem: Problem, sets: Sets, name: str) -> Solution:
    """The better of two solutions: the sets apart in two stages, or their union.

    Parameters
    ----------
    problem
        About all columns of the sets together.
    sets
        No set is part of another, and every set shares a column with some other.
    name
        The method.
    """
    solve = solver(name)
    fast = solver(CHOOSING.get(name, FAST))
    union = solve(replace(problem, budget=problem.budget.part(0.5)))
    union_loss = _loss(problem, union)
    found = _best_size(problem, sets, fast)
    if fast is not solve and not problem.budget.spent():
        found = _Stages.of(problem, sets, found.size, solve)
    told = {
        "shared": list(shared_columns(sets)),
        "loss": min(found.loss, union_loss),
        "loss_in_two_stages": found.loss,
        "loss_of_union": union_loss,
    }
    if found.loss >= union_loss:
        return replace(union, details={**union.details, "several_sets": {**told, "by": "union"}})
    return replace(found.solution(), details={"several_sets": {**told, "by": "two stages"}})


@dataclass(frozen=True, eq=False)
class _Stages:
    """Rows in pieces, and the group of each piece in every stage.

    Attributes
    ----------
    size
        Least rows of a group of shared columns.
    entry, rows
        The entry each piece is of, and its rows.
    groups, published
        For each stage the group of each piece, and what a group shows of the stage's columns.
    """

    problem: Problem
    size: int
    entry: Array
    rows: Array
    groups: tuple[Array, ...]
    published: tuple[Mapping[str, Published], ...]
    loss: float
    stopped_by: str | None

    @classmethod
    def of(cls, problem: Problem, sets: Sets, size: int, solve: Solve) -> _Stages:
        """Group the shared columns, then the own columns of every set within."""
        shared = shared_columns(sets)
        whole = np.arange(problem.entries.entries)
        start = cls(problem, size, whole, problem.counts, (), (), 0.0, None)
        own = [tuple(name for name in names if name not in shared) for names in sets]
        own = [names for names in own if names]
        share = 1 / (len(own) + 1)
        stages = start._with(shared, solve, problem.rules._replace(k=size), share)
        for at, names in enumerate(own):
            stages = stages._with(names, solve, problem.rules, 1 / (len(own) - at))
        weights = sum(problem.weight(name) for name in problem.qi)
        return replace(stages, loss=stages.loss / weights if weights else 0.0)

    def _with(self, columns: tuple[str, ...], solve: Solve, rules: Rules, share: float) -> _Stages:
        """One more stage, within the groups of shared columns if there are any yet.

        It may take a share of the time that is left.
        """
        whole = self.problem
        others = [n for n in whole.entries.columns if n not in whole.qi]
        pieces = whole.entries.select([*columns, *others]).take(self.entry)
        pieces = replace(pieces, counts=self.rows)
        merged, apart = _merged(pieces, self.groups[0] if self.groups else None)
        part = replace(
            whole,
            entries=merged.entries,
            qi=columns,
            shapes={name: whole.shapes[name] for name in columns},
            rules=rules,
            weights={n: w for n, w in whole.weights.items() if n in columns},
            options=_options_about(whole.options, columns),
            apart=apart,
            people=None,
            budget=whole.budget.part(share),
        )
        found = solve(part)
        groups, owner, rows, _ = merged.expanded(found.groups, found.entry, found.rows)
        owner = np.arange(len(self.entry)) if owner is None else owner
        return replace(
            self,
            entry=self.entry[owner],
            rows=self.rows if rows is None else rows,
            groups=(*(earlier[owner] for earlier in self.groups), groups),
            published=(*self.published, found.published),
            loss=self.loss + _loss(part, found, mean=False),
            stopped_by=self.stopped_by or found.stopped_by,
        )

    def solution(self) -> Solution:
        """Pieces that show the same in every stage are a group."""
        arrays = tuple(groups.astype(np.uint32) for groups in self.groups)
        sizes = tuple(int(groups.max(initial=0)) + 1 for groups in self.groups)
        ids, count = class_ids(arrays, sizes, entries=len(self.entry))
        first = np.asarray(representatives(ids, count), dtype=np.int64)
        published = {
            name: shown.take(groups[first])
            for groups, stage in zip(self.groups, self.published, strict=True)
            for name, shown in stage.items()
        }
        parted = len(self.entry) > self.problem.entries.entries
        return Solution(
            np.asarray(ids).astype(np.int32),
            published,
            entry=self.entry if parted else None,
            rows=self.rows if parted else None,
            stopped_by=self.stopped_by,
        )


def _best_size(problem: Problem, sets: Sets, solve: Solve) -> _Stages:
    """The two stages of least loss among K = k, 2k, 4k, … up to all rows.

    The loss falls and rises again, up to small bumps, so that only some sizes are tried.
    """
    tried: dict[int, _Stages] = {}
    own = problem.counts if problem.people is None else problem.counts[~problem.people]
    rows = int(own.sum())

    def at(step: int) -> float:
        if step not in tried:
            size = min(problem.rules.k * 2**step, rows)
            tried[step] = _Stages.of(problem, sets, size, solve)
        return tried[step].loss

    low, high = 0, max(1, (rows // problem.rules.k).bit_length())
    while high - low > 2:
        middle = (low + high) // 2
        if at(middle) <= at(middle + 1):
            high = middle + 1
        else:
            low = middle
    best = min(range(low, high + 1), key=at)
    return tried[best]


def _merged(pieces: Codes, apart: Array | None) -> tuple[Merged, Array | None]:
    """Equal pieces as one entry, those in different groups of shared columns apart."""
    arrays = list(pieces.arrays)
    sizes = [int(codes.max(initial=0)) + 1 for codes in arrays]  # people have a code of their own
    if apart is not None:
        arrays.append(apart.astype(np.uint32))
        sizes.append(int(apart.max(initial=0)) + 1)
    ids, count = class_ids(tuple(arrays), tuple(sizes), entries=pieces.entries)
    first = np.asarray(representatives(ids, count), dtype=np.int64)
    entries = replace(
        pieces.take(first), counts=np.asarray(group_sums(ids, count, pieces.row_counts))
    )
    into = np.asarray(ids).astype(np.int64)
    return Merged(entries, pieces, into), None if apart is None else apart[first]


def _options_about(options: Mapping[str, Any], columns: tuple[str, ...]) -> Mapping[str, Any]:
    """A method's options as far as they are about these columns; no stage may leave out rows."""
    stays = {name: how for name, how in options.items() if name != "suppression_limit"}
    if "cuts" in stays:
        stays["cuts"] = {name: at for name, at in stays["cuts"].items() if name in columns}
    return stays


def _loss(problem: Problem, solution: Solution, *, mean: bool = True) -> float:
    """Weighted certainty penalty; the sum over columns, or their weighted mean."""
    lost = column_losses(group_view(problem, solution))
    total = sum(problem.weight(name) * loss for name, loss in lost.items())
    weights = sum(problem.weight(name) for name in lost)
    return total / weights if mean and weights else total
