"""From solutions to a release: the recoding, what happened to each column, and what it cost.

Costs are computed from groups and from the counts of original values, never from rows: a table of
ten million rows has a million groups at most, and a few hundred values a column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.anonymization.actions import (
    alone,
    described,
    pseudonym_step,
    require_dates,
    shift_step,
    told_of_dates,
)
from sfumato.anonymization.numbers_as import (
    WORDS,
    as_read,
    bound_names,
    coincidences,
    number_columns,
)
from sfumato.anonymization.persons import group_persons, numbered, persons_in_classes
from sfumato.anonymization.problem import Problem, Shape, Solution, largest_sets, piece_view
from sfumato.anonymization.request import Request
from sfumato.anonymization.workload import QueryLog
from sfumato.budget import Postponed, each
from sfumato.engines.protocol import ClassSizes, CodeArray, smallest_dtype
from sfumato.engines.recoding import Cells, Recoding, Step
from sfumato.errors import ColumnError, spell
from sfumato.files import keyed_digest
from sfumato.hierarchy import Published, Ranges, ValueSets
from sfumato.hierarchy.labels import STAR, as_text, mark_of, read_interval, same_texts
from sfumato.hierarchy.tree import Array
from sfumato.privacy.check import Risk, risk_of_classes, risk_of_persons
from sfumato.release import Promise, Release
from sfumato.release.beside import NOT_PROMISED
from sfumato.release.other_promises import LinkedHistories, WithoutColumns
from sfumato.release.promise import Anonymity
from sfumato.tables import Table
from sfumato.utility import (
    answer_workload,
    average_class_size,
    certainty_penalty,
    column_losses,
    discernibility,
    distribution_distances,
    granularity,
    information_loss,
    non_uniform_entropy,
    weighted_discernibility,
)
from sfumato.wording import counted, percent

Counted = tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]
"""Classes and the persons in them, as pairs, and how many each class holds."""


def release_of(
    table: Table,
    request: Request,
    parts: Sequence[Solution],
    named: Sequence[str] = (),
    *,
    postpone: bool = False,
) -> Release:
    """The release that carries solutions out and promises what was asked, not yet written.

    `named` are warnings about columns that name persons. What it cost may be postponed until it
    is written, if memory allows that solutions are held so long.
    """
    shows, persons, read = request.shows, None, list(parts)
    if shows:
        read = [as_read(part, shows) for part in parts]
    if parts[0].problem.person is not None:
        persons = persons_in_classes(read[0], parts[0].problem.sets[0])
    steps = [step_of(part, request) for part in parts]
    written = {name for step in steps for name in step.cells}
    parted, qi = as_released(request, written)
    require_new_names(written - set(request.qi_columns), table.columns, table.name)
    dates: tuple[str, ...] = ()
    if request.shift_dates:
        changed = {*request.actions, *request.replaced} - written
        dates = require_dates(table, request.dropped, changed)
    if request.key is not None and request.person is not None:
        steps += [
            shift_step(table, name, request.person, request.key, request.shift_days)
            for name in dates
            if name not in written
        ]
    steps += [
        alone(table, name, actions)
        for name, actions in request.actions.items()
        if name not in written
    ]
    if request.key is not None:
        steps += [pseudonym_step(table, n, request.key_of(n)) for n in request.replaced]
    touched = [touched_rows(part, request.shows) for part in parts]
    cost = utility(read, request.workload)
    hidden = [c.name for c in table.engine.schema() if c.name not in table.columns]
    drop = (*request.dropped, *hidden)
    release = Release.planned(
        table,
        Recoding(tuple(steps), (*drop, *parted), _sorted(request, parts[0].problem)),
        _foreseen(read[0], persons),
        method=request.method,
        asked=request.asked,
        qi=qi,
        promises=promises_of(request, qi, drop, _linked(request, parts[0], parted)),
        suppressed_rows=max(part.problem.rows - int(part.sizes.sum()) for part in parts),
        suppressed_cells=suppressed_cells(touched),
        column_actions=all_actions(
            table.columns,
            request,
            {
                name: in_words(rows, int(part.sizes.sum()))
                for part, columns in zip(parts, touched, strict=True)
                for name, rows in columns.items()
            },
            dates,
        ),
        lower_bound=parts[0].lower_bound if len(parts) == 1 else None,
        utility=cost if postpone else dict(cost),
        details=_details(parts, request, risks(read, persons)),
        seed=request.seed,
        stopped_by=next((part.stopped_by for part in parts if part.stopped_by), None),
        earlier=None if request.recoding is None else request.recoding.released,
    )
    told = (
        *_warnings(table, request, release),
        *named,
        *label_warnings(parts),
        *far_ends(parts, request),
        *(told for part in parts if shows for told in coincidences(part, shows)),
        *dict.fromkeys(warning for part in parts for warning in part.warnings),
    )
    return replace(release, warnings=told)


def require_new_names(added: Set[str], there: Iterable[str], where: str | None = None) -> None:
    """Marks of stars and ends of ranges must not take the place of columns that are there."""
    taken = sorted(added & {*there})
    if taken:
        raise ColumnError(
            f"the release needs a column `{taken[0]}`, and the table already has one",
            where=where,
            remedy=f"Rename it, or make starred columns text ({spell('suppressed_as', 'text')}); "
            "bounds can be shown as middles.",
        )


def as_released(
    request: Request, written: Iterable[str]
) -> tuple[list[str], tuple[tuple[str, ...], ...]]:
    """Columns that two others stand for in a release, and the sets as the release names them.

    Whoever reads a release also sees which nulls are stars, unless stars match anything: then so do
    nulls.
    """
    added = {name for name in written if name not in request.qi_columns}
    parted = [
        name
        for name, how in request.shows.items()
        if how == "bounds" and name not in written and bound_names(name)[0] in added
    ]
    seen = () if request.missing == "wildcard" else added
    sets = (_released_names(names, parted) for names in request.qi)
    return parted, tuple((*names, *(m for m in map(mark_of, names) if m in seen)) for names in sets)


def _released_names(names: Sequence[str], parted: Sequence[str]) -> tuple[str, ...]:
    """The columns of a set as the release names them, without those that mark stars."""
    pairs = (bound_names(name) if name in parted else (name,) for name in names)
    return tuple(name for pair in pairs for name in pair)


def _linked(request: Request, part: Solution, parted: Sequence[str]) -> list[Promise]:
    """What is promised of whole histories, where they are."""
    if not request.linkable or request.person is None:
        return []
    assert part.linkable is not None
    own = _released_names(part.linkable["own"], parted)
    events = _released_names(part.linkable["events"], parted)
    models = tuple(model for model in request.models if model.about is not None)
    known = request.known_rows
    return [LinkedHistories(request.k, known, own, events, request.person, models)]


def promises_of(
    request: Request,
    qi: tuple[tuple[str, ...], ...],
    drop: Sequence[str],
    linked: Sequence[Promise] = (),
) -> tuple[Promise, ...]:
    """What must hold of the output: the models of each set, or of linked histories, k-map in the
    population, no column that was to be left out."""
    promises: list[Promise] = [*linked]
    models = tuple(model for model in request.models if not model.asks_people)
    if models and not linked:
        promises.append(Anonymity(models, qi, request.sensitive, request.missing, request.person))
    if request.population is not None:
        from sfumato.populations.promises import MatchesPopulation

        promises.append(
            MatchesPopulation(
                request.k_map,
                request.qi,
                request.population.name,
                keyed_digest(request.population.fingerprint()),
                request.trees,
                request.population,
            )
        )
    if drop:
        promises.append(WithoutColumns(tuple(drop)))
    return tuple(promises)


def _foreseen(part: Solution, persons: Counted | None) -> ClassSizes:
    """Class sizes of the first set, from what the groups show: some may show the same."""
    if persons is not None:
        return ClassSizes.of_counts(persons[2])
    return ClassSizes.of_counts(part.view_of(part.problem.sets[0]).class_sizes)


def all_actions(
    columns: Sequence[str],
    request: Request,
    blurred: Mapping[str, str],
    dates: Sequence[str] = (),
) -> dict[str, str]:
    """What happened to each column, given what happened to quasi-identifiers and to dates."""
    actions = {**dict.fromkeys(columns, "kept"), **blurred}
    for name, how in request.shows.items():
        if how in WORDS and actions[name].startswith("blurred"):
            actions[name] += f", {WORDS[how]}"
    for name, given in request.actions.items():
        first = described(given)
        then = actions[name]
        actions[name] = first if then == "kept" else f"{first}; {then}"
    for name in dates:
        moved = f"moved by up to {request.shift_days:,} days a person"
        actions[name] = moved if actions[name] == "kept" else f"{moved}; {actions[name]}"
    actions |= dict.fromkeys(request.replaced, "replaced by pseudonyms")
    return {**actions, **dict.fromkeys(request.dropped, "dropped")}


def _sorted(request: Request, problem: Problem) -> bool:
    """Whether rows leave their order: where persons have several, it could tell whose they are."""
    if request.sort:
        return True
    histories, person = problem.histories, request.person
    if histories is None or person is None:
        return False
    return len(histories.values_of(person)) < problem.rows


def _details(
    parts: Sequence[Solution], request: Request, found: tuple[Risk, ...]
) -> dict[str, Any]:
    """What methods tell beyond the common fields; under `parts` where there are several."""
    details: dict[str, Any] = {}
    if len(parts) == 1:
        details |= parts[0].told
    elif any(part.told for part in parts):
        details["parts"] = [{"qi": part.problem.sets, **part.told} for part in parts]
    inferred = {name: why for part in parts for name, why in part.problem.inferred.items()}
    if inferred:
        details["inferred_hierarchies"] = inferred
    told = rounding(parts, request.shows)
    if told is not None:
        details["round_ends"] = told
    details["risk"] = found
    if request.person is not None:
        counted = _persons_told(parts, request.person)
        details["persons"] = {**counted, "sorted": _sorted(request, parts[0].problem)}
    return details


def _persons_told(parts: Sequence[Solution], person: str) -> dict[str, Any]:
    """How many persons the table has, and how many are left with no row in the release."""
    before, after = parts[0].problem, [part for part in parts if part.problem.person is not None]
    if before.histories is None:  # every row is a person's
        kept = min(int(part.sizes.sum()) for part in parts)
        return {"column": person, "persons": before.rows, "left_out": before.rows - kept}
    number = len(before.histories.values_of(person))
    kept = number
    for part in after:
        if (part.groups >= 0).all():
            continue
        there = np.zeros(number, dtype=bool)
        there[group_persons(part.problem, part)[1]] = True
        kept = min(kept, int(there.sum()))
    return {"column": person, "persons": number, "left_out": number - kept}


def step_of(solution: Solution, request: Request) -> Step:
    """The recoding step that carries a solution out.

    Blurred columns become text, or numbers and dates on request. Starred columns keep their type,
    with null for a star (and a column ``<name>__suppressed`` where nulls occurred before), or
    become text on request.
    """
    problem, original = solution.problem, solution.problem.source
    names = problem.qi
    if solution.entry is not None or len(original.columns) > len(names):
        names = original.columns  # equal quasi-identifiers may go to different groups
    groups, entry, rows, source = _pieces(solution)

    def written(column: str) -> tuple[dict[str, Cells], bool]:
        """New cells of a column, and whether they are the same in all of a group."""
        if column in solution.published and _is_kept(solution, column):
            if problem.merged is None or column not in request.actions:
                return {}, True
            codes = problem.entries.column(column)[source]
            return {column: _cells(codes, problem.entries.values_of(column))}, False
        if column in solution.published:
            shown = _shown(solution, column, request.shows.get(column, "range"))
            return {n: _of_groups(*of_group, groups) for n, of_group in shown.items()}, True
        if column in solution.starred:
            starred = (groups >= 0) & solution.starred[column][groups]
            if starred.any() or problem.part:
                text = request.suppressed_as == "text"
                return _starred(problem, column, source, starred, text), False
        return {}, True

    made = each(written, problem.qi, len(groups) * len(problem.qi))
    for name, (columns, _) in zip(problem.qi, made, strict=True):
        require_new_names(columns.keys() - {name}, request.qi_columns)
    cells = {name: new for columns, _ in made for name, new in columns.items()}
    by_group = all(alike for _, alike in made)
    match = original if names == original.columns else original.select(names)
    if len(entry) != original.entries or rows is not None:
        match = match.take(entry)
    first = last = None
    if rows is not None:
        first, last = _ordinals(entry, rows)
    keep = None if bool((groups >= 0).all()) else groups >= 0
    return Step(match, cells, keep, first, last, groups if by_group else None)


def _is_kept(solution: Solution, column: str) -> bool:
    """Whether every group shows one value of a column, so that nothing is to be written anew.

    Of a part nobody knows: others may blur the column, and all parts must write the same columns.
    Bytes are written as text, which every file can carry.
    """
    values = solution.problem.entries.values_of(column)
    if solution.problem.part or _is_binary(values.type):
        return False
    shown = solution.published[column]
    used = shown.codes[: len(solution.sizes)][solution.sizes > 0]
    return not shown.blurred[used].any()


def _is_binary(kind: pa.DataType) -> bool:
    from pyarrow import types as named

    tests = (named.is_binary, named.is_large_binary, named.is_fixed_size_binary)
    return any(test(kind) for test in tests)


def _shown(solution: Solution, column: str, how: str) -> Mapping[str, tuple[CodeArray, pa.Array]]:
    """What stands for a blurred column: which entry each group shows, and the entries."""
    if how != "range":
        return number_columns(solution, column, how)
    shown = solution.published[column]
    return {column: (np.maximum(shown.codes, 0), shown.labels)}


def _pieces(
    solution: Solution,
) -> tuple[
    npt.NDArray[np.int32],
    npt.NDArray[np.int64],
    npt.NDArray[np.int64] | None,
    npt.NDArray[np.int64],
]:
    """Group, original entry, rows (None: all) and entry of the problem, for each piece."""
    problem = solution.problem
    if problem.merged is not None:
        groups, entry, rows, source = problem.merged.expanded(
            solution.groups, solution.entry, solution.rows
        )
        whole = np.arange(problem.source.entries)
        return groups, whole if entry is None else entry, rows, source
    whole = np.arange(problem.source.entries)
    entry = whole if solution.entry is None else solution.entry
    return solution.groups, entry, solution.rows, entry


def _ordinals(
    entry: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Half-open ordinal ranges of pieces that are sorted by entry."""
    ends = np.cumsum(rows)
    starts = ends - rows
    is_first = np.r_[True, entry[1:] != entry[:-1]]
    base = starts[is_first][np.cumsum(is_first) - 1]
    return starts - base, ends - base


