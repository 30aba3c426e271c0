"""Privacy models as numbers, so that compiled anonymizers can ask them of any group of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from sfumato.errors import ColumnError, did_you_mean
from sfumato.hierarchy.tree import Array, Tree
from sfumato.privacy.base import Model, SensitiveColumn

__all__ = [
    "ALPHA",
    "CLOSE_EQUAL",
    "CLOSE_ORDERED",
    "CLOSE_TREE",
    "DISTINCT",
    "ENTROPY",
    "LIKE",
    "MAPPED",
    "PERSONS",
    "RECURSIVE",
    "Rules",
    "compares",
    "compile_rules",
    "minimum_rows",
    "recounted",
    "with_crowd",
    "with_persons",
]

DISTINCT, ENTROPY, RECURSIVE, CLOSE_EQUAL, CLOSE_ORDERED, CLOSE_TREE, ALPHA, MAPPED, LIKE = range(9)
PERSONS = 9
COMPARED = (CLOSE_EQUAL, CLOSE_ORDERED, CLOSE_TREE, LIKE)
"""Rules that compare groups with the distribution of all rows."""


class Rules(NamedTuple):
    """What every group must satisfy, as plain numbers and arrays.

    A group is described by its number of rows and by the counts of its sensitive values: value c
    of sensitive column j is counted at ``counts[offsets[j] + c]``.
    ``sfumato.privacy._kernels.holds(size, counts, rules)`` answers whether the group satisfies all
    rules, after ``_kernels.take_in`` was told of its entries. Where rows are counted all rules are
    monotone: if two groups satisfy them, so does their union. Where persons are counted that is
    true of their number and of distinct values; two groups that share persons may hold alone and
    fail together for the other rules.

    Attributes
    ----------
    k
        Least number of rows.
    kinds, columns, values, extras
        One entry a rule: what is asked, of which sensitive column, its number (l, t or α), and a
        second one (c of recursive diversity; the code α is asked of, or -1 for every code;
        whether distinct values are those of different ranges).
    offsets
        Where the counts of each sensitive column begin; the last entry is their total number.
    reference
        Share of each value in the table, laid out like the counts.
    order, ranks
        For each column, the codes that occur in order of their values, from `offsets` on, and how
        many they are; a missing value has no place among them.
    missing
        For each column whether its last code stands for missing values.
    tree_offsets, tree_parent, tree_cost
        For each column with a hierarchy, its nodes: parent (relative, -1 for the root) and height
        over the height of the tree.
    mapped, crowd
        For k-map, where the rows to be released are counted and right after them the people of the
        population, and how many people every group needs; -1 where k-map is not asked.
    people, persons
        Where the different persons of a group are counted, and right after them the stamp of the
        group; and how many of them every group needs. -1 where rows are counted.
    bins
        Where the range of each value is counted, laid out like the counts: at its first value;
        empty where no rule asks for ranges.
    runs, marks
        The persons of run r are ``marks[runs[r]:runs[r + 1]]``: where it is noted that the person
        was met in the group of the current stamp, and for each sensitive column where it is noted
        that she was met with the value she has here. Where there are no runs the number of a run
        is that of a person, whose mark comes right after the stamp.
    """

    k: int
    kinds: Array
    columns: Array
    values: Array
    extras: Array
    offsets: Array
    reference: Array
    order: Array
    ranks: Array
    missing: Array
    tree_offsets: Array
    tree_parent: Array
    tree_cost: Array
    mapped: int = -1
    crowd: int = 0
    people: int = -1
    persons: int = 0
    bins: Array = np.zeros(0, np.int64)
    runs: Array = np.zeros(1, np.int64)
    marks: Array = np.zeros((0, 1), np.int64)


def minimum_rows(models: Sequence[Model]) -> int:
    """The largest number of rows that any of the models asks of a class outright."""
    return max([1, *(model.least_rows for model in models)])


def compares(rules: Rules) -> bool:
    """Whether rules compare groups with the distribution of all rows."""
    return bool(np.isin(rules.kinds, COMPARED).any())


def compile_rules(
    models: Sequence[Model], sensitive: Mapping[str, SensitiveColumn] | None = None
) -> Rules:
    """Turn models into rules for compiled anonymizers.

    Parameters
    ----------
    models
        What must hold, all together.
    sensitive
        The sensitive columns, in the order in which the anonymizer counts them.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.privacy import DistinctDiversity, KAnonymity, SensitiveColumn
    >>> from sfumato.privacy._kernels import holds
    >>> illness = SensitiveColumn(np.array([5, 3, 2]))
    >>> models = [KAnonymity(3), DistinctDiversity(2, "illness")]
    >>> rules = compile_rules(models, {"illness": illness})
    >>> holds(3, np.array([3, 0, 0]), rules), holds(3, np.array([1, 2, 0]), rules)
    (False, True)
    """
    sensitive = dict(sensitive or {})
    names = list(sensitive)
    trees: dict[str, Tree] = {}
    rules: list[tuple[int, int, float, float]] = []
    for model in models:
        if model.about is None:
            continue  # sizes are no figures of a sensitive column; for k-map see `with_crowd`
        if model.about not in sensitive:
            raise ColumnError(
                f"{model.name} is asked of `{model.about}`, which is no sensitive column",
                remedy=did_you_mean(model.about, names),
            )
        column = sensitive[model.about]
        tree = model.tree(column)
        if tree is not None:
            trees[model.about] = tree
        kind, value, extra = model.rule(column)
        rules.append((kind, names.index(model.about), value, extra))

    sizes = [len(column.counts) for column in sensitive.values()]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    missing = np.array([column.has_missing for column in sensitive.values()], dtype=np.int64)
    counts = [column.counts for column in sensitive.values()]
    reference, order, ranks = _distribution(counts, missing)
    grown = [trees.get(name) for name in names]
    tree_sizes = [0 if tree is None else tree.nodes for tree in grown]
    table = np.array(rules, dtype=np.float64).reshape(-1, 4)
    return Rules(
        k=minimum_rows(models),
        kinds=table[:, 0].astype(np.int64),
        columns=table[:, 1].astype(np.int64),
        values=table[:, 2].copy(),
        extras=table[:, 3].copy(),
        offsets=offsets,
        reference=reference,
        order=order,
        ranks=ranks,
        missing=missing,
        tree_offsets=np.concatenate([[0], np.cumsum(tree_sizes)]).astype(np.int64),
        tree_parent=_joined([tree.parent for tree in grown if tree is not None], np.int64),
        tree_cost=_joined(
            [tree.level / max(tree.height, 1) for tree in grown if tree is not None], np.float64
        ),
        bins=_bins(models, sensitive, offsets),
    )


def _bins(
    models: Sequence[Model], sensitive: Mapping[str, SensitiveColumn], offsets: Array
) -> Array:
    """Where the range of each value is counted; nothing where no model asks for ranges."""
    edges = {model.about: getattr(model, "bins", ()) for model in models if model.about}
    edges = {name: bins for name, bins in edges.items() if bins}
    if not edges:
        return np.zeros(0, dtype=np.int64)
    places = np.arange(offsets[-1])
    for at, (name, column) in enumerate(sensitive.items()):
        if name in edges:
            bins = column.bins(edges[name])
            _, first, which = np.unique(bins, return_index=True, return_inverse=True)
            places[offsets[at] : offsets[at + 1]] = offsets[at] + first[which]
    return places


def with_crowd(rules: Rules, k: int) -> Rules:
    """The same rules, and k-map: every group that is released has k people of a population.

    Groups then hold rows and people. The last sensitive column says which: its first code counts
    rows, its second people, and its third is where people are counted who have no sensitive value.
    All other rules are about the rows alone; a group without rows releases nobody and always holds.
    """
    place = int(rules.offsets[-1])
    return rules._replace(
        kinds=np.append(rules.kinds, MAPPED),
        columns=np.append(rules.columns, len(rules.offsets) - 1),
        values=np.append(rules.values, float(k)),
        extras=np.append(rules.extras, 0.0),
        offsets=np.append(rules.offsets, place + 3),
        reference=np.append(rules.reference, np.zeros(3)),
        order=np.append(rules.order, np.full(3, -1)),
        ranks=np.append(rules.ranks, 0),
        missing=np.append(rules.missing, 0),
        tree_offsets=np.append(rules.tree_offsets, rules.tree_offsets[-1]),
        mapped=place,
        crowd=int(k),
    )


def with_persons(rules: Rules, runs: Array, persons: Array, pairs: Sequence[Array]) -> Rules:
    """The same rules about persons: a person counts once in a group, and once with each value.

    Parameters
    ----------
    runs, persons
        Person of each element of the runs, numbered from 0; run r is
        ``persons[runs[r]:runs[r + 1]]``.
    pairs
        For each sensitive column a number for the person and the value of each element.
    """
    place = int(rules.offsets[-1])
    if not pairs and (np.diff(runs) == 1).all():
        runs = np.zeros(1, np.int64)
    marks, free = np.empty((len(persons), 1 + len(pairs)), np.int64), place + 2
    for at, numbers in enumerate((persons, *pairs)):
        marks[:, at] = numbers
        marks[:, at] += free
        free += int(numbers.max()) + 1 if len(numbers) else 0
    return rules._replace(
        kinds=np.append(rules.kinds, PERSONS),
        columns=np.append(rules.columns, len(rules.offsets) - 1),
        values=np.append(rules.values, float(rules.k)),
        extras=np.append(rules.extras, 0.0),
        offsets=np.append(rules.offsets, free),
        people=place,
        persons=rules.k,
        runs=runs.astype(np.int64),
        marks=marks,
    )


def recounted(rules: Rules, counts: Array) -> Rules:
    """The same rules, measured against other rows.

    Parameters
    ----------
    counts
        How many of those rows hold each sensitive value, laid out like the counts of a group.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.privacy import Closeness, SensitiveColumn
    >>> illness = SensitiveColumn(np.array([5, 3, 2]))
    >>> rules = compile_rules([Closeness(0.1, "illness")], {"illness": illness})
    >>> recounted(rules, np.array([4, 0, 4])).reference.tolist()
    [0.5, 0.0, 0.5]
    """
    ends = rules.offsets if rules.people < 0 else rules.offsets[:-1]
    parts = [counts[a:b] for a, b in pairwise(ends)]
    reference, order, ranks = _distribution(parts, rules.missing)
    return rules._replace(reference=reference, order=order, ranks=ranks)


def _distribution(columns: Sequence[Array], missing: Array) -> tuple[Array, Array, Array]:
    """`reference`, `order` and `ranks` of rules, from the counts of each sensitive column."""
    reference, order = [np.zeros(0)], [np.zeros(0, dtype=np.int64)]
    ranks = np.zeros(len(columns), dtype=np.int64)
    for j, counts in enumerate(columns):
        occurring = np.flatnonzero(counts[: len(counts) - missing[j]] > 0)
        ranks[j] = len(occurring)
        order.append(np.r_[occurring, np.full(len(counts) - len(occurring), -1)])
        reference.append(counts / max(int(counts.sum()), 1))
    return np.concatenate(reference), np.concatenate(order).astype(np.int64), ranks


def _joined(parts: list[Array], dtype: type) -> Array:
    return np.concatenate([part.astype(dtype) for part in parts] or [np.zeros(0, dtype)])
