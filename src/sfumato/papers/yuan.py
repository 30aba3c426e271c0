"""Yuan: the two examples of the essay, its algorithm as printed, and the bound it looks for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import ceil, comb, log

import pyarrow as pa

import sfumato as sf
from sfumato.papers.reproduction import Cell, Found, Grid, adult_distinct, claim, figure

FIVE = ("x1x6x", "xx27x", "x3x8x", "xx4x9", "5xxx0")
SIX = ("1---", "22--", "3-3-", "-444", "---5", "----")
STEPS = (
    ("abcde", "yes"),
    ("abcd", "yes"),
    ("abc", "yes"),
    ("ab", "no"),
    ("bc", "no"),
    ("ac", "no"),
)


def _table(rows: Sequence[str], names: Sequence[str]) -> sf.Table:
    return sf.table(pa.table(dict(zip(names, zip(*rows, strict=True), strict=True))))


def _distinct(table: sf.Table, columns: Sequence[str]) -> int:
    return int(sf.measure(table, columns).classes)


def example_4_2(quick: bool) -> Iterator[Found]:
    """Section 4.2: minimum cover as a table."""
    six = _table(SIX, ("c1", "c2", "c3", "c4"))
    yield figure("section 4.2, different rows of {c1, c4}", 6, _distinct(six, ["c1", "c4"]))
    alike = 6 - _distinct(six, ["c1", "c2", "c3"])
    yield figure("section 4.2, rows of {c1, c2, c3} that equal another", 1, alike)
    least = sf.minimum_key(six, proven=True)
    told = "{" + ", ".join(sorted(least.columns)) + "}"
    yield claim("section 4.2, minimum cover", "{c1, c4}", told, told == "{c1, c4}")


def example_5_2(quick: bool) -> Iterator[Found]:
    """Section 5.2: five rows, step by step."""
    five = _table(FIVE, "abcde")
    for columns, says in STEPS:
        here = "yes" if _distinct(five, list(columns)) == 5 else "no"
        why = "" if here == says else "{b, c} tells all five rows apart"
        yield claim(f"section 5.2, {' '.join(columns)}", says, here, here == says, why)
    ended = "".join(sf.violations(five, k=2).identifying)
    yield claim(
        "section 5.2, where the descent ends", "{a, b, c}", "{" + ", ".join(ended) + "}",
        ended == "abc", "the step b c is printed wrongly, so the descent stops too early",
    )  # fmt: skip
    keys = sf.minimal_keys(five).keys
    told = ", ".join("{" + ", ".join(key) + "}" for key in keys)
    yield claim(
        "section 5.2, the minimum QID", "{d, e}", told, set(keys) == {("d", "e")},
        "a minimum is not unique: five sets have two columns",
    )  # fmt: skip
    single = all(_k(five, name) < 2 for name in "abcde")
    yield claim(
        "Definition 3 with k = 2, the minimum QID", "{d, e}", "every single column",
        not single, "a class of one row violates 2-anonymity; the algorithm asks for more, a key",
    )  # fmt: skip


def _k(table: sf.Table, column: str) -> int:
    return int(sf.measure(table, [column]).k or 0)


def definition_4(quick: bool) -> Iterator[Found]:
    """Section 4: the minimum, and whether it is unique."""
    five = _table(FIVE, "abcde")
    least = [set(key) for key in sf.minimal_keys(five).keys]
    yield claim(
        "section 4, the minimum QID", "is unique", f"{len(least)} of the smallest size",
        len(least) == 1, "Definition 4 does not say so",
    )  # fmt: skip


def conclusion(quick: bool) -> Iterator[Found]:
    """Section 6: a randomized minimum with a bound."""
    # A descent tries columns in random order and leaves out what it can. It ends at a given minimal
    # set if all other columns are tried before those of the set: one order of columns in C(m, s).
    rows = []
    tables = {"five rows": (_table(FIVE, "abcde"), 1_000 if quick else 10_000)}
    if not quick:
        tables["Adult"] = (sf.table(adult_distinct()), 200)
    worst = True
    for name, (table, restarts) in tables.items():
        width = len(table.columns)
        found = sf.violations(table, k=2, max_size=1, restarts=restarts, seed=1)
        least = sf.minimum_key(table, proven=True).size
        minimum = [
            key
            for key in combinations(table.columns, least)
            if _distinct(table, key) == _distinct(table, table.columns)
        ]
        sets = {tuple(entry["columns"]): entry["times"] for entry in found.descents}
        rarest = min(sets.get(key, 0) for key in minimum) / (restarts + 1)
        bound = 1 / comb(width, least)
        enough = ceil(log(100) / -log(1 - bound)) if bound < 1 else 1
        rows.append([name, width, least, len(minimum), bound, rarest, enough])
        worst &= rarest >= 0.8 * bound
    yield Grid(
        "Descents in random order: a given minimum of s columns among m is found with probability "
        "1 / C(m, s) or more, so ln(1/δ) · C(m, s) descents miss it with probability δ at most",
        ["table", "columns", "s", "minima", "bound", "rarest, measured", "descents for δ = 0.01"],
        rows,
    )  # fmt: skip
    yield Cell(
        "section 6, a randomized algorithm for the minimum", "should exist, with proper bounds",
        "found as often as 1 / C(m, s) or more" if worst else "found more rarely than the bound",
        "exact" if worst else "differs", "" if worst else "the bound is broken",
    )  # fmt: skip


EXPERIMENTS = (example_4_2, definition_4, example_5_2, conclusion)