def _starred(
    problem: Problem,
    column: str,
    entry: npt.NDArray[np.int64],
    starred: npt.NDArray[np.bool_],
    as_text: bool,
) -> dict[str, Cells]:
    """Cells of a column where some groups show a star and the others their own value."""
    values = problem.entries.values_of(column)
    is_text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
    codes = problem.entries.column(column)[entry].astype(np.int64)
    if is_text or as_text:
        shown = values if is_text else pc.cast(values, pa.string())
        marker = problem.options.get("marker") or STAR
        if pc.any(pc.equal(shown, marker)).as_py():
            raise ColumnError(
                f"column `{column}` already contains the text that marks suppressed cells",
                remedy=f"Choose another marker, e.g. {spell('marker', '?')}.",
            )
        shown = pa.concat_arrays([shown.cast(pa.string()), pa.array([marker])])
        return {column: _cells(np.where(starred, len(values), codes), shown)}
    if values.null_count:
        marks = _cells(starred.astype(np.int64), pa.array([False, True]))
        null_code = len(values) - 1
        return {
            column: _cells(np.where(starred, null_code, codes), values),
            mark_of(column): marks,
        }
    shown = pa.concat_arrays([values, pa.nulls(1, values.type)])
    return {column: _cells(np.where(starred, len(values), codes), shown)}


