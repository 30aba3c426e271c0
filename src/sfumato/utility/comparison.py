"""A release compared with the table it was made from: every measure of utility at once.

`pair_tables` makes a view of any two tables: rows are paired, released cells are read back.
`boundary_violations` counts what is blurrier than it may be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.budget import Budget, within_budget
from sfumato.engines.protocol import TEXT_COPIES, asks_sql, column_of
from sfumato.engines.writing import parsed, unsigned_zeros
from sfumato.errors import (
    ColumnError,
    EngineError,
    HierarchyError,
    InputError,
    MissingExtraError,
    ParameterError,
    did_you_mean,
    spell,
)
from sfumato.files import certificate_beside
from sfumato.hierarchy import (
    Boundaries,
    EncodedHierarchy,
    Hierarchy,
    Published,
    Ranges,
    ValueSets,
    read_folder,
)
from sfumato.hierarchy.builders import infer
from sfumato.hierarchy.labels import as_text, mark_of, star_beside, without_marks
from sfumato.hierarchy.tree import Array
from sfumato.results import Result
from sfumato.tables import Table, table
from sfumato.utility.measures import (
    Similarity,
    View,
    average_class_size,
    certainty_penalty,
    column_losses,
    discernibility,
    distribution_distances,
    general_loss,
    granularity,
    information_loss,
    majority_penalty,
    non_uniform_entropy,
    similarity,
    weighted_discernibility,
)
from sfumato.utility.usefulness import (
    Accuracy,
    Contingency,
    Statistics,
    accuracy,
    contingency,
    statistics,
)
from sfumato.wording import counted, phrase


class NotPaired(ParameterError):
    """Which row of a release was which row of its table is not known."""


@dataclass(frozen=True)
class Utility(Result):
    """What a release cost.

    Attributes
    ----------
    certainty_penalty
        Normalized certainty penalty, 0 to 1; `columns` has it for each column.
    information_loss
        Sum of heights over the heights of the trees; `information_loss_share` is a cell's average.
    general_loss, granularity, non_uniform_entropy
        Further losses of detail (granularity is what is left).
    discernibility, average_class_size
        Costs of large classes.
    weighted_discernibility_by_label, _by_overlap, _by_region
        The same for each column alone, times its weight: a class are rows that read the same, rows
        whose cells overlap, or rows of the same region; see `weighted_discernibility`.
    distribution
        How far each column's distribution moved.
    similarity
        How alike rows were within classes and between them.
    majority_penalty
        Share of rows that differ from their class's majority in the target; None without one.
    accuracy
        How well the target can be learned before and after; None without a target, without
        scikit-learn (extra ``models``), or with fewer released rows than two.
    statistics
        Mean, standard deviation and median of columns of numbers, before and after.
    contingency
        How two columns go together, before and after; None where no pair was named.
    """

    certainty_penalty: float
    columns: Mapping[str, float]
    information_loss: float
    information_loss_share: float
    general_loss: float
    granularity: float
    non_uniform_entropy: float
    discernibility: int
    weighted_discernibility_by_label: float
    weighted_discernibility_by_overlap: float
    weighted_discernibility_by_region: float
    average_class_size: float
    suppressed_rows: int
    suppressed_cells: int
    distribution: Mapping[str, float]
    similarity: Similarity
    majority_penalty: float | None = None
    accuracy: Accuracy | None = None
    statistics: Mapping[str, Statistics] = field(default_factory=dict)
    contingency: Contingency | None = None


def summarize(
    view: View,
    *,
    weights: Mapping[str, float] | None = None,
    target: Any = None,
    predicted: str | None = None,
) -> Utility:
    """Compute every measure of a release at once.

    Parameters
    ----------
    weights
        Importance of the columns, for weighted discernibility.
    target
        Code of a target column for every row, for the majority penalty and the accuracy.
    predicted
        The name of that column: it is not learned from, also where it is in the view.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> from sfumato.hierarchy import Ranges
    >>> age = Ranges(pa.array([20, 25, 60]), "age")
    >>> view = View({"age": np.arange(3)}, {"age": age.published([0, 0, 2], [1, 1, 2])})
    >>> cost = summarize(view)
    >>> cost.discernibility, round(cost.certainty_penalty, 4), cost.suppressed_rows
    (5, 0.0833, 0)
    """
    lost = information_loss(view)
    return Utility(
        certainty_penalty=certainty_penalty(view),
        columns=column_losses(view),
        information_loss=lost,
        information_loss_share=lost / max(view.rows * len(view.columns), 1),
        general_loss=general_loss(view),
        granularity=granularity(view),
        non_uniform_entropy=non_uniform_entropy(view),
        discernibility=discernibility(view),
        weighted_discernibility_by_label=weighted_discernibility(view, weights),
        weighted_discernibility_by_overlap=weighted_discernibility(view, weights, by="overlap"),
        weighted_discernibility_by_region=weighted_discernibility(view, weights, by="region"),
        average_class_size=average_class_size(view),
        suppressed_rows=view.suppressed_rows,
        suppressed_cells=view.suppressed_cells,
        distribution=distribution_distances(view),
        similarity=similarity(view),
        majority_penalty=None if target is None else majority_penalty(view, target),
        accuracy=None if target is None else _accuracy(_without(view, predicted), target),
    )


def _without(view: View, column: str | None) -> View:
    """A view of the other columns; rows that are left out are left out of each of them."""
    kept = {name: shown for name, shown in view.published.items() if name != column}
    return replace(view, published=kept)


def _accuracy(view: View, target: Any) -> Accuracy | None:
    if not view.columns:
        return None
    folds = min(_FOLDS, view.rows - view.suppressed_rows)
    if folds < 2 or view.counts is not None:
        return None
    try:
        return accuracy(view, target, folds=folds)
    except MissingExtraError:
        return None


_FOLDS = 10
CELL_BYTES = 88
"""What a cell of both tables takes while they are compared, measured."""


@within_budget
def compare(
    released: Any,
    original: Any,
    *,
    qi: Sequence[str] | None = None,
    row_key: str | None = None,
    kept: Array | None = None,
    hierarchies: str | Path | Mapping[str, Hierarchy] | None = None,
    weights: Mapping[str, float] | None = None,
    target: str | None = None,
    pair: Sequence[str] | None = None,
    budget: Budget | None = None,
) -> Utility:
    """What a release cost, compared with the table it was made of.

    Parameters
    ----------
    released, original
        Anything `sfumato.table` opens.
    qi
        Columns to compare; by default the quasi-identifiers of the certificate beside the release,
        or all that both tables have but the target, where it names none (Safe Harbor).
    row_key
        A column with a different value in every row; without it row i of one is row i of the other.
    kept
        Whether each row of the original is in the release, which has them in the same order: then
        no `row_key` is needed where rows were left out.
    hierarchies
        Trees that the release was made with, or the folder of their files.
    weights
        Importance of the columns for weighted discernibility, whatever the release was made for.
    target
        A column of the original that is to be predicted from the others, for the majority penalty
        and the accuracy.
    pair
        Two columns that both tables have, whose table is counted before and after.
    budget
        The memory that rows may take; tables that would not fit are refused.

    Examples
    --------
    >>> people = pa.table({"age": [20, 25, 60, 64]})
    >>> means = pa.table({"age": [22.5, 22.5, 62.0, 62.0]})
    >>> round(compare(means, people, qi=["age"]).certainty_penalty, 3)
    0.102
    """
    shown, before = table(released), table(original)
    told = certificate_beside(shown.name)
    names = _certified(shown, told) if qi is None else list(qi)
    if qi is None and not names:
        names = [name for name in shown.columns if name in before.columns and name != target]
    if row_key is None:
        _refuse_unpaired(shown, before, told)
    _refuse_bounds(names, shown, before)
    _refuse_unparsed([*names, *(pair or ())], before, told)
    _refuse_too_large(before, shown, names, budget or Budget())
    if isinstance(hierarchies, (str, Path)):
        hierarchies = read_folder(hierarchies, before.columns)
    codes = None
    if target is not None:
        column = _rows(before, [target], "original")[target].combine_chunks()
        encoded = column.dictionary_encode(null_encoding="encode")
        codes = np.asarray(encoded.indices).astype(np.int64)
    trees = {**_inferred(before, shown, names, told), **_coarsened(before, shown, told, row_key)}
    trees |= hierarchies or {}
    view = pair_tables(before, shown, names, key=row_key, kept=kept, hierarchies=trees)
    cost = summarize(view, weights=weights, target=codes, predicted=target)
    cost = replace(cost, statistics=statistics(view, _values(before, names)))
    if pair is None:
        return cost
    if len(pair) != 2 or pair[0] == pair[1]:
        raise ParameterError(
            "a pair is two different columns", remedy=f"Give e.g. {spell('pair', 'age,illness')}."
        )
    one, other = shown.require(pair)
    both = pair_tables(before, shown, [one, other], key=row_key, kept=kept, hierarchies=trees)
    found = contingency(both, (one, other), _values(before, [one, other]))
    return replace(cost, contingency=found)


def measured_by_cells(
    released: Any, original: Any, *, qi: Sequence[str], weights: Mapping[str, float] | None = None
) -> dict[str, Any]:
    """What a release cost by those measures that need not know which row was which.

    Cells that a tree was given for, or that show a mean or median, cannot be read alone.

    Examples
    --------
    >>> people = pa.table({"age": [20, 25, 60]})
    >>> sorted_by_cells = pa.table({"age": ["60", "[20, 26)", "[20, 26)"]})
    >>> found = measured_by_cells(sorted_by_cells, people, qi=["age"])
    >>> round(found["certainty_penalty"], 4), found["discernibility"]
    (0.0833, 5)
    """
    shown, before = table(released), table(original)
    told = certificate_beside(shown.name)
    _refuse_bounds(qi, shown, before)
    asked = told.get("asked")
    shows = asked.get("numbers_as", "range") if isinstance(asked, dict) else "range"
    if {*(shows.values() if isinstance(shows, dict) else [shows])} != {"range"}:
        raise ParameterError(
            "cells that show a mean, a middle or a median do not tell what they stand for",
            remedy="What it cost was measured when it was made.",
        )
    _refuse_unparsed(qi, before, told)
    trees = _inferred(before, shown, qi, told)
    view = pair_tables(before, shown, qi, paired=False, hierarchies=trees)
    return {
        "certainty_penalty": certainty_penalty(view),
        "columns": column_losses(view),
        "granularity": granularity(view),
        "discernibility": discernibility(view),
        "weighted_discernibility_by_label": weighted_discernibility(view, weights),
        "average_class_size": average_class_size(view),
    }


def _refuse_unpaired(released: Table, original: Table, told: Mapping[str, Any]) -> None:
    """Refuse rows of which nobody knows which was which."""
    if told.get("output", {}).get("sorted"):
        why = "the rows of the release are sorted by their cells"
    elif not (released.engine.capabilities.ordered and original.engine.capabilities.ordered):
        why = "rows of a database or of Spark have no order of their own"
    else:
        return
    raise NotPaired(
        f"{why}: which of them was which row of the table is not known",
        where=released.name,
        remedy="What it cost was measured when it was made. Rows can be paired only where a "
        f"published column tells them apart ({spell('row_key', 'visit')}).",
    )


def _letters(opened: Table, name: str) -> float:
    """Bytes of all texts of a column, each as often as it stands there."""
    if opened.column(name).kind != "text":
        return 0.0
    if asks_sql(opened.engine):
        return opened.engine.text_bytes([name])[name] * opened.rows
    found = opened.values(name)
    lengths = pc.fill_null(pc.binary_length(found.values[0]), 0).to_numpy()
    return float((lengths[found.arrays[0]] * found.row_counts).sum())


def _refuse_too_large(
    original: Table, released: Table, names: Sequence[str], budget: Budget
) -> None:
    """Refuse rows that would not fit the memory: both tables are compared cell by cell."""
    needed = CELL_BYTES * len(names) * original.rows
    if budget.memory is not None:  # labels may be long
        there = [name for name in names if name in released.columns]
        needed += int(TEXT_COPIES * sum(_letters(released, name) for name in there))
    if budget.memory is not None and not budget.holds(needed):
        raise EngineError(
            f"comparing {counted(original.rows, 'row')} takes about {needed >> 20:,} MiB, more "
            f"than the {budget.memory >> 20:,} MiB allowed",
            where=original.name,
            remedy=f"Allow more memory (e.g. {spell('memory', '4GB')}), or compare fewer columns; "
            "what a release cost is also in the answer of `anonymize`.",
        )


def _values(original: Table, names: Sequence[str]) -> dict[str, pa.Array]:
    """The values that the codes of a view stand for."""
    rows = _rows(original, list(names), "original")
    return {name: rows[name].combine_chunks().unique() for name in names}


def _certified(released: Table, told: Mapping[str, Any]) -> list[str]:
    """The quasi-identifiers that the certificate of a release names."""
    try:
        return list(without_marks(dict.fromkeys(name for names in told["qi"] for name in names)))
    except (KeyError, TypeError):
        raise ParameterError(
            "it is unclear which columns to compare: there is no certificate beside the release",
            where=released.name,
            remedy=f"Name them, e.g. {spell('qi', ['age', 'sex'])}.",
        ) from None


_CLIMBS = "full-domain"
"""The method that infers trees without being told so."""


def _inferred(
    before: Table, shown: Table, names: Sequence[str], told: Mapping[str, Any]
) -> dict[str, Hierarchy]:
    """The trees that `anonymize` inferred, by what the certificate says and the original holds.

    Columns whose labels such a tree does not have are left to be read as ranges and sets.
    """
    asked = told.get("asked")
    asked = asked if isinstance(asked, dict) else {}
    among = asked.get("hierarchies") is not None and asked.get("infer_hierarchies") is not False
    if told.get("method") != _CLIMBS and (not among or "boundaries" in asked):
        return {}
    k = max([n for n in (asked.get("k"), asked.get("k_map")) if isinstance(n, int)], default=1)
    codes, shows = asked.get("categorical") or (), asked.get("numbers_as") or {}
    found = {}
    for name in names:
        stands = shows.get(name, "range") if isinstance(shows, dict) else shows
        if name in before.columns and name in shown.columns and stands == "range":
            column = _rows(before, [name], "original")[name].combine_chunks()
            encoded = column.dictionary_encode(null_encoding="encode")
            held = np.bincount(np.asarray(encoded.indices), minlength=len(encoded.dictionary))
            values = encoded.dictionary
            tree = infer(name, values, held, categorical=name in codes, k=k)[0]
            with suppress(HierarchyError):
                tree.bind(values, name).read(_rows(shown, [name], "release")[name].unique())
                found[name] = tree
    return found


def _coarsened(
    before: Table, shown: Table, told: Mapping[str, Any], key: str | None
) -> dict[str, Hierarchy]:
    """Trees of what Safe Harbor left in a coarser form: what each value became."""
    promises = told.get("promises")
    forms = [one.get("forms") for one in promises if isinstance(one, dict)] if promises else []
    both = set(before.columns) & set(shown.columns)
    names = [name for one in forms if isinstance(one, dict) for name in one if name in both]
    if not names:
        return {}
    wanted = list(dict.fromkeys([*names, *([key] if key else [])]))
    was, now = _rows(before, wanted, "original"), _rows(shown, wanted, "release")
    place = pa.array(_places(was, now, key))
    found = {}
    for name in names:
        cells = as_text(now[name].combine_chunks()).take(pc.if_else(pc.less(place, 0), None, place))
        pairs = pa.table({"was": as_text(was[name].combine_chunks()), "now": cells}).drop_null()
        each = pairs.group_by(["was", "now"]).aggregate([]).combine_chunks()
        levels = [*(column.to_pylist() for column in each.columns), [STAR] * each.num_rows]
        found[name] = Hierarchy.from_levels(levels, where=name)
    return found


STAR = "*"


def _refuse_unparsed(names: Sequence[str], before: Table, told: Mapping[str, Any]) -> None:
    """Refuse texts that were read as numbers or dates when the release was made."""
    asked = told.get("asked")
    parsed = asked.get("parse") if isinstance(asked, dict) else None
    parsed = parsed if isinstance(parsed, dict) else {}
    texts = {one.name for one in before.schema if one.kind == "text"}
    lacks = {name: parsed[name] for name in names if name in parsed and name in texts}
    if lacks:
        raise ParameterError(
            f"{phrase([f'`{name}`' for name in lacks])} {'was' if len(lacks) == 1 else 'were'} not "
            "read as text when the release was made",
            where=before.name,
            remedy=f"Read this table as then: {spell('parse', lacks)}.",
        )


def _refuse_bounds(names: Sequence[str], shown: Table, before: Table) -> None:
    """Refuse columns that a release shows by two others, the bounds of its ranges."""
    for name in before.columns:
        ends = {f"{name}_from", f"{name}_to"}
        if (
            name not in shown.columns
            and ends <= set(shown.columns)
            and (ends | {name}) & set(names)
        ):
            raise ColumnError(
                f"the release shows the bounds of `{name}` in two columns, `{name}_from` and "
                f"`{name}_to`, and columns are compared one by one",
                remedy="Release ranges to compare them, or name other columns only.",
            )


def pair_tables(
    original: Any,
    released: Any,
    qi: Sequence[str],
    *,
    key: str | None = None,
    kept: Array | None = None,
    hierarchies: Mapping[str, Hierarchy] | None = None,
    paired: bool = True,
) -> View:
    """Put a release beside its original.

    Parameters
    ----------
    original, released
        Anything `sfumato.table` opens. Without a `key`, row i of one is row i of the other.
    qi
        Columns to compare.
    key
        A column with a different value in every row of the original; rows of it that are not in
        the release are suppressed.
    kept
        Whether each row of the original is in the release, where that is known without a key.
    hierarchies
        Trees of the columns that were generalized with one. Other columns are read as ranges
        where they hold numbers or dates, else as sets of values.
    paired
        Whether it matters which row was which. Otherwise any row of the original stands beside one
        of the release, and numbers are what was kept.

    Examples
    --------
    >>> original = pa.table({"age": [20, 25, 60]})
    >>> released = pa.table({"age": ["[20, 26)", "[20, 26)", "60"]})
    >>> view = pair_tables(original, released, ["age"])
    >>> view.class_sizes.tolist()
    [2, 1]
    """
    names = [*qi, *([key] if key else [])]
    opened = table(released)
    marks = {n: mark_of(n) for n in qi if mark_of(n) in opened.columns}
    original = _rows(original, names, "original")
    released = _rows(opened, list(dict.fromkeys([*names, *marks.values()])), "release")
    place = _places(original, released, key, kept) if paired else _anyhow(original, released)
    codes: dict[str, Array] = {}
    published: dict[str, Published] = {}
    for name in qi:
        column = original[name].combine_chunks()
        values = column.unique()
        codes[name] = np.asarray(pc.index_in(column, value_set=values)).astype(np.int64)
        cells, tree = released[name].combine_chunks(), (hierarchies or {}).get(name)
        if name in marks:
            cells = _starred(cells, released[marks[name]].combine_chunks(), values)
        if cells.null_count == len(cells):  # text files do not tell what kind of cells is missing
            cells = pa.nulls(len(cells), values.type)
        if pa.types.is_time(values.type) and pa.types.is_string(cells.type):
            with suppress(pa.ArrowInvalid):  # text files know no times of day
                cells = parsed(cells, values.type)
        numbers = all(column_of("", kind).ordered for kind in (values.type, cells.type))
        try:
            if numbers and tree is None and paired:
                published[name] = _standing(name, values, codes[name], cells, place)
            else:
                published[name] = _read(name, values, cells, tree).take(place)
        except HierarchyError:
            if not numbers or not paired:
                raise
            published[name] = _standing(name, values, codes[name], cells, place)
    return View(codes, published)


def boundary_violations(
    original: Any,
    released: Any,
    boundaries: Boundaries,
    *,
    key: str | None = None,
    hierarchies: Mapping[str, Hierarchy] | None = None,
) -> dict[str, int]:
    """Cells of a release that are blurred beyond their boundary, column by column.

    Definition 5 of Miller, Campan & Truta, for a release by whatever program.

    Parameters
    ----------
    original, released, key, hierarchies
        As `pair_tables` takes them.
    boundaries
        How far each value may be blurred.

    Examples
    --------
    >>> original = pa.table({"age": [20, 25, 60]})
    >>> released = pa.table({"age": ["[20, 26)", "[20, 61)", "60"]})
    >>> boundary_violations(original, released, Boundaries({"age": {"max_width": 10}}))
    {'age': 1}
    """
    names = list(boundaries.columns)
    if key is None:
        opened = table(released)
        _refuse_unpaired(opened, table(original), certificate_beside(opened.name))
    view = pair_tables(original, released, names, key=key, hierarchies=hierarchies)
    rows = _rows(original, names, "original")
    shapes: dict[str, EncodedHierarchy | Ranges | ValueSets] = {}
    held: dict[str, Array] = {}
    for name in names:
        values, tree = rows[name].combine_chunks().unique(), (hierarchies or {}).get(name)
        shapes[name] = Ranges(values, name) if tree is None else tree.bind(values, name)
        held[name] = np.bincount(view.original[name], minlength=len(values))
    limits = boundaries.limits(shapes, held)
    return {
        name: limit.violations(view.original[name], view.published[name])
        for name, limit in limits.items()
    }


def _rows(source: Any, names: list[str], which: str) -> pa.Table:
    """Some columns of a table, as Arrow holds them, with one zero."""
    opened = table(source)
    for name in names:
        if name not in opened.columns:
            raise ColumnError(
                f"the {which} has no column `{name}`", remedy=did_you_mean(name, opened.columns)
            )
    schema = pa.schema([(name, opened.column(name).type) for name in names])
    batches = [batch.cast(schema) for batch in opened.batches(names)]  # text may be in dictionaries
    rows = pa.Table.from_batches(batches, schema)
    for at, field_ in enumerate(schema):
        if pa.types.is_floating(field_.type):
            rows = rows.set_column(at, field_, unsigned_zeros(rows.column(at)))
    return rows


def _starred(cells: pa.Array, marked: pa.Array, values: pa.Array) -> pa.Array:
    """Cells with a star where a column beside them says that null stands for one."""
    if not pa.types.is_boolean(marked.type):
        return cells
    star = star_beside(as_text(values).to_pylist())
    return pc.if_else(pc.and_(marked.fill_null(False), cells.is_null()), star, as_text(cells))


def _read(name: str, values: pa.Array, cells: pa.Array, tree: Hierarchy | None) -> Published:
    """What a released column shows, in terms of the original's values."""
    if tree is not None:
        bound = tree.bind(values, name)
        return bound.published(bound.read(cells))
    kind = values.type
    if pa.types.is_null(kind):  # nothing but missing cells
        values = values.cast(pa.string())
    elif not (
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_boolean(kind)
    ):
        ranges = Ranges(values, name)
        try:
            return ranges.published(*ranges.read(cells))
        except HierarchyError:
            pass  # perhaps sets of numbers
    sets = ValueSets(values, name)
    try:
        return sets.published(*sets.read(cells))
    except HierarchyError:
        with suppress(HierarchyError):
            inferred = infer(name, values)[0].bind(values, name)  # labels of months, 021**
            return inferred.published(inferred.read(cells))
        raise


