"""Measure any table against privacy models, independently of what made it.

All models are monotone: the union of classes is never worse than the worst of them. So what the
whole table does not satisfy as one class, no release of its rows satisfies.

A column of a pandas frame that holds text is an array of references, mostly to a few objects. It
is encoded by the objects themselves: only one of each is ever looked at, so that measuring a
frame costs little more than reading it once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from sfumato.budget import Budget
from sfumato.engines.protocol import smallest_dtype
from sfumato.errors import ColumnError, ParameterError, did_you_mean, spell
from sfumato.hierarchy.tree import Array
from sfumato.kernels.compiling import compiled
from sfumato.privacy.base import Counted, Model, SensitiveColumn
from sfumato.privacy.classes import Cells, Classes, ClassHistogram, matching_rows
from sfumato.privacy.diversity import quantile_edges
from sfumato.results import Result
from sfumato.tables import Table, table
from sfumato.tables.source import is_pandas
from sfumato.wording import counted, noun

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Check",
    "ModelFinding",
    "Population",
    "bin_edges",
    "check",
    "check_table",
    "merged_checks",
    "number_objects",
    "require_reachable",
]


@dataclass(frozen=True)
class ModelFinding(Result):
    """What one model measured on the classes of one set of quasi-identifiers.

    Attributes
    ----------
    model
        Its name.
    qi
        The quasi-identifiers.
    column
        The sensitive column, if any.
    asked, measured
        What was asked and what the worst class has, numbers under the same names; what an empty
        table has is None.
    failing_classes, failing_rows
        Classes that do not satisfy the model, and their rows.
    failing_persons
        Those who have such a row; None where rows are counted, or parts of a table.
    """

    model: str
    qi: tuple[str, ...]
    column: str | None
    asked: Mapping[str, Any]
    measured: Mapping[str, Any]
    holds: bool
    failing_classes: int
    failing_rows: int
    failing_persons: int | None = field(default=None, metadata={"private": True})

    @property
    def say(self) -> str:
        """What was measured and asked, in a line."""
        asked = ", ".join(f"{name} = {value:g}" for name, value in self.asked.items())
        measured = ", ".join(
            f"{name} = {'none' if value is None else format(value, '.6g')}"
            for name, value in self.measured.items()
        )
        of = f" of {self.column}" if self.column else ""
        failing = (
            f" ({counted(self.failing_rows, 'row', does='fail')})" if self.failing_rows else ""
        )
        return (
            f"{self.model}{of} on {', '.join(self.qi)}: {measured} measured, {asked} asked{failing}"
        )


@dataclass(frozen=True)
class Check(Result):
    """Whether every model holds for every set of quasi-identifiers.

    `k` and `classes` are of the first set; `wildcards` says how suppressed cells were read.
    """

    holds: bool
    findings: tuple[ModelFinding, ...]
    rows: int
    classes: int
    k: int | None
    wildcards: bool


@dataclass(frozen=True, eq=False)
class Population:
    """The population that k-map looks people up in, in the codes of the checked table.

    Parameters
    ----------
    codes
        The quasi-identifiers of the population, recoded as the table was.
    counts
        Rows each entry stands for.
    """

    codes: Mapping[str, Array]
    counts: Array | None = None


def check(
    models: Sequence[Model],
    codes: Mapping[str, Any],
    qi: Sequence[str] | Sequence[Sequence[str]],
    *,
    counts: Any = None,
    values: Mapping[str, pa.Array] | None = None,
    wildcards: Mapping[str, Sequence[int]] | None = None,
    population: Population | None = None,
    person: Any = None,
    totals: Mapping[str, Array] | None = None,
) -> Check:
    """Measure a table against privacy models.

    Parameters
    ----------
    models
        What must hold, all together.
    codes
        The columns as small integers; for ordered distances a smaller code is a smaller value.
    qi
        The quasi-identifiers, or several sets of them: the models must hold for each.
    counts
        Rows that each entry stands for; 1 each by default.
    values
        Distinct values by code, needed for hierarchies and for limits on a named value.
    wildcards
        For each column the codes that match anything (suppressed or missing cells); by default
        these are values like any other.
    population
        Needed for k-map.
    person
        Who each entry belongs to, as numbers: persons are counted, not rows.
    totals
        Rows of the whole table that hold each sensitive value, where only some of its classes are
        given; put the outcomes together with `merged_checks`.

    Examples
    --------
    >>> from sfumato.privacy import DistinctDiversity, KAnonymity
    >>> codes = {"age": [0, 0, 0, 1, 1], "illness": [0, 1, 1, 1, 1]}
    >>> found = check([KAnonymity(2), DistinctDiversity(2, "illness")], codes, ["age"])
    >>> found.holds, [dict(finding.measured) for finding in found.findings]
    (False, [{'k': 2}, {'l': 1}])
    >>> found.findings[1].failing_rows
    2
    """
    columns = {name: _as_codes(array) for name, array in codes.items()}
    weights = None if counts is None else np.asarray(counts, dtype=np.int64)
    who = None if person is None else _as_codes(person)
    if who is not None and wildcards:
        raise ParameterError(
            "with wildcards rows are counted, not persons",
            remedy="Leave the wildcards out, or the persons.",
        )
    if weights is not None and (weights <= 0).any():  # entries that stand for nobody
        columns = {name: array[weights > 0] for name, array in columns.items()}
        who = None if who is None else who[weights > 0]
        weights = weights[weights > 0]
    sets = _sets(qi)
    _refuse_bad_columns(models, columns, sets)
    values = values or {}
    entries = len(next(iter(columns.values()), np.zeros(0)))
    sensitive = {
        name: (columns[name], max(_cardinality(columns[name]), len(values.get(name, ()))))
        for name in _abouts(models)
    }
    counted = [
        Classes(
            names,
            tuple(columns[name] for name in names),
            tuple(_cardinality(columns[name]) for name in names),
            entries,
            weights,
            sensitive,
            tuple(wildcards.get(name, ()) for name in names) if wildcards and names else None,
            who,
        )
        for names in sets
    ]
    findings = tuple(
        _finding(model, classes, values, population, totals or {})
        for classes in counted
        for model in models
    )
    first = counted[0]
    return Check(
        holds=all(finding.holds for finding in findings),
        findings=findings,
        rows=entries if weights is None else int(weights.sum()),
        classes=len(first.own_sizes),
        k=int(first.sizes.min()) if len(first.sizes) else None,
        wildcards=bool(wildcards),
    )


def _as_codes(array: Any) -> Array:
    """Codes in a width that the compiled loops take."""
    codes = np.asarray(array)
    return codes if codes.dtype.kind == "u" and codes.itemsize <= 4 else codes.astype(np.uint32)


def _cardinality(codes: Array) -> int:
    return int(codes.max()) + 1 if len(codes) else 0


def _sets(qi: Sequence[str] | Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """The sets of quasi-identifiers, whether one or several were given."""
    if isinstance(qi, str):
        return [(qi,)]
    if all(isinstance(name, str) for name in qi):
        return [tuple(str(name) for name in qi)]
    return [tuple(names) if not isinstance(names, str) else (names,) for names in qi]


def _refuse_bad_columns(
    models: Sequence[Model], columns: Mapping[str, Array], sets: Sequence[tuple[str, ...]]
) -> None:
    wanted = [name for names in sets for name in names]
    wanted += _abouts(models)
    for name in wanted:
        if name not in columns:
            raise ColumnError(f"there is no column `{name}`", remedy=did_you_mean(name, columns))
    for name in _abouts(models):
        if any(name in names for names in sets):
            raise ColumnError(
                f"`{name}` is both sensitive and a quasi-identifier",
                remedy="Take it out of one of them.",
            )


def _abouts(models: Sequence[Model]) -> list[str]:
    """The sensitive columns of models."""
    return list(dict.fromkeys(model.about for model in models if model.about is not None))


def _finding(
    model: Model,
    classes: Classes,
    values: Mapping[str, pa.Array],
    population: Population | None,
    totals: Mapping[str, Array],
) -> ModelFinding:
    histogram = column = None
    if model.about is not None:
        histogram = classes.histograms[model.about]
        if model.about in totals:
            histogram = replace(histogram, table=totals[model.about])
        column = SensitiveColumn(histogram.total, values.get(model.about))
        histogram = column.seen_in(histogram)
    sizes = _people(classes, population) if model.asks_people else classes.sizes
    fine, worst = model.measure(Counted(sizes, histogram, column))
    return ModelFinding(
        model=model.title,
        qi=classes.qi,
        column=model.about,
        asked=model.asked,
        measured=worst,
        holds=bool(fine.all()),
        failing_classes=int((~fine).sum()),
        failing_rows=int(classes.own_sizes[~fine].sum()),
        failing_persons=classes.persons_of(~fine),
    )


_WORST_IS_LEAST = ("k", "l", "p")
"""What is worst where it is smallest; other figures are worst where they are largest."""


def merged_checks(checks: Sequence[Check]) -> Check:
    """The outcome for a table from those for parts of its classes, by the same models and sets.

    Examples
    --------
    >>> from sfumato.privacy import KAnonymity
    >>> parts = [check([KAnonymity(2)], {"age": ages}, ["age"]) for ages in ([0, 0], [1])]
    >>> whole = merged_checks(parts)
    >>> whole.k, whole.classes, whole.findings[0].failing_rows
    (1, 2, 1)
    """
    return Check(
        holds=all(one.holds for one in checks),
        findings=tuple(
            _merged(found) for found in zip(*(one.findings for one in checks), strict=True)
        ),
        rows=sum(one.rows for one in checks),
        classes=sum(one.classes for one in checks),
        k=min((one.k for one in checks if one.k is not None), default=None),
        wildcards=False,
    )


def _merged(found: Sequence[ModelFinding]) -> ModelFinding:
    """One model on one set, from several parts of its classes."""
    worst: dict[str, Any] = {}
    for name in found[0].measured:
        told = [one.measured[name] for one in found if one.measured[name] is not None]
        choose = min if name in _WORST_IS_LEAST else max
        worst[name] = choose(told, default=None)
    return replace(
        found[0],
        measured=worst,
        holds=all(one.holds for one in found),
        failing_classes=sum(one.failing_classes for one in found),
        failing_rows=sum(one.failing_rows for one in found),
        failing_persons=None,
    )


def _people(classes: Classes, population: Population | None) -> Array:
    """How many people of a population match each class."""
    if population is None:
        raise ParameterError("k-map needs a population table", remedy="Give one, or ask for k.")
    for name in classes.qi:
        if name not in population.codes:
            raise ColumnError(
                f"the population has no column `{name}`",
                remedy=did_you_mean(name, population.codes),
            )
    theirs = Cells.of([population.codes[name] for name in classes.qi], classes.stars)
    counts = np.ones(len(theirs)) if population.counts is None else population.counts
    return matching_rows(classes.cells, theirs, counts)


def smaller_k(number: int) -> str:
    """What can be asked of so many rows or persons."""
    return f"Ask for k <= {number:,}." if number > 1 else "There is nothing to release."


def require_reachable(
    models: Sequence[Model],
    sensitive: Mapping[str, SensitiveColumn],
    rows: int,
    *,
    counted: str = "rows",
) -> None:
    """Refuse demands that the whole table as one class does not satisfy.

    Parameters
    ----------
    models
        What is asked.
    sensitive
        The sensitive columns of the table.
    rows, counted
        Rows of the table; or persons, where those are counted.

    Raises
    ------
    ParameterError
        Says what is asked, the best that can be reached, and which rows are in the way.

    Examples
    --------
    >>> from sfumato.privacy import DistinctDiversity
    >>> illness = SensitiveColumn(np.array([5, 3]))
    >>> require_reachable([DistinctDiversity(3, "illness")], {"illness": illness}, 8)
    Traceback (most recent call last):
        ...
    sfumato.errors.ParameterError: distinct l-diversity of `illness` with l = 3 cannot be reached \