def _of_groups(codes: CodeArray, values: pa.Array, groups: npt.NDArray[np.int32]) -> Cells:
    """Cells of pieces, given the code that each group shows; a piece left out shows any."""
    return Cells(np.append(codes, 0).astype(smallest_dtype(len(values))), values, groups)


def _cells(codes: CodeArray, values: pa.Array) -> Cells:
    return Cells(codes.astype(smallest_dtype(len(values))), values)


def label_warnings(parts: Sequence[Solution]) -> list[str]:
    """Sentences about columns whose values look like labels.

    Sets and stars of our own making step aside, which must be said; the labels of a tree are the
    user's, and stay.
    """
    told: dict[str, None] = {}
    for part in parts:
        cells = sum(map(len, part.published.values()))
        sentences = each(partial(_label_warning, part), part.published, cells)
        told |= dict.fromkeys(sentence for sentence in sentences if sentence is not None)
    return list(told)


def _label_warning(part: Solution, name: str) -> str | None:
    shape, shown = part.problem.shapes[name], part.published[name]
    return (
        _unusual(name, shape, shown)
        or _ambiguous(name, shape, shown)
        or _own_stars(name, shape, shown, part.sizes)
    )


FAR_END = 0.01
"""Share of the way to the next value within which the end of a range tells a lonely one."""


