"""Motwani & Xu: Tables 1 to 4 and Figures 1 to 3, with their sample sizes.

Adult and covtype are the paper's tables. Its extracts of the census of 2000 are not to be had: the
American Community Survey of Oregon stands in for the smallest state, Census-income for the others.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

import sfumato as sf
from sfumato.budget import Budget
from sfumato.papers import reproduction
from sfumato.papers.reproduction import (
    Cell,
    Found,
    Grid,
    Picture,
    claim,
    elsewhere,
    faster,
    figure,
    lines,
    sampled,
    seconds,
    timed,
)
from sfumato.quasi.greedy import Goal
from sfumato.quasi.key import KeyQuery, goal_of
from sfumato.quasi.lattice import levelwise
from sfumato.quasi.minimal_keys import sampled_border

DELTA = 0.01
STANDS_IN = {
    "idaho": "Oregon's survey stands in for the table of the census",
    "wa": "Census-income stands in for the table of the census",
    "texas": "Census-income stands in for the table of the census",
    "ca": "Census-income stands in for the table of the census",
}
GONE = "the table of 10 million people is not to be had"


SOURCES = {"adult": "adult_distinct", "covtype": "covtype", "idaho": "oregon_adults"}


def _opened(name: str) -> sf.Table:
    return _read(SOURCES.get(name, "census_adults"))


@cache
def _read(source: str) -> sf.Table:
    table = sf.table(getattr(reproduction, source)())
    table.codes()  # what reading costs is not part of any time
    return table


def _names(quick: bool) -> tuple[str, ...]:
    return ("adult", "covtype", *(() if quick else STANDS_IN))


def _seeds(quick: bool) -> range:
    return range(2 if quick else 10)


def table_1(quick: bool) -> Iterator[Found]:
    """Table 1: five rows."""
    five = sf.table(
        pa.table(
            {
                "age": [20, 30, 40, 20, 40],
                "sex": ["F", "F", "F", "M", "M"],
                "state": ["CA", "CA", "TX", "NY", "CA"],
            }
        )
    )
    printed = {("age",): (0.6, 0.8), ("sex", "state"): (0.8, 0.9)}
    for columns, (distinct, separation) in printed.items():
        found = sf.measure(five, columns)
        name = ", ".join(columns)
        yield figure(f"Table 1, {{{name}}}, distinct ratio", distinct, found.distinct)
        yield figure(f"Table 1, {{{name}}}, separation ratio", separation, found.separation)
    yield figure("Table 1, size of a minimum key", 2, sf.minimum_key(five, proven=True).size)
    keys = sf.minimal_keys(five).keys
    yield claim(
        "Table 1, minimal keys",
        "{age, state}, {age, sex}",
        ", ".join("{" + ", ".join(key) + "}" for key in keys),
        set(keys) == {("age", "sex"), ("age", "state")},
    )
    for measure, size in (("distinct", 2), ("separation", 1)):
        kept = sf.mask(five, measure=measure, beta=0.8, proven=True).details["published"]
        yield figure(f"Table 1, columns that a 0.8-{measure} mask keeps", size, len(kept))


MASKS: dict[str, dict[str, tuple[float | str, int | None, float, int | None]]] = {
    "distinct": {
        "adult": (36, 12, 0, None),
        "covtype": ("more than 10 hours", None, 2000, 46),
        "idaho": (172, 33, 0, None),
        "wa": (880, 34, 620, 33),
        "texas": (3017, 35, 630, 33),
        "ca": (4628, 34, 606, 32),
    },
    "separation": {
        "adult": (19, 5, 2, 5),
        "covtype": ("2 hours", 38, 104, 37),
        "idaho": (147, 24, 30, 23),
        "wa": (646, 23, 35, 23),
        "texas": (1149, 19, 34, 19),
        "ca": (728, 16, 30, 16),
    },
}
"""Seconds and columns of the greedy algorithm, and of the same on a sample: Tables 2 and 3."""


def _masked(name: str, measure: str, beta: float, **more: Any) -> tuple[int, float, float]:
    """Columns kept, the ratio they have on the whole table, and CPU seconds."""
    return _mask(SOURCES.get(name, "census_adults"), measure, beta, **more)


@cache
def _mask(source: str, measure: str, beta: float, **more: Any) -> tuple[int, float, float]:
    release, spent = timed(
        lambda: sf.mask(_read(source), measure=measure, beta=beta, explain=False, **more)
    )
    ratio = float(getattr(release.details["measures"], measure))
    return len(release.details["published"]), ratio, spent


def _masks(
    table: str, measure: str, beta: float, size: int, unit: str, quick: bool
) -> Iterator[Found]:
    worst = 0.0
    for name in _names(quick):
        their_s, their_kept, sampled_s, sampled_kept = MASKS[measure][name]
        if not (quick and their_kept is None):
            kept, _, exact_s = _masked(name, measure, beta)
            here = f"Table {table}, {name}, greedy"
            if their_kept is None:
                yield elsewhere(f"{here}, columns", "–", kept, "did not end in 10 hours there")
            else:
                yield _cell(name, f"{here}, columns", their_kept, [kept])
            yield seconds(f"{here}, seconds", their_s, exact_s)
        if sampled_kept is None:
            continue
        here = f"Table {table}, {name}, {size:,} {unit}"
        drawn = [_masked(name, measure, beta, sample=size, seed=seed) for seed in _seeds(quick)]
        worst = max(worst, *(ratio for _, ratio, _ in drawn))
        why = ""
        if (measure, name) == ("distinct", "covtype"):
            why = (
                "β' of step 2 leaves no more; 50,000 tuples keep "
                f"{_masked(name, measure, beta, sample=50_000)[0]}"
            )
        yield _cell(name, f"{here}, columns", sampled_kept, [kept for kept, _, _ in drawn], why)
        yield seconds(f"{here}, seconds", sampled_s, float(np.mean([s for _, _, s in drawn])))
    yield claim(
        f"section 5.2, {measure}, δ = 0.01",
        "the constraint is kept in all experiments",
        f"largest ratio {worst:.3f}",
        worst <= beta,
    )
    if not quick:
        census = ("755 s, 30 columns", "170 s, 17 columns")[measure == "separation"]
        yield elsewhere(f"Table {table}, census, {size:,} {unit}", census, "–", GONE)


def _cell(name: str, where: str, says: int, drawn: list[int], why: str = "") -> Cell:
    """A figure on a table of theirs, or on one that stands in."""
    if name not in STANDS_IN:
        return sampled(where, says, drawn, why)
    low, high = min(drawn), max(drawn)
    return elsewhere(where, says, low if low == high else f"{low} to {high}", STANDS_IN[name])


def table_2(quick: bool) -> Iterator[Found]:
    """Table 2: masking 0.5-distinct quasi-identifiers, 30,000 tuples."""
    yield from _masks("2", "distinct", 0.5, 30_000, "tuples", quick)


def table_3(quick: bool) -> Iterator[Found]:
    """Table 3: masking 0.8-separation quasi-identifiers, 50,000 pairs."""
    yield from _masks("3", "separation", 0.8, 50_000, "pairs", quick)


def figure_1(quick: bool) -> Iterator[Found]:
    """Figure 1: time and columns against the size of the sample."""
    if quick:
        return
    name = "ca"
    rows = len(reproduction.census_adults())
    for part, measure, beta, told in (
        ("a", "distinct", 0.5, 30_000),
        ("b", "separation", 0.8, 50_000),
    ):
        exact, _, exact_s = _masked(name, measure, beta)
        records = []
        for size in (5_000, 10_000, 30_000, 50_000, 60_000):
            runs = [_masked(name, measure, beta, sample=size, seed=seed) for seed in range(3)]
            kept, spent = (float(np.mean([run[at] for run in runs])) for at in (0, 2))
            records.append({"sample": size, "columns kept": kept, "CPU seconds": spent})
        unit = "tuples" if measure == "distinct" else "pairs"
        grid: list[list[Any]] = [[*record.values()] for record in records]
        grid.append([f"all {rows:,} rows", exact, exact_s])
        yield Picture(
            f"1{part}",
            f"Figure 1({part}): columns that a {beta}-{measure} mask keeps, by sampled {unit}, "
            "mean of 3 seeds; Census-income stands in for California",
            lines(
                f"columns kept by sampled {unit}",
                [{**record, "mask": f"{beta}-{measure}"} for record in records],
                "sample", "columns kept", "mask",
            ),
        )  # fmt: skip
        yield Grid(f"Figure 1({part})", [unit, "columns kept", "CPU seconds"], grid)
        at = next(record for record in records if record["sample"] == told)
        lost = exact - at["columns kept"]
        yield elsewhere(
            f"Figure 1({part}), columns lost with {told:,} {unit}",
            "2 of 34" if measure == "distinct" else "0 of 16",
            f"{lost:.1f} of {exact}",
            STANDS_IN["ca"],
        )
        slower = records[-1]["CPU seconds"] / records[0]["CPU seconds"]
        yield claim(
            f"Figure 1({part}), time",
            "falls linearly with the sample",
            f"{slower:.1f} times for 12 times the sample",
            slower > 6,
            "" if slower > 6 else "checking the ratio on all rows takes most of so short a time",
            varies=True,
        )


PRUNED = {
    "keys": ("key", None, (6590, 559, 134)),
    "0.9-distinct": ("distinct", 0.9, (6373, 1600, 1600)),
    "0.999-separation": ("separation", 0.999, None),
}
"""What Figure 2 looks for, and the seconds that the text names."""


def _all_minimal(
    measure: str, beta: float | None, samples: tuple[float, ...]
) -> tuple[Any, int, float]:
    """Minimal sets, how many sets were counted on the whole table, and CPU seconds."""
    codes = _opened("adult").codes()
    question = KeyQuery(measure=measure, beta=beta, delta=DELTA)
    goal = Goal(pairs=0) if beta is None else goal_of(codes.rows, question)
    asked = itertools.count()

    def good(columns: tuple[int, ...]) -> bool:
        next(asked)
        return goal.met(codes, columns)

    def search() -> Any:
        random = np.random.default_rng(0)
        found = sampled_border(codes, question, samples, random, Budget()) if samples else None
        border = ((),) if found is None else found[0]
        return levelwise(len(codes.columns), good, None, Budget(), border=border)

    found, spent = timed(search)
    return found.sets, next(asked), spent


def figure_2(quick: bool) -> Iterator[Found]:
    """Figure 2: all minimal quasi-identifiers of Adult, with and without pruning."""
    if quick:
        return
    ways = {"no pruning": (), "pruned once (10%)": (0.1,), "iterative (1%, 10%)": (0.01, 0.1)}
    grid, same = [], True
    for goal, (measure, beta, times) in PRUNED.items():
        reference = sf.minimal_keys(_opened("adult"), measure=measure, beta=beta, expand=True).keys
        counted, spent = [], []
        for at, (way, samples) in enumerate(ways.items()):
            sets, asked, cpu = _all_minimal(measure, beta, samples)
            same &= len(sets) == len(reference)
            counted.append(asked)
            spent.append(cpu)
            grid.append([goal, way, asked, cpu])
            if times is not None:
                yield seconds(f"Figure 2, {goal}, {way}", times[at], cpu)
        if goal == "keys":
            yield claim(
                "Figure 2, keys", "iterative pruning is most effective",
                f"{counted[0]:,}, {counted[1]:,}, {counted[2]:,} sets counted on all rows; "
                f"{spent[0]:.1f}, {spent[1]:.1f}, {spent[2]:.1f} s",
                spent[2] < spent[1] < spent[0], varies=True,
            )  # fmt: skip
        elif goal == "0.9-distinct":
            yield claim(
                "Figure 2, 0.9-distinct", "pruning takes a quarter of the time",
                f"{min(spent[1:]) / spent[0]:.2f} of the time", min(spent[1:]) < 0.5 * spent[0],
                "searching the sample of 2,909 rows takes a good part of what is saved",
                varies=True,
            )  # fmt: skip
        else:
            yield claim(
                "Figure 2, 0.999-separation", "the improvement is marginal",
                f"{min(spent[1:]) / spent[0]:.2f} of the time", min(spent[1:]) > 0.5 * spent[0],
                varies=True,
            )  # fmt: skip
    yield Grid("Figure 2", ["all minimal", "way", "sets counted on all rows", "CPU seconds"], grid)
    yield claim(
        "section 5.3, δ = 0.01", "all minimal quasi-identifiers are found throughout",
        "as many as without samples" if same else "some are missing", same,
    )  # fmt: skip
    yield from _linear()


def _linear() -> Iterator[Found]:
    """Section 5.3: time grows linearly with the number of rows."""
    codes = _opened("adult").codes()
    times = []
    for share in (0.125, 0.25, 0.5):
        rows = np.random.default_rng(0).choice(codes.rows, int(share * codes.rows), replace=False)
        part = codes.take(np.sort(rows))
        goal = Goal(pairs=0)
        _, spent = timed(
            lambda part=part, goal=goal: levelwise(  # type: ignore[misc]
                len(part.columns), lambda s: goal.met(part, s), None, Budget()
            )
        )
        times.append(spent)
    told = ", ".join(f"{spent:.2f} s" for spent in times)
    yield claim(
        "section 5.3, rows", "time grows linearly with the number of rows",
        f"{told} for an eighth, a quarter and half of Adult", 2 < times[2] / times[0] < 6,
        "each of 16,384 sets has a cost of its own, whatever the rows", varies=True,
    )  # fmt: skip


def figure_3(quick: bool) -> Iterator[Found]:
    """Figure 3: levels of pruning and sizes of samples on Adult."""
    if quick:
        return
    sizes = (300, 1_000, 3_000)
    for part, goal in (("a", "keys"), ("b", "0.9-distinct")):
        measure, beta, _ = PRUNED[goal]
        records: list[dict[str, Any]] = []
        for levels, size in itertools.product((1, 2, 3), sizes):
            series = [max(100.0, size / 10**level) for level in reversed(range(levels))]
            sets, asked, cpu = _all_minimal(measure, beta, tuple(dict.fromkeys(series)))
            records.append(
                {"levels": f"{levels} level{'s' * (levels > 1)}", "last sample": size,
                 "CPU seconds": cpu, "sets": len(sets), "asked": asked}
            )  # fmt: skip
        best = {
            name: {r["last sample"]: r["CPU seconds"] for r in records if r["levels"] == name}
            for name in ("1 level", "2 levels", "3 levels")
        }
        yield Picture(
            f"3{part}",
            f"Figure 3({part}): CPU seconds to all minimal {goal} of Adult, by the rows of the "
            "last sample",
            lines(
                f"CPU seconds by size of the last sample, {goal}", records, "last sample",
                "CPU seconds", "levels", log_x=True,
            ),
        )  # fmt: skip
        wins = sum(best["2 levels"][size] < best["1 level"][size] for size in sizes)
        yield claim(
            f"Figure 3({part}), two levels against one", "faster in most cases",
            f"faster for {wins} of {len(sizes)} sizes", wins > len(sizes) / 2,
            "" if wins > len(sizes) / 2 else _cheap(goal), varies=True,
        )  # fmt: skip
        ratio = sum(best["3 levels"].values()) / sum(best["2 levels"].values())
        yield faster(
            f"Figure 3({part}), three levels against two", "slightly better", ratio, _cheap(goal)
        )


def _cheap(goal: str) -> str:
    if goal == "keys":
        return "a hundred rows rule so much out that little is left to gain"
    return (
        "the first sample of 100 rows rules out too little at β = 0.9, δ = 0.01 to pay for itself"
    )


KEYS: dict[str, tuple[float, int, float, int, float, float, int, float]] = {
    "adult": (35.5, 13, 8.8, 13, 1.0, 3.11, 5, 0.99995),
    "covtype": (964, 5, 78.1, 3, 0.9997, 27.1, 2, 0.999996),
    "idaho": (50.4, 14, 15.2, 8, 0.997, 1.07, 3, 0.9999),
    "wa": (490, 22, 34.1, 8, 0.995, 7.14, 3, 0.99993),
    "texas": (2032, 29, 120, 14, 0.995, 13.2, 4, 0.99995),
    "ca": (3307, 29, 145, 13, 0.994, 16.3, 4, 0.99998),
}
"""Table 4: seconds, key; seconds, key, ratio by distinct; the same by separation."""


def table_4(quick: bool) -> Iterator[Found]:
    """Table 4: minimum keys, exact and sampled."""
    worst = {"distinct": 1.0, "separation": 1.0}
    for name in _names(quick):
        table, printed = _opened(name), KEYS[name]
        found, spent = timed(lambda table=table: sf.minimum_key(table))  # type: ignore[misc]
        yield _cell(name, f"Table 4, {name}, greedy, key size", printed[1], [found.size])
        yield seconds(f"Table 4, {name}, greedy, seconds", printed[0], spent)
        for at, measure, asked in (
            (2, "distinct", {"eps": 0.1, "measure": "distinct"}),
            (5, "separation", {"eps": 0.001, "by": "pairs"}),
        ):
            here = f"Table 4, {name}, {measure}, ε = {asked['eps']}"
            runs = [
                timed(
                    lambda seed=seed, asked=asked, table=table: sf.minimum_key(  # type: ignore[misc]
                        table, delta=DELTA, seed=seed, **asked
                    )
                )
                for seed in _seeds(quick)
            ]
            sizes = [run.size for run, _ in runs]
            ratios = [float(getattr(run.measures, measure)) for run, _ in runs]
            worst[measure] = min(worst[measure], *ratios)
            why = "" if min(sizes) <= printed[at + 1] <= max(sizes) else PRUNES
            yield _cell(name, f"{here}, key size", int(printed[at + 1]), sizes, why)
            if name in STANDS_IN:
                told = f"{min(ratios):.6f} to {max(ratios):.6f}"
                yield elsewhere(f"{here}, ratio", printed[at + 2], told, STANDS_IN[name])
            else:
                missed = not min(ratios) <= printed[at + 2] <= max(ratios)
                why = "the columns chosen here have another ratio" if missed else ""
                yield sampled(f"{here}, ratio", printed[at + 2], ratios, why)
            times = float(np.mean([spent for _, spent in runs]))
            yield seconds(f"{here}, seconds", printed[at], times)
    yield claim(
        "section 5.4, ratios", "always within ε of 1",
        f"at least {worst['distinct']:.4f} and {worst['separation']:.6f}",
        worst["distinct"] >= 0.9 and worst["separation"] >= 0.999,
    )  # fmt: skip
    proven = sf.minimum_key(_opened("adult"), proven=True)
    yield figure("section 5.4, minimum key of adult", 13, proven.size)
    if not quick:
        says = "distinct 808 s, 17 columns, 0.993; separation 120 s, 3, 0.99998"
        yield elsewhere("Table 4, census", says, "–", GONE)
    yield from _planted(quick)


PRUNES = (
    "greedy covers the sampled pairs with columns whose sizes differ by little; ties go otherwise"
)


def _planted(quick: bool) -> Iterator[Found]:
    """Tables with a known minimum key: all combinations of its values, and columns that follow.

    A column has b values, so fewer than s columns have fewer than b^s classes.
    """
    sizes = []
    for base, size in ((2, 12), (4, 6), (10, 4)) if quick else ((2, 14), (3, 9), (4, 7), (10, 5)):
        random = np.random.default_rng(size)
        cells = np.array(list(itertools.product(range(base), repeat=size)), dtype=np.int32)
        mixed = [
            cells[:, random.choice(size, size - 1, replace=False)].sum(axis=1) % base
            for _ in range(8)
        ]
        names = [f"c{at}" for at in range(size + 8)]
        order = random.permutation(size + 8)
        stacked = np.column_stack([cells, *mixed])[:, order]
        table = pa.table(dict(zip(names, stacked.T, strict=True)))
        found = sf.minimum_key(table, eps=0.1, measure="distinct", delta=DELTA)
        sizes.append((found.size, size))
    yield claim(
        "section 5.4, generated tables with known minimum keys", "never larger than the minimum",
        ", ".join(f"{found} of {least}" for found, least in sizes),
        all(found <= least for found, least in sizes),
    )  # fmt: skip


EXPERIMENTS = (table_1, table_2, table_3, figure_1, figure_2, figure_3, table_4)