with all rows: all 8 rows together hold 2 distinct values, the commonest in 5 rows. Ask for l <= 2.
    """
    whole = np.array([rows])
    for model in models:
        if model.least_rows > max(rows, 1):
            raise ParameterError(
                f"{model.name} with k = {model.least_rows:,} cannot be reached: the table has "
                f"{rows:,} {noun(counted, rows)}",
                remedy=smaller_k(rows),
            )
        if model.about is None or rows == 0:
            continue
        column = sensitive[model.about]
        codes = np.arange(len(column.counts))
        one = ClassHistogram.of(np.zeros(len(codes)), 1, codes, len(codes), column.counts)
        seen = column.seen_in(one)
        found = model.reach(Counted(whole, seen, column), whole)
        if found.blocked_rows and not seen.known.distinct.any():
            raise ParameterError(
                f"{found.asked} cannot be reached: every cell of `{model.about}` is missing",
                remedy="Ask for nothing about it, or leave it out.",
            )
        if found.blocked_rows:
            raise ParameterError(
                f"{found.asked} cannot be reached with all {counted}: "
                f"{found.reason.replace('rows', counted)}",
                remedy=f"Ask for {found.best}.",
            )


_OBJECTS = ((1 << 8, np.uint8), (1 << 14, np.uint16))
"""Different objects up to which a column is encoded by identity, and the type of the codes."""
_SPREAD_OUT = 4
"""Whole numbers are taken as codes where their range has at most so many values a row."""


def check_table(
    source: Any,
    models: Sequence[Model],
    qi: Sequence[str] | Sequence[Sequence[str]],
    *,
    budget: Budget | None = None,
) -> Check:
    """Measure a table against privacy models.

    Parameters
    ----------
    source
        Anything `sfumato.table` opens. Only the columns concerned are read.
    models
        What must hold, all together; whether it does or not, the answer says what was measured.
    qi
        The quasi-identifiers, or several sets of them.

    Examples
    --------
    >>> import pandas as pd
    >>> from sfumato.privacy import Closeness, DistinctDiversity
    >>> illness = ["flu", "gout", "flu", "flu"]
    >>> frame = pd.DataFrame({"sex": ["F", "F", "M", "M"], "illness": illness})
    >>> models = [DistinctDiversity(2, "illness"), Closeness(0.3, "illness")]
    >>> found = check_table(frame, models, ["sex"])
    >>> [(dict(finding.measured), finding.holds) for finding in found.findings]
    [({'l': 1}, False), ({'t': 0.25}, True)]
    """
    names = _columns(models, qi)
    if is_pandas(source) and not any(model.needs_values for model in models):
        ordered = {model.about for model in models if model.needs_order}
        whole = {model.about for model in models}
        codes = _codes_of_frame(source, names, ordered, whole)
        if codes is not None:
            return check(models, codes, qi)

    entries = table(source, columns=names, budget=budget).classes(names, budget=budget)
    return check(
        models,
        dict(zip(entries.columns, entries.arrays, strict=True)),
        qi,
        counts=entries.counts,
        values=dict(zip(entries.columns, entries.values, strict=True)),
    )


def bin_edges(source: Table, given: Mapping[str, Any]) -> dict[str, tuple[float, ...]]:
    """Where `sensitive_bins` cut the columns of a table.

    Parameters
    ----------
    given
        What is asked; the larger of k and l decides which values are too rare to be an edge.
    """
    # Whether k and l can be meant is said where models are made.
    asked = (given.get(name) or 0 for name in ("k", "l"))
    least = max(2, *(int(number) if math.isfinite(number) else 0 for number in asked))
    edges = {}
    for name, bins in (given.get("sensitive_bins") or {}).items():
        (name,) = source.require([name])
        found = source.values(name)
        (values,), (codes,) = found.values, found.arrays
        kind = values.type
        if not any(of(kind) for of in (pt.is_integer, pt.is_floating, pt.is_decimal)):
            raise ColumnError(
                f"column `{name}` holds no numbers, so it has no ranges",
                where=source.name,
                remedy=f"Leave it out of {spell('sensitive_bins', {name: int(bins)})}.",
            )
        rows = np.bincount(codes, weights=found.counts, minlength=len(values))
        edges[name] = quantile_edges(values, rows.astype(np.int64), int(bins), least)
        if not edges[name] and bins >= 2:
            raise ColumnError(
                f"the numbers of `{name}` are too few or too much alike for ranges",
                where=source.name,
                remedy="Count its values: leave the ranges out.",
            )
    return edges


def _columns(
    models: Sequence[Model], qi: Sequence[str] | Sequence[Sequence[str]]
) -> tuple[str, ...]:
    """Every column that is named, once."""
    named: dict[str, None] = {}
    for part in qi:
        named |= {part: None} if isinstance(part, str) else dict.fromkeys(part)
    named |= {model.about: None for model in models if model.about is not None}
    return tuple(named)


def _codes_of_frame(
    frame: pd.DataFrame, names: Sequence[str], ordered: set[str | None], whole: set[str | None]
) -> dict[str, Array] | None:
    """Codes of columns; None where one is not made of whole numbers or a few texts.

    Nor where one that must be whole lacks cells: codes alone do not say which one those have.
    """
    if not len(frame) or not frame.columns.is_unique:
        return None
    codes = {}
    for name in names:
        if name not in frame.columns:
            return None  # opening the table says so, with a suggestion
        cells = frame[name].to_numpy()
        found = None
        if cells.dtype == object and cells.flags.c_contiguous:
            found = _codes_of_objects(cells, name in ordered, name in whole)
        elif cells.dtype.kind in "iu":
            found = _codes_of_integers(cells)
        if found is None:
            return None
        codes[name] = found
    return codes


def _codes_of_objects(cells: Array, ordered: bool, whole: bool) -> Array | None:
    """Equal texts get equal codes, missing cells one of their own, the last."""

    addresses = np.frombuffer(cells, np.intp)
    for most, width in _OBJECTS:
        first, numbers = np.empty(most, np.int64), np.empty(len(cells), width)
        found = number_objects(addresses, first, numbers)
        if found >= 0:
            break
    else:
        return None
    objects = cells[first[:found]].tolist()
    if not all(type(value) is str or (_missing(value) and not whole) for value in objects):
        return None
    known = dict.fromkeys(value for value in objects if type(value) is str)
    if len(known) == len(objects) and not ordered:
        return numbers
    code_of = {text: code for code, text in enumerate(sorted(known) if ordered else known)}
    codes = np.array([code_of.get(value, len(known)) for value in objects], numbers.dtype)
    return np.asarray(codes[numbers])


def _missing(value: Any) -> bool:
    """None, and the not-a-number that pandas writes for it."""
    return value is None or (isinstance(value, float) and value != value)


def _codes_of_integers(cells: Array) -> Array | None:
    """Whole numbers counted from the smallest, where they lie close together."""
    low, high = int(cells.min()), int(cells.max())
    if high - low > _SPREAD_OUT * len(cells) + 1024 or high - low >= 2**32:
        return None
    counted: Array = cells - cells.dtype.type(low)
    return np.asarray(counted.astype(smallest_dtype(high - low + 1)))


_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@compiled
def number_objects(addresses, first, numbers):  # type: ignore[no-untyped-def]
    """Number objects in order of appearance; returns how many, or -1 where there are too many.

    `first` takes the place where each object was first met; its length is a power of two.
    """
    slots = 2 * len(first)
    shift = np.uint64(64)
    while np.uint64(1) << (np.uint64(64) - shift) < slots:
        shift -= np.uint64(1)
    met = np.full(slots, -1, np.int64)  # where no object can be
    number = np.empty(slots, numbers.dtype)
    found = 0
    for i in range(len(addresses)):
        address = addresses[i]
        at = (np.uint64(address) * _SPREAD) >> shift
        while met[at] != address:
            if met[at] == -1:
                if found == len(first):
                    return -1
                met[at], number[at], first[found] = address, found, i
                found += 1
                break
            at = (at + np.uint64(1)) & np.uint64(slots - 1)
        numbers[i] = number[at]
    return found