def far_ends(
    parts: Sequence[Solution], request: Request, held: Mapping[str, npt.NDArray[Any]] | None = None
) -> list[str]:
    """Sentences about ranges that reach out to a number or date far from all others.

    Of a part of a table `held` says how many rows of the whole hold each value of a column; a
    column that is not in it is not judged.
    """
    k = request.k or request.k_map or 2
    told: dict[str, None] = {}
    for part in parts:
        for name, shown in part.published.items():
            if held is not None and name not in held:
                continue
            values = part.problem.entries.values_of(name)
            dates = pa.types.is_date(values.type) or pa.types.is_timestamp(values.type)
            if dates:
                values = values.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
            elif not _is_number(values.type):
                continue
            rows = (part.problem.rows_of_values if held is None else held)[name]
            numbers = np.asarray(values.cast(pa.float64(), safe=False).fill_null(np.nan))
            there = np.isfinite(numbers) & (rows > 0)
            order = np.argsort(numbers[there])
            numbers, rows = numbers[there][order], rows[there][order]
            lonely = [
                sign for sign in (1, -1) if _is_lonely(numbers[::sign] * sign, rows[::sign], k)
            ]
            ends = _ends(shown) if lonely else np.empty(0)
            for sign in lonely:
                if _tells(numbers[::sign] * sign, ends * sign):
                    which, action = ("highest", "top") if sign > 0 else ("lowest", "bottom")
                    thing = "date" if dates else "number"
                    remedy = (
                        "make it missing, or leave out its row first"
                        if dates
                        else f"limit it first, by the action `{action}` of the column"
                    )
                    told[
                        f"{NOT_PROMISED}the {which} range of `{name}` ends beside a {thing} that "
                        f"fewer than {k} rows hold, far from all others: the end tells it nearly; "
                        f"{remedy}"
                    ] = None
    return list(told)


