"""Anonymize a table: from the request to a verified release.

Sets of quasi-identifiers without a common column are anonymized one by one: each blurs only its own
columns, so neither pays for the other. Only where nothing else is possible sets are solved as their
union: whatever holds for the classes of a union holds for the classes of each of its parts, since
those are unions of classes and all models are monotone. The result says how it was.

What a plain table does not need lies beside: tables that are solved in parts (`in_parts`), sets
that share columns (`several_sets`), and groups of an earlier release (`earlier_groups`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack
from weakref import WeakKeyDictionary

import numpy as np

from sfumato.anonymization.preparing import (
    prepare,
    refuse_named,
    with_people,
    without_names,
    without_people,
)
from sfumato.anonymization.problem import (
    KeptGroups,
    Problem,
    Solution,
    grouped,
    largest_sets,
    lifted,
    nothing_left,
    only,
    releasable,
)
from sfumato.anonymization.registry import METHODS
from sfumato.anonymization.releasing import release_of
from sfumato.anonymization.request import Request, RequestFields
from sfumato.budget import Budget, within_budget
from sfumato.engines.memory import MemoryEngine
from sfumato.engines.protocol import TEXT_COPIES, VALUE_BYTES, Engine, asks_sql, one_moment
from sfumato.errors import PromiseError, spell
from sfumato.fields import declares
from sfumato.files import names_same
from sfumato.privacy import compares
from sfumato.release import Release, publish, rehearse
from sfumato.release.certificate import certificate_path, check_place
from sfumato.tables import Table, table
from sfumato.tables.open import refuse_too_wide, roomy
from sfumato.tables.source import is_pandas, is_polars
from sfumato.wording import counted

if TYPE_CHECKING:
    from sfumato.anonymization.parting import Whole


SOLVED_CELL_BYTES = 56
"""What a cell takes in memory until a release is written and verified, measured."""
PSEUDONYM_BYTES = 64
"""What a pseudonym takes beside the value that it stands for."""
FEW_VALUES = 1_000
"""Values of a text up to which labels that list them are counted by combinations."""


@declares(RequestFields)
@within_budget
def anonymize(
    source: Any,
    *,
    config: str | Path | Request | None = None,
    output: str | Path | None = None,
    format: str | None = None,
    force: bool = False,
    sign: str | Path | None = None,
    author: str | None = None,
    spreadsheet_safe: bool = False,
    budget: Budget | None = None,
    **asked: Unpack[RequestFields],
) -> Release:
    """Blur or star as little as possible so that the privacy asked for provably holds.

    Parameters
    ----------
    source
        Anything `sfumato.table` opens.
    config
        A TOML file with the parameters below, or the certificate of an earlier release; what is
        given here comes before it.
    output, format, force
        Write the release there, in this format, replacing what is there; without `output` it is
        only rehearsed.
    sign
        The key file that signs the certificate, as `sfumato keygen` made it.
    author
        Whom the certificate names as its author; nobody unless given.
    spreadsheet_safe
        Put an apostrophe before cells that a spreadsheet would run.
    budget
        Time, memory and cores the search may take.

    Examples
    --------
    >>> import pyarrow as pa, sfumato as sf
    >>> people = pa.table({"age": [21, 22, 35, 36], "sex": ["F", "F", "M", "M"]})
    >>> release = sf.anonymize(people, qi=["age", "sex"], k=2)
    >>> release.k, release.table.sample(4).column("age").to_pylist()
    (2, ['[20, 23)', '[20, 23)', '[34, 37)', '[34, 37)'])
    """
    start = Request.starting(config, asked.get("like"), asked.get("recoding"))
    request = start.overridden(asked)
    budget = budget or Budget()
    reading: dict[str, Any] = {}
    if request.parse and not isinstance(source, Table):
        reading = {"parse": request.parse, "unparsed": request.unparsed}
    opened = table(source, budget=budget, **reading)
    with one_moment(opened.engine):
        request = request.opened(opened, budget)
        opened = _with_room(opened, request, budget)
        if output is not None and isinstance(opened.engine, MemoryEngine):
            opened.engine.expect_fingerprint()
        refuse_too_wide(opened, budget, writing=True)
        if budget.memory is not None:
            from sfumato.anonymization.in_parts import refuse_too_large

            refuse_too_large(opened, request, budget, budget.memory)
        if asks_sql(opened.engine) and opened.rows > WORTH_COUNTING:
            from sfumato.anonymization.in_parts import moved

            engine, names = opened.engine, moved(opened, request, budget)
            engine.count_values(opened.columns, request.seed, budget, names)
        check_place(
            opened,
            output,
            format=format,
            force=force,
            sign=sign,
            spreadsheet_safe=spreadsheet_safe,
            budget=budget,
        )
        named = refuse_named(opened, request, budget)
        if request.parts is not None or not opened.engine.capabilities.coded:
            from sfumato.anonymization.in_parts import release_in_parts

            release = release_in_parts(opened, request, named, budget)
        else:
            solved = solve(opened, request, budget)
            release = release_of(opened, request, solved, named, postpone=budget.memory is None)
            del solved
        if is_pandas(source):
            touched = [name for name, action in release.column_actions.items() if action != "kept"]
            release = replace(release, frame=without_names(source, touched, request.seed))
        elif is_polars(source):
            release = replace(release, frame=source)
        if output is None:
            return rehearse(release, budget=budget)
        told = (*release.warnings, *earlier_releases(opened, output))
        return publish(
            replace(release, warnings=told),
            output,
            format=format,
            force=force,
            sign=sign,
            author=author,
            spreadsheet_safe=spreadsheet_safe,
            budget=budget,
        )


def _with_room(opened: Table, request: Request, budget: Budget) -> Table:
    """The table, out of core where a solution of all of its rows would not fit the memory."""
    read = len(request.qi_columns) + len(request.sensitive) + (1 if request.person is None else 3)
    row = SOLVED_CELL_BYTES * read + text_bytes(opened, request, budget)
    held = pseudonym_bytes(opened, request, budget)
    return roomy(opened, row * rows_and_people(opened, request) + held, budget)


def rows_and_people(opened: Table, request: Request) -> int:
    """Rows that are solved: those of the table, and of a population in which people are found."""
    return opened.rows + (0 if request.population is None else request.population.rows)


def pseudonym_bytes(opened: Table, request: Request, budget: Budget) -> int:
    """What values take under a limit that are replaced as a whole: they are numbered and joined."""
    engine, held = opened.engine, 0.0
    if budget.memory is None or not (engine.capabilities.coded or asks_sql(engine)):
        return 0
    for name in request.replaced:
        values = opened.class_sizes([name], budget=budget).classes
        letters = 0.0
        if opened.column(name).kind == "text":
            letters = _letters(opened, name, values)
        held += values * (VALUE_BYTES + PSEUDONYM_BYTES + TEXT_COPIES * letters)
    return int(held)


def text_bytes(opened: Table, request: Request, budget: Budget) -> int:
    """What the texts of a row take under a limit, besides its cells: values and their labels.

    A class shows as many values as it has rows, at most. Of few values it shows as many as it has
    combinations, and the short ones are among what cells take.
    """
    rows, held, few = max(opened.rows, 1), 0.0, 0.0
    for values, letters in listed_texts(opened, request, budget).values():
        labels = TEXT_COPIES * (letters + len(", "))
        if values > FEW_VALUES:
            held += VALUE_BYTES * values / rows + labels
        elif request.chosen.blurs and not request.infers_trees:
            few += max(0.0, labels - SOLVED_CELL_BYTES)
    if few:
        held += few * _differing(opened, request.qi_columns, request.seed, budget)
    return int(held)


def _differing(opened: Table, columns: tuple[str, ...], seed: int, budget: Budget) -> float:
    """About how many combinations of columns there are for a row."""
    known = _shares.setdefault(opened.engine, {})
    if columns not in known:
        from sfumato.anonymization.in_parts import combinations

        if opened.engine.capabilities.coded:
            number = opened.class_sizes(columns, budget=budget).classes
        else:
            number = combinations(opened, columns, seed, budget)
        known[columns] = min(1.0, number / max(opened.rows, 1))
    return known[columns]


_shares: WeakKeyDictionary[Engine, dict[tuple[str, ...], float]] = WeakKeyDictionary()


def listed_texts(opened: Table, request: Request, budget: Budget) -> dict[str, tuple[int, float]]:
    """Texts that are listed in cells, under a limit: how many values they have, and how long."""
    engine, found = opened.engine, {}
    if budget.memory is None or not (engine.capabilities.coded or asks_sql(engine)):
        return {}
    for name in request.qi_columns:
        if opened.column(name).kind != "text" or name in request.trees:
            continue
        values = opened.class_sizes([name], budget=budget).classes
        found[name] = values, _letters(opened, name, values)
    return found


def _letters(opened: Table, name: str, values: int) -> float:
    """How long a value of a text is on average."""
    engine = opened.engine
    if not asks_sql(engine):
        return float(opened.values(name).values[0].nbytes / max(values, 1))
    lengths = engine.value_bytes if values > FEW_VALUES else engine.text_bytes
    return lengths([name])[name]


def earlier_releases(opened: Table, output: str | Path) -> tuple[str, ...]:
    """A warning where the folder of an output already holds releases of the same table."""
    beside = certificate_path(output)
    others, mine = [], ""  # it may take a pass over all rows: once, where there are others
    for place in sorted(beside.parent.glob("*.certificate.json")):
        if place == beside:
            continue
        try:
            record = json.loads(place.read_text(encoding="utf-8"))
            theirs = record["input"]["fingerprint"]
            mine = mine or opened.fingerprint()
            if names_same(theirs, mine):
                others.append(place.name.removesuffix(".certificate.json"))
        except (OSError, ValueError, KeyError, TypeError):
            continue  # not one of ours
    if not others:
        return ()
    return (
        f"this folder already holds a release of the same table ({', '.join(others)}): whoever has "
        "both can join them; check their combination with `sfumato verify --with`",
    )


WORTH_COUNTING = 200_000
"""Rows from which on a look at some of them tells which columns are counted together."""
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
    from sfumato.anonymization.linkable import require_countable, solve_linkable

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
        from sfumato.anonymization.earlier_groups import keep_groups

        stars = request.method == "cells"
        return keep_groups(problem, request.recoding, request.trees, solve, stars=stars)
    if len(sets) == 1:
        return solve(problem)
    from sfumato.anonymization.several_sets import shared_columns, solve_apart

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
    if not problem.limits:
        return
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
