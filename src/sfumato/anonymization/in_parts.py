"""Solve a table in parts, where its combinations do not fit one machine.

1. **Plan.** A seeded sample and the values of each column give a coarse tree of cuts, Mondrian's
   first levels: each part expects so many rows that a worker can hold them, and far more than k.
2. **Count.** One pass counts the rows of each part, and what each holds of the sensitive columns.
   Parts that do not satisfy the rules by themselves are merged with their neighbours.
3. **Solve.** The rows of a part go to one worker, any method solves them in the codes, shapes and
   rules of the whole table, and its new cells are written at once.
4. **Verify** by other code, as ever: what holds in every part holds in the whole, because all
   models are monotone; what compares classes with the released rows is measured on those.

The same seed gives the same parts and the same release, whatever the number of workers.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.anonymization.actions import pseudonym_step
from sfumato.anonymization.methods import mondrian
from sfumato.anonymization.numbers_as import WORDS, as_read, bound_names, type_of_bounds
from sfumato.anonymization.parting import (
    DealtPopulation,
    PartCosts,
    Whole,
    costs_of_parts,
    database,
    indices,
    merged,
    merged_into,
    others_of,
    plan_parts,
)
from sfumato.anonymization.persons import entries_of_persons
from sfumato.anonymization.preparing import of_type, prepare, require_people
from sfumato.anonymization.problem import Problem, Solution, nothing_left
from sfumato.anonymization.releasing import (
    all_actions,
    as_released,
    far_ends,
    label_warnings,
    promises_of,
    release_of,
    require_new_names,
    step_of,
    touched_rows,
)
from sfumato.anonymization.request import Request
from sfumato.anonymization.verb import (
    FEW_VALUES,
    components,
    listed_texts,
    pseudonym_bytes,
    released,
    rows_and_people,
    solve,
    stay_within,
    text_bytes,
)
from sfumato.budget import PROGRAM_MEMORY, Budget, each, limited, usable_threads
from sfumato.engines.encoding import codes_among, codes_of_table
from sfumato.engines.memory import MemoryEngine
from sfumato.engines.private_folder import PrivateFolder
from sfumato.engines.protocol import (
    CELL_BYTES,
    ENOUGH_BYTES,
    TEXT_COPIES,
    ClassSizes,
    Codes,
    asks_sql,
)
from sfumato.engines.recoding import Others, Parted, Parting, Recoding, Worked
from sfumato.errors import EngineError, ParameterError, spell
from sfumato.hierarchy import Published
from sfumato.hierarchy.tree import Array
from sfumato.kernels import group_distinct, group_rows, size_histogram
from sfumato.privacy import Rules, with_crowd
from sfumato.privacy.check import Risk
from sfumato.release import Release
from sfumato.tables import Table
from sfumato.tables.columnar import ArrowSource
from sfumato.utility import certainty_penalty

if TYPE_CHECKING:
    from sfumato.engines.sql_engine import SQLEngine


WORKER_BYTES = 1 << 28
"""Memory without which one part more is not worked on at the same time."""
LEAST_OF_PARTS = 384 << 20
"""Memory that is needed to solve a table in parts, however small they are."""
PART_ROWS = 500_000
"""Rows of a part at most, whatever the memory."""
SAMPLE_ROWS = 100_000
"""Rows that the cuts are planned from."""
WORTH_JOINING = 0.25
"""Share of combinations among rows up to which joining a recoding beats moving rows."""
MOST_SENT = 1 << 20
"""People of a population that is elsewhere who are sent to where parts are solved."""
FEWEST_MOVED = 2_048
"""Rows that a database moves at a time, however long they are."""
_TELLING = 10
"""Sampled rows of a class that tell how many rows it has."""
LEAST_ROWS = 4
"""A part expects at least so many times k rows."""
FEWEST_ROWS = 100
"""Rows that parts have on average at least, however many are asked for: each takes 20 ms anyway."""


def parts_for(table: Table, request: Request, budget: Budget) -> int | None:
    """In how many parts a request is to be solved; None where it is solved as a whole.

    A database would join rows with their combinations. Once nearly every row is a combination of
    its own, rows are moved instead: as one part if they fit.
    """
    able = table.engine.capabilities
    if request.parts is not None:
        _refuse_what_is_whole(table, request)
        rows, parts = rows_and_people(table, request), int(request.parts)
        if budget.memory is not None and not able.coded:  # more where larger ones would not fit
            parts = max(parts, -(-rows // _most_rows(table, request, budget)))
        return min(parts, max(1, rows // FEWEST_ROWS))
    if _whole_because(table, request) is not None or not able.replayable:
        return None
    rows, row = rows_and_people(table, request), _bytes_a_row(table, request, budget)
    memory = budget.memory or ENOUGH_BYTES
    columns = (*request.qi_columns, *request.sensitive)
    held = pseudonym_bytes(table, request, budget)
    if rows * row + held <= memory // 8:
        return None
    asked = [(table, columns)]
    if request.population is not None:
        asked.append((request.population, request.qi_columns))

    def fits(number: int) -> bool:
        size = number * row + held
        return size <= memory and budget.holds(size)

    # values of columns are not counted elsewhere for this: rows would be moved in any case
    number = _about(asked, request.seed, budget, lambda n: able.remote or fits(n))
    if fits(number) and (number <= WORTH_JOINING * rows or not able.remote):
        return None
    if not able.remote:
        _refuse_too_little(table, budget)
    _refuse_long_labels(table, request, budget)
    return _power_of_two(-(-rows // _most_rows(table, request, budget)))


def moved(table: Table, request: Request, budget: Budget) -> tuple[str, ...]:
    """Columns that come here, row by row, to be solved in parts; none where rows stay."""
    able = table.engine.capabilities
    if not able.remote or able.runs_work or parts_for(table, request, budget) is None:
        return ()
    return tuple(name for name in table.columns if name not in request.dropped)


def refuse_too_large(table: Table, request: Request, budget: Budget, memory: int) -> None:
    """Refuse what is solved as a whole and would not fit the memory, before it starts."""
    reason = _whole_because(table, request)
    if reason is None:
        return
    columns = (*request.qi_columns, *request.sensitive)
    asked = [(table, columns if request.person is None else (*columns, request.person))]
    if request.population is not None:
        asked.append((request.population, request.qi_columns))
    asked = [(one, names) for one, names in asked if one.engine.capabilities.replayable]
    row = CELL_BYTES * (len(asked[0][1]) + 1) if asked else 0
    held = pseudonym_bytes(table, request, budget)
    if budget.holds(row * sum(one.rows for one, _ in asked) + held):
        return
    needed = held + row * _about(
        asked, request.seed, budget, lambda n: budget.holds(row * n + held)
    )
    if not budget.holds(needed):
        raise EngineError(
            f"this takes about {(needed + PROGRAM_MEMORY) >> 20:,} MiB, more than the "
            f"{memory >> 20:,} MiB allowed, and cannot be solved in parts: {reason}",
            where=table.name,
            remedy=f"Allow more memory (e.g. {spell('memory', '4GB')}), or choose fewer "
            "quasi-identifiers.",
        )


def _refuse_too_little(table: Table, budget: Budget) -> None:
    """Refuse a limit that parts, which are read, solved and written one by one, would exceed."""
    if budget.memory is not None and budget.memory < LEAST_OF_PARTS:
        raise EngineError(
            f"the table does not fit into {budget.memory >> 20:,} MiB as a whole, and solving it "
            f"in parts takes at least {LEAST_OF_PARTS >> 20:,} MiB",
            where=table.name,
            remedy=f"Allow more memory (e.g. {spell('memory', '512MB')}).",
        )


def _refuse_large_parts(
    table: Table, request: Request, sample: pa.Table, parting: Parting, budget: Budget
) -> None:
    """Refuse a table of which so many rows are alike that a part of it does not fit."""
    sizes = np.bincount(parting.of(codes_of_table(sample.select(list(request.qi_columns)))))
    rows = int(table.rows * sizes.max(initial=0) / max(sample.num_rows, 1))
    row = _bytes_a_row(table, request, budget)
    if rows > 2 * _most_rows(table, request, budget) and not budget.holds(rows * row):
        raise EngineError(
            f"a part of the table has about {rows:,} rows, and takes about "
            f"{(rows * row + PROGRAM_MEMORY) >> 20:,} MiB",
            where=table.name,
            remedy=f"Allow more memory (e.g. {spell('memory', '4GB')}).",
        )


def _refuse_long_labels(table: Table, request: Request, budget: Budget) -> None:
    """Refuse texts that classes of `lattice` would list by thousands in every row.

    It shows texts as they are or all that a class has, and rows that agree in all else are of one.
    """
    if budget.memory is None or request.method != "lattice":
        return
    texts = {
        name: (values, letters)
        for name, (values, letters) in listed_texts(table, request, budget).items()
        if values > FEW_VALUES
    }
    others = [name for name in request.qi_columns if name not in texts]
    for name, (values, letters) in texts.items():
        listed = min(values, _listed(table, name, others, request.seed, budget))
        if listed * (letters + len(", ")) * FEWEST_MOVED > budget.memory // 8:
            raise EngineError(
                f"cells of `{name}` would list about {listed:,} texts each, too many to be held "
                f"in {budget.memory >> 20:,} MiB",
                where=table.name,
                remedy=f"Give a hierarchy of them, leave out the column, choose "
                f"{spell('method', 'mondrian')}, or allow more memory (e.g. "
                f"{spell('memory', '4GB')}).",
            )


def _listed(table: Table, name: str, others: Sequence[str], seed: int, budget: Budget) -> int:
    """About how many values of a column the largest class has of which rows agree in all else.

    Of a class that the sample hardly knows, as many as there are rows for one.
    """
    sample = _looked_at(table, (*others, name), seed, budget)
    ids, number = sample.numbered(others)
    sizes = np.bincount(ids, minlength=number)
    within = sample.arrays[-1][ids == sizes.argmax()]
    if len(within) < _TELLING:
        return int(table.rows // max(combinations(table, others, seed, budget), 1))
    known = np.bincount(within)
    more = len(within) * (table.rows / sample.rows - 1)
    return int(np.count_nonzero(known) + more * np.count_nonzero(known == 1) / len(within))


def _power_of_two(parts: int) -> int:
    """At least so many parts, made by halving: Mondrian halves, and would end in other groups."""
    return 1 << max(0, parts - 1).bit_length()


def _bytes_a_row(table: Table, request: Request, budget: Budget) -> int:
    cells = len(request.qi_columns) + len(request.sensitive) + 1
    return CELL_BYTES * cells + text_bytes(table, request, budget)


def _workers(budget: Budget) -> int:
    """Parts that are solved at the same time: as many as there are cores and memory for."""
    most = (budget.memory or ENOUGH_BYTES) // WORKER_BYTES
    return max(1, min(usable_threads(budget.threads), most))


def _most_rows(table: Table, request: Request, budget: Budget) -> int:
    """Rows that a worker can hold; most of the memory is for what brings and writes them."""
    memory = (budget.memory or ENOUGH_BYTES) // 4 // _workers(budget)
    row, labels = _bytes_a_row(table, request, budget), text_bytes(table, request, budget)
    row += labels  # those of a part are written out row by row
    if budget.memory is not None and asks_sql(table.engine) and table.engine.capabilities.remote:
        names = [name for name in table.columns if name not in request.dropped]
        moved = TEXT_COPIES * int(sum(table.engine.text_bytes(names).values()))
        row = row + moved if labels else max(row, moved)
    return min(PART_ROWS, max(1000, memory // row))


def _whole_because(table: Table, request: Request) -> str | None:
    """Why a request is solved as a whole; None where it can be solved in parts."""
    if request.population is not None:
        if not request.population.engine.capabilities.replayable:
            return "the people of the population pass by once"
        if _too_far(table, request.population):
            return (
                f"the population has {request.population.rows:,} people, and where the table is "
                f"at most {MOST_SENT:,} are sent"
            )
    if request.linkable:
        return "histories are looked at as a whole"
    if request.shift_dates:
        return "dates are moved before the table is cut"
    if request.person is not None and any(name in request.actions for name in request.sensitive):
        return "persons are counted after actions on sensitive columns"
    if request.chosen.judges_sets:
        return f"method `{request.method}` treats the whole table alike"
    if request.missing != "value":
        return "rows with missing values are looked at together"
    if request.recoding is not None:
        return "groups of an earlier release are kept for the whole table"
    return None


def _too_far(table: Table, population: Table) -> bool:
    """Whether parts are solved where a population neither is nor is sent to."""
    engine = table.engine
    if not (asks_sql(engine) and engine.capabilities.runs_work):
        return False
    return not engine.shares(population.engine) and population.rows > MOST_SENT


def _refuse_what_is_whole(table: Table, request: Request) -> None:
    if request.parts < 1:
        raise ParameterError(f"parts = {request.parts} is not possible", remedy="Give 1 or more.")
    reason = _whole_because(table, request)
    if reason is not None:
        raise ParameterError(
            f"this cannot be solved in parts: {reason}",
            remedy="Open the population in the session that the table is in, or leave out "
            f"{spell('parts', request.parts)}."
            if request.population is not None and _too_far(table, request.population)
            else f"Leave out {spell('parts', request.parts)}.",
        )


def _about(
    asked: Sequence[tuple[Table, Sequence[str]]],
    seed: int,
    budget: Budget,
    fits: Callable[[int], bool],
) -> int:
    """About how many combinations tables have; if so many do not fit, no more than values allow."""
    about = [combinations(one, names, seed, budget) for one, names in asked]
    if not fits(sum(about)):
        about = list(map(min, about, (_at_most(one, names, budget) for one, names in asked)))
    return sum(about)


def combinations(table: Table, columns: Sequence[str], seed: int, budget: Budget) -> int:
    """About how many combinations there are, from a sample.

    The share of a sample's rows that are alone in it is the chance that the next row shows a
    combination not seen yet (Good 1953); the more rows were seen, the smaller that chance.
    """
    sample = _looked_at(table, columns, seed, budget)
    sizes = ClassSizes(*size_histogram(sample.arrays, sample.cardinalities, entries=sample.entries))
    return int(sizes.classes + (table.rows - sample.rows) * sizes.unique)


def _looked_at(table: Table, columns: Sequence[str], seed: int, budget: Budget) -> Codes:
    """So many rows as tell how many combinations there are, or fewer where they are long."""
    names, rows = tuple(dict.fromkeys(columns)), 20_000
    if asks_sql(table.engine):
        rows = table.engine.fitting(rows, names, budget)
    return codes_of_table(table.sample(rows, names, seed))


def _at_most(table: Table, columns: Sequence[str], budget: Budget) -> int:
    """As many combinations as the values of the columns could have."""
    return math.prod(table.class_sizes([name], budget=budget).classes for name in set(columns))


@dataclass(frozen=True, eq=False)
class PartSolver:
    """Solves the rows of one part, wherever it is called; see `Parted.work`."""

    request: Request
    whole: Whole
    seconds: float | None = None
    memory: int | None = None
    crowd: DealtPopulation | None = None
    folder: PrivateFolder | None = None
    """Where the people are, for as long as they are needed."""

    @limited(1)
    def __call__(self, rows: pa.Table, people: pa.Table | None = None) -> Worked:
        """New cells of the rows, in their order; other parts have the other cores.

        The people of a population come along, or are where the crowd is.
        """
        budget = Budget(seconds=self.seconds, memory=self.memory, threads=1)
        whole = self.whole
        if self.crowd is not None:
            people = self.crowd.beside(rows)
        if people is not None:
            whole = replace(whole, people=codes_of_table(people))
        rows = self._changed(rows)
        engine = MemoryEngine(ArrowSource(rows, "a part of the table"), threads=1)
        table = Table(engine)
        request = self.request
        solutions = solve(table, request, budget, whole)
        steps = [step_of(solution, request) for solution in solutions]
        written = {name for step in steps for name in step.cells}
        if request.key is not None:
            steps += [pseudonym_step(table, n, request.key_of(n)) for n in request.replaced]
        cells, keep = engine.recoded(Recoding(tuple(steps)))
        for name in self.whole.changed:
            if name not in written:
                cells = cells.append_column(name, rows.column(name))
        if request.person is not None:
            cells = cells.append_column(request.person, rows.column(request.person))
        read = [as_read(solution, request.shows) for solution in solutions]
        touched = [touched_rows(solution, request.shows) for solution in solutions]
        costs = PartCosts.of(read, whole, touched, request.shows)
        counts = {n: rows for n, rows in self.whole.counts.items() if n not in self.whole.open}
        warned = [*label_warnings(solutions), *far_ends(solutions, request, counts)]
        told = {
            "costs": costs,
            "rows": rows.num_rows,
            "stopped_by": next((s.stopped_by for s in solutions if s.stopped_by), None),
            "warnings": [*warned, *(w for s in solutions for w in s.warnings)],
        }
        return Worked(cells, keep, pickle.dumps(told))

    def _changed(self, rows: pa.Table) -> pa.Table:
        """The rows with the values that actions give them."""
        for name, (old, new) in self.whole.changed.items():
            own = codes_of_table(rows.select([name]))
            taken = codes_among(own.values[0], old)[own.arrays[0]]
            at = rows.column_names.index(name)
            rows = rows.set_column(at, name, new.take(indices(taken)))
        return rows


def release_in_parts(
    table: Table, request: Request, named: Sequence[str], budget: Budget
) -> Release:
    """The release of a table that may be solved in parts, not yet written; `named` are warnings."""
    parts = parts_for(table, request, budget)
    if parts is None:
        return release_of(table, request, solve(table, request, budget), named)
    if table.engine.capabilities.coded:
        return release_of(table, request, solve_in_parts(table, request, parts, budget), named)
    release = planned_in_parts(table, request, parts, budget)
    return replace(release, warnings=(*named, *release.warnings))


def planned_in_parts(table: Table, request: Request, parts: int, budget: Budget) -> Release:
    """The release of a table that is solved part by part while it is written, not yet written."""
    whole = Whole.of(table, request, budget)
    budget.progress("planning parts")
    most = min(SAMPLE_ROWS, _most_rows(table, request, budget))
    drawn = database(table).fitting(most, request.qi_columns, budget)
    sample, least = _sampled(table, request, whole, drawn)
    listed = database(table).most_cuts(request.qi_columns)
    parting = plan_parts(sample, whole, request, parts, least, listed)
    _refuse_large_parts(table, request, sample, parting, budget)
    crowd, folder, others, people = None, None, None, None
    if request.population is not None and table.engine.capabilities.runs_work:
        others = others_of(request, table)
        people = _others_of_parts(database(table), parting, others, budget)
    elif request.population is not None:
        budget.progress("dealing the population to parts")
        folder = PrivateFolder()
        crowd = DealtPopulation.of(request, table, parting, folder.path / "people.arrow")
        people = crowd.counts
    parting, into = _checked(database(table), parting, request, whole, budget, people)
    if crowd is not None:
        crowd = replace(crowd, into=into)
    workers = min(_workers(budget), parting.parts)
    seconds = None
    if budget.seconds is not None:
        seconds = budget.remaining * workers / parting.parts
    reads = _reads(table, request)
    values = {name: value for name, value in request.values.items() if name != "population"}
    own = replace(request, asked={}, values=values)
    # as much as its rows take (see `_most_rows`) may a part take beside them
    memory = None if budget.memory is None else budget.memory // 2 // workers
    solver = PartSolver(own, whole, seconds, memory)
    written = _written(table, solver, reads)
    solver = replace(solver, crowd=crowd, folder=folder)
    hidden = [c.name for c in table.engine.schema() if c.name not in table.columns]
    drop = (*request.dropped, *hidden)
    parted, qi = as_released(request, written)
    require_new_names(set(written) - set(reads), table.columns, table.name)
    planned = {
        "parts": parting.parts,
        "parts_asked": request.parts or parts,
        "sample": sample.num_rows,
        **_cut_cost(sample, parting, request, whole),
    }
    cut = frozenset(one.column for one in parting.cuts)
    moves = request.sort or whole.persons is not None
    told = _Told(request, whole, planned, tuple(table.columns), whole.inferred, cut)
    recoding = Parted(
        parting,
        reads,
        written,
        solver,
        (*drop, *parted),
        workers,
        request.person,
        moves or (not table.engine.capabilities.ordered and _wide(request)),
        told,
        others,
    )
    return Release(
        method=request.method,
        asked=request.asked,
        qi=qi,
        rows=whole.rows,
        promises=promises_of(request, qi, drop),
        seed=request.seed,
        source=table,
        mapping=recoding,
    )


def _wide(request: Request) -> bool:
    """Whether cells may cover values beyond their part, which rows that stay in it would tell."""
    given = request.hierarchies is not None or request.boundaries is not None
    return given or request.method == "cells"


def solve_in_parts(table: Table, request: Request, parts: int, budget: Budget) -> list[Solution]:
    """Solve a request on rows that are held here, part by part on all cores."""
    whole = Whole.of(table, request, budget)
    sample, least = _sampled(table, request, whole, SAMPLE_ROWS)

    def in_parts(one: tuple[tuple[str, ...], ...]) -> Solution:
        parting = plan_parts(sample, whole, request.about(one), parts, least)
        solution, into = _in_parts(table, request, one, parting, budget)
        told = {
            **solution.details["in_parts"],
            "parts_asked": request.parts or parts,
            "sample": sample.num_rows,
            **_cut_cost(sample, merged(parting, into), request, whole),
        }
        return replace(solution, details={"in_parts": told})

    sets = components(request.qi)
    solved = [in_parts(one) for one in sets]
    if len(sets) > 1 and any((one.groups < 0).any() for one in solved):
        solved = [in_parts(request.qi)]
    return solved


def _sampled(table: Table, request: Request, whole: Whole, drawn: int) -> tuple[pa.Table, int]:
    """Rows that the cuts are planned from, and how many of them a part must have.

    Of a population as many of its people are among them as of the table's rows.
    """
    k, population = whole.rules.k, request.population
    if population is None:
        sample = table.sample(drawn, request.qi_columns, request.seed)
        return sample, int(np.ceil(LEAST_ROWS * k * sample.num_rows / max(whole.rows, 1)))
    require_people(request)
    share = min(1.0, drawn / max(whole.rows + population.rows, 1))
    rows, people = (
        one.sample(int(np.ceil(share * one.rows)), request.qi_columns, request.seed)
        for one in (table, population)
    )
    alike = [
        of_type(people.column(name).combine_chunks(), table.column(name).type, name)
        for name in request.qi_columns
    ]
    both = pa.concat_tables([rows, pa.table(alike, schema=rows.schema)])
    return both, int(np.ceil(LEAST_ROWS * max(k, request.k_map or 0) * share))


def _in_parts(
    table: Table,
    request: Request,
    sets: tuple[tuple[str, ...], ...],
    parting: Parting,
    budget: Budget,
) -> tuple[Solution, Array]:
    """The solution of some sets of quasi-identifiers, put together from those of parts.

    And for each part what it became.
    """
    about = request.about(sets)
    problem = prepare(table, about, budget)
    part, people, into = _satisfying(problem, parting, request.k_map)
    number = int(into.max()) + 1
    entries, crowds = (_of_parts(numbers, number) for numbers in (part, people))
    budget.progress("solving parts")

    def solved(at: int) -> Solution:
        chosen = entries[at]
        inside = replace(
            problem,
            entries=problem.entries.take(chosen),
            apart=None if problem.apart is None else problem.apart[chosen],
            crowd=None if problem.crowd is None else problem.crowd.take(crowds[at]),
            part=True,
        )
        return released(inside, about)

    solutions = each(solved, range(number), problem.entries.entries, _workers(budget))
    whole = _together(problem, solutions, entries)
    sizes = np.bincount(part, weights=problem.counts, minlength=number)
    told = {"parts": number, "rows": [int(sizes.min()), int(sizes.max())]}
    stay_within(problem, whole, request.method)
    if problem.rows and not (whole.groups >= 0).any():
        raise nothing_left(problem, request.models)
    return replace(whole, details={"in_parts": told}, solves=replace(problem, sets=sets)), into


def _of_parts(part: Array, number: int) -> list[Array]:
    """What lies in each part."""
    order, starts = group_rows(part.astype(np.uint32), number)
    return [order[begin:end] for begin, end in pairwise(starts)]


def _satisfying(
    problem: Problem, parting: Parting, k_map: int | None
) -> tuple[Array, Array, Array]:
    """The part of each entry and of each person of a population, and what each part became.

    All of them satisfy the rules.
    """
    first = problem.source
    part = parting.of(first)
    if problem.merged is not None:
        merged = np.zeros(problem.entries.entries, dtype=np.int64)
        merged[problem.merged.into[::-1]] = part[::-1]
        part = merged
    rules, persons = problem.rules, problem.person is not None
    if persons:
        counts = _persons_of_parts(problem, part, parting.parts)
    else:
        counts = np.zeros((parting.parts, 1 + int(rules.offsets[-1])), dtype=np.int64)
        np.add.at(counts[:, 0], part, problem.counts)
        for name, offset in zip(problem.sensitive, rules.offsets, strict=False):
            np.add.at(counts, (part, 1 + offset + problem.entries.column(name)), problem.counts)

    people = np.zeros(0, dtype=np.int64)
    if problem.crowd is not None:
        people = parting.of(problem.crowd)
        crowd = np.bincount(people, problem.crowd.row_counts, parting.parts).astype(np.int64)
        counts, rules = _mapped(counts, crowd, rules, k_map)
    into = merged_into(parting, counts, rules, overlapping=persons)
    return into[part], into[people], into


def _mapped(counts: Array, crowd: Array, rules: Rules, k_map: int | None) -> tuple[Array, Rules]:
    """What parts hold, and the people who lie in each of them; the rules with k-map among them."""
    people = np.stack([counts[:, 0], crowd, np.zeros_like(crowd)], axis=1)
    return np.concatenate([counts, people], axis=1), with_crowd(rules, k_map or 1)


def _persons_of_parts(problem: Problem, part: Array, parts: int) -> Array:
    """Persons of each part, and with each sensitive value, as rules count them."""
    rules = problem.rules
    counts = np.zeros((parts, 2 + rules.people), dtype=np.int64)
    entry, who = entries_of_persons(problem)
    people = int(who.max(initial=0)) + 1
    counts[:, 0] = group_distinct(part[entry].astype(np.uint32), parts, who, people)
    counts[:, -1] = counts[:, 0]
    for name, offset in zip(problem.sensitive, rules.offsets, strict=False):
        values = len(problem.entries.values_of(name))
        pair = part[entry] * values + problem.entries.column(name)[entry]
        found = group_distinct(pair.astype(np.uint32), parts * values, who, people)
        counts[:, 1 + offset : 1 + offset + values] = found.reshape(parts, values)
    return counts


def _together(
    problem: Problem, solutions: Sequence[Solution], entries: Sequence[Array]
) -> Solution:
    """One solution from those of parts, each of which is about some of the entries."""
    groups, entry, rows, begin = [], [], [], 0
    for solution, chosen in zip(solutions, entries, strict=True):
        groups.append(np.where(solution.groups < 0, -1, solution.groups + begin))
        entry.append(chosen if solution.entry is None else chosen[solution.entry])
        rows.append(problem.counts[chosen] if solution.rows is None else solution.rows)
        begin += int(solution.groups.max(initial=-1)) + 1
    pieces = any(solution.entry is not None for solution in solutions)
    whose = np.concatenate(entry)
    if pieces:
        order = np.argsort(whose, kind="stable")
    else:  # every entry is there once
        order = np.empty(len(whose), np.int64)
        order[whose] = np.arange(len(whose))
    published = {
        name: Published.joined(
            [
                replace(s.published[name], codes=_of_groups(s.published[name].codes, s))
                for s in solutions
            ]
        )
        for name in problem.qi
        if all(name in s.published for s in solutions)
    }
    starred = {
        name: np.concatenate([_of_groups(s.starred[name], s) for s in solutions])
        for name in problem.qi
        if all(name in s.starred for s in solutions)
    }
    return Solution(
        np.concatenate(groups)[order].astype(np.int32),
        published,
        starred,
        whose[order].astype(np.int64) if pieces else None,
        np.concatenate(rows)[order].astype(np.int64) if pieces else None,
        stopped_by=next((s.stopped_by for s in solutions if s.stopped_by), None),
        warnings=tuple(dict.fromkeys(w for s in solutions for w in s.warnings)),
    )


def _of_groups(per_group: Array, solution: Solution) -> Array:
    return per_group[: int(solution.groups.max(initial=-1)) + 1]


def _reads(table: Table, request: Request) -> tuple[str, ...]:
    target = () if request.target is None else (request.target,)
    read = {
        *request.qi_columns, *request.sensitive, *target, *request.actions, *request.replaced,
        *(() if request.person is None else (request.person,)),
    }  # fmt: skip
    return tuple(column.name for column in table.engine.schema() if column.name in read)


def _written(table: Table, solver: PartSolver, reads: tuple[str, ...]) -> Mapping[str, pa.DataType]:
    """Columns that parts write and their types: those of a few rows of which nothing is asked."""
    rules = solver.whole.rules
    none = np.zeros(0)
    free = rules._replace(
        k=1, kinds=none.astype(np.int64), columns=none.astype(np.int64), values=none, extras=none
    )
    few = table.sample(200, reads, solver.request.seed)
    solver = replace(solver, whole=replace(solver.whole, rules=free), seconds=1.0)
    kinds = {
        field.name: field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        for field in solver(few).cells.schema
    }
    request, values = solver.request, solver.whole.values
    if not request.exact_ends:  # single values have no ends between two of them
        for name in (name for name, how in request.shows.items() if how == "bounds"):
            for end in bound_names(name):
                if end in kinds:  # where single cells are starred there are no bounds
                    kinds[end] = type_of_bounds(kinds[end], values[name])
    return kinds


def _checked(
    engine: SQLEngine,
    parting: Parting,
    request: Request,
    whole: Whole,
    budget: Budget,
    people: Array | None = None,
) -> tuple[Parting, Array]:
    """The same without parts that do not satisfy the rules, and for each part what it became.

    One pass for each sensitive column. The people of a population in each part are counted before.
    """
    if parting.parts < 2:
        return parting, np.arange(parting.parts)
    budget.progress("counting parts")
    rules = whole.rules
    if whole.persons is not None and not request.sensitive:
        rows = engine.part_counts(parting, (), budget).column(1).to_numpy()
        if len(rows) == parting.parts and int(rows.min()) >= rules.k * whole.most:
            return parting, np.arange(parting.parts)  # as many rows are at least k persons'
    width = int(rules.offsets[-1])
    counts = np.zeros((parting.parts, 1 + width), dtype=np.int64)
    person = None if whole.persons is None else request.person
    asked: list[str | None] = [*request.sensitive]
    if person is not None or not asked:
        asked.insert(0, None)
    for name in asked:
        found = engine.part_counts(parting, () if name is None else (name,), budget, person)
        part = found.column(0).to_numpy()
        rows = found.column(found.num_columns - 1).to_numpy()
        if name is None or (name == asked[0]):
            np.add.at(counts[:, 0], part, rows)
        if name is not None:
            own = found.column(1).combine_chunks()
            values = _as_changed(own, whole, name)
            code = codes_among(values, whole.values[name])
            offset = int(rules.offsets[request.sensitive.index(name)])
            np.add.at(counts, (part, 1 + offset + code), rows)

    if people is not None:
        counts, rules = _mapped(counts, people, rules, request.k_map)
    elif person is not None:  # a share is one of persons, who count once with each value
        counts, rules = np.append(counts, counts[:, :1], axis=1), rules._replace(people=width)
    into = merged_into(parting, counts, rules, overlapping=person is not None)
    return merged(parting, into), into


def _others_of_parts(engine: SQLEngine, parting: Parting, others: Others, budget: Budget) -> Array:
    """How many others go to each part."""
    budget.progress("counting the people of parts")
    found = engine.part_counts(parting, (), budget, others=others)
    counts = np.zeros(parting.parts, dtype=np.int64)
    counts[found.column(0).to_numpy()] = found.column(1).to_numpy()
    return counts


def _as_changed(values: pa.Array, whole: Whole, name: str) -> pa.Array:
    if name not in whole.changed:
        return values
    old, new = whole.changed[name]
    return new.take(indices(codes_among(values, old)))


def _cut_cost(sample: pa.Table, parting: Parting, request: Request, whole: Whole) -> dict[str, Any]:
    """What the cuts cost: a sample's loss by Mondrian, as one and without groups across cuts."""
    if parting.parts < 2 or request.sensitive or whole.changed or len(request.qi) > 1:
        return {}
    if request.population is not None:
        return {}
    if sample.num_rows < 2 * LEAST_ROWS * parting.parts * whole.rules.k:
        return {}
    table = Table(MemoryEngine(ArrowSource(sample, "the sample"), threads=1))
    plain = replace(request, values={n: v for n, v in request.values.items() if n != "target"})
    rows = replace(whole, persons=None)  # few persons have several rows in a sample
    problem = replace(prepare(table, plain, Budget(threads=1), rows), options={}, limits={})
    as_one = mondrian.solve(problem)
    apart = mondrian.solve(replace(problem, apart=parting.of(problem.entries)))
    losses = [certainty_penalty(replace(s, solves=problem).view) for s in (as_one, apart)]
    return {"sample_loss_as_one": losses[0], "sample_loss_in_parts": losses[1]}