def _is_number(kind: pa.DataType) -> bool:
    """Whether cells are numbers, of whatever kind."""
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _number(end: str | None) -> float | None:
    """The end of a range as a number; of a date its microseconds."""
    if end is None:
        return None
    moment = end.removesuffix("Z")  # numpy's moments are in UTC, and do not say so
    for read in (float, lambda _: float(np.datetime64(moment, "us").astype(np.int64))):
        with suppress(ValueError):
            return read(end)
    return None


def _ends(shown: Published) -> npt.NDArray[np.float64]:
    """The numbers at which the ranges of a column end."""
    used = shown.labels.take(pa.array(shown.used))
    ranges = [read_interval(text) for text in used.cast(pa.string()).to_pylist() if text]
    bounds = [_number(end) for one in ranges if one for end in (one.low, one.high)]
    return np.array([number for number in bounds if number is not None])


def _is_lonely(numbers: npt.NDArray[Any], rows: npt.NDArray[Any], k: int) -> bool:
    """Whether few rows hold the largest number, and it lies far from the others."""
    if len(numbers) < 3 or rows[-1] >= k:
        return False
    return bool(numbers[-1] - numbers[-2] > numbers[-2] - numbers[0])


def _tells(numbers: npt.NDArray[Any], ends: npt.NDArray[np.float64]) -> bool:
    """Whether an end lies beside the largest number."""
    return bool((np.abs(ends - numbers[-1]) <= FAR_END * (numbers[-1] - numbers[-2])).any())


