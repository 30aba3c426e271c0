"""Leakage reports: what others could learn about my rows, measured at home before anything leaves.

*Of a share*: what it tells somebody who knows everything but the rows, by attacking every row.

*Of an exact fit*: what the numbers that it opens tell about this party's rows. The party fits the
model of its own rows alone, in the same way and to the same precision, and attacks what would be
opened. That is the worst case: whoever is in league with all others knows their part of every
number, and the more rows take part, the less each of them moves a rounded number. Three things are
measured. Counting: how many tables of the agreed grid have these outcomes, and how many different
answers the opened digits can spell; of all those tables no more can be told from every other than
there are answers. The same for few people who alone differ in a column: at the maximum their
residuals add up to a known number, so each coefficient is an equation about them and nobody else.
The lattice attack, for classifiers of few combinations of values: whether tables with the same
numbers exist in which other people have a combination.

In both reports the attacker knows the data's own unit where the agreed step is finer: ages are
whole numbers, whatever was agreed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from math import inf, lgamma, log, log2
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.budget import Budget, within_budget
from sfumato.errors import BudgetError, ParameterError, PromiseError
from sfumato.joint.agreement import Agreement, Category
from sfumato.joint.attack import Attacker, equal_tables, grid_attack
from sfumato.joint.linear_classifiers import Loss, row_losses
from sfumato.joint.local_data import Encoded, LocalRows, project, random_matrix, round_to
from sfumato.results import Result
from sfumato.wording import counted

if TYPE_CHECKING:
    from sfumato.joint.hidden_newton import NewtonAscent


Floats = NDArray[np.float64]
Protect = Literal["rows", "cells"]

_LOOKED_AT = 2_000
"""Attacked rows whose candidates are counted, and whose cells are looked at one by one."""
STEPS = tuple(
    sorted((float(f"{lead}e{power}") for power in range(-3, 2) for lead in (1, 2, 5)), reverse=True)
)
"""Rounding steps that are tried: 50, 20, 10, … 0.001. A finer one tells a model nothing more."""


@dataclass(frozen=True)
class Leakage(Result):
    """What a share at one rounding step gives away.

    Attributes
    ----------
    rows, attacked_rows
        Rows of the table, and how many of them were attacked: all, unless a sample was asked for.
    dimensions, rounding
        m̄ and the rounding step (0: unrounded).
    recovered_rows, recovered
        Attacked rows of which exactly one grid row is consistent with the share: number, share.
        Rows whose search was cut short without finding another are counted in.
    recovered_at_most
        Upper 95 % confidence limit for the share among all rows; equal to `recovered` when every
        row was attacked.
    unresolved_rows
        How many of `recovered_rows` were counted only because the search was cut short.
    guessed
        Expected share of rows that a uniform guess among the consistent ones gets right; measured,
        as `candidates`, on at most 2,000 of the attacked rows, drawn uniformly.
    candidates
        Median number of consistent rows (counted up to 1,000).
    pinned, pinned_rows
        Per column, share of rows whose value is certain, and on how many rows that was measured.
    certain_cells, judged_cells
        Cells whose value is certain (those of recovered rows included), of how many: all columns
        of `pinned_rows` attacked rows (all of them where cells are to be protected).
    interval
        Per encoded column, mean width of the interval that linear programming leaves, as a share
        of the agreed range (1: nothing learned); linear kernel only.
    interval_rows
        Rows on which that was measured.
    known_rows
        Rows an outsider who does not know B must know to compute it, or null if even all rows
        of the table do not suffice.
    unique_outcomes
        Share of rows alone with their published time and event (published in clear).
    """

    rows: int
    attacked_rows: int
    dimensions: int
    rounding: float
    recovered_rows: int
    recovered: float
    recovered_at_most: float
    unresolved_rows: int
    guessed: float
    candidates: float
    pinned: Mapping[str, float]
    pinned_rows: int
    certain_cells: int
    judged_cells: int
    interval: Mapping[str, float] | None = None
    interval_rows: int = 0
    known_rows: int | None = None
    unique_outcomes: float | None = None
    row_numbers: NDArray[np.int64] = field(
        default_factory=lambda: np.empty(0, np.int64), repr=False, metadata={"private": True}
    )
    row_candidates: NDArray[np.int64] = field(
        default_factory=lambda: np.empty(0, np.int64), repr=False, metadata={"private": True}
    )
    row_pinned: NDArray[np.bool_] = field(
        default_factory=lambda: np.empty((0, 0), np.bool_), repr=False, metadata={"private": True}
    )

    def by_row(self) -> list[dict[str, Any]]:
        """Row by row, for the owner's eyes: how many rows fit, and which columns are certain.

        Rows are numbered from 0 in the owner's table. Certain columns are told for the first
        `pinned_rows` rows.
        """
        names = list(self.pinned)
        told = []
        for at, (row, fits) in enumerate(zip(self.row_numbers, self.row_candidates, strict=True)):
            entry: dict[str, Any] = {"row": int(row), "candidates": int(fits)}
            if at < self.pinned_rows:
                entry["certain"] = [names[k] for k in np.flatnonzero(self.row_pinned[at])]
            told.append(entry)
        return told

    def holds(self, protect: Protect = "rows") -> bool:
        """Whether no attacked row (or no single cell) is certain."""
        if protect == "rows":
            return self.recovered_rows == 0
        return self.recovered_rows == 0 and not any(self.pinned.values())


def leakage(
    encoded: Encoded,
    agreement: Agreement,
    rounding: float,
    *,
    sample: int | None = None,
    protect: Protect = "rows",
    interval_rows: int = 20,
    seed: int = 0,
    nodes: int = 20_000,
    outcome: tuple[Floats | None, NDArray[np.bool_]] | None = None,
) -> Leakage:
    """Attack a share that is not published yet.

    Parameters
    ----------
    encoded, agreement
        The owner's rows, as agreed.
    rounding
        Step to which the published numbers would be rounded; 0 for none.
    sample
        Rows to attack, drawn uniformly; None for all.
    protect
        Look at the cells of all attacked rows if these must not be certain.
    interval_rows
        Rows on which intervals are computed, at most (two linear programs a row and column).
    outcome
        Time and event, to count rows that stand alone with theirs.

    Examples
    --------
    >>> from sfumato.joint import Number, Outcome, Projection
    >>> agreement = Agreement("s", (Number("a", 0, 9, 1), Number("b", 0, 9, 1)),
    ...     Outcome(time="t", event="e"), Projection("seed", 1))
    >>> options = np.array([[3, 4], [5, 5]])
    >>> encoded = Encoded(options / 9.0, options)
    >>> leakage(encoded, agreement, 0.0).recovered, leakage(encoded, agreement, 1.0).recovered
    (1.0, 0.0)
    """
    if rounding < 0:
        raise ParameterError("the rounding step must not be negative")
    total = len(encoded.matrix)
    picked = _sample(total, sample, seed)
    published = round_to(project(encoded.matrix[picked], agreement), rounding)
    options = encoded.options[picked]
    recovered, unresolved = recovered_rows(
        published, options, agreement, rounding, nodes, encoded.likely
    )
    every = protect == "cells"
    near = np.arange(len(picked)) if every else _sample(len(picked), _LOOKED_AT, seed)
    found = grid_attack(
        published[near], options[near], agreement, rounding, nodes=nodes, every_cell=every,
        likely=encoded.likely,
    )  # fmt: skip
    share = recovered / len(picked) if len(picked) else 0.0
    width: dict[str, float] | None = None
    measured = 0
    if agreement.projection.kernel == "linear" and interval_rows:
        # Two linear programs a cell: few rows of wide tables tell as much.
        measured = min(interval_rows, len(picked), max(1, 100 // agreement.encoded))
        widths = narrowing(published[:measured], agreement, rounding)
        means = widths.mean(axis=0) if measured else np.ones(agreement.encoded)
        width = dict(zip(agreement.encoded_names, means.tolist(), strict=True))
    return Leakage(
        rows=total,
        attacked_rows=len(picked),
        dimensions=agreement.projection.dimensions,
        rounding=rounding,
        recovered_rows=recovered,
        recovered=share,
        recovered_at_most=share if len(picked) == total else _upper(recovered, len(picked)),
        unresolved_rows=unresolved,
        guessed=float((1.0 / found.candidates).mean()) if len(near) else 0.0,
        candidates=float(np.median(found.candidates)) if len(near) else 0.0,
        pinned=dict(zip(agreement.names, found.pinned.mean(axis=0).tolist(), strict=True)),
        pinned_rows=len(found.pinned),
        certain_cells=int(found.pinned.sum()),
        judged_cells=found.pinned.size,
        interval=width,
        interval_rows=measured,
        known_rows=_rank_rows(encoded.matrix),
        unique_outcomes=None if outcome is None else _alone(*outcome),
        row_numbers=picked[near],
        row_candidates=found.candidates,
        row_pinned=found.pinned,
    )


def recovered_rows(
    published: Floats,
    options: NDArray[np.int64],
    agreement: Agreement,
    rounding: float,
    nodes: int = 20_000,
    likely: tuple[tuple[NDArray[np.int64], ...], ...] = (),
) -> tuple[int, int]:
    """How many rows are recovered, and of how many the search was cut short: counted among them.

    Most rows have a second candidate nearby, which a short search finds. Where it was cut short for
    some rows and none is recovered for certain, those are searched thoroughly: all hangs on them.
    30,000 rows of 12 columns take a second.
    """
    quick = grid_attack(
        published, options, agreement, rounding, nodes=nodes, only_recovery=True, likely=likely
    )
    left = np.flatnonzero(quick.recovered & ~quick.certain)
    recovered = int(quick.recovered.sum())
    if len(left) < recovered or not recovered:
        return recovered, len(left)
    slow = grid_attack(
        published[left], options[left], agreement, rounding, nodes=nodes, every_cell=True,
        likely=likely,
    )  # fmt: skip
    escaped = int((~slow.recovered).sum())
    return recovered - escaped, int((slow.recovered & ~slow.certain).sum())


@within_budget
def safe_rounding(
    encoded: Encoded,
    agreement: Agreement,
    *,
    protect: Protect = "rows",
    sample: int | None = None,
    seed: int = 0,
    nodes: int = 20_000,
    budget: Budget | None = None,
) -> tuple[float, dict[float, float]]:
    """The finest rounding step at which no attacked row (or cell) is certain.

    Steps are tried from coarse to fine until most rows are given away.

    Returns
    -------
    step, tried
        The step, and the share of rows recovered at each step that was tried.
    """
    if protect not in ("rows", "cells"):
        raise ParameterError("`protect` must be rows or cells")
    watch = budget or Budget()
    projected = project(encoded.matrix, agreement)
    picked = _sample(len(projected), sample, seed)
    attack = Attacker(encoded.options[picked], agreement, encoded.likely)
    tried: dict[float, float] = {}
    safe: float | None = None
    largest = float(np.abs(projected).max(initial=0.0))
    steps = [step for step in STEPS if step <= 2 * largest] or [STEPS[-1]]
    for index, step in enumerate(steps):
        if watch.spent():
            break  # what was found safe so far is safe, if coarser than need be
        watch.progress("attacking the share", index / len(steps))
        published = round_to(projected[picked], step)
        rows = protect == "rows"
        found = attack(published, step, nodes=nodes, only_recovery=rows, only_whether=not rows)
        tried[step] = float(found.recovered.mean())
        if not found.recovered.any() and (rows or not found.pinned.any()):
            safe = step
        if tried[step] >= 0.5:
            break
    if safe is None and watch.stopped_by is not None:
        raise BudgetError("no safe rounding step was found in time", remedy="Allow more time.")
    if safe is None or not np.ptp(round_to(projected, safe), axis=0).any():
        raise PromiseError(
            f"no rounding step protects {protect} and still tells rows apart",
            remedy="Lower `dimensions`, agree on coarser steps and fewer columns, or fit exactly.",
        )
    return safe, tried


def narrowing(published: Floats, agreement: Agreement, rounding: float) -> Floats:
    """Width of the interval left for each encoded cell, by linear programming.

    For every row and column: the least and the greatest value in [0, 1] among all rows of the box
    whose projection rounds to the published numbers.
    """
    from scipy import sparse
    from scipy.optimize import linprog

    chosen = agreement.projection
    b = random_matrix(chosen.seed, chosen.dimensions, agreement.encoded, chosen.matrix)
    groups: list[Floats] = []
    first = 0
    for column in agreement.columns:
        if column.width > 1:  # at most one indicator of a category is 1
            row = np.zeros(agreement.encoded)
            row[first : first + column.width] = 1.0
            groups.append(row)
        first += column.width
    above = np.concatenate([b, -b, *[row[None, :] for row in groups]])
    reach = rounding / 2.0 + 1e-9
    widths = np.ones((len(published), agreement.encoded))
    # the ends of all intervals of a row at once: programs that have nothing to do with each other
    each = np.eye(agreement.encoded)
    goals = np.concatenate([each, -each])
    programs = sparse.kron(sparse.eye_array(len(goals)), above, format="csr")
    for i, row in enumerate(published):
        limit = np.concatenate([row + reach, reach - row, np.ones(len(groups))])
        found = linprog(
            goals.ravel(),
            A_ub=programs,
            b_ub=np.tile(limit, len(goals)),
            bounds=(0.0, 1.0),
            method="highs",
        )
        if found.status == 0:
            ends = (goals * found.x.reshape(goals.shape)).sum(axis=1)
            widths[i] = np.maximum(0.0, -ends[agreement.encoded :] - ends[: agreement.encoded])
    return widths


def known_rows(matrix: Floats, published: Floats, known: int, *, seed: int = 0) -> Floats:
    """B as computed by somebody who does not know it but knows some people's rows (linear kernel).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.random((50, 4)), rng.normal(size=(3, 4))
    >>> bool(np.abs(known_rows(a, a @ b.T, 4) - b).max() < 1e-9)
    True
    """
    picked = _sample(len(matrix), known, seed)
    solved = np.linalg.lstsq(matrix[picked], published[picked], rcond=None)[0]
    return np.asarray(solved.T)


def _rank_rows(matrix: Floats) -> int | None:
    """Rows needed to compute B: as many as there are columns, if the rows span them."""
    columns = matrix.shape[1]
    some = matrix[_sample(len(matrix), 10_000, 0)]
    return columns if len(some) and np.linalg.matrix_rank(some) == columns else None


def _sample(rows: int, size: int | None, seed: int) -> NDArray[np.int64]:
    if size is not None and size < 1:
        raise ParameterError("at least one row must be attacked")
    if size is None or size >= rows:
        return np.arange(rows)
    return np.sort(np.random.default_rng(seed).choice(rows, size, replace=False))


def _upper(found: int, tried: int) -> float:
    """Exact upper 95 % confidence limit of a proportion (Clopper and Pearson)."""
    from scipy.stats import beta

    return 1.0 if found >= tried else float(beta.ppf(0.95, found + 1, tried - found))


def _alone(time: Floats | None, event: NDArray[np.bool_]) -> float:
    if not len(event):
        return 0.0
    pairs = np.column_stack((np.zeros(len(event)) if time is None else time, event))
    _, counts = np.unique(pairs, axis=0, return_counts=True)
    return float((counts == 1).sum() / len(event))


_FEW = 128
"""Combinations of values up to which the lattice attack is made."""
SPARE_BITS = 32
SPARE_GROUP_BITS = 10
"""At least a thousand groups of people must fit what a coefficient tells about one."""


@dataclass(frozen=True)
class ExactLeakage(Result):
    """What an exact fit would tell about this party's rows, at one precision.

    Attributes
    ----------
    rows, events, precision
        This party's rows, how many of them have the event (or the positive class), and how far
        coefficients may be off.
    combinations
        Different rows that the agreed grid allows, of values that somebody would guess.
    table_bits
        Binary logarithm of the number of tables of that grid which have this party's outcomes.
    opened_bits
        Binary digits of the steps and the hazard that a fit of these rows alone opens.
    attacked
        Whether the lattice attack was made: for classifiers of few combinations.
    other_tables
        Tables it found that give the same numbers.
    certain
        People whose combination of values is as frequent in all of these as it is in truth.
    group, group_column, group_bits
        The fewest people for their column who alone differ in it from everybody else, that column,
        and the binary logarithm of how many groups of so many people there could be; the lattice
        attack covers them where it is made.
    """

    rows: int
    events: int
    precision: float
    combinations: float
    table_bits: float
    opened_bits: float
    attacked: bool
    other_tables: int
    certain: int
    columns: int
    group: int = 0
    group_column: str | None = None
    group_bits: float = inf

    def holds(self) -> bool:
        """Whether far fewer bits are opened than tell tables apart, and nobody is certain."""
        enough = self.table_bits >= self.opened_bits + SPARE_BITS
        return enough and not self.certain and not self.singles_out()

    def singles_out(self) -> bool:
        """Whether a coefficient has about as many digits as tell some few people apart."""
        return self.group_bits < self.opened_bits / self.columns + SPARE_GROUP_BITS


def exact_leakage(
    own: LocalRows,
    agreement: Agreement,
    kind: Literal["cox", "svm", "logistic"],
    precision: float,
    opened_bits: float,
    ascent: NewtonAscent | None,
) -> ExactLeakage:
    """What the numbers opened by a fit of these rows alone tell about them.

    Parameters
    ----------
    own, agreement, kind, precision
        As they will be in the fit.
    opened_bits, ascent
        What the rehearsal opened; without an ascent (no model of these rows alone exists) there is
        nothing to attack.
    """
    options = _guessable(own, agreement)
    combinations = float(np.prod([float(len(values)) for values in options]))
    outcomes = np.column_stack((own.time, own.event)) if len(own.time) else own.event[:, None]
    _, alike = np.unique(outcomes, axis=0, return_counts=True)
    found, certain, attacked = 0, 0, False
    if kind != "cox" and combinations <= _FEW and ascent is not None:
        attacked = True
        found, certain = _attacked(own, options, kind, ascent)
    few = (0, None, inf) if attacked else _fewest(own, agreement, options)
    return ExactLeakage(
        rows=len(own.x),
        events=int(own.event.sum()),
        precision=precision,
        combinations=combinations,
        table_bits=float(sum(_choices(int(people), combinations) for people in alike)),
        opened_bits=opened_bits,
        attacked=attacked,
        other_tables=found,
        certain=certain,
        columns=own.x.shape[1] + (kind != "cox"),
        group=few[0],
        group_column=few[1],
        group_bits=few[2],
    )


def _guessable(own: LocalRows, agreement: Agreement) -> tuple[Floats, ...]:
    """The encoded values of each column that an attacker would try."""
    return own.likely or tuple(column.options() for column in agreement.columns)


def _fewest(
    own: LocalRows, agreement: Agreement, options: tuple[Floats, ...]
) -> tuple[int, str | None, float]:
    """The group of people, told apart by one column alone, of which there are fewest to choose.

    A group has a value of a category, or another number than most; or it is one row that no other
    rows add up to (its leverage is one), which some sum of columns tells from all others.
    """
    combinations = float(np.prod([float(len(values)) for values in options]))
    found: list[tuple[float, int, str | None]] = []
    first = 0
    for column, values in zip(agreement.columns, options, strict=True):
        part = own.x[:, first : first + column.width]
        first += column.width
        _, people = np.unique(part, axis=0, return_counts=True)
        others = combinations / len(values)
        if isinstance(column, Category) and not column.ordered:
            groups = [(int(each), others) for each in people]
        else:
            groups = [(len(part) - int(people.max(initial=0)), others * (len(values) - 1))]
        found += [(_choices(g, ways), g, column.name) for g, ways in groups if 0 < g < len(part)]
    wide = np.c_[own.x, np.ones(len(own.x))]
    base = np.linalg.svd(wide, full_matrices=False)
    spanned = base[0][:, base[1] > 1e-9 * base[1].max(initial=0.0)]
    if ((spanned**2).sum(axis=1) > 1 - 1e-9).any():
        found.append((_choices(1, combinations), 1, None))
    bits, group, name = min(found, key=lambda each: each[0], default=(inf, 0, None))
    return group, name, bits


def _choices(people: int, combinations: float) -> float:
    """Bits to say how many of these people have each of the combinations."""
    ways = lgamma(people + combinations) - lgamma(combinations) - lgamma(people + 1)
    return ways / log(2)


def _attacked(
    own: LocalRows, options: tuple[Floats, ...], kind: Loss, ascent: NewtonAscent
) -> tuple[int, int]:
    """Other tables with the same steps, and people whose combination none of them changes."""
    grid = np.array([np.concatenate(parts) for parts in product(*options)])
    place = {row.tobytes(): at for at, row in enumerate(np.round(grid, 9) + 0.0)}
    at = np.array([place[row.tobytes()] for row in np.round(own.x, 9) + 0.0])
    counts = np.bincount(at + len(grid) * ~own.event, minlength=2 * len(grid))
    x, sign = np.tile(grid, (2, 1)), np.repeat([1.0, -1.0], len(grid))
    effects, _ = step_effects(kind, x, sign, counts, 1.0 / own.penalty, ascent)
    classes = (sign[:, None] == [1.0, -1.0]) * 1.0  # how many are of each class is opened too
    told = [effects, classes]
    if ascent.inverse is not None:
        told.append(_inverse_effects(kind, x, sign, counts, 1.0 / own.penalty, ascent))
    found = equal_tables(np.concatenate(told, axis=1), counts)
    people = counts.reshape(2, -1).sum(axis=0)
    changed = (found.reshape(-1, 2, len(grid)).sum(axis=1) != people).any(axis=0)
    return len(found), int(people[~changed].sum())


def step_effects(
    kind: Loss, x: Floats, sign: Floats, counts: NDArray[np.int64], nu: float, ascent: NewtonAscent
) -> tuple[Floats, Floats]:
    """What one more person of each combination does to every opened step, in units of its grid.

    A step d at z solves M·d = g, and M and g are sums over people: so the sum over people of
    g_i - M_i·d is zero, but for the ridge. The attacker is given the inverse of M for free.

    Returns
    -------
    effects, totals
        One row a combination; and what they add up to over all people.
    """
    wide = np.c_[x, -np.ones(len(x))]
    effects, totals = [], []
    for z, after, places in zip(ascent.path, ascent.path[1:], ascent.places, strict=False):
        step = after - z
        _, slope, bend = row_losses(kind, sign * (wide @ z))
        matrix = nu * (wide * (bend * counts)[:, None]).T @ wide + np.eye(wide.shape[1])
        units = np.linalg.inv(matrix) * 2.0**places
        pull = slope * sign + bend * (wide @ step)
        effects.append(-nu * (pull[:, None] * wide) @ units)
        totals.append((z + step) @ units)
    return np.concatenate(effects, axis=1), np.concatenate(totals)


def _inverse_effects(
    kind: Loss, x: Floats, sign: Floats, counts: NDArray[np.int64], nu: float, ascent: NewtonAscent
) -> Floats:
    """What one more person of each combination does to the opened inverse, in units of its grid.

    The inverse C of a sum M over people changes by -C·M_i·C with one of them more; the attacker is
    given C without its rounding.
    """
    wide = np.c_[x, -np.ones(len(x))]
    _, _, bend = row_losses(kind, sign * (wide @ ascent.coefficients))
    scale = nu * counts.sum() + 1
    matrix = (nu * (wide * (bend * counts)[:, None]).T @ wide + np.eye(wide.shape[1])) / scale
    pulled = wide @ np.linalg.inv(matrix)
    upper = np.triu_indices(wide.shape[1])
    changes = -(nu * bend / scale)[:, None] * pulled[:, upper[0]] * pulled[:, upper[1]]
    return np.asarray(changes * 2.0**ascent.inverse_places)


def check_opened(found: ExactLeakage, coarser: float | None, where: str) -> None:
    """Refuse a fit that would tell too much about this party's rows.

    Parameters
    ----------
    coarser
        A precision at which it would not, if there is one.
    """
    if found.holds():
        return
    what = (
        f"the fit would open about {found.opened_bits:.0f} bits; all tables with these outcomes "
        f"can be told apart by {found.table_bits:.0f}"
    )
    if found.certain:
        what = (
            "from the numbers that the fit would open a lattice attack finds out how many people "
            f"have a combination of values, for {found.certain} of {found.rows} people"
        )
    elif found.singles_out():
        what = (
            f"{_alone_in(found)}, so the coefficients are an equation about nobody else: each has "
            f"about {found.opened_bits / found.columns:.0f} bits, and what can be said about them "
            f"has {found.group_bits:.0f}"
        )
    raise PromiseError(
        what,
        where=where,
        remedy="Leave columns out, join rare categories, or open it anyway (--open-anyway)."
        if coarser is None
        else f"Agree on --precision {coarser:g}, or open it anyway (--open-anyway).",
    )


def _alone_in(found: ExactLeakage) -> str:
    if found.group_column is None:
        return "1 row of this table can be told from all others by a sum of columns"
    people = counted(found.group, "row", does="differ")
    return f"{people} from all others in column `{found.group_column}`"


def opened_guess(columns: int, precision: float, *, covariance: bool = False) -> float:
    """Bits that a fit of so many coefficients opens, where it cannot be rehearsed."""
    entries = columns * (columns + 1) // 2 if covariance else 0
    return 4.0 * columns * log2(1.0 / precision) + 16.0 * entries
