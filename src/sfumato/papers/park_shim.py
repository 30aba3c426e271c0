"""Park & Shim: the examples, and Figures 12 and 13 with k to 128.

Adult and Letter are the paper's tables, with the columns it lists (Adult's nine are not named; the
usual ones are taken). Of Census-income the repository has the test part, 97,998 rows without
missing values where the paper has 196,130.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.anonymization.cells.bounds import ascent, lower_bound, opt_lb, optimum
from sfumato.anonymization.cells.candidates import (
    closed_candidates,
    frequent_candidates,
    patterns_of,
)
from sfumato.anonymization.cells.paper import (
    approx_cf,
    approx_dr,
    approx_ds,
    approx_fq,
    approx_gr,
    approx_naive,
)
from sfumato.anonymization.cells.search import improved
from sfumato.anonymization.cells.table import PRICE_UNIT, table_of_codes
from sfumato.budget import Budget
from sfumato.errors import ParameterError
from sfumato.papers.reproduction import (
    Cell,
    Found,
    Grid,
    Picture,
    claim,
    elsewhere,
    figure,
    lines,
    read,
    timed,
)

Codes = npt.NDArray[np.int32]
Measured = dict[str, Any]

KS = (2, 4, 8, 16, 32, 64, 128)
ADULT = (
    "age", "workclass", "education", "marital-status", "occupation", "race", "sex",
    "native-country", "income",
)  # fmt: skip
CENSUS = (
    "age", "class of worker", "education", "marital stat", "major occupation code", "race", "sex",
    "country of birth self", "income",
)  # fmt: skip
SERIES = ("GR", "FQ", "CF", "CF-1.8", "DR", "OPT-LB")
FIGURE_1 = """20~29 Single USA Male
30~39 Divorce China Female
20~29 Single USA Female
30~39 Separation Korea Female"""
FIGURE_2 = """20~29 Single USA Female Master
20~29 Single USA Female Doctor
20~29 Single China Male Master
20~29 Single China Male Doctor
20~29 Divorce USA Male Master
20~29 Divorce USA Male Doctor
30~39 Single USA Male Master
30~39 Single USA Male Doctor"""


def _ranked(table: pa.Table, columns: tuple[str, ...]) -> Codes:
    """Columns as ranks, rows that miss a value left out."""
    complete = table.select(columns).drop_null()
    ranks = [
        np.unique(column.to_numpy(zero_copy_only=False), return_inverse=True)[1]
        for column in complete.columns
    ]
    return np.ascontiguousarray(np.stack(ranks, axis=1).astype(np.int32))


@cache
def coded(name: str) -> Codes:
    """A table of the paper as ranks, nine columns."""
    if name.startswith("Adult"):
        table = read("adult_all").drop_null()
        if name != "Adult":
            decades = pc.divide(table.column("age"), 10)
            table = table.set_column(table.column_names.index("age"), "age", decades)
        return _ranked(table, ADULT)
    if name == "Letter":
        letter = read("letter")
        return _ranked(letter, tuple(letter.column_names[1:10]))
    census = read("census_income_kdd_test")
    return _ranked(census.rename_columns([*census.column_names[:-1], "income"]), CENSUS)


def _rows(text: str) -> Codes:
    rows = np.array([line.split() for line in text.splitlines()])
    columns = [np.unique(column, return_inverse=True)[1] for column in rows.T]
    return np.stack(columns, axis=1).astype(np.int32)


def _printed(text: str, k: int) -> Any:
    return table_of_codes(_rows(text), k)


def _optimal(table: Any) -> int:
    found = optimum(table)
    assert found is not None
    assert found.partition is not None
    return int(found.partition.cost(table))


def _length(rows: Codes) -> int:
    """Suppression length a(S): columns in which rows differ (Definition 4.1)."""
    return int((rows != rows[0]).any(axis=0).sum())


def _diameter(rows: Codes) -> int:
    """Columns in which the two rows that are most unlike differ."""
    return int((rows[:, None] != rows[None]).sum(axis=2).max())


def _halves(rows: Codes) -> Iterator[tuple[Codes, Codes]]:
    """All ways to part eight rows into four and four."""
    for others in combinations(range(1, len(rows)), len(rows) // 2 - 1):
        first = np.isin(np.arange(len(rows)), (0, *others))
        yield rows[first], rows[~first]


def _partitions(eight: Codes) -> Iterator[Found]:
    """Examples 3.9, 4.5 and 4.6: diameters, suppression lengths and ratios of Figure 2."""
    by_diameter, by_length = eight[::2], eight[:4]  # the Masters of Figure 3; Figure 4
    parts = [(by_diameter, eight[1::2]), (by_length, eight[4:])]
    diameters = [sum(map(_diameter, halves)) for halves in parts]
    stars = [sum(len(half) * _length(half) for half in halves) for halves in parts]
    least = min(sum(map(_diameter, halves)) for halves in _halves(eight))
    yield figure("Example 3.9 and Figure 3, least diameter sum", 4, least)
    yield figure("Example 3.9, diameter sum of Figure 3", 4, diameters[0])
    yield figure("Example 3.9, stars of Figure 3", 32, stars[0])
    yield figure("Example 4.5, diameter sum of Figure 4", 6, diameters[1])
    least = min(sum(map(_length, halves)) for halves in _halves(eight))
    yield claim(
        "Example 4.5 and Figure 4, least suppression length sum",
        "3 + 3, and also the fewest stars", f"{least}, {stars[1]} stars",
        least == sum(map(_length, parts[1])) == 6 and stars[1] == 24,
    )  # fmt: skip
    ratios = {
        rows: _length(eight[list(rows)]) / len(rows)
        for size in range(4, 8)
        for rows in combinations(range(8), size)
    }
    first = min(ratios, key=lambda rows: (ratios[rows], rows))
    yield claim(
        "Example 4.6, the set that GEN-COVER takes first", "the first 6 records, r = 4/6",
        f"records {first[0] + 1} to {first[-1] + 1}, "
        f"r = {_length(eight[: len(first)])}/{len(first)}",
        first == tuple(range(6)) and ratios[first] == 4 / 6,
    )  # fmt: skip
    rest = {
        rows: _length(eight[list(rows)]) / 2 for rows in ratios if {6, 7} <= {*rows}
    }  # fmt: skip
    yield claim(
        "Example 4.6, the least ratio of the second iteration", "3/2, the last four records",
        f"{2 * min(rest.values()):.0f}/2", min(rest.values()) == rest[4, 5, 6, 7] == 3 / 2,
    )  # fmt: skip


def _representatives(four: Codes) -> Iterator[Found]:
    """Example 4.8: what two rows have in common, and the rows that have it."""
    pairs = list(combinations(range(4), 2))
    shared = [four[a] == four[b] for a, b in pairs]
    rows = [(four[:, same] == four[a, same]).all(axis=1).sum() for (a, _), same in zip(
        pairs, shared, strict=True)]  # fmt: skip
    told = ", ".join(f"{same.sum()} in {held}" for same, held in zip(shared, rows, strict=True))
    says = "0 in 4, 3 in 2, 0 in 4, 1 in 3, 2 in 2, 1 in 3"
    yield claim(
        "Example 4.8 and Figure 8, values in common and rows that have them", says, told,
        told == says,
    )  # fmt: skip


def examples(quick: bool) -> Iterator[Found]:
    """Figures 1 to 4, 8 and 10: the examples."""
    four, eight = _printed(FIGURE_1, 2), _printed(FIGURE_2, 4)
    yield figure(
        "Example 3.9 and Figure 2, stars of an optimal 4-anonymous table",
        24, _optimal(eight),
        "the figure prints nine rows for a table of eight; its count is right",
    )  # fmt: skip
    yield figure("Figure 1, stars of the 2-anonymous table", 6, _optimal(four))
    three = np.array([[1, 0, 1, 0], [1, 1, 1, 0], [0, 1, 1, 0]], np.int32)
    yield figure("Example 4.2, suppression length", 2, _length(three))
    yield figure("Example 4.2, cells to suppress", 6, _optimal(table_of_codes(three, 3)))
    yield from _partitions(_rows(FIGURE_2))
    yield from _representatives(_rows(FIGURE_1))
    yield figure(
        "Example 4.13 and Figure 10, frequent itemsets", 10, len(frequent_candidates(four)) - 1
    )
    closed = closed_candidates(four)
    yield figure("Example 4.13 and Figure 10, closed frequent itemsets", 3, len(closed) - 1)
    for name, run in {"NAIVE": approx_naive, "FQ": approx_fq, "CF": approx_cf}.items():
        yield figure(
            f"Example 4.15, stars of APPROX-{name} on Figure 1", 6, int(run(four).cost(four))
        )


def limits(quick: bool) -> Iterator[Found]:
    """Section 5.3: what does not end."""
    adult = table_of_codes(coded("Adult"), 2)
    for name, run, says in (
        ("DS", approx_ds, "does not finish within a day"),
        ("NAIVE", approx_naive, "runs out of memory"),
    ):
        try:
            run(adult)
            told = "ends"
        except ParameterError as error:
            told = f"refused: {error.what}"
        yield claim(
            f"section 5.3, APPROX-{name} on Adult", says, told, told != "ends",
            "stated limits: DS at most 2,000 rows, NAIVE at most 200,000 sets of rows",
        )  # fmt: skip


def _measured(codes: Codes, k: int) -> Measured:
    """Stars and CPU seconds of every algorithm that the figures show."""
    table = table_of_codes(codes, k)
    patterns = patterns_of(table)
    found: Measured = {"k": k, "columns": codes.shape[1]}
    ways: dict[str, Callable[[], Any]] = {
        "GR": lambda: approx_gr(table, patterns),
        "FQ": lambda: approx_fq(table),
        "CF": lambda: approx_cf(table),
        "CF-1.8": lambda: approx_cf(table, 1.8),
        "DR": lambda: approx_dr(table, patterns),
    }
    for name, run in ways.items():
        partition, found[f"{name} s"] = timed(run, turns=3)
        assert partition.sizes().min() >= k
        found[name] = int(partition.cost(table))
    least = opt_lb(table, patterns)
    found["OPT-LB"] = int(least @ table.counts) // PRICE_UNIT
    return found


def _warm() -> None:
    _measured(coded("Letter")[:500], 3)


def _drawn(name: str, title: str, measured: list[Measured], x: str) -> Iterator[Found]:
    for what, suffix, series in (("stars", "", SERIES), ("seconds", " s", SERIES[:-1])):
        unit = "starred cells" if what == "stars" else "CPU seconds"
        records = [
            {x: line[x], unit: line[s + suffix], "algorithm": s}
            for s in series
            for line in measured
        ]
        yield Picture(
            f"{name}-{what}", f"{title}: {unit}",
            lines(
                f"{title}, {unit}", records, x, unit, "algorithm",
                log_x=x == "k", log_y=what != "stars",
            ),
        )  # fmt: skip
    yield Grid(
        f"{title}: starred cells",
        [x, *SERIES, *(f"{s}, CPU s" for s in SERIES[:-1])],
        [
            [line[x], *(line[s] for s in SERIES), *(round(line[f"{s} s"], 2) for s in SERIES[:-1])]
            for line in measured
        ],
    )


def _span(measured: list[Measured], a: str, b: str) -> tuple[float, float]:
    ratios = [line[a] / line[b] for line in measured]
    return min(ratios), max(ratios)


def _told(span: tuple[float, float]) -> str:
    return f"{span[0]:.2f} to {span[1]:.2f}"


FOREST = (
    "nearest rows are joined here and trees cut into parts of k to 3k - 3 rows; what their "
    "implementation does is not said"
)
FEW_STARS = (
    "β = 1.8 admits sets of up to 4 stars of 9; few sets of the cover have more, and only their "
    "rows are starred whole"
)
SAME_LOOPS = "mining and covering are the same compiled loops here"


def figure_12(quick: bool) -> Iterator[Found]:
    """Figure 12: k from 2 to 128."""
    _warm()
    ks = (8, 64) if quick else KS
    for name in ("Letter",) if quick else ("Adult", "Census-income", "Letter"):
        measured = [_measured(coded(name), k) for k in ks]
        rows = len(coded(name))
        if not quick:
            title = f"Figure 12: {name}, {rows:,} rows x 9"
            yield from _drawn(f"12-{name.lower()}", title, measured, "k")
        yield from _claims_12(name, measured, quick)
    if not quick:
        yield figure("section 5.2, Adult, tuples", 45_222, len(coded("Adult")))
        yield figure("section 5.2, Letter, tuples", 20_000, len(coded("Letter")))
        yield figure("section 5.2, Letter, attributes", 17, len(read("letter").column_names))
        yield elsewhere(
            "section 5.2, Census-income, tuples", 196_130, len(coded("Census-income")),
            "only the test part comes with the repository",
        )  # fmt: skip
        yield elsewhere(
            "section 5.3, APPROX-GR on Census-income with k = 128", "runs out of memory",
            "ends", "half the rows, and memory that grows with the rows alone",
        )  # fmt: skip
        yield from _beyond()


def _claims_12(name: str, measured: list[Measured], quick: bool) -> Iterator[Found]:
    here = f"Figure 12, {name}"
    gr, dr = _span(measured, "GR", "CF"), _span(measured, "GR", "DR")
    if name != "Letter":
        yield claim(
            f"{here}, GR against CF and DR", "about 3 times the stars",
            f"{_told(gr)} and {_told(dr)}", gr[0] > 2 and dr[0] > 2, FOREST,
        )  # fmt: skip
        best = all(line["DR"] <= min(line[s] for s in ("GR", "FQ", "CF")) for line in measured)
        worst = all(line["GR"] >= max(line[s] for s in ("FQ", "CF", "DR")) for line in measured)
        yield claim(
            f"{here}, best and worst", "DR stars fewest cells, GR most",
            "for every k" if best and worst else "not for every k", best and worst,
        )  # fmt: skip
        close = _span(measured, "DR", "OPT-LB")
        yield claim(
            f"{here}, FQ, CF and DR against OPT-LB", "very close to the optimum",
            f"DR {_told(close)}, CF {_told(_span(measured, 'CF', 'OPT-LB'))}, "
            f"FQ {_told(_span(measured, 'FQ', 'OPT-LB'))}", close[1] < 1.5,
        )  # fmt: skip
        large = measured[-1]
        for slow, fast, says in (("CF", "DR", 8), ("GR", "CF", 10)):
            ratio = large[f"{slow} s"] / large[f"{fast} s"]
            yield claim(
                f"{here}, k = 128, seconds of {slow} against {fast}", f"about {says} times",
                f"{ratio:.1f} times", says / 1.5 < ratio < says * 1.5,
                f"{SAME_LOOPS}; DR mines nothing and GR compares no pairs of rows", varies=True,
            )  # fmt: skip
        yield claim(
            f"{here}, small k", "GR is faster than CF",
            f"k = 2: GR {measured[0]['GR s']:.2f} s, CF {measured[0]['CF s']:.2f} s",
            measured[0]["GR s"] < measured[0]["CF s"], SAME_LOOPS, varies=True,
        )  # fmt: skip
        beta = _span(measured, "CF-1.8", "CF")
        yield claim(
            f"{here}, stars of CF-1.8 against CF", "1.8 times", f"{_told(beta)} times",
            beta[0] > 1.5, FEW_STARS,
        )  # fmt: skip
        faster = float(np.median([line["CF-1.8 s"] / line["CF s"] for line in measured]))
        yield claim(
            f"{here}, seconds of CF-1.8 against CF", "about 40% faster",
            f"{1 - faster:.0%} faster in the median", 1 - faster > 0.2,
            "β prunes inside the miner", varies=True,
        )  # fmt: skip
    if name == "Adult":
        close, spent = _span(measured, "FQ", "CF"), _span(measured, "FQ s", "CF s")
        told = f"stars {_told(close)} times; seconds {_told(spent)} times"
        near = close[1] < 1.03
        verdict = "exact" if near and spent[0] > 1 else "within noise"
        yield Cell(
            f"{here}, FQ against CF", "stars very close, CF faster", told,
            verdict if near and spent[0] > 1 / 1.3 else "differs",
            "" if spent[0] > 1 else "not for every k: some times are as good as equal",
            varies=True,
        )  # fmt: skip
    if name == "Letter":
        first, last = measured[0], measured[-1]
        gap = [line["GR"] / line["CF-1.8"] for line in (first, last)]
        yield claim(
            f"{here}, stars of CF-1.8", "get worse with k, and closer to GR's",
            f"CF-1.8 is {first['CF-1.8'] / first['CF']:.2f} times CF at k = {first['k']}, "
            f"{last['CF-1.8'] / last['CF']:.2f} at {last['k']}; GR is {gap[0]:.2f} and "
            f"{gap[1]:.2f} times CF-1.8",
            gap[1] < gap[0] and last["CF-1.8"] / last["CF"] > first["CF-1.8"] / first["CF"],
            "at k = 2 all algorithms are close to each other",
        )  # fmt: skip
        ratio = last["DR s"] / last["CF-1.8 s"]
        slower = [str(line["k"]) for line in measured if line["CF-1.8 s"] > line["DR s"]]
        but = f", but slower at k = {', '.join(slower)}" if slower else ""
        yield claim(
            f"{here}, seconds of CF-1.8", "much faster than DR",
            f"{ratio:.1f} times as fast at k = {last['k']}{but}", ratio > 1.5 and not slower,
            "DR needs no itemsets here, and is fastest for small k" if slower else "", varies=True,
        )  # fmt: skip


def _beyond() -> Iterator[Found]:
    """What a release does, and the bound that proves how good it is."""
    rows = []
    for k in (4, 32):
        table, budget = table_of_codes(coded("Adult"), k), Budget()
        patterns = patterns_of(table)
        first = approx_dr(table, patterns)
        least = opt_lb(table, patterns)

        def release(table: Any = table, patterns: Any = patterns, first: Any = first,
                    least: Any = least, budget: Budget = budget) -> Any:  # fmt: skip
            dual = ascent(table, patterns, least, first, "auto", budget)
            best = improved(table, patterns, first, "local", 0, budget, dual)
            return best, lower_bound(table, patterns, "auto", least, dual, best, budget)

        (best, bound), spent = timed(release)
        proven = max(bound.all.values()) // PRICE_UNIT
        stars = int(best.cost(table))
        rows.append(
            [k, int(first.cost(table)), stars, proven, round(stars / proven, 3), round(spent, 1)]
        )
    yield Grid(
        "Beyond the paper, Adult: what a release does (DR+), and the lower bound LP",
        ["k", "DR", "DR+", "LP", "DR+ / LP", "CPU s"], rows,
    )  # fmt: skip


def figure_13(quick: bool) -> Iterator[Found]:
    """Figure 13: the first 3 to 9 columns of Adult, k = 4."""
    _warm()
    widths = (3, 4, 5) if quick else range(3, 10)
    measured = [_measured(np.ascontiguousarray(coded("Adult")[:, :w]), 4) for w in widths]
    if not quick:
        yield from _drawn("13", "Figure 13: Adult, k = 4", measured, "columns")
        gr = _span(measured, "GR", "CF")
        yield claim(
            "Figure 13, GR against CF", "about twice the stars", f"{_told(gr)} times",
            gr[0] > 1.5, FOREST,
        )  # fmt: skip
    grows = all(a[s] <= b[s] for a, b in pairwise(measured) for s in SERIES)
    yield claim(
        "Figure 13, stars", "grow with the number of columns",
        "for every algorithm" if grows else "not for every algorithm", grows,
    )  # fmt: skip


EXPERIMENTS = (examples, limits, figure_12, figure_13)