def _unusual(name: str, shape: Shape, shown: Published) -> str | None:
    """A set or star that was released in another form than usual."""
    covers = shown.leaf_count[shown.used]
    several = shown.labels.take(pa.array(shown.used[covers > 1])).to_pylist()
    stars = next((label for label in several if label and set(label) == {"*"}), "*")
    if stars != "*" and pc.any(pc.match_substring_regex(as_text(shape.values), r"^\*+$")).as_py():
        return (
            f"values of column `{name}` are stars themselves: where any value may stand, the "
            f"release shows {stars}"
        )
    if not isinstance(shape, ValueSets):
        return None
    if shape.braces > 1 and ((covers > 1) & (covers < shape.size)).any():
        return (
            f"values of column `{name}` are written like sets: sets of the release have "
            f"{shape.braces} braces on each side"
        )
    return None


def _own_stars(name: str, shape: Shape, shown: Published, sizes: npt.NDArray[Any]) -> str | None:
    """Stars that the table itself held: a reader takes them for starred cells."""
    held = as_text(shape.values).to_pylist()
    own = {at for at, text in enumerate(held) if text and not text.strip("*")}
    if not own:
        return None
    alone = [
        count == 1 and int(shown.order[low]) in own and label == held[int(shown.order[low])]
        for count, low, label in zip(
            shown.leaf_count, shown.low, shown.labels.to_pylist(), strict=True
        )
    ]
    cells = int(sizes[np.array(alone, np.bool_)[shown.codes[: len(sizes)]]].sum())
    if not cells:
        return None
    return (
        f"values of column `{name}` are stars themselves: {counted(cells, 'cell')} of the release "
        "with such a value look starred and are not"
    )


def _ambiguous(name: str, shape: Shape, shown: Published) -> str | None:
    """Labels of a tree that are values too, and were released for more than that value."""
    blurred = shown.used[shown.leaf_count[shown.used] > 1]
    labels = shown.labels.take(pa.array(blurred)).unique().drop_null()
    both = pc.sum(pc.is_in(labels, as_text(shape.values))).as_py()
    if not both:
        return None
    return (
        f"{both:,} labels of column `{name}` stand for several values and are values too: readers "
        "cannot tell which is meant; rename them in the tree"
    )


def _warnings(opened: Table, request: Request, release: Release) -> tuple[str, ...]:
    found: list[str] = []
    if request.target is not None and request.target in request.sensitive:
        found.append(
            f"the target `{request.target}` is also sensitive: the more a class tells about it, "
            "the less private it is; what one demand wins the other loses"
        )
    if request.shift_dates:
        left_out = (*request.dropped, *request.replaced)
        found += told_of_dates(opened, request.person, left_out, request.shift_days, request.seed)
    if request.workload is not None:
        found += request.workload.warnings(opened.columns)
    if request.boundaries is not None and release.suppressed_rows:
        found.append(
            f"{counted(release.suppressed_rows, 'row', does='are')} left out, which cannot "
            "be blurred enough within the boundaries"
        )
    return tuple(found)


def utility(parts: Sequence[Solution], workload: QueryLog | None = None) -> Postponed:
    """Every measure of the solutions to the parts of a demand.

    Shares are means over all quasi-identifier cells of all parts. Discernibility and the average
    class size are those of the first set, as `classes` of a release is.
    """
    cells = np.array([len(part.problem.qi) for part in parts], dtype=float)
    measures = [_measures(part) for part in parts]
    names = [[*of_part] for of_part in measures]
    steps = [step for of_part in measures for step in of_part.values()]
    if workload is not None:
        steps.append(partial(_query_errors, parts, workload))

    def whole(found: Sequence[Any]) -> dict[str, Any]:
        told = iter(found)
        figures = _means([{name: next(told) for name in of_part} for of_part in names], cells)
        return {**figures, **({} if workload is None else {"queries": next(told)})}

    return Postponed(steps, whole, sum(len(part.view.kept) for part in parts) * int(cells.max()))


def _means(told: Sequence[Mapping[str, Any]], cells: Array) -> dict[str, Any]:
    return {
        "ncp": _mean(told, "ncp", cells),
        "columns": {name: loss for measures in told for name, loss in measures["columns"].items()},
        "information_loss": sum(measures["information_loss"] for measures in told),
        "granularity": _mean(told, "granularity", cells),
        "non_uniform_entropy": _mean(told, "non_uniform_entropy", cells),
        "discernibility": told[0]["discernibility"],
        "weighted_discernibility_by_label": sum(
            measures["weighted_discernibility_by_label"] for measures in told
        ),
        "average_class_size": told[0]["average_class_size"],
        "distribution": {
            name: moved for measures in told for name, moved in measures["distribution"].items()
        },
    }