def _standing(
    name: str, values: pa.Array, codes: Array, cells: pa.Array, place: Array
) -> Published:
    """Numbers that stand for those of their rows; one that was kept stands for itself."""
    distinct = cells.dictionary_encode(null_encoding="encode")
    groups = np.where(place >= 0, np.asarray(distinct.indices)[place], -1)
    return Ranges(values, name).standing(codes, groups, distinct.dictionary).take(groups)


def _anyhow(original: pa.Table, released: pa.Table) -> Array:
    """A released row for as many original rows as there are; -1 for the others."""
    rows = np.arange(original.num_rows)
    return np.where(rows < released.num_rows, rows, -1)


def _places(
    original: pa.Table, released: pa.Table, key: str | None, kept: Array | None = None
) -> Array:
    """The released row of each original row; -1 where it is suppressed."""
    if key is None and kept is not None and int(kept.sum()) == released.num_rows:
        return np.where(kept, np.cumsum(kept) - 1, -1)
    if key is None:
        if original.num_rows != released.num_rows:
            raise NotPaired(
                f"the original has {original.num_rows:,} rows and the release "
                f"{released.num_rows:,}; they cannot be paired by position",
                remedy="Name a column that both have and that differs in every row "
                f"({spell('row_key', 'id')}).",
            )
        return np.arange(original.num_rows)
    mine, theirs = original[key].combine_chunks(), released[key].combine_chunks()
    if theirs.type != mine.type:
        theirs = theirs.cast(mine.type)
    for column, which in ((mine, "original"), (theirs, "release")):
        if len(column.unique()) != len(column):
            raise ColumnError(
                f"`{key}` does not tell all rows of the {which} apart",
                remedy="Name a column that differs in every row.",
            )
    if int(pc.sum(pc.is_in(theirs, value_set=mine)).as_py() or 0) != len(theirs):
        raise InputError(
            f"the release has rows whose `{key}` is not in the original",
            remedy="Give the table that the release was made from.",
        )
    return np.asarray(pc.index_in(mine, value_set=theirs).fill_null(-1)).astype(np.int64)
