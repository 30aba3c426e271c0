"""Groups of an earlier release, kept for the rows of another table.

A row goes to the group whose labels hold all its values. A group that does not satisfy the rules
with the rows it gets now is not shown. The rows that are left over (values nobody had before,
groups that have become too small) are grouped anew by the method, among themselves; where not even
all of them together satisfy the rules, they are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.anonymization.problem import KeptGroups, Problem, Shape, Solution, only, sensitive_of
from sfumato.hierarchy import Hierarchy, Published, Ranges, ValueSets
from sfumato.hierarchy.labels import STAR, as_text
from sfumato.hierarchy.tree import Array
from sfumato.privacy.rules import groups_hold
from sfumato.release.label_matching import Reading
from sfumato.release.recoding import Recoding


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
    if reading.starts is None and np.array_equal(reading.place[order], np.arange(shape.size)):
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