def rounding(parts: Sequence[Solution], shows: Mapping[str, str]) -> dict[str, Any] | None:
    """How much more is lost by ranges that end at round numbers than by those of exact ends.

    ``more`` is a share of what exact ends lose in all quasi-identifiers, ``columns`` the same for
    each column of ranges. None where that is not known (sets solved apart, groups of an earlier
    release), and where nothing is lost.
    """
    exact: dict[str, float] = {}
    rounded: dict[str, float] = {}
    for part in parts:
        if len(largest_sets(part.problem.sets)) > 1 or part.like is not None:
            return None
        cells = len(part.groups) * len(part.published)
        losses = each(partial(_rounded, part), part.published, cells)
        for name, (by_exact, by_round) in zip(part.published, losses, strict=True):
            exact[name] = by_exact
            shown = shows.get(name, "range") in ("range", "bounds")
            rounded[name] = by_round if shown else by_exact
    lost = sum(exact.values())
    more = {
        name: rounded[name] / exact[name] - 1 for name in exact if rounded[name] > exact[name] > 0
    }
    return {"more": sum(rounded.values()) / lost - 1, "columns": more} if lost else None


def _rounded(part: Solution, name: str) -> tuple[float, float]:
    """What is lost of a column by exact ends, and by those that are shown."""
    used = np.flatnonzero(part.sizes)
    rows, shown, shape = part.sizes[used], part.published[name], part.problem.shapes[name]
    lost = float((rows * shown.loss[shown.codes[used]]).sum())
    if not isinstance(shape, Ranges) or shape.ends is None:
        return lost, lost
    if shown.more is not None:
        return lost - shown.more, lost
    codes = part.problem.entries.column(name)
    codes = codes if part.entry is None else codes[part.entry]
    low, high = shape.spans(codes, part.groups, len(part.sizes))
    return float((rows * shape.loss(low[used], high[used])).sum()), lost


def _mean(told: Sequence[Mapping[str, Any]], name: str, cells: Array) -> float:
    return float(np.average([measures[name] for measures in told], weights=cells))


def _measures(part: Solution) -> dict[str, Callable[[], Any]]:
    problem, view, first = part.problem, part.view, part.view_of(part.problem.sets[0])
    weights = {name: problem.weight(name) for name in problem.qi}
    return {
        "ncp": lambda: certainty_penalty(view),
        "columns": lambda: column_losses(view),
        "information_loss": lambda: information_loss(view),
        "granularity": lambda: granularity(view),
        "non_uniform_entropy": lambda: non_uniform_entropy(view, problem.rows_of_values),
        "discernibility": lambda: discernibility(first),
        "weighted_discernibility_by_label": lambda: weighted_discernibility(view, weights),
        "average_class_size": lambda: average_class_size(first),
        "distribution": lambda: distribution_distances(view, held=problem.rows_of_values),
    }


def _query_errors(parts: Sequence[Solution], workload: QueryLog) -> dict[str, Any]:
    """How well the workload's selections are answered; each must lie within one part."""
    answered, errors, precision, recall = 0, [], [], []
    for part in parts:
        entries = part.problem.entries
        values = {name: entries.values_of(name) for name in part.problem.qi}
        queries = workload.replayed(values)
        if not queries:
            continue
        outcome = answer_workload(piece_view(part.problem, part), queries)
        answered += len(queries)
        errors += [answer.relative_error for answer in outcome.answers]
        precision += [a.precision for a in outcome.answers if a.precision is not None]
        recall += [a.recall for a in outcome.answers if a.recall is not None]
    return {
        "answered": answered,
        "mean_relative_error": float(np.mean(errors)) if errors else None,
        "median_relative_error": float(np.median(errors)) if errors else None,
        "precision": float(np.mean(precision)) if precision else None,
        "recall": float(np.mean(recall)) if recall else None,
    }