@dataclass(frozen=True, eq=False)
class _Told:
    """Turns the reports of parts into what is known of the release."""

    request: Request
    whole: Whole
    planned: Mapping[str, Any]
    columns: tuple[str, ...]
    inferred: Mapping[str, str] = field(default_factory=dict)
    cut: frozenset[str] = frozenset()

    def _risks(self, found: Sequence[Risk]) -> tuple[Risk, ...]:
        """By set; none, not told, where persons or classes of a set may lie in several parts."""
        sets = self.request.qi
        whole = all(self.cut <= set(names) for names in sets)
        return tuple(sorted(found, key=lambda one: sets.index(one.qi))) if whole else ()

    def __call__(self, reports: Sequence[bytes]) -> Mapping[str, Any]:
        told = [pickle.loads(report) for report in reports]
        costs = costs_of_parts([one["costs"] for one in told], self.whole)
        sizes = [one["rows"] for one in told]
        if not costs.released:
            raise ParameterError(
                "the privacy models cannot be met: every row of every part would be left out",
                remedy="Ask for less, or allow more blurring.",
            )
        left = self.whole.rows - costs.released
        details: dict[str, Any] = {
            "in_parts": {**self.planned, "rows": [min(sizes), max(sizes)]},
            "risk": self._risks(costs.risks),
        }
        if self.request.person is not None:
            details["persons"] = {
                "column": self.request.person,
                "persons": self.whole.persons or self.whole.rows,
                **({"left_out": left} if self.whole.persons is None or not left else {}),
                "sorted": self.request.sort or self.whole.persons is not None,
            }
        if self.inferred:
            details["inferred_hierarchies"] = dict(self.inferred)
        warned = dict.fromkeys(warning for one in told for warning in one["warnings"])
        done = dict(costs.actions)
        for name, how in self.request.shows.items():
            if how == "bounds" and done[name] == "kept":  # parts write both ends in any case
                done[name] = WORDS[how]
        for name in costs.apart:
            warned[
                f"the loss of `{name}` is counted within each part: others may show the same "
                "numbers, and `sfumato utility` then finds more"
            ] = None
        return {
            "suppressed_rows": left,
            "suppressed_cells": costs.suppressed_cells,
            "column_actions": all_actions(self.columns, self.request, done),
            "utility": costs.utility,
            "details": details,
            "rows": costs.released,
            "k": costs.k,
            "classes": costs.classes,
            "stopped_by": next((one["stopped_by"] for one in told if one["stopped_by"]), None),
            "warnings": tuple(warned),
        }