def risks(
    parts: Sequence[Solution], first: tuple[Array, Array, Array] | None = None
) -> tuple[Risk, ...]:
    """For each set of quasi-identifiers the risk before, with the risk after in it.

    `first` are the persons in the classes of the first set, where they were counted already.
    """
    found: list[Risk] = []
    for part in parts:
        for names in part.problem.sets:
            counted = None if found else first
            after = _risk_after(part, names, counted)
            found.append(replace(_risk_before(part, names), after=after))
    return tuple(found)


def _risk_before(part: Solution, names: tuple[str, ...]) -> Risk:
    histories, person = part.problem.histories, part.problem.person
    if histories is not None and person is not None:
        ids, _ = numbered(histories.select(names))
        # Combinations of these columns and the person are listed once, so that no pair comes twice.
        sizes = np.bincount(ids) if {*names, person} == {*histories.columns} else None
        who, rows = histories.column(person), histories.rows
        return risk_of_persons(ids, who, sizes=sizes, qi=names, rows=rows)
    classes = ClassSizes.of_counts(sizes_before(part, names))
    return risk_of_classes(classes.sizes, times=classes.classes_of_size, qi=names)


def sizes_before(part: Solution, names: tuple[str, ...]) -> Array:
    entries = part.problem.source
    if set(names) == set(entries.columns):
        return entries.row_counts
    ids, number = entries.numbered(names)
    return np.bincount(ids, weights=entries.row_counts, minlength=number).astype(np.int64)


def _risk_after(
    part: Solution, names: tuple[str, ...], counted: tuple[Array, Array, Array] | None
) -> Risk:
    if part.problem.person is not None:
        classes, who, sizes = counted or persons_in_classes(part, names)
        return risk_of_persons(classes, who, sizes=sizes, qi=names, rows=int(part.sizes.sum()))
    return risk_of_classes(part.view_of(names).class_sizes, qi=names)


def suppressed_cells(touched: Iterable[Mapping[str, Counter[str]]]) -> int:
    """Cells that show a star among the rows that remain, in all parts."""
    return sum(rows["starred"] for part in touched for rows in part.values())


def touched_rows(part: Solution, shows: Mapping[str, str]) -> dict[str, Counter[str]]:
    """By quasi-identifier the rows in which it was blurred, and those in which it was starred.

    A star is a star, whether a method leaves nothing of a cell or its tree or set ends there; but
    where a mean or median is shown in its place, it is none.
    """
    groups = len(part.sizes)

    def found(column: str) -> Counter[str]:
        starred = touched = np.zeros(groups, dtype=bool)
        if column in part.published:
            shown = part.published[column]
            values = as_text(part.problem.entries.values_of(column))
            first = values.take(pa.array(shown.order[shown.low]))
            # A range of one value does not read like that value.
            blurred = shown.blurred | ~np.asarray(same_texts(shown.labels, first))
            # More than one star where the column holds one itself.
            stars = np.asarray(
                pc.fill_null(pc.match_substring_regex(shown.labels, r"^\*+$"), False)
            )
            codes = shown.codes[:groups]
            touched, starred = blurred[codes], (stars & blurred)[codes]
            if (how := shows.get(column)) in ("mean", "median"):
                (told,) = number_columns(part, column, how).values()
                starred = touched & np.asarray(told.values.is_null())[told.codes[:groups]]
        elif column in part.starred:
            touched = starred = part.starred[column][:groups]
        rows = {"blurred": touched & ~starred, "starred": starred}
        return Counter({verb: int(part.sizes[where].sum()) for verb, where in rows.items()})

    names = part.problem.qi
    return dict(zip(names, each(found, names, groups * len(names)), strict=True))


def in_words(touched: Mapping[str, int], total: int) -> str:
    """What was done to a column, and in which share of the rows.

    Examples
    --------
    >>> in_words({"blurred": 5, "starred": 1}, 50), in_words({"starred": 0}, 50)
    ('blurred in 10% of rows, starred in 2%', 'kept')
    """
    shares = {verb: rows / max(total, 1) for verb, rows in touched.items() if rows}
    said = [f"{verb} in {percent(share)}" for verb, share in shares.items()]
    return ", ".join([f"{said[0]} of rows", *said[1:]]) if said else "kept"
